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
