// SPDX-License-Identifier: GPL-2.0
/* Cases of cuMemcpy2D, 2DUnaligned, 2DAsync, 3D, 3DAsync, 3DPeer, 3DPeerAsync */
#include "oracle.h"

enum { W = 100, H = 20, D = 5 };

static CUDA_MEMCPY2D c2(CUmemorytype st, void *sh, CUdeviceptr sd, CUarray sa, size_t sp, CUmemorytype dt, void *dh,
			CUdeviceptr dd, CUarray da, size_t dp, size_t w, size_t h)
{
	CUDA_MEMCPY2D c;
	memset(&c, 0, sizeof(c));
	c.srcMemoryType = st; c.srcHost = sh; c.srcDevice = sd; c.srcArray = sa; c.srcPitch = sp;
	c.dstMemoryType = dt; c.dstHost = dh; c.dstDevice = dd; c.dstArray = da; c.dstPitch = dp;
	c.WidthInBytes = w; c.Height = h;
	return c;
}
#define HT CU_MEMORYTYPE_HOST
#define DT CU_MEMORYTYPE_DEVICE
#define AT CU_MEMORYTYPE_ARRAY
#define UT CU_MEMORYTYPE_UNIFIED

/* rows of w bytes at pitch p carry the pattern; everything between is 0x77 */
static int rows_ok(const unsigned char *b, size_t p, size_t w, size_t h, const unsigned char *src, size_t sp)
{
	for (size_t y = 0; y < h; y++) {
		if (memcmp(b + y * p, src + y * sp, w))
			return 0;
		if (y + 1 < h && p > w && !allbyte(b + y * p + w, p - w, 0x77))
			return 0;
	}
	return 1;
}

GROUP(copy2d)
{
	init_ctx();
	unsigned char *h = malloc(65536), *r = malloc(65536);
	CUdeviceptr a = dalloc(65536), b = dalloc(65536);
	CUstream s;
	REQ(cuStreamCreate(&s, 0));
	static const struct { size_t sp, dp, w, h; } v[] = { { 100, 512, 100, 20 }, { 128, 256, 64, 30 }, { 1000, 1000, 1000, 10 },
		{ 77, 91, 33, 100 }, { 512, 512, 1, 50 }, { 0, 512, 100, 1 }, { 100, 0, 100, 1 }, { 64, 64, 64, 64 } };
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		for (int k = 0; k < 3; k++) {
			fill(h, 65536, (unsigned)i);
			cuMemsetD8(a, 0x77, 65536);
			cuMemsetD8(b, 0x77, 65536);
			memset(r, 0x77, 65536);
			CUDA_MEMCPY2D c = c2(HT, h, 0, 0, v[i].sp, DT, 0, a, 0, v[i].dp, v[i].w, v[i].h);
			CUDA_MEMCPY2D e = c2(DT, 0, a, 0, v[i].dp, DT, 0, b, 0, v[i].dp, v[i].w, v[i].h);
			CUDA_MEMCPY2D f = c2(DT, 0, b, 0, v[i].dp, HT, r, 0, 0, v[i].dp, v[i].w, v[i].h);
			CUresult r1, r2, r3;
			if (k == 0) { r1 = cuMemcpy2D(&c); r2 = cuMemcpy2D(&e); r3 = cuMemcpy2D(&f); }
			else if (k == 1) { r1 = cuMemcpy2DUnaligned(&c); r2 = cuMemcpy2DUnaligned(&e); r3 = cuMemcpy2DUnaligned(&f); }
			else { r1 = cuMemcpy2DAsync(&c, s); r2 = cuMemcpy2DAsync(&e, s); r3 = cuMemcpy2DAsync(&f, s); cuStreamSynchronize(s); }
			static const char *kn[] = { "plain", "unaligned", "async" };
			size_t dp = v[i].dp ? v[i].dp : v[i].w, sp = v[i].sp ? v[i].sp : v[i].w;
			emit(F("%s_sp%zu_dp%zu_w%zu_h%zu", kn[k], v[i].sp, v[i].dp, v[i].w, v[i].h), "rc=%s,%s,%s exact=%d", rcs(r1),
			     rcs(r2), rcs(r3), rows_ok(r, dp, v[i].w, v[i].h, h, sp));
		}
}

