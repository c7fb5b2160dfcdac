/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers for the selftests: sizes, bytes, time, random numbers, and the headers that each program
 * needs.  Include this after kselftest_harness.h.
 */
#ifndef GPUMEM_SELFTESTS_UTIL_H
#define GPUMEM_SELFTESTS_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <linux/gpumem.h>

#include "common/calls.h"
#include "common/cgroup.h"
#include "common/device.h"
#include "common/file.h"
#include "common/process.h"
#include "common/stream.h"

/* Seconds for a case.  On a debug kernel without KVM thirty are not always enough. */
#ifdef TEST_TIMEOUT_DEFAULT
#undef TEST_TIMEOUT_DEFAULT
#define TEST_TIMEOUT_DEFAULT	120
#endif

#define KIB		1024ULL
#define MIB		(1024 * KIB)
#define NSEC		1000000000ULL
#define FOREVER		(~0ULL)

extern size_t page_size;

/* --- bytes */

/* Whether @n bytes have a value. */
bool all_are(const void *p, unsigned char value, size_t n);

/* --- time, chance */

__u64 mono_ns(void);
/* The CLOCK_MONOTONIC time, in ns, that is @seconds from now.  */
__u64 in_seconds(double seconds);
void nap_ms(unsigned int ms);

struct rng {
	__u64 state;
};

/* Seeds from GPUMEM_SEED or the clock, and prints the seed. */
void rng_start(struct rng *r, const char *what);
__u64 rng_next(struct rng *r);
/* A random number below @n.  */
__u64 rng_below(struct rng *r, __u64 n);
void rng_fill(struct rng *r, void *p, size_t n);
/* The number in the environment variable @name, or @def.  */
__u64 env_number(const char *name, __u64 def);

#endif
