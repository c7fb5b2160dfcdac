// SPDX-License-Identifier: GPL-2.0
/*
 * The locks that a call of the library holds while it waits, or while the kernel works for it:
 * other threads must be able to go on, because the call may wait for their work.
 *
 * Where a call must wait for the test, it waits at a gate: an entry that waits for a word that the
 * test has not written.  A case that hangs is ended by the harness's alarm, and fails.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "kselftest_harness.h"
#include "cuda_case_util.h"
#include "cuda_rt_util.h"

#define NAP_MS		60

FIXTURE(locks)
{
	CUcontext ctx;
	CUstream stream;
	cuuint32_t *word;		/* of the gate: registered memory */
};

FIXTURE_SETUP(locks)
{
	cuda_begin(_metadata, &self->ctx);
	ASSERT_CU(cuStreamCreate(&self->stream, CU_STREAM_NON_BLOCKING));
	self->word = mmap(NULL, 4 * KIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)self->word);
	ASSERT_CU(cuMemHostRegister(self->word, 4 * KIB, 0));
}

QUIET_AFTERWARDS(locks)

static void nap(void)
{
	usleep(NAP_MS * 1000);
}

static bool active(int device)
{
	unsigned int flags;
	int is = -1;

	return !cuDevicePrimaryCtxGetState(device, &flags, &is) && is == 1;
}

/* Wait until another thread has begun to end the primary context. */
static void until_ending(void)
{
	for (int i = 0; i < 60000 && active(0); i++)
		usleep(1000);
}

/* --- a thread that does something once */

struct actor {
	pthread_t thread;
	CUcontext ctx;
	cuuint32_t *word;		/* the gate to open after the action, unless NULL */
	CUresult result;
	atomic_int ready, go, done;
};

static bool act(struct actor *actor, void *(*run)(void *))
{
	return !pthread_create(&actor->thread, NULL, run, actor);
}

static CUresult act_end(struct actor *actor)
{
	pthread_join(actor->thread, NULL);
	return actor->result;
}

static void acted(struct actor *actor, CUresult result)
{
	actor->result = result;
	atomic_store(&actor->done, 1);
	if (actor->word)
		gate_open(actor->word);
}

static void wait_until(atomic_int *flag)
{
	while (!atomic_load(flag))
		usleep(1000);
}

static void *make_context(void *arg)
{
	struct actor *actor = arg;
	CUcontext ctx = NULL;
	CUresult result;

	wait_until(&actor->go);
	until_ending();
	result = cuCtxCreate(&ctx, NULL, 0, 0);
	acted(actor, result ? result : cuCtxDestroy(ctx));
	return NULL;
}

static void *reset_device(void *arg)
{
	struct actor *actor = arg;

	atomic_store(&actor->ready, 1);
	acted(actor, cuDevicePrimaryCtxReset(0));
	return NULL;
}

static void *release_device(void *arg)
{
	struct actor *actor = arg;

	atomic_store(&actor->ready, 1);
	acted(actor, cuDevicePrimaryCtxRelease(0));
	return NULL;
}

static void *set_device(void *arg)
{
	struct actor *actor = arg;

	wait_until(&actor->go);
	until_ending();
	acted(actor, (CUresult)cudaSetDevice(0));
	return NULL;
}

/* --- primary contexts that end while another thread has something to do */

/* A thread with a per-thread stream, which is destroyed when the thread ends. */
static void *own_stream(void *arg)
{
	struct actor *actor = arg;
	CUdeviceptr p = 0;
	CUresult result = cuCtxSetCurrent(actor->ctx);

	if (!result)
		result = cuMemAlloc(&p, 4 * KIB);
	if (!result)
		result = cuMemsetD8Async(p, 1, 16, CU_STREAM_PER_THREAD);
	atomic_store(&actor->ready, 1);
	wait_until(&actor->go);
	acted(actor, result);
	return NULL;
}

static void join_actor(void *arg)
{
	struct actor *actor = arg;

	nap();
	atomic_store(&actor->go, 1);
	pthread_join(actor->thread, NULL);
}

