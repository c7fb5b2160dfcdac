// SPDX-License-Identifier: GPL-2.0
/*
 * Buffer objects: allocation, contents, mapping, budget, and madvise(), mlock() and the like on
 * their memory. t_bo_pages.c tests other subsystems that hold their pages.
 */
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "kselftest_harness.h"
#include "common/client_fixture.h"
#include "common/util.h"

FIXTURE(bo)
{
	struct leak_state leak;
	int fd;
	__u64 total;
};

FIXTURE_SETUP(bo)
{
	struct gpumem_info info;

	client_begin(_metadata, &self->leak, &self->fd);
	ASSERT_EQ(0, gp_info(self->fd, 0, &info));
	self->total = info.total;
	ASSERT_LE(64 * MIB, self->total);
}

FIXTURE_TEARDOWN(bo)
{
	client_end(_metadata, &self->leak, self->fd, 10);
}

#define RW	(PROT_READ | PROT_WRITE)

static __u64 used(void)
{
	return dev_attr(0, "used");
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
	/* "Shown in debug output": /proc/PID/maps shows the names of mapped objects. */
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
	/*
	 * The device stays attached when the descriptor that GPUMEM_DEVICE_ATTACH named is closed.
	 */
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
	/* More than half of the memory, so that each round reuses pages of the round before.  */
	size_t length = (self->total / 2 + MIB) & -MIB;
	__u32 id;

	for (int round = 0; round < 3; round++) {
		unsigned char *p;

		p = gp_alloc_map(self->fd, length, &id);
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
	/* A folio beyond the end of the object would charge more than was asked for.  */
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

	all = gp_alloc_map(fd, n, &id);
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

/* Growing a mapping never reaches memory outside the object.  */
TEST_F(bo, mremap)
{
	size_t n = 4 * page_size;
	__u32 id, behind;
	char *p, *q, *b;

	ASSERT_EQ(0, gp_bo_alloc(self->fd, n, &id));
	b = gp_alloc_map(self->fd, n, &behind);
	ASSERT_NE(NULL, b);
	memset(b, 0x77, n);
	p = gp_map(self->fd, id, 0, page_size, RW);
	ASSERT_NE(NULL, p);
	strcpy(p, "first page");
	q = mremap(p, page_size, 2 * n, MREMAP_MAYMOVE);
	if (q != MAP_FAILED) {
		EXPECT_STREQ("first page", q);
		EXPECT_TRUE(all_are((void *)(q + page_size), 0, n - page_size));
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
 * remap_file_pages() changes which page of a file a mapping shows.  A refused call may leave a
 * hole; the mapping never shows memory outside the object.
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

	/* Map, close, repeat: a client does not escape the budget by giving the id back. */
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
	/* Allocate the remainder in pages: every byte can be allocated. */
	while (!gp_bo_alloc(self->fd, MIB, &id))
		got += MIB;
	while (!gp_bo_alloc(self->fd, page_size, &id))
		got += page_size;
	EXPECT_EQ(self->total, got);
	EXPECT_EQ(self->total, used());
	/* Memory that the mappings hold after their client's close counts for a new client, too. */
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

/* A failed allocation releases the memory that it had allocated so far.  */
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
	/* The process is not killed, and a failed allocation leaves nothing charged.  */
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

/* --- requests of user space to memory management */

/* Leaves out MADV_HWPOISON and MADV_SOFT_OFFLINE, which are 100 and 101.  */
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
		/* Whatever madvise() returned, every byte and the charge are unchanged.  */
		EXPECT_TRUE(all_are(p, advice + 1, n))
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

	p = gp_alloc_map(self->fd, n, &id);
	ASSERT_NE(NULL, p);
	memset(p, 3, n);
	EXPECT_EQ(0, mlock(p, n));
	EXPECT_EQ(0, munlock(p, n));
	EXPECT_EQ(0, mincore(p, n, vec));
	for (unsigned int i = 0; i < ARRAY_SIZE(vec); i++) {
		EXPECT_EQ(1, vec[i] & 1);
	}
	EXPECT_EQ(0, msync(p, n, MS_SYNC));
	EXPECT_TRUE(all_are((void *)p, 3, n));
	EXPECT_EQ(0, mprotect(p, n, PROT_NONE));
	EXPECT_TRUE(faults_with(p, false, SIGSEGV));
	EXPECT_EQ(0, mprotect(p, n, RW));
	EXPECT_TRUE(all_are((void *)p, 3, n));
}

/* A privileged process can open the object's file through /proc/self/map_files.  */
TEST_F(bo, the_file_cannot_be_changed)
{
	size_t n = 16 * page_size;
	char path[96];
	int fd, rw;
	char *p;
	__u32 id;

	p = gp_alloc_map(self->fd, n, &id);
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
	EXPECT_TRUE(all_are((void *)p, 9, n));
	EXPECT_EQ(n, used());
	/* The device node is no file with contents either. */
	EXPECT_NE(0, ftruncate(self->fd, n));
	EXPECT_NE(0, fallocate(self->fd, 0, 0, n));
	EXPECT_GT(0, pread(self->fd, path, 1, 0));
	EXPECT_GT(0, pwrite(self->fd, path, 1, 0));
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
