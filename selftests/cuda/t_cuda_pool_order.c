// SPDX-License-Identifier: GPL-2.0
/*
 * Tests that a pool gives no block to a stream before the block's free happened in stream order.
 *
 * The test allocates and frees blocks of all sizes on random streams with random waits between
 * them.  The stream that allocates a block fills three places of it with the block's own value: its
 * head, its tail and a random place between.  Before the free, the stream that frees the block
 * copies the three places to pinned memory; later the test compares all such copies.  If the pool
 * reused a block too early, the copy has the next owner's value.  A word of memory holds some
 * streams for a while, so that frees are pending when the next allocations come.  The pool is
 * small, so that it has to reuse what it can.
 *
 * Each combination of the three reuse attributes gets GPUMEM_STEPS allocations (10000).
 * GPUMEM_SEED repeats a run.
 *
 * A second test does the same with threads: four share a pool and some streams, and each also has a
 * stream of its own.  The threads exchange blocks through a box.  If the block's stream is the
 * thread's own, and sometimes if it is shared, the block comes with an event that the next thread's
 * stream waits for.  The thread that holds a block frees it.  Each combination has
 * four new threads with new streams.  At the same time the main thread holds streams and trims the
 * pool.  Together the threads allocate GPUMEM_STEPS times; the seed determines their steps, but not
 * the timing.
 */
#include <pthread.h>

#include "kselftest_harness.h"
#include "cuda_util.h"

#define POOL_MOST	(10 * MIB)
#define LIVE		48
#define STREAMS		5
#define LOGS		256		/* freed blocks whose copies are not compared yet */
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

static CUmemPoolProps props_of_pool(void)
{
	return (CUmemPoolProps) {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE }, .maxSize = POOL_MOST,
	};
}

static CUresult reuse(CUmemoryPool pool, int follow, int opportunistic, int internal)
{
	CUresult result;

	result = cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
				       &follow);
	if (!result)
		result = cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
					       &opportunistic);
	if (!result)
		result = cuMemPoolSetAttribute(pool,
					       CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
					       &internal);
	return result;
}

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

/* Whether the copies in @log have the block's value. */
static bool check_log(const struct spot *spot, const unsigned char *log)
{
	size_t place[3], bytes[3];
	bool good = true;

	places(spot, place, bytes);
	for (int k = 0; k < 3; k++, log += BIT) {
		if (all_are(log, spot->value, bytes[k]))
			continue;
		printf("# block %llx of %zu: %02x instead of %02x at %zu\n", spot->ptr,
		       spot->size, log[0], spot->value, place[k]);
		good = false;
	}
	return good;
}

/* Wait for all work, and compare the copies in the log. */
static bool check_logs(struct order *o)
{
	bool good = true;

	if (o->held)
		open_gate(o);
	if (cuCtxSynchronize())
		return false;
	for (unsigned int i = 0; i < o->logs; i++)
		if (!check_log(&o->logged[i], o->log + i * 3 * BIT))
			good = false;
	o->logs = 0;
	return good;
}

static CUresult record(CUevent *event, CUstream stream)
{
	CUresult result = cuEventCreate(event, CU_EVENT_DISABLE_TIMING);

	return result ? result : cuEventRecord(*event, stream);
}

/* Order the next work in stream @to after the work in @from. */
static CUresult edge(CUstream from, CUstream to)
{
	CUevent event;
	CUresult result = record(&event, from);

	if (!result)
		result = cuStreamWaitEvent(to, event, 0);
	cuEventDestroy(event);
	return result;
}

/* Fill the three places of a block with its value, in @stream. */
static CUresult mark(const struct spot *spot, CUstream stream)
{
	size_t place[3], bytes[3];
	CUresult result = CUDA_SUCCESS;

	places(spot, place, bytes);
	for (int i = 0; !result && i < 3; i++)
		result = cuMemsetD8Async(spot->ptr + place[i], spot->value, bytes[i], stream);
	return result;
}

/* Copy the three places of a block to @log, in stream order. */
static CUresult log_it(const struct spot *spot, unsigned char *log, CUstream stream)
{
	size_t place[3], bytes[3];
	CUresult result = CUDA_SUCCESS;

	places(spot, place, bytes);
	for (int i = 0; !result && i < 3; i++)
		result = cuMemcpyDtoHAsync(log + i * BIT, spot->ptr + place[i], bytes[i], stream);
	return result;
}

