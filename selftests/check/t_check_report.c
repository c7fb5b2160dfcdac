// SPDX-License-Identifier: GPL-2.0
/*
 * What the checker does with its reports: text, JSON and SARIF, exit status, suppressions, and each report once.
 */
#include <jansson.h>

#include "kselftest_harness.h"
#include "check_util.h"

static char log_path[64], suppressions_path[64];

static void race(struct program *w)
{
	OK(cuMemsetD8Async(w->p, 2, BYTES, w->a));
	OK(WRONG(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->b)));
}

static void races(struct program *w)
{
	for (unsigned int i = 0; i < 10; i++) {
		race(w);
		OK(cuCtxSynchronize());
	}
}

static void leak(struct program *w)
{
	CUevent event;

	(void)w;
	OK(cuEventCreate(&event, 0));
}

static void clean(struct program *w)
{
	(void)w;
}

FIXTURE(report)
{
	struct outcome *outcome;
	int *line;
	char text[65536];		/* of the log */
};

FIXTURE_SETUP(report)
{
	self->outcome = malloc(sizeof(*self->outcome));
	self->line = shared_line();
	ASSERT_NE(NULL, self->outcome);
	snprintf(log_path, sizeof(log_path), "/tmp/check-log.%d", getpid());
	snprintf(suppressions_path, sizeof(suppressions_path), "/tmp/check-suppressions.%d", getpid());
}

FIXTURE_TEARDOWN(report)
{
	unlink(log_path);
	unlink(suppressions_path);
	free(self->outcome);
}

#define RUN(body, ...)									\
	program_run(body, (const char *const []) { __VA_ARGS__, NULL }, self->line, self->outcome)

/* Read the log, with this ending of its name. */
static void log_read(FIXTURE_DATA(report) *self)
{
	int fd = open(log_path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, self->text, sizeof(self->text) - 1);

	self->text[n > 0 ? n : 0] = '\0';
	if (fd >= 0)
		close(fd);
}

static char *variable(const char *name, const char *value)
{
	static char text[4][160];
	static unsigned int next;
	char *one = text[next++ % 4];

	snprintf(one, sizeof(text[0]), "%s=%s", name, value);
	return one;
}

static void suppress(const char *lines)
{
	FILE *file = fopen(suppressions_path, "w");

	fputs(lines, file);
	fclose(file);
}

TEST_F(report, once)
{
	RUN(races, "GPUMEM_CHECK=1");
	EXPECT_EQ(STATUS, self->outcome->status);
	EXPECT_EQ(1, reports(self->outcome));
}

TEST_F(report, off)
{
	RUN(race, "GPUMEM_CHECK=0");
	EXPECT_EQ(0, self->outcome->status);
	EXPECT_STREQ("", self->outcome->text);
}

TEST_F(report, exit_status)
{
	RUN(race, "GPUMEM_CHECK_EXIT=5");
	EXPECT_EQ(5, self->outcome->status);
}

TEST_F(report, log_only)
{
	RUN(race, "GPUMEM_CHECK=log");
	EXPECT_EQ(0, self->outcome->status);
	EXPECT_EQ(1, reports(self->outcome));
}

TEST_F(report, abort)
{
	RUN(race, "GPUMEM_CHECK=abort");
	EXPECT_EQ(-SIGABRT, self->outcome->status);
	EXPECT_EQ(1, reports(self->outcome));
}

TEST_F(report, without_stacks)
{
	RUN(race, "GPUMEM_CHECK_STACKS=0");
	EXPECT_EQ(STATUS, self->outcome->status);
	EXPECT_EQ(1, reports(self->outcome));
	EXPECT_EQ(NULL, strstr(self->outcome->text, "#0 "));
}

TEST_F(report, without_leaks)
{
	RUN(leak, "GPUMEM_CHECK=1");
	EXPECT_EQ(STATUS, self->outcome->status);
	RUN(leak, "GPUMEM_CHECK_LEAKS=0");
	EXPECT_EQ(0, self->outcome->status);
}

/* A race whose report goes to a terminal; then standard error gets what the terminal got. */
static void race_on_a_terminal(struct program *w)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY), before = dup(STDERR_FILENO), slave;
	char text[4096];
	ssize_t n;

	OK(master < 0 || grantpt(master) || unlockpt(master));
	slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	OK(dup2(slave, STDERR_FILENO) < 0);
	race(w);
	OK(dup2(before, STDERR_FILENO) < 0);
	n = read(master, text, sizeof(text));
	OK(n <= 0 || write(STDERR_FILENO, text, n) != n);
	close(slave);
	close(master);
	close(before);
}

