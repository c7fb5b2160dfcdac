// SPDX-License-Identifier: MIT
/*
 * Functions of libcudart.so.12, which has this file in place of cuda_rt_gen13.c: CUDA 12's version of the
 * functions that CUDA 13 changed under the same name, and the functions that CUDA 13 removed.
 *
 * Programs of CUDA 12 call their header's cudaGetDeviceProperties() under the name
 * cudaGetDeviceProperties_v2, which cuda_rt_device.c has; the name without _v2 is CUDA 11's.
 */
#include <stdlib.h>

#define RT_TYPES_ONLY
#include "runtime/runtime.h"

const int rt_version = 12090;

/* The parameters of signals and waits in CUDA 10 and 11.1, without reserved members. */
struct rt_signal10 {
	struct {
		struct {
			unsigned long long value;
		} fence;
		unsigned long long nvSciSync;
		struct {
			unsigned long long key;
		} keyedMutex;
	} params;
	unsigned int flags;
};

struct rt_wait10 {
	struct {
		struct {
			unsigned long long value;
		} fence;
		unsigned long long nvSciSync;
		struct {
			unsigned long long key;
			unsigned int timeoutMs;
		} keyedMutex;
	} params;
	unsigned int flags;
};

#pragma GCC visibility push(default)

/* As in CUDA 12's headers; nothing else declares them. */
#define PTSZ(name, args)	cudaError_t name args; cudaError_t name ## _ptsz args
cudaError_t cudaGetDeviceProperties(struct rt_prop12 *prop, int device);
cudaError_t cudaChooseDevice(int *device, const struct rt_prop12 *prop);
cudaError_t cudaPointerGetAttributes(struct rt_pointer12 *attributes, const void *ptr);
cudaError_t cudaMemAdvise(const void *ptr, size_t count, enum cudaMemoryAdvise advice, int device);
cudaError_t cudaMemAdvise_v2(const void *ptr, size_t count, enum cudaMemoryAdvise advice,
			     struct cudaMemLocation location);
PTSZ(cudaMemPrefetchAsync, (const void *ptr, size_t count, int device, cudaStream_t stream));
PTSZ(cudaMemPrefetchAsync_v2, (const void *ptr, size_t count, struct cudaMemLocation location,
			       unsigned int flags, cudaStream_t stream));
PTSZ(cudaStreamGetCaptureInfo, (cudaStream_t stream, enum cudaStreamCaptureStatus *status,
				unsigned long long *id));
PTSZ(cudaStreamGetCaptureInfo_v2, (cudaStream_t stream, enum cudaStreamCaptureStatus *status,
				   unsigned long long *id, cudaGraph_t *graph,
				   const cudaGraphNode_t **dependencies,
				   size_t *dependency_count));
PTSZ(cudaStreamGetCaptureInfo_v3, (cudaStream_t stream, enum cudaStreamCaptureStatus *status,
				   unsigned long long *id, cudaGraph_t *graph,
				   const cudaGraphNode_t **dependencies,
				   const cudaGraphEdgeData **edge_data, size_t *dependency_count));
PTSZ(cudaStreamUpdateCaptureDependencies, (cudaStream_t stream, cudaGraphNode_t *dependencies,
					   size_t dependency_count, unsigned int flags));
PTSZ(cudaStreamUpdateCaptureDependencies_v2, (cudaStream_t stream, cudaGraphNode_t *dependencies,
					      const cudaGraphEdgeData *dependency_data,
					      size_t dependency_count, unsigned int flags));
PTSZ(cudaMemcpyBatchAsync, (void **dsts, void **srcs, size_t *sizes, size_t count,
			    struct cudaMemcpyAttributes *attrs, size_t *attr_indices,
			    size_t attr_count, size_t *fail_index, cudaStream_t stream));
PTSZ(cudaMemcpy3DBatchAsync, (size_t op_count, struct cudaMemcpy3DBatchOp *ops, size_t *fail_index,
			      unsigned long long flags, cudaStream_t stream));
PTSZ(cudaSignalExternalSemaphoresAsync, (const cudaExternalSemaphore_t *semaphores,
					 const struct rt_signal10 *params, unsigned int count,
					 cudaStream_t stream));
PTSZ(cudaSignalExternalSemaphoresAsync_v2, (const cudaExternalSemaphore_t *semaphores,
					    const struct cudaExternalSemaphoreSignalParams *params,
					    unsigned int count, cudaStream_t stream));
PTSZ(cudaWaitExternalSemaphoresAsync, (const cudaExternalSemaphore_t *semaphores,
				       const struct rt_wait10 *params, unsigned int count,
				       cudaStream_t stream));
