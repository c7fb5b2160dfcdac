// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the runtime API: device and host memory, pointer attributes, copies, fills and pools.
 *
 * Other programs test the driver's functions that the runtime calls.  This one tests what the runtime
 * adds: checks of arguments, their conversion, and error codes.  Needs a module with devices=2 or more.
 */
#include <driver_functions.h>

#include "kselftest_harness.h"
#include "cuda_rt_util.h"

QUIET_FIXTURE(rt_mem)

/* --- memory */

TEST_F(rt_mem, device_memory)
{
	size_t pitch = 7, left, total, want;
	struct cudaPitchedPtr box = { 0 };
	CUdeviceptr base;
	size_t size;
	void *p;

	p = &p;
	EXPECT_RT(cudaMalloc(&p, 0));
	EXPECT_EQ(NULL, p);
	EXPECT_FAILS(BAD, cudaMalloc(NULL, 0));
	ASSERT_RT(cudaMalloc(&p, 1000));
	EXPECT_EQ(0, (uintptr_t)p % 512);
	EXPECT_CU(cuMemGetAddressRange(&base, &size, addr(p) + 999));
	EXPECT_EQ(addr(p), base);
	EXPECT_EQ(1000, size);
	EXPECT_FAILS(BAD, cudaFree((char *)p + 1));
	EXPECT_FAILS(BAD, cudaFree(&p));
	EXPECT_RT(cudaFree(p));
	EXPECT_FAILS(BAD, cudaFree(p));
	EXPECT_RT(cudaMallocPitch(&p, &pitch, 0, 5));
	EXPECT_EQ(NULL, p);
	ASSERT_RT(cudaMallocPitch(&p, &pitch, 100, 5));
	EXPECT_EQ(512, pitch);
	EXPECT_RT(cudaFree(p));
	EXPECT_FAILS(BAD, cudaMallocPitch(NULL, &pitch, 100, 5));
	EXPECT_FAILS(BAD, cudaMallocPitch(&p, NULL, 100, 5));
	ASSERT_RT(cudaMalloc3D(&box, make_cudaExtent(100, 5, 3)));
	EXPECT_EQ(512, box.pitch);
	EXPECT_EQ(100, box.xsize);
	EXPECT_EQ(5, box.ysize);
	EXPECT_CU(cuMemGetAddressRange(NULL, &size, addr(box.ptr)));
	EXPECT_EQ(512 * 15, size);
	EXPECT_RT(cudaFree(box.ptr));
	EXPECT_FAILS(BAD, cudaMalloc3D(NULL, make_cudaExtent(1, 1, 1)));
	EXPECT_FAILS(BAD, cudaMalloc3D(&box, make_cudaExtent(1, ~0UL, 2)));
	EXPECT_RT(cudaMemGetInfo(&left, &total));
	EXPECT_CU(cuDeviceTotalMem(&want, 0));
	EXPECT_EQ(want, total);
	EXPECT_GE(total, left);
	EXPECT_RT(cudaMemGetInfo(NULL, NULL));
}

