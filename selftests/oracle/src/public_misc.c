// SPDX-License-Identifier: GPL-2.0
/* Cases of PCI bus ids, async notification, contexts, cuGetProcAddress, dma-buf */
#include "oracle.h"
#include <dlfcn.h>
#include <ctype.h>

GROUP(pci)
{
	init_ctx();
	char b[64], up[64];
	CUdevice d = 9;
	memset(b, 'Z', sizeof(b));
	CUresult r = cuDeviceGetPCIBusId(b, sizeof(b), g_dev);
	int form = strlen(b) == 12 && b[4] == ':' && b[7] == ':' && b[10] == '.';
	int upper = 1;
	for (char *c = b; *c; c++)
		if (islower((unsigned char)*c))
			upper = 0;
	emit("get", "rc=%s dddd:bb:dd.f=%d no_lower_case=%d", rcs(r), form, upper);
	TF("back", cuDeviceGetByPCIBusId(&d, b), "same=%d", d == g_dev);
	for (int i = 0; i < 64; i++)
		up[i] = (char)tolower((unsigned char)b[i]);
	TF("back_lower_case", cuDeviceGetByPCIBusId(&d, up), "same=%d", d == g_dev);
	char nofn[64];
	snprintf(nofn, sizeof(nofn), "%.10s", b);
	T("back_no_function", cuDeviceGetByPCIBusId(&d, nofn));
	T("back_no_domain", cuDeviceGetByPCIBusId(&d, b + 5));
	T("back_wrong_domain", cuDeviceGetByPCIBusId(&d, "fffe:00:00.0"));
	T("back_no_such", cuDeviceGetByPCIBusId(&d, "0000:fe:1f.7"));
	T("back_garbage", cuDeviceGetByPCIBusId(&d, "hello"));
	T("back_empty", cuDeviceGetByPCIBusId(&d, ""));
	T("back_null_str", cuDeviceGetByPCIBusId(&d, NULL));
	T("back_null_dev", cuDeviceGetByPCIBusId(NULL, b));
	char s[64];
	static const int ln[] = { 13, 12, 5, 1, 0, -1 };
	for (size_t i = 0; i < sizeof(ln) / sizeof(ln[0]); i++) {
		memset(s, 'Z', sizeof(s));
		r = cuDeviceGetPCIBusId(s, ln[i], g_dev);
		int nul = -1;
		for (int k = 0; k < 64; k++)
			if (!s[k]) { nul = k; break; }
		emit(F("get_len_%d", ln[i]), "rc=%s nul_at=%d prefix_ok=%d", rcs(r), nul, nul > 0 && !strncmp(s, b, (size_t)nul));
	}
	T("get_null", cuDeviceGetPCIBusId(NULL, 13, g_dev));
	T("get_bad_dev", cuDeviceGetPCIBusId(s, 13, 99));
	T("get_dev_minus_1", cuDeviceGetPCIBusId(s, 13, -1));
	TNOCTX("get_no_ctx", cuDeviceGetPCIBusId(s, 13, g_dev));
	TNOCTX("back_no_ctx", cuDeviceGetByPCIBusId(&d, b));
}

static void ncb(CUasyncNotificationInfo *i, void *u, CUasyncCallbackHandle h) { (void)i; (void)u; (void)h; }
GROUP(async_notify)
{
	init_ctx();
	CUasyncCallbackHandle h = NULL, h2 = NULL;
	CUresult r = cuDeviceRegisterAsyncNotification(g_dev, ncb, NULL, &h);
	emit("register", "rc=%s nonnull=%d", rcs(r), h != NULL);
	if (!r) {
		TF("register_second", cuDeviceRegisterAsyncNotification(g_dev, ncb, NULL, &h2), "distinct=%d", h2 != h);
		T("unregister", cuDeviceUnregisterAsyncNotification(g_dev, h));
		T("unregister_second", cuDeviceUnregisterAsyncNotification(g_dev, h2));
	}
	T("null_fn", cuDeviceRegisterAsyncNotification(g_dev, NULL, NULL, &h));
	T("null_out", cuDeviceRegisterAsyncNotification(g_dev, ncb, NULL, NULL));
	T("bad_dev", cuDeviceRegisterAsyncNotification(99, ncb, NULL, &h));
	T("unregister_null", cuDeviceUnregisterAsyncNotification(g_dev, NULL));
	T("unregister_bad_dev", cuDeviceUnregisterAsyncNotification(99, h));
}

