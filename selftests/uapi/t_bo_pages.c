// SPDX-License-Identifier: GPL-2.0
/*
 * Pages of a buffer object that another subsystem holds: buffers of io_uring, pipes, copies between
 * processes, O_DIRECT.  The pages stay charged, and keep their contents, until the subsystem
 * releases them.
 */
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "kselftest_harness.h"
#include "common/leak.h"
#include "common/util.h"

#define RW	(PROT_READ | PROT_WRITE)

/* --- pages pinned by other subsystems */

struct uring {
	int fd;
	struct io_uring_params p;
	char *sq, *cq;
	struct io_uring_sqe *sqes;
};

static int uring_open(struct uring *u)
{
	memset(u, 0, sizeof(*u));
	u->fd = syscall(__NR_io_uring_setup, 4, &u->p);
	if (u->fd < 0)
		return -errno;
	u->sq = mmap(NULL, u->p.sq_off.array + u->p.sq_entries * 4, RW, MAP_SHARED, u->fd,
		     IORING_OFF_SQ_RING);
	u->cq = mmap(NULL, u->p.cq_off.cqes + u->p.cq_entries * sizeof(struct io_uring_cqe), RW,
		     MAP_SHARED, u->fd, IORING_OFF_CQ_RING);
	u->sqes = mmap(NULL, u->p.sq_entries * sizeof(struct io_uring_sqe), RW, MAP_SHARED, u->fd,
		       IORING_OFF_SQES);
	return u->sq == MAP_FAILED || u->cq == MAP_FAILED || u->sqes == MAP_FAILED ? -errno : 0;
}

/* One fixed-buffer operation: its result. */
static int uring_fixed(struct uring *u, int op, int fd, void *p, unsigned int len, __u64 offset)
{
	unsigned int *tail = (void *)(u->sq + u->p.sq_off.tail);
	unsigned int *mask = (void *)(u->sq + u->p.sq_off.ring_mask);
	unsigned int *array = (void *)(u->sq + u->p.sq_off.array);
	unsigned int *head = (void *)(u->cq + u->p.cq_off.head);
	unsigned int *cmask = (void *)(u->cq + u->p.cq_off.ring_mask);
	struct io_uring_cqe *cqes = (void *)(u->cq + u->p.cq_off.cqes);
	unsigned int slot = *tail & *mask;
	int res;

	u->sqes[slot] = (struct io_uring_sqe) {
		.opcode = op, .fd = fd, .addr = (unsigned long)p, .len = len, .off = offset,
	};
	array[slot] = slot;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	if (syscall(__NR_io_uring_enter, u->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) != 1)
		return -errno;
	res = cqes[*head & *cmask].res;
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	return res;
}

FIXTURE(pin)
{
	struct leak_state leak;
	int fd, file;
	__u32 id;
	unsigned char *p;
	struct uring u;
	struct rng r;
};

FIXTURE_VARIANT(pin)
{
	size_t length;
};

FIXTURE_VARIANT_ADD(pin, small) { 64 * KIB };
FIXTURE_VARIANT_ADD(pin, huge) { 4 * MIB };

FIXTURE_SETUP(pin)
{
	int ret;

	ASSERT_TRUE(dev_quiet(10));
	leak_begin(&self->leak);
	rng_start(&self->r, "pin");
	self->fd = gp_open(0);
	ASSERT_LE(0, self->fd);
	self->p = gp_alloc_map(self->fd, variant->length, &self->id);
	ASSERT_NE(NULL, self->p);
	self->file = memfd_create("contents", MFD_CLOEXEC);
	ASSERT_LE(0, self->file);
	ASSERT_EQ(0, ftruncate(self->file, variant->length));
	ret = uring_open(&self->u);
	if (ret == -ENOSYS || ret == -EPERM)
		SKIP(return, "io_uring: %s", strerror(-ret));
	ASSERT_EQ(0, ret);
}

FIXTURE_TEARDOWN(pin)
{
	unmap_all();
	close(self->u.fd);
	close(self->file);
	close(self->fd);
	EXPECT_TRUE(dev_quiet(20));
	EXPECT_TRUE(leak_end(&self->leak));
}

