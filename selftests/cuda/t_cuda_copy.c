// SPDX-License-Identifier: GPL-2.0
/*
 * Copies and fills by the CUDA API: which calls are refused, when operations take effect, and
 * whether the engine or the caller executes them.  t_cuda_model.c compares the bytes with a model.
 *
 * The kernel counts the work that its engine executed for the client, so a test can tell who
 * executed an operation.  With GPUMEM_INLINE=0 every operation that touches device memory is an
 * entry of a stream, and the counters rise by exactly its work.  Copies from and to the process's
 * own memory then go through staging memory in pieces of 1 MiB; an overlapping copy goes there and
 * back.  Otherwise the caller executes an operation on idle streams, and the counters stay.
 * Operations on memory that other processes may reach are always executed by the engine.
 */
#include "kselftest_harness.h"
#include "cuda_util.h"

FIXTURE(copy)
{
	CUcontext ctx;
	CUdeviceptr p, q;	/* 8 MiB each, zero */
	unsigned char *host;	/* 8 MiB of noise */
};

#define BYTES	(8 * MIB)

FIXTURE_SETUP(copy)
{
	cuda_begin(_metadata, &self->ctx);
	ASSERT_CU(cuMemAlloc(&self->p, BYTES));
	ASSERT_CU(cuMemAlloc(&self->q, BYTES));
	self->host = malloc(BYTES);
	ASSERT_NE(NULL, self->host);
	for (size_t i = 0; i < BYTES; i++)
		self->host[i] = (i * 2654435761ULL) >> 13;
}

QUIET_AFTERWARDS(copy)

/* --- what the engine did since the last look */

/* Whether the engine did exactly this work since @m; @m becomes the present counters. */
static bool did(struct meter *m, __u64 jobs, __u64 copied, __u64 filled)
{
	struct meter now;

	/* The engine counts a job before it raises the stream's seqno: the counters are final. */
	if (cuCtxSynchronize() || meter_read(&now))
		return false;
	if (now.jobs - m->jobs == jobs && now.copied - m->copied == copied &&
	    now.filled - m->filled == filled) {
		*m = now;
		return true;
	}
	fprintf(stderr, "# engine: %llu jobs, %llu copied, %llu filled; not %llu, %llu, %llu\n",
		(unsigned long long)(now.jobs - m->jobs),
		(unsigned long long)(now.copied - m->copied),
		(unsigned long long)(now.filled - m->filled), (unsigned long long)jobs,
		(unsigned long long)copied, (unsigned long long)filled);
	*m = now;
	return false;
}

/* The same for operations that the caller executes unless GPUMEM_INLINE is 0. */
static bool did_or_inline(struct meter *m, __u64 jobs, __u64 copied, __u64 filled)
{
	return inlining() ? did(m, 0, 0, 0) : did(m, jobs, copied, filled);
}

