// SPDX-License-Identifier: GPL-2.0
/*
 * Tests pools when membarrier(2) stops working after the first pool was made, as in a program that
 * installs a filter of system calls after it has started.  A heap has the free blocks of one stream
 * and one pool.  The thread that owns a heap uses no barriers while membarrier works.  Afterwards
 * the owner must use them, and other threads may touch the heap only after the owner does.
 */
#include <errno.h>
#include <linux/membarrier.h>

#include "kselftest_harness.h"
#include "cuda_case_util.h"
#include "deny_util.h"

enum { MANY = 64 };

FIXTURE(barrier)
{
	CUcontext ctx;
	CUmemoryPool pool;
	CUstream s;
};

FIXTURE_SETUP(barrier)
{
	cuda_begin(_metadata, &self->ctx);
	ASSERT_CU(cuStreamCreate(&self->s, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(pool_make_keeping(&self->pool, 0));
}

QUIET_AFTERWARDS(barrier)

/* Make membarrier(2) fail in all threads, from now on. */
static bool deny(void)
{
	return deny_call(SYS_membarrier, EPERM) &&
	       syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0) == -1;
}

/* --- an owner that takes one step at a time */

struct owner {
	struct stepper stepper;
	CUmemoryPool pool;
	CUstream s, other;
};

static CUresult round_trip(CUmemoryPool pool, CUstream s, unsigned int n)
{
	CUdeviceptr p[MANY];
	CUresult result = CUDA_SUCCESS;

	for (unsigned int i = 0; !result && i < n; i++)
		result = cuMemAllocFromPoolAsync(&p[i], 512, pool, s);
	for (unsigned int i = 0; !result && i < n; i++)
		result = cuMemFreeAsync(p[i], s);
	return result;
}

/* Step 1 allocates and frees in both streams of the owner, later steps only in @other. */
static CUresult owner_step(void *arg, unsigned int step)
{
	struct owner *owner = arg;
	CUresult result = step == 1 ? round_trip(owner->pool, owner->s, MANY) : CUDA_SUCCESS;

	return result ? result : round_trip(owner->pool, owner->other, MANY);
}

static CUresult owner_start(struct owner *owner)
{
	CUresult result = cuStreamCreate(&owner->s, CU_STREAM_NON_BLOCKING);

	if (!result)
		result = cuStreamCreate(&owner->other, CU_STREAM_NON_BLOCKING);
	owner->stepper.step = owner_step;
	owner->stepper.arg = owner;
	if (result || !stepper_start(&owner->stepper))
		return result ? result : CUDA_ERROR_UNKNOWN;
	return stepper_step(&owner->stepper);
}

/* Blocks in the heaps of an owner stay until it makes a call; all other work goes on. */
TEST_F(barrier, sleeping_owner)
{
	struct owner owner = { .stepper.ctx = self->ctx, .pool = self->pool };
	CUdeviceptr p;

	ASSERT_CU(owner_start(&owner));
	ASSERT_TRUE(deny());
	/* The owner could be in its heap, so a trim does not touch the blocks there. */
	ASSERT_CU(cuMemPoolTrimTo(self->pool, 0));
	EXPECT_LT(0, POOL_RESERVED(self->pool));
	/* This thread can still use the owner's stream. */
	ASSERT_CU(cuMemAllocFromPoolAsync(&p, 512, self->pool, owner.s));
	ASSERT_CU(cuMemFreeAsync(p, owner.s));
	ASSERT_CU(round_trip(self->pool, owner.s, MANY));
	/* This thread can destroy the stream while the owner's heap of the stream has blocks. */
	ASSERT_CU(cuStreamDestroy(owner.s));
	ASSERT_CU(cuMemPoolTrimTo(self->pool, 0));
	EXPECT_LT(0, POOL_RESERVED(self->pool));
	/* From this call on, the owner uses barriers. */
	ASSERT_CU(stepper_step(&owner.stepper));
	ASSERT_CU(cuMemPoolTrimTo(self->pool, 0));
	EXPECT_EQ(0, POOL_RESERVED(self->pool));
	stepper_end(&owner.stepper);
}

/* When an owner ends without another call, other threads get the blocks of its heaps. */
TEST_F(barrier, owner_ends)
{
	struct owner owner = { .stepper.ctx = self->ctx, .pool = self->pool };

	ASSERT_CU(owner_start(&owner));
	ASSERT_TRUE(deny());
	ASSERT_CU(cuMemPoolTrimTo(self->pool, 0));
	EXPECT_LT(0, POOL_RESERVED(self->pool));
	ASSERT_CU(cuStreamDestroy(owner.s));
	stepper_end(&owner.stepper);
	ASSERT_CU(cuMemPoolTrimTo(self->pool, 0));
	EXPECT_EQ(0, POOL_RESERVED(self->pool));
}

/* --- an owner that uses its heap all the time */

struct busy {
	pthread_t thread;
	CUcontext ctx;
	CUmemoryPool pool;
	CUstream s;
	CUresult result;
	atomic_uint rounds;
	atomic_bool stop;
};

static void *busy_main(void *arg)
{
	struct busy *owner = arg;
	unsigned long round = 0;
	CUdeviceptr p[MANY];

	owner->result = cuCtxSetCurrent(owner->ctx);
	for (; !owner->result && !atomic_load(&owner->stop); round++) {
		for (unsigned int i = 0; !owner->result && i < MANY; i++)
			owner->result = cuMemAllocFromPoolAsync(&p[i], 512, owner->pool, owner->s);
		for (unsigned int i = 0; !owner->result && !strict() && i < MANY; i++)
			*(volatile __u64 *)cpu(p[i]) = round << 16 | i;
		for (unsigned int i = 0; !owner->result && !strict() && i < MANY; i++)
			if (*(volatile __u64 *)cpu(p[i]) != (round << 16 | i))
				owner->result = CUDA_ERROR_ILLEGAL_ADDRESS;
		for (unsigned int i = 0; !owner->result && i < MANY; i++)
			owner->result = cuMemFreeAsync(p[i], owner->s);
		atomic_fetch_add(&owner->rounds, 1);
	}
	atomic_store(&owner->stop, true);
	return NULL;
}

/*
 * The owner and the trimming thread use the heap in turn, by the owner's barriers alone: no block
 * is given out twice.
 *
 * Unlike "sleeping_owner", this case cannot detect a library whose owners use no barrier.  In such
 * a library, both threads are in the heap only if the owner's store of "inside" stays in its
 * processor's store buffer from before the other thread's store of "revoked" until after that
 * thread's load of "inside".  Between these two, the other thread makes the system call that
 * fails.  The call takes longer than a store stays in the buffer, and an event that stops the
 * owner's thread empties the buffer first.
 */
TEST_F(barrier, busy_owner)
{
	struct busy owner = { .ctx = self->ctx, .pool = self->pool };
	unsigned int rounds, trims = 0;
	__u64 end;

	ASSERT_CU(cuStreamCreate(&owner.s, CU_STREAM_NON_BLOCKING));
	ASSERT_EQ(0, pthread_create(&owner.thread, NULL, busy_main, &owner));
	ASSERT_TRUE(deny());
	/* The owner goes on between two trims, so that each finds blocks in the heap. */
	for (end = in_seconds(10); (mono_ns() < end || trims < 100) && !atomic_load(&owner.stop);
	     trims++) {
		ASSERT_CU(cuMemPoolTrimTo(self->pool, 0));
		rounds = atomic_load(&owner.rounds);
		while (trims % 2 && atomic_load(&owner.rounds) == rounds &&
		       !atomic_load(&owner.stop))
			sched_yield();
	}
	atomic_store(&owner.stop, true);
	pthread_join(owner.thread, NULL);
	EXPECT_CU(owner.result);
	ASSERT_CU(cuMemPoolTrimTo(self->pool, 0));
	EXPECT_EQ(0, POOL_RESERVED(self->pool));
}

/* --- an owner whose first call is the first of the process that needs a pool */

CONTEXT_FIXTURE(first)

/* The owner's call after membarrier has stopped working. */
FIXTURE_VARIANT(first)
{
	bool allocates, frees_large;
};

FIXTURE_VARIANT_ADD(first, allocation)
{
	.allocates = true,
};

FIXTURE_VARIANT_ADD(first, free)
{
	.frees_large = false,
};

FIXTURE_VARIANT_ADD(first, free_of_a_large_block)
{
	.frees_large = true,
};

struct beginner {
	struct stepper stepper;
	CUstream s;
	CUdeviceptr small, large, late;
	bool allocates, frees_large;
};

static CUresult beginner_step(void *arg, unsigned int step)
{
	struct beginner *b = arg;
	CUdeviceptr p = 0;
	CUresult result;

	if (step > 1)
		return b->allocates ? cuMemAllocAsync(&b->late, 512, b->s) :
			cuMemFreeAsync(b->frees_large ? b->large : b->small, b->s);
	result = cuMemAllocAsync(&p, 512, b->s);
	if (!result)
		result = cuMemAllocAsync(&b->small, 512, b->s);
	if (!result)
		result = cuMemAllocAsync(&b->large, 3 * MIB, b->s);
	return result ? result : cuMemFreeAsync(p, b->s);
}

TEST_F(first, call)
{
	struct beginner b = {
		.stepper = { .ctx = self->ctx, .step = beginner_step, .arg = &b },
		.allocates = variant->allocates, .frees_large = variant->frees_large,
	};
	cuuint64_t keep = ~0ull;
	CUmemoryPool pool;

	ASSERT_CU(cuStreamCreate(&b.s, CU_STREAM_NON_BLOCKING));
	ASSERT_TRUE(stepper_start(&b.stepper));
	ASSERT_CU(stepper_step(&b.stepper));
	ASSERT_CU(cuDeviceGetMemPool(&pool, 0));
	ASSERT_CU(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	ASSERT_TRUE(deny());
	/* First this thread notices that membarrier fails, then the owner. */
	ASSERT_CU(cuMemPoolTrimTo(pool, 0));
	ASSERT_CU(stepper_step(&b.stepper));
	/* Now other threads may take blocks from the owner's heap. */
	if (variant->allocates)
		ASSERT_CU(cuMemFree(b.late));
	if (variant->allocates || variant->frees_large)
		ASSERT_CU(cuMemFree(b.small));
	if (!variant->frees_large)
		ASSERT_CU(cuMemFree(b.large));
	ASSERT_CU(cuMemPoolTrimTo(pool, 0));
	EXPECT_EQ(0, POOL_RESERVED(pool));
	stepper_end(&b.stepper);
}

TEST_HARNESS_MAIN
