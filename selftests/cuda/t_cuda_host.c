// SPDX-License-Identifier: GPL-2.0
/*
 * Host memory by the CUDA API: pinned allocations and registrations, what queries return for them,
 * and copies and fills of them.
 *
 * The expected results are those recorded on a real device.
 */
#include <sys/mman.h>

#include "kselftest_harness.h"
#include "host_fixture.h"

#define ALREADY		CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
#define NOT_REGISTERED	CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED
#define RW		(PROT_READ | PROT_WRITE)
#define ANON		(MAP_PRIVATE | MAP_ANONYMOUS)

FIXTURE(host)
{
	CUcontext ctx;
	CUdeviceptr dev;
	unsigned char *mem;	/* 1 MiB of ordinary memory */
};

/* Bytes of host memory that the library itself uses: in strict mode its staging memory. */
static long long staging;

static long long mine_used(void)
{
	return host_used() - staging;
}

FIXTURE_SETUP(host)
{
	ASSERT_TRUE(dev_quiet(10));
	ASSERT_EQ(0, mine_used());
	ASSERT_CU(cuda_start(&self->ctx));
	ASSERT_CU(cuMemAlloc(&self->dev, MIB));
	staging = mine_used();
	ASSERT_EQ(strict() ? 2 * (long long)MIB : 0, staging);
	self->mem = mmap(NULL, MIB, RW, ANON, -1, 0);
	ASSERT_NE(MAP_FAILED, self->mem);
}

HOST_AFTERWARDS(host)

/* Write a pattern to memory of any kind. */
static void put_pattern(CUdeviceptr p, size_t n, unsigned int seed)
{
	unsigned char *bytes = malloc(n);

	if (!bytes)
		abort();
	pattern(bytes, n, seed);
	put(p, bytes, n);
	free(bytes);
}

/* Registrations that the kernel counts for this process. */
static long long pins(void)
{
	struct gpumem_stats stats;

	return client_stats(&stats) ? -1 : (long long)stats.pins;
}

static CUdeviceptr ptr(const void *p)
{
	return (uintptr_t)p;
}

/* --- pinned allocations */

TEST_F(host, alloc_flags)
{
	void *p;

	for (unsigned int flags = 0; flags < 8; flags++) {
		unsigned int got = 99;
		CUdeviceptr d = 0;

		ASSERT_CU(cuMemHostAlloc(&p, 8192, flags));
		EXPECT_CU(cuMemHostGetFlags(&got, p));
		EXPECT_EQ(flags | CU_MEMHOSTALLOC_DEVICEMAP, got);
		EXPECT_CU(cuMemHostGetDevicePointer(&d, p, 0));
		EXPECT_EQ(ptr(p), d);
		pattern(p, 8192, flags);
		EXPECT_CU(cuMemcpyDtoD(self->dev, d, 8192));
		EXPECT_CU(cuCtxSynchronize());
		EXPECT_TRUE(has_pattern(view(self->dev, 8192), 8192, flags));
		EXPECT_CU(cuMemFreeHost(p));
	}
	for (unsigned int flags = 8; flags; flags <<= 1) {
		p = &p;
		EXPECT_EQ(INVALID, cuMemHostAlloc(&p, 4096, flags | 1));
		EXPECT_EQ(NULL, p);
	}
	EXPECT_EQ(0, mine_used());
}

TEST_F(host, alloc_errors)
{
	const size_t impossible[] = {
		1ULL << 62, SIZE_MAX, 1ULL << 63, (1ULL << 40) + 1, 1ULL << 39,
	};
	void *p = self;

	EXPECT_CU(cuMemHostAlloc(&p, 0, 0));
	EXPECT_EQ(NULL, p);
	p = self;
	EXPECT_CU(cuMemAllocHost(&p, 0));
	EXPECT_EQ(NULL, p);
	EXPECT_EQ(INVALID, cuMemHostAlloc(NULL, 4096, 0));
	EXPECT_EQ(INVALID, cuMemHostAlloc(NULL, 0, 0));
	EXPECT_EQ(INVALID, cuMemAllocHost(NULL, 4096));
	for (unsigned int i = 0; i < ARRAY_SIZE(impossible); i++) {
		p = self;
		EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cuMemHostAlloc(&p, impossible[i], 0));
		EXPECT_EQ(NULL, p);
		EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cuMemAllocHost(&p, impossible[i]));
	}
	ASSERT_CU(cuCtxSetCurrent(NULL));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemHostAlloc(&p, 4096, 0));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemHostAlloc(NULL, 0, ~0U));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemAllocHost(&p, 4096));
	EXPECT_EQ(0, mine_used());
}

