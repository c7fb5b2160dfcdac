// SPDX-License-Identifier: MIT
/*
 * Memory handles for other processes, and DMA-bufs that are opened.
 *
 * A handle names a whole alloc: a random token that the kernel resolves, and the exact size. The
 * token is made once per alloc, so that the handles of one alloc are the same bytes; freeing the
 * alloc revokes it. Nothing in a handle is a pid, a path or an address.
 *
 * Opening maps the pages around the range as an alloc of its own, in a block of its own, which
 * belongs to the context that is current. Opening the same handle again in that context gives the
 * same pointer and counts; in another context of its device it fails, as on an H200; in a context
 * of another device it is another import. The last close, from whichever context, unmaps, and so
 * does the end of the context that opened. The process that made a handle cannot open it.
 *
 * A DMA-buf is opened by a function that CUDA does not have, each time as an alloc of its own. One
 * that another driver made, and that it does not let processes map, is dark: only the engine
 * reaches it, as if in strict mode. Any of them may be used by others at any time, so none is
 * touched inline.
 *
 * The kernel opens and maps without a lock. Meanwhile the share is in the list of imports already
 * (opening), so that another thread that opens the same handle waits for the result and does not
 * map the memory twice.
 *
 * Locks: mem_lock for the list of imports and everything in a struct share.
 *
 * Vocabulary: share, an alloc's token (exporter) or an opened handle or DMA-buf (importer).
 */
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "block.h"

#define HANDLE_MAGIC	0x6d656d67	/* "gmem" */
#define HANDLE_VERSION	1

/* What is in a CUipcMemHandle; the rest is zero. */
struct handle {
	uint32_t magic;
	uint32_t version;
	uint8_t token[GPUMEM_TOKEN_SIZE];
	uint64_t bytes;
};

struct share {
	struct share *next;		/* in imports, if this is one */
	bool import;
	bool opening;			/* importer's: no alloc has it yet */
	unsigned int opens;
	uint32_t token_id;		/* exporter's */
	uint8_t token[GPUMEM_TOKEN_SIZE];
	uint64_t ptr;			/* importer's, as the next two */
	CUcontext ctx;			/* that opened it */
	CUdevice device;		/* of that context */
	uint64_t pool_id;		/* BUFFER_ID of a pool's block, or 0 */
};

static struct share *imports;		/* mem_lock */
static struct share *of_pools;		/* mem_lock; tokens of blocks of pools */
static uint32_t opened_count;		/* of shares that stopped opening; mem_lock; read as a futex */

_Static_assert(sizeof(struct handle) <= sizeof(CUipcMemHandle), "a handle has 64 bytes");

void share_drop(struct share *share)
{
	struct share **link = share->import ? &imports : &of_pools;

	for (; *link; link = &(*link)->next)
		if (*link == share) {
			*link = share->next;
			break;
		}
	if (!share->import)
		client_destroy_id(share->token_id);
	free(share);
}

/* Of a pool's block. */
static struct share *share_of_pool(uint64_t id)
{
	struct share *share = of_pools;

	while (share && share->pool_id != id)
		share = share->next;
	return share;
}

void share_drop_of_pool(uint64_t id)
{
	struct share *share;

	lock_take(&mem_lock);
	share = share_of_pool(id);
	if (share)
		share_drop(share);
	lock_drop(&mem_lock);
}

/* Give an alloc its token. mem_lock is held. */
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
	/* From here on the memory is not touched inline. */
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
		share->next = of_pools;
		of_pools = share;
	}
	*out = share;
	return CUDA_SUCCESS;
}

CUresult ipc_get(CUipcMemHandle *out, uint64_t ptr)
{
	struct handle handle = { .magic = HANDLE_MAGIC, .version = HANDLE_VERSION };
	struct share *share = NULL;
	struct span span;
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);

	if (result)
		return result;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	lock_take(&mem_lock);
	if (!vm_lookup(ptr, &span) ||
	    span.flags & (ALLOC_IMPORTED | ALLOC_ANY_HOST | ALLOC_MANAGED) ||
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

/* The visible device with an index in the client. */
static CUdevice device_of_index(unsigned int index)
{
	unsigned int i;

	for (i = 0; i < client.devices; i++)
		if (client.device[i].index == index)
			return i;
	return CU_DEVICE_INVALID;
}

/* Map a buffer object that was opened, and make it an alloc of the share. No lock is held. */
static CUresult adopt(CUcontext ctx, uint64_t life, struct share *share, CUdevice device,
		      uint32_t bo, uint64_t length, uint64_t delta, uint64_t bytes, uint32_t flags,
		      uint64_t *ptr)
{
	struct block *block, *doomed = NULL;
	CUresult result = block_make(&block, device, bo, length,
				     client.strict || flags & ALLOC_DARK);

	if (result)
		return result;
	lock_take(&mem_lock);
	result = mem_adopt(ctx, life, block, delta, bytes, share, flags, ptr);
	if (result) {
		block_doom(block, &doomed);
	} else {
		share->ptr = *ptr;
		share->opening = false;
	}
	lock_drop(&mem_lock);
	blocks_destroy(doomed);
	return result;
}

/* No lock is held. */
static CUresult import(CUcontext ctx, uint64_t life, struct share *share, uint64_t bytes,
		       uint64_t *ptr)
{
	struct gpumem_token_open open = { .size = sizeof(open) };
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
		     ptr);
}

