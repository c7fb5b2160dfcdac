// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_engine: validates ring entries, and executes them.
 *
 * gpumem_sqe_check() validates an entry.  It reads nothing but the kernel's
 * copy of the entry.  gpumem_engine_step() executes a valid entry.  It divides
 * a copy or a fill into slices.  For each slice it resolves the device
 * addresses in the stream's address space, checks the device's access, and
 * calls the engine to move the bytes.  A *slice* is GPUMEM_SLICE bytes at most,
 * where each row counts as GPUMEM_ROW_WEIGHT bytes at least.
 * gpumem_engine_piece() does the same for a piece of a published entry, on
 * whose dma_fence other drivers may wait (gpumem_publish.c).
 *
 * The operations of an engine (struct gpumem_engine_ops) take buffer objects
 * and offsets, not addresses.  The only engine uses the CPU
 * (gpumem_engine_cpu.c).  This file creates the engine of a device and its
 * workqueue.  Kernel workers of this workqueue execute what the client's worker
 * does not execute in time of a published entry.
 *
 * A slice uses the blocks of managed memory that it touches; gpumem_place.c says
 * what happens at a block that is not populated.
 *
 * Locks: vm->lock for reading, during a slice, a poll or a piece.  An unmap, or
 * the end of the client, therefore waits for the slices under way.
 */
#include <linux/overflow.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>

#include "gpumem_bo.h"
#include "gpumem_client.h"
#include "gpumem_delay.h"
#include "gpumem_device.h"
#include "gpumem_engine.h"
#include "gpumem_evict.h"
#include "gpumem_managed.h"
#include "gpumem_object.h"
#include "gpumem_pageable.h"
#include "gpumem_place.h"
#include "gpumem_stream.h"
#include "gpumem_timeline.h"
#include "gpumem_vm.h"

/**
 * gpumem_engine_create - allocate the engine of a device, and its workqueue
 * @dev: device with its name set
 *
 * Return: the engine, or an ERR_PTR.
 */
struct gpumem_engine *gpumem_engine_create(struct gpumem_device *dev)
{
	struct gpumem_engine *engine = kzalloc(sizeof(*engine), GFP_KERNEL);

	if (!engine)
		return ERR_PTR(-ENOMEM);
	engine->ops = &gpumem_engine_cpu_ops;
	engine->workers = min(num_online_cpus(), GPUMEM_MAX_WORKERS);
	engine->wq = alloc_workqueue("%s", WQ_UNBOUND | WQ_MEM_RECLAIM,
				     engine->workers, dev_name(&dev->dev));
	if (!engine->wq) {
		gpumem_engine_destroy(engine);
		return ERR_PTR(-ENOMEM);
	}
	return engine;
}

/**
 * gpumem_engine_destroy - free an engine and its workqueue
 * @engine: engine without streams
 */
void gpumem_engine_destroy(struct gpumem_engine *engine)
{
	if (engine->wq)
		destroy_workqueue(engine->wq);
	kfree(engine);
}

/**
 * gpumem_engine_flush - wait for the queued late work of published entries
 * @engine: engine without streams
 */
void gpumem_engine_flush(struct gpumem_engine *engine)
{
	flush_workqueue(engine->wq);
}

/*
 * Check that @pitch is valid for @height rows of @bytes, and that the range at
 * @addr does not overflow.
 */
static int gpumem_check_rows(u64 addr, u64 bytes, u64 height, u64 pitch)
{
	u64 span = 0, end;

	if (height > 1) {
		if (pitch < bytes)
			return -EINVAL;
		if (check_mul_overflow(height - 1, pitch, &span))
			return -EOVERFLOW;
	} else if (pitch) {
		return -EINVAL;
	}
	if (check_add_overflow(span, bytes, &span) ||
	    check_add_overflow(addr, span, &end))
		return -EOVERFLOW;
	return 0;
}

static int gpumem_check_fill(const struct gpumem_sqe *sqe)
{
	u64 bytes;

	if (sqe->elem != 1 && sqe->elem != 2 && sqe->elem != 4 &&
	    sqe->elem != 8)
		return -EINVAL;
	if (sqe->handle || sqe->src_pitch ||
	    sqe->dst % sqe->elem || sqe->dst_pitch % sqe->elem)
		return -EINVAL;
	if (check_mul_overflow(sqe->width, (u64)sqe->elem, &bytes))
		return -EOVERFLOW;
	return gpumem_check_rows(sqe->dst, bytes, sqe->height, sqe->dst_pitch);
}

