/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers for the tests of host memory: bytes with a pattern, and a fixture's teardown.  Include
 * this after kselftest_harness.h.
 */
#ifndef GPUMEM_SELFTESTS_HOST_FIXTURE_H
#define GPUMEM_SELFTESTS_HOST_FIXTURE_H

#include "cuda_util.h"
#include "common/pin_util.h"

static inline unsigned char pattern_at(size_t i, unsigned int seed)
{
	return i * 31 + (i >> 8) + seed;
}

static inline void pattern(void *p, size_t n, unsigned int seed)
{
	unsigned char *c = p;

	for (size_t i = 0; i < n; i++)
		c[i] = pattern_at(i, seed);
}

static inline bool has_pattern(const void *p, size_t n, unsigned int seed)
{
	const unsigned char *c = p;

	for (size_t i = 0; i < n; i++) {
		if (c[i] != pattern_at(i, seed))
			return false;
	}
	return true;
}

/* The teardown: nothing is left of the process that ran the case, and no host memory is pinned. */
#define HOST_AFTERWARDS(name)				\
FIXTURE_TEARDOWN_PARENT(name)				\
{							\
	EXPECT_TRUE(dev_quiet(10));			\
	EXPECT_TRUE(host_used_becomes(0));		\
}

#endif
