// SPDX-License-Identifier: GPL-2.0
/*
 * DMA-bufs: export, what the descriptor can do, import as a view, and other drivers on either side.
 */
#include <fcntl.h>
#include <signal.h>
#include <linux/dma-buf.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "kselftest_harness.h"
#include "common/client_fixture.h"
#include "common/util.h"
#include "common/vgem.h"

#define ADDR	0x300000000ULL
#define BYTES	(256 * KIB)
#define RW	(PROT_READ | PROT_WRITE)

BO_FIXTURE(dmabuf, BYTES, 1)

static unsigned char *map_fd(int fd, __u64 offset, size_t n, int prot)
{
	void *p = mmap(NULL, n, prot, MAP_SHARED, fd, offset);

	return p == MAP_FAILED ? NULL : p;
}

static int map_fd_errno(int fd, __u64 offset, size_t n, int prot, int flags)
{
	void *p = mmap(NULL, n, prot, flags, fd, offset);

	if (p == MAP_FAILED)
		return -errno;
	munmap(p, n);
	return 0;
}

static __u32 live(int fd, __u32 bo, __u64 offset, __u64 length)
{
	__u32 n;

	return gp_bo_retire(fd, bo, offset, length, GPUMEM_BO_RETIRE_QUERY, &n) ? ~0U : n;
}

TEST_F(dmabuf, export_errors)
{
	struct gpumem_stats stats;
	__u32 vm;

	EXPECT_EQ(-EINVAL, gp_bo_export(self->fd, self->bo, 0, 0, 0));
	EXPECT_EQ(-EINVAL, gp_bo_export(self->fd, self->bo, 1, page_size, 0));
	EXPECT_EQ(-EINVAL, gp_bo_export(self->fd, self->bo, 0, page_size - 1, 0));
	EXPECT_EQ(-EINVAL, gp_bo_export(self->fd, self->bo, page_size / 2, page_size / 2, 0));
	EXPECT_EQ(-EOVERFLOW, gp_bo_export(self->fd, self->bo, BYTES, page_size, 0));
	EXPECT_EQ(-EOVERFLOW, gp_bo_export(self->fd, self->bo, 0, BYTES + page_size, 0));
	EXPECT_EQ(-EOVERFLOW, gp_bo_export(self->fd, self->bo, page_size, BYTES, 0));
	EXPECT_EQ(-EOVERFLOW, gp_bo_export(self->fd, self->bo, -page_size, page_size, 0));
	EXPECT_EQ(-EOVERFLOW, gp_bo_export(self->fd, self->bo, -page_size, 2 * page_size, 0));
	EXPECT_EQ(-EOVERFLOW, gp_bo_export(self->fd, self->bo, page_size, -page_size, 0));
	ASSERT_EQ(0, gp_vm_create(self->fd, &vm));
	EXPECT_EQ(-ENOENT, gp_bo_export(self->fd, vm, 0, page_size, 0));
	ASSERT_EQ(0, gp_stats(self->fd, &stats));
	EXPECT_EQ(0, stats.exports);
	EXPECT_EQ(0, dev_attr(0, "exports"));
}

