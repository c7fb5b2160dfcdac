/* SPDX-License-Identifier: MIT */
/*
 * Streams: handles, and the lock that orders submission. stream.c owns them.
 *
 * queue.h has their queues, ring.h submission, follow.h and order.h their order, wait.h waiting.
 */
#ifndef GPUMEM_STREAM_H
#define GPUMEM_STREAM_H

#include "exec/hold.h"

#define STREAM_MAGIC	0x6d727473	/* "strm" */
#define STREAM_PLAIN	0x6e6c7073	/* "spln": of kind STREAM_CREATED, and not destroyed */

enum stream_kind {
	STREAM_CREATED, STREAM_LEGACY_KIND, STREAM_THREAD,
	STREAM_CONTEXT,			/* ordered after all streams of its context; not a handle of programs */
};

struct CUstream_st {
	uint32_t magic;			/* atomic */
	uint32_t plain;			/* STREAM_PLAIN while the program has the handle; atomic */
	struct lock lock;		/* order of submission */
	uint32_t resting;		/* the lock's holder waits for entries; lock to write; atomic */
	uint32_t yielded;		/* legacy stream: number of threads that yielded to it; atomic */
	uint32_t legacy_done;		/* 1: need not check the legacy stream (order.c); atomic */
	bool entered;			/* is in ctx->active.entered; ctx->active.lock to write; atomic */
	uint64_t entered_stamp;		/* rises with each entering; ctx->active.lock, as the next two */
	CUstream next_entered, prev_entered;
	CUcontext ctx;			/* atomic: the legacy stream may read it while the structure is reused */
	enum stream_kind kind;
	unsigned int flags;
	int priority;			/* atomic */
	int sync_policy;		/* as the program set it; atomic */
	uint64_t id;
	struct queue *queue;		/* made at first use; lock to write; atomic */
	uint64_t legacy_seen;		/* the queue has a wait for this value of the legacy stream; lock */
	struct heap *heaps;		/* the stream's heaps in pools; atomic */
	struct attach_set *attached;	/* managed memory attached to it (attach.c), or NULL; lock to write; atomic */
	CUstream next, link;		/* in ctx->streams, link: the one before; ctx->lock */
};

#include "exec/touch.h"

/*
 * Take stream->lock in order to submit. NOT_PERMITTED in a host function, if the lock's holder waits for
 * entries that depend on the function.
 */
CUresult stream_lock_slow(CUstream stream);
static inline CUresult stream_lock(CUstream stream)
{
	touch_check();
	return likely(lock_try(&stream->lock)) ? CUDA_SUCCESS : stream_lock_slow(stream);
}

CUresult stream_create(CUstream *stream, CUcontext ctx, enum stream_kind kind, unsigned int flags,
		       int priority);
CUresult stream_destroy(CUstream stream);
/* stream_destroy() in two steps. stream_claim() returns true to one caller, which must call stream_end(). */
bool stream_claim(CUstream stream);
void stream_end(CUstream stream);
/* The stream of kind STREAM_CONTEXT, made at first use. */
CUresult context_stream(CUcontext ctx, CUstream *stream);
/* Call @each for all streams that a context has. */
CUresult streams_each(CUcontext ctx, CUresult (*each)(CUstream stream, void *arg), void *arg);
/* Resolve a handle; @own: handle 0 means the calling thread's stream. Errors: 201, 709, 400, sticky. */
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

/* The queue of a context's legacy stream, or NULL if it has none. */
static inline struct queue *legacy_queue(CUcontext ctx)
{
	CUstream legacy = load_acquire(&ctx->legacy);

	return legacy ? load_acquire(&legacy->queue) : NULL;
}

/* Destroy all streams of a context that ends. The context's work is done. */
void ctx_release_streams(CUcontext ctx);

CUresult stream_get_attribute(CUstream stream, int attribute, CUstreamAttrValue *value);
CUresult stream_set_attribute(CUstream stream, int attribute, const CUstreamAttrValue *value);
void stream_copy_attributes(CUstream dst, CUstream src);

/* From a layer above (pool/pool_heap.c): the stream is destroyed. */
void pool_stream_gone(CUstream stream);

#endif /* GPUMEM_STREAM_H */
