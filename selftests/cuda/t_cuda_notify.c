// SPDX-License-Identifier: GPL-2.0
/*
 * Tests notifications by the CUDA API.  The library calls a callback when the process holds more of
 * a device's memory than its share, because of the administrator, of other processes, or of its own
 * allocations.  Also tests the guarantees of registering and unregistering.  t_budget tests the
 * size of shares.
 *
 * The expected errors are those that were recorded on a real device.
 */
#include <pthread.h>
#include <semaphore.h>

#include "kselftest_harness.h"
#include "cuda_rt_util.h"

#define NOT_PERMITTED	CUDA_ERROR_NOT_PERMITTED

static int set_budget(__u64 bytes)
{
	int fd = open("/sys/class/gpumem/gpumem0/budget", O_WRONLY | O_CLOEXEC), ret;

	if (fd < 0)
		return -errno;
	ret = dprintf(fd, "%llu\n", (unsigned long long)bytes) < 0 ? -errno : 0;
	close(fd);
	return ret;
}

FIXTURE(notify)
{
	CUcontext ctx;
};

FIXTURE_SETUP(notify)
{
	ASSERT_TRUE(dev_quiet(10));
	ASSERT_EQ(0, set_budget(0));
	ASSERT_CU(cuda_start(&self->ctx));
}

FIXTURE_TEARDOWN_PARENT(notify)
{
	EXPECT_EQ(0, set_budget(0));
	EXPECT_TRUE(dev_quiet(10));
}

/* The calls of one callback. */
struct ear {
	sem_t heard, answer;
	bool ask;			/* the callback waits for answer before it returns */
	CUasyncCallbackHandle handle;	/* as the callback got it */
	CUasyncNotificationType type;
	__u64 bytes, count;
	bool left;			/* the callback returned */
	CUresult (*act)(struct ear *ear);
	CUresult result;
	CUdeviceptr mem;
};

static void ear_make(struct ear *ear)
{
	memset(ear, 0, sizeof(*ear));
	sem_init(&ear->heard, 0, 0);
	sem_init(&ear->answer, 0, 0);
}

static void on_notice(CUasyncNotificationInfo *info, void *data, CUasyncCallbackHandle handle)
{
	struct ear *ear = data;

	ear->handle = handle;
	ear->type = info->type;
	ear->bytes = info->info.overBudget.bytesOverBudget;
	/* The callback may write to its information: each callback gets a copy. */
	info->info.overBudget.bytesOverBudget = 0;
	ear->count++;
	__atomic_store_n(&ear->left, false, __ATOMIC_RELEASE);
	if (ear->act)
		ear->result = ear->act(ear);
	sem_post(&ear->heard);
	if (ear->ask)
		sem_wait(&ear->answer);
	__atomic_store_n(&ear->left, true, __ATOMIC_RELEASE);
}

static bool hears(struct ear *ear)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 30;
	return !sem_timedwait(&ear->heard, &until);
}

/* Device memory of this process. */
static __u64 mine(void)
{
	struct gpumem_stats stats = { 0 };

	return client_stats(&stats) ? 0 : stats.bo_bytes;
}

static unsigned int thread_count(void)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned int count = 0;
	struct dirent *entry;

	while (dir && (entry = readdir(dir)))
		count += entry->d_name[0] != '.';
	if (dir)
		closedir(dir);
	return count;
}