TEST_F(locks, release_beside_a_thread_that_ends)
{
	struct actor actor = { .ctx = self->ctx };

	ASSERT_TRUE(act(&actor, own_stream));
	wait_until(&actor.ready);
	ASSERT_CU(cuLaunchHostFunc(self->stream, join_actor, &actor));
	EXPECT_CU(cuDevicePrimaryCtxRelease(0));
	EXPECT_EQ(1, atomic_load(&actor.done));
	EXPECT_CU(actor.result);
}

TEST_F(locks, release_beside_a_new_context)
{
	struct actor actor = { .word = self->word };

	ASSERT_TRUE(act(&actor, make_context));
	ASSERT_CU(gate_put(self->stream, self->word));
	atomic_store(&actor.go, 1);
	EXPECT_CU(cuDevicePrimaryCtxRelease(0));
	pthread_join(actor.thread, NULL);
	EXPECT_CU(actor.result);
}

TEST_F(locks, device_reset_beside_set_device)
{
	struct actor actor = { .word = self->word };

	ASSERT_EQ(cudaSuccess, cudaFree(NULL));
	ASSERT_TRUE(act(&actor, set_device));
	ASSERT_CU(gate_put(self->stream, self->word));
	atomic_store(&actor.go, 1);
	EXPECT_EQ(cudaSuccess, cudaDeviceReset());
	pthread_join(actor.thread, NULL);
	EXPECT_CU(actor.result);
	/* The other thread's call has activated the context again. */
	EXPECT_TRUE(active(0));
	EXPECT_EQ(cudaSuccess, cudaDeviceReset());
	EXPECT_FALSE(active(0));
}

/* A second call that ends the context returns when the context has ended. */
TEST_F(locks, second_end_waits)
{
	for (int i = 0; i < 2; i++) {
		struct actor first = {}, second = {};

		self->word[0] = 0;
		ASSERT_CU(gate_put(self->stream, self->word));
		ASSERT_TRUE(act(&first, reset_device));
		wait_until(&first.ready);
		until_ending();
		EXPECT_FALSE(active(0));
		ASSERT_TRUE(act(&second, i ? release_device : reset_device));
		wait_until(&second.ready);
		nap();
		EXPECT_EQ(0, atomic_load(&first.done));
		EXPECT_EQ(0, atomic_load(&second.done));
		gate_open(self->word);
		EXPECT_CU(act_end(&first));
		EXPECT_CU(act_end(&second));
		EXPECT_FALSE(active(0));
		if (i)
			break;
		ASSERT_CU(cuDevicePrimaryCtxRetain(&self->ctx, 0));
		ASSERT_CU(cuDevicePrimaryCtxRelease(0));
		ASSERT_CU(cuStreamCreate(&self->stream, CU_STREAM_NON_BLOCKING));
		ASSERT_CU(cuMemHostRegister(self->word, 4 * KIB, 0));
	}
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(0));
}

static void *use_context(void *arg)
{
	struct actor *actor = arg;
	CUdeviceptr p = 0;
	CUresult result = cuCtxSetCurrent(actor->ctx);

	atomic_store(&actor->ready, 1);
	if (!result)
		result = cuMemAlloc(&p, 4 * KIB);
	acted(actor, result);
	return NULL;
}

/* A retain does not wait for the end of the context's previous life; the first use of it does. */
TEST_F(locks, retained_while_it_ends)
{
	struct actor first = {}, user = {};
	CUdeviceptr p = 0;
	CUcontext ctx;

	ASSERT_CU(cuMemAlloc(&p, 4 * KIB));
	ASSERT_CU(gate_put(self->stream, self->word));
	ASSERT_TRUE(act(&first, reset_device));
	wait_until(&first.ready);
	until_ending();
	EXPECT_EQ(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxSynchronize());
	EXPECT_EQ(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxSetCurrent(self->ctx));
	EXPECT_FALSE(active(0));
	ASSERT_CU(cuDevicePrimaryCtxRetain(&ctx, 0));
	EXPECT_EQ(self->ctx, ctx);
	EXPECT_TRUE(active(0));
	EXPECT_EQ(0, atomic_load(&first.done));
	user.ctx = ctx;
	ASSERT_TRUE(act(&user, use_context));
	wait_until(&user.ready);
	nap();
	EXPECT_EQ(0, atomic_load(&user.done));
	gate_open(self->word);
	EXPECT_CU(act_end(&first));
	EXPECT_CU(act_end(&user));
	EXPECT_CU(cuCtxSynchronize());
	/* The memory belonged to the context's previous life. */
	EXPECT_EQ(INVALID, cuMemFree(p));
	/* Two retains, two releases. */
	EXPECT_CU(cuDevicePrimaryCtxRelease(0));
	EXPECT_TRUE(active(0));
	EXPECT_CU(cuDevicePrimaryCtxRelease(0));
	EXPECT_FALSE(active(0));
}

