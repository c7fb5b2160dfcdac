// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem-bench: runs benches and prints gpumem's operations beside their peers.
 *
 *   gpumem-bench [--counted | --nodes | --timed] [--tsv] [--settle SECONDS] [NAME...]
 *
 * Runs the named benches, or all, or those that are for counted instructions, for counted
 * instructions on a device with a memory node of its own, or for wall time.  --settle waits first,
 * for the kernel to finish what booting began.  Exit status: 1 if a ratio is above its bar, 2 if a
 * bench could not do its work.
 *
 * --tsv prints one line for each row: name, class, nanoseconds, peer or "-", bar or "-".  The class
 * is "call", "alloc" or "ratio" for a row of ours, "peer", or "skip" for a peer that the machine
 * lacks, with "-" and the reason.  The last line is "end": an output without it is incomplete.
 */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

#define MOST_ROWS	128

enum { PEER = -1, SKIP = -2 };

static const char *const class_names[] = {
	[BENCH_CALL] = "call", [BENCH_ALLOC] = "alloc", [BENCH_RATIO] = "ratio",
};

/* The rows that the running bench reported. */
static struct row {
	const char *name, *peer;
	int class;
	double ns, bar;
} rows[MOST_ROWS];
static int row_count;
static bool tsv;

static const struct bench {
	const char *name;
	void (*run)(void);
	enum kind { COUNTED, NODES, TIMED } kind;
} benches[] = {
	{ "pin", bench_pin, COUNTED },
	{ "bo", bench_bo, COUNTED },
	{ "share", bench_share, COUNTED },
	{ "mem", bench_mem, COUNTED },
	{ "vmm", bench_vmm, COUNTED },
	{ "publish", bench_publish, COUNTED },
	{ "stream", bench_stream, COUNTED },
	{ "streams", bench_streams, COUNTED },
	{ "queue", bench_queue, COUNTED },
	{ "lookup", bench_lookup, COUNTED },
	{ "live", bench_live, COUNTED },
	{ "malloc", bench_malloc, COUNTED },
	{ "pool", bench_pool, COUNTED },
	{ "managed", bench_managed, COUNTED },
	{ "pageable", bench_pageable, COUNTED },
	{ "check_counted", bench_check_counted, COUNTED },
	{ "copy", bench_copy, TIMED },
	{ "vmm_copy", bench_vmm_copy, TIMED },
	{ "kept", bench_kept, TIMED },
	{ "check", bench_check, TIMED },
	{ "ring", bench_ring, TIMED },
	{ "engine", bench_engine, TIMED },
	{ "pool_threads", bench_pool_threads, TIMED },
	{ "live_million", bench_live_million, TIMED },
	{ "devices", bench_devices, TIMED },
	{ "clients", bench_clients, TIMED },
	{ "threads", bench_threads, TIMED },
	{ "vmm_threads", bench_vmm_threads, TIMED },
	{ "managed_timed", bench_managed_timed, TIMED },
	{ "managed_nodes", bench_managed_nodes, NODES },
	{ "pageable_timed", bench_pageable_timed, TIMED },
	{ "rdma", bench_rdma, TIMED },
};

#define BENCHES	(sizeof(benches) / sizeof(benches[0]))

void bench_die(const char *what)
{
	fprintf(stderr, "gpumem-bench: %s: %s\n", what, strerror(errno));
	exit(2);
}

const char *bench_name(const char *format, ...)
{
	va_list args;
	char *name;
	int n;

	va_start(args, format);
	n = vasprintf(&name, format, args);
	va_end(args);
	if (n < 0)
		bench_die("vasprintf");
	return name;
}

static void add(const char *name, int class, double ns, const char *peer, double bar)
{
	if (row_count == MOST_ROWS) {
		errno = ENOSPC;
		bench_die(name);
	}
	rows[row_count++] = (struct row){ name, peer, class, ns, bar };
}

void bench_ours(const char *name, enum bench_class class, double ns)
{
	add(name, class, ns, NULL, 0);
}

void bench_beside(const char *name, enum bench_class class, double ns, const char *peer, double bar)
{
	add(name, class, ns, peer, bar);
}

void bench_peer(const char *name, double ns)
{
	add(name, PEER, ns, NULL, 0);
}

