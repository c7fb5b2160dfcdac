// SPDX-License-Identifier: GPL-2.0
/*
 * Where managed memory is: what takes device memory when, allocations larger than the device, copies
 * and fills of evicted blocks, prefetches in the order of streams, and a model of three times the
 * device's memory that the engine and the CPU touch.
 *
 * The device has BLOCKS blocks, so that little is needed to exceed it.
 */
#include <pthread.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "cuda_util.h"
#include "common/limits_util.h"

#define BLOCK		((size_t)GPUMEM_MANAGED_BLOCK)
#define BLOCKS		8ull		/* of the device's memory */

FIXTURE(moves)
{
	char size[32];			/* of the device, before */
	CUcontext ctx;
	CUstream s;
	unsigned int *gate;
};

static int device_shrink(char *size, size_t room)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", BLOCKS * BLOCK);
	return dev_attr_text(0, "size", size, room) ?: write_dev_attr(0, "size", text);
}

FIXTURE_SETUP(moves)
{
	ASSERT_TRUE(dev_quiet(10));
	ASSERT_EQ(0, device_shrink(self->size, sizeof(self->size)));
	ASSERT_CU(cuda_start(&self->ctx));
	ASSERT_CU(cuStreamCreate(&self->s, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuMemAllocHost((void **)&self->gate, sizeof(*self->gate)));
	*self->gate = 0;
}

FIXTURE_TEARDOWN_PARENT(moves)
{
	EXPECT_EQ(0, write_dev_attr(0, "size", self->size));
	EXPECT_TRUE(dev_quiet(10));
	EXPECT_TRUE(number_becomes("/sys/class/gpumem/managed_used", 0));
}

static CUdeviceptr managed(size_t bytes)
{
	CUdeviceptr p = 0;

	if (cuMemAllocManaged(&p, bytes, CU_MEM_ATTACH_GLOBAL))
		abort();
	return p;
}

static CUmemLocation on_device(int id)
{
	return (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = id };
}

static CUmemLocation on_host(void)
{
	return (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_HOST };
}

static size_t available(void)
{
	size_t bytes = 0, total;

	return cuMemGetInfo(&bytes, &total) ? 0 : bytes;
}

/* Blocks that are resident on a device. */
static long long blocks_on(unsigned int device)
{
	return dev_attr(device, "managed") / (long long)BLOCK;
}

#define PREFETCH(p, n, where) do {						\
	ASSERT_CU(cuMemPrefetchAsync(p, n, where, 0, self->s));			\
	ASSERT_CU(cuStreamSynchronize(self->s));				\
} while (0)

#define FILL(p, value, n) do {							\
	ASSERT_CU(cuMemsetD8Async(p, value, n, self->s));			\
	ASSERT_CU(cuStreamSynchronize(self->s));				\
} while (0)

/* Queue a wait for *self->gate, which open_gate() ends. */
#define CLOSE_GATE(stream) do {							\
	*self->gate = 0;							\
	ASSERT_CU(cuStreamWaitValue32(stream, (uintptr_t)self->gate, 1,	\
				      CU_STREAM_WAIT_VALUE_EQ));		\
} while (0)

static void open_gate(unsigned int *gate)
{
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
}

/* --- what takes memory */