/* --- retains and resets */

TEST_F(locks, retains_survive_a_reset)
{
	CUcontext ctx = NULL;
	unsigned int flags = 1;
	int is = 1;

	ASSERT_CU(cuDevicePrimaryCtxRetain(&ctx, 0));
	EXPECT_EQ(self->ctx, ctx);
	ASSERT_CU(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_YIELD));
	EXPECT_CU(cuDevicePrimaryCtxReset(0));
	EXPECT_CU(cuDevicePrimaryCtxGetState(0, &flags, &is));
	EXPECT_EQ(0, flags);
	EXPECT_EQ(0, is);
	EXPECT_EQ(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxSynchronize());
	/* A reset of an inactive context changes nothing. */
	EXPECT_CU(cuDevicePrimaryCtxReset(0));
	EXPECT_CU(cuDevicePrimaryCtxRelease(0));
	EXPECT_CU(cuDevicePrimaryCtxRelease(0));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(0));
	/* The same handle, current where it was. */
	ASSERT_CU(cuDevicePrimaryCtxRetain(&ctx, 0));
	EXPECT_EQ(self->ctx, ctx);
	EXPECT_CU(cuCtxSynchronize());
	/* A retain that came before the reset keeps the life after it. */
	EXPECT_CU(cuDevicePrimaryCtxReset(0));
	ASSERT_CU(cuDevicePrimaryCtxRetain(&ctx, 0));
	EXPECT_CU(cuDevicePrimaryCtxRelease(0));
	EXPECT_CU(cuCtxSynchronize());
	EXPECT_CU(cuDevicePrimaryCtxRelease(0));
	EXPECT_EQ(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxSynchronize());
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(0));
}

/* cudaDeviceReset() drops the runtime's own reference, and no other retain. */
TEST_F(locks, retains_beside_the_runtime)
{
	EXPECT_EQ(cudaSuccess, cudaSetDevice(0));
	EXPECT_EQ(cudaSuccess, cudaDeviceReset());
	EXPECT_FALSE(active(0));
	EXPECT_EQ(cudaSuccess, cudaSetDevice(0));
	EXPECT_TRUE(active(0));
	EXPECT_EQ(cudaSuccess, cudaDeviceReset());
	EXPECT_CU(cuDevicePrimaryCtxRelease(0));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuDevicePrimaryCtxRelease(0));
}

/* --- memory that takes long to populate or to pin */

enum { DEVICE, HOST, MANAGED, REGISTERED, ARRAY, KINDS };
static const char *const kind_name[KINDS] = { "device", "host", "managed", "registered", "array" };

static CUresult make_array(CUdeviceptr *p, size_t rows)
{
	const CUDA_ARRAY_DESCRIPTOR desc = {
		.Width = 1024, .Height = rows, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1,
	};
	CUarray array = NULL;
	CUresult result = cuArrayCreate(&array, &desc);

	*p = (uintptr_t)array;
	return result;
}

static CUresult take(int kind, CUdeviceptr *p, void *own, size_t bytes)
{
	switch (kind) {
	case DEVICE:
		return cuMemAlloc(p, bytes);
	case HOST:
		return cuMemHostAlloc((void **)p, bytes, 0);
	case MANAGED:
		return cuMemAllocManaged(p, bytes, CU_MEM_ATTACH_GLOBAL);
	case ARRAY:
		return make_array(p, bytes / (4 * KIB));
	default:
		*p = (uintptr_t)own;
		return cuMemHostRegister(own, bytes, 0);
	}
}

