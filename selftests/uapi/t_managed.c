// SPDX-License-Identifier: GPL-2.0
/*
 * Managed memory: what takes memory when, residency and its budget, eviction, prefetch, counters,
 * which calls are refused, whose memory cgroup pays, and a model test of memory three times the device's size.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "../../tools/gpumem/nl.h"
#include "kselftest_harness.h"
#include "common/leak.h"
#include "common/limits_util.h"
#include "common/pin_util.h"
#include "common/pool_util.h"
#include "common/util.h"
#include "managed_util.h"
#include "share_util.h"

/* The administrator can forbid managed memory. */
TEST_F(managed, switched_off)
{
	__u32 id;

	EXPECT_EQ(0, gp_managed_alloc(self->fd, BLOCK, &id));
	EXPECT_EQ(0, gp_destroy(self->fd, id));
	ASSERT_EQ(0, set_param("managed", 0));
	EXPECT_EQ(-EOPNOTSUPP, gp_managed_alloc(self->fd, BLOCK, &id));
	ASSERT_EQ(0, set_param("managed", 1));
	EXPECT_EQ(0, gp_managed_alloc(self->fd, BLOCK, &id));
	EXPECT_EQ(0, gp_destroy(self->fd, id));
}

/* An allocation takes nothing, whatever its size; the first touch takes pages. */
TEST_F(managed, first_touch)
{
	const __u64 length = 64 * BLOCKS * BLOCK;
	struct gpumem_bo_info info;
	unsigned char *p;
	__u32 id = MAKE(length, ADDR);

	ASSERT_NE(0, id);
	ASSERT_EQ(0, gp_bo_info(self->fd, id, &info));
	EXPECT_EQ(GPUMEM_BO_MANAGED, info.kind);
	EXPECT_EQ(length, info.length);
	EXPECT_EQ(0, info.present);
	EXPECT_EQ(0, info.resident);
	EXPECT_EQ(0, dev_attr(0, "used"));
	EXPECT_EQ(0, managed_used());
	EXPECT_EQ(1, stats_of(self->fd).managed);
	/* The processor's touch makes pages, but nothing resident. */
	p = gp_map(self->fd, id, 0, length, RW);
	ASSERT_NE(NULL, p);
	p[5 * BLOCK + 7] = 42;
	EXPECT_LE(page_size, present(self->fd, id));
	EXPECT_GE(BLOCK, present(self->fd, id));
	EXPECT_EQ(0, RESIDENT(id));
	EXPECT_EQ(0, dev_attr(0, "used"));
	EXPECT_EQ(0, host_used());
	EXPECT_EQ((long long)present(self->fd, id), managed_used());
	/* The engine's touch makes whole blocks resident. */
	ASSERT_EQ(0, execute(&self->s, sqe_copy(ADDR, ADDR + 5 * BLOCK, 8)));
	EXPECT_EQ(42, p[7]);
	EXPECT_EQ(0, p[6]);
	EXPECT_EQ(2, RESIDENT(id));
	EXPECT_EQ(2 * BLOCK, present(self->fd, id));
	EXPECT_EQ((long long)(2 * BLOCK), dev_attr(0, "used"));
	EXPECT_EQ((long long)(2 * BLOCK), dev_attr(0, "managed"));
	EXPECT_EQ(2 * BLOCK, stats_of(self->fd).managed_resident);
	EXPECT_EQ(2, stats_of(self->fd).managed_faults);
	EXPECT_EQ(0, stats_of(self->fd).managed_evictions);
	/* The last mapping keeps the memory, but not its residency. */
	ASSERT_EQ(0, gp_destroy(self->fd, id));
	ASSERT_EQ(0, gp_vm_unmap(self->fd, self->vm, ADDR, length, NULL));
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 10));
	EXPECT_EQ(42, p[7]);
	EXPECT_EQ(0, stats_of(self->fd).managed);
	EXPECT_EQ(0, stats_of(self->fd).managed_resident);
}

/* The end of an object that is smaller than a block. */
TEST_F(managed, short_block)
{
	const __u64 length = BLOCK + 3 * page_size;
	__u32 id = MAKE(length, ADDR);

	ASSERT_NE(0, id);
	ASSERT_EQ(0, FILL(ADDR + BLOCK, 1, 3 * page_size));
	EXPECT_EQ(3 * page_size, resident(self->fd, id));
	EXPECT_EQ(3 * page_size, present(self->fd, id));
	ASSERT_EQ(0, FILL(ADDR, 1, length));
	EXPECT_EQ(length, resident(self->fd, id));
	EXPECT_EQ(EFAULT, stream_error_of(self->fd, self->vm, sqe_fill(ADDR, 1, 1, length + 1)));
}

