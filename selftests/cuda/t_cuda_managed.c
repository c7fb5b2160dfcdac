// SPDX-License-Identifier: GPL-2.0
/*
 * Managed memory by the CUDA API: one address for the CPU, the devices and their copies, in strict
 * mode as well; what is refused; how advice and prefetches change the attributes of ranges.
 *
 * The expected results are those recorded on a real device.
 */
#include <pthread.h>

#include "kselftest_harness.h"
#include "cuda_rt_util.h"

#define PAGE		4096ull

NON_BLOCKING_FIXTURE(managed)

static CUdeviceptr managed(size_t bytes)
{
	CUdeviceptr p = 0;

	if (cuMemAllocManaged(&p, bytes, CU_MEM_ATTACH_GLOBAL))
		abort();
	return p;
}

static CUmemLocation at(int type, int id)
{
	return (CUmemLocation){ .type = type, .id = id };
}

static CUmemLocation on_device(int id)
{
	return at(CU_MEM_LOCATION_TYPE_DEVICE, id);
}

static CUmemLocation on_host(void)
{
	return at(CU_MEM_LOCATION_TYPE_HOST, 0);
}

/* The value of one attribute of a range; 77 on an error. */
static int said(CUmem_range_attribute attribute, CUdeviceptr p, size_t n)
{
	int value = 77;

	return cuMemRangeGetAttribute(&value, sizeof(value), attribute, p, n) ? 77 : value;
}

#define READ_MOSTLY	CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY
#define PREFERRED	CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION
#define PREFERRED_TYPE	CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE
#define PREFERRED_ID	CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID
#define ACCESSED_BY	CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY
#define FETCHED		CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION
#define FETCHED_TYPE	CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE
#define FETCHED_ID	CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID

static bool nothing_said(CUdeviceptr p, size_t n)
{
	int by[2] = { 7, 7 };

	return !cuMemRangeGetAttribute(by, sizeof(by), ACCESSED_BY, p, n) &&
	       by[0] == CU_DEVICE_INVALID && by[1] == CU_DEVICE_INVALID &&
	       !said(READ_MOSTLY, p, n) && said(PREFERRED, p, n) == CU_DEVICE_INVALID &&
	       !said(PREFERRED_TYPE, p, n) && said(PREFERRED_ID, p, n) == CU_DEVICE_INVALID &&
	       said(FETCHED, p, n) == CU_DEVICE_INVALID && !said(FETCHED_TYPE, p, n) &&
	       said(FETCHED_ID, p, n) == CU_DEVICE_INVALID;
}

/* --- memory */

/* The CPU and the device see each other's writes, if the accesses are ordered. */
TEST_F(managed, one_address)
{
	const size_t sizes[] = { 1, 100, 4096, 4097, 65536, 2 * MIB, 5000000 };
	CUdeviceptr p, base, dev;
	size_t size;

	ASSERT_CU(cuMemAlloc(&dev, 5000000));
	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t n = sizes[i];

		p = managed(n);
		EXPECT_EQ(0, p % 512);
		EXPECT_TRUE(all_are(cpu(p), 0, n));
		EXPECT_CU(cuMemGetAddressRange(&base, &size, p + n - 1));
		EXPECT_EQ(p, base);
		EXPECT_EQ(n, size);
		memset(cpu(p), 0x17, n);
		EXPECT_CU(cuMemcpyDtoD(dev, p, n));
		EXPECT_CU(cuCtxSynchronize());
		EXPECT_TRUE(sees(dev, 0x17, n));
		EXPECT_CU(cuMemsetD8Async(p, 0x42, n, self->s));
		EXPECT_CU(cuStreamSynchronize(self->s));
		EXPECT_TRUE(all_are(cpu(p), 0x42, n));
		EXPECT_CU(cuMemFree(p));
		EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &size, p));
		EXPECT_EQ(INVALID, cuMemFree(p));
	}
	/* Managed memory works where a call expects host memory. */
	p = managed(4096);
	EXPECT_CU(cuMemcpyDtoH(cpu(p), dev, 4096));
	EXPECT_TRUE(all_are(cpu(p), 0x17, 4096));
	memset(cpu(p), 0x18, 4096);
	EXPECT_CU(cuMemcpyHtoD(dev, cpu(p), 4096));
	EXPECT_CU(cuMemcpy(p, dev, 4096));
	EXPECT_TRUE(all_are(cpu(p), 0x18, 4096));
}

/* Managed memory shares no block with device memory, which the CPU cannot access in strict mode. */
TEST_F(managed, beside_device_memory)
{
	CUdeviceptr dev[3], man[3];

	for (unsigned int i = 0; i < ARRAY_SIZE(dev); i++) {
		ASSERT_CU(cuMemAlloc(&dev[i], 512));
		man[i] = managed(512);
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(dev); i++) {
		EXPECT_EQ(strict() ? -SIGSEGV : 0, peek(cpu(dev[i])));
		EXPECT_EQ(0, peek(cpu(man[i])));
		EXPECT_NE(dev[i] >> 21, man[i] >> 21);
		EXPECT_EQ(man[0] >> 21, man[i] >> 21);
	}
	/* Reused memory is zero. */
	memset(cpu(man[1]), 1, 512);
	ASSERT_CU(cuMemFree(man[1]));
	man[1] = managed(512);
	EXPECT_TRUE(all_are(cpu(man[1]), 0, 512));
}

