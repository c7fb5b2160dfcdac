// SPDX-License-Identifier: MIT
/*
 * Operations are executed by io_uring. A synchronous request takes a ring from the list of idle rings, or makes one,
 * and returns it when all of its operations are done. Operations of one request run at the same time.
 *
 * Where io_uring is not available (an old kernel, a seccomp filter, kernel.io_uring_disabled), the thread executes
 * the operations one after the other by pread() and pwrite() on the same descriptors.
 *
 * Locks: idle_lock for the list; not held while a ring is used.
 */
#include <errno.h>
#include <liburing.h>
#include <unistd.h>

#include "file/file.h"

#define RINGS_KEPT	16u

struct idle_ring {
	struct io_uring ring;
	struct idle_ring *next;
};

static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;
static struct idle_ring *idle;		/* idle_lock */
static unsigned int idle_count;		/* idle_lock */
static bool refused;			/* the kernel has no io_uring for this process; atomic */

int ring_make(struct io_uring *ring, unsigned int entries)
{
	int error;

	if (__atomic_load_n(&refused, __ATOMIC_RELAXED))
		return -ENOSYS;
	error = io_uring_queue_init(entries, ring, 0);
	if (error == -ENOSYS || error == -EPERM)
		__atomic_store_n(&refused, true, __ATOMIC_RELAXED);
	return error;
}

static struct idle_ring *ring_take(void)
{
	struct idle_ring *ring;

	pthread_mutex_lock(&idle_lock);
	ring = idle;
	if (ring) {
		idle = ring->next;
		idle_count--;
	}
	pthread_mutex_unlock(&idle_lock);
	if (ring)
		return ring;
	ring = malloc(sizeof(*ring));
	if (ring && ring_make(&ring->ring, RING_DEPTH)) {
		free(ring);
		ring = NULL;
	}
	return ring;
}

static void ring_end(struct idle_ring *ring)
{
	io_uring_queue_exit(&ring->ring);
	free(ring);
}

static void ring_give(struct idle_ring *ring)
{
	pthread_mutex_lock(&idle_lock);
	if (idle_count < RINGS_KEPT) {
		ring->next = idle;
		idle = ring;
		idle_count++;
		ring = NULL;
	}
	pthread_mutex_unlock(&idle_lock);
	if (ring)
		ring_end(ring);
}

void rings_end(void)
{
	struct idle_ring *ring;

	pthread_mutex_lock(&idle_lock);
	ring = idle;
	idle = NULL;
	idle_count = 0;
	pthread_mutex_unlock(&idle_lock);
	while (ring) {
		struct idle_ring *next = ring->next;

		ring_end(ring);
		ring = next;
	}
}

void operation_execute(struct operation *op)
{
	void *buffer = (void *)(uintptr_t)op->addr;
	ssize_t n;

	do {
		n = op->write ? pwrite(op->fd, buffer, op->size, op->offset) :
			pread(op->fd, buffer, op->size, op->offset);
	} while (n < 0 && errno == EINTR);
	op->result = n < 0 ? -errno : n;
	count_operation(op, false);
}

void operation_prepare(struct io_uring_sqe *sqe, struct operation *op)
{
	void *buffer = (void *)(uintptr_t)op->addr;

	if (op->write)
		io_uring_prep_write(sqe, op->fd, buffer, op->size, op->offset);
	else
		io_uring_prep_read(sqe, op->fd, buffer, op->size, op->offset);
}

/* Submit what is in the ring. The number of operations that the kernel did not take. */
static unsigned int ring_submit(struct io_uring *ring, unsigned int n)
{
	while (n) {
		int taken = io_uring_submit(ring);

		if (taken > 0)
			n -= (unsigned int)taken < n ? (unsigned int)taken : n;
		else if (taken != -EINTR && taken != -EAGAIN && taken != -EBUSY)
			break;
	}
	return n;
}

void ring_execute(struct operation *operations, unsigned int n)
{
	struct idle_ring *ring = ring_take();
	unsigned int left, i;

	if (!ring) {
		for (i = 0; i < n; i++)
			operation_execute(&operations[i]);
		return;
	}
	for (i = 0; i < n; i++) {
		struct io_uring_sqe *sqe = io_uring_get_sqe(&ring->ring);

		operation_prepare(sqe, &operations[i]);
		io_uring_sqe_set_data(sqe, &operations[i]);
	}
	left = ring_submit(&ring->ring, n);
	/* The kernel may write to the buffer until an operation is done, so nothing ends this wait. */
	for (i = 0; i < n - left; ) {
		struct io_uring_cqe *cqe;
		struct operation *op;

		if (io_uring_wait_cqe(&ring->ring, &cqe))
			continue;
		op = io_uring_cqe_get_data(cqe);
		op->result = cqe->res;
		io_uring_cqe_seen(&ring->ring, cqe);
		count_operation(op, true);
		i++;
	}
	if (!left) {
		ring_give(ring);
		return;
	}
	/* The ring still has operations that the kernel did not take: it is not used again. */
	ring_end(ring);
	for (i = n - left; i < n; i++)
		operation_execute(&operations[i]);
}
