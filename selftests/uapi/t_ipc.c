// SPDX-License-Identifier: GPL-2.0
/*
 * Tokens: names of memory for other processes; which processes may open them, which range they
 * reach, and when a token ends.
 */
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "kselftest_harness.h"
#include "common/client_fixture.h"
#include "common/util.h"
#include "open_race.h"

#define ADDR	0x400000000ULL
#define BYTES	(256 * KIB)
#define RW	(PROT_READ | PROT_WRITE)
#define NOBODY	65534

BO_FIXTURE(ipc, BYTES, 3)

static __u32 live(int fd, __u32 bo, __u64 offset, __u64 length)
{
	__u32 n;

	return gp_bo_retire(fd, bo, offset, length, GPUMEM_BO_RETIRE_QUERY, &n) ? ~0U : n;
}

TEST_F(ipc, create_errors)
{
	__u8 name[GPUMEM_TOKEN_SIZE];
	struct gpumem_stats stats;
	__u32 id, vm;

	EXPECT_EQ(-EINVAL, gp_token_create(self->fd, self->bo, 0, 0, 0, &id, name));
	EXPECT_EQ(-EOVERFLOW, gp_token_create(self->fd, self->bo, 0, BYTES + 1, 0, &id, name));
	EXPECT_EQ(-EOVERFLOW, gp_token_create(self->fd, self->bo, BYTES, 1, 0, &id, name));
	EXPECT_EQ(-EOVERFLOW, gp_token_create(self->fd, self->bo, -1, 2, 0, &id, name));
	EXPECT_EQ(-EOVERFLOW, gp_token_create(self->fd, self->bo, 1, -1, 0, &id, name));
	EXPECT_EQ(-EOVERFLOW, gp_token_create(self->fd, self->bo, 1, BYTES, 0, &id, name));
	ASSERT_EQ(0, gp_vm_create(self->fd, &vm));
	EXPECT_EQ(-ENOENT, gp_token_create(self->fd, vm, 0, 1, 0, &id, name));
	ASSERT_EQ(0, gp_stats(self->fd, &stats));
	EXPECT_EQ(0, stats.tokens);
	EXPECT_EQ(1 + 1, stats.objects);
}

TEST_F(ipc, names_are_random)
{
	enum { N = 256 };
	static __u8 names[N][GPUMEM_TOKEN_SIZE];
	unsigned int ones[128] = { 0 };
	struct gpumem_stats stats;
	__u32 id;

	for (int i = 0; i < N; i++) {
		ASSERT_EQ(0, gp_token_create(self->fd, self->bo, 0, 100, 0, &id, names[i]));
		for (int j = 0; j < i; j++) {
			ASSERT_NE(0, memcmp(names[i], names[j], GPUMEM_TOKEN_SIZE));
		}
		for (int bit = 0; bit < 128; bit++)
			ones[bit] += names[i][bit / 8] >> (bit % 8) & 1;
	}
	/* Each bit is a coin: 256 throws stay within 8 standard deviations. */
	for (int bit = 0; bit < 128; bit++) {
		EXPECT_LT(128 - 64, ones[bit]);
		EXPECT_GT(128 + 64, ones[bit]);
	}
	ASSERT_EQ(0, gp_stats(self->fd, &stats));
	EXPECT_EQ(N, stats.tokens);
}

TEST_F(ipc, guessing)
{
	struct gpumem_token_open o;
	__u8 name[GPUMEM_TOKEN_SIZE], guess[GPUMEM_TOKEN_SIZE] = { 0 };
	struct rng r;
	__u32 id;

	rng_start(&r, "guess");
	ASSERT_EQ(0, gp_token_create(self->fd, self->bo, 0, 100, 0, &id, name));
	EXPECT_EQ(-ENOENT, gp_token_open(self->fd, guess, &o));
	memset(guess, 0xff, sizeof(guess));
	EXPECT_EQ(-ENOENT, gp_token_open(self->fd, guess, &o));
	for (int bit = 0; bit < 128; bit++) {
		memcpy(guess, name, sizeof(guess));
		guess[bit / 8] ^= 1 << (bit % 8);
		EXPECT_EQ(-ENOENT, gp_token_open(self->fd, guess, &o));
	}
	for (int i = 0; i < 1000; i++) {
		rng_fill(&r, guess, sizeof(guess));
		EXPECT_EQ(-ENOENT, gp_token_open(self->fd, guess, &o));
	}
	EXPECT_EQ(0, gp_token_open(self->fd, name, &o));
}

