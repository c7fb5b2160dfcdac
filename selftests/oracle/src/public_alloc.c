// SPDX-License-Identifier: GPL-2.0
/* Cases of cuMemAlloc, cuMemAllocPitch, cuMemFree, cuMemGetAddressRange, cuMemGetInfo */
#include "oracle.h"

GROUP(alloc_sizes)
{
	static const size_t sz[] = { 1, 2, 255, 256, 257, 511, 512, 513, 1000, 4095, 4096, 4097,
		65535, 65536, 65537, 1048575, 1048576, 1048577, 2097151, 2097152, 2097153,
		3145728, 4194304, 33554432, 67108865 };
	init_ctx();
	for (size_t i = 0; i < sizeof(sz) / sizeof(sz[0]); i++) {
		size_t n = sz[i], rs = 0;
		CUdeviceptr d = 0xdead, b = 0;
		CUresult r = cuMemAlloc(&d, n);
		if (r) {
			emit(F("size_%zu", n), "rc=%s", rcs(r));
			continue;
		}
		CUresult r2 = cuMemGetAddressRange(&b, &rs, d);
		size_t m = n > 8192 ? 8192 : n;
		CUresult w1 = dfill(d, m, (unsigned)n), w2 = dfill(d + n - m, m, (unsigned)n + 1);
		const char *t = dsame(d + n - m, m, (unsigned)n + 1);
		emit(F("size_%zu", n), "rc=%s al256=%d range=%s base=%s size=%s w=%s,%s tail=%s", rcs(r),
		     (d & 255) == 0, rcs(r2), prel(b, d), rel(rs, n), rcs(w1), rcs(w2), t);
		T(F("free_%zu", n), cuMemFree(d));
	}
}

GROUP(alloc_errors)
{
	CUdeviceptr d = 0x1234560;
	init_ctx();
	TF("zero", cuMemAlloc(&d, 0), "out=%s", d == 0x1234560 ? "untouched" : d ? "other" : "zero");
	T("null_out", cuMemAlloc(NULL, 4096));
	T("null_out_zero", cuMemAlloc(NULL, 0));
	d = 0x1234560;
	TF("huge_64T", cuMemAlloc(&d, 1ull << 46), "out=%s", d == 0x1234560 ? "untouched" : d ? "other" : "zero");
	d = 0x1234560;
	TF("huge_max", cuMemAlloc(&d, ~0ull), "out=%s", d == 0x1234560 ? "untouched" : d ? "other" : "zero");
	T("huge_max_minus_2M", cuMemAlloc(&d, ~0ull - MiB(2) + 1));
	T("huge_bit63", cuMemAlloc(&d, 1ull << 63));
	size_t f = 0, t = 0;
	cuMemGetInfo(&f, &t);
	T("total_plus_1G", cuMemAlloc(&d, t + GiB(1)));
	T("works_after_oom", cuMemAlloc(&d, 4096));
	T("free_after_oom", cuMemFree(d));
	TNOCTX("no_ctx", cuMemAlloc(&d, 4096));
	TNOCTX("no_ctx_null", cuMemAlloc(NULL, 4096));
	TNOCTX("no_ctx_zero", cuMemAlloc(&d, 0));
}

