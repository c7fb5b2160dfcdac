// SPDX-License-Identifier: GPL-2.0
/*
 * Budgets: which user's budget a client counts against, that budgets bind, and that the
 * administrator can change them at run time.
 *
 * Pinned memory: a client counts for the user who opened it, and for the owners of the user
 * namespaces around that user.  Device memory: the attribute "size".  Mappings: map_limit.  Rings:
 * ring_limit and ring_total.
 */
#include <linux/gpumem_netlink.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "common/leak.h"
#include "common/limits_util.h"

#define RW	(PROT_READ | PROT_WRITE)
#define USER	(32 * MIB)	/* pin_limit in these tests */
#define STEP	(4 * MIB)
#define ALICE	2001
#define BOB	2002
#define CAROL	2003
#define SUBUID	300000		/* the first that is subordinate to ALICE */

/* Bytes that count against the budgets of rings. */
static bool rings_become(long long want)
{
	return number_becomes("/sys/class/gpumem/rings", want);
}

FIXTURE(limits)
{
	struct leak_state leak;
	long long pin_limit, pin_total, map_limit, ring_limit, ring_total;
	char size[32];
};

FIXTURE_SETUP(limits)
{
	ASSERT_TRUE(dev_quiet(10));
	ASSERT_TRUE(pinned_becomes(0));
	leak_begin(&self->leak);
	/* Other users open the node.  */
	ASSERT_EQ(0, chmod("/dev/gpumem0", 0666));
	self->pin_limit = get_param("pin_limit");
	self->pin_total = get_param("pin_total");
	self->map_limit = get_param("map_limit");
	self->ring_limit = get_param("ring_limit");
	self->ring_total = get_param("ring_total");
	ASSERT_LT(0, self->ring_limit);
	ASSERT_LT(0, self->ring_total);
	ASSERT_LT(0, self->pin_limit);
	ASSERT_LT(0, self->pin_total);
	ASSERT_LT(0, self->map_limit);
	ASSERT_EQ(0, dev_attr_text(0, "size", self->size, sizeof(self->size)));
	ASSERT_EQ(0, set_param("pin_limit", USER));
}

FIXTURE_TEARDOWN(limits)
{
	unmap_all();
	EXPECT_EQ(0, chmod("/dev/gpumem0", 0660));
	EXPECT_EQ(0, set_param("pin_limit", self->pin_limit));
	EXPECT_EQ(0, set_param("pin_total", self->pin_total));
	EXPECT_EQ(0, set_param("map_limit", self->map_limit));
	EXPECT_EQ(0, set_param("ring_limit", self->ring_limit));
	EXPECT_EQ(0, set_param("ring_total", self->ring_total));
	EXPECT_EQ(0, write_dev_attr(0, "size", self->size));
	EXPECT_TRUE(dev_quiet(20));
	EXPECT_TRUE(pinned_becomes(0));
	EXPECT_TRUE(rings_become(0));
	EXPECT_TRUE(leak_end(&self->leak));
}

/* --- the user whose budget counts */

static int changes_user(void *arg)
{
	int fd, other;
	__u32 id;

	(void)arg;
	WANT(become(ALICE, 0));
	fd = gp_open(0);
	WANT(fd >= 0);
	WANT(pin_until(fd, STEP, EDQUOT) == USER);
	/* The client remains Alice's, although its process has changed the user. */
	for (uid_t uid = BOB; uid <= CAROL; uid++) {
		WANT(!setresuid(-1, 0, -1) && become(uid, 0));
		WANT(bo_alloc_host(fd, page_size, &id) == -EDQUOT);
	}
	WANT(!setresuid(0, 0, 0));
	WANT(bo_alloc_host(fd, page_size, &id) == -EDQUOT);
	/* A client that Bob opens counts for Bob. */
	WANT(become(BOB, 0));
	other = gp_open(0);
	WANT(other >= 0 && pin_until(other, STEP, EDQUOT) == USER);
	close(fd);
	WANT(pinned_becomes(USER));
	WANT(bo_alloc_host(other, page_size, &id) == -EDQUOT);
	return 0;
}

TEST_F(limits, opener_pays)
{
	EXPECT_EQ(0, run_child(changes_user, NULL));
}

struct crowd {
	int ready[2], mapped[2], full[2], go[2];
	uid_t uid;
	long long *got;
};

