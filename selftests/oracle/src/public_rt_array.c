// SPDX-License-Identifier: GPL-2.0
/*
 * Cases of the runtime API: arrays.
 *
 * - Which descriptions of channels, extents and flags are accepted, and what does a refusal leave in the output?
 * - What do queries of arrays, levels and planes answer?
 * - Which unit do positions and extents of a copy have, and which error does a copy outside of the array get?
 */
#include "rt.h"
#include <cuda.h>

#define UNTOUCHED ((void *)0x77)

static const char *out(const void *p)
{
	return p == UNTOUCHED ? "untouched" : p ? "other" : "null";
}

static struct cudaChannelFormatDesc ch(int x, int y, int z, int w, int f)
{
	return (struct cudaChannelFormatDesc){ x, y, z, w, (enum cudaChannelFormatKind)f };
}

static struct cudaExtent ext(size_t w, size_t h, size_t d)
{
	return (struct cudaExtent){ w, h, d };
}

static const char *info(cudaArray_t a)
{
	struct cudaChannelFormatDesc c;
	struct cudaExtent e;
	unsigned int flags = 77;
	cudaError_t r;

	memset(&c, 0x55, sizeof(c));
	memset(&e, 0x55, sizeof(e));
	r = cudaArrayGetInfo(&c, &e, &flags, a);
	if (r)
		return rts(r);
	return F("%d,%d,%d,%d kind=%d %zux%zux%zu flags=%#x", c.x, c.y, c.z, c.w, c.f, e.width, e.height, e.depth, flags);
}

/* The format of the driver's array that a description of channels makes. */
static void made(const char *id, struct cudaChannelFormatDesc c, size_t w, size_t h)
{
	CUDA_ARRAY3D_DESCRIPTOR d;
	cudaArray_t a = UNTOUCHED;

	memset(&d, 0, sizeof(d));
	RCASE(id, cudaMallocArray(&a, &c, w, h, 0),
	      CUresult q = r__ ? CUDA_SUCCESS : cuArray3DGetDescriptor(&d, (CUarray)a);
	      emit(id__, "rc=%s out=%s format=%#x channels=%u flags=%#x q=%d info=%s", rts(r__), out(a), d.Format, d.NumChannels,
		   d.Flags, q, r__ ? "-" : info(a)));
	if (a != UNTOUCHED && a)
		cudaFreeArray(a);
	cudaGetLastError();
}

GROUP(rt_array_formats)
{
	static const int bits[] = { 0, 1, 7, 8, 16, 24, 32, 64 };

	for (int f = 0; f <= 4; f++)
		for (size_t i = 0; i < sizeof(bits) / sizeof(bits[0]); i++)
			for (int n = 1; n <= 4; n++) {
				int b = bits[i];

				made(F("kind_%d_%dx%d", f, b, n), ch(b, n > 1 ? b : 0, n > 2 ? b : 0, n > 3 ? b : 0, f), 64, 16);
			}
	for (int f = 5; f <= 33; f++) {
		made(F("kind_%d_zero", f), ch(0, 0, 0, 0, f), 64, 16);
		made(F("kind_%d_8", f), ch(8, 0, 0, 0, f), 64, 16);
		made(F("kind_%d_8x2", f), ch(8, 8, 0, 0, f), 64, 16);
		made(F("kind_%d_8x3", f), ch(8, 8, 8, 0, f), 64, 16);
		made(F("kind_%d_8x4", f), ch(8, 8, 8, 8, f), 64, 16);
		made(F("kind_%d_16", f), ch(16, 0, 0, 0, f), 64, 16);
		made(F("kind_%d_16x2", f), ch(16, 16, 0, 0, f), 64, 16);
		made(F("kind_%d_16x3", f), ch(16, 16, 16, 0, f), 64, 16);
		made(F("kind_%d_16x4", f), ch(16, 16, 16, 16, f), 64, 16);
		made(F("kind_%d_10_10_10_2", f), ch(10, 10, 10, 2, f), 64, 16);
	}
	made("mixed_8_16", ch(8, 16, 0, 0, 1), 64, 16);
	made("hole_8_0_8", ch(8, 0, 8, 0, 1), 64, 16);
	made("hole_0_8", ch(0, 8, 0, 0, 1), 64, 16);
	made("x_missing_4", ch(8, 8, 8, 0, 2), 64, 16);
	made("negative", ch(-8, 0, 0, 0, 1), 64, 16);
	made("kind_minus_1", ch(8, 0, 0, 0, -1), 64, 16);
	made("odd_nv12", ch(8, 8, 8, 0, 4), 63, 16);
	made("bc1_1d", ch(8, 8, 8, 8, 17), 64, 0);
	made("bc1_odd", ch(8, 8, 8, 8, 17), 63, 15);
}

