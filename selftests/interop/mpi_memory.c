// SPDX-License-Identifier: GPL-2.0
/* Buffers of the kinds of memory for the cases of MPI; mpi.h describes them. */
#include <string.h>

#include "mpi.h"

#define CLEAR	0xee
#define BYSTANDER	(1UL << 20)
/* Cases round a size up to elements, parts or ranks. */
#define STAGING	(LARGEST + 4096 + 2 * ZONE)

const char *const kind_name[KINDS] = {
	[HOST] = "host", [DEVICE] = "device", [RUNTIME] = "runtime", [POOL] = "pool", [VMM] = "vmm",
	[MANAGED] = "managed",
};

/* The classes: inline, eager, and rendezvous in one and in many pieces; odd lengths among them. */
const size_t sizes[] = { 1, 1000, 65537, (1UL << 20) + 5, 7, 64, 4096, LARGEST };
int size_count = sizeof(sizes) / sizeof(sizes[0]);

static CUstream writer, reader, aside;
static CUevent written, seen;
static struct buffer from, to;
static CUdevice device;
static CUcontext context;
static uint8_t *staging;		/* pinned: STAGING bytes */

void choose_sizes(enum kind kind)
{
	size_count = kind == DEVICE ? sizeof(sizes) / sizeof(sizes[0]) : 4;
}

uint8_t pattern(unsigned int seed, size_t i)
{
	uint32_t x = (uint32_t)i * 2654435761u + seed * 40503u;

	return (uint8_t)(x >> 13 ^ x >> 24);
}

