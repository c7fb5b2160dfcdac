// SPDX-License-Identifier: GPL-2.0
/*
 * Two devices in one process: peer access, access to pools, waits for events of the other device, peer
 * copies while no context is current, and calls that take a context.  Also bounds of a copy with
 * pitch, flags of event records, the profiler's functions, and what several devices do not have: multicast and
 * logical endpoints.  Needs a module with devices=2 or more.
 */
#include "kselftest_harness.h"
#include "cuda_util.h"
#include <cudaProfiler.h>

FIXTURE(peer)
{
	CUcontext ctx;		/* primary context of device 0, current */
	CUcontext other;	/* primary context of device 1 */
};

FIXTURE_SETUP(peer)
{
	cuda_begin(_metadata, &self->ctx);
	ASSERT_CU(cuDevicePrimaryCtxRetain(&self->other, 1));
}

QUIET_AFTERWARDS(peer)

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
	EXPECT_EQ(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, cuCtxEnablePeerAccess(self->ctx, 0));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuCtxEnablePeerAccess(NULL, 0));

	/* A second context of the same device is no peer. */
	ASSERT_CU(cuCtxCreate(&same, NULL, 0, 0));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_EQ(CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, cuCtxEnablePeerAccess(same, 0));
	/* Peer access to a context ends with it: a new context of the device begins without. */
	ASSERT_CU(cuCtxCreate(&late, NULL, 0, 1));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_CU(cuCtxEnablePeerAccess(late, 0));
	EXPECT_CU(cuCtxDestroy(late));
	ASSERT_CU(cuCtxCreate(&late, NULL, 0, 1));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_EQ(CUDA_ERROR_PEER_ACCESS_NOT_ENABLED, cuCtxDisablePeerAccess(late));
	/* Each cuCtxCreate() pushed an entry, which cuCtxSetCurrent() then replaced. */
	while (!cuCtxPopCurrent(NULL))
		;
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuCtxEnablePeerAccess(self->other, 0));
}

/*
 * Fills, stream memory operations and cuMemGetAddressRange() on memory of another context need peer
 * access from the current one.
 */
TEST_F(peer, reach)
{
	CUstreamBatchMemOpParams op = { .writeValue = {
		.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .value = 0x03030303,
	} };
	CUdeviceptr p, base;
	size_t size;

	ASSERT_CU(cuCtxSetCurrent(self->other));
	ASSERT_CU(cuMemAlloc(&p, 4096));
	ASSERT_CU(cuMemsetD8(p, 1, 4096));
	ASSERT_CU(cuCtxSynchronize());
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	op.writeValue.address = p;
	for (int pass = 0; pass < 2; pass++) {
		CUresult want = pass ? CUDA_SUCCESS : INVALID;

		EXPECT_EQ(want, cuMemsetD8(p, 2, 4096));
		EXPECT_EQ(want, cuMemsetD2D16Async(p, 128, 0x0202, 64, 32, NULL));
		EXPECT_EQ(want, cuStreamWriteValue32(NULL, p, 0x02020202, 0));
		EXPECT_EQ(want, cuStreamWaitValue64(NULL, p, 0, CU_STREAM_WAIT_VALUE_GEQ));
		EXPECT_EQ(want, cuStreamBatchMemOp(NULL, 1, &op, 0));
		EXPECT_CU(cuMemsetD8(p, 2, 0));
		EXPECT_EQ(pass ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND,
			  cuMemGetAddressRange(&base, &size, p + 1));
		EXPECT_EQ(pass ? 4096 : 0, size);
		EXPECT_CU(cuCtxSynchronize());
		EXPECT_TRUE(sees(p, pass ? 3 : 1, 4));
		EXPECT_TRUE(sees(p + 4, pass ? 2 : 1, 4092));
		if (!pass)
			EXPECT_CU(cuCtxEnablePeerAccess(self->other, 0));
	}
	/* Peer access has one direction: device 1 still may not fill memory of device 0. */
	ASSERT_CU(cuMemAlloc(&base, 4096));
	ASSERT_CU(cuCtxSetCurrent(self->other));
	EXPECT_EQ(INVALID, cuMemsetD8(base, 2, 4096));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_CU(cuCtxDisablePeerAccess(self->other));
	EXPECT_EQ(INVALID, cuMemsetD8(p, 4, 4096));
	EXPECT_CU(cuMemFree(p));
	EXPECT_CU(cuMemFree(base));
}