TEST_F(rt_mem, host_memory)
{
	static char own[8192];
	unsigned int flags;
	void *p, *d;

	p = &p;
	EXPECT_RT(cudaHostAlloc(&p, 0, cudaHostAllocDefault));
	EXPECT_EQ(NULL, p);
	EXPECT_FAILS(BAD, cudaHostAlloc(&p, 1, 8));
	EXPECT_FAILS(BAD, cudaHostAlloc(NULL, 1, 0));
	EXPECT_FAILS(BAD, cudaMallocHost(NULL, 1));
	ASSERT_RT(cudaMallocHost(&p, 4096));
	memset(p, 1, 4096);
	EXPECT_RT(cudaHostGetDevicePointer(&d, (char *)p + 5, 0));
	EXPECT_EQ((char *)p + 5, d);
	EXPECT_FAILS(BAD, cudaHostGetDevicePointer(NULL, p, 0));
	EXPECT_RT(cudaFreeHost(p));
	EXPECT_FAILS(BAD, cudaFreeHost(p));
	EXPECT_RT(cudaFreeHost(NULL));
	ASSERT_RT(cudaHostAlloc(&p, 4096, cudaHostAllocPortable | cudaHostAllocWriteCombined));
	EXPECT_RT(cudaHostGetFlags(&flags, p));
	EXPECT_EQ(cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined, flags);
	EXPECT_FAILS(BAD, cudaFree(p));
	EXPECT_RT(cudaFreeHost(p));
	EXPECT_FAILS(cudaErrorHostMemoryNotRegistered, cudaHostUnregister(own));
	ASSERT_RT(cudaHostRegister(own, sizeof(own), cudaHostRegisterDefault));
	EXPECT_FAILS(cudaErrorHostMemoryAlreadyRegistered,
		     cudaHostRegister(own + 1, 1, cudaHostRegisterDefault));
	EXPECT_RT(cudaHostGetDevicePointer(&d, own, 0));
	EXPECT_EQ((void *)own, d);
	EXPECT_RT(cudaHostUnregister(own));
	EXPECT_FAILS(BAD, cudaHostGetDevicePointer(&d, own, 0));
}

TEST_F(rt_mem, pointers)
{
	struct cudaPointerAttributes a;
	void *p, *h;
	int local;

	ASSERT_RT(cudaSetDevice(1));
	ASSERT_RT(cudaMalloc(&p, 4096));
	ASSERT_RT(cudaMallocHost(&h, 4096));
	EXPECT_FAILS(BAD, cudaPointerGetAttributes(NULL, p));
	memset(&a, 0xff, sizeof(a));
	EXPECT_RT(cudaPointerGetAttributes(&a, (char *)p + 7));
	EXPECT_EQ(cudaMemoryTypeDevice, a.type);
	EXPECT_EQ(1, a.device);
	EXPECT_EQ((char *)p + 7, a.devicePointer);
	EXPECT_EQ(NULL, a.hostPointer);
	EXPECT_TRUE(all_are(a.reserved, 0, sizeof(a.reserved)));
	EXPECT_RT(cudaPointerGetAttributes(&a, h));
	EXPECT_EQ(cudaMemoryTypeHost, a.type);
	EXPECT_EQ(1, a.device);
	EXPECT_EQ(h, a.devicePointer);
	EXPECT_EQ(h, a.hostPointer);
	EXPECT_RT(cudaPointerGetAttributes(&a, &local));
	EXPECT_EQ(cudaMemoryTypeUnregistered, a.type);
	EXPECT_EQ(cudaInvalidDeviceId, a.device);
	EXPECT_EQ(NULL, a.devicePointer);
	EXPECT_EQ((void *)&local, a.hostPointer);
	EXPECT_RT(cudaFree(p));
	EXPECT_RT(cudaPointerGetAttributes(&a, p));
	EXPECT_EQ(cudaMemoryTypeUnregistered, a.type);
	EXPECT_RT(cudaFreeHost(h));
}

/* --- copies and fills */

#define N	10000

