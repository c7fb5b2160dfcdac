/* SPDX-License-Identifier: MIT */
/*
 * share: memory that other processes and drivers reach.
 *
 * Handles of cuIpc*(), descriptors of handles of memory, and DMA-bufs. This layer may include pool, copy, memory,
 * exec, address and core.
 */
#ifndef GPUMEM_SHARE_SHARE_H
#define GPUMEM_SHARE_SHARE_H

#include "pool/pool.h"

CUresult ipc_get(CUipcMemHandle *handle, uint64_t ptr);
CUresult ipc_open(uint64_t *ptr, const CUipcMemHandle *handle);
CUresult ipc_close(uint64_t ptr);
/* cuMemExportToShareableHandle() and cuMemImportFromShareableHandle(). */
CUresult handle_export(void *out, uint64_t handle, CUmemAllocationHandleType type,
		       unsigned long long flags);
CUresult handle_import(uint64_t *handle, void *shareable, CUmemAllocationHandleType type);
CUresult dmabuf_import(uint64_t *ptr, uint64_t *bytes, int fd, unsigned int flags);
CUresult dmabuf_release(uint64_t ptr);
CUresult dmabuf_export_host(int *fd, uint64_t ptr, uint64_t size, unsigned int flags);
CUresult dmabuf_export(int *fd, uint64_t ptr, uint64_t size, int type, unsigned long long flags);

#endif /* GPUMEM_SHARE_SHARE_H */
