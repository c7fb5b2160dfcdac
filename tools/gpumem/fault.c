// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem fault: change the rules by which calls of running processes fail, and show what the rules did.
 *
 * A process that was started with GPUMEM_FAULT in its environment has a page for the command (core/fault_page.h), a
 * memfd that the command finds in /proc/PID/fd.  A process takes new rules at its next call of the API.  What the page
 * says is not trusted.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "core/fault.h"
#include "fault.h"
#include "tool.h"

#define WAIT_MS	1000		/* for another command that writes */
#define TAKE_MS	100		/* for the process to take new rules */

static const char usage[] =
"usage: gpumem fault run RULES -- COMMAND...    run a program with rules\n"
"       gpumem fault set WHERE RULES            change the rules of processes\n"
"       gpumem fault clear WHERE                no rules: streams that hang continue\n"
"       gpumem fault list [WHERE]               the processes with rules, and what these did\n"
"       gpumem fault sweep [OPTION...] -- COMMAND...\n"
"                                               run n lets the n-th allocation fail\n"
"\n"
"WHERE is --pid PID or --cgroup DIRECTORY: processes that were started with GPUMEM_FAULT in their environment.\n"
"RULES is a list such as \"fail call=alloc nth=3; delay ms=5 call=copy p=0.1\": see faults.rst.\n"
"\n"
"      --calls NAMES    sweep: what fails, a pattern or a kind of calls (alloc)\n"
"      --env NAME:VALUE sweep: only in processes whose environment has this\n"
"      --error CODE     sweep: the result of the call that fails\n"
"      --first N        sweep: begin with this call\n"
"      --last N         sweep: end with this call\n"
"      --leaks          sweep: also look for leaks, with the checker\n"
"      --timeout SECONDS    sweep: when a run hangs (10 s and ten times the first run)\n"
"  -j, --json           list, sweep: one JSON document\n";

enum { OPT_CALLS = 256, OPT_CGROUP, OPT_ENV, OPT_ERROR, OPT_FIRST, OPT_LAST, OPT_LEAKS, OPT_TIMEOUT };

static int wanted_pid;
static const char *wanted_cgroup;

/* ---- pages of processes */

/*
 * Map the page that descriptor @path of a process is, or NULL.  Opening a file may have effects if it is not a memfd, so
 * look first.  A sealed memfd keeps its size, and pages of tmpfs need no huge page: reading does not end this program.
 */
static struct fault_page *page_map(const char *path, ino_t *inode)
{
	int look = open(path, O_PATH | O_CLOEXEC), fd = -1, seals;
	struct fault_page *page = NULL;
	struct statfs fs;
	struct stat st;
	char again[64];

	if (look < 0)
		return NULL;
	snprintf(again, sizeof(again), "/proc/self/fd/%d", look);
	if (!fstat(look, &st) && S_ISREG(st.st_mode) && st.st_size == sizeof(*page) && !fstatfs(look, &fs) &&
	    fs.f_type == TMPFS_MAGIC)
		fd = open(again, O_RDWR | O_CLOEXEC);
	close(look);
	if (fd < 0)
		return NULL;
	seals = fcntl(fd, F_GET_SEALS);
	if (seals >= 0 && seals & F_SEAL_SHRINK && seals & F_SEAL_GROW)
		page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (!page || page == MAP_FAILED)
		return NULL;
	if (page->magic == FAULT_MAGIC && page->version == 1) {
		*inode = st.st_ino;
		return page;
	}
	munmap(page, sizeof(*page));
	return NULL;
}

/* A process's page, or NULL: it has none, or @error says why it cannot be looked at. */
static struct fault_page *page_open(int pid, int *error, ino_t *inode)
{
	char path[64], link[64], fd_path[PATH_MAX];
	struct fault_page *page = NULL;
	struct dirent *entry;
	ssize_t n;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	*error = dir ? 0 : errno;
	while (dir && !page && (entry = readdir(dir))) {
		snprintf(fd_path, sizeof(fd_path), "%s/%s", path, entry->d_name);
		n = readlink(fd_path, link, sizeof(link) - 1);
		if (n < 0)
			continue;
		link[n] = '\0';
		if (!strcmp(link, "/memfd:" FAULT_MEMFD " (deleted)"))
			page = page_map(fd_path, inode);
	}
	if (dir)
		closedir(dir);
	return page;
}

static void page_close(struct fault_page *page)
{
	munmap(page, sizeof(*page));
}

typedef void each_page(int pid, struct fault_page *page, void *arg);

