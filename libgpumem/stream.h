/* SPDX-License-Identifier: MIT */
/*
 * Streams and queues: what they are, their order, and how other files wait for them and submit.
 *
 * A part of internal.h, which says what the words mean and in which order locks are taken.
 */
#ifndef GPUMEM_STREAM_H
#define GPUMEM_STREAM_H

#define STREAM_MAGIC	0x6d727473	/* "strm" */
#define STREAM_PLAIN	0x6e6c7073	/* "spln": of kind STREAM_CREATED, and not destroyed */
#define QUEUE_ENTRIES	4096u

enum stream_kind {
	STREAM_CREATED, STREAM_LEGACY_KIND, STREAM_THREAD,
	STREAM_CONTEXT,			/* after everything of its context; no handle */
};

/* All that comes after the value @at of a queue comes after @value of @queue. True for ever. */
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
	uint64_t tail;			/* entries submitted; owner's stream lock; read without */
	uint64_t kicked;		/* the worker was told of these; owner's stream lock */
	CUstream stream;		/* the owner, or NULL; owner's stream lock, as the next two */
	bool rested;			/* what to wait for has to be found anew */
	bool following;			/* and just is */
	uint64_t awaited;		/* the lock's holder waits for this value, or 0; atomic */
	CUcontext ctx;			/* of the last owner, NULL if it is gone; atomic */
	bool blocking;			/* the last owner is a blocking stream; atomic */
	uint32_t listed;		/* enum listed; active->lock to write; atomic */
	struct active *active;		/* whose lists it is in, or NULL; the same */
	uint64_t stamp;			/* of when it was listed; active->lock, as the next two */
	struct queue *next_listed, *prev_listed;
	uint64_t legacy_seen;		/* the legacy stream waits for this value; its lock */
	uint64_t synced;		/* the process waited for this value; atomic */
	struct lock past_lock;
	struct past past[QUEUE_PAST];	/* what it waits for or has waited for; past_lock */
	unsigned int pasts;		/* how many there ever were; past_lock */
	uint32_t host_timeline;		/* host functions that have run, or 0; host_lock */
	uint64_t last_ran;		/* its value when all have; host_lock */
	struct hostcall *calls, *last_call;	/* host functions to be run; host_lock */
	uint64_t call_taken;		/* turn.ran of the call that was taken last; host_lock */
	uint64_t call_over;		/* turn.ran of the call that was over last; atomic */
	struct queue *next_host;	/* in the list of such queues; constant */
	struct queue *next;		/* in device->queues */
	struct queue *next_idle;	/* in the recycling list; queue_lock */
};

struct CUstream_st {
	uint32_t magic;			/* atomic */
	uint32_t plain;			/* STREAM_PLAIN while the program has the handle; atomic */
	struct lock lock;		/* order of submission */
	uint32_t resting;		/* who has the lock waits for entries; lock; read without */
	uint32_t gave_way;		/* of the legacy stream: how many wait for it; atomic */
	uint32_t clear;			/* the legacy stream is not to be looked at (order.c); atomic */
	bool entered;			/* in ctx->active.entered; its lock; atomic */
	uint64_t entered_stamp;		/* when; its lock, as the next two */
	CUstream next_entered, prev_entered;
	CUcontext ctx;			/* atomic: the legacy stream may look when it is used again */
	enum stream_kind kind;
	unsigned int flags;
	int priority;			/* atomic */
	int sync_policy;		/* as the program set it; atomic */
	uint64_t id;
	struct queue *queue;		/* made at first use; lock; read without */
	uint64_t legacy_seen;		/* this value of the legacy stream is waited for; lock */
	struct heap *heaps;		/* what pools keep for it; atomic */
	CUstream next, link;		/* in ctx->streams, link: the one before; ctx->lock */
};

/*
 * A place in a queue at which the CPU has something to do: entries behind it wait until that is
 * over. One thread of the library is told when it has come.
 */
struct turn {
	struct queue *queue;
	uint64_t value;			/* of the queue: it has come when this is reached */
	uint64_t ran;			/* of the queue's host timeline: reached when it is over */
};