GROUP(alloc_many)
{
	enum { N = 96 };
	CUdeviceptr d[N];
	size_t n[N];
	uint64_t lo = ~0ull, orv = 0;
	int overlap = 0, bad = 0;
	init_ctx();
	for (int i = 0; i < N; i++) {
		n[i] = (size_t)(i * 37 + 1);
		if (cuMemAlloc(&d[i], n[i]))
			bad++;
		orv |= d[i];
		dfill(d[i], n[i], (unsigned)i);
	}
	for (int i = 0; i < N; i++)
		for (int j = 0; j < i; j++) {
			if (d[i] < d[j] + n[j] && d[j] < d[i] + n[i])
				overlap++;
			uint64_t g = d[i] > d[j] ? d[i] - d[j] : d[j] - d[i];
			if (g < lo)
				lo = g;
		}
	emit("many_ok", "failed=%d overlaps=%d", bad, overlap);
	emit("many_align256", "%d", (orv & 255) == 0);
	emit("many_minalign.impl", "%s", lowalign(orv, 1 << 21));
	emit("many_minspacing.impl", "%llu", (unsigned long long)lo);
	int intact = 0;
	for (int i = 0; i < N; i++)
		intact += !strcmp(dsame(d[i], n[i], (unsigned)i), "intact");
	emit("many_intact", "%d of %d", intact, N);
	int ok = 0;
	for (int i = 0; i < N; i += 2)
		ok += cuMemFree(d[i]) == 0;
	emit("many_free_even", "%d", ok);
	intact = 0;
	for (int i = 1; i < N; i += 2)
		intact += !strcmp(dsame(d[i], n[i], (unsigned)i), "intact");
	emit("many_odd_intact", "%d", intact);
	ok = 0;
	for (int i = 1; i < N; i += 2)
		ok += cuMemFree(d[i]) == 0;
	emit("many_free_odd", "%d", ok);
}

GROUP(alloc_reuse)
{
	init_ctx();
	CUdeviceptr a = dalloc(4096), b;
	cuMemFree(a);
	b = dalloc(4096);
	emit("small_same_address.impl", "%d", a == b);
	cuMemFree(b);
	a = dalloc(MiB(8));
	cuMemFree(a);
	b = dalloc(MiB(8));
	emit("large_same_address.impl", "%d", a == b);
	unsigned long long i1 = 0, i2 = 0;
	cuPointerGetAttribute(&i1, CU_POINTER_ATTRIBUTE_BUFFER_ID, b);
	cuMemFree(b);
	b = dalloc(MiB(8));
	cuPointerGetAttribute(&i2, CU_POINTER_ATTRIBUTE_BUFFER_ID, b);
	emit("buffer_id_never_reused", "nonzero=%d differs=%d grows=%d", i1 && i2, i1 != i2, i2 > i1);
	cuMemFree(b);
}

GROUPALONE(alloc_blocks)
{
	/* how allocations of different sizes are backed */
	static const size_t sz[] = { 1, 4096, 1048576, 1048577, 1572864, 2097151, 2097152, 2097153, 3145728, 4194305, 33554432, 33554433 };
	init_ctx();
	for (size_t i = 0; i < sizeof(sz) / sizeof(sz[0]); i++) {
		CUdeviceptr d = dalloc(sz[i]);
		size_t ms = 0;
		CUdeviceptr mb = 0;
		cuPointerGetAttribute(&ms, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, d);
		cuPointerGetAttribute(&mb, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, d);
		emit(F("backing_%zu.impl", sz[i]), "mapping_size=%zu base=%s va_align=%s", ms, prel(mb, d), lowalign(d, MiB(2)));
		cuMemFree(d);
	}
	size_t f0, f1, t;
	CUdeviceptr v[600];
	cuMemGetInfo(&f0, &t);
	for (int i = 0; i < 600; i++)
		v[i] = dalloc(4096);
	cuMemGetInfo(&f1, &t);
	emit("six_hundred_4K_cost.impl", "%zu", f0 - f1);
	for (int i = 0; i < 600; i++)
		cuMemFree(v[i]);
	cuMemGetInfo(&f1, &t);
	emit("six_hundred_4K_freed.impl", "%zd", (ssize_t)(f0 - f1));
}

