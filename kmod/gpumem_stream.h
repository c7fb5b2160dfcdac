/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What is asynchronous in gpumem.ko: timelines and who waits for them, events,
 * streams and their turns, fences of shared buffers, engines.
 *
 * Part of gpumem_private.h, where the lock order is; nobody else includes it.
 */
#ifndef GPUMEM_STREAM_H
#define GPUMEM_STREAM_H

/**
 * struct gpumem_waiter - a call when a timeline gets somewhere
 */
struct gpumem_waiter {
	/** @node: in timeline->waiters, or cleared; timeline->lock */
	struct rb_node node;
	/** @value: where; constant while @node is in a tree */
	u64 value;
	/** @wake: called under timeline->lock, once, after removal */
	void (*wake)(struct gpumem_waiter *waiter);
};

/**
 * struct gpumem_timeline - a clock that users read from a page
 */
struct gpumem_timeline {
	/** @obj: head */
	struct gpumem_object obj;
	/** @lock: protects @value, @error and @waiters and orders @page's stores */
	spinlock_t lock;
	/** @page: shown to the client, read-only; nothing is read back from it */
	struct gpumem_timeline_page *page;
	/** @value: what has happened */
	u64 value;
	/** @error: positive errno of the first failure, or 0 */
	u32 error;
	/** @lost: nobody will raise it any more */
	bool lost;
	/** @of_stream: raised by its stream alone; constant */
	bool of_stream;
	/** @waiters: struct gpumem_waiter, by value, then as they came */
	struct rb_root_cached waiters;
};

/**
 * struct gpumem_timeline_ref - a client's handle of another client's timeline
 */
struct gpumem_timeline_ref {
	/** @obj: head */
	struct gpumem_object obj;
	/** @timeline: of a stream, referenced; constant */
	struct gpumem_timeline *timeline;
};

/**
 * struct gpumem_point - what all handles of an event share
 */
struct gpumem_point {
	/** @ref: each handle holds one */
	struct kref ref;
	/** @lock: protects @timeline and @value */
	spinlock_t lock;
	/** @timeline: of a stream, referenced, or NULL: complete */
	struct gpumem_timeline *timeline;
	/** @value: that @timeline has to reach */
	u64 value;
};

/**
 * struct gpumem_event - a handle of an event that processes share
 */
struct gpumem_event {
	/** @obj: head */
	struct gpumem_object obj;
	/** @point: what it stands for, referenced; constant */
	struct gpumem_point *point;
	/** @node: in the table of events, while @listed */
	struct rhash_head node;
	/** @key: name, of the maker's handle; constant */
	u8 key[GPUMEM_TOKEN_SIZE];
	/** @listed: can be opened; whoever has the id's reference */
	bool listed;
	/** @scope: who may open it; of the maker's handle */
	struct gpumem_scope scope;
	/** @rcu: frees the handle */
	struct rcu_head rcu;
};

/**
 * enum gpumem_share_state - who has a stream
 * @GPUMEM_SHARE_NONE: its client's threads
 * @GPUMEM_SHARE_ASKED: gpumem_share.prepare
 * @GPUMEM_SHARE_PUBLISHED: who owns it, piece by piece; see gpumem_publish.c
 * @GPUMEM_SHARE_DONE: its client's threads, to complete the entry
 */
enum gpumem_share_state {
	GPUMEM_SHARE_NONE,
	GPUMEM_SHARE_ASKED,
	GPUMEM_SHARE_PUBLISHED,
	GPUMEM_SHARE_DONE,
};

/**
 * struct gpumem_share - an entry that touches buffers that others use
 *
 * Belongs to whom @state says.
 */
