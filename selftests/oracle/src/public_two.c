// SPDX-License-Identifier: GPL-2.0
/*
 * Cases of two devices: what reaches the memory of one from a context or stream of the other,
 * without peer access and with it, and events between them.  Recorded on a machine with two GPUs.
 */
#include "oracle.h"

#define N 65536

/* Everything of the first device, whose context is current, and of the second. */
static CUcontext two_ctx;
static CUdevice two_dev = 1;
static CUstream s0, s1;
static CUdeviceptr a, b;
static unsigned char *pinned;

static CUresult two(void)
{
	CUresult r;
	int n = 0;

	init_ctx();
	cuDeviceGetCount(&n);
	if (n < 2)
		return CUDA_ERROR_NO_DEVICE;
	r = cuDevicePrimaryCtxRetain(&two_ctx, two_dev);
	a = dalloc(N);
	if (!r)
		r = cuStreamCreate(&s0, CU_STREAM_NON_BLOCKING);
	if (!r)
		r = cuMemHostAlloc((void **)&pinned, N, 0);
	if (!r)
		r = cuCtxSetCurrent(two_ctx);
	b = r ? 0 : dalloc(N);
	if (!r)
		r = cuStreamCreate(&s1, CU_STREAM_NON_BLOCKING);
	if (!r)
		r = cuMemsetD8(b, 1, N);
	if (!r)
		r = cuCtxSynchronize();
	if (!r)
		r = cuCtxSetCurrent(g_ctx);
	if (!r)
		r = cuMemsetD8(a, 2, N);
	return r ? r : cuCtxSynchronize();
}

static CUcontext two_current(void)
{
	CUcontext c = NULL;

	cuCtxGetCurrent(&c);
	return c;
}

/* The last byte of each allocation, read by the context that owns it. */
static const char *ends(void)
{
	unsigned char x = 99, y = 99;
	CUcontext was = two_current();

	cuCtxSetCurrent(g_ctx);
	cuCtxSynchronize();
	cuCtxSetCurrent(two_ctx);
	cuCtxSynchronize();
	cuMemcpyDtoH(&y, b + N - 1, 1);
	cuCtxSetCurrent(g_ctx);
	cuMemcpyDtoH(&x, a + N - 1, 1);
	cuCtxSetCurrent(was);
	return F("a=%d b=%d", x, y);
}

/*
 * Access the other device's memory in every way.  If a call in another stream follows, the test
 * first waits for the work.
 */
