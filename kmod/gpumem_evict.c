// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_evict: how blocks of managed memory leave a device.
 *
 * A block that is resident on a device (gpumem_managed.c) departs when a prefetch
 * moves it elsewhere, when its buffer object is freed, or when it is evicted.
 *
 * Room: a block that is to become resident evicts the least recently used blocks
 * of all clients, but nothing else.  An allocation of device memory evicts blocks
 * as far as the memory in use exceeds the device's size, and so does a smaller
 * size.  If these blocks are in use, mem->managed_over is set, and they are
 * evicted when they are no longer in use.
 *
 * Thrash: at its eviction a block stores how many bytes the device has evicted
 * so far (mem->managed_evicted).  If the block becomes resident there again
 * before the device has evicted more than its size, a device of twice the size
 * would have kept the block.  The kernel's workingset.c detects refaults of the
 * page cache in the same way.
 *
 * The block stops counting, its pages move back to the memory node on which they
 * were before (gpumem_move.c), and its folios are let go.  If the pages were there
 * all the time, eviction moves no bytes.  Pages that cannot move are let go where
 * they are.
 *
 * Short memory: if there is swap space, an allocation that gets -ENOMEM evicts
 * blocks of the same client, so that the kernel can swap them out.  A shrinker
 * evicts the least recently used blocks of a device when the system is short of
 * memory.  These evictions move no pages: the kernel is to swap them out.  The blocks
 * are not far, because the device has room for them.
 *
 * Locks: gpumem_managed_lock (spin), as in gpumem_managed.c.
 */
#include <linux/file.h>
#include <linux/sched/signal.h>
#include <linux/shrinker.h>
#include <linux/swap.h>
#include <linux/workqueue.h>

#include "gpumem_bo.h"
#include "gpumem_client.h"
#include "gpumem_compat.h"
#include "gpumem_device.h"
#include "gpumem_duplicate.h"
#include "gpumem_evict.h"
#include "gpumem_managed.h"
#include "gpumem_mem.h"
#include "gpumem_move.h"
#include "gpumem_notice.h"
#include "gpumem_object.h"
#include "gpumem_resident.h"
#include "gpumem_shmem.h"
#include "gpumem_trace.h"

/* Blocks that an allocation evicts at least if memory is short. */
#define GPUMEM_BLOCK_RELIEF	16

/* Without swap space the kernel cannot take the pages of a block. */
static bool gpumem_managed_swaps(void)
{
	return get_nr_swap_pages() > 0;
}

/**
 * gpumem_block_idle_locked - a resident or duplicated block is no longer in use
 * @block: block; the caller holds gpumem_managed_lock
 */
void gpumem_block_idle_locked(struct gpumem_block *block)
{
	struct gpumem_mem *mem;

	lockdep_assert_held(&gpumem_managed_lock);
	list_add_tail(&block->own, &block->bo->obj.client->managed_lru);
	if (!block->dev) {
		gpumem_copies_idle_locked(block);
		return;
	}
	mem = &block->dev->mem;
	list_add_tail(&block->lru,
		      &mem->managed_lru[gpumem_advice_rank(block)]);
	WRITE_ONCE(mem->managed_idle,
		   mem->managed_idle + gpumem_block_bytes(block));
}

/**
 * gpumem_block_busy_locked - a resident or duplicated block is used, or departs
 * @block: block that was not in use; the caller holds gpumem_managed_lock
 */
void gpumem_block_busy_locked(struct gpumem_block *block)
{
	struct gpumem_mem *mem;

	lockdep_assert_held(&gpumem_managed_lock);
	list_del_init(&block->own);
	if (!block->dev) {
		gpumem_copies_busy_locked(block);
		return;
	}
	mem = &block->dev->mem;
	list_del_init(&block->lru);
	WRITE_ONCE(mem->managed_idle,
		   mem->managed_idle - gpumem_block_bytes(block));
}

/* Count why a block departs. */
static void gpumem_block_count_locked(struct gpumem_block *block,
				      enum gpumem_departure why)
{
	struct gpumem_counters *count = &block->bo->obj.client->count;
	struct gpumem_managed_stats *stats = &block->bo->managed->stats;
	struct gpumem_mem *mem = &block->dev->mem;
	u64 bytes = gpumem_block_bytes(block);

