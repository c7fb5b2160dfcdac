/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Types and functions shared by the files of gpumem.ko.
 *
 * Lock order, outer to inner.  A line is a lock of ours, or one of the kernel's
 * in square brackets; Documentation/locking.rst has the same lines and says more:
 *
 *	runner->grow			mutex: the creation of workers
 *	gpumem_size_lock		mutex: sizes of memories
 *	[mmap_lock]			.mmap only: a lookup and nothing more
 *	client->lock			mutex: attached devices
 *	gpumem_users_lock		mutex: users' budgets; none inside
 *	vm->change			mutex: who changes an address space
 *	client->pin_lock		mutex: registered ranges
 *	token_set->lock			mutex: tokens of a root
 *	pool->name_lock			mutex: token of a pool
 *	bo->lock			mutex: windows of a root
 *	[dma_resv]			of a root's DMA-bufs
 *	dmabuf->lock			mutex: attachments that are mapped
 *	gpumem_drain_lock		mutex: who drains all CPUs; by trylock
 *	[fs_reclaim]			then i_mmap, mmu_notifier
 *	[dma_fence]			waiting for one, or signalling it
 *	vm->lock			rwsem: the mappings of an address space
 *	[folio lock]
 *	client->stream_lock		spin: lists of streams
 *	client->gone_lock		spin: objects that outlive their ids
 *	mem->linger_lock		spin: files that linger
 *	pool->lock			spin: figures of a pool
 *	cache->lock			spin: words of a client's chunks
 *	device->budget_lock		spin: who holds a device's memory
 *	point->lock			spin: what an event stands for
 *	gpumem_nl_lock			spin: rate of reports
 *	lane->lock			spin, irqsafe: what a client has published
 *	timeline->lock			spin, irqsafe: value, error, waiters
 *	runner->lock			spin, irqsafe: streams that are ready
 *	fence->lock			spin, irqsafe: the dma_fence core's
 *
 * Work that others wait for takes vm->lock, so nothing is allocated under it.
 * User copies are done with no lock held.  enum gpumem_lock_kind has the same
 * order, and gpumem_lockdep.c teaches it to lockdep.  The tables of tokens and
 * the list of cached chunks (list_lru) have locks of the kernel's inside.
 */
#ifndef GPUMEM_PRIVATE_H
#define GPUMEM_PRIVATE_H

#include <linux/atomic.h>
#include <linux/cdev.h>
#include <linux/cred.h>
#include <linux/device.h>
#include <linux/dma-fence.h>
#include <linux/fs.h>
#include <linux/hrtimer.h>
#include <linux/interval_tree.h>
#include <linux/kcov.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/maple_tree.h>
#include <linux/mm_types.h>
#include <linux/mmu_notifier.h>
#include <linux/mutex.h>
#include <linux/poll.h>
#include <linux/rbtree.h>
#include <linux/rhashtable-types.h>
#include <linux/rwsem.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <linux/gpumem.h>
#include <linux/gpumem_netlink.h>

#include "gpumem_scope.h"

#ifndef GPUMEM_VERSION
#error "GPUMEM_VERSION comes from Kbuild"
#endif

/* Workers of a client. */
#define GPUMEM_MAX_WORKERS	16

/* Bytes of memory that a device can have. */
#define GPUMEM_SIZE_MAX		(LLONG_MAX / GPUMEM_MAX_DEVICES)

/* Bytes an engine moves before it looks up, yields and checks for death again. */
#define GPUMEM_SLICE		SZ_1M
/* What a row of an entry costs at least, in bytes of a slice. */
#define GPUMEM_ROW_WEIGHT	256ULL

struct dma_buf;
struct gpumem_cache;
struct gpumem_cache_item;
struct gpumem_client;
struct gpumem_engine;
struct gpumem_foreign;
struct gpumem_pin;
struct gpumem_share;
struct gpumem_shared_root;
struct gpumem_pool;
struct gpumem_token_set;
struct gpumem_user;
struct vhost_task;

