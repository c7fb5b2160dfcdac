// SPDX-License-Identifier: GPL-2.0
/*
 * 8 workers, which are threads of one process or 8 processes, run random operations in 64 streams.
 * Only events, value waits and semaphores order the streams: between processes, these are
 * inter-process events, words in memory that all processes open by its handle, and semaphores that
 * all import.  Blocks of the device are allocations, mappings of handles and external memory.
 * stress.h generates the programs and computes what the memory holds after each round, whatever
 * order the streams take; every byte is compared.
 *
 * A trap shows that the comparison finds a missing edge.  A gate holds up the operation before the
 * edge.  Without the edge, the operation after it runs, then the gate opens, and the comparison
 * must fail.  With the edge, that operation must not run before the gate opens, and the comparison
 * holds.
 *
 * A failure of one worker stops the others at their next operation; all workers still meet at the
 * end of every round.  No worker sleeps with a lock that another worker needs to go on.
 *
 * GPUMEM_SEED is the seed, GPUMEM_STEPS the number of operations (10000).  Traps between threads
 * try every kind of conflict; traps between processes do so only if GPUMEM_STEPS is more than
 * 10000, and else try one kind, chosen at random.  With GPUMEM_QUICK, all traps try one kind.
 */
#include <errno.h>
#include <gpumem.h>
#include <limits.h>
#include <linux/futex.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "cuda_util.h"
#include "stress.h"

#define STEPS		10000
#define WORD		64		/* bytes between words */
#define GATE		STREAMS		/* the last word */

struct worker {
	unsigned int id;
	unsigned char *copy;
};

static struct world *world;

/* Each process has its own; its threads share them. */
static CUcontext context;
static CUdeviceptr blocks[BLOCKS], words;
static CUexternalMemory external[DEVICE_BLOCKS];
static CUevent events[EVENTS];
static CUexternalSemaphore semaphores[SEMAPHORES];
static CUstream streams[STREAMS];

/* --- failures */

__attribute__((format(printf, 1, 2)))
static void fail(const char *format, ...)
{
	va_list args;

	if (__atomic_exchange_n(&world->failed, 1, __ATOMIC_SEQ_CST))
		return;
	va_start(args, format);
	vsnprintf(world->message, sizeof(world->message), format, args);
	va_end(args);
}

static bool failed(void)
{
	return __atomic_load_n(&world->failed, __ATOMIC_RELAXED);
}

/* Only the first failure is reported. */
static bool ask(CUresult result, const char *what, unsigned int number)
{
	if (result)
		fail("round %llu: %s %u: error %d", (unsigned long long)world->rounds, what,
		     number, result);
	return !result;
}

/* --- turns */

static void turn_wait(struct turn *turn, __u32 need)
{
	const struct timespec second = { 1, 0 };
	__u32 taken;

	if (__atomic_load_n(&turn->taken, __ATOMIC_SEQ_CST) >= need)
		return;
	__atomic_fetch_add(&turn->waiters, 1, __ATOMIC_SEQ_CST);
	/* The worker that should take a ticket may have failed: check now and then. */
	while ((taken = __atomic_load_n(&turn->taken, __ATOMIC_SEQ_CST)) < need && !failed())
		syscall(SYS_futex, &turn->taken, FUTEX_WAIT, taken, &second, NULL, 0);
	__atomic_fetch_sub(&turn->waiters, 1, __ATOMIC_SEQ_CST);
}