/* Ranges of any alignment: whole pages around them. */
TEST_F(ipc, ranges)
{
	const __u64 p = page_size;
	const struct {
		__u64 offset, bytes, base, length;
	} cases[] = {
		{ 0, BYTES, 0, BYTES }, { 0, 1, 0, p }, { p - 1, 1, 0, p },
		{ p, 1, p, p }, { p - 1, 2, 0, 2 * p }, { 100, p, 0, 2 * p },
		{ BYTES - 1, 1, BYTES - p, p }, { 3 * p + 7, 5 * p, 3 * p, 6 * p },
		{ 3 * p, 5 * p, 3 * p, 5 * p },
	};
	int other = gp_open(0);

	ASSERT_LE(0, other);
	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		__u8 name[GPUMEM_TOKEN_SIZE];
		struct gpumem_token_open o;
		struct gpumem_bo_info info;
		struct gpumem_stats stats;
		unsigned char *q;
		__u32 id;

		ASSERT_EQ(0, gp_token_create(self->fd, self->bo, cases[i].offset, cases[i].bytes, 0,
					     &id, name));
		ASSERT_EQ(0, gp_token_open(other, name, &o));
		EXPECT_EQ(cases[i].length, o.length);
		EXPECT_EQ(cases[i].offset - cases[i].base, o.delta);
		EXPECT_EQ(cases[i].bytes, o.bytes);
		EXPECT_EQ(0, o.device);
		EXPECT_EQ(0, o.result);
		ASSERT_EQ(0, gp_bo_info(other, o.id, &info));
		EXPECT_EQ(GPUMEM_BO_VIEW, info.kind);
		EXPECT_EQ(cases[i].length, info.length);
		ASSERT_EQ(0, gp_stats(other, &stats));
		EXPECT_EQ(1, stats.views);
		EXPECT_EQ(cases[i].length, stats.view_bytes);
		q = gp_map(other, o.id, 0, o.length, RW);
		ASSERT_NE(NULL, q);
		EXPECT_EQ(0, memcmp(q, self->p + cases[i].base, o.length));
		EXPECT_EQ(0, memcmp(q + o.delta, self->p + cases[i].offset, o.bytes));
		munmap(q, o.length);
		/* The view cannot reach the rest of the object.  */
		EXPECT_EQ(-EINVAL, gp_map_errno(other, o.id, o.length, p, PROT_READ, MAP_SHARED));
		EXPECT_EQ(-EINVAL, gp_map_errno(other, o.id, 0, o.length + p, PROT_READ,
						MAP_SHARED));
		EXPECT_EQ(0, gp_destroy(other, o.id));
		EXPECT_EQ(0, gp_destroy(self->fd, id));
		EXPECT_EQ(-ENOENT, gp_token_open(other, name, &o));
	}
	close(other);
}

TEST_F(ipc, window)
{
	int other = gp_open(0);
	__u8 name[GPUMEM_TOKEN_SIZE];
	struct gpumem_token_open o;
	unsigned char *q;
	__u32 id, vm;
	size_t n;

	ASSERT_EQ(0, gp_token_create(self->fd, self->bo, 4 * page_size, 4 * page_size, 0, &id,
				     name));
	ASSERT_EQ(0, gp_token_open(other, name, &o));
	n = 4 * page_size;
	q = gp_map(other, o.id, 0, n, RW);
	ASSERT_NE(NULL, q);
	EXPECT_EQ(MAP_FAILED, mremap(q, n, 2 * n, MREMAP_MAYMOVE));
	EXPECT_EQ(MAP_FAILED, mremap(q, 0, 2 * n, MREMAP_MAYMOVE));
	EXPECT_EQ(MAP_FAILED, mremap(q + n - page_size, page_size, n, MREMAP_MAYMOVE));
	for (int page = 0; page < 12; page++) {
		/*
		 * A refused call may leave a hole; the mapping never shows bytes outside the
		 * window.
		 */
		syscall(SYS_remap_file_pages, q, page_size, 0, page, 0);
		EXPECT_TRUE(peek(q + 100) < 0 || peek(q + 100) == self->p[n + 100]);
	}
	EXPECT_GT(0, gp_map_errno(other, o.id, -page_size, page_size, PROT_READ, MAP_SHARED));
	ASSERT_EQ(0, gp_vm_create(other, &vm));
	EXPECT_EQ(-EOVERFLOW, gp_vm_map(other, vm, o.id, 0, ADDR, n + page_size, 1, 1));
	EXPECT_EQ(-EOVERFLOW, gp_vm_map(other, vm, o.id, n, ADDR, page_size, 1, 1));
	EXPECT_EQ(-EOVERFLOW, gp_vm_map(other, vm, o.id, -page_size, ADDR, page_size, 1, 1));
	EXPECT_EQ(0, gp_vm_map(other, vm, o.id, 0, ADDR, n, 1, 1));
	munmap(q, n);
	close(other);
}

