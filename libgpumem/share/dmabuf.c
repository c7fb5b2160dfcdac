// SPDX-License-Identifier: MIT
/*
 * DMA-bufs: file descriptors by which other drivers reach device memory and, through a function that CUDA does
 * not have, pinned and registered host memory. This file exports them; ipc.c imports them.
 *
 * Owns nothing: the kernel's DMA-buf keeps the memory alive when the alloc is freed, and pinned
 * when it is unregistered. From its first export on an alloc is marked as exported, so that the
 * library does not touch it inline and does not give its units to a new owner before the last
 * DMA-buf is gone (mem.c).
 *
 * A range is whole pages. Memory that the library allocated may be exported to the page boundary
 * behind the alloc's last byte: importers work with pages, and the pages are shared as whole pages
 * in any case. Registered memory has the program's other data around it, so only pages that are
 * registered as a whole are exported.
 *
 * A range of mapped memory (memory/vmm.c) may go over several mappings. The kernel looks them up and makes one
 * DMA-buf of them, so an unmap by another thread happens before the export or after it. The library never touches
 * mapped memory inline, so it notes nothing.
 *
 * Locks: mem_lock from the lookup to the export; none for mapped memory.
 */
#include "share/share.h"

/* Export @size bytes at @ptr, which is in the alloc. Both are page aligned, @size is not 0. mem_lock is held. */
static CUresult export_range(int *fd, const struct span *span, uint64_t ptr, uint64_t size)
{
	bool registered = span->flags & ALLOC_REGISTERED;
	uint64_t end = span->base + span->size;
	struct gpumem_bo_export export = {
		.size = sizeof(export), .id = span->bo, .length = size,
		.offset = ptr - (registered ? span->base : span->block_base),
		.flags = GPUMEM_BO_EXPORT_CLOEXEC,
	};
	CUresult result;

	if (!registered)
		end = round_up(end, PAGE);
	if (size > end - ptr)
		return CUDA_ERROR_INVALID_VALUE;
	__atomic_fetch_or(span->marks, ALLOC_EXPORTED, __ATOMIC_SEQ_CST);
	result = result_of_errno(client_ioctl(GPUMEM_BO_EXPORT, &export));
	if (!result)
		*fd = export.fd;
	return result;
}

/* Export @size bytes at @ptr, which is in a mapping. Both are page aligned, @size is not 0. */
static CUresult export_mapped(int *fd, const struct span *span, uint64_t ptr, uint64_t size)
{
	struct gpumem_vm_export export = {
		.size = sizeof(export), .vm = client.vm, .addr = ptr, .length = size,
		.flags = GPUMEM_BO_EXPORT_CLOEXEC,
	};
	CUresult result;

	if (!vmm_mapped(span, ptr, size))
		return CUDA_ERROR_INVALID_VALUE;
	result = result_of_errno(client_ioctl(GPUMEM_VM_EXPORT, &export));
	if (!result)
		*fd = export.fd;
	return result;
}

CUresult dmabuf_export(int *fd, uint64_t ptr, uint64_t size, int type, unsigned long long flags)
{
	CUresult result = CUDA_SUCCESS;
	struct span span;
	CUcontext ctx;

	result = ctx_current(&ctx);
	if (result)
		return result;
	if (type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD)
		return CUDA_ERROR_INVALID_VALUE;
	*fd = -1;
	if (flags)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (vm_lookup(ptr, &span) && span.flags & ALLOC_MAPPED)
		return span.flags & ALLOC_ANY_HOST ? CUDA_ERROR_INVALID_VALUE :
			export_mapped(fd, &span, ptr, size);
	lock_take(&mem_lock);
	if (!vm_lookup(ptr, &span) ||
	    span.flags & (ALLOC_ANY_HOST | ALLOC_MANAGED | ALLOC_EXTERNAL | ALLOC_MAPPED))
		result = CUDA_ERROR_INVALID_VALUE;
	else
		result = export_range(fd, &span, ptr, size);
	lock_drop(&mem_lock);
	return result;
}

CUresult dmabuf_export_host(int *fd, uint64_t ptr, uint64_t size, unsigned int flags)
{
	struct span span;
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);

	if (result)
		return result;
	if (!fd)
		return CUDA_ERROR_INVALID_VALUE;
	*fd = -1;
	if (!ptr || !size || (ptr | size) % PAGE || flags)
		return CUDA_ERROR_INVALID_VALUE;
	lock_take(&mem_lock);
	if (!vm_lookup(ptr, &span) || !(span.flags & ALLOC_ANY_HOST))
		result = CUDA_ERROR_INVALID_VALUE;
	else if (span.flags & ALLOC_READ_ONLY)
		/* Importers may write. */
		result = CUDA_ERROR_NOT_PERMITTED;
	else if (span.flags & ALLOC_IO)
		/* Registers of devices have no pages. */
		result = CUDA_ERROR_NOT_SUPPORTED;
	else
		result = export_range(fd, &span, ptr, size);
	lock_drop(&mem_lock);
	return result;
}
