// SPDX-License-Identifier: GPL-2.0
/*
 * What bounds managed memory: blocks that engines use without a place on the device count as pinned
 * by the user, a client's waiting work keeps a bounded number of blocks, and resident blocks go if
 * memory is short and there is swap space.
 */
#include <signal.h>
#include <sys/wait.h>

#include "common/cgroup.h"
#include "common/swap.h"
#include "busy_util.h"
#include "managed_util.h"
#include "share_util.h"

#define STREAMS	12
#define KEEPERS	8		/* portions of a client that keep blocks in use */

/* --- a device without room */

/* A block that an engine uses without a place on the device counts as pinned. */
TEST_F(managed, user_pays_without_room)
{
	__u32 id = MAKE(BLOCKS * BLOCK, ADDR), bo;

	ASSERT_NE(0, id);
	ASSERT_EQ(0, gp_bo_alloc(self->fd, BLOCKS * BLOCK, &bo));
	ASSERT_EQ(0, FILL(ADDR, 1, 2 * BLOCK));
	EXPECT_EQ(0, RESIDENT(id));
	EXPECT_EQ(0, pinned());
	ASSERT_EQ(0, set_param("pin_limit", BLOCK));
	EXPECT_EQ(0, FILL(ADDR, 2, BLOCK));
	/* A copy between two blocks needs both. */
	EXPECT_EQ(EDQUOT, stream_error_of(self->fd, self->vm, sqe_copy(ADDR, ADDR + BLOCK, 8)));
	ASSERT_EQ(0, set_param("pin_limit", BLOCK - page_size));
	EXPECT_EQ(EDQUOT, stream_error_of(self->fd, self->vm, sqe_fill(ADDR, 1, 3, BLOCK)));
	/* A prefetch is a hint. */
	EXPECT_EQ(0, execute(&self->s, sqe_prefetch(ADDR, BLOCK, GPUMEM_PREFETCH_DEVICE)));
	EXPECT_EQ(0, pinned());
	EXPECT_EQ(0, stats_of(self->fd).managed_held);
	/* Rows in many blocks need one at a time. */
	ASSERT_EQ(0, set_param("pin_limit", 2 * BLOCK));
	EXPECT_EQ(0, execute(&self->s, sqe_fill2d(ADDR, BLOCK, 1, 3, 16, BLOCKS)));
	EXPECT_EQ(0, execute(&self->s, sqe_copy(ADDR + 64, ADDR + BLOCK, 16)));
	ASSERT_EQ(0, set_param("pin_limit", BLOCK));
	EXPECT_EQ(0, FILL(ADDR, 5, 4 * BLOCK));
	/* With room on the device nobody pays. */
	ASSERT_EQ(0, gp_destroy(self->fd, bo));
	EXPECT_EQ(0, FILL(ADDR, 4, 3 * BLOCK));
	EXPECT_EQ(3, RESIDENT(id));
	EXPECT_EQ(0, pinned());
}

/* Opens STREAMS streams, each of which copies the busy buffer to a block of its own. */
static int copies_wait(int fd, __u32 vm, struct stream *s)
{
	for (__u64 i = 0; i < STREAMS; i++) {
		struct gpumem_sqe copy = sqe_copy(ADDR + i * BLOCK, BUFFER, BLOCK);
		int ret = stream_open(&s[i], fd, vm, 0, 16) ?: stream_push(&s[i], &copy);

		if (ret)
			return ret;
	}
	return 0;
}

/* Waits until @blocks are resident or held, and sees that there are not more. */
static bool keeps(int fd, __u64 blocks)
{
	struct gpumem_stats stats = {};

	for (int i = 0; i < 500; i++) {
		stats = stats_of(fd);
		if (stats.managed_resident + stats.managed_held == blocks * BLOCK)
			break;
		nap_ms(10);
	}
	nap_ms(100);
	stats = stats_of(fd);
	return stats.managed_resident + stats.managed_held == blocks * BLOCK;
}

