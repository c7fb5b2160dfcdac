// SPDX-License-Identifier: GPL-2.0
/*
 * Waits in streams: for words of memory, functions of the program, events of other processes.
 *
 * The conformance program compares the results of single calls with the recorded driver's.  This
 * one checks order and contents with many streams and threads at a time, what happens when a
 * process dies, and that nothing is left.
 */
#include <pthread.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "cuda_util.h"

#define MANY	16

FIXTURE(async)
{
	CUcontext ctx;
	CUstream s, t;
	volatile __u32 *word;		/* pinned, 4096 bytes of zeroes */
	CUdeviceptr dword;
};

FIXTURE_SETUP(async)
{
	cuda_begin(_metadata, &self->ctx);
	ASSERT_CU(cuStreamCreate(&self->s, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuStreamCreate(&self->t, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuMemHostAlloc((void **)&self->word, 4096, 0));
	memset((void *)self->word, 0, 4096);
	self->dword = (uintptr_t)self->word;
}

QUIET_AFTERWARDS(async)

static void set(volatile __u32 *word, __u32 value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static __u32 get(volatile __u32 *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* --- words */

/* Work behind a wait runs after the word is written; work before a write is visible with it. */
TEST_F(async, words_order_streams)
{
	enum { ROUNDS = 50 };
	unsigned char host[256];
	CUdeviceptr d, e;

	ASSERT_CU(cuMemAlloc(&d, 256));
	ASSERT_CU(cuMemAlloc(&e, 256));
	ASSERT_CU(cuMemsetD8(e, 0, 256));
	ASSERT_CU(cuCtxSynchronize());
	for (unsigned int i = 1; i <= ROUNDS; i++) {
		ASSERT_CU(cuStreamWaitValue32(self->t, self->dword, i, CU_STREAM_WAIT_VALUE_EQ));
		ASSERT_CU(cuMemcpyDtoDAsync(e, d, 256, self->t));
		ASSERT_CU(cuStreamWriteValue32(self->t, self->dword + 64, i, 0));
		ASSERT_CU(cuMemsetD8Async(d, i, 256, self->s));
		ASSERT_CU(cuStreamWriteValue32(self->s, self->dword, i, 0));
		ASSERT_CU(cuStreamWaitValue32(self->s, self->dword + 64, i,
					      CU_STREAM_WAIT_VALUE_GEQ));
	}
	ASSERT_CU(cuStreamSynchronize(self->s));
	ASSERT_CU(cuStreamSynchronize(self->t));
	ASSERT_CU(cuMemcpyDtoH(host, e, 256));
	EXPECT_TRUE(all_are(host, ROUNDS, 256));
	EXPECT_EQ(ROUNDS, get(self->word + 16));
}

TEST_F(async, words_of_every_memory)
{
	static __u64 registered[512] __attribute__((aligned(4096)));
	CUdeviceptr d, where[3];
	__u64 back;

	ASSERT_CU(cuMemAlloc(&d, 4096));
	ASSERT_CU(cuMemsetD8(d, 0, 4096));
	/* The non-blocking streams below do not wait for the fill. */
	ASSERT_CU(cuCtxSynchronize());
	ASSERT_CU(cuMemHostRegister(registered, sizeof(registered), 0));
	where[0] = d;
	where[1] = self->dword;
	where[2] = (uintptr_t)registered;
	for (unsigned int i = 0; i < 3; i++) {
		EXPECT_CU(cuStreamWaitValue64(self->s, where[i] + 8, 1ULL << 63,
					      CU_STREAM_WAIT_VALUE_AND));
		EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(self->s));
		EXPECT_CU(cuStreamWriteValue64(self->t, where[i] + 8, (1ULL << 63) + i, 0));
		EXPECT_CU(cuStreamSynchronize(self->s));
		EXPECT_CU(cuMemcpyDtoH(&back, where[i] + 8, 8));
		EXPECT_EQ((1ULL << 63) + i, back);
		EXPECT_EQ(INVALID, cuStreamWriteValue32(self->s, where[i] + 4096, 0, 0));
	}
	EXPECT_CU(cuMemHostUnregister(registered));
}

/* A list is checked as a whole and executed in order. */
TEST_F(async, batch)
{
	CUstreamBatchMemOpParams ops[255];

	memset(ops, 0, sizeof(ops));
	for (unsigned int i = 0; i < 255; i++) {
		ops[i].operation = i % 2 ? CU_STREAM_MEM_OP_WAIT_VALUE_32 :
			CU_STREAM_MEM_OP_WRITE_VALUE_32;
		ops[i].writeValue.address = self->dword + 4;
		ops[i].writeValue.value = i / 2 + 1;
		if (i % 2)
			ops[i].waitValue.flags = CU_STREAM_WAIT_VALUE_EQ;
	}
	ASSERT_CU(cuStreamBatchMemOp(self->s, 255, ops, 0));
	ASSERT_CU(cuStreamSynchronize(self->s));
	EXPECT_EQ(128, get(self->word + 1));
	/* The stream is held, so that the list goes through the ring. */
	ASSERT_CU(cuStreamWaitValue32(self->s, self->dword, 1, CU_STREAM_WAIT_VALUE_EQ));
	ASSERT_CU(cuStreamBatchMemOp(self->s, 200, ops, 0));
	EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(self->s));
	EXPECT_EQ(128, get(self->word + 1));
	set(self->word, 1);
	ASSERT_CU(cuStreamSynchronize(self->s));
	EXPECT_EQ(100, get(self->word + 1));
	ops[100].writeValue.address += 2;
	EXPECT_EQ(INVALID, cuStreamBatchMemOp(self->s, 200, ops, 0));
	ASSERT_CU(cuStreamSynchronize(self->s));
	EXPECT_EQ(100, get(self->word + 1));
}

/* A stream that waits for ever can be destroyed, and its process can end. */
TEST_F(async, held_at_exit)
{
	CUstream s;

	for (unsigned int i = 0; i < MANY; i++) {
		ASSERT_CU(cuStreamCreate(&s, i % 2 ? CU_STREAM_NON_BLOCKING : 0));
		ASSERT_CU(cuStreamWaitValue32(s, self->dword, 1, CU_STREAM_WAIT_VALUE_EQ));
		ASSERT_CU(cuStreamDestroy(s));
	}
}

/* --- functions */

struct ran {
	pthread_mutex_t lock;
	unsigned int count, order[1000];
};

static struct ran ran = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void CUDA_CB note(void *arg)
{
	pthread_mutex_lock(&ran.lock);
	ran.order[ran.count++ % 1000] = (uintptr_t)arg;
	pthread_mutex_unlock(&ran.lock);
}

/* The functions of each stream run in the order of the calls. */
TEST_F(async, functions_in_order)
{
	enum { EACH = 40 };
	CUstream s[4];
	unsigned int next[4] = { 0 };

	for (unsigned int i = 0; i < 4; i++)
		ASSERT_CU(cuStreamCreate(&s[i], i ? CU_STREAM_NON_BLOCKING : 0));
	for (unsigned int n = 0; n < EACH; n++)
		for (unsigned int i = 0; i < 4; i++)
			ASSERT_CU(cuLaunchHostFunc(s[i], note, (void *)(uintptr_t)(n * 4 + i)));
	ASSERT_CU(cuCtxSynchronize());
	ASSERT_EQ(4 * EACH, ran.count);
	for (unsigned int k = 0; k < ran.count; k++) {
		unsigned int i = ran.order[k] % 4;

		EXPECT_EQ(next[i]++, ran.order[k] / 4);
	}
}

/* Both ways to wait for functions keep their order, among functions without a way, too. */
TEST_F(async, functions_with_modes)
{
	CUstreamBatchMemOpParams op = { .operation = CU_STREAM_MEM_OP_ATOMIC_REDUCTION };
	int reduces = -1;

	for (unsigned int n = 0; n < 90; n++)
		ASSERT_CU(n % 3 == 2 ? cuLaunchHostFunc(self->s, note, (void *)(uintptr_t)n) :
			  cuLaunchHostFunc_v2(self->s, note, (void *)(uintptr_t)n,
					      n % 3 ? CU_HOST_TASK_SPINWAIT : CU_HOST_TASK_BLOCKING));
	EXPECT_EQ(INVALID, cuLaunchHostFunc_v2(self->s, NULL, NULL, CU_HOST_TASK_BLOCKING));
	EXPECT_EQ(INVALID, cuLaunchHostFunc_v2(self->s, note, NULL, CU_HOST_TASK_SPINWAIT + 1));
	EXPECT_EQ(INVALID, cuLaunchHostFunc_v2(self->s, note, NULL, ~0u));
	ASSERT_CU(cuStreamSynchronize(self->s));
	ASSERT_EQ(90, ran.count);
	for (unsigned int n = 0; n < 90; n++)
		EXPECT_EQ(n, ran.order[n]);
	/* The functions of threads' own streams. */
	EXPECT_CU(cuLaunchHostFunc_v2_ptsz(NULL, note, NULL, CU_HOST_TASK_SPINWAIT));
	EXPECT_CU(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	EXPECT_EQ(91, ran.count);
	/* Reductions of memory are refused, as the attribute says. */
	EXPECT_CU(cuDeviceGetAttribute(&reduces, CU_DEVICE_ATTRIBUTE_ATOMIC_REDUCTION_SUPPORTED, 0));
	EXPECT_EQ(0, reduces);
	op.atomicReduction.address = self->dword;
	op.atomicReduction.dataType = CU_STREAM_ATOMIC_REDUCTION_UNSIGNED_32;
	op.atomicReduction.value = 1;
	EXPECT_EQ(CUDA_ERROR_NOT_SUPPORTED, cuStreamBatchMemOp(self->s, 1, &op, 0));
	EXPECT_CU(cuStreamSynchronize(self->s));
	EXPECT_EQ(0, get(self->word));
}

struct look {
	const unsigned char *memory;
	bool right;
	unsigned char value;
};

static void CUDA_CB look(void *arg)
{
	struct look *l = arg;

	l->right = all_are(l->memory, l->value, 4096);
}

TEST_F(async, functions_between_copies)
{
	unsigned char *pinned;
	struct look looks[100];
	CUdeviceptr d;

	ASSERT_CU(cuMemAlloc(&d, 4096));
	ASSERT_CU(cuMemHostAlloc((void **)&pinned, 4096, 0));
	for (unsigned int i = 0; i < 100; i++) {
		looks[i] = (struct look){ .memory = pinned, .value = i + 1 };
		ASSERT_CU(cuMemsetD8Async(d, i + 1, 4096, self->s));
		ASSERT_CU(cuMemcpyDtoHAsync(pinned, d, 4096, self->s));
		ASSERT_CU(cuLaunchHostFunc(self->s, look, &looks[i]));
	}
	ASSERT_CU(cuStreamSynchronize(self->s));
	for (unsigned int i = 0; i < 100; i++) {
		EXPECT_TRUE(looks[i].right) {
			TH_LOG("look %u", i);
		}
	}
}

/* A function may write the word that another stream waits for. */
static void CUDA_CB release(void *arg)
{
	set(arg, 1);
}

TEST_F(async, function_releases_a_stream)
{
	CUevent event;

	ASSERT_CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	ASSERT_CU(cuStreamWaitValue32(self->s, self->dword, 1, CU_STREAM_WAIT_VALUE_EQ));
	ASSERT_CU(cuEventRecord(event, self->s));
	ASSERT_CU(cuLaunchHostFunc(self->t, release, (void *)self->word));
	ASSERT_CU(cuEventSynchronize(event));
	EXPECT_EQ(1, get(self->word));
}

/* The calls that a function in stream @s makes, and their results. */
struct inside {
	CUstream s, to;
	CUevent event;
	CUdeviceptr d;
	unsigned int most, done, submitted;
	bool copies;
	volatile __u32 go, over;
	CUresult result, sync, event_sync;
};

static void CUDA_CB fill_inside(void *arg)
{
	struct inside *in = arg;

	while (!get(&in->go))
		usleep(1000);
	while (!in->result && in->done < in->most) {
		if (in->copies)
			in->result = cuMemcpyDtoDAsync(in->d, in->d + 64, 8, in->to);
		else
			in->result = cuMemsetD8Async(in->d + in->done % 64, in->done % 251, 1,
						     in->to);
		in->done += !in->result;
	}
	if (in->event) {
		in->sync = cuStreamSynchronize(in->s);
		in->event_sync = cuEventSynchronize(in->event);
	}
	set(&in->over, 1);
}

static void *submit_behind(void *arg)
{
	struct inside *in = arg;

	for (unsigned int i = 0; i < in->submitted; i++)
		if (cuMemsetD8Async(in->d + 64, 1, 1, in->s))
			return arg;
	return NULL;
}

static bool over(struct inside *in)
{
	for (int i = 0; i < 3000 && !get(&in->over); i++)
		usleep(10000);
	return get(&in->over);
}

/* A call by a function is not permitted if it would wait for the function itself. */
TEST_F(async, function_would_wait_for_itself)
{
	struct inside in = { .s = self->s, .most = 2 * RING_DEPTH };
	CUstream own[2] = { self->s, self->t };
	pthread_t thread;
	void *bad;

	ASSERT_CU(cuMemAlloc(&in.d, 128));
	ASSERT_CU(cuMemsetD8Async(in.d, 0, 128, self->s));
	ASSERT_CU(cuEventCreate(&in.event, CU_EVENT_DISABLE_TIMING));
	/* The function submits to its own stream, and then to one that waits for it. */
	for (int i = 0; i < 2; i++) {
		in.to = own[i];
		in.result = CUDA_SUCCESS;
		in.go = in.over = in.done = 0;
		ASSERT_CU(cuLaunchHostFunc(self->s, fill_inside, &in));
		ASSERT_CU(cuEventRecord(in.event, self->s));
		ASSERT_CU(cuStreamWaitEvent(self->t, in.event, 0));
		set(&in.go, 1);
		ASSERT_TRUE(over(&in));
		EXPECT_EQ(CUDA_ERROR_NOT_PERMITTED, in.result);
		EXPECT_LT(100, in.done);
		EXPECT_EQ(CUDA_ERROR_NOT_PERMITTED, in.sync);
		EXPECT_EQ(CUDA_ERROR_NOT_PERMITTED, in.event_sync);
		ASSERT_CU(cuStreamSynchronize(self->s));
		ASSERT_CU(cuStreamSynchronize(self->t));
	}
	/* Meanwhile another thread submits to the stream and waits for room in its ring. */
	in.to = self->s;
	in.submitted = RING_DEPTH + 150;
	for (int i = 0; i < 2; i++) {
		in.copies = i;
		in.result = CUDA_SUCCESS;
		in.go = in.over = in.done = 0;
		ASSERT_CU(cuLaunchHostFunc(self->s, fill_inside, &in));
		ASSERT_CU(cuEventRecord(in.event, self->s));
		ASSERT_EQ(0, pthread_create(&thread, NULL, submit_behind, &in));
		usleep(100000);
		set(&in.go, 1);
		ASSERT_TRUE(over(&in));
		EXPECT_EQ(CUDA_ERROR_NOT_PERMITTED, in.result);
		EXPECT_EQ(CUDA_ERROR_NOT_PERMITTED, in.sync);
		ASSERT_EQ(0, pthread_join(thread, &bad));
		EXPECT_EQ(NULL, bad);
		ASSERT_CU(cuStreamSynchronize(self->s));
	}
}

/* A function may wait for other work, however much it submits. */
TEST_F(async, function_waits_for_others)
{
	struct inside in = { .s = self->s, .to = self->t, .most = RING_DEPTH + 1000, .go = 1 };
	unsigned char host[64];

	ASSERT_CU(cuMemAlloc(&in.d, 128));
	ASSERT_CU(cuStreamWaitValue32(self->t, self->dword, 1, CU_STREAM_WAIT_VALUE_EQ));
	ASSERT_CU(cuLaunchHostFunc(self->s, fill_inside, &in));
	usleep(100000);
	EXPECT_EQ(0, get(&in.over));
	set(self->word, 1);
	ASSERT_TRUE(over(&in));
	EXPECT_CU(in.result);
	EXPECT_EQ(in.most, in.done);
	ASSERT_CU(cuStreamSynchronize(self->t));
	ASSERT_CU(cuMemcpyDtoH(host, in.d, 64));
	for (unsigned int i = in.most - 64; i < in.most; i++)
		EXPECT_EQ(i % 251, host[i % 64]);
}

static void *submit(void *arg)
{
	CUstream *s = arg;

	for (unsigned int i = 0; i < 50; i++)
		if (cuLaunchHostFunc(*s, note, NULL))
			return arg;
	return cuStreamSynchronize(*s) ? arg : NULL;
}

TEST_F(async, functions_of_threads)
{
	pthread_t threads[4];
	CUstream s[4];
	void *bad;

	for (unsigned int i = 0; i < 4; i++) {
		ASSERT_CU(cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, submit, &s[i]));
	}
	for (unsigned int i = 0; i < 4; i++) {
		ASSERT_EQ(0, pthread_join(threads[i], &bad));
		EXPECT_EQ(NULL, bad);
	}
	EXPECT_EQ(200, ran.count);
}

static CUresult told[2];
static unsigned int calls;

static void CUDA_CB on_call(CUstream stream, CUresult status, void *arg)
{
	(void)stream;
	if (status)
		usleep(50000);
	told[(uintptr_t)arg] = status;
	__atomic_fetch_add(&calls, 1, __ATOMIC_RELEASE);
}

/* Work fails: functions are skipped, callbacks receive the error. */
TEST_F(async, after_failure)
{
	CUdeviceptr d;
	int fd;

	ASSERT_CU(cuMemAlloc(&d, 4 * MIB));
	told[1] = CUDA_ERROR_UNKNOWN;
	ASSERT_CU(cuStreamWaitValue32(self->s, self->dword, 1, CU_STREAM_WAIT_VALUE_EQ));
	ASSERT_CU(cuStreamAddCallback(self->s, on_call, (void *)0, 0));
	ASSERT_CU(cuMemsetD8Async(d, 1, 4 * MIB, self->s));
	ASSERT_CU(cuLaunchHostFunc(self->s, note, NULL));
	ASSERT_CU(cuStreamAddCallback(self->s, on_call, (void *)1, 0));
	/* Behind the library's back: the memory leaves the devices' address space. */
	ASSERT_EQ(1, node_fds(&fd));
	{
		struct gpumem_vm_unmap unmap = {
			.size = sizeof(unmap), .addr = d, .length = 4 * MIB,
		};

		for (unmap.vm = 1; unmap.vm < 64; unmap.vm++)
			if (!gp_ioctl(fd, GPUMEM_VM_UNMAP, &unmap) && unmap.unmapped)
				break;
		ASSERT_EQ(4 * MIB, unmap.unmapped);
	}
	set(self->word, 1);
	EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuStreamSynchronize(self->s));
	/* The wait covers both callbacks, slow as they are. */
	EXPECT_EQ(2, __atomic_load_n(&calls, __ATOMIC_ACQUIRE));
	EXPECT_EQ(CUDA_SUCCESS, told[0]);
	EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, told[1]);
	EXPECT_EQ(0, ran.count);
	EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuMemAlloc(&d, 1));
}

