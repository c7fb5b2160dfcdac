// SPDX-License-Identifier: GPL-2.0
/*
 * bench-cuda: the cost of CUDA's operations in any libcuda. Usage: bench-cuda LIBCUDA
 *
 * The program knows CUDA's driver API and nothing of gpumem, so the same binary measures NVIDIA's
 * libcuda.so.1 and ours on the same processor. tools/bench/run runs it with both in turns.
 *
 * Each row is a name, nanoseconds of wall time and nanoseconds of the process's processor time, of
 * all its threads, for one operation: the median of ROUNDS rounds. A spaced row leaves the library
 * time for work in the background before each operation, and times the operations alone. Meanwhile
 * the program makes small pairs: otherwise the row would show how long the processor takes to load
 * the library into its caches again.
 */
#include <cuda.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS	9
#define REST	3e6		/* nanoseconds */
#define LIVE	64
#define ALLOCS	900		/* of 4 KiB: they leave room in their last 2 MiB */
#define KIB	1024

/* The functions that are measured, by the names that the library exports. */
#define FUNCTIONS(X) \
	X(init, cuInit, (unsigned int flags)) \
	X(device_get, cuDeviceGet, (CUdevice *device, int ordinal)) \
	X(retain, cuDevicePrimaryCtxRetain, (CUcontext *ctx, CUdevice device)) \
	X(set_current, cuCtxSetCurrent, (CUcontext ctx)) \
	X(stream_create, cuStreamCreate, (CUstream *stream, unsigned int flags)) \
	X(stream_query, cuStreamQuery, (CUstream stream)) \
	X(stream_sync, cuStreamSynchronize, (CUstream stream)) \
	X(event_create, cuEventCreate, (CUevent *event, unsigned int flags)) \
	X(event_destroy, cuEventDestroy_v2, (CUevent event)) \
	X(event_record, cuEventRecord, (CUevent event, CUstream stream)) \
	X(event_query, cuEventQuery, (CUevent event)) \
	X(alloc, cuMemAlloc_v2, (CUdeviceptr *ptr, size_t bytes)) \
	X(free, cuMemFree_v2, (CUdeviceptr ptr)) \
	X(copy, cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr from, size_t bytes, \
				       CUstream stream)) \
	X(fill, cuMemsetD8Async, (CUdeviceptr to, unsigned char value, size_t bytes, \
				  CUstream stream)) \
	X(attribute, cuPointerGetAttribute, (void *data, CUpointer_attribute attribute, \
					     CUdeviceptr ptr)) \
	X(pool_of, cuDeviceGetDefaultMemPool, (CUmemoryPool *pool, CUdevice device)) \
	X(pool_set, cuMemPoolSetAttribute, (CUmemoryPool pool, CUmemPool_attribute attribute, \
					    void *value)) \
	X(alloc_async, cuMemAllocAsync, (CUdeviceptr *ptr, size_t bytes, CUstream stream)) \
	X(free_async, cuMemFreeAsync, (CUdeviceptr ptr, CUstream stream))

#define MEMBER(member, name, args) CUresult (CUDAAPI *member) args;
#define STRING(name) #name
static struct {
	FUNCTIONS(MEMBER)
} cu;

static CUstream stream;
static CUevent event;
static CUdeviceptr buffer, allocs[ALLOCS];

static void die(const char *what, int code)
{
	fprintf(stderr, "bench-cuda: %s: %d\n", what, code);
	exit(3);
}

#define MUST(call) do { \
	CUresult must = (call); \
	if (must) \
		die(#call, must); \
} while (0)

static void *symbol(void *library, const char *name)
{
	void *function = dlsym(library, name);

	if (!function) {
		fprintf(stderr, "bench-cuda: no function %s\n", name);
		exit(3);
	}
	return function;
}

static double clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return t.tv_sec * 1e9 + t.tv_nsec;
}

