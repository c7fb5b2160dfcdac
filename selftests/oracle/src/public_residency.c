// SPDX-License-Identifier: GPL-2.0
/*
 * Cases of the location of managed memory.  public_managed.c has the arguments of each function.
 *
 * - How much device memory does managed memory take after allocation, CPU access, device access,
 *   prefetch, advice, discard and free?
 * - Can an allocation be larger than the device?  Is managed memory evicted for a plain allocation?
 * - Which calls take a range of two allocations?
 * - Do registration, IPC and value writes accept managed memory?  Do munmap() of a part and fork()
 *   affect it?
 * - Which calls wait for work that is queued?
 * - Which pools of managed and of host memory are there?  What advice does memory of managed pools
 *   take, and what do attributes of it say?
 * - Which copies of managed memory wait, by size and by function?
 * - When does a prefetch become visible to attribute queries?
 */
#include <sys/wait.h>
#include "oracle.h"

static const CUmemLocation cpu = { .type = CU_MEM_LOCATION_TYPE_HOST };

static CUmemLocation gpu(void)
{
	return (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = g_dev };
}

static CUdeviceptr managed(size_t n)
{
	CUdeviceptr d = 0;

	MUST(cuMemAllocManaged(&d, n, CU_MEM_ATTACH_GLOBAL));
	return d;
}

static size_t available(void)
{
	size_t f = 0, t = 0;

	cuMemGetInfo(&f, &t);
	return f;
}

#define PIECE MiB(16)

/* How much less memory is free than @before: "nothing", "half" or "all" of @n bytes, else a number of MiB. */
static const char *taken(size_t before, size_t n)
{
	long long now = (long long)before - (long long)available(), slack = MiB(8);

	if (llabs(now) < slack)
		return "nothing";
	if (llabs(now - (long long)n / 2) < slack)
		return "half";
	if (llabs(now - (long long)n) < slack)
		return "all";
	return F("%lldMiB", now / (long long)MiB(1));
}

static void prefetch(CUdeviceptr d, size_t n, CUmemLocation to)
{
	MUST(cuMemPrefetchAsync(d, n, to, 0, 0));
	MUST(cuStreamSynchronize(0));
}

static void device_fills(CUdeviceptr d, int value, size_t n)
{
	MUST(cuMemsetD8(d, value, n));
	MUST(cuCtxSynchronize());
}

static const char *attribute(CUmem_range_attribute a, CUdeviceptr d, size_t n)
{
	int v = 0x5a5a5a5a;
	CUresult r = cuMemRangeGetAttribute(&v, 4, a, d, n);

	return r ? rcs(r) : F("%d", v);
}

/* A first stream and a first fill allocate memory of the driver's own, so that later calls allocate none. */
static CUdeviceptr piece_of_device(void)
{
	CUdeviceptr d;
	CUstream s;

	init_ctx();
	MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	d = dalloc(PIECE);
	device_fills(d, 0, PIECE);
	return d;
}

GROUPALONE(resident_info)
{
	CUdeviceptr d, other = piece_of_device();
	size_t n = MiB(128), f = available();

	d = managed(n);
	emit("allocated", "%s", taken(f, n));
	memset(HPTR(d), 1, n);
	emit("written_by_cpu_first", "%s", taken(f, n));
	device_fills(d, 2, n);
	emit("filled_by_device", "%s", taken(f, n));
	emit("read_by_cpu", "%d", *(volatile char *)HPTR(d + n / 2));
	emit("one_byte_read_by_cpu", "%s", taken(f, n));
	memset(HPTR(d), 3, n);
	emit("written_by_cpu", "%s", taken(f, n));
	prefetch(d, n, gpu());
	emit("prefetched", "%s", taken(f, n));
	prefetch(d, n / 2, cpu);
	emit("half_prefetched_back", "%s", taken(f, n));
	prefetch(d, n, cpu);
	emit("prefetched_back", "%s", taken(f, n));
	for (size_t i = 0; i < n; i += PIECE)
		MUST(cuMemcpyDtoD(other, d + i, PIECE));
	emit("copied_from", "%s", taken(f, n));
	prefetch(d, n, cpu);
	for (size_t i = 0; i < n; i += PIECE)
		MUST(cuMemcpyDtoD(d + i, other, PIECE));
	emit("copied_to", "%s", taken(f, n));
	prefetch(d, n, cpu);
	MUST(cuMemAdvise(d, n, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, gpu()));
	emit("preferred_on_device", "%s", taken(f, n));
	MUST(cuMemAdvise(d, n, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, cpu));
	device_fills(d, 4, n);
	emit("filled_while_preferred_on_host", "%s", taken(f, n));
	MUST(cuMemAdvise(d, n, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, cpu));
	MUST(cuMemAdvise(d, n, CU_MEM_ADVISE_SET_READ_MOSTLY, gpu()));
	prefetch(d, n, gpu());
	emit("read_mostly_prefetched", "%s", taken(f, n));
	emit("read_mostly_content", "%d", allbyte(HPTR(d), n, 4));
	emit("read_mostly_read_by_cpu", "%s", taken(f, n));
	memset(HPTR(d), 5, n);
	emit("read_mostly_written_by_cpu", "%s", taken(f, n));
	MUST(cuMemFree(d));
	emit("freed", "%s", taken(f, n));
}