TEST_F(notify, arguments)
{
	CUasyncCallbackHandle one = NULL, two = NULL, none = (void *)1;
	unsigned int threads = thread_count();
	struct ear ear;

	ear_make(&ear);
	EXPECT_EQ(INVALID, cuDeviceRegisterAsyncNotification(0, NULL, NULL, &none));
	EXPECT_EQ(NULL, none);
	EXPECT_EQ(INVALID, cuDeviceRegisterAsyncNotification(0, on_notice, NULL, NULL));
	EXPECT_EQ(CUDA_ERROR_INVALID_DEVICE,
		  cuDeviceRegisterAsyncNotification(99, on_notice, NULL, &none));
	EXPECT_EQ(INVALID, cuDeviceUnregisterAsyncNotification(0, NULL));
	/* The first registration creates the library's thread; later ones use the same thread. */
	EXPECT_EQ(threads, thread_count());
	ASSERT_CU(cuDeviceRegisterAsyncNotification(0, on_notice, &ear, &one));
	EXPECT_EQ(threads + 1, thread_count());
	ASSERT_CU(cuCtxSetCurrent(NULL));
	ASSERT_CU(cuDeviceRegisterAsyncNotification(0, on_notice, &ear, &two));
	EXPECT_EQ(threads + 1, thread_count());
	EXPECT_NE(one, two);
	EXPECT_EQ(CUDA_ERROR_INVALID_DEVICE, cuDeviceUnregisterAsyncNotification(99, one));
	if (dev_count() > 1) {
		EXPECT_EQ(INVALID, cuDeviceUnregisterAsyncNotification(1, one));
	}
	EXPECT_EQ(INVALID, cuDeviceUnregisterAsyncNotification(0, (void *)&ear));
	EXPECT_CU(cuDeviceUnregisterAsyncNotification(0, one));
	EXPECT_EQ(INVALID, cuDeviceUnregisterAsyncNotification(0, one));
	EXPECT_CU(cuDeviceUnregisterAsyncNotification(0, two));
	EXPECT_EQ(0, ear.count);
}

/* A new budget notifies every callback, unless the budget is large enough. */
TEST_F(notify, administrator)
{
	CUasyncCallbackHandle one, two, other;
	struct ear first, second, stranger;
	CUdeviceptr p, q;

	ear_make(&first);
	ear_make(&second);
	ear_make(&stranger);
	ASSERT_CU(cuMemAlloc(&p, 16 * MIB));
	ASSERT_CU(cuDeviceRegisterAsyncNotification(0, on_notice, &first, &one));
	ASSERT_CU(cuDeviceRegisterAsyncNotification(0, on_notice, &second, &two));
	if (dev_count() > 1) {
		ASSERT_CU(cuDeviceRegisterAsyncNotification(1, on_notice, &stranger, &other));
	}
	EXPECT_EQ(0, set_budget(mine()));
	EXPECT_EQ(0, set_budget(mine() - 5 * MIB));
	ASSERT_TRUE(hears(&first));
	ASSERT_TRUE(hears(&second));
	EXPECT_EQ(CU_ASYNC_NOTIFICATION_TYPE_OVER_BUDGET, first.type);
	EXPECT_EQ(5 * MIB, first.bytes);
	EXPECT_EQ(5 * MIB, second.bytes);
	EXPECT_EQ(one, first.handle);
	EXPECT_EQ(two, second.handle);
	/* A process above its share is notified once, and again after it was within its share. */
	EXPECT_CU(cuMemAlloc(&q, 4 * MIB));
	EXPECT_CU(cuMemFree(q));
	EXPECT_CU(cuMemFree(p));
	EXPECT_EQ(0, set_budget(mine() + 4 * MIB));
	EXPECT_CU(cuMemAlloc(&p, 4 * MIB));
	EXPECT_CU(cuMemAlloc(&q, 4 * MIB));
	ASSERT_TRUE(hears(&first));
	ASSERT_TRUE(hears(&second));
	EXPECT_EQ(4 * MIB, first.bytes);
	EXPECT_EQ(2, first.count);
	EXPECT_EQ(2, second.count);
	/* An unregistered callback is not called; others are. */
	EXPECT_CU(cuDeviceUnregisterAsyncNotification(0, one));
	EXPECT_EQ(0, set_budget(2 * MIB));
	ASSERT_TRUE(hears(&second));
	EXPECT_EQ(mine() - 2 * MIB, second.bytes);
	EXPECT_EQ(2, first.count);
	EXPECT_EQ(0, stranger.count);
}

/*
 * A callback that is registered while the process is above its share is called once.  The
 * registration does not call other callbacks.
 */
