// SPDX-License-Identifier: GPL-2.0
/*
 * External memory and semaphores: who owns a descriptor, what a mapped buffer can do and how long it
 * lives, and the order that semaphores give to streams of one process and of two.
 *
 * A test with two processes forks before it initializes the library.
 */
#include <fcntl.h>
#include <gpumem.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "kselftest_harness.h"
#include "cuda_util.h"
#include "array_util.h"
#include "common/exporters.h"

FIXTURE(external)
{
	CUcontext ctx;
	CUstream a, b;
};

FIXTURE_SETUP(external)
{
	cuda_begin(_metadata, &self->ctx);
	ASSERT_CU(cuStreamCreate(&self->a, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuStreamCreate(&self->b, CU_STREAM_NON_BLOCKING));
}

QUIET_AFTERWARDS(external)

/* --- memory */

static CUDA_EXTERNAL_MEMORY_HANDLE_DESC memory_desc(int type, int fd, size_t n)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d;

	memset(&d, 0, sizeof(d));
	d.type = type;
	d.handle.fd = fd;
	d.size = n;
	return d;
}

/* A descriptor of 2 MiB of device memory that nothing else holds; -1 if a call fails. */
static int handle_fd(void)
{
	CUmemAllocationProp prop;
	CUmemGenericAllocationHandle h;
	CUresult result;
	int fd;

	memset(&prop, 0, sizeof(prop));
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	if (cuMemCreate(&h, 2 * MIB, &prop, 0))
		return -1;
	result = cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
	return cuMemRelease(h) || result ? -1 : fd;
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* Maps a part twice, and looks at what the other address shows. */
static void use_memory(struct __test_metadata *_metadata, CUexternalMemory m, size_t n)
{
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC b;
	CUdeviceptr p, q, part, base;
	size_t size;
	unsigned char byte = 0;
	CUipcMemHandle ipc;
	int fd;

	memset(&b, 0, sizeof(b));
	b.size = n;
	ASSERT_CU(cuExternalMemoryGetMappedBuffer(&p, m, &b));
	ASSERT_CU(cuExternalMemoryGetMappedBuffer(&q, m, &b));
	EXPECT_NE(p, q);
	EXPECT_CU(cuMemGetAddressRange(&base, &size, p + 10));
	EXPECT_EQ(p, base);
	EXPECT_EQ(n, size);
	b.offset = 4097;
	b.size = 100;
	ASSERT_CU(cuExternalMemoryGetMappedBuffer(&part, m, &b));
	EXPECT_CU(cuMemsetD8(p, 7, n));
	EXPECT_CU(cuMemsetD8(part, 9, 100));
	EXPECT_CU(cuMemcpyDtoH(&byte, q + 4096, 1));
	EXPECT_EQ(7, byte);
	EXPECT_CU(cuMemcpyDtoH(&byte, q + 4097, 1));
	EXPECT_EQ(9, byte);
	EXPECT_CU(cuMemcpyDtoH(&byte, q + 4196, 1));
	EXPECT_EQ(9, byte);
	EXPECT_CU(cuMemcpyDtoH(&byte, q + 4197, 1));
	EXPECT_EQ(7, byte);
	b.offset = n - 50;
	EXPECT_EQ(INVALID, cuExternalMemoryGetMappedBuffer(&base, m, &b));
	b.offset = ~0ULL;
	EXPECT_EQ(INVALID, cuExternalMemoryGetMappedBuffer(&base, m, &b));
	EXPECT_EQ(INVALID, cuIpcGetMemHandle(&ipc, p));
	EXPECT_EQ(INVALID, cuIpcCloseMemHandle(p));
	EXPECT_EQ(INVALID, gpumem_release_dmabuf(p));
	EXPECT_EQ(INVALID, cuMemGetHandleForAddressRange(&fd, p, 4096,
							 CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	/* The buffers outlive the external memory. */
	EXPECT_CU(cuDestroyExternalMemory(m));
	EXPECT_EQ(INVALID, cuDestroyExternalMemory(m));
	EXPECT_EQ(INVALID, cuExternalMemoryGetMappedBuffer(&base, m, &b));
	EXPECT_CU(cuMemFree(q));
	EXPECT_EQ(INVALID, cuMemFree(q));
	EXPECT_EQ(INVALID, cuMemFree(part + 1));
	EXPECT_CU(cuMemFree(part));
	EXPECT_CU(cuMemsetD8(p, 8, n));
	EXPECT_CU(cuMemcpyDtoH(&byte, p + n - 1, 1));
	EXPECT_EQ(8, byte);
	EXPECT_CU(cuMemFree(p));
}

TEST_F(external, handle)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d;
	CUexternalMemory m;
	int fds = count_fds(), fd = handle_fd();

	ASSERT_LE(0, fd);
	d = memory_desc(CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, fd, 2 * MIB);
	ASSERT_CU(cuImportExternalMemory(&m, &d));
	EXPECT_FALSE(is_open(fd));
	use_memory(_metadata, m, 2 * MIB);
	EXPECT_EQ(fds, count_fds());
}

/* A failing import closes a descriptor that is no handle, and no other. */
TEST_F(external, descriptors)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d;
	CUexternalMemory m;
	int fd = open("/dev/null", O_RDWR);

	d = memory_desc(CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD, fd, 4096);
	EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cuImportExternalMemory(&m, &d));
	d.type = CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD;
	d.size = 0;
	EXPECT_EQ(INVALID, cuImportExternalMemory(&m, &d));
	EXPECT_TRUE(is_open(fd));
	d.size = 4096;
	EXPECT_EQ(CUDA_ERROR_UNKNOWN, cuImportExternalMemory(&m, &d));
	EXPECT_FALSE(is_open(fd));
}

