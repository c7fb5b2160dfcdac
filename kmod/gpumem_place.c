// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_place: what device addresses lead to, and managed memory on the way.
 *
 * An engine finds the buffer object behind an address in the stream's address
 * space (gpumem_place_find()).  If the buffer object is managed memory
 * (gpumem_managed.c), the engine uses the block at the address
 * (gpumem_place_enter()), or a folio of it (gpumem_far.c).  Pageable memory of the
 * process is in no address space (gpumem_pageable.c).  If a block is not populated,
 * the slice ends with -ENODATA.  The worker then drops vm->lock, fetches the block
 * (gpumem_need_fetch()), which stays in use, and continues with the next slice.
 *
 * A piece of a published entry must not allocate: gpumem_place_prepare() fetches
 * the blocks of a portion before it is published, and the portion ends at the
 * first block that is not populated.
 *
 * A prefetch is an entry whose only work is to fetch or evict blocks.
 *
 * Locks: vm->lock for reading, while addresses are found.
 */
#include "gpumem_bo.h"
#include "gpumem_client.h"
#include "gpumem_device.h"
#include "gpumem_engine.h"
#include "gpumem_far.h"
#include "gpumem_managed.h"
#include "gpumem_mem.h"
#include "gpumem_object.h"
#include "gpumem_pageable.h"
#include "gpumem_pin.h"
#include "gpumem_place.h"
#include "gpumem_publish.h"
#include "gpumem_runner.h"
#include "gpumem_shmem.h"
#include "gpumem_sparse.h"
#include "gpumem_stream.h"
#include "gpumem_vm.h"

/**
 * gpumem_place_find - find what an address leads to
 * @stream: whose address space it is
 * @place: what the call before found, or zeroed; out
 * @addr: device address
 * @write: the device is to write
 * @len: bytes wanted; reduced to the part inside the mapping or tile
 *
 * Context: the caller holds vm->lock for reading; preemption may be disabled.
 * Return: 0, -EFAULT, or -EACCES without access of the device that the entry
 * names, or else of the stream's device.
 */
int gpumem_place_find(struct gpumem_stream *stream, struct gpumem_place *place,
		      u64 addr, bool write, u64 *len)
{
	struct gpumem_mapping *m = place->m;
	unsigned int rights;
	u32 devbit;

	if (unlikely(gpumem_pageable_side(&stream->sqe, write)))
		return gpumem_pageable_place(stream, place, addr, write, len);
	if (!m || addr < m->addr || addr > m->last) {
		m = gpumem_vm_find(stream->vm, addr);
		if (!m)
			return -EFAULT;
		rights = gpumem_sqe_rights(&stream->sqe, write);
		devbit = rights ? BIT(rights - 1) : stream->devbit;
		if (!((write ? m->writers : m->readers) & devbit))
			return -EACCES;
		if (write && m->bo && m->bo->pin)
			gpumem_pin_written(m->bo->pin);
		place->m = m;
	}
	place->write = write;
	*len = min(*len, m->last - addr + 1);
	if (m->sparse) {
		place->bo = gpumem_sparse_resolve(m, addr, &place->offset, len);
	} else {
		place->bo = m->bo;
		place->offset = m->offset + addr - m->addr;
	}
	return 0;
}

/**
 * gpumem_place_enter_managed - use the block of managed memory at a place
 * @stream: whose device is to work on it
 * @place: in managed memory
 * @len: bytes wanted; reduced to the part inside the block or its folio
 *
 * The use ends when the place leads elsewhere, or with gpumem_place_leave().
 *
 * Context: the caller holds vm->lock for reading; preemption may be disabled.
 * Return: 0, or -ENODATA if the block has to be fetched first.
 */
int gpumem_place_enter_managed(struct gpumem_stream *stream,
			       struct gpumem_place *place, u64 *len)
{
	struct gpumem_bo *bo = place->bo;
	struct gpumem_block *block;

