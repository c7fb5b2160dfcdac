// SPDX-License-Identifier: GPL-2.0
/*
 * The cost of calls to an idle stream.  The peer is a system call that does nothing or, for copies
 * and fills, the C library's function with the same number of bytes.  A call that must make no
 * system call kills the bench if it makes one.
 */
#include <cuda.h>
#include <errno.h>
#include <string.h>

#include "bench.h"

#define BYTES	(4 * KIB)
#define QUEUED	(MIB / 2)

struct work {
	CUstream stream;
	CUevent event, timed;
	CUdeviceptr dst, src;
	char *to, *from;
	size_t bytes;			/* a variable, so that the C library does it */
};

static void record(void *arg)
{
	struct work *w = arg;

	bench_cu(cuEventRecord(w->event, w->stream));
}

static void query_event(void *arg)
{
	struct work *w = arg;

	bench_cu(cuEventQuery(w->event));
}

static void record_query(void *arg)
{
	struct work *w = arg;

	bench_cu(cuEventRecord(w->event, w->stream));
	bench_cu(cuEventQuery(w->event));
}

static void record_query_timed(void *arg)
{
	struct work *w = arg;

	bench_cu(cuEventRecord(w->timed, w->stream));
	bench_cu(cuEventQuery(w->timed));
}

static void query_stream(void *arg)
{
	struct work *w = arg;

	bench_cu(cuStreamQuery(w->stream));
}

static void life(void *arg)
{
	CUevent event;

	(void)arg;
	bench_cu(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	bench_cu(cuEventDestroy(event));
}

static void copy(void *arg)
{
	struct work *w = arg;

	bench_cu(cuMemcpyDtoDAsync(w->dst, w->src, BYTES, w->stream));
	bench_cu(cuStreamSynchronize(w->stream));
}

static void fill(void *arg)
{
	struct work *w = arg;

	bench_cu(cuMemsetD8Async(w->dst, 1, BYTES, w->stream));
	bench_cu(cuStreamSynchronize(w->stream));
}

static void plain_copy(void *arg)
{
	struct work *w = arg;

	memcpy(w->to, w->from, w->bytes);
	__asm__ volatile("" : : "r"(w->to) : "memory");
}

static void plain_fill(void *arg)
{
	struct work *w = arg;

	memset(w->to, 1, w->bytes);
	__asm__ volatile("" : : "r"(w->to) : "memory");
}

void bench_stream(void)
{
	static const struct {
		const char *name;
		void (*step)(void *arg);
		const char *peer;
		double bar;
		bool quiet;		/* the call must make no system call */
	} steps[] = {
		{ "event_record", record, "null_syscall", 1, true },
		{ "event_query_done", query_event, "null_syscall", 1, true },
		{ "event_record_query", record_query, "null_syscall", 0.25, true },
		{ "event_record_query_timed", record_query_timed, "allowed_event_timed", 1, true },
		{ "event_create_destroy", life, "null_syscall", 1, false },
		{ "stream_query_idle", query_stream, "null_syscall", 1, true },
		{ "dtod_inline_sync_4K", copy, "allowed_copy_4K", 1, true },
		{ "memset_inline_sync_4K", fill, "memset_4K", 0, true },
	};
	struct work w = { .bytes = BYTES };
	double null, clock, plain;

	bench_cuda();
	w.to = bench_memory(BYTES, false);
	w.from = bench_memory(BYTES, false);
	null = bench_null_syscall();
	clock = bench_clock_gettime();
	plain = bench_calls(9, 500, plain_copy, &w);
	bench_peer("memcpy_4K", plain);
	bench_peer("memset_4K", bench_calls(9, 500, plain_fill, &w));
	bench_peer("allowed_event_timed", 0.25 * null + 1.5 * clock);
	bench_peer("allowed_copy_4K", plain + 0.5 * null);
	bench_cu(cuStreamCreate(&w.stream, CU_STREAM_NON_BLOCKING));
	bench_cu(cuEventCreate(&w.event, CU_EVENT_DISABLE_TIMING));
	bench_cu(cuEventCreate(&w.timed, CU_EVENT_DEFAULT));
	bench_cu(cuMemAlloc(&w.dst, QUEUED));
	bench_cu(cuMemAlloc(&w.src, QUEUED));
	/* The stream is one that has been used: too much to be done by the caller. */
	bench_cu(cuMemcpyDtoDAsync(w.dst, w.src, QUEUED, w.stream));
	bench_cu(cuStreamSynchronize(w.stream));
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		bench_beside(steps[i].name, BENCH_CALL, bench_calls(9, 500, steps[i].step, &w),
			     steps[i].peer, steps[i].bar);
		if (steps[i].quiet)
			bench_no_syscall(steps[i].name, 100, steps[i].step, &w);
	}
	bench_cu(cuMemFree(w.dst));
	bench_cu(cuMemFree(w.src));
	bench_cu(cuEventDestroy(w.event));
	bench_cu(cuEventDestroy(w.timed));
	bench_cu(cuStreamDestroy(w.stream));
}