/* The end of a context frees its external memories at once, and the buffers that it has. */
TEST_F(external, context_ends)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d;
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC b;
	CUexternalMemory m[3], stays;
	CUdeviceptr p, q;
	CUcontext ctx;
	int fds;

	d = memory_desc(CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, handle_fd(), 2 * MIB);
	ASSERT_CU(cuImportExternalMemory(&stays, &d));
	fds = count_fds();
	ASSERT_CU(cuCtxCreate(&ctx, NULL, 0, 0));
	for (int i = 0; i < 3; i++) {
		d.handle.fd = handle_fd();
		ASSERT_CU(cuImportExternalMemory(&m[i], &d));
	}
	EXPECT_EQ(fds + 3, count_fds());
	memset(&b, 0, sizeof(b));
	b.size = MIB;
	ASSERT_CU(cuExternalMemoryGetMappedBuffer(&p, m[0], &b));
	ASSERT_CU(cuExternalMemoryGetMappedBuffer(&q, stays, &b));
	EXPECT_CU(cuDestroyExternalMemory(m[1]));
	ASSERT_CU(cuCtxDestroy(ctx));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_EQ(fds, count_fds());
	EXPECT_EQ(INVALID, cuMemFree(p));
	EXPECT_EQ(INVALID, cuMemFree(q));
	EXPECT_EQ(INVALID, cuDestroyExternalMemory(m[0]));
	EXPECT_EQ(INVALID, cuExternalMemoryGetMappedBuffer(&p, m[2], &b));
	ASSERT_CU(cuExternalMemoryGetMappedBuffer(&q, stays, &b));
	EXPECT_CU(cuMemFree(q));
	EXPECT_CU(cuDestroyExternalMemory(stays));
}

/* A handle that was destroyed is never another one's. */
TEST_F(external, stale_handles)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d;
	CUexternalSemaphore s, t;
	CUexternalMemory m, n;

	d = memory_desc(CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, handle_fd(), 2 * MIB);
	ASSERT_CU(cuImportExternalMemory(&m, &d));
	ASSERT_CU(gpumem_create_semaphore(&s, 0, 0));
	for (int i = 0; i < 10; i++) {
		ASSERT_CU(cuDestroyExternalMemory(m));
		d.handle.fd = handle_fd();
		ASSERT_CU(cuImportExternalMemory(&n, &d));
		EXPECT_EQ(INVALID, cuDestroyExternalMemory(m));
		m = n;
		ASSERT_CU(cuDestroyExternalSemaphore(s));
		ASSERT_CU(gpumem_create_semaphore(&t, 0, 0));
		EXPECT_EQ(INVALID, cuDestroyExternalSemaphore(s));
		s = t;
	}
	EXPECT_EQ(INVALID, cuDestroyExternalMemory((CUexternalMemory)s));
	EXPECT_EQ(INVALID, cuDestroyExternalMemory((CUexternalMemory)&m));
	EXPECT_EQ(INVALID, cuDestroyExternalSemaphore((CUexternalSemaphore)(uintptr_t)~0ull));
	EXPECT_CU(cuDestroyExternalMemory(m));
	EXPECT_CU(cuDestroyExternalSemaphore(s));
}

static int does_nothing(void *arg)
{
	(void)arg;
	pause();
	return 1;
}

/* A forked child cannot use the library, so it must not keep the memory. */
TEST_F(external, forked_child)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d;
	CUexternalMemory m, other;
	pid_t pid;

	d = memory_desc(CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, handle_fd(), 2 * MIB);
	ASSERT_CU(cuImportExternalMemory(&m, &d));
	d = memory_desc(CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, handle_fd(), 2 * MIB);
	ASSERT_CU(cuImportExternalMemory(&other, &d));
	EXPECT_EQ(2, dev_attr(0, "exports"));
	pid = start_child(does_nothing, NULL);
	ASSERT_LT(0, pid);
	EXPECT_CU(cuDestroyExternalMemory(m));
	EXPECT_TRUE(dev_attr_becomes(0, "exports", 1, 5));
	EXPECT_CU(cuDestroyExternalMemory(other));
	EXPECT_TRUE(dev_attr_becomes(0, "exports", 0, 5));
	EXPECT_EQ(-SIGKILL, kill_child(pid));
}

