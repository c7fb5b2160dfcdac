// SPDX-License-Identifier: GPL-2.0
/*
 * Checks what the runtime API answers without a device.
 *
 * rt_nodev.sh compiles the program with libgpumem's headers and, if they are installed, with
 * CUDA's, links it with each library that has the runtime API, and runs it.  The program sets
 * CUDA_VISIBLE_DEVICES to an empty string, so that the answers are the same on a machine with the
 * module.  Locks: none.
 */
#include <cuda_runtime_api.h>

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int number, passed, failed;

static void check(bool ok, const char *what)
{
	printf("%sok %d - " HEADERS ": %s\n", ok ? "" : "not ", ++number, what);
	if (ok)
		passed++;
	else
		failed++;
}

/* A failed call must become the last error, which cudaGetLastError() returns once. */
static void fails(cudaError_t got, cudaError_t want, const char *what)
{
	bool ok = got == want && cudaPeekAtLastError() == want && cudaGetLastError() == want &&
		cudaGetLastError() == cudaSuccess;

	check(ok, what);
	if (!ok)
		printf("# %d, expected %d\n", got, want);
}

#define NO_DEVICE(call)		fails(call, cudaErrorNoDevice, #call)

static void *in_thread(void *arg)
{
	(void)arg;
	return (void *)(size_t)(cudaPeekAtLastError() || cudaSetDevice(0) != cudaErrorNoDevice);
}

int main(void)
{
	struct cudaPointerAttributes attributes;
	struct cudaMemPoolProps props;
	static struct cudaDeviceProp prop;
	struct cudaChannelFormatDesc desc = cudaCreateChannelDesc(8, 0, 0, 0, cudaChannelFormatKindUnsigned);
	struct cudaExternalMemoryHandleDesc handle;
	struct cudaExtent extent = { 1, 1, 1 };
	struct cudaPitchedPtr box;
	cudaExternalMemory_t memory;
	cudaArray_t array;
	cudaMemPool_t pool;
	cudaStream_t stream;
	cudaEvent_t event;
	pthread_t thread;
	void *p = &p, *result = &p;
	int value = 0;
	size_t size;

	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	memset(&props, 0, sizeof(props));
	memset(&handle, 0, sizeof(handle));
	check(!cudaRuntimeGetVersion(&value) && value == 13030 && value >= CUDART_VERSION, "the runtime's version");
	check(!cudaDriverGetVersion(&value) && value == 13030, "the driver's version");
	fails(cudaRuntimeGetVersion(NULL), cudaErrorInvalidValue, "a version for nobody");
	check(!strcmp(cudaGetErrorName(cudaErrorNoDevice), "cudaErrorNoDevice"), "a name");
	check(!strcmp(cudaGetErrorString(cudaErrorNoDevice),
		      "no CUDA-capable device is detected"), "a text");
	value = 7;
	NO_DEVICE(cudaGetDeviceCount(&value));
	check(value == 7, "the count stays");
	NO_DEVICE(cudaGetDevice(&value));
	NO_DEVICE(cudaSetDevice(0));
	NO_DEVICE(cudaGetDeviceProperties(&prop, 0));
	NO_DEVICE(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 0));
	NO_DEVICE(cudaDeviceSynchronize());
	NO_DEVICE(cudaDeviceReset());
	NO_DEVICE(cudaMalloc(&p, 4096));
	NO_DEVICE(cudaMalloc(NULL, 0));
	NO_DEVICE(cudaMallocArray(&array, &desc, 8, 8, 0));
	NO_DEVICE(cudaFreeArray(NULL));
	NO_DEVICE(cudaGetChannelDesc(NULL, NULL));
	NO_DEVICE(cudaMemcpy2DToArray(NULL, 0, 0, NULL, 0, 0, 0, cudaMemcpyDefault));
	NO_DEVICE(cudaImportExternalMemory(&memory, &handle));
	NO_DEVICE(cudaDestroyExternalSemaphore(NULL));
	NO_DEVICE(cudaFree(NULL));
	NO_DEVICE(cudaMallocPitch(&p, &size, 1, 1));
	NO_DEVICE(cudaMalloc3D(&box, extent));
	NO_DEVICE(cudaMallocManaged(&p, 4096, cudaMemAttachGlobal));
	NO_DEVICE(cudaMallocHost(&p, 4096));
	NO_DEVICE(cudaHostAlloc(&p, 4096, cudaHostAllocDefault));
	NO_DEVICE(cudaFreeHost(NULL));
	NO_DEVICE(cudaMemGetInfo(&size, &size));
	NO_DEVICE(cudaMemcpy(p, p, 0, cudaMemcpyDefault));
	NO_DEVICE(cudaMemset(p, 0, 0));
	NO_DEVICE(cudaPointerGetAttributes(&attributes, p));
	NO_DEVICE(cudaStreamCreate(&stream));
	NO_DEVICE(cudaStreamSynchronize(cudaStreamPerThread));
	NO_DEVICE(cudaEventCreate(&event));
	NO_DEVICE(cudaMallocAsync(&p, 4096, 0));
	NO_DEVICE(cudaFreeAsync(p, 0));
	NO_DEVICE(cudaMemPoolCreate(&pool, &props));
	NO_DEVICE(cudaDeviceGetDefaultMemPool(&pool, 0));
	check(p == &p, "no output was written");
	cudaMalloc(&p, 1);
	pthread_create(&thread, NULL, in_thread, NULL);
	pthread_join(thread, &result);
	check(!result, "another thread has an error of its own");
	check(cudaGetLastError() == cudaErrorNoDevice, "and leaves this one's");
	printf("1..%d\n%d %d\n", number, passed, failed);
	return failed != 0;
}
