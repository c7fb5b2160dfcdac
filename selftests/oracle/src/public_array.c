// SPDX-License-Identifier: GPL-2.0
/* Cases of CUDA arrays and mipmapped arrays. */
#include "oracle.h"

static CUDA_ARRAY_DESCRIPTOR d2(size_t w, size_t h, CUarray_format f, unsigned ch)
{
	CUDA_ARRAY_DESCRIPTOR d;
	memset(&d, 0, sizeof(d));
	d.Width = w; d.Height = h; d.Format = f; d.NumChannels = ch;
	return d;
}
static CUDA_ARRAY3D_DESCRIPTOR d3(size_t w, size_t h, size_t z, CUarray_format f, unsigned ch, unsigned fl)
{
	CUDA_ARRAY3D_DESCRIPTOR d;
	memset(&d, 0, sizeof(d));
	d.Width = w; d.Height = h; d.Depth = z; d.Format = f; d.NumChannels = ch; d.Flags = fl;
	return d;
}
#define U8 CU_AD_FORMAT_UNSIGNED_INT8
#define U16 CU_AD_FORMAT_UNSIGNED_INT16
#define U32 CU_AD_FORMAT_UNSIGNED_INT32
#define F32 CU_AD_FORMAT_FLOAT

static void try2(const char *id, CUDA_ARRAY_DESCRIPTOR d)
{
	CUarray a = NULL;
	CUDA_ARRAY_DESCRIPTOR q;
	CUDA_ARRAY3D_DESCRIPTOR q3;
	memset(&q, 0xee, sizeof(q));
	memset(&q3, 0xee, sizeof(q3));
	CUresult r = cuArrayCreate(&a, &d);
	if (r) {
		emit(id, "rc=%s", rcs(r));
		return;
	}
	CUresult r2 = cuArrayGetDescriptor(&q, a), r3 = cuArray3DGetDescriptor(&q3, a);
	emit(id, "rc=%s desc=%s,%zux%zu,fmt%d,ch%u desc3=%s,%zux%zux%zu,fmt%d,ch%u,flags%u destroy=%s", rcs(r), rcs(r2), q.Width, q.Height,
	     (int)q.Format, q.NumChannels, rcs(r3), q3.Width, q3.Height, q3.Depth, (int)q3.Format, q3.NumChannels, q3.Flags,
	     rcs(cuArrayDestroy(a)));
}
static void try3(const char *id, CUDA_ARRAY3D_DESCRIPTOR d)
{
	CUarray a = NULL;
	CUDA_ARRAY_DESCRIPTOR q;
	CUDA_ARRAY3D_DESCRIPTOR q3;
	memset(&q, 0, sizeof(q));
	memset(&q3, 0, sizeof(q3));
	CUresult r = cuArray3DCreate(&a, &d);
	if (r) {
		emit(id, "rc=%s", rcs(r));
		return;
	}
	CUresult r2 = cuArrayGetDescriptor(&q, a), r3 = cuArray3DGetDescriptor(&q3, a);
	emit(id, "rc=%s desc=%s,%zux%zu desc3=%s,%zux%zux%zu,fmt%d,ch%u,flags%u destroy=%s", rcs(r), rcs(r2), q.Width, q.Height, rcs(r3),
	     q3.Width, q3.Height, q3.Depth, (int)q3.Format, q3.NumChannels, q3.Flags, rcs(cuArrayDestroy(a)));
}