PTSZ(cudaWaitExternalSemaphoresAsync_v2, (const cudaExternalSemaphore_t *semaphores,
					  const struct cudaExternalSemaphoreWaitParams *params,
					  unsigned int count, cudaStream_t stream));
cudaError_t cudaEventElapsedTime_v2(float *milliseconds, cudaEvent_t start, cudaEvent_t end);
cudaError_t cudaThreadExit(void);
cudaError_t cudaThreadSynchronize(void);
cudaError_t cudaThreadGetLimit(size_t *value, enum cudaLimit limit);
cudaError_t cudaThreadSetLimit(enum cudaLimit limit, size_t value);
cudaError_t cudaThreadGetCacheConfig(enum cudaFuncCache *config);
cudaError_t cudaThreadSetCacheConfig(enum cudaFuncCache config);
cudaError_t cudaSetDoubleForDevice(double *value);
cudaError_t cudaSetDoubleForHost(double *value);
/* Defined by cuda_rt_context.c. */
cudaError_t cudaDeviceReset(void);

#pragma GCC visibility pop

/** cudaGetDeviceProperties - properties and capabilities of a device, in CUDA 11's structure */
cudaError_t cudaGetDeviceProperties(struct rt_prop12 *prop, int device)
{
	RT_DRIVER(rt_properties12(prop, offsetof(struct rt_prop12, hostRegisterSupported), device));
}

/** cudaChooseDevice - the device that matches best; reads only members that CUDA 11's structure has, too */
cudaError_t cudaChooseDevice(int *device, const struct rt_prop12 *prop)
{
	RT_DRIVER(!prop ? cudaErrorInvalidValue :
		  rt_choose(device, prop->major, prop->minor, prop->totalGlobalMem));
}

/** cudaPointerGetAttributes - as in CUDA 13, in a shorter structure */
cudaError_t cudaPointerGetAttributes(struct rt_pointer12 *attributes, const void *ptr)
{
	RT_CONTEXT(rt_pointer_attributes(attributes, ptr));
}

/** cudaMemAdvise - as cuMemAdvise() */
cudaError_t cudaMemAdvise(const void *ptr, size_t count, enum cudaMemoryAdvise advice, int device)
{
	RT_CONTEXT(rt_code(cuMemAdvise(rt_addr(ptr), count, (CUmem_advise)advice, device)));
}

static CUmemLocation location_12(struct cudaMemLocation location)
{
	return (CUmemLocation) { .type = (CUmemLocationType)location.type, .id = location.id };
}

/** cudaMemAdvise_v2 - as cuMemAdvise_v2() */
cudaError_t cudaMemAdvise_v2(const void *ptr, size_t count, enum cudaMemoryAdvise advice,
			     struct cudaMemLocation location)
{
	RT_CONTEXT(rt_code(cuMemAdvise_v2(rt_addr(ptr), count, (CUmem_advise)advice,
					  location_12(location))));
}

/** cudaMemPrefetchAsync - as cuMemPrefetchAsync() */
RT_PTSZ(cudaMemPrefetchAsync, (const void *ptr, size_t count, int device, cudaStream_t stream),
	rt_code(SZ(cuMemPrefetchAsync)(rt_addr(ptr), count, device, stream)))

/** cudaMemPrefetchAsync_v2 - as cuMemPrefetchAsync_v2() */
RT_PTSZ(cudaMemPrefetchAsync_v2, (const void *ptr, size_t count, struct cudaMemLocation location,
				  unsigned int flags, cudaStream_t stream),
	rt_code(SZ(cuMemPrefetchAsync_v2)(rt_addr(ptr), count, location_12(location), flags,
					  stream)))

/** cudaStreamGetCaptureInfo - as cuStreamGetCaptureInfo() */
RT_PTSZ(cudaStreamGetCaptureInfo, (cudaStream_t stream, enum cudaStreamCaptureStatus *status,
				   unsigned long long *id),
	rt_code(SZ(cuStreamGetCaptureInfo)(stream, (CUstreamCaptureStatus *)status,
					   (cuuint64_t *)id)))

/** cudaStreamGetCaptureInfo_v2 - as cuStreamGetCaptureInfo_v2() */
RT_PTSZ(cudaStreamGetCaptureInfo_v2,
	(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
	 cudaGraph_t *graph, const cudaGraphNode_t **dependencies, size_t *dependency_count),
	rt_code(SZ(cuStreamGetCaptureInfo_v2)(stream, (CUstreamCaptureStatus *)status,
					      (cuuint64_t *)id, graph, dependencies,
					      dependency_count)))