TEST_F(rt_mem, copies)
{
	static unsigned char in[N], out[N];
	unsigned char *p, *q, *pinned;
	cudaStream_t stream;

	ASSERT_RT(cudaMalloc((void **)&p, N));
	ASSERT_RT(cudaSetDevice(1));
	ASSERT_RT(cudaMalloc((void **)&q, N));
	ASSERT_RT(cudaMallocHost((void **)&pinned, N));
	ASSERT_RT(cudaStreamCreate(&stream));
	pattern(in, N, 1);
	EXPECT_RT(cudaMemcpy(p, in, N, cudaMemcpyHostToDevice));
	EXPECT_RT(cudaMemcpy(q, p, N, cudaMemcpyDeviceToDevice));
	EXPECT_RT(cudaMemcpy(out, q, N, cudaMemcpyDeviceToHost));
	EXPECT_EQ(0, memcmp(in, out, N));
	memset(out, 0, N);
	EXPECT_RT(cudaMemcpy(out, p, N, cudaMemcpyDefault));
	EXPECT_EQ(0, memcmp(in, out, N));
	memset(out, 0, N);
	EXPECT_RT(cudaMemcpy(out, in, N, cudaMemcpyHostToHost));
	EXPECT_EQ(0, memcmp(in, out, N));
	/* The kind must match both addresses. */
	EXPECT_FAILS(BAD, cudaMemcpy(out, in, N, cudaMemcpyDeviceToHost));
	EXPECT_FAILS(BAD, cudaMemcpy(out, in, N, cudaMemcpyHostToDevice));
	EXPECT_FAILS(BAD, cudaMemcpy(p, in, N, cudaMemcpyDeviceToDevice));
	EXPECT_FAILS(BAD, cudaMemcpy(p, in, N + 1, cudaMemcpyHostToDevice));
	EXPECT_FAILS(BAD, cudaMemcpy(NULL, in, 1, cudaMemcpyDefault));
	EXPECT_FAILS(cudaErrorInvalidMemcpyDirection,
		     cudaMemcpy(p, in, N, (enum cudaMemcpyKind)5));
	EXPECT_FAILS(cudaErrorInvalidMemcpyDirection,
		     cudaMemcpyAsync(p, in, N, (enum cudaMemcpyKind)-1, stream));
	/* A copy of no bytes succeeds with any address. */
	EXPECT_RT(cudaMemcpy(NULL, NULL, 0, cudaMemcpyDefault));
	/* The functions in an explicit stream, then those in the calling thread's stream. */
	pattern(pinned, N, 2);
	EXPECT_RT(cudaMemcpyAsync(p, pinned, N, cudaMemcpyHostToDevice, stream));
	EXPECT_RT(cudaMemcpyAsync(q, p, N, cudaMemcpyDeviceToDevice, stream));
	EXPECT_RT(cudaMemcpyAsync(out, q, N, cudaMemcpyDeviceToHost, stream));
	EXPECT_RT(cudaStreamSynchronize(stream));
	EXPECT_EQ(0, memcmp(pinned, out, N));
	pattern(pinned, N, 3);
	EXPECT_RT(cudaMemcpyAsync_ptsz(p, pinned, N, cudaMemcpyDefault, NULL));
	EXPECT_RT(cudaMemcpyAsync_ptsz(q, p, N, cudaMemcpyDefault, NULL));
	EXPECT_RT(cudaStreamSynchronize_ptsz(NULL));
	EXPECT_RT(cudaMemcpy_ptds(out, q, N, cudaMemcpyDeviceToHost));
	EXPECT_EQ(0, memcmp(pinned, out, N));
	/* Between devices. */
	EXPECT_RT(cudaMemset(q, 0, N));
	EXPECT_RT(cudaMemcpyPeer(q, 1, p, 0, N));
	EXPECT_RT(cudaMemcpy(out, q, N, cudaMemcpyDeviceToHost));
	EXPECT_EQ(0, memcmp(pinned, out, N));
	EXPECT_FAILS(cudaErrorInvalidDevice, cudaMemcpyPeer(q, 99, p, 0, N));
	EXPECT_RT(cudaMemset(q, 0, N));
	EXPECT_RT(cudaMemcpyPeerAsync(q, 1, p, 0, N, stream));
	EXPECT_FAILS(cudaErrorInvalidDevice, cudaMemcpyPeerAsync(q, 1, p, -1, N, stream));
	EXPECT_RT(cudaStreamSynchronize(stream));
	EXPECT_RT(cudaMemcpy(out, q, N, cudaMemcpyDeviceToHost));
	EXPECT_EQ(0, memcmp(pinned, out, N));
	EXPECT_RT(cudaStreamDestroy(stream));
	EXPECT_RT(cudaFreeHost(pinned));
	EXPECT_RT(cudaFree(p));
	EXPECT_RT(cudaFree(q));
}