/* The library has no capture, but keeps each thread's capture mode. */
TEST_F(async, capture_mode)
{
	CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;

	EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuThreadExchangeStreamCaptureMode(NULL));
	EXPECT_CU(cuThreadExchangeStreamCaptureMode(&mode));
	EXPECT_EQ(CU_STREAM_CAPTURE_MODE_GLOBAL, mode);
	EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuThreadExchangeStreamCaptureMode(NULL));
	EXPECT_CU(cuThreadExchangeStreamCaptureMode(&mode));
	EXPECT_EQ(CU_STREAM_CAPTURE_MODE_RELAXED, mode);
	/* As on the H200, an unknown mode is accepted but not kept. */
	mode = 99;
	EXPECT_CU(cuThreadExchangeStreamCaptureMode(&mode));
	EXPECT_EQ(CU_STREAM_CAPTURE_MODE_GLOBAL, mode);
	EXPECT_CU(cuThreadExchangeStreamCaptureMode(&mode));
	EXPECT_EQ(CU_STREAM_CAPTURE_MODE_GLOBAL, mode);
}

/* --- contexts as a whole */

TEST_F(async, context_events)
{
	CUevent event;
	CUstream more;

	ASSERT_CU(cuEventCreate(&event, 0));
	ASSERT_CU(cuStreamWaitValue32(self->s, self->dword, 1, CU_STREAM_WAIT_VALUE_EQ));
	ASSERT_CU(cuCtxRecordEvent(self->ctx, event));
	EXPECT_EQ(CUDA_ERROR_NOT_READY, cuEventQuery(event));
	EXPECT_CU(cuStreamQuery(self->t));
	/* All streams wait now. */
	ASSERT_CU(cuCtxWaitEvent(self->ctx, event));
	EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(self->t));
	/* A stream that is created later does not wait. */
	ASSERT_CU(cuStreamCreate(&more, CU_STREAM_NON_BLOCKING));
	EXPECT_CU(cuMemsetD32Async(self->dword + 4, 7, 1, more));
	EXPECT_CU(cuStreamSynchronize(more));
	EXPECT_CU(cuStreamDestroy(more));
	set(self->word, 1);
	EXPECT_CU(cuStreamSynchronize(self->t));
	EXPECT_CU(cuEventSynchronize(event));
}