GROUP(rt_array_malloc)
{
	struct cudaChannelFormatDesc c = ch(8, 8, 8, 8, 1);
	static const unsigned int flags[] = { 0, 1, 2, 4, 5, 8, 0x10, 0x20, 0x22, 0x40, 0x80, 0xc0, 0x100, 0x200, 0x80000000u };
	cudaArray_t a = UNTOUCHED;

	RTF("null_desc", cudaMallocArray(&a, NULL, 64, 16, 0), "out=%s", out(a));
	RT("null_out", cudaMallocArray(NULL, &c, 64, 16, 0));
	a = UNTOUCHED; RTF("width_0", cudaMallocArray(&a, &c, 0, 16, 0), "out=%s", out(a));
	a = UNTOUCHED; RTF("both_0", cudaMallocArray(&a, &c, 0, 0, 0), "out=%s", out(a));
	a = UNTOUCHED; RTF("height_0", cudaMallocArray(&a, &c, 64, 0, 0), "out=%s info=%s", out(a), info(a));
	a = UNTOUCHED; RTF("too_wide", cudaMallocArray(&a, &c, 1 << 20, 16, 0), "out=%s", out(a));
	a = UNTOUCHED; RTF("widest_1d", cudaMallocArray(&a, &c, 131072, 0, 0), "out=%s", out(a));
	a = UNTOUCHED; RTF("too_wide_1d", cudaMallocArray(&a, &c, 131073, 0, 0), "out=%s", out(a));
	a = UNTOUCHED; RTF("huge", cudaMallocArray(&a, &c, ~0ul, ~0ul, 0), "out=%s", out(a));
	a = UNTOUCHED; RTF("width_4g", cudaMallocArray(&a, &c, (1ull << 32) + 64, 16, 0), "out=%s info=%s", out(a), r__ ? "-" : info(a));
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		a = UNTOUCHED;
		RTF(F("flags_%#x", flags[i]), cudaMallocArray(&a, &c, 64, 16, flags[i]), "out=%s info=%s", out(a), r__ ? "-" : info(a));
		if (a != UNTOUCHED && a)
			cudaFreeArray(a);
	}
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		a = UNTOUCHED;
		RTF(F("3d_flags_%#x", flags[i]), cudaMalloc3DArray(&a, &c, ext(64, 64, 6), flags[i]), "out=%s info=%s", out(a), r__ ? "-" : info(a));
		if (a != UNTOUCHED && a)
			cudaFreeArray(a);
		a = UNTOUCHED;
		RTF(F("2d_by_3d_flags_%#x", flags[i]), cudaMalloc3DArray(&a, &c, ext(64, 64, 0), flags[i]), "out=%s info=%s", out(a), r__ ? "-" : info(a));
		if (a != UNTOUCHED && a)
			cudaFreeArray(a);
	}
	a = UNTOUCHED; RTF("3d_zero", cudaMalloc3DArray(&a, &c, ext(0, 0, 0), 0), "out=%s", out(a));
	a = UNTOUCHED; RTF("3d_width_0", cudaMalloc3DArray(&a, &c, ext(0, 64, 6), 0), "out=%s", out(a));
	a = UNTOUCHED; RTF("3d_height_0", cudaMalloc3DArray(&a, &c, ext(64, 0, 6), 0), "out=%s", out(a));
	a = UNTOUCHED; RTF("3d_1d", cudaMalloc3DArray(&a, &c, ext(64, 0, 0), 0), "out=%s info=%s", out(a), info(a));
	a = UNTOUCHED; RTF("3d_1d_layered", cudaMalloc3DArray(&a, &c, ext(64, 0, 6), cudaArrayLayered), "out=%s info=%s", out(a), info(a));
	a = UNTOUCHED; RTF("3d_null_desc", cudaMalloc3DArray(&a, NULL, ext(64, 64, 6), 0), "out=%s", out(a));
	RT("3d_null_out", cudaMalloc3DArray(NULL, &c, ext(64, 64, 6), 0));
	a = UNTOUCHED; RTF("3d_too_deep", cudaMalloc3DArray(&a, &c, ext(64, 64, 1 << 20), 0), "out=%s", out(a));
	c = ch(8, 0, 0, 0, 99);
	a = UNTOUCHED; RTF("bad_kind_width_0", cudaMallocArray(&a, &c, 0, 16, 0), "out=%s", out(a));
	a = UNTOUCHED; RTF("3d_bad_kind", cudaMalloc3DArray(&a, &c, ext(64, 64, 6), 0), "out=%s", out(a));
	RT("lasterror", cudaGetLastError());
	RT("free_null", cudaFreeArray(NULL));
	RT("free_mip_null", cudaFreeMipmappedArray(NULL));
}

GROUP(rt_array_freed)
{
	struct cudaChannelFormatDesc c = ch(8, 0, 0, 0, 1);
	cudaMipmappedArray_t m;
	cudaArray_t a, l;

	RTREQ(cudaMallocArray(&a, &c, 64, 16, 0));
	RTREQ(cudaMallocMipmappedArray(&m, &c, ext(64, 32, 0), 3, 0));
	RTREQ(cudaGetMipmappedArrayLevel(&l, m, 0));
	RT("first", cudaFreeArray(a));
	RT("second", cudaFreeArray(a));
	RT("info", cudaGetChannelDesc(&c, a));
	RT("mip_first", cudaFreeMipmappedArray(m));
	RT("mip_second", cudaFreeMipmappedArray(m));
	RT("mip_level", cudaGetMipmappedArrayLevel(&l, m, 0));
}

