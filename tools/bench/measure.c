// SPDX-License-Identifier: GPL-2.0
/*
 * Clocks, medians, and what several benches need.
 */
#include <cuda.h>
#include <errno.h>
#include <fcntl.h>
#include <gpumem.h>
#include <linux/gpumem.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

#define MOST_ROUNDS	15

double bench_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

double bench_lap(double *last)
{
	double now = bench_now(), ns = now - *last;

	*last = now;
	return ns;
}

static int compare(const void *a, const void *b)
{
	double d = *(const double *)a - *(const double *)b;

	return d < 0 ? -1 : d > 0;
}

double bench_median(double *v, int n)
{
	qsort(v, n, sizeof(*v), compare);
	return v[n / 2];
}

void bench_phases(double ns[BENCH_PHASES], int rounds, int calls,
		  void (*step)(void *arg, double *ns), void *arg)
{
	double v[BENCH_PHASES][MOST_ROUNDS];

	if (rounds > MOST_ROUNDS)
		rounds = MOST_ROUNDS;
	for (int i = -1; i < rounds; i++) {
		double sum[BENCH_PHASES] = { 0 };

		for (int k = 0; k < calls; k++)
			step(arg, sum);
		for (int p = 0; p < BENCH_PHASES && i >= 0; p++)
			v[p][i] = sum[p] / calls;
	}
	for (int p = 0; p < BENCH_PHASES; p++)
		ns[p] = bench_median(v[p], rounds);
}

double bench_calls(int rounds, int calls, void (*step)(void *arg), void *arg)
{
	double v[MOST_ROUNDS];

	if (rounds > MOST_ROUNDS)
		rounds = MOST_ROUNDS;
	for (int i = -1; i < rounds; i++) {
		double start = bench_now();

		for (int k = 0; k < calls; k++)
			step(arg);
		if (i >= 0)
			v[i] = (bench_now() - start) / calls;
	}
	return bench_median(v, rounds);
}

static double timed(int calls, void (*before)(void), void (*step)(void *arg), void *arg)
{
	double ns = 0;

	for (int k = 0; k < calls; k++) {
		double start;

		if (before)
			before();
		start = bench_now();
		step(arg);
		ns += bench_now() - start;
	}
	return ns / calls;
}

double bench_pairs(int rounds, int calls, void (*before)(void), void (*step)(void *arg), void *arg,
		   void (*peer)(void *arg), void *peer_arg, double *peer_ns)
{
	double ratio[MOST_ROUNDS], theirs[MOST_ROUNDS];

	if (rounds > MOST_ROUNDS)
		rounds = MOST_ROUNDS;
	for (int i = -1; i < rounds; i++) {
		double b = timed(calls, before, peer, peer_arg);
		double a = timed(calls, before, step, arg);

		if (i < 0)
			continue;
		ratio[i] = a / b;
		theirs[i] = b;
	}
	*peer_ns = bench_median(theirs, rounds);
	return *peer_ns * bench_median(ratio, rounds);
}

static const char *quiet;
static char selector;

static void system_call(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	selector = SYSCALL_DISPATCH_FILTER_ALLOW;
	fprintf(stderr, "gpumem-bench: %s made system call %d\n", quiet, info->si_syscall);
	_exit(2);
}

void bench_no_syscall(const char *name, int calls, void (*step)(void *arg), void *arg)
{
	struct sigaction action = { .sa_sigaction = system_call, .sa_flags = SA_SIGINFO };

	quiet = name;
	if (sigaction(SIGSYS, &action, NULL) ||
	    prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, 0, 0, &selector))
		bench_die("PR_SET_SYSCALL_USER_DISPATCH");
	selector = SYSCALL_DISPATCH_FILTER_BLOCK;
	for (int k = 0; k < calls; k++)
		step(arg);
	selector = SYSCALL_DISPATCH_FILTER_ALLOW;
	if (prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0))
		bench_die("PR_SET_SYSCALL_USER_DISPATCH");
}