TEST_F(managed, arguments)
{
	CUdeviceptr p = 0x770;

	EXPECT_EQ(INVALID, cuMemAllocManaged(&p, 0, CU_MEM_ATTACH_GLOBAL));
	EXPECT_EQ(0, p);
	EXPECT_EQ(INVALID, cuMemAllocManaged(NULL, 4096, CU_MEM_ATTACH_GLOBAL));
	for (unsigned int flags = 0; flags < 10; flags++) {
		if (flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST)
			continue;
		EXPECT_EQ(INVALID, cuMemAllocManaged(&p, 4096, flags));
	}
	p = 0x770;
	EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY,
		  cuMemAllocManaged(&p, 1ull << 48, CU_MEM_ATTACH_GLOBAL));
	EXPECT_EQ(0, p);
	ASSERT_CU(cuMemAllocManaged(&p, 4096, CU_MEM_ATTACH_HOST));
	memset(cpu(p), 9, 4096);
	ASSERT_CU(cuCtxSetCurrent(NULL));
	EXPECT_CU(cuMemFree(p));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemAllocManaged(&p, 4096, CU_MEM_ATTACH_GLOBAL));
}

TEST_F(managed, attributes)
{
	static const struct {
		CUpointer_attribute attribute;
		size_t width;
		__u64 value;
	} rows[] = {
		{ CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 4, CU_MEMORYTYPE_DEVICE },
		{ CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 4, 1 },
		{ CU_POINTER_ATTRIBUTE_IS_MANAGED, 4, 1 },
		{ CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, 4, 0 },
		{ CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, 4, 0 },
		{ CU_POINTER_ATTRIBUTE_MAPPED, 4, 1 },
		{ CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES, 8, 0 },
		{ CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, 4, 0 },
		{ CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, 4, CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE },
		{ CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, 8, 0 },
		{ CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE, 4, 0 },
	};
	CUdeviceptr p = managed(100000);
	__u64 value;
	int yes = 0;

	for (unsigned int i = 0; i < ARRAY_SIZE(rows); i++) {
		value = 0;
		EXPECT_CU(cuPointerGetAttribute(&value, rows[i].attribute, p + 5));
		EXPECT_EQ(rows[i].value, value) {
			TH_LOG("attribute %d", rows[i].attribute);
		}
	}
	EXPECT_CU(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_HOST_POINTER, p + 5));
	EXPECT_EQ(p + 5, value);
	EXPECT_CU(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p + 5));
	EXPECT_EQ(p + 5, value);
	EXPECT_CU(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_CONTEXT, p));
	EXPECT_EQ((uintptr_t)self->ctx, value);
	EXPECT_CU(cuDeviceGetAttribute(&yes, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 0));
	EXPECT_EQ(1, yes);
	EXPECT_CU(cuDeviceGetAttribute(&yes, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0));
	EXPECT_EQ(1, yes);
}

/* Calls that other memory supports and managed memory does not. */
TEST_F(managed, refused)
{
	CUdeviceptr p = managed(4 * MIB), q = 1;
	CUipcMemHandle handle;
	unsigned int flags = 0;
	int fd = -1;

	EXPECT_EQ(INVALID, cuIpcGetMemHandle(&handle, p));
	EXPECT_EQ(INVALID, cuMemGetHandleForAddressRange(&fd, p, PAGE,
							 CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	EXPECT_EQ(INVALID, cuMemHostRegister(cpu(p), 4096, 0));
	EXPECT_EQ(INVALID, cuMemHostUnregister(cpu(p)));
	EXPECT_EQ(INVALID, cuMemFreeHost(cpu(p)));
	EXPECT_EQ(INVALID, cuMemHostGetDevicePointer(&q, cpu(p), 0));
	EXPECT_EQ(0, q);
	EXPECT_CU(cuMemHostGetFlags(&flags, cpu(p)));
	EXPECT_EQ(CU_MEMHOSTALLOC_DEVICEMAP, flags);
	EXPECT_EQ(INVALID, cuMemFree(p + 512));
	EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cuMemFreeAsync(p, self->s));
	EXPECT_EQ(INVALID, cuMemFreeAsync(p + 512, self->s));
	/* The refused calls have not changed the memory. */
	memset(cpu(p), 1, 4 * MIB);
	EXPECT_TRUE(sees(p, 1, 4 * MIB));
	EXPECT_CU(cuMemFree(p));
}

/*
 * Calls without a stream are done when they return; calls with one return at once, though the
 * attribute SYNC_MEMOPS is set: a thread may open the gate that its own work waits behind.
 */
TEST_F(managed, waiting)
{
	CUdeviceptr p = managed(MIB), dev;
	struct load load;
	CUstream busy;
	__u32 *gate;

	ASSERT_CU(cuMemAlloc(&dev, MIB));
	ASSERT_CU(cuMemAllocHost((void **)&gate, 4096));
	*gate = 0;
	ASSERT_CU(cuStreamWaitValue32(self->s, (uintptr_t)gate, 1, CU_STREAM_WAIT_VALUE_EQ));
	ASSERT_CU(cuMemsetD8Async(p, 1, MIB, self->s));
	ASSERT_CU(cuMemcpyDtoDAsync(dev, p, MIB, self->s));
	ASSERT_CU(cuMemcpyAsync(p + MIB / 2, dev, MIB / 4, self->s));
	ASSERT_CU(cuStreamAttachMemAsync(self->s, p, 0, CU_MEM_ATTACH_SINGLE));
	ASSERT_CU(cuMemPrefetchAsync(p, MIB, on_device(0), 0, self->s));
	EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(self->s));
	EXPECT_TRUE(all_are(cpu(p), 0, MIB));
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
	EXPECT_CU(cuStreamSynchronize(self->s));
	EXPECT_TRUE(all_are(cpu(p), 1, MIB));
	EXPECT_TRUE(sees(dev, 1, MIB));

	ASSERT_CU(load_make(&load));
	ASSERT_CU(cuStreamCreate(&busy, CU_STREAM_DEFAULT));
	ASSERT_CU(load_put(&load, busy));
	ASSERT_CU(cuMemsetD8(p, 2, MIB));
	EXPECT_TRUE(all_are(cpu(p), 2, MIB));
	ASSERT_CU(load_put(&load, busy));
	ASSERT_CU(cuMemcpyDtoD(p, dev, MIB));
	EXPECT_TRUE(all_are(cpu(p), 1, MIB));
	/* Freeing waits for work that uses it. */
	ASSERT_CU(load_put(&load, busy));
	ASSERT_CU(cuMemsetD8Async(p, 3, MIB, busy));
	EXPECT_CU(cuMemFree(p));
	EXPECT_CU(cuStreamQuery(busy));
}

