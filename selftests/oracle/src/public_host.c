// SPDX-License-Identifier: GPL-2.0
/* cuMemAllocHost, cuMemHostAlloc, cuMemFreeHost, cuMemHostGetDevicePointer,
 * cuMemHostGetFlags, cuMemHostRegister, cuMemHostUnregister */
#include "oracle.h"

GROUP(hostalloc_flags)
{
	init_ctx();
	for (unsigned fl = 0; fl < 8; fl++) {
		void *h = NULL;
		unsigned got = 99;
		CUdeviceptr d = 0;
		CUresult r = cuMemHostAlloc(&h, 8192, fl);
		if (r) {
			emit(F("flags_%u", fl), "rc=%s", rcs(r));
			continue;
		}
		CUresult r2 = cuMemHostGetFlags(&got, h);
		CUresult r3 = cuMemHostGetDevicePointer(&d, h, 0);
		fill(h, 8192, fl + 1);
		CUdeviceptr x = dalloc(8192);
		CUresult r4 = cuMemcpyDtoD(x, d ? d : DPTR(h), 8192);
		emit(F("flags_%u", fl), "rc=%s getflags=%s,%u devptr=%s,%s copy=%s %s", rcs(r), rcs(r2), got, rcs(r3),
		     d == DPTR(h) ? "equals_host" : d ? "differs" : "null", rcs(r4), dsame(x, 8192, fl + 1));
		cuMemFree(x);
		T(F("free_%u", fl), cuMemFreeHost(h));
	}
	void *h = NULL;
	T("bad_flag_8", cuMemHostAlloc(&h, 4096, 8));
	T("bad_flag_10", cuMemHostAlloc(&h, 4096, 0x10));
	T("bad_flag_80000000", cuMemHostAlloc(&h, 4096, 0x80000000u));
	T("bad_flag_mix", cuMemHostAlloc(&h, 4096, 0x9));
}

GROUP(hostalloc_errors)
{
	init_ctx();
	void *h = (void *)0x77;
	TF("zero", cuMemHostAlloc(&h, 0, 0), "out=%s", h == (void *)0x77 ? "untouched" : h ? "other" : "null");
	T("null", cuMemHostAlloc(NULL, 4096, 0));
	T("null_zero", cuMemHostAlloc(NULL, 0, 0));
	h = (void *)0x77;
	TF("huge", cuMemHostAlloc(&h, 1ull << 62, 0), "out=%s", h == (void *)0x77 ? "untouched" : h ? "other" : "null");
	T("max", cuMemHostAlloc(&h, ~0ull, 0));
	TNOCTX("no_ctx", cuMemHostAlloc(&h, 4096, 0));
	h = (void *)0x77;
	TF("allochost_zero", cuMemAllocHost(&h, 0), "out=%s", h == (void *)0x77 ? "untouched" : h ? "other" : "null");
	T("allochost_null", cuMemAllocHost(NULL, 4096));
	T("allochost_huge", cuMemAllocHost(&h, 1ull << 62));
	TNOCTX("allochost_no_ctx", cuMemAllocHost(&h, 4096));
}

