// SPDX-License-Identifier: MIT
/*
 * Copies: rows of bytes from one place to another, in stream order.
 *
 * Every copy goes one of three ways:
 *
 *   inline    the stream is idle and the CPU can reach both ends: the calling thread executes memmove()
 *             under the stream's lock, and submits nothing. Asynchronous copies without a pageable end:
 *             up to 256 KiB.
 *   ring      both ends are device memory, or pinned: entries in the stream's ring.
 *   staged    an end is pageable memory of the process, which the engine cannot reach: pieces of up to
 *             1 MiB through staging memory (exec/stage.c). A pageable source is read before the call
 *             returns. If no staging memory can be had, the calling thread waits for the stream and copies.
 *
 * The engine of a device with PAGEABLE_MEMORY_ACCESS reaches pageable memory (address/pageable.h). There, an
 * address that the API calls the device's may be pageable: the copy goes through the ring, never inline, because a
 * fault of the engine is an error of the stream, and one of the calling thread ends the process. Large copies to
 * pageable memory are not staged. Large copies from it are not staged if a batch lets the source be read later.
 *
 * In strict mode the CPU does not reach device memory: it is dark. A copy with a dark end is never inline. It
 * needs staging memory if its other end is pageable or overlaps it. So staging memory is allocated before the
 * first device memory. It is host memory, which does not run out when the device is full.
 *
 * Movable memory (vm.h) is treated as dark, unless it is resident (address/resident.h): where the kernel has no
 * memory for a page, the engine's work fails, but an access of the CPU ends the process. In a process that has such
 * memory, staging memory is host memory if the device is full.
 *
 * A copy of memory that is shared with other processes or drivers is not inline. A copy that must be done when
 * the call returns waits for the stream, and is then inline if its ends allow.
 *
 * An entry's ends must not overlap. CUDA's documentation leaves the result of overlapping copies open. The
 * library copies them like memmove(), through staging memory.
 *
 * A 3D copy is queued slice by slice, a copy of a tiled array strip by strip (box.h). A copy between contexts
 * needs no current context: without one, stream 0 means the default stream of a context that an end belongs to.
 * box.c resolves descriptors of 2D and 3D copies and of arrays, and end.c looks up the memory at an end.
 *
 * Locks: the stream's lock while a copy is submitted or inline; inside it early_lock for the queues that read
 * early.
 *
 * A caller may ask for the source to be read before the call returns (struct copy, @early). A pageable source
 * always is. Any other source is then copied to staging memory at once, out of the stream's order: by the CPU,
 * or by the engine in a queue that waits for no stream.
 *
 * Vocabulary: end (box.h); host, memory that the engine does not reach; slice, the rows at one depth;
 * piece, what one staging buffer holds; early, as above.
 */
#include "copy/box.h"
#include "copy/plain_copy.h"
#include "copy/torn.h"

static pthread_mutex_t early_lock = PTHREAD_MUTEX_INITIALIZER;
static struct queue *early_queues[GPUMEM_MAX_DEVICES];	/* early_lock */

/* ---- what a copy is */

