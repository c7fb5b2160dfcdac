/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a call costs beside many objects, compared with its cost beside few.  Include this after
 * kselftest_harness.h.
 */
#ifndef GPUMEM_SELFTESTS_COST_UTIL_H
#define GPUMEM_SELFTESTS_COST_UTIL_H

#include "cuda_util.h"

#define COST_CALLS	100

/* A call to measure; @arg is what it works on. */
typedef CUresult (*cost_fn)(const void *arg);

/* The least time that COST_CALLS calls took in a few tries; 0 if a call fails. */
static inline __u64 least(cost_fn fn, const void *arg)
{
	__u64 best = ~0ull;

	for (int round = 0; round < 20; round++) {
		__u64 start = mono_ns();

		for (int i = 0; i < COST_CALLS; i++)
			if (fn(arg))
				return 0;
		start = mono_ns() - start;
		best = start < best ? start : best;
	}
	return best;
}

/* Whether calls take less than twice @alone; several tries, for a machine that is busy. */
static inline bool costs_the_same(cost_fn fn, const void *arg, __u64 alone)
{
	__u64 beside = 0;

	for (int tries = 0; tries < 5; tries++) {
		beside = least(fn, arg);
		if (beside && beside < 2 * alone)
			break;
	}
	printf("# %llu ns, was %llu\n", (unsigned long long)beside / COST_CALLS,
	       (unsigned long long)alone / COST_CALLS);
	return beside && beside < 2 * alone;
}

#endif