TEST_F(host, sizes)
{
	const size_t sizes[] = {
		1, 100, 4095, 4096, 4097, 65536, MIB, 2 * MIB, 2 * MIB + 1, 5000001,
	};
	CUdeviceptr dev;

	ASSERT_CU(cuMemAlloc(&dev, 5000001));
	for (unsigned int i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t n = sizes[i], size = 0;
		CUdeviceptr base = 0;
		unsigned char *p;

		ASSERT_CU(cuMemAllocHost((void **)&p, n));
		EXPECT_EQ(0, ptr(p) % 512);
		EXPECT_TRUE(all_are(p, 0, n));
		EXPECT_CU(cuMemGetAddressRange(&base, &size, ptr(p) + n - 1));
		EXPECT_EQ(ptr(p), base);
		EXPECT_EQ(n, size);
		EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &size, ptr(p) + n));
		EXPECT_EQ(whole_slots(n), mine_used());
		pattern(p, n, i);
		EXPECT_CU(cuMemcpyHtoD(dev, p, n));
		EXPECT_EQ(INVALID, cuMemcpyHtoD(dev, p, n + 1));
		memset(p, 0, n);
		EXPECT_CU(cuMemcpyDtoH(p, dev, n));
		EXPECT_TRUE(has_pattern(p, n, i));
		EXPECT_CU(cuMemFreeHost(p));
		EXPECT_EQ(0, mine_used());
	}
}

/* Many small allocations share blocks; freed memory comes back zeroed. */
TEST_F(host, shared_blocks)
{
	unsigned char *p[600];
	long long peak;

	for (int round = 0; round < 2; round++) {
		for (unsigned int i = 0; i < ARRAY_SIZE(p); i++) {
			ASSERT_CU(cuMemAllocHost((void **)&p[i], 4096));
			ASSERT_TRUE(all_are(p[i], 0, 4096));
			memset(p[i], i + 1, 4096);
		}
		for (unsigned int i = 0; i < ARRAY_SIZE(p); i++)
			ASSERT_TRUE(all_are(p[i], i + 1, 4096));
		peak = mine_used();
		EXPECT_EQ(4 * MIB, peak);
		/* All but one, so that the second round meets used memory. */
		for (unsigned int i = round ? 0 : 1; i < ARRAY_SIZE(p); i++)
			ASSERT_CU(cuMemFreeHost(p[i]));
		if (!round)
			EXPECT_EQ(2 * MIB, mine_used());
	}
	EXPECT_EQ(2 * MIB, mine_used());
}

TEST_F(host, free_errors)
{
	unsigned char *p;
	void *m = malloc(100);

	ASSERT_CU(cuMemAllocHost((void **)&p, 10000));
	EXPECT_CU(cuMemFreeHost(NULL));
	EXPECT_EQ(INVALID, cuMemFreeHost(p + 64));
	EXPECT_EQ(INVALID, cuMemFreeHost(p + 4096));
	EXPECT_EQ(INVALID, cuMemFreeHost(p + 10000));
	EXPECT_EQ(INVALID, cuMemFreeHost(m));
	EXPECT_EQ(INVALID, cuMemFreeHost(cpu(self->dev)));
	EXPECT_EQ(INVALID, cuMemFree(ptr(p)));
	EXPECT_CU(cuMemsetD8(self->dev, 0, 4096));
	ASSERT_CU(cuMemHostRegister(self->mem, 8192, 0));
	EXPECT_EQ(INVALID, cuMemFreeHost(self->mem));
	EXPECT_EQ(INVALID, cuMemFree(ptr(self->mem)));
	EXPECT_CU(cuMemHostUnregister(self->mem));
	EXPECT_CU(cuMemFreeHost(p));
	EXPECT_EQ(INVALID, cuMemFreeHost(p));
	ASSERT_CU(cuMemAllocHost((void **)&p, 4096));
	ASSERT_CU(cuCtxSetCurrent(NULL));
	EXPECT_CU(cuMemFreeHost(p));
	EXPECT_EQ(INVALID, cuMemFreeHost(p));
	free(m);
}

TEST_F(host, get_pointer)
{
	unsigned int flags = 99;
	CUdeviceptr d = 77;
	unsigned char *p;
	void *m = malloc(64);

	ASSERT_CU(cuMemHostAlloc((void **)&p, 20000, CU_MEMHOSTALLOC_DEVICEMAP));
	EXPECT_CU(cuMemHostGetDevicePointer(&d, p + 5000, 0));
	EXPECT_EQ(ptr(p) + 5000, d);
	EXPECT_CU(cuMemHostGetDevicePointer(&d, p + 19999, 0));
	EXPECT_EQ(ptr(p) + 19999, d);
	EXPECT_EQ(INVALID, cuMemHostGetDevicePointer(&d, p + 20000, 0));
	EXPECT_EQ(INVALID, cuMemHostGetDevicePointer(&d, p, 1));
	EXPECT_EQ(INVALID, cuMemHostGetDevicePointer(NULL, p, 0));
	EXPECT_EQ(INVALID, cuMemHostGetDevicePointer(&d, NULL, 0));
	d = 77;
	EXPECT_EQ(INVALID, cuMemHostGetDevicePointer(&d, m, 0));
	EXPECT_EQ(0, d);
	EXPECT_EQ(INVALID, cuMemHostGetDevicePointer(&d, cpu(self->dev), 0));
	EXPECT_CU(cuMemHostGetFlags(&flags, p + 100));
	EXPECT_EQ(2, flags);
	EXPECT_EQ(INVALID, cuMemHostGetFlags(&flags, m));
	EXPECT_EQ(INVALID, cuMemHostGetFlags(&flags, cpu(self->dev)));
	EXPECT_EQ(INVALID, cuMemHostGetFlags(NULL, p));
	EXPECT_EQ(INVALID, cuMemHostGetFlags(&flags, NULL));
	ASSERT_CU(cuCtxSetCurrent(NULL));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemHostGetDevicePointer(&d, p, 0));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemHostGetFlags(&flags, p));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_CU(cuMemFreeHost(p));
	EXPECT_EQ(INVALID, cuMemHostGetDevicePointer(&d, p, 0));
	EXPECT_EQ(INVALID, cuMemHostGetFlags(&flags, p));
	free(m);
}

