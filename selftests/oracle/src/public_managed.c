// SPDX-License-Identifier: GPL-2.0
/* Cases of cuMemAllocManaged, cuStreamAttachMemAsync, cuMemAdvise, cuMemPrefetchAsync,
 * cuMemRangeGetAttribute(s) */
#include "oracle.h"

static CUmemLocation loc(CUmemLocationType t, int id)
{
	CUmemLocation l;
	memset(&l, 0, sizeof(l));
	l.type = t;
	l.id = id;
	return l;
}
static CUdeviceptr managed(size_t n)
{
	CUdeviceptr d = 0;
	CUresult r = cuMemAllocManaged(&d, n, CU_MEM_ATTACH_GLOBAL);
	if (r) {
		emit("__prereq", "rc=%s in cuMemAllocManaged", rcs(r));
		exit(8);
	}
	return d;
}

GROUP(managed_alloc)
{
	static const size_t sz[] = { 1, 100, 4096, 4097, 65536, 2097152, 5000000 };
	init_ctx();
	emit("attr_managed", "%d", dev_attr(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY));
	emit("attr_concurrent", "%d", dev_attr(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS));
	emit("attr_pageable", "%d", dev_attr(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS));
	for (size_t i = 0; i < sizeof(sz) / sizeof(sz[0]); i++) {
		CUdeviceptr d = 0, b = 0;
		size_t n = sz[i], rs = 0;
		CUresult r = cuMemAllocManaged(&d, n, CU_MEM_ATTACH_GLOBAL);
		if (r) {
			emit(F("size_%zu", n), "rc=%s", rcs(r));
			continue;
		}
		unsigned m = 0;
		cuPointerGetAttribute(&m, CU_POINTER_ATTRIBUTE_IS_MANAGED, d);
		cuMemGetAddressRange(&b, &rs, d);
		fill(HPTR(d), n, (unsigned)i);
		const char *t = dsame(d, n, (unsigned)i);
		cuMemsetD8(d, 0x42, n);
		cuCtxSynchronize();
		emit(F("size_%zu", n), "rc=%s al256=%d managed=%u base=%s size=%s cpu_write_dev_read=%s dev_write_cpu_read=%d", rcs(r), (d & 255) == 0,
		     m & 0xff, prel(b, d), rel(rs, n), t, allbyte(HPTR(d), n, 0x42));
		T(F("free_%zu", n), cuMemFree(d));
	}
	CUdeviceptr d = 0x770;
	TF("zero", cuMemAllocManaged(&d, 0, CU_MEM_ATTACH_GLOBAL), "out=%s", d == 0x770 ? "untouched" : d ? "other" : "zero");
	T("null", cuMemAllocManaged(NULL, 4096, CU_MEM_ATTACH_GLOBAL));
	T("flags_0", cuMemAllocManaged(&d, 4096, 0));
	T("flags_3", cuMemAllocManaged(&d, 4096, 3));
	T("flags_single", cuMemAllocManaged(&d, 4096, CU_MEM_ATTACH_SINGLE));
	T("flags_8", cuMemAllocManaged(&d, 4096, 8));
	TNOCTX("no_ctx", cuMemAllocManaged(&d, 4096, CU_MEM_ATTACH_GLOBAL));
	T("flags_host", cuMemAllocManaged(&d, 4096, CU_MEM_ATTACH_HOST));
	memset(HPTR(d), 9, 4096);
	emit("flags_host_cpu_access", "%s", dbyte(d, 4096, 9));
	T("flags_host_free", cuMemFree(d));
	d = managed(65536);
	emit("fresh_zeroed.impl", "%d", allbyte(HPTR(d), 65536, 0));
	TNOCTX("free_no_ctx", cuMemFree(d));
	T("free", cuMemFree(d));
	d = managed(4096);
	fill(HPTR(d), 4096, 6);
	CUdeviceptr e = dalloc(4096);
	TF("copy_to_device", cuMemcpyDtoD(e, d, 4096), "%s", dsame(e, 4096, 6));
	memset(HPTR(d), 0, 4096);
	TF("copy_from_device", cuMemcpy(d, e, 4096), "%s", (cuCtxSynchronize(), hsame(HPTR(d), 4096, 6)));
	TF("managed_as_host_dst", (memset(HPTR(d), 0, 4096), cuMemcpyDtoH(HPTR(d), e, 4096)), "%s", hsame(HPTR(d), 4096, 6));
	TF("managed_as_host_src", (cuMemsetD8(e, 0, 4096), cuMemcpyHtoD(e, HPTR(d), 4096)), "%s", dsame(e, 4096, 6));
}

