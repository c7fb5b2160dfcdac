/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What tests of work on DMA-bufs ask: which fences there are, and whether a stream waits.
 * Include this after kselftest_harness.h.
 */
#ifndef GPUMEM_SELFTESTS_SHARE_UTIL_H
#define GPUMEM_SELFTESTS_SHARE_UTIL_H

#include <errno.h>
#include <poll.h>

#include "util.h"

/* What poll() says: POLLIN when no writer is at work, POLLOUT when nobody is. */
static inline int ready(int dmabuf)
{
	struct pollfd p = { .fd = dmabuf, .events = POLLIN | POLLOUT };

	return poll(&p, 1, 0) < 0 ? -errno : p.revents;
}

/* Waits until a writer's fence is there. */
static inline bool becomes_busy(int dmabuf)
{
	for (int i = 0; i < 1000 && ready(dmabuf); i++)
		nap_ms(10);
	return !ready(dmabuf);
}

/* Has the stream done nothing, though it was given time?  @other shows that time went by. */
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

/* Waits until all fences of a DMA-buf are signalled. */
static inline bool settles(int dmabuf)
{
	struct pollfd p = { .fd = dmabuf, .events = POLLOUT };

	return poll(&p, 1, 10000) == 1 && p.revents == POLLOUT;
}

#endif
