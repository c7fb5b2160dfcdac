// SPDX-License-Identifier: GPL-2.0
/*
 * Work that goes through a stream's ring to its worker.  GPUMEM_INLINE=0 sends everything that way.
 *
 * While a stream's work waits, its worker is awake: a submission is a store and no system call,
 * which the client's count of doorbells confirms.  A gate is a host function that does not return
 * until the bench opens it; work behind the gate is pending.
 *
 * The rows are measured twice: in counted instructions with one processor, and timed with two.
 *
 * Vocabulary: a worker that is awake needs no doorbell; a worker that is asleep needs one.
 */
#include <cuda.h>
#include <dirent.h>
#include <errno.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"

#define ROUNDS	9
#define PENDING	128		/* submissions behind a gate */
#define RING_ENTRIES	4096	/* QUEUE_ENTRIES in libgpumem/exec/queue.h */
#define STREAMS	1000
#define OPS	16		/* for each of many streams */
#define SETTLE	10000		/* microseconds for workers to find the gate closed */

struct work {
	CUstream stream;
	CUdeviceptr dst, src;
};

/* --- gates */

enum { CLOSED, ENTERED, OPEN };

static unsigned int gate;

static void gate_set(unsigned int state)
{
	__atomic_store_n(&gate, state, __ATOMIC_RELEASE);
	syscall(SYS_futex, &gate, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void gate_wait(unsigned int state)
{
	unsigned int now;

	while ((now = __atomic_load_n(&gate, __ATOMIC_ACQUIRE)) < state)
		syscall(SYS_futex, &gate, FUTEX_WAIT_PRIVATE, now, NULL, NULL, 0);
}

static void CUDA_CB gate_function(void *arg)
{
	(void)arg;
	gate_set(ENTERED);
	gate_wait(OPEN);
}

/* Work that is submitted to @stream from now on is pending. */
static void gate_close(CUstream stream)
{
	gate_set(CLOSED);
	bench_cu(cuLaunchHostFunc(stream, gate_function, NULL));
	gate_wait(ENTERED);
}

/* --- doorbells: how often the library made the system call that wakes a worker */

static unsigned long doorbells(void)
{
	unsigned long count = 0, n;
	struct dirent *entry;
	DIR *dir = opendir("/proc/self/fd");

	if (!dir)
		bench_die("/proc/self/fd");
	while ((entry = readdir(dir))) {
		const char *name = bench_name("/proc/self/fd/%s", entry->d_name);
		char line[256], target[64] = "";
		FILE *f;

		if (readlink(name, target, sizeof(target) - 1) < 0 ||
		    strncmp(target, "/dev/gpumem", 11))
			continue;
		f = fopen(bench_name("/proc/self/fdinfo/%s", entry->d_name), "r");
		if (!f)
			bench_die("fdinfo");
		while (fgets(line, sizeof(line), f))
			if (sscanf(line, "gpumem-doorbells: %lu", &n) == 1)
				count += n;
		fclose(f);
	}
	closedir(dir);
	return count;
}

/* --- one no-operation through io_uring */

static struct {
	int fd;
	unsigned int *sq_tail, *sq_array, *cq_head;
	const unsigned int *sq_mask, *cq_tail;
	struct io_uring_sqe *sqes;
} uring;

static void uring_make(void)
{
	struct io_uring_params p = { 0 };
	size_t bytes;
	char *ring;

	uring.fd = syscall(SYS_io_uring_setup, 8, &p);
	if (uring.fd < 0 || !(p.features & IORING_FEAT_SINGLE_MMAP))
		bench_die("io_uring_setup");
	bytes = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe);
	if (bytes < p.sq_off.array + p.sq_entries * sizeof(unsigned int))
		bytes = p.sq_off.array + p.sq_entries * sizeof(unsigned int);
	ring = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, uring.fd, IORING_OFF_SQ_RING);
	uring.sqes = mmap(NULL, p.sq_entries * sizeof(*uring.sqes), PROT_READ | PROT_WRITE,
			  MAP_SHARED, uring.fd, IORING_OFF_SQES);
	if (ring == MAP_FAILED || uring.sqes == MAP_FAILED)
		bench_die("io_uring");
	uring.sq_tail = (unsigned int *)(ring + p.sq_off.tail);
	uring.sq_mask = (unsigned int *)(ring + p.sq_off.ring_mask);
	uring.sq_array = (unsigned int *)(ring + p.sq_off.array);
	uring.cq_head = (unsigned int *)(ring + p.cq_off.head);
	uring.cq_tail = (unsigned int *)(ring + p.cq_off.tail);
}

