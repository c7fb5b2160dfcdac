// SPDX-License-Identifier: GPL-2.0
/*
 * Pages of managed memory move between memory nodes: on prefetches, engine touches and evictions; what keeps
 * pages where they are; and moves while processors and engines use the memory.
 *
 * The device must be bound to a node without processors, so that pages of the processors' touches lie elsewhere:
 * selftests/host/numa_guest.sh.
 */
#include <limits.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "kselftest_harness.h"
#include "common/cgroup.h"
#include "common/leak.h"
#include "common/limits_util.h"
#include "common/pin_util.h"
#include "common/util.h"
#include "managed_util.h"

#define PAGES		(BLOCK / page_size)
#define SPAN		(4 * BLOCK)
#define HOST		0		/* the processors' node */

/* The node of the device's memory, or -1. */
static int device_node(int fd)
{
	struct gpumem_info info;

	return gp_info(fd, 0, &info) ? -1 : info.node;
}

/* Whether a list of nodes in sysfs, such as "0-1,3", has a node. */
static bool node_listed(const char *list, int node)
{
	char name[80], text[128];

	snprintf(name, sizeof(name), "/sys/devices/system/node/%s", list);
	if (!read_text(name, text, sizeof(text)))
		return false;
	for (char *item = strtok(text, ",\n"); item; item = strtok(NULL, ",\n")) {
		int first, last;
		int n = sscanf(item, "%d-%d", &first, &last);

		if (n >= 1 && node >= first && node <= (n == 2 ? last : first))
			return true;
	}
	return false;
}

/* A node whose memory is all movable, or -1. */
static int movable_node(void)
{
	for (int node = 0; node < 64; node++)
		if (node_listed("has_memory", node) && !node_listed("has_normal_memory", node))
			return node;
	return -1;
}

/* How many of the pages that are in memory lie on @node; the others are added to @elsewhere. */
static __u64 pages_on(const unsigned char *p, __u64 bytes, int node, __u64 *elsewhere)
{
	__u64 count = bytes / page_size, on = 0;
	void **pages = calloc(count, sizeof(*pages));
	int *status = calloc(count, sizeof(*status));

	for (__u64 i = 0; i < count; i++)
		pages[i] = (void *)(p + i * page_size);
	if (syscall(SYS_move_pages, 0, count, pages, NULL, status, 0)) {
		free(pages);
		free(status);
		return ~0ULL;
	}
	for (__u64 i = 0; i < count; i++) {
		if (status[i] == node)
			on++;
		else if (status[i] >= 0 && elsewhere)
			++*elsewhere;
	}
	free(pages);
	free(status);
	return on;
}

/* Makes this process's page tables map all pages, which SYS_move_pages needs. */
static bool all_on(const unsigned char *p, __u64 bytes, int node)
{
	__u64 elsewhere = 0, on;

	for (__u64 i = 0; i < bytes; i += page_size)
		*(volatile const unsigned char *)(p + i);
	on = pages_on(p, bytes, node, &elsewhere);
	if (on != bytes / page_size)
		fprintf(stderr, "# %llu pages on node %d, %llu elsewhere, of %llu\n", on, node, elsewhere,
			bytes / page_size);
	return on == bytes / page_size;
}

static void pattern(unsigned char *p, __u64 bytes, unsigned int seed)
{
	for (__u64 i = 0; i < bytes; i += 8)
		*(__u64 *)(p + i) = (i + seed) * 0x9e3779b97f4a7c15ULL;
}

static bool pattern_is(const unsigned char *p, __u64 bytes, unsigned int seed)
{
	for (__u64 i = 0; i < bytes; i += 8)
		if (*(const __u64 *)(p + i) != (i + seed) * 0x9e3779b97f4a7c15ULL)
			return false;
	return true;
}

static __u64 moved(int fd)
{
	return stats_of(fd).managed_moved;
}

static __u64 stayed(int fd)
{
	return stats_of(fd).managed_stayed;
}

#define PREFETCH(addr, bytes, where) execute(&self->s, sqe_prefetch((addr), (bytes), (where)))
#define NEED_NODE()										\
	int node = device_node(self->fd);							\
												\
	if (node < 1)										\
		SKIP(return, "the device has no memory node other than the processors'")

static struct gpumem_sqe sqe_prefetch_node(__u64 addr, __u64 bytes, __u64 node)
{
	struct gpumem_sqe sqe = sqe_prefetch(addr, bytes, GPUMEM_PREFETCH_NODE);

