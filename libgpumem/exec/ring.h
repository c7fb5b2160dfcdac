/* SPDX-License-Identifier: MIT */
/*
 * Submission: how an entry gets from a thread into a kernel stream's ring.
 *
 * The caller holds the lock of the stream that owns the queue, so no other thread writes the ring. An entry is
 * written into its slot, then the ring's tail is stored with release semantics, then, after a full barrier, the
 * worker's flag (GPUMEM_TIMELINE_NEED_WAKEUP) is read. The kernel's worker sets the flag, then, after a full
 * barrier of its own, reads the tail. So at least one of the two sees the other's store. No system call is made
 * unless the worker sleeps, the ring is full, or the entry is the first in a page of the ring.
 *
 * queue->ready is a number of entries: the slots up to it are free and in memory. queue_room() raises it. An
 * entry stays in the ring until it is done, so that host_blocks() can see it. queue_room() asks for the memory
 * of a page before the first entry in it is written, so a call for which there is no memory fails before it has
 * put anything. Touching such a page without asking would end the process (SIGBUS).
 *
 * Vocabulary: value, of an entry: the number of entries up to and including it. The entry is done
 * when the timeline page shows at least this value. Values never fall, also when another stream takes
 * the queue over. Kick: notify the worker.
 */
#ifndef GPUMEM_RING_H
#define GPUMEM_RING_H

#include "exec/stream.h"

/* Whether the entries up to @value are complete. If so, the caller sees everything that they wrote. */
static inline bool queue_reached(const struct queue *queue, uint64_t value)
{
	if (load_acquire(&queue->page->value) < value)
		return false;
	tsan_reached();
	return true;
}

/* Whether everything submitted so far is done. */
static inline bool queue_idle(const struct queue *queue)
{
	return queue_reached(queue, load_acquire(&queue->tail));
}

/* Whether a handle is plain: a stream that the program made, of a context without a sticky error. */
static inline bool stream_plain(CUstream handle)
{
	return likely((uintptr_t)handle >= PAGE) &&
	       likely(load_acquire(&handle->plain) == STREAM_PLAIN) &&
	       likely(!load_relaxed(&handle->ctx->sticky));
}

/*
 * Whether a stream is idle: all that its next operation must wait for is done. False means that the caller
 * must ask stream_idle().
 */
static inline bool stream_idle_fast(CUstream stream)
{
	struct queue *queue = load_acquire(&stream->queue);

	if (queue && !queue_idle(queue))
		return false;
	/* The legacy stream clears the word, then looks whether the lock is taken (order.c). */
	fence_locked();
	return load_acquire(&stream->legacy_done);
}

/*
 * Whether synchronizing does nothing: the handle is plain, its queue is idle, and there is no failure to report.
 */
static inline bool stream_synced(CUstream handle)
{
	struct queue *queue;

	if (!stream_plain(handle))
		return false;
	queue = load_acquire(&handle->queue);
	return !queue || (queue_idle(queue) && likely(!load_relaxed(&queue->page->error)));
}

/*
 * Write an entry without waking the worker. ring_kick() must follow, whatever else fails, because
 * other queues wait for the entry from now on. It must come before the caller waits for other work,
 * which may be waiting for this entry.
 */
static inline CUresult ring_put(struct queue *queue, const struct gpumem_sqe *sqe)
{
	uint64_t tail = load_relaxed(&queue->tail);

	if (unlikely(tail >= queue->ready)) {
		CUresult result = queue_room(queue, 1);

		if (result)
			return result;
		/* queue_room() may have put waits. */
		tail = load_relaxed(&queue->tail);
	}
	queue->sqes[tail % QUEUE_ENTRIES] = *sqe;
	store_release(&queue->ring->tail, tail + 1);
	store_release(&queue->tail, tail + 1);
	return CUDA_SUCCESS;
}

/* Notify the worker of the entries that were put since the last ring_kick(). */
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

/* End a submission with ring_kick(), even if an earlier step failed with @result. The first error counts. */
static inline CUresult ring_finish(struct queue *queue, CUresult result)
{
	CUresult kicked = ring_kick(queue);

	return result ? result : kicked;
}

#endif /* GPUMEM_RING_H */
