// SPDX-License-Identifier: GPL-2.0
/* Cases of cuPointerGetAttribute(s), cuPointerSetAttribute */
#include "ptrmatrix.h"

GROUP(ptr_device) { init_ctx(); CUdeviceptr d = dalloc(10000); pattr_all("base", d, d, 10000); pattr_all("interior", d + 5000, d, 10000); }
GROUP(ptr_device_large) { init_ctx(); CUdeviceptr d = dalloc(MiB(8)); pattr_all("base", d, d, MiB(8)); }
GROUP(ptr_pinned)
{
	init_ctx();
	void *h = NULL;
	REQ(cuMemAllocHost(&h, 10000));
	pattr_all("base", DPTR(h), DPTR(h), 10000);
}
GROUP(ptr_registered)
{
	init_ctx();
	char *p = halloc(65536);
	REQ(cuMemHostRegister(p + 100, 20000, 0));
	pattr_all("base", DPTR(p) + 100, DPTR(p) + 100, 20000);
}
GROUP(ptr_managed)
{
	init_ctx();
	CUdeviceptr d = 0;
	REQ(cuMemAllocManaged(&d, 100000, CU_MEM_ATTACH_GLOBAL));
	pattr_all("base", d, d, 100000);
}
GROUP(ptr_pool)
{
	init_ctx();
	CUdeviceptr d = 0;
	REQ(cuMemAllocAsync(&d, 10000, 0));
	cuStreamSynchronize(0);
	pattr_all("default", d, d, 10000);
	CUmemPoolProps pr;
	CUmemoryPool m;
	memset(&pr, 0, sizeof(pr));
	pr.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	pr.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	pr.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	REQ(cuMemPoolCreate(&m, &pr));
	CUdeviceptr e = 0;
	REQ(cuMemAllocFromPoolAsync(&e, 10000, m, 0));
	cuStreamSynchronize(0);
	pattr_all("posix", e, e, 10000);
	/* CUDA leaves queries after cuMemFreeAsync() undefined, but not queries after cuMemFree() */
	cuMemFree(d);
	T("freed_memtype", cuPointerGetAttribute(&pr, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, d));
}
GROUP(ptr_vmm)
{
	init_ctx();
	size_t g = MiB(2);
	CUmemAllocationProp pr;
	CUmemGenericAllocationHandle h = 0;
	CUdeviceptr d = 0;
	CUmemAccessDesc a = { { CU_MEM_LOCATION_TYPE_DEVICE, 0 }, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	memset(&pr, 0, sizeof(pr));
	pr.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	pr.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	REQ(cuMemCreate(&h, g, &pr, 0));
	REQ(cuMemAddressReserve(&d, 4 * g, 0, 0, 0));
	pattr_all("reserved_only", d, d, 4 * g);
	REQ(cuMemMap(d, g, 0, h, 0));
	REQ(cuMemSetAccess(d, g, &a, 1));
	pattr_all("mapped", d + 64, d, 4 * g);
	pattr_all("unmapped_tail", d + 2 * g, d, 4 * g);
}
GROUP(ptr_pageable)
{
	init_ctx();
	char *m = malloc(4096);
	pattr_all("malloc", DPTR(m), DPTR(m), 4096);
	free(m);
}
GROUP(ptr_invalid)
{
	init_ctx();
	pattr_all("null", 0, 0, 0);
	CUdeviceptr d = dalloc(MiB(8));
	cuMemFree(d);
	pattr_all("freed", d, d, MiB(8));
}

GROUP(ptr_errors)
{
	init_ctx();
	CUdeviceptr d = dalloc(4096);
	uint64_t v[4];
	T("null_data", cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, d));
	T("attr_0", cuPointerGetAttribute(v, 0, d));
	T("attr_22", cuPointerGetAttribute(v, 22, d));
	T("attr_100", cuPointerGetAttribute(v, 100, d));
	TNOCTX("no_ctx_memtype", cuPointerGetAttribute(v, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, d));
	TNOCTX("no_ctx_context", cuPointerGetAttribute(v, CU_POINTER_ATTRIBUTE_CONTEXT, d));
	TNOCTX("no_ctx_devptr", cuPointerGetAttribute(v, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, d));
	TNOCTX("no_ctx_range_start", cuPointerGetAttribute(v, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, d));
	T("last_byte", cuPointerGetAttribute(v, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, d + 4095));
}