GROUP(copy2d_offsets)
{
	init_ctx();
	unsigned char *h = malloc(65536), *r = malloc(65536), *w = malloc(65536);
	CUdeviceptr a = dalloc(65536);
	fill(h, 65536, 3);
	cuMemsetD8(a, 0, 65536);
	CUDA_MEMCPY2D c = c2(HT, h, 0, 0, 256, DT, 0, a, 0, 512, 50, 8);
	c.srcXInBytes = 17; c.srcY = 3; c.dstXInBytes = 33; c.dstY = 5;
	CUresult rc = cuMemcpy2D(&c);
	cuMemcpyDtoH(r, a, 65536);
	memset(w, 0, 65536);
	for (int y = 0; y < 8; y++)
		memcpy(w + (y + 5) * 512 + 33, h + (y + 3) * 256 + 17, 50);
	emit("xy_offsets", "rc=%s exact=%d", rcs(rc), !memcmp(r, w, 65536));
	c = c2(UT, 0, DPTR(h), 0, 256, UT, 0, a, 0, 512, 50, 8);
	T("unified_pageable_src", cuMemcpy2D(&c));
	void *ph = NULL;
	REQ(cuMemAllocHost(&ph, 65536));
	fill(ph, 65536, 9);
	c = c2(UT, 0, DPTR(ph), 0, 256, UT, 0, a, 0, 256, 256, 100);
	TF("unified_pinned_src", cuMemcpy2D(&c), "%s", dsame(a, 25600, 9));
	memset(r, 0, 65536);
	c = c2(UT, 0, a, 0, 256, HT, r, 0, 0, 256, 256, 100);
	TF("unified_dev_to_host", cuMemcpy2D(&c), "%s", hsame(r, 25600, 9));
	memset(r, 0, 65536);
	c = c2(HT, ph, 0, 0, 256, HT, r, 0, 0, 256, 256, 100);
	TF("host_to_host", cuMemcpy2D(&c), "%s", hsame(r, 25600, 9));
}

GROUP(copy2d_errors)
{
	init_ctx();
	unsigned char *h = malloc(MiB(1));
	memset(h, 1, MiB(1));
	CUdeviceptr a = dalloc(65536), b = dalloc(65536);
	CUDA_MEMCPY2D ok = c2(HT, h, 0, 0, 128, DT, 0, a, 0, 128, 64, 16), c;
	T("ok", cuMemcpy2D(&ok));
	T("null", cuMemcpy2D(NULL));
	T("unaligned_null", cuMemcpy2DUnaligned(NULL));
	T("async_null", cuMemcpy2DAsync(NULL, 0));
	c = ok; c.srcPitch = 63;                   T("src_pitch_lt_width", cuMemcpy2D(&c));
	c = ok; c.dstPitch = 63;                   T("dst_pitch_lt_width", cuMemcpy2D(&c));
	c = ok; c.srcPitch = 100; c.srcXInBytes = 40; T("src_pitch_lt_width_plus_x", cuMemcpy2D(&c));
	c = ok; c.dstPitch = 100; c.dstXInBytes = 40; T("dst_pitch_lt_width_plus_x", cuMemcpy2D(&c));
	c = ok; c.srcPitch = 0;                    T("src_pitch_0_h16", cuMemcpy2D(&c));
	c = ok; c.dstPitch = 0;                    T("dst_pitch_0_h16", cuMemcpy2D(&c));
	c = ok; c.srcPitch = 0; c.Height = 1; c.srcY = 1; T("src_pitch_0_y1", cuMemcpy2D(&c));
	c = ok; c.WidthInBytes = 0;                T("width_0", cuMemcpy2D(&c));
	c = ok; c.Height = 0;                      T("height_0", cuMemcpy2D(&c));
	c = ok; c.WidthInBytes = 0; c.Height = 0; c.srcHost = NULL; c.dstDevice = 0; T("zero_null_ptrs", cuMemcpy2D(&c));
	c = ok; c.srcHost = NULL;                  T("src_null", cuMemcpy2D(&c));
	c = ok; c.dstDevice = 0;                   T("dst_null", cuMemcpy2D(&c));
	c = ok; c.srcMemoryType = 0;               T("src_type_0", cuMemcpy2D(&c));
	c = ok; c.dstMemoryType = 0;               T("dst_type_0", cuMemcpy2D(&c));
	c = ok; c.srcMemoryType = 5;               T("src_type_5", cuMemcpy2D(&c));
	c = ok; c.dstMemoryType = 99;              T("dst_type_99", cuMemcpy2D(&c));
	c = ok; c.dstMemoryType = AT;              T("dst_array_null", cuMemcpy2D(&c));
	c = ok; c.dstPitch = 0x80000000ull;        T("dst_pitch_gt_max", cuMemcpy2D(&c));
	c = ok; c.dstPitch = 0x7fffffff; c.Height = 1; T("dst_pitch_at_max", cuMemcpy2D(&c));
	c = ok; c.srcPitch = 0x80000000ull; c.Height = 1; T("src_pitch_gt_max", cuMemcpy2D(&c));
	c = ok; c.dstPitch = 8192;                 T("dst_past_end", cuMemcpy2D(&c));
	c = ok; c.dstY = 1 << 20;                  T("dst_y_past_end", cuMemcpy2D(&c));
	c = ok; c.dstPitch = 4096;                 T("dst_last_row_fits", cuMemcpy2D(&c));
	c = ok; c.dstPitch = 4096; c.dstXInBytes = 4096 - 63; T("dst_last_row_one_over", cuMemcpy2D(&c));
	c = c2(DT, 0, a, 0, 100, DT, 0, b, 0, 100, 64, 16);
	T("dtod_odd_pitch_plain", cuMemcpy2D(&c));
	T("dtod_odd_pitch_unaligned", cuMemcpy2DUnaligned(&c));
	c = c2(DT, 0, a + 1, 0, 101, DT, 0, b + 3, 0, 103, 64, 16);
	T("dtod_misaligned_plain", cuMemcpy2D(&c));
	T("dtod_misaligned_unaligned", cuMemcpy2DUnaligned(&c));
	T("dtod_misaligned_async", cuMemcpy2DAsync(&c, 0));
	TNOCTX("no_ctx", cuMemcpy2D(&ok));
	TNOCTX("unaligned_no_ctx", cuMemcpy2DUnaligned(&ok));
	TNOCTX("async_no_ctx", cuMemcpy2DAsync(&ok, 0));
	T("ctx_fine", cuCtxSynchronize());
}

