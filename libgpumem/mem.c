// SPDX-License-Identifier: MIT
/*
 * Memory: how an allocation is cut out of buffer objects. Pinned host memory is the same with
 * buffer objects of another kind, in blocks of its own.
 *
 * Up to 2 MiB come from shared blocks: buffer objects of 2 MiB in units of 512 bytes, first fit, so
 * that 600 allocations of 4 KiB cost two blocks. Larger ones get a block of their own, whole 2 MiB,
 * at a 2 MiB aligned address. A block is given back when its last alloc is freed (block.c). Nothing
 * is kept back: what a program frees, other processes can have.
 *
 * Freeing waits first for the work of the context that owns the memory, and for copies of other
 * contexts that read it (free_wait.c).
 *
 * Managed memory is the device's, too, in blocks of its own: the CPU reaches it in strict mode.
 *
 * In strict mode device memory is dark; then the engine zeroes units, before the new owner hears of
 * them, and a copy's staging memory is there before the first device memory is (memcpy.c).
 *
 * An allocation takes its room first, has it populated or zeroed without a lock, and becomes an
 * alloc of its context at last. The context may have ended meanwhile: then the call fails, and the
 * room is given back.
 *
 * Locks: mem_lock for everything; lookups do not need it. Memory is populated, pinned, zeroed and
 * given back without it, and work is waited for without it.
 */
#include <errno.h>
#include <stdlib.h>

#include "block.h"
#include "ring.h"

#define HOST_LARGEST	(1ull << 40)	/* that the kernel knows */

struct lock mem_lock;

static struct alloc *free_allocs;	/* mem_lock */
static uint64_t last_id;		/* atomic; of allocs and blocks of pools */

/* ---- structures */

struct alloc *alloc_get(void)
{
	enum { BATCH = 64 };
	struct alloc *alloc = free_allocs;

	if (!alloc) {
		unsigned int i;

		alloc = calloc(BATCH, sizeof(*alloc));
		if (!alloc)
			return NULL;
		for (i = 1; i < BATCH; i++)
			alloc[i - 1].next = &alloc[i];
	}
	free_allocs = alloc->next;
	alloc->next = NULL;
	return alloc;
}

void alloc_put(struct alloc *alloc)
{
	alloc->next = free_allocs;
	free_allocs = alloc;
}

static void alloc_link(struct alloc *alloc, CUcontext ctx)
{
	alloc->next = ctx->allocs;
	if (alloc->next)
		alloc->next->link = &alloc->next;
	alloc->link = &ctx->allocs;
	ctx->allocs = alloc;
}

static void alloc_unlink(struct alloc *alloc)
{
	*alloc->link = alloc->next;
	if (alloc->next)
		alloc->next->link = alloc->link;
}

/* Give an alloc its place. Lookups find it when the caller has stored a pointer to it. */
void alloc_set(struct alloc *alloc, CUcontext ctx, struct block *block, uint64_t base,
	       uint64_t size, uint32_t flags)
{
	alloc_begin(alloc);
	store_relaxed(&alloc->base, base);
	store_relaxed(&alloc->size, size);
	store_relaxed(&alloc->id, mem_new_ids(1));
	store_relaxed(&alloc->ctx, ctx);
	store_relaxed(&alloc->flags, flags);
	store_relaxed(&alloc->block, block);
	alloc_end(alloc);
	alloc->share = NULL;
	alloc_link(alloc, ctx);
}

void alloc_clear(struct alloc *alloc)
{
	alloc_unlink(alloc);
	alloc_begin(alloc);
	store_relaxed(&alloc->size, 0);
	store_relaxed(&alloc->block, NULL);
	alloc_end(alloc);
	alloc_put(alloc);
}

/* ---- numbers */

uint64_t mem_new_ids(unsigned int count)
{
	return __atomic_fetch_add(&last_id, count, __ATOMIC_RELAXED) + 1;
}

/* ---- allocation */

