// SPDX-License-Identifier: GPL-2.0
/*
 * Cases of external memory and semaphores.
 *
 * - Which file descriptors can be imported: those of cuMemExportToShareableHandle, DMA-bufs, others?
 * - Does the driver close the descriptor when an import succeeds, and when it fails?
 * - Which sizes, offsets and flags do imports, mapped buffers and mapped mipmapped arrays take?
 * - Is a mapped buffer valid after its external memory was destroyed?  What do other functions answer for it?
 * - Which arguments of semaphores are refused?
 */
#include "oracle.h"

/* the granularity of device memory */
#define G MiB(2)
/* what an output argument holds before the call */
#define UNTOUCHED ((void *)0x77)

/* A descriptor of @n bytes of device memory. */
static int exported(size_t n)
{
	CUmemGenericAllocationHandle h = 0;
	CUmemAllocationProp p;
	int fd = -1;

	memset(&p, 0, sizeof(p));
	p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	p.location.id = g_dev;
	MUST(cuMemCreate(&h, n, &p, 0));
	MUST(cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	MUST(cuMemRelease(h));
	return fd;
}

static int devnull(void)
{
	return open("/dev/null", O_RDWR);
}

static CUDA_EXTERNAL_MEMORY_HANDLE_DESC memory(int type, int fd, size_t n)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d;

	memset(&d, 0, sizeof(d));
	d.type = type;
	d.handle.fd = fd;
	d.size = n;
	return d;
}

static const char *output(const void *out)
{
	return out == UNTOUCHED ? "untouched" : out ? "other" : "zero";
}

static CUDA_EXTERNAL_MEMORY_HANDLE_DESC opaque(size_t n)
{
	return memory(CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, exported(n), n);
}

