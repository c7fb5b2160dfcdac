// SPDX-License-Identifier: GPL-2.0
/*
 * Tests GPUMEM_IPC: which processes may open the handles that a process makes by the CUDA API.
 *
 * A maker, in a pid namespace of its own, has GPUMEM_IPC set to one value and makes a handle of
 * memory, of an event and of a pool.  Two takers, in the pid namespace above the maker's, then open
 * each handle's token by the kernel interface: one as the same user, one as another user.  The two
 * results tell the scope.  The program compares the library's messages on standard error, too.
 */
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "kselftest_harness.h"
#include "cuda_util.h"
#include "common/pool_util.h"

#define CHANNELS	"/dev/" GPUMEM_CHANNELS_NAME
#define PARAMETER	"/sys/module/gpumem/parameters/ipc_scope"
#define NOBODY		65534
#define TOKEN_AT	8	/* in each handle, behind a magic number and a version */

enum kind { MEMORY, EVENT, POOL, KINDS };

struct made {
	int result[KINDS];
	__u8 token[KINDS][GPUMEM_TOKEN_SIZE];
};

struct maker {
	const char *value;	/* of GPUMEM_IPC, or NULL */
	int out, in, err;
};

static CUresult make_pool(CUmemFabricHandle *handle)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.handleTypes = CU_MEM_HANDLE_TYPE_FABRIC,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0 },
	};
	CUmemoryPool pool;
	CUresult result = cuMemPoolCreate(&pool, &props);

	return result ? result :
		cuMemPoolExportToShareableHandle(handle, pool, CU_MEM_HANDLE_TYPE_FABRIC, 0);
}

static int maker_life(void *arg)
{
	const struct maker *m = arg;
	CUmemFabricHandle fabric = { 0 };
	CUipcEventHandle event = { 0 };
	CUipcMemHandle memory = { 0 };
	struct made made = { 0 };
	CUdeviceptr p;
	CUcontext ctx;
	CUevent e;

	dup2(m->err, STDERR_FILENO);
	if (m->value ? setenv("GPUMEM_IPC", m->value, 1) : unsetenv("GPUMEM_IPC"))
		return 1;
	if (cuda_start(&ctx) || cuMemAlloc(&p, 4096) ||
	    cuEventCreate(&e, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING))
		return 2;
	/* Make each handle twice: the library must print a message only once. */
	for (int i = 0; i < 2; i++) {
		made.result[MEMORY] = cuIpcGetMemHandle(&memory, p);
		made.result[EVENT] = cuIpcGetEventHandle(&event, e);
		made.result[POOL] = make_pool(&fabric);
	}
	memcpy(made.token[MEMORY], (char *)&memory + TOKEN_AT, GPUMEM_TOKEN_SIZE);
	memcpy(made.token[EVENT], (char *)&event + TOKEN_AT, GPUMEM_TOKEN_SIZE);
	memcpy(made.token[POOL], (char *)&fabric + TOKEN_AT, GPUMEM_TOKEN_SIZE);
	if (write(m->out, &made, sizeof(made)) != sizeof(made) || !hear(m->in))
		return 3;
	return 0;
}

static int maker_main(void *arg)
{
	return unshare(CLONE_NEWPID) ? 10 : run_child(maker_life, arg);
}

static char channel_path[128];
static int channel = -1;

FIXTURE(scope)
{
	mode_t mode;
};

FIXTURE_SETUP(scope)
{
	if (geteuid())
		SKIP(return, "needs root");
	ASSERT_TRUE(dev_quiet(10));
	ASSERT_TRUE(node_open_to_all(&self->mode));
	mkdir(CHANNELS, 0755);
	snprintf(channel_path, sizeof(channel_path), "%s/channel0", CHANNELS);
	ASSERT_EQ(0, mknod(channel_path, S_IFCHR | 0600, makedev(gp_channel_major(), 0)));
	channel = open(channel_path, O_RDWR | O_CLOEXEC);
	ASSERT_LE(0, channel);
}

FIXTURE_TEARDOWN(scope)
{
	EXPECT_EQ(0, write_file(PARAMETER, "any"));
	EXPECT_EQ(0, chmod("/dev/gpumem0", self->mode));
	close(channel);
	unlink(channel_path);
	rmdir(CHANNELS);
	EXPECT_TRUE(dev_quiet(10));
}

/* --- the taker */

struct taker {
	bool other_user;
	const struct made *made;
	int *ret;		/* shared */
};

