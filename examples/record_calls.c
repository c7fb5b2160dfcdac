// SPDX-License-Identifier: MIT
/*
 * A few thousand calls of the driver API, to record and to replay: memory of all kinds, pools, streams, events, copies,
 * mappings, two threads, and some mistakes whose results a replay must repeat.
 *
 *	gpumem record -o calls.trace -- ./record_calls [ROUNDS]
 *	gpumem replay calls.trace
 *
 * It needs no gpumem: on a machine with NVIDIA's driver,
 *
 *	cc -Ilibgpumem/include -o record_calls examples/record_calls.c -lcuda -pthread
 *	GPUMEM_RECORD=calls.trace LD_PRELOAD=.../libgpumem-record-preload.so.1 ./record_calls
 *
 * The calls do not depend on the device: sizes come from a generator of numbers, and all memory fits in 96 MiB.
 */
#include <cuda.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STREAMS	4u
#define LIVE	24u
#define MIB	(1u << 20)

#define MUST(call)								\
	do {									\
		CUresult result_ = (call);					\
										\
		if (result_) {							\
			fprintf(stderr, "%s:%d: error %d\n", __FILE__, __LINE__, result_);	\
			exit(1);						\
		}								\
	} while (0)

struct work {
	CUcontext ctx;
	CUdevice device;
	CUmemoryPool pool;
	CUstream streams[STREAMS];
	CUevent events[STREAMS];
	unsigned char *pinned;		/* MIB for each stream */
	unsigned char *pageable;	/* MIB */
	uint32_t seed;
	unsigned int rounds;
};

static uint32_t number(struct work *w, uint32_t below)
{
	w->seed = w->seed * 1664525u + 1013904223u;
	return (w->seed >> 8) % below;
}