/* The descriptor table is full: an error and nothing else. */
TEST_F(dmabuf, no_descriptor_left)
{
	int fds[1024], n = 0;

	while (n < 1024 && (fds[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		n++;
	ASSERT_GT(1024, n);
	EXPECT_EQ(EMFILE, errno);
	EXPECT_EQ(-EMFILE, gp_bo_export(self->fd, self->bo, 0, BYTES, 0));
	while (n)
		close(fds[--n]);
	EXPECT_EQ(0, dev_attr(0, "exports"));
}

TEST_F(dmabuf, descriptor)
{
	unsigned int flags[] = { 0, GPUMEM_BO_EXPORT_CLOEXEC };
	struct gpumem_stats stats;
	struct stat st;

	for (int i = 0; i < 2; i++) {
		int fd = gp_bo_export(self->fd, self->bo, i * page_size, 3 * page_size, flags[i]);

		ASSERT_LE(0, fd);
		EXPECT_EQ(i ? FD_CLOEXEC : 0, fcntl(fd, F_GETFD) & FD_CLOEXEC);
		EXPECT_EQ(O_RDWR, fcntl(fd, F_GETFL) & O_ACCMODE);
		EXPECT_EQ((off_t)(3 * page_size), lseek(fd, 0, SEEK_END));
		EXPECT_EQ(0, lseek(fd, 0, SEEK_SET));
		EXPECT_EQ(0, fstat(fd, &st));
		ASSERT_EQ(0, gp_stats(self->fd, &stats));
		EXPECT_EQ(1, stats.exports);
		EXPECT_EQ(3 * page_size, stats.export_bytes);
		EXPECT_EQ(1, dev_attr(0, "exports"));
		close(fd);
		EXPECT_TRUE(dev_attr_becomes(0, "exports", 0, 5));
	}
	ASSERT_EQ(0, gp_stats(self->fd, &stats));
	EXPECT_EQ(0, stats.exports);
	EXPECT_EQ(0, stats.export_bytes);
}

TEST_F(dmabuf, mmap)
{
	int fd = gp_bo_export(self->fd, self->bo, 4 * page_size, 8 * page_size, 0);
	unsigned char *q;

	ASSERT_LE(0, fd);
	q = map_fd(fd, 0, 8 * page_size, RW);
	ASSERT_NE(NULL, q);
	EXPECT_EQ(0, memcmp(q, self->p + 4 * page_size, 8 * page_size));
	q[5] = 99;
	EXPECT_EQ(99, self->p[4 * page_size + 5]);
	self->p[12 * page_size - 1] = 98;
	EXPECT_EQ(98, q[8 * page_size - 1]);
	munmap(q, 8 * page_size);
	q = map_fd(fd, 7 * page_size, page_size, PROT_READ);
	ASSERT_NE(NULL, q);
	EXPECT_EQ(98, q[page_size - 1]);
	/* The mapping cannot reach beyond the window.  */
	EXPECT_EQ(-EINVAL, map_fd_errno(fd, 8 * page_size, page_size, PROT_READ, MAP_SHARED));
	EXPECT_EQ(-EINVAL, map_fd_errno(fd, 0, 9 * page_size, PROT_READ, MAP_SHARED));
	EXPECT_EQ(-EINVAL, map_fd_errno(fd, 7 * page_size, 2 * page_size, PROT_READ, MAP_SHARED));
	EXPECT_GT(0, map_fd_errno(fd, -page_size, page_size, PROT_READ, MAP_SHARED));
	EXPECT_EQ(-EINVAL, map_fd_errno(fd, 0, page_size, PROT_READ, MAP_PRIVATE));
	/* Neither growing a mapping nor remap_file_pages() reaches beyond the window.  */
	EXPECT_EQ(MAP_FAILED, mremap(q, page_size, 2 * page_size, MREMAP_MAYMOVE));
	for (int page = 0; page < 16; page++) {
		/*
		 * A refused call may leave a hole; the mapping never shows bytes outside the
		 * window.
		 */
		syscall(SYS_remap_file_pages, q, page_size, 0, page, 0);
		EXPECT_TRUE(peek(q + page_size - 1) < 0 || peek(q + page_size - 1) == 98);
	}
	close(fd);
}

TEST_F(dmabuf, read_only)
{
	int fd = gp_bo_export(self->fd, self->bo, 0, BYTES, GPUMEM_BO_EXPORT_RDONLY);
	struct gpumem_bo_import import;
	unsigned char *q;

	ASSERT_LE(0, fd);
	EXPECT_EQ(O_RDONLY, fcntl(fd, F_GETFL) & O_ACCMODE);
	q = map_fd(fd, 0, BYTES, PROT_READ);
	ASSERT_NE(NULL, q);
	EXPECT_EQ(0, memcmp(q, self->p, BYTES));
	self->p[7] = 77;
	EXPECT_EQ(77, q[7]);
	EXPECT_EQ(-1, mprotect(q, BYTES, RW));
	EXPECT_EQ(EACCES, errno);
	EXPECT_EQ(-EACCES, map_fd_errno(fd, 0, BYTES, RW, MAP_SHARED));
	EXPECT_EQ(-EACCES, gp_bo_import(self->fd, fd, &import));
	munmap(q, BYTES);
	close(fd);
}

TEST_F(dmabuf, sync)
{
	int fd = gp_bo_export(self->fd, self->bo, 0, BYTES, 0);
	static const __u64 flags[] = {
		DMA_BUF_SYNC_READ, DMA_BUF_SYNC_WRITE, DMA_BUF_SYNC_RW,
	};

	ASSERT_LE(0, fd);
	for (unsigned int i = 0; i < ARRAY_SIZE(flags); i++) {
		struct dma_buf_sync sync = { .flags = DMA_BUF_SYNC_START | flags[i] };

		EXPECT_EQ(0, ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync));
		sync.flags = DMA_BUF_SYNC_END | flags[i];
		EXPECT_EQ(0, ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync));
	}
	close(fd);
}

TEST_F(dmabuf, name)
{
	int fd = gp_bo_export(self->fd, self->bo, 0, BYTES, 0);
	char path[64], line[256];
	bool size = false, exporter = false;
	FILE *f;

	ASSERT_LE(0, fd);
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	f = fopen(path, "r");
	ASSERT_NE(NULL, f);
	while (fgets(line, sizeof(line), f)) {
		unsigned long long v;

		size |= sscanf(line, "size:\t%llu", &v) == 1 && v == BYTES;
		exporter |= !strncmp(line, "exp_name:\tgpumem", 16);
	}
	fclose(f);
	EXPECT_TRUE(size);
	EXPECT_TRUE(exporter);
	close(fd);
}

/* --- import */

TEST_F(dmabuf, import_as_a_view)
{
	int fd = gp_bo_export(self->fd, self->bo, 4 * page_size, 8 * page_size, 0);
	int other = gp_open(0), fd2;
	struct gpumem_bo_import import;
	struct gpumem_bo_info info;
	struct gpumem_stats stats;
	unsigned char *q;
	__u32 some, vm;
	__u8 name[GPUMEM_TOKEN_SIZE];

	ASSERT_LE(0, fd);
	ASSERT_LE(0, other);
	ASSERT_EQ(0, gp_bo_import(other, fd, &import));
	EXPECT_EQ(8 * page_size, import.length);
	EXPECT_EQ(0, import.device);
	ASSERT_EQ(0, gp_bo_info(other, import.id, &info));
	EXPECT_EQ(GPUMEM_BO_VIEW, info.kind);
	EXPECT_EQ(8 * page_size, info.length);
	EXPECT_EQ(2, info.exports);
	ASSERT_EQ(0, gp_stats(other, &stats));
	EXPECT_EQ(1, stats.views);
	EXPECT_EQ(8 * page_size, stats.view_bytes);
	EXPECT_EQ(0, stats.bos);
	EXPECT_EQ(1, dev_attr(0, "views"));
	EXPECT_EQ(1, dev_attr(0, "bos"));
	EXPECT_EQ(BYTES, (__u64)dev_attr(0, "used"));
	close(fd);
	EXPECT_TRUE(dev_attr_becomes(0, "exports", 0, 5));

	/* The view has the bytes of the window only.  */
	q = gp_map(other, import.id, 0, 8 * page_size, RW);
	ASSERT_NE(NULL, q);
	EXPECT_EQ(0, memcmp(q, self->p + 4 * page_size, 8 * page_size));
	q[0] = 0xee;
	EXPECT_EQ(0xee, self->p[4 * page_size]);
	EXPECT_EQ(-EINVAL, gp_map_errno(other, import.id, 0, 9 * page_size, PROT_READ, MAP_SHARED));
	EXPECT_EQ(-EINVAL, gp_map_errno(other, import.id, 8 * page_size, page_size, PROT_READ,
					MAP_SHARED));
	EXPECT_EQ(-EINVAL, gp_map_errno(other, import.id, 0, page_size, PROT_READ, MAP_PRIVATE));
	EXPECT_EQ(MAP_FAILED, mremap(q, 8 * page_size, 9 * page_size, MREMAP_MAYMOVE));
	for (int page = 0; page < 16; page++) {
		syscall(SYS_remap_file_pages, q, page_size, 0, page, 0);
		EXPECT_TRUE(peek(q) < 0 || peek(q) == 0xee);
	}

	/* Address spaces and exports of the view have the same limits.  */
	ASSERT_EQ(0, gp_vm_create(other, &vm));
	EXPECT_EQ(0, gp_vm_map(other, vm, import.id, page_size, ADDR, 7 * page_size, 1, 1));
	EXPECT_EQ(-EOVERFLOW, gp_vm_map(other, vm, import.id, page_size, 2 * ADDR, 8 * page_size, 1,
					1));
	EXPECT_EQ(-EOVERFLOW, gp_bo_export(other, import.id, 0, 9 * page_size, 0));
	fd2 = gp_bo_export(other, import.id, 2 * page_size, page_size, 0);
	ASSERT_LE(0, fd2);
	EXPECT_EQ(2, live(self->fd, self->bo, 6 * page_size, page_size));
	EXPECT_EQ(1, live(self->fd, self->bo, 5 * page_size, page_size));
	EXPECT_EQ(0, live(self->fd, self->bo, 12 * page_size, page_size));
	munmap(q, 8 * page_size);
	q = map_fd(fd2, 0, page_size, RW);
	ASSERT_NE(NULL, q);
	EXPECT_EQ(0, memcmp(q, self->p + 6 * page_size, page_size));
	close(fd2);
	munmap(q, page_size);

	/* Only the owner retires and names ranges. */
	EXPECT_EQ(-EINVAL, gp_bo_retire(other, import.id, 0, 1, 0, &some));
	EXPECT_EQ(-EINVAL, gp_token_create(other, import.id, 0, 1, 0, &some, name));
	EXPECT_EQ(0, gp_destroy(other, import.id));
	EXPECT_EQ(1, live(self->fd, self->bo, 0, BYTES));
	EXPECT_EQ(0, gp_destroy(other, vm));
	EXPECT_TRUE(dev_attr_becomes(0, "views", 0, 5));
	EXPECT_EQ(0, live(self->fd, self->bo, 0, BYTES));
	close(other);
}

/* Streams reach the view's bytes, and nothing beyond its end. */
TEST_F(dmabuf, streams_of_a_view)
{
	int fd = gp_bo_export(self->fd, self->bo, 4 * page_size, 2 * page_size, 0);
	struct gpumem_bo_import import;
	struct gpumem_sqe sqe;
	struct stream s;
	__u32 vm;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, gp_bo_import(self->fd, fd, &import));
	ASSERT_EQ(0, gp_vm_create(self->fd, &vm));
	ASSERT_EQ(0, gp_vm_map(self->fd, vm, import.id, 0, ADDR, 2 * page_size, 1, 1));
	ASSERT_EQ(0, stream_open(&s, self->fd, vm, 0, 16));
	sqe = sqe_fill(ADDR + page_size, 1, 0xab, page_size);
	ASSERT_EQ(0, stream_push(&s, &sqe));
	ASSERT_EQ(0, stream_sync(&s));
	for (size_t i = 0; i < page_size; i++) {
		ASSERT_EQ(0xab, self->p[5 * page_size + i]);
	}
	EXPECT_EQ((unsigned char)(5 * page_size - 1 + 4), self->p[5 * page_size - 1]);
	EXPECT_EQ((unsigned char)(6 * page_size + 6), self->p[6 * page_size]);
	sqe = sqe_fill(ADDR + 2 * page_size - 1, 1, 0xcd, 2);
	ASSERT_EQ(0, stream_push(&s, &sqe));
	EXPECT_EQ(-EIO, stream_sync(&s));
	EXPECT_EQ(EFAULT, s.page->error);
	EXPECT_EQ((unsigned char)(6 * page_size + 6), self->p[6 * page_size]);
	close(fd);
}