/* The block that was used longest ago is evicted first; its content stays. */
TEST_F(managed, oldest_first)
{
	__u32 id[BLOCKS + 2];
	unsigned char *p;

	for (unsigned int i = 0; i < BLOCKS + 2; i++) {
		id[i] = MAKE(BLOCK, ADDR + i * BLOCK);
		ASSERT_NE(0, id[i]);
	}
	for (unsigned int i = 0; i < BLOCKS; i++)
		ASSERT_EQ(0, FILL(ADDR + i * BLOCK, i + 1, BLOCK));
	for (unsigned int i = 0; i < BLOCKS; i++)
		EXPECT_EQ(1, RESIDENT(id[i]));
	/* Blocks 0 and 2 become the youngest, so the oldest are 1 and 3. */
	ASSERT_EQ(0, FILL(ADDR, 100, 1));
	ASSERT_EQ(0, FILL(ADDR + 2 * BLOCK, 100, 1));
	ASSERT_EQ(0, FILL(ADDR + BLOCKS * BLOCK, 50, BLOCK));
	EXPECT_EQ(0, RESIDENT(id[1]));
	EXPECT_EQ(1, RESIDENT(id[3]));
	ASSERT_EQ(0, FILL(ADDR + (BLOCKS + 1) * BLOCK, 51, BLOCK));
	EXPECT_EQ(0, RESIDENT(id[3]));
	EXPECT_EQ(1, RESIDENT(id[0]));
	EXPECT_EQ(1, RESIDENT(id[2]));
	EXPECT_EQ((long long)(BLOCKS * BLOCK), dev_attr(0, "used"));
	EXPECT_EQ(2, stats_of(self->fd).managed_evictions);
	EXPECT_EQ(2 * BLOCK, stats_of(self->fd).managed_out);
	EXPECT_EQ((BLOCKS + 2) * BLOCK, stats_of(self->fd).managed_in);
	p = gp_map(self->fd, id[1], 0, BLOCK, RW);
	ASSERT_NE(NULL, p);
	EXPECT_TRUE(all_are(p, 2, BLOCK));
	/* What was evicted comes back when the engine touches it. */
	ASSERT_EQ(0, execute(&self->s, sqe_copy(ADDR + 3 * BLOCK, ADDR + BLOCK, BLOCK)));
	EXPECT_EQ(1, RESIDENT(id[1]));
	EXPECT_EQ(1, RESIDENT(id[3]));
	p = gp_map(self->fd, id[3], 0, BLOCK, RW);
	ASSERT_NE(NULL, p);
	EXPECT_TRUE(all_are(p, 2, BLOCK));
}

/* Device memory comes first: an allocation evicts, and engines go on without room. */
TEST_F(managed, device_memory_first)
{
	__u32 id = MAKE(2 * BLOCKS * BLOCK, ADDR), bo[2];
	int other = gp_open(0);

	ASSERT_LE(0, other);
	ASSERT_NE(0, id);
	ASSERT_EQ(0, FILL(ADDR, 7, 2 * BLOCKS * BLOCK));
	EXPECT_EQ(BLOCKS, RESIDENT(id));
	ASSERT_EQ(0, gp_bo_alloc(other, 3 * BLOCK, &bo[0]));
	EXPECT_EQ(BLOCKS - 3, RESIDENT(id));
	EXPECT_EQ((long long)(BLOCKS * BLOCK), dev_attr(0, "used"));
	ASSERT_EQ(0, gp_bo_alloc(other, (BLOCKS - 3) * BLOCK, &bo[1]));
	EXPECT_EQ(0, RESIDENT(id));
	EXPECT_EQ((long long)(BLOCKS * BLOCK), dev_attr(0, "used"));
	EXPECT_EQ(0, dev_attr(0, "managed"));
	/* The device is full of other memory: the engine works where the bytes are. */
	ASSERT_EQ(0, execute(&self->s, sqe_copy(ADDR, ADDR + 5 * BLOCK + 100, 2 * BLOCK)));
	ASSERT_EQ(0, FILL(ADDR + BLOCK, 8, 4 * BLOCK));
	EXPECT_EQ(0, RESIDENT(id));
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR, 4 * BLOCK, GPUMEM_PREFETCH_DEVICE)));
	EXPECT_EQ(0, RESIDENT(id));
	EXPECT_EQ(-ENOSPC, gp_bo_alloc(other, page_size, &bo[1]));
	close(other);
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 10));
	ASSERT_EQ(0, FILL(ADDR, 9, BLOCK));
	EXPECT_EQ(1, RESIDENT(id));
}

TEST_F(managed, smaller_device)
{
	__u32 id = MAKE(BLOCKS * BLOCK, ADDR);
	unsigned char *p = gp_map(self->fd, id, 0, BLOCKS * BLOCK, RW);

	ASSERT_NE(NULL, p);
	ASSERT_EQ(0, FILL(ADDR, 7, BLOCKS * BLOCK));
	EXPECT_EQ(BLOCKS, RESIDENT(id));
	ASSERT_EQ(0, write_dev_attr(0, "size", "6M"));
	EXPECT_EQ(3, RESIDENT(id));
	EXPECT_EQ((long long)(3 * BLOCK), dev_attr(0, "used"));
	ASSERT_EQ(0, FILL(ADDR, 8, BLOCKS * BLOCK));
	EXPECT_EQ(3, RESIDENT(id));
	EXPECT_TRUE(all_are(p, 8, BLOCKS * BLOCK));
}

TEST_F(managed, prefetch)
{
	__u32 id = MAKE(2 * BLOCKS * BLOCK, ADDR), bo;
	unsigned char *p = gp_map(self->fd, id, 0, 2 * BLOCKS * BLOCK, RW);
	struct gpumem_sqe good = sqe_prefetch(ADDR, BLOCK, GPUMEM_PREFETCH_DEVICE), bad;
	__u64 end = ADDR + 2 * BLOCKS * BLOCK;

	ASSERT_NE(NULL, p);
	memset(p, 3, BLOCK);
	/* Any byte of a block stands for it. */
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR + BLOCK - 1, 2, 0)));
	EXPECT_EQ(2, RESIDENT(id));
	EXPECT_TRUE(all_are(p, 3, BLOCK));
	EXPECT_TRUE(all_are(p + BLOCK, 0, BLOCK));
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR, 1, GPUMEM_PREFETCH_HOST)));
	EXPECT_EQ(1, RESIDENT(id));
	EXPECT_EQ(0, stats_of(self->fd).managed_evictions);
	EXPECT_EQ(BLOCK, stats_of(self->fd).managed_out);
	EXPECT_TRUE(all_are(p, 3, BLOCK));
	/* More than fits: no error, and the beginning of the range is resident. */
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR, 2 * BLOCKS * BLOCK, 0)));
	EXPECT_EQ(BLOCKS, RESIDENT(id));
	EXPECT_EQ(BLOCKS * BLOCK, present(self->fd, id));
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR, BLOCKS * BLOCK, 1)));
	EXPECT_EQ(0, RESIDENT(id));
	/* A prefetch makes room as a touch does. */
	ASSERT_EQ(0, FILL(ADDR + BLOCKS * BLOCK, 1, BLOCKS * BLOCK));
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR, 3 * BLOCK, 0)));
	EXPECT_EQ(BLOCKS, RESIDENT(id));
	EXPECT_EQ(3, stats_of(self->fd).managed_evictions);
	/* Where there is no managed memory, a prefetch ends without an error. */
	ASSERT_EQ(0, gp_bo_alloc(self->fd, page_size, &bo));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, bo, 0, OTHER, page_size, 1, 1));
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR, 2 * BLOCKS * BLOCK, 1)));
	EXPECT_EQ(0, execute(&self->s, sqe_prefetch(OTHER, 1, 0)));
	EXPECT_EQ(0, execute(&self->s, sqe_prefetch(end, 1, 0)));
	EXPECT_EQ(0, RESIDENT(id));
	EXPECT_EQ(0, execute(&self->s, sqe_prefetch(end - BLOCK, BLOCK + 1, 0)));
	EXPECT_EQ(1, RESIDENT(id));
	/* What is refused. */