GROUP(rt_array_info)
{
	struct cudaChannelFormatDesc c = ch(32, 32, 0, 0, 2), g;
	struct cudaArrayMemoryRequirements req;
	struct cudaArraySparseProperties sp;
	struct cudaExtent e = ext(7, 7, 7);
	unsigned int flags = 7;
	cudaMipmappedArray_t m = UNTOUCHED;
	cudaArray_t a, b = UNTOUCHED, l = UNTOUCHED;

	RTREQ(cudaMalloc3DArray(&a, &c, ext(40, 20, 3), cudaArrayLayered | cudaArraySurfaceLoadStore));
	emit("info", "%s", info(a));
	memset(&g, 0x55, sizeof(g));
	RTF("channel_desc", cudaGetChannelDesc(&g, a), "%d,%d,%d,%d kind=%d", g.x, g.y, g.z, g.w, g.f);
	RT("channel_desc_null_out", cudaGetChannelDesc(NULL, a));
	RT("channel_desc_null_array", cudaGetChannelDesc(&g, NULL));
	RTF("info_null_desc", cudaArrayGetInfo(NULL, &e, &flags, a), "%zux%zux%zu flags=%#x", e.width, e.height, e.depth, flags);
	RT("info_all_null", cudaArrayGetInfo(NULL, NULL, NULL, a));
	RT("info_null_array", cudaArrayGetInfo(&g, &e, &flags, NULL));
	RT("info_all_null_array_null", cudaArrayGetInfo(NULL, NULL, NULL, NULL));
	RTF("plane_of_plain", cudaArrayGetPlane(&b, a, 0), "out=%s", out(b));
	RT("plane_null_out", cudaArrayGetPlane(NULL, a, 0));
	RT("plane_null_array", cudaArrayGetPlane(&b, NULL, 0));
	RT("requirements_plain", cudaArrayGetMemoryRequirements(&req, a, 0));
	RT("requirements_null", cudaArrayGetMemoryRequirements(NULL, a, 0));
	RT("requirements_null_array", cudaArrayGetMemoryRequirements(&req, NULL, 0));
	RT("sparse_plain", cudaArrayGetSparseProperties(&sp, a));
	RT("sparse_null", cudaArrayGetSparseProperties(NULL, a));
	RT("sparse_null_array", cudaArrayGetSparseProperties(&sp, NULL));
	RT("free", cudaFreeArray(a));

	c = ch(8, 8, 8, 0, 4);
	RTREQ(cudaMallocArray(&a, &c, 64, 32, CUDA_ARRAY3D_VIDEO_ENCODE_DECODE));
	emit("nv12_info", "%s", info(a));
	b = UNTOUCHED; RTF("nv12_plane_0", cudaArrayGetPlane(&b, a, 0), "out=%s info=%s", out(b), info(b));
	b = UNTOUCHED; RTF("nv12_plane_1", cudaArrayGetPlane(&b, a, 1), "out=%s info=%s", out(b), info(b));
	RT("nv12_free_plane", cudaFreeArray(b));
	b = UNTOUCHED; RTF("nv12_plane_2", cudaArrayGetPlane(&b, a, 2), "out=%s", out(b));
	RT("nv12_free", cudaFreeArray(a));

	c = ch(8, 8, 8, 8, 1);
	RTREQ(cudaMallocArray(&a, &c, 512, 512, cudaArrayDeferredMapping));
	memset(&req, 0, sizeof(req));
	RTF("requirements", cudaArrayGetMemoryRequirements(&req, a, 0), "size=%zu align=%zu", req.size, req.alignment);
	RT("requirements_device_9", cudaArrayGetMemoryRequirements(&req, a, 9));
	RT("requirements_device_minus_1", cudaArrayGetMemoryRequirements(&req, a, -1));
	cudaFreeArray(a);
	RTREQ(cudaMallocArray(&a, &c, 2048, 2048, cudaArraySparse));
	memset(&sp, 0, sizeof(sp));
	RTF("sparse", cudaArrayGetSparseProperties(&sp, a), "tile=%ux%ux%u first=%u size=%llu flags=%#x", sp.tileExtent.width, sp.tileExtent.height, sp.tileExtent.depth, sp.miptailFirstLevel, sp.miptailSize, sp.flags);
	cudaFreeArray(a);

	RTF("mip", cudaMallocMipmappedArray(&m, &c, ext(64, 32, 0), 3, 0), "out=%s", out(m));
	for (unsigned int i = 0; i < 5; i++) {
		l = UNTOUCHED;
		RTF(F("level_%u", i), cudaGetMipmappedArrayLevel(&l, m, i), "out=%s info=%s", out(l), r__ ? "-" : info(l));
	}
	cudaGetMipmappedArrayLevel(&l, m, 1);
	RT("free_level", cudaFreeArray(l));
	RT("level_null_out", cudaGetMipmappedArrayLevel(NULL, m, 0));
	RT("level_null_mip", cudaGetMipmappedArrayLevel(&l, NULL, 0));
	RT("mip_requirements_plain", cudaMipmappedArrayGetMemoryRequirements(&req, m, 0));
	RT("mip_requirements_null", cudaMipmappedArrayGetMemoryRequirements(&req, NULL, 0));
	RT("mip_sparse_plain", cudaMipmappedArrayGetSparseProperties(&sp, m));
	RT("mip_sparse_null", cudaMipmappedArrayGetSparseProperties(&sp, NULL));
	RT("mip_free", cudaFreeMipmappedArray(m));
	RTREQ(cudaMallocMipmappedArray(&m, &c, ext(2048, 2048, 0), 12, cudaArraySparse));
	RTF("mip_sparse", cudaMipmappedArrayGetSparseProperties(&sp, m), "tile=%ux%ux%u first=%u size=%llu flags=%#x", sp.tileExtent.width, sp.tileExtent.height, sp.tileExtent.depth, sp.miptailFirstLevel, sp.miptailSize, sp.flags);
	cudaFreeMipmappedArray(m);
	m = UNTOUCHED; RTF("mip_levels_0", cudaMallocMipmappedArray(&m, &c, ext(64, 32, 0), 0, 0), "out=%s", out(m));
	m = UNTOUCHED; RTF("mip_levels_99", cudaMallocMipmappedArray(&m, &c, ext(64, 32, 0), 99, 0), "out=%s last=%s beyond=%s", out(m), rts(cudaGetMipmappedArrayLevel(&l, m, 6)), rts(cudaGetMipmappedArrayLevel(&l, m, 7)));
	m = UNTOUCHED; RTF("mip_zero", cudaMallocMipmappedArray(&m, &c, ext(0, 0, 0), 1, 0), "out=%s", out(m));
	m = UNTOUCHED; RTF("mip_null_desc", cudaMallocMipmappedArray(&m, NULL, ext(64, 32, 0), 1, 0), "out=%s", out(m));
	RT("mip_null_out", cudaMallocMipmappedArray(NULL, &c, ext(64, 32, 0), 1, 0));
	c.f = 99;
	m = UNTOUCHED; RTF("mip_bad_kind", cudaMallocMipmappedArray(&m, &c, ext(64, 32, 0), 1, 0), "out=%s", out(m));
}

/* An array of 40 by 20 elements of 4 bytes that holds the pattern. */
static cudaArray_t pattern(unsigned char *h)
{
	struct cudaChannelFormatDesc c = ch(8, 8, 8, 8, 1);
	cudaArray_t a = NULL;

	fill(h, 3200, 9);
	if (cudaMallocArray(&a, &c, 40, 20, 0) || cudaMemcpy2DToArray(a, 0, 0, h, 160, 160, 20, cudaMemcpyHostToDevice))
		emit("__without", "no array");
	return a;
}

/* Which bytes of the array changed from the pattern to 0xee: first, last, and how many. */
static const char *changed(cudaArray_t a, const unsigned char *h)
{
	unsigned char r[3200];
	int first = -1, last = -1, n = 0, wrong = 0;
	cudaError_t e = cudaMemcpy2DFromArray(r, 160, a, 0, 0, 160, 20, cudaMemcpyDeviceToHost);

	if (e)
		return F("readback:%s", rts(e));
	for (int i = 0; i < 3200; i++)
		if (r[i] != h[i]) {
			if (first < 0)
				first = i;
			last = i;
			n++;
			wrong += r[i] != 0xee;
		}
	return F("%d..%d:%d%s", first, last, n, wrong ? " other values" : "");
}

static const char *where(const unsigned char *r, const unsigned char *h, size_t n)
{
	/* the place in the pattern from which the first 16 bytes came, and how many bytes were written */
	int from = -1, k = 0;

	for (int i = 0; from < 0 && i + 16 <= 3200; i++)
		if (!memcmp(r, h + i, 16))
			from = i;
	for (size_t i = 0; i < n; i++)
		k += r[i] != 0x5a;
	return F("from=%d bytes=%d", from, k);
}

#define TO(id, expr) do { cudaArray_t a = pattern(h);								\
		RTF(id, expr, "%s", (cudaDeviceSynchronize(), changed(a, h)));				\
		cudaFreeArray(a); cudaGetLastError(); } while (0)
#define FROM(id, expr) do { cudaArray_t a = pattern(h); memset(r, 0x5a, sizeof(r));			\
		RTF(id, expr, "%s", (cudaDeviceSynchronize(), where(r, h, sizeof(r))));			\
		cudaFreeArray(a); cudaGetLastError(); } while (0)

