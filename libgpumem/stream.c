// SPDX-License-Identifier: MIT
/*
 * Streams: order of work, and the kernel streams (queues) that keep it.
 *
 * Owns all CUstream_st and all queues. A stream gets a queue with its first operation that cannot
 * be executed inline. Destroying a stream returns at once: its queue goes to a recycling list with
 * whatever is still in it, and the next stream of the same device and priority takes it when it is
 * idle. Its timeline continues under the next stream, so old events stay done. A queue that failed is
 * no use to anybody: it is ended (queue.c) when its stream is destroyed, or, if it fails later, when
 * a context is. Structures of queues are never freed, nor are timelines unmapped: events point at them.
 *
 * The legacy stream (one per context) orders against the context's blocking streams, which are all
 * but those created NON_BLOCKING, and include the threads' own streams. Legacy work waits for what
 * blocking streams have queued, and their work waits for what the legacy stream has queued: a WAIT
 * entry goes before the work unless the value is reached, or a wait for it is already queued. The
 * blocking queues with unfinished work are in a list of the context (active.c), also those of
 * destroyed streams. Operations that are in no queue are order.c's.
 *
 * Invariants: queue->tail and the ring are written with the owning stream's lock held. A stream is
 * idle if its queue is and nothing that its next operation must wait for is pending.
 *
 * Locks: stream->lock orders submission; ctx->lock its list of streams; queue_lock the recycling
 * list and the free list of stream structures. Queries take none, but for the legacy stream's, which
 * takes the lock of the context's active queues.
 *
 * Vocabulary: drain, wait until the next operation could run at once; tail, value (ring.h).
 */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"
#include "ring.h"

static struct lock queue_lock;
static struct queue *idle_queues;	/* queue_lock; of no stream, perhaps still at work */
static CUstream free_streams;		/* queue_lock */
static uint64_t last_stream_id;		/* atomic */

/* ---- queues */

/* A queue for a stream, or to help with it: a recycled one that is idle, else a new one. */
static struct queue *queue_get(CUstream stream, bool helper)
{
	bool blocking = !helper && stream->kind != STREAM_LEGACY_KIND &&
		!(stream->flags & CU_STREAM_NON_BLOCKING);
	struct device *device = ctx_device(stream->ctx);
	struct queue **link, *queue;

	lock_take(&queue_lock);
	for (link = &idle_queues; (queue = *link); link = &queue->next_idle)
		if (queue->device == stream->ctx->device && queue->priority == load_relaxed(&stream->priority) &&
		    queue_idle(queue) && !load_relaxed(&queue->page->error))
			break;
	if (queue)
		*link = queue->next_idle;
	lock_drop(&queue_lock);
	if (queue) {
		active_move(queue, stream->ctx, blocking);
		return queue;
	}
	queue = queue_make(stream->ctx->device, load_relaxed(&stream->priority));
	if (!queue)
		return NULL;
	queue->ctx = stream->ctx;
	queue->blocking = blocking;
	lock_take(&queue_lock);
	queue->next = device->queues;
	store_release(&device->queues, queue);
	lock_drop(&queue_lock);
	return queue;
}

/* It belongs to no stream any more. */
static void queue_put(struct queue *queue)
{
	if (queue_failed(queue)) {
		queue_end(queue);
		return;
	}
	lock_take(&queue_lock);
	queue->next_idle = idle_queues;
	idle_queues = queue;
	lock_drop(&queue_lock);
}

/* End those that failed after they had been put. */
static void queues_sweep(void)
{
	struct queue **link, *queue, *failed = NULL;

	lock_take(&queue_lock);
	for (link = &idle_queues; (queue = *link);) {
		if (queue_failed(queue)) {
			*link = queue->next_idle;
			queue->next_idle = failed;
			failed = queue;
		} else {
			link = &queue->next_idle;
		}
	}
	lock_drop(&queue_lock);
	while ((queue = failed)) {
		failed = queue->next_idle;
		queue_end(queue);
	}
}

CUresult queue_doorbell(struct queue *queue)
{
	struct gpumem_stream_doorbell doorbell = { .size = sizeof(doorbell), .id = queue->id };

	return result_of_errno(client_ioctl(GPUMEM_STREAM_DOORBELL, &doorbell));
}

