// SPDX-License-Identifier: MIT
/*
 * Batches of copies: many copies in one call. A batch is in stream order; its copies are in no order.
 *
 * Owns nothing. A batch is checked as a whole before any of it is submitted. Then memcpy.c executes or submits
 * its copies while the stream's lock is held once. The calling thread executes small copies on an idle stream,
 * and the engine is woken once for all other copies. Copies to pageable memory come last, each under the lock
 * by itself, because the calling thread waits for them.
 *
 * When a source is read:
 *
 *   STREAM            in stream order, pageable memory included: unless the stream is idle, a worker reads
 *                     pageable memory (work.c) when all work before the batch is done.
 *   DURING_API_CALL   before the call returns. If the stream is busy, the source is read at once, out of
 *                     order (memcpy.c). If the stream is idle, or the copy overlaps itself, the calling
 *                     thread waits for the batch.
 *   ANY               pageable memory before the call returns, other memory in stream order.
 *
 * On devices with PAGEABLE_MEMORY_ACCESS the engine reads pageable memory in stream order for STREAM, and if there
 * is much of it for ANY.
 *
 * As recorded: a batch needs a current context, whatever its stream. cu_batch.c refuses the legacy stream, and
 * stream 0 even if that means the thread's own. Location hints have no effect, but wrong hints are errors.
 *
 * Locks: the stream's lock.
 *
 * Vocabulary: failed, the index of the copy that an error is about, or NO_COPY.
 */
#include <stdlib.h>

#include "copy/array.h"
#include "copy/box.h"

#define NO_COPY		SIZE_MAX
#define ANY_MEMORY	(END_DEVICE | END_HOST)

struct item {
	struct copy copy;
	size_t index;			/* as the program counts */
	bool done;			/* the calling thread has executed it */
	struct near_ends near;		/* of a copy that is done */
	CUmemcpySrcAccessOrder order;
};

struct batch {
	CUstream stream;
	struct item *items;
	size_t count, failed;
	bool wait;			/* the call waits for the whole batch */
};

/* Copies from pageable memory that a worker executes at a hold in the stream. */
struct copy_work {
	struct work work;
	struct copy copies[];
};

/* ---- carrying it out */

static uint64_t bytes_of(const struct copy *copy)
{
	return copy->width * copy->height * (copy->depth ? copy->depth : 1);
}

/* Whether the engine may read pageable memory when the stream gets there. */
static bool reads_directly(const struct batch *batch, const struct item *item)
{
	return item->order != CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL &&
	       copy_reads_directly(batch->stream, &item->copy) &&
	       (item->order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM || bytes_of(&item->copy) >= DIRECT_LEAST);
}

/* Whether a worker must read the source, unless the stream is idle. */
static bool wants_hold(const struct batch *batch, const struct item *item)
{
	return item->order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && item->copy.src.host &&
	       !item->copy.dst.host && !reads_directly(batch, item);
}

static bool needs_engine(const struct copy *copy)
{
	return copy->dst.dark || copy->dst.shared;
}

static void held_run(struct work *work, struct worker *worker, unsigned int item)
{
	const struct copy *copy = &((struct copy_work *)work)->copies[item];
	struct queue *queue;
	CUresult result;

	if (!needs_engine(copy)) {
		copy_now(copy);
		return;
	}
	queue = worker_queue(worker, work->device);
	result = queue ? copy_through(queue, copy, worker->buffer) : CUDA_ERROR_OUT_OF_MEMORY;
	if (result)
		work_fail(work, result);
}

/* Submit the @count copies that workers execute. The stream's lock is held. */
static CUresult put_held(struct batch *batch, struct queue *queue, size_t count)
{
	struct copy_work *work = malloc(sizeof(*work) + count * sizeof(work->copies[0]));
	CUresult result;
	size_t i;

	if (!work)
		return CUDA_ERROR_OUT_OF_MEMORY;
	work->work = (struct work){ .device = batch->stream->ctx->device, .run = held_run };
	for (i = 0; i < batch->count; i++) {
		const struct item *item = &batch->items[i];

		if (!wants_hold(batch, item))
			continue;
		work->copies[work->work.items++] = item->copy;
		if (needs_engine(&item->copy))
			work->work.engine = true;
	}
	result = work_put(queue, &work->work);
	if (result)
		free(work);
	return result;
}

