// SPDX-License-Identifier: GPL-2.0
/*
 * DMA-bufs of a range of addresses (GPUMEM_VM_EXPORT): what can be exported, what the descriptor reaches, how long the
 * memory lives, who counts it, and the limits.  t_share.c tests the fences.
 */
#include <fcntl.h>
#include <linux/dma-buf.h>
#include <sys/ioctl.h>
#include <sys/sysinfo.h>

#include "kselftest_harness.h"
#include "common/client_fixture.h"
#include "common/file.h"
#include "common/process.h"
#include "common/stream.h"
#include "common/util.h"
#include "common/vgem.h"

#define ADDR	0x300000000ULL
#define RW	(PROT_READ | PROT_WRITE)
#define PARTS	3

/*
 * Three buffer objects of different sizes, mapped side by side from a page of each on:
 * @start[i] is where part i begins in the range, and @start[PARTS] is the length of the range.
 */
FIXTURE(parts)
{
	struct leak_state leak;
	int fd;
	__u32 vm, bo[PARTS];
	unsigned char *p[PARTS];
	__u64 size[PARTS], start[PARTS + 1];
};

FIXTURE_SETUP(parts)
{
	const __u64 size[PARTS] = { 4 * MIB, 64 * KIB, 2 * MIB };

	client_begin(_metadata, &self->leak, &self->fd);
	ASSERT_EQ(0, gp_vm_create(self->fd, &self->vm));
	for (int i = 0; i < PARTS; i++) {
		self->p[i] = gp_alloc_map(self->fd, size[i], &self->bo[i]);
		ASSERT_NE(NULL, self->p[i]);
		memset(self->p[i], 10 * (i + 1), size[i]);
		self->size[i] = size[i] - page_size;
		ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo[i], page_size, ADDR + self->start[i],
				       self->size[i], i != 1, 0));
		self->start[i + 1] = self->start[i] + self->size[i];
	}
}

FIXTURE_TEARDOWN(parts)
{
	client_end(_metadata, &self->leak, self->fd, 10);
}

#define EXPORT(addr, length, flags)	gp_vm_export(self->fd, self->vm, addr, length, flags)
#define ALL	EXPORT(ADDR, self->start[PARTS], 0)

TEST_F(parts, errors)
{
	__u64 all = self->start[PARTS];
	struct gpumem_stats stats;

	EXPECT_EQ(-EINVAL, EXPORT(ADDR + 1, page_size, 0));
	EXPECT_EQ(-EINVAL, EXPORT(ADDR, page_size - 1, 0));
	EXPECT_EQ(-EINVAL, EXPORT(ADDR, 0, 0));
	EXPECT_EQ(-EINVAL, EXPORT(0, page_size, 0));
	EXPECT_EQ(-EINVAL, EXPORT(ADDR - page_size, 2 * page_size, 0));
	EXPECT_EQ(-EINVAL, EXPORT(ADDR, all + page_size, 0));
	EXPECT_EQ(-EINVAL, EXPORT(ADDR + all, page_size, 0));
	EXPECT_EQ(-EOVERFLOW, EXPORT(-page_size, 2 * page_size, 0));
	EXPECT_EQ(-EOPNOTSUPP, EXPORT(ADDR, all, GPUMEM_BO_EXPORT_HANDLE));
	EXPECT_EQ(-ENOENT, gp_vm_export(self->fd, self->bo[0], ADDR, all, 0));
	/* A hole in the middle. */
	ASSERT_EQ(0, gp_vm_unmap(self->fd, self->vm, ADDR + self->start[1], self->size[1], NULL));
	EXPECT_EQ(-EINVAL, EXPORT(ADDR, all, 0));
	ASSERT_EQ(0, gp_stats(self->fd, &stats));
	EXPECT_EQ(0, stats.exports);
	EXPECT_EQ(2, stats.mappings);
}