/* Compare @rows rows of @width bytes, which are @pitch bytes apart in both buffers. */
static bool rows_equal(const unsigned char *a, const unsigned char *b, size_t pitch, size_t width,
		       size_t rows)
{
	for (size_t row = 0; row < rows; row++)
		if (memcmp(a + row * pitch, b + row * pitch, width))
			return false;
	return true;
}

TEST_F(rt_mem, rows)
{
	static unsigned char in[700], out[700];
	cudaStream_t stream;
	size_t pitch;
	void *p;

	ASSERT_RT(cudaMallocPitch(&p, &pitch, 60, 7));
	ASSERT_RT(cudaStreamCreate(&stream));
	pattern(in, sizeof(in), 4);
	EXPECT_RT(cudaMemcpy2D(p, pitch, in, 100, 60, 7, cudaMemcpyHostToDevice));
	memset(out, 0xee, sizeof(out));
	EXPECT_RT(cudaMemcpy2D(out, 100, p, pitch, 60, 7, cudaMemcpyDefault));
	EXPECT_TRUE(rows_equal(in, out, 100, 60, 7));
	EXPECT_TRUE(all_are(out + 60, 0xee, 40));
	memset(out, 0xee, sizeof(out));
	EXPECT_RT(cudaMemcpy2DAsync(out, 100, p, pitch, 60, 7, cudaMemcpyDeviceToHost, stream));
	EXPECT_RT(cudaStreamSynchronize(stream));
	EXPECT_TRUE(rows_equal(in, out, 100, 60, 7));
	memset(out, 0xee, sizeof(out));
	EXPECT_RT(cudaMemcpy2D_ptds(out, 100, in, 100, 60, 7, cudaMemcpyHostToHost));
	EXPECT_TRUE(rows_equal(in, out, 100, 60, 7));
	EXPECT_FAILS(cudaErrorInvalidPitchValue,
		     cudaMemcpy2D(out, 59, p, pitch, 60, 7, cudaMemcpyDeviceToHost));
	EXPECT_FAILS(cudaErrorInvalidPitchValue,
		     cudaMemcpy2D(out, 100, p, 59, 60, 7, cudaMemcpyDeviceToHost));
	EXPECT_FAILS(cudaErrorInvalidMemcpyDirection,
		     cudaMemcpy2D(out, 100, p, pitch, 60, 7, (enum cudaMemcpyKind)77));
	EXPECT_FAILS(BAD, cudaMemcpy2D(out, 100, p, pitch, 60, 8, cudaMemcpyDeviceToHost));
	EXPECT_RT(cudaMemcpy2D(NULL, 0, NULL, 0, 60, 0, cudaMemcpyDeviceToHost));
	EXPECT_RT(cudaMemset2D(p, pitch, 0x1233, 60, 6));
	EXPECT_RT(cudaMemset2DAsync(p, pitch, 0x44, 10, 2, NULL));
	EXPECT_RT(cudaMemcpy2D(out, 100, p, pitch, 60, 7, cudaMemcpyDeviceToHost));
	EXPECT_TRUE(all_are(out, 0x44, 10));
	EXPECT_TRUE(all_are(out + 110, 0x33, 50));
	EXPECT_TRUE(all_are(out + 500, 0x33, 60));
	EXPECT_EQ(0, memcmp(out + 600, in + 600, 60));
	EXPECT_FAILS(BAD, cudaMemset2D(p, pitch, 0, 60, 8));
	EXPECT_RT(cudaStreamDestroy(stream));
	EXPECT_RT(cudaFree(p));
}

