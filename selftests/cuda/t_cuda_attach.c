// SPDX-License-Identifier: GPL-2.0
/* Tests attachments of managed memory: what they forbid, what gives access back, and their order. */
#include <pthread.h>
#include <setjmp.h>

#include "attach_fixture.h"

#include <cuda_runtime_api.h>

/* A row of the table of attachments. */
struct row {
	unsigned int attach;
	int works;			/* 0: the null stream; 1: the attached stream; 2: another */
	bool denied;
};

static struct row row;

/* --- the table */

static int row_child(void)
{
	CUstream streams[] = { NULL, s1, s2 };

	NEED_CU(begin());
	streams[1] = s1;
	streams[2] = s2;
	NEED_CU(attach(s1, row.attach));
	NEED_CU(cuStreamSynchronize(s1));
	touch();
	NEED_CU(hold(streams[row.works]));
	touch();
	gate_open(gate);
	NEED_CU(cuStreamSynchronize(streams[row.works]));
	touch();
	NEED(!system_call());
	return 0;
}

/* The same, but the CPU waits before it touches the memory. */
static int row_waits(void)
{
	CUstream streams[] = { NULL, s1, s2 };

	NEED_CU(begin());
	streams[1] = s1;
	streams[2] = s2;
	NEED_CU(attach(s1, row.attach));
	for (int i = 0; i < 3; i++) {
		NEED_CU(hold(streams[row.works]));
		NEED(system_call() == (row.denied ? EFAULT : 0));
		gate_open(gate);
		NEED_CU(cuStreamSynchronize(streams[row.works]));
		NEED(!system_call());
		touch();
	}
	return 0;
}

TEST_F(attach, table)
{
	const struct row rows[] = {
		{ GLOBAL, 0, true }, { GLOBAL, 1, true }, { GLOBAL, 2, true },
		{ HOST, 0, false }, { HOST, 1, false }, { HOST, 2, false },
		{ SINGLE, 0, false }, { SINGLE, 1, true }, { SINGLE, 2, false },
	};

	for (unsigned int i = 0; i < 2 * ARRAY_SIZE(rows); i++) {
		row = rows[i / 2];
		store = i % 2;
		ASSERT_TRUE(run(row_child));
		EXPECT_TRUE(!row.denied ? fine() :
			    denied(2, row.attach == SINGLE ? ", attached to one stream: stream " :
				   ", attached to all streams: stream ")) {
			TH_LOG("row %u", i / 2);
		}
		ASSERT_TRUE(run(row_waits));
		EXPECT_TRUE(fine()) {
			TH_LOG("row %u", i / 2);
		}
	}
}

static int line_wait(void)
{
	NEED_CU(begin());
	NEED_CU(hold(s2));
	touch();
	return 0;
}

static int line_fill(void)
{
	CUdeviceptr big;

	NEED_CU(begin());
	NEED_CU(cuMemAllocManaged(&big, 32 * MIB, GLOBAL));
	o->stream = s1;
	NEED_CU(cuStreamGetId(s1, &o->id));
	for (int i = 0; i < 64; i++)
		NEED_CU(cuMemsetD32Async(big, i, 8 * MIB, s1));
	touch();
	return 0;
}

static void *touch_thread(void *arg)
{
	touch();
	return arg;
}

static int line_thread(void)
{
	pthread_t thread;

	NEED_CU(begin());
	NEED_CU(hold(s2));
	pthread_create(&thread, NULL, touch_thread, NULL);
	pthread_join(thread, NULL);
	return 0;
}

/* The line names the stream, the operation and what it writes. */
TEST_F(attach, line)
{
	char want[200];

	ASSERT_TRUE(run(line_wait));
	snprintf(want, sizeof(want), " of %u bytes on device 0, attached to all streams: stream %p (id %llu) of "
		 "device 0 executes operation 0 (wait for a word)\n", SIZE, (void *)o->stream, o->id);
	EXPECT_TRUE(denied(1, want));
	DENIED(line_thread, 1, " executes operation 0 (wait for a word)\n");
	DENIED(line_fill, 1, " (fill to 0x");
	EXPECT_TRUE(denied(1, ", 33554432 bytes)\n"));
}

