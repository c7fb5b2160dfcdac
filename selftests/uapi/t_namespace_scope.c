// SPDX-License-Identifier: GPL-2.0
/*
 * Scopes of tokens: the pid namespace of the taker, in every relation to the maker's.
 *
 * The maker lives in a pid namespace of its own and makes a token of each kind (memory, event,
 * pool) with each scope (pidns, user, any).  A taker opens all of them from each place: the maker's
 * pid namespace, one below it, one beside it, the one above it; as the same and as another user; in
 * the same and in another user namespace; and with each value of the parameter ipc_scope.  The test
 * compares every result with rule_for().
 */
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "kselftest_harness.h"
#include "common/pool_util.h"

#define NOBODY		65534
#define PARAMETER	"/sys/module/gpumem/parameters/ipc_scope"

/* The narrowest first. */
enum scope { PID_NS, USER, ANY, SCOPES };
static const char * const scope_names[SCOPES] = { "pidns", "user", "any" };

enum kind { MEMORY, EVENT, POOL, KINDS };
static const char * const kind_names[KINDS] = { "memory", "event", "pool" };

enum place { SAME, BELOW, BESIDE, ABOVE, PLACES };
static const char * const place_names[PLACES] = { "same", "below", "beside", "above" };

static const __u32 token_flags[SCOPES] = {
	[PID_NS] = GPUMEM_TOKEN_PID_NS, [ANY] = GPUMEM_TOKEN_ANY_USER,
};
static const __u32 pool_flags[SCOPES] = {
	[PID_NS] = GPUMEM_POOL_EXPORT_PID_NS, [USER] = GPUMEM_POOL_EXPORT_SAME_USER,
};

static char channel_path[64];
static int channel = -1;

struct tokens {
	__u8 name[KINDS][SCOPES][GPUMEM_TOKEN_SIZE];
};

/* Makes one token; 0 or a negative errno. */
static int make(int fd, __u32 bo, enum kind kind, enum scope scope, __u8 *name)
{
	__u32 id;
	int ret;

	switch (kind) {
	case MEMORY:
		return gp_token_create(fd, bo, 0, 1, token_flags[scope], &id, name);
	case EVENT:
		return gp_event_create_for(fd, token_flags[scope], &id, name);
	default:
		ret = gp_pool_create(fd, 0, 0, 0, "", &id);
		return ret ? ret : gp_pool_export_fabric_for(fd, id, pool_flags[scope], name);
	}
}

static int take(int fd, enum kind kind, const __u8 *name)
{
	struct gpumem_pool_import in;
	struct gpumem_token_open o;
	__u32 id, result;
	int ret;

	switch (kind) {
	case MEMORY:
		ret = gp_token_open(fd, name, &o);
		return ret ? ret : gp_destroy(fd, o.id);
	case EVENT:
		ret = gp_event_open(fd, name, &id, &result);
		return ret ? ret : gp_destroy(fd, id);
	default:
		ret = gp_pool_import_fabric(fd, name, &in);
		return ret ? ret : gp_destroy(fd, in.id);
	}
}

/* --- the maker */

struct maker {
	int out, in;		/* the tokens go to @out; a byte from @in ends the maker */
};

static int maker_life(void *arg)
{
	const struct maker *m = arg;
	struct tokens t;
	int fd = gp_open(0);
	__u32 bo;

	if (fd < 0 || gp_bo_alloc(fd, page_size, &bo) || gp_channel_attach(fd, channel, NULL))
		return 1;
	for (int kind = 0; kind < KINDS; kind++)
		for (int scope = 0; scope < SCOPES; scope++)
			if (make(fd, bo, kind, scope, t.name[kind][scope]))
				return 2;
	if (write(m->out, &t, sizeof(t)) != sizeof(t) || !hear(m->in))
		return 3;
	return 0;
}

/* --- the taker */

struct taker {
	enum place place;
	bool other_user, other_user_ns;
	int maker_ns;		/* its pid namespace */
	int out;
	const struct tokens *tokens;
};

struct answers {
	int ret[KINDS][SCOPES];
};

static int taker_life(void *arg)
{
	const struct taker *who = arg;
	struct answers a;
	int fd;

	/* Change the user last: the calls before need privileges.  */
	if (who->other_user &&
	    (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
	     setresuid(NOBODY, NOBODY, NOBODY)))
		return 1;
	prctl(PR_SET_DUMPABLE, 1);
	if (who->other_user_ns && unshare(CLONE_NEWUSER))
		return 2;
	fd = gp_open(0);
	if (fd < 0 || gp_channel_attach(fd, channel, NULL))
		return 3;
	for (int kind = 0; kind < KINDS; kind++)
		for (int scope = 0; scope < SCOPES; scope++)
			a.ret[kind][scope] = take(fd, kind, who->tokens->name[kind][scope]);
	return write(who->out, &a, sizeof(a)) == sizeof(a) ? 0 : 4;
}