struct gpumem_share {
	/** @state: enum gpumem_share_state */
	int state;
	/** @result: of the entry, or -EINPROGRESS after a portion of it */
	int result;
	/** @flags: GPUMEM_SHARE_OWNED */
	unsigned long flags;
	/** @waiting: @cb is, or was, with a fence */
	bool waiting;
	/** @looked: fences of foreign buffers are known, and waited for */
	bool looked;
	/** @prepare: makes the fence */
	struct delayed_work prepare;
	/** @late: executes what the client's worker does not in time */
	struct delayed_work late;
	/** @waits: in lane->waiting; lane->lock */
	struct list_head waits;
	/** @line: in lane->late; lane->lock */
	struct list_head line;
	/** @weight: bytes of the lane that the portion takes; lane->lock */
	u64 weight;
	/** @admitted: @weight counts in lane->published; lane->lock */
	bool admitted;
	/** @timed: @deadline is set; as what follows, the owner's */
	bool timed;
	/** @report: the fence timed out, and nobody has reported it */
	bool report;
	/** @pieces: of the portion that are executed */
	unsigned int pieces;
	/** @deadline: of the portion, ns */
	u64 deadline;
	/** @own: CPU time that the client's workers spent on it, ns */
	u64 own;
	/** @debt: CPU time that kernel workers spent on it, ns */
	u64 debt;
	/** @began: when the portion was published, ns */
	u64 began;
	/** @seen: when @late looked last, ns; @late's, as @seen_own */
	u64 seen;
	/** @seen_own: @own then */
	u64 seen_own;
	/** @context: of the fences; constant */
	u64 context;
	/** @seqno: of the last fence */
	u64 seqno;
	/** @fence: in all reservations, or NULL */
	struct dma_fence *fence;
	/** @roots: that the entry touches */
	struct gpumem_shared_root *roots;
	/** @nroots: number of @roots */
	unsigned int nroots;
	/** @root: that is waited for */
	unsigned int root;
	/** @dep: of that root's fences */
	unsigned int dep;
	/** @cb: called when that is signalled */
	struct dma_fence_cb cb;
};

/* Bit of gpumem_share.flags: somebody executes a piece; a lock. */
#define GPUMEM_SHARE_OWNED	0

/**
 * enum gpumem_share_turn - what becomes of a stream that a worker has taken
 * @GPUMEM_TURN_FREE: the worker executes it
 * @GPUMEM_TURN_WAIT: it is kicked when there is something to do
 * @GPUMEM_TURN_MORE: it goes behind the client's others
 * @GPUMEM_TURN_DONE: a published portion has ended
 */
enum gpumem_share_turn {
	GPUMEM_TURN_FREE,
	GPUMEM_TURN_WAIT,
	GPUMEM_TURN_MORE,
	GPUMEM_TURN_DONE,
};

/**
 * enum gpumem_run - where a stream stands with its client's threads
 * @GPUMEM_RUN_IDLE: nowhere
 * @GPUMEM_RUN_READY: in a list
 * @GPUMEM_RUN_RUNNING: a thread has it
 * @GPUMEM_RUN_AGAIN: a thread has it, and it was kicked since
 * @GPUMEM_RUN_LEAVING: a thread has it, and it is to be freed afterwards
 */
enum gpumem_run {
	GPUMEM_RUN_IDLE,
	GPUMEM_RUN_READY,
	GPUMEM_RUN_RUNNING,
	GPUMEM_RUN_AGAIN,
	GPUMEM_RUN_LEAVING,
};

/**
 * struct gpumem_ring_mem - the memory of a ring (gpumem_ring.c)
 */
struct gpumem_ring_mem {
	/** @ref: the stream, and each mapping */
	struct kref ref;
	/** @mask: number of entries less one; constant */
	u32 mask;
	/** @npages: number of @pages; constant */
	unsigned int npages;
	/** @head: the first page seen by the kernel; hostile content */
	struct gpumem_ring *head;
	/** @pages: NULL until touched, but for the first; written once */
	struct page *pages[];
};

/**
 * struct gpumem_stream - a ring, its timeline and the work that empties it
 */
struct gpumem_stream {
	/** @obj: head */
	struct gpumem_object obj;
	/** @link: in client->streams; client->stream_lock */
	struct list_head link;
	/** @vm: address space, referenced; constant */
	struct gpumem_vm *vm;
	/** @dev: executes; constant */
	struct gpumem_device *dev;
	/** @devbit: bit of @dev in access masks; constant */
	u32 devbit;
	/** @timeline: entries completed, referenced; constant */
	struct gpumem_timeline *timeline;
	/** @high: goes before others of its client; constant */
	bool high;
	/** @run: runner->lock */
	enum gpumem_run run;
	/** @ready: in runner->ready; runner->lock */
	struct list_head ready;
	/** @share: an entry under way elsewhere */
	struct gpumem_share share;
	/** @reap: frees the structure */
	struct work_struct reap;
	/** @ring: referenced; hostile content; constant */
	struct gpumem_ring_mem *ring;
	/** @entries: length of the ring; constant */
	u32 entries;
	/** @kcov_handle: of the task that made it, for KCOV; constant */
	typeof(kcov_common_handle()) kcov_handle;
	/** @state: GPUMEM_STREAM_* bits */
	unsigned long state;
	/** @final: last tail, once GPUMEM_STREAM_CLOSING is set; constant then */
	u64 final;
	/** @head: entries taken; as all below, written by who runs the stream */
	u64 head;
	/** @busy: @sqe is under way */
	bool busy;
	/** @sqe: the kernel's copy of the entry */
	struct gpumem_sqe sqe;
	/** @row: rows of @sqe done */
	u64 row;
	/** @col: bytes of row @row done */
	u64 col;
	/** @waiter: pending wait of @sqe; its timeline's lock */
	struct gpumem_waiter waiter;
	/** @waiting: timeline of @waiter, referenced, or NULL */
	struct gpumem_timeline *waiting;
	/** @poll: kicks the stream while @sqe is a poll */
	struct hrtimer poll;
	/** @poll_ns: time until the next look; 0 if @sqe is no poll */
	u32 poll_ns;
	/** @polling: in client->polling while @poll_ns is set */
	struct list_head polling;
};

