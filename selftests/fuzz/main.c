// SPDX-License-Identifier: GPL-2.0
/*
 * The loop: take a program of the corpus, change it, run it, and keep it if it yields a new signal.
 *
 *	gpumem-fuzz [-t SECONDS] [-c DIR] [-w DIR] [-o FILE]	fuzz
 *	gpumem-fuzz -r FILE...					replay; prints each call's result
 *
 *	-c  run the programs of DIR first, as the corpus	-w  write a small corpus to DIR that
 *	-o  write the blocks reached, "section offset"		    yields all signals of this run
 *
 * GPUMEM_SEED repeats the decisions of a run, but not the order in which threads and workers
 * execute.  If a program takes more than HANG_SECONDS, the loop kills the executor that runs it.
 *
 * The exit status is 0 if the kernel did not complain, 1 if it did, 2 if the fuzzer could not run.
 * After a complaint the fuzzer prints the last RECENT programs and, with -w, writes them to the
 * file "crash" in DIR.
 *
 * Locks: none; the loop has one thread.
 */
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "fuzz.h"

#define HANG_SECONDS	20
#define RECENT		16
#define MAX_CORPUS	4096
/* Programs that one executor runs.  Ending or killing it tests the end of a process. */
#define PER_PROCESS	100

struct entry {
	struct prog prog;
	uint32_t *signal;
	unsigned int signals;
};

static struct entry *corpus[MAX_CORPUS];
static unsigned int corpus_n;
static struct set seen;
static unsigned int blocks_seen;

static struct shared *shared;
static struct trace remote;
static pid_t child = -1;
static int to_child, from_child;
static unsigned int child_ran;
static unsigned long long ran, hung;

static struct prog recent[RECENT];
static const char *write_dir;

/* --- the executor */

static bool start(void)
{
	int in[2], out[2];

	if (pipe(in) || pipe(out))
		return false;
	fflush(NULL);
	child = fork();
	if (!child) {
		close(in[1]);
		close(out[0]);
		executor(shared, in[0], out[1]);
	}
	close(in[0]);
	close(out[1]);
	to_child = in[1];
	from_child = out[0];
	child_ran = 0;
	return child > 0;
}

static void stop(bool hard)
{
	if (child < 0)
		return;
	if (hard)
		kill(child, SIGKILL);
	close(to_child);
	close(from_child);
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	child = -1;
}

/* Run @p in the executor.  False: the program did not end in time, and the executor was killed. */
static bool run(const struct prog *p)
{
	struct pollfd fd = { .events = POLLIN };
	char byte = 0;

	if (child_ran == PER_PROCESS)
		stop(ran & 1);
	if (child < 0 && !start()) {
		perror("gpumem-fuzz: fork");
		exit(2);
	}
	recent[ran % RECENT] = *p;
	shared->prog = *p;
	shared->signals = 0;
	ran++;
	child_ran++;
	trace_take(&remote, shared->signal, 0);
	fd.fd = from_child;
	if (write(to_child, &byte, 1) != 1 || poll(&fd, 1, HANG_SECONDS * 1000) != 1 ||
	    read(from_child, &byte, 1) != 1) {
		hung++;
		stop(true);
		return false;
	}
	if (shared->broken[0]) {
		fprintf(stderr, "gpumem-fuzz: %s\n", shared->broken);
		exit(2);
	}
	shared->signals = trace_take(&remote, shared->signal, shared->signals);
	return true;
}

/* --- the kernel's health */

static long number_in(const char *path, const char *key)
{
	FILE *f = fopen(path, "re");
	char line[256];
	long v = -1;

	while (f && fgets(line, sizeof(line), f)) {
		char *at = strstr(line, key);

		if (at && sscanf(at + strlen(key), "%ld", &v) == 1)
			break;
	}
	if (f)
		fclose(f);
	return v;
}

static long taint_before, locks_before;

static long taint(void)
{
	return number_in("/proc/sys/kernel/tainted", "");
}

static long locks(void)
{
	return number_in("/proc/lockdep_stats", "debug_locks:");
}

static bool complained(bool thoroughly)
{
	return taint() != taint_before || (thoroughly && locks() != locks_before);
}

static void print_recent(FILE *f)
{
	unsigned long long first = ran > RECENT ? ran - RECENT : 0;

	for (unsigned long long i = first; i < ran; i++) {
		fprintf(f, "# program %llu\n", i);
		prog_print(f, &recent[i % RECENT]);
	}
}