/**
 * enum gpumem_lock_kind - kinds of locks, one lockdep class each, outer to inner
 * @GPUMEM_LOCK_RUNNER_GROW: runner->grow
 * @GPUMEM_LOCK_SIZE: gpumem_size_lock
 * @GPUMEM_LOCK_CLIENT: client->lock
 * @GPUMEM_LOCK_USERS: gpumem_users_lock
 * @GPUMEM_LOCK_VM_CHANGE: vm->change
 * @GPUMEM_LOCK_PIN: client->pin_lock
 * @GPUMEM_LOCK_TOKEN: token_set->lock
 * @GPUMEM_LOCK_POOL_NAME: pool->name_lock
 * @GPUMEM_LOCK_BO: bo->lock
 * @GPUMEM_LOCK_DMABUF: dmabuf->lock
 * @GPUMEM_LOCK_DRAIN: gpumem_drain_lock
 * @GPUMEM_LOCK_VM: vm->lock
 * @GPUMEM_LOCK_STREAM: client->stream_lock
 * @GPUMEM_LOCK_GONE: client->gone_lock
 * @GPUMEM_LOCK_LINGER: mem->linger_lock
 * @GPUMEM_LOCK_POOL: pool->lock
 * @GPUMEM_LOCK_CACHE: cache->lock
 * @GPUMEM_LOCK_BUDGET: device->budget_lock
 * @GPUMEM_LOCK_POINT: point->lock
 * @GPUMEM_LOCK_NETLINK: gpumem_nl_lock
 * @GPUMEM_LOCK_LANE: lane->lock
 * @GPUMEM_LOCK_TIMELINE: timeline->lock
 * @GPUMEM_LOCK_RUNNER: runner->lock
 * @GPUMEM_LOCK_FENCE: fence->lock
 * @GPUMEM_LOCKS: number of kinds
 */
enum gpumem_lock_kind {
	GPUMEM_LOCK_RUNNER_GROW,
	GPUMEM_LOCK_SIZE,
	GPUMEM_LOCK_CLIENT,
	GPUMEM_LOCK_USERS,
	GPUMEM_LOCK_VM_CHANGE,
	GPUMEM_LOCK_PIN,
	GPUMEM_LOCK_TOKEN,
	GPUMEM_LOCK_POOL_NAME,
	GPUMEM_LOCK_BO,
	GPUMEM_LOCK_DMABUF,
	GPUMEM_LOCK_DRAIN,
	GPUMEM_LOCK_VM,
	GPUMEM_LOCK_STREAM,
	GPUMEM_LOCK_GONE,
	GPUMEM_LOCK_LINGER,
	GPUMEM_LOCK_POOL,
	GPUMEM_LOCK_CACHE,
	GPUMEM_LOCK_BUDGET,
	GPUMEM_LOCK_POINT,
	GPUMEM_LOCK_NETLINK,
	GPUMEM_LOCK_LANE,
	GPUMEM_LOCK_TIMELINE,
	GPUMEM_LOCK_RUNNER,
	GPUMEM_LOCK_FENCE,
	GPUMEM_LOCKS,
};

#ifdef CONFIG_PROVE_LOCKING
extern struct lock_class_key gpumem_lock_keys[GPUMEM_LOCKS];
extern const char * const gpumem_lock_names[GPUMEM_LOCKS];
int gpumem_lockdep_prime(void);
void gpumem_lockdep_release_begin(void);
void gpumem_lockdep_release_end(void);
#define gpumem_lockdep_class(lock, kind) \
	lockdep_set_class_and_name(lock, &gpumem_lock_keys[kind],	\
				   gpumem_lock_names[kind])
#else
static inline int gpumem_lockdep_prime(void)
{
	return 0;
}

static inline void gpumem_lockdep_release_begin(void)
{
}

static inline void gpumem_lockdep_release_end(void)
{
}

#define gpumem_lockdep_class(lock, kind) ((void)(lock), (void)(kind))
#endif

/**
 * enum gpumem_objtype - types of objects with an id
 * @GPUMEM_OBJ_BO: struct gpumem_bo
 * @GPUMEM_OBJ_TOKEN: struct gpumem_token
 * @GPUMEM_OBJ_VM: struct gpumem_vm
 * @GPUMEM_OBJ_STREAM: struct gpumem_stream
 * @GPUMEM_OBJ_TIMELINE: struct gpumem_timeline
 * @GPUMEM_OBJ_TIMELINE_REF: struct gpumem_timeline_ref
 * @GPUMEM_OBJ_EVENT: struct gpumem_event
 * @GPUMEM_OBJ_POOL: struct gpumem_pool
 * @GPUMEM_OBJ_POOL_REF: struct gpumem_pool_ref
 * @GPUMEM_OBJ_TYPES: number of types
 */
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
	/** @ref: the id holds one, so does everything that uses the object */
	struct kref ref;
	/** @type: constant */
	enum gpumem_objtype type;
	/** @id: 0 before reserve and for objects without a handle; constant then */
	u32 id;
	/** @client: whose counters it is in; referenced; constant */
	struct gpumem_client *client;
	/** @gone: in client->gone, if @serial is set; client->gone_lock */
	struct rb_node gone;
	/** @serial: place in client->gone, or 0; written once, with the id's end */
	u64 serial;
};

/**
 * struct gpumem_pool_figures - what there is to tell of a pool
 */
struct gpumem_pool_figures {
	/** @limit: bytes that chunks may have, or 0 */
	u64 limit;
	/** @reserved: bytes in chunks; where it is told, less @cached */
	u64 reserved;
	/** @cached: of these, in cached chunks; only where it is told */
	u64 cached;
	/** @reserved_high: most since the last reset */
	u64 reserved_high;
	/** @used: as the maker says, at most @reserved */
	u64 used;
	/** @used_high: as the maker says */
	u64 used_high;
	/** @chunks: whose memory is not given back */
	u64 chunks;
	/** @imports: of all clients */
	u64 imports;
};

