// SPDX-License-Identifier: GPL-2.0
/*
 * Cached chunks in a memory cgroup that is full: an allocation in the group gets their memory, and
 * the OOM killer is not called.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "common/leak.h"
#include "common/pool_util.h"

#define RW	(PROT_READ | PROT_WRITE)
#define CHUNK	(2 * MIB)
#define CHUNKS	20
#define CACHED	(CHUNKS * CHUNK)
/* The memory beside the cache that the group has room for. */
#define SPARE	(16 * MIB)

FIXTURE(memcg)
{
	struct leak_state leak;
	struct cgroup group;
	/* Shared by the parent and the child.  */
	struct shared {
		__u32 taken, kept;
		int ready;
	} *shared;
};

FIXTURE_SETUP(memcg)
{
	char limit[32];
	int ret;

	ASSERT_TRUE(dev_quiet(10));
	leak_begin(&self->leak);
	ret = cgroup_make(&self->group, "gpumem-cached");
	if (ret)
		SKIP(return, "no memory cgroups: %d", ret);
	snprintf(limit, sizeof(limit), "%llu", CACHED + SPARE);
	ASSERT_EQ(0, cgroup_write(&self->group, "memory.max", limit));
	cgroup_write(&self->group, "memory.swap.max", "0");
	self->shared = mmap(NULL, page_size, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->shared);
}

FIXTURE_TEARDOWN(memcg)
{
	munmap(self->shared, page_size);
	EXPECT_TRUE(dev_quiet(10));
	EXPECT_EQ(0, cgroup_remove(&self->group));
	EXPECT_TRUE(leak_end(&self->leak));
}

struct keeper {
	int fd;
	__u32 pool;
	__u32 *words;
	__u32 word[CHUNKS], id[CHUNKS];
	unsigned char *p[CHUNKS];
};

/* Makes chunks, maps them and writes to them; marks the first @cached ones as KEPT.  */
static bool keeper_make(struct keeper *k, unsigned int chunks, unsigned int cached)
{
	k->fd = gp_open(0);
	k->words = mmap(NULL, page_size, RW, MAP_SHARED, k->fd, GPUMEM_MMAP_CACHE);
	if (k->fd < 0 || k->words == MAP_FAILED ||
	    gp_pool_create(k->fd, 0, 0, 0, "cached", &k->pool))
		return false;
	for (unsigned int i = 0; i < chunks; i++) {
		struct gpumem_bo_alloc c = {
			.size = sizeof(c), .length = CHUNK, .pool = k->pool,
		};

		if (gp_ioctl(k->fd, GPUMEM_BO_ALLOC, &c) || !c.word)
			return false;
		k->word[i] = c.word;
		k->id[i] = c.id;
		k->p[i] = gp_map(k->fd, c.id, 0, CHUNK, RW);
		if (!k->p[i])
			return false;
		memset(k->p[i], i + 1, CHUNK);
		if (i < cached)
			__atomic_store_n(&k->words[c.word], GPUMEM_CACHE_KEPT, __ATOMIC_RELEASE);
	}
	return true;
}

static unsigned int keeper_taken(struct keeper *k, unsigned int chunks)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < chunks; i++)
		n += __atomic_load_n(&k->words[k->word[i]], __ATOMIC_ACQUIRE) ==
		     GPUMEM_CACHE_TAKEN;
	return n;
}

