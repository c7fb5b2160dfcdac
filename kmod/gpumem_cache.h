/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Cached chunks: empty chunks of pools that a client keeps for reuse, and whose
 * memory the kernel may take.  The head of gpumem_cache.c says how.
 */
#ifndef GPUMEM_CACHE_H
#define GPUMEM_CACHE_H

#include <linux/types.h>

struct dmem_cgroup_pool_state;
struct gpumem_bo;
struct gpumem_client;
struct gpumem_mem;
struct gpumem_pool;
struct vm_area_struct;

/**
 * enum gpumem_cached - how far the kernel is with taking a cached chunk
 * @GPUMEM_CACHED_NO: not begun; the word says whether the chunk is cached
 * @GPUMEM_CACHED_TAKING: the kernel has claimed the chunk, and counts it as
 *	cached until the claim ends
 * @GPUMEM_CACHED_TAKEN: the claim has ended; the memory is discarded, unless a
 *	window or a pin reached it
 */
enum gpumem_cached {
	GPUMEM_CACHED_NO,
	GPUMEM_CACHED_TAKING,
	GPUMEM_CACHED_TAKEN,
};

/**
 * struct gpumem_cache_filter - which cached chunks; NULL means any
 */
struct gpumem_cache_filter {
	/** @client: client that made them */
	struct gpumem_client *client;
	/** @mem: memory that they are in */
	struct gpumem_mem *mem;
	/** @pool: pool that they belong to */
	struct gpumem_pool *pool;
	/** @dmem: they are charged to this dmem cgroup, or below it */
	struct dmem_cgroup_pool_state *dmem;
};

/* gpumem_cache.c */
int gpumem_cache_init(void);
void gpumem_cache_exit(void);
void gpumem_cache_exit_items(void);
int gpumem_cache_open(struct gpumem_client *client);
int gpumem_cache_mmap(struct gpumem_client *client, struct vm_area_struct *vma);
void gpumem_cache_free(struct gpumem_client *client);
int gpumem_cache_prepare(struct gpumem_bo *bo);
void gpumem_cache_forget(struct gpumem_bo *bo);
void gpumem_cache_add(struct gpumem_bo *bo);
void gpumem_cache_remove(struct gpumem_bo *bo);
u64 gpumem_cache_bytes(struct gpumem_client *client,
		       const struct gpumem_cache_filter *f);
u64 gpumem_cache_total(struct gpumem_mem *mem);
u64 gpumem_cache_take(const struct gpumem_cache_filter *f, u64 want);

#endif /* GPUMEM_CACHE_H */
