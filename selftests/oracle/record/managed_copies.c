// SPDX-License-Identifier: GPL-2.0
/*
 * Print what a small copy or fill of managed memory that is in host memory takes, and whether the memory moves to the
 * device: a second run of the same operations, after the CPU has read a byte of each, shows what came back.
 *
 *	cc managed_copies.c -lcuda -o managed_copies && ./managed_copies > managed_copies.tsv
 *
 * Lines are "operation<TAB>bytes<TAB>microseconds<TAB>microseconds of the CPU's read<TAB>microseconds again", for one
 * operation.  Each operation uses its own 2 MiB, and is followed by a synchronization.
 */
#include <cuda.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STEP	(2ul << 20)
#define OPS	100ul

static CUdeviceptr device;
static CUstream stream;

static void check(CUresult result)
{
	if (result) {
		fprintf(stderr, "managed_copies: error %d\n", result);
		exit(1);
	}
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1e6 + time.tv_nsec / 1e3;
}

static CUresult copy_from(CUdeviceptr managed, size_t bytes)
{
	return cuMemcpyDtoDAsync(device, managed, bytes, stream);
}

static CUresult copy_to(CUdeviceptr managed, size_t bytes)
{
	return cuMemcpyDtoDAsync(managed, device, bytes, stream);
}

static CUresult fill(CUdeviceptr managed, size_t bytes)
{
	return cuMemsetD8Async(managed, 3, bytes, stream);
}

/* Microseconds of one operation. */
static double all(CUresult (*op)(CUdeviceptr managed, size_t bytes), CUdeviceptr managed, size_t bytes)
{
	double from = now();

	for (size_t i = 0; i < OPS; i++) {
		check(op(managed + i * STEP, bytes));
		check(cuStreamSynchronize(stream));
	}
	return (now() - from) / OPS;
}

static double cpu_reads(CUdeviceptr managed)
{
	double from = now();

	for (size_t i = 0; i < OPS; i++)
		(void)*(volatile unsigned char *)(managed + i * STEP);
	return (now() - from) / OPS;
}

int main(void)
{
	static const struct {
		const char *name;
		CUresult (*op)(CUdeviceptr managed, size_t bytes);
	} ops[] = { { "copy_from", copy_from }, { "copy_to", copy_to }, { "fill", fill } };
	static const size_t sizes[] = { 4096, 65536, 1 << 20 };
	CUcontext context;

	check(cuInit(0));
	check(cuDevicePrimaryCtxRetain(&context, 0));
	check(cuCtxSetCurrent(context));
	check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	check(cuMemAlloc(&device, STEP));
	check(cuMemsetD8(device, 0, STEP));
	for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
		for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
			double first, reads, again;
			CUdeviceptr managed;

			check(cuMemAllocManaged(&managed, OPS * STEP, CU_MEM_ATTACH_GLOBAL));
			memset((void *)managed, 1, OPS * STEP);
			check(cuCtxSynchronize());
			first = all(ops[i].op, managed, sizes[k]);
			reads = cpu_reads(managed);
			again = all(ops[i].op, managed, sizes[k]);
			printf("%s\t%zu\t%.1f\t%.1f\t%.1f\n", ops[i].name, sizes[k], first, reads, again);
			check(cuMemFree(managed));
		}
	}
	return 0;
}
