// SPDX-License-Identifier: GPL-2.0
/*
 * Cases of mapped memory in use.  public_vmm.c has the arguments of each function of virtual memory
 * management, public_vmm_order.c work in streams, public_vmm_share.c handles of other processes.
 *
 * - Which rights apply after cuMemSetAccess over several mappings, over a hole, and after an error?
 * - Is a handle valid after it was mapped twice, retained and released?
 * - What do the functions for other kinds of memory answer: IPC, registration, managed memory, DMA-bufs?
 * - Where can the CPU reach memory of a host location, also in a forked child?
 * - How does a buffer grow, and which address hints are followed?
 * - How are tiles of sparse arrays, mip tails and deferred arrays mapped?
 */
#include <sys/wait.h>
#include <setjmp.h>
#include <signal.h>
#include "vmm.h"

/* ------------------------------------------------------ access by the CPU */
static sigjmp_buf fault;

static void on_fault(int sig)
{
	siglongjmp(fault, sig);
}

/* "signal:N" if the access faults; else the byte that was read, or "written" */
static const char *cpu_access(CUdeviceptr d, int writes)
{
	struct sigaction a = { .sa_handler = on_fault }, segv, bus;
	volatile unsigned char *byte = HPTR(d);
	const char *out;
	int sig;

	sigaction(SIGSEGV, &a, &segv);
	sigaction(SIGBUS, &a, &bus);
	sig = sigsetjmp(fault, 1);
	if (sig) {
		out = F("signal:%d", sig);
	} else if (writes) {
		*byte = 1;
		out = "written";
	} else {
		out = F("%d", *byte);
	}
	sigaction(SIGSEGV, &segv, NULL);
	sigaction(SIGBUS, &bus, NULL);
	return out;
}

static const char *cpu_reads(CUdeviceptr d)
{
	return cpu_access(d, 0);
}

static const char *cpu_writes(CUdeviceptr d)
{
	return cpu_access(d, 1);
}

/* ------------------------------------------------------ rights over several mappings */
static const char *rights(CUdeviceptr d)
{
	CUmemLocation dev = { CU_MEM_LOCATION_TYPE_DEVICE, g_dev };
	unsigned long long fl = 99;
	CUresult r = cuMemGetAccess(&fl, &dev, d);

	return r ? rcs(r) : F("%llu", fl);
}