/* --- events of other processes */

struct shared {
	CUipcEventHandle handle;
	CUipcMemHandle memory;
	CUresult result;
};

/* The child's main(): it talks through @sock.  It is forked before any call of cuInit(). */
static int event_child(int sock, int how)
{
	struct shared m;
	volatile __u32 *word;
	CUevent event;
	CUcontext ctx;
	CUdeviceptr d;
	CUstream s;
	char c;

	if (read(sock, &m, sizeof(m)) != sizeof(m) || cuda_start(&ctx) ||
	    cuIpcOpenEventHandle(&event, m.handle) ||
	    cuIpcOpenMemHandle(&d, m.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) ||
	    cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) ||
	    cuMemHostAlloc((void **)&word, 4096, 0))
		return 1;
	set(word, 0);
	switch (how) {
	case 0:		/* wait for the parent's work, then go on with the memory */
		if (cuStreamWaitEvent(s, event, 0) || cuMemsetD8Async(d, 2, 2048, s) ||
		    cuEventRecord(event, s) || write(sock, "r", 1) != 1)
			return 2;
		return cuStreamSynchronize(s) ? 3 : 0;
	case 1:		/* record behind a wait that never ends, and die */
		if (cuStreamWaitValue32(s, (uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ) ||
		    cuEventRecord(event, s) || write(sock, "r", 1) != 1)
			return 2;
		if (read(sock, &c, 1) != 1)
			return 3;
		kill(getpid(), SIGKILL);
		return 4;
	default:	/* wait for the exporter, which dies */
		m.result = cuStreamWaitEvent(s, event, 0);
		if (write(sock, "r", 1) != 1)
			return 2;
		m.result = m.result ? m.result : cuStreamSynchronize(s);
		return m.result == CUDA_ERROR_LAUNCH_FAILED &&
			cuEventSynchronize(event) == CUDA_ERROR_LAUNCH_FAILED ? 0 : 5;
	}
}