TEST_F(moves, where_it_is)
{
	size_t before = available();
	CUdeviceptr p = managed(4 * BLOCK), small;

	/* Neither the allocation nor the CPU takes memory of the device. */
	EXPECT_EQ(before, available());
	memset(cpu(p), 1, 4 * BLOCK);
	EXPECT_EQ(before, available());
	EXPECT_EQ(0, blocks_on(0));
	/* The engine does, block by block, for small operations too. */
	ASSERT_CU(cuMemsetD8(p + BLOCK, 2, 1));
	EXPECT_EQ(before - BLOCK, available());
	FILL(p, 2, 2 * BLOCK);
	EXPECT_EQ(before - 2 * BLOCK, available());
	EXPECT_EQ(2, blocks_on(0));
	/* The CPU's accesses change nothing. */
	EXPECT_TRUE(all_are(cpu(p), 2, 2 * BLOCK));
	memset(cpu(p), 3, BLOCK);
	EXPECT_EQ(2, blocks_on(0));
	/* Prefetches move whole blocks. */
	PREFETCH(p + 3 * BLOCK - 1, 2, on_device(0));
	EXPECT_EQ(before - 4 * BLOCK, available());
	PREFETCH(p + BLOCK, 1, on_host());
	EXPECT_EQ(before - 3 * BLOCK, available());
	PREFETCH(p, 4 * BLOCK, ((CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_HOST_NUMA }));
	EXPECT_EQ(before, available());
	EXPECT_TRUE(all_are(cpu(p), 3, BLOCK));
	EXPECT_TRUE(all_are(cpu(p + BLOCK), 2, BLOCK));
	EXPECT_TRUE(all_are(cpu(p + 2 * BLOCK), 1, 2 * BLOCK));
	PREFETCH(p, 4 * BLOCK, on_device(0));
	EXPECT_EQ(4, blocks_on(0));
	/* Advice moves nothing. */
	ASSERT_CU(cuMemAdvise(p, BLOCK, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, on_host()));
	EXPECT_EQ(4, blocks_on(0));
	/* Small allocations share blocks. */
	small = managed(4096);
	EXPECT_EQ(4, blocks_on(0));
	FILL(small, 1, 4096);
	EXPECT_EQ(5, blocks_on(0));
	FILL(managed(4096), 1, 4096);
	EXPECT_EQ(5, blocks_on(0));
	ASSERT_CU(cuMemFree(p));
	EXPECT_EQ(before - BLOCK, available());
}

TEST_F(moves, larger_than_the_device)
{
	const size_t bytes = 3 * BLOCKS * BLOCK, most = 1ull << 40;
	size_t before = available();
	CUdeviceptr p = managed(bytes), huge = 0, dev;

	FILL(p, 1, bytes);
	EXPECT_EQ(before / BLOCK, (size_t)blocks_on(0));
	FILL(p + BLOCK, 2, BLOCK);
	EXPECT_TRUE(all_are(cpu(p), 1, BLOCK));
	EXPECT_TRUE(all_are(cpu(p + BLOCK), 2, BLOCK));
	EXPECT_TRUE(all_are(cpu(p + 2 * BLOCK), 1, bytes - 2 * BLOCK));
	/* Device memory comes first. */
	ASSERT_CU(cuMemAlloc(&dev, before));
	EXPECT_EQ(0, blocks_on(0));
	EXPECT_EQ(0, available());
	FILL(p, 3, bytes);
	EXPECT_TRUE(all_are(cpu(p), 3, bytes));
	ASSERT_CU(cuMemFree(dev));
	EXPECT_EQ(before, available());
	/* The largest allocation. */
	ASSERT_CU(cuMemAllocManaged(&huge, most, CU_MEM_ATTACH_GLOBAL));
	FILL(huge + most - 100, 7, 100);
	EXPECT_TRUE(all_are(cpu(huge + most - 100), 7, 100));
	EXPECT_EQ(0, cpu(huge)[most / 2]);
	ASSERT_CU(cuMemFree(huge));
	EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY,
		  cuMemAllocManaged(&huge, most + 1, CU_MEM_ATTACH_GLOBAL));
	EXPECT_EQ(0, huge);
}

/* The device is full of other memory before the library has made staging memory. */
TEST_F(moves, full_device)
{
	unsigned char *from = malloc(3 * MIB), *to = calloc(1, 3 * MIB);
	CUdeviceptr p = managed(3 * MIB), dev;

	ASSERT_CU(cuMemAlloc(&dev, available()));
	memset(from, 5, 3 * MIB);
	ASSERT_CU(cuMemcpyHtoD(p, from, 3 * MIB));
	EXPECT_TRUE(all_are(cpu(p), 5, 3 * MIB));
	ASSERT_CU(cuMemcpyDtoH(to, p, 3 * MIB));
	EXPECT_TRUE(all_are(to, 5, 3 * MIB));
	EXPECT_EQ(0, blocks_on(0));
	free(from);
	free(to);
}

/* The administrator forbids managed memory: device memory takes its place. */
TEST_F(moves, switched_off)
{
	size_t before = available(), total;
	struct changed switched;
	CUdeviceptr p;

	ASSERT_TRUE(file_change(&switched, "/sys/module/gpumem/parameters/managed", "0"));
	p = managed(2 * BLOCK);
	EXPECT_EQ(before - 2 * BLOCK, available());
	memset(cpu(p), 1, 2 * BLOCK);
	PREFETCH(p, 2 * BLOCK, on_host());
	EXPECT_EQ(before - 2 * BLOCK, available());
	ASSERT_CU(cuMemGetInfo(NULL, &total));
	EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY,
		  cuMemAllocManaged(&p, total + 1, CU_MEM_ATTACH_GLOBAL));
	EXPECT_EQ(0, file_restore(&switched));
}

