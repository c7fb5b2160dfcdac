// SPDX-License-Identifier: MIT
/*
 * Host functions: functions of the program that run in stream order.
 *
 * A function takes two entries in the ring: the first notifies the host thread that the queue has reached
 * the function, the second waits until the function has run (a hold, hold.c). The first entries add one to a
 * timeline of the process, for which the host thread waits. The process has one host thread, which starts with
 * the first function. It runs one function at a time, in the order of each stream.
 *
 * After work of the queue has failed, host functions are left out, and callbacks get the error. The kernel
 * still executes the first entry (ADD), but not the second. A thread that synchronizes with the failed queue
 * therefore waits for the host thread directly.
 *
 * A host function may call only functions of the API that work on streams and events which the program
 * names: CALL() checks host_thread. A call that waits for a stream checks from time to time whether the
 * stream depends on the host function, directly or through other streams (host_blocks()). NVIDIA's driver then
 * waits for ever; this library returns NOT_PERMITTED.
 *
 * The host thread lives as long as the process, because queued functions would never run otherwise. If the
 * kernel refuses the thread's wait, the thread reports that once and looks for calls every millisecond.
 *
 * Locks: hold_lock for the lists of calls; inside a stream's lock, and not held while a function runs.
 *
 * Vocabulary: call, a function that has been submitted and has not run.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "exec/exec.h"

struct hostcall {
	struct hostcall *next;
	CUhostFn fn;			/* or NULL: then callback is the function */
	CUstreamCallback callback;
	void *arg;
	CUstream handle;		/* as the program gave it */
	struct hold hold;
};

static bool host_started;		/* hold_lock */
static uint32_t host_ready;		/* timeline that counts calls so far; constant once started */

/* ---- the thread */

/* The first call that a queue has reached, taken from its list. */
static struct hostcall *call_take(struct queue *queue)
{
	struct hostcall *call;

	lock_take(&hold_lock);
	call = queue->calls;
	if (call && hold_reached(&call->hold)) {
		queue->calls = call->next;
		queue->call_taken = call->hold.release;
		if (!queue->calls)
			queue->last_call = NULL;
	} else {
		call = NULL;
	}
	lock_drop(&hold_lock);
	return call;
}

static void call_run(struct queue *queue, struct hostcall *call)
{
	const struct hold hold = call->hold;
	CUresult status = queue_status(queue);

	/* The function may use managed memory as if it had synchronized with the stream. */
	attach_synced();
	if (unlikely(client.tap))
		client.tap->host_function(call->handle, call->fn ? (void *)call->fn : (void *)call->callback, call->arg);
	if (!call->fn)
		call->callback(call->handle, status, call->arg);
	else if (!status)
		call->fn(call->arg);
	free(call);
	store_release(&queue->call_over, hold.release);
	attach_resumed();
	hold_release(&hold);
}

static bool run_some(void)
{
	struct queue *queue;
	bool any = false;

	lock_take(&hold_lock);
	queue = hold_queues;
	lock_drop(&hold_lock);
	for (; queue; queue = queue->next_held) {
		struct hostcall *call;

		while ((call = call_take(queue))) {
			call_run(queue, call);
			any = true;
		}
	}
	return any;
}

static void *host_main(void *arg)
{
	struct gpumem_timeline_wait wait = {
		.size = sizeof(wait), .id = host_ready, .value = 1, .deadline = ~0ull,
	};

	(void)arg;
	host_thread = true;
	for (;;) {
		thread_wait(&wait, "gpumem-host");
		while (run_some())
			;
	}
	return NULL;
}

/* hold_lock is held. */
static CUresult host_start(void)
{
	struct gpumem_timeline_create create = { .size = sizeof(create) };
	CUresult result;

	if (host_started)
		return CUDA_SUCCESS;
	result = result_of_errno(client_ioctl(GPUMEM_TIMELINE_CREATE, &create));
	if (result)
		return result;
	host_ready = create.id;
	result = thread_make(host_main, NULL, "gpumem-host", 0);
	if (result)
		client_destroy_id(host_ready);
	else
		host_started = true;
	return result;
}

/* Put a call's entries into the ring; there is room for both. stream->lock is held. */
static CUresult call_put(struct queue *queue, struct hostcall *call)
{
	struct hold hold;
	CUresult result;

	lock_take(&hold_lock);
	result = host_start();
	if (!result)
		result = hold_begin_locked(queue, &call->hold);
	if (!result) {
		hold = call->hold;
		if (queue->last_call)
			queue->last_call->next = call;
		else
			queue->calls = call;
		queue->last_call = call;
	}
	lock_drop(&hold_lock);
	/* The call may have run already, because another call has notified the thread. */
	if (!result)
		hold_put(&hold, host_ready);
	return result;
}

/* ---- waiting in the thread */