/* What engines read: all of @n bytes, into device memory. */
static void device_reads(CUdeviceptr other, CUdeviceptr d, size_t n)
{
	for (size_t i = 0; i < n; i += PIECE)
		MUST(cuMemcpyDtoD(other, d + i, PIECE));
}

GROUPALONE(resident_read_mostly)
{
	CUdeviceptr d, other = piece_of_device();
	size_t n = MiB(128), f = available();

	d = managed(n);
	memset(HPTR(d), 1, n);
	MUST(cuMemAdvise(d, n, CU_MEM_ADVISE_SET_READ_MOSTLY, gpu()));
	device_reads(other, d, n);
	emit("read_by_device", "%s", taken(f, n));
	emit("read_by_cpu", "%d %s", allbyte(HPTR(d), n, 1), taken(f, n));
	for (size_t i = 0; i < n; i += MiB(2))
		*(volatile char *)HPTR(d + i) = 2;
	emit("byte_of_each_block_written_by_cpu", "%s", taken(f, n));
	device_reads(other, d, n);
	emit("read_again", "%s", taken(f, n));
	prefetch(d, n, cpu);
	emit("prefetched_to_host", "%s", taken(f, n));
	device_fills(d, 3, n);
	emit("filled_by_device", "%s", taken(f, n));
	prefetch(d, n, cpu);
	emit("filled_and_prefetched_to_host", "%s", taken(f, n));
	MUST(cuMemAdvise(d, n, CU_MEM_ADVISE_UNSET_READ_MOSTLY, gpu()));
	emit("advice_unset", "%s", taken(f, n));
	prefetch(d, n, cpu);
	emit("unset_and_prefetched_to_host", "%s", taken(f, n));
	MUST(cuMemAdvise(d, n, CU_MEM_ADVISE_SET_READ_MOSTLY, gpu()));
	MUST(cuMemAdvise(d, n, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, gpu()));
	device_reads(other, d, n);
	emit("preferred_and_read", "%s", taken(f, n));
	MUST(cuMemAdvise(d, n, CU_MEM_ADVISE_UNSET_READ_MOSTLY, gpu()));
	emit("preferred_and_unset", "%s", taken(f, n));
	MUST(cuMemAdvise(d, n, CU_MEM_ADVISE_SET_READ_MOSTLY, gpu()));
	MUST(cuMemAdvise(d, n, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, cpu));
	prefetch(d, n, cpu);
	device_reads(other, d, n);
	emit("prefers_host_and_read", "%s", taken(f, n));
	MUST(cuMemAdvise(d, n, CU_MEM_ADVISE_UNSET_READ_MOSTLY, gpu()));
	emit("prefers_host_and_unset", "%s", taken(f, n));
	emit("content", "%d", allbyte(HPTR(d), n, 3));
	MUST(cuMemFree(d));
	emit("freed", "%s", taken(f, n));
}

