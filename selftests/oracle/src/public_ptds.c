// SPDX-License-Identifier: GPL-2.0
/* Cases of the functions for the per-thread default stream (suffixes _ptds and _ptsz). */
#define CUDA_API_PER_THREAD_DEFAULT_STREAM 1
#include "oracle.h"

GROUP(ptds)
{
	init_ctx();
	CUstream b;
	gate_t g;
	CUdeviceptr d = dalloc(65536), e = dalloc(65536), p = 0;
	unsigned char *h = NULL;
	REQ(cuMemAllocHost((void **)&h, 65536));
	REQ(cuStreamCreate(&b, CU_STREAM_DEFAULT));
	memset(h, 3, 65536);
	T("htod", cuMemcpyHtoD(d, h, 65536));
	T("dtod", cuMemcpyDtoD(e, d, 65536));
	T("dtoh", cuMemcpyDtoH(h, e, 65536));
	T("uva", cuMemcpy(e, d, 65536));
	T("memset_d8", cuMemsetD8(d, 4, 65536));
	T("memset_d16", cuMemsetD16(d, 4, 32768));
	T("memset_d32", cuMemsetD32(d, 4, 16384));
	T("memset_2d", cuMemsetD2D8(d, 256, 4, 100, 10));
	T("htod_async_null", cuMemcpyHtoDAsync(d, h, 65536, 0));
	T("memset_async_null", cuMemsetD8Async(d, 5, 65536, 0));
	T("alloc_async_null", cuMemAllocAsync(&p, 4096, 0));
	T("free_async_null", cuMemFreeAsync(p, 0));
	T("query_null", cuStreamQuery(0) == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : cuStreamQuery(0));
	T("sync_null", cuStreamSynchronize(0));
	emit("data", "%s", dbyte(d, 65536, 5));
	CUDA_MEMCPY2D c;
	memset(&c, 0, sizeof(c));
	c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	c.srcDevice = d; c.dstDevice = e; c.srcPitch = c.dstPitch = 256; c.WidthInBytes = 256; c.Height = 256;
	T("copy2d", cuMemcpy2D(&c));
	CUDA_MEMCPY3D c3;
	memset(&c3, 0, sizeof(c3));
	c3.srcMemoryType = c3.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	c3.srcDevice = d; c3.dstDevice = e; c3.srcPitch = c3.dstPitch = 256; c3.srcHeight = c3.dstHeight = 16; c3.WidthInBytes = 256; c3.Height = 16; c3.Depth = 16;
	T("copy3d", cuMemcpy3D(&c3));
	T("copy3d_async_null", cuMemcpy3DAsync(&c3, 0));
	CUdeviceptr dst[1] = { e }, src[1] = { d };
	size_t n[1] = { 4096 }, ix[1] = { 0 };
	CUmemcpyAttributes at;
	memset(&at, 0, sizeof(at));
	at.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
	T("batch_null_stream", cuMemcpyBatchAsync(dst, src, n, 1, &at, ix, 1, 0));
	T("sync_all", cuCtxSynchronize());
	/* a per-thread stream does not wait for other blocking streams ... */
	REQ(gate_close(&g, b));
	BLOCKS("null_ignores_other_blocking_stream", &g, cuMemcpyHtoD(d, h, 4096));
	gate_open(&g);
	cuCtxSynchronize();
	gate_done(&g);
	/* ... but it waits for the legacy stream, and the legacy stream waits for it */
	REQ(gate_close(&g, CU_STREAM_LEGACY));
	BLOCKS("null_waits_for_legacy", &g, cuMemcpyHtoD(d, h, 4096));
	cuCtxSynchronize();
	gate_done(&g);
	REQ(gate_close(&g, CU_STREAM_PER_THREAD));
	cuMemsetD8Async(d, 1, 16, CU_STREAM_LEGACY);
	usleep(10000);
	emit("legacy_waits_for_per_thread", "%s", rcs(cuStreamQuery(CU_STREAM_LEGACY)));
	emit("null_is_per_thread", "%s", rcs(cuStreamQuery(CU_STREAM_PER_THREAD)));
	gate_open(&g);
	cuCtxSynchronize();
	gate_done(&g);
	CUevent ev;
	REQ(cuEventCreate(&ev, 0));
	T("event_record_null", cuEventRecord(ev, 0));
	T("event_wait_null", cuStreamWaitEvent(0, ev, 0));
	TNOCTX("htod_no_ctx", cuMemcpyHtoD(d, h, 16));
	TNOCTX("async_no_ctx_null", cuMemcpyHtoDAsync(d, h, 16, 0));
}

static void *other(void *a)
{
	CUresult *r = a;
	cuCtxSetCurrent(g_ctx);
	r[0] = cuStreamQuery(0);
	unsigned long long id = 0;
	cuStreamGetId(0, &id);
	*(unsigned long long *)(r + 2) = id;
	r[1] = cuStreamSynchronize(0);
	return NULL;
}
GROUP(ptds_threads)
{
	/* every thread has a per-thread stream of its own */
	init_ctx();
	gate_t g;
	struct { CUresult r[2]; unsigned long long id; } a = { { 9, 9 }, 0 };
	unsigned long long mine = 0;
	pthread_t t;
	REQ(gate_close(&g, CU_STREAM_PER_THREAD));
	pthread_create(&t, NULL, other, &a);
	pthread_join(t, NULL);
	cuStreamGetId(0, &mine);
	emit("other_thread_not_held", "query=%s sync=%s", rcs(a.r[0]), rcs(a.r[1]));
	emit("ids_differ", "%d", mine != a.id);
	emit("mine_held", "%s", rcs(cuStreamQuery(0)));
	gate_open(&g);
	cuCtxSynchronize();
	gate_done(&g);
}
