// SPDX-License-Identifier: MIT
/*
 * Calls that copy and fill.
 *
 * What a call orders for the host is what CUDA's documentation promises, not what this library does: a synchronous
 * copy is done when it returns if an end is host memory. A copy from pageable memory to device memory waits for the
 * earlier work of its stream and reads the source, but may not have written the destination when it returns. A
 * synchronous fill, or copy between device memory, returns before it is done, unless an end has SYNC_MEMOPS set. An
 * asynchronous copy to pageable memory is done when it returns, and so is each copy between host memory.
 */
/* For the structures of the first API. */
#define __CUDA_API_VERSION_INTERNAL

#include <stdlib.h>

#include "check/check.h"

enum where { WHERE_PAGEABLE, WHERE_PINNED, WHERE_DEVICE };

/* One end of a copy, as the call describes it. */
struct side {
	struct span span;
	uint64_t addr;			/* for failures; 0: an array */
	bool missing;			/* an array that the checker does not know */
	const void *context;		/* that the call names for this end, or NULL */
};

struct transfer {
	struct side dst, src;
	bool early;			/* the source is read before the call returns */
	bool read;			/* the calling thread has just read the source */
	struct box box;			/* bytes, rows, slices */
};

static enum where where(const struct side *side)
{
	if (!side->span.memory)
		return side->missing ? WHERE_DEVICE : WHERE_PAGEABLE;
	return side->span.memory->host ? WHERE_PINNED : WHERE_DEVICE;
}

/* Whether the program made synchronous calls on this memory wait (CU_POINTER_ATTRIBUTE_SYNC_MEMOPS). */
static bool always_waits(const struct side *side)
{
	return side->span.memory && side->span.memory->sync;
}

/* ---- ends */

static void side_at(struct side *side, uint64_t addr, uint64_t pitch, uint64_t slice)
{
	struct memory *memory = memory_at(addr);

	side->addr = addr;
	side->span.memory = memory;
	side->span.at = memory ? addr - memory->base : addr;
	side->span.pitch = pitch;
	side->span.slice = slice;
}

static void side_array(struct side *side, CUarray array, uint64_t x, uint64_t y, uint64_t z)
{
	struct memory *memory = memory_exact((uintptr_t)array, 1u << MEMORY_ARRAY);

	if (!memory) {
		side->missing = true;
		return;
	}
	side->span.memory = memory;
	side->span.pitch = memory->row;
	side->span.slice = memory->row * memory->rows;
	side->span.at = z * side->span.slice + y * side->span.pitch + x;
}

/* ---- steps */

/* The step of a transfer; NULL: neither end is known. */
static struct step *access_step(const struct call *call, struct actor *actor, const struct transfer *transfer,
				bool async)
{
	struct step *step;

	if (!transfer->dst.span.memory && !transfer->src.span.memory)
		return NULL;
	step = call_step(call, actor, STEP_ACCESS, OP_ACCESS);
	if (!step)
		return NULL;
	step->box = transfer->box;
	if (transfer->dst.span.memory) {
		step->writes = true;
		step->dst = transfer->dst.span;
		memory_hold(step->dst.memory);
		if (async && memory_is_pinned(step->dst.memory))
			mapped_used(step->dst.memory, step->op);
	}
	if (transfer->src.span.memory) {
		step->reads = true;
		step->src = transfer->src.span;
		memory_hold(step->src.memory);
		if (async && memory_is_pinned(step->src.memory)) {
			mapped_used(step->src.memory, step->op);
			pinned_read(&step->src, &step->box, step->op, transfer->read);
		}
	}
	return step;
}

static void submit(const struct call *call, struct actor *actor, const struct transfer *transfer, bool async)
{
	struct step *step = access_step(call, actor, transfer, async);

	if (step)
		step_submit(step);
}

/* The source is read while the call runs, whatever the stream does: by the host. */
static void submit_early(const struct call *call, const struct transfer *transfer)
{
	struct transfer source = *transfer;

	source.dst.span.memory = NULL;
	submit(call, &host, &source, false);
}