TEST_F(copy, counters_linear)
{
	const size_t sizes[] = { 1, 7, 4096, 100001, INLINE };
	unsigned char *out = malloc(BYTES);
	struct meter m;

	ASSERT_EQ(0, meter_read(&m));
	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t n = sizes[i];

		EXPECT_CU(cuMemcpyHtoD(self->p + i, self->host, n));
		EXPECT_TRUE(did_or_inline(&m, 1, n, 0));
		EXPECT_CU(cuMemcpyHtoDAsync(self->p + i, self->host, n, NULL));
		EXPECT_TRUE(did_or_inline(&m, 1, n, 0));
		EXPECT_CU(cuMemcpyDtoD(self->q, self->p + i, n));
		EXPECT_TRUE(did_or_inline(&m, 1, n, 0));
		EXPECT_CU(cuMemcpyDtoDAsync(self->q + n, self->p + i, n, CU_STREAM_LEGACY));
		EXPECT_TRUE(did_or_inline(&m, 1, n, 0));
		EXPECT_CU(cuMemcpyDtoH(out, self->q, n));
		EXPECT_TRUE(did_or_inline(&m, 1, n, 0));
		EXPECT_EQ(0, memcmp(out, self->host, n));
		memset(out, 0, n);
		EXPECT_CU(cuMemcpyDtoHAsync(out, self->q + n, n, NULL));
		EXPECT_EQ(0, memcmp(out, self->host, n));
		EXPECT_TRUE(did_or_inline(&m, 1, n, 0));
		EXPECT_CU(cuMemcpy(self->q + 2 * n, self->q, n));
		EXPECT_TRUE(did_or_inline(&m, 1, n, 0));
		EXPECT_CU(cuMemcpy(self->q, (uintptr_t)self->host, n));
		EXPECT_TRUE(did_or_inline(&m, 1, n, 0));
		EXPECT_CU(cuMemcpyAsync((uintptr_t)out, self->q, n, NULL));
		EXPECT_TRUE(did_or_inline(&m, 1, n, 0));
		EXPECT_CU(cuMemsetD8(self->p, 1, n));
		EXPECT_TRUE(did_or_inline(&m, 1, 0, n));
		EXPECT_CU(cuMemsetD32(self->p, 1, n / 4));
		EXPECT_TRUE(did_or_inline(&m, n / 4 > 0, 0, n / 4 * 4));
		EXPECT_CU(cuMemsetD32Async(self->p, 1, n / 4, NULL));
		EXPECT_TRUE(did_or_inline(&m, n / 4 > 0, 0, n / 4 * 4));
	}
	/* Operations without effect submit nothing; host-to-host copies are not the engine's. */
	EXPECT_CU(cuMemcpyHtoD(self->p, self->host, 0));
	EXPECT_CU(cuMemsetD8(self->p, 1, 0));
	EXPECT_CU(cuMemcpyDtoD(self->p, self->p, 1000));
	EXPECT_CU(cuMemcpy((uintptr_t)out, (uintptr_t)self->host, 100000));
	EXPECT_EQ(0, memcmp(out, self->host, 100000));
	EXPECT_TRUE(did(&m, 0, 0, 0));
	free(out);
}

/* A staged copy is divided into pieces of 1 MiB, or of as many whole rows as fit. */
TEST_F(copy, counters_staged)
{
	unsigned char *out = malloc(BYTES);
	CUDA_MEMCPY2D c = { 0 };
	struct meter m;

	ASSERT_EQ(0, meter_read(&m));
	EXPECT_CU(cuMemcpyHtoD(self->p, self->host, 5 * MIB + 3));
	EXPECT_TRUE(did_or_inline(&m, 6, 5 * MIB + 3, 0));
	EXPECT_CU(cuMemcpyHtoDAsync(self->p + 1, self->host, 3 * MIB, NULL));
	EXPECT_TRUE(did_or_inline(&m, 3, 3 * MIB, 0));
	EXPECT_CU(cuMemcpyDtoH(out, self->p + 1, 3 * MIB));
	EXPECT_TRUE(did_or_inline(&m, 3, 3 * MIB, 0));
	EXPECT_EQ(0, memcmp(out, self->host, 3 * MIB));
	/* 300000 bytes: three rows a piece. */
	c.srcMemoryType = CU_MEMORYTYPE_HOST;
	c.srcHost = self->host;
	c.srcPitch = 300001;
	c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	c.dstDevice = self->p;
	c.dstPitch = 300032;
	c.WidthInBytes = 300000;
	c.Height = 20;
	EXPECT_CU(cuMemcpy2D(&c));
	EXPECT_TRUE(did_or_inline(&m, 7, 20 * 300000, 0));
	for (int i = 0; i < 20; i++) {
		EXPECT_EQ(0, memcmp(view(self->p + i * 300032, 300000),
				    self->host + i * 300001, 300000));
	}
	/* Rows above 1 MiB: each in pieces of its own. */
	c.srcPitch = STAGE + 1000;
	c.dstPitch = STAGE + 512;
	c.WidthInBytes = STAGE + 5;
	c.Height = 3;
	EXPECT_CU(cuMemcpy2DAsync(&c, NULL));
	EXPECT_TRUE(did_or_inline(&m, 6, 3 * (STAGE + 5), 0));
	for (int i = 0; i < 3; i++) {
		EXPECT_EQ(0, memcmp(view(self->p + i * (STAGE + 512), STAGE + 5),
				    self->host + i * (STAGE + 1000), STAGE + 5));
	}
	free(out);
}