TEST_F(ipc, own)
{
	__u8 name[GPUMEM_TOKEN_SIZE];
	struct gpumem_token_open o, again;
	unsigned char *q;
	__u32 id;

	ASSERT_EQ(0, gp_token_create(self->fd, self->bo, 5000, 6000, 0, &id, name));
	ASSERT_EQ(0, gp_token_open(self->fd, name, &o));
	EXPECT_EQ(GPUMEM_TOKEN_OPEN_OWN, o.result);
	ASSERT_EQ(0, gp_token_open(self->fd, name, &again));
	EXPECT_NE(o.id, again.id);
	EXPECT_EQ(2, live(self->fd, self->bo, 0, BYTES));
	q = gp_map(self->fd, o.id, 0, o.length, RW);
	ASSERT_NE(NULL, q);
	q[o.delta] = 0x99;
	EXPECT_EQ(0x99, self->p[5000]);
	munmap(q, o.length);
	EXPECT_EQ(0, gp_destroy(self->fd, o.id));
	EXPECT_EQ(0, gp_destroy(self->fd, again.id));
	EXPECT_EQ(0, live(self->fd, self->bo, 0, BYTES));
}

TEST_F(ipc, device_not_attached)
{
	__u8 name[GPUMEM_TOKEN_SIZE];
	struct gpumem_token_open o;
	int one = gp_open(1);
	__u32 id, device;

	if (one == -ENOENT)
		SKIP(return, "one device");
	ASSERT_EQ(0, gp_token_create(self->fd, self->bo, 0, 100, 0, &id, name));
	EXPECT_EQ(-EACCES, gp_token_open(one, name, &o));
	ASSERT_EQ(0, gp_attach(one, self->fd, &device));
	EXPECT_EQ(0, gp_token_open(one, name, &o));
	EXPECT_EQ(1, o.device);
	EXPECT_EQ(1, dev_attr(0, "views"));
	EXPECT_EQ(0, dev_attr(1, "views"));
	close(one);
}

/* --- the end of tokens */

TEST_F(ipc, revoked)
{
	__u8 a[GPUMEM_TOKEN_SIZE], b[GPUMEM_TOKEN_SIZE], c[GPUMEM_TOKEN_SIZE];
	struct gpumem_token_open o, held;
	int other = gp_open(0);
	struct gpumem_stats stats;
	unsigned char *q;
	__u32 id[3], n;

	ASSERT_EQ(0, gp_token_create(self->fd, self->bo, 0, 1000, 0, &id[0], a));
	ASSERT_EQ(0, gp_token_create(self->fd, self->bo, 1000, 1000, 0, &id[1], b));
	ASSERT_EQ(0, gp_token_create(self->fd, self->bo, 2 * page_size, 1000, 0, &id[2], c));
	ASSERT_EQ(0, gp_token_open(other, b, &held));
	/*
	 * A query revokes nothing; retiring revokes the tokens that overlap the range in any byte.
	 */
	EXPECT_EQ(1, live(self->fd, self->bo, 999, 1));
	EXPECT_EQ(0, gp_bo_retire(self->fd, self->bo, 1999, 1, 0, &n));
	EXPECT_EQ(1, n);
	EXPECT_EQ(-ENOENT, gp_token_open(other, b, &o));
	EXPECT_EQ(0, gp_token_open(other, a, &o));
	EXPECT_EQ(0, gp_destroy(other, o.id));
	ASSERT_EQ(0, gp_stats(self->fd, &stats));
	EXPECT_EQ(2, stats.tokens);
	/* A client that opened it before still reaches the memory, and its view is counted. */
	q = gp_map(other, held.id, 0, held.length, RW);
	ASSERT_NE(NULL, q);
	EXPECT_EQ(0, memcmp(q + held.delta, self->p + 1000, 1000));
	munmap(q, held.length);
	EXPECT_EQ(0, gp_destroy(other, held.id));
	EXPECT_EQ(0, gp_bo_retire(self->fd, self->bo, 1000, 1000, 0, &n));
	EXPECT_EQ(0, n);
	/*
	 * Destroying a token's id revokes the token; the id of a revoked token can be destroyed,
	 * too.
	 */
	EXPECT_EQ(0, gp_destroy(self->fd, id[0]));
	EXPECT_EQ(-ENOENT, gp_token_open(other, a, &o));
	EXPECT_EQ(0, gp_destroy(self->fd, id[1]));
	EXPECT_EQ(-ENOENT, gp_destroy(self->fd, id[1]));
	/* Destroying the object's id revokes its tokens, although the memory lives on.  */
	EXPECT_EQ(0, gp_token_open(other, c, &o));
	EXPECT_EQ(0, gp_destroy(self->fd, self->bo));
	EXPECT_EQ(-ENOENT, gp_token_open(other, c, &held));
	ASSERT_EQ(0, gp_stats(self->fd, &stats));
	EXPECT_EQ(0, stats.tokens);
	EXPECT_EQ(BYTES, (__u64)dev_attr(0, "used"));
	close(other);
}