#define BAD(want, ...) do {							\
	bad = good;								\
	__VA_ARGS__;								\
	EXPECT_EQ(want, stream_error_of(self->fd, self->vm, bad));		\
} while (0)
	BAD(EOPNOTSUPP, bad.handle = GPUMEM_PREFETCH_DISCARD + 1);
	BAD(EINVAL, bad.handle = GPUMEM_PREFETCH_DISCARD, bad.value = 1);
	BAD(EINVAL, bad.handle = GPUMEM_PREFETCH_NODE, bad.value = 1ULL << 31);
	BAD(EINVAL, bad.width = 0);
	BAD(EINVAL, bad.height = 1);
	BAD(EINVAL, bad.elem = 1);
	BAD(EINVAL, bad.value = 1);
	BAD(EINVAL, bad.dst_pitch = 1);
	BAD(EINVAL, bad.src_pitch = 1);
	BAD(EOVERFLOW, bad.width = ~0ULL);
	EXPECT_EQ(0, stream_error_of(self->fd, self->vm, good));
}

/* --- counters */

/* Fill @n blocks at @addr, one after the other. */
static int sweep(struct stream *s, __u64 addr, unsigned int n)
{
	int ret = 0;

	for (unsigned int i = 0; !ret && i < n; i++)
		ret = execute(s, sqe_fill(addr + i * BLOCK, 1, i, BLOCK));
	return ret;
}

/* A block thrashes if a device of twice the size would have kept it. */
TEST_F(managed, thrash)
{
	__u32 id = MAKE(2 * BLOCKS * BLOCK, ADDR), big = MAKE(3 * BLOCKS * BLOCK, OTHER);
	struct gpumem_bo_info info;
	struct gpumem_stats stats;

	ASSERT_TRUE(id && big);
	/* One sweep evicts, but no block comes back. */
	ASSERT_EQ(0, sweep(&self->s, ADDR, 2 * BLOCKS));
	stats = stats_of(self->fd);
	EXPECT_EQ(2 * BLOCKS, stats.managed_faults);
	EXPECT_EQ(BLOCKS, stats.managed_evictions);
	EXPECT_EQ(0, stats.managed_thrash);
	/* Each block of the next sweep was evicted BLOCKS blocks ago. */
	ASSERT_EQ(0, sweep(&self->s, ADDR, 2 * BLOCKS));
	EXPECT_EQ(2 * BLOCKS, stats_of(self->fd).managed_thrash);
	/* A loop over three times the device: twice the device would not have been enough. */
	ASSERT_EQ(0, sweep(&self->s, OTHER, 3 * BLOCKS));
	ASSERT_EQ(0, sweep(&self->s, OTHER, 3 * BLOCKS));
	stats = stats_of(self->fd);
	EXPECT_EQ(10 * BLOCKS, stats.managed_faults);
	EXPECT_EQ(9 * BLOCKS, stats.managed_evictions);
	EXPECT_EQ(2 * BLOCKS, stats.managed_thrash);
	/* Each object has its part of the client's counters. */
	ASSERT_EQ(0, gp_bo_info(self->fd, id, &info));
	EXPECT_EQ(4 * BLOCKS, info.faults);
	EXPECT_EQ(4 * BLOCKS, info.evictions);
	EXPECT_EQ(2 * BLOCKS, info.thrash);
	EXPECT_EQ(4 * BLOCKS * BLOCK, info.moved_in);
	EXPECT_EQ(4 * BLOCKS * BLOCK, info.moved_out);
	ASSERT_EQ(0, gp_bo_info(self->fd, big, &info));
	EXPECT_EQ(6 * BLOCKS, info.faults);
	EXPECT_EQ(5 * BLOCKS, info.evictions);
	EXPECT_EQ(0, info.thrash);
	EXPECT_EQ(BLOCKS * BLOCK, info.resident);
	EXPECT_EQ(6 * BLOCKS * BLOCK, info.moved_in);
	EXPECT_EQ(5 * BLOCKS * BLOCK, info.moved_out);
	/* A block that leaves because its object is freed moves nowhere. */
	ASSERT_EQ(0, gp_destroy(self->fd, big));
	ASSERT_EQ(0, gp_vm_unmap(self->fd, self->vm, OTHER, 3 * BLOCKS * BLOCK, NULL));
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 10));
	stats = stats_of(self->fd);
	EXPECT_EQ(9 * BLOCKS, stats.managed_evictions);
	EXPECT_EQ(9 * BLOCKS * BLOCK, stats.managed_out);
}

