// SPDX-License-Identifier: GPL-2.0
/*
 * Cases of the runtime API: batches of copies, external memory and semaphores, and wrong arguments of functions
 * for managed memory.
 *
 * The driver's cases have the rules (public_batch.c, public_extmem.c).  These ask what the runtime checks itself,
 * and how it translates the driver's results.
 */
#include "rt.h"
#include <cuda.h>

#define UNTOUCHED ((void *)0x77)
#define G MiB(2)

static const char *out(const void *p)
{
	return p == UNTOUCHED ? "untouched" : p ? "other" : "null";
}

GROUP(rt_batch)
{
	enum { N = 3 };
	void *dst[N], *zero[N] = { NULL };
	const void *src[N];
	size_t sz[N] = { 1000, 2000, 3000 }, z0[N] = { 1000, 0, 10 }, ix[N] = { 0, 1, 2 }, bad_ix[2] = { 1, 2 };
	struct cudaMemcpyAttributes at[N], bad;
	struct cudaMemLocation l;
	cudaStream_t s;
	void *ph;
	unsigned char *pg = malloc(8192);

	RTREQ(cudaStreamCreate(&s));
	RTREQ(cudaMallocHost(&ph, 8192));
	for (int i = 0; i < N; i++) {
		RTREQ(cudaMalloc(&dst[i], 8192));
		cudaMemset(dst[i], 0, 8192);
	}
	fill(ph, 8192, 1);
	fill(pg, 8192, 2);
	src[0] = ph;
	src[1] = pg;
	src[2] = dst[0];
	memset(at, 0, sizeof(at));
	for (int i = 0; i < N; i++)
		at[i].srcAccessOrder = cudaMemcpySrcAccessOrderStream;
	RT("plain", cudaMemcpyBatchAsync(dst, src, sz, 2, at, ix, 1, s));
	RT("sync", cudaStreamSynchronize(s));
	emit("data", "%s %s", rtsame(dst[0], 1000, 1), rtsame(dst[1], 2000, 2));
	RT("null_stream", cudaMemcpyBatchAsync(dst, src, sz, 2, at, ix, 1, 0));
	RT("legacy_stream", cudaMemcpyBatchAsync(dst, src, sz, 2, at, ix, 1, cudaStreamLegacy));
	RT("per_thread_stream", cudaMemcpyBatchAsync(dst, src, sz, 2, at, ix, 1, cudaStreamPerThread));
	RT("count_0", cudaMemcpyBatchAsync(dst, src, sz, 0, at, ix, 1, s));
	RT("count_0_all_null", cudaMemcpyBatchAsync(NULL, NULL, NULL, 0, NULL, NULL, 0, s));
	RT("dsts_null", cudaMemcpyBatchAsync(NULL, src, sz, 2, at, ix, 1, s));
	RT("srcs_null", cudaMemcpyBatchAsync(dst, NULL, sz, 2, at, ix, 1, s));
	RT("sizes_null", cudaMemcpyBatchAsync(dst, src, NULL, 2, at, ix, 1, s));
	RT("attrs_null", cudaMemcpyBatchAsync(dst, src, sz, 2, NULL, ix, 1, s));
	RT("indices_null", cudaMemcpyBatchAsync(dst, src, sz, 2, at, NULL, 1, s));
	RT("attrs_0", cudaMemcpyBatchAsync(dst, src, sz, 2, at, ix, 0, s));
	RT("attrs_3_of_2", cudaMemcpyBatchAsync(dst, src, sz, 2, at, ix, 3, s));
	RT("first_index_1", cudaMemcpyBatchAsync(dst, src, sz, 2, at, bad_ix, 1, s));
	RT("size_0", cudaMemcpyBatchAsync(dst, src, z0, 2, at, ix, 1, s));
	RT("dst_null", cudaMemcpyBatchAsync(zero, src, sz, 2, at, ix, 1, s));
	RT("src_null", cudaMemcpyBatchAsync(dst, (const void *const *)zero, sz, 2, at, ix, 1, s));
	bad = at[0]; bad.srcAccessOrder = 0; RT("order_0", cudaMemcpyBatchAsync(dst, src, sz, 2, &bad, ix, 1, s));
	bad = at[0]; bad.flags = 2; RT("flags_2", cudaMemcpyBatchAsync(dst, src, sz, 2, &bad, ix, 1, s));
	bad = at[0]; bad.srcLocHint.type = 77; RT("hint_77", cudaMemcpyBatchAsync(dst, src, sz, 2, &bad, ix, 1, s));
	RT("after", cudaStreamSynchronize(s));
	RT("lasterror", cudaGetLastError());

	void *m;
	RTREQ(cudaMallocManaged(&m, MiB(4), cudaMemAttachGlobal));
	memset(&l, 0, sizeof(l));
	l.type = cudaMemLocationTypeDevice;
	RT("prefetch", cudaMemPrefetchAsync(m, MiB(4), l, 0, s));
	RT("prefetch_flags_1", cudaMemPrefetchAsync(m, MiB(4), l, 1, s));
	RT("prefetch_size_0", cudaMemPrefetchAsync(m, 0, l, 0, s));
	RT("prefetch_null", cudaMemPrefetchAsync(NULL, MiB(4), l, 0, s));
	RT("prefetch_device_memory", cudaMemPrefetchAsync(dst[0], 8192, l, 0, s));
	RT("prefetch_host_memory", cudaMemPrefetchAsync(ph, 8192, l, 0, s));
	l.id = 9; RT("prefetch_device_9", cudaMemPrefetchAsync(m, MiB(4), l, 0, s));
	l.id = 0; l.type = 0; RT("prefetch_type_0", cudaMemPrefetchAsync(m, MiB(4), l, 0, s));
	l.type = 77; RT("prefetch_type_77", cudaMemPrefetchAsync(m, MiB(4), l, 0, s));
	l.type = cudaMemLocationTypeHost; RT("prefetch_host", cudaMemPrefetchAsync(m, MiB(4), l, 0, s));
	l.type = cudaMemLocationTypeHostNuma; RT("prefetch_numa", cudaMemPrefetchAsync(m, MiB(4), l, 0, s));
	l.type = cudaMemLocationTypeDevice;
	for (int a = 0; a <= 7; a++)
		RT(F("advise_%d", a), cudaMemAdvise(m, MiB(4), a, l));
	RT("advise_null", cudaMemAdvise(NULL, MiB(4), 1, l));
	RT("advise_device_memory", cudaMemAdvise(dst[0], 8192, 1, l));
	int v = 7;
	for (int a = 0; a <= 9; a++)
		RTF(F("range_attr_%d", a), cudaMemRangeGetAttribute(&v, sizeof(v), a, m, MiB(4)), "%d", v);
	RT("range_attr_size_0", cudaMemRangeGetAttribute(&v, 0, 1, m, MiB(4)));
	RT("range_attr_null", cudaMemRangeGetAttribute(NULL, sizeof(v), 1, m, MiB(4)));
	RT("range_attr_ptr_null", cudaMemRangeGetAttribute(&v, sizeof(v), 1, NULL, MiB(4)));
	RT("range_attrs_null", cudaMemRangeGetAttributes(NULL, NULL, NULL, 0, m, MiB(4)));
	RT("sync_end", cudaStreamSynchronize(s));
}