static CUasyncCallbackHandle dead_cb(void) { CUasyncCallbackHandle h = NULL; cuDeviceRegisterAsyncNotification(0, ncb, NULL, &h); cuDeviceUnregisterAsyncNotification(0, h); return h; }
RISKY(async_unregister_twice, cuDeviceUnregisterAsyncNotification(0, dead_cb()))

GROUP(ctx)
{
	CUcontext c = (CUcontext)1, p2 = NULL;
	unsigned f = 9;
	int act = 9;
	T("init_flags_1", cuInit(1));
	T("init", cuInit(0));
	T("init_again", cuInit(0));
	TF("current_none", cuCtxGetCurrent(&c), "null=%d", c == NULL);
	TF("primary_state_inactive", cuDevicePrimaryCtxGetState(0, &f, &act), "flags=%u active=%d", f, act);
	CUdeviceptr d;
	T("alloc_without_ctx", cuMemAlloc(&d, 64));
	init_ctx();
	TF("primary_state_active", cuDevicePrimaryCtxGetState(0, &f, &act), "active=%d", act);
	TF("retain_again", cuDevicePrimaryCtxRetain(&p2, 0), "same=%d", p2 == g_ctx);
	T("release", cuDevicePrimaryCtxRelease(0));
	TF("still_active", cuDevicePrimaryCtxGetState(0, &f, &act), "active=%d", act);
	T("destroy_primary", cuCtxDestroy(g_ctx));
	unsigned v = 0;
	TF("api_version", cuCtxGetApiVersion(g_ctx, &v), "%u", v);
	int drv = 0;
	TF("driver_version", cuDriverGetVersion(&drv), "ge_13000=%d", drv >= 13000);
	CUdevice dv = 9;
	TF("getdevice", cuCtxGetDevice(&dv), "%d", dv);
	TNOCTX("getdevice_no_ctx", cuCtxGetDevice(&dv));
	TNOCTX("sync_no_ctx", cuCtxSynchronize());
	T("pop_primary", cuCtxPopCurrent(&c));
	T("pop_empty", cuCtxPopCurrent(&c));
	cuCtxSetCurrent(g_ctx);
	int n = 0;
	TF("count", cuDeviceGetCount(&n), "ge1=%d", n >= 1);
	T("deviceget_99", cuDeviceGet(&dv, 99));
	T("retain_bad_dev", cuDevicePrimaryCtxRetain(&p2, 99));
	T("release_bad_dev", cuDevicePrimaryCtxRelease(99));
	int pi = 0;
	T("attr_0", cuDeviceGetAttribute(&pi, 0, 0));
	T("attr_9999", cuDeviceGetAttribute(&pi, 9999, 0));
	T("attr_null", cuDeviceGetAttribute(NULL, 1, 0));
	TF("error_name", CUDA_SUCCESS, "%s", ({ const char *s = NULL; cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &s); s ? s : "null"; }));
	TF("error_string", CUDA_SUCCESS, "%s", ({ const char *s = NULL; cuGetErrorString(CUDA_ERROR_INVALID_VALUE, &s); s ? s : "null"; }));
	const char *es = (const char *)1;
	TF("error_name_unknown", cuGetErrorName(12345, &es), "null=%d", es == NULL);
	cuMemAlloc(&d, 4096);
	T("release_last", cuDevicePrimaryCtxRelease(0));
	T("use_after_last_release", cuMemAlloc(&d, 64));
	T("free_after_last_release", cuMemFree(d));
}

