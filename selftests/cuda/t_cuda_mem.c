// SPDX-License-Identifier: GPL-2.0
/*
 * Device memory by the CUDA API: which arguments give which error, how allocations are cut out of
 * memory and what they cost, and that no owner sees the bytes of an earlier one.  t_cuda_withheld.c
 * is about freed memory that other processes still reach.
 *
 * The expected results and costs are those recorded on a real device.
 */
#include "kselftest_harness.h"
#include "cuda_util.h"

FIXTURE(mem)
{
	CUcontext ctx;
	size_t total;
};

FIXTURE_SETUP(mem)
{
	cuda_begin(_metadata, &self->ctx);
	ASSERT_CU(cuDeviceTotalMem(&self->total, 0));
}

QUIET_AFTERWARDS(mem)

/* --- allocation */

TEST_F(mem, alloc_errors)
{
	const size_t impossible[] = {
		64ULL << 40, SIZE_MAX, SIZE_MAX - 2 * MIB, 1ULL << 63, self->total + 1024 * MIB,
		self->total + 1,
	};
	CUdeviceptr p = 1;

	EXPECT_EQ(INVALID, cuMemAlloc(&p, 0));
	EXPECT_EQ(0, p);
	EXPECT_EQ(INVALID, cuMemAlloc(NULL, 4096));
	EXPECT_EQ(INVALID, cuMemAlloc(NULL, 0));
	for (unsigned int i = 0; i < ARRAY_SIZE(impossible); i++) {
		p = 1;
		EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&p, impossible[i]));
		EXPECT_EQ(0, p);
	}
	EXPECT_EQ(0, used(0));
	EXPECT_CU(cuMemAlloc(&p, 4096));
	EXPECT_CU(cuMemFree(p));
	EXPECT_EQ(0, used(0));
	ASSERT_CU(cuCtxSetCurrent(NULL));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&p, 4096));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(NULL, 4096));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc(&p, 0));
	EXPECT_EQ(0, used(0));
}

TEST_F(mem, free_errors)
{
	unsigned char stack[64];
	unsigned char *host = malloc(4096);
	CUdeviceptr p, q;

	ASSERT_CU(cuMemAlloc(&p, 10000));
	poke(p, 0x5a, 10000);
	EXPECT_CU(cuMemFree(0));
	EXPECT_EQ(INVALID, cuMemFree(p + 1));
	EXPECT_EQ(INVALID, cuMemFree(p + 256));
	EXPECT_EQ(INVALID, cuMemFree(p + 512));
	EXPECT_EQ(INVALID, cuMemFree(p + 9999));
	EXPECT_EQ(INVALID, cuMemFree(p + 10000));
	EXPECT_EQ(INVALID, cuMemFree(p - 1));
	EXPECT_EQ(INVALID, cuMemFree(0x1234));
	EXPECT_EQ(INVALID, cuMemFree(0x7f0000000000ULL));
	EXPECT_EQ(INVALID, cuMemFree(0xdeadbeef00000000ULL));
	EXPECT_EQ(INVALID, cuMemFree(~0ULL));
	EXPECT_EQ(INVALID, cuMemFree((uintptr_t)host));
	EXPECT_EQ(INVALID, cuMemFree((uintptr_t)stack));
	EXPECT_TRUE(sees(p, 0x5a, 10000));
	ASSERT_CU(cuMemAlloc(&q, 3 * MIB));
	EXPECT_EQ(INVALID, cuMemFree(q + 2 * MIB));
	EXPECT_EQ(INVALID, cuMemFree(q + 3 * MIB));
	EXPECT_CU(cuMemFree(q));
	EXPECT_EQ(INVALID, cuMemFree(q));
	/* cuMemFree() needs no context, and cannot free memory twice. */
	ASSERT_CU(cuCtxSetCurrent(NULL));
	EXPECT_CU(cuMemFree(0));
	EXPECT_CU(cuMemFree(p));
	EXPECT_EQ(INVALID, cuMemFree(p));
	EXPECT_EQ(0, used(0));
	free(host);
}

