// SPDX-License-Identifier: GPL-2.0
/* Cases of sharing between processes: memory handles, event handles, pools and VMM handles */
#include "oracle.h"

static const char *pv(CUdeviceptr p, size_t n, unsigned seed) { return p ? dsame(p, n, seed) : "-"; }

/* ---------------------------------------------------------------- memory */
enum { NM = 3 };
static const size_t msz[NM] = { 4096, 2097152, 10485760 };

PEER(ipc_mem_basic)
{
	CUipcMemHandle h[NM];
	CUdeviceptr p[NM] = { 0 }, q = 0, b = 0;
	size_t s = 0;
	if (xrecv(sock, h, sizeof(h)))
		return;
	init_ctx();
	for (int i = 0; i < NM; i++) {
		CUresult r = cuIpcOpenMemHandle(&p[i], h[i], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
		b = 0; s = 0;
		CUresult r2 = r ? r : cuMemGetAddressRange(&b, &s, p[i]);
		emit(F("peer_open_%zu", msz[i]), "rc=%s range=%s base=%s size=%s al256=%d data=%s", rcs(r), rcs(r2), prel(b, p[i]), rel(s, msz[i]),
		     (p[i] & 255) == 0, pv(p[i], msz[i], (unsigned)i + 1));
	}
	T("peer_open_again", cuIpcOpenMemHandle(&q, h[1], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	emit("peer_open_again_same_ptr", "%d", q == p[1]);
	T("peer_close_one_ref", cuIpcCloseMemHandle(q));
	emit("peer_alive_after_one_close", "%s", pv(p[1], msz[1], 2));
	T("peer_open_flags_0", cuIpcOpenMemHandle(&q, h[1], 0));
	T("peer_open_flags_2", cuIpcOpenMemHandle(&q, h[1], 2));
	T("peer_open_null_out", cuIpcOpenMemHandle(NULL, h[1], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	T("peer_cuMemFree_of_import", cuMemFree(p[2]));
	T("peer_close_interior", cuIpcCloseMemHandle(p[1] + 4096));
	unsigned mt = 0;
	TF("peer_memtype", cuPointerGetAttribute(&mt, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p[1]), "%u", mt);
	CUipcMemHandle h2;
	T("peer_reexport", cuIpcGetMemHandle(&h2, p[1]));
	T("peer_write", cuMemsetD8(p[1], 0xab, 65536));
	cuCtxSynchronize();
	SYNC_TO(sock);
	SYNC_FROM(sock);                 /* parent wrote 0xcd behind it */
	emit("peer_sees_parent_write", "%s", dbyte(p[1] + 65536, 65536, 0xcd));
	T("peer_close", cuIpcCloseMemHandle(p[1]));
	T("peer_close_twice", cuIpcCloseMemHandle(p[1]));
	T("peer_use_after_close", cuMemGetAddressRange(&b, &s, p[1]));
	T("peer_close_null", cuIpcCloseMemHandle(0));
	CUdeviceptr own = dalloc(4096);
	T("peer_close_own_alloc", cuIpcCloseMemHandle(own));
	TNOCTX("peer_close_no_ctx", cuIpcCloseMemHandle(p[0]));
	TNOCTX("peer_open_no_ctx", cuIpcOpenMemHandle(&q, h[2], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	T("peer_reopen_after_close", cuIpcOpenMemHandle(&q, h[1], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	emit("peer_reopen_data", "%s", q ? dbyte(q, 65536, 0xab) : "-");
	T("peer_reopen_close", cuIpcCloseMemHandle(q));
	cuIpcCloseMemHandle(p[0]);
	cuIpcCloseMemHandle(p[2]);
	SYNC_TO(sock);
	SYNC_FROM(sock);                 /* parent has freed all */
	T("peer_open_freed", cuIpcOpenMemHandle(&q, h[1], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
}

GROUP(ipc_mem_basic)
{
	init_ctx();
	peer_t p;
	CUipcMemHandle h[NM], h2;
	CUdeviceptr d[NM], q = 0;
	for (int i = 0; i < NM; i++) {
		d[i] = dalloc(msz[i]);
		dfill(d[i], msz[i], (unsigned)i + 1);
		T(F("get_%zu", msz[i]), cuIpcGetMemHandle(&h[i], d[i]));
	}
	cuIpcGetMemHandle(&h2, d[1]);
	emit("get_twice_equal", "%d", !memcmp(&h2, &h[1], sizeof(h2)));
	emit("different_allocs_differ", "%d", memcmp(&h[0], &h[1], sizeof(h2)) != 0);
	T("get_interior", cuIpcGetMemHandle(&h2, d[1] + 4096));
	T("get_null_out", cuIpcGetMemHandle(NULL, d[1]));
	T("get_null_ptr", cuIpcGetMemHandle(&h2, 0));
	T("get_garbage", cuIpcGetMemHandle(&h2, 0x12345000));
	void *hp = NULL;
	REQ(cuMemAllocHost(&hp, 4096));
	T("get_pinned_host", cuIpcGetMemHandle(&h2, DPTR(hp)));
	CUdeviceptr mg = 0;
	if (HAVE(cuMemAllocManaged(&mg, 65536, CU_MEM_ATTACH_GLOBAL)))
		T("get_managed", cuIpcGetMemHandle(&h2, mg));
	TNOCTX("get_no_ctx", cuIpcGetMemHandle(&h2, d[1]));
	T("open_in_own_process", cuIpcOpenMemHandle(&q, h[1], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	T("close_own_pointer", cuIpcCloseMemHandle(d[1]));
	REQNZ(peer_start(&p, "ipc_mem_basic") == 0);
	xsend(p.fd, h, sizeof(h));
	SYNC_FROM(p.fd);
	emit("sees_peer_write", "%s rest=%s", dbyte(d[1], 65536, 0xab), dsame(d[2], msz[2], 3));
	cuMemsetD8(d[1] + 65536, 0xcd, 65536);
	cuCtxSynchronize();
	SYNC_TO(p.fd);
	SYNC_FROM(p.fd);
	for (int i = 0; i < NM; i++)
		T(F("free_%d", i), cuMemFree(d[i]));
	SYNC_TO(p.fd);
	emit("peer_exit", "%d", peer_wait(&p));
}

/* a garbage handle */
PEER(ipc_mem_garbage)
{
	CUipcMemHandle h;
	CUdeviceptr q = 0;
	init_ctx();
	memset(&h, 0, sizeof(h));
	T("zeroes", cuIpcOpenMemHandle(&q, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	memset(&h, 0xff, sizeof(h));
	T("ones", cuIpcOpenMemHandle(&q, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	CUipcEventHandle e;
	CUevent ev;
	memset(&e, 0, sizeof(e));
	T("event_zeroes", cuIpcOpenEventHandle(&ev, e));
	(void)sock;
}
GROUP(zz_ipc_mem_garbage)
{
	peer_t p;
	REQNZ(peer_start(&p, "ipc_mem_garbage") == 0);
	emit("peer_exit", "%d", peer_wait(&p));
}

/* exporter frees while the importer still has it open (undefined by the docs) */
PEER(ipc_mem_early_free)
{
	CUipcMemHandle h;
	CUdeviceptr p = 0;
	if (xrecv(sock, &h, sizeof(h)))
		return;
	init_ctx();
	T("peer_open", cuIpcOpenMemHandle(&p, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	SYNC_TO(sock);
	SYNC_FROM(sock);
	emit("peer_read_after_exporter_free.impl", "%s", pv(p, MiB(4), 6));
	T("peer_close", cuIpcCloseMemHandle(p));
	SYNC_TO(sock);
}
GROUP(ipc_mem_early_free)
{
	init_ctx();
	peer_t p;
	CUipcMemHandle h;
	CUdeviceptr d = dalloc(MiB(4));
	dfill(d, MiB(4), 6);
	REQ(cuIpcGetMemHandle(&h, d));
	REQNZ(peer_start(&p, "ipc_mem_early_free") == 0);
	xsend(p.fd, &h, sizeof(h));
	SYNC_FROM(p.fd);
	T("free_while_open_in_peer.impl", cuMemFree(d));
	SYNC_TO(p.fd);
	SYNC_FROM(p.fd);
	emit("peer_exit", "%d", peer_wait(&p));
}

/* importer dies without closing */
PEER(ipc_mem_dies)
{
	CUipcMemHandle h;
	CUdeviceptr p = 0;
	if (xrecv(sock, &h, sizeof(h)))
		return;
	init_ctx();
	cuIpcOpenMemHandle(&p, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
	cuMemsetD8(p, 0x3c, 4096);
	cuCtxSynchronize();
	SYNC_TO(sock);
	_exit(0);
}
GROUP(ipc_mem_importer_dies)
{
	init_ctx();
	peer_t p;
	CUipcMemHandle h;
	CUdeviceptr d = dalloc(MiB(2));
	REQ(cuIpcGetMemHandle(&h, d));
	REQNZ(peer_start(&p, "ipc_mem_dies") == 0);
	xsend(p.fd, &h, sizeof(h));
	SYNC_FROM(p.fd);
	emit("peer_exit", "%d", peer_wait(&p));
	emit("memory_fine", "%s", dbyte(d, 4096, 0x3c));
	T("free", cuMemFree(d));
}

/* ---------------------------------------------------------------- events */
PEER(ipc_event)
{
	CUipcEventHandle h, h2;
	CUevent e, e2 = NULL;
	CUstream s;
	if (xrecv(sock, &h, sizeof(h)))
		return;
	init_ctx();
	cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);
	T("peer_open", cuIpcOpenEventHandle(&e, h));
	T("peer_open_null", cuIpcOpenEventHandle(NULL, h));
	T("peer_open_twice", cuIpcOpenEventHandle(&e2, h));
	emit("peer_query_gated", "%s", rcs(cuEventQuery(e)));
	T("peer_wait_enqueue", cuStreamWaitEvent(s, e, 0));
	emit("peer_stream_query_gated", "%s", rcs(cuStreamQuery(s)));
	T("peer_reexport", cuIpcGetEventHandle(&h2, e));
	SYNC_TO(sock);                          /* parent opens the gate */
	T("peer_event_sync", cuEventSynchronize(e));
	T("peer_stream_sync", cuStreamSynchronize(s));
	emit("peer_query_done", "%s", rcs(cuEventQuery(e)));
	float ms;
	CUevent l;
	cuEventCreate(&l, 0);
	cuEventRecord(l, s);
	cuStreamSynchronize(s);
	T("peer_elapsed_with_ipc_event", cuEventElapsedTime(&ms, l, e));
	/* now the importer records it */
	gate_t g;
	if (gate_close(&g, s) == CUDA_SUCCESS) {
		T("peer_record", cuEventRecord(e, s));
		SYNC_TO(sock);
		SYNC_FROM(sock);                /* parent saw it pending */
		gate_open(&g);
		cuStreamSynchronize(s);
		gate_done(&g);
	}
	SYNC_FROM(sock);
	T("peer_destroy", cuEventDestroy(e));
	if (e2)
		T("peer_destroy2", cuEventDestroy(e2));
}
GROUP(ipc_event)
{
	init_ctx();
	peer_t p;
	CUevent e, n;
	CUstream s;
	gate_t g;
	CUipcEventHandle h, h2;
	emit("attr_ipc_event", "%d", dev_attr(CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED));
	T("create_without_disable_timing", cuEventCreate(&e, CU_EVENT_INTERPROCESS));
	REQ(cuEventCreate(&e, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	REQ(cuEventCreate(&n, CU_EVENT_DISABLE_TIMING));
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	T("get", cuIpcGetEventHandle(&h, e));
	T("get_twice", cuIpcGetEventHandle(&h2, e));
	emit("get_twice_equal", "%d", !memcmp(&h, &h2, sizeof(h)));
	T("get_of_plain_event", cuIpcGetEventHandle(&h2, n));
	T("get_null_out", cuIpcGetEventHandle(NULL, e));
	T("get_null_event", cuIpcGetEventHandle(&h2, NULL));
	CUevent own = NULL;
	T("open_in_own_process", cuIpcOpenEventHandle(&own, h));
	TNOCTX("get_no_ctx", cuIpcGetEventHandle(&h2, e));
	emit("query_never_recorded", "%s", rcs(cuEventQuery(e)));
	REQ(gate_close(&g, s));
	gate_after(&g, 12000);
	REQ(cuEventRecord(e, s));
	REQNZ(peer_start(&p, "ipc_event") == 0);
	xsend(p.fd, &h, sizeof(h));
	SYNC_FROM(p.fd);
	gate_open(&g);
	cuStreamSynchronize(s);
	SYNC_FROM(p.fd);
	emit("query_peer_recorded_pending", "%s", rcs(cuEventQuery(e)));
	T("wait_on_peer_record", cuStreamWaitEvent(s, e, 0));
	emit("stream_held_by_peer", "%s", rcs(cuStreamQuery(s)));
	SYNC_TO(p.fd);
	T("sync_after_peer", cuStreamSynchronize(s));
	emit("query_after_peer", "%s", rcs(cuEventQuery(e)));
	SYNC_TO(p.fd);
	emit("peer_exit", "%d", peer_wait(&p));
	gate_done(&g);
	T("destroy", cuEventDestroy(e));
}

/* ---------------------------------------------------------------- pools */
PEER(pool_ipc)
{
	CUmemPoolPtrExportData x[2];
	CUmemoryPool m = NULL;
	CUdeviceptr a = 0, b = 0, a2 = 0, z;
	CUipcEventHandle eh;
	CUevent ready;
	CUstream s;
	int fd = xrecv_fd(sock);
	if (fd < 0 || xrecv(sock, x, sizeof(x)) || xrecv(sock, &eh, sizeof(eh)))
		return;
	init_ctx();
	cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);
	T("peer_import", cuMemPoolImportFromShareableHandle(&m, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	if (!m)
		return;
	close(fd);
	CUmemAccess_flags f = 77;
	CUmemLocation l = { CU_MEM_LOCATION_TYPE_DEVICE, g_dev };
	TF("peer_access", cuMemPoolGetAccess(&f, m, &l), "%d", (int)f);
	cuuint64_t v = 0;
	TF("peer_attr_used", cuMemPoolGetAttribute(m, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &v), "%llu", (unsigned long long)v);
	v = 1;
	T("peer_set_threshold", cuMemPoolSetAttribute(m, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &v));
	T("peer_alloc_from_imported", cuMemAllocFromPoolAsync(&z, 4096, m, s));
	T("peer_set_current", cuDeviceSetMemPool(g_dev, m));
	TF("peer_import_ptr", cuMemPoolImportPointer(&a, m, &x[0]), "al256=%d", (a & 255) == 0);
	cuIpcOpenEventHandle(&ready, eh);
	T("peer_wait_ready", cuStreamWaitEvent(s, ready, 0));
	cuStreamSynchronize(s);
	emit("peer_data", "%s", pv(a, 100000, 4));
	CUdeviceptr rb = 0;
	size_t rs = 0;
	TF("peer_range", cuMemGetAddressRange(&rb, &rs, a + 5), "base=%s size=%s", prel(rb, a), rel(rs, 100000));
	CUmemoryPool pm = NULL;
	TF("peer_ptr_pool_attr", cuPointerGetAttribute(&pm, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a), "is_imported_pool=%d", pm == m);
	T("peer_import_ptr_twice", cuMemPoolImportPointer(&a2, m, &x[0]));
	emit("peer_import_ptr_twice_same_va.impl", "%d", a2 == a);
	T("peer_import_second", cuMemPoolImportPointer(&b, m, &x[1]));
	emit("peer_second_data", "%s", pv(b, MiB(3), 5));
	CUmemPoolPtrExportData y;
	T("peer_export_imported_ptr", cuMemPoolExportPointer(&y, a));
	T("peer_write", cuMemsetD8Async(a, 0x4d, 50000, s));
	cuStreamSynchronize(s);
	T("peer_free_async", cuMemFreeAsync(a, s));
	cuStreamSynchronize(s);
	if (a2)
		T("peer_free_second_import", cuMemFree(a2));
	T("peer_double_free", cuMemFree(a));
	T("peer_free_other_by_cuMemFree", cuMemFree(b));
	SYNC_TO(sock);
	SYNC_FROM(sock);
	T("peer_reimport_after_free", cuMemPoolImportPointer(&a, m, &x[1]));
	emit("peer_reimport_data", "%s", pv(a, MiB(3), 5));
	T("peer_destroy_pool_with_live_import", cuMemPoolDestroy(m));
	emit("peer_still_readable", "%s", pv(a, MiB(3), 5));
	T("peer_free_after_pool_destroy", cuMemFree(a));
	SYNC_TO(sock);
}
GROUP(pool_ipc)
{
	init_ctx();
	peer_t p;
	CUmemPoolProps pr;
	CUmemoryPool m;
	CUstream s;
	CUevent e;
	CUipcEventHandle eh;
	CUdeviceptr a, b;
	CUmemPoolPtrExportData x[2];
	int fd = -1;
	memset(&pr, 0, sizeof(pr));
	pr.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
	pr.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	pr.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	REQ(cuMemPoolCreate(&m, &pr));
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	REQ(cuEventCreate(&e, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	REQ(cuIpcGetEventHandle(&eh, e));
	REQ(cuMemAllocFromPoolAsync(&a, 100000, m, s));
	REQ(cuMemAllocFromPoolAsync(&b, MiB(3), m, s));
	void *h = NULL;
	REQ(cuMemAllocHost(&h, MiB(3)));
	fill(h, 100000, 4);
	REQ(cuMemcpyHtoDAsync(a, h, 100000, s));
	cuStreamSynchronize(s);
	fill(h, MiB(3), 5);
	REQ(cuMemcpyHtoDAsync(b, h, MiB(3), s));
	REQ(cuEventRecord(e, s));
	REQ(cuMemPoolExportToShareableHandle(&fd, m, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	T("export_ptr", cuMemPoolExportPointer(&x[0], a));
	REQ(cuMemPoolExportPointer(&x[1], b));
	REQNZ(peer_start(&p, "pool_ipc") == 0);
	xsend_fd(p.fd, fd);
	xsend(p.fd, x, sizeof(x));
	xsend(p.fd, &eh, sizeof(eh));
	SYNC_FROM(p.fd);
	emit("sees_peer_write", "%s", dbyte(a, 50000, 0x4d));
	emit("b_untouched", "%s", dsame(b, MiB(3), 5));
	SYNC_TO(p.fd);
	SYNC_FROM(p.fd);
	T("free_a_after_importer", cuMemFreeAsync(a, s));
	T("free_b_after_importer", cuMemFree(b));
	T("sync", cuStreamSynchronize(s));
	emit("peer_exit", "%d", peer_wait(&p));
	cuuint64_t v = 9;
	cuMemPoolGetAttribute(m, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &v);
	emit("used_end.impl", "%llu", (unsigned long long)v);
	T("destroy", cuMemPoolDestroy(m));
}

/* ---------------------------------------------------------------- VMM */
PEER(vmm_ipc)
{
	int fd = xrecv_fd(sock);
	size_t g = MiB(2);
	CUmemGenericAllocationHandle h = 0;
	CUdeviceptr d = 0;
	CUmemAccessDesc a = { { CU_MEM_LOCATION_TYPE_DEVICE, 0 }, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	init_ctx();
	T("peer_import", cuMemImportFromShareableHandle(&h, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(fd);
	T("peer_reserve", cuMemAddressReserve(&d, 2 * g, 0, 0, 0));
	T("peer_map_too_big", cuMemMap(d, 2 * g, 0, h, 0));
	T("peer_map", cuMemMap(d, g, 0, h, 0));
	T("peer_access", cuMemSetAccess(d, g, &a, 1));
	emit("peer_data", "%s", dsame(d, g, 7));
	cuMemsetD8(d, 0x66, 4096);
	cuCtxSynchronize();
	SYNC_TO(sock);
	SYNC_FROM(sock);               /* exporter has dropped everything */
	emit("peer_data_after_exporter_released", "%s", dsame_at(d + 4096, 4096, g - 4096, 7));
	T("peer_unmap", cuMemUnmap(d, g));
	T("peer_release", cuMemRelease(h));
	T("peer_addressfree", cuMemAddressFree(d, 2 * g));
}
GROUP(vmm_ipc)
{
	init_ctx();
	peer_t p;
	size_t g = MiB(2);
	CUmemAllocationProp pr;
	CUmemGenericAllocationHandle h = 0;
	CUdeviceptr d = 0;
	CUmemAccessDesc a = { { CU_MEM_LOCATION_TYPE_DEVICE, 0 }, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	int fd = -1;
	memset(&pr, 0, sizeof(pr));
	pr.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	pr.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	pr.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	REQ(cuMemCreate(&h, g, &pr, 0));
	REQ(cuMemAddressReserve(&d, g, 0, 0, 0));
	REQ(cuMemMap(d, g, 0, h, 0));
	REQ(cuMemSetAccess(d, g, &a, 1));
	dfill(d, g, 7);
	REQ(cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	REQNZ(peer_start(&p, "vmm_ipc") == 0);
	xsend_fd(p.fd, fd);
	close(fd);
	SYNC_FROM(p.fd);
	emit("sees_peer_write", "%s", dbyte(d, 4096, 0x66));
	cuMemUnmap(d, g);
	cuMemRelease(h);
	SYNC_TO(p.fd);
	emit("peer_exit", "%d", peer_wait(&p));
}

/* exporter process is gone, importer keeps the memory */
PEER(vmm_exporter_exits)
{
	size_t g = MiB(2);
	CUmemAllocationProp pr;
	CUmemGenericAllocationHandle h = 0;
	CUdeviceptr d = 0;
	CUmemAccessDesc a = { { CU_MEM_LOCATION_TYPE_DEVICE, 0 }, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	int fd = -1;
	init_ctx();
	memset(&pr, 0, sizeof(pr));
	pr.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	pr.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	pr.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	if (cuMemCreate(&h, g, &pr, 0) || cuMemAddressReserve(&d, g, 0, 0, 0) || cuMemMap(d, g, 0, h, 0) || cuMemSetAccess(d, g, &a, 1))
		return;
	dfill(d, g, 9);
	cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	xsend_fd(sock, fd);
}
GROUP(vmm_exporter_exits)
{
	peer_t p;
	size_t g = MiB(2);
	CUmemGenericAllocationHandle h = 0;
	CUdeviceptr d = 0;
	CUmemAccessDesc a = { { CU_MEM_LOCATION_TYPE_DEVICE, 0 }, CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	init_ctx();
	REQNZ(peer_start(&p, "vmm_exporter_exits") == 0);
	int fd = xrecv_fd(p.fd);
	emit("peer_exit", "%d", peer_wait(&p));
	T("import", cuMemImportFromShareableHandle(&h, (void *)(uintptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	REQ(cuMemAddressReserve(&d, g, 0, 0, 0));
	REQ(cuMemMap(d, g, 0, h, 0));
	REQ(cuMemSetAccess(d, g, &a, 1));
	emit("data", "%s", dsame(d, g, 9));
}