	sqe.value = node;
	return sqe;
}

/* A prefetch moves pages to the device's node, and another one moves them back. */
TEST_F(managed, node_prefetch)
{
	const __u64 length = 4 * BLOCK;
	unsigned char *p;
	__u32 id;

	NEED_NODE();
	id = MAKE(length, ADDR);
	ASSERT_NE(0, id);
	p = gp_map(self->fd, id, 0, length, RW);
	ASSERT_NE(NULL, p);
	pattern(p, length, 1);
	ASSERT_TRUE(all_on(p, length, HOST));
	ASSERT_EQ(0, PREFETCH(ADDR, length, GPUMEM_PREFETCH_DEVICE));
	EXPECT_EQ(4, RESIDENT(id));
	EXPECT_TRUE(all_on(p, length, node));
	EXPECT_TRUE(pattern_is(p, length, 1));
	EXPECT_EQ(length, moved(self->fd));
	EXPECT_EQ(length, present(self->fd, id));
	EXPECT_EQ((long long)length, managed_used());
	/* They are there already. */
	ASSERT_EQ(0, PREFETCH(ADDR, length, GPUMEM_PREFETCH_DEVICE));
	EXPECT_EQ(length, moved(self->fd));
	pattern(p, length, 2);
	ASSERT_EQ(0, PREFETCH(ADDR, length, GPUMEM_PREFETCH_HOST));
	EXPECT_EQ(0, RESIDENT(id));
	EXPECT_TRUE(all_on(p, length, HOST));
	EXPECT_TRUE(pattern_is(p, length, 2));
	EXPECT_EQ(2 * length, moved(self->fd));
	EXPECT_EQ(0, stayed(self->fd));
	EXPECT_EQ(length, present(self->fd, id));
}

/* An engine's touch moves the pages of its block only, or makes them on the device's node. */
TEST_F(managed, node_touch)
{
	const __u64 length = 3 * BLOCK;
	__u64 elsewhere = 0;
	unsigned char *p;
	__u32 id;

	NEED_NODE();
	id = MAKE(length, ADDR);
	ASSERT_NE(0, id);
	p = gp_map(self->fd, id, 0, length, RW);
	ASSERT_NE(NULL, p);
	pattern(p, BLOCK, 1);
	pattern(p + 2 * BLOCK, BLOCK, 1);
	ASSERT_EQ(0, execute(&self->s, sqe_copy(ADDR + BLOCK, ADDR + 2 * BLOCK, BLOCK)));
	EXPECT_TRUE(all_on(p, BLOCK, HOST));
	EXPECT_TRUE(all_on(p + BLOCK, 2 * BLOCK, node));
	EXPECT_TRUE(pattern_is(p + BLOCK, BLOCK, 1));
	EXPECT_TRUE(pattern_is(p + 2 * BLOCK, BLOCK, 1));
	/* The last block has a page more, and was never touched. */
	ASSERT_EQ(0, gp_destroy(self->fd, id));
	ASSERT_EQ(0, gp_vm_unmap(self->fd, self->vm, ADDR, length, NULL));
	id = MAKE(BLOCK + page_size, ADDR);
	ASSERT_NE(0, id);
	p = gp_map(self->fd, id, 0, BLOCK + page_size, RW);
	ASSERT_NE(NULL, p);
	ASSERT_EQ(0, FILL(ADDR, 7, BLOCK + page_size));
	EXPECT_TRUE(all_are(p, 7, BLOCK + page_size));
	EXPECT_EQ(PAGES + 1, pages_on(p, BLOCK + page_size, node, &elsewhere));
	EXPECT_EQ(0, elsewhere);
}

