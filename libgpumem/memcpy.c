// SPDX-License-Identifier: MIT
/*
 * Copies: rows of bytes from one place to another, in stream order.
 *
 * Owns the staging memory. Every copy goes one of three ways:
 *
 *   inline    the stream is idle and the caller can reach both ends: memmove() under the stream's
 *             lock. Nothing is submitted. Asynchronous copies between allocs: up to 256 KiB.
 *   ring      both ends are device memory, or pinned: entries in the stream's ring.
 *   staged    an end is pageable memory of the process, which the engine cannot reach: pieces of up to
 *             1 MiB through buffer objects of the library, which small ones of one stream share. A
 *             source is read before the call returns. When the device has no memory left for the
 *             first piece, the caller waits and copies.
 *
 * In strict mode the CPU does not reach device memory: it is dark. A copy with a dark end is never
 * inline and there is no way for it without staging memory. So two pieces are made before the first
 * device memory is, and staging memory is host memory, of which a full device has as much as any.
 *
 * Memory that is shared with other processes or drivers is not touched inline. A copy that has to
 * be done when the call returns waits for the stream and is then inline if it may be.
 *
 * Entries must not have overlapping ends. The documentation leaves the result of overlapping copies
 * open; here they behave like memmove(), by way of staging memory.
 *
 * A 3D copy is queued slice by slice. A copy between contexts needs no current one: it is then in
 * the legacy stream of the context that an end belongs to. What descriptors of 2D and 3D copies and
 * arrays say is found out in box.c.
 *
 * Locks: the stream's while submitting; inside it stage_lock for the list of staging pieces, and
 * early_lock for the queues that read early.
 *
 * A copy may ask for its source to be read before the call returns (box.h), as pageable memory is
 * in any case. Other memory is then copied to staging memory at once, out of the stream's order: by
 * the CPU, or by the engine in a queue that waits for nothing.
 *
 * Vocabulary: end (box.h); host, memory that the engine does not reach; slice, the rows at one depth;
 * piece, what one staging buffer holds; early, as above.
 */
#include <stdlib.h>

#include "box.h"
#include "copy.h"
#include "internal.h"
#include "ring.h"

#define STAGE_SIZE	(1ull << 20)
#define STAGE_BLOCK	(2ull << 20)
#define STAGE_GRAIN	64ull
#define MAX_STAGES	64		/* for what needs one for itself */
#define MAX_SMALL_STAGES 256		/* for pieces of a sixteenth at most */

struct stage {
	struct stage *next;
	uint64_t addr;
	uint64_t place;			/* of who has it: address of his part */
	uint64_t used;			/* bytes, with the parts that @queue still needs */
	bool taken;
	struct queue *queue;		/* in use until this queue has reached @value, or NULL */
	uint64_t value;
	uint64_t since;			/* the lower, the longer */
};

static struct lock stage_lock;
static struct stage *stages;		/* stage_lock; atomic */
static unsigned int stage_count;	/* stage_lock */
static uint64_t stage_drops;		/* stage_lock */

static pthread_mutex_t early_lock = PTHREAD_MUTEX_INITIALIZER;
static struct queue *early_queues[GPUMEM_MAX_DEVICES];	/* early_lock */

/* ---- staging memory */

/* Two more pieces. stage_lock is held; it is dropped while the kernel populates them. */
static struct stage *stage_add(CUdevice device)
{
	struct stage *pair = calloc(2, sizeof(*pair));

	if (!pair)
		return NULL;
	stage_count += 2;
	lock_drop(&stage_lock);
	pair[0].addr = mem_internal(device, STAGE_BLOCK, "staging");
	lock_take(&stage_lock);
	if (!pair[0].addr) {
		stage_count -= 2;
		free(pair);
		return NULL;
	}
	pair[1].addr = pair[0].addr + STAGE_SIZE;
	pair[0].next = &pair[1];
	pair[1].next = stages;
	store_release(&stages, pair);
	return pair;
}

