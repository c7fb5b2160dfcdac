// SPDX-License-Identifier: MIT
/*
 * The API's chapter "Stream Ordered Memory Allocator".
 *
 * Thin: pool/ implements it. Allocation and free need a context only for the default streams, the functions of
 * pools never.
 *
 * Allocation and free are the fastest functions of the library. With a stream that is given by its handle
 * they jump into pool_heap.c, which reports failures itself. All other cases are out of line, so that the fast
 * path saves no registers.
 */
#include "driver/driver.h"

/* A call that is watched, in place of the fast paths of @expr and of their reports. */
#define WATCHED(name, expr, ...)						\
	do {									\
		CUresult fault_ = DEBUG_NOTE(name, ##__VA_ARGS__);		\
										\
		RETURN_AS(name, unlikely(fault_) ? fault_ : (expr));		\
	} while (0)

/* Both forms of a function, each with an entry that programs can overwrite: calls @fast if @ready, else @slow. */
#define ENTRY_FORMS(name, args, ready, fast, slow)			\
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

/* Whether a handle points to a live stream (not 0, 1 or 2), and the calling thread may submit work to it. */
static inline bool at_hand(CUstream handle)
{
	return quick() && !host_thread && (uintptr_t)handle >= PAGE &&
	       load_acquire(&handle->magic) == STREAM_MAGIC &&
	       !load_relaxed(&handle->ctx->sticky);
}

/* The stream of any handle. The function reports a failure, under the public function's @name. */
static CUresult stream_find(const char *name, CUstream handle, bool own, CUstream *stream)
{
	CALL_AS(name, stream_get(handle, own, stream), handle);
}

/* The same for a call that is watched, without a report. *@stream is the handle if there is no such stream. */
static CUresult stream_watched(CUstream handle, bool own, CUstream *stream)
{
	CUresult result = not_initialized() ? CUDA_ERROR_NOT_INITIALIZED :
		host_thread ? CUDA_ERROR_NOT_PERMITTED : stream_get(handle, own, stream);

	if (result)
		*stream = handle;
	return result;
}

/* Whether the tap may see calls later (core/pairs.h). */
#define LATER	unlikely(load_acquire(load_acquire(&client.later)))

/* at_hand(), for such a call. */
static inline __attribute__((always_inline)) struct pairs *at_hand_later(CUstream handle)
{
	return !host_thread && (uintptr_t)handle >= PAGE &&
	       load_acquire(&handle->magic) == STREAM_MAGIC && !load_relaxed(&handle->ctx->sticky) ? pairs_enter() : NULL;
}

static __attribute__((noinline)) CUresult alloc(CUdeviceptr *ptr, size_t bytes, CUstream handle,
						bool own)
{
	CUstream stream;
	CUresult result;

	CLEAR(ptr);
	if (unlikely(client.watched)) {
		result = stream_watched(handle, own, &stream);
		WATCHED("cuMemAllocAsync", result ? result : pool_alloc_checked(ptr, bytes, NULL, stream),
			ptr, bytes, stream);
	}
	result = stream_find("cuMemAllocAsync", handle, own, &stream);
	return result ? result : pool_alloc_current(ptr, bytes, stream);
}

/* Allocate in a call that the tap sees later. False: the call must be reported. */
static inline __attribute__((always_inline)) bool made_later(CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool,
							     CUstream stream)
{
	struct pairs *own;
	bool made;

	if (unlikely(!ptr))
		return false;
	/* A bad address faults before anything has happened. */
	*ptr = 0;
	own = at_hand_later(stream);
	if (unlikely(!own))
		return false;
	made = likely(pairs_room(own)) && pool_alloc_own(ptr, bytes, pool, stream);
	if (likely(made))
		pairs_made(own, *ptr, bytes, pool, stream);
	pairs_leave(own);
	return made;
}

static __attribute__((noinline)) CUresult alloc_later(CUdeviceptr *ptr, size_t bytes, CUstream handle, bool own)
{
	return likely(made_later(ptr, bytes, NULL, handle)) ? CUDA_SUCCESS : alloc(ptr, bytes, handle, own);
}

/**
 * cuMemAllocAsync - allocate in stream order from the current pool of the stream's device
 * @ptr: the address; 0 if @bytes is 0 and on failure
 * @bytes: the size; the pool counts exactly this size as used
 * @stream: later work of this stream may use the memory, and so may work of other streams that waits for it
 *
 * The call waits only if the stream is full, until there is room. Return: OUT_OF_MEMORY, INVALID_VALUE,
 * INVALID_CONTEXT.
 */
ENTRY_FORMS(cuMemAllocAsync, (CUdeviceptr *ptr, size_t bytes, CUstream stream),
	    at_hand(stream), pool_alloc_current(ptr, bytes, stream),
	    LATER ? alloc_later(ptr, bytes, stream, own) : alloc(ptr, bytes, stream, own));

static __attribute__((noinline)) CUresult alloc_from(CUdeviceptr *ptr, size_t bytes,
						     CUmemoryPool pool, CUstream handle, bool own)
{
	CUstream stream;
	CUresult result;

	CLEAR(ptr);
	if (unlikely(client.watched)) {
		result = stream_watched(handle, own, &stream);
		WATCHED("cuMemAllocFromPoolAsync", result ? result :
			pool ? pool_alloc_checked(ptr, bytes, pool, stream) : pool_alloc(ptr, bytes, NULL, stream),
			ptr, bytes, pool, stream);
	}
	result = stream_find("cuMemAllocFromPoolAsync", handle, own, &stream);
	return result ? result : pool_alloc(ptr, bytes, pool, stream);
}

static __attribute__((noinline)) CUresult alloc_from_later(CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool,
							   CUstream handle, bool own)
{
	return likely(pool && made_later(ptr, bytes, pool, handle)) ? CUDA_SUCCESS :
		alloc_from(ptr, bytes, pool, handle, own);
}

/**
 * cuMemAllocFromPoolAsync - allocate in stream order from the pool that the caller names
 *
 * Return: INVALID_VALUE also for a pool of another process.
 */
ENTRY_FORMS(cuMemAllocFromPoolAsync,
	    (CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool, CUstream stream),
	    at_hand(stream), pool_alloc(ptr, bytes, pool, stream),
	    LATER ? alloc_from_later(ptr, bytes, pool, stream, own) : alloc_from(ptr, bytes, pool, stream, own));

static __attribute__((noinline)) CUresult free_in(CUdeviceptr ptr, CUstream handle, bool own)
{
	CUstream stream;
	CUresult result;

	if (unlikely(client.watched)) {
		result = stream_watched(handle, own, &stream);
		WATCHED("cuMemFreeAsync", result || !ptr ? result : pool_free_checked(ptr, stream), ptr, stream);
	}
	result = stream_find("cuMemFreeAsync", handle, own, &stream);
	return result || !ptr ? result : pool_free(ptr, stream);
}

static __attribute__((noinline)) CUresult free_later(CUdeviceptr ptr, CUstream handle, bool own)
{
	struct pairs *list = at_hand_later(handle);
	struct tap_pair *pair;
	bool freed;

	if (unlikely(!list))
		return free_in(ptr, handle, own);
	pair = pairs_live(list, ptr, handle);
	freed = likely(pair) && pool_free_own(ptr, handle);
	if (likely(freed))
		pair->freed = true;
	pairs_leave(list);
	return likely(freed) ? CUDA_SUCCESS : free_in(ptr, handle, own);
}

/**
 * cuMemFreeAsync - free in stream order
 * @ptr: the address of an allocation (of cuMemAlloc(), too), or 0
 * @stream: any; the memory is free after the work that is in the stream now
 *
 * The call waits only if the stream is full, until there is room. When it returns, the library no longer knows
 * the address. Return: INVALID_VALUE for any other address, INVALID_CONTEXT.
 */
ENTRY_FORMS(cuMemFreeAsync, (CUdeviceptr ptr, CUstream stream), ptr && at_hand(stream),
	    pool_free(ptr, stream), LATER ? free_later(ptr, stream, own) : free_in(ptr, stream, own));

/**
 * cuMemPoolCreate - make a pool
 * @props: the location of the pool's memory, the handle types it can be exported as, and its limit (maxSize)
 *
 * maxSize is rounded up to 2 MiB. Memory of managed pools is managed memory, without a limit.
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
 * The pool's live allocations remain valid and can be freed. If the pool was a current pool, the default pool
 * becomes the current one. Return: INVALID_VALUE for a default pool, and for an import with live pointers.
 */
CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
	CALL(pool_destroy(pool), pool);
}

