// SPDX-License-Identifier: MIT
/*
 * Streams: handles, the streams of a context, and attributes.
 *
 * Owns all CUstream_st. A stream gets a queue (queue.c) with its first operation that cannot be executed
 * inline. Destroying a stream returns at once: its queue is recycled with whatever is still in it.
 *
 * The legacy stream (one per context) orders against the context's blocking streams, which are all
 * but those created NON_BLOCKING, and include the threads' own streams (follow.c, order.c).
 *
 * Locks: stream->lock orders submission; ctx->lock protects the context's list of streams; free_lock protects the
 * free list of stream structures.
 */
#include <stdlib.h>
#include <time.h>

#include "exec/exec.h"

static struct lock free_lock;
static CUstream free_streams;		/* free_lock */
static uint64_t last_stream_id;		/* atomic */

/* ---- the lock */

/* Whether the holder of the stream's lock waits, with the lock, for the caller's host function. */
static bool waits_for_host(CUstream stream)
{
	struct queue *queue = load_acquire(&stream->queue);
	uint64_t value = queue ? load_acquire(&queue->awaited) : 0;

	return value && host_blocks(queue, value);
}

CUresult stream_lock_slow(CUstream stream)
{
	const struct timespec nap = { .tv_nsec = HOST_LOOK_NS };

	if (!host_thread) {
		lock_slow(&stream->lock);
		return CUDA_SUCCESS;
	}
	while (!lock_try(&stream->lock)) {
		if (waits_for_host(stream))
			return CUDA_ERROR_NOT_PERMITTED;
		nanosleep(&nap, NULL);
	}
	return CUDA_SUCCESS;
}

/* ---- handles */

static int clamp_priority(int priority)
{
	return priority > 0 ? 0 : priority < -5 ? -5 : priority;
}

CUresult stream_create(CUstream *out, CUcontext ctx, enum stream_kind kind, unsigned int flags,
		       int priority)
{
	CUstream stream;

	lock_take(&free_lock);
	stream = free_streams;
	if (stream)
		free_streams = stream->next;
	lock_drop(&free_lock);
	if (!stream)
		stream = calloc(1, sizeof(*stream));
	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	store_relaxed(&stream->ctx, ctx);
	stream->kind = kind;
	stream->flags = flags;
	stream->priority = clamp_priority(priority);
	stream->id = __atomic_add_fetch(&last_stream_id, 1, __ATOMIC_RELAXED);
	stream->sync_policy = -1;
	stream->legacy_seen = 0;
	store_release(&stream->legacy_done,
		      kind != STREAM_CONTEXT && flags & CU_STREAM_NON_BLOCKING);
	pthread_mutex_lock(&ctx->lock);
	stream->link = NULL;
	stream->next = ctx->streams;
	if (stream->next)
		stream->next->link = stream;
	ctx->streams = stream;
	pthread_mutex_unlock(&ctx->lock);
	store_release(&stream->magic, STREAM_MAGIC);
	/* Beside an exclusive device synchronizing also grants access to managed memory. */
	if (kind == STREAM_CREATED && !client.exclusive)
		store_release(&stream->plain, STREAM_PLAIN);
	*out = stream;
	return CUDA_SUCCESS;
}

CUresult stream_destroy(CUstream stream)
{
	CUresult result;

	touch_check();
	/*
	 * If the lock can be taken now, no thread is submitting to the stream, so stream_end() can take the
	 * lock later, too.
	 */
	if (unlikely(host_thread) && (uintptr_t)stream >= PAGE &&
	    load_acquire(&stream->magic) == STREAM_MAGIC) {
		result = stream_lock(stream);
		if (result)
			return result;
		lock_drop(&stream->lock);
	}
	if ((uintptr_t)stream < PAGE || !stream_claim(stream))
		return CUDA_ERROR_INVALID_HANDLE;
	stream_end(stream);
	return CUDA_SUCCESS;
}

bool stream_claim(CUstream stream)
{
	uint32_t magic = STREAM_MAGIC;

	return __atomic_compare_exchange_n(&stream->magic, &magic, 0, false, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED);
}

void stream_end(CUstream stream)
{
	struct queue *queue;

	store_release(&stream->plain, 0);
	pthread_mutex_lock(&stream->ctx->lock);
	if (stream->link)
		stream->link->next = stream->next;
	else
		stream->ctx->streams = stream->next;
	if (stream->next)
		stream->next->link = stream->link;
	pthread_mutex_unlock(&stream->ctx->lock);
	pool_stream_gone(stream);
	lock_take(&stream->lock);
	queue = stream->queue;
	store_release(&stream->queue, NULL);
	if (queue) {
		queue->stream = NULL;
		queue->rested = false;
	}
	order_leave(stream);
	attach_stream_gone(stream, queue);
	lock_drop(&stream->lock);
	if (queue)
		queue_put(queue);
	lock_take(&free_lock);
	stream->next = free_streams;
	free_streams = stream;
	lock_drop(&free_lock);
}