/* Every size around the borders of units, pages and blocks: exact ranges, 512-aligned, zero. */
TEST_F_TIMEOUT(mem, sizes, 180)
{
	const size_t sizes[] = {
		1, 2, 511, 512, 513, 4095, 4096, 4097, 65536, 100000, MIB, MIB + 1, 2 * MIB - 1,
		2 * MIB, 2 * MIB + 1, 3 * MIB, 4 * MIB + 1, 33554432, 33554433,
	};
	CUdeviceptr p[ARRAY_SIZE(sizes)], base;
	size_t size;

	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t n = sizes[i];

		ASSERT_CU(cuMemAlloc(&p[i], n));
		EXPECT_EQ(0, p[i] % 512);
		EXPECT_LT(p[i], 1ULL << 47);
		if (n > 2 * MIB) {
			EXPECT_EQ(0, p[i] % (2 * MIB));
		}
		EXPECT_TRUE(sees(p[i], 0, n));
		poke(p[i], i + 1, n);
		EXPECT_CU(cuMemGetAddressRange(&base, &size, p[i]));
		EXPECT_EQ(p[i], base);
		EXPECT_EQ(n, size);
		EXPECT_CU(cuMemGetAddressRange(&base, &size, p[i] + n - 1));
		EXPECT_EQ(p[i], base);
		EXPECT_EQ(n, size);
		EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &size, p[i] + n));
		EXPECT_EQ(0, base);
		EXPECT_EQ(0, size);
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
		EXPECT_TRUE(sees(p[i], i + 1, sizes[i]));
		EXPECT_CU(cuMemFree(p[i]));
		EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &size, p[i]));
	}
	EXPECT_EQ(0, used(0));
}

/* The cost of one allocation, by the kernel and by the attributes. */
TEST_F(mem, backing)
{
	const size_t sizes[] = {
		1, 4096, MIB + 1, 2 * MIB - 1, 2 * MIB, 2 * MIB + 1, 3 * MIB, 4 * MIB + 1,
		32 * MIB, 32 * MIB + 1,
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
		__u64 want = whole_slots(sizes[i]);
		CUdeviceptr p, base = 0;
		size_t length = 0;

		ASSERT_CU(cuMemAlloc(&p, sizes[i]));
		EXPECT_EQ((long long)want, used(0));
		EXPECT_CU(cuPointerGetAttribute(&length, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, p));
		EXPECT_CU(cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, p));
		EXPECT_EQ(want, length);
		EXPECT_EQ(p, base);
		EXPECT_EQ(0, base % (2 * MIB));
		EXPECT_CU(cuMemFree(p));
		EXPECT_EQ(0, used(0));
	}
}

TEST_F(mem, six_hundred_pages_cost_4_mib)
{
	enum { N = 600 };
	static CUdeviceptr p[N];
	size_t before, now, total;

	ASSERT_CU(cuMemGetInfo(&before, NULL));
	for (int i = 0; i < N; i++) {
		ASSERT_CU(cuMemAlloc(&p[i], 4096));
		ASSERT_TRUE(sees(p[i], 0, 4096));
		poke(p[i], i, 4096);
	}
	EXPECT_EQ(4 * (long long)MIB, used(0));
	EXPECT_CU(cuMemGetInfo(&now, &total));
	EXPECT_EQ(before - 4 * MIB, now);
	EXPECT_EQ(self->total, total);
	for (int i = 0; i < N; i += 2) {
		EXPECT_CU(cuMemFree(p[i]));
	}
	for (int i = 1; i < N; i += 2) {
		EXPECT_TRUE(sees(p[i], i, 4096));
		EXPECT_CU(cuMemFree(p[i]));
	}
	EXPECT_EQ(0, used(0));
	EXPECT_CU(cuMemGetInfo(&now, NULL));
	EXPECT_EQ(before, now);
}

TEST_F(mem, info)
{
	size_t left = 0, total = 0, now;
	CUdeviceptr p;

	EXPECT_CU(cuMemGetInfo(&left, &total));
	EXPECT_EQ(self->total, total);
	EXPECT_EQ(dev_attr(0, "size"), (long long)total);
	EXPECT_EQ(total, left);
	EXPECT_CU(cuMemGetInfo(NULL, &total));
	EXPECT_CU(cuMemGetInfo(&left, NULL));
	EXPECT_CU(cuMemGetInfo(NULL, NULL));
	ASSERT_CU(cuMemAlloc(&p, 64 * MIB));
	EXPECT_CU(cuMemGetInfo(&now, NULL));
	EXPECT_EQ(left - 64 * MIB, now);
	EXPECT_CU(cuMemFree(p));
	EXPECT_CU(cuMemGetInfo(&now, NULL));
	EXPECT_EQ(left, now);
	ASSERT_CU(cuCtxSetCurrent(NULL));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemGetInfo(&left, &total));
}

