// SPDX-License-Identifier: MIT
/*
 * What a free of memory waits for.
 *
 * A free waits for all work of the context that owns the memory, unrelated streams included. In the streams of
 * other contexts the free waits for copies that read the memory, and for the work before these copies in their
 * streams. The free waits for no other work of other contexts and devices. An H200 does the same: there a copy
 * belongs to the context of its source. A program must not free memory that work of another context still
 * writes. Such work fails if the memory has been given back; if the memory has a new owner, the work writes to
 * the new owner's memory. A prefetch of memory that has been freed does nothing, or moves memory that is there now:
 * a new owner's, or that of the block that the memory was a part of. Until the prefetch has ended, the freed memory may
 * count.
 *
 * A free finds copies in the rings of queues that are not idle. Work that the library does on the CPU in the
 * order of a stream (copies by threads of the program, work of the library's threads) has no entry that names
 * its memory. If the memory of such work were given back, the fault would end the process. While there is such
 * work, in any context, a free therefore waits for all work of the process.
 *
 * The kernel may refuse a wait because it has no memory. Then nothing may be freed, because queued work may
 * still use the memory: the free returns the reason and changes nothing. Failed work counts as complete.
 * Neither failed work nor the sticky error of a context prevents a free. A free returns the error of the current
 * context's failed work, even if that work failed before the free began.
 *
 * Locks: none. A free first collects its targets (targets.h), so it does not wait for work that is queued meanwhile.
 */
#include "memory/memory.h"

struct search {
	CUcontext owner;
	uint64_t base, length;
	struct targets targets;
};

static bool reads(const struct gpumem_sqe *sqe, const struct search *search)
{
	uint64_t rows = sqe->height ? sqe->height : 1;
	uint64_t length = (rows - 1) * (rows > 1 ? sqe->src_pitch : 0) + sqe->width;

	return sqe->op == GPUMEM_OP_COPY && sqe->src < search->base + search->length &&
	       search->base < sqe->src + length;
}

/* The value that a queue reaches with the last copy that reads the memory, or 0. */
static uint64_t last_reader(struct queue *queue, uint64_t value, const struct search *search)
{
	struct gpumem_sqe sqe;

	/* An entry that completes meanwhile may be overwritten, but then its value is reached. */
	for (; value > load_acquire(&queue->page->value); value--)
		if (queue_entry(queue, value - 1, &sqe) && reads(&sqe, search))
			return value;
	return 0;
}

static void consider(struct queue *queue, uint64_t value, void *arg)
{
	struct search *search = arg;

	if (load_relaxed(&queue->ctx) != search->owner)
		value = search->length ? last_reader(queue, value, search) : 0;
	if (value)
		targets_add(&search->targets, queue, value);
}

bool free_wait(CUcontext owner, uint64_t base, uint64_t length, CUresult *result)
{
	CUcontext ctx = ctx_top();
	struct search search;
	bool refused = false;

	if (unlikely(work_unfinished() || order_unfinished()))
		return work_finish(result);
	search.owner = owner;
	search.base = base;
	search.length = length;
	targets_begin(&search.targets, owner, &refused);
	queues_busy(consider, &search);
	/* Without memory for the list, wait for all work of the process instead. */
	if (unlikely(search.targets.partial)) {
		targets_free(&search.targets);
		return work_finish(result);
	}
	targets_wait(&search.targets);
	/* Errors of other contexts are not the caller's: without an owner, all contexts are others. */
	*result = owner || refused ? search.targets.first : CUDA_SUCCESS;
	if (unlikely(refused))
		return false;
	if (ctx != owner || !*result)
		*result = ctx_look(ctx);
	return true;
}