static CUresult give(int kind, CUdeviceptr p)
{
	return kind == REGISTERED ? cuMemHostUnregister((void *)(uintptr_t)p) :
		kind == ARRAY ? cuArrayDestroy((CUarray)(uintptr_t)p) :
		kind == HOST ? cuMemFreeHost((void *)(uintptr_t)p) : cuMemFree(p);
}

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

struct small {
	CUcontext ctx;
	atomic_int watched;		/* calls that begin from now on count in @worst */
	atomic_int stop;
	atomic_uint calls;
	bool arrays;			/* the calls make arrays, not pinned memory */
	CUmemoryPool pool;		/* unless NULL, the calls allocate from it instead */
	CUstream stream, other;		/* a block is allocated in @stream and freed in @other */
	double worst;			/* of a call */
	CUresult result;
};

/* No block is freed in the allocating stream, so each allocation takes a block from the pool. */
#define SMALL_BLOCK	(192 * KIB)

static CUresult small_call(const struct small *small)
{
	int kind = small->arrays ? ARRAY : HOST;
	CUdeviceptr p;
	CUresult result = small->pool ?
		cuMemAllocFromPoolAsync(&p, SMALL_BLOCK, small->pool, small->stream) :
		take(kind, &p, NULL, 4 * KIB);

	return result ? result : small->pool ? cuMemFreeAsync(p, small->other) : give(kind, p);
}

static void *small_calls(void *arg)
{
	struct small *small = arg;
	CUresult result = cuCtxSetCurrent(small->ctx);

	while (!result && !atomic_load(&small->stop)) {
		bool watched = atomic_load(&small->watched);
		double start = seconds(), took;

		result = small_call(small);
		took = seconds() - start;
		if (watched && took > small->worst)
			small->worst = took;
		atomic_fetch_add(&small->calls, 1);
	}
	small->result = result;
	/* After an error, a thread that waits for the first call must go on, too. */
	atomic_fetch_add(&small->calls, 1);
	return NULL;
}

/* How long small calls of another thread take, at worst, as a part of what a large call takes. */
static double small_beside_large(CUcontext ctx, int kind, void *own, size_t bytes)
{
	struct small small = { .ctx = ctx, .arrays = kind == ARRAY };
	double start, took = 0;
	CUdeviceptr p = 0;
	pthread_t thread;
	CUresult result;

	if (pthread_create(&thread, NULL, small_calls, &small))
		return 1;
	while (!atomic_load(&small.calls))
		usleep(100);
	atomic_store(&small.watched, 1);
	start = seconds();
	result = take(kind, &p, own, bytes);
	took = seconds() - start;
	atomic_store(&small.stop, 1);
	pthread_join(thread, NULL);
	if (!result)
		result = give(kind, p);
	return result || small.result ? 2 : small.worst / took;
}

TEST_F(locks, small_beside_large)
{
	size_t bytes = 96 * MIB, free_bytes, total;
	void *own = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	ASSERT_NE(MAP_FAILED, own);
	ASSERT_CU(cuMemGetInfo(&free_bytes, &total));
	if (bytes > free_bytes / 2)
		bytes = whole_slots(free_bytes / 2) - 2 * MIB;
	for (int kind = 0; kind < KINDS; kind++) {
		double least = 2;

		/* The thread may be late for other reasons, but not every time. */
		for (int i = 0; i < 10 && least > 0.5; i++) {
			double part = small_beside_large(self->ctx, kind, own, bytes);

			least = part < least ? part : least;
		}
		EXPECT_GE(0.5, least)
			TH_LOG("%s: %.2f of the large call's time", kind_name[kind], least);
	}
}

/* --- a chunk of a pool that takes long to populate or to unmap */

enum { MAKE, UNMAP };