/* An end may be what a call was refused for. A copy needs access of the end's own context, or of the current one. */
static void side_failed(const struct call *call, const struct side *side, const struct box *box,
			const struct actor *actor)
{
	const void *context = side->context ? side->context : driver->context();

	call_failed(call, context ? context : actor_context(actor), side->addr,
		    (box->height - 1) * side->span.pitch + box->width);
}

/* A copy whose stream is value @stream; -1: the default stream. */
static void copy(const struct call *call, struct transfer *transfer, int stream)
{
	enum where dst = where(&transfer->dst), src = where(&transfer->src);
	bool async = stream >= 0, both = dst != WHERE_DEVICE && src != WHERE_DEVICE, wait;
	struct actor *actor = call_actor(call, stream);

	if (!transfer->box.width || !transfer->box.height || !transfer->box.depth)
		return;
	if (call->result) {
		stream_invalid(call, stream);
		side_failed(call, &transfer->dst, &transfer->box, actor);
		side_failed(call, &transfer->src, &transfer->box, actor);
		return;
	}
	if (!actor)
		return;
	/* A copy from pageable memory first waits for its stream. */
	if (!async && src == WHERE_PAGEABLE && dst == WHERE_DEVICE)
		host_waited(actor);
	if (async)
		wait = both || dst == WHERE_PAGEABLE;
	else
		wait = dst != WHERE_DEVICE || src == WHERE_PINNED || always_waits(&transfer->dst) ||
		       always_waits(&transfer->src);
	if (transfer->early) {
		submit_early(call, transfer);
		transfer->src.span.memory = NULL;
	}
	submit(call, actor, transfer, async && !wait);
	if (wait) {
		host_waited(actor);
		pinned_compare(false);
	}
}

/* ---- linear copies */

static bool is_early(const CUmemcpyAttributes *attributes)
{
	return attributes && attributes->srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
}

/* @early, @read: as in struct transfer. */
static void row(const struct call *call, uint64_t dst, uint64_t src, uint64_t bytes, int stream, bool early, bool read)
{
	struct transfer transfer = {
		.early = early, .read = read, .box = { .width = bytes, .height = 1, .depth = 1 },
	};

	side_at(&transfer.dst, dst, bytes, bytes);
	side_at(&transfer.src, src, bytes, bytes);
	copy(call, &transfer, stream);
}

static void linear_early(const struct call *call, uint64_t dst, uint64_t src, uint64_t bytes, int stream, bool early)
{
	row(call, dst, src, bytes, stream, early, false);
}

/* A call that copies one row. */
static void linear(const struct call *call, uint64_t dst, uint64_t src, uint64_t bytes, int stream)
{
	row(call, dst, src, bytes, stream, false, !call->nested && driver->touched());
}

static void copy_sync(struct call *call)
{
	linear(call, call->value[0], call->value[1], call->value[2], -1);
}

static void copy_async(struct call *call)
{
	linear(call, call->value[0], call->value[1], call->value[2], 3);
}

static void copy_attributes(struct call *call)
{
	linear_early(call, call->value[0], call->value[1], call->value[2], 4,
		     is_early((const void *)(uintptr_t)call->value[3]));
}

static void collect(struct actor *actor, void *clock)
{
	clock_join(clock, &actor->clock);
}

/*
 * A copy between contexts without a stream comes after all earlier work of both contexts and the current one, and before
 * all later work. The host does not wait.
 */
static void peer_order(const struct call *call, const void *dst, const void *src, bool after)
{
	const void *const contexts[] = { driver->context(), dst, src };
	struct actor *actor = call->result ? NULL : call_actor(call, -1);
	unsigned int i;

	for (i = 0; actor && i < 3; i++) {
		if (!contexts[i])
			continue;
		if (after)
			context_after(contexts[i], &actor->clock);
		else
			actors_each(contexts[i], collect, &actor->clock);
	}
}

