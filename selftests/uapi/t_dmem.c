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

static int limit(const struct cgroup *group, unsigned long long bytes)
{
	char line[64];

	snprintf(line, sizeof(line), REGION " %llu", bytes);
	return cgroup_write(group, "dmem.max", line);
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

	if (cgroup_enter(group))
		return 1;
	fd = gp_open(0);
	if (fd < 0 || charged(group) != 0)
		return 2;
	p = gp_alloc_map(fd, 4 * MIB, &id);
	if (!p || charged(group) != 4 * (long long)MIB)
		return 3;
	if (gp_destroy(fd, id) || charged(group) != 4 * (long long)MIB)
		return 4;
	munmap(p, 4 * MIB);
	if (charged(group) != 0)
		return 5;
	/* Host memory is no device memory. */
	if (bo_alloc_host(fd, 4 * MIB, &host) || charged(group) != 0)
		return 6;
	/* An end without a free. */
	return gp_bo_alloc(fd, 2 * MIB, &id) ? 7 : 0;
}

TEST_F(dmem, lifetime)
{
	EXPECT_EQ(0, run_child(lifetime, &self->a));
	EXPECT_TRUE(dev_quiet(10));
	EXPECT_EQ(0, charged(&self->a));
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

	if (cgroup_enter(pair->a))
		return 1;
	fd = gp_open(0);
	if (fd < 0 || gp_bo_alloc(fd, LIMIT, &id))
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
	if (gp_destroy(fd, more) || charged(pair->b) != 0)
		return 8;
	if (gp_destroy(fd, id) || charged(pair->a) != 0)
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

	if (cgroup_enter(arg))
		return 1;
	fd = gp_open(0);
	for (;;)
		gp_bo_alloc(fd, MIB, &id);
}

static int neighbour(void *arg)
{
	__u32 id;
	int fd;

	if (cgroup_enter(arg))
		return 1;
	fd = gp_open(0);
	for (int i = 0; i < 200; i++)
		if (gp_bo_alloc(fd, LIMIT, &id) || gp_destroy(fd, id))
			return 2;
	return 0;
}

TEST_F(dmem, neighbour)
{
	pid_t full;

	ASSERT_EQ(0, limit(&self->a, LIMIT));
	ASSERT_EQ(0, limit(&self->b, LIMIT));
	full = start_child(crowd, &self->a);
	for (int i = 0; i < 1000 && charged(&self->a) != (long long)LIMIT; i++)
		nap_ms(10);
	EXPECT_EQ(LIMIT, charged(&self->a));
	EXPECT_EQ(0, run_child(neighbour, &self->b));
	EXPECT_EQ(LIMIT, charged(&self->a));
	EXPECT_EQ(0, charged(&self->b));
	/* The killed container gives everything back. */
	EXPECT_EQ(-SIGKILL, kill_child(full));
	EXPECT_TRUE(dev_quiet(10));
	EXPECT_EQ(0, charged(&self->a));
}

/* Cached chunks of the client make room within the limit. */
static int cached(void *arg)
{
	struct gpumem_bo_alloc c = { .size = sizeof(c), .length = 4 * MIB };
	const struct cgroup *group = arg;
	__u32 id, *words, word[4];
	unsigned int taken = 0;
	int fd;

	if (cgroup_enter(group))
		return 1;
	fd = gp_open(0);
	words = mmap(NULL, page_size, RW, MAP_SHARED, fd, GPUMEM_MMAP_CACHE);
	if (fd < 0 || words == MAP_FAILED || gp_pool_create(fd, 0, 0, 0, "cached", &c.pool))
		return 2;
	for (unsigned int i = 0; i < 4; i++) {
		if (gp_ioctl(fd, GPUMEM_BO_ALLOC, &c))
			return 3;
		word[i] = c.word;
		__atomic_store_n(&words[c.word], GPUMEM_CACHE_KEPT, __ATOMIC_RELEASE);
	}
	if (charged(group) != (long long)LIMIT)
		return 4;
	if (gp_bo_alloc(fd, 8 * MIB, &id))
		return 5;
	for (unsigned int i = 0; i < 4; i++)
		taken += __atomic_load_n(&words[word[i]], __ATOMIC_ACQUIRE) == GPUMEM_CACHE_TAKEN;
	if (taken != 2 || charged(group) != (long long)LIMIT)
		return 6;
	/* The rest of them does not do. */
	if (gp_bo_alloc(fd, 12 * MIB, &id) != -EDQUOT || refused_by(fd) != GPUMEM_LIMIT_DMEM)
		return 7;
	return charged(group) <= (long long)LIMIT ? 0 : 8;
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

	if (cgroup_enter(group))
		return 1;
	fd = gp_open(0);
	if (fd < 0 || gp_pool_create(fd, 0, 0, 2 * MIB, "small", &pool))
		return 2;
	if (gp_pool_chunk(fd, pool, 4 * MIB, &id, &chunk) != -EDQUOT || charged(group) != 0)
		return 3;
	if (refused_by(fd) != GPUMEM_LIMIT_POOL)
		return 4;
	/* More than the device has. */
	if (gp_bo_alloc(fd, 1ULL << 40, &id) != -ENOSPC || charged(group) != 0)
		return 5;
	return 0;
}

TEST_F(dmem, refused_later)
{
	EXPECT_EQ(0, run_child(refused_later, &self->a));
}

/* Managed memory becomes resident in workers, and is not charged. */
static int managed_memory(void *arg)
{
	const struct cgroup *group = arg;
	struct stream s;
	__u32 vm, id;
	int fd;

	if (cgroup_enter(group))
		return 1;
	fd = gp_open(0);
	if (fd < 0 || gp_vm_create(fd, &vm) || stream_open(&s, fd, vm, 0, 64))
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

TEST_HARNESS_MAIN