static CUDA_MEMCPY3D c3(CUmemorytype st, void *sh, CUdeviceptr sd, size_t sp, size_t shh, CUmemorytype dt, void *dh,
			CUdeviceptr dd, size_t dp, size_t dhh, size_t w, size_t h, size_t d)
{
	CUDA_MEMCPY3D c;
	memset(&c, 0, sizeof(c));
	c.srcMemoryType = st; c.srcHost = sh; c.srcDevice = sd; c.srcPitch = sp; c.srcHeight = shh;
	c.dstMemoryType = dt; c.dstHost = dh; c.dstDevice = dd; c.dstPitch = dp; c.dstHeight = dhh;
	c.WidthInBytes = w; c.Height = h; c.Depth = d;
	return c;
}

GROUP(copy3d)
{
	init_ctx();
	size_t N = MiB(1);
	unsigned char *h = malloc(N), *r = malloc(N), *w = malloc(N);
	CUdeviceptr a = dalloc(N), b = dalloc(N);
	CUstream s;
	REQ(cuStreamCreate(&s, 0));
	static const struct { size_t sp, sh, dp, dh, w, h, d; } v[] = { { 100, 20, 100, 20, 100, 20, 5 }, { 128, 10, 256, 12, 64, 8, 4 },
		{ 77, 9, 91, 11, 33, 7, 3 }, { 64, 64, 64, 64, 64, 64, 16 }, { 512, 3, 512, 3, 1, 3, 9 }, { 200, 0, 200, 0, 150, 6, 1 } };
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		for (int k = 0; k < 2; k++) {
			fill(h, N, (unsigned)i + 40);
			memset(w, 0x77, N);
			memset(r, 0x77, N);
			cuMemsetD8(a, 0x77, N);
			cuMemsetD8(b, 0x77, N);
			CUDA_MEMCPY3D c = c3(HT, h, 0, v[i].sp, v[i].sh, DT, 0, a, v[i].dp, v[i].dh, v[i].w, v[i].h, v[i].d);
			CUDA_MEMCPY3D e = c3(DT, 0, a, v[i].dp, v[i].dh, DT, 0, b, v[i].dp, v[i].dh, v[i].w, v[i].h, v[i].d);
			CUresult r1 = k ? cuMemcpy3DAsync(&c, s) : cuMemcpy3D(&c), r2 = k ? cuMemcpy3DAsync(&e, s) : cuMemcpy3D(&e);
			cuStreamSynchronize(s);
			cuMemcpyDtoH(r, b, N);
			for (size_t z = 0; z < v[i].d; z++)
				for (size_t y = 0; y < v[i].h; y++)
					memcpy(w + (z * v[i].dh + y) * v[i].dp, h + (z * v[i].sh + y) * v[i].sp, v[i].w);
			emit(F("%s_%zu", k ? "async" : "plain", i), "rc=%s,%s exact=%d", rcs(r1), rcs(r2), !memcmp(r, w, N));
		}
	CUDA_MEMCPY3D c = c3(HT, h, 0, 100, 20, DT, 0, a, 128, 24, 50, 8, 3);
	c.srcXInBytes = 7; c.srcY = 2; c.srcZ = 1; c.dstXInBytes = 11; c.dstY = 3; c.dstZ = 2;
	cuMemsetD8(a, 0x77, N);
	memset(w, 0x77, N);
	CUresult rc = cuMemcpy3D(&c);
	for (size_t z = 0; z < 3; z++)
		for (size_t y = 0; y < 8; y++)
			memcpy(w + ((z + 2) * 24 + y + 3) * 128 + 11, h + ((z + 1) * 20 + y + 2) * 100 + 7, 50);
	cuMemcpyDtoH(r, a, N);
	emit("xyz_offsets", "rc=%s exact=%d", rcs(rc), !memcmp(r, w, N));
}

