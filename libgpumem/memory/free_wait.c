// SPDX-License-Identifier: MIT
/*
 * What a free of memory waits for.
 *
 * A free waits for all work of the context that owns the memory, unrelated streams included. In the streams of
 * other contexts the free waits for copies that read the memory, for prefetches of it, and for the work before
 * these in their streams. The free waits for no other work of other contexts and devices. An H200 does the same for
 * copies: there a copy belongs to the context of its source. A program must not free memory that work of another
 * context still writes. Such work fails if the memory has been given back; if the memory has a new owner, the work
 * writes to the new owner's memory.
 *
 * A free finds this work in the rings of queues that are not idle. Work that the library does on the CPU in the
 * order of a stream (copies by threads of the program, work of the library's threads) has no entry that names
 * its memory. If the memory of such work were given back, the fault would end the process. While there is such
 * work, in any context, a free therefore waits for all work of the process.
 *
 * The kernel may refuse a wait because it has no memory. Then nothing may be freed, because queued work may
 * still use the memory: the free returns the reason and changes nothing. Failed work counts as complete.
 * Neither failed work nor the sticky error of a context prevents a free. A free returns the error of the current
 * context's failed work, even if that work failed before the free began.
 *
 * Locks: none. A free first collects the queues that it must wait for, with the values that they have then. It does
 * not wait while it walks the list of queues, so it does not wait for work that is queued meanwhile.
 */
#include <stdlib.h>

#include "memory/memory.h"

/* A queue, and the value of it that the free waits for. */
struct wanted {
	struct queue *queue;
	uint64_t value;
	bool owner;			/* the queue is the owning context's */
};

struct search {
	CUcontext owner;
	uint64_t base, length;
	struct wanted *list;
	unsigned int count, room;
	bool failed;			/* no memory for the list */
};

static bool uses(const struct gpumem_sqe *sqe, const struct search *search)
{
	uint64_t rows = sqe->height ? sqe->height : 1;
	uint64_t length = (rows - 1) * (rows > 1 ? sqe->src_pitch : 0) + sqe->width;

	uint64_t from = sqe->op == GPUMEM_OP_COPY ? sqe->src : sqe->dst;

	return (sqe->op == GPUMEM_OP_COPY || sqe->op == GPUMEM_OP_PREFETCH) &&
	       from < search->base + search->length && search->base < from + length;
}

/* The value that a queue reaches with the last entry that the free waits for, or 0. */
static uint64_t last_user(struct queue *queue, uint64_t value, const struct search *search)
{
	struct gpumem_sqe sqe;

	/* An entry that completes meanwhile may be overwritten, but then its value is reached. */
	for (; value > load_acquire(&queue->page->value); value--)
		if (queue_entry(queue, value - 1, &sqe) && uses(&sqe, search))
			return value;
	return 0;
}

static void consider(struct queue *queue, uint64_t value, void *arg)
{
	struct search *search = arg;
	bool owner = load_relaxed(&queue->ctx) == search->owner;
	struct wanted *list;

	if (!owner)
		value = search->length ? last_user(queue, value, search) : 0;
	if (!value || search->failed)
		return;
	if (search->count == search->room) {
		search->room = search->room ? 2 * search->room : 16;
		list = realloc(search->list, search->room * sizeof(*list));
		if (!list) {
			search->failed = true;
			return;
		}
		search->list = list;
	}
	search->list[search->count++] = (struct wanted){
		.queue = queue, .value = value, .owner = owner,
	};
}

/* Wait for all that was found. *@first: the first error of the owner's work. False: a wait was refused. */
static bool wait_for(const struct search *search, CUresult *first)
{
	unsigned int i;

	*first = CUDA_SUCCESS;
	for (i = 0; i < search->count; i++) {
		const struct wanted *wanted = &search->list[i];
		CUresult result = queue_wait(wanted->queue, wanted->value);

		if (unlikely(result) && queue_status(wanted->queue))
			host_settle(wanted->queue, wanted->value);
		if (unlikely(queue_refused(wanted->queue, wanted->value, &result))) {
			*first = result;
			return false;
		}
		if (!*first && wanted->owner)
			*first = result;
	}
	return true;
}

bool free_wait(CUcontext owner, uint64_t base, uint64_t length, CUresult *result)
{
	struct search search = { .owner = owner, .base = base, .length = length };
	CUcontext ctx = ctx_top();
	bool over;

	if (unlikely(work_unfinished() || order_unfinished()))
		return work_finish(result);
	queues_busy(consider, &search);
	over = wait_for(&search, result);
	free(search.list);
	if (unlikely(!over))
		return false;
	if (unlikely(search.failed))
		return work_finish(result);
	if (ctx != owner || !*result)
		*result = ctx_look(ctx);
	return true;
}
