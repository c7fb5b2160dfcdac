// SPDX-License-Identifier: GPL-2.0
/*
 * Blocks of the stream-ordered allocator that the checker sees late: the programs allocate and free without another call
 * in between.  Each also runs with stacks, where the checker sees every call.
 */
#include "kselftest_harness.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>

#include "check/check_util.h"

#define ROUNDS	200

static void pairs(CUstream stream, size_t bytes)
{
	CUdeviceptr m;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		OK(cuMemAllocAsync(&m, bytes, stream));
		OK(cuMemFreeAsync(m, stream));
	}
}

/* A freed block of which the checker saw no allocation: others have the blocks that it saw. */
static CUdeviceptr freed(CUstream stream, size_t bytes)
{
	CUdeviceptr m, other[2];

	pairs(stream, bytes);
	OK(cuMemAllocAsync(&other[0], bytes, stream));
	OK(cuMemAllocAsync(&other[1], bytes, stream));
	OK(cuMemAllocAsync(&m, bytes, stream));
	OK(cuMemFreeAsync(m, stream));
	OK(cuMemFreeAsync(other[1], stream));
	OK(cuMemFreeAsync(other[0], stream));
	return m;
}

TWIN(pairs_of_sizes)
{
	CUdeviceptr m[8];
	size_t bytes;
	int i;

	for (bytes = 512; bytes <= 1 << 20; bytes *= 2)
		pairs(w->a, bytes);
	for (i = 0; i < 8; i++)
		OK(cuMemAllocAsync(&m[i], BYTES, w->a));
	for (i = 0; i < 8; i++)
		OK(cuMemFreeAsync(m[i], w->a));
	pairs(w->b, BYTES);
}

MISTAKE(used_after_pairs, "use-after-free")
{
	CUdeviceptr m = freed(w->a, BYTES);

	WRONG(cuMemsetD8Async(m, 1, BYTES, w->a));
}

MISTAKE(freed_twice_after_pairs, "double-free")
{
	CUdeviceptr m = freed(w->a, BYTES);

	WRONG(cuMemFreeAsync(m, w->a));
}

MISTAKE(freed_twice_by_the_host_after_pairs, "double-free")
{
	CUdeviceptr m = freed(w->a, BYTES);

	WRONG(cuMemFree(m));
}

MISTAKE(smaller_block_after_pairs, "out-of-bounds")
{
	CUdeviceptr m;

	pairs(w->a, BYTES);
	OK(cuMemAllocAsync(&m, BYTES - 1, w->a));
	if (!WRONG(cuMemsetD8Async(m, 1, BYTES, w->a)))
		_exit(3);
	OK(cuMemFreeAsync(m, w->a));
}

MISTAKE(kept_after_pairs, "leak")
{
	CUdeviceptr m;

	pairs(w->a, BYTES);
	OK(WRONG(cuMemAllocAsync(&m, BYTES, w->a)));
}

/* The block is in no list any more. */
MISTAKE(kept_after_pairs_were_seen, "leak")
{
	CUdeviceptr m;

	pairs(w->a, BYTES);
	OK(cuStreamSynchronize(w->a));
	OK(WRONG(cuMemAllocAsync(&m, BYTES, w->a)));
}

MISTAKE(used_in_another_stream_after_pairs, "use-before-allocation")
{
	CUdeviceptr m;

	pairs(w->a, BYTES);
	OK(cuMemAllocAsync(&m, BYTES, w->a));
	OK(WRONG(cuMemsetD8Async(m, 1, BYTES, w->b)));
	OK(cuStreamSynchronize(w->b));
	OK(cuMemFreeAsync(m, w->a));
}

MISTAKE(freed_in_another_stream_after_pairs, "unordered-free")
{
	CUdeviceptr m;

	pairs(w->a, BYTES);
	OK(cuMemAllocAsync(&m, BYTES, w->a));
	OK(WRONG(cuMemFreeAsync(m, w->b)));
}

MISTAKE(pool_block_kept_after_pairs, "leak")
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	CUmemoryPool pool;
	CUdeviceptr m;
	int i;

	OK(cuMemPoolCreate(&pool, &props));
	for (i = 0; i < ROUNDS; i++) {
		OK(cuMemAllocFromPoolAsync(&m, BYTES, pool, w->a));
		OK(cuMemFreeAsync(m, w->a));
	}
	OK(WRONG(cuMemAllocFromPoolAsync(&m, BYTES, pool, w->a)));
	OK(cuMemPoolDestroy(pool));
	OK(cuMemFreeAsync(m, w->a));
}

/* ---- threads */

static CUdeviceptr passed[ROUNDS];
static CUstream shared;
static CUcontext everyone;

static void *allocates(void *arg)
{
	int i;

	(void)arg;
	OK(cuCtxSetCurrent(everyone));
	for (i = 0; i < ROUNDS; i++)
		OK(cuMemAllocAsync(&passed[i], BYTES, shared));
	return NULL;
}

