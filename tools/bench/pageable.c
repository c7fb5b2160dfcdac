// SPDX-License-Identifier: GPL-2.0
/*
 * Copies from and to pageable memory behind queued work: by the engine of a device that accesses
 * pageable memory, beside copies through staging memory.
 *
 * The stream waits for a word until the copy is queued, so that no copy is inline.  A copy from the
 * host is staged if its source is read at the call: bench_pageable().  A copy to the host is staged
 * on the second device, whose engine does not access pageable memory: bench_pageable_timed(), because
 * the machine that counts instructions has one device.
 */
#include <cuda.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"

#define ROUNDS		9
#define PARAMETER	"/sys/module/gpumem/parameters/pageable"
#define FILL		(512 * KIB)	/* too large to be inline */

struct queued {
	CUcontext ctx;
	CUstream stream;
	CUdeviceptr device, filled;
	void *host;
	unsigned int *word;
	size_t bytes;
	CUmemcpySrcAccessOrder order;
};

static bool parameter_write(const char *text)
{
	FILE *f = fopen(PARAMETER, "w");
	bool ok = f && fputs(text, f) >= 0;

	return f && !fclose(f) && ok;
}

static void from_host(void *arg)
{
	struct queued *q = arg;
	CUmemcpyAttributes attr = { .srcAccessOrder = q->order };

	*q->word = 0;
	bench_cu(cuStreamWaitValue32(q->stream, (uintptr_t)q->word, 1, CU_STREAM_WAIT_VALUE_EQ));
	bench_cu(cuMemcpyWithAttributesAsync(q->device, (uintptr_t)q->host, q->bytes, &attr, q->stream));
	__atomic_store_n(q->word, 1, __ATOMIC_RELEASE);
	bench_cu(cuStreamSynchronize(q->stream));
}

static void to_host(void *arg)
{
	struct queued *q = arg;

	bench_cu(cuCtxSetCurrent(q->ctx));
	bench_cu(cuMemsetD8Async(q->filled, 1, FILL, q->stream));
	bench_cu(cuMemcpyDtoHAsync(q->host, q->device, q->bytes, q->stream));
}

static void queued_make(struct queued *q, int device)
{
	bench_cu(cuDevicePrimaryCtxRetain(&q->ctx, device));
	bench_cu(cuCtxSetCurrent(q->ctx));
	bench_cu(cuStreamCreate(&q->stream, CU_STREAM_NON_BLOCKING));
	bench_cu(cuMemAlloc(&q->device, q->bytes));
	bench_cu(cuMemAlloc(&q->filled, FILL));
	bench_cu(cuMemAllocHost((void **)&q->word, sizeof(*q->word)));
	q->host = bench_memory(q->bytes, false);
}

static void bench_from(size_t bytes)
{
	struct queued direct = { .bytes = bytes, .order = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM }, staged;
	const char *size = bench_size(bytes), *peer = bench_name("pageable_htod_staged_%s", size);
	double ns, peer_ns;

	queued_make(&direct, 0);
	staged = direct;
	staged.order = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
	ns = bench_pairs(ROUNDS, bytes < 4 * MIB ? 20 : 4, NULL, from_host, &direct, from_host, &staged,
			 &peer_ns);
	bench_peer(peer, peer_ns);
	bench_beside(bench_name("pageable_htod_%s", size), BENCH_RATIO, ns, peer, 1.0);
}

static void bench_to(size_t bytes)
{
	struct queued direct = { .bytes = bytes }, staged = { .bytes = bytes };
	const char *size = bench_size(bytes), *peer = bench_name("pageable_dtoh_staged_%s", size);
	double ns, peer_ns;

	queued_make(&direct, 0);
	queued_make(&staged, 1);
	ns = bench_pairs(ROUNDS, bytes < 4 * MIB ? 20 : 4, NULL, to_host, &direct, to_host, &staged,
			 &peer_ns);
	bench_peer(peer, peer_ns);
	bench_beside(bench_name("pageable_dtoh_%s", size), BENCH_RATIO, ns, peer, 1.0);
}

static const size_t sizes[] = { 256 * KIB, MIB, 16 * MIB };

/* Returns the number of devices, or 0 if the first one does not access pageable memory. */
static int pageable_begin(void)
{
	int devices = 0, reaches = 0;

	if (!parameter_write("1,0")) {
		bench_skip("pageable", "the module has no parameter pageable, or it cannot be written");
		return 0;
	}
	bench_cu(cuInit(0));
	/* What the process found counts. */
	parameter_write("0,0");
	bench_cu(cuDeviceGetCount(&devices));
	bench_cu(cuDeviceGetAttribute(&reaches, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0));
	return reaches ? devices : 0;
}

void bench_pageable(void)
{
	if (!pageable_begin())
		return;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		bench_from(sizes[i]);
}

void bench_pageable_timed(void)
{
	if (pageable_begin() < 2) {
		bench_skip("pageable_dtoh", "there are not two devices");
		return;
	}
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		bench_to(sizes[i]);
}
