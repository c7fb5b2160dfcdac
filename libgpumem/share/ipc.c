// SPDX-License-Identifier: MIT
/*
 * Memory handles: making and opening them. Also opens (imports) DMA-bufs.
 *
 * A handle names a whole alloc: a random token that the kernel resolves, and the exact size. The
 * token is made once per alloc, so that the handles of one alloc are the same bytes; freeing the
 * alloc revokes it. A handle contains no pid, no path and no address.
 *
 * Opening maps the pages around the range as an alloc of its own, in a block of its own, which belongs to the
 * current context. Opening the same handle again in that context returns the same pointer and counts the opens.
 * Opening it in another context of the same device fails, as on an H200. Opening it in a context of another
 * device makes another import. The last close, from whichever context, unmaps the memory, and so does the end of
 * the context that opened it. The process that made a handle cannot open it.
 *
 * A DMA-buf is opened by a function that CUDA does not have, each time as an alloc of its own. If its exporter
 * does not let processes map it, it is dark: only the engine reaches it, as in strict mode. Other processes and
 * drivers may use a DMA-buf at any time, so the library does not touch it inline.
 *
 * The kernel opens and maps without a lock. Meanwhile the share is in the list of imports already
 * (opening), so that another thread that opens the same handle waits for the result and does not
 * map the memory twice.
 *
 * Locks: mem_lock for everything in a struct share.
 *
 * Vocabulary: share (memory/shares.h).
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "share/share.h"

#define MEM_HANDLE_MAGIC	0x6d656d67	/* "gmem" */
#define MEM_HANDLE_VERSION	1

/* The contents of a CUipcMemHandle; the remaining bytes are zero. */
struct mem_handle {
	uint32_t magic;
	uint32_t version;
	uint8_t token[GPUMEM_TOKEN_SIZE];
	uint64_t bytes;
};

static uint32_t opened_count;		/* number of ended openings; mem_lock to write; a futex */

_Static_assert(sizeof(struct mem_handle) <= sizeof(CUipcMemHandle), "a handle has 64 bytes");

/* Make a share with a token for an alloc or a cell of a pool. mem_lock is held. */
static CUresult share_make(const struct span *span, struct share **out)
{
	struct gpumem_token_create create = {
		.size = sizeof(create), .bo = span->bo, .offset = span->base - span->block_base,
		.length = span->size, .flags = scope_token_flags(),
	};
	struct share *share = calloc(1, sizeof(*share));
	int error;

	if (!share)
		return CUDA_ERROR_OUT_OF_MEMORY;
	/* From here on the library does not touch the memory inline. */
	__atomic_fetch_or(span->marks, ALLOC_EXPORTED, __ATOMIC_SEQ_CST);
	error = client_ioctl(GPUMEM_TOKEN_CREATE, &create);
	if (error) {
		free(share);
		return error == EPERM ? scope_refused() : result_of_errno(error);
	}
	share->token_id = create.id;
	memcpy(share->token, create.token, sizeof(share->token));
	if (span->alloc) {
		span->alloc->share = share;
	} else {
		share->pool_id = span->id;
		share_add(share);
	}
	*out = share;
	return CUDA_SUCCESS;
}

CUresult ipc_get(CUipcMemHandle *out, uint64_t ptr)
{
	struct mem_handle handle = { .magic = MEM_HANDLE_MAGIC, .version = MEM_HANDLE_VERSION };
	struct share *share = NULL;
	struct span span;
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);

	if (result)
		return result;
	lock_take(&mem_lock);
	if (!vm_lookup(ptr, &span) ||
	    span.flags & (ALLOC_IMPORTED | ALLOC_ANY_HOST | ALLOC_MANAGED | ALLOC_MAPPED) ||
	    (span.pool && !pool_beyond()))
		result = CUDA_ERROR_INVALID_VALUE;
	else
		share = span.alloc ? span.alloc->share : share_of_pool(span.id);
	if (!result && !share)
		result = share_make(&span, &share);
	if (!result) {
		memcpy(handle.token, share->token, sizeof(handle.token));
		handle.bytes = span.size;
		memset(out, 0, sizeof(*out));
		memcpy(out, &handle, sizeof(handle));
	}
	lock_drop(&mem_lock);
	return result;
}

/* Map a buffer object that was opened, and make it an alloc of the share. No lock is held. */
static CUresult adopt(CUcontext ctx, uint64_t life, struct share *share, CUdevice device,
		      uint32_t bo, uint64_t length, uint64_t delta, uint64_t bytes, uint32_t flags,
		      uint64_t *ptr, struct alloc **made)
{
	struct block *block, *doomed = NULL;
	CUresult result = block_make(&block, device, bo, length,
				     client.strict || flags & ALLOC_DARK);

	if (result)
		return result;
	lock_take(&mem_lock);
	result = mem_adopt(ctx, life, block, delta, bytes, share, flags, made);
	if (result) {
		block_doom(block, &doomed);
	} else {
		*ptr = share->ptr = (*made)->base;
		share->opening = false;
	}
	lock_drop(&mem_lock);
	blocks_destroy(doomed);
	return result;
}

