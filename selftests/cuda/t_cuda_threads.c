// SPDX-License-Identifier: GPL-2.0
/*
 * Tests the library with several threads at a time: data that one thread writes and others look up
 * without a lock, structures that the library reuses, data of single threads, and a current pool
 * that one thread destroys while others allocate from it.
 *
 * Threads look up addresses that other threads allocate, register and free; each result must have
 * been right at some moment during the call.  All other results are as for one thread.  The rounds
 * are few, because host/lib_guest.sh runs them under the thread sanitizer, which finds races that
 * had no effect.
 */
#include <pthread.h>

#include "kselftest_harness.h"
#include "cuda_util.h"

#include <gpumem.h>

#define PLACES	16
#define PLACE	(64 * KIB)		/* of the program's memory */

CONTEXT_FIXTURE(threads)

struct worker {
	pthread_t thread;
	void *(*work)(void *worker);
	CUcontext ctx;
	unsigned int number;
	int failed;			/* line */
};

static unsigned char *memory;		/* the program's, to be registered */
static CUdeviceptr places[PLACES];	/* allocations, bit 0: device memory; 0: none; atomic */
static bool stop;			/* atomic */

/* Runs the workers; the line in which one failed, or 0. */
static int run_workers(CUcontext ctx, void *(*const *work)(void *), unsigned int n)
{
	struct worker w[16];
	int failed = 0;

	for (unsigned int i = 0; i < n; i++) {
		w[i] = (struct worker) { .work = work[i], .ctx = ctx, .number = i };
		if (pthread_create(&w[i].thread, NULL, w[i].work, &w[i]))
			return __LINE__;
	}
	for (unsigned int i = 0; i < n; i++) {
		pthread_join(w[i].thread, NULL);
		failed = failed ? failed : w[i].failed;
	}
	return failed;
}

static unsigned int rounds(unsigned int usual)
{
	const char *text = getenv("GPUMEM_STEPS");
	unsigned long steps = text ? strtoul(text, NULL, 0) : 0;

	return steps > usual && !getenv("GPUMEM_QUICK") ? steps : usual;
}

/* --- lookups */

static unsigned int left;		/* workers that are not done; atomic */

static void done(void)
{
	if (!__atomic_sub_fetch(&left, 1, __ATOMIC_ACQ_REL))
		__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
}

static void *allocate(void *arg)
{
	struct worker *w = arg;
	unsigned int seed = w->number;

	WORKER_CHECK(!cuCtxSetCurrent(w->ctx));
	for (unsigned int i = 0; i < rounds(60); i++) {
		CUdeviceptr *place = &places[rand_r(&seed) % (PLACES / 2) * 2 + (w->number & 1)];
		CUdeviceptr p = 0;
		size_t n = rand_r(&seed) % 8 ? 1u + rand_r(&seed) % 9000 : 5 * MIB / 2;

		/* Each allocating thread has half of the places, and frees what it replaces. */
		WORKER_CHECK(!(i & 1 ? cuMemAlloc(&p, n) : cuMemHostAlloc((void **)&p, n, 0)));
		p = __atomic_exchange_n(place, p | (i & 1), __ATOMIC_ACQ_REL);
		if (p & 1) {
			WORKER_CHECK(!cuMemFree(p & ~1ULL));
		} else {
			WORKER_CHECK(!cuMemFreeHost(cpu(p)));
		}
	}
	done();
	return NULL;
}

static void *register_all(void *arg)
{
	struct worker *w = arg;

	WORKER_CHECK(!cuCtxSetCurrent(w->ctx));
	for (unsigned int i = 0; i < rounds(60); i++) {
		unsigned char *p = memory + (i * 5 + w->number) % 8 * 2 * PLACE +
			(w->number & 1) * PLACE;

		WORKER_CHECK(!cuMemHostRegister(p + i % 3, 5000 + i, 0));
		WORKER_CHECK(!cuMemHostUnregister(p + i % 3));
	}
	done();
	return NULL;
}

static void *look(void *arg)
{
	struct worker *w = arg;
	CUpointer_attribute which[] = {
		CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, CU_POINTER_ATTRIBUTE_RANGE_SIZE,
		CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_BUFFER_ID,
	};
	unsigned int seed = w->number;
	char text[200];

	WORKER_CHECK(!cuCtxSetCurrent(w->ctx));
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		unsigned long long start = 0, size = 0, id = 0;
		CUcontext ctx = NULL;
		void *data[] = { &start, &size, &ctx, &id };
		CUdeviceptr p = __atomic_load_n(&places[rand_r(&seed) % PLACES],
						__ATOMIC_ACQUIRE) & ~1ULL;

		p = rand_r(&seed) % 4 ? p + rand_r(&seed) % 4096 :
			(uintptr_t)memory + rand_r(&seed) % (16 * PLACE);
		WORKER_CHECK(!cuPointerGetAttributes(4, which, data, p));
		if (id) {
			WORKER_CHECK(ctx == w->ctx);
			WORKER_CHECK(p - start < size);
		}
		gpumem_describe(cpu(p), text, sizeof(text));
		sched_yield();
	}
	return NULL;
}

