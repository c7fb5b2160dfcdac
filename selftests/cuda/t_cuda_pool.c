// SPDX-License-Identifier: GPL-2.0
/*
 * Tests pools by the CUDA API: each reuse rule, attributes, when memory goes back to the kernel,
 * every kind of free, threads, pools of host and managed memory, and what the library adds to CUDA.
 *
 * The conformance program compares the results of single calls with the recorded driver's.  This
 * program tests what single calls do not show.  A gate, which is a word of pinned memory, holds a
 * stream.
 */
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "cuda_case_util.h"

FIXTURE(pool)
{
	CUcontext ctx;
	CUstream s, t;
	CUmemoryPool pool;
	volatile __u32 *gate;
};

static CUresult pool_of(CUmemoryPool *pool, int type, int location, size_t most)
{
	CUmemPoolProps props = {
		.allocType = type, .location = { .type = location }, .maxSize = most,
	};

	return cuMemPoolCreate(pool, &props);
}

static CUresult plain_pool(CUmemoryPool *pool, size_t most)
{
	return pool_of(pool, CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_LOCATION_TYPE_DEVICE, most);
}

static CUresult set(CUmemoryPool pool, CUmemPool_attribute attribute, cuuint64_t value)
{
	return cuMemPoolSetAttribute(pool, attribute, &value);
}

static CUresult reuse(CUmemoryPool pool, int follow, int opportunistic, int internal)
{
	CUresult result = set(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, follow);

	if (!result)
		result = set(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, opportunistic);
	if (!result)
		result = set(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, internal);
	return result;
}

FIXTURE_SETUP(pool)
{
	cuda_begin(_metadata, &self->ctx);
	ASSERT_CU(cuStreamCreate(&self->s, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuStreamCreate(&self->t, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuMemHostAlloc((void **)&self->gate, 4096, 0));
	ASSERT_CU(plain_pool(&self->pool, 0));
	ASSERT_CU(set(self->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, ~0ull));
}

QUIET_AFTERWARDS(pool)

static CUresult hold(volatile __u32 *gate, CUstream stream)
{
	*gate = 0;
	return cuStreamWaitValue32(stream, (uintptr_t)gate, 1, CU_STREAM_WAIT_VALUE_EQ);
}

static void let_go(volatile __u32 *gate)
{
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
}

/* --- reuse */

static const size_t sizes[] = { 1, 512, 5000, 40000, 300000, MIB, 3 * MIB + 1, 9 * MIB };

/* The same stream can reuse a freed, pending block at once; other streams cannot. */
TEST_F(pool, same_stream)
{
	CUdeviceptr a, b, c;

	ASSERT_CU(reuse(self->pool, 0, 0, 0));
	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
		ASSERT_CU(cuMemAllocFromPoolAsync(&a, sizes[i], self->pool, self->s));
		ASSERT_CU(hold(self->gate, self->s));
		ASSERT_CU(cuMemFreeAsync(a, self->s));
		ASSERT_CU(cuMemAllocFromPoolAsync(&b, sizes[i], self->pool, self->t));
		EXPECT_NE(a, b);
		ASSERT_CU(cuMemAllocFromPoolAsync(&c, sizes[i], self->pool, self->s));
		EXPECT_EQ(a, c) {
			TH_LOG("size %zu", sizes[i]);
		}
		let_go(self->gate);
		EXPECT_CU(cuMemFreeAsync(b, self->t));
		EXPECT_CU(cuMemFreeAsync(c, self->s));
		EXPECT_CU(cuCtxSynchronize());
	}
}

/*
 * A stream can reuse a block that another stream freed only after it waits for that stream, and
 * only with the attribute.
 */
TEST_F(pool, follow_event)
{
	enum { MANY = 5000 };
	CUdeviceptr *a = calloc(MANY, sizeof(*a)), b;

	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
		for (int follow = 0; follow < 2; follow++) {
			CUmemoryPool small;
			unsigned int n = 0;

			/* Fill the pool, so that the freed block is its only free memory. */
			ASSERT_CU(plain_pool(&small, sizes[i]));
			ASSERT_CU(reuse(small, follow, 0, 0));
			while (n < MANY &&
			       !cuMemAllocFromPoolAsync(&a[n], sizes[i], small, self->s))
				n++;
			ASSERT_LT(0, n);
			ASSERT_GT(MANY, n);
			ASSERT_CU(hold(self->gate, self->s));
			ASSERT_CU(cuMemFreeAsync(a[n / 2], self->s));
			EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY,
				  cuMemAllocFromPoolAsync(&b, sizes[i], small, self->t));
			ASSERT_CU(stream_follow(self->t, self->s));
			EXPECT_EQ(follow ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY,
				  cuMemAllocFromPoolAsync(&b, sizes[i], small, self->t)) {
				TH_LOG("size %zu", sizes[i]);
			}
			if (follow) {
				EXPECT_EQ(a[n / 2], b);
			}
			EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(self->t));
			let_go(self->gate);
			a[n / 2] = follow ? b : 0;
			while (n--)
				ASSERT_CU(cuMemFreeAsync(a[n], self->t));
			EXPECT_CU(cuCtxSynchronize());
			EXPECT_CU(cuMemPoolDestroy(small));
		}
	}
	free(a);
}