	lockdep_assert_held(&gpumem_managed_lock);
	trace_gpumem_managed_evict(block, block->dev, bytes, why);
	if (why == GPUMEM_DEPARTURE_FREED)
		return;
	gpumem_managed_add_locked(&stats->moved_out, bytes);
	atomic64_add(bytes, &count->managed_out);
	if (why != GPUMEM_DEPARTURE_EVICTED)
		return;
	gpumem_managed_add_locked(&stats->evictions, 1);
	atomic64_inc(&count->managed_evictions);
	mem->managed_evicted += bytes;
	block->left = block->dev;
	block->evicted = mem->managed_evicted;
}

/**
 * gpumem_block_depart_locked - a resident block stops counting
 * @block: block; the caller holds gpumem_managed_lock
 * @why: reason
 * @left: out; the caller passes it to gpumem_departed_finish()
 *
 * If the block is not in use, it stops being held, too.
 */
void gpumem_block_depart_locked(struct gpumem_block *block,
				enum gpumem_departure why,
				struct gpumem_departed *left)
{
	struct gpumem_counters *count = &block->bo->obj.client->count;
	struct gpumem_managed_stats *stats = &block->bo->managed->stats;
	u64 bytes = gpumem_block_bytes(block);

	lockdep_assert_held(&gpumem_managed_lock);
	if (why == GPUMEM_DEPARTURE_EVICTED && !gpumem_advice_given(block))
		gpumem_resident_leave(block, !gpumem_managed_swaps());
	else
		gpumem_resident_recall(block);
	*left = (struct gpumem_departed) {
		.client = block->bo->obj.client,
		.dev = block->dev,
		.block = block,
		.bytes = bytes,
		.node = NUMA_NO_NODE,
	};
	/* The buffer object, which is not released yet, has one. */
	kref_get(&left->client->ref);
	if (!block->users) {
		gpumem_block_busy_locked(block);
		block->held = false;
		left->file = get_file(block->bo->file);
		left->first = gpumem_block_first(block);
		left->end = gpumem_block_last(block);
		if (why != GPUMEM_DEPARTURE_FREED)
			left->node = block->home;
		block->home = NUMA_NO_NODE;
	}
	block->astray = false;
	gpumem_block_count_locked(block, why);
	WRITE_ONCE(block->dev->mem.managed, block->dev->mem.managed - bytes);
	block->dev = NULL;
	WRITE_ONCE(stats->resident, stats->resident - bytes);
	atomic64_sub(bytes, &count->managed_resident);
}

/* Move the pages of a block that is not in use.  They are still held. */
static void gpumem_departed_move(struct gpumem_departed *left)
{
	gpumem_move_count(left->client,
			  gpumem_move_pages(left->file, left->first, left->end,
					    left->node, 1, left->spare));
}

/**
 * gpumem_departed_finish - do what is left to do for a block that departed
 * @left: from gpumem_block_depart_locked()
 *
 * Context: may sleep, without locks.
 */
void gpumem_departed_finish(struct gpumem_departed *left)
{
	gpumem_holding_uncharge(left->client, left->dev, left->bytes);
	if (left->file) {
		if (gpumem_move_possible(left->node))
			gpumem_departed_move(left);
		gpumem_shmem_let_go(left->file, left->first, left->end);
		fput(left->file);
	}
	gpumem_client_put(left->client);
}

/* Evict @block, which is not in use.  Return false if it is NULL. */
static bool gpumem_managed_evict_locked(struct gpumem_block *block,
					struct gpumem_departed *left)
{
	lockdep_assert_held(&gpumem_managed_lock);
	if (!block)
		return false;
	gpumem_block_depart_locked(block, GPUMEM_DEPARTURE_EVICTED, left);
	return true;
}

/* Mark the blocks that are evicted next after @block, which is in @lru. */
static void gpumem_managed_age_locked(struct gpumem_block *block,
				      const struct list_head *lru)
{
	unsigned int i;

	lockdep_assert_held(&gpumem_managed_lock);
	for (i = 0; i < GPUMEM_RESIDENT_NEXT; i++) {
		if (list_is_last(&block->lru, lru))
			return;
		block = list_next_entry(block, lru);
		gpumem_resident_age(block);
	}
}