/* Call @each for a process, if it has a page that no process before it had: a forked child has its parent's. */
static bool page_of(int pid, each_page *each, void *arg)
{
	static ino_t *seen;
	static size_t count;
	struct fault_page *page;
	ino_t inode, *more;
	int error;
	size_t i;

	page = pid > 0 ? page_open(pid, &error, &inode) : NULL;
	for (i = 0; page && i < count; i++)
		if (seen[i] == inode) {
			page_close(page);
			page = NULL;
		}
	if (!page)
		return false;
	more = realloc(seen, (count + 1) * sizeof(*seen));
	if (!more)
		die("%s", strerror(errno));
	seen = more;
	seen[count++] = inode;
	each(pid, page, arg);
	page_close(page);
	return true;
}

/* Call @each for the processes that the command line names.  Returns how many have a page. */
static unsigned int pages_each(each_page *each, void *arg)
{
	struct fault_page *page;
	unsigned int found = 0;
	struct dirent *entry;
	char path[PATH_MAX];
	int pid, error;
	ino_t inode;
	FILE *f;
	DIR *dir;

	if (wanted_pid) {
		page = page_open(wanted_pid, &error, &inode);
		if (!page)
			die("process %d: %s", wanted_pid,
			    error ? strerror(error) : "it was not started with GPUMEM_FAULT in its environment, "
						      "or has not called cuInit()");
		each(wanted_pid, page, arg);
		page_close(page);
		return 1;
	}
	if (wanted_cgroup) {
		snprintf(path, sizeof(path), "%s/cgroup.procs", wanted_cgroup);
		f = fopen(path, "re");
		if (!f)
			die("%s: %s", path, strerror(errno));
		while (fscanf(f, "%d", &pid) == 1)
			found += page_of(pid, each, arg);
		fclose(f);
		return found;
	}
	dir = opendir("/proc");
	if (!dir)
		die("/proc: %s", strerror(errno));
	while ((entry = readdir(dir)))
		found += page_of(atoi(entry->d_name), each, arg);
	closedir(dir);
	return found;
}

/* ---- commands */

void fault_check_rules(const char *rules)
{
	struct fault_list list;
	char why[128];

	if (!fault_parse(&list, rules, why, sizeof(why)))
		misused("the rules are wrong: %s", why);
}

/* A file is named by the environment only: a process does not write where another one says. */
static void check_no_log(const char *rules)
{
	struct fault_list list;
	char why[128];

	if (fault_parse(&list, rules, why, sizeof(why)) && list.log[0])
		misused("log= is for GPUMEM_FAULT only");
}

static void nap(void)
{
	const struct timespec time = { .tv_nsec = 1000000 };

	nanosleep(&time, NULL);
}