GROUPT(rt_array_copy, 90)
{
	static unsigned char h[3200], r[8192], e[8192];
	cudaStream_t s;
	unsigned char *d, *pin;

	memset(e, 0xee, sizeof(e));
	RTREQ(cudaStreamCreate(&s));
	RTREQ(cudaMalloc((void **)&d, 8192));
	RTREQ(cudaMallocHost((void **)&pin, 8192));
	RTREQ(cudaMemset(d, 0xee, 8192));
	/* rows to an array: offsets and width are bytes */
	TO("to", cudaMemcpy2DToArray(a, 8, 3, e, 64, 40, 5, cudaMemcpyHostToDevice));
	TO("to_x_6", cudaMemcpy2DToArray(a, 6, 3, e, 64, 40, 5, cudaMemcpyHostToDevice));
	TO("to_width_41", cudaMemcpy2DToArray(a, 8, 3, e, 64, 41, 5, cudaMemcpyHostToDevice));
	TO("to_width_0", cudaMemcpy2DToArray(a, 8, 3, e, 64, 0, 5, cudaMemcpyHostToDevice));
	TO("to_height_0", cudaMemcpy2DToArray(a, 8, 3, e, 64, 40, 0, cudaMemcpyHostToDevice));
	TO("to_pitch_39", cudaMemcpy2DToArray(a, 8, 3, e, 39, 40, 5, cudaMemcpyHostToDevice));
	TO("to_pitch_39_one_row", cudaMemcpy2DToArray(a, 8, 3, e, 39, 40, 1, cudaMemcpyHostToDevice));
	TO("to_pitch_0_one_row", cudaMemcpy2DToArray(a, 8, 3, e, 0, 40, 1, cudaMemcpyHostToDevice));
	TO("to_pitch_41", cudaMemcpy2DToArray(a, 8, 3, e, 41, 40, 5, cudaMemcpyHostToDevice));
	TO("to_x_out", cudaMemcpy2DToArray(a, 124, 3, e, 64, 40, 5, cudaMemcpyHostToDevice));
	TO("to_y_out", cudaMemcpy2DToArray(a, 8, 16, e, 64, 40, 5, cudaMemcpyHostToDevice));
	TO("to_null_array", cudaMemcpy2DToArray(NULL, 8, 3, e, 64, 40, 5, cudaMemcpyHostToDevice));
	TO("to_null_array_width_0", cudaMemcpy2DToArray(NULL, 8, 3, e, 64, 0, 5, cudaMemcpyHostToDevice));
	TO("to_null_src", cudaMemcpy2DToArray(a, 8, 3, NULL, 64, 40, 5, cudaMemcpyHostToDevice));
	TO("to_device_src", cudaMemcpy2DToArray(a, 8, 3, d, 64, 40, 5, cudaMemcpyDeviceToDevice));
	TO("to_device_src_default", cudaMemcpy2DToArray(a, 8, 3, d, 64, 40, 5, cudaMemcpyDefault));
	TO("to_device_src_h2d", cudaMemcpy2DToArray(a, 8, 3, d, 64, 40, 5, cudaMemcpyHostToDevice));
	TO("to_host_src_default", cudaMemcpy2DToArray(a, 8, 3, e, 64, 40, 5, cudaMemcpyDefault));
	TO("to_host_src_d2d", cudaMemcpy2DToArray(a, 8, 3, e, 64, 40, 5, cudaMemcpyDeviceToDevice));
	TO("to_d2h", cudaMemcpy2DToArray(a, 8, 3, e, 64, 40, 5, cudaMemcpyDeviceToHost));
	TO("to_h2h", cudaMemcpy2DToArray(a, 8, 3, e, 64, 40, 5, cudaMemcpyHostToHost));
	TO("to_kind_9", cudaMemcpy2DToArray(a, 8, 3, e, 64, 40, 5, 9));
	TO("to_kind_9_width_0", cudaMemcpy2DToArray(a, 8, 3, e, 64, 0, 5, 9));
	TO("to_kind_minus_1", cudaMemcpy2DToArray(a, 8, 3, e, 64, 40, 5, -1));
	TO("to_async", cudaMemcpy2DToArrayAsync(a, 8, 3, e, 64, 40, 5, cudaMemcpyHostToDevice, s));
	TO("to_async_kind_9", cudaMemcpy2DToArrayAsync(a, 8, 3, e, 64, 40, 5, 9, s));
	TO("to_async_pitch_39", cudaMemcpy2DToArrayAsync(a, 8, 3, e, 39, 40, 5, cudaMemcpyHostToDevice, s));
	TO("to_async_null_array", cudaMemcpy2DToArrayAsync(NULL, 8, 3, e, 64, 40, 5, cudaMemcpyHostToDevice, s));
	/* rows from an array */
	FROM("from", cudaMemcpy2DFromArray(r, 64, a, 8, 3, 40, 5, cudaMemcpyDeviceToHost));
	FROM("from_x_6", cudaMemcpy2DFromArray(r, 64, a, 6, 3, 40, 5, cudaMemcpyDeviceToHost));
	FROM("from_width_0", cudaMemcpy2DFromArray(r, 64, a, 8, 3, 0, 5, cudaMemcpyDeviceToHost));
	FROM("from_pitch_39", cudaMemcpy2DFromArray(r, 39, a, 8, 3, 40, 5, cudaMemcpyDeviceToHost));
	FROM("from_x_out", cudaMemcpy2DFromArray(r, 64, a, 124, 3, 40, 5, cudaMemcpyDeviceToHost));
	FROM("from_y_out", cudaMemcpy2DFromArray(r, 64, a, 8, 16, 40, 5, cudaMemcpyDeviceToHost));
	FROM("from_null_array", cudaMemcpy2DFromArray(r, 64, NULL, 8, 3, 40, 5, cudaMemcpyDeviceToHost));
	FROM("from_null_dst", cudaMemcpy2DFromArray(NULL, 64, a, 8, 3, 40, 5, cudaMemcpyDeviceToHost));
	FROM("from_default", cudaMemcpy2DFromArray(r, 64, a, 8, 3, 40, 5, cudaMemcpyDefault));
	FROM("from_h2d", cudaMemcpy2DFromArray(r, 64, a, 8, 3, 40, 5, cudaMemcpyHostToDevice));
	FROM("from_d2d", cudaMemcpy2DFromArray(r, 64, a, 8, 3, 40, 5, cudaMemcpyDeviceToDevice));
	FROM("from_kind_9", cudaMemcpy2DFromArray(r, 64, a, 8, 3, 40, 5, 9));
	FROM("from_async", cudaMemcpy2DFromArrayAsync(r, 64, a, 8, 3, 40, 5, cudaMemcpyDeviceToHost, s));
	FROM("from_to_device", (cudaMemcpy2DFromArray(d, 64, a, 8, 3, 40, 5, cudaMemcpyDeviceToDevice) ?: cudaMemcpy2D(r, 64, d, 64, 40, 5, cudaMemcpyDefault)));
	cudaMemset(d, 0xee, 8192);
	/* bytes that continue in the next row */
	TO("linear_to", cudaMemcpyToArray(a, 8, 3, e, 40, cudaMemcpyHostToDevice));
	TO("linear_to_rows", cudaMemcpyToArray(a, 8, 3, e, 500, cudaMemcpyHostToDevice));
	TO("linear_to_whole_rows", cudaMemcpyToArray(a, 0, 3, e, 320, cudaMemcpyHostToDevice));
	TO("linear_to_part_row", cudaMemcpyToArray(a, 0, 3, e, 200, cudaMemcpyHostToDevice));
	TO("linear_to_x_6", cudaMemcpyToArray(a, 6, 3, e, 500, cudaMemcpyHostToDevice));
	TO("linear_to_count_0", cudaMemcpyToArray(a, 8, 3, e, 0, cudaMemcpyHostToDevice));
	TO("linear_to_count_501", cudaMemcpyToArray(a, 8, 3, e, 501, cudaMemcpyHostToDevice));
	TO("linear_to_end", cudaMemcpyToArray(a, 0, 18, e, 320, cudaMemcpyHostToDevice));
	TO("linear_to_past_end", cudaMemcpyToArray(a, 0, 18, e, 324, cudaMemcpyHostToDevice));
	TO("linear_to_x_160", cudaMemcpyToArray(a, 160, 3, e, 40, cudaMemcpyHostToDevice));
	TO("linear_to_x_200", cudaMemcpyToArray(a, 200, 3, e, 40, cudaMemcpyHostToDevice));
	TO("linear_to_y_20", cudaMemcpyToArray(a, 0, 20, e, 40, cudaMemcpyHostToDevice));
	TO("linear_to_null", cudaMemcpyToArray(NULL, 8, 3, e, 40, cudaMemcpyHostToDevice));
	TO("linear_to_null_count_0", cudaMemcpyToArray(NULL, 8, 3, e, 0, cudaMemcpyHostToDevice));
	TO("linear_to_null_src", cudaMemcpyToArray(a, 8, 3, NULL, 40, cudaMemcpyHostToDevice));
	TO("linear_to_device", cudaMemcpyToArray(a, 8, 3, d, 500, cudaMemcpyDeviceToDevice));
	TO("linear_to_kind_d2h", cudaMemcpyToArray(a, 8, 3, e, 40, cudaMemcpyDeviceToHost));
	TO("linear_to_kind_9", cudaMemcpyToArray(a, 8, 3, e, 40, 9));
	TO("linear_to_kind_minus_1", cudaMemcpyToArray(a, 8, 3, e, 40, -1));
	TO("linear_to_kind_9_async", cudaMemcpyToArrayAsync(a, 8, 3, e, 40, 9, s));
	TO("linear_to_kind_9_rows", cudaMemcpyToArray(a, 8, 3, e, 500, 9));
	TO("linear_to_kind_h2h", cudaMemcpyToArray(a, 8, 3, e, 40, cudaMemcpyHostToHost));
	TO("linear_to_default", cudaMemcpyToArray(a, 8, 3, e, 40, cudaMemcpyDefault));
	TO("linear_to_x_160_count_0", cudaMemcpyToArray(a, 160, 30, e, 0, cudaMemcpyHostToDevice));
	FROM("linear_from_kind_9", cudaMemcpyFromArray(r, a, 8, 3, 40, 9));
	FROM("linear_from_kind_9_async", cudaMemcpyFromArrayAsync(r, a, 8, 3, 40, 9, s));
	FROM("linear_from_kind_h2h", cudaMemcpyFromArray(r, a, 8, 3, 40, cudaMemcpyHostToHost));
	FROM("linear_from_x_160", cudaMemcpyFromArray(r, a, 160, 3, 40, cudaMemcpyDeviceToHost));
	FROM("linear_from_x_200", cudaMemcpyFromArray(r, a, 200, 3, 40, cudaMemcpyDeviceToHost));
	TO("to_null_array_kind_9", cudaMemcpy2DToArray(NULL, 8, 3, e, 64, 40, 5, 9));
	TO("to_null_array_pitch_39", cudaMemcpy2DToArray(NULL, 8, 3, e, 39, 40, 5, cudaMemcpyHostToDevice));
	TO("to_kind_9_pitch_39", cudaMemcpy2DToArray(a, 8, 3, e, 39, 40, 5, 9));
	TO("to_pitch_huge", cudaMemcpy2DToArray(a, 8, 3, e, 1ul << 40, 40, 1, cudaMemcpyHostToDevice));
	TO("linear_to_async", cudaMemcpyToArrayAsync(a, 8, 3, e, 500, cudaMemcpyHostToDevice, s));
	FROM("linear_from", cudaMemcpyFromArray(r, a, 8, 3, 500, cudaMemcpyDeviceToHost));
	FROM("linear_from_past_end", cudaMemcpyFromArray(r, a, 8, 18, 500, cudaMemcpyDeviceToHost));
	FROM("linear_from_default", cudaMemcpyFromArray(r, a, 8, 3, 500, cudaMemcpyDefault));
	FROM("linear_from_async", cudaMemcpyFromArrayAsync(r, a, 8, 3, 500, cudaMemcpyDeviceToHost, s));
	FROM("linear_from_kind_h2d", cudaMemcpyFromArray(r, a, 8, 3, 500, cudaMemcpyHostToDevice));
	FROM("linear_from_null", cudaMemcpyFromArray(r, NULL, 8, 3, 500, cudaMemcpyDeviceToHost));
}