/*
 * A wait for a stream that waited for the free counts.  A wait from before the free counts only if
 * the freeing stream got no work between the wait and the free.
 */
TEST_F(pool, follow_chain)
{
	CUdeviceptr a, b;
	CUstream u;

	ASSERT_CU(cuStreamCreate(&u, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(reuse(self->pool, 1, 0, 0));
	ASSERT_CU(cuMemAllocFromPoolAsync(&a, 3 * MIB, self->pool, self->s));
	ASSERT_CU(hold(self->gate, self->s));
	ASSERT_CU(stream_follow(self->t, self->s));
	ASSERT_CU(cuMemFreeAsync(a, self->s));
	/* A free takes effect after the work that is in its stream; the wait covers that work. */
	ASSERT_CU(cuMemAllocFromPoolAsync(&b, 3 * MIB, self->pool, self->t));
	EXPECT_EQ(a, b);
	let_go(self->gate);
	ASSERT_CU(cuCtxSynchronize());
	ASSERT_CU(cuMemFreeAsync(b, self->t));

	ASSERT_CU(cuMemPoolTrimTo(self->pool, 0));
	ASSERT_CU(cuMemAllocFromPoolAsync(&a, 3 * MIB, self->pool, self->s));
	ASSERT_CU(hold(self->gate, self->s));
	ASSERT_CU(stream_follow(self->t, self->s));
	ASSERT_CU(cuMemsetD8Async(a, 1, 3 * MIB, self->s));
	ASSERT_CU(cuMemFreeAsync(a, self->s));
	ASSERT_CU(cuMemAllocFromPoolAsync(&b, 3 * MIB, self->pool, self->t));
	EXPECT_NE(a, b);
	ASSERT_CU(cuMemFreeAsync(b, self->t));
	let_go(self->gate);
	ASSERT_CU(cuCtxSynchronize());

	ASSERT_CU(cuMemPoolTrimTo(self->pool, 0));
	ASSERT_CU(cuMemAllocFromPoolAsync(&a, 3 * MIB, self->pool, self->s));
	ASSERT_CU(hold(self->gate, self->s));
	ASSERT_CU(cuMemFreeAsync(a, self->s));
	ASSERT_CU(stream_follow(u, self->s));
	ASSERT_CU(stream_follow(self->t, u));
	ASSERT_CU(cuMemAllocFromPoolAsync(&b, 3 * MIB, self->pool, self->t));
	EXPECT_EQ(a, b);
	let_go(self->gate);
	EXPECT_CU(cuMemFreeAsync(b, self->t));
	EXPECT_CU(cuCtxSynchronize());
}

/* The legacy stream waits for blocking streams without an event, and they wait for it. */
TEST_F(pool, follow_legacy)
{
	CUdeviceptr a, b;
	CUstream blocking;

	ASSERT_CU(cuStreamCreate(&blocking, 0));
	ASSERT_CU(reuse(self->pool, 1, 0, 0));
	for (int legacy_frees = 0; legacy_frees < 2; legacy_frees++) {
		CUstream frees = legacy_frees ? NULL : blocking;
		CUstream takes = legacy_frees ? blocking : NULL;

		ASSERT_CU(cuMemPoolTrimTo(self->pool, 0));
		ASSERT_CU(cuMemAllocFromPoolAsync(&a, 3 * MIB, self->pool, frees));
		ASSERT_CU(hold(self->gate, frees));
		ASSERT_CU(cuMemFreeAsync(a, frees));
		ASSERT_CU(cuMemAllocFromPoolAsync(&b, 3 * MIB, self->pool, takes));
		EXPECT_EQ(a, b);
		/* The gate holds the stream. */
		EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(takes));
		let_go(self->gate);
		EXPECT_CU(cuMemFreeAsync(b, takes));
		EXPECT_CU(cuCtxSynchronize());
	}
}

/*
 * The free is complete, but no stream waited for it: the block is reused only with the attribute,
 * or if the pool has no other memory.
 */
TEST_F(pool, opportunistic)
{
	CUmemoryPool small;
	CUdeviceptr a, b;
	CUevent event;

	ASSERT_CU(plain_pool(&small, 4 * MIB));
	ASSERT_CU(set(small, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, ~0ull));
	ASSERT_CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	for (int full = 0; full < 2; full++) {
		for (int opportunistic = 0; opportunistic < 2; opportunistic++) {
			CUmemoryPool pool = full ? small : self->pool;

			ASSERT_CU(reuse(pool, 0, opportunistic, 0));
			ASSERT_CU(cuMemPoolTrimTo(pool, 0));
			ASSERT_CU(cuMemAllocFromPoolAsync(&a, 3 * MIB, pool, self->s));
			ASSERT_CU(hold(self->gate, self->s));
			ASSERT_CU(cuMemFreeAsync(a, self->s));
			ASSERT_CU(cuEventRecord(event, self->s));
			let_go(self->gate);
			/* A query does not count as a wait. */
			while (cuStreamQuery(self->s) == CUDA_ERROR_NOT_READY)
				sched_yield();
			ASSERT_CU(cuMemAllocFromPoolAsync(&b, 3 * MIB, pool, self->t));
			EXPECT_EQ(full || opportunistic, a == b);
			EXPECT_CU(cuMemFreeAsync(b, self->t));
			EXPECT_CU(cuCtxSynchronize());
		}
	}
	EXPECT_CU(cuMemPoolDestroy(small));
}

/* If the pool is full, the stream waits for the freed block; the caller never waits. */
TEST_F(pool, internal)
{
	static const size_t wanted[] = { 700, 100000, 3 * MIB };
	CUmemoryPool small;
	CUdeviceptr a, b;

	ASSERT_CU(plain_pool(&small, 4 * MIB));
	for (unsigned int i = 0; i < ARRAY_SIZE(wanted); i++) {
		for (int internal = 0; internal < 2; internal++) {
			ASSERT_CU(reuse(small, 0, 0, internal));
			ASSERT_CU(cuMemAllocFromPoolAsync(&a, 4 * MIB, small, self->s));
			ASSERT_CU(hold(self->gate, self->s));
			ASSERT_CU(cuMemsetD8Async(a, 1, 4 * MIB, self->s));
			ASSERT_CU(cuMemFreeAsync(a, self->s));
			b = 1;
			EXPECT_EQ(internal ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY,
				  cuMemAllocFromPoolAsync(&b, wanted[i], small, self->t));
			if (internal) {
				EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(self->t));
				EXPECT_CU(cuMemsetD8Async(b, 2, wanted[i], self->t));
			} else {
				EXPECT_EQ(0, b);
			}
			let_go(self->gate);
			EXPECT_CU(cuStreamSynchronize(self->t));
			if (internal) {
				EXPECT_TRUE(sees(b, 2, wanted[i]));
				EXPECT_CU(cuMemFreeAsync(b, self->t));
			}
			EXPECT_CU(cuCtxSynchronize());
			EXPECT_EQ(0, POOL_RESERVED(small));
		}
	}
	EXPECT_CU(cuMemPoolDestroy(small));
}