static void page_set(int pid, struct fault_page *page, void *arg)
{
	uint32_t wanted = __atomic_load_n(&page->wanted, __ATOMIC_ACQUIRE);
	unsigned int i;

	/* The number is odd while a command writes.  A command that was killed in the meantime is not waited for. */
	for (i = 0; i < WAIT_MS; i++) {
		if (wanted % 2 == 0 && __atomic_compare_exchange_n(&page->wanted, &wanted, wanted + 1, false,
								   __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
			break;
		nap();
		wanted = __atomic_load_n(&page->wanted, __ATOMIC_ACQUIRE);
	}
	wanted &= ~1u;
	snprintf(page->text, sizeof(page->text), "%s", (const char *)arg);
	__atomic_store_n(&page->wanted, wanted + 2, __ATOMIC_RELEASE);
	/* A process that calls at the moment takes the rules before this command ends. */
	for (i = 0; i < TAKE_MS && __atomic_load_n(&page->taken, __ATOMIC_ACQUIRE) != wanted + 2; i++)
		nap();
	if (__atomic_load_n(&page->refused, __ATOMIC_ACQUIRE) == wanted + 2)
		die("process %d does not understand the rules: its library is another version", pid);
}

static int set_rules(const char *rules)
{
	if (!wanted_pid && !wanted_cgroup)
		misused("which processes? give --pid or --cgroup");
	fault_check_rules(rules);
	check_no_log(rules);
	if (!pages_each(page_set, (void *)rules))
		die("%s: no process of it was started with GPUMEM_FAULT in its environment", wanted_cgroup);
	return 0;
}

static void page_list(int pid, struct fault_page *page, void *arg)
{
	unsigned int rules = __atomic_load_n(&page->rules, __ATOMIC_ACQUIRE), i;
	bool pending = page->wanted != page->taken;
	json_t *object, *array;

	if (rules > FAULT_RULES)
		rules = FAULT_RULES;
	if (!arg) {
		printf("process %d: %u rules%s\n", pid, rules, pending ? ", new ones at its next call" : "");
		for (i = 0; i < rules; i++)
			printf("  rule %u: %llu of %llu matches\n", i, (unsigned long long)page->rule[i].done,
			       (unsigned long long)page->rule[i].seen);
		return;
	}
	object = pack("{s:i, s:b}", "pid", pid, "pending", pending);
	array = pack("[]");
	for (i = 0; i < rules; i++) {
		json_t *rule = pack("{}");

		put_number(rule, "matches", page->rule[i].seen);
		put_number(rule, "faults", page->rule[i].done);
		append(array, rule);
	}
	put(object, "rules", array);
	append(arg, object);
}

static int list_rules(void)
{
	json_t *doc, *array;

	if (!options.json) {
		pages_each(page_list, NULL);
		return 0;
	}
	doc = document("fault list");
	array = pack("[]");
	pages_each(page_list, array);
	put(doc, "processes", array);
	print_document(doc);
	return 0;
}

static int run_with(char **words)
{
	if (!words[0] || !words[1])
		misused("fault run wants RULES -- COMMAND");
	fault_check_rules(words[0]);
	setenv("GPUMEM_FAULT", words[0], 1);
	execvp(words[1], words + 1);
	die("%s: %s", words[1], strerror(errno));
}

/* ---- the command line */

static unsigned long positive(const char *option, const char *text)
{
	char *end;
	unsigned long number = strtoul(text, &end, 10);

	if (*text < '1' || *text > '9' || *end)
		misused("--%s %s: not a number above 0", option, text);
	return number;
}

int fault(int argc, char **argv)
{
	static const struct option table[] = {
		{ "calls", required_argument, NULL, OPT_CALLS },
		{ "cgroup", required_argument, NULL, OPT_CGROUP },
		{ "env", required_argument, NULL, OPT_ENV },
		{ "error", required_argument, NULL, OPT_ERROR },
		{ "first", required_argument, NULL, OPT_FIRST },
		{ "help", no_argument, NULL, 'h' },
		{ "json", no_argument, NULL, 'j' },
		{ "last", required_argument, NULL, OPT_LAST },
		{ "leaks", no_argument, NULL, OPT_LEAKS },
		{ "pid", required_argument, NULL, 'p' },
		{ "timeout", required_argument, NULL, OPT_TIMEOUT },
		{ 0 },
	};
	struct sweep sweep = { .calls = "alloc" };
	const char *command;
	char **words;
	bool sweeps = false, where = false;
	int c;

	while ((c = getopt_long(argc, argv, "hjp:", table, NULL)) != -1) {
		switch (c) {
		case OPT_CALLS:
			sweep.calls = optarg;
			break;
		case OPT_ENV:
			sweep.env = optarg;
			break;
		case OPT_ERROR:
			sweep.error = optarg;
			break;
		case OPT_FIRST:
			sweep.first = positive("first", optarg);
			break;
		case OPT_LAST:
			sweep.last = positive("last", optarg);
			break;
		case OPT_LEAKS:
			sweep.leaks = true;
			break;
		case OPT_TIMEOUT:
			sweep.timeout = positive("timeout", optarg);
			break;
		case OPT_CGROUP:
			wanted_cgroup = optarg;
			where = true;
			break;
		case 'p':
			wanted_pid = positive("pid", optarg) > 1 << 22 ? 0 : atoi(optarg);
			if (!wanted_pid)
				misused("--pid %s: not a process id", optarg);
			where = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		case 'j':
			options.json = true;
			break;
		default:
			fputs("Try gpumem fault --help.\n", stderr);
			return 2;
		}
		sweeps |= c >= OPT_CALLS && c != OPT_CGROUP;
	}
	words = argv + optind;
	command = words[0];
	if (!command) {
		fputs(usage, stderr);
		return 2;
	}
	words++;
	if (sweeps && strcmp(command, "sweep"))
		misused("this option belongs to gpumem fault sweep");
	if (where && (!strcmp(command, "run") || !strcmp(command, "sweep")))
		misused("fault %s takes no --pid and no --cgroup", command);
	if (!strcmp(command, "run"))
		return run_with(words);
	if (!strcmp(command, "set") && words[0] && !words[1])
		return set_rules(words[0]);
	if (!strcmp(command, "clear") && !words[0])
		return set_rules("");
	if (!strcmp(command, "list") && !words[0])
		return list_rules();
	if (!strcmp(command, "sweep") && words[0])
		return fault_sweep(&sweep, words);
	fputs(usage, stderr);
	return 2;
}
