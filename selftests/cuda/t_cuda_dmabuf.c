// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_import_dmabuf(), which CUDA does not have: DMA-bufs as device memory, those of other
 * drivers, gpumem's own, and one that processes cannot map.  Every kind of copy and fill works on
 * them, and the engine executes it in all modes.
 */
#include <gpumem.h>
#include <sys/mman.h>

#include "kselftest_harness.h"
#include "cuda_util.h"
#include "common/exporters.h"

#define RW		(PROT_READ | PROT_WRITE)

FIXTURE(dmabuf)
{
	CUcontext ctx;
	CUdeviceptr dev, p;	/* memory of the device, and the import */
	CUstream stream;
	unsigned char *host, *seen;	/* the program's, and what the DMA-buf holds */
	void *registered;
	int fd;
};

FIXTURE_VARIANT(dmabuf)
{
	int (*make)(void);
	const char *what;
	bool registered;
};

FIXTURE_VARIANT_ADD(dmabuf, udmabuf) { make_udmabuf, "udmabuf" };
FIXTURE_VARIANT_ADD(dmabuf, dma_heap) { make_heap, "DMA-buf heap" };
FIXTURE_VARIANT_ADD(dmabuf, own) { .what = "own" };
/* A DMA-buf without mmap(). */
FIXTURE_VARIANT_ADD(dmabuf, registered) { .registered = true };

static int make_own(void)
{
	CUdeviceptr p;
	int fd;

	if (cuMemAlloc(&p, MIB) || cuMemsetD8(p, 0, MIB) ||
	    cuMemGetHandleForAddressRange(&fd, p, MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0))
		return -EBADMSG;
	/* The DMA-buf keeps the memory. */
	return cuMemFree(p) ? -EBADMSG : fd;
}

static int make_registered(void *p)
{
	int fd;

	if (cuMemHostRegister(p, MIB, 0) || gpumem_host_get_dmabuf_fd(&fd, p, MIB, 0) ||
	    cuMemHostUnregister(p))
		return -EBADMSG;
	return fd;
}