#include "touch.h"

/*
 * Take stream->lock in order to submit. NOT_PERMITTED in a host function, if who has the lock waits
 * for entries that wait for the function.
 */
CUresult stream_lock_slow(CUstream stream);
static inline CUresult stream_lock(CUstream stream)
{
	touch_check();
	return likely(lock_try(&stream->lock)) ? CUDA_SUCCESS : stream_lock_slow(stream);
}

/*
 * The same for whoever touches memory, at once or by entries: until the lock is dropped, or until
 * order_rest(), those that the stream must not meet do nothing at once and put nothing (order.c).
 */
void order_enter(CUstream stream);
static inline CUresult stream_begin(CUstream stream)
{
	CUresult result = stream_lock(stream);

	fence_locked();
	if (likely(!result) && unlikely(!load_acquire(&stream->clear)))
		order_enter(stream);
	return result;
}

/*
 * List a blocking stream as used, and find out whether the legacy stream has nothing to wait for. False
 * if the legacy stream is at work. stream->lock is held.
 */
bool order_clear(CUstream stream);
/* The stream is destroyed; its lock is held. */
void order_leave(CUstream stream);
/* Before an entry is put into the legacy stream: blocking streams look for it. Its lock is held. */
void order_before_legacy(CUstream stream);

/*
 * Before and after waiting with the lock of @queue's stream held, until it has reached @value: others
 * go on meanwhile, so order_renew() must come before the next entry about memory. ring_kick() must come
 * before order_rest(). @value: 0 if it is for something else, and then host functions are not told. For
 * queues that no stream has it changes nothing.
 */
void order_rest(struct queue *queue, uint64_t value);
void order_resume(struct queue *queue);
/*
 * A turn of the caller's own in a queue; order_over() must follow, in any case. stream->lock is held.
 * In a host function it holds nobody.
 */
CUresult order_turn(struct queue *queue, struct turn *turn);
/* Wait for it with the lock held: everything before is done. */
CUresult order_wait(const struct turn *turn);
void order_over(const struct turn *turn);
/* Whether any thread has a turn of its own, in whichever context. */
bool order_unfinished(void);
/* Have the caller do something in stream order. No lock is held. */
CUresult order_call(CUstream stream, void (*now)(const void *arg), const void *arg);

CUresult stream_create(CUstream *stream, CUcontext ctx, enum stream_kind kind, unsigned int flags,
		       int priority);
CUresult stream_destroy(CUstream stream);
/* The same in two steps: true for the one caller that has to do the second. */
bool stream_claim(CUstream stream);
void stream_end(CUstream stream);
/* The stream that comes after everything in a context. */
CUresult context_stream(CUcontext ctx, CUstream *stream);
/* Call @each for all streams that a context has. */
CUresult streams_each(CUcontext ctx, CUresult (*each)(CUstream stream, void *arg), void *arg);
/* Resolve a handle; @own: 0 is the calling thread's stream. Errors: 201, 709, 400, sticky. */
static inline CUresult stream_get(CUstream handle, bool own, CUstream *stream);
/* The same without looking at the sticky error. */
CUresult stream_get_any(CUstream handle, bool own, CUstream *stream);

static inline CUresult stream_get(CUstream handle, bool own, CUstream *stream)
{
	CUresult result = CUDA_SUCCESS;

	if (likely((uintptr_t)handle >= PAGE && load_acquire(&handle->magic) == STREAM_MAGIC))
		*stream = handle;
	else
		result = stream_get_any(handle, own, stream);
	return likely(!result) ? load_relaxed(&(*stream)->ctx->sticky) : result;
}

/* Whether everything that the stream's next operation must wait for is done. */
bool stream_idle(CUstream stream);
/* The rest of the next: the lock is held, and was dropped if this returns true. */
bool stream_busy(CUstream stream, unsigned int waits, CUresult *result);
/*
 * stream_begin() when everything is done that the next operation must wait for. @waits: how often to wait
 * for the stream if it is busy. False: the lock is not held; it is still busy, or *@result says why.
 */
