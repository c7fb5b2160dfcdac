// SPDX-License-Identifier: GPL-2.0
/*
 * Registered host memory (GPUMEM_BO_PIN) and pinned host memory (GPUMEM_BO_ALLOC_HOST): which
 * memory can be registered, that the engine accesses its pages, and that everything is counted and
 * released. t_pin_budget.c tests the limit of a user.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "kselftest_harness.h"
#include "common/client_fixture.h"
#include "common/pin_util.h"

#define RW		(PROT_READ | PROT_WRITE)
#define DEV_ADDR	0x10000000ULL
#define DEV_BYTES	(4 * MIB)
#define ANON		(MAP_PRIVATE | MAP_ANONYMOUS)
#define RDONLY		GPUMEM_BO_PIN_RDONLY

FIXTURE(pin)
{
	struct leak_state leak;
	int fd;
	__u32 vm;
	__u32 bo;
	unsigned char *dev;	/* the device memory at DEV_ADDR */
	struct stream stream;
	__u64 budget;
};

static __u64 page_down(const volatile void *p)
{
	return (uintptr_t)p & -page_size;
}

/* Bytes of the pages that a range touches. */
static __u64 page_bytes(const volatile void *p, __u64 n)
{
	return (((uintptr_t)p + n + page_size - 1) & -page_size) - page_down(p);
}

FIXTURE_SETUP(pin)
{
	client_begin(_metadata, &self->leak, &self->fd);
	ASSERT_EQ(0, gp_vm_create(self->fd, &self->vm));
	ASSERT_EQ(0, gp_bo_alloc(self->fd, DEV_BYTES, &self->bo));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo, 0, DEV_ADDR, DEV_BYTES, 1, 1));
	self->dev = gp_map(self->fd, self->bo, 0, DEV_BYTES, RW);
	ASSERT_NE(NULL, self->dev);
	ASSERT_EQ(0, stream_open(&self->stream, self->fd, self->vm, 0, 64));
	ASSERT_EQ(0, vm_pin());
	self->budget = budget_left(self->fd);
	ASSERT_LT(64 * MIB, self->budget);
}

FIXTURE_TEARDOWN(pin)
{
	stream_close(&self->stream);
	client_end(_metadata, &self->leak, self->fd, 10);
	EXPECT_EQ(0, vm_pin());
	EXPECT_TRUE(host_used_becomes(0));
}

/* One engine copy; 0 or a negative errno. */
static int engine_copy(struct stream *s, __u64 dst, __u64 src, __u64 bytes)
{
	struct gpumem_sqe sqe = sqe_copy(dst, src, bytes);
	int ret = stream_push(s, &sqe);

	return ret ? ret : stream_sync(s);
}

/*
 * Register @p, copy it to the device and back at odd offsets, and end the registration.  @writable:
 * the process may write it.
 */
static void bounce(struct __test_metadata *_metadata, FIXTURE_DATA(pin) *self, unsigned char *p,
		   __u64 n, bool writable)
{
	__u64 pages = page_bytes(p, n), addr = (uintptr_t)p, chunk = DEV_BYTES - 4096;
	struct gpumem_bo_info info;
	struct rng rng;
	__u32 id, other;

	rng_start(&rng, "bounce");
	if (writable)
		rng_fill(&rng, p, n);
	ASSERT_EQ(0, bo_pin(self->fd, p, n, writable ? 0 : RDONLY, &id));
	EXPECT_EQ(pages, vm_pin());
	EXPECT_EQ(self->budget - pages, budget_left(self->fd));
	EXPECT_TRUE(pins_counted(self->fd, 1, n));
	ASSERT_EQ(0, gp_bo_info(self->fd, id, &info));
	EXPECT_EQ(GPUMEM_BO_PINNED, info.kind);
	EXPECT_EQ(n, info.length);
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, id, 0, addr, n, 1, writable));
	EXPECT_EQ(-EEXIST, bo_pin(self->fd, p + n - 1, 1, 0, &other));
	for (__u64 at = 0; at < n; at += chunk) {
		__u64 part = n - at < chunk ? n - at : chunk, odd = 1 + rng_below(&rng, 4000);

		ASSERT_EQ(0, engine_copy(&self->stream, DEV_ADDR + odd, addr + at, part));
		ASSERT_EQ(0, memcmp(self->dev + odd, p + at, part));
		if (!writable)
			continue;
		rng_fill(&rng, self->dev + odd, part);
		ASSERT_EQ(0, engine_copy(&self->stream, addr + at, DEV_ADDR + odd, part));
		ASSERT_EQ(0, memcmp(self->dev + odd, p + at, part));
	}
	ASSERT_EQ(0, gp_vm_unmap(self->fd, self->vm, addr, n, NULL));
	ASSERT_EQ(0, gp_destroy(self->fd, id));
	EXPECT_EQ(0, vm_pin());
	EXPECT_EQ(self->budget, budget_left(self->fd));
	EXPECT_TRUE(pins_counted(self->fd, 0, 0));
}