FIXTURE(external_dmabuf)
{
	CUcontext ctx;
};

FIXTURE_VARIANT(external_dmabuf)
{
	int (*make)(void);
};

FIXTURE_VARIANT_ADD(external_dmabuf, udmabuf) { make_udmabuf };
FIXTURE_VARIANT_ADD(external_dmabuf, own) { NULL };

FIXTURE_SETUP(external_dmabuf)
{
	cuda_begin(_metadata, &self->ctx);
}

QUIET_AFTERWARDS(external_dmabuf)

/* A DMA-buf of 1 MiB that @make makes, or without @make one of new memory at *@p. */
static int dmabuf_make(int (*make)(void), CUdeviceptr *p)
{
	int fd;

	if (make)
		return make();
	return cuMemAlloc(p, MIB) || cuMemGetHandleForAddressRange(&fd, *p, MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
								   0) ? -EIO : fd;
}

TEST_F(external_dmabuf, use)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d;
	CUexternalMemory m;
	CUdeviceptr p = 0;
	int fd;

	fd = dmabuf_make(variant->make, &p);
	if (fd == -ENOENT)
		SKIP(return, "no udmabuf");
	ASSERT_LE(0, fd);
	d = memory_desc(CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD, fd, MIB);
	d.flags = CUDA_EXTERNAL_MEMORY_DEDICATED;
	EXPECT_EQ(INVALID, cuImportExternalMemory(&m, &d));
	d.flags = 0;
	ASSERT_CU(cuImportExternalMemory(&m, &d));
	/* The descriptor stays the program's. */
	EXPECT_EQ(0, close(fd));
	use_memory(_metadata, m, MIB);
	if (p)
		EXPECT_CU(cuMemFree(p));
}

/* --- mipmapped arrays */

static CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC array_desc(size_t w, size_t h, unsigned int levels, size_t offset)
{
	CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC a;

	memset(&a, 0, sizeof(a));
	a.offset = offset;
	a.arrayDesc = describe(w, h, 0, U8, 4, 0);
	a.numLevels = levels;
	return a;
}

/* An array of four levels at an odd offset: its levels are apart, and lie inside of its range. */
static void use_mipmap(struct __test_metadata *_metadata, CUexternalMemory m, size_t n)
{
	enum { W = 200, H = 100, LEVELS = 4 };
	CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC a = array_desc(W, H, LEVELS, 1001);
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC b;
	unsigned char *host = malloc(n);
	CUmipmappedArray mipmap;
	CUarray level[LEVELS], more;
	CUdeviceptr p;

	ASSERT_NE(NULL, host);
	memset(&b, 0, sizeof(b));
	b.size = n;
	ASSERT_CU(cuExternalMemoryGetMappedBuffer(&p, m, &b));
	EXPECT_CU(cuMemsetD8(p, 0xee, n));
	ASSERT_CU(cuExternalMemoryGetMappedMipmappedArray(&mipmap, m, &a));
	for (unsigned int i = 0; i < LEVELS; i++) {
		ASSERT_CU(cuMipmappedArrayGetLevel(&level[i], mipmap, i));
		memset(host, i + 1, 4 * W * H);
		EXPECT_CU(write_box(level[i], host, 0, 0, 0, 4 * (W >> i), H >> i, 1));
	}
	EXPECT_EQ(INVALID, cuMipmappedArrayGetLevel(&more, mipmap, LEVELS));
	/* The array outlives the external memory. */
	EXPECT_CU(cuDestroyExternalMemory(m));
	for (unsigned int i = 0; i < LEVELS; i++) {
		EXPECT_CU(read_box(host, level[i], 0, 0, 0, 4 * (W >> i), H >> i, 1));
		EXPECT_TRUE(all_are(host, i + 1, 4 * (W >> i) * (H >> i)));
	}
	EXPECT_CU(cuMemcpyDtoH(host, p, n));
	EXPECT_TRUE(all_are(host, 0xee, 1001) && all_are(host + 1001, 1, 4 * W * H));
	EXPECT_TRUE(all_are(host + 1001 + 2 * 4 * W * H, 0xee, n - 1001 - 2 * 4 * W * H));
	EXPECT_CU(cuMipmappedArrayDestroy(mipmap));
	EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuMipmappedArrayDestroy(mipmap));
	EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, read_box(host, level[0], 0, 0, 0, 4, 1, 1));
	EXPECT_CU(cuMemFree(p));
	free(host);
}

