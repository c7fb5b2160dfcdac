// SPDX-License-Identifier: GPL-2.0
/*
 * Batches of prefetches and discards of managed memory, by both APIs: which location each range gets, what is
 * refused and changes nothing, what a discard leaves, and a model of the locations of pages.
 *
 * The conformance program compares the results of single calls with the recorded driver's.
 */
#include <pthread.h>

#include "kselftest_harness.h"
#include "cuda_rt_util.h"

#define PAGE		4096ull
#define RANGES		4
#define BYTES		(16 * PAGE)

FIXTURE(prefetch)
{
	CUcontext ctx;
	CUstream s;
	CUdeviceptr mem[RANGES];
	size_t sizes[RANGES];
};

FIXTURE_SETUP(prefetch)
{
	cuda_begin(_metadata, &self->ctx);
	ASSERT_CU(cuStreamCreate(&self->s, CU_STREAM_NON_BLOCKING));
	for (unsigned int i = 0; i < RANGES; i++) {
		ASSERT_CU(cuMemAllocManaged(&self->mem[i], BYTES, CU_MEM_ATTACH_GLOBAL));
		memset(cpu(self->mem[i]), i + 1, BYTES);
		self->sizes[i] = BYTES;
	}
}

QUIET_AFTERWARDS(prefetch)

static CUmemLocation at(int type, int id)
{
	return (CUmemLocation){ .type = type, .id = id };
}

#define DEVICE		at(CU_MEM_LOCATION_TYPE_DEVICE, 0)
#define HOST		at(CU_MEM_LOCATION_TYPE_HOST, 0)

static int fetched(CUdeviceptr p, size_t n)
{
	int value = 77;

	return cuMemRangeGetAttribute(&value, sizeof(value),
				      CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p, n) ? 77 :
		value;
}

/* Whether the last prefetches of the ranges were to these locations, as numbers of devices. */
static bool fetched_to(FIXTURE_DATA(prefetch) *self, const int *want)
{
	bool right = true;

	for (unsigned int i = 0; i < RANGES; i++) {
		int have = fetched(self->mem[i], BYTES);

		if (have == want[i])
			continue;
		printf("# range %u: %d, not %d\n", i, have, want[i]);
		right = false;
	}
	return right;
}

#define FETCHED(...)	fetched_to(self, (const int[RANGES]){ __VA_ARGS__ })

static bool all_intact(FIXTURE_DATA(prefetch) *self)
{
	for (unsigned int i = 0; i < RANGES; i++)
		if (!all_are(cpu(self->mem[i]), i + 1, BYTES))
			return false;
	return true;
}

typedef CUresult places_fn(CUdeviceptr *ptrs, size_t *sizes, size_t count, CUmemLocation *locations,
			   size_t *indices, size_t location_count, unsigned long long flags,
			   CUstream stream);

static places_fn *const both[] = {
	cuMemPrefetchBatchAsync, cuMemDiscardAndPrefetchBatchAsync,
};

/* Each location is for the ranges from its index on. */
TEST_F(prefetch, locations)
{
	CUmemLocation device = DEVICE, host = HOST;
	CUmemLocation two[] = { device, host }, four[] = { host, device, host, device };
	size_t first[] = { 0 }, at_three[] = { 0, 3 }, each[] = { 0, 1, 2, 3 };

	for (unsigned int k = 0; k < ARRAY_SIZE(both); k++) {
		EXPECT_CU(both[k](self->mem, self->sizes, RANGES, &host, first, 1, 0, self->s));
		EXPECT_TRUE(FETCHED(-1, -1, -1, -1));
		EXPECT_CU(both[k](self->mem, self->sizes, RANGES, two, at_three, 2, 0, self->s));
		EXPECT_TRUE(FETCHED(0, 0, 0, -1));
		EXPECT_CU(both[k](self->mem, self->sizes, RANGES, four, each, 4, 0, self->s));
		EXPECT_TRUE(FETCHED(-1, 0, -1, 0));
		/* A batch of fewer ranges leaves the others alone. */
		EXPECT_CU(both[k](self->mem, self->sizes, 1, &device, first, 1, 0, self->s));
		EXPECT_TRUE(FETCHED(0, 0, -1, 0));
	}
	EXPECT_CU(cuStreamSynchronize(self->s));
	/* They were discarded. */
	for (unsigned int i = 0; i < RANGES; i++)
		EXPECT_TRUE(all_are(cpu(self->mem[i]), 0, BYTES));
}

