// SPDX-License-Identifier: GPL-2.0
/*
 * Device memory in the dmem cgroup controller: which cgroup is charged and until when, limits of two
 * containers, and what is not charged.
 *
 * Kernels before 6.14, and those of distributions, lack the controller.  selftests/vm/kernel debug-7.2
 * has it.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <linux/gpumem_netlink.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "kselftest_harness.h"
#include "common/cgroup.h"
#include "common/leak.h"
#include "common/pool_util.h"
#include "managed_util.h"

#define CAPACITY	"/sys/fs/cgroup/dmem.capacity"
#define REGION		"gpumem/gpumem0"
#define LIMIT		(16 * MIB)

FIXTURE(dmem)
{
	struct leak_state leak;
	struct cgroup a, b;
};

FIXTURE_SETUP(dmem)
{
	ASSERT_TRUE(dev_quiet(10));
	leak_begin(&self->leak);
	if (cgroup_control("+dmem"))
		SKIP(return, "no dmem controller");
	ASSERT_EQ(0, cgroup_make(&self->a, "gpumem-dmem-a"));
	ASSERT_EQ(0, cgroup_make(&self->b, "gpumem-dmem-b"));
}

FIXTURE_TEARDOWN(dmem)
{
	EXPECT_TRUE(dev_quiet(10));
	EXPECT_EQ(0, cgroup_remove(&self->a));
	EXPECT_EQ(0, cgroup_remove(&self->b));
	EXPECT_TRUE(leak_end(&self->leak));
}

static long long charged(const struct cgroup *group)
{
	return cgroup_read_key(group, "dmem.current", REGION);
}

/* Memory that a processor still has in a batch is given back a little later. */
static bool charged_becomes(const struct cgroup *group, long long bytes)
{
	for (int i = 0; i < 1000 && charged(group) != bytes; i++)
		nap_ms(10);
	return charged(group) == bytes;
}

static int limit(const struct cgroup *group, unsigned long long bytes)
{
	char line[64];

	snprintf(line, sizeof(line), REGION " %llu", bytes);
	return cgroup_write(group, "dmem.max", line);
}

/* A client of the calling process, which enters @group; or a negative errno. */
static int client_in(const struct cgroup *group)
{
	int ret = cgroup_enter(group);

	return ret ? ret : gp_open(0);
}

/* Makes a cached chunk, and returns its word; 0 if that fails. */
static __u32 keep_chunk(int fd, __u32 pool, __u32 *words)
{
	struct gpumem_bo_alloc c = { .size = sizeof(c), .length = 4 * MIB, .pool = pool };

	if (gp_ioctl(fd, GPUMEM_BO_ALLOC, &c))
		return 0;
	__atomic_store_n(&words[c.word], GPUMEM_CACHE_KEPT, __ATOMIC_RELEASE);
	return c.word;
}

static int refused_by(int fd)
{
	struct gpumem_refusal_info r = { .size = sizeof(r) };

	return gp_ioctl(fd, GPUMEM_REFUSAL, &r) ? -1 : (int)r.limit;
}

/* Each device is a region of its size. */
TEST_F(dmem, regions)
{
	char line[128], name[64];
	FILE *f = fopen(CAPACITY, "re");
	unsigned int found = 0;
	long long bytes;

	ASSERT_NE(NULL, f);
	while (fgets(line, sizeof(line), f)) {
		unsigned int ordinal;

		if (sscanf(line, "%63s %lld", name, &bytes) != 2 ||
		    sscanf(name, "gpumem/gpumem%u", &ordinal) != 1)
			continue;
		EXPECT_EQ(dev_attr(ordinal, "size"), bytes);
		found++;
	}
	fclose(f);
	EXPECT_EQ(dev_count(), found);
}

