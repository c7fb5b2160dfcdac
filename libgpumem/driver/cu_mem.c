// SPDX-License-Identifier: MIT
/*
 * The API's chapter "Memory Management": allocation, address ranges, DMA-bufs.
 *
 * Thin: memory/mem.c and share/dmabuf.c implement it.
 *
 * The functions that allocate and free have entries that programs can overwrite (abi/entry.h).
 *
 * Where a function has a _v2 form, the form without _v2 is the first API's, with addresses and sizes of 32 bits.
 * Such addresses cannot name device memory, which lies above 4 GiB.
 */
#include "driver/driver.h"

/**
 * cuMemGetInfo_v2 - free and total memory of the current context's device
 * @free_bytes: bytes that no process uses; may be NULL; 0 on failure
 * @total_bytes: may be NULL; 0 on failure
 *
 * Return: INVALID_CONTEXT.
 */
CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes)
{
	CLEAR(free_bytes);
	CLEAR(total_bytes);
	CALL(mem_info((uint64_t *)free_bytes, (uint64_t *)total_bytes), free_bytes, total_bytes);
}

static CUresult mem_info_32(unsigned int *free_bytes, unsigned int *total_bytes)
{
	uint64_t left = 0, total = 0;
	CUresult result = mem_info(&left, &total);

	if (!result && free_bytes)
		*free_bytes = min_u64(left, UINT32_MAX);
	if (!result && total_bytes)
		*total_bytes = min_u64(total, UINT32_MAX);
	return result;
}

/** cuMemGetInfo - free and total memory, each at most 4 GiB - 1 */
CUresult cuMemGetInfo(unsigned int *free_bytes, unsigned int *total_bytes)
{
	CLEAR(free_bytes);
	CLEAR(total_bytes);
	CALL(mem_info_32(free_bytes, total_bytes), free_bytes, total_bytes);
}

/**
 * cuMemAlloc_v2 - allocate device memory
 * @ptr: receives the memory's address, a multiple of 512; 0 on failure
 * @bytes: not 0
 *
 * The memory is zero. The call never waits for work. The CPU can access the memory at this address (deviation).
 *
 * Return: OUT_OF_MEMORY, INVALID_VALUE, INVALID_CONTEXT.
 */
BODY CUresult mem_alloc_body(CUdeviceptr *ptr, size_t bytes)
{
	CLEAR(ptr);
	CALL_AS("cuMemAlloc_v2", mem_alloc((uint64_t *)ptr, bytes), ptr, bytes);
}
ENTRY(cuMemAlloc_v2, mem_alloc_body);

