// SPDX-License-Identifier: GPL-2.0
/*
 * Tests that a client with very many tokens does not delay other clients.
 *
 * Two attackers, each another user, hold many tokens (240,000; 40,000 with GPUMEM_QUICK) of one
 * buffer object each.  A victim, a third client, makes and destroys buffer objects, tokens and
 * events.  For each of its calls the worst time counts.
 *
 * The test machine has two processors for three processes, so scheduling alone delays the victim.
 * Two things keep that out of the result.  The victim has real-time priority, so it waits at most
 * until the kernel reschedules.  And the reference ("quiet") is measured beside two processes that
 * make the same calls as the attackers and have one token each: only the number of tokens differs.
 *
 * A worst time includes interruptions of the machine by its host.  So the samples are taken in
 * groups, each group has its worst time, and the medians over the groups are compared.  A delay by
 * the attackers is in every group, an interruption of the machine is not.  The bound is a factor of
 * 4 between the two medians.
 *
 * While attackers end, nothing can be measured beside quiet clients.  The machine's load may differ
 * from the load during the quiet calls.  So each sample has two more calls, on a file in memory and
 * on an eventfd: gpumem has no part in them.  If these take longer than they did beside quiet clients,
 * the machine is slower, and the bound grows by as much, but at most by a factor of 4.
 *
 * Many tokens do not delay their owner's calls on ranges without tokens either: the attackers
 * retire such a range as often as the clients with one token, within a factor of 4.
 */
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "common/util.h"

#define PAIR	2
#define GROUP	20	/* samples */
#define GROUPS	1000	/* at most */
#define ROUNDS	31	/* groups of both kinds in turn */
#define RATIO	4
#define LOAD_MOST	4

/* The current order to a pair of processes. */
enum order {
	REST,
	RETIRE_NOTHING,		/* ask in a loop to retire a byte that no token names */
	RETIRE_ALL,		/* retire the range of all tokens once */
};

/* Shared by all processes. */
struct board {
	volatile int order[2];			/* enum order, of each pair */
	volatile unsigned long calls[2][PAIR];
	volatile bool retired;
};

enum { QUIET, LOUD };

struct fellow {
	struct board *board;
	int pair, number, ready;
	unsigned int tokens;
};

/* A client of a user of its own that holds tokens; ends by a signal. */
static int fellow_life(void *arg)
{
	const struct fellow *me = arg;
	struct board *board = me->board;
	uid_t uid = 2000 + PAIR * me->pair + me->number;
	__u8 name[GPUMEM_TOKEN_SIZE];
	__u32 bo, id, live;
	int fd;

	if (setresgid(uid, uid, uid) || setresuid(uid, uid, uid))
		return 1;
	fd = gp_open(0);
	if (fd < 0 || gp_bo_alloc(fd, page_size, &bo))
		return 2;
	for (unsigned int i = 0; i < me->tokens; i++)
		if (gp_token_create(fd, bo, 0, 1, 0, &id, name))
			return 3;
	if (!tell(me->ready))
		return 4;
	for (;;) {
		switch (board->order[me->pair]) {
		case RETIRE_NOTHING:
			if (gp_bo_retire(fd, bo, page_size - 1, 1, 0, &live))
				return 5;
			board->calls[me->pair][me->number]++;
			break;
		case RETIRE_ALL:
			if (me->number == 0 && !board->retired) {
				if (gp_bo_retire(fd, bo, 0, 1, 0, &live))
					return 6;
				board->retired = true;
			}
			/* fallthrough */
		default:
			nap_ms(1);
		}
	}
}

FIXTURE(tokens)
{
	mode_t mode;
	struct board *board;
	unsigned int many;
	pid_t pid[2][PAIR];
	int fd;
	__u32 bo;
};

