// SPDX-License-Identifier: MIT
/*
 * The runtime API's chapter "Stream Ordered Memory Allocator", and which pool a device uses.
 *
 * Owns nothing: pools and their rules are the driver's. Properties, locations, access descriptions and
 * export data are passed on unchanged.
 */
#include "runtime/runtime.h"
#include "abi/entry.h"

/* Allocation and free have entries that programs can overwrite, in both forms. */
#define BOTH_ENTRIES(name, body, args, call)				\
	BODY cudaError_t body args					\
	{								\
		const bool own = false;					\
									\
		RT_CONTEXT(call);					\
	}								\
	BODY cudaError_t body ## _ptsz args				\
	{								\
		const bool own = true;					\
									\
		RT_CONTEXT(call);					\
	}								\
	ENTRY(name, body);						\
	ENTRY(name ## _ptsz, body ## _ptsz)

static cudaError_t malloc_async(void **ptr, size_t size, cudaStream_t stream, bool own)
{
	CUdeviceptr addr = 0;
	CUresult result;

	if (!ptr)
		return cudaErrorInvalidValue;
	result = SZ(cuMemAllocAsync)(&addr, size, stream);
	*ptr = result ? NULL : rt_ptr(addr);
	return rt_code(result);
}

/**
 * cudaMallocAsync - allocate from the current pool of the stream's device, in stream order
 * @ptr: NULL on failure, and for a size of 0, which succeeds
 *
 * Return: cudaErrorMemoryAllocation, cudaErrorInvalidValue, cudaErrorNotSupported.
 */
BOTH_ENTRIES(cudaMallocAsync, rt_malloc_async_body,
	     (void **ptr, size_t size, cudaStream_t stream),
	     malloc_async(ptr, size, stream, own));

static cudaError_t malloc_from(void **ptr, size_t size, cudaMemPool_t pool, cudaStream_t stream,
			       bool own)
{
	CUdeviceptr addr = 0;
	CUresult result;

	if (!ptr)
		return cudaErrorInvalidValue;
	result = SZ(cuMemAllocFromPoolAsync)(&addr, size, pool, stream);
	*ptr = result ? NULL : rt_ptr(addr);
	return rt_code(result);
}

/** cudaMallocFromPoolAsync - the same from a pool of the caller's choice */
BOTH_ENTRIES(cudaMallocFromPoolAsync, rt_malloc_from_pool_body,
	     (void **ptr, size_t size, cudaMemPool_t pool, cudaStream_t stream),
	     malloc_from(ptr, size, pool, stream, own));

/** cudaFreeAsync - free in stream order; NULL is a success */
BOTH_ENTRIES(cudaFreeAsync, rt_free_async_body, (void *ptr, cudaStream_t stream),
	     rt_code(SZ(cuMemFreeAsync)(rt_addr(ptr), stream)));

/**
 * cudaMemPoolCreate - make a pool
 *
 * Return: cudaErrorInvalidValue, cudaErrorNotSupported.
 */
cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const struct cudaMemPoolProps *props)
{
	RT_DRIVER(!pool || !props ? cudaErrorInvalidValue :
		  rt_code(cuMemPoolCreate(pool, (const CUmemPoolProps *)props)));
}

/** cudaMemPoolDestroy - destroy a pool; its allocations remain valid; cudaErrorInvalidValue for a default pool */
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
	RT_DRIVER(rt_code(cuMemPoolDestroy(pool)));
}

/** cudaMemPoolTrimTo - release a pool's unused memory to the device, until only @keep_bytes are reserved */
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep_bytes)
{
	RT_DRIVER(rt_code(cuMemPoolTrimTo(pool, keep_bytes)));
}

/** cudaMemPoolGetAttribute - one attribute of a pool: an int for Reuse*, 64 bits for sizes */
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
	RT_DRIVER(!value ? cudaErrorInvalidValue :
		  rt_code(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)attribute, value)));
}

