// SPDX-License-Identifier: GPL-2.0
/*
 * Finding the allocation that an address lies in, among 100,000: what a communication library
 * does for every buffer it is given.
 */
#include <cuda.h>
#include <errno.h>
#include <gpumem.h>
#include <stdio.h>
#include <stdlib.h>

#include "bench.h"

#define COUNT	100000
#define ROUNDS	9
#define CALLS	1000

int bench_lookup(void)
{
	CUdeviceptr *p = calloc(COUNT, sizeof(*p));
	double v[ROUNDS];
	unsigned int seed = 1;
	CUcontext ctx;
	CUdevice dev;
	int type;

	if (!p)
		bench_die("calloc");
	errno = ENODEV;
	if (cuInit(0) || cuDeviceGet(&dev, 0) || cuDevicePrimaryCtxRetain(&ctx, dev) ||
	    cuCtxSetCurrent(ctx))
		bench_die(gpumem_init_error() ? gpumem_init_error() : "cuInit");
	for (int i = 0; i < COUNT; i++) {
		errno = ENOMEM;
		if (cuMemAlloc(&p[i], 256))
			bench_die("cuMemAlloc: give the device at least 128 MiB");
	}
	for (int i = 0; i < ROUNDS; i++) {
		double start = bench_now();

		for (int k = 0; k < CALLS; k++) {
			seed = seed * 1103515245 + 12345;
			if (cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
						  p[(seed >> 8) % COUNT] + 17))
				bench_die("cuPointerGetAttribute");
		}
		v[i] = (bench_now() - start) / CALLS;
	}
	for (int i = 0; i < COUNT; i++)
		cuMemFree(p[i]);
	free(p);
	return bench_row("pointer attribute, 100,000 allocations", bench_median(v, ROUNDS),
			 "null system call", bench_null_syscall(), 0.5);
}