/* call every function of CUDA's chapter on memory without cuInit() */
static void nfn(CUasyncNotificationInfo *i, void *u, CUasyncCallbackHandle h) { (void)i; (void)u; (void)h; }
GROUP(noinit)
{
	CUdeviceptr d = 0;
	void *h = NULL;
	size_t n = 0, m = 0;
	unsigned f = 0;
	char b[64];
	CUdevice dv;
	CUipcMemHandle ih;
	CUipcEventHandle ie;
	CUevent ev;
	CUasyncCallbackHandle cb;
	memset(&ih, 0, sizeof(ih));
	memset(&ie, 0, sizeof(ie));
	T("cuMemAlloc", cuMemAlloc(&d, 64));
	T("cuMemAlloc_null", cuMemAlloc(NULL, 0));
	T("cuMemAllocPitch", cuMemAllocPitch(&d, &n, 16, 16, 4));
	T("cuMemAllocHost", cuMemAllocHost(&h, 64));
	T("cuMemHostAlloc", cuMemHostAlloc(&h, 64, 0));
	T("cuMemAllocManaged", cuMemAllocManaged(&d, 64, 1));
	T("cuMemFree", cuMemFree(0));
	T("cuMemFreeHost", cuMemFreeHost(b));
	T("cuMemGetInfo", cuMemGetInfo(&n, &m));
	T("cuMemGetAddressRange", cuMemGetAddressRange(&d, &n, 0x1000));
	T("cuMemHostGetDevicePointer", cuMemHostGetDevicePointer(&d, b, 0));
	T("cuMemHostGetFlags", cuMemHostGetFlags(&f, b));
	T("cuMemHostRegister", cuMemHostRegister(b, 64, 0));
	T("cuMemHostUnregister", cuMemHostUnregister(b));
	T("cuMemcpy", cuMemcpy(0x1000, 0x2000, 4));
	T("cuMemcpyHtoD", cuMemcpyHtoD(0x1000, b, 4));
	T("cuMemcpyDtoH", cuMemcpyDtoH(b, 0x1000, 4));
	T("cuMemcpyDtoD", cuMemcpyDtoD(0x1000, 0x2000, 4));
	T("cuMemcpyHtoDAsync", cuMemcpyHtoDAsync(0x1000, b, 4, 0));
	T("cuMemsetD8", cuMemsetD8(0x1000, 1, 4));
	T("cuMemsetD32Async", cuMemsetD32Async(0x1000, 1, 4, 0));
	T("cuArrayCreate", cuArrayCreate((CUarray *)&h, (CUDA_ARRAY_DESCRIPTOR *)b));
	T("cuIpcGetMemHandle", cuIpcGetMemHandle(&ih, 0x1000));
	T("cuIpcOpenMemHandle", cuIpcOpenMemHandle(&d, ih, 1));
	T("cuIpcCloseMemHandle", cuIpcCloseMemHandle(0x1000));
	T("cuIpcOpenEventHandle", cuIpcOpenEventHandle(&ev, ie));
	T("cuMemGetHandleForAddressRange", cuMemGetHandleForAddressRange(&f, 0x1000, 4096, 1, 0));
	T("cuDeviceGetPCIBusId", cuDeviceGetPCIBusId(b, 13, 0));
	T("cuDeviceGetByPCIBusId", cuDeviceGetByPCIBusId(&dv, "0000:00:00.0"));
	T("cuDeviceRegisterAsyncNotification", cuDeviceRegisterAsyncNotification(0, nfn, NULL, &cb));
	T("cuMemAllocAsync", cuMemAllocAsync(&d, 64, 0));
	T("cuMemFreeAsync", cuMemFreeAsync(0x1000, 0));
	T("cuDeviceGetDefaultMemPool", cuDeviceGetDefaultMemPool((CUmemoryPool *)&h, 0));
	T("cuMemAddressReserve", cuMemAddressReserve(&d, MiB(2), 0, 0, 0));
	T("cuMemRelease", cuMemRelease(1));
	T("cuPointerGetAttribute", cuPointerGetAttribute(&n, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0x1000));
	T("cuStreamCreate", cuStreamCreate((CUstream *)&h, 0));
	T("cuEventCreate", cuEventCreate(&ev, 0));
	T("cuCtxSetCurrent", cuCtxSetCurrent(NULL));
	T("cuCtxSynchronize", cuCtxSynchronize());
	T("cuDeviceGet", cuDeviceGet(&dv, 0));
	T("cuDriverGetVersion", cuDriverGetVersion((int *)&f));
	T("cuGetErrorName", cuGetErrorName(0, (const char **)&h));
}

