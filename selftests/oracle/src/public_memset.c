// SPDX-License-Identifier: GPL-2.0
/* Cases of cuMemsetD8/16/32, D2D8/16/32 and the async forms */
#include "oracle.h"

GROUP(memset_1d)
{
	static const size_t n8[] = { 1, 2, 3, 15, 16, 17, 100, 4095, 4096, 65537, 1048576 };
	init_ctx();
	CUdeviceptr d = dalloc(MiB(5));
	unsigned char *h = malloc(MiB(5));
	for (size_t i = 0; i < sizeof(n8) / sizeof(n8[0]); i++) {
		size_t n = n8[i];
		cuMemsetD8(d, 0xee, MiB(5));
		CUresult r = cuMemsetD8(d + 3, 0x17, n);
		cuMemcpyDtoH(h, d, MiB(5));
		emit(F("d8_%zu", n), "rc=%s before=%d set=%d after=%d", rcs(r), allbyte(h, 3, 0xee), allbyte(h + 3, n, 0x17),
		     allbyte(h + 3 + n, 100, 0xee));
		cuMemsetD8(d, 0xee, MiB(5));
		r = cuMemsetD16(d + 2, 0x1234, n);
		cuMemcpyDtoH(h, d, MiB(5));
		int ok = 1;
		for (size_t k = 0; k < n; k++)
			ok &= h[2 + 2 * k] == 0x34 && h[3 + 2 * k] == 0x12;
		emit(F("d16_%zu", n), "rc=%s before=%d set=%d after=%d", rcs(r), allbyte(h, 2, 0xee), ok,
		     allbyte(h + 2 + 2 * n, 100, 0xee));
		cuMemsetD8(d, 0xee, MiB(5));
		r = cuMemsetD32(d + 4, 0xa1b2c3d4, n);
		cuMemcpyDtoH(h, d, MiB(5));
		ok = 1;
		for (size_t k = 0; k < n; k++)
			ok &= h[4 + 4 * k] == 0xd4 && h[5 + 4 * k] == 0xc3 && h[6 + 4 * k] == 0xb2 && h[7 + 4 * k] == 0xa1;
		emit(F("d32_%zu", n), "rc=%s before=%d set=%d after=%d", rcs(r), allbyte(h, 4, 0xee), ok,
		     allbyte(h + 4 + 4 * n, 100, 0xee));
	}
}

GROUP(memset_2d)
{
	static const struct { size_t pitch, w, h, off; } v[] = {
		{ 512, 100, 10, 0 }, { 512, 128, 4, 0 }, { 128, 32, 7, 4 }, { 100, 25, 9, 0 }, { 1024, 1, 100, 8 }, { 64, 16, 1, 0 } };
	init_ctx();
	CUdeviceptr d = dalloc(MiB(1));
	unsigned char *h = malloc(MiB(1)), *w = malloc(MiB(1));
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		for (int e = 1; e <= 4; e *= 2) {
			memset(w, 0x77, MiB(1));
			cuMemsetD8(d, 0x77, MiB(1));
			CUresult r = e == 1 ? cuMemsetD2D8(d + v[i].off, v[i].pitch, 0xab, v[i].w, v[i].h)
				   : e == 2 ? cuMemsetD2D16(d + v[i].off, v[i].pitch, 0xabab, v[i].w, v[i].h)
					    : cuMemsetD2D32(d + v[i].off, v[i].pitch, 0xabababab, v[i].w, v[i].h);
			for (size_t y = 0; y < v[i].h; y++)
				memset(w + v[i].off + y * v[i].pitch, 0xab, v[i].w * (size_t)e);
			cuMemcpyDtoH(h, d, MiB(1));
			emit(F("d2d%d_p%zu_w%zu_h%zu", e * 8, v[i].pitch, v[i].w, v[i].h), "rc=%s exact=%d", rcs(r), !memcmp(h, w, MiB(1)));
		}
}