/* Open a share's token in the kernel, and map the memory. No lock is held. */
static CUresult import(CUcontext ctx, uint64_t life, struct share *share, uint64_t bytes,
		       uint64_t *ptr)
{
	struct gpumem_token_open open = { .size = sizeof(open) };
	struct alloc *alloc;
	CUdevice device;
	int error;

	memcpy(open.token, share->token, sizeof(open.token));
	error = client_ioctl(GPUMEM_TOKEN_OPEN, &open);
	if (error)
		return error == EACCES || error == EPERM ? CUDA_ERROR_MAP_FAILED :
			result_of_errno(error);
	device = device_of_index(open.device);
	if (open.result & GPUMEM_TOKEN_OPEN_OWN || open.bytes != bytes ||
	    device == CU_DEVICE_INVALID) {
		client_destroy_id(open.id);
		return open.result & GPUMEM_TOKEN_OPEN_OWN ? CUDA_ERROR_INVALID_CONTEXT :
			CUDA_ERROR_INVALID_VALUE;
	}
	return adopt(ctx, life, share, device, open.id, open.length, open.delta, open.bytes, 0,
		     ptr, &alloc);
}

/* Wait until some thread has finished opening a share, or failed. mem_lock is held, and dropped in between. */
static void import_await(void)
{
	uint32_t count = opened_count;

	lock_drop(&mem_lock);
	while (load_acquire(&opened_count) == count)
		syscall(SYS_futex, &opened_count, FUTEX_WAIT_PRIVATE, count, NULL, NULL, 0);
	lock_take(&mem_lock);
}

/* Open a handle that no share in the list has. mem_lock is held, and dropped in between. */
static CUresult import_new(CUcontext ctx, uint64_t life, const struct mem_handle *handle,
			   uint64_t *ptr)
{
	struct share *share = calloc(1, sizeof(*share));
	CUresult result;

	if (!share)
		return CUDA_ERROR_OUT_OF_MEMORY;
	share->import = true;
	share->opening = true;
	share->opens = 1;
	share->ctx = ctx;
	share->device = ctx->device;
	memcpy(share->token, handle->token, sizeof(share->token));
	share_add(share);
	lock_drop(&mem_lock);
	result = import(ctx, life, share, handle->bytes, ptr);
	lock_take(&mem_lock);
	/* After success do not touch the share: the context may have ended meanwhile, and freed it. */
	if (result)
		share_drop(share);
	store_release(&opened_count, opened_count + 1);
	syscall(SYS_futex, &opened_count, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
	return result;
}

CUresult ipc_open(uint64_t *ptr, const CUipcMemHandle *in)
{
	struct share *share;
	struct mem_handle handle;
	uint64_t life;
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);

	if (result)
		return result;
	memcpy(&handle, in, sizeof(handle));
	if (handle.magic != MEM_HANDLE_MAGIC || handle.version != MEM_HANDLE_VERSION)
		return CUDA_ERROR_INVALID_VALUE;
	life = ctx_life(ctx);
	if (client.strict) {
		result = stage_reserve(ctx->device);
		if (result)
			return result;
	}
	lock_take(&mem_lock);
	while ((share = share_of_token(handle.token, ctx->device)) && share->opening)
		import_await();
	if (share && share->ctx != ctx) {
		result = CUDA_ERROR_INVALID_HANDLE;
	} else if (share) {
		share->opens++;
		*ptr = share->ptr;
	} else {
		result = import_new(ctx, life, &handle, ptr);
	}
	lock_drop(&mem_lock);
	return result;
}

/*
 * Whether @ptr is an address that ipc_open() or, with @dmabuf, dmabuf_import() returned. If mem_lock is not held,
 * the answer may be out of date.
 */
static bool opened(uint64_t ptr, bool dmabuf, struct span *span)
{
	return vm_lookup(ptr, span) && span->flags & ALLOC_IMPORTED && !span->pool &&
	       !(span->flags & ALLOC_EXTERNAL) && span->base == ptr && !(span->flags & ALLOC_DMABUF) == !dmabuf;
}