/* A range within one mapping makes the same DMA-buf as GPUMEM_BO_EXPORT does. */
TEST_F(parts, one)
{
	int fd = EXPORT(ADDR + page_size, page_size, GPUMEM_BO_EXPORT_CLOEXEC);
	struct gpumem_bo_import import;
	struct gpumem_bo_info info;
	unsigned char *q;

	ASSERT_LE(0, fd);
	EXPECT_EQ(FD_CLOEXEC, fcntl(fd, F_GETFD) & FD_CLOEXEC);
	ASSERT_EQ(0, gp_bo_import(self->fd, fd, &import));
	ASSERT_EQ(0, gp_bo_info(self->fd, import.id, &info));
	EXPECT_EQ(GPUMEM_BO_VIEW, info.kind);
	q = gp_map(self->fd, import.id, 0, page_size, RW);
	ASSERT_NE(NULL, q);
	q[1] = 77;
	EXPECT_EQ(77, self->p[0][2 * page_size + 1]);
	close(fd);
}

/* The bytes of the range, in both directions, and nothing behind its ends. */
TEST_F(parts, mmap)
{
	__u64 from = self->size[0] - 2 * page_size, length = self->size[1] + 3 * page_size;
	int fd = EXPORT(ADDR + from, length, 0), file;
	unsigned char *q;

	ASSERT_LE(0, fd);
	EXPECT_EQ((off_t)length, lseek(fd, 0, SEEK_END));
	q = mmap(NULL, length, RW, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, q);
	for (__u64 i = 0; i < length; i++) {
		int want = i < 2 * page_size ? 10 : i < 2 * page_size + self->size[1] ? 20 : 30;

		if (q[i] != want)
			ASSERT_EQ(want, q[i]) TH_LOG("byte %llu", i);
	}
	memset(q, 99, length);
	EXPECT_EQ(10, self->p[0][self->size[0] - page_size - 1]);
	EXPECT_EQ(99, self->p[0][self->size[0] - page_size]);
	EXPECT_EQ(20, self->p[1][page_size - 1]);
	EXPECT_EQ(99, self->p[1][page_size]);
	EXPECT_EQ(99, self->p[1][page_size + self->size[1] - 1]);
	EXPECT_EQ(99, self->p[2][2 * page_size - 1]);
	EXPECT_EQ(30, self->p[2][2 * page_size]);
	/* The kernel reaches the pages, too: it pins them for a direct read, or copies. */
	file = open("/proc/version", O_RDONLY);
	ASSERT_LE(0, file);
	EXPECT_LT(8, read(file, q + 2 * page_size - 4, 16));
	EXPECT_EQ(0, memcmp(self->p[0] + self->size[0] + page_size - 4, "Linu", 4));
	EXPECT_EQ(0, memcmp(self->p[1] + page_size, "x ver", 5));
	close(file);
	EXPECT_EQ(MAP_FAILED, mremap(q, length, length + page_size, MREMAP_MAYMOVE));
	EXPECT_EQ(0, munmap(q, length));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, length + page_size, RW, MAP_SHARED, fd, 0));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, page_size, RW, MAP_SHARED, fd, length));
	EXPECT_EQ(MAP_FAILED, mmap(NULL, page_size, RW, MAP_PRIVATE, fd, 0));
	/* The last page, by an offset. */
	q = mmap(NULL, page_size, PROT_READ, MAP_SHARED, fd, length - page_size);
	ASSERT_NE(MAP_FAILED, q);
	EXPECT_EQ(99, q[page_size - 1]);
	close(fd);
	/* The mapping keeps the DMA-buf. */
	EXPECT_EQ(1, dev_attr(0, "exports"));
	EXPECT_EQ(99, q[0]);
	munmap(q, page_size);
	EXPECT_TRUE(dev_attr_becomes(0, "exports", 0, 5));
}

