// SPDX-License-Identifier: MIT
/*
 * The API's chapter "Memory Management": host memory.
 *
 * Thin: host.c and mem.c of memory/ implement it.
 *
 * The devices use host memory at the process's addresses, whatever the flags say: DEVICEMAP and PORTABLE make no
 * difference, and WRITECOMBINED memory is ordinary memory. The flags are stored and reported; DEVICEMAP is
 * always reported.
 *
 * Where a function has a _v2 form, the form without _v2 is the first API's. Its addresses and sizes have 32 bits,
 * except those of cuMemHostRegister().
 */
#include "driver/driver.h"

/**
 * cuMemHostAlloc - allocate pinned host memory
 * @ptr: receives the memory's address, a multiple of 512; NULL on failure, and for a size of 0
 * @bytes: 0 is no error
 * @flags: CU_MEMHOSTALLOC_*
 *
 * The memory is zero. It counts against the user's budget of pinned memory.
 *
 * Return: OUT_OF_MEMORY, INVALID_VALUE for NULL @ptr and unknown flags, INVALID_CONTEXT.
 */
BODY CUresult mem_host_alloc_body(void **ptr, size_t bytes, unsigned int flags)
{
	CLEAR(ptr);
	CALL_AS("cuMemHostAlloc", host_alloc(ptr, bytes, flags), ptr, bytes, flags);
}
ENTRY(cuMemHostAlloc, mem_host_alloc_body);

/** cuMemAllocHost_v2 - cuMemHostAlloc() without flags */
BODY CUresult mem_alloc_host_body(void **ptr, size_t bytes)
{
	CLEAR(ptr);
	CALL_AS("cuMemAllocHost_v2", host_alloc(ptr, bytes, 0), ptr, bytes);
}
ENTRY(cuMemAllocHost_v2, mem_alloc_host_body);

/** cuMemAllocHost - cuMemHostAlloc() without flags, with a size of 32 bits */
BODY CUresult mem_alloc_host_32_body(void **ptr, unsigned int bytes)
{
	CLEAR(ptr);
	CALL_AS("cuMemAllocHost", host_alloc(ptr, bytes, 0), ptr, bytes);
}
ENTRY(cuMemAllocHost, mem_alloc_host_32_body);

/**
 * cuMemFreeHost - free pinned host memory
 * @ptr: an address that cuMemHostAlloc() or cuMemAllocHost() returned; NULL is no error
 *
 * Waits for all work of the context that owns the memory, and for copies of other contexts that
 * read it. No context needs to be current.
 *
 * Return: INVALID_VALUE for any other address.
 */
BODY CUresult mem_free_host_body(void *ptr)
{
	CALL_AS("cuMemFreeHost", mem_free_host((uintptr_t)ptr), ptr);
}
ENTRY(cuMemFreeHost, mem_free_host_body);

/**
 * cuMemHostGetDevicePointer_v2 - the device's address of host memory
 * @ptr: receives @host_ptr, which is also the device's address; 0 on failure
 * @host_ptr: any address inside pinned or registered memory
 * @flags: must be 0
 *
 * Return: INVALID_VALUE, INVALID_CONTEXT.
 */
CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *ptr, void *host_ptr, unsigned int flags)
{
	CLEAR(ptr);
	CALL(host_pointer((uint64_t *)ptr, host_ptr, flags), ptr, host_ptr, flags);
}

static CUresult host_pointer_32(CUdeviceptr_v1 *ptr, void *host_ptr, unsigned int flags)
{
	uint64_t addr = 0;
	CUresult result = host_pointer(ptr ? &addr : NULL, host_ptr, flags);

	if (!result && addr > UINT32_MAX) {
		addr = 0;
		result = CUDA_ERROR_INVALID_VALUE;
	}
	if (ptr)
		*ptr = addr;
	return result;
}

/** cuMemHostGetDevicePointer - the same with 32 bits; INVALID_VALUE for addresses above 4 GiB - 1 */
CUresult cuMemHostGetDevicePointer(CUdeviceptr_v1 *ptr, void *host_ptr, unsigned int flags)
{
	CLEAR(ptr);
	CALL(host_pointer_32(ptr, host_ptr, flags), ptr, host_ptr, flags);
}

/**
 * cuMemHostGetFlags - how host memory was allocated or registered
 * @flags: receives WRITECOMBINED as given, PORTABLE as given if the context that owns the memory is current, and
 *	always DEVICEMAP
 * @ptr: any address inside pinned, registered or managed memory
 *
 * Return: INVALID_VALUE, INVALID_CONTEXT.
 */
CUresult cuMemHostGetFlags(unsigned int *flags, void *ptr)
{
	CALL_AFTER(NEEDS(flags), host_flags(flags, ptr), flags, ptr);
}

/**
 * cuMemHostRegister_v2 - let the devices use memory of the program
 * @ptr: the memory's first byte, any alignment
 * @bytes: not 0
 * @flags: CU_MEMHOSTREGISTER_*
 *
 * The pages are pinned and count against the user's budget of pinned memory. With READ_ONLY the
 * memory need not be writable, and copies to it are refused. IOMEMORY is for device registers, which
 * the CPU copies. A shared, writable mapping of a file on a disk cannot be registered (deviation).
 *
 * Return: HOST_MEMORY_ALREADY_REGISTERED if any byte is registered; INVALID_VALUE if any byte is not
 * memory of the program, cannot be pinned, or is not writable; OUT_OF_MEMORY, INVALID_CONTEXT.
 */
BODY CUresult mem_host_register_body(void *ptr, size_t bytes, unsigned int flags)
{
	CALL_AS("cuMemHostRegister_v2", host_register(ptr, bytes, flags), ptr, bytes, flags);
}
ENTRY(cuMemHostRegister_v2, mem_host_register_body);

/** cuMemHostRegister - the same */
BODY CUresult mem_host_register_old_body(void *ptr, size_t bytes, unsigned int flags)
{
	CALL_AS("cuMemHostRegister", host_register(ptr, bytes, flags), ptr, bytes, flags);
}
ENTRY(cuMemHostRegister, mem_host_register_old_body);

/**
 * cuMemHostUnregister - end a registration of host memory
 * @ptr: the registration's first byte
 *
 * Waits for all work. No context is needed.
 *
 * Return: HOST_MEMORY_NOT_REGISTERED; INVALID_VALUE for NULL, an address inside a registration, and
 * memory of the library.
 */
BODY CUresult mem_host_unregister_body(void *ptr)
{
	CALL_AS("cuMemHostUnregister", host_unregister(ptr), ptr);
}
ENTRY(cuMemHostUnregister, mem_host_unregister_body);