TEST_F(notify, latecomers)
{
	CUasyncCallbackHandle one, two, three;
	struct ear first, second, third;
	CUdeviceptr p;

	ear_make(&first);
	ear_make(&second);
	ear_make(&third);
	ASSERT_CU(cuMemAlloc(&p, 16 * MIB));
	EXPECT_EQ(0, set_budget(mine() - 5 * MIB));
	/* The kernel has not notified the process before. */
	ASSERT_CU(cuDeviceRegisterAsyncNotification(0, on_notice, &first, &one));
	ASSERT_TRUE(hears(&first));
	EXPECT_EQ(5 * MIB, first.bytes);
	/* The kernel has notified the process, for the first callback. */
	ASSERT_CU(cuDeviceRegisterAsyncNotification(0, on_notice, &second, &two));
	ASSERT_TRUE(hears(&second));
	EXPECT_EQ(two, second.handle);
	EXPECT_EQ(CU_ASYNC_NOTIFICATION_TYPE_OVER_BUDGET, second.type);
	EXPECT_EQ(5 * MIB, second.bytes);
	/* A notice that arrived while no callback was registered was not lost. */
	EXPECT_CU(cuDeviceUnregisterAsyncNotification(0, one));
	EXPECT_CU(cuDeviceUnregisterAsyncNotification(0, two));
	EXPECT_EQ(0, set_budget(mine() - 6 * MIB));
	nap_ms(50);
	ASSERT_CU(cuDeviceRegisterAsyncNotification(0, on_notice, &first, &one));
	ASSERT_TRUE(hears(&first));
	EXPECT_EQ(6 * MIB, first.bytes);
	/*
	 * A callback that is registered after the excess has ended is not called for it.  Nor is a
	 * callback called for another device.
	 */
	EXPECT_EQ(0, set_budget(0));
	ASSERT_CU(cuDeviceRegisterAsyncNotification(0, on_notice, &third, &three));
	EXPECT_EQ(0, set_budget(mine() - 7 * MIB));
	ASSERT_TRUE(hears(&third));
	ASSERT_TRUE(hears(&first));
	EXPECT_EQ(7 * MIB, third.bytes);
	ear_make(&second);
	if (dev_count() > 1) {
		ASSERT_CU(cuDeviceRegisterAsyncNotification(1, on_notice, &second, &two));
	}
	ASSERT_CU(cuDeviceRegisterAsyncNotification(0, on_notice, &second, &two));
	ASSERT_TRUE(hears(&second));
	nap_ms(50);
	EXPECT_EQ(1, second.count);
	EXPECT_EQ(1, third.count);
	EXPECT_EQ(3, first.count);
}

/* Another process allocates its first memory; later it finds no memory left. */
TEST_F(notify, neighbours)
{
	struct peer_message m = { .op = PEER_ALLOC, .bytes = 4 * MIB };
	__u64 size = dev_attr(0, "size"), left;
	CUasyncCallbackHandle handle;
	struct peer peer;
	struct ear ear;
	CUdeviceptr p;

	if (size > 512 * MIB)
		SKIP(return, "the device is too large for this");
	ear_make(&ear);
	ASSERT_EQ(0, peer_start(&peer, NULL));
	ASSERT_CU(cuMemAlloc(&p, size / 2 + 8 * MIB));
	ASSERT_CU(cuDeviceRegisterAsyncNotification(0, on_notice, &ear, &handle));
	ASSERT_CU(peer_call(&peer, &m));
	ASSERT_TRUE(hears(&ear));
	EXPECT_EQ(mine() - size / 2, ear.bytes);
	/* The process is notified again when the other process finds no memory left. */
	left = (size - used(0)) & ~(2 * MIB - 1);
	ASSERT_CU(cuMemAlloc(&p, left));
	EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, peer_call(&peer, &m));
	ASSERT_TRUE(hears(&ear));
	EXPECT_EQ(mine() - size / 2, ear.bytes);
	EXPECT_CU(cuMemFree(p));
	EXPECT_CU(peer_call(&peer, &m));
	EXPECT_EQ(0, peer_end(&peer));
}

static CUresult give_back(struct ear *ear)
{
	return cuMemFree(ear->mem);
}

