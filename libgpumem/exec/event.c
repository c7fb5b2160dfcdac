// SPDX-License-Identifier: MIT
/*
 * Events: points in streams.
 *
 * Owns all CUevent_st and the memory that queued timestamps are written to. A recorded event is a
 * pair (queue, value): it is complete when the queue's timeline has reached the value. Recording needs no
 * entry. An event that was recorded when its stream was idle has no queue: it is complete.
 * With timing, the time is taken by the caller if the stream is idle, else by a TIMESTAMP entry
 * that writes to a slot of 8 bytes in a buffer object of the library.
 *
 * Invariants: an event's point is written with the event's lock held and its sequence count odd, except the time
 * of a complete event (event.h). Queries read the point without the lock. A slot is used again only after the
 * entry that writes to it is done. Events hold nothing of a context, so they survive it.
 *
 * Recording an event that other processes reach (ipc_event.c) also reports the pair to the kernel, and queries
 * of such an event ask the kernel.
 *
 * Locks: event->lock for the point; slot_lock for slots and unused events, inside event->lock. slot_lock is not
 * held while memory is allocated.
 *
 * Vocabulary: slot, where an entry writes its time; point (event.h).
 */
#include <stdlib.h>

#include "exec/exec.h"

#define EVENT_FLAGS	(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)
#define SLOT_PAGES	(64ull << 10)	/* bytes of slots that are allocated at a time */

#define SLOT_TRIES	64		/* free slots that a thread checks before it allocates more */

static struct lock slot_lock;
static struct slot *free_slots;		/* slot_lock; an entry may still write to them */
static struct slot **last_slot = &free_slots;	/* slot_lock */
static uint64_t fresh_slots, fresh_end;	/* addresses of slots never used so far; slot_lock */
static bool slots_growing;		/* a thread allocates fresh slots; slot_lock */
static uint32_t slots_grown;		/* how often a thread stopped doing so; slot_lock to write; a futex */
static CUevent free_events;		/* slot_lock */

/* ---- slots */

/* slot_lock is held. */
static void slot_append(struct slot *slot)
{
	slot->next = NULL;
	*last_slot = slot;
	last_slot = &slot->next;
}

/*
 * A free slot that no entry will write, or NULL if the next @tries slots may still be written. Those go to the
 * end of the list, so that the next call looks at others. slot_lock is held.
 */
static struct slot *slot_free(unsigned int tries)
{
	struct slot *slot, *begin = NULL;

	while ((slot = free_slots) && slot != begin && tries--) {
		free_slots = slot->next;
		if (!free_slots)
			last_slot = &free_slots;
		if (!slot->queue || queue_reached(slot->queue, slot->value))
			return slot;
		slot_append(slot);
		if (!begin)
			begin = slot;
	}
	return NULL;
}

/*
 * Allocate fresh slots, or wait until another thread has done so. slot_lock is held, and dropped in between.
 * False: there is no memory.
 */
static bool slots_grow(CUdevice device)
{
	uint64_t addr;

	if (slots_growing) {
		uint32_t seen = slots_grown;

		lock_drop(&slot_lock);
		word_await(&slots_grown, seen);
		lock_take(&slot_lock);
		return true;
	}
	slots_growing = true;
	lock_drop(&slot_lock);
	addr = bo_internal(device, SLOT_PAGES, "timestamps");
	lock_take(&slot_lock);
	if (addr) {
		fresh_slots = addr;
		fresh_end = addr + SLOT_PAGES;
	}
	slots_growing = false;
	word_change(&slots_grown, true);
	return addr;
}

static struct slot *slot_get(CUdevice device)
{
	struct slot *slot;
	uint64_t addr;

	lock_take(&slot_lock);
	slot = slot_free(SLOT_TRIES);
	while (!slot && fresh_slots == fresh_end) {
		bool grown = slots_grow(device);

		/* Without memory for fresh slots, check the whole free list. */
		slot = slot_free(grown ? SLOT_TRIES : ~0u);
		if (!grown)
			break;
	}
	addr = slot || fresh_slots == fresh_end ? 0 : fresh_slots;
	if (addr)
		fresh_slots += sizeof(uint64_t);
	lock_drop(&slot_lock);
	if (!addr)
		return slot;
	/* Without memory for the structure, 8 bytes are lost. */
	slot = calloc(1, sizeof(*slot));
	if (slot)
		slot->addr = addr;
	return slot;
}

