// SPDX-License-Identifier: GPL-2.0
/*
 * Two tasks make calls at the same time, in both orders: one task stops at a delay point of the
 * module, and meanwhile the other makes its call.
 */
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "common/client_fixture.h"
#include "common/limits_util.h"
#include "common/pool_util.h"
#include "common/race_util.h"
#include "share_util.h"

#define ADDR	0x400000000ULL
#define BYTES	(2 * MIB)
#define RW	(PROT_READ | PROT_WRITE)
#define NEEDS	"the module has no delay points"
#define MANAGED	(ADDR + 64 * MIB)
#define PIECE	(64 * KIB)

FIXTURE(race)
{
	struct leak_state leak;
	bool ready;
	int fd, other;
	__u32 bo, vm;
	unsigned char *p;
	struct stream s;
};

FIXTURE_SETUP(race)
{
	if (!delay_there())
		SKIP(return, NEEDS);
	ASSERT_EQ(0, delay_command("reset", ""));
	ASSERT_TRUE(dev_quiet(10));
	leak_begin(&self->leak);
	self->ready = true;
	self->fd = gp_open(0);
	self->other = gp_open(0);
	ASSERT_LE(0, self->fd);
	ASSERT_LE(0, self->other);
	self->p = gp_alloc_map(self->fd, BYTES, &self->bo);
	ASSERT_NE(NULL, self->p);
	memset(self->p, 1, BYTES);
	ASSERT_EQ(0, gp_vm_create(self->fd, &self->vm));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo, 0, ADDR, BYTES, 1, 1));
	ASSERT_EQ(0, stream_open(&self->s, self->fd, self->vm, 0, 16));
}

FIXTURE_TEARDOWN(race)
{
	if (!self->ready)
		return;
	EXPECT_EQ(0, delay_command("reset", ""));
	close(self->other);
	client_end(_metadata, &self->leak, self->fd, 10);
}

static __u32 live(int fd, __u32 bo, __u32 flags)
{
	__u32 n;

	return gp_bo_retire(fd, bo, 0, BYTES, flags, &n) ? ~0U : n;
}

/* A descriptor's last reference is dropped when its task returns to user mode. */
static bool live_becomes(int fd, __u32 bo, __u32 want)
{
	for (int i = 0; i < 200 && live(fd, bo, GPUMEM_BO_RETIRE_QUERY) != want; i++)
		nap_ms(10);
	return live(fd, bo, GPUMEM_BO_RETIRE_QUERY) == want;
}

/* --- the points themselves */

TEST_F(race, points)
{
	struct gpumem_token_open o = { .size = sizeof(o) };
	unsigned int stops, before;
	char state[16];
	__u32 token;
	__u64 since;

	EXPECT_EQ(-ENOENT, delay_command("nowhere", "wait"));
	EXPECT_EQ(-EINVAL, delay_command("token_open_view", "10001"));
	EXPECT_EQ(-EINVAL, delay_command("token_open_view", "sometime"));
	EXPECT_EQ(-EINVAL, delay_command("token_open_view", ""));
	EXPECT_EQ(-ESRCH, delay_command("token_open_view", "go"));
	ARM("token_open_view");
	EXPECT_EQ(-EBUSY, delay_command("token_open_view", "wait"));
	GO("token_open_view");
	/* A sleep ends by itself, and the next task does not stop. */
	ASSERT_TRUE(delay_state("token_open_view", state, &before));
	ASSERT_EQ(0, delay_command("token_open_view", "100"));
	ASSERT_EQ(0, gp_token_create(self->fd, self->bo, 0, BYTES, 0, &token, o.token));
	since = mono_ns();
	EXPECT_EQ(0, gp_ioctl(self->other, GPUMEM_TOKEN_OPEN, &o));
	/* The sleep is in jiffies, which a busy virtual machine counts late and then all at once. */
	EXPECT_LE(NSEC / 20, mono_ns() - since);
	EXPECT_EQ(0, gp_ioctl(self->other, GPUMEM_TOKEN_OPEN, &o));
	ASSERT_TRUE(delay_state("token_open_view", state, &stops));
	EXPECT_STREQ("idle", state);
	EXPECT_EQ(before + 1, stops);
}

/* A task that is killed leaves the point. */
static int killed_child(void *arg)
{
	const __u8 *token = arg;
	struct gpumem_token_open o;
	int fd = gp_open(0);

	return fd < 0 || gp_token_open(fd, token, &o);
}

