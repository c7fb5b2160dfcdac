// SPDX-License-Identifier: GPL-2.0
/*
 * Tests a thread that is stopped in the kernel while it makes a chunk of a pool or gives one back:
 * what other threads can do during that time, what they wait for, and which calls are refused.
 *
 * A delay point stops a task for ten seconds at most, and GO() fails if the task went on by itself.
 * So all calls between STOPPED() and GO() ran while the other thread was stopped.
 */
#include "kselftest_harness.h"
#include "cuda_case_util.h"
#include "common/race_util.h"

#define NEEDS	"the module has no delay points: GPUMEM_DELAY=1"
#define LARGE	(16 * MIB)

FIXTURE(pool_race)
{
	CUcontext ctx;
	CUstream stream[3];		/* of the main thread and two others */
	CUmemoryPool pool, other;
	long long before;
};

FIXTURE_SETUP(pool_race)
{
	CUdeviceptr p;

	if (!delay_there())
		SKIP(return, NEEDS);
	ASSERT_EQ(0, delay_command("reset", ""));
	cuda_begin(_metadata, &self->ctx);
	for (unsigned int i = 0; i < ARRAY_SIZE(self->stream); i++)
		ASSERT_CU(cuStreamCreate(&self->stream[i], CU_STREAM_NON_BLOCKING));
	/* Let the library allocate now what it allocates only once. */
	ASSERT_CU(cuMemAlloc(&p, 4 * KIB));
	ASSERT_CU(cuMemFree(p));
	self->before = used(0);
	ASSERT_CU(pool_make_keeping(&self->pool, 0));
	ASSERT_CU(pool_make_keeping(&self->other, 0));
}

FIXTURE_TEARDOWN_PARENT(pool_race)
{
	if (delay_there()) {
		delay_command("reset", "");
		EXPECT_TRUE(dev_quiet(10));
	}
}

/* A call by a thread of its own. */
enum act { ALLOC, ALLOC_CURRENT, ALLOC_NO_POOL, TRIM, DESTROY };

struct actor {
	CUcontext ctx;
	CUstream stream;
	enum act act;
	CUmemoryPool pool;
	size_t size;			/* to be allocated */
	CUdeviceptr p;
	CUresult result;
	atomic_bool over;
	pthread_t thread;
};

static CUresult act(struct actor *a)
{
	switch (a->act) {
	case ALLOC:
		return cuMemAllocFromPoolAsync(&a->p, a->size, a->pool, a->stream);
	case ALLOC_CURRENT:
		return cuMemAllocAsync(&a->p, a->size, a->stream);
	case ALLOC_NO_POOL:
		return cuMemAlloc(&a->p, a->size);
	case TRIM:
		return cuMemPoolTrimTo(a->pool, 0);
	default:
		return cuMemPoolDestroy(a->pool);
	}
}

static void *actor_main(void *arg)
{
	struct actor *a = arg;

	a->result = cuCtxSetCurrent(a->ctx);
	if (!a->result)
		a->result = act(a);
	atomic_store(&a->over, true);
	return NULL;
}

#define START(a, n, ...)						\
	do {								\
		a = (struct actor){ .ctx = self->ctx, .stream = self->stream[n], __VA_ARGS__ };	\
		ASSERT_EQ(0, pthread_create(&a.thread, NULL, actor_main, &a));	\
	} while (0)

static CUresult end(struct actor *a)
{
	pthread_join(a->thread, NULL);
	return a->result;
}

/* Whether the thread waits: after some time its call has not returned. */
static bool waits(struct actor *a)
{
	nap_ms(300);
	return !atomic_load(&a->over);
}

