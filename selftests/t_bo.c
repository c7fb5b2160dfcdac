// SPDX-License-Identifier: GPL-2.0
/*
 * Buffer objects: allocation, contents, mapping, budget, and what the rest of the kernel may do
 * with their memory.
 */
#include <fcntl.h>
#include <signal.h>
#include <linux/io_uring.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "kselftest_harness.h"
#include "leak.h"
#include "util.h"

FIXTURE(bo)
{
	struct leak_state leak;
	int fd;
	__u64 total;
};

FIXTURE_SETUP(bo)
{
	struct gpumem_info info;

	ASSERT_TRUE(dev_quiet(10));
	leak_begin(&self->leak);
	self->fd = gp_open(0);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, gp_info(self->fd, 0, &info));
	self->total = info.total;
	ASSERT_LE(64 * MIB, self->total);
}

FIXTURE_TEARDOWN(bo)
{
	unmap_all();
	close(self->fd);
	EXPECT_TRUE(dev_quiet(10));
	EXPECT_TRUE(leak_end(&self->leak));
}

#define RW	(PROT_READ | PROT_WRITE)

static __u64 used(void)
{
	return dev_attr(0, "used");
}

static bool all_bytes(const volatile unsigned char *p, size_t n, unsigned char want)
{
	for (size_t i = 0; i < n; i++) {
		if (p[i] != want) {
			fprintf(stderr, "# byte %zu is %#x, not %#x\n", i, p[i], want);
			return false;
		}
	}
	return true;
}

/* --- allocation */

TEST_F(bo, alloc_errors)
{
	const struct {
		__u64 length;
		int want;
	} cases[] = {
		{ 0, -EINVAL }, { 1, -EINVAL }, { page_size - 1, -EINVAL },
		{ page_size + 1, -EINVAL }, { ~0ULL, -EINVAL }, { (1ULL << 63) + 8, -EINVAL },
		{ self->total + page_size, -ENOSPC }, { 1ULL << 40, -ENOSPC },
		{ 1ULL << 63, -ENOSPC }, { -page_size, -ENOSPC },
		{ (1ULL << 63) - page_size, -ENOSPC }, { 1ULL << 52, -ENOSPC },
	};
	struct gpumem_stats stats;
	__u32 id;

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		EXPECT_EQ(cases[i].want, gp_bo_alloc(self->fd, cases[i].length, &id))
			TH_LOG("length %#llx", (unsigned long long)cases[i].length);
	}
	EXPECT_EQ(-EACCES, gp_bo_alloc_on(self->fd, 1, page_size, &id));
	EXPECT_EQ(-EACCES, gp_bo_alloc_on(self->fd, GPUMEM_MAX_DEVICES, page_size, &id));
	EXPECT_EQ(-EACCES, gp_bo_alloc_on(self->fd, ~0U, page_size, &id));
	ASSERT_EQ(0, gp_stats(self->fd, &stats));
	EXPECT_EQ(0, stats.objects);
	EXPECT_EQ(0, stats.bo_bytes);
	EXPECT_EQ(0, used());
}

TEST_F(bo, names)
{
	struct gpumem_bo_alloc a = { .size = sizeof(a), .length = page_size };
	char line[512], want[64];
	bool found = false;
	FILE *maps;
	void *p;

	memset(a.name, 'x', sizeof(a.name));
	EXPECT_EQ(-EINVAL, gp_ioctl(self->fd, GPUMEM_BO_ALLOC, &a));
	memset(a.name, 0, sizeof(a.name));
	strcpy((char *)a.name, "fifteen bytes..");
	ASSERT_EQ(0, gp_ioctl(self->fd, GPUMEM_BO_ALLOC, &a));
	p = gp_map(self->fd, a.id, 0, page_size, RW);
	ASSERT_NE(NULL, p);
	/* "Shown in debug output": who looks at a process sees what its mappings are. */
	snprintf(want, sizeof(want), "%lx-", (unsigned long)p);
	maps = fopen("/proc/self/maps", "r");
	ASSERT_NE(NULL, maps);
	while (fgets(line, sizeof(line), maps))
		found |= strstr(line, want) && strstr(line, "fifteen bytes..");
	fclose(maps);
	EXPECT_TRUE(found);
}