static void reach(const char *when)
{
	static CUdeviceptr dst[1], src[1];
	static size_t n[1] = { N }, ix[1];
	CUmemcpyAttributes at;
	CUDA_MEMCPY2D c;
	unsigned char *h = halloc(N);

	memset(h, 11, N);
	memset(pinned, 12, N);
	TF(F("%s.dtod_to_other", when), cuMemcpyDtoD(b, a, N), "%s", ends());
	TF(F("%s.memset_other", when), cuMemsetD8(b, 3, N), "%s", ends());
	TF(F("%s.dtod_from_other", when), cuMemcpyDtoD(a, b, N), "%s", ends());
	TF(F("%s.memset_async_other", when), cuMemsetD8Async(b, 4, N, s0), "%s", ends());
	TF(F("%s.memset_d32_other", when), cuMemsetD32(b, 0x05050505, N / 4), "%s", ends());
	TF(F("%s.memset_2d_other", when), cuMemsetD2D8(b, 256, 6, 256, N / 256), "%s", ends());
	TF(F("%s.htod_other", when), cuMemcpyHtoD(b, h, N), "%s", ends());
	TF(F("%s.htod_async_pinned_other", when), cuMemcpyHtoDAsync(b, pinned, N, s0), "%s", ends());
	TF(F("%s.dtoh_other", when), cuMemcpyDtoH(h, b, N), "h=%d", h[N - 1]);
	TF(F("%s.unified_other", when), cuMemcpy(b, a, N), "%s", ends());
	TF(F("%s.dtod_async_own_stream", when), cuMemcpyDtoDAsync(b, a, N, s0), "%s", ends());
	T(F("%s.memset_a", when), cuMemsetD8(a, 7, N));
	cuCtxSynchronize();
	TF(F("%s.dtod_async_stream_of_other", when), cuMemcpyDtoDAsync(b, a, N, s1), "%s", ends());
	TF(F("%s.memset_own_stream_of_other", when), cuMemsetD8Async(a, 8, N, s1), "%s", ends());
	memset(&c, 0, sizeof(c));
	c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	c.srcDevice = a;
	c.dstDevice = b;
	c.srcPitch = c.dstPitch = c.WidthInBytes = 256;
	c.Height = N / 256;
	TF(F("%s.copy2d_to_other", when), cuMemcpy2D(&c), "%s", ends());
	TF(F("%s.copy2d_async_to_other", when), cuMemcpy2DAsync(&c, s0), "%s", ends());
	memset(&at, 0, sizeof(at));
	at.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
	T(F("%s.memset_a_again", when), cuMemsetD8(a, 9, N));
	cuCtxSynchronize();
	dst[0] = b;
	src[0] = a;
	TF(F("%s.batch_to_other", when), cuMemcpyBatchAsync(dst, src, n, 1, &at, ix, 1, s0), "%s", ends());
	TF(F("%s.peer_named", when), cuMemcpyPeer(a, g_ctx, b, two_ctx, N), "%s", ends());
	TF(F("%s.peer_swapped", when), cuMemcpyPeer(b, g_ctx, a, two_ctx, N), "%s", ends());
	TF(F("%s.peer_async", when), cuMemcpyPeerAsync(b, two_ctx, a, g_ctx, N, s0), "%s", ends());
	TF(F("%s.write_value_other", when), cuStreamWriteValue32(s0, b + N - 4, 0x0a0a0a0a, 0), "%s", ends());
	T(F("%s.wait_value_other", when), cuStreamWaitValue32(s0, b + N - 4, 0, CU_STREAM_WAIT_VALUE_GEQ));
	CUstreamBatchMemOpParams op;
	CUdeviceptr base = 0;
	size_t size = 0;

	memset(&op, 0, sizeof(op));
	op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	op.writeValue.address = b;
	op.writeValue.value = 1;
	T(F("%s.batch_write_other", when), cuStreamBatchMemOp(s0, 1, &op, 0));
	TF(F("%s.range_other", when), cuMemGetAddressRange(&base, &size, b + 5), "same=%d size=%zu", base == b, size);
	T(F("%s.memset_pinned_there", when), cuMemsetD8Async(DPTR(pinned), 1, N, s1));
	T(F("%s.write_pinned_there", when), cuStreamWriteValue32(s1, DPTR(pinned), 1, 0));
	T(F("%s.memset_none", when), cuMemsetD8(b, 1, 0));
	T(F("%s.memset_beyond", when), cuMemsetD8(b, 1, 4 * GiB(1)));
	T(F("%s.sync", when), cuStreamSynchronize(s0));
	T(F("%s.sync_other", when), cuStreamSynchronize(s1));
	hfree(h, N);
}

GROUPT(two_reach, 60)
{
	int can = 9;

	REQ(two());
	TF("can", cuDeviceCanAccessPeer(&can, g_dev, two_dev), "can=%d", can);
	TF("can_itself", cuDeviceCanAccessPeer(&can, g_dev, g_dev), "can=%d", can);
	reach("without");
	T("enable", cuCtxEnablePeerAccess(two_ctx, 0));
	T("enable_again", cuCtxEnablePeerAccess(two_ctx, 0));
	reach("with");
	T("disable", cuCtxDisablePeerAccess(two_ctx));
	T("disable_again", cuCtxDisablePeerAccess(two_ctx));
	T("enable_itself", cuCtxEnablePeerAccess(g_ctx, 0));
	T("enable_flags", cuCtxEnablePeerAccess(two_ctx, 1));
	T("disable_itself", cuCtxDisablePeerAccess(g_ctx));
	T("enable_null", cuCtxEnablePeerAccess(NULL, 0));
	T("disable_null", cuCtxDisablePeerAccess(NULL));
	TNOCTX("enable_noctx", cuCtxEnablePeerAccess(two_ctx, 0));
	TNOCTX("disable_noctx", cuCtxDisablePeerAccess(two_ctx));
}