/* --- which memory */

TEST_F(pin, arguments)
{
	struct gpumem_bo_pin c = { .size = sizeof(c), .length = 1, .reserved = 1 };
	unsigned char *p = mmap(NULL, 4 * page_size, RW, ANON, -1, 0);
	__u32 id;

	ASSERT_NE(MAP_FAILED, p);
	EXPECT_EQ(-EINVAL, bo_pin(self->fd, p, 0, 0, &id));
	EXPECT_EQ(-EOPNOTSUPP, bo_pin(self->fd, p, 1, 2, &id));
	EXPECT_EQ(-EOPNOTSUPP, bo_pin(self->fd, p, 1, ~RDONLY, &id));
	c.addr = (uintptr_t)p;
	EXPECT_EQ(-EOPNOTSUPP, gp_ioctl(self->fd, GPUMEM_BO_PIN, &c));
	EXPECT_EQ(-EOVERFLOW, bo_pin(self->fd, p, ~0ULL, 0, &id));
	EXPECT_EQ(-EOVERFLOW, bo_pin(self->fd, (void *)-page_size, page_size, 0, &id));
	EXPECT_EQ(-EFAULT, bo_pin(self->fd, (void *)0xffff888000000000ULL, page_size, 0, &id));
	EXPECT_EQ(-EFAULT, bo_pin(self->fd, (void *)0x7ffffffff000ULL, 2 * page_size, 0, &id));
	EXPECT_EQ(-EFAULT, bo_pin(self->fd, NULL, page_size, 0, &id));
	EXPECT_TRUE(pins_counted(self->fd, 0, 0));
	EXPECT_EQ(0, vm_pin());
	EXPECT_EQ(self->budget, budget_left(self->fd));
	/* A registration has no file and cannot be mapped.  */
	ASSERT_EQ(0, bo_pin(self->fd, p, page_size, 0, &id));
	EXPECT_EQ(-EINVAL, gp_map_errno(self->fd, id, 0, page_size, RW, MAP_SHARED));
	EXPECT_EQ(0, gp_destroy(self->fd, id));
	EXPECT_EQ(-ENOENT, gp_destroy(self->fd, id));
}

TEST_F_TIMEOUT(pin, anonymous, 120)
{
	unsigned char *p = mmap(NULL, 3 * MIB, RW, ANON, -1, 0);

	ASSERT_NE(MAP_FAILED, p);
	ASSERT_EQ(0, madvise(p, 3 * MIB, MADV_NOHUGEPAGE));
	bounce(_metadata, self, p, 3 * MIB, true);
	bounce(_metadata, self, p + 17, 1, true);
	bounce(_metadata, self, p + 4095, 2, true);
	bounce(_metadata, self, p + 1, 3 * MIB - 2, true);
	bounce(_metadata, self, p + 12345, 54321, true);
}

TEST_F_TIMEOUT(pin, huge_pages, 120)
{
	unsigned char *all = mmap(NULL, 8 * MIB, RW, ANON, -1, 0);
	unsigned char *p = (void *)(((uintptr_t)all + 2 * MIB - 1) & -(2 * MIB));

	ASSERT_NE(MAP_FAILED, all);
	ASSERT_EQ(0, madvise(p, 4 * MIB, MADV_HUGEPAGE));
	memset(p, 1, 4 * MIB);
	bounce(_metadata, self, p, 4 * MIB, true);
	bounce(_metadata, self, p + MIB + 3, 2 * MIB, true);
	/* Two registrations of one huge page. */
	bounce(_metadata, self, p, 4096, true);
}

TEST_F(pin, hugetlb)
{
	unsigned char *p;
	FILE *f = fopen("/proc/sys/vm/nr_hugepages", "w");

	if (f) {
		fprintf(f, "2\n");
		fclose(f);
	}
	p = mmap(NULL, 4 * MIB, RW, ANON | MAP_HUGETLB, -1, 0);
	if (p == MAP_FAILED)
		SKIP(return, "no hugetlb pages");
	bounce(_metadata, self, p, 4 * MIB, true);
	bounce(_metadata, self, p + 5000, 2 * MIB, true);
	munmap(p, 4 * MIB);
	f = fopen("/proc/sys/vm/nr_hugepages", "w");
	if (f) {
		fprintf(f, "0\n");
		fclose(f);
	}
}

TEST_F(pin, tmpfs)
{
	int fd = memfd_create("pin", MFD_CLOEXEC);
	unsigned char *p, *q;
	__u32 a, b;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ftruncate(fd, MIB));
	p = mmap(NULL, MIB, RW, MAP_SHARED, fd, 0);
	q = mmap(NULL, MIB, RW, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, p);
	ASSERT_NE(MAP_FAILED, q);
	bounce(_metadata, self, p, MIB, true);
	/* Two mappings of the same pages: each registration counts its pages.  */
	ASSERT_EQ(0, bo_pin(self->fd, p, MIB, 0, &a));
	ASSERT_EQ(0, bo_pin(self->fd, q, MIB, 0, &b));
	EXPECT_EQ(2 * MIB, vm_pin());
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, a, 0, (uintptr_t)p, MIB, 1, 1));
	memset(self->dev, 0x77, MIB);
	ASSERT_EQ(0, engine_copy(&self->stream, (uintptr_t)p, DEV_ADDR, MIB));
	EXPECT_EQ(0, memcmp(q, self->dev, MIB));
	close(fd);
}

