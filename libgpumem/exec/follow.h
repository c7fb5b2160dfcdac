/* SPDX-License-Identifier: MIT */
/*
 * The waits that a queue needs before its next entry. follow.c has the rules.
 */
#ifndef GPUMEM_EXEC_FOLLOW_H
#define GPUMEM_EXEC_FOLLOW_H

#include "exec/stream.h"

/*
 * Return the stream's queue in *@queue, made at first use, after putting the waits for other streams into it.
 * stream->lock is held. If this succeeds, the caller ends with ring_finish().
 */
CUresult stream_prepare(CUstream stream, struct queue **queue);
/* Only put the waits, for a queue that the stream has. */
CUresult stream_follow(CUstream stream, struct queue *queue);
/* Put the waits again if the lock's holder rested since stream_prepare(). */
static inline CUresult order_renew(struct queue *queue)
{
	return likely(!queue->rested) ? CUDA_SUCCESS : stream_follow(queue->stream, queue);
}
/*
 * The moment at which the stream's next operation could begin. *@queue is NULL if it could begin now; otherwise
 * the moment is when *@queue reaches *@value. May submit waits. No lock is held.
 */
CUresult stream_moment(CUstream stream, struct queue **queue, uint64_t *value);
/*
 * Have another device's engine execute an entry in the order of the stream. The caller has called stream_prepare(), and
 * ends with ring_finish(). stream->lock is held.
 */
CUresult stream_delegate(CUstream stream, struct queue *queue, CUdevice device,
			 const struct gpumem_sqe *sqe);
/* Make the next entries of @queue wait until @other has reached @value. The lock of @queue's stream is held. */
CUresult queue_follow(struct queue *queue, struct queue *other, uint64_t value);
/* Whether waits make the entries behind @at in @queue run after @other has reached @value. */
bool queue_follows(struct queue *queue, uint64_t at, struct queue *other, uint64_t value);
/* The highest value of @other that the next entries of @queue wait for, by waits already in @queue; 0 if none. */
uint64_t queue_followed(struct queue *queue, struct queue *other);

#endif /* GPUMEM_EXEC_FOLLOW_H */
