/* SPDX-License-Identifier: MIT */
/*
 * Waiting for work, and the results with which work ended. wait.c has the rules.
 */
#ifndef GPUMEM_EXEC_WAIT_H
#define GPUMEM_EXEC_WAIT_H

#include "exec/stream.h"

/* How often a waiting host function checks whether it waits for itself; the longest doze. */
#define HOST_LOOK_NS	1000000u

/*
 * Wait until the queue has reached @value, and return its context's error. NOT_PERMITTED in a host
 * function that the queue waits for.
 */
CUresult queue_wait(struct queue *queue, uint64_t value);
/* queue_wait() that sleeps without polling first. */
CUresult queue_sleep(struct queue *queue, uint64_t value);
/* queue_wait(). Also after a failure, the host functions up to @value have then run or were left out. */
CUresult queue_settle(struct queue *queue, uint64_t value);
/* Wait until the queue has reached @value, for a millisecond at most. */
void queue_doze(struct queue *queue, uint64_t value);
/* Record that the process knows that a queue has reached @value (wait.c). */
void queue_know(struct queue *queue, uint64_t value);
/* The result of the queue's failed work; SUCCESS if none failed. */
CUresult queue_status(struct queue *queue);
/*
 * Whether a wait for @value, which returned *@result, was refused while work up to @value may still run. If the
 * work is over, the function stores the result of the work in *@result.
 */
bool queue_refused(struct queue *queue, uint64_t value, CUresult *result);
/* Wait for all work of the process that was submitted before the call. */
void work_synchronize(void);
/*
 * work_synchronize() for a caller that then takes memory away: *@result is the current context's error.
 * False: a wait was refused, *@result says why, and work may still use the memory.
 */
bool work_finish(CUresult *result);
CUresult ctx_synchronize(CUcontext ctx);
/* The same for two contexts: what was submitted to either before the call. Returns the first error of either. */
CUresult ctx_synchronize_both(CUcontext one, CUcontext other);
/*
 * The error of a context's work that has failed until now, also if no call has returned the error yet. NULL has none.
 * Does not wait.
 */
CUresult ctx_look(CUcontext ctx);
/*
 * Wait for the work that was submitted to the queues of @active before the call; @every as in active.h. Returns
 * the first error of @ctx, or of any context if @ctx is NULL.
 */
CUresult queues_wait(struct active *active, bool every, CUcontext ctx);
/* Call @each for all queues of the process that are not idle. */
void queues_busy(void (*each)(struct queue *queue, uint64_t value, void *arg), void *arg);

/* Whether everything that the stream's next operation must wait for is done. */
bool stream_idle(CUstream stream);
CUresult stream_query(CUstream stream);
CUresult stream_synchronize(CUstream stream);
/* Wait for everything that the stream's next operation would wait for. */
CUresult stream_drain(CUstream stream);

#endif /* GPUMEM_EXEC_WAIT_H */