/* Execute a copy in the caller; the stream is idle and stays so. */
static bool put_now(CUstream stream, struct item *item, uint64_t *bytes)
{
	const struct copy *copy = &item->copy;

	if (!copy_may_inline(stream, copy, &item->near))
		return false;
	/* A pageable source is read before the call returns in any case, so its size does not count. */
	if (!copy->src.host) {
		if (bytes_of(copy) > INLINE_MAX - *bytes)
			return false;
		*bytes += bytes_of(copy);
	}
	touch_begin(stream);
	copy_now(copy);
	touch_end();
	return true;
}

static CUresult put_item(struct batch *batch, struct queue *queue, struct item *item, bool idle)
{
	struct copy *copy = &item->copy;

	if (reads_directly(batch, item))
		copy_read_directly(copy);
	if (item->order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL && !copy->src.host) {
		copy->early = !idle && !copy_overlaps(copy);
		batch->wait |= !copy->early;
	}
	batch->wait |= copy->src.sync || copy->dst.sync;
	return copy_put(batch->stream, queue, copy);
}

/*
 * Submit or execute all copies except those to pageable memory. The stream's lock is held. @queue: the queue
 * that got entries, or NULL.
 */
static CUresult put_items(struct batch *batch, struct queue **queue, bool idle)
{
	CUresult result = CUDA_SUCCESS;
	uint64_t bytes = 0;
	size_t held = 0, i;

	*queue = NULL;
	/*
	 * Copies in the calling thread come first: the first entry makes the stream busy.
	 */
	for (i = 0; idle && i < batch->count; i++)
		if (!batch->items[i].copy.dst.host)
			batch->items[i].done = put_now(batch->stream, &batch->items[i], &bytes);
	for (i = 0; !result && i < batch->count; i++) {
		struct item *item = &batch->items[i];

		if (item->copy.dst.host || item->done)
			continue;
		if (!*queue)
			result = stream_prepare(batch->stream, queue);
		if (result) {
			*queue = NULL;
			break;
		}
		if (!idle && wants_hold(batch, item)) {
			batch->wait |= item->copy.src.sync || item->copy.dst.sync;
			held++;
			continue;
		}
		result = put_item(batch, *queue, item, idle);
		if (result)
			batch->failed = item->index;
	}
	if (!result && held)
		result = put_held(batch, *queue, held);
	return *queue ? ring_finish(*queue, result) : result;
}

/* Start workers if they are needed, and take the stream's lock. *@idle: whether the stream is idle. */
static CUresult batch_lock(struct batch *batch, bool *idle)
{
	bool held = false, engine = false, reserved = false;
	CUresult result;
	size_t i;

	for (i = 0; i < batch->count; i++) {
		if (!wants_hold(batch, &batch->items[i]))
			continue;
		held = true;
		engine |= needs_engine(&batch->items[i].copy);
	}
	for (;;) {
		result = stream_begin(batch->stream);
		if (result)
			return result;
		*idle = stream_idle(batch->stream);
		if (*idle || !held || reserved)
			return CUDA_SUCCESS;
		lock_drop(&batch->stream->lock);
		result = work_reserve(batch->stream->ctx->device, engine);
		if (result)
			return result;
		reserved = true;
	}
}

