// SPDX-License-Identifier: GPL-2.0
/* Cases of the stream-ordered allocator: pools, attributes, alloc/free ordering */
#include "oracle.h"

static CUmemPoolProps props(void)
{
	CUmemPoolProps p;
	memset(&p, 0, sizeof(p));
	p.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	p.location.id = g_dev;
	return p;
}
static CUmemoryPool mkpool(CUmemAllocationHandleType h)
{
	CUmemPoolProps p = props();
	CUmemoryPool m = NULL;
	p.handleTypes = h;
	CUresult r = cuMemPoolCreate(&m, &p);
	if (r) {
		emit("__prereq", "rc=%s in cuMemPoolCreate", rcs(r));
		exit(8);
	}
	return m;
}
static cuuint64_t ga(CUmemoryPool p, CUmemPool_attribute a)
{
	cuuint64_t v = 0;
	if (cuMemPoolGetAttribute(p, a, &v))
		return ~0ull;
	return a <= 3 ? (cuuint64_t)(int)v : v;
}
static CUresult sa(CUmemoryPool p, CUmemPool_attribute a, cuuint64_t v) { return cuMemPoolSetAttribute(p, a, &v); }
#define RESV CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
#define RESH CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH
#define USED CU_MEMPOOL_ATTR_USED_MEM_CURRENT
#define USEH CU_MEMPOOL_ATTR_USED_MEM_HIGH
#define THR CU_MEMPOOL_ATTR_RELEASE_THRESHOLD

GROUP(pool_create)
{
	init_ctx();
	CUmemPoolProps p = props();
	CUmemoryPool m = (CUmemoryPool)0x77;
	emit("attr_supported", "%d", dev_attr(CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED));
	emit("attr_handle_types", "posix=%d", dev_attr(CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES) & 1);
	T("plain", cuMemPoolCreate(&m, &p));
	for (int a = 0; a <= 10; a++) {
		cuuint64_t v = 0xabababababababab;
		CUresult r = cuMemPoolGetAttribute(m, (CUmemPool_attribute)a, &v);
		emit(F("default_attr_%d", a), "rc=%s %s", rcs(r), v == 0xabababababababab ? "untouched" : a >= 1 && a <= 3 ? F("%d", (int)v) : F("%llu", (unsigned long long)v));
	}
	T("destroy", cuMemPoolDestroy(m));
	T("null_out", cuMemPoolCreate(NULL, &p));
	T("null_props", cuMemPoolCreate(&m, NULL));
	p = props(); p.allocType = 0;  T("alloctype_0", cuMemPoolCreate(&m, &p));
	p = props(); p.allocType = 3;  T("alloctype_3", cuMemPoolCreate(&m, &p));
	p = props(); p.location.type = 0; T("loctype_0", cuMemPoolCreate(&m, &p));
	p = props(); p.location.type = 5; T("loctype_5", cuMemPoolCreate(&m, &p));
	p = props(); p.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT; T("loctype_numa_current", cuMemPoolCreate(&m, &p));
	p = props(); p.location.id = 99; T("device_99", cuMemPoolCreate(&m, &p));
	p = props(); p.location.id = -1; T("device_minus_1", cuMemPoolCreate(&m, &p));
	p = props(); p.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR; TF("posix", cuMemPoolCreate(&m, &p), "destroy=%s", rcs(cuMemPoolDestroy(m)));
	p = props(); p.handleTypes = CU_MEM_HANDLE_TYPE_WIN32; T("win32", cuMemPoolCreate(&m, &p));
	p = props(); p.handleTypes = CU_MEM_HANDLE_TYPE_WIN32_KMT; T("win32_kmt", cuMemPoolCreate(&m, &p));
	p = props(); p.handleTypes = 3; T("posix_or_win32", cuMemPoolCreate(&m, &p));
	p = props(); p.handleTypes = 0x10; T("handle_10", cuMemPoolCreate(&m, &p));
	p = props(); p.usage = 4;       T("usage_4", cuMemPoolCreate(&m, &p));
	p = props(); p.usage = CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS; T("usage_decompress", cuMemPoolCreate(&m, &p));
	p = props(); p.reserved[0] = 1; T("reserved_nonzero", cuMemPoolCreate(&m, &p));
	p = props(); p.win32SecurityAttributes = (void *)8; T("win32_security_nonnull", cuMemPoolCreate(&m, &p));
	p = props(); p.maxSize = 1;     TF("maxsize_1", cuMemPoolCreate(&m, &p), "destroy=%s", rcs(cuMemPoolDestroy(m)));
	p = props();
	m = NULL;
	TNOCTX("no_ctx", cuMemPoolCreate(&m, &p));
	if (m)
		TNOCTX("destroy_no_ctx", cuMemPoolDestroy(m));
	T("destroy_null", cuMemPoolDestroy(NULL));
	CUmemoryPool d = NULL;
	cuDeviceGetDefaultMemPool(&d, g_dev);
	T("destroy_default", cuMemPoolDestroy(d));
}