static CUresult give_back(struct order *o, unsigned int which)
{
	struct spot spot = o->live[which];
	int stream = rng_below(&o->rng, 3) ? spot.stream : (int)rng_below(&o->rng, STREAMS);
	CUresult result = CUDA_SUCCESS;

	o->live[which] = o->live[--o->count];
	if (stream != spot.stream)
		result = edge(o->stream[spot.stream], o->stream[stream]);
	if (!result)
		result = log_it(&spot, o->log + o->logs * 3 * BIT, o->stream[stream]);
	if (!result)
		result = cuMemFreeAsync(spot.ptr, o->stream[stream]);
	o->logged[o->logs++] = spot;
	return result;
}

/*
 * A size of any kind: cells, pages, blocks with a chunk of their own, and blocks without a size
 * class.  Large sizes are rare and just above 1 MiB, because clearing them takes nearly all the
 * time.
 */
static size_t some_size(struct rng *rng)
{
	__u64 which = rng_below(rng, 64);

	if (!which)
		return MIB + 1 + rng_below(rng, MIB / 2);
	if (which < 8)
		return 1 + rng_below(rng, MIB);
	if (which < 24)
		return 1 + rng_below(rng, 256 * KIB);
	return 1 + rng_below(rng, 16 * KIB);
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
	struct spot spot = { .size = some_size(&o->rng), .stream = rng_below(&o->rng, STREAMS),
			     .value = number % 255 + 1 };
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
	result = mark(&spot, o->stream[spot.stream]);
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
		result = edge(o->stream[rng_below(&o->rng, STREAMS)],
			      o->stream[rng_below(&o->rng, STREAMS)]);
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
	CUmemPoolProps props = props_of_pool();
	struct order *o = &order;
	cuuint64_t threshold;

	cuda_begin(_metadata, &self->ctx);
	for (int i = 0; i < STREAMS - 1; i++)
		ASSERT_CU(cuStreamCreate(&o->stream[i], i ? CU_STREAM_NON_BLOCKING : 0));
	/* The first stream is blocking, so the legacy stream is ordered with it. */
	o->stream[STREAMS - 1] = CU_STREAM_LEGACY;
	ASSERT_CU(cuMemPoolCreate(&o->pool, &props));
	ASSERT_CU(reuse(o->pool, variant->follow, variant->opportunistic, variant->internal));
	rng_start(&o->rng, "order");
	/* In half of the runs, the pool gives memory back at every wait. */
	threshold = rng_below(&o->rng, 2) ? ~0ull : 0;
	ASSERT_CU(cuMemPoolSetAttribute(o->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	ASSERT_CU(cuMemHostAlloc((void **)&o->log, LOGS * 3 * BIT, 0));
	ASSERT_CU(cuMemHostAlloc((void **)&o->gate, 4096, 0));
}

QUIET_AFTERWARDS(order)

/* The pool has no allocation; after a trim it has no memory, and it is destroyed. */
static void pool_end(struct __test_metadata *_metadata, CUmemoryPool pool)
{
	cuuint64_t value;

	ASSERT_CU(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &value));
	EXPECT_EQ(0, value);
	ASSERT_CU(cuMemPoolTrimTo(pool, 0));
	ASSERT_CU(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value));
	EXPECT_EQ(0, value);
	EXPECT_CU(cuMemPoolDestroy(pool));
}

TEST_F_TIMEOUT(order, never_overwritten, 3000)
{
	__u64 steps = env_number("GPUMEM_STEPS", 10000);
	struct order *o = &order;

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
	pool_end(_metadata, o->pool);
}

/* --- threads */

#define THREADS		4
#define SHARED		3		/* streams that all threads use */
#define OWN		SHARED		/* the number of a thread's own stream */
#define BOX		16		/* blocks between threads */
#define MINE		12		/* blocks that a thread has at most */
#define MY_LOGS		32
#define COMBINATIONS	8

/* A block that a thread or the box has. */
struct block {
	struct spot spot;		/* its stream: a shared one, or OWN of the holder */
	CUevent ready;			/* NULL, or work on the block must wait for it */
	unsigned int entry;		/* in team.live */
};