static void slot_put(struct slot *slot, struct queue *queue, uint64_t value)
{
	if (!slot)
		return;
	slot->queue = queue;
	slot->value = value;
	lock_take(&slot_lock);
	slot_append(slot);
	lock_drop(&slot_lock);
}

/* ---- points */

static void point_read(CUevent event, struct point *point)
{
	uint32_t seq;

	do {
		seq = seq_read_begin(&event->seq);
		point->recorded = load_relaxed(&event->point.recorded);
		point->queue = load_relaxed(&event->point.queue);
		point->value = load_relaxed(&event->point.value);
		point->ns = load_relaxed(&event->point.ns);
		point->slot = load_relaxed(&event->point.slot);
	} while (unlikely(seq_changing(seq) || seq_read_retry(&event->seq, seq)));
}

/* event->lock is held. */
static void point_write(CUevent event, const struct point *point)
{
	uint32_t seq = seq_write_begin(&event->seq);

	store_relaxed(&event->point.recorded, point->recorded);
	store_relaxed(&event->point.queue, point->queue);
	store_relaxed(&event->point.value, point->value);
	store_relaxed(&event->point.ns, point->ns);
	store_relaxed(&event->point.slot, point->slot);
	/*
	 * This word is read alone: a thread that sees it set sees everything that was done before. Beside an exclusive
	 * device it is never set, because a query also grants access to managed memory.
	 */
	store_release(&event->complete, point->recorded && !point->queue && !point->slot &&
		      !(event->flags & CU_EVENT_INTERPROCESS) && !client.exclusive ? EVENT_COMPLETE : 0);
	seq_write_end(&event->seq, seq);
}

static bool point_done(const struct point *point)
{
	return !point->queue || queue_reached(point->queue, point->value);
}

/*
 * Wait until the point is reached. By then the queue may belong to another context. That context's failures are
 * not the event's, because the event's work was done before.
 */
static CUresult point_wait(CUevent event, const struct point *point)
{
	CUresult result;

	if (!point->queue) {
		attach_synced();
		return CUDA_SUCCESS;
	}
	result = event->flags & CU_EVENT_BLOCKING_SYNC ?
		queue_sleep(point->queue, point->value) : queue_wait(point->queue, point->value);
	if (unlikely(result) && queue_status(point->queue))
		host_settle(point->queue, point->value);
	return load_relaxed(&point->queue->ctx) == event->ctx ? result : CUDA_SUCCESS;
}

/* The result of a query or a wait that the kernel has answered. */
static CUresult ipc_synced(CUresult result)
{
	if (!result)
		attach_synced();
	return result;
}

/* ---- the functions */

/* A new event. No other thread knows it yet. */
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
	if (!event_valid(event) || !(event->flags & CU_EVENT_INTERPROCESS))
		return CUDA_ERROR_INVALID_HANDLE;
	lock_take(&event->lock);
	if (event->ipc.import) {
		result = CUDA_ERROR_INVALID_HANDLE;
	} else if (!event->ipc.id) {
		struct ipc_event ipc = { .id = 0 };

		result = ipc_event_make(&ipc);
		/* The kernel must have the recorded pair before other processes can query the event. */
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

/* Make the point that an event records, and put a TIMESTAMP entry if it needs one. stream->lock is held. */
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
	/* Enter the list of used streams, so that the next recording need not check the legacy stream. */
	if (unlikely(!load_acquire(&stream->legacy_done)))
		order_check_legacy(stream);
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
		return ipc_synced(ipc_event_query(&event->ipc));
	point_read(event, &point);
	if (!point_done(&point)) {
		/* The recorded work may be behind a hold of this thread. */
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
		return ipc_synced(ipc_event_synchronize(&event->ipc));
	point_read(event, &point);
	return point_wait(event, &point);
}

CUresult event_wait(CUstream stream, CUevent event, unsigned int flags)
{
	struct queue *queue;
	struct point point;
	CUresult result;

	if (flags & ~CU_EVENT_WAIT_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	if (!event_valid(event))
		return CUDA_ERROR_INVALID_HANDLE;
	/* The flag is for streams that are being captured. No stream ever is. */
	if (flags)
		return CUDA_ERROR_ILLEGAL_STATE;
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

/* Check the handles of a context and of an event, and return the context's error. */
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

	if (!event_valid(start) || !event_valid(end) ||
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
