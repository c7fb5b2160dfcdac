// SPDX-License-Identifier: GPL-2.0
/*
 * Tests attachments of managed memory on devices without concurrent managed access (module parameter
 * concurrent_managed).  Work that waits behind a gate keeps streams busy.  An access by the CPU that the
 * attachment forbids ends the process with SIGSEGV and one line on standard error.
 *
 * Each scene runs in a child that calls cuInit() itself.  A child returns 0, or the number of the line
 * that failed.
 */
#include <pthread.h>
#include <setjmp.h>
#include <sys/wait.h>

#include "kselftest_harness.h"
#include "cuda_case_util.h"

#include <cuda_runtime_api.h>

#define PREFIX	"gpumem: the CPU cannot access managed memory while work may use it: "
#define SIZE	10000u
#define AT	5000u			/* offset of the byte that children touch */

enum { GLOBAL = CU_MEM_ATTACH_GLOBAL, HOST = CU_MEM_ATTACH_HOST, SINGLE = CU_MEM_ATTACH_SINGLE };

/* What a child leaves behind.  It may die at any time, so this is shared memory. */
struct outcome {
	CUdeviceptr p;
	CUstream stream;
	unsigned long long id;		/* of @stream */
	unsigned int steps, handled;
	int status;
	char err[4096];
};

/* A row of the table of attachments. */
struct row {
	unsigned int attach;
	int works;			/* 0: the null stream; 1: the attached stream; 2: another */
	bool denied;
};

static struct outcome *o;
static struct row row;
static bool store;			/* the child writes instead of reading */

/* The state of a child. */
static CUcontext ctx;
static CUstream s1, s2;
static CUdeviceptr dev;
static volatile cuuint32_t *gate, *mark;

#define NEED(cond)	do { if (!(cond)) return __LINE__; } while (0)
#define NEED_CU(call)	do {								\
	CUresult result_ = (call);							\
	if (result_) {									\
		fprintf(stderr, "line %d: error %d\n", __LINE__, result_);		\
		return __LINE__;							\
	}										\
} while (0)

static void run_scene(int (*fn)(void))
{
	int line = fn();

	if (line)
		fprintf(stderr, "line %d\n", line);
	_exit(!!line);
}

static bool run(int (*fn)(void))
{
	size_t length = 0;
	int pipes[2];
	ssize_t n;
	pid_t pid;

	if (!o)
		o = mmap(NULL, sizeof(*o), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (o == MAP_FAILED || pipe2(pipes, O_CLOEXEC))
		return false;
	memset(o, 0, sizeof(*o));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(pipes[1], STDERR_FILENO);
		close(pipes[1]);
		run_scene(fn);
	}
	close(pipes[1]);
	while ((n = read(pipes[0], o->err + length, sizeof(o->err) - 1 - length)) > 0)
		length += n;
	close(pipes[0]);
	return pid > 0 && waitpid(pid, &o->status, 0) == pid;
}

/* The child did all that it should, and printed nothing. */
static bool fine(void)
{
	if (WIFEXITED(o->status) && !WEXITSTATUS(o->status) && !o->err[0])
		return true;
	printf("# status %#x, step %u: %s\n", o->status, o->steps, o->err);
	return false;
}

/* The child died of SIGSEGV in step @step, and printed one line that has @text. */
static bool denied(unsigned int step, const char *text)
{
	char place[160];

	snprintf(place, sizeof(place), PREFIX "0x%llx is at offset %u of the allocation at 0x%llx of ",
		 o->p + AT, AT, o->p);
	if (WIFSIGNALED(o->status) && WTERMSIG(o->status) == SIGSEGV && o->steps == step &&
	    !strncmp(o->err, place, strlen(place)) && strstr(o->err, text) &&
	    strchr(o->err, '\n') == o->err + strlen(o->err) - 1)
		return true;
	printf("# status %#x, step %u, without \"%s\": %s\n", o->status, o->steps, text, o->err);
	return false;
}

/* Touch the byte at @addr.  The compiler must not know where the pointer comes from. */
static void touch_at(CUdeviceptr addr)
{
	volatile unsigned char *c = cpu(addr);

	__asm__ volatile("" : "+r"(c));
	if (store)
		*c = 1;
	else
		(void)*c;
}

static void touch(void)
{
	o->steps++;
	touch_at(o->p + AT);
}

/* Whether a system call may read the byte. */
static int system_call(void)
{
	int pipes[2], error = 0;

	if (pipe(pipes))
		return -1;
	if (write(pipes[1], cpu(o->p + AT), 1) != 1)
		error = errno;
	close(pipes[0]);
	close(pipes[1]);
	return error;
}