TEST_F(race, killed)
{
	__u8 name[GPUMEM_TOKEN_SIZE];
	__u64 since;
	__u32 token;
	pid_t pid;

	ASSERT_EQ(0, gp_token_create(self->fd, self->bo, 0, BYTES, 0, &token, name));
	ARM("token_open_check");
	pid = start_child(killed_child, name);
	ASSERT_LT(0, pid);
	STOPPED("token_open_check");
	EXPECT_EQ(1, live(self->fd, self->bo, GPUMEM_BO_RETIRE_QUERY));
	since = mono_ns();
	EXPECT_EQ(-SIGKILL, kill_child(pid));
	EXPECT_GT(6 * NSEC, mono_ns() - since);
	EXPECT_TRUE(live_becomes(self->fd, self->bo, 0));
}

/* --- GPUMEM_TOKEN_OPEN and revoking: an open that succeeds was counted */

/* Another client opens a new token of the buffer object, and stops at a point. */
static void open_stops(struct __test_metadata *_metadata, const FIXTURE_DATA(race) *self, struct call *open,
		       struct gpumem_token_open *o, const char *point)
{
	__u32 token;

	ASSERT_EQ(0, gp_token_create(self->fd, self->bo, 0, BYTES, 0, &token, o->token));
	ARM(point);
	ASSERT_TRUE(call_start(open, self->other, GPUMEM_TOKEN_OPEN, o));
	STOPPED(point);
}

/* Revoked before the open has a view: the owner counts none, and the open fails. */
TEST_F(race, open_revoke_before_the_view)
{
	struct gpumem_token_open o = { .size = sizeof(o) };
	struct gpumem_stats stats;
	struct call open;

	open_stops(_metadata, self, &open, &o, "token_open_view");
	EXPECT_EQ(0, live(self->fd, self->bo, 0));
	GO("token_open_view");
	EXPECT_EQ(-ENOENT, call_end(&open));
	EXPECT_TRUE(live_becomes(self->fd, self->bo, 0));
	ASSERT_EQ(0, gp_stats(self->other, &stats));
	EXPECT_EQ(0, stats.objects);
	EXPECT_EQ(0, stats.views);
}

/* Revoked when the open has a view: the owner counts it, and the open fails nevertheless.  */
TEST_F(race, open_revoke_before_the_look)
{
	struct gpumem_token_open o = { .size = sizeof(o) };
	struct call open;

	open_stops(_metadata, self, &open, &o, "token_open_check");
	EXPECT_EQ(1, live(self->fd, self->bo, 0));
	GO("token_open_check");
	EXPECT_EQ(-ENOENT, call_end(&open));
	EXPECT_TRUE(live_becomes(self->fd, self->bo, 0));
}

/* Revoked when the open has seen the token alive: it succeeds, and was counted. */
TEST_F(race, open_before_revoke)
{
	struct gpumem_token_open o = { .size = sizeof(o) };
	struct call open;
	unsigned char *q;

	open_stops(_metadata, self, &open, &o, "token_open_done");
	EXPECT_EQ(1, live(self->fd, self->bo, 0));
	GO("token_open_done");
	ASSERT_EQ(0, call_end(&open));
	q = gp_map(self->other, o.id, 0, BYTES, RW);
	ASSERT_NE(NULL, q);
	EXPECT_EQ(1, q[BYTES - 1]);
	EXPECT_EQ(1, live(self->fd, self->bo, GPUMEM_BO_RETIRE_QUERY));
	ASSERT_EQ(0, munmap(q, BYTES));
	ASSERT_EQ(0, gp_destroy(self->other, o.id));
	EXPECT_TRUE(live_becomes(self->fd, self->bo, 0));
}

/* --- lookup and GPUMEM_DESTROY */

/*
 * The id is destroyed between its lookup and the publishing of a token: the create call makes no
 * token.
 */
TEST_F(race, destroy_before_token)
{
	struct gpumem_token_create c = {
		.size = sizeof(c), .bo = self->bo, .length = BYTES,
	};
	struct gpumem_stats stats;
	struct call create;

	ARM("token_create");
	ASSERT_TRUE(call_start(&create, self->fd, GPUMEM_TOKEN_CREATE, &c));
	STOPPED("token_create");
	EXPECT_EQ(0, gp_destroy(self->fd, self->bo));
	GO("token_create");
	EXPECT_EQ(-ENOENT, call_end(&create));
	ASSERT_EQ(0, gp_stats(self->fd, &stats));
	EXPECT_EQ(0, stats.tokens);
}

