// SPDX-License-Identifier: GPL-2.0
/*
 * Pageable memory as device memory: the module parameter "pageable" lets the engine of the first
 * device access any memory of the process.  Copies, fills and words there, hints, and a random model.
 * t_cuda_pageable_gone has memory that changes under queued work.
 */
#include <cuda_runtime_api.h>

#include "pageable_fixture.h"

/* --- what the devices say */

TEST_F(pageable, attributes)
{
	struct cudaDeviceProp prop;
	int value = -1;

	EXPECT_CU(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 0));
	EXPECT_EQ(1, value);
	EXPECT_CU(cuDeviceGetAttribute(&value,
				       CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 0));
	EXPECT_EQ(1, value);
	EXPECT_CU(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, 1));
	EXPECT_EQ(0, value);
	EXPECT_CU(cuDeviceGetAttribute(&value,
				       CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 1));
	EXPECT_EQ(0, value);
	ASSERT_EQ(cudaSuccess, cudaGetDeviceProperties(&prop, 0));
	EXPECT_EQ(1, prop.pageableMemoryAccess);
	EXPECT_EQ(1, prop.pageableMemoryAccessUsesHostPageTables);
	ASSERT_EQ(cudaSuccess, cudaGetDeviceProperties(&prop, 1));
	EXPECT_EQ(0, prop.pageableMemoryAccess);
	/* sysfs shows what new processes find. */
	EXPECT_EQ(0, dev_attr(0, "pageable"));
}

TEST_F(pageable, another_device_refuses)
{
	unsigned int *word = (void *)anon(PAGE_BYTES);
	CUdeviceptr p;
	CUcontext ctx;
	CUstream s;

	ASSERT_CU(cuDevicePrimaryCtxRetain(&ctx, 1));
	ASSERT_CU(cuCtxSetCurrent(ctx));
	ASSERT_CU(cuStreamCreate(&s, 0));
	ASSERT_CU(cuMemAlloc(&p, PAGE_BYTES));
	EXPECT_EQ(INVALID, cuMemsetD8(dp(word), 1, 4));
	EXPECT_EQ(INVALID, cuMemsetD2D8(dp(word), 8, 1, 4, 2));
	EXPECT_EQ(INVALID, cuMemcpyDtoD(dp(word), p, 4));
	EXPECT_EQ(INVALID, cuMemcpyDtoDAsync(p, dp(word), 4, s));
	EXPECT_EQ(INVALID, cuMemcpyHtoD(dp(word), word + 1, 4));
	EXPECT_EQ(INVALID, cuMemcpyDtoH(word, dp(word + 1), 4));
	EXPECT_EQ(INVALID, cuStreamWriteValue32(s, dp(word), 1, 0));
	EXPECT_EQ(INVALID, cuStreamWaitValue32(s, dp(word), 0, CU_STREAM_WAIT_VALUE_EQ));
	EXPECT_EQ(INVALID, cuStreamAttachMemAsync(s, dp(word), PAGE_BYTES, CU_MEM_ATTACH_GLOBAL));
	EXPECT_CU(cuCtxSynchronize());
	EXPECT_EQ(0, *word);
	/* The other device's stream works on it, whatever context is current. */
	ASSERT_CU(cuMemsetD32Async(dp(word), 5, 1, self->s));
	DONE();
	EXPECT_EQ(5, *word);
}

TEST_F(pageable, a_process_that_was_told_nothing)
{
	/* The parameter was off again before the stream was made, and work still runs. */
	unsigned char *p = anon(PAGE_BYTES);

	EXPECT_CU(cuMemsetD8(dp(p), 3, PAGE_BYTES));
	EXPECT_TRUE(all_are(p, 3, PAGE_BYTES));
}

/* --- copies and fills */