/* The worst time of small calls while a chunk is made or given back, as a part of that time. */
static double small_beside_chunk(struct small *small, int what, CUmemoryPool pool, CUstream stream,
				 size_t bytes)
{
	double start, took = 0;
	CUdeviceptr p = 0;
	pthread_t thread;
	CUresult result = cuMemPoolTrimTo(pool, 0);

	if (!result && what == UNMAP)
		result = cuMemAllocFromPoolAsync(&p, bytes, pool, stream);
	if (!result && what == UNMAP)
		result = cuMemFreeAsync(p, stream);
	if (result || cuStreamSynchronize(stream) ||
	    pthread_create(&thread, NULL, small_calls, small))
		return 3;
	while (!atomic_load(&small->calls))
		usleep(100);
	atomic_store(&small->watched, 1);
	start = seconds();
	result = what == UNMAP ? cuMemPoolTrimTo(pool, 0) :
		cuMemAllocFromPoolAsync(&p, bytes, pool, stream);
	took = seconds() - start;
	atomic_store(&small->stop, 1);
	pthread_join(thread, NULL);
	if (!result && what == MAKE)
		result = cuMemFreeAsync(p, stream);
	if (!result)
		result = cuStreamSynchronize(stream);
	return result || small->result ? 2 : small->worst / took;
}

static CUresult keeping_pool(CUmemoryPool *pool, int device)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device },
	};
	cuuint64_t keep = ~0ull;
	CUresult result = cuMemPoolCreate(pool, &props);

	return result ? result :
		cuMemPoolSetAttribute(*pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep);
}

/* Allocate memory that stays in use, so that small calls need no system call. */
static CUresult small_prepare(struct small *small, int device)
{
	CUdeviceptr p;
	CUresult result = cuCtxPushCurrent(small->ctx);

	if (!result)
		result = cuStreamCreate(&small->stream, CU_STREAM_NON_BLOCKING);
	if (!result)
		result = cuStreamCreate(&small->other, CU_STREAM_NON_BLOCKING);
	if (!result && device >= 0 && !small->pool)
		result = keeping_pool(&small->pool, device);
	if (!result)
		result = device >= 0 ?
			cuMemAllocFromPoolAsync(&p, SMALL_BLOCK, small->pool, small->stream) :
			take(HOST, &p, NULL, 4 * KIB);
	return result ? result : cuCtxPopCurrent(NULL);
}

TEST_F(locks, small_beside_chunk)
{
	static const char *const name[] = {
		"the same pool", "another pool", "no pool", "another device's pool",
	};
	size_t bytes = 96 * MIB, free_bytes, total;
	CUcontext second = self->ctx;
	CUmemoryPool pool;
	CUstream stream;
	int devices;

	ASSERT_CU(cuMemGetInfo(&free_bytes, &total));
	if (bytes > free_bytes / 2)
		bytes = whole_slots(free_bytes / 2) - 2 * MIB;
	ASSERT_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(keeping_pool(&pool, 0));
	ASSERT_CU(cuDeviceGetCount(&devices));
	if (devices > 1)
		ASSERT_CU(cuDevicePrimaryCtxRetain(&second, 1));
	for (int i = 0; i < (devices > 1 ? 4 : 3); i++) {
		struct small own = {
			.ctx = i == 3 ? second : self->ctx, .pool = i ? NULL : pool,
		};

		ASSERT_CU(small_prepare(&own, i == 3 ? 1 : i == 2 ? -1 : 0));
		for (int what = MAKE; what <= UNMAP; what++) {
			/* Unmapping takes a few milliseconds: a busy host may run others then. */
			int tries = what == MAKE ? 10 : 60;
			double least = 4;

			for (int j = 0; j < tries && least > 0.5; j++) {
				struct small small = {
					.ctx = own.ctx, .pool = own.pool,
					.stream = own.stream, .other = own.other,
				};
				double part = small_beside_chunk(&small, what, pool, stream, bytes);

				least = part < least ? part : least;
			}
			EXPECT_GE(0.5, least)
				TH_LOG("%s, %s: %.2f of the chunk's time", name[i],
				       what == MAKE ? "made" : "unmapped", least);
		}
	}
}

/* --- threads that want room in the same block */

#define CROWD		8
#define EACH		16

struct crowd {
	CUcontext ctx;
	pthread_barrier_t *start;
	CUdeviceptr p[EACH];
	CUresult result;
};

static void *crowd_main(void *arg)
{
	struct crowd *crowd = arg;

	crowd->result = cuCtxSetCurrent(crowd->ctx);
	pthread_barrier_wait(crowd->start);
	for (int i = 0; !crowd->result && i < EACH; i++)
		crowd->result = cuMemAlloc(&crowd->p[i], 4 * KIB);
	for (int i = 0; !strict() && !crowd->result && i < EACH; i++) {
		if (!all_are(cpu(crowd->p[i]), 0, 4 * KIB))
			crowd->result = CUDA_ERROR_UNKNOWN;
		memset(cpu(crowd->p[i]), 0xff, 4 * KIB);
	}
	return NULL;
}

