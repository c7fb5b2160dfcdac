/* SPDX-License-Identifier: GPL-2.0 */
/*
 * First and last steps of a fixture that has a client of device 0 and looks for leaks.  A setup and
 * a teardown call them with their _metadata.  Include this after kselftest_harness.h.
 */
#ifndef GPUMEM_SELFTESTS_CLIENT_FIXTURE_H
#define GPUMEM_SELFTESTS_CLIENT_FIXTURE_H

#include "common/leak.h"
#include "common/util.h"

/* The first step of a setup: no device is in use, the leak detector starts, and a client opens. */
static inline void client_begin(struct __test_metadata *_metadata, struct leak_state *leak, int *fd)
{
	ASSERT_TRUE(dev_quiet(10));
	leak_begin(leak);
	*fd = gp_open(0);
	ASSERT_LE(0, *fd);
}

/*
 * The last step of a teardown: the client closes, no device is in use within @seconds, and the leak
 * detector finds nothing.
 */
static inline void client_end(struct __test_metadata *_metadata, const struct leak_state *leak, int fd,
			      double seconds)
{
	unmap_all();
	close(fd);
	EXPECT_TRUE(dev_quiet(seconds));
	EXPECT_TRUE(leak_end(leak));
}

/* A client, and a mapped buffer object whose bytes are @times * i + i / 4096. */
#define BO_FIXTURE(name, bytes, times)					\
FIXTURE(name)								\
{									\
	struct leak_state leak;						\
	int fd;								\
	__u32 bo;							\
	unsigned char *p;						\
};									\
									\
FIXTURE_SETUP(name)							\
{									\
	client_begin(_metadata, &self->leak, &self->fd);		\
	self->p = gp_alloc_map(self->fd, bytes, &self->bo);		\
	ASSERT_NE(NULL, self->p);					\
	for (size_t i = 0; i < (bytes); i++)				\
		self->p[i] = (times) * i + i / 4096;			\
}									\
									\
FIXTURE_TEARDOWN(name)							\
{									\
	client_end(_metadata, &self->leak, self->fd, 10);		\
}

#endif
