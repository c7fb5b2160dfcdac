/* SPDX-License-Identifier: MIT */
/*
 * Holds: places in a queue at which the CPU has something to do. hold.c has the rules.
 */
#ifndef GPUMEM_EXEC_HOLD_H
#define GPUMEM_EXEC_HOLD_H

#include "exec/queue.h"

/* The entries behind a hold wait until the hold is released. */
struct hold {
	struct queue *queue;
	uint64_t value;			/* the hold is reached when the queue has reached this value */
	uint64_t release;		/* the hold is released when queue->hold_timeline has reached this value */
};

extern HIDDEN struct lock hold_lock;
/* Queues that ever had a hold, by queue->next_held; grows only. hold_lock. */
extern HIDDEN struct queue *hold_queues;

/*
 * Begin the next hold of a queue; hold_put() or hold_put_alone() must follow. The lock of the queue's stream is
 * held for both.
 */
CUresult hold_begin(struct queue *queue, struct hold *hold);
/* The same with hold_lock held. */
CUresult hold_begin_locked(struct queue *queue, struct hold *hold);
/*
 * Put two entries: an ADD of 1 to timeline @tell, which notifies a thread, and the hold. There is room for both.
 */
void hold_put(const struct hold *hold, uint32_t tell);
/* Put the hold without a notification, for a caller that waits for the hold by itself (order.c). */
void hold_put_alone(const struct hold *hold);
bool hold_reached(const struct hold *hold);
void hold_release(const struct hold *hold);

#endif /* GPUMEM_EXEC_HOLD_H */