static int report_complaint(void)
{
	char path[512];
	FILE *f;

	printf("# the kernel complained; what ran last:\n");
	print_recent(stdout);
	if (write_dir) {
		snprintf(path, sizeof(path), "%s/crash", write_dir);
		f = fopen(path, "we");
		if (f) {
			print_recent(f);
			fclose(f);
		}
	}
	return 1;
}

/* --- the corpus */

static unsigned int count_new(void)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < shared->signals; i++)
		n += !set_has(&seen, shared->signal[i]);
	return n;
}

/* Does a run of @p yield all signals of @want? */
static bool shows(const struct prog *p, const uint32_t *want, unsigned int n)
{
	struct set have = { 0 };
	bool all = true;

	if (!run(p))
		return false;
	for (unsigned int i = 0; i < shared->signals; i++)
		set_add(&have, shared->signal[i]);
	for (unsigned int i = 0; i < n && all; i++)
		all = set_has(&have, want[i]);
	free(have.slot);
	return all;
}

static void minimise(struct prog *p, const uint32_t *want, unsigned int n)
{
	for (int i = p->n - 1; i >= 0 && p->n > 1; i--) {
		struct prog less = *p;

		prog_remove(&less, i);
		if (shows(&less, want, n))
			*p = less;
	}
}

/* The last run was of @p and yielded a new signal: keep @p, minimised if @smaller. */
static void keep(const struct prog *p, bool smaller)
{
	struct entry *e = calloc(1, sizeof(*e));
	uint32_t fresh[MAX_SIGNALS];
	unsigned int n = 0;

	if (!e || corpus_n == MAX_CORPUS) {
		free(e);
		return;
	}
	for (unsigned int i = 0; i < shared->signals; i++)
		if (!set_has(&seen, shared->signal[i]))
			fresh[n++] = shared->signal[i];
	e->prog = *p;
	if (smaller && shows(p, fresh, n))
		minimise(&e->prog, fresh, n);
	if (!run(&e->prog)) {
		free(e);
		return;
	}
	for (unsigned int i = 0; i < n; i++)
		blocks_seen += set_add(&seen, fresh[i]) && SIGNAL_IS_BLOCK(fresh[i]);
	for (unsigned int i = 0; i < shared->signals; i++)
		blocks_seen += set_add(&seen, shared->signal[i]) &&
			       SIGNAL_IS_BLOCK(shared->signal[i]);
	e->signals = shared->signals;
	e->signal = malloc(e->signals * sizeof(uint32_t) + 1);
	if (e->signal)
		memcpy(e->signal, shared->signal, e->signals * sizeof(uint32_t));
	else
		e->signals = 0;
	corpus[corpus_n++] = e;
}

static void try(const struct prog *p, bool smaller)
{
	if (run(p) && count_new())
		keep(p, smaller);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char * const *)a, *(char * const *)b);
}

static bool load(const char *dir)
{
	char *names[MAX_CORPUS];
	unsigned int n = 0;
	struct dirent *e;
	struct prog p;
	char path[512];
	bool good = true;
	DIR *d = opendir(dir);

	while (d && (e = readdir(d)) && n < MAX_CORPUS)
		if (e->d_name[0] != '.')
			names[n++] = strdup(e->d_name);
	if (d)
		closedir(d);
	qsort(names, n, sizeof(names[0]), by_name);
	for (unsigned int i = 0; i < n; i++) {
		FILE *f;

		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		f = fopen(path, "re");
		if (f && prog_parse(f, path, &p))
			try(&p, false);
		else
			good = false;
		if (f)
			fclose(f);
		free(names[i]);
	}
	printf("# corpus of %u programs\n", n);
	return good && n;
}

static void write_entry(const struct entry *e)
{
	uint64_t hash = 0xcbf29ce484222325;
	char *text = NULL, path[512];
	size_t size = 0;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return;
	prog_print(f, &e->prog);
	fclose(f);
	for (size_t i = 0; i < size; i++)
		hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3;
	snprintf(path, sizeof(path), "%s/%010llx", write_dir,
		 (unsigned long long)(hash >> 24));
	f = fopen(path, "we");
	if (f) {
		fprintf(f, "# SPDX-License-Identifier: GPL-2.0\n%s", text);
		fclose(f);
	}
	free(text);
}

/*
 * Write few programs that together yield the signals of all: repeatedly the program that adds
 * most signals to those written.  Return their number.
 */
