// SPDX-License-Identifier: MIT
/*
 * What CUDA 13 means by the names that meant something else in CUDA 12, and the names that CUDA 12
 * has not, which need functions that a driver of CUDA 12 has not: in libgpumem and in
 * libcudart.so.13. cuda_rt_gen12.c takes this file's place in libcudart.so.12.
 */
#include "cuda_rt.h"
#include "cuda_rt_check.h"

const int rt_version = CUDART_VERSION;

/**
 * cudaGetDeviceProperties - what a device is and can
 *
 * Return: cudaErrorInvalidDevice, cudaErrorInvalidValue.
 */
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
	RT_DRIVER(rt_properties13(prop, device));
}

/**
 * cudaChooseDevice - the device that matches best
 * @prop: compute capability and memory count, 0 is any
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
 * cudaPointerGetAttributes - what an address is
 *
 * An address that is neither the library's nor registered is a success, too:
 * cudaMemoryTypeUnregistered, on cudaInvalidDeviceId, without a device pointer. Return:
 * cudaErrorInvalidValue.
 */
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr)
{
	RT_CONTEXT(pointer_attributes(attributes, ptr));
}

static CUmemLocation driver_location(struct cudaMemLocation location)
{
	return (CUmemLocation) { .type = (CUmemLocationType)location.type, .id = location.id };
}

/** cudaMemAdvise - as cuMemAdvise_v2() */
cudaError_t cudaMemAdvise(const void *ptr, size_t count, enum cudaMemoryAdvise advice,
			  struct cudaMemLocation location)
{
	RT_CONTEXT(rt_code(cuMemAdvise_v2(rt_addr(ptr), count, (CUmem_advise)advice,
					  driver_location(location))));
}

/** cudaMemPrefetchAsync - as cuMemPrefetchAsync_v2() */
RT_PTSZ(cudaMemPrefetchAsync, (const void *ptr, size_t count, struct cudaMemLocation location,
			       unsigned int flags, cudaStream_t stream),
	rt_code(SZ(cuMemPrefetchAsync_v2)(rt_addr(ptr), count, driver_location(location), flags,
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

/** cudaMemGetDefaultMemPool - the pool that a place has from the start, for a kind of memory */
cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t *pool, struct cudaMemLocation *location,
				     enum cudaMemAllocationType type)
{
	RT_DRIVER(rt_code(cuMemGetDefaultMemPool(pool, (CUmemLocation *)location,
						 (CUmemAllocationType)type)));
}

/** cudaMemGetMemPool - the pool that a place uses */
cudaError_t cudaMemGetMemPool(cudaMemPool_t *pool, struct cudaMemLocation *location,
			      enum cudaMemAllocationType type)
{
	RT_DRIVER(rt_code(cuMemGetMemPool(pool, (CUmemLocation *)location,
					  (CUmemAllocationType)type)));
}

/** cudaMemSetMemPool - have it use another */
cudaError_t cudaMemSetMemPool(struct cudaMemLocation *location, enum cudaMemAllocationType type,
			      cudaMemPool_t pool)
{
	RT_DRIVER(rt_code(cuMemSetMemPool((CUmemLocation *)location, (CUmemAllocationType)type,
					  pool)));
}