static struct cudaMemcpy3DBatchOp op3(void *d, void *s, size_t w, size_t h, size_t z)
{
	struct cudaMemcpy3DBatchOp o;

	memset(&o, 0, sizeof(o));
	o.src.type = o.dst.type = cudaMemcpyOperandTypePointer;
	o.src.op.ptr.ptr = s;
	o.dst.op.ptr.ptr = d;
	o.extent = (struct cudaExtent){ w, h, z };
	o.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
	return o;
}

#define BOX(id, change) do { struct cudaMemcpy3DBatchOp o = op3(b, a, 100, 10, 3); change; RT(id, cudaMemcpy3DBatchAsync(1, &o, 0, s)); } while (0)

GROUP(rt_batch_3d)
{
	struct cudaChannelFormatDesc c = { 8, 8, 0, 0, cudaChannelFormatKindUnsigned };
	struct cudaMemcpy3DBatchOp op[2];
	cudaArray_t arr;
	cudaStream_t s;
	void *a, *b;

	RTREQ(cudaStreamCreate(&s));
	RTREQ(cudaMalloc(&a, 65536));
	RTREQ(cudaMalloc(&b, 65536));
	RTREQ(rtfill(a, 65536, 4));
	RTREQ(cudaMallocArray(&arr, &c, 50, 20, 0));
	op[0] = op3(b, a, 100, 10, 3);
	RT("plain", cudaMemcpy3DBatchAsync(1, op, 0, s));
	RT("sync", cudaStreamSynchronize(s));
	emit("data", "%s", rtsame(b, 3000, 4));
	op[0] = op3(NULL, a, 50, 20, 1);
	op[0].dst.type = cudaMemcpyOperandTypeArray;
	op[0].dst.op.array.array = arr;
	op[0].dst.op.array.offset = (struct cudaOffset3D){ 0, 0, 0 };
	RT("to_array", cudaMemcpy3DBatchAsync(1, op, 0, s));
	RT("to_array_sync", cudaStreamSynchronize(s));
	unsigned char *r = calloc(1, 2000);
	RT("to_array_read", cudaMemcpy2DFromArray(r, 100, arr, 0, 0, 100, 20, cudaMemcpyDeviceToHost));
	emit("to_array_data", "%d", same(r, 2000, 4));
	op[0].dst.op.array.offset.x = 1;
	RT("to_array_out", cudaMemcpy3DBatchAsync(1, op, 0, s));
	op[0].dst.op.array.array = NULL;
	RT("to_array_null", cudaMemcpy3DBatchAsync(1, op, 0, s));
	op[0] = op3(b, a, 100, 10, 3);
	RT("null_stream", cudaMemcpy3DBatchAsync(1, op, 0, 0));
	RT("per_thread_stream", cudaMemcpy3DBatchAsync(1, op, 0, cudaStreamPerThread));
	RT("flags_1", cudaMemcpy3DBatchAsync(1, op, 1, s));
	RT("count_0", cudaMemcpy3DBatchAsync(0, op, 0, s));
	RT("null", cudaMemcpy3DBatchAsync(1, NULL, 0, s));
	RT("count_0_null", cudaMemcpy3DBatchAsync(0, NULL, 0, s));
	BOX("src_null", o.src.op.ptr.ptr = NULL);
	BOX("type_0", o.src.type = 0);
	BOX("type_9", o.dst.type = 9);
	BOX("width_0", o.extent.width = 0);
	BOX("order_0", o.srcAccessOrder = 0);
	BOX("op_flags_2", o.flags = 2);
	BOX("row_99", o.src.op.ptr.rowLength = 99);
	RT("after", cudaStreamSynchronize(s));
	RT("lasterror", cudaGetLastError());
}

