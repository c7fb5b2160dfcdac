/* SPDX-License-Identifier: MIT */
/*
 * Exclusion between the legacy stream and the blocking streams of its context. order.c has the rules.
 */
#ifndef GPUMEM_EXEC_ORDER_H
#define GPUMEM_EXEC_ORDER_H

#include "exec/wait.h"

/*
 * stream_begin() is stream_lock() for a caller that touches memory, inline or by entries. Until the caller drops
 * the lock or calls order_rest(), the streams that this stream excludes do nothing inline and put no entry
 * (order.c).
 */
void order_enter(CUstream stream);
static inline CUresult stream_begin(CUstream stream)
{
	CUresult result = stream_lock(stream);

	fence_locked();
	if (likely(!result) && unlikely(!load_acquire(&stream->legacy_done)))
		order_enter(stream);
	return result;
}

/*
 * List a blocking stream as used, and find out whether the legacy stream has nothing to wait for. False
 * if the legacy stream is running. stream->lock is held.
 */
bool order_check_legacy(CUstream stream);
/* Remove a stream that is being destroyed from the list of used streams. stream->lock is held. */
void order_leave(CUstream stream);
/*
 * Before an entry is put into @stream: if it is the legacy stream, empty the list of used streams, so that they
 * look for the entry. stream->lock is held.
 */
void order_before_legacy(CUstream stream);

/*
 * Call these before and after waiting, with the lock of @queue's stream held, until @queue has reached @value.
 * @value is 0 if the caller waits for something else: stream_lock() in a host function then does not check
 * whether the wait is for that function. Excluded threads continue meanwhile, so order_renew() must come before
 * the next entry that touches memory. ring_kick() must come before order_rest(). For a queue without a stream
 * the functions only set queue->awaited.
 */
void order_rest(struct queue *queue, uint64_t value);
void order_resume(struct queue *queue);
/*
 * Put a hold of the calling thread into a queue. After success order_release() must follow. stream->lock
 * is held.
 * In a host function the hold blocks nothing.
 */
CUresult order_hold(struct queue *queue, struct hold *hold);
/* Wait until the queue has reached the hold: all entries before the hold are done. stream->lock is held. */
CUresult order_wait(const struct hold *hold);
void order_release(const struct hold *hold);
/* Whether any thread of the program has an unreleased hold, in whichever context. */
bool order_unfinished(void);
/* The calling thread runs @now in stream order: inline if the stream is idle, else at a hold. No lock is held. */
CUresult order_call(CUstream stream, void (*now)(const void *arg), const void *arg);

/* The slow path of stream_begin_idle(). The lock is held on entry, and dropped if this returns true. */
bool stream_busy(CUstream stream, unsigned int waits, CUresult *result);
/*
 * stream_begin(), then check that the stream is idle. @waits: how often to wait for a busy stream. True: the
 * stream is idle and its lock is held. False: the lock is not held; the stream is busy, or *@result is an error.
 */
static inline bool stream_begin_idle(CUstream stream, unsigned int waits, CUresult *result)
{
	*result = stream_begin(stream);
	if (unlikely(*result))
		return false;
	if (likely(stream_idle(stream)))
		return true;
	if (waits)
		return !stream_busy(stream, waits, result);
	lock_drop(&stream->lock);
	return false;
}

#endif /* GPUMEM_EXEC_ORDER_H */
