// SPDX-License-Identifier: MIT
/*
 * The runtime API's chapter "External Resource Interoperability": memory and semaphores of other processes and
 * drivers.
 *
 * Owns nothing. Descriptions, handles and results are the driver's, except that the runtime describes the elements
 * of a mapped array by components. Signals and waits differ between the generations: cuda_rt_gen12.c and
 * cuda_rt_gen13.c have them.
 */
#include "runtime/cuda_rt_array.h"
#include "abi/entry.h"

/* CUDA's runtime ignores the reserved members, which the driver checks. */
static cudaError_t import_memory(cudaExternalMemory_t *memory,
				 const struct cudaExternalMemoryHandleDesc *desc)
{
	CUDA_EXTERNAL_MEMORY_HANDLE_DESC d;

	if (!desc)
		return cudaErrorInvalidValue;
	d = (CUDA_EXTERNAL_MEMORY_HANDLE_DESC) {
		.type = (CUexternalMemoryHandleType)desc->type, .size = desc->size,
		.flags = desc->flags,
	};
	memcpy(&d.handle, &desc->handle, sizeof(d.handle));
	return rt_code(cuImportExternalMemory((CUexternalMemory *)memory, &d));
}

/**
 * cudaImportExternalMemory - import memory, as cuImportExternalMemory()
 *
 * The type may also be CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD, which the runtime's enumeration lacks.
 */
BODY cudaError_t rt_import_memory_body(cudaExternalMemory_t *memory,
				       const struct cudaExternalMemoryHandleDesc *desc)
{
	RT_CONTEXT(import_memory(memory, desc));
}
ENTRY(cudaImportExternalMemory, rt_import_memory_body);

static cudaError_t mapped_buffer(void **ptr, cudaExternalMemory_t memory,
				 const struct cudaExternalMemoryBufferDesc *desc)
{
	CUdeviceptr addr;
	CUresult result;

	if (!ptr)
		return cudaErrorInvalidValue;
	result = cuExternalMemoryGetMappedBuffer(&addr, (CUexternalMemory)memory,
						 (const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *)desc);
	if (!result)
		*ptr = rt_ptr(addr);
	return rt_code(result);
}

/** cudaExternalMemoryGetMappedBuffer - map a range of external memory; cudaFree() frees it */
BODY cudaError_t rt_mapped_buffer_body(void **ptr, cudaExternalMemory_t memory,
				       const struct cudaExternalMemoryBufferDesc *desc)
{
	RT_CONTEXT(mapped_buffer(ptr, memory, desc));
}
ENTRY(cudaExternalMemoryGetMappedBuffer, rt_mapped_buffer_body);

static cudaError_t mapped_mipmap(cudaMipmappedArray_t *mipmap, cudaExternalMemory_t memory,
				 const struct cudaExternalMemoryMipmappedArrayDesc *desc)
{
	CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC d;
	cudaError_t error;

	if (!desc)
		return cudaErrorInvalidValue;
	d = (CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC) {
		.offset = desc->offset, .numLevels = desc->numLevels,
	};
	memcpy(d.reserved, desc->reserved, sizeof(d.reserved));
	error = rt_array_desc(&d.arrayDesc, &desc->formatDesc, desc->extent, desc->flags);
	if (error)
		return error;
	return rt_code(cuExternalMemoryGetMappedMipmappedArray((CUmipmappedArray *)mipmap,
							       (CUexternalMemory)memory, &d));
}

/** cudaExternalMemoryGetMappedMipmappedArray - an array in external memory; cudaFreeMipmappedArray() frees it */
BODY cudaError_t rt_mapped_mipmap_body(cudaMipmappedArray_t *mipmap, cudaExternalMemory_t memory,
				       const struct cudaExternalMemoryMipmappedArrayDesc *desc)
{
	RT_CONTEXT(mapped_mipmap(mipmap, memory, desc));
}
ENTRY(cudaExternalMemoryGetMappedMipmappedArray, rt_mapped_mipmap_body);

/** cudaDestroyExternalMemory - forget external memory; its mapped buffers stay */
BODY cudaError_t rt_destroy_memory_body(cudaExternalMemory_t memory)
{
	RT_CONTEXT(rt_code(cuDestroyExternalMemory((CUexternalMemory)memory)));
}
ENTRY(cudaDestroyExternalMemory, rt_destroy_memory_body);

/** cudaImportExternalSemaphore - import a semaphore, as cuImportExternalSemaphore() */
cudaError_t cudaImportExternalSemaphore(cudaExternalSemaphore_t *semaphore,
					const struct cudaExternalSemaphoreHandleDesc *desc)
{
	RT_CONTEXT(rt_code(cuImportExternalSemaphore((CUexternalSemaphore *)semaphore,
						     (const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *)desc)));
}

/** cudaDestroyExternalSemaphore - destroy a semaphore, as cuDestroyExternalSemaphore() */
cudaError_t cudaDestroyExternalSemaphore(cudaExternalSemaphore_t semaphore)
{
	RT_CONTEXT(rt_code(cuDestroyExternalSemaphore((CUexternalSemaphore)semaphore)));
}