GROUP(pool_host_managed)
{
	init_ctx();
	CUmemPoolProps p = props();
	CUmemoryPool m = NULL;
	CUdeviceptr d = 0;
	emit("attr_host_pools", "%d", dev_attr(CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED));
	p.location.type = CU_MEM_LOCATION_TYPE_HOST;
	p.location.id = 0;
	CUresult r = cuMemPoolCreate(&m, &p);
	emit("host", "rc=%s", rcs(r));
	if (!r) {
		r = cuMemAllocFromPoolAsync(&d, 10000, m, 0);
		cuStreamSynchronize(0);
		emit("host_alloc", "rc=%s", rcs(r));
		if (!r) {
			unsigned mt = 0;
			cuPointerGetAttribute(&mt, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, d);
			fill(HPTR(d), 10000, 4);
			emit("host_cpu_access", "memtype=%u", mt);
			CUmemAccess_flags fl = 77;
			CUmemLocation l = { CU_MEM_LOCATION_TYPE_DEVICE, 0 };
			TF("host_dev_access_before", cuMemPoolGetAccess(&fl, m, &l), "%d", (int)fl);
			CUmemAccessDesc ad = { l, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
			T("host_set_dev_access", cuMemPoolSetAccess(m, &ad, 1));
			emit("host_dev_read_dtoh", "%s", dsame(d, 10000, 4));
			CUdeviceptr dv = dalloc(10000);
			char *pg = calloc(1, 10000);
			TF("host_uva_to_device", cuMemcpy(dv, d, 10000), "%s", dsame(dv, 10000, 4));
			TF("host_uva_to_pageable", cuMemcpy(DPTR(pg), d, 10000), "%s", hsame(pg, 10000, 4));
			TF("host_as_host_src", (cuMemsetD8(dv, 0, 10000), cuMemcpyHtoD(dv, HPTR(d), 10000)), "%s", dsame(dv, 10000, 4));
			T("host_memset", cuMemsetD8(d, 3, 10000));
			cuCtxSynchronize();
			emit("host_memset_result.impl", "%d", allbyte(HPTR(d), 10000, 3));
			CUdeviceptr d2p = 0;
			REQ(cuMemAllocFromPoolAsync(&d2p, 10000, m, 0));
			cuStreamSynchronize(0);
			TF("host_second_alloc_memset", cuMemsetD8(d2p, 4, 10000), "cpu_sees=%s", (cuCtxSynchronize(), F("%d", allbyte(HPTR(d2p), 10000, 4))));
			cuMemFreeAsync(d2p, 0);
			T("host_free", cuMemFreeAsync(d, 0));
			cuStreamSynchronize(0);
		}
		cuMemPoolDestroy(m);
	}
	p.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	T("host_posix", cuMemPoolCreate(&m, &p));
	p = props();
	p.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
	p.location.id = 0;
	r = cuMemPoolCreate(&m, &p);
	emit("numa0", "rc=%s", rcs(r));
	if (!r)
		cuMemPoolDestroy(m);
	p.location.id = 77;
	T("numa_77", cuMemPoolCreate(&m, &p));
	p = props();
	p.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED;
	r = cuMemPoolCreate(&m, &p);
	emit("managed", "rc=%s", rcs(r));
	if (!r) {
		r = cuMemAllocFromPoolAsync(&d, 65536, m, 0);
		cuStreamSynchronize(0);
		unsigned im = 0;
		if (!r) {
			fill(HPTR(d), 65536, 8);
			cuPointerGetAttribute(&im, CU_POINTER_ATTRIBUTE_IS_MANAGED, d);
		}
		emit("managed_alloc", "rc=%s is_managed=%u %s", rcs(r), im & 0xff, r ? "" : dsame(d, 65536, 8));
		if (!r)
			cuMemFreeAsync(d, 0);
		cuStreamSynchronize(0);
		cuMemPoolDestroy(m);
	}
	p.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	T("managed_posix", cuMemPoolCreate(&m, &p));
	p.handleTypes = 0;
	p.maxSize = MiB(64);
	T("managed_maxsize", cuMemPoolCreate(&m, &p));
}

GROUP(pool_alloc)
{
	static const size_t sz[] = { 1, 255, 256, 512, 513, 4096, 65536, 65537, 1048576, 2097152, 2097153, 33554432, 33554433, 67108864 };
	init_ctx();
	CUstream s;
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	CUmemoryPool m = mkpool(0), got = NULL;
	for (size_t i = 0; i < sizeof(sz) / sizeof(sz[0]); i++) {
		size_t n = sz[i], rs = 0, k = n > 8192 ? 8192 : n;
		CUdeviceptr d = 0, b = 0;
		CUresult r = cuMemAllocFromPoolAsync(&d, n, m, s);
		cuStreamSynchronize(s);
		if (r) {
			emit(F("size_%zu", n), "rc=%s", rcs(r));
			continue;
		}
		cuMemGetAddressRange(&b, &rs, d);
		cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, d);
		dfill(d + n - k, k, (unsigned)i);
		emit(F("size_%zu", n), "rc=%s al256=%d base=%s size=%s pool_handle=%d tail=%s used_ge=%d", rcs(r), (d & 255) == 0, prel(b, d), rel(rs, n),
		     got == m, dsame(d + n - k, k, (unsigned)i), ga(m, USED) >= n);
		emit(F("size_%zu.impl", n), "used=%llu reserved=%llu align=%s", (unsigned long long)ga(m, USED), (unsigned long long)ga(m, RESV), lowalign(d, MiB(2)));
		CUresult rf = cuMemFreeAsync(d, s);
		cuStreamSynchronize(s);
		emit(F("free_%zu", n), "rc=%s used_after=%llu", rcs(rf), (unsigned long long)ga(m, USED));
	}
	CUdeviceptr d = 0x770;
	TF("zero", cuMemAllocAsync(&d, 0, s), "out=%s", d == 0x770 ? "untouched" : d ? "other" : "zero");
	T("null_out", cuMemAllocAsync(NULL, 4096, s));
	d = 0x770;
	TF("huge", cuMemAllocAsync(&d, 1ull << 46, s), "out=%s", d == 0x770 ? "untouched" : d ? "other" : "zero");
	T("max", cuMemAllocAsync(&d, ~0ull, s));
	T("pool_zero", cuMemAllocFromPoolAsync(&d, 0, m, s));
	T("pool_null_out", cuMemAllocFromPoolAsync(NULL, 4096, m, s));
	T("pool_null", cuMemAllocFromPoolAsync(&d, 4096, NULL, s));
	T("pool_huge", cuMemAllocFromPoolAsync(&d, 1ull << 46, m, s));
	T("works_after_oom", cuMemAllocFromPoolAsync(&d, 4096, m, s));
	T("free_after_oom", cuMemFreeAsync(d, s));
	CUstream st[] = { 0, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD };
	static const char *sn[] = { "null", "legacy", "per_thread" };
	for (int i = 0; i < 3; i++) {
		CUresult r = cuMemAllocAsync(&d, 1000, st[i]);
		cuMemsetD8Async(d, 5, 1000, st[i]);
		cuStreamSynchronize(st[i]);
		const char *t = r ? "" : dbyte(d, 1000, 5);
		emit(F("stream_%s", sn[i]), "rc=%s %s free=%s", rcs(r), t, rcs(cuMemFreeAsync(d, st[i])));
	}
	TNOCTX("no_ctx_own_stream", cuMemAllocAsync(&d, 1000, s));
	TNOCTX("no_ctx_null_stream", cuMemAllocAsync(&d, 1000, 0));
	TNOCTX("pool_no_ctx_own_stream", cuMemAllocFromPoolAsync(&d, 1000, m, s));
	TNOCTX("pool_no_ctx_null_stream", cuMemAllocFromPoolAsync(&d, 1000, m, 0));
	TNOCTX("free_no_ctx_own_stream", cuMemFreeAsync(d, s));
	REQ(cuMemAllocAsync(&d, 1000, s));
	TNOCTX("free_no_ctx_null_stream", cuMemFreeAsync(d, 0));
}

