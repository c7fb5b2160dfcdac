// SPDX-License-Identifier: GPL-2.0
/* Cases of linear copies: cuMemcpy*, HtoD/DtoH/DtoD, async forms, peer forms */
#include "oracle.h"

GROUP(copy_linear)
{
	static const size_t sz[] = { 1, 2, 3, 7, 63, 64, 100, 4095, 4096, 65536, 65537, 1048576, 3000001, 16777216 };
	init_ctx();
	CUdeviceptr a = dalloc(MiB(17)), b = dalloc(MiB(17));
	char *h = malloc(MiB(17)), *r = malloc(MiB(17));
	void *ph = NULL, *pr = NULL;
	REQ(cuMemAllocHost(&ph, MiB(17)));
	REQ(cuMemAllocHost(&pr, MiB(17)));
	for (size_t i = 0; i < sizeof(sz) / sizeof(sz[0]); i++) {
		size_t n = sz[i];
		fill(h, n, (unsigned)i);
		memset(r, 0, n);
		CUresult r1 = cuMemcpyHtoD(a, h, n), r2 = cuMemcpyDtoD(b, a, n), r3 = cuMemcpyDtoH(r, b, n);
		emit(F("pageable_%zu", n), "rc=%s,%s,%s %s", rcs(r1), rcs(r2), rcs(r3), hsame(r, n, (unsigned)i));
		fill(ph, n, (unsigned)i + 50);
		memset(pr, 0, n);
		r1 = cuMemcpy(a, DPTR(ph), n);
		r2 = cuMemcpy(b, a, n);
		r3 = cuMemcpy(DPTR(pr), b, n);
		emit(F("uva_pinned_%zu", n), "rc=%s,%s,%s %s", rcs(r1), rcs(r2), rcs(r3), hsame(pr, n, (unsigned)i + 50));
	}
	memset(r, 0, 5000);
	fill(h, 5000, 99);
	TF("uva_host_to_host_pageable", cuMemcpy(DPTR(r), DPTR(h), 5000), "%s", hsame(r, 5000, 99));
	memset(pr, 0, 5000);
	TF("uva_host_to_host_pinned", cuMemcpy(DPTR(pr), DPTR(h), 5000), "%s", hsame(pr, 5000, 99));
}

GROUP(copy_offsets)
{
	init_ctx();
	CUdeviceptr a = dalloc(70000);
	char *h = malloc(70000), *r = malloc(70000);
	for (int so = 0; so < 8; so += 3)
		for (int d = 1; d < 16; d += 5)
			for (int n = 1; n < 5000; n = n * 7 + 2) {
				memset(h, 0xcc, 70000);
				cuMemsetD8(a, 0x11, 70000);
				fill(h + so, (size_t)n, 5);
				CUresult r1 = cuMemcpyHtoD(a + d, h + so, (size_t)n);
				memset(r, 0, 70000);
				CUresult r2 = cuMemcpyDtoH(r, a, 70000);
				emit(F("s%d_d%d_n%d", so, d, n), "rc=%s,%s before=%d data=%s after=%d", rcs(r1), rcs(r2),
				     allbyte(r, (size_t)d, 0x11), hsame(r + d, (size_t)n, 5), allbyte(r + d + n, 64, 0x11));
			}
}