static void turn_take(struct turn *turn)
{
	__atomic_fetch_add(&turn->taken, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&turn->waiters, __ATOMIC_SEQ_CST))
		syscall(SYS_futex, &turn->taken, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* --- content */

/* Blocks of the device that are memory of a handle. */
static bool is_mapped(unsigned int block)
{
	return block < FIRST_PINNED && block / WORKERS == 5;
}

static bool is_external(unsigned int block)
{
	return block < FIRST_PINNED && block / WORKERS == 6;
}

static const char *kind_of(unsigned int block)
{
	if (is_mapped(block) || is_external(block))
		return is_mapped(block) ? "mapped" : "external";
	return block < FIRST_PINNED ? "device" : block < FIRST_PAGEABLE ? "pinned" : "pageable";
}

static void compare(const void *seen, unsigned int block, const __u32 *cells, const char *what,
		    unsigned int number)
{
	const __u32 *words_seen = seen;
	size_t n = cells_of(block) * CELL / 4, i;

	for (i = 0; i < n && words_seen[i] == cells[i / (CELL / 4)]; i++)
		;
	if (i < n)
		fail("mismatch: round %llu, %s %u: block %u (%s): word %zu is %x, not %x",
		     (unsigned long long)world->rounds, what, number, block, kind_of(block), i,
		     words_seen[i], cells[i / (CELL / 4)]);
}

static void spread(void *to, __u32 value, unsigned int cells)
{
	__u32 *p = to;

	for (size_t i = 0; i < cells * CELL / 4; i++)
		p[i] = value;
}

static CUdeviceptr cell(unsigned int block, unsigned int at)
{
	return blocks[block] + at * CELL;
}

static void compare_op(const void *seen, const struct op *op)
{
	compare(seen, op->src, world->expect[op->expect], op_names[op->kind], op - world->ops);
}

static void CUDA_CB host_function(void *arg)
{
	const struct op *op = arg;

	if (op->kind == OP_HOST_FILL)
		spread(cpu(cell(op->dst, op->dst_at)), op->value, op->width);
	else
		compare_op(cpu(blocks[op->src]), op);
}

/* --- operations */

static CUresult call_fill(const struct op *op, CUstream s)
{
	CUdeviceptr dst = cell(op->dst, op->dst_at);
	size_t width = op->width * CELL / op->elem, pitch = op->dst_pitch * CELL;

	if (op->kind == OP_FILL_2D) {
		if (op->elem == 1)
			return cuMemsetD2D8Async(dst, pitch, op->value, width, op->height, s);
		if (op->elem == 2)
			return cuMemsetD2D16Async(dst, pitch, op->value, width, op->height, s);
		return cuMemsetD2D32Async(dst, pitch, op->value, width, op->height, s);
	}
	if (op->elem == 1)
		return cuMemsetD8Async(dst, op->value, width, s);
	if (op->elem == 2)
		return cuMemsetD16Async(dst, op->value, width, s);
	return cuMemsetD32Async(dst, op->value, width, s);
}

static CUresult call_copy(const struct op *op, CUstream s)
{
	CUdeviceptr dst = cell(op->dst, op->dst_at), src = cell(op->src, op->src_at);
	size_t n = op->width * CELL;

	if (op->dst < FIRST_PINNED && op->src < FIRST_PINNED)
		return cuMemcpyDtoDAsync(dst, src, n, s);
	if (op->dst < FIRST_PINNED)
		return cuMemcpyHtoDAsync(dst, cpu(src), n, s);
	if (op->src < FIRST_PINNED)
		return cuMemcpyDtoHAsync(cpu(dst), src, n, s);
	return cuMemcpyAsync(dst, src, n, s);
}

static CUresult call_copy_2d(const struct op *op, CUstream s)
{
	const CUDA_MEMCPY2D c = {
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED, .dstDevice = cell(op->dst, op->dst_at),
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED, .srcDevice = cell(op->src, op->src_at),
		.dstPitch = op->dst_pitch * CELL, .srcPitch = op->src_pitch * CELL,
		.WidthInBytes = op->width * CELL, .Height = op->height,
	};

	return cuMemcpy2DAsync(&c, s);
}

static CUresult make_stream(unsigned int i)
{
	unsigned int flags = i / WORKERS % 3 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT;

	if (i < WORKERS) {
		streams[i] = CU_STREAM_PER_THREAD;
		return CUDA_SUCCESS;
	}
	return cuStreamCreateWithPriority(&streams[i], flags, -(int)(i / WORKERS % 4));
}

/* Replace a stream by a new one that continues after the old one's work. */
static CUresult renew(unsigned int i)
{
	CUstream old = streams[i];
	CUresult result;
	CUevent event;

	if (i < WORKERS)
		return CUDA_SUCCESS;
	result = cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	if (result)
		return result;
	result = cuEventRecord(event, old);
	if (!result)
		result = cuStreamDestroy(old);
	if (!result)
		result = make_stream(i);
	if (!result)
		result = cuStreamWaitEvent(streams[i], event, 0);
	return cuEventDestroy(event) ?: result;
}

static CUresult call_word(const struct op *op, CUstream s)
{
	CUdeviceptr word = words + (op->turn - EVENTS) * WORD;
	bool wide = op->turn & 1;

	if (op->kind == OP_WRITE_WORD)
		return wide ? cuStreamWriteValue64(s, word, op->value, 0) :
			cuStreamWriteValue32(s, word, op->value, 0);
	return wide ? cuStreamWaitValue64(s, word, op->value, CU_STREAM_WAIT_VALUE_GEQ) :
		cuStreamWaitValue32(s, word, op->value, CU_STREAM_WAIT_VALUE_GEQ);
}

static CUresult call_semaphore(const struct op *op, CUstream s)
{
	CUexternalSemaphore *semaphore = &semaphores[op->turn - FIRST_SEMAPHORE];
	CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS raise = { .params.fence.value = op->value };
	CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS await = { .params.fence.value = op->value };

	return op->kind == OP_RAISE || op->kind == OP_SIGNAL ?
		cuSignalExternalSemaphoresAsync(semaphore, &raise, 1, s) :
		cuWaitExternalSemaphoresAsync(semaphore, &await, 1, s);
}

static CUresult call(struct worker *me, const struct op *op)
{
	CUstream s = streams[op->stream];
	CUresult result;

	switch (op->kind) {
	case OP_FILL:
	case OP_FILL_2D:
		return call_fill(op, s);
	case OP_COPY:
		return call_copy(op, s);
	case OP_COPY_2D:
		return call_copy_2d(op, s);
	case OP_HTOD:
		return cuMemcpyHtoDAsync(cell(op->dst, op->dst_at),
					 cpu(cell(op->src, op->src_at)), op->width * CELL, s);
	case OP_DTOH:
		return cuMemcpyDtoHAsync(cpu(cell(op->dst, op->dst_at)),
					 cell(op->src, op->src_at), op->width * CELL, s);
	case OP_HOST_FILL:
	case OP_HOST_CHECK:
		return cuLaunchHostFunc(s, host_function, (void *)op);
	case OP_READ:
		result = cuMemcpyDtoHAsync(me->copy, blocks[op->src], op->width * CELL, s);
		if (!result)
			compare_op(me->copy, op);
		return result;
	case OP_POKE:
		spread(cpu(cell(op->dst, op->dst_at)), op->value, op->width);
		return CUDA_SUCCESS;
	case OP_PEEK:
		compare_op(cpu(blocks[op->src]), op);
		return CUDA_SUCCESS;
	case OP_RECORD:
		return cuEventRecord(events[op->turn], s);
	case OP_WAIT:
		return cuStreamWaitEvent(s, events[op->turn], 0);
	case OP_WRITE_WORD:
	case OP_WAIT_WORD:
		return call_word(op, s);
	case OP_RAISE:
	case OP_AWAIT:
	case OP_SIGNAL:
	case OP_TAKE:
		return call_semaphore(op, s);
	case OP_EVENT_SYNC:
		return cuEventSynchronize(events[op->turn]);
	case OP_QUERY:
		result = cuStreamQuery(s);
		return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
	default:
		return renew(op->stream);
	}
}

/* Called when a trap's last operation has been issued and the gate is shut; opens the gate. */
static void spring(const struct op *op)
{
	CUstream s = streams[op->stream], opener;
	CUresult result;

	if (world->trap.drop) {
		ask(cuStreamSynchronize(s), "synchronize stream", op->stream);
	} else {
		result = cuStreamQuery(s);
		if (result != CUDA_ERROR_NOT_READY)
			fail("operation %u did not wait: %d", world->trap.last, result);
	}
	if (ask(cuStreamCreate(&opener, CU_STREAM_NON_BLOCKING), "open the gate", 0)) {
		ask(cuStreamWriteValue32(opener, words + GATE * WORD, 1, 0), "open the gate", 1);
		ask(cuStreamDestroy(opener), "open the gate", 2);
	}
}

static void issue_all(struct worker *me)
{
	const struct trap *trap = &world->trap;

	for (__u32 i = 0; i < world->count && !failed(); i++) {
		const struct op *op = &world->ops[i];
		struct turn *turn = &world->turns[op->turn];

		if (owner(op->stream) != me->id)
			continue;
		__atomic_store_n(&world->at[me->id], i, __ATOMIC_RELAXED);
		turn_wait(turn, op->need);
		if (failed())
			return;
		if (trap->set && i == trap->held)
			ask(cuStreamWaitValue32(streams[op->stream], words + GATE * WORD, 1,
						CU_STREAM_WAIT_VALUE_GEQ), "gate", i);
		if (!trap->set || i != trap->wait || !trap->drop)
			ask(call(me, op), op_names[op->kind], i);
		if (op->bump)
			turn_take(turn);
		if (trap->set && i == trap->last)
			spring(op);
	}
}

/* --- workers */

static bool own(const struct worker *me, unsigned int thing)
{
	return owner(thing) == me->id;
}

static void meet(void)
{
	pthread_barrier_wait(&world->barrier);
}

#include "stress_share.h"

static bool make_block(unsigned int i)
{
	size_t size = cells_of(i) * CELL;
	CUipcMemHandle handle;
	void *p = NULL;

	if (is_mapped(i) || is_external(i))
		return make_handle(i);
	if (i < FIRST_PINNED) {
		if (!ask(cuMemAlloc(&blocks[i], size), "allocate block", i))
			return false;
		/* Threads export only some: the caller does not execute work on exported memory. */
		if (!world->processes && i % 5)
			return true;
		if (!ask(cuIpcGetMemHandle(&handle, blocks[i]), "handle of block", i))
			return false;
		world->memory[i] = handle;
		return true;
	}
	if (i < FIRST_PAGEABLE && i & WORKERS) {
		if (!ask(cuMemHostAlloc(&p, size, 0), "pin block", i))
			return false;
	} else {
		p = aligned_alloc(CELL, size);
		if (!p) {
			fail("no memory");
			return false;
		}
		if (i < FIRST_PAGEABLE && !ask(cuMemHostRegister(p, size, 0), "register block", i))
			return false;
	}
	blocks[i] = (uintptr_t)p;
	return true;
}

static void free_block(unsigned int i)
{
	if (is_mapped(i) || is_external(i)) {
		close_handle(i);
		close(world->handles[i]);
	} else if (i < FIRST_PINNED) {
		ask(cuMemFree(blocks[i]), "free block", i);
	} else if (i < FIRST_PAGEABLE && i & WORKERS) {
		ask(cuMemFreeHost(cpu(blocks[i])), "free block", i);
	} else {
		if (i < FIRST_PAGEABLE)
			ask(cuMemHostUnregister(cpu(blocks[i])), "unregister block", i);
		free(cpu(blocks[i]));
	}
}

static bool make_event(unsigned int i)
{
	bool shared = world->processes && i < SHARED_EVENTS;
	unsigned int flags = shared ? CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS :
		i / WORKERS % 2 ? CU_EVENT_DISABLE_TIMING : CU_EVENT_DEFAULT;

	if (!ask(cuEventCreate(&events[i], flags), "create event", i))
		return false;
	return !shared || ask(cuIpcGetEventHandle(&world->events[i], events[i]),
			      "handle of event", i);
}

/* Open the memory, the events and the semaphores of the other processes that all processes use. */
static void open_others(const struct worker *me)
{
	for (unsigned int i = 0; i < SEMAPHORES && !failed(); i++)
		if (!own(me, i))
			open_semaphore(i);
	for (unsigned int i = 0; i < FIRST_PINNED && !failed(); i++)
		if (!own(me, i) && (is_mapped(i) || is_external(i)))
			open_handle(i);
		else if (!own(me, i))
			ask(cuIpcOpenMemHandle(&blocks[i], world->memory[i],
					       CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
			    "open block", i);
	for (unsigned int i = 0; i < SHARED_EVENTS && !failed(); i++)
		if (!own(me, i))
			ask(cuIpcOpenEventHandle(&events[i], world->events[i]), "open event", i);
	if (me->id && !failed())
		ask(cuIpcOpenMemHandle(&words, world->words, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
		    "open words", 0);
}

static void make_words(void)
{
	if (ask(cuMemAlloc(&words, (GATE + 1) * WORD), "allocate words", 0) &&
	    ask(cuMemsetD8(words, 0, (GATE + 1) * WORD), "clear words", 0) && world->processes)
		ask(cuIpcGetMemHandle(&world->words, words), "handle of words", 0);
}

/* Write the first content of block @i, which gen_start() has put into the model. */
static void fill_block(struct worker *me, unsigned int i)
{
	unsigned char *to = i < FIRST_PINNED ? me->copy : cpu(blocks[i]);

	for (unsigned int k = 0; k < cells_of(i); k++)
		spread(to + k * CELL, world->model[i][k], 1);
	if (i < FIRST_PINNED)
		ask(cuMemcpyHtoD(blocks[i], me->copy, cells_of(i) * CELL), "fill block", i);
}

static void check_block(struct worker *me, unsigned int i)
{
	size_t size = cells_of(i) * CELL;

	if (i >= FIRST_PINNED)
		compare(cpu(blocks[i]), i, world->model[i], "end", world->count);
	else if (ask(cuMemcpyDtoHAsync(me->copy, blocks[i], size, streams[me->id + WORKERS]),
		     "read block", i))
		compare(me->copy, i, world->model[i], "end", world->count);
}

static void work_round(struct worker *me)
{
	issue_all(me);
	for (unsigned int i = me->id; i < STREAMS && !failed(); i += WORKERS)
		ask(cuStreamSynchronize(streams[i]), "synchronize stream", i);
	meet();
	/* All processes see the same device memory, so the worker that checks a block changes. */
	for (unsigned int i = 0; i < BLOCKS && !failed(); i++)
		if (own(me, i < FIRST_PINNED ? i + world->rounds : i))
			check_block(me, i);
	meet();
}

/*
 * A worker's life.  After a failure a worker leaves its objects to the end of the process, but
 * meets the others at every barrier.
 */
static void work(struct worker *me)
{
	bool processes = world->processes, last, over;
	__u64 began;

	me->copy = malloc(MOST_CELLS * CELL);
	if (!me->copy)
		fail("no memory");
	if (processes && !failed())
		ask(cuda_start(&context), "start process", me->id);
	else if (!failed())
		ask(cuCtxSetCurrent(context), "start thread", me->id);
	for (unsigned int i = me->id; i < BLOCKS && !failed(); i += WORKERS)
		make_block(i);
	for (unsigned int i = me->id; i < EVENTS && !failed(); i += WORKERS)
		make_event(i);
	for (unsigned int i = me->id; i < SEMAPHORES && !failed(); i += WORKERS)
		make_semaphore(i);
	for (unsigned int i = me->id; i < STREAMS && !failed(); i += WORKERS)
		ask(make_stream(i), "create stream", i);
	if (!me->id && !failed())
		make_words();
	meet();
	if (processes && !failed())
		open_others(me);
	for (unsigned int i = me->id; i < BLOCKS && !failed(); i += WORKERS)
		fill_block(me, i);
	if (!failed())
		ask(cuCtxSynchronize(), "synchronize", 0);
	/* No worker reads the model while the generator changes it. */
	meet();
	do {
		if (!me->id)
			gen_round();
		meet();
		/* Read it before worker 0 can make the next round. */
		last = world->stop;
		began = mono_ns();
		work_round(me);
		if (!me->id)
			world->ns += mono_ns() - began;
	} while (!last && !failed());
	over = failed();
	meet();
	if (over)
		return;
	for (unsigned int i = 0; processes && i < FIRST_PINNED; i++)
		if (!own(me, i) && (is_mapped(i) || is_external(i)))
			close_handle(i);
		else if (!own(me, i))
			ask(cuIpcCloseMemHandle(blocks[i]), "close block", i);
	if (processes && me->id)
		ask(cuIpcCloseMemHandle(words), "close words", 0);
	meet();
	for (unsigned int i = me->id; i < BLOCKS; i += WORKERS)
		free_block(i);
	for (unsigned int i = 0; i < EVENTS; i++)
		if (own(me, i) || (processes && i < SHARED_EVENTS))
			ask(cuEventDestroy(events[i]), "destroy event", i);
	for (unsigned int i = 0; i < SEMAPHORES; i++) {
		if (own(me, i) || processes)
			ask(cuDestroyExternalSemaphore(semaphores[i]), "destroy semaphore", i);
		if (own(me, i))
			close(world->semaphores[i]);
	}
	for (unsigned int i = me->id + WORKERS; i < STREAMS; i += WORKERS)
		ask(cuStreamDestroy(streams[i]), "destroy stream", i);
	if (!me->id)
		ask(cuMemFree(words), "free words", 0);
	free(me->copy);
}

static void *thread(void *arg)
{
	work(arg);
	return NULL;
}

/* --- a monitor: it prints each worker's operation when no worker has gone on for half a minute */

#define LOOK	30		/* seconds */
#define LOOKS	8		/* without progress: abort */

static void *monitor(void *arg)
{
	__u32 seen[WORKERS] = { 0 };
	unsigned int still = 0;
	struct timespec when;

	for (;;) {
		clock_gettime(CLOCK_MONOTONIC, &when);
		when.tv_sec += LOOK;
		if (!sem_clockwait(arg, CLOCK_MONOTONIC, &when))
			return NULL;
		still++;
		for (unsigned int i = 0; i < WORKERS; i++) {
			__u32 at = __atomic_load_n(&world->at[i], __ATOMIC_RELAXED);

			if (at != seen[i])
				still = 0;
			seen[i] = at;
		}
		for (unsigned int i = 0; still && i < WORKERS; i++) {
			const struct op *op = &world->ops[seen[i]];

			fprintf(stderr, "# round %llu, worker %u: %s %u, stream %u: %u of %u\n",
				(unsigned long long)world->rounds, i, op_names[op->kind], seen[i],
				op->stream, world->turns[op->turn].taken, op->need);
		}
		if (still == LOOKS)
			abort();
	}
}

static void run_threads(void)
{
	struct worker workers[WORKERS];
	pthread_t threads[WORKERS];

	if (!ask(cuda_start(&context), "start", 0))
		return;
	for (unsigned int i = 0; i < WORKERS; i++) {
		workers[i] = (struct worker) { .id = i };
		if (pthread_create(&threads[i], NULL, thread, &workers[i])) {
			/* The other workers would wait for this one for ever. */
			fprintf(stderr, "# no thread\n");
			abort();
		}
	}
	for (unsigned int i = 0; i < WORKERS; i++)
		pthread_join(threads[i], NULL);
	/*
	 * The release waits for all work.  After a failure, some of that may wait for operations
	 * that were not issued.
	 */
	if (!failed())
		ask(cuDevicePrimaryCtxRelease(0), "end", 0);
}

static int process(void *arg)
{
	struct worker me = { .id = (uintptr_t)arg };

	world->pids[me.id] = getpid();
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	work(&me);
	if (!failed())
		ask(cuDevicePrimaryCtxRelease(0), "end process", me.id);
	return 0;
}

static void wait_processes(const pid_t *pids)
{
	int status;

	for (unsigned int i = 0; i < WORKERS; i++) {
		if (wait(&status) > 0 && !status)
			continue;
		/* The other workers may wait for this process for ever. */
		fail("a process ended with status %x", status);
		for (unsigned int k = 0; k < WORKERS; k++)
			if (pids[k] > 0)
				kill(pids[k], SIGKILL);
	}
}

/* Run rounds of programs, or one trap; after a failure false, and world->message says why. */
static bool run(bool processes, __u64 steps, const struct trap *trap, const struct rng *rng)
{
	pthread_barrierattr_t shared;
	pthread_t watch;
	bool watched;
	sem_t over;

	world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (world == MAP_FAILED) {
		perror("# mmap");
		abort();
	}
	world->processes = processes;
	world->steps = steps;
	if (trap)
		world->trap = *trap;
	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&world->barrier, &shared, WORKERS);
	gen_start(world, rng);
	sem_init(&over, 0, 0);
	if (processes) {
		pid_t pids[WORKERS];

		for (unsigned int i = 0; i < WORKERS; i++)
			pids[i] = start_child(process, (void *)(uintptr_t)i);
		watched = !pthread_create(&watch, NULL, monitor, &over);
		wait_processes(pids);
	} else {
		watched = !pthread_create(&watch, NULL, monitor, &over);
		run_threads();
	}
	sem_post(&over);
	if (watched)
		pthread_join(watch, NULL);
	return !failed();
}

FIXTURE(stress)
{
	struct rng rng;
};

FIXTURE_VARIANT(stress)
{
	bool processes;
};

FIXTURE_VARIANT_ADD(stress, threads) { .processes = false };
FIXTURE_VARIANT_ADD(stress, processes) { .processes = true };

FIXTURE_SETUP(stress)
{
	ASSERT_TRUE(dev_quiet(10));
	rng_start(&self->rng, variant->processes ? "processes" : "threads");
}

QUIET_AFTERWARDS(stress)

/* The limit of the whole program (settings) applies. */
TEST_F_TIMEOUT(stress, random, 100000)
{
	__u64 steps = env_number("GPUMEM_STEPS", STEPS);

	ASSERT_NE(0, steps);
	EXPECT_TRUE(run(variant->processes, steps, NULL, &self->rng)) {
		TH_LOG("%s", world->message);
	}
	if (failed())
		return;
	EXPECT_LE(steps, world->done);
	printf("# %llu operations in %llu rounds, %llu per second:",
	       (unsigned long long)world->done, (unsigned long long)world->rounds,
	       (unsigned long long)(world->done * NSEC / (world->ns + 1)));
	for (unsigned int i = 0; i < OP_KINDS; i++) {
		printf(" %s %llu%s", op_names[i], (unsigned long long)world->kinds[i],
		       i + 1 < OP_KINDS ? "," : "\n");
		if (steps >= STEPS) {
			EXPECT_LT(0, world->kinds[i]);
		}
	}
}

/* --- without an edge the comparison fails, with it the gate holds */

FIXTURE(trap)
{
	struct rng rng;
};

FIXTURE_VARIANT(trap)
{
	bool processes;
	enum edge edge;
};

FIXTURE_VARIANT_ADD(trap, event) { .edge = EVENT_EDGE };
FIXTURE_VARIANT_ADD(trap, word) { .edge = WORD_EDGE };
FIXTURE_VARIANT_ADD(trap, semaphore) { .edge = SEMAPHORE_EDGE };
FIXTURE_VARIANT_ADD(trap, ipc_event) { .processes = true, .edge = EVENT_EDGE };
FIXTURE_VARIANT_ADD(trap, ipc_word) { .processes = true, .edge = WORD_EDGE };
FIXTURE_VARIANT_ADD(trap, ipc_semaphore) { .processes = true, .edge = SEMAPHORE_EDGE };

FIXTURE_SETUP(trap)
{
	ASSERT_TRUE(dev_quiet(10));
	rng_start(&self->rng, "trap");
}

QUIET_AFTERWARDS(trap)

static bool trap_works(bool processes, enum edge edge, enum hazard hazard, const struct rng *rng)
{
	struct trap trap = { .hazard = hazard, .edge = edge };

	/* Starting processes takes long on a slow kernel. */
	bool both = !processes || !getenv("GPUMEM_QUICK");

	if (both && !run(processes, ROUND, &trap, rng)) {
		printf("# with all edges: %s\n", world->message);
		return false;
	}
	if (both && !world->trap.set) {
		printf("# no operation has the wanted edge\n");
		return false;
	}
	trap.drop = true;
	if (run(processes, ROUND, &trap, rng) || strncmp(world->message, "mismatch", 8)) {
		printf("# without operation %u: %s\n", world->trap.wait,
		       failed() ? world->message : "the same content");
		return false;
	}
	return true;
}

struct attempt {
	bool processes;
	enum edge edge;
	enum hazard hazard;
	const struct rng *rng;
};

/* Runs in a child: a run without the edge leaves its context behind. */
static int attempt(void *arg)
{
	const struct attempt *a = arg;
	bool works = trap_works(a->processes, a->edge, a->hazard, a->rng);

	fflush(stdout);
	return !works;
}

TEST_F_TIMEOUT(trap, every_conflict, 120)
{
	static const enum hazard all[] = {
		READ_AFTER_WRITE, WRITE_AFTER_READ, WRITE_AFTER_WRITE,
	};
	bool some = getenv("GPUMEM_QUICK") ||
		(variant->processes && env_number("GPUMEM_STEPS", STEPS) <= STEPS);
	unsigned int one = rng_below(&self->rng, ARRAY_SIZE(all));

	for (unsigned int i = 0; i < ARRAY_SIZE(all); i++) {
		struct attempt a = { variant->processes, variant->edge, all[i], &self->rng };

		if (some && i != one)
			continue;
		EXPECT_EQ(0, run_child(attempt, &a)) {
			TH_LOG("conflict %u", i);
		}
	}
}

TEST_HARNESS_MAIN
