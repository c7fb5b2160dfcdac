// SPDX-License-Identifier: GPL-2.0
/*
 * A forked child's view of its parent's memory, as a process that uses CUDA finds it on an H200:
 * device and managed memory are not mapped, pinned memory is shared, and registered memory is
 * inherited as the program mapped it.  Memory that the parent frees is free although the child
 * lives.  The child changes neither the device memory that the parent reads nor the parent's
 * charge.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "kselftest_harness.h"
#include "cuda_util.h"

CONTEXT_FIXTURE(forked)

/* --- children */

static int reads(void *p)
{
	return *(volatile unsigned char *)p & 0;
}

static int writes(void *p)
{
	*(volatile unsigned char *)p = 0x99;
	return 0;
}

static int lives(void *arg)
{
	(void)arg;
	pause();
	return 0;
}

static bool unmapped(CUdeviceptr p)
{
	return run_child(reads, cpu(p)) == -SIGSEGV && run_child(writes, cpu(p)) == -SIGSEGV;
}

/* --- kinds of memory */

TEST_F(forked, device_memory)
{
	const size_t sizes[] = { 512, 4 * KIB, 2 * MIB, 8 * MIB };
	CUdeviceptr p[ARRAY_SIZE(sizes)];
	unsigned char byte;
	long long before;
	pid_t child;

	/* Have the library make the memory that it makes only once. */
	ASSERT_CU(cuMemAlloc(&p[0], 4 * KIB));
	ASSERT_CU(cuMemsetD8(p[0], 1, 4 * KIB));
	ASSERT_CU(cuMemcpyDtoH(&byte, p[0], 1));
	ASSERT_CU(cuMemFree(p[0]));
	before = used(0);
	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
		ASSERT_CU(cuMemAlloc(&p[i], sizes[i]));
		ASSERT_CU(cuMemsetD8(p[i], 7, sizes[i]));
	}
	ASSERT_CU(cuCtxSynchronize());
	child = start_child(lives, NULL);
	ASSERT_LT(0, child);
	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
		EXPECT_TRUE(unmapped(p[i]));
		EXPECT_TRUE(unmapped(p[i] + sizes[i] - 1));
		EXPECT_CU(cuMemcpyDtoH(&byte, p[i] + sizes[i] - 1, 1));
		EXPECT_EQ(7, byte);
		EXPECT_CU(cuMemFree(p[i]));
	}
	/* The first child still lives. */
	EXPECT_EQ(before, used(0));
	EXPECT_EQ(-SIGKILL, kill_child(child));
	EXPECT_EQ(before, used(0));
}

TEST_F(forked, pool_memory)
{
	CUdeviceptr p;
	CUmemoryPool pool;
	long long before = used(0);
	pid_t child;

	ASSERT_CU(cuMemAllocAsync(&p, 4 * MIB, NULL));
	ASSERT_CU(cuMemsetD8(p, 7, 4 * MIB));
	child = start_child(lives, NULL);
	ASSERT_LT(0, child);
	EXPECT_TRUE(unmapped(p));
	EXPECT_CU(cuMemFreeAsync(p, NULL));
	EXPECT_CU(cuCtxSynchronize());
	ASSERT_CU(cuDeviceGetDefaultMemPool(&pool, 0));
	EXPECT_CU(cuMemPoolTrimTo(pool, 0));
	EXPECT_GE(before, used(0));
	EXPECT_EQ(-SIGKILL, kill_child(child));
}

TEST_F(forked, managed_memory)
{
	CUdeviceptr p;
	long long before = used(0);
	pid_t child;

	ASSERT_CU(cuMemAllocManaged(&p, 4 * MIB, CU_MEM_ATTACH_GLOBAL));
	*cpu(p) = 7;
	child = start_child(lives, NULL);
	ASSERT_LT(0, child);
	EXPECT_TRUE(unmapped(p));
	EXPECT_EQ(7, *cpu(p));
	EXPECT_CU(cuMemFree(p));
	EXPECT_EQ(before, used(0));
	EXPECT_EQ(-SIGKILL, kill_child(child));
}

TEST_F(forked, pinned_memory)
{
	unsigned char *p;
	CUdeviceptr out;
	unsigned char byte = 0;

	ASSERT_CU(cuMemHostAlloc((void **)&p, 4 * MIB, 0));
	ASSERT_CU(cuMemAlloc(&out, 4 * KIB));
	*p = 7;
	EXPECT_EQ(0, run_child(reads, p));
	EXPECT_EQ(0, run_child(writes, p));
	/* The parent and the device read what the child wrote. */
	EXPECT_EQ(0x99, *p);
	EXPECT_CU(cuMemcpyDtoD(out, (uintptr_t)p, 1));
	EXPECT_CU(cuMemcpyDtoH(&byte, out, 1));
	EXPECT_EQ(0x99, byte);
	EXPECT_CU(cuMemFreeHost(p));
}