/* An alloc for a context, or why there is none. mem_lock is held. */
static CUresult alloc_for(CUcontext ctx, uint64_t life, struct alloc **alloc)
{
	/* What is added from now on, the end of the context would not free. */
	if (!ctx_lives_on(ctx, life))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*alloc = alloc_get();
	return *alloc ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static struct shared *shared_list(struct device *device, uint32_t flags)
{
	return flags & ALLOC_HOST ? &device->shared_host :
		flags & ALLOC_MANAGED ? &device->shared_managed : &device->shared;
}

static CUresult alloc_shared(struct alloc **made, CUcontext ctx, uint64_t life, uint64_t size,
			     uint32_t flags)
{
	unsigned int units = (size + UNIT - 1) / UNIT, i;
	struct block *block, *doomed = NULL;
	struct alloc *alloc = NULL;
	struct scrub scrub;
	CUresult result;

	lock_take(&mem_lock);
	result = units_take(shared_list(ctx_device(ctx), flags), ctx->device, units, flags, &block,
			    &scrub);
	lock_drop(&mem_lock);
	if (result)
		return result;
	result = units_scrub(block, &scrub);
	lock_take(&mem_lock);
	if (!result)
		result = alloc_for(ctx, life, &alloc);
	if (result) {
		units_give(block, scrub.first, units, false, &doomed);
	} else {
		alloc_set(alloc, ctx, block, block->base + scrub.first * UNIT, size, flags);
		for (i = 0; !(flags & ALLOC_HIDDEN) && i < units; i++)
			store_release(&block->unit[scrub.first + i], alloc);
		*made = alloc;
	}
	lock_drop(&mem_lock);
	blocks_destroy(doomed);
	return result;
}

static CUresult alloc_whole(struct alloc **made, CUcontext ctx, uint64_t life, uint64_t size,
			    uint32_t flags)
{
	struct block *block, *doomed = NULL;
	struct alloc *alloc = NULL;
	CUresult result = block_alloc(&block, ctx->device, round_up(size, SLOT), flags);

	if (result)
		return result;
	lock_take(&mem_lock);
	result = alloc_for(ctx, life, &alloc);
	if (result) {
		block_doom(block, &doomed);
	} else {
		alloc_set(alloc, ctx, block, block->base, size, flags);
		if (!(flags & ALLOC_HIDDEN))
			store_release(&block->whole, alloc);
		*made = alloc;
	}
	lock_drop(&mem_lock);
	blocks_destroy(doomed);
	return result;
}

static CUresult alloc_once(CUcontext ctx, uint64_t life, struct alloc **made, uint64_t *ptr,
			   uint64_t size, uint32_t flags)
{
	CUresult result = size <= SLOT ? alloc_shared(made, ctx, life, size, flags) :
		alloc_whole(made, ctx, life, size, flags);

	if (!result)
		*ptr = (*made)->base;
	return result;
}

/* @life: the context must be in it */
static CUresult alloc_in(CUcontext ctx, uint64_t life, struct alloc **made, uint64_t *ptr,
			 uint64_t size, uint32_t flags)
{
	uint64_t most = flags & ALLOC_HOST ? HOST_LARGEST : ctx_device(ctx)->total;
	CUresult result;

	if (size > most) {
		debug_refused(flags & ALLOC_HOST ? GPUMEM_LIMIT_HOST : GPUMEM_LIMIT_DEVICE,
			      ctx->device, size, 0, most);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (kind_dark(flags)) {
		result = copy_reserve(ctx->device);
		if (result)
			return result;
	}
	result = alloc_once(ctx, life, made, ptr, size, flags);
	if (result != CUDA_ERROR_OUT_OF_MEMORY)
		return result;
	/* What pools keep for later is wanted now. */
	pools_give_back(NULL);
	return alloc_once(ctx, life, made, ptr, size, flags);
}

CUresult mem_alloc_in(CUcontext ctx, uint64_t *ptr, uint64_t size, uint32_t flags)
{
	struct alloc *alloc;

	return alloc_in(ctx, ctx_life(ctx), &alloc, ptr, size, flags);
}

CUresult mem_alloc_hidden(CUcontext ctx, uint64_t life, struct alloc **alloc, uint64_t *ptr,
			  uint64_t size)
{
	return alloc_in(ctx, life, alloc, ptr, size, ALLOC_HIDDEN);
}

CUresult mem_alloc(uint64_t *ptr, uint64_t size)
{
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);

	if (result)
		return result;
	if (!ptr)
		return CUDA_ERROR_INVALID_VALUE;
	*ptr = 0;
	if (!size)
		return CUDA_ERROR_INVALID_VALUE;
	return mem_alloc_in(ctx, ptr, size, 0);
}

CUresult mem_alloc_pitch(uint64_t *ptr, uint64_t *pitch, uint64_t width, uint64_t height,
			 unsigned int element)
{
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);
	uint64_t row, size;

	if (result)
		return result;
	if (!ptr || !pitch || !width || !height || (element != 4 && element != 8 && element != 16))
		return CUDA_ERROR_INVALID_VALUE;
	row = round_up(width, UNIT);
	if (row < width || __builtin_mul_overflow(row, height, &size))
		return CUDA_ERROR_INVALID_VALUE;
	result = mem_alloc_in(ctx, ptr, size, 0);
	if (!result)
		*pitch = row;
	return result;
}