GROUP(allochost)
{
	static const size_t sz[] = { 1, 100, 4095, 4096, 4097, 65536, 1048576, 5000001 };
	init_ctx();
	for (size_t i = 0; i < sizeof(sz) / sizeof(sz[0]); i++) {
		void *h = NULL;
		size_t n = sz[i], rs = 0;
		CUdeviceptr d = 0, b = 0;
		unsigned fl = 99;
		CUresult r = cuMemAllocHost(&h, n);
		if (r) {
			emit(F("size_%zu", n), "rc=%s", rcs(r));
			continue;
		}
		cuMemHostGetDevicePointer(&d, h, 0);
		CUresult rf = cuMemHostGetFlags(&fl, h);
		cuMemGetAddressRange(&b, &rs, DPTR(h));
		fill(h, n, 7);
		CUdeviceptr x = dalloc(n);
		CUresult w = cuMemcpyHtoD(x, h, n);
		memset(h, 0, n);
		CUresult q = cuMemcpyDtoH(h, x, n);
		emit(F("size_%zu", n), "rc=%s al256=%d dev=%s flags=%s,%u range=%s,%s w=%s r=%s %s", rcs(r),
		     (DPTR(h) & 255) == 0, prel(d, DPTR(h)), rcs(rf), fl, prel(b, DPTR(h)), rel(rs, n), rcs(w), rcs(q),
		     hsame(h, n, 7));
		cuMemFree(x);
		T(F("free_%zu", n), cuMemFreeHost(h));
	}
	uint64_t o = 0;
	void *v[32];
	for (int i = 0; i < 32; i++) {
		v[i] = NULL;
		cuMemAllocHost(&v[i], (size_t)i * 3 + 1);
		o |= DPTR(v[i]);
	}
	emit("minalign.impl", "%s", lowalign(o, 4096));
	for (int i = 0; i < 32; i++)
		cuMemFreeHost(v[i]);
	char *p = NULL;
	REQ(cuMemAllocHost((void **)&p, 65536));
	emit("fresh_memory_zeroed.impl", "%d", allbyte(p, 65536, 0));
	cuMemFreeHost(p);
}

GROUP(freehost_errors)
{
	init_ctx();
	void *h = NULL;
	REQ(cuMemAllocHost(&h, 10000));
	T("null", cuMemFreeHost(NULL));
	T("interior", cuMemFreeHost((char *)h + 64));
	T("interior_page", cuMemFreeHost((char *)h + 4096));
	T("ok", cuMemFreeHost(h));
	T("double", cuMemFreeHost(h));
	void *m = malloc(100);
	T("malloc", cuMemFreeHost(m));
	free(m);
	CUdeviceptr d = dalloc(4096);
	T("device", cuMemFreeHost(HPTR(d)));
	emit("device_alive", "%s", rcs(cuMemsetD8(d, 0, 4096)));
	cuMemFree(d);
	void *p = halloc(8192);
	REQ(cuMemHostRegister(p, 8192, 0));
	T("registered", cuMemFreeHost(p));
	T("registered_unregister", cuMemHostUnregister(p));
	hfree(p, 8192);
	CUdeviceptr mg = 0;
	if (HAVE(cuMemAllocManaged(&mg, 4096, CU_MEM_ATTACH_GLOBAL))) {
		T("managed", cuMemFreeHost(HPTR(mg)));
		cuMemFree(mg);
	}
	REQ(cuMemAllocHost(&h, 4096));
	TNOCTX("no_ctx", cuMemFreeHost(h));
	T("after_no_ctx", cuMemFreeHost(h));
}

GROUP(host_getptr)
{
	init_ctx();
	char *h = NULL;
	CUdeviceptr d = 0;
	unsigned f = 0;
	REQ(cuMemHostAlloc((void **)&h, 20000, CU_MEMHOSTALLOC_DEVICEMAP));
	TF("interior", cuMemHostGetDevicePointer(&d, h + 5000, 0), "dev=%s", prel(d, DPTR(h)));
	TF("last", cuMemHostGetDevicePointer(&d, h + 19999, 0), "dev=%s", prel(d, DPTR(h)));
	T("flags_1", cuMemHostGetDevicePointer(&d, h, 1));
	T("null_out", cuMemHostGetDevicePointer(NULL, h, 0));
	T("null_host", cuMemHostGetDevicePointer(&d, NULL, 0));
	void *m = malloc(64);
	d = 77;
	TF("malloc", cuMemHostGetDevicePointer(&d, m, 0), "out=%s", d == 77 ? "untouched" : d ? "other" : "zero");
	T("flags_malloc", cuMemHostGetFlags(&f, m));
	free(m);
	CUdeviceptr dv = dalloc(4096);
	T("device_ptr", cuMemHostGetDevicePointer(&d, HPTR(dv), 0));
	T("flags_device_ptr", cuMemHostGetFlags(&f, HPTR(dv)));
	cuMemFree(dv);
	CUdeviceptr mg = 0;
	if (HAVE(cuMemAllocManaged(&mg, 4096, CU_MEM_ATTACH_GLOBAL))) {
		TF("managed_ptr", cuMemHostGetDevicePointer(&d, HPTR(mg), 0), "dev=%s", prel(d, mg));
		TF("flags_managed", cuMemHostGetFlags(&f, HPTR(mg)), "f=%u", f);
		cuMemFree(mg);
	}
	f = 99;
	TF("flags_interior", cuMemHostGetFlags(&f, h + 100), "f=%u", f);
	T("flags_null_out", cuMemHostGetFlags(NULL, h));
	T("flags_null_ptr", cuMemHostGetFlags(&f, NULL));
	TNOCTX("no_ctx", cuMemHostGetDevicePointer(&d, h, 0));
	TNOCTX("flags_no_ctx", cuMemHostGetFlags(&f, h));
	cuMemFreeHost(h);
	T("freed", cuMemHostGetDevicePointer(&d, h, 0));
	T("flags_freed", cuMemHostGetFlags(&f, h));
}