/* An evicted block is back on the node from which it came. */
TEST_F(managed, node_eviction)
{
	const __u64 length = (BLOCKS + 2) * BLOCK;
	unsigned char *p;
	__u32 id;

	NEED_NODE();
	id = MAKE(length, ADDR);
	ASSERT_NE(0, id);
	p = gp_map(self->fd, id, 0, length, RW);
	ASSERT_NE(NULL, p);
	for (unsigned int i = 0; i < BLOCKS + 2; i++)
		ASSERT_EQ(0, FILL(ADDR + i * BLOCK, i + 1, BLOCK));
	EXPECT_EQ(BLOCKS, RESIDENT(id));
	EXPECT_TRUE(all_on(p, 2 * BLOCK, HOST));
	EXPECT_TRUE(all_on(p + 2 * BLOCK, BLOCKS * BLOCK, node));
	for (unsigned int i = 0; i < BLOCKS + 2; i++)
		EXPECT_TRUE(all_are(p + i * BLOCK, i + 1, BLOCK));
	/* A device that shrinks gives pages back, too. */
	ASSERT_EQ(0, write_dev_attr(0, "size", "8M"));
	EXPECT_EQ(4, RESIDENT(id));
	EXPECT_TRUE(all_on(p, 6 * BLOCK, HOST));
	EXPECT_TRUE(all_on(p + 6 * BLOCK, 4 * BLOCK, node));
	EXPECT_EQ(0, stayed(self->fd));
	for (unsigned int i = 0; i < BLOCKS + 2; i++)
		EXPECT_TRUE(all_are(p + i * BLOCK, i + 1, BLOCK));
}

/* Allocations that a node's memory has served, or -1. */
static long long node_hits(int node)
{
	char path[80];

	snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/numastat", node);
	return number_of(path, "numa_hit ");
}

/* Small entries work on an evicted block on the node from which it came. */
TEST_F(managed, node_far)
{
	const __u64 length = 2 * BLOCKS * BLOCK;
	unsigned char *p;
	__u64 moves;
	__u32 id;

	NEED_NODE();
	id = MAKE(length, ADDR);
	ASSERT_NE(0, id);
	p = gp_map(self->fd, id, 0, length, RW);
	ASSERT_NE(NULL, p);
	for (unsigned int i = 0; i < 2 * BLOCKS; i++)
		ASSERT_EQ(0, FILL(ADDR + i * BLOCK, i + 1, BLOCK));
	/* The stream's first access makes its block resident. */
	ASSERT_EQ(0, FILL(ADDR, 64, SMALL));
	EXPECT_TRUE(all_on(p, BLOCK, node));
	moves = moved(self->fd);
	for (unsigned int i = 1; i < BLOCKS; i++)
		ASSERT_EQ(0, FILL(ADDR + i * BLOCK, 64 + i, page_size));
	ASSERT_EQ(0, execute(&self->s, sqe_copy(ADDR + BLOCK + page_size, ADDR + (2 * BLOCKS - 1) * BLOCK,
						page_size)));
	EXPECT_EQ(moves, moved(self->fd));
	EXPECT_TRUE(all_on(p + BLOCK, (BLOCKS - 1) * BLOCK, HOST));
	for (unsigned int i = 1; i < BLOCKS; i++)
		EXPECT_TRUE(all_are(p + i * BLOCK, 64 + i, page_size));
	EXPECT_TRUE(all_are(p + BLOCK + page_size, 2 * BLOCKS, page_size));
	/* No entry has left a folio locked: the pages can move. */
	ASSERT_EQ(0, PREFETCH(ADDR + BLOCK, BLOCK, GPUMEM_PREFETCH_DEVICE));
	EXPECT_TRUE(all_on(p + BLOCK, BLOCK, node));
	EXPECT_TRUE(all_are(p + BLOCK, 65, page_size));
	EXPECT_EQ(0, stayed(self->fd));
}

#define TURNS		4

/* A block that comes gets the huge page of the block that makes room: the device's node is asked for none. */
TEST_F(managed, node_spare)
{
	const __u64 count = BLOCKS + 2;
	long long before;
	unsigned char *p;
	__u64 moves;
	__u32 id;

	NEED_NODE();
	id = MAKE(count * BLOCK, ADDR);
	ASSERT_NE(0, id);
	p = gp_map(self->fd, id, 0, count * BLOCK, RW);
	ASSERT_NE(NULL, p);
	for (unsigned int i = 0; i < count; i++)
		ASSERT_EQ(0, FILL(ADDR + i * BLOCK, i + 1, BLOCK));
	before = node_hits(node);
	ASSERT_LE(0, before);
	moves = moved(self->fd);
	for (unsigned int round = 0; round < TURNS; round++)
		for (unsigned int i = 0; i < count; i++) {
			ASSERT_EQ(0, FILL(ADDR + i * BLOCK + round, 64 + i, SMALL + 1));
			EXPECT_TRUE(all_on(p + i * BLOCK, BLOCK, node));
		}
	/* Each of them came, and another one left. */
	EXPECT_EQ(2 * TURNS * count * BLOCK, moved(self->fd) - moves);
	/* There would be one for each of them.  Others may ask the node, too. */
	EXPECT_GT(TURNS * count / 2, node_hits(node) - before);
	EXPECT_EQ(0, stayed(self->fd));
	for (unsigned int i = 0; i < count; i++) {
		EXPECT_TRUE(all_are(p + i * BLOCK, 64 + i, TURNS + SMALL));
		EXPECT_TRUE(all_are(p + i * BLOCK + TURNS + SMALL, i + 1, BLOCK - TURNS - SMALL));
	}
}