GROUP(ext_memory)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d;
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC b;
	CUexternalMemory m = NULL;
	CUdeviceptr p = 0, q = 0, base = 0;
	CUipcMemHandle ipc;
	unsigned v = 0;
	size_t n = 0;
	int dma = -1;

	init_ctx();
	d = opaque(2 * G);
	memset(&b, 0, sizeof(b));
	b.size = 2 * G;
	TF("import", cuImportExternalMemory(&m, &d), "fd=%s", opened(d.handle.fd));
	T("buffer", cuExternalMemoryGetMappedBuffer(&p, m, &b));
	T("buffer_twice", cuExternalMemoryGetMappedBuffer(&q, m, &b));
	emit("buffer_twice_same", "%d", p == q);
	TF("range", cuMemGetAddressRange(&base, &n, p + 100), "base=%s size=%s", prel(base, p), rel(n, 2 * G));
	TF("memory_type", cuPointerGetAttribute(&v, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p), "%u", v);
	T("fill", cuMemsetD8(p, 4, 2 * G));
	emit("other_sees", "%s", dbyte(q, 2 * G, 4));
	b.offset = 4096;
	b.size = 4096;
	T("buffer_inside", cuExternalMemoryGetMappedBuffer(&q, m, &b));
	b.offset = 100;
	T("buffer_offset_100", cuExternalMemoryGetMappedBuffer(&q, m, &b));
	b.offset = 0;
	b.size = 0;
	T("buffer_size_0", cuExternalMemoryGetMappedBuffer(&q, m, &b));
	b.size = 3 * G;
	T("buffer_too_long", cuExternalMemoryGetMappedBuffer(&q, m, &b));
	b.size = G;
	b.flags = 1;
	T("buffer_flags_1", cuExternalMemoryGetMappedBuffer(&q, m, &b));
	b.flags = 0;
	T("buffer_null_out", cuExternalMemoryGetMappedBuffer(NULL, m, &b));
	T("buffer_null_desc", cuExternalMemoryGetMappedBuffer(&q, m, NULL));
	T("buffer_null_memory", cuExternalMemoryGetMappedBuffer(&q, NULL, &b));
	T("ipc", cuIpcGetMemHandle(&ipc, p));
	T("dmabuf", cuMemGetHandleForAddressRange(&dma, p, G, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	T("destroy_before_free", cuDestroyExternalMemory(m));
	T("fill_after_destroy", cuMemsetD8(p, 4, G));
	T("free_buffer", cuMemFree(p));
}

/* Descriptors that do not come from cuMemExportToShareableHandle. */
GROUP(ext_descriptors)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d;
	CUexternalMemory m = NULL;
	CUdeviceptr p;
	int fd = -1;

	init_ctx();
	p = dalloc(2 * G);
	REQ(cuMemGetHandleForAddressRange(&fd, p, 2 * G, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	d = memory(CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD, fd, 2 * G);
	TF("dmabuf", cuImportExternalMemory(&m, &d), "fd=%s", opened(fd));
	d = memory(CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, fd, 2 * G);
	TF("dmabuf_as_opaque", cuImportExternalMemory(&m, &d), "fd=%s", opened(fd));
	for (int t = 0; t <= 10; t++) {
		d = memory(t, devnull(), 2 * G);
		m = UNTOUCHED;
		TF(F("devnull_type_%d", t), cuImportExternalMemory(&m, &d), "fd=%s out=%s", opened(d.handle.fd),
		   output(m));
	}
	d = memory(CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, -1, 2 * G);
	T("opaque_minus_1", cuImportExternalMemory(&m, &d));
	d = memory(CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD, -1, 2 * G);
	T("dmabuf_minus_1", cuImportExternalMemory(&m, &d));
}

/* The other arguments of an import. */
GROUP(ext_arguments)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d;
	CUexternalMemory m = NULL;

	init_ctx();
	T("destroy_null", cuDestroyExternalMemory(NULL));
	T("null_desc", cuImportExternalMemory(&m, NULL));
	d = opaque(2 * G);
	d.size = 0;
	TF("size_0", cuImportExternalMemory(&m, &d), "fd=%s", opened(d.handle.fd));
	d = opaque(2 * G);
	d.size = 4 * G;
	T("size_too_large", cuImportExternalMemory(&m, &d));
	d = opaque(2 * G);
	d.size = G;
	T("size_half", cuImportExternalMemory(&m, &d));
	d = opaque(2 * G);
	TF("null_out", cuImportExternalMemory(NULL, &d), "fd=%s", opened(d.handle.fd));
	d = opaque(2 * G);
	TNOCTX("no_ctx", cuImportExternalMemory(&m, &d));
	d = opaque(2 * G);
	d.flags = 2;
	TF("flags_2", cuImportExternalMemory(&m, &d), "fd=%s", opened(d.handle.fd));
	d = opaque(2 * G);
	d.flags = CUDA_EXTERNAL_MEMORY_DEDICATED;
	T("dedicated", cuImportExternalMemory(&m, &d));
	d = opaque(2 * G);
	d.reserved[0] = 1;
	TF("reserved_1", cuImportExternalMemory(&m, &d), "fd=%s", opened(d.handle.fd));
}

GROUP(ext_mipmap)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d;
	CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC a;
	CUexternalMemory m = NULL;
	CUmipmappedArray mip = NULL;
	CUarray level = NULL;

	init_ctx();
	d = opaque(16 * G);
	REQ(cuImportExternalMemory(&m, &d));
	memset(&a, 0, sizeof(a));
	a.arrayDesc.Width = 256;
	a.arrayDesc.Height = 256;
	a.arrayDesc.Format = CU_AD_FORMAT_UNSIGNED_INT8;
	a.arrayDesc.NumChannels = 4;
	a.numLevels = 1;
	T("one_level", cuExternalMemoryGetMappedMipmappedArray(&mip, m, &a));
	T("level_0", cuMipmappedArrayGetLevel(&level, mip, 0));
	T("destroy", cuMipmappedArrayDestroy(mip));
	a.numLevels = 5;
	T("five_levels", cuExternalMemoryGetMappedMipmappedArray(&mip, m, &a));
	a.numLevels = 0;
	T("no_level", cuExternalMemoryGetMappedMipmappedArray(&mip, m, &a));
	a.numLevels = 1;
	a.offset = 100;
	T("offset_100", cuExternalMemoryGetMappedMipmappedArray(&mip, m, &a));
	a.offset = 16 * G;
	T("offset_at_end", cuExternalMemoryGetMappedMipmappedArray(&mip, m, &a));
	a.offset = 0;
	a.arrayDesc.Width = 1 << 14;
	a.arrayDesc.Height = 1 << 14;
	T("too_large", cuExternalMemoryGetMappedMipmappedArray(&mip, m, &a));
	T("null_desc", cuExternalMemoryGetMappedMipmappedArray(&mip, m, NULL));
	T("null_out", cuExternalMemoryGetMappedMipmappedArray(NULL, m, &a));
	T("destroy_memory", cuDestroyExternalMemory(m));
}

