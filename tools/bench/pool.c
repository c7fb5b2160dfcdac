// SPDX-License-Identifier: GPL-2.0
/*
 * Stream-ordered pools: the cost of an allocation and its free beside mimalloc's; the cost that
 * stream order, threads and a million live allocations add; the cost of the first use of memory
 * beside clearing huge pages; and the cost of importing another process's pointer.
 *
 * "pool" is counted.  "pool_threads" measures processors that work at the same time, so it is
 * timed.  In a counted run, with one processor, its rows show only that several threads cost no
 * more than one.
 */
#include <cuda.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"

#define MILLION		1000000
#define LIVE_BYTES	256
#define METADATA_MOST	64		/* bytes for each live allocation */
#define COLD		(64 * MIB)
#define THREADS_MOST	8
#define THREAD_PAIRS	100000		/* longer than a thread runs at a stretch */

struct pool {
	CUmemoryPool pool;
	CUstream a, b;
	size_t bytes;
	void *(*get)(size_t bytes);
	void (*put)(void *p);
};

static CUmemoryPool make(int location, int handles)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { .type = location },
		.handleTypes = handles,
	};
	cuuint64_t threshold = ~0ull;
	CUmemoryPool pool;

	bench_cu(cuMemPoolCreate(&pool, &props));
	bench_cu(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	return pool;
}

static void pair(void *arg)
{
	struct pool *w = arg;
	CUdeviceptr p;

	bench_cu(cuMemAllocFromPoolAsync(&p, w->bytes, w->pool, w->a));
	bench_cu(cuMemFreeAsync(p, w->a));
}

static void across(void *arg)
{
	struct pool *w = arg;
	CUdeviceptr p;

	bench_cu(cuMemAllocFromPoolAsync(&p, w->bytes, w->pool, w->a));
	bench_cu(cuMemFreeAsync(p, w->b));
}

static void peer_pair(void *arg)
{
	struct pool *w = arg;
	void *volatile p = w->get(w->bytes);

	w->put(p);
}

/* Warm: after so many rounds that the pool has made everything it needs. */
static void measure_pairs(struct pool *w)
{
	static const struct {
		size_t bytes;
		double bar;
	} sizes[] = {
		{ 256, 2 }, { 4 * KIB, 2 }, { 16 * KIB, 1 }, { 64 * KIB, 1 }, { MIB, 1 },
	};
	bool peer = bench_mimalloc(&w->get, &w->put);

	if (!peer)
		bench_skip("mimalloc", "its library is not installed");
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const char *size = bench_size(sizes[i].bytes);
		const char *theirs = bench_name("mimalloc_pool_pair_%s", size);
		const char *name = bench_name("pool_pair_%s", size);

		w->bytes = sizes[i].bytes;
		if (peer)
			bench_peer(theirs, bench_calls(9, 500, peer_pair, w));
		if (peer)
			bench_beside(name, BENCH_CALL, bench_calls(9, 500, pair, w), theirs,
				     sizes[i].bar);
		else
			bench_ours(name, BENCH_CALL, bench_calls(9, 500, pair, w));
		bench_no_syscall(name, 100, pair, w);
	}
}

static void measure_across(struct pool *w)
{
	static const size_t sizes[] = { 4 * KIB, 64 * KIB };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		const char *size = bench_size(sizes[i]);
		const char *same = bench_name("pool_same_stream_%s", size);
		const char *name = bench_name("pool_across_streams_%s", size);

		w->bytes = sizes[i];
		bench_peer(same, bench_calls(9, 500, pair, w));
		bench_beside(name, BENCH_CALL, bench_calls(9, 500, across, w), same, 3);
		bench_no_syscall(name, 200, across, w);
	}
}

/* ---- a million */

static size_t heap_bytes(void)
{
	struct mallinfo2 info = mallinfo2();

	return info.uordblks + info.hblkhd;
}

