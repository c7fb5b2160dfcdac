/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Managed memory: buffer objects that are populated block by block, and whose
 * blocks become resident on devices.  gpumem_evict.h has their eviction.
 *
 * Lock: gpumem_managed_lock (spin); see the fields.
 */
#ifndef GPUMEM_MANAGED_H
#define GPUMEM_MANAGED_H

#include <linux/gpumem.h>
#include <linux/list.h>
#include <linux/minmax.h>
#include <linux/mm.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/xarray.h>

#include "gpumem_bo.h"
#include "gpumem_object.h"

struct gpumem_client;
struct gpumem_device;
struct gpumem_ucmd;

/**
 * struct gpumem_block - GPUMEM_MANAGED_BLOCK bytes of managed memory
 *
 * Made when an engine first touches the block; freed with the buffer object.
 * gpumem_managed_lock protects the fields, unless they are constant.
 */
struct gpumem_block {
	/** @lru: in mem->managed_lru while resident and not in use */
	struct list_head lru;
	/** @own: in client->managed_lru while resident or duplicated and not in use */
	struct list_head own;
	/** @bo: managed buffer object; constant */
	struct gpumem_bo *bo;
	/** @index: number of the block in @bo; constant */
	unsigned long index;
	/** @dev: device on which the block is resident, or NULL */
	struct gpumem_device *dev;
	/** @copies: struct gpumem_copy; empty unless @dev is NULL */
	struct list_head copies;
	/** @stale: has @copies, which go when the block is no longer in use */
	bool stale;
	/** @users: streams and slices that use the block */
	unsigned int users;
	/** @held: populated, with a reference on each folio */
	bool held;
	/** @fetching: a task fetches the block; other fetches wait */
	bool fetching;
	/** @moving: that task may move its pages; no other task may use it */
	bool moving;
	/** @astray: resident, with pages that are not on the device's node */
	bool astray;
	/**
	 * @home: memory node of the pages before they moved to a device's node,
	 * or NUMA_NO_NODE
	 */
	int home;
	/** @charged: held, not resident, and counted as pinned by the user */
	bool charged;
	/** @left: device that evicted the block to make room, or NULL */
	struct gpumem_device *left;
	/** @evicted: mem->managed_evicted of @left after that eviction */
	u64 evicted;
	/**
	 * @far: device whose small entries use the block where it is, or NULL
	 * (gpumem_far.c); also read without the lock
	 */
	struct gpumem_device *far;
	/** @word: that can show it, or NULL; set when it becomes resident */
	u64 *word;
	/** @tag: what @word contains while it shows the resident block */
	u64 tag;
};

/**
 * struct gpumem_managed - the blocks of a managed buffer object
 */
struct gpumem_managed {
	/** @blocks: struct gpumem_block by number; entries are only added */
	struct xarray blocks;
	/** @stats: written under gpumem_managed_lock; read without it */
	struct gpumem_managed_stats stats;
	/** @nameless: the id was destroyed; gpumem_managed_lock */
	bool nameless;
	/** @advice: of each block, made by the first advice; or NULL; atomic */
	u32 *advice;
};

/**
 * enum gpumem_fetch - why a block is fetched
 * @GPUMEM_FETCH_READ: an entry reads it
 * @GPUMEM_FETCH_WRITE: an entry writes it
 * @GPUMEM_FETCH_PREFETCH: an entry prefetches it
 * @GPUMEM_FETCH_TOUCHED: the client accessed it by the CPU, or a small entry is to
 *	access a far block.  They can do without the fetch: a failure is no refusal
 */
enum gpumem_fetch {
	GPUMEM_FETCH_READ,
	GPUMEM_FETCH_WRITE,
	GPUMEM_FETCH_PREFETCH,
	GPUMEM_FETCH_TOUCHED,
};

/*
 * Most blocks that an entry keeps in use between two slices.  A portion of a
 * published entry (gpumem_publish.c) in contiguous memory has 34 at most.
 * gpumem_lane_keep() bounds how many portions of a client keep blocks.
 */
#define GPUMEM_USES	40

/**
 * struct gpumem_uses - blocks that an entry keeps in use between two slices
 *
 * The owner of the entry owns it.
 */
struct gpumem_uses {
	/** @n: number of @block */
	unsigned int n;
	/** @block: blocks, each with a reference on its buffer object */
	struct gpumem_block *block[GPUMEM_USES];
};

#define GPUMEM_BLOCK_PAGES	(GPUMEM_MANAGED_BLOCK >> PAGE_SHIFT)

/*
 * Blocks that are evicted to make room for one.  The last block of a buffer
 * object can be as small as a page.
 */
