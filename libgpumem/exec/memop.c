// SPDX-License-Identifier: MIT
/*
 * Memory operations of streams: write a word, or wait until a word compares with a value.
 *
 * Both are entries in the stream's ring: a write is a fill of one element, a wait is a poll. If the stream
 * is idle and the CPU may touch the word, the caller does the operation without an entry. Words lie in
 * memory of the library or in registered memory, at multiples of their size. On devices with PAGEABLE_MEMORY_ACCESS
 * they may lie in pageable memory, which the engine accesses. As recorded on an H200, words may
 * not lie in managed memory, in memory of another device only with peer access, and in a mapping only if the stream's
 * device has a right to it. A write with the right to read is submitted, and ends the context.
 *
 * A list of operations is checked as a whole first, then submitted as a whole. No operation of another thread
 * comes between them in the stream, and if one operation is invalid, none is done.
 *
 * Locks: the stream's.
 */
#include <sys/mman.h>

#include "exec/exec.h"

#define MEMOPS_MOST	255u

struct memop {
	bool wait;
	unsigned int size;		/* bytes; 0: nothing to do */
	unsigned int flags;
	bool pageable;			/* the word lies in memory that the library does not know */
	uint64_t addr, value;
};

static CUresult memop_check(CUcontext ctx, struct memop *op)
{
	struct span span;

	if (!op->size)
		return CUDA_SUCCESS;
	if (!op->addr || op->addr % op->size)
		return CUDA_ERROR_INVALID_VALUE;
	if (op->flags & ~(op->wait ? CU_STREAM_WAIT_VALUE_NOR | CU_STREAM_WAIT_VALUE_FLUSH : 0))
		return CUDA_ERROR_INVALID_VALUE;
	if (op->flags & CU_STREAM_WAIT_VALUE_FLUSH)
		return CUDA_ERROR_NOT_SUPPORTED;
	op->pageable = !vm_lookup(op->addr, &span);
	if (op->pageable)
		return client.device[ctx->device].pageable && pageable_range(op->addr, op->size) ? CUDA_SUCCESS :
			CUDA_ERROR_INVALID_VALUE;
	if (op->size > span.size - (op->addr - span.base) ||
	    (!op->wait && span.flags & ALLOC_READ_ONLY) || span.flags & (ALLOC_MANAGED | ALLOC_CLOSED) ||
	    span_pool_host(&span) || !ctx_reaches(ctx, &span) ||
	    (span.flags & ALLOC_MAPPED && !vmm_allows(&span, ctx->device, PROT_READ)))
		return CUDA_ERROR_INVALID_VALUE;
	/* The engine does not reach registers of devices. */
	return span.flags & ALLOC_IO ? CUDA_ERROR_NOT_SUPPORTED : CUDA_SUCCESS;
}

static bool compares(unsigned int size, unsigned int flags, uint64_t word, uint64_t value)
{
	uint64_t mask = size == 4 ? UINT32_MAX : UINT64_MAX;

	switch (flags) {
	case CU_STREAM_WAIT_VALUE_GEQ:
		return size == 4 ? (int32_t)(word - value) >= 0 : (int64_t)(word - value) >= 0;
	case CU_STREAM_WAIT_VALUE_EQ:
		return word == value;
	case CU_STREAM_WAIT_VALUE_AND:
		return word & value;
	default:
		return ~(word | value) & mask;
	}
}

bool memop_compares(const struct gpumem_sqe *sqe, uint64_t word)
{
	return compares(sqe->elem, sqe->handle, word, sqe->value);
}

static bool memop_true(const struct memop *op, uint64_t word)
{
	return compares(op->size, op->flags, word, op->value);
}

/* Write the word, or check that it compares; false: needs an entry. The stream is idle and its lock is held. */
static bool memop_now(const struct memop *op)
{
	void *word = (void *)(uintptr_t)op->addr;
	struct span span;

	if (!op->size)
		return true;
	if (!client.inlining || op->pageable || !vm_lookup(op->addr, &span) || span_dark(&span) ||
	    span.flags & ALLOC_NOT_INLINE)
		return false;
	if (op->wait)
		return memop_true(op, op->size == 4 ? load_acquire((uint32_t *)word) :
				  load_acquire((uint64_t *)word));
	if (op->size == 4)
		store_release((uint32_t *)word, op->value);
	else
		store_release((uint64_t *)word, op->value);
	return true;
}

