// SPDX-License-Identifier: MIT
/*
 * Queues: making, recycling and ending kernel streams, and room in their rings.
 *
 * Owns all queues. The queue of a destroyed stream goes to a recycling list with whatever is still in it, and
 * the next stream of the same device and priority takes it when it is idle. Its timeline continues under the
 * next stream, so old events stay complete. The structure of a stream's queue is never freed, and its timeline
 * is never unmapped, because events point at them. A private queue of queue_make(), which has one user, is freed.
 *
 * A failed queue executes only ADD entries. A stream's queue is ended when the stream is destroyed or, if it
 * fails later, when a context is destroyed. Ending it destroys its kernel stream and its ring. It keeps its
 * structure and its timeline's page, because events point at them and other queues may be about to wait for the
 * timeline. queue_own() replaces a failed private queue when it is used next.
 *
 * The kernel allocates a page of a ring when it is first touched. Pages are touched in order, by
 * madvise(), which can fail, before an entry is written to them.
 *
 * Invariants: the queue of a stream has a ring. queue->tail and the ring are written with the owning
 * stream's lock held. A thread that reads the ring of another stream's queue holds past_lock.
 *
 * Locks: queue_lock for the recycling list and for adding to device->queues; queue->past_lock, inside all others.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "exec/exec.h"

#define RING_LENGTH	(GPUMEM_RING_SQES + QUEUE_ENTRIES * sizeof(struct gpumem_sqe))

static struct lock queue_lock;
static struct queue *idle_queues;	/* the recycling list, also of busy queues; queue_lock */

/* ---- making, giving back */

struct queue *queue_make(CUdevice device, int priority)
{
	struct gpumem_stream_create create = {
		.size = sizeof(create), .vm = client.vm, .device = client.device[device].index,
		.priority = priority, .entries = QUEUE_ENTRIES,
	};
	struct queue *queue = calloc(1, sizeof(*queue));
	void *ring, *page;

	if (!queue)
		return NULL;
	if (client_ioctl(GPUMEM_STREAM_CREATE, &create))
		goto free_queue;
	ring = mmap(NULL, RING_LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, client.fd,
		    GPUMEM_MMAP_OFFSET(create.id));
	if (ring == MAP_FAILED)
		goto destroy;
	page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, client.fd,
		    GPUMEM_MMAP_OFFSET(create.timeline));
	if (page == MAP_FAILED)
		goto unmap;
	queue->id = create.id;
	queue->timeline = create.timeline;
	queue->device = device;
	queue->priority = priority;
	queue->ring = ring;
	queue->sqes = (struct gpumem_sqe *)((char *)ring + GPUMEM_RING_SQES);
	queue->page = page;
	return queue;

unmap:
	munmap(ring, RING_LENGTH);
destroy:
	client_destroy_id(create.timeline);
	client_destroy_id(create.id);
free_queue:
	free(queue);
	return NULL;
}

bool queue_failed(const struct queue *queue)
{
	return load_relaxed(&queue->page->error);
}

void queue_end(struct queue *queue)
{
	struct gpumem_ring *ring = queue->ring;

	/* The kernel has a reference on the ring's pages, so this process may unmap them. */
	client_destroy_id(queue->id);
	lock_take(&queue->past_lock);
	queue->ring = NULL;
	queue->sqes = NULL;
	lock_drop(&queue->past_lock);
	munmap(ring, RING_LENGTH);
}

void queue_free(struct queue *queue)
{
	if (queue->ring)
		queue_end(queue);
	if (queue->timeline)
		client_destroy_id(queue->timeline);
	munmap((void *)(uintptr_t)queue->page, PAGE);
	free(queue);
}

struct queue *queue_own(struct queue **own, CUdevice device)
{
	struct queue *queue = load_relaxed(own), *fresh;

	/* A failed queue does no work. */
	if (likely(queue && !queue_failed(queue)))
		return queue;
	fresh = queue_make(device, 0);
	if (!fresh && queue && queue->ring) {
		/* The failed queue may take up what a limit permits: a stream, memory of rings, ids of objects. */
		queue_end(queue);
		client_destroy_id(queue->timeline);
		queue->timeline = 0;
		fresh = queue_make(device, 0);
	}
	if (fresh) {
		store_release(own, fresh);
		if (queue)
			queue_free(queue);
	}
	return fresh;
}

