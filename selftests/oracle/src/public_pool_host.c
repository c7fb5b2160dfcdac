// SPDX-License-Identifier: GPL-2.0
/*
 * Cases of a pool of host memory that three processes share: the first makes it, the second imports
 * it and passes the descriptor on, the third imports it from the second.
 */
#include "oracle.h"

#define FD		CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define A_BYTES		100000
#define B_BYTES		MiB(3)

/* What an importer gets from the process before it.  */
struct shared {
	CUmemPoolPtrExportData x[2];
};

static CUresult import(CUmemoryPool *m, int fd)
{
	return cuMemPoolImportFromShareableHandle(m, (void *)(uintptr_t)fd, FD, 0);
}

static int access_of(CUmemoryPool m, CUmemLocationType type, int id)
{
	CUmemAccess_flags f = 77;
	CUmemLocation l = { type, id };
	CUresult r = cuMemPoolGetAccess(&f, m, &l);

	return r ? -(int)r : (int)f;
}

static void rights(const char *id, CUmemoryPool m)
{
	emit(id, "%d %d", access_of(m, CU_MEM_LOCATION_TYPE_DEVICE, g_dev),
	     access_of(m, CU_MEM_LOCATION_TYPE_HOST, 0));
}

static void describe(const char *who, CUdeviceptr p)
{
	unsigned mt = 0, managed = 9;
	int ordinal = -9;
	void *host = NULL;
	CUdeviceptr dev = 0, base = 0;
	size_t size = 0;

	TF(F("%s_type", who), cuPointerGetAttribute(&mt, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p), "%u", mt);
	TF(F("%s_managed", who), cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p), "%u", managed);
	TF(F("%s_ordinal", who), cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p), "%d", ordinal);
	TF(F("%s_host", who), cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, p), "%s",
	   prel((CUdeviceptr)(uintptr_t)host, p));
	TF(F("%s_device", who), cuPointerGetAttribute(&dev, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p), "%s", prel(dev, p));
	TF(F("%s_range", who), cuMemGetAddressRange(&base, &size, p + 5), "base=%s size=%s", prel(base, p), rel(size, A_BYTES));
}

static CUresult grant(CUmemoryPool m, CUmemAccess_flags f)
{
	CUmemAccessDesc d = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, g_dev }, .flags = f };

	return cuMemPoolSetAccess(m, &d, 1);
}

/* What the device may do with the memory, as far as the calls say.  */
static void uses(const char *who, CUdeviceptr p, CUstream s)
{
	unsigned v = 0;
	CUdeviceptr own = dalloc(4096);

	T(F("%s_fill_async", who), cuMemsetD8Async(p, 0x4d, 4096, s));
	T(F("%s_fill_sync", who), cuMemsetD8(p, 0x4d, 4096));
	T(F("%s_fill_2d", who), cuMemsetD2D8(p, 4096, 0x4d, 512, 8));
	T(F("%s_copy_out", who), cuMemcpyDtoH(&v, p, sizeof(v)));
	T(F("%s_copy_any", who), cuMemcpy(own, p, 4096));
	T(F("%s_copy_any_async", who), cuMemcpyAsync(p, own, 4096, s));
	T(F("%s_copy_from_host", who), cuMemcpyHtoDAsync(own, (void *)(uintptr_t)p, 4096, s));
	T(F("%s_copy_in", who), cuMemcpyHtoD(p, &v, sizeof(v)));
	T(F("%s_copy_from", who), cuMemcpyDtoD(own, p, 4096));
	T(F("%s_copy_to_async", who), cuMemcpyDtoDAsync(p, own, 4096, s));
	CUDA_MEMCPY2D box = { .srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = p, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = own, .WidthInBytes = 64, .Height = 4, .srcPitch = 64, .dstPitch = 64 };
	T(F("%s_box_from", who), cuMemcpy2D(&box));
	box.srcMemoryType = CU_MEMORYTYPE_HOST;
	box.srcHost = (void *)(uintptr_t)p;
	T(F("%s_box_from_host", who), cuMemcpy2D(&box));
	CUdeviceptr dev = 0;
	unsigned flags = 77;
	TF(F("%s_host_pointer", who), cuMemHostGetDevicePointer(&dev, (void *)(uintptr_t)p, 0), "%s", prel(dev, p));
	TF(F("%s_host_flags", who), cuMemHostGetFlags(&flags, (void *)(uintptr_t)p), "%u", flags);
	T(F("%s_value_write", who), cuStreamWriteValue32(s, p, 7, 0));
	T(F("%s_value_wait", who), cuStreamWaitValue32(s, p, 0, CU_STREAM_WAIT_VALUE_GEQ));
	T(F("%s_sync", who), cuStreamSynchronize(s));
	cuMemFree(own);
}