/* Pages that another subsystem holds stay, and are counted.  The next prefetch moves them. */
TEST_F(managed, node_pinned)
{
	unsigned char *p;
	__u32 id, pin;

	NEED_NODE();
	id = MAKE(2 * BLOCK, ADDR);
	ASSERT_NE(0, id);
	p = gp_map(self->fd, id, 0, 2 * BLOCK, RW);
	ASSERT_NE(NULL, p);
	pattern(p, 2 * BLOCK, 3);
	ASSERT_EQ(0, bo_pin(self->fd, p, BLOCK, 0, &pin));
	ASSERT_EQ(0, PREFETCH(ADDR, 2 * BLOCK, GPUMEM_PREFETCH_DEVICE));
	EXPECT_EQ(2, RESIDENT(id));
	EXPECT_TRUE(all_on(p, BLOCK, HOST));
	EXPECT_TRUE(all_on(p + BLOCK, BLOCK, node));
	EXPECT_EQ(BLOCK, stayed(self->fd));
	EXPECT_EQ(BLOCK, moved(self->fd));
	/* The engine works on them where they are. */
	ASSERT_EQ(0, FILL(ADDR, 5, 64));
	EXPECT_TRUE(all_are(p, 5, 64));
	ASSERT_EQ(0, gp_destroy(self->fd, pin));
	ASSERT_EQ(0, PREFETCH(ADDR, 2 * BLOCK, GPUMEM_PREFETCH_DEVICE));
	EXPECT_TRUE(all_on(p, 2 * BLOCK, node));
	EXPECT_EQ(2 * BLOCK, moved(self->fd));
	EXPECT_EQ(BLOCK, stayed(self->fd));
	/* A pin on the device's node keeps pages there after the eviction. */
	ASSERT_EQ(0, bo_pin(self->fd, p, page_size, 0, &pin));
	ASSERT_EQ(0, PREFETCH(ADDR, 2 * BLOCK, GPUMEM_PREFETCH_HOST));
	EXPECT_EQ(0, RESIDENT(id));
	EXPECT_TRUE(all_on(p, page_size, node));
	EXPECT_LT(BLOCK, stayed(self->fd));
	EXPECT_TRUE(all_on(p + BLOCK, BLOCK, HOST));
	ASSERT_EQ(0, gp_destroy(self->fd, pin));
	EXPECT_TRUE(all_are(p, 5, 64));
}

/* Memory that a process has locked moves, and is locked afterwards. */
TEST_F(managed, node_locked_memory)
{
	unsigned char *p;
	__u32 id;

	NEED_NODE();
	id = MAKE(2 * BLOCK, ADDR);
	ASSERT_NE(0, id);
	p = gp_map(self->fd, id, 0, 2 * BLOCK, RW);
	ASSERT_NE(NULL, p);
	ASSERT_EQ(0, mlock(p, 2 * BLOCK));
	pattern(p, 2 * BLOCK, 4);
	ASSERT_EQ(0, PREFETCH(ADDR, 2 * BLOCK, GPUMEM_PREFETCH_DEVICE));
	EXPECT_TRUE(all_on(p, 2 * BLOCK, node));
	EXPECT_EQ(2 * BLOCK, moved(self->fd));
	EXPECT_TRUE(pattern_is(p, 2 * BLOCK, 4));
	EXPECT_LE((long long)(2 * BLOCK) >> 10, number_of("/proc/self/status", "VmLck:"));
	ASSERT_EQ(0, PREFETCH(ADDR, 2 * BLOCK, GPUMEM_PREFETCH_HOST));
	EXPECT_TRUE(all_on(p, 2 * BLOCK, HOST));
	EXPECT_TRUE(pattern_is(p, 2 * BLOCK, 4));
}