TEST_F(rt_mem, boxes)
{
	static unsigned char in[10][8][20], out[10][8][20];
	struct cudaMemcpy3DPeerParms peer = { .srcDevice = 0, .dstDevice = 0 };
	struct cudaExtent extent = { 12, 5, 6 };
	struct cudaPitchedPtr box, host, other;
	struct cudaMemcpy3DParms c = { 0 };

	ASSERT_RT(cudaMalloc3D(&box, make_cudaExtent(20, 8, 10)));
	ASSERT_RT(cudaMalloc3D(&other, make_cudaExtent(20, 8, 10)));
	pattern(&in[0][0][0], sizeof(in), 5);
	host = make_cudaPitchedPtr(in, 20, 20, 8);
	c.srcPtr = host;
	c.dstPtr = box;
	c.extent = make_cudaExtent(20, 8, 10);
	c.kind = cudaMemcpyHostToDevice;
	EXPECT_RT(cudaMemcpy3D(&c));
	/* Copy a part of the box back, to another offset in the host's array. */
	host.ptr = out;
	c = (struct cudaMemcpy3DParms) {
		.srcPtr = box, .srcPos = { 3, 2, 1 }, .dstPtr = host, .dstPos = { 1, 0, 4 },
		.extent = extent, .kind = cudaMemcpyDeviceToHost,
	};
	EXPECT_RT(cudaMemcpy3DAsync(&c, NULL));
	EXPECT_RT(cudaDeviceSynchronize());
	for (size_t z = 0; z < 10; z++)
		for (size_t y = 0; y < 8; y++)
			for (size_t x = 0; x < 20; x++) {
				bool inside = x >= 1 && x < 13 && y < 5 && z >= 4;

				ASSERT_EQ(inside ? in[z - 3][y + 2][x + 2] : 0, out[z][y][x]);
			}
	c.kind = (enum cudaMemcpyKind)9;
	EXPECT_FAILS(cudaErrorInvalidMemcpyDirection, cudaMemcpy3D(&c));
	c.kind = cudaMemcpyDefault;
	c.srcArray = (cudaArray_t)&c;
	EXPECT_FAILS(BAD, cudaMemcpy3D(&c));
	c.srcPtr.ptr = NULL;
	EXPECT_FAILS(cudaErrorInvalidResourceHandle, cudaMemcpy3D(&c));
	c.srcArray = NULL;
	EXPECT_FAILS(BAD, cudaMemcpy3D(&c));
	c.srcPtr = box;
	c.srcPtr.pitch = 11;
	EXPECT_FAILS(cudaErrorInvalidPitchValue, cudaMemcpy3D(&c));
	EXPECT_FAILS(BAD, cudaMemcpy3D(NULL));
	EXPECT_FAILS(BAD, cudaMemcpy3DPeer(NULL));
	/* Fill a part of one box (12 bytes of 5 rows in 6 slices), and all of the other. */
	EXPECT_RT(cudaMemset3D(box, 0x55, extent));
	EXPECT_RT(cudaMemset3DAsync(other, 0x66, make_cudaExtent(20, 8, 10), NULL));
	EXPECT_RT(cudaMemset3D(other, 0, make_cudaExtent(20, 0, 10)));
	peer.srcPtr = box;
	peer.dstPtr = other;
	peer.extent = make_cudaExtent(20, 8, 5);
	EXPECT_RT(cudaMemcpy3DPeer(&peer));
	peer.srcDevice = 99;
	EXPECT_FAILS(cudaErrorInvalidDevice, cudaMemcpy3DPeerAsync(&peer, NULL));
	c = (struct cudaMemcpy3DParms) {
		.srcPtr = other, .dstPtr = host, .extent = { 20, 8, 10 }, .kind = cudaMemcpyDefault,
	};
	EXPECT_RT(cudaMemcpy3D(&c));
	for (size_t z = 0; z < 10; z++)
		for (size_t y = 0; y < 8; y++)
			for (size_t x = 0; x < 20; x++) {
				unsigned char want = x < 12 && y < 5 ? 0x55 : in[z][y][x];

				ASSERT_EQ(z < 5 ? want : 0x66, out[z][y][x]);
			}
	extent = make_cudaExtent(20, 9, 2);
	EXPECT_FAILS(BAD, cudaMemset3D(box, 0, extent));
	EXPECT_FAILS(BAD, cudaMemset3D(box, 0, make_cudaExtent(20, 8, 11)));
	EXPECT_RT(cudaFree(box.ptr));
	EXPECT_RT(cudaFree(other.ptr));
}