GROUP(copy_errors)
{
	init_ctx();
	CUdeviceptr a = dalloc(65536), b = dalloc(65536);
	char *h = malloc(MiB(4));
	memset(h, 1, MiB(4));
	dfill(a, 65536, 1);
	T("htod_zero", cuMemcpyHtoD(a, h, 0));
	T("dtoh_zero", cuMemcpyDtoH(h, a, 0));
	T("dtod_zero", cuMemcpyDtoD(b, a, 0));
	T("uva_zero", cuMemcpy(b, a, 0));
	T("htod_zero_null", cuMemcpyHtoD(0, NULL, 0));
	T("htod_null_dst", cuMemcpyHtoD(0, h, 16));
	T("htod_null_src", cuMemcpyHtoD(a, NULL, 16));
	T("dtoh_null_dst", cuMemcpyDtoH(NULL, a, 16));
	T("dtoh_null_src", cuMemcpyDtoH(h, 0, 16));
	T("dtod_null_dst", cuMemcpyDtoD(0, a, 16));
	T("dtod_null_src", cuMemcpyDtoD(b, 0, 16));
	T("uva_null", cuMemcpy(0, a, 16));
	T("htod_past_end", cuMemcpyHtoD(a, h, 65537 + MiB(2)));
	T("htod_start_past_end", cuMemcpyHtoD(a + MiB(64), h, 16));
	T("dtoh_past_end", cuMemcpyDtoH(h, a, 65536 + MiB(3)));
	T("dtod_dst_past_end", cuMemcpyDtoD(b + 65000, a, 65536));
	T("dtod_src_past_end", cuMemcpyDtoD(b, a + 65000, 65536));
	T("htod_dev_as_src", cuMemcpyHtoD(b, HPTR(a), 4096));
	emit("htod_dev_as_src_data", "%s", dsame(b, 4096, 1));
	cuMemsetD8(b, 0, 65536);
	T("dtoh_dev_as_dst", cuMemcpyDtoH(HPTR(b), a, 4096));
	emit("dtoh_dev_as_dst_data", "%s", dsame(b, 4096, 1));
	void *ph = NULL;
	REQ(cuMemAllocHost(&ph, 65536));
	fill(ph, 65536, 3);
	TF("dtod_pinned_src", cuMemcpyDtoD(b, DPTR(ph), 65536), "%s", dsame(b, 65536, 3));
	TNOCTX("htod_no_ctx", cuMemcpyHtoD(a, h, 16));
	TNOCTX("dtoh_no_ctx", cuMemcpyDtoH(h, a, 16));
	TNOCTX("dtod_no_ctx", cuMemcpyDtoD(b, a, 16));
	TNOCTX("uva_no_ctx", cuMemcpy(b, a, 16));
	TNOCTX("htod_zero_no_ctx", cuMemcpyHtoD(a, h, 0));
	emit("ctx_still_fine", "%s", rcs(cuCtxSynchronize()));
}

GROUP(copy_overlap)
{
	init_ctx();
	CUdeviceptr a = dalloc(65536);
	dfill(a, 65536, 4);
	T("same_ptr", cuMemcpyDtoD(a, a, 4096));
	emit("same_ptr_data", "%s", dsame(a, 65536, 4));
	T("forward_overlap_rc", cuMemcpyDtoD(a + 64, a, 4096));
	T("backward_overlap_rc", cuMemcpyDtoD(a, a + 64, 4096));
	CUdeviceptr big = dalloc(MiB(4)), other = dalloc(MiB(4));
	T("two_allocations_in_one_copy", cuMemcpyDtoD(big, other, MiB(4) + 1));
}