/* A client whose work others had to do waits before it publishes again: longer if the CPUs are busy. */
static bool streams_become(int fd, __u64 n)
{
	int i;

	for (i = 0; i < 5000 && stats_of(fd).streams != n; i++)
		nap_ms(10);
	if (i > 1000)
		printf("# the streams took %d ms\n", 10 * i);
	return stats_of(fd).streams == n;
}

/* Has the streams look again; whether those that wait for a place end. */
static bool go_on_without_fence(int fd, struct stream *s)
{
	unsigned int done = 0;

	for (int i = 0; i < STREAMS; i++) {
		struct gpumem_stream_doorbell bell = { .size = sizeof(bell), .id = s[i].id };

		if (gp_ioctl(fd, GPUMEM_STREAM_DOORBELL, &bell))
			return false;
	}
	for (int k = 0; k < 500 && done != STREAMS - KEEPERS; k++) {
		done = 0;
		for (int i = 0; i < STREAMS; i++)
			done += __atomic_load_n(&s[i].page->value, __ATOMIC_ACQUIRE) > 0;
		nap_ms(10);
	}
	return done == STREAMS - KEEPERS;
}

/*
 * The work of STREAMS streams waits for another driver.  Only some of them keep their blocks in use;
 * these are resident, or the user pays for them.
 */
TEST_F_TIMEOUT(managed, waiting_work_keeps_few_blocks, 300)
{
	struct stream s[STREAMS], old[STREAMS];
	__u32 id = MAKE(STREAMS * BLOCK, ADDR);
	unsigned char *p = gp_map(self->fd, id, 0, STREAMS * BLOCK, RW);
	struct busy b;
	int ret;

	for (int round = 0; round < 4; round++) {
		ret = busy_make(&b, self->fd, self->vm);
		if (ret == -ENODEV)
			SKIP(return, "no vgem");
		ASSERT_EQ(0, ret);
		ASSERT_NE(NULL, p);
		memset(p, 0, STREAMS * BLOCK);
		ASSERT_EQ(0, FILL(BUFFER, 0x31 + round, BLOCK));
		ASSERT_EQ(0, busy_begin(&b));
		ASSERT_EQ(0, copies_wait(self->fd, self->vm, s));
		/* No stream of another round has kept its place. */
		EXPECT_TRUE(keeps(self->fd, KEEPERS));
		EXPECT_EQ((BLOCKS - 1) * BLOCK, stats_of(self->fd).managed_resident);
		EXPECT_EQ((long long)BLOCK, pinned());
		/* In one round the streams that wait for others find that their entry needs no fence. */
		if (round == 1) {
			ASSERT_EQ(0, busy_end(&b));
			EXPECT_TRUE(go_on_without_fence(self->fd, s));
		}
		ASSERT_EQ(0, vgem_signal(b.card, b.fence));
		for (int i = 0; i < STREAMS; i++) {
			/* In one round streams are closed while they wait for others. */
			if (round != 3)
				EXPECT_EQ(0, stream_wait(&s[i], 1, 30));
			if (round == 1)
				old[i] = s[i];
			else
				EXPECT_EQ(0, stream_close(&s[i]));
		}
		EXPECT_TRUE(streams_become(self->fd, round == 1 || round == 2 ? 1 + STREAMS : 1));
		for (int i = 0; round == 2 && i < STREAMS; i++)
			EXPECT_EQ(0, stream_close(&old[i]));
		EXPECT_TRUE(all_are(p, 0x31 + round, STREAMS * BLOCK));
		EXPECT_EQ(0, pinned());
		EXPECT_EQ(0, stats_of(self->fd).managed_held);
		if (round != 1)
			EXPECT_EQ(0, busy_end(&b));
		ASSERT_EQ(0, gp_vm_unmap(self->fd, self->vm, BUFFER, BLOCK, NULL));
		ASSERT_EQ(0, gp_destroy(self->fd, b.bo));
		close(b.card);
	}
}