/* A context, two streams, a gate, device memory, and managed memory of the given default. */
static CUresult begin_with(CUdevice device, unsigned int flags)
{
	CUresult result = cuInit(0);

	if (!result)
		result = cuDevicePrimaryCtxRetain(&ctx, device);
	if (!result)
		result = cuCtxSetCurrent(ctx);
	if (!result)
		result = cuStreamCreate(&s1, CU_STREAM_NON_BLOCKING);
	if (!result)
		result = cuStreamCreate(&s2, CU_STREAM_NON_BLOCKING);
	if (!result)
		result = cuMemAllocHost((void **)&gate, 4096);
	if (!result)
		result = cuMemAlloc(&dev, SIZE);
	if (!result)
		result = cuMemAllocManaged(&o->p, SIZE, flags);
	mark = gate + 16;
	return result;
}

static CUresult begin(void)
{
	return begin_with(0, GLOBAL);
}

/* Keep a stream busy until gate_open(gate). */
static CUresult hold(CUstream stream)
{
	CUresult result = gate_put(stream, gate);

	o->stream = stream;
	if (!result && stream)
		result = cuStreamGetId(stream, &o->id);
	return result ? result : cuMemsetD8Async(dev, 1, SIZE, stream);
}

/* Keep another stream busy for as long as the process lives. */
static CUresult hold_for_ever(CUstream stream)
{
	return cuStreamWaitValue32(stream, (uintptr_t)(gate + 32), 1, CU_STREAM_WAIT_VALUE_GEQ);
}

static CUresult attach(CUstream stream, unsigned int flags)
{
	return cuStreamAttachMemAsync(stream, o->p, 0, flags);
}

/* Wait, without a call of the library, until a stream has done all that it has got. */
static int wait_silently(void)
{
	for (int i = 0; i < 1000 && !*mark; i++)
		nap_ms(10);
	NEED(*mark);
	/* The entry counts as done a moment after its write. */
	nap_ms(300);
	return 0;
}

/* A device without concurrent managed access, for children of the test. */
FIXTURE(attach)
{
	struct changed changed;
};

FIXTURE_SETUP(attach)
{
	ASSERT_TRUE(dev_quiet(10));
	store = false;
	ASSERT_TRUE(file_change(&self->changed, "/sys/module/gpumem/parameters/concurrent_managed",
				"0"));
}

/* The parameter gets its former value when the process of the case ends. */
QUIET_AFTERWARDS(attach)

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
	ASSERT_TRUE(run(line_thread));
	EXPECT_TRUE(denied(1, " executes operation 0 (wait for a word)\n"));
	ASSERT_TRUE(run(line_fill));
	EXPECT_TRUE(denied(1, " (fill to 0x"));
	EXPECT_TRUE(denied(1, ", 33554432 bytes)\n"));
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
	ASSERT_TRUE(run(by_event));
	EXPECT_TRUE(fine());
	ASSERT_TRUE(run(by_complete_event));
	EXPECT_TRUE(fine());
	ASSERT_TRUE(run(by_unused_stream));
	EXPECT_TRUE(fine());
	ASSERT_TRUE(run(by_context));
	EXPECT_TRUE(fine());
	ASSERT_TRUE(run(by_copy));
	EXPECT_TRUE(fine());
	ASSERT_TRUE(run(by_fault));
	EXPECT_TRUE(fine());
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
	ASSERT_TRUE(run(handler_after));
	EXPECT_TRUE(fine());
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
	ASSERT_TRUE(run(host_early));
	EXPECT_TRUE(denied(1, ", attached to all streams: "));
	ASSERT_TRUE(run(host_late));
	EXPECT_TRUE(fine());
	ASSERT_TRUE(run(global_late));
	EXPECT_TRUE(denied(2, ", attached to all streams: "));
	ASSERT_TRUE(run(single_late));
	EXPECT_TRUE(denied(2, ", attached to one stream: "));
	ASSERT_TRUE(run(moves));
	EXPECT_TRUE(denied(2, ", attached to all streams: "));
	ASSERT_TRUE(run(many));
	EXPECT_TRUE(fine());
	ASSERT_TRUE(run(freed));
	EXPECT_TRUE(fine());
}

/* --- host functions: their stream counts as idle while they run */

struct call {
	CUdeviceptr p;
	int result;			/* of a system call */
	volatile int state;		/* 1: the function runs; 2: it may return; 3: it returns */
};

static void CUDA_CB use_memory(void *arg)
{
	struct call *call = arg;

	call->result = system_call();
	touch();
	cpu(call->p)[1] = 5;
}