void ctx_release_streams(CUcontext ctx)
{
	struct queue *queue;
	unsigned int i;

	store_release(&ctx->legacy, NULL);
	store_release(&ctx->whole, NULL);
	for (;;) {
		CUstream stream;

		pthread_mutex_lock(&ctx->lock);
		stream = ctx->streams;
		pthread_mutex_unlock(&ctx->lock);
		if (!stream)
			break;
		/* An error means that another thread has claimed the stream and will remove it from the list. */
		if (stream_destroy(stream))
			lock_doze();
	}
	/* A thread that resolved a handle earlier may have submitted after the context's work ended. */
	queues_wait(&ctx->active, true, NULL);
	active_clear(&ctx->active);
	/* An error of this context must not fail a later context in the same structure. */
	for (i = 0; i < client.devices; i++)
		for (queue = load_acquire(&client.device[i].queues); queue; queue = queue->next) {
			CUcontext owner = ctx;

			__atomic_compare_exchange_n(&queue->ctx, &owner, NULL, false,
						    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
		}
	queues_sweep();
}

/* A stream that each context has once, made at first use. */
static CUresult single_stream(CUcontext ctx, CUstream *place, enum stream_kind kind,
			      unsigned int flags, CUstream *out)
{
	static pthread_mutex_t make = PTHREAD_MUTEX_INITIALIZER;
	CUresult result = CUDA_SUCCESS;
	CUstream stream = load_acquire(place);

	if (likely(stream != NULL)) {
		*out = stream;
		return CUDA_SUCCESS;
	}
	pthread_mutex_lock(&make);
	stream = load_acquire(place);
	if (!stream) {
		result = stream_create(&stream, ctx, kind, flags, 0);
		if (!result)
			store_release(place, stream);
	}
	pthread_mutex_unlock(&make);
	if (!result)
		*out = stream;
	return result;
}

static CUresult legacy_stream(CUcontext ctx, CUstream *stream)
{
	return single_stream(ctx, &ctx->legacy, STREAM_LEGACY_KIND, CU_STREAM_DEFAULT, stream);
}

CUresult context_stream(CUcontext ctx, CUstream *stream)
{
	return single_stream(ctx, &ctx->whole, STREAM_CONTEXT, CU_STREAM_NON_BLOCKING, stream);
}

CUresult streams_each(CUcontext ctx, CUresult (*each)(CUstream stream, void *arg), void *arg)
{
	CUresult result = CUDA_SUCCESS;
	size_t count = 0, i = 0;
	CUstream stream, *list;

	pthread_mutex_lock(&ctx->lock);
	for (stream = ctx->streams; stream; stream = stream->next)
		count++;
	list = calloc(count + 1, sizeof(*list));
	for (stream = list ? ctx->streams : NULL; stream; stream = stream->next)
		list[i++] = stream;
	pthread_mutex_unlock(&ctx->lock);
	if (!list)
		return CUDA_ERROR_OUT_OF_MEMORY;
	for (i = 0; !result && i < count; i++) {
		result = each(list[i], arg);
		/* Destroyed meanwhile. */
		if (result == CUDA_ERROR_INVALID_HANDLE)
			result = CUDA_SUCCESS;
	}
	free(list);
	return result;
}

CUresult stream_get_any(CUstream handle, bool own, CUstream *stream)
{
	CUcontext ctx;
	CUresult result;

	if (likely((uintptr_t)handle > (uintptr_t)CU_STREAM_PER_THREAD)) {
		if ((uintptr_t)handle < PAGE || load_acquire(&handle->magic) != STREAM_MAGIC)
			return CUDA_ERROR_INVALID_HANDLE;
		*stream = handle;
		return CUDA_SUCCESS;
	}
	result = ctx_current_any(&ctx);
	if (result)
		return result;
	if (handle == CU_STREAM_PER_THREAD || (!handle && own))
		return ctx_thread_stream(ctx, stream);
	return legacy_stream(ctx, stream);
}

/* ---- attributes */

CUresult stream_get_attribute(CUstream stream, int attribute, CUstreamAttrValue *value)
{
	switch (attribute) {
	case CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW:
		memset(&value->accessPolicyWindow, 0, sizeof(value->accessPolicyWindow));
		return CUDA_SUCCESS;
	case CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY:
		value->syncPolicy = load_relaxed(&stream->sync_policy);
		return CUDA_SUCCESS;
	case CU_STREAM_ATTRIBUTE_PRIORITY:
		value->priority = load_relaxed(&stream->priority);
		return CUDA_SUCCESS;
	case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
		value->memSyncDomainMap.default_ = 0;
		value->memSyncDomainMap.remote = 1;
		return CUDA_SUCCESS;
	case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN:
		value->memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult stream_set_attribute(CUstream stream, int attribute, const CUstreamAttrValue *value)
{
	switch (attribute) {
	case CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY:
		if ((int)value->syncPolicy < CU_SYNC_POLICY_AUTO ||
		    value->syncPolicy > CU_SYNC_POLICY_BLOCKING_SYNC)
			return CUDA_ERROR_INVALID_VALUE;
		store_relaxed(&stream->sync_policy, (int)value->syncPolicy);
		return CUDA_SUCCESS;
	case CU_STREAM_ATTRIBUTE_PRIORITY:
		store_relaxed(&stream->priority, clamp_priority(value->priority));
		return CUDA_SUCCESS;
	case CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW:
	case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
	case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN:
		/*
		 * Hints about caches, and about fences between kernels. The device has no such caches and runs
		 * no kernels.
		 */
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

void stream_copy_attributes(CUstream dst, CUstream src)
{
	store_relaxed(&dst->sync_policy, load_relaxed(&src->sync_policy));
	store_relaxed(&dst->priority, load_relaxed(&src->priority));
}