void bench_skip(const char *name, const char *why)
{
	add(name, SKIP, 0, why, 0);
}

static const struct row *peer_of(const struct row *r)
{
	for (int i = 0; r->peer && i < row_count; i++)
		if (rows[i].class == PEER && !strcmp(rows[i].name, r->peer))
			return &rows[i];
	return NULL;
}

/* Prints @r; returns whether it missed its bar. */
static bool show(const struct row *r)
{
	const struct row *peer = peer_of(r);
	const char *class = r->class == PEER ? "peer" :
			    r->class == SKIP ? "skip" : class_names[r->class];
	bool missed = peer && r->bar && r->ns > r->bar * peer->ns;
	char bar[16] = "-";

	if (r->bar)
		snprintf(bar, sizeof(bar), "%.2f", r->bar);
	if (tsv && r->class == SKIP) {
		printf("%s\tskip\t-\t%s\t-\n", r->name, r->peer);
	} else if (tsv) {
		printf("%s\t%s\t%.2f\t%s\t%s\n", r->name, class, r->ns, r->peer ? r->peer : "-",
		       bar);
	} else if (r->class == SKIP) {
		printf("%-34s %14s  %s\n", r->name, "skipped", r->peer);
	} else {
		printf("%-34s %14.1f", r->name, r->ns);
		if (peer)
			printf("  %-30s %14.1f  %6.3f", peer->name, peer->ns, r->ns / peer->ns);
		if (peer && r->bar)
			printf("  (bar %s)%s", bar, missed ? "  MISSED" : "");
		printf("\n");
	}
	return missed;
}

/* Runs @b in a process of its own; returns its status. */
static int run(const struct bench *b)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid < 0)
		bench_die("fork");
	if (!pid) {
		bool missed = false;

		b->run();
		for (int i = 0; i < row_count; i++)
			missed |= show(&rows[i]);
		fflush(stdout);
		_exit(missed);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			bench_die("waitpid");
	if (WIFEXITED(status) && WEXITSTATUS(status) < 2)
		return WEXITSTATUS(status);
	if (!WIFEXITED(status))
		fprintf(stderr, "gpumem-bench: %s: %s\n", b->name, strsignal(WTERMSIG(status)));
	return 2;
}

static const struct bench *find(const char *name)
{
	for (size_t i = 0; i < BENCHES; i++)
		if (!strcmp(benches[i].name, name))
			return &benches[i];
	return NULL;
}

static void usage(void)
{
	fprintf(stderr, "usage: gpumem-bench [--counted | --nodes | --timed] [--tsv] [--settle SECONDS] "
			"[NAME...]\nbenches:");
	for (size_t i = 0; i < BENCHES; i++)
		fprintf(stderr, " %s", benches[i].name);
	fprintf(stderr, "\n");
	exit(2);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "counted", no_argument, NULL, 'c' },
		{ "nodes", no_argument, NULL, 'n' },
		{ "timed", no_argument, NULL, 't' },
		{ "tsv", no_argument, NULL, 'v' },
		{ "settle", required_argument, NULL, 's' },
		{ 0 },
	};
	int kinds = 1 << COUNTED | 1 << NODES | 1 << TIMED;
	unsigned int settle = 0;
	int c, rc = 0;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'c':
			kinds &= 1 << COUNTED;
			break;
		case 'n':
			kinds &= 1 << NODES;
			break;
		case 't':
			kinds &= 1 << TIMED;
			break;
		case 'v':
			tsv = true;
			break;
		case 's':
			settle = strtoul(optarg, NULL, 10);
			break;
		default:
			usage();
		}
	}
	for (int i = optind; i < argc; i++)
		if (!find(argv[i]))
			usage();
	while (settle)
		settle = sleep(settle);
	if (!tsv)
		printf("%-34s %14s  %-30s %14s  %6s\n", "ours", "ns", "peer", "ns", "ratio");
	for (size_t i = 0; i < BENCHES && rc < 2; i++) {
		bool wanted = optind == argc;

		for (int k = optind; k < argc; k++)
			wanted |= !strcmp(benches[i].name, argv[k]);
		if (wanted && kinds & 1 << benches[i].kind) {
			int status = run(&benches[i]);

			rc = status > rc ? status : rc;
		}
	}
	if (tsv && rc < 2)
		printf("end\n");
	return rc;
}