static int gpumem_check_copy(const struct gpumem_sqe *sqe)
{
	int ret;

	if (sqe->handle || sqe->elem)
		return -EINVAL;
	ret = gpumem_check_rows(sqe->dst, sqe->width, sqe->height,
				sqe->dst_pitch);
	if (ret)
		return ret;
	return gpumem_check_rows(sqe->src, sqe->width, sqe->height,
				 sqe->src_pitch);
}

static bool gpumem_sqe_has_geometry(const struct gpumem_sqe *sqe)
{
	return sqe->width || sqe->height || sqe->dst_pitch || sqe->src_pitch;
}

static int gpumem_check_poll(const struct gpumem_sqe *sqe)
{
	if ((sqe->elem != 4 && sqe->elem != 8) || sqe->dst % sqe->elem ||
	    (sqe->elem == 4 && upper_32_bits(sqe->value)))
		return -EINVAL;
	if (sqe->handle > GPUMEM_POLL_NOR)
		return -EOPNOTSUPP;
	return gpumem_sqe_has_geometry(sqe) ? -EINVAL : 0;
}

static int gpumem_check_prefetch(const struct gpumem_sqe *sqe)
{
	if (sqe->handle > GPUMEM_PREFETCH_DISCARD)
		return -EOPNOTSUPP;
	if (!sqe->width || sqe->elem || sqe->height || sqe->dst_pitch ||
	    sqe->src_pitch)
		return -EINVAL;
	if (sqe->handle == GPUMEM_PREFETCH_NODE ? sqe->value > INT_MAX :
						  sqe->value)
		return -EINVAL;
	return gpumem_check_rows(sqe->dst, sqe->width, 1, 0);
}

/* The flags that entries with an operation may have. */
static u16 gpumem_sqe_flags_of(unsigned int op)
{
	switch (op) {
	case GPUMEM_OP_COPY:
		return GPUMEM_SQE_DST_PAGEABLE | GPUMEM_SQE_SRC_PAGEABLE |
		       GPUMEM_SQE_RIGHTS_MASK << GPUMEM_SQE_DST_RIGHTS_SHIFT |
		       GPUMEM_SQE_RIGHTS_MASK << GPUMEM_SQE_SRC_RIGHTS_SHIFT;
	case GPUMEM_OP_FILL:
	case GPUMEM_OP_POLL:
		return GPUMEM_SQE_DST_PAGEABLE;
	default:
		return 0;
	}
}

/* No device has a right to pageable memory. */
static bool gpumem_rights_valid(const struct gpumem_sqe *sqe, bool write)
{
	unsigned int rights = gpumem_sqe_rights(sqe, write);

	return !rights || (rights <= GPUMEM_MAX_DEVICES &&
			   !gpumem_pageable_side(sqe, write));
}

/**
 * gpumem_sqe_check - is an entry well formed?
 * @sqe: the kernel's copy
 *
 * Return: 0, -EINVAL, -EOVERFLOW or -EOPNOTSUPP.
 */
int gpumem_sqe_check(const struct gpumem_sqe *sqe)
{
	if (sqe->op > GPUMEM_OP_PREFETCH || sqe->reserved2 ||
	    sqe->flags & ~gpumem_sqe_flags_of(sqe->op))
		return -EOPNOTSUPP;
	if (!gpumem_rights_valid(sqe, true) || !gpumem_rights_valid(sqe, false))
		return -EINVAL;
	switch (sqe->op) {
	case GPUMEM_OP_COPY:
		return gpumem_check_copy(sqe);
	case GPUMEM_OP_FILL:
		return gpumem_check_fill(sqe);
	case GPUMEM_OP_POLL:
		return gpumem_check_poll(sqe);
	case GPUMEM_OP_PREFETCH:
		return gpumem_check_prefetch(sqe);
	case GPUMEM_OP_WAIT:
	case GPUMEM_OP_SIGNAL:
	case GPUMEM_OP_ADD:
		if (!sqe->handle || sqe->dst)
			return -EINVAL;
		break;
	case GPUMEM_OP_TIMESTAMP:
		if (sqe->handle || sqe->value || sqe->dst % sizeof(u64))
			return -EINVAL;
		break;
	default:
		if (sqe->handle || sqe->value || sqe->dst)
			return -EINVAL;
	}
	return sqe->elem || gpumem_sqe_has_geometry(sqe) ? -EINVAL : 0;
}

/* Writes to holes are dropped. */
static int gpumem_fill_place(struct gpumem_engine *engine,
			     const struct gpumem_place *dst, u64 value,
			     unsigned int elem, size_t len)
{
	struct gpumem_extent to = gpumem_place_extent(dst);

	return dst->bo ? engine->ops->fill(engine, &to, value, elem, len) : 0;
}

