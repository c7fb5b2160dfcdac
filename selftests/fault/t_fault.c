// SPDX-License-Identifier: GPL-2.0
/*
 * Faults on demand: what each rule of GPUMEM_FAULT does, and what it leaves alone.
 */
#include "kselftest_harness.h"
#include "fault_util.h"

#include <cuda_runtime_api.h>

#include "common/cgroup.h"

FIXTURE(fault)
{
	struct outcome *o;
};

FIXTURE_SETUP(fault)
{
	self->o = calloc(1, sizeof(*self->o));
	ASSERT_NE(NULL, self->o);
}

FIXTURE_TEARDOWN(fault)
{
	if (_metadata->exit_code)
		fprintf(stderr, "%s", self->o->text);
	free(self->o);
}

#define RUN(body, rules)	program_run(body, rules, NULL, self->o)
#define RESULT(i)		self->o->out.result[i]
#define NUMBER(i)		self->o->out.number[i]
#define SAYS(text_)		(strstr(self->o->text, text_) != NULL)

/* ---- calls that fail */

static void six_allocations(struct program *w)
{
	CUdeviceptr ptr;

	for (int i = 0; i < 6; i++)
		NOTE(cuMemAlloc(&ptr, 4096));
}

TEST_F(fault, nth)
{
	RUN(six_allocations, "fail nth=3");
	EXPECT_EQ(0, self->o->status);
	for (int i = 0; i < 6; i++)
		EXPECT_EQ(i == 2 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS, RESULT(i));
	EXPECT_TRUE(SAYS("gpumem-fault: cuMemAlloc_v2(), match 3 of \"alloc\": CUDA_ERROR_OUT_OF_MEMORY\n"));
}

/* Each rule counts each call. */
TEST_F(fault, rules)
{
	RUN(six_allocations, "fail nth=2; fail nth=3 error=UNKNOWN; fail call=cuMemAlloc nth=2 error=UNKNOWN");
	for (int i = 0; i < 6; i++)
		EXPECT_EQ(i == 1 ? CUDA_ERROR_OUT_OF_MEMORY : i == 2 ? CUDA_ERROR_UNKNOWN : CUDA_SUCCESS, RESULT(i));
}

/* A call that fails anyway is no match. */
static void wrong_call(struct program *w)
{
	CUdeviceptr ptr;

	NOTE(cuMemcpyHtoD(0, NULL, 0));
	NOTE(cuStreamQuery(w->a));
	NOTE(cuMemAllocManaged(&ptr, 0, 1));
	NOTE(cuMemGetInfo((size_t *)&w->out->number[0], (size_t *)&w->out->number[1]));
	NOTE(cuMemAlloc(&ptr, 4096));
}

TEST_F(fault, outputs_are_no_sizes)
{
	RUN(wrong_call, "fail call=any min=1G error=UNKNOWN");
	for (int i = 0; i < 5; i++)
		EXPECT_NE(CUDA_ERROR_UNKNOWN, RESULT(i));
}

TEST_F(fault, every)
{
	RUN(six_allocations, "fail nth=2 every=2 times=2 error=INVALID_VALUE; quiet");
	for (int i = 0; i < 6; i++)
		EXPECT_EQ(i == 1 || i == 3 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS, RESULT(i));
	EXPECT_FALSE(SAYS("gpumem-fault"));
}

TEST_F(fault, empty)
{
	RUN(six_allocations, "");
	for (int i = 0; i < 6; i++)
		EXPECT_EQ(CUDA_SUCCESS, RESULT(i));
	EXPECT_STREQ("", self->o->text);
}

static void many_allocations(struct program *w)
{
	CUdeviceptr ptr;

	for (int i = 0; i < 64; i++)
		w->out->number[0] |= (uint64_t)!NOTE(cuMemAlloc(&ptr, 256)) << i;
}