/* --- copies */

static bool pattern_is(const unsigned char *p, size_t n, unsigned int seed)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != (unsigned char)(seed + i * 37 + (i >> 8)))
			return false;
	return true;
}

static void pattern(unsigned char *p, size_t n, unsigned int seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = seed + i * 37 + (i >> 8);
}

/* Copies of all kinds of memory, each of blocks that have just been evicted. */
TEST_F(moves, copies)
{
	const size_t sizes[] = { 1, 4096, 300 * KIB, 3 * MIB + 5 };
	unsigned char *page = malloc(4 * MIB), *pinned;
	CUdeviceptr a = managed(4 * MIB), b = managed(4 * MIB), dev;

	ASSERT_CU(cuMemAllocHost((void **)&pinned, 4 * MIB));
	ASSERT_CU(cuMemAlloc(&dev, 4 * MIB));
	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
		const size_t n = sizes[i];

#define EVICT()	do { PREFETCH(a, 4 * MIB, on_host()); PREFETCH(b, 4 * MIB, on_host()); } while (0)
		pattern(page, n, i);
		ASSERT_CU(cuMemcpyHtoD(a + 3, page, n));
		EXPECT_TRUE(pattern_is(cpu(a + 3), n, i));
		EVICT();
		ASSERT_CU(cuMemcpyDtoD(b + 7, a + 3, n));
		ASSERT_CU(cuCtxSynchronize());
		EXPECT_TRUE(pattern_is(cpu(b + 7), n, i));
		EVICT();
		ASSERT_CU(cuMemcpyDtoDAsync(dev, b + 7, n, self->s));
		ASSERT_CU(cuMemcpyAsync((uintptr_t)pinned, dev, n, self->s));
		ASSERT_CU(cuStreamSynchronize(self->s));
		EXPECT_TRUE(pattern_is(pinned, n, i));
		pattern(pinned, n, i + 10);
		ASSERT_CU(cuMemcpyHtoDAsync(a + 1, pinned, n, self->s));
		ASSERT_CU(cuStreamSynchronize(self->s));
		EVICT();
		memset(page, 0, n);
		ASSERT_CU(cuMemcpyDtoHAsync(page, a + 1, n, self->s));
		ASSERT_CU(cuStreamSynchronize(self->s));
		EXPECT_TRUE(pattern_is(page, n, i + 10));
		/* As the host's memory, and onto itself. */
		EVICT();
		ASSERT_CU(cuMemcpyHtoD(dev, cpu(a + 1), n));
		ASSERT_CU(cuMemcpyDtoH(cpu(b), dev, n));
		EXPECT_TRUE(pattern_is(cpu(b), n, i + 10));
		EVICT();
		ASSERT_CU(cuMemcpyDtoDAsync(b + 1, b, n, self->s));
		ASSERT_CU(cuStreamSynchronize(self->s));
		EXPECT_TRUE(pattern_is(cpu(b + 1), n, i + 10));
		EXPECT_LT(0, blocks_on(0));
	}
	free(page);
}