/* A hole reads as zeros. */
static int gpumem_copy_place(struct gpumem_engine *engine,
			     const struct gpumem_place *dst,
			     const struct gpumem_place *src, size_t len)
{
	struct gpumem_extent to = gpumem_place_extent(dst);
	struct gpumem_extent from = gpumem_place_extent(src);

	if (!dst->bo || !src->bo)
		return gpumem_fill_place(engine, dst, 0, 1, len);
	return engine->ops->copy(engine, &to, &from, len);
}

static int gpumem_step_places(struct gpumem_stream *stream, s64 budget,
			      struct gpumem_place *to,
			      struct gpumem_place *from)
{
	struct gpumem_engine *engine = stream->dev->engine;
	const struct gpumem_sqe *sqe = &stream->sqe;
	bool fill = sqe->op == GPUMEM_OP_FILL;
	u64 bytes = fill ? sqe->width * sqe->elem : sqe->width;
	u64 rows = bytes ? max(sqe->height, 1) : 0;
	u64 dst, src, len;
	int ret;

	/*
	 * Other streams and processes may poll the word that a short fill
	 * writes.
	 */
	if (fill && bytes <= sizeof(u64))
		smp_wmb(); /* pairs with smp_rmb() in gpumem_step_poll() */
	lockdep_assert_held(&stream->vm->lock);
	while (stream->row < rows) {
		if (budget < 8)
			return -EAGAIN;
		len = min_t(u64, bytes - stream->col, budget);
		/* Multiples of 8, so that the budget splits no element. */
		len = len >= 8 ? round_down(len, 8) : len;
		dst = sqe->dst + stream->row * sqe->dst_pitch + stream->col;
		ret = gpumem_place_find(stream, to, dst, true, &len) ?:
		      gpumem_place_enter(stream, to, &len);
		if (ret)
			return ret;
		if (fill) {
			/*
			 * A mapping of registered memory may end inside an
			 * element.
			 */
			len = round_down(len, sqe->elem);
			if (!len)
				return -EFAULT;
			ret = gpumem_fill_place(engine, to, sqe->value,
						sqe->elem, len);
			gpumem_stream_wrote(stream, ret ? 0 : len, true);
		} else {
			src = sqe->src + stream->row * sqe->src_pitch +
			      stream->col;
			ret = gpumem_place_find(stream, from, src, false, &len) ?:
			      gpumem_place_enter(stream, from, &len);
			if (ret)
				return ret;
			ret = gpumem_copy_place(engine, to, from, len);
			gpumem_stream_wrote(stream, ret ? 0 : len, false);
			gpumem_place_accessed(stream, from, len);
		}
		if (ret)
			return ret;
		gpumem_place_accessed(stream, to, len);
		budget -= max_t(u64, len, GPUMEM_ROW_WEIGHT);
		stream->col += len;
		if (stream->col == bytes) {
			stream->col = 0;
			stream->row++;
		}
	}
	return 0;
}

static int gpumem_step_rows(struct gpumem_stream *stream, s64 budget)
{
	struct gpumem_place to = { }, from = { .other = &to };
	int ret;

	if (stream->sqe.op == GPUMEM_OP_COPY)
		to.other = &from;
	ret = gpumem_step_places(stream, budget, &to, &from);

	gpumem_place_leave(&to);
	gpumem_place_leave(&from);
	return ret;
}

static int gpumem_step_timestamp(struct gpumem_stream *stream)
{
	struct gpumem_client *client = stream->obj.client;
	struct gpumem_engine *engine = stream->dev->engine;
	struct gpumem_place to = { };
	u64 len = sizeof(u64);
	int ret;

	lockdep_assert_held(&stream->vm->lock);
	ret = gpumem_place_find(stream, &to, stream->sqe.dst, true, &len);
	if (ret)
		return ret;
	if (len < sizeof(u64))
		return -EFAULT;
	ret = gpumem_place_enter(stream, &to, &len);
	if (ret)
		return ret;
	ret = gpumem_fill_place(engine, &to,
				ktime_get_raw_ns() + client->clock_offset,
				sizeof(u64), sizeof(u64));
	gpumem_place_leave(&to);
	return ret;
}

