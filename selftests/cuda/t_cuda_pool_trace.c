// SPDX-License-Identifier: GPL-2.0
/*
 * Tests how much more memory a pool reserves than is used, for traces of programs that allocate a
 * lot.
 *
 * A generator makes each trace from a seed.  A trace is the same on all machines but for a scale:
 * sizes follow the device's memory.  The test compares the high-water mark of reserved memory with
 * that of used memory, by the pool's attributes: the ratio is at most 1.15.  The live set must
 * allow that: each trace reaches a peak of many times 2 MiB, which is what a pool grows by, and
 * only live blocks keep memory reserved.
 *
 * Shapes of traces: the steps of a transformer's training, with sequences of different lengths;
 * joins of tables by columns; random sizes from 8 bytes to 256 MiB (scaled).
 *
 * Another test shows how much of its memory a pool can use: a full pool with one chunk serves every
 * request that fits between its live blocks, and refuses all others.
 *
 * Each shape runs with one seed for every 1500 of GPUMEM_STEPS; the default is three seeds.
 * GPUMEM_QUICK makes each trace shorter.
 */
#include "kselftest_harness.h"
#include "cuda_util.h"

#define WORST		115		/* percent */
#define NAMES		4096

struct trace {
	CUcontext ctx;
	CUstream stream;
	CUmemoryPool pool;
	__u64 scale;			/* bytes for each MiB of the unscaled trace */
	CUdeviceptr block[NAMES];
	CUresult error;
	struct rng rng;
};

/* Whether traces have to be short, on a slow kernel. */
static bool quick(void)
{
	return getenv("GPUMEM_QUICK");
}

static size_t scaled(const struct trace *t, double mib)
{
	size_t bytes = mib * t->scale;

	return bytes ? bytes : 1;
}

static void get(struct trace *t, unsigned int name, size_t bytes)
{
	if (!t->error)
		t->error = cuMemAllocFromPoolAsync(&t->block[name], bytes, t->pool, t->stream);
}

static void drop(struct trace *t, unsigned int name)
{
	if (!t->error && t->block[name])
		t->error = cuMemFreeAsync(t->block[name], t->stream);
	t->block[name] = 0;
}

static double some(struct trace *t, double from, double to)
{
	return from + (to - from) * rng_below(&t->rng, 1 << 20) / (1 << 20);
}

/* --- a transformer's training */

enum { LAYERS = 12, WEIGHTS = 6, ACTIVATIONS = 7 };

/* MiB of one activation of a layer for a sequence of 1.0. */
static const double activation[ACTIVATIONS] = { 2, 6, 8, 8, 2, 8, 2 };
static const double weight[WEIGHTS] = { 1, 3, 1, 4, 4, 0.004 };

static void training_step(struct trace *t, double sequence)
{
	const unsigned int acts = LAYERS * WEIGHTS * 3, grads = LAYERS * WEIGHTS * 2;
	const unsigned int work = acts + LAYERS * ACTIVATIONS;

	for (int l = 0; l < LAYERS; l++) {
		for (int i = 0; i < ACTIVATIONS; i++) {
			double mib = activation[i] * sequence;

			/* Attention grows with the square. */
			if (i == 2)
				mib *= sequence;
			get(t, acts + l * ACTIVATIONS + i, scaled(t, mib));
			if (i == 3) {
				get(t, work, scaled(t, 4 * sequence));
				drop(t, work);
			}
		}
		/* The backward pass does not need this activation. */
		drop(t, acts + l * ACTIVATIONS + 5);
	}
	for (int l = LAYERS - 1; l >= 0; l--) {
		get(t, work, scaled(t, 8 * sequence));
		get(t, work + 1, scaled(t, 2 * sequence));
		for (int i = 0; i < WEIGHTS; i++)
			if (!t->block[grads + l * WEIGHTS + i])
				get(t, grads + l * WEIGHTS + i, scaled(t, weight[i]));
		drop(t, work);
		for (int i = ACTIVATIONS - 1; i >= 0; i--)
			drop(t, acts + l * ACTIVATIONS + i);
		drop(t, work + 1);
	}
	/* The optimizer. */
	for (int i = 0; i < LAYERS * WEIGHTS; i++) {
		get(t, work, scaled(t, weight[i % WEIGHTS]));
		drop(t, work);
		if (rng_below(&t->rng, 2))
			drop(t, grads + i);
	}
}