TEST_F(dmabuf, import_errors)
{
	struct gpumem_bo_import import;
	int null = open("/dev/null", O_RDWR), one, fd;
	__u32 id;

	EXPECT_EQ(-EBADF, gp_bo_import(self->fd, -1, &import));
	EXPECT_EQ(-EBADF, gp_bo_import(self->fd, 1000000, &import));
	EXPECT_EQ(-EINVAL, gp_bo_import(self->fd, null, &import));
	EXPECT_EQ(-EINVAL, gp_bo_import(self->fd, self->fd, &import));
	close(null);
	one = gp_open(1);
	if (one == -ENOENT)
		SKIP(return, "one device");
	/* A DMA-buf of a device that the importing client has not attached.  */
	ASSERT_EQ(0, gp_bo_alloc(one, page_size, &id));
	fd = gp_bo_export(one, id, 0, page_size, 0);
	ASSERT_LE(0, fd);
	EXPECT_EQ(-EACCES, gp_bo_import(self->fd, fd, &import));
	ASSERT_EQ(0, gp_attach(self->fd, one, &id));
	EXPECT_EQ(0, gp_bo_import(self->fd, fd, &import));
	EXPECT_EQ(1, import.device);
	EXPECT_EQ(1, dev_attr(1, "views"));
	EXPECT_EQ(0, dev_attr(0, "views"));
	close(fd);
	close(one);
}

