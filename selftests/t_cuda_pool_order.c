// SPDX-License-Identifier: GPL-2.0
/*
 * Pools: no block is given to anybody before its free has happened in the order of its stream.
 *
 * Blocks of all sizes are allocated and freed on random streams with random waits between them.
 * Each is filled with a pattern of its own at its head, its tail and one page between, by the
 * stream that it was allocated on.  Before it is freed the stream that frees it copies the three
 * places to pinned memory; later all such copies are compared.  If a block was given away too
 * early, the next owner's pattern is found there.  Some streams are held by a word of memory for a
 * while, so that frees are pending when the next allocations come, and the pool is small, so that
 * it has to reuse what it can.
 *
 * Every combination of the three reuse attributes runs, GPUMEM_STEPS allocations each (10000).
 * GPUMEM_SEED repeats a run.
 */
#include "kselftest_harness.h"
#include "cuda_util.h"

#define POOL_MOST	(10 * MIB)
#define LIVE		48
#define STREAMS		5
#define LOGS		256		/* blocks that were freed and not yet looked at */
#define BIT		16		/* bytes at each place */
#define HELD_MOST	12		/* steps that a stream is held */

struct spot {
	CUdeviceptr ptr;
	size_t size, page;
	int stream;			/* that used it last */
	unsigned char value;
};

struct order {
	CUstream stream[STREAMS];
	CUmemoryPool pool;
	struct spot live[LIVE];
	unsigned int count;
	unsigned char *log;		/* pinned */
	struct spot logged[LOGS];
	unsigned int logs;
	volatile __u32 *gate;		/* pinned; 0: closed */
	unsigned int held;		/* steps since it was closed */
	unsigned int refused, waited;
	struct rng rng;
};

static struct order order;

static void places(const struct spot *spot, size_t place[3], size_t bytes[3])
{
	place[0] = 0;
	place[1] = spot->page;
	place[2] = spot->size > BIT ? spot->size - BIT : 0;
	for (int i = 0; i < 3; i++)
		bytes[i] = spot->size < BIT ? spot->size : BIT;
}

static void open_gate(struct order *o)
{
	__atomic_store_n(o->gate, 1, __ATOMIC_RELEASE);
	o->held = 0;
}

/* Everything done: look at what was logged. */
static bool check_logs(struct order *o)
{
	size_t place[3], bytes[3];
	bool good = true;

	if (o->held)
		open_gate(o);
	if (cuCtxSynchronize())
		return false;
	for (unsigned int i = 0; i < o->logs; i++) {
		places(&o->logged[i], place, bytes);
		for (int k = 0; k < 3; k++) {
			const unsigned char *seen = o->log + (i * 3 + k) * BIT;

			if (all_are(seen, o->logged[i].value, bytes[k]))
				continue;
			printf("# block %llx of %zu: %02x instead of %02x at %zu\n",
			       o->logged[i].ptr, o->logged[i].size, seen[0], o->logged[i].value,
			       place[k]);
			good = false;
		}
	}
	o->logs = 0;
	return good;
}

/* What comes next in stream @to comes after what is in @from. */
static CUresult edge(struct order *o, int from, int to)
{
	CUevent event;
	CUresult result = cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);

	if (result)
		return result;
	result = cuEventRecord(event, o->stream[from]);
	if (!result)
		result = cuStreamWaitEvent(o->stream[to], event, 0);
	cuEventDestroy(event);
	return result;
}

static CUresult give_back(struct order *o, unsigned int which)
{
	struct spot spot = o->live[which];
	int stream = rng_below(&o->rng, 3) ? spot.stream : (int)rng_below(&o->rng, STREAMS);
	size_t place[3], bytes[3];
	CUresult result = CUDA_SUCCESS;

	o->live[which] = o->live[--o->count];
	if (stream != spot.stream)
		result = edge(o, spot.stream, stream);
	places(&spot, place, bytes);
	for (int i = 0; !result && i < 3; i++)
		result = cuMemcpyDtoHAsync(o->log + (o->logs * 3 + i) * BIT, spot.ptr + place[i],
					   bytes[i], o->stream[stream]);
	if (!result)
		result = cuMemFreeAsync(spot.ptr, o->stream[stream]);
	o->logged[o->logs++] = spot;
	return result;
}

/*
 * Of all kinds: cells, pages, what has a chunk of its own, and what has no class.  Large ones are
 * rare and no larger than that takes: nearly all the time goes into clearing their memory.
 */
static size_t some_size(struct order *o)
{
	__u64 which = rng_below(&o->rng, 64);

	if (!which)
		return MIB + 1 + rng_below(&o->rng, MIB / 2);
	if (which < 8)
		return 1 + rng_below(&o->rng, MIB);
	if (which < 24)
		return 1 + rng_below(&o->rng, 256 * KIB);
	return 1 + rng_below(&o->rng, 16 * KIB);
}

static bool overlaps(const struct order *o, const struct spot *spot)
{
	for (unsigned int i = 0; i < o->count; i++)
		if (spot->ptr < o->live[i].ptr + o->live[i].size &&
		    o->live[i].ptr < spot->ptr + spot->size)
			return true;
	return false;
}

