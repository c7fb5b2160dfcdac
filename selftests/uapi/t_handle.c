// SPDX-License-Identifier: GPL-2.0
/*
 * Memory handles: descriptors of whole buffer objects.  What can be exported, what an import reaches, how long the
 * memory lives, and who counts it.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "common/client_fixture.h"
#include "common/pin_util.h"
#include "common/pool_util.h"
#include "common/process.h"
#include "common/util.h"

#define ADDR	0x300000000ULL
#define BYTES	(256 * KIB)
#define RW	(PROT_READ | PROT_WRITE)
#define HANDLE	GPUMEM_BO_EXPORT_HANDLE

BO_FIXTURE(handle, BYTES, 3)

static int import_handle(int fd, int handle, struct gpumem_bo_import *out)
{
	*out = (struct gpumem_bo_import) {
		.size = sizeof(*out), .fd = handle, .flags = GPUMEM_BO_IMPORT_HANDLE,
	};
	return gp_ioctl(fd, GPUMEM_BO_IMPORT, out);
}

static bool has_pattern(const unsigned char *p)
{
	for (size_t i = 0; i < BYTES; i++)
		if (p[i] != (unsigned char)(3 * i + i / 4096))
			return false;
	return true;
}

/* Only a whole buffer object that the client allocated, and no chunk, has handles. */
TEST_F(handle, export_errors)
{
	struct gpumem_bo_import view;
	__u32 pool, chunk, pin;
	unsigned char *own;
	int fd;

	EXPECT_EQ(-EINVAL, gp_bo_export(self->fd, self->bo, 0, page_size, HANDLE));
	EXPECT_EQ(-EINVAL, gp_bo_export(self->fd, self->bo, page_size, BYTES, HANDLE));
	EXPECT_EQ(-EINVAL, gp_bo_export(self->fd, self->bo, page_size, BYTES - page_size, HANDLE));
	EXPECT_EQ(-EINVAL, gp_bo_export(self->fd, self->bo, 0, BYTES + page_size, HANDLE));
	EXPECT_EQ(-EINVAL, gp_bo_export(self->fd, self->bo, 0, BYTES, HANDLE | GPUMEM_BO_EXPORT_RDONLY));
	EXPECT_EQ(-ENOENT, gp_bo_export(self->fd, self->bo + 100, 0, BYTES, HANDLE));
	EXPECT_EQ(-EOPNOTSUPP, gp_bo_export(self->fd, self->bo, 0, BYTES, HANDLE << 1));
	fd = gp_bo_export(self->fd, self->bo, 0, BYTES, HANDLE);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, import_handle(self->fd, fd, &view));
	EXPECT_EQ(-EINVAL, gp_bo_export(self->fd, view.id, 0, BYTES, HANDLE));
	close(fd);
	ASSERT_EQ(0, gp_pool_create(self->fd, 0, 0, 0, "handles", &pool));
	ASSERT_EQ(0, gp_pool_chunk(self->fd, pool, BYTES, &chunk, NULL));
	EXPECT_EQ(-EINVAL, gp_bo_export(self->fd, chunk, 0, BYTES, HANDLE));
	own = mmap(NULL, BYTES, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, own);
	ASSERT_EQ(0, bo_pin(self->fd, own, BYTES, 0, &pin));
	EXPECT_EQ(-EINVAL, gp_bo_export(self->fd, pin, 0, BYTES, HANDLE));
	EXPECT_EQ(0, dev_attr(0, "exports"));
	munmap(own, BYTES);
}