static void discard(CUdeviceptr d, size_t n)
{
	MUST(cuMemDiscardBatchAsync(&d, &n, 1, 0, CU_STREAM_PER_THREAD));
	MUST(cuStreamSynchronize(CU_STREAM_PER_THREAD));
}

GROUPALONE(resident_discard)
{
	CUmemLocation to = gpu();
	CUdeviceptr d;
	size_t n = MiB(128), zero = 0, f;

	piece_of_device();
	MUST(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	f = available();
	d = managed(n);
	device_fills(d, 1, n);
	emit("filled", "%s", taken(f, n));
	discard(d, n);
	emit("discarded", "%s", taken(f, n));
	device_fills(d, 2, n);
	emit("filled_again", "%d %s", allbyte(HPTR(d), n, 2), taken(f, n));
	device_fills(d, 3, n);
	discard(d, n / 2);
	emit("half_discarded", "%d %s", allbyte(HPTR(d + n / 2), n / 2, 3), taken(f, n));
	prefetch(d, n, gpu());
	discard(d, n);
	memset(HPTR(d), 4, n);
	emit("discarded_and_written_by_cpu", "%d %s", allbyte(HPTR(d), n, 4), taken(f, n));
	discard(d, n);
	emit("discarded_on_host", "%s", taken(f, n));
	MUST(cuMemDiscardAndPrefetchBatchAsync(&d, &n, 1, &to, &zero, 1, 0, CU_STREAM_PER_THREAD));
	MUST(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	emit("discarded_and_prefetched", "%s", taken(f, n));
	MUST(cuMemAdvise(d, n, CU_MEM_ADVISE_SET_READ_MOSTLY, gpu()));
	memset(HPTR(d), 5, n);
	prefetch(d, n, gpu());
	discard(d, n);
	emit("read_mostly_discarded", "%s", taken(f, n));
	memset(HPTR(d), 6, n);
	emit("read_mostly_discarded_and_written", "%d %s", allbyte(HPTR(d), n, 6), taken(f, n));
	MUST(cuMemFree(d));
	emit("freed", "%s", taken(f, n));
}

/* What device memory fresh managed memory takes when a device touches it, with each advice. */
GROUPALONE(resident_advice)
{
	CUdeviceptr d, other = piece_of_device();
	size_t n = MiB(128), f = available();

	d = managed(n);
	MUST(cuMemAdvise(d, n, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, cpu));
	device_fills(d, 1, n);
	emit("host_preferred_filled", "%s", taken(f, n));
	emit("host_preferred_content", "%d", allbyte(HPTR(d), n, 1));
	prefetch(d, n, gpu());
	emit("host_preferred_prefetched", "%s", taken(f, n));
	MUST(cuMemFree(d));
	emit("host_preferred_freed", "%s", taken(f, n));

	d = managed(n);
	memset(HPTR(d), 1, n);
	MUST(cuMemAdvise(d, n, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, cpu));
	device_fills(d, 2, n);
	emit("host_preferred_written_then_filled", "%s", taken(f, n));
	MUST(cuMemFree(d));

	d = managed(n);
	MUST(cuMemAdvise(d, n, CU_MEM_ADVISE_SET_ACCESSED_BY, gpu()));
	emit("accessed_by", "%s", taken(f, n));
	device_fills(d, 1, n);
	emit("accessed_by_filled", "%s", taken(f, n));
	MUST(cuMemFree(d));

	d = managed(n);
	memset(HPTR(d), 1, n);
	MUST(cuMemAdvise(d, n, CU_MEM_ADVISE_SET_ACCESSED_BY, gpu()));
	for (size_t i = 0; i < n; i += PIECE)
		MUST(cuMemcpyDtoD(other, d + i, PIECE));
	emit("accessed_by_written_then_read", "%s", taken(f, n));
	device_fills(d, 2, n);
	emit("accessed_by_written_then_filled", "%s", taken(f, n));
	MUST(cuMemFree(d));

	d = managed(n);
	MUST(cuMemAdvise(d, n, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, gpu()));
	memset(HPTR(d), 1, n);
	emit("device_preferred_written", "%s", taken(f, n));
	MUST(cuMemFree(d));

	d = managed(n);
	MUST(cuMemAdvise(d, n, CU_MEM_ADVISE_SET_READ_MOSTLY, gpu()));
	memset(HPTR(d), 1, n);
	for (size_t i = 0; i < n; i += PIECE)
		MUST(cuMemcpyDtoD(other, d + i, PIECE));
	emit("read_mostly_read", "%s", taken(f, n));
	device_fills(d, 2, n);
	emit("read_mostly_filled", "%s", taken(f, n));
	MUST(cuMemFree(d));
	emit("freed", "%s", taken(f, n));
}

/*
 * More managed memory than the device has.  This may hang a device, so the group runs with ORACLE_OVERSUBSCRIBE=1
 * only.
 */
GROUPALONE(resident_too_much)
{
	size_t free_bytes, total = 0, spare, plain_bytes, n;
	CUdeviceptr d = 0, e = 0, plain = 0;
	CUstream s;
	CUresult r;

	REQNZ(getenv("ORACLE_OVERSUBSCRIBE"));
	init_ctx();
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	REQ(cuMemGetInfo(&free_bytes, &total));
	T("three_times_the_device", cuMemAllocManaged(&d, 3 * total, CU_MEM_ATTACH_GLOBAL));
	T("hundred_times_the_device", cuMemAllocManaged(&e, 100 * total, CU_MEM_ATTACH_GLOBAL));
	T("two_to_46", cuMemAllocManaged(&e, 1ull << 46, CU_MEM_ATTACH_GLOBAL));
	T("two_to_48", cuMemAllocManaged(&e, 1ull << 48, CU_MEM_ATTACH_GLOBAL));
	emit("info_after", "%s", taken(free_bytes, 3 * total));
	/* Managed memory fills the device except @spare bytes.  Is it evicted for a plain allocation? */
	spare = total / 4 < GiB(1) ? total / 4 : GiB(1);
	plain_bytes = total / 2 < GiB(4) ? total / 2 : GiB(4);
	n = free_bytes > spare ? free_bytes - spare : free_bytes / 2;
	r = cuMemPrefetchAsync(d, n, gpu(), 0, s);
	emit("prefetch_all", "%s", rcs(r));
	emit("prefetch_all_then", "%s", rcs(cuStreamSynchronize(s)));
	emit("info_when_full.impl", "%s", taken(free_bytes, n));
	r = cuMemAlloc(&plain, plain_bytes);
	emit("plain_when_full", "%s", rcs(r));
	if (!r) {
		T("plain_fill", cuMemsetD8(plain, 1, plain_bytes));
		emit("info_behind_plain", "%s", available() < spare ? "full" : "room");
	}
	T("free_managed", cuMemFree(d));
	emit("freed.impl", "%s", taken(free_bytes, plain_bytes));
}

/* The lower of two allocations that are side by side; 0 if none of 16 are. */
static CUdeviceptr neighbours(size_t n)
{
	CUdeviceptr d[16];

	for (int i = 0; i < 16; i++) {
		d[i] = managed(n);
		for (int k = 0; k < i; k++)
			if (d[k] + n == d[i] || d[i] + n == d[k])
				return d[k] < d[i] ? d[k] : d[i];
	}
	return 0;
}

GROUP(resident_ranges)
{
	size_t n = MiB(4);
	int devices[2] = { 9, 9 };
	CUdeviceptr d;
	CUstream s;

	init_ctx();
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	d = neighbours(n);
	REQNZ(d);
	T("prefetch_over_two", cuMemPrefetchAsync(d, 2 * n, gpu(), 0, s));
	T("advise_over_two", cuMemAdvise(d, 2 * n, CU_MEM_ADVISE_SET_READ_MOSTLY, gpu()));
	emit("read_mostly_of_two", "%s", attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, d, 2 * n));
	T("prefetch_across", cuMemPrefetchAsync(d + n / 2, n, gpu(), 0, s));
	emit("last_prefetch_across", "%s", attribute(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, d + n / 2, n));
	T("attach_over_two", cuStreamAttachMemAsync(s, d, 2 * n, CU_MEM_ATTACH_SINGLE));
	T("fill_over_two", cuMemsetD8(d, 1, 2 * n));
	REQ(cuStreamSynchronize(s));
	/* Attributes after the CPU wrote to prefetched memory, and of a part of an allocation. */
	prefetch(d, n, gpu());
	memset(HPTR(d), 1, n);
	emit("last_prefetch_after_cpu_write", "%s",
	     attribute(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, d, n));
	emit("last_prefetch_of_page", "%s",
	     attribute(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, d + 4096, 4096));
	REQ(cuMemAdvise(d, 4096, CU_MEM_ADVISE_SET_ACCESSED_BY, gpu()));
	TF("accessed_by_page",
	   cuMemRangeGetAttribute(devices, sizeof(devices), CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, d, 4096),
	   "%d %d", devices[0], devices[1]);
	TF("accessed_by_more",
	   cuMemRangeGetAttribute(devices, sizeof(devices), CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, d, 8192),
	   "%d %d", devices[0], devices[1]);
}

GROUP(resident_others)
{
	size_t n = MiB(4);
	CUdeviceptr d, x = 0;
	CUipcMemHandle ipc;
	CUstream s;
	pid_t pid;
	int st = 0;

	init_ctx();
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	d = managed(n);
	T("register", cuMemHostRegister(HPTR(d), n, 0));
	T("register_device_map", cuMemHostRegister(HPTR(d), 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
	T("host_device_pointer", cuMemHostGetDevicePointer(&x, HPTR(d), 0));
	T("ipc", cuIpcGetMemHandle(&ipc, d));
	T("write_value", cuStreamWriteValue32(s, d, 77, 0));
	T("write_value_sync", cuStreamSynchronize(s));
	emit("write_value_read", "%u", *(volatile unsigned *)HPTR(d));
	T("free_async", cuMemFreeAsync(d, s));
	T("free_host", cuMemFreeHost(HPTR(d)));
	T("unregister", cuMemHostUnregister(HPTR(d)));
	memset(HPTR(d), 7, n);
	/* The program unmaps a page.  Can the device and a forked child still use the other pages? */
	REQNZ(munmap(HPTR(d + n / 2), 4096) == 0);
	T("fill_below_unmapped", cuMemsetD8(d, 1, n / 2));
	REQ(cuCtxSynchronize());
	pid = fork();
	REQNZ(pid >= 0);
	if (!pid)
		_exit(*(volatile char *)HPTR(d));
	waitpid(pid, &st, 0);
	emit("forked_child_reads", "%s",
	     WIFEXITED(st) ? F("%d", WEXITSTATUS(st)) : F("signal:%d", WTERMSIG(st)));
}

GROUP(resident_order)
{
	size_t n = MiB(4);
	CUdeviceptr d, e = 0, dev;
	gate_t g = { 0 };
	CUstream s;

	init_ctx();
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	d = managed(n);
	dev = dalloc(n);
	memset(HPTR(d), 1, n);
	REQ(gate_close(&g, s));
	BLOCKS("prefetch_to_device", &g, cuMemPrefetchAsync(d, n, gpu(), 0, s));
	gate_done(&g);
	cuStreamSynchronize(s);
	REQ(gate_close(&g, s));
	BLOCKS("prefetch_to_host", &g, cuMemPrefetchAsync(d, n, cpu, 0, s));
	gate_done(&g);
	cuStreamSynchronize(s);
	REQ(gate_close(&g, s));
	BLOCKS("copy_of_managed", &g, cuMemcpyDtoDAsync(dev, d, n, s));
	gate_done(&g);
	REQ(gate_close(&g, s));
	BLOCKS("copy_managed_as_host", &g, cuMemcpyHtoDAsync(dev, HPTR(d), n, s));
	gate_done(&g);
	REQ(gate_close(&g, s));
	BLOCKS("copy_to_managed_as_host", &g, cuMemcpyDtoHAsync(HPTR(d), dev, n, s));
	gate_done(&g);
	REQ(gate_close(&g, s));
	BLOCKS("advise", &g, cuMemAdvise(d, n, CU_MEM_ADVISE_SET_READ_MOSTLY, gpu()));
	gate_done(&g);
	REQ(gate_close(&g, s));
	BLOCKS("allocate", &g, cuMemAllocManaged(&e, n, CU_MEM_ATTACH_GLOBAL));
	gate_done(&g);
	/* The CPU reads the memory while a fill is queued, and after the fill. */
	REQ(gate_close(&g, s));
	REQ(cuMemsetD8Async(d, 9, n, s));
	emit("cpu_reads_before_fill", "%d", *(volatile char *)HPTR(d));
	gate_open(&g);
	REQ(cuStreamSynchronize(s));
	emit("cpu_reads_after_fill", "%d", *(volatile char *)HPTR(d));
	gate_done(&g);
}

GROUP(resident_pools)
{
	CUmemPoolProps p;
	CUmemoryPool pool = NULL;
	CUdeviceptr d = 0;
	CUstream s;
	unsigned v = 0;

	init_ctx();
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	memset(&p, 0, sizeof(p));
	p.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED;
	p.location = gpu();
	T("managed_on_device", cuMemPoolCreate(&pool, &p));
	if (pool) {
		T("managed_alloc", cuMemAllocFromPoolAsync(&d, MiB(2), pool, s));
		REQ(cuStreamSynchronize(s));
		REQNZ(d);
		TF("is_managed", cuPointerGetAttribute(&v, CU_POINTER_ATTRIBUTE_IS_MANAGED, d), "%u", v & 0xff);
		memset(HPTR(d), 1, MiB(2));
		emit("preferred", "%s", attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, d, MiB(2)));
		T("managed_prefetch", cuMemPrefetchAsync(d, MiB(2), gpu(), 0, s));
		T("managed_advise", cuMemAdvise(d, MiB(2), CU_MEM_ADVISE_SET_READ_MOSTLY, gpu()));
		T("managed_free", cuMemFreeAsync(d, s));
		T("managed_destroy", cuMemPoolDestroy(pool));
	}
	p.location = cpu;
	T("managed_on_host", cuMemPoolCreate(&pool, &p));
	p.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
	T("managed_on_numa", cuMemPoolCreate(&pool, &p));
	p.location.type = CU_MEM_LOCATION_TYPE_INVALID;
	T("managed_nowhere", cuMemPoolCreate(&pool, &p));
	p.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	p.location = cpu;
	pool = NULL;
	T("pinned_on_host", cuMemPoolCreate(&pool, &p));
	if (pool) {
		d = 0;
		T("pinned_alloc", cuMemAllocFromPoolAsync(&d, MiB(2), pool, s));
		REQ(cuStreamSynchronize(s));
		REQNZ(d);
		TF("pinned_type", cuPointerGetAttribute(&v, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, d), "%u", v);
		memset(HPTR(d), 1, MiB(2));
		T("pinned_free", cuMemFreeAsync(d, s));
	}
}

/* What every attribute says of a range, in the order of their numbers. */
static const char *attributes(CUdeviceptr d, size_t n)
{
	static char line[256];
	size_t at = 0;
	int a;

	for (a = CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY; a <= CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID; a++)
		at += snprintf(line + at, sizeof(line) - at, "%s%s", at ? " " : "",
			       attribute((CUmem_range_attribute)a, d, n));
	return line;
}

static void pool_advice(const char *name, CUmemLocation place)
{
	static const CUmem_advise advice[] = {
		CU_MEM_ADVISE_SET_READ_MOSTLY, CU_MEM_ADVISE_UNSET_READ_MOSTLY,
		CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION,
		CU_MEM_ADVISE_SET_ACCESSED_BY, CU_MEM_ADVISE_UNSET_ACCESSED_BY,
	};
	CUmemPoolProps p = {
		.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED, .location = place,
	};
	CUmemLocation other = place.type == CU_MEM_LOCATION_TYPE_DEVICE ? cpu : gpu(), bad = gpu();
	CUmemoryPool pool = NULL;
	CUdeviceptr d = 0;
	unsigned i;

	MUST(cuMemPoolCreate(&pool, &p));
	MUST(cuMemAllocFromPoolAsync(&d, MiB(4), pool, 0));
	MUST(cuStreamSynchronize(0));
	emit(F("%s_fresh", name), "%s", attributes(d, MiB(4)));
	for (i = 0; i < sizeof(advice) / sizeof(*advice); i++)
		T(F("%s_advice_%d", name, advice[i]), cuMemAdvise(d, MiB(4), advice[i], other));
	T(F("%s_part", name), cuMemAdvise(d + 4096, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, other));
	T(F("%s_too_long", name), cuMemAdvise(d, MiB(5), CU_MEM_ADVISE_SET_READ_MOSTLY, other));
	T(F("%s_nothing", name), cuMemAdvise(d, 0, CU_MEM_ADVISE_SET_READ_MOSTLY, other));
	bad.id = 99;
	T(F("%s_no_device", name), cuMemAdvise(d, MiB(4), CU_MEM_ADVISE_SET_PREFERRED_LOCATION, bad));
	T(F("%s_bad_advice", name), cuMemAdvise(d, MiB(4), (CUmem_advise)99, other));
	emit(F("%s_after_advice", name), "%s", attributes(d, MiB(4)));
	T(F("%s_prefetch", name), cuMemPrefetchAsync(d, MiB(2), other, 0, 0));
	MUST(cuStreamSynchronize(0));
	emit(F("%s_after_prefetch", name), "%s", attributes(d, MiB(2)));
	emit(F("%s_of_all", name), "%s", attributes(d, MiB(4)));
	MUST(cuMemFreeAsync(d, 0));
	MUST(cuStreamSynchronize(0));
	MUST(cuMemAllocFromPoolAsync(&d, MiB(4), pool, 0));
	MUST(cuStreamSynchronize(0));
	emit(F("%s_allocated_again", name), "%s", attributes(d, MiB(4)));
	MUST(cuMemFreeAsync(d, 0));
	MUST(cuStreamSynchronize(0));
	T(F("%s_freed", name), cuMemAdvise(d, MiB(4), CU_MEM_ADVISE_SET_READ_MOSTLY, other));
	MUST(cuMemPoolDestroy(pool));
}

GROUP(resident_pool_advice)
{
	init_ctx();
	pool_advice("device", gpu());
	pool_advice("host", cpu);
	pool_advice("numa", (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_HOST_NUMA });
	pool_advice("nowhere", (CUmemLocation){ .type = CU_MEM_LOCATION_TYPE_INVALID });
}

/* Copies between device and managed memory, whose first byte is @at behind a page's. */
static void copies_wait(const char *name, size_t n, size_t at)
{
	CUdeviceptr d = managed(n + at) + at, dev = dalloc(n);
	CUDA_MEMCPY2D c = {
		.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = HPTR(d),
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = dev,
		.WidthInBytes = n, .Height = 1,
	};
	CUDA_MEMCPY2D u = {
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED, .srcDevice = d,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED, .dstDevice = dev,
		.WidthInBytes = n, .Height = 1,
	};
	gate_t g = { 0 };
	CUstream s;

	MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	memset(HPTR(d), 1, n);
	MUST(gate_close(&g, s));
	BLOCKS(F("%s_htod", name), &g, cuMemcpyHtoDAsync(dev, HPTR(d), n, s));
	gate_done(&g);
	MUST(gate_close(&g, s));
	BLOCKS(F("%s_dtoh", name), &g, cuMemcpyDtoHAsync(HPTR(d), dev, n, s));
	gate_done(&g);
	MUST(gate_close(&g, s));
	BLOCKS(F("%s_unified", name), &g, cuMemcpyAsync(dev, d, n, s));
	gate_done(&g);
	MUST(gate_close(&g, s));
	BLOCKS(F("%s_unified_back", name), &g, cuMemcpyAsync(d, dev, n, s));
	gate_done(&g);
	MUST(gate_close(&g, s));
	BLOCKS(F("%s_2d_host", name), &g, cuMemcpy2DAsync(&c, s));
	gate_done(&g);
	MUST(gate_close(&g, s));
	BLOCKS(F("%s_2d_unified", name), &g, cuMemcpy2DAsync(&u, s));
	gate_done(&g);
	c.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
	MUST(gate_close(&g, s));
	BLOCKS(F("%s_2d_host_to_unified", name), &g, cuMemcpy2DAsync(&c, s));
	gate_done(&g);
	/* Does the copy take the value at the call, or when the stream gets there? */
	MUST(gate_close(&g, s));
	MUST(cuMemcpyDtoDAsync(dev, d, n, s));
	memset(HPTR(d), 2, n);
	gate_open(&g);
	MUST(cuStreamSynchronize(s));
	gate_done(&g);
	emit(F("%s_dtod_value", name), "%s", dbyte(dev, n, 2));
	MUST(cuMemFree(dev));
	MUST(cuMemFree(d - at));
	MUST(cuStreamDestroy(s));
}

static void array_copies_wait(size_t n)
{
	CUDA_ARRAY_DESCRIPTOR what = {
		.Width = n, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1,
	};
	CUdeviceptr d = managed(n);
	CUarray array = NULL;
	gate_t g = { 0 };
	CUstream s;

	MUST(cuArrayCreate(&array, &what));
	MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	memset(HPTR(d), 1, n);
	MUST(gate_close(&g, s));
	BLOCKS("htoa", &g, cuMemcpyHtoAAsync(array, 0, HPTR(d), n, s));
	gate_done(&g);
	MUST(gate_close(&g, s));
	BLOCKS("atoh", &g, cuMemcpyAtoHAsync(HPTR(d), array, 0, n, s));
	gate_done(&g);
	MUST(cuArrayDestroy(array));
	MUST(cuMemFree(d));
	MUST(cuStreamDestroy(s));
}

/* A small copy that does not wait takes the value at the call, or later. */
static const char *small_value(size_t n)
{
	CUdeviceptr d = managed(n), dev = dalloc(n);
	const char *seen;
	gate_t g = { 0 };
	CUstream s;

	MUST(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	memset(HPTR(d), 1, n);
	MUST(gate_close(&g, s));
	gate_after(&g, 300);
	MUST(cuMemcpyHtoDAsync(dev, HPTR(d), n, s));
	memset(HPTR(d), 2, n);
	gate_open(&g);
	MUST(cuStreamSynchronize(s));
	gate_done(&g);
	seen = strcmp(dbyte(dev, n, 1), "all") ? "later" : "at the call";
	MUST(cuMemFree(dev));
	MUST(cuMemFree(d));
	MUST(cuStreamDestroy(s));
	return seen;
}

GROUP(resident_copies)
{
	init_ctx();
	copies_wait("4", 4, 0);
	copies_wait("4096", 4096, 0);
	copies_wait("64k", KiB(64), 0);
	copies_wait("64k_1", KiB(64) + 1, 0);
	copies_wait("2m", MiB(2), 0);
	copies_wait("2m_1", MiB(2) + 1, 0);
	copies_wait("16m", MiB(16), 0);
	copies_wait("odd", 12345, 77);
	array_copies_wait(4096);
	emit("value_4", "%s", small_value(4));
	emit("value_64k", "%s", small_value(KiB(64)));
	emit("value_2m", "%s", small_value(MiB(2)));
	emit("value_4m", "%s", small_value(MiB(4)));
}

GROUP(resident_prefetch_order)
{
	size_t n = MiB(4);
	CUdeviceptr d;
	gate_t g = { 0 };
	CUstream s;

	init_ctx();
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	d = managed(n);
	memset(HPTR(d), 1, n);
	REQ(gate_close(&g, s));
	REQ(cuMemPrefetchAsync(d, n, gpu(), 0, s));
	emit("queued", "%s", attributes(d, n));
	REQ(cuMemPrefetchAsync(d, n / 2, cpu, 0, 0));
	REQ(cuStreamSynchronize(0));
	emit("half_elsewhere", "%s", attributes(d, n));
	emit("first_half", "%s", attributes(d, n / 2));
	gate_open(&g);
	REQ(cuStreamSynchronize(s));
	gate_done(&g);
	emit("done", "%s", attributes(d, n));
	/* A free while prefetches are queued. */
	REQ(gate_close(&g, s));
	REQ(cuMemPrefetchAsync(d, n, cpu, 0, s));
	BLOCKS("free", &g, cuMemFree(d));
	gate_done(&g);
}
