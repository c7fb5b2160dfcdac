// SPDX-License-Identifier: GPL-2.0
/*
 * Streams and events by the CUDA API: which streams wait for which, what an event stands for, what
 * outlives its handle, many threads, and what failed work does to its context and to no other.
 *
 * Order is tested with a load that takes about a quarter of a second.  Where something must *not*
 * wait, the load has to be seen running afterwards; a process that does not run for a while gets
 * further tries.
 */
#include <pthread.h>
#include <time.h>

#include "kselftest_harness.h"
#include "cuda_util.h"

#define NOT_READY	CUDA_ERROR_NOT_READY
#define BAD_HANDLE	CUDA_ERROR_INVALID_HANDLE
#define TRIES		10

FIXTURE(stream)
{
	CUcontext ctx;
	struct load load;
	CUdeviceptr p;		/* 1 MiB, zero; exported, so that the engine works on it */
	CUstream a, b, free;	/* two blocking streams and one that is not */
};

FIXTURE_SETUP(stream)
{
	CUipcMemHandle handle;

	ASSERT_TRUE(dev_quiet(10));
	ASSERT_CU(cuda_start(&self->ctx));
	ASSERT_CU(load_make(&self->load));
	ASSERT_CU(cuMemAlloc(&self->p, MIB));
	ASSERT_CU(cuIpcGetMemHandle(&handle, self->p));
	ASSERT_CU(cuStreamCreate(&self->a, CU_STREAM_DEFAULT));
	ASSERT_CU(cuStreamCreate(&self->b, CU_STREAM_DEFAULT));
	ASSERT_CU(cuStreamCreate(&self->free, CU_STREAM_NON_BLOCKING));
}

FIXTURE_TEARDOWN_PARENT(stream)
{
	EXPECT_TRUE(dev_quiet(10));
}

/* --- handles */

TEST_F(stream, create)
{
	unsigned long long id, other;
	CUstream s = (CUstream)77;
	int priority, least, greatest;
	unsigned int flags;
	CUcontext ctx;

	EXPECT_EQ(INVALID, cuStreamCreate(&s, 2));
	EXPECT_EQ(INVALID, cuStreamCreate(NULL, 0));
	EXPECT_EQ(INVALID, cuStreamCreateWithPriority(&s, 4, 0));
	EXPECT_EQ((CUstream)77, s);
	EXPECT_CU(cuCtxGetStreamPriorityRange(&least, &greatest));
	EXPECT_EQ(0, least);
	EXPECT_EQ(-5, greatest);
	for (int i = -8; i < 4; i++) {
		ASSERT_CU(cuStreamCreateWithPriority(&s, i & 1, i));
		EXPECT_CU(cuStreamGetPriority(s, &priority));
		EXPECT_EQ(i < -5 ? -5 : i > 0 ? 0 : i, priority);
		EXPECT_CU(cuStreamGetFlags(s, &flags));
		EXPECT_EQ(i & 1, flags);
		EXPECT_CU(cuStreamGetCtx(s, &ctx));
		EXPECT_EQ(self->ctx, ctx);
		EXPECT_CU(cuStreamGetId(s, &id));
		EXPECT_CU(cuStreamGetId(self->a, &other));
		EXPECT_NE(0, id);
		EXPECT_NE(other, id);
		EXPECT_EQ(INVALID, cuStreamGetFlags(s, NULL));
		EXPECT_CU(cuStreamQuery(s));
		EXPECT_CU(cuStreamSynchronize(s));
		EXPECT_CU(cuStreamDestroy(s));
		EXPECT_EQ(BAD_HANDLE, cuStreamDestroy(s));
		EXPECT_EQ(BAD_HANDLE, cuStreamQuery(s));
		EXPECT_EQ(BAD_HANDLE, cuStreamSynchronize(s));
		EXPECT_EQ(BAD_HANDLE, cuStreamGetFlags(s, &flags));
	}
	EXPECT_EQ(BAD_HANDLE, cuStreamDestroy(NULL));
	EXPECT_EQ(BAD_HANDLE, cuStreamDestroy(CU_STREAM_LEGACY));
	EXPECT_EQ(BAD_HANDLE, cuStreamDestroy(CU_STREAM_PER_THREAD));
	EXPECT_EQ(BAD_HANDLE, cuStreamQuery((CUstream)3));
	EXPECT_CU(cuStreamGetFlags(NULL, &flags));
	EXPECT_EQ(0, flags);
	EXPECT_CU(cuStreamGetCtx(CU_STREAM_PER_THREAD, &ctx));
	EXPECT_EQ(self->ctx, ctx);
	EXPECT_CU(cuStreamGetId(NULL, &id));
	EXPECT_CU(cuStreamGetId(CU_STREAM_LEGACY, &other));
	EXPECT_EQ(id, other);
	EXPECT_CU(cuStreamGetId(CU_STREAM_PER_THREAD, &other));
	EXPECT_NE(id, other);
	EXPECT_CU(cuStreamGetId_ptsz(NULL, &id));
	EXPECT_EQ(id, other);
	ASSERT_CU(cuCtxSetCurrent(NULL));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuStreamCreate(&s, 0));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuStreamQuery(NULL));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuStreamSynchronize(CU_STREAM_PER_THREAD));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize());
	EXPECT_CU(cuStreamQuery(self->a));
	EXPECT_CU(cuStreamSynchronize(self->a));
	EXPECT_CU(cuStreamDestroy(self->a));
}