/* Device memory is charged to the caller's cgroup, until the last mapping is gone. */
static int lifetime(void *arg)
{
	const struct cgroup *group = arg;
	unsigned char *p;
	__u32 id, host;
	int fd;

	fd = client_in(group);
	if (fd < 0)
		return 1;
	if (charged(group) != 0)
		return 2;
	p = gp_alloc_map(fd, 4 * MIB, &id);
	if (!p || charged(group) != 4 * (long long)MIB)
		return 3;
	if (gp_destroy(fd, id) || charged(group) != 4 * (long long)MIB)
		return 4;
	munmap(p, 4 * MIB);
	if (!charged_becomes(group, 0))
		return 5;
	/* The controller does not count host memory. */
	if (bo_alloc_host(fd, 4 * MIB, &host) || charged(group) != 0)
		return 6;
	/* An end without a free. */
	return gp_bo_alloc(fd, 2 * MIB, &id) ? 7 : 0;
}

TEST_F(dmem, lifetime)
{
	EXPECT_EQ(0, run_child(lifetime, &self->a));
	EXPECT_TRUE(dev_quiet(10));
	EXPECT_TRUE(charged_becomes(&self->a, 0));
}

struct pair {
	const struct cgroup *a, *b;
};

/* The limit of one container refuses its memory, and does not bind the other one. */
static int limited(void *arg)
{
	const struct pair *pair = arg;
	__u32 id, more;
	int fd;

	fd = client_in(pair->a);
	if (fd < 0)
		return 1;
	if (gp_bo_alloc(fd, LIMIT, &id))
		return 2;
	if (gp_bo_alloc(fd, page_size, &more) != -EDQUOT || refused_by(fd) != GPUMEM_LIMIT_DMEM)
		return 3;
	if (charged(pair->a) != (long long)LIMIT)
		return 4;
	/* The same process in the other group. */
	if (cgroup_enter(pair->b) || gp_bo_alloc(fd, LIMIT + page_size, &more))
		return 5;
	if (charged(pair->b) != (long long)(LIMIT + page_size))
		return 6;
	/* Memory stays with the group in which it was allocated. */
	if (charged(pair->a) != (long long)LIMIT)
		return 7;
	if (gp_destroy(fd, more) || !charged_becomes(pair->b, 0))
		return 8;
	if (gp_destroy(fd, id) || !charged_becomes(pair->a, 0))
		return 9;
	return 0;
}

TEST_F(dmem, two_containers)
{
	struct pair pair = { &self->a, &self->b };

	ASSERT_EQ(0, limit(&self->a, LIMIT));
	ASSERT_EQ(0, limit(&self->b, 2 * LIMIT));
	EXPECT_EQ(0, run_child(limited, &pair));
}

/* A full container's allocations do not keep another one from its own. */
static int crowd(void *arg)
{
	__u32 id;
	int fd;

	fd = client_in(arg);
	if (fd < 0)
		return 1;
	for (;;)
		gp_bo_alloc(fd, MIB, &id);
}

static int neighbour(void *arg)
{
	__u32 id;
	int fd;

	fd = client_in(arg);
	if (fd < 0)
		return 1;
	/* Memory in a processor's batch counts for a moment after its end. */
	for (int i = 0; i < 200; i++)
		if (gp_bo_alloc(fd, LIMIT / 8, &id) || gp_destroy(fd, id))
			return 2;
	return 0;
}

TEST_F(dmem, neighbour)
{
	pid_t full;

	ASSERT_EQ(0, limit(&self->a, LIMIT));
	ASSERT_EQ(0, limit(&self->b, LIMIT));
	full = start_child(crowd, &self->a);
	/* An attempt counts until it is refused. */
	EXPECT_TRUE(charged_becomes(&self->a, LIMIT));
	EXPECT_EQ(0, run_child(neighbour, &self->b));
	EXPECT_TRUE(charged_becomes(&self->a, LIMIT));
	EXPECT_TRUE(charged_becomes(&self->b, 0));
	/* The killed container gives everything back. */
	EXPECT_EQ(-SIGKILL, kill_child(full));
	EXPECT_TRUE(dev_quiet(10));
	EXPECT_TRUE(charged_becomes(&self->a, 0));
}

/* Cached chunks make room within the limit, those of other processes, too. */
#define CHUNKS	4