static int in_new_pid_ns(void *arg)
{
	if (unshare(CLONE_NEWPID))
		return 11;
	return run_child(taker_life, arg);
}

static int taker_main(void *arg)
{
	const struct taker *who = arg;

	switch (who->place) {
	case SAME:
		return setns(who->maker_ns, CLONE_NEWPID) ? 10 : run_child(taker_life, arg);
	case BELOW:
		return setns(who->maker_ns, CLONE_NEWPID) ? 10 : run_child(in_new_pid_ns, arg);
	case BESIDE:
		return in_new_pid_ns(arg);
	default:
		return taker_life(arg);
	}
}

/* --- the rule */

static bool admits(enum scope scope, const struct taker *who)
{
	if (scope == ANY)
		return true;
	if (who->other_user || who->other_user_ns)
		return false;
	return scope == USER || who->place == SAME || who->place == BELOW;
}

/* Importing a pool's token fails with EPERM if its channel or its scope refuses.  */
static int rule_for(enum kind kind, enum scope scope, enum scope widest, const struct taker *who)
{
	if (!admits(scope, who))
		return kind == POOL ? -EPERM : -EACCES;
	return scope > widest && !admits(widest, who) ? -EPERM : 0;
}

FIXTURE(scope)
{
	mode_t mode;
	char parameter[16];
};

static int get_parameter(char *text, size_t size)
{
	FILE *f = fopen(PARAMETER, "re");

	if (!f)
		return -errno;
	if (!fgets(text, size, f))
		text[0] = 0;
	fclose(f);
	text[strcspn(text, "\n")] = 0;
	return 0;
}

FIXTURE_SETUP(scope)
{
	if (geteuid())
		SKIP(return, "needs root");
	ASSERT_TRUE(dev_quiet(10));
	ASSERT_TRUE(node_open_to_all(&self->mode));
	ASSERT_EQ(0, get_parameter(self->parameter, sizeof(self->parameter)));
	ASSERT_EQ(0, gp_channel_make(channel_path, sizeof(channel_path), 0, 0600));
	channel = open(channel_path, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, channel);
}

FIXTURE_TEARDOWN(scope)
{
	EXPECT_EQ(0, write_file(PARAMETER, self->parameter));
	EXPECT_EQ(0, chmod("/dev/gpumem0", self->mode));
	close(channel);
	unlink(channel_path);
	EXPECT_TRUE(dev_quiet(10));
}

/* Runs one taker with one value of the parameter.  Returns the number of results compared.  */
static unsigned int compare(struct __test_metadata *_metadata, struct taker *who,
			    enum scope widest)
{
	struct answers a;
	int pair[2], ret;

	EXPECT_EQ(0, pipe(pair));
	who->out = pair[1];
	ret = run_child(taker_main, who);
	close(pair[1]);
	EXPECT_EQ(0, ret);
	ret = read(pair[0], &a, sizeof(a));
	close(pair[0]);
	EXPECT_EQ((int)sizeof(a), ret);
	if (ret != sizeof(a))
		return 0;
	for (int kind = 0; kind < KINDS; kind++) {
		for (int scope = 0; scope < SCOPES; scope++) {
			EXPECT_EQ(rule_for(kind, scope, widest, who), a.ret[kind][scope])
				TH_LOG("%s, scope %s, ipc_scope %s, pid namespace %s%s%s",
				       kind_names[kind], scope_names[scope], scope_names[widest],
				       place_names[who->place],
				       who->other_user ? ", other user" : "",
				       who->other_user_ns ? ", other user namespace" : "");
		}
	}
	return KINDS * SCOPES;
}

static int spawn_maker(void *arg)
{
	return unshare(CLONE_NEWPID) ? 12 : run_child(maker_life, arg);
}