/* The end of a context frees its managed memory. */
TEST_F(managed, context)
{
	long long before = used(0);
	CUdeviceptr p, q;
	CUcontext ctx;

	ASSERT_CU(cuCtxCreate(&ctx, NULL, 0, 0));
	p = managed(4096);
	q = managed(4 * MIB);
	ASSERT_CU(cuMemAdvise(q, PAGE, CU_MEM_ADVISE_SET_READ_MOSTLY, on_device(0)));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	memset(cpu(p), 1, 4096);
	EXPECT_CU(cuMemsetD8(p, 2, 4096));
	EXPECT_TRUE(all_are(cpu(p), 2, 4096));
	EXPECT_EQ(1, said(READ_MOSTLY, q, PAGE));
	ASSERT_CU(cuCtxDestroy(ctx));
	EXPECT_EQ(INVALID, cuMemFree(p));
	EXPECT_EQ(INVALID, cuMemFree(q));
	EXPECT_EQ(77, said(READ_MOSTLY, q, PAGE));
	EXPECT_TRUE(dev_attr_becomes(0, "used", before, 10));
}

TEST_F(managed, other_device)
{
	CUdeviceptr p = managed(MIB);
	CUcontext ctx;
	CUstream s;
	int by[3];

	if (dev_count() < 2)
		SKIP(return, "one device");
	memset(cpu(p), 1, MIB);
	ASSERT_CU(cuDevicePrimaryCtxRetain(&ctx, 1));
	ASSERT_CU(cuCtxSetCurrent(ctx));
	ASSERT_CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	EXPECT_CU(cuMemsetD8Async(p, 5, MIB / 2, s));
	EXPECT_CU(cuStreamSynchronize(s));
	EXPECT_TRUE(all_are(cpu(p), 5, MIB / 2));
	EXPECT_CU(cuMemAdvise(p, MIB, CU_MEM_ADVISE_SET_ACCESSED_BY, on_device(1)));
	EXPECT_CU(cuMemAdvise(p, MIB, CU_MEM_ADVISE_SET_ACCESSED_BY, on_host()));
	EXPECT_CU(cuMemRangeGetAttribute(by, sizeof(by), ACCESSED_BY, p, MIB));
	EXPECT_EQ(1, by[0]);
	EXPECT_EQ(CU_DEVICE_CPU, by[1]);
	EXPECT_EQ(CU_DEVICE_INVALID, by[2]);
	EXPECT_CU(cuMemPrefetchAsync(p, MIB, on_device(1), 0, s));
	EXPECT_EQ(1, said(FETCHED, p, MIB));
	EXPECT_CU(cuDevicePrimaryCtxRelease(1));
}

/* --- attachments */