/* Rows and slices that leave gaps in other blocks, from pageable memory and back. */
TEST_F(moves, boxes)
{
	const size_t pitch = 3 * MIB / 4, width = 5000, rows = 7;
	unsigned char *page = malloc(width * rows);
	CUdeviceptr a = managed(pitch * rows), b = managed(pitch * rows);
	CUDA_MEMCPY2D in = {
		.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = page, .srcPitch = width,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = a, .dstPitch = pitch,
		.WidthInBytes = width, .Height = rows,
	};
	CUDA_MEMCPY3D over = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = a, .srcPitch = pitch,
		.srcHeight = 1, .dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = b,
		.dstPitch = pitch, .dstHeight = 1,
		.WidthInBytes = width, .Height = 1, .Depth = rows,
	};
	CUdeviceptr to[] = { a, a + BLOCK }, from[] = { b, b + pitch };
	size_t sizes[] = { width, width }, first = 0;
	CUmemcpyAttributes how = { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL };

	for (size_t r = 0; r < rows; r++)
		pattern(page + r * width, width, r);
	ASSERT_CU(cuMemcpy2D(&in));
	PREFETCH(a, pitch * rows, on_host());
	ASSERT_CU(cuMemcpy3D(&over));
	for (size_t r = 0; r < rows; r++) {
		EXPECT_TRUE(pattern_is(cpu(b + r * pitch), width, r));
		EXPECT_EQ(0, cpu(b + r * pitch)[width]);
	}
	ASSERT_CU(cuMemsetD2D8(b, pitch, 9, width, rows - 1));
	EXPECT_TRUE(all_are(cpu(b), 9, width));
	EXPECT_TRUE(pattern_is(cpu(b + (rows - 1) * pitch), width, rows - 1));
	PREFETCH(b, pitch * rows, on_host());
	/* A batch takes the values at the call, though the stream is busy. */
	CLOSE_GATE(self->s);
	ASSERT_CU(cuMemcpyBatchAsync(to, from, sizes, 2, &how, &first, 1, self->s));
	memset(cpu(b), 1, width);
	open_gate(self->gate);
	ASSERT_CU(cuStreamSynchronize(self->s));
	EXPECT_TRUE(all_are(cpu(a), 9, width));
	EXPECT_TRUE(all_are(cpu(a + BLOCK), 9, width));
	free(page);
}

/* --- the order of prefetches */

TEST_F(moves, prefetch_in_order)
{
	CUdeviceptr p = managed(2 * BLOCK), q = managed(BLOCK), ptrs[] = { p + BLOCK, q };
	CUmemLocation where[] = { on_device(0), on_host() };
	size_t sizes[] = { BLOCK, BLOCK }, indices[] = { 0, 1 };

	FILL(q, 1, BLOCK);
	EXPECT_EQ(1, blocks_on(0));
	CLOSE_GATE(self->s);
	ASSERT_CU(cuMemPrefetchAsync(p, BLOCK, on_device(0), 0, self->s));
	ASSERT_CU(cuMemPrefetchBatchAsync(ptrs, sizes, 2, where, indices, 2, 0, self->s));
	EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(self->s));
	nap_ms(20);
	EXPECT_EQ(1, blocks_on(0));
	open_gate(self->gate);
	ASSERT_CU(cuStreamSynchronize(self->s));
	EXPECT_EQ(2, blocks_on(0));
	where[0] = on_host();
	where[1] = on_device(0);
	ASSERT_CU(cuMemDiscardAndPrefetchBatchAsync(ptrs, sizes, 2, where, indices, 2, 0, self->s));
	ASSERT_CU(cuMemPrefetchAsync(p, BLOCK, on_host(), 0, self->s));
	ASSERT_CU(cuStreamSynchronize(self->s));
	EXPECT_EQ(1, blocks_on(0));
	ASSERT_CU(cuMemFree(q));
	EXPECT_EQ(0, blocks_on(0));
	/* A discard gives the block back, and a prefetch behind it makes it resident again. */
	FILL(p, 1, BLOCK);
	EXPECT_EQ(1, blocks_on(0));
	ASSERT_CU(cuMemDiscardBatchAsync(&p, sizes, 1, 0, self->s));
	ASSERT_CU(cuStreamSynchronize(self->s));
	EXPECT_EQ(0, blocks_on(0));
	FILL(p, 1, BLOCK);
	ASSERT_CU(cuMemDiscardAndPrefetchBatchAsync(&p, sizes, 1, &where[1], indices, 1, 0, self->s));
	ASSERT_CU(cuStreamSynchronize(self->s));
	EXPECT_EQ(1, blocks_on(0));
	EXPECT_TRUE(all_are(cpu(p), 0, BLOCK));
	/* A free waits for the prefetches. */
	ASSERT_CU(cuMemPrefetchAsync(p, 2 * BLOCK, on_device(0), 0, self->s));
	ASSERT_CU(cuMemFree(p));
	EXPECT_CU(cuStreamSynchronize(self->s));
	EXPECT_EQ(0, blocks_on(0));
}

