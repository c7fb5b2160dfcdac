// SPDX-License-Identifier: GPL-2.0
/* Cases of cuMemPrefetchBatchAsync, cuMemDiscardBatchAsync, cuMemDiscardAndPrefetchBatchAsync */
#include "oracle.h"

#define N	4
#define BYTES	MiB(2)

static CUdeviceptr mem[N];
static size_t sizes[N];
static CUmemLocation device, host;
static size_t zero_index[N] = { 0, 1, 2, 3 };
static CUstream s;

static CUresult begin(void)
{
	CUresult r = cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);

	device.type = CU_MEM_LOCATION_TYPE_DEVICE;
	host.type = CU_MEM_LOCATION_TYPE_HOST;
	for (int i = 0; !r && i < N; i++) {
		sizes[i] = BYTES;
		r = cuMemAllocManaged(&mem[i], BYTES, CU_MEM_ATTACH_GLOBAL);
		if (!r)
			fill(HPTR(mem[i]), BYTES, (unsigned)i);
	}
	return r;
}

static const char *all_intact(void)
{
	int ok = 0;

	cuStreamSynchronize(s);
	for (int i = 0; i < N; i++)
		ok += same(HPTR(mem[i]), BYTES, (unsigned)i);
	return F("%d of %d", ok, N);
}

static int last(CUdeviceptr p, size_t n)
{
	int at = -77;
	CUresult r = cuMemRangeGetAttribute(&at, sizeof(at), CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p, n);

	return r ? -1000 - (int)r : at;
}

static const char *lasts(void)
{
	return F("%d %d %d %d", last(mem[0], BYTES), last(mem[1], BYTES), last(mem[2], BYTES), last(mem[3], BYTES));
}

typedef CUresult (*with_places)(CUdeviceptr *, size_t *, size_t, CUmemLocation *, size_t *, size_t,
				unsigned long long, CUstream);