TEST_F(fault, seed)
{
	uint64_t first;

	RUN(many_allocations, "fail p=0.3; seed=5; quiet");
	first = NUMBER(0);
	/* About 19 of 64 fail. */
	EXPECT_GT(40, __builtin_popcountll(~first));
	EXPECT_LT(5, __builtin_popcountll(~first));
	RUN(many_allocations, "fail p=0.3; seed=5; quiet");
	EXPECT_EQ(first, NUMBER(0));
	RUN(many_allocations, "fail p=0.3; seed=6; quiet");
	EXPECT_NE(first, NUMBER(0));
}

static void kinds(struct program *w)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
	};
	CUmemGenericAllocationHandle handle;
	CUipcMemHandle ipc = { 0 };
	CUdeviceptr ptr;
	CUstream stream;
	void *host;

	NOTE(cuMemAlloc(&ptr, 4096));
	NOTE(cuMemAllocAsync(&ptr, 4096, w->a));
	NOTE(cuMemAllocHost(&host, 4096));
	NOTE(cuMemAllocManaged(&ptr, 4096, CU_MEM_ATTACH_GLOBAL));
	NOTE(cuMemCreate(&handle, 2 * MIB, &prop, 0));
	NOTE(cuStreamCreate(&stream, 0));
	NOTE(cuIpcOpenMemHandle(&ptr, ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
}

/* The one call of kinds() that a rule lets fail, or -1. */
static int failing(struct outcome *o, CUresult error)
{
	int found = -1;

	for (int i = 0; i < 7; i++) {
		/* The last call fails in any case: the handle is not one. */
		CUresult usual = i == 6 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;

		if (o->out.result[i] == usual)
			continue;
		if (o->out.result[i] != error || found >= 0)
			return -2;
		found = i;
	}
	return found;
}

TEST_F(fault, kinds)
{
	static const struct {
		const char *rules;
		int call;
		CUresult error;
	} cases[] = {
		{ "fail call=device", 0, CUDA_ERROR_OUT_OF_MEMORY },
		{ "fail call=pool", 1, CUDA_ERROR_OUT_OF_MEMORY },
		{ "fail call=host", 2, CUDA_ERROR_OUT_OF_MEMORY },
		{ "fail call=managed", 3, CUDA_ERROR_OUT_OF_MEMORY },
		{ "fail call=cuMemCreate", 4, CUDA_ERROR_OUT_OF_MEMORY },
		{ "fail call=cuStream* nth=3", 5, CUDA_ERROR_OUT_OF_MEMORY },
		{ "fail call=ipc", 6, CUDA_ERROR_MAP_FAILED },
		{ "fail call=ipc error=201", 6, CUDA_ERROR_INVALID_CONTEXT },
		{ "fail call=pool|host nth=2 error=CUDA_ERROR_UNKNOWN", 2, CUDA_ERROR_UNKNOWN },
		{ "fail min=1M", 4, CUDA_ERROR_OUT_OF_MEMORY },
		{ "fail max=0x1000 nth=4", 3, CUDA_ERROR_OUT_OF_MEMORY },
		{ "fail nth=100", -1, CUDA_SUCCESS },
		{ "fail; env=GPUMEM_SELFTEST_NAME:other", -1, CUDA_SUCCESS },
		{ "env=GPUMEM_SELFTEST_NAME:this; fail", 0, CUDA_ERROR_OUT_OF_MEMORY },
	};

	setenv("GPUMEM_SELFTEST_NAME", "this", 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		RUN(kinds, cases[i].rules);
		EXPECT_EQ(0, self->o->status);
		EXPECT_EQ(cases[i].call, failing(self->o, cases[i].error))
			TH_LOG("%s", cases[i].rules);
	}
}

static void runtime(struct program *w)
{
	void *ptr;

	for (int i = 0; i < 3; i++)
		w->out->number[i] = cudaMalloc(&ptr, 4096);
}

TEST_F(fault, runtime)
{
	RUN(runtime, "fail nth=2");
	EXPECT_EQ(0, self->o->status);
	EXPECT_EQ(0, NUMBER(0));
	EXPECT_EQ(2, NUMBER(1));
	EXPECT_EQ(0, NUMBER(2));
}

TEST_F(fault, wrong_rules)
{
	static const struct {
		const char *rules, *why;
	} cases[] = {
		{ "explode", "\"explode\" is not an action" },
		{ "fail nth=0", "\"0\" is not a value of \"nth\"" },
		{ "fail nth=x", "\"x\" is not a value of \"nth\"" },
		{ "fail nth", "\"nth\" is not key=value" },
		{ "fail error=NO_SUCH", "\"NO_SUCH\" is not a value of \"error\"" },
		{ "fail p=2", "\"2\" is not a value of \"p\"" },
		{ "fail min=99999999999999999999", "is not a value of \"min\"" },
		{ "fail min=-1", "is not a value of \"min\"" },
		{ "fail min=99999999T", "is not a value of \"min\"" },
		{ "memory", "\"memory\" needs size=" },
		{ "delay pieces=3", "\"delay\" has no key \"pieces\"" },
		{ "tear pieces=1", "\"1\" is not a value of \"pieces\"" },
		{ "grow call=alloc", "\"grow\" has no key \"call\"" },
		{ "memory size=1M nth=2", "\"memory\" has no key \"nth\"" },
		{ "delay error=2", "\"delay\" has no key \"error\"" },
		{ "fail min=2 max=1", "min is above max" },
		{ "1", "\"1\" is not an action" },
		{ "seed=x", "\"x\" is not a number" },
		{ "fail;fail;fail;fail;fail;fail;fail;fail;fail;fail;fail;fail;fail;fail;fail;fail;fail",
		  "more than 16 rules" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		RUN(six_allocations, cases[i].rules);
		EXPECT_TRUE(SAYS(cases[i].why))
			TH_LOG("%s: %s", cases[i].rules, self->o->text);
		EXPECT_TRUE(SAYS("gpumem-fault: the rules \""));
		/* Wrong rules do nothing. */
		for (int k = 0; k < 6; k++)
			EXPECT_EQ(CUDA_SUCCESS, RESULT(k));
	}
}

/* ---- memory */

static void fill_device(struct program *w)
{
	size_t free_bytes, total;
	CUdeviceptr ptr, other;

	OK(cuDeviceTotalMem(&total, 0));
	w->out->number[0] = total;
	OK(cuMemGetInfo(&free_bytes, &total));
	w->out->number[1] = total;
	w->out->number[2] = free_bytes;
	NOTE(cuMemAlloc(&ptr, 24 * MIB));
	OK(cuMemGetInfo(&free_bytes, &total));
	w->out->number[3] = free_bytes;
	NOTE(cuMemAlloc(&other, 24 * MIB));
	NOTE(cuMemAllocAsync(&other, 24 * MIB, w->a));
	OK(cuMemFree(ptr));
	NOTE(cuMemAlloc(&ptr, 24 * MIB));
	NOTE(cuMemAllocHost((void **)&ptr, 64 * MIB));
}

TEST_F(fault, memory)
{
	RUN(fill_device, "memory size=40M");
	EXPECT_EQ(40 * MIB, NUMBER(0));
	EXPECT_EQ(40 * MIB, NUMBER(1));
	EXPECT_GE(40 * MIB, NUMBER(2));
	EXPECT_GE(16 * MIB, NUMBER(3));
	EXPECT_EQ(CUDA_SUCCESS, RESULT(0));
	EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, RESULT(1));
	EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, RESULT(2));
	EXPECT_EQ(CUDA_SUCCESS, RESULT(3));
	EXPECT_EQ(CUDA_SUCCESS, RESULT(4));
	/* Another device has its memory. */
	RUN(fill_device, "memory size=40M device=1");
	EXPECT_LT(40 * MIB, NUMBER(1));
	EXPECT_EQ(CUDA_SUCCESS, RESULT(1));
}

