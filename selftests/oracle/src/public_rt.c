// SPDX-License-Identifier: GPL-2.0
/* Cases of the runtime API: the 14 functions of the stream-ordered allocator and related ones. */
#include "rt.h"

GROUP(rt_mallocasync)
{
	static const size_t sz[] = { 1, 512, 1000, 65536, 1048576, 33554433 };
	cudaStream_t s;
	RTREQ(cudaStreamCreate(&s));
	for (size_t i = 0; i < sizeof(sz) / sizeof(sz[0]); i++) {
		void *p = NULL;
		size_t n = sz[i];
		cudaError_t r = cudaMallocAsync(&p, n, s);
		cudaStreamSynchronize(s);
		rtfill(p, n, (unsigned)i);
		const char *t = rtsame(p, n, (unsigned)i);
		emit(F("size_%zu", n), "rc=%s al256=%d %s free=%s", rts(r), (DPTR(p) & 255) == 0, t, rts(cudaFreeAsync(p, s)));
	}
	void *p = (void *)0x77;
	RTF("zero", cudaMallocAsync(&p, 0, s), "out=%s", p == (void *)0x77 ? "untouched" : p ? "other" : "null");
	RT("null_out", cudaMallocAsync(NULL, 4096, s));
	p = (void *)0x77;
	RTF("huge", cudaMallocAsync(&p, 1ull << 46, s), "out=%s", p == (void *)0x77 ? "untouched" : p ? "other" : "null");
	RT("lasterror_after_huge", cudaGetLastError());
	RT("lasterror_cleared", cudaGetLastError());
	RT("free_null", cudaFreeAsync(NULL, s));
	RT("free_garbage", cudaFreeAsync((void *)0x123000, s));
	int st;
	RT("free_stack", cudaFreeAsync(&st, s));
	RTREQ(cudaMallocAsync(&p, 4096, s));
	cudaStreamSynchronize(s);
	RT("cudaFree_of_async", cudaFree(p));
	RT("double_free", cudaFreeAsync(p, s));
	RTREQ(cudaMalloc(&p, 4096));
	RT("freeasync_of_cudaMalloc", cudaFreeAsync(p, s));
	RT("cudaFree_after", (cudaStreamSynchronize(s), cudaFree(p)));
	RTREQ(cudaMallocAsync(&p, 4096, 0));
	RT("null_stream_free", cudaFreeAsync(p, 0));
	RTREQ(cudaMallocAsync(&p, 4096, cudaStreamPerThread));
	RT("per_thread_free_legacy", cudaFreeAsync(p, cudaStreamLegacy));
	struct cudaPointerAttributes pa;
	RTREQ(cudaMallocAsync(&p, 4096, s));
	cudaStreamSynchronize(s);
	memset(&pa, 0, sizeof(pa));
	RTF("pointer_attributes", cudaPointerGetAttributes(&pa, p), "type=%d device=%d dptr=%d hptr=%d", (int)pa.type, pa.device, pa.devicePointer == p, pa.hostPointer != NULL);
}