/* Bits of gpumem_stream.state. */
#define GPUMEM_STREAM_CLOSING	0	/* no id any more, runs up to final */
#define GPUMEM_STREAM_CANCELLED	1	/* nothing more is started */
#define GPUMEM_STREAM_DRAINED	2	/* at its end; nothing may be touched */
#define GPUMEM_STREAM_BROKEN	3	/* the client wrote a wrong tail */
#define GPUMEM_STREAM_STOPPED	4	/* cancelled, and nobody runs it */

/**
 * struct gpumem_engine_ops - how a kind of engine moves bytes
 *
 * Called by who runs a stream, with the address space locked for reading, so
 * both buffer objects stay; offsets and lengths are inside them.  Preemption may
 * be disabled: may not sleep, allocate, or touch user memory.  Return 0 or an
 * errno.
 */
struct gpumem_engine_ops {
	/** @name: at most 15 bytes */
	const char *name;
	/** @copy: copy @len bytes between byte offsets */
	int (*copy)(struct gpumem_engine *engine, struct gpumem_bo *dst,
		    u64 dst_offset, struct gpumem_bo *src, u64 src_offset,
		    size_t len);
	/** @fill: repeat the low @elem bytes of @value over @len bytes */
	int (*fill)(struct gpumem_engine *engine, struct gpumem_bo *dst,
		    u64 dst_offset, u64 value, unsigned int elem, size_t len);
};

/**
 * struct gpumem_engine - executes the streams of a device
 */
struct gpumem_engine {
	/** @ops: kind; constant */
	const struct gpumem_engine_ops *ops;
	/** @wq: executes what others wait for; see gpumem_publish.c */
	struct workqueue_struct *wq;
	/** @workers: streams of a client that execute at a time; constant */
	unsigned int workers;
};

/* gpumem_timeline.c */
struct gpumem_timeline *gpumem_timeline_alloc(struct gpumem_client *client,
					      u64 value, bool of_stream);
void gpumem_timeline_raise(struct gpumem_timeline *timeline, u64 value);
int gpumem_timeline_add(struct gpumem_timeline *timeline, u64 value);
enum gpumem_event_state gpumem_timeline_state(struct gpumem_timeline *timeline,
					      u64 value);
struct gpumem_timeline *gpumem_timeline_get(struct gpumem_client *client,
					    u32 id);
struct gpumem_timeline_ref *
gpumem_timeline_ref_alloc(struct gpumem_client *client,
			  struct gpumem_timeline *timeline);
void gpumem_timeline_ref_release(struct gpumem_object *obj);
void gpumem_timeline_fail(struct gpumem_timeline *timeline, u32 error);
void gpumem_timeline_lose(struct gpumem_timeline *timeline);
void gpumem_waiter_init(struct gpumem_waiter *waiter,
			void (*wake)(struct gpumem_waiter *waiter));
bool gpumem_timeline_add_waiter(struct gpumem_timeline *timeline,
				struct gpumem_waiter *waiter);
void gpumem_timeline_del_waiter(struct gpumem_timeline *timeline,
				struct gpumem_waiter *waiter);
int gpumem_timeline_mmap(struct gpumem_timeline *timeline,
			 struct vm_area_struct *vma);