/* All forms of copies. @to the pool or from it. */
struct forms {
	CUcontext own, other;		/* of the pool's device, of the other */
	CUdeviceptr p, q;		/* of the pool, of the other device; BYTES_OF_FORMS of 1 and of 2 */
	CUarray full, array;		/* of the other device; @full of 2 */
	CUstream stream;		/* of the other device */
	bool to;
};

#define BYTES_OF_FORMS	4096

enum form {
	LINEAR, ASYNC, UNIFIED, HOST, HOST_ASYNC, RECT, BOX, ARRAY, BATCH, BATCH_3D, PEER_OF_OTHER, FORMS_REFUSED,
	PEER = FORMS_REFUSED, PEER_ASYNC, PEER_BOX, FORMS
};

/* These forms do not use the other device's memory. */
#define ELSEWHERE	(1u << HOST | 1u << HOST_ASYNC | 1u << ARRAY)

static CUresult copy_in_form(const struct forms *f, enum form form)
{
	static unsigned char host[BYTES_OF_FORMS];
	CUdeviceptr dst = f->to ? f->p : f->q, src = f->to ? f->q : f->p;
	CUcontext to = f->to ? f->own : f->other, from = f->to ? f->other : f->own;
	CUDA_MEMCPY2D rect = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = src, .srcPitch = 64,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = dst, .dstPitch = 64,
		.WidthInBytes = 64, .Height = BYTES_OF_FORMS / 64,
	};
	CUDA_MEMCPY3D box = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = src, .srcPitch = 64, .srcHeight = 8,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED, .dstDevice = dst, .dstPitch = 64, .dstHeight = 8,
		.WidthInBytes = 64, .Height = 8, .Depth = BYTES_OF_FORMS / 512,
	};
	CUDA_MEMCPY3D_PEER peer = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = src, .srcPitch = 64, .srcHeight = 8,
		.srcContext = from, .dstContext = to,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = dst, .dstPitch = 64, .dstHeight = 8,
		.WidthInBytes = 64, .Height = 8, .Depth = BYTES_OF_FORMS / 512,
	};
	CUmemcpyAttributes how = { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM };
	CUDA_MEMCPY3D_BATCH_OP op = {
		.src = { .type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr.ptr = src },
		.dst = { .type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr.ptr = dst },
		.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, .extent = { BYTES_OF_FORMS, 1, 1 },
	};
	size_t bytes = BYTES_OF_FORMS, first = 0;

	memset(host, 2, sizeof(host));
	switch (form) {
	case LINEAR:
		return cuMemcpyDtoD(dst, src, bytes);
	case ASYNC:
		return cuMemcpyDtoDAsync(dst, src, bytes, f->stream);
	case UNIFIED:
		return cuMemcpyAsync(dst, src, bytes, f->stream);
	case HOST:
		return f->to ? cuMemcpyHtoD(f->p, host, bytes) : cuMemcpyDtoH(host, f->p, bytes);
	case HOST_ASYNC:
		return f->to ? cuMemcpyHtoDAsync(f->p, host, bytes, f->stream) :
			cuMemcpyDtoHAsync(host, f->p, bytes, f->stream);
	case RECT:
		return cuMemcpy2DAsync(&rect, f->stream);
	case BOX:
		return cuMemcpy3D(&box);
	case ARRAY:
		return f->to ? cuMemcpyAtoD(f->p, f->full, 0, bytes) :
			cuMemcpyDtoA(f->array, 0, f->p, bytes);
	case BATCH:
		return cuMemcpyBatchAsync(&dst, &src, &bytes, 1, &how, &first, 1, f->stream);
	case BATCH_3D:
		return cuMemcpy3DBatchAsync(1, &op, 0, f->stream);
	case PEER_OF_OTHER:
		return cuMemcpyPeer(dst, f->other, src, f->other, bytes);
	case PEER:
		return cuMemcpyPeer(dst, to, src, from, bytes);
	case PEER_ASYNC:
		return cuMemcpyPeerAsync(dst, to, src, from, bytes, f->stream);
	default:
		return cuMemcpy3DPeerAsync(&peer, f->stream);
	}
}