	*len = min(*len, gpumem_block_end(place->offset) - place->offset);
	if (place->block && gpumem_block_is(place->block, bo, place->offset))
		return 0;
	if (gpumem_far_inside(place, len))
		return 0;
	gpumem_place_leave(place);
	block = gpumem_block_find(bo, place->offset);
	if (block && unlikely(READ_ONCE(block->far) == stream->dev) &&
	    gpumem_far_enter(stream, place, block, len))
		return 0;
	if (block && gpumem_block_try_use(block, stream->dev, stream->devbit,
					  place->write)) {
		place->block = block;
		return 0;
	}
	stream->need.bo = bo;
	stream->need.offset = place->offset;
	stream->need.write = place->write;
	return -ENODATA;
}

/**
 * gpumem_need_keep - keep what is to be fetched after -ENODATA
 * @stream: whose slice ended
 * @ret: with which it ended
 *
 * Context: the caller holds vm->lock for reading, which keeps the buffer object.
 * Return: @ret, or -EIO.
 */
int gpumem_need_keep(struct gpumem_stream *stream, int ret)
{
	lockdep_assert_held(&stream->vm->lock);
	if (ret != -ENODATA)
		return ret;
	/* Another part of an engine must not return this errno. */
	if (!stream->need.bo)
		return -EIO;
	kref_get(&stream->need.bo->obj.ref);
	return ret;
}

/**
 * gpumem_need_fetch - fetch what gpumem_need_keep() kept
 * @stream: whose slice ended
 *
 * Context: the worker that runs the stream; may sleep, without locks.
 * Return: -EAGAIN, or the negative errno with which the entry fails.
 */
int gpumem_need_fetch(struct gpumem_stream *stream)
{
	struct gpumem_bo *bo = stream->need.bo;
	bool far = gpumem_far_can_stay(stream, bo, stream->need.offset);
	enum gpumem_fetch why = GPUMEM_FETCH_READ;
	int ret;

	if (far)
		why = GPUMEM_FETCH_TOUCHED;
	else if (stream->need.write)
		why = GPUMEM_FETCH_WRITE;
	stream->need.bo = NULL;
	ret = gpumem_managed_fetch(bo, stream->need.offset, stream->dev,
				   stream->devbit, &stream->uses, why);
	gpumem_object_put(&bo->obj);
	/* The next slice works on the block where it is. */
	if (far && (ret == -ENOMEM || ret == -EDQUOT)) {
		stream->far_tries++;
		return -EAGAIN;
	}
	/* After a fatal signal the worker leaves before the next slice. */
	return ret && ret != -EINTR ? ret : -EAGAIN;
}

/*
 * Would a block of @bytes evict blocks that the same prefetch has made resident?
 */
static bool gpumem_prefetch_full(struct gpumem_stream *stream, u64 bytes)
{
	struct gpumem_mem *mem = &stream->dev->mem;
	u64 used = gpumem_shmem_used(mem) + stream->row, size = gpumem_size(mem);

	return used > size || bytes > size - used;
}

/* Find managed memory at @addr; reference its buffer object. */
static int gpumem_prefetch_find(struct gpumem_stream *stream,
				struct gpumem_place *place, u64 addr, u64 *len)
{
	/* A discard changes the contents. */
	bool write = stream->sqe.handle == GPUMEM_PREFETCH_DISCARD;
	int ret;

	guard(rwsem_read)(&stream->vm->lock);
	ret = gpumem_place_find(stream, place, addr, write, len);
	if (ret)
		return ret;
	if (!place->bo || !place->bo->managed)
		return -EOPNOTSUPP;
	kref_get(&place->bo->obj.ref);
	return 0;
}

/**
 * gpumem_prefetch_step - prefetch a block, or what the range has of it
 * @stream: whose entry is a prefetch
 *
 * Context: the worker that runs the stream; may sleep, without locks.
 * Return: as gpumem_engine_step().
 */
