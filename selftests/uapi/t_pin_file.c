// SPDX-License-Identifier: GPL-2.0
/*
 * Registration of files that are mapped: the pages belong to a file system that writes them back.
 *
 * The kernel refuses a long-term pin of a shared mapping for writing, because the file system would
 * not be notified of a device's writes.  For reading it is allowed, and the pinned pages are the
 * file's.  Pages of a private mapping become the process's own when they are pinned.
 *
 * Where such a pin is allowed, the file has the engine's writes once the registration has ended.
 *
 * The file is on an ext4 of its own, in an image behind a loop device, mounted in the test's own
 * mount namespace: it is unmounted when the test's process ends.
 */
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "kselftest_harness.h"
#include "common/pin_util.h"

#define RW		(PROT_READ | PROT_WRITE)
#define RDONLY		GPUMEM_BO_PIN_RDONLY
#define BYTES		(64 * 4096ULL)
#define DEV_ADDR	0x10000000ULL
#define EXT4_MAGIC	0xef53

FIXTURE(ext4)
{
	char dir[32];
	int fd;
	__u32 vm;
	__u32 bo;
	unsigned char *dev;	/* the device memory at DEV_ADDR */
	struct stream stream;
	int file;
	unsigned char *want;	/* what is in the file */
};

/* A shell command with @dir as $1; its exit status. */
static int shell(const char *command, const char *dir)
{
	char text[512];

	snprintf(text, sizeof(text), "PATH=$PATH:/usr/sbin:/sbin; set -- %s; %s", dir, command);
	return system(text);
}

FIXTURE_SETUP(ext4)
{
	struct statfs st;
	char path[48];
	struct rng r;

	if (shell("command -v mkfs.ext4 >/dev/null", ""))
		SKIP(return, "no mkfs.ext4");
	if (shell("modprobe loop && modprobe ext4", ""))
		SKIP(return, "no modules loop and ext4");
	ASSERT_TRUE(dev_quiet(10));
	ASSERT_EQ(0, unshare(CLONE_NEWNS));
	ASSERT_EQ(0, mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	strcpy(self->dir, "/tmp/t_pin_file.XXXXXX");
	ASSERT_NE(NULL, mkdtemp(self->dir));
	ASSERT_EQ(0, mount("none", self->dir, "tmpfs", 0, "size=32M"));
	/* No process may hold the loop device open for writing.  It is detached with the mount. */
	ASSERT_EQ(0, shell("mkdir $1/fs && truncate -s 16M $1/image && mkfs.ext4 -q -F $1/image && "
			   "loop=$(losetup -f --show $1/image) && mount -t ext4 $loop $1/fs && "
			   "losetup -d $loop", self->dir));
	snprintf(path, sizeof(path), "%s/fs/file", self->dir);
	self->file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ASSERT_LE(0, self->file);
	ASSERT_EQ(0, fstatfs(self->file, &st));
	ASSERT_EQ(EXT4_MAGIC, st.f_type);
	self->want = malloc(BYTES);
	ASSERT_NE(NULL, self->want);
	rng_start(&r, "ext4");
	rng_fill(&r, self->want, BYTES);
	ASSERT_EQ((ssize_t)BYTES, pwrite(self->file, self->want, BYTES, 0));
	ASSERT_EQ(0, fsync(self->file));

	self->fd = gp_open(0);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, gp_vm_create(self->fd, &self->vm));
	ASSERT_EQ(0, gp_bo_alloc(self->fd, 2 * MIB, &self->bo));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo, 0, DEV_ADDR, 2 * MIB, 1, 1));
	self->dev = gp_map(self->fd, self->bo, 0, 2 * MIB, RW);
	ASSERT_NE(NULL, self->dev);
	ASSERT_EQ(0, stream_open(&self->stream, self->fd, self->vm, 0, 16));
}

FIXTURE_TEARDOWN(ext4)
{
	stream_close(&self->stream);
	unmap_all();
	close(self->fd);
	EXPECT_TRUE(dev_quiet(10));
	EXPECT_EQ(0, vm_pin());
	free(self->want);
	close(self->file);
	/* Pages that were pinned do not keep the file system busy. */
	EXPECT_EQ(0, shell("umount $1/fs && umount $1 && rmdir $1", self->dir));
}

static int engine_copy(struct stream *s, __u64 dst, __u64 src, __u64 bytes)
{
	struct gpumem_sqe sqe = sqe_copy(dst, src, bytes);
	int ret = stream_push(s, &sqe);

	return ret ? ret : stream_sync(s);
}

/* Whether the engine finds @want at registered addresses. */
static bool engine_sees(FIXTURE_DATA(ext4) *self, const unsigned char *p, const void *want)
{
	memset(self->dev, 0, BYTES);
	return !engine_copy(&self->stream, DEV_ADDR, (uintptr_t)p, BYTES) &&
	       !memcmp(self->dev, want, BYTES);
}