TEST_F(forked, registered_memory)
{
	for (int shared = 0; shared < 2; shared++) {
		unsigned char *p = mmap(NULL, 8 * KIB, PROT_READ | PROT_WRITE, MAP_ANONYMOUS |
					(shared ? MAP_SHARED : MAP_PRIVATE), -1, 0);
		unsigned char byte = 0;
		CUdeviceptr out;

		ASSERT_NE(MAP_FAILED, (void *)p);
		*p = 7;
		ASSERT_CU(cuMemHostRegister(p, 8 * KIB, 0));
		ASSERT_CU(cuMemAlloc(&out, 4 * KIB));
		EXPECT_EQ(0, run_child(reads, p));
		EXPECT_EQ(0, run_child(writes, p));
		EXPECT_EQ(shared ? 0x99 : 7, *p);
		EXPECT_CU(cuMemcpyDtoD(out, (uintptr_t)p, 1));
		EXPECT_CU(cuMemcpyDtoH(&byte, out, 1));
		EXPECT_EQ(shared ? 0x99 : 7, byte);
		EXPECT_CU(cuMemFree(out));
		EXPECT_CU(cuMemHostUnregister(p));
	}
}

/* --- calls in the child */

static int calls(void *arg)
{
	CUdeviceptr p;
	unsigned int type;

	(void)arg;
	return cuMemAlloc(&p, 4 * KIB) != CUDA_ERROR_NOT_INITIALIZED ||
	       cuCtxSynchronize() != CUDA_ERROR_NOT_INITIALIZED ||
	       cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (uintptr_t)&p) !=
	       CUDA_ERROR_NOT_INITIALIZED || cuInit(0) != CUDA_ERROR_NOT_INITIALIZED;
}

TEST_F(forked, calls)
{
	EXPECT_EQ(0, run_child(calls, NULL));
}

/* --- fork() while another thread allocates */

#define CHILDREN	24
#define HELD		8

struct allocator {
	CUcontext ctx;
	atomic_int stop;
	atomic_uint calls;		/* that returned */
	CUresult result;
};

static void *allocate(void *arg)
{
	struct allocator *a = arg;
	CUdeviceptr p[HELD];

	a->result = cuCtxSetCurrent(a->ctx);
	while (!a->result && !atomic_load(&a->stop)) {
		for (int i = 0; !a->result && i < HELD; i++) {
			a->result = cuMemAlloc(&p[i], i % 2 ? 64 * KIB : 2 * MIB + 1);
			atomic_fetch_add(&a->calls, 1);
		}
		for (int i = 0; !a->result && i < HELD; i++) {
			a->result = cuMemFree(p[i]);
			atomic_fetch_add(&a->calls, 1);
		}
	}
	atomic_store(&a->stop, 1);
	return NULL;
}

/* Wait until the thread has made @calls more; false if it has ended. */
static bool has_called(struct allocator *a, unsigned int calls)
{
	unsigned int from = atomic_load(&a->calls);

	while (atomic_load(&a->calls) - from < calls && !atomic_load(&a->stop))
		sched_yield();
	return !atomic_load(&a->stop);
}

/*
 * A child never gets a mapping, whenever the fork() comes: all of the memory comes back.  Before
 * each fork() the thread has made a few calls, another number each time, so that it is at another
 * place of its loop.
 */
TEST_F(forked, while_another_thread_allocates)
{
	struct allocator a = { .ctx = self->ctx };
	long long before = used(0);
	pid_t child[CHILDREN];
	pthread_t thread;

	ASSERT_EQ(0, pthread_create(&thread, NULL, allocate, &a));
	EXPECT_TRUE(has_called(&a, 2 * HELD));
	for (int i = 0; i < CHILDREN; i++) {
		EXPECT_TRUE(has_called(&a, 1 + 3 * i % (2 * HELD)));
		child[i] = start_child(lives, NULL);
		EXPECT_LT(0, child[i]);
	}
	EXPECT_TRUE(has_called(&a, 2 * HELD));
	atomic_store(&a.stop, 1);
	pthread_join(thread, NULL);
	EXPECT_CU(a.result);
	EXPECT_EQ(before, used(0));
	for (int i = 0; i < CHILDREN; i++)
		EXPECT_EQ(-SIGKILL, kill_child(child[i]));
}

TEST_HARNESS_MAIN