/* A context takes its host memory and registrations with it, and not those of other contexts. */
TEST_F(host, contexts)
{
	unsigned int flags = 0;
	void *p, *q, *gone;
	CUcontext other;

	ASSERT_CU(cuMemHostAlloc(&p, 4096, 0));
	ASSERT_CU(cuMemHostAlloc(&q, 4 * MIB, CU_MEMHOSTALLOC_PORTABLE));
	ASSERT_CU(cuMemHostRegister(self->mem, 4096, 0));
	EXPECT_CU(cuMemHostGetFlags(&flags, q));
	EXPECT_EQ(3, flags);
	ASSERT_CU(cuCtxCreate(&other, NULL, 0, 0));
	EXPECT_CU(cuMemHostGetFlags(&flags, p));
	EXPECT_EQ(2, flags);
	/* Only the context that owns the memory gets the flag PORTABLE. */
	EXPECT_CU(cuMemHostGetFlags(&flags, q));
	EXPECT_EQ(2, flags);
	EXPECT_CU(cuMemFreeHost(q));
	ASSERT_CU(cuMemHostAlloc(&gone, 3 * MIB, 0));
	ASSERT_CU(cuMemHostAlloc(&q, 100, 0));
	ASSERT_CU(cuMemHostRegister(self->mem + 8192, 4096, 0));
	EXPECT_EQ(2, pins());
	ASSERT_CU(cuCtxDestroy(other));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_EQ(INVALID, cuMemFreeHost(gone));
	EXPECT_EQ(INVALID, cuMemFreeHost(q));
	EXPECT_EQ(NOT_REGISTERED, cuMemHostUnregister(self->mem + 8192));
	EXPECT_EQ(1, pins());
	EXPECT_EQ(2 * MIB, mine_used());
	EXPECT_CU(cuMemFreeHost(p));
	EXPECT_CU(cuMemHostUnregister(self->mem));
	EXPECT_EQ(0, pins());
	EXPECT_EQ(0, mine_used());
}

/* --- registration */

TEST_F(host, register_basic)
{
	const struct {
		size_t at, n;
		unsigned int flags, reported;
	} cases[] = {
		{ 0, 65536, 0, 2 }, { 0, 65536, 1, 3 }, { 0, 65536, 2, 2 }, { 0, 65536, 3, 3 },
		{ 0, 65536, 8, 2 }, { 13, 10000, 0, 2 }, { 4095, 1, 0, 2 }, { 4096, 4097, 0, 2 },
		{ 0, MIB, 0, 2 },
	};

	pattern(self->mem, MIB, 1);
	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		unsigned char *p = self->mem + cases[i].at;
		size_t n = cases[i].n, size = 0;
		CUdeviceptr d = 0;
		unsigned int flags = 99;

		ASSERT_CU(cuMemHostRegister(p, n, cases[i].flags));
		EXPECT_EQ(1, pins());
		EXPECT_CU(cuMemHostGetFlags(&flags, p));
		EXPECT_EQ(cases[i].reported, flags);
		EXPECT_CU(cuMemHostGetDevicePointer(&d, p + n - 1, 0));
		EXPECT_EQ(ptr(p) + n - 1, d);
		EXPECT_CU(cuMemGetAddressRange(&d, &size, ptr(p) + n / 2));
		EXPECT_EQ(ptr(p), d);
		EXPECT_EQ(n, size);
		EXPECT_CU(cuMemsetD8(self->dev, 0, MIB));
		EXPECT_CU(cuMemcpyHtoD(self->dev, p, n));
		EXPECT_EQ(0, memcmp(view(self->dev, n), p, n));
		EXPECT_CU(cuMemHostUnregister(p));
		EXPECT_EQ(NOT_REGISTERED, cuMemHostUnregister(p));
		EXPECT_EQ(INVALID, cuMemHostGetFlags(&flags, p));
		EXPECT_EQ(INVALID, cuMemHostGetDevicePointer(&d, p, 0));
	}
	EXPECT_TRUE(has_pattern(self->mem, MIB, 1));
	EXPECT_EQ(0, pins());
}

/* With page tables of five levels a program that asks for it has memory above 2^47. */
TEST_F(host, register_high)
{
	void *hint = (void *)(1ULL << 50);
	unsigned char *p = mmap(hint, MIB, RW, ANON, -1, 0);
	unsigned int type = 0;
	CUdeviceptr d = 0;

	ASSERT_NE(MAP_FAILED, p);
	if (p != hint)
		SKIP(return, "no page tables of five levels");
	pattern(p, MIB, 3);
	ASSERT_CU(cuMemHostRegister(p, MIB, 0));
	EXPECT_EQ(1, pins());
	EXPECT_CU(cuMemHostGetDevicePointer(&d, p + 5, 0));
	EXPECT_EQ(ptr(p) + 5, d);
	EXPECT_CU(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, ptr(p) + MIB - 1));
	EXPECT_EQ(CU_MEMORYTYPE_HOST, type);
	EXPECT_CU(cuMemcpyHtoD(self->dev, p, MIB));
	EXPECT_EQ(0, memcmp(view(self->dev, MIB), p, MIB));
	EXPECT_CU(cuMemHostUnregister(p));
	EXPECT_EQ(0, pins());
	EXPECT_EQ(NOT_REGISTERED, cuMemHostUnregister(p));
	EXPECT_EQ(0, munmap(p, MIB));
}

