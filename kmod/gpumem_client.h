/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Clients: a client is an open file of /dev/gpumemN, with its objects, streams
 * and counters.  Locks: see the fields of struct gpumem_client.
 */
#ifndef GPUMEM_CLIENT_H
#define GPUMEM_CLIENT_H

#include <linux/atomic.h>
#include <linux/gpumem.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/mmu_notifier.h>
#include <linux/mutex.h>
#include <linux/rbtree.h>
#include <linux/sched.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>

#include "gpumem_notice.h"
#include "gpumem_publish.h"
#include "gpumem_refusal.h"
#include "gpumem_runner.h"

struct cred;
struct dma_resv;
struct gpumem_cache;
struct gpumem_device;
struct gpumem_ucmd;
struct gpumem_user;
struct mm_struct;
struct page;
struct pid;

/*
 * Counters of a client.  struct gpumem_stats has fields of the same names and
 * describes them, but here @pool_reserved includes cached chunks.
 */
struct gpumem_counters {
	atomic64_t objects;
	atomic64_t bos;
	atomic64_t bo_bytes;
	atomic64_t views;
	atomic64_t view_bytes;
	atomic64_t vm_bytes;
	atomic64_t mappings;
	atomic64_t exports;
	atomic64_t export_bytes;
	atomic64_t tokens;
	atomic64_t streams;
	atomic64_t ring_bytes;
	atomic64_t jobs;
	atomic64_t copy_bytes;
	atomic64_t fill_bytes;
	atomic64_t doorbells;
	atomic64_t pins;
	atomic64_t pin_bytes;
	atomic64_t host;
	atomic64_t host_bytes;
	atomic64_t pools;
	atomic64_t pool_reserved;
	atomic64_t pool_imports;
	atomic64_t imports;
	atomic64_t import_bytes;
	atomic64_t managed;
	atomic64_t managed_resident;
	atomic64_t managed_faults;
	atomic64_t managed_evictions;
	atomic64_t managed_in;
	atomic64_t managed_out;
	atomic64_t managed_held;
	atomic64_t managed_thrash;
	atomic64_t managed_moved;
	atomic64_t managed_stayed;
	atomic64_t managed_duplicated;
	atomic64_t managed_duplications;
	atomic64_t managed_collapses;
	atomic64_t engine_ns;
};

/**
 * struct gpumem_client - one open file
 */
struct gpumem_client {
	/** @ref: the file holds one, and so does each object */
	struct kref ref;
	/** @mm: address space that opened the file; grabbed; constant */
	struct mm_struct *mm;
	/** @id: number in the table of clients; constant */
	u32 id;
	/** @pid: process that opened the file; referenced; constant */
	struct pid *pid;
	/** @cred: credentials that opened the file; referenced; constant */
	const struct cred *cred;
	/** @user: user whose budgets apply; referenced; constant */
	struct gpumem_user *user;
	/** @comm: name of the process at open(); constant */
	char comm[TASK_COMM_LEN];
	/** @clock_offset: of the time namespace at open(), ns; constant */
	s64 clock_offset;
	/** @notifier: called when @mm goes away */
	struct mmu_notifier notifier;
	/** @lock: protects growth of @devices */
	struct mutex lock;
	/** @devices: attached devices; entries below @ndevices are constant */
	struct gpumem_device *devices[GPUMEM_MAX_DEVICES];
	/**
	 * @pageable: bits of devices whose streams may name pageable memory; as
	 * @devices
	 */
	u32 pageable;
	/** @ndevices: written with release under @lock */
	unsigned int ndevices;
	/** @objects: id -> object; its own lock */
	struct xarray objects;
	/** @pin_lock: protects @pins and gpumem_pin.listed */
	struct mutex pin_lock;
	/** @pins: gpumem_pin.range of each registration */
	struct rb_root_cached pins;
	/** @stream_lock: protects @streams, @polling and @no_streams */
	spinlock_t stream_lock;
	/** @streams: all streams, those without a handle included */
	struct list_head streams;
	/** @runner: executes @streams */
	struct gpumem_runner runner;
	/**
	 * @managed_lru: gpumem_block.own of resident blocks not in use, the
	 * oldest first; gpumem_managed_lock
	 */
	struct list_head managed_lru;
	/** @lane: published fenced entries of @streams */
	struct gpumem_lane lane;
	/** @polling: streams whose current entry is a poll */
	struct list_head polling;
	/** @polls: number of streams in @polling */
	atomic_t polls;
	/** @no_streams: all streams are cancelled, and new ones refused */
	bool no_streams;
	/** @gone_lock: protects @gone and @gone_serial */
	spinlock_t gone_lock;
	/** @gone: objects that outlive their ids, by serial */
	struct rb_root gone;
	/** @gone_serial: serial of the last object in @gone */
	u64 gone_serial;
	/** @refusals: rate of the reports of refusals; gpumem_netlink.c */
	struct gpumem_rate refusals;
	/** @refusals_missed: refusals not reported; gpumem_netlink.c */
	u32 refusals_missed;
	/** @refused: last refusal, for GPUMEM_REFUSAL; gpumem_netlink.c */
	struct gpumem_refused refused;
	/** @cache_page: the client can map it; gpumem_cache.c; constant */
	struct page *cache_page;
	/** @cache_mapped: the client mapped @cache_page; only ever set */
	bool cache_mapped;
	/** @cache: the words in @cache_page, or NULL; written once */
	struct gpumem_cache *cache;
	/** @resident: residency words, or NULL; gpumem_resident.c; by cmpxchg */
	u64 *resident;
	/** @channel: the channel that the client holds, or -1; written once */
	int channel;
	/** @joint_resv: gpumem_resv.c; NULL at first, set by cmpxchg */
	struct dma_resv *joint_resv;
	/** @state: GPUMEM_CLIENT_* bits */
	unsigned long state;
	/** @end: executes gpumem_client_end() */
	struct delayed_work end;
	/** @count: counters */
	struct gpumem_counters count;
	/** @notice_wait: tasks that wait for a notice; see gpumem_notice.c */
	wait_queue_head_t notice_wait;
	/** @holdings: memory held, by ordinal of the device */
	struct gpumem_holding holdings[GPUMEM_MAX_DEVICES];
};

/* Bits of gpumem_client.state. */
#define GPUMEM_CLIENT_DEAD	0	/* ioctls and mmap() fail */
#define GPUMEM_CLIENT_ORPHANED	1	/* the process that opened it is gone */

/* gpumem_client.c */
struct gpumem_client *gpumem_client_next(unsigned long *id);
struct gpumem_client *gpumem_client_create(struct gpumem_device *dev);
void gpumem_client_orphan(struct gpumem_client *client);
void gpumem_client_flush(void);
int gpumem_client_init(void);
void gpumem_client_exit(void);
void gpumem_client_close(struct gpumem_client *client);
void gpumem_client_put(struct gpumem_client *client);
struct gpumem_device *gpumem_client_device(struct gpumem_client *client,
					   u32 index);
int gpumem_client_device_index(struct gpumem_client *client,
			       struct gpumem_device *dev);
int gpumem_ioctl_device_attach(struct gpumem_ucmd *ucmd);

#endif /* GPUMEM_CLIENT_H */