/* Fill the pool's memory with 1, and the other device's with 2. Afterwards the other's context is current. */
static bool forms_fill(const struct forms *f)
{
	unsigned char one[BYTES_OF_FORMS], two[BYTES_OF_FORMS];

	memset(one, 1, sizeof(one));
	memset(two, 2, sizeof(two));
	if (cuCtxSetCurrent(f->own))
		return false;
	put(f->p, one, sizeof(one));
	if (cuCtxSetCurrent(f->other))
		return false;
	put(f->q, two, sizeof(two));
	return true;
}

/* Whether both hold these bytes, when all work has ended. Afterwards the other's context is current. */
static bool forms_hold(const struct forms *f, unsigned char p, unsigned char q)
{
	bool same;

	if (cuCtxSetCurrent(f->other) || cuCtxSynchronize() || cuCtxSetCurrent(f->own) || cuCtxSynchronize())
		return false;
	same = sees(f->p, p, BYTES_OF_FORMS);
	return !cuCtxSetCurrent(f->other) && sees(f->q, q, BYTES_OF_FORMS) && same;
}

/*
 * Memory of a pool of the first device: all copies are refused while the second device has no access, except those
 * between contexts that name the first for it. A refused copy changes nothing.
 */
TEST_F(peer, copies_of_pools)
{
	const CUDA_ARRAY_DESCRIPTOR desc = {
		.Width = BYTES_OF_FORMS, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1,
	};
	struct forms f = { .own = self->ctx, .other = self->other };
	CUmemAccessDesc access = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1 },
	};
	CUmemoryPool pool;

	ASSERT_CU(cuDeviceGetDefaultMemPool(&pool, 0));
	ASSERT_CU(cuMemAllocAsync(&f.p, BYTES_OF_FORMS, NULL));
	ASSERT_CU(cuStreamSynchronize(NULL));
	ASSERT_CU(cuCtxSetCurrent(self->other));
	ASSERT_CU(cuStreamCreate(&f.stream, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuMemAlloc(&f.q, BYTES_OF_FORMS));
	ASSERT_CU(cuArrayCreate(&f.array, &desc));
	ASSERT_CU(cuArrayCreate(&f.full, &desc));
	ASSERT_TRUE(forms_fill(&f));
	ASSERT_CU(cuMemcpyDtoA(f.full, 0, f.q, BYTES_OF_FORMS));
	for (int round = 0; round < 3; round++) {
		bool given = round == 1;

		access.flags = given ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
		ASSERT_CU(cuMemPoolSetAccess(pool, &access, 1));
		for (int i = 0; i < 2 * FORMS; i++) {
			enum form form = i / 2;
			bool may = given || form >= FORMS_REFUSED;

			f.to = i % 2;
			ASSERT_TRUE(forms_fill(&f));
			EXPECT_EQ(may ? CUDA_SUCCESS : INVALID, copy_in_form(&f, form)) {
				TH_LOG("form %d, to the pool: %d", form, f.to);
			}
			ASSERT_CU(cuStreamSynchronize(f.stream));
			/* The array and the host's memory hold 2, or what came from the pool. */
			EXPECT_TRUE(forms_hold(&f, may && f.to ? 2 : 1,
					       may && !f.to && !(ELSEWHERE >> form & 1) ? 1 : 2)) {
				TH_LOG("form %d, to the pool: %d", form, f.to);
			}
		}
	}
	/* The rights of the current context count, whatever the stream; in a batch those of the stream's. */
	f.to = false;
	ASSERT_TRUE(forms_fill(&f));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_EQ(INVALID, copy_in_form(&f, BATCH));
	EXPECT_CU(copy_in_form(&f, ASYNC));
	ASSERT_CU(cuStreamSynchronize(f.stream));
	EXPECT_TRUE(forms_hold(&f, 1, 1));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_CU(cuStreamDestroy(f.stream));
	EXPECT_CU(cuArrayDestroy(f.array));
	EXPECT_CU(cuArrayDestroy(f.full));
	EXPECT_CU(cuMemFree(f.q));
	EXPECT_CU(cuMemFree(f.p));
}