/* Memory that every context has, and pointers that no context has. */
GROUPT(two_common, 30)
{
	CUdeviceptr m = 0, mh = 0, base = 0;
	CUstreamBatchMemOpParams op;
	size_t size = 0;
	void *portable = NULL;
	CUcontext c = NULL;

	REQ(two());
	REQ(cuMemAllocManaged(&m, N, CU_MEM_ATTACH_GLOBAL));
	REQ(cuMemHostAlloc(&portable, N, CU_MEMHOSTALLOC_PORTABLE));
	T("memset_managed", cuMemsetD8Async(m, 1, N, s0));
	T("sync", cuStreamSynchronize(s0));
	T("memset_managed_there", cuMemsetD8Async(m, 1, N, s1));
	T("sync_there", cuStreamSynchronize(s1));
	T("write_managed", cuStreamWriteValue32(s0, m, 1, 0));
	T("wait_managed", cuStreamWaitValue32(s0, m, 0, CU_STREAM_WAIT_VALUE_GEQ));
	T("write64_managed", cuStreamWriteValue64(s0, m + 8, 1, 0));
	T("write_managed_there", cuStreamWriteValue32(s1, m, 1, 0));
	T("wait_managed_there", cuStreamWaitValue32(s1, m, 0, CU_STREAM_WAIT_VALUE_GEQ));
	memset(&op, 0, sizeof(op));
	op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	op.writeValue.address = m;
	T("batch_managed", cuStreamBatchMemOp(s0, 1, &op, 0));
	REQ(cuMemAllocManaged(&mh, N, CU_MEM_ATTACH_HOST));
	T("write_managed_host", cuStreamWriteValue32(s0, mh, 1, 0));
	T("wait_managed_host", cuStreamWaitValue32(s0, mh, 0, CU_STREAM_WAIT_VALUE_GEQ));
	T("memset_managed_host", cuMemsetD8Async(mh, 1, N, s0));
	T("sync_managed", cuStreamSynchronize(s0));
	T("memset_portable_there", cuMemsetD8Async(DPTR(portable), 1, N, s1));
	T("write_portable_there", cuStreamWriteValue32(s1, DPTR(portable), 1, 0));
	TF("range_managed", cuMemGetAddressRange(&base, &size, m + 5), "same=%d size=%zu", base == m, size);
	TF("range_pinned", cuMemGetAddressRange(&base, &size, DPTR(pinned) + 5), "same=%d size=%zu", base == DPTR(pinned), size);
	TF("range_nothing", cuMemGetAddressRange(&base, &size, DPTR(&c)), "%s", "");
	cuCtxSetCurrent(two_ctx);
	TF("range_there", cuMemGetAddressRange(&base, &size, b + 5), "same=%d size=%zu", base == b, size);
	TF("range_managed_there", cuMemGetAddressRange(&base, &size, m + 5), "same=%d size=%zu", base == m, size);
	TF("range_pinned_there", cuMemGetAddressRange(&base, &size, DPTR(pinned) + 5), "same=%d size=%zu", base == DPTR(pinned), size);
	cuCtxSetCurrent(NULL);
	TF("range_noctx", cuMemGetAddressRange(&base, &size, b + 5), "same=%d size=%zu", base == b, size);
	TF("range_managed_noctx", cuMemGetAddressRange(&base, &size, m + 5), "same=%d size=%zu", base == m, size);
	cuCtxSetCurrent(g_ctx);
}

