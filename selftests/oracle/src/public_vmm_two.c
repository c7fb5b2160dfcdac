// SPDX-License-Identifier: GPL-2.0
/*
 * Cases of mapped memory and several locations.
 *
 * - Whose right to a mapping counts, when the current context and the stream are of different devices?
 * - What does CU_POINTER_ATTRIBUTE_ACCESS_FLAGS answer for a mapping?
 * - Can one call use mappings of a device's memory and of the host's that lie side by side?
 * - What of a handle does an import lose?
 * - What is external memory that lies in the host, and that of a device which the process does not see?
 */
#include <sys/wait.h>
#include "vmm.h"

/* ------------------------------------------------------ rights of one of two devices */
#define N_BYTES 65536

static CUdevice two_dev = 1;
static CUcontext ctx[2];
static CUstream stream[2];
static unsigned char *pinned;

static CUresult two(void)
{
	CUresult r;
	int n = 0;

	init_ctx();
	cuDeviceGetCount(&n);
	if (n < 2)
		return CUDA_ERROR_NO_DEVICE;
	ctx[0] = g_ctx;
	r = cuDevicePrimaryCtxRetain(&ctx[1], two_dev);
	for (int i = 0; !r && i < 2; i++) {
		cuCtxSetCurrent(ctx[i]);
		r = cuStreamCreate(&stream[i], CU_STREAM_NON_BLOCKING);
	}
	if (!r)
		r = cuMemHostAlloc((void **)&pinned, N_BYTES, CU_MEMHOSTALLOC_PORTABLE);
	if (!r)
		r = cuCtxSetCurrent(g_ctx);
	return r;
}

/* Memory of device @of that only device @to may access. */
static CUdeviceptr mapped_for(int of, int to, int flags)
{
	CUmemAllocationProp p = prop_at(CU_MEM_LOCATION_TYPE_DEVICE, of ? two_dev : g_dev, 0);
	CUmemAccessDesc a = desc_at(CU_MEM_LOCATION_TYPE_DEVICE, to ? two_dev : g_dev, flags);
	CUmemGenericAllocationHandle h = 0;
	CUdeviceptr d = reserve(G);

	MUST(cuMemCreate(&h, G, &p, 0));
	MUST(cuMemMap(d, G, 0, h, 0));
	MUST(cuMemSetAccess(d, G, &a, 1));
	MUST(cuMemRelease(h));
	return d;
}

enum way {
	FILL, HTOD, DTOH, UNIFIED, TWO_D, BATCH, WRITE, WAIT, BATCH_OP, DTOD, TO_PEER, FROM_PEER, TO_OTHER_PEER,
	FILL_NOW, HTOD_NOW, DTOH_NOW, UNIFIED_NOW, TO_PEER_NOW, FROM_PEER_NOW,
};
/* @plain: memory of the current context; @here: the number of that */
static CUresult use(enum way way, CUdeviceptr d, CUdeviceptr plain, int here, CUstream s)
{
	CUstreamBatchMemOpParams op;
	CUdeviceptr to[1] = { d }, from[1] = { DPTR(pinned) };
	size_t n[1] = { N_BYTES }, first[1] = { 0 };
	CUmemcpyAttributes at;
	CUDA_MEMCPY2D c;

	switch (way) {
	case FILL:
		return cuMemsetD8Async(d, 1, N_BYTES, s);
	case HTOD:
		return cuMemcpyHtoDAsync(d, pinned, N_BYTES, s);
	case DTOH:
		return cuMemcpyDtoHAsync(pinned, d, N_BYTES, s);
	case UNIFIED:
		return cuMemcpyAsync(d, DPTR(pinned), N_BYTES, s);
	case TWO_D:
		memset(&c, 0, sizeof(c));
		c.srcMemoryType = CU_MEMORYTYPE_HOST;
		c.srcHost = pinned;
		c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
		c.dstDevice = d;
		c.srcPitch = c.dstPitch = c.WidthInBytes = 256;
		c.Height = N_BYTES / 256;
		return cuMemcpy2DAsync(&c, s);
	case BATCH:
		memset(&at, 0, sizeof(at));
		at.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
		return cuMemcpyBatchAsync(to, from, n, 1, &at, first, 1, s);
	case WRITE:
		return cuStreamWriteValue32(s, d, 1, 0);
	case WAIT:
		return cuStreamWaitValue32(s, d, 0, CU_STREAM_WAIT_VALUE_GEQ);
	case BATCH_OP:
		memset(&op, 0, sizeof(op));
		op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
		op.writeValue.address = d;
		op.writeValue.value = 1;
		return cuStreamBatchMemOp(s, 1, &op, 0);
	case DTOD:
		return cuMemcpyDtoDAsync(d, plain, N_BYTES, s);
	case TO_PEER:
		return cuMemcpyPeerAsync(d, ctx[here], plain, ctx[here], N_BYTES, s);
	case FROM_PEER:
		return cuMemcpyPeerAsync(plain, ctx[here], d, ctx[here], N_BYTES, s);
	case TO_OTHER_PEER:
		return cuMemcpyPeerAsync(d, ctx[!here], plain, ctx[here], N_BYTES, s);
	case TO_PEER_NOW:
		return cuMemcpyPeer(d, ctx[!here], plain, ctx[here], N_BYTES);
	case FROM_PEER_NOW:
		return cuMemcpyPeer(plain, ctx[here], d, ctx[!here], N_BYTES);
	case FILL_NOW:
		return cuMemsetD8(d, 1, N_BYTES);
	case HTOD_NOW:
		return cuMemcpyHtoD(d, pinned, N_BYTES);
	case DTOH_NOW:
		return cuMemcpyDtoH(pinned, d, N_BYTES);
	default:
		return cuMemcpy(d, DPTR(pinned), N_BYTES);
	}
}