static bool file_has(FIXTURE_DATA(ext4) *self, const void *want)
{
	unsigned char *have = malloc(BYTES);
	bool same = have && pread(self->file, have, BYTES, 0) == (ssize_t)BYTES &&
		    !memcmp(have, want, BYTES);

	free(have);
	return same;
}

/* Register for reading and map for the engine. */
static int pin_for_reading(FIXTURE_DATA(ext4) *self, unsigned char *p, __u32 *id)
{
	int ret = bo_pin(self->fd, p, BYTES, RDONLY, id);

	return ret ? ret : gp_vm_map(self->fd, self->vm, *id, 0, (uintptr_t)p, BYTES, 1, 0);
}

static void unpin(struct __test_metadata *_metadata, FIXTURE_DATA(ext4) *self, unsigned char *p,
		  __u32 id)
{
	EXPECT_EQ(BYTES, vm_pin());
	EXPECT_EQ(0, gp_vm_unmap(self->fd, self->vm, (uintptr_t)p, BYTES, NULL));
	EXPECT_EQ(0, gp_destroy(self->fd, id));
	EXPECT_EQ(0, vm_pin());
}

TEST_F(ext4, shared)
{
	unsigned char *p = mmap(NULL, BYTES, RW, MAP_SHARED, self->file, 0);
	struct gpumem_stats stats;
	__u32 id;

	ASSERT_NE(MAP_FAILED, p);
	EXPECT_EQ(-EFAULT, bo_pin(self->fd, p, BYTES, 0, &id));
	/* The registration is refused also after the process has written to the page.  */
	p[5] = ++self->want[5];
	EXPECT_EQ(-EFAULT, bo_pin(self->fd, p, BYTES, 0, &id));
	EXPECT_EQ(-EFAULT, bo_pin(self->fd, p + 5, 1, 0, &id));
	EXPECT_EQ(0, vm_pin());
	ASSERT_EQ(0, gp_stats(self->fd, &stats));
	EXPECT_EQ(0, stats.pins);
	ASSERT_EQ(0, pin_for_reading(self, p, &id));
	EXPECT_EQ(-EINVAL, gp_vm_map(self->fd, self->vm, id, 0, 0x90000000, BYTES, 1, 1));
	EXPECT_EQ(-EINVAL, gp_vm_access(self->fd, self->vm, (uintptr_t)p, BYTES, 0,
					GPUMEM_ACCESS_READ | GPUMEM_ACCESS_WRITE));
	EXPECT_TRUE(engine_sees(self, p, self->want));
	/* The pinned pages are the file's: they see all writes to it, and can be written back. */
	p[BYTES - 1] = ++self->want[BYTES - 1];
	self->want[12345]++;
	ASSERT_EQ(1, pwrite(self->file, &self->want[12345], 1, 12345));
	EXPECT_TRUE(engine_sees(self, p, self->want));
	EXPECT_EQ(0, msync(p, BYTES, MS_SYNC));
	EXPECT_EQ(0, fsync(self->file));
	EXPECT_TRUE(file_has(self, self->want));
	unpin(_metadata, self, p, id);
	/* The file may be truncated while pinned: the pages stay with the registration. */
	ASSERT_EQ(0, pin_for_reading(self, p, &id));
	ASSERT_EQ(0, ftruncate(self->file, 0));
	EXPECT_EQ(0, engine_copy(&self->stream, DEV_ADDR, (uintptr_t)p, BYTES));
	unpin(_metadata, self, p, id);
	EXPECT_EQ(0, munmap(p, BYTES));
}

TEST_F(ext4, shared_for_reading)
{
	unsigned char *p = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, self->file, 0);
	__u32 id;

	ASSERT_NE(MAP_FAILED, p);
	EXPECT_EQ(-EFAULT, bo_pin(self->fd, p, BYTES, 0, &id));
	ASSERT_EQ(0, pin_for_reading(self, p, &id));
	EXPECT_TRUE(engine_sees(self, p, self->want));
	EXPECT_EQ(0, munmap(p, BYTES));
	EXPECT_TRUE(engine_sees(self, p, self->want));
	unpin(_metadata, self, p, id);
}

TEST_F(ext4, private)
{
	unsigned char *p = mmap(NULL, BYTES, RW, MAP_PRIVATE, self->file, 0);
	__u32 id;

	ASSERT_NE(MAP_FAILED, p);
	ASSERT_EQ(0, bo_pin(self->fd, p, BYTES, 0, &id));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, id, 0, (uintptr_t)p, BYTES, 1, 1));
	EXPECT_TRUE(engine_sees(self, p, self->want));
	/* The engine writes to the process's pages, and never to the file's. */
	memset(self->dev, 0x6b, BYTES);
	ASSERT_EQ(0, engine_copy(&self->stream, (uintptr_t)p, DEV_ADDR, BYTES));
	EXPECT_EQ(0, memcmp(p, self->dev, BYTES));
	EXPECT_EQ(0, fsync(self->file));
	EXPECT_TRUE(file_has(self, self->want));
	unpin(_metadata, self, p, id);
	EXPECT_EQ(0x6b, p[0]);
	EXPECT_EQ(0, munmap(p, BYTES));
}

