// SPDX-License-Identifier: GPL-2.0
/*
 * Tests the runtime API, as libgpumem exports it beside the driver API: when contexts are made,
 * what the last error is, devices, streams, events and other processes.
 *
 * Other programs test the functions below the runtime API through the driver API; this program
 * tests how the runtime API calls them.  t_cuda_rt_mem tests memory and copies, t_cuda_rt_so the
 * library under the name libcudart.
 */
#include <pthread.h>

#include "kselftest_harness.h"
#include "cuda_rt_util.h"

QUIET_FIXTURE(rt)

static bool active(int device)
{
	unsigned int flags;
	int is = -1;

	return !cuDevicePrimaryCtxGetState(device, &flags, &is) && is == 1;
}

/* The current context, as the driver sees it. */
static CUcontext current(void)
{
	CUcontext ctx = NULL;

	cuCtxGetCurrent(&ctx);
	return ctx;
}

/* Run a function in a thread of its own; returns its result. */
static void *in_thread(void *(*run)(void *), void *arg)
{
	pthread_t thread;
	void *result = NULL;

	if (pthread_create(&thread, NULL, run, arg) || pthread_join(thread, &result))
		abort();
	return result;
}

/* --- contexts */

TEST_F(rt, nothing_early)
{
	struct cudaDeviceProp prop;
	int count = 0, value = 0;
	CUcontext ctx;

	/* The version functions work without a device and without cuInit(). */
	EXPECT_RT(cudaRuntimeGetVersion(&value));
	EXPECT_EQ(13030, value);
	EXPECT_RT(cudaDriverGetVersion(&value));
	EXPECT_EQ(13030, value);
	EXPECT_FAILS(BAD, cudaRuntimeGetVersion(NULL));
	EXPECT_FAILS(BAD, cudaDriverGetVersion(NULL));
	EXPECT_EQ(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&count));
	/* cudaGetDeviceCount() initializes the driver, but makes no context. */
	EXPECT_RT(cudaGetDeviceCount(&count));
	EXPECT_CU(cuDeviceGetCount(&value));
	EXPECT_EQ(value, count);
	EXPECT_LE(2, count);
	EXPECT_RT(cudaGetDevice(&value));
	EXPECT_EQ(0, value);
	EXPECT_RT(cudaGetDeviceProperties(&prop, 1));
	EXPECT_RT(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 0));
	EXPECT_EQ(32, value);
	EXPECT_FAILS(BAD, cudaGetDeviceCount(NULL));
	EXPECT_FAILS(BAD, cudaGetDevice(NULL));
	EXPECT_FALSE(active(0));
	EXPECT_FALSE(active(1));
	EXPECT_EQ(NULL, current());
	/* The first function that needs a context makes it. */
	EXPECT_RT(cudaFree(NULL));
	EXPECT_TRUE(active(0));
	EXPECT_FALSE(active(1));
	ASSERT_CU(cuDevicePrimaryCtxRetain(&ctx, 0));
	EXPECT_EQ(ctx, current());
	EXPECT_CU(cuDevicePrimaryCtxRelease(0));
	EXPECT_TRUE(active(0));
	EXPECT_RT(cudaDeviceReset());
	EXPECT_FALSE(active(0));
}

static void *other_thread(void *arg)
{
	int *device = arg;
	void *p = NULL;

	if (current() || cudaGetDevice(&device[0]) || cudaMalloc(&p, 4096) ||
	    cudaGetDevice(&device[1]))
		return NULL;
	return p;
}