/* An overlapping copy takes a detour: there and back, a megabyte and a row at a time. */
TEST_F(copy, counters_overlapping)
{
	CUDA_MEMCPY2D c = { 0 };
	struct meter m;

	EXPECT_CU(cuMemcpyHtoD(self->p, self->host, BYTES));
	EXPECT_CU(cuCtxSynchronize());
	ASSERT_EQ(0, meter_read(&m));
	EXPECT_CU(cuMemcpyDtoD(self->p + 1, self->p, 3 * MIB));
	EXPECT_TRUE(did_or_inline(&m, 6, 6 * MIB, 0));
	EXPECT_EQ(0, memcmp(view(self->p + 1, 3 * MIB), self->host, 3 * MIB));
	EXPECT_CU(cuMemcpyDtoD(self->p, self->p + 1, 3 * MIB));
	EXPECT_TRUE(did_or_inline(&m, 6, 6 * MIB, 0));
	EXPECT_EQ(0, memcmp(view(self->p, 3 * MIB), self->host, 3 * MIB));
	c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
	c.srcDevice = self->p;
	c.srcPitch = 1000;
	c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	c.dstDevice = self->p;
	c.dstXInBytes = 10;
	c.dstY = 2;
	c.dstPitch = 1000;
	c.WidthInBytes = 990;
	c.Height = 50;
	EXPECT_CU(cuMemcpy2D(&c));
	EXPECT_TRUE(did_or_inline(&m, 100, 2 * 50 * 990, 0));
	for (int i = 0; i < 50; i++) {
		EXPECT_EQ(0, memcmp(view(self->p + (i + 2) * 1000 + 10, 990),
				    self->host + i * 1000, 990));
	}
}

/* The same in a stream of the program, which is submitted by other code. */
TEST_F(copy, overlapping_async)
{
	CUstream stream;
	struct meter m;

	ASSERT_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	EXPECT_CU(cuMemcpyHtoD(self->p, self->host, BYTES));
	EXPECT_CU(cuCtxSynchronize());
	ASSERT_EQ(0, meter_read(&m));
	EXPECT_CU(cuMemcpyDtoDAsync(self->p + 1, self->p, 3 * MIB, stream));
	EXPECT_TRUE(did(&m, 6, 6 * MIB, 0));
	EXPECT_EQ(0, memcmp(view(self->p + 1, 3 * MIB), self->host, 3 * MIB));
	EXPECT_CU(cuMemcpyDtoDAsync(self->p, self->p + 1, 3 * MIB, stream));
	EXPECT_TRUE(did(&m, 6, 6 * MIB, 0));
	EXPECT_EQ(0, memcmp(view(self->p, 3 * MIB), self->host, 3 * MIB));
	/* Adjacent ranges need no detour. */
	EXPECT_CU(cuMemcpyDtoDAsync(self->p + 3 * MIB, self->p, 3 * MIB, stream));
	EXPECT_TRUE(did(&m, 1, 3 * MIB, 0));
	EXPECT_EQ(0, memcmp(view(self->p + 3 * MIB, 3 * MIB), self->host, 3 * MIB));
	EXPECT_CU(cuStreamDestroy(stream));
}

/* Asynchronous operations above 256 KiB are queued in either mode. */
TEST_F(copy, counters_large)
{
	CUstream stream;
	struct meter m;

	ASSERT_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ASSERT_EQ(0, meter_read(&m));
	EXPECT_CU(cuMemsetD8Async(self->p, 7, INLINE + 1, stream));
	EXPECT_TRUE(did(&m, 1, 0, INLINE + 1));
	EXPECT_CU(cuMemcpyDtoDAsync(self->q, self->p, INLINE + 1, stream));
	EXPECT_TRUE(did(&m, 1, INLINE + 1, 0));
	EXPECT_TRUE(sees(self->q, 7, INLINE + 1));
	/* Operations without a stream argument are not. */
	EXPECT_CU(cuMemsetD8(self->p, 8, BYTES));
	EXPECT_TRUE(did_or_inline(&m, 1, 0, BYTES));
	EXPECT_CU(cuMemcpyDtoD(self->q, self->p, BYTES));
	EXPECT_TRUE(did_or_inline(&m, 1, BYTES, 0));
	EXPECT_TRUE(sees(self->q, 8, BYTES));
}