TEST_F(mem, until_there_is_none)
{
	enum { MAX = 512 };
	static CUdeviceptr p[MAX];
	unsigned int n = 0;
	CUdeviceptr q;
	CUresult result;
	size_t left;

	do {
		ASSERT_LT(n, MAX);
		result = cuMemAlloc(&p[n], 7 * MIB);
		n += !result;
	} while (!result);
	EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, result);
	EXPECT_EQ(0, p[n]);
	/* An allocation of 7 MiB costs 8 MiB. */
	EXPECT_CU(cuMemGetInfo(&left, NULL));
	EXPECT_EQ(self->total - n * 8 * MIB, left);
	EXPECT_LT(left, 8 * MIB);
	EXPECT_EQ(self->total / (8 * MIB), n);
	ASSERT_LT(0, n);
	EXPECT_CU(cuMemFree(p[--n]));
	EXPECT_CU(cuMemAlloc(&q, 8 * MIB));
	EXPECT_CU(cuMemFree(q));
	while (n--) {
		EXPECT_CU(cuMemFree(p[n]));
	}
	EXPECT_EQ(0, used(0));
}

TEST_F(mem, pitch)
{
	const struct {
		size_t width, height;
		unsigned int element;
		size_t pitch;
	} cases[] = {
		{ 1, 1, 4, 512 }, { 16, 3, 4, 512 }, { 64, 64, 4, 512 }, { 256, 2, 8, 512 },
		{ 511, 4, 4, 512 }, { 512, 4, 16, 512 }, { 513, 4, 4, 1024 }, { 1000, 7, 8, 1024 },
		{ 1024, 100, 16, 1024 }, { 4097, 16, 16, 4608 }, { 65535, 3, 4, 65536 },
		{ 1048577, 2, 16, 1049088 },
	};
	const unsigned int bad[] = { 0, 1, 2, 3, 5, 12, 32, 64, ~0U };
	size_t pitch, size, huge = 1ULL << 62;
	CUdeviceptr p, base;

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		ASSERT_CU(cuMemAllocPitch(&p, &pitch, cases[i].width, cases[i].height,
					  cases[i].element));
		EXPECT_EQ(cases[i].pitch, pitch);
		EXPECT_EQ(0, p % 512);
		EXPECT_CU(cuMemGetAddressRange(&base, &size, p + pitch - 1));
		EXPECT_EQ(p, base);
		EXPECT_EQ(pitch * cases[i].height, size);
		if (cases[i].height > 1) {
			EXPECT_EQ(INVALID, cuMemFree(p + pitch));
		}
		EXPECT_CU(cuMemFree(p));
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_EQ(INVALID, cuMemAllocPitch(&p, &pitch, 16, 16, bad[i]));
	}
	EXPECT_EQ(INVALID, cuMemAllocPitch(&p, &pitch, 0, 16, 4));
	EXPECT_EQ(INVALID, cuMemAllocPitch(&p, &pitch, 16, 0, 4));
	EXPECT_EQ(INVALID, cuMemAllocPitch(NULL, &pitch, 16, 16, 4));
	EXPECT_EQ(INVALID, cuMemAllocPitch(&p, NULL, 16, 16, 4));
	EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocPitch(&p, &pitch, 512, 1ULL << 40, 4));
	EXPECT_EQ(INVALID, cuMemAllocPitch(&p, &pitch, huge, 16, 4));
	EXPECT_EQ(INVALID, cuMemAllocPitch(&p, &pitch, SIZE_MAX, 1, 4));
	EXPECT_EQ(0, used(0));
	ASSERT_CU(cuCtxSetCurrent(NULL));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemAllocPitch(&p, &pitch, 16, 16, 4));
}

/* --- questions */

