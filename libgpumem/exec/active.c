// SPDX-License-Identifier: MIT
/*
 * Active queues: which queues of a context may have unfinished work.
 *
 * Owns the lists in struct active. A queue is listed as active when work is submitted to it (ring_kick()). A
 * walk over the list removes the queues that it finds idle. So a call that looks at all queues of a context
 * (the legacy stream's order, synchronizing, freeing memory) pays nothing for streams that are idle or
 * destroyed. It pays for one removal each time that a stream had work.
 *
 * A walk may find a queue idle that the process has not waited for. Pools that must not reuse memory
 * opportunistically need to know what the process has waited for (queue->synced). Such a queue therefore goes
 * to the finished list. The next walk that waits records all queues of that list as known, and empties it.
 *
 * A failed queue stays active while it has a context, so that each call that waits reports the
 * error.
 *
 * Invariants: a queue with unfinished work that has been kicked, and that has a context, is active. The
 * submitter stores the tail, then, after a full barrier, reads queue->listed. A walk clears queue->listed,
 * then, after a full barrier, reads the tail once more. So at least one of the two sees the other's store.
 * Queues that no context has (queue_make() for a worker) are never listed.
 *
 * Locks: active->lock, of one context at a time, innermost. A list is checked for being empty without the lock.
 *
 * Vocabulary: side (active.h); known, of a queue: queue->synced says that the process has waited for its work.
 */
#include "exec/exec.h"

static struct active *all;		/* grows only; atomic */

/* ---- lists */

static void queue_list_add(struct queue_list *list, struct queue *queue)
{
	queue->next_listed = NULL;
	queue->prev_listed = list->last;
	if (list->last)
		list->last->next_listed = queue;
	else
		store_release(&list->first, queue);
	list->last = queue;
}

static void queue_list_remove(struct queue_list *list, struct queue *queue)
{
	if (queue->prev_listed)
		queue->prev_listed->next_listed = queue->next_listed;
	else
		store_release(&list->first, queue->next_listed);
	if (queue->next_listed)
		queue->next_listed->prev_listed = queue->prev_listed;
	else
		list->last = queue->prev_listed;
}

static bool is_active(const struct queue *queue)
{
	return queue->listed == LISTED_ACTIVE || queue->listed == LISTED_WATCHED;
}

/* How a queue is marked when it is active. */
static uint32_t active_mark(const struct queue *queue)
{
	return client.device[queue->device].exclusive ? LISTED_WATCHED : LISTED_ACTIVE;
}

static struct queue_list *list_of(struct active *active, struct queue *queue)
{
	unsigned int side = load_relaxed(&queue->blocking) ? SIDE_BLOCKING : SIDE_OTHER;

	return queue->listed == LISTED_FINISHED ? &active->finished[side] : &active->active[side];
}

/* Move a queue between the lists of its context, whose lock is held. */
static void list_as(struct active *active, struct queue *queue, enum listed listed)
{
	if (queue->listed != LISTED_NOWHERE)
		queue_list_remove(list_of(active, queue), queue);
	store_relaxed(&queue->listed, listed == LISTED_ACTIVE ? active_mark(queue) : (uint32_t)listed);
	if (listed == LISTED_ACTIVE) {
		queue->stamp = active->stamp + 1;
		store_relaxed(&active->stamp, queue->stamp);
	}
	if (listed != LISTED_NOWHERE)
		queue_list_add(list_of(active, queue), queue);
	store_relaxed(&queue->active, listed != LISTED_NOWHERE ? active : NULL);
}

/* ---- contexts */

void active_start(struct active *active)
{
	if (active->known)
		return;
	active->known = true;
	active->next = load_relaxed(&all);
	while (!__atomic_compare_exchange_n(&all, &active->next, active, true, __ATOMIC_RELEASE,
					    __ATOMIC_RELAXED))
		;
}

struct active *active_first(void)
{
	return load_acquire(&all);
}

void active_clear(struct active *active)
{
	unsigned int side;

	lock_take(&active->lock);
	for (side = 0; side < SIDES; side++) {
		while (active->active[side].first)
			list_as(active, active->active[side].first, LISTED_NOWHERE);
		while (active->finished[side].first)
			list_as(active, active->finished[side].first, LISTED_NOWHERE);
	}
	lock_drop(&active->lock);
}

/* ---- queues */

