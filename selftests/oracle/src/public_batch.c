// SPDX-License-Identifier: GPL-2.0
/* Cases of cuMemcpyBatchAsync, cuMemcpy3DBatchAsync, cuMemBatchDecompressAsync */
#include "oracle.h"
#include "compdata.h"

GROUP(batch)
{
	init_ctx();
	enum { N = 6 };
	CUstream s;
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	CUdeviceptr dst[N], src[N];
	size_t sz[N];
	unsigned char *ph = NULL;
	REQ(cuMemAllocHost((void **)&ph, 65536));
	unsigned char *pg = malloc(65536);
	for (int i = 0; i < N; i++) {
		dst[i] = dalloc(8192);
		sz[i] = (size_t)(1000 * i + 1);
		if (i % 3 == 0) { src[i] = dalloc(8192); dfill(src[i], 8192, (unsigned)i); }
		else if (i % 3 == 1) { fill(ph + i * 8192, 8192, (unsigned)i); src[i] = DPTR(ph + i * 8192); }
		else { fill(pg + i * 8192, 8192, (unsigned)i); src[i] = DPTR(pg + i * 8192); }
	}
	CUmemcpyAttributes at[N];
	size_t ix[N] = { 0, 2, 4, 5, 6, 7 };
	memset(at, 0, sizeof(at));
	for (int i = 0; i < N; i++)
		at[i].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
	T("one_attr", cuMemcpyBatchAsync(dst, src, sz, N, at, ix, 1, s));
	T("one_attr_sync", cuStreamSynchronize(s));
	for (int i = 0; i < N; i++)
		emit(F("one_attr_data_%d", i), "%s", dsame(dst[i], sz[i], (unsigned)i));
	for (int i = 0; i < N; i++)
		cuMemsetD8(dst[i], 0, 8192);
	cuCtxSynchronize();
	at[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
	at[2].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
	at[2].flags = CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE;
	T("three_attrs", cuMemcpyBatchAsync(dst, src, sz, N, at, ix, 3, s));
	T("three_attrs_sync", cuStreamSynchronize(s));
	int ok = 0;
	for (int i = 0; i < N; i++)
		ok += !strcmp(dsame(dst[i], sz[i], (unsigned)i), "intact");
	emit("three_attrs_data", "%d of %d", ok, N);
	/* device to host direction */
	memset(ph, 0, 65536);
	CUdeviceptr hd[2] = { DPTR(ph), DPTR(ph + 8192) }, hs[2] = { dst[3], dst[5] };
	size_t hz[2] = { sz[3], sz[5] };
	T("to_host", cuMemcpyBatchAsync(hd, hs, hz, 2, at, ix, 1, s));
	cuStreamSynchronize(s);
	emit("to_host_data", "%s %s", hsame(ph, sz[3], 3), hsame(ph + 8192, sz[5], 5));
	T("null_stream", cuMemcpyBatchAsync(dst, src, sz, N, at, ix, 1, 0));
	T("legacy_stream", cuMemcpyBatchAsync(dst, src, sz, N, at, ix, 1, CU_STREAM_LEGACY));
	T("per_thread_stream", cuMemcpyBatchAsync(dst, src, sz, N, at, ix, 1, CU_STREAM_PER_THREAD));
	T("count_0", cuMemcpyBatchAsync(dst, src, sz, 0, at, ix, 1, s));
	T("count_0_all_null", cuMemcpyBatchAsync(NULL, NULL, NULL, 0, NULL, NULL, 0, s));
	T("dsts_null", cuMemcpyBatchAsync(NULL, src, sz, N, at, ix, 1, s));
	T("srcs_null", cuMemcpyBatchAsync(dst, NULL, sz, N, at, ix, 1, s));
	T("sizes_null", cuMemcpyBatchAsync(dst, src, NULL, N, at, ix, 1, s));
	T("attrs_null", cuMemcpyBatchAsync(dst, src, sz, N, NULL, ix, 1, s));
	T("idxs_null", cuMemcpyBatchAsync(dst, src, sz, N, at, NULL, 1, s));
	T("num_attrs_0", cuMemcpyBatchAsync(dst, src, sz, N, at, ix, 0, s));
	T("num_attrs_gt_count", cuMemcpyBatchAsync(dst, src, sz, 2, at, ix, 3, s));
	size_t b1[2] = { 1, 2 }, b2[2] = { 0, 0 }, b3[2] = { 0, N }, b4[3] = { 0, 3, 2 };
	T("first_idx_not_0", cuMemcpyBatchAsync(dst, src, sz, N, at, b1, 2, s));
	T("idx_not_increasing", cuMemcpyBatchAsync(dst, src, sz, N, at, b2, 2, s));
	T("idx_eq_count", cuMemcpyBatchAsync(dst, src, sz, N, at, b3, 2, s));
	T("idx_decreasing", cuMemcpyBatchAsync(dst, src, sz, N, at, b4, 3, s));
	CUmemcpyAttributes bad = at[0];
	bad.srcAccessOrder = 0;  T("order_invalid_0", cuMemcpyBatchAsync(dst, src, sz, N, &bad, ix, 1, s));
	bad.srcAccessOrder = 4;  T("order_invalid_4", cuMemcpyBatchAsync(dst, src, sz, N, &bad, ix, 1, s));
	bad = at[0]; bad.flags = 2;  T("flags_2", cuMemcpyBatchAsync(dst, src, sz, N, &bad, ix, 1, s));
	bad = at[0]; bad.srcLocHint.type = 77; T("hint_type_77", cuMemcpyBatchAsync(dst, src, sz, N, &bad, ix, 1, s));
	size_t z0[2] = { 0, 100 };
	T("one_size_0", cuMemcpyBatchAsync(dst, src, z0, 2, at, ix, 1, s));
	CUdeviceptr nd[2] = { dst[0], 0 };
	T("one_dst_null", cuMemcpyBatchAsync(nd, src, hz, 2, at, ix, 1, s));
	T("one_src_null", cuMemcpyBatchAsync(dst, nd, hz, 2, at, ix, 1, s));
	size_t over[2] = { 100, MiB(8) };
	T("second_past_end", cuMemcpyBatchAsync(dst, hs, over, 2, at, ix, 1, s));
	TNOCTX("no_ctx_own_stream", cuMemcpyBatchAsync(dst, src, sz, N, at, ix, 1, s));
	TNOCTX("no_ctx_null_stream", cuMemcpyBatchAsync(dst, src, sz, N, at, ix, 1, 0));
	cuStreamSynchronize(s);
	gate_t g;
	for (int i = 0; i < N; i++)
		cuMemsetD8(dst[i], 0, 8192);
	cuCtxSynchronize();
	CUdeviceptr gd[2] = { dst[0], dst[1] }, gs[2] = { src[0], src[3] };
	size_t gz[2] = { 4096, 4096 };
	REQ(gate_close(&g, s));
	T("gated", cuMemcpyBatchAsync(gd, gs, gz, 2, at, ix, 1, s));
	emit("gated_before", "%s", dbyte(dst[1], 4096, 0));
	gate_open(&g);
	cuStreamSynchronize(s);
	emit("gated_after", "%s %s", dsame(dst[0], 4096, 0), dsame(dst[1], 4096, 3));
	gate_done(&g);
}

static CUDA_MEMCPY3D_BATCH_OP pp(CUdeviceptr d, size_t drow, size_t dlay, CUdeviceptr s, size_t srow, size_t slay, size_t w, size_t h, size_t z)
{
	CUDA_MEMCPY3D_BATCH_OP o;
	memset(&o, 0, sizeof(o));
	o.src.type = o.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
	o.src.op.ptr.ptr = s; o.src.op.ptr.rowLength = srow; o.src.op.ptr.layerHeight = slay;
	o.dst.op.ptr.ptr = d; o.dst.op.ptr.rowLength = drow; o.dst.op.ptr.layerHeight = dlay;
	o.extent.width = w; o.extent.height = h; o.extent.depth = z;
	o.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
	return o;
}

GROUP(batch3d)
{
	init_ctx();
	CUstream s;
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	CUdeviceptr a = dalloc(65536), b = dalloc(65536);
	unsigned char *h = malloc(65536), *r = malloc(65536), *w = malloc(65536);
	fill(h, 65536, 6);
	cuMemcpyHtoD(a, h, 65536);
	cuMemsetD8(b, 0x77, 65536);
	cuCtxSynchronize();
	CUDA_MEMCPY3D_BATCH_OP op[3];
	op[0] = pp(b, 0, 0, a, 0, 0, 100, 10, 3);
	op[1] = pp(b + 8192, 128, 12, a + 8192, 64, 9, 50, 8, 2);
	T("two_ops", cuMemcpy3DBatchAsync(2, op, 0, s));
	T("two_ops_sync", cuStreamSynchronize(s));
	memset(w, 0x77, 65536);
	memcpy(w, h, 3000);
	for (int z = 0; z < 2; z++)
		for (int y = 0; y < 8; y++)
			memcpy(w + 8192 + (z * 12 + y) * 128, h + 8192 + (z * 9 + y) * 64, 50);
	cuMemcpyDtoH(r, b, 65536);
	emit("two_ops_exact", "%d", !memcmp(r, w, 65536));
	CUDA_ARRAY3D_DESCRIPTOR ad;
	memset(&ad, 0, sizeof(ad));
	ad.Width = 20; ad.Height = 10; ad.Depth = 4; ad.Format = CU_AD_FORMAT_UNSIGNED_INT16; ad.NumChannels = 2;
	CUarray arr, arr2;
	REQ(cuArray3DCreate(&arr, &ad));
	REQ(cuArray3DCreate(&arr2, &ad));
	CUDA_MEMCPY3D_BATCH_OP up = pp(0, 0, 0, a, 0, 0, 20, 10, 4), down = pp(b, 0, 0, 0, 0, 0, 20, 10, 4), aa = up;
	memset(&up.dst, 0, sizeof(up.dst));
	up.dst.type = CU_MEMCPY_OPERAND_TYPE_ARRAY; up.dst.op.array.array = arr;
	memset(&aa.src, 0, sizeof(aa.src)); memset(&aa.dst, 0, sizeof(aa.dst));
	aa.src.type = aa.dst.type = CU_MEMCPY_OPERAND_TYPE_ARRAY; aa.src.op.array.array = arr; aa.dst.op.array.array = arr2;
	memset(&down.src, 0, sizeof(down.src));
	down.src.type = CU_MEMCPY_OPERAND_TYPE_ARRAY; down.src.op.array.array = arr2;
	cuMemsetD8(b, 0, 65536);
	cuCtxSynchronize();
	CUresult r1 = cuMemcpy3DBatchAsync(1, &up, 0, s), r2 = cuMemcpy3DBatchAsync(1, &aa, 0, s), r3 = cuMemcpy3DBatchAsync(1, &down, 0, s);
	cuStreamSynchronize(s);
	emit("ptr_array_array_ptr", "rc=%s,%s,%s %s", rcs(r1), rcs(r2), rcs(r3), dsame(b, 3200, 6));
	CUDA_MEMCPY3D_BATCH_OP o = up;
	o.dst.op.array.offset.x = 5; o.dst.op.array.offset.y = 2; o.dst.op.array.offset.z = 1; o.extent.width = 10; o.extent.height = 4; o.extent.depth = 2;
	T("array_offset", cuMemcpy3DBatchAsync(1, &o, 0, s));
	o.dst.op.array.offset.x = 15; T("array_offset_over", cuMemcpy3DBatchAsync(1, &o, 0, s));
	T("null_stream", cuMemcpy3DBatchAsync(1, op, 0, 0));
	T("legacy_stream", cuMemcpy3DBatchAsync(1, op, 0, CU_STREAM_LEGACY));
	T("per_thread_stream", cuMemcpy3DBatchAsync(1, op, 0, CU_STREAM_PER_THREAD));
	T("num_0", cuMemcpy3DBatchAsync(0, op, 0, s));
	T("num_0_null", cuMemcpy3DBatchAsync(0, NULL, 0, s));
	T("ops_null", cuMemcpy3DBatchAsync(1, NULL, 0, s));
	T("flags_1", cuMemcpy3DBatchAsync(1, op, 1, s));
	o = op[0]; o.extent.width = 0;  T("width_0", cuMemcpy3DBatchAsync(1, &o, 0, s));
	o = op[0]; o.extent.height = 0; T("height_0", cuMemcpy3DBatchAsync(1, &o, 0, s));
	o = op[0]; o.extent.depth = 0;  T("depth_0", cuMemcpy3DBatchAsync(1, &o, 0, s));
	o = op[0]; o.src.type = 0;      T("src_type_0", cuMemcpy3DBatchAsync(1, &o, 0, s));
	o = op[0]; o.dst.type = 3;      T("dst_type_3", cuMemcpy3DBatchAsync(1, &o, 0, s));
	o = op[0]; o.src.op.ptr.ptr = 0; T("src_null", cuMemcpy3DBatchAsync(1, &o, 0, s));
	o = op[0]; o.dst.op.ptr.ptr = 0; T("dst_null", cuMemcpy3DBatchAsync(1, &o, 0, s));
	o = op[0]; o.src.op.ptr.rowLength = 99; T("rowlength_lt_width", cuMemcpy3DBatchAsync(1, &o, 0, s));
	o = op[0]; o.dst.op.ptr.layerHeight = 9; T("layerheight_lt_height", cuMemcpy3DBatchAsync(1, &o, 0, s));
	o = op[0]; o.srcAccessOrder = 0; T("order_0", cuMemcpy3DBatchAsync(1, &o, 0, s));
	o = op[0]; o.srcAccessOrder = 4; T("order_4", cuMemcpy3DBatchAsync(1, &o, 0, s));
	o = op[0]; o.flags = 2;          T("op_flags_2", cuMemcpy3DBatchAsync(1, &o, 0, s));
	o = op[0]; o.extent.depth = 4096; T("past_end", cuMemcpy3DBatchAsync(1, &o, 0, s));
	o = up; o.dst.op.array.array = NULL; T("array_null", cuMemcpy3DBatchAsync(1, &o, 0, s));
	TNOCTX("no_ctx", cuMemcpy3DBatchAsync(1, op, 0, s));
	T("sync_end", cuStreamSynchronize(s));
}

GROUP(decompress)
{
	init_ctx();
	emit("attr_mask", "%d", dev_attr(CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK));
	emit("attr_max_length.impl", "%d", dev_attr(CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_MAXIMUM_LENGTH));
	static const struct { const char *n; const unsigned char *b; size_t l; CUmemDecompressAlgorithm a; } v[] = {
		{ "deflate", comp_deflate, sizeof(comp_deflate), CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE },
		{ "snappy", comp_snappy, sizeof(comp_snappy), CU_MEM_DECOMPRESS_ALGORITHM_SNAPPY },
		{ "lz4", comp_lz4, sizeof(comp_lz4), CU_MEM_DECOMPRESS_ALGORITHM_LZ4 } };
	CUstream s;
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	CUdeviceptr src = dalloc(65536), dst = dalloc(65536), act = dalloc(4096);
	unsigned char *want = malloc(COMP_PLAIN), *got = malloc(COMP_PLAIN);
	comp_plain(want);
	CUmemDecompressParams p[3];
	size_t ei;
	for (int i = 0; i < 3; i++) {
		memset(&p[i], 0, sizeof(p[i]));
		cuMemcpyHtoD(src + (size_t)i * 8192, v[i].b, v[i].l);
		p[i].srcNumBytes = v[i].l; p[i].dstNumBytes = COMP_PLAIN;
		p[i].src = HPTR(src + (size_t)i * 8192); p[i].dst = HPTR(dst + (size_t)i * 8192);
		p[i].dstActBytes = HPTR(act + (size_t)i * 4); p[i].algo = v[i].a;
		cuMemsetD8(dst, 0, 65536);
		cuMemsetD8(act, 0, 4096);
		cuCtxSynchronize();
		ei = 99;
		CUresult r = cuMemBatchDecompressAsync(&p[i], 1, 0, &ei, s);
		CUresult r2 = cuStreamSynchronize(s);
		unsigned ab = 0;
		memset(got, 0, COMP_PLAIN);
		cuMemcpyDtoH(got, dst + (size_t)i * 8192, COMP_PLAIN);
		cuMemcpyDtoH(&ab, act + (size_t)i * 4, 4);
		emit(v[i].n, "rc=%s sync=%s erridx=%s act=%u data=%d", rcs(r), rcs(r2), ei == 99 ? "untouched" : ei == ~(size_t)0 ? "max" : F("%zu", ei),
		     ab, !memcmp(got, want, COMP_PLAIN));
	}
	ei = 99;
	TF("three_at_once", cuMemBatchDecompressAsync(p, 3, 0, &ei, s), "erridx=%s", ei == 99 ? "untouched" : ei == ~(size_t)0 ? "max" : F("%zu", ei));
	cuStreamSynchronize(s);
	T("null_erridx", cuMemBatchDecompressAsync(p, 3, 0, NULL, s));
	T("params_null", cuMemBatchDecompressAsync(NULL, 1, 0, &ei, s));
	T("count_0", cuMemBatchDecompressAsync(p, 0, 0, &ei, s));
	T("flags_1", cuMemBatchDecompressAsync(p, 1, 1, &ei, s));
	CUmemDecompressParams q = p[0];
	q.algo = 0;        ei = 99; TF("algo_0", cuMemBatchDecompressAsync(&q, 1, 0, &ei, s), "erridx=%s", ei == 99 ? "untouched" : ei == ~(size_t)0 ? "max" : F("%zu", ei));
	q.algo = 8;        ei = 99; TF("algo_8", cuMemBatchDecompressAsync(&q, 1, 0, &ei, s), "erridx=%s", ei == 99 ? "untouched" : ei == ~(size_t)0 ? "max" : F("%zu", ei));
	q = p[0]; q.src = NULL; T("src_null", cuMemBatchDecompressAsync(&q, 1, 0, &ei, s));
	q = p[0]; q.dst = NULL; T("dst_null", cuMemBatchDecompressAsync(&q, 1, 0, &ei, s));
	q = p[0]; q.srcNumBytes = 0; T("src_bytes_0", cuMemBatchDecompressAsync(&q, 1, 0, &ei, s));
	TNOCTX("no_ctx", cuMemBatchDecompressAsync(p, 1, 0, &ei, s));
	int cap = -1;
	TF("cap_of_cuMemAlloc", cuPointerGetAttribute(&cap, CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE, src), "%d", cap);
	cuStreamSynchronize(s);
}