/* The ranges of a batch may lie in one allocation, and may overlap. */
TEST_F(prefetch, parts)
{
	CUdeviceptr p = self->mem[0];
	CUdeviceptr ptrs[] = { p, p + 2 * PAGE, p + 4 * PAGE + 100, p + PAGE };
	size_t sizes[] = { PAGE, PAGE, 10, 2 * PAGE }, indices[] = { 0, 1, 2, 3 };
	CUmemLocation places[] = { HOST, DEVICE, HOST, HOST };

	EXPECT_CU(cuMemPrefetchBatchAsync(ptrs, sizes, 4, places, indices, 4, 0, self->s));
	EXPECT_EQ(CU_DEVICE_CPU, fetched(p, 3 * PAGE));
	EXPECT_EQ(CU_DEVICE_INVALID, fetched(p + 3 * PAGE, PAGE));
	EXPECT_EQ(CU_DEVICE_CPU, fetched(p + 4 * PAGE, PAGE));
	EXPECT_EQ(CU_DEVICE_INVALID, fetched(p + 5 * PAGE, BYTES - 5 * PAGE));
	/* A prefetch of one range goes the same way. */
	EXPECT_CU(cuMemPrefetchAsync(p + 2 * PAGE, PAGE, DEVICE, 0, self->s));
	EXPECT_EQ(CU_DEVICE_CPU, fetched(p, 2 * PAGE));
	EXPECT_EQ(0, fetched(p + 2 * PAGE, PAGE));
}

TEST_F(prefetch, refusals)
{
	CUmemLocation device = DEVICE, host = HOST, places[RANGES] = { DEVICE, DEVICE, DEVICE, DEVICE };
	size_t first = 0, indices[RANGES + 1] = { 0, 1, 2, 3, 4 };
	CUdeviceptr ptrs[RANGES], plain;
	size_t sizes[RANGES];
	void *pinned;

	ASSERT_CU(cuMemAlloc(&plain, BYTES));
	ASSERT_CU(cuMemHostAlloc(&pinned, BYTES, 0));
	ASSERT_CU(cuMemPrefetchBatchAsync(self->mem, self->sizes, RANGES, &host, &first, 1, 0, self->s));
	for (unsigned int k = 0; k < ARRAY_SIZE(both); k++) {
		places_fn *f = both[k];

#define REFUSED(...) do {								\
	EXPECT_EQ(INVALID, f(__VA_ARGS__));						\
	EXPECT_TRUE(FETCHED(-1, -1, -1, -1));						\
} while (0)
		REFUSED(NULL, self->sizes, RANGES, &device, &first, 1, 0, self->s);
		REFUSED(self->mem, NULL, RANGES, &device, &first, 1, 0, self->s);
		REFUSED(self->mem, self->sizes, 0, &device, &first, 1, 0, self->s);
		REFUSED(self->mem, self->sizes, SIZE_MAX, &device, &first, 1, 0, self->s);
		REFUSED(self->mem, self->sizes, RANGES, NULL, &first, 1, 0, self->s);
		REFUSED(self->mem, self->sizes, RANGES, &device, NULL, 1, 0, self->s);
		REFUSED(self->mem, self->sizes, RANGES, &device, &first, 0, 0, self->s);
		REFUSED(self->mem, self->sizes, 2, places, indices, 3, 0, self->s);
		REFUSED(self->mem, self->sizes, RANGES, places, indices + 1, 2, 0, self->s);
		REFUSED(self->mem, self->sizes, RANGES, &device, &first, 1, 1, self->s);
		REFUSED(self->mem, self->sizes, RANGES, &device, &first, 1, 1ull << 63, self->s);
		REFUSED(self->mem, self->sizes, RANGES, &device, &first, 1, 0, NULL);
		REFUSED(self->mem, self->sizes, RANGES, &device, &first, 1, 0, CU_STREAM_LEGACY);
		indices[1] = RANGES;
		REFUSED(self->mem, self->sizes, RANGES, places, indices, 2, 0, self->s);
		indices[1] = 1;
		/* The last location is wrong, INVISIBLE too, which is the location of no memory here. */
		for (int type = -1; type < 9; type++) {
			if (type >= CU_MEM_LOCATION_TYPE_DEVICE && type <= CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT)
				continue;
			places[3] = at(type, 0);
			REFUSED(self->mem, self->sizes, RANGES, places, indices, 4, 0, self->s);
		}
		places[3] = at(CU_MEM_LOCATION_TYPE_DEVICE, 99);
		REFUSED(self->mem, self->sizes, RANGES, places, indices, 4, 0, self->s);
		places[3] = at(CU_MEM_LOCATION_TYPE_HOST_NUMA, 9999);
		REFUSED(self->mem, self->sizes, RANGES, places, indices, 4, 0, self->s);
		places[3] = DEVICE;
		/* The last range is wrong: the ranges before it keep their locations. */
#define REFUSED_LAST(change) do {								\
	memcpy(ptrs, self->mem, sizeof(ptrs));						\
	memcpy(sizes, self->sizes, sizeof(sizes));					\
	change;										\
	REFUSED(ptrs, sizes, RANGES, places, indices, 4, 0, self->s);			\
	EXPECT_EQ(INVALID, cuMemDiscardBatchAsync(ptrs, sizes, RANGES, 0, self->s));	\
} while (0)
		REFUSED_LAST(ptrs[3] = 0);
		REFUSED_LAST(ptrs[3] = 0x10000);
		REFUSED_LAST(ptrs[3] = plain);
		REFUSED_LAST(ptrs[3] = (uintptr_t)pinned);
		REFUSED_LAST(ptrs[3] = (uintptr_t)&first);
		REFUSED_LAST(sizes[3] = 0);
		REFUSED_LAST(sizes[3] = BYTES + 1);
		REFUSED_LAST(sizes[3] = SIZE_MAX);
		REFUSED_LAST(ptrs[3] += 1);
	}
	EXPECT_EQ(INVALID, cuMemDiscardBatchAsync(NULL, self->sizes, RANGES, 0, self->s));
	EXPECT_EQ(INVALID, cuMemDiscardBatchAsync(self->mem, NULL, RANGES, 0, self->s));
	EXPECT_EQ(INVALID, cuMemDiscardBatchAsync(self->mem, self->sizes, 0, 0, self->s));
	EXPECT_EQ(INVALID, cuMemDiscardBatchAsync(self->mem, self->sizes, RANGES, 1, self->s));
	EXPECT_EQ(INVALID, cuMemDiscardBatchAsync(self->mem, self->sizes, RANGES, 0, NULL));
	EXPECT_EQ(INVALID, cuMemDiscardBatchAsync(self->mem, self->sizes, RANGES, 0, CU_STREAM_LEGACY));
	/* Afterwards the same ranges can be prefetched. */
	EXPECT_CU(cuMemPrefetchBatchAsync(self->mem, self->sizes, RANGES, places, indices, 4, 0, self->s));
	EXPECT_TRUE(FETCHED(0, 0, 0, 0));
	EXPECT_TRUE(all_intact(self));
}