GROUP(ext_semaphore)
{
	CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC d;
	CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS sp;
	CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wp;
	CUexternalSemaphore s = NULL;

	init_ctx();
	memset(&sp, 0, sizeof(sp));
	memset(&wp, 0, sizeof(wp));
	emit("attribute", "%d", dev_attr(CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED));
	for (int t = 0; t <= 11; t++) {
		memset(&d, 0, sizeof(d));
		d.type = t;
		d.handle.fd = devnull();
		s = UNTOUCHED;
		TF(F("devnull_type_%d", t), cuImportExternalSemaphore(&s, &d), "fd=%s out=%s", opened(d.handle.fd),
		   output(s));
	}
	memset(&d, 0, sizeof(d));
	d.type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD;
	d.handle.fd = -1;
	T("opaque_minus_1", cuImportExternalSemaphore(&s, &d));
	d.type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD;
	T("timeline_minus_1", cuImportExternalSemaphore(&s, &d));
	d.handle.fd = devnull();
	d.flags = 1;
	T("flags_1", cuImportExternalSemaphore(&s, &d));
	d.flags = 0;
	T("null_out", cuImportExternalSemaphore(NULL, &d));
	T("null_desc", cuImportExternalSemaphore(&s, NULL));
	TNOCTX("no_ctx", cuImportExternalSemaphore(&s, &d));
	T("destroy_null", cuDestroyExternalSemaphore(NULL));
	s = NULL;
	T("signal_count_0", cuSignalExternalSemaphoresAsync(&s, &sp, 0, 0));
	T("signal_null_list", cuSignalExternalSemaphoresAsync(NULL, &sp, 1, 0));
	T("signal_null_params", cuSignalExternalSemaphoresAsync(&s, NULL, 1, 0));
	T("wait_count_0", cuWaitExternalSemaphoresAsync(&s, &wp, 0, 0));
	T("wait_null_list", cuWaitExternalSemaphoresAsync(NULL, &wp, 1, 0));
	T("wait_null_params", cuWaitExternalSemaphoresAsync(&s, NULL, 1, 0));
}

/* ------------------------------------------------------ invalid handles */
static CUexternalSemaphore no_semaphore;
static CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal_params;
static CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait_params;

RISKY(ext_signal_null, cuSignalExternalSemaphoresAsync(&no_semaphore, &signal_params, 1, 0))
RISKY(ext_wait_null, cuWaitExternalSemaphoresAsync(&no_semaphore, &wait_params, 1, 0))
RISKY(ext_destroy_garbage, cuDestroyExternalMemory((CUexternalMemory)0x1234))

static CUexternalMemory destroyed(void)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d = opaque(G);
	CUexternalMemory m = NULL;

	MUST(cuImportExternalMemory(&m, &d));
	MUST(cuDestroyExternalMemory(m));
	return m;
}

RISKY(ext_destroy_twice, cuDestroyExternalMemory(destroyed()))