GROUP(copy_async)
{
	init_ctx();
	CUstream s, t;
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	REQ(cuStreamCreate(&t, CU_STREAM_DEFAULT));
	CUstream st[] = { s, t, 0, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD };
	static const char *sn[] = { "nonblocking", "blocking", "null", "legacy", "per_thread" };
	CUdeviceptr a = dalloc(MiB(2)), b = dalloc(MiB(2));
	char *h = NULL, *r = NULL;
	REQ(cuMemAllocHost((void **)&h, MiB(2)));
	REQ(cuMemAllocHost((void **)&r, MiB(2)));
	for (int i = 0; i < 5; i++) {
		fill(h, MiB(2), (unsigned)i + 20);
		memset(r, 0, MiB(2));
		CUresult r1 = cuMemcpyHtoDAsync(a, h, MiB(2), st[i]);
		CUresult r2 = cuMemcpyDtoDAsync(b, a, MiB(2), st[i]);
		CUresult r3 = cuMemcpyDtoHAsync(r, b, MiB(2), st[i]);
		CUresult r4 = cuStreamSynchronize(st[i]);
		emit(F("chain_%s", sn[i]), "rc=%s,%s,%s,%s %s", rcs(r1), rcs(r2), rcs(r3), rcs(r4),
		     hsame(r, MiB(2), (unsigned)i + 20));
		memset(r, 0, 4096);
		r1 = cuMemcpyAsync(a, DPTR(h), 4096, st[i]);
		r2 = cuMemcpyAsync(b, a, 4096, st[i]);
		r3 = cuMemcpyAsync(DPTR(r), b, 4096, st[i]);
		r4 = cuStreamSynchronize(st[i]);
		emit(F("uva_chain_%s", sn[i]), "rc=%s,%s,%s,%s %s", rcs(r1), rcs(r2), rcs(r3), rcs(r4),
		     hsame(r, 4096, (unsigned)i + 20));
	}
	char *pg = malloc(MiB(2)), *pq = malloc(MiB(2));
	fill(pg, MiB(2), 31);
	CUresult r1 = cuMemcpyHtoDAsync(a, pg, MiB(2), s), r2 = cuMemcpyDtoHAsync(pq, a, MiB(2), s);
	cuStreamSynchronize(s);
	emit("pageable_chain", "rc=%s,%s %s", rcs(r1), rcs(r2), hsame(pq, MiB(2), 31));
	T("htod_zero", cuMemcpyHtoDAsync(a, h, 0, s));
	T("htod_null_src", cuMemcpyHtoDAsync(a, NULL, 16, s));
	T("htod_null_dst", cuMemcpyHtoDAsync(0, h, 16, s));
	T("dtoh_null_dst", cuMemcpyDtoHAsync(NULL, a, 16, s));
	T("dtoh_null_src", cuMemcpyDtoHAsync(h, 0, 16, s));
	T("dtod_null_src", cuMemcpyDtoDAsync(a, 0, 16, s));
	T("uva_null_dst", cuMemcpyAsync(0, a, 16, s));
	T("uva_zero", cuMemcpyAsync(b, a, 0, s));
	T("dtod_past_end", cuMemcpyDtoDAsync(b, a, MiB(2) + 1, s));
	T("sync_after_errors", cuStreamSynchronize(s));
	TNOCTX("htod_no_ctx_own_stream", cuMemcpyHtoDAsync(a, h, 16, s));
	TNOCTX("dtod_no_ctx_null_stream", cuMemcpyDtoDAsync(a, b, 16, 0));
	TNOCTX("dtoh_no_ctx_null_stream", cuMemcpyDtoHAsync(h, b, 16, 0));
	TNOCTX("uva_no_ctx_null_stream", cuMemcpyAsync(a, b, 16, 0));
}