/* Operations on memory that other processes may reach go through the engine in either mode. */
TEST_F(copy, counters_exported)
{
	unsigned char *out = malloc(BYTES);
	struct meter m;
	int fd = -1;

	ASSERT_CU(export(self->p));
	ASSERT_EQ(0, meter_read(&m));
	EXPECT_CU(cuMemcpyHtoD(self->p, self->host, 100));
	EXPECT_TRUE(did(&m, 1, 100, 0));
	EXPECT_CU(cuMemcpyDtoH(out, self->p, 100));
	EXPECT_TRUE(did(&m, 1, 100, 0));
	EXPECT_EQ(0, memcmp(out, self->host, 100));
	EXPECT_CU(cuMemcpyDtoD(self->q, self->p, 100));
	EXPECT_TRUE(did(&m, 1, 100, 0));
	EXPECT_CU(cuMemcpyDtoDAsync(self->p + 1000, self->q, 100, NULL));
	EXPECT_TRUE(did(&m, 1, 100, 0));
	EXPECT_CU(cuMemsetD8(self->p, 1, 10));
	EXPECT_TRUE(did(&m, 1, 0, 10));
	EXPECT_CU(cuMemsetD32Async(self->p, 1, 10, NULL));
	EXPECT_TRUE(did(&m, 1, 0, 40));
	/* The export does not concern the other allocation. */
	EXPECT_CU(cuMemsetD8(self->q, 1, 10));
	EXPECT_TRUE(did_or_inline(&m, 1, 0, 10));
	ASSERT_CU(cuMemGetHandleForAddressRange(&fd, self->q, 4096,
						CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	/* So for the whole allocation, not only the page, and after the descriptor is closed. */
	EXPECT_CU(cuMemsetD8(self->q + MIB, 1, 10));
	EXPECT_TRUE(did(&m, 1, 0, 10));
	close(fd);
	EXPECT_CU(cuMemsetD8(self->q + MIB, 1, 10));
	EXPECT_TRUE(did(&m, 1, 0, 10));
	free(out);
}

/* --- what is refused */

TEST_F(copy, errors_linear)
{
	CUdeviceptr a, b, none = 0, free_ = 0;
	unsigned char out[200] = { 0 };
	CUstream stream;
	struct meter m;

	ASSERT_CU(cuMemAlloc(&a, 100));
	ASSERT_CU(cuMemAlloc(&b, 100));
	ASSERT_CU(cuMemAlloc(&free_, 100));
	ASSERT_CU(cuMemFree(free_));
	ASSERT_CU(cuStreamCreate(&stream, 0));
	ASSERT_EQ(0, meter_read(&m));
	/* A size of zero succeeds, whatever the other arguments. */
	EXPECT_CU(cuMemcpyHtoD(none, NULL, 0));
	EXPECT_CU(cuMemcpyDtoH(NULL, none, 0));
	EXPECT_CU(cuMemcpyDtoD(1, 2, 0));
	EXPECT_CU(cuMemcpy(none, ~0ULL, 0));
	EXPECT_CU(cuMemcpyHtoDAsync(none, NULL, 0, stream));
	EXPECT_CU(cuMemcpyAsync(none, none, 0, stream));
	EXPECT_CU(cuMemsetD8(none, 0, 0));
	EXPECT_CU(cuMemsetD32(1, 0, 0));
	EXPECT_CU(cuMemsetD8Async(none, 0, 0, stream));
	/* One byte too many, at either end, in every form. */
	EXPECT_EQ(INVALID, cuMemcpyHtoD(a, out, 101));
	EXPECT_EQ(INVALID, cuMemcpyHtoD(a + 1, out, 100));
	EXPECT_EQ(INVALID, cuMemcpyHtoD(a + 100, out, 1));
	EXPECT_EQ(INVALID, cuMemcpyDtoH(out, a, 101));
	EXPECT_EQ(INVALID, cuMemcpyDtoH(out, a + 99, 2));
	EXPECT_EQ(INVALID, cuMemcpyDtoD(a, b, 101));
	EXPECT_EQ(INVALID, cuMemcpyDtoD(a, b + 1, 100));
	EXPECT_EQ(INVALID, cuMemcpyDtoD(a + 1, b, 100));
	EXPECT_EQ(INVALID, cuMemcpy(a, (uintptr_t)out, 101));
	EXPECT_EQ(INVALID, cuMemcpy((uintptr_t)out, a, 101));
	EXPECT_EQ(INVALID, cuMemcpyHtoDAsync(a, out, 101, stream));
	EXPECT_EQ(INVALID, cuMemcpyDtoHAsync(out, a, 101, stream));
	EXPECT_EQ(INVALID, cuMemcpyDtoDAsync(a, b, 101, stream));
	EXPECT_EQ(INVALID, cuMemcpyAsync(a, b, 101, stream));
	EXPECT_EQ(INVALID, cuMemcpyDtoD(b - 1, a, 1));
	EXPECT_EQ(INVALID, cuMemcpyDtoD(a, b, 600));
	EXPECT_EQ(INVALID, cuMemcpyDtoD(a, b, SIZE_MAX));
	EXPECT_EQ(INVALID, cuMemcpyHtoD(a, out, SIZE_MAX));
	EXPECT_EQ(INVALID, cuMemcpyDtoD(self->p, self->q, BYTES + 1));
	EXPECT_EQ(INVALID, cuMemsetD8(a, 1, 101));
	EXPECT_EQ(INVALID, cuMemsetD8(a + 100, 1, 1));
	EXPECT_EQ(INVALID, cuMemsetD32(a, 1, 26));
	EXPECT_EQ(INVALID, cuMemsetD32(a + 4, 1, 25));
	EXPECT_EQ(INVALID, cuMemsetD8Async(a, 1, 101, stream));
	EXPECT_EQ(INVALID, cuMemsetD32Async(a, 1, 26, stream));
	/* Misaligned. */
	EXPECT_EQ(INVALID, cuMemsetD32(a + 1, 1, 1));
	EXPECT_EQ(INVALID, cuMemsetD32(a + 2, 1, 1));
	EXPECT_EQ(INVALID, cuMemsetD32Async(a + 3, 1, 1, stream));
	/* No memory, memory that is not the device's, freed memory. */
	EXPECT_EQ(INVALID, cuMemcpyHtoD(none, out, 1));
	EXPECT_EQ(INVALID, cuMemcpyHtoD(a, NULL, 1));
	EXPECT_EQ(INVALID, cuMemcpyDtoH(NULL, a, 1));
	EXPECT_EQ(INVALID, cuMemcpyDtoH(out, none, 1));
	EXPECT_EQ(INVALID, cuMemcpyDtoD(none, a, 1));
	EXPECT_EQ(INVALID, cuMemcpyDtoD(a, none, 1));
	EXPECT_EQ(INVALID, cuMemcpy(none, a, 1));
	EXPECT_EQ(INVALID, cuMemcpyAsync(none, a, 1, stream));
	EXPECT_EQ(INVALID, cuMemcpyHtoD((uintptr_t)out, out + 50, 1));
	EXPECT_EQ(INVALID, cuMemcpyDtoH(out, (uintptr_t)out + 50, 1));
	EXPECT_EQ(INVALID, cuMemcpyDtoD((uintptr_t)out, a, 1));
	EXPECT_EQ(INVALID, cuMemcpyDtoD(a, (uintptr_t)out, 1));
	EXPECT_EQ(INVALID, cuMemcpyHtoD(free_, out, 1));
	EXPECT_EQ(INVALID, cuMemcpyDtoH(out, free_, 1));
	EXPECT_EQ(INVALID, cuMemcpy(free_, (uintptr_t)out, 1));
	EXPECT_EQ(INVALID, cuMemsetD8(free_, 1, 1));
	EXPECT_EQ(INVALID, cuMemsetD8((uintptr_t)out, 1, 1));
	EXPECT_EQ(INVALID, cuMemsetD8(none, 1, 1));
	EXPECT_EQ(INVALID, cuMemsetD32(none, 1, 1));
	/* A range must not span two allocations. */
	EXPECT_EQ(INVALID, cuMemcpyDtoD(self->p, a, 612));
	/* Handles. */
	EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuMemsetD8Async(a, 1, 1, (CUstream)3));
	EXPECT_CU(cuStreamDestroy(stream));
	EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuMemcpyDtoDAsync(a, b, 1, stream));
	EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuMemsetD8Async(a, 1, 1, stream));
	/* The refused calls queued nothing, wrote nothing, and left no sticky error. */
	EXPECT_TRUE(did(&m, 0, 0, 0));
	EXPECT_TRUE(sees(a, 0, 100));
	EXPECT_TRUE(sees(b, 0, 100));
	EXPECT_TRUE(all_are(out, 0, sizeof(out)));
	/* Device memory serves where host memory is expected. */
	poke(b, 9, 100);
	EXPECT_CU(cuMemcpyHtoD(a, cpu(b), 50));
	EXPECT_CU(cuMemcpyDtoH(cpu(a) + 50, b, 50));
	EXPECT_TRUE(sees(a, 9, 100));
}