void active_add(struct queue *queue)
{
	CUcontext ctx = load_relaxed(&queue->ctx);

	if (!ctx)
		return;
	lock_take(&ctx->active.lock);
	if (!is_active(queue))
		list_as(&ctx->active, queue, LISTED_ACTIVE);
	lock_drop(&ctx->active.lock);
	if (client.device[queue->device].exclusive)
		attach_busy(queue);
}

/* Remove a queue from its list. Returns whether it was listed. */
static bool active_take_out(struct queue *queue)
{
	struct active *active = load_relaxed(&queue->active);
	bool listed;

	if (!active)
		return false;
	lock_take(&active->lock);
	/* A walk may have removed the queue before the lock was taken. */
	listed = queue->listed != LISTED_NOWHERE;
	if (listed)
		list_as(active, queue, LISTED_NOWHERE);
	lock_drop(&active->lock);
	return listed;
}

void active_remove(struct queue *queue)
{
	active_take_out(queue);
}

void active_move(struct queue *queue, CUcontext ctx, bool blocking)
{
	bool listed = active_take_out(queue);

	store_relaxed(&queue->ctx, ctx);
	store_release(&queue->blocking, blocking);
	if (!listed)
		return;
	lock_take(&ctx->active.lock);
	list_as(&ctx->active, queue, LISTED_FINISHED);
	lock_drop(&ctx->active.lock);
}

/* ---- walks */

void active_walk(struct active_walk *walk, struct active *active, bool every, bool know)
{
	*walk = (struct active_walk){
		.active = active, .side = SIDE_BLOCKING,
		.last_side = every ? SIDE_OTHER : SIDE_BLOCKING, .know = know,
		.end = load_relaxed(&active->stamp),
	};
}

/* Remove a queue from the active list if it is idle. */
static bool retire(struct active_walk *walk, struct queue *queue)
{
	struct queue_list *from = list_of(walk->active, queue);

	if (!queue_idle(queue) || (queue_failed(queue) && load_relaxed(&queue->ctx)))
		return false;
	store_relaxed(&queue->listed, (uint32_t)(walk->know ? LISTED_NOWHERE : LISTED_FINISHED));
	/* Pairs with ring_kick(). */
	fence_full();
	if (!queue_idle(queue)) {
		store_relaxed(&queue->listed, active_mark(queue));
		return false;
	}
	queue_list_remove(from, queue);
	if (walk->know) {
		queue_know(queue, load_acquire(&queue->page->value));
		store_relaxed(&queue->active, NULL);
	} else {
		queue_list_add(list_of(walk->active, queue), queue);
	}
	return true;
}

static struct queue *next_of_side(struct active_walk *walk, uint64_t *value)
{
	struct active *active = walk->active;
	struct queue_list *list = &active->active[walk->side];
	struct queue *queue = walk->at, *next;

	if (!load_acquire(&list->first))
		return NULL;
	lock_take(&active->lock);
	if (!queue || load_relaxed(&queue->active) != active || !is_active(queue) ||
	    queue->stamp != walk->stamp)
		queue = list->first;
	for (; queue; queue = next) {
		next = queue->next_listed;
		if (queue->stamp > walk->end) {
			queue = NULL;
			break;
		}
		*value = load_acquire(&queue->tail);
		if (retire(walk, queue))
			continue;
		if (queue->stamp > walk->stamp)
			break;
	}
	walk->at = queue;
	walk->stamp = queue ? queue->stamp : walk->end;
	lock_drop(&active->lock);
	return queue;
}

struct queue *active_next(struct active_walk *walk, uint64_t *value)
{
	struct queue *queue = next_of_side(walk, value);

	while (!queue && walk->side != walk->last_side) {
		walk->side = walk->last_side;
		walk->stamp = 0;
		walk->at = NULL;
		queue = next_of_side(walk, value);
	}
	return queue;
}

void active_know(struct active *active, bool every)
{
	unsigned int side;

	for (side = every ? 0 : SIDE_BLOCKING; side < SIDES; side++) {
		struct queue_list *list = &active->finished[side];
		struct queue *queue;

		if (!load_acquire(&list->first))
			continue;
		lock_take(&active->lock);
		while ((queue = list->first)) {
			/* New work may be in the ring and not kicked yet. */
			queue_know(queue, load_acquire(&queue->page->value));
			list_as(active, queue, LISTED_NOWHERE);
		}
		lock_drop(&active->lock);
	}
}