static int waits_for_a_place(void *arg)
{
	int fd = gp_open(0), to = *(int *)arg;
	struct stream s[STREAMS];
	struct busy b;
	__u32 vm;

	if (fd < 0 || gp_vm_create(fd, &vm) || !make(fd, vm, STREAMS * BLOCK, ADDR) ||
	    busy_make(&b, fd, vm) || busy_begin(&b) ||
	    copies_wait(fd, vm, s) || !keeps(fd, KEEPERS) || !tell(to))
		return 1;
	for (;;)
		pause();
}

/* A client that ends while its streams wait for each other leaves nothing. */
TEST_F_TIMEOUT(managed, killed_while_it_waits, 60)
{
	int card = vgem_open();

	if (card < 0)
		SKIP(return, "no vgem");
	close(card);
	for (int i = 0; i < 3; i++) {
		int to, pid = start_ready_child(waits_for_a_place, &to, &to);

		ASSERT_LT(0, pid);
		EXPECT_EQ(-SIGKILL, kill_child(pid));
		EXPECT_TRUE(dev_attr_becomes(0, "clients", 1, 20));
		EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 20));
		EXPECT_TRUE(managed_used_becomes(0));
		EXPECT_TRUE(number_becomes("/sys/class/gpumem/pinned", 0));
	}
}

/* --- a client with little processor time */

static int copies_rows(void *arg)
{
	const __u64 length = 4 * BLOCK, rows = env_number("GPUMEM_QUICK", 0) ? 10000 : 100000;
	int fd = gp_open(0), dmabuf;
	struct gpumem_sqe copy;
	struct stream s;
	__u32 vm, id, bo;

	if (cgroup_enter(arg) || fd < 0 || gp_vm_create(fd, &vm))
		return 1;
	id = make(fd, vm, length, ADDR);
	if (!id || gp_bo_alloc(fd, BLOCK, &bo) || gp_vm_map(fd, vm, bo, 0, BUFFER, BLOCK, 1, 1))
		return 2;
	dmabuf = gp_bo_export(fd, bo, 0, BLOCK, 0);
	if (dmabuf < 0 || stream_open(&s, fd, vm, 0, 16))
		return 3;
	if (execute(&s, sqe_fill(BUFFER, 1, 0x44, BLOCK)))
		return 4;
	copy = sqe_copy2d(ADDR, length / rows, BUFFER, 16, 7, rows);
	return stream_push(&s, &copy) || stream_wait(&s, 2, 240) ? 5 : 0;
}

/* The preparation of a portion of many rows ends, however often its worker has to leave. */
TEST_F_TIMEOUT(managed, many_rows_under_a_cpu_limit, 300)
{
	struct cgroup group;

	if (cgroup_make(&group, "gpumem-rows"))
		SKIP(return, "no memory cgroups");
	if (cgroup_write(&group, "cpu.max", "2000 20000")) {
		cgroup_remove(&group);
		SKIP(return, "no cpu controller");
	}
	EXPECT_EQ(0, run_child(copies_rows, &group));
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 10));
	EXPECT_EQ(0, cgroup_remove(&group));
}

/* --- short memory, with swap space */

#define GROUP	(32 * MIB)
#define ROOM	(64 * MIB)	/* on the device */

/* A client in a memory cgroup, with a stream; the device's descriptor, or -1. */
static int member_open(const struct cgroup *group, __u32 *vm, struct stream *s)
{
	int fd = cgroup_enter(group) ? -1 : gp_open(0);

	return fd < 0 || gp_vm_create(fd, vm) || stream_open(s, fd, *vm, 0, 64) ? -1 : fd;
}