static void linear_peer(const struct call *call, const void *dst, const void *src, int stream)
{
	uint64_t bytes = call->value[4];
	struct transfer transfer = { .box = { .width = bytes, .height = 1, .depth = 1 } };

	side_at(&transfer.dst, call->value[0], bytes, bytes);
	side_at(&transfer.src, call->value[2], bytes, bytes);
	transfer.dst.context = dst;
	transfer.src.context = src;
	copy(call, &transfer, stream);
}

static void copy_peer(struct call *call)
{
	const void *dst = (const void *)(uintptr_t)call->value[1], *src = (const void *)(uintptr_t)call->value[3];

	peer_order(call, dst, src, false);
	linear_peer(call, dst, src, -1);
	peer_order(call, dst, src, true);
}

static void copy_peer_async(struct call *call)
{
	linear_peer(call, (const void *)(uintptr_t)call->value[1], (const void *)(uintptr_t)call->value[3], 5);
}

static bool early_in_batch(const struct batch *batch, uint64_t copy)
{
	uint64_t at = 0;

	while (at + 1 < batch->attribute_count && batch->indices[at + 1] <= copy)
		at++;
	return batch->attribute_count && is_early(&batch->attributes[at]);
}

static void copy_batch(struct call *call, int stream)
{
	const struct batch batch = {
		.dst = (const void *)(uintptr_t)call->value[0], .src = (const void *)(uintptr_t)call->value[1],
		.size = (const void *)(uintptr_t)call->value[2], .count = call->value[3], .early = early_in_batch,
		.attributes = (const void *)(uintptr_t)call->value[4],
		.indices = (const void *)(uintptr_t)call->value[5], .attribute_count = call->value[6],
	};
	uint64_t at = 0, i;

	if (call->result)
		return;
	batch_compare(call, &batch);
	/* The copies of a batch are modelled in their order, though CUDA promises none. */
	for (i = 0; i < batch.count; i++) {
		while (at + 1 < batch.attribute_count && batch.indices[at + 1] <= i)
			at++;
		linear_early(call, batch.dst[i], batch.src[i], batch.size[i], stream,
			     batch.attribute_count && is_early(&batch.attributes[at]));
	}
}

static void batch_12(struct call *call)
{
	copy_batch(call, 8);
}

static void batch_13(struct call *call)
{
	copy_batch(call, 7);
}

/* ---- boxes */

static void side_of(struct side *side, CUmemorytype type, const void *host_memory, CUdeviceptr device, CUarray array,
		    uint64_t pitch, uint64_t height, uint64_t x, uint64_t y, uint64_t z)
{
	uint64_t addr = type == CU_MEMORYTYPE_HOST ? (uintptr_t)host_memory : device;

	if (type == CU_MEMORYTYPE_ARRAY) {
		side_array(side, array, x, y, z);
		return;
	}
	side_at(side, addr + (z * height + y) * pitch + x, pitch, pitch * height);
}

/* CUDA_MEMCPY2D, and the first API's, whose members have the same names. */
#define COPY_2D(c)										\
	do {											\
		transfer.box.width = (c)->WidthInBytes;						\
		transfer.box.height = (c)->Height;						\
		side_of(&transfer.dst, (c)->dstMemoryType, (c)->dstHost, (c)->dstDevice, (c)->dstArray,	\
			(c)->dstPitch ? (c)->dstPitch : (c)->WidthInBytes + (c)->dstXInBytes,	\
			(c)->Height, (c)->dstXInBytes, (c)->dstY, 0);				\
		side_of(&transfer.src, (c)->srcMemoryType, (c)->srcHost, (c)->srcDevice, (c)->srcArray,	\
			(c)->srcPitch ? (c)->srcPitch : (c)->WidthInBytes + (c)->srcXInBytes,	\
			(c)->Height, (c)->srcXInBytes, (c)->srcY, 0);				\
	} while (0)

