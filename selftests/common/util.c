// SPDX-License-Identifier: GPL-2.0
/* See util.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/util.h"

size_t page_size;

static void __attribute__((constructor)) find_page_size(void)
{
	page_size = sysconf(_SC_PAGESIZE);
}

/* --- bytes */

bool all_are(const void *p, unsigned char value, size_t n)
{
	const unsigned char *c = p;

	return !n || (c[0] == value && !memcmp(c, c + 1, n - 1));
}

/* --- time, chance */

__u64 mono_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * NSEC + t.tv_nsec;
}

__u64 in_seconds(double seconds)
{
	return mono_ns() + (__u64)(seconds * NSEC);
}

void nap_ms(unsigned int ms)
{
	struct timespec t = { ms / 1000, (ms % 1000) * 1000000L };

	while (nanosleep(&t, &t) && errno == EINTR)
		;
}

__u64 env_number(const char *name, __u64 def)
{
	const char *text = getenv(name);

	return text && *text ? strtoull(text, NULL, 0) : def;
}

void rng_start(struct rng *r, const char *what)
{
	r->state = env_number("GPUMEM_SEED", mono_ns() ^ ((__u64)getpid() << 32));
	fprintf(stderr, "# %s: GPUMEM_SEED=%llu\n", what, (unsigned long long)r->state);
}

__u64 rng_next(struct rng *r)
{
	__u64 z = r->state += 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

__u64 rng_below(struct rng *r, __u64 n)
{
	return rng_next(r) % n;
}

void rng_fill(struct rng *r, void *p, size_t n)
{
	unsigned char *c = p;

	while (n--)
		*c++ = rng_next(r);
}

#ifdef GPUMEM_COV
/* --- line counts of the library: children of the harness and of the tests end by _exit() */

#include <sys/syscall.h>

void gpumem_cov_dump(void) __attribute__((weak));

void _exit(int status)
{
	if (gpumem_cov_dump)
		gpumem_cov_dump();
	for (;;)
		syscall(SYS_exit_group, status);
}
#endif