/* Memory that is mostly read: a read of the device duplicates it, and a write of the CPU ends that. */
TEST_F(moves, read_mostly)
{
	CUdeviceptr p = managed(2 * BLOCK), to = managed(BLOCK);
	CUmemLocation any = on_host();

	memset(cpu(p), 5, 2 * BLOCK);
	ASSERT_CU(cuMemAdvise(p, 2 * BLOCK, CU_MEM_ADVISE_SET_READ_MOSTLY, any));
	ASSERT_CU(cuMemcpyDtoDAsync(to, p, BLOCK, self->s));
	ASSERT_CU(cuMemcpyDtoDAsync(to, p + BLOCK, BLOCK, self->s));
	ASSERT_CU(cuStreamSynchronize(self->s));
	EXPECT_EQ(3, blocks_on(0));
	EXPECT_TRUE(all_are(cpu(p), 5, 2 * BLOCK));
	EXPECT_EQ(3, blocks_on(0));
	cpu(p)[1] = 6;
	EXPECT_EQ(2, blocks_on(0));
	/* A prefetch to the host leaves the device's copy. */
	PREFETCH(p, 2 * BLOCK, on_device(0));
	EXPECT_EQ(3, blocks_on(0));
	PREFETCH(p, 2 * BLOCK, on_host());
	EXPECT_EQ(3, blocks_on(0));
	ASSERT_CU(cuMemAdvise(p, 2 * BLOCK, CU_MEM_ADVISE_UNSET_READ_MOSTLY, any));
	EXPECT_EQ(1, blocks_on(0));
	EXPECT_EQ(6, cpu(p)[1]);
	ASSERT_CU(cuMemFree(p));
	ASSERT_CU(cuMemFree(to));
}

/* A prefetch to another device than the stream's is in the stream's order, too. */
TEST_F(moves, prefetch_elsewhere)
{
	CUdeviceptr p = managed(2 * BLOCK);

	if (dev_count() < 2)
		SKIP(return, "one device");
	FILL(p, 1, BLOCK);
	CLOSE_GATE(self->s);
	ASSERT_CU(cuMemPrefetchAsync(p, 2 * BLOCK, on_device(1), 0, self->s));
	ASSERT_CU(cuMemPrefetchAsync(p, BLOCK, on_host(), 0, self->s));
	nap_ms(20);
	EXPECT_EQ(1, blocks_on(0));
	EXPECT_EQ(0, blocks_on(1));
	open_gate(self->gate);
	ASSERT_CU(cuStreamSynchronize(self->s));
	EXPECT_EQ(0, blocks_on(0));
	EXPECT_EQ(1, blocks_on(1));
	FILL(p, 2, 2 * BLOCK);
	EXPECT_EQ(2, blocks_on(0));
	EXPECT_EQ(0, blocks_on(1));
	EXPECT_TRUE(all_are(cpu(p), 2, 2 * BLOCK));
}