struct team {
	CUcontext ctx;
	CUmemoryPool pool;
	CUstream stream[SHARED];
	volatile __u32 *gate;		/* pinned; 0: closed */
	pthread_mutex_t lock;		/* for live, box and passed */
	struct spot live[THREADS * MINE + BOX];	/* size 0: none */
	struct block box[BOX];		/* spot.size 0: none */
	unsigned int working, refused, passed;	/* the first two are atomic */
};

struct worker {
	struct team *team;
	unsigned int number;		/* counts the workers of all combinations */
	__u64 steps;
	struct rng rng;
	CUstream stream[SHARED + 1];
	struct block mine[MINE];
	unsigned int count;
	struct spot logged[MY_LOGS];
	unsigned int logs;
	unsigned char *log;		/* pinned */
	bool good;
	CUresult result;
};

static struct team team;

/* Note that a block is live; false if it overlaps another live block. */
static bool live_add(struct team *t, struct block *block)
{
	const struct spot *spot = &block->spot;
	bool good = true;

	pthread_mutex_lock(&t->lock);
	block->entry = THREADS * MINE + BOX;
	for (unsigned int i = 0; i < THREADS * MINE + BOX; i++) {
		const struct spot *other = &t->live[i];

		if (!other->size)
			block->entry = i;
		else if (spot->ptr < other->ptr + other->size &&
			 other->ptr < spot->ptr + spot->size)
			good = false;
	}
	if (block->entry == THREADS * MINE + BOX)
		good = false;
	else
		t->live[block->entry] = *spot;
	pthread_mutex_unlock(&t->lock);
	if (!good)
		printf("# block %llx of %zu overlaps a live one\n", spot->ptr, spot->size);
	return good;
}

static void live_remove(struct team *t, const struct block *block)
{
	pthread_mutex_lock(&t->lock);
	t->live[block->entry].size = 0;
	pthread_mutex_unlock(&t->lock);
}

/* Wait for the logged copies, and check them. */
static void look(struct worker *w)
{
	for (int i = 0; !w->result && i <= SHARED; i++)
		w->result = cuStreamSynchronize(w->stream[i]);
	for (unsigned int i = 0; !w->result && i < w->logs; i++)
		if (!check_log(&w->logged[i], w->log + i * 3 * BIT))
			w->good = false;
	w->logs = 0;
}

/* Pick a stream for the next work on a block, and order that stream after the work so far. */
static CUstream stream_for(struct worker *w, struct block *block)
{
	int number = block->spot.stream;

	if (rng_below(&w->rng, 3) == 0 || (block->ready && number == OWN))
		number = rng_below(&w->rng, SHARED + 1);
	if (block->ready) {
		w->result = cuStreamWaitEvent(w->stream[number], block->ready, 0);
		cuEventDestroy(block->ready);
		block->ready = NULL;
	} else if (number != block->spot.stream) {
		w->result = edge(w->stream[block->spot.stream], w->stream[number]);
	}
	block->spot.stream = number;
	return w->stream[number];
}

static void worker_frees(struct worker *w, struct block block)
{
	CUstream stream;

	if (w->logs == MY_LOGS)
		look(w);
	if (w->result)
		return;
	stream = stream_for(w, &block);
	if (!w->result)
		w->result = log_it(&block.spot, w->log + w->logs * 3 * BIT, stream);
	w->logged[w->logs++] = block.spot;
	live_remove(w->team, &block);
	if (w->result)
		return;
	/* cuMemFree() names no stream: the block is not reused before all queued work is done. */
	w->result = rng_below(&w->rng, 32) ? cuMemFreeAsync(block.spot.ptr, stream) :
		cuMemFree(block.spot.ptr);
}