/* The same if small blocks took all of the pool. */
TEST_F(pool, internal_small)
{
	enum { MANY = 9000 };
	CUdeviceptr *a = calloc(MANY, sizeof(*a)), b = 1;
	CUmemoryPool small;
	unsigned int n = 0;

	ASSERT_CU(plain_pool(&small, 2 * MIB));
	ASSERT_CU(reuse(small, 0, 0, 1));
	while (n < MANY && !cuMemAllocFromPoolAsync(&a[n], 512, small, self->s))
		n++;
	ASSERT_GT(MANY, n);
	EXPECT_LT(2 * MIB / 512 * 9 / 10, n);
	ASSERT_CU(hold(self->gate, self->s));
	for (unsigned int i = 0; i < n; i++)
		ASSERT_CU(cuMemFreeAsync(a[i], self->s));
	EXPECT_CU(cuMemAllocFromPoolAsync(&b, 3 * MIB / 2, small, self->t));
	EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(self->t));
	let_go(self->gate);
	EXPECT_CU(cuMemFreeAsync(b, self->t));
	EXPECT_CU(cuCtxSynchronize());
	EXPECT_EQ(0, POOL_RESERVED(small));
	EXPECT_CU(cuMemPoolDestroy(small));
	free(a);
}

/* A full pool divides an idle chunk into parts of any size, and merges them when they are free. */
TEST_F(pool, full_is_divided)
{
	static const struct { size_t part[4]; } v[] = {
		{ { 8 * MIB, 8 * MIB, 8 * MIB } }, { { 16 * MIB, 8 * MIB } },
		{ { 5 * MIB - 4096, 17 * MIB + 1, 2 * MIB - 1 } },
		{ { 23 * MIB, 512 * KIB, 512 * KIB } }, { { 512 * KIB, 23 * MIB, 512 * KIB } },
	};
	CUdeviceptr p[4], whole, again;
	CUmemoryPool full;

	ASSERT_CU(plain_pool(&full, 24 * MIB));
	ASSERT_CU(set(full, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, ~0ull));
	ASSERT_CU(cuMemAllocFromPoolAsync(&whole, 24 * MIB, full, self->s));
	for (unsigned int i = 0; i < ARRAY_SIZE(v); i++) {
		EXPECT_CU(cuMemFreeAsync(whole, self->s));
		EXPECT_CU(cuStreamSynchronize(self->s));
		for (int k = 0; k < 4; k++) {
			p[k] = 0;
			ASSERT_CU(cuMemAllocFromPoolAsync(&p[k], v[i].part[k], full, self->s));
			EXPECT_TRUE(!p[k] || p[k] - whole < 24 * MIB);
		}
		EXPECT_EQ(24 * MIB, POOL_RESERVED(full));
		EXPECT_CU(hold(self->gate, self->s));
		for (int k = 0; k < 4; k++)
			EXPECT_CU(cuMemFreeAsync(p[k], self->s));
		EXPECT_CU(cuMemAllocFromPoolAsync(&again, 24 * MIB, full, self->t));
		EXPECT_EQ(whole, again);
		EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(self->t));
		let_go(self->gate);
		EXPECT_CU(cuStreamSynchronize(self->t));
	}
	EXPECT_CU(cuMemFreeAsync(whole, self->s));
	EXPECT_CU(cuMemPoolDestroy(full));
}