TEST_F(rt, set_device)
{
	int device = -1, seen[2] = { -1, -1 }, ordinal;
	CUcontext one, made;
	unsigned int flags;
	void *p, *q;

	EXPECT_FAILS(cudaErrorInvalidDevice, cudaSetDevice(-1));
	EXPECT_FAILS(cudaErrorInvalidDevice, cudaSetDevice(99));
	EXPECT_EQ(NULL, current());
	/* cudaSetDevice() makes the context at once. */
	ASSERT_RT(cudaSetDevice(1));
	EXPECT_TRUE(active(1));
	EXPECT_FALSE(active(0));
	one = current();
	ASSERT_NE(NULL, one);
	EXPECT_CU(cuCtxGetDevice(&ordinal));
	EXPECT_EQ(1, ordinal);
	EXPECT_RT(cudaGetDevice(&device));
	EXPECT_EQ(1, device);
	ASSERT_RT(cudaMalloc(&p, 4096));
	EXPECT_CU(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, addr(p)));
	EXPECT_EQ(1, ordinal);
	/* Each thread has its own current device. */
	q = in_thread(other_thread, seen);
	ASSERT_NE(NULL, q);
	EXPECT_EQ(0, seen[0]);
	EXPECT_EQ(0, seen[1]);
	EXPECT_CU(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, addr(q)));
	EXPECT_EQ(0, ordinal);
	EXPECT_RT(cudaFree(q));
	/* The runtime uses a context that the program made. */
	ASSERT_CU(cuCtxCreate(&made, NULL, CU_CTX_SCHED_YIELD, 0));
	EXPECT_RT(cudaGetDevice(&device));
	EXPECT_EQ(0, device);
	ASSERT_RT(cudaMalloc(&q, 4096));
	EXPECT_EQ(made, current());
	EXPECT_CU(cuPointerGetAttribute(&one, CU_POINTER_ATTRIBUTE_CONTEXT, addr(q)));
	EXPECT_EQ(made, one);
	EXPECT_RT(cudaFree(q));
	EXPECT_CU(cuCtxDestroy(made));
	EXPECT_RT(cudaGetDevice(&device));
	EXPECT_EQ(1, device);
	EXPECT_RT(cudaFree(p));
	/* Flags; cudaInitDevice() makes a device's context, but not the current device. */
	EXPECT_RT(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync));
	EXPECT_RT(cudaGetDeviceFlags(&flags));
	EXPECT_EQ(cudaDeviceScheduleBlockingSync, flags);
	EXPECT_FAILS(BAD, cudaSetDeviceFlags(0x100));
	EXPECT_FAILS(BAD, cudaSetDeviceFlags(cudaDeviceScheduleSpin | cudaDeviceScheduleYield));
	EXPECT_FAILS(BAD, cudaInitDevice(0, 0, 2));
	EXPECT_FAILS(cudaErrorInvalidDevice, cudaInitDevice(99, 0, 0));
	EXPECT_RT(cudaInitDevice(0, cudaDeviceScheduleSpin, cudaInitDeviceFlagsAreValid));
	EXPECT_TRUE(active(0));
	EXPECT_RT(cudaGetDevice(&device));
	EXPECT_EQ(1, device);
	EXPECT_FAILS(BAD, cudaSetValidDevices(NULL, 1));
	device = 99;
	EXPECT_FAILS(cudaErrorInvalidDevice, cudaSetValidDevices(&device, 1));
	device = 1;
	EXPECT_RT(cudaSetValidDevices(&device, 1));
	q = in_thread(other_thread, seen);
	EXPECT_EQ(1, seen[0]);
	EXPECT_EQ(1, seen[1]);
	EXPECT_RT(cudaFree(q));
}

static void *reset_thread(void *arg)
{
	return (void *)(uintptr_t)(cudaSetDevice(*(int *)arg) || cudaDeviceReset() || current());
}

TEST_F(rt, reset)
{
	int device = 1;
	cudaStream_t stream;
	void *p, *q = NULL;

	ASSERT_RT(cudaSetDevice(1));
	ASSERT_RT(cudaMalloc(&p, 4096));
	ASSERT_RT(cudaStreamCreate(&stream));
	EXPECT_LT(0, used(1));
	/* A reset ends the context for all threads; the next call makes a new one. */
	EXPECT_EQ(NULL, in_thread(reset_thread, &device));
	EXPECT_FALSE(active(1));
	EXPECT_EQ(0, used(1));
	EXPECT_RT(cudaGetDevice(&device));
	EXPECT_EQ(1, device);
	EXPECT_FAILS(BAD, cudaFree(p));
	EXPECT_TRUE(active(1));
	EXPECT_FAILS(cudaErrorInvalidResourceHandle, cudaStreamSynchronize(stream));
	ASSERT_RT(cudaMalloc(&q, 4096));
	EXPECT_RT(cudaMemset(q, 0x11, 4096));
	EXPECT_RT(cudaDeviceSynchronize());
	EXPECT_TRUE(sees(addr(q), 0x11, 4096));
	/* A reset by the thread that uses the device. */
	EXPECT_RT(cudaDeviceReset());
	EXPECT_EQ(NULL, current());
	EXPECT_RT(cudaGetDevice(&device));
	EXPECT_EQ(1, device);
	ASSERT_RT(cudaMalloc(&p, 4096));
	EXPECT_RT(cudaGetDevice(&device));
	EXPECT_EQ(1, device);
	EXPECT_RT(cudaFree(p));
}