GROUP(rt_pool)
{
	struct cudaMemPoolProps pr = rtprops(cudaMemHandleTypeNone);
	cudaMemPool_t m = NULL, d = NULL, c = NULL;
	cudaStream_t s;
	void *p = NULL;
	RTREQ(cudaStreamCreate(&s));
	RT("create", cudaMemPoolCreate(&m, &pr));
	RT("create_null_out", cudaMemPoolCreate(NULL, &pr));
	RT("create_null_props", cudaMemPoolCreate(&c, NULL));
	pr.allocType = 0; RT("create_alloctype_0", cudaMemPoolCreate(&c, &pr));
	pr = rtprops(0); pr.location.id = 99; RT("create_dev_99", cudaMemPoolCreate(&c, &pr));
	RTF("default", cudaDeviceGetDefaultMemPool(&d, 0), "nonnull=%d", d != NULL);
	RTF("current", cudaDeviceGetMemPool(&c, 0), "is_default=%d", c == d);
	for (int a = 1; a <= 8; a++) {
		uint64_t v = 0;
		cudaError_t r = cudaMemPoolGetAttribute(m, (enum cudaMemPoolAttr)a, &v);
		emit(F("attr_%d", a), "rc=%s %llu", rts(r), (unsigned long long)v);
	}
	uint64_t th = ~0ull;
	RT("set_threshold", cudaMemPoolSetAttribute(m, cudaMemPoolAttrReleaseThreshold, &th));
	RT("set_attr_99", cudaMemPoolSetAttribute(m, 99, &th));
	RT("get_attr_99", cudaMemPoolGetAttribute(m, 99, &th));
	RT("get_null", cudaMemPoolGetAttribute(m, cudaMemPoolAttrReleaseThreshold, NULL));
	RT("from_pool", cudaMallocFromPoolAsync(&p, MiB(3), m, s));
	cudaStreamSynchronize(s);
	uint64_t u = 0;
	cudaMemPoolGetAttribute(m, cudaMemPoolAttrUsedMemCurrent, &u);
	emit("used_after_3M", "%s", rel(u, MiB(3)));
	rtfill(p, MiB(3), 4);
	emit("data", "%s", rtsame(p, MiB(3), 4));
	RT("free", cudaFreeAsync(p, s));
	cudaStreamSynchronize(s);
	cudaMemPoolGetAttribute(m, cudaMemPoolAttrReservedMemCurrent, &u);
	emit("reserved_kept", "ge_3M=%d", u >= MiB(3));
	RT("trim", cudaMemPoolTrimTo(m, 0));
	cudaMemPoolGetAttribute(m, cudaMemPoolAttrReservedMemCurrent, &u);
	emit("reserved_after_trim", "%llu", (unsigned long long)u);
	RT("from_pool_null", cudaMallocFromPoolAsync(&p, 4096, NULL, s));
	RT("from_pool_zero", cudaMallocFromPoolAsync(&p, 0, m, s));
	RT("from_pool_null_out", cudaMallocFromPoolAsync(NULL, 4096, m, s));
	RT("trim_null", cudaMemPoolTrimTo(NULL, 0));
	enum cudaMemAccessFlags f = 77;
	struct cudaMemLocation l;
	memset(&l, 0, sizeof(l));
	l.type = cudaMemLocationTypeDevice;
	RTF("getaccess", cudaMemPoolGetAccess(&f, m, &l), "%d", (int)f);
	struct cudaMemAccessDesc ad;
	memset(&ad, 0, sizeof(ad));
	ad.location = l;
	ad.flags = cudaMemAccessFlagsProtReadWrite;
	RT("setaccess_own_rw", cudaMemPoolSetAccess(m, &ad, 1));
	ad.flags = cudaMemAccessFlagsProtNone;
	RT("setaccess_own_none", cudaMemPoolSetAccess(m, &ad, 1));
	RT("setaccess_null", cudaMemPoolSetAccess(m, NULL, 1));
	RT("setdevpool", cudaDeviceSetMemPool(0, m));
	RTF("current_now", cudaDeviceGetMemPool(&c, 0), "%d", c == m);
	RT("destroy", cudaMemPoolDestroy(m));
	RTF("current_after_destroy", cudaDeviceGetMemPool(&c, 0), "is_default=%d", c == d);
	RT("destroy_null", cudaMemPoolDestroy(NULL));
	RT("destroy_default", cudaMemPoolDestroy(d));
}