static void *at(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

/* Bytes from the first byte of an end to the end of its last. */
static uint64_t extent(const struct copy *copy, const struct copy_end *end)
{
	return (copy_slices(copy) - 1) * end->slice + (copy->height - 1) * end->pitch + copy->width;
}

/* Whether the device of a copy's stream may access an end. */
static bool end_allowed(const struct copy_end *end, CUdevice device)
{
	return !(end->pageable && !client.device[device].pageable) &&
	       !(end->host_only && client.device[device].exclusive);
}

/* The engine accesses an end that the CPU would have copied. */
static void end_direct(struct copy_end *end)
{
	end->host = false;
	end->pageable = end->dark = true;
}

bool copy_reads_directly(CUstream stream, const struct copy *copy)
{
	return client.device[stream->ctx->device].pageable && copy->src.host && !copy->src.io &&
	       !copy->dst.host && !copy->dst.shared && !vm_reserved(copy->src.addr);
}

void copy_read_directly(struct copy *copy)
{
	end_direct(&copy->src);
}

static bool dark(const struct copy *copy)
{
	return copy->dst.dark || copy->src.dark;
}

/* Whether the two ends have a byte in common, or might have. */
bool copy_overlaps(const struct copy *copy)
{
	if (unlikely(copy_tiled(copy)))
		return copy->dst.tiles == copy->src.tiles;
	return copy->dst.addr < copy->src.addr + extent(copy, &copy->src) &&
	       copy->src.addr < copy->dst.addr + extent(copy, &copy->dst);
}

/*
 * The slice to copy after @done slices. Slices, like rows, are copied in the direction in which an overlapping
 * copy does not overwrite bytes that it has still to read.
 */
static struct copy next_slice(const struct copy *copy, uint64_t done)
{
	bool down = copy->dst.addr > copy->src.addr && copy_overlaps(copy);
	uint64_t z = down ? copy_slices(copy) - 1 - done : done;
	struct copy slice = *copy;

	slice.dst.addr += z * copy->dst.slice;
	slice.src.addr += z * copy->src.slice;
	slice.depth = 1;
	return slice;
}

/* ---- inline */

static void rows_now(const struct copy *copy)
{
	uint64_t row;

	if (copy->width == copy->dst.pitch && copy->width == copy->src.pitch) {
		memmove(at(copy->dst.addr), at(copy->src.addr), copy->width * copy->height);
		return;
	}
	if (copy->dst.addr > copy->src.addr && copy_overlaps(copy)) {
		for (row = copy->height; row--;)
			memmove(at(copy->dst.addr + row * copy->dst.pitch),
				at(copy->src.addr + row * copy->src.pitch), copy->width);
		return;
	}
	for (row = 0; row < copy->height; row++)
		memmove(at(copy->dst.addr + row * copy->dst.pitch),
			at(copy->src.addr + row * copy->src.pitch), copy->width);
}

void copy_now(const struct copy *copy)
{
	uint64_t done;

	for (done = 0; done < copy_slices(copy); done++) {
		const struct copy slice = next_slice(copy, done);

		rows_now(&slice);
	}
}

static void copy_call(const void *copy)
{
	copy_now(copy);
}

/* ---- ring */

/* Flags of an end of a copy. @pageable, @shift: of its side. */
static unsigned int end_flags(unsigned int pageable, unsigned int shift, const struct queue *queue,
			      const struct copy_end *end)
{
	if (unlikely(end->rights) && end->rights != client.device[queue->device].index + 1)
		return end->rights << shift;
	return end->pageable ? pageable : 0;
}

static unsigned int flag_dst(const struct queue *queue, const struct copy *copy)
{
	return end_flags(GPUMEM_SQE_DST_PAGEABLE, GPUMEM_SQE_DST_RIGHTS_SHIFT, queue, &copy->dst);
}

static unsigned int flag_src(const struct queue *queue, const struct copy *copy)
{
	return end_flags(GPUMEM_SQE_SRC_PAGEABLE, GPUMEM_SQE_SRC_RIGHTS_SHIFT, queue, &copy->src);
}

/* @flags: flag_dst(), flag_src() */
static CUresult put_rows(struct queue *queue, uint64_t dst, uint64_t dst_pitch, uint64_t src,
			 uint64_t src_pitch, uint64_t width, uint64_t height, unsigned int flags)
{
	struct gpumem_sqe sqe = {
		.op = GPUMEM_OP_COPY, .flags = flags, .dst = dst, .src = src, .width = width, .height = height,
	};
	CUresult result = order_renew(queue);

	if (result)
		return result;
	if (height > 1) {
		sqe.dst_pitch = dst_pitch;
		sqe.src_pitch = src_pitch;
	}
	return ring_put(queue, &sqe);
}

/* Copy a row whose ends may overlap: through a staging buffer, in the direction that memmove() takes. */
static CUresult put_overlapping_row(struct queue *queue, struct stage *stage, const struct copy *copy,
				    uint64_t row)
{
	uint64_t dst = copy->dst.addr + row * copy->dst.pitch;
	uint64_t src = copy->src.addr + row * copy->src.pitch;
	uint64_t width = copy->width;
	uint64_t done = 0;
	CUresult result = CUDA_SUCCESS;

	while (!result && done < width) {
		uint64_t piece = min_u64(width - done, STAGE_SIZE);
		uint64_t from = dst > src ? width - done - piece : done;

		result = put_rows(queue, stage->place, 0, src + from, 0, piece, 1, flag_src(queue, copy));
		if (!result)
			result = put_rows(queue, dst + from, 0, stage->place, 0, piece, 1, flag_dst(queue, copy));
		done += piece;
	}
	return result;
}

static CUresult put_overlapping(CUstream stream, struct queue *queue, const struct copy *copy)
{
	struct stage *stage = stage_take(stream->ctx->device, queue, STAGE_SIZE, true);
	CUresult result = CUDA_SUCCESS;
	struct hold hold;
	uint64_t row;

	if (!stage) {
		if (dark(copy))
			return CUDA_ERROR_OUT_OF_MEMORY;
		result = order_hold(queue, &hold);
		if (result)
			return result;
		result = order_wait(&hold);
		if (!result) {
			touch_begin_hold(stream, &hold);
			copy_now(copy);
			touch_end_hold();
		}
		order_release(&hold);
		return result;
	}
	for (row = 0; !result && row < copy->height; row++) {
		uint64_t r = copy->dst.addr > copy->src.addr ? copy->height - 1 - row : row;

		result = put_overlapping_row(queue, stage, copy, r);
	}
	stage_drop(stage, queue);
	return result;
}

static CUresult put_device(CUstream stream, struct queue *queue, const struct copy *copy)
{
	if (copy->dst.addr == copy->src.addr &&
	    (copy->height == 1 || copy->dst.pitch == copy->src.pitch))
		return CUDA_SUCCESS;
	if (copy_overlaps(copy))
		return put_overlapping(stream, queue, copy);
	return put_rows(queue, copy->dst.addr, copy->dst.pitch, copy->src.addr, copy->src.pitch,
			copy->width, copy->height, flag_dst(queue, copy) | flag_src(queue, copy));
}

/* ---- staged */

/*
 * A piece of a copy: whole rows, packed, if a row fits into a staging buffer, else a part of one row.
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

static uint64_t piece_addr(const struct copy_end *end, const struct piece *piece)
{
	return end->addr + piece->row * end->pitch + piece->x;
}

/* Copy @piece and all later pieces in the calling thread, without staging memory. */
static CUresult copy_pieces(struct queue *queue, const struct copy *copy, struct piece *piece)
{
	CUresult result;
	struct hold hold;

	if (dark(copy))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = order_hold(queue, &hold);
	if (result)
		return result;
	result = order_wait(&hold);
	if (result) {
		order_release(&hold);
		return result;
	}
	do {
		const struct copy direct = {
			.dst = { .addr = piece_addr(&copy->dst, piece), .pitch = copy->dst.pitch },
			.src = { .addr = piece_addr(&copy->src, piece), .pitch = copy->src.pitch },
			.width = piece->width, .height = piece->rows,
		};

		touch_begin_hold(queue->stream, &hold);
		copy_now(&direct);
		touch_end_hold();
	} while (next_piece(copy, piece));
	order_release(&hold);
	return CUDA_SUCCESS;
}

/* Have the engine fill a staging buffer without waiting for any stream. */
static CUresult read_early(CUdevice device, const struct copy *in)
{
	struct queue *queue;
	CUresult result;

	pthread_mutex_lock(&early_lock);
	queue = queue_own(&early_queues[device], device);
	if (queue) {
		result = ring_finish(queue, put_rows(queue, in->dst.addr, in->dst.pitch,
						     in->src.addr, in->src.pitch, in->width,
						     in->height, flag_src(queue, in)));
		if (!result)
			result = queue_wait(queue, load_relaxed(&queue->tail));
		if (!result)
			result = queue_status(queue);
	} else {
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	pthread_mutex_unlock(&early_lock);
	return result;
}

/* A piece of a copy into a staging buffer. */
static struct copy piece_in(const struct copy *copy, const struct piece *piece, uint64_t buffer)
{
	return (struct copy){
		.dst = { .addr = buffer, .pitch = piece->width },
		.src = { .addr = piece_addr(&copy->src, piece), .pitch = copy->src.pitch, .rights = copy->src.rights },
		.width = piece->width, .height = piece->rows,
	};
}

static CUresult put_piece_out(struct queue *queue, const struct copy *copy,
			      const struct piece *piece, uint64_t buffer)
{
	CUresult result = put_rows(queue, piece_addr(&copy->dst, piece), copy->dst.pitch, buffer,
				   piece->width, piece->width, piece->rows, flag_dst(queue, copy));

	return result ? result : ring_kick(queue);
}

/* Copy to or from a staging buffer. @other: another staging buffer that the caller has, or NULL. */
static CUresult copy_staged(CUstream stream, struct queue *queue, const struct copy *copy,
			    struct stage *stage, struct stage *other)
{
	CUresult result = ring_kick(queue);

	if (result)
		return result;
	touch_begin_stage(stream, queue, stage, other);
	copy_now(copy);
	touch_end_stage();
	return CUDA_SUCCESS;
}

/* Queue a copy from the process's memory, or an early one. The source has been read when this returns. */
static CUresult put_from_host(CUstream stream, struct queue *queue, const struct copy *copy)
{
	struct piece piece = { 0 };
	CUresult result = CUDA_SUCCESS;

	while (!result && next_piece(copy, &piece)) {
		struct stage *stage = stage_take(stream->ctx->device, queue,
						 piece.width * piece.rows, true);
		struct copy in;

		if (!stage)
			return copy_pieces(queue, copy, &piece);
		in = piece_in(copy, &piece, stage->place);
		if (copy->src.host || (copy->src.pinned && !copy->src.shared))
			result = copy_staged(stream, queue, &in, stage, NULL);
		else
			result = read_early(stream->ctx->device, &in);
		if (!result)
			result = put_piece_out(queue, copy, &piece, stage->place);
		stage_drop(stage, queue);
	}
	return result;
}

static CUresult through(struct queue *queue, const struct copy *copy, uint64_t buffer)
{
	CUresult result = CUDA_SUCCESS;
	uint64_t done;

	for (done = 0; !result && done < copy_slices(copy); done++) {
		const struct copy slice = next_slice(copy, done);
		struct piece piece = { 0 };

		while (!result && next_piece(&slice, &piece)) {
			const struct copy in = piece_in(&slice, &piece, buffer);

			copy_now(&in);
			result = put_piece_out(queue, &slice, &piece, buffer);
			if (!result)
				result = queue_wait(queue, load_relaxed(&queue->tail));
		}
	}
	return result;
}

CUresult copy_through(struct queue *queue, const struct copy *copy, uint64_t buffer)
{
	struct copy_part at = { 0 };
	CUresult result = CUDA_SUCCESS;
	struct copy part;

	if (!copy_tiled(copy))
		result = through(queue, copy, buffer);
	else
		while (!result && copy_part(copy, &at, &part))
			result = through(queue, &part, buffer);
	return result ? result : queue_status(queue);
}

/* Wait for a piece at @value, and copy it out of staging memory. @other: as for copy_staged(). */
static CUresult finish_piece(struct queue *queue, const struct copy *copy,
			     const struct piece *piece, struct stage *stage, struct stage *other,
			     uint64_t value)
{
	CUresult result;
	struct copy out = {
		.dst = { .addr = piece_addr(&copy->dst, piece), .pitch = copy->dst.pitch },
		.src = { .addr = stage->place, .pitch = piece->width },
		.width = piece->width, .height = piece->rows,
	};

	order_rest(queue, value);
	result = queue_wait(queue, value);
	order_resume(queue);
	if (!result)
		result = copy_staged(queue->stream, queue, &out, stage, other);
	/* If the wait failed, the engine may still write to the staging buffer. */
	if (result)
		stage_drop(stage, queue);
	else
		stage_return(stage);
	return result;
}

/* Copy to the process's memory, two pieces at a time. The copy is done when this returns. */
static CUresult put_to_host(CUstream stream, struct queue *queue, const struct copy *copy)
{
	struct piece piece = { 0 }, before = { 0 };
	struct stage *pending = NULL;
	uint64_t value = 0;
	CUresult result = CUDA_SUCCESS;

	while (!result && next_piece(copy, &piece)) {
		uint64_t bytes = piece.width * piece.rows;
		struct stage *stage = stage_take(stream->ctx->device, queue, bytes, !pending);

		/* Waiting threads hold no staging buffer: otherwise they could hold all of them. */
		if (!stage && pending) {
			result = finish_piece(queue, copy, &before, pending, NULL, value);
			pending = NULL;
			if (result)
				break;
			stage = stage_take(stream->ctx->device, queue, bytes, true);
		}
		if (!stage)
			return copy_pieces(queue, copy, &piece);
		result = put_rows(queue, stage->place, piece.width, piece_addr(&copy->src, &piece),
				  copy->src.pitch, piece.width, piece.rows, flag_src(queue, copy));
		if (!result)
			result = ring_kick(queue);
		if (pending && !result)
			result = finish_piece(queue, copy, &before, pending, stage, value);
		else if (pending)
			stage_drop(pending, queue);
		pending = stage;
		before = piece;
		value = load_relaxed(&queue->tail);
	}
	if (pending && !result)
		return finish_piece(queue, copy, &before, pending, NULL, value);
	if (pending)
		stage_drop(pending, queue);
	return result;
}

/* ---- which way */

/*
 * Try to copy inline. @wait: the copy must be done when the call returns, so wait first for a busy stream.
 * False: the stream is busy, and the caller must queue the copy.
 */
static bool try_inline(CUstream stream, const struct copy *copy, bool wait, CUresult *result)
{
	if (!stream_begin_idle(stream, wait ? 4 : 0, result))
		return *result;
	touch_begin(stream);
	copy_now(copy);
	touch_drop(stream);
	return true;
}

static CUresult put_slice(CUstream stream, struct queue *queue, const struct copy *copy)
{
	if (copy->dst.host)
		return put_to_host(stream, queue, copy);
	if (copy->src.host || copy->early)
		return put_from_host(stream, queue, copy);
	return put_device(stream, queue, copy);
}

static CUresult put_slices(CUstream stream, struct queue *queue, const struct copy *copy)
{
	CUresult result = CUDA_SUCCESS;
	uint64_t done;

	for (done = 0; !result && done < copy_slices(copy); done++) {
		const struct copy slice = next_slice(copy, done);

		result = put_slice(stream, queue, &slice);
	}
	return result;
}

CUresult copy_put(CUstream stream, struct queue *queue, const struct copy *copy)
{
	struct copy_part at = { 0 };
	CUresult result = CUDA_SUCCESS;
	struct copy part;

	if (unlikely(client.faults) && fault_now.pieces)
		return torn_put(stream, queue, copy);
	if (likely(!copy_tiled(copy)))
		return put_slices(stream, queue, copy);
	while (!result && copy_part(copy, &at, &part))
		result = put_slices(stream, queue, &part);
	return result;
}

static CUresult copy_queued(CUstream stream, const struct copy *copy, bool wait)
{
	struct queue *queue;
	uint64_t value = 0;
	CUresult result = stream_begin(stream);

	if (result)
		return result;
	result = stream_prepare(stream, &queue);
	if (!result) {
		result = ring_finish(queue, copy_put(stream, queue, copy));
		value = load_relaxed(&queue->tail);
	}
	lock_drop(&stream->lock);
	if (!result && wait)
		result = queue_wait(queue, value);
	return result;
}

/* Who can execute a copy. */
enum copier {
	BY_ENGINE,
	BY_CALLER,			/* the calling thread, if the stream is idle */
	BY_NEAR,			/* the same, if movable memory is still shown once the stream is idle */
};

/* Whether the CPU may access an end, in the order of work of a context whose device is at @place. */
static enum near end_lit(const struct copy *copy, const struct copy_end *end, uint64_t place)
{
	uint64_t length = extent(copy, end);
	enum near near;

	if (!(end->shared || end->dark))
		return NEAR_HERE;
	if (!end->movable)
		return NEAR_NOT;
	near = vm_near(end->addr, length, place);
	return near ? near : vm_near_pool(end->addr, length, place);
}

static bool copy_near_now(CUstream stream, const struct copy *copy, struct near_ends *near)
{
	near->dst = end_lit(copy, &copy->dst, stream->ctx->place);
	near->src = near->dst ? end_lit(copy, &copy->src, stream->ctx->place) : NEAR_NOT;
	return near->src;
}

static inline enum copier copy_by(CUstream stream, const struct copy *copy, struct near_ends *near)
{
	near->dst = near->src = NEAR_HERE;
	if (copy->dst.host && copy->src.host)
		return BY_CALLER;
	if (unlikely(!client.inlining))
		return BY_ENGINE;
	if (!(copy->dst.shared || copy->dst.dark || copy->src.shared || copy->src.dark))
		return BY_CALLER;
	return copy_near_now(stream, copy, near) ? BY_NEAR : BY_ENGINE;
}

bool copy_may_inline(CUstream stream, const struct copy *copy, struct near_ends *near)
{
	return copy_by(stream, copy, near) != BY_ENGINE;
}

void copy_inlined(const struct copy *copy, const struct near_ends *near, CUdevice device)
{
	uint64_t bytes = copy->width * copy->height * copy_slices(copy);

	resident_done(near->dst, copy->dst.addr, extent(copy, &copy->dst), bytes, device);
	resident_done(near->src, copy->src.addr, extent(copy, &copy->src), bytes, device);
}

/*
 * try_inline() for movable memory that was shown before the call waited for the stream. The stream's own work may
 * have evicted it. False: also if it is not shown any more.
 */
static __attribute__((noinline)) bool try_near(CUstream stream, const struct copy *copy, bool wait, CUresult *result)
{
	CUdevice device = stream->ctx->device;
	struct near_ends near;

	if (!stream_begin_idle(stream, wait ? 4 : 0, result))
		return *result;
	if (!copy_near_now(stream, copy, &near)) {
		lock_drop(&stream->lock);
		return false;
	}
	touch_begin(stream);
	copy_now(copy);
	touch_drop(stream);
	copy_inlined(copy, &near, device);
	return true;
}

/* Have the engine write to pageable memory from DIRECT_LEAST bytes on. The call waits for the copy. */
static CUresult copy_out_queued(CUstream stream, const struct copy *copy)
{
	struct copy direct;

	if (!client.device[stream->ctx->device].pageable || copy->dst.io || vm_reserved(copy->dst.addr) ||
	    copy->src.host || copy->src.shared || copy->width * copy->height * copy_slices(copy) < DIRECT_LEAST)
		return copy_queued(stream, copy, true);
	direct = *copy;
	end_direct(&direct.dst);
	return copy_queued(stream, &direct, true);
}

CUresult copy_run(CUstream stream, const struct copy *copy, unsigned int flags)
{
	bool host = copy->dst.host || copy->src.host, both = copy->dst.host && copy->src.host;
	bool pinned = copy->dst.pinned || copy->src.pinned || copy->dst.pageable || copy->src.pageable;
	struct near_ends near;
	enum copier by = copy_by(stream, copy, &near);
	/*
	 * A copy to pageable memory must be done when the call returns. As recorded, so must a copy to or from managed
	 * memory that the call names as the host's.
	 */
	bool wait = copy->dst.host || copy->dst.sync || copy->src.sync ||
		copy->dst.managed_host || copy->src.managed_host ||
		flags & CALL_WAIT || (flags & CALL_SYNC && (host || pinned));
	CUresult result;
	bool may;

	if (unlikely(client.faults) && fault_now.flip)
		return torn_flip(stream, copy, flags);
	if (unlikely(copy->dst.checked || copy->src.checked) &&
	    !(end_allowed(&copy->dst, stream->ctx->device) && end_allowed(&copy->src, stream->ctx->device)))
		return CUDA_ERROR_INVALID_VALUE;
	/* The calling thread reads a device's registers, once all earlier work of the stream is done. */
	if (copy->src.io) {
		result = stream_drain(stream);
		if (result)
			return result;
	}
	/* A pageable source is read before the call returns in any case, so its size does not matter. */
	may = wait || copy->src.host || flags & CALL_SYNC || copy->width * copy->height * copy_slices(copy) <= INLINE_MAX;
	if (by == BY_CALLER && may && try_inline(stream, copy, wait, &result))
		return result;
	if (by == BY_NEAR && may && try_near(stream, copy, wait, &result))
		return result;
	if (both)
		return order_call(stream, copy_call, copy);
	return copy->dst.host ? copy_out_queued(stream, copy) : copy_queued(stream, copy, wait);
}

CUresult copy_stream(CUstream handle, unsigned int flags, uint64_t dst, uint64_t src,
			    bool nothing, CUstream *stream)
{
	CUresult result = stream_get(handle, flags & CALL_OWN, stream);
	struct span span;

	if (!(flags & CALL_PEER) || result != CUDA_ERROR_INVALID_CONTEXT)
		return result;
	if (nothing)
		return CUDA_SUCCESS;
	if (!(vm_lookup(dst, &span) && span.ctx) && !(vm_lookup(src, &span) && span.ctx))
		return CUDA_ERROR_INVALID_VALUE;
	result = ctx_push(span.ctx);
	if (result)
		return result;
	result = stream_get(handle, flags & CALL_OWN, stream);
	ctx_pop(&span.ctx);
	return result;
}

CUresult copy_peer_wait(CUstream stream, const struct copy *copy, unsigned int flags)
{
	CUcontext one = copy->dst.ctx, other = copy->src.ctx;

	if (!(flags & CALL_PEER) || !(flags & CALL_SYNC))
		return CUDA_SUCCESS;
	if (one == stream->ctx)
		one = NULL;
	if (other == stream->ctx || other == one)
		other = NULL;
	if (one && other)
		return ctx_synchronize_both(one, other);
	return one ? ctx_synchronize(one) : other ? ctx_synchronize(other) : CUDA_SUCCESS;
}

/* Copy one row of bytes. @copy: has the addresses of the ends, and the contexts that the call names for them. */
static CUresult copy_bytes(struct copy *copy, unsigned int dst_kind, unsigned int src_kind, CUstream handle,
			   unsigned int flags)
{
	uint64_t bytes = copy->width;
	CUstream stream;
	CUresult result = copy_stream(handle, flags, copy->dst.addr, copy->src.addr, !bytes, &stream);

	if (result || !bytes)
		return result;
	if (!copy->dst.reach)
		copy->dst.reach = copy_reach(stream);
	if (!copy->src.reach)
		copy->src.reach = copy_reach(stream);
	result = copy_end_find(copy, &copy->dst, dst_kind);
	if (!result)
		result = copy_end_find(copy, &copy->src, src_kind);
	if (!result)
		result = copy_peer_wait(stream, copy, flags);
	return result ? result : copy_run(stream, copy, flags);
}

CUresult copy_linear(uint64_t dst, unsigned int dst_kind, uint64_t src, unsigned int src_kind,
		     uint64_t bytes, CUstream handle, unsigned int flags)
{
	struct copy copy = {
		.dst = { .addr = dst, .pitch = bytes }, .src = { .addr = src, .pitch = bytes },
		.width = bytes, .height = 1,
	};

	return copy_bytes(&copy, dst_kind, src_kind, handle, flags);
}

CUresult copy_between(uint64_t dst, CUcontext dst_context, uint64_t src, CUcontext src_context, uint64_t bytes,
		      CUstream handle, unsigned int flags)
{
	struct copy copy = {
		.dst = { .addr = dst, .pitch = bytes, .reach = dst_context },
		.src = { .addr = src, .pitch = bytes, .reach = src_context },
		.width = bytes, .height = 1,
	};

	return copy_bytes(&copy, END_DEVICE, END_DEVICE, handle, flags | CALL_PEER);
}

/* Copy plain memory: one entry, unless the copy is inline. The stream's lock is held; this drops it. */
static CUresult copy_plain_locked(uint64_t dst, uint64_t src, uint64_t bytes, CUstream stream,
				  unsigned int flags)
{
	struct queue *queue;
	CUresult result;

	if (bytes <= INLINE_MAX && client.inlining_device && stream_idle(stream))
		return copy_finish(dst, src, bytes, stream);
	if (dst - src < bytes || src - dst < bytes) {
		lock_drop(&stream->lock);
		return copy_linear(dst, END_DEVICE, src, END_DEVICE, bytes, stream, flags);
	}
	result = stream_prepare(stream, &queue);
	if (!result)
		result = ring_finish(queue, put_rows(queue, dst, 0, src, 0, bytes, 1, 0));
	lock_drop(&stream->lock);
	return result;
}

/*
 * Copy in the calling thread between memory that is plain or shown, if there is nothing else to check. False: this
 * did nothing.
 */
static bool copy_near(uint64_t dst, uint64_t src, uint64_t bytes, CUstream handle)
{
	enum near to, from;
	CUdevice device;

	if (!copy_short(dst, src, bytes, handle) || !near_begin(handle))
		return false;
	device = handle->ctx->device;
	/* The stream's own work may evict the memory: look when it is done. */
	if (!stream_idle_fast(handle)) {
		lock_drop(&handle->lock);
		return false;
	}
	to = vm_near(dst, bytes, handle->ctx->place);
	from = to ? vm_near(src, bytes, handle->ctx->place) : NEAR_NOT;
	if (!from) {
		lock_drop(&handle->lock);
		return false;
	}
	near_finish(dst, src, bytes, handle);
	resident_done(to, dst, bytes, bytes, device);
	resident_done(from, src, bytes, bytes, device);
	return true;
}

CUresult copy_async(uint64_t dst, uint64_t src, uint64_t bytes, CUstream handle, unsigned int flags)
{
	if (copy_near(dst, src, bytes, handle))
		return CUDA_SUCCESS;
	return copy_linear(dst, END_DEVICE | END_HOST, src, END_DEVICE | END_HOST, bytes, handle, flags);
}

/* For copies that are neither plain nor near (plain_copy.h): one entry at best. */
CUresult copy_dtod_async(uint64_t dst, uint64_t src, uint64_t bytes, CUstream handle,
			 unsigned int flags)
{
	CUresult result;

	if (flags & CALL_FAR && copy_near(dst, src, bytes, handle))
		return CUDA_SUCCESS;
	if (!bytes || flags & CALL_FAR || unlikely(client.faults) || !copy_plain(dst, src, bytes, handle))
		return copy_linear(dst, END_DEVICE, src, END_DEVICE, bytes, handle, flags);
	result = stream_begin(handle);
	return result ? result : copy_plain_locked(dst, src, bytes, handle, flags);
}
