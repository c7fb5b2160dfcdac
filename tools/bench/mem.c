// SPDX-License-Identifier: GPL-2.0
/*
 * cuMemAlloc() and cuMemFree().  Allocations of up to 2 MiB are parts of buffer objects of 2 MiB
 * and need no system call while there is room; each larger allocation is a buffer object of its
 * own.
 */
#include <cuda.h>
#include <errno.h>
#include <stdlib.h>

#include "bench.h"

#define HELD	64

struct mem {
	size_t bytes;
	CUdeviceptr held[HELD];
};

static void pair(void *arg, double *ns)
{
	struct mem *m = arg;
	double t = bench_now();
	CUdeviceptr p;

	bench_cu(cuMemAlloc(&p, m->bytes));
	ns[0] += bench_lap(&t);
	bench_cu(cuMemFree(p));
	ns[1] += bench_lap(&t);
}

/* Allocate several, free them; per block. */
static void several(void *arg, double *ns)
{
	struct mem *m = arg;
	double t = bench_now();

	for (int i = 0; i < HELD; i++)
		bench_cu(cuMemAlloc(&m->held[i], m->bytes));
	ns[0] += bench_lap(&t) / HELD;
	for (int i = 0; i < HELD; i++)
		bench_cu(cuMemFree(m->held[i]));
	ns[1] += bench_lap(&t) / HELD;
}

static void malloc_pair(void *arg)
{
	struct mem *m = arg;
	void *volatile p = malloc(m->bytes);

	free(p);
}

void bench_mem(void)
{
	static const size_t small[] = { 256, 64 * KIB }, large[] = { 2 * MIB, 64 * MIB };
	static struct mem m;
	double ns[BENCH_PHASES];
	CUdeviceptr kept;

	bench_cuda();
	/* A program in use holds a small block, so its buffer object stays. */
	bench_cu(cuMemAlloc(&kept, 256));
	for (int i = 0; i < 2; i++) {
		const char *size = bench_size(small[i]);
		const char *peer = bench_name("malloc_free_%s", size);

		m.bytes = small[i];
		bench_peer(peer, bench_calls(9, 200, malloc_pair, &m));
		bench_phases(ns, 9, 100, pair, &m);
		bench_beside(bench_name("cumem_alloc_free_%s", size), BENCH_ALLOC, ns[0] + ns[1],
			     peer, 0);
		bench_phases(ns, 5, 1, several, &m);
		bench_ours(bench_name("cumem_alloc_of_%d_%s", HELD, size), BENCH_ALLOC, ns[0]);
		bench_ours(bench_name("cumem_free_of_%d_%s", HELD, size), BENCH_ALLOC, ns[1]);
	}
	for (int i = 0; i < 2; i++) {
		const char *size = bench_size(large[i]);

		m.bytes = large[i];
		bench_phases(ns, 5, 1, pair, &m);
		bench_ours(bench_name("cumem_alloc_%s", size), BENCH_ALLOC, ns[0]);
		bench_ours(bench_name("cumem_free_%s", size), BENCH_ALLOC, ns[1]);
	}
	bench_cu(cuMemFree(kept));
}
