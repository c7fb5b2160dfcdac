// SPDX-License-Identifier: MIT
/*
 * Fills: a pattern of 1, 2 or 4 bytes, in stream order.
 *
 * A fill of memory that is neither shared nor dark runs in the calling thread if the stream is idle, and if it is
 * synchronous or has at most 256 KiB. Movable memory must also be resident (address/resident.h). Any other fill is
 * one entry in the stream's ring. The call waits for a queued fill only if the memory's SYNC_MEMOPS attribute is
 * set, or if the fill is a synchronous one of host or managed memory, or of pageable memory. The calling thread fills
 * registers of devices, in stream order.
 *
 * A linear fill's number of bytes is computed modulo 2^64, as the recorded driver does. The width of a 2D fill
 * is in elements. Its pitch is in bytes, and ignored if there is one row.
 *
 * Locks: the stream's lock while a fill is submitted or runs in the calling thread.
 */
#include <sys/mman.h>

#include "copy/copy.h"

void fill_row(uint64_t dst, uint32_t value, unsigned int elem, uint64_t count)
{
	uint64_t i;

	switch (elem) {
	case 1:
		memset((void *)(uintptr_t)dst, value, count);
		break;
	case 2:
		for (i = 0; i < count; i++)
			((uint16_t *)(uintptr_t)dst)[i] = value;
		break;
	default:
		for (i = 0; i < count; i++)
			((uint32_t *)(uintptr_t)dst)[i] = value;
		break;
	}
}

static void fill_now(const struct gpumem_sqe *sqe)
{
	uint64_t row;

	for (row = 0; row < sqe->height; row++)
		fill_row(sqe->dst + row * sqe->dst_pitch, sqe->value, sqe->elem, sqe->width);
}

static CUresult fill_queued(CUstream stream, const struct gpumem_sqe *sqe, bool wait)
{
	struct queue *queue;
	uint64_t value = 0;
	CUresult result = stream_begin(stream);

	if (result)
		return result;
	result = stream_prepare(stream, &queue);
	if (!result) {
		result = ring_finish(queue, ring_put(queue, sqe));
		value = load_relaxed(&queue->tail);
	}
	lock_drop(&stream->lock);
	if (!result && wait)
		result = queue_wait(queue, value);
	return result;
}

static void fill_call(const void *sqe)
{
	fill_now(sqe);
}

/*
 * Have the engine fill memory that the library does not know. The calling thread does not fill it: if it faulted,
 * the process would end.
 */
static CUresult fill_pageable(CUstream stream, const struct gpumem_sqe *sqe, uint64_t extent, unsigned int flags)
{
	struct gpumem_sqe entry = *sqe;

	if (!sqe->dst || !client.device[stream->ctx->device].pageable || !pageable_range(sqe->dst, extent))
		return CUDA_ERROR_INVALID_VALUE;
	entry.flags = GPUMEM_SQE_DST_PAGEABLE;
	return fill_queued(stream, &entry, flags & CALL_SYNC);
}

/* Whether the CPU may fill a range, in the order of work of a context whose device is at @place. */
static enum near fill_lit(const struct span *span, uint64_t addr, uint64_t length, uint64_t place)
{
	uint32_t flags = span->flags & ALLOC_NOT_INLINE;

	if (!flags)
		return NEAR_HERE;
	return flags == ALLOC_MOVABLE ? resident_at(span, addr, length, place) : NEAR_NOT;
}

/*
 * Fill memory that may fault, or that may not be shown any more, in the calling thread. The stream is idle and its
 * lock is held. False: the memory is not shown, the lock is dropped, and the caller must queue the fill.
 */
static __attribute__((noinline)) bool fill_careful(CUstream stream, const struct gpumem_sqe *sqe,
						   const struct span *span, uint64_t extent)
{
	CUdevice device = stream->ctx->device;
	/* The stream's own work may have evicted the memory. */
	enum near near = fill_lit(span, sqe->dst, extent, stream->ctx->place);

	if (!near) {
		lock_drop(&stream->lock);
		return false;
	}
	touch_begin(stream);
	fill_now(sqe);
	touch_drop(stream);
	resident_done(near, sqe->dst, extent, sqe->width * sqe->height * sqe->elem, device);
	return true;
}