/* How many of the chunks the kernel took. */
static unsigned int taken(const __u32 *words, const __u32 *word)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < CHUNKS; i++)
		n += __atomic_load_n(&words[word[i]], __ATOMIC_ACQUIRE) == GPUMEM_CACHE_TAKEN;
	return n;
}

static int takes(void *arg)
{
	__u32 id;
	int fd = gp_open(0);

	(void)arg;
	return gp_bo_alloc(fd, 4 * MIB, &id);
}

static int cached(void *arg)
{
	const struct cgroup *group = arg;
	__u32 id, pool, *words, word[CHUNKS];
	int fd;

	fd = client_in(group);
	if (fd < 0)
		return 1;
	words = mmap(NULL, page_size, RW, MAP_SHARED, fd, GPUMEM_MMAP_CACHE);
	if (words == MAP_FAILED || gp_pool_create(fd, 0, 0, 0, "cached", &pool))
		return 2;
	for (unsigned int i = 0; i < CHUNKS; i++) {
		word[i] = keep_chunk(fd, pool, words);
		if (!word[i])
			return 3;
	}
	if (charged(group) != (long long)LIMIT)
		return 4;
	if (gp_bo_alloc(fd, 8 * MIB, &id))
		return 5;
	if (taken(words, word) != 2 || charged(group) != (long long)LIMIT)
		return 6;
	if (run_child(takes, arg))
		return 7;
	return taken(words, word) == 3 ? 0 : 8;
}

TEST_F(dmem, cached_chunks)
{
	ASSERT_EQ(0, limit(&self->a, LIMIT));
	EXPECT_EQ(0, run_child(cached, &self->a));
}

/* A pool's limit that refuses a chunk leaves no charge. */
static int refused_later(void *arg)
{
	const struct cgroup *group = arg;
	__u32 pool, id;
	__u64 chunk;
	int fd;

	fd = client_in(group);
	if (fd < 0)
		return 1;
	if (gp_pool_create(fd, 0, 0, 2 * MIB, "small", &pool))
		return 2;
	if (gp_pool_chunk(fd, pool, 4 * MIB, &id, &chunk) != -EDQUOT || charged(group) != 0)
		return 3;
	if (refused_by(fd) != GPUMEM_LIMIT_POOL)
		return 4;
	/* What the device cannot have is not charged: the limit does not refuse it. */
	if (gp_bo_alloc(fd, dev_attr(0, "size") + 2 * MIB, &id) != -ENOSPC || charged(group) != 0)
		return 5;
	return 0;
}

TEST_F(dmem, refused_later)
{
	ASSERT_EQ(0, limit(&self->a, LIMIT));
	EXPECT_EQ(0, run_child(refused_later, &self->a));
}

/* Managed memory becomes resident in workers, and is not charged. */
static int managed_memory(void *arg)
{
	const struct cgroup *group = arg;
	struct stream s;
	__u32 vm, id;
	int fd;

	fd = client_in(group);
	if (fd < 0)
		return 1;
	if (gp_vm_create(fd, &vm) || stream_open(&s, fd, vm, 0, 64))
		return 2;
	id = make(fd, vm, 4 * BLOCK, ADDR);
	if (!id || execute(&s, sqe_prefetch(ADDR, 4 * BLOCK, GPUMEM_PREFETCH_DEVICE)))
		return 3;
	if (resident(fd, id) != 4 * BLOCK)
		return 4;
	return charged(group) == 0 ? 0 : 5;
}

TEST_F(dmem, managed_memory)
{
	EXPECT_EQ(0, run_child(managed_memory, &self->a));
}

/* Cached chunks of another cgroup stay. */
static int keeps(void *arg)
{
	const struct pair *pair = arg;
	__u32 id, pool, *words, word;
	int fd;

	fd = client_in(pair->b);
	if (fd < 0)
		return 1;
	words = mmap(NULL, page_size, RW, MAP_SHARED, fd, GPUMEM_MMAP_CACHE);
	if (words == MAP_FAILED || gp_pool_create(fd, 0, 0, 0, "cached", &pool))
		return 2;
	word = keep_chunk(fd, pool, words);
	if (!word)
		return 2;
	if (cgroup_enter(pair->a) || gp_bo_alloc(fd, LIMIT, &id))
		return 3;
	if (gp_bo_alloc(fd, MIB, &id) != -EDQUOT || refused_by(fd) != GPUMEM_LIMIT_DMEM)
		return 4;
	return __atomic_load_n(&words[word], __ATOMIC_ACQUIRE) == GPUMEM_CACHE_KEPT ? 0 : 5;
}