/* cuMemPoolSetAccess() alone decides which devices may access a pool; peer access of contexts does not. */
TEST_F(peer, pools)
{
	CUmemAccessDesc access = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1 },
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUmemoryPool pool;
	CUdeviceptr p;
	CUstream s;

	ASSERT_CU(cuDeviceGetDefaultMemPool(&pool, 0));
	ASSERT_CU(cuMemAllocAsync(&p, 4096, NULL));
	ASSERT_CU(cuMemsetD8(p, 1, 4096));
	ASSERT_CU(cuStreamSynchronize(NULL));
	ASSERT_CU(cuCtxSetCurrent(self->other));
	ASSERT_CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	EXPECT_CU(cuCtxEnablePeerAccess(self->ctx, 0));
	EXPECT_EQ(INVALID, cuMemsetD8Async(p, 2, 4096, s));
	ASSERT_CU(cuMemPoolSetAccess(pool, &access, 1));
	EXPECT_CU(cuMemsetD8Async(p, 3, 4096, s));
	ASSERT_CU(cuStreamSynchronize(s));
	EXPECT_TRUE(sees(p, 3, 4096));
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	ASSERT_CU(cuMemPoolSetAccess(pool, &access, 1));
	EXPECT_EQ(INVALID, cuStreamWriteValue32(s, p, 1, 0));
	EXPECT_CU(cuStreamDestroy(s));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_CU(cuMemFree(p));
}