static CUresult take(struct order *o, unsigned int number)
{
	struct spot spot = { .size = some_size(o), .stream = rng_below(&o->rng, STREAMS),
			     .value = number % 255 + 1 };
	size_t place[3], bytes[3];
	CUresult result;

	result = cuMemAllocFromPoolAsync(&spot.ptr, spot.size, o->pool, o->stream[spot.stream]);
	if (result == CUDA_ERROR_OUT_OF_MEMORY) {
		o->refused++;
		return CUDA_SUCCESS;
	}
	if (result)
		return result;
	if (overlaps(o, &spot)) {
		printf("# block %llx of %zu overlaps a live one\n", spot.ptr, spot.size);
		return CUDA_ERROR_UNKNOWN;
	}
	spot.page = spot.size > 2 * BIT ? rng_below(&o->rng, spot.size - BIT) : 0;
	places(&spot, place, bytes);
	for (int i = 0; !result && i < 3; i++)
		result = cuMemsetD8Async(spot.ptr + place[i], spot.value, bytes[i],
					 o->stream[spot.stream]);
	o->live[o->count++] = spot;
	return result;
}

static CUresult step(struct order *o, unsigned int number)
{
	CUresult result = CUDA_SUCCESS;

	if (!o->held && !rng_below(&o->rng, 20)) {
		*o->gate = 0;
		o->held = 1;
		result = cuStreamWaitValue32(o->stream[rng_below(&o->rng, STREAMS)],
					     (uintptr_t)o->gate, 1, CU_STREAM_WAIT_VALUE_EQ);
	} else if (o->held && (++o->held > HELD_MOST || !rng_below(&o->rng, 8))) {
		open_gate(o);
		/* A gate must be seen open before it is closed again. */
		result = cuCtxSynchronize();
	}
	if (!result && !rng_below(&o->rng, 6))
		result = edge(o, rng_below(&o->rng, STREAMS), rng_below(&o->rng, STREAMS));
	if (!result)
		result = take(o, number);
	while (!result && o->count && (o->count == LIVE || rng_below(&o->rng, 100) < 48))
		result = give_back(o, rng_below(&o->rng, o->count));
	return result;
}

FIXTURE(order)
{
	CUcontext ctx;
};

FIXTURE_VARIANT(order)
{
	int follow, opportunistic, internal;
};

#define COMBINATION(f, o, i)						\
	FIXTURE_VARIANT_ADD(order, reuse_ ## f ## o ## i)		\
	{								\
		.follow = f, .opportunistic = o, .internal = i,		\
	}
COMBINATION(0, 0, 0);
COMBINATION(0, 0, 1);
COMBINATION(0, 1, 0);
COMBINATION(0, 1, 1);
COMBINATION(1, 0, 0);
COMBINATION(1, 0, 1);
COMBINATION(1, 1, 0);
COMBINATION(1, 1, 1);

FIXTURE_SETUP(order)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE }, .maxSize = POOL_MOST,
	};
	struct order *o = &order;
	int follow = variant->follow, opportunistic = variant->opportunistic;
	int internal = variant->internal;
	cuuint64_t threshold;

	ASSERT_TRUE(dev_quiet(10));
	ASSERT_CU(cuda_start(&self->ctx));
	for (int i = 0; i < STREAMS - 1; i++)
		ASSERT_CU(cuStreamCreate(&o->stream[i], i ? CU_STREAM_NON_BLOCKING : 0));
	/* One is blocking, and the legacy stream orders against it. */
	o->stream[STREAMS - 1] = CU_STREAM_LEGACY;
	ASSERT_CU(cuMemPoolCreate(&o->pool, &props));
	ASSERT_CU(cuMemPoolSetAttribute(o->pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
					&follow));
	ASSERT_CU(cuMemPoolSetAttribute(o->pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
					&opportunistic));
	ASSERT_CU(cuMemPoolSetAttribute(o->pool,
					CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
					&internal));
	rng_start(&o->rng, "order");
	/* Half of the runs give memory back at every wait. */
	threshold = rng_below(&o->rng, 2) ? ~0ull : 0;
	ASSERT_CU(cuMemPoolSetAttribute(o->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	ASSERT_CU(cuMemHostAlloc((void **)&o->log, LOGS * 3 * BIT, 0));
	ASSERT_CU(cuMemHostAlloc((void **)&o->gate, 4096, 0));
}

FIXTURE_TEARDOWN_PARENT(order)
{
	EXPECT_TRUE(dev_quiet(10));
}

TEST_F_TIMEOUT(order, never_overwritten, 3000)
{
	__u64 steps = env_number("GPUMEM_STEPS", 10000);
	struct order *o = &order;
	cuuint64_t left;

	for (__u64 i = 0; i < steps; i++) {
		ASSERT_CU(step(o, i)) {
			TH_LOG("step %llu", i);
		}
		if (o->logs >= LOGS - LIVE) {
			ASSERT_TRUE(check_logs(o)) {
				TH_LOG("step %llu", i);
			}
		}
	}
	printf("# %u of %llu refused\n", o->refused, steps);
	ASSERT_TRUE(check_logs(o));
	while (o->count)
		ASSERT_CU(give_back(o, o->count - 1));
	ASSERT_TRUE(check_logs(o));
	ASSERT_CU(cuMemPoolGetAttribute(o->pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &left));
	EXPECT_EQ(0, left);
	ASSERT_CU(cuMemPoolTrimTo(o->pool, 0));
	ASSERT_CU(cuMemPoolGetAttribute(o->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &left));
	EXPECT_EQ(0, left);
	EXPECT_CU(cuMemPoolDestroy(o->pool));
}

TEST_HARNESS_MAIN