/* old contents: another process must not see them */
PEER(alloc_scrub)
{
	init_ctx();
	unsigned char *h = malloc(MiB(64));
	unsigned long long seen = 0;
	for (int i = 0; i < 8; i++) {
		CUdeviceptr d = dalloc(MiB(64));
		cuMemcpyDtoH(h, d, MiB(64));
		for (size_t k = 0; k < MiB(64); k += 4096)
			seen += !memcmp(h + k, "secretsecretsecretsecret", 24);
	}
	emit("peer_sees_old_pages", "%llu", seen);
}
GROUPALONE(alloc_scrub)
{
	init_ctx();
	peer_t p;
	unsigned char *h = malloc(MiB(64));
	CUdeviceptr d = dalloc(MiB(64));
	cuMemcpyDtoH(h, d, MiB(64));
	emit("fresh_zero.impl", "%d", allbyte(h, MiB(64), 0));
	for (size_t k = 0; k < MiB(64); k += 24)
		memcpy(h + k, "secretsecretsecretsecret", k + 24 <= MiB(64) ? 24 : MiB(64) - k);
	for (size_t k = 0; k < MiB(64); k += 4096)
		memcpy(h + k, "secretsecretsecretsecret", 24);
	cuMemcpyHtoD(d, h, MiB(64));
	T("free_dirty", cuMemFree(d));
	REQNZ(!peer_start(&p, "alloc_scrub"));
	emit("peer_exit", "%d", peer_wait(&p));
	d = dalloc(MiB(64));
	cuMemcpyDtoH(h, d, MiB(64));
	emit("own_realloc_zero.impl", "%d", allbyte(h, MiB(64), 0));
	cuMemFree(d);
	CUdeviceptr a;
	REQ(cuMemAllocAsync(&a, MiB(1), 0));
	cuMemsetD8Async(a, 0x77, MiB(1), 0);
	cuMemFreeAsync(a, 0);
	REQ(cuMemAllocAsync(&a, MiB(1), 0));
	cuStreamSynchronize(0);
	emit("pool_reuse_keeps_bytes.impl", "%s", dbyte(a, MiB(1), 0x77));
}

GROUP(free_errors)
{
	init_ctx();
	CUdeviceptr d = dalloc(65536);
	T("zero_ptr", cuMemFree(0));
	T("interior_1", cuMemFree(d + 1));
	T("interior_256", cuMemFree(d + 256));
	T("interior_last", cuMemFree(d + 65535));
	T("one_past", cuMemFree(d + 65536 + MiB(64)));
	dfill(d, 65536, 5);
	emit("alive_after_bad_frees", "%s", dsame(d, 65536, 5));
	T("ok", cuMemFree(d));
	T("double", cuMemFree(d));
	T("garbage", cuMemFree(0x1000));
	T("garbage_high", cuMemFree(0x7fff00000000ull));
	T("minus_one", cuMemFree(~0ull));
	void *m = malloc(4096);
	T("malloc_ptr", cuMemFree(DPTR(m)));
	free(m);
	int onstack = 0;
	T("stack_ptr", cuMemFree(DPTR(&onstack)));
	void *h = NULL;
	REQ(cuMemAllocHost(&h, 4096));
	T("pinned_host_ptr", cuMemFree(DPTR(h)));
	memset(h, 1, 4096);
	T("pinned_host_still_freeable", cuMemFreeHost(h));
	void *p = halloc(65536);
	REQ(cuMemHostRegister(p, 65536, 0));
	T("registered_ptr", cuMemFree(DPTR(p)));
	T("unregister_after", cuMemHostUnregister(p));
	hfree(p, 65536);
	CUdeviceptr mg = 0;
	if (HAVE(cuMemAllocManaged(&mg, 65536, CU_MEM_ATTACH_GLOBAL))) {
		T("managed_interior", cuMemFree(mg + 4096));
		T("managed_ok", cuMemFree(mg));
		T("managed_double", cuMemFree(mg));
	}
	d = dalloc(4096);
	TNOCTX("no_ctx", cuMemFree(d));
	T("after_no_ctx", cuMemFree(d));
	TNOCTX("no_ctx_zero", cuMemFree(0));
}

GROUP(free_other_ctx)
{
	init_ctx();
	CUcontext c2 = NULL, cur;
	CUdeviceptr d = dalloc(4096), d2 = 0;
	dfill(d, 4096, 9);
	REQ(cuCtxCreate(&c2, NULL, 0, g_dev));
	cuCtxGetCurrent(&cur);
	emit("create_makes_current", "%d", cur == c2);
	emit("read_other_ctx_mem", "%s", dsame(d, 4096, 9));
	REQ(cuMemAlloc(&d2, 4096));
	T("free_primary_mem_in_c2", cuMemFree(d));
	cuCtxPopCurrent(&cur);
	emit("pop_returns_c2", "%d", cur == c2);
	cuCtxGetCurrent(&cur);
	emit("pop_restores_primary", "%d", cur == g_ctx);
	T("free_c2_mem_in_primary", cuMemFree(d2));
	cuCtxPushCurrent(c2);
	d2 = dalloc(8192);
	cuCtxPopCurrent(&cur);
	T("destroy_c2", cuCtxDestroy(c2));
	T("free_mem_of_destroyed_ctx", cuMemFree(d2));
	T("range_mem_of_destroyed_ctx", ({ CUdeviceptr rb; size_t rn; cuMemGetAddressRange(&rb, &rn, d2); }));
	T("still_works", cuMemAlloc(&d, 4096));
}