TEST_F(pin, private_file)
{
	unsigned char *p;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	ASSERT_LE(0, fd);
	p = mmap(NULL, 4 * page_size, RW, MAP_PRIVATE, fd, 0);
	ASSERT_NE(MAP_FAILED, p);
	bounce(_metadata, self, p, 4 * page_size, true);
	munmap(p, 4 * page_size);
	p = mmap(NULL, 4 * page_size, PROT_READ, MAP_PRIVATE, fd, 0);
	ASSERT_NE(MAP_FAILED, p);
	bounce(_metadata, self, p + 5, 3 * page_size, false);
	close(fd);
}

/* The kernel refuses to pin pages that a file system must write back behind the pin. */
TEST_F(pin, shared_file)
{
	unsigned char *p;
	struct stat st;
	__u32 id;
	int fd;

	if (system("modprobe brd 2>/dev/null") || stat("/dev/ram0", &st))
		SKIP(return, "no module brd");
	fd = open("/dev/ram0", O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, fd);
	p = mmap(NULL, 4 * page_size, RW, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, p);
	EXPECT_EQ(-EFAULT, bo_pin(self->fd, p, 4 * page_size, 0, &id));
	EXPECT_TRUE(pins_counted(self->fd, 0, 0));
	EXPECT_EQ(0, vm_pin());
	/* A registration for reading is permitted.  */
	EXPECT_EQ(0, bo_pin(self->fd, p, 4 * page_size, RDONLY, &id));
	EXPECT_EQ(0, gp_destroy(self->fd, id));
	munmap(p, 4 * page_size);
	close(fd);
}

TEST_F(pin, stack)
{
	unsigned char local[10000];
	static unsigned char data[5000] = { 1 };
	unsigned char *heap = malloc(3000);

	ASSERT_NE(NULL, heap);
	bounce(_metadata, self, local + 1, sizeof(local) - 1, true);
	bounce(_metadata, self, data, sizeof(data), true);
	bounce(_metadata, self, heap, 3000, true);
	free(heap);
}

TEST_F(pin, read_only)
{
	unsigned char *p = mmap(NULL, 8 * page_size, RW, ANON, -1, 0);
	struct stream s;
	__u32 id;

	ASSERT_NE(MAP_FAILED, p);
	memset(p, 0x42, 8 * page_size);
	ASSERT_EQ(0, mprotect(p, 8 * page_size, PROT_READ));
	EXPECT_EQ(-EFAULT, bo_pin(self->fd, p, 8 * page_size, 0, &id));
	EXPECT_EQ(0, vm_pin());
	bounce(_metadata, self, p + 3, 7 * page_size, false);
	ASSERT_EQ(0, bo_pin(self->fd, p, 8 * page_size, RDONLY, &id));
	EXPECT_EQ(-EINVAL, gp_vm_map(self->fd, self->vm, id, 0, (uintptr_t)p, 8 * page_size, 1, 1));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, id, 0, (uintptr_t)p, 8 * page_size, 1, 0));
	/* Write access cannot be added later.  */
	EXPECT_EQ(-EINVAL, gp_vm_access(self->fd, self->vm, (uintptr_t)p, 8 * page_size, 0,
					GPUMEM_ACCESS_READ | GPUMEM_ACCESS_WRITE));
	EXPECT_EQ(0, gp_vm_access(self->fd, self->vm, (uintptr_t)p, 8 * page_size, 0, 0));
	EXPECT_EQ(0, gp_vm_access(self->fd, self->vm, (uintptr_t)p, 8 * page_size, 0,
				  GPUMEM_ACCESS_READ));
	ASSERT_EQ(0, stream_open(&s, self->fd, self->vm, 0, 16));
	EXPECT_NE(0, engine_copy(&s, (uintptr_t)p, DEV_ADDR, 1));
	EXPECT_EQ(EACCES, s.page->error);
	EXPECT_EQ(0x42, p[0]);
	EXPECT_EQ(0, stream_close(&s));
	/* One page that is not writable refuses the whole range.  */
	EXPECT_EQ(0, gp_destroy(self->fd, id));
	EXPECT_EQ(0, gp_vm_unmap(self->fd, self->vm, (uintptr_t)p, 8 * page_size, NULL));
	ASSERT_EQ(0, mprotect(p, 7 * page_size, RW));
	EXPECT_EQ(-EFAULT, bo_pin(self->fd, p, 8 * page_size, 0, &id));
	EXPECT_EQ(-EFAULT, bo_pin(self->fd, p, 7 * page_size + 1, 0, &id));
	EXPECT_EQ(0, vm_pin());
	EXPECT_EQ(0, bo_pin(self->fd, p, 7 * page_size, 0, &id));
}

