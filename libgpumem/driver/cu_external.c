// SPDX-License-Identifier: MIT
/*
 * The API's chapter "External Resource Interoperability", and the functions that make and export semaphores.
 *
 * Thin: share/external.c and share/semaphore.c implement it. All functions need a context.
 */
#include "driver/driver.h"
#include "driver/forms.h"

/**
 * cuImportExternalMemory - import memory that another process or driver exported
 * @memory: the external memory
 * @desc: OPAQUE_FD: a descriptor of cuMemExportToShareableHandle(), which the call closes. DMABUF_FD: a DMA-buf of
 *	any driver; the descriptor stays the caller's
 *
 * Return: INVALID_CONTEXT; INVALID_VALUE; UNKNOWN for a descriptor that is no handle, which is closed, too;
 * NOT_SUPPORTED for a descriptor that is no DMA-buf, a DMA-buf that the CPU cannot reach, and the types of other
 * systems; NOT_PERMITTED; OUT_OF_MEMORY.
 */
BODY CUresult import_external_memory_body(CUexternalMemory *memory,
					  const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
	CALL_AFTER_AS("cuImportExternalMemory", NEEDS(memory && desc), external_import(memory, desc),
		      memory, desc);
}
ENTRY(cuImportExternalMemory, import_external_memory_body);

/**
 * cuExternalMemoryGetMappedBuffer - map a range of external memory
 * @ptr: receives an address, a new one with each call. cuMemFree() frees it
 * @memory: may be destroyed before the buffer is freed
 * @desc: the range, any alignment
 *
 * Return: INVALID_CONTEXT; INVALID_VALUE; OUT_OF_MEMORY.
 */
BODY CUresult external_buffer_body(CUdeviceptr *ptr, CUexternalMemory memory,
				   const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
	CALL_AFTER_AS("cuExternalMemoryGetMappedBuffer", NEEDS(ptr && memory && desc),
		      external_buffer((uint64_t *)ptr, memory, desc), ptr, memory, desc);
}
ENTRY(cuExternalMemoryGetMappedBuffer, external_buffer_body);

/**
 * cuExternalMemoryGetMappedMipmappedArray - a mipmapped array in external memory
 * @mipmap: the mipmapped array. cuMipmappedArrayDestroy() destroys it
 * @memory: may be destroyed before the array
 * @desc: where the array begins, any alignment; the array, neither sparse nor deferred; at least one level
 *
 * The array lies as one of cuMipmappedArrayCreate(), which need not be as another driver lays it out.
 *
 * Return: INVALID_CONTEXT; INVALID_VALUE, also if the array does not fit; OUT_OF_MEMORY.
 */
BODY CUresult external_mipmap_body(CUmipmappedArray *mipmap, CUexternalMemory memory,
				   const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *desc)
{
	CALL_AFTER_AS("cuExternalMemoryGetMappedMipmappedArray", NEEDS(mipmap && memory && desc),
		      external_mipmap(mipmap, memory, desc), mipmap, memory, desc);
}
ENTRY(cuExternalMemoryGetMappedMipmappedArray, external_mipmap_body);

/** cuDestroyExternalMemory - forget external memory; its mapped buffers and arrays stay. Return: INVALID_VALUE */
BODY CUresult destroy_external_memory_body(CUexternalMemory memory)
{
	CALL_AFTER_AS("cuDestroyExternalMemory", NEEDS(memory), external_destroy(memory), memory);
}
ENTRY(cuDestroyExternalMemory, destroy_external_memory_body);

/**
 * cuImportExternalSemaphore - import a semaphore that another process exported, or a sync_file
 * @semaphore: the semaphore
 * @desc: OPAQUE_FD: a binary semaphore of gpumem_export_semaphore(), or a sync_file, which can only be waited for.
 *	TIMELINE_SEMAPHORE_FD: a timeline semaphore. The call closes the descriptor if it succeeds
 *
 * Return: INVALID_CONTEXT; INVALID_VALUE; UNKNOWN for other descriptors; NOT_SUPPORTED for the types of other
 * systems; OUT_OF_MEMORY.
 */
CUresult cuImportExternalSemaphore(CUexternalSemaphore *semaphore,
				   const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *desc)
{
	CALL_AFTER(NEEDS(semaphore && desc), semaphore_import(semaphore, desc), semaphore, desc);
}

/**
 * cuDestroyExternalSemaphore - destroy a semaphore
 * @semaphore: work of this process that uses it is still done
 *
 * If this process made the semaphore, waits of other processes for signals that did not come fail. They fail when
 * that work is done, and this process has synchronized or has destroyed or made another semaphore since, or ends. The
 * end of a context destroys the semaphores that were made or imported while it was current.
 */
CUresult cuDestroyExternalSemaphore(CUexternalSemaphore semaphore)
{
	CALL_AFTER(NEEDS(semaphore), semaphore_destroy(semaphore), semaphore);
}

#define SIGNALS(n, s, p)	(&(const struct semaphore_ops){ .count = (n), .list = (s), .signals = (p) })
#define WAITS(n, s, p)		(&(const struct semaphore_ops){ .wait = true, .count = (n), .list = (s), .waits = (p) })

/**
 * cuSignalExternalSemaphoresAsync - signal semaphores in stream order
 * @params: the values of timeline semaphores; flags must be 0
 *
 * Return: INVALID_VALUE, NOT_SUPPORTED for a sync_file, OUT_OF_MEMORY.
 */
STREAM_FORMS(cuSignalExternalSemaphoresAsync, (const CUexternalSemaphore *semaphores,
					       const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *params,
					       unsigned int count, CUstream stream),
	     NEEDS(semaphores && params && count),
	     semaphores_submit(stream, own, SIGNALS(count, semaphores, params)), semaphores, params,
	     count, stream)

/**
 * cuWaitExternalSemaphoresAsync - later work of a stream waits for semaphores
 * @params: the values of timeline semaphores; flags must be 0
 *
 * Each signal of a binary semaphore ends one wait: the first call that waits gets the first signal. If the process
 * that made a semaphore ends or destroys it before the signal, the stream fails with LAUNCH_FAILED. Return:
 * INVALID_VALUE, OUT_OF_MEMORY.
 */
STREAM_FORMS(cuWaitExternalSemaphoresAsync, (const CUexternalSemaphore *semaphores,
					     const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *params,
					     unsigned int count, CUstream stream),
	     NEEDS(semaphores && params && count),
	     semaphores_submit(stream, own, WAITS(count, semaphores, params)), semaphores, params,
	     count, stream)

CUresult gpumem_create_semaphore(CUexternalSemaphore *semaphore, unsigned long long value,
				 unsigned int flags)
{
	CALL(semaphore_create(semaphore, value, flags), semaphore, value, flags);
}

CUresult gpumem_export_semaphore(int *fd, CUexternalSemaphore semaphore, unsigned int flags)
{
	CALL(semaphore_export(fd, semaphore, flags), fd, semaphore, flags);
}