static void training(struct trace *t)
{
	for (int i = 0; i < LAYERS * WEIGHTS * 2; i++)
		get(t, i, scaled(t, weight[i % WEIGHTS]));
	for (int step = 0; step < (quick() ? 2 : 8); step++)
		training_step(t, some(t, 0.25, 1));
}

/* --- joins */

static void join(struct trace *t)
{
	enum { LEFT, RIGHT = 16, TABLE = 32, PARTS = 40, OUT = 200, COLUMNS = 8 };

	for (int round = 0; round < (quick() ? 2 : 6); round++) {
		double rows = some(t, 0.3, 1);
		int parts = 8 + rng_below(&t->rng, 24);

		for (int c = 0; c < COLUMNS; c++)
			get(t, LEFT + c, scaled(t, 12 * rows * (1 + c % 3) / 3));
		for (int c = 0; c < COLUMNS; c++)
			get(t, RIGHT + c, scaled(t, 8 * rows * (1 + c % 2) / 2));
		for (int p = 0; p < parts; p++) {
			get(t, PARTS + p, scaled(t, 90 * rows / parts * some(t, 0.5, 1.5)));
			get(t, TABLE, scaled(t, 3 * some(t, 0.5, 1.5)));
			if (p % 2)
				drop(t, PARTS + p - 1);
			drop(t, TABLE);
		}
		for (int c = 0; c < COLUMNS; c++)
			drop(t, RIGHT + c);
		/* Results grow as they come, by half each time. */
		for (int c = 0; c < COLUMNS; c++) {
			double mib = 1;

			get(t, OUT + c, scaled(t, mib));
			while (mib < 10 * rows) {
				mib *= 1.5;
				get(t, TABLE, scaled(t, mib));
				drop(t, OUT + c);
				t->block[OUT + c] = t->block[TABLE];
				t->block[TABLE] = 0;
			}
		}
		for (int i = 0; i < OUT; i++)
			drop(t, i);
		for (int c = 0; c < COLUMNS; c++)
			if (rng_below(&t->rng, 3))
				drop(t, OUT + c);
		for (int c = 0; c < COLUMNS; c++)
			drop(t, OUT + c);
	}
}

/* --- random sizes */

/* 8 bytes to 256 MiB, every power of two as often. */
static void random_sizes(struct trace *t)
{
	const size_t budget = scaled(t, 380);
	size_t live = 0, size[NAMES];
	unsigned int names = 1500;

	memset(size, 0, sizeof(size));
	for (int i = 0; i < (quick() ? 4000 : 20000); i++) {
		unsigned int name = rng_below(&t->rng, names);
		unsigned int log2 = 3 + rng_below(&t->rng, 25);
		size_t bytes = (1ull << log2) + rng_below(&t->rng, 1ull << log2);

		bytes = log2 < 12 ? bytes : scaled(t, (double)bytes / MIB);
		live -= size[name];
		drop(t, name);
		size[name] = 0;
		if (live + bytes > budget)
			continue;
		get(t, name, bytes);
		size[name] = bytes;
		live += bytes;
	}
}

/* --- the test */

typedef void (*shape_fn)(struct trace *t);

FIXTURE(trace)
{
	struct trace t;
};

FIXTURE_VARIANT(trace)
{
	shape_fn shape;
	bool keep;			/* the release threshold is the maximum */
};

FIXTURE_VARIANT_ADD(trace, training) { .shape = training };
FIXTURE_VARIANT_ADD(trace, training_keep) { .shape = training, .keep = true };
FIXTURE_VARIANT_ADD(trace, join) { .shape = join };
FIXTURE_VARIANT_ADD(trace, join_keep) { .shape = join, .keep = true };
FIXTURE_VARIANT_ADD(trace, random) { .shape = random_sizes };