/* A stream can wait for events of the other device.  It can record events of its own context only. */
TEST_F(peer, events)
{
	CUevent e, theirs;
	CUdeviceptr a, b;
	CUstream s, t;
	struct load load;
	float ms;

	ASSERT_CU(load_make(&load));
	ASSERT_CU(cuMemAlloc(&a, 4096));
	ASSERT_CU(cuMemsetD8(a, 1, 4096));
	ASSERT_CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuEventCreate(&e, 0));
	ASSERT_CU(cuCtxSynchronize());
	ASSERT_CU(cuCtxSetCurrent(self->other));
	ASSERT_CU(cuMemAlloc(&b, 4096));
	ASSERT_CU(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuEventCreate(&theirs, 0));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(e, t));
	EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(theirs, s));

	/* The order: load and fill in s; the copy in t, which waits for e; the last fill in s. */
	ASSERT_EQ(CUDA_ERROR_NOT_READY, load_put_busy(&load, s));
	EXPECT_CU(cuMemsetD8Async(a, 2, 4096, s));
	EXPECT_CU(cuEventRecord(e, s));
	EXPECT_CU(cuStreamWaitEvent(t, e, 0));
	EXPECT_CU(cuMemcpyDtoDAsync(b, a, 4096, t));
	EXPECT_CU(cuEventRecord(theirs, t));
	EXPECT_CU(cuStreamWaitEvent(s, theirs, 0));
	EXPECT_CU(cuMemsetD8Async(a, 3, 4096, s));
	EXPECT_CU(cuStreamSynchronize(s));
	EXPECT_TRUE(load_done(&load));
	EXPECT_TRUE(sees(a, 3, 4096));
	EXPECT_TRUE(sees(b, 2, 4096));
	EXPECT_CU(cuEventSynchronize(theirs));
	EXPECT_CU(cuEventQuery(e));
	EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime(&ms, e, theirs));
	EXPECT_CU(cuEventDestroy(theirs));
	EXPECT_CU(cuEventDestroy(e));
	EXPECT_CU(cuStreamDestroy(t));
	EXPECT_CU(cuStreamDestroy(s));
	EXPECT_CU(cuMemFree(a));
	EXPECT_CU(cuMemFree(b));
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

	/*
	 * A copy between two contexts needs no current context, and leaves none current.  It is complete
	 * when the call returns.
	 */
	EXPECT_CU(cuMemcpyPeer(b, self->other, a, self->ctx, sizeof(noise)));
	EXPECT_EQ(0, memcmp(view(b, sizeof(noise)), noise, sizeof(noise)));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyDtoD(b, a, 1));
	EXPECT_CU(cuMemcpyPeer(0, self->other, 0, self->ctx, 0));
	EXPECT_EQ(INVALID, cuMemcpyPeer(0, self->other, 0, self->ctx, 1));
	EXPECT_EQ(INVALID, cuMemcpyPeer(b + 1, self->other, a, self->ctx, sizeof(noise)));
	EXPECT_EQ(INVALID, cuMemcpyPeer(b, self->other, (uintptr_t)noise, self->ctx, 16));
	/* If both contexts are the same, or one is NULL, a current context is needed. */
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyPeer(a, self->ctx, a, self->ctx, 1));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyPeer(b, NULL, a, self->ctx, 1));
	poke(b, 0, sizeof(noise));
	box.srcDevice = a;
	box.dstDevice = b;
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuMemcpy3DPeer(&box));
	box.srcContext = self->ctx;
	box.dstContext = self->other;
	EXPECT_CU(cuMemcpy3DPeer(&box));
	EXPECT_EQ(0, memcmp(view(b, 1200), noise, 1200));
	EXPECT_TRUE(sees(b + 1200, 0, sizeof(noise) - 1200));
	EXPECT_NE(CUDA_SUCCESS, cuMemcpy3DPeer(NULL));
	box.dstZ = 1 << 20;
	EXPECT_EQ(INVALID, cuMemcpy3DPeer(&box));
}

/* A copy stays in the allocation of its base address: an offset that leads into another one is refused. */
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

/*
 * Calls that take a context or a stream of another device.  Also flags of event records, the profiler
 * and cuGetExportTable().
 */
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

/* What no device has: multicast objects and logical endpoints. */
#define REFUSED(call)	EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, (call))
#define UNTOUCHED	0x5a5a5a5a5a5a5a5aul

