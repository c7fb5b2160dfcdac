/* SPDX-License-Identifier: MIT */
/*
 * pool: the stream-ordered allocator.
 *
 * Pools as CUDA has them: cuMemAllocAsync() and its kin, per-stream heaps, pages and chunks, deferred
 * frees, counters, and pools of other processes. It may include copy, memory, exec, address and core.
 *
 * parts.h and pool_owner.h are for the files of this folder.
 */
#ifndef GPUMEM_POOL_POOL_H
#define GPUMEM_POOL_POOL_H

#include "copy/copy.h"

CUresult pool_alloc(CUdeviceptr *ptr, uint64_t size, CUmemoryPool pool, CUstream stream);
/* From the current pool of the stream's device. */
CUresult pool_alloc_current(CUdeviceptr *ptr, uint64_t size, CUstream stream);
/* The same if the checker watches: the block may get a red zone. @pool: NULL: the current one. */
CUresult pool_alloc_checked(CUdeviceptr *ptr, uint64_t size, CUmemoryPool pool, CUstream stream);
CUresult pool_free(uint64_t ptr, CUstream stream);
/* The same if the checker watches: the block may be kept for a while. */
CUresult pool_free_checked(uint64_t ptr, CUstream stream);
/* Look at what pools keep for the checker, before the process ends. */
void pools_verify(void);
/*
 * The same, if the thread owns the heap and need not wait for anything, and without reports of calls. @pool: NULL: the
 * current one. False: nothing has happened.
 */
bool pool_alloc_own(CUdeviceptr *ptr, uint64_t size, CUmemoryPool pool, CUstream stream);
bool pool_free_own(uint64_t ptr, CUstream stream);
/* cuMemFree() of a pool's memory: free it after all work of the process, without waiting for the work. */
CUresult pool_free_now(uint64_t ptr);
/* Called when the process has waited for work: every pool gives back what exceeds its release threshold. */
void pools_release_excess(void);
CUresult pool_create(CUmemoryPool *pool, const CUmemPoolProps *props);
CUresult pool_destroy(CUmemoryPool pool);
CUresult pool_trim(CUmemoryPool pool, uint64_t keep);
CUresult pool_get_attribute(CUmemoryPool pool, int attribute, void *value);
CUresult pool_set_attribute(CUmemoryPool pool, int attribute, const void *value);
CUresult pool_get_access(CUmemAccess_flags *flags, CUmemoryPool pool,
			 const CUmemLocation *location);
CUresult pool_set_access(CUmemoryPool pool, const CUmemAccessDesc *descs, size_t count);
CUresult pool_device_default(CUmemoryPool *pool, CUdevice device);
CUresult pool_device_current(CUmemoryPool *pool, CUdevice device);
CUresult pool_set_device_current(CUdevice device, CUmemoryPool pool);
CUresult pool_default_of(CUmemoryPool *pool, const CUmemLocation *location, int type);
CUresult pool_current_of(CUmemoryPool *pool, const CUmemLocation *location, int type);
CUresult pool_set_current_of(const CUmemLocation *location, int type, CUmemoryPool pool);
CUresult pool_export(void *handle, CUmemoryPool pool, int type, unsigned long long flags);
CUresult pool_import(CUmemoryPool *pool, void *handle, int type, unsigned long long flags);
CUresult pool_export_pointer(CUmemPoolPtrExportData *data, uint64_t ptr);
CUresult pool_import_pointer(uint64_t *ptr, CUmemoryPool pool, const CUmemPoolPtrExportData *data);
/* The CUmemAllocationHandleType of a pool. */
int pool_handle_types(CUmemoryPool pool);
/* Whether GPUMEM_POOL_IPC is 1: memory of pools then also supports what CUDA allows for other memory only. */
bool pool_beyond(void);

#endif /* GPUMEM_POOL_POOL_H */