TEST_F(parts, read_only)
{
	int fd = EXPORT(ADDR, self->start[PARTS], GPUMEM_BO_EXPORT_RDONLY);
	struct gpumem_bo_import import;
	unsigned char *q;

	ASSERT_LE(0, fd);
	EXPECT_EQ(MAP_FAILED, mmap(NULL, page_size, RW, MAP_SHARED, fd, 0));
	q = mmap(NULL, page_size, PROT_READ, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, q);
	EXPECT_EQ(10, q[0]);
	EXPECT_EQ(-1, mprotect(q, page_size, RW));
	EXPECT_EQ(-EACCES, gp_bo_import(self->fd, fd, &import));
	munmap(q, page_size);
	close(fd);
}

/* The same memory twice in a range. */
TEST_F(parts, aliases)
{
	__u64 at = ADDR + 64 * MIB, n = 4 * page_size;
	unsigned char *q;
	int fd;

	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo[0], 0, at, n, 0, 0));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo[0], page_size, at + n, n, 0, 0));
	fd = EXPORT(at, 2 * n, 0);
	ASSERT_LE(0, fd);
	q = mmap(NULL, 2 * n, RW, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, q);
	q[page_size] = 91;
	EXPECT_EQ(91, q[n]);
	EXPECT_EQ(91, self->p[0][page_size]);
	munmap(q, 2 * n);
	close(fd);
}

/* The DMA-buf keeps what was mapped, and counts until it is gone. */
TEST_F(parts, outlives_the_mappings)
{
	__u64 all = self->start[PARTS];
	struct gpumem_stats stats;
	unsigned char *q;
	__u32 live;
	int fd = ALL;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, gp_stats(self->fd, &stats));
	EXPECT_EQ(1, stats.exports);
	EXPECT_EQ(all, stats.export_bytes);
	/* Each part counts as a mapping. */
	EXPECT_EQ(2 * PARTS, stats.mappings);
	ASSERT_EQ(0, gp_bo_retire(self->fd, self->bo[1], page_size, page_size, GPUMEM_BO_RETIRE_QUERY,
				  &live));
	EXPECT_EQ(1, live);
	ASSERT_EQ(0, gp_bo_retire(self->fd, self->bo[1], 0, page_size, GPUMEM_BO_RETIRE_QUERY, &live));
	EXPECT_EQ(0, live);
	ASSERT_EQ(0, gp_vm_unmap(self->fd, self->vm, ADDR, all, NULL));
	for (int i = 0; i < PARTS; i++) {
		munmap(self->p[i], self->size[i] + page_size);
		EXPECT_EQ(0, gp_destroy(self->fd, self->bo[i]));
	}
	EXPECT_EQ(0, gp_destroy(self->fd, self->vm));
	ASSERT_EQ(0, gp_stats(self->fd, &stats));
	EXPECT_EQ(PARTS, stats.mappings);
	q = mmap(NULL, all, RW, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, q);
	for (int i = 0; i < PARTS; i++) {
		EXPECT_EQ(10 * (i + 1), q[self->start[i]]);
		EXPECT_EQ(10 * (i + 1), q[self->start[i + 1] - 1]);
	}
	munmap(q, all);
	close(fd);
	EXPECT_TRUE(dev_attr_becomes(0, "exports", 0, 5));
	ASSERT_EQ(0, gp_stats(self->fd, &stats));
	EXPECT_EQ(0, stats.mappings);
	EXPECT_EQ(0, stats.export_bytes);
}