TEST_F(host, register_errors)
{
	unsigned char *p = self->mem, *q;
	void *pinned;

	EXPECT_EQ(INVALID, cuMemHostRegister(p, 0, 0));
	EXPECT_EQ(INVALID, cuMemHostRegister(NULL, 4096, 0));
	EXPECT_EQ(INVALID, cuMemHostRegister(NULL, 0, 0));
	EXPECT_EQ(INVALID, cuMemHostRegister(p, 4096, 0x10));
	EXPECT_EQ(INVALID, cuMemHostRegister(p, 4096, 0x80000000U));
	EXPECT_EQ(INVALID, cuMemHostRegister(p, SIZE_MAX, 0));
	EXPECT_EQ(INVALID, cuMemHostRegister(p, 4096, CU_MEMHOSTREGISTER_IOMEMORY));
	EXPECT_EQ(0, pins());
	ASSERT_CU(cuMemHostRegister(p + 65536, 65536, 0));
	EXPECT_EQ(ALREADY, cuMemHostRegister(p + 65536, 65536, 0));
	EXPECT_EQ(ALREADY, cuMemHostRegister(p + 65536, 4096, 0));
	EXPECT_EQ(ALREADY, cuMemHostRegister(p + 65536, 131072, 0));
	EXPECT_EQ(ALREADY, cuMemHostRegister(p + 69632, 4096, 0));
	EXPECT_EQ(ALREADY, cuMemHostRegister(p + 61440, 8192, 0));
	EXPECT_EQ(ALREADY, cuMemHostRegister(p + 126976, 8192, 0));
	EXPECT_EQ(ALREADY, cuMemHostRegister(p, 262144, 0));
	EXPECT_EQ(ALREADY, cuMemHostRegister(p + 65535, 2, 0));
	EXPECT_EQ(ALREADY, cuMemHostRegister(p + 131071, 1, 0));
	EXPECT_CU(cuMemHostRegister(p + 131072, 4096, 0));
	EXPECT_CU(cuMemHostUnregister(p + 131072));
	EXPECT_EQ(INVALID, cuMemHostUnregister(p + 69632));
	EXPECT_EQ(INVALID, cuMemHostUnregister(p + 65537));
	EXPECT_EQ(NOT_REGISTERED, cuMemHostUnregister(p + 61440));
	EXPECT_EQ(INVALID, cuMemHostUnregister(NULL));
	EXPECT_EQ(NOT_REGISTERED, cuMemHostUnregister(p));
	ASSERT_CU(cuCtxSetCurrent(NULL));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemHostRegister(p, 4096, 0));
	EXPECT_CU(cuMemHostUnregister(p + 65536));
	EXPECT_EQ(NOT_REGISTERED, cuMemHostUnregister(p + 65536));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	/* Memory that the library allocated. */
	ASSERT_CU(cuMemAllocHost(&pinned, 8192));
	EXPECT_EQ(INVALID, cuMemHostRegister(pinned, 4096, 0));
	EXPECT_EQ(INVALID, cuMemHostUnregister(pinned));
	EXPECT_CU(cuMemFreeHost(pinned));
	EXPECT_EQ(INVALID, cuMemHostRegister(pinned, 4096, 0));
	EXPECT_EQ(INVALID, cuMemHostRegister(cpu(self->dev), 4096, 0));
	EXPECT_EQ(INVALID, cuMemHostUnregister(cpu(self->dev)));
	/* Addresses without memory. */
	EXPECT_EQ(INVALID, cuMemHostRegister((void *)0x10000000000ULL, 4096, 0));
	q = mmap(NULL, 12288, RW, ANON, -1, 0);
	ASSERT_NE(MAP_FAILED, q);
	munmap(q + 4096, 4096);
	EXPECT_EQ(INVALID, cuMemHostRegister(q, 12288, 0));
	EXPECT_CU(cuMemHostRegister(q, 4096, 0));
	EXPECT_CU(cuMemHostUnregister(q));
	ASSERT_EQ(0, mprotect(q, 4096, PROT_NONE));
	EXPECT_EQ(INVALID, cuMemHostRegister(q, 4096, 0));
	EXPECT_EQ(INVALID, cuMemHostRegister(q, 4096, CU_MEMHOSTREGISTER_READ_ONLY));
	EXPECT_EQ(0, pins());
}

