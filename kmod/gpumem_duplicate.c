// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_duplicate: blocks of managed memory that are mostly read.
 *
 * A block with the advice GPUMEM_ADVICE_READ_MOSTLY is *duplicated* when an engine
 * reads it, or when it is prefetched: the engine's device gets a *copy*, and the
 * host and other devices keep theirs.  A duplicated block has no other place
 * (block->dev is NULL), and at least one copy.
 *
 * On a machine with one memory node all copies are the same folios, and the host
 * has them, too.  So making and dropping a copy moves no bytes.  The same is so
 * with several nodes: the pages stay where they are.  Each copy counts in the
 * memory in use of its device, as a resident block does.
 *
 * A copy ends in one of these cases:
 *
 *  - An engine writes the block: all copies go, and the block becomes resident on
 *    the device that writes.
 *  - The CPU writes the block: all copies go.  Processes have a duplicated block
 *    mapped read-only, so the write is a page fault (gpumem_fault.c).
 *  - The advice ends: the block becomes resident on its preferred device if that
 *    has a copy.  All other copies go.
 *  - The device needs the room.  Copies go before resident blocks, because the
 *    host has their bytes.
 *
 * A block in use keeps its copies if the CPU writes it or the advice ends: it is
 * *stale* then, and the CPU may write it.  When it is no longer in use, a work item
 * drops the copies.
 *
 * A block in use never loses its last copy unless it becomes resident, because a
 * device or a user must pay for its pages.
 *
 * A block with a page that another subsystem has pinned is not duplicated: the
 * owner of the pin may write it without a page fault.
 *
 * Locks: gpumem_managed_lock.  gpumem_duplicate_written() is called with mmap_lock
 * or a VMA's lock held, and gpumem_duplicate_protects() with a folio's lock held.
 */
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "gpumem_bo.h"
#include "gpumem_client.h"
#include "gpumem_compat.h"
#include "gpumem_device.h"
#include "gpumem_duplicate.h"
#include "gpumem_evict.h"
#include "gpumem_linger.h"
#include "gpumem_managed.h"
#include "gpumem_mem.h"
#include "gpumem_move.h"
#include "gpumem_notice.h"
#include "gpumem_resident.h"
#include "gpumem_shmem.h"
#include "gpumem_trace.h"
#include "gpumem_user.h"

/* Copies that a sweep drops before others get the work item's time. */
#define GPUMEM_SWEEP	64