/* A DMA-buf outlives the id and the client that made it. */
TEST_F(dmabuf, outlives_its_maker)
{
	int fd = gp_bo_export(self->fd, self->bo, 4 * page_size, 4 * page_size, 0), other;
	struct gpumem_bo_import import;
	unsigned char *q;

	ASSERT_LE(0, fd);
	EXPECT_EQ(0, gp_destroy(self->fd, self->bo));
	munmap(self->p, BYTES);
	close(self->fd);
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 0, 5));
	/* The whole object is charged, not the window alone.  */
	EXPECT_EQ(BYTES, (__u64)dev_attr(0, "used"));
	EXPECT_EQ(1, dev_attr(0, "exports"));
	EXPECT_EQ(1, dev_attr(0, "bos"));
	q = map_fd(fd, 0, 4 * page_size, RW);
	ASSERT_NE(NULL, q);
	for (size_t i = 4 * page_size; i < 8 * page_size; i++) {
		ASSERT_EQ((unsigned char)(i + i / 4096), q[i - 4 * page_size]);
	}
	other = gp_open(0);
	ASSERT_LE(0, other);
	EXPECT_EQ(0, gp_bo_import(other, fd, &import));
	close(fd);
	EXPECT_EQ(BYTES, (__u64)dev_attr(0, "used"));
	munmap(q, 4 * page_size);
	EXPECT_TRUE(dev_attr_becomes(0, "exports", 0, 5));
	EXPECT_EQ(BYTES, (__u64)dev_attr(0, "used"));
	close(other);
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 10));
	EXPECT_EQ(0, dev_attr(0, "bos"));
	self->fd = -1;
}