GROUP(memset_errors)
{
	init_ctx();
	CUdeviceptr d = dalloc(65536);
	T("d8_zero", cuMemsetD8(d, 1, 0));
	T("d16_zero", cuMemsetD16(d, 1, 0));
	T("d32_zero", cuMemsetD32(d, 1, 0));
	T("d8_null", cuMemsetD8(0, 1, 16));
	T("d8_null_zero", cuMemsetD8(0, 1, 0));
	T("d32_null", cuMemsetD32(0, 1, 16));
	T("d16_odd", cuMemsetD16(d + 1, 1, 16));
	T("d32_off1", cuMemsetD32(d + 1, 1, 16));
	T("d32_off2", cuMemsetD32(d + 2, 1, 16));
	T("d8_past_end", cuMemsetD8(d, 1, 65537 + MiB(2)));
	T("d8_end_plus_1", cuMemsetD8(d, 1, 65537));
	T("d16_past_end", cuMemsetD16(d, 1, 32769));
	T("d32_past_end", cuMemsetD32(d, 1, 16385));
	T("d32_overflow", cuMemsetD32(d, 1, (1ull << 62) + 1));
	T("d2d8_width_0", cuMemsetD2D8(d, 512, 1, 0, 4));
	T("d2d8_height_0", cuMemsetD2D8(d, 512, 1, 4, 0));
	T("d2d8_null", cuMemsetD2D8(0, 512, 1, 4, 4));
	T("d2d8_pitch_lt_width", cuMemsetD2D8(d, 64, 1, 100, 4));
	T("d2d8_pitch_0_h4", cuMemsetD2D8(d, 0, 1, 100, 4));
	T("d2d8_pitch_0_h1", cuMemsetD2D8(d, 0, 1, 100, 1));
	T("d2d16_pitch_odd", cuMemsetD2D16(d, 513, 1, 4, 4));
	T("d2d16_ptr_odd", cuMemsetD2D16(d + 1, 512, 1, 4, 4));
	T("d2d32_pitch_514", cuMemsetD2D32(d, 514, 1, 4, 4));
	T("d2d32_ptr_2", cuMemsetD2D32(d + 2, 512, 1, 4, 4));
	T("d2d32_pitch_lt_width", cuMemsetD2D32(d, 64, 1, 17, 4));
	T("d2d8_past_end", cuMemsetD2D8(d, 1024, 1, 1024, 65));
	T("d2d8_last_row_short", cuMemsetD2D8(d + 24, 1024, 1, 1000, 64));
	T("d2d8_past_end_2M", cuMemsetD2D8(d, 65536, 1, 65536, 64));
	TNOCTX("d8_no_ctx", cuMemsetD8(d, 1, 16));
	TNOCTX("d16_no_ctx", cuMemsetD16(d, 1, 16));
	TNOCTX("d32_no_ctx", cuMemsetD32(d, 1, 16));
	TNOCTX("d2d8_no_ctx", cuMemsetD2D8(d, 64, 1, 4, 4));
	TNOCTX("d2d16_no_ctx", cuMemsetD2D16(d, 64, 1, 4, 4));
	TNOCTX("d2d32_no_ctx", cuMemsetD2D32(d, 64, 1, 4, 4));
	T("ctx_fine", cuCtxSynchronize());
}

GROUP(memset_targets)
{
	init_ctx();
	unsigned char *h = NULL, *w = NULL;
	CUdeviceptr d = 0;
	REQ(cuMemAllocHost((void **)&h, 8192));
	memset(h, 0, 8192);
	TF("pinned_host", cuMemsetD8(DPTR(h), 0x31, 8192), "%d", allbyte(h, 8192, 0x31));
	TF("pinned_host_d32", cuMemsetD32(DPTR(h), 0x32323232, 2048), "%d", allbyte(h, 8192, 0x32));
	REQ(cuMemHostAlloc((void **)&w, 8192, CU_MEMHOSTALLOC_WRITECOMBINED | CU_MEMHOSTALLOC_DEVICEMAP));
	cuMemHostGetDevicePointer(&d, w, 0);
	CUresult r = cuMemsetD8(d, 0x33, 8192);
	cuCtxSynchronize();
	emit("wc_devptr", "rc=%s %d", rcs(r), allbyte(w, 8192, 0x33));
	unsigned char *p = halloc(8192);
	REQ(cuMemHostRegister(p, 8192, 0));
	r = cuMemsetD8(DPTR(p), 0x34, 8192);
	cuCtxSynchronize();
	emit("registered", "rc=%s %d", rcs(r), allbyte(p, 8192, 0x34));
	cuMemHostUnregister(p);
	CUdeviceptr m = 0;
	REQ(cuMemAllocManaged(&m, 8192, CU_MEM_ATTACH_GLOBAL));
	r = cuMemsetD16(m, 0x3535, 4096);
	cuCtxSynchronize();
	emit("managed", "rc=%s %d", rcs(r), allbyte(HPTR(m), 8192, 0x35));
	REQ(cuMemAllocAsync(&d, 8192, 0));
	r = cuMemsetD8Async(d, 0x36, 8192, 0);
	emit("pool", "rc=%s %s", rcs(r), dbyte(d, 8192, 0x36));
	cuMemFreeAsync(d, 0);
}

