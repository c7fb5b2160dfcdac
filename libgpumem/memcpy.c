// SPDX-License-Identifier: MIT
/*
 * Copies: rows of bytes from one place to another, in stream order.
 *
 * Owns the staging memory. Every copy goes one of three ways:
 *
 *   inline    the stream is idle and the caller can reach both ends: memmove() under the stream's
 *             lock. Nothing is submitted. Asynchronous copies between allocs: up to 256 KiB.
 *   ring      both ends are device memory: entries in the stream's ring.
 *   staged    an end is pageable memory of the process, which the engine cannot reach: 1 MiB pieces
 *             through buffer objects of the library. A source is read before the call returns.
 *
 * Memory that is shared with other processes or drivers is never touched inline. A copy that has to
 * be done when the call returns waits for the stream and is then inline if it may be.
 *
 * Entries must not have overlapping ends. The documentation leaves the result of overlapping copies
 * open; here they behave like memmove(), by way of staging memory.
 *
 * Locks: the stream's while submitting; stage_lock for the list of staging pieces.
 *
 * Vocabulary: end, one side of a copy; host, memory that the library does not know; piece, what one
 * staging buffer holds.
 */
#include <sched.h>
#include <stdlib.h>

#include "internal.h"
#include "ring.h"

#define STAGE_SIZE	(1ull << 20)
#define STAGE_BLOCK	(2ull << 20)
#define MAX_STAGES	64
#define MAX_PITCH	0x7fffffffull

struct end {
	uint64_t addr;
	uint64_t pitch;
	bool host;
	bool shared;			/* somebody outside the process may reach it */
	bool sync;			/* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
};

struct copy {
	struct end dst, src;
	uint64_t width, height;
};

struct stage {
	struct stage *next;
	uint64_t addr;
	bool taken;
	struct queue *queue;		/* in use until this queue has reached @value, or NULL */
	uint64_t value;
};

static struct lock stage_lock;
static struct stage *stages;		/* stage_lock */
static unsigned int stage_count;	/* stage_lock */

/* ---- staging memory */

static struct stage *stage_add(CUdevice device)
{
	uint64_t addr = mem_internal(device, STAGE_BLOCK, "staging"), at;

	for (at = addr; addr && at < addr + STAGE_BLOCK; at += STAGE_SIZE) {
		struct stage *stage = calloc(1, sizeof(*stage));

		if (!stage)
			break;
		stage->addr = at;
		stage->next = stages;
		stages = stage;
		stage_count++;
	}
	return addr ? stages : NULL;
}

/* A piece of staging memory; waits for one if there are many. NULL: no memory. */
static struct stage *stage_take(CUdevice device)
{
	struct stage *stage, *busy;
	struct queue *queue;
	uint64_t value;

	for (;;) {
		busy = NULL;
		lock_take(&stage_lock);
		for (stage = stages; stage; stage = stage->next) {
			if (stage->taken)
				continue;
			if (!stage->queue || queue_reached(stage->queue, stage->value))
				break;
			busy = stage;
		}
		if (!stage && stage_count < MAX_STAGES)
			stage = stage_add(device);
		if (stage) {
			stage->taken = true;
			stage->queue = NULL;
		}
		queue = busy ? busy->queue : NULL;
		value = busy ? busy->value : 0;
		lock_drop(&stage_lock);
		if (stage)
			return stage;
		if (queue)
			queue_wait(queue, value);
		else if (load_relaxed(&stage_count))
			sched_yield();
		else
			return NULL;
	}
}

/* Done with a piece as soon as what @queue has got so far is done. */
static void stage_drop(struct stage *stage, struct queue *queue)
{
	lock_take(&stage_lock);
	stage->queue = queue;
	stage->value = queue ? load_relaxed(&queue->tail) : 0;
	stage->taken = false;
	lock_drop(&stage_lock);
}

/* ---- what a copy is */