TEST_F(copy, without_context)
{
	unsigned char out[16] = { 0 };
	CUDA_MEMCPY2D c = { 0 };
	CUstream stream;

	ASSERT_CU(cuStreamCreate(&stream, 0));
	ASSERT_CU(cuCtxSetCurrent(NULL));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyHtoD(self->p, out, 1));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyHtoD(self->p, out, 0));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyDtoH(out, self->p, 1));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyDtoD(self->p, self->q, 1));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemcpy(self->p, self->q, 1));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyAsync(self->p, self->q, 1, NULL));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT,
		  cuMemcpyDtoDAsync(self->p, self->q, 1, CU_STREAM_PER_THREAD));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyHtoD_v2_ptds(self->p, out, 1));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemcpy2D(&c));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemcpy2DUnaligned(&c));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemcpy2DAsync(&c, CU_STREAM_LEGACY));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemsetD8(self->p, 1, 1));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemsetD32(self->p, 1, 0));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemsetD8Async(self->p, 1, 1, NULL));
	/* A stream has its own context. */
	memset(out, 5, sizeof(out));
	EXPECT_CU(cuMemcpyHtoDAsync(self->p, out, 16, stream));
	EXPECT_CU(cuMemcpyDtoDAsync(self->q, self->p, 16, stream));
	EXPECT_CU(cuMemsetD8Async(self->p, 6, 8, stream));
	EXPECT_CU(cuStreamSynchronize(stream));
	EXPECT_TRUE(sees(self->q, 5, 16));
	EXPECT_TRUE(sees(self->p, 6, 8));
	EXPECT_TRUE(sees(self->p + 8, 5, 8));
}