GROUP(memset_async)
{
	init_ctx();
	CUstream s;
	gate_t g;
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	CUdeviceptr d = dalloc(65536);
	cuMemsetD8(d, 0, 65536);
	cuCtxSynchronize();
	REQ(gate_close(&g, s));
	CUresult a = cuMemsetD8Async(d, 1, 1000, s), b = cuMemsetD16Async(d + 1000, 0x0101, 500, s),
		 c = cuMemsetD32Async(d + 2000, 0x01010101, 250, s), e = cuMemsetD2D8Async(d + 3000, 100, 1, 100, 10, s),
		 f = cuMemsetD2D16Async(d + 4000, 100, 0x0101, 50, 10, s), h = cuMemsetD2D32Async(d + 5000, 100, 0x01010101, 25, 10, s);
	emit("queued", "rc=%s,%s,%s,%s,%s,%s query=%s", rcs(a), rcs(b), rcs(c), rcs(e), rcs(f), rcs(h), rcs(cuStreamQuery(s)));
	emit("nothing_ran_before_gate", "%s", dbyte(d, 6000, 0));
	gate_open(&g);
	cuStreamSynchronize(s);
	emit("all_ran_after_gate", "%s rest=%s", dbyte(d, 6000, 1), dbyte(d + 6000, 59536, 0));
	gate_done(&g);
	T("d8_null", cuMemsetD8Async(0, 1, 16, s));
	T("d16_odd", cuMemsetD16Async(d + 1, 1, 16, s));
	T("d32_off2", cuMemsetD32Async(d + 2, 1, 16, s));
	T("d8_zero", cuMemsetD8Async(d, 1, 0, s));
	T("d2d8_pitch_lt_width", cuMemsetD2D8Async(d, 64, 1, 100, 4, s));
	T("d2d16_pitch_odd", cuMemsetD2D16Async(d, 513, 1, 4, 4, s));
	T("d2d32_pitch_514", cuMemsetD2D32Async(d, 514, 1, 4, 4, s));
	T("d2d32_height_0", cuMemsetD2D32Async(d, 512, 1, 4, 0, s));
	T("d8_null_stream", cuMemsetD8Async(d, 2, 16, 0));
	T("d8_legacy", cuMemsetD8Async(d, 2, 16, CU_STREAM_LEGACY));
	T("d8_per_thread", cuMemsetD8Async(d, 2, 16, CU_STREAM_PER_THREAD));
	TNOCTX("d8_no_ctx_null_stream", cuMemsetD8Async(d, 2, 16, 0));
	TNOCTX("d8_no_ctx_own_stream", cuMemsetD8Async(d, 2, 16, s));
	TNOCTX("d2d32_no_ctx_own_stream", cuMemsetD2D32Async(d, 512, 2, 4, 4, s));
	cuStreamSynchronize(s);
	REQ(gate_close(&g, s));
	BLOCKS("sync_memset_device_returns_early", &g, cuMemsetD8(d, 3, 4096));
	cuStreamSynchronize(s);
	gate_done(&g);
}

static CUstream dead_stream(void) { CUstream s = NULL; cuStreamCreate(&s, 0); cuStreamDestroy(s); return s; }
static char hbuf[4096];
RISKY(memset_garbage, cuMemsetD8(0x10000, 1, 16))
RISKY(memset_pageable, cuMemsetD8(DPTR(hbuf), 1, 16))
RISKY(memset_freed, cuMemsetD8(d, 1, 16), CUdeviceptr d = dalloc(MiB(4)); cuMemFree(d))
RISKY(memset_destroyed_stream, cuMemsetD8Async(d, 1, 16, s), CUdeviceptr d = dalloc(4096); CUstream s = dead_stream())
