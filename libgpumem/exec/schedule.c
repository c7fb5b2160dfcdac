// SPDX-License-Identifier: MIT
/*
 * Schedules: the library chooses when operations of streams run, in any order that CUDA allows.
 *
 * Each operation that is put into a stream has a gate before it: a hold (hold.c) that the library releases. A gate is
 * ready once its queue has reached it, so every earlier operation of the stream, and what the stream waits for, is
 * done. Opening a ready gate is a step. Two users:
 *
 * - GPUMEM_SCHEDULE=SEED: each step takes one ready gate, which a random number of the seed chooses, and lasts until
 *   the operation is done or waits for another one. So operations run one at a time, and a program whose calls come in
 *   the same order has the same schedule with the same seed. Steps are taken when a function of the API is called, how
 *   many depends on the seed; when a thread waits, until its wait is over; and when the program has called nothing
 *   for a while (program_idle()), because it may be reading memory until a value changes.
 * - A fault (core/fault.h) that delays a stream, or stops it. A thread of the library opens these gates.
 *
 * The library's own queues (strict mode, staging, workers) and the helpers of streams have no gates. The threads of the
 * library take no steps, but for the thread of this file.
 *
 * What makes a schedule depend on time: an operation that takes longer than STEP_NS, or waits for longer than POLL_NS for
 * another process or for a word that the CPU does not reach. The step ends then, and the operation runs beside the next
 * ones.
 *
 * Locks: step_lock for one step at a time, held while the step's operation runs. gate_lock for the lists of gates,
 * inside step_lock and a stream's lock.
 *
 * Vocabulary: gate, ready, step: see above. Lazy: a seed under which few steps are taken but by threads that wait.
 * Stuck: a queue that does not advance before another gate opens.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "exec/exec.h"

#define MS		1000000ull
#define IDLE_NS		(500 * MS)
#define IDLE_CPU_NS	(100 * MS)	/* of the program's own time: a machine that is busy is no reason */
#define SLEEP_NS	(2000 * MS)	/* a program that sleeps */
#define STEP_NS		(1000 * MS)	/* most time for which a step waits for its operation */
#define POLL_NS		(10 * MS)	/* the same for an operation that waits for memory or another process */
#define PAUSE_MS	2
#define LAZY_CALLS	256		/* a lazy seed takes a step at each such call, for programs that poll memory */
#define MOST_HOPS	64u

struct gate {
	struct gate *next;
	struct hold hold;
	uint64_t delay;			/* ns from when the gate is ready to when it may open */
	uint64_t due;			/* when it may open, or 0: not known yet */
	bool stays;			/* it does not open until the rules change */
};

/* The gates of a queue, in order. Never freed. */
struct gated {
	struct gated *next;		/* gate_lock to write; atomic */
	struct queue *queue;		/* constant */
	uint64_t stream;		/* id of the stream that put the last gate; gate_lock, as the next one */
	struct gate *first, **last;
	uint64_t slow;			/* value at which a step did not wait any longer, or 0; step_lock */
};

static struct lock step_lock, gate_lock;
static struct gated *gated_list;	/* gate_lock to write; atomic */
static unsigned int gates;		/* number of closed gates; gate_lock to write; atomic */
static uint32_t gates_put;		/* counts the gates so far; gate_lock to write; a futex */
static bool started;			/* the thread runs; gate_lock */
static uint32_t waiting;		/* threads between schedule_wait_begin() and _end(); atomic */
static uint64_t last_call;		/* when a function was called or a thread waited; atomic, as the next one */
static uint64_t last_cpu;		/* the process's time on processors then */
static uint32_t calls_since;		/* calls since the last step; atomic */

/* The seed's choices; constant. */
static uint64_t seed;
static enum choice {
	CHOOSE_ANY,			/* by the next random number */
	CHOOSE_NEEDED,			/* what a waiting thread waits for, else any */
	CHOOSE_FAVOURITE,		/* the stream that the seed favours most: others starve */
} choice;
static uint32_t eager;			/* of 2^32: probability of another step at each call; 0: lazy */
static uint64_t drawn;			/* random numbers so far; step_lock */

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* The program calls a function, or waits in one. */
static void note_call(void)
{
	store_relaxed(&last_call, now_ns());
	store_relaxed(&last_cpu, clock_ns(CLOCK_PROCESS_CPUTIME_ID));
}

