// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem record and gpumem replay: programs are recorded behind the tap and by the preloaded library, and replayed.
 */
#include "kselftest_harness.h"
#include "record_util.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <glob.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#define BYTES	4096u

/* ---- programs */

static void pools(void)
{
	CUmemPoolProps props = { .allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
				 .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemAccessDesc access = { .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 },
				   .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	cuuint64_t threshold = UINT64_MAX;
	CUmemoryPool pool, fallback;
	CUdeviceptr ptr[8];
	CUstream stream;
	int reuse = 0, i;

	program_begin();
	OK(cuStreamCreate(&stream, 0));
	OK(cuMemPoolCreate(&pool, &props));
	OK(cuDeviceGetDefaultMemPool(&fallback, 0));
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
	OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &reuse));
	OK(cuMemPoolSetAccess(pool, &access, 1));
	OK(cuDeviceSetMemPool(0, pool));
	for (i = 0; i < 8; i++)
		OK(cuMemAllocAsync(&ptr[i], (size_t)(i + 1) * 100000, stream));
	OK(cuMemsetD8Async(ptr[7] + 1000, 1, 700000, stream));
	for (i = 0; i < 8; i += 2)
		OK(cuMemFreeAsync(ptr[i], stream));
	OK(cuMemAllocFromPoolAsync(&ptr[0], 50000, fallback, stream));
	/* The legacy stream. */
	OK(cuMemFreeAsync(ptr[0], NULL));
	for (i = 1; i < 8; i += 2)
		OK(cuMemFree(ptr[i]));
	OK(cuStreamSynchronize(stream));
	OK(cuMemPoolTrimTo(pool, 0));
	OK(cuDeviceSetMemPool(0, fallback));
	OK(cuMemPoolDestroy(pool));
	OK(cuStreamDestroy(stream));
}

static void mappings(void)
{
	CUmemAllocationProp prop = { .type = CU_MEM_ALLOCATION_TYPE_PINNED,
				     .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
				     .location = { CU_MEM_LOCATION_TYPE_DEVICE, 0 } };
	CUmemAccessDesc access = { .location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE };
	CUmemGenericAllocationHandle handle, again;
	CUdeviceptr range;
	int fd;

	program_begin();
	OK(cuMemAddressReserve(&range, 8 * MIB, 0, 0, 0));
	OK(cuMemCreate(&handle, 2 * MIB, &prop, 0));
	OK(cuMemMap(range, 2 * MIB, 0, handle, 0));
	OK(cuMemMap(range + 4 * MIB, 2 * MIB, 0, handle, 0));
	BAD(cuMemMap(range + 4 * MIB, 2 * MIB, 0, handle, 0));
	OK(cuMemSetAccess(range, 2 * MIB, &access, 1));
	OK(cuMemSetAccess(range + 4 * MIB, 2 * MIB, &access, 1));
	OK(cuMemsetD32(range + 4 * MIB + 16, 7, 1000));
	OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(range + 64)));
	OK(cuMemRelease(again));
	OK(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
	OK(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)fd, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
	close(fd);
	OK(cuMemRelease(again));
	OK(cuCtxSynchronize());
	OK(cuMemUnmap(range, 2 * MIB));
	OK(cuMemUnmap(range + 4 * MIB, 2 * MIB));
	OK(cuMemRelease(handle));
	OK(cuMemAddressFree(range, 8 * MIB));
}