static void measure_million(struct pool *w)
{
	CUdeviceptr *live = mmap(NULL, MILLION * sizeof(*live), PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t before, bytes;

	if (live == MAP_FAILED)
		bench_die("mmap");
	/* Host memory: a device of the machines for counting is too small. */
	w->pool = make(CU_MEM_LOCATION_TYPE_HOST, 0);
	w->bytes = LIVE_BYTES;
	bench_peer("pool_pair_empty", bench_calls(9, 500, pair, w));
	before = heap_bytes();
	for (int i = 0; i < MILLION; i++)
		bench_cu(cuMemAllocFromPoolAsync(&live[i], LIVE_BYTES, w->pool, w->a));
	bytes = heap_bytes() - before;
	bench_beside("pool_pair_of_1000000", BENCH_CALL, bench_calls(9, 500, pair, w),
		     "pool_pair_empty", 2);
	bench_no_syscall("pool_pair_of_1000000", 100, pair, w);
	bench_peer("allowed_pool_metadata", METADATA_MOST);
	bench_beside("pool_metadata_of_1000000", BENCH_ALLOC, (double)bytes / MILLION,
		     "allowed_pool_metadata", 1);
	for (int i = 0; i < MILLION; i++)
		bench_cu(cuMemFreeAsync(live[i], w->a));
	bench_cu(cuMemPoolDestroy(w->pool));
	munmap(live, MILLION * sizeof(*live));
}

/* ---- a full pool whose blocks are all pending */

#define FULL		(16 * (int)MIB)
#define FULL_BYTES	512
#define WAITED		20		/* streams that wait for each other; w->b waits for all */

static void refused(void *arg)
{
	struct pool *w = arg;
	CUdeviceptr p;

	if (cuMemAllocFromPoolAsync(&p, FULL_BYTES, w->pool, w->b) != CUDA_ERROR_OUT_OF_MEMORY)
		bench_die("a full pool has memory");
}

/*
 * One refused allocation in a stream that waits for others; @follow: the pool looks at these waits.
 */
static double refusal(struct pool *w, CUdeviceptr gate, int follow)
{
	static CUdeviceptr live[FULL / FULL_BYTES];
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE }, .maxSize = FULL,
	};
	CUstream other[WAITED];
	CUevent event[WAITED];
	int none = 0, i, j;
	double cost;

	bench_cu(cuMemPoolCreate(&w->pool, &props));
	bench_cu(cuMemPoolSetAttribute(w->pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
				       &follow));
	bench_cu(cuMemPoolSetAttribute(w->pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &none));
	bench_cu(cuMemPoolSetAttribute(w->pool,
				       CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &none));
	for (i = 0; i < FULL / FULL_BYTES; i++)
		bench_cu(cuMemAllocFromPoolAsync(&live[i], FULL_BYTES, w->pool, w->a));
	bench_cu(cuMemsetD32(gate, 0, 1));
	bench_cu(cuCtxSynchronize());
	bench_cu(cuStreamWaitValue32(w->a, gate, 1, CU_STREAM_WAIT_VALUE_GEQ));
	for (i = 0; i < WAITED; i++) {
		bench_cu(cuStreamCreate(&other[i], CU_STREAM_NON_BLOCKING));
		bench_cu(cuEventCreate(&event[i], CU_EVENT_DISABLE_TIMING));
		bench_cu(cuStreamWaitValue32(other[i], gate, 1, CU_STREAM_WAIT_VALUE_GEQ));
		bench_cu(cuEventRecord(event[i], other[i]));
	}
	for (i = 0; i < WAITED; i++)
		for (j = 0; j < WAITED; j++)
			bench_cu(cuStreamWaitEvent(other[i], event[j], 0));
	for (i = 0; i < WAITED; i++) {
		bench_cu(cuEventRecord(event[i], other[i]));
		bench_cu(cuStreamWaitEvent(w->b, event[i], 0));
	}
	for (i = 0; i < FULL / FULL_BYTES; i++)
		bench_cu(cuMemFreeAsync(live[i], w->a));
	cost = bench_calls(1, 1, refused, w);
	*(volatile uint32_t *)(uintptr_t)gate = 1;
	bench_cu(cuCtxSynchronize());
	for (i = 0; i < WAITED; i++) {
		bench_cu(cuEventDestroy(event[i]));
		bench_cu(cuStreamDestroy(other[i]));
	}
	bench_cu(cuMemPoolDestroy(w->pool));
	return cost;
}