void bench_cuda(void)
{
	CUcontext ctx;
	CUdevice dev;

	/* Other devices of the machine are for bench_devices(). */
	setenv("CUDA_VISIBLE_DEVICES", "0", 0);
	errno = ENODEV;
	if (cuInit(0) || cuDeviceGet(&dev, 0) || cuDevicePrimaryCtxRetain(&ctx, dev) ||
	    cuCtxSetCurrent(ctx))
		bench_die(gpumem_init_error() ? gpumem_init_error() : "cuInit");
	/* CUDA's functions do not set errno: a failing call reports this value. */
	errno = EIO;
}

int bench_open(void)
{
	int fd = open("/dev/gpumem0", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		bench_die("/dev/gpumem0");
	return fd;
}

void bench_ioctl(int fd, unsigned long request, void *arg, const char *what)
{
	if (ioctl(fd, request, arg))
		bench_die(what);
}

void bench_destroy(int fd, uint32_t id)
{
	struct gpumem_destroy destroy = { .size = sizeof(destroy), .id = id };

	bench_ioctl(fd, GPUMEM_DESTROY, &destroy, "GPUMEM_DESTROY");
}

bool bench_give(int sock, int fd)
{
	char control[CMSG_SPACE(sizeof(fd))] = { 0 }, byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };

	if (fd >= 0) {
		struct cmsghdr *c;

		msg.msg_control = control;
		msg.msg_controllen = sizeof(control);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(fd));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	return sendmsg(sock, &msg, 0) == 1;
}

int bench_take(int sock)
{
	char control[CMSG_SPACE(sizeof(int))], byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control,
			      .msg_controllen = sizeof(control) };
	struct cmsghdr *c;
	int fd = -1;

	if (recvmsg(sock, &msg, MSG_CMSG_CLOEXEC) != 1)
		return -2;
	c = CMSG_FIRSTHDR(&msg);
	if (c && c->cmsg_type == SCM_RIGHTS)
		memcpy(&fd, CMSG_DATA(c), sizeof(fd));
	return fd;
}

void *bench_memory(size_t bytes, bool huge)
{
	char *p = mmap(NULL, bytes + HUGE_BYTES, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		bench_die("mmap");
	p = (char *)(((uintptr_t)p + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1));
	if (madvise(p, bytes, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE))
		bench_die("madvise");
	memset(p, 1, bytes);
	return p;
}

void bench_touch(void *p, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += 4 * KIB)
		((volatile char *)p)[i] = 1;
}

const char *bench_size(size_t bytes)
{
	if (bytes < KIB)
		return bench_name("%zu", bytes);
	return bytes < MIB ? bench_name("%zuK", bytes / KIB) : bench_name("%zuM", bytes / MIB);
}

static void null_step(void *arg)
{
	(void)arg;
	syscall(SYS_getppid);
}

double bench_null_syscall(void)
{
	double ns = bench_calls(9, 1000, null_step, NULL);

	bench_peer("null_syscall", ns);
	return ns;
}

static void clock_step(void *arg)
{
	struct timespec t;

	(void)arg;
	clock_gettime(CLOCK_MONOTONIC, &t);
}

double bench_clock_gettime(void)
{
	double ns = bench_calls(9, 1000, clock_step, NULL);

	bench_peer("clock_gettime", ns);
	return ns;
}

double bench_apart(double (*measure)(void), const char *const *environment)
{
	double ns = 0;
	int pipes[2], status;
	pid_t pid;

	if (pipe(pipes))
		bench_die("pipe");
	pid = fork();
	if (pid < 0)
		bench_die("fork");
	if (!pid) {
		for (; *environment; environment += 2)
			setenv(environment[0], environment[1], 1);
		ns = measure();
		_exit(write(pipes[1], &ns, sizeof(ns)) != sizeof(ns));
	}
	close(pipes[1]);
	if (read(pipes[0], &ns, sizeof(ns)) != sizeof(ns))
		bench_die("a process of a bench");
	close(pipes[0]);
	if (waitpid(pid, &status, 0) < 0)
		bench_die("waitpid");
	return ns;
}