TEST_F(managed, attach)
{
	CUdeviceptr p = managed(65536), dev;
	void *host;

	ASSERT_CU(cuMemAlloc(&dev, 4096));
	ASSERT_CU(cuMemAllocHost(&host, 4096));
	EXPECT_CU(cuStreamAttachMemAsync(self->s, p, 0, CU_MEM_ATTACH_SINGLE));
	EXPECT_CU(cuStreamAttachMemAsync(self->s, p, 65536, CU_MEM_ATTACH_SINGLE));
	EXPECT_CU(cuStreamAttachMemAsync(self->s, p, 0, CU_MEM_ATTACH_HOST));
	EXPECT_CU(cuStreamAttachMemAsync(0, p, 0, CU_MEM_ATTACH_GLOBAL));
	EXPECT_EQ(INVALID, cuStreamAttachMemAsync(0, p, 0, CU_MEM_ATTACH_SINGLE));
	EXPECT_CU(cuStreamAttachMemAsync(CU_STREAM_LEGACY, p, 0, CU_MEM_ATTACH_SINGLE));
	EXPECT_CU(cuStreamAttachMemAsync(CU_STREAM_PER_THREAD, p, 0, CU_MEM_ATTACH_SINGLE));
	for (unsigned int flags = 0; flags < 10; flags++) {
		if (flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST ||
		    flags == CU_MEM_ATTACH_SINGLE)
			continue;
		EXPECT_EQ(INVALID, cuStreamAttachMemAsync(self->s, p, 0, flags));
	}
	EXPECT_EQ(INVALID, cuStreamAttachMemAsync(self->s, p, 4096, CU_MEM_ATTACH_SINGLE));
	EXPECT_EQ(INVALID, cuStreamAttachMemAsync(self->s, p, 65537, CU_MEM_ATTACH_SINGLE));
	EXPECT_EQ(INVALID, cuStreamAttachMemAsync(self->s, p + 4096, 0, CU_MEM_ATTACH_SINGLE));
	EXPECT_EQ(INVALID, cuStreamAttachMemAsync(self->s, 0, 0, CU_MEM_ATTACH_GLOBAL));
	EXPECT_EQ(INVALID, cuStreamAttachMemAsync(self->s, dev, 0, CU_MEM_ATTACH_GLOBAL));
	EXPECT_EQ(INVALID, cuStreamAttachMemAsync(self->s, (uintptr_t)host, 0,
						  CU_MEM_ATTACH_GLOBAL));
	EXPECT_EQ(INVALID, cuStreamAttachMemAsync(self->s, (uintptr_t)self, 8,
						  CU_MEM_ATTACH_GLOBAL));
	ASSERT_CU(cuCtxSetCurrent(NULL));
	EXPECT_CU(cuStreamAttachMemAsync(self->s, p, 0, CU_MEM_ATTACH_GLOBAL));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT,
		  cuStreamAttachMemAsync(0, p, 0, CU_MEM_ATTACH_GLOBAL));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_CU(cuStreamAttachMemAsync(self->s, p, 0, CU_MEM_ATTACH_SINGLE));
	EXPECT_CU(cuStreamDestroy(self->s));
	memset(cpu(p), 1, 65536);
	EXPECT_CU(cuMemsetD8(p, 2, 65536));
	EXPECT_TRUE(all_are(cpu(p), 2, 65536));
	EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE,
		  cuStreamAttachMemAsync(self->s, p, 0, CU_MEM_ATTACH_GLOBAL));
	EXPECT_CU(cuMemFree(p));
	EXPECT_EQ(INVALID, cuStreamAttachMemAsync(0, p, 0, CU_MEM_ATTACH_GLOBAL));
}

/* --- advice and prefetches */