#define ADVISE(p, n, advice, where) \
	ASSERT_CU(cuMemAdvise(p, n, CU_MEM_ADVISE_##advice, where))

/* Memory that prefers the host takes no memory of the device, until a prefetch or other advice. */
TEST_F(moves, advice_host)
{
	CUdeviceptr p = managed(2 * BLOCK + 4096), small = managed(4096);
	CUmemLocation node = { .type = CU_MEM_LOCATION_TYPE_HOST_NUMA };
	size_t before = available();

	ADVISE(p, 2 * BLOCK + 4096, SET_PREFERRED_LOCATION, node);
	FILL(p, 1, 2 * BLOCK + 4096);
	EXPECT_EQ(before, available());
	EXPECT_TRUE(all_are(cpu(p), 1, 2 * BLOCK + 4096));
	PREFETCH(p, BLOCK, on_device(0));
	FILL(p, 2, 2 * BLOCK + 4096);
	EXPECT_EQ(1, blocks_on(0));
	/* The end of the allocation is that of its last block. */
	ADVISE(p + BLOCK, BLOCK + 4096, UNSET_PREFERRED_LOCATION, on_host());
	FILL(p, 3, 2 * BLOCK + 4096);
	EXPECT_EQ(3, blocks_on(0));
	/* Advice about a part of a block is only stored. */
	ADVISE(p + BLOCK, BLOCK - 4096, SET_PREFERRED_LOCATION, on_host());
	ADVISE(small, 4096, SET_PREFERRED_LOCATION, on_host());
	PREFETCH(p, 2 * BLOCK + 4096, on_host());
	FILL(p, 4, 2 * BLOCK + 4096);
	EXPECT_EQ(2, blocks_on(0));
	FILL(small, 1, 4096);
	EXPECT_EQ(3, blocks_on(0));
	/* Memory at the same address has no advice. */
	ASSERT_CU(cuMemFree(p));
	p = managed(2 * BLOCK + 4096);
	FILL(p, 1, 2 * BLOCK + 4096);
	EXPECT_EQ(4, blocks_on(0));
}

TEST_F(moves, advice_device)
{
	CUdeviceptr p = managed(4 * BLOCK);

	if (dev_count() < 2)
		SKIP(return, "one device");
	ADVISE(p, BLOCK, SET_PREFERRED_LOCATION, on_device(1));
	FILL(p, 1, 2 * BLOCK);
	EXPECT_EQ(1, blocks_on(0));
	EXPECT_EQ(1, blocks_on(1));
	/* Device 0 works on memory where it is; nobody has the other blocks yet. */
	PREFETCH(p + BLOCK, 2 * BLOCK, on_device(1));
	ADVISE(p + BLOCK, 3 * BLOCK, SET_ACCESSED_BY, on_device(0));
	ADVISE(p + BLOCK, 3 * BLOCK, UNSET_ACCESSED_BY, on_host());
	FILL(p, 2, 4 * BLOCK);
	EXPECT_EQ(1, blocks_on(0));
	EXPECT_EQ(3, blocks_on(1));
	ADVISE(p, 2 * BLOCK, UNSET_PREFERRED_LOCATION, on_device(0));
	ADVISE(p, 2 * BLOCK, UNSET_ACCESSED_BY, on_device(0));
	FILL(p, 3, 4 * BLOCK);
	EXPECT_EQ(3, blocks_on(0));
	EXPECT_EQ(1, blocks_on(1));
	EXPECT_TRUE(all_are(cpu(p), 3, 4 * BLOCK));
}

/* Many prefetches to another device that wait take no more kernel streams than one. */
TEST_F(moves, many_elsewhere)
{
	struct gpumem_stats first = { .streams = 0 }, last = { .streams = 0 };
	CUdeviceptr p = managed(2 * BLOCK);

	if (dev_count() < 2)
		SKIP(return, "one device");
	FILL(p, 1, BLOCK);
	CLOSE_GATE(self->s);
	for (int i = 0; i < 100; i++) {
		ASSERT_CU(cuMemPrefetchAsync(p, BLOCK, on_device(1), 0, self->s));
		ASSERT_CU(cuMemPrefetchAsync(p, 2 * BLOCK, on_device(i % 2), 0, self->s));
		if (!i)
			ASSERT_EQ(0, client_stats(&first));
	}
	ASSERT_EQ(0, client_stats(&last));
	EXPECT_EQ(first.streams, last.streams);
	EXPECT_EQ(1, blocks_on(0));
	open_gate(self->gate);
	ASSERT_CU(cuStreamSynchronize(self->s));
	EXPECT_EQ(0, blocks_on(0));
	EXPECT_EQ(2, blocks_on(1));
}

/* A free does not wait for the prefetch of another context, which then does nothing. */
TEST_F(moves, free_before_prefetch)
{
	CUdeviceptr p = managed(BLOCK);
	CUcontext other;
	CUstream s;

	ASSERT_CU(cuCtxCreate(&other, NULL, 0, 0));
	ASSERT_CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	CLOSE_GATE(s);
	ASSERT_CU(cuMemPrefetchAsync(p, BLOCK, on_device(0), 0, s));
	if (dev_count() > 1)
		ASSERT_CU(cuMemPrefetchAsync(p, BLOCK, on_device(1), 0, s));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_CU(cuMemFree(p));
	EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(s));
	open_gate(self->gate);
	EXPECT_CU(cuStreamSynchronize(s));
	EXPECT_CU(cuCtxSynchronize_v2(other));
	EXPECT_CU(cuCtxDestroy(other));
}

/* An allocation of a range that an earlier one had, and did not touch, takes the pages that it clears. */
TEST_F(moves, reused_range)
{
	CUdeviceptr keep = managed(4096), p = managed(1 << 20), again;

	memset(cpu(p), 7, 4096);
	ASSERT_CU(cuMemFree(p));
	again = managed(1 << 20);
	EXPECT_EQ(p, again);
	EXPECT_TRUE(all_are(cpu(again), 0, 1 << 20));
	EXPECT_EQ(0, blocks_on(0));
	ASSERT_CU(cuMemFree(again));
	ASSERT_CU(cuMemFree(keep));
}

/* --- memory of managed pools and of others */

#define POOL_THREADS	9

struct pool_user {
	CUcontext ctx;
	CUmemoryPool pool;
	pthread_barrier_t *all;
	CUresult result;
};

/* Use memory of a managed pool, and memory of the default pool, for what the kind of memory decides. */
static CUresult pool_use(CUmemoryPool pool)
{
	CUdeviceptr p = 0, q = 0;
	CUstream s;

	return cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) ?:
		cuMemAllocFromPoolAsync(&p, 4096, pool, s) ?:
		cuMemAllocAsync(&q, 4096, s) ?:
		cuMemPrefetchAsync(p, 4096, on_device(0), 0, s) ?:
		cuStreamWriteValue32(s, q, 5, 0) ?:
		cuMemcpyDtoDAsync(p, q, 4, s) ?:
		cuStreamSynchronize(s) ?:
		(*(unsigned int *)(uintptr_t)p != 5) ? CUDA_ERROR_UNKNOWN :
		cuMemFreeAsync(p, s) ?: cuMemFreeAsync(q, s) ?: cuStreamDestroy(s);
}