/* If the rest of the limit is too small for a chunk, the last chunk includes it. */
TEST_F(pool, nearly_full_is_divided)
{
	CUdeviceptr large, idle, small;
	CUmemoryPool pool;

	ASSERT_CU(plain_pool(&pool, 16 * MIB));
	ASSERT_CU(set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, ~0ull));
	ASSERT_CU(cuMemAllocFromPoolAsync(&large, 5 * MIB, pool, self->s));
	ASSERT_CU(cuMemAllocFromPoolAsync(&idle, 10 * MIB, pool, self->s));
	EXPECT_CU(cuMemFreeAsync(idle, self->s));
	EXPECT_CU(cuStreamSynchronize(self->s));
	EXPECT_EQ(16 * MIB, POOL_RESERVED(pool));
	ASSERT_CU(cuMemAllocFromPoolAsync(&small, 4096, pool, self->s));
	EXPECT_EQ(16 * MIB, POOL_RESERVED(pool));
	ASSERT_CU(cuMemAllocFromPoolAsync(&idle, 10 * MIB + 512 * KIB, pool, self->s));
	EXPECT_CU(cuMemFreeAsync(idle, self->s));
	EXPECT_CU(cuMemFreeAsync(small, self->s));
	EXPECT_CU(cuMemFreeAsync(large, self->s));
	EXPECT_CU(cuMemPoolDestroy(pool));
}

/* --- frees of all kinds */

/* cuMemFree() does not wait.  The block is not reused while work of any stream may use it. */
TEST_F(pool, free_in_no_stream)
{
	CUdeviceptr a, b[20];

	ASSERT_CU(reuse(self->pool, 1, 1, 1));
	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
		ASSERT_CU(cuMemAllocFromPoolAsync(&a, sizes[i], self->pool, self->s));
		ASSERT_CU(hold(self->gate, self->s));
		ASSERT_CU(stream_follow(self->t, self->s));
		ASSERT_CU(cuMemsetD8Async(a, 1, sizes[i], self->t));
		ASSERT_CU(cuMemFree(a));
		EXPECT_EQ(INVALID, cuMemFree(a));
		for (unsigned int k = 0; k < ARRAY_SIZE(b); k++) {
			ASSERT_CU(cuMemAllocFromPoolAsync(&b[k], sizes[i], self->pool, self->s));
			EXPECT_NE(a, b[k]);
		}
		let_go(self->gate);
		for (unsigned int k = 0; k < ARRAY_SIZE(b); k++)
			EXPECT_CU(cuMemFreeAsync(b[k], self->s));
		EXPECT_CU(cuCtxSynchronize());
	}
	EXPECT_EQ(0, POOL_USED(self->pool));
	EXPECT_CU(cuMemPoolTrimTo(self->pool, 0));
	EXPECT_EQ(0, POOL_RESERVED(self->pool));
}

/*
 * Memory of cuMemAlloc() that is freed in stream order: its address is unknown at once, and the
 * kernel gets the memory back after the stream has reached the free.
 */
TEST_F(pool, free_of_other_memory)
{
	const size_t some[] = { 100, 3 * MIB };
	long long before = used(0);
	CUdeviceptr a, range;
	size_t size;

	for (unsigned int i = 0; i < ARRAY_SIZE(some); i++) {
		ASSERT_CU(cuMemAlloc(&a, some[i]));
		ASSERT_CU(hold(self->gate, self->s));
		ASSERT_CU(cuMemsetD8Async(a, 1, some[i], self->s));
		ASSERT_CU(cuMemFreeAsync(a, self->s));
		EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&range, &size, a));
		EXPECT_EQ(INVALID, cuMemFreeAsync(a, self->s));
		EXPECT_EQ(INVALID, cuMemFree(a));
		EXPECT_LT(before, used(0));
		let_go(self->gate);
		EXPECT_CU(cuStreamSynchronize(self->s));
		EXPECT_TRUE(dev_attr_becomes(0, "used", before, 10));
	}
}

/* Streams are destroyed with work in them; the memory that they freed is not lost. */
TEST_F(pool, stream_destroyed)
{
	CUdeviceptr p;
	CUstream u;

	for (int i = 0; i < 50; i++) {
		ASSERT_CU(cuStreamCreate(&u, CU_STREAM_NON_BLOCKING));
		ASSERT_CU(cuMemAllocFromPoolAsync(&p, sizes[i % 8], self->pool, u));
		if (i % 2)
			ASSERT_CU(hold(self->gate, u));
		ASSERT_CU(cuMemsetD8Async(p, 1, sizes[i % 8], u));
		ASSERT_CU(cuMemFreeAsync(p, u));
		ASSERT_CU(cuStreamDestroy(u));
		let_go(self->gate);
		ASSERT_CU(cuCtxSynchronize());
	}
	EXPECT_EQ(0, POOL_USED(self->pool));
	EXPECT_CU(cuMemPoolTrimTo(self->pool, 0));
	EXPECT_EQ(0, POOL_RESERVED(self->pool));
}