GROUP(host_wc)
{
	init_ctx();
	char *h = NULL;
	CUdeviceptr d = 0, b = 0;
	size_t s = 0;
	REQ(cuMemHostAlloc((void **)&h, 16384, CU_MEMHOSTALLOC_WRITECOMBINED | CU_MEMHOSTALLOC_DEVICEMAP));
	TF("devptr", cuMemHostGetDevicePointer(&d, h, 0), "dev=%s", d == DPTR(h) ? "equals_host" : "differs");
	CUdeviceptr d2 = 0;
	cuMemHostGetDevicePointer(&d2, h + 1000, 0);
	emit("devptr_interior", "%s", prel(d2, d));
	fill(h, 16384, 2);
	CUdeviceptr x = dalloc(16384);
	TF("copy_by_host_ptr", cuMemcpyHtoD(x, h, 16384), "%s", dsame(x, 16384, 2));
	fill(h, 16384, 3);
	TF("copy_by_dev_ptr", cuMemcpyDtoD(x, d, 16384), "%s", dsame(x, 16384, 3));
	TF("memset_by_dev_ptr", cuMemsetD8(d, 9, 100), "%d", allbyte(h, 100, 9));
	T("range_by_host_ptr", cuMemGetAddressRange(&b, &s, DPTR(h)));
	TF("range_by_dev_ptr", cuMemGetAddressRange(&b, &s, d), "base=%s size=%s", prel(b, d), rel(s, 16384));
	T("free_by_dev_ptr_when_differs", d == DPTR(h) ? CUDA_SUCCESS : cuMemFreeHost(HPTR(d)));
	T("free", cuMemFreeHost(h));
	cuMemFree(x);
}

GROUP(host_two_ctx)
{
	init_ctx();
	CUcontext c2;
	void *h = NULL, *hp = NULL;
	unsigned f = 0;
	CUdeviceptr d = 0;
	REQ(cuMemHostAlloc(&h, 4096, 0));
	REQ(cuMemHostAlloc(&hp, 4096, CU_MEMHOSTALLOC_PORTABLE));
	REQ(cuCtxCreate(&c2, NULL, 0, g_dev));
	TF("nonportable_flags_in_c2", cuMemHostGetFlags(&f, h), "f=%u", f);
	TF("portable_flags_in_c2", cuMemHostGetFlags(&f, hp), "f=%u", f);
	TF("nonportable_devptr_in_c2", cuMemHostGetDevicePointer(&d, h, 0), "dev=%s", prel(d, DPTR(h)));
	TF("portable_devptr_in_c2", cuMemHostGetDevicePointer(&d, hp, 0), "dev=%s", prel(d, DPTR(hp)));
	T("free_in_c2", cuMemFreeHost(h));
	T("free_portable_in_c2", cuMemFreeHost(hp));
	void *h3 = NULL;
	REQ(cuMemHostAlloc(&h3, 4096, 0));
	cuCtxDestroy(c2);
	cuCtxSetCurrent(g_ctx);
	T("free_after_owner_ctx_destroyed", cuMemFreeHost(h3));
}