static void uring_nop(void *arg)
{
	unsigned int tail = *uring.sq_tail, slot = tail & *uring.sq_mask;

	(void)arg;
	uring.sqes[slot] = (struct io_uring_sqe){ .opcode = IORING_OP_NOP };
	uring.sq_array[slot] = slot;
	__atomic_store_n(uring.sq_tail, tail + 1, __ATOMIC_RELEASE);
	if (syscall(SYS_io_uring_enter, uring.fd, 1, 0, 0, NULL, 0) != 1)
		bench_die("io_uring_enter");
	__atomic_store_n(uring.cq_head, __atomic_load_n(uring.cq_tail, __ATOMIC_ACQUIRE),
			 __ATOMIC_RELEASE);
}

/* --- steps */

static void submit(void *arg)
{
	struct work *w = arg;

	bench_cu(cuMemcpyDtoDAsync(w->dst, w->src, 4 * KIB, w->stream));
}

static void submit_wait(void *arg)
{
	struct work *w = arg;

	bench_cu(cuMemsetD8Async(w->dst, 1, 8, w->stream));
	bench_cu(cuStreamSynchronize(w->stream));
}

/* Wait long enough for the other thread, or the worker, to go to sleep. */
static void let_sleep(void)
{
	double start;

	if (sysconf(_SC_NPROCESSORS_ONLN) == 1) {
		sched_yield();
		return;
	}
	for (start = bench_now(); bench_now() - start < 50000;)
		;
}

/* --- rows */

/* Submissions to a worker that is awake. */
static void awake(struct work *w, enum bench_class class)
{
	double sum[ROUNDS], ns;
	unsigned long before;

	/* A ring takes its memory while it is filled for the first time. */
	for (int i = 0; i < RING_ENTRIES; i++)
		submit(w);
	bench_cu(cuStreamSynchronize(w->stream));
	for (int i = -1; i < ROUNDS; i++) {
		double start;

		gate_close(w->stream);
		usleep(SETTLE);
		before = doorbells();
		start = bench_now();
		for (int k = 0; k < PENDING; k++)
			submit(w);
		if (i >= 0)
			sum[i] = (bench_now() - start) / PENDING;
		if (doorbells() != before) {
			errno = EBUSY;
			bench_die("a doorbell was rung for a worker that is awake");
		}
		gate_set(OPEN);
		bench_cu(cuStreamSynchronize(w->stream));
	}
	ns = bench_median(sum, ROUNDS);
	bench_beside("ring_submit_awake", class, ns, "uring_enter_nop", 0.5);
	gate_close(w->stream);
	usleep(SETTLE);
	bench_no_syscall("ring_submit_awake", PENDING / 2, submit, w);
	gate_set(OPEN);
	bench_cu(cuStreamSynchronize(w->stream));
}

/* A submission that needs a doorbell, until the caller has seen that the work is done. */
static void asleep(struct work *w, enum bench_class class, double bar)
{
	const int calls = 100, all = calls * (ROUNDS + 1);
	unsigned long rung = doorbells();
	double ns, peer;

	bench_futex_start();
	ns = bench_pairs(ROUNDS, calls, let_sleep, submit_wait, w, bench_futex_trip, NULL, &peer);
	bench_futex_end();
	rung = doorbells() - rung;
	if (rung < all * 0.95) {
		fprintf(stderr, "gpumem-bench: %lu doorbells for %d calls\n", rung, all);
		errno = EBUSY;
		bench_die("the worker was not asleep");
	}
	bench_peer("futex_round_trip", peer);
	bench_beside("ring_wake_wait", class, ns, "futex_round_trip", bar);
	bench_eventfd_start();
	bench_peer("eventfd_round_trip", bench_calls(ROUNDS, calls, bench_eventfd_trip, NULL));
	bench_eventfd_end();
}

