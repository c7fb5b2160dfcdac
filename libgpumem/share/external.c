// SPDX-License-Identifier: MIT
/*
 * External memory: memory handles and DMA-bufs that a program imports first, and maps afterwards.
 *
 * An external memory is a descriptor that the library keeps, and the size that the program named. Each mapped
 * buffer is an import of its own from that descriptor: an alloc of the current context (ipc.c), which cuMemFree()
 * frees, and which outlives the external memory.
 *
 * An opaque descriptor is a memory handle of cuMemExportToShareableHandle(). Its import closes the program's
 * descriptor, also if the descriptor is no handle, as on an H200. A DMA-buf's descriptor stays the program's.
 *
 * External memories are in a list, so a handle that is none is found out. An external memory whose context has
 * ended is freed with the next import.
 *
 * Locks: external_lock for the list; mem_lock nests inside.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "share/share.h"

struct CUextMemory_st {
	CUexternalMemory next;		/* external_lock */
	CUcontext ctx;			/* constant, as all below */
	uint64_t life;			/* of the context */
	int fd;				/* the library's */
	bool dmabuf;
	uint64_t size;			/* as the program said */
};

static struct lock external_lock;
static CUexternalMemory externals;	/* external_lock */

static void external_free(CUexternalMemory memory)
{
	fd_close(memory->fd);
	free(memory);
}

/* Free the external memories of contexts that have ended. external_lock is held. */
static void externals_reap(void)
{
	CUexternalMemory *link = &externals, memory;

	lock_take(&mem_lock);
	while ((memory = *link)) {
		if (ctx_lives_on(memory->ctx, memory->life)) {
			link = &memory->next;
			continue;
		}
		*link = memory->next;
		external_free(memory);
	}
	lock_drop(&mem_lock);
}

/* Whether the kernel can import a descriptor; the errors that an H200 answers. */
static CUresult descriptor_check(int fd, bool dmabuf)
{
	uint32_t bo;
	int error = share_bo_import(fd, dmabuf, &bo, NULL, NULL);

	if (!error)
		client_destroy_id(bo);
	if (dmabuf)
		return error == EBADF ? CUDA_ERROR_INVALID_VALUE :
			error == EINVAL ? CUDA_ERROR_NOT_SUPPORTED : result_of_errno(error);
	return error == EBADF || error == EINVAL ? CUDA_ERROR_UNKNOWN : result_of_errno(error);
}

static CUresult descriptor_take(CUexternalMemory *out, CUcontext ctx,
				const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
	bool dmabuf = desc->type == CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD;
	CUresult result = descriptor_check(desc->handle.fd, dmabuf);
	CUexternalMemory memory;
	uint64_t life = ctx_life(ctx);

	if (result) {
		if (result == CUDA_ERROR_UNKNOWN && desc->handle.fd >= 0)
			fd_close(desc->handle.fd);
		return result;
	}
	memory = calloc(1, sizeof(*memory));
	if (!memory)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memory->fd = fcntl(desc->handle.fd, F_DUPFD_CLOEXEC, 3);
	if (memory->fd < 0) {
		free(memory);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (!dmabuf)
		fd_close(desc->handle.fd);
	memory->ctx = ctx;
	memory->life = life;
	memory->dmabuf = dmabuf;
	memory->size = desc->size;
	lock_take(&external_lock);
	externals_reap();
	memory->next = externals;
	externals = memory;
	lock_drop(&external_lock);
	*out = memory;
	return CUDA_SUCCESS;
}

CUresult external_import(CUexternalMemory *out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
	unsigned int i, flags = desc->flags;
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);

	if (result)
		return result;
	for (i = 0; i < sizeof(desc->reserved) / sizeof(desc->reserved[0]); i++)
		if (desc->reserved[i])
			return CUDA_ERROR_INVALID_VALUE;
	switch (desc->type) {
	case CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD:
		flags &= ~CUDA_EXTERNAL_MEMORY_DEDICATED;
		/* fallthrough */
	case CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD:
		if (!desc->size || flags)
			return CUDA_ERROR_INVALID_VALUE;
		return descriptor_take(out, ctx, desc);
	case CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32:
	case CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32_KMT:
	case CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP:
	case CU_EXTERNAL_MEMORY_HANDLE_TYPE_NVSCIBUF:
		return CUDA_ERROR_NOT_SUPPORTED;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/* A pointer to an external memory's place in the list, or to NULL. external_lock is held. */
static CUexternalMemory *external_find(CUexternalMemory memory)
{
	CUexternalMemory *link = &externals;

	while (*link && *link != memory)
		link = &(*link)->next;
	return link;
}

CUresult external_destroy(CUexternalMemory memory)
{
	CUexternalMemory *link;
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);

	if (result)
		return result;
	lock_take(&external_lock);
	link = external_find(memory);
	if (*link) {
		*link = memory->next;
		external_free(memory);
	} else {
		result = CUDA_ERROR_INVALID_VALUE;
	}
	lock_drop(&external_lock);
	return result;
}

CUresult external_buffer(uint64_t *ptr, CUexternalMemory memory,
			 const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
	struct CUextMemory_st copy;
	uint64_t life;
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);

	if (result)
		return result;
	if (!desc->size || desc->flags)
		return CUDA_ERROR_INVALID_VALUE;
	life = ctx_life(ctx);
	result = stage_reserve(ctx->device);
	if (result)
		return result;
	lock_take(&external_lock);
	if (!*external_find(memory)) {
		lock_drop(&external_lock);
		return CUDA_ERROR_INVALID_VALUE;
	}
	copy = *memory;
	/* Another thread may destroy the external memory from here on. */
	copy.fd = fcntl(memory->fd, F_DUPFD_CLOEXEC, 3);
	lock_drop(&external_lock);
	if (copy.fd < 0)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = desc->offset > copy.size || desc->size > copy.size - desc->offset ?
		CUDA_ERROR_INVALID_VALUE :
		share_map_part(ctx, life, copy.fd, copy.dmabuf, desc->offset, desc->size, ptr);
	fd_close(copy.fd);
	return result;
}
