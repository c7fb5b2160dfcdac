/* SPDX-License-Identifier: MIT */
/*
 * share: memory that other processes and drivers reach.
 *
 * Handles of cuIpc*(), descriptors of handles of memory, DMA-bufs, external memory and semaphores. This layer may
 * include pool, copy, memory, exec, address and core.
 */
#ifndef GPUMEM_SHARE_SHARE_H
#define GPUMEM_SHARE_SHARE_H

#include <unistd.h>

#include "pool/pool.h"

/* close(), which is no place where the thread may be cancelled. */
static inline void fd_close(int fd)
{
	int cancel = cancel_disable();

	close(fd);
	cancel_restore(cancel);
}

CUresult ipc_get(CUipcMemHandle *handle, uint64_t ptr);
CUresult ipc_open(uint64_t *ptr, const CUipcMemHandle *handle);
CUresult ipc_close(uint64_t ptr);
/* cuMemExportToShareableHandle() and cuMemImportFromShareableHandle(). */
CUresult handle_export(void *out, uint64_t handle, CUmemAllocationHandleType type,
		       unsigned long long flags);
CUresult handle_import(uint64_t *handle, void *shareable, CUmemAllocationHandleType type);
CUresult external_import(CUexternalMemory *memory, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc);
CUresult external_destroy(CUexternalMemory handle);
CUresult external_buffer(uint64_t *ptr, CUexternalMemory handle,
			 const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc);
CUresult external_mipmap(CUmipmappedArray *mipmap, CUexternalMemory memory,
			 const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *desc);
/* Signals or waits of one call; @signals or @waits has the parameters. */
struct semaphore_ops {
	bool wait;
	unsigned int count;
	const CUexternalSemaphore *list;
	const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *signals;
	const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *waits;
};
/* @flags: GPUMEM_SEMAPHORE_TIMELINE */
CUresult semaphore_create(CUexternalSemaphore *semaphore, unsigned long long value, unsigned int flags);
CUresult semaphore_export(int *fd, CUexternalSemaphore handle, unsigned int flags);
CUresult semaphore_import(CUexternalSemaphore *semaphore, const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *desc);
CUresult semaphore_destroy(CUexternalSemaphore handle);
/* Free destroyed semaphores whose work is complete. */
void semaphores_release(void);
CUresult semaphores_submit(CUstream stream, bool own, const struct semaphore_ops *ops);
/*
 * Import a DMA-buf, or else a memory handle, as a buffer object: 0 or a positive errno. @device and @length may be
 * NULL.
 */
int share_bo_import(int fd, bool dmabuf, uint32_t *bo, CUdevice *device, uint64_t *length);
/*
 * Import a descriptor, and make a part of its memory an alloc. @flags: ALLOC_HIDDEN for an array; else cuMemFree()
 * frees the alloc. No lock is held.
 */
CUresult share_map_part(CUcontext ctx, uint64_t life, int fd, bool dmabuf, uint64_t offset,
			uint64_t size, uint32_t flags, struct alloc **alloc, uint64_t *ptr);
CUresult dmabuf_import(uint64_t *ptr, uint64_t *bytes, int fd, unsigned int flags);
CUresult dmabuf_release(uint64_t ptr);
CUresult dmabuf_export_host(int *fd, uint64_t ptr, uint64_t size, unsigned int flags);
CUresult dmabuf_export(int *fd, uint64_t ptr, uint64_t size, int type, unsigned long long flags);

#endif /* GPUMEM_SHARE_SHARE_H */