TEST_F(managed, advice)
{
	const size_t n = 2 * MIB;
	CUdeviceptr p = managed(n), dev;
	int by[3];

	ASSERT_CU(cuMemAlloc(&dev, 65536));
	EXPECT_TRUE(nothing_said(p, n));
	EXPECT_CU(cuMemAdvise(p, n, CU_MEM_ADVISE_SET_READ_MOSTLY, on_device(99)));
	EXPECT_EQ(1, said(READ_MOSTLY, p + 100, 1));
	EXPECT_CU(cuMemAdvise(p, n / 2, CU_MEM_ADVISE_UNSET_READ_MOSTLY, on_host()));
	EXPECT_EQ(0, said(READ_MOSTLY, p, n));
	EXPECT_EQ(1, said(READ_MOSTLY, p + n / 2, n / 2));

	EXPECT_CU(cuMemAdvise(p, n, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, on_device(0)));
	EXPECT_EQ(0, said(PREFERRED, p, n));
	EXPECT_EQ(CU_MEM_LOCATION_TYPE_DEVICE, said(PREFERRED_TYPE, p, n));
	EXPECT_EQ(0, said(PREFERRED_ID, p, n));
	EXPECT_CU(cuMemAdvise(p, n / 2, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, on_host()));
	EXPECT_EQ(CU_DEVICE_INVALID, said(PREFERRED, p, n));
	EXPECT_EQ(0, said(PREFERRED_TYPE, p, n));
	EXPECT_EQ(CU_DEVICE_CPU, said(PREFERRED, p, n / 2));
	EXPECT_EQ(CU_MEM_LOCATION_TYPE_HOST, said(PREFERRED_TYPE, p, n / 2));
	EXPECT_CU(cuMemAdvise(p, n, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, on_device(99)));
	EXPECT_EQ(CU_DEVICE_INVALID, said(PREFERRED_ID, p, n / 2));

	EXPECT_CU(cuMemAdvise(p, n, CU_MEM_ADVISE_SET_ACCESSED_BY, on_device(0)));
	EXPECT_CU(cuMemAdvise(p, n, CU_MEM_ADVISE_SET_ACCESSED_BY, on_host()));
	EXPECT_CU(cuMemAdvise(p, n / 2, CU_MEM_ADVISE_UNSET_ACCESSED_BY, on_device(0)));
	EXPECT_CU(cuMemRangeGetAttribute(by, sizeof(by), ACCESSED_BY, p, n));
	EXPECT_EQ(CU_DEVICE_CPU, by[0]);
	EXPECT_EQ(CU_DEVICE_INVALID, by[1]);
	EXPECT_CU(cuMemRangeGetAttribute(by, sizeof(by), ACCESSED_BY, p + n / 2, n / 2));
	EXPECT_EQ(0, by[0]);
	EXPECT_EQ(CU_DEVICE_CPU, by[1]);
	EXPECT_EQ(CU_DEVICE_INVALID, by[2]);
	EXPECT_CU(cuMemRangeGetAttribute(by, 4, ACCESSED_BY, p + n / 2, n / 2));
	EXPECT_EQ(0, by[0]);

	for (int advice = 0; advice < 9; advice++) {
		EXPECT_EQ(INVALID, cuMemAdvise(p, n, advice, at(0, 0)));
		EXPECT_EQ(INVALID, cuMemAdvise(p, n, advice, at(5, 0)));
		EXPECT_EQ(INVALID, cuMemAdvise(p, 0, advice, on_device(0)));
		EXPECT_EQ(INVALID, cuMemAdvise(p, n + 1, advice, on_device(0)));
		EXPECT_EQ(INVALID, cuMemAdvise(p + n, 1, advice, on_device(0)));
		EXPECT_EQ(INVALID, cuMemAdvise(p + 1, SIZE_MAX, advice, on_device(0)));
		EXPECT_EQ(INVALID, cuMemAdvise(0, n, advice, on_device(0)));
		EXPECT_EQ(INVALID, cuMemAdvise(dev, 65536, advice, on_device(0)));
		EXPECT_EQ(INVALID, cuMemAdvise((uintptr_t)self, 8, advice, on_device(0)));
	}
	EXPECT_EQ(INVALID, cuMemAdvise(p, n, 0, on_device(0)));
	EXPECT_EQ(INVALID, cuMemAdvise(p, n, 7, on_device(0)));
	EXPECT_EQ(INVALID, cuMemAdvise(p, n, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, on_device(99)));
	EXPECT_EQ(INVALID, cuMemAdvise(p, n, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, on_device(-1)));
	EXPECT_EQ(INVALID, cuMemAdvise(p, n, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
				       at(CU_MEM_LOCATION_TYPE_HOST_NUMA, 9999)));
	EXPECT_EQ(INVALID, cuMemAdvise(p, n, CU_MEM_ADVISE_SET_ACCESSED_BY, on_device(99)));
	EXPECT_EQ(INVALID, cuMemAdvise(p, n, CU_MEM_ADVISE_SET_ACCESSED_BY,
				       at(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0)));
	ASSERT_CU(cuCtxSetCurrent(NULL));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT,
		  cuMemAdvise(p, n, CU_MEM_ADVISE_SET_READ_MOSTLY, on_device(0)));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT,
		  cuMemRangeGetAttribute(by, 4, READ_MOSTLY, p, n));
}

TEST_F(managed, prefetch)
{
	const size_t n = 4 * MIB;
	CUdeviceptr p = managed(n), dev;

	ASSERT_CU(cuMemAlloc(&dev, 65536));
	memset(cpu(p), 3, n);
	EXPECT_CU(cuMemPrefetchAsync(p, n, on_device(0), 0, self->s));
	EXPECT_EQ(0, said(FETCHED, p, n));
	EXPECT_EQ(CU_MEM_LOCATION_TYPE_DEVICE, said(FETCHED_TYPE, p, n));
	EXPECT_EQ(0, said(FETCHED_ID, p, n));
	EXPECT_CU(cuMemPrefetchAsync(p, n / 2, on_host(), 0, self->s));
	EXPECT_EQ(CU_DEVICE_INVALID, said(FETCHED, p, n));
	EXPECT_EQ(CU_DEVICE_CPU, said(FETCHED, p, n / 2));
	EXPECT_EQ(0, said(FETCHED, p + n / 2, n / 2));
	EXPECT_CU(cuMemPrefetchAsync(p, n, at(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0), 0, self->s));
	EXPECT_EQ(CU_DEVICE_CPU, said(FETCHED, p, n));
	EXPECT_EQ(CU_MEM_LOCATION_TYPE_HOST_NUMA, said(FETCHED_TYPE, p, n));
	EXPECT_EQ(0, said(FETCHED_ID, p, n));
	EXPECT_CU(cuMemPrefetchAsync(p, n, at(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 55), 0, 0));
	EXPECT_EQ(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, said(FETCHED_TYPE, p, n));
	EXPECT_CU(cuMemPrefetchAsync(p + 100, 5000, on_device(0), 0, CU_STREAM_PER_THREAD));
	EXPECT_EQ(0, said(FETCHED, p, 2 * PAGE));
	EXPECT_EQ(CU_DEVICE_CPU, said(FETCHED, p + 2 * PAGE, n - 2 * PAGE));

	EXPECT_EQ(INVALID, cuMemPrefetchAsync(p, n, on_device(0), 1, self->s));
	EXPECT_EQ(INVALID, cuMemPrefetchAsync(p, 0, on_device(0), 0, self->s));
	EXPECT_EQ(INVALID, cuMemPrefetchAsync(p, n + 1, on_device(0), 0, self->s));
	EXPECT_EQ(INVALID, cuMemPrefetchAsync(0, n, on_device(0), 0, self->s));
	EXPECT_EQ(INVALID, cuMemPrefetchAsync(dev, 65536, on_device(0), 0, self->s));
	EXPECT_EQ(INVALID, cuMemPrefetchAsync(p, n, at(0, 0), 0, self->s));
	EXPECT_EQ(INVALID, cuMemPrefetchAsync(p, n, at(5, 0), 0, self->s));
	EXPECT_EQ(INVALID, cuMemPrefetchAsync(p, n, at(CU_MEM_LOCATION_TYPE_HOST_NUMA, 9999), 0,
					      self->s));
	EXPECT_EQ(CUDA_ERROR_INVALID_DEVICE, cuMemPrefetchAsync(p, n, on_device(99), 0, self->s));
	EXPECT_EQ(CUDA_ERROR_INVALID_DEVICE, cuMemPrefetchAsync(p, n, on_device(-1), 0, self->s));
	EXPECT_TRUE(sees(p, 3, n));
	EXPECT_CU(cuMemFree(p));
	EXPECT_EQ(INVALID, cuMemPrefetchAsync(p, n, on_device(0), 0, self->s));
}