static void measure_full(struct pool *w)
{
	CUdeviceptr gate;

	bench_cu(cuMemAlloc(&gate, 4));
	bench_peer("pool_refusal", refusal(w, gate, 0));
	/* It looks at each block, the other one does not. */
	bench_beside("pool_refusal_that_follows", BENCH_ALLOC, refusal(w, gate, 1), "pool_refusal",
		     20);
	bench_cu(cuMemFree(gate));
}

/* ---- memory without an earlier owner */

static struct pool *cold;
static CUdeviceptr cold_ptr;
static char *huge;

static void make_cold(void)
{
	if (cold_ptr) {
		bench_cu(cuMemFreeAsync(cold_ptr, cold->a));
		bench_cu(cuMemPoolTrimTo(cold->pool, 0));
		cold_ptr = 0;
	}
	if (madvise(huge, COLD, MADV_DONTNEED))
		bench_die("madvise");
}

static void cold_alloc(void *arg)
{
	struct pool *w = arg;

	bench_cu(cuMemAllocFromPoolAsync(&cold_ptr, COLD, w->pool, w->a));
}

/* The kernel clears them. */
static void clear(void *arg)
{
	(void)arg;
	for (size_t i = 0; i < COLD; i += HUGE_BYTES)
		((volatile char *)huge)[i] = 1;
}

static void measure_cold(struct pool *w)
{
	double ours, theirs;

	cold = w;
	huge = bench_memory(COLD, true);
	ours = bench_pairs(5, 1, make_cold, cold_alloc, w, clear, NULL, &theirs);
	bench_peer("clear_huge_64M", theirs);
	bench_beside("pool_cold_64M", BENCH_ALLOC, ours, "clear_huge_64M", 1.15);
	make_cold();
	munmap(huge, COLD);
}

/* ---- pointers of another process */

struct import {
	CUmemoryPool pool;
	CUmemPoolPtrExportData data;
	CUstream stream;
};

static void import(void *arg)
{
	struct import *w = arg;
	CUdeviceptr p;

	bench_cu(cuMemPoolImportPointer(&p, w->pool, &w->data));
	bench_cu(cuMemFreeAsync(p, w->stream));
}

static void null_ioctl(void *arg)
{
	/* The first check of the number refuses it. */
	ioctl(*(int *)arg, 0, 0);
}

