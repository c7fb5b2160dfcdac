// SPDX-License-Identifier: MIT
/*
 * Holds: places in a queue at which the CPU has something to do.
 *
 * A hold is an entry that waits: the entries behind it are executed when the CPU has released the hold. The CPU
 * may begin when the queue has reached the hold, because all earlier entries are done then. A thread of the
 * library is notified by an entry before the hold. A thread of the program that waits by itself puts the hold
 * alone.
 *
 * A queue with holds has a timeline of its own. Each hold waits for a value of that timeline, which releasing
 * the hold signals. The holds of a queue are released in the order in which they were begun.
 *
 * Four users: host functions (hostfn.c), work that threads of the library do in stream order (work.c), threads of the
 * program that must do something themselves in a busy stream (order.c), and gates (schedule.c).
 *
 * Locks: hold_lock for the numbers of holds and the list of queues with holds; inside a stream's lock.
 */
#include <errno.h>

#include "exec/exec.h"

struct lock hold_lock;
struct queue *hold_queues;

/* Prepare a queue for holds. hold_lock is held. */
static CUresult hold_prepare(struct queue *queue)
{
	struct gpumem_timeline_create create = { .size = sizeof(create) };
	int error;

	if (queue->hold_timeline)
		return CUDA_SUCCESS;
	error = client_ioctl(GPUMEM_TIMELINE_CREATE, &create);
	if (error)
		return result_of_errno(error);
	queue->hold_timeline = create.id;
	queue->next_held = hold_queues;
	store_release(&hold_queues, queue);
	return CUDA_SUCCESS;
}

CUresult hold_begin_locked(struct queue *queue, struct hold *hold)
{
	CUresult result = hold_prepare(queue);

	if (result)
		return result;
	hold->queue = queue;
	hold->release = ++queue->last_release;
	/* The notifying entry comes after this value, so the hold is reached when the thread is notified. */
	hold->value = load_relaxed(&queue->tail);
	return CUDA_SUCCESS;
}

CUresult hold_begin(struct queue *queue, struct hold *hold)
{
	CUresult result;

	lock_take(&hold_lock);
	result = hold_begin_locked(queue, hold);
	lock_drop(&hold_lock);
	return result;
}

void hold_put_alone(const struct hold *hold)
{
	const struct gpumem_sqe wait = {
		.op = GPUMEM_OP_WAIT, .handle = hold->queue->hold_timeline, .value = hold->release,
	};

	ring_put(hold->queue, &wait);
}

void hold_put(const struct hold *hold, uint32_t tell)
{
	const struct gpumem_sqe add = { .op = GPUMEM_OP_ADD, .handle = tell, .value = 1 };

	ring_put(hold->queue, &add);
	hold_put_alone(hold);
}

bool hold_reached(const struct hold *hold)
{
	return queue_reached(hold->queue, hold->value);
}

/* Errors for want of memory: the same call may succeed a moment later. */
static bool signal_again(int error)
{
	return error == ENOMEM || error == EAGAIN;
}

void hold_release(const struct hold *hold)
{
	struct gpumem_timeline_signal signal = {
		.size = sizeof(signal), .id = hold->queue->hold_timeline, .value = hold->release,
	};

	tsan_signalled();
	/*
	 * No other call releases the hold, so try until memory is free. Other errors mean that the timeline is
	 * gone.
	 */
	while (unlikely(signal_again(client_ioctl(GPUMEM_TIMELINE_SIGNAL, &signal))))
		thread_nap();
}
