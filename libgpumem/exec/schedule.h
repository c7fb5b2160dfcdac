/* SPDX-License-Identifier: MIT */
/*
 * Gates: places in a stream that the library opens later. schedule.c has the rules.
 */
#ifndef GPUMEM_EXEC_SCHEDULE_H
#define GPUMEM_EXEC_SCHEDULE_H

#include "exec/hold.h"

/* What this file does for core/fault.c. */
extern HIDDEN const struct fault_hooks schedule_hooks;

/*
 * Put a gate into a queue, if GPUMEM_SCHEDULE is set or a fault delays the call's operation: the entries that follow
 * are executed when the gate opens. Only if client.gated. stream->lock is held. May put waits, as queue_room().
 */
CUresult schedule_gate(struct queue *queue);
/* Put a gate that opens a moment after the queue has reached it. The same rules. */
CUresult schedule_pause(struct queue *queue);
/*
 * The calling thread is about to wait for a value of a queue: open gates until the queue has reached it. True: no
 * gate can be opened now, so the caller waits for a moment and calls again. Only if client.scheduled.
 */
bool schedule_wait(struct queue *queue, uint64_t value);
/* A wait for something that is not a queue of the process begins and ends: open gates meanwhile. */
void schedule_wait_begin(void);
void schedule_wait_end(void);

#endif /* GPUMEM_EXEC_SCHEDULE_H */