GROUP(free_sync)
{
	init_ctx();
	CUstream s;
	gate_t g;
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	CUdeviceptr d = dalloc(MiB(4)), e = dalloc(4096), f = dalloc(4096);
	dfill(e, 4096, 3);
	REQ(gate_close(&g, s));
	T("async_copy_behind_gate", cuMemcpyDtoDAsync(d, e, 4096, s));
	T("query_gated", cuStreamQuery(s));
	BLOCKS("free_of_unrelated_memory", &g, cuMemFree(f));
	T("sync", cuStreamSynchronize(s));
	gate_done(&g);
	REQ(gate_close(&g, s));
	cuMemsetD8Async(d, 1, 4096, s);
	BLOCKS("free_of_memory_in_use", &g, cuMemFree(d));
	cuStreamSynchronize(s);
	gate_done(&g);
	REQ(gate_close(&g, s));
	CUdeviceptr n = 0;
	BLOCKS("alloc_small_while_busy", &g, cuMemAlloc(&n, 4096));
	cuStreamSynchronize(s);
	gate_done(&g);
	cuMemFree(n);
	REQ(gate_close(&g, s));
	BLOCKS("alloc_large_while_busy", &g, cuMemAlloc(&n, MiB(64)));
	cuStreamSynchronize(s);
	gate_done(&g);
	cuMemFree(n);
	cuMemFree(e);
	cuStreamDestroy(s);
}

GROUP(pitch)
{
	static const struct { size_t w, h; unsigned e; } v[] = {
		{ 1, 1, 4 }, { 16, 3, 4 }, { 64, 64, 4 }, { 100, 10, 4 }, { 256, 2, 8 }, { 511, 4, 4 },
		{ 512, 4, 4 }, { 513, 4, 4 }, { 1000, 7, 8 }, { 1024, 100, 16 }, { 4096, 16, 16 },
		{ 4097, 16, 16 }, { 65535, 3, 4 }, { 1048576, 2, 16 }, { 1048577, 2, 16 } };
	init_ctx();
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		CUdeviceptr d = 0, b = 0;
		size_t p = 0, s = 0;
		CUresult r = cuMemAllocPitch(&d, &p, v[i].w, v[i].h, v[i].e);
		CUresult r2 = r ? r : cuMemGetAddressRange(&b, &s, d);
		const char *id = F("w%zu_h%zu_e%u", v[i].w, v[i].h, v[i].e);
		emit(id, "rc=%s ge_width=%d mult_of_elem=%d mult_of_32=%d base=%s size_ge=%d al256=%d", rcs(r),
		     p >= v[i].w, p && p % v[i].e == 0, p && p % 32 == 0, prel(b, d), s >= v[i].w * v[i].h, (d & 255) == 0);
		emit(F("w%zu_h%zu_e%u.impl", v[i].w, v[i].h, v[i].e), "pitch=%zu range=%s size=pitch*h%s", p, rcs(r2),
		     rel(s, p * v[i].h));
		if (!r)
			cuMemFree(d);
	}
	CUdeviceptr d = 0;
	size_t p = 0;
	static const unsigned be[] = { 0, 1, 2, 3, 5, 12, 32, 64 };
	for (size_t i = 0; i < sizeof(be) / sizeof(be[0]); i++)
		T(F("bad_elem_%u", be[i]), cuMemAllocPitch(&d, &p, 100, 10, be[i]));
	T("width_0", cuMemAllocPitch(&d, &p, 0, 10, 4));
	T("height_0", cuMemAllocPitch(&d, &p, 100, 0, 4));
	T("null_dptr", cuMemAllocPitch(NULL, &p, 100, 10, 4));
	T("null_pitch", cuMemAllocPitch(&d, NULL, 100, 10, 4));
	T("huge_height", cuMemAllocPitch(&d, &p, 4096, 1ull << 40, 4));
	T("overflow", cuMemAllocPitch(&d, &p, 1ull << 34, 1ull << 34, 4));
	T("width_gt_maxpitch", cuMemAllocPitch(&d, &p, 0x80000000ull, 1, 4));
	TNOCTX("no_ctx", cuMemAllocPitch(&d, &p, 100, 10, 4));
	REQ(cuMemAllocPitch(&d, &p, 100, 10, 4));
	T("free_second_row", cuMemFree(d + p));
	T("free", cuMemFree(d));
}