/* Allocate, free and wait, for sizes with a chunk of their own and for sizes without one. */
static CUresult round_trip(CUmemoryPool pool, CUstream stream)
{
	static const size_t sizes[] = { 3 * MIB, MIB + 4 * KIB, 4 * KIB, 4 * KIB };
	CUresult result = CUDA_SUCCESS;
	CUdeviceptr p;

	for (unsigned int i = 0; !result && i < ARRAY_SIZE(sizes); i++) {
		result = cuMemAllocFromPoolAsync(&p, sizes[i], pool, stream);
		if (!result)
			result = cuMemFreeAsync(p, stream);
		if (!result)
			result = cuStreamSynchronize(stream);
	}
	return result;
}

static CUresult on_all_devices(void)
{
	CUresult result = CUDA_SUCCESS;
	CUmemoryPool pool;
	CUdeviceptr p;
	CUcontext ctx;
	int count = 0;

	cuDeviceGetCount(&count);
	for (int i = 1; !result && i < count; i++) {
		result = cuDevicePrimaryCtxRetain(&ctx, i);
		if (!result)
			result = cuCtxPushCurrent(ctx);
		if (!result)
			result = cuDeviceGetDefaultMemPool(&pool, i);
		if (!result)
			result = cuMemAllocFromPoolAsync(&p, 3 * MIB, pool, CU_STREAM_LEGACY);
		if (!result)
			result = cuMemFreeAsync(p, CU_STREAM_LEGACY);
		if (!result)
			result = cuCtxSynchronize();
		if (!result)
			result = cuCtxPopCurrent(&ctx);
	}
	return result;
}

/* Calls that must not wait while another thread is stopped in the kernel. */
static CUresult go_on(CUmemoryPool pool, CUmemoryPool other, CUstream stream)
{
	CUresult result = round_trip(pool, stream);
	CUdeviceptr p;

	if (!result)
		result = round_trip(other, stream);
	if (!result)
		result = on_all_devices();
	for (unsigned int i = 0; !result && i < 2; i++) {
		result = cuMemAlloc(&p, i ? 3 * MIB : 4 * KIB);
		if (!result)
			result = cuMemFree(p);
	}
	return result;
}

TEST_F(pool_race, grow)
{
	struct actor a;

	ARM("vm_map");
	START(a, 1, .pool = self->pool, .size = LARGE);
	STOPPED("vm_map");
	EXPECT_CU(go_on(self->pool, self->other, self->stream[0]));
	/* The other thread's chunk does not count as reserved yet. */
	EXPECT_GT(LARGE, POOL_RESERVED_HIGH(self->other));
	EXPECT_CU(cuMemPoolTrimTo(self->pool, 0));
	EXPECT_CU(cuMemPoolTrimTo(self->other, 0));
	EXPECT_EQ(0, POOL_RESERVED(self->other));
	EXPECT_FALSE(atomic_load(&a.over));
	GO("vm_map");
	ASSERT_CU(end(&a));
	EXPECT_EQ(LARGE, POOL_RESERVED(self->pool));
	EXPECT_CU(cuMemFreeAsync(a.p, self->stream[1]));
	EXPECT_CU(cuStreamSynchronize(self->stream[1]));
	EXPECT_CU(cuMemPoolTrimTo(self->pool, 0));
	EXPECT_EQ(self->before, used(0));
}

/* Thread a allocates from the pool and is held where it maps a chunk; thread b waits for it. */
#define SECOND_WAITS(first, second)				\
	do {							\
		ARM("vm_map");					\
		START(a, 1, .pool = pool, .size = first);	\
		STOPPED("vm_map");				\
		START(b, 2, .pool = pool, .size = second);	\
		EXPECT_TRUE(waits(&b));				\
	} while (0)