static void copies(struct __test_metadata *_metadata, FIXTURE_DATA(pageable) *self,
		   unsigned char *a, unsigned char *b, size_t n)
{
	pattern(a, n, 1);
	memset(b, 0, n);
	ASSERT_CU(cuMemcpyDtoD(self->dev, dp(a), n));
	ASSERT_CU(cuMemcpyDtoD(dp(b), self->dev, n));
	EXPECT_TRUE(pattern_is(b, n, 1));
	/* Between two pageable ranges, and with each end named as the host's. */
	memset(b, 0, n);
	ASSERT_CU(cuMemcpyDtoDAsync(dp(b), dp(a), n, self->s));
	DONE();
	EXPECT_TRUE(pattern_is(b, n, 1));
	pattern(a, n, 2);
	ASSERT_CU(cuMemcpyHtoD(dp(b), a, n));
	EXPECT_TRUE(pattern_is(b, n, 2));
	pattern(a, n, 3);
	ASSERT_CU(cuMemcpyDtoH(b, dp(a), n));
	EXPECT_TRUE(pattern_is(b, n, 3));
	pattern(a, n, 4);
	ASSERT_CU(cuMemcpyPeer(dp(b), self->ctx, dp(a), self->ctx, n));
	EXPECT_TRUE(pattern_is(b, n, 4));
	/* Behind other work, to the host: large copies are not staged. */
	ASSERT_CU(cuMemcpyHtoDAsync(self->dev, a, n, self->s));
	ASSERT_CU(cuMemsetD8Async(self->dev, 9, 1, self->s));
	ASSERT_CU(cuMemcpyDtoHAsync(b, self->dev, n, self->s));
	EXPECT_EQ(9, b[0]);
	EXPECT_TRUE(n < 2 || !memcmp(a + 1, b + 1, n - 1));
	ASSERT_CU(cuMemsetD8Async(dp(a), 7, n, self->s));
	DONE();
	EXPECT_TRUE(all_are(a, 7, n));
}

TEST_F(pageable, sizes)
{
	static const size_t sizes[] = { 1, 7, 4095, 4096, 4097, 65537, MIB - 1, MIB + 1, 3 * MIB + 5 };
	unsigned char *a = anon(4 * MIB), *b = anon(4 * MIB);

	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
		copies(_metadata, self, a + 3, b + 5, sizes[i]);
		/* The engine populates what the process never touched. */
		madvise(a, 4 * MIB, MADV_DONTNEED);
		madvise(b, 4 * MIB, MADV_DONTNEED);
		ASSERT_CU(cuMemsetD8(dp(a), 6, sizes[i]));
		ASSERT_CU(cuMemcpyDtoD(dp(b), dp(a), sizes[i]));
		EXPECT_TRUE(all_are(b, 6, sizes[i]));
		EXPECT_EQ(0, b[sizes[i]]);
	}
}