static CUresult batch_run(struct batch *batch)
{
	CUstream stream = batch->stream;
	CUdevice device = stream->ctx->device;
	struct queue *queue;
	uint64_t value;
	bool idle;
	CUresult result = batch_lock(batch, &idle);
	size_t i;

	if (result)
		return result;
	result = put_items(batch, &queue, idle);
	value = queue ? load_relaxed(&queue->tail) : 0;
	lock_drop(&stream->lock);
	for (i = 0; i < batch->count; i++)
		if (batch->items[i].done)
			copy_inlined(&batch->items[i].copy, &batch->items[i].near, device);
	for (i = 0; !result && i < batch->count; i++) {
		if (!batch->items[i].copy.dst.host)
			continue;
		result = copy_run(stream, &batch->items[i].copy, 0);
		if (result)
			batch->failed = batch->items[i].index;
	}
	if (!result && queue && batch->wait)
		result = queue_wait(queue, value);
	return result;
}

/* ---- checking it */

static CUresult batch_begin(struct batch *batch, size_t count, CUstream handle)
{
	CUcontext ctx;
	CUresult result;

	*batch = (struct batch){ .count = count, .failed = NO_COPY };
	result = ctx_current_any(&ctx);
	if (result)
		return result == CUDA_ERROR_INVALID_CONTEXT ? CUDA_ERROR_INVALID_VALUE : result;
	result = stream_get(handle, false, &batch->stream);
	if (result)
		return result;
	if (!count)
		return CUDA_ERROR_INVALID_VALUE;
	batch->items = calloc(count, sizeof(*batch->items));
	if (batch->items)
		return CUDA_SUCCESS;
	/* As recorded for 2^31 - 1 copies and more. */
	return count >= INT32_MAX ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult batch_end(struct batch *batch, CUresult result, size_t *fail)
{
	free(batch->items);
	if (result && fail)
		*fail = batch->failed;
	return result;
}

static bool how_valid(CUmemcpySrcAccessOrder order, unsigned int flags)
{
	return order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM &&
	       order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY &&
	       flags <= CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE;
}

static bool hint_valid(const CUmemLocation *hint)
{
	return (unsigned int)hint->type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

static bool attrs_valid(const CUmemcpyAttributes *attrs, const size_t *indices, size_t attr_count,
			size_t count)
{
	size_t i;

	if (!attrs || !indices || !attr_count || attr_count > count || indices[0])
		return false;
	for (i = 0; i < attr_count; i++)
		if (!how_valid(attrs[i].srcAccessOrder, attrs[i].flags) ||
		    !hint_valid(&attrs[i].srcLocHint) || !hint_valid(&attrs[i].dstLocHint) ||
		    indices[i] >= count || (i && indices[i] <= indices[i - 1]))
			return false;
	return true;
}

static CUresult linear_items(struct batch *batch, const CUdeviceptr *dsts, const CUdeviceptr *srcs,
			     const size_t *sizes, const CUmemcpyAttributes *attrs,
			     const size_t *indices, size_t attr_count)
{
	CUresult result = CUDA_SUCCESS;
	size_t i, attr = 0;

	for (i = 0; !result && i < batch->count; i++) {
		struct item *item = &batch->items[i];

		if (attr + 1 < attr_count && indices[attr + 1] == i)
			attr++;
		item->index = i;
		item->order = attrs[attr].srcAccessOrder;
		item->copy = (struct copy){
			.dst = { .addr = dsts[i], .pitch = sizes[i], .reach = batch->stream->ctx },
			.src = { .addr = srcs[i], .pitch = sizes[i], .reach = batch->stream->ctx },
			.width = sizes[i], .height = 1,
		};
		result = sizes[i] ? copy_end_find(&item->copy, &item->copy.dst, ANY_MEMORY) :
			CUDA_ERROR_INVALID_VALUE;
		if (!result)
			result = copy_end_find(&item->copy, &item->copy.src, ANY_MEMORY);
		if (result)
			batch->failed = i;
	}
	return result;
}

CUresult copy_batch(const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes,
		    size_t count, const CUmemcpyAttributes *attrs, const size_t *indices,
		    size_t attr_count, size_t *fail, CUstream handle)
{
	struct batch batch;
	CUresult result = batch_begin(&batch, count, handle);

	if (!result && (!dsts || !srcs || !sizes || !attrs_valid(attrs, indices, attr_count, count)))
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result)
		result = linear_items(&batch, dsts, srcs, sizes, attrs, indices, attr_count);
	if (!result)
		result = batch_run(&batch);
	return batch_end(&batch, result, fail);
}

/* The unit of an operand: the bytes of an array's elements, or 0 for an address. */
static CUresult operand_element(uint64_t *element, const CUmemcpy3DOperand *operand)
{
	struct array_layout layout;

	*element = 0;
	switch (operand->type) {
	case CU_MEMCPY_OPERAND_TYPE_POINTER:
		return hint_valid(&operand->op.ptr.locHint) ? CUDA_SUCCESS :
			CUDA_ERROR_INVALID_VALUE;
	case CU_MEMCPY_OPERAND_TYPE_ARRAY:
		if (!operand->op.array.array)
			return CUDA_ERROR_INVALID_VALUE;
		if (!array_layout(operand->op.array.array, &layout))
			return CUDA_ERROR_INVALID_HANDLE;
		*element = layout.element;
		return *element ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

static CUresult operand_side(struct side *side, const CUmemcpy3DOperand *operand, uint64_t element)
{
	if (operand->type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
		*side = (struct side){
			.type = CU_MEMORYTYPE_ARRAY, .array = operand->op.array.array,
			.y = operand->op.array.offset.y, .z = operand->op.array.offset.z,
		};
		return __builtin_mul_overflow(operand->op.array.offset.x, element, &side->x) ?
			CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
	}
	*side = (struct side){
		.type = CU_MEMORYTYPE_UNIFIED, .device = operand->op.ptr.ptr,
		.height = operand->op.ptr.layerHeight,
	};
	return __builtin_mul_overflow(operand->op.ptr.rowLength, element, &side->pitch) ?
		CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* Translate a copy to a box. Between two addresses an element is a byte. Two arrays must have equal elements. */
static CUresult box_of(struct box *box, const CUDA_MEMCPY3D_BATCH_OP *op)
{
	const CUextent3D *extent = &op->extent;
	uint64_t to, from, element;
	CUresult result;

	if (!how_valid(op->srcAccessOrder, op->flags) || !extent->width || !extent->height ||
	    !extent->depth)
		return CUDA_ERROR_INVALID_VALUE;
	result = operand_element(&to, &op->dst);
	if (!result)
		result = operand_element(&from, &op->src);
	if (result)
		return result;
	element = to ? to : from ? from : 1;
	if ((to && from && to != from) ||
	    __builtin_mul_overflow(extent->width, element, &box->width))
		return CUDA_ERROR_INVALID_VALUE;
	box->height = extent->height;
	box->depth = extent->depth;
	result = operand_side(&box->dst, &op->dst, element);
	return result ? result : operand_side(&box->src, &op->src, element);
}

static CUresult box_item(struct item *item, const CUDA_MEMCPY3D_BATCH_OP *op, CUcontext reach)
{
	struct box box;
	CUresult result = box_of(&box, op);

	item->order = op->srcAccessOrder;
	if (!result)
		result = box_resolve(&box, reach, &item->copy);
	if (!result)
		box_flatten(&item->copy);
	return result;
}

CUresult copy_batch_3d(size_t count, const CUDA_MEMCPY3D_BATCH_OP *ops, size_t *fail,
		       unsigned long long flags, CUstream handle)
{
	struct batch batch;
	CUresult result = batch_begin(&batch, count, handle);
	size_t i;

	if (!result && (!ops || flags))
		result = CUDA_ERROR_INVALID_VALUE;
	for (i = 0; !result && i < count; i++) {
		batch.items[i].index = i;
		result = box_item(&batch.items[i], &ops[i], batch.stream->ctx);
		if (result)
			batch.failed = i;
	}
	if (!result)
		result = batch_run(&batch);
	return batch_end(&batch, result, fail);
}
