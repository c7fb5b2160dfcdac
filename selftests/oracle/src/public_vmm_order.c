// SPDX-License-Identifier: GPL-2.0
/*
 * Cases of mapped memory and work in streams.
 *
 * - Do cuMemCreate, cuMemMap, cuMemSetAccess, cuMemUnmap, cuMemAddressFree and cuMemRelease wait for queued
 *   work, and what happens to work whose mapping has gone?
 * - What does work without the rights for it do?
 */
#include "vmm.h"

/* ------------------------------------------------------ order with work in streams */
GROUP(vmm_order)
{
	CUmemAccessDesc a = rw(), none = a;
	CUmemGenericAllocationHandle h = 0;
	CUdeviceptr fresh, closed, gone;
	CUmemAllocationProp p;
	gate_t g = { 0 };
	CUstream s;

	init_ctx();
	none.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	fresh = reserve(G);
	closed = mapped(G);
	gone = mapped(G);
	p = prop_at(CU_MEM_LOCATION_TYPE_DEVICE, g_dev, 0);
	REQ(gate_close(&g, s));
	BLOCKS("create_beside_work", &g, cuMemCreate(&h, G, &p, 0));
	gate_done(&g);
	REQ(gate_close(&g, s));
	BLOCKS("map_beside_work", &g, cuMemMap(fresh, G, 0, h, 0));
	gate_done(&g);
	REQ(gate_close(&g, s));
	BLOCKS("set_access_beside_work", &g, cuMemSetAccess(fresh, G, &a, 1));
	gate_done(&g);
	REQ(gate_close(&g, s));
	BLOCKS("set_none_beside_work", &g, cuMemSetAccess(closed, G, &none, 1));
	gate_done(&g);
	REQ(gate_close(&g, s));
	BLOCKS("unmap_beside_work", &g, cuMemUnmap(gone, G));
	gate_done(&g);
	REQ(gate_close(&g, s));
	BLOCKS("address_free_beside_work", &g, cuMemAddressFree(gone, G));
	gate_done(&g);
	REQ(gate_close(&g, s));
	BLOCKS("release_beside_work", &g, cuMemRelease(h));
	gate_done(&g);
}

/*
 * The mapping is removed, or loses its rights, while queued work still needs it.  A fault of the device makes the
 * context unusable.  Each combination is therefore a group, which has a process of its own.
 */
enum { READS, WRITES };

static void queued(int what, int unmap)
{
	CUmemAccessDesc none = rw();
	CUdeviceptr d = mapped(G), other = dalloc(G);
	gate_t g = { 0 };
	CUstream s;

	none.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	REQ(gate_close(&g, s));
	if (what == READS)
		REQ(cuMemcpyDtoDAsync(other, d, G, s));
	else
		REQ(cuMemsetD8Async(d, 3, G, s));
	if (unmap)
		BLOCKS("unmap", &g, cuMemUnmap(d, G));
	else
		BLOCKS("no_access", &g, cuMemSetAccess(d, G, &none, 1));
	gate_open(&g);
	T("stream", cuStreamSynchronize(s));
	T("context", cuCtxSynchronize());
	T("alloc", cuMemAlloc(&other, G));
}

GROUP(vmm_queued_read_unmap) { init_ctx(); queued(READS, 1); }
GROUP(vmm_queued_read_no_access) { init_ctx(); queued(READS, 0); }
GROUP(vmm_queued_write_unmap) { init_ctx(); queued(WRITES, 1); }
GROUP(vmm_queued_write_no_access) { init_ctx(); queued(WRITES, 0); }

/*
 * Queued work fails and ends, and no call returns its error before a free.  Does the free return it?  Each kind of
 * memory is a group, too.
 */
enum { OF_DEVICE, OF_POOL, OF_POOL_ASYNC, OF_MANAGED, OF_HOST, OF_REGISTERED, OF_ARRAY, OF_OTHER, WITH_OTHER };