#define ASKEW	0x40000000ULL

/* Fill with elements whose device addresses are aligned and whose memory addresses are not.  */
static bool fill_askew(FIXTURE_DATA(pin) *self, unsigned char *p, unsigned int at,
		       unsigned int elem)
{
	__u64 n = 3 * page_size, bytes = n - 2 * elem;
	struct gpumem_sqe sqe = sqe_fill(ASKEW + elem, elem, 0x0807060504030201ULL, bytes / elem);
	bool good = true;
	__u32 id;

	memset(p, 0xee, 4 * page_size);
	if (bo_pin(self->fd, p + at, n, 0, &id) ||
	    gp_vm_map(self->fd, self->vm, id, 0, ASKEW, n, 1, 1) ||
	    stream_push(&self->stream, &sqe) || stream_sync(&self->stream))
		return false;
	for (__u64 i = 0; i < 4 * page_size; i++) {
		bool in = i >= at + elem && i < at + elem + bytes;

		good = good && p[i] == (in ? 1 + (i - at) % elem : 0xee);
	}
	return !gp_vm_unmap(self->fd, self->vm, ASKEW, n, NULL) && !gp_destroy(self->fd, id) &&
	       good;
}

/* Elements and words that cross from one page to another that is not adjacent in memory.  */
TEST_F(pin, askew)
{
	struct gpumem_sqe sqe = { .op = GPUMEM_OP_TIMESTAMP, .dst = ASKEW + 8 };
	__u64 n = 3 * page_size, before, stamp;
	struct timespec now;
	unsigned char *p;
	__u32 id;

	p = mmap(NULL, 4 * page_size, RW, ANON, -1, 0);
	ASSERT_NE(MAP_FAILED, p);
	for (int i = 3; i >= 0; i--)
		p[i * page_size] = 1;
	for (unsigned int at = 1; at < 24; at++) {
		EXPECT_TRUE(fill_askew(self, p, at, 1));
		EXPECT_TRUE(fill_askew(self, p, at, 2));
		EXPECT_TRUE(fill_askew(self, p, at, 4));
		EXPECT_TRUE(fill_askew(self, p, at, 8));
	}
	memset(p, 0, 4 * page_size);
	ASSERT_EQ(0, bo_pin(self->fd, p + page_size - 12, n, 0, &id));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, id, 0, ASKEW, n, 1, 1));
	ASSERT_EQ(0, clock_gettime(CLOCK_MONOTONIC_RAW, &now));
	before = now.tv_sec * NSEC + now.tv_nsec;
	ASSERT_EQ(0, stream_push(&self->stream, &sqe));
	ASSERT_EQ(0, stream_sync(&self->stream));
	memcpy(&stamp, p + page_size - 4, sizeof(stamp));
	EXPECT_LE(before, stamp);
	EXPECT_GT(before + 1000 * NSEC, stamp);
	/* A wait for a word that is not aligned in memory fails: a word is read by one access.  */
	memset(p, 0, 4 * page_size);
	EXPECT_EQ(EFAULT, stream_error_of(self->fd, self->vm,
					  sqe_poll(ASKEW + 8, 8, GPUMEM_POLL_EQ, 0)));
	EXPECT_EQ(EFAULT, stream_error_of(self->fd, self->vm,
					  sqe_poll(ASKEW + 16, 8, GPUMEM_POLL_EQ, 0)));
	EXPECT_EQ(0, stream_error_of(self->fd, self->vm,
				     sqe_poll(ASKEW + 8, 4, GPUMEM_POLL_EQ, 0)));
	EXPECT_EQ(0, gp_vm_unmap(self->fd, self->vm, ASKEW, n, NULL));
	EXPECT_EQ(0, gp_destroy(self->fd, id));
	munmap(p, 4 * page_size);
}

TEST_F(pin, holes)
{
	unsigned char *p = mmap(NULL, 4 * MIB, RW, ANON, -1, 0);
	__u32 id;

	ASSERT_NE(MAP_FAILED, p);
	ASSERT_EQ(0, munmap(p + 3 * MIB, page_size));
	ASSERT_EQ(0, mprotect(p + MIB, page_size, PROT_NONE));
	/* The hole follows pages that were pinned in an earlier batch.  */
	EXPECT_EQ(-EFAULT, bo_pin(self->fd, p, 4 * MIB, 0, &id));
	EXPECT_EQ(-EFAULT, bo_pin(self->fd, p + MIB + page_size, 3 * MIB - page_size, 0, &id));
	EXPECT_EQ(-EFAULT, bo_pin(self->fd, p + MIB - 1, 2, 0, &id));
	EXPECT_EQ(-EFAULT, bo_pin(self->fd, p + MIB + page_size - 1, 2, RDONLY, &id));
	EXPECT_EQ(-EFAULT, bo_pin(self->fd, p + 3 * MIB + 7, 1, 0, &id));
	EXPECT_TRUE(pins_counted(self->fd, 0, 0));
	EXPECT_EQ(0, vm_pin());
	EXPECT_EQ(self->budget, budget_left(self->fd));
	/* Failed registrations are not left in the list of registrations. */
	bounce(_metadata, self, p, MIB, true);
	bounce(_metadata, self, p + MIB + page_size, 2 * MIB - page_size, true);
}

