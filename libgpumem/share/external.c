// SPDX-License-Identifier: MIT
/*
 * External memory: memory handles and DMA-bufs that a program imports first, and maps afterwards.
 *
 * An external memory is a descriptor that the library keeps, and the size that the program named. Each mapped
 * buffer is an import of its own from that descriptor: an alloc of the current context (ipc.c), which cuMemFree()
 * frees, and which outlives the external memory. So is the memory of a mapped mipmapped array, which no lookup
 * finds, and which cuMipmappedArrayDestroy() frees.
 *
 * An opaque descriptor is a memory handle of cuMemExportToShareableHandle(). Its import closes the program's
 * descriptor, also if the descriptor is no handle, as on an H200. A DMA-buf's descriptor stays the program's.
 *
 * The program holds a value of a table (core/table.h), so a handle that is none is found out. A context that ends
 * frees its external memories, which are in a list.
 *
 * A forked child has copies of all descriptors and cannot use the library. It closes the copies at once: they would
 * keep the memory for as long as the child lives. If another thread is in a call of this file during the fork(), a
 * copy may stay.
 *
 * Locks: external_lock for the table and the lists. No memory is imported and no descriptor closed under it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "copy/array.h"
#include "share/share.h"

struct external {
	struct external *next, **link;	/* in ctx->externals; external_lock */
	uint64_t value;			/* in the table; constant, as all below */
	int fd;				/* the library's */
	bool dmabuf;
	uint64_t size;			/* as the program said */
};

static struct lock external_lock;
static struct table externals;		/* external_lock */

/* The external memory that a program names, or NULL. external_lock is held. */
static struct external *external_find(CUexternalMemory handle)
{
	return table_find(&externals, (uintptr_t)handle);
}

/* Add an external memory to a context in its life @life. */
static CUresult external_add(struct external *memory, CUcontext ctx, uint64_t life)
{
	bool lives;

	lock_take(&external_lock);
	/* A context that ends is marked before externals_end() takes the lock. */
	lives = ctx_lives_on(ctx, life);
	memory->value = lives ? table_add(&externals, memory) : 0;
	if (memory->value) {
		memory->next = ctx->externals;
		memory->link = &ctx->externals;
		if (memory->next)
			memory->next->link = &memory->next;
		ctx->externals = memory;
	}
	lock_drop(&external_lock);
	if (!lives)
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	return memory->value ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static __thread bool fork_locked __attribute__((tls_model("initial-exec")));

/* A signal handler may call fork() while its own thread has the lock: give up after a while. */
static void fork_begin(void)
{
	unsigned int tries;

	for (tries = 0; tries < 100 && !fork_locked; tries++) {
		fork_locked = lock_try(&external_lock);
		if (!fork_locked)
			lock_doze();
	}
}

static void fork_end(void)
{
	if (fork_locked)
		lock_drop(&external_lock);
	fork_locked = false;
}

static void fork_child(void)
{
	uint64_t i;

	if (!fork_locked)
		return;
	for (i = 0; i < externals.used; i++)
		if (externals.place[i].object)
			fd_close(((struct external *)externals.place[i].object)->fd);
	/* A child of the child must not close the same numbers again. */
	externals.used = 0;
	fork_end();
}

static pthread_once_t watch_once = PTHREAD_ONCE_INIT;
static bool fork_watched;		/* fork_watch() has succeeded */

static void fork_watch(void)
{
	fork_watched = !pthread_atfork(fork_begin, fork_end, fork_child);
}

static void external_free(struct external *memory)
{
	fd_close(memory->fd);
	free(memory);
}

void externals_end(CUcontext ctx)
{
	struct external *list, *memory;

	lock_take(&external_lock);
	list = ctx->externals;
	ctx->externals = NULL;
	for (memory = list; memory; memory = memory->next)
		table_remove(&externals, memory->value);
	lock_drop(&external_lock);
	while ((memory = list)) {
		list = memory->next;
		external_free(memory);
	}
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
	struct external *memory;
	uint64_t life = ctx_life(ctx);

	if (result) {
		if (result == CUDA_ERROR_UNKNOWN && desc->handle.fd >= 0)
			fd_close(desc->handle.fd);
		return result;
	}
	memory = calloc(1, sizeof(*memory));
	if (!memory)
		return CUDA_ERROR_OUT_OF_MEMORY;
	memory->dmabuf = dmabuf;
	memory->size = desc->size;
	memory->fd = fcntl(desc->handle.fd, F_DUPFD_CLOEXEC, 3);
	if (memory->fd < 0) {
		free(memory);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	result = external_add(memory, ctx, life);
	if (result) {
		external_free(memory);
		return result;
	}
	if (!dmabuf)
		fd_close(desc->handle.fd);
	*out = (CUexternalMemory)(uintptr_t)memory->value;
	return CUDA_SUCCESS;
}

CUresult external_import(CUexternalMemory *out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc)
{
	unsigned int i, flags = desc->flags;
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);

	if (result)
		return result;
	pthread_once(&watch_once, fork_watch);
	if (!fork_watched)
		return CUDA_ERROR_OUT_OF_MEMORY;
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

CUresult external_destroy(CUexternalMemory handle)
{
	struct external *memory;
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);

	if (result)
		return result;
	lock_take(&external_lock);
	memory = external_find(handle);
	if (memory) {
		table_remove(&externals, memory->value);
		*memory->link = memory->next;
		if (memory->next)
			memory->next->link = memory->link;
	}
	lock_drop(&external_lock);
	if (!memory)
		return CUDA_ERROR_INVALID_VALUE;
	external_free(memory);
	return CUDA_SUCCESS;
}

/* Copy what an external memory is, with a descriptor that the caller closes. */
static CUresult external_get(struct external *copy, CUexternalMemory handle)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	const struct external *memory;

	lock_take(&external_lock);
	memory = external_find(handle);
	if (memory) {
		*copy = *memory;
		/* Another thread may destroy the external memory from here on. */
		copy->fd = fcntl(memory->fd, F_DUPFD_CLOEXEC, 3);
		result = copy->fd < 0 ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
	}
	lock_drop(&external_lock);
	return result;
}