/* A second array of the same size, all bytes 0xee. */
static cudaArray_t other(int x, int y)
{
	static unsigned char e[65536];
	struct cudaChannelFormatDesc c = ch(x, y, y, y, 1);
	cudaArray_t a = NULL;

	memset(e, 0xee, sizeof(e));
	if (cudaMallocArray(&a, &c, 40, 20, 0) || cudaMemcpy2DToArray(a, 0, 0, e, 640, (size_t)40 * (x + 3 * y) / 8, 20, cudaMemcpyHostToDevice))
		emit("__without", "no second array");
	return a;
}

#define AA(id, expr) TO(id, (expr))

GROUPT(rt_array_to_array, 90)
{
	static unsigned char h[3200];
	cudaArray_t o = other(8, 8), one = other(8, 0), wide = other(32, 32);

	AA("2d", cudaMemcpy2DArrayToArray(a, 8, 3, o, 4, 2, 40, 5, cudaMemcpyDeviceToDevice));
	AA("2d_default", cudaMemcpy2DArrayToArray(a, 8, 3, o, 4, 2, 40, 5, cudaMemcpyDefault));
	AA("2d_h2d", cudaMemcpy2DArrayToArray(a, 8, 3, o, 4, 2, 40, 5, cudaMemcpyHostToDevice));
	AA("2d_h2h", cudaMemcpy2DArrayToArray(a, 8, 3, o, 4, 2, 40, 5, cudaMemcpyHostToHost));
	AA("2d_kind_9", cudaMemcpy2DArrayToArray(a, 8, 3, o, 4, 2, 40, 5, 9));
	AA("2d_width_0", cudaMemcpy2DArrayToArray(a, 8, 3, o, 4, 2, 0, 5, cudaMemcpyDeviceToDevice));
	AA("2d_out", cudaMemcpy2DArrayToArray(a, 8, 3, o, 4, 18, 40, 5, cudaMemcpyDeviceToDevice));
	AA("2d_null_src", cudaMemcpy2DArrayToArray(a, 8, 3, NULL, 4, 2, 40, 5, cudaMemcpyDeviceToDevice));
	AA("2d_null_dst", cudaMemcpy2DArrayToArray(NULL, 8, 3, o, 4, 2, 40, 5, cudaMemcpyDeviceToDevice));
	AA("2d_bytes", cudaMemcpy2DArrayToArray(a, 8, 3, one, 4, 2, 32, 5, cudaMemcpyDeviceToDevice));
	AA("2d_wide", cudaMemcpy2DArrayToArray(a, 8, 3, wide, 16, 2, 32, 5, cudaMemcpyDeviceToDevice));
	AA("2d_wide_odd", cudaMemcpy2DArrayToArray(a, 8, 3, wide, 4, 2, 36, 5, cudaMemcpyDeviceToDevice));
	AA("2d_self", cudaMemcpy2DArrayToArray(a, 8, 3, a, 8, 3, 40, 5, cudaMemcpyDeviceToDevice));
	AA("linear", cudaMemcpyArrayToArray(a, 8, 3, o, 4, 2, 500, cudaMemcpyDeviceToDevice));
	AA("linear_short", cudaMemcpyArrayToArray(a, 8, 3, o, 4, 2, 40, cudaMemcpyDeviceToDevice));
	AA("linear_rows", cudaMemcpyArrayToArray(a, 0, 3, o, 0, 2, 320, cudaMemcpyDeviceToDevice));
	AA("linear_past_end", cudaMemcpyArrayToArray(a, 8, 3, o, 4, 18, 500, cudaMemcpyDeviceToDevice));
	AA("linear_bytes", cudaMemcpyArrayToArray(a, 8, 3, one, 4, 2, 300, cudaMemcpyDeviceToDevice));
	AA("linear_kind_h2d", cudaMemcpyArrayToArray(a, 8, 3, o, 4, 2, 500, cudaMemcpyHostToDevice));
	AA("linear_kind_9", cudaMemcpyArrayToArray(a, 8, 3, o, 4, 2, 500, 9));
	AA("linear_count_0", cudaMemcpyArrayToArray(a, 8, 3, o, 4, 2, 0, cudaMemcpyDeviceToDevice));
	AA("linear_null_dst", cudaMemcpyArrayToArray(NULL, 8, 3, o, 4, 2, 500, cudaMemcpyDeviceToDevice));
	AA("linear_dst_past_end", cudaMemcpyArrayToArray(a, 8, 18, o, 4, 2, 500, cudaMemcpyDeviceToDevice));
	AA("linear_src_x_160", cudaMemcpyArrayToArray(a, 8, 3, o, 160, 2, 40, cudaMemcpyDeviceToDevice));
	AA("linear_dst_x_160", cudaMemcpyArrayToArray(a, 160, 3, o, 0, 2, 40, cudaMemcpyDeviceToDevice));
	AA("linear_dst_x_200", cudaMemcpyArrayToArray(a, 200, 3, o, 0, 2, 40, cudaMemcpyDeviceToDevice));
	AA("linear_src_x_200", cudaMemcpyArrayToArray(a, 0, 3, o, 200, 2, 40, cudaMemcpyDeviceToDevice));
	AA("linear_default", cudaMemcpyArrayToArray(a, 8, 3, o, 4, 2, 500, cudaMemcpyDefault));
	AA("linear_wide", cudaMemcpyArrayToArray(a, 8, 3, wide, 16, 2, 300, cudaMemcpyDeviceToDevice));
	AA("linear_null", cudaMemcpyArrayToArray(a, 8, 3, NULL, 4, 2, 500, cudaMemcpyDeviceToDevice));
}