static void copy_2d(const struct call *call, int stream)
{
	const CUDA_MEMCPY2D *c = (const void *)(uintptr_t)call->value[0];
	struct transfer transfer = { .box = { .depth = 1 } };

	if (!c)
		return;
	COPY_2D(c);
	copy(call, &transfer, stream);
}

static void copy_2d_sync(struct call *call)
{
	copy_2d(call, -1);
}

static void copy_2d_async(struct call *call)
{
	copy_2d(call, 1);
}

/* CUDA_MEMCPY3D, the first API's, and CUDA_MEMCPY3D_PEER, which begins alike but for the contexts. */
#define COPY_3D(c)										\
	do {											\
		transfer.box.width = (c)->WidthInBytes;						\
		transfer.box.height = (c)->Height;						\
		transfer.box.depth = (c)->Depth;						\
		side_of(&transfer.dst, (c)->dstMemoryType, (c)->dstHost, (c)->dstDevice, (c)->dstArray,	\
			(c)->dstPitch ? (c)->dstPitch : (c)->WidthInBytes + (c)->dstXInBytes,	\
			(c)->dstHeight ? (c)->dstHeight : (c)->Height + (c)->dstY, (c)->dstXInBytes, (c)->dstY, (c)->dstZ);	\
		side_of(&transfer.src, (c)->srcMemoryType, (c)->srcHost, (c)->srcDevice, (c)->srcArray,	\
			(c)->srcPitch ? (c)->srcPitch : (c)->WidthInBytes + (c)->srcXInBytes,	\
			(c)->srcHeight ? (c)->srcHeight : (c)->Height + (c)->srcY, (c)->srcXInBytes, (c)->srcY, (c)->srcZ);	\
	} while (0)

static void copy_3d(const struct call *call, int stream)
{
	const CUDA_MEMCPY3D *c = (const void *)(uintptr_t)call->value[0];
	struct transfer transfer = { .box = { .depth = 1 } };

	if (!c)
		return;
	COPY_3D(c);
	copy(call, &transfer, stream);
}

static void copy_3d_sync(struct call *call)
{
	copy_3d(call, -1);
}

static void copy_3d_async(struct call *call)
{
	copy_3d(call, 1);
}

/* ---- the first API: sizes have 32 bits, and so have addresses of devices, but not of the host */

static void copy_2d_first(const struct call *call, int stream)
{
	const CUDA_MEMCPY2D_v1 *c = (const void *)(uintptr_t)call->value[0];
	struct transfer transfer = { .box = { .depth = 1 } };

	if (!c)
		return;
	COPY_2D(c);
	copy(call, &transfer, stream);
}

static void copy_2d_first_sync(struct call *call)
{
	copy_2d_first(call, -1);
}

static void copy_2d_first_async(struct call *call)
{
	copy_2d_first(call, 1);
}

static void copy_3d_first(const struct call *call, int stream)
{
	const CUDA_MEMCPY3D_v1 *c = (const void *)(uintptr_t)call->value[0];
	struct transfer transfer = { .box = { .depth = 1 } };

	if (!c)
		return;
	COPY_3D(c);
	copy(call, &transfer, stream);
}

static void copy_3d_first_sync(struct call *call)
{
	copy_3d_first(call, -1);
}

static void copy_3d_first_async(struct call *call)
{
	copy_3d_first(call, 1);
}

/* ---- boxes between contexts */

static void copy_3d_peer(const struct call *call, int stream)
{
	const CUDA_MEMCPY3D_PEER *c = (const void *)(uintptr_t)call->value[0];
	struct transfer transfer = { .box = { .depth = 1 } };

	if (!c)
		return;
	COPY_3D(c);
	transfer.dst.context = c->dstContext;
	transfer.src.context = c->srcContext;
	copy(call, &transfer, stream);
}