TEST_F(host, same_page)
{
	unsigned char *p = self->mem;
	CUdeviceptr d;
	size_t n;

	EXPECT_CU(cuMemHostRegister(p, 100, 0));
	EXPECT_CU(cuMemHostRegister(p + 200, 100, 0));
	EXPECT_CU(cuMemHostRegister(p + 4000, 200, 0));
	EXPECT_EQ(INVALID, cuMemHostGetDevicePointer(&d, p + 150, 0));
	EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&d, &n, ptr(p) + 199));
	EXPECT_CU(cuMemGetAddressRange(&d, &n, ptr(p) + 299));
	EXPECT_EQ(ptr(p) + 200, d);
	EXPECT_EQ(100, n);
	EXPECT_CU(cuMemHostUnregister(p + 200));
	EXPECT_CU(cuMemHostUnregister(p + 4000));
	EXPECT_CU(cuMemHostUnregister(p));
}

TEST_F(host, read_only)
{
	unsigned char *p = self->mem;

	pattern(p, 65536, 4);
	ASSERT_EQ(0, mprotect(p, 65536, PROT_READ));
	EXPECT_EQ(INVALID, cuMemHostRegister(p, 65536, 0));
	ASSERT_CU(cuMemHostRegister(p, 65536, CU_MEMHOSTREGISTER_READ_ONLY));
	EXPECT_CU(cuMemcpyHtoD(self->dev, p, 65536));
	EXPECT_TRUE(has_pattern(view(self->dev, 65536), 65536, 4));
	/* The calls are refused, and the context still works. */
	EXPECT_EQ(INVALID, cuMemcpyDtoH(p, self->dev, 1));
	EXPECT_EQ(INVALID, cuMemsetD8(ptr(p), 1, 1));
	EXPECT_CU(cuCtxSynchronize());
	EXPECT_TRUE(has_pattern(p, 65536, 4));
	EXPECT_CU(cuMemHostUnregister(p));
}

/* Pages that are not memory: the vvar pages that the kernel maps into every process. */
TEST_F(host, io_memory)
{
	unsigned long start = 0, end = 0;
	char line[512];
	FILE *f = fopen("/proc/self/maps", "re");
	unsigned char *p;

	ASSERT_NE(NULL, f);
	while (fgets(line, sizeof(line), f)) {
		if (strstr(line, "[vvar]"))
			ASSERT_EQ(2, sscanf(line, "%lx-%lx", &start, &end));
	}
	fclose(f);
	ASSERT_NE(0, start);
	p = (void *)start;
	EXPECT_EQ(INVALID, cuMemHostRegister(p, 64, 0));
	ASSERT_CU(cuMemHostRegister(p, 64, CU_MEMHOSTREGISTER_IOMEMORY));
	EXPECT_EQ(0, pins());
	EXPECT_EQ(ALREADY, cuMemHostRegister(p + 63, 1, CU_MEMHOSTREGISTER_IOMEMORY));
	EXPECT_CU(cuMemcpyHtoD(self->dev, p, 64));
	EXPECT_EQ(INVALID, cuMemcpyHtoD(self->dev, p, 65));
	EXPECT_CU(cuMemHostUnregister(p));
	EXPECT_EQ(NOT_REGISTERED, cuMemHostUnregister(p));
	/* IOMEMORY refuses ordinary memory and addresses without a mapping. */
	EXPECT_EQ(INVALID, cuMemHostRegister(self->mem, 64, CU_MEMHOSTREGISTER_IOMEMORY));
	EXPECT_EQ(INVALID, cuMemHostRegister((void *)0x10000000000ULL, 64,
					     CU_MEMHOSTREGISTER_IOMEMORY));
}

TEST_F(host, file_maps)
{
	int fd = memfd_create("host", MFD_CLOEXEC);
	unsigned char *p, *q;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ftruncate(fd, 65536));
	p = mmap(NULL, 65536, RW, MAP_SHARED, fd, 0);
	q = mmap(NULL, 65536, RW, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, p);
	ASSERT_NE(MAP_FAILED, q);
	EXPECT_CU(cuMemHostRegister(p, 65536, 0));
	EXPECT_CU(cuMemHostRegister(q, 65536, 0));
	put_pattern(self->dev, 65536, 8);
	EXPECT_CU(cuMemcpyDtoH(p, self->dev, 65536));
	EXPECT_TRUE(has_pattern(q, 65536, 8));
	EXPECT_CU(cuMemHostUnregister(q));
	EXPECT_CU(cuMemHostUnregister(p));
	p = mmap(NULL, 65536, RW, MAP_PRIVATE, fd, 0);
	ASSERT_NE(MAP_FAILED, p);
	EXPECT_CU(cuMemHostRegister(p, 65536, 0));
	EXPECT_CU(cuMemHostUnregister(p));
}