TEST_F_TIMEOUT(threads, lookups, 120)
{
	void *(*const work[])(void *) = {
		allocate, allocate, register_all, register_all, look, look,
	};

	memory = mmap(NULL, 16 * PLACE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, memory);
	memset(memory, 1, 16 * PLACE);
	left = 4;
	EXPECT_EQ(0, run_workers(self->ctx, work, ARRAY_SIZE(work)));
	for (unsigned int i = 0; i < PLACES; i++) {
		EXPECT_CU(places[i] & 1 ? cuMemFree(places[i] & ~1ULL) :
			  cuMemFreeHost(cpu(places[i])));
	}
	EXPECT_EQ(0, used(0));
}

/* --- streams, events and functions */

static unsigned int calls;		/* atomic */

static void CUDA_CB count(void *arg)
{
	__atomic_fetch_add((unsigned int *)arg, 1, __ATOMIC_RELAXED);
}

static CUevent events[4];		/* these and the stream are shared by all threads */
static CUstream all;

static void *submit(void *arg)
{
	struct worker *w = arg;
	unsigned int seen = 0, want = 0;
	CUipcEventHandle handle;
	CUdeviceptr p;
	CUevent own;

	WORKER_CHECK(!cuCtxSetCurrent(w->ctx));
	WORKER_CHECK(!cuMemAlloc(&p, 4096));
	for (unsigned int i = 0; i < rounds(40); i++) {
		CUevent e = events[(i + w->number) % ARRAY_SIZE(events)];
		CUstream s;

		WORKER_CHECK(!cuStreamCreate(&s, i & 1));
		WORKER_CHECK(!cuEventCreate(&own, 0));
		WORKER_CHECK(!cuMemsetD8Async(p, i, 4096, s));
		WORKER_CHECK(!cuLaunchHostFunc(s, count, &seen));
		WORKER_CHECK(!cuLaunchHostFunc(all, count, &calls));
		want++;
		WORKER_CHECK(!cuEventRecord(own, s));
		/* Other threads record @e at the same time: the wait is for one of the records. */
		WORKER_CHECK(!cuEventRecord(e, s));
		WORKER_CHECK(!cuIpcGetEventHandle(&handle, e));
		WORKER_CHECK(!cuStreamWaitEvent(all, e, 0));
		WORKER_CHECK(!cuStreamWriteValue32(all, p + 64, i, 0));
		WORKER_CHECK(!cuEventQuery(e) || true);
		WORKER_CHECK(!cuStreamWaitEvent(CU_STREAM_PER_THREAD, own, 0));
		WORKER_CHECK(!cuStreamDestroy(s));
		WORKER_CHECK(!cuStreamSynchronize(CU_STREAM_PER_THREAD));
		WORKER_CHECK(!cuEventDestroy(own));
		WORKER_CHECK(seen == want);
	}
	return NULL;
}