static void copy_3d_peer_sync(struct call *call)
{
	const CUDA_MEMCPY3D_PEER *c = (const void *)(uintptr_t)call->value[0];

	if (!c)
		return;
	peer_order(call, c->dstContext, c->srcContext, false);
	copy_3d_peer(call, -1);
	peer_order(call, c->dstContext, c->srcContext, true);
}

static void copy_3d_peer_async(struct call *call)
{
	copy_3d_peer(call, 1);
}

static void operand(struct side *side, const CUmemcpy3DOperand *op, uint64_t element, const CUextent3D *extent)
{
	if (op->type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
		side_array(side, op->op.array.array, op->op.array.offset.x * element, op->op.array.offset.y,
			   op->op.array.offset.z);
		return;
	}
	side_at(side, op->op.ptr.ptr, op->op.ptr.rowLength ? op->op.ptr.rowLength : extent->width,
		(op->op.ptr.rowLength ? op->op.ptr.rowLength : extent->width) *
		(op->op.ptr.layerHeight ? op->op.ptr.layerHeight : extent->height));
}

static unsigned int element_of(const CUmemcpy3DOperand *op)
{
	struct memory *memory = op->type == CU_MEMCPY_OPERAND_TYPE_ARRAY ?
		memory_exact((uintptr_t)op->op.array.array, 1u << MEMORY_ARRAY) : NULL;

	return memory && memory->element ? memory->element : 1;
}

static void copy_3d_ops(const struct call *call, uint64_t count, const CUDA_MEMCPY3D_BATCH_OP *ops, int stream)
{
	uint64_t i;

	for (i = 0; !call->result && i < count; i++) {
		const CUDA_MEMCPY3D_BATCH_OP *op = &ops[i];
		unsigned int element = element_of(&op->src) > element_of(&op->dst) ? element_of(&op->src) :
			element_of(&op->dst);
		struct transfer transfer = { .early = op->srcAccessOrder == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL,
					     .box = {
			.width = op->extent.width * element, .height = op->extent.height, .depth = op->extent.depth,
		} };
		CUextent3D extent = op->extent;

		extent.width *= element;
		operand(&transfer.dst, &op->dst, element, &extent);
		operand(&transfer.src, &op->src, element, &extent);
		copy(call, &transfer, stream);
	}
}

static void batch_3d_12(struct call *call)
{
	copy_3d_ops(call, call->value[0], (const void *)(uintptr_t)call->value[1], 4);
}

static void batch_3d_13(struct call *call)
{
	copy_3d_ops(call, call->value[0], (const void *)(uintptr_t)call->value[1], 3);
}

static void copy_3d_attributes(struct call *call)
{
	copy_3d_ops(call, 1, (const void *)(uintptr_t)call->value[0], 2);
}

/* ---- rows of arrays */

static void rows(const struct call *call, struct transfer *transfer, uint64_t bytes, int stream)
{
	transfer->box = (struct box) { .width = bytes, .height = 1, .depth = 1 };
	copy(call, transfer, stream);
}

static void array_to_array(struct call *call)
{
	struct transfer transfer = { .box = { .depth = 1 } };

	side_array(&transfer.dst, (CUarray)(uintptr_t)call->value[0], call->value[1], 0, 0);
	side_array(&transfer.src, (CUarray)(uintptr_t)call->value[2], call->value[3], 0, 0);
	rows(call, &transfer, call->value[4], -1);
}

static void from_array(struct call *call, int stream)
{
	struct transfer transfer = { .box = { .depth = 1 } };

	side_at(&transfer.dst, call->value[0], 0, 0);
	side_array(&transfer.src, (CUarray)(uintptr_t)call->value[1], call->value[2], 0, 0);
	rows(call, &transfer, call->value[3], stream);
}

static void to_array(struct call *call, int stream)
{
	struct transfer transfer = { .box = { .depth = 1 } };

	side_array(&transfer.dst, (CUarray)(uintptr_t)call->value[0], call->value[1], 0, 0);
	side_at(&transfer.src, call->value[2], 0, 0);
	rows(call, &transfer, call->value[3], stream);
}

