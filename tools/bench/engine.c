// SPDX-License-Identifier: GPL-2.0
/*
 * Large copies by the engine beside the kernel's own memcpy() of the same pages, which
 * bench_memcpy.ko does (tools/bench/kmod).  GPUMEM_BENCH_MODULE is the path of that module.
 *
 * With one stream one worker is busy, with two streams two, and memcpy() is then called by two
 * threads, each for one half.
 */
#include <cuda.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"
#include "kmod/bench_memcpy.h"

#define BYTES	(256 * MIB)
#define ROUNDS	9
#define MOST	2

struct work {
	int fd;				/* of bench_memcpy.ko */
	int count;			/* workers, threads */
	CUdeviceptr dst, src;
	CUstream stream[MOST];
	struct bench_memcpy part[MOST];
};

static int load(void)
{
	const char *path = getenv("GPUMEM_BENCH_MODULE");
	int fd;

	if (!path) {
		bench_skip("kernel_memcpy", "GPUMEM_BENCH_MODULE is not set");
		return -1;
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || (syscall(SYS_finit_module, fd, "", 0) && errno != EEXIST))
		bench_die(path);
	close(fd);
	fd = open("/dev/bench_memcpy", O_RDWR | O_CLOEXEC);
	if (fd < 0)
		bench_die("/dev/bench_memcpy");
	return fd;
}

static double engine(struct work *w)
{
	size_t bytes = BYTES / w->count;
	double start = bench_now();

	for (int i = 0; i < w->count; i++)
		bench_cu(cuMemcpyDtoDAsync(w->dst + i * bytes, w->src + i * bytes, bytes,
					   w->stream[i]));
	for (int i = 0; i < w->count; i++)
		bench_cu(cuStreamSynchronize(w->stream[i]));
	return bench_now() - start;
}

struct thread {
	struct work *w;
	int i;
	pthread_t id;
};

static void *kernel_part(void *arg)
{
	struct thread *t = arg;
	size_t bytes = BYTES / t->w->count;

	t->w->part[t->i] = (struct bench_memcpy){
		.dst = t->w->dst + t->i * bytes, .src = t->w->src + t->i * bytes, .bytes = bytes,
	};
	if (ioctl(t->w->fd, BENCH_MEMCPY, &t->w->part[t->i]))
		bench_die("BENCH_MEMCPY");
	return NULL;
}

/*
 * The time from the first thread's begin to the last thread's end.  All threads pin at the same
 * time, so their copies overlap.
 */
static double kernel(struct work *w)
{
	struct thread thread[MOST];
	uint64_t begin = UINT64_MAX, end = 0;

	for (int i = 0; i < w->count; i++) {
		thread[i] = (struct thread){ .w = w, .i = i };
		errno = pthread_create(&thread[i].id, NULL, kernel_part, &thread[i]);
		if (errno)
			bench_die("pthread_create");
	}
	for (int i = 0; i < w->count; i++) {
		pthread_join(thread[i].id, NULL);
		begin = w->part[i].begin < begin ? w->part[i].begin : begin;
		end = w->part[i].end > end ? w->part[i].end : end;
	}
	return end - begin;
}

static void compare(struct work *w, const char *ours, const char *peer, double bar)
{
	double ratio[ROUNDS], theirs[ROUNDS], median;

	for (int i = -1; i < ROUNDS; i++) {
		double b = w->fd < 0 ? 1 : kernel(w), a = engine(w);

		if (i < 0)
			continue;
		ratio[i] = a / b;
		theirs[i] = b;
	}
	median = bench_median(theirs, ROUNDS);
	if (w->fd >= 0)
		bench_peer(peer, median);
	bench_beside(ours, BENCH_RATIO, bench_median(ratio, ROUNDS) * median, peer, bar);
}

void bench_engine(void)
{
	struct work w;

	bench_cuda();
	w.fd = load();
	for (int i = 0; i < MOST; i++)
		bench_cu(cuStreamCreate(&w.stream[i], CU_STREAM_NON_BLOCKING));
	bench_cu(cuMemAlloc(&w.dst, BYTES));
	bench_cu(cuMemAlloc(&w.src, BYTES));
	w.count = 1;
	/* The bar: 0.95 of the kernel's speed. */
	compare(&w, "engine_copy_256M", "kernel_memcpy_256M", 1 / 0.95);
	w.count = 2;
	compare(&w, "engine_copy_by_2_256M", "kernel_memcpy_by_2_256M", 0);
	bench_cu(cuMemFree(w.dst));
	bench_cu(cuMemFree(w.src));
	if (w.fd >= 0) {
		close(w.fd);
		syscall(SYS_delete_module, "bench_memcpy", 0);
	}
}