/* As for blocks: fail instead of calling the OOM killer. */
#define GPUMEM_COPY_GFP \
	(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/**
 * gpumem_duplicate_owner - set the buffer object whose blocks a file has
 * @file: of managed memory
 * @bo: buffer object, or NULL before its blocks are freed
 */
void gpumem_duplicate_owner(struct file *file, struct gpumem_bo *bo)
{
	struct gpumem_backing *backing = file->private_data;

	spin_lock(&gpumem_managed_lock);
	backing->bo = bo;
	spin_unlock(&gpumem_managed_lock);
}

/**
 * gpumem_copy_find_locked - find a device's copy of a block
 * @block: block; the caller holds gpumem_managed_lock
 * @dev: device
 *
 * Return: the copy, or NULL.
 */
struct gpumem_copy *gpumem_copy_find_locked(const struct gpumem_block *block,
					    const struct gpumem_device *dev)
{
	struct gpumem_copy *copy;

	lockdep_assert_held(&gpumem_managed_lock);
	list_for_each_entry(copy, &block->copies, link)
		if (copy->dev == dev)
			return copy;
	return NULL;
}

/**
 * gpumem_copies_idle_locked - a duplicated block is no longer in use
 * @block: block; the caller holds gpumem_managed_lock
 */
void gpumem_copies_idle_locked(struct gpumem_block *block)
{
	u64 bytes = gpumem_block_bytes(block);
	struct gpumem_copy *copy;
	struct gpumem_mem *mem;

	lockdep_assert_held(&gpumem_managed_lock);
	list_for_each_entry(copy, &block->copies, link) {
		mem = &copy->dev->mem;
		if (block->stale)
			list_add(&copy->lru, &mem->managed_copies);
		else
			list_add_tail(&copy->lru, &mem->managed_copies);
		gpumem_managed_add_locked(&mem->managed_idle, bytes);
		/* The caller may not be able to sleep. */
		if (block->stale || mem->managed_over)
			queue_work(gpumem_compat_unbound_wq,
				   &mem->managed_relief);
	}
}

/**
 * gpumem_copies_busy_locked - a duplicated block is used
 * @block: block that was not in use; the caller holds gpumem_managed_lock
 */
void gpumem_copies_busy_locked(struct gpumem_block *block)
{
	u64 bytes = gpumem_block_bytes(block);
	struct gpumem_copy *copy;

	lockdep_assert_held(&gpumem_managed_lock);
	list_for_each_entry(copy, &block->copies, link) {
		list_del_init(&copy->lru);
		gpumem_managed_add_locked(&copy->dev->mem.managed_idle, -bytes);
	}
}

/* Count the bytes of a copy that begins, or ends if @bytes is negative. */
static void gpumem_copy_count_locked(struct gpumem_copy *copy, s64 bytes)
{
	gpumem_managed_add_locked(&copy->dev->mem.managed_duplicated, bytes);
	atomic64_add(bytes,
		     &copy->block->bo->obj.client->count.managed_duplicated);
}

/* Count the copies of a file's blocks. */
static void gpumem_copies_count_locked(struct gpumem_block *block, int more)
{
	struct gpumem_backing *backing = block->bo->file->private_data;

	lockdep_assert_held(&gpumem_managed_lock);
	/* Page faults read it without the lock. */
	WRITE_ONCE(backing->copies, backing->copies + more);
}

/* Add a copy to a block that the caller uses. */
static void gpumem_copy_add_locked(struct gpumem_block *block,
				   struct gpumem_copy *copy,
				   struct gpumem_device *dev)
{
	INIT_LIST_HEAD(&copy->lru);
	copy->block = block;
	copy->dev = dev;
	list_add_tail(&copy->link, &block->copies);
	gpumem_copies_count_locked(block, 1);
	gpumem_copy_count_locked(copy, gpumem_block_bytes(block));
}

/* Take a copy away from its block. */
static void gpumem_copy_del_locked(struct gpumem_copy *copy)
{
	struct gpumem_block *block = copy->block;
	u64 bytes = gpumem_block_bytes(block);

	if (!block->users) {
		list_del(&copy->lru);
		gpumem_managed_add_locked(&copy->dev->mem.managed_idle, -bytes);
	}
	gpumem_copy_count_locked(copy, -bytes);
	gpumem_copies_count_locked(block, -1);
	list_del(&copy->link);
	kfree(copy);
}

/* Count why a copy ends. */
static void gpumem_copy_ends_locked(struct gpumem_copy *copy,
				    enum gpumem_departure why)
{
	struct gpumem_block *block = copy->block;
	struct gpumem_counters *count = &block->bo->obj.client->count;
	struct gpumem_mem *mem = &copy->dev->mem;

	trace_gpumem_managed_evict(block, copy->dev, gpumem_block_bytes(block),
				   why);
	if (why == GPUMEM_DEPARTURE_WRITTEN && list_is_singular(&block->copies))
		atomic64_inc(&count->managed_collapses);
	if (why != GPUMEM_DEPARTURE_EVICTED)
		return;
	gpumem_managed_add_locked(&block->bo->managed->stats.evictions, 1);
	atomic64_inc(&count->managed_evictions);
	mem->managed_evicted += gpumem_block_bytes(block);
	block->left = copy->dev;
	block->evicted = mem->managed_evicted;
}

/*
 * A copy ends.  With the last one the block stops being held, unless it is in
 * use.  The caller passes @left to gpumem_departed_finish().
 */
static void gpumem_copy_depart_locked(struct gpumem_copy *copy,
				      enum gpumem_departure why,
				      struct gpumem_departed *left)
{
	struct gpumem_block *block = copy->block;
	struct gpumem_managed_stats *stats = &block->bo->managed->stats;
	u64 bytes = gpumem_block_bytes(block);

	lockdep_assert_held(&gpumem_managed_lock);
	*left = (struct gpumem_departed) {
		.client = block->bo->obj.client,
		.dev = copy->dev,
		.bytes = bytes,
		.node = NUMA_NO_NODE,
	};
	/* The buffer object, which is not released yet, has one. */
	kref_get(&left->client->ref);
	gpumem_copy_ends_locked(copy, why);
	gpumem_managed_add_locked(&copy->dev->mem.managed, -bytes);
	gpumem_managed_add_locked(&stats->resident, -bytes);
	atomic64_sub(bytes, &left->client->count.managed_resident);
	gpumem_copy_del_locked(copy);
	if (!list_empty(&block->copies))
		return;
	block->stale = false;
	if (block->users)
		return;
	list_del_init(&block->own);
	block->held = false;
	left->file = get_file(block->bo->file);
	left->first = gpumem_block_first(block);
	left->end = gpumem_block_last(block);
	/* Pages do not move in a page fault.  They move back later. */
	if (why == GPUMEM_DEPARTURE_WRITTEN)
		return;
	if (why != GPUMEM_DEPARTURE_FREED)
		left->node = block->home;
	block->home = NUMA_NO_NODE;
}

/*
 * The last copy of a block becomes its only place: the block is resident on the
 * copy's device.
 */
static void gpumem_copy_keep_locked(struct gpumem_copy *copy,
				    enum gpumem_departure why)
{
	struct gpumem_block *block = copy->block;
	struct gpumem_device *dev = copy->dev;

	lockdep_assert_held(&gpumem_managed_lock);
	gpumem_copy_del_locked(copy);
	block->stale = false;
	block->dev = dev;
	/* No page has moved for the copies.  The next prefetch moves them. */
	block->astray = gpumem_move_possible(dev->mem.node);
	gpumem_resident_begin(block);
	if (why == GPUMEM_DEPARTURE_WRITTEN)
		atomic64_inc(&block->bo->obj.client->count.managed_collapses);
	if (block->users) {
		gpumem_resident_show(block);
	} else {
		list_del_init(&block->own);
		gpumem_block_idle_locked(block);
	}
}

/*
 * Drop a copy of a block.  @keep has the last one, if it has any: this copy
 * becomes the block's only place.  @keep is NULL to drop all.
 *
 * Return false if no copy was dropped.  Otherwise the caller passes @left to
 * gpumem_departed_finish() and calls the function again.
 */
static bool gpumem_copies_reduce_locked(struct gpumem_block *block,
					struct gpumem_device *keep,
					enum gpumem_departure why,
					struct gpumem_departed *left)
{
	struct gpumem_copy *copy = keep ? gpumem_copy_find_locked(block, keep) :
					  NULL;

	if (list_empty(&block->copies))
		return false;
	if (copy && list_is_singular(&block->copies)) {
		gpumem_copy_keep_locked(copy, why);
		return false;
	}
	if (copy)
		list_move_tail(&copy->link, &block->copies);
	gpumem_copy_depart_locked(list_first_entry(&block->copies,
						   struct gpumem_copy, link),
				  why, left);
	return true;
}

/**
 * gpumem_copies_drop_locked - drop a copy of a block that is not in use
 * @block: block; the caller holds gpumem_managed_lock
 * @why: reason; a copy that is stale goes because the block was written
 * @left: out; the caller passes it to gpumem_departed_finish()
 *
 * Return: false if the block has no copies.
 */
bool gpumem_copies_drop_locked(struct gpumem_block *block,
			       enum gpumem_departure why,
			       struct gpumem_departed *left)
{
	if (block->stale && why == GPUMEM_DEPARTURE_EVICTED)
		why = GPUMEM_DEPARTURE_WRITTEN;
	return gpumem_copies_reduce_locked(block, NULL, why, left);
}

/**
 * gpumem_copy_victim_locked - evict the copy that is to go first
 * @mem: of a device; the caller holds gpumem_managed_lock
 * @left: out; the caller passes it to gpumem_departed_finish()
 *
 * Return: false if the device has no copies of blocks that are not in use.
 */
bool gpumem_copy_victim_locked(struct gpumem_mem *mem,
			       struct gpumem_departed *left)
{
	struct gpumem_copy *copy =
		list_first_entry_or_null(&mem->managed_copies,
					 struct gpumem_copy, lru);

	if (!copy)
		return false;
	gpumem_copy_depart_locked(copy, copy->block->stale ?
					GPUMEM_DEPARTURE_WRITTEN :
					GPUMEM_DEPARTURE_EVICTED, left);
	return true;
}

/* The device that keeps its copy when the advice has ended, or NULL. */
static struct gpumem_device *gpumem_copies_heir(const struct gpumem_block *block)
{
	return gpumem_advice_read_mostly(block) ? NULL :
						  gpumem_advice_device(block);
}

/**
 * gpumem_duplicate_sweep - drop copies of blocks that are stale
 * @mem: of a device
 *
 * Context: may sleep, without locks.
 * Return: true if there may be more.
 */
bool gpumem_duplicate_sweep(struct gpumem_mem *mem)
{
	unsigned int n = GPUMEM_SWEEP;
	struct gpumem_departed left;
	struct gpumem_copy *copy;
	bool stale, went;

	do {
		went = false;
		spin_lock(&gpumem_managed_lock);
		/* They are at the head of the list. */
		copy = list_first_entry_or_null(&mem->managed_copies,
						struct gpumem_copy, lru);
		stale = copy && copy->block->stale;
		if (stale)
			went = gpumem_copies_reduce_locked(copy->block,
							   gpumem_copies_heir(copy->block),
							   GPUMEM_DEPARTURE_WRITTEN,
							   &left);
		spin_unlock(&gpumem_managed_lock);
		if (went)
			gpumem_departed_finish(&left);
		cond_resched();
	} while (stale && --n);
	return stale;
}

/**
 * gpumem_duplicate_free - drop all copies of a block that is being freed
 * @block: block
 *
 * Context: may sleep, without locks.
 */
void gpumem_duplicate_free(struct gpumem_block *block)
{
	struct gpumem_departed left;
	bool went;

	do {
		spin_lock(&gpumem_managed_lock);
		went = gpumem_copies_reduce_locked(block, NULL,
						   GPUMEM_DEPARTURE_FREED,
						   &left);
		spin_unlock(&gpumem_managed_lock);
		if (went)
			gpumem_departed_finish(&left);
	} while (went);
}

/**
 * gpumem_duplicate_join - leave a block one place
 * @block: block that the caller uses
 * @dev: device that keeps its copy; another one does, if it has none
 * @why: reason
 *
 * The block is resident on a device afterwards if it had copies, because other
 * streams may use it.
 *
 * Context: may sleep, without locks.
 */
void gpumem_duplicate_join(struct gpumem_block *block,
			   struct gpumem_device *dev, enum gpumem_departure why)
{
	struct gpumem_departed left;
	struct gpumem_device *keep;
	struct gpumem_copy *copy;
	bool went;

	do {
		spin_lock(&gpumem_managed_lock);
		copy = list_first_entry_or_null(&block->copies,
						struct gpumem_copy, link);
		keep = dev;
		if (copy && (!dev || !gpumem_copy_find_locked(block, dev)))
			keep = copy->dev;
		went = gpumem_copies_reduce_locked(block, keep, why, &left);
		spin_unlock(&gpumem_managed_lock);
		if (went)
			gpumem_departed_finish(&left);
	} while (went);
}

/* A resident block that the caller uses becomes a duplicated one. */
static void gpumem_block_convert_locked(struct gpumem_block *block,
					struct gpumem_copy *copy)
{
	struct gpumem_device *dev = block->dev;

	lockdep_assert_held(&gpumem_managed_lock);
	gpumem_resident_hide(block);
	block->astray = false;
	block->dev = NULL;
	gpumem_copy_add_locked(block, copy, dev);
}

/*
 * Unmap a block, which has just been duplicated, from all processes.  They map it
 * read-only afterwards.  Return false if a page is pinned: the block is resident
 * then, on @dev if that has a copy.
 */
static bool gpumem_block_protect(struct gpumem_block *block,
				 struct gpumem_device *dev)
{
	if (gpumem_shmem_unmap(block->bo->file, gpumem_block_first(block),
			       gpumem_block_last(block)))
		return true;
	gpumem_duplicate_join(block, dev, GPUMEM_DEPARTURE_MOVED);
	return false;
}

/* What gpumem_duplicate_try_locked() did. */
struct gpumem_duplicated {
	/* the block has to become resident instead */
	bool refused;
	/* the block has a new copy; or has its first copies */
	bool came, first;
	/* another block was evicted */
	bool evicted;
	/* the block no longer counts as pinned by the user */
	bool charged;
};

/*
 * Copy a block to @dev if there is room, or evict another block.  @used is what
 * the device's mount has in use.
 */
static void gpumem_duplicate_try_locked(struct gpumem_block *block,
					struct gpumem_device *dev, u64 used,
					struct gpumem_copy **copy,
					struct gpumem_copy **old,
					enum gpumem_fetch why,
					struct gpumem_duplicated *did,
					struct gpumem_departed *left)
{
	u64 bytes = gpumem_block_bytes(block);

	lockdep_assert_held(&gpumem_managed_lock);
	WARN_ON_ONCE(block->stale && list_empty(&block->copies));
	*did = (struct gpumem_duplicated) { };
	/* The advice may just have ended.  Others may use a block without a place. */
	did->refused = !gpumem_advice_read_mostly(block) ||
		       (block->users > 1 && !gpumem_block_placed(block));
	/* A block that others use stays as it is. */
	if (did->refused || block->users > 1 || block->stale ||
	    block->dev == dev || gpumem_copy_find_locked(block, dev))
		return;
	if (gpumem_managed_fits_locked(&dev->mem, used, bytes)) {
		did->came = true;
		did->first = list_empty(&block->copies);
		if (block->dev) {
			gpumem_block_convert_locked(block, *old);
			*old = NULL;
		}
		gpumem_copy_add_locked(block, *copy, dev);
		*copy = NULL;
		gpumem_block_count_in_locked(block, dev, why);
		swap(did->charged, block->charged);
	} else if (bytes <= gpumem_size(&dev->mem)) {
		did->evicted = gpumem_managed_victim_locked(&dev->mem, left);
	}
}

/**
 * gpumem_duplicate - give a device a copy of a block, if the advice says so
 * @block: block that the caller uses, with no intention to write
 * @dev: device
 * @why: reason
 *
 * Context: may sleep, without locks.
 * Return: false if the block has to become resident instead.
 */
bool gpumem_duplicate(struct gpumem_block *block, struct gpumem_device *dev,
		      enum gpumem_fetch why)
{
	struct gpumem_client *client = block->bo->obj.client;
	struct gpumem_copy *copy, *old;
	struct gpumem_duplicated did;
	struct gpumem_departed left;
	unsigned int tries;
	bool ret;
	u64 used;

	if (!gpumem_advice_read_mostly(block))
		return false;
	copy = kzalloc(sizeof(*copy), GPUMEM_COPY_GFP);
	old = kzalloc(sizeof(*old), GPUMEM_COPY_GFP);
	/* The advice is a hint. */
	if (!copy || !old) {
		kfree(copy);
		kfree(old);
		return false;
	}
	for (tries = 0; tries <= GPUMEM_BLOCK_VICTIMS; tries++) {
		used = gpumem_shmem_used(&dev->mem);
		spin_lock(&gpumem_managed_lock);
		gpumem_duplicate_try_locked(block, dev, used, &copy, &old, why,
					    &did, &left);
		spin_unlock(&gpumem_managed_lock);
		if (did.charged)
			gpumem_user_unhold(client, gpumem_block_pages(block));
		if (did.came) {
			gpumem_holding_charge(client, dev,
					      gpumem_block_bytes(block));
			/* An allocation may have taken the room meanwhile. */
			gpumem_managed_trim(dev);
		}
		ret = !did.refused;
		if (did.first)
			ret = gpumem_block_protect(block, dev);
		if (did.came && ret)
			atomic64_inc(&client->count.managed_duplications);
		if (!did.evicted)
			break;
		gpumem_departed_finish(&left);
		cond_resched();
	}
	kfree(copy);
	kfree(old);
	return ret;
}

/**
 * gpumem_duplicate_to_host - give the host a copy of a block
 * @block: block of a buffer object that the caller keeps
 *
 * Context: may sleep, without locks.
 * Return: false if the advice does not say so, or no device has the block.
 */
bool gpumem_duplicate_to_host(struct gpumem_block *block)
{
	struct gpumem_copy *old;
	bool use, there;

	if (!gpumem_advice_read_mostly(block))
		return false;
	old = kzalloc(sizeof(*old), GPUMEM_COPY_GFP);
	if (!old)
		return false;
	spin_lock(&gpumem_managed_lock);
	there = gpumem_block_placed(block);
	/* The advice may just have ended. */
	use = block->dev && !block->users && !block->moving &&
	      gpumem_advice_read_mostly(block);
	if (use) {
		gpumem_block_use_locked(block);
		gpumem_block_convert_locked(block, old);
		old = NULL;
	}
	spin_unlock(&gpumem_managed_lock);
	kfree(old);
	if (use) {
		if (gpumem_block_protect(block, NULL))
			atomic64_inc(&block->bo->obj.client->count.managed_duplications);
		gpumem_block_unuse(block);
	}
	return there;
}

/*
 * Drop a copy of a block, or mark the block as stale if it is in use.  Return
 * false if there is nothing to drop.
 */
static bool gpumem_copy_collapse_locked(struct gpumem_block *block,
					struct gpumem_device *keep,
					struct gpumem_departed *left)
{
	lockdep_assert_held(&gpumem_managed_lock);
	if (!block || list_empty(&block->copies))
		return false;
	if (block->users) {
		block->stale = true;
		return false;
	}
	return gpumem_copies_reduce_locked(block, keep,
					   GPUMEM_DEPARTURE_WRITTEN, left);
}

/**
 * gpumem_duplicate_unset - the advice says no longer that a block is mostly read
 * @bo: managed buffer object; referenced
 * @index: number of the block
 *
 * The preferred device keeps its copy: the block becomes resident there.
 *
 * Context: may sleep, without locks.
 */
void gpumem_duplicate_unset(struct gpumem_bo *bo, unsigned long index)
{
	struct gpumem_block *block = xa_load(&bo->managed->blocks, index);
	struct gpumem_departed left;
	bool went;

	if (!block)
		return;
	do {
		spin_lock(&gpumem_managed_lock);
		went = gpumem_copy_collapse_locked(block,
						   gpumem_copies_heir(block),
						   &left);
		spin_unlock(&gpumem_managed_lock);
		if (went)
			gpumem_departed_finish(&left);
		cond_resched();
	} while (went);
}

/* The block at a page of a file.  Its buffer object lives under the lock. */
static struct gpumem_block *gpumem_backing_block(struct gpumem_backing *backing,
						 pgoff_t page)
{
	lockdep_assert_held(&gpumem_managed_lock);
	return backing->bo ? xa_load(&backing->bo->managed->blocks,
				     page / GPUMEM_BLOCK_PAGES) : NULL;
}

/**
 * gpumem_duplicate_written - a process is about to write a page
 * @backing: of the file
 * @page: index of the page
 *
 * The copies of the page's block go.
 *
 * Context: a page fault; may sleep.
 */
void gpumem_duplicate_written(struct gpumem_backing *backing, pgoff_t page)
{
	struct gpumem_departed left;
	struct gpumem_block *block;
	bool went;

	/* The caller looks again when it has the folio's lock. */
	if (!READ_ONCE(backing->copies))
		return;
	do {
		went = false;
		spin_lock(&gpumem_managed_lock);
		block = gpumem_backing_block(backing, page);
		if (block && !block->stale)
			went = gpumem_copy_collapse_locked(block, NULL, &left);
		spin_unlock(&gpumem_managed_lock);
		if (went)
			gpumem_departed_finish(&left);
	} while (went);
}

/**
 * gpumem_duplicate_protects - may processes only read a page?
 * @backing: of the file
 * @page: index of the page
 *
 * Context: any but interrupts.
 * Return: true if the page's block is duplicated.
 */
bool gpumem_duplicate_protects(struct gpumem_backing *backing, pgoff_t page)
{
	struct gpumem_block *block;
	bool ret;

	/*
	 * A task that duplicates a block takes the folio's lock after it counted
	 * the copy.  So it unmaps the page that the caller maps.
	 */
	if (!READ_ONCE(backing->copies))
		return false;
	spin_lock(&gpumem_managed_lock);
	block = gpumem_backing_block(backing, page);
	ret = block && !list_empty(&block->copies) && !block->stale;
	spin_unlock(&gpumem_managed_lock);
	return ret;
}