GROUP(register_basic)
{
	init_ctx();
	char *p = halloc(MiB(1));
	CUdeviceptr d = 0;
	unsigned f = 99;
	static const struct { const char *n; size_t off, len; unsigned fl; } v[] = {
		{ "page_aligned", 0, 65536, 0 }, { "portable", 0, 65536, 1 }, { "devicemap", 0, 65536, 2 },
		{ "portable_devicemap", 0, 65536, 3 }, { "readonly_flag", 0, 65536, 8 }, { "unaligned_ptr", 13, 10000, 0 },
		{ "one_byte", 4095, 1, 0 }, { "odd_len", 4096, 4097, 0 }, { "whole_1M", 0, 1048576, 0 } };
	fill(p, MiB(1), 11);
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		char *q = p + v[i].off;
		CUresult r = cuMemHostRegister(q, v[i].len, v[i].fl);
		f = 99;
		d = 0;
		CUresult r2 = cuMemHostGetFlags(&f, q), r3 = cuMemHostGetDevicePointer(&d, q, 0);
		CUdeviceptr x = dalloc(v[i].len);
		CUresult r4 = cuMemcpyHtoD(x, q, v[i].len);
		char *t = malloc(v[i].len);
		cuMemcpyDtoH(t, x, v[i].len);
		emit(v[i].n, "rc=%s flags=%s,%u dev=%s,%s copy=%s %s", rcs(r), rcs(r2), f, rcs(r3), prel(d, DPTR(q)),
		     rcs(r4), memcmp(t, q, v[i].len) ? "differs" : "intact");
		free(t);
		cuMemFree(x);
		T(F("%s_unregister", v[i].n), cuMemHostUnregister(q));
	}
	emit("data_kept", "%s", hsame(p, MiB(1), 11));
	T("devptr_after_unregister", cuMemHostGetDevicePointer(&d, p, 0));
	T("flags_after_unregister", cuMemHostGetFlags(&f, p));
	T("reregister", cuMemHostRegister(p, 4096, 0));
	cuMemHostUnregister(p);
	hfree(p, MiB(1));
}

