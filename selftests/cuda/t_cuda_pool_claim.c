// SPDX-License-Identifier: GPL-2.0
/*
 * Tests two threads that free one block of a pool at the same time, by every pair of calls: one
 * call succeeds, the other returns CUDA_ERROR_INVALID_VALUE, and the pool gives the block out once.
 *
 * Two frees are simultaneous only by chance, so there are many rounds.  The results must be the
 * same in a round whose frees ran one after the other.  Where the two threads rarely run at the
 * same time, a round takes long, so a time limit makes the rounds fewer.  The library may claim a
 * thread's blocks in another way until another thread frees one of them, so one test has a new
 * thread in each round.
 */
#include "kselftest_harness.h"
#include "cuda_case_util.h"

enum { MANY = 16, FEWEST = 200 };

FIXTURE(claim)
{
	CUcontext ctx;
	CUmemoryPool pool;
	CUstream s[2];
};

FIXTURE_SETUP(claim)
{
	cuda_begin(_metadata, &self->ctx);
	ASSERT_CU(cuStreamCreate(&self->s[0], CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuStreamCreate(&self->s[1], CU_STREAM_NON_BLOCKING));
	ASSERT_CU(pool_make_keeping(&self->pool, 0));
}

QUIET_AFTERWARDS(claim)

/* --- two threads that do something at the same time, again and again */

struct side {
	pthread_t thread;
	CUcontext ctx;
	CUstream stream;
	bool now;			/* cuMemFree(), not cuMemFreeAsync() */
	CUresult result;
};

static atomic_uint arrived;
static CUdeviceptr block;
static bool stop;

/* A barrier that both threads leave at as nearly the same time as they can. */
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
	__u64 end = in_seconds(10);
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
		if (out->rounds > FEWEST && mono_ns() > end)
			break;
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
	EXPECT_EQ(0, POOL_USED(self->pool));
}

/* The second free of a block by the same thread is refused, for each pair of calls. */
TEST_F(claim, again)
{
	CUdeviceptr p;

	ASSERT_CU(cuMemAllocFromPoolAsync(&p, variant->size, self->pool, self->s[0]));
	ASSERT_CU(variant->now0 ? cuMemFree(p) : cuMemFreeAsync(p, self->s[0]));
	EXPECT_EQ(INVALID, variant->now1 ? cuMemFree(p) : cuMemFreeAsync(p, self->s[0]));
	EXPECT_EQ(INVALID, variant->now1 ? cuMemFree(p) : cuMemFreeAsync(p, self->s[1]));
	EXPECT_EQ(0, POOL_USED(self->pool));
}

/* --- the first time that another thread frees a block of a heap's owner */

struct owner {
	struct stepper stepper;
	CUmemoryPool pool;
	CUstream stream;
	size_t size;
	bool now;		/* step 2 frees by cuMemFree() */
};

/* Step 1 makes a heap with blocks in it and allocates the block; step 2 frees the block. */
static CUresult owner_step(void *arg, unsigned int step)
{
	struct owner *owner = arg;
	CUresult result = CUDA_SUCCESS;
	CUdeviceptr p[MANY];
	unsigned int i;

	if (step == 2)
		return owner->now ? cuMemFree(block) : cuMemFreeAsync(block, owner->stream);
	for (i = 0; !result && i < MANY; i++)
		result = cuMemAllocFromPoolAsync(&p[i], owner->size, owner->pool, owner->stream);
	for (i = 0; !result && i < MANY; i++)
		result = cuMemFreeAsync(p[i], owner->stream);
	return result ? result :
		cuMemAllocFromPoolAsync(&block, owner->size, owner->pool, owner->stream);
}

TEST_F(claim, first_time)
{
	enum { ROUNDS = 300 };
	unsigned int wrong = 0;

	for (unsigned int i = 0; i < ROUNDS; i++) {
		struct owner owner = {
			.stepper = { .ctx = self->ctx, .step = owner_step, .arg = &owner },
			.pool = self->pool, .size = variant->size, .now = variant->now0,
		};
		CUresult result, other;

		/* A new stream, so that the thread owns its heap. */
		ASSERT_CU(cuStreamCreate(&owner.stream, CU_STREAM_NON_BLOCKING));
		ASSERT_TRUE(stepper_start(&owner.stepper));
		ASSERT_CU(stepper_step(&owner.stepper));
		stepper_order(&owner.stepper);
		/* Vary the delay of this thread's free from round to round. */
		for (volatile unsigned int n = 0; n < i % 64 * 8; n++)
			;
		result = variant->now1 ? cuMemFree(block) : cuMemFreeAsync(block, self->s[1]);
		other = stepper_wait(&owner.stepper);
		stepper_end(&owner.stepper);
		wrong += !(result == CUDA_SUCCESS && other == INVALID) &&
			!(result == INVALID && other == CUDA_SUCCESS);
		ASSERT_CU(cuStreamDestroy(owner.stream));
	}
	EXPECT_EQ(0, wrong);
	EXPECT_EQ(0, POOL_USED(self->pool));
}

TEST_HARNESS_MAIN