GROUP(copy_order)
{
	/* nothing after the gate may run before it opens */
	init_ctx();
	CUstream s, u;
	gate_t g;
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	REQ(cuStreamCreate(&u, CU_STREAM_NON_BLOCKING));
	char *h = NULL, *r = NULL;
	REQ(cuMemAllocHost((void **)&h, 65536));
	REQ(cuMemAllocHost((void **)&r, 65536));
	CUdeviceptr a = dalloc(65536);
	cuMemsetD8(a, 0, 65536);
	memset(h, 1, 65536);
	memset(r, 0x55, 65536);
	cuCtxSynchronize();
	REQ(gate_close(&g, s));
	CUresult r1 = cuMemcpyHtoDAsync(a, h, 65536, s), r2 = cuMemcpyDtoHAsync(r, a, 65536, s);
	usleep(20000);
	emit("gated_not_started", "rc=%s,%s query=%s dst_untouched=%d", rcs(r1), rcs(r2), rcs(cuStreamQuery(s)),
	     allbyte(r, 65536, 0x55));
	emit("other_stream_runs", "%s", rcs(cuMemcpyDtoHAsync(h + 32768, a, 100, u)));
	emit("other_stream_sync", "%s old_value=%d", rcs(cuStreamSynchronize(u)), allbyte(h + 32768, 100, 0));
	memset(h, 2, 65536);          /* pinned source is read when the copy runs */
	gate_open(&g);
	cuStreamSynchronize(s);
	emit("pinned_source_read_late", "sees_new_value=%d", allbyte(r, 65536, 2));
	emit("query_after", "%s", rcs(cuStreamQuery(s)));
	gate_done(&g);
	/* pageable source up to 64 KiB is staged at call time */
	char *pg = malloc(MiB(1));
	memset(pg, 7, MiB(1));
	REQ(gate_close(&g, s));
	BLOCKS("pageable_htod_4K_gated", &g, cuMemcpyHtoDAsync(a, pg, 4096, s));
	memset(pg, 8, MiB(1));
	cuStreamSynchronize(s);
	emit("pageable_htod_4K_value", "old=%d new=%d", !strcmp(dbyte(a, 4096, 7), "all"), !strcmp(dbyte(a, 4096, 8), "all"));
	gate_done(&g);
	REQ(gate_close(&g, s));
	BLOCKS("pageable_dtoh_4K_gated", &g, cuMemcpyDtoHAsync(pg, a, 4096, s));
	cuStreamSynchronize(s);
	gate_done(&g);
	REQ(gate_close(&g, s));
	BLOCKS("pageable_htod_64K_gated", &g, cuMemcpyHtoDAsync(a, pg, 65536, s));
	cuStreamSynchronize(s);
	gate_done(&g);
	CUdeviceptr big = dalloc(MiB(1));
	REQ(gate_close(&g, s));
	BLOCKS("pageable_htod_64K_plus_1_gated", &g, cuMemcpyHtoDAsync(big, pg, 65537, s));
	cuStreamSynchronize(s);
	gate_done(&g);
	REQ(gate_close(&g, s));
	memset(pg, 7, MiB(1));
	BLOCKS("pageable_htod_1M_gated", &g, cuMemcpyHtoDAsync(big, pg, MiB(1), s));
	memset(pg, 8, MiB(1));
	cuStreamSynchronize(s);
	emit("pageable_htod_1M_value", "old=%d new=%d", !strcmp(dbyte(big, MiB(1), 7), "all"), !strcmp(dbyte(big, MiB(1), 8), "all"));
	gate_done(&g);
	REQ(gate_close(&g, s));
	BLOCKS("pinned_htod_1M_gated", &g, cuMemcpyHtoDAsync(a, h, 65536, s));
	cuStreamSynchronize(s);
	gate_done(&g);
	REQ(gate_close(&g, s));
	BLOCKS("sync_htod_other_stream_busy", &g, cuMemcpyHtoD(a, h, 4096));
	cuStreamSynchronize(s);
	gate_done(&g);
	CUstream bs;
	REQ(cuStreamCreate(&bs, CU_STREAM_DEFAULT));
	REQ(gate_close(&g, bs));
	BLOCKS("sync_htod_pinned_blocking_stream_busy", &g, cuMemcpyHtoD(a, h, 4096));
	cuCtxSynchronize();
	gate_done(&g);
	REQ(gate_close(&g, bs));
	BLOCKS("sync_dtod_blocking_stream_busy", &g, cuMemcpyDtoD(a, a + 32768, 4096));
	cuCtxSynchronize();
	gate_done(&g);
	REQ(gate_close(&g, bs));
	BLOCKS("sync_htod_pageable_4K_blocking_stream_busy", &g, cuMemcpyHtoD(a, pg, 4096));
	cuCtxSynchronize();
	gate_done(&g);
	REQ(gate_close(&g, s));
	BLOCKS("dtod_sync_api_other_stream_busy", &g, cuMemcpyDtoD(a, a + 32768, 4096));
	cuStreamSynchronize(s);
	gate_done(&g);
}