TEST_F(bo, info)
{
	struct gpumem_bo_info info;
	__u32 id;

	ASSERT_EQ(0, gp_bo_alloc(self->fd, 5 * page_size, &id));
	ASSERT_EQ(0, gp_bo_info(self->fd, id, &info));
	EXPECT_EQ(GPUMEM_BO_DEVICE, info.kind);
	EXPECT_EQ(0, info.device);
	EXPECT_EQ(5 * page_size, info.length);
	EXPECT_EQ(0, info.huge);
	EXPECT_EQ(0, info.exports);
	EXPECT_EQ(5 * page_size, used());
}

TEST_F(bo, second_device)
{
	struct gpumem_bo_info info;
	__u32 device, again, id;
	int other = gp_open(1);

	if (other == -ENOENT)
		SKIP(return, "one device");
	ASSERT_LE(0, other);
	EXPECT_EQ(0, gp_attach(self->fd, other, &device));
	EXPECT_EQ(1, device);
	EXPECT_EQ(0, gp_attach(self->fd, other, &again));
	EXPECT_EQ(1, again);
	EXPECT_EQ(0, gp_attach(self->fd, self->fd, &again));
	EXPECT_EQ(0, again);
	EXPECT_EQ(-EBADF, gp_attach(self->fd, -1, &again));
	EXPECT_EQ(-EBADF, gp_attach(self->fd, 1000000, &again));
	EXPECT_EQ(-EINVAL, gp_attach(self->fd, 0, &again));
	/* The device stays attached when the descriptor that brought it is closed. */
	close(other);
	ASSERT_EQ(0, gp_bo_alloc_on(self->fd, 1, 3 * page_size, &id));
	EXPECT_EQ(0, dev_attr(0, "used"));
	EXPECT_EQ((long long)(3 * page_size), dev_attr(1, "used"));
	EXPECT_EQ(1, dev_attr(1, "bos"));
	EXPECT_EQ(0, dev_attr(0, "bos"));
	ASSERT_EQ(0, gp_bo_info(self->fd, id, &info));
	EXPECT_EQ(1, info.device);
}

TEST_F_TIMEOUT(bo, zeroed, 120)
{
	/* More than half of the memory, so that each round sees pages of the one before. */
	size_t length = (self->total / 2 + MIB) & -MIB;
	__u32 id;

	for (int round = 0; round < 3; round++) {
		unsigned char *p;

		ASSERT_EQ(0, gp_bo_alloc(self->fd, length, &id));
		p = gp_map(self->fd, id, 0, length, RW);
		ASSERT_NE(NULL, p);
		for (size_t i = 0; i < length; i += 8) {
			ASSERT_EQ(0, *(__u64 *)(p + i));
		}
		memset(p, 0x5a + round, length);
		ASSERT_EQ(0, munmap(p, length));
		ASSERT_EQ(0, gp_destroy(self->fd, id));
		EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 5));
	}
}