CUresult copy_reserve(CUdevice device)
{
	bool any;

	if (likely(load_acquire(&stages) != NULL))
		return CUDA_SUCCESS;
	lock_take(&stage_lock);
	/* Another thread may have had more luck meanwhile. */
	any = stages || stage_add(device) || stages;
	lock_drop(&stage_lock);
	return any ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static bool stage_idle(const struct stage *stage)
{
	return !stage->queue || queue_reached(stage->queue, stage->value);
}

/* Behind what the same queue has in it there may be room. */
static bool stage_shares(const struct stage *stage, const struct queue *queue, uint64_t bytes)
{
	return stage->queue == queue && bytes <= STAGE_SIZE - stage->used;
}

/*
 * A place of @bytes in staging memory for @queue of @device; waits for one if there are many and
 * @wait, for which the caller must not have another. NULL: there is none now, or no memory for the
 * first. A host function does not wait: those who have them may wait for it.
 *
 * Pieces of one queue share a buffer, so that many small copies may wait in a stream.
 */
static struct stage *stage_take(CUdevice device, struct queue *queue, uint64_t bytes, bool wait)
{
	unsigned int most = bytes <= STAGE_SIZE / 16 ? MAX_SMALL_STAGES : MAX_STAGES;
	struct stage *stage, *shared, *busy;
	struct queue *user;
	bool any, refused = false;
	uint64_t value;

	for (;;) {
		shared = busy = NULL;
		lock_take(&stage_lock);
		for (stage = stages; stage; stage = stage->next) {
			if (stage->taken)
				continue;
			if (stage_idle(stage))
				break;
			if (stage_shares(stage, queue, bytes))
				shared = stage;
			if (!busy || stage->since < busy->since)
				busy = stage;
		}
		if (!stage && !shared && stage_count < most && !refused) {
			stage = stage_add(device);
			refused = !stage;
		}
		if (stage)
			stage->used = 0;
		else
			stage = shared;
		if (stage) {
			stage->taken = true;
			stage->place = stage->addr + stage->used;
			stage->used += (bytes + STAGE_GRAIN - 1) / STAGE_GRAIN * STAGE_GRAIN;
		}
		user = busy ? busy->queue : NULL;
		value = busy ? busy->value : 0;
		any = stages;
		lock_drop(&stage_lock);
		if (stage || !wait || host_thread || !any || ring_kick(queue))
			return stage;
		/* Another may be done before the one that was submitted first. */
		order_rest(queue, 0);
		if (user)
			queue_doze(user, value);
		else
			lock_doze();
		order_resume(queue);
	}
}

/* Done with a place for which nothing was submitted, or which is not needed any more. */
static void stage_return(struct stage *stage)
{
	lock_take(&stage_lock);
	stage->taken = false;
	lock_drop(&stage_lock);
}

/* Done with a place as soon as what @queue has got so far is done. */
static void stage_drop(struct stage *stage, struct queue *queue)
{
	lock_take(&stage_lock);
	stage->queue = queue;
	stage->value = load_relaxed(&queue->tail);
	stage->since = ++stage_drops;
	stage->taken = false;
	lock_drop(&stage_lock);
}

void copy_abandon(struct stage *stage, struct stage *other, struct queue *queue)
{
	if (stage)
		stage_return(stage);
	if (other)
		stage_drop(other, queue);
}

/* ---- what a copy is */

static void *at(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

static uint64_t slices(const struct copy *copy)
{
	return copy->depth ? copy->depth : 1;
}

/* Bytes from the first to behind the last of one end. */
static uint64_t extent(const struct copy *copy, const struct end *end)
{
	return (slices(copy) - 1) * end->slice + (copy->height - 1) * end->pitch + copy->width;
}

CUresult copy_end(const struct copy *copy, struct end *end, unsigned int kind)
{
	uint64_t rows, above, bytes;
	struct span span;

	if (!end->addr || __builtin_mul_overflow(copy->height - 1, end->pitch, &rows) ||
	    __builtin_mul_overflow(slices(copy) - 1, end->slice, &above) ||
	    __builtin_add_overflow(rows, above, &rows) ||
	    __builtin_add_overflow(rows, copy->width, &bytes) || end->addr + bytes < end->addr)
		return CUDA_ERROR_INVALID_VALUE;
	if (vm_lookup(end->addr, &span)) {
		if (bytes > span.size - (end->addr - span.base))
			return CUDA_ERROR_INVALID_VALUE;
		/* Whoever registers memory for reading may have it mapped so. */
		if (end == &copy->dst && span.flags & ALLOC_READ_ONLY)
			return CUDA_ERROR_INVALID_VALUE;
		end->host = end->io = span.flags & ALLOC_IO;
		end->pinned = span.flags & (ALLOC_ANY_HOST | ALLOC_MANAGED);
		end->host_pool = span.pool && span.flags & ALLOC_ANY_HOST;
		end->shared = span.flags & (ALLOC_EXPORTED | ALLOC_IMPORTED);
		/* Of managed memory it is always on, and means calls without a stream. */
		end->sync = (span.flags & (ALLOC_SYNC_MEMOPS | ALLOC_MANAGED)) == ALLOC_SYNC_MEMOPS;
		end->dark = span_dark(&span);
		end->ctx = span.ctx;
		return CUDA_SUCCESS;
	}
	/* Addresses of the arena are never the program's own memory. */
	if (!(kind & END_HOST) || vm_reserved(end->addr))
		return CUDA_ERROR_INVALID_VALUE;
	end->host = true;
	return CUDA_SUCCESS;
}

static bool dark(const struct copy *copy)
{
	return copy->dst.dark || copy->src.dark;
}

/* Whether the two ends have a byte in common, or might have. */
bool copy_overlaps(const struct copy *copy)
{
	return copy->dst.addr < copy->src.addr + extent(copy, &copy->src) &&
	       copy->src.addr < copy->dst.addr + extent(copy, &copy->dst);
}

/*
 * The slice that has to be copied after @done others. Like rows, they are taken in the direction in
 * which an overlapping copy does not overwrite what it still has to read.
 */
static struct copy next_slice(const struct copy *copy, uint64_t done)
{
	bool down = copy->dst.addr > copy->src.addr && copy_overlaps(copy);
	uint64_t z = down ? slices(copy) - 1 - done : done;
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

	for (done = 0; done < slices(copy); done++) {
		const struct copy slice = next_slice(copy, done);

		rows_now(&slice);
	}
}

static void copy_call(const void *copy)
{
	copy_now(copy);
}

/* ---- ring */

static CUresult put_rows(struct queue *queue, uint64_t dst, uint64_t dst_pitch, uint64_t src,
			 uint64_t src_pitch, uint64_t width, uint64_t height)
{
	struct gpumem_sqe sqe = {
		.op = GPUMEM_OP_COPY, .dst = dst, .src = src, .width = width, .height = height,
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

/* A row that may overlap itself: through a staging piece, in the direction that memmove() takes. */
static CUresult put_overlapping_row(struct queue *queue, struct stage *stage, uint64_t dst,
				    uint64_t src, uint64_t width)
{
	uint64_t done = 0;
	CUresult result = CUDA_SUCCESS;

	while (!result && done < width) {
		uint64_t piece = min_u64(width - done, STAGE_SIZE);
		uint64_t from = dst > src ? width - done - piece : done;

		result = put_rows(queue, stage->place, 0, src + from, 0, piece, 1);
		if (!result)
			result = put_rows(queue, dst + from, 0, stage->place, 0, piece, 1);
		done += piece;
	}
	return result;
}

static CUresult put_overlapping(CUstream stream, struct queue *queue, const struct copy *copy)
{
	struct stage *stage = stage_take(stream->ctx->device, queue, STAGE_SIZE, true);
	CUresult result = CUDA_SUCCESS;
	struct turn turn;
	uint64_t row;

	if (!stage) {
		if (dark(copy))
			return CUDA_ERROR_OUT_OF_MEMORY;
		result = order_turn(queue, &turn);
		if (result)
			return result;
		result = order_wait(&turn);
		if (!result) {
			touch_begin_turn(stream, &turn);
			copy_now(copy);
			touch_end_turn();
		}
		order_over(&turn);
		return result;
	}
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
	if (copy_overlaps(copy))
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

/* The rest of a copy from @piece on, without staging memory. */
static CUresult copy_pieces(struct queue *queue, const struct copy *copy, struct piece *piece)
{
	CUresult result;
	struct turn turn;

	if (dark(copy))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = order_turn(queue, &turn);
	if (result)
		return result;
	result = order_wait(&turn);
	if (result) {
		order_over(&turn);
		return result;
	}
	do {
		const struct copy direct = {
			.dst = { .addr = piece_addr(&copy->dst, piece), .pitch = copy->dst.pitch },
			.src = { .addr = piece_addr(&copy->src, piece), .pitch = copy->src.pitch },
			.width = piece->width, .height = piece->rows,
		};

		touch_begin_turn(queue->stream, &turn);
		copy_now(&direct);
		touch_end_turn();
	} while (next_piece(copy, piece));
	order_over(&turn);
	return CUDA_SUCCESS;
}

/* Have the engine fill a staging buffer without waiting for any stream. */
static CUresult read_early(CUdevice device, const struct copy *in)
{
	struct queue **queue = &early_queues[device];
	CUresult result;

	pthread_mutex_lock(&early_lock);
	/* A queue that failed does nothing any more. */
	if (*queue && queue_failed(*queue)) {
		queue_free(*queue);
		*queue = NULL;
	}
	if (!*queue)
		*queue = queue_make(device, 0);
	if (*queue) {
		result = ring_finish(*queue, put_rows(*queue, in->dst.addr, in->dst.pitch,
						      in->src.addr, in->src.pitch, in->width,
						      in->height));
		if (!result)
			result = queue_wait(*queue, load_relaxed(&(*queue)->tail));
		if (!result)
			result = queue_status(*queue);
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
		.src = { .addr = piece_addr(&copy->src, piece), .pitch = copy->src.pitch },
		.width = piece->width, .height = piece->rows,
	};
}

static CUresult put_piece_out(struct queue *queue, const struct copy *copy,
			      const struct piece *piece, uint64_t buffer)
{
	CUresult result = put_rows(queue, piece_addr(&copy->dst, piece), copy->dst.pitch, buffer,
				   piece->width, piece->width, piece->rows);

	return result ? result : ring_kick(queue);
}

/* Copy to or from a staging buffer; @other: another one that the caller has. */
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

/* From the process's memory, or early. Everything is read when this returns. */
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

CUresult copy_through(struct queue *queue, const struct copy *copy, uint64_t buffer)
{
	CUresult result = CUDA_SUCCESS;
	uint64_t done;

	for (done = 0; !result && done < slices(copy); done++) {
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
	return result ? result : queue_status(queue);
}

/* Take a piece out of staging memory when it has arrived; @other: as above. */
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
	/* If nobody waited for it the engine may yet write to it. */
	if (result)
		stage_drop(stage, queue);
	else
		stage_return(stage);
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
		uint64_t bytes = piece.width * piece.rows;
		struct stage *stage = stage_take(stream->ctx->device, queue, bytes, !pending);

		/* Who waits for a piece must not have one: all could be taken by such. */
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
				  copy->src.pitch, piece.width, piece.rows);
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
 * Try to copy at once. @wait: the copy has to be done when the call returns, so wait for the stream
 * first if it is busy. Another thread may keep the stream busy, then the copy is queued after all.
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

CUresult copy_put(CUstream stream, struct queue *queue, const struct copy *copy)
{
	CUresult result = CUDA_SUCCESS;
	uint64_t done;

	for (done = 0; !result && done < slices(copy); done++) {
		const struct copy slice = next_slice(copy, done);

		result = put_slice(stream, queue, &slice);
	}
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

bool copy_may_inline(const struct copy *copy)
{
	return (copy->dst.host && copy->src.host) ||
	       (client.inlining && !copy->dst.shared && !copy->src.shared && !dark(copy));
}

CUresult copy_run(CUstream stream, const struct copy *copy, unsigned int flags)
{
	bool host = copy->dst.host || copy->src.host, both = copy->dst.host && copy->src.host;
	bool pinned = copy->dst.pinned || copy->src.pinned;
	bool may = copy_may_inline(copy);
	/* What the program's memory gets must be there when the call returns. */
	bool wait = copy->dst.host || copy->dst.sync || copy->src.sync ||
		flags & CALL_WAIT || (flags & CALL_SYNC && (host || pinned));
	CUresult result;

	/* What a device says is read in its turn, which is the caller's. */
	if (copy->src.io) {
		result = stream_drain(stream);
		if (result)
			return result;
	}
	/* A pageable source is read now in any case, so its size does not matter. */
	if (may && (wait || copy->src.host || flags & CALL_SYNC ||
		    copy->width * copy->height * slices(copy) <= INLINE_MAX) &&
	    try_inline(stream, copy, wait, &result))
		return result;
	return both ? order_call(stream, copy_call, copy) : copy_queued(stream, copy, wait);
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
	const CUcontext owners[] = { copy->dst.ctx, copy->src.ctx };
	CUresult result = CUDA_SUCCESS;
	unsigned int i;

	if (!(flags & CALL_PEER) || !(flags & CALL_SYNC))
		return CUDA_SUCCESS;
	for (i = 0; !result && i < 2; i++)
		if (owners[i] && owners[i] != stream->ctx)
			result = ctx_synchronize(owners[i]);
	return result;
}

CUresult copy_linear(uint64_t dst, unsigned int dst_kind, uint64_t src, unsigned int src_kind,
		     uint64_t bytes, CUstream handle, unsigned int flags)
{
	struct copy copy = {
		.dst = { .addr = dst, .pitch = bytes }, .src = { .addr = src, .pitch = bytes },
		.width = bytes, .height = 1,
	};
	CUstream stream;
	CUresult result = copy_stream(handle, flags, dst, src, !bytes, &stream);

	if (result || !bytes)
		return result;
	result = copy_end(&copy, &copy.dst, dst_kind);
	if (!result)
		result = copy_end(&copy, &copy.src, src_kind);
	/* As recorded: a pool of host memory is no source for cuMemcpyDtoH(). */
	if (!result && copy.src.host_pool && dst_kind & END_HOST && !(src_kind & END_HOST))
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result)
		result = copy_peer_wait(stream, &copy, flags);
	return result ? result : copy_run(stream, &copy, flags);
}

/* A copy of plain memory, with the stream's lock, that it drops: one entry, if it is none inline. */
static CUresult copy_plain_locked(uint64_t dst, uint64_t src, uint64_t bytes, CUstream stream,
				  unsigned int flags)
{
	struct queue *queue;
	CUresult result;

	/* Overlapping, or idle after all, by a longer look. */
	if (dst - src < bytes || src - dst < bytes ||
	    (bytes <= INLINE_MAX && client.inlining_device && stream_idle(stream))) {
		lock_drop(&stream->lock);
		return copy_linear(dst, END_DEVICE, src, END_DEVICE, bytes, stream, flags);
	}
	result = stream_prepare(stream, &queue);
	if (!result)
		result = ring_finish(queue, put_rows(queue, dst, 0, src, 0, bytes, 1));
	lock_drop(&stream->lock);
	return result;
}

/* What was not easy (copy.h): one entry at best. */
CUresult copy_dtod_async(uint64_t dst, uint64_t src, uint64_t bytes, CUstream handle,
			 unsigned int flags)
{
	CUresult result;

	if (!bytes || !copy_plain(dst, src, bytes, handle))
		return copy_linear(dst, END_DEVICE, src, END_DEVICE, bytes, handle, flags);
	result = stream_begin(handle);
	return result ? result : copy_plain_locked(dst, src, bytes, handle, flags);
}