GROUP(register_errors)
{
	init_ctx();
	char *p = halloc(MiB(1));
	memset(p, 1, MiB(1));
	T("zero_size", cuMemHostRegister(p, 0, 0));
	T("null", cuMemHostRegister(NULL, 4096, 0));
	T("null_zero", cuMemHostRegister(NULL, 0, 0));
	T("bad_flag_10", cuMemHostRegister(p, 4096, 0x10));
	T("bad_flag_80000000", cuMemHostRegister(p, 4096, 0x80000000u));
	T("iomemory_on_ram", cuMemHostRegister(p, 4096, CU_MEMHOSTREGISTER_IOMEMORY));
	cuMemHostUnregister(p);
	TNOCTX("no_ctx", cuMemHostRegister(p, 4096, 0));
	REQ(cuMemHostRegister(p + 65536, 65536, 0));
	T("same_again", cuMemHostRegister(p + 65536, 65536, 0));
	T("same_start_shorter", cuMemHostRegister(p + 65536, 4096, 0));
	T("same_start_longer", cuMemHostRegister(p + 65536, 131072, 0));
	T("inside", cuMemHostRegister(p + 69632, 4096, 0));
	T("overlap_left", cuMemHostRegister(p + 61440, 8192, 0));
	T("overlap_right", cuMemHostRegister(p + 126976, 8192, 0));
	T("superset", cuMemHostRegister(p, 262144, 0));
	T("adjacent_right", cuMemHostRegister(p + 131072, 4096, 0));
	T("adjacent_right_unregister", cuMemHostUnregister(p + 131072));
	T("unregister_interior", cuMemHostUnregister(p + 69632));
	T("unregister_interior_byte", cuMemHostUnregister(p + 65537));
	T("unregister_before", cuMemHostUnregister(p + 61440));
	TNOCTX("unregister_no_ctx", cuMemHostUnregister(p + 65536));
	T("unregister_ok", cuMemHostUnregister(p + 65536));
	T("unregister_twice", cuMemHostUnregister(p + 65536));
	T("unregister_null", cuMemHostUnregister(NULL));
	T("unregister_never", cuMemHostUnregister(p));
	void *h = NULL;
	REQ(cuMemAllocHost(&h, 8192));
	T("register_pinned", cuMemHostRegister(h, 4096, 0));
	T("unregister_pinned", cuMemHostUnregister(h));
	T("pinned_freeable", cuMemFreeHost(h));
	CUdeviceptr d = dalloc(65536);
	T("register_device_ptr", cuMemHostRegister(HPTR(d), 4096, 0));
	T("unregister_device_ptr", cuMemHostUnregister(HPTR(d)));
	cuMemFree(d);
	CUdeviceptr mg = 0;
	if (HAVE(cuMemAllocManaged(&mg, 65536, CU_MEM_ATTACH_GLOBAL))) {
		T("register_managed", cuMemHostRegister(HPTR(mg), 4096, 0));
		T("unregister_managed", cuMemHostUnregister(HPTR(mg)));
		cuMemFree(mg);
	}
	T("unmapped_va", cuMemHostRegister((void *)0x10000000000ull, 4096, 0));
	char *q = halloc(12288);
	munmap(q + 4096, 4096);
	T("hole_in_middle", cuMemHostRegister(q, 12288, 0));
	T("hole_first_page_ok", cuMemHostRegister(q, 4096, 0));
	cuMemHostUnregister(q);
	munmap(q, 4096);
	munmap(q + 8192, 4096);
	q = mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	T("prot_none", cuMemHostRegister(q, 4096, 0));
	munmap(q, 8192);
	hfree(p, MiB(1));
}

GROUP(register_same_page)
{
	init_ctx();
	char *p = halloc(16384);
	memset(p, 0, 16384);
	T("first_part", cuMemHostRegister(p, 100, 0));
	T("second_part_same_page", cuMemHostRegister(p + 200, 100, 0));
	T("third_straddles_next_page", cuMemHostRegister(p + 4000, 200, 0));
	CUdeviceptr d = 0;
	T("devptr_between", cuMemHostGetDevicePointer(&d, p + 150, 0));
	T("unreg_second", cuMemHostUnregister(p + 200));
	T("unreg_third", cuMemHostUnregister(p + 4000));
	T("unreg_first", cuMemHostUnregister(p));
	hfree(p, 16384);
}

GROUP(register_readonly)
{
	init_ctx();
	emit("attr_readonly_supported", "%d", dev_attr(CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED));
	char *p = halloc(65536);
	fill(p, 65536, 4);
	mprotect(p, 65536, PROT_READ);
	T("ro_mapping_no_flag", cuMemHostRegister(p, 65536, 0));
	cuMemHostUnregister(p);
	T("ro_mapping_with_flag", cuMemHostRegister(p, 65536, CU_MEMHOSTREGISTER_READ_ONLY));
	CUdeviceptr d = dalloc(65536);
	TF("copy_from_ro", cuMemcpyHtoD(d, p, 65536), "%s", dsame(d, 65536, 4));
	T("unregister", cuMemHostUnregister(p));
	cuMemFree(d);
	hfree(p, 65536);
}