/* Streams that come and go do not pile up in the kernel, and have no descriptors. */
TEST_F(stream, recycled)
{
	struct gpumem_stats before, after;
	int fds = count_fds();

	EXPECT_CU(cuMemsetD8Async(self->p, 1, 1, self->a));
	EXPECT_CU(cuCtxSynchronize());
	ASSERT_EQ(0, client_stats(&before));
	EXPECT_LT(0, before.streams);
	for (int i = 0; i < 500; i++) {
		CUstream s;

		ASSERT_CU(cuStreamCreate(&s, i & 1));
		ASSERT_CU(cuMemsetD8Async(self->p + i, i, 1, s));
		ASSERT_CU(cuStreamSynchronize(s));
		ASSERT_CU(cuStreamDestroy(s));
		ASSERT_EQ((unsigned char)i, *view(self->p + i, 1));
	}
	ASSERT_EQ(0, client_stats(&after));
	EXPECT_LE(after.streams, before.streams + 1);
	EXPECT_EQ(fds, count_fds());
}

/* --- order */

/* What @second does comes after what @first does; tested through the engine. */
static bool held_by(struct __test_metadata *_metadata, FIXTURE_DATA(stream) *self, CUstream first,
		    CUstream second)
{
	CUresult busy = load_put_busy(&self->load, first), then;

	EXPECT_EQ(NOT_READY, busy);
	EXPECT_CU(cuMemsetD8Async(self->p, 1, 16, first));
	EXPECT_CU(cuMemcpyDtoDAsync(self->p + 4096, self->p, 16, second));
	then = cuStreamSynchronize(second);
	EXPECT_CU(then);
	return load_done(&self->load) && sees(self->p + 4096, 1, 16);
}

/* @second is done while @first still has its load, in one of several tries. */
static bool not_held_by(struct __test_metadata *_metadata, FIXTURE_DATA(stream) *self,
			CUstream first, CUstream second)
{
	for (int i = 0; i < TRIES; i++) {
		CUresult busy = load_put_busy(&self->load, first);

		EXPECT_EQ(NOT_READY, busy);
		EXPECT_CU(cuMemsetD8Async(self->p + 8192, i + 1, 16, second));
		EXPECT_CU(cuStreamSynchronize(second));
		EXPECT_TRUE(sees(self->p + 8192, i + 1, 16));
		busy = cuStreamQuery(first);
		EXPECT_CU(cuCtxSynchronize());
		if (busy == NOT_READY)
			return true;
	}
	return false;
}

#define HELD(first, second)	EXPECT_TRUE(held_by(_metadata, self, first, second))
#define NOT_HELD(first, second)	EXPECT_TRUE(not_held_by(_metadata, self, first, second))

TEST_F_TIMEOUT(stream, legacy_order, 120)
{
	HELD(self->a, NULL);
	HELD(self->a, CU_STREAM_LEGACY);
	HELD(NULL, self->a);
	HELD(CU_STREAM_PER_THREAD, NULL);
	HELD(CU_STREAM_LEGACY, CU_STREAM_PER_THREAD);
	HELD(self->a, self->a);
	HELD(self->free, self->free);
	/* By way of the legacy stream. */
	ASSERT_EQ(NOT_READY, load_put_busy(&self->load, self->a));
	EXPECT_CU(cuMemsetD8Async(self->p, 9, 16, NULL));
	EXPECT_CU(cuMemcpyDtoDAsync(self->p + 4096, self->p, 16, self->b));
	EXPECT_CU(cuStreamSynchronize(self->b));
	EXPECT_TRUE(load_done(&self->load));
	EXPECT_TRUE(sees(self->p + 4096, 9, 16));
}

TEST_F_TIMEOUT(stream, independent, 120)
{
	NOT_HELD(self->a, self->b);
	NOT_HELD(self->a, self->free);
	NOT_HELD(self->free, self->a);
	NOT_HELD(self->free, NULL);
	NOT_HELD(NULL, self->free);
	NOT_HELD(self->a, CU_STREAM_PER_THREAD);
	NOT_HELD(CU_STREAM_PER_THREAD, self->a);
}

/* Functions without a stream argument belong to the legacy stream. */
TEST_F(stream, synchronous_calls)
{
	unsigned char out[16];

	ASSERT_EQ(NOT_READY, load_put_busy(&self->load, self->a));
	EXPECT_CU(cuMemsetD8Async(self->p, 5, 16, self->a));
	EXPECT_CU(cuMemcpyDtoH(out, self->p, 16));
	EXPECT_TRUE(load_done(&self->load));
	EXPECT_TRUE(all_are(out, 5, 16));
	/* A fill and a copy between allocations return before they ran. */
	for (int i = 0; i < TRIES; i++) {
		CUresult busy;

		ASSERT_EQ(NOT_READY, load_put_busy(&self->load, self->a));
		EXPECT_CU(cuMemsetD8(self->p, 6 + i, 16));
		EXPECT_CU(cuMemcpyDtoD(self->p + 64, self->p, 16));
		busy = cuStreamQuery(NULL);
		EXPECT_CU(cuStreamSynchronize(NULL));
		EXPECT_TRUE(sees(self->p + 64, 6 + i, 16));
		if (busy == NOT_READY)
			return;
	}
	EXPECT_TRUE(false) { TH_LOG("cuMemcpyDtoD() was never seen to return early"); }
}