GROUP(attach)
{
	init_ctx();
	CUstream s;
	gate_t g;
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	CUdeviceptr d = managed(65536), dev = dalloc(4096);
	T("single_len0", cuStreamAttachMemAsync(s, d, 0, CU_MEM_ATTACH_SINGLE));
	T("single_sync", cuStreamSynchronize(s));
	memset(HPTR(d), 1, 65536);
	emit("single_cpu_access", "%d", allbyte(HPTR(d), 65536, 1));
	T("single_full_len", cuStreamAttachMemAsync(s, d, 65536, CU_MEM_ATTACH_SINGLE));
	T("host", cuStreamAttachMemAsync(s, d, 0, CU_MEM_ATTACH_HOST));
	T("global", cuStreamAttachMemAsync(s, d, 0, CU_MEM_ATTACH_GLOBAL));
	T("global_null_stream", cuStreamAttachMemAsync(0, d, 0, CU_MEM_ATTACH_GLOBAL));
	T("host_null_stream", cuStreamAttachMemAsync(0, d, 0, CU_MEM_ATTACH_HOST));
	T("single_null_stream", cuStreamAttachMemAsync(0, d, 0, CU_MEM_ATTACH_SINGLE));
	T("single_legacy_stream", cuStreamAttachMemAsync(CU_STREAM_LEGACY, d, 0, CU_MEM_ATTACH_SINGLE));
	T("single_per_thread", cuStreamAttachMemAsync(CU_STREAM_PER_THREAD, d, 0, CU_MEM_ATTACH_SINGLE));
	T("partial_len", cuStreamAttachMemAsync(s, d, 4096, CU_MEM_ATTACH_SINGLE));
	T("len_plus_1", cuStreamAttachMemAsync(s, d, 65537, CU_MEM_ATTACH_SINGLE));
	T("interior_len0", cuStreamAttachMemAsync(s, d + 4096, 0, CU_MEM_ATTACH_SINGLE));
	T("interior_rest", cuStreamAttachMemAsync(s, d + 4096, 61440, CU_MEM_ATTACH_SINGLE));
	T("flags_0", cuStreamAttachMemAsync(s, d, 0, 0));
	T("flags_3", cuStreamAttachMemAsync(s, d, 0, 3));
	T("flags_5", cuStreamAttachMemAsync(s, d, 0, 5));
	T("flags_8", cuStreamAttachMemAsync(s, d, 0, 8));
	T("null_ptr", cuStreamAttachMemAsync(s, 0, 0, CU_MEM_ATTACH_GLOBAL));
	T("device_ptr", cuStreamAttachMemAsync(s, dev, 0, CU_MEM_ATTACH_GLOBAL));
	void *h = NULL;
	REQ(cuMemAllocHost(&h, 4096));
	T("pinned_ptr", cuStreamAttachMemAsync(s, DPTR(h), 0, CU_MEM_ATTACH_GLOBAL));
	char *pg = halloc(65536);
	memset(pg, 1, 65536);
	T("pageable_len0", cuStreamAttachMemAsync(s, DPTR(pg), 0, CU_MEM_ATTACH_GLOBAL));
	T("pageable_len", cuStreamAttachMemAsync(s, DPTR(pg), 65536, CU_MEM_ATTACH_GLOBAL));
	T("pageable_single", cuStreamAttachMemAsync(s, DPTR(pg), 65536, CU_MEM_ATTACH_SINGLE));
	T("unmapped", cuStreamAttachMemAsync(s, 0x10000, 4096, CU_MEM_ATTACH_GLOBAL));
	TNOCTX("no_ctx_own_stream", cuStreamAttachMemAsync(s, d, 0, CU_MEM_ATTACH_GLOBAL));
	TNOCTX("no_ctx_null_stream", cuStreamAttachMemAsync(0, d, 0, CU_MEM_ATTACH_GLOBAL));
	cuStreamSynchronize(s);
	REQ(gate_close(&g, s));
	T("ordered_after_gate", cuStreamAttachMemAsync(s, d, 0, CU_MEM_ATTACH_SINGLE));
	emit("ordered_query", "%s", rcs(cuStreamQuery(s)));
	gate_open(&g);
	T("ordered_sync", cuStreamSynchronize(s));
	gate_done(&g);
	T("destroy_stream_with_attachment", cuStreamDestroy(s));
	memset(HPTR(d), 3, 65536);
	emit("usable_after_stream_destroyed", "%s", dbyte(d, 65536, 3));
	T("free_attached", cuMemFree(d));
	T("attach_freed", cuStreamAttachMemAsync(0, d, 0, CU_MEM_ATTACH_GLOBAL));
}