static int before(const void *a, const void *b)
{
	double d = *(const double *)a - *(const double *)b;

	return d < 0 ? -1 : d > 0;
}

static double median(double *v)
{
	qsort(v, ROUNDS, sizeof(*v), before);
	return v[ROUNDS / 2];
}

/* ---- operations */

static void pool_pair(size_t bytes)
{
	CUdeviceptr p;

	MUST(cu.alloc_async(&p, bytes, stream));
	MUST(cu.free_async(p, stream));
}

static void pool_pair_256(void)
{
	pool_pair(256);
}

static void pool_pair_64K(void)
{
	pool_pair(64 * KIB);
}

static void pool_live_64(void)
{
	CUdeviceptr p[LIVE];
	int i;

	for (i = 0; i < LIVE; i++)
		MUST(cu.alloc_async(&p[i], 4 * KIB, stream));
	for (i = 0; i < LIVE; i++)
		MUST(cu.free_async(p[i], stream));
}

static void event_record(void)
{
	MUST(cu.event_record(event, stream));
}

static void event_create_destroy(void)
{
	CUevent e;

	MUST(cu.event_create(&e, CU_EVENT_DISABLE_TIMING));
	MUST(cu.event_destroy(e));
}

static void event_query(void)
{
	MUST(cu.event_query(event));
}

static void stream_query(void)
{
	MUST(cu.stream_query(stream));
}

static void pointer_attribute(void)
{
	static unsigned int next;
	unsigned int type;

	next = (next + 7) % ALLOCS;
	MUST(cu.attribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, allocs[next]));
}

static void copy_sync_4K(void)
{
	MUST(cu.copy(buffer, buffer + 8 * KIB, 4 * KIB, stream));
	MUST(cu.stream_sync(stream));
}

static void fill_sync_4K(void)
{
	MUST(cu.fill(buffer, 1, 4 * KIB, stream));
	MUST(cu.stream_sync(stream));
}

/* A pair in a block of 2 MiB that the library keeps, because allocs[] has memory in the block. */
static void kept_pair_64K(void)
{
	CUdeviceptr p;

	MUST(cu.alloc(&p, 64 * KIB));
	MUST(cu.free(p));
}

static void kept_pair_256(void)
{
	CUdeviceptr p;

	MUST(cu.alloc(&p, 256));
	MUST(cu.free(p));
}

static void kept_pair_4K(void)
{
	CUdeviceptr p;

	MUST(cu.alloc(&p, 4 * KIB));
	MUST(cu.free(p));
}

enum way {
	BACK_TO_BACK,
	SPACED,				/* with time for work in the background in between */
	PINNED,				/* back to back, all threads on one CPU */
};

struct row {
	const char *name;
	void (*operation)(void);
	unsigned int calls, operations;	/* in a round; in a call */
	enum way way;
};

static const struct row rows[] = {
	{ "pool_pair_256", pool_pair_256, 20000, 1, BACK_TO_BACK },
	{ "pool_pair_64K", pool_pair_64K, 20000, 1, BACK_TO_BACK },
	{ "pool_live_64_4K", pool_live_64, 500, LIVE, BACK_TO_BACK },
	{ "event_record", event_record, 20000, 1, BACK_TO_BACK },
	{ "event_query", event_query, 20000, 1, BACK_TO_BACK },
	{ "event_create_destroy", event_create_destroy, 5000, 1, BACK_TO_BACK },
	{ "stream_query", stream_query, 20000, 1, BACK_TO_BACK },
	{ "pointer_attribute_of_900", pointer_attribute, 20000, 1, BACK_TO_BACK },
	{ "copy_sync_4K", copy_sync_4K, 2000, 1, BACK_TO_BACK },
	{ "fill_sync_4K", fill_sync_4K, 2000, 1, BACK_TO_BACK },
	{ "kept_pair_4K", kept_pair_4K, 5000, 1, BACK_TO_BACK },
	{ "kept_pair_64K", kept_pair_64K, 5000, 1, BACK_TO_BACK },
	{ "kept_pair_64K_spaced", kept_pair_64K, 50, 1, SPACED },
	{ "kept_pair_64K_pinned", kept_pair_64K, 5000, 1, PINNED },
};