TEST_F(pin, never_touched)
{
	unsigned char *p = mmap(NULL, 64 * page_size, RW, ANON, -1, 0);
	unsigned char *q = mmap(NULL, 64 * page_size, PROT_READ, ANON, -1, 0);
	__u32 a, b;

	ASSERT_NE(MAP_FAILED, p);
	ASSERT_NE(MAP_FAILED, q);
	ASSERT_EQ(0, bo_pin(self->fd, p, 64 * page_size, 0, &a));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, a, 0, (uintptr_t)p, 64 * page_size, 1, 1));
	memset(self->dev, 0xee, 64 * page_size);
	ASSERT_EQ(0, engine_copy(&self->stream, DEV_ADDR, (uintptr_t)p, 64 * page_size));
	for (size_t i = 0; i < 64 * page_size; i++)
		ASSERT_EQ(0, self->dev[i]);
	memset(self->dev, 0x5b, 64 * page_size);
	ASSERT_EQ(0, engine_copy(&self->stream, (uintptr_t)p, DEV_ADDR, 64 * page_size));
	EXPECT_EQ(0, memcmp(p, self->dev, 64 * page_size));
	/* The zero page is not pinned: the engine sees later writes. */
	ASSERT_EQ(0, bo_pin(self->fd, q, 64 * page_size, RDONLY, &b));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, b, 0, (uintptr_t)q, 64 * page_size, 1, 0));
	ASSERT_EQ(0, mprotect(q, 64 * page_size, RW));
	memset(q, 0x19, 64 * page_size);
	ASSERT_EQ(0, engine_copy(&self->stream, DEV_ADDR, (uintptr_t)q, 64 * page_size));
	EXPECT_EQ(0, memcmp(q, self->dev, 64 * page_size));
}

/* --- overlap */

TEST_F(pin, overlap)
{
	unsigned char *p = mmap(NULL, 16 * page_size, RW, ANON, -1, 0);
	__u64 n = page_size;
	__u32 a, b, c, id;

	ASSERT_NE(MAP_FAILED, p);
	ASSERT_EQ(0, bo_pin(self->fd, p + 4 * n, 4 * n, 0, &a));
	EXPECT_EQ(-EEXIST, bo_pin(self->fd, p + 4 * n, 4 * n, 0, &id));
	EXPECT_EQ(-EEXIST, bo_pin(self->fd, p + 4 * n, 1, 0, &id));
	EXPECT_EQ(-EEXIST, bo_pin(self->fd, p + 8 * n - 1, 1, RDONLY, &id));
	EXPECT_EQ(-EEXIST, bo_pin(self->fd, p + 5 * n, n, 0, &id));
	EXPECT_EQ(-EEXIST, bo_pin(self->fd, p, 16 * n, 0, &id));
	EXPECT_EQ(-EEXIST, bo_pin(self->fd, p, 4 * n + 1, 0, &id));
	EXPECT_EQ(-EEXIST, bo_pin(self->fd, p + 8 * n - 1, n, 0, &id));
	EXPECT_TRUE(pins_counted(self->fd, 1, 4 * n));
	EXPECT_EQ(4 * n, vm_pin());
	EXPECT_EQ(self->budget - 4 * n, budget_left(self->fd));
	/* Adjacent. */
	EXPECT_EQ(0, bo_pin(self->fd, p + 8 * n, 100, 0, &b));
	EXPECT_EQ(0, bo_pin(self->fd, p + 4 * n - 1, 1, 0, &c));
	/* Two more registrations on one page; each counts the page.  */
	EXPECT_EQ(0, bo_pin(self->fd, p + 8 * n + 100, 1, 0, &id));
	EXPECT_EQ(0, bo_pin(self->fd, p + 8 * n + 200, 100, 0, &id));
	EXPECT_EQ(-EEXIST, bo_pin(self->fd, p + 8 * n + 150, 51, 0, &id));
	EXPECT_EQ(0, bo_pin(self->fd, p + 8 * n + 4000, 200, 0, &id));
	EXPECT_TRUE(pins_counted(self->fd, 6, 4 * n + 100 + 1 + 1 + 100 + 200));
	EXPECT_EQ(4 * n + n + n + n + n + 2 * n, vm_pin());
	/*
	 * The addresses are free when the id is destroyed: a mapping in an address space keeps only
	 * the pages.
	 */
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, a, 0, (uintptr_t)p + 4 * n, 4 * n, 1, 1));
	ASSERT_EQ(0, gp_destroy(self->fd, a));
	EXPECT_EQ(0, bo_pin(self->fd, p + 5 * n, n, 0, &a));
	EXPECT_EQ(11 * n, vm_pin());
	EXPECT_EQ(-EEXIST, gp_vm_map(self->fd, self->vm, a, 0, (uintptr_t)p + 5 * n, n, 1, 1));
	ASSERT_EQ(0, gp_vm_unmap(self->fd, self->vm, (uintptr_t)p + 4 * n, 4 * n, NULL));
	EXPECT_EQ(7 * n, vm_pin());
}

