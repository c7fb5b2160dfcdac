// SPDX-License-Identifier: GPL-2.0
/*
 * Memory of managed pools is managed memory: what takes device memory when, pools larger than the device, prefetches
 * there and back, eviction, the pool's location, reuse, and giving memory back.
 *
 * The device has BLOCKS blocks, so that little is needed to exceed it.
 */
#include "kselftest_harness.h"
#include "cuda_util.h"
#include "cuda_case_util.h"
#include "deny_util.h"
#include "common/limits_util.h"

#define BLOCK		((size_t)GPUMEM_MANAGED_BLOCK)
#define BLOCKS		8ull		/* of the device's memory */
#define SMALL		4096

FIXTURE(managed_pool)
{
	char size[32];			/* of the device, before */
	CUcontext ctx;
	CUmemoryPool pool;		/* at no location */
	CUstream s;
	unsigned int *gate;
	struct meter m;
};

static int device_shrink(char *size, size_t room)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", BLOCKS * BLOCK);
	return dev_attr_text(0, "size", size, room) ?: write_dev_attr(0, "size", text);
}

static CUresult pool_at(CUmemoryPool *pool, int type, int id)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED, .location = { .type = type, .id = id },
	};

	return cuMemPoolCreate(pool, &props);
}

FIXTURE_SETUP(managed_pool)
{
	ASSERT_TRUE(dev_quiet(10));
	ASSERT_EQ(0, device_shrink(self->size, sizeof(self->size)));
	ASSERT_CU(cuda_start(&self->ctx));
	ASSERT_CU(cuStreamCreate(&self->s, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuMemAllocHost((void **)&self->gate, sizeof(*self->gate)));
	ASSERT_CU(pool_at(&self->pool, CU_MEM_LOCATION_TYPE_NONE, 0));
	*self->gate = 0;
	/* Staging memory and the like exist before a case counts. */
	ASSERT_CU(cuCtxSynchronize());
	ASSERT_EQ(0, meter_read(&self->m));
}

FIXTURE_TEARDOWN_PARENT(managed_pool)
{
	EXPECT_EQ(0, write_dev_attr(0, "size", self->size));
	EXPECT_TRUE(dev_quiet(10));
	EXPECT_TRUE(number_becomes("/sys/class/gpumem/managed_used", 0));
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

/* Entries that the engine executed since the last look. */
static long long jobs(struct meter *m)
{
	struct meter now;
	long long n;

	if (cuCtxSynchronize() || meter_read(&now))
		return -1;
	n = now.jobs - m->jobs;
	*m = now;
	return n;
}

#define JOBS()		jobs(&self->m)
/* In strict mode the calling thread reaches managed memory, too. */
#define INLINE_OR(n)	(inlining() || strict() ? 0 : (n))

#define ALLOC(p, n)	ASSERT_CU(cuMemAllocFromPoolAsync(p, n, self->pool, self->s))
#define FREE(p)		ASSERT_CU(cuMemFreeAsync(p, self->s))
#define SYNC()		ASSERT_CU(cuStreamSynchronize(self->s))

#define PREFETCH(p, n, where) do {						\
	ASSERT_CU(cuMemPrefetchAsync(p, n, where, 0, self->s));			\
	SYNC();									\
} while (0)

#define FILL(p, value, n) do {							\
	ASSERT_CU(cuMemsetD8Async(p, value, n, self->s));			\
	SYNC();									\
} while (0)

/* Queue a wait for *self->gate, which open_gate() ends. */
#define CLOSE_GATE() do {							\
	*self->gate = 0;							\
	ASSERT_CU(cuStreamWaitValue32(self->s, (uintptr_t)self->gate, 1,	\
				      CU_STREAM_WAIT_VALUE_EQ));		\
} while (0)

static void open_gate(unsigned int *gate)
{
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
}

static int last_prefetch(CUdeviceptr p, size_t n)
{
	int value = -77;

	return cuMemRangeGetAttribute(&value, sizeof(value), CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p, n) ?
		-77 : value;
}