static int taker_life(void *arg)
{
	const struct taker *who = arg;
	struct gpumem_pool_import in;
	struct gpumem_token_open o;
	__u32 id, result;
	int fd;

	if (who->other_user &&
	    (setgroups(0, NULL) || setresgid(NOBODY, NOBODY, NOBODY) ||
	     setresuid(NOBODY, NOBODY, NOBODY)))
		return 1;
	fd = gp_open(0);
	if (fd < 0 || gp_channel_attach(fd, channel, NULL))
		return 2;
	who->ret[MEMORY] = gp_token_open(fd, who->made->token[MEMORY], &o);
	who->ret[EVENT] = gp_event_open(fd, who->made->token[EVENT], &id, &result);
	who->ret[POOL] = gp_pool_import_fabric(fd, who->made->token[POOL], &in);
	return 0;
}

struct said {
	struct made made;
	int ret[2][KINDS];	/* of the takers: the same user, another user */
	char err[512];
};

/* Run a maker with GPUMEM_IPC=@value, then two takers that open its handles. */
static void try(struct __test_metadata *_metadata, const char *value, struct said *said)
{
	int out[2], in[2], err[2], *ret;
	struct maker m;
	ssize_t n;
	pid_t pid;

	ret = mmap(NULL, sizeof(said->ret), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		   0);
	ASSERT_NE(MAP_FAILED, ret);
	ASSERT_EQ(0, pipe(out));
	ASSERT_EQ(0, pipe(in));
	ASSERT_EQ(0, pipe2(err, O_NONBLOCK));
	m = (struct maker) { .value = value, .out = out[1], .in = in[0], .err = err[1] };
	pid = start_child(maker_main, &m);
	close(out[1]);
	ASSERT_EQ((int)sizeof(said->made), read(out[0], &said->made, sizeof(said->made)));
	for (int i = 0; i < 2; i++) {
		struct taker who = { .other_user = i, .made = &said->made, .ret = ret + i * KINDS };

		EXPECT_EQ(0, run_child(taker_life, &who));
	}
	EXPECT_TRUE(tell(in[1]));
	EXPECT_EQ(0, end_child(pid));
	n = read(err[0], said->err, sizeof(said->err) - 1);
	said->err[n > 0 ? n : 0] = 0;
	memcpy(said->ret, ret, sizeof(said->ret));
	munmap(ret, sizeof(said->ret));
	for (int i = 0; i < 2; i++) {
		close(in[i]);
		close(err[i]);
	}
	close(out[0]);
}

TEST_F_TIMEOUT(scope, values, 280)
{
	static const struct {
		const char *value;
		bool above, other;	/* the same user, another user may open them */
		const char *err;
	} cases[] = {
		{ NULL, true, false, "" },
		{ "user", true, false, "" },
		{ "pidns", false, false, "" },
		{ "any", true, true, "" },
		{ "all", true, false,
		  "gpumem: GPUMEM_IPC=all: must be user, pidns or any; using user\n" },
		{ "", true, false,
		  "gpumem: GPUMEM_IPC=: must be user, pidns or any; using user\n" },
	};
	struct said said;

	for (unsigned int i = 0; i < ARRAY_SIZE(cases); i++) {
		try(_metadata, cases[i].value, &said);
		EXPECT_STREQ(cases[i].err, said.err);
		for (int kind = 0; kind < KINDS; kind++) {
			int refused = kind == POOL ? -EPERM : -EACCES;

			EXPECT_EQ(CUDA_SUCCESS, said.made.result[kind]);
			EXPECT_EQ(cases[i].above ? 0 : refused, said.ret[0][kind])
				TH_LOG("GPUMEM_IPC=%s, kind %d, the same user", cases[i].value, kind);
			EXPECT_EQ(cases[i].other ? 0 : refused, said.ret[1][kind])
				TH_LOG("GPUMEM_IPC=%s, kind %d, another user", cases[i].value, kind);
		}
	}
}

/* GPUMEM_IPC=user is wider than ipc_scope allows: no handles, and one line that says why. */
TEST_F(scope, refused)
{
	struct said said;
	char *end;

	ASSERT_EQ(0, write_file(PARAMETER, "pidns"));
	try(_metadata, NULL, &said);
	for (int kind = 0; kind < KINDS; kind++) {
		EXPECT_EQ(CUDA_ERROR_NOT_PERMITTED, said.made.result[kind]);
		EXPECT_NE(0, said.ret[0][kind]);
	}
	EXPECT_NE(NULL, strstr(said.err, "GPUMEM_IPC=user"));
	EXPECT_NE(NULL, strstr(said.err, "ipc_scope"));
	end = strchr(said.err, '\n');
	ASSERT_NE(NULL, end);
	EXPECT_EQ(0, end[1]);
	try(_metadata, "pidns", &said);
	for (int kind = 0; kind < KINDS; kind++)
		EXPECT_EQ(CUDA_SUCCESS, said.made.result[kind]);
	EXPECT_STREQ("", said.err);
}

TEST_HARNESS_MAIN
