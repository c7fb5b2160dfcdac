// SPDX-License-Identifier: GPL-2.0
/*
 * External memory: who owns a descriptor, what a mapped buffer or mipmapped array can do, and how
 * long it lives.  Semaphores are in t_cuda_semaphore.c.
 */
#include <gpumem.h>
#include <signal.h>
#include <sys/resource.h>

#include "kselftest_harness.h"
#include "cuda_util.h"
#include "array_util.h"
#include "cost_util.h"
#include "common/exporters.h"
#include "common/process.h"

FIXTURE(external)
{
	CUcontext ctx;
};

FIXTURE_SETUP(external)
{
	cuda_begin(_metadata, &self->ctx);
}

QUIET_AFTERWARDS(external)

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

/* The size that an import names is the end of what it can map, although the memory is larger. */
TEST_F(external, named_size)
{
	CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC a = { .numLevels = 1, .offset = MIB - 4 * 64 * 64 };
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC b = { .size = MIB };
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d;
	CUmipmappedArray mipmap;
	CUexternalMemory m;
	CUdeviceptr p;

	d = memory_desc(CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, handle_fd(), MIB);
	ASSERT_CU(cuImportExternalMemory(&m, &d));
	ASSERT_CU(cuExternalMemoryGetMappedBuffer(&p, m, &b));
	EXPECT_CU(cuMemFree(p));
	b.size = MIB + 1;
	EXPECT_EQ(INVALID, cuExternalMemoryGetMappedBuffer(&p, m, &b));
	b.offset = 1;
	b.size = MIB;
	EXPECT_EQ(INVALID, cuExternalMemoryGetMappedBuffer(&p, m, &b));
	b.offset = MIB;
	b.size = 1;
	EXPECT_EQ(INVALID, cuExternalMemoryGetMappedBuffer(&p, m, &b));
	a.arrayDesc = describe(64, 64, 0, U8, 4, 0);
	ASSERT_CU(cuExternalMemoryGetMappedMipmappedArray(&mipmap, m, &a));
	EXPECT_CU(cuMipmappedArrayDestroy(mipmap));
	a.offset++;
	EXPECT_EQ(INVALID, cuExternalMemoryGetMappedMipmappedArray(&mipmap, m, &a));
	EXPECT_CU(cuDestroyExternalMemory(m));
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

/* A handle that was destroyed never names another external memory. */
TEST_F(external, stale_handles)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d;
	CUexternalMemory m, n;
	CUexternalSemaphore s;

	d = memory_desc(CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, handle_fd(), 2 * MIB);
	ASSERT_CU(cuImportExternalMemory(&m, &d));
	for (int i = 0; i < 10; i++) {
		ASSERT_CU(cuDestroyExternalMemory(m));
		d.handle.fd = handle_fd();
		ASSERT_CU(cuImportExternalMemory(&n, &d));
		EXPECT_EQ(INVALID, cuDestroyExternalMemory(m));
		m = n;
	}
	ASSERT_CU(gpumem_create_semaphore(&s, 0, 0));
	EXPECT_EQ(INVALID, cuDestroyExternalMemory((CUexternalMemory)s));
	EXPECT_EQ(INVALID, cuDestroyExternalMemory((CUexternalMemory)&m));
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

/* --- memory of another process */

#define THEIRS	(4 * MIB)
#define LETTER	0xa7

FIXTURE(external_killed)
{
	CUcontext ctx;
	pid_t pid;			/* the exporter */
	int fd;				/* of THEIRS bytes of its memory, which hold LETTER */
};

FIXTURE_VARIANT(external_killed)
{
	int type;
};

FIXTURE_VARIANT_ADD(external_killed, handle) { CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD };
FIXTURE_VARIANT_ADD(external_killed, dmabuf) { CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD };

/* A descriptor of filled memory of this process, of @type. */
static int make_theirs(int type)
{
	const CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	const CUmemAccessDesc rights = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE }, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUmemGenericAllocationHandle h;
	CUdeviceptr p;
	int fd;

	if (type == CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD) {
		if (cuMemAlloc(&p, THEIRS) ||
		    cuMemGetHandleForAddressRange(&fd, p, THEIRS, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0))
			return -1;
	} else {
		if (cuMemCreate(&h, THEIRS, &prop, 0) || cuMemAddressReserve(&p, THEIRS, 0, 0, 0) ||
		    cuMemMap(p, THEIRS, 0, h, 0) || cuMemSetAccess(p, THEIRS, &rights, 1) ||
		    cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0))
			return -1;
	}
	return cuMemsetD8(p, LETTER, THEIRS) || cuCtxSynchronize() ? -1 : fd;
}

struct exporter {
	int type, sock;
};

static int export_and_wait(void *arg)
{
	const struct exporter *e = arg;
	CUcontext ctx;
	int fd;

	if (cuda_start(&ctx))
		return 1;
	fd = make_theirs(e->type);
	if (fd < 0 || send_fd(e->sock, fd))
		return 2;
	pause();
	return 3;
}

FIXTURE_SETUP(external_killed)
{
	struct exporter e = { .type = variant->type };
	int socks[2];

	ASSERT_TRUE(dev_quiet(10));
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, socks));
	e.sock = socks[1];
	self->pid = start_child(export_and_wait, &e);
	ASSERT_LT(0, self->pid);
	close(socks[1]);
	self->fd = recv_fd(socks[0]);
	ASSERT_LE(0, self->fd);
	close(socks[0]);
	ASSERT_CU(cuda_start(&self->ctx));
}

QUIET_AFTERWARDS(external_killed)