TEST_F(bo, huge_folios)
{
	struct gpumem_bo_info info;
	size_t pmd;
	char text[32] = "";
	__u32 id;
	FILE *f = fopen("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "r");

	if (!f)
		SKIP(return, "no transparent huge pages");
	ASSERT_NE(NULL, fgets(text, sizeof(text), f));
	fclose(f);
	pmd = strtoul(text, NULL, 10);
	ASSERT_EQ(0, gp_bo_alloc(self->fd, 4 * pmd, &id));
	ASSERT_EQ(0, gp_bo_info(self->fd, id, &info));
	EXPECT_LT(0, info.huge);
	EXPECT_GE(4 * pmd, info.huge);
	EXPECT_EQ(0, info.huge % pmd);
	EXPECT_EQ(4 * pmd, used());
	ASSERT_EQ(0, gp_bo_alloc(self->fd, pmd - page_size, &id));
	ASSERT_EQ(0, gp_bo_info(self->fd, id, &info));
	/* A folio that is longer than its file would be charged more than was asked for. */
	EXPECT_EQ(0, info.huge);
	EXPECT_EQ(5 * pmd - page_size, used());
}

/* --- mapping */

TEST_F(bo, mmap)
{
	size_t n = 16 * page_size;
	unsigned char *all, *part;
	__u32 id;
	int fd = self->fd;

	ASSERT_EQ(0, gp_bo_alloc(fd, n, &id));
	all = gp_map(fd, id, 0, n, RW);
	ASSERT_NE(NULL, all);
	for (size_t i = 0; i < n; i++)
		all[i] = i / page_size + i;
	part = gp_map(fd, id, 5 * page_size, 3 * page_size, RW);
	ASSERT_NE(NULL, part);
	EXPECT_EQ(0, memcmp(part, all + 5 * page_size, 3 * page_size));
	part[7] ^= 0xff;
	EXPECT_EQ(part[7], all[5 * page_size + 7]);
	EXPECT_EQ(0, munmap(part, 3 * page_size));
	EXPECT_EQ(0, gp_map_errno(fd, id, n - page_size, page_size, PROT_READ, MAP_SHARED));
	EXPECT_EQ(0, gp_map_errno(fd, id, 0, n, PROT_NONE, MAP_SHARED));
	EXPECT_EQ(0, gp_map_errno(fd, id, 0, n - 1, PROT_READ, MAP_SHARED));

	EXPECT_EQ(-EINVAL, gp_map_errno(fd, id, n, page_size, PROT_READ, MAP_SHARED));
	EXPECT_EQ(-EINVAL, gp_map_errno(fd, id, 0, n + 1, PROT_READ, MAP_SHARED));
	EXPECT_EQ(-EINVAL, gp_map_errno(fd, id, n - page_size, 2 * page_size, PROT_READ,
					MAP_SHARED));
	EXPECT_EQ(-EINVAL, gp_map_errno(fd, id, GPUMEM_MMAP_OFFSET(1) - page_size, page_size,
					PROT_READ, MAP_SHARED));
	EXPECT_EQ(-EINVAL, gp_map_errno(fd, id, 100, page_size, PROT_READ, MAP_SHARED));
	EXPECT_EQ(-EINVAL, gp_map_errno(fd, id, 0, n, RW, MAP_PRIVATE));
	EXPECT_EQ(-EINVAL, gp_map_errno(fd, id, 0, n, PROT_READ, MAP_PRIVATE));

	/* A mapping outlives the id and the client. */
	EXPECT_EQ(0, gp_destroy(fd, id));
	EXPECT_EQ(n, used());
	close(fd);
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 0, 5));
	EXPECT_EQ(n, used());
	for (size_t i = 0; i < n; i++) {
		unsigned char want = i / page_size + i;

		if (i == 5 * page_size + 7)
			want ^= 0xff;
		ASSERT_EQ(want, all[i]);
	}
	EXPECT_EQ(0, munmap(all, n - page_size));
	EXPECT_EQ(n, used());
	EXPECT_EQ(0, munmap(all + n - page_size, page_size));
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 5));
	self->fd = open("/dev/null", O_RDONLY);
}

TEST_F(bo, mmap_fixed_and_split)
{
	size_t n = 8 * page_size;
	char *p, *q;
	__u32 id;

	ASSERT_EQ(0, gp_bo_alloc(self->fd, n, &id));
	p = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)p);
	/* Address space first, memory into it afterwards, in any order and piecewise. */
	for (int i = 7; i >= 0; i--) {
		q = mmap(p + i * page_size, page_size, RW, MAP_SHARED | MAP_FIXED, self->fd,
			 GPUMEM_MMAP_OFFSET(id) + i * page_size);
		ASSERT_EQ(p + i * page_size, q);
		p[i * page_size] = i + 1;
	}
	EXPECT_EQ(0, mprotect(p + 2 * page_size, page_size, PROT_READ));
	EXPECT_TRUE(faults_with(p + 2 * page_size, true, SIGSEGV));
	EXPECT_EQ(0, mprotect(p + 2 * page_size, page_size, RW));
	EXPECT_FALSE(faults_with(p + 2 * page_size, true, SIGSEGV));
	EXPECT_EQ(0, munmap(p + 3 * page_size, page_size));
	EXPECT_TRUE(faults_with(p + 3 * page_size, false, SIGSEGV));
	q = gp_map(self->fd, id, 3 * page_size, page_size, PROT_READ);
	ASSERT_NE(NULL, q);
	EXPECT_EQ(4, *q);
	EXPECT_EQ(0, mprotect(p, page_size, PROT_READ));
	EXPECT_EQ(1, *p);
}

