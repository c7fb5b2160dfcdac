// SPDX-License-Identifier: GPL-2.0
/*
 * Work that fails: what it does to its context and to no other, and that contexts which fail leave
 * no queues behind.
 */
#include "kselftest_harness.h"
#include "cuda_stream_fixture.h"

CUDA_STREAM_FIXTURE(failure)

/*
 * Make later work fail: unmap the memory from its devices through the kernel's interface, without
 * the library's knowledge.  The CUDA API has no call that unmaps memory in use.
 */
static bool take_away(CUdeviceptr p)
{
	CUdeviceptr base = 0;
	size_t length = 0;
	__u64 gone = 0;
	int fd = -1;

	if (node_fds(&fd) != 1 ||
	    cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, p) ||
	    cuPointerGetAttribute(&length, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, p))
		return false;
	for (__u32 vm = 1; vm < 64; vm++) {
		if (!gp_vm_unmap(fd, vm, base, length, &gone) && gone == length)
			return true;
	}
	return false;
}

static CUresult fail(CUdeviceptr *p)
{
	CUipcMemHandle handle;
	CUresult result = cuMemAlloc(p, 3 * MIB);

	if (!result)
		result = cuIpcGetMemHandle(&handle, *p);
	if (!result && !take_away(*p))
		result = CUDA_ERROR_UNKNOWN;
	return result ? result : cuMemsetD8(*p, 1, 4096);
}

TEST_F(failure, failed_work_sticks)
{
	const CUresult bad = CUDA_ERROR_ILLEGAL_ADDRESS;
	CUcontext two, three;
	CUdeviceptr p, q;
	CUstream s;
	CUevent e;

	ASSERT_CU(cuCtxCreate(&two, NULL, 0, 0));
	ASSERT_CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(fail(&p));
	EXPECT_EQ(bad, cuCtxSynchronize());
	EXPECT_EQ(bad, cuStreamSynchronize(NULL));
	EXPECT_EQ(bad, cuStreamQuery(s));
	EXPECT_EQ(bad, cuMemAlloc(&q, 4096));
	EXPECT_EQ(bad, cuMemsetD8(p, 1, 1));
	EXPECT_EQ(bad, cuMemsetD8Async(self->p, 1, 1, s));
	EXPECT_EQ(bad, cuStreamCreate(&s, 0));
	EXPECT_EQ(bad, cuEventCreate(&e, 0));
	/* Other contexts still work. */
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_CU(cuMemsetD8(self->p, 7, 100));
	EXPECT_CU(cuCtxSynchronize());
	EXPECT_TRUE(sees(self->p, 7, 100));
	EXPECT_CU(cuMemAlloc(&q, 4096));
	EXPECT_CU(cuMemFree(q));
	/* The context can be destroyed, and the next one is a new one. */
	EXPECT_CU(cuCtxDestroy(two));
	ASSERT_CU(cuCtxCreate(&three, NULL, 0, 0));
	EXPECT_CU(cuMemAlloc(&q, 4096));
	EXPECT_CU(cuMemsetD8(q, 1, 4096));
	EXPECT_CU(cuCtxSynchronize());
	EXPECT_TRUE(sees(q, 1, 4096));
	EXPECT_CU(cuMemFree(q));
	EXPECT_CU(cuCtxDestroy(three));
	EXPECT_EQ(18 * (long long)MIB, used(0));
}

/* A wait for the legacy stream ends with its failed work, though another stream waits for what follows that. */
TEST_F_TIMEOUT(failure, legacy_fails_before_it_signals, 60)
{
	const CUresult bad = CUDA_ERROR_ILLEGAL_ADDRESS;
	volatile __u32 *word;
	CUipcMemHandle handle;
	CUcontext two;
	CUdeviceptr p;
	CUstream s;

	ASSERT_CU(cuCtxCreate(&two, NULL, 0, 0));
	ASSERT_CU(cuMemHostAlloc((void **)&word, 4096, 0));
	ASSERT_CU(cuStreamCreate(&s, CU_STREAM_DEFAULT));
	ASSERT_CU(cuMemAlloc(&p, 3 * MIB));
	ASSERT_CU(cuIpcGetMemHandle(&handle, p));
	ASSERT_TRUE(take_away(p));
	word[0] = 0;
	word[1] = 0;
	ASSERT_CU(cuStreamWaitValue32(NULL, (uintptr_t)&word[0], 1, CU_STREAM_WAIT_VALUE_GEQ));
	ASSERT_CU(cuMemsetD8Async(p, 1, 4096, NULL));
	ASSERT_CU(cuStreamWriteValue32(NULL, (uintptr_t)&word[1], 1, 0));
	ASSERT_CU(cuStreamWaitValue32(s, (uintptr_t)&word[1], 1, CU_STREAM_WAIT_VALUE_GEQ));
	__atomic_store_n(&word[0], 1, __ATOMIC_RELEASE);
	EXPECT_EQ(bad, cuStreamSynchronize(NULL));
	__atomic_store_n(&word[1], 1, __ATOMIC_RELEASE);
	EXPECT_EQ(bad, cuCtxSynchronize());
	EXPECT_CU(cuCtxDestroy(two));
}

TEST_F(failure, reset_after_failed_work)
{
	CUdeviceptr p;

	ASSERT_CU(fail(&p));
	EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
	EXPECT_CU(cuDevicePrimaryCtxReset(0));
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 5));
	ASSERT_CU(cuDevicePrimaryCtxRetain(&self->ctx, 0));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_CU(cuMemAlloc(&p, 4096));
	EXPECT_CU(cuMemsetD8(p, 1, 4096));
	EXPECT_CU(cuCtxSynchronize());
	EXPECT_TRUE(sees(p, 1, 4096));
	EXPECT_CU(cuMemFree(p));
}

