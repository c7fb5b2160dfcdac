// SPDX-License-Identifier: GPL-2.0
/*
 * Files and block devices, straight from and to device pointers: O_DIRECT, fixed buffers of io_uring, polled
 * completion, vmsplice and splice. No copy by the engine and none by the program. Memory that the kernel has pinned for
 * an operation stays charged until the kernel lets go of it, and nobody else gets it before.
 *
 * Without an NVMe disk, ext4 on a loop device takes its place; host/storage_guest.sh has a disk. A ublk device has a
 * process as its disk, which keeps the bytes in plain memory, or in device memory of its own.
 */
#include <liburing.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "kselftest_harness.h"
#include "cufile_fixture.h"
#include "ublk_server.h"

#define NVME	"/dev/nvme0n1"
#define BYTES	(2 * MIB)

FIXTURE(storage)
{
	CUcontext ctx;
	CUdeviceptr dev;
	unsigned char *mem;
	char dir[32];
	int fd;
	struct ublk ublk;
};

enum disk { LOOP, DISK, UBLK, UBLK_DEVICE };

FIXTURE_VARIANT(storage)
{
	const char *fs;		/* NULL: the block device */
	enum disk disk;
};

FIXTURE_VARIANT_ADD(storage, loop_ext4) { "ext4", LOOP };
FIXTURE_VARIANT_ADD(storage, nvme) { NULL, DISK };
FIXTURE_VARIANT_ADD(storage, nvme_ext4) { "ext4", DISK };
FIXTURE_VARIANT_ADD(storage, nvme_xfs) { "xfs", DISK };
FIXTURE_VARIANT_ADD(storage, ublk) { NULL, UBLK };
FIXTURE_VARIANT_ADD(storage, ublk_ext4) { "ext4", UBLK };
FIXTURE_VARIANT_ADD(storage, ublk_device) { NULL, UBLK_DEVICE };

static int shell(const char *format, const char *a, const char *b, const char *c)
{
	char command[512];

	snprintf(command, sizeof(command), format, a, b, c);
	return system(command);
}