static CUresult close_opened(uint64_t ptr, bool dmabuf)
{
	struct block *doomed = NULL;
	struct span span;
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);

	if (result)
		return result;
	if (!opened(ptr, dmabuf, &span))
		return CUDA_ERROR_INVALID_VALUE;
	if (!work_finish(&result))
		return result;
	lock_take(&mem_lock);
	if (!opened(ptr, dmabuf, &span))
		result = CUDA_ERROR_INVALID_VALUE;
	else if (!--span.alloc->share->opens)
		mem_drop_adopted(span.alloc, &doomed);
	lock_drop(&mem_lock);
	blocks_destroy(doomed);
	return result;
}

CUresult ipc_close(uint64_t ptr)
{
	return close_opened(ptr, false);
}

/* ---- DMA-bufs */

CUresult dmabuf_release(uint64_t ptr)
{
	return close_opened(ptr, true);
}

/* Whether the exporter of an imported DMA-buf lets processes map it. */
static bool can_map(uint32_t bo)
{
	void *p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, client.fd, GPUMEM_MMAP_OFFSET(bo));

	if (p == MAP_FAILED)
		return false;
	munmap(p, PAGE);
	return true;
}

int share_bo_import(int fd, bool dmabuf, uint32_t *bo, CUdevice *device, uint64_t *length)
{
	struct gpumem_bo_import import = {
		.size = sizeof(import), .fd = fd, .flags = dmabuf ? 0 : GPUMEM_BO_IMPORT_HANDLE,
	};
	int error = client_ioctl(GPUMEM_BO_IMPORT, &import);

	if (error)
		return error;
	*bo = import.id;
	if (device)
		/* A DMA-buf of another driver counts as memory of the client's first device. */
		*device = device_of_index(import.device);
	if (length)
		*length = import.length;
	return 0;
}

/* Make @size bytes of an imported buffer object, or all bytes if @size is 0, an alloc. No lock is held. */
static CUresult import_part(CUcontext ctx, uint64_t life, uint32_t bo, CUdevice device,
			    uint64_t length, uint64_t offset, uint64_t size, uint32_t flags,
			    uint64_t *ptr, struct alloc **alloc)
{
	struct share *share;
	CUresult result;

	if (offset > length || size > length - offset || device == CU_DEVICE_INVALID) {
		client_destroy_id(bo);
		return device == CU_DEVICE_INVALID ? CUDA_ERROR_NOT_PERMITTED :
			CUDA_ERROR_INVALID_VALUE;
	}
	share = calloc(1, sizeof(*share));
	if (!share) {
		client_destroy_id(bo);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	share->import = true;
	share->opens = 1;
	result = adopt(ctx, life, share, device, bo, length, offset, size ? size : length,
		       flags | (can_map(bo) ? 0 : ALLOC_DARK), ptr, alloc);
	if (result)
		free(share);
	return result;
}

CUresult share_map_part(CUcontext ctx, uint64_t life, int fd, bool dmabuf, uint64_t offset,
			uint64_t size, uint32_t flags, struct alloc **alloc, uint64_t *ptr)
{
	uint64_t length;
	CUdevice device;
	uint32_t bo;
	int error = share_bo_import(fd, dmabuf, &bo, &device, &length);

	if (error)
		return result_of_errno(error);
	/* As recorded, external memory counts as memory of the context's device, wherever it lies. */
	if (device != CU_DEVICE_INVALID)
		device = ctx->device;
	return import_part(ctx, life, bo, device, length, offset, size,
			   flags | ALLOC_EXTERNAL | (dmabuf ? ALLOC_DMABUF : 0), ptr, alloc);
}

/* Import a DMA-buf as an alloc of @ctx. No lock is held. */
static CUresult dmabuf_open(CUcontext ctx, uint64_t life, int fd, uint64_t *ptr, uint64_t *bytes)
{
	struct alloc *alloc;
	uint64_t length;
	CUdevice device;
	CUresult result;
	uint32_t bo;
	int error = share_bo_import(fd, true, &bo, &device, &length);

	if (error)
		return error == EBADF ? CUDA_ERROR_INVALID_VALUE :
			error == EACCES ? CUDA_ERROR_NOT_PERMITTED : result_of_errno(error);
	result = import_part(ctx, life, bo, device, length, 0, 0, ALLOC_DMABUF, ptr, &alloc);
	if (!result && bytes)
		*bytes = length;
	return result;
}

CUresult dmabuf_import(uint64_t *ptr, uint64_t *bytes, int fd, unsigned int flags)
{
	uint64_t life;
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);

	if (result)
		return result;
	if (!ptr || flags)
		return CUDA_ERROR_INVALID_VALUE;
	life = ctx_life(ctx);
	/* Copies between dark memory and the program's own go through staging memory: have some first. */
	result = stage_reserve(ctx->device);
	return result ? result : dmabuf_open(ctx, life, fd, ptr, bytes);
}