PEER(rt_pool_ipc)
{
	struct cudaMemPoolPtrExportData x;
	cudaIpcEventHandle_t eh;
	cudaEvent_t ev;
	cudaMemPool_t m = NULL;
	void *p = NULL;
	int fd = xrecv_fd(sock);
	if (xrecv(sock, &x, sizeof(x)) || xrecv(sock, &eh, sizeof(eh)))
		return;
	RT("peer_import", cudaMemPoolImportFromShareableHandle(&m, (void *)(uintptr_t)fd, cudaMemHandleTypePosixFileDescriptor, 0));
	RT("peer_import_ptr", cudaMemPoolImportPointer(&p, m, &x));
	RT("peer_open_event", cudaIpcOpenEventHandle(&ev, eh));
	RT("peer_wait", cudaStreamWaitEvent(0, ev, 0));
	cudaStreamSynchronize(0);
	emit("peer_data", "%s", p ? rtsame(p, 100000, 3) : "-");
	RT("peer_memset", cudaMemset(p, 0x44, 1000));
	cudaDeviceSynchronize();
	RT("peer_free", cudaFreeAsync(p, 0));
	cudaDeviceSynchronize();
	RT("peer_import_null_data", cudaMemPoolImportPointer(&p, m, NULL));
	SYNC_TO(sock);
}
/* Host memory of a pool, and the kinds of copies.  */
GROUP(rt_pool_host)
{
	struct cudaMemPoolProps props = rtprops(cudaMemHandleTypeNone);
	struct cudaPointerAttributes at;
	cudaMemPool_t pool;
	cudaStream_t s;
	unsigned char word[64];
	void *p, *own, *dev = NULL;

	props.location.type = cudaMemLocationTypeHost;
	RTREQ(cudaMemPoolCreate(&pool, &props));
	RTREQ(cudaStreamCreate(&s));
	RTREQ(cudaMalloc(&own, 4096));
	RTREQ(cudaMallocFromPoolAsync(&p, 4096, pool, s));
	cudaStreamSynchronize(s);
	memset(p, 1, 4096);
	for (int granted = 0; granted < 2; granted++) {
		const char *who = granted ? "granted" : "own";
		struct cudaMemAccessDesc d = { .location = { cudaMemLocationTypeDevice, 0 },
			.flags = cudaMemAccessFlagsProtReadWrite };

		if (granted)
			RT("grant", cudaMemPoolSetAccess(pool, &d, 1));
		memset(&at, 0, sizeof(at));
		RTF(F("%s_attributes", who), cudaPointerGetAttributes(&at, p), "type=%d device=%d host=%d dev=%d", (int)at.type,
		    at.device, at.hostPointer == p, at.devicePointer == p);
		RTF(F("%s_host_pointer", who), cudaHostGetDevicePointer(&dev, p, 0), "%d", dev == p);
		RT(F("%s_to_host_from_device", who), cudaMemcpy(word, p, 64, cudaMemcpyDeviceToHost));
		RT(F("%s_device_to_device", who), cudaMemcpy(own, p, 64, cudaMemcpyDeviceToDevice));
		RT(F("%s_host_to_device_into", who), cudaMemcpy(p, word, 64, cudaMemcpyHostToDevice));
		RT(F("%s_host_to_device", who), cudaMemcpy(own, p, 64, cudaMemcpyHostToDevice));
		RT(F("%s_device_to_host_into", who), cudaMemcpy(p, own, 64, cudaMemcpyDeviceToHost));
		RT(F("%s_host_to_host", who), cudaMemcpy(word, p, 64, cudaMemcpyHostToHost));
		RT(F("%s_default", who), cudaMemcpy(own, p, 64, cudaMemcpyDefault));
		RT(F("%s_async_to_host", who), cudaMemcpyAsync(word, p, 64, cudaMemcpyDeviceToHost, s));
		RT(F("%s_2d_to_host", who), cudaMemcpy2D(word, 16, p, 16, 16, 4, cudaMemcpyDeviceToHost));
		RT(F("%s_2d_default", who), cudaMemcpy2D(word, 16, p, 16, 16, 4, cudaMemcpyDefault));
		RT(F("%s_memset", who), cudaMemset(p, 1, 64));
		cudaStreamSynchronize(s);
	}
	RT("free", cudaFreeAsync(p, s));
	RT("destroy", cudaMemPoolDestroy(pool));
}

GROUP(rt_pool_ipc)
{
	peer_t pe;
	struct cudaMemPoolProps pr = rtprops(cudaMemHandleTypePosixFileDescriptor);
	cudaMemPool_t m;
	cudaEvent_t ev;
	cudaIpcEventHandle_t eh;
	struct cudaMemPoolPtrExportData x;
	void *p;
	int fd = -1;
	RTREQ(cudaMemPoolCreate(&m, &pr));
	RTREQ(cudaMallocFromPoolAsync(&p, 100000, m, 0));
	cudaStreamSynchronize(0);
	rtfill(p, 100000, 3);
	RTREQ(cudaEventCreateWithFlags(&ev, cudaEventDisableTiming | cudaEventInterprocess));
	RT("get_event_handle", cudaIpcGetEventHandle(&eh, ev));
	cudaEventRecord(ev, 0);
	RTF("export", cudaMemPoolExportToShareableHandle(&fd, m, cudaMemHandleTypePosixFileDescriptor, 0), "valid=%d", fd >= 0);
	RT("export_ptr", cudaMemPoolExportPointer(&x, p));
	RT("export_ptr_null", cudaMemPoolExportPointer(&x, NULL));
	RT("export_bad_type", cudaMemPoolExportToShareableHandle(&fd, m, 0, 0));
	REQNZ(peer_start(&pe, "rt_pool_ipc") == 0);
	xsend_fd(pe.fd, fd);
	xsend(pe.fd, &x, sizeof(x));
	xsend(pe.fd, &eh, sizeof(eh));
	SYNC_FROM(pe.fd);
	unsigned char b[1000];
	cudaMemcpy(b, p, 1000, cudaMemcpyDefault);
	emit("sees_peer_write", "%d", allbyte(b, 1000, 0x44));
	emit("peer_exit", "%d", peer_wait(&pe));
	RT("free", cudaFreeAsync(p, 0));
	RT("destroy", cudaMemPoolDestroy(m));
}

