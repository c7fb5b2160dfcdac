// SPDX-License-Identifier: GPL-2.0
/*
 * The lookup of an address's allocation among 100,000, which a communication library does for every
 * buffer.
 */
#include <cuda.h>
#include <stdlib.h>

#include "bench.h"

#define COUNT	100000

static CUdeviceptr *blocks;

static void step(void *arg)
{
	unsigned int *seed = arg;
	int type;

	*seed = *seed * 1103515245 + 12345;
	if (cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
				  blocks[(*seed >> 8) % COUNT] + 17))
		bench_die("cuPointerGetAttribute");
}

void bench_lookup(void)
{
	unsigned int seed = 1;

	bench_cuda();
	blocks = calloc(COUNT, sizeof(*blocks));
	if (!blocks)
		bench_die("calloc");
	for (int i = 0; i < COUNT; i++)
		if (cuMemAlloc(&blocks[i], 256))
			bench_die("cuMemAlloc: give the device at least 128 MiB");
	bench_null_syscall();
	bench_beside("pointer_attribute_of_100000", BENCH_CALL, bench_calls(9, 1000, step, &seed),
		     "null_syscall", 0.5);
	for (int i = 0; i < COUNT; i++)
		cuMemFree(blocks[i]);
	free(blocks);
}