/* Blocks of a destroyed pool stay valid; all of its memory is back when the last one is freed. */
TEST_F(pool, destroyed_with_live)
{
	long long before = used(0);
	CUdeviceptr p[20];
	CUmemoryPool old, got;

	for (int round = 0; round < 3; round++) {
		ASSERT_CU(plain_pool(&old, 0));
		for (int i = 0; i < 20; i++)
			ASSERT_CU(cuMemAllocFromPoolAsync(&p[i], sizes[i % 8], old, self->s));
		if (round)
			ASSERT_CU(hold(self->gate, self->s));
		for (int i = 0; i < 10; i++)
			ASSERT_CU(cuMemFreeAsync(p[i], self->s));
		ASSERT_CU(cuMemPoolDestroy(old));
		EXPECT_EQ(INVALID, cuMemPoolDestroy(old));
		EXPECT_EQ(INVALID, cuMemAllocFromPoolAsync(&p[0], 1, old, self->s));
		for (int i = 10; i < 20; i++) {
			EXPECT_CU(cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
							p[i]));
			EXPECT_CU(cuMemsetD8Async(p[i], i, sizes[i % 8], self->s));
			EXPECT_CU(round == 2 && i % 2 ? cuMemFree(p[i]) :
				  cuMemFreeAsync(p[i], self->s));
			EXPECT_EQ(INVALID, cuMemFreeAsync(p[i], self->s));
		}
		let_go(self->gate);
		EXPECT_CU(cuCtxSynchronize());
		EXPECT_TRUE(dev_attr_becomes(0, "used", before, 10));
	}
}

/* --- counters */

TEST_F(pool, figures)
{
	CUdeviceptr a, b, c;

	ASSERT_CU(cuMemAllocFromPoolAsync(&a, 777, self->pool, self->s));
	EXPECT_EQ(777, POOL_USED(self->pool));
	ASSERT_CU(cuMemAllocFromPoolAsync(&b, 5 * MIB + 1, self->pool, self->t));
	EXPECT_EQ(777 + 5 * MIB + 1, POOL_USED(self->pool));
	EXPECT_LE(POOL_USED(self->pool), POOL_RESERVED(self->pool));
	EXPECT_CU(cuMemFreeAsync(a, self->t));
	EXPECT_EQ(5 * MIB + 1, POOL_USED(self->pool));
	ASSERT_CU(cuMemAllocFromPoolAsync(&c, 3, self->pool, 0));
	EXPECT_EQ(777 + 5 * MIB + 1, POOL_USED_HIGH(self->pool));
	EXPECT_CU(set(self->pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, 0));
	EXPECT_EQ(5 * MIB + 4, POOL_USED_HIGH(self->pool));
	EXPECT_CU(cuMemFreeAsync(b, self->s));
	EXPECT_CU(cuMemFreeAsync(c, self->s));
	EXPECT_EQ(0, POOL_USED(self->pool));
	EXPECT_EQ(5 * MIB + 4, POOL_USED_HIGH(self->pool));
	/* The threshold keeps the memory reserved. */
	EXPECT_CU(cuCtxSynchronize());
	EXPECT_LE(5 * MIB, POOL_RESERVED(self->pool));
	EXPECT_CU(set(self->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 0));
	EXPECT_CU(cuStreamSynchronize(self->s));
	EXPECT_EQ(0, POOL_RESERVED(self->pool));
	EXPECT_LE(5 * MIB, POOL_RESERVED_HIGH(self->pool));
	EXPECT_CU(set(self->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0));
	EXPECT_EQ(0, POOL_RESERVED_HIGH(self->pool));
}

/* The device's used memory grows by exactly what the pool reports as reserved. */
TEST_F(pool, reserved_is_true)
{
	long long before = used(0);
	CUdeviceptr p[8];

	for (int round = 0; round < 3; round++) {
		for (unsigned int i = 0; i < 8; i++)
			ASSERT_CU(cuMemAllocFromPoolAsync(&p[i], sizes[i], self->pool, self->s));
		EXPECT_EQ(before + POOL_RESERVED(self->pool), used(0));
		for (unsigned int i = 0; i < 8; i += 2)
			ASSERT_CU(cuMemFreeAsync(p[i], self->t));
		EXPECT_CU(cuMemPoolTrimTo(self->pool, 0));
		EXPECT_EQ(before + POOL_RESERVED(self->pool), used(0));
		for (unsigned int i = 1; i < 8; i += 2)
			ASSERT_CU(cuMemFreeAsync(p[i], self->t));
		EXPECT_CU(cuMemPoolTrimTo(self->pool, 0));
		EXPECT_EQ(0, POOL_RESERVED(self->pool));
		EXPECT_EQ(before, used(0));
	}
}

/* A pool can get memory that another pool keeps: both allocate most of the device in turn. */
TEST_F(pool, pools_give_way)
{
	CUmemoryPool other;
	size_t left, total;
	CUdeviceptr p, q;

	ASSERT_CU(cuMemGetInfo(&left, &total));
	if (left > 1536 * MIB)
		SKIP(return, "the device is too large for this");
	left = left * 2 / 3 & ~(2 * MIB - 1);
	ASSERT_CU(plain_pool(&other, 0));
	ASSERT_CU(set(other, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, ~0ull));
	for (int i = 0; i < 3; i++) {
		ASSERT_CU(cuMemAllocFromPoolAsync(&p, left, self->pool, self->s));
		ASSERT_CU(cuMemFreeAsync(p, self->s));
		ASSERT_CU(cuMemAllocFromPoolAsync(&q, left, other, self->s));
		EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY,
			  cuMemAllocFromPoolAsync(&p, left, self->pool, self->s));
		EXPECT_EQ(0, p);
		ASSERT_CU(cuMemFreeAsync(q, self->s));
		ASSERT_CU(cuStreamSynchronize(self->s));
		/* cuMemAlloc() can get that memory, too. */
		ASSERT_CU(cuMemAlloc(&p, left));
		ASSERT_CU(cuMemFree(p));
	}
	EXPECT_CU(cuMemPoolDestroy(other));
}