static int gpumem_step_signal(struct gpumem_stream *stream)
{
	struct gpumem_timeline *timeline =
		gpumem_timeline_get(stream->obj.client, stream->sqe.handle);
	int ret = 0;

	if (!timeline)
		return -ENOENT;
	if (gpumem_timeline_fixed(timeline))
		ret = -EINVAL;
	else if (stream->sqe.op == GPUMEM_OP_ADD)
		ret = gpumem_timeline_add(timeline, stream->sqe.value);
	else
		gpumem_timeline_raise(timeline, stream->sqe.value);
	gpumem_object_put(&timeline->obj);
	return ret;
}

static bool gpumem_poll_true(const struct gpumem_sqe *sqe, u64 word)
{
	u64 mask = sqe->elem == 4 ? U32_MAX : U64_MAX;
	u64 value = sqe->value;

	switch (sqe->handle) {
	case GPUMEM_POLL_GEQ:
		return sqe->elem == 4 ? (s32)(word - value) >= 0 :
					(s64)(word - value) >= 0;
	case GPUMEM_POLL_EQ:
		return word == value;
	case GPUMEM_POLL_AND:
		return word & value;
	default:
		return ~(word | value) & mask;
	}
}

/* Read the word of a poll, of @part bytes, at a place that was entered. */
static int gpumem_poll_place(const struct gpumem_sqe *sqe,
			     const struct gpumem_place *place, size_t part,
			     u64 *word)
{
	struct folio *folio;
	int ret = 0;
	void *p;

	*word = 0;
	if (!place->bo)
		return 0;
	p = gpumem_bo_map(place->bo, place->offset, &part, &folio);
	if (IS_ERR(p))
		return PTR_ERR(p);
	/*
	 * In registered memory the word can be misaligned, and span two pages.
	 */
	if (!IS_ALIGNED((unsigned long)p, sqe->elem))
		ret = -EFAULT;
	else
		*word = sqe->elem == 4 ? READ_ONCE(*(u32 *)p) :
					 READ_ONCE(*(u64 *)p);
	smp_rmb(); /* pairs with smp_wmb() in gpumem_step_rows() */
	gpumem_bo_unmap(folio);
	return ret;
}

/* Read the word of a poll.  The caller holds vm->lock for reading. */
static int gpumem_poll_read(struct gpumem_stream *stream, u64 *word)
{
	const struct gpumem_sqe *sqe = &stream->sqe;
	struct gpumem_place place = { };
	u64 len = sqe->elem;
	int ret;

	ret = gpumem_place_find(stream, &place, sqe->dst, false, &len);
	if (ret)
		return ret;
	if (len != sqe->elem)
		return -EFAULT;
	ret = gpumem_place_enter(stream, &place, &len);
	if (!ret)
		ret = gpumem_poll_place(sqe, &place, len, word);
	gpumem_place_leave(&place);
	return ret;
}

/*
 * Compare the word of a poll once.  The worker calls this again when the
 * stream's timer fires, and when another stream of the client has completed an
 * entry that may have written the word.
 */
static int gpumem_step_poll(struct gpumem_stream *stream)
{
	u64 word = 0;
	int ret;

	/*
	 * Enter client->polling before the word is read: a stream that writes
	 * the word after that kicks this stream.
	 */
	gpumem_stream_poll_begin(stream);
	if (unlikely(gpumem_pageable_any(&stream->sqe)))
		ret = gpumem_pageable_poll(stream, &word);
	else
		scoped_guard(rwsem_read, &stream->vm->lock)
			ret = gpumem_need_keep(stream,
					       gpumem_poll_read(stream, &word));
	/* The poll goes on when the block or the page of the word is there. */
	if (ret == -ENODATA || ret == -EINPROGRESS)
		return ret;
	if (ret || gpumem_poll_true(&stream->sqe, word)) {
		gpumem_stream_poll_end(stream);
		return ret;
	}
	gpumem_stream_poll_again(stream);
	return -EINPROGRESS;
}

/* Called again after the waiter's callback, or after a doorbell. */
static int gpumem_step_wait(struct gpumem_stream *stream)
{
	struct gpumem_timeline *timeline = stream->waiting;
	enum gpumem_event_state state;

	if (!timeline) {
		timeline = gpumem_timeline_get(stream->obj.client,
					       stream->sqe.handle);
		if (!timeline)
			return -ENOENT;
		stream->waiting = timeline;
		stream->waiter.value = stream->sqe.value;
		if (gpumem_timeline_add_waiter(timeline, &stream->waiter))
			return -EINPROGRESS;
	}
	state = gpumem_timeline_state(timeline, stream->sqe.value);
	if (state == GPUMEM_EVENT_PENDING)
		return -EINPROGRESS;
	/* After a doorbell the waiter may still be in the timeline's tree. */
	gpumem_timeline_del_waiter(timeline, &stream->waiter);
	stream->waiting = NULL;
	gpumem_object_put(&timeline->obj);
	return state == GPUMEM_EVENT_LOST ? -ECANCELED : 0;
}