TEST_F(mem, range)
{
	CUdeviceptr p, base = 1;
	size_t size = 1;
	char *host = malloc(100);

	ASSERT_CU(cuMemAlloc(&p, 1000));
	EXPECT_CU(cuMemGetAddressRange(&base, NULL, p + 500));
	EXPECT_EQ(p, base);
	EXPECT_CU(cuMemGetAddressRange(NULL, &size, p + 500));
	EXPECT_EQ(1000, size);
	EXPECT_CU(cuMemGetAddressRange(NULL, NULL, p));
	/* Without outputs nothing is looked up. */
	EXPECT_CU(cuMemGetAddressRange(NULL, NULL, 1));
	EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &size, 0));
	EXPECT_EQ(0, base);
	EXPECT_EQ(0, size);
	EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &size, ~0ULL));
	EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &size, 0xdead0000));
	EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &size, (uintptr_t)host));
	EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &size, p + 1000));
	EXPECT_CU(cuMemFree(p));
	EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &size, p));
	ASSERT_CU(cuCtxSetCurrent(NULL));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemGetAddressRange(&base, &size, p));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemGetAddressRange(NULL, NULL, p));
	free(host);
}

/*
 * Read an attribute into 16 bytes of 0xaa: the number of bytes written or, on an error, minus
 * (100 times the result plus that number).
 */
static int attribute(CUdeviceptr p, CUpointer_attribute attr, __u64 *value)
{
	unsigned char data[16];
	CUresult result;
	int n = 16;

	memset(data, 0xaa, sizeof(data));
	result = cuPointerGetAttribute(data, attr, p);
	while (n && data[n - 1] == 0xaa)
		n--;
	*value = 0;
	memcpy(value, data, n < 8 ? n : 8);
	return result ? -(int)result * 100 - n : n;
}

static const CUpointer_attribute known[] = {
	CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
	CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER,
	CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, CU_POINTER_ATTRIBUTE_BUFFER_ID,
	CU_POINTER_ATTRIBUTE_IS_MANAGED, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
	CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
	CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_MAPPED,
	CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
	CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
	CU_POINTER_ATTRIBUTE_MAPPING_SIZE, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR,
	CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE,
	CU_POINTER_ATTRIBUTE_P2P_TOKENS,
};

TEST_F(mem, attributes)
{
	const size_t sizes[] = { 10000, 3 * MIB };
	const size_t offsets[] = { 0, 1, 9999 };

	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
		__u64 v, id, block;
		CUdeviceptr p;

		ASSERT_CU(cuMemAlloc(&p, sizes[i]));
		ASSERT_EQ(8, attribute(p, CU_POINTER_ATTRIBUTE_BUFFER_ID, &id));
		ASSERT_EQ(8, attribute(p, CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, &block));
		EXPECT_NE(0, id);
		EXPECT_NE(0, block);
		for (unsigned int k = 0; k < ARRAY_SIZE(offsets); k++) {
			const struct {
				CUpointer_attribute attr;
				int width;
				__u64 value;
			} want[] = {
				{ CU_POINTER_ATTRIBUTE_CONTEXT, 8, (uintptr_t)self->ctx },
				{ CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 4, CU_MEMORYTYPE_DEVICE },
				{ CU_POINTER_ATTRIBUTE_DEVICE_POINTER, 8, p + offsets[k] },
				/* This call fails, but writes nevertheless. */
				{ CU_POINTER_ATTRIBUTE_HOST_POINTER, -108, 0 },
				{ CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 4, k > 0 },
				{ CU_POINTER_ATTRIBUTE_BUFFER_ID, 8, id },
				{ CU_POINTER_ATTRIBUTE_IS_MANAGED, 4, 0 },
				{ CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 4, 0 },
				{ CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, 4, 1 },
				{ CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, 8, p },
				{ CU_POINTER_ATTRIBUTE_RANGE_SIZE, 8, sizes[i] },
				{ CU_POINTER_ATTRIBUTE_MAPPED, 4, 1 },
				{ CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, 8, 0 },
				{ CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, 4, 1 },
				{ CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, 4, 3 },
				{ CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, 8, 0 },
				{ CU_POINTER_ATTRIBUTE_MAPPING_SIZE, 8, whole_slots(sizes[i]) },
				{ CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, 8, p },
				{ CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID, 8, block },
				{ CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE, 4, 1 },
				/* Asking for these sets SYNC_MEMOPS. */
				{ CU_POINTER_ATTRIBUTE_P2P_TOKENS, 12, 0 },
			};

			for (unsigned int j = 0; j < ARRAY_SIZE(want); j++) {
				EXPECT_EQ(want[j].width,
					  attribute(p + offsets[k], want[j].attr, &v)) {
					TH_LOG("attribute %d", want[j].attr);
				}
				EXPECT_EQ(want[j].value, v) {
					TH_LOG("attribute %d", want[j].attr);
				}
			}
		}
		/* Of these, only DEVICE_POINTER needs a context. */
		ASSERT_CU(cuCtxSetCurrent(NULL));
		EXPECT_EQ(4, attribute(p, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, &v));
		EXPECT_EQ(8, attribute(p, CU_POINTER_ATTRIBUTE_CONTEXT, &v));
		EXPECT_EQ(8, attribute(p, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, &v));
		EXPECT_EQ(-20100, attribute(p, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, &v));
		ASSERT_CU(cuCtxSetCurrent(self->ctx));
		EXPECT_CU(cuMemFree(p));
	}
}

