// SPDX-License-Identifier: GPL-2.0
/*
 * Registration of host memory beside io_uring's registered buffers, which pin pages long-term and
 * keep references to them, and beside mlock(), which keeps pages in memory without such references.
 */
#include <errno.h>
#include <linux/gpumem.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "bench.h"

#define BYTES	(64 * MIB)
#define ROUNDS	5

struct pin {
	int fd, ring;
	void *p;
};

static void ours(void *arg, double *ns)
{
	struct pin *b = arg;
	struct gpumem_bo_pin pin = { .size = sizeof(pin), .addr = (uintptr_t)b->p,
				     .length = BYTES };
	double t = bench_now();

	bench_ioctl(b->fd, GPUMEM_BO_PIN, &pin, "GPUMEM_BO_PIN");
	ns[0] += bench_lap(&t);
	bench_destroy(b->fd, pin.id);
	ns[1] += bench_lap(&t);
}

static void ring(void *arg, double *ns)
{
	struct pin *b = arg;
	struct iovec iov = { b->p, BYTES };
	double t = bench_now();

	if (syscall(SYS_io_uring_register, b->ring, IORING_REGISTER_BUFFERS, &iov, 1))
		bench_die("IORING_REGISTER_BUFFERS");
	ns[0] += bench_lap(&t);
	if (syscall(SYS_io_uring_register, b->ring, IORING_UNREGISTER_BUFFERS, NULL, 0))
		bench_die("IORING_UNREGISTER_BUFFERS");
	ns[1] += bench_lap(&t);
}

static void lock(void *arg, double *ns)
{
	struct pin *b = arg;
	double t = bench_now();

	if (mlock(b->p, BYTES))
		bench_die("mlock");
	ns[0] += bench_lap(&t);
	if (munlock(b->p, BYTES))
		bench_die("munlock");
	ns[1] += bench_lap(&t);
}

static void pages(struct pin *b, bool huge, double bar)
{
	const char *kind = huge ? "huge_64M" : "4k_64M";
	const char *reg = bench_name("uring_register_%s", kind);
	const char *unreg = bench_name("uring_unregister_%s", kind);
	double ns[BENCH_PHASES];

	b->p = bench_memory(BYTES, huge);
	bench_phases(ns, ROUNDS, 1, ring, b);
	bench_peer(reg, ns[0]);
	bench_peer(unreg, ns[1]);
	bench_phases(ns, ROUNDS, 1, ours, b);
	bench_beside(bench_name("register_%s", kind), BENCH_CALL, ns[0], reg, bar);
	bench_beside(bench_name("unregister_%s", kind), BENCH_CALL, ns[1], unreg, 1.0);
	bench_phases(ns, 3, 1, lock, b);
	bench_peer(bench_name("mlock_%s", kind), ns[0]);
	bench_peer(bench_name("munlock_%s", kind), ns[1]);
	munmap(b->p, BYTES);
}

void bench_pin(void)
{
	struct gpumem_vm_create vm = { .size = sizeof(vm) };
	struct io_uring_params params = { 0 };
	struct pin b = {
		.ring = syscall(SYS_io_uring_setup, 4, &params),
		.fd = bench_open(),
	};

	if (b.ring < 0)
		bench_die("io_uring_setup");
	/* A client in use has other objects. */
	bench_ioctl(b.fd, GPUMEM_VM_CREATE, &vm, "GPUMEM_VM_CREATE");
	pages(&b, false, 0.95);
	pages(&b, true, 0.8);
	close(b.ring);
	close(b.fd);
}