/* Execute up to @bytes of a copy or fill, or a timestamp. */
static int gpumem_step_memory(struct gpumem_stream *stream, size_t bytes)
{
	if (stream->sqe.op == GPUMEM_OP_TIMESTAMP)
		return gpumem_step_timestamp(stream);
	return gpumem_step_rows(stream, bytes);
}

/**
 * gpumem_engine_piece - execute a piece of a stream's entry, without sleeping
 * @stream: stream whose current entry is a copy, a fill or a timestamp
 * @bytes: the most to execute
 * @locked: the caller holds vm->lock for reading
 *
 * Context: the task that owns the entry (enum gpumem_fenced_state); preemption
 * may be disabled.
 * Return: as gpumem_engine_step(), or -EBUSY if vm->lock could not be taken at
 * once, or -ENODATA at managed memory that is not populated.
 */
int gpumem_engine_piece(struct gpumem_stream *stream, size_t bytes, bool locked)
{
	int ret;

	if (!locked && !down_read_trylock(&stream->vm->lock))
		return -EBUSY;
	stream->need.bo = NULL;
	stream->need.pages = false;
	ret = gpumem_step_memory(stream, bytes);
	if (ret == -ENODATA && !stream->need.bo && !stream->need.pages)
		ret = -EIO;
	/* gpumem_place_prepare() fetches the block for the next portion. */
	stream->need.bo = NULL;
	if (!locked)
		up_read(&stream->vm->lock);
	return ret;
}

static int gpumem_step_slice(struct gpumem_stream *stream)
{
	gpumem_delay(slice_begin);
	guard(rwsem_read)(&stream->vm->lock);
	gpumem_delay(slice_locked);
	stream->need.bo = NULL;
	return gpumem_need_keep(stream,
				gpumem_step_memory(stream, GPUMEM_SLICE));
}

static int gpumem_step_entry(struct gpumem_stream *stream)
{
	switch (stream->sqe.op) {
	case GPUMEM_OP_COPY:
	case GPUMEM_OP_FILL:
	case GPUMEM_OP_TIMESTAMP:
		return unlikely(gpumem_pageable_any(&stream->sqe)) ?
			gpumem_pageable_step(stream) :
			gpumem_step_slice(stream);
	case GPUMEM_OP_WAIT:
		return gpumem_step_wait(stream);
	case GPUMEM_OP_SIGNAL:
	case GPUMEM_OP_ADD:
		return gpumem_step_signal(stream);
	case GPUMEM_OP_POLL:
		return gpumem_step_poll(stream);
	case GPUMEM_OP_PREFETCH:
		return gpumem_prefetch_step(stream);
	default:
		return 0;
	}
}

/**
 * gpumem_engine_step - execute one slice of a stream's entry
 * @stream: stream whose current entry passed gpumem_sqe_check()
 *
 * Context: the worker that runs the stream.
 * Return: 0 when the entry is complete; -EAGAIN when a slice follows;
 * -EINPROGRESS when the stream will be kicked: by the entry's waiter, its
 * timer, or a stream of the client that may have written the word.  When the
 * entry failed: -EFAULT if an address is not mapped, a mapping ends inside an
 * element, a poll's word is misaligned, or the process could not access its
 * memory; -EACCES without access; -EIO for memory that failed or was discarded;
 * -ENOENT for an unknown timeline; -ECANCELED for one that no task will raise
 * again; -EINVAL for a signal or addition to the timeline of a stream or fence;
 * -EOVERFLOW if an addition overflows; -ENOMEM if there is no memory to populate
 * managed memory; -EDQUOT if a block of it is not resident and exceeds what the
 * user may pin.
 */
int gpumem_engine_step(struct gpumem_stream *stream)
{
	int ret = gpumem_step_entry(stream);

	if (ret == -ENODATA) {
		/*
		 * What is fetched stays in use until a slice has touched it.
		 * The block that was fetched before is perhaps the other side
		 * of a copy.
		 */
		if (stream->sqe.op == GPUMEM_OP_COPY)
			gpumem_uses_drop_old(&stream->uses);
		else
			gpumem_uses_drop(&stream->uses);
		ret = gpumem_need_fetch(stream);
		if (ret == -EAGAIN)
			return ret;
		gpumem_stream_poll_end(stream);
	}
	gpumem_uses_drop(&stream->uses);
	gpumem_managed_trim_late(stream->dev);
	return ret;
}