TEST_F(dmem, chunks_of_another_cgroup)
{
	struct pair pair = { &self->a, &self->b };

	ASSERT_EQ(0, limit(&self->a, LIMIT));
	EXPECT_EQ(0, run_child(keeps, &pair));
}

/* A cgroup's limit binds the cgroups below it together. */
static int below(void *arg)
{
	__u32 id;
	int fd;

	fd = client_in(arg);
	if (fd < 0)
		return 1;
	if (gp_bo_alloc(fd, LIMIT / 2 + MIB, &id))
		return 2;
	return gp_bo_alloc(fd, LIMIT / 2, &id) == -EDQUOT && refused_by(fd) == GPUMEM_LIMIT_DMEM ? 0 : 3;
}

TEST_F(dmem, parent)
{
	struct cgroup inner;

	ASSERT_EQ(0, limit(&self->a, LIMIT));
	ASSERT_EQ(0, cgroup_write(&self->a, "cgroup.subtree_control", "+dmem"));
	ASSERT_GT((int)sizeof(inner.path), snprintf(inner.path, sizeof(inner.path), "%s/in", self->a.path));
	ASSERT_EQ(0, mkdir(inner.path, 0755));
	EXPECT_EQ(0, run_child(below, &inner));
	EXPECT_EQ(0, cgroup_remove(&inner));
}

/* The memory of a killed process whose descriptor another one holds makes room at once. */
static int victim(void *arg)
{
	pid_t *holder = arg, pid;
	__u32 id;
	int fd = gp_open(0);

	if (gp_bo_alloc(fd, LIMIT, &id))
		return 1;
	pid = fork();
	if (pid)
		__atomic_store_n(holder, pid, __ATOMIC_RELAXED);
	while (1)
		pause();
}

static int successor(void *arg)
{
	__u32 id;
	int fd;

	fd = client_in(arg);
	if (fd < 0)
		return 1;
	return gp_bo_alloc(fd, LIMIT, &id) ? 2 : 0;
}

TEST_F(dmem, killed)
{
	pid_t *holder = mmap(NULL, page_size, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0), pid;

	ASSERT_NE(MAP_FAILED, holder);
	ASSERT_EQ(0, limit(&self->a, LIMIT));
	ASSERT_EQ(0, cgroup_enter(&self->a));
	pid = start_child(victim, holder);
	for (int i = 0; i < 1000 && !__atomic_load_n(holder, __ATOMIC_RELAXED); i++)
		nap_ms(10);
	ASSERT_EQ(0, write_file("/sys/fs/cgroup/cgroup.procs", "0"));
	ASSERT_LT(0, *holder);
	EXPECT_EQ(-SIGKILL, kill_child(pid));
	EXPECT_EQ(0, run_child(successor, &self->a));
	EXPECT_EQ(0, kill(*holder, SIGKILL));
	munmap(holder, page_size);
}

/* A cgroup may go while a mapping keeps memory that is charged to it. */
static int outlives(void *arg)
{
	const struct pair *pair = arg;
	unsigned char *p;
	__u32 id;
	int fd;

	fd = client_in(pair->a);
	if (fd < 0)
		return 1;
	p = gp_alloc_map(fd, 4 * MIB, &id);
	close(fd);
	if (!p || cgroup_enter(pair->b) || rmdir(pair->a->path))
		return 2;
	memset(p, 1, 4 * MIB);
	munmap(p, 4 * MIB);
	return mkdir(pair->a->path, 0755) ? 3 : 0;
}

TEST_F(dmem, cgroup_that_is_gone)
{
	struct pair pair = { &self->a, &self->b };

	EXPECT_EQ(0, run_child(outlives, &pair));
}

TEST_HARNESS_MAIN