/* Two contexts of one device. */
GROUPT(two_same, 30)
{
	CUcontext c = NULL;
	CUdeviceptr d, base = 0;
	CUevent e = NULL, own;
	CUstream s = NULL;
	size_t size = 0;
	float ms = -1;
	int can = 9;

	init_ctx();
	d = dalloc(N);
	REQ(cuCtxCreate(&c, NULL, 0, g_dev));
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	T("memset", cuMemsetD8(d, 1, N));
	T("memset_async", cuMemsetD8Async(d, 1, N, s));
	T("write", cuStreamWriteValue32(s, d, 1, 0));
	T("sync", cuStreamSynchronize(s));
	T("copy", cuMemcpyDtoDAsync(d, d + N / 2, N / 2, s));
	TF("range", cuMemGetAddressRange(&base, &size, d + 5), "same=%d size=%zu", base == d, size);
	T("event", cuEventCreate(&e, 0));
	T("record", cuEventRecord(e, s));
	T("enable", cuCtxEnablePeerAccess(g_ctx, 0));
	T("memset_enabled", cuMemsetD8(d, 1, N));
	T("enable_again", cuCtxEnablePeerAccess(g_ctx, 0));
	T("disable", cuCtxDisablePeerAccess(g_ctx));
	cuCtxSetCurrent(g_ctx);
	T("record_there", cuEventRecord(e, 0));
	REQ(cuEventCreate(&own, 0));
	T("record_own", cuEventRecord(own, 0));
	T("event_sync", cuEventSynchronize(own));
	TF("elapsed", cuEventElapsedTime(&ms, e, own), "moved=%d", ms != -1);
	T("free", cuMemFree(d));
	TF("can", cuDeviceCanAccessPeer(&can, g_dev, g_dev), "can=%d", can);
}

GROUPT(two_attr, 30)
{
	int v = -1;

	REQ(two());
	TF("performance", cuDeviceGetP2PAttribute(&v, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, 0, 1), "v=%d", v);
	TF("access", cuDeviceGetP2PAttribute(&v, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1), "v=%d", v);
	TF("atomics", cuDeviceGetP2PAttribute(&v, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, 0, 1), "v=%d", v);
	TF("arrays", cuDeviceGetP2PAttribute(&v, CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED, 0, 1), "v=%d", v);
	T("itself", cuDeviceGetP2PAttribute(&v, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0));
	T("null", cuDeviceGetP2PAttribute(NULL, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1));
	T("no_such", cuDeviceGetP2PAttribute(&v, 99, 0, 1));
	T("no_device", cuDeviceGetP2PAttribute(&v, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 99));
}

GROUPT(two_info, 30)
{
	CUdeviceptr base = 0, got = 0;
	CUcontext c = NULL;
	CUdevice dev = 9;
	CUmemoryPool pool;
	size_t size = 0;
	int ordinal = 9;
	void *page = halloc(N);

	REQ(two());
	TF("range_other", cuMemGetAddressRange(&base, &size, b + 5), "same=%d size=%zu", base == b, size);
	TF("ordinal_other", cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, b), "v=%d", ordinal);
	TF("context_other", cuPointerGetAttribute(&c, CU_POINTER_ATTRIBUTE_CONTEXT, b), "two=%d", c == two_ctx);
	T("ipc_other", cuIpcGetMemHandle(&(CUipcMemHandle){ 0 }, b));
	TF("host_ordinal", cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, DPTR(pinned)), "v=%d", ordinal);
	T("register", cuMemHostRegister(page, N, 0));
	cuCtxSetCurrent(two_ctx);
	TF("host_pointer_there", cuMemHostGetDevicePointer(&got, pinned, 0), "same=%d", got == DPTR(pinned));
	TF("registered_pointer_there", cuMemHostGetDevicePointer(&got, page, 0), "same=%d", got == DPTR(page));
	T("registered_copy_there", cuMemcpyHtoDAsync(b, page, N, s1));
	T("unregister_there", cuMemHostUnregister(page));
	T("free_host_there", cuMemFreeHost(pinned));
	T("free_there", cuMemFree(a));
	TF("device_of_stream", cuStreamGetDevice(s0, &dev), "v=%d", dev);
	TF("ctx_of_stream", cuStreamGetCtx(s0, &c), "first=%d", c == g_ctx);
	T("sync_there", cuStreamSynchronize(s0));
	T("query_there", cuStreamQuery(s0));
	T("destroy_there", cuStreamDestroy(s0));
	T("pool_of_first", cuDeviceGetDefaultMemPool(&pool, 0));
	cuCtxSetCurrent(g_ctx);
	T("free_other", cuMemFree(b));
}

