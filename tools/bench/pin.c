// SPDX-License-Identifier: GPL-2.0
/*
 * Registration of host memory against io_uring's registered buffers: both pin the same pages for
 * long, both keep what they need to reach them.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/gpumem.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "bench.h"

#define BYTES	(64UL << 20)
#define HUGE	(2UL << 20)
#define ROUNDS	5

static void *memory(int advice)
{
	char *p = mmap(NULL, BYTES + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	if (p == MAP_FAILED)
		bench_die("mmap");
	p = (char *)(((uintptr_t)p + HUGE - 1) & ~(HUGE - 1));
	if (madvise(p, BYTES, advice))
		bench_die("madvise");
	memset(p, 1, BYTES);
	return p;
}

static void theirs(int ring, void *p, double *reg, double *unreg)
{
	struct iovec iov = { p, BYTES };
	double a = bench_now(), b;

	if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &iov, 1))
		bench_die("IORING_REGISTER_BUFFERS");
	b = bench_now();
	if (syscall(SYS_io_uring_register, ring, IORING_UNREGISTER_BUFFERS, NULL, 0))
		bench_die("IORING_UNREGISTER_BUFFERS");
	*reg = b - a;
	*unreg = bench_now() - b;
}

static void ours(int fd, void *p, double *reg, double *unreg)
{
	struct gpumem_bo_pin pin = { .size = sizeof(pin), .addr = (uintptr_t)p, .length = BYTES };
	struct gpumem_destroy destroy = { .size = sizeof(destroy) };
	double a = bench_now(), b;

	if (ioctl(fd, GPUMEM_BO_PIN, &pin))
		bench_die("GPUMEM_BO_PIN");
	b = bench_now();
	destroy.id = pin.id;
	if (ioctl(fd, GPUMEM_DESTROY, &destroy))
		bench_die("GPUMEM_DESTROY");
	*reg = b - a;
	*unreg = bench_now() - b;
}

static int compare(int fd, int ring, int advice, const char *pages, double limit)
{
	double reg[2][ROUNDS], unreg[2][ROUNDS];
	void *p = memory(advice);
	char what[64];
	int missed;

	for (int i = 0; i < ROUNDS; i++) {
		theirs(ring, p, &reg[1][i], &unreg[1][i]);
		ours(fd, p, &reg[0][i], &unreg[0][i]);
	}
	munmap(p, BYTES);
	snprintf(what, sizeof(what), "register 64 MiB, %s", pages);
	missed = bench_row(what, bench_median(reg[0], ROUNDS), "io_uring register",
			   bench_median(reg[1], ROUNDS), limit);
	snprintf(what, sizeof(what), "unregister 64 MiB, %s", pages);
	return missed + bench_row(what, bench_median(unreg[0], ROUNDS), "io_uring unregister",
				  bench_median(unreg[1], ROUNDS), 1.0);
}

int bench_pin(void)
{
	struct gpumem_vm_create vm = { .size = sizeof(vm) };
	struct io_uring_params params = { 0 };
	int ring = syscall(SYS_io_uring_setup, 4, &params);
	int fd = open("/dev/gpumem0", O_RDWR | O_CLOEXEC);
	int missed;

	if (ring < 0)
		bench_die("io_uring_setup");
	if (fd < 0)
		bench_die("/dev/gpumem0");
	/* A client in use has other objects. */
	if (ioctl(fd, GPUMEM_VM_CREATE, &vm))
		bench_die("GPUMEM_VM_CREATE");
	missed = compare(fd, ring, MADV_NOHUGEPAGE, "4 KiB pages", 0.95);
	missed += compare(fd, ring, MADV_HUGEPAGE, "huge pages", 0.8);
	close(ring);
	close(fd);
	return missed;
}