FIXTURE_SETUP(tokens)
{
	int ready[2];

	ASSERT_TRUE(dev_quiet(10));
	ASSERT_TRUE(node_open_to_all(&self->mode));
	self->board = mmap(NULL, sizeof(*self->board), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, self->board);
	self->many = env_number("GPUMEM_TOKENS", getenv("GPUMEM_QUICK") ? 40000 : 240000);
	ASSERT_EQ(0, pipe(ready));
	for (int pair = QUIET; pair <= LOUD; pair++) {
		for (int i = 0; i < PAIR; i++) {
			struct fellow f = {
				.board = self->board, .pair = pair, .number = i, .ready = ready[1],
				.tokens = pair == LOUD ? self->many : 1,
			};

			self->pid[pair][i] = start_child(fellow_life, &f);
			ASSERT_LT(0, self->pid[pair][i]);
		}
	}
	close(ready[1]);
	for (int i = 0; i < 2 * PAIR; i++)
		ASSERT_TRUE(hear(ready[0]));
	close(ready[0]);
	self->fd = gp_open(0);
	ASSERT_LE(0, self->fd);
	ASSERT_EQ(0, gp_bo_alloc(self->fd, page_size, &self->bo));
}

FIXTURE_TEARDOWN(tokens)
{
	for (int pair = QUIET; pair <= LOUD; pair++) {
		for (int i = 0; i < PAIR; i++)
			if (self->pid[pair][i] > 0)
				kill_child(self->pid[pair][i]);
	}
	close(self->fd);
	EXPECT_EQ(0, chmod("/dev/gpumem0", self->mode));
	/* This waits for the end of two clients with all their ids.  */
	EXPECT_TRUE(dev_quiet(60));
}

/* --- the victim */

/* The last two are not gpumem's, and tell how fast the machine is. */
enum { DESTROY, TOKEN, EVENT, OURS, CLOSE_FILE = OURS, EVENTFD, CALLS };

static const char * const call_names[CALLS] = {
	"destroy a buffer object", "make and destroy a token", "make and destroy an event",
	"close a file in memory", "make and close an eventfd",
};

/* Worst times of each group of samples, in ns. */
struct figures {
	__u64 worst[CALLS][GROUPS];
	unsigned int groups;
};

/* One sample of each call; false if one fails. */
static bool sample(int fd, __u32 bo, __u64 *ns)
{
	__u8 name[GPUMEM_TOKEN_SIZE];
	__u32 id;
	__u64 t;

	if (gp_bo_alloc(fd, page_size, &id))
		return false;
	t = mono_ns();
	if (gp_destroy(fd, id))
		return false;
	ns[DESTROY] = mono_ns() - t;
	t = mono_ns();
	if (gp_token_create(fd, bo, 0, 1, 0, &id, name) || gp_destroy(fd, id))
		return false;
	ns[TOKEN] = mono_ns() - t;
	t = mono_ns();
	if (gp_event_create(fd, &id, name) || gp_destroy(fd, id))
		return false;
	ns[EVENT] = mono_ns() - t;
	fd = memfd_create("t_tokens", MFD_CLOEXEC);
	if (fd < 0 || write(fd, name, sizeof(name)) != sizeof(name))
		return false;
	t = mono_ns();
	if (close(fd))
		return false;
	ns[CLOSE_FILE] = mono_ns() - t;
	t = mono_ns();
	fd = eventfd(0, EFD_CLOEXEC);
	if (fd < 0 || close(fd))
		return false;
	ns[EVENTFD] = mono_ns() - t;
	return true;
}

static bool group(int fd, __u32 bo, struct figures *f)
{
	unsigned int n = f->groups;
	__u64 ns[CALLS];

	if (n == GROUPS)
		return true;
	for (int call = 0; call < CALLS; call++)
		f->worst[call][n] = 0;
	for (int i = 0; i < GROUP; i++) {
		if (!sample(fd, bo, ns))
			return false;
		for (int call = 0; call < CALLS; call++)
			if (ns[call] > f->worst[call][n])
				f->worst[call][n] = ns[call];
		/*
		 * Sleep, so that the other processes run and the kernel does not throttle the
		 * real-time task.
		 */
		usleep(500);
	}
	f->groups++;
	return true;
}