/* A thousand registrations in random order: lookups find each, and nothing between them. */
TEST_F(host, many)
{
	enum { COUNT = 1000, STEP = 1000, BYTES = 700 };
	unsigned int order[COUNT];
	struct rng rng;

	rng_start(&rng, "many");
	for (unsigned int i = 0; i < COUNT; i++) {
		unsigned int j = rng_below(&rng, i + 1);

		order[i] = order[j];
		order[j] = i;
	}
	for (unsigned int i = 0; i < COUNT; i++)
		ASSERT_CU(cuMemHostRegister(self->mem + order[i] * STEP, BYTES, 0));
	EXPECT_EQ(COUNT, pins());
	for (unsigned int i = 0; i < COUNT; i++) {
		CUdeviceptr at = ptr(self->mem) + i * STEP, base = 0;
		size_t size = 0;

		ASSERT_CU(cuMemGetAddressRange(&base, &size, at + i % BYTES));
		ASSERT_EQ(at, base);
		ASSERT_EQ(BYTES, size);
		ASSERT_EQ(CUDA_ERROR_NOT_FOUND, cuMemGetAddressRange(&base, &size, at + BYTES));
	}
	for (unsigned int i = 0; i < COUNT; i += 2)
		ASSERT_CU(cuMemHostUnregister(self->mem + order[i] * STEP));
	for (unsigned int i = 0; i < COUNT; i++)
		ASSERT_EQ(i % 2 ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND,
			  cuMemGetAddressRange(NULL, &(size_t) { 0 },
					       ptr(self->mem) + order[i] * STEP + 5));
	EXPECT_EQ(COUNT / 2, pins());
}

/* --- attributes */

static void attributes(struct __test_metadata *_metadata, FIXTURE_DATA(host) *self,
		       unsigned char *p, size_t n)
{
	unsigned char token[16];
	unsigned int type = 0, word = 99;
	CUdeviceptr d = 0;
	CUcontext ctx = NULL;
	size_t size = 0;
	void *h = NULL;

	EXPECT_CU(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, ptr(p)));
	EXPECT_EQ(CU_MEMORYTYPE_HOST, type);
	EXPECT_CU(cuPointerGetAttribute(&ctx, CU_POINTER_ATTRIBUTE_CONTEXT, ptr(p)));
	EXPECT_EQ(self->ctx, ctx);
	EXPECT_CU(cuPointerGetAttribute(&d, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, ptr(p) + 7));
	EXPECT_EQ(ptr(p) + 7, d);
	EXPECT_CU(cuPointerGetAttribute(&h, CU_POINTER_ATTRIBUTE_HOST_POINTER, ptr(p) + 7));
	EXPECT_EQ(p + 7, h);
	EXPECT_CU(cuPointerGetAttribute(&d, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, ptr(p) + 7));
	EXPECT_EQ(ptr(p), d);
	EXPECT_CU(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, ptr(p)));
	EXPECT_EQ(n, size);
	EXPECT_CU(cuPointerGetAttribute(&word, CU_POINTER_ATTRIBUTE_MAPPED, ptr(p)));
	EXPECT_EQ(1, word);
	EXPECT_CU(cuPointerGetAttribute(&word, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE,
					ptr(p)));
	EXPECT_EQ(0, word);
	word = 99;
	EXPECT_CU(cuPointerGetAttribute(&word, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
					ptr(p)));
	EXPECT_EQ(0, word);
	word = 99;
	EXPECT_CU(cuPointerGetAttribute(&word, CU_POINTER_ATTRIBUTE_IS_MANAGED, ptr(p)));
	EXPECT_EQ(0, word);
	EXPECT_CU(cuPointerGetAttribute(&word, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, ptr(p)));
	EXPECT_EQ(3, word);
	memset(token, 1, sizeof(token));
	EXPECT_EQ(INVALID, cuPointerGetAttribute(token, CU_POINTER_ATTRIBUTE_P2P_TOKENS, ptr(p)));
	EXPECT_TRUE(all_are(token, 0, 12));
	EXPECT_EQ(1, token[12]);
	EXPECT_CU(cuPointerGetAttribute(&word, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, ptr(p)));
	EXPECT_EQ(0, word);
}

