// SPDX-License-Identifier: GPL-2.0
/*
 * Two threads free one block of a pool at the same time, by every pair of calls: one of them
 * succeeds, the other one is told that the value is invalid, and the block is given out once.
 *
 * Two frees are simultaneous only by chance, so there are many rounds; a round whose frees were one
 * after the other asks the same.  A thread may claim blocks in another way before any other thread
 * has freed one of its blocks, so one test has new threads in each round.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "kselftest_harness.h"
#include "cuda_util.h"

enum { MANY = 16 };

FIXTURE(claim)
{
	CUcontext ctx;
	CUmemoryPool pool;
	CUstream s[2];
};

FIXTURE_SETUP(claim)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	cuuint64_t keep = ~0ull;

	ASSERT_TRUE(dev_quiet(10));
	ASSERT_CU(cuda_start(&self->ctx));
	ASSERT_CU(cuStreamCreate(&self->s[0], CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuStreamCreate(&self->s[1], CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuMemPoolCreate(&self->pool, &props));
	ASSERT_CU(cuMemPoolSetAttribute(self->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
}

FIXTURE_TEARDOWN_PARENT(claim)
{
	EXPECT_TRUE(dev_quiet(10));
}

static cuuint64_t used_bytes(CUmemoryPool pool)
{
	cuuint64_t value = ~0ull;

	if (cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value))
		abort();
	return value;
}

/* --- two threads that do something at the same time, again and again */

struct side {
	pthread_t thread;
	CUcontext ctx;
	CUstream stream;
	bool now;			/* cuMemFree() */
	CUresult result;
};

static atomic_uint arrived;
static CUdeviceptr block;
static bool stop;

/* Both threads leave as close to each other as they can. */
static void meet(unsigned int *round)
{
	unsigned int turns = 0;

	*round += 2;
	atomic_fetch_add(&arrived, 1);
	while ((int)(atomic_load(&arrived) - *round) < 0)
		if (++turns > 20000)
			sched_yield();
}

static CUresult free_it(const struct side *side)
{
	return side->now ? cuMemFree(block) : cuMemFreeAsync(block, side->stream);
}

static void *side_main(void *arg)
{
	struct side *side = arg;
	unsigned int round = 0;

	if (cuCtxSetCurrent(side->ctx))
		abort();
	for (;;) {
		meet(&round);
		if (stop)
			return NULL;
		side->result = free_it(side);
		meet(&round);
	}
}

struct outcome {
	unsigned int rounds, both, none, other, twice;
};

static CUresult race(CUcontext ctx, CUmemoryPool pool, CUstream *s, size_t size, bool now0,
		     bool now1, unsigned int rounds, struct outcome *out)
{
	struct side mine = { .ctx = ctx, .stream = s[0], .now = now0 };
	struct side other = { .ctx = ctx, .stream = s[1], .now = now1 };
	unsigned int round = 0, i, j;
	CUresult result = CUDA_SUCCESS;
	CUdeviceptr p[MANY];

	memset(out, 0, sizeof(*out));
	stop = false;
	atomic_store(&arrived, 0);
	if (pthread_create(&other.thread, NULL, side_main, &other))
		return CUDA_ERROR_UNKNOWN;
	for (; !result && out->rounds < rounds; out->rounds++) {
		result = cuMemAllocFromPoolAsync(&block, size, pool, s[out->rounds % 2]);
		if (result)
			break;
		meet(&round);
		mine.result = free_it(&mine);
		meet(&round);
		out->both += !mine.result && !other.result;
		out->none += mine.result && other.result;
		out->other += (mine.result && mine.result != CUDA_ERROR_INVALID_VALUE) ||
			(other.result && other.result != CUDA_ERROR_INVALID_VALUE);
		if (out->rounds % 16)
			continue;
		for (i = 0; !result && i < MANY; i++)
			result = cuMemAllocFromPoolAsync(&p[i], size, pool, s[i % 2]);
		for (i = 0; !result && i < MANY; i++)
			for (j = 0; j < i; j++)
				out->twice += p[i] == p[j];
		for (i = 0; !result && i < MANY; i++)
			result = cuMemFreeAsync(p[i], s[i % 2]);
	}
	stop = true;
	meet(&round);
	pthread_join(other.thread, NULL);
	return result;
}

FIXTURE_VARIANT(claim)
{
	size_t size;
	bool now0, now1;
	unsigned int rounds;
};

