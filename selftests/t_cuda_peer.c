// SPDX-License-Identifier: GPL-2.0
/*
 * Several contexts and devices: peer access, copies between contexts without a current one, calls
 * that name a context.  The module has at least two devices.
 */
#include "kselftest_harness.h"
#include "cuda_util.h"
#include <cudaProfiler.h>

FIXTURE(peer)
{
	CUcontext ctx, other;	/* of devices 0, which is current, and 1 */
};

FIXTURE_SETUP(peer)
{
	ASSERT_TRUE(dev_quiet(10));
	ASSERT_CU(cuda_start(&self->ctx));
	ASSERT_CU(cuDevicePrimaryCtxRetain(&self->other, 1));
}

FIXTURE_TEARDOWN_PARENT(peer)
{
	EXPECT_TRUE(dev_quiet(10));
}

TEST_F(peer, access)
{
	CUcontext same, late;
	int can = 7;

	EXPECT_CU(cuDeviceCanAccessPeer(&can, 0, 1));
	EXPECT_EQ(1, can);
	EXPECT_CU(cuDeviceCanAccessPeer(&can, 1, 1));
	EXPECT_EQ(0, can);
	EXPECT_EQ(INVALID, cuDeviceCanAccessPeer(NULL, 0, 1));
	EXPECT_EQ(CUDA_ERROR_INVALID_DEVICE, cuDeviceCanAccessPeer(&can, 0, 99));
	EXPECT_CU(cuDeviceGetP2PAttribute(&can, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1));
	EXPECT_EQ(1, can);
	EXPECT_EQ(CUDA_ERROR_INVALID_DEVICE,
		  cuDeviceGetP2PAttribute(&can, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 1, 1));
	EXPECT_EQ(INVALID, cuDeviceGetP2PAttribute(&can, 77, 0, 1));

	EXPECT_EQ(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(self->other));
	EXPECT_EQ(INVALID, cuCtxEnablePeerAccess(self->other, 1));
	EXPECT_CU(cuCtxEnablePeerAccess(self->other, 0));
	EXPECT_EQ(CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED, cuCtxEnablePeerAccess(self->other, 0));
	EXPECT_CU(cuCtxDisablePeerAccess(self->other));
	EXPECT_EQ(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(self->other));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuCtxEnablePeerAccess(self->ctx, 0));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuCtxEnablePeerAccess(NULL, 0));

	/* A grant ends with its context. */
	ASSERT_CU(cuCtxCreate(&same, NULL, 0, 0));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_EQ(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, cuCtxEnablePeerAccess(same, 0));
	ASSERT_CU(cuCtxCreate(&late, NULL, 0, 1));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_CU(cuCtxEnablePeerAccess(late, 0));
	EXPECT_CU(cuCtxDestroy(late));
	ASSERT_CU(cuCtxCreate(&late, NULL, 0, 1));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_EQ(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(late));
	/* Those that were made lie on the stack. */
	while (!cuCtxPopCurrent(NULL))
		;
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuCtxEnablePeerAccess(self->other, 0));
}