TEST_F(mem, attributes_of_nothing)
{
	char *host = malloc(4096);
	CUdeviceptr p;
	__u64 v;

	ASSERT_CU(cuMemAlloc(&p, 4096));
	EXPECT_EQ(INVALID, cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
	EXPECT_EQ(-100, attribute(p, 0, &v));
	EXPECT_EQ(-100, attribute(p, 22, &v));
	EXPECT_EQ(-100, attribute(p, 100, &v));
	EXPECT_EQ(4, attribute(p + 4095, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, &v));
	EXPECT_EQ(-100, attribute(p + 4096, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, &v));
	EXPECT_CU(cuMemFree(p));
	for (unsigned int i = 0; i < ARRAY_SIZE(known); i++) {
		EXPECT_EQ(-100, attribute(0, known[i], &v));
		EXPECT_EQ(-100, attribute(p, known[i], &v));
		EXPECT_EQ(-100, attribute((uintptr_t)host, known[i], &v));
		EXPECT_EQ(-100, attribute(~0ULL, known[i], &v));
	}
	free(host);
}

TEST_F(mem, several_attributes)
{
	CUpointer_attribute attrs[] = {
		CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
		CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
		CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
	};
	CUdeviceptr p, device = 1;
	CUcontext ctx = NULL;
	unsigned int type = 7;
	size_t size = 99;
	int ordinal = 7;
	void *data[] = { &ctx, &type, &device, &size, &ordinal };
	void *holey[] = { &ctx, NULL, &device, &size, &ordinal };
	char *host = malloc(10);

	ASSERT_CU(cuMemAlloc(&p, 5000));
	EXPECT_CU(cuPointerGetAttributes(5, attrs, data, p + 7));
	EXPECT_EQ(self->ctx, ctx);
	EXPECT_EQ(CU_MEMORYTYPE_DEVICE, type);
	EXPECT_EQ(p + 7, device);
	EXPECT_EQ(5000, size);
	EXPECT_EQ(0, ordinal);
	for (int i = 0; i < 2; i++) {
		size = 99;
		EXPECT_CU(cuPointerGetAttributes(5, attrs, data, i ? (uintptr_t)host : 0));
		EXPECT_EQ(NULL, ctx);
		EXPECT_EQ(0, type);
		EXPECT_EQ(0, device);
		EXPECT_EQ(99, size);
		EXPECT_EQ(-2, ordinal);
	}
	EXPECT_EQ(INVALID, cuPointerGetAttributes(0, attrs, data, p));
	EXPECT_EQ(INVALID, cuPointerGetAttributes(5, NULL, data, p));
	EXPECT_EQ(INVALID, cuPointerGetAttributes(5, attrs, NULL, p));
	EXPECT_EQ(INVALID, cuPointerGetAttributes(5, attrs, holey, p));
	attrs[1] = 0;
	EXPECT_EQ(INVALID, cuPointerGetAttributes(5, attrs, data, p));
	free(host);
}

/* Each allocation has a new buffer ID, also at an address that is reused. */
TEST_F(mem, buffer_ids)
{
	__u64 last = 0, id;
	CUdeviceptr p;

	for (int i = 0; i < 100; i++) {
		ASSERT_CU(cuMemAlloc(&p, i % 3 ? 4096 : 3 * MIB));
		ASSERT_EQ(8, attribute(p, CU_POINTER_ATTRIBUTE_BUFFER_ID, &id));
		EXPECT_LT(last, id);
		last = id;
		ASSERT_CU(cuMemFree(p));
	}
}

/* --- contexts */

TEST_F(mem, other_contexts)
{
	CUdeviceptr mine, theirs, left, base;
	CUcontext other, popped;
	size_t size;

	ASSERT_CU(cuMemAlloc(&mine, 4096));
	ASSERT_CU(cuCtxCreate(&other, NULL, 0, 0));
	ASSERT_CU(cuMemAlloc(&theirs, 4096));
	ASSERT_CU(cuMemAlloc(&left, 9 * MIB));
	poke(mine, 1, 4096);
	EXPECT_CU(cuMemcpyDtoD(theirs, mine, 4096));
	EXPECT_CU(cuCtxSynchronize());
	EXPECT_TRUE(sees(theirs, 1, 4096));
	EXPECT_CU(cuMemFree(mine));
	EXPECT_EQ(INVALID, cuMemFree(mine));
	ASSERT_CU(cuCtxPopCurrent(&popped));
	EXPECT_EQ(other, popped);
	EXPECT_CU(cuMemFree(theirs));
	EXPECT_EQ(10 * (long long)MIB, used(0));
	/* The end of a context frees its memory. */
	EXPECT_CU(cuCtxDestroy(other));
	EXPECT_EQ(0, used(0));
	EXPECT_EQ(INVALID, cuMemFree(left));
	EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &size, left));
	ASSERT_CU(cuMemAlloc(&mine, 4096));
	EXPECT_CU(cuDevicePrimaryCtxRelease(0));
	EXPECT_EQ(0, used(0));
	EXPECT_EQ(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc(&mine, 4096));
	EXPECT_EQ(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemFree(mine));
}