/* Opens a device as @c->uid, pins until that is refused, and waits until the parent ends it.  */
static int pin_as(void *arg)
{
	struct crowd *c = arg;
	int fd;

	if (!become(c->uid, c->uid))
		return 1;
	fd = gp_open(0);
	if (fd < 0)
		return 2;
	*c->got = pin_until(fd, STEP, EDQUOT);
	return !tell(c->full[1]) || !hear(c->go[0]);
}

/* Alice's user namespace: a subordinate user pins all of her budget, then another one tries to.  */
static int subordinates(void *arg)
{
	struct crowd *c = arg;
	pid_t pid;

	WANT(become(ALICE, ALICE));
	WANT(!unshare(CLONE_NEWUSER));
	WANT(tell(c->ready[1]) && hear(c->mapped[0]));
	for (int i = 0; i < 2; i++) {
		c->uid = 1 + i;
		pid = start_child(pin_as, c);
		WANT(hear(c->full[0]));
		c->got++;
		if (!i)
			continue;
		/* The end of both processes frees the budget.  */
		tell(c->go[1]);
		tell(c->go[1]);
		WANT(!end_child(pid) && wait(NULL) > 0 && pinned_becomes(0));
	}
	c->uid = 3;
	pid = start_child(pin_as, c);
	WANT(hear(c->full[0]) && tell(c->go[1]));
	return end_child(pid);
}