/* The id is destroyed after the publishing: the token is revoked, and the token's id exists.  */
TEST_F(race, token_before_destroy)
{
	struct gpumem_token_create c = {
		.size = sizeof(c), .bo = self->bo, .length = BYTES,
	};
	struct gpumem_token_open o;
	struct gpumem_stats stats;
	struct call create;

	ARM("token_created");
	ASSERT_TRUE(call_start(&create, self->fd, GPUMEM_TOKEN_CREATE, &c));
	STOPPED("token_created");
	EXPECT_EQ(0, gp_destroy(self->fd, self->bo));
	GO("token_created");
	EXPECT_EQ(0, call_end(&create));
	EXPECT_EQ(-ENOENT, gp_token_open(self->other, c.token, &o));
	ASSERT_EQ(0, gp_stats(self->fd, &stats));
	EXPECT_EQ(0, stats.tokens);
	EXPECT_EQ(0, gp_destroy(self->fd, c.id));
}

/*
 * A bo that a call has looked up stays when its id is destroyed: the mapping that the call makes
 * keeps it.
 */
TEST_F(race, destroy_after_lookup)
{
	struct gpumem_vm_map m = {
		.size = sizeof(m), .vm = self->vm, .addr = ADDR + BYTES, .length = BYTES,
		.readers = 1, .writers = 1,
	};
	struct gpumem_sqe fill = sqe_fill(ADDR + BYTES, 1, 9, BYTES);
	struct call map;
	__u32 bo;

	ASSERT_EQ(0, gp_bo_alloc(self->fd, BYTES, &bo));
	m.bo = bo;
	ARM("vm_map");
	ASSERT_TRUE(call_start(&map, self->fd, GPUMEM_VM_MAP, &m));
	STOPPED("vm_map");
	EXPECT_EQ(0, gp_destroy(self->fd, bo));
	EXPECT_EQ(-ENOENT, gp_vm_map(self->fd, self->vm, bo, 0, ADDR + 2 * BYTES, BYTES, 1, 1));
	GO("vm_map");
	EXPECT_EQ(0, call_end(&map));
	ASSERT_EQ(0, stream_push(&self->s, &fill));
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_TRUE(dev_attr_becomes(0, "used", 2 * BYTES, 5));
	EXPECT_EQ(0, gp_vm_unmap(self->fd, self->vm, ADDR + BYTES, BYTES, NULL));
	EXPECT_TRUE(dev_attr_becomes(0, "used", BYTES, 5));
}

/* A lookup does not find an id that is being destroyed, although the object still exists. */
TEST_F(race, lookup_after_destroy)
{
	struct gpumem_destroy d = { .size = sizeof(d), .id = self->bo };
	struct gpumem_token_open o;
	__u8 name[GPUMEM_TOKEN_SIZE];
	struct call destroy;
	__u32 token, id;

	ASSERT_EQ(0, gp_token_create(self->fd, self->bo, 0, BYTES, 0, &token, name));
	ARM("destroy");
	ASSERT_TRUE(call_start(&destroy, self->fd, GPUMEM_DESTROY, &d));
	STOPPED("destroy");
	EXPECT_EQ(-ENOENT, gp_vm_map(self->fd, self->vm, self->bo, 0, ADDR + BYTES, BYTES, 1, 1));
	EXPECT_EQ(-ENOENT, gp_token_create(self->fd, self->bo, 0, BYTES, 0, &id, name));
	EXPECT_EQ(-ENOENT, gp_destroy(self->fd, self->bo));
	GO("destroy");
	EXPECT_EQ(0, call_end(&destroy));
	EXPECT_EQ(-ENOENT, gp_token_open(self->other, name, &o));
	EXPECT_EQ(1, self->p[0]);
}

/*
 * Managed memory whose id is being destroyed is still shown in the residency words.  Nothing that is allocated
 * meanwhile gets the id.
 */