TEST_F(dmabuf, retire_counts)
{
	int fds[3];
	__u32 n;

	fds[0] = gp_bo_export(self->fd, self->bo, 0, 4 * page_size, 0);
	fds[1] = gp_bo_export(self->fd, self->bo, 3 * page_size, 4 * page_size, 0);
	fds[2] = gp_bo_export(self->fd, self->bo, 0, BYTES, 0);
	ASSERT_LE(0, fds[2]);
	EXPECT_EQ(3, live(self->fd, self->bo, 0, BYTES));
	EXPECT_EQ(3, live(self->fd, self->bo, 3 * page_size, 1));
	EXPECT_EQ(3, live(self->fd, self->bo, 4 * page_size - 1, 1));
	EXPECT_EQ(2, live(self->fd, self->bo, 4 * page_size, 1));
	EXPECT_EQ(2, live(self->fd, self->bo, 0, 1));
	EXPECT_EQ(1, live(self->fd, self->bo, 7 * page_size, BYTES - 7 * page_size));
	/*
	 * Windows count by page: a byte behind the window's end counts if it is in the window's
	 * last page.
	 */
	close(fds[2]);
	EXPECT_TRUE(dev_attr_becomes(0, "exports", 2, 5));
	EXPECT_EQ(1, live(self->fd, self->bo, 7 * page_size - 1, 100));
	EXPECT_EQ(0, live(self->fd, self->bo, 7 * page_size, 100));
	EXPECT_EQ(-EINVAL, gp_bo_retire(self->fd, self->bo, 0, 0, 0, &n));
	EXPECT_EQ(-EOVERFLOW, gp_bo_retire(self->fd, self->bo, 0, BYTES + 1, 0, &n));
	EXPECT_EQ(-EOVERFLOW, gp_bo_retire(self->fd, self->bo, BYTES, 1, 0, &n));
	EXPECT_EQ(-EOVERFLOW, gp_bo_retire(self->fd, self->bo, -1, 2, 0, &n));
	/* A duplicate of a descriptor is the same DMA-buf.  */
	fds[2] = dup(fds[0]);
	EXPECT_EQ(2, live(self->fd, self->bo, 0, BYTES));
	close(fds[0]);
	EXPECT_EQ(2, live(self->fd, self->bo, 0, BYTES));
	close(fds[1]);
	close(fds[2]);
	EXPECT_TRUE(dev_attr_becomes(0, "exports", 0, 5));
	EXPECT_EQ(0, gp_bo_retire(self->fd, self->bo, 0, BYTES, 0, &n));
	EXPECT_EQ(0, n);
}