static CUresult memop_put(struct queue *queue, const struct memop *op)
{
	struct gpumem_sqe sqe = { .dst = op->addr, .value = op->value, .elem = op->size };

	if (!op->size)
		return CUDA_SUCCESS;
	sqe.op = op->wait ? GPUMEM_OP_POLL : GPUMEM_OP_FILL;
	sqe.flags = op->pageable ? GPUMEM_SQE_DST_PAGEABLE : 0;
	if (op->wait)
		sqe.handle = op->flags;
	else
		sqe.width = 1;
	return ring_put(queue, &sqe);
}

static CUresult memops_run(CUstream stream, const struct memop *ops, unsigned int count)
{
	struct queue *queue;
	CUresult result = stream_begin(stream);
	unsigned int i = 0;

	if (result)
		return result;
	if (stream_idle(stream)) {
		touch_begin(stream);
		while (i < count && memop_now(&ops[i]))
			i++;
		touch_end();
	}
	if (i < count) {
		result = stream_prepare(stream, &queue);
		if (!result) {
			/* Put all remaining operations, or none. */
			result = queue_room(queue, count - i);
			for (; !result && i < count; i++)
				result = memop_put(queue, &ops[i]);
			result = ring_finish(queue, result);
		}
	}
	lock_drop(&stream->lock);
	return result;
}

static CUresult memop_one(CUstream handle, bool own, struct memop *op)
{
	CUstream stream;
	CUresult result = stream_get(handle, own, &stream);

	if (!result)
		result = memop_check(stream->ctx, op);
	return result ? result : memops_run(stream, op, 1);
}

CUresult memop_wait(CUstream handle, bool own, uint64_t addr, uint64_t value, unsigned int size,
		    unsigned int flags)
{
	struct memop op = {
		.wait = true, .size = size, .flags = flags, .addr = addr, .value = value,
	};

	return memop_one(handle, own, &op);
}

CUresult memop_write(CUstream handle, bool own, uint64_t addr, uint64_t value, unsigned int size,
		     unsigned int flags)
{
	struct memop op = { .size = size, .flags = flags, .addr = addr, .value = value };

	return memop_one(handle, own, &op);
}

static CUresult memop_of(CUcontext ctx, struct memop *op,
			 const CUstreamBatchMemOpParams *params)
{
	memset(op, 0, sizeof(*op));
	switch (params->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		op->wait = true;
		op->size = params->operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ? 4 : 8;
		op->addr = params->waitValue.address;
		op->value = op->size == 4 ? params->waitValue.value : params->waitValue.value64;
		op->flags = params->waitValue.flags;
		return memop_check(ctx, op);
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		op->size = params->operation == CU_STREAM_MEM_OP_WRITE_VALUE_32 ? 4 : 8;
		op->addr = params->writeValue.address;
		op->value = op->size == 4 ? params->writeValue.value : params->writeValue.value64;
		op->flags = params->writeValue.flags;
		return memop_check(ctx, op);
	case CU_STREAM_MEM_OP_BARRIER:
		/* A barrier orders operations. Those of a stream are ordered anyway. */
		return CUDA_SUCCESS;
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
	case CU_STREAM_MEM_OP_ATOMIC_REDUCTION:	/* the device's attribute is 0 */
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult memop_batch(CUstream handle, bool own, unsigned int count,
		     const CUstreamBatchMemOpParams *params, unsigned int flags)
{
	struct memop ops[MEMOPS_MOST];
	CUstream stream;
	CUresult result = stream_get(handle, own, &stream);
	unsigned int i;

	if (result)
		return result;
	if (flags || count > MEMOPS_MOST || (count && !params))
		return CUDA_ERROR_INVALID_VALUE;
	for (i = 0; !result && i < count; i++)
		result = memop_of(stream->ctx, &ops[i], &params[i]);
	return result ? result : memops_run(stream, ops, count);
}