/* Pin all threads of the process, so that the library's work in the background shares the CPU. */
static void pin(const cpu_set_t *cpus)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *task;

	if (!tasks)
		die("/proc/self/task", errno);
	while ((task = readdir(tasks)))
		if (task->d_name[0] != '.')
			sched_setaffinity(atoi(task->d_name), sizeof(*cpus), cpus);
	closedir(tasks);
}

/* Nanoseconds that so many calls take. */
static double calls(const struct row *row)
{
	double start = clock_ns(CLOCK_MONOTONIC), sum = 0;
	unsigned int i;

	if (row->way != SPACED) {
		for (i = 0; i < row->calls; i++)
			row->operation();
		return clock_ns(CLOCK_MONOTONIC) - start;
	}
	for (i = 0; i < row->calls; i++) {
		start = clock_ns(CLOCK_MONOTONIC);
		while (clock_ns(CLOCK_MONOTONIC) - start < REST)
			kept_pair_256();
		start = clock_ns(CLOCK_MONOTONIC);
		row->operation();
		sum += clock_ns(CLOCK_MONOTONIC) - start;
	}
	return sum;
}

/* The processor time used by the process or, for a spaced row, by its other threads. */
static double processor(const struct row *row)
{
	double process = clock_ns(CLOCK_PROCESS_CPUTIME_ID);

	return row->way == SPACED ? process - clock_ns(CLOCK_THREAD_CPUTIME_ID) : process;
}

static void run(const struct row *row)
{
	double wall[ROUNDS], cpu[ROUNDS], spent;
	unsigned int all = row->calls * row->operations;
	cpu_set_t every, one;
	int round;

	sched_getaffinity(0, sizeof(every), &every);
	CPU_ZERO(&one);
	CPU_SET(sched_getcpu(), &one);
	if (row->way == PINNED)
		pin(&one);
	calls(row);
	for (round = 0; round < ROUNDS; round++) {
		spent = processor(row);
		wall[round] = calls(row) / all;
		cpu[round] = (processor(row) - spent) / all;
		if (row->way == SPACED)
			cpu[round] += wall[round];
	}
	if (row->way == PINNED)
		pin(&every);
	printf("%s\t%.1f\t%.1f\n", row->name, median(wall), median(cpu));
	fflush(stdout);
}

int main(int argc, char **argv)
{
	CUmemoryPool pool;
	uint64_t keep = UINT64_MAX;
	CUdevice device;
	CUcontext ctx;
	void *library;
	unsigned int i;

	if (argc != 2) {
		fprintf(stderr, "usage: bench-cuda LIBCUDA\n");
		return 2;
	}
	library = dlopen(argv[1], RTLD_NOW);
	if (!library) {
		fprintf(stderr, "bench-cuda: %s\n", dlerror());
		return 3;
	}
#define LOAD(member, name, args) *(void **)&cu.member = symbol(library, STRING(name));
	FUNCTIONS(LOAD)
	MUST(cu.init(0));
	MUST(cu.device_get(&device, 0));
	MUST(cu.retain(&ctx, device));
	MUST(cu.set_current(ctx));
	MUST(cu.stream_create(&stream, CU_STREAM_NON_BLOCKING));
	MUST(cu.event_create(&event, CU_EVENT_DISABLE_TIMING));
	MUST(cu.alloc(&buffer, 64 * KIB));
	for (i = 0; i < ALLOCS; i++)
		MUST(cu.alloc(&allocs[i], 4 * KIB));
	MUST(cu.pool_of(&pool, device));
	MUST(cu.pool_set(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
	MUST(cu.event_record(event, stream));
	MUST(cu.stream_sync(stream));
	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		run(&rows[i]);
	return 0;
}