/**
 * gpumem_managed_victim_locked - evict the block that is to go first
 * @mem: of a device; the caller holds gpumem_managed_lock
 * @left: out; the caller passes it to gpumem_departed_finish()
 *
 * Copies of duplicated blocks go first, because the host has their bytes.  Then
 * follows the least recently used block of the first rank that has one.
 *
 * Return: false if all blocks are in use.
 */
bool gpumem_managed_victim_locked(struct gpumem_mem *mem,
				  struct gpumem_departed *left)
{
	struct gpumem_block *block = NULL;
	enum gpumem_rank rank;

	if (gpumem_copy_victim_locked(mem, left))
		return true;
	for (rank = 0; !block && rank < GPUMEM_RANKS; rank++)
		block = list_first_entry_or_null(&mem->managed_lru[rank],
						 struct gpumem_block, lru);
	if (block)
		gpumem_managed_age_locked(block, &mem->managed_lru[rank - 1]);
	return gpumem_managed_evict_locked(block, left);
}

/* Evict the least recently used block of a client.  Return false if none. */
static bool gpumem_managed_own_locked(struct gpumem_client *client,
				      struct gpumem_departed *left)
{
	struct gpumem_block *block =
		list_first_entry_or_null(&client->managed_lru,
					 struct gpumem_block, own);

	if (block && !block->dev)
		return gpumem_copies_drop_locked(block,
						 GPUMEM_DEPARTURE_EVICTED,
						 left);
	return gpumem_managed_evict_locked(block, left);
}

/* The device had room for the block: the next touch makes it resident again. */
static void gpumem_relieved_locked(struct gpumem_departed *left)
{
	if (left->block)
		gpumem_resident_recall(left->block);
}

/**
 * gpumem_managed_relieve - evict blocks because memory is short
 * @client: whose blocks
 * @bytes: to evict, at least GPUMEM_BLOCK_RELIEF blocks
 *
 * Context: may sleep, without locks.
 * Return: true if blocks were evicted, which the kernel may swap out now.
 */
bool gpumem_managed_relieve(struct gpumem_client *client, u64 bytes)
{
	u64 want = max_t(u64, bytes, GPUMEM_BLOCK_RELIEF * GPUMEM_MANAGED_BLOCK);
	struct gpumem_departed left;
	u64 done = 0;
	bool found;

	if (!gpumem_managed_swaps() || !gpumem_compat_memcg_swaps(bytes))
		return false;
	while (done < want && !fatal_signal_pending(current)) {
		spin_lock(&gpumem_managed_lock);
		found = gpumem_managed_own_locked(client, &left);
		if (found)
			gpumem_relieved_locked(&left);
		spin_unlock(&gpumem_managed_lock);
		if (!found)
			break;
		left.node = NUMA_NO_NODE;
		/* Other devices may have copies of the same pages. */
		if (left.file)
			done += left.bytes;
		gpumem_departed_finish(&left);
		cond_resched();
	}
	return done;
}

static unsigned long gpumem_managed_count(struct shrinker *shrinker,
					  struct shrink_control *sc)
{
	struct gpumem_mem *mem = shrinker->private_data;
	u64 idle = READ_ONCE(mem->managed_idle);

	return idle && gpumem_managed_swaps() ? idle >> PAGE_SHIFT :
						SHRINK_EMPTY;
}

/* The work item evicts, because that takes locks that reclaim must not take. */
static unsigned long gpumem_managed_scan(struct shrinker *shrinker,
					 struct shrink_control *sc)
{
	struct gpumem_mem *mem = shrinker->private_data;

	/* Many tasks may reclaim before the work item runs. */
	if (atomic_long_read(&mem->managed_wanted) <
	    GPUMEM_BLOCK_RELIEF * GPUMEM_BLOCK_PAGES)
		atomic_long_add(sc->nr_to_scan, &mem->managed_wanted);
	queue_work(gpumem_compat_unbound_wq, &mem->managed_relief);
	return SHRINK_STOP;
}

