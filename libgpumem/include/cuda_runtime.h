/* SPDX-License-Identifier: MIT */
/*
 * The CUDA runtime API as programs usually include it: cuda_runtime_api.h, the functions that make
 * vectors and extents and, in C++, templates of the functions that allocate, which accept a pointer
 * to a pointer of any type, and overloads.
 */
#ifndef __CUDA_RUNTIME_H__
#define __CUDA_RUNTIME_H__

#include "builtin_types.h"
#include "library_types.h"
#include "channel_descriptor.h"
#include "cuda_runtime_api.h"
#include "driver_functions.h"
#include "vector_functions.h"

#ifdef __cplusplus
template <class T> static inline cudaError_t cudaMalloc(T **ptr, size_t size)
{
	return ::cudaMalloc((void **)(void *)ptr, size);
}

template <class T> static inline cudaError_t cudaMallocPitch(T **ptr, size_t *pitch, size_t width,
							     size_t height)
{
	return ::cudaMallocPitch((void **)(void *)ptr, pitch, width, height);
}

template <class T> static inline cudaError_t cudaMallocManaged(T **ptr, size_t size,
		unsigned int flags = cudaMemAttachGlobal)
{
	return ::cudaMallocManaged((void **)(void *)ptr, size, flags);
}

template <class T> static inline cudaError_t cudaMallocHost(T **ptr, size_t size,
							    unsigned int flags = 0)
{
	return ::cudaHostAlloc((void **)(void *)ptr, size, flags);
}

template <class T> static inline cudaError_t cudaHostAlloc(T **ptr, size_t size,
							   unsigned int flags)
{
	return ::cudaHostAlloc((void **)(void *)ptr, size, flags);
}

template <class T> static inline cudaError_t cudaHostGetDevicePointer(T **device_ptr, void *ptr,
								      unsigned int flags)
{
	return ::cudaHostGetDevicePointer((void **)(void *)device_ptr, ptr, flags);
}

template <class T> static inline cudaError_t cudaMallocAsync(T **ptr, size_t size,
							     cudaStream_t stream)
{
	return ::cudaMallocAsync((void **)(void *)ptr, size, stream);
}

template <class T> static inline cudaError_t cudaMallocFromPoolAsync(T **ptr, size_t size,
		cudaMemPool_t pool, cudaStream_t stream)
{
	return ::cudaMallocFromPoolAsync((void **)(void *)ptr, size, pool, stream);
}

template <class T> static inline cudaError_t cudaMallocAsync(T **ptr, size_t size,
		cudaMemPool_t pool, cudaStream_t stream)
{
	return ::cudaMallocFromPoolAsync((void **)(void *)ptr, size, pool, stream);
}

template <class T> static inline cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, T *ptr,
		size_t length = 0, unsigned int flags = cudaMemAttachSingle)
{
	return ::cudaStreamAttachMemAsync(stream, (void *)ptr, length, flags);
}

static inline cudaError_t cudaEventCreate(cudaEvent_t *event, unsigned int flags)
{
	return ::cudaEventCreateWithFlags(event, flags);
}
#endif

#endif /* __CUDA_RUNTIME_H__ */
