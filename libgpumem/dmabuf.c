// SPDX-License-Identifier: MIT
/*
 * DMA-bufs: file descriptors by which other drivers reach device memory.
 *
 * Owns nothing: the kernel's DMA-buf keeps the memory alive when the alloc is freed. From its first
 * export on an alloc is marked as exported, so that the library does not touch it inline and does
 * not give its units to a new owner before the last DMA-buf is gone (mem.c).
 *
 * The range may end at the page boundary behind the alloc's last byte: importers work with pages,
 * and the pages are shared as whole pages in any case.
 */
#include "internal.h"

CUresult dmabuf_export(int *fd, uint64_t ptr, uint64_t size, int type, unsigned long long flags)
{
	struct gpumem_bo_export export = {
		.size = sizeof(export), .length = size, .flags = GPUMEM_BO_EXPORT_CLOEXEC,
	};
	CUresult result = CUDA_SUCCESS;
	struct span span;
	CUcontext ctx;
	int error;

	result = ctx_current(&ctx);
	if (result)
		return result;
	if (!fd || !ptr || !size || (ptr | size) % PAGE ||
	    type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD ||
	    flags & ~(unsigned long long)CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE)
		return CUDA_ERROR_INVALID_VALUE;
	*fd = -1;
	if (flags)
		return CUDA_ERROR_NOT_SUPPORTED;
	lock_take(&mem_lock);
	if (!vm_lookup(ptr, &span) || span.flags & ALLOC_ANY_HOST ||
	    size > round_up(span.base + span.size, PAGE) - ptr) {
		result = CUDA_ERROR_INVALID_VALUE;
	} else {
		__atomic_fetch_or(&span.alloc->flags, ALLOC_EXPORTED, __ATOMIC_SEQ_CST);
		export.id = span.bo;
		export.offset = ptr - span.block_base;
		error = client_ioctl(GPUMEM_BO_EXPORT, &export);
		result = result_of_errno(error);
		if (!result)
			*fd = export.fd;
	}
	lock_drop(&mem_lock);
	return result;
}
