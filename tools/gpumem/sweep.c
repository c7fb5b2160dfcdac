// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem fault sweep: run a program again and again, and let another allocation fail each time.
 *
 * The first run counts the calls.  A second one without a fault tells whether the program prints the same each time.
 * Then run number n lets the n-th call of each process fail.  A program is right if it reports the failure (an exit
 * status other than 0) or has the same result (exit status 0 and the same standard output).  It is wrong if it
 * crashes, hangs, leaks memory that it does not leak otherwise, or ends with 0 and another output.
 *
 * All files are in a directory of their own, which is removed at the end.  The command is the reaper of all processes
 * that a run starts, and kills those that are left when the run is over.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/fault.h"
#include "fault.h"
#include "printable.h"
#include "tool.h"

#define NEVER		"18446744073709551615"
/* Exit status by which a shell reports a signal. */
#define CRASH_LEAST	129
#define CRASH_MOST	192
#define SHOWN		2048		/* bytes of a program's last messages */

enum verdict { NOT_REACHED, HANDLED, REPORTED, CRASHED, HUNG, LEAKED, WRONG };

static const char *const verdicts[] = {
	[NOT_REACHED] = "not reached", [HANDLED] = "handled", [REPORTED] = "reported", [CRASHED] = "crashed",
	[HUNG] = "hung", [LEAKED] = "leaked", [WRONG] = "wrong result",
};

/* One run of the program. */
struct run {
	int status;			/* of waitpid() */
	bool hung;
	uint64_t sum;			/* of its standard output */
	unsigned long long matches;	/* most calls that a process made */
	bool reached;			/* a call failed */
	char call[64];			/* its name */
	unsigned int leaks;
	double seconds;
};

static char directory[PATH_MAX / 2];
static volatile sig_atomic_t stop;

static void stopped(int number)
{
	stop = number;
}

static char *file_in(const char *name)
{
	static char path[4][PATH_MAX];
	static unsigned int next;
	char *p = path[next++ % 4];

	snprintf(p, PATH_MAX, "%s/%s", directory, name);
	return p;
}

static void clean_up(void)
{
	static const char *const names[] = { "out", "err", "log", "leaks" };
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unlink(file_in(names[i]));
	rmdir(directory);
}

static double seconds_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

/* ---- what a run left */

static uint64_t sum_of(const char *path)
{
	uint64_t sum = 0xcbf29ce484222325ull;
	FILE *f = fopen(path, "re");
	int c;

	while (f && (c = getc(f)) != EOF)
		sum = (sum ^ c) * 0x100000001b3ull;
	if (f)
		fclose(f);
	return sum;
}

/* Lines of the log: "PID match NAME N of rule 0", and "PID fault NAME N WHAT". */
static void read_log(struct run *run)
{
	FILE *f = fopen(file_in("log"), "re");
	char line[256], name[64];
	unsigned long long seen;
	int pid;

	while (f && fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%d match %63s %llu", &pid, name, &seen) == 3) {
			if (seen > run->matches)
				run->matches = seen;
		} else if (sscanf(line, "%d fault %63s", &pid, name) == 2) {
			run->reached = true;
			snprintf(run->call, sizeof(run->call), "%s", name);
		}
	}
	if (f)
		fclose(f);
}

/* The checker's log has a line for each report, and leaks have a kind of their own. */
static void read_leaks(struct run *run)
{
	FILE *f = fopen(file_in("leaks"), "re");
	char line[1024];

	while (f && fgets(line, sizeof(line), f))
		run->leaks += !strncmp(line, "gpumem-check: leak", 18);
	if (f)
		fclose(f);
}

/* ---- running */

/* Kill all processes below this one, which is the parent of those whose parent has ended. */
static void kill_orphans(void)
{
	char path[64];
	bool any;
	int pid;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	do {
		any = false;
		f = fopen(path, "re");
		while (f && fscanf(f, "%d", &pid) == 1) {
			kill(pid, SIGKILL);
			any = true;
		}
		if (f)
			fclose(f);
		while (waitpid(-1, NULL, any ? 0 : WNOHANG) > 0)
			;
	} while (any);
}

/* Print the last lines that a program wrote to standard error. */
static void show_messages(void)
{
	char text[SHOWN + 1];
	FILE *f = fopen(file_in("err"), "re");
	size_t n;

	if (!f)
		return;
	if (fseek(f, -SHOWN, SEEK_END))
		rewind(f);
	n = fread(text, 1, SHOWN, f);
	fclose(f);
	text[n] = '\0';
	fputs(text, stderr);
	if (n && text[n - 1] != '\n')
		fputc('\n', stderr);
}