static void copies(void)
{
	CUDA_ARRAY3D_DESCRIPTOR cube = { 32, 16, 4, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0 };
	CUDA_ARRAY_DESCRIPTOR plane = { 64, 16, CU_AD_FORMAT_FLOAT, 1 };
	CUmemcpyAttributes attributes = { .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM };
	unsigned char *host = malloc(MIB), *pinned, *registered = aligned_alloc(4096, 65536);
	CUdeviceptr ptr, pitched, managed, device, dsts[2], srcs[2];
	CUarray array, box;
	size_t pitch, sizes[2] = { 100, 200 }, first = 0;
	CUDA_MEMCPY2D rows = { 0 };
	CUDA_MEMCPY3D slices = { 0 };
	CUstream stream;

	memset(host, 1, MIB);
	memset(registered, 2, 65536);
	program_begin();
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc(&ptr, MIB));
	OK(cuMemAllocPitch(&pitched, &pitch, 500, 32, 4));
	OK(cuMemAllocHost((void **)&pinned, 65536));
	OK(cuMemAllocManaged(&managed, 65536, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemHostRegister(registered, 65536, CU_MEMHOSTREGISTER_DEVICEMAP));
	OK(cuMemHostGetDevicePointer(&device, registered, 0));
	OK(cuArrayCreate(&array, &plane));
	OK(cuArray3DCreate(&box, &cube));
	OK(cuMemcpyHtoD(ptr + 10, host + 17, 70000));
	OK(cuMemcpyDtoHAsync(pinned + 5, ptr + 10, 60000, stream));
	OK(cuMemcpyDtoDAsync(device + 64, ptr, 1000, stream));
	OK(cuMemcpyAsync(managed, (CUdeviceptr)(uintptr_t)registered, 1000, stream));
	OK(cuStreamSynchronize(stream));
	rows.srcMemoryType = CU_MEMORYTYPE_HOST;
	rows.srcHost = host;
	rows.srcPitch = 600;
	rows.srcXInBytes = 3;
	rows.srcY = 2;
	rows.dstMemoryType = CU_MEMORYTYPE_DEVICE;
	rows.dstDevice = pitched;
	rows.dstPitch = pitch;
	rows.WidthInBytes = 500;
	rows.Height = 30;
	OK(cuMemcpy2D(&rows));
	rows.dstMemoryType = CU_MEMORYTYPE_ARRAY;
	rows.dstArray = array;
	rows.WidthInBytes = 256;
	rows.Height = 16;
	OK(cuMemcpy2DAsync(&rows, stream));
	slices.srcMemoryType = CU_MEMORYTYPE_ARRAY;
	slices.srcArray = box;
	slices.dstMemoryType = CU_MEMORYTYPE_HOST;
	slices.dstHost = host;
	slices.dstPitch = 128;
	slices.dstHeight = 16;
	slices.WidthInBytes = 128;
	slices.Height = 16;
	slices.Depth = 4;
	OK(cuMemcpy3D(&slices));
	OK(cuMemcpyAtoH(host, array, 0, 256));
	dsts[0] = ptr;
	dsts[1] = ptr + 4096;
	srcs[0] = (CUdeviceptr)(uintptr_t)(host + 1000);
	srcs[1] = managed;
	OK(cuMemcpyBatchAsync(dsts, srcs, sizes, 2, &attributes, &first, 1, stream));
	OK(cuCtxSynchronize());
	BAD(cuMemcpyDtoD(ptr, ptr, 2 * MIB));
	OK(cuMemHostUnregister(registered));
	OK(cuArrayDestroy(array));
	OK(cuArrayDestroy(box));
	OK(cuMemFreeHost(pinned));
	OK(cuMemFree(ptr));
	OK(cuMemFree(pitched));
	OK(cuMemFree(managed));
	OK(cuStreamDestroy(stream));
	free(host);
	free(registered);
}