/* A handle is no DMA-buf, and a DMA-buf is no handle. */
TEST_F(handle, import_errors)
{
	int handle = gp_bo_export(self->fd, self->bo, 0, BYTES, HANDLE);
	int dmabuf = gp_bo_export(self->fd, self->bo, 0, BYTES, 0);
	int null = open("/dev/null", O_RDWR), one;
	struct gpumem_bo_import import;

	ASSERT_LE(0, handle);
	ASSERT_LE(0, dmabuf);
	EXPECT_EQ(-EINVAL, gp_bo_import(self->fd, handle, &import));
	EXPECT_EQ(-EINVAL, import_handle(self->fd, dmabuf, &import));
	EXPECT_EQ(-EINVAL, import_handle(self->fd, null, &import));
	EXPECT_EQ(-EINVAL, import_handle(self->fd, self->fd, &import));
	EXPECT_EQ(-EBADF, import_handle(self->fd, -1, &import));
	EXPECT_EQ(-EBADF, import_handle(self->fd, 1000000, &import));
	/* A handle is not to be mapped, read or written. */
	EXPECT_EQ(MAP_FAILED, mmap(NULL, page_size, PROT_READ, MAP_SHARED, handle, 0));
	EXPECT_EQ(-1, read(handle, &import, 1));
	EXPECT_EQ(-1, write(handle, &import, 1));
	one = gp_open(1);
	if (one >= 0) {
		EXPECT_EQ(-EACCES, import_handle(one, handle, &import));
		close(one);
	}
	close(handle);
	close(dmabuf);
	close(null);
}

/* The import says which of the client's devices has the memory. */
TEST_F(handle, of_the_second_device)
{
	int handle = gp_bo_export(self->fd, self->bo, 0, BYTES, HANDLE), other = gp_open(1);
	struct gpumem_bo_import import;
	struct gpumem_bo_info info;
	__u32 index;

	ASSERT_LE(0, handle);
	if (other < 0)
		SKIP(return, "there is no second device");
	ASSERT_EQ(0, gp_attach(other, self->fd, &index));
	ASSERT_EQ(1, index);
	ASSERT_EQ(0, import_handle(other, handle, &import));
	EXPECT_EQ(1, import.device);
	ASSERT_EQ(0, gp_bo_info(other, import.id, &info));
	EXPECT_EQ(1, info.device);
	close(other);
	close(handle);
}

/* The memory and its tag outlive the id, the client and its process, for as long as a descriptor is open. */
TEST_F(handle, outlives_its_maker)
{
	struct gpumem_bo_import a, b;
	struct gpumem_bo_info info = { .size = sizeof(info) };
	struct gpumem_bo_alloc alloc = {
		.size = sizeof(alloc), .length = BYTES, .tag = 0xfeedbeef, .name = "tagged",
	};
	unsigned char *p, *q;
	int fd, other;

	ASSERT_EQ(0, gp_ioctl(self->fd, GPUMEM_BO_ALLOC, &alloc));
	p = gp_map(self->fd, alloc.id, 0, BYTES, RW);
	ASSERT_NE(NULL, p);
	memcpy(p, self->p, BYTES);
	fd = gp_bo_export(self->fd, alloc.id, 0, BYTES, HANDLE | GPUMEM_BO_EXPORT_CLOEXEC);
	ASSERT_LE(0, fd);
	EXPECT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD));
	EXPECT_EQ(1, dev_attr(0, "exports"));
	unmap_all();
	close(self->fd);
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 0, 5));
	EXPECT_TRUE(dev_attr_becomes(0, "used", BYTES, 5));
	EXPECT_EQ(1, dev_attr(0, "exports"));
	EXPECT_EQ(1, dev_attr(0, "bos"));
	other = gp_open(0);
	ASSERT_LE(0, other);
	ASSERT_EQ(0, import_handle(other, fd, &a));
	ASSERT_EQ(0, import_handle(other, fd, &b));
	EXPECT_NE(a.id, b.id);
	EXPECT_EQ(BYTES, a.length);
	close(fd);
	EXPECT_TRUE(dev_attr_becomes(0, "exports", 0, 5));
	EXPECT_EQ(BYTES, (__u64)dev_attr(0, "used"));
	info.id = a.id;
	ASSERT_EQ(0, gp_ioctl(other, GPUMEM_BO_INFO, &info));
	EXPECT_EQ(GPUMEM_BO_VIEW, info.kind);
	EXPECT_EQ(0xfeedbeef, info.tag);
	q = gp_map(other, b.id, 0, BYTES, RW);
	ASSERT_NE(NULL, q);
	EXPECT_TRUE(has_pattern(q));
	EXPECT_EQ(0, gp_destroy(other, a.id));
	EXPECT_EQ(0, gp_destroy(other, b.id));
	/* The mapping alone keeps the memory. */
	EXPECT_TRUE(has_pattern(q));
	EXPECT_EQ(BYTES, (__u64)dev_attr(0, "used"));
	unmap_all();
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 10));
	EXPECT_EQ(0, dev_attr(0, "bos"));
	close(other);
	self->fd = -1;
}

