// SPDX-License-Identifier: MIT
/*
 * The runtime API's chapters "Memory Management" and "Unified Addressing": device, host and managed memory, and
 * attributes of addresses. Copies and fills are in cuda_rt_memcpy.c and cuda_rt_memset.c.
 *
 * Owns nothing. The runtime differs from the driver in two points. For device memory a size, width or height of 0
 * succeeds and returns a NULL pointer. Attributes of an address that the library does not know have the type
 * cudaMemoryTypeUnregistered.
 */
#include "runtime/runtime.h"
#include "abi/entry.h"

/* ---- device memory */

static cudaError_t malloc_device(void **ptr, size_t size)
{
	CUdeviceptr addr = 0;
	CUresult result;

	if (!ptr)
		return cudaErrorInvalidValue;
	result = size ? cuMemAlloc_v2(&addr, size) : CUDA_SUCCESS;
	*ptr = rt_ptr(addr);
	return rt_code(result);
}

/**
 * cudaMalloc - allocate device memory
 * @ptr: NULL on failure, and for a size of 0, which succeeds
 *
 * Return: cudaErrorMemoryAllocation, cudaErrorInvalidValue.
 */
BODY cudaError_t rt_malloc_body(void **ptr, size_t size)
{
	RT_CONTEXT(malloc_device(ptr, size));
}
ENTRY(cudaMalloc, rt_malloc_body);

static cudaError_t malloc_pitch(void **ptr, size_t *pitch, size_t width, size_t height)
{
	CUdeviceptr addr = 0;
	CUresult result = CUDA_SUCCESS;
	size_t bytes = 0;

	if (!ptr || !pitch)
		return cudaErrorInvalidValue;
	if (width && height)
		result = cuMemAllocPitch_v2(&addr, &bytes, width, height, 4);
	if (!result) {
		*ptr = rt_ptr(addr);
		*pitch = bytes;
	}
	return rt_code(result);
}

/**
 * cudaMallocPitch - allocate rows
 * @pitch: bytes from one row to the next
 * @width: bytes in a row
 *
 * Return: cudaErrorMemoryAllocation, cudaErrorInvalidValue.
 */
BODY cudaError_t rt_malloc_pitch_body(void **ptr, size_t *pitch, size_t width, size_t height)
{
	RT_CONTEXT(malloc_pitch(ptr, pitch, width, height));
}
ENTRY(cudaMallocPitch, rt_malloc_pitch_body);

static cudaError_t malloc_3d(struct cudaPitchedPtr *out, struct cudaExtent extent)
{
	struct cudaPitchedPtr p = { .xsize = extent.width, .ysize = extent.height };
	size_t rows;
	cudaError_t error;

	if (!out || __builtin_mul_overflow(extent.height, extent.depth, &rows))
		return cudaErrorInvalidValue;
	error = malloc_pitch(&p.ptr, &p.pitch, extent.width, rows);
	if (!error)
		*out = p;
	return error;
}

/** cudaMalloc3D - allocate rows: @extent.depth slices of @extent.height rows of @extent.width bytes */
BODY cudaError_t rt_malloc_3d_body(struct cudaPitchedPtr *ptr, struct cudaExtent extent)
{
	RT_CONTEXT(malloc_3d(ptr, extent));
}
ENTRY(cudaMalloc3D, rt_malloc_3d_body);

static cudaError_t malloc_managed(void **ptr, size_t size, unsigned int flags)
{
	CUdeviceptr addr = 0;
	CUresult result;

	if (!ptr)
		return cudaErrorInvalidValue;
	result = cuMemAllocManaged(&addr, size, flags);
	if (!result)
		*ptr = rt_ptr(addr);
	return rt_code(result);
}

/**
 * cudaMallocManaged - allocate memory with one address for host and devices; a size of 0 is an error
 * @flags: cudaMemAttachGlobal or cudaMemAttachHost
 *
 * Return: cudaErrorMemoryAllocation, cudaErrorInvalidValue.
 */
BODY cudaError_t rt_malloc_managed_body(void **ptr, size_t size, unsigned int flags)
{
	RT_CONTEXT(malloc_managed(ptr, size, flags));
}
ENTRY(cudaMallocManaged, rt_malloc_managed_body);

/**
 * cudaFree - free device or managed memory, or memory of a pool
 *
 * Waits as cuMemFree() does. NULL succeeds: programs call cudaFree(NULL) to make the context. Return:
 * cudaErrorInvalidValue for other addresses.
 */
BODY cudaError_t rt_free_body(void *ptr)
{
	RT_CONTEXT(rt_code(cuMemFree_v2(rt_addr(ptr))));
}
ENTRY(cudaFree, rt_free_body);

/** cudaMemGetInfo - free and total memory of the current device; either may be NULL */
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total)
{
	RT_CONTEXT(rt_code(cuMemGetInfo_v2(free_bytes, total)));
}

/* ---- host memory */

static cudaError_t malloc_host(void **ptr, size_t size, unsigned int flags)
{
	return ptr ? rt_code(cuMemHostAlloc(ptr, size, flags)) : cudaErrorInvalidValue;
}

/** cudaMallocHost - cudaHostAlloc() without flags */
BODY cudaError_t rt_malloc_host_body(void **ptr, size_t size)
{
	RT_CONTEXT(malloc_host(ptr, size, cudaHostAllocDefault));
}
ENTRY(cudaMallocHost, rt_malloc_host_body);