static const char *ra(CUmem_range_attribute a, CUdeviceptr d, size_t n)
{
	int v = 0x5a5a5a5a;
	CUresult r = cuMemRangeGetAttribute(&v, 4, a, d, n);
	return r ? rcs(r) : v == 0x5a5a5a5a ? "untouched" : F("%d", v);
}

GROUP(range_attr_defaults)
{
	init_ctx();
	CUdeviceptr d = managed(MiB(2));
	for (int a = 0; a <= 10; a++)
		emit(F("attr_%d", a), "%s", ra((CUmem_range_attribute)a, d, MiB(2)));
}

GROUP(advise)
{
	init_ctx();
	size_t N = MiB(2);
	CUdeviceptr d = managed(N), dev = dalloc(65536);
	memset(HPTR(d), 1, N);
	CUmemLocation gpu = loc(CU_MEM_LOCATION_TYPE_DEVICE, g_dev), cpu = loc(CU_MEM_LOCATION_TYPE_HOST, 0),
		      numa = loc(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0), cur = loc(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0);
	TF("set_read_mostly", cuMemAdvise(d, N, CU_MEM_ADVISE_SET_READ_MOSTLY, gpu), "now=%s", ra(1, d, N));
	emit("read_mostly_sub", "%s", ra(1, d + 65536, 65536));
	TF("unset_read_mostly_half", cuMemAdvise(d, N / 2, CU_MEM_ADVISE_UNSET_READ_MOSTLY, gpu), "whole=%s first=%s second=%s", ra(1, d, N),
	   ra(1, d, N / 2), ra(1, d + N / 2, N / 2));
	T("unset_read_mostly", cuMemAdvise(d, N, CU_MEM_ADVISE_UNSET_READ_MOSTLY, gpu));
	TF("pref_gpu", cuMemAdvise(d, N, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, gpu), "loc=%s type=%s id=%s", ra(2, d, N), ra(5, d, N), ra(6, d, N));
	TF("pref_cpu", cuMemAdvise(d, N, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, cpu), "loc=%s type=%s", ra(2, d, N), ra(5, d, N));
	TF("pref_numa0", cuMemAdvise(d, N, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, numa), "loc=%s type=%s id=%s", ra(2, d, N), ra(5, d, N), ra(6, d, N));
	TF("pref_numa_current", cuMemAdvise(d, N, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, cur), "type=%s", ra(5, d, N));
	TF("pref_mixed", cuMemAdvise(d, N / 2, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, gpu), "loc=%s type=%s", ra(2, d, N), ra(5, d, N));
	TF("unset_pref", cuMemAdvise(d, N, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, gpu), "loc=%s type=%s", ra(2, d, N), ra(5, d, N));
	int ab[3] = { 7, 7, 7 };
	T("accessed_by_gpu", cuMemAdvise(d, N, CU_MEM_ADVISE_SET_ACCESSED_BY, gpu));
	TF("accessed_by_query3", cuMemRangeGetAttribute(ab, 12, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, d, N), "%d,%d,%d", ab[0], ab[1], ab[2]);
	T("accessed_by_cpu", cuMemAdvise(d, N, CU_MEM_ADVISE_SET_ACCESSED_BY, cpu));
	TF("accessed_by_query3_both", cuMemRangeGetAttribute(ab, 12, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, d, N), "%d,%d,%d", ab[0], ab[1], ab[2]);
	TF("accessed_by_query1", cuMemRangeGetAttribute(ab, 4, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, d, N), "one_of_both=%d", ab[0] == 0 || ab[0] == -1);
	T("unset_accessed_by_half", cuMemAdvise(d, N / 2, CU_MEM_ADVISE_UNSET_ACCESSED_BY, gpu));
	TF("accessed_by_whole_after_half", cuMemRangeGetAttribute(ab, 12, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, d, N), "%d,%d,%d", ab[0], ab[1], ab[2]);
	T("accessed_by_numa", cuMemAdvise(d, N, CU_MEM_ADVISE_SET_ACCESSED_BY, numa));
	T("advice_0", cuMemAdvise(d, N, 0, gpu));
	T("advice_7", cuMemAdvise(d, N, 7, gpu));
	T("count_0", cuMemAdvise(d, 0, CU_MEM_ADVISE_SET_READ_MOSTLY, gpu));
	T("count_over", cuMemAdvise(d, N + 1, CU_MEM_ADVISE_SET_READ_MOSTLY, gpu));
	T("count_over_page", cuMemAdvise(d, N + 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, gpu));
	T("null", cuMemAdvise(0, N, CU_MEM_ADVISE_SET_READ_MOSTLY, gpu));
	T("device_memory", cuMemAdvise(dev, 65536, CU_MEM_ADVISE_SET_READ_MOSTLY, gpu));
	T("bad_device", cuMemAdvise(d, N, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, loc(CU_MEM_LOCATION_TYPE_DEVICE, 99)));
	T("bad_device_minus_1", cuMemAdvise(d, N, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, loc(CU_MEM_LOCATION_TYPE_DEVICE, -1)));
	T("bad_loc_type_0", cuMemAdvise(d, N, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, loc(0, 0)));
	T("bad_loc_type_5", cuMemAdvise(d, N, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, loc(5, 0)));
	T("bad_numa_99", cuMemAdvise(d, N, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, loc(CU_MEM_LOCATION_TYPE_HOST_NUMA, 99)));
	T("read_mostly_ignores_location", cuMemAdvise(d, N, CU_MEM_ADVISE_SET_READ_MOSTLY, loc(5, 99)));
	T("read_mostly_loc_type_0", cuMemAdvise(d, N, CU_MEM_ADVISE_SET_READ_MOSTLY, loc(0, 0)));
	T("read_mostly_dev_99", cuMemAdvise(d, N, CU_MEM_ADVISE_SET_READ_MOSTLY, loc(CU_MEM_LOCATION_TYPE_DEVICE, 99)));
	T("read_mostly_numa_99", cuMemAdvise(d, N, CU_MEM_ADVISE_SET_READ_MOSTLY, loc(CU_MEM_LOCATION_TYPE_HOST_NUMA, 99)));
	T("unset_read_mostly_type_0", cuMemAdvise(d, N, CU_MEM_ADVISE_UNSET_READ_MOSTLY, loc(0, 0)));
	T("unset_pref_dev_99", cuMemAdvise(d, N, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, loc(CU_MEM_LOCATION_TYPE_DEVICE, 99)));
	T("unset_ignores_location", cuMemAdvise(d, N, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, loc(0, 99)));
	TNOCTX("no_ctx", cuMemAdvise(d, N, CU_MEM_ADVISE_SET_READ_MOSTLY, gpu));
	char *pg = halloc(65536);
	memset(pg, 1, 65536);
	T("pageable", cuMemAdvise(DPTR(pg), 65536, CU_MEM_ADVISE_SET_READ_MOSTLY, gpu));
	emit("data_kept", "%d", allbyte(HPTR(d), N, 1));
}