/* What an allocation of device memory evicts thrashes, too; what a prefetch evicts does not. */
TEST_F(managed, thrash_by_cause)
{
	__u32 id = MAKE(BLOCKS * BLOCK, ADDR), bo;

	ASSERT_NE(0, id);
	ASSERT_EQ(0, sweep(&self->s, ADDR, BLOCKS));
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR, BLOCKS * BLOCK, GPUMEM_PREFETCH_HOST)));
	EXPECT_EQ(0, RESIDENT(id));
	ASSERT_EQ(0, sweep(&self->s, ADDR, BLOCKS));
	EXPECT_EQ(2 * BLOCKS, stats_of(self->fd).managed_faults);
	EXPECT_EQ(0, stats_of(self->fd).managed_evictions);
	EXPECT_EQ(0, stats_of(self->fd).managed_thrash);
	ASSERT_EQ(0, gp_bo_alloc(self->fd, 3 * BLOCK, &bo));
	EXPECT_EQ(BLOCKS - 3, RESIDENT(id));
	ASSERT_EQ(0, gp_destroy(self->fd, bo));
	EXPECT_TRUE(dev_attr_becomes(0, "used", (BLOCKS - 3) * BLOCK, 10));
	/* Also if a prefetch brings it back. */
	ASSERT_EQ(0, sweep(&self->s, ADDR, 1));
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR + BLOCK, 2 * BLOCK,
						    GPUMEM_PREFETCH_DEVICE)));
	EXPECT_EQ(BLOCKS, RESIDENT(id));
	EXPECT_EQ(3, stats_of(self->fd).managed_evictions);
	EXPECT_EQ(3, stats_of(self->fd).managed_thrash);
	EXPECT_EQ(2 * BLOCKS + 1, stats_of(self->fd).managed_faults);
	/* Each eviction is followed by one return. */
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR, 1, GPUMEM_PREFETCH_HOST)));
	ASSERT_EQ(0, sweep(&self->s, ADDR, 1));
	EXPECT_EQ(3, stats_of(self->fd).managed_thrash);
}

/* An engine faults on no block that was prefetched. */
TEST_F(managed, prefetch_avoids_faults)
{
	__u32 id = MAKE(2 * BLOCKS * BLOCK, ADDR);
	struct gpumem_bo_info info;

	ASSERT_NE(0, id);
	ASSERT_EQ(0, execute(&self->s, sqe_prefetch(ADDR, BLOCKS * BLOCK,
						    GPUMEM_PREFETCH_DEVICE)));
	ASSERT_EQ(0, sweep(&self->s, ADDR, BLOCKS));
	EXPECT_EQ(0, stats_of(self->fd).managed_faults);
	EXPECT_EQ(BLOCKS * BLOCK, stats_of(self->fd).managed_in);
	ASSERT_EQ(0, sweep(&self->s, ADDR, BLOCKS + 1));
	EXPECT_EQ(1, stats_of(self->fd).managed_faults);
	ASSERT_EQ(0, gp_bo_info(self->fd, id, &info));
	EXPECT_EQ(1, info.faults);
	EXPECT_EQ((BLOCKS + 1) * BLOCK, info.moved_in);
	EXPECT_EQ(BLOCK, info.moved_out);
}

#define TRACE	"/sys/kernel/tracing/instances/t_managed"

/* Lines of the trace that contain @event, the object's id and @text. */
static int traced(const char *event, __u32 id, const char *text)
{
	char line[512], object[32];
	int n = 0;
	FILE *f = fopen(TRACE "/trace", "r");

	if (!f)
		return -1;
	snprintf(object, sizeof(object), " bo=%u ", id);
	while (fgets(line, sizeof(line), f))
		n += strstr(line, event) && strstr(line, object) && strstr(line, text);
	fclose(f);
	return n;
}

/* Tracepoints name each block that moves, and why. */
TEST_F(managed, tracepoints)
{
	__u32 id = MAKE((BLOCKS + 1) * BLOCK, ADDR);

	ASSERT_NE(0, id);
	ASSERT_EQ(0, mkdir(TRACE, 0700));
	EXPECT_EQ(0, write_file(TRACE "/events/gpumem/enable", "1"));
	EXPECT_EQ(0, execute(&self->s, sqe_prefetch(ADDR, 2 * BLOCK, GPUMEM_PREFETCH_DEVICE)));
	EXPECT_EQ(0, sweep(&self->s, ADDR, BLOCKS + 1));
	EXPECT_EQ(0, sweep(&self->s, ADDR, 1));
	EXPECT_EQ(0, execute(&self->s, sqe_prefetch(ADDR, 1, GPUMEM_PREFETCH_HOST)));
	EXPECT_EQ(0, gp_destroy(self->fd, id));
	EXPECT_EQ(0, gp_vm_unmap(self->fd, self->vm, ADDR, (BLOCKS + 1) * BLOCK, NULL));
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 10));
	EXPECT_EQ(1, traced("gpumem_managed_prefetch:", id, " block=0 bytes=2097152 thrash=0"));
	EXPECT_EQ(2, traced("gpumem_managed_prefetch:", id, " device=0 "));
	EXPECT_EQ(1, traced("gpumem_managed_fault:", id, " block=8 bytes=2097152 thrash=0"));
	EXPECT_EQ(1, traced("gpumem_managed_fault:", id, " block=0 bytes=2097152 thrash=1"));
	EXPECT_EQ(BLOCKS, traced("gpumem_managed_fault:", id, " device=0 "));
	EXPECT_EQ(1, traced("gpumem_managed_evict:", id, " block=0 bytes=2097152 reason=room"));
	EXPECT_EQ(2, traced("gpumem_managed_evict:", id, " reason=room"));
	EXPECT_EQ(1, traced("gpumem_managed_evict:", id, " reason=moved"));
	EXPECT_EQ(BLOCKS - 1, traced("gpumem_managed_evict:", id, " reason=freed"));
	EXPECT_EQ(0, rmdir(TRACE));
}