GROUP(copy3d_errors)
{
	init_ctx();
	unsigned char *h = malloc(MiB(1));
	memset(h, 1, MiB(1));
	CUdeviceptr a = dalloc(MiB(1));
	CUDA_MEMCPY3D ok = c3(HT, h, 0, 128, 16, DT, 0, a, 128, 16, 64, 16, 4), c;
	T("ok", cuMemcpy3D(&ok));
	T("null", cuMemcpy3D(NULL));
	T("async_null", cuMemcpy3DAsync(NULL, 0));
	c = ok; c.srcPitch = 63;        T("src_pitch_small", cuMemcpy3D(&c));
	c = ok; c.dstPitch = 63;        T("dst_pitch_small", cuMemcpy3D(&c));
	c = ok; c.srcHeight = 15;       T("src_height_small", cuMemcpy3D(&c));
	c = ok; c.dstHeight = 15;       T("dst_height_small", cuMemcpy3D(&c));
	c = ok; c.srcHeight = 0;        T("src_height_0_depth4", cuMemcpy3D(&c));
	c = ok; c.dstHeight = 0;        T("dst_height_0_depth4", cuMemcpy3D(&c));
	c = ok; c.srcHeight = 0; c.Depth = 1; T("src_height_0_depth1", cuMemcpy3D(&c));
	c = ok; c.srcPitch = 0;         T("src_pitch_0", cuMemcpy3D(&c));
	c = ok; c.srcY = 1;             T("src_y_exceeds_height", cuMemcpy3D(&c));
	c = ok; c.dstY = 1;             T("dst_y_exceeds_height", cuMemcpy3D(&c));
	c = ok; c.srcLOD = 1;           T("src_lod_1", cuMemcpy3D(&c));
	c = ok; c.dstLOD = 1;           T("dst_lod_1", cuMemcpy3D(&c));
	c = ok; c.reserved0 = (void *)1; T("reserved0", cuMemcpy3D(&c));
	c = ok; c.reserved1 = (void *)1; T("reserved1", cuMemcpy3D(&c));
	c = ok; c.WidthInBytes = 0;     T("width_0", cuMemcpy3D(&c));
	c = ok; c.Height = 0;           T("height_0", cuMemcpy3D(&c));
	c = ok; c.Depth = 0;            T("depth_0", cuMemcpy3D(&c));
	c = ok; c.srcHost = NULL;       T("src_null", cuMemcpy3D(&c));
	c = ok; c.dstDevice = 0;        T("dst_null", cuMemcpy3D(&c));
	c = ok; c.srcMemoryType = 0;    T("src_type_0", cuMemcpy3D(&c));
	c = ok; c.dstMemoryType = 7;    T("dst_type_7", cuMemcpy3D(&c));
	c = ok; c.dstPitch = 0x80000000ull; T("dst_pitch_gt_max", cuMemcpy3D(&c));
	c = ok; c.dstHeight = 8192;     T("dst_past_end", cuMemcpy3D(&c));
	c = ok; c.dstZ = 1 << 20;       T("dst_z_past_end", cuMemcpy3D(&c));
	c = ok; c.srcMemoryType = AT;   T("src_array_null", cuMemcpy3D(&c));
	TNOCTX("no_ctx", cuMemcpy3D(&ok));
	TNOCTX("async_no_ctx", cuMemcpy3DAsync(&ok, 0));
	T("ctx_fine", cuCtxSynchronize());
}