static void *at(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

/* Bytes from the first to behind the last of one end. */
static uint64_t extent(const struct copy *copy, const struct end *end)
{
	return (copy->height - 1) * end->pitch + copy->width;
}

/* What lies at an end, and whether all of the copy fits. */
static CUresult end_check(const struct copy *copy, struct end *end, unsigned int kind)
{
	uint64_t rows, bytes;
	struct span span;

	if (!end->addr || __builtin_mul_overflow(copy->height - 1, end->pitch, &rows) ||
	    __builtin_add_overflow(rows, copy->width, &bytes) || end->addr + bytes < end->addr)
		return CUDA_ERROR_INVALID_VALUE;
	if (vm_lookup(end->addr, &span)) {
		if (bytes > span.size - (end->addr - span.base))
			return CUDA_ERROR_INVALID_VALUE;
		end->shared = span.flags & (ALLOC_EXPORTED | ALLOC_IMPORTED);
		end->sync = span.flags & ALLOC_SYNC_MEMOPS;
		return CUDA_SUCCESS;
	}
	/* Addresses of the arena are never the program's own memory. */
	if (!(kind & END_HOST) || vm_reserved(end->addr))
		return CUDA_ERROR_INVALID_VALUE;
	end->host = true;
	return CUDA_SUCCESS;
}

/* Whether the two ends have a byte in common, or might have. */
static bool overlaps(const struct copy *copy)
{
	return copy->dst.addr < copy->src.addr + extent(copy, &copy->src) &&
	       copy->src.addr < copy->dst.addr + extent(copy, &copy->dst);
}

/* ---- inline */

static void copy_now(const struct copy *copy)
{
	uint64_t row;

	if (copy->width == copy->dst.pitch && copy->width == copy->src.pitch) {
		memmove(at(copy->dst.addr), at(copy->src.addr), copy->width * copy->height);
		return;
	}
	if (copy->dst.addr > copy->src.addr && overlaps(copy)) {
		for (row = copy->height; row--;)
			memmove(at(copy->dst.addr + row * copy->dst.pitch),
				at(copy->src.addr + row * copy->src.pitch), copy->width);
		return;
	}
	for (row = 0; row < copy->height; row++)
		memmove(at(copy->dst.addr + row * copy->dst.pitch),
			at(copy->src.addr + row * copy->src.pitch), copy->width);
}

/* ---- ring */

static CUresult put_rows(struct queue *queue, uint64_t dst, uint64_t dst_pitch, uint64_t src,
			 uint64_t src_pitch, uint64_t width, uint64_t height)
{
	struct gpumem_sqe sqe = {
		.op = GPUMEM_OP_COPY, .dst = dst, .src = src, .width = width, .height = height,
	};

	if (height > 1) {
		sqe.dst_pitch = dst_pitch;
		sqe.src_pitch = src_pitch;
	}
	return ring_put(queue, &sqe);
}

/* A row that may overlap itself: through a staging piece, in the direction that memmove() takes. */
static CUresult put_overlapping_row(struct queue *queue, struct stage *stage, uint64_t dst,
				    uint64_t src, uint64_t width)
{
	uint64_t done = 0;
	CUresult result = CUDA_SUCCESS;

	while (!result && done < width) {
		uint64_t piece = min_u64(width - done, STAGE_SIZE);
		uint64_t from = dst > src ? width - done - piece : done;

		result = put_rows(queue, stage->addr, 0, src + from, 0, piece, 1);
		if (!result)
			result = put_rows(queue, dst + from, 0, stage->addr, 0, piece, 1);
		done += piece;
	}
	return result;
}

static CUresult put_overlapping(CUstream stream, struct queue *queue, const struct copy *copy)
{
	struct stage *stage = stage_take(stream->ctx->device);
	CUresult result = CUDA_SUCCESS;
	uint64_t row;

	if (!stage)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (row = 0; !result && row < copy->height; row++) {
		uint64_t r = copy->dst.addr > copy->src.addr ? copy->height - 1 - row : row;

		result = put_overlapping_row(queue, stage, copy->dst.addr + r * copy->dst.pitch,
					     copy->src.addr + r * copy->src.pitch, copy->width);
	}
	stage_drop(stage, queue);
	return result;
}

static CUresult put_device(CUstream stream, struct queue *queue, const struct copy *copy)
{
	if (copy->dst.addr == copy->src.addr &&
	    (copy->height == 1 || copy->dst.pitch == copy->src.pitch))
		return CUDA_SUCCESS;
	if (overlaps(copy))
		return put_overlapping(stream, queue, copy);
	return put_rows(queue, copy->dst.addr, copy->dst.pitch, copy->src.addr, copy->src.pitch,
			copy->width, copy->height);
}

/* ---- staged */

/*
 * A piece of a copy: whole rows, packed, if a row fits into a staging buffer, else a part of one.
 */
struct piece {
	uint64_t row, rows;
	uint64_t x, width;
};

static bool next_piece(const struct copy *copy, struct piece *piece)
{
	if (piece->width && piece->x + piece->width < copy->width) {
		piece->x += piece->width;
	} else {
		piece->row += piece->rows;
		piece->x = 0;
	}
	if (piece->row >= copy->height)
		return false;
	piece->width = min_u64(copy->width - piece->x, STAGE_SIZE);
	piece->rows = 1;
	if (piece->width == copy->width)
		piece->rows = min_u64(copy->height - piece->row, STAGE_SIZE / copy->width);
	return true;
}

static uint64_t piece_addr(const struct end *end, const struct piece *piece)
{
	return end->addr + piece->row * end->pitch + piece->x;
}

/* From the process's memory. Everything is read when this returns. */
static CUresult put_from_host(CUstream stream, struct queue *queue, const struct copy *copy)
{
	struct piece piece = { 0 };
	CUresult result = CUDA_SUCCESS;

	while (!result && next_piece(copy, &piece)) {
		struct stage *stage = stage_take(stream->ctx->device);
		struct copy in;

		if (!stage)
			return CUDA_ERROR_OUT_OF_MEMORY;
		in = (struct copy){
			.dst = { .addr = stage->addr, .pitch = piece.width },
			.src = { .addr = piece_addr(&copy->src, &piece), .pitch = copy->src.pitch },
			.width = piece.width, .height = piece.rows,
		};
		copy_now(&in);
		result = put_rows(queue, piece_addr(&copy->dst, &piece), copy->dst.pitch,
				  stage->addr, piece.width, piece.width, piece.rows);
		if (!result)
			result = ring_kick(queue);
		stage_drop(stage, queue);
	}
	return result;
}

/* Take a piece out of staging memory when it has arrived. */
static CUresult finish_piece(struct queue *queue, const struct copy *copy,
			     const struct piece *piece, struct stage *stage, uint64_t value)
{
	CUresult result = queue_wait(queue, value);
	struct copy out = {
		.dst = { .addr = piece_addr(&copy->dst, piece), .pitch = copy->dst.pitch },
		.src = { .addr = stage->addr, .pitch = piece->width },
		.width = piece->width, .height = piece->rows,
	};

	if (!result)
		copy_now(&out);
	stage_drop(stage, NULL);
	return result;
}

/* To the process's memory. Two pieces are on their way at a time; all have arrived at the end. */
static CUresult put_to_host(CUstream stream, struct queue *queue, const struct copy *copy)
{
	struct piece piece = { 0 }, before = { 0 };
	struct stage *pending = NULL;
	uint64_t value = 0;
	CUresult result = CUDA_SUCCESS;

	while (!result && next_piece(copy, &piece)) {
		struct stage *stage = stage_take(stream->ctx->device);

		if (!stage) {
			result = CUDA_ERROR_OUT_OF_MEMORY;
			break;
		}
		result = put_rows(queue, stage->addr, piece.width, piece_addr(&copy->src, &piece),
				  copy->src.pitch, piece.width, piece.rows);
		if (!result)
			result = ring_kick(queue);
		if (pending && !result)
			result = finish_piece(queue, copy, &before, pending, value);
		else if (pending)
			stage_drop(pending, queue);
		pending = stage;
		before = piece;
		value = load_relaxed(&queue->tail);
	}
	if (pending && !result)
		return finish_piece(queue, copy, &before, pending, value);
	if (pending)
		stage_drop(pending, queue);
	return result;
}

/* ---- which way */

/*
 * Try to copy at once. @wait: the copy has to be done when the call returns, so wait for the stream
 * first if it is busy. Another thread may keep the stream busy, then the copy is queued after all.
 */
static bool try_inline(CUstream stream, const struct copy *copy, bool wait, CUresult *result)
{
	int tries;

	for (tries = 0; tries < (wait ? 4 : 1); tries++) {
		lock_take(&stream->lock);
		if (stream_idle(stream)) {
			copy_now(copy);
			lock_drop(&stream->lock);
			*result = CUDA_SUCCESS;
			return true;
		}
		lock_drop(&stream->lock);
		if (wait) {
			*result = stream_drain(stream);
			if (*result)
				return true;
		}
	}
	return false;
}

static CUresult copy_queued(CUstream stream, const struct copy *copy, bool wait)
{
	struct queue *queue;
	uint64_t value = 0;
	CUresult result;

	lock_take(&stream->lock);
	result = stream_prepare(stream, &queue);
	if (!result) {
		if (copy->dst.host)
			result = put_to_host(stream, queue, copy);
		else if (copy->src.host)
			result = put_from_host(stream, queue, copy);
		else
			result = put_device(stream, queue, copy);
		if (!result)
			result = ring_kick(queue);
		value = load_relaxed(&queue->tail);
	}
	lock_drop(&stream->lock);
	if (!result && wait)
		result = queue_wait(queue, value);
	return result;
}

/* Both ends are checked and there is something to copy. */
static CUresult copy_run(CUstream stream, const struct copy *copy, unsigned int flags)
{
	bool host = copy->dst.host || copy->src.host, both = copy->dst.host && copy->src.host;
	bool may = both || (client.inlining && !copy->dst.shared && !copy->src.shared);
	/* What the program's memory gets must be there when the call returns. */
	bool wait = copy->dst.host || copy->dst.sync || copy->src.sync ||
		flags & CALL_WAIT || (flags & CALL_SYNC && host);
	CUresult result;

	/* A pageable source is read now in any case, so its size does not matter. */
	if (may && (wait || copy->src.host || flags & CALL_SYNC ||
		    copy->width * copy->height <= INLINE_MAX) &&
	    try_inline(stream, copy, wait, &result))
		return result;
	if (both) {
		/* The engine cannot do it; the stream was busy all the time. */
		result = stream_drain(stream);
		if (!result)
			copy_now(copy);
		return result;
	}
	return copy_queued(stream, copy, wait);
}

CUresult copy_linear(uint64_t dst, unsigned int dst_kind, uint64_t src, unsigned int src_kind,
		     uint64_t bytes, CUstream handle, unsigned int flags)
{
	struct copy copy = {
		.dst = { .addr = dst, .pitch = bytes }, .src = { .addr = src, .pitch = bytes },
		.width = bytes, .height = 1,
	};
	CUstream stream;
	CUresult result = stream_get(handle, flags & CALL_OWN, &stream);

	if (result || !bytes)
		return result;
	result = end_check(&copy, &copy.dst, dst_kind);
	if (!result)
		result = end_check(&copy, &copy.src, src_kind);
	return result ? result : copy_run(stream, &copy, flags);
}

/* One operand of CUDA_MEMCPY2D. */
static CUresult operand(const struct copy *copy, struct end *end, CUmemorytype type,
			const void *host, uint64_t device, uint64_t pitch, uint64_t x, uint64_t y)
{
	uint64_t least, skip;
	CUresult result;

	if (__builtin_add_overflow(copy->width, x, &least))
		return CUDA_ERROR_INVALID_VALUE;
	if (!pitch)
		pitch = least;
	if (pitch < least)
		return CUDA_ERROR_INVALID_VALUE;
	switch (type) {
	case CU_MEMORYTYPE_HOST:
		end->addr = (uintptr_t)host;
		break;
	case CU_MEMORYTYPE_DEVICE:
	case CU_MEMORYTYPE_UNIFIED:
		end->addr = device;
		break;
	default:
		/* There are no arrays yet, so no handle is one. */
		return CUDA_ERROR_INVALID_VALUE;
	}
	if (!end->addr || __builtin_mul_overflow(y, pitch, &skip) ||
	    __builtin_add_overflow(skip, x, &skip) ||
	    __builtin_add_overflow(end->addr, skip, &end->addr))
		return CUDA_ERROR_INVALID_VALUE;
	end->pitch = pitch;
	result = end_check(copy, end, type == CU_MEMORYTYPE_DEVICE ? END_DEVICE :
			   END_DEVICE | END_HOST);
	if (!result && pitch > MAX_PITCH && !(end->host && copy->height == 1))
		result = CUDA_ERROR_INVALID_VALUE;
	return result;
}

CUresult copy_2d(const CUDA_MEMCPY2D *c, CUstream handle, unsigned int flags)
{
	struct copy copy = { 0 };
	CUstream stream;
	CUresult result = stream_get(handle, flags & CALL_OWN, &stream);

	if (result)
		return result;
	if (!c)
		return CUDA_ERROR_INVALID_VALUE;
	copy.width = c->WidthInBytes;
	copy.height = c->Height;
	if (!copy.width || !copy.height)
		return CUDA_SUCCESS;
	result = operand(&copy, &copy.dst, c->dstMemoryType, c->dstHost, c->dstDevice, c->dstPitch,
			 c->dstXInBytes, c->dstY);
	if (!result)
		result = operand(&copy, &copy.src, c->srcMemoryType, c->srcHost, c->srcDevice,
				 c->srcPitch, c->srcXInBytes, c->srcY);
	return result ? result : copy_run(stream, &copy, flags);
}
