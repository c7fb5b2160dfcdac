// SPDX-License-Identifier: GPL-2.0
/*
 * What a call of the library holds while it waits, or while the kernel works for it: other threads
 * must be able to go on, because what is waited for may be theirs.
 *
 * Where a call must wait for the test, it waits at a gate: an entry that waits for a word that the
 * test has not written.  A case that hangs is ended by the harness's alarm, and fails.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "kselftest_harness.h"
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
	ASSERT_TRUE(dev_quiet(10));
	ASSERT_CU(cuda_start(&self->ctx));
	ASSERT_CU(cuStreamCreate(&self->stream, CU_STREAM_NON_BLOCKING));
	self->word = mmap(NULL, 4 * KIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, (void *)self->word);
	ASSERT_CU(cuMemHostRegister(self->word, 4 * KIB, 0));
}

FIXTURE_TEARDOWN_PARENT(locks)
{
	EXPECT_TRUE(dev_quiet(10));
}

static CUresult gate(CUstream stream, cuuint32_t *word)
{
	return cuStreamWaitValue32(stream, (uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_GEQ);
}

static void open_gate(cuuint32_t *word)
{
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
}

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

/* --- a thread that does something once */

struct actor {
	pthread_t thread;
	CUcontext ctx;
	cuuint32_t *word;		/* opened when it has done it, unless NULL */
	CUresult result;
	atomic_int ready, go, done;
};

static bool act(struct actor *actor, void *(*run)(void *))
{
	return !pthread_create(&actor->thread, NULL, run, actor);
}

static void acted(struct actor *actor, CUresult result)
{
	actor->result = result;
	atomic_store(&actor->done, 1);
	if (actor->word)
		open_gate(actor->word);
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
	nap();
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
	nap();
	acted(actor, (CUresult)cudaSetDevice(0));
	return NULL;
}

/* --- primary contexts that end while another thread has something to do */

/* It has a stream of its own, which goes when the thread does. */
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
	ASSERT_CU(gate(self->stream, self->word));
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
	ASSERT_CU(gate(self->stream, self->word));
	atomic_store(&actor.go, 1);
	EXPECT_EQ(cudaSuccess, cudaDeviceReset());
	pthread_join(actor.thread, NULL);
	EXPECT_CU(actor.result);
	/* The thread's context is the next life. */
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
		ASSERT_CU(gate(self->stream, self->word));
		ASSERT_TRUE(act(&first, reset_device));
		wait_until(&first.ready);
		nap();
		EXPECT_FALSE(active(0));
		ASSERT_TRUE(act(&second, i ? release_device : reset_device));
		wait_until(&second.ready);
		nap();
		EXPECT_EQ(0, atomic_load(&first.done));
		EXPECT_EQ(0, atomic_load(&second.done));
		open_gate(self->word);
		pthread_join(first.thread, NULL);
		pthread_join(second.thread, NULL);
		EXPECT_CU(first.result);
		EXPECT_CU(second.result);
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

/* A retain does not wait for the life before; the first call that needs the context does. */
TEST_F(locks, retained_while_it_ends)
{
	struct actor first = {}, user = {};
	CUdeviceptr p = 0;
	CUcontext ctx;

	ASSERT_CU(cuMemAlloc(&p, 4 * KIB));
	ASSERT_CU(gate(self->stream, self->word));
	ASSERT_TRUE(act(&first, reset_device));
	wait_until(&first.ready);
	nap();
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
	open_gate(self->word);
	pthread_join(first.thread, NULL);
	pthread_join(user.thread, NULL);
	EXPECT_CU(first.result);
	EXPECT_CU(user.result);
	EXPECT_CU(cuCtxSynchronize());
	/* The memory was the life before's. */
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
	/* Resetting what does not live changes nothing. */
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

/* The runtime's reference goes with its reset, whatever was retained by hand. */
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

TEST_HARNESS_MAIN
