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
 *   for IDLE_NS, because it may be reading memory until a value changes.
 * - A fault (core/fault.h) that delays a stream, or stops it. A thread of the library opens these gates.
 *
 * The library's own queues (strict mode, staging, workers) have no gates.
 *
 * Locks: step_lock for one step at a time. gate_lock for the lists of gates, inside step_lock and a stream's lock.
 * No lock of this file is held while a thread waits for anything but the step's own operation.
 *
 * Vocabulary: gate, ready, step: see above. Lazy: a seed that takes no step that no thread waits for.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "exec/exec.h"

#define MS		1000000ull
#define IDLE_NS		(500 * MS)
#define STEP_NS		(200 * MS)	/* most time for which a step waits for its operation */
#define POLL_NS		(5 * MS)	/* the same for an operation that waits for a word of memory */
#define PAUSE_MS	2

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
	struct gate *first, **last;	/* gate_lock */
};

static struct lock step_lock, gate_lock;
static struct gated *gated_list;	/* gate_lock to write; atomic */
static unsigned int gates;		/* number of closed gates; gate_lock to write; atomic */
static uint32_t gates_put;		/* counts the gates so far; gate_lock to write; a futex */
static bool started;			/* the thread runs; gate_lock */
static uint32_t waiting;		/* threads between schedule_wait_begin() and _end(); atomic */
static uint64_t last_call;		/* when a function was called or a thread waited; atomic */

/* The seed's choices; constant. */
static uint64_t seed;
static bool towards;			/* steps of a waiting thread prefer what it waits for */
static uint32_t eager;			/* of 2^32: how probable each step at a call is; 0: lazy */
static uint64_t drawn;			/* random numbers so far; step_lock */

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static uint64_t draw(void)
{
	return fault_random(seed, ++drawn);
}