TEST_F(ext4, private_for_reading)
{
	unsigned char *p = mmap(NULL, BYTES, PROT_READ, MAP_PRIVATE, self->file, 0), *mine;
	__u32 id;

	mine = malloc(BYTES);
	ASSERT_NE(NULL, mine);
	ASSERT_NE(MAP_FAILED, p);
	EXPECT_EQ(-EFAULT, bo_pin(self->fd, p, BYTES, 0, &id));
	ASSERT_EQ(0, pin_for_reading(self, p, &id));
	EXPECT_TRUE(engine_sees(self, p, self->want));
	/* The pinned pages are the process's, so the engine sees its later writes.  */
	ASSERT_EQ(0, mprotect(p, BYTES, RW));
	memset(mine, 0x3d, BYTES);
	memset(p, 0x3d, BYTES);
	EXPECT_TRUE(engine_sees(self, p, mine));
	EXPECT_TRUE(file_has(self, self->want));
	unpin(_metadata, self, p, id);
	EXPECT_EQ(0, munmap(p, BYTES));
	free(mine);
}

/*
 * A shared mapping of tmpfs may be pinned for writing.  A page of a hole that was only read is
 * clean, although its page table entry lets the process write.  If the engine writes such a page
 * and the registration ends without marking it dirty, the kernel may drop it and give zeros later.
 */
FIXTURE(tmpfs)
{
	int fd, file;
	__u32 vm;
	struct stream stream;
};

FIXTURE_SETUP(tmpfs)
{
	ASSERT_TRUE(dev_quiet(10));
	self->file = memfd_create("t_pin_file", MFD_CLOEXEC);
	ASSERT_LE(0, self->file);
	ASSERT_EQ(0, ftruncate(self->file, BYTES));
	self->fd = gp_open(0);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, gp_vm_create(self->fd, &self->vm));
	ASSERT_EQ(0, stream_open(&self->stream, self->fd, self->vm, 0, 16));
}

FIXTURE_TEARDOWN(tmpfs)
{
	stream_close(&self->stream);
	unmap_all();
	close(self->fd);
	close(self->file);
	EXPECT_TRUE(dev_quiet(10));
	EXPECT_EQ(0, vm_pin());
}

/* Bytes of the file that are in memory. */
static long long resident(int file)
{
	struct stat st;

	return fstat(file, &st) ? -1 : 512LL * st.st_blocks;
}

static bool drop_caches(void)
{
	int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
	bool done = fd >= 0 && write(fd, "1", 1) == 1;

	if (fd >= 0)
		close(fd);
	return done;
}

/* Map the file and read every page, so that all are present. */
static unsigned char *look_at(int file)
{
	unsigned char *p = mmap(NULL, BYTES, RW, MAP_SHARED, file, 0);

	for (__u64 i = 0; p != MAP_FAILED && i < BYTES; i += page_size)
		if (*(volatile unsigned char *)(p + i))
			return MAP_FAILED;
	return p;
}

TEST_F(tmpfs, written_pages_stay)
{
	struct gpumem_sqe fill = sqe_fill((uintptr_t)0, 1, 0x5a, BYTES);
	unsigned char *p = look_at(self->file), *have = malloc(BYTES);
	__u32 id;

	ASSERT_NE(NULL, have);
	ASSERT_NE(MAP_FAILED, p);
	/*
	 * The kernel drops clean pages here; otherwise the case could not find a page that is
	 * wrongly clean.
	 */
	EXPECT_EQ((long long)BYTES, resident(self->file));
	ASSERT_EQ(0, munmap(p, BYTES));
	ASSERT_TRUE(drop_caches());
	EXPECT_EQ(0, resident(self->file));

	p = look_at(self->file);
	ASSERT_NE(MAP_FAILED, p);
	ASSERT_EQ(0, bo_pin(self->fd, p, BYTES, 0, &id));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, id, 0, (uintptr_t)p, BYTES, 1, 1));
	fill.dst = (uintptr_t)p;
	ASSERT_EQ(0, stream_push(&self->stream, &fill));
	ASSERT_EQ(0, stream_sync(&self->stream));
	ASSERT_EQ(0, munmap(p, BYTES));
	ASSERT_EQ(0, gp_vm_unmap(self->fd, self->vm, fill.dst, BYTES, NULL));
	ASSERT_EQ(0, gp_destroy(self->fd, id));
	EXPECT_EQ(0, vm_pin());
	ASSERT_TRUE(drop_caches());
	EXPECT_EQ((long long)BYTES, resident(self->file));
	ASSERT_EQ((ssize_t)BYTES, pread(self->file, have, BYTES, 0));
	EXPECT_EQ(0x5a, have[0]);
	EXPECT_EQ(0, memcmp(have, have + 1, BYTES - 1));
	free(have);
}

TEST_HARNESS_MAIN