static void from_array_sync(struct call *call)
{
	from_array(call, -1);
}

static void from_array_async(struct call *call)
{
	from_array(call, 4);
}

static void to_array_sync(struct call *call)
{
	to_array(call, -1);
}

static void to_array_async(struct call *call)
{
	to_array(call, 4);
}

/* ---- decompression */

static void decompress(struct call *call)
{
	const CUmemDecompressParams *list = (const void *)(uintptr_t)call->value[0];
	uint64_t i;

	for (i = 0; !call->result && i < call->value[1]; i++) {
		struct transfer transfer = { .box = { .width = list[i].srcNumBytes, .height = 1, .depth = 1 } };
		struct transfer result = { .box = { .width = list[i].dstNumBytes, .height = 1, .depth = 1 } };
		struct transfer count = { .box = { .width = sizeof(*list[i].dstActBytes), .height = 1, .depth = 1 } };
		struct actor *actor = call_actor(call, 4);

		if (!actor)
			return;
		side_at(&transfer.src, (uintptr_t)list[i].src, 0, 0);
		submit(call, actor, &transfer, false);
		side_at(&result.dst, (uintptr_t)list[i].dst, 0, 0);
		submit(call, actor, &result, false);
		side_at(&count.dst, (uintptr_t)list[i].dstActBytes, 0, 0);
		submit(call, actor, &count, false);
	}
}

/* ---- fills */

static void fill(const struct call *call, uint64_t pitch, uint64_t width, uint64_t height, uint64_t value, int stream)
{
	struct actor *actor = call_actor(call, stream);
	struct transfer transfer = { .box = { .width = width, .height = height, .depth = 1 } };
	struct step *step;

	if (!width || !height)
		return;
	side_at(&transfer.dst, call->value[0], pitch, 0);
	if (call->result) {
		stream_invalid(call, stream);
		call_failed(call, actor_context(actor), transfer.dst.addr, (height - 1) * pitch + width);
		return;
	}
	step = actor ? access_step(call, actor, &transfer, false) : NULL;
	if (!step)
		return;
	step->known = true;
	step->value = value;
	step_submit(step);
	/* Fills of pinned and managed memory are done when they return, if they are synchronous. */
	if (stream < 0 && (transfer.dst.span.memory->host || always_waits(&transfer.dst))) {
		host_waited(actor);
		pinned_compare(false);
	}
}

/* A word of bytes of a pattern. */
static uint64_t pattern(uint64_t value, unsigned int size)
{
	if (size == 1)
		value = (value & 0xff) * 0x01010101;
	else if (size == 2)
		value = (value & 0xffff) * 0x00010001;
	return (value & UINT32_MAX) | value << 32;
}

#define FILL(size)									\
	static void fill_ ## size(struct call *call)					\
	{										\
		uint64_t bytes = call->value[2] * size;					\
											\
		fill(call, bytes, bytes, 1, pattern(call->value[1], size), -1);		\
	}										\
	static void fill_ ## size ## _async(struct call *call)				\
	{										\
		uint64_t bytes = call->value[2] * size;					\
											\
		fill(call, bytes, bytes, 1, pattern(call->value[1], size), 3);		\
	}										\
	static void fill_2d_ ## size(struct call *call)					\
	{										\
		fill(call, call->value[1], call->value[3] * size, call->value[4],	\
		     pattern(call->value[2], size), -1);				\
	}										\
	static void fill_2d_ ## size ## _async(struct call *call)			\
	{										\
		fill(call, call->value[1], call->value[3] * size, call->value[4],	\
		     pattern(call->value[2], size), 5);					\
	}

FILL(1)
FILL(2)
FILL(4)