static bool schedule_start(void)
{
	static const uint32_t often[] = { 0, UINT32_MAX / 8, UINT32_MAX / 2, UINT32_MAX / 8 * 7 };
	const char *text = getenv("GPUMEM_SCHEDULE");
	char *end;

	if (!text || !*text)
		return false;
	seed = strtoull(text, &end, 0);
	if (*end) {
		fprintf(stderr, "gpumem: GPUMEM_SCHEDULE is not a number: %.64s\n", text);
		return false;
	}
	eager = often[draw() % 4];
	towards = draw() % 2;
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

	if (!gate || !hold_reached(&gate->hold) || gate->stays)
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

/* Whether the queue's present entry waits for another queue of the process. */
static bool queue_blocked(struct queue *queue, bool *polls)
{
	uint64_t value = load_acquire(&queue->page->value);
	struct gpumem_sqe sqe;
	struct queue *other;

	*polls = false;
	if (value >= load_acquire(&queue->tail) || !queue_entry(queue, value, &sqe))
		return false;
	*polls = sqe.op == GPUMEM_OP_POLL || sqe.op == GPUMEM_OP_TAKE;
	if (sqe.op != GPUMEM_OP_WAIT)
		return false;
	other = queue_of_timeline(sqe.handle);
	return other && !queue_reached(other, sqe.value);
}

/* Wait until a queue is at its next gate or its end, or is blocked. True: it advanced. */
static bool queue_settles(struct gated *gated)
{
	struct queue *queue = gated->queue;
	uint64_t before = load_acquire(&queue->page->value), begin = now_ns(), goal;
	bool polls;

	for (;;) {
		lock_take(&gate_lock);
		goal = gated->first ? gated->first->hold.value : load_acquire(&queue->tail);
		lock_drop(&gate_lock);
		if (queue_reached(queue, goal) || queue_blocked(queue, &polls) || queue_failed(queue))
			break;
		if (now_ns() - begin > (polls ? POLL_NS : STEP_NS))
			break;
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

	for (hops = 0; queue && hops < 64; hops++) {
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

/* A queue with a ready gate, by the next random number. gate_lock is held. */
static struct gated *gated_any(void)
{
	struct gated *gated;
	unsigned int ready = 0, chosen;

	for (gated = gated_list; gated; gated = gated->next)
		ready += gate_ready(gated);
	if (!ready)
		return NULL;
	chosen = draw() % ready;
	for (gated = gated_list; gated; gated = gated->next)
		/* A delay may have ended meanwhile: then another queue is as good. */
		if (gate_ready(gated) && !chosen--)
			return gated;
	return NULL;
}

/* Open one gate, and wait for its operation. @goal: what the calling thread waits for, or NULL. False: none is ready. */
static bool step(struct queue *goal)
{
	struct gated *gated;
	struct gate *gate;

	lock_take(&step_lock);
	lock_take(&gate_lock);
	gated = goal && towards ? gated_before(goal) : NULL;
	if (!gated)
		gated = gated_any();
	gate = gated ? gate_take(gated) : NULL;
	lock_drop(&gate_lock);
	if (gate) {
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

	store_relaxed(&last_call, now_ns());
	if (host_thread || !gates_closed())
		return;
	/* A program that asks whether work is done may ask until it is. */
	if (strstr(name, "Query"))
		step(NULL);
	do {
		lock_take(&step_lock);
		again = eager && (uint32_t)draw() < eager;
		lock_drop(&step_lock);
	} while (again && step(NULL));
}

bool schedule_wait(struct queue *queue, uint64_t value)
{
	while (!queue_reached(queue, value)) {
		store_relaxed(&last_call, now_ns());
		if (!step(queue))
			return true;
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
		if (!client.scheduled)
			open_due();
		else if (load_relaxed(&waiting) || now_ns() - load_relaxed(&last_call) > IDLE_NS)
			step(NULL);
	}
	return NULL;
}

/* ---- making gates */

/* Add a gate to the list of its queue. gate_lock is held. */
static CUresult gate_add(struct gate *gate)
{
	struct gated *gated = gated_of(gate->hold.queue);
	CUresult result = CUDA_SUCCESS;

	if (!started)
		result = thread_make(gate_main, NULL, "gpumem-gate", 0);
	if (result)
		return result;
	started = true;
	if (!gated) {
		gated = calloc(1, sizeof(*gated));
		if (!gated)
			return CUDA_ERROR_OUT_OF_MEMORY;
		gated->queue = gate->hold.queue;
		gated->last = &gated->first;
		gated->next = gated_list;
		store_release(&gated_list, gated);
	}
	*gated->last = gate;
	gated->last = &gate->next;
	store_relaxed(&gates, gates + 1);
	word_change(&gates_put, true);
	return CUDA_SUCCESS;
}

static CUresult gate_put(struct queue *queue, uint64_t delay, bool stays)
{
	struct gate *gate;
	struct hold hold;
	CUresult result = queue_room(queue, 1);

	if (result)
		return result;
	gate = calloc(1, sizeof(*gate));
	if (!gate)
		return CUDA_ERROR_OUT_OF_MEMORY;
	gate->delay = delay;
	gate->stays = stays;
	result = hold_begin(queue, &gate->hold);
	if (result) {
		free(gate);
		return result;
	}
	hold = gate->hold;
	lock_take(&gate_lock);
	result = gate_add(gate);
	lock_drop(&gate_lock);
	/* Holds are released in order, so a hold that was begun must be put and released. */
	hold_put_alone(&hold);
	if (result) {
		hold_release(&hold);
		free(gate);
	}
	return result;
}

CUresult schedule_gate(struct queue *queue)
{
	uint64_t delay = fault_now.delay * MS;
	bool stays = fault_now.hang;

	fault_now.delay = 0;
	fault_now.hang = false;
	/* A function of the program that runs in stream order may not wait for gates. */
	if (host_thread || !(client.scheduled || delay || stays))
		return CUDA_SUCCESS;
	return gate_put(queue, delay, stays);
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