/* A fixture without a context: the child is forked before cuInit(). */
FIXTURE(events)
{
	int sock;
	pid_t child;
};

FIXTURE_VARIANT(events)
{
	int how;
};

FIXTURE_VARIANT_ADD(events, both_record) { .how = 0 };
FIXTURE_VARIANT_ADD(events, recorder_dies) { .how = 1 };
FIXTURE_VARIANT_ADD(events, exporter_dies) { .how = 2 };

FIXTURE_SETUP(events)
{
	pid_t child;
	int pair[2];

	ASSERT_TRUE(dev_quiet(10));
	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
	child = fork();
	ASSERT_LE(0, child);
	if (!child) {
		close(pair[0]);
		_exit(event_child(pair[1], variant->how));
	}
	/* The fixture is memory that processes share. */
	self->child = child;
	close(pair[1]);
	self->sock = pair[0];
}

QUIET_AFTERWARDS(events)

static int child_status(pid_t pid)
{
	int status;

	if (waitpid(pid, &status, 0) != pid)
		return -1000;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* The exporter is a process of its own, so that it can be killed. */
static int exporter(void *arg)
{
	volatile __u32 *word;
	struct shared m = { .result = 0 };
	CUevent event;
	CUcontext ctx;
	CUdeviceptr d;
	CUstream s;
	int sock = *(int *)arg;
	char c;

	if (cuda_start(&ctx) || cuMemAlloc(&d, 4096) || cuIpcGetMemHandle(&m.memory, d) ||
	    cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) ||
	    cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING) ||
	    cuIpcGetEventHandle(&m.handle, event) || cuMemHostAlloc((void **)&word, 4096, 0))
		return 1;
	set(word, 0);
	if (cuStreamWaitValue32(s, (uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ) ||
	    cuEventRecord(event, s) || write(sock, &m, sizeof(m)) != sizeof(m) ||
	    read(sock, &c, 1) != 1)
		return 2;
	kill(getpid(), SIGKILL);
	return 3;
}

