// SPDX-License-Identifier: GPL-2.0
/*
 * Tests a pool that is full of blocks that were all freed in one stream, which is held: which
 * streams then get a larger block, for every combination of the reuse attributes.
 *
 * The blocks are cells.  They were carved from free pages, or from pages that were pending in
 * another stream at the time; in one variant the pool made the freeing stream wait for those
 * pages.  The work that the pages waited for is complete, or ordered before the frees, so it makes
 * no difference.
 */
#include "kselftest_harness.h"
#include "cuda_case_util.h"

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
	bool pending;			/* the pages are pending when cells are carved from them */
	bool waits;			/* the pool makes the carving stream wait for the pages */
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
	cuda_begin(_metadata, &self->ctx);
	ASSERT_CU(cuStreamCreate(&self->a, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuStreamCreate(&self->b, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuStreamCreate(&self->c, CU_STREAM_NON_BLOCKING));
	self->most = FULL / variant->size + 1;
	self->cells = calloc(self->most, sizeof(*self->cells));
	ASSERT_NE(NULL, self->cells);
}

QUIET_AFTERWARDS(full)

enum { FOLLOW = 1, OPPORTUNISTIC = 2, INTERNAL = 4 };

static CUresult pool_with(CUmemoryPool *pool, unsigned int attributes)
{
	int follow = !!(attributes & FOLLOW), opportunistic = !!(attributes & OPPORTUNISTIC);
	int internal = !!(attributes & INTERNAL);
	CUresult result = pool_make(pool, FULL);

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

/* The stream that allocates the larger block. */
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

		/* The carver must be made to wait, which only this attribute allows. */
		if (variant->waits && !(attributes & INTERNAL))
			continue;
		ASSERT_CU(pool_with(&pool, attributes));
		ASSERT_CU(cuMemAllocFromPoolAsync(&big, FULL, pool, self->a));
		if (variant->pending)
			ASSERT_CU(gate_put(self->a, &gate[0]));
		ASSERT_CU(cuMemFreeAsync(big, self->a));
		while (n < self->most &&
		       !cuMemAllocFromPoolAsync(&self->cells[n], variant->size, pool, carver))
			n++;
		EXPECT_LT(FULL / variant->size * 7 / 8, n);
		if (!variant->waits) {
			gate_open(&gate[0]);
			ASSERT_CU(cuCtxSynchronize());
		}
		ASSERT_CU(gate_put(self->b, &gate[1]));
		for (unsigned int j = 0; j < n; j++)
			ASSERT_CU(cuMemFreeAsync(self->cells[j], self->b));
		if (asker == WAITING)
			ASSERT_CU(stream_follow(stream, self->b));
		result = cuMemAllocFromPoolAsync(&part, PART, pool, stream);
		EXPECT_EQ(served ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY, result) {
			TH_LOG("attributes %x, asked by %s", attributes, asker_name[asker]);
		}
		/* The stream waits for the gates before it may use the block. */
		if (!result)
			EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
		gate_open(&gate[0]);
		gate_open(&gate[1]);
		if (!result)
			EXPECT_CU(cuMemFreeAsync(part, stream));
		ASSERT_CU(cuCtxSynchronize());
		/* The pool's memory can be allocated as one block again. */
		ASSERT_CU(cuMemAllocFromPoolAsync(&big, FULL, pool, self->c));
		ASSERT_CU(cuMemFreeAsync(big, self->c));
		ASSERT_CU(cuMemPoolDestroy(pool));
		ASSERT_CU(cuCtxSynchronize());
	}
}

TEST_HARNESS_MAIN
