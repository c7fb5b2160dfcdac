// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_managed: managed memory, and the residency of its blocks.
 *
 * A managed buffer object has a file on a mount of its own kind
 * (gpumem_shmem.c) that is not populated at first.  A page fault of the process
 * populates pages as in any tmpfs file: zeroed, charged to the memory cgroup of
 * the process, and swappable.
 *
 * An engine works on *blocks* of GPUMEM_MANAGED_BLOCK bytes.  These are the
 * states of a block:
 *
 *  - A block that is not *held* belongs to the kernel's memory management, which
 *    may swap its folios out, move or collapse them.  Engines do not touch it,
 *    except small entries that lock its folios (gpumem_far.c).
 *  - A block that is held is populated, and has one reference on each folio:
 *    the folios stay where they are.  Engines look them up without the folio
 *    lock.
 *  - A held block is *resident* on a device if it counts in the memory in use of
 *    the device (mem->managed).  A block that is mostly read may be *duplicated*
 *    instead: it counts in the memory of each device that has a copy
 *    (gpumem_duplicate.c).  A held block that is neither found no room on the
 *    device.  It is held only while it is in use, and counts as pinned memory of
 *    the client's user (block->charged).
 *  - A block *in use* (block->users) is neither evicted nor let go.  A slice uses
 *    the blocks that it touches.  An entry keeps blocks in use from the task
 *    that populated them to the slice that touches them, so eviction by others
 *    cannot keep an entry from making progress.
 *  - One task at a time *fetches* a block: populates it, makes it resident, and
 *    moves its pages to the memory node of the device (gpumem_move.c).  No other
 *    task begins to use the block while its pages move.  If other tasks use the
 *    block already, its pages stay where they are.
 *
 * So each held page counts in a budget: of a device, or of a user.  The block
 * that a worker fetches is an exception, until the fetch has ended.  Other pages
 * of managed memory are like those of a memfd: the memory cgroup of the process
 * pays for them, and the kernel may swap them out.  Their mount has no limit.
 *
 * Budget: the memory in use of a device is what its mount has in use (statfs)
 * plus mem->managed.  gpumem_evict.c says which blocks are evicted when, and
 * what a thrash is.
 *
 * Advice (gpumem_advice.c) says on which device a touch makes a block resident, if
 * on any, and in which order a device evicts blocks.
 *
 * A client can see which of its blocks are resident, or were evicted to make room
 * (gpumem_resident.c), and then access them by the CPU instead of an engine.
 *
 * Locks: gpumem_managed_lock (spin) protects the blocks, the lists of resident
 * blocks, the counters of buffer objects, mem->managed, mem->managed_evicted
 * and mem->managed_idle.  No allocation or statfs is inside it, and no loop that
 * depends on what clients have.  Blocks are added to gpumem_managed.blocks at any
 * time and found under RCU; they are freed with the buffer object.  A task that
 * uses a block keeps its buffer object, by a reference or by vm->lock.
 */
#include <linux/file.h>
#include <linux/memcontrol.h>
#include <linux/moduleparam.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "gpumem_bo.h"
#include "gpumem_client.h"
#include "gpumem_compat.h"
#include "gpumem_delay.h"
#include "gpumem_device.h"
#include "gpumem_duplicate.h"
#include "gpumem_evict.h"
#include "gpumem_linger.h"
#include "gpumem_lock.h"
#include "gpumem_managed.h"
#include "gpumem_mem.h"
#include "gpumem_move.h"
#include "gpumem_notice.h"
#include "gpumem_object.h"
#include "gpumem_refusal.h"
#include "gpumem_resident.h"
#include "gpumem_shmem.h"
#include "gpumem_user.h"

#define CREATE_TRACE_POINTS
#include "gpumem_trace.h"