TEST_F(managed, range_attributes)
{
	CUmem_range_attribute names[3] = { READ_MOSTLY, PREFERRED, ACCESSED_BY };
	CUdeviceptr p = managed(65536), dev;
	int one = 9, two = 9, by[2] = { 9, 9 };
	void *data[3] = { &one, &two, by };
	size_t sizes[3] = { 4, 4, 8 };

	ASSERT_CU(cuMemAlloc(&dev, 4096));
	for (int name = 0; name < 12; name++) {
		bool known = name >= READ_MOSTLY && name <= FETCHED_ID;

		EXPECT_EQ(known ? 0 : INVALID, cuMemRangeGetAttribute(&one, 4, name, p, 65536));
		EXPECT_EQ(INVALID, cuMemRangeGetAttribute(NULL, 4, name, p, 65536));
		EXPECT_EQ(INVALID, cuMemRangeGetAttribute(&one, 0, name, p, 65536));
		EXPECT_EQ(INVALID, cuMemRangeGetAttribute(&one, 2, name, p, 65536));
		EXPECT_EQ(name == ACCESSED_BY ? 0 : INVALID,
			  cuMemRangeGetAttribute(by, 8, name, p, 65536));
		EXPECT_EQ(INVALID, cuMemRangeGetAttribute(&one, 4, name, p, 0));
		EXPECT_EQ(INVALID, cuMemRangeGetAttribute(&one, 4, name, p, 65536 + 4096));
		EXPECT_EQ(INVALID, cuMemRangeGetAttribute(&one, 4, name, 0, 65536));
		EXPECT_EQ(INVALID, cuMemRangeGetAttribute(&one, 4, name, dev, 4096));
	}
	EXPECT_CU(cuMemRangeGetAttributes(data, sizes, names, 3, p, 65536));
	EXPECT_EQ(0, one);
	EXPECT_EQ(CU_DEVICE_INVALID, two);
	EXPECT_EQ(CU_DEVICE_INVALID, by[0]);
	EXPECT_EQ(CU_DEVICE_INVALID, by[1]);
	EXPECT_EQ(INVALID, cuMemRangeGetAttributes(data, sizes, names, 0, p, 65536));
	EXPECT_EQ(INVALID, cuMemRangeGetAttributes(NULL, sizes, names, 3, p, 65536));
	EXPECT_EQ(INVALID, cuMemRangeGetAttributes(data, NULL, names, 3, p, 65536));
	EXPECT_EQ(INVALID, cuMemRangeGetAttributes(data, sizes, NULL, 3, p, 65536));
	/* The call writes all values or, on an error, none. */
	one = 5;
	names[1] = 77;
	EXPECT_EQ(INVALID, cuMemRangeGetAttributes(data, sizes, names, 3, p, 65536));
	names[1] = PREFERRED;
	sizes[1] = 3;
	EXPECT_EQ(INVALID, cuMemRangeGetAttributes(data, sizes, names, 3, p, 65536));
	EXPECT_EQ(5, one);
}