/* The import of a token by a context of a device, or NULL. mem_lock is held. */
static struct share *import_find(const uint8_t *token, CUdevice device)
{
	struct share *share = imports;

	while (share && (share->device != device ||
			 memcmp(share->token, token, sizeof(share->token))))
		share = share->next;
	return share;
}

/* Wait until a share has been opened, or could not be. mem_lock is dropped meanwhile. */
static void import_await(void)
{
	uint32_t count = opened_count;

	lock_drop(&mem_lock);
	while (load_acquire(&opened_count) == count)
		syscall(SYS_futex, &opened_count, FUTEX_WAIT_PRIVATE, count, NULL, NULL, 0);
	lock_take(&mem_lock);
}

/* Open what no share of the list has. mem_lock is held, and dropped meanwhile. */
static CUresult import_new(CUcontext ctx, uint64_t life, const struct handle *handle, uint64_t *ptr)
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
	share->next = imports;
	imports = share;
	lock_drop(&mem_lock);
	result = import(ctx, life, share, handle->bytes, ptr);
	lock_take(&mem_lock);
	/* If it succeeded, the context may have ended since, and the share with it. */
	if (result)
		share_drop(share);
	store_release(&opened_count, opened_count + 1);
	syscall(SYS_futex, &opened_count, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
	return result;
}

CUresult ipc_open(uint64_t *ptr, const CUipcMemHandle *in, unsigned int flags)
{
	struct share *share;
	struct handle handle;
	uint64_t life;
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);

	if (result)
		return result;
	memcpy(&handle, in, sizeof(handle));
	if (!ptr || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS || handle.magic != HANDLE_MAGIC ||
	    handle.version != HANDLE_VERSION)
		return CUDA_ERROR_INVALID_VALUE;
	life = ctx_life(ctx);
	if (client.strict) {
		result = copy_reserve(ctx->device);
		if (result)
			return result;
	}
	lock_take(&mem_lock);
	while ((share = import_find(handle.token, ctx->device)) && share->opening)
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

/* An address that ipc_open() gave, or dmabuf_import(). mem_lock is held, unless it is only a look. */
static bool opened(uint64_t ptr, bool dmabuf, struct span *span)
{
	return vm_lookup(ptr, span) && span->flags & ALLOC_IMPORTED && !span->pool &&
	       span->base == ptr && !(span->flags & ALLOC_DMABUF) == !dmabuf;
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
	result = work_synchronize();
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

/* Does the exporter let processes map it? */
static bool can_map(uint32_t bo)
{
	void *p = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, client.fd, GPUMEM_MMAP_OFFSET(bo));

	if (p == MAP_FAILED)
		return false;
	munmap(p, PAGE);
	return true;
}

/* No lock is held. */
static CUresult dmabuf_open(CUcontext ctx, uint64_t life, int fd, uint64_t *ptr, uint64_t *bytes)
{
	struct gpumem_bo_import import = { .size = sizeof(import), .fd = fd };
	struct share *share;
	CUresult result;
	CUdevice device;
	int error;

	error = client_ioctl(GPUMEM_BO_IMPORT, &import);
	if (error)
		return error == EBADF ? CUDA_ERROR_INVALID_VALUE :
			error == EACCES ? CUDA_ERROR_NOT_PERMITTED : result_of_errno(error);
	/* Another driver's counts as memory of the client's first device. */
	device = device_of_index(import.device);
	share = device == CU_DEVICE_INVALID ? NULL : calloc(1, sizeof(*share));
	if (!share) {
		client_destroy_id(import.id);
		return device == CU_DEVICE_INVALID ? CUDA_ERROR_NOT_PERMITTED :
			CUDA_ERROR_OUT_OF_MEMORY;
	}
	share->import = true;
	share->opens = 1;
	result = adopt(ctx, life, share, device, import.id, import.length, 0, import.length,
		       ALLOC_DMABUF | (can_map(import.id) ? 0 : ALLOC_DARK), ptr);
	if (result) {
		free(share);
		return result;
	}
	if (bytes)
		*bytes = import.length;
	return CUDA_SUCCESS;
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
	/* Without it there is no way from dark memory to the program's own. */
	result = copy_reserve(ctx->device);
	return result ? result : dmabuf_open(ctx, life, fd, ptr, bytes);
}