CUresult queue_status(struct queue *queue)
{
	switch (load_relaxed(&queue->page->error)) {
	case 0:
		return CUDA_SUCCESS;
	case EFAULT:
	case EACCES:
	case EOVERFLOW:
	case ENOENT:
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	default:
		return CUDA_ERROR_LAUNCH_FAILED;
	}
}

/* Work of the queue failed: from now on its context returns what that means. */
static CUresult queue_error(struct queue *queue)
{
	CUresult result = queue_status(queue);
	CUcontext ctx;

	ctx = load_relaxed(&queue->ctx);
	if (!ctx)
		return CUDA_SUCCESS;
	/* Work on the CPU fails the context alone (work.c). */
	if (unlikely(result) && ctx_fail(ctx, result))
		debug_work(queue, result);
	return load_relaxed(&ctx->sticky);
}

struct queue *queue_of_timeline(uint32_t timeline)
{
	struct queue *queue;
	unsigned int i;

	for (i = 0; i < client.devices; i++)
		for (queue = load_acquire(&client.device[i].queues); queue; queue = queue->next)
			if (queue->timeline == timeline)
				return queue;
	return NULL;
}

/* How often the host thread looks whether it waits for itself, and who dozes at something else. */
#define HOST_LOOK_NS	1000000u

static uint64_t host_deadline(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec + HOST_LOOK_NS;
}

void queue_doze(struct queue *queue, uint64_t value)
{
	struct gpumem_timeline_wait wait = {
		.size = sizeof(wait), .id = queue->timeline, .value = value,
		.deadline = host_deadline(),
	};

	int error = client_ioctl(GPUMEM_TIMELINE_WAIT, &wait);

	/* The queue failed, or the kernel refuses to wait. */
	if (error && error != ETIMEDOUT)
		lock_doze();
}

CUresult queue_sleep(struct queue *queue, uint64_t value)
{
	struct gpumem_timeline_wait wait = {
		.size = sizeof(wait), .id = queue->timeline, .value = value, .deadline = ~0ull,
	};

	/* The thread may be waiting for a turn of its own. */
	touch_check();
	while (!queue_reached(queue, value)) {
		int error;

		if (unlikely(host_thread)) {
			if (host_holds(queue, value))
				return CUDA_ERROR_NOT_PERMITTED;
			wait.deadline = host_deadline();
		}
		error = client_ioctl(GPUMEM_TIMELINE_WAIT, &wait);
		if (error == EIO && !queue_reached(queue, value)) {
			queue_error(queue);
			return CUDA_ERROR_LAUNCH_FAILED;
		}
		if (error && error != EIO && error != ETIMEDOUT)
			return result_of_errno(error);
	}
	queue_know(queue, value);
	return queue_error(queue);
}

/* Does whoever made the context want threads to sleep at once? */
static bool queue_blocking(struct queue *queue)
{
	CUcontext ctx = load_relaxed(&queue->ctx);

	return ctx && (load_relaxed(&ctx->flags) & CU_CTX_SCHED_MASK) ==
		CU_CTX_SCHED_BLOCKING_SYNC;
}

CUresult queue_wait(struct queue *queue, uint64_t value)
{
	unsigned int i;

	if (queue_reached(queue, value) || queue_blocking(queue))
		return queue_sleep(queue, value);
	for (i = 0; !queue_reached(queue, value) && i < client.spins; i++)
#if defined(__x86_64__)
		__builtin_ia32_pause();
#else
		__asm__ volatile("" ::: "memory");
#endif
	return queue_sleep(queue, value);
}

/* As queue_wait(); what was to run on the host has run, or was left out, also after a failure. */
static CUresult queue_settle(struct queue *queue, uint64_t value)
{
	CUresult result = queue_wait(queue, value);

	if (unlikely(result) && queue_status(queue))
		host_settle(queue, value);
	return result;
}

static bool room_for(const struct queue *queue, unsigned int entries)
{
	return load_relaxed(&queue->tail) - load_acquire(&queue->page->value) + entries <=
		QUEUE_ENTRIES;
}