static void refuse_multicast(struct __test_metadata *_metadata, CUdeviceptr ptr)
{
	const CUmulticastObjectProp prop = {.numDevices = 2, .size = 2 << 20,
		.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
	CUmemGenericAllocationHandle object = UNTOUCHED;
	size_t granularity = UNTOUCHED;

	REFUSED(cuMulticastGetGranularity(&granularity, &prop, CU_MULTICAST_GRANULARITY_MINIMUM));
	REFUSED(cuMulticastGetGranularity(&granularity, &prop, CU_MULTICAST_GRANULARITY_RECOMMENDED));
	EXPECT_EQ(UNTOUCHED, granularity);
	REFUSED(cuMulticastCreate(&object, &prop));
	EXPECT_EQ(UNTOUCHED, object);
	REFUSED(cuMulticastAddDevice(object, 0));
	REFUSED(cuMulticastBindMem(object, 0, object, 0, 2 << 20, 0));
	REFUSED(cuMulticastBindMem_v2(object, 1, 0, object, 0, 2 << 20, 0));
	REFUSED(cuMulticastBindAddr(object, 0, ptr, 2 << 20, 0));
	REFUSED(cuMulticastBindAddr_v2(object, 1, 0, ptr, 2 << 20, 0));
	REFUSED(cuMulticastUnbind(object, 0, 0, 2 << 20));
	REFUSED(cuMulticastGetGranularity(NULL, NULL, 0));
	REFUSED(cuMulticastCreate(NULL, NULL));
}

static void refuse_endpoints(struct __test_metadata *_metadata, CUdeviceptr ptr)
{
	const CUlogicalEndpointIpcHandleType fabric = CU_LOGICAL_ENDPOINT_IPC_HANDLE_TYPE_FABRIC;
	CUlogicalEndpointProp unicast = {.type = CU_LOGICAL_ENDPOINT_TYPE_UNICAST, .unicast.device = 1,
		.size = 2 << 20, .ipcHandleTypes = fabric, .flags = CU_LOGICAL_ENDPOINT_FLAG_COUNTED_OPS};
	CUlogicalEndpointProp multicast = {.type = CU_LOGICAL_ENDPOINT_TYPE_MULTICAST,
		.multicast.numDevices = 2, .size = 2 << 20, .flags = CU_LOGICAL_ENDPOINT_FLAG_NONE};
	cuuint64_t alignment = UNTOUCHED, max = UNTOUCHED;
	CUlogicalEndpointFabricHandle handle, filled;
	CUlogicalEndpointId id = (CUlogicalEndpointId)UNTOUCHED;
	int ready = (int)UNTOUCHED;

	memset(&filled, 0x5a, sizeof(filled));
	handle = filled;
	REFUSED(cuLogicalEndpointGetLimits(&alignment, &max, &unicast));
	REFUSED(cuLogicalEndpointGetLimits(&alignment, &max, &multicast));
	EXPECT_EQ(UNTOUCHED, alignment);
	EXPECT_EQ(UNTOUCHED, max);
	REFUSED(cuLogicalEndpointIdReserve(&id, 2));
	EXPECT_EQ((CUlogicalEndpointId)UNTOUCHED, id);
	REFUSED(cuLogicalEndpointCreate(id, &unicast));
	REFUSED(cuLogicalEndpointCreate(id + 1, &multicast));
	REFUSED(cuLogicalEndpointAddDevice(id + 1, 0));
	REFUSED(cuLogicalEndpointQuery(id, 2, &ready));
	EXPECT_EQ((int)UNTOUCHED, ready);
	REFUSED(cuLogicalEndpointBindMem(id, 1, 0, UNTOUCHED, 0, 2 << 20, 0));
	REFUSED(cuLogicalEndpointBindAddr(id, 1, 0, (void *)ptr, 2 << 20, 0));
	REFUSED(cuLogicalEndpointUnbind(id, 1, 0, 2 << 20));
	REFUSED(cuLogicalEndpointExport(&handle, id, fabric));
	EXPECT_EQ(0, memcmp(&handle, &filled, sizeof(handle)));
	REFUSED(cuLogicalEndpointImport(id, &handle, fabric));
	REFUSED(cuLogicalEndpointDestroy(id));
	REFUSED(cuLogicalEndpointIdRelease(id, 2));
	REFUSED(cuLogicalEndpointGetLimits(NULL, NULL, NULL));
	REFUSED(cuLogicalEndpointIdReserve(NULL, 0));
}

/* The attributes are 0, the functions are found by name and fail, and outputs and memory stay as they are. */
TEST_F(peer, endpoints)
{
	static const int attributes[] = {
		CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED,
		CU_DEVICE_ATTRIBUTE_LOGICAL_ENDPOINT_UNICAST_SUPPORTED,
		CU_DEVICE_ATTRIBUTE_LOGICAL_ENDPOINT_MULTICAST_SUPPORTED,
		CU_DEVICE_ATTRIBUTE_LOGICAL_ENDPOINT_COUNTED_OPS_SUPPORTED,
		CU_DEVICE_ATTRIBUTE_LOGICAL_ENDPOINT_UNICAST_ACCESS_ON_OWNER_DEVICE_SUPPORTED,
	};
#define FORM(version, name, symbol)	{ name, version, (void *)(symbol) }
	static const struct {
		const char *name;
		int version;
		void *symbol;
	} forms[] = {
		FORM(12010, "cuMulticastCreate", cuMulticastCreate),
		FORM(12010, "cuMulticastAddDevice", cuMulticastAddDevice),
		FORM(12010, "cuMulticastBindMem", cuMulticastBindMem),
		FORM(13010, "cuMulticastBindMem", cuMulticastBindMem_v2),
		FORM(CUDA_VERSION, "cuMulticastBindMem", cuMulticastBindMem_v2),
		FORM(12010, "cuMulticastBindAddr", cuMulticastBindAddr),
		FORM(13010, "cuMulticastBindAddr", cuMulticastBindAddr_v2),
		FORM(CUDA_VERSION, "cuMulticastBindAddr", cuMulticastBindAddr_v2),
		FORM(12010, "cuMulticastUnbind", cuMulticastUnbind),
		FORM(12010, "cuMulticastGetGranularity", cuMulticastGetGranularity),
		FORM(13030, "cuLogicalEndpointIdReserve", cuLogicalEndpointIdReserve),
		FORM(13030, "cuLogicalEndpointIdRelease", cuLogicalEndpointIdRelease),
		FORM(13030, "cuLogicalEndpointCreate", cuLogicalEndpointCreate),
		FORM(13030, "cuLogicalEndpointAddDevice", cuLogicalEndpointAddDevice),
		FORM(13030, "cuLogicalEndpointDestroy", cuLogicalEndpointDestroy),
		FORM(13030, "cuLogicalEndpointBindAddr", cuLogicalEndpointBindAddr),
		FORM(13030, "cuLogicalEndpointBindMem", cuLogicalEndpointBindMem),
		FORM(13030, "cuLogicalEndpointUnbind", cuLogicalEndpointUnbind),
		FORM(13030, "cuLogicalEndpointExport", cuLogicalEndpointExport),
		FORM(13030, "cuLogicalEndpointImport", cuLogicalEndpointImport),
		FORM(13030, "cuLogicalEndpointGetLimits", cuLogicalEndpointGetLimits),
		FORM(13030, "cuLogicalEndpointQuery", cuLogicalEndpointQuery),
	};
#undef FORM
	unsigned char bytes[4096];
	CUdeviceptr ptr;

	for (unsigned int i = 0; i < ARRAY_SIZE(attributes); i++)
		for (int device = 0; device < 2; device++) {
			int value = 77;

			EXPECT_CU(cuDeviceGetAttribute(&value, attributes[i], device));
			EXPECT_EQ(0, value);
		}
	for (unsigned int i = 0; i < ARRAY_SIZE(forms); i++) {
		void *found = NULL;

		EXPECT_CU(cuGetProcAddress(forms[i].name, &found, forms[i].version, 0, NULL));
		EXPECT_EQ(forms[i].symbol, found) {
			TH_LOG("%s of CUDA %d", forms[i].name, forms[i].version);
		}
	}

	ASSERT_CU(cuMemAlloc(&ptr, 2 << 20));
	ASSERT_CU(cuMemsetD8(ptr, 0x33, 2 << 20));
	refuse_multicast(_metadata, ptr);
	refuse_endpoints(_metadata, ptr);
	ASSERT_CU(cuMemcpyDtoH(bytes, ptr, sizeof(bytes)));
	for (unsigned int i = 0; i < sizeof(bytes); i++)
		ASSERT_EQ(0x33, bytes[i]);
	EXPECT_CU(cuMemFree(ptr));
}

TEST_HARNESS_MAIN