TEST_F(mem, uses_of_a_context)
{
	CUcontext other, same = NULL, current;
	CUdeviceptr p;

	ASSERT_CU(cuCtxCreate(&other, NULL, 0, 0));
	EXPECT_EQ(INVALID, cuCtxAttach(&same, 1));
	EXPECT_EQ(INVALID, cuCtxAttach(NULL, 0));
	ASSERT_CU(cuCtxAttach(&same, 0));
	EXPECT_EQ(other, same);
	ASSERT_CU(cuMemAlloc(&p, 4096));
	EXPECT_CU(cuCtxDetach(other));
	EXPECT_CU(cuCtxGetCurrent(&current));
	EXPECT_EQ(other, current);
	EXPECT_EQ(2 * (long long)MIB, used(0));
	EXPECT_CU(cuCtxDetach(other));
	EXPECT_EQ(0, used(0));
	EXPECT_EQ(INVALID, cuMemFree(p));
}

TEST_F(mem, second_device)
{
	CUcontext one;
	CUdeviceptr p;
	int count, ordinal = -1;
	size_t left;

	ASSERT_CU(cuDeviceGetCount(&count));
	if (count < 2)
		SKIP(return, "one device");
	ASSERT_CU(cuCtxCreate(&one, NULL, 0, 1));
	ASSERT_CU(cuMemAlloc(&p, 3 * MIB));
	EXPECT_EQ(0, used(0));
	EXPECT_EQ(4 * (long long)MIB, used(1));
	EXPECT_CU(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
	EXPECT_EQ(1, ordinal);
	EXPECT_CU(cuMemGetInfo(&left, NULL));
	EXPECT_EQ(dev_attr(1, "size") - 4 * (long long)MIB, (long long)left);
	/* Small allocations of the two devices come from different blocks. */
	ASSERT_CU(cuMemAlloc(&p, 4096));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	ASSERT_CU(cuMemAlloc(&p, 4096));
	EXPECT_EQ(2 * (long long)MIB, used(0));
	EXPECT_EQ(6 * (long long)MIB, used(1));
	EXPECT_CU(cuCtxDestroy(one));
	EXPECT_EQ(0, used(1));
}

/* --- what the next owner sees */

TEST_F(mem, reuse_is_zero)
{
	enum { N = 64 };
	CUdeviceptr p[N], q;
	unsigned int again = 0;

	for (int i = 0; i < N; i++) {
		ASSERT_CU(cuMemAlloc(&p[i], 5000));
		poke(p[i], 0xff, 5000);
	}
	/* Make holes of one size, and fill them with allocations of other sizes. */
	for (int i = 0; i < N; i += 2) {
		ASSERT_CU(cuMemFree(p[i]));
	}
	for (int i = 0; i < N; i += 2) {
		size_t n = 300 + 90 * i;

		ASSERT_CU(cuMemAlloc(&p[i], n));
		EXPECT_TRUE(sees(p[i], 0, n));
		poke(p[i], 0xee, n);
		for (int k = 1; k < N; k += 2)
			again += p[i] < p[k];
	}
	/* Otherwise no memory was reused, and nothing was tested. */
	EXPECT_LT(0, again);
	for (int i = 1; i < N; i += 2) {
		EXPECT_TRUE(sees(p[i], 0xff, 5000));
	}
	ASSERT_CU(cuMemAlloc(&q, 64 * MIB));
	EXPECT_CU(cuMemsetD8(q, 0xff, 64 * MIB));
	ASSERT_CU(cuMemFree(q));
	ASSERT_CU(cuMemAlloc(&q, 64 * MIB));
	EXPECT_TRUE(sees(q, 0, 64 * MIB));
}

/* Freed memory is unmapped: a read there is a fault, and does not see the next owner's data. */
TEST_F(mem, freed_is_unmapped)
{
	CUdeviceptr p;

	ASSERT_CU(cuMemAlloc(&p, 3 * MIB));
	poke(p, 1, 3 * MIB);
	EXPECT_CU(cuMemFree(p));
	EXPECT_EQ(-SIGSEGV, peek(cpu(p)));
	EXPECT_EQ(-SIGSEGV, peek(cpu(p) + 2 * MIB));
}

/* --- DMA-bufs */

TEST_F(mem, dmabuf_errors)
{
	const CUmemRangeHandleType type = CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD;
	void *host = aligned_alloc(4096, 4096);
	CUdeviceptr p;
	int fd = 77, other = -1;

	ASSERT_CU(cuMemAlloc(&p, 4 * MIB));
	EXPECT_EQ(INVALID, cuMemGetHandleForAddressRange(&fd, p + 1, 4096, type, 0));
	EXPECT_EQ(INVALID, cuMemGetHandleForAddressRange(&fd, p, 4095, type, 0));
	EXPECT_EQ(INVALID, cuMemGetHandleForAddressRange(&fd, p, 0, type, 0));
	EXPECT_EQ(INVALID, cuMemGetHandleForAddressRange(&fd, 0, 4096, type, 0));
	EXPECT_EQ(INVALID, cuMemGetHandleForAddressRange(&fd, p, 4096, 0, 0));
	EXPECT_EQ(INVALID, cuMemGetHandleForAddressRange(&fd, p, 4096, 2, 0));
	EXPECT_EQ(INVALID, cuMemGetHandleForAddressRange(&fd, p, 4096, type, 2));
	EXPECT_EQ(77, fd);
	EXPECT_EQ(INVALID, cuMemGetHandleForAddressRange(NULL, p, 4096, type, 0));
	EXPECT_EQ(INVALID, cuMemGetHandleForAddressRange(&fd, p, 4 * MIB + 4096, type, 0));
	EXPECT_EQ(-1, fd);
	fd = 77;
	EXPECT_EQ(INVALID, cuMemGetHandleForAddressRange(&fd, p + 4 * MIB, 4096, type, 0));
	EXPECT_EQ(-1, fd);
	fd = 77;
	EXPECT_EQ(INVALID, cuMemGetHandleForAddressRange(&fd, (uintptr_t)host, 4096, type, 0));
	EXPECT_EQ(-1, fd);
	fd = 77;
	EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cuMemGetHandleForAddressRange(&fd, p, 4096, type, 1));
	EXPECT_EQ(-1, fd);
	EXPECT_EQ(0, dev_attr(0, "exports"));
	/* Each export is a DMA-buf of its own. */
	ASSERT_CU(cuMemGetHandleForAddressRange(&fd, p, 4096, type, 0));
	ASSERT_CU(cuMemGetHandleForAddressRange(&other, p + 2 * MIB, 8192, type, 0));
	EXPECT_NE(fd, other);
	EXPECT_EQ(4096, lseek(fd, 0, SEEK_END));
	EXPECT_EQ(8192, lseek(other, 0, SEEK_END));
	EXPECT_EQ(2, dev_attr(0, "exports"));
	close(fd);
	close(other);
	EXPECT_TRUE(dev_attr_becomes(0, "exports", 0, 10));
	ASSERT_CU(cuCtxSetCurrent(NULL));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT,
		  cuMemGetHandleForAddressRange(&fd, p, 4096, type, 0));
	free(host);
}