/* Growing a mapping never reaches memory that is not the object's. */
TEST_F(bo, mremap)
{
	size_t n = 4 * page_size;
	__u32 id, behind;
	char *p, *q, *b;

	ASSERT_EQ(0, gp_bo_alloc(self->fd, n, &id));
	ASSERT_EQ(0, gp_bo_alloc(self->fd, n, &behind));
	b = gp_map(self->fd, behind, 0, n, RW);
	ASSERT_NE(NULL, b);
	memset(b, 0x77, n);
	p = gp_map(self->fd, id, 0, page_size, RW);
	ASSERT_NE(NULL, p);
	strcpy(p, "first page");
	q = mremap(p, page_size, 2 * n, MREMAP_MAYMOVE);
	if (q != MAP_FAILED) {
		EXPECT_STREQ("first page", q);
		EXPECT_TRUE(all_bytes((void *)(q + page_size), n - page_size, 0));
		EXPECT_TRUE(faults_with(q + n, false, SIGBUS));
		EXPECT_TRUE(faults_with(q + 2 * n - 1, true, SIGBUS));
		p = mremap(q, 2 * n, page_size, 0);
		EXPECT_EQ(q, p);
	}
	/* Moving is fine. */
	q = mmap(NULL, n, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_EQ(q, mremap(p, page_size, page_size, MREMAP_MAYMOVE | MREMAP_FIXED, q));
	EXPECT_STREQ("first page", q);
	EXPECT_EQ(2 * n, used());
}

/*
 * remap_file_pages() changes which page of a file a mapping shows.  Refused, it may leave a hole;
 * it never shows what is not the object's.
 */
TEST_F(bo, remap_file_pages)
{
	size_t n = 4 * page_size;
	unsigned char *p, *b;
	__u32 id, behind;
	int ret;

	ASSERT_EQ(0, gp_bo_alloc(self->fd, n, &id));
	ASSERT_EQ(0, gp_bo_alloc(self->fd, n, &behind));
	p = gp_map(self->fd, id, 0, n, RW);
	b = gp_map(self->fd, behind, 0, n, RW);
	ASSERT_NE(NULL, b);
	memset(b, 0x77, n);
	for (int i = 0; i < 4; i++)
		p[i * page_size] = i + 1;
	for (int i = 0; i < 8; i++) {
		ret = syscall(SYS_remap_file_pages, p, page_size, 0, i, 0);
		if (!ret && i < 4) {
			EXPECT_EQ(i + 1, peek(p));
		} else {
			EXPECT_TRUE(peek(p) < 0 || peek(p) == 1);
		}
		EXPECT_EQ(2, p[page_size]);
	}
	EXPECT_EQ(2 * n, used());
}

/* --- budget */

TEST_F_TIMEOUT(bo, budget, 120)
{
	__u64 step = self->total / 8 & -MIB, got = 0;
	unsigned int n = 0;
	void *maps[64];
	__u32 id;
	int ret;

	/* Map, close, repeat: nobody escapes the budget by giving the id back. */
	for (;;) {
		ret = gp_bo_alloc(self->fd, step, &id);
		if (ret)
			break;
		ASSERT_GT(ARRAY_SIZE(maps), n);
		maps[n] = gp_map(self->fd, id, 0, step, RW);
		ASSERT_NE(NULL, maps[n]);
		n++;
		got += step;
		ASSERT_EQ(0, gp_destroy(self->fd, id));
		EXPECT_EQ(got, used());
	}
	EXPECT_EQ(-ENOSPC, ret);
	EXPECT_GE(self->total, got);
	EXPECT_LT(self->total - step, got);
	/* The rest in pages: every byte can be had. */
	while (!gp_bo_alloc(self->fd, MIB, &id))
		got += MIB;
	while (!gp_bo_alloc(self->fd, page_size, &id))
		got += page_size;
	EXPECT_EQ(self->total, got);
	EXPECT_EQ(self->total, used());
	/* The other clients feel it too, and another process. */
	close(self->fd);
	self->fd = gp_open(0);
	ASSERT_LE(0, self->fd);
	EXPECT_TRUE(dev_attr_becomes(0, "used", n * step, 5));
	EXPECT_EQ(-ENOSPC, gp_bo_alloc(self->fd, self->total - n * step + page_size, &id));
	EXPECT_EQ(0, munmap(maps[0], step));
	EXPECT_TRUE(dev_attr_becomes(0, "used", (n - 1) * step, 5));
	EXPECT_EQ(0, gp_bo_alloc(self->fd, step, &id));
	for (unsigned int i = 1; i < n; i++) {
		EXPECT_EQ(0, munmap(maps[i], step));
	}
	EXPECT_TRUE(dev_attr_becomes(0, "used", step, 5));
}

/* A failed allocation gives back what it had got. */
TEST_F_TIMEOUT(bo, budget_failure_leaves_nothing, 120)
{
	__u64 most = self->total - 8 * MIB;
	__u32 id, other;

	ASSERT_EQ(0, gp_bo_alloc(self->fd, most, &id));
	for (int i = 0; i < 20; i++) {
		EXPECT_EQ(-ENOSPC, gp_bo_alloc(self->fd, 9 * MIB, &other));
	}
	EXPECT_EQ(most, used());
	EXPECT_EQ(1, dev_attr(0, "bos"));
	EXPECT_EQ(0, gp_bo_alloc(self->fd, 8 * MIB, &other));
}

static int memcg_child(void *arg)
{
	struct cgroup *cg = arg;
	long long before, after;
	__u32 id;
	int fd;

	if (cgroup_enter(cg))
		return 1;
	fd = gp_open(0);
	if (fd < 0)
		return 2;
	before = cgroup_read(cg, "memory.current");
	if (gp_bo_alloc(fd, 16 * MIB, &id))
		return 3;
	after = cgroup_read(cg, "memory.current");
	if (after - before < (long long)(16 * MIB))
		return 4;
	if (cgroup_read_key(cg, "memory.stat", "shmem") < (long long)(16 * MIB))
		return 5;
	/* Not killed, and nothing is left of it. */
	for (int i = 0; i < 3; i++) {
		if (gp_bo_alloc(fd, 64 * MIB, &id) != -ENOMEM)
			return 6;
	}
	if (used() != 16 * MIB)
		return 7;
	return 0;
}

TEST_F_TIMEOUT(bo, memory_cgroup, 120)
{
	struct cgroup cg;
	int ret = cgroup_make(&cg, "bo");

	if (ret)
		SKIP(return, "no memory cgroups: %s", strerror(-ret));
	ASSERT_LE(64 * MIB, self->total);
	EXPECT_EQ(0, cgroup_write(&cg, "memory.max", "32M"));
	EXPECT_EQ(0, run_child(memcg_child, &cg));
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 5));
	EXPECT_EQ(0, cgroup_read_key(&cg, "memory.events", "oom_kill"));
	EXPECT_GT((long long)(8 * MIB), cgroup_read(&cg, "memory.current"));
	EXPECT_EQ(0, cgroup_remove(&cg));
}