GROUPT(two_events, 40)
{
	CUevent e0, e1, t0, t1;
	unsigned char h = 0;
	float ms = -1;
	gate_t g;

	REQ(two());
	REQ(cuEventCreate(&e0, CU_EVENT_DISABLE_TIMING));
	REQ(cuEventCreate(&t0, 0));
	cuCtxSetCurrent(two_ctx);
	REQ(cuEventCreate(&e1, CU_EVENT_DISABLE_TIMING));
	REQ(cuEventCreate(&t1, 0));
	cuCtxSetCurrent(g_ctx);
	T("record_in_stream_of_other", cuEventRecord(e0, s1));
	T("record_others_in_own_stream", cuEventRecord(e1, s0));
	T("record", cuEventRecord(t0, s0));
	cuCtxSetCurrent(two_ctx);
	T("record_other_null_stream", cuEventRecord(e0, 0));
	T("record_there", cuEventRecord(t1, s1));
	T("sync_there", cuEventSynchronize(t0));
	T("query_there", cuEventQuery(t0));
	T("sync_own", cuEventSynchronize(t1));
	TF("elapsed", cuEventElapsedTime(&ms, t0, t1), "moved=%d", ms != -1);
	cuCtxSetCurrent(g_ctx);
	/* The second device's work after the first one's. */
	REQ(gate_close(&g, s0));
	T("memset", cuMemsetD8Async(a, 33, N, s0));
	T("record_held", cuEventRecord(e0, s0));
	T("wait_there", cuStreamWaitEvent(s1, e0, 0));
	T("copy_there", cuMemcpyDtoDAsync(b, a, N, s1));
	T("query_held", cuStreamQuery(s1));
	TF("query_event_held", cuEventQuery(e0), "%s", "");
	gate_open(&g);
	T("sync_after", cuStreamSynchronize(s1));
	cuCtxSetCurrent(two_ctx);
	TF("read", cuMemcpyDtoH(&h, b + N - 1, 1), "h=%d", h);
	T("destroy_there", cuEventDestroy(e0));
	T("destroy_own", cuEventDestroy(e1));
	gate_done(&g);
}