static void *pool_main(void *arg)
{
	struct pool_user *user = arg;

	user->result = cuCtxSetCurrent(user->ctx) ?: pool_use(user->pool);
	/* No thread takes the number of one that has ended. */
	pthread_barrier_wait(user->all);
	return NULL;
}

/* What memory of a pool is does not depend on the thread that allocates it. */
TEST_F(moves, pool_of_threads)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED, .location = on_device(0),
	};
	struct pool_user user[POOL_THREADS];
	pthread_t thread[POOL_THREADS];
	pthread_barrier_t all;
	CUmemoryPool pool;

	ASSERT_CU(cuMemPoolCreate(&pool, &props));
	ASSERT_EQ(0, pthread_barrier_init(&all, NULL, POOL_THREADS));
	for (int i = 0; i < POOL_THREADS; i++) {
		user[i] = (struct pool_user) { .ctx = self->ctx, .pool = pool, .all = &all };
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, pool_main, &user[i]));
	}
	for (int i = 0; i < POOL_THREADS; i++) {
		pthread_join(thread[i], NULL);
		EXPECT_CU(user[i].result);
	}
	EXPECT_CU(cuCtxSynchronize());
	EXPECT_CU(cuMemPoolDestroy(pool));
}

/* --- a model: the engine and the CPU touch three times the device's memory */

#define PIECES		24u
#define PIECE		(BLOCK + 4096)	/* so that pieces of the model share no block with others */

struct model {
	CUdeviceptr mem[PIECES];
	unsigned char *want[PIECES];
};

static CUresult step(struct model *m, struct rng *rng, CUstream s, bool *right)
{
	unsigned int i = rng_below(rng, PIECES), k = rng_below(rng, PIECES);
	size_t at = rng_below(rng, PIECE), n = 1 + rng_below(rng, PIECE - at), to;
	unsigned char value = rng_next(rng);
	CUresult result;

	/* Half of the ranges are short, so that more of them fit between two evictions. */
	if (rng_below(rng, 2))
		n = 1 + (n - 1) % 5000;
	to = rng_below(rng, PIECE - n + 1);
	switch (rng_below(rng, 8)) {
	case 0:
	case 1:
		memset(m->want[i] + at, value, n);
		return cuMemsetD8Async(m->mem[i] + at, value, n, s);
	case 2:
	case 3:
		memmove(m->want[k] + to, m->want[i] + at, n);
		return cuMemcpyDtoDAsync(m->mem[k] + to, m->mem[i] + at, n, s);
	case 4:
		memset(m->want[i] + at, value, n);
		return cuMemcpyHtoDAsync(m->mem[i] + at, m->want[i] + at, n, s);
	case 5:
		return cuMemPrefetchAsync(m->mem[i] + at, n, rng_below(rng, 2) ? on_host() : on_device(0),
					  0, s);
	case 6:
		result = cuStreamSynchronize(s);
		memset(m->want[i] + at, value, n);
		memset(cpu(m->mem[i] + at), value, n);
		return result;
	default:
		result = cuStreamSynchronize(s);
		*right = !memcmp(cpu(m->mem[i] + at), m->want[i] + at, n);
		return result;
	}
}