GROUP(copy_legacy_stream)
{
	/* the NULL stream orders against blocking streams, not against non-blocking ones */
	init_ctx();
	CUstream b, n;
	gate_t g;
	REQ(cuStreamCreate(&b, CU_STREAM_DEFAULT));
	REQ(cuStreamCreate(&n, CU_STREAM_NON_BLOCKING));
	CUdeviceptr a = dalloc(4096);
	char *h = NULL;
	REQ(cuMemAllocHost((void **)&h, 4096));
	cuCtxSynchronize();
	REQ(gate_close(&g, b));
	cuMemcpyDtoHAsync(h, a, 64, 0);
	usleep(20000);
	emit("null_waits_for_blocking", "%s", rcs(cuStreamQuery(0)));
	emit("per_thread_query", "%s", rcs(cuStreamQuery(CU_STREAM_PER_THREAD)));
	emit("nonblocking_free", "%s", rcs(cuStreamQuery(n)));
	gate_open(&g);
	cuStreamSynchronize(0);
	gate_done(&g);
	REQ(gate_close(&g, n));
	cuMemcpyDtoHAsync(h, a, 64, 0);
	T("null_ignores_nonblocking", cuStreamSynchronize(0));
	emit("nonblocking_still_gated", "%s", rcs(cuStreamQuery(n)));
	gate_open(&g);
	cuStreamSynchronize(n);
	gate_done(&g);
	REQ(gate_close(&g, 0));
	cuMemcpyDtoHAsync(h, a, 64, b);
	usleep(20000);
	emit("blocking_waits_for_null", "%s", rcs(cuStreamQuery(b)));
	cuMemcpyDtoHAsync(h, a, 64, n);
	T("nonblocking_ignores_null", cuStreamSynchronize(n));
	gate_open(&g);
	cuCtxSynchronize();
	gate_done(&g);
}

GROUP(copy_peer)
{
	init_ctx();
	CUcontext c2;
	CUdeviceptr a = dalloc(65536), b = 0;
	CUstream s;
	REQ(cuStreamCreate(&s, 0));
	REQ(cuCtxCreate(&c2, NULL, 0, g_dev));
	b = dalloc(65536);
	cuCtxSetCurrent(g_ctx);
	dfill(a, 65536, 8);
	cuMemsetD8(b, 0, 65536);
	TF("two_ctx", cuMemcpyPeer(b, c2, a, g_ctx, 65536), "%s", dsame(b, 65536, 8));
	cuMemsetD8(b, 0, 65536);
	TF("same_ctx", cuMemcpyPeer(b, g_ctx, a, g_ctx, 65536), "%s", dsame(b, 65536, 8));
	cuMemsetD8(b, 0, 65536);
	T("async", cuMemcpyPeerAsync(b, c2, a, g_ctx, 65536, s));
	cuStreamSynchronize(s);
	emit("async_data", "%s", dsame(b, 65536, 8));
	T("zero", cuMemcpyPeer(b, c2, a, g_ctx, 0));
	T("null_dst_ctx", cuMemcpyPeer(b, NULL, a, g_ctx, 64));
	T("null_src_ctx", cuMemcpyPeer(b, c2, a, NULL, 64));
	T("null_dst", cuMemcpyPeer(0, c2, a, g_ctx, 64));
	T("null_src", cuMemcpyPeer(b, c2, 0, g_ctx, 64));
	T("past_end", cuMemcpyPeer(b, c2, a, g_ctx, 65537 + MiB(2)));
	T("async_null_ctx", cuMemcpyPeerAsync(b, NULL, a, NULL, 64, s));
	T("async_null_dst", cuMemcpyPeerAsync(0, c2, a, g_ctx, 64, s));
	T("async_zero", cuMemcpyPeerAsync(b, c2, a, g_ctx, 0, s));
	TNOCTX("no_ctx", cuMemcpyPeer(b, c2, a, g_ctx, 64));
	void *h = NULL;
	REQ(cuMemAllocHost(&h, 4096));
	T("host_src", cuMemcpyPeer(b, c2, DPTR(h), g_ctx, 64));
	cuCtxDestroy(c2);
}