struct maker {
	int up[2], down[2];
	__u32 flags;
	__u8 name[GPUMEM_TOKEN_SIZE];
};

/* Exports a page range, sends its name, and exits on a message. */
static int maker_main(void *arg)
{
	struct maker *m = arg;
	__u8 name[GPUMEM_TOKEN_SIZE];
	int fd = gp_open(0);
	__u32 bo, id;
	char *p;

	if (fd < 0 || gp_bo_alloc(fd, BYTES, &bo) ||
	    gp_token_create(fd, bo, 12345, 100, m->flags, &id, name))
		return 1;
	p = gp_map(fd, bo, 0, BYTES, RW);
	if (!p)
		return 2;
	strcpy(p + 12345, "from the maker");
	if (write(m->up[1], name, sizeof(name)) != sizeof(name) || !hear(m->down[0]))
		return 3;
	return strcmp(p + 12345, "from the opener") ? 0 : 10;
}

static pid_t maker_start(struct maker *m, __u32 flags)
{
	pid_t pid;

	m->flags = flags;
	if (pipe(m->up) || pipe(m->down))
		return -1;
	pid = start_child(maker_main, m);
	close(m->up[1]);
	if (read(m->up[0], m->name, sizeof(m->name)) != sizeof(m->name))
		return -1;
	return pid;
}

TEST_F(ipc, exporter_exits)
{
	struct gpumem_token_open o, o2;
	struct maker m;
	char *q;
	pid_t pid;

	ASSERT_EQ(0, gp_destroy(self->fd, self->bo));
	munmap(self->p, BYTES);
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 5));
	pid = maker_start(&m, 0);
	ASSERT_LT(0, pid);
	ASSERT_EQ(0, gp_token_open(self->fd, m.name, &o));
	EXPECT_EQ(12345 % page_size, o.delta);
	EXPECT_EQ(0, o.result);
	q = gp_map(self->fd, o.id, 0, o.length, RW);
	ASSERT_NE(NULL, q);
	EXPECT_STREQ("from the maker", q + o.delta);
	strcpy(q + o.delta, "from the opener");
	EXPECT_TRUE(tell(m.down[1]));
	EXPECT_EQ(10, end_child(pid));
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 1, 10));
	/* The exporter's token has ended; its memory has not.  */
	EXPECT_EQ(-ENOENT, gp_token_open(self->fd, m.name, &o2));
	EXPECT_EQ(BYTES, (__u64)dev_attr(0, "used"));
	EXPECT_STREQ("from the opener", q + o.delta);
	munmap(q, o.length);
	EXPECT_EQ(BYTES, (__u64)dev_attr(0, "used"));
	EXPECT_EQ(0, gp_destroy(self->fd, o.id));
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 10));
	EXPECT_EQ(0, dev_attr(0, "bos"));
}

TEST_F(ipc, exporter_is_killed)
{
	struct gpumem_token_open o;
	struct maker m;
	pid_t pid = maker_start(&m, 0);

	ASSERT_LT(0, pid);
	EXPECT_EQ(-SIGKILL, kill_child(pid));
	EXPECT_TRUE(dev_attr_becomes(0, "clients", 1, 10));
	EXPECT_EQ(-ENOENT, gp_token_open(self->fd, m.name, &o));
}