TEST_F(race, alloc_while_an_id_is_destroyed)
{
	const size_t length = (GPUMEM_RESIDENT_WORDS * sizeof(__u64) + page_size - 1) / page_size * page_size;
	struct gpumem_destroy d = { .size = sizeof(d) };
	struct gpumem_sqe fill = sqe_fill(MANAGED, 1, 9, PIECE);
	const volatile __u64 *words;
	struct call destroy;
	__u32 id, other;

	ASSERT_EQ(0, gp_managed_alloc(self->fd, GPUMEM_MANAGED_BLOCK, &d.id));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, d.id, 0, MANAGED, GPUMEM_MANAGED_BLOCK, 1, 1));
	words = mmap(NULL, length, PROT_READ, MAP_SHARED, self->fd, GPUMEM_MMAP_RESIDENT);
	ASSERT_NE(MAP_FAILED, words);
	ASSERT_EQ(0, stream_push(&self->s, &fill));
	ASSERT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(GPUMEM_RESIDENT_TAG(d.id, 0, 0), words[GPUMEM_RESIDENT_WORD(d.id, 0)]);
	ARM("destroy");
	ASSERT_TRUE(call_start(&destroy, self->fd, GPUMEM_DESTROY, &d));
	STOPPED("destroy");
	ASSERT_EQ(0, gp_managed_alloc(self->fd, GPUMEM_MANAGED_BLOCK, &id));
	EXPECT_NE(d.id, id);
	EXPECT_EQ(GPUMEM_RESIDENT_TAG(d.id, 0, 0), words[GPUMEM_RESIDENT_WORD(d.id, 0)]);
	GO("destroy");
	EXPECT_EQ(0, call_end(&destroy));
	EXPECT_EQ(0, words[GPUMEM_RESIDENT_WORD(d.id, 0)]);
	/* Now the id can be had again. */
	ASSERT_EQ(0, gp_managed_alloc(self->fd, GPUMEM_MANAGED_BLOCK, &other));
	EXPECT_EQ(d.id, other);
	munmap((void *)words, length);
	EXPECT_EQ(0, gp_vm_unmap(self->fd, self->vm, MANAGED, GPUMEM_MANAGED_BLOCK, NULL));
	EXPECT_EQ(0, gp_destroy(self->fd, id));
	EXPECT_EQ(0, gp_destroy(self->fd, other));
}

/* --- a block of managed memory that is populated */

static __u64 resident(int fd, __u32 id)
{
	struct gpumem_bo_info info;

	return gp_bo_info(fd, id, &info) ? ~0ULL : info.resident;
}

/* The worker keeps the buffer object; the next slice finds no mapping. */
TEST_F(race, unmap_of_populated_block)
{
	struct gpumem_sqe fill = sqe_fill(MANAGED, 1, 9, PIECE);
	__u32 id;

	ASSERT_EQ(0, gp_managed_alloc(self->fd, GPUMEM_MANAGED_BLOCK, &id));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, id, 0, MANAGED, GPUMEM_MANAGED_BLOCK, 1, 1));
	ARM("managed_populated");
	ASSERT_EQ(0, stream_push(&self->s, &fill));
	STOPPED("managed_populated");
	EXPECT_EQ(0, gp_vm_unmap(self->fd, self->vm, MANAGED, GPUMEM_MANAGED_BLOCK, NULL));
	EXPECT_EQ(0, gp_destroy(self->fd, id));
	GO("managed_populated");
	EXPECT_EQ(-EIO, stream_sync(&self->s));
	EXPECT_EQ(EFAULT, self->s.page->error);
	EXPECT_TRUE(dev_attr_becomes(0, "managed", 0, 10));
}

/*
 * One stream fetches a block at a time.  The block becomes resident once, and each folio keeps one reference, until
 * the eviction.
 */
TEST_F(race, block_populated_twice)
{
	struct gpumem_sqe fill = sqe_fill(MANAGED, 1, 9, PIECE), evict;
	struct stream other;
	unsigned char *p;
	__u32 id;

	ASSERT_EQ(0, gp_managed_alloc(self->fd, GPUMEM_MANAGED_BLOCK, &id));
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, id, 0, MANAGED, GPUMEM_MANAGED_BLOCK, 1, 1));
	p = gp_map(self->fd, id, 0, GPUMEM_MANAGED_BLOCK, RW);
	ASSERT_NE(NULL, p);
	ASSERT_EQ(0, stream_open(&other, self->fd, self->vm, 0, 16));
	ARM("managed_populated");
	ASSERT_EQ(0, stream_push(&self->s, &fill));
	STOPPED("managed_populated");
	fill = sqe_fill(MANAGED + PIECE, 1, 8, PIECE);
	ASSERT_EQ(0, stream_push(&other, &fill));
	EXPECT_NE(0, stream_wait(&other, other.tail, 0.2));
	EXPECT_EQ(0, resident(self->fd, id));
	GO("managed_populated");
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(0, stream_sync(&other));
	EXPECT_EQ(GPUMEM_MANAGED_BLOCK, resident(self->fd, id));
	evict = sqe_prefetch(MANAGED, 1, GPUMEM_PREFETCH_HOST);
	ASSERT_EQ(0, stream_push(&other, &evict));
	EXPECT_EQ(0, stream_sync(&other));
	EXPECT_EQ(0, resident(self->fd, id));
	ASSERT_EQ(0, stream_push(&other, &fill));
	EXPECT_EQ(0, stream_sync(&other));
	EXPECT_EQ(GPUMEM_MANAGED_BLOCK, resident(self->fd, id));
	EXPECT_TRUE(all_are(p, 9, PIECE));
	EXPECT_TRUE(all_are(p + PIECE, 8, PIECE));
	EXPECT_EQ(0, stream_close(&other));
	/* The teardown finds memory with references that nobody dropped. */
	EXPECT_EQ(0, gp_destroy(self->fd, id));
}

