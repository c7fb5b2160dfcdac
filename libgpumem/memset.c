// SPDX-License-Identifier: MIT
/*
 * Fills: a pattern of 1, 2 or 4 bytes, in stream order.
 *
 * A fill of memory that is not shared runs in the caller if the stream is idle (memcpy.c says when
 * a copy does; the rule is the same), else it is one entry in the stream's ring. A fill does not
 * wait for its end unless the memory's SYNC_MEMOPS attribute is set.
 *
 * The number of bytes is computed modulo 2^64, as the recorded driver does.
 */
#include "internal.h"
#include "ring.h"

static void fill_now(uint64_t dst, uint32_t value, unsigned int elem, uint64_t count)
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

static CUresult fill_queued(CUstream stream, const struct gpumem_sqe *sqe, bool wait)
{
	struct queue *queue;
	uint64_t value = 0;
	CUresult result;

	lock_take(&stream->lock);
	result = stream_prepare(stream, &queue);
	if (!result) {
		result = ring_push(queue, sqe);
		value = load_relaxed(&queue->tail);
	}
	lock_drop(&stream->lock);
	if (!result && wait)
		result = queue_wait(queue, value);
	return result;
}

CUresult fill_linear(uint64_t dst, uint32_t value, unsigned int elem, uint64_t count,
		     CUstream handle, unsigned int flags)
{
	uint64_t bytes = count * elem;
	struct gpumem_sqe sqe = {
		.op = GPUMEM_OP_FILL, .elem = elem, .dst = dst, .value = value,
		.width = bytes / elem, .height = 1,
	};
	struct span span;
	CUstream stream;
	CUresult result = stream_get(handle, flags & CALL_OWN, &stream);

	if (result || !bytes)
		return result;
	if (dst % elem || !vm_lookup(dst, &span) || bytes > span.size - (dst - span.base))
		return CUDA_ERROR_INVALID_VALUE;
	if (client.inlining && !(span.flags & (ALLOC_EXPORTED | ALLOC_IMPORTED)) &&
	    (bytes <= INLINE_MAX || flags & CALL_SYNC)) {
		lock_take(&stream->lock);
		if (stream_idle(stream)) {
			fill_now(dst, value, elem, bytes / elem);
			lock_drop(&stream->lock);
			return CUDA_SUCCESS;
		}
		lock_drop(&stream->lock);
	}
	return fill_queued(stream, &sqe, span.flags & ALLOC_SYNC_MEMOPS);
}