/** cudaStreamGetCaptureInfo_v3 - as cuStreamGetCaptureInfo_v3() */
RT_PTSZ(cudaStreamGetCaptureInfo_v3,
	(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
	 cudaGraph_t *graph, const cudaGraphNode_t **dependencies,
	 const cudaGraphEdgeData **edge_data, size_t *dependency_count),
	rt_code(SZ(cuStreamGetCaptureInfo_v3)(stream, (CUstreamCaptureStatus *)status,
					      (cuuint64_t *)id, graph, dependencies,
					      (const CUgraphEdgeData **)edge_data,
					      dependency_count)))

/** cudaStreamUpdateCaptureDependencies - as cuStreamUpdateCaptureDependencies() */
RT_PTSZ(cudaStreamUpdateCaptureDependencies,
	(cudaStream_t stream, cudaGraphNode_t *dependencies, size_t dependency_count,
	 unsigned int flags),
	rt_code(SZ(cuStreamUpdateCaptureDependencies)(stream, dependencies, dependency_count,
						      flags)))

/** cudaStreamUpdateCaptureDependencies_v2 - as cuStreamUpdateCaptureDependencies_v2() */
RT_PTSZ(cudaStreamUpdateCaptureDependencies_v2,
	(cudaStream_t stream, cudaGraphNode_t *dependencies,
	 const cudaGraphEdgeData *dependency_data, size_t dependency_count, unsigned int flags),
	rt_code(SZ(cuStreamUpdateCaptureDependencies_v2)(stream, dependencies,
							 (const CUgraphEdgeData *)dependency_data,
							 dependency_count, flags)))

/* ---- batches of copies: on failure *@fail_index is the failing copy's index, or SIZE_MAX */

/** cudaMemcpyBatchAsync - linear copies, as cuMemcpyBatchAsync() */
RT_PTSZ(cudaMemcpyBatchAsync,
	(void **dsts, void **srcs, size_t *sizes, size_t count, struct cudaMemcpyAttributes *attrs,
	 size_t *attr_indices, size_t attr_count, size_t *fail_index, cudaStream_t stream),
	rt_code(SZ(cuMemcpyBatchAsync)((CUdeviceptr *)dsts, (CUdeviceptr *)srcs, sizes, count,
				       (CUmemcpyAttributes *)attrs, attr_indices, attr_count,
				       fail_index, stream)))

/** cudaMemcpy3DBatchAsync - copies of boxes, as cuMemcpy3DBatchAsync() */
RT_PTSZ(cudaMemcpy3DBatchAsync,
	(size_t op_count, struct cudaMemcpy3DBatchOp *ops, size_t *fail_index,
	 unsigned long long flags, cudaStream_t stream),
	rt_code(SZ(cuMemcpy3DBatchAsync)(op_count, (CUDA_MEMCPY3D_BATCH_OP *)ops, fail_index, flags,
					 stream)))

/* ---- semaphores */

/** cudaSignalExternalSemaphoresAsync_v2 - as cuSignalExternalSemaphoresAsync() */
RT_PTSZ(cudaSignalExternalSemaphoresAsync_v2,
	(const cudaExternalSemaphore_t *semaphores,
	 const struct cudaExternalSemaphoreSignalParams *params, unsigned int count,
	 cudaStream_t stream),
	rt_code(SZ(cuSignalExternalSemaphoresAsync)((const CUexternalSemaphore *)semaphores,
		(const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *)params, count, stream)))

/** cudaWaitExternalSemaphoresAsync_v2 - as cuWaitExternalSemaphoresAsync() */
RT_PTSZ(cudaWaitExternalSemaphoresAsync_v2,
	(const cudaExternalSemaphore_t *semaphores,
	 const struct cudaExternalSemaphoreWaitParams *params, unsigned int count,
	 cudaStream_t stream),
	rt_code(SZ(cuWaitExternalSemaphoresAsync)((const CUexternalSemaphore *)semaphores,
		(const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *)params, count, stream)))