GROUP(procaddr)
{
	init_ctx();
	static const char *nm[] = { "cuMemAlloc", "cuMemFree", "cuMemAllocPitch", "cuMemGetInfo", "cuMemGetAddressRange", "cuMemHostRegister", "cuMemcpyHtoD",
		"cuMemcpy", "cuMemcpyHtoDAsync", "cuMemcpy2D", "cuMemcpy3DAsync", "cuMemsetD8", "cuMemsetD8Async", "cuArrayCreate", "cuArray3DGetDescriptor",
		"cuIpcOpenMemHandle", "cuMemAllocAsync", "cuMemFreeAsync", "cuMemPoolCreate", "cuMemCreate", "cuMemPrefetchAsync", "cuMemAdvise",
		"cuMemcpyBatchAsync", "cuMemcpy3DBatchAsync", "cuMemBatchDecompressAsync", "cuMemGetHandleForAddressRange", "cuDeviceRegisterAsyncNotification",
		"cuMemGetDefaultMemPool", "cuStreamAttachMemAsync", "cuCtxCreate", "cuGetProcAddress", "cuStreamCreate", "cuEventElapsedTime" };
	void *self = dlopen(NULL, RTLD_NOW), *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
	if (!lib)
		lib = self;
	static const int ver[] = { 13000, 12000, 11020, 4000, 2000 };
	for (size_t i = 0; i < sizeof(nm) / sizeof(nm[0]); i++) {
		char o[512] = "";
		for (size_t v = 0; v < sizeof(ver) / sizeof(ver[0]); v++) {
			void *p = (void *)1;
			CUdriverProcAddressQueryResult st = 99;
			CUresult r = cuGetProcAddress(nm[i], &p, ver[v], 0, &st);
			const char *which = "none";
			static const char *suf[] = { "", "_v2", "_v3", "_v4" };
			if (p && p != (void *)1) {
				which = "other";
				for (int k = 0; k < 4; k++)
					if (dlsym(lib, F("%s%s", nm[i], suf[k])) == p)
						which = F("plain%s", suf[k]);
			}
			snprintf(o + strlen(o), sizeof(o) - strlen(o), "%d:%d,%d,%s ", ver[v], (int)r, (int)st, which);
		}
		emit(nm[i], "%s", o);
	}
	void *p = NULL, *q = NULL;
	CUdriverProcAddressQueryResult st = 99;
	TF("no_such", cuGetProcAddress("cuNoSuchFunction", &p, 13000, 0, &st), "st=%d null=%d", (int)st, p == NULL);
	TF("suffix_asked", cuGetProcAddress("cuMemAlloc_v2", &p, 13000, 0, &st), "st=%d found=%d", (int)st, p != NULL);
	TF("future_version", cuGetProcAddress("cuMemAlloc", &p, 99999, 0, &st), "st=%d found=%d", (int)st, p != NULL);
	TF("status_null", cuGetProcAddress("cuMemAlloc", &p, 13000, 0, NULL), "found=%d", p != NULL);
	T("pfn_null", cuGetProcAddress("cuMemAlloc", NULL, 13000, 0, &st));
	T("symbol_null", cuGetProcAddress(NULL, &p, 13000, 0, &st));
	T("symbol_empty", cuGetProcAddress("", &p, 13000, 0, &st));
	T("flags_8", cuGetProcAddress("cuMemAlloc", &p, 13000, 8, &st));
	T("flags_3", cuGetProcAddress("cuMemcpyHtoD", &p, 13000, 3, &st));
	cuGetProcAddress("cuMemcpyHtoD", &p, 13000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &st);
	cuGetProcAddress("cuMemcpyHtoD", &q, 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &st);
	emit("ptds_differs", "%d is_v2_ptds=%d", p != q, q == dlsym(lib, "cuMemcpyHtoD_v2_ptds"));
	cuGetProcAddress("cuMemcpyHtoDAsync", &q, 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &st);
	emit("ptsz_async", "is_v2_ptsz=%d", q == dlsym(lib, "cuMemcpyHtoDAsync_v2_ptsz"));
	TNOCTX("no_ctx", cuGetProcAddress("cuMemAlloc", &p, 13000, 0, &st));
}