/* One use of memory of device @of to which only device @to has a right, in a process of its own: it may end the context. */
static void reach(enum way way, int of, int to, int current, int in)
{
	const char *id = way >= FILL_NOW ? F("%d_for_%d.current_%d", of, to, current) :
		F("%d_for_%d.current_%d.stream_%d", of, to, current, in);
	pid_t child = fork();
	CUdeviceptr d, plain;

	if (child) {
		waitpid(child, NULL, 0);
		return;
	}
	if (two()) {
		emit("__prereq", "no second device");
		_exit(0);
	}
	d = mapped_for(of, to, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	cuCtxSetCurrent(ctx[current]);
	plain = dalloc(N_BYTES);
	MUST(cuMemsetD8(plain, 0, N_BYTES));
	MUST(cuCtxSynchronize());
	TF(id, use(way, d, plain, current, stream[in]), "then=%s",
	   rcs(way >= FILL_NOW ? cuCtxSynchronize() : cuStreamSynchronize(stream[in])));
	fflush(NULL);
	_exit(0);
}

#define REACH(way, name)							\
	GROUPT(vmm_two_ ## name, 90)						\
	{									\
		for (int i = 0; i < 16; i++)					\
			if (way < FILL_NOW || !(i & 8))				\
				reach(way, i & 1, i >> 1 & 1, i >> 2 & 1, i >> 3);	\
	}
REACH(FILL, fill)
REACH(HTOD, htod)
REACH(DTOH, dtoh)
REACH(UNIFIED, unified)
REACH(TWO_D, copy2d)
REACH(BATCH, batch)
REACH(WRITE, write)
REACH(WAIT, wait)
REACH(BATCH_OP, batch_op)
REACH(DTOD, dtod)
REACH(TO_PEER, to_peer)
REACH(FROM_PEER, from_peer)
REACH(TO_OTHER_PEER, to_other_peer)
REACH(TO_PEER_NOW, to_peer_now)
REACH(FROM_PEER_NOW, from_peer_now)
REACH(FILL_NOW, fill_now)
REACH(HTOD_NOW, htod_now)
REACH(DTOH_NOW, dtoh_now)
REACH(UNIFIED_NOW, unified_now)

/* ------------------------------------------------------ what the pointer tells */
static void flags_of(const char *id, CUdeviceptr d)
{
	unsigned int v = 99;

	TF(id, cuPointerGetAttribute(&v, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, d), "%u", v);
}

GROUP(vmm_flags)
{
	CUmemAccessDesc a = rw();
	CUmemAllocationProp p;
	CUmemGenericAllocationHandle h = 0;
	CUmemLocation node = { CU_MEM_LOCATION_TYPE_HOST_NUMA, 99 };
	unsigned long long fl = 99;
	CUdeviceptr d, base = 77;
	size_t n = 0;

	init_ctx();
	h = mk(G);
	d = reserve(G);
	flags_of("reserved", d);
	REQ(cuMemMap(d, G, 0, h, 0));
	flags_of("mapped", d);
	a.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
	REQ(cuMemSetAccess(d, G, &a, 1));
	flags_of("read", d);
	a.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
	REQ(cuMemSetAccess(d, G, &a, 1));
	flags_of("readwrite", d);
	flags_of("inside", d + 100);
	cuCtxSetCurrent(NULL);
	flags_of("noctx", d);
	cuCtxSetCurrent(g_ctx);
	a.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
	REQ(cuMemSetAccess(d, G, &a, 1));
	flags_of("none", d);
	p = prop_at(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0, 0);
	REQ(cuMemCreate(&h, G, &p, 0));
	d = reserve(G);
	REQ(cuMemMap(d, G, 0, h, 0));
	flags_of("host_mapped", d);
	a = desc_at(CU_MEM_LOCATION_TYPE_HOST, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	REQ(cuMemSetAccess(d, G, &a, 1));
	flags_of("host_for_host", d);
	a = rw();
	a.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
	REQ(cuMemSetAccess(d, G, &a, 1));
	flags_of("host_read", d);
	TF("access_of_node_99", cuMemGetAccess(&fl, &node, d), "%llu", fl);
	TF("range_of_host", cuMemGetAddressRange(&base, &n, d + 5), "base=%s size=%s", prel(base, d), rel(n, G));
	TF("range_of_host_base", cuMemGetAddressRange(&base, &n, d), "base=%s size=%s", prel(base, d), rel(n, G));
	node.id = -1;
	TF("access_of_node_minus_1", cuMemGetAccess(&fl, &node, d), "%llu", fl);
}

GROUPT(vmm_two_flags, 60)
{
	CUdeviceptr d;

	REQ(two());
	d = mapped_for(0, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	flags_of("for_other", d);
	cuCtxSetCurrent(ctx[1]);
	flags_of("for_other_there", d);
	cuCtxSetCurrent(NULL);
	flags_of("for_other_noctx", d);
	cuCtxSetCurrent(g_ctx);
	d = mapped_for(1, 0, CU_MEM_ACCESS_FLAGS_PROT_READ);
	flags_of("of_other", d);
	cuCtxSetCurrent(ctx[1]);
	flags_of("of_other_there", d);
}

/* ------------------------------------------------------ a device's memory beside the host's */
static CUdeviceptr mixed(int host_first)
{
	CUmemAllocationProp p = prop_at(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0, 0);
	CUmemGenericAllocationHandle h = 0;
	CUmemAccessDesc a = rw();
	CUdeviceptr d = reserve(2 * G);

	MUST(cuMemCreate(&h, G, &p, 0));
	MUST(cuMemMap(d + (host_first ? 0 : G), G, 0, h, 0));
	MUST(cuMemMap(d + (host_first ? G : 0), G, 0, mk(G), 0));
	MUST(cuMemSetAccess(d, 2 * G, &a, 1));
	return d;
}

static void over_both(int host_first)
{
	CUmemAccessDesc host = desc_at(CU_MEM_LOCATION_TYPE_HOST, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
	CUdeviceptr d = mixed(host_first), other = dalloc(2 * G), base = 0;
	char *h = halloc(2 * G);
	CUDA_MEMCPY2D c;
	CUstream s;
	size_t n = 0;
	int fd = -1;

	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	fill(h, 2 * G, 3);
	T("htod", cuMemcpyHtoD(d, h, 2 * G));
	TF("dtod", cuMemcpyDtoD(other, d, 2 * G), "%s", dsame(other, 2 * G, 3));
	memset(h, 0, 2 * G);
	TF("dtoh", cuMemcpyDtoH(h, d, 2 * G), "%s", hsame(h, 2 * G, 3));
	T("fill", cuMemsetD8(d + G - 4096, 7, 8192));
	T("fill_sync", cuCtxSynchronize());
	T("fill_async", cuMemsetD32Async(d + G - 4096, 7, 2048, s));
	T("unified", cuMemcpy(other, d, 2 * G));
	T("unified_into", cuMemcpy(d, other, 2 * G));
	T("htod_async", cuMemcpyHtoDAsync(d + G - 4096, h, 8192, s));
	T("dtoh_async", cuMemcpyDtoHAsync(h, d + G - 4096, 8192, s));
	memset(&c, 0, sizeof(c));
	c.srcMemoryType = c.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	c.srcDevice = d + G - 4096;
	c.dstDevice = other;
	c.srcPitch = c.dstPitch = 512;
	c.WidthInBytes = 256;
	c.Height = 16;
	T("copy2d", cuMemcpy2D(&c));
	T("sync", cuStreamSynchronize(s));
	TF("range", cuMemGetAddressRange(&base, &n, d + G + 5), "base=%s size=%s", prel(base, d + G), rel(n, G));
	T("dmabuf", cuMemGetHandleForAddressRange(&fd, d, 2 * G, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	T("host_right", cuMemSetAccess(d, 2 * G, &host, 1));
	T("unmap", cuMemUnmap(d, 2 * G));
}

GROUP(vmm_mixed_device_first)
{
	init_ctx();
	over_both(0);
}

GROUP(vmm_mixed_host_first)
{
	init_ctx();
	over_both(1);
}

/* ------------------------------------------------------ what an import can do */
static CUmemGenericAllocationHandle imported(const char *name, int usage, int compression, size_t size,
					     CUresult *r)
{
	CUmemAllocationProp p = prop_at(CU_MEM_LOCATION_TYPE_DEVICE, g_dev, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	CUmemGenericAllocationHandle h = 0, in = 0;
	int fd = -1;

	p.allocFlags.usage = usage;
	p.allocFlags.compressionType = compression;
	*r = cuMemCreate(&h, size, &p, 0);
	T(F("%s_create", name), *r);
	if (*r)
		return 0;
	*r = cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	T(F("%s_export", name), *r);
	if (!*r)
		*r = cuMemImportFromShareableHandle(&in, HPTR(fd), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	T(F("%s_import", name), *r);
	if (!*r)
		cuMemRelease(h);
	close(fd);
	return in;
}

static CUarray sparse(void)
{
	CUDA_ARRAY3D_DESCRIPTOR a;
	CUarray array = NULL;

	memset(&a, 0, sizeof(a));
	a.Width = 1024;
	a.Height = 1024;
	a.Format = CU_AD_FORMAT_FLOAT;
	a.NumChannels = 1;
	a.Flags = CUDA_ARRAY3D_SPARSE;
	MUST(cuArray3DCreate(&array, &a));
	return array;
}

static CUresult bind_tile(CUarray array, CUmemGenericAllocationHandle h, CUstream s)
{
	CUDA_ARRAY_SPARSE_PROPERTIES sp;
	CUarrayMapInfo m;

	MUST(cuArrayGetSparseProperties(&sp, array));
	m = first_tile(array, &sp, h);
	return cuMemMapArrayAsync(&m, 1, s);
}

static void compare_props(CUmemGenericAllocationHandle h)
{
	CUmemAllocationProp p;

	memset(&p, 0xee, sizeof(p));
	TF("props", cuMemGetAllocationPropertiesFromHandle(&p, h), "usage=%d compression=%d", p.allocFlags.usage,
	   p.allocFlags.compressionType);
}

GROUP(vmm_import_tiles)
{
	CUmemGenericAllocationHandle h;
	CUstream s;
	CUresult r;

	init_ctx();
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	h = imported("tiles", CU_MEM_CREATE_USAGE_TILE_POOL, 0, G, &r);
	if (!r) {
		compare_props(h);
		T("tile", bind_tile(sparse(), h, s));
		T("sync", cuStreamSynchronize(s));
	}
	h = imported("plain", 0, 0, G, &r);
	if (!r)
		T("tile_of_plain", bind_tile(sparse(), h, s));
	T("sync_of_plain", cuStreamSynchronize(s));
}

GROUP(vmm_import_decompress)
{
	CUmemGenericAllocationHandle h;
	CUmemAccessDesc a = rw();
	CUdeviceptr d;
	unsigned int v = 99;
	CUresult r;

	init_ctx();
	h = imported("decompress", CU_MEM_CREATE_USAGE_HW_DECOMPRESS, 0, G, &r);
	if (!r) {
		compare_props(h);
		d = reserve(G);
		REQ(cuMemMap(d, G, 0, h, 0));
		REQ(cuMemSetAccess(d, G, &a, 1));
		TF("capable", cuPointerGetAttribute(&v, CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE, d), "%u", v);
	}
}

/* ------------------------------------------------------ external memory of other places */
static int exported_of(CUmemLocationType type, int id)
{
	CUmemAllocationProp p = prop_at(type, id, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	CUmemGenericAllocationHandle h = 0;
	int fd = -1;

	MUST(cuMemCreate(&h, G, &p, 0));
	MUST(cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	MUST(cuMemRelease(h));
	return fd;
}

static void attributes_of(CUdeviceptr p)
{
	unsigned int type = 99, flags = 99;
	int ordinal = 99;
	void *host = NULL;
	CUcontext c = NULL;

	TF("memory_type", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p), "%u", type);
	TF("ordinal", cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p), "%d", ordinal);
	TF("host_pointer", cuPointerGetAttribute(&host, CU_POINTER_ATTRIBUTE_HOST_POINTER, p), "%s",
	   !host ? "null" : host == HPTR(p) ? "same" : "other");
	TF("context", cuPointerGetAttribute(&c, CU_POINTER_ATTRIBUTE_CONTEXT, p), "%s",
	   !c ? "null" : c == g_ctx ? "current" : "other");
	TF("access_flags", cuPointerGetAttribute(&flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, p), "%u", flags);
}

GROUP(ext_of_host)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d;
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC b;
	CUexternalMemory m = NULL;
	CUdeviceptr p = 0, other;
	char *h = halloc(G);
	CUstream s;

	init_ctx();
	REQ(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	memset(&d, 0, sizeof(d));
	d.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
	d.handle.fd = exported_of(CU_MEM_LOCATION_TYPE_HOST_NUMA, 0);
	d.size = G;
	TF("import", cuImportExternalMemory(&m, &d), "fd=%s", opened(d.handle.fd));
	memset(&b, 0, sizeof(b));
	b.size = G;
	T("buffer", cuExternalMemoryGetMappedBuffer(&p, m, &b));
	if (!p)
		return;
	attributes_of(p);
	other = dalloc(G);
	T("fill", cuMemsetD8(p, 3, G));
	T("sync", cuCtxSynchronize());
	TF("dtod", cuMemcpyDtoD(other, p, G), "%s", dbyte(other, G, 3));
	TF("dtoh", cuMemcpyDtoH(h, p, G), "%d", allbyte(h, G, 3));
	T("htod", cuMemcpyHtoD(p, h, G));
	T("from_as_host", cuMemcpyHtoD(other, HPTR(p), 16));
	T("free", cuMemFree(p));
	T("destroy", cuDestroyExternalMemory(m));
}

PEER(vmm_sees_one)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d;
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC b;
	CUmemGenericAllocationHandle h = 0;
	CUexternalMemory m = NULL;
	CUdeviceptr p = 0;
	int fd = xrecv_fd(sock);

	setenv("CUDA_VISIBLE_DEVICES", "1", 1);
	init_ctx();
	T("peer_import_handle", cuMemImportFromShareableHandle(&h, HPTR(fd), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	memset(&d, 0, sizeof(d));
	d.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
	d.handle.fd = fd;
	d.size = G;
	TF("peer_import", cuImportExternalMemory(&m, &d), "fd=%s", opened(fd));
	memset(&b, 0, sizeof(b));
	b.size = G;
	if (m)
		T("peer_buffer", cuExternalMemoryGetMappedBuffer(&p, m, &b));
	if (p) {
		T("peer_fill", cuMemsetD8(p, 1, G));
		T("peer_sync", cuCtxSynchronize());
		attributes_of(p);
	}
}

GROUPT(ext_not_visible, 60)
{
	peer_t peer;
	int fd;

	REQ(two());
	fd = exported_of(CU_MEM_LOCATION_TYPE_DEVICE, g_dev);
	REQNZ(peer_start(&peer, "vmm_sees_one") == 0);
	xsend_fd(peer.fd, fd);
	close(fd);
	emit("peer_exit", "%d", peer_wait(&peer));
}

/* External memory of the other device. */
GROUPT(ext_of_other, 60)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d;
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC b;
	CUexternalMemory m = NULL;
	CUdeviceptr p = 0;

	REQ(two());
	memset(&d, 0, sizeof(d));
	d.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
	d.handle.fd = exported_of(CU_MEM_LOCATION_TYPE_DEVICE, two_dev);
	d.size = G;
	TF("import", cuImportExternalMemory(&m, &d), "fd=%s", opened(d.handle.fd));
	memset(&b, 0, sizeof(b));
	b.size = G;
	if (m)
		T("buffer", cuExternalMemoryGetMappedBuffer(&p, m, &b));
	if (!p)
		return;
	attributes_of(p);
	T("fill", cuMemsetD8(p, 3, G));
	T("sync", cuCtxSynchronize());
	cuCtxSetCurrent(ctx[1]);
	T("fill_there", cuMemsetD8(p, 3, G));
	T("sync_there", cuCtxSynchronize());
	T("free_there", cuMemFree(p));
	cuCtxSetCurrent(g_ctx);
	T("free", cuMemFree(p));
}