static unsigned int write_corpus(void)
{
	struct set have = { 0 };
	unsigned int written = 0;

	for (;;) {
		struct entry *best = NULL;
		unsigned int most = 0;

		for (unsigned int i = 0; i < corpus_n; i++) {
			unsigned int n = 0;

			for (unsigned int j = 0; j < corpus[i]->signals; j++)
				n += !set_has(&have, corpus[i]->signal[j]);
			if (n > most) {
				most = n;
				best = corpus[i];
			}
		}
		if (!best)
			break;
		for (unsigned int j = 0; j < best->signals; j++)
			set_add(&have, best->signal[j]);
		write_entry(best);
		written++;
	}
	free(have.slot);
	return written;
}

static void write_blocks(const char *path)
{
	FILE *f = fopen(path, "we");

	for (size_t i = 0; f && i < seen.room; i++)
		if (seen.slot[i] && SIGNAL_IS_BLOCK(seen.slot[i] - 1))
			signal_print(f, seen.slot[i] - 1);
	if (f)
		fclose(f);
	else
		perror(path);
}

/* --- what to do */

static int fuzz(unsigned int seconds)
{
	__u64 end = in_seconds(seconds), tell = in_seconds(10);
	struct rng r;

	rng_start(&r, "gpumem-fuzz");
	while (mono_ns() < end) {
		struct prog p;

		if (!corpus_n || !rng_below(&r, 20)) {
			prog_random(&r, &p);
		} else {
			/* In half of the cases pick from the newer half only. */
			unsigned int from = rng_below(&r, 2) ? corpus_n / 2 : 0;

			p = corpus[from + rng_below(&r, corpus_n - from)]->prog;
			prog_mutate(&r, &p, &corpus[rng_below(&r, corpus_n)]->prog);
		}
		try(&p, true);
		if (complained(ran % 64 == 0))
			return report_complaint();
		if (mono_ns() > tell) {
			printf("# %llu programs, corpus %u, %u blocks, %zu signals, %llu killed\n",
			       ran, corpus_n, blocks_seen, seen.n, hung);
			fflush(stdout);
			tell = in_seconds(10);
		}
	}
	stop(false);
	return complained(true) ? report_complaint() : 0;
}

static int replay(char **files)
{
	for (; *files; files++) {
		FILE *f = fopen(*files, "re");
		struct prog p;

		if (!f || !prog_parse(f, *files, &p)) {
			fprintf(stderr, "gpumem-fuzz: %s is no program\n", *files);
			return 2;
		}
		fclose(f);
		printf("# %s\n", *files);
		prog_print(stdout, &p);
		fflush(stdout);
		if (!run(&p))
			printf("# killed after %d seconds\n", HANG_SECONDS);
		for (unsigned int i = 0; i < p.n; i++)
			printf("# %u %s: %s\n", i, specs[p.calls[i].kind].name,
			       shared->result[i] ? strerror(-shared->result[i]) : "0");
		if (complained(true))
			return report_complaint();
	}
	stop(false);
	return 0;
}

int main(int argc, char **argv)
{
	const char *corpus_dir = NULL, *blocks = NULL, *lacks;
	unsigned int seconds = 10;
	bool again = false, kcov;
	int o, ret;

	while ((o = getopt(argc, argv, "t:c:w:o:r")) != -1) {
		switch (o) {
		case 't':
			seconds = strtoul(optarg, NULL, 0);
			break;
		case 'c':
			corpus_dir = optarg;
			break;
		case 'w':
			write_dir = optarg;
			break;
		case 'o':
			blocks = optarg;
			break;
		case 'r':
			again = true;
			break;
		default:
			return 2;
		}
	}
	lacks = executor_prepare();
	if (lacks) {
		fprintf(stderr, "gpumem-fuzz: %s\n", lacks);
		return 2;
	}
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		return 2;
	signal(SIGPIPE, SIG_IGN);
	kcov = cover_init();
	if (kcov && !trace_remote(&remote))
		perror("gpumem-fuzz: workers are not traced: KCOV_REMOTE_ENABLE");
	taint_before = taint();
	locks_before = locks();
	if (again)
		return replay(argv + optind);
	if (corpus_dir && !load(corpus_dir)) {
		fprintf(stderr, "gpumem-fuzz: %s: no corpus, or a bad one\n", corpus_dir);
		return 2;
	}
	ret = complained(true) ? report_complaint() : fuzz(seconds);
	printf("# %llu programs, corpus %u, %u blocks, %zu signals, %llu killed%s\n", ran, corpus_n,
	       blocks_seen, seen.n, hung, kcov && !blocks_seen ? "; not instrumented" : "");
	if (write_dir && !ret)
		printf("# %u programs written to %s\n", write_corpus(), write_dir);
	if (blocks)
		write_blocks(blocks);
	return ret;
}