TEST_F(pageable, kinds_of_memory)
{
	unsigned char stack[2][9000], *map[2], *file;
	char text[64];
	FILE *f = tmpfile();
	int fd;

	copies(_metadata, self, stack[0], stack[1], sizeof(stack[0]));
	/* Shared anonymous memory, huge pages perhaps. */
	for (unsigned int i = 0; i < 2; i++) {
		map[i] = mmap(NULL, 8 * MIB, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		ASSERT_NE(MAP_FAILED, map[i]);
	}
	copies(_metadata, self, map[0], map[1], 3 * MIB);
	/* A shared mapping of a file: the engine's writes reach the file. */
	ASSERT_NE(NULL, f);
	fd = fileno(f);
	ASSERT_EQ(0, ftruncate(fd, 2 * MIB));
	file = mmap(NULL, 2 * MIB, RW, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, file);
	copies(_metadata, self, file, file + MIB, MIB);
	ASSERT_CU(cuMemsetD8(dp(file + 100), 'x', 63));
	text[63] = 0;
	ASSERT_EQ(63, pread(fd, text, 63, 100));
	EXPECT_TRUE(all_are(text, 'x', 63));
	/* A private one: they do not. */
	file = mmap(NULL, 2 * MIB, RW, MAP_PRIVATE, fd, 0);
	ASSERT_NE(MAP_FAILED, file);
	ASSERT_CU(cuMemsetD8(dp(file + 100), 'y', 63));
	EXPECT_TRUE(all_are(file + 100, 'y', 63));
	ASSERT_EQ(63, pread(fd, text, 63, 100));
	EXPECT_TRUE(all_are(text, 'x', 63));
	fclose(f);
}

/* The other end is memory that CUDA knows. */
TEST_F(pageable, and_other_memory)
{
	unsigned char *a = anon(4 * MIB), *b = anon(4 * MIB), *area = anon(8 * MIB), *reg;
	CUdeviceptr p[3];

	/* Registered memory whose runs span folios. */
	reg = (void *)(((uintptr_t)area + 2 * MIB - 1) & -(uintptr_t)(2 * MIB));
	madvise(reg, 4 * MIB, MADV_HUGEPAGE);
	ASSERT_CU(cuMemHostRegister(reg, 4 * MIB, 0));
	p[0] = dp(reg);
	ASSERT_CU(cuMemAllocHost((void **)&p[1], 4 * MIB));
	ASSERT_CU(cuMemAllocManaged(&p[2], 4 * MIB, CU_MEM_ATTACH_GLOBAL));
	for (unsigned int i = 0; i < 3; i++) {
		pattern(a, 4 * MIB, i);
		ASSERT_CU(cuMemcpyDtoDAsync(p[i], dp(a), 4 * MIB, self->s));
		ASSERT_CU(cuMemcpyDtoDAsync(dp(b + 1), p[i] + 3, 4 * MIB - 3, self->s));
		DONE();
		EXPECT_TRUE(pattern_is(cpu(p[i]), 4 * MIB, i));
		EXPECT_EQ(0, memcmp(b + 1, a + 3, 4 * MIB - 3));
	}
	ASSERT_CU(cuMemHostUnregister(reg));
}

TEST_F(pageable, fills)
{
	unsigned char *p = anon(2 * MIB);
	uint16_t *h = (void *)(p + 2);
	uint32_t *w = (void *)(p + 4);

	ASSERT_CU(cuMemsetD16(dp(h), 0x1234, 100001));
	EXPECT_EQ(0x1234, h[0]);
	EXPECT_EQ(0x1234, h[100000]);
	EXPECT_EQ(0, h[100001]);
	ASSERT_CU(cuMemsetD32Async(dp(w), 0x12345678, 300001, self->s));
	DONE();
	for (unsigned int i = 0; i < 300001; i += 997)
		EXPECT_EQ(0x12345678, w[i]);
	EXPECT_EQ(0, w[300001]);
	memset(p, 0, 2 * MIB);
	ASSERT_CU(cuMemsetD2D8(dp(p), 1000, 5, 10, 300));
	for (unsigned int row = 0; row < 300; row++) {
		EXPECT_TRUE(all_are(p + 1000 * row, 5, 10));
		EXPECT_TRUE(all_are(p + 1000 * row + 10, 0, 990));
	}
	ASSERT_CU(cuMemsetD2D32(dp(p), 4096, 7, 3, 2));
	EXPECT_EQ(7, *(uint32_t *)(p + 4096 + 8));
	EXPECT_EQ(0, *(uint32_t *)(p + 4096 + 12));
	/* Alignment is checked as for other memory. */
	EXPECT_EQ(INVALID, cuMemsetD16(dp(p + 1), 1, 1));
	EXPECT_EQ(INVALID, cuMemsetD32(dp(p + 2), 1, 1));
	EXPECT_EQ(INVALID, cuMemsetD8(0, 1, 1));
}

TEST_F(pageable, boxes_and_arrays)
{
	unsigned char *a = anon(MIB), *b = anon(MIB), *c = anon(MIB);
	CUDA_ARRAY_DESCRIPTOR desc = {
		.Width = 64, .Height = 32, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1,
	};
	CUDA_MEMCPY2D box = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = dp(a), .srcPitch = 500,
		.srcXInBytes = 3, .srcY = 2,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = dp(b), .dstPitch = 700,
		.WidthInBytes = 400, .Height = 90,
	};
	CUDA_MEMCPY3D cube = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = dp(a), .srcPitch = 100, .srcHeight = 50,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = self->dev, .dstPitch = 128, .dstHeight = 60,
		.WidthInBytes = 90, .Height = 40, .Depth = 20,
	};
	CUarray array;

	pattern(a, MIB, 5);
	ASSERT_CU(cuMemcpy2D(&box));
	for (unsigned int y = 0; y < 90; y++) {
		EXPECT_EQ(0, memcmp(b + 700 * y, a + 500 * (y + 2) + 3, 400));
		EXPECT_TRUE(all_are(b + 700 * y + 400, 0, 300));
	}
	ASSERT_CU(cuMemcpy3DAsync(&cube, self->s));
	DONE();
	for (unsigned int z = 0; z < 20; z++)
		for (unsigned int y = 0; y < 40; y++) {
			unsigned char row[90];

			ASSERT_CU(cuMemcpyDtoH(row, self->dev + 128 * (60 * z + y), 90));
			EXPECT_EQ(0, memcmp(row, a + 100 * (50 * z + y), 90));
		}
	ASSERT_CU(cuArrayCreate(&array, &desc));
	ASSERT_CU(cuMemcpyDtoA(array, 0, dp(a + 7), 64));
	ASSERT_CU(cuMemcpyAtoD(dp(c), array, 0, 64));
	EXPECT_EQ(0, memcmp(a + 7, c, 64));
}