/* The owner must not reuse memory that a handle reaches, whether a client has imported the handle or not. */
TEST_F(handle, retire)
{
	struct gpumem_bo_info info = { .size = sizeof(info), .id = self->bo };
	struct gpumem_bo_import view;
	int fd[2];
	__u32 live;

	ASSERT_EQ(0, gp_bo_retire(self->fd, self->bo, 0, BYTES, 0, &live));
	EXPECT_EQ(0, live);
	for (int i = 0; i < 2; i++) {
		fd[i] = gp_bo_export(self->fd, self->bo, 0, BYTES, HANDLE);
		ASSERT_LE(0, fd[i]);
	}
	ASSERT_EQ(0, gp_bo_retire(self->fd, self->bo, page_size, 1, 0, &live));
	EXPECT_EQ(2, live);
	ASSERT_EQ(0, gp_ioctl(self->fd, GPUMEM_BO_INFO, &info));
	EXPECT_EQ(2, info.exports);
	close(fd[1]);
	ASSERT_EQ(0, import_handle(self->fd, fd[0], &view));
	ASSERT_EQ(0, gp_bo_retire(self->fd, self->bo, 0, BYTES, GPUMEM_BO_RETIRE_QUERY, &live));
	EXPECT_EQ(2, live);
	close(fd[0]);
	ASSERT_EQ(0, gp_bo_retire(self->fd, self->bo, 0, BYTES, GPUMEM_BO_RETIRE_QUERY, &live));
	EXPECT_EQ(1, live);
	EXPECT_EQ(0, gp_destroy(self->fd, view.id));
	ASSERT_EQ(0, gp_bo_retire(self->fd, self->bo, 0, BYTES, GPUMEM_BO_RETIRE_QUERY, &live));
	EXPECT_EQ(0, live);
}

/* A descriptor that is on its way over a socket, and then is lost with the socket, is an export until then. */
TEST_F(handle, on_its_way)
{
	int sock[2], fd = gp_bo_export(self->fd, self->bo, 0, BYTES, HANDLE);

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	ASSERT_EQ(0, send_fd(sock[0], fd));
	close(fd);
	unmap_all();
	EXPECT_EQ(0, gp_destroy(self->fd, self->bo));
	EXPECT_EQ(1, dev_attr(0, "exports"));
	EXPECT_EQ(BYTES, (__u64)dev_attr(0, "used"));
	close(sock[0]);
	close(sock[1]);
	EXPECT_TRUE(dev_attr_becomes(0, "exports", 0, 10));
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 10));
}

/* Another process imports the handle, maps it for its device, and writes what the maker reads. */
TEST_F(handle, another_process)
{
	int sock[2], status, handle;
	pid_t child;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		int got = recv_fd(sock[1]), own = gp_open(0);
		struct gpumem_bo_import view;
		struct gpumem_sqe sqe = sqe_fill(ADDR, 1, 0xa7, BYTES);
		struct stream s;
		__u32 vm;

		_exit(got < 0 || own < 0 || import_handle(own, got, &view) || gp_vm_create(own, &vm) ||
		      gp_vm_map(own, vm, view.id, 0, ADDR, BYTES, 1, 1) ||
		      stream_open(&s, own, vm, 0, 16) || stream_push(&s, &sqe) || stream_sync(&s));
	}
	handle = gp_bo_export(self->fd, self->bo, 0, BYTES, HANDLE);
	ASSERT_LE(0, handle);
	ASSERT_EQ(0, send_fd(sock[0], handle));
	close(handle);
	ASSERT_EQ(child, waitpid(child, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_TRUE(all_are(self->p, 0xa7, BYTES));
	close(sock[0]);
	close(sock[1]);
}

TEST_HARNESS_MAIN