TEST_F_TIMEOUT(scope, every_combination, 280)
{
	int tell_maker[2], hear_maker[2];
	unsigned int checked = 0;
	struct maker maker;
	struct taker who;
	struct tokens t;
	char path[64];
	pid_t pid;

	ASSERT_EQ(0, write_file(PARAMETER, "any"));
	ASSERT_EQ(0, pipe(tell_maker));
	ASSERT_EQ(0, pipe(hear_maker));
	maker = (struct maker) { .out = hear_maker[1], .in = tell_maker[0] };
	pid = start_child(spawn_maker, &maker);
	ASSERT_LT(0, pid);
	close(hear_maker[1]);
	ASSERT_EQ((int)sizeof(t), read(hear_maker[0], &t, sizeof(t)));
	snprintf(path, sizeof(path), "/proc/%d/ns/pid_for_children", pid);
	who = (struct taker) { .tokens = &t, .maker_ns = open(path, O_RDONLY | O_CLOEXEC) };
	ASSERT_LE(0, who.maker_ns);
	for (int widest = 0; widest < SCOPES; widest++) {
		ASSERT_EQ(0, write_file(PARAMETER, scope_names[widest]));
		for (int place = 0; place < PLACES; place++) {
			for (int i = 0; i < 4; i++) {
				who.place = place;
				who.other_user = i & 1;
				who.other_user_ns = i & 2;
				checked += compare(_metadata, &who, widest);
			}
		}
	}
	close(who.maker_ns);
	EXPECT_TRUE(tell(tell_maker[1]));
	EXPECT_EQ(0, end_child(pid));
	printf("# %u answers\n", checked);
	fflush(stdout);
	EXPECT_EQ(SCOPES * PLACES * 4U * KINDS * SCOPES, checked);
}

/* The administrator's parameter: its values, and what may be made under each. */
TEST_F(scope, parameter)
{
	char text[16];
	__u8 name[GPUMEM_TOKEN_SIZE];
	int fd = gp_open(0);
	__u32 bo;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, gp_bo_alloc(fd, page_size, &bo));
	ASSERT_EQ(0, gp_channel_attach(fd, channel, NULL));
	for (int widest = 0; widest < SCOPES; widest++) {
		ASSERT_EQ(0, write_file(PARAMETER, scope_names[widest]));
		ASSERT_EQ(0, get_parameter(text, sizeof(text)));
		EXPECT_STREQ(scope_names[widest], text);
		for (int kind = 0; kind < KINDS; kind++) {
			for (int scope = 0; scope < SCOPES; scope++) {
				EXPECT_EQ(scope > widest ? -EPERM : 0,
					  make(fd, bo, kind, scope, name))
					TH_LOG("%s, scope %s, ipc_scope %s", kind_names[kind],
					       scope_names[scope], scope_names[widest]);
			}
		}
	}
	EXPECT_EQ(-EINVAL, write_file(PARAMETER, "users"));
	EXPECT_EQ(-EINVAL, write_file(PARAMETER, "\n"));
	EXPECT_EQ(0, get_parameter(text, sizeof(text)));
	EXPECT_STREQ("any", text);
	close(fd);
}

/* Flags that contradict each other; and a pool has one token, with one scope.  */
TEST_F(scope, flags)
{
	__u8 name[GPUMEM_TOKEN_SIZE], again[GPUMEM_TOKEN_SIZE];
	const __u32 both = GPUMEM_TOKEN_ANY_USER | GPUMEM_TOKEN_PID_NS;
	const __u32 pool_both = GPUMEM_POOL_EXPORT_SAME_USER | GPUMEM_POOL_EXPORT_PID_NS;
	int fd = gp_open(0);
	__u32 bo, id, pool;

	ASSERT_LE(0, fd);
	ASSERT_EQ(0, gp_bo_alloc(fd, page_size, &bo));
	ASSERT_EQ(0, gp_channel_attach(fd, channel, NULL));
	ASSERT_EQ(0, gp_pool_create(fd, 0, 0, 0, "", &pool));
	EXPECT_EQ(-EINVAL, gp_token_create(fd, bo, 0, 1, both, &id, name));
	EXPECT_EQ(-EINVAL, gp_event_create_for(fd, both, &id, name));
	EXPECT_EQ(-EINVAL, gp_pool_export_fabric_for(fd, pool, pool_both, name));
	EXPECT_EQ(-EINVAL, gp_pool_export(fd, pool, GPUMEM_POOL_EXPORT_SAME_USER));
	EXPECT_EQ(-EINVAL, gp_pool_export(fd, pool, GPUMEM_POOL_EXPORT_PID_NS));
	ASSERT_EQ(0, gp_pool_export_fabric_for(fd, pool, GPUMEM_POOL_EXPORT_SAME_USER, name));
	ASSERT_EQ(0, gp_pool_export_fabric_for(fd, pool, GPUMEM_POOL_EXPORT_SAME_USER, again));
	EXPECT_EQ(0, memcmp(name, again, sizeof(name)));
	EXPECT_EQ(-EEXIST, gp_pool_export_fabric_for(fd, pool, 0, again));
	EXPECT_EQ(-EEXIST, gp_pool_export_fabric_for(fd, pool, GPUMEM_POOL_EXPORT_PID_NS, again));
	close(fd);
}

TEST_HARNESS_MAIN