GROUP(array_create)
{
	init_ctx();
	try2("1d_u8", d2(16, 0, U8, 1));
	try2("1d_float", d2(2048, 0, F32, 1));
	try2("2d_float", d2(64, 64, F32, 1));
	try2("2d_half4", d2(33, 17, CU_AD_FORMAT_HALF, 4));
	try2("2d_u8x2", d2(100, 50, U8, 2));
	try2("2d_s16", d2(1, 1, CU_AD_FORMAT_SIGNED_INT16, 1));
	try2("2d_u32x4", d2(7, 3, U32, 4));
	try2("1d_max", d2((size_t)dev_attr(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH), 0, U8, 1));
	try2("1d_max_plus_1", d2((size_t)dev_attr(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH) + 1, 0, U8, 1));
	try2("2d_maxw", d2((size_t)dev_attr(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH), 1, U8, 1));
	try2("2d_maxw_plus_1", d2((size_t)dev_attr(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH) + 1, 1, U8, 1));
	try2("2d_maxh", d2(1, (size_t)dev_attr(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT), U8, 1));
	try2("2d_maxh_plus_1", d2(1, (size_t)dev_attr(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT) + 1, U8, 1));
	try2("width_0", d2(0, 0, U8, 1));
	try2("width_0_h5", d2(0, 5, U8, 1));
	try2("channels_0", d2(16, 16, U8, 0));
	try2("channels_3", d2(16, 16, U8, 3));
	try2("channels_5", d2(16, 16, U8, 5));
	try2("channels_8", d2(16, 16, U8, 8));
	try2("format_0", d2(16, 16, 0, 1));
	try2("format_4", d2(16, 16, 4, 1));
	try2("format_ff", d2(16, 16, 0xff, 1));
	try2("unorm8x1", d2(16, 16, CU_AD_FORMAT_UNORM_INT8X1, 1));
	try2("unorm8x4", d2(16, 16, CU_AD_FORMAT_UNORM_INT8X4, 4));
	try2("unorm8x4_ch1", d2(16, 16, CU_AD_FORMAT_UNORM_INT8X4, 1));
	try2("bc1", d2(16, 16, CU_AD_FORMAT_BC1_UNORM, 4));
	try2("nv12_ch3", d2(16, 16, CU_AD_FORMAT_NV12, 3));
	CUarray a;
	CUDA_ARRAY_DESCRIPTOR d = d2(16, 16, U8, 1);
	CUDA_ARRAY3D_DESCRIPTOR e = d3(16, 16, 0, U8, 1, 0);
	T("null_handle", cuArrayCreate(NULL, &d));
	T("null_desc", cuArrayCreate(&a, NULL));
	T("null_handle_3d", cuArray3DCreate(NULL, &e));
	T("null_desc_3d", cuArray3DCreate(&a, NULL));
	TNOCTX("no_ctx", cuArrayCreate(&a, &d));
	TNOCTX("no_ctx_3d", cuArray3DCreate(&a, &e));
	REQ(cuArrayCreate(&a, &d));
	T("getdesc_null_out", cuArrayGetDescriptor(NULL, a));
	T("get3desc_null_out", cuArray3DGetDescriptor(NULL, a));
	T("getdesc_null_arr", cuArrayGetDescriptor(&d, NULL));
	T("get3desc_null_arr", cuArray3DGetDescriptor(&e, NULL));
	TNOCTX("getdesc_no_ctx", cuArrayGetDescriptor(&d, a));
	TNOCTX("get3desc_no_ctx", cuArray3DGetDescriptor(&e, a));
	TNOCTX("destroy_no_ctx", cuArrayDestroy(a));
	T("destroy_null", cuArrayDestroy(NULL));
}

GROUP(array3d_create)
{
	init_ctx();
	try3("1d", d3(64, 0, 0, F32, 1, 0));
	try3("2d", d3(64, 32, 0, F32, 2, 0));
	try3("3d", d3(16, 8, 4, U8, 4, 0));
	try3("1d_layered", d3(64, 0, 5, F32, 1, CUDA_ARRAY3D_LAYERED));
	try3("2d_layered", d3(64, 32, 5, F32, 1, CUDA_ARRAY3D_LAYERED));
	try3("cubemap", d3(32, 32, 6, U8, 4, CUDA_ARRAY3D_CUBEMAP));
	try3("cubemap_layered", d3(32, 32, 12, U8, 4, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED));
	try3("cubemap_not_square", d3(32, 16, 6, U8, 4, CUDA_ARRAY3D_CUBEMAP));
	try3("cubemap_depth_5", d3(32, 32, 5, U8, 4, CUDA_ARRAY3D_CUBEMAP));
	try3("cubemap_depth_12", d3(32, 32, 12, U8, 4, CUDA_ARRAY3D_CUBEMAP));
	try3("cubemap_layered_depth_7", d3(32, 32, 7, U8, 4, CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_LAYERED));
	try3("layered_depth_0", d3(32, 32, 0, U8, 4, CUDA_ARRAY3D_LAYERED));
	try3("depth_without_height", d3(32, 0, 4, U8, 4, 0));
	try3("surface_2d", d3(32, 32, 0, U8, 4, CUDA_ARRAY3D_SURFACE_LDST));
	try3("surface_3d", d3(32, 32, 2, F32, 1, CUDA_ARRAY3D_SURFACE_LDST));
	try3("gather_2d", d3(32, 32, 0, F32, 1, CUDA_ARRAY3D_TEXTURE_GATHER));
	try3("gather_1d", d3(32, 0, 0, F32, 1, CUDA_ARRAY3D_TEXTURE_GATHER));
	try3("gather_3d", d3(32, 32, 4, F32, 1, CUDA_ARRAY3D_TEXTURE_GATHER));
	try3("depth_texture", d3(32, 32, 0, F32, 1, CUDA_ARRAY3D_DEPTH_TEXTURE));
	try3("color_attachment", d3(32, 32, 0, U8, 4, CUDA_ARRAY3D_COLOR_ATTACHMENT));
	try3("sparse_2d", d3(1024, 1024, 0, U8, 4, CUDA_ARRAY3D_SPARSE));
	try3("sparse_1d", d3(1024, 0, 0, U8, 4, CUDA_ARRAY3D_SPARSE));
	try3("deferred_2d", d3(256, 256, 0, U8, 4, CUDA_ARRAY3D_DEFERRED_MAPPING));
	try3("sparse_deferred", d3(256, 256, 0, U8, 4, CUDA_ARRAY3D_DEFERRED_MAPPING | CUDA_ARRAY3D_SPARSE));
	try3("flag_400", d3(32, 32, 0, U8, 4, 0x400));
	try3("flag_80000000", d3(32, 32, 0, U8, 4, 0x80000000u));
	try3("width_0", d3(0, 32, 4, U8, 4, 0));
	try3("channels_3", d3(8, 8, 8, U8, 3, 0));
	try3("format_0", d3(8, 8, 8, 0, 1, 0));
	size_t mw = (size_t)dev_attr(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH);
	try3("3d_huge", d3(16384, 16384, 16384, F32, 4, 0));
	try3("3d_maxw", d3(mw, 1, 1, U8, 1, 0));
	try3("3d_maxw_plus_1", d3(mw + 1, 1, 1, U8, 1, 0));
	size_t ml = (size_t)dev_attr(CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS);
	try3("2d_layers_max", d3(4, 4, ml, U8, 1, CUDA_ARRAY3D_LAYERED));
	try3("2d_layers_max_plus_1", d3(4, 4, ml + 1, U8, 1, CUDA_ARRAY3D_LAYERED));
}