/* --- what memory management may be asked to do with it */

/* Not MADV_HWPOISON and MADV_SOFT_OFFLINE, which are 100 and 101. */
#define MADVISE_LAST	30

TEST_F_TIMEOUT(bo, madvise, 120)
{
	size_t n = 2 * MIB + 8 * page_size;
	unsigned char *p;
	__u32 id;

	ASSERT_EQ(0, gp_bo_alloc(self->fd, n, &id));
	for (int advice = 0; advice <= MADVISE_LAST; advice++) {
		int ret;

		p = gp_map(self->fd, id, 0, n, RW);
		ASSERT_NE(NULL, p);
		memset(p, advice + 1, n);
		ret = madvise(p, n, advice) ? -errno : 0;
		if (advice == MADV_REMOVE)
			EXPECT_EQ(-EPERM, ret);
		if (advice == MADV_NORMAL || advice == MADV_DONTNEED || advice == MADV_WILLNEED)
			EXPECT_EQ(0, ret);
		if (advice == MADV_FREE || advice == MADV_WIPEONFORK)
			EXPECT_NE(0, ret);
		/* Whatever it answered: every byte is there, and so is the charge. */
		EXPECT_TRUE(all_bytes(p, n, advice + 1))
			TH_LOG("advice %d", advice);
		EXPECT_EQ(n, used());
		ASSERT_EQ(0, munmap(p, n));
	}
}

TEST_F(bo, mlock_and_friends)
{
	size_t n = 64 * page_size;
	unsigned char vec[64];
	char *p;
	__u32 id;

	ASSERT_EQ(0, gp_bo_alloc(self->fd, n, &id));
	p = gp_map(self->fd, id, 0, n, RW);
	ASSERT_NE(NULL, p);
	memset(p, 3, n);
	EXPECT_EQ(0, mlock(p, n));
	EXPECT_EQ(0, munlock(p, n));
	EXPECT_EQ(0, mincore(p, n, vec));
	for (unsigned int i = 0; i < ARRAY_SIZE(vec); i++) {
		EXPECT_EQ(1, vec[i] & 1);
	}
	EXPECT_EQ(0, msync(p, n, MS_SYNC));
	EXPECT_TRUE(all_bytes((void *)p, n, 3));
	EXPECT_EQ(0, mprotect(p, n, PROT_NONE));
	EXPECT_TRUE(faults_with(p, false, SIGSEGV));
	EXPECT_EQ(0, mprotect(p, n, RW));
	EXPECT_TRUE(all_bytes((void *)p, n, 3));
}

