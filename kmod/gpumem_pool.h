/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pools of chunks, and the channels whose holders may import a pool by name.
 *
 * Locks: pool->lock and pool->name_lock; see the fields.
 */
#ifndef GPUMEM_POOL_H
#define GPUMEM_POOL_H

#include <linux/atomic.h>
#include <linux/gpumem.h>
#include <linux/mutex.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/xarray.h>

#include "gpumem_name.h"
#include "gpumem_object.h"
#include "gpumem_scope.h"

struct gpumem_bo;
struct gpumem_charge;
struct gpumem_client;
struct gpumem_device;

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
	/** @chunks: number -> chunk whose id lives; has its own lock */
	struct xarray chunks;
	/** @last_chunk: number given last */
	atomic64_t last_chunk;
	/** @lock: for @counters, @pending and @peak; outside cache->lock */
	spinlock_t lock;
	/** @counters: reported by POOL_INFO; the limit is constant */
	struct gpumem_pool_counters counters;
	/** @pending: bytes of chunks that are being made */
	u64 pending;
	/** @peak: most that was ever reserved */
	u64 peak;
	/** @import_name: in the table of names while @named; set once */
	struct gpumem_name import_name;
	/** @channel: that an importer by name must hold; set with @import_name */
	int channel;
	/** @scope: who may import by name; set with @import_name */
	struct gpumem_scope scope;
	/** @name_lock: for @import_name, @channel, @scope, @named and @gone */
	struct mutex name_lock;
	/** @named: @import_name finds the pool; @name_lock */
	bool named;
	/** @gone: the id and the name are gone; written under @name_lock */
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

/* gpumem_pool.c */
struct gpumem_pool *gpumem_pool_get_own(struct gpumem_client *client, u32 id);
int gpumem_pool_claim(struct gpumem_pool *pool, struct gpumem_client *client,
		      u64 length);
void gpumem_pool_unclaim(struct gpumem_pool *pool, u64 length);
void gpumem_pool_charge(struct gpumem_pool *pool, u64 length,
			struct gpumem_charge *charge);
void gpumem_pool_forget_locked(struct gpumem_charge *charge);
void gpumem_pool_uncharge(struct gpumem_charge *charge);
void gpumem_pool_counters_locked(struct gpumem_pool *pool,
				 struct gpumem_pool_counters *counters);
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