/* The ptds and ptsz forms mean the thread's own stream. */
TEST_F(stream, own_stream)
{
	unsigned char out[16];

	ASSERT_EQ(NOT_READY, load_put_busy(&self->load, CU_STREAM_PER_THREAD));
	EXPECT_EQ(NOT_READY, cuStreamQuery_ptsz(NULL));
	EXPECT_EQ(NOT_READY, cuStreamQuery(NULL));
	EXPECT_CU(cuMemsetD8_v2_ptds(self->p, 5, 16));
	EXPECT_CU(cuMemcpyDtoH_v2_ptds(out, self->p, 16));
	EXPECT_TRUE(all_are(out, 5, 16));
	EXPECT_TRUE(load_done(&self->load));
	/* Held by the legacy stream, not by another blocking one. */
	ASSERT_EQ(NOT_READY, load_put_busy(&self->load, NULL));
	EXPECT_CU(cuMemcpyDtoH_v2_ptds(out, self->p, 16));
	EXPECT_TRUE(load_done(&self->load));
	for (int i = 0; i < TRIES; i++) {
		CUresult busy;

		ASSERT_EQ(NOT_READY, load_put_busy(&self->load, self->a));
		EXPECT_CU(cuMemcpyDtoH_v2_ptds(out, self->p, 16));
		busy = cuStreamQuery(self->a);
		EXPECT_CU(cuCtxSynchronize());
		if (busy == NOT_READY)
			return;
	}
	EXPECT_TRUE(false) { TH_LOG("the thread's stream was always held"); }
}

/* More entries than a ring has, behind a load: nothing is lost, nothing overtakes. */
TEST_F(stream, ring_full)
{
	enum { N = RING_DEPTH + 1000, WORDS = 64 };
	const unsigned int *words;

	ASSERT_EQ(NOT_READY, load_put_busy(&self->load, self->free));
	for (unsigned int i = 0; i < N; i++) {
		ASSERT_CU(cuMemsetD32Async(self->p + i % WORDS * 4, i, 1, self->free));
	}
	EXPECT_CU(cuStreamSynchronize(self->free));
	EXPECT_TRUE(load_done(&self->load));
	words = (const unsigned int *)view(self->p, WORDS * 4);
	for (unsigned int i = 0; i < WORDS; i++) {
		EXPECT_EQ(N - 1 - (N - 1 - i) % WORDS, words[i]);
	}
}

TEST_F(stream, destroyed_with_work)
{
	CUstream s;

	for (int i = 0; i < 3; i++) {
		ASSERT_CU(cuStreamCreate(&s, i == 1 ? CU_STREAM_NON_BLOCKING : 0));
		ASSERT_EQ(NOT_READY, load_put_busy(&self->load, s));
		EXPECT_CU(cuMemsetD8Async(self->p, 3 + i, MIB, s));
		EXPECT_CU(cuStreamDestroy(s));
		if (i < 2) {
			EXPECT_CU(cuCtxSynchronize());
		} else
			EXPECT_CU(cuStreamSynchronize(NULL));
		EXPECT_TRUE(load_done(&self->load));
		EXPECT_TRUE(sees(self->p, 3 + i, MIB));
	}
}

/* --- events */

TEST_F(stream, event_rules)
{
	CUevent e, plain, quiet;
	float ms = -1;

	EXPECT_EQ(INVALID, cuEventCreate(NULL, 0));
	EXPECT_EQ(INVALID, cuEventCreate(&e, 8));
	EXPECT_EQ(INVALID, cuEventCreate(&e, 16));
	EXPECT_EQ(INVALID, cuEventCreate(&e, CU_EVENT_INTERPROCESS));
	ASSERT_CU(cuEventCreate(&plain, CU_EVENT_DEFAULT));
	ASSERT_CU(cuEventCreate(&quiet, CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC));
	EXPECT_CU(cuEventQuery(plain));
	EXPECT_CU(cuEventSynchronize(plain));
	EXPECT_CU(cuStreamWaitEvent(self->a, plain, 0));
	EXPECT_EQ(BAD_HANDLE, cuEventElapsedTime(&ms, plain, plain));
	EXPECT_CU(cuEventRecord(plain, self->a));
	EXPECT_CU(cuEventRecord(quiet, self->a));
	EXPECT_CU(cuEventSynchronize(plain));
	EXPECT_CU(cuEventQuery(plain));
	EXPECT_CU(cuEventElapsedTime(&ms, plain, plain));
	EXPECT_EQ(0, ms);
	EXPECT_EQ(BAD_HANDLE, cuEventElapsedTime(&ms, plain, quiet));
	EXPECT_EQ(BAD_HANDLE, cuEventElapsedTime(NULL, plain, plain));
	EXPECT_EQ(INVALID, cuStreamWaitEvent(self->a, plain, 2));
	EXPECT_EQ(BAD_HANDLE, cuStreamWaitEvent(self->a, NULL, 0));
	EXPECT_EQ(BAD_HANDLE, cuEventRecord(NULL, self->a));
	EXPECT_EQ(BAD_HANDLE, cuEventQuery(NULL));
	EXPECT_EQ(BAD_HANDLE, cuEventSynchronize(NULL));
	EXPECT_EQ(BAD_HANDLE, cuEventDestroy(NULL));
	EXPECT_CU(cuEventRecord(plain, NULL));
	EXPECT_CU(cuEventRecord(plain, CU_STREAM_PER_THREAD));
	EXPECT_CU(cuEventRecord_ptsz(plain, NULL));
	EXPECT_CU(cuEventSynchronize(plain));
	ASSERT_CU(cuCtxSetCurrent(NULL));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuEventCreate(&e, 0));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuEventRecord(plain, NULL));
	EXPECT_CU(cuEventRecord(plain, self->a));
	EXPECT_CU(cuEventSynchronize(plain));
	EXPECT_CU(cuEventQuery(plain));
	EXPECT_CU(cuStreamWaitEvent(self->a, plain, 0));
	EXPECT_CU(cuEventDestroy(plain));
	EXPECT_EQ(BAD_HANDLE, cuEventDestroy(plain));
	EXPECT_EQ(BAD_HANDLE, cuEventQuery(plain));
	EXPECT_EQ(BAD_HANDLE, cuEventRecord(plain, self->a));
	EXPECT_CU(cuEventDestroy(quiet));
}