/* What the functions with locations answer to all kinds of arguments. */
static void places(with_places f, with_places own)
{
	CUmemLocation l[N] = { device, host, device, host };
	size_t b1[2] = { 1, 2 }, b2[2] = { 0, 0 }, b3[2] = { 0, N }, b4[3] = { 0, 3, 2 };
	CUdeviceptr dev = dalloc(BYTES), p[N];
	char *pageable = halloc(BYTES);
	void *pinned = NULL;
	size_t z[N];

	memset(pageable, 1, BYTES);
	cuMemAllocHost(&pinned, BYTES);
	TF("one_place", f(mem, sizes, N, l, zero_index, 1, 0, s), "last=%s", lasts());
	TF("two_places", (z[0] = 0, z[1] = 3, f(mem, sizes, N, l, z, 2, 0, s)), "last=%s", lasts());
	TF("four_places", f(mem, sizes, N, l, zero_index, N, 0, s), "last=%s", lasts());
	T("null_stream", f(mem, sizes, N, l, zero_index, 1, 0, 0));
	T("legacy_stream", f(mem, sizes, N, l, zero_index, 1, 0, CU_STREAM_LEGACY));
	T("per_thread_stream", f(mem, sizes, N, l, zero_index, 1, 0, CU_STREAM_PER_THREAD));
	T("ptsz_null_stream", own(mem, sizes, N, l, zero_index, 1, 0, 0));
	T("ptsz_legacy_stream", own(mem, sizes, N, l, zero_index, 1, 0, CU_STREAM_LEGACY));
	T("ptsz_stream", own(mem, sizes, N, l, zero_index, 1, 0, s));
	T("flags_1", f(mem, sizes, N, l, zero_index, 1, 1, s));
	T("flags_bit63", f(mem, sizes, N, l, zero_index, 1, 1ull << 63, s));
	T("count_0", f(mem, sizes, 0, l, zero_index, 1, 0, s));
	T("count_0_all_null", f(NULL, NULL, 0, NULL, NULL, 0, 0, s));
	T("count_0_no_places", f(mem, sizes, 0, l, zero_index, 0, 0, s));
	T("ptrs_null", f(NULL, sizes, N, l, zero_index, 1, 0, s));
	T("sizes_null", f(mem, NULL, N, l, zero_index, 1, 0, s));
	T("places_null", f(mem, sizes, N, NULL, zero_index, 1, 0, s));
	T("indices_null", f(mem, sizes, N, l, NULL, 1, 0, s));
	T("places_0", f(mem, sizes, N, l, zero_index, 0, 0, s));
	T("places_gt_count", f(mem, sizes, 2, l, zero_index, 3, 0, s));
	T("first_index_not_0", f(mem, sizes, N, l, b1, 2, 0, s));
	T("index_not_rising", f(mem, sizes, N, l, b2, 2, 0, s));
	T("index_eq_count", f(mem, sizes, N, l, b3, 2, 0, s));
	T("index_falling", f(mem, sizes, N, l, b4, 3, 0, s));
	for (int type = -1; type <= 7; type++) {
		CUmemLocation of = { .type = (CUmemLocationType)type };

		T(F("type_%d", type), f(mem, sizes, N, &of, zero_index, 1, 0, s));
	}
	CUmemLocation bad = device;
	bad.id = 99; T("device_99", f(mem, sizes, N, &bad, zero_index, 1, 0, s));
	bad.id = -1; T("device_minus_1", f(mem, sizes, N, &bad, zero_index, 1, 0, s));
	bad = host; bad.id = 99; T("host_id_99", f(mem, sizes, N, &bad, zero_index, 1, 0, s));
	bad.type = CU_MEM_LOCATION_TYPE_HOST_NUMA; T("node_99", f(mem, sizes, N, &bad, zero_index, 1, 0, s));
	bad.id = 0; T("node_0", f(mem, sizes, N, &bad, zero_index, 1, 0, s));
	CUmemLocation second[2] = { host, { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 99 } };
	f(mem, sizes, N, l, zero_index, 1, 0, s);
	TF("second_place_wrong", f(mem, sizes, N, second, zero_index, 2, 0, s), "last=%s", lasts());
	memcpy(p, mem, sizeof(p));
	memcpy(z, sizes, sizeof(z));
#define WITH(id, change) do { memcpy(p, mem, sizeof(p)); memcpy(z, sizes, sizeof(z)); change;  \
		f(mem, sizes, N, l, zero_index, 1, 0, s);                                      \
		TF(id, f(p, z, N, &host, zero_index, 1, 0, s), "last=%s", lasts()); } while (0)
	WITH("last_ptr_null", p[3] = 0);
	WITH("last_ptr_wild", p[3] = 0x10000);
	WITH("last_ptr_device", p[3] = dev);
	WITH("last_ptr_pinned", p[3] = DPTR(pinned));
	WITH("last_ptr_pageable", p[3] = DPTR(pageable));
	WITH("last_size_0", z[3] = 0);
	WITH("last_size_over", z[3] = BYTES + 1);
	WITH("last_size_max", z[3] = SIZE_MAX);
	WITH("inner", (p[3] += 4097, z[3] = 10));
	WITH("same_twice", p[3] = p[2]);
	WITH("overlapping", (p[3] = p[2] + 4096, z[3] = 8192));
	TNOCTX("no_ctx_own_stream", f(mem, sizes, N, l, zero_index, 1, 0, s));
	TNOCTX("no_ctx_null_stream", f(mem, sizes, N, l, zero_index, 1, 0, 0));
	TNOCTX("no_ctx_per_thread", f(mem, sizes, N, l, zero_index, 1, 0, CU_STREAM_PER_THREAD));
	cuStreamSynchronize(s);
}

static void ordered(with_places f)
{
	CUmemLocation l[2] = { device, host };
	gate_t g;

	REQ(gate_close(&g, s));
	BLOCKS("ordered", &g, f(mem, sizes, N, l, zero_index, 2, 0, s));
	emit("ordered_query", "%s", rcs(cuStreamQuery(s)));
	gate_open(&g);
	cuStreamSynchronize(s);
	gate_done(&g);
}