/**
 * struct gpumem_object_brief - what others are told of an object
 */
struct gpumem_object_brief {
	/** @id: also after its end; or 0 */
	u32 id;
	/** @type: enum gpumem_objtype */
	u32 type;
	/** @flags: enum gpumem_object_flag */
	u32 flags;
	/** @kind: enum gpumem_bo_kind, or 0 */
	u32 kind;
	/** @dev: whose memory it is or that executes it, or NULL */
	struct gpumem_device *dev;
	/** @length: bytes */
	u64 length;
	/** @name: may be empty */
	char name[16];
	/** @pool_id: of a chunk's pool, if that still has one; or 0 */
	u32 pool_id;
	/** @pool: of a pool */
	struct gpumem_pool_figures pool;
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
 * struct gpumem_charge - whose limits memory counts against; constant
 */
struct gpumem_charge {
	/** @mm: whose pinned_vm counts; grabbed; NULL if nothing is pinned */
	struct mm_struct *mm;
	/** @user: whose budget counts; referenced */
	struct gpumem_user *user;
	/** @pages: how many */
	u64 pages;
	/** @pool: whose chunk they are, referenced, or NULL */
	struct gpumem_pool *pool;
	/** @pool_bytes: what counts as reserved in @pool */
	u64 pool_bytes;
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
	/** @layout: empty file of @mnt, asked for placement in address spaces */
	struct file *layout;
	/** @orphaned: bytes that only mappings keep */
	atomic64_t orphaned;
	/** @lingering: bytes that only others' references keep */
	atomic64_t lingering;
	/** @linger_lock: protects what follows, but for the work and shrinker */
	spinlock_t linger_lock;
	/** @linger: gpumem_backing.link of lingering files not looked at now */
	struct list_head linger;
	/** @nlinger: lingering files; read without lock as a hint */
	unsigned long nlinger;
	/** @nlooks: of these, those looked at now; as @nlinger */
	unsigned int nlooks;
	/** @nunheld: files that lingered and were freed since; as @nlinger */
	unsigned long nunheld;
	/** @linger_retries: how often @linger_retry was queued */
	unsigned int linger_retries;
	/** @linger_pressed: 1 if the shrinker queued @linger_retry; by xchg() */
	unsigned int linger_pressed;
	/** @linger_retry: looks at some of @linger */
	struct delayed_work linger_retry;
	/** @linger_wait: those who wait for the looks of others */
	wait_queue_head_t linger_wait;
	/** @linger_shrinker: has @linger_retry run; constant */
	struct shrinker *linger_shrinker;
};

/**
 * struct gpumem_device - one /dev/gpumemN
 *
 * Lives from module init to module exit; everything that uses it pins the
 * module.
 */
struct gpumem_device {
	/** @dev: in class gpumem; its release frees this structure */
	struct device dev;
	/** @cdev: the node */
	struct cdev cdev;
	/** @ordinal: N */
	unsigned int ordinal;
	/** @uuid: identity, the same after a reload on the same machine */
	u8 uuid[16];
	/** @mem: the device's memory */
	struct gpumem_mem mem;
	/** @engine: executes the streams of this device */
	struct gpumem_engine *engine;
	/** @clients: open files */
	atomic_t clients;
	/** @bos: buffer objects that own memory */
	atomic_t bos;
	/** @exports: DMA-bufs */
	atomic_t exports;
	/** @views: buffer objects that are windows of others */
	atomic_t views;
	/** @pools: pools of chunks of this device, until nobody reaches them */
	atomic_t pools;
	/** @imports: DMA-bufs of other drivers */
	atomic_t imports;
	/** @pinned: bytes of registrations of clients that opened this device */
	atomic64_t pinned;
	/** @budget_lock: protects what follows, and the holdings of it */
	spinlock_t budget_lock;
	/** @holders: gpumem_holding.link of clients that hold memory of it */
	struct list_head holders;
	/** @nholders: how many */
	unsigned int nholders;
	/** @budget: bytes that are a client's share, or 0: the same for all */
	u64 budget;
};

/**
 * struct gpumem_holding - what a client holds of one device's memory
 *
 * All of it is protected by gpumem_device.budget_lock.
 */
struct gpumem_holding {
	/** @client: whose it is, once it was in the list */
	struct gpumem_client *client;
	/** @link: in gpumem_device.holders while @bytes is not 0 */
	struct list_head link;
	/** @bytes: in buffer objects; these keep @client */
	u64 bytes;
	/** @excess: what the client has not been told yet; read without lock */
	u64 excess;
	/** @over: the client has more than its share, and was told so */
	bool over;
};

/**
 * struct gpumem_counters - what a client has and did; see struct gpumem_stats
 */
struct gpumem_counters {
	/** @objects: ids in use */
	atomic64_t objects;
	/** @bos: buffer objects that own memory */
	atomic64_t bos;
	/** @bo_bytes: bytes in them */
	atomic64_t bo_bytes;
	/** @views: windows */
	atomic64_t views;
	/** @view_bytes: bytes in them */
	atomic64_t view_bytes;
	/** @vm_bytes: bytes mapped in address spaces */
	atomic64_t vm_bytes;
	/** @mappings: in address spaces */
	atomic64_t mappings;
	/** @exports: DMA-bufs */
	atomic64_t exports;
	/** @export_bytes: bytes in them */
	atomic64_t export_bytes;
	/** @tokens: tokens that open */
	atomic64_t tokens;
	/** @streams: streams */
	atomic64_t streams;
	/** @jobs: ring entries completed without error */
	atomic64_t jobs;
	/** @copy_bytes: bytes written by copies */
	atomic64_t copy_bytes;
	/** @fill_bytes: bytes written by fills */
	atomic64_t fill_bytes;
	/** @doorbells: doorbell calls */
	atomic64_t doorbells;
	/** @pins: registrations */
	atomic64_t pins;
	/** @pin_bytes: bytes in them */
	atomic64_t pin_bytes;
	/** @host: buffer objects in system memory */
	atomic64_t host;
	/** @host_bytes: bytes in them */
	atomic64_t host_bytes;
	/** @pools: pools, those that outlive their ids included */
	atomic64_t pools;
	/** @pool_reserved: bytes in their chunks */
	atomic64_t pool_reserved;
	/** @pool_imports: imports of pools */
	atomic64_t pool_imports;
	/** @imports: DMA-bufs of other drivers */
	atomic64_t imports;
	/** @import_bytes: bytes in them */
	atomic64_t import_bytes;
};

/**
 * struct gpumem_refused - a client's last refusal, for the thread that was refused
 */
struct gpumem_refused {
	/** @pid: of the thread, or 0: there is none */
	pid_t pid;
	/** @info: what GPUMEM_REFUSAL tells; its size is not used */
	struct gpumem_refusal_info info;
};

/**
 * struct gpumem_rate - how many of something there were lately
 */
struct gpumem_rate {
	/** @begin: of the second that is counted, jiffies */
	unsigned long begin;
	/** @count: in it */
	unsigned int count;
};

/**
 * struct gpumem_worker - a thread that executes a client's streams
 */
struct gpumem_worker {
	/** @client: whose streams; referenced; constant */
	struct gpumem_client *client;
	/** @vhost: the thread, for those that may wait for it; constant */
	struct vhost_task *vhost;
	/** @task: the thread; set by itself, before it is in runner->idle */
	struct task_struct *task;
	/** @idle: in runner->idle while it sleeps; runner->lock */
	struct list_head idle;
	/** @ending: @end is queued; runner->lock */
	bool ending;
	/** @end: waits for the thread and frees the worker */
	struct work_struct end;
};

/**
 * struct gpumem_runner - the workers that execute a client's streams
 */
struct gpumem_runner {
	/** @grow: serializes the creation of workers */
	struct mutex grow;
	/** @lock: protects the lists, @ending, gpumem_stream.run and .ready */
	spinlock_t lock;
	/** @ready: streams of high, and of no, priority */
	struct list_head ready[2];
	/** @idle: struct gpumem_worker without work, the last one first */
	struct list_head idle;
	/** @done: callers that wait until a stream stops running */
	wait_queue_head_t done;
	/** @nworkers: workers made so far; written under @grow */
	unsigned int nworkers;
	/** @ending: the workers are to end; @lock */
	bool ending;
};

/**
 * struct gpumem_lane - what a client has published; see gpumem_publish.c
 */
struct gpumem_lane {
	/** @lock: protects what follows */
	spinlock_t lock;
	/** @published: bytes of the portions that are published */
	u64 published;
	/** @unsettled: portions that kernel workers helped and nobody paid for */
	unsigned int unsettled;
	/** @waiting: gpumem_share.waits of portions that do not fit yet */
	struct list_head waiting;
	/** @turn: whose late work is queued or runs, or NULL */
	struct gpumem_share *turn;
	/** @late: gpumem_share.line of those whose turn comes later */
	struct list_head late;
	/** @paid_at: when the next portion may be published, ns */
	u64 paid_at;
	/** @own: CPU time the process got lately while it published, ns */
	u64 own;
	/** @wall: time in which it got that, ns */
	u64 wall;
};

/**
 * struct gpumem_client - one open file
 */
struct gpumem_client {
	/** @ref: the file holds one, so does each object */
	struct kref ref;
	/** @mm: address space that opened the file; grabbed; constant */
	struct mm_struct *mm;
	/** @id: name in the table of clients; constant */
	u32 id;
	/** @pid: process that opened the file; referenced; constant */
	struct pid *pid;
	/** @cred: its credentials then; referenced; constant */
	const struct cred *cred;
	/** @user: whose budgets bind it; referenced; constant */
	struct gpumem_user *user;
	/** @comm: its name then; constant */
	char comm[TASK_COMM_LEN];
	/** @clock_offset: its time namespace's then, ns; constant */
	s64 clock_offset;
	/** @notifier: tells when @mm goes away */
	struct mmu_notifier notifier;
	/** @lock: protects growth of @devices */
	struct mutex lock;
	/** @devices: attached devices; entries below @ndevices are constant */
	struct gpumem_device *devices[GPUMEM_MAX_DEVICES];
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
	/** @lane: what its streams have published */
	struct gpumem_lane lane;
	/** @polling: those whose entry is a poll */
	struct list_head polling;
	/** @polls: how many these are */
	atomic_t polls;
	/** @no_streams: all streams are cancelled, and new ones refused */
	bool no_streams;
	/** @gone_lock: protects @gone and @gone_serial */
	spinlock_t gone_lock;
	/** @gone: objects that outlive their ids, by serial */
	struct rb_root gone;
	/** @gone_serial: of the last one */
	u64 gone_serial;
	/** @refusals: reported lately; in gpumem_netlink.c */
	struct gpumem_rate refusals;
	/** @refusals_missed: not reported; in gpumem_netlink.c */
	u32 refusals_missed;
	/** @refused: the last refusal, for GPUMEM_REFUSAL; in gpumem_netlink.c */
	struct gpumem_refused refused;
	/** @cache_page: in gpumem_cache.c; constant */
	struct page *cache_page;
	/** @cache_mapped: it mapped @cache_page; only ever set */
	bool cache_mapped;
	/** @cache: the words in @cache_page, or NULL; written once */
	struct gpumem_cache *cache;
	/** @channel: that it holds, or -1; written once */
	int channel;
	/** @state: GPUMEM_CLIENT_* bits */
	unsigned long state;
	/** @end: does what is due for a dead or orphaned client */
	struct delayed_work end;
	/** @count: counters */
	struct gpumem_counters count;
	/** @told: who waits to be told something; see gpumem_budget.c */
	wait_queue_head_t told;
	/** @holdings: by the device's ordinal */
	struct gpumem_holding holdings[GPUMEM_MAX_DEVICES];
};

/* Bits of gpumem_client.state. */
#define GPUMEM_CLIENT_DEAD	0	/* no ioctl can come any more */
#define GPUMEM_CLIENT_ORPHANED	1	/* the process that opened it is gone */

/**
 * enum gpumem_cached - how far the kernel is with taking a cached chunk
 * @GPUMEM_CACHED_NO: nowhere; the word says whether it may
 * @GPUMEM_CACHED_TAKING: it is about to discard the memory
 * @GPUMEM_CACHED_TAKEN: it is done
 */
enum gpumem_cached {
	GPUMEM_CACHED_NO,
	GPUMEM_CACHED_TAKING,
	GPUMEM_CACHED_TAKEN,
};

/**
 * enum gpumem_discard - what became of a chunk that was to be discarded
 * @GPUMEM_DISCARD_DONE: its memory was given back
 * @GPUMEM_DISCARD_REACHED: others reach it: everything is as it was
 * @GPUMEM_DISCARD_BUSY: the lock was held: everything is as it was
 */
enum gpumem_discard {
	GPUMEM_DISCARD_DONE,
	GPUMEM_DISCARD_REACHED,
	GPUMEM_DISCARD_BUSY,
};

/**
 * struct gpumem_bo - a buffer object: a tmpfs file, or a window of one
 */
struct gpumem_bo {
	/** @obj: head */
	struct gpumem_object obj;
	/** @dev: whose memory it is; constant */
	struct gpumem_device *dev;
	/** @file: the memory; a view's is its window's; NULL for some kinds */
	struct file *file;
	/** @pin: the registration that this is part of, or NULL; constant */
	struct gpumem_pin *pin;
	/** @foreign: the DMA-buf of another driver that this is, or NULL */
	struct gpumem_foreign *foreign;
	/** @window: of a view, or NULL; constant */
	struct gpumem_window *window;
	/** @kind: enum gpumem_bo_kind; constant */
	u32 kind;
	/** @root: bo whose window this is, referenced, or NULL; constant */
	struct gpumem_bo *root;
	/** @base: first byte in @file, or behind the first pinned page's start */
	u64 base;
	/** @length: bytes; constant */
	u64 length;
	/** @huge: bytes in folios of PMD size; constant */
	u64 huge;
	/** @pool: whose chunk this is, referenced, or NULL; constant */
	struct gpumem_pool *pool;
	/** @chunk: number in @pool, or 0; constant once it has one */
	u64 chunk;
	/** @word: in the cache page, or 0; of its id */
	unsigned int word;
	/** @cached: enum gpumem_cached; lock of the cache page */
	u8 cached;
	/** @item: for the shrinker, or NULL; constant once it has a word */
	struct gpumem_cache_item *item;
	/** @discarded: the memory was given back; @lock */
	bool discarded;
	/** @lock: protects @windows; held where @resv is made */
	struct mutex lock;
	/** @windows: roots only: struct gpumem_window by page index in @file */
	struct rb_root_cached windows;
	/** @resv: roots only: of its DMA-bufs, or NULL; constant once set */
	struct dma_resv *resv;
	/** @dmabufs: DMA-bufs that live; a foreign one is always there */
	atomic_t dmabufs;
	/** @token_set: tokens, NULL before the first; cmpxchg; gpumem_ipc.c */
	struct gpumem_token_set *token_set;
};

/**
 * struct gpumem_window - a party that reaches some pages of a root
 *
 * Belongs to a file of its own over the root's memory, and lives as long as that
 * file: a view or a DMA-buf holds it, and so does every VMA made of them.  A
 * registration has no file and cannot be mapped; its windows live as long as the
 * view or DMA-buf.
 */
struct gpumem_window {
	/** @it: first and last page index; in root->windows; root->lock */
	struct interval_tree_node it;
	/** @root: whose pages; referenced; constant */
	struct gpumem_bo *root;
	/** @file: over the pages, or NULL; constant */
	struct file *file;
};

/**
 * struct gpumem_vm - an address space
 */
struct gpumem_vm {
	/** @obj: head */
	struct gpumem_object obj;
	/** @change: held by who changes @mappings, outside @lock */
	struct mutex change;
	/** @lock: written with @change; read by workers for one slice */
	struct rw_semaphore lock;
	/** @mappings: device address -> struct gpumem_mapping; both locks */
	struct maple_tree mappings;
};

/**
 * struct gpumem_mapping - a bo at a device address; as gpumem_vm.mappings
 */
struct gpumem_mapping {
	/** @addr: first byte */
	u64 addr;
	/** @last: last byte */
	u64 last;
	/** @bo: referenced */
	struct gpumem_bo *bo;
	/** @offset: of @addr in @bo */
	u64 offset;
	/** @readers: devices that may read */
	u32 readers;
	/** @writers: devices that may write */
	u32 writers;
	/** @link: list of mappings that are being taken away */
	struct list_head link;
};

/**
 * struct gpumem_token_set - the tokens of one root
 */
struct gpumem_token_set {
	/** @ref: the root holds one, so does each token, revoked ones included */
	struct kref ref;
	/** @lock: protects @root, @tree and gpumem_token.listed */
	struct mutex lock;
	/** @root: weak: NULL when the root's id is gone, before the root goes */
	struct gpumem_bo *root;
	/** @tree: gpumem_token.it of the listed tokens */
	struct rb_root_cached tree;
};

/**
 * struct gpumem_token - a random name for a range of a root
 */
struct gpumem_token {
	/** @obj: head */
	struct gpumem_object obj;
	/** @node: in the table of tokens, while @listed */
	struct rhash_head node;
	/** @key: the name; constant */
	u8 key[GPUMEM_TOKEN_SIZE];
	/** @set: tokens of the same root; referenced; constant */
	struct gpumem_token_set *set;
	/** @it: first and last byte in the root; in set->tree, while @listed */
	struct interval_tree_node it;
	/** @listed: not revoked by itself; set->lock */
	bool listed;
	/** @offset: start in the root; constant */
	u64 offset;
	/** @length: bytes; constant */
	u64 length;
	/** @scope: who may open it */
	struct gpumem_scope scope;
	/** @rcu: frees the token */
	struct rcu_head rcu;
};

/**
 * struct gpumem_ucmd - an ioctl under way
 */
struct gpumem_ucmd {
	/** @client: caller */
	struct gpumem_client *client;
	/** @ubuffer: the caller's structure */
	void __user *ubuffer;
	/** @user_size: its length as the caller says */
	u32 user_size;
	/** @cmd: the kernel's copy */
	void *cmd;
	/** @new: reserved objects; finalized on success, aborted otherwise */
	struct gpumem_object *new[2];
};

/**
 * struct gpumem_refusal - an allocation that a limit refused
 */
struct gpumem_refusal {
	/** @limit: which */
	enum gpumem_limit limit;
	/** @dev: for which device, or NULL */
	struct gpumem_device *dev;
	/** @pool: id of the pool whose limit it is, or 0 */
	u32 pool;
	/** @asked: bytes or things */
	u64 asked;
	/** @used: counted against the limit */
	u64 used;
	/** @max: the limit, or 0 if it is not known */
	u64 max;
};

/* gpumem_drv.c */
extern const struct file_operations gpumem_fops;
bool gpumem_is_live(void);
struct gpumem_device *gpumem_device_nth(unsigned int ordinal);
int gpumem_ucmd_respond(struct gpumem_ucmd *ucmd, size_t cmd_len);

/* gpumem_client.c */
extern atomic_t gpumem_generation;
struct gpumem_client *gpumem_client_next(unsigned long *id);
bool gpumem_object_next(struct gpumem_client *client, u64 *pos,
			struct gpumem_object_brief *brief);
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
int gpumem_ioctl_device_attach(struct gpumem_ucmd *ucmd);

/* gpumem_bo.c */
struct gpumem_bo *gpumem_bo_view(struct gpumem_client *client,
				 struct gpumem_bo *root, u64 base, u64 length);
struct gpumem_bo *gpumem_bo_root(struct gpumem_bo *bo);
struct gpumem_window *gpumem_window_create(struct gpumem_bo *root, u64 base,
					   u64 length);
void gpumem_window_put(struct gpumem_window *window);
void gpumem_window_release(struct gpumem_window *window);
void gpumem_bo_init_pin(struct gpumem_bo *bo, struct gpumem_client *client,
			struct gpumem_pin *pin, u64 base, u64 length);
struct gpumem_bo *gpumem_bo_foreign(struct gpumem_client *client,
				    struct gpumem_foreign *foreign, u64 length,
				    struct dma_resv *resv);
bool gpumem_bo_is_own(struct gpumem_bo *bo);
void *gpumem_bo_map(struct gpumem_bo *bo, u64 offset, size_t *len,
		    struct folio **folio);
void gpumem_bo_unmap(struct folio *folio);
int gpumem_bo_mmap(struct gpumem_bo *bo, struct vm_area_struct *vma);
void gpumem_bo_brief(struct gpumem_bo *bo, struct gpumem_object_brief *brief);
enum gpumem_discard gpumem_bo_discard(struct gpumem_bo *bo, bool try,
				      struct gpumem_charge **charge);
void gpumem_bo_handle_gone(struct gpumem_object *obj);
void gpumem_bo_release(struct gpumem_object *obj);
int gpumem_ioctl_bo_alloc(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_bo_info(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_bo_retire(struct gpumem_ucmd *ucmd);

/* gpumem_shmem.c */
extern struct gpumem_mem gpumem_host_mem;
int gpumem_shmem_init(void);
void gpumem_shmem_exit(void);
bool gpumem_shmem_owns(const struct address_space *mapping);
int gpumem_shmem_mount(struct gpumem_mem *mem);
void gpumem_shmem_unmount(struct gpumem_mem *mem);
u64 gpumem_shmem_used(struct gpumem_mem *mem);
struct file *gpumem_shmem_create(struct gpumem_mem *mem, const char *name,
				 u64 length, u64 *huge,
				 struct gpumem_charge *charge);
bool gpumem_shmem_discard(struct file *file, struct gpumem_charge **charge);
void gpumem_shmem_destroy(struct file *file);
struct file *gpumem_shmem_window(struct file *file,
				 struct gpumem_window *window);
int gpumem_shmem_mmap(struct file *file, struct vm_area_struct *vma);
unsigned long gpumem_shmem_get_unmapped_area(struct gpumem_mem *mem,
					     unsigned long addr,
					     unsigned long len,
					     unsigned long pgoff,
					     unsigned long flags);
size_t gpumem_sound_pages(struct page *first, size_t n);
void *gpumem_shmem_map(struct file *file, u64 offset, size_t *len,
		       struct folio **folio);

/* gpumem_hotplug.c */
int gpumem_hotplug_init(void);
void gpumem_hotplug_exit(void);

/* gpumem_size.c */
extern struct device_attribute dev_attr_size;
void gpumem_size_init(void);
u64 gpumem_size(struct gpumem_mem *mem);
int gpumem_size_parse(const char *text, u64 *bytes);
int gpumem_size_enforce(struct gpumem_mem *mem);

/* gpumem_linger.c */
bool gpumem_shmem_used_elsewhere(struct address_space *mapping, u64 offset,
				 u64 length, int ours);
u64 gpumem_linger_used(struct gpumem_mem *mem);
bool gpumem_linger_make_room(struct gpumem_mem *mem);

/* gpumem_pin.c */
void gpumem_pin_unlist(struct gpumem_client *client, struct gpumem_pin *pin);
void gpumem_pin_release(struct gpumem_pin *pin);
bool gpumem_pin_readonly(struct gpumem_pin *pin);
void gpumem_pin_written(struct gpumem_pin *pin);
void *gpumem_pin_map(struct gpumem_pin *pin, u64 offset, size_t *len);
int gpumem_ioctl_bo_pin(struct gpumem_ucmd *ucmd);

/* gpumem_user.c */
void gpumem_user_init(void);
u64 gpumem_pin_budget(void);
u64 gpumem_pin_budget_all(void);
u64 gpumem_pin_used(void);
struct gpumem_user *gpumem_user_get(const struct cred *cred);
void gpumem_user_put(struct gpumem_user *user);
struct gpumem_rate *gpumem_user_refusals(struct gpumem_user *user);
int gpumem_user_map(struct gpumem_client *client);
void gpumem_user_unmap(struct gpumem_client *client);
int gpumem_charge_init(struct gpumem_charge *charge,
		       struct gpumem_client *client, u64 pages);
void gpumem_charge_fini(struct gpumem_charge *charge);
void gpumem_charge_free(struct gpumem_charge *charge);

/* gpumem_vm.c */
struct gpumem_mapping *gpumem_vm_find(struct gpumem_vm *vm, u64 addr);
void gpumem_vm_release(struct gpumem_object *obj);
int gpumem_ioctl_vm_create(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_vm_map(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_vm_unmap(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_vm_access(struct gpumem_ucmd *ucmd);

/* gpumem_dmabuf.c */
int gpumem_ioctl_bo_export(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_bo_import(struct gpumem_ucmd *ucmd);

/* gpumem_foreign.c */
struct gpumem_bo *gpumem_foreign_create(struct gpumem_client *client,
					struct dma_buf *dmabuf);
void gpumem_foreign_free(struct gpumem_foreign *foreign);
void *gpumem_foreign_map(struct gpumem_foreign *foreign, u64 offset);
int gpumem_foreign_mmap(struct gpumem_foreign *foreign,
			struct vm_area_struct *vma);
int gpumem_foreign_begin(struct gpumem_foreign *foreign, bool write);
void gpumem_foreign_end(struct gpumem_foreign *foreign, bool write);
bool gpumem_foreign_fences(struct gpumem_foreign *foreign);
const char *gpumem_foreign_name(struct gpumem_foreign *foreign);

/* gpumem_ipc.c */
int gpumem_ipc_init(void);
void gpumem_ipc_exit(void);
void gpumem_token_revoke(struct gpumem_bo *bo, u64 offset, u64 length);
void gpumem_token_revoke_all(struct gpumem_bo *bo);
void gpumem_token_forget_root(struct gpumem_bo *bo);
void gpumem_token_handle_gone(struct gpumem_object *obj);
void gpumem_token_release(struct gpumem_object *obj);
int gpumem_ioctl_token_create(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_token_open(struct gpumem_ucmd *ucmd);

/* gpumem_acct.c */
extern const struct attribute_group *gpumem_class_groups[];
extern const struct attribute_group *gpumem_device_groups[];
void gpumem_show_fdinfo(struct seq_file *m, struct file *file);
int gpumem_ioctl_info(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_stats(struct gpumem_ucmd *ucmd);

/* gpumem_budget.c */
extern struct device_attribute dev_attr_budget;
void gpumem_budget_device(struct gpumem_device *dev);
void gpumem_budget_resized(struct gpumem_device *dev);
void gpumem_budget_charge(struct gpumem_client *client,
			  struct gpumem_device *dev, u64 bytes);
void gpumem_budget_uncharge(struct gpumem_client *client,
			    struct gpumem_device *dev, u64 bytes);
void gpumem_budget_refused(struct gpumem_client *client,
			   struct gpumem_device *dev, u64 bytes);
u64 gpumem_budget_excess(struct gpumem_client *client,
			 struct gpumem_device *dev);
ssize_t gpumem_budget_read(struct file *file, char __user *buf, size_t count,
			   loff_t *pos);
__poll_t gpumem_budget_poll(struct file *file, poll_table *wait);

/* gpumem_netlink.c */
int gpumem_netlink_init(void);
void gpumem_netlink_exit(void);
int gpumem_ioctl_refusal(struct gpumem_ucmd *ucmd);
void gpumem_refusal_forget(struct gpumem_client *client);
void gpumem_refused(struct gpumem_client *client,
		    const struct gpumem_refusal *refusal);

#ifdef GPUMEM_COV
void __sanitizer_cov_trace_pc(void);
void gpumem_cov_report(void);
#else
static inline void gpumem_cov_report(void)
{
}
#endif

static inline struct gpumem_bo *gpumem_bo_get(struct gpumem_client *client,
					      u32 id)
{
	struct gpumem_object *obj = gpumem_object_get(client, id,
						      GPUMEM_OBJ_BO);

	return obj ? container_of(obj, struct gpumem_bo, obj) : NULL;
}

static inline struct gpumem_vm *gpumem_vm_get(struct gpumem_client *client,
					      u32 id)
{
	struct gpumem_object *obj = gpumem_object_get(client, id,
						      GPUMEM_OBJ_VM);

	return obj ? container_of(obj, struct gpumem_vm, obj) : NULL;
}

#include "gpumem_delay.h"
#include "gpumem_stream.h"

#endif /* GPUMEM_PRIVATE_H */
