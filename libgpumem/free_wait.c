// SPDX-License-Identifier: MIT
/*
 * What freeing memory waits for.
 *
 * A free waits for all work of the context that owns the memory, unrelated streams included. In the
 * streams of other contexts it waits for copies that read the memory, and for what is before them
 * in their streams. It waits for nothing else of other contexts and devices. This is what an H200
 * does, where a copy belongs to the context of its source. A program must not free memory that work
 * of another context still writes: such work fails if the memory is gone, and writes to the memory's
 * next owner in the process if that has it.
 *
 * Copies are found in the rings of queues that are not idle. What the library does on the CPU in
 * the order of a stream (copies that a thread does when its turn comes, work of the library's
 * threads) has no entry that names its memory. It must not find the memory gone, because that fault
 * would be the process's: while there is any, in whatever context, a free waits for all work of the
 * process.
 *
 * Locks: none. The queues that are waited for are noted first: while their list is walked nothing
 * is waited for.
 */
#include <stdlib.h>

#include "internal.h"
#include "ring.h"

/* A value of a queue that is waited for. */
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

static bool reads(const struct gpumem_sqe *sqe, const struct search *search)
{
	uint64_t rows = sqe->height ? sqe->height : 1;
	uint64_t length = (rows - 1) * (rows > 1 ? sqe->src_pitch : 0) + sqe->width;

	return sqe->op == GPUMEM_OP_COPY && sqe->src < search->base + search->length &&
	       search->base < sqe->src + length;
}

/* The value at which a queue has done the last copy that reads the memory, or 0. */
static uint64_t last_reader(struct queue *queue, uint64_t value, const struct search *search)
{
	struct gpumem_sqe sqe;

	/* An entry that is done meanwhile may be overwritten: then its value is reached already. */
	for (; value > load_acquire(&queue->page->value); value--)
		if (queue_entry(queue, value - 1, &sqe) && reads(&sqe, search))
			return value;
	return 0;
}

static void consider(struct queue *queue, uint64_t value, void *arg)
{
	struct search *search = arg;
	bool owner = load_relaxed(&queue->ctx) == search->owner;
	struct wanted *list;

	if (!owner)
		value = search->length ? last_reader(queue, value, search) : 0;
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

/* Wait for all that was found; the first error of the owner's work. */
static CUresult wait_for(const struct search *search)
{
	CUresult first = CUDA_SUCCESS;
	unsigned int i;

	for (i = 0; i < search->count; i++) {
		const struct wanted *wanted = &search->list[i];
		CUresult result = queue_wait(wanted->queue, wanted->value);

		if (unlikely(result) && queue_status(wanted->queue))
			host_settle(wanted->queue, wanted->value);
		if (!first && wanted->owner)
			first = result;
	}
	return first;
}

CUresult free_wait(CUcontext owner, uint64_t base, uint64_t length)
{
	struct search search = { .owner = owner, .base = base, .length = length };
	CUcontext ctx = ctx_top();
	CUresult result;

	if (unlikely(work_unfinished() || order_unfinished()))
		return work_synchronize();
	queues_busy(consider, &search);
	result = wait_for(&search);
	free(search.list);
	if (unlikely(search.failed))
		return work_synchronize();
	/* Errors are those of the current context. */
	if (ctx != owner || !result)
		result = ctx ? load_relaxed(&ctx->sticky) : CUDA_SUCCESS;
	return result;
}