/* Store an allocation's address in 32 bits. If it does not fit, free the allocation: OUT_OF_MEMORY. */
static CUresult narrow(CUresult result, uint64_t addr, CUdeviceptr_v1 *ptr)
{
	if (!result && addr > UINT32_MAX) {
		mem_free(addr, NULL);
		addr = 0;
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (ptr)
		*ptr = addr;
	return result;
}

static CUresult mem_alloc_32(CUdeviceptr_v1 *ptr, unsigned int bytes)
{
	uint64_t addr = 0;
	CUresult result = mem_alloc(ptr ? &addr : NULL, bytes);

	return narrow(result, addr, ptr);
}

/**
 * cuMemAlloc - allocate device memory at an address of 32 bits
 *
 * Return: OUT_OF_MEMORY, because all device memory lies above 4 GiB.
 */
BODY CUresult mem_alloc_32_body(CUdeviceptr_v1 *ptr, unsigned int bytes)
{
	CLEAR(ptr);
	CALL_AS("cuMemAlloc", mem_alloc_32(ptr, bytes), ptr, bytes);
}
ENTRY(cuMemAlloc, mem_alloc_32_body);

/**
 * cuMemAllocPitch_v2 - allocate rows of device memory
 * @ptr: the address of the first row, a multiple of 512; 0 on failure
 * @pitch: receives the bytes from one row to the next: @width rounded up to 512. Also set on OUT_OF_MEMORY;
 *	0 after other failures
 * @width: bytes in a row, not 0
 * @height: rows, not 0
 * @element_bytes: 4, 8 or 16
 *
 * Return: OUT_OF_MEMORY, also if the size does not fit 64 bits; INVALID_VALUE, also if the size is a multiple
 * of 2^64; INVALID_CONTEXT.
 */
BODY CUresult mem_alloc_pitch_body(CUdeviceptr *ptr, size_t *pitch, size_t width, size_t height,
				   unsigned int element_bytes)
{
	CLEAR(ptr);
	CLEAR(pitch);
	CALL_AS("cuMemAllocPitch_v2", mem_alloc_pitch((uint64_t *)ptr, (uint64_t *)pitch, width,
						      height, element_bytes), ptr, pitch, width,
		height, element_bytes);
}
ENTRY(cuMemAllocPitch_v2, mem_alloc_pitch_body);

static CUresult mem_alloc_pitch_32(CUdeviceptr_v1 *ptr, unsigned int *pitch, unsigned int width,
				   unsigned int height, unsigned int element_bytes)
{
	uint64_t addr = 0, row = 0;
	CUresult result = mem_alloc_pitch(ptr ? &addr : NULL, pitch ? &row : NULL, width, height,
					  element_bytes);

	if (pitch)
		*pitch = row;
	return narrow(result, addr, ptr);
}

/** cuMemAllocPitch - as cuMemAlloc(), for rows */
BODY CUresult mem_alloc_pitch_32_body(CUdeviceptr_v1 *ptr, unsigned int *pitch, unsigned int width,
				      unsigned int height, unsigned int element_bytes)
{
	CLEAR(ptr);
	CLEAR(pitch);
	CALL_AS("cuMemAllocPitch", mem_alloc_pitch_32(ptr, pitch, width, height, element_bytes),
		ptr, pitch, width, height, element_bytes);
}
ENTRY(cuMemAllocPitch, mem_alloc_pitch_32_body);

/**
 * cuMemFree_v2 - free device memory
 * @ptr: the address of an allocation of any context, or 0
 *
 * Waits for all work of the context that owns the memory, and for copies of other contexts that
 * read it. A free of a pool's memory does not wait. Needs no context.
 *
 * Return: INVALID_VALUE for any other address; CONTEXT_IS_DESTROYED if the current context was destroyed;
 * the error of work that failed (the memory is freed nevertheless).
 */
BODY CUresult mem_free_body(CUdeviceptr ptr)
{
	CALL_AS("cuMemFree_v2", mem_free(ptr, pool_free_now), ptr);
}
ENTRY(cuMemFree_v2, mem_free_body);

/** cuMemFree - the same at an address of 32 bits */
BODY CUresult mem_free_32_body(CUdeviceptr_v1 ptr)
{
	CALL_AS("cuMemFree", mem_free(ptr, pool_free_now), ptr);
}
ENTRY(cuMemFree, mem_free_32_body);

/**
 * cuMemGetAddressRange_v2 - the allocation around an address
 * @base: receives the allocation's first address; may be NULL; 0 on failure
 * @size: receives the size that the program asked for; may be NULL; 0 on failure
 * @ptr: any address in the allocation
 *
 * If both outputs are NULL the address is not looked up. NVIDIA's driver did the same in the recording.
 *
 * Return: NOT_FOUND, INVALID_CONTEXT.
 */
CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr ptr)
{
	CLEAR(base);
	CLEAR(size);
	CALL(mem_range((uint64_t *)base, (uint64_t *)size, ptr), base, size, ptr);
}

static CUresult mem_range_32(CUdeviceptr_v1 *base, unsigned int *size, CUdeviceptr_v1 ptr)
{
	uint64_t from = 0, bytes = 0;
	CUresult result = mem_range(base ? &from : NULL, size ? &bytes : NULL, ptr);

	if (base)
		*base = from;
	if (size)
		*size = min_u64(bytes, UINT32_MAX);
	return result;
}

/** cuMemGetAddressRange - the same for an address of 32 bits */
CUresult cuMemGetAddressRange(CUdeviceptr_v1 *base, unsigned int *size, CUdeviceptr_v1 ptr)
{
	CLEAR(base);
	CLEAR(size);
	CALL(mem_range_32(base, size, ptr), base, size, ptr);
}

#define PCIE	((unsigned long long)CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE)

/**
 * cuMemGetHandleForAddressRange - make a DMA-buf of device memory
 * @handle: an int, which receives the descriptor (close-on-exec); -1 if the range is wrong
 * @ptr: page aligned
 * @size: bytes, page aligned, not 0; the DMA-buf has exactly this length
 * @handle_type: CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD
 * @flags: 0
 *
 * Each call makes a new DMA-buf. The memory lives as long as one of its DMA-bufs does.
 *
 * Deviations: the CPU can map the DMA-buf; the range may extend to the end of the page of the
 * allocation's last byte.
 *
 * Return: INVALID_VALUE; NOT_SUPPORTED before cuInit() and for the PCIe flag; INVALID_CONTEXT.
 */
CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr ptr, size_t size,
				       CUmemRangeHandleType handle_type, unsigned long long flags)
{
	CUresult fault = DEBUG_NOTE(__func__, handle, ptr, size, handle_type, flags);

	RETURN(fault ? fault : !handle || !ptr || !size || (ptr | size) % PAGE || (flags && !(flags & PCIE)) ?
	       CUDA_ERROR_INVALID_VALUE : not_initialized() ? CUDA_ERROR_NOT_SUPPORTED :
	       dmabuf_export(handle, ptr, size, handle_type, flags));
}