/* A process that locks all its memory does not get all of an allocation at once. */
TEST_F(managed, locked_process)
{
	__u32 id = MAKE(2 * BLOCKS * BLOCK, ADDR);
	unsigned char *p;

	ASSERT_NE(0, id);
	ASSERT_EQ(0, mlockall(MCL_FUTURE));
	p = gp_map(self->fd, id, 0, 2 * BLOCKS * BLOCK, RW);
	ASSERT_NE(NULL, p);
	EXPECT_EQ(0, present(self->fd, id));
	p[BLOCK] = 1;
	EXPECT_LT(0, present(self->fd, id));
	EXPECT_GE(BLOCK, present(self->fd, id));
	EXPECT_EQ(0, munlockall());
}

TEST_F(managed, refused)
{
	struct gpumem_bo_alloc alloc = {
		.size = sizeof(alloc), .length = BLOCK,
		.flags = GPUMEM_BO_ALLOC_MANAGED | GPUMEM_BO_ALLOC_HOST,
	};
	__u8 token[GPUMEM_TOKEN_SIZE];
	__u32 id = MAKE(BLOCK, ADDR), pool, live, other;

	ASSERT_NE(0, id);
	EXPECT_EQ(-EOPNOTSUPP, gp_ioctl(self->fd, GPUMEM_BO_ALLOC, &alloc));
	ASSERT_EQ(0, gp_pool_create(self->fd, 0, 0, 0, "pool", &pool));
	alloc.flags = GPUMEM_BO_ALLOC_MANAGED;
	alloc.pool = pool;
	EXPECT_EQ(-EOPNOTSUPP, gp_ioctl(self->fd, GPUMEM_BO_ALLOC, &alloc));
	EXPECT_EQ(-ENOSPC, gp_managed_alloc(self->fd, (1ULL << GPUMEM_MMAP_SHIFT) + page_size,
					    &other));
	EXPECT_EQ(-EOPNOTSUPP, gp_bo_export(self->fd, id, 0, BLOCK, 0));
	EXPECT_EQ(-EOPNOTSUPP, gp_bo_export(self->fd, id, 0, BLOCK, GPUMEM_BO_EXPORT_HANDLE));
	EXPECT_EQ(-EOPNOTSUPP, gp_vm_export(self->fd, self->vm, ADDR, BLOCK, 0));
	EXPECT_EQ(-EOPNOTSUPP, gp_token_create(self->fd, id, 0, BLOCK, 0, &other, token));
	EXPECT_EQ(-EOPNOTSUPP, gp_bo_retire(self->fd, id, 0, BLOCK, 0, &live));
	ASSERT_EQ(0, gp_vm_map_sparse(self->fd, self->vm, OTHER, GPUMEM_TILE_SIZE, 1, 1));
	EXPECT_EQ(-EOPNOTSUPP, gp_vm_bind(self->fd, self->vm, id, 0, GPUMEM_TILE_SIZE, OTHER,
					  GPUMEM_TILE_SIZE, 0));
	/* A part of it can be mapped, at an offset. */
	EXPECT_EQ(0, gp_map_errno(self->fd, id, page_size, page_size, RW, MAP_SHARED));
	EXPECT_EQ(-EINVAL, gp_map_errno(self->fd, id, BLOCK, page_size, RW, MAP_SHARED));
	EXPECT_EQ(0, stats_of(self->fd).managed_faults);
	EXPECT_EQ(0, host_used());
}

/* Registering mapped managed memory pins its pages; evictions leave them where they are. */
TEST_F(managed, pinned)
{
	__u32 id = MAKE(BLOCK, ADDR), big = MAKE(BLOCKS * BLOCK, OTHER), pin;
	unsigned char *p = gp_map(self->fd, id, 0, BLOCK, RW);

	ASSERT_NE(NULL, p);
	ASSERT_EQ(0, FILL(ADDR, 1, BLOCK));
	ASSERT_EQ(0, bo_pin(self->fd, p, BLOCK, 0, &pin));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, pin, 0, BUFFER, BLOCK, 1, 1));
	ASSERT_EQ(0, FILL(OTHER, 2, BLOCKS * BLOCK));
	EXPECT_EQ(0, RESIDENT(id));
	EXPECT_EQ(BLOCKS, RESIDENT(big));
	ASSERT_EQ(0, FILL(BUFFER, 3, BLOCK / 2));
	EXPECT_TRUE(all_are(p, 3, BLOCK / 2));
	EXPECT_TRUE(all_are(p + BLOCK / 2, 1, BLOCK / 2));
	ASSERT_EQ(0, execute(&self->s, sqe_copy(OTHER + 1, ADDR + BLOCK / 2 - 1, 8)));
}