TEST_F(external, mipmap)
{
	CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC a;
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d;
	CUmipmappedArray mipmap;
	CUexternalMemory m;
	int fds = count_fds();
	long long was = used(0);
	size_t exact = 4 * (256 * 256 + 128 * 128 + 64 * 64);

	d = memory_desc(CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, handle_fd(), 2 * MIB);
	ASSERT_CU(cuImportExternalMemory(&m, &d));
	a = array_desc(256, 256, 0, 0);
	EXPECT_EQ(INVALID, cuExternalMemoryGetMappedMipmappedArray(&mipmap, m, &a));
	a = array_desc(256, 256, 3, 2 * MIB - exact + 1);
	EXPECT_EQ(INVALID, cuExternalMemoryGetMappedMipmappedArray(&mipmap, m, &a));
	a.offset = ~0ULL;
	EXPECT_EQ(INVALID, cuExternalMemoryGetMappedMipmappedArray(&mipmap, m, &a));
	a.offset = 0;
	a.reserved[15] = 1;
	EXPECT_EQ(INVALID, cuExternalMemoryGetMappedMipmappedArray(&mipmap, m, &a));
	a.reserved[15] = 0;
	a.arrayDesc.NumChannels = 3;
	EXPECT_EQ(INVALID, cuExternalMemoryGetMappedMipmappedArray(&mipmap, m, &a));
	a.arrayDesc.NumChannels = 4;
	a.arrayDesc.Flags = SPARSE;
	EXPECT_EQ(INVALID, cuExternalMemoryGetMappedMipmappedArray(&mipmap, m, &a));
	a.arrayDesc.Flags = DEFERRED;
	EXPECT_EQ(INVALID, cuExternalMemoryGetMappedMipmappedArray(&mipmap, m, &a));
	a = array_desc(256, 256, 3, 2 * MIB - exact);
	EXPECT_CU(cuExternalMemoryGetMappedMipmappedArray(&mipmap, m, &a));
	EXPECT_CU(cuMipmappedArrayDestroy(mipmap));
	use_mipmap(_metadata, m, 2 * MIB);
	EXPECT_EQ(INVALID, cuExternalMemoryGetMappedMipmappedArray(&mipmap, m, &a));
	EXPECT_EQ(fds, count_fds());
	/* Only staging memory is left. */
	EXPECT_LE(used(0) - was, 2 * (long long)MIB);
}

/* The memory is kept until the array is destroyed, or its context ends. */
TEST_F(external, mipmap_lifetime)
{
	CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC a = array_desc(256, 256, 3, 0);
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d;
	CUmipmappedArray mipmap;
	CUexternalMemory m;
	CUcontext ctx;
	CUdeviceptr p;
	long long was;

	/* Have staging memory. */
	ASSERT_CU(cuMemAlloc(&p, 1));
	d = memory_desc(CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, handle_fd(), 2 * MIB);
	ASSERT_CU(cuImportExternalMemory(&m, &d));
	ASSERT_CU(cuExternalMemoryGetMappedMipmappedArray(&mipmap, m, &a));
	ASSERT_CU(cuMipmappedArrayDestroy(mipmap));
	ASSERT_CU(cuDestroyExternalMemory(m));
	was = used(0);
	for (int end = 0; end < 2; end++) {
		ASSERT_CU(cuCtxCreate(&ctx, NULL, 0, 0));
		d = memory_desc(CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, handle_fd(), 2 * MIB);
		ASSERT_CU(cuImportExternalMemory(&m, &d));
		ASSERT_CU(cuExternalMemoryGetMappedMipmappedArray(&mipmap, m, &a));
		ASSERT_CU(cuDestroyExternalMemory(m));
		EXPECT_EQ(was + 2 * (long long)MIB, used(0));
		if (!end) {
			EXPECT_CU(cuMipmappedArrayDestroy(mipmap));
			EXPECT_EQ(was, used(0));
		}
		EXPECT_CU(cuCtxDestroy(ctx));
		EXPECT_TRUE(dev_attr_becomes(0, "used", was, 5));
		EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE, cuMipmappedArrayDestroy(mipmap));
	}
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_CU(cuMemFree(p));
}

TEST_F(external_dmabuf, mipmap)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d;
	CUexternalMemory m;
	CUdeviceptr p = 0;
	int fd;

	fd = dmabuf_make(variant->make, &p);
	if (fd == -ENOENT)
		SKIP(return, "no udmabuf");
	ASSERT_LE(0, fd);
	d = memory_desc(CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD, fd, MIB);
	ASSERT_CU(cuImportExternalMemory(&m, &d));
	EXPECT_EQ(0, close(fd));
	use_mipmap(_metadata, m, MIB);
	if (p)
		EXPECT_CU(cuMemFree(p));
}

/* --- semaphores */

static CUresult import_semaphore(CUexternalSemaphore *s, int fd, bool timeline)
{
	CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC d;

	memset(&d, 0, sizeof(d));
	d.type = timeline ? CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD :
			    CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD;
	d.handle.fd = fd;
	return cuImportExternalSemaphore(s, &d);
}