/* Overlapping ranges are copied as by memmove(). */
TEST_F(pageable, overlaps)
{
	unsigned char *p = anon(4 * MIB), *want = anon(4 * MIB);

	for (unsigned int up = 0; up < 2; up++) {
		pattern(p, 4 * MIB, 8);
		memcpy(want, p, 4 * MIB);
		memmove(want + up * 999, want + !up * 999, 3 * MIB);
		ASSERT_CU(cuMemcpyDtoDAsync(dp(p + up * 999), dp(p + !up * 999), 3 * MIB, self->s));
		DONE();
		EXPECT_EQ(0, memcmp(p, want, 4 * MIB));
	}
}

/* --- when a source is read */

TEST_F(pageable, value_at_the_call)
{
	unsigned char *src = anon(3 * MIB);

	memset(src, 1, 3 * MIB);
	CLOSE_GATE();
	ASSERT_CU(cuMemcpyHtoDAsync(self->dev, src, 2 * MIB, self->s));
	memset(src, 2, 2 * MIB);
	OPEN_GATE();
	DONE();
	EXPECT_TRUE(sees(self->dev, 1, 2 * MIB));
	CLOSE_GATE();
	ASSERT_CU(copy_ordered(self->dev, src, 2 * MIB, CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL,
			       self->s));
	memset(src, 3, 2 * MIB);
	OPEN_GATE();
	DONE();
	EXPECT_TRUE(sees(self->dev, 2, 2 * MIB));
}

/* Where the order allows it, the engine reads a large source when the stream gets there. */
TEST_F(pageable, value_in_stream_order)
{
	static const CUmemcpySrcAccessOrder orders[] = {
		CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, CU_MEMCPY_SRC_ACCESS_ORDER_ANY,
	};
	unsigned char *src = anon(2 * MIB);

	for (unsigned int i = 0; i < 2; i++) {
		struct meter before, after;

		memset(src, 1, 2 * MIB);
		CLOSE_GATE();
		ASSERT_EQ(0, meter_read(&before));
		ASSERT_CU(copy_ordered(self->dev, src, 2 * MIB, orders[i], self->s));
		memset(src, 4 + i, 2 * MIB);
		OPEN_GATE();
		DONE();
		ASSERT_EQ(0, meter_read(&after));
		EXPECT_TRUE(sees(self->dev, 4 + i, 2 * MIB));
		/* One copy by the engine, none through staging memory. */
		EXPECT_EQ(2 * MIB, after.copied - before.copied);
	}
}

/* --- words */