TEST_F(host, attributes)
{
	CUipcMemHandle handle;
	unsigned char *p;
	int fd;

	ASSERT_CU(cuMemHostAlloc((void **)&p, 10000, 0));
	attributes(_metadata, self, p, 10000);
	EXPECT_EQ(INVALID, cuIpcGetMemHandle(&handle, ptr(p)));
	EXPECT_EQ(INVALID, cuMemGetHandleForAddressRange(&fd, ptr(p), 4096,
							 CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	EXPECT_CU(cuMemFreeHost(p));
	ASSERT_CU(cuMemHostRegister(self->mem + 100, 20000, 0));
	attributes(_metadata, self, self->mem + 100, 20000);
	EXPECT_EQ(INVALID, cuIpcGetMemHandle(&handle, ptr(self->mem) + 100));
	EXPECT_CU(cuMemHostUnregister(self->mem + 100));
	EXPECT_EQ(INVALID, cuPointerGetAttribute(&fd, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
						 ptr(self->mem) + 100));
}

/* --- copies and fills */

/* Copy rows between @p, where they are @pitch apart, and the device. */
static CUresult rows(CUdeviceptr dev, unsigned char *p, size_t pitch, size_t width, size_t count,
		     bool to_host)
{
	CUDA_MEMCPY2D host = {
		.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = p, .srcPitch = pitch,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = dev, .dstPitch = width,
		.WidthInBytes = width, .Height = count,
	};
	CUDA_MEMCPY2D back = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = dev, .srcPitch = width,
		.dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = p, .dstPitch = pitch,
		.WidthInBytes = width, .Height = count,
	};

	return to_host ? cuMemcpy2DUnaligned(&back) : cuMemcpy2D(&host);
}

/*
 * The start of a range decides, as on an H200: a range that starts in a registration must end in
 * it.  A copy's range that starts elsewhere may run into registered memory, against the
 * specification.
 */
TEST_F(host, begins_and_ends)
{
	unsigned char *p = self->mem;
	CUdeviceptr dev = self->dev;

	pattern(p, 65536, 6);
	ASSERT_CU(cuMemHostRegister(p, 8192, 0));
	EXPECT_EQ(INVALID, rows(dev, p, 4096, 4096, 4, false));
	EXPECT_EQ(INVALID, rows(dev, p, 4096, 64, 4, true));
	EXPECT_EQ(INVALID, rows(dev, p, 8192, 64, 2, false));
	EXPECT_EQ(INVALID, cuMemsetD8(ptr(p), 1, 16384));
	EXPECT_CU(cuMemHostUnregister(p));
	EXPECT_TRUE(has_pattern(p, 65536, 6));

	ASSERT_CU(cuMemHostRegister(p + 8192, 8192, 0));
	ASSERT_CU(cuMemsetD8(dev, 0, 65536));
	EXPECT_CU(rows(dev, p, 4096, 4096, 8, false));
	EXPECT_TRUE(has_pattern(view(dev, 32768), 32768, 6));
	memset(p, 0, 32768);
	EXPECT_CU(rows(dev, p, 4096, 4096, 8, true));
	EXPECT_TRUE(has_pattern(p, 65536, 6));
	EXPECT_EQ(INVALID, cuMemsetD8(ptr(p), 1, 16384));
	EXPECT_CU(cuMemcpy(ptr(p) + 32768, ptr(p), 32768));
	EXPECT_TRUE(has_pattern(p + 32768, 32768, 6));
	EXPECT_EQ(INVALID, cuMemcpy(ptr(p) + 32768, ptr(p) + 8192, 16384));
	EXPECT_EQ(INVALID, cuMemcpy(ptr(p) + 8192, ptr(p) + 32768, 16384));
	/* From one registration into another, across memory that is not registered. */
	ASSERT_CU(cuMemHostRegister(p + 20480, 4096, 0));
	EXPECT_EQ(INVALID, cuMemcpyHtoD(dev, p + 8192, 16384));
	EXPECT_CU(cuMemHostUnregister(p + 20480));
	EXPECT_CU(cuMemHostUnregister(p + 8192));
}

TEST_F(host, bounds)
{
	unsigned char *p = self->mem;
	CUstream stream;

	ASSERT_CU(cuStreamCreate(&stream, 0));
	pattern(p, 65536, 6);
	ASSERT_CU(cuMemsetD8(self->dev, 0xaa, 65536));
	ASSERT_CU(cuMemHostRegister(p, 8192, 0));
	EXPECT_EQ(INVALID, cuMemcpyHtoD(self->dev, p, 16384));
	EXPECT_EQ(INVALID, cuMemcpyHtoD(self->dev, p + 1, 8192));
	EXPECT_EQ(INVALID, cuMemcpyDtoH(p, self->dev, 16384));
	EXPECT_EQ(INVALID, cuMemcpy(self->dev, ptr(p), 16384));
	EXPECT_EQ(INVALID, cuMemcpyHtoDAsync(self->dev, p, 16384, stream));
	EXPECT_CU(cuCtxSynchronize());
	EXPECT_TRUE(sees(self->dev, 0xaa, 65536));
	EXPECT_CU(cuMemcpyHtoD(self->dev, p + 16384, 4096));
	EXPECT_CU(cuMemcpyHtoD(self->dev, p, 8192));
	EXPECT_CU(cuMemHostUnregister(p));
	/* A range that starts outside a registration. */
	ASSERT_CU(cuMemHostRegister(p + 8192, 8192, 0));
	EXPECT_CU(cuMemcpyHtoD(self->dev, p, 16384));
	EXPECT_TRUE(has_pattern(view(self->dev, 16384), 16384, 6));
	EXPECT_CU(cuMemcpyDtoH(p, self->dev, 16384));
	EXPECT_CU(cuMemcpyHtoDAsync(self->dev, p, 16384, stream));
	EXPECT_CU(cuStreamSynchronize(stream));
	EXPECT_TRUE(has_pattern(view(self->dev, 16384), 16384, 6));
	/* A range across two adjacent registrations. */
	ASSERT_CU(cuMemHostRegister(p, 8192, 0));
	EXPECT_EQ(INVALID, cuMemcpyHtoD(self->dev, p, 16384));
	EXPECT_TRUE(has_pattern(p, 65536, 6));
	/* cuMemcpyDtoD() takes registered memory, but no ordinary memory. */
	EXPECT_CU(cuMemcpyDtoD(self->dev, ptr(p), 100));
	EXPECT_EQ(INVALID, cuMemcpyDtoD(self->dev, ptr(p) + 16384, 100));
}

TEST_F(host, fills)
{
	unsigned char *pinned;

	ASSERT_CU(cuMemAllocHost((void **)&pinned, 10000));
	ASSERT_CU(cuMemHostRegister(self->mem + 3, 9997, 0));
	/* Both are host memory: done when the call returns. */
	EXPECT_CU(cuMemsetD8(ptr(pinned), 0x71, 10000));
	EXPECT_TRUE(all_are(pinned, 0x71, 10000));
	EXPECT_CU(cuMemsetD8(ptr(self->mem) + 3, 0x72, 9997));
	EXPECT_TRUE(all_are(self->mem + 3, 0x72, 9997));
	EXPECT_EQ(0, self->mem[2]);
	EXPECT_EQ(0, self->mem[10000]);
	EXPECT_CU(cuMemsetD32(ptr(self->mem) + 4, 0x51515151, 2));
	EXPECT_TRUE(all_are(self->mem + 4, 0x51, 8));
	EXPECT_EQ(INVALID, cuMemsetD8(ptr(pinned), 0, 10001));
	EXPECT_EQ(INVALID, cuMemsetD8(ptr(self->mem) + 3, 0, 9998));
	EXPECT_EQ(INVALID, cuMemsetD8(ptr(self->mem) + 2, 0, 1));
	EXPECT_TRUE(all_are(pinned, 0x71, 10000));
	EXPECT_CU(cuMemHostUnregister(self->mem + 3));
	EXPECT_EQ(INVALID, cuMemsetD8(ptr(self->mem) + 3, 0, 1));
}

/* Copies between all kinds of memory, without and with a stream. */
TEST_F(host, every_direction)
{
	enum { N = 300001 };
	unsigned char *end[4];
	CUstream stream;
	CUdeviceptr dev;

	ASSERT_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuMemAlloc(&dev, N));
	ASSERT_CU(cuMemAllocHost((void **)&end[1], N));
	ASSERT_CU(cuMemHostRegister(self->mem + 77, N, 0));
	end[0] = cpu(dev);
	end[2] = self->mem + 77;
	end[3] = malloc(N);
	for (unsigned int to = 0; to < 4; to++) {
		for (unsigned int from = 0; from < 4; from++) {
			unsigned int seed = to * 4 + from + 1;

			if (to == from)
				continue;
			put_pattern(ptr(end[from]), N, seed);
			EXPECT_CU(cuMemcpy(ptr(end[to]), ptr(end[from]), N));
			EXPECT_CU(cuCtxSynchronize());
			EXPECT_TRUE(has_pattern(view(ptr(end[to]), N), N, seed));
			put_pattern(ptr(end[from]), N, seed + 50);
			EXPECT_CU(cuMemcpyAsync(ptr(end[to]), ptr(end[from]), N, stream));
			EXPECT_CU(cuStreamSynchronize(stream));
			EXPECT_TRUE(has_pattern(view(ptr(end[to]), N), N, seed + 50));
		}
	}
}