/* A thread that finds no room waits for the block that another thread makes. */
TEST_F(locks, one_block_for_all)
{
	struct crowd crowd[CROWD] = {};
	pthread_t thread[CROWD];
	pthread_barrier_t start;
	long long before;

	/* Have the library make the memory that it makes only once. */
	ASSERT_CU(cuMemAlloc(&crowd[0].p[0], 4 * KIB));
	ASSERT_CU(cuMemFree(crowd[0].p[0]));
	pthread_barrier_init(&start, NULL, CROWD);
	for (int round = 0; round < 4; round++) {
		before = used(0);
		for (int i = 0; i < CROWD; i++) {
			crowd[i].ctx = self->ctx;
			crowd[i].start = &start;
			ASSERT_EQ(0, pthread_create(&thread[i], NULL, crowd_main, &crowd[i]));
		}
		for (int i = 0; i < CROWD; i++) {
			pthread_join(thread[i], NULL);
			EXPECT_CU(crowd[i].result);
		}
		EXPECT_EQ(before + (long long)(2 * MIB), used(0));
		for (int i = 0; i < CROWD * EACH; i++)
			EXPECT_CU(cuMemFree(crowd[i / EACH].p[i % EACH]));
		EXPECT_EQ(before, used(0));
	}
}

/* --- a context that ends while another thread allocates in it */

static void *allocate_on(void *arg)
{
	struct actor *actor = arg;
	CUresult result = cuCtxSetCurrent(actor->ctx);
	CUdeviceptr p;

	for (int i = 0; !result && i < 4000; i++) {
		result = cuMemAlloc(&p, i % 2 ? 4 * KIB : 4 * MIB);
		atomic_store(&actor->ready, 1);
		if (!result)
			result = cuMemFree(p);
	}
	/* The end of the context has freed the memory before the thread did. */
	if (result == INVALID)
		result = CUDA_ERROR_CONTEXT_IS_DESTROYED;
	atomic_store(&actor->ready, 1);
	acted(actor, result);
	return NULL;
}

TEST_F(locks, destroy_beside_allocation)
{
	for (int i = 0; i < 20; i++) {
		struct actor actor = {};
		long long before = used(0);

		ASSERT_CU(cuCtxCreate(&actor.ctx, NULL, 0, 0));
		ASSERT_TRUE(act(&actor, allocate_on));
		wait_until(&actor.ready);
		usleep(i * 300);
		EXPECT_CU(cuCtxDestroy(actor.ctx));
		pthread_join(actor.thread, NULL);
		EXPECT_EQ(CUDA_ERROR_CONTEXT_IS_DESTROYED, actor.result);
		EXPECT_EQ(before, used(0));
	}
}

/* --- lookups by a high-priority thread that preempts the thread that changes registrations */

#define REGISTRATIONS	3000
#define LOOKUPS		1500

struct changer {
	CUcontext ctx;
	char *memory;			/* of which all but the first page are registered */
	atomic_int stop;
	atomic_uint changes;
	CUresult result;
};