/* Copies between managed memory whose blocks do not line up, forwards and with pitches. */
TEST_F(managed, copies)
{
	const __u64 length = 3 * BLOCK;
	__u32 a = MAKE(length, ADDR), b = MAKE(length, OTHER);
	unsigned char *p = gp_map(self->fd, a, 0, length, RW);
	unsigned char *q = gp_map(self->fd, b, 0, length, RW);
	unsigned char *want = malloc(length);
	struct rng r;

	ASSERT_TRUE(p && q && want);
	rng_start(&r, "copies");
	rng_fill(&r, p, length);
	/* Nothing of the destination exists; the ends are not those of blocks. */
	ASSERT_EQ(0, execute(&self->s, sqe_copy(OTHER + 12345, ADDR + 777, 2 * BLOCK + 4321)));
	EXPECT_EQ(0, memcmp(q + 12345, p + 777, 2 * BLOCK + 4321));
	EXPECT_TRUE(all_are(q, 0, 12345));
	/* Within one object, one block further. */
	ASSERT_EQ(0, execute(&self->s, sqe_copy(ADDR + BLOCK + 5, ADDR, BLOCK)));
	EXPECT_EQ(0, memcmp(p + BLOCK + 5, p, BLOCK));
	/* Ranges of one block that do not overlap. */
	memcpy(want, p + 100, 5000);
	ASSERT_EQ(0, execute(&self->s, sqe_copy(ADDR + 9000, ADDR + 100, 5000)));
	EXPECT_EQ(0, memcmp(p + 9000, want, 5000));
	/* Rows with pitches, all blocks of both, with the device too small for them. */
	ASSERT_EQ(0, write_dev_attr(0, "size", "2M"));
	memset(q, 0, length);
	ASSERT_EQ(0, execute(&self->s, sqe_copy2d(OTHER + 3, 5003, ADDR + 1, 4001, 3001, 1200)));
	memset(want, 0, length);
	for (__u64 row = 0; row < 1200; row++)
		memcpy(want + 3 + row * 5003, p + 1 + row * 4001, 3001);
	EXPECT_EQ(0, memcmp(q, want, length));
	ASSERT_EQ(0, execute(&self->s, sqe_fill2d(ADDR + 8, 16 * KIB, 8, 0x1122334455667788ULL,
						  700, 380)));
	for (__u64 row = 0; row < 380; row++)
		ASSERT_EQ(0x1122334455667788ULL, *(__u64 *)(p + 8 + row * 16 * KIB + 699 * 8));
	EXPECT_GE(BLOCK, resident(self->fd, a) + resident(self->fd, b));
	free(want);
}

/* Words in managed memory that does not exist yet. */
TEST_F(managed, words)
{
	__u32 id = MAKE(3 * BLOCK, ADDR);
	__u64 *p = gp_map(self->fd, id, 0, 3 * BLOCK, RW);

	ASSERT_NE(NULL, p);
	ASSERT_EQ(0, execute(&self->s, sqe_timestamp(ADDR + BLOCK)));
	EXPECT_NE(0, p[BLOCK / 8]);
	PUSH(&self->s, sqe_poll(ADDR + 2 * BLOCK + 8, 8, GPUMEM_POLL_EQ, 5));
	nap_ms(20);
	EXPECT_EQ(1, self->s.page->value);
	__atomic_store_n(&p[2 * BLOCK / 8 + 1], 5, __ATOMIC_RELEASE);
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(2, RESIDENT(id));
}

/* Memory that nobody wrote reads as zeros, though its pages were other owners' before. */
TEST_F(managed, zeros)
{
	const __u64 length = 4 * BLOCK;

	for (int i = 0; i < 5; i++) {
		__u32 id = MAKE(length, ADDR), bo;
		unsigned char *p;

		ASSERT_NE(0, id);
		p = gp_alloc_map(self->fd, length, &bo);
		ASSERT_NE(NULL, p);
		ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, bo, 0, BUFFER, length, 1, 1));
		memset(p, 0xff, length);
		ASSERT_EQ(0, execute(&self->s, sqe_copy(BUFFER, ADDR, length)));
		EXPECT_TRUE(all_are(p, 0, length));
		ASSERT_EQ(0, FILL(ADDR, 0xee, length));
		memset(p, 0xdd, length);
		ASSERT_EQ(0, gp_vm_unmap(self->fd, self->vm, BUFFER, length, NULL));
		ASSERT_EQ(0, gp_vm_unmap(self->fd, self->vm, ADDR, length, NULL));
		ASSERT_EQ(0, gp_destroy(self->fd, bo));
		ASSERT_EQ(0, gp_destroy(self->fd, id));
		ASSERT_EQ(0, munmap(p, length));
	}
}

/* Processor and engine touch the same new blocks at the same time. */
struct toucher {
	unsigned char *p;
	__u64 length;
	bool zeros;
};

static void *touches(void *arg)
{
	struct toucher *t = arg;

	for (__u64 i = 0; i < t->length; i += page_size / 2)
		t->zeros &= !*(volatile unsigned char *)(t->p + i);
	return NULL;
}

TEST_F_TIMEOUT(managed, race_of_touches, 120)
{
	const __u64 length = 6 * BLOCK;

	for (unsigned int i = 0; i < 8; i++) {
		__u32 id = MAKE(length, ADDR), bo;
		unsigned char *p = gp_map(self->fd, id, 0, length, RW);
		unsigned char *q = gp_alloc_map(self->fd, BLOCK, &bo);
		struct toucher t = { p, length, true };
		pthread_t thread;

		ASSERT_TRUE(p && q);
		ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, bo, 0, BUFFER, BLOCK, 1, 1));
		memset(q, 0xff, BLOCK);
		ASSERT_EQ(0, pthread_create(&thread, NULL, touches, &t));
		for (__u64 at = 0; at < length; at += BLOCK) {
			PUSH(&self->s, sqe_copy(BUFFER, ADDR + length - BLOCK - at, BLOCK));
			ASSERT_EQ(0, stream_sync(&self->s));
			ASSERT_TRUE(all_are(q, 0, BLOCK));
		}
		ASSERT_EQ(0, pthread_join(thread, NULL));
		EXPECT_TRUE(t.zeros);
		ASSERT_EQ(0, gp_vm_unmap(self->fd, self->vm, BUFFER, BLOCK, NULL));
		ASSERT_EQ(0, gp_vm_unmap(self->fd, self->vm, ADDR, length, NULL));
		ASSERT_EQ(0, gp_destroy(self->fd, bo));
		ASSERT_EQ(0, gp_destroy(self->fd, id));
		munmap(p, length);
		munmap(q, BLOCK);
	}
}