/* --- the right to open: this program executes itself with another identity */

static char token_text[2 * GPUMEM_TOKEN_SIZE + 1];

/* t_ipc --open TOKEN: prints nothing; exits with the errno of TOKEN_OPEN. */
static int open_main(const char *text)
{
	__u8 name[GPUMEM_TOKEN_SIZE];
	struct gpumem_token_open o;
	int fd = gp_open(0), ret;
	char *p;

	if (fd < 0)
		return 200;
	for (int i = 0; i < GPUMEM_TOKEN_SIZE; i++) {
		unsigned int v;

		if (sscanf(text + 2 * i, "%2x", &v) != 1)
			return 201;
		name[i] = v;
	}
	ret = gp_token_open(fd, name, &o);
	if (ret)
		return -ret;
	p = gp_map(fd, o.id, 0, o.length, RW);
	if (!p)
		return 202;
	strcpy(p + o.delta, "opened");
	return 0;
}

struct identity {
	uid_t uid;
	int unshare;
};

static int exec_child(void *arg)
{
	struct identity *who = arg;

	if (who->unshare && unshare(who->unshare))
		return 210;
	if (who->uid && (setgroups(0, NULL) || setresgid(who->uid, who->uid, who->uid) ||
			 setresuid(who->uid, who->uid, who->uid)))
		return 211;
	execl("/proc/self/exe", "t_ipc", "--open", token_text, NULL);
	return 212;
}

FIXTURE(who)
{
	struct leak_state leak;
	int fd;
	mode_t mode;
	char *p;
};

FIXTURE_VARIANT(who)
{
	struct identity who;
	int want, want_any;
};

FIXTURE_VARIANT_ADD(who, same_user) { { 0, 0 }, 0, 0 };
FIXTURE_VARIANT_ADD(who, other_user) { { NOBODY, 0 }, EACCES, 0 };
FIXTURE_VARIANT_ADD(who, other_user_namespace) { { 0, CLONE_NEWUSER }, EACCES, 0 };
/* These differences break handles that are pids, paths or sockets, but not tokens. */
FIXTURE_VARIANT_ADD(who, containers) { { 0,
					CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC |
					 CLONE_NEWUTS }, 0, 0 };

FIXTURE_SETUP(who)
{
	ASSERT_TRUE(dev_quiet(10));
	leak_begin(&self->leak);
	if (geteuid())
		SKIP(return, "needs root");
	ASSERT_TRUE(node_open_to_all(&self->mode));
	self->fd = gp_open(0);
	ASSERT_LE(0, self->fd);
}

FIXTURE_TEARDOWN(who)
{
	close(self->fd);
	EXPECT_EQ(0, chmod("/dev/gpumem0", self->mode));
	EXPECT_TRUE(dev_quiet(10));
	EXPECT_TRUE(leak_end(&self->leak));
}

TEST_F(who, may_open)
{
	for (int any = 0; any < 2; any++) {
		struct identity who = variant->who;
		__u8 name[GPUMEM_TOKEN_SIZE];
		__u32 bo, id;
		int ret;
		char *p;

		p = gp_alloc_map(self->fd, BYTES, &bo);
		ASSERT_NE(NULL, p);
		ASSERT_EQ(0, gp_token_create(self->fd, bo, 54321, 100,
					     any ? GPUMEM_TOKEN_ANY_USER : 0, &id, name));
		for (int i = 0; i < GPUMEM_TOKEN_SIZE; i++)
			sprintf(token_text + 2 * i, "%02x", name[i]);
		ret = run_child(exec_child, &who);
		if (ret == 210) {
			munmap(p, BYTES);
			SKIP(return, "unshare() is not allowed");
		}
		EXPECT_EQ(any ? variant->want_any : variant->want, ret);
		EXPECT_STREQ(ret ? "" : "opened", p + 54321);
		/*
		 * The same identity as the maker can open the token, so a refusal was due to the
		 * identity.
		 */
		who = (struct identity) { 0 };
		EXPECT_EQ(0, run_child(exec_child, &who));
		EXPECT_STREQ("opened", p + 54321);
		munmap(p, BYTES);
		EXPECT_EQ(0, gp_destroy(self->fd, bo));
		EXPECT_EQ(0, gp_destroy(self->fd, id));
	}
}