/** cuMemPoolTrimTo - release a pool's unused memory to the device, until only @keep_bytes are reserved */
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep_bytes)
{
	CALL(pool_trim(pool, keep_bytes), pool, keep_bytes);
}

/**
 * cuMemPoolGetAttribute - one attribute of a pool
 * @value: an int for REUSE_*, a cuuint64_t for the other attributes of CUDA 13.0 and for MAX_POOL_SIZE, else an int
 *	or a value of an enumeration
 *
 * Imported pools have the attributes ALLOCATION_TYPE to HW_DECOMPRESS_ENABLED only. These are new in CUDA 13.2:
 * documented, not measured. Return: INVALID_VALUE.
 */
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	CALL(pool_get_attribute(pool, attribute, value), pool, attribute, value);
}

/**
 * cuMemPoolSetAttribute - set one attribute of a pool
 * @value: an int for REUSE_*, else a cuuint64_t. The peaks (*_HIGH) take only 0, which sets them to the current
 *	values
 *
 * Return: INVALID_VALUE, also for the current values (*_CURRENT) and the properties, which cannot be set.
 */
CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	CALL(pool_set_attribute(pool, attribute, value), pool, attribute, value);
}

/** cuMemPoolGetAccess - the access of a device or the host to a pool's memory: READWRITE or NONE */
CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool, CUmemLocation *location)
{
	CALL(pool_get_access(flags, pool, location), flags, pool, location);
}