/* Entries on exported buffers, whose other side is managed memory that does not exist yet. */
TEST_F_TIMEOUT(managed, published, 120)
{
	const __u64 length = 50 * BLOCK;
	__u32 id = MAKE(length, ADDR), bo, small;
	unsigned char *p = gp_map(self->fd, id, 0, length, RW);
	unsigned char *q = gp_alloc_map(self->fd, BLOCK, &bo);
	int dmabuf = gp_bo_export(self->fd, bo, 0, BLOCK, 0);

	ASSERT_TRUE(p && q && dmabuf >= 0);
	for (__u64 at = 0; at < length; at += BLOCK)
		ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, bo, 0, BUFFER + at, BLOCK, 1, 1));
	memset(q, 0x5a, BLOCK);
	ASSERT_EQ(0, execute(&self->s, sqe_copy(ADDR, BUFFER, length)));
	EXPECT_TRUE(all_are(p, 0x5a, length));
	EXPECT_EQ(BLOCKS - 1, RESIDENT(id));
	/* Each row is in another block, more of them than a portion keeps in use. */
	for (__u64 at = 0; at < length; at += BLOCK)
		p[at + 17] = at / BLOCK;
	ASSERT_EQ(0, execute(&self->s, sqe_copy2d(BUFFER, 1, ADDR + 17, BLOCK, 1, 50)));
	for (unsigned int i = 0; i < 50; i++)
		ASSERT_EQ(i, q[i]);
	/* From memory that nobody touched. */
	small = MAKE(2 * BLOCK, OTHER);
	ASSERT_NE(0, small);
	ASSERT_EQ(0, execute(&self->s, sqe_copy(BUFFER, OTHER + BLOCK / 2, BLOCK)));
	EXPECT_TRUE(all_are(q, 0, BLOCK));
	/* The device is full of other memory: portions go on. */
	ASSERT_EQ(0, gp_bo_alloc(self->fd, (BLOCKS - 1) * BLOCK, &small));
	EXPECT_EQ(0, RESIDENT(id));
	memset(q, 0x77, BLOCK);
	ASSERT_EQ(0, execute(&self->s, sqe_copy(ADDR, BUFFER, length)));
	EXPECT_TRUE(all_are(p, 0x77, length));
	EXPECT_EQ(0, RESIDENT(id));
	EXPECT_TRUE(settles(dmabuf));
	close(dmabuf);
}

/* --- the end of objects and clients */

TEST_F(managed, destroyed_with_work)
{
	__u32 id = MAKE(BLOCKS * BLOCK, ADDR), gate;

	ASSERT_NE(0, id);
	ASSERT_EQ(0, stream_shut(&self->s, &gate));
	for (int i = 0; i < 20; i++)
		PUSH(&self->s, sqe_fill(ADDR, 1, i, BLOCKS * BLOCK));
	ASSERT_EQ(0, gp_destroy(self->fd, id));
	ASSERT_EQ(0, gp_timeline_signal(self->fd, gate, 1));
	EXPECT_EQ(0, stream_wait(&self->s, 3, 20));
	EXPECT_EQ((long long)(BLOCKS * BLOCK), dev_attr(0, "used"));
	/* The mapping was the last reference. */
	ASSERT_EQ(0, gp_vm_unmap(self->fd, self->vm, ADDR, BLOCKS * BLOCK, NULL));
	stream_sync(&self->s);
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 10));
}

struct victim_of_kill {
	int to;
	bool export;
};

static int works_for_ever(void *arg)
{
	struct victim_of_kill *v = arg;
	const __u64 length = 3 * BLOCKS * BLOCK, begin = v->export ? ADDR - BLOCK : ADDR;
	int fd = gp_open(0);
	struct stream s;
	__u32 vm, bo;

	if (fd < 0 || gp_vm_create(fd, &vm) || !make(fd, vm, length, ADDR) ||
	    gp_bo_alloc(fd, BLOCK, &bo) || gp_vm_map(fd, vm, bo, 0, BUFFER, BLOCK, 1, 1) ||
	    gp_vm_map(fd, vm, bo, 0, ADDR - BLOCK, BLOCK, 1, 1) || stream_open(&s, fd, vm, 0, 64) ||
	    (v->export && gp_bo_export(fd, bo, 0, BLOCK, 0) < 0))
		return 1;
	for (int i = 0;; i++) {
		/* From the exported buffer into managed memory. */
		struct gpumem_sqe fill = sqe_fill(begin, 1, i, length);
		struct gpumem_sqe copy = sqe_copy(BUFFER, ADDR + i % 20 * BLOCK + 4096, BLOCK);

		if (stream_push(&s, &fill) || stream_push(&s, &copy))
			return 2;
		if (i == 2 && !tell(v->to))
			return 3;
	}
}

TEST_F_TIMEOUT(managed, killed, 120)
{
	for (int i = 0; i < 6; i++) {
		struct victim_of_kill v = { .export = i & 1 };
		int pid = start_ready_child(works_for_ever, &v, &v.to);

		ASSERT_LT(0, pid);
		nap_ms(30 * i);
		EXPECT_EQ(-SIGKILL, kill_child(pid));
		EXPECT_TRUE(dev_attr_becomes(0, "clients", 1, 10));
		EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 10));
		EXPECT_TRUE(managed_used_becomes(0));
	}
}

/* --- whose memory cgroup pays */

#define GROUP	(24 * MIB)

struct member {
	struct cgroup *group;
	__u64 bytes;
	int error;	/* expected */
};

static int engine_touches(void *arg)
{
	struct member *m = arg;
	long long before, after;
	struct stream s;
	__u32 vm, id;
	int fd, ret;

	if (cgroup_enter(m->group))
		return 1;
	fd = gp_open(0);
	if (fd < 0 || gp_vm_create(fd, &vm) || stream_open(&s, fd, vm, 0, 64))
		return 2;
	before = cgroup_read(m->group, "memory.current");
	id = make(fd, vm, m->bytes, ADDR);
	if (!id)
		return 3;
	if (cgroup_read(m->group, "memory.current") > before + (long long)MIB)
		return 4;
	/* The entry may fill the group: from here on the process needs no page of it. */
	if (mlockall(MCL_CURRENT))
		return 7;
	ret = execute(&s, sqe_fill(ADDR, 1, 1, m->bytes));
	if (m->error)
		return ret == -EIO && (int)s.page->error == m->error ? 0 : 5;
	after = cgroup_read(m->group, "memory.current");
	return !ret && after >= before + (long long)m->bytes &&
	       after <= before + (long long)(m->bytes + 2 * MIB) ? 0 : 6;
}