static void freed_after_failure(int what)
{
	CUDA_ARRAY_DESCRIPTOR desc = {
		.Width = 256, .Height = 1, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1,
	};
	CUdeviceptr d, p = 0;
	void *host = NULL, *plain = NULL;
	CUarray array = NULL;
	CUcontext other;
	gate_t g = { 0 };
	CUstream s;

	init_ctx();
	REQ(cuCtxCreate(&other, NULL, 0, g_dev));
	if (what == OF_OTHER)
		p = dalloc(G);
	REQ(cuCtxSetCurrent(g_ctx));
	d = mapped(G);
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	switch (what) {
	case OF_POOL:
	case OF_POOL_ASYNC:
		REQ(cuMemAllocAsync(&p, G, s));
		REQ(cuStreamSynchronize(s));
		break;
	case OF_MANAGED:
		REQ(cuMemAllocManaged(&p, G, CU_MEM_ATTACH_GLOBAL));
		break;
	case OF_HOST:
		REQ(cuMemHostAlloc(&host, G, 0));
		break;
	case OF_REGISTERED:
		plain = aligned_alloc(4096, G);
		memset(plain, 1, G);
		REQ(cuMemHostRegister(plain, G, 0));
		break;
	case OF_ARRAY:
		REQ(cuArrayCreate(&array, &desc));
		break;
	case OF_OTHER:
		break;
	default:
		p = dalloc(G);
	}
	REQ(gate_close(&g, s));
	REQ(cuMemsetD8Async(d, 3, G, s));
	REQ(cuMemUnmap(d, G));
	gate_open(&g);
	usleep(500000);
	switch (what) {
	case OF_HOST:
		T("free", cuMemFreeHost(host));
		break;
	case OF_REGISTERED:
		T("free", cuMemHostUnregister(plain));
		break;
	case OF_ARRAY:
		T("free", cuArrayDestroy(array));
		break;
	case OF_POOL_ASYNC:
		T("free", cuMemFreeAsync(p, s));
		break;
	case WITH_OTHER:
		REQ(cuCtxSetCurrent(other));
		T("free", cuMemFree(p));
		REQ(cuCtxSetCurrent(g_ctx));
		break;
	default:
		T("free", cuMemFree(p));
	}
	T("context", cuCtxSynchronize());
}

GROUP(freed_after_failure_device) { freed_after_failure(OF_DEVICE); }
GROUP(freed_after_failure_pool) { freed_after_failure(OF_POOL); }
GROUP(freed_after_failure_pool_async) { freed_after_failure(OF_POOL_ASYNC); }
GROUP(freed_after_failure_managed) { freed_after_failure(OF_MANAGED); }
GROUP(freed_after_failure_host) { freed_after_failure(OF_HOST); }
GROUP(freed_after_failure_registered) { freed_after_failure(OF_REGISTERED); }
GROUP(freed_after_failure_array) { freed_after_failure(OF_ARRAY); }
GROUP(freed_after_failure_of_other_context) { freed_after_failure(OF_OTHER); }
GROUP(freed_after_failure_with_other_context) { freed_after_failure(WITH_OTHER); }

/* ------------------------------------------------------ work without the rights for it */
static CUdeviceptr with_rights(int flags)
{
	CUdeviceptr d = mapped(G);
	CUmemAccessDesc a = rw();

	a.flags = flags;
	MUST(cuMemSetAccess(d, G, &a, 1));
	return d;
}

static CUresult fill_and_sync(CUdeviceptr d)
{
	CUresult r = cuMemsetD8Async(d, 1, 64, 0), s = cuCtxSynchronize();

	return r ? r : s;
}

static CUresult write_and_sync(CUdeviceptr d)
{
	CUresult r = cuStreamWriteValue32(0, d, 1, 0), s = cuCtxSynchronize();

	return r ? r : s;
}

static CUresult dtod_and_sync(CUdeviceptr to, CUdeviceptr from)
{
	CUresult r = cuMemcpyDtoDAsync(to, from, 64, 0), s = cuCtxSynchronize();

	return r ? r : s;
}

RISKY(vmm_fill_read_only, fill_and_sync(with_rights(CU_MEM_ACCESS_FLAGS_PROT_READ)))
RISKY(vmm_write_value_read_only, write_and_sync(with_rights(CU_MEM_ACCESS_FLAGS_PROT_READ)))
RISKY(vmm_write_value_none, write_and_sync(with_rights(CU_MEM_ACCESS_FLAGS_PROT_NONE)))
RISKY(vmm_copy_into_read_only, dtod_and_sync(with_rights(CU_MEM_ACCESS_FLAGS_PROT_READ), dalloc(4096)))
RISKY(vmm_copy_from_none, dtod_and_sync(dalloc(4096), with_rights(CU_MEM_ACCESS_FLAGS_PROT_NONE)))