TEST_F(limits, subordinate_users)
{
	long long *got = mmap(NULL, page_size, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct crowd c = { .got = got };
	char path[64], map[64];
	pid_t pid;

	ASSERT_NE(MAP_FAILED, (void *)got);
	ASSERT_EQ(0, set_param("pin_total", 4 * USER));
	ASSERT_EQ(0, pipe(c.ready) | pipe(c.mapped) | pipe(c.full) | pipe(c.go));
	pid = start_child(subordinates, &c);
	ASSERT_TRUE(hear(c.ready[0]));
	snprintf(map, sizeof(map), "0 %d 1\n1 %d 1000\n", ALICE, SUBUID);
	snprintf(path, sizeof(path), "/proc/%d/gid_map", pid);
	ASSERT_EQ(0, write_file(path, map));
	snprintf(path, sizeof(path), "/proc/%d/uid_map", pid);
	ASSERT_EQ(0, write_file(path, map));
	ASSERT_TRUE(tell(c.mapped[1]));
	EXPECT_EQ(0, end_child(pid));
	/* The first has all of Alice's budget, the second nothing, and the third all again. */
	EXPECT_EQ((long long)USER, got[0]);
	EXPECT_EQ(0, got[1]);
	EXPECT_EQ((long long)USER, got[2]);
}

/* --- all users together */

TEST_F(limits, all_users)
{
	long long *got = mmap(NULL, page_size, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct crowd c = { .uid = ALICE, .got = got };
	pid_t pid[3];

	ASSERT_NE(MAP_FAILED, (void *)got);
	ASSERT_EQ(0, set_param("pin_total", USER + 4 * STEP));
	ASSERT_EQ(0, pipe(c.full) | pipe(c.go));
	for (int i = 0; i < 3; i++) {
		pid[i] = start_child(pin_as, &c);
		ASSERT_TRUE(hear(c.full[0]));
		c.got++;
		c.uid++;
	}
	EXPECT_EQ((long long)USER, got[0]);
	EXPECT_EQ((long long)(4 * STEP), got[1]);
	EXPECT_EQ(0, got[2]);
	EXPECT_EQ((long long)(USER + 4 * STEP), number_of("/sys/class/gpumem/pinned", ""));
	for (int i = 0; i < 3; i++)
		tell(c.go[1]);
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(0, end_child(pid[i]));
}

/* --- at run time */

TEST_F(limits, pin_limit_changes)
{
	static const char * const bad[] = { "", "x", "-1", "4X", "1M1", "9E", "\n", "17592186044418M" };
	int fd = gp_open(0);
	__u32 id[3], more;
	char *p;

	ASSERT_LE(0, fd);
	for (int i = 0; i < 3; i++)
		ASSERT_EQ(0, bo_alloc_host(fd, STEP, &id[i]));
	/* A limit below the memory in use: the memory stays, and allocations are refused. */
	ASSERT_EQ(0, write_param("pin_limit", "8M\n"));
	EXPECT_EQ((long long)(8 * MIB), get_param("pin_limit"));
	EXPECT_EQ(-EDQUOT, bo_alloc_host(fd, page_size, &more));
	p = gp_map(fd, id[2], 0, STEP, RW);
	ASSERT_NE(NULL, p);
	memset(p, 1, STEP);
	munmap(p, STEP);
	ASSERT_EQ(0, gp_destroy(fd, id[0]));
	EXPECT_EQ(-EDQUOT, bo_alloc_host(fd, page_size, &more));
	ASSERT_EQ(0, gp_destroy(fd, id[1]));
	EXPECT_EQ(0, bo_alloc_host(fd, STEP, &more));
	EXPECT_EQ(-EDQUOT, bo_alloc_host(fd, page_size, &more));
	ASSERT_EQ(0, write_param("pin_limit", "12M"));
	EXPECT_EQ(0, bo_alloc_host(fd, STEP, &more));
	for (unsigned int i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_EQ(i ? -EINVAL : 0, write_param("pin_limit", bad[i]))
			TH_LOG("'%s'", bad[i]);
	}
	EXPECT_EQ((long long)(12 * MIB), get_param("pin_limit"));
	close(fd);
}

TEST_F(limits, device_size_changes)
{
	static const char * const bad[] = {
		"x", "-1", "0", "1M", "4X", "16E", "4M4", "17592186044418M", "18446744073713745920",
	};
	int fd = gp_open(0);
	struct gpumem_info info;
	__u32 id, small;
	char *p;

	ASSERT_LE(0, fd);
	p = gp_alloc_map(fd, 24 * MIB, &id);
	ASSERT_NE(NULL, p);
	/* A size below the memory in use.  */
	ASSERT_EQ(0, write_dev_attr(0, "size", "17M"));
	EXPECT_EQ((long long)(16 * MIB), dev_attr(0, "size"));
	ASSERT_EQ(0, gp_info(fd, 0, &info));
	EXPECT_EQ(16 * MIB, info.total);
	EXPECT_EQ(24 * MIB, info.used);
	EXPECT_EQ(-ENOSPC, gp_bo_alloc(fd, page_size, &small));
	memset(p, 1, 24 * MIB);
	munmap(p, 24 * MIB);
	ASSERT_EQ(0, gp_destroy(fd, id));
	ASSERT_TRUE(dev_attr_becomes(0, "used", 0, 10));
	/* When the memory in use is below the size, the size binds to the page.  */
	EXPECT_EQ(-ENOSPC, gp_bo_alloc(fd, 16 * MIB + page_size, &id));
	ASSERT_EQ(0, gp_bo_alloc(fd, 16 * MIB - page_size, &id));
	EXPECT_EQ(0, gp_bo_alloc(fd, page_size, &small));
	EXPECT_EQ(-ENOSPC, gp_bo_alloc(fd, page_size, &small));
	ASSERT_EQ(0, write_dev_attr(0, "size", "32M\n"));
	EXPECT_EQ(0, gp_bo_alloc(fd, 16 * MIB, &small));
	EXPECT_EQ(-ENOSPC, gp_bo_alloc(fd, page_size, &small));
	for (unsigned int i = 0; i < ARRAY_SIZE(bad); i++) {
		EXPECT_EQ(-EINVAL, write_dev_attr(0, "size", bad[i]))
			TH_LOG("'%s'", bad[i]);
	}
	EXPECT_EQ((long long)(32 * MIB), dev_attr(0, "size"));
	close(fd);
}

/*
 * A client that allocates and frees all the time.  Two of them run while the size goes up and down;
 * after the last change the memory in use stays within the size.
 */
static int allocate_all_the_time(void *arg)
{
	int fd = gp_open(0);
	__u32 id[8];

	(void)arg;
	for (;;) {
		int n = 0;

		while (n < 8 && !gp_bo_alloc(fd, MIB, &id[n]))
			n++;
		while (n)
			gp_destroy(fd, id[--n]);
	}
	return 0;
}

TEST_F(limits, device_size_races)
{
	__u64 end = in_seconds(getenv("GPUMEM_QUICK") ? 2 : 4);
	unsigned int rounds = 0;
	pid_t pid[2];

	for (int i = 0; i < 2; i++)
		pid[i] = start_child(allocate_all_the_time, NULL);
	while (mono_ns() < end) {
		ASSERT_EQ(0, write_dev_attr(0, "size", rounds++ % 2 ? "4M" : "12M"));
		nap_ms(rounds % 7);
	}
	ASSERT_EQ(0, write_dev_attr(0, "size", "4M"));
	/* Allocations that were under way end, and from then on the size binds. */
	nap_ms(500);
	for (int i = 0; i < 50; i++) {
		EXPECT_GE((long long)(4 * MIB), dev_attr(0, "used"));
		nap_ms(2);
	}
	for (int i = 0; i < 2; i++)
		kill_child(pid[i]);
	EXPECT_LT(10, rounds);
}

/* --- clients that are dead */

/* Memory that fills a limit. */
struct fill {
	bool host;
	__u64 bytes;
	pid_t holder;
};

static int fill(struct fill *f)
{
	int fd = gp_open(0);
	__u32 id;

	if (fd < 0)
		return fd;
	return f->host ? bo_alloc_host(fd, f->bytes, &id) : gp_bo_alloc(fd, f->bytes, &id);
}

/* Fills the limit; a child of it keeps the descriptor. */
static int victim(void *arg)
{
	struct fill *f = arg;
	pid_t pid;

	if (fill(f))
		return 1;
	pid = fork();
	if (pid)
		__atomic_store_n(&f->holder, pid, __ATOMIC_RELAXED);
	for (;;)
		pause();
}

static int successor(void *arg)
{
	int ret = fill(arg);

	if (ret)
		fprintf(stderr, "# %s\n", strerror(-ret));
	return ret ? 1 : 0;
}

/*
 * The memory of a killed process, whose descriptor another one holds, makes room at once.  Once it may take longer: an
 * allocation waits for a busy CPU to drain its LRU batch for a limited time only.
 */
TEST_F_TIMEOUT(limits, killed, 120)
{
	unsigned int late = 0;
	struct fill *f = mmap(NULL, page_size, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ASSERT_NE(MAP_FAILED, f);
	ASSERT_EQ(0, write_dev_attr(0, "size", "32M"));
	for (unsigned int i = 0; i < 10; i++) {
		pid_t pid;

		*f = (struct fill) { .host = i & 1, .bytes = USER };
		pid = start_child(victim, f);
		for (int k = 0; k < 1000 && !__atomic_load_n(&f->holder, __ATOMIC_RELAXED); k++)
			nap_ms(10);
		ASSERT_LT(0, f->holder);
		EXPECT_EQ(-SIGKILL, kill_child(pid));
		if (run_child(successor, f)) {
			TH_LOG("%s memory, round %u: no room at once", f->host ? "host" : "device", i);
			late++;
			nap_ms(1000);
			EXPECT_EQ(0, run_child(successor, f));
		}
		EXPECT_EQ(0, kill(f->holder, SIGKILL));
	}
	EXPECT_GE(1, late);
	munmap(f, page_size);
}

/* --- mappings */

#define MAPS	1000

struct mapper {
	uid_t uid;
	int full[2], go[2];
	bool memcg;
	volatile __u64 *mapped;
};

static int map_at(int fd, __u32 vm, __u32 bo, __u64 i)
{
	return gp_vm_map(fd, vm, bo, 0, (i + 1) << 13, page_size, 1, 1);
}

static int map_all(void *arg)
{
	struct mapper *m = arg;
	struct gpumem_stats stats;
	__u64 *n = (__u64 *)m->mapped;
	__u32 bo, vm, vm2, bo2;
	int fd, other, ret;

	WANT(become(m->uid, m->uid));
	fd = gp_open(0);
	other = gp_open(0);
	WANT(fd >= 0 && other >= 0);
	WANT(!gp_bo_alloc(fd, page_size, &bo) && !gp_vm_create(fd, &vm));
	while (!(ret = map_at(fd, vm, bo, *n)))
		++*n;
	WANT(ret == -EDQUOT);
	WANT(!gp_stats(fd, &stats) && stats.mappings == *n);
	/* Neither another address space nor another client of the user has a limit of its own. */
	WANT(!gp_vm_create(fd, &vm2) && map_at(fd, vm2, bo, 0) == -EDQUOT);
	WANT(!gp_bo_alloc(other, page_size, &bo2) && !gp_vm_create(other, &vm2));
	WANT(map_at(other, vm2, bo2, 0) == -EDQUOT);
	/* Unmapping one makes room for one.  */
	WANT(!gp_vm_unmap(fd, vm, 1 << 13, page_size, NULL));
	WANT(!map_at(other, vm2, bo2, 0));
	WANT(map_at(fd, vm, bo, 0) == -EDQUOT);
	WANT(!gp_destroy(other, vm2));
	WANT(!map_at(fd, vm, bo, 0) && map_at(fd, vm, bo, *n) == -EDQUOT);
	WANT(tell(m->full[1]) && hear(m->go[0]));
	/* All mappings end with their address space.  */
	WANT(!gp_destroy(fd, vm));
	WANT(!gp_stats(fd, &stats) && !stats.mappings);
	return 0;
}

TEST_F(limits, mappings)
{
	volatile __u64 *mapped = mmap(NULL, page_size, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct mapper a = { .uid = ALICE, .mapped = mapped }, b = { .uid = BOB,
		.mapped = mapped + 1 };
	pid_t alice, bob;

	ASSERT_NE(MAP_FAILED, (void *)mapped);
	ASSERT_EQ(0, set_param("map_limit", MAPS));
	ASSERT_EQ(0, pipe(a.full) | pipe(a.go) | pipe(b.full) | pipe(b.go));
	alice = start_child(map_all, &a);
	ASSERT_TRUE(hear(a.full[0]));
	/* While Alice has all of hers, Bob has his own. */
	bob = start_child(map_all, &b);
	ASSERT_TRUE(hear(b.full[0]));
	EXPECT_EQ(MAPS, mapped[0]);
	EXPECT_EQ(MAPS, mapped[1]);
	tell(a.go[1]);
	tell(b.go[1]);
	EXPECT_EQ(0, end_child(alice));
	EXPECT_EQ(0, end_child(bob));
}

/* Maps until its memory cgroup refuses. */
static int map_in_memcg(void *arg)
{
	struct mapper *m = arg;
	__u64 *n = (__u64 *)m->mapped;
	int fd = gp_open(0), ret;
	__u64 bytes;
	__u32 bo, vm;

	WANT(fd >= 0 && !gp_bo_alloc(fd, page_size, &bo) && !gp_vm_create(fd, &vm));
	while (!(ret = map_at(fd, vm, bo, *n)))
		++*n;
	WANT(ret == -ENOMEM);
	/* The mappings up to the refusal are intact, and unmapping makes room for new ones. */
	WANT(!gp_vm_unmap(fd, vm, 1 << 13, 64 << 13, &bytes) && bytes == 64 * page_size);
	for (__u64 i = 0; i < 32; i++)
		WANT(!map_at(fd, vm, bo, i));
	return 0;
}

static int enter_and_map(void *arg)
{
	struct cgroup *cg = *(struct cgroup **)arg;
	struct mapper m = { .mapped = ((__u64 **)arg)[1] };

	WANT(!cgroup_enter(cg));
	return map_in_memcg(&m);
}

static int innocent(void *arg)
{
	int *pipes = arg;
	size_t n = 32 * MIB;
	char *p = mmap(NULL, n, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	WANT(p != MAP_FAILED);
	memset(p, 1, n);
	WANT(tell(pipes[1]));
	for (;;)
		pause();
}

/* The limit of a memory cgroup that a test fills: 12 MiB, or 6 MiB with GPUMEM_QUICK. */
static __u64 group_limit(struct cgroup *cg)
{
	__u64 bytes = (getenv("GPUMEM_QUICK") ? 6 : 12) * MIB;
	char text[24];

	snprintf(text, sizeof(text), "%llu", (unsigned long long)bytes);
	return cgroup_write(cg, "memory.max", text) ? 0 : bytes;
}

TEST_F_TIMEOUT(limits, mappings_in_memcg, 120)
{
	__u64 *mapped = mmap(NULL, page_size, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int pipes[2], ret, status;
	__u64 max;
	struct cgroup cg;
	void *arg[2] = { &cg, mapped };
	pid_t pid;

	ASSERT_NE(MAP_FAILED, (void *)mapped);
	if (cgroup_make(&cg, "mappings"))
		SKIP(return, "no memory cgroups");
	max = group_limit(&cg);
	ASSERT_NE(0, max);
	ASSERT_EQ(0, pipe(pipes));
	pid = start_child(innocent, pipes);
	ASSERT_TRUE(hear(pipes[0]));
	ret = run_child(enter_and_map, arg);
	TH_LOG("%llu mappings, ended with %d", (unsigned long long)*mapped, ret);
	EXPECT_EQ(0, ret);
	EXPECT_LT(1000, *mapped);
	/*
	 * Each mapping was charged to the group; kernels that charge tree nodes charged its share
	 * of the tree, too.
	 */
	EXPECT_LT(*mapped * 64, max);
	EXPECT_EQ(0, waitpid(pid, &status, WNOHANG));
	kill_child(pid);
	EXPECT_TRUE(dev_quiet(20));
	EXPECT_EQ(0, cgroup_remove(&cg));
}

/* --- rings */

#define RING	4096U		/* most entries of a ring: 64 pages, and one page for the tail */
#define RING_PAGES	65

/* Faults in pages of a ring; 0 or a negative errno.  */
static int populate(struct stream *s, unsigned int first, unsigned int pages)
{
	char *at = (char *)s->ring + first * page_size;

	return madvise(at, pages * page_size, MADV_POPULATE_WRITE) ? -errno : 0;
}

/* The ring memory of the client, in pages. */
static long long ring_pages(int fd)
{
	struct gpumem_stats stats;

	return gp_stats(fd, &stats) ? -1 : (long long)(stats.ring_bytes / page_size);
}

static int refused_by(int fd)
{
	struct gpumem_refusal_info r = { .size = sizeof(r) };

	return gp_ioctl(fd, GPUMEM_REFUSAL, &r) ? -1 : (int)r.limit;
}

/* A page counts from its first touch until the stream and the mapping are gone. */
TEST_F(limits, ring_pages_count)
{
	int fd = gp_open(0);
	struct stream s;
	__u32 vm;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, gp_vm_create(fd, &vm));
	EXPECT_EQ(0, ring_pages(fd));
	ASSERT_EQ(0, stream_open(&s, fd, vm, 0, RING));
	EXPECT_EQ(1, ring_pages(fd));
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(0, populate(&s, 0, 3));
		EXPECT_EQ(3, ring_pages(fd));
	}
	*(volatile char *)((char *)s.ring + 10 * page_size) = 1;
	EXPECT_EQ(4, ring_pages(fd));
	EXPECT_EQ(0, populate(&s, 0, RING_PAGES));
	EXPECT_EQ(RING_PAGES, ring_pages(fd));
	EXPECT_EQ((long long)(RING_PAGES * page_size), number_of("/sys/class/gpumem/rings", ""));
	/* A mapping keeps the pages after the stream is destroyed.  */
	ASSERT_EQ(0, gp_destroy(fd, s.id));
	nap_ms(50);
	EXPECT_EQ(RING_PAGES, ring_pages(fd));
	munmap(s.ring, s.ring_size);
	EXPECT_TRUE(rings_become(0));
	EXPECT_EQ(0, ring_pages(fd));
	munmap((void *)s.page, page_size);
	/* The last mapping may go after the descriptor. */
	ASSERT_EQ(0, stream_open(&s, fd, vm, 0, RING));
	ASSERT_EQ(0, populate(&s, 0, 5));
	close(fd);
	nap_ms(50);
	EXPECT_TRUE(rings_become(5 * page_size));
	munmap(s.ring, s.ring_size);
	munmap((void *)s.page, page_size);
	EXPECT_TRUE(rings_become(0));
}

TEST_F(limits, ring_limit_binds)
{
	const long long most = 20;
	int fd = gp_open(0), other = gp_open(0);
	struct gpumem_sqe nop = sqe_nop();
	struct stream s, t;
	__u32 vm, vm2, id, timeline;

	ASSERT_LE(0, fd);
	ASSERT_LE(0, other);
	ASSERT_EQ(0, gp_vm_create(fd, &vm));
	ASSERT_EQ(0, gp_vm_create(other, &vm2));
	ASSERT_EQ(0, set_param("ring_limit", most * page_size));
	ASSERT_EQ(0, stream_open(&s, fd, vm, 0, RING));
	ASSERT_EQ(0, stream_open(&t, other, vm2, 0, RING));
	EXPECT_EQ(0, populate(&s, 1, most - 2));
	EXPECT_EQ(most - 1, ring_pages(fd));
	/* Both clients are of one user. */
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(-EFAULT, populate(&s, most - 1, 1));
		EXPECT_EQ(GPUMEM_LIMIT_RINGS, refused_by(fd));
		EXPECT_EQ(-EFAULT, populate(&t, 1, 1));
		EXPECT_EQ(GPUMEM_LIMIT_RINGS, refused_by(other));
	}
	EXPECT_TRUE(faults_with((char *)t.ring + page_size, true, SIGBUS));
	EXPECT_EQ(-EDQUOT, gp_stream_create(fd, vm, 0, 16, &id, &timeline));
	EXPECT_EQ(GPUMEM_LIMIT_RINGS, refused_by(fd));
	EXPECT_EQ(most - 1, ring_pages(fd));
	EXPECT_EQ(1, ring_pages(other));
	/* Entries in present pages are executed; entries in absent pages are NOPs.  */
	for (int i = 0; i < 64 * (most - 2); i++) {
		ASSERT_EQ(0, stream_push(&s, &nop));
	}
	EXPECT_EQ(0, stream_sync(&s));
	t.tail += 100;
	stream_publish(&t);
	EXPECT_EQ(0, stream_sync(&t));
	/* The new limit has room for one page more.  */
	ASSERT_EQ(0, set_param("ring_limit", (most + 1) * page_size));
	EXPECT_EQ(0, populate(&t, 7, 1));
	EXPECT_EQ(-EFAULT, populate(&t, 8, 1));
	EXPECT_EQ(-EFAULT, populate(&s, most - 1, 1));
	/* A limit below the memory in use: the memory stays. */
	ASSERT_EQ(0, set_param("ring_limit", 0));
	EXPECT_EQ(0, populate(&s, 0, most - 1));
	EXPECT_EQ(-EFAULT, populate(&s, most - 1, 1));
	s.tail++;
	stream_publish(&s);
	EXPECT_EQ(0, stream_sync(&s));
	/* Closing another stream makes room.  */
	ASSERT_EQ(0, set_param("ring_limit", (most + 1) * page_size));
	EXPECT_EQ(0, stream_close(&t));
	EXPECT_TRUE(rings_become((most - 1) * page_size));
	EXPECT_EQ(0, populate(&s, most - 1, 2));
	EXPECT_EQ(-EFAULT, populate(&s, most + 1, 1));
	EXPECT_EQ(0, stream_close(&s));
	close(fd);
	close(other);
}

struct ringer {
	uid_t uid;
	int full[2], go[2];
	int limit;
	long long *got;
};

/* Faults in pages of rings until a limit refuses.  */
static int ring_as(void *arg)
{
	struct ringer *r = arg;
	struct stream s;
	__u32 vm;
	int fd;

	WANT(become(r->uid, r->uid));
	fd = gp_open(0);
	WANT(fd >= 0 && !gp_vm_create(fd, &vm) && !stream_open(&s, fd, vm, 0, RING));
	while (*r->got < RING_PAGES - 1 && !populate(&s, *r->got + 1, 1))
		++*r->got;
	WANT(refused_by(fd) == r->limit);
	WANT(tell(r->full[1]) && hear(r->go[0]));
	return 0;
}

TEST_F(limits, rings_of_all_users)
{
	long long *got = mmap(NULL, page_size, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct ringer a = { .uid = ALICE, .got = got, .limit = GPUMEM_LIMIT_RINGS };
	struct ringer b = { .uid = BOB, .got = got + 1, .limit = GPUMEM_LIMIT_RINGS_ALL };
	pid_t alice, bob;

	ASSERT_NE(MAP_FAILED, (void *)got);
	ASSERT_EQ(0, set_param("ring_limit", 30 * page_size));
	ASSERT_EQ(0, set_param("ring_total", 40 * page_size));
	ASSERT_EQ(0, pipe(a.full) | pipe(a.go) | pipe(b.full) | pipe(b.go));
	alice = start_child(ring_as, &a);
	ASSERT_TRUE(hear(a.full[0]));
	bob = start_child(ring_as, &b);
	ASSERT_TRUE(hear(b.full[0]));
	EXPECT_EQ(29, got[0]);
	EXPECT_EQ(9, got[1]);
	EXPECT_EQ((long long)(40 * page_size), number_of("/sys/class/gpumem/rings", ""));
	tell(a.go[1]);
	tell(b.go[1]);
	EXPECT_EQ(0, end_child(alice));
	EXPECT_EQ(0, end_child(bob));
}

/* The default limit has room for a program that fills the rings of a thousand streams. */
TEST_F_TIMEOUT(limits, rings_by_default, 300)
{
	const unsigned int streams = 1000;
	const long long bytes = streams * RING_PAGES * page_size;
	struct stream *s = calloc(streams, sizeof(*s));
	int fd = gp_open(0);
	__u32 vm;

	ASSERT_LE(0, fd);
	ASSERT_NE(NULL, s);
	EXPECT_LT(self->ring_limit, self->ring_total);
	/*
	 * A sixth of the memory bounds the default.  Where that is less than @bytes, as on a debug
	 * kernel with 2 GiB, set the limits.
	 */
	if (number_of("/proc/meminfo", "MemTotal:") * 1024 < (long long)(1900 * MIB)) {
		ASSERT_EQ(0, set_param("ring_total", bytes));
		ASSERT_EQ(0, set_param("ring_limit", bytes));
	} else {
		ASSERT_LE(bytes, self->ring_limit);
	}
	ASSERT_EQ(0, gp_vm_create(fd, &vm));
	for (unsigned int i = 0; i < streams; i++) {
		ASSERT_EQ(0, stream_open(&s[i], fd, vm, 0, RING));
		ASSERT_EQ(0, populate(&s[i], 0, RING_PAGES));
	}
	EXPECT_EQ(bytes, number_of("/sys/class/gpumem/rings", ""));
	for (unsigned int i = 0; i < streams; i++)
		EXPECT_EQ(0, stream_close(&s[i]));
	EXPECT_TRUE(rings_become(0));
	free(s);
	close(fd);
}

/* Maps until its memory cgroup is full, then asks for pages of a ring. */
static int rings_in_memcg(void *arg)
{
	__u64 bytes, *n = ((__u64 **)arg)[1];
	struct stream s;
	__u32 bo, vm;
	int fd, ret;

	WANT(!cgroup_enter(*(struct cgroup **)arg));
	fd = gp_open(0);
	WANT(fd >= 0 && !gp_bo_alloc(fd, page_size, &bo) && !gp_vm_create(fd, &vm));
	WANT(!stream_open(&s, fd, vm, 0, RING));
	/* These faults make the page tables of the ring, which the process pays for.  */
	WANT(!populate(&s, 0, 1) && !populate(&s, RING_PAGES - 1, 1));
	while (!(ret = map_at(fd, vm, bo, *n)))
		++*n;
	WANT(ret == -ENOMEM);
	/* The group may have room for a page, but not for a ring.  */
	ret = populate(&s, 1, RING_PAGES - 2);
	WANT(ret == -ENOMEM);
	n[1] = ring_pages(fd);
	WANT(n[1] < RING_PAGES);
	WANT(!gp_vm_unmap(fd, vm, 1 << 13, *n << 13, &bytes));
	WANT(!populate(&s, 0, RING_PAGES) && ring_pages(fd) == RING_PAGES);
	return 0;
}

TEST_F_TIMEOUT(limits, rings_in_memcg, 120)
{
	__u64 *n = mmap(NULL, page_size, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct cgroup cg;
	void *arg[2] = { &cg, n };

	ASSERT_NE(MAP_FAILED, (void *)n);
	if (cgroup_make(&cg, "rings"))
		SKIP(return, "no memory cgroups");
	ASSERT_NE(0, group_limit(&cg));
	/* The status is 0: the OOM killer did not kill the child.  */
	EXPECT_EQ(0, run_child(rings_in_memcg, arg));
	TH_LOG("%llu mappings, %llu pages of a ring", (unsigned long long)n[0],
	       (unsigned long long)n[1]);
	EXPECT_EQ(0, cgroup_read_key(&cg, "memory.events", "oom_kill"));
	EXPECT_TRUE(dev_quiet(20));
	EXPECT_EQ(0, cgroup_remove(&cg));
}

TEST_HARNESS_MAIN