/*
 * Measure @count streams, each with work pending.  *@put receives the cost of a submission to one
 * of them; *@done that cost and a submission's share of executing all of them and waiting for the
 * end.
 */
static void pending(CUdeviceptr dst, int count, double *put, double *done)
{
	double puts[3], dones[3];
	CUstream *streams, first;
	CUevent event;

	streams = calloc(count, sizeof(*streams));
	if (!streams)
		bench_die("calloc");
	bench_cu(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
	bench_cu(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	for (int i = 0; i < count; i++) {
		bench_cu(cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
		bench_cu(cuMemsetD8Async(dst, 1, 8, streams[i]));
	}
	for (int round = -1; round < 3; round++) {
		double start, end;

		bench_cu(cuCtxSynchronize());
		gate_close(first);
		bench_cu(cuEventRecord(event, first));
		for (int i = 0; i < count; i++)
			bench_cu(cuStreamWaitEvent(streams[i], event, 0));
		usleep(SETTLE);
		start = bench_now();
		for (int k = 0; k < OPS; k++)
			for (int i = 0; i < count; i++)
				bench_cu(cuMemsetD8Async(dst, 1, 8, streams[i]));
		end = bench_now();
		gate_set(OPEN);
		for (int i = 0; i < count; i++)
			bench_cu(cuStreamSynchronize(streams[i]));
		if (round < 0)
			continue;
		puts[round] = (end - start) / (count * OPS);
		dones[round] = (bench_now() - start) / (count * OPS);
	}
	*put = bench_median(puts, 3);
	*done = bench_median(dones, 3);
	bench_cu(cuEventDestroy(event));
	bench_cu(cuStreamDestroy(first));
	for (int i = 0; i < count; i++)
		bench_cu(cuStreamDestroy(streams[i]));
	free(streams);
}

static void begin(struct work *w)
{
	setenv("GPUMEM_INLINE", "0", 1);
	bench_cuda();
	bench_cu(cuStreamCreate(&w->stream, CU_STREAM_NON_BLOCKING));
	bench_cu(cuMemAlloc(&w->dst, 64 * KIB));
	bench_cu(cuMemAlloc(&w->src, 64 * KIB));
	bench_cu(cuCtxSynchronize());
	uring_make();
	bench_peer("uring_enter_nop", bench_calls(ROUNDS, 200, uring_nop, NULL));
}

static void end(struct work *w)
{
	bench_cu(cuMemFree(w->dst));
	bench_cu(cuMemFree(w->src));
	bench_cu(cuStreamDestroy(w->stream));
	close(uring.fd);
}

void bench_queue(void)
{
	double put, done, put_one, done_one;
	struct work w;

	begin(&w);
	awake(&w, BENCH_CALL);
	asleep(&w, BENCH_ALLOC, 1.15);
	pending(w.dst, 1, &put_one, &done_one);
	pending(w.dst, STREAMS, &put, &done);
	bench_peer("ring_submit_1_stream", put_one);
	bench_peer("ring_complete_1_stream", done_one);
	bench_beside(bench_name("ring_submit_%d_streams", STREAMS), BENCH_ALLOC, put,
		     "ring_submit_1_stream", 1.5);
	bench_beside(bench_name("ring_complete_%d_streams", STREAMS), BENCH_ALLOC, done,
		     "ring_complete_1_stream", 1.5);
	end(&w);
}

void bench_ring(void)
{
	struct work w;

	begin(&w);
	awake(&w, BENCH_RATIO);
	asleep(&w, BENCH_RATIO, 1.3);
	end(&w);
}