struct buffer get(enum kind kind, size_t size)
{
	struct buffer b = { .size = size, .kind = kind, .whole = size + 2 * ZONE };
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device },
	};
	CUmemAccessDesc access = {
		.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	void *p = NULL;
	size_t unit;

	switch (kind) {
	case HOST:
		p = malloc(b.whole);
		if (!p)
			fail(__FILE__, __LINE__, "malloc", "no memory");
		b.base = (CUdeviceptr)(uintptr_t)p;
		break;
	case DEVICE:
		CU(cuMemAlloc(&b.base, b.whole));
		break;
	case RUNTIME:
		RT(cudaMalloc(&p, b.whole));
		b.base = (CUdeviceptr)(uintptr_t)p;
		break;
	case POOL:
		CU(cuMemAllocAsync(&b.base, b.whole, writer));
		CU(cuStreamSynchronize(writer));
		break;
	case VMM:
		CU(cuMemGetAllocationGranularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
		b.whole = (b.whole + unit - 1) / unit * unit;
		CU(cuMemCreate(&b.handle, b.whole, &prop, 0));
		CU(cuMemAddressReserve(&b.base, b.whole, 0, 0, 0));
		CU(cuMemMap(b.base, b.whole, 0, b.handle, 0));
		CU(cuMemSetAccess(b.base, b.whole, &access, 1));
		break;
	default:
		CU(cuMemAllocManaged(&b.base, b.whole, CU_MEM_ATTACH_GLOBAL));
		break;
	}
	b.at = (uint8_t *)(uintptr_t)b.base + ZONE;
	clear(&b);
	return b;
}

void put(struct buffer *b)
{
	switch (b->kind) {
	case HOST:
		free((void *)(uintptr_t)b->base);
		break;
	case RUNTIME:
		RT(cudaFree((void *)(uintptr_t)b->base));
		break;
	case POOL:
		CU(cuMemFreeAsync(b->base, reader));
		CU(cuStreamSynchronize(reader));
		break;
	case VMM:
		CU(cuMemUnmap(b->base, b->whole));
		CU(cuMemAddressFree(b->base, b->whole));
		CU(cuMemRelease(b->handle));
		break;
	default:
		CU(cuMemFree(b->base));
		break;
	}
	b->at = NULL;
}

/* Copy @length bytes of the staging memory to @offset of @b, counted from the allocation. */
static void write_staging(const struct buffer *b, size_t offset, size_t length)
{
	if (b->kind == HOST) {
		memcpy((uint8_t *)(uintptr_t)b->base + offset, staging, length);
		return;
	}
	CU(cuMemcpyHtoDAsync(b->base + offset, staging, length, writer));
	CU(cuEventRecord(written, writer));
	while (cuEventQuery(written) == CUDA_ERROR_NOT_READY)
		;
	CU(cuEventSynchronize(written));
}

/* Copy the buffer and both zones to the staging memory. */
static void read_staging(const struct buffer *b)
{
	size_t length = b->size + 2 * ZONE;

	if (b->kind == HOST) {
		memcpy(staging, (void *)(uintptr_t)b->base, length);
		return;
	}
	CU(cuEventRecord(written, writer));
	CU(cuStreamWaitEvent(reader, written, 0));
	CU(cuMemcpyDtoHAsync(staging, b->base, length, reader));
	CU(cuEventRecord(seen, reader));
	CU(cuEventSynchronize(seen));
}

void clear(const struct buffer *b)
{
	size_t length = b->size + 2 * ZONE;

	if (b->kind == HOST) {
		memset((void *)(uintptr_t)b->base, CLEAR, length);
		return;
	}
	CU(cuMemsetD8Async(b->base, CLEAR, length, writer));
	CU(cuStreamSynchronize(writer));
}

void fill(const struct buffer *b, size_t offset, size_t length, unsigned int seed)
{
	for (size_t i = 0; i < length; i++)
		staging[i] = pattern(seed, i);
	write_staging(b, ZONE + offset, length);
}

void fill_from(const struct buffer *b, const void *from_)
{
	memcpy(staging, from_, b->size);
	write_staging(b, ZONE, b->size);
}

static long zones(const struct buffer *b)
{
	long wrong = 0;

	for (size_t i = 0; i < ZONE; i++)
		wrong += (staging[i] != CLEAR) + (staging[ZONE + b->size + i] != CLEAR);
	return wrong;
}

long differs(const struct buffer *b, size_t offset, size_t length, unsigned int seed)
{
	long wrong;

	read_staging(b);
	wrong = zones(b);
	for (size_t i = 0; i < length; i++)
		wrong += staging[ZONE + offset + i] != pattern(seed, i);
	return wrong;
}

long read_out(const struct buffer *b, void *to_)
{
	read_staging(b);
	memcpy(to_, staging + ZONE, b->size);
	return zones(b);
}

void bystander_run(void)
{
	CU(cuMemcpyDtoDAsync(to.base + ZONE, from.base + ZONE, BYSTANDER, aside));
	CU(cuMemcpyDtoDAsync(from.base + ZONE, to.base + ZONE, BYSTANDER, aside));
}

long bystander_differs(void)
{
	CU(cuStreamSynchronize(aside));
	return differs(&from, 0, BYSTANDER, 99);
}

void memory_begin(void)
{
	CU(cuInit(0));
	CU(cuDeviceGet(&device, 0));
	CU(cuDevicePrimaryCtxRetain(&context, device));
	CU(cuCtxSetCurrent(context));
	CU(cuMemAllocHost((void **)&staging, STAGING));
	CU(cuStreamCreate(&writer, CU_STREAM_NON_BLOCKING));
	CU(cuStreamCreate(&reader, CU_STREAM_NON_BLOCKING));
	CU(cuStreamCreate(&aside, CU_STREAM_NON_BLOCKING));
	CU(cuEventCreate(&written, CU_EVENT_DISABLE_TIMING));
	CU(cuEventCreate(&seen, CU_EVENT_DISABLE_TIMING));
	from = get(DEVICE, BYSTANDER);
	to = get(DEVICE, BYSTANDER);
	fill(&from, 0, BYSTANDER, 99);
}

void memory_end(void)
{
	put(&from);
	put(&to);
	CU(cuEventDestroy(written));
	CU(cuEventDestroy(seen));
	CU(cuStreamDestroy(writer));
	CU(cuStreamDestroy(reader));
	CU(cuStreamDestroy(aside));
	CU(cuMemFreeHost(staging));
	CU(cuDevicePrimaryCtxRelease(device));
}