/* Streams and contexts: the thread's own stream needs a context, a stream by its handle does not. */
TEST_F(prefetch, streams)
{
	CUmemLocation device = DEVICE;
	size_t first = 0;
	CUstream dead;

	EXPECT_CU(cuMemPrefetchBatchAsync(self->mem, self->sizes, 1, &device, &first, 1, 0,
					  CU_STREAM_PER_THREAD));
	EXPECT_CU(cuMemPrefetchBatchAsync_ptsz(self->mem, self->sizes, 1, &device, &first, 1, 0, NULL));
	EXPECT_CU(cuMemDiscardBatchAsync_ptsz(self->mem, self->sizes, 1, 0, NULL));
	EXPECT_CU(cuMemDiscardAndPrefetchBatchAsync_ptsz(self->mem, self->sizes, 1, &device, &first, 1,
							 0, self->s));
	EXPECT_EQ(INVALID, cuMemPrefetchBatchAsync_ptsz(self->mem, self->sizes, 1, &device, &first, 1,
							0, CU_STREAM_LEGACY));
	ASSERT_CU(cuStreamCreate(&dead, 0));
	ASSERT_CU(cuStreamDestroy(dead));
	EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE,
		  cuMemPrefetchBatchAsync(self->mem, self->sizes, 1, &device, &first, 1, 0, dead));
	EXPECT_EQ(CUDA_ERROR_INVALID_HANDLE,
		  cuMemDiscardBatchAsync(self->mem, self->sizes, 1, 0, dead));
	ASSERT_CU(cuCtxSetCurrent(NULL));
	EXPECT_CU(cuMemPrefetchBatchAsync(self->mem, self->sizes, RANGES, &device, &first, 1, 0, self->s));
	EXPECT_CU(cuMemDiscardBatchAsync(self->mem, self->sizes, RANGES, 0, self->s));
	EXPECT_EQ(INVALID, cuMemDiscardBatchAsync(self->mem, self->sizes, RANGES, 0, NULL));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT,
		  cuMemDiscardBatchAsync(self->mem, self->sizes, RANGES, 0, CU_STREAM_PER_THREAD));
}