static void worker_takes(struct worker *w)
{
	struct block block = {
		.spot = { .size = some_size(&w->rng), .stream = rng_below(&w->rng, SHARED + 1),
			  .value = rng_below(&w->rng, 255) + 1 },
	};
	struct spot *spot = &block.spot;

	w->result = cuMemAllocFromPoolAsync(&spot->ptr, spot->size, w->team->pool,
					    w->stream[spot->stream]);
	if (w->result == CUDA_ERROR_OUT_OF_MEMORY) {
		w->result = CUDA_SUCCESS;
		__atomic_fetch_add(&w->team->refused, 1, __ATOMIC_RELAXED);
		return;
	}
	if (w->result)
		return;
	spot->page = spot->size > 2 * BIT ? rng_below(&w->rng, spot->size - BIT) : 0;
	if (!live_add(w->team, &block))
		w->good = false;
	w->result = mark(spot, w->stream[spot->stream]);
	w->mine[w->count++] = block;
}

/* Swap a block with a place of the box; @leave: put it in an empty place, if there is one. */
static void worker_swaps(struct worker *w, unsigned int which, bool leave)
{
	struct block mine = w->mine[which], *place = NULL, got;
	struct team *t = w->team;

	/* Other threads cannot use OWN.  In a shared stream the next thread may need no event. */
	if (!mine.ready && (mine.spot.stream == OWN || rng_below(&w->rng, 2)))
		w->result = record(&mine.ready, w->stream[mine.spot.stream]);
	w->mine[which].ready = mine.ready;
	if (w->result)
		return;
	pthread_mutex_lock(&t->lock);
	for (unsigned int i = 0; leave && i < BOX && !place; i++)
		if (!t->box[i].spot.size)
			place = &t->box[i];
	if (!leave)
		place = &t->box[rng_below(&w->rng, BOX)];
	got = (struct block) { .spot = { .size = 0 } };
	if (place) {
		got = *place;
		*place = mine;
		t->passed++;
	}
	pthread_mutex_unlock(&t->lock);
	if (got.spot.size)
		w->mine[which] = got;
	else if (place)
		w->mine[which] = w->mine[--w->count];
}

static void worker_step(struct worker *w)
{
	if (!rng_below(&w->rng, 6))
		w->result = edge(w->stream[rng_below(&w->rng, SHARED + 1)],
				 w->stream[rng_below(&w->rng, SHARED + 1)]);
	if (!w->result)
		worker_takes(w);
	if (!w->result && w->count && rng_below(&w->rng, 2))
		worker_swaps(w, rng_below(&w->rng, w->count), false);
	while (!w->result && w->count && (w->count == MINE || rng_below(&w->rng, 100) < 48)) {
		struct block block = w->mine[rng_below(&w->rng, w->count)];
		unsigned int i = 0;

		while (w->mine[i].entry != block.entry)
			i++;
		w->mine[i] = w->mine[--w->count];
		worker_frees(w, block);
	}
}

static void *worker_runs(void *arg)
{
	struct worker *w = arg;
	struct team *t = w->team;
	CUevent last;

	w->good = true;
	w->result = cuCtxSetCurrent(t->ctx);
	for (int i = 0; i < SHARED; i++)
		w->stream[i] = t->stream[i];
	if (!w->result)
		w->result = cuStreamCreate(&w->stream[OWN],
					   w->number % 2 ? CU_STREAM_NON_BLOCKING : 0);
	for (__u64 i = 0; !w->result && w->good && i < w->steps; i++)
		worker_step(w);
	/* Leave the remaining blocks to later threads, as far as there is room in the box. */
	while (!w->result && w->good && w->count) {
		unsigned int count = w->count;

		worker_swaps(w, count - 1, true);
		if (!w->result && w->count == count)
			worker_frees(w, w->mine[--w->count]);
	}
	/* Destroy the thread's stream before the work in it is done. */
	if (!w->result)
		w->result = record(&last, w->stream[OWN]);
	if (!w->result)
		w->result = cuStreamDestroy(w->stream[OWN]);
	if (!w->result)
		w->result = cuEventSynchronize(last);
	if (!w->result)
		w->result = cuEventDestroy(last);
	w->stream[OWN] = t->stream[0];
	if (!w->result)
		look(w);
	__atomic_fetch_sub(&t->working, 1, __ATOMIC_RELEASE);
	return NULL;
}