TEST_F_TIMEOUT(threads, streams, 120)
{
	void *(*const work[])(void *) = { submit, submit, submit, submit };

	ASSERT_CU(cuStreamCreate(&all, CU_STREAM_NON_BLOCKING));
	for (unsigned int i = 0; i < ARRAY_SIZE(events); i++)
		ASSERT_CU(cuEventCreate(&events[i],
					CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	EXPECT_EQ(0, run_workers(self->ctx, work, ARRAY_SIZE(work)));
	EXPECT_CU(cuCtxSynchronize());
	EXPECT_EQ(4 * rounds(40), calls);
	for (unsigned int i = 0; i < ARRAY_SIZE(events); i++)
		EXPECT_CU(cuEventDestroy(events[i]));
}

/* --- contexts */

static void *live(void *arg)
{
	struct worker *w = arg;
	CUcontext ctx, primary;
	unsigned char *out;
	CUdeviceptr p;

	/* Pinned, so that no copy needs staging memory, which would stay allocated. */
	WORKER_CHECK(!cuCtxSetCurrent(w->ctx));
	WORKER_CHECK(!cuMemHostAlloc((void **)&out, 4096, 0));
	for (unsigned int i = 0; i < rounds(25); i++) {
		WORKER_CHECK(!cuCtxCreate(&ctx, NULL, 0, 0));
		WORKER_CHECK(!cuMemAlloc(&p, 4096));
		WORKER_CHECK(!cuMemsetD8Async(p, i, 4096, CU_STREAM_PER_THREAD));
		WORKER_CHECK(!cuMemcpyDtoHAsync(out, p, 4096, CU_STREAM_PER_THREAD));
		WORKER_CHECK(!cuStreamSynchronize(CU_STREAM_PER_THREAD));
		WORKER_CHECK(!cuMemsetD8(p, ~i, 4096));
		WORKER_CHECK(all_are(out, i, 4096));
		WORKER_CHECK(!cuDevicePrimaryCtxRetain(&primary, 0));
		WORKER_CHECK(primary == w->ctx);
		WORKER_CHECK(!cuCtxPushCurrent(primary));
		WORKER_CHECK(!cuMemAlloc(&p, 100));
		WORKER_CHECK(!cuMemsetD8Async(p, 1, 100, CU_STREAM_PER_THREAD));
		WORKER_CHECK(!cuMemFree(p));
		WORKER_CHECK(!cuCtxPopCurrent(NULL));
		WORKER_CHECK(!cuDevicePrimaryCtxRelease(0));
		WORKER_CHECK(!cuCtxDestroy(ctx));
	}
	return NULL;
}

TEST_F_TIMEOUT(threads, contexts, 120)
{
	void *(*const work[])(void *) = { live, live, live, live };

	EXPECT_EQ(0, run_workers(self->ctx, work, ARRAY_SIZE(work)));
	EXPECT_EQ(0, used(0));
}

/* --- the current pool */

static CUmemoryPool offered;		/* atomic */
static CUmemoryPool fallback;

static void *set_current(void *arg)
{
	struct worker *w = arg;

	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		CUmemoryPool pool = __atomic_load_n(&offered, __ATOMIC_ACQUIRE);
		/* The pool may have host memory, or be destroyed by now. */
		CUresult result = cuDeviceSetMemPool(0, pool ? pool : fallback);

		WORKER_CHECK(!result || (pool && result == CUDA_ERROR_INVALID_VALUE));
	}
	return NULL;
}

/* There always is a current pool, and it allocates device memory. */
static void *use_current(void *arg)
{
	struct worker *w = arg;
	CUmemoryPool pool;
	CUstream s;

	WORKER_CHECK(!cuCtxSetCurrent(w->ctx));
	WORKER_CHECK(!cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	for (unsigned int i = 0; !__atomic_load_n(&stop, __ATOMIC_ACQUIRE); i++) {
		CUdeviceptr p[3];

		WORKER_CHECK(!cuDeviceGetMemPool(&pool, 0));
		WORKER_CHECK(pool);
		for (unsigned int k = 0; k < ARRAY_SIZE(p); k++) {
			unsigned int type = 0;

			WORKER_CHECK(!cuMemAllocAsync(&p[k], k ? 3000 : MIB + 1, s));
			WORKER_CHECK(!cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
						     p[k]));
			WORKER_CHECK(type == CU_MEMORYTYPE_DEVICE);
			WORKER_CHECK(!cuMemsetD8Async(p[k], i, 3000, s));
		}
		for (unsigned int k = 0; k < ARRAY_SIZE(p); k++)
			WORKER_CHECK(!cuMemFreeAsync(p[k], s));
		if (i % 16 == 0)
			WORKER_CHECK(!cuStreamSynchronize(s));
	}
	WORKER_CHECK(!cuStreamDestroy(s));
	return NULL;
}

static void *destroy_pools(struct worker *w)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED };
	CUmemoryPool pool, current;

	for (unsigned int i = 0; i < rounds(1000); i++) {
		/* The next pool reuses the structure of the last one. */
		props.location.type = i % 3 ? CU_MEM_LOCATION_TYPE_DEVICE :
			CU_MEM_LOCATION_TYPE_HOST;
		WORKER_CHECK(!cuMemPoolCreate(&pool, &props));
		__atomic_store_n(&offered, pool, __ATOMIC_RELEASE);
		for (unsigned int k = 0; k < i % 5; k++)
			sched_yield();
		WORKER_CHECK(!cuMemPoolDestroy(pool));
		WORKER_CHECK(!cuDeviceGetMemPool(&current, 0));
		WORKER_CHECK(current != pool);
		if (i % 4 == 0)
			__atomic_store_n(&offered, NULL, __ATOMIC_RELEASE);
	}
	WORKER_CHECK(!cuDeviceGetMemPool(&current, 0));
	WORKER_CHECK(current == fallback);
	return NULL;
}

static void *destroy_current(void *arg)
{
	destroy_pools(arg);
	__atomic_store_n(&stop, true, __ATOMIC_RELEASE);
	return NULL;
}

TEST_F_TIMEOUT(threads, current_pool, 120)
{
	void *(*const work[])(void *) = { set_current, use_current, use_current, destroy_current };

	ASSERT_CU(cuDeviceGetDefaultMemPool(&fallback, 0));
	stop = false;
	EXPECT_EQ(0, run_workers(self->ctx, work, ARRAY_SIZE(work)));
	EXPECT_CU(cuCtxSynchronize());
}

TEST_HARNESS_MAIN