GROUP(range)
{
	init_ctx();
	CUdeviceptr d = dalloc(100000), b = 1;
	size_t s = 1;
	TF("base", cuMemGetAddressRange(&b, &s, d), "base=%s size=%s", prel(b, d), rel(s, 100000));
	TF("interior", cuMemGetAddressRange(&b, &s, d + 12345), "base=%s size=%s", prel(b, d), rel(s, 100000));
	TF("last_byte", cuMemGetAddressRange(&b, &s, d + 99999), "base=%s size=%s", prel(b, d), rel(s, 100000));
	T("null_base", cuMemGetAddressRange(NULL, &s, d));
	T("null_size", cuMemGetAddressRange(&b, NULL, d));
	T("null_both", cuMemGetAddressRange(NULL, NULL, d));
	b = 77; s = 77;
	TF("zero", cuMemGetAddressRange(&b, &s, 0), "out=%s", b == 77 && s == 77 ? "untouched" : !b && !s ? "zeroed" : "other");
	b = 77; s = 77;
	TF("garbage", cuMemGetAddressRange(&b, &s, 0x12345000), "out=%s", b == 77 && s == 77 ? "untouched" : !b && !s ? "zeroed" : "other");
	void *m = malloc(100);
	T("malloc", cuMemGetAddressRange(&b, &s, DPTR(m)));
	free(m);
	void *h = NULL;
	REQ(cuMemHostAlloc(&h, 10000, 0));
	TF("host_alloc", cuMemGetAddressRange(&b, &s, DPTR(h) + 100), "base=%s size=%s", prel(b, DPTR(h)), rel(s, 10000));
	cuMemFreeHost(h);
	T("host_freed", cuMemGetAddressRange(&b, &s, DPTR(h)));
	char *p = halloc(65536);
	REQ(cuMemHostRegister(p + 100, 20000, 0));
	TF("registered", cuMemGetAddressRange(&b, &s, DPTR(p) + 100), "base=%s size=%s", prel(b, DPTR(p)), rel(s, 20000));
	TF("registered_same_page_before", cuMemGetAddressRange(&b, &s, DPTR(p)), "base=%s size=%s", prel(b, DPTR(p)), rel(s, 20000));
	cuMemHostUnregister(p + 100);
	hfree(p, 65536);
	CUdeviceptr mg = 0;
	if (HAVE(cuMemAllocManaged(&mg, 70000, CU_MEM_ATTACH_GLOBAL))) {
		TF("managed", cuMemGetAddressRange(&b, &s, mg + 5), "base=%s size=%s", prel(b, mg), rel(s, 70000));
		cuMemFree(mg);
	}
	size_t pitch = 0;
	CUdeviceptr pt = 0;
	REQ(cuMemAllocPitch(&pt, &pitch, 100, 10, 4));
	TF("pitched", cuMemGetAddressRange(&b, &s, pt + pitch * 9), "base=%s size=%s", prel(b, pt), rel(s, pitch * 10));
	cuMemFree(pt);
	CUdeviceptr a = 0;
	if (HAVE(cuMemAllocAsync(&a, 5000, 0))) {
		cuStreamSynchronize(0);
		TF("pool", cuMemGetAddressRange(&b, &s, a + 4999), "base=%s size=%s", prel(b, a), rel(s, 5000));
		cuMemFree(a);
	}
	TNOCTX("no_ctx", cuMemGetAddressRange(&b, &s, d));
	cuMemFree(d);
	T("freed", cuMemGetAddressRange(&b, &s, d));
}