static void grow_pool(struct program *w)
{
	CUdeviceptr ptr;

	NOTE(cuMemAllocAsync(&ptr, 4 * MIB, w->a));
	NOTE(cuMemAllocAsync(&ptr, 64 * MIB, w->a));
	NOTE(cuMemAlloc(&ptr, 64 * MIB));
}

TEST_F(fault, grow)
{
	RUN(grow_pool, "grow nth=2");
	EXPECT_EQ(CUDA_SUCCESS, RESULT(0));
	EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, RESULT(1));
	EXPECT_EQ(CUDA_SUCCESS, RESULT(2));
	EXPECT_TRUE(SAYS("the pool does not grow"));
}

/* ---- contexts, devices, processes */

static void after_loss(struct program *w)
{
	CUdeviceptr ptr;

	NOTE(cuMemAlloc(&ptr, 4096));
	NOTE(cuMemAlloc(&ptr, 4096));
	NOTE(cuStreamSynchronize(w->a));
	NOTE(cuMemAlloc(&ptr, 4096));
	NOTE(cuDevicePrimaryCtxReset(0));
	OK(cuDevicePrimaryCtxRetain(&w->ctx, 0));
	NOTE(cuMemAlloc(&ptr, 4096));
}

TEST_F(fault, lost)
{
	static const CUresult want[] = { 0, 700, 700, 700, 0, 0 };

	RUN(after_loss, "lost call=alloc nth=2");
	for (int i = 0; i < 6; i++)
		EXPECT_EQ(want[i], RESULT(i));
	RUN(after_loss, "lost call=alloc nth=2 error=LAUNCH_FAILED");
	for (int i = 0; i < 6; i++)
		EXPECT_EQ(want[i] ? CUDA_ERROR_LAUNCH_FAILED : 0, RESULT(i));
}