TEST_F(report, colours)
{
	RUN(race_on_a_terminal, "GPUMEM_CHECK=1");
	EXPECT_EQ(STATUS, self->outcome->status);
	EXPECT_EQ(1, reports(self->outcome));
	EXPECT_EQ(0, strncmp(self->outcome->text, REPORT "\033[1;31mrace: ", strlen(REPORT "\033[1;31mrace: ")));
	RUN(race_on_a_terminal, "NO_COLOR=1");
	EXPECT_EQ(1, reports(self->outcome));
	EXPECT_EQ(NULL, strchr(self->outcome->text, '\033'));
	/* Elsewhere there are none. */
	RUN(race, "GPUMEM_CHECK=1");
	EXPECT_EQ(NULL, strchr(self->outcome->text, '\033'));
}

TEST_F(report, text_log)
{
	RUN(race, variable("GPUMEM_CHECK_LOG", log_path));
	EXPECT_EQ(STATUS, self->outcome->status);
	EXPECT_EQ(0, reports(self->outcome));
	log_read(self);
	EXPECT_EQ(0, strncmp(self->text, REPORT "race: ", strlen(REPORT "race: ")));
}

/* Whether a text is one JSON document. */
static bool parses(const char *text)
{
	json_error_t error;
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);

	if (!root)
		printf("# line %d: %s\n", error.line, error.text);
	json_decref(root);
	return root != NULL;
}

TEST_F(report, json_log)
{
	char want[64];

	strcat(log_path, ".json");
	RUN(race, variable("GPUMEM_CHECK_LOG", log_path));
	EXPECT_EQ(STATUS, self->outcome->status);
	EXPECT_EQ(1, reports(self->outcome));
	log_read(self);
	EXPECT_TRUE(parses(self->text));
	EXPECT_NE(NULL, strstr(self->text, "\"version\": 1"));
	EXPECT_NE(NULL, strstr(self->text, "\"kind\": \"race\""));
	snprintf(want, sizeof(want), "\"line\": %d", *self->line);
	EXPECT_NE(NULL, strstr(self->text, want));
}

TEST_F(report, json_log_of_a_clean_program)
{
	strcat(log_path, ".json");
	RUN(clean, variable("GPUMEM_CHECK_LOG", log_path));
	EXPECT_EQ(0, self->outcome->status);
	log_read(self);
	EXPECT_TRUE(parses(self->text));
	EXPECT_NE(NULL, strstr(self->text, "\"reports\": []"));
}

TEST_F(report, sarif_log)
{
	char want[64];

	strcat(log_path, ".sarif");
	RUN(race, variable("GPUMEM_CHECK_LOG", log_path));
	log_read(self);
	EXPECT_TRUE(parses(self->text));
	EXPECT_NE(NULL, strstr(self->text, "\"version\": \"2.1.0\""));
	EXPECT_NE(NULL, strstr(self->text, "\"ruleId\": \"race\""));
	snprintf(want, sizeof(want), "\"startLine\": %d", *self->line);
	EXPECT_NE(NULL, strstr(self->text, want));
}

TEST_F(report, log_that_cannot_be_written)
{
	RUN(race, "GPUMEM_CHECK_LOG=/nowhere/log.json");
	EXPECT_EQ(STATUS, self->outcome->status);
	EXPECT_NE(NULL, strstr(self->outcome->text, "gpumem: GPUMEM_CHECK_LOG: cannot write /nowhere/log.json"));
}

TEST_F(report, suppressed_by_function)
{
	suppress("# a comment\nrace:rac*\n");
	RUN(race, variable("GPUMEM_CHECK_SUPPRESSIONS", suppressions_path));
	EXPECT_EQ(0, self->outcome->status);
	EXPECT_EQ(0, reports(self->outcome));
}

TEST_F(report, suppressed_by_file)
{
	suppress("*:*t_check_report.c\n");
	RUN(race, variable("GPUMEM_CHECK_SUPPRESSIONS", suppressions_path));
	EXPECT_EQ(0, self->outcome->status);
}

TEST_F(report, suppression_of_another_kind)
{
	suppress("leak:race\nrace:other\n");
	RUN(race, variable("GPUMEM_CHECK_SUPPRESSIONS", suppressions_path));
	EXPECT_EQ(STATUS, self->outcome->status);
}

TEST_F(report, missing_suppressions)
{
	RUN(race, "GPUMEM_CHECK_SUPPRESSIONS=/nowhere");
	EXPECT_EQ(STATUS, self->outcome->status);
	EXPECT_NE(NULL, strstr(self->outcome->text, "gpumem: GPUMEM_CHECK_SUPPRESSIONS: cannot read /nowhere"));
}

static void race_in_a_child(struct program *w)
{
	int status;
	pid_t pid = fork();

	if (!pid) {
		cuMemsetD8Async(w->p, 2, BYTES, w->a);
		cuMemsetD8Async(w->p, 2, BYTES, w->b);
		exit(0);
	}
	waitpid(pid, &status, 0);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		_exit(4);
}

TEST_F(report, child)
{
	RUN(race_in_a_child, "GPUMEM_CHECK=1");
	EXPECT_EQ(0, self->outcome->status);
	EXPECT_EQ(0, reports(self->outcome));
}

TEST_HARNESS_MAIN