static int compare_u64(const void *a, const void *b)
{
	const __u64 *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static __u64 median(struct figures *f, int call)
{
	qsort(f->worst[call], f->groups, sizeof(__u64), compare_u64);
	return f->worst[call][f->groups / 2];
}

static void real_time(struct __test_metadata *_metadata, bool on)
{
	struct sched_param p = { .sched_priority = on ? 1 : 0 };

	ASSERT_EQ(0, sched_setscheduler(0, on ? SCHED_FIFO : SCHED_OTHER, &p));
}

/* How much slower than beside quiet clients the machine is; at least 1. */
static double slower(struct figures *quiet, struct figures *loud)
{
	double most = 1;

	for (int call = OURS; call < CALLS; call++) {
		double now = (double)median(loud, call) / median(quiet, call);

		most = now > most ? now : most;
	}
	return most;
}

/* @load: by how much the machine was slower for @loud; 1 if both were measured in turns. */
static void judge(struct __test_metadata *_metadata, const char *what, struct figures *quiet,
		  struct figures *loud, double load)
{
	for (int call = 0; call < CALLS; call++) {
		double q = median(quiet, call), l = median(loud, call);

		printf("# %s, %s: worst %.1f us beside one token, %.1f us beside many (%u groups)\n",
		       what, call_names[call], q / 1000, l / 1000, loud->groups);
		if (call < OURS)
			EXPECT_LE(l, RATIO * load * q);
	}
	printf("# the machine counts as %.2f times as slow\n", load);
	fflush(stdout);
}

/* Measures groups of both kinds by turns, so that the machine's load is the same for both.  */
static void both(struct __test_metadata *_metadata, FIXTURE_DATA(tokens) *self,
		 struct figures *f)
{
	struct board *board = self->board;
	double calls[2], ns[2] = { 0 };

	for (unsigned int round = 0; round < ROUNDS; round++) {
		for (int pair = QUIET; pair <= LOUD; pair++) {
			__u64 t = mono_ns();

			board->order[pair] = RETIRE_NOTHING;
			real_time(_metadata, true);
			ASSERT_TRUE(group(self->fd, self->bo, &f[pair]));
			real_time(_metadata, false);
			ns[pair] += mono_ns() - t;
			board->order[pair] = REST;
			nap_ms(10);
		}
	}
	for (int pair = QUIET; pair <= LOUD; pair++) {
		for (int i = 0; i < PAIR; i++)
			EXPECT_LT(ROUNDS, board->calls[pair][i]);
		calls[pair] = (board->calls[pair][0] + board->calls[pair][1]) / ns[pair] * NSEC;
	}
	printf("# ranges retired a second: %.0f by owners of one token, %.0f by owners of %u\n",
	       calls[QUIET], calls[LOUD], self->many);
	fflush(stdout);
	EXPECT_LE(calls[QUIET], RATIO * calls[LOUD]);
}

TEST_F_TIMEOUT(tokens, many, 600)
{
	static struct figures f[2], ends;
	struct board *board = self->board;
	__u64 late = in_seconds(300);
	struct gpumem_stats stats;
	double load;
	long long clients;

	both(_metadata, self, f);
	judge(_metadata, "attackers retire a range", &f[QUIET], &f[LOUD], 1);
	/*
	 * Now one attacker revokes all its tokens; then the other one is killed while it holds all
	 * of its tokens.
	 */
	clients = dev_attr(0, "clients");
	real_time(_metadata, true);
	board->order[LOUD] = RETIRE_ALL;
	while (!board->retired && mono_ns() < late)
		ASSERT_TRUE(group(self->fd, self->bo, &ends));
	EXPECT_TRUE(board->retired);
	EXPECT_LT(0, ends.groups);
	kill(self->pid[LOUD][1], SIGKILL);
	do {
		ASSERT_TRUE(group(self->fd, self->bo, &ends));
	} while (dev_attr(0, "clients") == clients && mono_ns() < late);
	real_time(_metadata, false);
	EXPECT_EQ(-SIGKILL, end_child(self->pid[LOUD][1]));
	self->pid[LOUD][1] = 0;
	EXPECT_EQ(clients - 1, dev_attr(0, "clients"));
	load = slower(&f[QUIET], &ends);
	judge(_metadata, "attackers end", &f[QUIET], &ends, load < LOAD_MOST ? load : LOAD_MOST);
	ASSERT_EQ(0, gp_stats(self->fd, &stats));
	EXPECT_EQ(0, stats.tokens);
}

TEST_HARNESS_MAIN