TEST_F(fault, gone)
{
	RUN(six_allocations, "gone call=alloc nth=4 error=DEVICE_UNAVAILABLE");
	EXPECT_EQ(0, self->o->status);
	for (int i = 0; i < 6; i++)
		EXPECT_EQ(i < 3 ? CUDA_SUCCESS : CUDA_ERROR_DEVICE_UNAVAILABLE, RESULT(i));
}

TEST_F(fault, die)
{
	RUN(six_allocations, "die call=alloc nth=4");
	EXPECT_EQ(-SIGKILL, self->o->status);
	EXPECT_EQ(3, self->o->out.results);
}

/* ---- a peer that dies */

static struct program peer;		/* its "out" is shared with the programs that begin after it */

/* Wait up to 20 s until another process has stored a number. */
static bool number_comes(struct program *w, int i, uint64_t value)
{
	for (int ms = 0; ms < 20000; ms++) {
		if (__atomic_load_n(&w->out->number[i], __ATOMIC_ACQUIRE) == value)
			return true;
		nap_ms(1);
	}
	return false;
}

static void number_set(struct program *w, int i, uint64_t value)
{
	__atomic_store_n(&w->out->number[i], value, __ATOMIC_RELEASE);
}

struct peer_handles {
	CUipcMemHandle memory;
	CUipcEventHandle event;
};