GROUP(advise_rounding)
{
	/* start rounds down, end rounds up to CPU pages */
	init_ctx();
	CUdeviceptr d = managed(MiB(2));
	CUmemLocation gpu = loc(CU_MEM_LOCATION_TYPE_DEVICE, g_dev);
	T("one_byte_in_page_2", cuMemAdvise(d + 8192 + 100, 1, CU_MEM_ADVISE_SET_READ_MOSTLY, gpu));
	emit("page_2", "%s", ra(1, d + 8192, 4096));
	emit("page_1", "%s", ra(1, d + 4096, 4096));
	emit("page_3", "%s", ra(1, d + 12288, 4096));
	T("two_bytes_across_pages", cuMemAdvise(d + 65535, 2, CU_MEM_ADVISE_SET_READ_MOSTLY, gpu));
	emit("page_15", "%s", ra(1, d + 61440, 4096));
	emit("page_16", "%s", ra(1, d + 65536, 4096));
	emit("query_unaligned", "%s", ra(1, d + 8192 + 7, 10));
}

GROUP(prefetch)
{
	init_ctx();
	size_t N = MiB(4);
	CUstream s;
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	CUdeviceptr d = managed(N), dev = dalloc(65536);
	CUmemLocation gpu = loc(CU_MEM_LOCATION_TYPE_DEVICE, g_dev), cpu = loc(CU_MEM_LOCATION_TYPE_HOST, 0);
	fill(HPTR(d), N, 3);
	emit("never", "loc=%s type=%s", ra(4, d, N), ra(7, d, N));
	TF("to_gpu", cuMemPrefetchAsync(d, N, gpu, 0, s), "loc=%s type=%s id=%s", ra(4, d, N), ra(7, d, N), ra(8, d, N));
	T("to_gpu_sync", cuStreamSynchronize(s));
	emit("to_gpu_data", "%s", dsame(d, N, 3));
	TF("half_to_cpu", cuMemPrefetchAsync(d, N / 2, cpu, 0, s), "whole=%s first=%s second=%s", ra(4, d, N), ra(4, d, N / 2), ra(4, d + N / 2, N / 2));
	cuStreamSynchronize(s);
	emit("half_type", "whole=%s first=%s", ra(7, d, N), ra(7, d, N / 2));
	TF("to_cpu", cuMemPrefetchAsync(d, N, cpu, 0, s), "loc=%s type=%s", ra(4, d, N), ra(7, d, N));
	cuStreamSynchronize(s);
	emit("to_cpu_data", "%s", hsame(HPTR(d), N, 3));
	TF("to_numa0", cuMemPrefetchAsync(d, N, loc(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0), 0, s), "loc=%s type=%s id=%s", ra(4, d, N), ra(7, d, N), ra(8, d, N));
	TF("to_numa_current", cuMemPrefetchAsync(d, N, loc(CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 55), 0, s), "type=%s", ra(7, d, N));
	T("null_stream", cuMemPrefetchAsync(d, N, gpu, 0, 0));
	T("legacy_stream", cuMemPrefetchAsync(d, N, gpu, 0, CU_STREAM_LEGACY));
	T("per_thread_stream", cuMemPrefetchAsync(d, N, gpu, 0, CU_STREAM_PER_THREAD));
	T("unaligned_sub_range", cuMemPrefetchAsync(d + 100, 5000, gpu, 0, s));
	T("flags_1", cuMemPrefetchAsync(d, N, gpu, 1, s));
	T("count_0", cuMemPrefetchAsync(d, 0, gpu, 0, s));
	T("count_over", cuMemPrefetchAsync(d, N + 4096, gpu, 0, s));
	T("null", cuMemPrefetchAsync(0, N, gpu, 0, s));
	T("device_memory", cuMemPrefetchAsync(dev, 65536, gpu, 0, s));
	T("bad_device", cuMemPrefetchAsync(d, N, loc(CU_MEM_LOCATION_TYPE_DEVICE, 99), 0, s));
	T("bad_type_0", cuMemPrefetchAsync(d, N, loc(0, 0), 0, s));
	T("bad_type_5", cuMemPrefetchAsync(d, N, loc(5, 0), 0, s));
	T("bad_numa", cuMemPrefetchAsync(d, N, loc(CU_MEM_LOCATION_TYPE_HOST_NUMA, 99), 0, s));
	TNOCTX("no_ctx_own_stream", cuMemPrefetchAsync(d, N, gpu, 0, s));
	TNOCTX("no_ctx_null_stream", cuMemPrefetchAsync(d, N, gpu, 0, 0));
	char *pg = halloc(65536);
	memset(pg, 4, 65536);
	T("pageable", cuMemPrefetchAsync(DPTR(pg), 65536, gpu, 0, s));
	cuStreamSynchronize(s);
	emit("pageable_data", "%d", allbyte(pg, 65536, 4));
	emit("data_end", "%s", hsame(HPTR(d), N, 3));
	cuMemFree(d);
	T("freed", cuMemPrefetchAsync(d, N, gpu, 0, s));
}