TEST_F(pageable, words)
{
	uint32_t *word = (void *)anon(PAGE_BYTES);
	uint64_t *wide = (void *)(word + 4);
	CUstreamBatchMemOpParams ops[2] = { };

	ASSERT_CU(cuStreamWriteValue32(self->s, dp(word), 11, 0));
	ASSERT_CU(cuStreamWaitValue32(self->s, dp(word), 11, CU_STREAM_WAIT_VALUE_EQ));
	ASSERT_CU(cuStreamWriteValue64(self->s, dp(wide), 1ull << 40, 0));
	ASSERT_CU(cuStreamWaitValue64(self->s, dp(wide), 1ull << 40, CU_STREAM_WAIT_VALUE_AND));
	DONE();
	EXPECT_EQ(11, *word);
	EXPECT_EQ(1ull << 40, *wide);
	/* The CPU lets the stream go on. */
	ASSERT_CU(cuStreamWaitValue32(self->s, dp(word), 20, CU_STREAM_WAIT_VALUE_GEQ));
	ASSERT_CU(cuStreamWriteValue32(self->s, dp(word + 1), 1, 0));
	usleep(20000);
	EXPECT_EQ(0, __atomic_load_n(word + 1, __ATOMIC_ACQUIRE));
	EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(self->s));
	__atomic_store_n(word, 21, __ATOMIC_RELEASE);
	DONE();
	EXPECT_EQ(1, word[1]);
	ops[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
	ops[0].waitValue.address = dp(word);
	ops[0].waitValue.value = 21;
	ops[0].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
	ops[1].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
	ops[1].writeValue.address = dp(wide);
	ops[1].writeValue.value64 = ~5ull;
	ASSERT_CU(cuStreamBatchMemOp(self->s, 2, ops, 0));
	DONE();
	EXPECT_EQ(~5ull, *wide);
	EXPECT_EQ(INVALID, cuStreamWriteValue32(self->s, dp(word) + 2, 1, 0));
	EXPECT_EQ(INVALID, cuStreamWaitValue64(self->s, dp(wide) + 4, 1, 0));
}

/* --- hints */

static int range_number(CUmem_range_attribute attribute, const void *p, size_t n)
{
	int value = -100;

	return cuMemRangeGetAttribute(&value, sizeof(value), attribute, dp(p), n) ? -99 : value;
}

TEST_F(pageable, hints)
{
	CUmemLocation here = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 };
	CUmemLocation there = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1 };
	CUmemLocation host = { .type = CU_MEM_LOCATION_TYPE_HOST };
	unsigned char *p = anon(4 * MIB);

	pattern(p, 4 * MIB, 6);
	EXPECT_EQ(-2, range_number(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p, MIB));
	EXPECT_CU(cuMemAdvise_v2(dp(p), MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, here));
	EXPECT_EQ(0, range_number(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p, MIB));
	EXPECT_EQ(-2, range_number(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p, MIB + 1));
	EXPECT_CU(cuMemAdvise_v2(dp(p), MIB, CU_MEM_ADVISE_SET_READ_MOSTLY, host));
	EXPECT_EQ(1, range_number(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, MIB));
	EXPECT_CU(cuMemAdvise_v2(dp(p), MIB, CU_MEM_ADVISE_SET_ACCESSED_BY, here));
	EXPECT_EQ(0, range_number(CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, p, MIB));
	EXPECT_CU(cuMemPrefetchAsync_v2(dp(p), 2 * MIB, here, 0, self->s));
	EXPECT_EQ(0, range_number(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p, 2 * MIB));
	EXPECT_CU(cuMemPrefetchAsync_v2(dp(p), 2 * MIB, host, 0, self->s));
	EXPECT_EQ(-1, range_number(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p, 2 * MIB));
	DONE();
	EXPECT_TRUE(pattern_is(p, 4 * MIB, 6));
	/* A device that does not reach the memory is no location. */
	EXPECT_EQ(INVALID, cuMemAdvise_v2(dp(p), MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, there));
	EXPECT_EQ(INVALID, cuMemAdvise_v2(dp(p), MIB, CU_MEM_ADVISE_SET_ACCESSED_BY, there));
	EXPECT_EQ(INVALID, cuMemPrefetchAsync_v2(dp(p), MIB, there, 0, self->s));
	/* All of the range must be mapped. */
	munmap(p + 3 * MIB, MIB);
	EXPECT_EQ(INVALID, cuMemAdvise_v2(dp(p), 4 * MIB, CU_MEM_ADVISE_SET_READ_MOSTLY, host));
	EXPECT_EQ(INVALID, cuMemPrefetchAsync_v2(dp(p), 4 * MIB, here, 0, self->s));
	EXPECT_EQ(-99, range_number(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, 4 * MIB));
	/* Attachments need a length. */
	EXPECT_CU(cuStreamAttachMemAsync(self->s, dp(p), MIB, CU_MEM_ATTACH_SINGLE));
	EXPECT_CU(cuStreamAttachMemAsync(self->s, dp(p + 1), 10, CU_MEM_ATTACH_GLOBAL));
	EXPECT_EQ(INVALID, cuStreamAttachMemAsync(self->s, dp(p), 0, CU_MEM_ATTACH_GLOBAL));
	EXPECT_EQ(INVALID, cuStreamAttachMemAsync(self->s, dp(p), 4 * MIB, CU_MEM_ATTACH_GLOBAL));
	EXPECT_EQ(INVALID, cuStreamAttachMemAsync(self->s, dp(p), MIB, 3));
}