/* Memory of the program where pinned memory was. */
static void reuse(void)
{
	CUdeviceptr ptr;
	char *pinned, *plain;
	int i;

	program_begin();
	OK(cuMemAlloc(&ptr, MIB));
	for (i = 0; i < 4; i++) {
		OK(cuMemAllocHost((void **)&pinned, MIB));
		OK(cuMemcpyHtoD(ptr, pinned, MIB));
		OK(cuMemFreeHost(pinned));
		plain = mmap(pinned, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		OK(plain == MAP_FAILED);
		OK(cuMemcpyHtoD(ptr, plain, MIB));
		OK(cuMemcpyDtoH(plain + 100, ptr, 1000));
		munmap(plain, MIB);
	}
	OK(cuMemFree(ptr));
}

static void failures(void)
{
	CUmemPoolProps props = { .allocType = 77 };
	CUmemoryPool pool;
	CUdeviceptr ptr, other;
	CUstream stream;
	CUevent event;
	CUcontext ctx;
	size_t size;
	float time;
	int device;

	BAD(cuStreamCreate(&stream, 0));
	ctx = program_begin();
	OK(cuCtxSetCurrent(NULL));
	BAD(cuMemAlloc(&ptr, BYTES));
	OK(cuCtxSetCurrent(ctx));
	BAD(cuDeviceGet(&device, 1000));
	BAD(cuMemAlloc(&other, (size_t)1 << 50));
	BAD(cuMemAlloc(&other, 0));
	BAD(cuMemPoolCreate(&pool, &props));
	BAD(cuMemPoolCreate(&pool, NULL));
	OK(cuMemAlloc(&ptr, BYTES));
	BAD(cuMemFree(ptr + 256));
	BAD(cuMemsetD8(ptr, 0, 2 * BYTES));
	BAD(cuMemGetAddressRange(&other, &size, 12345));
	OK(cuMemFree(ptr));
	BAD(cuMemFree(ptr));
	OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	OK(cuEventRecord(event, NULL));
	BAD(cuEventElapsedTime(&time, event, event));
	OK(cuEventDestroy(event));
	BAD(cuEventCreate(&event, 1000));
	BAD(cuStreamCreate(&stream, 99));
}

struct side {
	CUcontext ctx;
	CUevent event;
};

static void *side_work(void *arg)
{
	struct side *side = arg;
	CUdeviceptr ptr;
	CUstream stream;
	int i;

	OK(cuCtxSetCurrent(side->ctx));
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (i = 0; i < 200; i++) {
		OK(cuMemAllocAsync(&ptr, 1000 * (size_t)(i + 1), stream));
		OK(cuMemsetD8Async(ptr, 1, 1000, stream));
		OK(cuMemFreeAsync(ptr, stream));
		OK(cuMemAlloc(&ptr, BYTES));
		OK(cuMemFree(ptr));
	}
	OK(cuEventRecord(side->event, stream));
	OK(cuEventSynchronize(side->event));
	OK(cuStreamDestroy(stream));
	return NULL;
}

static void threads(void)
{
	struct side side[4];
	pthread_t thread[4];
	int i;

	side[0].ctx = program_begin();
	for (i = 0; i < 4; i++) {
		side[i].ctx = side[0].ctx;
		OK(cuEventCreate(&side[i].event, 0));
		if (pthread_create(&thread[i], NULL, side_work, &side[i]))
			_exit(3);
	}
	for (i = 0; i < 4; i++) {
		pthread_join(thread[i], NULL);
		OK(cuEventDestroy(side[i].event));
	}
}

static void CUDA_CB host_function(void *arg)
{
	CUevent *events = arg;

	/* A call inside a host function, which the driver's thread makes. */
	OK(cuEventRecord(events[0], (CUstream)events[1]));
}

/* The CPU writes the value that a stream waits for, and functions run in stream order. */
static void waits(void)
{
	CUstream stream, other;
	CUdeviceptr word;
	CUevent events[2];
	uint32_t *flag;

	program_begin();
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	OK(cuEventCreate(&events[0], 0));
	events[1] = (CUevent)other;
	OK(cuMemHostAlloc((void **)&flag, BYTES, CU_MEMHOSTALLOC_DEVICEMAP));
	OK(cuMemHostGetDevicePointer(&word, flag, 0));
	flag[0] = flag[1] = 0;
	OK(cuStreamWaitValue32(stream, word, 5, CU_STREAM_WAIT_VALUE_GEQ));
	OK(cuLaunchHostFunc(stream, host_function, events));
	*(volatile uint32_t *)flag = 6;
	OK(cuStreamWaitValue32(stream, word + 4, 3, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuStreamWriteValue32(other, word + 4, 3, 0));
	OK(cuStreamSynchronize(stream));
	OK(cuStreamSynchronize(other));
	OK(cuMemFreeHost(flag));
	OK(cuEventDestroy(events[0]));
	OK(cuStreamDestroy(stream));
	OK(cuStreamDestroy(other));
}

static void batches(void)
{
	CUstreamBatchMemOpParams ops[3] = { 0 };
	CUstream stream, other;
	CUdeviceptr word;
	uint32_t *flag;

	program_begin();
	OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
	OK(cuMemHostAlloc((void **)&flag, BYTES, CU_MEMHOSTALLOC_DEVICEMAP));
	OK(cuMemHostGetDevicePointer(&word, flag, 0));
	memset(flag, 0, BYTES);
	/* One value is written by a stream, the other one by the CPU. */
	ops[0].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
	ops[0].waitValue.address = word;
	ops[0].waitValue.value = 9;
	ops[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_64;
	ops[1].waitValue.address = word + 64;
	ops[1].waitValue.value64 = (cuuint64_t)1 << 40;
	ops[2].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
	ops[2].writeValue.address = word + 128;
	ops[2].writeValue.value = 1;
	OK(cuStreamBatchMemOp(stream, 3, ops, 0));
	OK(cuStreamWaitValue32(other, word + 128, 1, CU_STREAM_WAIT_VALUE_EQ));
	*(volatile uint64_t *)(flag + 16) = (uint64_t)1 << 40;
	ops[2].writeValue.address = word;
	ops[2].writeValue.value = 9;
	OK(cuStreamBatchMemOp(NULL, 1, &ops[2], 0));
	OK(cuStreamSynchronize(other));
	OK(cuStreamSynchronize(stream));
	OK(cuMemFreeHost(flag));
	OK(cuStreamDestroy(stream));
	OK(cuStreamDestroy(other));
}

/* Outputs of all kinds, and locations by value. */
static void attributes(void)
{
	CUpointer_attribute names[2] = { CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE };
	CUmem_range_attribute ranges[2] = { CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
					    CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION };
	CUmemLocation device = { CU_MEM_LOCATION_TYPE_DEVICE, 0 };
	CUcontext ctx, found;
	CUdeviceptr managed, base;
	CUmemorytype type;
	int mostly, where, on = 1;
	size_t sizes[2] = { 4, 4 }, size;
	void *outputs[2] = { &found, &type }, *data[2] = { &mostly, &where };
	CUstream stream;
	char name[64];

	ctx = program_begin();
	OK(cuDeviceGetName(name, sizeof(name), 0));
	OK(cuStreamCreate(&stream, 0));
	OK(cuStreamGetCtx(stream, &found));
	OK(found != ctx);
	OK(cuCtxSetCurrent(found));
	OK(cuMemAllocManaged(&managed, 4 * MIB, CU_MEM_ATTACH_GLOBAL));
	OK(cuMemAdvise(managed, 2 * MIB, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
	OK(cuMemAdvise(managed, 2 * MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, device));
	BAD(cuMemAdvise(managed, 2 * MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION,
			(CUmemLocation) { CU_MEM_LOCATION_TYPE_DEVICE, 99 }));
	OK(cuMemPrefetchAsync(managed, 2 * MIB, device, 0, stream));
	OK(cuPointerGetAttributes(2, names, outputs, managed + 100));
	OK(cuMemRangeGetAttributes(data, sizes, ranges, 2, managed, 2 * MIB));
	OK(cuMemRangeGetAttribute(&where, sizeof(where), ranges[1], managed, 2 * MIB));
	OK(cuMemGetAddressRange(&base, &size, managed + 5000));
	OK(cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, managed));
	OK(cuStreamSynchronize(stream));
	OK(cuMemFree(base));
	OK(cuStreamDestroy(stream));
}

/* Another process opens memory: a structure by value. */
static void importer(void)
{
	CUipcMemHandle handle;
	CUdeviceptr ptr;

	if (read(STDIN_FILENO, &handle, sizeof(handle)) != sizeof(handle))
		_exit(3);
	program_begin();
	OK(cuIpcOpenMemHandle(&ptr, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	OK(cuMemsetD8(ptr, 5, BYTES));
	OK(cuCtxSynchronize());
	OK(cuIpcCloseMemHandle(ptr));
}

static void exporter(void)
{
	char *self = build_path("selftests/t_record");
	CUipcMemHandle handle;
	int pipes[2], status;
	CUdeviceptr ptr;
	pid_t pid;

	program_begin();
	OK(cuMemAlloc(&ptr, BYTES));
	OK(cuIpcGetMemHandle(&handle, ptr));
	if (pipe(pipes) || write(pipes[1], &handle, sizeof(handle)) != sizeof(handle))
		_exit(3);
	pid = fork();
	if (!pid) {
		dup2(pipes[0], STDIN_FILENO);
		execl(self, self, "--program", "importer", (char *)NULL);
		_exit(127);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		_exit(3);
	OK(cuMemFree(ptr));
}

static void runtime(void)
{
	cudaStream_t stream;
	void *ptr, *async, *host;
	cudaEvent_t event;
	char bytes[256] = { 0 };

	OK(cudaSetDevice(0));
	OK(cudaMalloc(&ptr, MIB));
	OK(cudaMallocHost(&host, BYTES));
	OK(cudaStreamCreate(&stream));
	OK(cudaEventCreate(&event));
	OK(cudaMemset(ptr, 1, MIB));
	OK(cudaMemcpyAsync(host, ptr, BYTES, cudaMemcpyDeviceToHost, stream));
	OK(cudaMallocAsync(&async, 100000, stream));
	OK(cudaMemcpyAsync(async, bytes, sizeof(bytes), cudaMemcpyHostToDevice, stream));
	OK(cudaEventRecord(event, stream));
	OK(cudaFreeAsync(async, stream));
	OK(cudaEventSynchronize(event));
	BAD(cudaMalloc(&async, (size_t)1 << 50));
	OK(cudaEventDestroy(event));
	OK(cudaStreamDestroy(stream));
	OK(cudaFreeHost(host));
	OK(cudaFree(ptr));
}

/* Handles and addresses are given out again. */
static void again(void)
{
	CUdeviceptr ptr;
	CUstream stream;
	CUevent event;
	int i;

	program_begin();
	for (i = 0; i < 300; i++) {
		OK(cuStreamCreate(&stream, 0));
		OK(cuEventCreate(&event, 0));
		OK(cuMemAlloc(&ptr, BYTES * (size_t)(1 + i % 5)));
		OK(cuMemsetD8Async(ptr + 1, 0, BYTES - 1, stream));
		OK(cuEventRecord(event, stream));
		OK(cuStreamSynchronize(stream));
		OK(cuMemFree(ptr));
		OK(cuEventDestroy(event));
		OK(cuStreamDestroy(stream));
	}
}

/* Functions that a program looks up. */
static void lookup(void)
{
	void *library = dlopen("libgpumem.so.1", RTLD_NOW);
	CUresult (*get_proc)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
	CUresult (*alloc)(CUdeviceptr *, size_t), (*release)(CUdeviceptr);
	CUresult (*async)(CUdeviceptr *, size_t, CUstream), (*free_async)(CUdeviceptr, CUstream);
	CUdriverProcAddressQueryResult status;
	CUdeviceptr ptr;
	CUstream stream;

	program_begin();
	OK(cuStreamCreate(&stream, 0));
	alloc = (CUresult (*)(CUdeviceptr *, size_t))dlsym(library, "cuMemAlloc_v2");
	get_proc = (CUresult (*)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *))
		dlsym(library, "cuGetProcAddress_v2");
	if (!alloc || !get_proc)
		_exit(3);
	OK(get_proc("cuMemFree", (void **)&release, 12000, 0, &status));
	OK(get_proc("cuMemAllocAsync", (void **)&async, 12000, 0, &status));
	OK(get_proc("cuMemFreeAsync", (void **)&free_async, 12000, 0, &status));
	OK(alloc(&ptr, BYTES));
	OK(release(ptr));
	OK(async(&ptr, BYTES, stream));
	OK(free_async(ptr, stream));
	OK(cuStreamDestroy(stream));
}

/* The forms whose stream 0 is the thread's own. */
static void own(void)
{
	CUdeviceptr ptr;

	program_begin();
	OK(cuMemAllocAsync_ptsz(&ptr, BYTES, NULL));
	OK(cuMemsetD8Async_ptsz(ptr, 1, BYTES, NULL));
	OK(cuMemcpyDtoD_v2_ptds(ptr, ptr + 1024, 512));
	OK(cuMemFreeAsync_ptsz(ptr, NULL));
	OK(cuStreamSynchronize_ptsz(NULL));
	/* The legacy stream, by its name. */
	OK(cuMemAllocAsync(&ptr, BYTES, CU_STREAM_LEGACY));
	OK(cuMemFreeAsync(ptr, CU_STREAM_LEGACY));
}

static void forks(void)
{
	CUdeviceptr ptr;
	int status;
	pid_t pid;

	program_begin();
	OK(cuMemAlloc(&ptr, BYTES));
	pid = fork();
	if (!pid) {
		/* Not initialized in a child. */
		BAD(cuMemAlloc(&ptr, 77));
		exit(0);
	}
	if (waitpid(pid, &status, 0) != pid || status)
		_exit(3);
	OK(cuMemFree(ptr));
}

static void killed(void)
{
	CUdeviceptr ptr;

	program_begin();
	OK(cuMemAlloc(&ptr, BYTES));
	OK(cuMemsetD8(ptr, 0, BYTES));
	kill(getpid(), SIGKILL);
}

/* Gaps, of which the replay keeps the length with --pace. */
static void slow(void)
{
	CUdeviceptr ptr;

	program_begin();
	OK(cuMemAlloc(&ptr, BYTES));
	usleep(700000);
	OK(cuMemFree(ptr));
}

static const struct program programs[] = {
	{ "pools", pools }, { "mappings", mappings }, { "copies", copies }, { "failures", failures },
	{ "threads", threads }, { "waits", waits }, { "runtime", runtime }, { "again", again }, { "lookup", lookup },
	{ "batches", batches }, { "attributes", attributes }, { "importer", importer }, { "exporter", exporter },
	{ "own", own }, { "reuse", reuse }, { "forks", forks }, { "killed", killed }, { "slow", slow },
};

/* ---- tests */

FIXTURE(record)
{
	char *tap, *preload;
	struct output *output;
	struct contents a, b;
};

FIXTURE_SETUP(record)
{
	if (!tools_there())
		SKIP(return, "the tools are not built");
	self->tap = trace_path("tap");
	self->preload = trace_path("preload");
	self->output = malloc(sizeof(*self->output));
	ASSERT_NE(NULL, self->output);
}

FIXTURE_TEARDOWN(record)
{
	unlink(self->tap);
	unlink(self->preload);
	free(self->output);
	contents_free(&self->a);
	contents_free(&self->b);
}

/* A replay whose results all agree. */
static void agrees(struct __test_metadata *_metadata, struct output *output, const char *trace, const char *option)
{
	replay(output, trace, option, NULL);
	EXPECT_EQ(0, output->status)
		TH_LOG("%s", output->text);
	EXPECT_NE(NULL, strstr(output->text, ", 0 differ"))
		TH_LOG("%s", output->text);
}

/* Record a program both ways. @skipped: calls that the replay leaves out, in the trace of the tap and of the preload. */
static void both(struct __test_metadata *_metadata, FIXTURE_DATA(record) *self, const char *name, unsigned int tap_skips,
		 unsigned int preload_skips)
{
	char text[32];
	unsigned int i;

	ASSERT_EQ(0, record_program(name, self->tap, false));
	ASSERT_EQ(0, record_program(name, self->preload, true));
	ASSERT_TRUE(contents_read(&self->a, self->tap));
	ASSERT_TRUE(contents_read(&self->b, self->preload));
	EXPECT_TRUE(self->a.closed);
	EXPECT_TRUE(self->b.closed);
	EXPECT_LT(2, self->a.calls);
	ASSERT_EQ(self->a.calls, self->b.calls);
	for (i = 0; i < self->a.calls; i++)
		EXPECT_STREQ(self->a.call[i], self->b.call[i]);
	agrees(_metadata, self->output, self->tap, NULL);
	snprintf(text, sizeof(text), " ms, %u skipped", tap_skips);
	EXPECT_NE(NULL, strstr(self->output->text, text))
		TH_LOG("%s", self->output->text);
	agrees(_metadata, self->output, self->preload, NULL);
	snprintf(text, sizeof(text), " ms, %u skipped", preload_skips);
	EXPECT_NE(NULL, strstr(self->output->text, text))
		TH_LOG("%s", self->output->text);
}

TEST_F(record, pools)
{
	both(_metadata, self, "pools", 0, 0);
	EXPECT_LT(0, self->a.samples);
	EXPECT_LT(0, self->b.samples);
	EXPECT_NE(NULL, strstr(self->output->text, "pool 1 "));
}

TEST_F(record, mappings)
{
	/* The import, and what uses it. */
	both(_metadata, self, "mappings", 2, 2);
}

TEST_F(record, copies)
{
	both(_metadata, self, "copies", 0, 0);
}

TEST_F(record, addresses_again)
{
	both(_metadata, self, "reuse", 0, 0);
}

TEST_F(record, threads)
{
	both(_metadata, self, "threads", 0, 0);
	EXPECT_NE(NULL, strstr(self->output->text, " of 5 threads"));
}

TEST_F(record, waits)
{
	both(_metadata, self, "waits", 0, 0);
}

TEST_F(record, batches)
{
	both(_metadata, self, "batches", 0, 0);
}

TEST_F(record, attributes)
{
	both(_metadata, self, "attributes", 0, 0);
}

/* The second process has a trace of its own, in which the import and what depends on it are skipped. */
TEST_F(record, two_processes)
{
	char pattern[300];
	glob_t found;

	both(_metadata, self, "exporter", 0, 0);
	snprintf(pattern, sizeof(pattern), "%s.*", self->preload);
	ASSERT_EQ(0, glob(pattern, 0, NULL, &found));
	ASSERT_EQ(1, found.gl_pathc);
	contents_free(&self->a);
	ASSERT_TRUE(contents_read(&self->a, found.gl_pathv[0]));
	EXPECT_EQ(1, calls_of(&self->a, "cuIpcOpenMemHandle_v2 0"));
	EXPECT_EQ(1, calls_of(&self->a, "cuMemsetD8_v2 0"));
	agrees(_metadata, self->output, found.gl_pathv[0], NULL);
	EXPECT_NE(NULL, strstr(self->output->text, " ms, 3 skipped"))
		TH_LOG("%s", self->output->text);
	unlink(found.gl_pathv[0]);
	globfree(&found);
	snprintf(pattern, sizeof(pattern), "%s.*", self->tap);
	if (!glob(pattern, 0, NULL, &found)) {
		unlink(found.gl_pathv[0]);
		globfree(&found);
	}
}

TEST_F(record, runtime)
{
	both(_metadata, self, "runtime", 0, 0);
	EXPECT_LT(0, calls_of(&self->a, "cuMemAlloc_v2 2"));
}

TEST_F(record, handles_again)
{
	both(_metadata, self, "again", 0, 0);
}

TEST_F(record, lookup)
{
	both(_metadata, self, "lookup", 0, 0);
	EXPECT_EQ(1, calls_of(&self->b, "cuMemAlloc_v2 0"));
	EXPECT_EQ(1, calls_of(&self->b, "cuMemFree_v2 0"));
	EXPECT_EQ(1, calls_of(&self->b, "cuMemAllocAsync 0"));
	EXPECT_EQ(1, calls_of(&self->b, "cuMemFreeAsync 0"));
}

TEST_F(record, own_streams)
{
	both(_metadata, self, "own", 0, 0);
	EXPECT_EQ(1, calls_of(&self->a, "cuMemAllocAsync_ptsz 0"));
	EXPECT_EQ(1, calls_of(&self->a, "cuMemFreeAsync_ptsz 0"));
}

/* The tap has no calls before cuInit(). */
TEST_F(record, failures)
{
	ASSERT_EQ(0, record_program("failures", self->tap, false));
	ASSERT_EQ(0, record_program("failures", self->preload, true));
	ASSERT_TRUE(contents_read(&self->a, self->tap));
	ASSERT_TRUE(contents_read(&self->b, self->preload));
	EXPECT_EQ(0, calls_of(&self->a, "cuStreamCreate 3"));
	EXPECT_EQ(1, calls_of(&self->b, "cuStreamCreate 3"));
	EXPECT_EQ(self->a.calls + 1, self->b.calls);
	agrees(_metadata, self->output, self->tap, NULL);
	agrees(_metadata, self->output, self->preload, NULL);
}

/* A child that fork() made records nothing, and the parent's trace is whole. */
TEST_F(record, forks)
{
	both(_metadata, self, "forks", 0, 0);
	EXPECT_EQ(1, calls_of(&self->a, "cuMemAlloc_v2"));
	EXPECT_EQ(1, calls_of(&self->b, "cuMemAlloc_v2"));
}

TEST_F(record, killed)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		EXPECT_EQ(-SIGKILL, record_program("killed", self->tap, i));
		contents_free(&self->a);
		ASSERT_TRUE(contents_read(&self->a, self->tap));
		EXPECT_FALSE(self->a.closed);
		EXPECT_EQ(1, calls_of(&self->a, "cuMemsetD8_v2 0"));
		agrees(_metadata, self->output, self->tap, NULL);
		EXPECT_NE(NULL, strstr(self->output->text, "was not closed"));
	}
}

TEST_F(record, pace)
{
	struct timespec begin, end;
	double fast, paced;

	ASSERT_EQ(0, record_program("slow", self->preload, true));
	clock_gettime(CLOCK_MONOTONIC, &begin);
	agrees(_metadata, self->output, self->preload, NULL);
	clock_gettime(CLOCK_MONOTONIC, &end);
	fast = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
	begin = end;
	agrees(_metadata, self->output, self->preload, "--pace");
	clock_gettime(CLOCK_MONOTONIC, &end);
	paced = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
	EXPECT_LE(0.7, paced);
	EXPECT_LT(fast, paced);
}

/* The file exists: another one is written. */
TEST_F(record, keeps_a_file)
{
	char other[300], text[16] = "";
	int fd = open(self->tap, O_RDWR | O_CREAT | O_TRUNC, 0600), status;
	pid_t pid;

	ASSERT_EQ(4, write(fd, "mine", 4));
	pid = fork();
	if (!pid) {
		setenv("GPUMEM_RECORD", self->tap, 1);
		execl(build_path("selftests/t_record"), "t_record", "--program", "again", (char *)NULL);
		_exit(127);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
	EXPECT_EQ(4, pread(fd, text, sizeof(text), 0));
	EXPECT_STREQ("mine", text);
	close(fd);
	snprintf(other, sizeof(other), "%s.%d", self->tap, pid);
	agrees(_metadata, self->output, other, NULL);
	unlink(other);
}

/* With the checker, both see the calls. */
TEST_F(record, beside_the_checker)
{
	setenv("GPUMEM_CHECK", "log", 1);
	EXPECT_EQ(0, record_program("threads", self->tap, false));
	unsetenv("GPUMEM_CHECK");
	ASSERT_TRUE(contents_read(&self->a, self->tap));
	EXPECT_EQ(800, calls_of(&self->a, "cuMemAllocAsync 0"));
	agrees(_metadata, self->output, self->tap, NULL);
}

/* A result that the replay does not have. */
TEST_F(record, difference)
{
	struct trace_call *call;
	unsigned int changed = 0;
	size_t at;
	int fd;

	ASSERT_EQ(0, record_program("again", self->preload, true));
	ASSERT_TRUE(contents_read(&self->a, self->preload));
	for (at = sizeof(struct trace_header); at < self->a.size && !changed; at += call->record.size) {
		call = (void *)(self->a.data + at);
		if (call->record.type == TRACE_CALL && !call->result) {
			call->result = CUDA_ERROR_NOT_SUPPORTED;
			/* Not the last call: cuInit(). */
			changed = 1;
		}
	}
	fd = open(self->preload, O_WRONLY);
	ASSERT_EQ((ssize_t)self->a.size, pwrite(fd, self->a.data, self->a.size, 0));
	close(fd);
	replay(self->output, self->preload, NULL, NULL);
	EXPECT_EQ(1, self->output->status);
	EXPECT_NE(NULL, strstr(self->output->text, ", 1 differ"));
	EXPECT_NE(NULL, strstr(self->output->text, "NOT_SUPPORTED recorded, SUCCESS replayed"));
}

/* Traces with random damage end with a message or with differences, never by a signal. */
TEST_F_TIMEOUT(record, damaged, 240)
{
	static const char *const names[] = { "copies", "mappings", "pools", "waits" };
	unsigned int i, j, rounds = getenv("GPUMEM_THOROUGH") ? 100 : 20;
	unsigned int seed = 1, hung = 0;

	for (i = 0; i < 4; i++) {
		ASSERT_EQ(0, record_program(names[i], self->preload, true));
		contents_free(&self->a);
		ASSERT_TRUE(contents_read(&self->a, self->preload));
		for (j = 0; j < rounds; j++) {
			size_t at = sizeof(struct trace_header) + (size_t)rand_r(&seed) % (self->a.size - sizeof(struct trace_header));
			char kept = self->a.data[at];
			int fd = open(self->preload, O_WRONLY);

			self->a.data[at] = (char)(kept ^ (1 << rand_r(&seed) % 8));
			ASSERT_EQ((ssize_t)self->a.size, pwrite(fd, self->a.data, self->a.size, 0));
			close(fd);
			replay(self->output, self->preload, "--timeout", "5");
			EXPECT_TRUE(self->output->status >= 0 && self->output->status <= 3)
				TH_LOG("%s, byte %zu, was %d, is %d: status %d", names[i], at, kept, self->a.data[at],
				       self->output->status);
			self->a.data[at] = kept;
			hung += self->output->status == 3;
		}
	}
	/* Few: a damaged value that a stream waits for. */
	EXPECT_GE(rounds / 4, hung);
}

int main(int argc, char **argv)
{
	size_t i;

	if (argc == 3 && !strcmp(argv[1], "--program")) {
		for (i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
			if (!strcmp(programs[i].name, argv[2])) {
				programs[i].body();
				return 0;
			}
		return 127;
	}
	return test_harness_run(argc, argv);
}
