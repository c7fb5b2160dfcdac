// SPDX-License-Identifier: GPL-2.0
/*
 * External semaphores: the order that they give to streams of one process and of two, how long a
 * destroyed one lives, and what calls cost beside many of them.
 *
 * A test with two processes forks before it initializes the library.
 */
#include <gpumem.h>
#include <signal.h>
#include <sys/socket.h>

#include "kselftest_harness.h"
#include "cuda_util.h"
#include "cost_util.h"
#include "common/exporters.h"

FIXTURE(semaphore)
{
	CUcontext ctx;
	CUstream a, b;
};

FIXTURE_SETUP(semaphore)
{
	cuda_begin(_metadata, &self->ctx);
	ASSERT_CU(cuStreamCreate(&self->a, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuStreamCreate(&self->b, CU_STREAM_NON_BLOCKING));
}

QUIET_AFTERWARDS(semaphore)

static CUresult import_semaphore(CUexternalSemaphore *s, int fd, bool timeline)
{
	CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC d;

	memset(&d, 0, sizeof(d));
	d.type = timeline ? CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD :
			    CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD;
	d.handle.fd = fd;
	return cuImportExternalSemaphore(s, &d);
}

static CUresult raise_semaphore(CUexternalSemaphore s, __u64 value, CUstream stream)
{
	CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS p;

	memset(&p, 0, sizeof(p));
	p.params.fence.value = value;
	return cuSignalExternalSemaphoresAsync(&s, &p, 1, stream);
}

static CUresult await_semaphore(CUexternalSemaphore s, __u64 value, CUstream stream)
{
	CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS p;

	memset(&p, 0, sizeof(p));
	p.params.fence.value = value;
	return cuWaitExternalSemaphoresAsync(&s, &p, 1, stream);
}

/* Whether a stream is still busy a moment later. */
static bool stays_busy(CUstream stream)
{
	nap_ms(30);
	return cuStreamQuery(stream) == CUDA_ERROR_NOT_READY;
}

TEST_F(semaphore, binary)
{
	CUexternalSemaphore s, t;
	CUdeviceptr p;
	int fd;

	ASSERT_CU(cuMemAlloc(&p, MIB));
	ASSERT_CU(gpumem_create_semaphore(&s, 0, 0));
	ASSERT_CU(gpumem_export_semaphore(&fd, s, 0));
	EXPECT_EQ(CUDA_ERROR_UNKNOWN, import_semaphore(&t, fd, true));
	EXPECT_TRUE(is_open(fd));
	ASSERT_CU(import_semaphore(&t, fd, false));
	EXPECT_FALSE(is_open(fd));
	/* A wait before the signal; each signal ends one wait. */
	ASSERT_CU(await_semaphore(s, 0, self->a));
	ASSERT_CU(cuMemsetD8Async(p, 1, MIB, self->a));
	EXPECT_TRUE(stays_busy(self->a));
	ASSERT_CU(raise_semaphore(t, 0, self->b));
	EXPECT_CU(cuStreamSynchronize(self->a));
	EXPECT_TRUE(sees(p, 1, MIB));
	ASSERT_CU(await_semaphore(t, 0, self->a));
	EXPECT_TRUE(stays_busy(self->a));
	ASSERT_CU(raise_semaphore(s, 0, self->b));
	EXPECT_CU(cuStreamSynchronize(self->a));
	/* A signal before the wait. */
	ASSERT_CU(raise_semaphore(s, 0, self->b));
	EXPECT_CU(cuStreamSynchronize(self->b));
	ASSERT_CU(await_semaphore(s, 0, self->a));
	EXPECT_CU(cuStreamSynchronize(self->a));
	/* A semaphore that is destroyed lives on until the work that uses it is done. */
	ASSERT_CU(await_semaphore(s, 0, self->a));
	ASSERT_CU(cuDestroyExternalSemaphore(s));
	EXPECT_EQ(INVALID, cuDestroyExternalSemaphore(s));
	EXPECT_EQ(INVALID, raise_semaphore(s, 0, self->b));
	EXPECT_TRUE(stays_busy(self->a));
	ASSERT_CU(raise_semaphore(t, 0, self->b));
	EXPECT_CU(cuStreamSynchronize(self->a));
	EXPECT_CU(cuDestroyExternalSemaphore(t));
	EXPECT_CU(cuMemFree(p));
}

/* A wait that was submitted later cannot pass by with the signal of an earlier one. */
TEST_F(semaphore, waits_in_order)
{
	CUexternalSemaphore s, gate;
	CUevent waited;
	CUstream c;

	ASSERT_CU(cuEventCreate(&waited, CU_EVENT_DISABLE_TIMING));
	ASSERT_CU(cuStreamCreate(&c, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(gpumem_create_semaphore(&s, 0, 0));
	ASSERT_CU(gpumem_create_semaphore(&gate, 0, GPUMEM_SEMAPHORE_TIMELINE));
	ASSERT_CU(await_semaphore(gate, 1, self->a));
	ASSERT_CU(raise_semaphore(s, 0, self->b));
	ASSERT_CU(await_semaphore(s, 0, self->a));
	/* The second signal is ordered after the first wait. */
	ASSERT_CU(cuEventRecord(waited, self->a));
	ASSERT_CU(cuStreamWaitEvent(self->b, waited, 0));
	ASSERT_CU(raise_semaphore(s, 0, self->b));
	ASSERT_CU(await_semaphore(s, 0, c));
	EXPECT_TRUE(stays_busy(c));
	ASSERT_CU(raise_semaphore(gate, 1, NULL));
	EXPECT_CU(cuStreamSynchronize(c));
	EXPECT_CU(cuStreamSynchronize(self->a));
	EXPECT_CU(cuStreamSynchronize(self->b));
	EXPECT_CU(cuDestroyExternalSemaphore(s));
	EXPECT_CU(cuDestroyExternalSemaphore(gate));
	EXPECT_CU(cuStreamDestroy(c));
	EXPECT_CU(cuEventDestroy(waited));
}

TEST_F(semaphore, timeline)
{
	CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS waits[2];
	CUexternalSemaphore s[2], t;
	int fd;

	ASSERT_CU(gpumem_create_semaphore(&s[0], 5, GPUMEM_SEMAPHORE_TIMELINE));
	ASSERT_CU(gpumem_create_semaphore(&s[1], 0, GPUMEM_SEMAPHORE_TIMELINE));
	ASSERT_CU(gpumem_export_semaphore(&fd, s[0], 0));
	EXPECT_EQ(CUDA_ERROR_UNKNOWN, import_semaphore(&t, fd, false));
	ASSERT_CU(import_semaphore(&t, fd, true));
	ASSERT_CU(await_semaphore(t, 5, self->a));
	EXPECT_CU(cuStreamSynchronize(self->a));
	memset(waits, 0, sizeof(waits));
	waits[0].params.fence.value = 7;
	waits[1].params.fence.value = 1;
	ASSERT_CU(cuWaitExternalSemaphoresAsync(s, waits, 2, self->a));
	ASSERT_CU(raise_semaphore(t, 7, self->b));
	EXPECT_CU(cuStreamSynchronize(self->b));
	EXPECT_TRUE(stays_busy(self->a));
	ASSERT_CU(raise_semaphore(s[1], 1, self->b));
	EXPECT_CU(cuStreamSynchronize(self->a));
	/* A timeline's waits take nothing. */
	ASSERT_CU(cuWaitExternalSemaphoresAsync(s, waits, 2, self->a));
	EXPECT_CU(cuStreamSynchronize(self->a));
	EXPECT_CU(cuDestroyExternalSemaphore(t));
	EXPECT_CU(cuDestroyExternalSemaphore(s[0]));
	EXPECT_CU(cuDestroyExternalSemaphore(s[1]));
}

TEST_F(semaphore, arguments)
{
	CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS p;
	CUexternalSemaphore s;
	int fd;

	EXPECT_EQ(INVALID, gpumem_create_semaphore(NULL, 0, 0));
	EXPECT_EQ(INVALID, gpumem_create_semaphore(&s, 2, 0));
	EXPECT_EQ(INVALID, gpumem_create_semaphore(&s, 0, 2));
	ASSERT_CU(gpumem_create_semaphore(&s, 1, 0));
	EXPECT_EQ(INVALID, gpumem_export_semaphore(NULL, s, 0));
	EXPECT_EQ(INVALID, gpumem_export_semaphore(&fd, s, 1));
	EXPECT_EQ(INVALID, gpumem_export_semaphore(&fd, NULL, 0));
	EXPECT_EQ(-1, fd);
	memset(&p, 0, sizeof(p));
	p.flags = 1;
	EXPECT_EQ(INVALID, cuSignalExternalSemaphoresAsync(&s, &p, 1, self->a));
	/* It was made signalled. */
	ASSERT_CU(await_semaphore(s, 0, self->a));
	EXPECT_CU(cuStreamSynchronize(self->a));
	EXPECT_CU(cuDestroyExternalSemaphore(s));
}

/* A handle that was destroyed never names another semaphore. */
TEST_F(semaphore, stale_handles)
{
	CUexternalSemaphore s, t;

	ASSERT_CU(gpumem_create_semaphore(&s, 0, 0));
	for (int i = 0; i < 10; i++) {
		ASSERT_CU(cuDestroyExternalSemaphore(s));
		ASSERT_CU(gpumem_create_semaphore(&t, 0, 0));
		EXPECT_EQ(INVALID, cuDestroyExternalSemaphore(s));
		s = t;
	}
	EXPECT_EQ(INVALID, cuDestroyExternalSemaphore((CUexternalSemaphore)&s));
	EXPECT_EQ(INVALID, cuDestroyExternalSemaphore((CUexternalSemaphore)(uintptr_t)~0ull));
	EXPECT_CU(cuDestroyExternalSemaphore(s));
}

/* --- costs */

#define MANY_SEMAPHORES	20000

/* A call that finds the semaphore, and is then refused. */
static CUresult find_semaphore(const void *arg)
{
	CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS p = { .flags = 1 };
	CUresult result = cuSignalExternalSemaphoresAsync(arg, &p, 1, NULL);

	return result == INVALID ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

static CUresult make_semaphore(const void *arg)
{
	CUexternalSemaphore s;
	CUresult result = gpumem_create_semaphore(&s, 0, 0);

	(void)arg;
	return result ? result : cuDestroyExternalSemaphore(s);
}

/* Calls cost the same beside many semaphores as beside none. */
TEST_F_TIMEOUT(semaphore, cost_beside_many, 120)
{
	static CUexternalSemaphore s[MANY_SEMAPHORES];
	__u64 find_alone, make_alone;
	CUexternalSemaphore first;

	/* The oldest and the newest are the ends of a list. */
	ASSERT_CU(gpumem_create_semaphore(&first, 0, 0));
	find_alone = least(find_semaphore, &first);
	make_alone = least(make_semaphore, NULL);
	ASSERT_TRUE(find_alone && make_alone);
	for (int i = 0; i < MANY_SEMAPHORES; i++)
		ASSERT_CU(gpumem_create_semaphore(&s[i], 0, 0));
	EXPECT_TRUE(costs_the_same(find_semaphore, &first, find_alone));
	EXPECT_TRUE(costs_the_same(make_semaphore, NULL, make_alone));
	EXPECT_CU(cuDestroyExternalSemaphore(first));
	for (int i = 0; i < MANY_SEMAPHORES; i++)
		ASSERT_CU(cuDestroyExternalSemaphore(s[i]));
}

static long long object_count(void)
{
	struct gpumem_stats stats = { .size = sizeof(stats) };

	return client_stats(&stats) ? -1 : (long long)stats.objects;
}

/* Destroyed semaphores that work still needs cost other calls nothing, and are freed when it is done. */
TEST_F_TIMEOUT(semaphore, dying_semaphores, 120)
{
	CUexternalSemaphore gate, s;
	long long before;
	__u64 alone;

	ASSERT_CU(gpumem_create_semaphore(&gate, 0, 0));
	/* Let the streams have their queues. */
	ASSERT_CU(raise_semaphore(gate, 0, self->b));
	ASSERT_CU(await_semaphore(gate, 0, self->a));
	ASSERT_CU(cuStreamSynchronize(self->a));
	before = object_count();
	alone = least(make_semaphore, NULL);
	ASSERT_NE(0, alone);
	ASSERT_CU(await_semaphore(gate, 0, self->a));
	for (int i = 0; i < 3000; i++) {
		ASSERT_CU(gpumem_create_semaphore(&s, 0, 0));
		ASSERT_CU(raise_semaphore(s, 0, self->a));
		ASSERT_CU(cuDestroyExternalSemaphore(s));
	}
	EXPECT_TRUE(costs_the_same(make_semaphore, NULL, alone));
	ASSERT_CU(raise_semaphore(gate, 0, self->b));
	ASSERT_CU(cuStreamSynchronize(self->a));
	EXPECT_EQ(before, object_count());
	EXPECT_CU(cuDestroyExternalSemaphore(gate));
}

/* A destroyed semaphore ends with the first synchronization after its work, whichever function synchronizes. */
TEST_F(semaphore, destroyed_before_its_work)
{
	CUexternalSemaphore gate, s;
	long long before;
	CUevent event;

	ASSERT_CU(gpumem_create_semaphore(&gate, 0, 0));
	ASSERT_CU(cuEventCreate(&event, 0));
	/* In the first round the library makes what it keeps for the streams and the event. */
	for (int i = 0; i < 5; i++) {
		before = object_count();
		ASSERT_CU(gpumem_create_semaphore(&s, 0, 0));
		ASSERT_CU(await_semaphore(gate, 0, self->a));
		ASSERT_CU(raise_semaphore(s, 0, self->a));
		ASSERT_CU(cuEventRecord(event, self->a));
		ASSERT_CU(cuDestroyExternalSemaphore(s));
		/* Work still names it. */
		ASSERT_CU(cuStreamSynchronize(self->b));
		EXPECT_TRUE(!i || before + 1 == object_count());
		ASSERT_CU(raise_semaphore(gate, 0, self->b));
		ASSERT_CU(i <= 1 ? cuStreamSynchronize(self->a) : i == 2 ? cuCtxSynchronize() :
			  i == 3 ? cuCtxSynchronize_v2(NULL) : cuEventSynchronize(event));
		EXPECT_TRUE(!i || before == object_count());
	}
	EXPECT_CU(cuEventDestroy(event));
	EXPECT_CU(cuDestroyExternalSemaphore(gate));
}

/* The end of a context destroys its semaphores, and no others; work of another context may still need one. */
TEST_F(semaphore, context_ends)
{
	CUexternalSemaphore stays, s[3], in_use, again;
	long long before = 0;
	CUcontext ctx;
	int fd, of_stays;

	ASSERT_CU(gpumem_create_semaphore(&stays, 0, GPUMEM_SEMAPHORE_TIMELINE));
	/* In the first round the library makes what it keeps for a context. */
	for (int i = 0; i < 2; i++) {
		before = object_count();
		ASSERT_CU(cuCtxCreate(&ctx, NULL, 0, 0));
		for (int j = 0; j < 2; j++)
			ASSERT_CU(gpumem_create_semaphore(&s[j], 0, 0));
		ASSERT_CU(gpumem_export_semaphore(&of_stays, stays, 0));
		ASSERT_CU(import_semaphore(&s[2], of_stays, true));
		ASSERT_CU(gpumem_create_semaphore(&in_use, 0, GPUMEM_SEMAPHORE_TIMELINE));
		ASSERT_CU(gpumem_export_semaphore(&fd, in_use, 0));
		EXPECT_CU(cuDestroyExternalSemaphore(s[1]));
		ASSERT_CU(cuCtxSetCurrent(self->ctx));
		ASSERT_CU(import_semaphore(&again, fd, true));
		ASSERT_CU(await_semaphore(in_use, 1, self->a));
		ASSERT_CU(cuCtxDestroy(ctx));
		for (int j = 0; j < 3; j++)
			EXPECT_EQ(INVALID, cuDestroyExternalSemaphore(s[j]));
		EXPECT_EQ(INVALID, raise_semaphore(in_use, 1, self->b));
		EXPECT_TRUE(stays_busy(self->a));
		ASSERT_CU(raise_semaphore(again, 1, self->b));
		EXPECT_CU(cuStreamSynchronize(self->a));
		EXPECT_CU(cuStreamSynchronize(self->b));
		EXPECT_CU(cuDestroyExternalSemaphore(again));
		EXPECT_CU(cuCtxSynchronize());
	}
	EXPECT_EQ(before, object_count());
	ASSERT_CU(raise_semaphore(stays, 1, self->b));
	EXPECT_CU(cuStreamSynchronize(self->b));
	EXPECT_CU(cuDestroyExternalSemaphore(stays));
}

/* The end of a semaphore is not put off because others, destroyed before, are still in use. */
TEST_F(semaphore, destroyed_behind_others)
{
	CUexternalSemaphore s[3], t[3];
	CUresult result = CUDA_ERROR_NOT_READY;
	CUstream stream;
	CUcontext ctx;
	int fd;

	for (int i = 0; i < 3; i++) {
		ASSERT_CU(gpumem_create_semaphore(&s[i], 0, 0));
		ASSERT_CU(gpumem_export_semaphore(&fd, s[i], 0));
		ASSERT_CU(import_semaphore(&t[i], fd, false));
	}
	ASSERT_CU(await_semaphore(s[0], 0, self->a));
	ASSERT_CU(await_semaphore(s[1], 0, self->b));
	EXPECT_CU(cuDestroyExternalSemaphore(s[0]));
	EXPECT_CU(cuDestroyExternalSemaphore(s[1]));
	/* As another process does, this context waits for a signal that will not come. */
	ASSERT_CU(cuCtxCreate(&ctx, NULL, 0, 0));
	ASSERT_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(await_semaphore(t[2], 0, stream));
	EXPECT_CU(cuDestroyExternalSemaphore(s[2]));
	for (int i = 0; i < 200 && result == CUDA_ERROR_NOT_READY; i++) {
		nap_ms(10);
		result = cuStreamQuery(stream);
	}
	EXPECT_EQ(CUDA_ERROR_LAUNCH_FAILED, result);
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	ASSERT_CU(raise_semaphore(t[0], 0, CU_STREAM_PER_THREAD));
	ASSERT_CU(raise_semaphore(t[1], 0, CU_STREAM_PER_THREAD));
	EXPECT_CU(cuStreamSynchronize(self->a));
	EXPECT_CU(cuStreamSynchronize(self->b));
	for (int i = 0; i < 3; i++)
		EXPECT_CU(cuDestroyExternalSemaphore(t[i]));
	EXPECT_CU(cuCtxDestroy(ctx));
}

/* --- two processes */

/*
 * Makes a ping and a pong semaphore, sends them, answers each ping of a hundred with a pong, and then
 * waits to be killed.
 */
static int answers(void *arg)
{
	int sock = *(int *)arg, fd;
	CUexternalSemaphore s[2];
	CUstream stream;
	CUcontext ctx;

	/* A test that fails must not leave a client behind. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (cuda_start(&ctx) || cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))
		return 1;
	for (int i = 0; i < 2; i++)
		if (gpumem_create_semaphore(&s[i], 0, i ? GPUMEM_SEMAPHORE_TIMELINE : 0) ||
		    gpumem_export_semaphore(&fd, s[i], 0) || send_fd(sock, fd) || close(fd))
			return 2;
	for (int i = 1; i <= 100; i++)
		if (await_semaphore(s[0], 0, stream) || raise_semaphore(s[1], i, stream))
			return 3;
	if (cuStreamSynchronize(stream))
		return 4;
	pause();
	return 5;
}

TEST(two_processes)
{
	CUexternalSemaphore ping, pong;
	CUstream stream;
	CUcontext ctx;
	int sock[2], fd[2];
	pid_t pid;

	ASSERT_TRUE(dev_quiet(10));
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, sock));
	pid = start_child(answers, &sock[1]);
	ASSERT_LT(0, pid);
	ASSERT_CU(cuda_start(&ctx));
	ASSERT_CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	fd[0] = recv_fd(sock[0]);
	fd[1] = recv_fd(sock[0]);
	ASSERT_CU(import_semaphore(&ping, fd[0], false));
	ASSERT_CU(import_semaphore(&pong, fd[1], true));
	for (int i = 1; i <= 100; i++) {
		ASSERT_CU(raise_semaphore(ping, 0, stream));
		ASSERT_CU(await_semaphore(pong, i, stream));
		if (i % 10 == 0)
			ASSERT_CU(cuStreamSynchronize(stream));
	}
	/* The process that made the semaphore dies: the wait fails, and does not hang. */
	ASSERT_CU(await_semaphore(pong, 101, stream));
	EXPECT_TRUE(stays_busy(stream));
	EXPECT_EQ(-SIGKILL, kill_child(pid));
	EXPECT_EQ(CUDA_ERROR_LAUNCH_FAILED, cuStreamSynchronize(stream));
	close(sock[0]);
	close(sock[1]);
}

/* --- sync_files */

TEST_F(semaphore, sync_file)
{
	struct dma_buf_export_sync_file sync = { .flags = DMA_BUF_SYNC_READ };
	CUexternalSemaphore s;
	int card = vgem_open(), dmabuf;
	__u32 handle = 0, fence = 0;
	CUdeviceptr p;

	if (card < 0)
		SKIP(return, "no vgem");
	ASSERT_CU(cuMemAlloc(&p, 2 * MIB));
	ASSERT_CU(cuMemGetHandleForAddressRange(&dmabuf, p, 2 * MIB,
						CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	ASSERT_EQ(0, vgem_import(card, dmabuf, &handle));
	ASSERT_EQ(0, vgem_attach(card, handle, true, &fence));
	ASSERT_EQ(0, ioctl(dmabuf, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &sync));
	ASSERT_CU(import_semaphore(&s, sync.fd, false));
	EXPECT_FALSE(is_open(sync.fd));
	ASSERT_CU(await_semaphore(s, 0, self->a));
	EXPECT_TRUE(stays_busy(self->a));
	EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, raise_semaphore(s, 0, self->b));
	ASSERT_EQ(0, vgem_signal(card, fence));
	EXPECT_CU(cuStreamSynchronize(self->a));
	ASSERT_CU(await_semaphore(s, 0, self->a));
	EXPECT_CU(cuStreamSynchronize(self->a));
	EXPECT_CU(cuDestroyExternalSemaphore(s));
	EXPECT_EQ(0, vgem_close(card, handle));
	close(card);
	close(dmabuf);
	EXPECT_CU(cuMemFree(p));
}

TEST_HARNESS_MAIN