FIXTURE_VARIANT_ADD(claim, async)
{
	.size = 512, .rounds = 40000,
};

FIXTURE_VARIANT_ADD(claim, async_and_now)
{
	.size = 512, .now1 = true, .rounds = 20000,
};

FIXTURE_VARIANT_ADD(claim, now)
{
	.size = 512, .now0 = true, .now1 = true, .rounds = 20000,
};

FIXTURE_VARIANT_ADD(claim, class_of_pages)
{
	.size = 100 * KIB, .rounds = 20000,
};

FIXTURE_VARIANT_ADD(claim, large)
{
	.size = 3 * MIB, .rounds = 5000,
};

TEST_F(claim, once)
{
	struct outcome out;

	ASSERT_CU(race(self->ctx, self->pool, self->s, variant->size, variant->now0,
		       variant->now1, variant->rounds, &out));
	TH_LOG("%u rounds: both %u, neither %u, other results %u, given out twice %u", out.rounds,
	       out.both, out.none, out.other, out.twice);
	EXPECT_EQ(0, out.both);
	EXPECT_EQ(0, out.none);
	EXPECT_EQ(0, out.other);
	EXPECT_EQ(0, out.twice);
	EXPECT_EQ(0, used_bytes(self->pool));
}

/* The second free of one thread, in each pair of calls. */
TEST_F(claim, again)
{
	CUdeviceptr p;

	ASSERT_CU(cuMemAllocFromPoolAsync(&p, variant->size, self->pool, self->s[0]));
	ASSERT_CU(variant->now0 ? cuMemFree(p) : cuMemFreeAsync(p, self->s[0]));
	EXPECT_EQ(INVALID, variant->now1 ? cuMemFree(p) : cuMemFreeAsync(p, self->s[0]));
	EXPECT_EQ(INVALID, variant->now1 ? cuMemFree(p) : cuMemFreeAsync(p, self->s[1]));
	EXPECT_EQ(0, used_bytes(self->pool));
}

/* --- the first time that another thread frees a block of a thread's */

struct owner {
	pthread_t thread;
	CUcontext ctx;
	CUmemoryPool pool;
	CUstream stream;
	size_t size;
	atomic_bool ready, go;
	CUresult result;
};

static void *owner_main(void *arg)
{
	struct owner *owner = arg;
	CUdeviceptr p[MANY];
	unsigned int i;

	owner->result = cuCtxSetCurrent(owner->ctx);
	/* A heap of this thread's, with blocks in it. */
	for (i = 0; !owner->result && i < MANY; i++)
		owner->result = cuMemAllocFromPoolAsync(&p[i], owner->size, owner->pool,
							owner->stream);
	for (i = 0; !owner->result && i < MANY; i++)
		owner->result = cuMemFreeAsync(p[i], owner->stream);
	if (!owner->result)
		owner->result = cuMemAllocFromPoolAsync(&block, owner->size, owner->pool,
							owner->stream);
	atomic_store(&owner->ready, true);
	while (!atomic_load(&owner->go))
		;
	if (!owner->result)
		owner->result = cuMemFreeAsync(block, owner->stream);
	return NULL;
}

TEST_F(claim, first_time)
{
	enum { ROUNDS = 300 };
	unsigned int wrong = 0;

	if (variant->now0)
		return;
	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct owner owner = {
			.ctx = self->ctx, .pool = self->pool, .size = variant->size,
		};
		CUresult result;

		/* A new stream, so that the thread owns its heap. */
		ASSERT_CU(cuStreamCreate(&owner.stream, CU_STREAM_NON_BLOCKING));
		ASSERT_EQ(0, pthread_create(&owner.thread, NULL, owner_main, &owner));
		while (!atomic_load(&owner.ready))
			sched_yield();
		atomic_store(&owner.go, true);
		/* Freeing here begins with more to do than there. */
		for (volatile unsigned int n = 0; n < i % 64 * 8; n++)
			;
		result = variant->now1 ? cuMemFree(block) : cuMemFreeAsync(block, self->s[1]);
		pthread_join(owner.thread, NULL);
		wrong += !(result == CUDA_SUCCESS && owner.result == INVALID) &&
			!(result == INVALID && owner.result == CUDA_SUCCESS);
		ASSERT_CU(cuStreamDestroy(owner.stream));
	}
	EXPECT_EQ(0, wrong);
	EXPECT_EQ(0, used_bytes(self->pool));
}

TEST_HARNESS_MAIN