static void CUDA_CB stay(void *arg)
{
	struct call *call = arg;

	call->state = 1;
	while (call->state != 2)
		nap_ms(1);
	call->state = 3;
}

/* A function uses memory of its stream, and of all streams, between two operations. */
static int function_uses(void)
{
	struct call call;

	NEED_CU(begin());
	for (int i = 0; i < 2; i++) {
		NEED_CU(attach(s1, i ? SINGLE : GLOBAL));
		NEED_CU(cuStreamSynchronize(s1));
		call = (struct call){ .p = o->p, .result = -1 };
		NEED_CU(hold(s1));
		NEED_CU(cuMemsetD8Async(o->p, 7, SIZE, s1));
		NEED_CU(cuLaunchHostFunc(s1, use_memory, &call));
		NEED_CU(cuMemsetD8Async(o->p + 2, 9, SIZE - 2, s1));
		NEED(system_call() == EFAULT);
		gate_open(gate);
		NEED_CU(cuStreamSynchronize(s1));
		NEED(!call.result);
		NEED(cpu(o->p)[0] == 7 && cpu(o->p)[1] == 5 && cpu(o->p)[AT] == 9);
	}
	return 0;
}

/* Other threads have access, too, also if other streams wait for the function.  Then the streams go on. */
static int function_stays(void)
{
	struct call call = { .state = 0 };
	CUevent event;

	NEED_CU(begin());
	NEED_CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	NEED_CU(cuLaunchHostFunc(s1, stay, &call));
	while (!call.state)
		nap_ms(1);
	NEED(!system_call());
	NEED_CU(cuEventRecord(event, s1));
	NEED_CU(cuStreamWaitEvent(s2, event, 0));
	NEED_CU(cuMemsetD8Async(o->p, 1, SIZE, s2));
	NEED_CU(hold(s2));
	NEED(!system_call());
	touch();
	call.state = 2;
	NEED_CU(cuStreamSynchronize(s1));
	NEED(system_call() == EFAULT);
	touch();
	return 0;
}

/* A function without work behind it leaves the stream idle. */
static int function_last(void)
{
	struct call call = { .state = 2 };

	NEED_CU(begin());
	for (int i = 0; i < 200; i++) {
		call.state = 0;
		NEED_CU(cuLaunchHostFunc(s1, stay, &call));
		while (!call.state)
			;
		call.state = 2;
		for (int k = 0; k < 100; k++)
			touch_at(o->p + AT);
		NEED(!system_call());
		/* The next round must not take the answer away. */
		while (call.state != 3)
			nap_ms(1);
	}
	return 0;
}

/* Work of another stream counts all the same. */
static int function_beside(void)
{
	struct call call = { .p = 0 };

	NEED_CU(begin());
	call.p = o->p;
	NEED_CU(hold(s2));
	NEED_CU(cuLaunchHostFunc(s1, use_memory, &call));
	NEED_CU(cuStreamSynchronize(s1));
	return 0;
}

/* A stream is destroyed while its function runs: its memory is attached to it until the work is done. */
static int function_destroyed(void)
{
	struct call call = { .state = 0 };

	NEED_CU(begin_with(0, HOST));
	NEED_CU(attach(s1, SINGLE));
	NEED_CU(cuLaunchHostFunc(s1, stay, &call));
	while (!call.state)
		nap_ms(1);
	NEED_CU(cuStreamWriteValue32(s1, (uintptr_t)mark, 1, 0));
	NEED_CU(hold(s1));
	NEED_CU(cuStreamDestroy(s1));
	touch();
	call.state = 2;
	NEED(!wait_silently());
	touch();
	return 0;
}

/* The same with nothing behind the function: then the memory is attached to all streams. */
static int function_orphan(void)
{
	struct call call = { .state = 0 };

	NEED_CU(begin());
	NEED_CU(attach(s1, SINGLE));
	NEED_CU(cuLaunchHostFunc(s1, stay, &call));
	while (!call.state)
		nap_ms(1);
	NEED_CU(cuStreamDestroy(s1));
	call.state = 2;
	NEED_CU(cuCtxSynchronize());
	NEED(!system_call());
	NEED_CU(hold(s2));
	NEED(system_call() == EFAULT);
	gate_open(gate);
	NEED_CU(cuStreamSynchronize(s2));
	return 0;
}

