// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem fault sweep: programs that handle a failed allocation in each of the ways that it tells apart.
 *
 * The programs are this file's own: with GPUMEM_SELFTEST_PROGRAM in its environment, the test runs one of them.
 */
#include "kselftest_harness.h"
#include "fault_util.h"

/* ---- the programs */

static CUdeviceptr allocate(void)
{
	CUdeviceptr ptr = 0;

	return cuMemAlloc(&ptr, 4096) ? 0 : ptr;
}

static void begin(void)
{
	CUcontext ctx;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
}

static int end(int status)
{
	OK(cuDevicePrimaryCtxRelease(0));
	return status;
}

/* Two allocations; a failure is reported, and nothing is left behind. */
static int reports(bool leaks)
{
	CUdeviceptr first, second;

	begin();
	first = allocate();
	if (!first)
		return end(1);
	second = allocate();
	if (!second) {
		if (!leaks)
			OK(cuMemFree(first));
		return end(1);
	}
	OK(cuMemFree(first));
	OK(cuMemFree(second));
	puts("result 42");
	return end(0);
}

/* Two allocations, of which the second is not necessary. */
static int falls_back(const char *without)
{
	CUdeviceptr first, second;

	begin();
	first = allocate();
	if (!first)
		return end(1);
	second = allocate();
	OK(cuMemFree(first));
	if (second)
		OK(cuMemFree(second));
	puts(second ? "result 42" : without);
	return end(0);
}

static int crashes(void)
{
	CUdeviceptr first, second;

	begin();
	first = allocate();
	second = allocate();
	*(volatile char *)first = 1;
	*(volatile char *)second = 1;
	return end(0);
}

/* Wait for ever, as a program does that waits for what never comes. */
static int hangs(void)
{
	CUdeviceptr ptr;

	begin();
	ptr = allocate();
	while (!ptr)
		nap_ms(10);
	return end(0);
}

static int random_output(void)
{
	begin();
	if (!allocate())
		puts("fallback");
	printf("%d\n", getpid());
	return 0;
}

static int two_processes(void)
{
	int status;
	pid_t pid;

	setenv("GPUMEM_SELFTEST_RANK", "0", 1);
	pid = fork();
	if (!pid) {
		setenv("GPUMEM_SELFTEST_RANK", "1", 1);
		exit(reports(false));
	}
	if (reports(false))
		return 2;
	waitpid(pid, &status, 0);
	return WEXITSTATUS(status);
}

static __attribute__((constructor)) void program(void)
{
	const char *name = getenv("GPUMEM_SELFTEST_PROGRAM");
	int status = -1;

	if (!name)
		return;
	if (!strcmp(name, "reports"))
		status = reports(false);
	else if (!strcmp(name, "leaks"))
		status = reports(true);
	else if (!strcmp(name, "handles"))
		status = falls_back("result 42");
	else if (!strcmp(name, "wrong"))
		status = falls_back("result 41");
	else if (!strcmp(name, "crashes"))
		status = crashes();
	else if (!strcmp(name, "hangs"))
		status = hangs();
	else if (!strcmp(name, "random"))
		status = random_output();
	else if (!strcmp(name, "two"))
		status = two_processes();
	else if (!strcmp(name, "fails"))
		status = 5;
	else if (!strcmp(name, "nothing"))
		status = 0;
	exit(status);
}

/* ---- the tests */

FIXTURE(sweep)
{
	char text[8192];
	int status;
};

FIXTURE_SETUP(sweep)
{
	if (!command_there())
		SKIP(return, "the command is not built");
}

FIXTURE_TEARDOWN(sweep)
{
	if (_metadata->exit_code)
		fprintf(stderr, "%s", self->text);
}

/* Sweep a program of this file.  Returns the command's exit status. */
static int sweep(FIXTURE_DATA(sweep) *self, const char *program, const char *options)
{
	char line[8192];
	size_t n;
	FILE *f;

	snprintf(line, sizeof(line), "GPUMEM_SELFTEST_PROGRAM=%s %s fault sweep %s -- /proc/%d/exe 2>&1", program,
		 build_path("bin/gpumem"), options, getpid());
	f = popen(line, "r");
	n = fread(self->text, 1, sizeof(self->text) - 1, f);
	self->text[n] = '\0';
	self->status = pclose(f);
	return WEXITSTATUS(self->status);
}