/* An address space, too, distinguishes registrations on one page by bytes.  */
TEST_F(pin, one_page)
{
	unsigned char *p = mmap(NULL, page_size, RW, ANON, -1, 0);
	__u64 addr = (uintptr_t)p;
	struct stream s;
	__u32 a, b;

	ASSERT_NE(MAP_FAILED, p);
	for (unsigned int i = 0; i < page_size; i++)
		p[i] = i * 7;
	ASSERT_EQ(0, bo_pin(self->fd, p, 100, 0, &a));
	ASSERT_EQ(0, bo_pin(self->fd, p + 100, 100, 0, &b));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, a, 0, addr, 100, 1, 1));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, b, 3, addr + 103, 97, 1, 1));
	ASSERT_EQ(0, engine_copy(&self->stream, DEV_ADDR + 1, addr, 100));
	EXPECT_EQ(0, memcmp(self->dev + 1, p, 100));
	ASSERT_EQ(0, engine_copy(&self->stream, DEV_ADDR + 1, addr + 103, 97));
	EXPECT_EQ(0, memcmp(self->dev + 1, p + 103, 97));
	ASSERT_EQ(0, stream_open(&s, self->fd, self->vm, 0, 16));
	EXPECT_NE(0, engine_copy(&s, DEV_ADDR, addr, 101));
	EXPECT_EQ(EFAULT, s.page->error);
	stream_close(&s);
	EXPECT_EQ(-EOVERFLOW, gp_vm_map(self->fd, self->vm, b, 4, addr + MIB, 97, 1, 1));
	EXPECT_EQ(-EEXIST, gp_vm_map(self->fd, self->vm, b, 0, addr + 99, 2, 1, 1));
	ASSERT_EQ(0, gp_destroy(self->fd, a));
	ASSERT_EQ(0, gp_vm_unmap(self->fd, self->vm, addr, 100, NULL));
	ASSERT_EQ(0, engine_copy(&self->stream, DEV_ADDR + 1, addr + 150, 50));
	EXPECT_EQ(0, memcmp(self->dev + 1, p + 150, 50));
}

#define REGIONS	40

TEST_F_TIMEOUT(pin, random, 100000)
{
	const __u64 steps = env_number("GPUMEM_STEPS", 10000);
	struct {
		__u64 at, length;
		__u32 id;
	} have[REGIONS];
	unsigned int count = 0, refused = 0, made = 0;
	__u64 room = 64 * page_size, bytes = 0, pages = 0;
	unsigned char *p = mmap(NULL, room, RW, ANON, -1, 0);
	struct rng rng;

	ASSERT_NE(MAP_FAILED, p);
	rng_start(&rng, "register and unregister");
	for (__u64 step = 0; step < steps; step++) {
		__u64 length = 1 + rng_below(&rng, rng_below(&rng, 8) ? 3000 : 20000);
		__u64 at = rng_below(&rng, room - length);
		unsigned int i = rng_below(&rng, REGIONS);
		bool overlap = false;
		__u32 id;

		if (i < count) {
			ASSERT_EQ(0, gp_destroy(self->fd, have[i].id));
			bytes -= have[i].length;
			pages -= page_bytes(p + have[i].at, have[i].length);
			have[i] = have[--count];
		} else {
			for (i = 0; i < count; i++)
				overlap |= have[i].at < at + length &&
					   at < have[i].at + have[i].length;
			ASSERT_EQ(overlap ? -EEXIST : 0,
				  bo_pin(self->fd, p + at, length, step & 1 ? RDONLY : 0, &id))
				TH_LOG("step %llu", (unsigned long long)step);
			refused += overlap;
			if (!overlap) {
				have[count].at = at;
				have[count].length = length;
				have[count++].id = id;
				bytes += length;
				pages += page_bytes(p + at, length);
				made++;
			}
		}
		if (step % 64 == 0) {
			ASSERT_TRUE(pins_counted(self->fd, count, bytes));
			ASSERT_EQ(pages, vm_pin());
		}
	}
	/* The test needs many registrations that succeeded and many that were refused.  */
	EXPECT_LT(steps / 20, refused);
	EXPECT_LT(steps / 20, made);
	EXPECT_EQ(self->budget - pages, budget_left(self->fd));
}

/* --- the process unmaps its addresses or forks */