GROUP(array_copy1d)
{
	init_ctx();
	CUDA_ARRAY_DESCRIPTOR d = d2(4096, 0, U32, 1);
	CUarray a, b;
	CUstream s;
	unsigned char *h = malloc(65536), *r = malloc(65536);
	REQ(cuArrayCreate(&a, &d));
	REQ(cuArrayCreate(&b, &d));
	REQ(cuStreamCreate(&s, 0));
	CUdeviceptr dev = dalloc(65536);
	fill(h, 65536, 3);
	memset(r, 0, 65536);
	CUresult r1 = cuMemcpyHtoA(a, 0, h, 16384), r2 = cuMemcpyAtoH(r, a, 0, 16384);
	emit("htoa_atoh", "rc=%s,%s %s", rcs(r1), rcs(r2), hsame(r, 16384, 3));
	r1 = cuMemcpyAtoD(dev, a, 0, 16384);
	emit("atod", "rc=%s %s", rcs(r1), dsame(dev, 16384, 3));
	r1 = cuMemcpyAtoA(b, 0, a, 0, 16384);
	memset(r, 0, 65536);
	r2 = cuMemcpyAtoH(r, b, 0, 16384);
	emit("atoa", "rc=%s,%s %s", rcs(r1), rcs(r2), hsame(r, 16384, 3));
	dfill(dev, 16384, 12);
	r1 = cuMemcpyDtoA(b, 0, dev, 16384);
	memset(r, 0, 65536);
	r2 = cuMemcpyAtoH(r, b, 0, 16384);
	emit("dtoa", "rc=%s,%s %s", rcs(r1), rcs(r2), hsame(r, 16384, 12));
	fill(h, 65536, 21);
	r1 = cuMemcpyHtoAAsync(a, 0, h, 16384, s);
	memset(r, 0, 65536);
	r2 = cuMemcpyAtoHAsync(r, a, 0, 16384, s);
	CUresult r3 = cuStreamSynchronize(s);
	emit("async", "rc=%s,%s,%s %s", rcs(r1), rcs(r2), rcs(r3), hsame(r, 16384, 21));
	fill(h, 400, 33);
	r1 = cuMemcpyHtoA(a, 1000, h, 400);
	memset(r, 0, 65536);
	cuMemcpyAtoH(r, a, 0, 16384);
	unsigned char *w = malloc(16384);
	fill(w, 16384, 21);
	memcpy(w + 1000, h, 400);
	emit("htoa_offset", "rc=%s exact=%d", rcs(r1), !memcmp(w, r, 16384));
	memset(r, 0, 400);
	r1 = cuMemcpyAtoH(r, a, 1000, 400);
	emit("atoh_offset", "rc=%s %s", rcs(r1), hsame(r, 400, 33));
	r1 = cuMemcpyAtoA(b, 2000, a, 1000, 400);
	memset(r, 0, 400);
	cuMemcpyAtoH(r, b, 2000, 400);
	emit("atoa_offsets", "rc=%s %s", rcs(r1), hsame(r, 400, 33));
	T("htoa_zero", cuMemcpyHtoA(a, 0, h, 0));
	T("atoh_zero", cuMemcpyAtoH(r, a, 0, 0));
	T("htoa_not_elem_multiple", cuMemcpyHtoA(a, 0, h, 401));
	T("htoa_offset_not_elem_multiple", cuMemcpyHtoA(a, 2, h, 400));
	T("htoa_past_end", cuMemcpyHtoA(a, 16000, h, 400));
	T("atoh_past_end", cuMemcpyAtoH(r, a, 16384, 4));
	T("atod_past_end", cuMemcpyAtoD(dev, a, 16384, 4));
	T("dtoa_past_end", cuMemcpyDtoA(a, 16383, dev, 4));
	T("atoa_past_end", cuMemcpyAtoA(b, 0, a, 16380, 8));
	T("htoa_null_host", cuMemcpyHtoA(a, 0, NULL, 400));
	T("atoh_null_host", cuMemcpyAtoH(NULL, a, 0, 400));
	T("htoa_null_arr", cuMemcpyHtoA(NULL, 0, h, 400));
	T("atoh_null_arr", cuMemcpyAtoH(r, NULL, 0, 400));
	T("dtoa_null_dev", cuMemcpyDtoA(a, 0, 0, 400));
	T("atod_null_dev", cuMemcpyAtoD(0, a, 0, 400));
	T("atoa_null_src", cuMemcpyAtoA(b, 0, NULL, 0, 400));
	T("htoaasync_null_host", cuMemcpyHtoAAsync(a, 0, NULL, 400, s));
	T("atohasync_null_host", cuMemcpyAtoHAsync(NULL, a, 0, 400, s));
	TNOCTX("htoa_no_ctx", cuMemcpyHtoA(a, 0, h, 4));
	TNOCTX("atoh_no_ctx", cuMemcpyAtoH(r, a, 0, 4));
	TNOCTX("dtoa_no_ctx", cuMemcpyDtoA(a, 0, dev, 4));
	TNOCTX("atod_no_ctx", cuMemcpyAtoD(dev, a, 0, 4));
	TNOCTX("atoa_no_ctx", cuMemcpyAtoA(a, 0, b, 0, 4));
	TNOCTX("htoaasync_no_ctx", cuMemcpyHtoAAsync(a, 0, h, 4, s));
	TNOCTX("atohasync_no_ctx", cuMemcpyAtoHAsync(r, a, 0, 4, s));
	CUDA_ARRAY_DESCRIPTOR d16 = d2(8192, 0, U16, 1), d16x2 = d2(4096, 0, U16, 2);
	CUarray c, e;
	REQ(cuArrayCreate(&c, &d16));
	REQ(cuArrayCreate(&e, &d16x2));
	T("atoa_elem_size_mismatch", cuMemcpyAtoA(c, 0, a, 0, 400));
	T("atoa_same_elem_size", cuMemcpyAtoA(e, 0, a, 0, 400));
	CUDA_ARRAY_DESCRIPTOR dd = d2(64, 16, U8, 1);
	CUarray f;
	REQ(cuArrayCreate(&f, &dd));
	T("htoa_on_2d_first_row", cuMemcpyHtoA(f, 0, h, 64));
	T("htoa_on_2d_two_rows", cuMemcpyHtoA(f, 0, h, 128));
	T("htoa_on_2d_second_row", cuMemcpyHtoA(f, 64, h, 64));
}

