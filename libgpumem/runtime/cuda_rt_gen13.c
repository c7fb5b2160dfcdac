// SPDX-License-Identifier: MIT
/*
 * Functions of libgpumem and libcudart.so.13: CUDA 13's version of the functions that CUDA 13 changed under the
 * same name, and the functions that are new in CUDA 13. The new ones call driver functions that a driver of CUDA
 * 12 lacks. libcudart.so.12 has cuda_rt_gen12.c in place of this file.
 */
#include "runtime/runtime.h"
#include "runtime/cuda_rt_check.h"

const int rt_version = CUDART_VERSION;

/**
 * cudaGetDeviceProperties - properties and capabilities of a device
 *
 * Return: cudaErrorInvalidDevice, cudaErrorInvalidValue.
 */
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
	RT_DRIVER(rt_properties13(prop, device));
}

/**
 * cudaChooseDevice - the device that matches best
 * @prop: the members major, minor and totalGlobalMem count; 0 accepts any
 *
 * Return: cudaErrorNoDevice, cudaErrorInvalidValue.
 */
cudaError_t cudaChooseDevice(int *device, const struct cudaDeviceProp *prop)
{
	RT_DRIVER(!prop ? cudaErrorInvalidValue :
		  rt_choose(device, prop->major, prop->minor, prop->totalGlobalMem));
}

static cudaError_t pointer_attributes(struct cudaPointerAttributes *attributes, const void *ptr)
{
	struct rt_pointer12 found;
	cudaError_t error;

	if (!attributes)
		return cudaErrorInvalidValue;
	error = rt_pointer_attributes(&found, ptr);
	if (!error)
		*attributes = (struct cudaPointerAttributes) {
			.type = found.type, .device = found.device,
			.devicePointer = found.devicePointer, .hostPointer = found.hostPointer,
		};
	return error;
}

/**
 * cudaPointerGetAttributes - attributes of an address
 *
 * The call also succeeds for an address that is neither the library's nor registered: the type is
 * cudaMemoryTypeUnregistered, the device cudaInvalidDeviceId, and the device pointer NULL. Return:
 * cudaErrorInvalidValue.
 */
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr)
{
	RT_CONTEXT(pointer_attributes(attributes, ptr));
}

static CUmemLocation location_13(struct cudaMemLocation location)
{
	return (CUmemLocation) { .type = (CUmemLocationType)location.type, .id = location.id };
}

/** cudaMemAdvise - as cuMemAdvise_v2() */
cudaError_t cudaMemAdvise(const void *ptr, size_t count, enum cudaMemoryAdvise advice,
			  struct cudaMemLocation location)
{
	RT_CONTEXT(rt_code(cuMemAdvise_v2(rt_addr(ptr), count, (CUmem_advise)advice,
					  location_13(location))));
}

/** cudaMemPrefetchAsync - as cuMemPrefetchAsync_v2() */
RT_PTSZ(cudaMemPrefetchAsync, (const void *ptr, size_t count, struct cudaMemLocation location,
			       unsigned int flags, cudaStream_t stream),
	rt_code(SZ(cuMemPrefetchAsync_v2)(rt_addr(ptr), count, location_13(location), flags,
					  stream)))

/** cudaStreamGetCaptureInfo - as cuStreamGetCaptureInfo_v3() */
RT_PTSZ(cudaStreamGetCaptureInfo,
	(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id,
	 cudaGraph_t *graph, const cudaGraphNode_t **dependencies,
	 const cudaGraphEdgeData **edge_data, size_t *dependency_count),
	rt_code(SZ(cuStreamGetCaptureInfo_v3)(stream, (CUstreamCaptureStatus *)status,
					      (cuuint64_t *)id, graph, dependencies,
					      (const CUgraphEdgeData **)edge_data,
					      dependency_count)))

/** cudaStreamUpdateCaptureDependencies - as cuStreamUpdateCaptureDependencies_v2() */
RT_PTSZ(cudaStreamUpdateCaptureDependencies,
	(cudaStream_t stream, cudaGraphNode_t *dependencies,
	 const cudaGraphEdgeData *dependency_data, size_t dependency_count, unsigned int flags),
	rt_code(SZ(cuStreamUpdateCaptureDependencies_v2)(stream, dependencies,
							 (const CUgraphEdgeData *)dependency_data,
							 dependency_count, flags)))

/** cudaMemcpyBatchAsync - linear copies, as cuMemcpyBatchAsync_v2() */
RT_PTSZ(cudaMemcpyBatchAsync,
	(void *const *dsts, const void *const *srcs, const size_t *sizes, size_t count,
	 struct cudaMemcpyAttributes *attrs, size_t *attr_indices, size_t attr_count,
	 cudaStream_t stream),
	rt_code(SZ(cuMemcpyBatchAsync_v2)((CUdeviceptr *)dsts, (CUdeviceptr *)srcs, (size_t *)sizes,
					  count, (CUmemcpyAttributes *)attrs, attr_indices,
					  attr_count, stream)))

/** cudaMemcpy3DBatchAsync - copies of boxes, as cuMemcpy3DBatchAsync_v2() */
RT_PTSZ(cudaMemcpy3DBatchAsync,
	(size_t op_count, struct cudaMemcpy3DBatchOp *ops, unsigned long long flags,
	 cudaStream_t stream),
	rt_code(SZ(cuMemcpy3DBatchAsync_v2)(op_count, (CUDA_MEMCPY3D_BATCH_OP *)ops, flags, stream)))