int gpumem_prefetch_step(struct gpumem_stream *stream)
{
	const struct gpumem_sqe *sqe = &stream->sqe;
	u64 len = sqe->width - stream->col, bytes;
	struct gpumem_place place = { };
	struct gpumem_bo *bo;
	int ret;

	ret = gpumem_prefetch_find(stream, &place, sqe->dst + stream->col,
				   &len);
	/* A prefetch is a hint: perhaps the memory has been freed meanwhile. */
	if (ret == -EFAULT || ret == -EACCES || ret == -EOPNOTSUPP)
		return 0;
	if (ret)
		return ret;
	bo = place.bo;
	len = min(len, gpumem_block_end(place.offset) - place.offset);
	if (sqe->handle == GPUMEM_PREFETCH_DISCARD) {
		gpumem_managed_discard(bo, place.offset, len);
	} else if (sqe->handle != GPUMEM_PREFETCH_DEVICE) {
		gpumem_managed_evict(bo, place.offset,
				     sqe->handle == GPUMEM_PREFETCH_NODE ?
				     (int)sqe->value : NUMA_NO_NODE);
	} else {
		bytes = min(gpumem_block_end(place.offset), bo->length) -
			round_down(place.offset, GPUMEM_MANAGED_BLOCK);
		if (gpumem_prefetch_full(stream, bytes))
			ret = -ENOSPC;
		else
			ret = gpumem_managed_fetch(bo, place.offset,
						   stream->dev, 0,
						   &stream->uses,
						   GPUMEM_FETCH_PREFETCH);
		stream->row += bytes;
	}
	gpumem_object_put(&bo->obj);
	if (ret == -EINTR)
		return -EAGAIN;
	/*
	 * What does not fit, or cannot be read from swap, stays where it is: a
	 * touch reports it.
	 */
	if (ret == -ENOSPC || ret == -ENOMEM || ret == -EDQUOT || ret == -EIO)
		return 0;
	if (ret)
		return ret;
	stream->col += len;
	return stream->col < sqe->width ? -EAGAIN : 0;
}

/*
 * Take blocks of managed memory at @addr into stream->uses.  The caller holds
 * vm->lock for reading.  Return 0, with @len reduced to the part inside the
 * block; -ENODATA if the block has to be fetched first; -ENOLCK if the portion
 * may not keep blocks in use yet; or another negative errno if the portion is to
 * end before @addr.
 */
static int gpumem_prepare_side(struct gpumem_stream *stream,
			       struct gpumem_place *place, u64 addr, bool write,
			       u64 *len)
{
	struct gpumem_block *block;
	int ret;

	/* The execution reports what is wrong with the address. */
	ret = gpumem_place_find(stream, place, addr, write, len);
	if (ret)
		return ret;
	if (!place->bo || !place->bo->managed)
		return 0;
	if (!READ_ONCE(stream->fenced.keeps))
		return -ENOLCK;
	*len = min(*len, gpumem_block_end(place->offset) - place->offset);
	if (gpumem_uses_have(&stream->uses, place->bo, place->offset, write))
		return 0;
	if (stream->uses.n == GPUMEM_USES)
		return -E2BIG;
	block = gpumem_block_use(place->bo, place->offset, NULL, 0, write);
	if (block) {
		gpumem_uses_add(&stream->uses, block);
		return 0;
	}
	stream->need.bo = place->bo;
	stream->need.offset = place->offset;
	stream->need.write = write;
	return -ENODATA;
}

/**
 * struct gpumem_walk - how far the preparation of a portion is
 */
struct gpumem_walk {
	/** @row: row */
	u64 row;
	/** @col: byte in @row */
	u64 col;
	/** @left: weight of the portion that is left, as in gpumem_engine_step() */
	s64 left;
};

/* Places that gpumem_prepare_some() visits before it drops vm->lock. */
#define GPUMEM_PREPARE_PLACES	256
/*
 * Steps that a worker which must leave still makes for a portion's first place,
 * which has two blocks at most.
 */
#define GPUMEM_PREPARE_LATE	4

/*
 * Take the blocks of some of the places of a portion into use.  The caller holds
 * vm->lock for reading.  Return 0 at the end of the portion, -EAGAIN if there
 * are more places, or what gpumem_prepare_side() returns.
 */