TEST_F(copy, errors_2d)
{
	CUDA_MEMCPY2D good = {
		.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = self->host, .srcPitch = 128,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstPitch = 512,
		.WidthInBytes = 100, .Height = 16,
	}, c;
	CUdeviceptr a;
	struct meter m;

#define TRY(want, ...) do { \
		c = good; \
		__VA_ARGS__; \
		EXPECT_EQ(want, cuMemcpy2D(&c)); \
		EXPECT_EQ(want, cuMemcpy2DUnaligned(&c)); \
		EXPECT_EQ(want, cuMemcpy2DAsync(&c, CU_STREAM_PER_THREAD)); \
	} while (0)

	ASSERT_CU(cuMemAlloc(&a, 8192));
	good.dstDevice = a;
	EXPECT_EQ(INVALID, cuMemcpy2D(NULL));
	EXPECT_EQ(INVALID, cuMemcpy2DUnaligned(NULL));
	EXPECT_EQ(INVALID, cuMemcpy2DAsync(NULL, NULL));
	ASSERT_EQ(0, meter_read(&m));
	TRY(INVALID, c.srcPitch = 99);
	TRY(INVALID, c.dstPitch = 99);
	TRY(INVALID, c.srcXInBytes = 29);
	TRY(INVALID, c.dstXInBytes = 413);
	TRY(INVALID, c.srcHost = NULL);
	TRY(INVALID, c.dstDevice = 0);
	TRY(INVALID, c.srcMemoryType = 0);
	TRY(INVALID, c.dstMemoryType = 0);
	TRY(INVALID, c.srcMemoryType = 5);
	TRY(INVALID, c.dstMemoryType = 99);
	TRY(INVALID, c.dstMemoryType = CU_MEMORYTYPE_ARRAY);
	TRY(INVALID, c.dstPitch = 0x80000000ULL; c.Height = 1);
	TRY(INVALID, c.Height = 17);
	TRY(INVALID, c.dstY = 1);
	TRY(INVALID, c.dstY = 15; c.Height = 2);
	TRY(INVALID, c.WidthInBytes = 512; c.srcPitch = 512; c.dstXInBytes = 1; c.dstPitch = 513);
	TRY(INVALID, c.WidthInBytes = SIZE_MAX);
	TRY(INVALID, c.Height = SIZE_MAX);
	TRY(INVALID, c.dstY = SIZE_MAX);
	TRY(INVALID, c.dstXInBytes = SIZE_MAX);
	TRY(INVALID, c.dstDevice = (uintptr_t)self->host);
	TRY(INVALID, c.srcMemoryType = CU_MEMORYTYPE_DEVICE; c.srcDevice = (uintptr_t)self->host);
	/* A size of zero succeeds before other arguments are checked. */
	TRY(CUDA_SUCCESS, c.WidthInBytes = 0);
	TRY(CUDA_SUCCESS, c.Height = 0; c.dstDevice = 0; c.srcHost = NULL; c.dstMemoryType = 77);
	EXPECT_TRUE(did(&m, 0, 0, 0));
	EXPECT_TRUE(sees(a, 0, 8192));
	/* The last row may end before its pitch does, a pitch of 0 is the width. */
	TRY(CUDA_SUCCESS, c.dstXInBytes = 412);
	TRY(CUDA_SUCCESS, c.dstPitch = 0);
	TRY(CUDA_SUCCESS, c.srcPitch = 0; c.srcY = 1);
	TRY(CUDA_SUCCESS, c.dstPitch = 0x7fffffff; c.Height = 1);
	TRY(CUDA_SUCCESS, c.srcPitch = 0x80000000ULL; c.Height = 1);
	TRY(CUDA_SUCCESS, c.srcMemoryType = CU_MEMORYTYPE_UNIFIED;
	    c.srcDevice = (uintptr_t)self->host);