/* The entry that a queue is executing on its way to @goal. False if the queue is at @goal or has just advanced. */
static bool entry_now(struct queue *queue, uint64_t goal, struct gpumem_sqe *sqe)
{
	uint64_t value = load_acquire(&queue->page->value);

	if (value >= goal || value >= load_acquire(&queue->tail))
		return false;
	/* A slot is reused after its entry is done. The page's value has changed then, which is checked below. */
	if (!queue_entry(queue, value, sqe))
		return false;
	fence_full();
	return load_relaxed(&queue->page->value) == value;
}

/* Whether an entry waits for a function that has not returned. */
static bool waits_for_call(struct queue *queue, const struct gpumem_sqe *sqe)
{
	struct hostcall *call = NULL;
	bool taken = false;

	lock_take(&hold_lock);
	if (queue->hold_timeline && sqe->handle == queue->hold_timeline) {
		taken = queue->call_taken == sqe->value &&
			load_acquire(&queue->call_over) < sqe->value;
		for (call = queue->calls; call && call->hold.release != sqe->value; call = call->next)
			;
	}
	lock_drop(&hold_lock);
	return taken || call;
}

/* The state of a hold, for host_pauses(). hold_lock is held. */
static enum host_pause hold_state(const struct queue *queue, uint64_t release)
{
	const struct hostcall *call;

	if (load_acquire(&queue->call_over) >= release)
		return HOST_OVER;
	if (queue->call_taken == release)
		return HOST_PAUSED;
	for (call = queue->calls; call; call = call->next)
		if (call->hold.release == release)
			return HOST_PAUSED;
	return HOST_RUNS;
}

enum host_pause host_pauses(const struct queue *queue, const struct gpumem_sqe *sqe)
{
	if (sqe->op == GPUMEM_OP_ADD && host_started && sqe->handle == host_ready)
		return HOST_OVER;
	if (sqe->op == GPUMEM_OP_WAIT && queue->hold_timeline && sqe->handle == queue->hold_timeline)
		return hold_state(queue, sqe->value);
	return HOST_RUNS;
}

bool host_blocks(struct queue *queue, uint64_t value)
{
	struct gpumem_sqe sqe;
	unsigned int steps;

	/*
	 * An entry never waits for later work, so the loop ends. Other threads may write to the rings
	 * at the same time. If the loop finds a queue waiting for a call, that queue is still waiting, and
	 * so are the queues through which the loop came.
	 */
	for (steps = 0; queue && steps < 4096; steps++) {
		if (queue_status(queue) || !entry_now(queue, value, &sqe) ||
		    sqe.op != GPUMEM_OP_WAIT)
			return false;
		if (waits_for_call(queue, &sqe))
			return true;
		queue = queue_of_timeline(sqe.handle);
		value = sqe.value;
	}
	return false;
}

void host_settle(struct queue *queue, uint64_t value)
{
	struct gpumem_timeline_wait wait = { .size = sizeof(wait), .deadline = ~0ull };
	const struct timespec nap = { .tv_nsec = 100000 };
	struct hostcall *call;
	uint64_t last;

	if (host_thread)
		return;
	lock_take(&hold_lock);
	wait.id = queue->hold_timeline;
	wait.value = queue->last_release;
	last = queue->call_taken;
	for (call = queue->calls; call; call = call->next) {
		if (call->hold.value >= value) {
			wait.value = call->hold.release - 1;
			break;
		}
		last = call->hold.release;
	}
	lock_drop(&hold_lock);
	schedule_wait_begin();
	while (wait.id && client_ioctl(GPUMEM_TIMELINE_WAIT, &wait) == ETIMEDOUT)
		;
	schedule_wait_end();
	/* Entries of a failed queue do not wait: work behind a call may complete before the call. */
	while (load_acquire(&queue->call_over) < last)
		nanosleep(&nap, NULL);
}

static CUresult host_submit(CUstream stream, struct hostcall *call)
{
	struct queue *queue;
	CUresult result = stream_begin(stream);

	if (result) {
		free(call);
		return result;
	}
	result = stream_prepare(stream, &queue);
	if (!result) {
		result = queue_room(queue, 2);
		if (!result)
			result = call_put(queue, call);
		if (result)
			free(call);
		result = ring_finish(queue, result);
	} else {
		free(call);
	}
	lock_drop(&stream->lock);
	return result;
}

CUresult host_call(CUstream handle, bool own, CUhostFn fn, CUstreamCallback callback, void *arg)
{
	struct hostcall *call;
	CUstream stream;
	CUresult result = stream_get(handle, own, &stream);

	if (result)
		return result;
	call = calloc(1, sizeof(*call));
	if (!call)
		return CUDA_ERROR_OUT_OF_MEMORY;
	call->fn = fn;
	call->callback = callback;
	call->arg = arg;
	call->handle = handle;
	return host_submit(stream, call);
}