/* --- addresses */

/* A lookup of any address in a block finds the block; the address behind its end is not in it. */
TEST_F(pool, lookups)
{
	enum { MANY = 300 };
	unsigned long long id, last = 0;
	CUdeviceptr p[MANY], base;
	size_t n[MANY], size;
	CUmemoryPool pool;
	struct rng rng;

	rng_start(&rng, "lookups");
	for (int i = 0; i < MANY; i++) {
		n[i] = 1 + rng_below(&rng, i % 10 ? 70000 : 5 * MIB);
		ASSERT_CU(cuMemAllocFromPoolAsync(&p[i], n[i], self->pool, self->s));
		ASSERT_EQ(0, p[i] % 512);
	}
	for (int i = 0; i < MANY; i++) {
		size_t offset = rng_below(&rng, n[i]);

		ASSERT_CU(cuMemGetAddressRange(&base, &size, p[i] + offset));
		EXPECT_EQ(p[i], base);
		EXPECT_EQ(n[i], size);
		ASSERT_CU(cuMemGetAddressRange(&base, &size, p[i] + n[i] - 1));
		EXPECT_EQ(p[i], base);
		if (!cuMemGetAddressRange(&base, &size, p[i] + n[i])) {
			EXPECT_EQ(p[i] + n[i], base);
		}
		ASSERT_CU(cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p[i]));
		EXPECT_EQ(self->pool, pool);
		ASSERT_CU(cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p[i]));
		EXPECT_LT(last, id);
		last = id;
		EXPECT_EQ(INVALID, cuMemsetD8Async(p[i], 0, n[i] + 1, self->s));
		EXPECT_CU(cuMemsetD8Async(p[i], i, n[i], self->s));
	}
	EXPECT_CU(cuStreamSynchronize(self->s));
	for (int i = 0; i < MANY; i++)
		EXPECT_TRUE(sees(p[i], i, n[i]));
	for (int i = 0; i < MANY; i++) {
		EXPECT_EQ(INVALID, cuMemFreeAsync(p[i] + 256, self->s));
		EXPECT_CU(cuMemFreeAsync(p[i], self->s));
		EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &size, p[i]));
		EXPECT_EQ(INVALID, cuMemFreeAsync(p[i], self->s));
	}
}

/* --- threads */

enum { THREADS = 4, HELD = 16 };

struct worker {
	CUcontext ctx;
	CUmemoryPool pool;
	CUstream stream;		/* the thread's own if it is NULL */
	CUdeviceptr *shared;		/* blocks that threads pass to each other; atomic */
	unsigned int seed;
	CUresult result;
};

static void *work(void *arg)
{
	struct worker *w = arg;
	CUstream stream = w->stream;
	struct rng rng = { w->seed * 77777 + 1 };
	int rounds = getenv("GPUMEM_QUICK") ? 100 : 400;
	CUdeviceptr mine;

	w->result = cuCtxSetCurrent(w->ctx);
	if (!w->result && !stream)
		w->result = cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
	for (int i = 0; !w->result && i < rounds; i++) {
		size_t n = 1 + rng_below(&rng, i % 8 ? 20000 : 2 * MIB);
		CUdeviceptr *place = &w->shared[rng_below(&rng, HELD)];

		w->result = cuMemAllocFromPoolAsync(&mine, n, w->pool, stream);
		if (!w->result)
			w->result = cuMemsetD8Async(mine, w->seed, n, stream);
		/* The thread that takes the block out frees it; no work on it is pending then. */
		if (!w->result)
			w->result = cuStreamSynchronize(stream);
		mine = __atomic_exchange_n(place, mine, __ATOMIC_ACQ_REL);
		if (!w->result && mine)
			w->result = cuMemFreeAsync(mine, stream);
	}
	if (stream != w->stream)
		cuStreamDestroy(stream);
	return NULL;
}

static void run_threads(struct __test_metadata *_metadata, CUcontext ctx, CUmemoryPool pool,
			CUstream common, CUstream last)
{
	CUdeviceptr shared[HELD] = { 0 };
	struct worker worker[THREADS];
	pthread_t thread[THREADS];

	for (int i = 0; i < THREADS; i++) {
		worker[i] = (struct worker) {
			.ctx = ctx, .pool = pool, .shared = shared, .seed = i + 1, .stream = common,
		};
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, work, &worker[i]));
	}
	for (int i = 0; i < THREADS; i++) {
		ASSERT_EQ(0, pthread_join(thread[i], NULL));
		EXPECT_CU(worker[i].result);
	}
	for (int i = 0; i < HELD; i++) {
		if (shared[i])
			EXPECT_CU(cuMemFreeAsync(shared[i], last));
	}
	/* Threads that ended did not leave used or reserved memory. */
	EXPECT_EQ(0, POOL_USED(pool));
	EXPECT_CU(cuMemPoolTrimTo(pool, 0));
	EXPECT_EQ(0, POOL_RESERVED(pool));
}

