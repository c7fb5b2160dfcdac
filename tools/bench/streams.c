// SPDX-License-Identifier: GPL-2.0
/*
 * The cost of calls beside many streams, and beside a legacy stream.
 *
 * The peers are the same calls beside ten streams of the same kind, or before the legacy stream
 * exists.  A stream counts as "was busy" if one of its operations went through its ring, and the
 * context has been synchronized since.
 */
#include <cuda.h>
#include <stdlib.h>

#include "bench.h"

#define FEW	10

struct work {
	CUstream stream;
	CUevent event;
	CUdeviceptr mem;
};

static void copy(void *arg)
{
	struct work *w = arg;

	bench_cu(cuMemcpyDtoDAsync(w->mem, w->mem + 2 * KIB, 64, w->stream));
}

static void record(void *arg)
{
	struct work *w = arg;

	bench_cu(cuEventRecord(w->event, w->stream));
}

static void legacy_fill(void *arg)
{
	struct work *w = arg;

	bench_cu(cuMemsetD8(w->mem, 1, 64));
}

static void alloc_free(void *arg)
{
	CUdeviceptr mem;

	(void)arg;
	bench_cu(cuMemAlloc(&mem, 4 * KIB));
	bench_cu(cuMemFree(mem));
}

static const struct {
	const char *name;
	void (*step)(void *arg);
} beside_many[] = {
	{ "legacy_fill", legacy_fill }, { "alloc_free", alloc_free },
};

#define MANY_STEPS	(sizeof(beside_many) / sizeof(beside_many[0]))

/* Measure calls beside @count streams of the kind @what; the first results become the peers. */
static void measure(struct work *w, const char *what, unsigned int count)
{
	for (unsigned int i = 0; i < MANY_STEPS; i++) {
		double ns = bench_calls(5, 200, beside_many[i].step, w);

		if (count == FEW)
			bench_peer(bench_name("%s_beside_%s_%u", beside_many[i].name, what, count), ns);
		else
			bench_beside(bench_name("%s_beside_%s_%u", beside_many[i].name, what, count),
				     BENCH_ALLOC, ns,
				     bench_name("%s_beside_%s_%u", beside_many[i].name, what, FEW),
				     1.2);
	}
}

static void nothing(void *arg)
{
	(void)arg;
}

/* Make streams; @busy: submit work through each stream's ring */
static void make(CUstream *streams, unsigned int from, unsigned int to, bool busy)
{
	for (unsigned int i = from; i < to; i++) {
		bench_cu(cuStreamCreate(&streams[i], CU_STREAM_DEFAULT));
		if (busy)
			bench_cu(cuLaunchHostFunc(streams[i], nothing, NULL));
	}
	bench_cu(cuCtxSynchronize());
}

static void destroy(CUstream *streams, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++)
		bench_cu(cuStreamDestroy(streams[i]));
}

void bench_streams(void)
{
	static const unsigned int counts[] = { FEW, 1000, 10000 };
	static CUstream streams[10000];
	struct work w;

	bench_cuda();
	bench_cu(cuMemAlloc(&w.mem, MIB));
	bench_cu(cuEventCreate(&w.event, CU_EVENT_DISABLE_TIMING));
	bench_cu(cuStreamCreate(&w.stream, CU_STREAM_DEFAULT));
	bench_cu(cuMemsetD8Async(w.mem, 1, MIB, w.stream));
	bench_cu(cuCtxSynchronize());
	bench_peer("dtod_no_legacy_64", bench_calls(9, 500, copy, &w));
	bench_peer("event_record_no_legacy", bench_calls(9, 500, record, &w));
	legacy_fill(&w);
	bench_beside("dtod_beside_legacy_64", BENCH_CALL, bench_calls(9, 500, copy, &w),
		     "dtod_no_legacy_64", 1.15);
	bench_beside("event_record_beside_legacy", BENCH_CALL, bench_calls(9, 500, record, &w),
		     "event_record_no_legacy", 1.15);
	for (int busy = 0; busy < 2; busy++) {
		unsigned int made = 0;

		for (unsigned int k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
			make(streams, made, counts[k], busy);
			made = counts[k];
			measure(&w, busy ? "busy" : "idle", made);
		}
		destroy(streams, made);
	}
	/* Beside as many that are destroyed, with and without a ring to be used again. */
	for (unsigned int i = 0; i < MANY_STEPS; i++)
		bench_beside(bench_name("%s_beside_destroyed_10000", beside_many[i].name), BENCH_ALLOC,
			     bench_calls(5, 200, beside_many[i].step, &w),
			     bench_name("%s_beside_idle_%u", beside_many[i].name, FEW), 1.2);
	bench_cu(cuStreamDestroy(w.stream));
	bench_cu(cuEventDestroy(w.event));
	bench_cu(cuMemFree(w.mem));
}
