/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The fixture of the tests of pools: two clients, and a pool of the first.  Include this after
 * kselftest_harness.h.
 */
#ifndef GPUMEM_SELFTESTS_POOL_FIXTURE_H
#define GPUMEM_SELFTESTS_POOL_FIXTURE_H

#include "common/client_fixture.h"
#include "common/pool_util.h"

#define POOL_FIXTURE(name)						\
FIXTURE(name)								\
{									\
	struct leak_state leak;						\
	int fd, other;							\
	__u32 pool;							\
};									\
									\
FIXTURE_SETUP(name)							\
{									\
	client_begin(_metadata, &self->leak, &self->fd);		\
	self->other = gp_open(0);					\
	ASSERT_LE(0, self->other);					\
	ASSERT_EQ(0, gp_pool_create(self->fd, 0, 0, 0, "fixture", &self->pool)); \
}									\
									\
FIXTURE_TEARDOWN(name)							\
{									\
	close(self->other);						\
	client_end(_metadata, &self->leak, self->fd, 10);		\
}

#endif