/* After a discard the memory can be read, also in strict mode; what is written afterwards stays. */
TEST_F(prefetch, discard)
{
	unsigned char sum = 0;

	EXPECT_CU(cuMemDiscardBatchAsync(self->mem, self->sizes, RANGES, 0, self->s));
	EXPECT_CU(cuStreamSynchronize(self->s));
	for (unsigned int i = 0; i < RANGES; i++)
		for (size_t n = 0; n < BYTES; n += PAGE)
			sum += cpu(self->mem[i])[n];
	/* A write of a part: the rest is undefined, the part is not. */
	memset(cpu(self->mem[0]) + 100, 0x11, 1000);
	EXPECT_TRUE(all_are(cpu(self->mem[0]) + 100, 0x11, 1000));
	EXPECT_CU(cuMemsetD8Async(self->mem[1], 0x22, BYTES, self->s));
	EXPECT_CU(cuMemcpyAsync(self->mem[2], self->mem[1], BYTES, self->s));
	/* In stream order: the discard of one range does not reach the work before or behind it. */
	EXPECT_CU(cuMemDiscardBatchAsync(&self->mem[1], self->sizes, 1, 0, self->s));
	EXPECT_CU(cuMemsetD8Async(self->mem[1], 0x33, PAGE, self->s));
	EXPECT_CU(cuStreamSynchronize(self->s));
	EXPECT_TRUE(all_are(cpu(self->mem[2]), 0x22, BYTES));
	EXPECT_TRUE(all_are(cpu(self->mem[1]), 0x33, PAGE));
	printf("# %u\n", sum);
	/* Discarded memory is freed as other memory is. */
	for (unsigned int i = 0; i < RANGES; i++)
		EXPECT_CU(cuMemFree(self->mem[i]));
	EXPECT_EQ(INVALID, cuMemDiscardBatchAsync(self->mem, self->sizes, RANGES, 0, self->s));
}

/* Random batches against a model of the pages of one allocation; some batches have a wrong range. */
TEST_F(prefetch, model)
{
	enum { PAGES = 64, MOST = 20, TURNS = 500 };
	int model[PAGES], next[PAGES];
	CUdeviceptr p, ptrs[MOST];
	size_t sizes[MOST], indices[MOST];
	CUmemLocation places[MOST];
	unsigned int seed = 1, refused = 0;

	ASSERT_CU(cuMemAllocManaged(&p, PAGES * PAGE, CU_MEM_ATTACH_GLOBAL));
	for (unsigned int i = 0; i < PAGES; i++)
		model[i] = CU_DEVICE_INVALID;
	for (unsigned int turn = 0; turn < TURNS; turn++) {
		unsigned int count = 1 + rand_r(&seed) % MOST, k = 0;
		unsigned int wrong = rand_r(&seed) % 4 ? MOST : rand_r(&seed) % count;

		memcpy(next, model, sizeof(next));
		for (unsigned int i = 0; i < count; i++) {
			unsigned int from = rand_r(&seed) % PAGES;
			unsigned int n = 1 + rand_r(&seed) % (PAGES - from);

			if (!i || !(rand_r(&seed) % 3)) {
				places[k] = rand_r(&seed) % 2 ? DEVICE : HOST;
				indices[k++] = i;
			}
			ptrs[i] = p + from * PAGE;
			sizes[i] = i == wrong ? (PAGES + 1) * PAGE : n * PAGE;
			for (unsigned int j = from; j < from + n; j++)
				next[j] = places[k - 1].type == CU_MEM_LOCATION_TYPE_HOST ?
					CU_DEVICE_CPU : 0;
		}
		if (wrong < count) {
			refused++;
			ASSERT_EQ(INVALID, both[turn % 2](ptrs, sizes, count, places, indices, k, 0,
							  self->s));
		} else {
			ASSERT_CU(both[turn % 2](ptrs, sizes, count, places, indices, k, 0, self->s));
			memcpy(model, next, sizeof(model));
		}
		for (unsigned int i = 0; i < PAGES; i++)
			ASSERT_EQ(model[i], fetched(p + i * PAGE, PAGE)) {
				TH_LOG("turn %u", turn);
			}
	}
	EXPECT_LT(TURNS / 10, refused);
}

