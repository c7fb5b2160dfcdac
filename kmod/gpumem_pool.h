/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pools: what gpumem_pool.c, gpumem_cache.c and gpumem_channel.c
 * offer to the other files.
 */
#ifndef GPUMEM_POOL_H
#define GPUMEM_POOL_H

#include "gpumem_private.h"

/**
 * struct gpumem_pool - chunks, their limit and who may open them
 */
struct gpumem_pool {
	/** @obj: head; the maker's, whose counters the pool is in */
	struct gpumem_object obj;
	/** @dev: whose memory the chunks are; constant */
	struct gpumem_device *dev;
	/** @flags: enum gpumem_pool_flags; constant */
	u32 flags;
	/** @name: given by the maker; constant */
	char name[16];
	/** @chunks: number -> struct gpumem_bo that has its id; own lock */
	struct xarray chunks;
	/** @last_chunk: number given last */
	atomic64_t last_chunk;
	/** @lock: protects @figures, @pending and @peak; taken last */
	spinlock_t lock;
	/** @figures: what POOL_INFO tells; the limit is constant */
	struct gpumem_pool_figures figures;
	/** @pending: bytes of chunks that are being made */
	u64 pending;
	/** @peak: most that was ever reserved */
	u64 peak;
	/** @node: in the table of names, while @named */
	struct rhash_head node;
	/** @key: name for other clients; set once, with @named */
	u8 key[GPUMEM_TOKEN_SIZE];
	/** @channel: that an importer by @key must hold; set once, with @key */
	int channel;
	/** @scope: who may import by @key; set once, with @key */
	struct gpumem_scope scope;
	/** @name_lock: protects @named, @gone and what is set with @key */
	struct mutex name_lock;
	/** @named: @key opens; @name_lock */
	bool named;
	/** @gone: the id is, no name any more; written under @name_lock */
	bool gone;
	/** @rcu: frees the pool */
	struct rcu_head rcu;
};

/**
 * struct gpumem_pool_ref - a client's handle of an exported pool
 */
struct gpumem_pool_ref {
	/** @obj: head */
	struct gpumem_object obj;
	/** @pool: referenced; constant */
	struct gpumem_pool *pool;
};

/**
 * struct gpumem_cache_filter - which cached chunks; NULL means any
 */
struct gpumem_cache_filter {
	/** @client: whose */
	struct gpumem_client *client;
	/** @mem: in which memory */
	struct gpumem_mem *mem;
	/** @pool: of which pool */
	struct gpumem_pool *pool;
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

/* gpumem_pool.c */
int gpumem_pool_init(void);
void gpumem_pool_exit(void);
struct gpumem_pool *gpumem_pool_get_own(struct gpumem_client *client, u32 id);
int gpumem_pool_claim(struct gpumem_pool *pool, struct gpumem_client *client,
		      u64 length);
void gpumem_pool_unclaim(struct gpumem_pool *pool, u64 length);
void gpumem_pool_charge(struct gpumem_pool *pool, u64 length,
			struct gpumem_charge *charge);
void gpumem_pool_forget_locked(struct gpumem_charge *charge);
void gpumem_pool_uncharge(struct gpumem_charge *charge);
void gpumem_pool_figures_locked(struct gpumem_pool *pool,
				struct gpumem_pool_figures *figures);
int gpumem_pool_add_chunk(struct gpumem_pool *pool, struct gpumem_bo *bo);
void gpumem_pool_remove_chunk(struct gpumem_bo *bo);
void gpumem_pool_brief(struct gpumem_pool *pool,
		       struct gpumem_object_brief *brief);
void gpumem_pool_ref_brief(struct gpumem_pool_ref *ref,
			   struct gpumem_object_brief *brief);
void gpumem_pool_handle_gone(struct gpumem_object *obj);
void gpumem_pool_release(struct gpumem_object *obj);
void gpumem_pool_ref_release(struct gpumem_object *obj);
int gpumem_ioctl_pool_create(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_pool_set(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_pool_info(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_pool_export(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_pool_import(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_pool_chunk_open(struct gpumem_ucmd *ucmd);

/* gpumem_channel.c */
int gpumem_channel_init(void);
void gpumem_channel_exit(void);
int gpumem_ioctl_channel_attach(struct gpumem_ucmd *ucmd);

#endif /* GPUMEM_POOL_H */
