// SPDX-License-Identifier: GPL-2.0
/*
 * The cost of a published fence: a fill of a buffer that has a DMA-buf, beside the same fill before
 * the DMA-buf was made.
 *
 * The counted machine has one CPU, whose every instruction counts: those of the client's worker, of
 * kernel workers and of the scheduler.
 */
#include <cuda.h>
#include <unistd.h>

#include "bench.h"

#define ROUNDS	5
#define CALLS	2

struct fill {
	CUdeviceptr p;
	CUstream stream;
	size_t bytes;
};

static void fill(void *arg)
{
	struct fill *f = arg;

	bench_cu(cuMemsetD32Async(f->p, 1, f->bytes / 4, f->stream));
	bench_cu(cuStreamSynchronize(f->stream));
}

static void compare(struct fill *f)
{
	const char *plain = bench_name("fill_plain_%s", bench_size(f->bytes));
	double before, after;
	int fd;

	bench_cu(cuMemAlloc(&f->p, f->bytes));
	before = bench_calls(ROUNDS, CALLS, fill, f);
	bench_cu(cuMemGetHandleForAddressRange(&fd, f->p, f->bytes,
					       CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	after = bench_calls(ROUNDS, CALLS, fill, f);
	bench_peer(plain, before);
	bench_beside(bench_name("fill_exported_%s", bench_size(f->bytes)), BENCH_ALLOC, after, plain,
		     1.1);
	close(fd);
	bench_cu(cuMemFree(f->p));
}

void bench_publish(void)
{
	struct fill f;

	bench_cuda();
	bench_cu(cuStreamCreate(&f.stream, CU_STREAM_NON_BLOCKING));
	/* A part of a portion, a portion, several. */
	for (f.bytes = 8 * MIB; f.bytes <= 128 * MIB; f.bytes *= 4)
		compare(&f);
	bench_cu(cuStreamDestroy(f.stream));
}