static void host_function(void *data)
{
	CUmemLocation l = { .type = CU_MEM_LOCATION_TYPE_DEVICE };

	*(CUresult *)data = cuMemPrefetchBatchAsync(mem, sizes, 1, &l, zero_index, 1, 0, CU_STREAM_PER_THREAD);
}

GROUP(prefetch_batch)
{
	CUresult inside = (CUresult)-1;
	CUstream other;

	init_ctx();
	REQ(begin());
	places(cuMemPrefetchBatchAsync, cuMemPrefetchBatchAsync_ptsz);
	emit("data", "%s", all_intact());
	ordered(cuMemPrefetchBatchAsync);
	emit("ordered_data", "%s", all_intact());
	REQ(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	cuLaunchHostFunc(other, host_function, &inside);
	cuStreamSynchronize(other);
	emit("in_host_function", "rc=%s", rcs(inside));
}

GROUP(discard_batch)
{
	gate_t g;

	init_ctx();
	REQ(begin());
	CUdeviceptr dev = dalloc(BYTES), p[N];
	size_t z[N];
	char *pageable = halloc(BYTES);
	memset(pageable, 1, BYTES);
	cuMemPrefetchBatchAsync(mem, sizes, N, &device, zero_index, 1, 0, s);
	cuStreamSynchronize(s);
	TF("all", cuMemDiscardBatchAsync(mem, sizes, N, 0, s), "last=%s", lasts());
	T("all_sync", cuStreamSynchronize(s));
	emit("after.impl", "%s", all_intact());
	for (int i = 0; i < N; i++)
		fill(HPTR(mem[i]), BYTES, (unsigned)i);
	emit("written_by_cpu", "%s", all_intact());
	T("again", cuMemDiscardBatchAsync(mem, sizes, N, 0, s));
	cuMemsetD8Async(mem[0], 5, BYTES, s);
	cuStreamSynchronize(s);
	emit("written_by_device", "%d", allbyte(HPTR(mem[0]), BYTES, 5));
	memset(HPTR(mem[0]), 7, 4096);
	emit("written_in_part", "%d %d", allbyte(HPTR(mem[0]), 4096, 7), allbyte(HPTR(mem[0] + 4096), BYTES - 4096, 5));
	p[0] = mem[0] + 100;
	z[0] = 10000;
	memset(HPTR(mem[0]), 9, BYTES);
	T("inner", cuMemDiscardBatchAsync(p, z, 1, 0, s));
	cuStreamSynchronize(s);
	emit("inner_before", "%d", allbyte(HPTR(mem[0]), 100, 9));
	emit("inner_behind", "%d", allbyte(HPTR(mem[0] + 10100), BYTES - 10100, 9));
	T("null_stream", cuMemDiscardBatchAsync(mem, sizes, N, 0, 0));
	T("legacy_stream", cuMemDiscardBatchAsync(mem, sizes, N, 0, CU_STREAM_LEGACY));
	T("per_thread_stream", cuMemDiscardBatchAsync(mem, sizes, N, 0, CU_STREAM_PER_THREAD));
	T("ptsz_null_stream", cuMemDiscardBatchAsync_ptsz(mem, sizes, N, 0, 0));
	T("ptsz_legacy_stream", cuMemDiscardBatchAsync_ptsz(mem, sizes, N, 0, CU_STREAM_LEGACY));
	T("flags_1", cuMemDiscardBatchAsync(mem, sizes, N, 1, s));
	T("flags_bit63", cuMemDiscardBatchAsync(mem, sizes, N, 1ull << 63, s));
	T("count_0", cuMemDiscardBatchAsync(mem, sizes, 0, 0, s));
	T("count_0_all_null", cuMemDiscardBatchAsync(NULL, NULL, 0, 0, s));
	T("ptrs_null", cuMemDiscardBatchAsync(NULL, sizes, N, 0, s));
	T("sizes_null", cuMemDiscardBatchAsync(mem, NULL, N, 0, s));
	/* A discard that is still queued would take what the CPU writes. */
	cuCtxSynchronize();
	for (int i = 0; i < N; i++)
		fill(HPTR(mem[i]), BYTES, (unsigned)i);
#define DISCARD(id, change) do { memcpy(p, mem, sizeof(p)); memcpy(z, sizes, sizeof(z)); change;  \
		T(id, cuMemDiscardBatchAsync(p, z, N, 0, s)); } while (0)
	DISCARD("last_ptr_null", p[3] = 0);
	DISCARD("last_ptr_wild", p[3] = 0x10000);
	DISCARD("last_ptr_device", p[3] = dev);
	DISCARD("last_ptr_pageable", p[3] = DPTR(pageable));
	DISCARD("last_size_0", z[3] = 0);
	DISCARD("last_size_over", z[3] = BYTES + 1);
	DISCARD("last_size_max", z[3] = SIZE_MAX);
	emit("after_refusals", "%s", all_intact());
	DISCARD("same_twice", p[3] = p[2]);
	TNOCTX("no_ctx_own_stream", cuMemDiscardBatchAsync(mem, sizes, N, 0, s));
	TNOCTX("no_ctx_null_stream", cuMemDiscardBatchAsync(mem, sizes, N, 0, 0));
	cuStreamSynchronize(s);
	REQ(gate_close(&g, s));
	BLOCKS("ordered", &g, cuMemDiscardBatchAsync(mem, sizes, N, 0, s));
	emit("ordered_query", "%s", rcs(cuStreamQuery(s)));
	gate_open(&g);
	cuStreamSynchronize(s);
	gate_done(&g);
	/* A fill in the stream after the discard is not discarded. */
	cuMemDiscardBatchAsync(mem, sizes, N, 0, s);
	for (int i = 0; i < N; i++)
		cuMemsetD8Async(mem[i], i + 1, BYTES, s);
	cuStreamSynchronize(s);
	int ok = 0;
	for (int i = 0; i < N; i++)
		ok += allbyte(HPTR(mem[i]), BYTES, i + 1);
	emit("filled_behind", "%d of %d", ok, N);
	T("free", cuMemFree(mem[1]));
	T("freed", cuMemDiscardBatchAsync(mem, sizes, 2, 0, s));
}

