// SPDX-License-Identifier: MIT
/*
 * Waiting for several queues.
 *
 * The list of targets is on the caller's stack, and moves to the heap if it gets long. Without memory for a longer
 * list, targets_wait() waits for those in the list, and targets_end() for the tails that all queues have by then.
 *
 * Locks: none.
 */
#include <stdlib.h>

#include "exec/exec.h"

static __attribute__((noinline)) bool targets_grow(struct targets *targets)
{
	struct moment *list = targets->list == targets->few ? NULL : targets->list;

	list = realloc(list, 2 * targets->room * sizeof(*list));
	if (!list)
		return false;
	if (targets->list == targets->few)
		memcpy(list, targets->few, sizeof(targets->few));
	targets->list = list;
	targets->room *= 2;
	return true;
}

bool targets_add(struct targets *targets, struct queue *queue, uint64_t value)
{
	if (unlikely(targets->count == targets->room) && !targets_grow(targets)) {
		targets->partial = true;
		return false;
	}
	targets->list[targets->count++] = (struct moment){ .queue = queue, .value = value };
	return true;
}

void targets_add_listed(struct targets *targets, struct active *active, bool every)
{
	struct active_walk walk;
	struct queue *queue;
	uint64_t value;

	active_walk(&walk, active, every, true);
	while ((queue = active_next(&walk, &value)))
		if (!targets_add(targets, queue, value))
			break;
}

/* False: the wait was refused, and ends the call. */
static bool target_wait(struct targets *targets, struct queue *queue, uint64_t value)
{
	CUresult result = queue_settle(queue, value);

	if (targets->refused && queue_refused(queue, value, &result)) {
		*targets->refused = true;
		targets->first = result;
		return false;
	}
	/* A failure of another context is not an error of this call. */
	if (!targets->first && (!targets->ctx || load_relaxed(&queue->ctx) == targets->ctx))
		targets->first = result;
	return true;
}

void targets_free(struct targets *targets)
{
	if (unlikely(targets->list != targets->few))
		free(targets->list);
}

bool targets_wait_each(struct targets *targets)
{
	bool over = true;
	size_t i;

	for (i = 0; over && i < targets->count; i++)
		over = target_wait(targets, targets->list[i].queue, targets->list[i].value);
	targets_free(targets);
	return over;
}

bool targets_end_listed(struct targets *targets, struct active *active, bool every)
{
	struct active_walk walk;
	struct queue *queue;
	uint64_t value;

	if (unlikely(!active_none(active, every))) {
		active_walk(&walk, active, every, true);
		while ((queue = active_next(&walk, &value)))
			if (unlikely(targets->partial) && !target_wait(targets, queue, value))
				return false;
	}
	if (unlikely(!active_all_known(active, every)))
		active_know(active, every);
	return true;
}