/* --- mapping, unmapping and the engine */

/*
 * An unmapping between two slices does not wait for the engine, and the engine's next slice finds
 * no mapping.
 */
TEST_F(race, unmap_before_slice)
{
	struct gpumem_sqe fill = sqe_fill(ADDR, 1, 9, BYTES);

	ARM("slice_begin");
	ASSERT_EQ(0, stream_push(&self->s, &fill));
	STOPPED("slice_begin");
	EXPECT_EQ(0, gp_vm_unmap(self->fd, self->vm, ADDR, BYTES, NULL));
	GO("slice_begin");
	EXPECT_EQ(-EIO, stream_sync(&self->s));
	EXPECT_EQ(EFAULT, self->s.page->error);
	EXPECT_TRUE(all_are(self->p, 1, BYTES));
}

/*
 * The unmapping waits for a slice under way.  A reader may be given a rwsem before a writer that
 * waits, so another slice may come first.  When the unmapping has ended, the engine does not write.
 */
TEST_F(race, unmap_in_slice)
{
	struct gpumem_vm_unmap u = {
		.size = sizeof(u), .vm = self->vm, .addr = ADDR, .length = BYTES,
	};
	struct gpumem_sqe fill = sqe_fill(ADDR, 1, 9, BYTES);
	unsigned char *copy = malloc(BYTES);
	struct call unmap;
	int ret;

	ASSERT_NE(NULL, copy);
	ARM("slice_locked");
	ASSERT_EQ(0, stream_push(&self->s, &fill));
	STOPPED("slice_locked");
	ASSERT_TRUE(call_start(&unmap, self->fd, GPUMEM_VM_UNMAP, &u));
	EXPECT_FALSE(call_ends_soon(&unmap));
	EXPECT_TRUE(all_are(self->p, 1, BYTES));
	GO("slice_locked");
	EXPECT_EQ(0, call_end(&unmap));
	memcpy(copy, self->p, BYTES);
	EXPECT_EQ(BYTES, u.unmapped);
	ret = stream_sync(&self->s);
	EXPECT_EQ(0, memcmp(copy, self->p, BYTES));
	EXPECT_TRUE(all_are(copy, 9, MIB));
	EXPECT_TRUE(all_are(copy + MIB, ret ? 1 : 9, BYTES - MIB));
	EXPECT_EQ(ret ? EFAULT : 0, self->s.page->error);
	free(copy);
}

/* A bind waits for a slice under way: the memory that it replaces may be freed when it has ended. */
TEST_F(race, bind_in_slice)
{
	enum { TILES = BYTES / GPUMEM_TILE_SIZE };
	struct gpumem_vm_bind b = {
		.size = sizeof(b), .vm = self->vm, .addr = ADDR + BYTES, .length = BYTES,
	};
	struct gpumem_sqe copy = sqe_copy(ADDR, ADDR + BYTES, BYTES);
	unsigned char *p;
	struct call bind;
	__u32 bo;

	p = gp_alloc_map(self->fd, BYTES, &bo);
	ASSERT_NE(NULL, p);
	memset(p, 9, BYTES);
	ASSERT_EQ(0, gp_vm_map_sparse(self->fd, self->vm, ADDR + BYTES, BYTES, 1, 1));
	ASSERT_EQ(0, gp_vm_bind(self->fd, self->vm, bo, 0, GPUMEM_TILE_SIZE, ADDR + BYTES, BYTES, 0));
	ARM("slice_locked");
	ASSERT_EQ(0, stream_push(&self->s, &copy));
	STOPPED("slice_locked");
	ASSERT_TRUE(call_start(&bind, self->fd, GPUMEM_VM_BIND, &b));
	EXPECT_FALSE(call_ends_soon(&bind));
	GO("slice_locked");
	EXPECT_EQ(0, call_end(&bind));
	EXPECT_EQ(0, stream_sync(&self->s));
	/* The slice copied from the bound tiles; later ones may find holes. */
	EXPECT_TRUE(all_are(self->p, 9, GPUMEM_TILE_SIZE));
	for (unsigned int i = 1; i < TILES; i++) {
		unsigned char *tile = self->p + i * GPUMEM_TILE_SIZE;

		EXPECT_TRUE((*tile == 9 || !*tile) && all_are(tile, *tile, GPUMEM_TILE_SIZE));
	}
	munmap(p, BYTES);
	EXPECT_EQ(0, gp_destroy(self->fd, bo));
}