/* With page tables of five levels, a process has memory above 2^47 if it asks for it. */
TEST_F(pageable, hints_above_47_bits)
{
	CUmemLocation here = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 };
	CUmemLocation host = { .type = CU_MEM_LOCATION_TYPE_HOST };
	unsigned char *p = mmap((void *)(1ul << 50), MIB, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char *low = anon(MIB);

	ASSERT_NE(MAP_FAILED, p);
	if (!(dp(p) >> 47))
		SKIP(return, "the processor's page tables have four levels");
	EXPECT_CU(cuMemAdvise_v2(dp(low), MIB, CU_MEM_ADVISE_SET_READ_MOSTLY, host));
	for (unsigned int i = 0; i < 40; i++)
		EXPECT_CU(cuMemAdvise_v2(dp(p) + 8192 * i, PAGE_BYTES,
					 CU_MEM_ADVISE_SET_PREFERRED_LOCATION, here));
	EXPECT_EQ(0, range_number(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p + 8192 * 39, PAGE_BYTES));
	EXPECT_EQ(-2, range_number(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p + PAGE_BYTES, PAGE_BYTES));
	EXPECT_CU(cuMemPrefetchAsync_v2(dp(p), MIB, host, 0, self->s));
	EXPECT_EQ(-1, range_number(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p, MIB));
	DONE();
	EXPECT_EQ(1, range_number(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, low, MIB));
	EXPECT_EQ(0, range_number(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, MIB));
}

/*
 * Registers of a device are no pageable memory: the CPU reads them, in stream order.  Here they are
 * the pages that the kernel maps into every process.
 */
TEST_F(pageable, registers)
{
	unsigned long start = 0, end = 0;
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];

	ASSERT_NE(NULL, f);
	while (fgets(line, sizeof(line), f))
		if (strstr(line, "[vvar]"))
			ASSERT_EQ(2, sscanf(line, "%lx-%lx", &start, &end));
	fclose(f);
	ASSERT_NE(0, start);
	ASSERT_CU(cuMemHostRegister((void *)start, 64, CU_MEMHOSTREGISTER_IOMEMORY));
	ASSERT_CU(cuMemsetD8Async(self->dev, 1, 128, self->s));
	CLOSE_GATE();
	ASSERT_CU(copy_ordered(self->dev, (void *)start, 64, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, self->s));
	OPEN_GATE();
	DONE();
	EXPECT_TRUE(all_are(view(self->dev + 64, 64), 1, 64));
	EXPECT_CU(cuMemcpyHtoD(self->dev, (void *)start, 64));
	EXPECT_CU(cuMemHostUnregister((void *)start));
}