/* --- waiting */

/* cuMemFree() waits for all work of the memory's context, cuMemAlloc() for none. */
TEST_F(mem, free_waits)
{
	CUdeviceptr p, q, r;
	unsigned int *gate;
	CUstream stream;
	struct load load;

	ASSERT_CU(load_make(&load));
	ASSERT_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuMemAlloc(&p, 4096));
	ASSERT_EQ(CUDA_ERROR_NOT_READY, load_put_busy(&load, stream));
	EXPECT_CU(cuMemFree(p));
	EXPECT_CU(cuStreamQuery(stream));
	EXPECT_TRUE(load_done(&load));
	/* The stream waits for a word that the test writes after the allocations. */
	ASSERT_CU(cuMemAllocHost((void **)&gate, 4096));
	*gate = 0;
	ASSERT_CU(cuStreamWaitValue32(stream, (uintptr_t)gate, 1, CU_STREAM_WAIT_VALUE_EQ));
	ASSERT_CU(cuMemAlloc(&q, 4096));
	ASSERT_CU(cuMemAlloc(&r, 3 * MIB));
	EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
	EXPECT_CU(cuStreamSynchronize(stream));
	EXPECT_CU(cuMemFree(q));
	EXPECT_CU(cuMemFree(r));
	EXPECT_CU(cuMemFreeHost(gate));
}