TEST_F(peer, copies)
{
	CUDA_MEMCPY3D_PEER box = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.WidthInBytes = 100, .Height = 4, .Depth = 3,
	};
	unsigned char noise[4096];
	CUdeviceptr a, b;

	for (unsigned int i = 0; i < sizeof(noise); i++)
		noise[i] = i * 7 + (i >> 8);
	ASSERT_CU(cuMemAlloc(&a, sizeof(noise)));
	ASSERT_CU(cuCtxSetCurrent(self->other));
	ASSERT_CU(cuMemAlloc(&b, sizeof(noise)));
	ASSERT_CU(cuMemsetD8(b, 0, sizeof(noise)));
	ASSERT_CU(cuCtxSynchronize());
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	ASSERT_CU(cuMemcpyHtoD(a, noise, sizeof(noise)));
	ASSERT_CU(cuCtxSetCurrent(NULL));

	/* No context is needed, and none is current afterwards.  It is done when it returns. */
	EXPECT_CU(cuMemcpyPeer(b, NULL, a, NULL, sizeof(noise)));
	EXPECT_EQ(0, memcmp(view(b, sizeof(noise)), noise, sizeof(noise)));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyDtoD(b, a, 1));
	EXPECT_CU(cuMemcpyPeer(0, NULL, 0, NULL, 0));
	EXPECT_EQ(INVALID, cuMemcpyPeer(0, NULL, 0, NULL, 1));
	EXPECT_EQ(INVALID, cuMemcpyPeer(b + 1, NULL, a, NULL, sizeof(noise)));
	EXPECT_EQ(INVALID, cuMemcpyPeer(b, NULL, (uintptr_t)noise, NULL, 16));
	poke(b, 0, sizeof(noise));
	box.srcDevice = a;
	box.dstDevice = b;
	EXPECT_CU(cuMemcpy3DPeer(&box));
	EXPECT_EQ(0, memcmp(view(b, 1200), noise, 1200));
	EXPECT_TRUE(sees(b + 1200, 0, sizeof(noise) - 1200));
	EXPECT_NE(CUDA_SUCCESS, cuMemcpy3DPeer(NULL));
	box.dstZ = 1 << 20;
	EXPECT_EQ(INVALID, cuMemcpy3DPeer(&box));
}

/* The base of a copy and what it is an offset from belong together. */
TEST_F(peer, offset_to_another_allocation)
{
	CUDA_MEMCPY2D c = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.srcPitch = 512, .dstPitch = 512, .WidthInBytes = 64, .Height = 1,
	};
	CUdeviceptr a, b, low, high;

	ASSERT_CU(cuMemAlloc(&a, 512));
	ASSERT_CU(cuMemAlloc(&b, 512));
	low = a < b ? a : b;
	high = a < b ? b : a;
	ASSERT_CU(cuMemsetD8(low, 1, 512));
	ASSERT_CU(cuMemsetD8(high, 2, 512));
	ASSERT_CU(cuCtxSynchronize());
	c.srcDevice = low;
	c.dstDevice = low;
	c.dstY = (high - low) / 512;
	EXPECT_EQ(INVALID, cuMemcpy2D(&c));
	EXPECT_TRUE(sees(high, 2, 512));
	c.dstY = 0;
	c.dstXInBytes = 448;
	EXPECT_CU(cuMemcpy2D(&c));
}

TEST_F(peer, named)
{
	const void *table = &table;
	CUdevice device = 9;
	CUevent event;
	CUstream s;

	EXPECT_CU(cuCtxGetDevice_v2(&device, self->other));
	EXPECT_EQ(1, device);
	EXPECT_CU(cuCtxGetDevice_v2(&device, NULL));
	EXPECT_EQ(0, device);
	EXPECT_EQ(INVALID, cuCtxGetDevice_v2(NULL, self->other));
	EXPECT_CU(cuCtxSynchronize_v2(self->other));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize_v2((CUcontext)1));
	ASSERT_CU(cuCtxSetCurrent(self->other));
	ASSERT_CU(cuStreamCreate(&s, 0));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_CU(cuStreamGetDevice(s, &device));
	EXPECT_EQ(1, device);
	EXPECT_CU(cuStreamGetDevice(NULL, &device));
	EXPECT_EQ(0, device);
	EXPECT_EQ(INVALID, cuStreamGetDevice(s, NULL));

	ASSERT_CU(cuEventCreate(&event, 0));
	EXPECT_CU(cuEventRecordWithFlags(event, NULL, CU_EVENT_RECORD_DEFAULT));
	EXPECT_EQ(CUDA_ERROR_ILLEGAL_STATE,
		  cuEventRecordWithFlags(event, NULL, CU_EVENT_RECORD_EXTERNAL));
	EXPECT_EQ(INVALID, cuEventRecordWithFlags(event, NULL, 2));
	EXPECT_CU(cuEventSynchronize(event));

	EXPECT_CU(cuProfilerStart());
	EXPECT_CU(cuProfilerStop());
	EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cuProfilerInitialize("a", "b", CU_OUT_CSV));
	EXPECT_NE(CUDA_SUCCESS, cuGetExportTable(&table, NULL));
	EXPECT_EQ(NULL, table);
}

TEST_HARNESS_MAIN