/* A mapping that is made after the unmapping call began is unmapped and counted, too. */
TEST_F(race, map_before_unmap)
{
	struct gpumem_vm_unmap u = {
		.size = sizeof(u), .vm = self->vm, .addr = ADDR, .length = 2 * BYTES,
	};
	struct call unmap;
	__u64 bytes;

	ARM("vm_unmap");
	ASSERT_TRUE(call_start(&unmap, self->fd, GPUMEM_VM_UNMAP, &u));
	STOPPED("vm_unmap");
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo, 0, ADDR + BYTES, MIB, 1, 1));
	GO("vm_unmap");
	EXPECT_EQ(0, call_end(&unmap));
	EXPECT_EQ(BYTES + MIB, u.unmapped);
	EXPECT_EQ(0, gp_vm_unmap(self->fd, self->vm, ADDR, 2 * BYTES, &bytes));
	EXPECT_EQ(0, bytes);
}

TEST_F(race, unmap_before_map)
{
	struct gpumem_vm_map m = {
		.size = sizeof(m), .vm = self->vm, .bo = self->bo, .addr = ADDR + BYTES,
		.length = MIB, .readers = 1, .writers = 1,
	};
	struct call map;
	__u64 bytes;

	ARM("vm_map");
	ASSERT_TRUE(call_start(&map, self->fd, GPUMEM_VM_MAP, &m));
	STOPPED("vm_map");
	EXPECT_EQ(0, gp_vm_unmap(self->fd, self->vm, ADDR, 2 * BYTES, &bytes));
	EXPECT_EQ(BYTES, bytes);
	GO("vm_map");
	EXPECT_EQ(0, call_end(&map));
	EXPECT_EQ(0, gp_vm_unmap(self->fd, self->vm, ADDR, 2 * BYTES, &bytes));
	EXPECT_EQ(MIB, bytes);
}

/* --- waiting for a timeline and raising it */

/*
 * @point: where the waiter stops.  @lose: the timeline is destroyed instead of signalled.  If a
 * wake-up were lost, the stream would go on waiting.
 */
static void stream_waits(struct __test_metadata *_metadata, FIXTURE_DATA(race) *self,
			 const char *point, bool lose)
{
	struct gpumem_sqe wait;
	__u32 timeline;

	ASSERT_EQ(0, gp_timeline_create(self->fd, 0, &timeline));
	wait = sqe_wait(timeline, 1);
	ARM(point);
	ASSERT_EQ(0, stream_push(&self->s, &wait));
	STOPPED(point);
	EXPECT_EQ(0, lose ? gp_destroy(self->fd, timeline) :
			    gp_timeline_signal(self->fd, timeline, 1));
	GO(point);
	EXPECT_EQ(lose ? -EIO : 0, stream_wait(&self->s, self->s.tail, 10));
	EXPECT_EQ(lose ? ECANCELED : 0, self->s.page->error);
}

TEST_F(race, raise_before_stream_waits)
{
	stream_waits(_metadata, self, "waiter_add", false);
}

TEST_F(race, raise_when_stream_waits)
{
	stream_waits(_metadata, self, "waiter_added", false);
}

TEST_F(race, lose_before_stream_waits)
{
	stream_waits(_metadata, self, "waiter_add", true);
}

TEST_F(race, lose_when_stream_waits)
{
	stream_waits(_metadata, self, "waiter_added", true);
}

static void task_waits(struct __test_metadata *_metadata, FIXTURE_DATA(race) *self,
		       const char *point)
{
	struct gpumem_timeline_wait w = {
		.size = sizeof(w), .value = 1, .deadline = in_seconds(10),
	};
	struct call wait;

	ASSERT_EQ(0, gp_timeline_create(self->fd, 0, &w.id));
	ARM(point);
	ASSERT_TRUE(call_start(&wait, self->fd, GPUMEM_TIMELINE_WAIT, &w));
	STOPPED(point);
	EXPECT_EQ(0, gp_timeline_signal(self->fd, w.id, 1));
	GO(point);
	EXPECT_EQ(0, call_end(&wait));
	EXPECT_EQ(1, w.reached);
}

TEST_F(race, raise_before_task_waits)
{
	task_waits(_metadata, self, "waiter_add");
}

TEST_F(race, raise_when_task_waits)
{
	task_waits(_metadata, self, "waiter_added");
}

/* --- published fences and the end of the client */

/*
 * A client in a child process: exports memory, sends the DMA-buf, fills the memory on request, and
 * waits.
 */