static int forked(void *arg)
{
	void *p = arg;

	/* The child has no driver, and returns that error instead of using the parent's. */
	return cudaMalloc(&p, 4096) != cudaErrorInitializationError ||
		cudaGetLastError() != cudaErrorInitializationError ||
		cudaFree(arg) != cudaErrorInitializationError;
}

TEST_F(rt, fork)
{
	void *p;

	ASSERT_RT(cudaMalloc(&p, 4096));
	EXPECT_EQ(0, run_child(forked, p));
	EXPECT_RT(cudaMemset(p, 1, 4096));
	EXPECT_RT(cudaFree(p));
}

/* --- errors */

static void *error_thread(void *arg)
{
	int none = cudaPeekAtLastError();

	(void)arg;
	cudaSetDevice(99);
	return (void *)(uintptr_t)(none || cudaPeekAtLastError() != cudaErrorInvalidDevice);
}

TEST_F(rt, last_error)
{
	CUresult result;
	void *p;

	EXPECT_EQ(cudaSuccess, cudaGetLastError());
	EXPECT_EQ(BAD, cudaMalloc(NULL, 1));
	/* A success leaves the last error, an error replaces it, and each thread has its own. */
	EXPECT_RT(cudaMalloc(&p, 1));
	EXPECT_EQ(BAD, cudaPeekAtLastError());
	EXPECT_EQ(NULL, in_thread(error_thread, NULL));
	EXPECT_EQ(BAD, cudaPeekAtLastError());
	EXPECT_EQ(cudaErrorMemoryAllocation, cudaMalloc(&p, 1ULL << 46));
	EXPECT_EQ(NULL, p);
	EXPECT_EQ(cudaErrorMemoryAllocation, cudaGetLastError());
	EXPECT_EQ(cudaSuccess, cudaGetLastError());
	/* An error of the driver API does not become the last error. */
	result = cuMemFree(1);
	EXPECT_EQ(INVALID, result);
	EXPECT_EQ(cudaSuccess, cudaPeekAtLastError());
	EXPECT_STREQ("cudaErrorMemoryAllocation", cudaGetErrorName(cudaErrorMemoryAllocation));
	EXPECT_STREQ("out of memory", cudaGetErrorString(cudaErrorMemoryAllocation));
	EXPECT_STREQ("unrecognized error code", cudaGetErrorName((cudaError_t)12345));
	EXPECT_STREQ("unrecognized error code", cudaGetErrorString((cudaError_t)-1));
}