static void in_child(const struct sweep *sweep, const char *rules, char **command)
{
	int in = open("/dev/null", O_RDONLY), out = open(file_in("out"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
	int err = open(file_in("err"), O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (in < 0 || out < 0 || err < 0)
		_exit(126);
	setpgid(0, 0);
	dup2(in, 0);
	dup2(out, 1);
	dup2(err, 2);
	setenv("GPUMEM_FAULT", rules, 1);
	if (sweep->leaks) {
		setenv("GPUMEM_CHECK", "log", 1);
		setenv("GPUMEM_CHECK_LOG", file_in("leaks"), 1);
	}
	execvp(command[0], command);
	_exit(127);
}

/* Run the program.  @timeout: seconds, or 0. */
static void run_once(const struct sweep *sweep, const char *nth, double timeout, char **command, struct run *run)
{
	char rules[FAULT_TEXT];
	double begin = seconds_now();
	pid_t pid;

	memset(run, 0, sizeof(*run));
	unlink(file_in("log"));
	unlink(file_in("leaks"));
	snprintf(rules, sizeof(rules), "fail call=%s nth=%s%s%s; log=%s; quiet%s%s", sweep->calls, nth,
		 sweep->error ? " error=" : "", sweep->error ? sweep->error : "", file_in("log"),
		 sweep->env ? "; env=" : "", sweep->env ? sweep->env : "");
	fault_check_rules(rules);
	fflush(NULL);
	pid = fork();
	if (pid < 0)
		die("fork: %s", strerror(errno));
	if (!pid)
		in_child(sweep, rules, command);
	setpgid(pid, pid);
	for (;;) {
		const struct timespec nap = { .tv_nsec = 2000000 };

		if (waitpid(pid, &run->status, WNOHANG) == pid)
			break;
		if (stop || (timeout && seconds_now() - begin > timeout)) {
			run->hung = !stop;
			kill(-pid, SIGKILL);
			waitpid(pid, &run->status, 0);
			break;
		}
		nanosleep(&nap, NULL);
	}
	run->seconds = seconds_now() - begin;
	/* What the program left behind may still write, or use the device: ranks of a job for example. */
	kill(-pid, SIGKILL);
	kill_orphans();
	if (stop) {
		clean_up();
		exit(128 + stop);
	}
	if (WIFEXITED(run->status) && (WEXITSTATUS(run->status) == 127 || WEXITSTATUS(run->status) == 126) &&
	    !strcmp(nth, NEVER))
		die("%s cannot be run", command[0]);
	run->sum = sum_of(file_in("out"));
	read_log(run);
	if (sweep->leaks)
		read_leaks(run);
}

static enum verdict verdict_of(const struct run *run, const struct run *first, bool stable)
{
	if (run->hung)
		return HUNG;
	if (WIFSIGNALED(run->status) || (WEXITSTATUS(run->status) >= CRASH_LEAST && WEXITSTATUS(run->status) <= CRASH_MOST))
		return CRASHED;
	if (!run->reached)
		return NOT_REACHED;
	if (run->leaks > first->leaks)
		return LEAKED;
	if (WEXITSTATUS(run->status))
		return REPORTED;
	return stable && run->sum != first->sum ? WRONG : HANDLED;
}

static void how_it_ended(const struct run *run, char *text, size_t size)
{
	if (run->hung)
		snprintf(text, size, "killed after %.0f s", run->seconds);
	else if (WIFSIGNALED(run->status))
		snprintf(text, size, "signal %d, %s", WTERMSIG(run->status), strsignal(WTERMSIG(run->status)));
	else
		snprintf(text, size, "exit status %d", WEXITSTATUS(run->status));
}

static json_t *run_json(unsigned long long n, const struct run *run, enum verdict verdict, const char *end)
{
	json_t *object = pack("{s:s, s:s}", "verdict", verdicts[verdict], "end", end);

	put_number(object, "nth", n);
	put(object, "call", text_json(run->call));
	put_number(object, "leaks", run->leaks);
	return object;
}

int fault_sweep(const struct sweep *sweep, char **command)
{
	struct run first, again, run;
	unsigned int count[WRONG + 1] = { 0 };
	struct sigaction action = { .sa_handler = stopped };
	unsigned long long n, last;
	json_t *doc = NULL, *runs = NULL;
	double timeout;
	bool stable;
	unsigned int i, bad;

	prctl(PR_SET_CHILD_SUBREAPER, 1);
	snprintf(directory, sizeof(directory), "%s/gpumem-sweep.XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	if (!mkdtemp(directory))
		die("%s: %s", directory, strerror(errno));
	atexit(clean_up);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	run_once(sweep, NEVER, sweep->timeout, command, &first);
	if (first.hung || !WIFEXITED(first.status) || WEXITSTATUS(first.status)) {
		char end[128];

		how_it_ended(&first, end, sizeof(end));
		show_messages();
		die("the program fails without a fault: %s", end);
	}
	if (!first.matches)
		die("no process made a call of \"%s\"", sweep->calls);
	timeout = sweep->timeout ? sweep->timeout : 10 + 10 * first.seconds;
	run_once(sweep, NEVER, timeout, command, &again);
	if (again.hung || again.status) {
		show_messages();
		die("the program fails at times without a fault");
	}
	stable = again.sum == first.sum;
	last = sweep->last && sweep->last < first.matches ? sweep->last : first.matches;
	if (options.json) {
		doc = document("fault sweep");
		runs = pack("[]");
		put_number(doc, "calls", first.matches);
		put(doc, "stable", pack("b", stable));
	} else {
		printf("%llu calls of \"%s\"%s\n", first.matches, sweep->calls, stable ? "" :
		       "; the output differs from run to run, so wrong results are not looked for");
	}
	for (n = sweep->first ? sweep->first : 1; n <= last; n++) {
		enum verdict verdict;
		char nth[32], end[128];

		snprintf(nth, sizeof(nth), "%llu", n);
		run_once(sweep, nth, timeout, command, &run);
		verdict = verdict_of(&run, &first, stable);
		count[verdict]++;
		how_it_ended(&run, end, sizeof(end));
		if (runs) {
			append(runs, run_json(n, &run, verdict, end));
			continue;
		}
		printf("%llu %s: %s (%s)\n", n, run.call[0] ? printable(run.call) : "?", verdicts[verdict], end);
		fflush(stdout);
	}
	bad = count[CRASHED] + count[HUNG] + count[LEAKED] + count[WRONG];
	if (runs) {
		put(doc, "runs", runs);
		print_document(doc);
		return bad != 0;
	}
	for (i = 0; i <= WRONG; i++)
		printf("%u %s%s", count[i], verdicts[i], i < WRONG ? ", " : "\n");
	return bad != 0;
}
