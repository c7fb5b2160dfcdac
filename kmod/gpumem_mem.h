/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memories: the tmpfs mounts from which buffer objects get their bytes, and the
 * sizes of these mounts.
 *
 * Locks: gpumem_size_lock and mem->linger_lock; see the fields.
 */
#ifndef GPUMEM_MEM_H
#define GPUMEM_MEM_H

#include <linux/atomic.h>
#include <linux/gpumem.h>
#include <linux/limits.h>
#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

struct device_attribute;
struct file;
struct shrinker;
struct vfsmount;

/* Most bytes of memory that a device can have. */
#define GPUMEM_SIZE_MAX		(LLONG_MAX / GPUMEM_MAX_DEVICES)

/**
 * enum gpumem_rank - when a device evicts a block that is not in use
 * @GPUMEM_RANK_FIRST: the block prefers another location
 * @GPUMEM_RANK_OLDEST: no preference: the least recently used blocks first
 * @GPUMEM_RANK_LAST: the block prefers the device
 * @GPUMEM_RANKS: number of ranks
 */
enum gpumem_rank {
	GPUMEM_RANK_FIRST,
	GPUMEM_RANK_OLDEST,
	GPUMEM_RANK_LAST,
	GPUMEM_RANKS,
};

/**
 * struct gpumem_mem - where buffer objects get their memory: a tmpfs mount
 */
struct gpumem_mem {
	/** @size: bytes; written under gpumem_size_lock; see gpumem_size() */
	u64 size;
	/** @mount_size: bytes that @mnt may hold, at least @size; as @size */
	u64 mount_size;
	/** @node: NUMA node or NUMA_NO_NODE */
	int node;
	/** @mnt: holds the memory and is its budget */
	struct vfsmount *mnt;
	/** @layout: empty file of @mnt; its operations place mappings */
	struct file *layout;
	/** @managed: bytes in resident managed blocks; gpumem_managed_lock */
	u64 managed;
	/**
	 * @managed_lru: resident blocks not in use, by enum gpumem_rank, the
	 * oldest first; same lock
	 */
	struct list_head managed_lru[GPUMEM_RANKS];
	/**
	 * @managed_copies: gpumem_copy.lru of duplicated blocks not in use, the
	 * oldest first; same lock
	 */
	struct list_head managed_copies;
	/** @managed_duplicated: bytes in copies, part of @managed; same lock */
	u64 managed_duplicated;
	/** @managed_idle: bytes in both lists; same lock; read without it */
	u64 managed_idle;
	/** @managed_evicted: bytes evicted to make room, ever; same lock */
	u64 managed_evicted;
	/** @managed_over: blocks that were in use had to be evicted; read unlocked */
	bool managed_over;
	/** @managed_wanted: pages that the shrinker wants evicted */
	atomic_long_t managed_wanted;
	/** @managed_relief: evicts them */
	struct work_struct managed_relief;
	/** @managed_shrinker: queues @managed_relief; NULL while there is none */
	struct shrinker *managed_shrinker;
	/** @orphaned: bytes that only mappings keep */
	atomic64_t orphaned;
	/** @lingering: bytes of files whose free is deferred */
	atomic64_t lingering;
	/** @linger_lock: protects @linger and the counters below */
	spinlock_t linger_lock;
	/** @linger: files whose free is deferred and that no task checks now */
	struct list_head linger;
	/** @nlinger: files whose free is deferred; read without lock */
	unsigned long nlinger;
	/** @nlooks: those of them that tasks check now; read without lock */
	unsigned int nlooks;
	/** @nunheld: deferred frees that were done so far; read without lock */
	unsigned long nunheld;
	/** @linger_retries: how often @linger_retry was queued */
	unsigned int linger_retries;
	/** @linger_pressed: 1 if the shrinker queued @linger_retry; by xchg() */
	unsigned int linger_pressed;
	/** @linger_retry: checks some files of @linger */
	struct delayed_work linger_retry;
	/** @linger_wait: allocations that wait until @nlooks is 0 */
	wait_queue_head_t linger_wait;
	/** @linger_shrinker: queues @linger_retry; constant */
	struct shrinker *linger_shrinker;
};

/* gpumem_size.c */
extern struct device_attribute dev_attr_size;
void gpumem_size_init(void);
u64 gpumem_size(struct gpumem_mem *mem);
int gpumem_size_parse(const char *text, u64 *bytes);
int gpumem_size_enforce(struct gpumem_mem *mem);

/* gpumem_hotplug.c */
int gpumem_hotplug_init(void);
void gpumem_hotplug_exit(void);

#endif /* GPUMEM_MEM_H */
