/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Objects: the head of everything that has an id, and an object's description
 * for other processes.  The functions are in gpumem_client.c, which has the
 * table of ids.
 */
#ifndef GPUMEM_OBJECT_H
#define GPUMEM_OBJECT_H

#include <linux/atomic.h>
#include <linux/kref.h>
#include <linux/rbtree.h>
#include <linux/types.h>

struct gpumem_client;
struct gpumem_device;
struct gpumem_ucmd;

/* Types of objects with an id; GPUMEM_OBJ_BO is struct gpumem_bo, and so on. */
enum gpumem_objtype {
	GPUMEM_OBJ_BO,
	GPUMEM_OBJ_TOKEN,
	GPUMEM_OBJ_VM,
	GPUMEM_OBJ_STREAM,
	GPUMEM_OBJ_TIMELINE,
	GPUMEM_OBJ_TIMELINE_REF,
	GPUMEM_OBJ_EVENT,
	GPUMEM_OBJ_POOL,
	GPUMEM_OBJ_POOL_REF,
	GPUMEM_OBJ_TYPES,
};

/**
 * struct gpumem_object - head of everything that has an id
 */
struct gpumem_object {
	/** @ref: the id holds one, and each user of the object holds one */
	struct kref ref;
	/** @type: constant */
	enum gpumem_objtype type;
	/** @keeps_id: the id is free only after handle_gone; set once */
	bool keeps_id;
	/** @id: 0 without an id; constant after gpumem_object_reserve() */
	u32 id;
	/** @client: client that counts the object; referenced; constant */
	struct gpumem_client *client;
	/** @gone: in client->gone, if @serial is set; client->gone_lock */
	struct rb_node gone;
	/** @serial: place in client->gone, or 0; set once, when the id ends */
	u64 serial;
};

/**
 * struct gpumem_object_ops - what differs between types
 */
struct gpumem_object_ops {
	/** @handle_gone: the id was destroyed; the object may live on; optional */
	void (*handle_gone)(struct gpumem_object *obj);
	/** @release: the last reference is gone; frees the object */
	void (*release)(struct gpumem_object *obj);
};

/**
 * struct gpumem_pool_counters - counters of a pool
 */
struct gpumem_pool_counters {
	/** @limit: bytes that chunks may have, or 0 */
	u64 limit;
	/** @reserved: bytes in chunks; in reports, without @cached */
	u64 reserved;
	/** @cached: of these, in cached chunks; set in reports only */
	u64 cached;
	/** @reserved_high: maximum of @reserved since the last reset */
	u64 reserved_high;
	/** @used: bytes in use, as the maker stated; at most @reserved */
	u64 used;
	/** @used_high: maximum of @used, as the maker stated */
	u64 used_high;
	/** @chunks: number of chunks that have memory */
	u64 chunks;
	/** @imports: number of imports by all clients */
	u64 imports;
};

/**
 * struct gpumem_managed_stats - counters of a managed buffer object
 */
struct gpumem_managed_stats {
	/** @resident: bytes in resident blocks */
	u64 resident;
	/** @faults: as managed_faults of struct gpumem_counters */
	u64 faults;
	/** @evictions: as managed_evictions */
	u64 evictions;
	/** @thrash: as managed_thrash */
	u64 thrash;
	/** @moved_in: as managed_in */
	u64 moved_in;
	/** @moved_out: as managed_out */
	u64 moved_out;
};

/**
 * struct gpumem_object_brief - an object's description for other processes
 */
struct gpumem_object_brief {
	/** @id: id, also after it was destroyed; 0 if it never had one */
	u32 id;
	/** @type: enum gpumem_objtype */
	u32 type;
	/** @flags: enum gpumem_object_flag */
	u32 flags;
	/** @kind: enum gpumem_bo_kind, or 0 */
	u32 kind;
	/** @dev: has the object's memory or executes the stream; or NULL */
	struct gpumem_device *dev;
	/** @length: bytes */
	u64 length;
	/** @name: may be empty */
	char name[16];
	/** @pool_id: of a chunk: id of its pool, if that id lives; or 0 */
	u32 pool_id;
	/** @pool: of a pool: its counters */
	struct gpumem_pool_counters pool;
	/** @managed: of managed memory: its counters */
	struct gpumem_managed_stats managed;
};

/* gpumem_client.c */
extern atomic_t gpumem_generation;
bool gpumem_object_next(struct gpumem_client *client, u64 *pos,
			struct gpumem_object_brief *brief);
void gpumem_object_init(struct gpumem_object *obj, struct gpumem_client *client,
			enum gpumem_objtype type);
int gpumem_object_reserve(struct gpumem_ucmd *ucmd, struct gpumem_object *obj);
void gpumem_object_finalize(struct gpumem_object *obj);
void gpumem_object_abort(struct gpumem_object *obj);
struct gpumem_object *gpumem_object_get(struct gpumem_client *client, u32 id,
					enum gpumem_objtype type);
struct gpumem_object *gpumem_object_get_any(struct gpumem_client *client,
					    u32 id);
void gpumem_object_put(struct gpumem_object *obj);
void gpumem_object_handle_gone(struct gpumem_object *obj);
int gpumem_ioctl_destroy(struct gpumem_ucmd *ucmd);

#endif /* GPUMEM_OBJECT_H */