/* --- queues that failed */

static bool streams_become(__u64 most)
{
	struct gpumem_stats stats = { .streams = 0 };

	for (int i = 0; i < 1000; i++) {
		if (client_stats(&stats))
			return false;
		if (stats.streams <= most)
			return true;
		nap_ms(10);
	}
	fprintf(stderr, "# %llu streams, more than %llu\n", stats.streams, most);
	return false;
}

static CUresult copy_batch(CUdeviceptr to, CUdeviceptr from, size_t bytes,
			   CUmemcpySrcAccessOrder order, CUstream s)
{
	CUmemcpyAttributes attr = { .srcAccessOrder = order };
	size_t zero = 0;

	return cuMemcpyBatchAsync(&to, &from, &bytes, 1, &attr, &zero, 1, s);
}

/* An exported allocation whose mapping has been taken away from its devices. */
static CUresult unreachable(CUdeviceptr *p)
{
	CUipcMemHandle handle;
	CUresult result = cuMemAlloc(p, 3 * MIB);

	if (!result)
		result = cuIpcGetMemHandle(&handle, *p);
	return result ? result : take_away(*p) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

static void CUDA_CB nothing(void *arg)
{
	(void)arg;
}

/*
 * Contexts that fail leave no queues behind: neither that of a stream that lives as long as its
 * context, nor that of a stream destroyed before its work failed, nor that of the library's worker.
 */
TEST_F_TIMEOUT(failure, failed_queues, 120)
{
	static unsigned char host[4096];
	struct gpumem_stats first = { .streams = 0 };
	CUstream stays, goes, s;
	volatile __u32 *word;
	CUdeviceptr p;
	CUcontext ctx;

	ASSERT_CU(cuMemHostAlloc((void **)&word, 4096, 0));
	for (int i = 0; i < 8; i++) {
		*word = 0;
		ASSERT_CU(cuCtxCreate(&ctx, NULL, 0, 0));
		ASSERT_CU(unreachable(&p));
		ASSERT_CU(cuStreamCreate(&stays, CU_STREAM_NON_BLOCKING));
		ASSERT_CU(cuStreamCreate(&goes, CU_STREAM_NON_BLOCKING));
		ASSERT_CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
		ASSERT_CU(cuStreamWaitValue32(goes, (uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ));
		ASSERT_CU(cuMemsetD8Async(p, 1, 4096, goes));
		ASSERT_CU(cuLaunchHostFunc(goes, nothing, NULL));
		ASSERT_CU(cuStreamDestroy(goes));
		ASSERT_CU(cuStreamWaitValue32(s, (uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ));
		ASSERT_CU(copy_batch(p, (uintptr_t)host, sizeof(host),
				     CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, s));
		ASSERT_CU(cuMemsetD8Async(p, 1, 4096, stays));
		EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stays));
		if (i & 1) {
			EXPECT_CU(cuStreamDestroy(stays));
		}
		__atomic_store_n(word, 1, __ATOMIC_RELEASE);
		EXPECT_CU(cuCtxDestroy(ctx));
		if (!i) {
			ASSERT_EQ(0, client_stats(&first));
			EXPECT_LT(0, first.streams);
		}
		ASSERT_TRUE(streams_become(first.streams));
	}
	/* The other context works. */
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_CU(cuMemsetD8Async(self->p, 3, 100, self->a));
	EXPECT_CU(cuStreamSynchronize(self->a));
	EXPECT_TRUE(sees(self->p, 3, 100));
}

/* Calls that fail at once leave no queues, either: they read a source ahead of a busy stream. */
TEST_F(failure, failed_reads)
{
	struct gpumem_stats first = { .streams = 0 };
	volatile __u32 *word;
	CUdeviceptr p;

	ASSERT_CU(cuMemHostAlloc((void **)&word, 4096, 0));
	*word = 0;
	ASSERT_CU(unreachable(&p));
	ASSERT_CU(cuStreamWaitValue32(self->a, (uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ));
	for (int i = 0; i < 8; i++) {
		EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS,
			  copy_batch(self->p, p, 4096,
				     CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL, self->a));
		if (!i) {
			ASSERT_EQ(0, client_stats(&first));
		}
		ASSERT_TRUE(streams_become(first.streams));
	}
	EXPECT_EQ(NOT_READY, cuStreamQuery(self->a));
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
	EXPECT_CU(cuCtxSynchronize());
}

/* In strict mode the engine zeroes memory that is reused; a failure to do so leaves no queues. */
TEST_F(failure, failed_zeroing)
{
	struct gpumem_stats first = { .streams = 0 };
	CUresult want = strict() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
	CUdeviceptr keep, p;

	ASSERT_CU(cuMemAlloc(&keep, 64 * KIB));
	ASSERT_CU(cuMemAlloc(&p, 64 * KIB));
	ASSERT_CU(cuMemsetD8(p, 1, 64 * KIB));
	ASSERT_CU(cuCtxSynchronize());
	ASSERT_CU(cuMemFree(p));
	ASSERT_TRUE(take_away(keep));
	for (int i = 0; i < 8; i++) {
		EXPECT_EQ(want, cuMemAlloc(&p, 64 * KIB));
		if (!i) {
			ASSERT_EQ(0, client_stats(&first));
		}
		ASSERT_TRUE(streams_become(first.streams));
	}
}

int main(int argc, char **argv)
{
	return test_harness_run(argc, argv);
}
