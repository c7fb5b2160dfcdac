// SPDX-License-Identifier: GPL-2.0
/*
 * A pool that is full of blocks that were all freed in one stream, which is held: which streams get
 * a larger block then, by every combination of the reuse attributes.
 *
 * The blocks are cells that were carved from free memory, or from pages that were pending in another
 * stream at the time, or that a third stream was made to wait for.  What the pages waited for has
 * happened, or comes before the frees, so it makes no difference.
 */
#include "kselftest_harness.h"
#include "cuda_util.h"

#define FULL	(8 * MIB)
#define PART	(3 * MIB)

FIXTURE(full)
{
	CUcontext ctx;
	CUstream a, b, c;
	CUdeviceptr *cells;
	size_t most;
};

FIXTURE_VARIANT(full)
{
	size_t size;
	bool pending;			/* the pages are, when cells are carved from them */
	bool waits;			/* by a stream that is made to wait for them */
};

FIXTURE_VARIANT_ADD(full, free_pages)
{
	.size = 4 * KIB,
};

FIXTURE_VARIANT_ADD(full, pending_pages)
{
	.size = 4 * KIB, .pending = true,
};

FIXTURE_VARIANT_ADD(full, pending_pages_small)
{
	.size = 2 * KIB, .pending = true,
};

FIXTURE_VARIANT_ADD(full, pending_pages_waited_for)
{
	.size = 4 * KIB, .pending = true, .waits = true,
};

FIXTURE_VARIANT_ADD(full, pending_pages_of_blocks)
{
	.size = 64 * KIB, .pending = true,
};

FIXTURE_SETUP(full)
{
	ASSERT_TRUE(dev_quiet(10));
	ASSERT_CU(cuda_start(&self->ctx));
	ASSERT_CU(cuStreamCreate(&self->a, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuStreamCreate(&self->b, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuStreamCreate(&self->c, CU_STREAM_NON_BLOCKING));
	self->most = FULL / variant->size + 1;
	self->cells = calloc(self->most, sizeof(*self->cells));
	ASSERT_NE(NULL, self->cells);
}

FIXTURE_TEARDOWN_PARENT(full)
{
	EXPECT_TRUE(dev_quiet(10));
}

enum { FOLLOW = 1, OPPORTUNISTIC = 2, INTERNAL = 4 };

static CUresult pool_make(CUmemoryPool *pool, unsigned int attributes)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE }, .maxSize = FULL,
	};
	int follow = !!(attributes & FOLLOW), opportunistic = !!(attributes & OPPORTUNISTIC);
	int internal = !!(attributes & INTERNAL);
	CUresult result = cuMemPoolCreate(pool, &props);

	if (!result)
		result = cuMemPoolSetAttribute(
			*pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, &follow);
	if (!result)
		result = cuMemPoolSetAttribute(*pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
					       &opportunistic);
	return result ? result :
		cuMemPoolSetAttribute(*pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
				      &internal);
}

static CUresult hold(volatile __u32 *gate, CUstream stream)
{
	*gate = 0;
	return cuStreamWaitValue32(stream, (uintptr_t)gate, 1, CU_STREAM_WAIT_VALUE_EQ);
}

static void let_go(volatile __u32 *gate)
{
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
}

static CUresult wait_for(CUstream waits, CUstream recorded)
{
	CUevent event;
	CUresult result = cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);

	if (!result)
		result = cuEventRecord(event, recorded);
	if (!result)
		result = cuStreamWaitEvent(waits, event, 0);
	cuEventDestroy(event);
	return result;
}

/* Who asks for the larger block. */
enum asker { SAME, OTHER, WAITING, ASKERS };

static const char *const asker_name[] = { "the same stream", "another", "one that waits" };

TEST_F(full, merges)
{
	volatile __u32 *gate;

	ASSERT_CU(cuMemHostAlloc((void **)&gate, 4096, 0));
	for (unsigned int i = 0; i < 8 * ASKERS; i++) {
		unsigned int attributes = i % 8;
		enum asker asker = i / 8;
		bool served = asker == SAME || attributes & INTERNAL ||
			(asker == WAITING && attributes & FOLLOW);
		CUstream carver = variant->waits ? self->b : self->a;
		CUstream stream = asker == SAME ? self->b : self->c;
		CUmemoryPool pool;
		CUdeviceptr big, part = 0;
		unsigned int n = 0;
		CUresult result;

		/* One that is made to wait. */
		if (variant->waits && !(attributes & INTERNAL))
			continue;
		ASSERT_CU(pool_make(&pool, attributes));
		ASSERT_CU(cuMemAllocFromPoolAsync(&big, FULL, pool, self->a));
		if (variant->pending)
			ASSERT_CU(hold(&gate[0], self->a));
		ASSERT_CU(cuMemFreeAsync(big, self->a));
		while (n < self->most &&
		       !cuMemAllocFromPoolAsync(&self->cells[n], variant->size, pool, carver))
			n++;
		EXPECT_LT(FULL / variant->size * 7 / 8, n);
		if (!variant->waits) {
			let_go(&gate[0]);
			ASSERT_CU(cuCtxSynchronize());
		}
		ASSERT_CU(hold(&gate[1], self->b));
		for (unsigned int j = 0; j < n; j++)
			ASSERT_CU(cuMemFreeAsync(self->cells[j], self->b));
		if (asker == WAITING)
			ASSERT_CU(wait_for(stream, self->b));
		result = cuMemAllocFromPoolAsync(&part, PART, pool, stream);
		EXPECT_EQ(served ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY, result) {
			TH_LOG("attributes %x, asked by %s", attributes, asker_name[asker]);
		}
		/* Nothing is given away before its time. */
		if (!result)
			EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
		let_go(&gate[0]);
		let_go(&gate[1]);
		if (!result)
			EXPECT_CU(cuMemFreeAsync(part, stream));
		ASSERT_CU(cuCtxSynchronize());
		/* All of it is one again. */
		ASSERT_CU(cuMemAllocFromPoolAsync(&big, FULL, pool, self->c));
		ASSERT_CU(cuMemFreeAsync(big, self->c));
		ASSERT_CU(cuMemPoolDestroy(pool));
		ASSERT_CU(cuCtxSynchronize());
	}
}

TEST_HARNESS_MAIN