CUresult queue_room(struct queue *queue, unsigned int entries)
{
	while (!room_for(queue, entries)) {
		uint64_t value = load_relaxed(&queue->tail) - QUEUE_ENTRIES + entries;
		CUresult waited, result = ring_kick(queue);

		if (result)
			return result;
		/*
		 * An entry has left the ring when it is done. Failed work does not hinder the next.
		 * The stream's lock is held: it keeps off those alone who would find the ring full,
		 * too, and what the ring waits for takes no lock of this stream: other streams'
		 * entries are in their rings and kicked, host functions use stream_lock(), and
		 * synchronizing takes no locks.
		 */
		order_rest(queue, value);
		waited = queue_wait(queue, value);
		order_resume(queue);
		if (!queue_reached(queue, value))
			return waited == CUDA_ERROR_NOT_PERMITTED ? waited :
				CUDA_ERROR_LAUNCH_FAILED;
		result = order_renew(queue);
		if (result)
			return result;
	}
	return CUDA_SUCCESS;
}

/* Whether who has the stream's lock waits, with it, for the host function that the caller is in. */
static bool waits_for_host(CUstream stream)
{
	struct queue *queue = load_acquire(&stream->queue);
	uint64_t value = queue ? load_acquire(&queue->awaited) : 0;

	return value && host_holds(queue, value);
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

/* Whether a context's queues are idle; @every: not those of blocking streams alone. */
static bool queues_idle(CUcontext ctx, bool every)
{
	struct active_walk walk;
	struct queue *queue;
	uint64_t value;

	active_walk(&walk, &ctx->active, every, false);
	while ((queue = active_next(&walk, &value)))
		if (!queue_reached(queue, value))
			return false;
	return true;
}

/* Wait for what was submitted before the call; the first error of @ctx's counts, NULL: of any. */
static CUresult queues_wait(struct active *active, bool every, CUcontext ctx)
{
	CUresult first = CUDA_SUCCESS;
	struct active_walk walk;
	struct queue *queue;
	uint64_t value;

	active_walk(&walk, active, every, true);
	while ((queue = active_next(&walk, &value))) {
		CUresult result = queue_settle(queue, value);

		/* Another context's failure is not this call's. */
		if (!first && (!ctx || load_relaxed(&queue->ctx) == ctx))
			first = result;
	}
	active_know(active, every);
	/* Work on the CPU may have failed just before its queue was found idle. */
	if (!first && ctx && active == &ctx->active)
		first = load_relaxed(&ctx->sticky);
	return first;
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

	lock_take(&queue_lock);
	stream = free_streams;
	if (stream)
		free_streams = stream->next;
	lock_drop(&queue_lock);
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
	store_release(&stream->clear, kind != STREAM_CONTEXT && flags & CU_STREAM_NON_BLOCKING);
	pthread_mutex_lock(&ctx->lock);
	stream->link = NULL;
	stream->next = ctx->streams;
	if (stream->next)
		stream->next->link = stream;
	ctx->streams = stream;
	pthread_mutex_unlock(&ctx->lock);
	store_release(&stream->magic, STREAM_MAGIC);
	if (kind == STREAM_CREATED)
		store_release(&stream->plain, STREAM_PLAIN);
	*out = stream;
	return CUDA_SUCCESS;
}

CUresult stream_destroy(CUstream stream)
{
	CUresult result;

	touch_check();
	/* If the lock can be had now, nobody submits to what is destroyed, so it can later. */
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
	lock_drop(&stream->lock);
	if (queue)
		queue_put(queue);
	lock_take(&queue_lock);
	stream->next = free_streams;
	free_streams = stream;
	lock_drop(&queue_lock);
}

void ctx_release_streams(CUcontext ctx)
{
	struct queue *queue;

	store_release(&ctx->legacy, NULL);
	store_release(&ctx->whole, NULL);
	for (;;) {
		CUstream stream;

		pthread_mutex_lock(&ctx->lock);
		stream = ctx->streams;
		pthread_mutex_unlock(&ctx->lock);
		if (!stream)
			break;
		/* Another thread has claimed it, and will take it out of the list. */
		if (stream_destroy(stream))
			lock_doze();
	}
	/* A thread that had found its stream before may have submitted since the context's work ended. */
	queues_wait(&ctx->active, true, NULL);
	active_clear(&ctx->active);
	/* What failed in this life must not fail the next one of the same structure. */
	for (queue = load_acquire(&ctx_device(ctx)->queues); queue; queue = queue->next) {
		CUcontext owner = ctx;

		__atomic_compare_exchange_n(&queue->ctx, &owner, NULL, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
	}
	queues_sweep();
}

/* One of the streams that a context has one of. */
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

/* ---- order */

static struct queue *legacy_queue(CUcontext ctx)
{
	CUstream legacy = load_acquire(&ctx->legacy);

	return legacy ? load_acquire(&legacy->queue) : NULL;
}

bool stream_idle(CUstream stream)
{
	struct queue *queue = load_acquire(&stream->queue);

	if (queue && !queue_idle(queue))
		return false;
	if (likely(load_acquire(&stream->clear)))
		return true;
	if (stream->kind == STREAM_LEGACY_KIND)
		return queues_idle(stream->ctx, false);
	if (unlikely(stream->kind == STREAM_CONTEXT))
		return queues_idle(stream->ctx, true);
	queue = legacy_queue(stream->ctx);
	return !queue || queue_idle(queue);
}

void queue_know(struct queue *queue, uint64_t value)
{
	/* If two do it at a time the lower value may stay, which is as true. */
	if (load_relaxed(&queue->synced) < value)
		store_relaxed(&queue->synced, value);
}

CUresult queue_follow(struct queue *queue, struct queue *other, uint64_t value)
{
	struct gpumem_sqe sqe = {
		.op = GPUMEM_OP_WAIT, .handle = other->timeline, .value = value,
	};
	CUresult result = ring_put(queue, &sqe);
	unsigned int i, place;

	if (result)
		return result;
	lock_take(&queue->past_lock);
	place = queue->pasts++ % QUEUE_PAST;
	/* What waits for one queue again and again does not forget the others. */
	for (i = 0; queue->pasts > QUEUE_PAST && i < QUEUE_PAST; i++)
		if (queue->past[i].queue == other &&
		    (queue->past[place].queue != other || queue->past[i].at < queue->past[place].at))
			place = i;
	queue->past[place] = (struct past){
		.at = load_relaxed(&queue->tail), .queue = other, .value = value,
	};
	lock_drop(&queue->past_lock);
	return CUDA_SUCCESS;
}

/* @depth: over how many waits of waits to go */
static bool follows(struct queue *queue, uint64_t at, struct queue *other, uint64_t value,
		    unsigned int depth)
{
	struct past past[QUEUE_PAST];
	unsigned int count, i;

	lock_take(&queue->past_lock);
	count = queue->pasts < QUEUE_PAST ? queue->pasts : QUEUE_PAST;
	memcpy(past, queue->past, count * sizeof(*past));
	lock_drop(&queue->past_lock);
	for (i = 0; i < count; i++)
		if (past[i].at <= at && past[i].queue == other && past[i].value >= value)
			return true;
	for (i = 0; depth && i < count; i++)
		if (past[i].at <= at && past[i].queue != queue &&
		    follows(past[i].queue, past[i].value, other, value, depth - 1))
			return true;
	return false;
}

bool queue_follows(struct queue *queue, uint64_t at, struct queue *other, uint64_t value)
{
	return follows(queue, at, other, value, 2);
}

/*
 * Waiting for many queues: their number has no bound, but a ring has. What does not fit into a part
 * of the ring is waited for in helping queues, and for these in the ring.
 */
#define JOIN_SELF	4u
#define JOIN_HELPER	128u

struct join {
	CUstream stream;
	struct queue *queue;		/* of the stream */
	struct queue *helper;		/* of nobody else, or NULL */
	unsigned int count;		/* waits in the queue, then in the helper */
};

/* What the helper has got is waited for; it goes to the recycling list with it. */
static CUresult join_finish(struct join *join, CUresult result)
{
	struct queue *helper = join->helper;
	CUresult known;

	if (!helper)
		return result;
	join->helper = NULL;
	join->count = 0;
	known = ring_finish(helper, CUDA_SUCCESS);
	if (known) {
		/* It may have got what the kernel was not told of: nobody must wait for it. */
		active_remove(helper);
		store_relaxed(&helper->ctx, NULL);
		queue_end(helper);
		return result ? result : known;
	}
	if (!result)
		result = queue_follow(join->queue, helper, load_relaxed(&helper->tail));
	queue_put(helper);
	return result;
}

static CUresult join_add(struct join *join, struct queue *other, uint64_t value)
{
	CUresult result = CUDA_SUCCESS;

	if (join->count == (join->helper ? JOIN_HELPER : JOIN_SELF)) {
		result = join_finish(join, CUDA_SUCCESS);
		/* Without another queue it has to be this one, which may mean to wait for room. */
		join->helper = result ? NULL : queue_get(join->stream, true);
		join->count = 0;
	}
	join->count++;
	if (!result)
		result = queue_follow(join->helper ? join->helper : join->queue, other, value);
	return result;
}

/* The legacy stream's next entry comes after what blocking streams have queued. */
static CUresult wait_for_blocking(CUstream stream, struct queue *queue)
{
	struct join join = { .stream = stream, .queue = queue };
	CUresult result = CUDA_SUCCESS;
	struct active_walk walk;
	struct queue *other;
	uint64_t value;

	active_walk(&walk, &stream->ctx->active, false, false);
	while (!result && (other = active_next(&walk, &value))) {
		if (queue_reached(other, value) || other->legacy_seen == value)
			continue;
		result = join_add(&join, other, value);
		if (!result)
			other->legacy_seen = value;
	}
	result = join_finish(&join, result);
	/* Some of the waits may be for nobody. */
	if (unlikely(result))
		for (other = load_acquire(&ctx_device(stream->ctx)->queues); other;
		     other = other->next)
			if (load_relaxed(&other->ctx) == stream->ctx)
				other->legacy_seen = 0;
	return result;
}

/* The next entry comes after what all streams of the context have queued. */
static CUresult wait_for_context(CUstream stream, struct queue *queue)
{
	struct join join = { .stream = stream, .queue = queue };
	CUresult result = CUDA_SUCCESS;
	struct active_walk walk;
	struct queue *other;
	uint64_t value;

	active_walk(&walk, &stream->ctx->active, true, false);
	while (!result && (other = active_next(&walk, &value)))
		if (other != queue && other != join.helper && !queue_reached(other, value))
			result = join_add(&join, other, value);
	return join_finish(&join, result);
}

/* A blocking stream's next entry comes after what the legacy stream has queued. */
static CUresult wait_for_legacy(CUstream stream, struct queue *queue)
{
	struct queue *legacy = legacy_queue(stream->ctx);
	uint64_t value = legacy ? load_acquire(&legacy->tail) : 0;
	CUresult result;

	if (!legacy || queue_reached(legacy, value) || stream->legacy_seen == value)
		return CUDA_SUCCESS;
	result = queue_follow(queue, legacy, value);
	if (!result)
		stream->legacy_seen = value;
	return result;
}

static CUresult follow_once(CUstream stream, struct queue *queue)
{
	if (stream->kind == STREAM_LEGACY_KIND)
		return wait_for_blocking(stream, queue);
	if (unlikely(stream->kind == STREAM_CONTEXT))
		return wait_for_context(stream, queue);
	return stream->flags & CU_STREAM_NON_BLOCKING ? CUDA_SUCCESS :
		wait_for_legacy(stream, queue);
}

CUresult stream_follow(CUstream stream, struct queue *queue)
{
	CUresult result;

	/* A wait that finds the ring full: all of them are looked at again. */
	if (queue->following)
		return CUDA_SUCCESS;
	queue->following = true;
	do {
		queue->rested = false;
		result = follow_once(stream, queue);
	} while (!result && unlikely(queue->rested));
	queue->following = false;
	return result;
}

CUresult stream_prepare(CUstream stream, struct queue **out)
{
	struct queue *queue = stream->queue;
	CUresult result;

	if (unlikely(load_acquire(&stream->magic) != STREAM_MAGIC))
		return CUDA_ERROR_INVALID_HANDLE;
	if (unlikely(!queue)) {
		queue = queue_get(stream, false);
		if (!queue)
			return CUDA_ERROR_OUT_OF_MEMORY;
		queue->stream = stream;
		store_release(&stream->queue, queue);
	}
	*out = queue;
	if (likely(load_acquire(&stream->clear)))
		return CUDA_SUCCESS;
	order_before_legacy(stream);
	result = stream_follow(stream, queue);
	/* Some of the waits may be in the ring. */
	return result ? ring_finish(queue, result) : CUDA_SUCCESS;
}

CUresult stream_drain(CUstream stream)
{
	struct queue *queue = load_acquire(&stream->queue);
	CUresult result = CUDA_SUCCESS;

	if (queue)
		result = queue_settle(queue, load_acquire(&queue->tail));
	if (result)
		return result;
	if (stream->kind == STREAM_LEGACY_KIND)
		return queues_wait(&stream->ctx->active, false, stream->ctx);
	if (stream->flags & CU_STREAM_NON_BLOCKING)
		return CUDA_SUCCESS;
	queue = legacy_queue(stream->ctx);
	return queue ? queue_wait(queue, load_acquire(&queue->tail)) : CUDA_SUCCESS;
}

CUresult stream_moment(CUstream stream, struct queue **out, uint64_t *value)
{
	struct queue *queue, *legacy;
	CUresult result;

	*out = NULL;
	if (stream_idle(stream))
		return CUDA_SUCCESS;
	queue = load_acquire(&stream->queue);
	if (queue && stream->kind != STREAM_LEGACY_KIND && stream->kind != STREAM_CONTEXT) {
		legacy = stream->flags & CU_STREAM_NON_BLOCKING ? NULL : legacy_queue(stream->ctx);
		if (!legacy || queue_idle(legacy)) {
			*out = queue;
			*value = load_acquire(&queue->tail);
			return CUDA_SUCCESS;
		}
	}
	/* What the stream's next entry would wait for is part of the moment. */
	result = stream_lock(stream);
	if (result)
		return result;
	result = stream_prepare(stream, &queue);
	if (!result) {
		result = ring_finish(queue, CUDA_SUCCESS);
		*out = queue;
		*value = load_relaxed(&queue->tail);
	}
	lock_drop(&stream->lock);
	return result;
}

void queues_busy(void (*each)(struct queue *queue, uint64_t value, void *arg), void *arg)
{
	struct active *active;

	for (active = active_first(); active; active = active->next) {
		struct active_walk walk;
		struct queue *queue;
		uint64_t value;

		active_walk(&walk, active, true, false);
		while ((queue = active_next(&walk, &value)))
			if (!queue_reached(queue, value))
				each(queue, value, arg);
	}
}

/* ---- waiting for work */

CUresult stream_query(CUstream stream)
{
	struct queue *queue = load_acquire(&stream->queue);

	if ((queue && !queue_idle(queue)) ||
	    (stream->kind == STREAM_LEGACY_KIND && !queues_idle(stream->ctx, false))) {
		/* It may be held by a turn of this thread's own. */
		touch_check();
		return CUDA_ERROR_NOT_READY;
	}
	return queue ? queue_error(queue) : CUDA_SUCCESS;
}

CUresult stream_synchronize(CUstream stream)
{
	struct queue *queue = load_acquire(&stream->queue);

	if (stream->kind == STREAM_LEGACY_KIND)
		return stream_drain(stream);
	return queue ? queue_settle(queue, load_acquire(&queue->tail)) : CUDA_SUCCESS;
}

CUresult ctx_synchronize(CUcontext ctx)
{
	return queues_wait(&ctx->active, true, ctx);
}

/* All contexts on all devices: streams of one device reach the memory of the others. */
CUresult work_synchronize(void)
{
	CUresult first = CUDA_SUCCESS;
	CUcontext ctx = ctx_top();
	struct active *active;

	for (active = active_first(); active; active = active->next) {
		CUresult result = queues_wait(active, true, ctx);

		if (!first && ctx)
			first = result;
	}
	return first;
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
		/* Hints about caches and about fences between kernels: there are neither. */
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
