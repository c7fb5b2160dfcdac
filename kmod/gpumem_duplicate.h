/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Duplicates: blocks of managed memory that the host and several devices have at
 * the same time, because they are mostly read.  Offered by gpumem_duplicate.c.
 *
 * Lock: gpumem_managed_lock.
 */
#ifndef GPUMEM_DUPLICATE_H
#define GPUMEM_DUPLICATE_H

#include <linux/list.h>
#include <linux/types.h>

#include "gpumem_evict.h"
#include "gpumem_managed.h"

struct file;
struct gpumem_backing;
struct gpumem_bo;
struct gpumem_device;
struct gpumem_mem;

/**
 * struct gpumem_copy - a device's copy of a duplicated block
 */
struct gpumem_copy {
	/** @link: in block->copies */
	struct list_head link;
	/** @lru: in mem->managed_copies unless the block is in use */
	struct list_head lru;
	/** @block: duplicated block; constant */
	struct gpumem_block *block;
	/** @dev: device; constant */
	struct gpumem_device *dev;
};

/* gpumem_duplicate.c */
void gpumem_duplicate_owner(struct file *file, struct gpumem_bo *bo);
struct gpumem_copy *gpumem_copy_find_locked(const struct gpumem_block *block,
					    const struct gpumem_device *dev);
void gpumem_copies_idle_locked(struct gpumem_block *block);
void gpumem_copies_busy_locked(struct gpumem_block *block);
bool gpumem_copy_victim_locked(struct gpumem_mem *mem,
			       struct gpumem_departed *left);
bool gpumem_copies_drop_locked(struct gpumem_block *block,
			       enum gpumem_departure why,
			       struct gpumem_departed *left);
bool gpumem_duplicate_sweep(struct gpumem_mem *mem);
void gpumem_duplicate_free(struct gpumem_block *block);
void gpumem_duplicate_join(struct gpumem_block *block,
			   struct gpumem_device *dev, enum gpumem_departure why);
bool gpumem_duplicate(struct gpumem_block *block, struct gpumem_device *dev,
		      enum gpumem_fetch why);
bool gpumem_duplicate_to_host(struct gpumem_block *block);
void gpumem_duplicate_unset(struct gpumem_bo *bo, unsigned long index);
void gpumem_duplicate_written(struct gpumem_backing *backing, pgoff_t page);
bool gpumem_duplicate_protects(struct gpumem_backing *backing, pgoff_t page);

#endif /* GPUMEM_DUPLICATE_H */