TEST_F(pin, unmapped)
{
	size_t n = 40 * page_size;
	unsigned char *p = mmap(NULL, n, RW, ANON, -1, 0), *want = malloc(n);
	__u64 addr = (uintptr_t)p;
	struct rng rng;
	__u32 id, other;

	ASSERT_NE(MAP_FAILED, p);
	ASSERT_NE(NULL, want);
	rng_start(&rng, "unmapped");
	rng_fill(&rng, p, n);
	memcpy(want, p, n);
	ASSERT_EQ(0, bo_pin(self->fd, p, n, 0, &id));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, id, 0, addr, n, 1, 1));
	ASSERT_EQ(0, munmap(p, n));
	ASSERT_EQ(0, engine_copy(&self->stream, DEV_ADDR + 3, addr, n));
	EXPECT_EQ(0, memcmp(self->dev + 3, want, n));
	EXPECT_EQ(n, vm_pin());
	/* New memory at the same address is not the registered memory.  */
	ASSERT_EQ(p, mmap(p, n, RW, ANON | MAP_FIXED, -1, 0));
	memset(p, 0, n);
	memset(self->dev, 0, n + 3);
	ASSERT_EQ(0, engine_copy(&self->stream, DEV_ADDR + 3, addr, n));
	EXPECT_EQ(0, memcmp(self->dev + 3, want, n));
	EXPECT_EQ(-EEXIST, bo_pin(self->fd, p, 1, 0, &other));
	/* The new memory can be registered after the first registration has ended.  */
	ASSERT_EQ(0, gp_vm_unmap(self->fd, self->vm, addr, n, NULL));
	ASSERT_EQ(0, gp_destroy(self->fd, id));
	EXPECT_EQ(0, vm_pin());
	bounce(_metadata, self, p, n, true);
	free(want);
}

struct forked {
	int fd;
	unsigned char *p;
	size_t n;
	int to[2], from[2];
};

static int forked_child(void *arg)
{
	struct forked *f = arg;
	__u32 id;

	/* The child's writes go to its own pages, and the child may not use the client.  */
	memset(f->p, 0xcc, f->n);
	if (bo_pin(f->fd, f->p, f->n, 0, &id) != -EPERM)
		return 1;
	if (vm_pin())
		return 2;
	tell(f->from[1]);
	hear(f->to[0]);
	return f->p[0] == 0xcc && f->p[f->n - 1] == 0xcc ? 0 : 3;
}

TEST_F(pin, fork)
{
	size_t n = 16 * page_size;
	struct forked f = { .fd = self->fd, .n = n };
	pid_t pid;
	__u32 id;

	f.p = mmap(NULL, n, RW, ANON, -1, 0);
	ASSERT_NE(MAP_FAILED, f.p);
	ASSERT_EQ(0, pipe(f.to));
	ASSERT_EQ(0, pipe(f.from));
	memset(f.p, 0x31, n);
	ASSERT_EQ(0, bo_pin(self->fd, f.p, n, 0, &id));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, id, 0, (uintptr_t)f.p, n, 1, 1));
	pid = start_child(forked_child, &f);
	ASSERT_LT(0, pid);
	ASSERT_TRUE(hear(f.from[0]));
	/* The registered pages stay mapped in the parent: the engine sees the parent's writes.  */
	memset(f.p, 0x32, n);
	ASSERT_EQ(0, engine_copy(&self->stream, DEV_ADDR, (uintptr_t)f.p, n));
	EXPECT_EQ(0, memcmp(self->dev, f.p, n));
	memset(self->dev, 0x33, n);
	ASSERT_EQ(0, engine_copy(&self->stream, (uintptr_t)f.p, DEV_ADDR, n));
	EXPECT_EQ(0, memcmp(self->dev, f.p, n));
	tell(f.to[1]);
	EXPECT_EQ(0, end_child(pid));
	EXPECT_EQ(n, vm_pin());
}

/* --- sharing */