TEST_F(rt, not_ready)
{
	volatile unsigned int *gate;
	cudaStream_t stream;
	cudaEvent_t event;
	void *p;

	ASSERT_RT(cudaHostAlloc((void **)&gate, 4096, cudaHostAllocDefault));
	*gate = 0;
	ASSERT_RT(cudaMalloc(&p, 4096));
	ASSERT_RT(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	ASSERT_RT(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	ASSERT_CU(cuStreamWaitValue32(stream, addr((void *)gate), 1, CU_STREAM_WAIT_VALUE_EQ));
	ASSERT_RT(cudaMemsetAsync(p, 0x22, 4096, stream));
	ASSERT_RT(cudaEventRecord(event, stream));
	/* cudaErrorNotReady does not become the last error. */
	EXPECT_EQ(cudaErrorNotReady, cudaStreamQuery(stream));
	EXPECT_EQ(cudaErrorNotReady, cudaEventQuery(event));
	EXPECT_EQ(cudaSuccess, cudaPeekAtLastError());
	*gate = 1;
	EXPECT_RT(cudaEventSynchronize(event));
	EXPECT_RT(cudaStreamQuery(stream));
	EXPECT_RT(cudaEventQuery(event));
	EXPECT_TRUE(sees(addr(p), 0x22, 4096));
	EXPECT_RT(cudaEventDestroy(event));
	EXPECT_RT(cudaStreamDestroy(stream));
	EXPECT_RT(cudaFree(p));
	EXPECT_RT(cudaFreeHost((void *)gate));
}

/* The error of failed work stays until the context ends. */
TEST_F(rt, sticky)
{
	struct gpumem_vm_unmap unmap = { .size = sizeof(unmap), .length = 4 * MIB };
	volatile unsigned int *gate;
	cudaStream_t stream;
	void *p, *q;
	int fd;

	ASSERT_RT(cudaHostAlloc((void **)&gate, 4096, cudaHostAllocDefault));
	*gate = 0;
	ASSERT_RT(cudaMalloc(&p, 4 * MIB));
	ASSERT_RT(cudaStreamCreate(&stream));
	ASSERT_CU(cuStreamWaitValue32(stream, addr((void *)gate), 1, CU_STREAM_WAIT_VALUE_EQ));
	ASSERT_RT(cudaMemsetAsync(p, 1, 4 * MIB, stream));
	/* Unmap the memory from the devices' address space without the library. */
	ASSERT_EQ(1, node_fds(&fd));
	unmap.addr = addr(p);
	for (unmap.vm = 1; unmap.vm < 64; unmap.vm++)
		if (!gp_ioctl(fd, GPUMEM_VM_UNMAP, &unmap) && unmap.unmapped)
			break;
	ASSERT_EQ(4 * MIB, unmap.unmapped);
	*gate = 1;
	EXPECT_EQ(cudaErrorIllegalAddress, cudaStreamSynchronize(stream));
	EXPECT_EQ(cudaErrorIllegalAddress, cudaGetLastError());
	EXPECT_EQ(cudaErrorIllegalAddress, cudaGetLastError());
	EXPECT_EQ(cudaErrorIllegalAddress, cudaMalloc(&q, 1));
	EXPECT_EQ(NULL, q);
	/* The other device works; cudaGetLastError() there returns the error once and clears it. */
	EXPECT_RT(cudaSetDevice(1));
	EXPECT_EQ(cudaErrorIllegalAddress, cudaGetLastError());
	EXPECT_EQ(cudaSuccess, cudaGetLastError());
	EXPECT_RT(cudaSetDevice(0));
	EXPECT_EQ(cudaErrorIllegalAddress, cudaDeviceSynchronize());
	EXPECT_RT(cudaDeviceReset());
	EXPECT_EQ(cudaErrorIllegalAddress, cudaGetLastError());
	EXPECT_EQ(cudaSuccess, cudaGetLastError());
	ASSERT_RT(cudaMalloc(&q, 4096));
	EXPECT_RT(cudaMemset(q, 2, 4096));
	EXPECT_RT(cudaDeviceSynchronize());
	EXPECT_RT(cudaFree(q));
}

/* --- streams and events */

struct seen {
	cudaStream_t stream;
	cudaError_t status, inside;
	unsigned int calls;
};

static void on_host(void *arg)
{
	struct seen *seen = arg;
	void *p;

	seen->inside = cudaMalloc(&p, 1);
	seen->calls++;
}

static void on_stream(cudaStream_t stream, cudaError_t status, void *arg)
{
	struct seen *seen = arg;

	seen->stream = stream;
	seen->status = status;
	seen->calls++;
}

TEST_F(rt, streams)
{
	cudaLaunchAttributeValue value = { .priority = 0 };
	struct seen seen = { .status = cudaErrorUnknown };
	cudaStream_t a, b;
	unsigned long long id_a, id_b;
	enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusActive;
	int least, greatest, priority, device;
	unsigned int flags;

	EXPECT_FAILS(BAD, cudaStreamCreate(NULL));
	EXPECT_FAILS(BAD, cudaStreamCreateWithFlags(&a, 2));
	EXPECT_RT(cudaDeviceGetStreamPriorityRange(&least, &greatest));
	EXPECT_EQ(0, least);
	EXPECT_EQ(-5, greatest);
	ASSERT_RT(cudaSetDevice(1));
	ASSERT_RT(cudaStreamCreateWithPriority(&a, cudaStreamNonBlocking, -99));
	ASSERT_RT(cudaStreamCreate(&b));
	EXPECT_RT(cudaStreamGetPriority(a, &priority));
	EXPECT_EQ(-5, priority);
	EXPECT_RT(cudaStreamGetFlags(a, &flags));
	EXPECT_EQ(cudaStreamNonBlocking, flags);
	EXPECT_RT(cudaStreamGetDevice(a, &device));
	EXPECT_EQ(1, device);
	EXPECT_RT(cudaStreamGetId(a, &id_a));
	EXPECT_RT(cudaStreamGetId(b, &id_b));
	EXPECT_NE(id_a, id_b);
	EXPECT_RT(cudaStreamCopyAttributes(b, a));
	EXPECT_RT(cudaStreamGetAttribute(b, cudaStreamAttributePriority, &value));
	EXPECT_EQ(-5, value.priority);
	value.priority = -1;
	EXPECT_RT(cudaStreamSetAttribute(b, cudaStreamAttributePriority, &value));
	EXPECT_RT(cudaStreamGetPriority(b, &priority));
	EXPECT_EQ(-1, priority);
	EXPECT_RT(cudaStreamIsCapturing(a, &capture));
	EXPECT_EQ(cudaStreamCaptureStatusNone, capture);
	/* Host functions and callbacks. */
	EXPECT_FAILS(BAD, cudaStreamAddCallback(a, NULL, &seen, 0));
	EXPECT_FAILS(BAD, cudaStreamAddCallback(a, on_stream, &seen, 1));
	EXPECT_FAILS(BAD, cudaLaunchHostFunc(a, NULL, &seen));
	EXPECT_RT(cudaLaunchHostFunc(a, on_host, &seen));
	EXPECT_FAILS(BAD, cudaLaunchHostFunc_v2(a, on_host, &seen, cudaHostTaskSpinWait + 1));
	EXPECT_RT(cudaLaunchHostFunc_v2(a, on_host, &seen, cudaHostTaskSpinWait));
	EXPECT_RT(cudaStreamAddCallback(a, on_stream, &seen, 0));
	EXPECT_RT(cudaStreamSynchronize(a));
	EXPECT_EQ(3, seen.calls);
	EXPECT_EQ(cudaErrorNotPermitted, seen.inside);
	EXPECT_EQ(a, seen.stream);
	EXPECT_EQ(cudaSuccess, seen.status);
	EXPECT_EQ(cudaSuccess, cudaPeekAtLastError());
	EXPECT_RT(cudaStreamAddCallback_ptsz(NULL, on_stream, &seen, 0));
	EXPECT_RT(cudaStreamSynchronize(cudaStreamPerThread));
	EXPECT_EQ(4, seen.calls);
	EXPECT_FAILS(cudaErrorInvalidResourceHandle, cudaStreamDestroy(NULL));
	EXPECT_FAILS(cudaErrorInvalidResourceHandle, cudaStreamDestroy(cudaStreamPerThread));
	EXPECT_RT(cudaStreamDestroy(a));
	EXPECT_FAILS(cudaErrorInvalidResourceHandle, cudaStreamQuery(a));
	EXPECT_RT(cudaStreamDestroy(b));
}

TEST_F(rt, events)
{
	cudaEvent_t start, end, quick;
	cudaStream_t a, b;
	unsigned char *p;
	float ms = -1;

	EXPECT_FAILS(BAD, cudaEventCreate(NULL));
	EXPECT_FAILS(BAD, cudaEventCreateWithFlags(&start, 8));
	EXPECT_FAILS(BAD, cudaEventCreateWithFlags(&start, cudaEventInterprocess));
	ASSERT_RT(cudaEventCreate(&start));
	ASSERT_RT(cudaEventCreate(&end));
	ASSERT_RT(cudaEventCreateWithFlags(&quick, cudaEventDisableTiming));
	ASSERT_RT(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
	ASSERT_RT(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
	ASSERT_RT(cudaMalloc((void **)&p, MIB));
	EXPECT_RT(cudaEventQuery(start));
	EXPECT_RT(cudaEventRecord(start, a));
	EXPECT_RT(cudaMemsetAsync(p, 0x77, MIB, a));
	EXPECT_RT(cudaEventRecordWithFlags(end, a, cudaEventRecordDefault));
	EXPECT_RT(cudaStreamWaitEvent(b, end, cudaEventWaitDefault));
	EXPECT_RT(cudaMemcpyAsync(p, p + MIB / 2, 1, cudaMemcpyDeviceToDevice, b));
	EXPECT_RT(cudaStreamSynchronize(b));
	EXPECT_RT(cudaEventQuery(end));
	EXPECT_RT(cudaEventElapsedTime(&ms, start, end));
	EXPECT_LE(0, ms);
	EXPECT_TRUE(sees(addr(p), 0x77, MIB));
	EXPECT_RT(cudaEventRecord_ptsz(quick, NULL));
	EXPECT_RT(cudaEventSynchronize(quick));
	EXPECT_FAILS(cudaErrorInvalidResourceHandle, cudaEventElapsedTime(&ms, start, quick));
	EXPECT_FAILS(BAD, cudaStreamWaitEvent(b, end, 8));
	EXPECT_RT(cudaEventDestroy(start));
	EXPECT_RT(cudaEventDestroy(end));
	EXPECT_RT(cudaEventDestroy(quick));
	EXPECT_RT(cudaStreamDestroy(a));
	EXPECT_RT(cudaStreamDestroy(b));
	EXPECT_RT(cudaFree(p));
}

/* --- devices */

#define CANARY	64

static struct {
	struct cudaDeviceProp prop;
	unsigned char canary[CANARY];
} prop13;

/* The structure of generation 12 has 1032 bytes; no header here declares it. */
static union {
	struct cudaDeviceProp begins_alike;
	unsigned char bytes[1032 + CANARY];
} prop12;

cudaError_t cudaGetDeviceProperties_v2(void *prop, int device);

TEST_F(rt, properties)
{
	struct cudaDeviceProp *p = &prop13.prop, want = { .major = 1 };
	char id[13], name[256];
	size_t total;
	int value;

	memset(&prop13, 0xcc, sizeof(prop13));
	memset(&prop12, 0xcc, sizeof(prop12));
	EXPECT_FAILS(BAD, cudaGetDeviceProperties(NULL, 0));
	EXPECT_FAILS(cudaErrorInvalidDevice, cudaGetDeviceProperties(p, 99));
	ASSERT_RT(cudaGetDeviceProperties(p, 1));
	EXPECT_TRUE(all_are(prop13.canary, 0xcc, CANARY));
	EXPECT_CU(cuDeviceGetName(name, sizeof(name), 1));
	EXPECT_STREQ(name, p->name);
	EXPECT_CU(cuDeviceTotalMem(&total, 1));
	EXPECT_EQ(total, p->totalGlobalMem);
	EXPECT_RT(cudaDeviceGetAttribute(&value, cudaDevAttrComputeCapabilityMajor, 1));
	EXPECT_EQ(value, p->major);
	EXPECT_RT(cudaDeviceGetAttribute(&value, cudaDevAttrMaxSharedMemoryPerBlock, 1));
	EXPECT_EQ((size_t)value, p->sharedMemPerBlock);
	EXPECT_RT(cudaDeviceGetAttribute(&value, cudaDevAttrMaxGridDimZ, 1));
	EXPECT_EQ(value, p->maxGridSize[2]);
	EXPECT_RT(cudaDeviceGetAttribute(&value, cudaDevAttrHostNumaId, 1));
	EXPECT_EQ(value, p->hostNumaId);
	EXPECT_RT(cudaDeviceGetAttribute(&value, cudaDevAttrMemoryPoolSupportedHandleTypes, 1));
	EXPECT_EQ((unsigned int)value, p->memoryPoolSupportedHandleTypes);
	EXPECT_EQ(1, p->unifiedAddressing);
	EXPECT_EQ(32, p->warpSize);
	EXPECT_TRUE(all_are(p->reserved, 0, sizeof(p->reserved)));
	EXPECT_RT(cudaDeviceGetPCIBusId(id, sizeof(id), 1));
	EXPECT_RT(cudaDeviceGetByPCIBusId(&value, id));
	EXPECT_EQ(1, value);
	EXPECT_FAILS(BAD, cudaDeviceGetAttribute(&value, (enum cudaDeviceAttr)9999, 0));
	EXPECT_FAILS(cudaErrorInvalidDevice,
		     cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 99));
	/* The structure of generation 12: the function writes 1032 bytes, and no more. */
	ASSERT_RT(cudaGetDeviceProperties_v2(&prop12, 1));
	EXPECT_TRUE(all_are(prop12.bytes + 1032, 0xcc, CANARY));
	EXPECT_TRUE(all_are(prop12.bytes + 1032 - 63 * sizeof(int), 0, 63 * sizeof(int)));
	EXPECT_STREQ(name, prop12.begins_alike.name);
	EXPECT_EQ(total, prop12.begins_alike.totalGlobalMem);
	EXPECT_RT(cudaChooseDevice(&value, &want));
	EXPECT_EQ(0, value);
	EXPECT_FAILS(BAD, cudaChooseDevice(&value, NULL));
	EXPECT_EQ(NULL, current());
}

TEST_F(rt, peers)
{
	size_t limit = 0;
	enum cudaFuncCache cache;
	int can = 0, value;

	EXPECT_RT(cudaDeviceCanAccessPeer(&can, 0, 1));
	EXPECT_EQ(1, can);
	EXPECT_FAILS(cudaErrorInvalidDevice, cudaDeviceCanAccessPeer(&can, 0, 99));
	EXPECT_RT(cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrAccessSupported, 0, 1));
	EXPECT_EQ(1, value);
	EXPECT_FAILS(cudaErrorInvalidDevice, cudaDeviceEnablePeerAccess(0, 0));
	EXPECT_FAILS(cudaErrorInvalidDevice, cudaDeviceEnablePeerAccess(99, 0));
	EXPECT_FAILS(cudaErrorPeerAccessNotEnabled, cudaDeviceDisablePeerAccess(1));
	EXPECT_FAILS(BAD, cudaDeviceEnablePeerAccess(1, 1));
	EXPECT_RT(cudaDeviceEnablePeerAccess(1, 0));
	EXPECT_TRUE(active(1));
	EXPECT_FAILS(cudaErrorPeerAccessAlreadyEnabled, cudaDeviceEnablePeerAccess(1, 0));
	EXPECT_RT(cudaDeviceDisablePeerAccess(1));
	/* Settings of the context that have no effect. */
	EXPECT_RT(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
	EXPECT_RT(cudaDeviceGetLimit(&limit, cudaLimitStackSize));
	EXPECT_EQ(4096, limit);
	EXPECT_FAILS(BAD, cudaDeviceGetLimit(&limit, (enum cudaLimit)99));
	EXPECT_RT(cudaDeviceSetCacheConfig(cudaFuncCachePreferL1));
	EXPECT_RT(cudaDeviceGetCacheConfig(&cache));
	EXPECT_EQ(cudaFuncCachePreferL1, cache);
	EXPECT_RT(cudaProfilerStart());
	EXPECT_RT(cudaProfilerStop());
}

TEST_F(rt, entry_points)
{
	enum cudaDriverEntryPointQueryResult status;
	struct cudaChannelFormatDesc desc;
	void *fn = NULL;

	EXPECT_RT(cudaGetDriverEntryPoint("cuMemAlloc", &fn, cudaEnableDefault, &status));
	EXPECT_EQ((void *)cuMemAlloc, fn);
	EXPECT_EQ(cudaDriverEntryPointSuccess, status);
	EXPECT_RT(cudaGetDriverEntryPoint_ptsz("cuMemcpy", &fn, cudaEnableDefault, NULL));
	EXPECT_EQ((void *)cuMemcpy_ptds, fn);
	EXPECT_RT(cudaGetDriverEntryPoint_ptsz("cuMemcpy", &fn, cudaEnableLegacyStream, NULL));
	EXPECT_EQ((void *)cuMemcpy, fn);
	EXPECT_RT(cudaGetDriverEntryPoint("cuNoSuchThing", &fn, cudaEnableDefault, &status));
	EXPECT_EQ(NULL, fn);
	EXPECT_EQ(cudaDriverEntryPointSymbolNotFound, status);
	EXPECT_RT(cudaGetDriverEntryPointByVersion("cuMemcpy", &fn, 2000, 0, &status));
	EXPECT_EQ(cudaDriverEntryPointVersionNotSufficent, status);
	EXPECT_FAILS(BAD, cudaGetDriverEntryPointByVersion("cuMemcpy", &fn, 99999, 0, &status));
	EXPECT_FAILS(BAD, cudaGetDriverEntryPoint(NULL, &fn, 0, NULL));
	EXPECT_FAILS(BAD, cudaGetDriverEntryPoint("cuInit", NULL, 0, NULL));
	desc = cudaCreateChannelDesc(1, 2, 3, 4, cudaChannelFormatKindFloat);
	EXPECT_EQ(10, desc.x + desc.y + desc.z + desc.w);
	EXPECT_EQ(cudaChannelFormatKindFloat, desc.f);
}

/* --- other processes */

TEST_F(rt, ipc)
{
	cudaIpcEventHandle_t event_handle;
	cudaIpcMemHandle_t handle;
	CUipcMemHandle driver_handle;
	unsigned char data[100];
	struct peer peer;
	cudaEvent_t event, opened;
	CUdeviceptr there;
	void *p, *q = &q;

	ASSERT_EQ(0, peer_start(&peer, NULL));
	ASSERT_RT(cudaMalloc(&p, 4096));
	pattern(data, sizeof(data), 6);
	ASSERT_RT(cudaMemcpy(p, data, sizeof(data), cudaMemcpyHostToDevice));
	EXPECT_FAILS(BAD, cudaIpcGetMemHandle(NULL, p));
	EXPECT_FAILS(BAD, cudaIpcGetMemHandle(&handle, NULL));
	ASSERT_RT(cudaIpcGetMemHandle(&handle, p));
	EXPECT_FAILS(cudaErrorDeviceUninitialized,
		     cudaIpcOpenMemHandle(&q, handle, cudaIpcMemLazyEnablePeerAccess));
	EXPECT_EQ((void *)&q, q);
	EXPECT_FAILS(BAD, cudaIpcOpenMemHandle(NULL, handle, cudaIpcMemLazyEnablePeerAccess));
	EXPECT_FAILS(BAD, cudaIpcCloseMemHandle(p));
	/* The runtime's handle equals the driver's, byte for byte. */
	memcpy(&driver_handle, &handle, sizeof(driver_handle));
	ASSERT_CU(peer_open(&peer, &driver_handle, &there));
	EXPECT_TRUE(peer_sees(&peer, there, data, sizeof(data)));
	EXPECT_CU(peer_put(&peer, PEER_FILL, there, 100, 0x99));
	EXPECT_RT(cudaMemcpy(data, p, 100, cudaMemcpyDeviceToHost));
	EXPECT_TRUE(all_are(data, 0x99, 100));
	EXPECT_CU(peer_close(&peer, there));
	EXPECT_EQ(0, peer_end(&peer));
	EXPECT_RT(cudaFree(p));

	ASSERT_RT(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
	EXPECT_FAILS(cudaErrorInvalidResourceHandle, cudaIpcGetEventHandle(&event_handle, event));
	EXPECT_RT(cudaEventDestroy(event));
	ASSERT_RT(cudaEventCreateWithFlags(&event,
					   cudaEventDisableTiming | cudaEventInterprocess));
	ASSERT_RT(cudaIpcGetEventHandle(&event_handle, event));
	EXPECT_FAILS(cudaErrorDeviceUninitialized, cudaIpcOpenEventHandle(&opened, event_handle));
	EXPECT_FAILS(BAD, cudaIpcOpenEventHandle(NULL, event_handle));
	memset(&event_handle, 0, sizeof(event_handle));
	EXPECT_FAILS(cudaErrorMapBufferObjectFailed, cudaIpcOpenEventHandle(&opened, event_handle));
	EXPECT_RT(cudaEventDestroy(event));
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], PEER_WORD))
		return peer_main();
	return test_harness_run(argc, argv);
}