TEST_F(sweep, reports)
{
	EXPECT_EQ(0, sweep(self, "reports", "--leaks"));
	EXPECT_STREQ("2 calls of \"alloc\"\n"
		     "1 cuMemAlloc_v2: reported (exit status 1)\n"
		     "2 cuMemAlloc_v2: reported (exit status 1)\n"
		     "0 not reached, 0 handled, 2 reported, 0 crashed, 0 hung, 0 leaked, 0 wrong result\n", self->text);
}

TEST_F(sweep, leaks)
{
	EXPECT_EQ(1, sweep(self, "leaks", "--leaks"));
	EXPECT_TRUE(strstr(self->text, "1 cuMemAlloc_v2: reported (exit status 1)\n"));
	EXPECT_TRUE(strstr(self->text, "2 cuMemAlloc_v2: leaked (exit status 1)\n"));
	/* Without the checker nobody looks. */
	EXPECT_EQ(0, sweep(self, "leaks", ""));
}

TEST_F(sweep, handles)
{
	EXPECT_EQ(0, sweep(self, "handles", ""));
	EXPECT_TRUE(strstr(self->text, "2 cuMemAlloc_v2: handled (exit status 0)\n"));
}

TEST_F(sweep, wrong)
{
	EXPECT_EQ(1, sweep(self, "wrong", ""));
	EXPECT_TRUE(strstr(self->text, "2 cuMemAlloc_v2: wrong result (exit status 0)\n"));
	/* The first call alone. */
	EXPECT_EQ(0, sweep(self, "wrong", "--last 1"));
	EXPECT_EQ(1, sweep(self, "wrong", "--first 2 --error INVALID_VALUE"));
	EXPECT_FALSE(strstr(self->text, "\n1 cuMem"));
}

TEST_F(sweep, crashes)
{
	EXPECT_EQ(1, sweep(self, "crashes", ""));
	EXPECT_TRUE(strstr(self->text, "1 cuMemAlloc_v2: crashed (signal 11, Segmentation fault)\n"));
	EXPECT_TRUE(strstr(self->text, "0 hung"));
}

TEST_F(sweep, hangs)
{
	EXPECT_EQ(1, sweep(self, "hangs", "--timeout 8"));
	EXPECT_TRUE(strstr(self->text, "1 cuMemAlloc_v2: hung (killed after 8 s)\n"));
}

TEST_F(sweep, random)
{
	EXPECT_EQ(0, sweep(self, "random", ""));
	EXPECT_TRUE(strstr(self->text, "1 calls of \"alloc\"; the output differs from run to run"));
	EXPECT_TRUE(strstr(self->text, "1 cuMemAlloc_v2: handled"));
}

TEST_F(sweep, processes)
{
	/* In both processes, then in one of them. */
	EXPECT_EQ(0, sweep(self, "two", ""));
	EXPECT_TRUE(strstr(self->text, "1 cuMemAlloc_v2: reported (exit status 2)\n"));
	EXPECT_EQ(0, sweep(self, "two", "--env GPUMEM_SELFTEST_RANK:1"));
	EXPECT_TRUE(strstr(self->text, "1 cuMemAlloc_v2: reported (exit status 1)\n"));
}

TEST_F(sweep, cannot)
{
	EXPECT_EQ(1, sweep(self, "fails", ""));
	EXPECT_TRUE(strstr(self->text, "the program fails without a fault: exit status 5"));
	EXPECT_EQ(1, sweep(self, "nothing", ""));
	EXPECT_TRUE(strstr(self->text, "no process made a call of \"alloc\""));
	EXPECT_EQ(2, sweep(self, "reports", "--error NO_SUCH"));
	EXPECT_EQ(2, sweep(self, "reports", "--first 0"));
	EXPECT_EQ(2, sweep(self, "reports", "--pid 1"));
}

TEST_F(sweep, json)
{
	EXPECT_EQ(1, sweep(self, "wrong", "--json"));
	EXPECT_TRUE(strstr(self->text, "\"command\": \"fault sweep\""));
	EXPECT_TRUE(strstr(self->text, "\"verdict\": \"wrong result\""));
	EXPECT_TRUE(strstr(self->text, "\"call\": \"cuMemAlloc_v2\""));
}

TEST_HARNESS_MAIN
