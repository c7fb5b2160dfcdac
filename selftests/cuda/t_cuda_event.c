// SPDX-License-Identifier: GPL-2.0
/*
 * Events by the CUDA API: what an event stands for, what waits for it, times, and destroyed
 * streams.
 */
#include <time.h>

#include "kselftest_harness.h"
#include "cuda_stream_fixture.h"

CUDA_STREAM_FIXTURE(event)

TEST_F(event, event_rules)
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

TEST_F(event, event_of_busy_stream)
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
	/* The load ran between the two events, so it is a large part of the time. */
	EXPECT_LT(wall / 4, ms);
	EXPECT_CU(cuEventElapsedTime(&wall, after, before));
	EXPECT_EQ(-ms, wall);
}

/* A wait is for the record at the time of the call, and does not need the event afterwards. */
TEST_F(event, waits)
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
	/* A later record does not move an earlier wait; queries report the later record. */
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

/* Events outlive their stream, and the next owner of its queue does not change them. */
TEST_F(event, event_of_destroyed_stream)
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

/* Hundreds of records in flight: each has a time of its own, in order. */
TEST_F(event, many_timestamps)
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

int main(int argc, char **argv)
{
	return test_harness_run(argc, argv);
}