static int line_check(void)
{
	NEED(!setenv("GPUMEM_CHECK", "1", 1));
	NEED_CU(begin());
	NEED_CU(hold(s1));
	touch();
	/* Access was granted, so this is no second report. */
	touch();
	/* New work takes access away again. */
	NEED_CU(cuMemsetD8Async(dev, 1, SIZE, s1));
	touch();
	gate_open(gate);
	NEED_CU(cuStreamSynchronize(s1));
	touch();
	return 0;
}

/* With GPUMEM_CHECK=1 the access is reported, and succeeds. */
TEST_F(attach, check)
{
	static const char report[] = "gpumem-check: the CPU accessed managed memory while work may use it: ";
	const char *second;

	ASSERT_TRUE(run(line_check));
	EXPECT_TRUE(WIFEXITED(o->status) && !WEXITSTATUS(o->status));
	EXPECT_EQ(4, o->steps);
	EXPECT_EQ(0, strncmp(o->err, report, strlen(report)));
	ASSERT_NE(NULL, second = strchr(o->err, '\n'));
	EXPECT_EQ(0, strncmp(++second, report, strlen(report)));
	EXPECT_EQ(second + strlen(second) - 1, strchr(second, '\n'));
}

/* --- what gives access back */

static int by_event(void)
{
	CUevent event;

	NEED_CU(begin());
	NEED_CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	NEED_CU(hold(s1));
	NEED_CU(cuEventRecord(event, s1));
	NEED(system_call() == EFAULT);
	gate_open(gate);
	NEED_CU(cuEventSynchronize(event));
	NEED(!system_call());
	NEED_CU(hold(s1));
	NEED_CU(cuEventRecord(event, s1));
	NEED(system_call() == EFAULT);
	NEED(cuEventQuery(event) == CUDA_ERROR_NOT_READY);
	NEED(system_call() == EFAULT);
	gate_open(gate);
	while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
		nap_ms(1);
	NEED(!system_call());
	return 0;
}