static int exported(size_t n)
{
	CUmemGenericAllocationHandle h = 0;
	CUmemAllocationProp p;
	int fd = -1;

	memset(&p, 0, sizeof(p));
	p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	MUST(cuMemCreate(&h, n, &p, 0));
	MUST(cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	MUST(cuMemRelease(h));
	return fd;
}

static struct cudaExternalMemoryHandleDesc memory(int type, int fd, size_t n)
{
	struct cudaExternalMemoryHandleDesc d;

	memset(&d, 0, sizeof(d));
	d.type = type;
	d.handle.fd = fd;
	d.size = n;
	return d;
}

GROUP(rt_external_memory)
{
	struct cudaExternalMemoryHandleDesc d;
	struct cudaExternalMemoryBufferDesc b;
	struct cudaExternalMemoryMipmappedArrayDesc md;
	struct cudaPointerAttributes pa;
	cudaExternalMemory_t m = UNTOUCHED;
	cudaMipmappedArray_t mip = UNTOUCHED;
	void *p = UNTOUCHED, *q = UNTOUCHED;

	RTREQ(cudaFree(NULL));
	d = memory(cudaExternalMemoryHandleTypeOpaqueFd, exported(2 * G), 2 * G);
	RTF("import", cudaImportExternalMemory(&m, &d), "fd=%s out=%s", opened(d.handle.fd), out(m));
	memset(&b, 0, sizeof(b));
	b.size = 2 * G;
	RTF("buffer", cudaExternalMemoryGetMappedBuffer(&p, m, &b), "out=%s", out(p));
	RT("fill", cudaMemset(p, 4, 2 * G));
	memset(&pa, 0, sizeof(pa));
	RTF("attributes", cudaPointerGetAttributes(&pa, p), "type=%d device=%d", (int)pa.type, pa.device);
	b.offset = 4096;
	b.size = 4096;
	RTF("buffer_inside", cudaExternalMemoryGetMappedBuffer(&q, m, &b), "out=%s", out(q));
	b.size = 3 * G;
	q = UNTOUCHED; RTF("buffer_too_long", cudaExternalMemoryGetMappedBuffer(&q, m, &b), "out=%s", out(q));
	b.size = 0;
	q = UNTOUCHED; RTF("buffer_size_0", cudaExternalMemoryGetMappedBuffer(&q, m, &b), "out=%s", out(q));
	b.size = 4096; b.flags = 1;
	q = UNTOUCHED; RTF("buffer_flags_1", cudaExternalMemoryGetMappedBuffer(&q, m, &b), "out=%s", out(q));
	b.flags = 0;
	RT("buffer_null_out", cudaExternalMemoryGetMappedBuffer(NULL, m, &b));
	RT("buffer_null_desc", cudaExternalMemoryGetMappedBuffer(&q, m, NULL));
	RT("buffer_null_memory", cudaExternalMemoryGetMappedBuffer(&q, NULL, &b));
	memset(&md, 0, sizeof(md));
	md.formatDesc = (struct cudaChannelFormatDesc){ 8, 8, 8, 8, cudaChannelFormatKindUnsigned };
	md.extent = (struct cudaExtent){ 256, 256, 0 };
	md.numLevels = 1;
	RTF("mip", cudaExternalMemoryGetMappedMipmappedArray(&mip, m, &md), "out=%s", out(mip));
	RT("mip_free", cudaFreeMipmappedArray(mip));
	md.numLevels = 0;
	RT("mip_levels_0", cudaExternalMemoryGetMappedMipmappedArray(&mip, m, &md));
	md.numLevels = 1; md.formatDesc.f = 99; mip = UNTOUCHED;
	RTF("mip_bad_kind", cudaExternalMemoryGetMappedMipmappedArray(&mip, m, &md), "out=%s", out(mip));
	md.formatDesc.f = cudaChannelFormatKindUnsigned; md.offset = 100; mip = UNTOUCHED;
	RTF("mip_offset_100", cudaExternalMemoryGetMappedMipmappedArray(&mip, m, &md), "out=%s", out(mip));
	md.offset = 0; md.extent.width = 4096; md.extent.height = 4096; mip = UNTOUCHED;
	RTF("mip_too_large", cudaExternalMemoryGetMappedMipmappedArray(&mip, m, &md), "out=%s", out(mip));
	md.extent.width = 0; mip = UNTOUCHED;
	RTF("mip_width_0", cudaExternalMemoryGetMappedMipmappedArray(&mip, m, &md), "out=%s", out(mip));
	md.extent.width = 256; md.extent.height = 256;
	RT("mip_null_out", cudaExternalMemoryGetMappedMipmappedArray(NULL, m, &md));
	RT("mip_null_desc", cudaExternalMemoryGetMappedMipmappedArray(&mip, m, NULL));
	RT("mip_null_memory", cudaExternalMemoryGetMappedMipmappedArray(&mip, NULL, &md));
	RT("destroy", cudaDestroyExternalMemory(m));
	RT("fill_after_destroy", cudaMemset(p, 5, 2 * G));
	RT("free_buffer", cudaFree(p));
	RT("destroy_null", cudaDestroyExternalMemory(NULL));
	m = UNTOUCHED; RTF("null_desc", cudaImportExternalMemory(&m, NULL), "out=%s", out(m));
	d = memory(cudaExternalMemoryHandleTypeOpaqueFd, exported(2 * G), 2 * G);
	RTF("null_out", cudaImportExternalMemory(NULL, &d), "fd=%s", opened(d.handle.fd));
	d.size = 0;
	m = UNTOUCHED; RTF("size_0", cudaImportExternalMemory(&m, &d), "out=%s", out(m));
	d = memory(cudaExternalMemoryHandleTypeOpaqueFd, exported(2 * G), 4 * G);
	m = UNTOUCHED; RTF("size_too_large", cudaImportExternalMemory(&m, &d), "out=%s", out(m));
	for (int t = 0; t <= 10; t++) {
		d = memory(t, open("/dev/null", O_RDWR), G);
		m = UNTOUCHED;
		RTF(F("devnull_type_%d", t), cudaImportExternalMemory(&m, &d), "fd=%s out=%s", opened(d.handle.fd), out(m));
	}
	d = memory(cudaExternalMemoryHandleTypeOpaqueFd, exported(2 * G), 2 * G);
	d.flags = 2;
	RT("flags_2", cudaImportExternalMemory(&m, &d));
	d = memory(cudaExternalMemoryHandleTypeOpaqueFd, exported(2 * G), 2 * G);
	d.flags = cudaExternalMemoryDedicated;
	RT("dedicated", cudaImportExternalMemory(&m, &d));
	d = memory(cudaExternalMemoryHandleTypeOpaqueFd, exported(2 * G), 2 * G);
	d.reserved[0] = 1;
	RT("reserved_1", cudaImportExternalMemory(&m, &d));
	d = memory(cudaExternalMemoryHandleTypeOpaqueFd, -1, 2 * G);
	RT("fd_minus_1", cudaImportExternalMemory(&m, &d));
}

GROUP(rt_external_semaphore)
{
	struct cudaExternalSemaphoreHandleDesc d;
	struct cudaExternalSemaphoreSignalParams sp;
	struct cudaExternalSemaphoreWaitParams wp;
	cudaExternalSemaphore_t x = UNTOUCHED, list[1] = { NULL };
	cudaStream_t s;

	memset(&sp, 0, sizeof(sp));
	memset(&wp, 0, sizeof(wp));
	RTREQ(cudaStreamCreate(&s));
	for (int t = 0; t <= 11; t++) {
		memset(&d, 0, sizeof(d));
		d.type = t;
		d.handle.fd = open("/dev/null", O_RDWR);
		x = UNTOUCHED;
		RTF(F("devnull_type_%d", t), cudaImportExternalSemaphore(&x, &d), "fd=%s out=%s", opened(d.handle.fd), out(x));
	}
	memset(&d, 0, sizeof(d));
	d.type = cudaExternalSemaphoreHandleTypeOpaqueFd;
	d.handle.fd = -1;
	RT("fd_minus_1", cudaImportExternalSemaphore(&x, &d));
	d.flags = 1;
	RT("flags_1", cudaImportExternalSemaphore(&x, &d));
	RT("null_out", cudaImportExternalSemaphore(NULL, &d));
	RT("null_desc", cudaImportExternalSemaphore(&x, NULL));
	RT("destroy_null", cudaDestroyExternalSemaphore(NULL));
	RT("signal_none", cudaSignalExternalSemaphoresAsync(list, &sp, 0, s));
	RT("signal_null", cudaSignalExternalSemaphoresAsync(NULL, &sp, 1, s));
	RT("signal_null_params", cudaSignalExternalSemaphoresAsync(list, NULL, 1, s));
	RT("wait_none", cudaWaitExternalSemaphoresAsync(list, &wp, 0, s));
	RT("wait_null", cudaWaitExternalSemaphoresAsync(NULL, &wp, 1, s));
	RT("wait_null_params", cudaWaitExternalSemaphoresAsync(list, NULL, 1, s));
	RT("signal_null_semaphore", cudaSignalExternalSemaphoresAsync(list, &sp, 1, s));
	RT("wait_null_semaphore", cudaWaitExternalSemaphoresAsync(list, &wp, 1, s));
}

GROUP(rt_register)
{
	unsigned char *h = halloc(MiB(1));
	void *d = NULL;
	unsigned int f = 77;

	RTREQ(cudaFree(NULL));
	for (unsigned int i = 0; i <= 0x20; i = i ? i << 1 : 1) {
		f = 77;
		RTF(F("flags_%#x", i), cudaHostRegister(h, MiB(1), i), "got=%#x", (cudaHostGetFlags(&f, h), f));
		cudaHostUnregister(h);
		cudaGetLastError();
	}
	RT("null", cudaHostRegister(NULL, 4096, 0));
	RT("size_0", cudaHostRegister(h, 0, 0));
	RT("register", cudaHostRegister(h, MiB(1), 0));
	RT("twice", cudaHostRegister(h, MiB(1), 0));
	RTF("device_pointer", cudaHostGetDevicePointer(&d, h + 100, 0), "same=%d", d == h + 100);
	RT("device_pointer_flags_1", cudaHostGetDevicePointer(&d, h, 1));
	RT("device_pointer_null", cudaHostGetDevicePointer(NULL, h, 0));
	RT("unregister_inside", cudaHostUnregister(h + 4096));
	RT("unregister", cudaHostUnregister(h));
	RT("unregister_twice", cudaHostUnregister(h));
	RT("unregister_null", cudaHostUnregister(NULL));
	RT("flags_of_stack", cudaHostGetFlags(&f, &f));
	RT("flags_null", cudaHostGetFlags(NULL, h));
	hfree(h, MiB(1));
}
