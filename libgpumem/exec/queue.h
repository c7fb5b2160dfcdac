/* SPDX-License-Identifier: MIT */
/*
 * Queues: kernel streams, their rings, and their timelines' pages. queue.c owns them.
 */
#ifndef GPUMEM_EXEC_QUEUE_H
#define GPUMEM_EXEC_QUEUE_H

#include "exec/context.h"

#define QUEUE_ENTRIES	4096u

/* One wait of a queue: its entries behind number @at run after @queue has reached @value. Stays true for ever. */
struct past {
	uint64_t at;
	struct queue *queue;
	uint64_t value;
};

#define QUEUE_PAST	16u

struct queue {
	uint32_t id, timeline;
	CUdevice device;
	int priority;
	struct gpumem_ring *ring;
	struct gpumem_sqe *sqes;
	const struct gpumem_timeline_page *page;
	uint64_t tail;			/* entries submitted; owner's stream lock to write; atomic */
	uint64_t ready;			/* entries that the ring can take (ring.h); the same lock */
	unsigned int touched;		/* slots that are in memory; the same lock */
	uint64_t kicked;		/* the kernel's worker was notified of these; owner's stream lock */
	CUstream stream;		/* the owner, or NULL; owner's stream lock, as the next two */
	bool rested;			/* the lock's holder rested, so the waits must be found anew */
	bool following;			/* stream_follow() is putting waits into the queue */
	uint64_t awaited;		/* the lock's holder waits for this value, or 0; atomic */
	CUcontext ctx;			/* the last owner's context, NULL once that has ended; atomic */
	bool blocking;			/* the last owner is a blocking stream; atomic */
	uint32_t listed;		/* enum listed; active->lock to write; atomic */
	struct active *active;		/* the lists that the queue is in, or NULL; as @listed */
	uint64_t stamp;			/* rises with each listing; active->lock, as the next two */
	struct queue *next_listed, *prev_listed;
	uint64_t legacy_seen;		/* the legacy stream waits for this value; the legacy stream's lock */
	uint64_t synced;		/* the process waited for this value; atomic */
	struct lock past_lock;
	struct past past[QUEUE_PAST];	/* the last waits of the queue; past_lock */
	unsigned int pasts;		/* number of waits so far; past_lock */
	uint32_t hold_timeline;		/* id of the timeline that counts released holds, or 0; hold_lock */
	uint64_t last_release;		/* its value when all holds are released; hold_lock */
	struct hostcall *calls, *last_call;	/* host functions to be run; hold_lock */
	uint64_t call_taken;		/* hold.release of the call that was taken last; hold_lock */
	uint64_t call_over;		/* hold.release of the call that was over last; atomic */
	struct queue *next_held;	/* in hold_queues; constant */
	struct queue *next;		/* in device->queues; constant */
	struct queue *next_idle;	/* in the recycling list; queue_lock */
	uint64_t delegate_of;		/* id of the stream whose entries the queue took last (follow.c), or 0 */
};

/*
 * Get a queue of a device for a stream: a recycled idle one, else a new one. @helper: the queue takes entries for the
 * stream (follow.c) and does not become the stream's own. NULL: no memory.
 */
struct queue *queue_get(CUstream stream, CUdevice device, bool helper);
/*
 * Get a queue of a device for @entries more entries of a stream: that which has taken such entries of this stream
 * before, also if it is busy, else another one. NULL: no memory. stream->lock is held. Nobody writes to a queue in the
 * recycling list but the thread that takes it out.
 */
struct queue *queue_get_delegate(CUstream stream, CUdevice device, unsigned int entries);
/* Recycle a queue whose stream is destroyed, or that helped a stream. A failed queue is ended instead. */
void queue_put(struct queue *queue);
/* End the queues that failed after queue_put(). */
void queues_sweep(void);
/* The process's queue whose timeline has this id, or NULL. */
struct queue *queue_of_timeline(uint32_t timeline);
/*
 * Wait until the ring has @entries free slots, and bring these slots into memory. The caller's next @entries
 * calls of ring_put() then succeed. NOT_PERMITTED: as queue_wait(). LAUNCH_FAILED: the kernel stopped completing
 * entries. OUT_OF_MEMORY: the kernel has no memory for the ring's next page; the caller has put nothing then.
 */
CUresult queue_room(struct queue *queue, unsigned int entries);
CUresult queue_doorbell(struct queue *queue);
/* Bring the ring's next @entries slots into memory, whether they are free or not. */
CUresult queue_touch(struct queue *queue, unsigned int entries);
/* Make a queue that belongs to no stream yet, and is listed nowhere. NULL: no memory. */
struct queue *queue_make(CUdevice device, int priority);
bool queue_failed(const struct queue *queue);
/*
 * Return the caller's private queue in *@own: make it at first use, and replace it if it failed. NULL: no
 * memory. The caller has a lock for *@own, or is the only thread that changes it.
 */
struct queue *queue_own(struct queue **own, CUdevice device);
/* End a failed queue to which no thread submits. Its structure stays, because events may point at it. */
void queue_end(struct queue *queue);
/* End and free a queue that queue_make() made for the caller alone. */
void queue_free(struct queue *queue);
/* Copy an entry's slot. Another thread may write the slot meanwhile: the caller checks. False: no ring. */
bool queue_entry(struct queue *queue, uint64_t value, struct gpumem_sqe *sqe);
/* What an entry's operation is called in messages. */
const char *op_name(unsigned int op);
/* Print what failed in a queue, if debugging is on: the caller is the first to notice (failure.c). */
void debug_work(struct queue *queue, CUresult result) __attribute__((cold));

#endif /* GPUMEM_EXEC_QUEUE_H */