FIXTURE_SETUP(storage)
{
	const char *path = NVME;
	struct stat st;

	if (variant->disk == DISK && (stat(NVME, &st) || !S_ISBLK(st.st_mode)))
		SKIP(return, "no " NVME);
	if (variant->disk == LOOP && !*disk_dir)
		SKIP(return, "no ext4 on a loop device");
	if (variant->disk >= UBLK) {
		int error = ublk_start(&self->ublk, variant->disk == UBLK_DEVICE);

		if (error == -ENODEV)
			SKIP(return, "no ublk");
		ASSERT_EQ(0, error);
		path = self->ublk.path;
	}
	/* The server may have device memory already. */
	if (variant->disk == UBLK_DEVICE) {
		ASSERT_CU(cuda_start(&self->ctx));
	} else {
		cuda_begin(_metadata, &self->ctx);
	}
	ASSERT_CU(cuMemAlloc(&self->dev, BYTES));
	self->mem = malloc(BYTES);
	fill_pattern(self->mem, BYTES, 11);
	put(self->dev, self->mem, BYTES);
	if (variant->disk == LOOP) {
		self->fd = file_make(true, O_DIRECT);
	} else if (!variant->fs) {
		self->fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
	} else {
		char file[64];

		strcpy(self->dir, "/dev/shm/storage.XXXXXX");
		ASSERT_NE(NULL, mkdtemp(self->dir));
		ASSERT_EQ(0, shell("modprobe %1$s && mkfs.%1$s -q -%2$s %3$s", variant->fs,
				   strcmp(variant->fs, "xfs") ? "F -E nodiscard" : "f -K", path));
		ASSERT_EQ(0, mount(path, self->dir, variant->fs, 0, NULL));
		snprintf(file, sizeof(file), "%s/file", self->dir);
		self->fd = open(file, O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
	}
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(storage)
{
	if (self->fd > 0)
		close(self->fd);
	if (*self->dir) {
		EXPECT_EQ(0, umount(self->dir));
		rmdir(self->dir);
	}
	if (self->ublk.server)
		EXPECT_EQ(0, ublk_stop(&self->ublk));
}

static bool file_has(int fd, const unsigned char *want, size_t n)
{
	unsigned char *have = aligned_alloc(4096, n);
	bool same = have && pread(fd, have, n, 0) == (ssize_t)n && !memcmp(have, want, n);

	free(have);
	return same;
}

/* One operation; its result, as of the system call. */
static int ring_one(struct io_uring *ring, void (*prepare)(struct io_uring_sqe *, int, CUdeviceptr), int fd,
		    CUdeviceptr dev)
{
	struct io_uring_cqe *cqe;
	int result;

	prepare(io_uring_get_sqe(ring), fd, dev);
	if (io_uring_submit(ring) != 1 || io_uring_wait_cqe(ring, &cqe))
		return -ENODATA;
	result = cqe->res;
	io_uring_cqe_seen(ring, cqe);
	return result;
}

static void write_fixed(struct io_uring_sqe *sqe, int fd, CUdeviceptr dev)
{
	io_uring_prep_write_fixed(sqe, fd, (void *)dev, BYTES, 0, 0);
}

static void read_fixed(struct io_uring_sqe *sqe, int fd, CUdeviceptr dev)
{
	io_uring_prep_read_fixed(sqe, fd, (void *)dev, BYTES, 0, 0);
}

TEST_F(storage, direct)
{
	struct iovec parts[2] = {
		{ (void *)(self->dev + 1 * MIB), 64 * KIB }, { (void *)self->dev, 64 * KIB },
	};
	struct meter before, after;

	ASSERT_EQ(0, meter_read(&before));
	ASSERT_EQ(BYTES, pwrite(self->fd, (void *)self->dev, BYTES, 0));
	EXPECT_TRUE(file_has(self->fd, self->mem, BYTES));
	poke(self->dev, 0, BYTES);
	ASSERT_EQ(BYTES, pread(self->fd, (void *)self->dev, BYTES, 0));
	EXPECT_EQ(0, memcmp(cpu(self->dev), self->mem, BYTES));
	ASSERT_EQ(128 * KIB, preadv(self->fd, parts, 2, 0));
	EXPECT_EQ(0, memcmp(cpu(self->dev), self->mem + 64 * KIB, 64 * KIB));
	EXPECT_EQ(0, memcmp(cpu(self->dev + 1 * MIB), self->mem, 64 * KIB));
	ASSERT_EQ(0, meter_read(&after));
	EXPECT_EQ(before.copied, after.copied);
}

/* Fixed buffers pin device memory for as long as the ring has them. */
TEST_F(storage, fixed_buffers)
{
	struct iovec buffer = { (void *)self->dev, BYTES };
	CUdeviceptr other;
	struct io_uring ring;

	ASSERT_EQ(0, io_uring_queue_init(8, &ring, 0));
	ASSERT_EQ(0, io_uring_register_buffers(&ring, &buffer, 1));
	ASSERT_EQ(BYTES, ring_one(&ring, write_fixed, self->fd, self->dev));
	EXPECT_TRUE(file_has(self->fd, self->mem, BYTES));
	poke(self->dev, 0, BYTES);
	ASSERT_EQ(BYTES, ring_one(&ring, read_fixed, self->fd, self->dev));
	EXPECT_EQ(0, memcmp(cpu(self->dev), self->mem, BYTES));

	/* The ring keeps the pages of freed memory. They do not become another allocation's. */
	ASSERT_CU(cuMemFree(self->dev));
	ASSERT_CU(cuMemAlloc(&other, BYTES));
	poke(other, 0x5a, BYTES);
	ASSERT_EQ(BYTES, ring_one(&ring, read_fixed, self->fd, self->dev));
	EXPECT_TRUE(sees(other, 0x5a, BYTES));
	ASSERT_EQ(BYTES, ring_one(&ring, write_fixed, self->fd, self->dev));
	EXPECT_TRUE(file_has(self->fd, self->mem, BYTES));
	ASSERT_EQ(0, io_uring_unregister_buffers(&ring));
	io_uring_queue_exit(&ring);
}

TEST_F(storage, polled)
{
	struct iovec buffer = { (void *)self->dev, BYTES };
	struct io_uring ring;
	int result;

	ASSERT_EQ(0, io_uring_queue_init(8, &ring, IORING_SETUP_IOPOLL));
	ASSERT_EQ(0, io_uring_register_buffers(&ring, &buffer, 1));
	ASSERT_EQ(BYTES, pwrite(self->fd, (void *)self->dev, BYTES, 0));
	poke(self->dev, 0, BYTES);
	result = ring_one(&ring, read_fixed, self->fd, self->dev);
	if (result == -EOPNOTSUPP && variant->disk != DISK)
		SKIP(return, "the device is not polled");
	ASSERT_EQ(BYTES, result);
	EXPECT_EQ(0, memcmp(cpu(self->dev), self->mem, BYTES));
	fill_pattern(self->mem, BYTES, 12);
	put(self->dev, self->mem, BYTES);
	ASSERT_EQ(BYTES, ring_one(&ring, write_fixed, self->fd, self->dev));
	EXPECT_TRUE(file_has(self->fd, self->mem, BYTES));
	poke(self->dev, 0, BYTES);
	ASSERT_EQ(BYTES, ring_one(&ring, read_fixed, self->fd, self->dev));
	EXPECT_EQ(0, memcmp(cpu(self->dev), self->mem, BYTES));
	io_uring_queue_exit(&ring);
}

/* Deep queues of small operations at once, at random places, against what the file must have. */
TEST_F(storage, deep)
{
	enum { N = 64, ONE = 16384 };
	struct io_uring ring;
	struct rng r;

	rng_start(&r, "storage.deep");
	ASSERT_EQ(0, io_uring_queue_init(N, &ring, 0));
	for (int round = 0; round < 4; round++) {
		bool write = !(round & 1);

		if (write) {
			rng_fill(&r, self->mem, N * ONE);
			put(self->dev, self->mem, N * ONE);
		} else {
			poke(self->dev, 0, N * ONE);
		}
		for (int i = 0; i < N; i++) {
			struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
			int at = (i * 37 + round / 2) % N * ONE;

			if (write)
				io_uring_prep_write(sqe, self->fd, (void *)(self->dev + at), ONE, at);
			else
				io_uring_prep_read(sqe, self->fd, (void *)(self->dev + at), ONE, at);
		}
		ASSERT_EQ(N, io_uring_submit(&ring));
		for (int i = 0; i < N; i++) {
			struct io_uring_cqe *cqe;

			ASSERT_EQ(0, io_uring_wait_cqe(&ring, &cqe));
			ASSERT_EQ(ONE, cqe->res);
			io_uring_cqe_seen(&ring, cqe);
		}
		EXPECT_EQ(0, memcmp(cpu(self->dev), self->mem, N * ONE));
	}
	EXPECT_TRUE(file_has(self->fd, self->mem, N * ONE));
	io_uring_queue_exit(&ring);
}

/* Pages of device memory go by a pipe into a file. */
TEST_F(storage, vmsplice)
{
	struct iovec part = { (void *)self->dev, 64 * KIB };
	int pipes[2];
	size_t done = 0;

	ASSERT_EQ(0, pipe(pipes));
	/* The pipe may take no more than it has room for. */
	ASSERT_EQ(64 * KIB, vmsplice(pipes[1], &part, 1, 0));
	while (done < 64 * KIB) {
		off_t at = done;
		ssize_t n = splice(pipes[0], NULL, self->fd, &at, 64 * KIB - done, 0);

		/* A file with O_DIRECT may refuse pages of a pipe, but never takes others. */
		if (n < 0)
			break;
		ASSERT_LT(0, n);
		done += n;
	}
	if (done)
		EXPECT_TRUE(file_has(self->fd, self->mem, done & ~4095ul));
	/* Into memory: a file's pages come by a pipe, which read() copies. */
	ASSERT_EQ(64 * KIB, pwrite(self->fd, (void *)self->dev, 64 * KIB, 0));
	close(pipes[0]);
	close(pipes[1]);
	ASSERT_EQ(0, pipe(pipes));
	for (done = 0; done < 64 * KIB; ) {
		off_t at = done;
		ssize_t n = splice(self->fd, &at, pipes[1], NULL, 4096, 0);

		ASSERT_LT(0, n);
		ASSERT_EQ(n, read(pipes[0], (void *)(self->dev + 1 * MIB + done), n));
		done += n;
	}
	EXPECT_EQ(0, memcmp(cpu(self->dev + 1 * MIB), self->mem, 64 * KIB));
}

/* A pipe keeps the pages of freed memory, as fixed buffers do. */
TEST_F(storage, pipe_keeps)
{
	struct iovec part = { (void *)self->dev, 64 * KIB };
	unsigned char *back = malloc(64 * KIB);
	CUdeviceptr other;
	size_t done = 0;
	int pipes[2];

	ASSERT_EQ(0, pipe(pipes));
	ASSERT_EQ(64 * KIB, vmsplice(pipes[1], &part, 1, 0));
	ASSERT_CU(cuMemFree(self->dev));
	ASSERT_CU(cuMemAlloc(&other, BYTES));
	poke(other, 0x5a, BYTES);
	while (done < 64 * KIB) {
		ssize_t n = read(pipes[0], back + done, 64 * KIB - done);

		ASSERT_LT(0, n);
		done += n;
	}
	/* The old bytes, or zeroes if the memory was cleared: never those of another allocation. */
	for (size_t i = 0; i < done; i++)
		ASSERT_TRUE(back[i] == self->mem[i] || !back[i]);
	EXPECT_TRUE(sees(other, 0x5a, BYTES));
	free(back);
}

CUFILE_MAIN