static int filler(void *arg)
{
	int sock = *(int *)arg, fd = gp_open(0), dmabuf;
	struct gpumem_sqe fill = sqe_fill(ADDR, 1, 9, BYTES);
	struct stream s;
	__u32 bo, vm;

	if (fd < 0 || gp_bo_alloc(fd, BYTES, &bo) || gp_vm_create(fd, &vm) ||
	    gp_vm_map(fd, vm, bo, 0, ADDR, BYTES, 1, 1) || stream_open(&s, fd, vm, 0, 16))
		return 1;
	dmabuf = gp_bo_export(fd, bo, 0, BYTES, 0);
	if (dmabuf < 0 || send_fd(sock, dmabuf) || !hear(sock) || stream_push(&s, &fill))
		return 2;
	hear(sock);
	return 0;
}

/* Starts a filler, and waits until its fill stops at @point.  Returns the DMA-buf.  */
static int start_filler(const char *point, int *sock, pid_t *pid)
{
	int ends[2], dmabuf;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return -errno;
	*sock = ends[0];
	*pid = start_child(filler, &ends[1]);
	close(ends[1]);
	dmabuf = recv_fd(*sock);
	if (dmabuf >= 0 && (delay_command(point, "wait") || !tell(*sock) || !delay_stopped(point)))
		return -EIO;
	return dmabuf;
}

/* The client dies before its entry has a fence: other clients never have a fence to wait for. */
TEST_F(race, cancel_before_publish)
{
	unsigned char *q;
	int sock, dmabuf;
	pid_t pid;

	dmabuf = start_filler("share_publish", &sock, &pid);
	ASSERT_LE(0, dmabuf);
	q = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, dmabuf, 0);
	ASSERT_NE(MAP_FAILED, q);
	EXPECT_EQ(POLLIN | POLLOUT, ready(dmabuf));
	ASSERT_EQ(0, kill(pid, SIGKILL));
	nap_ms(200);
	EXPECT_EQ(POLLIN | POLLOUT, ready(dmabuf));
	GO("share_publish");
	EXPECT_EQ(-SIGKILL, end_child(pid));
	EXPECT_TRUE(settles(dmabuf));
	EXPECT_TRUE(all_are(q, 0, BYTES) || all_are(q, 9, BYTES));
	munmap(q, BYTES);
	close(dmabuf);
	close(sock);
}

/*
 * The client dies after its fence is published: the fence is signalled, and the engine writes
 * nothing afterwards.
 */
TEST_F(race, cancel_after_publish)
{
	unsigned char *q, *copy = malloc(BYTES);
	int sock, dmabuf;
	pid_t pid;

	ASSERT_NE(NULL, copy);
	dmabuf = start_filler("share_work", &sock, &pid);
	ASSERT_LE(0, dmabuf);
	q = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, dmabuf, 0);
	ASSERT_NE(MAP_FAILED, q);
	EXPECT_EQ(0, ready(dmabuf));
	ASSERT_EQ(0, kill(pid, SIGKILL));
	nap_ms(200);
	GO("share_work");
	EXPECT_TRUE(settles(dmabuf));
	memcpy(copy, q, BYTES);
	EXPECT_EQ(-SIGKILL, end_child(pid));
	nap_ms(50);
	EXPECT_EQ(0, memcmp(copy, q, BYTES));
	munmap(q, BYTES);
	close(dmabuf);
	close(sock);
	free(copy);
}

/* The client lives: the fence is signalled when everything is written.  */
TEST_F(race, publish_before_cancel)
{
	unsigned char *q;
	int sock, dmabuf;
	pid_t pid;

	dmabuf = start_filler("share_work", &sock, &pid);
	ASSERT_LE(0, dmabuf);
	q = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, dmabuf, 0);
	ASSERT_NE(MAP_FAILED, q);
	EXPECT_EQ(0, ready(dmabuf));
	EXPECT_TRUE(all_are(q, 0, BYTES));
	GO("share_work");
	EXPECT_TRUE(settles(dmabuf));
	EXPECT_TRUE(all_are(q, 9, BYTES));
	EXPECT_EQ(-SIGKILL, kill_child(pid));
	munmap(q, BYTES);
	close(dmabuf);
	close(sock);
}

/*
 * The destination of an entry is looked up once.  If it is unmapped afterwards, the entry fails,
 * and its fence is signalled.
 */
TEST_F(race, unmap_before_publish)
{
	struct gpumem_sqe fill = sqe_fill(ADDR, 1, 9, BYTES);
	int dmabuf = gp_bo_export(self->fd, self->bo, 0, BYTES, 0);

	ASSERT_LE(0, dmabuf);
	ARM("share_publish");
	ASSERT_EQ(0, stream_push(&self->s, &fill));
	STOPPED("share_publish");
	EXPECT_EQ(0, gp_vm_unmap(self->fd, self->vm, ADDR, BYTES, NULL));
	GO("share_publish");
	EXPECT_EQ(-EIO, stream_sync(&self->s));
	EXPECT_EQ(EFAULT, self->s.page->error);
	EXPECT_TRUE(settles(dmabuf));
	EXPECT_TRUE(all_are(self->p, 1, BYTES));
	close(dmabuf);
}