GROUP(copy3d_peer)
{
	init_ctx();
	CUcontext c2x;
	CUstream s;
	unsigned char *h = malloc(65536);
	fill(h, 65536, 5);
	CUdeviceptr a = dalloc(65536), b;
	REQ(cuStreamCreate(&s, 0));
	REQ(cuCtxCreate(&c2x, NULL, 0, g_dev));
	b = dalloc(65536);
	cuCtxSetCurrent(g_ctx);
	cuMemcpyHtoD(a, h, 65536);
	CUDA_MEMCPY3D_PEER ok, c;
	memset(&ok, 0, sizeof(ok));
	ok.srcMemoryType = ok.dstMemoryType = DT;
	ok.srcDevice = a; ok.dstDevice = b; ok.srcContext = g_ctx; ok.dstContext = c2x;
	ok.srcPitch = ok.dstPitch = 128; ok.srcHeight = ok.dstHeight = 32;
	ok.WidthInBytes = 128; ok.Height = 32; ok.Depth = 4;
	cuMemsetD8(b, 0, 65536);
	TF("two_ctx", cuMemcpy3DPeer(&ok), "%s", dsame(b, 16384, 5));
	cuMemsetD8(b, 0, 65536);
	c = ok; c.dstContext = g_ctx;
	TF("same_ctx", cuMemcpy3DPeer(&c), "%s", dsame(b, 16384, 5));
	cuMemsetD8(b, 0, 65536);
	T("async", cuMemcpy3DPeerAsync(&ok, s));
	cuStreamSynchronize(s);
	emit("async_data", "%s", dsame(b, 16384, 5));
	T("null", cuMemcpy3DPeer(NULL));
	T("async_null", cuMemcpy3DPeerAsync(NULL, s));
	c = ok; c.srcContext = NULL;    T("src_ctx_null", cuMemcpy3DPeer(&c));
	c = ok; c.dstContext = NULL;    T("dst_ctx_null", cuMemcpy3DPeer(&c));
	c = ok; c.srcContext = c.dstContext = NULL; T("both_ctx_null", cuMemcpy3DPeer(&c));
	c = ok; c.srcPitch = 64;        T("src_pitch_small", cuMemcpy3DPeer(&c));
	c = ok; c.dstHeight = 31;       T("dst_height_small", cuMemcpy3DPeer(&c));
	c = ok; c.WidthInBytes = 0;     T("width_0", cuMemcpy3DPeer(&c));
	c = ok; c.Depth = 0;            T("depth_0", cuMemcpy3DPeer(&c));
	c = ok; c.srcLOD = 1;           T("src_lod", cuMemcpy3DPeer(&c));
	c = ok; c.srcDevice = 0;        T("src_null", cuMemcpy3DPeer(&c));
	c = ok; c.srcMemoryType = 9;    T("src_type_9", cuMemcpy3DPeer(&c));
	c = ok; c.srcMemoryType = HT; c.srcHost = h; TF("host_src", cuMemcpy3DPeer(&c), "%s", dsame(b, 16384, 5));
	c = ok; c.srcDevice = 0;        T("async_src_null", cuMemcpy3DPeerAsync(&c, s));
	TNOCTX("no_ctx", cuMemcpy3DPeer(&ok));
	TNOCTX("async_no_ctx", cuMemcpy3DPeerAsync(&ok, s));
}

GROUP(copynd_gated)
{
	init_ctx();
	CUstream s;
	gate_t g;
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	CUdeviceptr a = dalloc(65536), b = dalloc(65536);
	dfill(a, 65536, 5);
	cuMemsetD8(b, 0, 65536);
	cuCtxSynchronize();
	CUDA_MEMCPY2D c = c2(DT, 0, a, 0, 256, DT, 0, b, 0, 256, 256, 64);
	CUDA_MEMCPY3D e = c3(DT, 0, a + 16384, 256, 8, DT, 0, b + 16384, 256, 8, 256, 8, 8);
	REQ(gate_close(&g, s));
	T("2d_async", cuMemcpy2DAsync(&c, s));
	T("3d_async", cuMemcpy3DAsync(&e, s));
	emit("before", "%s", dbyte(b, 65536, 0));
	gate_open(&g);
	cuStreamSynchronize(s);
	emit("after", "%s rest=%s", dsame(b, 32768, 5), dbyte(b + 32768, 32768, 0));
	gate_done(&g);
}