/* --- by chance, against a model */

#define MAX	256

struct piece {
	CUdeviceptr ptr;
	size_t size;
	unsigned char value;
};

TEST_F_TIMEOUT(mem, random, 600)
{
	__u64 steps = env_number("GPUMEM_STEPS", 4000), whole = 0;
	static struct piece pieces[MAX];
	unsigned int live = 0, full = 0;
	struct rng r;

	rng_start(&r, "cuda_mem");
	for (__u64 step = 0; step < steps; step++) {
		struct piece *p = &pieces[rng_below(&r, MAX)];
		CUdeviceptr base = 0;
		CUresult result;
		size_t size = 0;

		if (p->ptr) {
			ASSERT_CU(cuMemGetAddressRange(&base, &size,
						       p->ptr + rng_below(&r, p->size)));
			ASSERT_EQ(p->ptr, base);
			ASSERT_EQ(p->size, size);
			ASSERT_TRUE(sees(p->ptr, p->value, p->size));
			ASSERT_CU(cuMemFree(p->ptr));
			whole -= p->size > 2 * MIB ? whole_slots(p->size) : 0;
			live--;
			p->ptr = 0;
			continue;
		}
		switch (rng_below(&r, 16)) {
		case 0:
			p->size = 2 * MIB + 1 + rng_below(&r, 6 * MIB);
			break;
		case 1:
			p->size = 1 + rng_below(&r, 2 * MIB);
			break;
		default:
			p->size = 1 + rng_below(&r, 1 << rng_below(&r, 17));
		}
		p->value = 1 + rng_below(&r, 255);
		result = cuMemAlloc(&p->ptr, p->size);
		if (result == CUDA_ERROR_OUT_OF_MEMORY) {
			full++;
			ASSERT_EQ(0, p->ptr);
			ASSERT_LT((long long)self->total / 2, used(0));
			continue;
		}
		ASSERT_CU(result);
		ASSERT_EQ(0, p->ptr % 512);
		ASSERT_TRUE(sees(p->ptr, 0, p->size));
		poke(p->ptr, p->value, p->size);
		whole += p->size > 2 * MIB ? whole_slots(p->size) : 0;
		live++;
		/* Large allocations have blocks of their own; no shared block is empty. */
		ASSERT_EQ(0, used(0) % (2 * (long long)MIB));
		ASSERT_LE((long long)whole, used(0));
		ASSERT_LE(used(0), (long long)(whole + live * 2 * MIB));
	}
	printf("# %u of %u live at the end, memory was full %u times\n", live, MAX, full);
	for (int i = 0; i < MAX; i++) {
		if (!pieces[i].ptr)
			continue;
		EXPECT_TRUE(sees(pieces[i].ptr, pieces[i].value, pieces[i].size));
		EXPECT_CU(cuMemFree(pieces[i].ptr));
	}
	EXPECT_EQ(0, used(0));
}

TEST_HARNESS_MAIN