PEER(pool_host_third)
{
	struct shared sh;
	CUmemoryPool m = NULL;
	CUdeviceptr a = 0, b = 0;
	CUstream s;
	int fd = xrecv_fd(sock);

	if (fd < 0 || xrecv(sock, &sh, sizeof(sh)))
		return;
	init_ctx();
	cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);
	T("third_import", import(&m, fd));
	close(fd);
	if (!m)
		return;
	rights("third_access", m);
	T("third_import_ptr", cuMemPoolImportPointer(&a, m, &sh.x[0]));
	T("third_import_second", cuMemPoolImportPointer(&b, m, &sh.x[1]));
	if (!a || !b)
		return;
	describe("third", a);
	emit("third_data", "%s", dsame(a, A_BYTES, 4));
	emit("third_cpu_data", "%s", hsame((void *)(uintptr_t)a, A_BYTES, 4));
	emit("third_second_cpu_data", "%s", hsame((void *)(uintptr_t)b, B_BYTES, 5));
	T("third_fill_without_access", cuMemsetD8Async(a, 0x4d, 50000, s));
	T("third_grant", grant(m, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	rights("third_access_granted", m);
	T("third_fill", cuMemsetD8Async(a, 0x4d, 50000, s));
	cuStreamSynchronize(s);
	memset((char *)(uintptr_t)a + 50000, 0x4e, 50000);
	T("third_free_async", cuMemFreeAsync(a, s));
	cuStreamSynchronize(s);
	T("third_free_second", cuMemFree(b));
	T("third_destroy", cuMemPoolDestroy(m));
	SYNC_TO(sock);
}

PEER(pool_host_second)
{
	struct shared sh;
	peer_t third;
	CUmemoryPool m = NULL;
	CUdeviceptr a = 0, a2 = 0, b = 0, z = 0;
	CUstream s;
	int fd = xrecv_fd(sock);

	if (fd < 0 || xrecv(sock, &sh, sizeof(sh)))
		return;
	init_ctx();
	cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);
	T("peer_import", import(&m, fd));
	if (!m)
		return;
	rights("peer_access", m);
	T("peer_alloc_from_imported", cuMemAllocFromPoolAsync(&z, 4096, m, s));
	T("peer_import_ptr", cuMemPoolImportPointer(&a, m, &sh.x[0]));
	if (!a)
		return;
	describe("peer", a);
	emit("peer_data", "%s", dsame(a, A_BYTES, 4));
	emit("peer_cpu_data", "%s", hsame((void *)(uintptr_t)a, A_BYTES, 4));
	T("peer_import_ptr_twice", cuMemPoolImportPointer(&a2, m, &sh.x[0]));
	emit("peer_import_ptr_twice_same_va", "%d", a2 == a);
	uses("peer", a, s);
	T("peer_grant", grant(m, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	rights("peer_access_granted", m);
	describe("peer_granted", a);
	uses("peer_granted", a, s);
	fill((void *)(uintptr_t)a, A_BYTES, 4);
	emit("peer_data_granted", "%s", dsame(a, A_BYTES, 4));
	T("peer_import_ptr_twice_granted", cuMemPoolImportPointer(&a2, m, &sh.x[0]));
	T("peer_import_second", cuMemPoolImportPointer(&b, m, &sh.x[1]));
	CUmemPoolPtrExportData y;
	T("peer_export_imported_ptr", cuMemPoolExportPointer(&y, a));
	int again = -1;
	T("peer_export_imported_pool", cuMemPoolExportToShareableHandle(&again, m, FD, 0));
	T("peer_free_async", cuMemFreeAsync(a, s));
	cuStreamSynchronize(s);
	T("peer_double_free", cuMemFree(a));
	T("peer_import_after_free", cuMemPoolImportPointer(&a, m, &sh.x[0]));
	T("peer_cpu_data_after_free", *hsame((void *)(uintptr_t)a, A_BYTES, 4) == 'i' ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
	T("peer_free", cuMemFree(a));

	/* The third process imports what this process has freed.  */
	REQNZ(peer_start(&third, "pool_host_third") == 0);
	xsend_fd(third.fd, fd);
	xsend(third.fd, &sh, sizeof(sh));
	SYNC_FROM(third.fd);
	emit("third_exit", "%d", peer_wait(&third));

	T("peer_destroy_with_live_import", cuMemPoolDestroy(m));
	emit("peer_still_readable", "%s", hsame((void *)(uintptr_t)b, B_BYTES, 5));
	T("peer_free_second", cuMemFree(b));
	T("peer_destroy", cuMemPoolDestroy(m));
	close(fd);
	SYNC_TO(sock);
}

/* An importer that makes a context only after it has the pointer.  */
PEER(pool_host_without_context)
{
	struct shared sh;
	CUmemoryPool m = NULL;
	CUdeviceptr a = 0, b = 0;
	int fd = xrecv_fd(sock);

	if (fd < 0 || xrecv(sock, &sh, sizeof(sh)))
		return;
	T("early_init", cuInit(0));
	T("early_import", import(&m, fd));
	close(fd);
	if (!m)
		return;
	T("early_import_ptr", cuMemPoolImportPointer(&a, m, &sh.x[0]));
	if (!a)
		return;
	T("early_cpu_data", *hsame((void *)(uintptr_t)a, A_BYTES, 4) == 'i' ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN);
	T("early_import_second", cuMemPoolImportPointer(&b, m, &sh.x[1]));
	T("early_free_async", cuMemFreeAsync(a, CU_STREAM_LEGACY));
	init_ctx();
	CUdeviceptr own = dalloc(A_BYTES);
	T("late_copy", cuMemcpyAsync(own, b, A_BYTES, CU_STREAM_LEGACY));
	T("late_copy_back", cuMemcpyAsync(b, own, A_BYTES, CU_STREAM_LEGACY));
	T("late_sync", cuCtxSynchronize());
	T("late_free_async", cuMemFreeAsync(a, CU_STREAM_LEGACY));
	T("late_free_second", cuMemFreeAsync(b, CU_STREAM_LEGACY));
	T("late_sync_again", cuCtxSynchronize());
	T("late_destroy", cuMemPoolDestroy(m));
	SYNC_TO(sock);
}

/* Further copies, for one pool only.  */
static void more_copies(const char *who, CUdeviceptr p, CUstream s)
{
	CUdeviceptr own = dalloc(4096), dsts[1] = { own }, srcs[1] = { p };
	size_t sizes[1] = { 4096 }, index[1] = { 0 };
	CUmemcpyAttributes attr = { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM };
	CUDA_MEMCPY2D box = { .srcMemoryType = CU_MEMORYTYPE_UNIFIED, .srcDevice = p, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = own, .WidthInBytes = 64, .Height = 4, .srcPitch = 64, .dstPitch = 64 };
	CUDA_MEMCPY3D cube = { .srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = p, .dstMemoryType = CU_MEMORYTYPE_DEVICE,
		.dstDevice = own, .WidthInBytes = 64, .Height = 4, .Depth = 2, .srcPitch = 64, .dstPitch = 64, .srcHeight = 4,
		.dstHeight = 4 };
	CUDA_ARRAY_DESCRIPTOR d = { .Width = 64, .Height = 4, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1 };
	CUarray array = NULL;
	CUcontext ctx = NULL;

	cuCtxGetCurrent(&ctx);
	T(F("%s_peer_copy", who), cuMemcpyPeer(own, ctx, p, ctx, 4096));
	T(F("%s_peer_copy_to", who), cuMemcpyPeer(p, ctx, own, ctx, 4096));
	T(F("%s_box_unified", who), cuMemcpy2D(&box));
	T(F("%s_cube_from", who), cuMemcpy3D(&cube));
	T(F("%s_batch_from", who), cuMemcpyBatchAsync(dsts, srcs, sizes, 1, &attr, index, 1, s));
	T(F("%s_batch_to", who), cuMemcpyBatchAsync(srcs, dsts, sizes, 1, &attr, index, 1, s));
	cuStreamSynchronize(s);
	if (!cuArrayCreate(&array, &d)) {
		T(F("%s_to_array", who), cuMemcpyDtoA(array, 0, p, 64));
		T(F("%s_host_to_array", who), cuMemcpyHtoA(array, 0, (void *)(uintptr_t)p, 64));
		T(F("%s_from_array", who), cuMemcpyAtoD(p, array, 0, 64));
		cuArrayDestroy(array);
	}
	cuMemFree(own);
}

/* A pool of host memory without a node, which cannot be shared: the same questions.  */
GROUP(pool_host_access)
{
	CUmemPoolProps pr;
	CUmemoryPool m;
	CUstream s;
	CUdeviceptr a;

	init_ctx();
	memset(&pr, 0, sizeof(pr));
	pr.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	pr.location.type = CU_MEM_LOCATION_TYPE_HOST;
	REQ(cuMemPoolCreate(&m, &pr));
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	rights("access", m);
	REQ(cuMemAllocFromPoolAsync(&a, A_BYTES, m, s));
	cuStreamSynchronize(s);
	describe("own", a);
	uses("own", a, s);
	T("own_take", grant(m, CU_MEM_ACCESS_FLAGS_PROT_NONE));
	rights("access_taken", m);
	describe("own_taken", a);
	uses("own_taken", a, s);
	more_copies("own_taken", a, s);
	T("own_grant", grant(m, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	describe("own_granted", a);
	uses("own_granted", a, s);
	more_copies("own_granted", a, s);
	T("free", cuMemFreeAsync(a, s));
	T("sync", cuStreamSynchronize(s));
	T("destroy", cuMemPoolDestroy(m));
}

static void share_with(const char *peer)
{
	CUmemPoolProps pr;
	CUmemoryPool m;
	struct shared sh;
	peer_t p;
	CUstream s;
	CUdeviceptr a, b;
	int fd = -1;

	init_ctx();
	memset(&pr, 0, sizeof(pr));
	pr.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	pr.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA;
	pr.location.id = 0;
	pr.handleTypes = FD;
	pr.maxSize = MiB(32);
	REQ(cuMemPoolCreate(&m, &pr));
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	rights("access", m);
	REQ(cuMemAllocFromPoolAsync(&a, A_BYTES, m, s));
	REQ(cuMemAllocFromPoolAsync(&b, B_BYTES, m, s));
	cuStreamSynchronize(s);
	describe("own", a);
	uses("own", a, s);
	T("own_grant_reading", grant(m, CU_MEM_ACCESS_FLAGS_PROT_READ));
	T("own_grant", grant(m, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
	describe("own_granted", a);
	uses("own_granted", a, s);
	T("own_take_back", grant(m, CU_MEM_ACCESS_FLAGS_PROT_NONE));
	rights("access_after", m);
	describe("own_taken_back", a);
	fill((void *)(uintptr_t)a, A_BYTES, 4);
	fill((void *)(uintptr_t)b, B_BYTES, 5);
	T("export", cuMemPoolExportToShareableHandle(&fd, m, FD, 0));
	T("export_ptr", cuMemPoolExportPointer(&sh.x[0], a));
	REQ(cuMemPoolExportPointer(&sh.x[1], b));
	REQNZ(peer_start(&p, peer) == 0);
	xsend_fd(p.fd, fd);
	xsend(p.fd, &sh, sizeof(sh));
	SYNC_FROM(p.fd);
	emit("peer_exit", "%d", peer_wait(&p));
	emit("sees_fill_of_third", "%d", allbyte((void *)(uintptr_t)a, 50000, 0x4d));
	emit("sees_cpu_of_third", "%d", allbyte((char *)(uintptr_t)a + 50000, 50000, 0x4e));
	T("free_a", cuMemFreeAsync(a, s));
	T("free_b", cuMemFree(b));
	T("sync", cuStreamSynchronize(s));
	T("destroy", cuMemPoolDestroy(m));
	close(fd);
}

GROUP(pool_host_three)
{
	share_with("pool_host_second");
}

GROUP(pool_host_early)
{
	share_with("pool_host_without_context");
}
