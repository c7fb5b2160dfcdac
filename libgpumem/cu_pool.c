// SPDX-License-Identifier: MIT
/*
 * The API's chapter "Stream Ordered Memory Allocator".
 *
 * Thin: what is behind it is in pool*.c. Allocation and free need a context only for the default
 * streams, the functions of pools never.
 *
 * Allocation and free are the fastest functions there are. So with a stream that is given by its
 * handle they jump into pool_heap.c, which tells of failures itself, and keep nothing meanwhile;
 * all else is in functions of its own.
 */
#include "entry.h"
#include "internal.h"

/* Both forms of a function, each with an entry of its own: @fast if @ready, else @slow. */
#define BOTH(name, args, ready, fast, slow)				\
	BODY CUresult name ## _body args				\
	{								\
		const bool own = false;					\
									\
		return likely(ready) ? fast : slow;			\
	}								\
	ENTRY(name, name ## _body);					\
	BODY CUresult name ## _ptsz_body args				\
	{								\
		const bool own = true;					\
									\
		return likely(ready) ? fast : slow;			\
	}								\
	ENTRY(name ## _ptsz, name ## _ptsz_body)

/* Whether it is a stream as it is, and work may be given to it by this thread. */
static inline bool at_hand(CUstream handle)
{
	return !not_initialized() && !host_thread && (uintptr_t)handle >= PAGE &&
	       load_acquire(&handle->magic) == STREAM_MAGIC &&
	       !load_relaxed(&handle->ctx->sticky);
}

/* The stream of any handle, or what is wrong, which has been told. */
static CUresult stream_find(const char *name, CUstream handle, bool own, CUstream *stream)
{
	CALL_AS(name, stream_get(handle, own, stream), handle);
}

static __attribute__((noinline)) CUresult alloc(CUdeviceptr *ptr, size_t bytes, CUstream handle,
						bool own)
{
	CUstream stream;
	CUresult result = stream_find("cuMemAllocAsync", handle, own, &stream);

	return result ? result : pool_alloc_current(ptr, bytes, stream);
}

/**
 * cuMemAllocAsync - allocate in stream order from the current pool of the stream's device
 * @ptr: the address; 0 if @bytes is 0 and on failure
 * @bytes: as much as the pool counts as used
 * @stream: work that comes after the call in this stream, or after that, may use the memory
 *
 * Never waits, but for room in a stream that is full. Return: OUT_OF_MEMORY, INVALID_VALUE,
 * INVALID_CONTEXT.
 */
BOTH(cuMemAllocAsync, (CUdeviceptr *ptr, size_t bytes, CUstream stream),
     at_hand(stream), pool_alloc_current(ptr, bytes, stream), alloc(ptr, bytes, stream, own));

static __attribute__((noinline)) CUresult alloc_from(CUdeviceptr *ptr, size_t bytes,
						     CUmemoryPool pool, CUstream handle, bool own)
{
	CUstream stream;
	CUresult result = stream_find("cuMemAllocFromPoolAsync", handle, own, &stream);

	return result ? result : pool_alloc(ptr, bytes, pool, stream);
}

/**
 * cuMemAllocFromPoolAsync - the same from a pool
 *
 * Return: INVALID_VALUE also for a pool of another process.
 */
BOTH(cuMemAllocFromPoolAsync, (CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool, CUstream stream),
     at_hand(stream), pool_alloc(ptr, bytes, pool, stream),
     alloc_from(ptr, bytes, pool, stream, own));

static __attribute__((noinline)) CUresult free_in(CUdeviceptr ptr, CUstream handle, bool own)
{
	CUstream stream;
	CUresult result = stream_find("cuMemFreeAsync", handle, own, &stream);

	if (result || !ptr)
		return result;
	return pool_free(ptr, stream);
}

/**
 * cuMemFreeAsync - free in stream order
 * @ptr: what an allocation returned (cuMemAlloc(), too), or 0
 * @stream: any; the memory is free after what is in it now
 *
 * Never waits, but for room in a stream that is full; the address is unknown at once. Return:
 * INVALID_VALUE for any other address, INVALID_CONTEXT.
 */
BOTH(cuMemFreeAsync, (CUdeviceptr ptr, CUstream stream), ptr && at_hand(stream),
     pool_free(ptr, stream), free_in(ptr, stream, own));

/**
 * cuMemPoolCreate - make a pool
 * @props: where its memory is, whether it can be shared, and how much it may have
 *
 * maxSize is rounded up to 2 MiB. Managed pools have resident memory.
 *
 * Return: INVALID_VALUE; NOT_PERMITTED for fabric handles if this user has no channel;
 * NOT_SUPPORTED; OUT_OF_MEMORY.
 */
CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props)
{
	CALL(pool_create(pool, props), pool, props);
}

/**
 * cuMemPoolDestroy - destroy a pool
 *
 * What is allocated from it stays and can be freed. If it was a current pool the default one is
 * again. Return: INVALID_VALUE for a default pool, and for an imported one with live pointers.
 */
CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	CALL(pool_destroy(pool), pool);
}