/* Exports memory, and an event behind work that does not end. */
static void peer_dies(struct program *w)
{
	struct peer_handles *handles = (void *)w->out->bytes;
	CUevent event;

	program_memory(w);
	OK(cuMemsetD8(w->p, 7, BYTES));
	OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	OK(cuStreamWaitValue32(w->a, w->q, 99, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuEventRecord(event, w->a));
	OK(cuIpcGetMemHandle(&handles->memory, w->p));
	OK(cuIpcGetEventHandle(&handles->event, event));
	number_set(w, 0, 1);
	number_comes(w, 1, 1);
	NOTE(cuMemcpyDtoD(w->q, w->p, 4096));
}

/* Waits for that event. */
static void peer_survives(struct program *w)
{
	struct peer_handles *handles = (void *)peer.out->bytes;
	CUresult result = CUDA_SUCCESS;
	CUdeviceptr theirs;
	CUevent event;

	program_memory(w);
	w->out->number[0] = number_comes(&peer, 0, 1);
	NOTE(cuIpcOpenMemHandle(&theirs, handles->memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	NOTE(cuIpcOpenEventHandle(&event, handles->event));
	NOTE(cuStreamWaitEvent(w->a, event, 0));
	NOTE(cuStreamQuery(w->a));
	number_set(&peer, 1, 1);
	NOTE(cuStreamSynchronize(w->a));
	NOTE(cuIpcCloseMemHandle(theirs));
	/* The context is lost, the process is not. */
	NOTE(cuDevicePrimaryCtxReset(0));
	OK(cuDevicePrimaryCtxRetain(&w->ctx, 0));
	NOTE(cuMemAlloc(&w->p, BYTES));
	NOTE(cuMemsetD8(w->p, 1, BYTES));
	/* The handle is void when the peer's descriptors are closed. */
	for (int ms = 0; !result && ms < 20000; ms++) {
		nap_ms(1);
		result = cuIpcOpenMemHandle(&theirs, handles->memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
		if (!result)
			OK(cuIpcCloseMemHandle(theirs));
	}
	NOTE(result);
}

TEST_F(fault, peer_dies)
{
	static const CUresult want[] = {
		0, 0, 0, CUDA_ERROR_NOT_READY, CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_LAUNCH_FAILED,
		0, 0, 0, CUDA_ERROR_INVALID_VALUE,
	};
	int err = memfd_create("stderr", 0);
	pid_t pid;

	pid = program_start(peer_dies, "die call=cuMemcpyDtoD", NULL, -1, &peer);
	ASSERT_LT(0, pid);
	RUN(peer_survives, NULL);
	EXPECT_EQ(0, self->o->status);
	EXPECT_EQ(1, NUMBER(0));
	EXPECT_EQ(10, self->o->out.results);
	for (int i = 0; i < 10; i++) {
		EXPECT_EQ(want[i], RESULT(i)) {
			TH_LOG("call %d", i);
		}
	}
	program_end(&peer, pid, err, self->o);
	EXPECT_EQ(-SIGKILL, self->o->status);
	EXPECT_EQ(0, self->o->out.results);
}

/* ---- work */

static void copy_late(struct program *w)
{
	uint64_t begin;

	program_memory(w);
	begin = now_ms();
	OK(cuMemcpyHtoDAsync(w->p, w->pinned, BYTES, w->a));
	w->out->number[0] = now_ms() - begin;
	NOTE(cuStreamQuery(w->a));
	/* The copy has not begun, so it reads what is written now. */
	memset(w->pinned, 9, BYTES);
	OK(cuMemsetD8Async(w->q, 5, BYTES, w->b));
	OK(cuStreamSynchronize(w->b));
	NOTE(cuStreamQuery(w->a));
	NOTE(cuStreamSynchronize(w->a));
	w->out->number[1] = now_ms() - begin;
	OK(cuMemcpyDtoH(w->pinned, w->p, BYTES));
	w->out->number[2] = all_are(w->pinned, 9, BYTES);
}

TEST_F(fault, delay)
{
	RUN(copy_late, "delay ms=2000 call=cuMemcpyHtoDAsync");
	EXPECT_EQ(0, self->o->status);
	EXPECT_GT(1500, NUMBER(0));
	EXPECT_EQ(CUDA_ERROR_NOT_READY, RESULT(0));
	EXPECT_EQ(CUDA_ERROR_NOT_READY, RESULT(1));
	EXPECT_EQ(CUDA_SUCCESS, RESULT(2));
	EXPECT_LE(2000, NUMBER(1));
	EXPECT_EQ(1, NUMBER(2));
}

static void copy_torn(struct program *w)
{
	bool part = false;

	program_memory(w);
	memset(w->pinned, 7, BYTES);
	OK(cuMemcpyHtoDAsync(w->p, w->pinned, BYTES, w->a));
	/* Pieces are copied from the end on. The other stream sees the last one before the first one. */
	for (int i = 0; i < 1000 && !part; i++) {
		OK(cuMemcpyDtoHAsync(&w->out->bytes[0], w->p, 1, w->b));
		OK(cuMemcpyDtoHAsync(&w->out->bytes[1], w->p + BYTES - 1, 1, w->b));
		part = w->out->bytes[0] == 1 && w->out->bytes[1] == 7;
	}
	w->out->number[0] = part;
	OK(cuStreamSynchronize(w->a));
	OK(cuMemcpyDtoH(w->pinned, w->p, BYTES));
	w->out->number[1] = all_are(w->pinned, 7, BYTES);
	/* Boxes are torn, too, and copies to pageable memory. */
	OK(cuMemcpyDtoH(w->out->bytes, w->p, 4096));
	w->out->number[2] = all_are(w->out->bytes, 7, 4096);
	OK(cuMemcpy2D(&(CUDA_MEMCPY2D){
		.srcMemoryType = CU_MEMORYTYPE_DEVICE, .srcDevice = w->p, .srcPitch = 64,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = w->q, .dstPitch = 32,
		.WidthInBytes = 16, .Height = 100 }));
	OK(cuMemcpyDtoH(w->out->bytes, w->q, 3200));
	for (int i = 0; i < 3200; i++)
		w->out->number[3] += w->out->bytes[i] != (i % 32 < 16 ? 7 : 1);
}

TEST_F(fault, tear)
{
	RUN(copy_torn, "tear pieces=64 every=1");
	EXPECT_EQ(0, self->o->status);
	/* A copy of one byte cannot be torn. */
	EXPECT_TRUE(SAYS("cuMemcpyHtoDAsync_v2(), match 1 of \"copy\": torn into pieces"));
	EXPECT_FALSE(SAYS("match 2 of \"copy\": torn into pieces"));
	EXPECT_TRUE(SAYS("gpumem-fault: cuMemcpy2D"));
	EXPECT_EQ(1, NUMBER(0));
	EXPECT_EQ(1, NUMBER(1));
	EXPECT_EQ(1, NUMBER(2));
	EXPECT_EQ(0, NUMBER(3));
}

static unsigned int bits_other(const unsigned char *p, unsigned char value, size_t n)
{
	unsigned int bits = 0;

	for (size_t i = 0; i < n; i++)
		bits += __builtin_popcount(p[i] ^ value);
	return bits;
}

static void copy_flipped(struct program *w)
{
	unsigned char *pageable = malloc(BYTES);

	program_memory(w);
	memset(w->pinned, 7, BYTES);
	OK(cuMemcpyHtoDAsync(w->p, w->pinned, BYTES, w->a));	/* flips */
	OK(cuStreamSynchronize(w->a));
	OK(cuMemcpyDtoH(pageable, w->p, BYTES));
	w->out->number[0] = bits_other(pageable, 7, BYTES);
	OK(cuMemcpyDtoD(w->q, w->p, BYTES));			/* flips another bit, or the same one */
	OK(cuMemcpyDtoH(pageable, w->q, BYTES));
	w->out->number[1] = bits_other(pageable, 7, BYTES);
	OK(cuMemsetD8(w->p, 7, BYTES));
	OK(cuMemcpyDtoH_v2(pageable, w->p, BYTES));
	w->out->number[2] = bits_other(pageable, 7, BYTES);
	OK(cuMemcpyDtoHAsync(pageable, w->p, BYTES, w->a));	/* flips */
	w->out->number[3] = bits_other(pageable, 7, BYTES);
}

TEST_F(fault, flip)
{
	RUN(copy_flipped, "flip call=cuMemcpyHtoDAsync|cuMemcpyDtoD|cuMemcpyDtoHAsync every=1");
	EXPECT_EQ(0, self->o->status);
	EXPECT_EQ(1, NUMBER(0));
	EXPECT_TRUE(NUMBER(1) == 2 || NUMBER(1) == 0);
	EXPECT_EQ(0, NUMBER(2));
	EXPECT_EQ(1, NUMBER(3));
}

/* A forked child has no device, whatever the rules were about to do. */
static void child_calls(struct program *w)
{
	int status;
	pid_t pid;

	program_memory(w);
	OK(cuMemsetD8Async(w->p, 3, BYTES, w->a));	/* hangs */
	pid = fork();
	if (!pid) {
		CUdeviceptr ptr;

		NOTE(cuMemAlloc(&ptr, 4096));
		NOTE(cuStreamQuery(w->a));
		NOTE(cuStreamSynchronize(w->a));
		exit(7);
	}
	waitpid(pid, &status, 0);
	w->out->number[0] = WIFEXITED(status) ? WEXITSTATUS(status) : status;
}

TEST_F(fault, fork)
{
	RUN(child_calls, "hang call=cuMemsetD8Async; fail nth=4; log=/dev/null");
	EXPECT_EQ(7, NUMBER(0));
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(CUDA_ERROR_NOT_INITIALIZED, RESULT(i));
	program_run(child_calls, NULL, "1", self->o);
	EXPECT_EQ(7, NUMBER(0));
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(CUDA_ERROR_NOT_INITIALIZED, RESULT(i));
}

/* Both variables. */
TEST_F(fault, scheduled)
{
	program_run(copy_late, "delay ms=2000 call=cuMemcpyHtoDAsync", "3", self->o);
	EXPECT_EQ(0, self->o->status);
	EXPECT_EQ(CUDA_SUCCESS, RESULT(2));
	EXPECT_LE(2000, NUMBER(1));
}

/* ---- at run time */

/* Run the command. Returns its exit status. */
static int command(const char *format, ...)
{
	char line[PATH_MAX + 512];
	va_list args;
	int status;

	snprintf(line, sizeof(line), "gpumem=%s; ", build_path("bin/gpumem"));
	va_start(args, format);
	vsnprintf(line + strlen(line), 512, format, args);
	va_end(args);
	status = system(line);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void waits(struct program *w)
{
	program_memory(w);
	OK(cuMemsetD8Async(w->p, 3, BYTES, w->a));	/* hangs */
	w->out->number[0] = 1;
	NOTE(cuStreamSynchronize(w->a));
}

/* A program whose only thread waits makes no call. */
TEST_F(fault, waiting)
{
	int err = memfd_create("stderr", 0);
	struct program w = { 0 };
	pid_t pid;

	if (!command_there())
		SKIP(return, "the command is not built");
	pid = program_start(waits, "hang call=cuMemsetD8Async", NULL, err, &w);
	for (int i = 0; i < 20000 && !__atomic_load_n(&w.out->number[0], __ATOMIC_ACQUIRE); i++)
		nap_ms(1);
	nap_ms(200);
	EXPECT_EQ(0, waitpid(pid, NULL, WNOHANG));
	EXPECT_EQ(0, command("$gpumem fault clear --pid %d", pid));
	program_end(&w, pid, err, self->o);
	EXPECT_EQ(0, self->o->status);
	EXPECT_EQ(CUDA_SUCCESS, RESULT(0));
}

static void hang(struct program *w)
{
	program_memory(w);
	OK(cuMemsetD8Async(w->p, 3, BYTES, w->a));	/* hangs */
	nap_ms(100);
	NOTE(cuStreamQuery(w->a));
	OK(cuMemsetD8Async(w->q, 3, BYTES, w->b));
	NOTE(cuStreamSynchronize(w->b));
	w->out->number[0] = 1;
	/* Until the test changes the rules. */
	while (cuStreamQuery(w->a) == CUDA_ERROR_NOT_READY)
		nap_ms(1);
	NOTE(cuStreamSynchronize(w->a));
	NOTE(cuMemAlloc(&w->p, 4096));
	NOTE(cuMemAlloc(&w->p, 4096));
}

TEST_F(fault, run_time)
{
	int err = memfd_create("stderr", 0);
	struct program w = { 0 };
	struct cgroup group, empty;
	char text[16];
	pid_t pid;

	if (!command_there())
		SKIP(return, "the command is not built");
	pid = program_start(hang, "hang call=cuMemsetD8Async", NULL, err, &w);
	ASSERT_EQ(0, cgroup_make(&group, "fault"));
	ASSERT_EQ(0, cgroup_make(&empty, "fault-empty"));
	snprintf(text, sizeof(text), "%d", pid);
	ASSERT_EQ(0, cgroup_write(&group, "cgroup.procs", text));
	for (int i = 0; i < 20000 && !__atomic_load_n(&w.out->number[0], __ATOMIC_ACQUIRE); i++)
		nap_ms(1);
	EXPECT_EQ(0, command("$gpumem fault list --pid %d | grep -q 'rule 0: 1 of 2 matches'", pid));
	/* Rules that are wrong change nothing. */
	EXPECT_EQ(2, command("$gpumem fault set --pid %d 'hang call=fill; explode' 2>/dev/null", pid));
	EXPECT_EQ(1, command("$gpumem fault clear --cgroup %s 2>/dev/null", empty.path));
	EXPECT_EQ(0, command("$gpumem fault set --cgroup %s 'fail nth=2'", group.path));
	program_end(&w, pid, err, self->o);
	EXPECT_EQ(0, cgroup_remove(&group));
	EXPECT_EQ(0, cgroup_remove(&empty));
	/* No process has rules any more. */
	EXPECT_EQ(0, command("test -z \"$($gpumem fault list)\""));
	EXPECT_EQ(1, command("$gpumem fault set --pid %d fail 2>/dev/null", getpid()));
	EXPECT_EQ(2, command("$gpumem fault set fail 2>/dev/null"));
	EXPECT_EQ(0, self->o->status);
	EXPECT_EQ(CUDA_ERROR_NOT_READY, RESULT(0));
	EXPECT_EQ(CUDA_SUCCESS, RESULT(1));
	EXPECT_EQ(CUDA_SUCCESS, RESULT(2));
	EXPECT_EQ(CUDA_SUCCESS, RESULT(3));
	EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, RESULT(4));
}

/* Looks at its device whenever the test has changed the rules. */
static void shrinks(struct program *w)
{
	size_t free_bytes, total;
	CUdeviceptr ptr;

	for (unsigned int i = 0; i < 3; i++) {
		OK(cuMemGetInfo(&free_bytes, &total));
		w->out->number[2 + i] = total;
		NOTE(cuMemAlloc(&ptr, 24 * MIB));
		if (!w->out->result[i])
			OK(cuMemFree(ptr));
		number_set(w, 0, i + 1);
		if (!number_comes(w, 1, i + 1))
			exit(1);
	}
}

TEST_F(fault, memory_at_run_time)
{
	static const char * const change[] = { "set --pid %d 'memory size=16M'", "clear --pid %d", "list --pid %d" };
	int err = memfd_create("stderr", 0);
	struct program w = { 0 };
	char text[64];
	pid_t pid;

	if (!command_there())
		SKIP(return, "the command is not built");
	pid = program_start(shrinks, "", NULL, err, &w);
	ASSERT_LT(0, pid);
	for (int i = 0; i < 3; i++) {
		EXPECT_TRUE(number_comes(&w, 0, i + 1));
		snprintf(text, sizeof(text), change[i], pid);
		EXPECT_EQ(0, command("$gpumem fault %s", text));
		number_set(&w, 1, i + 1);
	}
	program_end(&w, pid, err, self->o);
	EXPECT_EQ(0, self->o->status);
	EXPECT_LT(16 * MIB, NUMBER(2));
	EXPECT_EQ(16 * MIB, NUMBER(3));
	EXPECT_EQ(NUMBER(2), NUMBER(4));
	EXPECT_EQ(CUDA_SUCCESS, RESULT(0));
	EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, RESULT(1));
	EXPECT_EQ(CUDA_SUCCESS, RESULT(2));
}

TEST_HARNESS_MAIN