TEST_F(pin, registered_buffer)
{
	struct iovec iov = { self->p, variant->length };
	unsigned char *want = malloc(variant->length);

	rng_fill(&self->r, want, variant->length);
	ASSERT_EQ(0, syscall(__NR_io_uring_register, self->u.fd, IORING_REGISTER_BUFFERS, &iov, 1));
	ASSERT_EQ((ssize_t)variant->length, pwrite(self->file, want, variant->length, 0));
	EXPECT_EQ((int)variant->length, uring_fixed(&self->u, IORING_OP_READ_FIXED, self->file,
						    self->p, variant->length, 0));
	EXPECT_EQ(0, memcmp(want, self->p, variant->length));
	/* The reverse direction: write from the middle of the buffer to the file.  */
	for (size_t i = 0; i < variant->length; i++)
		self->p[i] = ~want[i];
	EXPECT_EQ(9999, uring_fixed(&self->u, IORING_OP_WRITE_FIXED, self->file, self->p + 12345,
				    9999, 12345));
	EXPECT_EQ((ssize_t)variant->length, pread(self->file, want, variant->length, 0));
	for (size_t i = 12345; i < 12345 + 9999; i++) {
		ASSERT_EQ(self->p[i], want[i]);
	}
	EXPECT_NE(self->p[12344], want[12344]);
	EXPECT_EQ(0, syscall(__NR_io_uring_register, self->u.fd, IORING_UNREGISTER_BUFFERS, NULL,
			     0));
	free(want);
}

/* A pin outlives the mapping, the id and the client, and stays charged. */
TEST_F_TIMEOUT(pin, outlives_everything, 60)
{
	struct iovec iov = { self->p, variant->length };
	int pipes[2];
	char byte;

	memset(self->p, 0x42, variant->length);
	ASSERT_EQ(0, syscall(__NR_io_uring_register, self->u.fd, IORING_REGISTER_BUFFERS, &iov, 1));
	ASSERT_EQ(0, munmap(self->p, variant->length));
	EXPECT_EQ(0, gp_destroy(self->fd, self->id));
	close(self->fd);
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 0, 5));
	EXPECT_TRUE(dev_attr_becomes(0, "bos", 0, 5));
	nap_ms(300);
	EXPECT_EQ((long long)variant->length, dev_attr(0, "used"));
	/* The module stays as long as the memory can be reached. */
	EXPECT_EQ(-1, syscall(SYS_delete_module, "gpumem", O_NONBLOCK));
	EXPECT_EQ(EWOULDBLOCK, errno);
	/* Another client does not get these pages: the pin reads the bytes that were written. */
	self->fd = gp_open(0);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, pipe(pipes));
	EXPECT_EQ(1, uring_fixed(&self->u, IORING_OP_WRITE_FIXED, pipes[1], self->p + 5000, 1, -1));
	EXPECT_EQ(1, read(pipes[0], &byte, 1));
	EXPECT_EQ(0x42, byte);
	EXPECT_EQ(0, syscall(__NR_io_uring_register, self->u.fd, IORING_UNREGISTER_BUFFERS, NULL,
			     0));
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 20));
}

/*
 * A page in a pipe is not pinned, but the pipe holds a reference: the page stays charged, and no
 * other client gets it.
 */
TEST_F_TIMEOUT(pin, a_pipe_keeps_it, 60)
{
	struct iovec iov = { self->p + page_size, page_size };
	int pipes[2], caches;
	__u32 live = 0;
	char byte;

	/*
	 * A CPU on which a part of the memory was populated may still have its pages in a batch for
	 * the LRU lists, which counts as a reference.  This drains the batches of all CPUs.
	 */
	caches = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
	ASSERT_LE(0, caches);
	EXPECT_EQ(1, write(caches, "1", 1));
	close(caches);
	EXPECT_EQ(0, gp_bo_retire(self->fd, self->id, 0, variant->length, GPUMEM_BO_RETIRE_QUERY,
				  &live));
	EXPECT_EQ(0, live);
	memset(self->p, 0x42, variant->length);
	ASSERT_EQ(0, pipe(pipes));
	ASSERT_EQ((ssize_t)page_size, vmsplice(pipes[1], &iov, 1, 0));
	EXPECT_EQ(0, gp_bo_retire(self->fd, self->id, page_size, page_size, 0, &live));
	EXPECT_LT(0, live);
	ASSERT_EQ(0, munmap(self->p, variant->length));
	EXPECT_EQ(0, gp_destroy(self->fd, self->id));
	nap_ms(300);
	EXPECT_EQ((long long)variant->length, dev_attr(0, "used"));
	EXPECT_EQ(1, read(pipes[0], &byte, 1));
	EXPECT_EQ(0x42, byte);
	close(pipes[0]);
	close(pipes[1]);
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 20));
}