static CUresult raise_semaphore(CUexternalSemaphore s, __u64 value, CUstream stream)
{
	CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS p;

	memset(&p, 0, sizeof(p));
	p.params.fence.value = value;
	return cuSignalExternalSemaphoresAsync(&s, &p, 1, stream);
}

static CUresult await_semaphore(CUexternalSemaphore s, __u64 value, CUstream stream)
{
	CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS p;

	memset(&p, 0, sizeof(p));
	p.params.fence.value = value;
	return cuWaitExternalSemaphoresAsync(&s, &p, 1, stream);
}

/* Whether a stream is still busy a moment later. */
static bool stays_busy(CUstream stream)
{
	nap_ms(30);
	return cuStreamQuery(stream) == CUDA_ERROR_NOT_READY;
}

TEST_F(external, binary)
{
	CUexternalSemaphore s, t;
	CUdeviceptr p;
	int fd;

	ASSERT_CU(cuMemAlloc(&p, MIB));
	ASSERT_CU(gpumem_create_semaphore(&s, 0, 0));
	ASSERT_CU(gpumem_export_semaphore(&fd, s, 0));
	EXPECT_EQ(CUDA_ERROR_UNKNOWN, import_semaphore(&t, fd, true));
	EXPECT_TRUE(is_open(fd));
	ASSERT_CU(import_semaphore(&t, fd, false));
	EXPECT_FALSE(is_open(fd));
	/* A wait before the signal; each signal ends one wait. */
	ASSERT_CU(await_semaphore(s, 0, self->a));
	ASSERT_CU(cuMemsetD8Async(p, 1, MIB, self->a));
	EXPECT_TRUE(stays_busy(self->a));
	ASSERT_CU(raise_semaphore(t, 0, self->b));
	EXPECT_CU(cuStreamSynchronize(self->a));
	EXPECT_TRUE(sees(p, 1, MIB));
	ASSERT_CU(await_semaphore(t, 0, self->a));
	EXPECT_TRUE(stays_busy(self->a));
	ASSERT_CU(raise_semaphore(s, 0, self->b));
	EXPECT_CU(cuStreamSynchronize(self->a));
	/* A signal before the wait. */
	ASSERT_CU(raise_semaphore(s, 0, self->b));
	EXPECT_CU(cuStreamSynchronize(self->b));
	ASSERT_CU(await_semaphore(s, 0, self->a));
	EXPECT_CU(cuStreamSynchronize(self->a));
	/* A semaphore that is destroyed lives on until the work that uses it is done. */
	ASSERT_CU(await_semaphore(s, 0, self->a));
	ASSERT_CU(cuDestroyExternalSemaphore(s));
	EXPECT_EQ(INVALID, cuDestroyExternalSemaphore(s));
	EXPECT_EQ(INVALID, raise_semaphore(s, 0, self->b));
	EXPECT_TRUE(stays_busy(self->a));
	ASSERT_CU(raise_semaphore(t, 0, self->b));
	EXPECT_CU(cuStreamSynchronize(self->a));
	EXPECT_CU(cuDestroyExternalSemaphore(t));
	EXPECT_CU(cuMemFree(p));
}

TEST_F(external, timeline)
{
	CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS waits[2];
	CUexternalSemaphore s[2], t;
	int fd;

	ASSERT_CU(gpumem_create_semaphore(&s[0], 5, GPUMEM_SEMAPHORE_TIMELINE));
	ASSERT_CU(gpumem_create_semaphore(&s[1], 0, GPUMEM_SEMAPHORE_TIMELINE));
	ASSERT_CU(gpumem_export_semaphore(&fd, s[0], 0));
	EXPECT_EQ(CUDA_ERROR_UNKNOWN, import_semaphore(&t, fd, false));
	ASSERT_CU(import_semaphore(&t, fd, true));
	ASSERT_CU(await_semaphore(t, 5, self->a));
	EXPECT_CU(cuStreamSynchronize(self->a));
	memset(waits, 0, sizeof(waits));
	waits[0].params.fence.value = 7;
	waits[1].params.fence.value = 1;
	ASSERT_CU(cuWaitExternalSemaphoresAsync(s, waits, 2, self->a));
	ASSERT_CU(raise_semaphore(t, 7, self->b));
	EXPECT_CU(cuStreamSynchronize(self->b));
	EXPECT_TRUE(stays_busy(self->a));
	ASSERT_CU(raise_semaphore(s[1], 1, self->b));
	EXPECT_CU(cuStreamSynchronize(self->a));
	/* A timeline's waits take nothing. */
	ASSERT_CU(cuWaitExternalSemaphoresAsync(s, waits, 2, self->a));
	EXPECT_CU(cuStreamSynchronize(self->a));
	EXPECT_CU(cuDestroyExternalSemaphore(t));
	EXPECT_CU(cuDestroyExternalSemaphore(s[0]));
	EXPECT_CU(cuDestroyExternalSemaphore(s[1]));
}

