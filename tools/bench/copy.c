// SPDX-License-Identifier: GPL-2.0
/*
 * Large copies and fills beside memcpy() and memset() of the same size.  A row is the time of one
 * operation, from the submission to the end of the wait.
 */
#include <cuda.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

#define ROUNDS	9

struct work {
	CUdeviceptr dst, src;
	char *to, *from;
	size_t bytes;
};

static void dtod(void *arg)
{
	struct work *w = arg;

	bench_cu(cuMemcpyDtoD(w->dst, w->src, w->bytes));
	bench_cu(cuCtxSynchronize());
}

static void htod(void *arg)
{
	struct work *w = arg;

	bench_cu(cuMemcpyHtoD(w->dst, w->from, w->bytes));
}

static void dtoh(void *arg)
{
	struct work *w = arg;

	bench_cu(cuMemcpyDtoH(w->to, w->src, w->bytes));
}

static void fill(void *arg)
{
	struct work *w = arg;

	bench_cu(cuMemsetD8(w->dst, 7, w->bytes));
	bench_cu(cuCtxSynchronize());
}

static void plain_copy(void *arg)
{
	struct work *w = arg;

	memcpy(w->to, w->from, w->bytes);
	__asm__ volatile("" : : "r"(w->to) : "memory");
}

static void plain_fill(void *arg)
{
	struct work *w = arg;

	memset(w->to, 7, w->bytes);
	__asm__ volatile("" : : "r"(w->to) : "memory");
}

void bench_copy(void)
{
	static const size_t sizes[] = { 4 * KIB, MIB, 16 * MIB };

	bench_cuda();
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct work w = { .bytes = sizes[i] };
		const char *size = bench_size(w.bytes);
		const char *memcpy_row = bench_name("memcpy_%s", size);
		const char *memset_row = bench_name("memset_%s", size);
		int calls = w.bytes < MIB ? 200 : 1;

		w.to = bench_memory(w.bytes, false);
		w.from = bench_memory(w.bytes, false);
		bench_cu(cuMemAlloc(&w.dst, w.bytes));
		bench_cu(cuMemAlloc(&w.src, w.bytes));
		bench_peer(memcpy_row, bench_calls(ROUNDS, calls, plain_copy, &w));
		bench_peer(memset_row, bench_calls(ROUNDS, calls, plain_fill, &w));
		bench_beside(bench_name("dtod_%s", size), BENCH_RATIO,
			     bench_calls(ROUNDS, calls, dtod, &w), memcpy_row, 0);
		bench_beside(bench_name("htod_pageable_%s", size), BENCH_RATIO,
			     bench_calls(ROUNDS, calls, htod, &w), memcpy_row, 0);
		bench_beside(bench_name("dtoh_pageable_%s", size), BENCH_RATIO,
			     bench_calls(ROUNDS, calls, dtoh, &w), memcpy_row, 0);
		bench_beside(bench_name("memsetd8_%s", size), BENCH_RATIO,
			     bench_calls(ROUNDS, calls, fill, &w), memset_row, 0);
		bench_cu(cuMemFree(w.dst));
		bench_cu(cuMemFree(w.src));
	}
}