/* A mapping of a DMA-buf keeps the range live though its descriptor is closed. */
TEST_F(dmabuf, a_mapping_is_live)
{
	int fd = gp_bo_export(self->fd, self->bo, 0, page_size, 0);
	unsigned char *q;

	ASSERT_LE(0, fd);
	q = map_fd(fd, 0, page_size, RW);
	ASSERT_NE(NULL, q);
	close(fd);
	nap_ms(20);
	EXPECT_EQ(1, live(self->fd, self->bo, 0, page_size));
	munmap(q, page_size);
	EXPECT_TRUE(dev_attr_becomes(0, "exports", 0, 5));
	EXPECT_EQ(0, live(self->fd, self->bo, 0, page_size));
}

/* The same for a view that is mapped, then destroyed. */
TEST_F(dmabuf, a_views_mapping_is_live)
{
	int fd = gp_bo_export(self->fd, self->bo, 0, page_size, 0), other = gp_open(0);
	struct gpumem_bo_import import;
	unsigned char *q;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, gp_bo_import(other, fd, &import));
	close(fd);
	q = gp_map(other, import.id, 0, page_size, RW);
	ASSERT_NE(NULL, q);
	EXPECT_EQ(0, gp_destroy(other, import.id));
	close(other);
	nap_ms(20);
	/* A process can still write through q: the range is not free. */
	q[0] = 0x31;
	EXPECT_EQ(0x31, self->p[0]);
	EXPECT_LT(0, live(self->fd, self->bo, 0, page_size));
	munmap(q, page_size);
	EXPECT_TRUE(dev_attr_becomes(0, "views", 0, 5));
	EXPECT_EQ(0, live(self->fd, self->bo, 0, page_size));
}

/* --- other drivers; t_foreign.c tests their exports */

/* A DRM driver imports a DMA-buf of this module.  */
TEST_F(dmabuf, drm)
{
	int fd = gp_bo_export(self->fd, self->bo, 0, BYTES, 0), card = vgem_open();
	struct drm_prime prime = { .flags = O_CLOEXEC | O_RDWR, .fd = -1 };

	if (card < 0) {
		close(fd);
		SKIP(return, "no module vgem");
	}
	ASSERT_EQ(0, vgem_import(card, fd, &prime.handle));
	EXPECT_NE(0, prime.handle);
	/* The importer keeps the DMA-buf. */
	close(fd);
	nap_ms(20);
	EXPECT_EQ(1, dev_attr(0, "exports"));
	EXPECT_EQ(1, live(self->fd, self->bo, 0, 1));
	ASSERT_EQ(0, ioctl(card, DRM_TO_FD, &prime));
	EXPECT_EQ((off_t)BYTES, lseek(prime.fd, 0, SEEK_END));
	close(prime.fd);
	EXPECT_EQ(0, vgem_close(card, prime.handle));
	EXPECT_TRUE(dev_attr_becomes(0, "exports", 0, 5));
	EXPECT_EQ(0, live(self->fd, self->bo, 0, 1));
	close(card);
}

TEST_HARNESS_MAIN