/* Check a fill and execute or submit it. @extent: bytes from its first byte to the end of its last. */
static CUresult fill_run(CUstream stream, const struct gpumem_sqe *sqe, uint64_t extent,
			 unsigned int flags)
{
	struct span span;
	CUresult result;

	/* The size of an element is a power of two. */
	if (sqe->dst & (sqe->elem - 1))
		return CUDA_ERROR_INVALID_VALUE;
	if (!vm_lookup(sqe->dst, &span))
		return fill_pageable(stream, sqe, extent, flags);
	if (!vmm_covers(&span, sqe->dst, extent, stream->ctx->device, PROT_WRITE) ||
	    span.flags & ALLOC_READ_ONLY ||
	    !ctx_reaches(stream->ctx, &span))
		return CUDA_ERROR_INVALID_VALUE;
	if (span.flags & ALLOC_HOST_ONLY && client.device[stream->ctx->device].exclusive)
		return CUDA_ERROR_INVALID_VALUE;
	if (span.flags & ALLOC_IO)
		/* The engine does not reach registers of devices. */
		return order_call(stream, fill_call, sqe);
	/* Whether movable memory is resident matters only if the stream is idle. */
	if (client.inlining && !span_dark(&span) && !(span.flags & ALLOC_NOT_INLINE & ~ALLOC_MOVABLE) &&
	    (sqe->width * sqe->height * sqe->elem <= INLINE_MAX || flags & CALL_SYNC)) {
		if (stream_begin_idle(stream, 0, &result)) {
			/* Registered memory is the program's own. The kernel may move managed memory at any time. */
			if (likely(!(span.flags & (ALLOC_REGISTERED | ALLOC_MOVABLE)))) {
				fill_now(sqe);
				lock_drop(&stream->lock);
				return CUDA_SUCCESS;
			}
			if (fill_careful(stream, sqe, &span, extent))
				return CUDA_SUCCESS;
		} else if (result) {
			return result;
		}
	}
	/* Managed memory always has SYNC_MEMOPS, which concerns calls without a stream. */
	return fill_queued(stream, sqe,
			   (span.flags & (ALLOC_SYNC_MEMOPS | ALLOC_MANAGED)) == ALLOC_SYNC_MEMOPS ||
			   (flags & CALL_SYNC && span.flags & (ALLOC_ANY_HOST | ALLOC_MANAGED)));
}

CUresult fill_linear(uint64_t dst, uint32_t value, unsigned int elem, uint64_t count,
		     CUstream handle, unsigned int flags)
{
	uint64_t bytes = count * elem;
	const struct gpumem_sqe sqe = {
		.op = GPUMEM_OP_FILL, .elem = elem, .dst = dst, .value = value,
		.width = bytes / elem, .height = 1,
	};
	CUstream stream;
	CUresult result = stream_get(handle, flags & CALL_OWN, &stream);

	if (result || !bytes)
		return result;
	return fill_run(stream, &sqe, bytes, flags);
}

CUresult fill_2d(uint64_t dst, uint64_t pitch, uint32_t value, unsigned int elem, uint64_t width,
		 uint64_t height, CUstream handle, unsigned int flags)
{
	struct gpumem_sqe sqe = {
		.op = GPUMEM_OP_FILL, .elem = elem, .dst = dst, .value = value,
		.width = width, .height = height,
	};
	uint64_t bytes, extent;
	CUstream stream;
	CUresult result = stream_get(handle, flags & CALL_OWN, &stream);

	if (result || !width || !height)
		return result;
	if (__builtin_mul_overflow(width, elem, &bytes))
		return CUDA_ERROR_INVALID_VALUE;
	extent = bytes;
	/* A single row has no pitch. */
	if (height > 1) {
		if (pitch < bytes || pitch % elem ||
		    __builtin_mul_overflow(height - 1, pitch, &extent) ||
		    __builtin_add_overflow(extent, bytes, &extent))
			return CUDA_ERROR_INVALID_VALUE;
		sqe.dst_pitch = pitch;
	}
	return fill_run(stream, &sqe, extent, flags);
}