static struct cudaMemcpy3DParms to3(cudaArray_t a, void *src, size_t pitch, size_t rows, int kind)
{
	struct cudaMemcpy3DParms p;

	memset(&p, 0, sizeof(p));
	p.dstArray = a;
	p.srcPtr = (struct cudaPitchedPtr){ src, pitch, pitch, rows };
	p.extent = ext(10, 5, 1);
	p.kind = kind;
	return p;
}

static struct cudaPitchedPtr make_ptr(void *p)
{
	return (struct cudaPitchedPtr){ p, 64, 64, 8 };
}

/* Fill the array of blocks with 0x11, and tell which of its 1,024 bytes are 0xee. */
static void bc_clear(cudaArray_t a)
{
	static unsigned char z[1024];

	memset(z, 0x11, sizeof(z));
	cudaMemcpy2DToArray(a, 0, 0, z, 128, 128, 8, cudaMemcpyHostToDevice);
}

static const char *bc_changed(cudaArray_t a)
{
	unsigned char r[1024];
	int first = -1, last = -1, n = 0;

	if (cudaMemcpy2DFromArray(r, 128, a, 0, 0, 128, 8, cudaMemcpyDeviceToHost))
		return "unreadable";
	for (int i = 0; i < 1024; i++)
		if (r[i] != 0x11) {
			first = first < 0 ? i : first;
			last = i;
			n++;
		}
	return F("%d..%d:%d", first, last, n);
}

#define TO3(id, change) TO(id, ({ struct cudaMemcpy3DParms p = to3(a, e, 64, 8, cudaMemcpyHostToDevice); change; cudaMemcpy3D(&p); }))
#define TOP(id, change) TO(id, ({ struct cudaMemcpy3DParms q = to3(a, d, 64, 8, 0); struct cudaMemcpy3DPeerParms p; memset(&p, 0, sizeof(p)); \
		p.dstArray = q.dstArray; p.srcPtr = q.srcPtr; p.extent = q.extent; change; cudaMemcpy3DPeer(&p); }))
#define FROM3(id, change) FROM(id, ({ struct cudaMemcpy3DParms p; memset(&p, 0, sizeof(p)); p.srcArray = a; p.extent = ext(10, 5, 1); \
		p.dstPtr = make_ptr(r); p.kind = cudaMemcpyDeviceToHost; change; cudaMemcpy3D(&p); }))

