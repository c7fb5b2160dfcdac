// SPDX-License-Identifier: MIT
/*
 * The API's managed memory: its functions of the chapters "Memory Management", "Unified Addressing" and
 * "Stream Management".
 *
 * Thin: memory/managed.c implements it. Allocation, advice and attributes need a context; prefetching,
 * discarding and attaching need one only for the default streams.
 *
 * The functions without _v2 name a device by its number and the host by CU_DEVICE_CPU.
 */
#include "driver/driver.h"
#include "driver/forms.h"

/**
 * cuMemAllocManaged - allocate memory that the host and all devices reach at one address
 * @ptr: receives the address, a multiple of 512; 0 on failure
 * @bytes: not 0
 * @flags: CU_MEM_ATTACH_GLOBAL or CU_MEM_ATTACH_HOST, the default attachment; without an exclusive device both have
 *	the same effect
 *
 * The memory is zero. The call takes no memory: pages are allocated when the CPU or an engine first touches them, and
 * blocks of 2 MiB that an engine touches count as its device's memory until they are evicted. So @bytes may exceed
 * the device's memory, up to 1 TiB (deviation). Streams of any device and any thread may access the memory at any
 * time, unless the module parameter concurrent_managed made a device exclusive: see cuStreamAttachMemAsync().
 * cuMemFree() frees it. If the module parameter managed is off, the memory is device memory from the start.
 *
 * Return: OUT_OF_MEMORY, INVALID_VALUE, INVALID_CONTEXT.
 */
BODY CUresult mem_alloc_managed_body(CUdeviceptr *ptr, size_t bytes, unsigned int flags)
{
	CLEAR(ptr);
	CALL_AFTER_AS("cuMemAllocManaged",
		      NEEDS(ptr && bytes &&
			    (flags == CU_MEM_ATTACH_GLOBAL || flags == CU_MEM_ATTACH_HOST)),
		      managed_alloc((uint64_t *)ptr, bytes, flags), ptr, bytes, flags);
}
ENTRY(cuMemAllocManaged, mem_alloc_managed_body);

/**
 * cuStreamAttachMemAsync - say which streams use managed memory, in stream order
 * @ptr: an address that cuMemAllocManaged() returned
 * @length: 0 or the whole size
 * @flags: CU_MEM_ATTACH_GLOBAL, HOST or SINGLE
 *
 * If all devices report CONCURRENT_MANAGED_ACCESS, the arguments are checked, and the call has no effect. Otherwise
 * the CPU has no access to the memory while the streams that it is attached to have work on exclusive devices (those
 * that do not report it): with GLOBAL all streams, with SINGLE @stream, with HOST none. Copies and fills of HOST
 * memory by exclusive devices are refused (deviation). The change happens when the earlier work of @stream is done.
 * When @stream is destroyed, the memory gets the attachment of cuMemAllocManaged() after the stream's work.
 *
 * Return: INVALID_VALUE, also for SINGLE with stream 0; INVALID_HANDLE, INVALID_CONTEXT, OUT_OF_MEMORY.
 */
STREAM_FORMS(cuStreamAttachMemAsync,
	     (CUstream stream, CUdeviceptr ptr, size_t length, unsigned int flags), CUDA_SUCCESS,
	     managed_attach(stream, own, ptr, length, flags), stream, ptr, length, flags)

/**
 * cuMemAdvise_v2 - advise how a range of managed memory will be used
 * @ptr: an address in managed memory
 * @count: bytes, not 0, in the same allocation; the advice is for the whole pages of the range
 * @advice: CU_MEM_ADVISE_*
 * @location: for SET_PREFERRED_LOCATION any location; for ACCESSED_BY a device or the host; for the other advice
 *	only the type must be valid
 *
 * The advice is stored for cuMemRangeGetAttribute(). When an engine touches a block of 2 MiB that lies in the range
 * as a whole, the kernel follows the advice. As recorded, memory of a pool takes no advice: it prefers the pool's
 * location. No preferred location or ACCESSED_BY can be set to an exclusive device.
 *
 * Return: INVALID_VALUE, INVALID_DEVICE for an exclusive device, INVALID_CONTEXT, OUT_OF_MEMORY; NOT_SUPPORTED for
 * memory of a pool.
 */
CUresult cuMemAdvise_v2(CUdeviceptr ptr, size_t count, CUmem_advise advice, CUmemLocation location)
{
	CALL_AFTER(managed_advice_known(advice, location.type),
		   managed_advise(ptr, count, advice, location), ptr, count, advice, location.type,
		   location.id);
}

static CUmemLocation location_of(CUdevice device)
{
	CUmemLocation location = { .type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device };

	if (device == CU_DEVICE_CPU) {
		location.type = CU_MEM_LOCATION_TYPE_HOST;
		location.id = 0;
	}
	return location;
}

/** cuMemAdvise - the same, for a device or CU_DEVICE_CPU */
CUresult cuMemAdvise(CUdeviceptr ptr, size_t count, CUmem_advise advice, CUdevice device)
{
	CALL_AFTER(managed_advice_known(advice, location_of(device).type),
		   managed_advise(ptr, count, advice, location_of(device)), ptr, count, advice,
		   device);
}

/**
 * cuMemPrefetchAsync_v2 - prefetch a range of managed memory
 * @ptr: an address in managed memory
 * @count: bytes, not 0, in the same allocation; the prefetch is of the whole pages of the range
 * @location: a device, the host or one of its NUMA nodes
 * @flags: 0
 * @stream: any
 *
 * The call stores the location for cuMemRangeGetAttribute() at once. In stream order, the blocks of 2 MiB that the
 * range touches become resident on the device, as far as there is room, or are evicted if @location is on the host.
 * Memory of pools does not move (deviation). Neither the location nor the stream's device may be exclusive.
 *
 * Return: INVALID_DEVICE, INVALID_VALUE, INVALID_HANDLE, INVALID_CONTEXT, OUT_OF_MEMORY.
 */