PEER(rt_ipc_mem)
{
	cudaIpcMemHandle_t h;
	void *p = NULL;
	if (xrecv(sock, &h, sizeof(h)))
		return;
	RT("peer_open", cudaIpcOpenMemHandle(&p, h, cudaIpcMemLazyEnablePeerAccess));
	emit("peer_data", "%s", p ? rtsame(p, 65536, 6) : "-");
	RT("peer_close", cudaIpcCloseMemHandle(p));
	RT("peer_close_twice", cudaIpcCloseMemHandle(p));
}
GROUP(rt_ipc_mem)
{
	peer_t pe;
	cudaIpcMemHandle_t h;
	void *p, *q = NULL;
	RTREQ(cudaMalloc(&p, 65536));
	rtfill(p, 65536, 6);
	RT("get", cudaIpcGetMemHandle(&h, p));
	RT("open_own", cudaIpcOpenMemHandle(&q, h, cudaIpcMemLazyEnablePeerAccess));
	RT("get_null", cudaIpcGetMemHandle(&h, NULL));
	cudaGetLastError();
	cudaIpcGetMemHandle(&h, p);
	REQNZ(peer_start(&pe, "rt_ipc_mem") == 0);
	xsend(pe.fd, &h, sizeof(h));
	emit("peer_exit", "%d", peer_wait(&pe));
	RT("free", cudaFree(p));
}

GROUP(rt_attach)
{
	cudaStream_t s;
	void *p;
	RTREQ(cudaStreamCreate(&s));
	RT("managed", cudaMallocManaged(&p, 65536, cudaMemAttachGlobal));
	RT("single", cudaStreamAttachMemAsync(s, p, 0, cudaMemAttachSingle));
	RT("single_null_stream", cudaStreamAttachMemAsync(0, p, 0, cudaMemAttachSingle));
	RT("host", cudaStreamAttachMemAsync(s, p, 65536, cudaMemAttachHost));
	RT("partial", cudaStreamAttachMemAsync(s, p, 4096, cudaMemAttachSingle));
	RT("global", cudaStreamAttachMemAsync(s, p, 0, cudaMemAttachGlobal));
	RT("flags_0", cudaStreamAttachMemAsync(s, p, 0, 0));
	RT("sync", cudaStreamSynchronize(s));
	RT("free", cudaFree(p));
}

/* Do copies wait for the stream if they name managed memory as the host's? */
GROUP(rt_managed_copies)
{
	size_t n = MiB(1);
	void *m = NULL, *d = NULL;
	gate_t g = { 0 };
	cudaStream_t s;

	init_ctx();
	RTREQ(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
	RTREQ(cudaMallocManaged(&m, n, cudaMemAttachGlobal));
	RTREQ(cudaMalloc(&d, n));
	memset(m, 1, n);
#define WAITS(id, call) do { REQ(gate_close(&g, (CUstream)s)); gate_after(&g, 300);		\
		RT(id, call); int w__ = g.released; emit(id "_waited", "%d", w__); gate_done(&g); } while (0)
	WAITS("host_to_device", cudaMemcpyAsync(d, m, n, cudaMemcpyHostToDevice, s));
	WAITS("device_to_host", cudaMemcpyAsync(m, d, n, cudaMemcpyDeviceToHost, s));
	WAITS("default", cudaMemcpyAsync(d, m, n, cudaMemcpyDefault, s));
	WAITS("default_back", cudaMemcpyAsync(m, d, n, cudaMemcpyDefault, s));
	WAITS("device_to_device", cudaMemcpyAsync(d, m, n, cudaMemcpyDeviceToDevice, s));
	WAITS("host_to_host", cudaMemcpyAsync(m, (char *)m + n / 2, n / 2, cudaMemcpyHostToHost, s));
	WAITS("host_to_device_2d", cudaMemcpy2DAsync(d, 1024, m, 1024, 1000, 16, cudaMemcpyHostToDevice, s));
	WAITS("default_2d", cudaMemcpy2DAsync(d, 1024, m, 1024, 1000, 16, cudaMemcpyDefault, s));
#undef WAITS
}