static int fills_more_than_the_group(void *arg)
{
	const __u64 length = 3 * GROUP / 2;
	unsigned char *p;
	struct stream s;
	__u32 vm, id;
	int fd = member_open(arg, &vm, &s);

	if (fd < 0)
		return 2;
	id = make(fd, vm, length, ADDR);
	p = gp_map(fd, id, 0, length, RW);
	if (!p)
		return 3;
	for (__u64 at = 0; at < length; at += BLOCK)
		if (execute(&s, sqe_fill(ADDR + at, 1, at / BLOCK + 1, BLOCK)))
			return 4;
	if (!stats_of(fd).managed_evictions || resident(fd, id) > GROUP)
		return 5;
	for (__u64 at = 0; at < length; at += BLOCK)
		if (!all_are(p + at, at / BLOCK + 1, BLOCK))
			return 6;
	/* An allocation of device memory evicts, too. */
	if (execute(&s, sqe_fill(ADDR, 1, 1, GROUP / 2)) || gp_bo_alloc(fd, GROUP / 2, &id))
		return 7;
	return 0;
}

static int evicts_nothing(void *arg)
{
	struct stream s;
	__u32 vm, id;
	int fd = member_open(arg, &vm, &s);

	if (fd < 0)
		return 2;
	id = make(fd, vm, GROUP / 2, ADDR);
	if (!id || execute(&s, sqe_fill(ADDR, 1, 1, GROUP / 2)))
		return 3;
	if (gp_bo_alloc(fd, GROUP, &id) != -ENOMEM)
		return 4;
	return stats_of(fd).managed_evictions ? 5 : 0;
}

TEST_F_TIMEOUT(managed, full_group_swaps, 120)
{
	struct cgroup group;
	char text[32];
	int ret;

	if (cgroup_make(&group, "gpumem-swap"))
		SKIP(return, "no memory cgroups");
	ret = swap_begin(256);
	if (ret)
		cgroup_remove(&group);
	if (ret == -ENODEV)
		SKIP(return, "no zram");
	ASSERT_EQ(0, ret);
	snprintf(text, sizeof(text), "%llu", (unsigned long long)ROOM);
	EXPECT_EQ(0, write_dev_attr(0, "size", text));
	snprintf(text, sizeof(text), "%llu", (unsigned long long)GROUP);
	EXPECT_EQ(0, cgroup_write(&group, "memory.max", text));
	EXPECT_EQ(0, run_child(fills_more_than_the_group, &group));
	EXPECT_EQ(0, cgroup_read_key(&group, "memory.events", "oom_kill"));
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 10));
	EXPECT_TRUE(managed_used_becomes(0));
	/* Without swap space for the group nothing is evicted in vain. */
	EXPECT_EQ(0, cgroup_write(&group, "memory.swap.max", "0"));
	EXPECT_EQ(0, run_child(evicts_nothing, &group));
	EXPECT_EQ(0, swap_end());
	EXPECT_EQ(0, cgroup_remove(&group));
}

/* Have the kernel call all shrinkers. */
static void shrink(void)
{
	write_file("/proc/sys/vm/drop_caches", "2");
	nap_ms(50);
}

/* A shrinker evicts blocks that nobody uses, if the kernel can swap them out. */
TEST_F_TIMEOUT(managed, short_memory, 120)
{
	__u32 id = MAKE(BLOCKS * BLOCK, ADDR);
	unsigned char *p = gp_map(self->fd, id, 0, BLOCKS * BLOCK, RW);
	int ret;

	if (swap_is_used())
		SKIP(return, "swap space in use");
	ASSERT_NE(NULL, p);
	ASSERT_EQ(0, FILL(ADDR, 0x66, BLOCKS * BLOCK));
	for (int i = 0; i < 8; i++)
		shrink();
	EXPECT_EQ(BLOCKS, RESIDENT(id));
	ret = swap_begin(256);
	if (ret == -ENODEV)
		SKIP(return, "no zram");
	ASSERT_EQ(0, ret);
	for (int i = 0; i < 50 && RESIDENT(id); i++)
		shrink();
	EXPECT_EQ(0, RESIDENT(id));
	EXPECT_EQ(BLOCKS, stats_of(self->fd).managed_evictions);
	EXPECT_TRUE(all_are(p, 0x66, BLOCKS * BLOCK));
	ASSERT_EQ(0, FILL(ADDR, 0x67, BLOCK));
	EXPECT_EQ(1, RESIDENT(id));
}

TEST_HARNESS_MAIN