/* Programs of CUDA 10 and 11.1 pass shorter parameters; the copies have zeros in the reserved members. */
static cudaError_t signal_10(const cudaExternalSemaphore_t *semaphores, const struct rt_signal10 *params,
			     unsigned int count, cudaStream_t stream, bool own)
{
	CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *full = NULL;
	cudaError_t error;
	unsigned int i;

	if (params && count) {
		full = calloc(count, sizeof(*full));
		if (!full)
			return cudaErrorMemoryAllocation;
	}
	for (i = 0; full && i < count; i++) {
		full[i].params.fence.value = params[i].params.fence.value;
		full[i].params.nvSciSync.reserved = params[i].params.nvSciSync;
		full[i].params.keyedMutex.key = params[i].params.keyedMutex.key;
		full[i].flags = params[i].flags;
	}
	error = rt_code(SZ(cuSignalExternalSemaphoresAsync)((const CUexternalSemaphore *)semaphores, full,
			count, stream));
	free(full);
	return error;
}

/** cudaSignalExternalSemaphoresAsync - the same, with the parameters of CUDA 10 */
RT_PTSZ(cudaSignalExternalSemaphoresAsync,
	(const cudaExternalSemaphore_t *semaphores, const struct rt_signal10 *params,
	 unsigned int count, cudaStream_t stream),
	signal_10(semaphores, params, count, stream, own))

static cudaError_t wait_10(const cudaExternalSemaphore_t *semaphores, const struct rt_wait10 *params,
			   unsigned int count, cudaStream_t stream, bool own)
{
	CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *full = NULL;
	cudaError_t error;
	unsigned int i;

	if (params && count) {
		full = calloc(count, sizeof(*full));
		if (!full)
			return cudaErrorMemoryAllocation;
	}
	for (i = 0; full && i < count; i++) {
		full[i].params.fence.value = params[i].params.fence.value;
		full[i].params.nvSciSync.reserved = params[i].params.nvSciSync;
		full[i].params.keyedMutex.key = params[i].params.keyedMutex.key;
		full[i].params.keyedMutex.timeoutMs = params[i].params.keyedMutex.timeoutMs;
		full[i].flags = params[i].flags;
	}
	error = rt_code(SZ(cuWaitExternalSemaphoresAsync)((const CUexternalSemaphore *)semaphores, full, count,
			stream));
	free(full);
	return error;
}

/** cudaWaitExternalSemaphoresAsync - the same, with the parameters of CUDA 10 */
RT_PTSZ(cudaWaitExternalSemaphoresAsync,
	(const cudaExternalSemaphore_t *semaphores, const struct rt_wait10 *params,
	 unsigned int count, cudaStream_t stream),
	wait_10(semaphores, params, count, stream, own))

/** cudaEventElapsedTime_v2 - as cudaEventElapsedTime() */
cudaError_t cudaEventElapsedTime_v2(float *milliseconds, cudaEvent_t start, cudaEvent_t end)
{
	RT_CONTEXT(rt_code(cuEventElapsedTime_v2(milliseconds, start, end)));
}

/* ---- the first names of functions for devices, when a context belonged to one thread */

/** cudaThreadExit - cudaDeviceReset() */
cudaError_t cudaThreadExit(void)
{
	return cudaDeviceReset();
}

/** cudaThreadSynchronize - cudaDeviceSynchronize() */
cudaError_t cudaThreadSynchronize(void)
{
	RT_CONTEXT(rt_code(cuCtxSynchronize()));
}

/** cudaThreadGetLimit - cudaDeviceGetLimit() */
cudaError_t cudaThreadGetLimit(size_t *value, enum cudaLimit limit)
{
	RT_CONTEXT(rt_code(cuCtxGetLimit(value, (CUlimit)limit)));
}

/** cudaThreadSetLimit - cudaDeviceSetLimit() */
cudaError_t cudaThreadSetLimit(enum cudaLimit limit, size_t value)
{
	RT_CONTEXT(rt_code(cuCtxSetLimit((CUlimit)limit, value)));
}

/** cudaThreadGetCacheConfig - cudaDeviceGetCacheConfig() */
cudaError_t cudaThreadGetCacheConfig(enum cudaFuncCache *config)
{
	RT_CONTEXT(rt_code(cuCtxGetCacheConfig((CUfunc_cache *)config)));
}

/** cudaThreadSetCacheConfig - cudaDeviceSetCacheConfig() */
cudaError_t cudaThreadSetCacheConfig(enum cudaFuncCache config)
{
	RT_CONTEXT(rt_code(cuCtxSetCacheConfig((CUfunc_cache)config)));
}

/** cudaSetDoubleForDevice - succeeds without effect: devices use doubles, too */
cudaError_t cudaSetDoubleForDevice(double *value)
{
	(void)value;
	return cudaSuccess;
}

/** cudaSetDoubleForHost - succeeds without effect */
cudaError_t cudaSetDoubleForHost(double *value)
{
	(void)value;
	return cudaSuccess;
}