/* After the client that made it has closed. */
TEST_F(parts, outlives_its_maker)
{
	__u64 all = self->start[PARTS];
	unsigned char *q;
	int fd = ALL;

	ASSERT_LE(0, fd);
	unmap_all();
	close(self->fd);
	q = mmap(NULL, all, RW, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, q);
	EXPECT_EQ(10, q[0]);
	EXPECT_EQ(30, q[all - 1]);
	munmap(q, all);
	EXPECT_EQ(1, dev_attr(0, "exports"));
	close(fd);
	self->fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

/* A client imports the DMA-buf as a buffer object, and an engine copies across its parts. */
TEST_F(parts, import)
{
	__u64 all = self->start[PARTS], at = ADDR + 64 * MIB, to = ADDR + 128 * MIB;
	struct gpumem_bo_import import;
	struct gpumem_sqe sqe;
	unsigned char *q;
	struct stream s;
	int fd = ALL, other = gp_open(0);
	__u32 vm, bo;

	ASSERT_LE(0, fd);
	ASSERT_LE(0, other);
	ASSERT_EQ(0, gp_bo_import(other, fd, &import));
	EXPECT_EQ(all, import.length);
	close(fd);
	q = gp_alloc_map(other, all + page_size * PARTS, &bo);
	ASSERT_NE(NULL, q);
	ASSERT_EQ(0, gp_vm_create(other, &vm));
	ASSERT_EQ(0, gp_vm_map(other, vm, import.id, 0, at, all, 1, 1));
	ASSERT_EQ(0, gp_vm_map(other, vm, bo, 0, to, all, 1, 1));
	ASSERT_EQ(0, stream_open(&s, other, vm, 0, 16));
	sqe = sqe_copy(to, at, all);
	ASSERT_EQ(0, stream_push(&s, &sqe));
	sqe = sqe_fill(at + page_size, 1, 44, all - 2 * page_size);
	ASSERT_EQ(0, stream_push(&s, &sqe));
	ASSERT_EQ(0, stream_sync(&s));
	for (int i = 0; i < PARTS; i++) {
		EXPECT_EQ(10 * (i + 1), q[self->start[i]]);
		EXPECT_EQ(10 * (i + 1), q[self->start[i + 1] - 1]);
		EXPECT_EQ(44, self->p[i][3 * page_size]);
	}
	EXPECT_EQ(10, self->p[0][2 * page_size - 1]);
	EXPECT_EQ(30, self->p[2][2 * MIB - page_size]);
	q = gp_map(other, import.id, 0, all, RW);
	ASSERT_NE(NULL, q);
	EXPECT_EQ(44, q[self->start[1]]);
	unmap_all();
	close(other);
}

/* A DRM driver imports it: the scatter list goes over all parts. */
TEST_F(parts, drm)
{
	int fd = ALL, card = vgem_open();
	struct drm_prime prime = { .flags = O_CLOEXEC | O_RDWR, .fd = -1 };

	ASSERT_LE(0, fd);
	if (card < 0) {
		close(fd);
		SKIP(return, "no module vgem");
	}
	ASSERT_EQ(0, vgem_import(card, fd, &prime.handle));
	close(fd);
	nap_ms(20);
	EXPECT_EQ(1, dev_attr(0, "exports"));
	ASSERT_EQ(0, ioctl(card, DRM_TO_FD, &prime));
	EXPECT_EQ((off_t)self->start[PARTS], lseek(prime.fd, 0, SEEK_END));
	close(prime.fd);
	EXPECT_EQ(0, vgem_close(card, prime.handle));
	EXPECT_TRUE(dev_attr_becomes(0, "exports", 0, 5));
	close(card);
}

/* Begin and end of CPU access wait for nothing here, and must succeed. */
TEST_F(parts, sync)
{
	struct dma_buf_sync sync = { .flags = DMA_BUF_SYNC_RW | DMA_BUF_SYNC_START };
	int fd = ALL;

	ASSERT_LE(0, fd);
	EXPECT_EQ(0, ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync));
	sync.flags = DMA_BUF_SYNC_RW | DMA_BUF_SYNC_END;
	EXPECT_EQ(0, ioctl(fd, DMA_BUF_IOCTL_SYNC, &sync));
	close(fd);
}