static void pin_to(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void *change(void *arg)
{
	struct changer *changer = arg;

	pin_to(0);
	changer->result = cuCtxSetCurrent(changer->ctx);
	while (!changer->result && !atomic_load(&changer->stop)) {
		changer->result = cuMemHostRegister(changer->memory, 4 * KIB, 0);
		if (!changer->result)
			changer->result = cuMemHostUnregister(changer->memory);
		atomic_fetch_add(&changer->changes, 1);
	}
	return NULL;
}

#define THROTTLE	"/proc/sys/kernel/sched_rt_runtime_us"

/* Set the throttle of real-time threads; -1: off, so that it cannot end a reader's spinning. */
static bool throttle(long long us)
{
	int fd = open(THROTTLE, O_WRONLY);
	bool done = fd >= 0 && dprintf(fd, "%lld", us) > 0;

	if (fd >= 0)
		close(fd);
	return done;
}

TEST_F_TIMEOUT(locks, lookup_preempts_change, 60)
{
	const struct sched_param fifo = { .sched_priority = 10 };
	size_t bytes = (REGISTRATIONS + 1) * 4 * KIB;
	struct changer changer = { .ctx = self->ctx };
	long long before = number_of(THROTTLE, "");
	double worst = 0, all = 0;
	unsigned int type;
	pthread_t thread;

	changer.memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			      0);
	ASSERT_NE(MAP_FAILED, (void *)changer.memory);
	for (size_t i = 1; i <= REGISTRATIONS; i++)
		ASSERT_CU(cuMemHostRegister(changer.memory + i * 4 * KIB, 4 * KIB, 0));
	ASSERT_EQ(0, pthread_create(&thread, NULL, change, &changer));
	while (!atomic_load(&changer.changes) && !changer.result)
		usleep(1000);
	pin_to(0);
	ASSERT_EQ(0, sched_setscheduler(0, SCHED_FIFO, &fifo));
	/* Without the throttle a lookup that spins behind the other thread never ends. */
	EXPECT_TRUE(throttle(-1));
	for (int i = 0; i < LOOKUPS; i++) {
		double start, took;

		usleep(50 + i * 37 % 200);
		start = seconds();
		EXPECT_CU(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
						(uintptr_t)changer.memory + 8 * KIB));
		took = seconds() - start;
		worst = took > worst ? took : worst;
		all += took;
	}
	sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){});
	EXPECT_TRUE(throttle(before));
	atomic_store(&changer.stop, 1);
	pthread_join(thread, NULL);
	EXPECT_CU(changer.result);
	EXPECT_LT(1, atomic_load(&changer.changes));
	TH_LOG("worst lookup %.0f times the mean, %u changes", worst * LOOKUPS / all,
	       atomic_load(&changer.changes));
}

/* --- threads that are cancelled: not in a call, because the call may hold a lock */

static void *cancelled(void *arg)
{
	CUresult (*call)(void) = (CUresult (*)(void))(uintptr_t)arg;

	pthread_cancel(pthread_self());
	if (call())
		return NULL;
	pthread_testcancel();
	return NULL;
}

/* Whether a call in a thread that is being cancelled completes before the thread is cancelled. */
static bool done_and_cancelled(CUresult (*call)(void))
{
	pthread_t thread;
	void *result = NULL;

	return !pthread_create(&thread, NULL, cancelled, (void *)(uintptr_t)call) &&
	       !pthread_join(thread, &result) && result == PTHREAD_CANCELED;
}

static CUresult init(void)
{
	return cuInit(0);
}

TEST(cancelled_in_init)
{
	int count = 0;

	ASSERT_TRUE(done_and_cancelled(init));
	/* The thread had initialized the library. */
	EXPECT_CU(cuDeviceGetCount(&count));
	EXPECT_CU(cuInit(0));
	EXPECT_LT(0, count);
}

static void told(CUasyncNotificationInfo *info, void *data, CUasyncCallbackHandle handle)
{
	(void)info, (void)data, (void)handle;
}

static CUresult notify(void)
{
	CUasyncCallbackHandle handle;
	CUresult result = cuDeviceRegisterAsyncNotification(0, told, NULL, &handle);

	return result ? result : cuDeviceUnregisterAsyncNotification(0, handle);
}

TEST_F(locks, cancelled_in_notify)
{
	for (int i = 0; i < 3; i++)
		EXPECT_TRUE(done_and_cancelled(notify));
	EXPECT_CU(notify());
}

static CUresult fail(void)
{
	/* With GPUMEM_DEBUG=1 it prints a line on standard error. */
	return cuMemFree(12345) == INVALID ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

TEST(cancelled_in_a_failure)
{
	CUcontext ctx;

	setenv("GPUMEM_DEBUG", "1", 1);
	ASSERT_CU(cuda_start(&ctx));
	for (int i = 0; i < 3; i++)
		EXPECT_TRUE(done_and_cancelled(fail));
	EXPECT_TRUE(fail() == CUDA_SUCCESS);
}

TEST_HARNESS_MAIN