/* Whether the program has called nothing for so long that it may be waiting for memory to change. */
static bool program_idle(void)
{
	/* Read the times of the last call first: a call may begin now. */
	uint64_t call = load_acquire(&last_call), cpu = load_acquire(&last_cpu);
	uint64_t idle = now_ns() - call;

	return idle > SLEEP_NS || (idle > IDLE_NS && clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu > IDLE_CPU_NS);
}

static uint64_t draw(void)
{
	return fault_random(seed, ++drawn);
}

static bool schedule_start(void)
{
	static const uint32_t often[] = { 0, 0, UINT32_MAX / 8, UINT32_MAX / 2 };
	const char *text = secure_getenv("GPUMEM_SCHEDULE");
	char *end;

	if (!text || !*text)
		return false;
	errno = 0;
	seed = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end || errno) {
		fprintf(stderr, "gpumem: GPUMEM_SCHEDULE is not a number: %.64s\n", text);
		return false;
	}
	eager = often[draw() % 4];
	choice = draw() % 3;
	return true;
}

/* ---- the gates of a queue */

/* gate_lock is held, or the caller tolerates that another thread adds a queue. */
static struct gated *gated_of(const struct queue *queue)
{
	struct gated *gated;

	for (gated = load_acquire(&gated_list); gated && gated->queue != queue; gated = load_acquire(&gated->next))
		;
	return gated;
}

/* Whether a queue's first gate may open. gate_lock is held. */
static bool gate_ready(struct gated *gated)
{
	struct gate *gate = gated->first;

	if (!gate || !hold_reached(&gate->hold))
		return false;
	/* A failed queue executes nothing. */
	if (queue_failed(gated->queue))
		return true;
	if (gate->stays)
		return false;
	if (!gate->delay)
		return true;
	if (!gate->due)
		gate->due = now_ns() + gate->delay;
	return now_ns() >= gate->due;
}

/* Take a queue's first gate out of the list. gate_lock is held. */
static struct gate *gate_take(struct gated *gated)
{
	struct gate *gate = gated->first;

	gated->first = gate->next;
	if (!gated->first)
		gated->last = &gated->first;
	store_relaxed(&gates, gates - 1);
	return gate;
}

static void gate_open(struct gate *gate)
{
	hold_release(&gate->hold);
	free(gate);
}

/* ---- steps */

enum progress {
	MOVES,				/* the queue advances, or is idle */
	POLLS,				/* it waits for memory or for another process */
	STUCK,
};

/* Whether the word that an entry waits for compares. */
static enum progress poll_progress(const struct gpumem_sqe *sqe)
{
	uint64_t word = 0;
	struct iovec here = { .iov_base = &word, .iov_len = sqe->elem };
	struct iovec there = { .iov_base = (void *)(uintptr_t)sqe->dst, .iov_len = sqe->elem };

	/* The CPU may not reach the word, and the memory may be gone: a load would raise a signal. */
	if (sqe->elem > sizeof(word) || process_vm_readv(getpid(), &here, 1, &there, 1, 0) != (ssize_t)sqe->elem)
		return POLLS;
	return memop_compares(sqe, word) ? MOVES : STUCK;
}

/* Whether a queue advances by itself. gate_lock is held. */
static enum progress queue_progress(struct queue *queue)
{
	unsigned int hops;

	for (hops = 0; hops < MOST_HOPS; hops++) {
		uint64_t value = load_acquire(&queue->page->value);
		struct gated *gated = gated_of(queue);
		struct gpumem_sqe sqe;

		if (value >= load_acquire(&queue->tail) || !queue_entry(queue, value, &sqe) || queue_failed(queue))
			return MOVES;
		if (sqe.op == GPUMEM_OP_POLL)
			return poll_progress(&sqe);
		if (sqe.op != GPUMEM_OP_WAIT)
			return MOVES;
		if (queue->hold_timeline && sqe.handle == queue->hold_timeline)
			return gated && gated->first && hold_reached(&gated->first->hold) &&
				sqe.value == gated->first->hold.release ? STUCK : MOVES;
		/* The ring is not read any more once the queue has advanced: then look again. */
		if (load_acquire(&queue->page->value) != value)
			return MOVES;
		queue = queue_of_timeline(sqe.handle);
		if (!queue)
			return POLLS;
		if (queue_reached(queue, sqe.value))
			return MOVES;
	}
	return STUCK;
}