/* The effective user at the time of each call counts.  */
static int changed_user(void *arg)
{
	__u8 name[GPUMEM_TOKEN_SIZE];
	struct gpumem_token_open o;
	int fd = gp_open(0);
	__u32 bo, id;

	(void)arg;
	if (fd < 0 || gp_bo_alloc(fd, BYTES, &bo) || gp_token_create(fd, bo, 0, 1, 0, &id, name))
		return 1;
	if (seteuid(NOBODY))
		return 2;
	if (gp_token_open(fd, name, &o) != -EACCES)
		return 3;
	if (seteuid(0) || gp_token_open(fd, name, &o))
		return 4;
	return 0;
}

TEST_F(ipc, changed_user)
{
	if (geteuid())
		SKIP(return, "needs root");
	EXPECT_EQ(0, run_child(changed_user, NULL));
}

/* --- quarantine */

/*
 * An allocator that hands out pieces of an object.  A piece that was freed while another client
 * reaches it is not handed out, so writes through the old mapping do not harm a new owner.
 */
TEST_F(ipc, quarantine)
{
	const __u64 piece = 64 * KIB;
	__u8 name[GPUMEM_TOKEN_SIZE];
	struct gpumem_token_open o;
	int other = gp_open(0), dmabuf;
	unsigned char *old;
	__u64 next = ~0ULL;
	__u32 id, n;

	/* Piece 0 is exported both ways, opened, then freed by its owner. */
	ASSERT_EQ(0, gp_token_create(self->fd, self->bo, 0, piece, 0, &id, name));
	dmabuf = gp_bo_export(self->fd, self->bo, 0, piece, 0);
	ASSERT_LE(0, dmabuf);
	ASSERT_EQ(0, gp_token_open(other, name, &o));
	old = gp_map(other, o.id, 0, piece, RW);
	ASSERT_NE(NULL, old);
	ASSERT_EQ(0, gp_bo_retire(self->fd, self->bo, 0, piece, 0, &n));
	EXPECT_EQ(2, n);
	EXPECT_EQ(-ENOENT, gp_token_open(other, name, &o));
	/* The next owner gets the first piece that no other client reaches. */
	for (__u64 at = 0; at < BYTES && next == ~0ULL; at += piece) {
		ASSERT_EQ(0, gp_bo_retire(self->fd, self->bo, at, piece, 0, &n));
		if (!n)
			next = at;
	}
	ASSERT_EQ(piece, next);
	memset(self->p + next, 0x11, piece);
	memset(old, 0x22, piece);
	for (__u64 i = 0; i < piece; i++) {
		ASSERT_EQ(0x11, self->p[next + i]);
	}
	/* The piece is free when both the DMA-buf and the view are gone.  */
	close(dmabuf);
	EXPECT_TRUE(dev_attr_becomes(0, "exports", 0, 5));
	EXPECT_EQ(1, live(self->fd, self->bo, 0, piece));
	munmap(old, piece);
	EXPECT_EQ(1, live(self->fd, self->bo, 0, piece));
	close(other);
	EXPECT_TRUE(dev_attr_becomes(0, "views", 0, 5));
	EXPECT_EQ(0, live(self->fd, self->bo, 0, piece));
	EXPECT_EQ(0, gp_destroy(self->fd, id));
}

/* --- threads that make and destroy under each other */

struct race {
	int fd;
	_Atomic __u32 bo;
	_Atomic int stop;
	__u8 names[64][GPUMEM_TOKEN_SIZE];
	_Atomic unsigned int made;
	struct open_race o;
};

static void *race_bos(void *arg)
{
	struct race *r = arg;

	while (!r->stop) {
		__u32 id, old;

		if (gp_bo_alloc(r->fd, page_size, &id))
			r->o.wrong++;
		old = atomic_exchange(&r->bo, id);
		if (old && gp_destroy(r->fd, old))
			r->o.wrong++;
	}
	return NULL;
}

static void *race_tokens(void *arg)
{
	struct race *r = arg;

	for (unsigned int i = 0; !r->stop; i++) {
		__u8 name[GPUMEM_TOKEN_SIZE];
		__u32 id;
		int ret = gp_token_create(r->fd, r->bo, 0, page_size, 0, &id, name);

		if (ret && ret != -ENOENT)
			r->o.wrong++;
		if (ret)
			continue;
		memcpy(r->names[i % 64], name, sizeof(name));
		r->made++;
		if (i % 3 == 0 && gp_destroy(r->fd, id))
			r->o.wrong++;
	}
	return NULL;
}