/* --- cached chunks: the side that takes a chunk first has it */

struct cached {
	__u32 pool, token;
	__u8 name[GPUMEM_TOKEN_SIZE];
	__u32 *words;
	struct gpumem_bo_alloc chunk, second;
	unsigned char *p;
	struct call alloc;
};

/* Makes and keeps a chunk that fills its pool; the next allocation in the pool stops at @point.  */
static bool cached_start(FIXTURE_DATA(race) *self, struct cached *c, const char *point)
{
	*c = (struct cached) { .chunk = { .size = sizeof(c->chunk), .length = BYTES } };
	c->words = mmap(NULL, page_size, RW, MAP_SHARED, self->fd, GPUMEM_MMAP_CACHE);
	if (c->words == MAP_FAILED || gp_pool_create(self->fd, 0, 0, BYTES, "race", &c->pool))
		return false;
	c->chunk.pool = c->pool;
	if (gp_ioctl(self->fd, GPUMEM_BO_ALLOC, &c->chunk) || !c->chunk.word ||
	    gp_token_create(self->fd, c->chunk.id, 0, BYTES, 0, &c->token, c->name))
		return false;
	c->p = gp_map(self->fd, c->chunk.id, 0, BYTES, RW);
	if (!c->p)
		return false;
	c->p[0] = 77;
	__atomic_store_n(&c->words[c->chunk.word], GPUMEM_CACHE_KEPT, __ATOMIC_RELEASE);
	c->second = (struct gpumem_bo_alloc) {
		.size = sizeof(c->second), .length = BYTES, .pool = c->pool,
	};
	return !delay_command(point, "wait") &&
	       call_start(&c->alloc, self->fd, GPUMEM_BO_ALLOC, &c->second) &&
	       delay_stopped(point);
}

static bool cached_regain(struct cached *c)
{
	__u32 kept = GPUMEM_CACHE_KEPT;

	return __atomic_compare_exchange_n(&c->words[c->chunk.word], &kept, GPUMEM_CACHE_USED,
					   false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

TEST_F(race, keep_before_take)
{
	struct cached c;

	ASSERT_TRUE(cached_start(self, &c, "cache_claim"));
	EXPECT_TRUE(cached_regain(&c));
	GO("cache_claim");
	EXPECT_EQ(-EDQUOT, call_end(&c.alloc));
	EXPECT_EQ(GPUMEM_CACHE_USED, c.words[c.chunk.word]);
	EXPECT_EQ(77, peek(c.p));
	munmap(c.words, page_size);
}

TEST_F(race, take_before_keep)
{
	struct cached c;

	ASSERT_TRUE(cached_start(self, &c, "cache_claimed"));
	EXPECT_FALSE(cached_regain(&c));
	GO("cache_claimed");
	EXPECT_EQ(0, call_end(&c.alloc));
	EXPECT_EQ(GPUMEM_CACHE_TAKEN, c.words[c.chunk.word]);
	EXPECT_EQ(-SIGBUS, peek(c.p));
	munmap(c.words, page_size);
}

/* A window that is made first keeps the chunk's memory, although its word is TAKEN.  */
TEST_F(race, window_before_discard)
{
	struct gpumem_token_open o;
	struct cached c;

	ASSERT_TRUE(cached_start(self, &c, "cache_claimed"));
	ASSERT_EQ(0, gp_token_open(self->other, c.name, &o));
	GO("cache_claimed");
	EXPECT_EQ(-EDQUOT, call_end(&c.alloc));
	EXPECT_EQ(GPUMEM_CACHE_TAKEN, c.words[c.chunk.word]);
	EXPECT_EQ(77, peek(c.p));
	munmap(c.words, page_size);
}

/* No window can be made of memory that is about to be discarded.  */
TEST_F(race, discard_before_window)
{
	struct gpumem_token_open o;
	struct cached c;

	ASSERT_TRUE(cached_start(self, &c, "bo_discard"));
	EXPECT_EQ(-ENOENT, gp_token_open(self->other, c.name, &o));
	EXPECT_EQ(-ENOENT, gp_bo_export(self->fd, c.chunk.id, 0, BYTES, 0));
	GO("bo_discard");
	EXPECT_EQ(0, call_end(&c.alloc));
	EXPECT_EQ(-SIGBUS, peek(c.p));
	munmap(c.words, page_size);
}

TEST_HARNESS_MAIN