/** cudaMemcpyWithAttributesAsync - one linear copy, as cuMemcpyWithAttributesAsync(); new in CUDA 13.2 */
RT_PTSZ(cudaMemcpyWithAttributesAsync,
	(void *dst, const void *src, size_t size, struct cudaMemcpyAttributes *attr,
	 cudaStream_t stream),
	rt_code(SZ(cuMemcpyWithAttributesAsync)(rt_addr(dst), rt_addr(src), size,
						(CUmemcpyAttributes *)attr, stream)))

/** cudaMemcpy3DWithAttributesAsync - one copy of a box, as cuMemcpy3DWithAttributesAsync(); new in CUDA 13.2 */
RT_PTSZ(cudaMemcpy3DWithAttributesAsync,
	(struct cudaMemcpy3DBatchOp *op, unsigned long long flags, cudaStream_t stream),
	rt_code(SZ(cuMemcpy3DWithAttributesAsync)((CUDA_MEMCPY3D_BATCH_OP *)op, flags, stream)))

/** cudaSignalExternalSemaphoresAsync - as cuSignalExternalSemaphoresAsync() */
RT_PTSZ(cudaSignalExternalSemaphoresAsync,
	(const cudaExternalSemaphore_t *semaphores,
	 const struct cudaExternalSemaphoreSignalParams *params, unsigned int count,
	 cudaStream_t stream),
	rt_code(SZ(cuSignalExternalSemaphoresAsync)((const CUexternalSemaphore *)semaphores,
		(const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *)params, count, stream)))

/** cudaWaitExternalSemaphoresAsync - as cuWaitExternalSemaphoresAsync() */
RT_PTSZ(cudaWaitExternalSemaphoresAsync,
	(const cudaExternalSemaphore_t *semaphores,
	 const struct cudaExternalSemaphoreWaitParams *params, unsigned int count,
	 cudaStream_t stream),
	rt_code(SZ(cuWaitExternalSemaphoresAsync)((const CUexternalSemaphore *)semaphores,
		(const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *)params, count, stream)))

/* ---- names that are new in CUDA 13 */

/** cudaMemPrefetchBatchAsync - as cuMemPrefetchBatchAsync() */
RT_PTSZ(cudaMemPrefetchBatchAsync,
	(void **ptrs, size_t *sizes, size_t count, struct cudaMemLocation *locations,
	 size_t *location_indices, size_t location_count, unsigned long long flags,
	 cudaStream_t stream),
	rt_code(SZ(cuMemPrefetchBatchAsync)((CUdeviceptr *)ptrs, sizes, count,
					    (CUmemLocation *)locations, location_indices,
					    location_count, flags, stream)))

/** cudaMemDiscardBatchAsync - as cuMemDiscardBatchAsync() */
RT_PTSZ(cudaMemDiscardBatchAsync,
	(void **ptrs, size_t *sizes, size_t count, unsigned long long flags, cudaStream_t stream),
	rt_code(SZ(cuMemDiscardBatchAsync)((CUdeviceptr *)ptrs, sizes, count, flags, stream)))

/** cudaMemDiscardAndPrefetchBatchAsync - as cuMemDiscardAndPrefetchBatchAsync() */
RT_PTSZ(cudaMemDiscardAndPrefetchBatchAsync,
	(void **ptrs, size_t *sizes, size_t count, struct cudaMemLocation *locations,
	 size_t *location_indices, size_t location_count, unsigned long long flags,
	 cudaStream_t stream),
	rt_code(SZ(cuMemDiscardAndPrefetchBatchAsync)((CUdeviceptr *)ptrs, sizes, count,
						      (CUmemLocation *)locations,
						      location_indices, location_count, flags,
						      stream)))

/** cudaLaunchHostFunc_v2 - as cuLaunchHostFunc_v2() */
RT_PTSZ(cudaLaunchHostFunc_v2, (cudaStream_t stream, cudaHostFn_t function, void *user_data,
				unsigned int sync_mode),
	rt_code(SZ(cuLaunchHostFunc_v2)(stream, function, user_data, sync_mode)))

/** cudaMemGetDefaultMemPool - the default pool of a location and a type of memory */
cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t *pool, struct cudaMemLocation *location,
				     enum cudaMemAllocationType type)
{
	RT_DRIVER(rt_code(cuMemGetDefaultMemPool(pool, (CUmemLocation *)location,
						 (CUmemAllocationType)type)));
}

/** cudaMemGetMemPool - the current pool of a location and a type of memory */
cudaError_t cudaMemGetMemPool(cudaMemPool_t *pool, struct cudaMemLocation *location,
			      enum cudaMemAllocationType type)
{
	RT_DRIVER(rt_code(cuMemGetMemPool(pool, (CUmemLocation *)location,
					  (CUmemAllocationType)type)));
}

/** cudaMemSetMemPool - make a pool the current one of a location and a type of memory */
cudaError_t cudaMemSetMemPool(struct cudaMemLocation *location, enum cudaMemAllocationType type,
			      cudaMemPool_t pool)
{
	RT_DRIVER(rt_code(cuMemSetMemPool((CUmemLocation *)location, (CUmemAllocationType)type,
					  pool)));
}