GROUPT(rt_array_box, 90)
{
	static unsigned char h[3200], r[8192], e[8192];
	struct cudaChannelFormatDesc c = ch(8, 8, 8, 8, 17);
	cudaArray_t o = other(8, 8), wide = other(32, 32), bc;
	unsigned char *d, *pin;
	cudaStream_t s;

	memset(e, 0xee, sizeof(e));
	RTREQ(cudaStreamCreate(&s));
	RTREQ(cudaMalloc((void **)&d, 8192));
	RTREQ(cudaMallocHost((void **)&pin, 8192));
	RTREQ(cudaMemset(d, 0xee, 8192));
	memset(pin, 0xee, 8192);
	TO3("to", ((void)p));
	TO3("to_pos", p.dstPos.x = 2; p.dstPos.y = 3);
	TO3("to_src_pos", p.srcPos.x = 4; p.srcPos.y = 1);
	TO3("to_src_pos_odd", p.srcPos.x = 3);
	TO3("to_depth_0", p.extent.depth = 0);
	TO3("to_width_0", p.extent.width = 0);
	TO3("to_z_1", p.dstPos.z = 1);
	TO3("to_depth_2", p.extent.depth = 2);
	TO3("to_out", p.dstPos.x = 31);
	TO3("to_pitch_39", p.srcPtr.pitch = 39);
	TO3("to_pitch_0", p.srcPtr.pitch = 0);
	TO3("to_pitch_0_one_row", p.srcPtr.pitch = 0; p.extent.height = 1);
	TO3("to_ysize_4", p.srcPtr.ysize = 4);
	TO3("to_ysize_0", p.srcPtr.ysize = 0);
	TO3("to_xsize_10", p.srcPtr.xsize = 10);
	TO3("to_kind_9", p.kind = 9);
	TO3("to_kind_d2h", p.kind = cudaMemcpyDeviceToHost);
	TO3("to_kind_h2h", p.kind = cudaMemcpyHostToHost);
	TO3("to_kind_default", p.kind = cudaMemcpyDefault);
	TO3("to_kind_d2d", p.kind = cudaMemcpyDeviceToDevice);
	TO3("to_device", p.srcPtr.ptr = d; p.kind = cudaMemcpyDeviceToDevice);
	TO3("to_both", p.dstPtr = make_ptr(d));
	TO3("to_src_both", p.srcArray = o);
	TO3("to_no_src", p.srcPtr.ptr = NULL);
	TO3("to_array", p.srcPtr.ptr = NULL; p.srcArray = o; p.kind = cudaMemcpyDeviceToDevice);
	TO3("to_array_memset_ptr", memset(&p.srcPtr, 0, sizeof(p.srcPtr)); p.srcArray = o; p.kind = cudaMemcpyDeviceToDevice);
	TO3("to_array_pos", memset(&p.srcPtr, 0, sizeof(p.srcPtr)); p.srcArray = o; p.srcPos.x = 3; p.dstPos.x = 5; p.dstPos.y = 1; p.kind = cudaMemcpyDefault);
	TO3("to_array_wide", memset(&p.srcPtr, 0, sizeof(p.srcPtr)); p.srcArray = wide; p.kind = cudaMemcpyDeviceToDevice);
	TO3("to_array_d2h", memset(&p.srcPtr, 0, sizeof(p.srcPtr)); p.srcArray = o; p.kind = cudaMemcpyDeviceToHost);
	TO3("to_array_h2h", memset(&p.srcPtr, 0, sizeof(p.srcPtr)); p.srcArray = o; p.kind = cudaMemcpyHostToHost);
	TO3("to_d2h_device", p.srcPtr.ptr = d; p.kind = cudaMemcpyDeviceToHost);
	TO3("to_h2h_device", p.srcPtr.ptr = d; p.kind = cudaMemcpyHostToHost);
	TO3("to_h2d_device", p.srcPtr.ptr = d);
	TO3("to_pitch_9", p.srcPtr.pitch = 9);
	TO3("to_pitch_10", p.srcPtr.pitch = 10);
	TO3("to_pitch_9_one_row", p.srcPtr.pitch = 9; p.extent.height = 1);
	TO3("to_pitch_39_one_row", p.srcPtr.pitch = 39; p.extent.height = 1);
	TO3("to_kind_9_both", p.kind = 9; p.srcArray = o);
	TO3("to_src_x_out", p.srcPos.x = 30);
	TO3("to_src_y_out", p.srcPos.y = 4);
	TO3("to_array_h2d", memset(&p.srcPtr, 0, sizeof(p.srcPtr)); p.srcArray = o; p.kind = cudaMemcpyHostToDevice);
	RT("null", cudaMemcpy3D(NULL));
	TO("async", ({ struct cudaMemcpy3DParms p = to3(a, e, 64, 8, cudaMemcpyHostToDevice); cudaMemcpy3DAsync(&p, s); }));
	FROM3("from", ((void)p));
	FROM3("from_pos", p.srcPos.x = 2; p.srcPos.y = 3);
	FROM3("from_dst_pos", p.dstPos.x = 4; p.dstPos.y = 1);
	FROM3("from_out", p.srcPos.y = 16);
	FROM3("from_pitch_39", p.dstPtr.pitch = 39);
	FROM3("from_h2d", p.kind = cudaMemcpyHostToDevice);
	FROM3("from_default", p.kind = cudaMemcpyDefault);
	FROM3("from_h2h", p.kind = cudaMemcpyHostToHost);
	FROM3("from_d2d", p.kind = cudaMemcpyDeviceToDevice);
	FROM3("from_width_0", p.extent.width = 0);
	FROM3("from_pitch_0", p.dstPtr.pitch = 0);
	/* between devices: there are no kinds */
	TOP("peer", ((void)p));
	TOP("peer_pos", p.dstPos.x = 2; p.srcPos.x = 4);
	TOP("peer_host_src", p.srcPtr.ptr = e);
	TOP("peer_pinned_src", p.srcPtr.ptr = pin);
	TOP("peer_pitch_9", p.srcPtr.pitch = 9);
	TOP("peer_width_0", p.extent.width = 0);
	TOP("peer_device_9_width_0", p.extent.width = 0; p.dstDevice = 9);
	TOP("peer_wide", memset(&p.srcPtr, 0, sizeof(p.srcPtr)); p.srcArray = wide);
	TOP("peer_array", memset(&p.srcPtr, 0, sizeof(p.srcPtr)); p.srcArray = o);
	TOP("peer_device_9", p.dstDevice = 9);
	TOP("peer_both", p.srcArray = o);
	TOP("peer_pitch_39", p.srcPtr.pitch = 39);
	TOP("peer_null_src", p.srcPtr.ptr = NULL);
	TOP("peer_out", p.dstPos.x = 31);
	/* blocks of 4 by 4 elements and 8 bytes */
	RTREQ(cudaMallocArray(&bc, &c, 64, 32, 0));
	emit("bc_info", "%s", info(bc));
	RT("bc_2d_row", cudaMemcpy2DToArray(bc, 0, 0, h, 128, 128, 8, cudaMemcpyHostToDevice));
	RT("bc_2d_rows_9", cudaMemcpy2DToArray(bc, 0, 0, h, 128, 128, 9, cudaMemcpyHostToDevice));
	RT("bc_2d_rows_32", cudaMemcpy2DToArray(bc, 0, 0, h, 128, 128, 32, cudaMemcpyHostToDevice));
	RT("bc_linear", cudaMemcpyToArray(bc, 0, 0, h, 1024, cudaMemcpyHostToDevice));
	RT("bc_linear_over", cudaMemcpyToArray(bc, 0, 0, h, 1032, cudaMemcpyHostToDevice));
#define BC(id, change) do { bc_clear(bc);						\
		RTF(id, ({ struct cudaMemcpy3DParms p = to3(bc, e, 128, 32, cudaMemcpyHostToDevice); change; cudaMemcpy3D(&p); }),	\
		    "%s", bc_changed(bc)); cudaGetLastError(); } while (0)
	BC("bc_box_64_32", p.extent = ext(64, 32, 1));
	BC("bc_box_64_8", p.extent = ext(64, 8, 1));
	BC("bc_box_64_9", p.extent = ext(64, 9, 1));
	BC("bc_box_16_8", p.extent = ext(16, 8, 1));
	BC("bc_box_17_8", p.extent = ext(17, 8, 1));
	BC("bc_box_pitch_64", p.extent = ext(16, 8, 1); p.srcPtr.pitch = 64);
	BC("bc_box_pitch_16", p.extent = ext(16, 8, 1); p.srcPtr.pitch = 16);
	BC("bc_box_pitch_15", p.extent = ext(16, 8, 1); p.srcPtr.pitch = 15);
	BC("bc_box_3_3", p.extent = ext(3, 3, 1));
	BC("bc_box_1_1", p.extent = ext(1, 1, 1));
	BC("bc_box_pos_4_4", p.extent = ext(8, 8, 1); p.dstPos.x = 4; p.dstPos.y = 4);
	BC("bc_box_pos_2_0", p.extent = ext(8, 8, 1); p.dstPos.x = 2);
	BC("bc_box_pos_0_2", p.extent = ext(8, 8, 1); p.dstPos.y = 2);
	BC("bc_box_pos_8_8", p.extent = ext(8, 8, 1); p.dstPos.x = 8; p.dstPos.y = 8);
	BC("bc_box_src_x_8", p.extent = ext(8, 8, 1); p.srcPos.x = 8);
	BC("bc_box_68_8", p.extent = ext(68, 8, 1); p.srcPtr.pitch = 256);
	BC("bc_box_64_36", p.extent = ext(64, 36, 1));
	BC("bc_box_ysize_2", p.extent = ext(64, 16, 1); p.srcPtr.ysize = 2);
	BC("bc_box_ysize_8", p.extent = ext(64, 16, 1); p.srcPtr.ysize = 8);
	RT("bc_array_to_array", cudaMemcpy2DArrayToArray(bc, 0, 0, bc, 0, 0, 128, 8, cudaMemcpyDeviceToDevice));
	RT("bc_box_plain", ({ struct cudaMemcpy3DParms p; memset(&p, 0, sizeof(p)); p.srcArray = wide; p.dstArray = bc;
			      p.extent = ext(4, 4, 1); p.kind = cudaMemcpyDefault; cudaMemcpy3D(&p); }));
}

