// SPDX-License-Identifier: GPL-2.0
/* Cases of virtual memory management: reserve, create, map, access, share */
#include "oracle.h"

static CUmemAllocationProp prop(CUmemAllocationHandleType h)
{
	CUmemAllocationProp p;
	memset(&p, 0, sizeof(p));
	p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	p.requestedHandleTypes = h;
	p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	p.location.id = g_dev;
	return p;
}
static size_t gran(void)
{
	CUmemAllocationProp p = prop(0);
	size_t g = 0;
	cuMemGetAllocationGranularity(&g, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
	return g ? g : MiB(2);
}
static CUmemAccessDesc rw(void)
{
	CUmemAccessDesc d;
	memset(&d, 0, sizeof(d));
	d.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	d.location.id = g_dev;
	d.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	return d;
}
static CUmemGenericAllocationHandle mk(size_t n, CUmemAllocationHandleType t)
{
	CUmemAllocationProp p = prop(t);
	CUmemGenericAllocationHandle h = 0;
	MUST(cuMemCreate(&h, n, &p, 0));
	return h;
}
static CUdeviceptr mapped(CUmemGenericAllocationHandle h, size_t n)
{
	CUdeviceptr d = 0;
	CUmemAccessDesc a = rw();
	MUST(cuMemAddressReserve(&d, n, 0, 0, 0));
	MUST(cuMemMap(d, n, 0, h, 0));
	MUST(cuMemSetAccess(d, n, &a, 1));
	return d;
}

GROUP(vmm_granularity)
{
	init_ctx();
	CUmemAllocationProp p = prop(0);
	size_t g = 0;
	emit("attr_vmm", "%d", dev_attr(CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED));
	emit("attr_posix", "%d", dev_attr(CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED));
	TF("minimum", cuMemGetAllocationGranularity(&g, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM), "%zu", g);
	TF("recommended", cuMemGetAllocationGranularity(&g, &p, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED), "%zu", g);
	p.requestedHandleTypes = 1;
	TF("minimum_posix", cuMemGetAllocationGranularity(&g, &p, 0), "%zu", g);
	p = prop(0); p.allocFlags.gpuDirectRDMACapable = 1;
	TF("minimum_rdma", cuMemGetAllocationGranularity(&g, &p, 0), "%zu", g);
	p = prop(0); p.allocFlags.compressionType = CU_MEM_ALLOCATION_COMP_GENERIC;
	TF("minimum_compress", cuMemGetAllocationGranularity(&g, &p, 0), "%zu", g);
	p = prop(0); p.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA; p.location.id = 0;
	TF("minimum_host_numa", cuMemGetAllocationGranularity(&g, &p, 0), "%zu", g);
	p.location.type = CU_MEM_LOCATION_TYPE_HOST;
	TF("minimum_host", cuMemGetAllocationGranularity(&g, &p, 0), "%zu", g);
	p = prop(0);
	T("null_out", cuMemGetAllocationGranularity(NULL, &p, 0));
	T("null_prop", cuMemGetAllocationGranularity(&g, NULL, 0));
	T("option_2", cuMemGetAllocationGranularity(&g, &p, 2));
	p.type = 0;            T("type_0", cuMemGetAllocationGranularity(&g, &p, 0));
	p = prop(0); p.type = CU_MEM_ALLOCATION_TYPE_MANAGED; T("type_managed", cuMemGetAllocationGranularity(&g, &p, 0));
	p = prop(0); p.location.type = 0; T("loctype_0", cuMemGetAllocationGranularity(&g, &p, 0));
	p = prop(0); p.location.id = 99;  T("device_99", cuMemGetAllocationGranularity(&g, &p, 0));
	p = prop(0); p.requestedHandleTypes = 0x10; T("handle_10", cuMemGetAllocationGranularity(&g, &p, 0));
	p = prop(0);
	TNOCTX("no_ctx", cuMemGetAllocationGranularity(&g, &p, 0));
}

GROUP(vmm_reserve)
{
	static const size_t sz[] = { 4096, 65536, 2097152, 6291456, 1073741824 };
	init_ctx();
	CUdeviceptr d = 0;
	for (size_t i = 0; i < sizeof(sz) / sizeof(sz[0]); i++) {
		CUresult r = cuMemAddressReserve(&d, sz[i], 0, 0, 0);
		emit(F("size_%zu", sz[i]), "rc=%s al2M=%d free=%s", rcs(r), (d & (MiB(2) - 1)) == 0, r ? "-" : rcs(cuMemAddressFree(d, sz[i])));
	}
	static const size_t al[] = { 4096, 65536, 2097152, 1073741824, 1, 3, 6291456 };
	for (size_t i = 0; i < sizeof(al) / sizeof(al[0]); i++) {
		CUresult r = cuMemAddressReserve(&d, MiB(4), al[i], 0, 0);
		emit(F("align_%zu", al[i]), "rc=%s aligned=%d", rcs(r), r ? 0 : al[i] && d % al[i] == 0);
		if (!r)
			cuMemAddressFree(d, MiB(4));
	}
	d = 0x77;
	TF("size_0", cuMemAddressReserve(&d, 0, 0, 0, 0), "out=%s", d == 0x77 ? "untouched" : d ? "other" : "zero");
	T("size_100", cuMemAddressReserve(&d, 100, 0, 0, 0));
	T("size_2M_plus_1", cuMemAddressReserve(&d, MiB(2) + 1, 0, 0, 0));
	T("null_out", cuMemAddressReserve(NULL, MiB(2), 0, 0, 0));
	T("flags_1", cuMemAddressReserve(&d, MiB(2), 0, 0, 1));
	T("huge", cuMemAddressReserve(&d, 1ull << 56, 0, 0, 0));
	REQ(cuMemAddressReserve(&d, MiB(8), 0, 0, 0));
	CUdeviceptr e = 0;
	CUresult r = cuMemAddressReserve(&e, MiB(2), 0, d, 0);
	emit("hint_taken_gives_other", "rc=%s other=%d", rcs(r), e != d);
	if (!r)
		cuMemAddressFree(e, MiB(2));
	T("free_wrong_size", cuMemAddressFree(d, MiB(4)));
	T("free_interior", cuMemAddressFree(d + MiB(2), MiB(6)));
	T("free_size_0", cuMemAddressFree(d, 0));
	T("free_ok", cuMemAddressFree(d, MiB(8)));
	T("free_twice", cuMemAddressFree(d, MiB(8)));
	T("free_null", cuMemAddressFree(0, MiB(2)));
	T("free_never_reserved", cuMemAddressFree(0x400000, MiB(2)));
	r = cuMemAddressReserve(&e, MiB(8), 0, d, 0);
	emit("hint_free_is_honoured", "rc=%s same=%d", rcs(r), e == d);
	if (!r)
		cuMemAddressFree(e, MiB(8));
	T("hint_unaligned", cuMemAddressReserve(&e, MiB(2), 0, d + 100, 0));
	CUdeviceptr m = dalloc(MiB(2));
	T("free_of_cuMemAlloc", cuMemAddressFree(m, MiB(2)));
	TNOCTX("no_ctx", cuMemAddressReserve(&d, MiB(2), 0, 0, 0));
	TNOCTX("free_no_ctx", cuMemAddressFree(d, MiB(2)));
	REQ(cuMemAddressReserve(&d, MiB(4), 0, 0, 0));
	CUdeviceptr b = 0;
	size_t s = 0;
	T("range_of_unmapped_reservation", cuMemGetAddressRange(&b, &s, d));
	T("cuMemFree_of_reservation", cuMemFree(d));
}

GROUP(vmm_create)
{
	init_ctx();
	CUmemAllocationProp p = prop(0), q;
	CUmemGenericAllocationHandle h = 0, h2 = 0;
	size_t g = gran();
	TF("plain", cuMemCreate(&h, g, &p, 0), "nonzero=%d", h != 0);
	memset(&q, 0xee, sizeof(q));
	TF("props", cuMemGetAllocationPropertiesFromHandle(&q, h), "type=%d handles=%d loc=%d,%d comp=%d rdma=%d usage=%d", (int)q.type,
	   (int)q.requestedHandleTypes, (int)q.location.type, q.location.id, q.allocFlags.compressionType, q.allocFlags.gpuDirectRDMACapable,
	   q.allocFlags.usage);
	T("props_null", cuMemGetAllocationPropertiesFromHandle(NULL, h));
	T("props_handle_0", cuMemGetAllocationPropertiesFromHandle(&q, 0));
	TNOCTX("props_no_ctx", cuMemGetAllocationPropertiesFromHandle(&q, h));
	T("release", cuMemRelease(h));
	T("release_0", cuMemRelease(0));
	T("size_0", cuMemCreate(&h, 0, &p, 0));
	T("size_1", cuMemCreate(&h, 1, &p, 0));
	T("size_4096", cuMemCreate(&h, 4096, &p, 0));
	T("size_gran_minus_1", cuMemCreate(&h, g - 1, &p, 0));
	T("size_gran_plus_4096", cuMemCreate(&h, g + 4096, &p, 0));
	T("huge", cuMemCreate(&h, 1ull << 46, &p, 0));
	T("null_out", cuMemCreate(NULL, g, &p, 0));
	T("null_prop", cuMemCreate(&h, g, NULL, 0));
	T("flags_1", cuMemCreate(&h, g, &p, 1));
	q = p; q.type = 0;            T("type_0", cuMemCreate(&h, g, &q, 0));
	q = p; q.type = CU_MEM_ALLOCATION_TYPE_MANAGED; T("type_managed", cuMemCreate(&h, g, &q, 0));
	q = p; q.location.type = 0;   T("loctype_0", cuMemCreate(&h, g, &q, 0));
	q = p; q.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT; T("loctype_numa_current", cuMemCreate(&h, g, &q, 0));
	q = p; q.location.id = 99;    T("device_99", cuMemCreate(&h, g, &q, 0));
	q = p; q.location.id = -1;    T("device_minus_1", cuMemCreate(&h, g, &q, 0));
	q = p; q.requestedHandleTypes = CU_MEM_HANDLE_TYPE_WIN32; T("win32", cuMemCreate(&h, g, &q, 0));
	q = p; q.requestedHandleTypes = 0x20; T("handle_20", cuMemCreate(&h, g, &q, 0));
	q = p; q.allocFlags.usage = 0x80; T("usage_80", cuMemCreate(&h, g, &q, 0));
	q = p; q.allocFlags.compressionType = 9; T("compression_9", cuMemCreate(&h, g, &q, 0));
	q = p; q.allocFlags.reserved[0] = 1; T("reserved_1", cuMemCreate(&h, g, &q, 0));
	q = p; q.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	TF("posix", cuMemCreate(&h, g, &q, 0), "release=%s", rcs(cuMemRelease(h)));
	q = p; q.allocFlags.gpuDirectRDMACapable = 1;
	CUresult r = cuMemCreate(&h, g, &q, 0);
	memset(&q, 0, sizeof(q));
	if (!r)
		cuMemGetAllocationPropertiesFromHandle(&q, h);
	emit("rdma", "rc=%s attr=%d props_rdma=%d", rcs(r), dev_attr(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED), q.allocFlags.gpuDirectRDMACapable);
	if (!r)
		cuMemRelease(h);
	q = p; q.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA; q.location.id = 0;
	r = cuMemCreate(&h2, g, &q, 0);
	emit("host_numa_0", "rc=%s attr=%d", rcs(r), dev_attr(CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED));
	if (!r)
		cuMemRelease(h2);
	q.location.id = 55;           T("host_numa_55", cuMemCreate(&h, g, &q, 0));
	q = p; q.location.type = CU_MEM_LOCATION_TYPE_HOST;
	r = cuMemCreate(&h2, g, &q, 0);
	emit("host", "rc=%s attr=%d", rcs(r), dev_attr(CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED));
	if (!r)
		cuMemRelease(h2);
	q.requestedHandleTypes = 1;   T("host_posix", cuMemCreate(&h, g, &q, 0));
	h = 0;
	TNOCTX("no_ctx", cuMemCreate(&h, g, &p, 0));
	if (h)
		TNOCTX("release_no_ctx", cuMemRelease(h));
}

GROUP(vmm_map)
{
	init_ctx();
	size_t g = gran();
	CUmemGenericAllocationHandle h = mk(2 * g, 0), h2 = mk(g, 0);
	CUdeviceptr d = 0;
	CUmemAccessDesc a = rw();
	unsigned long long fl = 99;
	CUmemLocation l = a.location;
	REQ(cuMemAddressReserve(&d, 4 * g, 0, 0, 0));
	T("unreserved", cuMemMap(0x40000000000ull, g, 0, h2, 0));
	T("null", cuMemMap(0, g, 0, h2, 0));
	T("size_0", cuMemMap(d, 0, 0, h, 0));
	T("size_4096", cuMemMap(d, 4096, 0, h, 0));
	T("size_over_alloc", cuMemMap(d, 3 * g, 0, h, 0));
	T("ptr_misaligned", cuMemMap(d + 4096, g, 0, h2, 0));
	T("offset_gran", cuMemMap(d, g, g, h, 0));
	T("offset_gran_unmap", cuMemUnmap(d, g));
	T("offset_4096", cuMemMap(d, g, 4096, h, 0));
	T("offset_past_end", cuMemMap(d, g, 2 * g, h, 0));
	T("flags_1", cuMemMap(d, 2 * g, 0, h, 1));
	T("handle_0", cuMemMap(d, g, 0, 0, 0));
	T("past_reservation.impl", cuMemMap(d + 3 * g, 2 * g, 0, h, 0));
	T("past_reservation_unmap.impl", cuMemUnmap(d + 3 * g, 2 * g));
	TNOCTX("no_ctx", cuMemMap(d, 2 * g, 0, h, 0));
	cuMemUnmap(d, 2 * g);
	T("ok", cuMemMap(d, 2 * g, 0, h, 0));
	T("same_va_again", cuMemMap(d, 2 * g, 0, h, 0));
	T("overlapping_va", cuMemMap(d + g, g, 0, h2, 0));
	TF("access_before_set", cuMemGetAccess(&fl, &l, d), "%llu", fl);
	CUdeviceptr b = 0;
	size_t s = 0;
	TF("range_before_access", cuMemGetAddressRange(&b, &s, d + 100), "base=%s size=%s", prel(b, d), rel(s, 2 * g));
	T("setaccess", cuMemSetAccess(d, 2 * g, &a, 1));
	TF("access_after_set", cuMemGetAccess(&fl, &l, d + g), "%llu", fl);
	TF("range", cuMemGetAddressRange(&b, &s, d + g + 100), "base=%s size=%s", prel(b, d), rel(s, 2 * g));
	T("write", dfill(d, 2 * g, 5));
	emit("read", "%s", dsame(d, 2 * g, 5));
	T("second_adjacent", cuMemMap(d + 2 * g, g, 0, h2, 0));
	T("second_setaccess", cuMemSetAccess(d + 2 * g, g, &a, 1));
	TF("copy_across_two_mappings", dfill(d + g, 2 * g, 6), "%s", dsame(d + g, 2 * g, 6));
	TF("memset_across_two_mappings", cuMemsetD8(d + g, 7, 2 * g), "%s", dbyte(d + g, 2 * g, 7));
	TF("range_second", cuMemGetAddressRange(&b, &s, d + 2 * g), "base=%s size=%s", prel(b, d + 2 * g), rel(s, g));
	T("copy_into_unmapped_tail", cuMemsetD8(d + 3 * g, 1, 16));
	T("copy_spanning_into_unmapped", cuMemsetD8(d + 2 * g, 1, 2 * g));
	T("setaccess_includes_unmapped", cuMemSetAccess(d, 4 * g, &a, 1));
	T("setaccess_both", cuMemSetAccess(d, 3 * g, &a, 1));
	T("setaccess_half_of_first", cuMemSetAccess(d, g, &a, 1));
	T("addressfree_while_mapped", cuMemAddressFree(d, 4 * g));
	T("unmap_part", cuMemUnmap(d, g));
	T("unmap_size_0", cuMemUnmap(d, 0));
	T("unmap_misaligned", cuMemUnmap(d + 4096, 2 * g));
	T("unmap_unmapped_tail", cuMemUnmap(d + 3 * g, g));
	T("cuMemFree_of_mapping", cuMemFree(d));
	T("cuMemFreeAsync_of_mapping", cuMemFreeAsync(d, 0));
	emit("still_mapped", "%s", dbyte(d + g, 2 * g, 7));
	TNOCTX("unmap_no_ctx", cuMemUnmap(d + 2 * g, g));
	T("unmap_both_at_once", cuMemUnmap(d, 3 * g));
	T("unmap_already_unmapped", cuMemUnmap(d, 2 * g));
	T("unmap_already_unmapped_part", cuMemUnmap(d + g, g));
	T("access_after_unmap", cuMemGetAccess(&fl, &l, d));
	T("range_after_unmap", cuMemGetAddressRange(&b, &s, d));
	T("remap", cuMemMap(d, 2 * g, 0, h, 0));
	TF("remap_needs_access_again", cuMemGetAccess(&fl, &l, d), "%llu", fl);
	cuMemSetAccess(d, 2 * g, &a, 1);
	emit("data_survives_remap", "%s", dbyte(d + g, g, 7));
	cuMemUnmap(d, 2 * g);
	T("remap_second", cuMemMap(d + 2 * g, g, 0, h2, 0));
	T("remap_first", cuMemMap(d, 2 * g, 0, h, 0));
	T("unmap_whole_reservation_partly_mapped", cuMemUnmap(d, 4 * g));
	T("access_after_whole_unmap", cuMemGetAccess(&fl, &l, d));
	T("addressfree", cuMemAddressFree(d, 4 * g));
	T("unmap_without_reservation", cuMemUnmap(d, 2 * g));
	T("release1", cuMemRelease(h));
	T("release2", cuMemRelease(h2));
}

GROUP(vmm_access)
{
	init_ctx();
	size_t g = gran();
	CUmemGenericAllocationHandle h = mk(2 * g, 0);
	CUdeviceptr d = mapped(h, 2 * g), un = 0;
	CUmemAccessDesc a = rw(), b;
	unsigned long long fl = 99;
	CUmemLocation dev = a.location, host = { CU_MEM_LOCATION_TYPE_HOST, 0 }, bad = { CU_MEM_LOCATION_TYPE_DEVICE, 99 }, inv = { 0, 0 };
	b = a; b.flags = 2;            T("flags_2", cuMemSetAccess(d, 2 * g, &b, 1));
	b = a; b.flags = 0x10;         T("flags_10", cuMemSetAccess(d, 2 * g, &b, 1));
	b = a; b.location = bad;       T("device_99", cuMemSetAccess(d, 2 * g, &b, 1));
	b = a; b.location = inv;       T("loctype_0", cuMemSetAccess(d, 2 * g, &b, 1));
	b = a; b.location = host;      T("host_on_device_mem", cuMemSetAccess(d, 2 * g, &b, 1));
	T("null_desc", cuMemSetAccess(d, 2 * g, NULL, 1));
	T("count_0", cuMemSetAccess(d, 2 * g, &a, 0));
	T("size_0", cuMemSetAccess(d, 0, &a, 1));
	T("null_ptr", cuMemSetAccess(0, 2 * g, &a, 1));
	T("misaligned", cuMemSetAccess(d + 4096, g, &a, 1));
	CUmemAccessDesc two[2] = { a, a };
	T("same_location_twice", cuMemSetAccess(d, 2 * g, two, 2));
	b = a; b.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
	TF("read_only", cuMemSetAccess(d, 2 * g, &b, 1), "now=%s", (cuMemGetAccess(&fl, &dev, d), F("%llu", fl)));
	emit("read_only_readable", "%s", rcs(cuMemcpyDtoH(&fl, d, 8)));
	b.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	TF("none", cuMemSetAccess(d, 2 * g, &b, 1), "now=%s", (cuMemGetAccess(&fl, &dev, d), F("%llu", fl)));
	T("back_to_rw", cuMemSetAccess(d, 2 * g, &a, 1));
	emit("usable_again", "%s", rcs(cuMemsetD8(d, 3, 2 * g)));
	T("get_null_flags", cuMemGetAccess(NULL, &dev, d));
	T("get_null_loc", cuMemGetAccess(&fl, NULL, d));
	T("get_null_ptr", cuMemGetAccess(&fl, &dev, 0));
	T("get_bad_device", cuMemGetAccess(&fl, &bad, d));
	T("get_loctype_0", cuMemGetAccess(&fl, &inv, d));
	fl = 99; TF("get_host", cuMemGetAccess(&fl, &host, d), "%llu", fl);
	REQ(cuMemAddressReserve(&un, g, 0, 0, 0));
	T("get_unmapped", cuMemGetAccess(&fl, &dev, un));
	T("set_unmapped", cuMemSetAccess(un, g, &a, 1));
	CUdeviceptr m = dalloc(MiB(2));
	fl = 99; TF("get_of_cuMemAlloc", cuMemGetAccess(&fl, &dev, m), "%llu", fl);
	T("set_of_cuMemAlloc", cuMemSetAccess(m, MiB(2), &a, 1));
	TNOCTX("set_no_ctx", cuMemSetAccess(d, 2 * g, &a, 1));
	TNOCTX("get_no_ctx", cuMemGetAccess(&fl, &dev, d));
}

GROUP(vmm_alias_lifetime)
{
	init_ctx();
	size_t g = gran();
	CUmemGenericAllocationHandle h = mk(g, 0), r = 0;
	CUdeviceptr a = mapped(h, g), b = 0;
	CUmemAccessDesc ac = rw();
	dfill(a, g, 4);
	REQ(cuMemAddressReserve(&b, g, 0, 0, 0));
	T("second_mapping_of_same_handle", cuMemMap(b, g, 0, h, 0));
	T("second_access", cuMemSetAccess(b, g, &ac, 1));
	emit("alias_sees_data", "%s", dsame(b, g, 4));
	cuMemsetD8(b, 9, 4096);
	cuCtxSynchronize();
	emit("alias_write_seen", "%s", dbyte(a, 4096, 9));
	T("release_with_mappings", cuMemRelease(h));
	emit("mapping_alive_after_release", "%s", dsame_at(a + 4096, 4096, g - 4096, 4));
	TF("retain", cuMemRetainAllocationHandle(&r, HPTR(a + 100)), "same=%d nonzero=%d", r == h, r != 0);
	T("release_retained", cuMemRelease(r));
	TF("retain_other_alias", cuMemRetainAllocationHandle(&r, HPTR(b)), "same=%d", r == h);
	T("unmap_a", cuMemUnmap(a, g));
	emit("b_alive", "%s", dsame_at(b + 4096, 4096, g - 4096, 4));
	T("unmap_b", cuMemUnmap(b, g));
	T("map_again_with_retained", cuMemMap(a, g, 0, r, 0));
	cuMemSetAccess(a, g, &ac, 1);
	emit("data_after_all", "%s", dsame_at(a + 4096, 4096, g - 4096, 4));
	T("unmap_last", cuMemUnmap(a, g));
	T("release_last", cuMemRelease(r));
	T("retain_unmapped", cuMemRetainAllocationHandle(&r, HPTR(a)));
	T("retain_null_out", cuMemRetainAllocationHandle(NULL, HPTR(a)));
	T("retain_null_addr", cuMemRetainAllocationHandle(&r, NULL));
	CUdeviceptr m = dalloc(MiB(2));
	T("retain_of_cuMemAlloc", cuMemRetainAllocationHandle(&r, HPTR(m)));
	int st;
	T("retain_of_stack", cuMemRetainAllocationHandle(&r, &st));
}

GROUPALONE(vmm_memory_returned)
{
	init_ctx();
	size_t f0 = 0, f1 = 0, t, n = MiB(512);
	CUdeviceptr d;
	cuMemGetInfo(&f0, &t);
	CUmemGenericAllocationHandle h = mk(n, 0);
	cuMemGetInfo(&f1, &t);
	emit("create_takes_memory", "%d", f0 - f1 >= n);
	d = mapped(h, n);
	cuMemRelease(h);
	cuMemGetInfo(&f1, &t);
	emit("release_while_mapped_keeps", "%d", f0 - f1 >= n);
	cuMemUnmap(d, n);
	cuMemGetInfo(&f1, &t);
	emit("unmap_last_returns", "%d", f1 + MiB(64) >= f0);
	cuMemAddressFree(d, n);
}

GROUP(vmm_share_self)
{
	init_ctx();
	size_t g = gran();
	CUmemGenericAllocationHandle h = mk(g, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), plain = mk(g, 0), i1 = 0, i2 = 0;
	int fd = -1, fd2 = -1;
	CUdeviceptr a = mapped(h, g);
	dfill(a, g, 8);
	TF("export", cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), "fd_valid=%d cloexec=%d", fd >= 0 && fcntl(fd, F_GETFD) >= 0,
	   fd >= 0 && (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0);
	TF("export_twice", cuMemExportToShareableHandle(&fd2, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0), "new_fd=%d", fd2 >= 0 && fd2 != fd);
	TNOCTX("export_no_ctx", cuMemExportToShareableHandle(&fd2, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	T("export_plain", cuMemExportToShareableHandle(&fd2, plain, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	T("export_wrong_type", cuMemExportToShareableHandle(&fd2, h, CU_MEM_HANDLE_TYPE_WIN32, 0));
	T("export_type_0", cuMemExportToShareableHandle(&fd2, h, CU_MEM_HANDLE_TYPE_NONE, 0));
	T("export_flags_1", cuMemExportToShareableHandle(&fd2, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 1));
	T("export_null_out", cuMemExportToShareableHandle(NULL, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	T("export_handle_0", cuMemExportToShareableHandle(&fd2, 0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	TF("import", cuMemImportFromShareableHandle(&i1, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR), "nonzero=%d", i1 != 0);
	emit("import_same_handle_value.impl", "%d", i1 == h);
	T("import_twice", cuMemImportFromShareableHandle(&i2, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	if (i1) {
		CUmemAllocationProp q;
		memset(&q, 0, sizeof(q));
		TF("imported_props", cuMemGetAllocationPropertiesFromHandle(&q, i1), "handles=%d loc=%d,%d", (int)q.requestedHandleTypes, (int)q.location.type, q.location.id);
		CUdeviceptr b = mapped(i1, g);
		emit("imported_sees_data", "%s", dsame(b, g, 8));
		close(fd);
		cuMemRelease(h);
		cuMemUnmap(a, g);
		emit("imported_alive_after_origin_gone", "%s", dsame(b, g, 8));
		T("reexport_imported", cuMemExportToShareableHandle(&fd2, i1, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
		T("unmap_imported", cuMemUnmap(b, g));
		T("release_imported", cuMemRelease(i1));
		T("release_imported2", cuMemRelease(i2));
	}
	T("import_bad_fd", cuMemImportFromShareableHandle(&i1, (void *)(uintptr_t)0x7ffff, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	int dn = open("/dev/null", O_RDWR);
	T("import_devnull", cuMemImportFromShareableHandle(&i1, (void *)(uintptr_t)dn, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	T("import_null_out", cuMemImportFromShareableHandle(NULL, (void *)(uintptr_t)fd2, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	T("import_type_0", cuMemImportFromShareableHandle(&i1, (void *)(uintptr_t)fd2, CU_MEM_HANDLE_TYPE_NONE));
	T("import_win32", cuMemImportFromShareableHandle(&i1, (void *)(uintptr_t)fd2, CU_MEM_HANDLE_TYPE_WIN32));
	TNOCTX("import_no_ctx_bad_fd", cuMemImportFromShareableHandle(&i1, (void *)(uintptr_t)0x7ffff, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
}

GROUP(vmm_host_numa)
{
	init_ctx();
	CUmemAllocationProp p = prop(0);
	CUmemGenericAllocationHandle h = 0;
	size_t g = 0;
	p.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
	p.location.id = 0;
	CUresult r = cuMemGetAllocationGranularity(&g, &p, 0);
	emit("granularity", "rc=%s", rcs(r));
	if (r || !g)
		g = MiB(2);
	r = cuMemCreate(&h, g, &p, 0);
	emit("create", "rc=%s", rcs(r));
	if (r)
		return;
	CUdeviceptr d = 0;
	REQ(cuMemAddressReserve(&d, g, 0, 0, 0));
	REQ(cuMemMap(d, g, 0, h, 0));
	CUmemAccessDesc a[2];
	memset(a, 0, sizeof(a));
	a[0].location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
	a[0].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	a[1] = rw();
	T("setaccess_cpu_and_gpu", cuMemSetAccess(d, g, a, 2));
	fill(HPTR(d), g, 3);
	emit("gpu_reads_cpu_data", "%s", dsame(d, g, 3));
	cuMemsetD8(d, 6, g);
	cuCtxSynchronize();
	emit("cpu_reads_gpu_data", "%d", allbyte(HPTR(d), g, 6));
	unsigned mt = 0;
	TF("memtype", cuPointerGetAttribute(&mt, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, d), "%u", mt);
	T("unmap", cuMemUnmap(d, g));
	T("release", cuMemRelease(h));
}

static CUmemGenericAllocationHandle dead_handle(void) { CUmemGenericAllocationHandle h = mk(gran(), 0); cuMemRelease(h); return h; }
static CUdeviceptr resv(void) { CUdeviceptr d = 0; MUST(cuMemAddressReserve(&d, gran(), 0, 0, 0)); return d; }
static CUdeviceptr noaccess(void) { CUdeviceptr d = resv(); MUST(cuMemMap(d, gran(), 0, mk(gran(), 0), 0)); return d; }
static char hb[64];
RISKY(vmm_double_release, cuMemRelease(dead_handle()))
RISKY(vmm_map_released, cuMemMap(resv(), gran(), 0, dead_handle(), 0))
RISKY(vmm_release_garbage, cuMemRelease(0x12345678))
RISKY(vmm_htod_unmapped_reservation, cuMemcpyHtoD(resv(), hb, 64))
RISKY(vmm_htod_mapped_no_access, cuMemcpyHtoD(noaccess(), hb, 64))
RISKY(vmm_memset_mapped_no_access, cuMemsetD8(noaccess(), 1, 64))