/* The first forms of the functions, which take a device instead of a location. */
TEST_F(managed, by_device)
{
	CUresult (*advise)(CUdeviceptr, size_t, CUmem_advise, CUdevice);
	CUresult (*prefetch)(CUdeviceptr, size_t, CUdevice, CUstream);
	CUdriverProcAddressQueryResult status;
	CUdeviceptr p = managed(65536);

	ASSERT_CU(cuGetProcAddress("cuMemAdvise", (void **)&advise, 8000, 0, &status));
	ASSERT_CU(cuGetProcAddress("cuMemPrefetchAsync", (void **)&prefetch, 8000, 0, &status));
	EXPECT_CU(advise(p, 65536, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 0));
	EXPECT_EQ(CU_MEM_LOCATION_TYPE_DEVICE, said(PREFERRED_TYPE, p, 65536));
	EXPECT_CU(advise(p, 65536, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU));
	EXPECT_EQ(CU_MEM_LOCATION_TYPE_HOST, said(PREFERRED_TYPE, p, 65536));
	EXPECT_EQ(INVALID, advise(p, 65536, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 99));
	EXPECT_CU(prefetch(p, 65536, 0, self->s));
	EXPECT_EQ(0, said(FETCHED, p, 65536));
	EXPECT_CU(prefetch(p, 65536, CU_DEVICE_CPU, self->s));
	EXPECT_EQ(CU_DEVICE_CPU, said(FETCHED, p, 65536));
	EXPECT_EQ(CUDA_ERROR_INVALID_DEVICE, prefetch(p, 65536, 99, self->s));
}

/* A new owner of an address does not inherit the advice for the old one. */
TEST_F(managed, forgotten)
{
	CUdeviceptr keep = managed(512), p = managed(512), again;
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	CUmemoryPool pool;

	ASSERT_CU(cuMemAdvise(p, 512, CU_MEM_ADVISE_SET_READ_MOSTLY, on_device(0)));
	/* Two allocations on one page have advice of their own. */
	EXPECT_EQ(1, said(READ_MOSTLY, p, 512));
	EXPECT_TRUE(nothing_said(keep, 512));
	ASSERT_CU(cuMemFree(p));
	again = managed(512);
	EXPECT_EQ(p, again);
	EXPECT_TRUE(nothing_said(again, 512));

	ASSERT_CU(cuMemPoolCreate(&pool, &props));
	ASSERT_CU(cuMemAllocFromPoolAsync(&p, 65536, pool, self->s));
	/* It prefers the pool's location and takes no advice. */
	EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED,
		  cuMemAdvise(p, 65536, CU_MEM_ADVISE_SET_READ_MOSTLY, on_device(0)));
	EXPECT_EQ(0, said(PREFERRED, p, 65536));
	EXPECT_EQ(CU_DEVICE_INVALID, said(FETCHED, p, 65536));
	EXPECT_CU(cuMemPrefetchAsync(p, 65536, on_host(), 0, self->s));
	EXPECT_EQ(CU_DEVICE_CPU, said(FETCHED, p, 65536));
	EXPECT_EQ(0, said(PREFERRED, p, 65536));
	EXPECT_EQ(INVALID, cuStreamAttachMemAsync(self->s, p, 0, CU_MEM_ATTACH_GLOBAL));
	EXPECT_CU(cuMemFreeAsync(p, self->s));
	ASSERT_CU(cuMemAllocFromPoolAsync(&again, 65536, pool, self->s));
	EXPECT_EQ(p, again);
	EXPECT_EQ(CU_DEVICE_INVALID, said(FETCHED, again, 65536));
	EXPECT_CU(cuMemFreeAsync(again, self->s));
	EXPECT_CU(cuMemPoolDestroy(pool));
}

/* --- random advice against a model of pages */

#define PAGES	40u

struct page {
	bool read_mostly;
	unsigned int by;	/* bit 0: the device, bit 1: the host */
	int preferred, fetched;	/* CU_MEM_LOCATION_TYPE_DEVICE or HOST, or 0 */
};

static int number(int type)
{
	return type == CU_MEM_LOCATION_TYPE_DEVICE ? 0 :
	       type == CU_MEM_LOCATION_TYPE_HOST ? CU_DEVICE_CPU : CU_DEVICE_INVALID;
}

static bool agrees(const struct page *page, CUdeviceptr p, size_t n, unsigned int first,
		   unsigned int count)
{
	int preferred = page[first].preferred, fetched = page[first].fetched, by[3];
	bool preferred_same = true, fetched_same = true, read_mostly = true;
	unsigned int all = 3;

	for (unsigned int i = first; i < first + count; i++) {
		read_mostly = read_mostly && page[i].read_mostly;
		all &= page[i].by;
		preferred_same = preferred_same && page[i].preferred == preferred;
		fetched_same = fetched_same && page[i].fetched == fetched;
	}
	preferred = preferred_same ? preferred : 0;
	fetched = fetched_same ? fetched : 0;
	if (cuMemRangeGetAttribute(by, sizeof(by), ACCESSED_BY, p, n))
		return false;
	return said(READ_MOSTLY, p, n) == read_mostly &&
	       said(PREFERRED, p, n) == number(preferred) &&
	       said(PREFERRED_TYPE, p, n) == preferred &&
	       said(PREFERRED_ID, p, n) == number(preferred) &&
	       said(FETCHED, p, n) == number(fetched) && said(FETCHED_TYPE, p, n) == fetched &&
	       by[0] == (all & 1 ? 0 : all & 2 ? CU_DEVICE_CPU : CU_DEVICE_INVALID) &&
	       by[1] == (all == 3 ? CU_DEVICE_CPU : CU_DEVICE_INVALID) &&
	       by[2] == CU_DEVICE_INVALID;
}

