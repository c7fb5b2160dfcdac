// SPDX-License-Identifier: MIT
/*
 * Queues: how the library gets kernel streams, and gives back those that failed.
 *
 * A queue that failed does nothing any more. One that belongs to nobody but its user (queue_make()) is
 * given back with all it has. One that a stream had keeps its structure and its timeline's page,
 * because events point at them and other queues may still be about to wait for the timeline: what goes
 * is the kernel's stream, and the ring.
 *
 * Invariants: a queue that a stream has has a ring. Whoever looks into the ring of another one holds
 * past_lock.
 *
 * Locks: queue->past_lock, inside all others.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "internal.h"
#include "ring.h"

#define RING_LENGTH	(GPUMEM_RING_SQES + QUEUE_ENTRIES * sizeof(struct gpumem_sqe))

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

	/* The kernel has pages of its own to finish with what is in the ring. */
	client_destroy_id(queue->id);
	lock_take(&queue->past_lock);
	queue->ring = NULL;
	queue->sqes = NULL;
	lock_drop(&queue->past_lock);
	munmap(ring, RING_LENGTH);
}

void queue_free(struct queue *queue)
{
	queue_end(queue);
	client_destroy_id(queue->timeline);
	munmap((void *)(uintptr_t)queue->page, PAGE);
	free(queue);
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