GROUP(array_copy2d3d)
{
	init_ctx();
	unsigned char *h = malloc(65536), *r = malloc(65536);
	CUdeviceptr dev = dalloc(65536);
	CUDA_ARRAY_DESCRIPTOR d = d2(60, 33, U8, 4);
	CUarray a;
	REQ(cuArrayCreate(&a, &d));
	CUDA_MEMCPY2D c;
	memset(&c, 0, sizeof(c));
	fill(h, 65536, 2);
	c.srcMemoryType = CU_MEMORYTYPE_HOST; c.srcHost = h; c.srcPitch = 240;
	c.dstMemoryType = CU_MEMORYTYPE_ARRAY; c.dstArray = a;
	c.WidthInBytes = 240; c.Height = 33;
	CUresult r1 = cuMemcpy2D(&c);
	CUDA_MEMCPY2D b;
	memset(&b, 0, sizeof(b));
	b.srcMemoryType = CU_MEMORYTYPE_ARRAY; b.srcArray = a;
	b.dstMemoryType = CU_MEMORYTYPE_HOST; b.dstHost = r; b.dstPitch = 240;
	b.WidthInBytes = 240; b.Height = 33;
	memset(r, 0, 65536);
	CUresult r2 = cuMemcpy2D(&b);
	emit("2d_roundtrip", "rc=%s,%s %s", rcs(r1), rcs(r2), hsame(r, 240 * 33, 2));
	CUDA_MEMCPY2D e = b;
	e.dstMemoryType = CU_MEMORYTYPE_DEVICE; e.dstDevice = dev; e.dstPitch = 240;
	TF("2d_array_to_dev_plain", cuMemcpy2D(&e), "%s", dsame(dev, 240 * 33, 2));
	cuMemsetD8(dev, 0, 65536);
	TF("2d_array_to_dev_unaligned", cuMemcpy2DUnaligned(&e), "%s", dsame(dev, 240 * 33, 2));
	CUDA_MEMCPY2D o = c;
	o.dstXInBytes = 40; o.dstY = 10; o.WidthInBytes = 80; o.Height = 5;
	r1 = cuMemcpy2D(&o);
	cuMemcpy2D(&b);
	unsigned char *w = malloc(65536);
	fill(w, 65536, 2);
	for (int y = 0; y < 5; y++)
		memcpy(w + (y + 10) * 240 + 40, h + y * 240, 80);
	emit("2d_sub_rect", "rc=%s exact=%d", rcs(r1), !memcmp(w, r, 240 * 33));
	o = c; o.dstXInBytes = 2;  o.WidthInBytes = 80;  T("2d_x_not_elem_multiple", cuMemcpy2D(&o));
	o = c; o.WidthInBytes = 241;                     T("2d_width_over", cuMemcpy2D(&o));
	o = c; o.WidthInBytes = 82;                      T("2d_width_not_elem_multiple", cuMemcpy2D(&o));
	o = c; o.Height = 34;                            T("2d_height_over", cuMemcpy2D(&o));
	o = c; o.dstY = 33; o.Height = 1;                T("2d_y_over", cuMemcpy2D(&o));
	CUDA_ARRAY3D_DESCRIPTOR d3a = d3(20, 10, 6, U16, 2, 0);
	CUarray v;
	REQ(cuArray3DCreate(&v, &d3a));
	CUDA_MEMCPY3D m;
	memset(&m, 0, sizeof(m));
	m.srcMemoryType = CU_MEMORYTYPE_HOST; m.srcHost = h; m.srcPitch = 80; m.srcHeight = 10;
	m.dstMemoryType = CU_MEMORYTYPE_ARRAY; m.dstArray = v;
	m.WidthInBytes = 80; m.Height = 10; m.Depth = 6;
	CUDA_MEMCPY3D n;
	memset(&n, 0, sizeof(n));
	n.srcMemoryType = CU_MEMORYTYPE_ARRAY; n.srcArray = v;
	n.dstMemoryType = CU_MEMORYTYPE_HOST; n.dstHost = r; n.dstPitch = 80; n.dstHeight = 10;
	n.WidthInBytes = 80; n.Height = 10; n.Depth = 6;
	r1 = cuMemcpy3D(&m);
	memset(r, 0, 65536);
	r2 = cuMemcpy3D(&n);
	emit("3d_roundtrip", "rc=%s,%s %s", rcs(r1), rcs(r2), hsame(r, 4800, 2));
	CUDA_MEMCPY3D x = m;
	x.dstZ = 3; x.Depth = 2; x.dstY = 4; x.Height = 3; x.dstXInBytes = 8; x.WidthInBytes = 40;
	r1 = cuMemcpy3D(&x);
	cuMemcpy3D(&n);
	fill(w, 65536, 2);
	for (int z = 0; z < 2; z++)
		for (int y = 0; y < 3; y++)
			memcpy(w + ((z + 3) * 10 + y + 4) * 80 + 8, h + (z * 10 + y) * 80, 40);
	emit("3d_sub_box", "rc=%s exact=%d", rcs(r1), !memcmp(w, r, 4800));
	x = m; x.Depth = 7;              T("3d_depth_over", cuMemcpy3D(&x));
	x = m; x.dstZ = 6; x.Depth = 1;  T("3d_z_over", cuMemcpy3D(&x));
	x = m; x.dstXInBytes = 3; x.WidthInBytes = 40; T("3d_x_not_multiple", cuMemcpy3D(&x));
	CUDA_ARRAY3D_DESCRIPTOR dl = d3(20, 10, 6, U16, 2, CUDA_ARRAY3D_LAYERED);
	CUarray l;
	REQ(cuArray3DCreate(&l, &dl));
	m.dstArray = l;
	n.srcArray = l;
	r1 = cuMemcpy3D(&m);
	memset(r, 0, 65536);
	r2 = cuMemcpy3D(&n);
	emit("layered_roundtrip", "rc=%s,%s %s", rcs(r1), rcs(r2), hsame(r, 4800, 2));
	CUDA_MEMCPY3D aa;
	memset(&aa, 0, sizeof(aa));
	aa.srcMemoryType = aa.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	aa.srcArray = l; aa.dstArray = v; aa.WidthInBytes = 80; aa.Height = 10; aa.Depth = 6;
	cuMemsetD8(dev, 0, 65536);
	r1 = cuMemcpy3D(&aa);
	n.srcArray = v;
	memset(r, 0, 65536);
	cuMemcpy3D(&n);
	emit("array_to_array_3d", "rc=%s %s", rcs(r1), hsame(r, 4800, 2));
}