/* /proc/self/map_files gives the privileged the file itself. */
TEST_F(bo, the_file_cannot_be_changed)
{
	size_t n = 16 * page_size;
	char path[96];
	int fd, rw;
	char *p;
	__u32 id;

	ASSERT_EQ(0, gp_bo_alloc(self->fd, n, &id));
	p = gp_map(self->fd, id, 0, n, RW);
	ASSERT_NE(NULL, p);
	memset(p, 9, n);
	snprintf(path, sizeof(path), "/proc/self/map_files/%lx-%lx", (long)p, (long)p + n);
	EXPECT_NE(0, truncate(path, 0));
	EXPECT_NE(0, truncate(path, 2 * n));
	rw = open(path, O_RDWR | O_CLOEXEC);
	fd = rw < 0 ? open(path, O_RDONLY | O_CLOEXEC) : rw;
	if (fd >= 0) {
		EXPECT_NE(0, fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
				       page_size));
		EXPECT_NE(0, fallocate(fd, 0, 0, 2 * n));
		EXPECT_NE(0, ftruncate(fd, 0));
		EXPECT_NE(0, ftruncate(fd, 2 * n));
		EXPECT_GT(0, pwrite(fd, "x", 1, 2 * n));
		close(fd);
	}
	EXPECT_TRUE(all_bytes((void *)p, n, 9));
	EXPECT_EQ(n, used());
	/* The device node is no file with contents either. */
	EXPECT_NE(0, ftruncate(self->fd, n));
	EXPECT_NE(0, fallocate(self->fd, 0, 0, n));
	EXPECT_GT(0, pread(self->fd, path, 1, 0));
	EXPECT_GT(0, pwrite(self->fd, path, 1, 0));
}

/* --- pinned by others */

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
	ASSERT_EQ(0, gp_bo_alloc(self->fd, variant->length, &self->id));
	self->p = gp_map(self->fd, self->id, 0, variant->length, RW);
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
	/* And out again, from the middle. */
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
	EXPECT_EQ(variant->length, used());
	/* The module stays as long as somebody can reach the memory. */
	EXPECT_EQ(-1, syscall(SYS_delete_module, "gpumem", O_NONBLOCK));
	EXPECT_EQ(EWOULDBLOCK, errno);
	/* Nobody else gets these pages: the pin reads what was written. */
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

/* A page in a pipe is no pin, and yet somebody has it: charged, and not free for a new owner. */
TEST_F_TIMEOUT(pin, a_pipe_keeps_it, 60)
{
	struct iovec iov = { self->p + page_size, page_size };
	int pipes[2], caches;
	__u32 live = 0;
	char byte;

	/*
	 * A CPU on which a part of the memory was populated may still have its pages in a batch for the
	 * LRU lists, which counts as a reference.  This drains the batches of all CPUs.
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
	EXPECT_EQ(variant->length, used());
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
	EXPECT_TRUE(all_bytes(self->p, variant->length, 0x3c));
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
	ASSERT_EQ(0, gp_bo_alloc(self->fd, 2 * DIRECT_BYTES, &id));
	self->p = gp_map(self->fd, id, 0, 2 * DIRECT_BYTES, RW);
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

/* --- the module */

TEST_F(bo, the_module_stays)
{
	__u32 id, vm, timeline;
	void *p;
	int dmabuf;

#define STAYS() do {								\
		EXPECT_EQ(-1, syscall(SYS_delete_module, "gpumem", O_NONBLOCK));	\
		EXPECT_EQ(EWOULDBLOCK, errno);					\
		ASSERT_EQ(0, access("/dev/gpumem0", F_OK));			\
	} while (0)

	STAYS();
	ASSERT_EQ(0, gp_bo_alloc(self->fd, MIB, &id));
	ASSERT_EQ(0, gp_vm_create(self->fd, &vm));
	ASSERT_EQ(0, gp_timeline_create(self->fd, 0, &timeline));
	dmabuf = gp_bo_export(self->fd, id, 0, MIB, 0);
	ASSERT_LE(0, dmabuf);
	p = gp_map(self->fd, id, 0, MIB, RW);
	ASSERT_NE(NULL, p);
	close(self->fd);
	self->fd = -1;
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 0, 5));
	STAYS();
	close(dmabuf);
	EXPECT_TRUE(dev_attr_becomes(0, "exports", 0, 5));
	STAYS();
	munmap(p, MIB);
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 5));
}

TEST_HARNESS_MAIN