TEST_F(external, semaphore_arguments)
{
	CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS p;
	CUexternalSemaphore s;
	int fd;

	EXPECT_EQ(INVALID, gpumem_create_semaphore(NULL, 0, 0));
	EXPECT_EQ(INVALID, gpumem_create_semaphore(&s, 2, 0));
	EXPECT_EQ(INVALID, gpumem_create_semaphore(&s, 0, 2));
	ASSERT_CU(gpumem_create_semaphore(&s, 1, 0));
	EXPECT_EQ(INVALID, gpumem_export_semaphore(NULL, s, 0));
	EXPECT_EQ(INVALID, gpumem_export_semaphore(&fd, s, 1));
	EXPECT_EQ(INVALID, gpumem_export_semaphore(&fd, NULL, 0));
	EXPECT_EQ(-1, fd);
	memset(&p, 0, sizeof(p));
	p.flags = 1;
	EXPECT_EQ(INVALID, cuSignalExternalSemaphoresAsync(&s, &p, 1, self->a));
	/* It was made signalled. */
	ASSERT_CU(await_semaphore(s, 0, self->a));
	EXPECT_CU(cuStreamSynchronize(self->a));
	EXPECT_CU(cuDestroyExternalSemaphore(s));
}

/* --- costs */

#define MANY_SEMAPHORES	20000
#define MANY_MEMORIES	2000
#define CALLS		100

struct cost {
	CUexternalSemaphore s;
	CUexternalMemory m;
	int fd;				/* of a handle */
};

typedef CUresult (*cost_fn)(const struct cost *c);