STREAM_FORMS(cuMemPrefetchAsync_v2, (CUdeviceptr ptr, size_t count, CUmemLocation location,
				     unsigned int flags, CUstream stream),
	     NEEDS(!flags && managed_place_known(location.type)),
	     managed_prefetch(ptr, count, location, stream, own), ptr, count, location.type,
	     location.id, flags, stream)

/** cuMemPrefetchAsync - the same, to a device or CU_DEVICE_CPU */
STREAM_FORMS(cuMemPrefetchAsync, (CUdeviceptr ptr, size_t count, CUdevice device, CUstream stream),
	     CUDA_SUCCESS, managed_prefetch(ptr, count, location_of(device), stream, own), ptr,
	     count, device, stream)

/* As recorded: the legacy stream is refused before anything else is checked, stream 0 of _ptsz forms is not. */
static bool batch_stream(CUstream stream, bool own)
{
	return stream != CU_STREAM_LEGACY && (stream || own);
}

#define BATCH(kind, ...)	managed_batch(&(struct managed_batch){			\
		.what = kind, .ptrs = ptrs, .sizes = sizes, .count = count, __VA_ARGS__ }, stream, own)
#define PLACES	.places = locations, .indices = indices, .place_count = location_count

/**
 * cuMemPrefetchBatchAsync - prefetch many ranges of managed memory
 * @ptrs: @count addresses in managed memory
 * @sizes: @count sizes in bytes, not 0, each in the allocation of its address
 * @count: the number of ranges, not 0
 * @locations: @location_count locations, as for cuMemPrefetchAsync_v2()
 * @indices: for each location the first range that it is for: the first is 0, all are below @count
 * @location_count: not 0, at most @count
 * @flags: 0
 * @stream: not the legacy stream
 *
 * As cuMemPrefetchAsync_v2() of each range. If the arguments are refused, nothing has changed (deviation).
 *
 * Return: INVALID_VALUE, also for a device that does not exist; NOT_SUPPORTED if a device is exclusive;
 * INVALID_HANDLE, INVALID_CONTEXT, OUT_OF_MEMORY.
 */
STREAM_FORMS(cuMemPrefetchBatchAsync,
	     (CUdeviceptr *ptrs, size_t *sizes, size_t count, CUmemLocation *locations,
	      size_t *indices, size_t location_count, unsigned long long flags, CUstream stream),
	     NEEDS(!flags && batch_stream(stream, own)), BATCH(MANAGED_PREFETCH, PLACES),
	     ptrs, sizes, count, locations, indices, location_count, flags, stream)

/**
 * cuMemDiscardBatchAsync - the contents of many ranges of managed memory are not needed any more
 *
 * Until a range is written again, reading it returns undefined data, and does not fail. In stream order, the kernel
 * takes the whole pages of the range back, and the blocks of 2 MiB that it touches are no longer resident. The arguments
 * are those of cuMemPrefetchBatchAsync().
 */
STREAM_FORMS(cuMemDiscardBatchAsync,
	     (CUdeviceptr *ptrs, size_t *sizes, size_t count, unsigned long long flags,
	      CUstream stream),
	     NEEDS(!flags && batch_stream(stream, own)), BATCH(MANAGED_DISCARD),
	     ptrs, sizes, count, flags, stream)

/** cuMemDiscardAndPrefetchBatchAsync - cuMemDiscardBatchAsync(), then cuMemPrefetchBatchAsync() */
STREAM_FORMS(cuMemDiscardAndPrefetchBatchAsync,
	     (CUdeviceptr *ptrs, size_t *sizes, size_t count, CUmemLocation *locations,
	      size_t *indices, size_t location_count, unsigned long long flags, CUstream stream),
	     NEEDS(!flags && batch_stream(stream, own)), BATCH(MANAGED_DISCARD_PREFETCH, PLACES),
	     ptrs, sizes, count, locations, indices, location_count, flags, stream)

/**
 * cuMemRangeGetAttribute - advice and prefetches of a range of managed memory
 * @data: receives an int or, for ACCESSED_BY, several ints
 * @size: bytes at @data, 4 or a multiple of 4
 * @attribute: CU_MEM_RANGE_ATTRIBUTE_*
 * @ptr: an address in managed memory
 * @count: bytes, not 0, in the same allocation; the attribute is that of the whole pages of the range
 *
 * If the pages of the range have different locations, the answer is -2, or type 0.
 *
 * Return: INVALID_VALUE, INVALID_CONTEXT.
 */
CUresult cuMemRangeGetAttribute(void *data, size_t size, CUmem_range_attribute attribute,
				CUdeviceptr ptr, size_t count)
{
	CALL(managed_attributes(&data, &size, &attribute, 1, ptr, count), data, size, attribute,
	     ptr, count);
}

/** cuMemRangeGetAttributes - the same for several attributes; nothing is written on failure */
CUresult cuMemRangeGetAttributes(void **data, size_t *sizes, CUmem_range_attribute *attributes,
				 size_t attribute_count, CUdeviceptr ptr, size_t count)
{
	CALL(managed_attributes(data, sizes, attributes, attribute_count, ptr, count), data, sizes,
	     attributes, attribute_count, ptr, count);
}