/* A callback may give memory back. */
TEST_F(notify, gives_back)
{
	CUasyncCallbackHandle handle;
	struct ear ear;

	ear_make(&ear);
	ear.act = give_back;
	ASSERT_CU(cuMemAlloc(&ear.mem, 16 * MIB));
	ASSERT_CU(cuDeviceRegisterAsyncNotification(0, on_notice, &ear, &handle));
	EXPECT_EQ(0, set_budget(MIB));
	ASSERT_TRUE(hears(&ear));
	EXPECT_CU(ear.result);
	EXPECT_EQ(INVALID, cuMemFree(ear.mem));
}

static CUresult not_here(struct ear *ear)
{
	CUasyncCallbackHandle handle = NULL;

	if (cuDeviceRegisterAsyncNotification(0, on_notice, ear, &handle) != NOT_PERMITTED)
		return CUDA_ERROR_UNKNOWN;
	return cuDeviceUnregisterAsyncNotification(0, ear->handle);
}

static void *unregister(void *handle)
{
	return (void *)(uintptr_t)cuDeviceUnregisterAsyncNotification(0, handle);
}

/*
 * A callback can neither register nor unregister.  Outside of it, unregistering waits until the
 * callback has returned.
 */
TEST_F(notify, unregistering)
{
	CUasyncCallbackHandle handle, bystander;
	struct ear ear, other;
	pthread_t thread;
	CUdeviceptr p;
	void *result;

	ear_make(&ear);
	ear_make(&other);
	ear.act = not_here;
	ear.ask = true;
	ASSERT_CU(cuMemAlloc(&p, 16 * MIB));
	ASSERT_CU(cuDeviceRegisterAsyncNotification(0, on_notice, &ear, &handle));
	ASSERT_CU(cuDeviceRegisterAsyncNotification(0, on_notice, &other, &bystander));
	EXPECT_EQ(0, set_budget(MIB));
	ASSERT_TRUE(hears(&ear));
	EXPECT_EQ(NOT_PERMITTED, ear.result);
	EXPECT_EQ(handle, ear.handle);
	/* Unregistering a callback that does not run does not wait. */
	EXPECT_CU(cuDeviceUnregisterAsyncNotification(0, bystander));
	ASSERT_EQ(0, pthread_create(&thread, NULL, unregister, handle));
	nap_ms(50);
	EXPECT_FALSE(__atomic_load_n(&ear.left, __ATOMIC_ACQUIRE));
	EXPECT_EQ(EBUSY, pthread_tryjoin_np(thread, &result));
	sem_post(&ear.answer);
	ASSERT_EQ(0, pthread_join(thread, &result));
	EXPECT_EQ(NULL, result);
	EXPECT_TRUE(__atomic_load_n(&ear.left, __ATOMIC_ACQUIRE));
	EXPECT_EQ(INVALID, cuDeviceUnregisterAsyncNotification(0, handle));
	/* The library's thread goes on and calls other callbacks. */
	ear_make(&other);
	ASSERT_CU(cuDeviceRegisterAsyncNotification(0, on_notice, &other, &bystander));
	EXPECT_EQ(0, set_budget(2 * MIB));
	EXPECT_TRUE(hears(&other));
	EXPECT_EQ(1, ear.count);
}

static void *unregister_and_end(void *handle)
{
	void *result = unregister(handle);

	pthread_testcancel();
	return result ? result : handle;
}

/* A thread cancelled while it waits in unregistering completes the call, and keeps no lock. */
TEST_F(notify, cancelled_while_it_waits)
{
	CUasyncCallbackHandle handle, after;
	pthread_t thread;
	struct ear ear;
	CUdeviceptr p;
	void *result;

	ear_make(&ear);
	ear.ask = true;
	ASSERT_CU(cuMemAlloc(&p, 16 * MIB));
	ASSERT_CU(cuDeviceRegisterAsyncNotification(0, on_notice, &ear, &handle));
	EXPECT_EQ(0, set_budget(MIB));
	ASSERT_TRUE(hears(&ear));
	ASSERT_EQ(0, pthread_create(&thread, NULL, unregister_and_end, handle));
	nap_ms(50);
	ASSERT_EQ(0, pthread_cancel(thread));
	nap_ms(50);
	EXPECT_EQ(EBUSY, pthread_tryjoin_np(thread, &result));
	sem_post(&ear.answer);
	ASSERT_EQ(0, pthread_join(thread, &result));
	EXPECT_EQ(PTHREAD_CANCELED, result);
	EXPECT_EQ(INVALID, cuDeviceUnregisterAsyncNotification(0, handle));
	EXPECT_CU(cuDeviceRegisterAsyncNotification(0, on_notice, &ear, &after));
	EXPECT_TRUE(hears(&ear));
	sem_post(&ear.answer);
	EXPECT_CU(cuDeviceUnregisterAsyncNotification(0, after));
}

