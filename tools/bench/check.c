// SPDX-License-Identifier: GPL-2.0
/*
 * What the checker costs (GPUMEM_CHECK=1), beside the same calls without it, each in a process of its own: copies to
 * the device, on it and from it with a synchronization, and pairs of the stream-ordered allocator.  Pairs are measured
 * without stacks, too.  Test programs whose work is copies are measured as a whole, if they lie beside this program.
 *
 * Other work on the machine can only make a call slower.  So the fastest round counts, of several processes of each
 * kind that take turns: work that lasts longer than one process disturbs all kinds.
 */
#include <cuda.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

#define TURNS	5			/* processes of each kind */
#define ROUNDS	8			/* in a process */
#define PAIRS	1000			/* in a round */
#define COPIES	100			/* at most in a round */
#define MOST_KINDS	2
#define BYTES	(4 * MIB)		/* copied in a round at most */

static CUdeviceptr from, to;
static unsigned char *host;
static CUstream stream;
static size_t piece;

static void start(void)
{
	bench_cuda();
	bench_cu(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

/* Nanoseconds of @step in the fastest of ROUNDS. */
static double fastest(int calls, void (*step)(void *arg))
{
	double least = 0;

	for (int i = -1; i < ROUNDS; i++) {
		double from = bench_now(), ns;

		for (int k = 0; k < calls; k++)
			step(NULL);
		ns = (bench_now() - from) / calls;
		/* A first round is not counted. */
		if (!i || (i > 0 && ns < least))
			least = ns;
	}
	return least;
}

static void pair(void *arg)
{
	CUdeviceptr p;

	(void)arg;
	bench_cu(cuMemAllocAsync(&p, 4096, stream));
	bench_cu(cuMemFreeAsync(p, stream));
}

static double pairs(void)
{
	start();
	return fastest(PAIRS, pair);
}

/* A pair whose block is used in between. */
static void pair_used(void *arg)
{
	CUdeviceptr p;

	(void)arg;
	bench_cu(cuMemAllocAsync(&p, 4096, stream));
	bench_cu(cuMemsetD8Async(p, 1, 4096, stream));
	bench_cu(cuMemFreeAsync(p, stream));
}

static double pairs_used(void)
{
	start();
	return fastest(PAIRS / 10, pair_used);
}

static void copy(void *arg)
{
	(void)arg;
	bench_cu(cuMemcpyHtoDAsync(from, host, piece, stream));
	bench_cu(cuMemcpyDtoDAsync(to, from, piece, stream));
	bench_cu(cuMemcpyDtoHAsync(host, to, piece, stream));
	bench_cu(cuStreamSynchronize(stream));
}

static double copies(void)
{
	start();
	bench_cu(cuMemAlloc(&from, piece));
	bench_cu(cuMemAlloc(&to, piece));
	bench_cu(cuMemAllocHost((void **)&host, piece));
	memset(host, 1, piece);
	return fastest(BYTES / piece < COPIES ? BYTES / piece : COPIES, copy);
}

struct kind {
	const char *name;
	bool check, stacks;
	double bar;
};

/* Measure calls without the checker, which is the peer @off, and with it in the ways of @kinds. */
static void compare(double (*measure)(void), int turns, enum bench_class class, const char *off,
		    const struct kind *kinds, size_t count)
{
	double least[1 + MOST_KINDS] = { 0 };

	for (int turn = 0; turn < turns; turn++) {
		for (size_t i = 0; i <= count; i++) {
			const char *const environment[] = {
				"GPUMEM_CHECK", i && kinds[i - 1].check ? "1" : "0",
				"GPUMEM_CHECK_STACKS", i && kinds[i - 1].stacks ? "1" : "0", NULL,
			};
			double ns = bench_apart(measure, environment);

			if (!turn || ns < least[i])
				least[i] = ns;
		}
	}
	bench_peer(off, least[0]);
	for (size_t i = 0; i < count; i++)
		bench_beside(kinds[i].name, class, least[i + 1], off, kinds[i].bar);
}

/* The path of a test program; false: it is not there. */
static bool suite_path(const char *name, char *path, size_t room)
{
	ssize_t length = readlink("/proc/self/exe", path, room - 64);
	char *slash;

	if (length <= 0)
		return false;
	path[length] = '\0';
	slash = strrchr(path, '/');
	snprintf(slash, 64, "/../selftests/%s", name);
	return !access(path, X_OK);
}

static double suite(const char *path, const char *check)
{
	struct timespec from, until;
	int status;
	pid_t pid;

	clock_gettime(CLOCK_MONOTONIC, &from);
	pid = fork();
	if (pid < 0)
		bench_die("fork");
	if (!pid) {
		int null = open("/dev/null", O_WRONLY);

		dup2(null, STDOUT_FILENO);
		dup2(null, STDERR_FILENO);
		setenv("GPUMEM_CHECK", check, 1);
		setenv("GPUMEM_CHECK_LEAKS", "0", 1);
		execl(path, path, NULL);
		_exit(127);
	}
	/* A program may have reports, or want answers that the checker changes. */
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) == 127)
		bench_die(path);
	clock_gettime(CLOCK_MONOTONIC, &until);
	return (until.tv_sec - from.tv_sec) * 1e9 + until.tv_nsec - from.tv_nsec;
}

static void suites(void)
{
	/* Programs that run for so long that reading debug information for reports does not count. */
	static const char *const names[] = { "t_cuda_copy", "t_cuda_async", "t_cuda_batch_model" };
	char path[4096];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *off = bench_name("check_suite_off_%s", names[i] + 2);

		if (!suite_path(names[i], path, sizeof(path)))
			continue;
		bench_peer(off, suite(path, "0"));
		bench_beside(bench_name("check_suite_%s", names[i] + 2), BENCH_RATIO, suite(path, "1"), off, 3);
	}
}

/* @words: of the names, before the last one or "". */
static void measure_all(const char *words, int turns, enum bench_class class, bool bars)
{
	static const struct {
		size_t bytes;
		const char *name;
	} sizes[] = { { 4 * KIB, "4K" }, { 64 * KIB, "64K" }, { MIB, "1M" } };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const struct kind kind = {
			bench_name("check_%scopies_%s", words, sizes[i].name), true, true, bars ? 3 : 0,
		};

		piece = sizes[i].bytes;
		compare(copies, turns, class, bench_name("check_%scopies_off_%s", words, sizes[i].name), &kind, 1);
	}
	const struct kind pair_kinds[] = {
		{ bench_name("check_%spair_without_stacks", words), true, false, 2 },
		{ bench_name("check_%spair", words), true, true, 0 },
	};
	const struct kind used_kinds[] = {
		{ bench_name("check_%spair_used_without_stacks", words), true, false, 0 },
		{ bench_name("check_%spair_used", words), true, true, 0 },
	};

	compare(pairs, turns, class, bench_name("check_%spair_off", words), pair_kinds, 2);
	compare(pairs_used, turns, class, bench_name("check_%spair_used_off", words), used_kinds, 2);
}

void bench_check(void)
{
	measure_all("", TURNS, BENCH_RATIO, true);
	suites();
}

/* The same by instructions, where copies count next to nothing: so they have no bar. */
void bench_check_counted(void)
{
	measure_all("counted_", 1, BENCH_ALLOC, false);
}