/* Nothing is taken before a touch of the engine or a prefetch, and prefetches move blocks there and back. */
TEST_F(managed_pool, where_it_is)
{
	size_t before = available();
	CUdeviceptr p;

	ALLOC(&p, 4 * BLOCK);
	EXPECT_EQ(before, available());
	EXPECT_EQ(4 * BLOCK, pool_figure(self->pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
	EXPECT_EQ(4 * BLOCK, pool_figure(self->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
	memset(cpu(p), 1, 4 * BLOCK);
	EXPECT_EQ(before, available());
	EXPECT_EQ(0, blocks_on(0));
	FILL(p, 2, 1);
	EXPECT_EQ(before - BLOCK, available());
	FILL(p, 2, 2 * BLOCK);
	EXPECT_EQ(2, blocks_on(0));
	EXPECT_TRUE(all_are(cpu(p), 2, 2 * BLOCK));
	PREFETCH(p + 3 * BLOCK - 1, 2, on_device(0));
	EXPECT_EQ(before - 4 * BLOCK, available());
	PREFETCH(p + BLOCK, 1, on_host());
	EXPECT_EQ(3, blocks_on(0));
	EXPECT_EQ(CU_DEVICE_CPU, last_prefetch(p + BLOCK, 1));
	PREFETCH(p, 4 * BLOCK, ((CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_HOST_NUMA }));
	EXPECT_EQ(before, available());
	EXPECT_TRUE(all_are(cpu(p), 2, 2 * BLOCK));
	EXPECT_TRUE(all_are(cpu(p + 2 * BLOCK), 1, 2 * BLOCK));
	PREFETCH(p, 4 * BLOCK, on_device(0));
	EXPECT_EQ(4, blocks_on(0));
	/* Advice is refused, as ever. */
	EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED,
		  cuMemAdvise(p, BLOCK, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, on_host()));
	FREE(p);
	SYNC();
	EXPECT_EQ(before, available());
	EXPECT_EQ(0, pool_figure(self->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
	EXPECT_EQ(4 * BLOCK, pool_figure(self->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH));
}

/* Batches move memory of pools beside other managed memory, in the order of the stream. */
TEST_F(managed_pool, batch)
{
	size_t sizes[] = { 2 * BLOCK, BLOCK }, indices[] = { 0, 1 };
	CUmemLocation where[] = { on_device(0), on_host() };
	CUdeviceptr p[2];

	ALLOC(&p[0], 2 * BLOCK);
	ASSERT_CU(cuMemAllocManaged(&p[1], BLOCK, CU_MEM_ATTACH_GLOBAL));
	FILL(p[1], 1, BLOCK);
	EXPECT_EQ(1, blocks_on(0));
	CLOSE_GATE();
	ASSERT_CU(cuMemPrefetchBatchAsync(p, sizes, 2, where, indices, 2, 0, self->s));
	nap_ms(20);
	EXPECT_EQ(1, blocks_on(0));
	open_gate(self->gate);
	SYNC();
	EXPECT_EQ(2, blocks_on(0));
	where[0] = on_host();
	where[1] = on_device(0);
	ASSERT_CU(cuMemDiscardAndPrefetchBatchAsync(p, sizes, 2, where, indices, 2, 0, self->s));
	SYNC();
	EXPECT_EQ(1, blocks_on(0));
	ASSERT_CU(cuMemDiscardBatchAsync(p, sizes, 2, 0, self->s));
	FREE(p[0]);
	SYNC();
	ASSERT_CU(cuMemFree(p[1]));
	EXPECT_EQ(0, blocks_on(0));
}

/* A pool takes more than the device has; what does not fit is evicted, and keeps its contents. */
TEST_F(managed_pool, larger_than_the_device)
{
	const size_t bytes = 3 * BLOCKS * BLOCK, most = 1ull << 40;
	size_t before = available(), total;
	CUdeviceptr p, q[BLOCKS], dev, huge, none = 7;

	ALLOC(&p, bytes);
	FILL(p, 1, bytes);
	EXPECT_EQ(before / BLOCK, (size_t)blocks_on(0));
	FILL(p + BLOCK, 2, BLOCK);
	for (unsigned int i = 0; i < ARRAY_SIZE(q); i++) {
		ALLOC(&q[i], BLOCK / 2 + SMALL);
		FILL(q[i], 10 + i, BLOCK / 2 + SMALL);
	}
	/* The chunks of the last ones are shorter than a block. */
	EXPECT_GT(BLOCK, available());
	EXPECT_TRUE(all_are(cpu(p), 1, BLOCK));
	EXPECT_TRUE(all_are(cpu(p + BLOCK), 2, BLOCK));
	EXPECT_TRUE(all_are(cpu(p + 2 * BLOCK), 1, bytes - 2 * BLOCK));
	for (unsigned int i = 0; i < ARRAY_SIZE(q); i++) {
		EXPECT_TRUE(all_are(cpu(q[i]), 10 + i, BLOCK / 2 + SMALL));
		FREE(q[i]);
	}
	/* Device memory comes first. */
	SYNC();
	ASSERT_CU(cuMemAlloc(&dev, before));
	EXPECT_EQ(0, blocks_on(0));
	FILL(p, 3, bytes);
	EXPECT_TRUE(all_are(cpu(p), 3, bytes));
	ASSERT_CU(cuMemFree(dev));
	FREE(p);
	SYNC();
	EXPECT_EQ(before, available());
	/* The largest allocation. */
	ALLOC(&huge, most);
	FILL(huge + most - 100, 7, 100);
	EXPECT_TRUE(all_are(cpu(huge + most - 100), 7, 100));
	EXPECT_EQ(0, cpu(huge)[most / 2]);
	FREE(huge);
	/* Other pools of the device are no larger than it. */
	ASSERT_CU(cuMemGetInfo(NULL, &total));
	EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocAsync(&none, total + 1, self->s));
	EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY,
		  cuMemAllocFromPoolAsync(&none, most + 1, self->pool, self->s));
	EXPECT_EQ(0, none);
}

/* The kernel prefers the pool's location: the host's memory stays there when the engine touches it. */
TEST_F(managed_pool, location)
{
	const int types[] = {
		CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST_NUMA, CU_MEM_LOCATION_TYPE_DEVICE,
	};
	CUmemoryPool pool;
	CUdeviceptr p;

	for (unsigned int i = 0; i < ARRAY_SIZE(types); i++) {
		bool device = types[i] == CU_MEM_LOCATION_TYPE_DEVICE;
		int type = 0;

		ASSERT_CU(pool_at(&pool, types[i], 0));
		ASSERT_CU(cuMemAllocFromPoolAsync(&p, 2 * BLOCK + SMALL, pool, self->s));
		FILL(p, 1, 2 * BLOCK + SMALL);
		EXPECT_EQ(device ? 2 * BLOCK + SMALL : 0, dev_attr(0, "managed"));
		EXPECT_CU(cuMemRangeGetAttribute(&type, sizeof(type), CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE,
						 p, SMALL));
		EXPECT_EQ(types[i], type);
		/* A prefetch moves it all the same. */
		PREFETCH(p, 2 * BLOCK + SMALL, on_device(0));
		EXPECT_EQ(2 * BLOCK + SMALL, dev_attr(0, "managed"));
		PREFETCH(p, 2 * BLOCK + SMALL, on_host());
		EXPECT_EQ(0, blocks_on(0));
		EXPECT_TRUE(all_are(cpu(p), 1, 2 * BLOCK + SMALL));
		ASSERT_CU(cuMemFreeAsync(p, self->s));
		ASSERT_CU(cuMemPoolDestroy(pool));
	}
}

/* If the kernel has no memory for the location, the allocation fails and leaves nothing behind. */
TEST_F(managed_pool, location_refused)
{
	struct gpumem_stats before, after;
	CUdeviceptr p = 7, q;
	CUmemoryPool pool;

	ASSERT_CU(pool_at(&pool, CU_MEM_LOCATION_TYPE_HOST, 0));
	ASSERT_EQ(0, client_stats(&before));
	ASSERT_TRUE(deny_call_with(SYS_ioctl, 1, GPUMEM_BO_ADVISE, ENOMEM));
	EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocFromPoolAsync(&p, SMALL, pool, self->s));
	EXPECT_EQ(0, p);
	EXPECT_EQ(0, pool_figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
	ASSERT_EQ(0, client_stats(&after));
	EXPECT_EQ(before.managed, after.managed);
	/* A pool without a location needs none. */
	ALLOC(&q, SMALL);
	FILL(q, 1, SMALL);
	FREE(q);
	ASSERT_CU(cuMemPoolDestroy(pool));
}

TEST_F(managed_pool, two_devices)
{
	CUmemoryPool pool;
	CUdeviceptr p;

	if (dev_count() < 2)
		SKIP(return, "one device");
	ASSERT_CU(pool_at(&pool, CU_MEM_LOCATION_TYPE_DEVICE, 1));
	ASSERT_CU(cuMemAllocFromPoolAsync(&p, 2 * BLOCK, pool, self->s));
	/* A touch by device 0 makes the blocks resident where the pool is. */
	FILL(p, 1, 2 * BLOCK);
	EXPECT_EQ(0, blocks_on(0));
	EXPECT_EQ(2, blocks_on(1));
	PREFETCH(p, BLOCK, on_device(0));
	EXPECT_EQ(1, blocks_on(0));
	EXPECT_EQ(1, blocks_on(1));
	EXPECT_TRUE(all_are(cpu(p), 1, 2 * BLOCK));
	ASSERT_CU(cuMemFreeAsync(p, self->s));
	ASSERT_CU(cuMemPoolDestroy(pool));
	EXPECT_EQ(0, blocks_on(1));
}

/* A trim gives back what is free, resident or not, and nothing else. */
TEST_F(managed_pool, trim)
{
	size_t before = available();
	unsigned long long keep = ~0ull;
	CUdeviceptr p, q;

	ASSERT_CU(cuMemPoolSetAttribute(self->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	ALLOC(&p, 2 * BLOCK);
	ALLOC(&q, 3 * BLOCK);
	FILL(p, 1, 2 * BLOCK);
	FILL(q, 2, 3 * BLOCK);
	EXPECT_EQ(5, blocks_on(0));
	FREE(q);
	SYNC();
	/* Free memory below the threshold stays resident. */
	EXPECT_EQ(5, blocks_on(0));
	EXPECT_EQ(5 * BLOCK, pool_figure(self->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
	ASSERT_CU(cuMemPoolTrimTo(self->pool, 0));
	EXPECT_EQ(2, blocks_on(0));
	EXPECT_EQ(before - 2 * BLOCK, available());
	EXPECT_EQ(2 * BLOCK, pool_figure(self->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
	EXPECT_TRUE(all_are(cpu(p), 1, 2 * BLOCK));
	FREE(p);
	ASSERT_CU(cuMemPoolTrimTo(self->pool, 2 * BLOCK));
	EXPECT_EQ(2, blocks_on(0));
	ASSERT_CU(cuMemPoolTrimTo(self->pool, 0));
	EXPECT_EQ(before, available());
	EXPECT_TRUE(number_becomes("/sys/class/gpumem/managed_used", 0));
}

/* A block can be freed while a prefetch of it waits, and the pool destroyed. */
TEST_F(managed_pool, free_behind_prefetch)
{
	size_t before = available();
	CUdeviceptr p, q;

	ALLOC(&p, 2 * BLOCK);
	memset(cpu(p), 5, 2 * BLOCK);
	CLOSE_GATE();
	ASSERT_CU(cuMemPrefetchAsync(p, 2 * BLOCK, on_device(0), 0, self->s));
	FREE(p);
	EXPECT_EQ(INVALID, cuMemPrefetchAsync(p, BLOCK, on_host(), 0, self->s));
	/* The stream gets it again, without the former owner's hints. */
	ALLOC(&q, 2 * BLOCK);
	EXPECT_EQ(p, q);
	EXPECT_EQ(CU_DEVICE_INVALID, last_prefetch(q, 2 * BLOCK));
	ASSERT_CU(cuMemPrefetchAsync(q, BLOCK, on_host(), 0, self->s));
	EXPECT_EQ(0, blocks_on(0));
	open_gate(self->gate);
	SYNC();
	EXPECT_EQ(1, blocks_on(0));
	/* cuMemFree() does not wait either. */
	CLOSE_GATE();
	ASSERT_CU(cuMemPrefetchAsync(q, 2 * BLOCK, on_device(0), 0, self->s));
	ASSERT_CU(cuMemFree(q));
	ASSERT_CU(cuMemPoolDestroy(self->pool));
	EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(self->s));
	EXPECT_EQ(1, blocks_on(0));
	open_gate(self->gate);
	SYNC();
	EXPECT_EQ(before, available());
	EXPECT_EQ(0, blocks_on(0));
}

/* Another stream waits for memory whose owner's work is queued, and then uses it. */
TEST_F(managed_pool, reuse_between_streams)
{
	unsigned long long keep = ~0ull;
	CUstream other;
	CUdeviceptr p, q;
	CUevent freed;

	ASSERT_CU(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuEventCreate(&freed, CU_EVENT_DISABLE_TIMING));
	ASSERT_CU(cuMemPoolSetAttribute(self->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	ALLOC(&p, 2 * BLOCK);
	CLOSE_GATE();
	ASSERT_CU(cuMemsetD8Async(p, 1, 2 * BLOCK, self->s));
	ASSERT_CU(cuMemPrefetchAsync(p, 2 * BLOCK, on_host(), 0, self->s));
	FREE(p);
	ASSERT_CU(cuEventRecord(freed, self->s));
	ASSERT_CU(cuStreamWaitEvent(other, freed, 0));
	ASSERT_CU(cuMemAllocFromPoolAsync(&q, 2 * BLOCK, self->pool, other));
	EXPECT_EQ(p, q);
	ASSERT_CU(cuMemsetD8Async(q, 2, BLOCK, other));
	open_gate(self->gate);
	ASSERT_CU(cuStreamSynchronize(other));
	EXPECT_EQ(1, blocks_on(0));
	EXPECT_TRUE(all_are(cpu(q), 2, BLOCK));
	EXPECT_TRUE(all_are(cpu(q + BLOCK), 1, BLOCK));
	ASSERT_CU(cuMemFreeAsync(q, other));
	ASSERT_CU(cuStreamSynchronize(other));
}

/* The calling thread does small operations on memory that is resident, and the engine all others. */
TEST_F(managed_pool, small)
{
	unsigned char host[SMALL] = { 9 }, back[SMALL] = { 0 };
	CUdeviceptr p;

	ALLOC(&p, 2 * BLOCK);
	JOBS();
	ASSERT_CU(cuMemcpyHtoD(p, host, SMALL));
	EXPECT_EQ(1, JOBS());
	ASSERT_CU(cuMemcpyHtoD(p, host, SMALL));
	ASSERT_CU(cuMemcpyDtoDAsync(p + SMALL, p, SMALL, self->s));
	ASSERT_CU(cuMemsetD8Async(p + 2 * SMALL, 4, SMALL, self->s));
	/* The copy in the legacy stream does not wait for this stream. */
	ASSERT_CU(cuStreamSynchronize(self->s));
	ASSERT_CU(cuMemcpyDtoH(back, p + SMALL, SMALL));
	EXPECT_EQ(INLINE_OR(4), JOBS());
	EXPECT_EQ(9, back[0]);
	/* The second block is not resident. */
	ASSERT_CU(cuMemcpyDtoDAsync(p + BLOCK, p, SMALL, self->s));
	EXPECT_EQ(1, JOBS());
	PREFETCH(p, 2 * BLOCK, on_host());
	JOBS();
	ASSERT_CU(cuMemsetD8Async(p, 5, SMALL, self->s));
	EXPECT_EQ(1, JOBS());
	EXPECT_EQ(5, cpu(p)[0]);
	EXPECT_EQ(9, cpu(p + BLOCK)[0]);
}

/* The administrator forbids managed memory: device memory takes its place. */
TEST_F(managed_pool, switched_off)
{
	size_t before = available();
	struct changed switched;
	CUdeviceptr p, q = 7;

	ASSERT_TRUE(file_change(&switched, "/sys/module/gpumem/parameters/managed", "0"));
	ALLOC(&p, 2 * BLOCK);
	EXPECT_EQ(before - 2 * BLOCK, available());
	EXPECT_EQ(0, blocks_on(0));
	memset(cpu(p), 1, 2 * BLOCK);
	PREFETCH(p, 2 * BLOCK, on_host());
	EXPECT_EQ(CU_DEVICE_CPU, last_prefetch(p, 2 * BLOCK));
	EXPECT_EQ(before - 2 * BLOCK, available());
	EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY,
		  cuMemAllocFromPoolAsync(&q, BLOCKS * BLOCK, self->pool, self->s));
	EXPECT_EQ(0, q);
	FREE(p);
	SYNC();
	EXPECT_EQ(before, available());
	EXPECT_EQ(0, file_restore(&switched));
}

/* Memory of managed pools cannot be exported. */
TEST_F(managed_pool, not_shared)
{
	CUmemPoolPtrExportData data;
	CUipcMemHandle handle;
	CUdeviceptr p;
	int fd;

	ALLOC(&p, BLOCK);
	EXPECT_EQ(INVALID, cuMemPoolExportToShareableHandle(&fd, self->pool,
							    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	EXPECT_EQ(INVALID, cuMemPoolExportPointer(&data, p));
	EXPECT_EQ(INVALID, cuIpcGetMemHandle(&handle, p));
	EXPECT_EQ(INVALID, cuMemGetHandleForAddressRange(&fd, p, BLOCK,
							 CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
}

/* --- a model: the engine and the CPU touch allocations that come and go, three times the device's memory */

#define PIECES		24u

struct piece {
	CUdeviceptr p;
	size_t n;
	unsigned char value;
};

static CUresult step(struct piece *piece, struct rng *rng, CUmemoryPool pool, CUstream s, bool *right)
{
	CUresult result;

	if (!piece->p) {
		piece->n = 1 + rng_below(rng, rng_below(rng, 2) ? 300 * KIB : 2 * BLOCK);
		piece->value = rng_next(rng);
		result = cuMemAllocFromPoolAsync(&piece->p, piece->n, pool, s);
		return result ? result : cuMemsetD8Async(piece->p, piece->value, piece->n, s);
	}
	switch (rng_below(rng, 6)) {
	case 0:
		result = cuMemFreeAsync(piece->p, s);
		piece->p = 0;
		return result;
	case 1:
		return cuMemPrefetchAsync(piece->p, piece->n, rng_below(rng, 2) ? on_host() : on_device(0), 0, s);
	case 2:
		piece->value = rng_next(rng);
		result = cuStreamSynchronize(s);
		memset(cpu(piece->p), piece->value, piece->n);
		return result;
	case 3:
		piece->value = rng_next(rng);
		return cuMemsetD8Async(piece->p, piece->value, piece->n, s);
	case 4:
		return rng_below(rng, 8) ? CUDA_SUCCESS : cuMemPoolTrimTo(pool, 0);
	default:
		result = cuStreamSynchronize(s);
		*right = *right && all_are(cpu(piece->p), piece->value, piece->n);
		return result;
	}
}

TEST_F(managed_pool, model)
{
	__u64 steps = env_number("GPUMEM_STEPS", 1000);
	struct piece pieces[PIECES] = { { 0 } };
	bool right = true;
	struct rng rng;

	rng_start(&rng, "memory of managed pools");
	for (__u64 i = 0; i < steps; i++) {
		ASSERT_CU(step(&pieces[rng_below(&rng, PIECES)], &rng, self->pool, self->s, &right));
		ASSERT_TRUE(right) {
			TH_LOG("step %llu", i);
		}
	}
	SYNC();
	for (unsigned int i = 0; i < PIECES; i++) {
		if (!pieces[i].p)
			continue;
		EXPECT_TRUE(all_are(cpu(pieces[i].p), pieces[i].value, pieces[i].n));
		FREE(pieces[i].p);
	}
	SYNC();
	EXPECT_EQ(0, blocks_on(0));
	EXPECT_EQ(0, pool_figure(self->pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
}

TEST_HARNESS_MAIN