/* Hold a stream now and then, and trim the pool, until the workers are done. */
static CUresult disturb(struct team *t, struct rng *rng)
{
	CUresult result = CUDA_SUCCESS;
	cuuint64_t value;

	while (!result && __atomic_load_n(&t->working, __ATOMIC_ACQUIRE)) {
		CUstream held = t->stream[rng_below(rng, SHARED)];

		*t->gate = 0;
		result = cuStreamWaitValue32(held, (uintptr_t)t->gate, 1, CU_STREAM_WAIT_VALUE_EQ);
		nap_ms(1 + rng_below(rng, 3));
		if (!result && rng_below(rng, 2))
			result = cuMemPoolGetAttribute(t->pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH,
						       &value);
		if (!result && !rng_below(rng, 4))
			result = cuMemPoolTrimTo(t->pool, rng_below(rng, POOL_MOST));
		/* A gate must be seen open before it is closed again. */
		__atomic_store_n(t->gate, 1, __ATOMIC_RELEASE);
		if (!result)
			result = cuStreamSynchronize(held);
		nap_ms(1);
	}
	return result;
}

FIXTURE(threads)
{
	CUcontext ctx;
};

FIXTURE_SETUP(threads)
{
	CUmemPoolProps props = props_of_pool();
	struct team *t = &team;

	ASSERT_TRUE(dev_quiet(10));
	ASSERT_CU(cuda_start(&t->ctx));
	self->ctx = t->ctx;
	pthread_mutex_init(&t->lock, NULL);
	ASSERT_CU(cuStreamCreate(&t->stream[0], 0));
	ASSERT_CU(cuStreamCreate(&t->stream[1], CU_STREAM_NON_BLOCKING));
	t->stream[2] = CU_STREAM_LEGACY;
	ASSERT_CU(cuMemPoolCreate(&t->pool, &props));
	ASSERT_CU(cuMemHostAlloc((void **)&t->gate, 4096, 0));
}

QUIET_AFTERWARDS(threads)

TEST_F_TIMEOUT(threads, handed_on, 600)
{
	__u64 steps = env_number("GPUMEM_STEPS", 10000) / (COMBINATIONS * THREADS) + 1;
	static struct worker worker[THREADS];
	struct team *t = &team;
	pthread_t thread[THREADS];
	unsigned char *log;
	cuuint64_t value;
	struct rng rng;

	rng_start(&rng, "threads");
	ASSERT_CU(cuMemHostAlloc((void **)&log, THREADS * MY_LOGS * 3 * BIT, 0));
	for (unsigned int c = 0; c < COMBINATIONS; c++) {
		ASSERT_CU(reuse(t->pool, c & 1, c >> 1 & 1, c >> 2 & 1));
		value = rng_below(&rng, 2) ? ~0ull : 0;
		ASSERT_CU(cuMemPoolSetAttribute(t->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD,
						&value));
		t->working = THREADS;
		for (unsigned int i = 0; i < THREADS; i++) {
			worker[i] = (struct worker) {
				.team = t, .number = c * THREADS + i, .steps = steps,
				.rng = { rng_next(&rng) }, .log = log + i * MY_LOGS * 3 * BIT,
			};
			ASSERT_EQ(0, pthread_create(&thread[i], NULL, worker_runs, &worker[i]));
		}
		EXPECT_CU(disturb(t, &rng));
		for (unsigned int i = 0; i < THREADS; i++) {
			ASSERT_EQ(0, pthread_join(thread[i], NULL));
			EXPECT_CU(worker[i].result);
			EXPECT_TRUE(worker[i].good);
		}
		ASSERT_TRUE(__test_passed(_metadata)) {
			TH_LOG("combination %u", c);
		}
	}
	printf("# %u of %llu refused, %u passed on\n", t->refused, steps * COMBINATIONS * THREADS,
	       t->passed);
	ASSERT_CU(cuCtxSynchronize());
	for (unsigned int i = 0; i < BOX; i++) {
		if (!t->box[i].spot.size)
			continue;
		ASSERT_CU(log_it(&t->box[i].spot, log, t->stream[0]));
		ASSERT_CU(cuMemFreeAsync(t->box[i].spot.ptr, t->stream[0]));
		ASSERT_CU(cuStreamSynchronize(t->stream[0]));
		EXPECT_TRUE(check_log(&t->box[i].spot, log));
		if (t->box[i].ready)
			EXPECT_CU(cuEventDestroy(t->box[i].ready));
	}
	pool_end(_metadata, t->pool);
}

TEST_HARNESS_MAIN