static void *race_opens(void *arg)
{
	struct race *r = arg;

	for (unsigned int i = 0; !r->stop; i++) {
		struct gpumem_token_open o;
		int ret = gp_token_open(r->o.other, r->names[i % 64], &o);

		race_opened(&r->o, ret, o.length, o.id);
	}
	return NULL;
}

TEST_F_TIMEOUT(ipc, race, 60)
{
	static struct race r;
	void *(*const mains[])(void *) = { race_bos, race_tokens, race_tokens, race_opens };
	pthread_t t[ARRAY_SIZE(mains)];

	r.fd = gp_open(0);
	r.o.other = gp_open(0);
	ASSERT_LE(0, r.o.other);
	for (unsigned int i = 0; i < ARRAY_SIZE(mains); i++) {
		ASSERT_EQ(0, pthread_create(&t[i], NULL, mains[i], &r));
	}
	nap_ms(3000);
	r.stop = 1;
	for (unsigned int i = 0; i < ARRAY_SIZE(mains); i++) {
		pthread_join(t[i], NULL);
	}
	printf("# %u tokens made, %u opened\n", atomic_load(&r.made), atomic_load(&r.o.opened));
	fflush(stdout);
	EXPECT_EQ(0, atomic_load(&r.o.wrong));
	EXPECT_LT(0, atomic_load(&r.made));
	/* Only the fixture's object and the last one of the loop are left.  */
	EXPECT_EQ(0, gp_destroy(r.fd, r.bo));
	EXPECT_TRUE(dev_attr_becomes(0, "bos", 1, 5));
	close(r.o.other);
	close(r.fd);
}

/* --- an open while the owner revokes and counts */

struct against {
	int other;
	__u8 name[GPUMEM_TOKEN_SIZE];
	struct gpumem_token_open open;
	int ret;
	atomic_uint asked, answered;	/* rounds */
	atomic_bool stop;
};

static void *against_main(void *arg)
{
	struct against *a = arg;
	unsigned int round = 0;

	while (!atomic_load(&a->stop)) {
		if (atomic_load(&a->asked) == round) {
			sched_yield();
			continue;
		}
		a->ret = gp_token_open(a->other, a->name, &a->open);
		atomic_store(&a->answered, ++round);
	}
	return NULL;
}

/*
 * The owner revokes a little later when the last open failed, and a little earlier when it
 * succeeded: so most rounds are near the moment where both are possible.
 */
TEST_F_TIMEOUT(ipc, open_against_retire, 60)
{
	struct against a = { .other = gp_open(0) };
	unsigned int wait = 0, opened = 0, failed = 0, wrong = 0;
	__u64 end = mono_ns() + 4 * NSEC;
	pthread_t thread;

	ASSERT_LE(0, a.other);
	ASSERT_EQ(0, pthread_create(&thread, NULL, against_main, &a));
	for (unsigned int round = 1; mono_ns() < end && !wrong; round++) {
		__u32 token, n = ~0U;

		ASSERT_EQ(0, gp_token_create(self->fd, self->bo, 0, BYTES, 0, &token, a.name));
		atomic_store(&a.asked, round);
		for (volatile unsigned int i = 0; i < wait; i++)
			;
		ASSERT_EQ(0, gp_bo_retire(self->fd, self->bo, 0, BYTES, 0, &n));
		while (atomic_load(&a.answered) != round)
			sched_yield();
		if (a.ret) {
			ASSERT_EQ(-ENOENT, a.ret);
			failed++;
			wait += 1 + wait / 16;
		} else {
			/* An open that succeeded was counted.  */
			wrong += !n;
			opened++;
			wait -= (wait + 15) / 16;
			ASSERT_EQ(0, gp_destroy(a.other, a.open.id));
		}
		ASSERT_EQ(0, gp_destroy(self->fd, token));
	}
	atomic_store(&a.stop, true);
	pthread_join(thread, NULL);
	printf("# %u opened, %u did not\n", opened, failed);
	fflush(stdout);
	EXPECT_EQ(0, wrong);
	EXPECT_LT(0, opened);
	EXPECT_LT(0, failed);
	close(a.other);
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--open"))
		return open_main(argv[2]);
	return test_harness_run(argc, argv);
}