GROUP(range_attr_errors)
{
	init_ctx();
	size_t N = 65536;
	CUdeviceptr d = managed(N), dev = dalloc(4096);
	int v[4];
	T("null_data", cuMemRangeGetAttribute(NULL, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, d, N));
	T("size_0", cuMemRangeGetAttribute(v, 0, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, d, N));
	T("size_2", cuMemRangeGetAttribute(v, 2, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, d, N));
	T("size_8", cuMemRangeGetAttribute(v, 8, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, d, N));
	T("accessed_by_size_0", cuMemRangeGetAttribute(v, 0, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, d, N));
	T("accessed_by_size_6", cuMemRangeGetAttribute(v, 6, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, d, N));
	T("count_0", cuMemRangeGetAttribute(v, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, d, 0));
	T("count_over", cuMemRangeGetAttribute(v, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, d, N + 4096));
	T("null_ptr", cuMemRangeGetAttribute(v, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, 0, N));
	T("device_ptr", cuMemRangeGetAttribute(v, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, dev, 4096));
	TNOCTX("no_ctx", cuMemRangeGetAttribute(v, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, d, N));
	int a = 9, b = 9, c[2] = { 9, 9 };
	void *dp[3] = { &a, &b, c };
	size_t ds[3] = { 4, 4, 8 };
	CUmem_range_attribute at[3] = { CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY };
	TF("multi", cuMemRangeGetAttributes(dp, ds, at, 3, d, N), "%d %d %d,%d", a, b, c[0], c[1]);
	T("multi_num_0", cuMemRangeGetAttributes(dp, ds, at, 0, d, N));
	T("multi_null_data", cuMemRangeGetAttributes(NULL, ds, at, 3, d, N));
	T("multi_null_sizes", cuMemRangeGetAttributes(dp, NULL, at, 3, d, N));
	T("multi_null_attrs", cuMemRangeGetAttributes(dp, ds, NULL, 3, d, N));
	size_t bs[3] = { 4, 3, 8 };
	T("multi_bad_size", cuMemRangeGetAttributes(dp, bs, at, 3, d, N));
	T("multi_count_over", cuMemRangeGetAttributes(dp, ds, at, 3, d, N + 4096));
	T("multi_device_ptr", cuMemRangeGetAttributes(dp, ds, at, 3, dev, 4096));
	at[1] = 77;
	T("multi_bad_attr", cuMemRangeGetAttributes(dp, ds, at, 3, d, N));
	TNOCTX("multi_no_ctx", cuMemRangeGetAttributes(dp, ds, at, 3, d, N));
}

static CUstream dead_stream(void) { CUstream s = NULL; cuStreamCreate(&s, 0); cuStreamDestroy(s); return s; }
RISKY(attach_destroyed_stream, cuStreamAttachMemAsync(s, d, 0, CU_MEM_ATTACH_GLOBAL), CUdeviceptr d = managed(4096); CUstream s = dead_stream())
RISKY(prefetch_destroyed_stream, cuMemPrefetchAsync(d, 4096, loc(CU_MEM_LOCATION_TYPE_DEVICE, 0), 0, s), CUdeviceptr d = managed(4096); CUstream s = dead_stream())
