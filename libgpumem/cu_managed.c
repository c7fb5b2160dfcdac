// SPDX-License-Identifier: MIT
/*
 * The API's managed memory: the parts of the chapters "Memory Management", "Unified Addressing" and
 * "Stream Management" that name it.
 *
 * Thin: what is behind it is in managed.c. Allocation, advice and attributes need a context;
 * prefetching and attaching only where the stream does.
 *
 * The functions without _v2 name a device by its number and the host by CU_DEVICE_CPU.
 */
#include "entry.h"
#include "internal.h"

#define BOTH(name, args, call, ...)					\
	CUresult name args						\
	{								\
		const bool own = false;					\
									\
		CALL(call, __VA_ARGS__);					\
	}								\
	CUresult name ## _ptsz args					\
	{								\
		const bool own = true;					\
									\
		CALL(call, __VA_ARGS__);					\
	}

/**
 * cuMemAllocManaged - allocate memory that the host and all devices reach at one address
 * @ptr: the address, a multiple of 512; 0 on failure
 * @bytes: not 0
 * @flags: CU_MEM_ATTACH_GLOBAL or CU_MEM_ATTACH_HOST, which makes no difference
 *
 * The memory is zero. It is resident on the current context's device and counts there (deviation);
 * any device's streams and any thread may access it at any time. cuMemFree() frees it.
 *
 * Return: OUT_OF_MEMORY, INVALID_VALUE, INVALID_CONTEXT.
 */
BODY CUresult mem_alloc_managed_body(CUdeviceptr *ptr, size_t bytes, unsigned int flags)
{
	CALL_AS("cuMemAllocManaged", managed_alloc((uint64_t *)ptr, bytes, flags), ptr, bytes,
		flags);
}
ENTRY(cuMemAllocManaged, mem_alloc_managed_body);

/**
 * cuStreamAttachMemAsync - say which stream uses managed memory, after what is in the stream
 * @ptr: what cuMemAllocManaged() returned
 * @length: 0 or the whole size
 * @flags: CU_MEM_ATTACH_GLOBAL, HOST or SINGLE
 *
 * Checked, and without effect: devices report CONCURRENT_MANAGED_ACCESS, so that no attachment
 * keeps anybody from the memory.
 *
 * Return: INVALID_VALUE, also for SINGLE with stream 0; INVALID_HANDLE, INVALID_CONTEXT.
 */
BOTH(cuStreamAttachMemAsync,
     (CUstream stream, CUdeviceptr ptr, size_t length, unsigned int flags),
     managed_attach(stream, own, ptr, length, flags), stream, ptr, length, flags)

/**
 * cuMemAdvise_v2 - say how a range of managed memory will be used
 * @ptr: in managed memory
 * @count: bytes, not 0, in the same allocation; whole pages are meant
 * @advice: CU_MEM_ADVISE_*
 * @location: for SET_PREFERRED_LOCATION any; for ACCESSED_BY a device or the host; for the others its
 *	type has to be valid, no more
 *
 * Kept for cuMemRangeGetAttribute(), without any other effect (deviation).
 *
 * Return: INVALID_VALUE, INVALID_CONTEXT, OUT_OF_MEMORY.
 */
CUresult cuMemAdvise_v2(CUdeviceptr ptr, size_t count, CUmem_advise advice, CUmemLocation location)
{
	CALL(managed_advise(ptr, count, advice, location), ptr, count, advice, location.type,
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
	CALL(managed_advise(ptr, count, advice, location_of(device)), ptr, count, advice, device);
}

/**
 * cuMemPrefetchAsync_v2 - have a range of managed memory where it is going to be used
 * @ptr: in managed memory
 * @count: bytes, not 0, in the same allocation; whole pages are meant
 * @location: a device, the host or one of its NUMA nodes
 * @flags: 0
 * @stream: any
 *
 * A hint that is kept for cuMemRangeGetAttribute() at once; nothing moves (deviation).
 *
 * Return: INVALID_DEVICE, INVALID_VALUE, INVALID_HANDLE, INVALID_CONTEXT, OUT_OF_MEMORY.
 */
BOTH(cuMemPrefetchAsync_v2,
     (CUdeviceptr ptr, size_t count, CUmemLocation location, unsigned int flags, CUstream stream),
     managed_prefetch(ptr, count, location, flags, stream, own), ptr, count, location.type,
     location.id, flags, stream)

/** cuMemPrefetchAsync - the same, to a device or CU_DEVICE_CPU */
BOTH(cuMemPrefetchAsync, (CUdeviceptr ptr, size_t count, CUdevice device, CUstream stream),
     managed_prefetch(ptr, count, location_of(device), 0, stream, own), ptr, count, device, stream)

/**
 * cuMemRangeGetAttribute - what was said about a range of managed memory
 * @data: one or, for ACCESSED_BY, several ints
 * @size: bytes there, 4 or a multiple of it
 * @attribute: CU_MEM_RANGE_ATTRIBUTE_*
 * @ptr: in managed memory
 * @count: bytes, not 0, in the same allocation; whole pages are meant
 *
 * A range of which not the same was said everywhere has no location: -2, or type 0.
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