TEST_F(pin, vmsplice)
{
	struct iovec iov = { self->p + page_size, 4 * page_size };
	unsigned char *got = malloc(4 * page_size);
	int pipes[2];
	size_t n = 0;

	rng_fill(&self->r, self->p, 8 * page_size);
	ASSERT_EQ(0, pipe(pipes));
	ASSERT_EQ((ssize_t)iov.iov_len, vmsplice(pipes[1], &iov, 1, 0));
	while (n < iov.iov_len) {
		ssize_t m = read(pipes[0], got + n, iov.iov_len - n);

		ASSERT_LT(0, m);
		n += m;
	}
	EXPECT_EQ(0, memcmp(got, iov.iov_base, n));
	free(got);
	close(pipes[0]);
	close(pipes[1]);
}

TEST_F(pin, process_vm_readv)
{
	unsigned char *got = malloc(variant->length);
	struct iovec local = { got, variant->length }, remote = { self->p, variant->length };

	rng_fill(&self->r, self->p, variant->length);
	EXPECT_EQ((ssize_t)variant->length, process_vm_readv(getpid(), &local, 1, &remote, 1, 0));
	EXPECT_EQ(0, memcmp(got, self->p, variant->length));
	memset(got, 0x3c, variant->length);
	EXPECT_EQ((ssize_t)variant->length, process_vm_writev(getpid(), &local, 1, &remote, 1, 0));
	EXPECT_TRUE(all_are(self->p, 0x3c, variant->length));
	free(got);
}

/* --- O_DIRECT */

FIXTURE(direct)
{
	struct leak_state leak;
	int fd, file;
	unsigned char *p;
	char path[64];
};

/* @path: a directory, or a block device that @module makes. */
FIXTURE_VARIANT(direct)
{
	const char *path, *module;
};

FIXTURE_VARIANT_ADD(direct, tmpfs) { "/dev/shm", NULL };
FIXTURE_VARIANT_ADD(direct, cwd) { ".", NULL };
FIXTURE_VARIANT_ADD(direct, ramdisk) { "/dev/ram0", "brd" };

#define DIRECT_BYTES	(256 * KIB)

FIXTURE_SETUP(direct)
{
	char command[64];
	struct stat st;
	__u32 id;

	ASSERT_TRUE(dev_quiet(10));
	leak_begin(&self->leak);
	if (variant->module) {
		snprintf(command, sizeof(command), "modprobe %s 2>/dev/null", variant->module);
		if (system(command) || stat(variant->path, &st))
			SKIP(return, "no module %s", variant->module);
		snprintf(self->path, sizeof(self->path), "%s", variant->path);
	} else {
		snprintf(self->path, sizeof(self->path), "%s/gpumem-direct-%d", variant->path,
			 getpid());
	}
	self->file = open(self->path, O_RDWR | O_CREAT | O_DIRECT | O_CLOEXEC, 0600);
	if (self->file < 0 && errno == EINVAL)
		SKIP(return, "%s: no O_DIRECT", variant->path);
	if (self->file < 0 && (errno == EROFS || errno == EACCES))
		SKIP(return, "%s: not writable", variant->path);
	ASSERT_LE(0, self->file);
	self->fd = gp_open(0);
	ASSERT_LE(0, self->fd);
	self->p = gp_alloc_map(self->fd, 2 * DIRECT_BYTES, &id);
	ASSERT_NE(NULL, self->p);
}

FIXTURE_TEARDOWN(direct)
{
	if (!variant->module)
		unlink(self->path);
	close(self->file);
	close(self->fd);
	unmap_all();
	EXPECT_TRUE(dev_quiet(10));
	EXPECT_TRUE(leak_end(&self->leak));
}

TEST_F(direct, write_and_read)
{
	unsigned char *want = malloc(DIRECT_BYTES);
	struct rng r;
	ssize_t n;

	rng_start(&r, "direct");
	rng_fill(&r, self->p, DIRECT_BYTES);
	memcpy(want, self->p, DIRECT_BYTES);
	n = pwrite(self->file, self->p, DIRECT_BYTES, 0);
	if (n < 0 && errno == EINVAL && !variant->module)
		SKIP(return, "%s: no O_DIRECT", variant->path);
	ASSERT_EQ((ssize_t)DIRECT_BYTES, n);
	ASSERT_EQ((ssize_t)DIRECT_BYTES, pread(self->file, self->p + DIRECT_BYTES, DIRECT_BYTES,
					       0));
	EXPECT_EQ(0, memcmp(want, self->p, DIRECT_BYTES));
	EXPECT_EQ(0, memcmp(want, self->p + DIRECT_BYTES, DIRECT_BYTES));
	free(want);
}

TEST_HARNESS_MAIN