#undef TRY
	EXPECT_CU(cuCtxSynchronize());
	for (int i = 0; i < 16; i++) {
		EXPECT_EQ(0, memcmp(view(a + i * 512, 100), self->host + i * 128, 100));
	}
}

/* The number of bytes is computed modulo 2^64. */
TEST_F(copy, fill_wraps)
{
	const unsigned int want = 0x12345678;

	EXPECT_CU(cuMemsetD32(self->p, want, (1ULL << 62) + 1));
	EXPECT_CU(cuCtxSynchronize());
	EXPECT_EQ(0, memcmp(view(self->p, 4), &want, 4));
	EXPECT_TRUE(sees(self->p + 4, 0, BYTES - 4));
	EXPECT_EQ(INVALID, cuMemsetD8(self->p, 1, SIZE_MAX));
}

/* --- when things happen */

/* A pageable source is read before the call returns, also behind a busy stream. */
TEST_F(copy, source_is_read_at_once)
{
	const size_t sizes[] = { 1, 4096, INLINE + 1, 3 * MIB };
	unsigned char *source = malloc(3 * MIB), *out = malloc(3 * MIB);
	CUstream stream;
	struct load load;

	ASSERT_CU(load_make(&load));
	ASSERT_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
		memset(source, 0x40 + i, sizes[i]);
		ASSERT_EQ(CUDA_ERROR_NOT_READY, load_put_busy(&load, stream));
		EXPECT_CU(cuMemcpyHtoDAsync(self->p + i, source, sizes[i], stream));
		memset(source, 0xff, sizes[i]);
		EXPECT_CU(cuStreamSynchronize(stream));
		EXPECT_TRUE(sees(self->p + i, 0x40 + i, sizes[i]));
		/* A copy to pageable memory is complete when the call returns. */
		memset(out, 0, sizes[i]);
		ASSERT_EQ(CUDA_ERROR_NOT_READY, load_put_busy(&load, stream));
		EXPECT_CU(cuMemsetD8Async(self->q, 0x80 + i, sizes[i], stream));
		EXPECT_CU(cuMemcpyDtoHAsync(out, self->q, sizes[i], stream));
		EXPECT_TRUE(all_are(out, 0x80 + i, sizes[i]));
		EXPECT_TRUE(load_done(&load));
	}
	free(source);
	free(out);
}