static void begin(struct work *w)
{
	unsigned int i;

	MUST(cuCtxSetCurrent(w->ctx));
	for (i = 0; i < STREAMS; i++) {
		MUST(cuStreamCreate(&w->streams[i], i % 2 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
		MUST(cuEventCreate(&w->events[i], CU_EVENT_DISABLE_TIMING));
	}
	MUST(cuMemAllocHost((void **)&w->pinned, STREAMS * MIB));
	w->pageable = malloc(MIB);
	if (!w->pageable)
		exit(1);
	memset(w->pageable, 1, MIB);
}

static void end(struct work *w)
{
	unsigned int i;

	for (i = 0; i < STREAMS; i++) {
		MUST(cuStreamSynchronize(w->streams[i]));
		MUST(cuEventDestroy(w->events[i]));
		MUST(cuStreamDestroy(w->streams[i]));
	}
	MUST(cuMemFreeHost(w->pinned));
	free(w->pageable);
}

/* Memory in stream order: each round uses a stream, and waits for the event of another one. */
static void pools(struct work *w)
{
	unsigned int i;

	for (i = 0; i < w->rounds; i++) {
		CUstream stream = w->streams[i % STREAMS];
		size_t bytes = 512 * (1 + number(w, 1024));
		CUdeviceptr a, b;

		MUST(cuMemAllocAsync(&a, bytes, stream));
		MUST(cuMemAllocFromPoolAsync(&b, bytes, w->pool, stream));
		MUST(cuMemsetD8Async(a, (unsigned char)i, bytes, stream));
		MUST(cuMemcpyDtoDAsync(b, a, bytes, stream));
		MUST(cuEventRecord(w->events[i % STREAMS], stream));
		MUST(cuStreamWaitEvent(stream, w->events[(i + 1) % STREAMS], 0));
		MUST(cuMemcpyDtoHAsync(w->pinned + i % STREAMS * MIB, b, bytes, stream));
		MUST(cuMemFreeAsync(a, stream));
		MUST(cuMemFreeAsync(b, stream));
		if (i % 16 == 15)
			MUST(cuStreamSynchronize(stream));
		else if (cuStreamQuery(stream) > CUDA_ERROR_NOT_READY)
			exit(1);
	}
	MUST(cuCtxSynchronize());
}

/* Blocks that live for different times: the device's memory becomes fragmented. */
static void blocks(struct work *w)
{
	CUdeviceptr live[LIVE] = { 0 };
	unsigned int i, at;

	for (i = 0; i < w->rounds; i++) {
		size_t bytes = 4096 + number(w, MIB - 4096);

		at = number(w, LIVE);
		if (live[at])
			MUST(cuMemFree(live[at]));
		MUST(cuMemAlloc(&live[at], bytes));
		MUST(cuMemcpyHtoD(live[at], w->pageable, bytes < 65536 ? bytes : 65536));
		MUST(cuMemcpyDtoH(w->pageable + 16, live[at] + 256, 1024));
	}
	for (at = 0; at < LIVE; at++)
		if (live[at])
			MUST(cuMemFree(live[at]));
}

static void rows(struct work *w)
{
	unsigned int i;

	for (i = 0; i < w->rounds / 8; i++) {
		CUDA_MEMCPY2D copy = {
			.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = w->pageable, .srcPitch = 1000, .srcXInBytes = 8,
			.dstMemoryType = CU_MEMORYTYPE_DEVICE, .WidthInBytes = 900, .Height = 60,
		};
		CUdeviceptr ptr;
		size_t pitch;

		MUST(cuMemAllocPitch(&ptr, &pitch, 1000, 64, 4));
		copy.dstDevice = ptr;
		copy.dstPitch = pitch;
		copy.dstY = 2;
		MUST(cuMemcpy2D(&copy));
		MUST(cuMemsetD2D32(ptr, pitch, i, 16, 4));
		MUST(cuMemFree(ptr));
	}
}

static void mappings(struct work *w)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { CU_MEM_LOCATION_TYPE_DEVICE, w->device },
	};
	const CUmemAccessDesc access = { prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle handle;
	CUdeviceptr range;
	size_t size;
	unsigned int i;

	MUST(cuMemGetAllocationGranularity(&size, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	/* The same on devices of all granularities. */
	size = size < 2 * MIB ? 2 * MIB : size;
	for (i = 0; i < w->rounds / 16; i++) {
		MUST(cuMemAddressReserve(&range, 4 * size, 0, 0, 0));
		MUST(cuMemCreate(&handle, size, &prop, 0));
		MUST(cuMemMap(range + size, size, 0, handle, 0));
		MUST(cuMemSetAccess(range + size, size, &access, 1));
		MUST(cuMemsetD8(range + size + 64, 7, 4096));
		MUST(cuCtxSynchronize());
		MUST(cuMemUnmap(range + size, size));
		MUST(cuMemRelease(handle));
		MUST(cuMemAddressFree(range, 4 * size));
	}
}

static void mistakes(struct work *w)
{
	CUdeviceptr ptr, other;
	unsigned int failures = 0;
	CUdevice device;
	CUevent event;

	MUST(cuMemAlloc(&ptr, 4096));
	failures += !!cuMemAlloc(&other, (size_t)1 << 50);
	failures += !!cuMemAlloc(&other, 0);
	failures += !!cuMemFree(ptr + 256);
	failures += !!cuStreamCreate(NULL, 0);
	failures += !!cuEventCreate(&event, 1000);
	failures += !!cuCtxSetCurrent(w->ctx);
	failures += !!cuDeviceGet(&device, 1000);
	MUST(cuMemFree(ptr));
	printf("%u mistakes failed\n", failures);
}

static void *second(void *arg)
{
	struct work *w = arg;

	begin(w);
	pools(w);
	blocks(w);
	end(w);
	return NULL;
}

int main(int argc, char **argv)
{
	struct work first = { .seed = 1 }, other;
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED };
	cuuint64_t threshold = 8 * MIB;
	size_t free_bytes, total;
	pthread_t thread;

	first.rounds = argc > 1 ? (unsigned int)strtoul(argv[1], NULL, 10) : 200;
	MUST(cuInit(0));
	MUST(cuDeviceGet(&first.device, 0));
	MUST(cuDevicePrimaryCtxRetain(&first.ctx, first.device));
	MUST(cuCtxSetCurrent(first.ctx));
	props.location = (CUmemLocation) { CU_MEM_LOCATION_TYPE_DEVICE, first.device };
	MUST(cuMemPoolCreate(&first.pool, &props));
	MUST(cuMemPoolSetAttribute(first.pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	MUST(cuMemGetInfo(&free_bytes, &total));
	other = first;
	other.seed = 2;
	begin(&first);
	if (pthread_create(&thread, NULL, second, &other))
		return 1;
	pools(&first);
	blocks(&first);
	rows(&first);
	mappings(&first);
	pthread_join(thread, NULL);
	mistakes(&first);
	end(&first);
	MUST(cuMemPoolDestroy(first.pool));
	MUST(cuDevicePrimaryCtxRelease(first.device));
	return 0;
}