static bool holds(CUdeviceptr p, unsigned char value, size_t n)
{
	unsigned char *bytes = malloc(n);
	bool good = bytes && !cuMemcpyDtoH(bytes, p, n) && all_are(bytes, value, n);

	free(bytes);
	return good;
}

/* The exporter is killed.  What was imported keeps its memory and its contents, and the last buffer frees it. */
TEST_F(external_killed, exporter)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d = memory_desc(variant->type, self->fd, THEIRS);
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC b = { .size = THEIRS };
	CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC a = array_desc(256, 256, 1, MIB);
	unsigned char *host = malloc(4 * 256 * 256);
	CUexternalMemory m, never_mapped;
	CUmipmappedArray mipmap;
	CUdeviceptr p, q, own;
	CUarray level;
	long long before;
	int fds, fd = dup(self->fd);

	ASSERT_NE(NULL, host);
	/* Have staging memory. */
	ASSERT_CU(cuMemAlloc(&own, 1));
	ASSERT_TRUE(holds(own, 0, 1));
	ASSERT_CU(cuImportExternalMemory(&m, &d));
	d.handle.fd = fd;
	ASSERT_CU(cuImportExternalMemory(&never_mapped, &d));
	if (variant->type == CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD) {
		EXPECT_EQ(0, close(self->fd));
		EXPECT_EQ(0, close(fd));
	}
	fds = count_fds();
	ASSERT_CU(cuExternalMemoryGetMappedBuffer(&p, m, &b));
	EXPECT_TRUE(holds(p, LETTER, THEIRS));
	EXPECT_EQ(2, dev_attr(0, "clients"));
	ASSERT_EQ(-SIGKILL, kill_child(self->pid));
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 1, 10));
	before = used(0);
	EXPECT_LE((long long)THEIRS, before);

	/* What was mapped, and what is mapped now. */
	EXPECT_TRUE(holds(p, LETTER, THEIRS));
	ASSERT_CU(cuExternalMemoryGetMappedBuffer(&q, m, &b));
	EXPECT_TRUE(holds(q, LETTER, THEIRS));
	EXPECT_CU(cuMemsetD8(p, 0x18, MIB));
	EXPECT_TRUE(holds(q, 0x18, MIB) && holds(q + MIB, LETTER, THEIRS - MIB));
	ASSERT_CU(cuExternalMemoryGetMappedMipmappedArray(&mipmap, m, &a));
	ASSERT_CU(cuMipmappedArrayGetLevel(&level, mipmap, 0));
	EXPECT_CU(read_box(host, level, 0, 0, 0, 4 * 256, 256, 1));
	EXPECT_TRUE(all_are(host, LETTER, 4 * 256 * 256));
	EXPECT_EQ(before, used(0));

	EXPECT_CU(cuDestroyExternalMemory(m));
	EXPECT_CU(cuDestroyExternalMemory(never_mapped));
	EXPECT_EQ(fds - 2, count_fds());
	EXPECT_CU(cuMemFree(p));
	EXPECT_CU(cuMipmappedArrayDestroy(mipmap));
	EXPECT_TRUE(holds(q + MIB, LETTER, THEIRS - MIB));
	EXPECT_EQ(before, used(0));
	EXPECT_CU(cuMemFree(q));
	EXPECT_TRUE(dev_attr_becomes(0, "exports", 0, 10));
	EXPECT_EQ(before - (long long)THEIRS, used(0));
	EXPECT_CU(cuMemFree(own));
	free(host);
}

/* --- costs */

#define MANY_MEMORIES	2000

struct cost {
	CUexternalMemory m;
	int fd;				/* of a handle */
};

/* A call that finds the external memory, and is then refused. */
static CUresult find_memory(const void *arg)
{
	const struct cost *c = arg;
	CUDA_EXTERNAL_MEMORY_BUFFER_DESC b = { .size = 4 * MIB };
	CUdeviceptr p;
	CUresult result = cuExternalMemoryGetMappedBuffer(&p, c->m, &b);

	return result == INVALID ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

static CUresult make_memory(const void *arg)
{
	const struct cost *c = arg;
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d = memory_desc(CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD,
							 dup(c->fd), 2 * MIB);
	CUexternalMemory m;
	CUresult result = cuImportExternalMemory(&m, &d);

	return result ? result : cuDestroyExternalMemory(m);
}

/* Calls cost the same beside many external memories as beside none. */
TEST_F_TIMEOUT(external, cost_beside_many, 120)
{
	struct rlimit files = { 2 * MANY_MEMORIES, 2 * MANY_MEMORIES };
	static CUexternalMemory m[MANY_MEMORIES];
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d;
	__u64 find_alone, make_alone;
	struct cost c;

	ASSERT_EQ(0, setrlimit(RLIMIT_NOFILE, &files));
	/* The oldest and the newest are the ends of a list. */
	c.fd = handle_fd();
	d = memory_desc(CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD, dup(c.fd), 2 * MIB);
	ASSERT_CU(cuImportExternalMemory(&c.m, &d));
	find_alone = least(find_memory, &c);
	make_alone = least(make_memory, &c);
	ASSERT_TRUE(find_alone && make_alone);
	for (int i = 0; i < MANY_MEMORIES; i++) {
		d.handle.fd = dup(c.fd);
		ASSERT_CU(cuImportExternalMemory(&m[i], &d));
	}
	EXPECT_TRUE(costs_the_same(find_memory, &c, find_alone));
	EXPECT_TRUE(costs_the_same(make_memory, &c, make_alone));
	/* The context's end frees the others. */
	EXPECT_CU(cuDestroyExternalMemory(c.m));
	EXPECT_EQ(0, close(c.fd));
}

TEST_HARNESS_MAIN