static int in_child(void *arg)
{
	CUasyncCallbackHandle handle = arg;

	if (cuDeviceUnregisterAsyncNotification(0, handle) != CUDA_ERROR_NOT_INITIALIZED)
		return 1;
	if (cuDeviceRegisterAsyncNotification(0, on_notice, NULL, &handle) !=
	    CUDA_ERROR_NOT_INITIALIZED)
		return 2;
	return thread_count() != 1;
}

TEST_F(notify, fork)
{
	CUasyncCallbackHandle handle;
	struct ear ear;
	CUdeviceptr p;

	ear_make(&ear);
	ear.ask = true;
	ASSERT_CU(cuMemAlloc(&p, 16 * MIB));
	ASSERT_CU(cuDeviceRegisterAsyncNotification(0, on_notice, &ear, &handle));
	EXPECT_EQ(0, run_child(in_child, handle));
	EXPECT_EQ(0, set_budget(MIB));
	ASSERT_TRUE(hears(&ear));
	/* Also while a callback runs. */
	EXPECT_EQ(0, run_child(in_child, handle));
	sem_post(&ear.answer);
	EXPECT_CU(cuDeviceUnregisterAsyncNotification(0, handle));
}

/* Many threads register and unregister while there is always a notice to deliver. */
static void *come_and_go(void *arg)
{
	CUasyncCallbackHandle handle;
	struct ear ear;

	(void)arg;
	for (int i = 0; i < 50; i++) {
		ear_make(&ear);
		if (cuDeviceRegisterAsyncNotification(0, on_notice, &ear, &handle))
			return "not registered";
		if (cuDeviceUnregisterAsyncNotification(0, handle))
			return "not unregistered";
		/* A callback that still ran now would find this pattern. */
		memset(&ear, 0xff, sizeof(ear));
	}
	return NULL;
}

TEST_F(notify, threads)
{
	CUasyncCallbackHandle handle;
	pthread_t thread[3];
	struct ear ear;
	void *complaint;
	CUdeviceptr p;

	ear_make(&ear);
	ASSERT_CU(cuMemAlloc(&p, 16 * MIB));
	ASSERT_CU(cuDeviceRegisterAsyncNotification(0, on_notice, &ear, &handle));
	for (unsigned int i = 0; i < ARRAY_SIZE(thread); i++)
		ASSERT_EQ(0, pthread_create(&thread[i], NULL, come_and_go, NULL));
	for (int i = 0; i < 10; i++) {
		EXPECT_EQ(0, set_budget(MIB + i * 4096));
		ASSERT_TRUE(hears(&ear));
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(thread); i++) {
		ASSERT_EQ(0, pthread_join(thread[i], &complaint));
		EXPECT_EQ(NULL, complaint) {
			TH_LOG("%s", (char *)complaint);
		}
	}
}

TEST_F(notify, runtime)
{
	cudaAsyncCallbackHandle_t handle;
	struct ear ear;
	void *p;

	ear_make(&ear);
	ASSERT_RT(cudaMalloc(&p, 16 * MIB));
	ASSERT_RT(cudaDeviceRegisterAsyncNotification(0, (cudaAsyncCallback)on_notice, &ear,
						      &handle));
	EXPECT_EQ(0, set_budget(MIB));
	ASSERT_TRUE(hears(&ear));
	EXPECT_EQ(mine() - MIB, ear.bytes);
	EXPECT_RT(cudaDeviceUnregisterAsyncNotification(0, handle));
	EXPECT_FAILS(cudaErrorInvalidDevice, cudaDeviceUnregisterAsyncNotification(99, handle));
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], PEER_WORD))
		return peer_main();
	return test_harness_run(argc, argv);
}