static inline bool stream_begin_idle(CUstream stream, unsigned int waits, CUresult *result)
{
	*result = stream_begin(stream);
	if (unlikely(*result))
		return false;
	return likely(stream_idle(stream)) || !stream_busy(stream, waits, result);
}
CUresult stream_query(CUstream stream);
CUresult stream_synchronize(CUstream stream);
/* Wait for what the next operation would wait for. */
CUresult stream_drain(CUstream stream);
/*
 * The queue, with the waits for other streams in it. stream->lock is held. The caller ends with
 * ring_finish() if this succeeds.
 */
CUresult stream_prepare(CUstream stream, struct queue **queue);
/* Just the waits, for a queue that the stream has. */
CUresult stream_follow(CUstream stream, struct queue *queue);
/* The same if the lock's holder rested since they were put. */
static inline CUresult order_renew(struct queue *queue)
{
	return likely(!queue->rested) ? CUDA_SUCCESS : stream_follow(queue->stream, queue);
}
/*
 * Wait until the queue has reached @value, and return its context's error. NOT_PERMITTED in a host
 * function that the queue waits for.
 */
CUresult queue_wait(struct queue *queue, uint64_t value);
/* The same without looking a few times before sleeping. */
CUresult queue_sleep(struct queue *queue, uint64_t value);
/* Wait for a millisecond at most. */
void queue_doze(struct queue *queue, uint64_t value);
/* The process knows that a queue has reached a value. */
void queue_know(struct queue *queue, uint64_t value);
/* Have what follows in @queue wait for another. The lock of the stream that owns it is held. */
CUresult queue_follow(struct queue *queue, struct queue *other, uint64_t value);
/* Whether what comes after @at in @queue comes after @value of @other, too, by waits. */
bool queue_follows(struct queue *queue, uint64_t at, struct queue *other, uint64_t value);
/* Call @each for all queues of the process that are not idle. */
void queues_busy(void (*each)(struct queue *queue, uint64_t value, void *arg), void *arg);
/* The queue of the process that has a timeline, or NULL. */
struct queue *queue_of_timeline(uint32_t timeline);
/* Wait until the ring has @entries free slots; NOT_PERMITTED as queue_wait(). */
CUresult queue_room(struct queue *queue, unsigned int entries);
/*
 * The moment when all is done that the stream's next operation would wait for: @queue is NULL if it
 * is, else when @queue reaches @value. May submit waits. No lock is held.
 */
CUresult stream_moment(CUstream stream, struct queue **queue, uint64_t *value);
/* What failed work of the queue means; SUCCESS if none did. */
CUresult queue_status(struct queue *queue);
CUresult queue_doorbell(struct queue *queue);
/* A queue that belongs to no stream; nobody but the caller waits for it. NULL: no memory. */
struct queue *queue_make(CUdevice device, int priority);
bool queue_failed(const struct queue *queue);
/* Give one back that failed and that nobody submits to; events may point at it. */
void queue_end(struct queue *queue);
/* The same of one that queue_make() made for the caller alone, with all that it is. */
void queue_free(struct queue *queue);
/* Read the ring's slot of an entry, which others may write meanwhile; false if there is no ring. */
bool queue_entry(struct queue *queue, uint64_t value, struct gpumem_sqe *sqe);
/* Wait for all work of the process; the current context's error. */
CUresult work_synchronize(void);
CUresult ctx_synchronize(CUcontext ctx);
/* Wait before @length bytes of a context's memory are freed (free_wait.c); the same errors. */
CUresult free_wait(CUcontext owner, uint64_t base, uint64_t length);
/* A context ends; its work is done. */
void ctx_release_streams(CUcontext ctx);

CUresult stream_get_attribute(CUstream stream, int attribute, CUstreamAttrValue *value);
CUresult stream_set_attribute(CUstream stream, int attribute, const CUstreamAttrValue *value);
void stream_copy_attributes(CUstream dst, CUstream src);

#endif /* GPUMEM_STREAM_H */