FIXTURE_SETUP(trace)
{
	size_t left, total;

	ASSERT_TRUE(dev_quiet(10));
	ASSERT_CU(cuda_start(&self->t.ctx));
	ASSERT_CU(cuStreamCreate(&self->t.stream, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuMemGetInfo(&left, &total));
	/* The largest trace has a peak of less than 800 MiB; huge devices are not filled. */
	if (left > 900 * MIB)
		left = 900 * MIB;
	self->t.scale = left / 900;
}

QUIET_AFTERWARDS(trace)

TEST_F_TIMEOUT(trace, reserved_is_near_used, 3000)
{
	__u64 seeds = (env_number("GPUMEM_STEPS", 3 * 1500) + 1499) / 1500;
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	struct trace *t = &self->t;

	for (__u64 seed = 1; seed <= seeds; seed++) {
		cuuint64_t reserved, used, threshold = ~0ull;

		t->rng.state = seed * 0x9e3779b97f4a7c15ull;
		ASSERT_CU(cuMemPoolCreate(&t->pool, &props));
		if (variant->keep) {
			ASSERT_CU(cuMemPoolSetAttribute(t->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
							&threshold));
		}
		variant->shape(t);
		ASSERT_CU(t->error);
		ASSERT_CU(cuMemPoolGetAttribute(t->pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH,
						&reserved));
		ASSERT_CU(cuMemPoolGetAttribute(t->pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &used));
		printf("# seed %llu: used %llu KiB, reserved %llu KiB, %llu %%\n", seed,
		       (__u64)used / KIB, (__u64)reserved / KIB, (__u64)(reserved * 100 / used));
		EXPECT_LE(reserved * 100, used * WORST);
		for (unsigned int i = 0; i < NAMES; i++)
			drop(t, i);
		ASSERT_CU(cuStreamSynchronize(t->stream));
		EXPECT_CU(cuMemPoolDestroy(t->pool));
	}
}

/* --- a full pool */

NON_BLOCKING_FIXTURE(full)

TEST_F(full, serves_what_fits)
{
	enum { SPOTS = 12 };
	const CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE }, .maxSize = 24 * MIB,
	};
	struct { CUdeviceptr ptr; size_t size; } spot[SPOTS + 1];
	cuuint64_t reserved;
	CUdeviceptr whole, p;
	unsigned int count = 0, served = 0;
	CUmemoryPool full;
	struct rng rng;

	rng_start(&rng, "full");
	ASSERT_CU(cuMemPoolCreate(&full, &props));
	ASSERT_CU(cuMemAllocFromPoolAsync(&whole, 24 * MIB, full, self->s));
	ASSERT_CU(cuMemFreeAsync(whole, self->s));
	for (int i = 0; i < 600; i++) {
		size_t most = 0, size = MIB + 1 + rng_below(&rng, (i % 3 ? 4 : 23) * MIB);
		CUdeviceptr end = whole;
		unsigned int at = 0;

		while (count && (count == SPOTS || rng_below(&rng, 100) < 46)) {
			unsigned int k = rng_below(&rng, count);

			ASSERT_CU(cuMemFreeAsync(spot[k].ptr, self->s));
			memmove(&spot[k], &spot[k + 1], (--count - k) * sizeof(spot[0]));
		}
		/* The array is sorted by address: find the largest gap. */
		for (unsigned int k = 0; k <= count; k++) {
			CUdeviceptr next = k < count ? spot[k].ptr : whole + 24 * MIB;

			most = next - end > most ? next - end : most;
			end = k < count ? next + ((spot[k].size + 4095) & ~4095ull) : 0;
		}
		ASSERT_EQ(size <= most ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY,
			  cuMemAllocFromPoolAsync(&p, size, full, self->s)) {
			TH_LOG("step %d: %zu of %zu", i, size, most);
		}
		if (!p)
			continue;
		served++;
		while (at < count && spot[at].ptr < p)
			at++;
		memmove(&spot[at + 1], &spot[at], (count++ - at) * sizeof(spot[0]));
		spot[at].ptr = p;
		spot[at].size = size;
	}
	EXPECT_LT(100, served);
	EXPECT_CU(cuMemPoolGetAttribute(full, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &reserved));
	EXPECT_EQ(24 * MIB, reserved);
	while (count)
		EXPECT_CU(cuMemFreeAsync(spot[--count].ptr, self->s));
	EXPECT_CU(cuMemAllocFromPoolAsync(&p, 24 * MIB, full, self->s));
	EXPECT_EQ(whole, p);
	EXPECT_CU(cuMemFreeAsync(p, self->s));
	EXPECT_CU(cuMemPoolDestroy(full));
}

TEST_HARNESS_MAIN