/** cuMemPoolTrimTo - give back what nobody uses, as long as @keep_bytes stay reserved */
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep_bytes)
{
	CALL(pool_trim(pool, keep_bytes), pool, keep_bytes);
}

/**
 * cuMemPoolGetAttribute - one attribute of a pool
 * @value: an int for REUSE_*, else a cuuint64_t
 */
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	CALL(pool_get_attribute(pool, attribute, value), pool, attribute, value);
}

/**
 * cuMemPoolSetAttribute - set one
 * @value: the highs take 0 only, which makes them the current figures
 *
 * Return: INVALID_VALUE, also for the current figures.
 */
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	CALL(pool_set_attribute(pool, attribute, value), pool, attribute, value);
}

/** cuMemPoolGetAccess - READWRITE or NONE for a device or the host */
CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
	CALL(pool_get_access(flags, pool, location), flags, pool, location);
}

/**
 * cuMemPoolSetAccess - READWRITE or NONE for devices
 *
 * Copies and fills work without it, too (deviation). Return: INVALID_DEVICE, also for NONE of the
 * pool's own; NOT_SUPPORTED for READ and for what is no device; INVALID_VALUE.
 */
CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count)
{
	CALL(pool_set_access(pool, access, count), pool, access, count);
}

/** cuDeviceGetDefaultMemPool - the pool that a device begins with */
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
	CALL(pool_device_default(pool, device), pool, device);
}

/** cuDeviceGetMemPool - the pool that cuMemAllocAsync() uses */
CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
	CALL(pool_device_current(pool, device), pool, device);
}

/** cuDeviceSetMemPool - have it use another one of the same device */
CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool)
{
	CALL(pool_set_device_current(device, pool), device, pool);
}

/** cuMemGetDefaultMemPool - the default pool of a location and a type of memory */
CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location,
				CUmemAllocationType type)
{
	CALL(pool_default_of(pool, location, type), pool, location, type);
}

/** cuMemGetMemPool - the current one */
CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
	CALL(pool_current_of(pool, location, type), pool, location, type);
}

/** cuMemSetMemPool - make a pool of the same location and type the current one */
CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
	CALL(pool_set_current_of(location, type, pool), location, type, pool);
}

/**
 * cuMemPoolExportToShareableHandle - let other processes import a pool
 * @handle: an int, a new descriptor that execve() does not close; or a CUmemFabricHandle
 * @type: one of those that the pool was made with
 * @flags: 0
 */
CUresult cuMemPoolExportToShareableHandle(void *handle, CUmemoryPool pool,
					  CUmemAllocationHandleType type, unsigned long long flags)
{
	CALL(pool_export(handle, pool, type, flags), handle, pool, type, flags);
}

/**
 * cuMemPoolImportFromShareableHandle - use a pool of another process
 * @handle: the descriptor as a pointer, or a pointer to the CUmemFabricHandle
 *
 * An import takes pointers (cuMemPoolImportPointer()) and nothing else. Return: UNKNOWN if the
 * descriptor is not a pool's, NOT_PERMITTED without the pool's channel, INVALID_VALUE.
 */
CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *handle,
					    CUmemAllocationHandleType type,
					    unsigned long long flags)
{
	CALL(pool_import(pool, handle, type, flags), pool, handle, type, flags);
}

/**
 * cuMemPoolExportPointer - name an allocation for a process that imported its pool
 * @share_data: 64 bytes
 * @ptr: what an allocation returned
 *
 * Does not wait for anything. Return: INVALID_VALUE, also if the pool cannot be shared.
 */
CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *share_data, CUdeviceptr ptr)
{
	CALL(pool_export_pointer(share_data, ptr), share_data, ptr);
}

/**
 * cuMemPoolImportPointer - reach an allocation of another process
 * @ptr: its address here, the same each time
 * @pool: an import
 * @share_data: any bytes; what they can reach is the pool's memory and no more
 *
 * Does not wait for anything. Free it before the other process does.
 *
 * Return: INVALID_VALUE, also for memory that the pool does not have any more.
 */
BODY CUresult pool_import_pointer_body(CUdeviceptr *ptr, CUmemoryPool pool,
				       CUmemPoolPtrExportData *share_data)
{
	CALL_AS("cuMemPoolImportPointer", pool_import_pointer((uint64_t *)ptr, pool, share_data),
		ptr, pool, share_data);
}
ENTRY(cuMemPoolImportPointer, pool_import_pointer_body);