TEST_F_TIMEOUT(pool, threads, 240)
{
	run_threads(_metadata, self->ctx, self->pool, NULL, self->t);
	run_threads(_metadata, self->ctx, self->pool, self->s, self->t);
	EXPECT_CU(set(self->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 0));
	run_threads(_metadata, self->ctx, self->pool, NULL, self->t);
}

/* --- other memory */

TEST_F(pool, host)
{
	const int types[] = { CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST_NUMA };
	CUmemLocation device = { .type = CU_MEM_LOCATION_TYPE_DEVICE };
	long long before = used(0);
	CUmemAccess_flags flags;
	CUmemoryPool pool;
	CUdeviceptr p, d, base;

	ASSERT_CU(cuMemAlloc(&d, 10000));
	for (unsigned int i = 0; i < ARRAY_SIZE(types); i++) {
		CUmemLocation location = { .type = types[i] };
		CUmemAccessDesc access = {
			.location = device, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
		};
		unsigned int type;

		ASSERT_CU(pool_of(&pool, CU_MEM_ALLOCATION_TYPE_PINNED, types[i], 0));
		EXPECT_CU(cuMemPoolGetAccess(&flags, pool, &device));
		EXPECT_EQ(0, flags);
		EXPECT_CU(cuMemPoolGetAccess(&flags, pool, &location));
		EXPECT_EQ(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, flags);
		ASSERT_CU(cuMemAllocFromPoolAsync(&p, 10000, pool, self->s));
		/* Only the CPU and copies reach it. */
		memset(cpu(p), 6, 10000);
		EXPECT_EQ(INVALID, cuMemsetD8Async(p, 8, 10000, self->s));
		EXPECT_EQ(INVALID, cuMemsetD8(p, 8, 10000));
		EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, NULL, p));
		EXPECT_EQ(INVALID, cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p));
		EXPECT_CU(cuMemcpyAsync(d, p, 10000, self->s));
		EXPECT_CU(cuStreamSynchronize(self->s));
		EXPECT_TRUE(sees(d, 6, 10000));
		EXPECT_TRUE(all_are(cpu(p), 6, 10000));
		EXPECT_CU(cuMemPoolSetAccess(pool, &access, 1));
		EXPECT_CU(cuMemPoolGetAccess(&flags, pool, &device));
		EXPECT_EQ(CU_MEM_ACCESS_FLAGS_PROT_READWRITE, flags);
		EXPECT_CU(cuMemGetAddressRange(&base, NULL, p));
		EXPECT_EQ(p, base);
		EXPECT_CU(cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p));
		EXPECT_EQ(p, base);
		EXPECT_EQ(INVALID, cuStreamWriteValue32(self->s, p, 1, 0));
		EXPECT_EQ(INVALID, cuStreamWaitValue32(self->s, p, 0, CU_STREAM_WAIT_VALUE_GEQ));
		EXPECT_CU(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
		EXPECT_EQ(CU_MEMORYTYPE_HOST, type);
		memset(cpu(p), 7, 10000);
		EXPECT_CU(cuMemcpyAsync(d, p, 10000, self->s));
		EXPECT_CU(cuMemsetD8Async(p, 8, 10000, self->s));
		EXPECT_CU(cuStreamSynchronize(self->s));
		EXPECT_TRUE(sees(d, 7, 10000));
		EXPECT_TRUE(all_are(cpu(p), 8, 10000));
		EXPECT_EQ(INVALID, cuMemFreeHost(cpu(p)));
		EXPECT_CU(cuMemFreeAsync(p, self->s));
		EXPECT_CU(cuMemPoolDestroy(pool));
	}
	EXPECT_LE(used(0), before + 2 * (long long)MIB);
	EXPECT_EQ(INVALID, pool_of(&pool, CU_MEM_ALLOCATION_TYPE_PINNED,
				   CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0));
	EXPECT_EQ(INVALID, pool_of(&pool, CU_MEM_ALLOCATION_TYPE_PINNED,
				   CU_MEM_LOCATION_TYPE_NONE, 0));
	EXPECT_CU(cuMemFree(d));
}