/* Allocations of blocks fail instead of calling the OOM killer. */
#define GPUMEM_BLOCK_GFP \
	(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

static bool managed = true;
module_param(managed, bool, 0644);
MODULE_PARM_DESC(managed, "Clients may allocate managed memory (default: yes)");

DEFINE_SPINLOCK(gpumem_managed_lock);
/* Fetches of blocks that other tasks fetch. */
static DECLARE_WAIT_QUEUE_HEAD(gpumem_managed_wait);

/**
 * gpumem_managed_init - prepare the lock
 */
void __init gpumem_managed_init(void)
{
	gpumem_lockdep_class(&gpumem_managed_lock, GPUMEM_LOCK_MANAGED);
}

/*
 * Has @dev evicted no more than its size since it evicted the block?  Then it
 * would have kept the block if it had twice the memory, unless advice changed the
 * order of evictions or the system was short of memory.
 */
static bool gpumem_block_thrashes_locked(const struct gpumem_block *block,
					 struct gpumem_device *dev)
{
	lockdep_assert_held(&gpumem_managed_lock);
	return block->left == dev &&
	       dev->mem.managed_evicted - block->evicted <=
	       gpumem_size(&dev->mem);
}

/**
 * gpumem_block_count_in_locked - count a block in the memory in use of a device
 * @block: block; the caller holds gpumem_managed_lock
 * @dev: device
 * @why: reason
 */
void gpumem_block_count_in_locked(struct gpumem_block *block,
				  struct gpumem_device *dev,
				  enum gpumem_fetch why)
{
	struct gpumem_counters *count = &block->bo->obj.client->count;
	struct gpumem_managed_stats *stats = &block->bo->managed->stats;
	bool thrash = gpumem_block_thrashes_locked(block, dev);
	u64 bytes = gpumem_block_bytes(block);

	lockdep_assert_held(&gpumem_managed_lock);
	if (thrash) {
		gpumem_managed_add_locked(&stats->thrash, 1);
		atomic64_inc(&count->managed_thrash);
	}
	block->left = NULL;
	gpumem_managed_add_locked(&dev->mem.managed, bytes);
	gpumem_managed_add_locked(&stats->resident, bytes);
	gpumem_managed_add_locked(&stats->moved_in, bytes);
	atomic64_add(bytes, &count->managed_resident);
	atomic64_add(bytes, &count->managed_in);
	if (why != GPUMEM_FETCH_PREFETCH) {
		gpumem_managed_add_locked(&stats->faults, 1);
		atomic64_inc(&count->managed_faults);
		trace_gpumem_managed_fault(block, dev, bytes, thrash);
	} else {
		trace_gpumem_managed_prefetch(block, dev, bytes, thrash);
	}
}

/* The block is resident on @dev from now on. */
static void gpumem_block_arrive_locked(struct gpumem_block *block,
				       struct gpumem_device *dev,
				       enum gpumem_fetch why)
{
	block->dev = dev;
	gpumem_resident_begin(block);
	gpumem_block_count_in_locked(block, dev, why);
}

/**
 * gpumem_managed_allowed - may clients allocate managed memory?
 *
 * Return: the module parameter.
 */
bool gpumem_managed_allowed(void)
{
	return READ_ONCE(managed);
}

/**
 * gpumem_managed_create - make a new buffer object managed memory
 * @bo: buffer object with its length set
 * @name: shown in /proc/PID/maps
 *
 * Return: 0 or -ENOMEM.
 */
int gpumem_managed_create(struct gpumem_bo *bo, const char *name)
{
	struct gpumem_managed *managed = kzalloc(sizeof(*managed),
						 GFP_KERNEL_ACCOUNT);
	struct file *file;

	if (!managed)
		return -ENOMEM;
	file = gpumem_shmem_create_managed(name, bo->length);
	if (IS_ERR(file)) {
		kfree(managed);
		return PTR_ERR(file);
	}
	gpumem_resident_prepare(bo->obj.client);
	xa_init_flags(&managed->blocks, XA_FLAGS_ACCOUNT);
	bo->managed = managed;
	bo->obj.keeps_id = true;
	bo->file = file;
	gpumem_duplicate_owner(file, bo);
	atomic64_inc(&bo->obj.client->count.managed);
	return 0;
}

/**
 * gpumem_managed_handle_gone - the id of a managed buffer object was destroyed
 * @bo: managed buffer object; its id is still reserved
 *
 * Context: may sleep.
 */
void gpumem_managed_handle_gone(struct gpumem_bo *bo)
{
	struct gpumem_block *block;
	unsigned long index;

	spin_lock(&gpumem_managed_lock);
	bo->managed->nameless = true;
	spin_unlock(&gpumem_managed_lock);
	/* Blocks that are made from now on are not shown. */
	xa_for_each(&bo->managed->blocks, index, block) {
		spin_lock(&gpumem_managed_lock);
		gpumem_resident_hide(block);
		block->word = NULL;
		spin_unlock(&gpumem_managed_lock);
		cond_resched();
	}
}

/**
 * gpumem_managed_release - free the blocks and the file of a buffer object
 * @bo: managed buffer object without references
 *
 * Context: may sleep.
 */
void gpumem_managed_release(struct gpumem_bo *bo)
{
	struct gpumem_departed left;
	struct gpumem_block *block;
	unsigned long index;
	bool resident;

	gpumem_duplicate_owner(bo->file, NULL);
	xa_for_each(&bo->managed->blocks, index, block) {
		gpumem_duplicate_free(block);
		spin_lock(&gpumem_managed_lock);
		WARN_ON_ONCE(block->users);
		resident = block->dev;
		if (resident)
			gpumem_block_depart_locked(block,
						   GPUMEM_DEPARTURE_FREED,
						   &left);
		spin_unlock(&gpumem_managed_lock);
		if (resident)
			gpumem_departed_finish(&left);
		kfree(block);
		cond_resched();
	}
	xa_destroy(&bo->managed->blocks);
	kvfree(bo->managed->advice);
	kfree(bo->managed);
	atomic64_dec(&bo->obj.client->count.managed);
	gpumem_shmem_destroy_managed(bo->file);
}

/**
 * gpumem_block_use_locked - use a block
 * @block: held block; the caller holds gpumem_managed_lock
 */
void gpumem_block_use_locked(struct gpumem_block *block)
{
	lockdep_assert_held(&gpumem_managed_lock);
	if (!block->users++ && gpumem_block_placed(block))
		gpumem_block_busy_locked(block);
	if (block->dev)
		gpumem_resident_show(block);
}

/**
 * gpumem_block_find - find the record of a block
 * @bo: managed buffer object
 * @offset: of a byte in the block
 *
 * Context: any but interrupts.
 * Return: the block, or NULL if no engine has touched it.
 */
struct gpumem_block *gpumem_block_find(struct gpumem_bo *bo, u64 offset)
{
	return xa_load(&bo->managed->blocks, offset / GPUMEM_MANAGED_BLOCK);
}

/**
 * gpumem_block_try_use - use a block, if it is held
 * @block: block of a buffer object that the caller keeps
 * @dev: device that is to work on it, or NULL: wherever the block is
 * @devbit: bit of @dev in access masks, or 0 to use it on @dev despite advice
 * @write: the device is to write, so the block must not have copies
 *
 * Context: any but interrupts.
 * Return: false if gpumem_managed_fetch() has to populate the block, to make it
 * resident or to drop its copies first.
 */
bool gpumem_block_try_use(struct gpumem_block *block, struct gpumem_device *dev,
			  u32 devbit, bool write)
{
	bool ready;

	spin_lock(&gpumem_managed_lock);
	if (dev)
		dev = gpumem_advice_target(block, dev, devbit, true);
	/* A block in use stays where it is. */
	ready = block->held && !block->moving &&
		(gpumem_block_placed(block) || block->charged) &&
		!(write && !list_empty(&block->copies)) &&
		(!dev || block->dev == dev || block->users ||
		 gpumem_copy_find_locked(block, dev));
	if (ready)
		gpumem_block_use_locked(block);
	spin_unlock(&gpumem_managed_lock);
	return ready;
}

/**
 * gpumem_block_use - use the block at an offset, if it is held
 * @bo: managed buffer object
 * @offset: of a byte in the block
 * @dev: as gpumem_block_try_use()
 * @devbit: as gpumem_block_try_use()
 * @write: as gpumem_block_try_use()
 *
 * Context: any but interrupts.
 * Return: the block, or NULL.
 */
struct gpumem_block *gpumem_block_use(struct gpumem_bo *bo, u64 offset,
				      struct gpumem_device *dev, u32 devbit,
				      bool write)
{
	struct gpumem_block *block = gpumem_block_find(bo, offset);

	return block && gpumem_block_try_use(block, dev, devbit, write) ?
	       block : NULL;
}

/**
 * gpumem_block_unuse - undo gpumem_block_use()
 * @block: of a buffer object that the caller keeps
 *
 * Context: any but interrupts.
 */
void gpumem_block_unuse(struct gpumem_block *block)
{
	bool drop = false, charged = false;
	struct gpumem_mem *over = NULL;

	spin_lock(&gpumem_managed_lock);
	if (!--block->users) {
		if (gpumem_block_placed(block)) {
			gpumem_block_idle_locked(block);
			if (unlikely(block->dev &&
				     block->dev->mem.managed_over))
				over = &block->dev->mem;
		} else {
			swap(charged, block->charged);
			block->held = false;
			drop = true;
		}
	}
	spin_unlock(&gpumem_managed_lock);
	if (drop)
		gpumem_shmem_let_go(block->bo->file, gpumem_block_first(block),
				    gpumem_block_last(block));
	if (charged)
		gpumem_user_unhold(block->bo->obj.client,
				   gpumem_block_pages(block));
	/* The caller may not be able to sleep. */
	if (over)
		queue_work(gpumem_compat_unbound_wq, &over->managed_relief);
}

/**
 * gpumem_uses_add - keep a block in use
 * @uses: of an entry
 * @block: block in use, whose use @uses takes over
 *
 * Return: false, and @block is still the caller's, if @uses is full.
 */
bool gpumem_uses_add(struct gpumem_uses *uses, struct gpumem_block *block)
{
	if (uses->n == GPUMEM_USES)
		return false;
	kref_get(&block->bo->obj.ref);
	uses->block[uses->n++] = block;
	return true;
}

/**
 * gpumem_uses_drop - end the uses of an entry's blocks
 * @uses: of the entry
 *
 * Context: may sleep, without locks.
 */
void gpumem_uses_drop(struct gpumem_uses *uses)
{
	struct gpumem_bo *bo;

	while (uses->n) {
		bo = uses->block[--uses->n]->bo;
		gpumem_block_unuse(uses->block[uses->n]);
		gpumem_object_put(&bo->obj);
	}
}

/**
 * gpumem_uses_drop_old - end the uses of an entry's blocks, but the last
 * @uses: of the entry
 *
 * Context: may sleep, without locks.
 */
void gpumem_uses_drop_old(struct gpumem_uses *uses)
{
	struct gpumem_block *last;

	if (uses->n < 2)
		return;
	last = uses->block[--uses->n];
	gpumem_uses_drop(uses);
	uses->block[uses->n++] = last;
}

/**
 * gpumem_uses_resident - are all blocks of an entry resident?
 * @uses: of the entry
 *
 * Return: false if one of them found no room on a device.
 */
bool gpumem_uses_resident(const struct gpumem_uses *uses)
{
	unsigned int i;

	for (i = 0; i < uses->n; i++)
		if (!gpumem_block_placed(uses->block[i]))
			return false;
	return true;
}

/**
 * gpumem_uses_have - does an entry keep a block in use?
 * @uses: of the entry
 * @bo: managed buffer object
 * @offset: of a byte in the block
 * @write: the entry is to write, so the block must not have copies
 *
 * Return: true if it does.
 */
bool gpumem_uses_have(const struct gpumem_uses *uses, struct gpumem_bo *bo,
		      u64 offset, bool write)
{
	unsigned int i;

	for (i = uses->n; i--;)
		if (gpumem_block_is(uses->block[i], bo, offset))
			return !(write && !list_empty(&uses->block[i]->copies));
	return false;
}

/**
 * gpumem_block_get - find or make the record of a block
 * @bo: managed buffer object
 * @offset: of a byte in the block
 *
 * Context: may sleep.
 * Return: the block, or NULL if there is no memory.
 */
struct gpumem_block *gpumem_block_get(struct gpumem_bo *bo, u64 offset)
{
	struct gpumem_block *block = gpumem_block_find(bo, offset), *old;

	if (block)
		return block;
	block = kzalloc(sizeof(*block), GPUMEM_BLOCK_GFP);
	if (!block)
		return NULL;
	INIT_LIST_HEAD(&block->lru);
	INIT_LIST_HEAD(&block->own);
	INIT_LIST_HEAD(&block->copies);
	block->bo = bo;
	block->index = offset / GPUMEM_MANAGED_BLOCK;
	block->home = NUMA_NO_NODE;
	old = xa_cmpxchg(&bo->managed->blocks, block->index, NULL, block,
			 GPUMEM_BLOCK_GFP);
	if (!old)
		return block;
	kfree(block);
	return xa_is_err(old) ? NULL : old;
}

/*
 * Make a block that the caller uses resident on @dev, if that has room.  A block
 * that is resident on another device stays there otherwise.  @spare: see
 * gpumem_move_pages(); for the moves of blocks that make room
 */
static void gpumem_block_settle(struct gpumem_block *block,
				struct gpumem_device *dev,
				enum gpumem_fetch why, struct folio **spare)
{
	const enum gpumem_departure moved = GPUMEM_DEPARTURE_MOVED;
	u64 used, bytes = gpumem_block_bytes(block);
	struct gpumem_departed left;
	bool came, went, evicted, charged;
	unsigned int tries;

	for (tries = 0; tries <= GPUMEM_BLOCK_VICTIMS; tries++) {
		came = false;
		went = false;
		evicted = false;
		charged = false;
		used = gpumem_shmem_used(&dev->mem);
		spin_lock(&gpumem_managed_lock);
		if (block->dev == dev || !list_empty(&block->copies) ||
		    (block->dev && block->users > 1)) {
			/* A block that others use stays where it is. */
		} else if (gpumem_managed_fits_locked(&dev->mem, used, bytes)) {
			went = block->dev;
			if (went)
				gpumem_block_depart_locked(block, moved, &left);
			gpumem_block_arrive_locked(block, dev, why);
			swap(charged, block->charged);
			came = true;
		} else if (bytes <= gpumem_size(&dev->mem)) {
			evicted = gpumem_managed_victim_locked(&dev->mem, &left);
		}
		spin_unlock(&gpumem_managed_lock);
		if (charged)
			gpumem_user_unhold(block->bo->obj.client,
					   gpumem_block_pages(block));
		/* The caller's use keeps the block resident. */
		if (came) {
			gpumem_holding_charge(block->bo->obj.client, dev,
					      bytes);
			/* An allocation may have taken the room meanwhile. */
			gpumem_managed_trim(dev);
		}
		if (went || evicted) {
			left.spare = spare;
			gpumem_departed_finish(&left);
		}
		if (!evicted)
			return;
		cond_resched();
	}
}

/*
 * Populate a block and take references on its folios.  Make room as an
 * allocation of host memory does.
 */
static int gpumem_block_populate(struct gpumem_block *block,
				 enum gpumem_fetch why)
{
	struct gpumem_client *client = block->bo->obj.client;
	pgoff_t first = gpumem_block_first(block);
	pgoff_t end = gpumem_block_last(block);
	struct file *file = block->bo->file;
	unsigned int tries = GPUMEM_RELIEF_TRIES;
	int ret;

	ret = gpumem_shmem_hold(file, first, end);
	if (ret == -ENOMEM && (gpumem_linger_make_room(&gpumem_managed_mem) |
			       gpumem_linger_make_room(&gpumem_host_mem)))
		ret = gpumem_shmem_hold(file, first, end);
	while (gpumem_bo_make_room(client, &gpumem_managed_mem, ret,
				   gpumem_block_bytes(block), &tries))
		ret = gpumem_shmem_hold(file, first, end);
	if (ret && why != GPUMEM_FETCH_TOUCHED)
		gpumem_bo_refused(block->bo, ret, gpumem_block_bytes(block));
	return ret;
}

/*
 * Charge a block that the caller uses to the client's user, unless the block is
 * resident.  @dev had no room for the block.
 */
static int gpumem_block_charge(struct gpumem_block *block,
			       struct gpumem_device *dev, enum gpumem_fetch why)
{
	struct gpumem_client *client = block->bo->obj.client;
	struct gpumem_refusal refusal = { .dev = dev };
	u64 pages = gpumem_block_pages(block);
	bool paid;
	int ret;

	spin_lock(&gpumem_managed_lock);
	paid = gpumem_block_placed(block) || block->charged;
	spin_unlock(&gpumem_managed_lock);
	if (paid)
		return 0;
	ret = gpumem_user_hold(client, pages, &refusal);
	spin_lock(&gpumem_managed_lock);
	/* Another worker may have paid, or made it resident. */
	paid = gpumem_block_placed(block) || block->charged;
	if (!ret && !paid)
		block->charged = true;
	spin_unlock(&gpumem_managed_lock);
	if (!ret && paid)
		gpumem_user_unhold(client, pages);
	else if (ret && !paid && why != GPUMEM_FETCH_TOUCHED)
		gpumem_refused(client, &refusal);
	return paid ? 0 : ret;
}

/**
 * gpumem_block_claim - become the only task that fetches or discards a block
 * @block: block of a buffer object that the caller keeps
 *
 * gpumem_block_unclaim() ends the claim.
 *
 * Context: may sleep, without locks.
 * Return: 0, or -EINTR when killed.
 */
int gpumem_block_claim(struct gpumem_block *block)
{
	bool claimed;

	for (;;) {
		spin_lock(&gpumem_managed_lock);
		claimed = !block->fetching;
		block->fetching = true;
		spin_unlock(&gpumem_managed_lock);
		if (claimed)
			return 0;
		if (wait_event_killable(gpumem_managed_wait,
					!READ_ONCE(block->fetching)))
			return -EINTR;
	}
}

/**
 * gpumem_block_unclaim - undo gpumem_block_claim()
 * @block: block
 */
void gpumem_block_unclaim(struct gpumem_block *block)
{
	spin_lock(&gpumem_managed_lock);
	block->moving = false;
	WRITE_ONCE(block->fetching, false);
	spin_unlock(&gpumem_managed_lock);
	wake_up_all(&gpumem_managed_wait);
}

/*
 * Move the pages of a resident block to the node of its device.  If no node was
 * given to the device, they move back to where they were before they moved to
 * another device.  The caller alone uses the block.  @spare: see
 * gpumem_move_pages()
 */
static void gpumem_block_move(struct gpumem_block *block, struct folio **spare)
{
	pgoff_t first = gpumem_block_first(block);
	pgoff_t end = gpumem_block_last(block);
	struct file *file = block->bo->file;
	int node = block->dev->mem.node, from;
	struct gpumem_moved done;

	if (node == NUMA_NO_NODE)
		node = block->home;
	if (!gpumem_move_possible(node))
		return;
	from = gpumem_move_node(file, first, end);
	done = gpumem_move_pages(file, first, end, node, 1, spare);
	spin_lock(&gpumem_managed_lock);
	if (block->home == NUMA_NO_NODE && from != node)
		block->home = from;
	block->astray = done.stayed;
	spin_unlock(&gpumem_managed_lock);
	gpumem_move_count(block->bo->obj.client, done);
}

/* Others use the resident block, so its pages stay until the next prefetch. */
static void gpumem_block_stay(struct gpumem_block *block)
{
	if (!gpumem_move_possible(block->dev->mem.node))
		return;
	spin_lock(&gpumem_managed_lock);
	block->astray = true;
	spin_unlock(&gpumem_managed_lock);
}

/* The caller has claimed the block. */
static int gpumem_block_fetch_claimed(struct gpumem_block *block,
				      struct gpumem_device *dev, u32 devbit,
				      struct gpumem_uses *uses,
				      enum gpumem_fetch why)
{
	struct gpumem_bo *bo = block->bo;
	struct gpumem_device *target;
	bool held, there, moving;
	struct folio *spare = NULL;
	int ret;

	there = gpumem_shmem_has_page(bo->file, gpumem_block_first(block),
				      gpumem_block_last(block));
	ret = gpumem_block_populate(block, why);
	if (ret)
		return ret;
	gpumem_delay(managed_populated);
	spin_lock(&gpumem_managed_lock);
	held = block->held;
	block->held = true;
	gpumem_block_use_locked(block);
	target = gpumem_advice_target(block, dev, devbit, there);
	moving = nr_online_nodes > 1 && block->users == 1;
	block->moving = moving;
	spin_unlock(&gpumem_managed_lock);
	/* Each folio of a held block has one reference. */
	if (held)
		gpumem_shmem_let_go(bo->file, gpumem_block_first(block),
				    gpumem_block_last(block));
	/* The other copies go before the engine writes. */
	if (why == GPUMEM_FETCH_WRITE)
		gpumem_duplicate_join(block, dev, GPUMEM_DEPARTURE_WRITTEN);
	if (why == GPUMEM_FETCH_WRITE || !gpumem_duplicate(block, dev, why)) {
		if (target)
			gpumem_block_settle(block, target, why, &spare);
		if (target && target != dev && !READ_ONCE(block->dev))
			gpumem_block_settle(block, dev, why, &spare);
	}
	ret = gpumem_block_charge(block, dev, why);
	/* Advice must not make an entry fail. */
	if (ret == -EDQUOT && !target) {
		gpumem_block_settle(block, dev, why, &spare);
		ret = gpumem_block_charge(block, dev, why);
	}
	if (!ret && moving && block->dev)
		gpumem_block_move(block, &spare);
	else if (!ret && block->dev)
		gpumem_block_stay(block);
	gpumem_move_drop(spare);
	if (ret)
		gpumem_block_unuse(block);
	else
		gpumem_uses_add(uses, block);
	return ret;
}

static int gpumem_block_fetch(struct gpumem_bo *bo, u64 offset,
			      struct gpumem_device *dev, u32 devbit,
			      struct gpumem_uses *uses, enum gpumem_fetch why)
{
	struct gpumem_block *block = gpumem_block_get(bo, offset);
	int ret;

	if (!block)
		return -ENOMEM;
	ret = gpumem_block_claim(block);
	if (ret)
		return ret;
	ret = gpumem_block_fetch_claimed(block, dev, devbit, uses, why);
	gpumem_block_unclaim(block);
	return ret;
}

/* Is there a block whose pages a prefetch should try to move once more? */
static bool gpumem_block_strays(struct gpumem_bo *bo, u64 offset,
				enum gpumem_fetch why)
{
	struct gpumem_block *block;

	if (why != GPUMEM_FETCH_PREFETCH)
		return false;
	block = gpumem_block_find(bo, offset);
	return block && READ_ONCE(block->astray);
}

/**
 * gpumem_managed_fetch - populate a block, and make it resident if it fits
 * @bo: managed buffer object; referenced
 * @offset: of a byte in the block
 * @dev: device that is to work on the block
 * @devbit: bit of @dev in access masks, or 0 to ignore advice
 * @uses: of the entry; the block is added; full uses are dropped before
 * @why: every reason but a prefetch counts as a fault if the block becomes
 *	resident
 *
 * New pages are charged to the memory cgroup of the process that owns @bo.
 *
 * Context: the worker that runs the entry's stream, or a task of the client's
 * process; may sleep, without locks.
 * Return: 0 or a negative errno: -ENOMEM; -EDQUOT if the block did not fit into
 * the device, nor into what the user may pin; -EIO if a page cannot be read from
 * swap; or -EINTR when killed.
 */
int gpumem_managed_fetch(struct gpumem_bo *bo, u64 offset,
			 struct gpumem_device *dev, u32 devbit,
			 struct gpumem_uses *uses, enum gpumem_fetch why)
{
	struct mem_cgroup *memcg, *old;
	struct gpumem_block *block;
	int ret;

	if (uses->n == GPUMEM_USES)
		gpumem_uses_drop(uses);
	block = gpumem_block_strays(bo, offset, why) ? NULL :
		gpumem_block_use(bo, offset, dev, devbit,
				 why == GPUMEM_FETCH_WRITE);
	if (block) {
		gpumem_uses_add(uses, block);
		return 0;
	}
	/* The client keeps its mm until the work of its streams has ended. */
	memcg = get_mem_cgroup_from_mm(bo->obj.client->mm);
	old = set_active_memcg(memcg);
	ret = gpumem_block_fetch(bo, offset, dev, devbit, uses, why);
	set_active_memcg(old);
	mem_cgroup_put(memcg);
	return ret;
}

/* Move the pages of a block that is not held. */
static void gpumem_managed_move(struct gpumem_bo *bo, u64 offset, int node)
{
	u64 end = min(gpumem_block_end(offset), bo->length);
	u64 first = round_down(offset, GPUMEM_MANAGED_BLOCK);

	gpumem_move_count(bo->obj.client,
			  gpumem_move_pages(bo->file, first >> PAGE_SHIFT,
					    end >> PAGE_SHIFT, node, 0, NULL));
}

/**
 * gpumem_managed_evict - evict a block
 * @bo: managed buffer object; referenced
 * @offset: of a byte in the block
 * @node: memory node to move the pages to, or NUMA_NO_NODE to move them back to
 *	where they were before they moved to the device
 *
 * A block that is in use stays resident.  A block that is mostly read stays
 * resident, too: the host gets a copy.
 *
 * Context: may sleep.
 */
void gpumem_managed_evict(struct gpumem_bo *bo, u64 offset, int node)
{
	struct gpumem_block *block = gpumem_block_find(bo, offset);
	bool evict = false, users = false;
	struct gpumem_departed left;

	if (block && gpumem_duplicate_to_host(block))
		return;
	if (block) {
		spin_lock(&gpumem_managed_lock);
		users = block->users;
		evict = block->dev && !users;
		if (evict)
			gpumem_block_depart_locked(block,
						   GPUMEM_DEPARTURE_MOVED,
						   &left);
		else if (!block->dev)
			gpumem_resident_recall(block);
		spin_unlock(&gpumem_managed_lock);
	}
	if (evict) {
		if (node != NUMA_NO_NODE)
			left.node = node;
		gpumem_departed_finish(&left);
	} else if (!users && gpumem_move_possible(node)) {
		gpumem_managed_move(bo, offset, node);
	}
}

/**
 * gpumem_managed_read - read the counters of a managed buffer object
 * @bo: managed buffer object
 * @stats: out
 *
 * Context: any.  The counters may change between two of the reads.
 */
void gpumem_managed_read(struct gpumem_bo *bo,
			 struct gpumem_managed_stats *stats)
{
	const struct gpumem_managed_stats *from = &bo->managed->stats;

	stats->resident = READ_ONCE(from->resident);
	stats->faults = READ_ONCE(from->faults);
	stats->evictions = READ_ONCE(from->evictions);
	stats->thrash = READ_ONCE(from->thrash);
	stats->moved_in = READ_ONCE(from->moved_in);
	stats->moved_out = READ_ONCE(from->moved_out);
}

/**
 * gpumem_managed_sort - give a block the rank that its new advice says
 * @bo: managed buffer object; referenced
 * @index: number of the block, which counts as used now
 *
 * Context: may sleep.
 */
void gpumem_managed_sort(struct gpumem_bo *bo, unsigned long index)
{
	struct gpumem_block *block = xa_load(&bo->managed->blocks, index);

	if (!block)
		return;
	spin_lock(&gpumem_managed_lock);
	/* An evicted block is to follow the advice at the next touch. */
	if (!block->dev)
		gpumem_resident_recall(block);
	if (block->dev && !block->users) {
		gpumem_block_busy_locked(block);
		gpumem_block_idle_locked(block);
	}
	spin_unlock(&gpumem_managed_lock);
}