GROUP(array_plane_props)
{
	init_ctx();
	CUDA_ARRAY_DESCRIPTOR d = d2(64, 64, U8, 1);
	CUarray a, pl = NULL;
	REQ(cuArrayCreate(&a, &d));
	T("plane_of_single_plane", cuArrayGetPlane(&pl, a, 0));
	T("plane_null_out", cuArrayGetPlane(NULL, a, 0));
	T("plane_null_arr", cuArrayGetPlane(&pl, NULL, 0));
	CUDA_ARRAY_SPARSE_PROPERTIES sp;
	CUDA_ARRAY_MEMORY_REQUIREMENTS mr;
	T("sparse_props_not_sparse", cuArrayGetSparseProperties(&sp, a));
	T("sparse_props_null_out", cuArrayGetSparseProperties(NULL, a));
	T("sparse_props_null_arr", cuArrayGetSparseProperties(&sp, NULL));
	T("memreq_not_deferred", cuArrayGetMemoryRequirements(&mr, a, g_dev));
	T("memreq_null_out", cuArrayGetMemoryRequirements(NULL, a, g_dev));
	T("memreq_null_arr", cuArrayGetMemoryRequirements(&mr, NULL, g_dev));
	T("memreq_bad_dev", cuArrayGetMemoryRequirements(&mr, a, 99));
	CUDA_ARRAY3D_DESCRIPTOR nd = d3(64, 32, 0, CU_AD_FORMAT_NV12, 3, 0);
	CUarray nv;
	CUresult r = cuArray3DCreate(&nv, &nd);
	emit("nv12_create", "rc=%s", rcs(r));
	if (!r) {
		for (unsigned i = 0; i < 4; i++) {
			CUDA_ARRAY_DESCRIPTOR q;
			memset(&q, 0, sizeof(q));
			pl = NULL;
			r = cuArrayGetPlane(&pl, nv, i);
			if (!r)
				cuArrayGetDescriptor(&q, pl);
			emit(F("nv12_plane_%u", i), "rc=%s %zux%zu fmt%d ch%u", rcs(r), q.Width, q.Height, (int)q.Format, q.NumChannels);
		}
		cuArrayDestroy(nv);
	}
	CUDA_ARRAY3D_DESCRIPTOR sd = d3(1024, 1024, 0, U8, 4, CUDA_ARRAY3D_SPARSE);
	CUarray sa;
	r = cuArray3DCreate(&sa, &sd);
	emit("sparse_create", "rc=%s attr=%d", rcs(r), dev_attr(CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED));
	if (!r) {
		memset(&sp, 0, sizeof(sp));
		TF("sparse_props", cuArrayGetSparseProperties(&sp, sa), "tile=%ux%ux%u miptail_first=%u size=%llu flags=%u", sp.tileExtent.width,
		   sp.tileExtent.height, sp.tileExtent.depth, sp.miptailFirstLevel, sp.miptailSize, sp.flags);
		T("sparse_memreq", cuArrayGetMemoryRequirements(&mr, sa, g_dev));
		cuArrayDestroy(sa);
	}
	CUDA_ARRAY3D_DESCRIPTOR dd = d3(256, 256, 0, U8, 4, CUDA_ARRAY3D_DEFERRED_MAPPING);
	r = cuArray3DCreate(&sa, &dd);
	emit("deferred_create", "rc=%s attr=%d", rcs(r), dev_attr(CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED));
	if (!r) {
		memset(&mr, 0, sizeof(mr));
		r = cuArrayGetMemoryRequirements(&mr, sa, g_dev);
		emit("deferred_memreq", "rc=%s size_ge=%d align_pow2=%d", rcs(r), mr.size >= 256 * 256 * 4, mr.alignment && !(mr.alignment & (mr.alignment - 1)));
		emit("deferred_memreq.impl", "size=%zu align=%zu", mr.size, mr.alignment);
		T("deferred_sparse_props", cuArrayGetSparseProperties(&sp, sa));
		cuArrayDestroy(sa);
	}
}