TEST_F_TIMEOUT(managed, memory_cgroup, 120)
{
	struct cgroup group;
	struct member m = { &group, 12 * MIB, 0 };
	char limit[32];
	int ret = cgroup_make(&group, "gpumem-managed");

	if (ret)
		SKIP(return, "no memory cgroups: %d", ret);
	snprintf(limit, sizeof(limit), "%llu", (unsigned long long)GROUP);
	EXPECT_EQ(0, cgroup_write(&group, "memory.max", limit));
	cgroup_write(&group, "memory.swap.max", "0");
	EXPECT_EQ(0, run_child(engine_touches, &m));
	/* More than the group has room for: the entry fails, and no process is killed. */
	m.bytes = 2 * GROUP;
	m.error = ENOMEM;
	EXPECT_EQ(0, run_child(engine_touches, &m));
	EXPECT_EQ(0, cgroup_read_key(&group, "memory.events", "oom_kill"));
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 10));
	EXPECT_TRUE(managed_used_becomes(0));
	EXPECT_EQ(0, cgroup_remove(&group));
}

/* --- a model */

#define OBJECTS	6

struct model {
	__u32 id[OBJECTS];
	__u64 length[OBJECTS];
	__u64 addr[OBJECTS];
	unsigned char *p[OBJECTS], *want[OBJECTS];
};

static void say(void *arg, const char *line)
{
	(void)arg;
	printf("# audit: %s\n", line);
}

/* Netlink, sysfs and the counters agree on where the memory is. */
static int audit(void)
{
	struct gnl nl;
	int ret = gnl_open(&nl);

	if (ret)
		return ret;
	ret = gnl_audit(&nl, false, say, NULL);
	gnl_close(&nl);
	return ret;
}

/* A range of an object: its offset; at most @most bytes. */
static __u64 some_range(struct rng *r, __u64 length, __u64 most, __u64 *bytes)
{
	*bytes = 1 + rng_below(r, rng_below(r, 4) ? 3 * page_size : most);
	if (*bytes > length)
		*bytes = length;
	return rng_below(r, length - *bytes + 1);
}

/* Three times the device's memory; engine and processor touch it at random. */
TEST_F_TIMEOUT(managed, model, 600)
{
	__u64 steps = env_number("GPUMEM_STEPS", 1800) / 3;
	struct gpumem_info info;
	struct model m = {};
	struct rng r;

	rng_start(&r, "model");
	for (unsigned int i = 0; i < OBJECTS; i++) {
		m.length[i] = (3 * BLOCKS * BLOCK / OBJECTS) + i * page_size * 5;
		m.addr[i] = ADDR + i * (1ULL << 32) + rng_below(&r, 64) * page_size;
		m.id[i] = MAKE(m.length[i], m.addr[i]);
		ASSERT_NE(0, m.id[i]);
		m.p[i] = gp_map(self->fd, m.id[i], 0, m.length[i], RW);
		m.want[i] = calloc(1, m.length[i]);
		ASSERT_TRUE(m.p[i] && m.want[i]);
	}
	for (__u64 step = 0; step < steps; step++) {
		unsigned int i = rng_below(&r, OBJECTS), j = rng_below(&r, OBJECTS);
		__u64 bytes, bytes2, from, at = some_range(&r, m.length[i], 3 * BLOCK, &bytes);
		unsigned int value = rng_below(&r, 256);

		switch (rng_below(&r, 8)) {
		case 0:
		case 1:
			PUSH(&self->s, sqe_fill(m.addr[i] + at, 1, value, bytes));
			memset(m.want[i] + at, value, bytes);
			break;
		case 2:
		case 3:
			if (i == j)
				break;
			from = some_range(&r, m.length[j], 3 * BLOCK, &bytes2);
			if (bytes > bytes2)
				bytes = bytes2;
			PUSH(&self->s, sqe_copy(m.addr[i] + at, m.addr[j] + from, bytes));
			memcpy(m.want[i] + at, m.want[j] + from, bytes);
			break;
		case 4:
			ASSERT_EQ(0, stream_sync(&self->s));
			memset(m.p[i] + at, value, bytes);
			memset(m.want[i] + at, value, bytes);
			break;
		case 5:
			ASSERT_EQ(0, stream_sync(&self->s));
			ASSERT_EQ(0, memcmp(m.p[i] + at, m.want[i] + at, bytes));
			break;
		case 6:
			PUSH(&self->s, sqe_prefetch(m.addr[i] + at, bytes, rng_below(&r, 2)));
			break;
		default:
			/* The kernel moves pages, or MADV_PAGEOUT, or MADV_COLLAPSE. */
			if (!rng_below(&r, 4))
				write_file("/proc/sys/vm/compact_memory", "1");
			else
				madvise(m.p[i], m.length[i], rng_below(&r, 2) ? 21 : 25);
		}
		if (step % 50)
			continue;
		ASSERT_EQ(0, stream_sync(&self->s));
		ASSERT_EQ(0, gp_info(self->fd, 0, &info));
		ASSERT_GE(info.total, info.used);
		ASSERT_EQ((long long)stats_of(self->fd).managed_resident, dev_attr(0, "managed"));
		ASSERT_EQ(0, audit());
	}
	ASSERT_EQ(0, stream_sync(&self->s));
	for (unsigned int i = 0; i < OBJECTS; i++) {
		EXPECT_EQ(0, memcmp(m.p[i], m.want[i], m.length[i]));
		free(m.want[i]);
	}
	EXPECT_LT(0, stats_of(self->fd).managed_evictions);
}

TEST_HARNESS_MAIN