/* A thread that needs a chunk for small blocks waits if another thread makes one; others do not. */
TEST_F(pool_race, one_chunk_for_small_blocks)
{
	struct actor a, b;
	CUmemoryPool pool;
	CUdeviceptr p;

	for (unsigned int limited = 0; limited < 2; limited++) {
		ASSERT_CU(pool_make_keeping(&pool, limited ? 6 * MIB : 0));
		SECOND_WAITS(4 * KIB, 8 * KIB);
		EXPECT_CU(cuMemAllocFromPoolAsync(&p, 3 * MIB, pool, self->stream[0]));
		EXPECT_CU(cuMemFreeAsync(p, self->stream[0]));
		EXPECT_FALSE(atomic_load(&b.over));
		GO("vm_map");
		ASSERT_CU(end(&a));
		ASSERT_CU(end(&b));
		EXPECT_EQ(a.p / (2 * MIB), b.p / (2 * MIB));
		EXPECT_CU(cuMemFreeAsync(a.p, self->stream[1]));
		EXPECT_CU(cuMemFreeAsync(b.p, self->stream[2]));
		ASSERT_CU(cuCtxSynchronize());
		ASSERT_CU(cuMemPoolDestroy(pool));
		EXPECT_EQ(self->before, used(0));
	}
}

/*
 * Two threads together keep to the pool's limit.  An allocation is refused only when the other
 * thread's chunk, with which it exceeds the limit, has been made.
 */
TEST_F(pool_race, limit)
{
	CUmemoryPool pool;
	struct actor a, b;
	CUdeviceptr p;

	ASSERT_CU(pool_make_keeping(&pool, 64 * MIB));
	SECOND_WAITS(40 * MIB, 30 * MIB);
	ASSERT_CU(cuMemAllocFromPoolAsync(&p, 3 * MIB, pool, self->stream[0]));
	GO("vm_map");
	ASSERT_CU(end(&a));
	EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, end(&b));
	EXPECT_GE(64 * MIB, POOL_RESERVED_HIGH(pool));
	EXPECT_CU(cuMemFreeAsync(a.p, self->stream[1]));
	ASSERT_CU(cuStreamSynchronize(self->stream[1]));
	/* A chunk that is being given back does not count for the limit. */
	ARM("vm_unmap");
	START(a, 1, .act = TRIM, .pool = pool);
	STOPPED("vm_unmap");
	/* The kernel may reclaim the cached chunk for thread b at once, or thread b waits. */
	START(b, 2, .pool = pool, .size = 50 * MIB);
	nap_ms(100);
	GO("vm_unmap");
	EXPECT_CU(end(&a));
	EXPECT_CU(end(&b));
	EXPECT_CU(cuMemFreeAsync(b.p, self->stream[2]));
	EXPECT_CU(cuMemFreeAsync(p, self->stream[0]));
	ASSERT_CU(cuCtxSynchronize());
	ASSERT_CU(cuMemPoolDestroy(pool));
	EXPECT_EQ(self->before, used(0));
}

/* The pool ends when the thread that makes its chunk is done; that allocation is refused. */
TEST_F(pool_race, destroyed_while_it_grows)
{
	for (unsigned int i = 0; i < 4; i++) {
		CUmemoryPool pool, next;
		struct actor a;

		ASSERT_CU(pool_make_keeping(&pool, 0));
		ARM("vm_map");
		START(a, 1, .pool = pool, .size = i % 2 ? LARGE : 4 * KIB);
		STOPPED("vm_map");
		EXPECT_CU(cuMemPoolDestroy(pool));
		/* A new pool does not reuse the destroyed pool's handle. */
		ASSERT_CU(pool_make_keeping(&next, 0));
		EXPECT_NE(pool, next);
		EXPECT_CU(round_trip(next, self->stream[0]));
		EXPECT_CU(cuMemPoolDestroy(next));
		GO("vm_map");
		EXPECT_EQ(INVALID, end(&a));
		EXPECT_EQ(self->before, used(0));
	}
}