TEST_F(events, life)
{
	unsigned char host[4096];
	volatile __u32 *word;
	struct shared m = { .result = 0 };
	CUevent event;
	CUcontext ctx;
	CUdeviceptr d;
	CUstream s, t;
	char c;

	if (variant->how == 2) {
		EXPECT_EQ(-SIGKILL, run_child(exporter, &self->sock));
		EXPECT_EQ(0, child_status(self->child));
		return;
	}
	ASSERT_CU(cuda_start(&ctx));
	ASSERT_CU(cuMemAlloc(&d, 4096));
	ASSERT_CU(cuIpcGetMemHandle(&m.memory, d));
	ASSERT_CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuMemHostAlloc((void **)&word, 4096, 0));
	set(word, 0);
	ASSERT_CU(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	/* The record is queued before the event has a handle, and completes long after. */
	ASSERT_CU(cuStreamWaitValue32(s, (uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ));
	ASSERT_CU(cuMemsetD8Async(d, 1, 4096, s));
	ASSERT_CU(cuEventRecord(event, s));
	ASSERT_CU(cuIpcGetEventHandle(&m.handle, event));
	ASSERT_EQ(sizeof(m), write(self->sock, &m, sizeof(m)));
	ASSERT_EQ(1, read(self->sock, &c, 1));
	EXPECT_EQ(CUDA_ERROR_NOT_READY, cuEventQuery(event));
	if (variant->how == 0) {
		/* The child has recorded the event again: its work comes after this process's. */
		ASSERT_CU(cuStreamWaitEvent(t, event, 0));
		EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(t));
		set(word, 1);
		EXPECT_CU(cuStreamSynchronize(t));
		EXPECT_CU(cuEventSynchronize(event));
		EXPECT_EQ(0, child_status(self->child));
		EXPECT_CU(cuMemcpyDtoH(host, d, 4096));
		EXPECT_TRUE(all_are(host, 2, 2048));
		EXPECT_TRUE(all_are(host + 2048, 1, 2048));
		EXPECT_CU(cuEventQuery(event));
	} else {
		set(word, 1);
		ASSERT_EQ(1, write(self->sock, "k", 1));
		EXPECT_EQ(-SIGKILL, child_status(self->child));
		EXPECT_EQ(CUDA_ERROR_LAUNCH_FAILED, cuEventSynchronize(event));
		EXPECT_EQ(CUDA_ERROR_LAUNCH_FAILED, cuEventQuery(event));
		/* The failed event fails no stream, because no stream has waited for it. */
		EXPECT_CU(cuStreamSynchronize(s));
		ASSERT_CU(cuEventRecord(event, t));
		EXPECT_CU(cuEventSynchronize(event));
	}
	EXPECT_CU(cuEventDestroy(event));
}

int main(int argc, char **argv)
{
	return test_harness_run(argc, argv);
}