/* More small copies than there are staging buffers may wait in a stream, with their own bytes. */
TEST_F(copy, many_small_ones_wait)
{
	unsigned char source[64], *word;
	CUdeviceptr dword;
	CUstream stream;

	ASSERT_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuMemHostAlloc((void **)&word, 64, 0));
	ASSERT_CU(cuMemHostGetDevicePointer(&dword, word, 0));
	*(volatile __u32 *)word = 0;
	ASSERT_CU(cuStreamWaitValue32(stream, dword, 1, CU_STREAM_WAIT_VALUE_EQ));
	for (unsigned int i = 0; i < 200; i++) {
		memset(source, 1 + i, 1 + i % 64);
		ASSERT_CU(cuMemcpyHtoDAsync(self->p + 100 * i, source, 1 + i % 64, stream));
		memset(source, 0xff, sizeof(source));
	}
	EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
	EXPECT_TRUE(sees(self->p, 0, 200 * 100));
	__atomic_store_n((__u32 *)word, 1, __ATOMIC_RELEASE);
	ASSERT_CU(cuStreamSynchronize(stream));
	for (unsigned int i = 0; i < 200; i++) {
		EXPECT_TRUE(sees(self->p + 100 * i, 1 + i, 1 + i % 64));
		EXPECT_TRUE(sees(self->p + 100 * i + 1 + i % 64, 0, 100 - 1 - i % 64));
	}
	/* Afterwards large copies can use the buffers again. */
	ASSERT_CU(cuMemcpyHtoDAsync(self->q, self->host, BYTES, stream));
	ASSERT_CU(cuStreamSynchronize(stream));
	EXPECT_EQ(0, memcmp(view(self->q, BYTES), self->host, BYTES));
	EXPECT_CU(cuMemFreeHost(word));
	EXPECT_CU(cuStreamDestroy(stream));
}

/* Asking for P2P tokens sets SYNC_MEMOPS on the memory: calls that fill it then wait. */
TEST_F(copy, sync_memops)
{
	unsigned char tokens[16];
	struct load load;
	CUstream stream;

	ASSERT_CU(load_make(&load));
	ASSERT_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuPointerGetAttribute(tokens, CU_POINTER_ATTRIBUTE_P2P_TOKENS, self->p));
	ASSERT_EQ(CUDA_ERROR_NOT_READY, load_put_busy(&load, stream));
	EXPECT_CU(cuMemsetD8Async(self->p, 3, 100, stream));
	EXPECT_TRUE(load_done(&load));
	EXPECT_TRUE(sees(self->p, 3, 100));
	EXPECT_CU(cuStreamQuery(stream));
}

int main(int argc, char **argv)
{
	return test_harness_run(argc, argv);
}
