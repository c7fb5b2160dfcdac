/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests of managed memory share: a device of BLOCKS blocks, a client and a stream.
 */
#ifndef MANAGED_UTIL_H
#define MANAGED_UTIL_H

#include <sys/mman.h>

#include "kselftest_harness.h"
#include "common/leak.h"
#include "common/limits_util.h"
#include "common/pin_util.h"
#include "common/swap.h"
#include "common/util.h"

#define ADDR	0x7f0000000000ULL
#define OTHER	0x7e0000000000ULL
#define BUFFER	0x7d0000000000ULL
#define BLOCK	((__u64)GPUMEM_MANAGED_BLOCK)
#define BLOCKS	8ULL			/* of the device's memory */
#define SMALL	(256ULL << 10)		/* the most bytes of an entry that works on evicted blocks where they are */
#define RW	(PROT_READ | PROT_WRITE)

/* Bytes of managed memory of all clients that are allocated. */
static inline long long managed_used(void)
{
	return number_of("/sys/class/gpumem/managed_used", "");
}

static inline bool managed_used_becomes(long long want)
{
	return number_becomes("/sys/class/gpumem/managed_used", want);
}

FIXTURE(managed)
{
	struct leak_state leak;
	char size[64];
	long long pin_limit;
	int fd;
	__u32 vm;
	struct stream s;
};

/* The device has BLOCKS blocks. */
FIXTURE_SETUP(managed)
{
	char size[32];

	ASSERT_TRUE(dev_quiet(10));
	leak_begin(&self->leak);
	self->pin_limit = get_param("pin_limit");
	ASSERT_EQ(0, dev_attr_text(0, "size", self->size, sizeof(self->size)));
	snprintf(size, sizeof(size), "%llu", BLOCKS * BLOCK);
	ASSERT_EQ(0, write_dev_attr(0, "size", size));
	self->fd = gp_open(0);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, gp_vm_create(self->fd, &self->vm));
	ASSERT_EQ(0, stream_open(&self->s, self->fd, self->vm, 0, 64));
}

FIXTURE_TEARDOWN(managed)
{
	EXPECT_EQ(0, stream_close(&self->s));
	unmap_all();
	close(self->fd);
	EXPECT_EQ(0, write_dev_attr(0, "size", self->size));
	EXPECT_EQ(0, set_param("pin_limit", self->pin_limit));
	EXPECT_EQ(0, swap_end());
	EXPECT_TRUE(dev_quiet(10));
	EXPECT_TRUE(number_becomes("/sys/class/gpumem/pinned", 0));
	EXPECT_TRUE(host_used_becomes(0));
	EXPECT_TRUE(managed_used_becomes(0));
	EXPECT_TRUE(leak_end(&self->leak));
}

static inline int execute(struct stream *s, struct gpumem_sqe sqe)
{
	int ret = stream_push(s, &sqe);

	return ret ? ret : stream_sync(s);
}

/* Managed memory at a device address; returns its id, or 0. */
static inline __u32 make(int fd, __u32 vm, __u64 length, __u64 addr)
{
	__u32 id;

	return gp_managed_alloc(fd, length, &id) || gp_vm_map(fd, vm, id, 0, addr, length, 1, 1) ?
	       0 : id;
}

static inline __u64 resident(int fd, __u32 id)
{
	struct gpumem_bo_info info;

	return gp_bo_info(fd, id, &info) ? ~0ULL : info.resident;
}

static inline __u64 present(int fd, __u32 id)
{
	struct gpumem_bo_info info;

	return gp_bo_info(fd, id, &info) ? ~0ULL : info.present;
}

static inline struct gpumem_stats stats_of(int fd)
{
	struct gpumem_stats stats = {};

	gp_stats(fd, &stats);
	return stats;
}

#define MAKE(length, addr)	make(self->fd, self->vm, (length), (addr))
#define RESIDENT(id)		(resident(self->fd, (id)) / BLOCK)
#define FILL(addr, value, bytes) \
	execute(&self->s, sqe_fill((addr), 1, (value), (bytes)))

#endif /* MANAGED_UTIL_H */