TEST_F(pin, dmabuf)
{
	size_t n = 8 * page_size;
	unsigned char *p = mmap(NULL, n, RW, ANON, -1, 0);
	struct gpumem_bo_import view;
	__u8 token[GPUMEM_TOKEN_SIZE];
	__u64 at = 0x90000000ULL;
	__u32 id, odd, tid;
	int dmabuf;

	ASSERT_NE(MAP_FAILED, p);
	for (size_t i = 0; i < n; i++)
		p[i] = i * 13 + i / page_size;
	ASSERT_EQ(0, bo_pin(self->fd, p, n, 0, &id));
	EXPECT_EQ(-EINVAL, gp_token_create(self->fd, id, 0, page_size, 0, &tid, token));
	dmabuf = gp_bo_export(self->fd, id, page_size, 4 * page_size, GPUMEM_BO_EXPORT_CLOEXEC);
	ASSERT_LE(0, dmabuf);
	EXPECT_EQ(1, dev_attr(0, "exports"));
	ASSERT_EQ(0, gp_bo_import(self->fd, dmabuf, &view));
	EXPECT_EQ(4 * page_size, view.length);
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, view.id, 0, at, 4 * page_size, 1, 1));
	ASSERT_EQ(0, engine_copy(&self->stream, DEV_ADDR + 1, at + 5, 4 * page_size - 5));
	EXPECT_EQ(0, memcmp(self->dev + 1, p + page_size + 5, 4 * page_size - 5));
	ASSERT_EQ(0, engine_copy(&self->stream, at, DEV_ADDR + 8 * MIB / 4, 100));
	EXPECT_EQ(0, memcmp(p + page_size, self->dev + 8 * MIB / 4, 100));
	/* The pages stay pinned as long as a DMA-buf, a view or a mapping reaches them.  */
	ASSERT_EQ(0, gp_destroy(self->fd, id));
	EXPECT_EQ(n, vm_pin());
	ASSERT_EQ(0, engine_copy(&self->stream, DEV_ADDR + 1, at + 5, 4 * page_size - 5));
	EXPECT_EQ(0, memcmp(self->dev + 1, p + page_size + 5, 4 * page_size - 5));
	ASSERT_EQ(0, gp_vm_unmap(self->fd, self->vm, at, 4 * page_size, NULL));
	ASSERT_EQ(0, gp_destroy(self->fd, view.id));
	close(dmabuf);
	for (int i = 0; i < 500 && vm_pin(); i++)
		nap_ms(10);
	EXPECT_EQ(0, vm_pin());
	/*
	 * A DMA-buf has whole pages of the registered range only, so a registration that begins
	 * within a page cannot be exported.
	 */
	ASSERT_EQ(0, bo_pin(self->fd, p + 100, 3 * page_size, 0, &odd));
	EXPECT_GT(0, gp_bo_export(self->fd, odd, 0, page_size, 0));
	EXPECT_GT(0, gp_bo_export(self->fd, odd, 0, 4 * page_size, 0));
}

/* --- host memory */

TEST_F(pin, host)
{
	size_t n = 3 * MIB;
	struct gpumem_bo_info info;
	struct gpumem_stats stats;
	long long used = dev_attr(0, "used");
	__u64 at = 0x80000000ULL;
	unsigned char *p;
	struct rng rng;
	__u32 id;

	EXPECT_EQ(-EINVAL, bo_alloc_host(self->fd, 0, &id));
	EXPECT_EQ(-EINVAL, bo_alloc_host(self->fd, 100, &id));
	ASSERT_EQ(0, bo_alloc_host(self->fd, n, &id));
	ASSERT_EQ(0, gp_bo_info(self->fd, id, &info));
	EXPECT_EQ(GPUMEM_BO_HOST, info.kind);
	EXPECT_EQ(n, info.length);
	ASSERT_EQ(0, gp_stats(self->fd, &stats));
	EXPECT_EQ(1, stats.host);
	EXPECT_EQ(n, stats.host_bytes);
	EXPECT_EQ(1, stats.bos);
	EXPECT_EQ(DEV_BYTES, stats.bo_bytes);
	EXPECT_EQ(0, stats.pins);
	EXPECT_EQ(n, host_used());
	EXPECT_EQ(used, dev_attr(0, "used"));
	EXPECT_EQ(n, vm_pin());
	EXPECT_EQ(self->budget - n, budget_left(self->fd));
	p = gp_map(self->fd, id, 0, n, RW);
	ASSERT_NE(NULL, p);
	for (size_t i = 0; i < n; i++)
		ASSERT_EQ(0, p[i]);
	rng_start(&rng, "host");
	rng_fill(&rng, p, n);
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, id, 0, at, n, 1, 1));
	ASSERT_EQ(0, engine_copy(&self->stream, DEV_ADDR + 7, at + 1, n - 1));
	EXPECT_EQ(0, memcmp(self->dev + 7, p + 1, n - 1));
	rng_fill(&rng, self->dev, n);
	ASSERT_EQ(0, engine_copy(&self->stream, at + 11, DEV_ADDR + 2, n - 11));
	EXPECT_EQ(0, memcmp(self->dev + 2, p + 11, n - 11));
	/* The memory exists, and is charged, as long as it is mapped.  */
	ASSERT_EQ(0, gp_vm_unmap(self->fd, self->vm, at, n, NULL));
	ASSERT_EQ(0, gp_destroy(self->fd, id));
	EXPECT_EQ(n, host_used());
	EXPECT_EQ(0, memcmp(self->dev + 2, p + 11, n - 11));
	ASSERT_EQ(0, munmap(p, n));
	EXPECT_TRUE(host_used_becomes(0));
	EXPECT_EQ(0, vm_pin());
	EXPECT_EQ(self->budget, budget_left(self->fd));
	ASSERT_EQ(0, gp_stats(self->fd, &stats));
	EXPECT_EQ(0, stats.host);
	EXPECT_EQ(0, stats.host_bytes);
}

TEST_HARNESS_MAIN
