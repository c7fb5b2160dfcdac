/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers for the tests of work on DMA-bufs: which fences exist, and whether a stream waits.
 * Include this after kselftest_harness.h.
 */
#ifndef GPUMEM_SELFTESTS_SHARE_UTIL_H
#define GPUMEM_SELFTESTS_SHARE_UTIL_H

#include <errno.h>
#include <poll.h>

#include "common/util.h"

/*
 * The events of poll(): POLLIN if the DMA-buf has no writer's fence, POLLOUT if it has no fence at
 * all.
 */
static inline int ready(int dmabuf)
{
	struct pollfd p = { .fd = dmabuf, .events = POLLIN | POLLOUT };

	return poll(&p, 1, 0) < 0 ? -errno : p.revents;
}

/* Wait until the DMA-buf has a writer's fence. */
static inline bool becomes_busy(int dmabuf)
{
	for (int i = 0; i < 1000 && ready(dmabuf); i++)
		nap_ms(10);
	return !ready(dmabuf);
}

/* Is the stream's value still @at after five entries of @other were executed, 5 ms apart?  */
static inline bool stands_still(struct stream *s, struct stream *other, __u64 at)
{
	for (int i = 0; i < 5; i++) {
		struct gpumem_sqe nop = sqe_nop();

		if (stream_push(other, &nop) || stream_sync(other))
			return false;
		nap_ms(5);
	}
	return __atomic_load_n(&s->page->value, __ATOMIC_ACQUIRE) == at;
}

#define PUSH(stream, ...) do {						\
	struct gpumem_sqe sqe_ = __VA_ARGS__;				\
	ASSERT_EQ(0, stream_push(stream, &sqe_));			\
} while (0)

struct victim {
	int dmabuf, to;
	__u64 bytes;
};

/*
 * A child: queues a fill of an imported buffer and is killed while the fill waits for the fences of
 * other users.
 */
static inline int dies_waiting(void *arg)
{
	struct victim *v = arg;
	struct gpumem_bo_import import;
	const __u64 at = 0x200000000ULL;
	struct gpumem_sqe fill = sqe_fill(at, 1, 66, v->bytes);
	struct stream s;
	__u32 vm;
	int fd = gp_open(0);

	if (fd < 0 || gp_bo_import(fd, v->dmabuf, &import) || gp_vm_create(fd, &vm) ||
	    gp_vm_map(fd, vm, import.id, 0, at, v->bytes, 1, 1) ||
	    stream_open(&s, fd, vm, 0, 16) || stream_push(&s, &fill) || !tell(v->to))
		return 1;
	pause();
	return 1;
}

/* Waits until all fences of a DMA-buf are signalled. */
static inline bool settles(int dmabuf)
{
	struct pollfd p = { .fd = dmabuf, .events = POLLOUT };

	return poll(&p, 1, 10000) == 1 && p.revents == POLLOUT;
}

#endif
