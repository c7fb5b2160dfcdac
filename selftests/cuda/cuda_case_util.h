/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers for cases of several CUDA programs: a gate that holds a stream, a pool that keeps its
 * memory, and a thread that carries out one step at each order.  Include this after
 * kselftest_harness.h.
 */
#ifndef GPUMEM_SELFTESTS_CUDA_CASE_UTIL_H
#define GPUMEM_SELFTESTS_CUDA_CASE_UTIL_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "cuda_util.h"

/* --- a gate: work behind it waits for a word of pinned memory that is not written yet */

static inline CUresult gate_put(CUstream stream, volatile cuuint32_t *word)
{
	__atomic_store_n(word, 0, __ATOMIC_RELEASE);
	return cuStreamWaitValue32(stream, (uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_GEQ);
}

static inline void gate_open(volatile cuuint32_t *word)
{
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
}

/* Operations that are queued in @waits from now on start after those in @recorded have ended. */
static inline CUresult stream_follow(CUstream waits, CUstream recorded)
{
	CUevent event;
	CUresult result = cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);

	if (result)
		return result;
	result = cuEventRecord(event, recorded);
	if (!result)
		result = cuStreamWaitEvent(waits, event, 0);
	cuEventDestroy(event);
	return result;
}

/* --- pools */

/* Make a pool of the first device; @most: its maxSize, 0 for no limit. */
static inline CUresult pool_make(CUmemoryPool *pool, size_t most)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE }, .maxSize = most,
	};

	return cuMemPoolCreate(pool, &props);
}

/* Make a pool that gives no memory back to the device until it is trimmed. */
static inline CUresult pool_make_keeping(CUmemoryPool *pool, size_t most)
{
	CUresult result = pool_make(pool, most);
	cuuint64_t keep = ~0ull;

	return result ? result :
		cuMemPoolSetAttribute(*pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
}

static inline cuuint64_t pool_figure(CUmemoryPool pool, CUmemPool_attribute attribute)
{
	cuuint64_t value = ~0ull;

	if (cuMemPoolGetAttribute(pool, attribute, &value))
		abort();
	return value;
}

#define POOL_USED(pool)			pool_figure(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
#define POOL_USED_HIGH(pool)		pool_figure(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH)
#define POOL_RESERVED(pool)		pool_figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
#define POOL_RESERVED_HIGH(pool)	pool_figure(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)

/* Allocate, free and wait: the pool's memory is idle afterwards. */
static inline CUresult pool_use(CUmemoryPool pool, CUstream s, size_t bytes)
{
	CUdeviceptr p;
	CUresult result = cuMemAllocFromPoolAsync(&p, bytes, pool, s);

	if (!result)
		result = cuMemFreeAsync(p, s);
	return result ? result : cuStreamSynchronize(s);
}

/* --- a thread that waits for orders */

struct stepper {
	pthread_t thread;
	CUcontext ctx;			/* current in the thread */
	CUresult (*step)(void *arg, unsigned int n);	/* @n: 1, then 2 ... */
	void *arg;
	CUresult result;		/* the first error */
	atomic_uint ordered, done;
	atomic_bool end;
};

/* Wait until a number reaches @n: first by spinning, to continue with little delay. */
static inline void stepper_await(atomic_uint *number, unsigned int n)
{
	unsigned int turns = 0;

	while ((int)(atomic_load(number) - n) < 0)
		if (++turns > 20000)
			sched_yield();
}

static inline void *stepper_main(void *arg)
{
	struct stepper *s = arg;

	s->result = cuCtxSetCurrent(s->ctx);
	for (unsigned int n = 1;; n++) {
		stepper_await(&s->ordered, n);
		if (atomic_load(&s->end))
			return NULL;
		if (!s->result)
			s->result = s->step(s->arg, n);
		atomic_store(&s->done, n);
	}
}

static inline bool stepper_start(struct stepper *s)
{
	return !pthread_create(&s->thread, NULL, stepper_main, s);
}

/* Order a step, without waiting for it. */
static inline void stepper_order(struct stepper *s)
{
	atomic_fetch_add(&s->ordered, 1);
}

/* Wait until all ordered steps are done, and return the first error. */
static inline CUresult stepper_wait(struct stepper *s)
{
	stepper_await(&s->done, atomic_load(&s->ordered));
	return s->result;
}

static inline CUresult stepper_step(struct stepper *s)
{
	stepper_order(s);
	return stepper_wait(s);
}

/* Wait for the ordered steps, and end the thread without another step. */
static inline void stepper_end(struct stepper *s)
{
	stepper_wait(s);
	atomic_store(&s->end, true);
	stepper_order(s);
	pthread_join(s->thread, NULL);
}

#endif