/* --- pools */

/*
 * If the driver supports no pools, each function answers NotSupported, except for arguments that the
 * runtime refuses first.
 */
TEST_F(rt_mem, pools)
{
	struct cudaMemPoolProps props = {
		.allocType = cudaMemAllocationTypePinned,
		.location = { cudaMemLocationTypeDevice, 0 },
	};
	struct cudaMemAccessDesc access = { .location = props.location, .flags = 3 };
	struct cudaMemPoolPtrExportData data;
	enum cudaMemAccessFlags flags;
	cudaMemPool_t pool = NULL, other = NULL, first = NULL;
	cudaError_t want;
	CUmemoryPool driver;
	__u64 value = 0;
	int fd = -1;
	void *p = &p;

	ASSERT_RT(cudaSetDevice(0));
	want = cuDeviceGetDefaultMemPool(&driver, 0) == CUDA_ERROR_NOT_SUPPORTED ?
	       cudaErrorNotSupported : cudaSuccess;
	EXPECT_EQ(want, cudaDeviceGetDefaultMemPool(&first, 0));
	EXPECT_EQ(want, cudaDeviceGetMemPool(&pool, 0));
	EXPECT_EQ(first, pool);
	EXPECT_EQ(want, cudaMemPoolCreate(&pool, &props));
	EXPECT_EQ(BAD, cudaMemPoolCreate(NULL, &props));
	EXPECT_EQ(BAD, cudaMemPoolCreate(&pool, NULL));
	EXPECT_EQ(BAD, cudaMallocAsync(NULL, 1, NULL));
	EXPECT_EQ(BAD, cudaMallocFromPoolAsync(NULL, 1, pool, NULL));
	EXPECT_EQ(want, cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &value));
	EXPECT_EQ(want, cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &value));
	EXPECT_EQ(want, cudaMemPoolGetAccess(&flags, pool, &props.location));
	EXPECT_EQ(want, cudaMemPoolSetAccess(pool, &access, 1));
	EXPECT_EQ(want, cudaDeviceSetMemPool(0, pool));
	EXPECT_EQ(want, cudaMallocAsync(&p, 4096, NULL));
	EXPECT_EQ(!want, !!p);
	EXPECT_EQ(want, cudaFreeAsync(p, NULL));
	EXPECT_EQ(want, cudaMallocFromPoolAsync_ptsz(&p, 4096, pool, NULL));
	EXPECT_EQ(want ? want : BAD, cudaMemPoolExportPointer(&data, p));
	if (!want) {
		EXPECT_RT(cudaMemsetAsync_ptsz(p, 0x31, 4096, NULL));
		EXPECT_RT(cudaStreamSynchronize(cudaStreamPerThread));
		EXPECT_TRUE(sees(addr(p), 0x31, 4096));
	}
	EXPECT_EQ(want, cudaFreeAsync_ptsz(p, NULL));
	EXPECT_EQ(want ? want : BAD,
		  cudaMemPoolExportToShareableHandle(&fd, pool,
						     cudaMemHandleTypePosixFileDescriptor, 0));
	EXPECT_NE(cudaSuccess,
		  cudaMemPoolImportFromShareableHandle(&other, (void *)-1L,
						       cudaMemHandleTypePosixFileDescriptor, 0));
	EXPECT_NE(cudaSuccess, cudaMemPoolImportPointer(&p, pool, &data));
	EXPECT_RT(cudaDeviceSynchronize());
	EXPECT_EQ(want, cudaMemPoolTrimTo(pool, 0));
	EXPECT_EQ(want, cudaMemPoolDestroy(pool));
}

TEST_HARNESS_MAIN