GROUP(dmabuf)
{
	init_ctx();
	int sup = dev_attr(CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED);
	emit("attr_supported", "%d", sup);
	emit("attr_host_alloc", "%d", dev_attr(CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED));
	CUdeviceptr d = dalloc(MiB(4)), sm = dalloc(65536);
	int fd = -77;
	CUresult r = cuMemGetHandleForAddressRange(&fd, d, MiB(4), CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
	emit("whole", "rc=%s fd=%s", rcs(r), fd == -77 ? "untouched" : fd >= 0 ? "valid" : "negative");
	if (!r) {
		off_t e = lseek(fd, 0, SEEK_END);
		char link[128] = "", pth[64];
		snprintf(pth, sizeof(pth), "/proc/self/fd/%d", fd);
		ssize_t k = readlink(pth, link, sizeof(link) - 1);
		emit("whole_fd_facts", "lseek_end=%s cloexec=%d is_dmabuf=%d", e < 0 ? "error" : rel((size_t)e, MiB(4)), (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0,
		     k > 0 && strstr(link, "dmabuf") != NULL);
		void *m = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
		emit("whole_mmap.impl", "%s", m == MAP_FAILED ? F("errno=%d", errno) : "mapped");
		int fd2 = -77;
		TF("second_export", cuMemGetHandleForAddressRange(&fd2, d, MiB(4), CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0), "distinct=%d", fd2 != fd);
		close(fd2);
		T("close", close(fd) ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS);
	}
	struct { const char *n; CUdeviceptr p; size_t l; int t; unsigned long long f; } v[] = {
		{ "sub_range", d + MiB(1), MiB(1), 1, 0 }, { "one_page", d + 8192, 4096, 1, 0 }, { "misaligned_ptr", d + 100, 4096, 1, 0 },
		{ "misaligned_size", d, 4097, 1, 0 }, { "size_0", d, 0, 1, 0 }, { "past_end", d, MiB(64), 1, 0 }, { "null", 0, 4096, 1, 0 },
		{ "type_0", d, MiB(4), 0, 0 }, { "type_2", d, MiB(4), 2, 0 }, { "flags_pcie", d, MiB(4), 1, 1 }, { "flags_2", d, MiB(4), 1, 2 },
		{ "small_alloc_64K", sm, 65536, 1, 0 }, { "garbage", 0x12340000, 4096, 1, 0 } };
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		fd = -77;
		r = cuMemGetHandleForAddressRange(&fd, v[i].p, v[i].l, (CUmemRangeHandleType)v[i].t, v[i].f);
		emit(v[i].n, "rc=%s fd=%s", rcs(r), fd == -77 ? "untouched" : fd >= 0 ? "valid" : "negative");
		if (!r && fd >= 0)
			close(fd);
	}
	T("null_out", cuMemGetHandleForAddressRange(NULL, d, MiB(4), CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	void *h = NULL;
	REQ(cuMemAllocHost(&h, MiB(2)));
	fd = -77;
	r = cuMemGetHandleForAddressRange(&fd, DPTR(h), MiB(2), CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
	emit("pinned_host", "rc=%s", rcs(r));
	if (!r)
		close(fd);
	CUdeviceptr mg = 0;
	if (HAVE(cuMemAllocManaged(&mg, MiB(2), CU_MEM_ATTACH_GLOBAL)))
		T("managed", cuMemGetHandleForAddressRange(&fd, mg, MiB(2), CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	char *pg = halloc(MiB(2));
	T("pageable", cuMemGetHandleForAddressRange(&fd, DPTR(pg), MiB(2), CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	CUdeviceptr rs = 0;
	if (HAVE(cuMemAddressReserve(&rs, MiB(4), 0, 0, 0))) {
		T("vmm_unmapped", cuMemGetHandleForAddressRange(&fd, rs, MiB(2), CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
		CUmemAllocationProp pr;
		CUmemGenericAllocationHandle gh;
		memset(&pr, 0, sizeof(pr));
		pr.type = CU_MEM_ALLOCATION_TYPE_PINNED;
		pr.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
		REQ(cuMemCreate(&gh, MiB(2), &pr, 0));
		REQ(cuMemMap(rs, MiB(2), 0, gh, 0));
		fd = -77;
		T("vmm_mapped_no_access", cuMemGetHandleForAddressRange(&fd, rs, MiB(2), CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
		T("vmm_partly_mapped", cuMemGetHandleForAddressRange(&fd, rs, MiB(4), CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	}
	TNOCTX("no_ctx", cuMemGetHandleForAddressRange(&fd, d, MiB(4), CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	fd = -1;
	r = cuMemGetHandleForAddressRange(&fd, d, MiB(4), CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
	T("free_with_open_dmabuf", cuMemFree(d));
	if (!r)
		emit("close_after_free", "%d", close(fd));
}

/* CUDA_VISIBLE_DEVICES */
static void visible(const char *v)
{
	int n = -1;
	CUdevice d = 9;
	setenv("CUDA_VISIBLE_DEVICES", v, 1);
	T("init", cuInit(0));
	TF("count", cuDeviceGetCount(&n), "%d", n);
	TF("get0", cuDeviceGet(&d, 0), "%d", d);
	T("get1", cuDeviceGet(&d, 1));
	CUcontext c = NULL;
	T("retain0", cuDevicePrimaryCtxRetain(&c, 0));
	CUdeviceptr p;
	T("alloc_no_ctx", cuMemAlloc(&p, 64));
}
GROUP(env_visible_empty) { visible(""); }
GROUP(env_visible_minus1) { visible("-1"); }
GROUP(env_visible_0) { visible("0"); }
GROUP(env_visible_0_0) { visible("0,0"); }
GROUP(env_visible_7) { visible("7"); }
GROUP(env_visible_0_7) { visible("0,7"); }
GROUP(env_visible_garbage) { visible("hello"); }