static int gpumem_prepare_some(struct gpumem_stream *stream,
			       struct gpumem_walk *walk)
{
	const struct gpumem_sqe *sqe = &stream->sqe;
	bool fill = sqe->op == GPUMEM_OP_FILL;
	u64 bytes = fill ? sqe->width * sqe->elem : sqe->width;
	u64 rows = max(sqe->height, 1), len;
	struct gpumem_place to = { }, from = { };
	unsigned int n;
	int ret;

	if (sqe->op == GPUMEM_OP_TIMESTAMP)
		bytes = sizeof(u64);
	lockdep_assert_held(&stream->vm->lock);
	stream->need.bo = NULL;
	for (n = 0; n < GPUMEM_PREPARE_PLACES; n++) {
		if (walk->row >= rows || !bytes || walk->left <= 0)
			return 0;
		len = bytes - walk->col;
		ret = gpumem_prepare_side(stream, &to, sqe->dst + walk->row *
					  sqe->dst_pitch + walk->col, true,
					  &len);
		if (!ret && sqe->op == GPUMEM_OP_COPY)
			ret = gpumem_prepare_side(stream, &from,
						  sqe->src + walk->row *
						  sqe->src_pitch + walk->col,
						  false, &len);
		if (ret)
			return ret;
		walk->left -= max_t(u64, len, GPUMEM_ROW_WEIGHT);
		walk->col += len;
		if (walk->col == bytes) {
			walk->col = 0;
			walk->row++;
		}
	}
	return -EAGAIN;
}

/**
 * gpumem_place_prepare - populate the managed memory of a portion
 * @stream: stream whose current entry is about to be published
 *
 * The portion's blocks are in stream->uses afterwards, the first GPUMEM_USES of
 * them at most.  The portion ends early at a block that cannot be had, if the
 * worker must leave, and where a block has to be fetched although one before it
 * has no place on a device.  The blocks of the first place are always there.  The
 * caller drops the blocks when the portion is done, or if this fails.
 *
 * Context: the worker that runs the stream; may sleep, without locks.
 * Return: 0; -EAGAIN if the stream is cancelled or the worker must leave;
 * -EINPROGRESS if the stream will be kicked when it may keep blocks in use; or
 * the negative errno with which the entry fails.
 */
int gpumem_place_prepare(struct gpumem_stream *stream)
{
	struct gpumem_walk walk = {
		.row = stream->row,
		.col = stream->col,
		.left = gpumem_publish_weight(&stream->sqe),
	};
	s64 whole = walk.left;
	unsigned int late = 0;
	int ret;

	for (;;) {
		scoped_guard(rwsem_read, &stream->vm->lock)
			ret = gpumem_need_keep(stream,
					       gpumem_prepare_some(stream,
								   &walk));
		if (ret == -ENODATA) {
			/* The user pays for what is not resident: keep little. */
			if (walk.left < whole &&
			    !gpumem_uses_resident(&stream->uses)) {
				gpumem_object_put(&stream->need.bo->obj);
				stream->need.bo = NULL;
				return 0;
			}
			/* The place is visited again. */
			ret = gpumem_need_fetch(stream);
			if (ret != -EAGAIN)
				return walk.left < whole ? 0 : ret;
		} else if (ret == -ENOLCK) {
			/* The portion has no block yet. */
			stream->fenced.wants = true;
			if (!gpumem_lane_keep(&stream->fenced))
				return -EINPROGRESS;
		} else if (ret != -EAGAIN) {
			return 0;
		}
		if (test_bit(GPUMEM_STREAM_CANCELLED, &stream->state))
			return -EAGAIN;
		if (gpumem_runner_must_leave()) {
			if (walk.left < whole)
				return 0;
			/* A fatal signal keeps blocks from being fetched. */
			if (++late > GPUMEM_PREPARE_LATE)
				return -EAGAIN;
		}
		cond_resched();
	}
}