s64 gpumem_clock_offset(void);
void gpumem_timeline_handle_gone(struct gpumem_object *obj);
void gpumem_timeline_release(struct gpumem_object *obj);
int gpumem_ioctl_timeline_create(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_timeline_signal(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_timeline_wait(struct gpumem_ucmd *ucmd);

/* gpumem_stream.c */
int gpumem_stream_init(void);
void gpumem_stream_exit(void);
bool gpumem_stream_run(struct gpumem_stream *stream);
void gpumem_stream_complete(struct gpumem_stream *stream, int error);
void gpumem_stream_poll_begin(struct gpumem_stream *stream);
void gpumem_stream_poll_again(struct gpumem_stream *stream);
void gpumem_stream_poll_end(struct gpumem_stream *stream);
void gpumem_stream_kick_polls(struct gpumem_client *client);
void gpumem_stream_cancel_all(struct gpumem_client *client);
void gpumem_stream_reap_later(struct gpumem_stream *stream);
void gpumem_stream_handle_gone(struct gpumem_object *obj);
void gpumem_stream_release(struct gpumem_object *obj);
int gpumem_ioctl_stream_create(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_stream_doorbell(struct gpumem_ucmd *ucmd);

/* gpumem_ring.c */
struct gpumem_ring_mem *gpumem_ring_alloc(u32 entries);
void gpumem_ring_put(struct gpumem_ring_mem *ring);
void gpumem_ring_read(const struct gpumem_ring_mem *ring, u64 index,
		      struct gpumem_sqe *sqe);
int gpumem_ring_mmap(struct gpumem_ring_mem *ring, struct vm_area_struct *vma);

/* gpumem_runner.c */
void gpumem_runner_init(struct gpumem_runner *runner);
void gpumem_runner_kick(struct gpumem_stream *stream);
void gpumem_runner_cancel(struct gpumem_stream *stream);
bool gpumem_runner_leave(struct gpumem_stream *stream);
bool gpumem_runner_must_leave(void);
int gpumem_runner_start(void);
void gpumem_runner_exit(void);
int gpumem_runner_grow(struct gpumem_client *client, u64 streams,
		       unsigned int workers);
void gpumem_runner_stop(struct gpumem_client *client);

/* gpumem_share.c */
int gpumem_share_start(void);
void gpumem_share_stop(void);
struct dma_resv *gpumem_share_resv(struct gpumem_bo *root);
void gpumem_share_free_resv(struct gpumem_bo *root);
void gpumem_share_count(struct gpumem_bo *root, int by);
bool gpumem_share_begin(struct gpumem_stream *stream);
enum gpumem_share_turn gpumem_share_turn(struct gpumem_stream *stream);
int gpumem_share_met(struct gpumem_share *share, unsigned int most);
void gpumem_share_prepare_later(struct gpumem_share *share);
void gpumem_share_init(struct gpumem_share *share);
void gpumem_share_cancel(struct gpumem_share *share);

/* gpumem_publish.c */
void gpumem_lane_init(struct gpumem_lane *lane);
u64 gpumem_publish_weight(const struct gpumem_sqe *sqe);
bool gpumem_publish_admit(struct gpumem_share *share, unsigned long *delay);
void gpumem_publish_begin(struct gpumem_share *share);
void gpumem_publish_wake(struct gpumem_share *share);
void gpumem_publish_leave(struct gpumem_share *share);
enum gpumem_share_turn gpumem_publish_run(struct gpumem_share *share);
void gpumem_publish_over(struct gpumem_share *share);
void gpumem_publish_cancel(struct gpumem_share *share);
void gpumem_publish_init(struct gpumem_share *share);

/* gpumem_engine.c */
struct gpumem_engine *gpumem_engine_create(struct gpumem_device *dev);
void gpumem_engine_flush(struct gpumem_engine *engine);
void gpumem_engine_destroy(struct gpumem_engine *engine);
int gpumem_sqe_check(const struct gpumem_sqe *sqe);
int gpumem_engine_step(struct gpumem_stream *stream);
int gpumem_engine_piece(struct gpumem_stream *stream, size_t bytes,
			bool locked);

/* gpumem_engine_cpu.c */
extern const struct gpumem_engine_ops gpumem_engine_cpu_ops;
void gpumem_cpu_init(void);
void gpumem_cpu_exit(void);

/* gpumem_event.c */
int gpumem_event_init(void);
void gpumem_event_exit(void);
void gpumem_event_handle_gone(struct gpumem_object *obj);
void gpumem_event_release(struct gpumem_object *obj);
int gpumem_ioctl_event_create(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_event_open(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_event_record(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_event_get(struct gpumem_ucmd *ucmd);

static inline struct gpumem_stream *
gpumem_stream_get(struct gpumem_client *client, u32 id)
{
	struct gpumem_object *obj = gpumem_object_get(client, id,
						      GPUMEM_OBJ_STREAM);

	return obj ? container_of(obj, struct gpumem_stream, obj) : NULL;
}

#endif