FIXTURE_SETUP(dmabuf)
{
	size_t bytes = 0;
	int maps = 0;

	cuda_begin(_metadata, &self->ctx);
	ASSERT_CU(cuMemAlloc(&self->dev, MIB));
	ASSERT_CU(cuStreamCreate(&self->stream, CU_STREAM_NON_BLOCKING));
	self->host = malloc(MIB);
	ASSERT_NE(NULL, self->host);
	for (size_t i = 0; i < MIB; i++)
		self->host[i] = i * 13 + (i >> 10);
	if (variant->registered) {
		self->registered = mmap(NULL, MIB, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
		ASSERT_NE(MAP_FAILED, self->registered);
		self->fd = make_registered(self->registered);
		self->seen = self->registered;
	} else {
		self->fd = variant->make ? variant->make() : make_own();
		if (self->fd == -ENOENT)
			SKIP(return, "no %s", variant->what);
		EXPECT_CU(cuDeviceGetAttribute(&maps, CU_DEVICE_ATTRIBUTE_DMA_BUF_MMAP_SUPPORTED, 0));
		EXPECT_EQ(1, maps);
		self->seen = mmap(NULL, MIB, RW, MAP_SHARED, self->fd, 0);
		ASSERT_NE(MAP_FAILED, self->seen);
	}
	ASSERT_LE(0, self->fd);
	ASSERT_CU(gpumem_import_dmabuf(&self->p, &bytes, self->fd, 0));
	EXPECT_EQ(MIB, bytes);
	close(self->fd);
}

QUIET_AFTERWARDS(dmabuf)

TEST_F(dmabuf, copies_and_fills)
{
	struct gpumem_stats before, after;
	CUdeviceptr base;
	size_t size;

	ASSERT_EQ(0, client_stats(&before));
	ASSERT_CU(cuMemcpyHtoD(self->p, self->host, MIB));
	EXPECT_EQ(0, memcmp(self->seen, self->host, MIB));
	ASSERT_CU(cuMemcpyDtoDAsync(self->dev, self->p, MIB, self->stream));
	ASSERT_CU(cuMemsetD8Async(self->p, 9, MIB / 2, self->stream));
	ASSERT_CU(cuStreamSynchronize(self->stream));
	EXPECT_TRUE(all_are(self->seen, 9, MIB / 2));
	EXPECT_EQ(0, memcmp(self->seen + MIB / 2, self->host + MIB / 2, MIB / 2));
	ASSERT_CU(cuMemcpyDtoDAsync(self->p, self->dev, 4096, self->stream));
	ASSERT_CU(cuStreamSynchronize(self->stream));
	EXPECT_EQ(0, memcmp(self->seen, self->host, 4096));
	memset(self->host, 0, MIB);
	ASSERT_CU(cuMemcpyDtoH(self->host, self->p, MIB));
	EXPECT_EQ(0, memcmp(self->seen, self->host, MIB));
	/* An overlapping copy, which goes through staging memory. */
	ASSERT_CU(cuMemcpyDtoD(self->p + 100, self->p, 10000));
	ASSERT_CU(cuCtxSynchronize());
	EXPECT_EQ(0, memcmp(self->seen + 100, self->host, 10000));
	ASSERT_CU(cuStreamWriteValue32(self->stream, self->p, 77, 0));
	ASSERT_CU(cuStreamWaitValue32(self->stream, self->p, 77, CU_STREAM_WAIT_VALUE_EQ));
	ASSERT_CU(cuStreamSynchronize(self->stream));
	EXPECT_EQ(77, *(volatile unsigned int *)self->seen);
	/* The engine executed all of these operations. */
	ASSERT_EQ(0, client_stats(&after));
	EXPECT_LE(3 * MIB, after.copy_bytes - before.copy_bytes);
	EXPECT_LE(MIB / 2, after.fill_bytes - before.fill_bytes);

	ASSERT_CU(cuMemGetAddressRange(&base, &size, self->p + 5));
	EXPECT_EQ(self->p, base);
	EXPECT_EQ(MIB, size);
	EXPECT_EQ(strict() || variant->registered, peek(cpu(self->p)) < 0);
	if (!strict() && !variant->registered) {
		EXPECT_EQ(self->seen[5000], cpu(self->p)[5000]);
	}
	EXPECT_EQ(INVALID, cuMemFree(self->p));
	EXPECT_EQ(INVALID, cuIpcCloseMemHandle(self->p));
	EXPECT_EQ(INVALID, gpumem_release_dmabuf(self->p + 1));
	EXPECT_EQ(INVALID, gpumem_release_dmabuf(self->dev));
	EXPECT_CU(gpumem_release_dmabuf(self->p));
	EXPECT_EQ(INVALID, gpumem_release_dmabuf(self->p));
	EXPECT_EQ(INVALID, cuMemcpyHtoD(self->p, self->host, 1));
	ASSERT_EQ(0, client_stats(&after));
	EXPECT_EQ(0, after.imports);
	EXPECT_EQ(0, after.views);
}

/* The end of the context releases the import; the DMA-buf keeps its bytes. */
TEST_F(dmabuf, end_of_context)
{
	ASSERT_CU(cuMemsetD8Async(self->p, 3, MIB, self->stream));
	ASSERT_CU(cuStreamSynchronize(self->stream));
	ASSERT_CU(cuDevicePrimaryCtxReset(0));
	EXPECT_TRUE(all_are(self->seen, 3, MIB));
}

TEST(errors)
{
	CUdeviceptr p = 5;
	CUcontext ctx;
	int file;

	EXPECT_EQ(CUDA_ERROR_NOT_INITIALIZED, gpumem_import_dmabuf(&p, NULL, 0, 0));
	ASSERT_CU(cuda_start(&ctx));
	file = open("/dev/null", O_RDWR);
	EXPECT_EQ(INVALID, gpumem_import_dmabuf(&p, NULL, file, 0));
	EXPECT_EQ(INVALID, gpumem_import_dmabuf(&p, NULL, -1, 0));
	EXPECT_EQ(INVALID, gpumem_import_dmabuf(NULL, NULL, file, 0));
	EXPECT_EQ(INVALID, gpumem_import_dmabuf(&p, NULL, file, 1));
	EXPECT_EQ(5, p);
	EXPECT_EQ(INVALID, gpumem_release_dmabuf(0));
	close(file);
}

TEST_HARNESS_MAIN