/**
 * cudaHostAlloc - allocate pinned host memory, which the devices reach at the same address
 * @ptr: NULL for a size of 0, which succeeds
 *
 * Return: cudaErrorMemoryAllocation, cudaErrorInvalidValue.
 */
BODY cudaError_t rt_host_alloc_body(void **ptr, size_t size, unsigned int flags)
{
	RT_CONTEXT(malloc_host(ptr, size, flags));
}
ENTRY(cudaHostAlloc, rt_host_alloc_body);

/** cudaFreeHost - free memory of cudaHostAlloc() or cudaMallocHost(); NULL succeeds */
BODY cudaError_t rt_free_host_body(void *ptr)
{
	RT_CONTEXT(rt_code(cuMemFreeHost(ptr)));
}
ENTRY(cudaFreeHost, rt_free_host_body);

/**
 * cudaHostRegister - let the devices access memory of the program
 *
 * Return: cudaErrorHostMemoryAlreadyRegistered, cudaErrorInvalidValue.
 */
BODY cudaError_t rt_host_register_body(void *ptr, size_t size, unsigned int flags)
{
	RT_CONTEXT(rt_code(cuMemHostRegister_v2(ptr, size, flags)));
}
ENTRY(cudaHostRegister, rt_host_register_body);

/** cudaHostUnregister - end a registration; cudaErrorHostMemoryNotRegistered */
BODY cudaError_t rt_host_unregister_body(void *ptr)
{
	RT_CONTEXT(rt_code(cuMemHostUnregister(ptr)));
}
ENTRY(cudaHostUnregister, rt_host_unregister_body);

static cudaError_t host_pointer(void **device_ptr, void *ptr, unsigned int flags)
{
	CUdeviceptr addr;
	CUresult result;

	if (!device_ptr)
		return cudaErrorInvalidValue;
	result = cuMemHostGetDevicePointer_v2(&addr, ptr, flags);
	if (!result)
		*device_ptr = rt_ptr(addr);
	return rt_code(result);
}

/**
 * cudaHostGetDevicePointer - the device's address of host memory, which is the same as the host's
 * @flags: 0
 *
 * Return: cudaErrorInvalidValue for memory that is neither registered nor of cudaHostAlloc() and its kin.
 */
cudaError_t cudaHostGetDevicePointer(void **device_ptr, void *ptr, unsigned int flags)
{
	RT_CONTEXT(host_pointer(device_ptr, ptr, flags));
}

/** cudaHostGetFlags - the flags of host memory, as cuMemHostGetFlags(); always with cudaHostAllocMapped */
cudaError_t cudaHostGetFlags(unsigned int *flags, void *ptr)
{
	RT_CONTEXT(rt_code(cuMemHostGetFlags(flags, ptr)));
}

/* ---- attributes of addresses */

cudaError_t rt_pointer_attributes(struct rt_pointer12 *attributes, const void *ptr)
{
	CUpointer_attribute ask[] = {
		CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
		CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER,
		CU_POINTER_ATTRIBUTE_IS_MANAGED,
	};
	unsigned int type = 0, managed = 0;
	int device = cudaInvalidDeviceId;
	CUdeviceptr device_ptr = 0;
	void *host_ptr = NULL;
	void *answers[] = { &type, &device, &device_ptr, &host_ptr, &managed };
	CUresult result;

	if (!attributes)
		return cudaErrorInvalidValue;
	result = cuPointerGetAttributes(sizeof(ask) / sizeof(ask[0]), ask, answers, rt_addr(ptr));
	if (result)
		return rt_code(result);
	*attributes = (struct rt_pointer12) {
		.device = device, .devicePointer = rt_ptr(device_ptr), .hostPointer = host_ptr,
	};
	if (managed) {
		attributes->type = cudaMemoryTypeManaged;
	} else if (type == CU_MEMORYTYPE_HOST) {
		attributes->type = cudaMemoryTypeHost;
	} else if (type == CU_MEMORYTYPE_DEVICE) {
		attributes->type = cudaMemoryTypeDevice;
	} else {
		attributes->type = cudaMemoryTypeUnregistered;
		attributes->device = cudaInvalidDeviceId;
		attributes->devicePointer = NULL;
		attributes->hostPointer = (void *)ptr;
	}
	return cudaSuccess;
}

/* ---- managed memory; the functions that generations 12 and 13 have in common */

/** cudaMemRangeGetAttribute - as cuMemRangeGetAttribute() */
cudaError_t cudaMemRangeGetAttribute(void *data, size_t size, enum cudaMemRangeAttribute attribute,
				     const void *ptr, size_t count)
{
	RT_CONTEXT(rt_code(cuMemRangeGetAttribute(data, size, (CUmem_range_attribute)attribute,
						  rt_addr(ptr), count)));
}

/** cudaMemRangeGetAttributes - as cuMemRangeGetAttributes() */
cudaError_t cudaMemRangeGetAttributes(void **data, size_t *sizes,
				      enum cudaMemRangeAttribute *attributes,
				      size_t attribute_count, const void *ptr, size_t count)
{
	RT_CONTEXT(rt_code(cuMemRangeGetAttributes(data, sizes, (CUmem_range_attribute *)attributes,
						   attribute_count, rt_addr(ptr), count)));
}