/* Threads that prefetch, discard and free: each range is valid or refused, whatever the others do. */
struct racer {
	CUstream s;
	CUdeviceptr *mem;
	size_t *sizes;
	int failed;
};

static void *race(void *arg)
{
	struct racer *w = arg;
	CUmemLocation places[2] = { DEVICE, HOST };
	size_t indices[2] = { 0, 2 };

	for (unsigned int i = 0; i < 2000; i++) {
		CUdeviceptr ptrs[RANGES];
		CUresult result;

		for (unsigned int j = 0; j < RANGES; j++)
			ptrs[j] = __atomic_load_n(&w->mem[j], __ATOMIC_RELAXED);
		result = both[i % 2](ptrs, w->sizes, RANGES, places, indices, 2, 0, w->s);
		WORKER_CHECK(!result || result == INVALID);
		result = cuMemDiscardBatchAsync(ptrs, w->sizes, RANGES, 0, w->s);
		WORKER_CHECK(!result || result == INVALID);
	}
	return NULL;
}

TEST_F(prefetch, threads)
{
	struct racer w[3];
	pthread_t thread[3];

	for (unsigned int i = 0; i < ARRAY_SIZE(w); i++) {
		w[i] = (struct racer){ .s = self->s, .mem = self->mem, .sizes = self->sizes };
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, race, &w[i]));
	}
	for (unsigned int i = 0; i < 2000; i++) {
		CUdeviceptr *p = &self->mem[i % RANGES], other;

		ASSERT_CU(cuMemFree(*p));
		ASSERT_CU(cuMemAllocManaged(&other, i % 3 ? BYTES : BYTES / 2, CU_MEM_ATTACH_GLOBAL));
		__atomic_store_n(p, other, __ATOMIC_RELAXED);
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(w); i++) {
		ASSERT_EQ(0, pthread_join(thread[i], NULL));
		EXPECT_EQ(0, w[i].failed);
	}
}

static void inside(void *arg)
{
	void **in = arg;
	CUmemLocation device = DEVICE;
	size_t first = 0, size = BYTES;
	CUdeviceptr p = (uintptr_t)in[0];

	in[1] = (void *)(uintptr_t)cuMemPrefetchBatchAsync(&p, &size, 1, &device, &first, 1, 0, in[2]);
}

TEST_F(prefetch, host_function)
{
	void *in[3] = { cpu(self->mem[0]), NULL, self->s };

	ASSERT_CU(cuLaunchHostFunc(self->s, inside, in));
	ASSERT_CU(cuStreamSynchronize(self->s));
	EXPECT_EQ(CUDA_ERROR_NOT_PERMITTED, (uintptr_t)in[1]);
}

/* The runtime API's names. */
TEST_F(prefetch, runtime)
{
	struct cudaMemLocation device = { cudaMemLocationTypeDevice, 0 }, host = { cudaMemLocationTypeHost, 0 };
	struct cudaMemLocation two[] = { device, host };
	size_t indices[] = { 0, 2 };
	void **ptrs = (void **)self->mem;
	cudaStream_t s = (cudaStream_t)self->s;

	EXPECT_RT(cudaMemPrefetchBatchAsync(ptrs, self->sizes, RANGES, two, indices, 2, 0, s));
	EXPECT_TRUE(FETCHED(0, 0, -1, -1));
	EXPECT_RT(cudaMemDiscardBatchAsync(ptrs, self->sizes, RANGES, 0, s));
	EXPECT_RT(cudaMemDiscardAndPrefetchBatchAsync(ptrs, self->sizes, RANGES, &host, indices, 1, 0, s));
	EXPECT_TRUE(FETCHED(-1, -1, -1, -1));
	EXPECT_EQ(cudaErrorInvalidValue,
		  cudaMemPrefetchBatchAsync(ptrs, self->sizes, RANGES, two, indices, 2, 1, s));
	EXPECT_EQ(cudaErrorInvalidValue, cudaMemDiscardBatchAsync(ptrs, self->sizes, RANGES, 0, NULL));
	EXPECT_EQ(cudaErrorInvalidValue, cudaGetLastError());
	EXPECT_TRUE(FETCHED(-1, -1, -1, -1));
}

TEST_HARNESS_MAIN