/**
 * cuMemPoolSetAccess - set the access of devices to a pool's memory: READWRITE or NONE
 *
 * Without access, fills fail, and so do copies of device memory. Copies of host memory work.
 *
 * Return: INVALID_DEVICE, also for NONE of the pool's own
 * device; NOT_SUPPORTED for READ and for other locations than devices; INVALID_VALUE.
 */
CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count)
{
	CALL(pool_set_access(pool, access, count), pool, access, count);
}

/** cuDeviceGetDefaultMemPool - a device's default pool, which is the current one at first */
CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
	CALL(pool_device_default(pool, device), pool, device);
}

/** cuDeviceGetMemPool - the pool that cuMemAllocAsync() uses */
CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device)
{
	CALL(pool_device_current(pool, device), pool, device);
}

/** cuDeviceSetMemPool - make another pool of the device the one that cuMemAllocAsync() uses */
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

/** cuMemGetMemPool - the current pool of a location and a type of memory */
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
 * @type: one of the handle types that the pool was made with
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
 * An imported pool serves only cuMemPoolImportPointer(); allocating from it fails. Return: UNKNOWN if the
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
 * @share_data: receives 64 bytes
 * @ptr: the address of an allocation
 *
 * The call does not wait for work. Return: INVALID_VALUE, also if the pool cannot be shared.
 */
CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *share_data, CUdeviceptr ptr)
{
	CALL(pool_export_pointer(share_data, ptr), share_data, ptr);
}

/**
 * cuMemPoolImportPointer - reach an allocation of another process
 * @ptr: receives the allocation's address in this process, the same each time for device memory
 * @pool: an imported pool
 * @share_data: from cuMemPoolExportPointer(). Whatever the bytes are, they can name only the pool's memory
 *
 * The call does not wait for work. The importing process must free the pointer before the exporting process
 * frees the allocation.
 *
 * Return: INVALID_VALUE, also for memory that the pool has given back; ALREADY_MAPPED for host memory that is imported
 * already.
 */
BODY CUresult pool_import_pointer_body(CUdeviceptr *ptr, CUmemoryPool pool,
				       CUmemPoolPtrExportData *share_data)
{
	CALL_AS("cuMemPoolImportPointer", pool_import_pointer((uint64_t *)ptr, pool, share_data),
		ptr, pool, share_data);
}
ENTRY(cuMemPoolImportPointer, pool_import_pointer_body);