/* Copies of rows and boxes without arrays: which pitches are refused, and how? */
#define BOX(id, change) RT(id, ({ struct cudaMemcpy3DParms p; memset(&p, 0, sizeof(p));			\
		p.srcPtr = (struct cudaPitchedPtr){ e, 64, 64, 8 }; p.dstPtr = (struct cudaPitchedPtr){ d, 64, 64, 8 };	\
		p.extent = ext(40, 5, 1); p.kind = cudaMemcpyHostToDevice; change; cudaMemcpy3D(&p); }))

GROUP(rt_pitches)
{
	static unsigned char e[8192];
	unsigned char *d;

	RTREQ(cudaMalloc((void **)&d, 8192));
	RT("2d", cudaMemcpy2D(d, 64, e, 64, 40, 5, cudaMemcpyHostToDevice));
	RT("2d_src_39", cudaMemcpy2D(d, 64, e, 39, 40, 5, cudaMemcpyHostToDevice));
	RT("2d_dst_39", cudaMemcpy2D(d, 39, e, 64, 40, 5, cudaMemcpyHostToDevice));
	RT("2d_src_39_one_row", cudaMemcpy2D(d, 64, e, 39, 40, 1, cudaMemcpyHostToDevice));
	RT("2d_dst_39_one_row", cudaMemcpy2D(d, 39, e, 64, 40, 1, cudaMemcpyHostToDevice));
	RT("2d_src_0_one_row", cudaMemcpy2D(d, 64, e, 0, 40, 1, cudaMemcpyHostToDevice));
	RT("2d_dst_0_one_row", cudaMemcpy2D(d, 0, e, 64, 40, 1, cudaMemcpyHostToDevice));
	RT("2d_both_0_one_row", cudaMemcpy2D(d, 0, e, 0, 40, 1, cudaMemcpyHostToDevice));
	RT("2d_src_0", cudaMemcpy2D(d, 64, e, 0, 40, 5, cudaMemcpyHostToDevice));
	RT("2d_kind_9", cudaMemcpy2D(d, 64, e, 64, 40, 5, 9));
	RT("2d_kind_9_width_0", cudaMemcpy2D(d, 64, e, 64, 0, 5, 9));
	RT("2d_kind_9_pitch_39", cudaMemcpy2D(d, 64, e, 39, 40, 5, 9));
	RT("2d_pitch_0_width_0", cudaMemcpy2D(d, 0, e, 0, 0, 5, cudaMemcpyHostToDevice));
	RT("2d_null_width_0", cudaMemcpy2D(NULL, 0, NULL, 0, 0, 5, cudaMemcpyHostToDevice));
	RT("2d_pitch_huge", cudaMemcpy2D(d, 64, e, 1ul << 40, 40, 1, cudaMemcpyHostToDevice));
	BOX("3d", ((void)p));
	BOX("3d_src_39", p.srcPtr.pitch = 39);
	BOX("3d_dst_39", p.dstPtr.pitch = 39);
	BOX("3d_src_39_one_row", p.srcPtr.pitch = 39; p.extent.height = 1);
	BOX("3d_src_0_one_row", p.srcPtr.pitch = 0; p.extent.height = 1);
	BOX("3d_src_0", p.srcPtr.pitch = 0);
	BOX("3d_src_39_one_row_deep", p.srcPtr.pitch = 39; p.extent.height = 1; p.extent.depth = 2);
	BOX("3d_src_0_one_row_deep", p.srcPtr.pitch = 0; p.extent.height = 1; p.extent.depth = 2);
	BOX("3d_ysize_4", p.srcPtr.ysize = 4);
	BOX("3d_ysize_0", p.srcPtr.ysize = 0);
	BOX("3d_ysize_0_deep", p.srcPtr.ysize = 0; p.extent.depth = 2);
	BOX("3d_xsize_10", p.srcPtr.xsize = 10);
	BOX("3d_kind_9", p.kind = 9);
	BOX("3d_kind_9_width_0", p.kind = 9; p.extent.width = 0);
	BOX("3d_pitch_0_width_0", p.srcPtr.pitch = 0; p.extent.width = 0);
	BOX("3d_null_width_0", p.srcPtr.ptr = NULL; p.extent.width = 0);
	BOX("3d_src_x_out", p.srcPos.x = 30);
	BOX("3d_src_y_out", p.srcPos.y = 4);
	RT("3d_none", ({ struct cudaMemcpy3DParms p; memset(&p, 0, sizeof(p)); cudaMemcpy3D(&p); }));
	RT("lasterror", cudaGetLastError());
}