TEST_F(attach, functions)
{
	ASSERT_TRUE(run(function_uses));
	EXPECT_TRUE(fine());
	ASSERT_TRUE(run(function_stays));
	EXPECT_TRUE(denied(2, ", attached to all streams: "));
	ASSERT_TRUE(run(function_last));
	EXPECT_TRUE(fine());
	ASSERT_TRUE(run(function_beside));
	EXPECT_TRUE(denied(1, ", attached to all streams: "));
	ASSERT_TRUE(run(function_destroyed));
	EXPECT_TRUE(denied(2, ", attached to one stream: a destroyed stream of "));
	ASSERT_TRUE(run(function_orphan));
	EXPECT_TRUE(fine());
}

/* --- destroyed streams */

static int destroyed_busy(void)
{
	NEED_CU(begin());
	NEED_CU(attach(s1, SINGLE));
	NEED_CU(hold(s1));
	NEED_CU(cuStreamDestroy(s1));
	touch();
	return 0;
}

/* The stream's work is done: the memory is attached to all streams again. */
static int destroyed_done(void)
{
	CUevent event;

	NEED_CU(begin());
	NEED_CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	NEED_CU(attach(s1, SINGLE));
	NEED_CU(hold(s1));
	NEED_CU(cuEventRecord(event, s1));
	NEED_CU(cuStreamDestroy(s1));
	gate_open(gate);
	NEED_CU(cuEventSynchronize(event));
	touch();
	NEED_CU(hold(s2));
	touch();
	return 0;
}

/* The same without a call that waits: a page fault finds the default. */
static int destroyed_silently(void)
{
	NEED_CU(begin());
	NEED_CU(attach(s1, SINGLE));
	NEED_CU(hold(s1));
	NEED_CU(cuStreamWriteValue32(s1, (uintptr_t)mark, 1, 0));
	NEED_CU(cuStreamDestroy(s1));
	gate_open(gate);
	NEED(!wait_silently());
	touch();
	NEED_CU(hold(s2));
	touch();
	return 0;
}

static int destroyed_idle(void)
{
	NEED_CU(begin());
	NEED_CU(attach(s1, SINGLE));
	NEED_CU(hold(s2));
	touch();
	NEED_CU(cuStreamDestroy(s1));
	touch();
	return 0;
}

/* The default is HOST. */
static int destroyed_host(void)
{
	CUevent event;

	NEED_CU(begin_with(0, HOST));
	NEED_CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	NEED_CU(attach(s1, SINGLE));
	NEED_CU(hold(s1));
	NEED_CU(hold_for_ever(s2));
	NEED_CU(cuEventRecord(event, s1));
	NEED_CU(cuStreamDestroy(s1));
	NEED(system_call() == EFAULT);
	gate_open(gate);
	NEED_CU(cuEventSynchronize(event));
	NEED(!system_call());
	touch();
	gate[32] = 1;
	return 0;
}

/* With the default HOST, exclusive devices are refused again: of an idle stream, a busy one, and by a page fault. */
static int destroyed_refuses(void)
{
	NEED_CU(begin_with(0, HOST));
	for (int i = 0; i < 3; i++) {
		*mark = 0;
		NEED_CU(attach(s1, SINGLE));
		NEED_CU(cuMemsetD8(o->p, 1, SIZE));
		if (i) {
			NEED_CU(hold(s1));
			NEED_CU(cuStreamWriteValue32(s1, (uintptr_t)mark, 1, 0));
		}
		NEED_CU(cuStreamDestroy(s1));
		gate_open(gate);
		if (i == 1)
			NEED_CU(cuCtxSynchronize());
		if (i == 2) {
			NEED(!wait_silently());
			touch();
		}
		NEED(cuMemsetD8(o->p, 1, SIZE) == INVALID);
		NEED(cuMemcpyDtoDAsync(dev, o->p, SIZE, s2) == INVALID);
		NEED(!system_call());
		NEED_CU(cuStreamCreate(&s1, CU_STREAM_NON_BLOCKING));
	}
	return 0;
}

/* A change that another stream has not made yet is not undone. */
static int destroyed_then_asked(void)
{
	NEED_CU(begin_with(0, HOST));
	NEED_CU(attach(s1, SINGLE));
	NEED_CU(hold(s2));
	NEED_CU(attach(s2, GLOBAL));
	NEED_CU(cuStreamDestroy(s1));
	NEED_CU(cuMemsetD8Async(o->p, 4, SIZE, s2));
	gate_open(gate);
	NEED_CU(cuStreamSynchronize(s2));
	NEED(all_are(cpu(o->p), 4, SIZE));
	NEED_CU(cuMemsetD8(o->p, 5, SIZE));
	NEED_CU(hold(s2));
	NEED(system_call() == EFAULT);
	gate_open(gate);
	return 0;
}

