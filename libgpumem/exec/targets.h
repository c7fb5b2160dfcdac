/* SPDX-License-Identifier: MIT */
/*
 * What a call waits for that waits for several queues: values of queues, all read before the first wait. Other
 * threads may submit work during the wait, without end.
 */
#ifndef GPUMEM_EXEC_TARGETS_H
#define GPUMEM_EXEC_TARGETS_H

#include "exec/active.h"

/* How many targets need no memory from realloc(). */
#define FEW_TARGETS	32u

/* Reached when @value entries of the queue are done. */
struct moment {
	struct queue *queue;
	uint64_t value;
};

struct targets {
	CUcontext ctx;			/* the call returns its errors alone; NULL: those of all contexts */
	bool *refused;			/* set if a wait is refused, which then ends the call; or NULL */
	CUresult first;			/* the first error */
	bool partial;			/* there was no memory for all targets */
	size_t count, room;
	struct moment *list, few[FEW_TARGETS];
};

static inline void targets_begin(struct targets *targets, CUcontext ctx, bool *refused)
{
	targets->ctx = ctx;
	targets->refused = refused;
	targets->first = CUDA_SUCCESS;
	targets->partial = false;
	targets->count = 0;
	targets->room = FEW_TARGETS;
	targets->list = targets->few;
}

/* False, and partial is set: there is no memory. */
bool targets_add(struct targets *targets, struct queue *queue, uint64_t value);
/* Add the tails of a context's queues that have unfinished work or have failed; @every as in active.h. */
void targets_add_listed(struct targets *targets, struct active *active, bool every);
static inline void targets_add_active(struct targets *targets, struct active *active, bool every)
{
	if (unlikely(!active_none(active, every)))
		targets_add_listed(targets, active, every);
}

/* Wait for all targets, and free their memory. False: a wait was refused, and ends the call. */
bool targets_wait_each(struct targets *targets);
static inline bool targets_wait(struct targets *targets)
{
	return likely(!targets->count) || targets_wait_each(targets);
}

/*
 * After targets_wait(): remove the queues that are idle now from the list of active ones. If there was no memory
 * for all targets, wait for the tails that the list's queues have now. False: a wait was refused.
 */
bool targets_end_listed(struct targets *targets, struct active *active, bool every);
static inline bool targets_end(struct targets *targets, struct active *active, bool every)
{
	return likely(active_none(active, every) && active_all_known(active, every)) ||
	       targets_end_listed(targets, active, every);
}

/* Free the memory of targets that nobody waits for. */
void targets_free(struct targets *targets);

#endif /* GPUMEM_EXEC_TARGETS_H */