uint64_t mem_internal(CUdevice device, uint64_t length, const char *name)
{
	uint64_t addr;
	uint32_t bo;

	/* Strict mode needs it for every copy, also when the device is full. */
	if (!client.strict || bo_alloc(&bo, device, length, name, ALLOC_HOST))
		if (bo_alloc(&bo, device, length, name, 0))
			return 0;
	lock_take(&mem_lock);
	addr = vm_reserve(round_up(length, SLOT));
	lock_drop(&mem_lock);
	if (addr && !vm_map(addr, length, bo, false))
		return addr;
	if (addr) {
		lock_take(&mem_lock);
		vm_release(addr, round_up(length, SLOT));
		lock_drop(&mem_lock);
	}
	client_destroy_id(bo);
	return 0;
}

/* ---- freeing */

/* Let nobody find an alloc any more. */
static void alloc_hide(struct alloc *alloc)
{
	struct block *block = alloc->block;
	unsigned int first = (alloc->base - block->base) / UNIT, i;
	unsigned int units = (alloc->size + UNIT - 1) / UNIT;

	/* Blocks of several allocs are in a list. */
	if (!block->link) {
		store_release(&block->whole, NULL);
		return;
	}
	for (i = first; i < first + units; i++)
		store_release(&block->unit[i], NULL);
}

/*
 * mem_lock is held; no work that uses the memory is left. The caller destroys what is doomed when
 * it has dropped the lock.
 */
static void alloc_free(struct alloc *alloc, struct block **doomed)
{
	struct block *block = alloc->block;
	bool whole = !block->link;

	if (alloc->share)
		share_drop(alloc->share);
	if (load_relaxed(&alloc->flags) & ALLOC_MANAGED)
		managed_forget(alloc->base);
	alloc_hide(alloc);
	if (whole)
		block_doom(block, doomed);
	else
		units_give(block, (alloc->base - block->base) / UNIT,
			   (alloc->size + UNIT - 1) / UNIT,
			   load_relaxed(&alloc->flags) & ALLOC_EXPORTED, doomed);
	alloc_clear(alloc);
}

void mem_free_hidden(struct alloc *alloc, struct block **doomed)
{
	lock_take(&mem_lock);
	alloc_free(alloc, doomed);
	lock_drop(&mem_lock);
}

/* Whether the alloc of an id still begins at an address; mem_lock is held. */
static bool alloc_found(uint64_t ptr, uint64_t id, struct span *span)
{
	return vm_lookup(ptr, span) && span->alloc && span->id == id;
}

/* @kind: the flags that tell what the function frees. */
static CUresult free_kind(uint64_t ptr, uint32_t kind)
{
	struct block *doomed = NULL;
	CUresult result;
	struct span span;
	CUcontext ctx;
	uint64_t id;

	/* No context is needed, but one that is gone is an error. */
	if (ctx_top() && ctx_current_any(&ctx))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	if (!ptr)
		return CUDA_SUCCESS;
	if (!vm_lookup(ptr, &span) || span.base != ptr)
		return CUDA_ERROR_INVALID_VALUE;
	if (span.pool)
		return kind ? CUDA_ERROR_INVALID_VALUE : pool_free_now(ptr);
	if ((span.flags & (ALLOC_IMPORTED | ALLOC_ANY_HOST)) != kind)
		return CUDA_ERROR_INVALID_VALUE;
	id = span.id;
	result = free_wait(span.ctx, span.base, span.size);
	lock_take(&mem_lock);
	/* Another thread may have freed it meanwhile. */
	if (alloc_found(ptr, id, &span))
		alloc_free(span.alloc, &doomed);
	else
		result = CUDA_ERROR_INVALID_VALUE;
	lock_drop(&mem_lock);
	blocks_destroy(doomed);
	return result;
}

CUresult mem_free(uint64_t ptr)
{
	return free_kind(ptr, 0);
}

CUresult mem_free_host(uint64_t ptr)
{
	return free_kind(ptr, ALLOC_HOST);
}

/*
 * What was freed in stream order has its place in the context's list until that happens, but is
 * not found any more.
 */
static struct late {
	struct late *next;
	struct alloc *alloc;
	struct queue *queue;
	uint64_t value;
} *late;				/* mem_lock */