/** cudaMemPoolSetAttribute - set one attribute of a pool, as cuMemPoolSetAttribute() */
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
	RT_DRIVER(!value ? cudaErrorInvalidValue :
		  rt_code(cuMemPoolSetAttribute(pool, (CUmemPool_attribute)attribute, value)));
}

/** cudaMemPoolGetAccess - the access of a location to the pool's memory */
cudaError_t cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t pool,
				 struct cudaMemLocation *location)
{
	RT_DRIVER(!flags || !location ? cudaErrorInvalidValue :
		  rt_code(cuMemPoolGetAccess((CUmemAccess_flags *)flags, pool,
					     (CUmemLocation *)location)));
}

/** cudaMemPoolSetAccess - set the access of devices to the pool's memory, as cuMemPoolSetAccess() */
cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *access,
				 size_t count)
{
	RT_DRIVER(!access && count ? cudaErrorInvalidValue :
		  rt_code(cuMemPoolSetAccess(pool, (const CUmemAccessDesc *)access, count)));
}

/** cudaMemPoolExportToShareableHandle - export a pool to other processes, as cuMemPoolExportToShareableHandle() */
cudaError_t cudaMemPoolExportToShareableHandle(void *handle, cudaMemPool_t pool,
					       enum cudaMemAllocationHandleType handle_type,
					       unsigned int flags)
{
	RT_DRIVER(rt_code(cuMemPoolExportToShareableHandle(handle, pool,
							   (CUmemAllocationHandleType)handle_type,
							   flags)));
}

/** cudaMemPoolImportFromShareableHandle - import a pool, as cuMemPoolImportFromShareableHandle() */
cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t *pool, void *handle,
						 enum cudaMemAllocationHandleType handle_type,
						 unsigned int flags)
{
	RT_CONTEXT(rt_code(cuMemPoolImportFromShareableHandle(
			pool, handle, (CUmemAllocationHandleType)handle_type, flags)));
}

/** cudaMemPoolExportPointer - name an allocation for a process that imported its pool */
cudaError_t cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData *share_data, void *ptr)
{
	RT_CONTEXT(!share_data ? cudaErrorInvalidValue :
		   rt_code(cuMemPoolExportPointer((CUmemPoolPtrExportData *)share_data,
						  rt_addr(ptr))));
}

static cudaError_t import_pointer(void **ptr, cudaMemPool_t pool,
				  struct cudaMemPoolPtrExportData *share_data)
{
	CUdeviceptr addr = 0;
	CUresult result;

	if (!ptr || !share_data)
		return cudaErrorInvalidValue;
	result = cuMemPoolImportPointer(&addr, pool, (CUmemPoolPtrExportData *)share_data);
	if (!result)
		*ptr = rt_ptr(addr);
	return rt_code(result);
}

/** cudaMemPoolImportPointer - map an allocation that another process named, from an imported pool */
BODY cudaError_t rt_pool_import_pointer_body(void **ptr, cudaMemPool_t pool,
					     struct cudaMemPoolPtrExportData *share_data)
{
	RT_CONTEXT(import_pointer(ptr, pool, share_data));
}
ENTRY(cudaMemPoolImportPointer, rt_pool_import_pointer_body);

/* ---- which pool is used */

/** cudaDeviceGetDefaultMemPool - a device's default pool, which is the current one at first */
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device)
{
	RT_DRIVER(rt_code(cuDeviceGetDefaultMemPool(pool, device)));
}

/** cudaDeviceGetMemPool - the pool that cudaMallocAsync() uses */
cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device)
{
	RT_DRIVER(rt_code(cuDeviceGetMemPool(pool, device)));
}

/** cudaDeviceSetMemPool - make another pool of the device the one that cudaMallocAsync() uses */
cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool)
{
	RT_DRIVER(rt_code(cuDeviceSetMemPool(device, pool)));
}