/* Wait until a queue is at its next gate or its end, or is stuck. True: it advanced. step_lock is held. */
static bool queue_settles(struct gated *gated)
{
	struct queue *queue = gated->queue;
	uint64_t before = load_acquire(&queue->page->value), begin = now_ns(), goal;
	enum progress progress;

	/* An earlier step has waited for this entry. */
	if (gated->slow && gated->slow == before)
		return false;
	gated->slow = 0;
	for (;;) {
		lock_take(&gate_lock);
		goal = gated->first ? gated->first->hold.value : load_acquire(&queue->tail);
		progress = queue_progress(queue);
		lock_drop(&gate_lock);
		if (queue_reached(queue, goal) || progress == STUCK || queue_failed(queue))
			break;
		if (now_ns() - begin > (progress == POLLS ? POLL_NS : STEP_NS)) {
			/* What waits for memory may go on after any step. */
			if (progress != POLLS)
				gated->slow = load_acquire(&queue->page->value);
			break;
		}
		lock_doze();
	}
	return load_acquire(&queue->page->value) != before;
}

/* Wait until all queues are at a gate, at their end, or blocked. step_lock is held. */
static void queues_settle(void)
{
	struct gated *gated;
	bool any;

	do {
		any = false;
		for (gated = load_acquire(&gated_list); gated; gated = load_acquire(&gated->next))
			any |= queue_settles(gated);
	} while (any);
}

/* The queue with a ready gate that a queue waits for, through others; NULL if there is none. gate_lock is held. */
static struct gated *gated_before(struct queue *queue)
{
	unsigned int hops;

	for (hops = 0; queue && hops < MOST_HOPS; hops++) {
		struct gated *gated = gated_of(queue);
		struct gpumem_sqe sqe;

		if (gated && gate_ready(gated))
			return gated;
		if (!queue_entry(queue, load_acquire(&queue->page->value), &sqe) || sqe.op != GPUMEM_OP_WAIT)
			return NULL;
		queue = queue_of_timeline(sqe.handle);
	}
	return NULL;
}

static uint64_t favour(const struct gated *gated)
{
	return fault_random(~seed, gated->stream);
}

/* A queue with a ready gate, as the seed chooses. Queues count in the order of their streams. gate_lock is held. */
static struct gated *gated_any(void)
{
	struct gated *gated, *found = NULL;
	unsigned int ready = 0, chosen;

	for (gated = gated_list; gated; gated = gated->next) {
		if (!gate_ready(gated))
			continue;
		ready++;
		if (choice == CHOOSE_FAVOURITE && (!found || favour(gated) > favour(found)))
			found = gated;
	}
	if (!ready || found)
		return found;
	for (chosen = draw() % ready + 1; chosen; chosen--) {
		struct gated *next = NULL;

		for (gated = gated_list; gated; gated = gated->next)
			if (gate_ready(gated) && (!found || gated->stream > found->stream) &&
			    (!next || gated->stream < next->stream))
				next = gated;
		/* Two queues of one stream, or a delay that ended meanwhile. */
		if (!next)
			break;
		found = next;
	}
	return found;
}

/*
 * Open one gate, and wait for its operation. @goal: what the calling thread waits for, or NULL. @idle: only if the program
 * calls nothing. False: no gate is ready.
 */
static bool step(struct queue *goal, bool idle)
{
	struct gated *gated;
	struct gate *gate;

	lock_take(&step_lock);
	/* Another thread may have been in a step since the caller looked. */
	if (idle && !load_relaxed(&waiting) && !program_idle()) {
		lock_drop(&step_lock);
		return false;
	}
	lock_take(&gate_lock);
	gated = goal && choice == CHOOSE_NEEDED ? gated_before(goal) : NULL;
	if (!gated)
		gated = gated_any();
	gate = gated ? gate_take(gated) : NULL;
	lock_drop(&gate_lock);
	if (gate) {
		store_relaxed(&calls_since, 0);
		gate_open(gate);
		queues_settle();
	}
	lock_drop(&step_lock);
	return gate;
}

static bool gates_closed(void)
{
	return load_relaxed(&gates);
}

static void schedule_call(const char *name)
{
	bool again;

	note_call();
	if (host_thread || !gates_closed())
		return;
	/* A program that asks whether work is done, or that calls anything while it polls, may do so until it is. */
	if (strstr(name, "Query") || __atomic_add_fetch(&calls_since, 1, __ATOMIC_RELAXED) >= LAZY_CALLS)
		step(NULL, false);
	do {
		lock_take(&step_lock);
		again = eager && (uint32_t)draw() < eager;
		lock_drop(&step_lock);
	} while (again && step(NULL, false));
	note_call();
}

bool schedule_wait(struct queue *queue, uint64_t value)
{
	/* A step may wait for what this thread does. */
	if (worker_thread || host_thread)
		return true;
	while (!queue_reached(queue, value)) {
		note_call();
		if (!step(queue, false))
			return true;
		note_call();
	}
	return false;
}

