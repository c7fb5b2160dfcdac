// SPDX-License-Identifier: MIT
/*
 * The API's chapter "Virtual Memory Management".
 *
 * Thin: memory/vmm.c, memory/handle.c, share/handle_fd.c and copy/array_map.c implement it. No function needs a
 * context but cuMemMapArrayAsync(), which needs its stream's, and none waits for work. Sizes, addresses and offsets are bytes; the granularity is 2 MiB.
 */
#include "driver/driver.h"
#include "driver/forms.h"
#include "copy/array.h"

/**
 * cuMemAddressReserve - reserve addresses
 * @ptr: receives the first address
 * @size: a multiple of 2 MiB, not 0
 * @alignment: a power of two, or 0 for 2 MiB
 * @addr: a multiple of 2 MiB that the caller would like, or 0; taken if the library reserved these addresses from
 *	the process before and nothing uses them
 * @flags: must be 0
 *
 * No other mapping of the process gets the addresses until cuMemAddressFree(). An access faults.
 *
 * Return: INVALID_VALUE; OUT_OF_MEMORY if the process has no such range of addresses.
 */
BODY CUresult address_reserve_body(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
				   unsigned long long flags)
{
	CALL_AS("cuMemAddressReserve", vmm_reserve((uint64_t *)ptr, size, alignment, addr, flags), ptr,
		size, alignment, addr, flags);
}
ENTRY(cuMemAddressReserve, address_reserve_body);

/**
 * cuMemAddressFree - give reserved addresses back
 * @ptr: first address of a reservation
 * @size: its size
 *
 * Return: INVALID_VALUE if this is no reservation as a whole, or if memory is mapped in it.
 */
BODY CUresult address_free_body(CUdeviceptr ptr, size_t size)
{
	CALL_AS("cuMemAddressFree", vmm_free(ptr, size), ptr, size);
}
ENTRY(cuMemAddressFree, address_free_body);

/**
 * cuMemCreate - allocate memory without an address
 * @handle: receives the handle
 * @size: a multiple of 2 MiB, not 0
 * @prop: where the memory is (a device, the host, a node of the host), and the types of handles that it can be
 *	exported as
 * @flags: must be 0
 *
 * The memory is zero. Memory of the host counts against the user's budget of pinned memory. Memory is never
 * compressed.
 *
 * Return: INVALID_VALUE, INVALID_DEVICE, OUT_OF_MEMORY; NOT_PERMITTED for a fabric handle.
 */
BODY CUresult mem_create_body(CUmemGenericAllocationHandle *handle, size_t size,
			      const CUmemAllocationProp *prop, unsigned long long flags)
{
	CALL_AS("cuMemCreate", handle_create((uint64_t *)handle, size, prop, flags), handle, size, prop,
		flags);
}
ENTRY(cuMemCreate, mem_create_body);

/**
 * cuMemRelease - give a reference of a handle back
 * @handle: from cuMemCreate(), cuMemRetainAllocationHandle() or an import
 *
 * The memory lives for as long as it is mapped, or as another process has it.
 *
 * Return: INVALID_VALUE if the program has no reference.
 */
BODY CUresult mem_release_body(CUmemGenericAllocationHandle handle)
{
	CALL_AS("cuMemRelease", handle_release(handle), handle);
}
ENTRY(cuMemRelease, mem_release_body);

/**
 * cuMemMap - map the memory of a handle
 * @ptr: a multiple of 2 MiB in a reservation
 * @size: the size of the handle's memory
 * @offset: must be 0
 * @handle: its memory may be mapped several times
 * @flags: must be 0
 *
 * No location can access the mapping before cuMemSetAccess().
 *
 * Return: INVALID_VALUE if the range is not free or leaves its reservation; NOT_SUPPORTED for a part of the memory;
 * OUT_OF_MEMORY, also at the user's limit of mappings.
 */
BODY CUresult mem_map_body(CUdeviceptr ptr, size_t size, size_t offset,
			   CUmemGenericAllocationHandle handle, unsigned long long flags)
{
	CALL_AS("cuMemMap", vmm_map(ptr, size, offset, handle, flags), ptr, size, offset, handle,
		flags);
}
ENTRY(cuMemMap, mem_map_body);

/**
 * cuMemUnmap - take mappings away
 * @ptr: an address in a reservation, where a mapping begins or where nothing is mapped
 * @size: not 0; the range must not end inside a mapping
 *
 * The range may have several mappings and holes. Queued work that uses the memory fails when it is executed, and
 * its context with it.
 *
 * Return: INVALID_VALUE, and nothing is unmapped.
 */
BODY CUresult mem_unmap_body(CUdeviceptr ptr, size_t size)
{
	CALL_AS("cuMemUnmap", vmm_unmap(ptr, size), ptr, size);
}
ENTRY(cuMemUnmap, mem_unmap_body);

/**
 * cuMemSetAccess - set the rights of locations in mappings
 * @ptr: where a mapping begins
 * @size: up to the end of a mapping; no hole in between
 * @desc: locations and their rights; the last entry of a location counts
 * @count: number of entries, not 0
 *
 * The rights of other locations stay. Host locations get rights in memory of the host only. Without GPUMEM_STRICT
 * the CPU has the rights of all locations together (deviation).
 *
 * Return: INVALID_VALUE, NOT_SUPPORTED for a host location and memory of a device, OUT_OF_MEMORY if the process
 * has too many mappings (vm.max_map_count). A call that fails changes nothing.
 */
CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
	CALL(vmm_set_access(ptr, size, desc, count), ptr, size, desc, count);
}

/**
 * cuMemGetAccess - the rights of a location in a mapping
 * @flags: receives CU_MEM_ACCESS_FLAGS_PROT_*; 0 for memory that was not mapped by cuMemMap()
 * @location: a device, or a location of the host; CU_MEM_LOCATION_TYPE_HOST: the rights that any location has
 * @ptr: any address in the mapping
 *
 * Return: INVALID_VALUE for an address without memory, INVALID_DEVICE for an unknown location.
 */
CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
	CALL(vmm_get_access(flags, location, ptr), flags, location, ptr);
}

/**
 * cuMemRetainAllocationHandle - the handle of mapped memory
 * @handle: receives the handle; cuMemRelease() gives this reference back
 * @addr: any address in a mapping
 *
 * Return: INVALID_VALUE if no handle is mapped there.
 */
BODY CUresult mem_retain_body(CUmemGenericAllocationHandle *handle, void *addr)
{
	CALL_AS("cuMemRetainAllocationHandle", vmm_retain((uint64_t *)handle, addr), handle, addr);
}
ENTRY(cuMemRetainAllocationHandle, mem_retain_body);

/**
 * cuMemMapArrayAsync - map memory to tiles of sparse arrays, or take it away, in stream order
 * @list: what to map. A box of tiles: offsets and extents in elements are multiples of a tile, or end with the
 *	array. A mip tail: offset and size are multiples of 64 KiB. A deferred array: all of it, as a box, or any
 *	part of it as a mip tail. MAP: a handle created with CU_MEM_CREATE_USAGE_TILE_POOL, and an offset, a multiple
 *	of 64 KiB. UNMAP: no handle
 * @count: entries; later entries override earlier ones
 * @stream: copies queued before the call see the arrays as they were
 *
 * Mapped memory stays when its handle is released, until it is replaced or unmapped, or the array destroyed. What
 * is not mapped reads as zero, and writes to it are dropped.
 *
 * Return: INVALID_VALUE, OUT_OF_MEMORY. A call that fails maps nothing.
 */
BODY CUresult map_array_body(CUarrayMapInfo *list, unsigned int count, CUstream stream)
{
	CALL_AFTER_AS("cuMemMapArrayAsync", NEEDS(list && count), array_map(list, count, stream, false),
		      list, count, stream);
}
ENTRY(cuMemMapArrayAsync, map_array_body);

BODY CUresult map_array_own_body(CUarrayMapInfo *list, unsigned int count, CUstream stream)
{
	CALL_AFTER_AS("cuMemMapArrayAsync_ptsz", NEEDS(list && count), array_map(list, count, stream, true),
		      list, count, stream);
}
ENTRY(cuMemMapArrayAsync_ptsz, map_array_own_body);

/**
 * cuMemGetAllocationGranularity - what sizes and addresses must be multiples of
 * @granularity: receives 2 MiB
 * @prop: not looked at
 * @option: CU_MEM_ALLOC_GRANULARITY_MINIMUM or RECOMMENDED
 *
 * Return: INVALID_VALUE.
 */
CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
				       CUmemAllocationGranularity_flags option)
{
	CALL(handle_granularity((uint64_t *)granularity, prop, option), granularity, prop, option);
}

/**
 * cuMemGetAllocationPropertiesFromHandle - what a handle was created with
 * @prop: receives the properties; an import has no handle types and no flags
 * @handle: the handle
 *
 * Return: INVALID_VALUE.
 */
CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
						CUmemGenericAllocationHandle handle)
{
	CALL(handle_prop(prop, handle), prop, handle);
}

/**
 * cuMemExportToShareableHandle - a descriptor of memory for other processes
 * @shareable: receives the descriptor, an int; it is closed by execve()
 * @handle: created with this type of handle
 * @type: CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
 * @flags: must be 0
 *
 * Return: INVALID_VALUE, also for an imported handle; OUT_OF_MEMORY.
 */
CUresult cuMemExportToShareableHandle(void *shareable, CUmemGenericAllocationHandle handle,
				      CUmemAllocationHandleType type, unsigned long long flags)
{
	CALL(handle_export(shareable, handle, type, flags), shareable, handle, type, flags);
}

/**
 * cuMemImportFromShareableHandle - the memory of a descriptor
 * @handle: receives a new handle
 * @shareable: the descriptor's number as a pointer; it stays open
 * @type: CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
 *
 * Return: UNKNOWN if the descriptor is not one of cuMemExportToShareableHandle(); NOT_PERMITTED if the memory's
 * device is not visible; NOT_SUPPORTED for other types; INVALID_VALUE, OUT_OF_MEMORY.
 */
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shareable,
					CUmemAllocationHandleType type)
{
	CALL(handle_import((uint64_t *)handle, shareable, type), handle, shareable, type);
}