/* A prefetch to a node of the host. */
TEST_F(managed, node_asked)
{
	int other = movable_node();
	unsigned char *p;
	__u32 id;

	NEED_NODE();
	id = MAKE(2 * BLOCK, ADDR);
	ASSERT_NE(0, id);
	p = gp_map(self->fd, id, 0, 2 * BLOCK, RW);
	ASSERT_NE(NULL, p);
	pattern(p, BLOCK + page_size, 5);
	if (other >= 0) {
		/* Where no page was touched, none appears. */
		ASSERT_EQ(0, execute(&self->s, sqe_prefetch_node(ADDR, 2 * BLOCK, other)));
		EXPECT_TRUE(all_on(p, BLOCK, other));
		EXPECT_EQ(0, RESIDENT(id));
		/* A movable node's pages are not kept there by a device that uses them. */
		ASSERT_EQ(0, PREFETCH(ADDR, 2 * BLOCK, GPUMEM_PREFETCH_DEVICE));
		EXPECT_TRUE(all_on(p, 2 * BLOCK, node));
		ASSERT_EQ(0, execute(&self->s, sqe_prefetch_node(ADDR, 2 * BLOCK, other)));
		EXPECT_TRUE(all_on(p, 2 * BLOCK, other));
		EXPECT_EQ(0, RESIDENT(id));
		EXPECT_TRUE(pattern_is(p, BLOCK + page_size, 5));
	}
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch_node(ADDR, 2 * BLOCK, HOST)));
	EXPECT_TRUE(all_on(p, 2 * BLOCK, HOST));
	/* The device's own node is a node of the host like others. */
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch_node(ADDR, 2 * BLOCK, node)));
	EXPECT_TRUE(all_on(p, 2 * BLOCK, node));
	EXPECT_EQ(0, RESIDENT(id));
	/* A node that the machine does not have: the pages stay, the residency ends. */
	ASSERT_EQ(0, PREFETCH(ADDR, 2 * BLOCK, GPUMEM_PREFETCH_DEVICE));
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch_node(ADDR, 2 * BLOCK, 1000)));
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch_node(ADDR, 2 * BLOCK, INT_MAX)));
	EXPECT_EQ(0, RESIDENT(id));
	EXPECT_TRUE(all_on(p, 2 * BLOCK, node));
	EXPECT_TRUE(pattern_is(p, BLOCK + page_size, 5));
	EXPECT_EQ(0, stayed(self->fd));
}

#define HOG		(4ULL << 30)	/* bytes of address space */