GROUP(range_neighbours)
{
	/* two small allocations never share a range */
	init_ctx();
	CUdeviceptr a = dalloc(300), b = dalloc(300), r1 = 0, r2 = 0;
	size_t s1 = 0, s2 = 0;
	cuMemGetAddressRange(&r1, &s1, a + 299);
	cuMemGetAddressRange(&r2, &s2, b);
	emit("distinct", "a=%s b=%s", prel(r1, a), prel(r2, b));
	T("gap_byte.impl", cuMemGetAddressRange(&r1, &s1, a + 300));
	T("gap_byte_511.impl", cuMemGetAddressRange(&r1, &s1, a + 511));
	cuMemFree(a);
	cuMemFree(b);
}

GROUPALONE(meminfo)
{
	init_ctx();
	size_t f0 = 0, t0 = 0, f1 = 0, t1 = 0, tot = 0;
	TF("plain", cuMemGetInfo(&f0, &t0), "free_nonzero=%d free_le_total=%d", f0 > 0, f0 <= t0);
	cuDeviceTotalMem(&tot, g_dev);
	emit("total_eq_devicetotal", "%d", tot == t0);
	T("null_free", cuMemGetInfo(NULL, &t1));
	T("null_total", cuMemGetInfo(&f1, NULL));
	T("null_both", cuMemGetInfo(NULL, NULL));
	TNOCTX("no_ctx", cuMemGetInfo(&f1, &t1));
	CUdeviceptr d = dalloc(MiB(512));
	cuMemGetInfo(&f1, &t1);
	emit("after_512M", "dropped_ge=%d dropped_lt_1G=%d total_same=%d", f0 - f1 >= MiB(512), f0 - f1 < GiB(1), t0 == t1);
	cuMemFree(d);
	cuMemGetInfo(&f1, &t1);
	emit("after_free", "restored_within_64M=%d", f1 + MiB(64) >= f0);
}

/* the permissions and name of the CPU's mapping at a pointer, from /proc/self/maps */
static const char *maps_of(CUdeviceptr p)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char l[512];
	const char *r = "unmapped";
	while (f && fgets(l, sizeof(l), f)) {
		unsigned long long a, b;
		char pr[8] = "", path[300] = "";
		if (sscanf(l, "%llx-%llx %7s %*s %*s %*s %299[^\n]", &a, &b, pr, path) >= 3 && p >= a && p < b) {
			r = F("%s %s", pr, path[0] ? path : "anonymous");
			break;
		}
	}
	if (f)
		fclose(f);
	return r;
}
GROUP(va_layout)
{
	init_ctx();
	CUdeviceptr d = dalloc(4096), big = dalloc(MiB(8)), m = 0, p = 0, r = 0;
	void *h = NULL, *w = NULL;
	REQ(cuMemAllocHost(&h, 4096));
	REQ(cuMemHostAlloc(&w, 4096, CU_MEMHOSTALLOC_WRITECOMBINED));
	REQ(cuMemAllocManaged(&m, 4096, CU_MEM_ATTACH_GLOBAL));
	REQ(cuMemAllocAsync(&p, 4096, 0));
	cuStreamSynchronize(0);
	REQ(cuMemAddressReserve(&r, MiB(4), 0, 0, 0));
	emit("device_small.impl", "%s", maps_of(d));
	emit("device_large.impl", "%s", maps_of(big));
	emit("pinned.impl", "%s", maps_of(DPTR(h)));
	emit("pinned_wc.impl", "%s", maps_of(DPTR(w)));
	emit("managed.impl", "%s", maps_of(m));
	emit("pool.impl", "%s", maps_of(p));
	emit("vmm_reserved.impl", "%s", maps_of(r));
	emit("below_47_bits", "%d", (d | big | m | p | r) < (1ull << 47));
}