TEST_F(stream, event_of_busy_stream)
{
	CUevent before, after;
	struct timespec t0, t1;
	float ms = -1, wall;

	ASSERT_CU(cuEventCreate(&before, 0));
	ASSERT_CU(cuEventCreate(&after, 0));
	clock_gettime(CLOCK_MONOTONIC_RAW, &t0);
	EXPECT_CU(cuEventRecord(before, self->free));
	ASSERT_EQ(NOT_READY, load_put_busy(&self->load, self->free));
	EXPECT_CU(cuEventRecord(after, self->free));
	EXPECT_EQ(NOT_READY, cuEventQuery(after));
	EXPECT_EQ(NOT_READY, cuEventElapsedTime(&ms, before, after));
	EXPECT_CU(cuEventSynchronize(after));
	clock_gettime(CLOCK_MONOTONIC_RAW, &t1);
	EXPECT_TRUE(load_done(&self->load));
	EXPECT_CU(cuEventQuery(after));
	EXPECT_CU(cuEventElapsedTime(&ms, before, after));
	wall = (t1.tv_sec - t0.tv_sec) * 1e3 + (t1.tv_nsec - t0.tv_nsec) / 1e6;
	EXPECT_LT(0, ms);
	EXPECT_LE(ms, wall + 0.001);
	/* The load was behind the first event and before the second: most of the time is its. */
	EXPECT_LT(wall / 4, ms);
	EXPECT_CU(cuEventElapsedTime(&wall, after, before));
	EXPECT_EQ(-ms, wall);
}