GROUP(ptr_multi)
{
	init_ctx();
	CUdeviceptr d = dalloc(4096);
	CUcontext c = NULL;
	unsigned mt = 0;
	CUdeviceptr dp = 0;
	size_t rs = 0;
	int ord = 9;
	CUpointer_attribute at[5] = { CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
		CU_POINTER_ATTRIBUTE_RANGE_SIZE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL };
	void *da[5] = { &c, &mt, &dp, &rs, &ord };
	TF("device", cuPointerGetAttributes(5, at, da, d), "ctx=%d type=%u dptr=%s size=%s ord=%d", c == g_ctx, mt, prel(dp, d), rel(rs, 4096), ord);
	char *m = malloc(64);
	c = (CUcontext)1; mt = 99; dp = 99; rs = 99; ord = 99;
	TF("malloc", cuPointerGetAttributes(5, at, da, DPTR(m)), "ctx=%s type=%u dptr=%s size=%zu ord=%d", !c ? "null" : c == (CUcontext)1 ? "untouched" : "set", mt,
	   !dp ? "zero" : dp == 99 ? "untouched" : prel(dp, DPTR(m)), rs, ord);
	c = (CUcontext)1; mt = 99; dp = 99; rs = 99; ord = 99;
	TF("null_ptr", cuPointerGetAttributes(5, at, da, 0), "ctx=%s type=%u dptr=%s size=%zu ord=%d", !c ? "null" : c == (CUcontext)1 ? "untouched" : "set", mt,
	   !dp ? "zero" : dp == 99 ? "untouched" : "set", rs, ord);
	T("num_0", cuPointerGetAttributes(0, at, da, d));
	T("null_attrs", cuPointerGetAttributes(5, NULL, da, d));
	T("null_data", cuPointerGetAttributes(5, at, NULL, d));
	da[1] = NULL;
	T("null_data_entry", cuPointerGetAttributes(5, at, da, d));
	da[1] = &mt;
	at[2] = 77;
	T("bad_attr", cuPointerGetAttributes(5, at, da, d));
	at[2] = CU_POINTER_ATTRIBUTE_DEVICE_POINTER;
	TNOCTX("no_ctx", cuPointerGetAttributes(5, at, da, d));
}

GROUP(ptr_set)
{
	init_ctx();
	CUdeviceptr d = dalloc(4096);
	unsigned v = 1, g = 9;
	TF("sync_memops_1", cuPointerSetAttribute(&v, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, d), "now=%u", (cuPointerGetAttribute(&g, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, d), g & 0xff));
	v = 0;
	TF("sync_memops_0", cuPointerSetAttribute(&v, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, d), "now=%u", (cuPointerGetAttribute(&g, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, d), g & 0xff));
	v = 5;
	T("sync_memops_5", cuPointerSetAttribute(&v, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, d));
	v = 1;
	T("interior", cuPointerSetAttribute(&v, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, d + 100));
	T("null_value", cuPointerSetAttribute(NULL, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, d));
	T("other_attr", cuPointerSetAttribute(&v, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, d));
	T("attr_77", cuPointerSetAttribute(&v, 77, d));
	T("null_ptr", cuPointerSetAttribute(&v, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 0));
	void *h = NULL;
	REQ(cuMemAllocHost(&h, 4096));
	T("pinned", cuPointerSetAttribute(&v, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, DPTR(h)));
	char *m = malloc(64);
	T("malloc", cuPointerSetAttribute(&v, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, DPTR(m)));
	TNOCTX("no_ctx", cuPointerSetAttribute(&v, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, d));
	/* with SYNC_MEMOPS a device memset is synchronous towards the host */
	CUstream s;
	gate_t g2;
	REQ(cuStreamCreate(&s, CU_STREAM_DEFAULT));
	CUdeviceptr e = dalloc(4096);
	cuCtxSynchronize();
	REQ(gate_close(&g2, s));
	BLOCKS("memset_without_sync_memops", &g2, cuMemsetD8(e, 1, 4096));
	cuCtxSynchronize();
	gate_done(&g2);
	v = 1;
	REQ(cuPointerSetAttribute(&v, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, e));
	REQ(gate_close(&g2, s));
	BLOCKS("memset_with_sync_memops", &g2, cuMemsetD8(e, 2, 4096));
	cuCtxSynchronize();
	gate_done(&g2);
}