GROUP(copy_other_ctx_stream)
{
	init_ctx();
	CUcontext c2;
	CUstream s2;
	CUdeviceptr a = dalloc(4096), b = dalloc(4096);
	REQ(cuCtxCreate(&c2, NULL, 0, g_dev));
	REQ(cuStreamCreate(&s2, 0));
	cuCtxSetCurrent(g_ctx);
	dfill(a, 4096, 2);
	T("stream_of_other_ctx", cuMemcpyDtoDAsync(b, a, 4096, s2));
	T("sync_stream_of_other_ctx", cuStreamSynchronize(s2));
	emit("data", "%s", dsame(b, 4096, 2));
	T("memset_stream_of_other_ctx", cuMemsetD8Async(b, 0, 16, s2));
	CUcontext q = NULL;
	TF("stream_getctx", cuStreamGetCtx(s2, &q), "is_c2=%d", q == c2);
	cuCtxDestroy(c2);
}

static CUdeviceptr dev4k(void) { CUdeviceptr d = dalloc(4096); dfill(d, 4096, 1); return d; }
static CUdeviceptr freed4k(void) { CUdeviceptr d = dalloc(4096); cuMemFree(d); return d; }
static CUdeviceptr freed8m(void) { CUdeviceptr d = dalloc(MiB(8)); cuMemFree(d); return d; }
static CUstream dead_stream(void) { CUstream s = NULL; cuStreamCreate(&s, 0); cuStreamDestroy(s); return s; }
static char hbuf[8192];

RISKY(htod_garbage_dst, cuMemcpyHtoD(0x1000, hbuf, 16))
RISKY(dtoh_garbage_src, cuMemcpyDtoH(hbuf, 0x7fff12340000ull, 16))
RISKY(dtod_garbage_both, cuMemcpyDtoD(0x5000, 0x9000, 16))
RISKY(htod_pageable_host_as_dst, cuMemcpyHtoD(DPTR(hbuf), hbuf + 4096, 16))
RISKY(dtoh_pageable_host_as_src, cuMemcpyDtoH(hbuf, DPTR(hbuf + 4096), 16))
RISKY(dtod_pageable_host_as_src, cuMemcpyDtoD(d, DPTR(hbuf), 16), CUdeviceptr d = dev4k())
RISKY(dtod_pageable_host_as_dst, cuMemcpyDtoD(DPTR(hbuf), d, 16), CUdeviceptr d = dev4k())
RISKY(htod_freed_dst, cuMemcpyHtoD(d, hbuf, 16), CUdeviceptr d = freed4k())
RISKY(dtoh_freed_src, cuMemcpyDtoH(hbuf, d, 16), CUdeviceptr d = freed4k())
RISKY(dtod_freed_large, cuMemcpyDtoD(e, d, 16), CUdeviceptr d = freed8m(); CUdeviceptr e = dev4k())
RISKY(uva_freed_large_src, cuMemcpy(e, d, 16), CUdeviceptr d = freed8m(); CUdeviceptr e = dev4k())
RISKY(dtodasync_destroyed_stream, cuMemcpyDtoDAsync(d, d + 1024, 64, s), CUdeviceptr d = dev4k(); CUstream s = dead_stream())
RISKY(htodasync_destroyed_stream, cuMemcpyHtoDAsync(d, hbuf, 64, s), CUdeviceptr d = dev4k(); CUstream s = dead_stream())
RISKY(dtodasync_stream_3, cuMemcpyDtoDAsync(d, d + 1024, 64, (CUstream)3), CUdeviceptr d = dev4k())
