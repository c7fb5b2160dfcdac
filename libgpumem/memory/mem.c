// SPDX-License-Identifier: MIT
/*
 * Memory: allocations outside pools, and how they are cut out of buffer objects. Pinned host memory has buffer
 * objects of another kind, in blocks of its own.
 *
 * Allocations of up to 2 MiB come from shared blocks: buffer objects of 2 MiB in units of 512 bytes, first fit,
 * so that 600 allocations of 4 KiB take two blocks. A larger allocation gets a block of its own, a multiple of
 * 2 MiB at a 2 MiB aligned address. A block is given back when its last alloc is freed (block.c). The library
 * caches no blocks: other processes can have the memory that a program frees.
 *
 * Freeing waits first for the work of the context that owns the memory, and for copies of other
 * contexts that read it (free_wait.c).
 *
 * Managed memory has blocks of its own: buffer objects of the kernel's managed memory, which take no memory until
 * they are touched. If the kernel does not allow these (the module parameter managed), they are device memory. The
 * CPU reaches them even in strict mode.
 *
 * In strict mode device memory is dark. The engine then zeroes units before they get a new owner, and staging
 * memory is allocated before the first device memory (exec/stage.c).
 *
 * An allocation first takes its room, then has the room populated or zeroed without a lock, and last becomes an
 * alloc of its context. If the context has ended by then, the call fails and gives the room back.
 *
 * Locks: mem_lock for everything; lookups do not need it. No thread holds mem_lock while it populates, pins,
 * zeroes or gives back memory, or waits for work.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "memory/memory.h"

#define LARGEST		(1ull << 40)	/* that the kernel knows */

static struct alloc *free_allocs;	/* mem_lock */
static uint64_t last_memory_id;		/* atomic; of allocs and blocks of pools */
static void (*reclaim_pools)(void);	/* mem_reclaim_set(); atomic */

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
	return __atomic_fetch_add(&last_memory_id, count, __ATOMIC_RELAXED) + 1;
}

/* ---- allocation */