/* The owner of the memory can always export; of other clients only some can at the same time. */
TEST_F(parts, clients)
{
	enum { MOST = 8 };
	__u32 vm, id[2];
	int handle[2], fd[MOST + 1], export[MOST + 1], own;

	for (int i = 0; i < 2; i++) {
		__u64 size = i ? 64 * KIB : 4 * MIB;

		handle[i] = gp_bo_export(self->fd, self->bo[i], 0, size, GPUMEM_BO_EXPORT_HANDLE);
		ASSERT_LE(0, handle[i]);
	}
	for (int i = 0; i <= MOST; i++) {
		fd[i] = gp_open(0);
		ASSERT_LE(0, fd[i]);
		ASSERT_EQ(0, gp_vm_create(fd[i], &vm));
		for (int j = 0; j < 2; j++) {
			struct gpumem_bo_import import = {
				.size = sizeof(import), .fd = handle[j],
				.flags = GPUMEM_BO_IMPORT_HANDLE,
			};

			ASSERT_EQ(0, gp_ioctl(fd[i], GPUMEM_BO_IMPORT, &import));
			id[j] = import.id;
		}
		ASSERT_EQ(0, gp_vm_map(fd[i], vm, id[0], 0, ADDR, 4 * MIB, 0, 0));
		ASSERT_EQ(0, gp_vm_map(fd[i], vm, id[1], 0, ADDR + 4 * MIB, 64 * KIB, 0, 0));
		export[i] = gp_vm_export(fd[i], vm, ADDR, 4 * MIB + 64 * KIB, 0);
		if (i < MOST) {
			EXPECT_LE(0, export[i]);
		} else {
			EXPECT_EQ(-EBUSY, export[i]);
		}
	}
	own = ALL;
	EXPECT_LE(0, own);
	close(own);
	/* When one has gone, there is room for another. */
	close(export[0]);
	nap_ms(20);
	export[0] = gp_vm_export(fd[MOST], vm, ADDR, 4 * MIB + 64 * KIB, 0);
	EXPECT_LE(0, export[0]);
	for (int i = 0; i < MOST; i++)
		close(export[i]);
	for (int i = 0; i <= MOST; i++)
		close(fd[i]);
	close(handle[0]);
	close(handle[1]);
}

/* A range with too many mappings changes nothing; the longest that is allowed works. */
TEST_F_TIMEOUT(parts, most, 300)
{
	__u64 at = ADDR + 64 * MIB, n = GPUMEM_EXPORT_PARTS;
	struct gpumem_stats stats;
	unsigned char *q;
	int fd;

	for (__u64 i = 0; i <= n; i++)
		ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo[i % 2], i % 8 * page_size,
				       at + i * page_size, page_size, 0, 0));
	EXPECT_EQ(-EMFILE, EXPORT(at, (n + 1) * page_size, 0));
	ASSERT_EQ(0, gp_stats(self->fd, &stats));
	EXPECT_EQ(n + 1 + PARTS, stats.mappings);
	EXPECT_EQ(0, stats.exports);
	fd = EXPORT(at, n * page_size, 0);
	ASSERT_LE(0, fd);
	q = mmap(NULL, n * page_size, PROT_READ, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, q);
	EXPECT_EQ(10, q[0]);
	EXPECT_EQ(20, q[(n - 1) * page_size]);
	munmap(q, n * page_size);
	close(fd);
	EXPECT_TRUE(dev_attr_becomes(0, "exports", 0, 60));
}

/* A client cannot make a DMA-buf that is longer than the machine's memory, by mapping a little memory often. */
TEST_F(parts, longer_than_memory)
{
	__u64 at = ADDR + 64 * MIB, size = 4 * MIB, n;
	struct gpumem_stats stats;
	struct sysinfo info;
	int fd;

	ASSERT_EQ(0, sysinfo(&info));
	n = (__u64)info.totalram * info.mem_unit / size + 1;
	ASSERT_GE((__u64)GPUMEM_EXPORT_PARTS, n) TH_LOG("a machine with too much memory for this test");
	for (__u64 i = 0; i < n; i++)
		ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo[0], 0, at + i * size, size, 0, 0));
	EXPECT_EQ(-EOVERFLOW, EXPORT(at, n * size, 0));
	ASSERT_EQ(0, gp_stats(self->fd, &stats));
	EXPECT_EQ(0, stats.exports);
	EXPECT_EQ(n + PARTS, stats.mappings);
	fd = EXPORT(at, (n - 1) * size, 0);
	EXPECT_LE(0, fd);
	close(fd);
}

TEST_HARNESS_MAIN
