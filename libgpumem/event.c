// SPDX-License-Identifier: MIT
/*
 * Events: points in streams.
 *
 * Owns all CUevent_st and the memory that queued timestamps are written to. A recorded event is a
 * pair (queue, value): it is done when the queue's timeline has reached the value. No entry is
 * needed for that. An event that was recorded when its stream was idle has no queue: it is done.
 * With timing, the time is taken by the caller if the stream is idle, else by a TIMESTAMP entry
 * that writes to a slot of 8 bytes in a buffer object of the library.
 *
 * Invariants: what an event says is written with its lock held and its sequence count odd; queries
 * read it without the lock. A slot is used again only after the entry that writes to it is done.
 * Events hold nothing of a context, so they survive it.
 *
 * An event that other processes reach (ipc_event.c) tells the kernel what it says with each record;
 * what is asked about it is asked there.
 *
 * Vocabulary: slot, where an entry writes its time; point (event.h).
 */
#include <stdlib.h>

#include "event.h"

#define EVENT_FLAGS	(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)
#define SLOT_PAGES	(64ull << 10)	/* bytes of slots that are got at a time */

static struct lock slot_lock;
static struct slot *free_slots;		/* slot_lock; newest first, perhaps still to be written */
static uint64_t fresh_slots, fresh_end;	/* slot_lock; never used yet */
static CUevent free_events;		/* slot_lock */

/* ---- slots */

static struct slot *slot_get(CUdevice device)
{
	struct slot **link, *slot;

	lock_take(&slot_lock);
	for (link = &free_slots; (slot = *link); link = &slot->next)
		if (!slot->queue || queue_reached(slot->queue, slot->value))
			break;
	if (slot) {
		*link = slot->next;
		goto out;
	}
	if (fresh_slots == fresh_end) {
		fresh_slots = mem_internal(device, SLOT_PAGES, "timestamps");
		fresh_end = fresh_slots ? fresh_slots + SLOT_PAGES : 0;
	}
	slot = fresh_slots ? calloc(1, sizeof(*slot)) : NULL;
	if (slot) {
		slot->addr = fresh_slots;
		fresh_slots += sizeof(uint64_t);
	}
out:
	lock_drop(&slot_lock);
	return slot;
}

static void slot_put(struct slot *slot, struct queue *queue, uint64_t value)
{
	if (!slot)
		return;
	slot->queue = queue;
	slot->value = value;
	lock_take(&slot_lock);
	slot->next = free_slots;
	free_slots = slot;
	lock_drop(&slot_lock);
}

/* ---- what an event says */

static void point_read(CUevent event, struct point *point)
{
	uint32_t seq;

	do {
		seq = load_acquire(&event->seq);
		point->recorded = load_relaxed(&event->point.recorded);
		point->queue = load_relaxed(&event->point.queue);
		point->value = load_relaxed(&event->point.value);
		point->ns = load_relaxed(&event->point.ns);
		point->slot = load_relaxed(&event->point.slot);
		fence_acquire();
	} while (unlikely(seq & 1 || load_relaxed(&event->seq) != seq));
}

/* event->lock is held. */
static void point_write(CUevent event, const struct point *point)
{
	store_relaxed(&event->seq, event->seq + 1);
	fence_release();
	store_relaxed(&event->point.recorded, point->recorded);
	store_relaxed(&event->point.queue, point->queue);
	store_relaxed(&event->point.value, point->value);
	store_relaxed(&event->point.ns, point->ns);
	store_relaxed(&event->point.slot, point->slot);
	/* Read alone: whoever sees it sees what was done before. */
	store_release(&event->easy, point->recorded && !point->queue && !point->slot &&
		      !(event->flags & CU_EVENT_INTERPROCESS) ? EVENT_EASY : 0);
	store_release(&event->seq, event->seq + 1);
}

static bool point_done(const struct point *point)
{
	return !point->queue || queue_reached(point->queue, point->value);
}

/*
 * The queue may be another context's by now, whose failures are not the event's: what the event
 * recorded was done before.
 */
static CUresult point_wait(CUevent event, const struct point *point)
{
	CUresult result;

	if (!point->queue)
		return CUDA_SUCCESS;
	result = event->flags & CU_EVENT_BLOCKING_SYNC ?
		queue_sleep(point->queue, point->value) : queue_wait(point->queue, point->value);
	if (unlikely(result) && queue_status(point->queue))
		host_settle(point->queue, point->value);
	return load_relaxed(&point->queue->ctx) == event->ctx ? result : CUDA_SUCCESS;
}