/* If the current pool is destroyed, the call allocates from the next current pool. */
TEST_F(pool_race, current_destroyed_while_it_grows)
{
	CUmemoryPool pool, now;
	struct actor a;

	ASSERT_CU(pool_make_keeping(&pool, 0));
	ASSERT_CU(cuDeviceSetMemPool(0, pool));
	ARM("vm_map");
	START(a, 1, .act = ALLOC_CURRENT, .size = LARGE);
	STOPPED("vm_map");
	EXPECT_CU(cuMemPoolDestroy(pool));
	EXPECT_CU(cuDeviceGetMemPool(&now, 0));
	EXPECT_NE(pool, now);
	GO("vm_map");
	EXPECT_CU(end(&a));
	EXPECT_EQ(self->before + (long long)LARGE, used(0));
	EXPECT_EQ(LARGE, POOL_RESERVED(now));
	EXPECT_CU(cuMemFreeAsync(a.p, self->stream[1]));
	EXPECT_CU(cuStreamSynchronize(self->stream[1]));
	EXPECT_CU(cuMemPoolTrimTo(now, 0));
	EXPECT_EQ(self->before, used(0));
}

TEST_F(pool_race, give_back)
{
	struct actor a, b;

	ASSERT_CU(pool_use(self->pool, self->stream[1], LARGE));
	EXPECT_EQ(LARGE, POOL_RESERVED(self->pool));
	ARM("vm_unmap");
	START(a, 1, .act = TRIM, .pool = self->pool);
	STOPPED("vm_unmap");
	EXPECT_CU(go_on(self->pool, self->other, self->stream[0]));
	/* Another trim of the same pool waits until the memory is back. */
	START(b, 2, .act = TRIM, .pool = self->pool);
	EXPECT_TRUE(waits(&b));
	EXPECT_CU(cuMemPoolTrimTo(self->other, 0));
	EXPECT_EQ(0, POOL_RESERVED(self->other));
	GO("vm_unmap");
	EXPECT_CU(end(&a));
	EXPECT_CU(end(&b));
	EXPECT_EQ(0, POOL_RESERVED(self->pool));
	EXPECT_EQ(self->before, used(0));
}

/* An allocation that needs memory which another thread is giving back waits and gets it. */
TEST_F(pool_race, refused_while_given_back)
{
	size_t left, total, most;

	ASSERT_CU(cuMemGetInfo(&left, &total));
	most = whole_slots(left / 4 * 3) - 2 * MIB;
	for (unsigned int i = 0; i < 2; i++) {
		struct actor a, b;

		ASSERT_CU(pool_use(self->pool, self->stream[1], most));
		ARM("vm_unmap");
		START(a, 1, .act = TRIM, .pool = self->pool);
		STOPPED("vm_unmap");
		START(b, 2, .act = i ? ALLOC_NO_POOL : ALLOC, .pool = self->other, .size = most);
		EXPECT_TRUE(waits(&b));
		GO("vm_unmap");
		EXPECT_CU(end(&a));
		ASSERT_CU(end(&b));
		EXPECT_CU(i ? cuMemFree(b.p) : cuMemFreeAsync(b.p, self->stream[2]));
		EXPECT_CU(cuCtxSynchronize());
		EXPECT_CU(cuMemPoolTrimTo(self->other, 0));
		EXPECT_EQ(self->before, used(0));
	}
}

/* A pool's handle is not reused while the pool's last chunk is being given back. */
TEST_F(pool_race, destroyed_while_given_back)
{
	CUmemoryPool pool, next;
	struct actor a;

	ASSERT_CU(pool_make_keeping(&pool, 0));
	ASSERT_CU(pool_use(pool, self->stream[1], LARGE));
	ARM("vm_unmap");
	START(a, 1, .act = DESTROY, .pool = pool);
	STOPPED("vm_unmap");
	ASSERT_CU(pool_make_keeping(&next, 0));
	EXPECT_NE(pool, next);
	EXPECT_CU(round_trip(next, self->stream[0]));
	EXPECT_CU(cuMemPoolDestroy(next));
	GO("vm_unmap");
	EXPECT_CU(end(&a));
	EXPECT_EQ(self->before, used(0));
}

TEST_HARNESS_MAIN