/* All pages of a node's pool are on the node.  The thread's own memory policy does not change. */
TEST_F(pool, host_node)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_HOST_NUMA },
	};
	unsigned long mask = 1;
	int mode = -1;
	CUmemoryPool pool;
	CUdeviceptr p;

	props.location.id = 1 << 20;
	EXPECT_EQ(INVALID, cuMemPoolCreate(&pool, &props));
	props.location.id = -1;
	EXPECT_EQ(INVALID, cuMemPoolCreate(&pool, &props));
	if (access("/sys/devices/system/node/node1", F_OK))
		SKIP(return, "there is one node only");
	ASSERT_EQ(0, syscall(SYS_set_mempolicy, MPOL_PREFERRED, &mask, 64));
	for (int node = 1; node >= 0; node--) {
		void *pages[64];
		int status[64];

		props.location.id = node;
		ASSERT_CU(cuMemPoolCreate(&pool, &props));
		ASSERT_CU(cuMemAllocFromPoolAsync(&p, 8 * MIB, pool, self->s));
		for (int i = 0; i < 64; i++) {
			pages[i] = cpu(p + i * 128 * KIB);
			*(volatile char *)pages[i] = 1;
		}
		ASSERT_EQ(0, syscall(SYS_move_pages, 0, 64, pages, NULL, status, 0));
		for (int i = 0; i < 64; i++)
			EXPECT_EQ(node, status[i]);
		ASSERT_CU(cuMemFreeAsync(p, self->s));
		ASSERT_CU(cuMemPoolDestroy(pool));
	}
	mask = 0;
	ASSERT_EQ(0, syscall(SYS_get_mempolicy, &mode, &mask, 64, NULL, 0));
	EXPECT_EQ(MPOL_PREFERRED, mode);
	EXPECT_EQ(1, mask);
}

/* The CPU may access managed memory, in strict mode as well. */
TEST_F(pool, managed)
{
	const int types[] = {
		CU_MEM_LOCATION_TYPE_NONE, CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_LOCATION_TYPE_HOST,
		CU_MEM_LOCATION_TYPE_HOST_NUMA,
	};
	CUmemoryPool pool;
	CUdeviceptr p;

	for (unsigned int i = 0; i < ARRAY_SIZE(types); i++) {
		unsigned int managed = 0;

		ASSERT_CU(pool_of(&pool, CU_MEM_ALLOCATION_TYPE_MANAGED, types[i], 0));
		ASSERT_CU(cuMemAllocFromPoolAsync(&p, 300000, pool, self->s));
		EXPECT_CU(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p));
		EXPECT_EQ(1, managed);
		memset(cpu(p), 5, 300000);
		EXPECT_TRUE(sees(p, 5, 300000));
		EXPECT_CU(cuMemsetD8Async(p, 6, 300000, self->s));
		EXPECT_CU(cuStreamSynchronize(self->s));
		EXPECT_TRUE(all_are(cpu(p), 6, 300000));
		EXPECT_CU(cuMemFreeAsync(p, self->s));
		EXPECT_CU(cuMemPoolDestroy(pool));
	}
	EXPECT_EQ(INVALID, pool_of(&pool, CU_MEM_ALLOCATION_TYPE_MANAGED,
				   CU_MEM_LOCATION_TYPE_DEVICE, MIB));
}

/* The default and the current pool of a location that is not a device. */
TEST_F(pool, places)
{
	CUmemLocation host = { .type = CU_MEM_LOCATION_TYPE_HOST };
	const int pinned = CU_MEM_ALLOCATION_TYPE_PINNED;
	CUmemoryPool pool, again, mine;

	ASSERT_CU(cuMemGetDefaultMemPool(&pool, &host, pinned));
	ASSERT_CU(cuMemGetMemPool(&again, &host, pinned));
	EXPECT_EQ(pool, again);
	EXPECT_EQ(INVALID, cuMemPoolDestroy(pool));
	ASSERT_CU(pool_of(&mine, pinned, CU_MEM_LOCATION_TYPE_HOST, 0));
	EXPECT_EQ(INVALID, cuMemSetMemPool(&host, CU_MEM_ALLOCATION_TYPE_MANAGED, mine));
	EXPECT_EQ(INVALID, cuMemSetMemPool(&host, pinned, self->pool));
	EXPECT_CU(cuMemSetMemPool(&host, pinned, mine));
	EXPECT_CU(cuMemGetMemPool(&again, &host, pinned));
	EXPECT_EQ(mine, again);
	EXPECT_CU(cuMemPoolDestroy(mine));
	EXPECT_CU(cuMemGetMemPool(&again, &host, pinned));
	EXPECT_EQ(pool, again);
	EXPECT_EQ(INVALID, cuDeviceSetMemPool(0, pool));
}

/* --- beyond CUDA */

/* A block is not reused while a DMA-buf of it is open. */
TEST_F(pool, dmabuf_withheld)
{
	CUdeviceptr p, q[64];
	int fd;

	ASSERT_CU(cuMemAllocFromPoolAsync(&p, 8192, self->pool, self->s));
	ASSERT_CU(cuMemGetHandleForAddressRange(&fd, p & ~4095ull, 4096,
						CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	ASSERT_CU(cuMemFreeAsync(p, self->s));
	for (int i = 0; i < 64; i++) {
		ASSERT_CU(cuMemAllocFromPoolAsync(&q[i], 8192, self->pool, self->s));
		EXPECT_NE(p, q[i]);
	}
	for (int i = 0; i < 64; i++)
		ASSERT_CU(cuMemFreeAsync(q[i], self->s));
	EXPECT_CU(cuMemPoolTrimTo(self->pool, 0));
	EXPECT_LT(0, POOL_RESERVED(self->pool));
	close(fd);
	EXPECT_TRUE(dev_attr_becomes(0, "exports", 0, 10));
	EXPECT_CU(cuMemPoolTrimTo(self->pool, 0));
	EXPECT_EQ(0, POOL_RESERVED(self->pool));
}

TEST_HARNESS_MAIN