static void run_thread(void *(*body)(void *arg), void *arg)
{
	pthread_t thread;

	pthread_create(&thread, NULL, body, arg);
	pthread_join(thread, NULL);
}

TWIN(blocks_of_a_thread_that_ended)
{
	int i;

	shared = w->a;
	everyone = w->ctx;
	run_thread(allocates, NULL);
	for (i = 0; i < ROUNDS; i++) {
		if (i % 2)
			OK(cuMemsetD8Async(passed[i], 1, BYTES, w->a));
		OK(cuMemFreeAsync(passed[i], w->a));
	}
}

static void *allocates_one(void *arg)
{
	OK(cuCtxSetCurrent(everyone));
	OK(cuMemAllocAsync(arg, BYTES, shared));
	return NULL;
}

MISTAKE(block_of_a_thread_that_ended_is_used_unordered, "use-before-allocation")
{
	CUdeviceptr m;

	shared = w->a;
	everyone = w->ctx;
	run_thread(allocates_one, &m);
	OK(WRONG(cuMemsetD8Async(m, 1, BYTES, w->b)));
	OK(cuStreamSynchronize(w->b));
	OK(cuMemFreeAsync(m, w->a));
}

/* Pairs of each thread in its own stream, with other calls now and then; blocks go from thread to thread. */
struct worker {
	pthread_t thread;
	struct worker *other;
	CUdeviceptr inbox;		/* atomic */
	unsigned int seed;
	bool keeps;			/* a block, at its end */
};

static int working;			/* workers; atomic */

static int *worker_line;

static void *works(void *arg)
{
	struct worker *self = arg;
	CUdeviceptr m, none = 0;
	CUstream own;
	int i;

	OK(cuCtxSetCurrent(everyone));
	OK(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
	for (i = 0; i < 20 * ROUNDS; i++) {
		OK(cuMemAllocAsync(&m, 512u << rand_r(&self->seed) % 4, own));
		switch (rand_r(&self->seed) % 32) {
		case 0:
			OK(cuMemsetD8Async(m, 1, 512, own));
			break;
		case 1:
			OK(cuStreamSynchronize(own));
			if (__atomic_compare_exchange_n(&self->other->inbox, &none, m, false, __ATOMIC_RELEASE,
							__ATOMIC_RELAXED))
				continue;
			none = 0;
			break;
		}
		OK(cuMemFreeAsync(m, own));
		m = __atomic_exchange_n(&self->inbox, 0, __ATOMIC_ACQUIRE);
		if (m)
			OK(cuMemFreeAsync(m, own));
	}
	if (self->keeps)
		OK((*worker_line = __LINE__, cuMemAllocAsync(&m, 512, own)));
	OK(cuStreamSynchronize(own));
	OK(cuStreamDestroy(own));
	__atomic_fetch_sub(&working, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void work(struct program *w, bool keeps)
{
	struct worker worker[4];
	int i;

	everyone = w->ctx;
	worker_line = w->line;
	working = 4;
	for (i = 0; i < 4; i++)
		worker[i] = (struct worker) { .other = &worker[(i + 1) % 4], .seed = i, .keeps = keeps };
	for (i = 0; i < 4; i++)
		pthread_create(&worker[i].thread, NULL, works, &worker[i]);
	/* Other calls, which take the lists meanwhile. */
	while (__atomic_load_n(&working, __ATOMIC_ACQUIRE))
		OK(cuMemcpyDtoD(w->q, w->p, BYTES));
	for (i = 0; i < 4; i++)
		pthread_join(worker[i].thread, NULL);
	for (i = 0; i < 4; i++)
		if (worker[i].inbox)
			OK(cuMemFreeAsync(worker[i].inbox, w->a));
}

TWIN(threads)
{
	work(w, false);
}

/* One report of four blocks. */
MISTAKE(threads_keep_a_block, "leak")
{
	work(w, true);
}

/* ---- signals and fork() */

static sigjmp_buf leaves;

static void handler(int signal)
{
	siglongjmp(leaves, signal);
}

/* The driver writes to an address that faults before it has allocated, and the handler leaves the call. */
MISTAKE(handler_leaves_a_call, "double-free")
{
	struct sigaction action = { .sa_handler = handler };
	CUdeviceptr m, *fault = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	pairs(w->a, BYTES);
	sigaction(SIGSEGV, &action, NULL);
	if (!sigsetjmp(leaves, 1)) {
		OK(cuMemAllocAsync(fault, BYTES, w->a));
		abort();
	}
	m = freed(w->a, BYTES);
	WRONG(cuMemFreeAsync(m, w->a));
}

TWIN(forked_child)
{
	int status;
	pid_t pid;

	pairs(w->a, BYTES);
	pid = fork();
	if (!pid) {
		CUdeviceptr m;

		_exit(cuMemAllocAsync(&m, BYTES, w->a) != CUDA_ERROR_NOT_INITIALIZED);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		abort();
}

TEST_HARNESS_MAIN