GROUPT(two_pools, 40)
{
	CUmemoryPool pool, dflt;
	CUmemPoolProps props;
	CUmemAccessDesc access;
	CUmemAccess_flags flags = 9;
	CUmemLocation loc = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1 };
	CUdeviceptr p = 0, q = 0, base = 0;
	size_t size = 0;

	REQ(two());
	memset(&props, 0, sizeof(props));
	props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	REQ(cuMemPoolCreate(&pool, &props));
	REQ(cuDeviceGetDefaultMemPool(&dflt, 0));
	TF("access_before", cuMemPoolGetAccess(&flags, pool, &loc), "flags=%d", (int)flags);
	T("alloc", cuMemAllocFromPoolAsync(&p, N, pool, s0));
	T("alloc_in_stream_of_other", cuMemAllocFromPoolAsync(&q, N, pool, s1));
	T("alloc_default", cuMemAllocAsync(&q, N, s0));
	T("fill", cuMemsetD8Async(p, 5, N, s0));
	T("sync", cuStreamSynchronize(s0));
	TF("copy_without", cuMemcpyDtoDAsync(b, p, N, s1), "%s", ends());
	T("memset_without", cuMemsetD8Async(p, 6, N, s1));
	cuCtxSetCurrent(two_ctx);
	TF("range_without", cuMemGetAddressRange(&base, &size, p + 5), "same=%d size=%zu", base == p, size);
	T("enable", cuCtxEnablePeerAccess(g_ctx, 0));
	T("memset_enabled", cuMemsetD8Async(p, 6, N, s1));
	TF("range_enabled", cuMemGetAddressRange(&base, &size, p + 5), "same=%d size=%zu", base == p, size);
	T("disable", cuCtxDisablePeerAccess(g_ctx));
	cuCtxSetCurrent(g_ctx);
	T("sync_without", cuStreamSynchronize(s1));
	memset(&access, 0, sizeof(access));
	access.location = loc;
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	T("set_access", cuMemPoolSetAccess(pool, &access, 1));
	TF("access_after", cuMemPoolGetAccess(&flags, pool, &loc), "flags=%d", (int)flags);
	TF("copy_with", cuMemcpyDtoDAsync(b, p, N, s1), "%s", ends());
	T("memset_with", cuMemsetD8Async(p, 7, N, s1));
	cuCtxSetCurrent(two_ctx);
	TF("range_with", cuMemGetAddressRange(&base, &size, p + 5), "same=%d size=%zu", base == p, size);
	cuCtxSetCurrent(g_ctx);
	T("sync_with", cuStreamSynchronize(s1));
	access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	T("set_none", cuMemPoolSetAccess(pool, &access, 1));
	access.location.id = 0;
	T("set_own_none", cuMemPoolSetAccess(pool, &access, 1));
	T("free_in_stream_of_other", cuMemFreeAsync(p, s1));
	T("sync_end", cuStreamSynchronize(s1));
	T("destroy", cuMemPoolDestroy(pool));
}

/*
 * Copy from @p to the second device's memory as a rectangle, a box, a batch; and to and from an array. Asynchronous
 * forms use s1, the second device's stream.
 */
static void forms_of_pool(const char *when, CUdeviceptr p)
{
	CUDA_MEMCPY2D two_d = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = p, .srcPitch = 256,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = b, .dstPitch = 256,
		.WidthInBytes = 200, .Height = 16,
	};
	CUDA_MEMCPY3D box = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = p, .srcPitch = 256, .srcHeight = 16,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = b, .dstPitch = 256, .dstHeight = 16,
		.WidthInBytes = 200, .Height = 16, .Depth = 2,
	};
	CUDA_MEMCPY3D_PEER peer = {
		.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = p, .srcPitch = 256, .srcHeight = 16,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = b, .dstPitch = 256, .dstHeight = 16,
		.WidthInBytes = 200, .Height = 16, .Depth = 2, .srcContext = g_ctx, .dstContext = two_ctx,
	};
	CUDA_ARRAY_DESCRIPTOR desc = {
		.Width = 256, .Height = 1, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1,
	};
	CUmemcpyAttributes attr = { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM };
	CUmemcpy3DOperand operand[2] = {
		{ .type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr = { .ptr = p } },
		{ .type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr = { .ptr = b } },
	};
	CUDA_MEMCPY3D_BATCH_OP op = {
		.src = operand[0], .dst = operand[1], .extent = { 200, 1, 1 },
		.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM,
	};
	CUdeviceptr src = p, dst = b;
	size_t bytes = N, first = 0;
	CUarray array = NULL;

	T(F("%s_2d", when), cuMemcpy2DAsync(&two_d, s1));
	two_d.srcMemoryType = two_d.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
	T(F("%s_2d_unified", when), cuMemcpy2DAsync(&two_d, s1));
	T(F("%s_2d_sync", when), cuMemcpy2D(&two_d));
	T(F("%s_3d", when), cuMemcpy3DAsync(&box, s1));
	T(F("%s_3d_peer", when), cuMemcpy3DPeerAsync(&peer, s1));
	T(F("%s_3d_peer_sync", when), cuMemcpy3DPeer(&peer));
	peer.srcContext = two_ctx;
	T(F("%s_3d_peer_named_other", when), cuMemcpy3DPeerAsync(&peer, s1));
	T(F("%s_batch", when), cuMemcpyBatchAsync(&dst, &src, &bytes, 1, &attr, &first, 1, s1));
	T(F("%s_3d_batch", when), cuMemcpy3DBatchAsync(1, &op, 0, s1));
	T(F("%s_array", when), cuArrayCreate(&array, &desc));
	T(F("%s_to_array", when), cuMemcpyDtoA(array, 0, p, 200));
	T(F("%s_from_array", when), cuMemcpyAtoD(p, array, 0, 200));
	T(F("%s_array_destroy", when), cuArrayDestroy(array));
	T(F("%s_sync", when), cuStreamSynchronize(s1));
}