const struct call_type calls_copy[] = {
	{ "cuMemcpy", NULL, copy_sync },
	{ "cuMemcpyDtoD_v2", NULL, copy_sync },
	{ "cuMemcpyDtoH_v2", NULL, copy_sync },
	{ "cuMemcpyHtoD_v2", NULL, copy_sync },
	{ "cuMemcpyAsync", NULL, copy_async },
	{ "cuMemcpyDtoDAsync_v2", NULL, copy_async },
	{ "cuMemcpyDtoHAsync_v2", NULL, copy_async },
	{ "cuMemcpyHtoDAsync_v2", NULL, copy_async },
	{ "cuMemcpyWithAttributesAsync", NULL, copy_attributes },
	{ "cuMemcpyPeer", NULL, copy_peer },
	{ "cuMemcpyPeerAsync", NULL, copy_peer_async },
	{ "cuMemcpyBatchAsync", NULL, batch_12 },
	{ "cuMemcpyBatchAsync_v2", NULL, batch_13 },
	{ "cuMemcpy2D", NULL, copy_2d_first_sync },
	{ "cuMemcpy2D_v2", NULL, copy_2d_sync },
	{ "cuMemcpy2DUnaligned", NULL, copy_2d_first_sync },
	{ "cuMemcpy2DUnaligned_v2", NULL, copy_2d_sync },
	{ "cuMemcpy2DAsync", NULL, copy_2d_first_async },
	{ "cuMemcpy2DAsync_v2", NULL, copy_2d_async },
	{ "cuMemcpy3D", NULL, copy_3d_first_sync },
	{ "cuMemcpy3D_v2", NULL, copy_3d_sync },
	{ "cuMemcpy3DAsync", NULL, copy_3d_first_async },
	{ "cuMemcpy3DAsync_v2", NULL, copy_3d_async },
	{ "cuMemcpy3DPeer", NULL, copy_3d_peer_sync },
	{ "cuMemcpy3DPeerAsync", NULL, copy_3d_peer_async },
	{ "cuMemcpy3DBatchAsync", NULL, batch_3d_12 },
	{ "cuMemcpy3DBatchAsync_v2", NULL, batch_3d_13 },
	{ "cuMemcpy3DWithAttributesAsync", NULL, copy_3d_attributes },
	{ "cuMemcpyAtoA", NULL, array_to_array },
	{ "cuMemcpyAtoA_v2", NULL, array_to_array },
	{ "cuMemcpyAtoD_v2", NULL, from_array_sync },
	{ "cuMemcpyAtoH", NULL, from_array_sync },
	{ "cuMemcpyAtoH_v2", NULL, from_array_sync },
	{ "cuMemcpyAtoHAsync", NULL, from_array_async },
	{ "cuMemcpyAtoHAsync_v2", NULL, from_array_async },
	{ "cuMemcpyDtoA_v2", NULL, to_array_sync },
	{ "cuMemcpyHtoA", NULL, to_array_sync },
	{ "cuMemcpyHtoA_v2", NULL, to_array_sync },
	{ "cuMemcpyHtoAAsync", NULL, to_array_async },
	{ "cuMemcpyHtoAAsync_v2", NULL, to_array_async },
	{ "cuMemBatchDecompressAsync", NULL, decompress },
	{ "cuMemsetD8_v2", NULL, fill_1 },
	{ "cuMemsetD8Async", NULL, fill_1_async },
	{ "cuMemsetD16_v2", NULL, fill_2 },
	{ "cuMemsetD16Async", NULL, fill_2_async },
	{ "cuMemsetD32_v2", NULL, fill_4 },
	{ "cuMemsetD32Async", NULL, fill_4_async },
	{ "cuMemsetD2D8_v2", NULL, fill_2d_1 },
	{ "cuMemsetD2D8Async", NULL, fill_2d_1_async },
	{ "cuMemsetD2D16_v2", NULL, fill_2d_2 },
	{ "cuMemsetD2D16Async", NULL, fill_2d_2_async },
	{ "cuMemsetD2D32_v2", NULL, fill_2d_4 },
	{ "cuMemsetD2D32Async", NULL, fill_2d_4_async },
	{ NULL, NULL, NULL },
};
