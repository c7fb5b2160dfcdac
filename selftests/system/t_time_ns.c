// SPDX-License-Identifier: GPL-2.0
/*
 * Times in a time namespace, where the monotonic clocks of a process differ from the kernel's:
 * timestamps of the engine, deadlines of calls and the library's events use the process's clocks.
 */
#include <sched.h>
#include <time.h>

#include "kselftest_harness.h"
#include "cuda/cuda_util.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME	0x80
#endif

#define AHEAD	1000000L	/* seconds, which is eleven days */
#define ADDR	0x200000000ULL	/* device address of a buffer object */

FIXTURE(time_ns)
{
};

FIXTURE_SETUP(time_ns)
{
	(void)self;
	if (access("/proc/self/ns/time", F_OK))
		SKIP(return, "the kernel has no time namespaces");
	ASSERT_TRUE(dev_quiet(10));
}

FIXTURE_TEARDOWN(time_ns)
{
	(void)self;
	EXPECT_TRUE(dev_quiet(10));
}

static __u64 raw_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_RAW, &t);
	return t.tv_sec * NSEC + t.tv_nsec;
}

struct call {
	int (*fn)(void *arg);
	__u64 now;
};

/* unshare() makes the namespace for later children; the first child fixes its offsets.  */
static int parent(void *arg)
{
	int flags = CLONE_NEWTIME | (geteuid() ? CLONE_NEWUSER : 0);
	struct call *call = arg;
	FILE *f;

	if (unshare(flags))
		return 100;
	f = fopen("/proc/self/timens_offsets", "we");
	if (!f)
		return 101;
	fprintf(f, "monotonic %ld 0\n", AHEAD);
	if (fclose(f))
		return 102;
	return run_child(call->fn, &call->now);
}

/*
 * As run_child(), but the child is in a time namespace of its own. 100 or more: the namespace could
 * not be made.
 */
static int run_ahead(int (*fn)(void *arg))
{
	struct call call = { fn, raw_ns() };

	return run_child(parent, &call);
}

/* Timestamps of the engine and deadlines of calls use the caller's clocks.  */
static int raw(void *arg)
{
	__u64 start = *(__u64 *)arg, before, after, now;
	struct gpumem_timeline_wait w;
	int fd = gp_open(0);
	__u32 vm, bo, timeline;
	struct gpumem_sqe sqe;
	const __u64 *t;
	struct stream s;

	if (raw_ns() < start + AHEAD * NSEC)
		return 1;
	if (fd < 0 || gp_bo_alloc(fd, MIB, &bo) || gp_vm_create(fd, &vm) ||
	    gp_vm_map(fd, vm, bo, 0, ADDR, MIB, 1, 1) || stream_open(&s, fd, vm, 0, 64) ||
	    gp_timeline_create(fd, 0, &timeline))
		return 2;
	t = gp_map(fd, bo, 0, MIB, PROT_READ);
	before = raw_ns();
	sqe = sqe_timestamp(ADDR);
	if (!t || stream_push(&s, &sqe) || stream_sync(&s))
		return 3;
	after = raw_ns();
	if (t[0] < before || t[0] > after)
		return 4;
	if (gp_timeline_wait(fd, timeline, 1, 0, &w) != -ETIMEDOUT ||
	    gp_timeline_wait(fd, timeline, 1, NSEC, &w) != -ETIMEDOUT ||
	    gp_timeline_wait(fd, timeline, 1, mono_ns(), &w) != -ETIMEDOUT)
		return 5;
	now = mono_ns();
	if (gp_timeline_wait(fd, timeline, 1, now + NSEC / 10, &w) != -ETIMEDOUT ||
	    mono_ns() < now + NSEC / 10)
		return 6;
	return gp_timeline_wait(fd, timeline, 0, FOREVER, &w) ? 7 : 0;
}

TEST_F(time_ns, engine)
{
	EXPECT_EQ(0, run_ahead(raw));
}

/* Times that the library reads and times that the engine writes are of the same clock.  */
static int events(void *arg)
{
	CUevent first, queued, last;
	volatile __u32 *word;
	__u64 before, after;
	float one, two;
	CUcontext ctx;
	CUstream s;

	before = raw_ns();
	if (before < *(__u64 *)arg + AHEAD * NSEC)
		return 6;
	if (cuda_start(&ctx) || cuEventCreate(&first, 0) || cuEventCreate(&queued, 0) ||
	    cuEventCreate(&last, 0) || cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) ||
	    cuMemHostAlloc((void **)&word, 4096, 0))
		return 1;
	*word = 0;
	if (cuEventRecord(first, s) ||
	    cuStreamWaitValue32(s, (uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ) ||
	    cuEventRecord(queued, s) || cuEventQuery(queued) != CUDA_ERROR_NOT_READY)
		return 2;
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
	if (cuStreamSynchronize(s) || cuEventRecord(last, s) || cuEventSynchronize(last))
		return 3;
	after = raw_ns();
	if (cuEventElapsedTime(&one, first, queued) || cuEventElapsedTime(&two, queued, last))
		return 4;
	if (one <= 0 || two < 0 || one + two > (after - before) / 1e6 + 1)
		return 5;
	return 0;
}

TEST_F(time_ns, events)
{
	EXPECT_EQ(0, run_ahead(events));
}

int main(int argc, char **argv)
{
	return test_harness_run(argc, argv);
}