/* Pageable memory is still no memory of CUDA's. */
TEST_F(pageable, pointers)
{
	unsigned char *p = anon(PAGE_BYTES);
	struct cudaPointerAttributes attributes;
	unsigned int type;

	EXPECT_EQ(INVALID, cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, dp(p)));
	ASSERT_EQ(cudaSuccess, cudaPointerGetAttributes(&attributes, p));
	EXPECT_EQ(cudaMemoryTypeUnregistered, attributes.type);
	EXPECT_EQ(INVALID, cuMemFree(dp(p)));
	EXPECT_EQ(-1, export_fd(dp(p), PAGE_BYTES));
}

/* --- a model */

#define AREA		(2 * MIB)
#define AREAS		4		/* two in pageable memory, two of the device */

struct model {
	CUdeviceptr at[AREAS];
	unsigned char *want[AREAS];
};

static CUresult model_step(struct model *m, struct rng *r, CUstream s)
{
	unsigned int to = rng_below(r, AREAS), from = rng_below(r, AREAS);
	size_t n = rng_below(r, 3) ? 1 + rng_below(r, 5000) : 1 + rng_below(r, AREA / 2);
	size_t d = rng_below(r, AREA - n + 1), o = rng_below(r, AREA - n + 1);
	unsigned char value = rng_next(r);
	CUDA_MEMCPY2D box = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcPitch = 4096 + rng_below(r, 4096), .dstPitch = 4096 + rng_below(r, 4096),
		.WidthInBytes = 1 + rng_below(r, 4096), .Height = 1 + rng_below(r, 100),
	};

	switch (rng_below(r, 4)) {
	case 0:
		memset(m->want[to] + d, value, n);
		return cuMemsetD8Async(m->at[to] + d, value, n, s);
	case 1:
		d &= -4ul;
		n = n / 4 * 4;
		for (size_t i = 0; i < n; i += 4)
			memcpy(m->want[to] + d + i, (uint32_t[]){ value * 0x10307 }, 4);
		return cuMemsetD32Async(m->at[to] + d, value * 0x10307, n / 4, s);
	case 2:
		if (to == from)
			from = (to + 1) % AREAS;
		box.srcDevice = m->at[from] + rng_below(r, 4096);
		box.dstDevice = m->at[to] + rng_below(r, 4096);
		for (size_t y = 0; y < box.Height; y++)
			memcpy(m->want[to] + (box.dstDevice - m->at[to]) + y * box.dstPitch,
			       m->want[from] + (box.srcDevice - m->at[from]) + y * box.srcPitch,
			       box.WidthInBytes);
		return cuMemcpy2DAsync(&box, s);
	default:
		memmove(m->want[to] + d, m->want[from] + o, n);
		return cuMemcpyDtoDAsync(m->at[to] + d, m->at[from] + o, n, s);
	}
}

/* The area that differs from the model, or -1. */
static int model_differs(const struct model *m)
{
	for (unsigned int i = 0; i < AREAS; i++)
		if (memcmp(m->want[i], view(m->at[i], AREA), AREA))
			return i;
	return -1;
}

TEST_F_TIMEOUT(pageable, against_a_model, 1000)
{
	__u64 steps = env_number("GPUMEM_STEPS", 400), i;
	struct model m;
	struct rng r;

	rng_start(&r, "pageable memory");
	for (i = 0; i < AREAS; i++) {
		m.want[i] = anon(AREA);
		m.at[i] = dp(anon(AREA));
		if (i >= 2)
			ASSERT_CU(cuMemAlloc(&m.at[i], AREA));
		ASSERT_CU(cuMemsetD8Async(m.at[i], 0, AREA, self->s));
	}
	for (i = 1; i <= steps; i++) {
		ASSERT_CU(model_step(&m, &r, self->s)) TH_LOG("step %llu", (unsigned long long)i);
		if (i != steps && rng_below(&r, 40))
			continue;
		DONE();
		ASSERT_EQ(-1, model_differs(&m)) TH_LOG("after step %llu", (unsigned long long)i);
	}
}

TEST_HARNESS_MAIN