static CUresult say(struct page *page, struct rng *rng, CUdeviceptr p, size_t n,
		    unsigned int first, unsigned int count)
{
	bool host = rng_below(rng, 2);
	CUmemLocation where = host ? on_host() : on_device(0);
	int what = rng_below(rng, 7);

	for (unsigned int i = first; i < first + count; i++) {
		switch (what) {
		case 0:
			page[i].fetched = where.type;
			break;
		case CU_MEM_ADVISE_SET_READ_MOSTLY:
		case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
			page[i].read_mostly = what == CU_MEM_ADVISE_SET_READ_MOSTLY;
			break;
		case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
			page[i].preferred = where.type;
			break;
		case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
			page[i].preferred = 0;
			break;
		case CU_MEM_ADVISE_SET_ACCESSED_BY:
			page[i].by |= 1u << host;
			break;
		default:
			page[i].by &= ~(1u << host);
			break;
		}
	}
	return what ? cuMemAdvise(p, n, what, where) : cuMemPrefetchAsync(p, n, where, 0, 0);
}

TEST_F(managed, model)
{
	__u64 steps = env_number("GPUMEM_STEPS", 5000);
	CUdeviceptr p = managed(PAGES * PAGE - 100);
	struct page page[PAGES] = { 0 };
	struct rng rng;

	rng_start(&rng, "advice");
	for (__u64 i = 0; i < steps; i++) {
		__u64 from = rng_below(&rng, PAGES * PAGE - 100);
		__u64 n = 1 + rng_below(&rng, PAGES * PAGE - 100 - from);
		unsigned int first, count;

		/* Half of the ranges are short, so that the attributes change often. */
		if (rng_below(&rng, 2))
			n = 1 + (n - 1) % (3 * PAGE);
		first = from / PAGE;
		count = (from + n - 1) / PAGE - first + 1;
		if (rng_below(&rng, 2)) {
			ASSERT_CU(say(page, &rng, p + from, n, first, count));
			continue;
		}
		ASSERT_TRUE(agrees(page, p + from, n, first, count)) {
			TH_LOG("step %llu: pages %u to %u", (unsigned long long)i, first,
			       first + count - 1);
		}
	}
}

/* --- threads */

static void *churn(void *arg)
{
	CUcontext ctx = *(CUcontext *)arg;
	CUdeviceptr p;

	if (cuCtxSetCurrent(ctx))
		return "no context";
	for (int i = 0; i < 200; i++) {
		size_t n = 512 << (i % 6);

		if (cuMemAllocManaged(&p, n, CU_MEM_ATTACH_GLOBAL))
			return "no memory";
		if (!nothing_said(p, n))
			return "not new";
		if (cuMemAdvise(p, n, CU_MEM_ADVISE_SET_READ_MOSTLY, on_device(0)) ||
		    said(READ_MOSTLY, p, n) != 1)
			return "not kept";
		memset(cpu(p), i, n);
		if (!all_are(cpu(p), i, n))
			return "not its own";
		if (cuMemFree(p))
			return "not freed";
	}
	return NULL;
}

TEST_F(managed, threads)
{
	pthread_t thread[4];
	void *complaint;

	for (unsigned int i = 0; i < ARRAY_SIZE(thread); i++)
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, churn, &self->ctx));
	for (unsigned int i = 0; i < ARRAY_SIZE(thread); i++) {
		ASSERT_EQ(0, pthread_join(thread[i], &complaint));
		EXPECT_EQ(NULL, complaint) {
			TH_LOG("%s", (char *)complaint);
		}
	}
}

/* --- the runtime API */

TEST_F(managed, runtime)
{
	struct cudaMemLocation device = { .type = cudaMemLocationTypeDevice };
	struct cudaPointerAttributes attributes;
	int value = 9;
	void *p;

	ASSERT_RT(cudaMallocManaged(&p, 100000, cudaMemAttachGlobal));
	EXPECT_RT(cudaPointerGetAttributes(&attributes, p));
	EXPECT_EQ(cudaMemoryTypeManaged, attributes.type);
	EXPECT_EQ(p, attributes.devicePointer);
	EXPECT_EQ(p, attributes.hostPointer);
	memset(p, 1, 100000);
	EXPECT_RT(cudaMemset(p, 2, 100000));
	EXPECT_TRUE(all_are(p, 2, 100000));
	EXPECT_RT(cudaMemAdvise(p, 100000, cudaMemAdviseSetReadMostly, device));
	EXPECT_RT(cudaMemRangeGetAttribute(&value, 4, cudaMemRangeAttributeReadMostly, p, 100000));
	EXPECT_EQ(1, value);
	EXPECT_RT(cudaMemPrefetchAsync(p, 100000, device, 0, self->s));
	EXPECT_RT(cudaStreamAttachMemAsync(self->s, p, 0, cudaMemAttachSingle));
	EXPECT_FAILS(BAD, cudaStreamAttachMemAsync(0, p, 0, cudaMemAttachSingle));
	EXPECT_FAILS(BAD, cudaMallocManaged(&p, 100000, 0));
	EXPECT_RT(cudaFree(p));
}

TEST_HARNESS_MAIN
