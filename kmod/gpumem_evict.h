/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Eviction: how blocks of managed memory stop being resident on a device, and
 * which blocks do so when memory is short.  Offered by gpumem_evict.c.
 *
 * Lock: gpumem_managed_lock (gpumem_managed.h).
 */
#ifndef GPUMEM_EVICT_H
#define GPUMEM_EVICT_H

#include <linux/types.h>

struct file;
struct gpumem_block;
struct gpumem_client;
struct gpumem_device;
struct gpumem_mem;

/* How often an allocation evicts blocks because memory is short. */
#define GPUMEM_RELIEF_TRIES	8

/**
 * enum gpumem_departure - why a block stops being resident on a device
 * @GPUMEM_DEPARTURE_EVICTED: the device makes room
 * @GPUMEM_DEPARTURE_MOVED: to the host by a prefetch, or to another device
 * @GPUMEM_DEPARTURE_FREED: its buffer object is freed
 * @GPUMEM_DEPARTURE_WRITTEN: another processor wrote it, or its advice says no
 *	longer that it is mostly read
 */
enum gpumem_departure {
	GPUMEM_DEPARTURE_EVICTED,
	GPUMEM_DEPARTURE_MOVED,
	GPUMEM_DEPARTURE_FREED,
	GPUMEM_DEPARTURE_WRITTEN,
};

/**
 * struct gpumem_departed - what is left to do for a block that was resident
 */
struct gpumem_departed {
	/** @client: client of the block; referenced */
	struct gpumem_client *client;
	/** @dev: where the block was resident */
	struct gpumem_device *dev;
	/** @block: that was resident; only under gpumem_managed_lock; or NULL */
	struct gpumem_block *block;
	/** @bytes: of the block */
	u64 bytes;
	/** @file: file to let go, referenced, or NULL if the block stays held */
	struct file *file;
	/** @first: first page to let go */
	pgoff_t first;
	/** @end: page behind the last one */
	pgoff_t end;
	/** @node: memory node to move the pages to before, or NUMA_NO_NODE */
	int node;
	/** @spare: see gpumem_move_pages() */
	struct folio **spare;
};

/* gpumem_evict.c */
void gpumem_block_idle_locked(struct gpumem_block *block);
void gpumem_block_busy_locked(struct gpumem_block *block);
void gpumem_block_depart_locked(struct gpumem_block *block,
				enum gpumem_departure why,
				struct gpumem_departed *left);
void gpumem_departed_finish(struct gpumem_departed *left);
bool gpumem_managed_victim_locked(struct gpumem_mem *mem,
				  struct gpumem_departed *left);
bool gpumem_managed_fits_locked(struct gpumem_mem *mem, u64 used, u64 bytes);
void gpumem_managed_trim(struct gpumem_device *dev);
void gpumem_managed_trim_late(struct gpumem_device *dev);
bool gpumem_managed_relieve(struct gpumem_client *client, u64 bytes);
int gpumem_managed_mount(struct gpumem_mem *mem);
void gpumem_managed_unmount(struct gpumem_mem *mem);

#endif /* GPUMEM_EVICT_H */
