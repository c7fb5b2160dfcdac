// SPDX-License-Identifier: GPL-2.0
/*
 * What the checker costs (GPUMEM_CHECK=1), beside the same calls without it, each in a process of its own: copies to
 * the device, on it and from it with a synchronization, and pairs of the stream-ordered allocator.  Pairs are measured
 * without stacks, too.  Test programs whose work is copies are measured as a whole, if they lie beside this program.
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

#define ROUNDS	5
#define PAIRS	2000
#define BYTES	(4 * MIB)		/* copied in a round */

static CUdeviceptr from, to;
static unsigned char *host;
static CUstream stream;
static size_t piece;

static void start(void)
{
	bench_cuda();
	bench_cu(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
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
	return bench_calls(ROUNDS, PAIRS, pair, NULL);
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
	return bench_calls(ROUNDS, PAIRS, pair_used, NULL);
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
	return bench_calls(ROUNDS, BYTES / piece, copy, NULL);
}

/* @check, @stacks: of the environment. */
static double apart(double (*measure)(void), const char *check, const char *stacks)
{
	const char *const environment[] = { "GPUMEM_CHECK", check, "GPUMEM_CHECK_STACKS", stacks, NULL };

	return bench_apart(measure, environment);
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

void bench_check(void)
{
	static const struct {
		size_t bytes;
		const char *name;
	} sizes[] = { { 4 * KIB, "4K" }, { 64 * KIB, "64K" }, { MIB, "1M" } };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const char *off = bench_name("check_copies_off_%s", sizes[i].name);

		piece = sizes[i].bytes;
		bench_peer(off, apart(copies, "0", "1"));
		bench_beside(bench_name("check_copies_%s", sizes[i].name), BENCH_RATIO, apart(copies, "1", "1"), off, 3);
	}
	bench_peer("check_pair_off", apart(pairs, "0", "1"));
	bench_beside("check_pair_without_stacks", BENCH_RATIO, apart(pairs, "1", "0"), "check_pair_off", 2);
	bench_beside("check_pair", BENCH_RATIO, apart(pairs, "1", "1"), "check_pair_off", 0);
	bench_peer("check_pair_used_off", apart(pairs_used, "0", "1"));
	bench_beside("check_pair_used_without_stacks", BENCH_RATIO, apart(pairs_used, "1", "0"), "check_pair_used_off", 0);
	bench_beside("check_pair_used", BENCH_RATIO, apart(pairs_used, "1", "1"), "check_pair_used_off", 0);
	suites();
}