#define GPUMEM_BLOCK_VICTIMS	GPUMEM_BLOCK_PAGES

/* gpumem_managed.c */
extern spinlock_t gpumem_managed_lock;
void gpumem_managed_init(void);
bool gpumem_managed_allowed(void);
int gpumem_managed_create(struct gpumem_bo *bo, const char *name);
void gpumem_managed_handle_gone(struct gpumem_bo *bo);
void gpumem_managed_release(struct gpumem_bo *bo);
struct gpumem_block *gpumem_block_find(struct gpumem_bo *bo, u64 offset);
bool gpumem_block_try_use(struct gpumem_block *block, struct gpumem_device *dev,
			  u32 devbit, bool write);
struct gpumem_block *gpumem_block_use(struct gpumem_bo *bo, u64 offset,
				      struct gpumem_device *dev, u32 devbit,
				      bool write);
void gpumem_block_unuse(struct gpumem_block *block);
bool gpumem_uses_add(struct gpumem_uses *uses, struct gpumem_block *block);
void gpumem_uses_drop(struct gpumem_uses *uses);
void gpumem_uses_drop_old(struct gpumem_uses *uses);
bool gpumem_uses_resident(const struct gpumem_uses *uses);
bool gpumem_uses_have(const struct gpumem_uses *uses, struct gpumem_bo *bo,
		      u64 offset, bool write);
void gpumem_block_use_locked(struct gpumem_block *block);
struct gpumem_block *gpumem_block_get(struct gpumem_bo *bo, u64 offset);
int gpumem_block_claim(struct gpumem_block *block);
void gpumem_block_unclaim(struct gpumem_block *block);
void gpumem_block_count_in_locked(struct gpumem_block *block,
				  struct gpumem_device *dev,
				  enum gpumem_fetch why);
int gpumem_managed_fetch(struct gpumem_bo *bo, u64 offset,
			 struct gpumem_device *dev, u32 devbit,
			 struct gpumem_uses *uses, enum gpumem_fetch why);
void gpumem_managed_read(struct gpumem_bo *bo,
			 struct gpumem_managed_stats *stats);
void gpumem_managed_evict(struct gpumem_bo *bo, u64 offset, int node);
void gpumem_managed_sort(struct gpumem_bo *bo, unsigned long index);

/* gpumem_discard.c */
void gpumem_managed_discard(struct gpumem_bo *bo, u64 offset, u64 length);

/* gpumem_advice.c */
struct gpumem_device *gpumem_advice_target(const struct gpumem_block *block,
					   struct gpumem_device *dev,
					   u32 devbit, bool there);
bool gpumem_advice_given(const struct gpumem_block *block);
bool gpumem_advice_read_mostly(const struct gpumem_block *block);
struct gpumem_device *gpumem_advice_device(const struct gpumem_block *block);
enum gpumem_rank gpumem_advice_rank(const struct gpumem_block *block);
int gpumem_ioctl_bo_advise(struct gpumem_ucmd *ucmd);

/* Does the block count in the memory in use of a device? */
static inline bool gpumem_block_placed(const struct gpumem_block *block)
{
	return READ_ONCE(block->dev) || !list_empty(&block->copies);
}

/* Where the block of @offset ends. */
static inline u64 gpumem_block_end(u64 offset)
{
	return (offset | (GPUMEM_MANAGED_BLOCK - 1)) + 1;
}

static inline bool gpumem_block_is(const struct gpumem_block *block,
				   const struct gpumem_bo *bo, u64 offset)
{
	return block->bo == bo &&
	       block->index == offset / GPUMEM_MANAGED_BLOCK;
}

/* The pages of a block in the file of its buffer object. */
static inline pgoff_t gpumem_block_first(const struct gpumem_block *block)
{
	return block->index * GPUMEM_BLOCK_PAGES;
}

/* The page behind the last one. */
static inline pgoff_t gpumem_block_last(const struct gpumem_block *block)
{
	return min_t(u64, gpumem_block_first(block) + GPUMEM_BLOCK_PAGES,
		     block->bo->length >> PAGE_SHIFT);
}

static inline u64 gpumem_block_pages(const struct gpumem_block *block)
{
	return gpumem_block_last(block) - gpumem_block_first(block);
}

static inline u64 gpumem_block_bytes(const struct gpumem_block *block)
{
	return gpumem_block_pages(block) << PAGE_SHIFT;
}

/* Add to a counter that is read without the lock. */
static inline void gpumem_managed_add_locked(u64 *counter, u64 n)
{
	lockdep_assert_held(&gpumem_managed_lock);
	WRITE_ONCE(*counter, *counter + n);
}

#endif /* GPUMEM_MANAGED_H */