/* Copies of memory of a pool to which the other device has no access: from each context, in each stream. */
GROUPT(two_pool_copies, 40)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	CUmemcpyAttributes attr = { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM };
	CUdeviceptr p = 0, src, dst;
	size_t bytes = N, first = 0;
	CUmemoryPool pool;

	REQ(two());
	REQ(cuMemPoolCreate(&pool, &props));
	REQ(cuMemAllocFromPoolAsync(&p, N, pool, s0));
	REQ(cuMemsetD8Async(p, 5, N, s0));
	REQ(cuStreamSynchronize(s0));
	REQ(cuCtxSetCurrent(two_ctx));
	TF("from", cuMemcpyDtoD(b, p, N), "%s", ends());
	TF("to", cuMemcpyDtoD(p, b, N), "%s", ends());
	TF("from_async", cuMemcpyDtoDAsync(b, p, N, s1), "%s", ends());
	TF("to_async", cuMemcpyDtoDAsync(p, b, N, s1), "%s", ends());
	TF("from_unified", cuMemcpyAsync(b, p, N, s1), "%s", ends());
	TF("to_unified", cuMemcpyAsync(p, b, N, s1), "%s", ends());
	T("to_host", cuMemcpyDtoH(pinned, p, N));
	T("to_host_async", cuMemcpyDtoHAsync(pinned, p, N, s1));
	T("from_host", cuMemcpyHtoD(p, pinned, N));
	T("from_host_async", cuMemcpyHtoDAsync(p, pinned, N, s1));
	T("peer", cuMemcpyPeer(b, two_ctx, p, g_ctx, N));
	T("peer_async", cuMemcpyPeerAsync(b, two_ctx, p, g_ctx, N, s1));
	T("inside", cuMemcpyDtoDAsync(p, p + N / 2, N / 2, s1));
	forms_of_pool("current_other", p);
	T("peer_named_other", cuMemcpyPeer(b, two_ctx, p, two_ctx, N));
	T("peer_to_named_other", cuMemcpyPeer(p, two_ctx, b, two_ctx, N));
	src = p;
	dst = b;
	T("batch_in_own", cuMemcpyBatchAsync(&dst, &src, &bytes, 1, &attr, &first, 1, s0));
	T("dtod_in_own", cuMemcpyDtoDAsync(b, p, N, s0));
	T("fill", cuMemsetD8Async(p, 6, N, s1));
	T("sync", cuStreamSynchronize(s1));
	REQ(cuCtxSetCurrent(g_ctx));
	T("own_from_other_stream", cuMemcpyDtoDAsync(p, b, N, s1));
	forms_of_pool("current_own", p);
	T("current_own_peer_named_other", cuMemcpyPeer(b, two_ctx, p, two_ctx, N));
	T("current_own_batch_in_own", cuMemcpyBatchAsync(&dst, &src, &bytes, 1, &attr, &first, 1, s0));
	REQ(cuCtxSetCurrent(NULL));
	T("no_current_peer_stream", cuMemcpyPeerAsync(b, two_ctx, p, g_ctx, N, s1));
	REQ(cuCtxSetCurrent(g_ctx));
	T("sync_end", cuStreamSynchronize(s1));
	T("free", cuMemFreeAsync(p, s0));
	T("destroy", cuMemPoolDestroy(pool));
}
