/* SPDX-License-Identifier: MIT */
/*
 * Submission: how an entry gets from a thread into a kernel stream's ring.
 *
 * The caller holds the lock of the stream that owns the queue; nobody else writes the ring. An
 * entry is written into its slot, then the ring's tail is stored with release semantics, then,
 * after a full barrier, the worker's flag is read: the worker sets the flag, then, after a full
 * barrier of its own, reads the tail, so that one of the two sees the other. No system call is made
 * unless the worker sleeps or the ring is full.
 *
 * Vocabulary: value, the number of entries that a queue had submitted after some entry: the entry
 * is done when the timeline page shows at least this value. Values never fall, also when another
 * stream takes the queue over.
 */
#ifndef GPUMEM_RING_H
#define GPUMEM_RING_H

#include "internal.h"

/* Whether the entries up to @value are done. What they wrote is visible to the caller then. */
static inline bool queue_reached(const struct queue *queue, uint64_t value)
{
	if (load_acquire(&queue->page->value) < value)
		return false;
	heard_of_kernel();
	return true;
}

/* Whether everything submitted so far is done. */
static inline bool queue_idle(const struct queue *queue)
{
	return queue_reached(queue, load_acquire(&queue->tail));
}

/* Whether a handle is a stream that the program made, of a context in good order. */
static inline bool stream_plain(CUstream handle)
{
	return likely((uintptr_t)handle >= PAGE) &&
	       likely(load_acquire(&handle->plain) == STREAM_PLAIN) &&
	       likely(!load_relaxed(&handle->ctx->sticky));
}

/*
 * Whether it is idle and its next operation waits for nothing.  False means that it takes a longer
 * look.
 */
static inline bool stream_easy(CUstream stream)
{
	struct queue *queue = load_acquire(&stream->queue);

	if (queue && !queue_idle(queue))
		return false;
	/* The legacy stream clears the word, then looks whether the lock is taken (order.c). */
	fence_locked();
	return load_acquire(&stream->clear);
}

/* Whether there is nothing to wait for and nothing to tell about a stream. */
static inline bool stream_quiet(CUstream handle)
{
	struct queue *queue;

	if (!stream_plain(handle))
		return false;
	queue = load_acquire(&handle->queue);
	return !queue || (queue_idle(queue) && likely(!load_relaxed(&queue->page->error)));
}

/*
 * Write an entry without waking the worker. ring_kick() must follow, whatever else fails: others
 * wait for the entry as soon as it is there. It must come before the caller waits for other work,
 * which may be waiting for this entry.
 */
static inline CUresult ring_put(struct queue *queue, const struct gpumem_sqe *sqe)
{
	uint64_t tail = load_relaxed(&queue->tail);

	/* What is under way stays in the ring, to be seen by host_holds(). */
	if (unlikely(tail - load_acquire(&queue->page->value) >= QUEUE_ENTRIES)) {
		CUresult result = queue_room(queue, 1);

		if (result)
			return result;
		/* Waits may have been put. */
		tail = load_relaxed(&queue->tail);
	}
	queue->sqes[tail % QUEUE_ENTRIES] = *sqe;
	store_release(&queue->ring->tail, tail + 1);
	store_release(&queue->tail, tail + 1);
	return CUDA_SUCCESS;
}

/* Let the worker know of what was put since the last time. */
static inline CUresult ring_kick(struct queue *queue)
{
	uint64_t tail = load_relaxed(&queue->tail);
	CUresult result = CUDA_SUCCESS;

	if (queue->kicked == tail)
		return CUDA_SUCCESS;
	/* Pairs with the worker, and with the walks of active.c. */
	fence_full();
	if (unlikely(load_relaxed(&queue->listed) != LISTED_ACTIVE))
		active_add(queue);
	if (load_relaxed(&queue->page->flags) & GPUMEM_TIMELINE_NEED_WAKEUP)
		result = queue_doorbell(queue);
	if (!result)
		queue->kicked = tail;
	return result;
}

/* The end of a submission; @result says how it went so far. */
static inline CUresult ring_finish(struct queue *queue, CUresult result)
{
	CUresult kicked = ring_kick(queue);

	return result ? result : kicked;
}

#endif /* GPUMEM_RING_H */