GROUP(register_filemap)
{
	init_ctx();
	char tn[] = "/dev/shm/oracleXXXXXX";
	int fd = mkstemp(tn);
	REQNZ(fd >= 0);
	unlink(tn);
	REQNZ(ftruncate(fd, 65536) == 0);
	char *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	char *q = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	REQNZ(p != MAP_FAILED && q != MAP_FAILED);
	T("shared_shm", cuMemHostRegister(p, 65536, 0));
	T("alias_of_same_pages", cuMemHostRegister(q, 65536, 0));
	CUdeviceptr d = dalloc(65536);
	dfill(d, 65536, 8);
	TF("write_through_first", cuMemcpyDtoH(p, d, 65536), "alias_sees=%s", hsame(q, 65536, 8));
	T("unregister_alias", cuMemHostUnregister(q));
	T("unregister", cuMemHostUnregister(p));
	munmap(p, 65536);
	munmap(q, 65536);
	p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	T("private_shm", cuMemHostRegister(p, 65536, 0));
	T("private_unregister", cuMemHostUnregister(p));
	munmap(p, 65536);
	close(fd);
	cuMemFree(d);
}

GROUP(register_mixed_copy)
{
	/* regions partly registered: documented CUDA_ERROR_INVALID_VALUE */
	init_ctx();
	char *p = halloc(65536);
	fill(p, 65536, 6);
	CUdeviceptr d = dalloc(65536);
	REQ(cuMemHostRegister(p, 8192, 0));
	T("htod_spans_end", cuMemcpyHtoD(d, p, 16384));
	T("htod_starts_outside", cuMemcpyHtoD(d, p + 16384, 4096));
	T("dtoh_spans_end", cuMemcpyDtoH(p, d, 16384));
	T("uva_spans_end", cuMemcpy(d, DPTR(p), 16384));
	CUstream s;
	cuStreamCreate(&s, 0);
	T("htod_async_spans_end", cuMemcpyHtoDAsync(d, p, 16384, s));
	T("htod_inside", cuMemcpyHtoD(d, p, 8192));
	cuStreamSynchronize(s);
	cuMemHostUnregister(p);
	REQ(cuMemHostRegister(p + 8192, 8192, 0));
	cuMemsetD8(d, 0, 65536);
	TF("htod_runs_into_start", cuMemcpyHtoD(d, p, 16384), "%s", dsame(d, 16384, 6));
	T("dtoh_runs_into_start", cuMemcpyDtoH(p, d, 16384));
	T("async_runs_into_start", cuMemcpyHtoDAsync(d, p, 16384, s));
	cuStreamSynchronize(s);
	cuMemHostUnregister(p + 8192);
	fill(p, 65536, 6);
	REQ(cuMemHostRegister(p, 8192, 0));
	REQ(cuMemHostRegister(p + 8192, 8192, 0));
	cuMemsetD8(d, 0, 65536);
	TF("htod_two_adjacent_registrations", cuMemcpyHtoD(d, p, 16384), "%s", dsame(d, 16384, 6));
	cuMemHostUnregister(p);
	cuMemHostUnregister(p + 8192);
	cuMemFree(d);
	hfree(p, 65536);
}

GROUP(host_free_sync)
{
	init_ctx();
	CUstream s;
	gate_t g;
	void *h = NULL, *h2 = NULL;
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	REQ(cuMemAllocHost(&h, 65536));
	REQ(cuMemAllocHost(&h2, 65536));
	CUdeviceptr d = dalloc(65536);
	REQ(gate_close(&g, s));
	cuMemcpyHtoDAsync(d, h, 65536, s);
	BLOCKS("freehost_in_use", &g, cuMemFreeHost(h));
	cuStreamSynchronize(s);
	gate_done(&g);
	void *p = halloc(65536);
	memset(p, 0, 65536);
	REQ(cuMemHostRegister(p, 65536, 0));
	REQ(gate_close(&g, s));
	cuMemcpyHtoDAsync(d, h2, 65536, s);
	BLOCKS("unregister_while_busy", &g, cuMemHostUnregister(p));
	cuStreamSynchronize(s);
	gate_done(&g);
	REQ(gate_close(&g, s));
	BLOCKS("register_while_busy", &g, cuMemHostRegister(p, 65536, 0));
	cuStreamSynchronize(s);
	gate_done(&g);
	cuMemHostUnregister(p);
	cuMemFreeHost(h2);
	hfree(p, 65536);
	cuMemFree(d);
	cuStreamDestroy(s);
}
