// SPDX-License-Identifier: MIT
/*
 * Faults of copies: copies that are torn into pieces, and copies that change a bit (core/fault.h).
 *
 * A torn copy has the same bytes in the end, unless its ends overlap: such a copy is not torn. A bit is changed by a
 * worker of the library (exec/work.c), which reaches the memory by the engine, so that it may be memory that the CPU
 * does not reach.
 */
#include <stdlib.h>

#include "copy/copy.h"
#include "copy/torn.h"

struct flip {
	struct work work;
	uint64_t addr;
	uint32_t rights;		/* of the copy's end */
	unsigned char mask;
};

/* ---- pieces */

/* A part of a copy, @at to @end of its slices, rows or bytes. */
static struct copy piece_of(const struct copy *copy, uint64_t at, uint64_t end)
{
	struct copy piece = *copy;

	if (copy->depth > 1) {
		piece.depth = end - at;
		piece.dst.addr += at * copy->dst.slice;
		piece.src.addr += at * copy->src.slice;
	} else if (copy->height > 1) {
		piece.height = end - at;
		piece.dst.addr += at * copy->dst.pitch;
		piece.src.addr += at * copy->src.pitch;
	} else {
		piece.width = end - at;
		piece.dst.addr += at;
		piece.src.addr += at;
	}
	return piece;
}

CUresult torn_put(CUstream stream, struct queue *queue, const struct copy *copy)
{
	uint64_t units = copy->depth > 1 ? copy->depth : copy->height > 1 ? copy->height : copy->width;
	uint64_t pieces = min_u64(fault_now.pieces, units), i;
	CUresult result = CUDA_SUCCESS;

	fault_now.pieces = 0;
	if (copy_tiled(copy) || copy_overlaps(copy) || pieces < 2)
		return copy_put(stream, queue, copy);
	fault_done(FAULT_TEAR);
	for (i = pieces; !result && i; i--) {
		const struct copy piece = piece_of(copy, units * (i - 1) / pieces, units * i / pieces);

		result = copy_put(stream, queue, &piece);
		/* The thread may wait for staging memory before the next piece, so kick this piece now. */
		if (!result && i > 1)
			result = ring_finish(queue, schedule_pause(queue));
	}
	return result;
}

/* ---- bits */

static void flip_run(struct work *work, struct worker *worker, unsigned int item)
{
	struct flip *flip = (struct flip *)work;
	struct gpumem_sqe copy = {
		.op = GPUMEM_OP_COPY, .dst = worker->buffer, .src = flip->addr, .width = 1, .height = 1,
	};
	struct queue *queue = worker_queue(worker, work->device);
	uint32_t rights = flip->rights;

	(void)item;
	copy.flags = rights ? GPUMEM_SQE_SRC_RIGHTS(rights - 1) : 0;
	if (!queue || ring_put(queue, &copy) || worker_wait(worker, work->device))
		return;
	*(unsigned char *)(uintptr_t)worker->buffer ^= flip->mask;
	copy.src = copy.dst;
	copy.dst = flip->addr;
	copy.flags = rights ? GPUMEM_SQE_DST_RIGHTS(rights - 1) : 0;
	if (!ring_put(queue, &copy))
		worker_wait(worker, work->device);
}

/* Have a worker change a bit of memory that the engine reaches. */
static CUresult flip_submit(CUstream stream, uint64_t addr, uint32_t rights, unsigned char mask, bool wait)
{
	struct flip *flip = calloc(1, sizeof(*flip));
	struct queue *queue;
	CUresult result;
	uint64_t value = 0;

	if (!flip)
		return CUDA_ERROR_OUT_OF_MEMORY;
	flip->work = (struct work){
		.items = 1, .run = flip_run, .engine = true, .device = stream->ctx->device,
	};
	flip->addr = addr;
	flip->rights = rights;
	flip->mask = mask;
	result = work_reserve(stream->ctx->device, true);
	if (!result)
		result = stream_begin(stream);
	if (result) {
		free(flip);
		return result;
	}
	result = stream_prepare(stream, &queue);
	if (!result) {
		result = work_put(queue, &flip->work);
		if (!result)
			flip = NULL;
		result = ring_finish(queue, result);
		value = load_relaxed(&queue->tail);
	}
	lock_drop(&stream->lock);
	free(flip);
	return result || !wait ? result : queue_wait(queue, value);
}

CUresult torn_flip(CUstream stream, const struct copy *copy, unsigned int flags)
{
	uint64_t random = fault_now.flip, byte = (random >> 3) % copy->width;
	/* As in copy_run(): such a copy is done when the call returns. */
	bool wait = flags & (CALL_SYNC | CALL_WAIT) || copy->dst.sync || copy->src.sync || copy->dst.managed_host ||
		copy->src.managed_host;
	unsigned char mask = 1u << (random & 7);
	CUresult result;

	fault_now.flip = 0;
	result = copy_run(stream, copy, flags);
	if (result || copy_tiled(copy))
		return result;
	fault_done(FAULT_FLIP);
	if (!copy->dst.host)
		return flip_submit(stream, copy->dst.addr + byte, copy->dst.rights, mask, wait);
	/* The copy to pageable memory is done. */
	*(unsigned char *)(uintptr_t)(copy->dst.addr + byte) ^= mask;
	return CUDA_SUCCESS;
}