/* Get an unused alloc for a context in its life @life. mem_lock is held. */
static CUresult alloc_for(CUcontext ctx, uint64_t life, struct alloc **alloc)
{
	/* A context that has ended would never free the alloc. */
	if (!ctx_lives_on(ctx, life))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	*alloc = alloc_get();
	return *alloc ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static struct shared *shared_list(struct device *device, uint32_t flags)
{
	return flags & ALLOC_HIDDEN ? &device->shared_hidden :
		flags & ALLOC_HOST ? &device->shared_host :
		flags & ALLOC_MANAGED ? &device->shared_managed : &device->shared;
}

/* Units that memory takes in a shared block. Memory from which access may be withdrawn shares no page. */
static inline __attribute__((always_inline)) unsigned int units_of(uint64_t size, uint32_t flags)
{
	return unlikely(client.zoned || flags & ALLOC_ATTACHED) ?
		round_up(size + red_zone(flags), flags & ALLOC_ATTACHED ? PAGE : UNIT) / UNIT :
		(size + UNIT - 1) / UNIT;
}

/* Make the record of an attachment, if the memory needs one. False: no memory. */
static bool attach_ready(uint32_t flags, struct attach **attach)
{
	*attach = flags & ALLOC_ATTACHED ? attach_make() : NULL;
	return *attach || !(flags & ALLOC_ATTACHED);
}

/* Set the owner of units of a shared block: an alloc or NULL. Lookups read it without a lock. */
static void owner_set(struct block *block, unsigned int first, unsigned int units,
		      struct alloc *alloc)
{
	struct alloc **unit = &block->unit[first], **end = unit + units;

	for (; end - unit >= 4; unit += 4) {
		store_release(&unit[0], alloc);
		store_release(&unit[1], alloc);
		store_release(&unit[2], alloc);
		store_release(&unit[3], alloc);
	}
	for (; unit < end; unit++)
		store_release(unit, alloc);
}

static CUresult alloc_shared(struct alloc **made, CUcontext ctx, uint64_t life, uint64_t size,
			     uint32_t flags)
{
	unsigned int units = units_of(size, flags);
	struct block *block, *doomed = NULL;
	struct alloc *alloc = NULL;
	struct attach *attach;
	struct scrub scrub;
	CUresult result;

	if (!attach_ready(flags, &attach))
		return CUDA_ERROR_OUT_OF_MEMORY;
	lock_take(&mem_lock);
	result = units_take(shared_list(ctx_device(ctx), flags), ctx->device, units, flags, &block,
			    &scrub);
	lock_drop(&mem_lock);
	if (result) {
		attach_drop(attach);
		return result;
	}
	result = units_scrub(block, &scrub);
	lock_take(&mem_lock);
	if (!result)
		result = alloc_for(ctx, life, &alloc);
	if (result) {
		units_give(block, scrub.first, units, 0, &doomed);
	} else {
		/* Another thread may have exported the pages meanwhile. */
		if (units_exposed(block, scrub.first, units))
			flags |= ALLOC_EXPORTED;
		if (block->movable)
			flags |= ALLOC_MOVABLE;
		alloc_set(alloc, ctx, block, block->base + scrub.first * UNIT, size, flags);
		if (attach)
			attach_add(alloc, attach);
		if (!(flags & ALLOC_HIDDEN))
			owner_set(block, scrub.first, units, alloc);
		if (unlikely(client.zoned))
			red_zone_fill(alloc);
		*made = alloc;
	}
	lock_drop(&mem_lock);
	if (result)
		attach_drop(attach);
	blocks_destroy(doomed);
	return result;
}

static CUresult alloc_whole(struct alloc **made, CUcontext ctx, uint64_t life, uint64_t size,
			    uint32_t flags)
{
	struct block *block, *doomed = NULL;
	struct alloc *alloc = NULL;
	struct attach *attach;
	CUresult result;

	if (!attach_ready(flags, &attach))
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = block_alloc(&block, ctx->device, round_up(size + red_zone(flags), SLOT), flags);
	if (result) {
		attach_drop(attach);
		return result;
	}
	lock_take(&mem_lock);
	result = alloc_for(ctx, life, &alloc);
	if (result) {
		block_doom(block, &doomed);
	} else {
		if (block->movable)
			flags |= ALLOC_MOVABLE;
		alloc_set(alloc, ctx, block, block->base, size, flags);
		if (attach)
			attach_add(alloc, attach);
		if (!(flags & ALLOC_HIDDEN))
			store_release(&block->whole, alloc);
		/* Memory that is attached is checked each time. */
		if (block->movable && !(flags & ALLOC_ATTACHED))
			resident_publish(block, size);
		if (unlikely(client.zoned))
			red_zone_fill(alloc);
		*made = alloc;
	}
	lock_drop(&mem_lock);
	if (result)
		attach_drop(attach);
	blocks_destroy(doomed);
	return result;
}

static inline __attribute__((always_inline)) CUresult alloc_once(CUcontext ctx, uint64_t life, struct alloc **made, uint64_t *ptr,
			   uint64_t size, uint32_t flags)
{
	CUresult result = size + red_zone(flags) <= SLOT ? alloc_shared(made, ctx, life, size, flags) :
		alloc_whole(made, ctx, life, size, flags);

	if (!result)
		*ptr = (*made)->base;
	return result;
}

void mem_reclaim_set(void (*function)(void))
{
	store_release(&reclaim_pools, function);
}

void mem_reclaim(void)
{
	void (*function)(void) = load_acquire(&reclaim_pools);

	quarantine_flush();
	if (function) {
		function();
	} else {
		mem_free_late();
		giving_wait(NULL);
	}
}

/* @life: the context must be in it */
static CUresult alloc_in(CUcontext ctx, uint64_t life, struct alloc **made, uint64_t *ptr,
			 uint64_t size, uint32_t flags)
{
	bool device = !(flags & (ALLOC_HOST | ALLOC_MANAGED));
	uint64_t most = device ? fault_total(ctx->device) : LARGEST;
	CUresult result;

	if (size > most) {
		debug_refused(device ? GPUMEM_LIMIT_DEVICE : GPUMEM_LIMIT_HOST, ctx->device, size,
			      0, most);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (kind_dark(flags)) {
		result = stage_reserve(ctx->device);
		if (result)
			return result;
	}
	result = alloc_once(ctx, life, made, ptr, size, flags);
	if (result != CUDA_ERROR_OUT_OF_MEMORY)
		return result;
	/* Pools give back the memory that they keep for later. */
	mem_reclaim();
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
	if (row < width)
		return CUDA_ERROR_INVALID_VALUE;
	/* The pitch is known from here on, whether there is memory or not. */
	*pitch = row;
	/* The driver allocates the remainder of a product that wraps around: 0 bytes are INVALID_VALUE. */
	if (__builtin_mul_overflow(row, height, &size))
		return size ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
	return mem_alloc_in(ctx, ptr, size, 0);
}

/* ---- freeing */

/* Hide memory from lookups; the units that it has in a shared block, or 0. */
static inline unsigned int hide(struct alloc *alloc)
{
	struct block *block = alloc->block;
	unsigned int units;

	/* Only shared blocks are in a list. */
	if (!block->link) {
		if (block->movable)
			resident_retract(block);
		store_release(&block->whole, NULL);
		return 0;
	}
	units = units_of(alloc->size, load_relaxed(&alloc->flags));
	owner_set(block, (alloc->base - block->base) / UNIT, units, NULL);
	return units;
}

void alloc_hide(struct alloc *alloc)
{
	hide(alloc);
}

void alloc_free(struct alloc *alloc, uint32_t how, struct block **doomed)
{
	struct block *block = alloc->block;
	unsigned int units;
	bool lost = false;

	if (alloc->share)
		share_drop(alloc->share);
	if (load_relaxed(&alloc->flags) & ALLOC_MANAGED)
		managed_forget(alloc->base);
	if (load_relaxed(&alloc->flags) & ALLOC_EXPORTED)
		how |= UNITS_EXPORTED;
	if (unlikely(alloc->attach))
		lost = !attach_remove(alloc);
	if (unlikely(client.zoned))
		red_zone_look(alloc);
	units = hide(alloc);
	if (!units)
		block_doom(block, doomed);
	/* Pages without rights get no other owner: the units stay taken. */
	else if (!lost)
		units_give(block, (alloc->base - block->base) / UNIT, units, how, doomed);
	alloc_clear(alloc);
}

void mem_free_hidden(struct alloc *alloc, struct block **doomed)
{
	lock_take(&mem_lock);
	alloc_free(alloc, UNITS_IDLE, doomed);
	lock_drop(&mem_lock);
}

/* Whether the alloc of an id still begins at an address; mem_lock is held. */
static bool alloc_found(uint64_t ptr, uint64_t id, struct span *span)
{
	return vm_lookup(ptr, span) && span->alloc && span->id == id;
}

/* @kind: the kind of memory that the function frees, 0 or ALLOC_HOST. @pool_free: as for mem_free(). */
static CUresult free_kind(uint64_t ptr, uint32_t kind, CUresult (*pool_free)(uint64_t ptr))
{
	struct block *doomed = NULL;
	CUresult result;
	struct span span;
	CUcontext ctx;
	uint64_t id;

	/* No current context is needed, but a destroyed one is an error. */
	if (ctx_top() && ctx_current_any(&ctx))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	if (!ptr)
		return CUDA_SUCCESS;
	if (!vm_lookup(ptr, &span) || span.base != ptr)
		return CUDA_ERROR_INVALID_VALUE;
	if (span.pool) {
		result = pool_free ? pool_free(ptr) : CUDA_ERROR_INVALID_VALUE;
		return result ? result : ctx_look(ctx_top());
	}
	if ((span.flags & (ALLOC_IMPORTED | ALLOC_ANY_HOST | ALLOC_MAPPED)) != kind &&
	    (kind || !(span.flags & ALLOC_EXTERNAL)))
		return CUDA_ERROR_INVALID_VALUE;
	id = span.id;
	if (!free_wait(span.ctx, span.base, span.size, &result))
		return result;
	lock_take(&mem_lock);
	/* Another thread may have freed it while the lock was dropped. */
	if (!alloc_found(ptr, id, &span))
		result = CUDA_ERROR_INVALID_VALUE;
	else if (likely(!client.quarantine) || !quarantine_put(span.alloc, &doomed))
		alloc_free(span.alloc, result ? 0 : UNITS_IDLE, &doomed);
	lock_drop(&mem_lock);
	blocks_destroy(doomed);
	clear_consider();
	if (unlikely(client.zoned))
		quarantine_report();
	return result;
}

CUresult mem_free(uint64_t ptr, CUresult (*pool_free)(uint64_t ptr))
{
	return free_kind(ptr, 0, pool_free);
}

CUresult mem_free_host(uint64_t ptr)
{
	return free_kind(ptr, ALLOC_HOST, NULL);
}

/*
 * An allocation that was freed in stream order stays in the context's list until the stream has reached the
 * free. Lookups do not find it.
 */
static struct late {
	struct late *next;
	struct alloc *alloc;
	struct queue *queue;
	uint64_t value;
} *late;				/* mem_lock */

/*
 * mem_lock is held. The caller is a giver (give_back.h): a thread that finds nothing in the list waits for the
 * memory that this thread took out of it.
 */
static void late_free(struct block **doomed)
{
	struct late **link = &late, *l;

	while ((l = *link)) {
		if (!queue_reached(l->queue, l->value)) {
			link = &l->next;
			continue;
		}
		store_release(link, l->next);
		if (l->alloc)
			alloc_free(l->alloc, 0, doomed);
		free(l);
	}
}

/* Free an alloc even if it is late: the context's work is done. mem_lock is held. */
static void alloc_free_now(struct alloc *alloc, struct block **doomed)
{
	struct late *l;

	for (l = late; l; l = l->next)
		if (l->alloc == alloc)
			l->alloc = NULL;
	if (unlikely(client.quarantine))
		quarantine_leave(alloc);
	alloc_free(alloc, 0, doomed);
}

void mem_free_late(void)
{
	struct block *doomed = NULL;
	struct giver giver;

	if (!load_acquire(&late))
		return;
	lock_take(&mem_lock);
	giving_begin(&giver, NULL);
	late_free(&doomed);
	lock_drop(&mem_lock);
	blocks_destroy(doomed);
	giving_end(&giver);
}

CUresult mem_free_in(uint64_t ptr, CUstream stream)
{
	struct block *doomed = NULL;
	struct giver giver;
	struct late *l;
	struct queue *queue;
	struct span span;
	uint64_t value;
	CUresult result;

	if (!vm_lookup(ptr, &span) || span.base != ptr || span.pool ||
	    span.flags & (ALLOC_IMPORTED | ALLOC_ANY_HOST | ALLOC_MAPPED))
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
	giving_begin(&giver, NULL);
	late_free(&doomed);
	/* Another thread may have freed it while the lock was dropped. */
	if (!alloc_found(ptr, span.id, &span)) {
		free(l);
		result = CUDA_ERROR_INVALID_VALUE;
	} else if (l) {
		alloc_hide(span.alloc);
		*l = (struct late){ .next = late, .alloc = span.alloc, .queue = queue,
				    .value = value };
		store_relaxed(&late, l);
		sync_gives_back();
	} else {
		alloc_free(span.alloc, 0, &doomed);
	}
	lock_drop(&mem_lock);
	blocks_destroy(doomed);
	giving_end(&giver);
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
	if (unlikely(client.zoned))
		quarantine_report();
}

/* ---- memory of other processes and drivers */

CUresult mem_adopt(CUcontext ctx, uint64_t life, struct block *block, uint64_t delta,
		   uint64_t bytes, struct share *share, uint32_t flags, struct alloc **made)
{
	struct alloc *alloc;
	CUresult result = alloc_for(ctx, life, &alloc);

	if (result)
		return result;
	alloc_set(alloc, ctx, block, block->base + delta, bytes, ALLOC_IMPORTED | flags);
	alloc->share = share;
	if (!(flags & ALLOC_HIDDEN))
		store_release(&block->whole, alloc);
	*made = alloc;
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
	if (free_bytes) {
		quarantine_flush();
		result = client_free_bytes(ctx->device, free_bytes);
	}
	if (!result && total)
		*total = fault_total(ctx->device);
	return result;
}

CUresult mem_range(uint64_t *base, uint64_t *size, uint64_t ptr)
{
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);
	struct span span;

	if (!base && !size)
		return result;
	if (!result && (!vm_lookup(ptr, &span) || !ctx_reaches(ctx, &span) ||
			(span.flags & ALLOC_MAPPED && !vmm_allows(&span, ctx->device, PROT_READ))))
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