/* Make a part of external memory an alloc; @flags: as for share_map_part(). */
static CUresult external_part(CUcontext ctx, uint64_t life, const struct external *memory,
			      uint64_t offset, uint64_t size, uint32_t flags, struct alloc **alloc,
			      uint64_t *ptr)
{
	if (offset > memory->size || size > memory->size - offset)
		return CUDA_ERROR_INVALID_VALUE;
	return share_map_part(ctx, life, memory->fd, memory->dmabuf, offset, size, flags, alloc, ptr);
}

CUresult external_buffer(uint64_t *ptr, CUexternalMemory handle,
			 const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *desc)
{
	struct external copy;
	struct alloc *alloc;
	uint64_t life;
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);

	if (result)
		return result;
	if (!desc->size || desc->flags)
		return CUDA_ERROR_INVALID_VALUE;
	life = ctx_life(ctx);
	result = stage_reserve(ctx->device);
	if (!result)
		result = external_get(&copy, handle);
	if (result)
		return result;
	result = external_part(ctx, life, &copy, desc->offset, desc->size, 0, &alloc, ptr);
	fd_close(copy.fd);
	return result;
}

/* The memory of a mipmapped array. */
struct mipmap_source {
	struct array_source source;
	struct external memory;
	uint64_t offset;
};

static CUresult mipmap_get(const struct array_source *arg, CUcontext ctx, uint64_t life, uint64_t bytes,
			   struct alloc **alloc)
{
	const struct mipmap_source *source = (const void *)arg;
	uint64_t ptr;

	return external_part(ctx, life, &source->memory, source->offset, bytes, ALLOC_HIDDEN, alloc, &ptr);
}

CUresult external_mipmap(CUmipmappedArray *mipmap, CUexternalMemory handle,
			 const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *desc)
{
	struct mipmap_source source = { .source = { mipmap_get }, .offset = desc->offset };
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);
	unsigned int i;

	if (result)
		return result;
	for (i = 0; i < sizeof(desc->reserved) / sizeof(desc->reserved[0]); i++)
		if (desc->reserved[i])
			return CUDA_ERROR_INVALID_VALUE;
	if (!desc->numLevels || array_ranged(&desc->arrayDesc))
		return CUDA_ERROR_INVALID_VALUE;
	result = stage_reserve(ctx->device);
	if (!result)
		result = external_get(&source.memory, handle);
	if (result)
		return result;
	result = mipmap_create_in(mipmap, &desc->arrayDesc, desc->numLevels, &source.source);
	fd_close(source.memory.fd);
	return result;
}
