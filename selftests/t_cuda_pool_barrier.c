// SPDX-License-Identifier: GPL-2.0
/*
 * membarrier(2) stops working after the first pool was made, as in a program that installs a filter
 * of system calls after it has started.  The thread that owns a stream's list of free blocks used
 * none so far; from then on it must, and nobody else may touch the list before.
 */
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/syscall.h>

#include "kselftest_harness.h"
#include "cuda_util.h"

enum { MANY = 64 };

FIXTURE(barrier)
{
	CUcontext ctx;
	CUmemoryPool pool;
	CUstream s;
};

FIXTURE_SETUP(barrier)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	cuuint64_t keep = ~0ull;

	ASSERT_TRUE(dev_quiet(10));
	ASSERT_CU(cuda_start(&self->ctx));
	ASSERT_CU(cuStreamCreate(&self->s, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuMemPoolCreate(&self->pool, &props));
	ASSERT_CU(cuMemPoolSetAttribute(self->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
}

FIXTURE_TEARDOWN_PARENT(barrier)
{
	EXPECT_TRUE(dev_quiet(10));
}

/* In all threads, from now on. */
static int deny(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { ARRAY_SIZE(filter), filter };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program))
		return -1;
	return syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0) == -1 ? 0 : -1;
}

static cuuint64_t reserved(CUmemoryPool pool)
{
	cuuint64_t value = ~0ull;

	if (cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value))
		abort();
	return value;
}

/* --- an owner that takes one step at a time */

struct owner {
	pthread_t thread;
	CUcontext ctx;
	CUmemoryPool pool;
	CUstream s, other;
	atomic_uint step, done;
	CUresult result;
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

static void *owner_main(void *arg)
{
	struct owner *owner = arg;

	owner->result = cuCtxSetCurrent(owner->ctx);
	for (unsigned int step = 1;; step++) {
		while (atomic_load(&owner->step) < step)
			sched_yield();
		if (step == 3)
			return NULL;
		/* First in its stream; then in another one of its own. */
		if (!owner->result)
			owner->result = round_trip(owner->pool,
						   step == 1 ? owner->s : owner->other, MANY);
		if (step == 1 && !owner->result)
			owner->result = round_trip(owner->pool, owner->other, MANY);
		atomic_store(&owner->done, step);
	}
}

static void step(struct owner *owner, unsigned int n)
{
	atomic_store(&owner->step, n);
	while (atomic_load(&owner->done) < n && n < 3)
		sched_yield();
}

/* What an owner has in its heaps waits for it; everything else goes on without. */
TEST_F(barrier, sleeping_owner)
{
	struct owner owner = { .ctx = self->ctx, .pool = self->pool };
	CUdeviceptr p;

	ASSERT_CU(cuStreamCreate(&owner.s, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuStreamCreate(&owner.other, CU_STREAM_NON_BLOCKING));
	ASSERT_EQ(0, pthread_create(&owner.thread, NULL, owner_main, &owner));
	step(&owner, 1);
	ASSERT_CU(owner.result);
	ASSERT_EQ(0, deny());
	/* The owner could be inside: its blocks are not touched. */
	ASSERT_CU(cuMemPoolTrimTo(self->pool, 0));
	EXPECT_LT(0, reserved(self->pool));
	/* The owner's stream works for this thread all the same. */
	ASSERT_CU(cuMemAllocFromPoolAsync(&p, 512, self->pool, owner.s));
	ASSERT_CU(cuMemFreeAsync(p, owner.s));
	ASSERT_CU(round_trip(self->pool, owner.s, MANY));
	/* And may end, with blocks of the owner's in it. */
	ASSERT_CU(cuStreamDestroy(owner.s));
	ASSERT_CU(cuMemPoolTrimTo(self->pool, 0));
	EXPECT_LT(0, reserved(self->pool));
	/* From here on the owner has a barrier. */
	step(&owner, 2);
	ASSERT_CU(owner.result);
	ASSERT_CU(cuMemPoolTrimTo(self->pool, 0));
	EXPECT_EQ(0, reserved(self->pool));
	step(&owner, 3);
	pthread_join(owner.thread, NULL);
}

/* An owner that ends without another call leaves what it had. */
TEST_F(barrier, owner_ends)
{
	struct owner owner = { .ctx = self->ctx, .pool = self->pool };

	ASSERT_CU(cuStreamCreate(&owner.s, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuStreamCreate(&owner.other, CU_STREAM_NON_BLOCKING));
	ASSERT_EQ(0, pthread_create(&owner.thread, NULL, owner_main, &owner));
	step(&owner, 1);
	ASSERT_CU(owner.result);
	ASSERT_EQ(0, deny());
	ASSERT_CU(cuMemPoolTrimTo(self->pool, 0));
	EXPECT_LT(0, reserved(self->pool));
	ASSERT_CU(cuStreamDestroy(owner.s));
	owner.result = CUDA_ERROR_UNKNOWN;
	atomic_store(&owner.step, 3);
	pthread_join(owner.thread, NULL);
	ASSERT_CU(cuMemPoolTrimTo(self->pool, 0));
	EXPECT_EQ(0, reserved(self->pool));
}

/* --- an owner that is inside all the time */

static bool stop;

static void *busy_main(void *arg)
{
	struct owner *owner = arg;
	unsigned long round = 0;
	CUdeviceptr p[MANY];

	owner->result = cuCtxSetCurrent(owner->ctx);
	for (; !owner->result && !__atomic_load_n(&stop, __ATOMIC_RELAXED); round++) {
		for (unsigned int i = 0; !owner->result && i < MANY; i++)
			owner->result = cuMemAllocFromPoolAsync(&p[i], 512, owner->pool, owner->s);
		for (unsigned int i = 0; !owner->result && !strict() && i < MANY; i++)
			*(volatile __u64 *)cpu(p[i]) = round << 16 | i;
		for (unsigned int i = 0; !owner->result && !strict() && i < MANY; i++)
			if (*(volatile __u64 *)cpu(p[i]) != (round << 16 | i))
				owner->result = CUDA_ERROR_ILLEGAL_ADDRESS;
		for (unsigned int i = 0; !owner->result && i < MANY; i++)
			owner->result = cuMemFreeAsync(p[i], owner->s);
	}
	return NULL;
}

/* Two threads are in one heap by chance only: many rounds. */
TEST_F(barrier, busy_owner)
{
	struct owner owner = { .ctx = self->ctx, .pool = self->pool };
	__u64 end;

	ASSERT_CU(cuStreamCreate(&owner.s, CU_STREAM_NON_BLOCKING));
	stop = false;
	ASSERT_EQ(0, pthread_create(&owner.thread, NULL, busy_main, &owner));
	ASSERT_EQ(0, deny());
	for (end = in_seconds(10); mono_ns() < end && !owner.result;)
		ASSERT_CU(cuMemPoolTrimTo(self->pool, 0));
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	pthread_join(owner.thread, NULL);
	EXPECT_CU(owner.result);
	ASSERT_CU(cuMemPoolTrimTo(self->pool, 0));
	EXPECT_EQ(0, reserved(self->pool));
}

TEST_HARNESS_MAIN