/* ---- the functions */

/* An event that nobody knows yet. */
static CUevent event_new(CUcontext ctx, unsigned int flags)
{
	CUevent event;

	lock_take(&slot_lock);
	event = free_events;
	if (event)
		free_events = event->next;
	lock_drop(&slot_lock);
	if (!event)
		event = calloc(1, sizeof(*event));
	if (!event)
		return NULL;
	event->flags = flags;
	event->ctx = ctx;
	point_write(event, &(struct point){ .recorded = false });
	return event;
}

static void event_free(CUevent event)
{
	lock_take(&slot_lock);
	event->next = free_events;
	free_events = event;
	lock_drop(&slot_lock);
}

CUresult event_create(CUevent *out, unsigned int flags)
{
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);
	CUevent event;

	if (result)
		return result;
	if (!out || flags & ~EVENT_FLAGS ||
	    (flags & CU_EVENT_INTERPROCESS && !(flags & CU_EVENT_DISABLE_TIMING)))
		return CUDA_ERROR_INVALID_VALUE;
	event = event_new(ctx, flags);
	if (!event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	store_release(&event->magic, EVENT_MAGIC);
	*out = event;
	return CUDA_SUCCESS;
}

CUresult event_get_handle(CUipcEventHandle *handle, CUevent event)
{
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);

	if (result)
		return result;
	if (!handle || !event)
		return CUDA_ERROR_INVALID_VALUE;
	if (!event_valid(event) || !(event->flags & CU_EVENT_INTERPROCESS))
		return CUDA_ERROR_INVALID_HANDLE;
	lock_take(&event->lock);
	if (event->ipc.import) {
		result = CUDA_ERROR_INVALID_HANDLE;
	} else if (!event->ipc.id) {
		struct ipc_event ipc = { .id = 0 };

		result = ipc_event_make(&ipc);
		/* Nobody asks the kernel before it knows what was recorded so far. */
		if (!result && event->point.queue)
			result = ipc_event_record(&ipc, event->point.queue, event->point.value);
		if (result && ipc.id)
			ipc_event_drop(&ipc);
		if (!result) {
			memcpy(event->ipc.token, ipc.token, sizeof(ipc.token));
			store_release(&event->ipc.id, ipc.id);
		}
	}
	if (!result)
		ipc_event_handle(&event->ipc, handle);
	lock_drop(&event->lock);
	return result;
}

CUresult event_open_handle(CUevent *out, const CUipcEventHandle *handle)
{
	struct ipc_event ipc;
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);
	CUevent event;

	if (result)
		return result;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	result = ipc_event_open(&ipc, handle);
	if (result)
		return result;
	event = event_new(ctx, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING);
	if (!event) {
		ipc_event_drop(&ipc);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	event->ipc = ipc;
	store_release(&event->magic, EVENT_MAGIC);
	*out = event;
	return CUDA_SUCCESS;
}

CUresult event_destroy(CUevent event)
{
	uint32_t magic = EVENT_MAGIC;

	if ((uintptr_t)event < PAGE ||
	    !__atomic_compare_exchange_n(&event->magic, &magic, 0, false, __ATOMIC_ACQ_REL,
					 __ATOMIC_RELAXED))
		return CUDA_ERROR_INVALID_HANDLE;
	lock_take(&event->lock);
	slot_put(event->point.slot, event->point.queue, event->point.value);
	point_write(event, &(struct point){ .recorded = false });
	if (event->ipc.id)
		ipc_event_drop(&event->ipc);
	lock_drop(&event->lock);
	event_free(event);
	return CUDA_SUCCESS;
}

/* Find out what the event is to say, with an entry if it needs one. stream->lock is held. */
static CUresult record_in(CUstream stream, bool timing, struct point *point)
{
	struct gpumem_sqe sqe = { .op = GPUMEM_OP_TIMESTAMP };
	struct queue *queue;
	CUresult result;

	point->recorded = true;
	if (stream_idle(stream) && (client.inlining || !timing)) {
		if (timing)
			point->ns = event_clock();
		return CUDA_SUCCESS;
	}
	result = stream_prepare(stream, &queue);
	if (result)
		return result;
	if (timing) {
		point->slot = slot_get(stream->ctx->device);
		if (point->slot) {
			sqe.dst = point->slot->addr;
			result = ring_put(queue, &sqe);
		} else {
			result = CUDA_ERROR_OUT_OF_MEMORY;
		}
	}
	/* stream_prepare() may have queued waits: they count as work. */
	result = ring_finish(queue, result);
	point->queue = queue;
	point->value = load_relaxed(&queue->tail);
	if (result)
		slot_put(point->slot, queue, point->value);
	return result;
}