GROUP(mipmap)
{
	init_ctx();
	static const unsigned lv[] = { 0, 1, 2, 5, 6, 7, 100 };
	CUDA_ARRAY3D_DESCRIPTOR d = d3(32, 16, 0, U8, 4, 0);
	CUmipmappedArray m;
	for (size_t i = 0; i < sizeof(lv) / sizeof(lv[0]); i++) {
		CUresult r = cuMipmappedArrayCreate(&m, &d, lv[i]);
		if (r) {
			emit(F("create_32x16_levels_%u", lv[i]), "rc=%s", rcs(r));
			continue;
		}
		unsigned n = 0;
		char dims[256] = "";
		CUresult last = 0;
		for (unsigned k = 0; k < 12; k++) {
			CUarray a = NULL;
			CUDA_ARRAY3D_DESCRIPTOR q;
			memset(&q, 0, sizeof(q));
			last = cuMipmappedArrayGetLevel(&a, m, k);
			if (last)
				break;
			cuArray3DGetDescriptor(&q, a);
			n++;
			snprintf(dims + strlen(dims), sizeof(dims) - strlen(dims), "%zux%zu,", q.Width, q.Height);
		}
		emit(F("create_32x16_levels_%u", lv[i]), "rc=%s levels=%u dims=%s past_last=%s destroy=%s", rcs(r), n, dims, rcs(last),
		     rcs(cuMipmappedArrayDestroy(m)));
	}
	CUDA_ARRAY3D_DESCRIPTOR v = d3(16, 8, 4, U8, 1, 0);
	REQ(cuMipmappedArrayCreate(&m, &v, 10));
	for (unsigned k = 0; k < 6; k++) {
		CUarray a = NULL;
		CUDA_ARRAY3D_DESCRIPTOR q;
		memset(&q, 0, sizeof(q));
		CUresult r = cuMipmappedArrayGetLevel(&a, m, k);
		if (!r)
			cuArray3DGetDescriptor(&q, a);
		emit(F("3d_16x8x4_level_%u", k), "rc=%s %zux%zux%zu", rcs(r), q.Width, q.Height, q.Depth);
	}
	CUarray x = NULL, y = NULL;
	cuMipmappedArrayGetLevel(&x, m, 1);
	cuMipmappedArrayGetLevel(&y, m, 1);
	emit("same_level_same_handle.impl", "%d", x == y);
	cuMipmappedArrayDestroy(m);
	REQ(cuMipmappedArrayCreate(&m, &d, 3));
	CUarray l0, l1;
	REQ(cuMipmappedArrayGetLevel(&l0, m, 0));
	REQ(cuMipmappedArrayGetLevel(&l1, m, 1));
	unsigned char h[2048], r[2048];
	fill(h, 2048, 1);
	CUDA_MEMCPY2D c;
	memset(&c, 0, sizeof(c));
	c.srcMemoryType = CU_MEMORYTYPE_HOST; c.srcHost = h; c.srcPitch = 128;
	c.dstMemoryType = CU_MEMORYTYPE_ARRAY; c.dstArray = l0; c.WidthInBytes = 128; c.Height = 16;
	CUresult r1 = cuMemcpy2D(&c);
	fill(h, 2048, 2);
	c.dstArray = l1; c.srcPitch = 64; c.WidthInBytes = 64; c.Height = 8;
	CUresult r2 = cuMemcpy2D(&c);
	CUDA_MEMCPY2D b;
	memset(&b, 0, sizeof(b));
	b.srcMemoryType = CU_MEMORYTYPE_ARRAY; b.srcArray = l0;
	b.dstMemoryType = CU_MEMORYTYPE_HOST; b.dstHost = r; b.dstPitch = 128; b.WidthInBytes = 128; b.Height = 16;
	CUresult r3 = cuMemcpy2D(&b);
	emit("level0_data", "rc=%s,%s,%s %s", rcs(r1), rcs(r2), rcs(r3), hsame(r, 2048, 1));
	b.srcArray = l1; b.dstPitch = 64; b.WidthInBytes = 64; b.Height = 8;
	r3 = cuMemcpy2D(&b);
	emit("level1_data", "rc=%s %s", rcs(r3), hsame(r, 512, 2));
	CUDA_ARRAY_SPARSE_PROPERTIES sp;
	CUDA_ARRAY_MEMORY_REQUIREMENTS mr;
	T("sparse_props_not_sparse", cuMipmappedArrayGetSparseProperties(&sp, m));
	T("memreq_not_deferred", cuMipmappedArrayGetMemoryRequirements(&mr, m, g_dev));
	T("sparse_props_null", cuMipmappedArrayGetSparseProperties(NULL, m));
	T("memreq_null", cuMipmappedArrayGetMemoryRequirements(NULL, m, g_dev));
	T("level_null_out", cuMipmappedArrayGetLevel(NULL, m, 0));
	T("level_null_mip", cuMipmappedArrayGetLevel(&x, NULL, 0));
	T("level_max", cuMipmappedArrayGetLevel(&x, m, 0xffffffffu));
	T("level_array_destroy", cuArrayDestroy(l1));
	TNOCTX("level_no_ctx", cuMipmappedArrayGetLevel(&x, m, 0));
	TNOCTX("destroy_no_ctx", cuMipmappedArrayDestroy(m));
	T("destroy_null", cuMipmappedArrayDestroy(NULL));
	T("create_null_out", cuMipmappedArrayCreate(NULL, &d, 1));
	T("create_null_desc", cuMipmappedArrayCreate(&m, NULL, 1));
	TNOCTX("create_no_ctx", cuMipmappedArrayCreate(&m, &d, 1));
	d = d3(0, 16, 0, U8, 4, 0);       T("create_width_0", cuMipmappedArrayCreate(&m, &d, 1));
	d = d3(16, 16, 0, U8, 3, 0);      T("create_channels_3", cuMipmappedArrayCreate(&m, &d, 1));
	d = d3(16, 16, 0, 0, 1, 0);       T("create_format_0", cuMipmappedArrayCreate(&m, &d, 1));
	d = d3(16, 16, 5, U8, 4, CUDA_ARRAY3D_CUBEMAP); T("create_cubemap_depth_5", cuMipmappedArrayCreate(&m, &d, 2));
	d = d3(16, 16, 6, U8, 4, CUDA_ARRAY3D_CUBEMAP); T("create_cubemap", cuMipmappedArrayCreate(&m, &d, 2));
	d = d3(16, 16, 0, U8, 4, 0x400);  T("create_flag_400", cuMipmappedArrayCreate(&m, &d, 2));
	d = d3(256, 256, 0, U8, 4, CUDA_ARRAY3D_SPARSE);
	r1 = cuMipmappedArrayCreate(&m, &d, 4);
	memset(&sp, 0, sizeof(sp));
	r2 = r1 ? r1 : cuMipmappedArrayGetSparseProperties(&sp, m);
	emit("sparse", "rc=%s,%s tile=%ux%ux%u first=%u size=%llu flags=%u", rcs(r1), rcs(r2), sp.tileExtent.width, sp.tileExtent.height,
	     sp.tileExtent.depth, sp.miptailFirstLevel, sp.miptailSize, sp.flags);
	if (!r1) {
		REQ(cuMipmappedArrayGetLevel(&x, m, 0));
		T("sparse_props_of_level", cuArrayGetSparseProperties(&sp, x));
		cuMipmappedArrayDestroy(m);
	}
	d = d3(256, 256, 0, U8, 4, CUDA_ARRAY3D_DEFERRED_MAPPING);
	r1 = cuMipmappedArrayCreate(&m, &d, 4);
	memset(&mr, 0, sizeof(mr));
	r2 = r1 ? r1 : cuMipmappedArrayGetMemoryRequirements(&mr, m, g_dev);
	emit("deferred", "rc=%s,%s size_ge=%d", rcs(r1), rcs(r2), mr.size >= 256 * 256 * 4);
}

static CUarray dead_array(void)
{
	CUDA_ARRAY_DESCRIPTOR d = d2(64, 64, U8, 1);
	CUarray a = NULL;
	cuArrayCreate(&a, &d);
	cuArrayDestroy(a);
	return a;
}
static CUmipmappedArray dead_mip(void)
{
	CUDA_ARRAY3D_DESCRIPTOR d = d3(64, 64, 0, U8, 1, 0);
	CUmipmappedArray a = NULL;
	cuMipmappedArrayCreate(&a, &d, 3);
	cuMipmappedArrayDestroy(a);
	return a;
}
static char hb[64];
RISKY(array_double_destroy, cuArrayDestroy(dead_array()))
RISKY(array_getdesc_destroyed, cuArrayGetDescriptor(&d, dead_array()), CUDA_ARRAY_DESCRIPTOR d)
RISKY(array_htoa_destroyed, cuMemcpyHtoA(dead_array(), 0, hb, 64))
RISKY(mipmap_double_destroy, cuMipmappedArrayDestroy(dead_mip()))
RISKY(mipmap_getlevel_destroyed, cuMipmappedArrayGetLevel(&a, dead_mip(), 0), CUarray a)