/* The import costs the same whether the pool is of this process or of another. */
static void measure_import(struct pool *w)
{
	struct import in = { .stream = w->a };
	CUmemoryPool shared = make(CU_MEM_LOCATION_TYPE_DEVICE,
				   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	int fd, null = open("/dev/null", O_RDWR | O_CLOEXEC);
	CUdeviceptr p, first;

	if (null < 0)
		bench_die("/dev/null");
	bench_peer("null_ioctl", bench_calls(9, 500, null_ioctl, &null));
	bench_cu(cuMemAllocFromPoolAsync(&p, 64 * KIB, shared, w->a));
	bench_cu(cuMemPoolExportToShareableHandle(&fd, shared,
						  CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	bench_cu(cuMemPoolImportFromShareableHandle(&in.pool, (void *)(uintptr_t)fd,
						    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	bench_cu(cuMemPoolExportPointer(&in.data, p));
	bench_cu(cuMemPoolImportPointer(&first, in.pool, &in.data));
	bench_cu(cuMemFreeAsync(first, w->a));
	bench_beside("pool_import_free", BENCH_CALL, bench_calls(9, 500, import, &in),
		     "null_ioctl", 2);
	bench_no_syscall("pool_import_free", 100, import, &in);
	bench_cu(cuMemPoolDestroy(in.pool));
	bench_cu(cuMemFreeAsync(p, w->a));
	bench_cu(cuMemPoolDestroy(shared));
	close(fd);
	close(null);
}

void bench_pool(void)
{
	struct pool w = { 0 };
	CUmemoryPool pool;

	bench_cuda();
	bench_cu(cuStreamCreate(&w.a, CU_STREAM_NON_BLOCKING));
	bench_cu(cuStreamCreate(&w.b, CU_STREAM_NON_BLOCKING));
	w.pool = pool = make(CU_MEM_LOCATION_TYPE_DEVICE, 0);
	measure_pairs(&w);
	measure_across(&w);
	measure_cold(&w);
	measure_import(&w);
	measure_full(&w);
	measure_million(&w);
	bench_cu(cuMemPoolDestroy(pool));
	bench_cu(cuStreamDestroy(w.a));
	bench_cu(cuStreamDestroy(w.b));
}

/* ---- threads */

static pthread_barrier_t gate;

struct runner {
	struct pool w;
	double begin, end;
};

/* Each thread takes its own times: a thread that waits for all may be the last to run again. */
static void *thread(void *arg)
{
	struct runner *runner = arg;
	struct pool w = runner->w;

	for (int i = 0; i < 200; i++)
		pair(&w);
	pthread_barrier_wait(&gate);
	runner->begin = bench_now();
	for (int i = 0; i < THREAD_PAIRS; i++)
		pair(&w);
	runner->end = bench_now();
	return NULL;
}

/*
 * Run @n threads with a stream each. Returns the nanoseconds from the first begin to the last end,
 * divided by the pairs of all threads.
 */
static double threads(struct pool *w, int n)
{
	struct runner runner[THREADS_MOST];
	pthread_t id[THREADS_MOST];
	double begin = INFINITY, end = 0;

	pthread_barrier_init(&gate, NULL, n);
	for (int i = 0; i < n; i++) {
		runner[i].w = w[i];
		if (pthread_create(&id[i], NULL, thread, &runner[i]))
			bench_die("pthread_create");
	}
	for (int i = 0; i < n; i++) {
		pthread_join(id[i], NULL);
		if (runner[i].begin < begin)
			begin = runner[i].begin;
		if (runner[i].end > end)
			end = runner[i].end;
	}
	pthread_barrier_destroy(&gate);
	return (end - begin) / THREAD_PAIRS / n;
}

void bench_pool_threads(void)
{
	int cpus = sysconf(_SC_NPROCESSORS_ONLN), counts[] = { 2, 4, THREADS_MOST };
	enum { ROUNDS = 9, KINDS = sizeof(counts) / sizeof(counts[0]) };
	double ours[KINDS][ROUNDS], peer[ROUNDS];
	struct pool w[THREADS_MOST] = { 0 };
	const char *name;

	if (cpus > THREADS_MOST)
		cpus = THREADS_MOST;
	bench_cuda();
	for (int i = 0; i < THREADS_MOST; i++) {
		w[i].bytes = 4 * KIB;
		w[i].pool = i ? w[0].pool : make(CU_MEM_LOCATION_TYPE_DEVICE, 0);
		bench_cu(cuStreamCreate(&w[i].a, CU_STREAM_NON_BLOCKING));
	}
	threads(w, THREADS_MOST);
	/* In turns: other work on the machine disturbs. */
	for (int i = 0; i < ROUNDS; i++) {
		peer[i] = threads(w, cpus);
		for (int k = 0; k < KINDS; k++)
			ours[k][i] = threads(w, counts[k]) / peer[i];
	}
	name = bench_name("pool_threads_as_cpus");
	bench_peer(name, bench_median(peer, ROUNDS));
	for (int k = 0; k < KINDS; k++)
		bench_beside(bench_name("pool_threads_%d", counts[k]), BENCH_RATIO,
			     bench_median(ours[k], ROUNDS) * peer[ROUNDS / 2], name,
			     counts[k] >= 4 ? 1 / 0.9 : 0);
	bench_cu(cuMemPoolDestroy(w[0].pool));
	for (int i = 0; i < THREADS_MOST; i++)
		bench_cu(cuStreamDestroy(w[i].a));
}