GROUP(pool_free)
{
	init_ctx();
	CUstream s, t;
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	REQ(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
	CUdeviceptr a, b, c;
	REQ(cuMemAllocAsync(&a, 65536, s));
	cuStreamSynchronize(s);
	T("interior", cuMemFreeAsync(a + 256, s));
	T("interior_sync_free", cuMemFree(a + 256));
	T("zero_ptr", cuMemFreeAsync(0, s));
	T("other_stream", cuMemFreeAsync(a, t));
	cuStreamSynchronize(t);
	T("double_async", cuMemFreeAsync(a, s));
	T("double_sync", cuMemFree(a));
	REQ(cuMemAllocAsync(&b, 65536, s));
	cuStreamSynchronize(s);
	T("cuMemFree_of_pool_ptr", cuMemFree(b));
	T("then_async", cuMemFreeAsync(b, s));
	c = dalloc(65536);
	T("async_free_of_cuMemAlloc", cuMemFreeAsync(c, s));
	cuStreamSynchronize(s);
	T("then_cuMemFree", cuMemFree(c));
	void *h = NULL;
	REQ(cuMemAllocHost(&h, 4096));
	T("async_free_of_pinned", cuMemFreeAsync(DPTR(h), s));
	T("pinned_freehost", cuMemFreeHost(h));
	CUdeviceptr mg = 0;
	REQ(cuMemAllocManaged(&mg, 65536, CU_MEM_ATTACH_GLOBAL));
	T("async_free_of_managed", cuMemFreeAsync(mg, s));
	T("garbage", cuMemFreeAsync(0x123000, s));
	T("freehost_of_pool_ptr", (cuMemAllocAsync(&a, 4096, s), cuStreamSynchronize(s), cuMemFreeHost(HPTR(a))));
	T("end_sync", cuStreamSynchronize(s));
}

GROUP(pool_reserved)
{
	init_ctx();
	CUstream s;
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	CUmemoryPool m = mkpool(0);
	CUdeviceptr a, b;
	REQ(cuMemAllocFromPoolAsync(&a, MiB(1), m, s));
	REQ(cuMemAllocFromPoolAsync(&b, MiB(10), m, s));
	cuStreamSynchronize(s);
	emit("two_live", "used=%s reserved_ge_used=%d high_eq_current=%d usedhigh_eq=%d", rel(ga(m, USED), MiB(11)), ga(m, RESV) >= ga(m, USED),
	     ga(m, RESH) == ga(m, RESV), ga(m, USEH) == ga(m, USED));
	emit("two_live.impl", "reserved=%llu", (unsigned long long)ga(m, RESV));
	cuMemFreeAsync(b, s);
	emit("freed_not_synced", "used=%s", rel(ga(m, USED), MiB(1)));
	cuStreamSynchronize(s);
	emit("after_sync_threshold_0", "used=%s usedhigh=%s", rel(ga(m, USED), MiB(1)), rel(ga(m, USEH), MiB(11)));
	emit("after_sync_threshold_0.impl", "reserved=%llu high=%llu", (unsigned long long)ga(m, RESV), (unsigned long long)ga(m, RESH));
	cuMemFreeAsync(a, s);
	cuStreamSynchronize(s);
	emit("all_freed_synced", "used=%llu reserved=%llu", (unsigned long long)ga(m, USED), (unsigned long long)ga(m, RESV));
	emit("high_kept", "usedhigh=%s reshigh_ge=%d", rel(ga(m, USEH), MiB(11)), ga(m, RESH) >= MiB(11));
	T("reset_used_high", sa(m, USEH, 0));
	T("reset_res_high", sa(m, RESH, 0));
	emit("after_reset", "usedhigh=%llu reshigh=%llu", (unsigned long long)ga(m, USEH), (unsigned long long)ga(m, RESH));
	T("set_used_high_nonzero", sa(m, USEH, 4096));
	T("set_res_high_nonzero", sa(m, RESH, 4096));
	T("set_used_current", sa(m, USED, 0));
	T("set_res_current", sa(m, RESV, 0));
	T("set_threshold_max", sa(m, THR, ~0ull));
	emit("threshold_readback", "%d", ga(m, THR) == ~0ull);
	REQ(cuMemAllocFromPoolAsync(&a, MiB(64), m, s));
	cuMemFreeAsync(a, s);
	cuStreamSynchronize(s);
	emit("threshold_max_keeps", "used=%llu reserved_ge_64M=%d", (unsigned long long)ga(m, USED), ga(m, RESV) >= MiB(64));
	T("trim_16M", cuMemPoolTrimTo(m, MiB(16)));
	emit("trim_16M_left", "ge_16M=%d le_64M=%d", ga(m, RESV) >= MiB(16), ga(m, RESV) <= MiB(64));
	emit("trim_16M_left.impl", "%llu", (unsigned long long)ga(m, RESV));
	T("trim_0", cuMemPoolTrimTo(m, 0));
	emit("trim_0_left", "%llu", (unsigned long long)ga(m, RESV));
	T("trim_larger_than_reserved", cuMemPoolTrimTo(m, GiB(1)));
	emit("trim_larger_left", "%llu", (unsigned long long)ga(m, RESV));
	REQ(cuMemAllocFromPoolAsync(&a, MiB(4), m, s));
	cuStreamSynchronize(s);
	T("trim_0_with_live", cuMemPoolTrimTo(m, 0));
	emit("trim_0_with_live_left", "ge_4M=%d", ga(m, RESV) >= MiB(4));
	cuMemFreeAsync(a, s);
	gate_t g;
	cuStreamSynchronize(s);
	REQ(cuMemAllocFromPoolAsync(&a, MiB(4), m, s));
	cuStreamSynchronize(s);
	REQ(gate_close(&g, s));
	cuMemFreeAsync(a, s);
	emit("pending_free_used", "%s", rel(ga(m, USED), 0));
	T("trim_0_pending_free", cuMemPoolTrimTo(m, 0));
	emit("trim_0_pending_left", "nonzero=%d", ga(m, RESV) > 0);
	gate_open(&g);
	cuStreamSynchronize(s);
	gate_done(&g);
	T("trim_0_after", cuMemPoolTrimTo(m, 0));
	emit("trim_0_after_left", "%llu", (unsigned long long)ga(m, RESV));
	T("trim_null_pool", cuMemPoolTrimTo(NULL, 0));
	T("set_threshold_1M", sa(m, THR, MiB(1)));
	REQ(cuMemAllocFromPoolAsync(&a, MiB(128), m, s));
	cuMemFreeAsync(a, s);
	cuCtxSynchronize();
	emit("threshold_1M_after_ctx_sync.impl", "%llu", (unsigned long long)ga(m, RESV));
	TNOCTX("trim_no_ctx", cuMemPoolTrimTo(m, 0));
}

GROUP(pool_attr_errors)
{
	init_ctx();
	CUmemoryPool m = mkpool(0);
	cuuint64_t v = 1;
	int one = 1, zero = 0, two = 2;
	T("get_null_value", cuMemPoolGetAttribute(m, THR, NULL));
	T("get_null_pool", cuMemPoolGetAttribute(NULL, THR, &v));
	T("get_attr_0", cuMemPoolGetAttribute(m, 0, &v));
	T("get_attr_99", cuMemPoolGetAttribute(m, 99, &v));
	T("set_null_value", cuMemPoolSetAttribute(m, THR, NULL));
	T("set_null_pool", cuMemPoolSetAttribute(NULL, THR, &v));
	T("set_attr_0", cuMemPoolSetAttribute(m, 0, &v));
	T("set_attr_99", cuMemPoolSetAttribute(m, 99, &v));
	for (int a = 1; a <= 3; a++) {
		int g = 7;
		CUresult r1 = cuMemPoolSetAttribute(m, (CUmemPool_attribute)a, &zero);
		cuMemPoolGetAttribute(m, (CUmemPool_attribute)a, &g);
		emit(F("reuse_%d_off", a), "rc=%s now=%d", rcs(r1), g);
		r1 = cuMemPoolSetAttribute(m, (CUmemPool_attribute)a, &one);
		cuMemPoolGetAttribute(m, (CUmemPool_attribute)a, &g);
		emit(F("reuse_%d_on", a), "rc=%s now=%d", rcs(r1), g);
		r1 = cuMemPoolSetAttribute(m, (CUmemPool_attribute)a, &two);
		cuMemPoolGetAttribute(m, (CUmemPool_attribute)a, &g);
		emit(F("reuse_%d_two", a), "rc=%s now=%d", rcs(r1), g);
	}
	v = 12345;
	T("threshold_odd", cuMemPoolSetAttribute(m, THR, &v));
	emit("threshold_odd_readback", "%llu", (unsigned long long)ga(m, THR));
	TNOCTX("get_no_ctx", cuMemPoolGetAttribute(m, THR, &v));
	TNOCTX("set_no_ctx", cuMemPoolSetAttribute(m, THR, &v));
}

GROUP(pool_access)
{
	init_ctx();
	CUmemoryPool m = mkpool(0);
	CUmemAccess_flags f = 77;
	CUmemLocation dev = { CU_MEM_LOCATION_TYPE_DEVICE, g_dev }, host = { CU_MEM_LOCATION_TYPE_HOST, 0 }, bad = { CU_MEM_LOCATION_TYPE_DEVICE, 99 }, inv = { 0, 0 };
	TF("get_own_device", cuMemPoolGetAccess(&f, m, &dev), "%d", (int)f);
	f = 77; TF("get_host", cuMemPoolGetAccess(&f, m, &host), "%d", (int)f);
	T("get_bad_device", cuMemPoolGetAccess(&f, m, &bad));
	T("get_loctype_0", cuMemPoolGetAccess(&f, m, &inv));
	T("get_null_flags", cuMemPoolGetAccess(NULL, m, &dev));
	T("get_null_pool", cuMemPoolGetAccess(&f, NULL, &dev));
	T("get_null_loc", cuMemPoolGetAccess(&f, m, NULL));
	CUmemAccessDesc d = { dev, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	T("set_own_rw", cuMemPoolSetAccess(m, &d, 1));
	d.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE; TF("set_own_none", cuMemPoolSetAccess(m, &d, 1), "now=%s", (cuMemPoolGetAccess(&f, m, &dev), F("%d", (int)f)));
	d.flags = CU_MEM_ACCESS_FLAGS_PROT_READ; TF("set_own_read", cuMemPoolSetAccess(m, &d, 1), "now=%s", (cuMemPoolGetAccess(&f, m, &dev), F("%d", (int)f)));
	d.flags = 2; T("set_flags_2", cuMemPoolSetAccess(m, &d, 1));
	d.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	d.location = host; T("set_host_rw", cuMemPoolSetAccess(m, &d, 1));
	d.location = bad;  T("set_bad_device", cuMemPoolSetAccess(m, &d, 1));
	d.location = inv;  T("set_loctype_0", cuMemPoolSetAccess(m, &d, 1));
	d.location = dev;
	T("set_count_0", cuMemPoolSetAccess(m, &d, 0));
	T("set_null_desc", cuMemPoolSetAccess(m, NULL, 1));
	T("set_null_desc_count_0", cuMemPoolSetAccess(m, NULL, 0));
	T("set_null_pool", cuMemPoolSetAccess(NULL, &d, 1));
	TNOCTX("get_no_ctx", cuMemPoolGetAccess(&f, m, &dev));
	TNOCTX("set_no_ctx", cuMemPoolSetAccess(m, &d, 1));
}

GROUP(pool_current)
{
	init_ctx();
	CUmemoryPool def = NULL, cur = NULL, m = mkpool(0), got = NULL;
	CUdeviceptr d;
	T("get_default", cuDeviceGetDefaultMemPool(&def, g_dev));
	TF("get_current", cuDeviceGetMemPool(&cur, g_dev), "is_default=%d", cur == def);
	TF("set", cuDeviceSetMemPool(g_dev, m), "now=%s", (cuDeviceGetMemPool(&cur, g_dev), cur == m ? "new" : "other"));
	cuDeviceGetDefaultMemPool(&cur, g_dev);
	emit("default_unchanged", "%d", cur == def);
	REQ(cuMemAllocAsync(&d, 5000, 0));
	cuStreamSynchronize(0);
	cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, d);
	emit("alloc_comes_from_current", "%d", got == m);
	T("free", cuMemFreeAsync(d, 0));
	cuStreamSynchronize(0);
	T("destroy_current", cuMemPoolDestroy(m));
	TF("current_after_destroy", cuDeviceGetMemPool(&cur, g_dev), "is_default=%d", cur == def);
	T("set_null", cuDeviceSetMemPool(g_dev, NULL));
	T("set_bad_dev", cuDeviceSetMemPool(99, def));
	T("set_default_back", cuDeviceSetMemPool(g_dev, def));
	T("get_default_null", cuDeviceGetDefaultMemPool(NULL, g_dev));
	T("get_default_bad_dev", cuDeviceGetDefaultMemPool(&cur, 99));
	T("get_null", cuDeviceGetMemPool(NULL, g_dev));
	T("get_bad_dev", cuDeviceGetMemPool(&cur, 99));
	CUmemLocation l = { CU_MEM_LOCATION_TYPE_DEVICE, g_dev }, h = { CU_MEM_LOCATION_TYPE_HOST, 0 }, none = { 0, 0 };
	TF("mem_get_default_dev", cuMemGetDefaultMemPool(&cur, &l, CU_MEM_ALLOCATION_TYPE_PINNED), "same=%d", cur == def);
	TF("mem_get_dev", cuMemGetMemPool(&cur, &l, CU_MEM_ALLOCATION_TYPE_PINNED), "same=%d", cur == def);
	m = mkpool(0);
	TF("mem_set_dev", cuMemSetMemPool(&l, CU_MEM_ALLOCATION_TYPE_PINNED, m), "now=%s", (cuDeviceGetMemPool(&cur, g_dev), cur == m ? "new" : "other"));
	cuDeviceSetMemPool(g_dev, def);
	T("mem_set_wrong_loc", cuMemSetMemPool(&h, CU_MEM_ALLOCATION_TYPE_PINNED, m));
	T("mem_set_wrong_type", cuMemSetMemPool(&l, CU_MEM_ALLOCATION_TYPE_MANAGED, m));
	T("mem_get_default_host", cuMemGetDefaultMemPool(&cur, &h, CU_MEM_ALLOCATION_TYPE_PINNED));
	T("mem_get_default_managed_none", cuMemGetDefaultMemPool(&cur, &none, CU_MEM_ALLOCATION_TYPE_MANAGED));
	T("mem_get_default_pinned_none", cuMemGetDefaultMemPool(&cur, &none, CU_MEM_ALLOCATION_TYPE_PINNED));
	T("mem_get_default_null_loc", cuMemGetDefaultMemPool(&cur, NULL, CU_MEM_ALLOCATION_TYPE_PINNED));
	T("mem_get_default_type_0", cuMemGetDefaultMemPool(&cur, &l, 0));
}

GROUP(pool_destroy_live)
{
	init_ctx();
	CUstream s;
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	CUmemoryPool m = mkpool(0);
	CUdeviceptr d;
	REQ(cuMemAllocFromPoolAsync(&d, MiB(2), m, s));
	cuStreamSynchronize(s);
	dfill(d, MiB(2), 5);
	T("destroy_with_live", cuMemPoolDestroy(m));
	emit("data_after_destroy", "%s", dsame(d, MiB(2), 5));
	T("free_after_destroy", cuMemFreeAsync(d, s));
	T("sync", cuStreamSynchronize(s));
	T("double_free_after_destroy", cuMemFreeAsync(d, s));
	m = mkpool(0);
	REQ(cuMemAllocFromPoolAsync(&d, MiB(2), m, s));
	cuStreamSynchronize(s);
	gate_t g;
	REQ(gate_close(&g, s));
	cuMemsetD8Async(d, 3, 4096, s);
	cuMemFreeAsync(d, s);
	BLOCKS("destroy_with_pending_free", &g, cuMemPoolDestroy(m));
	T("sync2", cuStreamSynchronize(s));
	gate_done(&g);
}

GROUP(pool_maxsize)
{
	init_ctx();
	CUmemPoolProps p = props();
	CUmemoryPool m = NULL;
	CUdeviceptr d = 0, e = 0;
	p.maxSize = MiB(64);
	REQ(cuMemPoolCreate(&m, &p));
	T("below", cuMemAllocFromPoolAsync(&d, MiB(32), m, 0));
	T("second_fits", cuMemAllocFromPoolAsync(&e, MiB(16), m, 0));
	T("above", cuMemAllocFromPoolAsync(&e, MiB(128), m, 0));
	T("free", cuMemFreeAsync(d, 0));
	cuStreamSynchronize(0);
	T("alone_above", cuMemAllocFromPoolAsync(&e, MiB(65), m, 0));
}

GROUP(pool_order)
{
	/* allocation is usable by work queued behind it even while the stream waits */
	init_ctx();
	CUstream s, t;
	gate_t g;
	CUevent ev;
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	REQ(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
	REQ(cuEventCreate(&ev, CU_EVENT_DISABLE_TIMING));
	CUmemoryPool m = mkpool(0);
	sa(m, THR, ~0ull);
	CUdeviceptr warm, a, b;
	REQ(cuMemAllocFromPoolAsync(&warm, MiB(1), m, s));
	cuMemFreeAsync(warm, s);
	cuStreamSynchronize(s);
	char *h = NULL;
	REQ(cuMemAllocHost((void **)&h, 65536));
	memset(h, 0, 65536);
	REQ(gate_close(&g, s));
	BLOCKS("alloc_in_gated_stream", &g, cuMemAllocFromPoolAsync(&a, 65536, m, s));
	cuMemsetD8Async(a, 0x21, 65536, s);
	cuMemcpyDtoHAsync(h, a, 65536, s);
	T("free_same_stream", cuMemFreeAsync(a, s));
	T("sync", cuStreamSynchronize(s));
	emit("data", "%d", allbyte(h, 65536, 0x21));
	gate_done(&g);
	/* an unrelated stream must not get a block whose free waits for a gate */
	int zero = 0;
	for (int i = 1; i <= 3; i++)
		cuMemPoolSetAttribute(m, (CUmemPool_attribute)i, &zero);
	REQ(cuMemAllocFromPoolAsync(&a, 65536, m, s));
	cuStreamSynchronize(s);
	REQ(gate_close(&g, s));
	cuMemFreeAsync(a, s);
	REQ(cuMemAllocFromPoolAsync(&b, 65536, m, t));
	emit("pending_free_not_reused_elsewhere", "distinct=%d", a != b);
	T("other_stream_not_held", cuStreamSynchronize(t));
	CUdeviceptr c;
	REQ(cuMemAllocFromPoolAsync(&c, 65536, m, s));
	emit("pending_free_reused_same_stream.impl", "%d", a == c);
	gate_open(&g);
	cuStreamSynchronize(s);
	gate_done(&g);
	cuMemFreeAsync(b, t);
	cuMemFreeAsync(c, s);
	cuCtxSynchronize();
	/* event dependency enables reuse */
	int one = 1;
	cuMemPoolSetAttribute(m, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, &one);
	cuMemPoolTrimTo(m, 0);
	REQ(cuMemAllocFromPoolAsync(&a, MiB(8), m, s));
	cuStreamSynchronize(s);
	REQ(gate_close(&g, s));
	cuMemFreeAsync(a, s);
	cuEventRecord(ev, s);
	cuStreamWaitEvent(t, ev, 0);
	REQ(cuMemAllocFromPoolAsync(&b, MiB(8), m, t));
	emit("reuse_follow_event.impl", "%d", a == b);
	emit("reuse_follow_event_waits", "%s", rcs(cuStreamQuery(t)));
	gate_open(&g);
	cuCtxSynchronize();
	gate_done(&g);
	cuMemFreeAsync(b, t);
	cuCtxSynchronize();
	/* reuse after completion, with and without REUSE_ALLOW_OPPORTUNISTIC */
	cuMemPoolSetAttribute(m, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, &zero);
	REQ(cuMemAllocFromPoolAsync(&a, MiB(8), m, s));
	cuMemFreeAsync(a, s);
	cuStreamSynchronize(s);
	REQ(cuMemAllocFromPoolAsync(&b, MiB(8), m, t));
	emit("completed_free_opportunistic_off.impl", "reused=%d", a == b);
	cuMemFreeAsync(b, t);
	cuCtxSynchronize();
	cuMemPoolSetAttribute(m, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &one);
	REQ(cuMemAllocFromPoolAsync(&a, MiB(8), m, s));
	cuMemFreeAsync(a, s);
	cuStreamSynchronize(s);
	REQ(cuMemAllocFromPoolAsync(&b, MiB(8), m, t));
	emit("completed_free_opportunistic_on.impl", "reused=%d", a == b);
	/* cuMemFree on a pool allocation does not wait for the device */
	REQ(cuMemAllocFromPoolAsync(&c, 65536, m, s));
	cuStreamSynchronize(s);
	REQ(gate_close(&g, s));
	BLOCKS("cuMemFree_of_pool_ptr_does_not_sync", &g, cuMemFree(c));
	cuStreamSynchronize(s);
	gate_done(&g);
}

GROUP(pool_forced_reuse)
{
	/* the pool is too small for a second block: reuse of the pending one or failure */
	init_ctx();
	static const struct { const char *n; int ev, op, in; } v[] = { { "none", 0, 0, 0 }, { "internal", 0, 0, 1 }, { "all", 1, 1, 1 } };
	CUstream s, t;
	gate_t g;
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	REQ(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
	for (int i = 0; i < 3; i++) {
		CUmemPoolProps p = props();
		CUmemoryPool m;
		CUdeviceptr a, b = 0;
		p.maxSize = MiB(64);
		REQ(cuMemPoolCreate(&m, &p));
		sa(m, THR, ~0ull);
		sa(m, 1, (cuuint64_t)v[i].ev); sa(m, 2, (cuuint64_t)v[i].op); sa(m, 3, (cuuint64_t)v[i].in);
		REQ(cuMemAllocFromPoolAsync(&a, MiB(60), m, s));
		cuStreamSynchronize(s);
		REQ(gate_close(&g, s));
		cuMemFreeAsync(a, s);
		gate_after(&g, 400);
		CUresult r = cuMemAllocFromPoolAsync(&b, MiB(60), m, t);
		int waited = g.released;
		CUresult q = cuStreamQuery(t);
		cuStreamSynchronize(s);
		gate_done(&g);
		emit(F("pending_%s", v[i].n), "rc=%s reused=%d call_waited=%d stream_held=%d", rcs(r), !r && a == b, waited, q == CUDA_ERROR_NOT_READY);
		cuCtxSynchronize();
		if (!r)
			cuMemFreeAsync(b, t);
		cuCtxSynchronize();
		REQ(cuMemAllocFromPoolAsync(&a, MiB(60), m, s));
		cuMemFreeAsync(a, s);
		cuStreamSynchronize(s);
		b = 0;
		r = cuMemAllocFromPoolAsync(&b, MiB(60), m, t);
		emit(F("completed_%s", v[i].n), "rc=%s reused=%d", rcs(r), !r && a == b);
		cuCtxSynchronize();
		if (!r)
			cuMemFreeAsync(b, t);
		cuCtxSynchronize();
		T(F("destroy_%s", v[i].n), cuMemPoolDestroy(m));
	}
}

GROUP(pool_export_self)
{
	init_ctx();
	CUmemoryPool m = mkpool(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), plain = mkpool(0), imp = NULL, def = NULL;
	int fd = -1;
	CUdeviceptr d, q = 0;
	CUmemPoolPtrExportData x;
	TF("export", cuMemPoolExportToShareableHandle(&fd, m, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), "fd_valid=%d cloexec=%d", fd >= 0 && fcntl(fd, F_GETFD) >= 0,
	   fd >= 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
	int fd2 = -1;
	TF("export_twice", cuMemPoolExportToShareableHandle(&fd2, m, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), "new_fd=%d", fd2 >= 0 && fd2 != fd);
	T("export_plain_pool", cuMemPoolExportToShareableHandle(&fd2, plain, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	cuDeviceGetDefaultMemPool(&def, g_dev);
	T("export_default_pool", cuMemPoolExportToShareableHandle(&fd2, def, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	T("export_wrong_type", cuMemPoolExportToShareableHandle(&fd2, m, CU_MEM_HANDLE_TYPE_WIN32, 0));
	T("export_type_none", cuMemPoolExportToShareableHandle(&fd2, m, CU_MEM_HANDLE_TYPE_NONE, 0));
	T("export_flags_1", cuMemPoolExportToShareableHandle(&fd2, m, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1));
	T("export_null_out", cuMemPoolExportToShareableHandle(NULL, m, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	T("export_null_pool", cuMemPoolExportToShareableHandle(&fd2, NULL, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	REQ(cuMemAllocFromPoolAsync(&d, 10000, m, 0));
	cuStreamSynchronize(0);
	T("ptr_export", cuMemPoolExportPointer(&x, d));
	T("ptr_export_interior", cuMemPoolExportPointer(&x, d + 256));
	T("ptr_export_null_out", cuMemPoolExportPointer(NULL, d));
	T("ptr_export_null_ptr", cuMemPoolExportPointer(&x, 0));
	CUdeviceptr pd;
	REQ(cuMemAllocFromPoolAsync(&pd, 10000, plain, 0));
	cuStreamSynchronize(0);
	T("ptr_export_from_plain_pool", cuMemPoolExportPointer(&x, pd));
	CUdeviceptr cm = dalloc(4096);
	T("ptr_export_of_cuMemAlloc", cuMemPoolExportPointer(&x, cm));
	T("import_self", cuMemPoolImportFromShareableHandle(&imp, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	if (imp) {
		emit("import_self_is_new_handle", "%d", imp != m);
		cuMemPoolExportPointer(&x, d);
		dfill(d, 10000, 2);
		CUresult r = cuMemPoolImportPointer(&q, imp, &x);
		emit("import_ptr_self", "rc=%s same_va=%d data=%s", rcs(r), q == d, r ? "-" : dsame(q, 10000, 2));
		if (!r && q != d)
			T("import_ptr_free", cuMemFree(q));
		CUdeviceptr z;
		T("alloc_from_imported", cuMemAllocFromPoolAsync(&z, 4096, imp, 0));
		T("set_imported_current", cuDeviceSetMemPool(g_dev, imp));
		T("export_imported", cuMemPoolExportToShareableHandle(&fd2, imp, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
		T("trim_imported", cuMemPoolTrimTo(imp, 0));
		T("destroy_imported", cuMemPoolDestroy(imp));
	}
	T("import_bad_fd", cuMemPoolImportFromShareableHandle(&imp, (void *)(uintptr_t)0x7ffff, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	int dn = open("/dev/null", O_RDWR);
	T("import_devnull_fd", cuMemPoolImportFromShareableHandle(&imp, (void *)(uintptr_t)dn, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	T("import_flags_1", cuMemPoolImportFromShareableHandle(&imp, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1));
	T("import_null_out", cuMemPoolImportFromShareableHandle(NULL, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	T("import_type_none", cuMemPoolImportFromShareableHandle(&imp, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_NONE, 0));
	T("import_ptr_into_plain_pool", cuMemPoolImportPointer(&q, plain, &x));
	T("import_ptr_null_pool", cuMemPoolImportPointer(&q, NULL, &x));
	T("import_ptr_null_data", cuMemPoolImportPointer(&q, m, NULL));
	T("import_ptr_null_out", cuMemPoolImportPointer(NULL, m, &x));
	T("import_ptr_into_exporting_pool", cuMemPoolImportPointer(&q, m, &x));
	T("fd_still_closable", close(fd) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS);
	emit("alloc_alive", "%s", rcs(cuMemsetD8(d, 0, 10000)));
}

GROUP(pool_interplay)
{
	init_ctx();
	CUmemoryPool m = mkpool(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	CUdeviceptr d, e;
	REQ(cuMemAllocFromPoolAsync(&d, MiB(4), m, 0));
	REQ(cuMemAllocAsync(&e, MiB(4), 0));
	cuStreamSynchronize(0);
	CUipcMemHandle h;
	T("ipc_handle_of_ipc_pool_ptr", cuIpcGetMemHandle(&h, d));
	T("ipc_handle_of_default_pool_ptr", cuIpcGetMemHandle(&h, e));
	int cap = 9;
	TF("legacy_ipc_capable", cuPointerGetAttribute(&cap, CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE, e), "%d", cap & 0xff);
	int fd = -1;
	T("dmabuf_of_pool_ptr", cuMemGetHandleForAddressRange(&fd, e, MiB(4), CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	CUmemGenericAllocationHandle gh = 0;
	T("retain_handle_of_pool_ptr", cuMemRetainAllocationHandle(&gh, HPTR(e)));
	T("hostgetdeviceptr_of_pool_ptr", cuMemHostGetDevicePointer(&d, HPTR(e), 0));
	unsigned f;
	T("hostgetflags_of_pool_ptr", cuMemHostGetFlags(&f, HPTR(e)));
	T("unmap_of_pool_ptr", cuMemUnmap(e, MiB(4)));
	T("addressfree_of_pool_ptr", cuMemAddressFree(e, MiB(4)));
	CUmemAccessDesc ad = { { CU_MEM_LOCATION_TYPE_DEVICE, 0 }, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	T("setaccess_of_pool_ptr", cuMemSetAccess(e, MiB(4), &ad, 1));
	unsigned long long fl = 99;
	CUmemLocation l = { CU_MEM_LOCATION_TYPE_DEVICE, 0 };
	TF("getaccess_of_pool_ptr", cuMemGetAccess(&fl, &l, e), "%llu", fl);
	emit("still_usable", "%s", rcs(cuMemsetD8(e, 1, MiB(4))));
}

static CUmemoryPool dead_pool(void) { CUmemoryPool m = mkpool(0); cuMemPoolDestroy(m); return m; }
static CUstream dead_stream(void) { CUstream s = NULL; cuStreamCreate(&s, 0); cuStreamDestroy(s); return s; }
RISKY(pool_double_destroy, cuMemPoolDestroy(dead_pool()))
RISKY(pool_alloc_from_destroyed, cuMemAllocFromPoolAsync(&d, 4096, dead_pool(), 0), CUdeviceptr d)
RISKY(pool_getattr_destroyed, cuMemPoolGetAttribute(dead_pool(), RESV, &v), cuuint64_t v)
RISKY(pool_alloc_destroyed_stream, cuMemAllocAsync(&d, 4096, dead_stream()), CUdeviceptr d)
RISKY(pool_free_destroyed_stream, cuMemFreeAsync(d, dead_stream()), CUdeviceptr d; cuMemAllocAsync(&d, 4096, 0); cuStreamSynchronize(0))
RISKY(pool_import_zeroed_export_data, cuMemPoolImportPointer(&q, mkpool(1), &x), CUdeviceptr q; CUmemPoolPtrExportData x; memset(&x, 0, sizeof(x)))

/* The pool is full.  The pending blocks are neighbours, freed in one stream or in two. */
GROUP(pool_pending_neighbours)
{
	static const struct { const char *n; int streams, done, want; } v[] = {
		{ "of_one_stream", 1, 0, 64 }, { "of_two_streams", 2, 0, 64 },
		{ "one_of_two_streams", 2, 0, 32 }, { "one_is_done", 2, 1, 64 },
		{ "part_of_one", 2, 0, 8 },
	};
	CUstream s[2], t;

	init_ctx();
	REQ(cuStreamCreate(&s[0], CU_STREAM_NON_BLOCKING));
	REQ(cuStreamCreate(&s[1], CU_STREAM_NON_BLOCKING));
	REQ(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
	for (unsigned i = 0; i < sizeof(v) / sizeof(*v); i++) {
		CUdeviceptr a, b, whole, out = 0;
		CUstream other = s[v[i].streams - 1];
		CUmemPoolProps p = props();
		/* Static, because the gates' threads outlive a group that gives up. */
		static gate_t g[2];
		CUmemoryPool m;
		CUresult r, q;
		int waited;

		memset(g, 0, sizeof(g));
		p.maxSize = MiB(64);
		REQ(cuMemPoolCreate(&m, &p));
		sa(m, THR, ~0ull);
		REQ(cuMemAllocFromPoolAsync(&whole, MiB(64), m, t));
		cuMemFreeAsync(whole, t);
		cuStreamSynchronize(t);
		REQ(cuMemAllocFromPoolAsync(&a, MiB(32), m, s[0]));
		REQ(cuMemAllocFromPoolAsync(&b, MiB(32), m, other));
		cuCtxSynchronize();
		for (int n = v[i].done; n < v[i].streams; n++)
			REQ(gate_close(&g[n], s[n]));
		cuMemFreeAsync(a, s[0]);
		cuMemFreeAsync(b, other);
		if (v[i].done)
			cuStreamSynchronize(s[0]);
		r = cuMemAllocFromPoolAsync(&out, MiB(v[i].want), m, t);
		q = cuStreamQuery(t);
		waited = g[0].released | g[1].released;
		for (int n = v[i].done; n < v[i].streams; n++)
			gate_open(&g[n]);
		cuCtxSynchronize();
		for (int n = v[i].done; n < v[i].streams; n++)
			gate_done(&g[n]);
		emit(v[i].n, "rc=%s neighbours=%d call_waited=%d stream_held=%d", rcs(r),
		     b == a + MiB(32) || a == b + MiB(32), waited, q == CUDA_ERROR_NOT_READY);
		if (!r)
			cuMemFreeAsync(out, t);
		cuCtxSynchronize();
		T(F("destroy_%s", v[i].n), cuMemPoolDestroy(m));
	}
}

/* All memory of a full pool is idle: allocate parts, free some, see which blocks fit there. */
GROUP(pool_full_parts)
{
	static const struct { const char *n; size_t part[4]; unsigned freed; size_t then[2]; } v[] = {
		{ "thirds", { MiB(20), MiB(20), MiB(20), MiB(4) }, 0, { 1 } },
		{ "apart", { MiB(20), MiB(20), MiB(20), MiB(4) }, 5, { MiB(40), MiB(20) } },
		{ "beside", { MiB(20), MiB(20), MiB(20), MiB(4) }, 6, { MiB(40), MiB(1) } },
		{ "two_thirds", { MiB(43), MiB(21) }, 1, { MiB(22), MiB(21) } },
		{ "odd", { MiB(21) + 5, MiB(42) }, 0, { KiB(512) + 1, KiB(512) + 1 } },
		{ "again", { MiB(33), MiB(30) }, 1, { MiB(16), MiB(17) } },
		{ "small_first", { 512, MiB(63) }, 2, { MiB(63), 512 } },
		{ "too_much", { MiB(64) / 3 + 512, MiB(64) / 3 + 512, MiB(64) / 3 + 512 }, 0, { MiB(21) } },
	};
	CUdeviceptr d[6], whole;
	CUmemPoolProps p;
	CUmemoryPool m;
	CUstream s;

	init_ctx();
	p = props();
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	p.maxSize = MiB(64);
	REQ(cuMemPoolCreate(&m, &p));
	sa(m, THR, ~0ull);
	for (unsigned i = 0; i < sizeof(v) / sizeof(*v); i++) {
		char rc[8] = "";
		CUresult r;

		REQ(cuMemAllocFromPoolAsync(&whole, MiB(64), m, s));
		cuMemFreeAsync(whole, s);
		cuStreamSynchronize(s);
		for (unsigned k = 0; k < 6; k++) {
			size_t n = k < 4 ? v[i].part[k] : v[i].then[k - 4];

			d[k] = 0;
			for (unsigned f = 0; k == 4 && f < 4; f++)
				if (v[i].freed >> f & 1) {
					cuMemFreeAsync(d[f], s);
					d[f] = 0;
				}
			if (k == 4)
				cuStreamSynchronize(s);
			r = n ? cuMemAllocFromPoolAsync(&d[k], n, m, s) : CUDA_SUCCESS;
			rc[k] = n ? '0' + (int)r : '-';
		}
		for (unsigned k = 0; k < 6; k++)
			if (d[k])
				cuMemFreeAsync(d[k], s);
		cuStreamSynchronize(s);
		emit(v[i].n, "rc=%s", rc);
	}
	T("destroy", cuMemPoolDestroy(m));
}

/* A pool reserves less than its limit, all idle: does the driver divide it, or give it back? */
GROUP(pool_nearly_full)
{
	static const struct { const char *n; size_t first, part[3]; } v[] = {
		{ "whole", MiB(64), { MiB(20), MiB(44), MiB(1) } },
		{ "left_2", MiB(62), { MiB(20), MiB(44), MiB(1) } },
		{ "left_4", MiB(60), { MiB(20), MiB(44), MiB(1) } },
		{ "left_6_fits", MiB(58), { MiB(20), MiB(38), MiB(6) } },
		{ "left_6", MiB(58), { MiB(20), MiB(44), MiB(1) } },
		{ "left_10", MiB(54), { MiB(20), MiB(44), MiB(1) } },
		{ "left_16", MiB(48), { MiB(20), MiB(44), MiB(1) } },
		{ "half", MiB(32), { MiB(20), MiB(44), MiB(1) } },
		{ "small", MiB(62), { MiB(2), MiB(62), MiB(1) } },
	};
	CUstream s;

	init_ctx();
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	for (unsigned i = 0; i < sizeof(v) / sizeof(*v); i++) {
		CUmemPoolProps p = props();
		CUdeviceptr d[3], first;
		char rc[4] = "";
		CUmemoryPool m;

		p.maxSize = MiB(64);
		REQ(cuMemPoolCreate(&m, &p));
		sa(m, THR, ~0ull);
		REQ(cuMemAllocFromPoolAsync(&first, v[i].first, m, s));
		cuMemFreeAsync(first, s);
		cuStreamSynchronize(s);
		for (unsigned k = 0; k < 3; k++) {
			CUresult r = cuMemAllocFromPoolAsync(&d[k], v[i].part[k], m, s);

			if (r)
				d[k] = 0;
			rc[k] = '0' + (int)r;
		}
		emit(v[i].n, "rc=%s", rc);
		for (unsigned k = 0; k < 3; k++)
			if (d[k])
				cuMemFreeAsync(d[k], s);
		cuStreamSynchronize(s);
		cuMemPoolDestroy(m);
	}
}