/* Address space whose memory comes from @node while that has some, or NULL. */
static unsigned char *hog_make(int node)
{
	unsigned long mask = 1UL << node;
	unsigned char *hog = mmap(NULL, HOG, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (hog == MAP_FAILED || syscall(SYS_mbind, hog, HOG, MPOL_PREFERRED, &mask, 64, 0) ||
	    madvise(hog, HOG, MADV_NOHUGEPAGE))
		return NULL;
	return hog;
}

/* Touches the hog from @n on until @node has little left; returns where it ended, or 0. */
static __u64 hog_fill(unsigned char *hog, __u64 n, int node)
{
	const __u64 step = 1 << 20;
	unsigned int refused = 0;

	for (; n < HOG; n += step) {
		__u64 elsewhere = 0;

		memset(hog + n, 1, step);
		pages_on(hog + n, step, node, &elsewhere);
		/* The node is full when other nodes alone help out, also after the kernel reclaimed memory. */
		refused = elsewhere == step / page_size ? refused + 1 : 0;
		if (refused == 16)
			return n + step;
	}
	return 0;
}

/* Where the node has no memory left, pages stay and are used where they are. */
TEST_F_TIMEOUT(managed, node_full, 300)
{
	unsigned char *p, *hog;
	__u64 n = 0, elsewhere = 0;
	__u32 id;

	NEED_NODE();
	id = MAKE(BLOCKS * BLOCK, ADDR);
	ASSERT_NE(0, id);
	p = gp_map(self->fd, id, 0, BLOCKS * BLOCK, RW);
	ASSERT_NE(NULL, p);
	pattern(p, BLOCKS * BLOCK, 6);
	hog = hog_make(node);
	ASSERT_NE(NULL, hog);
	/* A prefetch reclaims file pages of the node if it has to; the hog takes their memory in the next round. */
	for (unsigned int i = 0; i < 32 && !elsewhere; i++) {
		ASSERT_EQ(0, PREFETCH(ADDR, BLOCKS * BLOCK, GPUMEM_PREFETCH_HOST));
		n = hog_fill(hog, n, node);
		ASSERT_NE(0, n);
		ASSERT_EQ(0, PREFETCH(ADDR, BLOCKS * BLOCK, GPUMEM_PREFETCH_DEVICE));
		EXPECT_EQ(BLOCKS, RESIDENT(id));
		EXPECT_TRUE(pattern_is(p, BLOCKS * BLOCK, 6));
		pages_on(p, BLOCKS * BLOCK, node, &elsewhere);
	}
	EXPECT_LT(0, elsewhere);
	EXPECT_LE(elsewhere * page_size, stayed(self->fd));
	ASSERT_EQ(0, FILL(ADDR, 8, BLOCKS * BLOCK));
	EXPECT_TRUE(all_are(p, 8, BLOCKS * BLOCK));
	/* They follow when there is memory. */
	munmap(hog, HOG);
	ASSERT_EQ(0, PREFETCH(ADDR, BLOCKS * BLOCK, GPUMEM_PREFETCH_DEVICE));
	EXPECT_TRUE(all_on(p, BLOCKS * BLOCK, node));
	EXPECT_TRUE(all_are(p, 8, BLOCKS * BLOCK));
}

/* Does the shared memory of a cgroup become @bytes or, if @more, as much?  The kernel sums its counters up later. */
static bool shmem_becomes(const struct cgroup *group, long long bytes, bool more)
{
	for (int i = 0; i < 200; i++) {
		long long now = cgroup_read_key(group, "memory.stat", "shmem");

		if (more ? now >= bytes : now == bytes)
			return true;
		nap_ms(100);
	}
	return false;
}

/* In the memory cgroup @arg: moves memory back and forth; 0, or the number of the step that failed. */
static int member(void *arg)
{
	const struct cgroup *group = arg;
	int fd = cgroup_enter(group) ? -1 : gp_open(0);
	long long before, current;
	struct stream s;
	unsigned char *p;
	__u32 vm, id;

	if (fd < 0 || gp_vm_create(fd, &vm) || stream_open(&s, fd, vm, 0, 64))
		return 1;
	id = make(fd, vm, SPAN, ADDR);
	p = gp_map(fd, id, 0, SPAN, RW);
	if (!p)
		return 2;
	pattern(p, SPAN, 1);
	if (!shmem_becomes(group, SPAN, true))
		return 3;
	nap_ms(3000);
	before = cgroup_read_key(group, "memory.stat", "shmem");
	for (int i = 0; i < 10; i++)
		if (execute(&s, sqe_prefetch(ADDR, SPAN, GPUMEM_PREFETCH_DEVICE)) ||
		    execute(&s, sqe_prefetch(ADDR, SPAN, GPUMEM_PREFETCH_HOST)))
			return 4;
	if (moved(fd) != 20 * SPAN)
		return 5;
	if (!shmem_becomes(group, before, false))
		return 6;
	current = cgroup_read(group, "memory.current");
	if (current < (long long)SPAN || current > 2 * (long long)SPAN)
		return 7;
	return pattern_is(p, SPAN, 1) ? 0 : 8;
}

/* The process's memory cgroup pays for the pages wherever they are, and once. */
TEST_F(managed, node_cgroup)
{
	struct cgroup group;

	NEED_NODE();
	EXPECT_LT(0, node);
	if (cgroup_make(&group, "gpumem-nodes"))
		SKIP(return, "no memory cgroups");
	EXPECT_EQ(0, run_child(member, &group));
	EXPECT_EQ(0, cgroup_remove(&group));
}

/* Makes room on the device for memory of one cgroup by memory of another; 0, or the step that failed. */
static int two_groups(void *arg)
{
	const __u64 length = BLOCKS * BLOCK;
	const struct cgroup *group = arg;
	int fd = gp_open(0);
	unsigned char *p[2];
	long long before[2];
	struct stream s;
	__u32 vm, id[2];

	if (fd < 0 || gp_vm_create(fd, &vm) || stream_open(&s, fd, vm, 0, 64))
		return 1;
	for (unsigned int k = 0; k < 2; k++) {
		id[k] = make(fd, vm, length, k ? OTHER : ADDR);
		p[k] = gp_map(fd, id[k], 0, length, RW);
		if (!p[k] || cgroup_enter(&group[k]))
			return 2;
		/* The group in which the processor touches the pages pays for them. */
		pattern(p[k], length, k);
	}
	for (unsigned int k = 0; k < 2; k++)
		if (!shmem_becomes(&group[k], length, true))
			return 3;
	nap_ms(3000);
	for (unsigned int k = 0; k < 2; k++)
		before[k] = cgroup_read_key(&group[k], "memory.stat", "shmem");
	for (unsigned int k = 0; k < 2; k++)
		if (execute(&s, sqe_prefetch(k ? OTHER : ADDR, length, GPUMEM_PREFETCH_DEVICE)))
			return 4;
	if (resident(fd, id[0]) || resident(fd, id[1]) != length || moved(fd) != 3 * length)
		return 5;
	for (unsigned int k = 0; k < 2; k++)
		if (!shmem_becomes(&group[k], before[k], false))
			return 6;
	return pattern_is(p[0], length, 0) && pattern_is(p[1], length, 1) ? 0 : 7;
}

/* No cgroup pays for pages of another one, although their blocks make room for each other. */
TEST_F_TIMEOUT(managed, node_cgroups, 120)
{
	struct cgroup group[2];

	NEED_NODE();
	EXPECT_LT(0, node);
	if (cgroup_make(&group[0], "gpumem-nodes-a"))
		SKIP(return, "no memory cgroups");
	EXPECT_EQ(0, cgroup_make(&group[1], "gpumem-nodes-b"));
	EXPECT_EQ(0, run_child(two_groups, group));
	EXPECT_EQ(0, cgroup_remove(&group[0]));
	EXPECT_EQ(0, cgroup_remove(&group[1]));
}

/* ---- moves while the memory is in use */

#define ROUNDS		40

struct toucher {
	unsigned char *p;
	__u64 rounds;
	bool stop, lost;
};

/* Counts in a word of each page, and expects what it wrote last. */
static void *touch(void *arg)
{
	struct toucher *t = arg;

	while (!__atomic_load_n(&t->stop, __ATOMIC_RELAXED)) {
		for (__u64 at = 0; at < SPAN; at += page_size) {
			volatile __u64 *word = (volatile __u64 *)(t->p + at);

			if (*word != t->rounds)
				t->lost = true;
			*word = t->rounds + 1;
		}
		t->rounds++;
	}
	return NULL;
}

/* A thread writes one word of each page, an engine the rest of the page, and a second stream moves the pages. */
TEST_F(managed, node_concurrent)
{
	struct toucher toucher = {};
	struct stream mover;
	pthread_t thread;
	__u32 id;

	NEED_NODE();
	id = MAKE(SPAN, ADDR);
	ASSERT_NE(0, id);
	toucher.p = gp_map(self->fd, id, 0, SPAN, RW);
	ASSERT_NE(NULL, toucher.p);
	ASSERT_EQ(0, stream_open(&mover, self->fd, self->vm, 0, 256));
	ASSERT_EQ(0, pthread_create(&thread, NULL, touch, &toucher));
	for (int i = 0; i < ROUNDS; i++) {
		struct gpumem_sqe sqe;

		for (int k = 0; k < 4; k++) {
			sqe = sqe_prefetch(ADDR, SPAN, k & 1 ? GPUMEM_PREFETCH_HOST : GPUMEM_PREFETCH_DEVICE);
			ASSERT_EQ(0, stream_push(&mover, &sqe));
		}
		for (__u64 at = 0; at < SPAN; at += 64 * page_size) {
			sqe = sqe_fill(ADDR + at + 512, 1, i + 1, page_size - 512);
			ASSERT_EQ(0, execute(&self->s, sqe));
			EXPECT_TRUE(all_are(toucher.p + at + 512, i + 1, page_size - 512));
		}
		ASSERT_EQ(0, stream_sync(&mover));
	}
	__atomic_store_n(&toucher.stop, true, __ATOMIC_RELAXED);
	ASSERT_EQ(0, pthread_join(thread, NULL));
	EXPECT_FALSE(toucher.lost);
	EXPECT_LT(0, toucher.rounds);
	EXPECT_LT(0, moved(self->fd));
	for (__u64 at = 0; at < SPAN; at += page_size)
		EXPECT_EQ(toucher.rounds, *(__u64 *)(toucher.p + at));
	for (__u64 at = 0; at < SPAN; at += 64 * page_size)
		EXPECT_TRUE(all_are(toucher.p + at + 512, ROUNDS, page_size - 512));
	EXPECT_EQ(0, stream_close(&mover));
}

TEST_HARNESS_MAIN