void schedule_wait_begin(void)
{
	__atomic_fetch_add(&waiting, 1, __ATOMIC_RELAXED);
}

void schedule_wait_end(void)
{
	__atomic_fetch_sub(&waiting, 1, __ATOMIC_RELAXED);
}

/* ---- the thread */

/* Open the gates of faults that are due. */
static void open_due(void)
{
	struct gated *gated;

	for (gated = load_acquire(&gated_list); gated; gated = load_acquire(&gated->next)) {
		struct gate *gate = NULL;

		lock_take(&gate_lock);
		if (gate_ready(gated))
			gate = gate_take(gated);
		lock_drop(&gate_lock);
		if (gate)
			gate_open(gate);
	}
}

static void *gate_main(void *arg)
{
	(void)arg;
	for (;;) {
		uint32_t seen = load_acquire(&gates_put);

		if (!gates_closed())
			word_await(&gates_put, seen);
		thread_nap();
		/* All threads of the program may be waiting for a stream that a rule stopped. */
		if (client.faults)
			fault_renew();
		if (!client.scheduled)
			open_due();
		else if (load_relaxed(&waiting) || program_idle())
			step(NULL, true);
	}
	return NULL;
}

/* ---- making gates */

/* The list of a queue's gates, made at first use, and the thread that opens gates. NULL: no memory. gate_lock is held. */
static struct gated *gated_get(struct queue *queue)
{
	struct gated *gated = gated_of(queue);

	if (!started && thread_make(gate_main, NULL, "gpumem-gate", 0))
		return NULL;
	started = true;
	if (gated)
		return gated;
	gated = calloc(1, sizeof(*gated));
	if (!gated)
		return NULL;
	gated->queue = queue;
	gated->last = &gated->first;
	gated->next = gated_list;
	store_release(&gated_list, gated);
	return gated;
}

static CUresult gate_put(struct queue *queue, uint64_t delay, bool stays)
{
	struct gate *gate;
	struct gated *gated;
	struct hold hold;
	CUresult result = queue_room(queue, 1);

	if (result)
		return result;
	gate = calloc(1, sizeof(*gate));
	if (!gate)
		return CUDA_ERROR_OUT_OF_MEMORY;
	gate->delay = delay;
	gate->stays = stays;
	lock_take(&gate_lock);
	gated = gated_get(queue);
	lock_drop(&gate_lock);
	result = gated ? hold_begin(queue, &gate->hold) : CUDA_ERROR_OUT_OF_MEMORY;
	if (result) {
		free(gate);
		return result;
	}
	/* Nothing fails from here on: a hold that was begun must be put, and be released in its turn. */
	hold = gate->hold;
	lock_take(&gate_lock);
	if (queue->stream)
		gated->stream = queue->stream->id;
	*gated->last = gate;
	gated->last = &gate->next;
	store_relaxed(&gates, gates + 1);
	word_change(&gates_put, true);
	lock_drop(&gate_lock);
	hold_put_alone(&hold);
	return CUDA_SUCCESS;
}

CUresult schedule_gate(struct queue *queue)
{
	uint64_t delay = fault_now.delay * MS;
	bool stays = fault_now.hang;
	CUresult result;

	/* A function of the program that runs in stream order may not wait for gates. */
	if (host_thread || !(client.scheduled || delay || stays))
		return CUDA_SUCCESS;
	fault_now.delay = 0;
	fault_now.hang = false;
	result = gate_put(queue, delay, stays);
	if (!result && delay)
		fault_done(FAULT_DELAY);
	if (!result && stays)
		fault_done(FAULT_HANG);
	return result;
}

CUresult schedule_pause(struct queue *queue)
{
	return host_thread ? CUDA_SUCCESS : gate_put(queue, PAUSE_MS * MS, false);
}

/* ---- what faults ask for */

static void lose_context(CUresult error)
{
	CUcontext ctx = ctx_top();

	if (ctx)
		ctx_fail(ctx, error);
}

static void resume_streams(void)
{
	struct gated *gated;
	struct gate *gate;

	lock_take(&gate_lock);
	for (gated = gated_list; gated; gated = gated->next)
		for (gate = gated->first; gate; gate = gate->next) {
			gate->stays = false;
			gate->delay = 0;
		}
	lock_drop(&gate_lock);
}

const struct fault_hooks schedule_hooks = {
	.start = schedule_start, .call = schedule_call, .lose = lose_context, .resume = resume_streams,
};