TEST_F(moves, model)
{
	__u64 steps = env_number("GPUMEM_STEPS", 1500);
	struct model m;
	struct rng rng;
	bool right = true;

	rng_start(&rng, "managed memory");
	for (unsigned int i = 0; i < PIECES; i++) {
		m.mem[i] = managed(PIECE);
		m.want[i] = calloc(1, PIECE);
		ASSERT_NE(NULL, m.want[i]);
	}
	for (__u64 i = 0; i < steps; i++) {
		ASSERT_CU(step(&m, &rng, self->s, &right));
		ASSERT_TRUE(right) {
			TH_LOG("step %llu", (unsigned long long)i);
		}
	}
	ASSERT_CU(cuStreamSynchronize(self->s));
	for (unsigned int i = 0; i < PIECES; i++) {
		EXPECT_EQ(0, memcmp(cpu(m.mem[i]), m.want[i], PIECE));
		EXPECT_CU(cuMemFree(m.mem[i]));
		free(m.want[i]);
	}
	EXPECT_EQ(0, blocks_on(0));
}

/* --- threads, and the end of a process */

static void *churn(void *arg)
{
	CUcontext ctx = *(CUcontext *)arg;
	CUdeviceptr p;
	CUstream s;

	if (cuCtxSetCurrent(ctx) || cuStreamCreate(&s, CU_STREAM_NON_BLOCKING))
		return "no stream";
	for (int i = 1; i < 40; i++) {
		size_t n = (i % 5) * BLOCK + 1000;

		if (cuMemAllocManaged(&p, n, CU_MEM_ATTACH_GLOBAL))
			return "no memory";
		if (cuMemPrefetchAsync(p, n, i % 3 ? on_device(0) : on_host(), 0, s) ||
		    cuMemsetD8Async(p, i, n, s) || cuStreamSynchronize(s))
			return "not filled";
		if (!all_are(cpu(p), i, n))
			return "not its own";
		if (cuMemFree(p))
			return "not freed";
	}
	return cuStreamDestroy(s) ? "not destroyed" : NULL;
}

TEST_F(moves, threads)
{
	pthread_t thread[4];
	void *complaint;

	for (unsigned int i = 0; i < ARRAY_SIZE(thread); i++)
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, churn, &self->ctx));
	for (unsigned int i = 0; i < ARRAY_SIZE(thread); i++) {
		ASSERT_EQ(0, pthread_join(thread[i], &complaint));
		EXPECT_EQ(NULL, complaint) {
			TH_LOG("%s", (char *)complaint);
		}
	}
	EXPECT_EQ(0, blocks_on(0));
}

FIXTURE(killed)
{
	char size[32];
};

FIXTURE_SETUP(killed)
{
	ASSERT_TRUE(dev_quiet(10));
	ASSERT_EQ(0, device_shrink(self->size, sizeof(self->size)));
}

FIXTURE_TEARDOWN_PARENT(killed)
{
	EXPECT_EQ(0, write_dev_attr(0, "size", self->size));
	EXPECT_TRUE(dev_quiet(10));
}

/* Move memory of twice the device's size until the end. */
static int mover(void *arg)
{
	const size_t n = 2 * BLOCKS * BLOCK;
	int fd = *(int *)arg;
	CUdeviceptr p;
	CUcontext ctx;
	CUstream s;

	if (cuda_start(&ctx) || cuStreamCreate(&s, CU_STREAM_NON_BLOCKING))
		return 1;
	p = managed(n);
	memset(cpu(p), 1, n);
	for (bool first = true;; first = false) {
		if (cuMemPrefetchAsync(p, n / 2, on_device(0), 0, s) ||
		    cuMemsetD8Async(p + n / 2, 2, n / 2, s) ||
		    cuMemPrefetchAsync(p, n, on_host(), 0, s))
			return 1;
		if (first && (cuStreamSynchronize(s) || !tell(fd)))
			return 1;
	}
}

TEST_F(killed, leaves_nothing)
{
	for (unsigned int i = 0; i < 3; i++) {
		int to;
		pid_t pid = start_ready_child(mover, &to, &to);

		ASSERT_LT(0, pid);
		nap_ms(30 * i);
		EXPECT_EQ(-SIGKILL, kill_child(pid));
		EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 10));
		EXPECT_TRUE(number_becomes("/sys/class/gpumem/managed_used", 0));
	}
}

TEST_HARNESS_MAIN