static void gpumem_managed_relief(struct work_struct *work)
{
	struct gpumem_mem *mem = container_of(work, struct gpumem_mem,
					      managed_relief);
	long pages = atomic_long_xchg(&mem->managed_wanted, 0);
	struct gpumem_departed left;
	bool found;

	if (gpumem_duplicate_sweep(mem))
		queue_work(gpumem_compat_unbound_wq, &mem->managed_relief);
	gpumem_managed_trim_late(container_of(mem, struct gpumem_device, mem));
	while (pages > 0) {
		spin_lock(&gpumem_managed_lock);
		found = gpumem_managed_victim_locked(mem, &left);
		if (found)
			gpumem_relieved_locked(&left);
		spin_unlock(&gpumem_managed_lock);
		if (!found)
			return;
		left.node = NUMA_NO_NODE;
		if (left.file)
			pages -= left.bytes >> PAGE_SHIFT;
		gpumem_departed_finish(&left);
		cond_resched();
	}
}

/**
 * gpumem_managed_mount - prepare a device's memory for managed blocks
 * @mem: memory
 *
 * Return: 0 or -ENOMEM.
 */
int gpumem_managed_mount(struct gpumem_mem *mem)
{
	INIT_WORK(&mem->managed_relief, gpumem_managed_relief);
	mem->managed_shrinker = shrinker_alloc(0, "gpumem-managed");
	if (!mem->managed_shrinker)
		return -ENOMEM;
	mem->managed_shrinker->count_objects = gpumem_managed_count;
	mem->managed_shrinker->scan_objects = gpumem_managed_scan;
	mem->managed_shrinker->batch = GPUMEM_BLOCK_PAGES;
	mem->managed_shrinker->private_data = mem;
	shrinker_register(mem->managed_shrinker);
	return 0;
}

/**
 * gpumem_managed_unmount - undo gpumem_managed_mount()
 * @mem: memory without managed blocks
 *
 * Called twice: before gpumem_client_exit(), because the work item may drop
 * references on clients, and before the memory is freed.
 */
void gpumem_managed_unmount(struct gpumem_mem *mem)
{
	if (mem->managed_shrinker)
		shrinker_free(mem->managed_shrinker);
	mem->managed_shrinker = NULL;
	cancel_work_sync(&mem->managed_relief);
}

/**
 * gpumem_managed_fits_locked - would a memory have room?
 * @mem: of a device; the caller holds gpumem_managed_lock
 * @used: bytes on its mount
 * @bytes: more of them
 *
 * Return: true if resident blocks, @used and @bytes fit.
 */
bool gpumem_managed_fits_locked(struct gpumem_mem *mem, u64 used, u64 bytes)
{
	u64 size = gpumem_size(mem);

	lockdep_assert_held(&gpumem_managed_lock);
	used += mem->managed;
	return used <= size && bytes <= size - used;
}

/**
 * gpumem_managed_trim - evict what does not fit into a device's memory
 * @dev: device, whose mount has more in use than before, or a smaller size
 *
 * Context: may sleep.
 */
void gpumem_managed_trim(struct gpumem_device *dev)
{
	struct gpumem_mem *mem = &dev->mem;
	struct gpumem_departed left;
	bool fits, found;
	u64 used;

	while (READ_ONCE(mem->managed)) {
		used = gpumem_shmem_used(mem);
		spin_lock(&gpumem_managed_lock);
		fits = gpumem_managed_fits_locked(mem, used, 0);
		found = !fits && gpumem_managed_victim_locked(mem, &left);
		/* The tasks that use the other blocks evict them later. */
		WRITE_ONCE(mem->managed_over, !fits && !found);
		spin_unlock(&gpumem_managed_lock);
		if (found) {
			gpumem_departed_finish(&left);
		} else if (!fits || gpumem_shmem_used(mem) <= used) {
			/* No more came into use before the flag was cleared. */
			return;
		}
		cond_resched();
	}
}

/**
 * gpumem_managed_trim_late - evict blocks that were in use before
 * @dev: device whose blocks the caller no longer uses
 *
 * Context: may sleep.
 */
void gpumem_managed_trim_late(struct gpumem_device *dev)
{
	if (unlikely(READ_ONCE(dev->mem.managed_over)))
		gpumem_managed_trim(dev);
}