/* mem_lock is held. */
static void late_free(struct block **doomed)
{
	struct late **link = &late, *l;

	while ((l = *link)) {
		if (!queue_reached(l->queue, l->value)) {
			link = &l->next;
			continue;
		}
		*link = l->next;
		if (l->alloc)
			alloc_free(l->alloc, doomed);
		free(l);
	}
}

/* Also if it was to be freed later; the context's work is done. */
static void alloc_free_now(struct alloc *alloc, struct block **doomed)
{
	struct late *l;

	for (l = late; l; l = l->next)
		if (l->alloc == alloc)
			l->alloc = NULL;
	alloc_free(alloc, doomed);
}

void mem_free_late(void)
{
	struct block *doomed = NULL;

	if (!load_relaxed(&late))
		return;
	lock_take(&mem_lock);
	late_free(&doomed);
	lock_drop(&mem_lock);
	blocks_destroy(doomed);
}

CUresult mem_free_in(uint64_t ptr, CUstream stream)
{
	struct block *doomed = NULL;
	struct late *l;
	struct queue *queue;
	struct span span;
	uint64_t value;
	CUresult result;

	if (!vm_lookup(ptr, &span) || span.base != ptr || span.pool ||
	    span.flags & (ALLOC_IMPORTED | ALLOC_ANY_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	if (span.flags & ALLOC_MANAGED)
		return CUDA_ERROR_NOT_SUPPORTED;
	result = stream_moment(stream, &queue, &value);
	if (result)
		return result;
	l = queue ? calloc(1, sizeof(*l)) : NULL;
	if (queue && !l)
		return CUDA_ERROR_OUT_OF_MEMORY;
	lock_take(&mem_lock);
	late_free(&doomed);
	/* Another thread may have freed it meanwhile. */
	if (!alloc_found(ptr, span.id, &span)) {
		free(l);
		result = CUDA_ERROR_INVALID_VALUE;
	} else if (l) {
		alloc_hide(span.alloc);
		*l = (struct late){ .next = late, .alloc = span.alloc, .queue = queue,
				    .value = value };
		store_relaxed(&late, l);
		process_uneasy();
	} else {
		alloc_free(span.alloc, &doomed);
	}
	lock_drop(&mem_lock);
	blocks_destroy(doomed);
	return result;
}

void mem_free_context(CUcontext ctx)
{
	struct block *doomed;
	struct alloc *alloc;

	do {
		doomed = NULL;
		lock_take(&mem_lock);
		alloc = ctx->allocs;
		if (!alloc)
			;
		else if (alloc->flags & ALLOC_IMPORTED)
			mem_drop_adopted(alloc, &doomed);
		else if (alloc->flags & ALLOC_REGISTERED)
			host_drop(alloc);
		else
			alloc_free_now(alloc, &doomed);
		lock_drop(&mem_lock);
		blocks_destroy(doomed);
	} while (alloc);
}

/* ---- memory of other processes and drivers */

CUresult mem_adopt(CUcontext ctx, uint64_t life, struct block *block, uint64_t delta,
		   uint64_t bytes, struct share *share, uint32_t flags, uint64_t *ptr)
{
	struct alloc *alloc;
	CUresult result = alloc_for(ctx, life, &alloc);

	if (result)
		return result;
	alloc_set(alloc, ctx, block, block->base + delta, bytes, ALLOC_IMPORTED | flags);
	alloc->share = share;
	store_release(&block->whole, alloc);
	*ptr = alloc->base;
	return CUDA_SUCCESS;
}

void mem_drop_adopted(struct alloc *alloc, struct block **doomed)
{
	if (alloc->share)
		share_drop(alloc->share);
	block_doom(alloc->block, doomed);
	alloc_clear(alloc);
}

/* ---- questions */

CUresult mem_info(uint64_t *free_bytes, uint64_t *total)
{
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);

	if (result)
		return result;
	if (total)
		*total = ctx_device(ctx)->total;
	return free_bytes ? client_free_bytes(ctx->device, free_bytes) : CUDA_SUCCESS;
}

CUresult mem_range(uint64_t *base, uint64_t *size, uint64_t ptr)
{
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);
	struct span span;

	if (!base && !size)
		return result;
	if (!result && (!vm_lookup(ptr, &span) || !ctx_reaches(ctx, &span)))
		result = CUDA_ERROR_NOT_FOUND;
	if (result) {
		span.base = 0;
		span.size = 0;
	}
	if (base)
		*base = span.base;
	if (size)
		*size = span.size;
	return result;
}