/* Maps anonymous memory of the process and touches all of it.  */
static unsigned char *touch(size_t bytes)
{
	unsigned char *p = mmap(NULL, bytes, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (size_t i = 0; p != MAP_FAILED && i < bytes; i += page_size)
		p[i] = 1;
	return p;
}

struct job {
	struct cgroup *group;
	struct shared *shared;
};

/* Page faults in the process that owns the chunks and maps them.  */
static int faults(void *arg)
{
	struct keeper k = { .fd = -1 };
	struct job *job = arg;

	if (cgroup_enter(job->group) || !keeper_make(&k, CHUNKS, CHUNKS))
		return 1;
	if (touch(CACHED / 2 + SPARE) == MAP_FAILED)
		return 2;
	job->shared->taken = keeper_taken(&k, CHUNKS);
	return 0;
}

TEST_F_TIMEOUT(memcg, fault, 240)
{
	struct job job = { &self->group, self->shared };

	EXPECT_EQ(0, run_child(faults, &job));
	printf("# %u of %u chunks taken\n", self->shared->taken, CHUNKS);
	/* At least half of the cached chunks had to be taken.  */
	EXPECT_LE(CHUNKS / 2, self->shared->taken);
	EXPECT_EQ(0, cgroup_read_key(&self->group, "memory.events", "oom_kill"));
	EXPECT_EQ(0, cgroup_read_key(&self->group, "memory.events", "oom"));
}

/* Chunks in use are not taken, however short the group is of memory.  */
static int faults_with_some_in_use(void *arg)
{
	struct keeper k = { .fd = -1 };
	struct job *job = arg;

	if (cgroup_enter(job->group) || !keeper_make(&k, CHUNKS, CHUNKS / 2))
		return 1;
	if (touch(CACHED / 4 + SPARE) == MAP_FAILED)
		return 2;
	job->shared->taken = keeper_taken(&k, CHUNKS);
	for (unsigned int i = CHUNKS / 2; i < CHUNKS; i++)
		if (k.words[k.word[i]] != GPUMEM_CACHE_USED || k.p[i][0] != i + 1 ||
		    k.p[i][CHUNK - 1] != i + 1)
			return 3;
	return 0;
}

TEST_F_TIMEOUT(memcg, in_use, 240)
{
	struct job job = { &self->group, self->shared };

	EXPECT_EQ(0, run_child(faults_with_some_in_use, &job));
	EXPECT_LE(CHUNKS / 4, self->shared->taken);
	EXPECT_GE(CHUNKS / 2, self->shared->taken);
	EXPECT_EQ(0, cgroup_read_key(&self->group, "memory.events", "oom_kill"));
}

/* The kernel takes the cached chunks of another process in the same group.  */
static int keeps(void *arg)
{
	struct keeper k = { .fd = -1 };
	struct job *job = arg;

	if (cgroup_enter(job->group) || !keeper_make(&k, CHUNKS, CHUNKS))
		return 1;
	__atomic_store_n(&job->shared->ready, 1, __ATOMIC_RELEASE);
	for (;;) {
		job->shared->taken = keeper_taken(&k, CHUNKS);
		nap_ms(10);
	}
}

static int allocates(void *arg)
{
	struct job *job = arg;
	int fd = gp_open(0);
	__u32 id;

	if (cgroup_enter(job->group) || fd < 0)
		return 1;
	for (unsigned int i = 0; i < CHUNKS / 2 + SPARE / CHUNK; i++)
		if (gp_bo_alloc(fd, CHUNK, &id))
			return 2;
	return 0;
}

TEST_F_TIMEOUT(memcg, another_client, 240)
{
	struct job job = { &self->group, self->shared };
	pid_t keeper = start_child(keeps, &job);
	__u64 end = in_seconds(100);

	while (!__atomic_load_n(&self->shared->ready, __ATOMIC_ACQUIRE) && mono_ns() < end)
		nap_ms(10);
	EXPECT_EQ(1, self->shared->ready);
	EXPECT_EQ(0, run_child(allocates, &job));
	nap_ms(200);
	EXPECT_LE(CHUNKS / 2, self->shared->taken);
	EXPECT_EQ(0, cgroup_read_key(&self->group, "memory.events", "oom_kill"));
	kill_child(keeper);
}

/* A full group takes no cached chunks of a group that is not full.  */
TEST_F_TIMEOUT(memcg, another_group, 240)
{
	struct job job = { &self->group, self->shared };
	struct keeper k = { .fd = -1 };
	struct cgroup own;

	ASSERT_EQ(0, cgroup_make(&own, "gpumem-other"));
	ASSERT_EQ(0, cgroup_enter(&own));
	ASSERT_TRUE(keeper_make(&k, 4, 4));
	EXPECT_EQ(0, run_child(faults, &job));
	EXPECT_LE(CHUNKS / 2, self->shared->taken);
	EXPECT_EQ(0, keeper_taken(&k, 4));
	unmap_all();
	munmap(k.words, page_size);
	close(k.fd);
	struct cgroup root = { .path = "/sys/fs/cgroup" };

	ASSERT_EQ(0, cgroup_enter(&root));
	EXPECT_EQ(0, cgroup_remove(&own));
}

TEST_HARNESS_MAIN