CUresult event_record(CUevent event, CUstream stream)
{
	struct point point = { .recorded = false };
	CUresult result;

	if (!event_valid(event))
		return CUDA_ERROR_INVALID_HANDLE;
	if (event->ctx != stream->ctx)
		return CUDA_ERROR_INVALID_HANDLE;
	result = stream_lock(stream);
	if (result)
		return result;
	/* The next recording need not look at the legacy stream. */
	if (unlikely(!load_acquire(&stream->clear)))
		order_clear(stream);
	result = record_in(stream, !(event->flags & CU_EVENT_DISABLE_TIMING), &point);
	if (!result) {
		lock_take(&event->lock);
		if (event->ipc.id)
			result = ipc_event_record(&event->ipc, point.queue, point.value);
		slot_put(event->point.slot, event->point.queue, event->point.value);
		point_write(event, &point);
		lock_drop(&event->lock);
	}
	lock_drop(&stream->lock);
	return result;
}

CUresult event_query(CUevent event)
{
	struct point point;

	if (!event_valid(event))
		return CUDA_ERROR_INVALID_HANDLE;
	if (load_acquire(&event->ipc.id))
		return ipc_event_query(&event->ipc);
	point_read(event, &point);
	if (!point_done(&point)) {
		/* It may come after a turn of this thread's own. */
		touch_check();
		return CUDA_ERROR_NOT_READY;
	}
	return point_wait(event, &point);
}

CUresult event_synchronize(CUevent event)
{
	struct point point;

	if (!event_valid(event))
		return CUDA_ERROR_INVALID_HANDLE;
	if (load_acquire(&event->ipc.id))
		return ipc_event_synchronize(&event->ipc);
	point_read(event, &point);
	return point_wait(event, &point);
}

CUresult event_wait(CUstream stream, CUevent event, unsigned int flags)
{
	struct queue *queue;
	struct point point;
	CUresult result;

	if (!event_valid(event))
		return CUDA_ERROR_INVALID_HANDLE;
	if (flags & ~CU_EVENT_WAIT_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	if (load_acquire(&event->ipc.id))
		return ipc_event_wait(stream, &event->ipc);
	point_read(event, &point);
	if (point_done(&point)) {
		if (point.queue)
			queue_know(point.queue, point.value);
		return CUDA_SUCCESS;
	}
	result = stream_lock(stream);
	if (result)
		return result;
	if (stream->queue != point.queue) {
		result = stream_prepare(stream, &queue);
		if (!result)
			result = ring_finish(queue, queue_follow(queue, point.queue, point.value));
	}
	lock_drop(&stream->lock);
	return result;
}

static CUresult wait_each(CUstream stream, void *event)
{
	return stream->kind == STREAM_CONTEXT ? CUDA_SUCCESS : event_wait(stream, event, 0);
}

/* A context's handle, an event's, and the context's error. */
static CUresult context_check(CUcontext ctx, CUevent event)
{
	CUresult result = ctx_valid(ctx);

	if (result)
		return result;
	return event_valid(event) ? load_relaxed(&ctx->sticky) : CUDA_ERROR_INVALID_HANDLE;
}

CUresult event_record_context(CUcontext ctx, CUevent event)
{
	CUresult result = context_check(ctx, event);
	CUstream stream;

	if (!result)
		result = context_stream(ctx, &stream);
	return result ? result : event_record(event, stream);
}

CUresult event_wait_context(CUcontext ctx, CUevent event)
{
	CUresult result = context_check(ctx, event);

	return result ? result : streams_each(ctx, wait_each, event);
}

static uint64_t point_ns(const struct point *point)
{
	return point->slot ? load_relaxed((uint64_t *)(uintptr_t)point->slot->addr) : point->ns;
}

CUresult event_elapsed(float *milliseconds, CUevent start, CUevent end)
{
	struct point from, to;

	if (!milliseconds || !event_valid(start) || !event_valid(end) ||
	    (start->flags | end->flags) & CU_EVENT_DISABLE_TIMING || start->ctx != end->ctx)
		return CUDA_ERROR_INVALID_HANDLE;
	point_read(start, &from);
	point_read(end, &to);
	if (!from.recorded || !to.recorded)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!point_done(&from) || !point_done(&to))
		return CUDA_ERROR_NOT_READY;
	*milliseconds = (double)(int64_t)(point_ns(&to) - point_ns(&from)) / 1e6;
	return CUDA_SUCCESS;
}
