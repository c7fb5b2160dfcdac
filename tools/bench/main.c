// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem-bench: our operations against their peers, as ratios.
 *
 *   gpumem-bench [NAME...]
 *
 * Exit status: 1 if a ratio is above its bar.  Wall time in a virtual machine under emulation says
 * nothing; see Documentation/testing.rst for how the figures there were made.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

double bench_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

int bench_row(const char *what, double ours, const char *peer, double theirs, double limit)
{
	double ratio = ours / theirs;
	int missed = limit && ratio > limit;

	printf("%-44s %12.0f  %-28s %12.0f  %6.3f", what, ours, peer, theirs, ratio);
	if (limit)
		printf("  (bar %.2f)%s", limit, missed ? "  MISSED" : "");
	printf("\n");
	return missed;
}

void bench_die(const char *what)
{
	fprintf(stderr, "gpumem-bench: %s: %s\n", what, strerror(errno));
	exit(2);
}

static int compare(const void *a, const void *b)
{
	double d = *(const double *)a - *(const double *)b;

	return d < 0 ? -1 : d > 0;
}

double bench_median(double *v, size_t n)
{
	qsort(v, n, sizeof(*v), compare);
	return v[n / 2];
}

double bench_null_syscall(void)
{
	enum { ROUNDS = 9, CALLS = 1000 };
	double v[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		double start = bench_now();

		for (int k = 0; k < CALLS; k++)
			syscall(SYS_getppid);
		v[i] = (bench_now() - start) / CALLS;
	}
	return bench_median(v, ROUNDS);
}

static const struct {
	const char *name;
	int (*run)(void);
} benches[] = {
	{ "pin", bench_pin },
	{ "lookup", bench_lookup },
};

int main(int argc, char **argv)
{
	int missed = 0, found;

	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("%-44s %12s  %-28s %12s  %6s\n", "what", "ns", "peer", "ns", "ratio");
	if (argc == 1) {
		for (size_t i = 0; i < sizeof(benches) / sizeof(benches[0]); i++)
			missed += benches[i].run();
		return missed != 0;
	}
	for (int k = 1; k < argc; k++) {
		found = 0;
		for (size_t i = 0; i < sizeof(benches) / sizeof(benches[0]); i++) {
			if (strcmp(benches[i].name, argv[k]))
				continue;
			missed += benches[i].run();
			found = 1;
		}
		if (!found) {
			fprintf(stderr, "gpumem-bench: no bench %s: pin, lookup\n", argv[k]);
			return 2;
		}
	}
	return missed != 0;
}
