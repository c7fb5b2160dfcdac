// SPDX-License-Identifier: GPL-2.0
/*
 * cuMemAlloc() and cuMemFree() of 64 KiB in a block that is kept.  Freed memory must be cleared
 * before it is allocated again: by the library's background thread if there is time, otherwise by
 * the caller.
 *
 * Two cases.  Spaced: a pair, and then GAP_NS without a pair of its size, in which the background
 * thread can clear the memory.  Meanwhile the bench makes pairs of SMALL bytes, which keep the
 * library in the processor's caches; one of those pairs is the peer.  Back to back, on one
 * processor: clearing in the background gains nothing and takes processor time from the pairs.  So
 * the processor time of the whole process counts, beside the same without background clearing
 * (GPUMEM_CLEAR=0).
 *
 * Each case is measured in a process of its own, with an environment and a processor of its own.
 */
#include <cuda.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

#define BYTES	(64 * KIB)
#define SMALL	256
#define GAP_NS	2e6
#define SPACED	500
#define PAIRS	20000
#define ROUNDS	7

static void pair(size_t bytes)
{
	CUdeviceptr p;

	bench_cu(cuMemAlloc(&p, bytes));
	bench_cu(cuMemFree(p));
}

/* Make enough pairs that the library starts clearing in the background. */
static void warm(void)
{
	CUdeviceptr room, kept;

	bench_cuda();
	/* Small ones have room of their own: they do not come from what is to be cleared. */
	bench_cu(cuMemAlloc(&room, SMALL));
	bench_cu(cuMemAlloc(&kept, SMALL));
	bench_cu(cuMemFree(room));
	for (int i = 0; i < 200; i++)
		pair(BYTES);
}

static double spaced_of(size_t bytes)
{
	static double v[SPACED];

	warm();
	for (int i = 0; i < SPACED; i++) {
		double start, end = bench_now() + GAP_NS;

		while ((start = bench_now()) < end)
			pair(SMALL);
		pair(bytes);
		v[i] = bench_now() - start;
	}
	return bench_median(v, SPACED);
}

static double spaced(void)
{
	return spaced_of(BYTES);
}

static double spaced_small(void)
{
	return spaced_of(SMALL);
}

static double process_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static double back_to_back(void)
{
	cpu_set_t set;
	double start;
	int cpu = sched_getcpu();

	CPU_ZERO(&set);
	CPU_SET(cpu < 0 ? 0 : cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		bench_die("sched_setaffinity");
	warm();
	start = process_ns();
	for (int i = 0; i < PAIRS; i++)
		pair(BYTES);
	return (process_ns() - start) / PAIRS;
}

static double apart(double (*measure)(void), const char *clear)
{
	const char *const environment[] = { "GPUMEM_CLEAR", clear, NULL };

	return bench_apart(measure, environment);
}

void bench_kept(void)
{
	double ratio[ROUNDS], off[ROUNDS], theirs;

	bench_peer("kept_pair_256", apart(spaced_small, "1"));
	bench_peer("kept_pair_64K_uncleared", apart(spaced, "0"));
	bench_beside("kept_pair_64K", BENCH_RATIO, apart(spaced, "1"), "kept_pair_64K_uncleared",
		     0.5);
	for (int i = 0; i < ROUNDS; i++) {
		off[i] = apart(back_to_back, "0");
		ratio[i] = apart(back_to_back, "1") / off[i];
	}
	theirs = bench_median(off, ROUNDS);
	bench_peer("kept_pair_64K_back_to_back_off", theirs);
	bench_beside("kept_pair_64K_back_to_back", BENCH_RATIO,
		     theirs * bench_median(ratio, ROUNDS), "kept_pair_64K_back_to_back_off", 1.05);
}