/* The stream is destroyed before the change: afterwards the memory has its default. */
static int destroyed_before(void)
{
	NEED_CU(begin_with(0, HOST));
	NEED_CU(hold(s1));
	NEED_CU(attach(s1, SINGLE));
	NEED_CU(cuStreamDestroy(s1));
	touch();
	gate_open(gate);
	NEED_CU(cuCtxSynchronize());
	NEED(cuMemsetD8(o->p, 1, SIZE) == INVALID);
	NEED_CU(hold(s2));
	touch();
	gate_open(gate);
	return 0;
}

/* Many streams, with work and without, and a context that ends with attached memory. */
static int destroyed_many(void)
{
	CUcontext other;
	CUdeviceptr p;
	CUstream s;

	NEED_CU(begin());
	for (int i = 0; i < 200; i++) {
		NEED_CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
		NEED_CU(attach(s, SINGLE));
		if (i % 2)
			NEED_CU(cuMemsetD8Async(o->p, i, SIZE, s));
		NEED_CU(cuStreamDestroy(s));
		if (i % 3)
			NEED_CU(cuCtxSynchronize());
	}
	NEED_CU(cuCtxSynchronize());
	touch();
	NEED_CU(cuCtxCreate(&other, NULL, 0, 0));
	NEED_CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	NEED_CU(cuMemAllocManaged(&p, 3 * MIB, GLOBAL));
	NEED_CU(cuStreamAttachMemAsync(s, p, 0, SINGLE));
	NEED_CU(cuStreamAttachMemAsync(s, o->p, 0, SINGLE));
	NEED_CU(cuMemsetD8Async(p, 1, 3 * MIB, s));
	NEED_CU(cuCtxDestroy(other));
	NEED_CU(cuCtxSetCurrent(ctx));
	touch();
	NEED_CU(hold(s2));
	NEED(system_call() == EFAULT);
	gate_open(gate);
	NEED_CU(cuStreamSynchronize(s2));
	return 0;
}

TEST_F(attach, destroyed_streams)
{
	ASSERT_TRUE(run(destroyed_busy));
	EXPECT_TRUE(denied(1, ", attached to one stream: a destroyed stream of device 0 executes operation "));
	ASSERT_TRUE(run(destroyed_done));
	EXPECT_TRUE(denied(2, ", attached to all streams: "));
	ASSERT_TRUE(run(destroyed_silently));
	EXPECT_TRUE(denied(2, ", attached to all streams: "));
	ASSERT_TRUE(run(destroyed_idle));
	EXPECT_TRUE(denied(2, ", attached to all streams: "));
	ASSERT_TRUE(run(destroyed_host));
	EXPECT_TRUE(fine());
	ASSERT_TRUE(run(destroyed_refuses));
	EXPECT_TRUE(fine());
	ASSERT_TRUE(run(destroyed_then_asked));
	EXPECT_TRUE(fine());
	ASSERT_TRUE(run(destroyed_before));
	EXPECT_TRUE(fine());
	ASSERT_TRUE(run(destroyed_many));
	EXPECT_TRUE(fine());
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
	ASSERT_TRUE(run(two_concurrent));
	EXPECT_TRUE(fine());
	ASSERT_TRUE(run(two_exclusive));
	EXPECT_TRUE(denied(1, " of device 1 executes "));
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
	ASSERT_TRUE(run(threads));
	EXPECT_TRUE(fine());
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

	ASSERT_TRUE(run(neighbours));
	EXPECT_TRUE(fine());
	ASSERT_TRUE(run(allocated));
	EXPECT_TRUE(denied(1, " of 5242880 bytes on device 0, attached to all streams: "));
	ASSERT_TRUE(run(again));
	EXPECT_TRUE(fine());
	ASSERT_TRUE(run(freed_beside));
	EXPECT_TRUE(fine());
	/* Device memory takes the place of managed memory. */
	ASSERT_TRUE(file_change(&managed, "/sys/module/gpumem/parameters/managed", "0"));
	ASSERT_TRUE(run(again));
	EXPECT_TRUE(fine());
	ASSERT_TRUE(run(by_copy));
	EXPECT_TRUE(fine());
	ASSERT_TRUE(run(line_wait));
	EXPECT_TRUE(denied(1, ", attached to all streams: "));
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
	ASSERT_TRUE(run(host_refused));
	EXPECT_TRUE(fine());
	ASSERT_TRUE(run(undefined_calls));
	EXPECT_TRUE(fine());
	ASSERT_TRUE(run(bad_arguments));
	EXPECT_TRUE(fine());
	EXPECT_EQ(0, file_restore(&self->changed));
	ASSERT_TRUE(run(concurrent));
	EXPECT_TRUE(fine());
}

TEST_HARNESS_MAIN