GROUP(vmm_rights)
{
	CUmemAccessDesc a = rw(), ro = a, none = a, bad, list[2];
	CUmemGenericAllocationHandle h[4];
	CUdeviceptr d, low = 0, high = 0, base = 0;
	char *host = halloc(4 * G);
	size_t n = 0;
	int fd = -1;

	init_ctx();
	ro.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
	none.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	bad = desc_at(CU_MEM_LOCATION_TYPE_DEVICE, 99, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	d = reserve(8 * G);
	for (int i = 0; i < 4; i++) {
		h[i] = mk(G);
		REQ(cuMemMap(d + i * G, G, 0, h[i], 0));
	}
	T("four_in_one_call", cuMemSetAccess(d, 4 * G, &a, 1));
	emit("four_in_one_call_now", "%s %s", rights(d), rights(d + 3 * G));
	T("middle_two_read_only", cuMemSetAccess(d + G, 2 * G, &ro, 1));
	emit("middle_now", "%s %s", rights(d + G), rights(d + 2 * G));
	emit("ends_now", "%s %s", rights(d), rights(d + 3 * G));
	T("fill_of_read_only", cuMemsetD8(d + G, 1, 16));
	emit("fill_of_read_only_then", "%s", rcs(cuCtxSynchronize()));
	T("copy_to_read_only", cuMemcpyHtoD(d + G, host, 64));
	T("copy_from_read_only", cuMemcpyDtoH(host, d + G, 64));
	T("copy_over_read_only", cuMemcpyHtoD(d, host, 3 * G));
	T("copy_out_over_read_only", cuMemcpyDtoH(host, d, 4 * G));
	T("all_writable_again", cuMemSetAccess(d, 4 * G, &a, 1));
	T("fill_all", cuMemsetD8(d, 5, 4 * G));
	emit("fill_all_then", "%s", rcs(cuCtxSynchronize()));
	T("none_in_the_middle", cuMemSetAccess(d + G, G, &none, 1));
	T("range_of_none", cuMemGetAddressRange(&base, &n, d + G));
	T("copy_over_none", cuMemcpyDtoH(host, d, 4 * G));
	T("fill_over_none", cuMemsetD8(d, 5, 4 * G));
	T("dmabuf_over_none",
	  cuMemGetHandleForAddressRange(&fd, d, 4 * G, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	close(fd);
	/* Is the valid entry of a list applied if the other one is invalid? */
	REQ(cuMemSetAccess(d, 4 * G, &none, 1));
	list[0] = a;
	list[1] = bad;
	T("good_then_bad", cuMemSetAccess(d, 4 * G, list, 2));
	emit("good_then_bad_now", "%s", rights(d));
	list[0] = a;
	list[1] = ro;
	T("same_location_two_rights", cuMemSetAccess(d, 4 * G, list, 2));
	emit("same_location_two_rights_now", "%s", rights(d));
	list[0] = a;
	list[1] = desc_at(CU_MEM_LOCATION_TYPE_HOST, 0, CU_MEM_ACCESS_FLAGS_PROT_READ);
	T("device_and_host", cuMemSetAccess(d, 4 * G, list, 2));
	emit("device_and_host_now", "%s", rights(d));
	list[1] = desc_at(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	T("device_and_numa", cuMemSetAccess(d, 4 * G, list, 2));
	/* A range that ends in a hole: do the rights of the mappings before the hole change? */
	REQ(cuMemSetAccess(d, 4 * G, &none, 1));
	T("over_a_hole", cuMemSetAccess(d, 5 * G, &a, 1));
	emit("over_a_hole_now", "%s", rights(d));
	T("from_a_hole", cuMemSetAccess(d + 4 * G, G, &a, 1));
	T("over_the_end", cuMemSetAccess(d + 3 * G, 16 * G, &a, 1));
	T("half_of_one", cuMemSetAccess(d, G / 2, &a, 1));
	T("one_and_a_half", cuMemSetAccess(d, G + G / 2, &a, 1));
	T("unmap_one_of_four", cuMemUnmap(d + G, G));
	T("unmap_over_hole", cuMemUnmap(d, 4 * G));
	emit("unmap_over_hole_now", "%s", rights(d));
	/* Ranges that end or begin inside a mapping. */
	REQ(cuMemMap(d, G, 0, h[0], 0));
	REQ(cuMemMap(d + G, G, 0, h[1], 0));
	T("unmap_one_and_a_half", cuMemUnmap(d, G + G / 2));
	emit("unmap_one_and_a_half_now", "%s", rights(d));
	T("unmap_from_half", cuMemUnmap(d + G / 2, G + G / 2));
	T("unmap_over_reservations", cuMemUnmap(d, 64 * G));
	T("free_all", cuMemAddressFree(d, 8 * G));
	/* Two reservations side by side, where one was. */
	TF("reserve_high", cuMemAddressReserve(&high, 4 * G, 0, d + 4 * G, 0), "there=%d", high == d + 4 * G);
	TF("reserve_low", cuMemAddressReserve(&low, 4 * G, 0, d, 0), "there=%d", low == d);
	REQNZ(low == d && high == d + 4 * G);
	REQ(cuMemMap(high - G, G, 0, h[2], 0));
	REQ(cuMemMap(high, G, 0, h[3], 0));
	T("access_over_two_reservations", cuMemSetAccess(high - G, 2 * G, &a, 1));
	T("copy_over_two_reservations", cuMemcpyDtoH(host, high - G, 2 * G));
	T("unmap_over_two_reservations", cuMemUnmap(high - G, 2 * G));
	T("free_two_reservations", cuMemAddressFree(d, 8 * G));
}

/* ------------------------------------------------------ one handle, mapped twice and retained */
GROUP(vmm_same_handle)
{
	CUmemGenericAllocationHandle h, r[3] = { 0 };
	CUmemAccessDesc a = rw();
	CUmemAllocationProp p;
	CUdeviceptr d, b = 0;
	size_t n = 0;

	init_ctx();
	h = mk(G);
	d = reserve(4 * G);
	T("map_1", cuMemMap(d, G, 0, h, 0));
	T("map_2_beside", cuMemMap(d + G, G, 0, h, 0));
	T("access_of_both", cuMemSetAccess(d, 2 * G, &a, 1));
	T("fill_first", cuMemsetD8(d, 7, G));
	emit("second_sees", "%s", dbyte(d + G, G, 7));
	TF("range_of_second", cuMemGetAddressRange(&b, &n, d + G + 5), "base=%s size=%s", prel(b, d + G), rel(n, G));
	T("copy_onto_itself", cuMemcpyDtoD(d + G, d, G));
	T("retain_1", cuMemRetainAllocationHandle(&r[0], HPTR(d)));
	T("retain_2", cuMemRetainAllocationHandle(&r[1], HPTR(d + G)));
	T("release_1", cuMemRelease(h));
	T("release_2", cuMemRelease(h));
	T("release_3", cuMemRelease(h));
	T("retain_of_released", cuMemRetainAllocationHandle(&r[2], HPTR(d)));
	emit("retain_of_released_same", "%d", r[2] == h);
	T("map_3", cuMemMap(d + 2 * G, G, 0, r[2], 0));
	T("props_of_retained", cuMemGetAllocationPropertiesFromHandle(&p, r[2]));
	T("unmap_all", cuMemUnmap(d, 4 * G));
	T("release_last", cuMemRelease(r[2]));
	T("free", cuMemAddressFree(d, 4 * G));
}

/* ------------------------------------------------------ functions for other kinds of memory */
GROUP(vmm_others)
{
	CUdeviceptr d, b = 0, x = 0;
	unsigned value = 0, on = 1;
	int fd = -1, fd2 = -1, v;
	char *host = halloc(G);
	CUDA_MEMCPY2D c = { 0 };
	CUmemLocation device;
	CUipcMemHandle ipc;
	size_t n = 0;
	CUstream s;

	init_ctx();
	device = rw().location;
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	d = mapped(4 * G);
	T("ipc_handle", cuIpcGetMemHandle(&ipc, d));
	T("host_register", cuMemHostRegister(HPTR(d), G, 0));
	T("host_register_device_map", cuMemHostRegister(HPTR(d), G, CU_MEMHOSTREGISTER_DEVICEMAP));
	T("host_get_device_pointer", cuMemHostGetDevicePointer(&x, HPTR(d), 0));
	T("advise", cuMemAdvise(d, G, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
	T("prefetch", cuMemPrefetchAsync(d, G, device, 0, s));
	T("attach", cuStreamAttachMemAsync(s, d, 0, CU_MEM_ATTACH_GLOBAL));
	T("range_attribute", cuMemRangeGetAttribute(&v, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, d, G));
	T("write_value", cuStreamWriteValue32(s, d, 0x1234, 0));
	T("wait_value", cuStreamWaitValue32(s, d, 0x1234, CU_STREAM_WAIT_VALUE_EQ));
	T("value_done", cuStreamSynchronize(s));
	TF("value_read", cuMemcpyDtoH(&value, d, 4), "%x", value);
	T("set_sync_memops", cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, d));
	T("free_host", cuMemFreeHost(HPTR(d)));
	T("memcpy_default", cuMemcpy(d, DPTR(host), G));
	c.srcMemoryType = CU_MEMORYTYPE_HOST;
	c.srcHost = host;
	c.srcPitch = 4096;
	c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	c.dstDevice = d + 100;
	c.dstPitch = 8192;
	c.WidthInBytes = 4000;
	c.Height = 64;
	T("memcpy_2d", cuMemcpy2D(&c));
	emit("cpu_reads", "%s", cpu_reads(d));
	/* DMA-bufs of parts of a mapping.  Do they outlive it? */
	T("dmabuf", cuMemGetHandleForAddressRange(&fd, d + G, G, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	T("dmabuf_page", cuMemGetHandleForAddressRange(&fd2, d + 4096, 4096, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	T("unmap_with_dmabuf", cuMemUnmap(d, 4 * G));
	emit("dmabuf_size_after_unmap", "%lld", (long long)lseek(fd, 0, SEEK_END));
	close(fd);
	close(fd2);
	T("free_with_dmabuf", cuMemAddressFree(d, 4 * G));
	/* A DMA-buf of two mappings that lie side by side. */
	d = reserve(2 * G);
	for (int i = 0; i < 2; i++) {
		CUmemGenericAllocationHandle h = mk(G);
		CUmemAccessDesc a = rw();

		REQ(cuMemMap(d + i * G, G, 0, h, 0));
		REQ(cuMemSetAccess(d + i * G, G, &a, 1));
		cuMemRelease(h);
	}
	T("dmabuf_of_two", cuMemGetHandleForAddressRange(&fd, d, 2 * G, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	emit("dmabuf_of_two_size", "%lld", (long long)lseek(fd, 0, SEEK_END));
	T("dmabuf_across",
	  cuMemGetHandleForAddressRange(&fd2, d + G - 4096, 8192, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	TF("range_of_second", cuMemGetAddressRange(&b, &n, d + G), "base=%s size=%s", prel(b, d + G), rel(n, G));
	T("mem_free", cuMemFree(d));
	T("mem_free_interior", cuMemFree(d + G));
}

/* ------------------------------------------------------ host locations */
static void host_location(const char *name, CUmemLocationType type, int id)
{
	CUmemAllocationProp p = prop_at(type, id, 0);
	CUmemGenericAllocationHandle h = 0;
	CUmemAccessDesc gpu = rw(), cpu, both[2];
	CUdeviceptr d = 0;
	CUipcMemHandle ipc;
	CUmemLocation dev = gpu.location, here = { type, id };
	unsigned long long fl;
	size_t g = 0;
	char *host = halloc(G);
	unsigned v = 0;
	void *hp;
	int fd = -1;
	CUresult r;

	TF(F("%s_granularity", name),
	   cuMemGetAllocationGranularity(&g, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM), "%zu", g);
	r = cuMemCreate(&h, G, &p, 0);
	emit(F("%s_create", name), "rc=%s", rcs(r));
	if (r)
		return;
	d = reserve(G);
	T(F("%s_map", name), cuMemMap(d, G, 0, h, 0));
	emit(F("%s_cpu_without_rights", name), "%s", cpu_reads(d));
	T(F("%s_gpu_only", name), cuMemSetAccess(d, G, &gpu, 1));
	emit(F("%s_gpu_only_cpu", name), "%s", cpu_reads(d));
	T(F("%s_gpu_only_fill", name), cuMemsetD8(d, 9, G));
	emit(F("%s_gpu_only_then", name), "%s", rcs(cuCtxSynchronize()));
	fl = 99;
	r = cuMemGetAccess(&fl, &here, d);
	emit(F("%s_gpu_only_rights", name), "here=%s:%llu", rcs(r), fl);
	cpu = desc_at(type, id, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	T(F("%s_cpu_too", name), cuMemSetAccess(d, G, &cpu, 1));
	emit(F("%s_cpu_too_reads", name), "%s", cpu_reads(d));
	emit(F("%s_cpu_too_writes", name), "%s", cpu_writes(d));
	fl = 99;
	r = cuMemGetAccess(&fl, &dev, d);
	emit(F("%s_cpu_too_device", name), "%s:%llu", rcs(r), fl);
	fl = 99;
	r = cuMemGetAccess(&fl, &here, d);
	emit(F("%s_cpu_too_here", name), "%s:%llu", rcs(r), fl);
	cpu.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
	T(F("%s_cpu_read_only", name), cuMemSetAccess(d, G, &cpu, 1));
	emit(F("%s_cpu_read_only_writes", name), "%s", cpu_writes(d));
	cpu.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	T(F("%s_cpu_none", name), cuMemSetAccess(d, G, &cpu, 1));
	emit(F("%s_cpu_none_reads", name), "%s", cpu_reads(d));
	gpu.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	cpu.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	both[0] = gpu;
	both[1] = cpu;
	T(F("%s_only_cpu", name), cuMemSetAccess(d, G, both, 2));
	emit(F("%s_only_cpu_reads", name), "%s", cpu_reads(d));
	T(F("%s_only_cpu_copy", name), cuMemcpyDtoH(host, d, G));
	T(F("%s_only_cpu_fill", name), cuMemsetD8(d, 1, G));
	gpu = rw();
	T(F("%s_both_again", name), cuMemSetAccess(d, G, &gpu, 1));
	TF(F("%s_memory_type", name), cuPointerGetAttribute(&v, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, d), "%u", v);
	v = 99;
	TF(F("%s_ordinal", name), cuPointerGetAttribute(&v, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, d),
	   "%d", (int)v);
	hp = NULL;
	TF(F("%s_host_pointer", name), cuPointerGetAttribute(&hp, CU_POINTER_ATTRIBUTE_HOST_POINTER, d),
	   "same=%d", hp == HPTR(d));
	hp = NULL;
	TF(F("%s_device_pointer", name), cuPointerGetAttribute(&hp, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, d),
	   "same=%d", hp == HPTR(d));
	T(F("%s_dmabuf", name),
	  cuMemGetHandleForAddressRange(&fd, d, G, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	T(F("%s_ipc", name), cuIpcGetMemHandle(&ipc, d));
	T(F("%s_register", name), cuMemHostRegister(HPTR(d), G, 0));
	T(F("%s_release", name), cuMemRelease(h));
	T(F("%s_unmap", name), cuMemUnmap(d, G));
	emit(F("%s_cpu_after_unmap", name), "%s", cpu_reads(d));
	cuMemAddressFree(d, G);
	T(F("%s_size_4096", name), cuMemCreate(&h, 4096, &p, 0));
	p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	r = cuMemCreate(&h, G, &p, 0);
	emit(F("%s_create_posix", name), "%s", rcs(r));
	if (r)
		return;
	fd = -1;
	T(F("%s_export", name),
	  cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	T(F("%s_import", name),
	  cuMemImportFromShareableHandle(&h, HPTR(fd), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
}

GROUP(vmm_host)
{
	init_ctx();
	host_location("host", CU_MEM_LOCATION_TYPE_HOST, 0);
	host_location("numa", CU_MEM_LOCATION_TYPE_HOST_NUMA, 0);
	host_location("current", CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 0);
}

/* Does memory of a host location count as device memory? */
GROUPALONE(vmm_host_info)
{
	CUmemAllocationProp p;
	CUmemGenericAllocationHandle h = 0;
	size_t f0, f1, t;

	init_ctx();
	p = prop_at(CU_MEM_LOCATION_TYPE_HOST, 0, 0);
	cuMemGetInfo(&f0, &t);
	REQ(cuMemCreate(&h, MiB(512), &p, 0));
	cuMemGetInfo(&f1, &t);
	emit("device_memory_taken", "%d", f0 > f1 && f0 - f1 >= MiB(256));
}

/* ------------------------------------------------------ a forked child */
GROUP(vmm_fork)
{
	CUdeviceptr d, e;
	CUmemAllocationProp p;
	CUmemGenericAllocationHandle h;
	CUmemAccessDesc both[2];
	pid_t pid;
	int fds[2];
	char line[64] = "";

	init_ctx();
	d = mapped(G);
	p = prop_at(CU_MEM_LOCATION_TYPE_HOST, 0, 0);
	REQ(cuMemCreate(&h, G, &p, 0));
	e = reserve(G);
	REQ(cuMemMap(e, G, 0, h, 0));
	both[0] = rw();
	both[1] = desc_at(CU_MEM_LOCATION_TYPE_HOST, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	REQ(cuMemSetAccess(e, G, both, 2));
	memset(HPTR(e), 5, G);
	REQNZ(pipe(fds) == 0);
	pid = fork();
	REQNZ(pid >= 0);
	if (!pid) {
		const char *device = cpu_reads(d), *host = cpu_reads(e);

		snprintf(line, sizeof(line), "device=%s host=%s write=%s", device, host, cpu_writes(e));
		_exit(write(fds[1], line, sizeof(line)) < 0);
	}
	close(fds[1]);
	if (read(fds[0], line, sizeof(line)) <= 0)
		strcpy(line, "died");
	waitpid(pid, NULL, 0);
	emit("child", "%s", line);
	emit("parent_sees", "%d", *(unsigned char *)HPTR(e));
	T("unmap", cuMemUnmap(e, G));
}

/* ------------------------------------------------------ growth, sizes, alignment */
GROUP(vmm_grow)
{
	static const int big[] = { 40, 42, 44, 45, 46, 47, 48, 56 };
	CUmemAccessDesc a = rw();
	CUdeviceptr d, e = 0, at;
	size_t n = 64;
	char *mine;
	int ok = 0;

	init_ctx();
	d = reserve(n * G);
	for (size_t i = 0; i < n; i++) {
		CUmemGenericAllocationHandle h = mk(G);

		ok += !cuMemMap(d + i * G, G, 0, h, 0) && !cuMemSetAccess(d + i * G, G, &a, 1) && !cuMemRelease(h);
	}
	emit("pieces", "%d", ok);
	T("fill_all", cuMemsetD8(d, 6, n * G));
	emit("content", "%s", dbyte(d, n * G, 6));
	TF("reserve_behind.impl", cuMemAddressReserve(&e, G, 0, d + n * G, 0), "there=%d", e == d + n * G);
	T("unmap_half", cuMemUnmap(d, n / 2 * G));
	emit("rest", "%s", dbyte(d + n / 2 * G, n / 2 * G, 6));
	T("unmap_all", cuMemUnmap(d, n * G));
	T("free", cuMemAddressFree(d, n * G));
	/* Reservations that are far larger than memory. */
	for (size_t i = 0; i < sizeof(big) / sizeof(big[0]); i++) {
		CUresult r = cuMemAddressReserve(&e, 1ull << big[i], 0, 0, 0);

		emit(F("reserve_2_%d.impl", big[i]), "rc=%s", rcs(r));
		if (!r)
			cuMemAddressFree(e, 1ull << big[i]);
	}
	/* Hints that cannot be followed: the program's own memory, a low address, one that does not exist. */
	mine = halloc(8 * G);
	at = (DPTR(mine) + G - 1) & ~(CUdeviceptr)(G - 1);
	TF("hint_of_host_memory", cuMemAddressReserve(&e, G, 0, at, 0), "other=%d", e != at);
	TF("hint_low", cuMemAddressReserve(&e, G, 0, G, 0), "low=%d", e == G);
	TF("hint_high", cuMemAddressReserve(&e, G, 0, 1ull << 50, 0), "high=%d", e == 1ull << 50);
}

/* ------------------------------------------------------ sparse and deferred arrays */
static const char *sparse(const CUDA_ARRAY_SPARSE_PROPERTIES *p)
{
	return F("tile=%ux%ux%u tail_level=%u tail=%llu flags=%u", p->tileExtent.width, p->tileExtent.height,
		 p->tileExtent.depth, p->miptailFirstLevel, p->miptailSize, p->flags);
}

GROUP(vmm_arrays)
{
	CUDA_ARRAY3D_DESCRIPTOR ad = { .Width = 1024, .Height = 1024, .Format = CU_AD_FORMAT_UNSIGNED_INT8,
				       .NumChannels = 4 };
	CUDA_ARRAY_SPARSE_PROPERTIES sp = { 0 };
	CUDA_ARRAY_MEMORY_REQUIREMENTS mr = { 0 };
	CUarrayMapInfo m, two[2];
	CUmemGenericAllocationHandle h;
	CUmemAllocationProp p;
	CUarray arr = NULL, def = NULL;
	CUstream s;
	CUresult r;
	char *host = halloc(MiB(4)), *back = halloc(MiB(4));
	CUDA_MEMCPY2D c = { 0 };
	size_t tile;

	init_ctx();
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	fill(host, MiB(4), 3);
	ad.Flags = CUDA_ARRAY3D_SPARSE;
	REQ(cuArray3DCreate(&arr, &ad));
	TF("sparse_properties", cuArrayGetSparseProperties(&sp, arr), "%s", sparse(&sp));
	TF("sparse_requirements", cuArrayGetMemoryRequirements(&mr, arr, g_dev), "size=%zu align=%zu",
	   mr.size, mr.alignment);
	p = prop_at(CU_MEM_LOCATION_TYPE_DEVICE, g_dev, 0);
	h = mk(MiB(4));
	m = first_tile(arr, &sp, h);
	T("tile_without_usage", cuMemMapArrayAsync(&m, 1, s));
	cuMemRelease(h);
	p.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
	REQ(cuMemCreate(&h, MiB(4), &p, 0));
	m.memHandle.memHandle = h;
	T("tile", cuMemMapArrayAsync(&m, 1, s));
	T("tile_sync", cuStreamSynchronize(s));
	c.srcMemoryType = CU_MEMORYTYPE_HOST;
	c.srcHost = host;
	c.srcPitch = sp.tileExtent.width * 4;
	c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	c.dstArray = arr;
	c.WidthInBytes = sp.tileExtent.width * 4;
	c.Height = sp.tileExtent.height;
	T("copy_into_tile", cuMemcpy2D(&c));
	memset(&c, 0, sizeof(c));
	c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	c.srcArray = arr;
	c.dstMemoryType = CU_MEMORYTYPE_HOST;
	c.dstHost = back;
	c.dstPitch = c.WidthInBytes = sp.tileExtent.width * 4;
	c.Height = sp.tileExtent.height;
	tile = (size_t)sp.tileExtent.width * 4 * sp.tileExtent.height;
	TF("copy_from_tile", cuMemcpy2D(&c), "%s", hsame(back, tile, 3));
	c.srcXInBytes = sp.tileExtent.width * 4;
	memset(back, 1, MiB(4));
	TF("copy_from_hole", cuMemcpy2D(&c), "zero=%d", allbyte(back, tile, 0));
	c.srcXInBytes = 0;
	two[0] = two[1] = m;
	two[1].subresource.sparseLevel.offsetX = sp.tileExtent.width;
	two[1].offset = 65536;
	T("two_tiles", cuMemMapArrayAsync(two, 2, s));
	m.subresource.sparseLevel.offsetX = 1;
	T("offset_in_tile", cuMemMapArrayAsync(&m, 1, s));
	m.subresource.sparseLevel.offsetX = 0;
	m.subresource.sparseLevel.extentWidth = 1;
	T("extent_1", cuMemMapArrayAsync(&m, 1, s));
	m.subresource.sparseLevel.extentWidth = 4096;
	T("extent_too_wide", cuMemMapArrayAsync(&m, 1, s));
	m.subresource.sparseLevel.extentWidth = sp.tileExtent.width;
	m.offset = 100;
	T("offset_100", cuMemMapArrayAsync(&m, 1, s));
	m.offset = MiB(64);
	T("offset_past_end", cuMemMapArrayAsync(&m, 1, s));
	m.offset = 0;
	m.deviceBitMask = 0;
	T("mask_0", cuMemMapArrayAsync(&m, 1, s));
	m.deviceBitMask = 3;
	T("mask_3", cuMemMapArrayAsync(&m, 1, s));
	m.deviceBitMask = 1;
	m.flags = 1;
	T("flags_1", cuMemMapArrayAsync(&m, 1, s));
	m.flags = 0;
	m.memOperationType = 9;
	T("operation_9", cuMemMapArrayAsync(&m, 1, s));
	m.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
	m.memHandleType = 9;
	T("handle_type_9", cuMemMapArrayAsync(&m, 1, s));
	m.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
	m.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL;
	T("tail_of_array", cuMemMapArrayAsync(&m, 1, s));
	m.subresourceType = 9;
	T("subresource_9", cuMemMapArrayAsync(&m, 1, s));
	m.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
	m.subresource.sparseLevel.level = 1;
	T("level_1", cuMemMapArrayAsync(&m, 1, s));
	m.subresource.sparseLevel.level = 0;
	m.subresource.sparseLevel.layer = 1;
	T("layer_1", cuMemMapArrayAsync(&m, 1, s));
	m.subresource.sparseLevel.layer = 0;
	T("count_0", cuMemMapArrayAsync(&m, 0, s));
	T("null_list", cuMemMapArrayAsync(NULL, 1, s));
	T("null_stream", cuMemMapArrayAsync(&m, 1, NULL));
	m.memOperationType = CU_MEM_OPERATION_TYPE_UNMAP;
	m.memHandle.memHandle = 0;
	T("unmap_tile", cuMemMapArrayAsync(&m, 1, s));
	T("unmap_tile_again", cuMemMapArrayAsync(&m, 1, s));
	T("unmap_sync", cuStreamSynchronize(s));
	memset(back, 1, MiB(4));
	TF("copy_from_unmapped", cuMemcpy2D(&c), "zero=%d", allbyte(back, tile, 0));
	T("release_tiles", cuMemRelease(h));
	T("destroy_sparse", cuArrayDestroy(arr));
	/* An array with deferred mapping is mapped as a whole. */
	ad.Flags = CUDA_ARRAY3D_DEFERRED_MAPPING;
	r = cuArray3DCreate(&def, &ad);
	emit("deferred_create", "%s", rcs(r));
	if (r)
		return;
	memset(&mr, 0, sizeof(mr));
	TF("deferred_requirements", cuArrayGetMemoryRequirements(&mr, def, g_dev), "size=%zu align=%zu",
	   mr.size, mr.alignment);
	memset(&m, 0, sizeof(m));
	m.resourceType = CU_RESOURCE_TYPE_ARRAY;
	m.resource.array = def;
	m.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
	m.subresource.sparseLevel.extentWidth = 1024;
	m.subresource.sparseLevel.extentHeight = 1024;
	m.subresource.sparseLevel.extentDepth = 1;
	m.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
	m.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
	m.deviceBitMask = 1;
	h = mk(mr.size ? (mr.size + G - 1) / G * G : G);
	m.memHandle.memHandle = h;
	T("deferred_map", cuMemMapArrayAsync(&m, 1, s));
	m.subresource.sparseLevel.extentWidth = 0;
	m.subresource.sparseLevel.extentHeight = 0;
	m.subresource.sparseLevel.extentDepth = 0;
	T("deferred_map_extent_0", cuMemMapArrayAsync(&m, 1, s));
	m.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL;
	memset(&m.subresource, 0, sizeof(m.subresource));
	T("deferred_map_tail_0", cuMemMapArrayAsync(&m, 1, s));
	m.subresource.miptail.size = mr.size;
	T("deferred_map_tail", cuMemMapArrayAsync(&m, 1, s));
	m.subresource.miptail.size = MiB(4);
	cuMemRelease(h);
	p = prop_at(CU_MEM_LOCATION_TYPE_DEVICE, g_dev, 0);
	p.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
	REQ(cuMemCreate(&h, MiB(4), &p, 0));
	m.memHandle.memHandle = h;
	T("deferred_map_tail_of_tiles", cuMemMapArrayAsync(&m, 1, s));
	m.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
	memset(&m.subresource, 0, sizeof(m.subresource));
	m.subresource.sparseLevel.extentWidth = 1024;
	m.subresource.sparseLevel.extentHeight = 1024;
	m.subresource.sparseLevel.extentDepth = 1;
	T("deferred_map_of_tiles", cuMemMapArrayAsync(&m, 1, s));
	m.resourceType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
	T("deferred_map_wrong_resource", cuMemMapArrayAsync(&m, 1, s));
	T("deferred_sync", cuStreamSynchronize(s));
	T("deferred_release", cuMemRelease(h));
	T("deferred_destroy", cuArrayDestroy(def));
}

GROUP(vmm_mip_tail)
{
	CUDA_ARRAY3D_DESCRIPTOR ad = { .Width = 1024, .Height = 1024, .Format = CU_AD_FORMAT_UNSIGNED_INT8,
				       .NumChannels = 4, .Flags = CUDA_ARRAY3D_SPARSE };
	CUDA_ARRAY_SPARSE_PROPERTIES sp = { 0 };
	CUmemGenericAllocationHandle h = 0;
	CUmemAllocationProp p;
	CUmipmappedArray mip = NULL;
	CUarray level = NULL;
	CUarrayMapInfo m;
	CUstream s;
	char *host = halloc(MiB(4)), *back = halloc(MiB(4));
	CUDA_MEMCPY2D c = { 0 };

	init_ctx();
	fill(host, MiB(4), 8);
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	REQ(cuMipmappedArrayCreate(&mip, &ad, 11));
	TF("properties", cuMipmappedArrayGetSparseProperties(&sp, mip), "%s", sparse(&sp));
	p = prop_at(CU_MEM_LOCATION_TYPE_DEVICE, g_dev, 0);
	p.allocFlags.usage = CU_MEM_CREATE_USAGE_TILE_POOL;
	REQ(cuMemCreate(&h, MiB(2), &p, 0));
	memset(&m, 0, sizeof(m));
	m.resourceType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
	m.resource.mipmap = mip;
	m.memOperationType = CU_MEM_OPERATION_TYPE_MAP;
	m.memHandleType = CU_MEM_HANDLE_TYPE_GENERIC;
	m.memHandle.memHandle = h;
	m.deviceBitMask = 1;
	m.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL;
	m.subresource.miptail.size = sp.miptailSize;
	T("tail", cuMemMapArrayAsync(&m, 1, s));
	m.subresource.miptail.size = sp.miptailSize / 2;
	T("half_tail", cuMemMapArrayAsync(&m, 1, s));
	m.subresource.miptail.size = 0;
	T("tail_size_0", cuMemMapArrayAsync(&m, 1, s));
	m.subresource.miptail.size = sp.miptailSize;
	m.subresource.miptail.offset = 100;
	T("tail_offset_100", cuMemMapArrayAsync(&m, 1, s));
	m.subresource.miptail.offset = 0;
	m.subresource.miptail.layer = 1;
	T("tail_layer_1", cuMemMapArrayAsync(&m, 1, s));
	memset(&m.subresource, 0, sizeof(m.subresource));
	m.subresourceType = CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL;
	m.subresource.sparseLevel.level = 1;
	m.subresource.sparseLevel.extentWidth = sp.tileExtent.width;
	m.subresource.sparseLevel.extentHeight = sp.tileExtent.height;
	m.subresource.sparseLevel.extentDepth = 1;
	m.offset = 65536;
	T("tile_of_level_1", cuMemMapArrayAsync(&m, 1, s));
	m.subresource.sparseLevel.level = sp.miptailFirstLevel;
	T("tile_of_tail_level", cuMemMapArrayAsync(&m, 1, s));
	m.subresource.sparseLevel.level = 11;
	T("tile_of_level_11", cuMemMapArrayAsync(&m, 1, s));
	T("sync", cuStreamSynchronize(s));
	T("tail_level", cuMipmappedArrayGetLevel(&level, mip, sp.miptailFirstLevel));
	c.srcMemoryType = CU_MEMORYTYPE_HOST;
	c.srcHost = host;
	c.srcPitch = c.WidthInBytes = 16;
	c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	c.dstArray = level;
	c.Height = 4;
	T("copy_into_tail", cuMemcpy2D(&c));
	memset(&c, 0, sizeof(c));
	c.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	c.srcArray = level;
	c.dstMemoryType = CU_MEMORYTYPE_HOST;
	c.dstHost = back;
	c.dstPitch = c.WidthInBytes = 16;
	c.Height = 4;
	TF("copy_from_tail", cuMemcpy2D(&c), "%s", hsame(back, 64, 8));
	T("destroy_mapped", cuMipmappedArrayDestroy(mip));
	T("release", cuMemRelease(h));
}

static CUarray deferred(void)
{
	CUDA_ARRAY3D_DESCRIPTOR ad = { .Width = 64, .Height = 64, .Format = CU_AD_FORMAT_UNSIGNED_INT8,
				       .NumChannels = 1, .Flags = CUDA_ARRAY3D_DEFERRED_MAPPING };
	CUarray a = NULL;

	MUST(cuArray3DCreate(&a, &ad));
	return a;
}

static CUresult copy_into(CUarray a)
{
	static char bytes[4096];
	CUDA_MEMCPY2D c = { 0 };

	c.srcMemoryType = CU_MEMORYTYPE_HOST;
	c.srcHost = bytes;
	c.srcPitch = 64;
	c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	c.dstArray = a;
	c.WidthInBytes = 64;
	c.Height = 64;
	return cuMemcpy2D(&c);
}

RISKY(vmm_copy_to_deferred, copy_into(deferred()))
RISKY(vmm_destroy_deferred, cuArrayDestroy(deferred()))