/* A wait is for the record at the time of the call, and needs the event no more. */
TEST_F(stream, waits)
{
	CUevent e;

	ASSERT_CU(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	ASSERT_EQ(NOT_READY, load_put_busy(&self->load, self->a));
	EXPECT_CU(cuMemsetD8Async(self->p, 1, 16, self->a));
	EXPECT_CU(cuEventRecord(e, self->a));
	EXPECT_CU(cuStreamWaitEvent(self->free, e, 0));
	EXPECT_CU(cuEventDestroy(e));
	EXPECT_CU(cuMemcpyDtoDAsync(self->p + 64, self->p, 16, self->free));
	EXPECT_CU(cuStreamSynchronize(self->free));
	EXPECT_TRUE(load_done(&self->load));
	EXPECT_TRUE(sees(self->p + 64, 1, 16));
	/* A later record does not move an earlier wait; the event shows the later one. */
	ASSERT_CU(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	for (int i = 0; i < TRIES; i++) {
		CUresult busy;

		EXPECT_CU(cuEventRecord(e, self->b));
		EXPECT_CU(cuStreamWaitEvent(self->free, e, 0));
		ASSERT_EQ(NOT_READY, load_put_busy(&self->load, self->a));
		EXPECT_CU(cuEventRecord(e, self->a));
		EXPECT_CU(cuMemsetD8Async(self->p, 2, 16, self->free));
		EXPECT_CU(cuStreamSynchronize(self->free));
		busy = cuEventQuery(e);
		EXPECT_CU(cuEventSynchronize(e));
		EXPECT_TRUE(load_done(&self->load));
		if (busy == NOT_READY)
			return;
	}
	EXPECT_TRUE(false) { TH_LOG("the event never showed its latest record"); }
}

/* Events outlive their stream, and its queue's next owner. */
TEST_F(stream, event_of_destroyed_stream)
{
	CUstream s, next;
	CUevent e, t;

	ASSERT_CU(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
	ASSERT_CU(cuEventCreate(&t, CU_EVENT_DEFAULT));
	ASSERT_CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	ASSERT_EQ(NOT_READY, load_put_busy(&self->load, s));
	EXPECT_CU(cuEventRecord(e, s));
	EXPECT_CU(cuEventRecord(t, s));
	EXPECT_CU(cuStreamDestroy(s));
	EXPECT_CU(cuEventSynchronize(e));
	EXPECT_TRUE(load_done(&self->load));
	EXPECT_CU(cuEventSynchronize(t));
	ASSERT_CU(cuStreamCreate(&next, CU_STREAM_NON_BLOCKING));
	ASSERT_EQ(NOT_READY, load_put_busy(&self->load, next));
	EXPECT_CU(cuEventQuery(e));
	EXPECT_CU(cuEventQuery(t));
	EXPECT_CU(cuCtxSynchronize());
}

/* More streams than are waited for in one queue hold one that comes after all of them, not the program. */
TEST_F_TIMEOUT(stream, hundreds_hold, 240)
{
	enum { N = 300 };
	static unsigned char out[2 * N * 64];
	static CUstream s[N];
	CUdeviceptr p;
	CUevent all;
	__u32 *word;

	ASSERT_CU(cuMemAlloc(&p, sizeof(out)));
	ASSERT_CU(cuMemHostAlloc((void **)&word, 4096, 0));
	*word = 0;
	ASSERT_CU(cuEventCreate(&all, CU_EVENT_DISABLE_TIMING));
	for (int i = 0; i < N; i++) {
		ASSERT_CU(cuStreamCreate(&s[i], CU_STREAM_DEFAULT));
		ASSERT_CU(cuStreamWaitValue32(s[i], (uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ));
		ASSERT_CU(cuMemsetD8Async(p + i * 64, 1 + i % 200, 64, s[i]));
	}
	EXPECT_CU(cuCtxRecordEvent(self->ctx, all));
	EXPECT_CU(cuMemcpyDtoDAsync(p + N * 64, p, N * 64, CU_STREAM_LEGACY));
	EXPECT_CU(cuMemsetD8Async(p, 255, N * 64, CU_STREAM_LEGACY));
	/* And all of them once more, after it, and again and again. */
	for (int round = 1; round < 6; round++) {
		for (int i = 0; i < N; i += 2)
			EXPECT_CU(cuMemsetD8Async(p + i * 64, round, 32, s[i]));
		EXPECT_CU(cuMemsetD8Async(p, 255, N * 64, CU_STREAM_LEGACY));
	}
	for (int i = 0; i < N; i += 7)
		EXPECT_CU(cuMemsetD8Async(p + i * 64, 254, 32, s[i]));
	EXPECT_EQ(NOT_READY, cuStreamQuery(CU_STREAM_LEGACY));
	EXPECT_EQ(NOT_READY, cuEventQuery(all));
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
	EXPECT_CU(cuCtxSynchronize());
	EXPECT_CU(cuEventQuery(all));
	EXPECT_CU(cuMemcpyDtoH(out, p, sizeof(out)));
	for (int i = 0; i < N; i++) {
		EXPECT_TRUE(all_are(out + (N + i) * 64, 1 + i % 200, 64));
		EXPECT_TRUE(all_are(out + i * 64, i % 7 ? 255 : 254, 32));
		EXPECT_TRUE(all_are(out + i * 64 + 32, 255, 32));
		EXPECT_CU(cuStreamDestroy(s[i]));
	}
	EXPECT_CU(cuEventDestroy(all));
	EXPECT_CU(cuMemFreeHost(word));
	EXPECT_CU(cuMemFree(p));
}

/* Hundreds of records in flight: each has a time of its own, in order. */
TEST_F(stream, many_timestamps)
{
	enum { N = 200 };
	static CUevent e[N];
	float ms;

	ASSERT_EQ(NOT_READY, load_put_busy(&self->load, self->free));
	for (int i = 0; i < N; i++) {
		ASSERT_CU(cuEventCreate(&e[i], 0));
		ASSERT_CU(cuEventRecord(e[i], self->free));
	}
	ASSERT_CU(cuStreamSynchronize(self->free));
	for (int i = 1; i < N; i++) {
		ASSERT_CU(cuEventElapsedTime(&ms, e[i - 1], e[i]));
		ASSERT_LE(0, ms);
	}
	ASSERT_CU(cuEventElapsedTime(&ms, e[0], e[N - 1]));
	EXPECT_LT(0, ms);
	for (int i = 0; i < N; i++) {
		EXPECT_CU(cuEventDestroy(e[i]));
	}
}

/* --- threads */

struct worker {
	pthread_t thread;
	CUcontext ctx;
	CUdeviceptr p;
	CUstream shared;
	unsigned int number;
	unsigned long long own_id;
	int failed;		/* line */
};

#define WORD(w, i)	((w)->p + (w)->number * 4096 + (i) * 4)

#define CHECK(cond) do { \
		if (!(cond)) { \
			w->failed = __LINE__; \
			return NULL; \
		} \
	} while (0)

static void *work(void *arg)
{
	struct worker *w = arg;
	unsigned int out[4];
	CUstream own;
	CUevent e;

	CHECK(!cuCtxSetCurrent(w->ctx));
	CHECK(!cuStreamGetId(CU_STREAM_PER_THREAD, &w->own_id));
	CHECK(!cuEventCreate(&e, w->number & 1 ? CU_EVENT_DISABLE_TIMING : 0));
	for (unsigned int i = 0; i < 150; i++) {
		unsigned int value = w->number << 16 | i;
		CUdeviceptr mem;

		CHECK(!cuStreamCreate(&own, i & 1));
		CHECK(!cuMemAlloc(&mem, 5000));
		CHECK(sees(mem, 0, 5000));
		/* Own stream, thread's stream, one stream of all: ordered by events. */
		CHECK(!cuMemsetD32Async(WORD(w, 0), value, 4, own));
		CHECK(!cuEventRecord(e, own));
		CHECK(!cuStreamWaitEvent(CU_STREAM_PER_THREAD, e, 0));
		CHECK(!cuMemcpyDtoDAsync(WORD(w, 8), WORD(w, 0), 16, CU_STREAM_PER_THREAD));
		CHECK(!cuEventRecord(e, CU_STREAM_PER_THREAD));
		CHECK(!cuStreamWaitEvent(w->shared, e, 0));
		CHECK(!cuMemcpyDtoDAsync(WORD(w, 16), WORD(w, 8), 16, w->shared));
		CHECK(!cuMemcpyDtoHAsync(out, WORD(w, 16), 16, w->shared));
		CHECK(out[0] == value && out[3] == value);
		CHECK(!cuMemsetD8_v2_ptds(mem, i, 5000));
		if (i % 16 == 0) {
			CHECK(!cuMemcpyDtoD(WORD(w, 24), WORD(w, 16), 16));
			CHECK(!cuMemcpyDtoH(out, WORD(w, 24), 16));
			CHECK(out[1] == value && out[2] == value);
		}
		CHECK(!cuStreamDestroy(own));
		CHECK(!cuMemFree(mem));
	}
	CHECK(!cuEventDestroy(e));
	return NULL;
}

TEST_F_TIMEOUT(stream, threads, 120)
{
	enum { N = 8 };
	struct worker w[N];

	for (int i = 0; i < N; i++) {
		w[i] = (struct worker) {
			.ctx = self->ctx, .p = self->p, .shared = self->free, .number = i,
		};
		ASSERT_EQ(0, pthread_create(&w[i].thread, NULL, work, &w[i]));
	}
	for (int i = 0; i < N; i++) {
		ASSERT_EQ(0, pthread_join(w[i].thread, NULL));
	}
	for (int i = 0; i < N; i++) {
		EXPECT_EQ(0, w[i].failed) {
			TH_LOG("thread %d failed in line %d", i, w[i].failed);
		}
		for (int k = 0; k < i; k++) {
			EXPECT_NE(w[k].own_id, w[i].own_id);
		}
	}
	EXPECT_CU(cuCtxSynchronize());
}

static void *leave_work(void *arg)
{
	struct worker *w = arg;

	CHECK(!cuCtxSetCurrent(w->ctx));
	for (unsigned int i = 0; i < 200; i++)
		CHECK(!cuMemsetD32Async(WORD(w, 0), i, 1024, CU_STREAM_PER_THREAD));
	return NULL;
}

/* A thread that ends leaves its stream's work to be done. */
TEST_F(stream, thread_ends_with_work)
{
	for (unsigned int i = 0; i < 20; i++) {
		struct worker w = { .ctx = self->ctx, .p = self->p, .number = i };

		ASSERT_EQ(0, pthread_create(&w.thread, NULL, leave_work, &w));
		ASSERT_EQ(0, pthread_join(w.thread, NULL));
		ASSERT_EQ(0, w.failed);
	}
	EXPECT_CU(cuCtxSynchronize());
	for (unsigned int i = 0; i < 20; i++) {
		const unsigned int *words = (const unsigned int *)view(self->p + i * 4096,
								       4096);

		EXPECT_EQ(199, words[0]);
		EXPECT_EQ(199, words[1023]);
	}
}

/* --- contexts */

TEST_F(stream, other_context)
{
	CUcontext two, ctx;
	CUstream s;
	CUevent e;

	ASSERT_CU(cuCtxCreate(&two, NULL, 0, 0));
	ASSERT_CU(cuStreamCreate(&s, 0));
	ASSERT_CU(cuEventCreate(&e, 0));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	/* A stream may be used from another context, an event's record may not. */
	EXPECT_CU(cuMemsetD8Async(self->p, 4, 100, s));
	EXPECT_CU(cuStreamSynchronize(s));
	EXPECT_TRUE(sees(self->p, 4, 100));
	EXPECT_CU(cuStreamGetCtx(s, &ctx));
	EXPECT_EQ(two, ctx);
	EXPECT_EQ(BAD_HANDLE, cuEventRecord(e, self->a));
	EXPECT_CU(cuEventRecord(e, s));
	/* Each context has a legacy stream of its own. */
	NOT_HELD(s, NULL);
	/* Destroying the context waits, and ends its streams; events live on. */
	ASSERT_EQ(NOT_READY, load_put_busy(&self->load, s));
	EXPECT_CU(cuEventRecord(e, s));
	EXPECT_CU(cuCtxDestroy(two));
	EXPECT_TRUE(load_done(&self->load));
	EXPECT_CU(cuEventQuery(e));
	EXPECT_EQ(BAD_HANDLE, cuStreamQuery(s));
	EXPECT_EQ(BAD_HANDLE, cuMemsetD8Async(self->p, 5, 100, s));
}

/* Contexts that end wait for no other's work. */
TEST_F(stream, ends_beside_others)
{
	CUstream held, other;
	volatile __u32 *word;
	CUcontext two, three;
	CUdeviceptr p, q;
	CUevent done;

	/* Held by the primary context, then by another one. */
	for (int i = 0; i < 2; i++) {
		if (i) {
			ASSERT_CU(cuCtxCreate(&two, NULL, 0, 0));
		}
		ASSERT_CU(cuMemHostAlloc((void **)&word, 4096, 0));
		*word = 0;
		ASSERT_CU(cuMemAlloc(&p, MIB));
		ASSERT_CU(cuMemsetD8(p, 1, 4096));
		ASSERT_CU(cuCtxSynchronize());
		ASSERT_CU(cuStreamCreate(&held, i ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
		ASSERT_CU(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
		ASSERT_CU(cuStreamWaitValue32(held, (uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ));
		ASSERT_CU(cuMemsetD8Async(p, 2, 4096, held));
		ASSERT_CU(cuEventRecord(done, held));
		/* One that has work and memory of its own. */
		ASSERT_CU(cuCtxCreate(&three, NULL, 0, 0));
		ASSERT_CU(cuMemAlloc(&q, MIB));
		ASSERT_CU(cuStreamCreate(&other, CU_STREAM_DEFAULT));
		ASSERT_EQ(NOT_READY, load_put_busy(&self->load, other));
		ASSERT_CU(cuMemsetD8Async(q, 3, MIB, other));
		EXPECT_CU(cuCtxDestroy(three));
		EXPECT_TRUE(load_done(&self->load));
		if (i) {
			EXPECT_CU(cuDevicePrimaryCtxReset(0));
			ASSERT_CU(cuCtxSetCurrent(two));
		} else {
			ASSERT_CU(cuCtxSetCurrent(self->ctx));
		}
		EXPECT_EQ(NOT_READY, cuStreamQuery(held));
		EXPECT_EQ(NOT_READY, cuEventQuery(done));
		EXPECT_TRUE(all_are(view(p, 4096), 1, 4096));
		__atomic_store_n(word, 1, __ATOMIC_RELEASE);
		EXPECT_CU(cuStreamSynchronize(held));
		EXPECT_CU(cuEventQuery(done));
		EXPECT_TRUE(sees(p, 2, 4096));
	}
	EXPECT_CU(cuCtxDestroy(two));
	ASSERT_CU(cuDevicePrimaryCtxRetain(&self->ctx, 0));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_CU(cuMemAlloc(&p, 4096));
	EXPECT_CU(cuMemFree(p));
}

/*
 * Work that fails: the mapping is taken away by the kernel's interface, behind the library's back.
 * Nothing in the CUDA API can do that.
 */
static bool take_away(CUdeviceptr p)
{
	CUdeviceptr base = 0;
	size_t length = 0;
	__u64 gone = 0;
	int fd = -1;

	if (node_fds(&fd) != 1 ||
	    cuPointerGetAttribute(&base, CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR, p) ||
	    cuPointerGetAttribute(&length, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, p))
		return false;
	for (__u32 vm = 1; vm < 64; vm++) {
		if (!gp_vm_unmap(fd, vm, base, length, &gone) && gone == length)
			return true;
	}
	return false;
}

static CUresult fail(CUdeviceptr *p)
{
	CUipcMemHandle handle;
	CUresult result = cuMemAlloc(p, 3 * MIB);

	if (!result)
		result = cuIpcGetMemHandle(&handle, *p);
	if (!result && !take_away(*p))
		result = CUDA_ERROR_UNKNOWN;
	return result ? result : cuMemsetD8(*p, 1, 4096);
}

TEST_F(stream, failed_work_sticks)
{
	const CUresult bad = CUDA_ERROR_ILLEGAL_ADDRESS;
	CUcontext two, three;
	CUdeviceptr p, q;
	CUstream s;
	CUevent e;

	ASSERT_CU(cuCtxCreate(&two, NULL, 0, 0));
	ASSERT_CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(fail(&p));
	EXPECT_EQ(bad, cuCtxSynchronize());
	EXPECT_EQ(bad, cuStreamSynchronize(NULL));
	EXPECT_EQ(bad, cuStreamQuery(s));
	EXPECT_EQ(bad, cuMemAlloc(&q, 4096));
	EXPECT_EQ(bad, cuMemsetD8(p, 1, 1));
	EXPECT_EQ(bad, cuMemsetD8Async(self->p, 1, 1, s));
	EXPECT_EQ(bad, cuStreamCreate(&s, 0));
	EXPECT_EQ(bad, cuEventCreate(&e, 0));
	/* No other context notices. */
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_CU(cuMemsetD8(self->p, 7, 100));
	EXPECT_CU(cuCtxSynchronize());
	EXPECT_TRUE(sees(self->p, 7, 100));
	EXPECT_CU(cuMemAlloc(&q, 4096));
	EXPECT_CU(cuMemFree(q));
	/* The context can be destroyed, and the next one is a new one. */
	EXPECT_CU(cuCtxDestroy(two));
	ASSERT_CU(cuCtxCreate(&three, NULL, 0, 0));
	EXPECT_CU(cuMemAlloc(&q, 4096));
	EXPECT_CU(cuMemsetD8(q, 1, 4096));
	EXPECT_CU(cuCtxSynchronize());
	EXPECT_TRUE(sees(q, 1, 4096));
	EXPECT_CU(cuMemFree(q));
	EXPECT_CU(cuCtxDestroy(three));
	EXPECT_EQ(18 * (long long)MIB, used(0));
}

TEST_F(stream, reset_after_failed_work)
{
	CUdeviceptr p;

	ASSERT_CU(fail(&p));
	EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
	EXPECT_CU(cuDevicePrimaryCtxReset(0));
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 5));
	ASSERT_CU(cuDevicePrimaryCtxRetain(&self->ctx, 0));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_CU(cuMemAlloc(&p, 4096));
	EXPECT_CU(cuMemsetD8(p, 1, 4096));
	EXPECT_CU(cuCtxSynchronize());
	EXPECT_TRUE(sees(p, 1, 4096));
	EXPECT_CU(cuMemFree(p));
}

/* --- queues that failed */

static bool streams_become(__u64 most)
{
	struct gpumem_stats stats = { .streams = 0 };

	for (int i = 0; i < 1000; i++) {
		if (client_stats(&stats))
			return false;
		if (stats.streams <= most)
			return true;
		nap_ms(10);
	}
	fprintf(stderr, "# %llu streams, more than %llu\n", stats.streams, most);
	return false;
}

static CUresult copy_batch(CUdeviceptr to, CUdeviceptr from, size_t bytes,
			   CUmemcpySrcAccessOrder order, CUstream s)
{
	CUmemcpyAttributes attr = { .srcAccessOrder = order };
	size_t zero = 0;

	return cuMemcpyBatchAsync(&to, &from, &bytes, 1, &attr, &zero, 1, s);
}

/* An exported allocation that its devices cannot reach any more. */
static CUresult unreachable(CUdeviceptr *p)
{
	CUipcMemHandle handle;
	CUresult result = cuMemAlloc(p, 3 * MIB);

	if (!result)
		result = cuIpcGetMemHandle(&handle, *p);
	return result ? result : take_away(*p) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

static void CUDA_CB nothing(void *arg)
{
	(void)arg;
}

/*
 * Contexts that fail leave no queues behind: not that of a stream that is there to the end, not that
 * of one that was destroyed before its work failed, and not that of the library's own worker.
 */
TEST_F_TIMEOUT(stream, failed_queues, 120)
{
	static unsigned char host[4096];
	struct gpumem_stats first = { .streams = 0 };
	CUstream stays, goes, s;
	volatile __u32 *word;
	CUdeviceptr p;
	CUcontext ctx;

	ASSERT_CU(cuMemHostAlloc((void **)&word, 4096, 0));
	for (int i = 0; i < 8; i++) {
		*word = 0;
		ASSERT_CU(cuCtxCreate(&ctx, NULL, 0, 0));
		ASSERT_CU(unreachable(&p));
		ASSERT_CU(cuStreamCreate(&stays, CU_STREAM_NON_BLOCKING));
		ASSERT_CU(cuStreamCreate(&goes, CU_STREAM_NON_BLOCKING));
		ASSERT_CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
		ASSERT_CU(cuStreamWaitValue32(goes, (uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ));
		ASSERT_CU(cuMemsetD8Async(p, 1, 4096, goes));
		ASSERT_CU(cuLaunchHostFunc(goes, nothing, NULL));
		ASSERT_CU(cuStreamDestroy(goes));
		ASSERT_CU(cuStreamWaitValue32(s, (uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ));
		ASSERT_CU(copy_batch(p, (uintptr_t)host, sizeof(host),
				     CU_MEMCPY_SRC_ACCESS_ORDER_STREAM, s));
		ASSERT_CU(cuMemsetD8Async(p, 1, 4096, stays));
		EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(stays));
		if (i & 1) {
			EXPECT_CU(cuStreamDestroy(stays));
		}
		__atomic_store_n(word, 1, __ATOMIC_RELEASE);
		EXPECT_CU(cuCtxDestroy(ctx));
		if (!i) {
			ASSERT_EQ(0, client_stats(&first));
			EXPECT_LT(0, first.streams);
		}
		ASSERT_TRUE(streams_become(first.streams));
	}
	/* What is left works. */
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_CU(cuMemsetD8Async(self->p, 3, 100, self->a));
	EXPECT_CU(cuStreamSynchronize(self->a));
	EXPECT_TRUE(sees(self->p, 3, 100));
}

/* Nor do calls that fail at once: a busy stream's source is read out of its turn. */
TEST_F(stream, failed_reads)
{
	struct gpumem_stats first = { .streams = 0 };
	volatile __u32 *word;
	CUdeviceptr p;

	ASSERT_CU(cuMemHostAlloc((void **)&word, 4096, 0));
	*word = 0;
	ASSERT_CU(unreachable(&p));
	ASSERT_CU(cuStreamWaitValue32(self->a, (uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ));
	for (int i = 0; i < 8; i++) {
		EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS,
			  copy_batch(self->p, p, 4096,
				     CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL, self->a));
		if (!i) {
			ASSERT_EQ(0, client_stats(&first));
		}
		ASSERT_TRUE(streams_become(first.streams));
	}
	EXPECT_EQ(NOT_READY, cuStreamQuery(self->a));
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
	EXPECT_CU(cuCtxSynchronize());
}

/* In strict mode the engine zeroes what is used again. */
TEST_F(stream, failed_zeroing)
{
	struct gpumem_stats first = { .streams = 0 };
	CUresult want = strict() ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS;
	CUdeviceptr keep, p;

	ASSERT_CU(cuMemAlloc(&keep, 64 * KIB));
	ASSERT_CU(cuMemAlloc(&p, 64 * KIB));
	ASSERT_CU(cuMemsetD8(p, 1, 64 * KIB));
	ASSERT_CU(cuCtxSynchronize());
	ASSERT_CU(cuMemFree(p));
	ASSERT_TRUE(take_away(keep));
	for (int i = 0; i < 8; i++) {
		EXPECT_EQ(want, cuMemAlloc(&p, 64 * KIB));
		if (!i) {
			ASSERT_EQ(0, client_stats(&first));
		}
		ASSERT_TRUE(streams_become(first.streams));
	}
}

int main(int argc, char **argv)
{
	return test_harness_run(argc, argv);
}