/* An asynchronous copy from pinned or registered memory reads it in stream order. */
TEST_F(host, stream_order)
{
	unsigned char *ends[2];
	struct load load;
	CUstream stream;

	ASSERT_CU(load_make(&load));
	ASSERT_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuMemAllocHost((void **)&ends[0], 4096));
	ASSERT_CU(cuMemHostRegister(self->mem, 4096, 0));
	ends[1] = self->mem;
	for (unsigned int i = 0; i < 2; i++) {
		memset(ends[i], 1, 4096);
		ASSERT_EQ(CUDA_ERROR_NOT_READY, load_put_busy(&load, stream));
		EXPECT_CU(cuMemcpyHtoDAsync(self->dev, ends[i], 4096, stream));
		memset(ends[i], 2, 4096);
		EXPECT_CU(cuStreamSynchronize(stream));
		EXPECT_TRUE(sees(self->dev, 2, 4096));
		/* A copy to such memory writes it in stream order. */
		ASSERT_EQ(CUDA_ERROR_NOT_READY, load_put_busy(&load, stream));
		EXPECT_CU(cuMemsetD8Async(self->dev, 3, 4096, stream));
		EXPECT_CU(cuMemcpyDtoHAsync(ends[i], self->dev, 4096, stream));
		EXPECT_CU(cuStreamSynchronize(stream));
		EXPECT_TRUE(all_are(ends[i], 3, 4096));
	}
}

/* Freeing and unregistering wait for all work, registering does not. */
TEST_F(host, waits)
{
	unsigned int *gate;
	struct load load;
	CUstream stream;
	void *p;

	ASSERT_CU(load_make(&load));
	ASSERT_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuMemAllocHost(&p, 65536));
	ASSERT_EQ(CUDA_ERROR_NOT_READY, load_put_busy(&load, stream));
	EXPECT_CU(cuMemcpyHtoDAsync(self->dev, p, 65536, stream));
	EXPECT_CU(cuMemFreeHost(p));
	EXPECT_CU(cuStreamQuery(stream));
	EXPECT_TRUE(load_done(&load));

	/* The stream waits for a word that the test writes after the registration. */
	ASSERT_CU(cuMemAllocHost((void **)&gate, 4096));
	*gate = 0;
	ASSERT_CU(cuStreamWaitValue32(stream, (uintptr_t)gate, 1, CU_STREAM_WAIT_VALUE_EQ));
	EXPECT_CU(cuMemHostRegister(self->mem, 65536, 0));
	EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
	__atomic_store_n(gate, 1, __ATOMIC_RELEASE);
	EXPECT_CU(cuMemHostUnregister(self->mem));
	EXPECT_CU(cuStreamQuery(stream));
	EXPECT_CU(cuMemFreeHost((void *)gate));
}

TEST_HARNESS_MAIN