GROUP(discard_prefetch)
{
	init_ctx();
	REQ(begin());
	places(cuMemDiscardAndPrefetchBatchAsync, cuMemDiscardAndPrefetchBatchAsync_ptsz);
	ordered(cuMemDiscardAndPrefetchBatchAsync);
	cuCtxSynchronize();
	for (int i = 0; i < N; i++)
		fill(HPTR(mem[i]), BYTES, (unsigned)i);
	emit("written_by_cpu", "%s", all_intact());
	cuMemDiscardAndPrefetchBatchAsync(mem, sizes, N, &device, zero_index, 1, 0, s);
	cuMemsetD8Async(mem[0], 5, BYTES, s);
	cuStreamSynchronize(s);
	emit("written_by_device", "%d", allbyte(HPTR(mem[0]), BYTES, 5));
}

/* Pools answer what they are since CUDA 13.2. */
GROUP(pool_properties)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .maxSize = MiB(3) };
	CUmemoryPool pool, first;

	init_ctx();
	props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	REQ(cuMemPoolCreate(&pool, &props));
	REQ(cuDeviceGetDefaultMemPool(&first, g_dev));
	for (int a = 9; a <= 15; a++) {
		uint64_t value = 0x7777777777777777;

		TF(F("own_%d", a), cuMemPoolGetAttribute(pool, (CUmemPool_attribute)a, &value), "%llx",
		   (unsigned long long)value);
		value = 0x7777777777777777;
		TF(F("default_%d", a), cuMemPoolGetAttribute(first, (CUmemPool_attribute)a, &value), "%llx",
		   (unsigned long long)value);
		value = 1;
		T(F("set_%d", a), cuMemPoolSetAttribute(pool, (CUmemPool_attribute)a, &value));
	}
}