/* A call that finds the semaphore, and is then refused. */
static CUresult find_semaphore(const struct cost *c)
{
	CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS p = { .flags = 1 };
	CUresult result = cuSignalExternalSemaphoresAsync(&c->s, &p, 1, NULL);

	return result == INVALID ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

static CUresult make_semaphore(const struct cost *c)
{
	CUexternalSemaphore s;
	CUresult result = gpumem_create_semaphore(&s, 0, 0);

	(void)c;
	return result ? result : cuDestroyExternalSemaphore(s);
}

static CUresult find_memory(const struct cost *c)
{
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC b = { .size = 4 * MIB };
	CUdeviceptr p;
	CUresult result = cuExternalMemoryGetMappedBuffer(&p, c->m, &b);

	return result == INVALID ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

static CUresult make_memory(const struct cost *c)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d = memory_desc(CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
							 dup(c->fd), 2 * MIB);
	CUexternalMemory m;
	CUresult result = cuImportExternalMemory(&m, &d);

	return result ? result : cuDestroyExternalMemory(m);
}

static const cost_fn cost_fns[] = { find_semaphore, make_semaphore, find_memory, make_memory };

/* The least time that a number of calls took in a few tries; 0 if a call fails. */
static __u64 least(cost_fn fn, const struct cost *c)
{
	__u64 best = ~0ull;

	for (int round = 0; round < 20; round++) {
		__u64 start = mono_ns();

		for (int i = 0; i < CALLS; i++)
			if (fn(c))
				return 0;
		start = mono_ns() - start;
		best = start < best ? start : best;
	}
	return best;
}

/* Calls cost the same beside many semaphores and external memories as beside none. */
TEST_F_TIMEOUT(external, cost_beside_many, 120)
{
	struct rlimit files = { 2 * MANY_MEMORIES, 2 * MANY_MEMORIES };
	__u64 alone[ARRAY_SIZE(cost_fns)], beside;
	static CUexternalSemaphore s[MANY_SEMAPHORES];
	static CUexternalMemory m[MANY_MEMORIES];
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d;
	struct cost c;

	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	/* The oldest and the newest are the ends of a list. */
	ASSERT_CU(gpumem_create_semaphore(&c.s, 0, 0));
	c.fd = handle_fd();
	d = memory_desc(CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, dup(c.fd), 2 * MIB);
	ASSERT_CU(cuImportExternalMemory(&c.m, &d));
	for (unsigned int i = 0; i < ARRAY_SIZE(cost_fns); i++) {
		alone[i] = least(cost_fns[i], &c);
		ASSERT_NE(0, alone[i]);
	}
	for (int i = 0; i < MANY_SEMAPHORES; i++)
		ASSERT_CU(gpumem_create_semaphore(&s[i], 0, 0));
	for (int i = 0; i < MANY_MEMORIES; i++) {
		d.handle.fd = dup(c.fd);
		ASSERT_CU(cuImportExternalMemory(&m[i], &d));
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(cost_fns); i++) {
		/* Several tries, for a machine that is busy. */
		for (int tries = 0; tries < 5; tries++) {
			beside = least(cost_fns[i], &c);
			if (beside && beside < 2 * alone[i])
				break;
		}
		TH_LOG("call %u: %llu ns, was %llu", i, beside / CALLS, alone[i] / CALLS);
		EXPECT_TRUE(beside && beside < 2 * alone[i]);
	}
	EXPECT_CU(cuDestroyExternalSemaphore(c.s));
	for (int i = 0; i < MANY_SEMAPHORES; i++)
		ASSERT_CU(cuDestroyExternalSemaphore(s[i]));
	/* The context's end frees the external memories. */
	EXPECT_CU(cuDestroyExternalMemory(c.m));
	EXPECT_EQ(0, close(c.fd));
}

static long long object_count(void)
{
	struct gpumem_stats stats = { .size = sizeof(stats) };

	return client_stats(&stats) ? -1 : (long long)stats.objects;
}

/* Destroyed semaphores that work still needs cost other calls nothing, and are freed when it is done. */
TEST_F_TIMEOUT(external, dying_semaphores, 120)
{
	CUexternalSemaphore gate, s;
	struct cost c = { .fd = -1 };
	__u64 alone, beside = 0;
	long long before;

	ASSERT_CU(gpumem_create_semaphore(&gate, 0, 0));
	/* Let the streams have their queues. */
	ASSERT_CU(raise_semaphore(gate, 0, self->b));
	ASSERT_CU(await_semaphore(gate, 0, self->a));
	ASSERT_CU(cuStreamSynchronize(self->a));
	before = object_count();
	alone = least(make_semaphore, &c);
	ASSERT_NE(0, alone);
	ASSERT_CU(await_semaphore(gate, 0, self->a));
	for (int i = 0; i < 3000; i++) {
		ASSERT_CU(gpumem_create_semaphore(&s, 0, 0));
		ASSERT_CU(raise_semaphore(s, 0, self->a));
		ASSERT_CU(cuDestroyExternalSemaphore(s));
	}
	for (int tries = 0; tries < 5; tries++) {
		beside = least(make_semaphore, &c);
		if (beside && beside < 2 * alone)
			break;
	}
	TH_LOG("%llu ns, was %llu", beside / CALLS, alone / CALLS);
	EXPECT_TRUE(beside && beside < 2 * alone);
	ASSERT_CU(raise_semaphore(gate, 0, self->b));
	ASSERT_CU(cuStreamSynchronize(self->a));
	EXPECT_EQ(before, object_count());
	EXPECT_CU(cuDestroyExternalSemaphore(gate));
}

/* A destroyed semaphore ends with the first synchronization after its work, whichever function synchronizes. */
TEST_F(external, destroyed_before_its_work)
{
	CUexternalSemaphore gate, s;
	long long before;
	CUevent event;

	ASSERT_CU(gpumem_create_semaphore(&gate, 0, 0));
	ASSERT_CU(cuEventCreate(&event, 0));
	/* In the first round the library makes what it keeps for the streams and the event. */
	for (int i = 0; i < 5; i++) {
		before = object_count();
		ASSERT_CU(gpumem_create_semaphore(&s, 0, 0));
		ASSERT_CU(await_semaphore(gate, 0, self->a));
		ASSERT_CU(raise_semaphore(s, 0, self->a));
		ASSERT_CU(cuEventRecord(event, self->a));
		ASSERT_CU(cuDestroyExternalSemaphore(s));
		/* Work still names it. */
		ASSERT_CU(cuStreamSynchronize(self->b));
		EXPECT_TRUE(!i || before + 1 == object_count());
		ASSERT_CU(raise_semaphore(gate, 0, self->b));
		ASSERT_CU(i <= 1 ? cuStreamSynchronize(self->a) : i == 2 ? cuCtxSynchronize() :
			  i == 3 ? cuCtxSynchronize_v2(NULL) : cuEventSynchronize(event));
		EXPECT_TRUE(!i || before == object_count());
	}
	EXPECT_CU(cuEventDestroy(event));
	EXPECT_CU(cuDestroyExternalSemaphore(gate));
}

/* The end of a semaphore is not put off because others, destroyed before, are still in use. */
TEST_F(external, destroyed_behind_others)
{
	CUexternalSemaphore s[3], t[3];
	CUresult result = CUDA_ERROR_NOT_READY;
	CUstream stream;
	CUcontext ctx;
	int fd;

	for (int i = 0; i < 3; i++) {
		ASSERT_CU(gpumem_create_semaphore(&s[i], 0, 0));
		ASSERT_CU(gpumem_export_semaphore(&fd, s[i], 0));
		ASSERT_CU(import_semaphore(&t[i], fd, false));
	}
	ASSERT_CU(await_semaphore(s[0], 0, self->a));
	ASSERT_CU(await_semaphore(s[1], 0, self->b));
	EXPECT_CU(cuDestroyExternalSemaphore(s[0]));
	EXPECT_CU(cuDestroyExternalSemaphore(s[1]));
	/* As another process does, this context waits for a signal that will not come. */
	ASSERT_CU(cuCtxCreate(&ctx, NULL, 0, 0));
	ASSERT_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(await_semaphore(t[2], 0, stream));
	EXPECT_CU(cuDestroyExternalSemaphore(s[2]));
	for (int i = 0; i < 200 && result == CUDA_ERROR_NOT_READY; i++) {
		nap_ms(10);
		result = cuStreamQuery(stream);
	}
	EXPECT_EQ(CUDA_ERROR_LAUNCH_FAILED, result);
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	ASSERT_CU(raise_semaphore(t[0], 0, CU_STREAM_PER_THREAD));
	ASSERT_CU(raise_semaphore(t[1], 0, CU_STREAM_PER_THREAD));
	EXPECT_CU(cuStreamSynchronize(self->a));
	EXPECT_CU(cuStreamSynchronize(self->b));
	for (int i = 0; i < 3; i++)
		EXPECT_CU(cuDestroyExternalSemaphore(t[i]));
	EXPECT_CU(cuCtxDestroy(ctx));
}

/* --- two processes */

/*
 * Makes a ping and a pong semaphore, sends them, answers each ping of a hundred with a pong, and then
 * waits to be killed.
 */
static int answers(void *arg)
{
	int sock = *(int *)arg, fd;
	CUexternalSemaphore s[2];
	CUstream stream;
	CUcontext ctx;

	/* A test that fails must not leave a client behind. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (cuda_start(&ctx) || cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))
		return 1;
	for (int i = 0; i < 2; i++)
		if (gpumem_create_semaphore(&s[i], 0, i ? GPUMEM_SEMAPHORE_TIMELINE : 0) ||
		    gpumem_export_semaphore(&fd, s[i], 0) || send_fd(sock, fd) || close(fd))
			return 2;
	for (int i = 1; i <= 100; i++)
		if (await_semaphore(s[0], 0, stream) || raise_semaphore(s[1], i, stream))
			return 3;
	if (cuStreamSynchronize(stream))
		return 4;
	pause();
	return 5;
}

TEST(two_processes)
{
	CUexternalSemaphore ping, pong;
	CUstream stream;
	CUcontext ctx;
	int sock[2], fd[2];
	pid_t pid;

	ASSERT_TRUE(dev_quiet(10));
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	pid = start_child(answers, &sock[1]);
	ASSERT_LT(0, pid);
	ASSERT_CU(cuda_start(&ctx));
	ASSERT_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	fd[0] = recv_fd(sock[0]);
	fd[1] = recv_fd(sock[0]);
	ASSERT_CU(import_semaphore(&ping, fd[0], false));
	ASSERT_CU(import_semaphore(&pong, fd[1], true));
	for (int i = 1; i <= 100; i++) {
		ASSERT_CU(raise_semaphore(ping, 0, stream));
		ASSERT_CU(await_semaphore(pong, i, stream));
		if (i % 10 == 0)
			ASSERT_CU(cuStreamSynchronize(stream));
	}
	/* The process that made the semaphore dies: the wait fails, and does not hang. */
	ASSERT_CU(await_semaphore(pong, 101, stream));
	EXPECT_TRUE(stays_busy(stream));
	EXPECT_EQ(-SIGKILL, kill_child(pid));
	EXPECT_EQ(CUDA_ERROR_LAUNCH_FAILED, cuStreamSynchronize(stream));
	close(sock[0]);
	close(sock[1]);
}

/* --- sync_files */

TEST_F(external, sync_file)
{
	struct dma_buf_export_sync_file sync = { .flags = DMA_BUF_SYNC_READ };
	CUexternalSemaphore s;
	int card = vgem_open(), dmabuf;
	__u32 handle = 0, fence = 0;
	CUdeviceptr p;

	if (card < 0)
		SKIP(return, "no vgem");
	ASSERT_CU(cuMemAlloc(&p, 2 * MIB));
	ASSERT_CU(cuMemGetHandleForAddressRange(&dmabuf, p, 2 * MIB,
						CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	ASSERT_EQ(0, vgem_import(card, dmabuf, &handle));
	ASSERT_EQ(0, vgem_attach(card, handle, true, &fence));
	ASSERT_EQ(0, ioctl(dmabuf, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &sync));
	ASSERT_CU(import_semaphore(&s, sync.fd, false));
	EXPECT_FALSE(is_open(sync.fd));
	ASSERT_CU(await_semaphore(s, 0, self->a));
	EXPECT_TRUE(stays_busy(self->a));
	EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, raise_semaphore(s, 0, self->b));
	ASSERT_EQ(0, vgem_signal(card, fence));
	EXPECT_CU(cuStreamSynchronize(self->a));
	ASSERT_CU(await_semaphore(s, 0, self->a));
	EXPECT_CU(cuStreamSynchronize(self->a));
	EXPECT_CU(cuDestroyExternalSemaphore(s));
	EXPECT_EQ(0, vgem_close(card, handle));
	close(card);
	close(dmabuf);
	EXPECT_CU(cuMemFree(p));
}

TEST_HARNESS_MAIN