/* ---- recycling */

struct queue *queue_get(CUstream stream, CUdevice device, bool helper)
{
	bool blocking = !helper && stream->kind != STREAM_LEGACY_KIND &&
		!(stream->flags & CU_STREAM_NON_BLOCKING);
	struct queue **link, *queue;

	lock_take(&queue_lock);
	for (link = &idle_queues; (queue = *link); link = &queue->next_idle)
		if (queue->device == device && queue->priority == load_relaxed(&stream->priority) &&
		    queue_idle(queue) && !load_relaxed(&queue->page->error))
			break;
	if (queue) {
		*link = queue->next_idle;
		queue->delegate_of = 0;
	}
	lock_drop(&queue_lock);
	if (queue) {
		active_move(queue, stream->ctx, blocking);
		return queue;
	}
	queue = queue_make(device, load_relaxed(&stream->priority));
	if (!queue)
		return NULL;
	queue->ctx = stream->ctx;
	queue->blocking = blocking;
	lock_take(&queue_lock);
	queue->next = client.device[device].queues;
	store_release(&client.device[device].queues, queue);
	lock_drop(&queue_lock);
	return queue;
}

struct queue *queue_get_delegate(CUstream stream, CUdevice device, unsigned int entries)
{
	struct queue **link, *queue;

	lock_take(&queue_lock);
	for (link = &idle_queues; (queue = *link); link = &queue->next_idle)
		if (queue->delegate_of == stream->id && queue->device == device && !queue_failed(queue) &&
		    queue->priority == load_relaxed(&stream->priority) &&
		    queue->tail + entries - load_relaxed(&queue->page->value) <= QUEUE_ENTRIES)
			break;
	if (queue)
		*link = queue->next_idle;
	lock_drop(&queue_lock);
	if (queue)
		return queue;
	queue = queue_get(stream, device, true);
	if (queue)
		queue->delegate_of = stream->id;
	return queue;
}

void queue_put(struct queue *queue)
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

void queues_sweep(void)
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

/* ---- rings */

CUresult queue_touch(struct queue *queue, unsigned int entries)
{
	uint64_t want = load_relaxed(&queue->tail) + entries;

	if (want > QUEUE_ENTRIES)
		want = QUEUE_ENTRIES;
	while (queue->touched < want) {
		void *page = (char *)queue->sqes + queue->touched * sizeof(struct gpumem_sqe);
		int error = pages_populate((uintptr_t)page, PAGE);

		/* EFAULT: a limit of the module refused the page. */
		if (unlikely(error)) {
			if (client.debug)
				debug_refused_call("madvise of a ring", error);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		queue->touched += PAGE / sizeof(struct gpumem_sqe);
	}
	return CUDA_SUCCESS;
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
		 * An entry leaves the ring when it is done; entries behind failed work are done at once. The
		 * stream's lock is held during the wait, but it keeps out only threads that would find the
		 * ring full, too. The work that the ring waits for needs no lock of this stream: entries of
		 * other streams are in their rings and kicked, host functions use stream_lock(), and
		 * synchronizing takes no stream's lock.
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
	if (unlikely(queue->touched < QUEUE_ENTRIES)) {
		CUresult result = queue_touch(queue, entries);

		if (result)
			return result;
	}
	/* Until all slots have been written once, the first unwritten slot is free. */
	queue->ready = queue->touched < QUEUE_ENTRIES ? queue->touched :
		load_acquire(&queue->page->value) + QUEUE_ENTRIES;
	return CUDA_SUCCESS;
}

CUresult queue_doorbell(struct queue *queue)
{
	struct gpumem_stream_doorbell doorbell = { .size = sizeof(doorbell), .id = queue->id };

	return result_of_errno(client_ioctl(GPUMEM_STREAM_DOORBELL, &doorbell));
}

__attribute__((no_sanitize("thread"))) bool queue_entry(struct queue *queue, uint64_t value,
							struct gpumem_sqe *sqe)
{
	bool there;

	lock_take(&queue->past_lock);
	there = queue->sqes;
	if (there)
		*sqe = queue->sqes[value % QUEUE_ENTRIES];
	lock_drop(&queue->past_lock);
	return there;
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