/* Work ends unseen, then an event is recorded in the idle stream: the event's query or wait gives access. */
static int by_complete_event(void)
{
	CUipcEventHandle handle;
	CUevent event[2];

	NEED_CU(begin());
	NEED_CU(cuEventCreate(&event[0], CU_EVENT_DISABLE_TIMING));
	NEED_CU(cuEventCreate(&event[1], CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
	NEED_CU(cuIpcGetEventHandle(&handle, event[1]));
	for (int i = 0; i < 4; i++) {
		*mark = 0;
		NEED_CU(cuMemsetD8Async(o->p, 7, SIZE, s1));
		NEED_CU(cuStreamWriteValue32(s1, (uintptr_t)mark, 1, 0));
		NEED(!wait_silently());
		NEED(system_call() == EFAULT);
		NEED_CU(cuEventRecord(event[i % 2], s1));
		NEED_CU(i < 2 ? cuEventQuery(event[i % 2]) : cuEventSynchronize(event[i % 2]));
		NEED(!system_call());
	}
	return 0;
}

/* A stream that never had work is synchronized. */
static int by_unused_stream(void)
{
	NEED_CU(begin());
	NEED_CU(cuMemsetD8Async(o->p, 7, SIZE, s1));
	NEED_CU(cuStreamWriteValue32(s1, (uintptr_t)mark, 1, 0));
	NEED(!wait_silently());
	NEED(system_call() == EFAULT);
	NEED_CU(cuStreamSynchronize(s2));
	NEED(!system_call());
	return 0;
}

static int by_context(void)
{
	NEED_CU(begin());
	for (int i = 0; i < 3; i++) {
		NEED_CU(hold(s1));
		NEED_CU(cuMemsetD8Async(o->p, 7, SIZE, s1));
		NEED_CU(cuStreamWriteValue32(s1, (uintptr_t)mark, 1, 0));
		NEED(system_call() == EFAULT);
		gate_open(gate);
		/* Also if the work has ended before the call. */
		if (i == 1)
			NEED(!wait_silently());
		NEED_CU(i == 2 ? CUDA_SUCCESS : cuCtxSynchronize());
		if (i == 2)
			while (cuStreamQuery(s1) == CUDA_ERROR_NOT_READY)
				nap_ms(1);
		NEED(!system_call());
		NEED(cpu(o->p)[SIZE - 1] == 7);
		*mark = 0;
	}
	return 0;
}

/* A call that copies and waits. */
static int by_copy(void)
{
	unsigned char bytes[SIZE];

	NEED_CU(begin());
	NEED_CU(cuMemsetD8(o->p, 9, SIZE));
	NEED_CU(cuMemcpyDtoH(bytes, o->p, SIZE));
	NEED(!system_call());
	NEED(all_are(bytes, 9, SIZE) && all_are(cpu(o->p), 9, SIZE));
	memset(bytes, 3, SIZE);
	NEED_CU(cuMemcpyHtoD(o->p, bytes, SIZE));
	NEED(all_are(cpu(o->p), 3, SIZE));
	return 0;
}

/* Nobody has called the library: a page fault gives access, and a system call does not. */
static int by_fault(void)
{
	NEED_CU(begin());
	NEED_CU(hold(s1));
	NEED_CU(cuStreamWriteValue32(s1, (uintptr_t)mark, 1, 0));
	gate_open(gate);
	NEED(!wait_silently());
	NEED(system_call() == EFAULT);
	touch();
	NEED(!system_call());
	return 0;
}

TEST_F(attach, given_back)
{
	FINE(by_event);
	FINE(by_complete_event);
	FINE(by_unused_stream);
	FINE(by_context);
	FINE(by_copy);
	FINE(by_fault);
}

/* --- the program's own handler */

static sigjmp_buf back;

static void leave(int sig)
{
	(void)sig;
	o->handled++;
	siglongjmp(back, 1);
}

static int handler_before(void)
{
	signal(SIGSEGV, leave);
	NEED_CU(begin());
	NEED_CU(hold(s1));
	if (!sigsetjmp(back, 1)) {
		touch();
		return __LINE__;
	}
	NEED(o->handled == 1);
	gate_open(gate);
	NEED_CU(cuStreamSynchronize(s1));
	touch();
	NEED(o->handled == 1);
	return 0;
}

/* A handler that replaces the library's: synchronizing gives access all the same. */
static int handler_after(void)
{
	NEED_CU(begin());
	signal(SIGSEGV, leave);
	NEED_CU(hold(s1));
	if (!sigsetjmp(back, 1)) {
		touch();
		return __LINE__;
	}
	gate_open(gate);
	NEED_CU(cuStreamSynchronize(s1));
	touch();
	NEED(o->handled == 1);
	return 0;
}

/* The program protects managed memory itself. */
static int own_protection(void)
{
	NEED_CU(begin());
	NEED(!mprotect(cpu(o->p + 4096), 4096, PROT_NONE));
	touch();
	return 0;
}

TEST_F(attach, handlers)
{
	ASSERT_TRUE(run(handler_before));
	EXPECT_TRUE(WIFEXITED(o->status) && !WEXITSTATUS(o->status));
	EXPECT_TRUE(strstr(o->err, PREFIX) == o->err) {
		TH_LOG("%s", o->err);
	}
	FINE(handler_after);
	ASSERT_TRUE(run(own_protection));
	EXPECT_TRUE(WIFSIGNALED(o->status) && WTERMSIG(o->status) == SIGSEGV);
	EXPECT_STREQ("", o->err);
}

/* --- the order of changes */

/* The change to HOST is behind work. */
static int host_early(void)
{
	NEED_CU(begin());
	NEED_CU(hold(s1));
	NEED_CU(attach(s1, HOST));
	NEED(cuStreamQuery(s1) == CUDA_ERROR_NOT_READY);
	touch();
	return 0;
}

static int host_late(void)
{
	NEED_CU(begin());
	NEED_CU(hold(s1));
	NEED_CU(hold_for_ever(s2));
	NEED_CU(attach(s1, HOST));
	NEED(system_call() == EFAULT);
	gate_open(gate);
	NEED_CU(cuStreamSynchronize(s1));
	NEED(!system_call());
	touch();
	gate[32] = 1;
	return 0;
}

/* The change from HOST is behind work: until then the CPU has access, and then it has none. */
static int global_late(void)
{
	NEED_CU(begin_with(0, HOST));
	NEED_CU(hold(s1));
	NEED_CU(hold_for_ever(s2));
	NEED_CU(attach(s1, GLOBAL));
	NEED_CU(cuStreamWriteValue32(s1, (uintptr_t)mark, 1, 0));
	touch();
	NEED(!system_call());
	gate_open(gate);
	NEED(!wait_silently());
	NEED(system_call() == EFAULT);
	touch();
	return 0;
}

static int single_late(void)
{
	NEED_CU(begin_with(0, HOST));
	NEED_CU(hold(s1));
	NEED_CU(attach(s1, SINGLE));
	NEED_CU(cuStreamWriteValue32(s1, (uintptr_t)mark, 1, 0));
	NEED_CU(hold_for_ever(s1));
	touch();
	gate_open(gate);
	NEED(!wait_silently());
	touch();
	return 0;
}

/* From one stream to another, and back to all. */
static int moves(void)
{
	NEED_CU(begin());
	NEED_CU(attach(s1, SINGLE));
	NEED_CU(attach(s2, SINGLE));
	NEED_CU(hold(s1));
	touch();
	gate_open(gate);
	NEED_CU(cuStreamSynchronize(s1));
	NEED_CU(hold(s2));
	NEED(system_call() == EFAULT);
	gate_open(gate);
	NEED_CU(cuStreamSynchronize(s2));
	NEED_CU(hold_for_ever(s1));
	NEED(!system_call());
	NEED_CU(attach(s2, GLOBAL));
	NEED(system_call() == EFAULT);
	touch();
	return 0;
}

/* Many changes behind one gate: the last counts. */
static int many(void)
{
	NEED_CU(begin());
	NEED_CU(hold(s1));
	for (int i = 0; i < 300; i++)
		NEED_CU(attach(s1, (unsigned int []) { GLOBAL, SINGLE, HOST }[i % 3]));
	gate_open(gate);
	NEED_CU(cuStreamSynchronize(s1));
	NEED_CU(hold(s1));
	touch();
	gate_open(gate);
	NEED_CU(cuStreamSynchronize(s1));
	return 0;
}

/* The memory is freed before the change. */
static int freed(void)
{
	CUdeviceptr p;

	NEED_CU(begin());
	NEED_CU(cuMemAllocManaged(&p, 100, GLOBAL));
	NEED_CU(hold(s1));
	NEED_CU(cuStreamAttachMemAsync(s1, p, 100, SINGLE));
	NEED_CU(cuStreamAttachMemAsync(s1, o->p, SIZE, SINGLE));
	gate_open(gate);
	NEED_CU(cuMemFree(p));
	NEED_CU(cuMemAllocManaged(&p, 4096, HOST));
	for (int i = 0; i < 100; i++) {
		NEED_CU(cuMemsetD8Async(o->p, 5, SIZE, s1));
		NEED(all_are(cpu(p), 0, 4096));
		NEED_CU(cuMemFree(p));
		NEED_CU(cuMemAllocManaged(&p, 4096, HOST));
	}
	return 0;
}

TEST_F(attach, order)
{
	DENIED(host_early, 1, ", attached to all streams: ");
	FINE(host_late);
	DENIED(global_late, 2, ", attached to all streams: ");
	DENIED(single_late, 2, ", attached to one stream: ");
	DENIED(moves, 2, ", attached to all streams: ");
	FINE(many);
	FINE(freed);
}

/* --- several devices */

static int attribute_of(CUdevice device)
{
	int value = -1;

	cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, device);
	return value;
}

/* The first device has concurrent access, the second has not. */
static int two_concurrent(void)
{
	NEED_CU(begin());
	NEED(attribute_of(0) == 1 && attribute_of(1) == 0);
	NEED_CU(hold(s1));
	touch();
	NEED_CU(cuMemAllocManaged(&o->p, SIZE, GLOBAL));
	touch();
	NEED_CU(attach(s2, SINGLE));
	NEED_CU(hold_for_ever(s2));
	touch();
	gate_open(gate);
	gate[32] = 1;
	return 0;
}

static int two_exclusive(void)
{
	NEED_CU(begin_with(1, GLOBAL));
	NEED_CU(hold(s1));
	touch();
	return 0;
}

TEST_F(attach, devices)
{
	struct changed second;

	if (access("/dev/gpumem1", F_OK))
		SKIP(return, "there is one device");
	EXPECT_EQ(0, file_restore(&self->changed));
	ASSERT_TRUE(file_change(&second, "/sys/module/gpumem/parameters/concurrent_managed", "1,0"));
	EXPECT_EQ(1, dev_attr(0, "concurrent_managed"));
	EXPECT_EQ(0, dev_attr(1, "concurrent_managed"));
	FINE(two_concurrent);
	DENIED(two_exclusive, 1, " of device 1 executes ");
	EXPECT_EQ(0, file_restore(&second));
}

/* --- fork, threads, death */

/* A child has no managed memory.  Only the parent's memory that was out of reach gets a line. */
static int forked(void)
{
	int status;
	pid_t pid;

	NEED_CU(begin());
	cpu(o->p)[AT] = 6;
	pid = fork();
	if (!pid) {
		touch();
		_exit(0);
	}
	NEED(waitpid(pid, &status, 0) == pid);
	NEED(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	NEED(cpu(o->p)[AT] == 6);
	NEED_CU(hold(s1));
	pid = fork();
	if (!pid) {
		touch();
		_exit(0);
	}
	NEED(waitpid(pid, &status, 0) == pid);
	NEED(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
	gate_open(gate);
	NEED_CU(cuStreamSynchronize(s1));
	touch();
	return 0;
}

TEST_F(attach, fork)
{
	ASSERT_TRUE(run(forked));
	EXPECT_TRUE(WIFEXITED(o->status) && !WEXITSTATUS(o->status));
	EXPECT_TRUE(!strncmp(o->err, PREFIX, strlen(PREFIX)) &&
		    strstr(o->err, " on device 0: the process forked meanwhile\n")) {
		TH_LOG("%s", o->err);
	}
}

struct worker {
	pthread_t thread;
	unsigned char number;
	int failed;
};

/* A thread uses memory of its own, attached to a stream of its own, while others work. */
static void *use_own(void *arg)
{
	struct worker *w = arg;
	CUdeviceptr p;
	CUstream s;

	WORKER_CHECK(!cuCtxSetCurrent(ctx));
	WORKER_CHECK(!cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	WORKER_CHECK(!cuMemAllocManaged(&p, SIZE, HOST));
	WORKER_CHECK(!cuStreamAttachMemAsync(s, p, 0, SINGLE));
	for (int i = 0; i < 200; i++) {
		unsigned char fill = w->number + i;

		memset(cpu(p), ~fill, SIZE);
		WORKER_CHECK(!cuMemsetD8Async(p, fill, SIZE - 1, s));
		WORKER_CHECK(!cuStreamSynchronize(s));
		WORKER_CHECK(all_are(cpu(p), fill, SIZE - 1));
		WORKER_CHECK(cpu(p)[SIZE - 1] == (unsigned char)~fill);
	}
	WORKER_CHECK(!cuMemFree(p));
	WORKER_CHECK(!cuStreamDestroy(s));
	return NULL;
}

static int threads(void)
{
	struct worker w[4] = { 0 };

	NEED_CU(begin());
	NEED_CU(hold_for_ever(s2));
	for (unsigned int i = 0; i < ARRAY_SIZE(w); i++) {
		w[i].number = 50 * i;
		NEED(!pthread_create(&w[i].thread, NULL, use_own, &w[i]));
	}
	gate[32] = 1;
	for (unsigned int i = 0; i < ARRAY_SIZE(w); i++) {
		pthread_join(w[i].thread, NULL);
		if (w[i].failed)
			return w[i].failed;
	}
	return 0;
}

static int killed(void)
{
	NEED_CU(begin());
	NEED_CU(hold(s1));
	NEED_CU(attach(s1, SINGLE));
	NEED_CU(hold_for_ever(s2));
	kill(getpid(), SIGKILL);
	return 1;
}

TEST_F(attach, threads)
{
	FINE(threads);
	ASSERT_TRUE(run(killed));
	EXPECT_TRUE(WIFSIGNALED(o->status) && WTERMSIG(o->status) == SIGKILL);
}

/* --- memory */

/* Small allocations do not share what the CPU loses. */
static int neighbours(void)
{
	CUdeviceptr one, two;

	NEED_CU(begin());
	NEED_CU(cuMemAllocManaged(&one, 100, HOST));
	NEED_CU(cuMemAllocManaged(&two, 1, HOST));
	NEED_CU(hold(s1));
	for (int i = 0; i < 100; i++)
		cpu(one)[i] = i;
	*cpu(two) = 3;
	NEED(system_call() == EFAULT);
	gate_open(gate);
	NEED_CU(cuStreamSynchronize(s1));
	return 0;
}

/* Memory that is allocated while work runs belongs to all streams at once. */
static int allocated(void)
{
	CUdeviceptr large;

	NEED_CU(begin());
	NEED_CU(hold(s1));
	NEED_CU(cuMemAllocManaged(&large, 5 * MIB, HOST));
	memset(cpu(large), 3, 5 * MIB);
	NEED_CU(cuMemAllocManaged(&o->p, 5 * MIB, GLOBAL));
	touch();
	return 0;
}

/* Freed memory can be used again. */
static int again(void)
{
	CUdeviceptr p;

	NEED_CU(begin());
	for (int i = 0; i < 20; i++) {
		NEED_CU(cuMemAllocManaged(&p, i % 2 ? 3 * MIB : 20000, GLOBAL));
		NEED_CU(cuMemsetD8Async(p, 1, 20000, s1));
		NEED_CU(cuMemFree(p));
		NEED_CU(cuMemAllocManaged(&p, i % 2 ? 3 * MIB : 20000, GLOBAL));
		NEED(all_are(cpu(p), 0, 20000));
		NEED_CU(cuMemFree(p));
	}
	return 0;
}

/* Work of another context keeps the memory out of reach while it is freed. */
static int freed_beside(void)
{
	CUcontext other;
	CUdeviceptr p, q;
	CUstream s;

	NEED_CU(begin());
	NEED_CU(cuMemAllocManaged(&p, SIZE, GLOBAL));
	NEED_CU(cuMemsetD8(p, 1, SIZE));
	NEED_CU(cuCtxCreate(&other, NULL, 0, 0));
	NEED_CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	NEED_CU(hold_for_ever(s));
	NEED_CU(cuCtxSetCurrent(ctx));
	NEED(system_call() == EFAULT);
	NEED_CU(cuMemFree(p));
	NEED_CU(cuMemAllocManaged(&q, SIZE, HOST));
	NEED(p == q && all_are(cpu(q), 0, SIZE));
	gate[32] = 1;
	return 0;
}

TEST_F(attach, memory)
{
	struct changed managed;

	FINE(neighbours);
	DENIED(allocated, 1, " of 5242880 bytes on device 0, attached to all streams: ");
	FINE(again);
	FINE(freed_beside);
	/* Device memory takes the place of managed memory. */
	ASSERT_TRUE(file_change(&managed, "/sys/module/gpumem/parameters/managed", "0"));
	FINE(again);
	FINE(by_copy);
	DENIED(line_wait, 1, ", attached to all streams: ");
	EXPECT_EQ(0, file_restore(&managed));
}

/* --- calls */

static int host_refused(void)
{
	unsigned char bytes[SIZE] = { 1 };

	NEED_CU(begin_with(0, HOST));
	NEED(cuMemsetD8(o->p, 1, SIZE) == INVALID);
	NEED(cuMemsetD32Async(o->p + 4, 1, 8, s1) == INVALID);
	NEED(cuMemsetD2D8(o->p, 64, 1, 8, 8) == INVALID);
	NEED(cuMemcpyDtoD(dev, o->p, SIZE) == INVALID);
	NEED(cuMemcpyDtoDAsync(o->p, dev, 100, s1) == INVALID);
	NEED(cuMemcpyDtoH(bytes, o->p, SIZE) == INVALID);
	NEED(cuMemcpyHtoD(o->p, bytes, SIZE) == INVALID);
	/* As host memory it can be copied. */
	memset(cpu(o->p), 8, SIZE);
	NEED_CU(cuMemcpyHtoD(dev, cpu(o->p), SIZE));
	NEED_CU(cuMemcpyDtoH(bytes, dev, SIZE));
	NEED(all_are(bytes, 8, SIZE));
	NEED_CU(cuMemsetD8(dev, 2, SIZE));
	NEED_CU(cuMemcpyDtoH(cpu(o->p), dev, SIZE));
	NEED(all_are(cpu(o->p), 2, SIZE));
	NEED_CU(cuMemcpy(dev, o->p, SIZE));
	/* The calls that follow the change are allowed, although it has not happened yet. */
	NEED_CU(hold(s1));
	NEED_CU(attach(s1, SINGLE));
	NEED_CU(cuMemsetD8Async(o->p, 4, SIZE, s1));
	gate_open(gate);
	NEED_CU(cuStreamSynchronize(s1));
	NEED(all_are(cpu(o->p), 4, SIZE));
	NEED_CU(attach(s1, HOST));
	NEED(cuMemsetD8Async(o->p, 4, SIZE, s1) == INVALID);
	NEED_CU(attach(s1, GLOBAL));
	NEED_CU(cuMemsetD8(o->p, 5, SIZE));
	NEED(all_are(cpu(o->p), 5, SIZE));
	return 0;
}

static int undefined_calls(void)
{
	CUmemLocation here = { .type = CU_MEM_LOCATION_TYPE_DEVICE };
	CUmemLocation host = { .type = CU_MEM_LOCATION_TYPE_HOST };
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_MANAGED, .location = here };
	struct cudaDeviceProp prop;
	CUmemoryPool pool;
	size_t size = SIZE, first = 0;

	NEED_CU(begin());
	NEED(attribute_of(0) == 0);
	NEED(!cudaGetDeviceProperties(&prop, 0) && !prop.concurrentManagedAccess && prop.managedMemory);
	NEED(cuMemPrefetchAsync(o->p, SIZE, here, 0, s1) == CUDA_ERROR_INVALID_DEVICE);
	NEED(cuMemPrefetchAsync(o->p, SIZE, host, 0, s1) == CUDA_ERROR_INVALID_DEVICE);
	NEED(cuMemAdvise(o->p, SIZE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, here) == CUDA_ERROR_INVALID_DEVICE);
	NEED(cuMemAdvise(o->p, SIZE, CU_MEM_ADVISE_SET_ACCESSED_BY, here) == CUDA_ERROR_INVALID_DEVICE);
	NEED_CU(cuMemAdvise(o->p, SIZE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host));
	NEED_CU(cuMemAdvise(o->p, SIZE, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
	NEED(cuMemPrefetchBatchAsync(&o->p, &size, 1, &here, &first, 1, 0, s1) == CUDA_ERROR_NOT_SUPPORTED);
	NEED(cuMemDiscardBatchAsync(&o->p, &size, 1, 0, s1) == CUDA_ERROR_NOT_SUPPORTED);
	NEED(cuMemPoolCreate(&pool, &props) == CUDA_ERROR_NOT_SUPPORTED);
	return 0;
}

static int bad_arguments(void)
{
	CUdeviceptr p;
	void *memory;

	NEED_CU(begin());
	p = o->p;
	NEED(cuStreamAttachMemAsync(s1, p, SIZE - 1, SINGLE) == INVALID);
	NEED(cuStreamAttachMemAsync(s1, p, 12288, SINGLE) == INVALID);
	NEED(cuStreamAttachMemAsync(s1, p + 1, 0, SINGLE) == INVALID);
	NEED(cuStreamAttachMemAsync(s1, p, 0, 3) == INVALID);
	NEED(cuStreamAttachMemAsync(s1, dev, 0, GLOBAL) == INVALID);
	NEED(cuStreamAttachMemAsync(NULL, p, 0, SINGLE) == INVALID);
	NEED_CU(cuStreamAttachMemAsync(CU_STREAM_LEGACY, p, SIZE, SINGLE));
	NEED_CU(cuStreamAttachMemAsync(CU_STREAM_PER_THREAD, p, SIZE, SINGLE));
	NEED_CU(hold(NULL));
	touch();
	gate_open(gate);
	NEED_CU(cuCtxSynchronize());
	NEED_CU(hold(CU_STREAM_PER_THREAD));
	NEED(system_call() == EFAULT);
	gate_open(gate);
	NEED_CU(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	NEED(!system_call());
	/* The runtime API. */
	NEED(cudaMallocManaged(&memory, 5000, cudaMemAttachHost) == cudaSuccess);
	o->p = (uintptr_t)memory;
	NEED_CU(hold(s2));
	NEED(!system_call());
	NEED(cudaStreamAttachMemAsync(s1, memory, 0, cudaMemAttachGlobal) == cudaSuccess);
	NEED(system_call() == EFAULT);
	NEED(cudaStreamAttachMemAsync(s1, memory, 0, cudaMemAttachSingle) == cudaSuccess);
	NEED(!system_call());
	gate_open(gate);
	NEED(cudaStreamAttachMemAsync(0, memory, 0, cudaMemAttachSingle) == cudaErrorInvalidValue);
	NEED(cudaDeviceSynchronize() == cudaSuccess);
	NEED(cudaFree(memory) == cudaSuccess);
	return 0;
}

/* With the parameter's default all this changes nothing. */
static int concurrent(void)
{
	NEED_CU(begin());
	NEED(attribute_of(0) == 1);
	NEED_CU(attach(s1, SINGLE));
	NEED_CU(hold(s1));
	touch();
	NEED(!system_call());
	NEED_CU(attach(s1, HOST));
	NEED_CU(cuMemsetD8Async(o->p, 1, SIZE, s1));
	gate_open(gate);
	NEED_CU(cuStreamSynchronize(s1));
	return 0;
}

TEST_F(attach, calls)
{
	FINE(host_refused);
	FINE(undefined_calls);
	FINE(bad_arguments);
	EXPECT_EQ(0, file_restore(&self->changed));
	FINE(concurrent);
}

TEST_HARNESS_MAIN
