// SPDX-License-Identifier: MIT
/*
 * Memory: how an allocation is cut out of buffer objects. Pinned host memory is the same with
 * buffer objects of another kind, in blocks of its own.
 *
 * Up to 2 MiB come from shared blocks: buffer objects of 2 MiB in units of 512 bytes, first fit, so
 * that 600 allocations of 4 KiB cost two blocks. Larger ones get a block of their own, whole 2 MiB,
 * at a 2 MiB aligned address. A block is given back when its last alloc is freed. All blocks are
 * made and destroyed here; the kernel zeroes a buffer object when it is made, and a unit that had
 * an owner is zeroed here before it gets the next one. Nothing is kept back: what a program frees,
 * other processes can have.
 *
 * Freeing waits for all work of all devices first, so that no queued work reaches a new owner.
 *
 * Managed memory is the device's, too, in blocks of its own: the CPU reaches it in strict mode.
 *
 * In strict mode device memory is dark; then the engine zeroes units, before the new owner hears of
 * them, and a copy's staging memory is there before the first device memory is (memcpy.c).
 *
 * Withheld ranges: an alloc that was shared (a token or a DMA-buf of it exists or existed) and lies
 * in a shared block is retired in the kernel when it is freed. While somebody else can still reach
 * one of its pages its units stay taken, in a list of the block. The list is looked at again when
 * no other room is left and before the library would ask the kernel for more memory. A block whose
 * last alloc goes is destroyed at once: the kernel keeps shared memory for as long as it is shared.
 *
 * Locks: mem_lock for everything. It is held over system calls that make and destroy buffer
 * objects; lookups do not need it. Waiting for work is done without it.
 */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"
#include "ring.h"

#define HOST_LARGEST	(1ull << 40)	/* that the kernel knows */

struct withheld {
	struct withheld *next;
	unsigned int first, units;
};

struct lock mem_lock;

static struct alloc *free_allocs;	/* mem_lock */
static struct block *free_blocks;	/* mem_lock */
static uint64_t last_id;		/* atomic; of allocs and blocks of pools */
static uint64_t last_block_id;		/* mem_lock */

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

static struct block *block_get(void)
{
	struct block *block = free_blocks;

	if (!block)
		return calloc(1, sizeof(*block) + SLOT_UNITS * sizeof(block->unit[0]));
	free_blocks = block->next;
	block->next = NULL;
	return block;
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

static void block_unlink(struct block *block)
{
	if (!block->link)
		return;
	*block->link = block->next;
	if (block->next)
		block->next->link = block->link;
	block->link = NULL;
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

/* ---- blocks */

uint64_t mem_new_ids(unsigned int count)
{
	return __atomic_fetch_add(&last_id, count, __ATOMIC_RELAXED) + 1;
}

uint64_t mem_new_block_id(void)
{
	return ++last_block_id;
}

/* Give a block's memory and addresses back. Nothing points into it any more. */
static void block_destroy(struct block *block)
{
	block_unlink(block);
	vm_retract(block);
	vm_unmap(block->base, block->mapped, block->length);
	client_destroy_id(block->bo);
	while (block->withheld) {
		struct withheld *next = block->withheld->next;

		free(block->withheld);
		block->withheld = next;
	}
	store_release(&block->whole, NULL);
	memset(block->used, 0, sizeof(block->used));
	memset(block->dirty, 0, sizeof(block->dirty));
	block->next = free_blocks;
	free_blocks = block;
}

/* A block around a buffer object, which becomes the block's in any case. */
static CUresult block_make(struct block **made, CUdevice device, uint32_t bo, uint64_t mapped,
			   bool dark)
{
	struct block *block = block_get();
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	uint64_t length = round_up(mapped, SLOT);

	if (!block)
		goto destroy;
	store_relaxed(&block->base, vm_reserve(length));
	store_relaxed(&block->length, length);
	store_relaxed(&block->id, mem_new_block_id());
	store_relaxed(&block->bo, bo);
	store_relaxed(&block->device, device);
	block->mapped = mapped;
	block->dark = dark;
	block->allocs = 0;
	block->longest = SLOT_UNITS;
	if (!block->base)
		goto put;
	result = vm_map(block->base, mapped, bo, dark);
	if (result) {
		vm_release(block->base, length);
		goto put;
	}
	result = vm_publish(block);
	if (result) {
		vm_unmap(block->base, mapped, length);
		goto put;
	}
	*made = block;
	return CUDA_SUCCESS;

put:
	block->next = free_blocks;
	free_blocks = block;
destroy:
	client_destroy_id(bo);
	return result;
}

static CUresult bo_alloc(uint32_t *bo, CUdevice device, uint64_t length, const char *name,
			 uint32_t flags)
{
	struct gpumem_bo_alloc alloc = {
		.size = sizeof(alloc), .device = client.device[device].index, .length = length,
		.flags = flags & ALLOC_HOST ? GPUMEM_BO_ALLOC_HOST : 0,
	};
	int error;

	strncpy((char *)alloc.name, name, sizeof(alloc.name) - 1);
	error = client_ioctl(GPUMEM_BO_ALLOC, &alloc);
	*bo = alloc.id;
	return result_of_errno(error);
}

/* Whether the CPU cannot reach an allocation of a kind. */
static bool kind_dark(uint32_t flags)
{
	return client.strict && !(flags & (ALLOC_HOST | ALLOC_MANAGED));
}

static CUresult block_alloc(struct block **block, CUdevice device, uint64_t length, uint32_t flags)
{
	const char *name = length <= SLOT ? "shared" :
		flags & ALLOC_HIDDEN ? "array" :
		flags & ALLOC_HOST ? "cuMemHostAlloc" :
		flags & ALLOC_MANAGED ? "managed" : "cuMemAlloc";
	uint32_t bo;
	CUresult result = bo_alloc(&bo, device, length, name, flags);

	return result ? result : block_make(block, device, bo, length, kind_dark(flags));
}

/* ---- units of a shared block */

/* The first run of @want free units, or -1; remembers the longest run when there is none. */
static int units_find(struct block *block, unsigned int want)
{
	unsigned int unit = 0, run = 0, longest = 0;

	if (want > block->longest)
		return -1;
	while (unit < SLOT_UNITS) {
		uint64_t word = block->used[unit / 64] >> (unit % 64);
		bool used = word & 1;
		unsigned int left = 64 - unit % 64, same;

		/* How many units from here on are like this one, as far as this word goes. */
		word = used ? ~word : word;
		same = word ? (unsigned int)__builtin_ctzll(word) : left;
		same = same > left ? left : same;
		unit += same;
		run = used ? 0 : run + same;
		if (run > longest)
			longest = run;
		if (run >= want)
			return unit - run;
	}
	block->longest = longest;
	return -1;
}

static void units_set(uint64_t *map, unsigned int first, unsigned int count)
{
	unsigned int unit;

	for (unit = first; unit < first + count; unit++)
		map[unit / 64] |= 1ull << (unit % 64);
}

static void units_free(struct block *block, unsigned int first, unsigned int count)
{
	unsigned int unit;

	for (unit = first; unit < first + count; unit++)
		block->used[unit / 64] &= ~(1ull << (unit % 64));
	block->longest = SLOT_UNITS;
}

/* What an earlier owner left must not be seen. */
static CUresult units_scrub(struct block *block, unsigned int first, unsigned int count)
{
	unsigned int unit = first, from;
	CUresult result = CUDA_SUCCESS;

	while (!result && unit < first + count) {
		if (!(block->dirty[unit / 64] >> (unit % 64) & 1)) {
			unit++;
			continue;
		}
		from = unit;
		while (unit < first + count && block->dirty[unit / 64] >> (unit % 64) & 1)
			unit++;
		if (block->dark)
			result = strict_zero(block->device, block->base + from * UNIT,
					     (unit - from) * UNIT);
		else
			memset((void *)(uintptr_t)(block->base + from * UNIT), 0,
			       (unit - from) * UNIT);
	}
	return result;
}

/* ---- withheld ranges */

/* How many others can still reach the pages of a range of a buffer object. */
static unsigned int range_live(const struct block *block, uint64_t offset, uint64_t length,
			       unsigned int flags)
{
	struct gpumem_bo_retire retire = {
		.size = sizeof(retire), .id = block->bo, .offset = offset, .length = length,
		.flags = flags,
	};

	/* If the kernel cannot tell, somebody can. */
	return client_ioctl(GPUMEM_BO_RETIRE, &retire) ? 1 : retire.live;
}

/* Take back what nobody else can reach any more. */
static bool reclaim(struct block *list)
{
	struct block *block;
	bool got = false;

	for (block = list; block; block = block->next) {
		struct withheld **link = &block->withheld, *held;

		while ((held = *link)) {
			if (range_live(block, held->first * UNIT, held->units * UNIT,
				       GPUMEM_BO_RETIRE_QUERY)) {
				link = &held->next;
				continue;
			}
			units_free(block, held->first, held->units);
			*link = held->next;
			free(held);
			got = true;
		}
	}
	return got;
}

/* ---- allocation */

static struct block *shared_room(struct block *list, unsigned int units, int *first)
{
	struct block *block;

	for (block = list; block; block = block->next) {
		*first = units_find(block, units);
		if (*first >= 0)
			return block;
	}
	return NULL;
}

static CUresult alloc_shared(struct alloc *alloc, CUcontext ctx, uint64_t size, uint32_t flags)
{
	struct device *device = ctx_device(ctx);
	struct block **list = flags & ALLOC_HOST ? &device->shared_host :
		flags & ALLOC_MANAGED ? &device->shared_managed : &device->shared;
	unsigned int units = (size + UNIT - 1) / UNIT, i;
	CUresult result = CUDA_SUCCESS;
	struct block *block;
	int first = 0;

	block = shared_room(*list, units, &first);
	if (!block && reclaim(*list))
		block = shared_room(*list, units, &first);
	if (!block) {
		result = block_alloc(&block, ctx->device, SLOT, flags);
		if (result)
			return result;
		first = 0;
		block->next = *list;
		if (block->next)
			block->next->link = &block->next;
		block->link = list;
		*list = block;
	}
	result = units_scrub(block, first, units);
	if (result)
		return result;
	units_set(block->used, first, units);
	units_set(block->dirty, first, units);
	block->allocs++;
	alloc_set(alloc, ctx, block, block->base + first * UNIT, size, flags);
	if (flags & ALLOC_HIDDEN)
		return CUDA_SUCCESS;
	for (i = first; i < first + units; i++)
		store_release(&block->unit[i], alloc);
	return CUDA_SUCCESS;
}

static CUresult alloc_whole(struct alloc *alloc, CUcontext ctx, uint64_t size, uint32_t flags)
{
	uint64_t length = round_up(size, SLOT);
	struct block *block;
	CUresult result = block_alloc(&block, ctx->device, length, flags);

	if (result)
		return result;
	alloc_set(alloc, ctx, block, block->base, size, flags);
	if (!(flags & ALLOC_HIDDEN))
		store_release(&block->whole, alloc);
	return CUDA_SUCCESS;
}

static CUresult alloc_once(CUcontext ctx, struct alloc **made, uint64_t *ptr, uint64_t size,
			   uint32_t flags)
{
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	struct alloc *alloc;

	lock_take(&mem_lock);
	alloc = alloc_get();
	if (alloc) {
		result = size <= SLOT ? alloc_shared(alloc, ctx, size, flags) :
			alloc_whole(alloc, ctx, size, flags);
		if (result) {
			alloc_put(alloc);
		} else {
			*made = alloc;
			*ptr = alloc->base;
		}
	}
	lock_drop(&mem_lock);
	return result;
}

static CUresult alloc_in(CUcontext ctx, struct alloc **made, uint64_t *ptr, uint64_t size,
			 uint32_t flags)
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
	result = alloc_once(ctx, made, ptr, size, flags);
	if (result != CUDA_ERROR_OUT_OF_MEMORY)
		return result;
	/* What pools keep for later is wanted now. */
	pools_give_back(NULL);
	return alloc_once(ctx, made, ptr, size, flags);
}

CUresult mem_alloc_in(CUcontext ctx, uint64_t *ptr, uint64_t size, uint32_t flags)
{
	struct alloc *alloc;

	return alloc_in(ctx, &alloc, ptr, size, flags);
}

CUresult mem_alloc_hidden(CUcontext ctx, struct alloc **alloc, uint64_t *ptr, uint64_t size)
{
	return alloc_in(ctx, alloc, ptr, size, ALLOC_HIDDEN);
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
	if (addr && vm_map(addr, length, bo, false)) {
		vm_release(addr, round_up(length, SLOT));
		addr = 0;
	}
	lock_drop(&mem_lock);
	if (!addr)
		client_destroy_id(bo);
	return addr;
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

/* Let an alloc's units be used again, unless others reach them. */
static void free_shared(struct alloc *alloc, struct block *block, uint32_t flags)
{
	unsigned int first = (alloc->base - block->base) / UNIT;
	unsigned int units = (alloc->size + UNIT - 1) / UNIT;
	struct withheld *held;

	if (!--block->allocs) {
		block_destroy(block);
		return;
	}
	if (flags & ALLOC_EXPORTED && range_live(block, first * UNIT, units * UNIT, 0)) {
		held = malloc(sizeof(*held));
		/* Without memory for the note the units stay taken until the block goes. */
		if (held) {
			held->first = first;
			held->units = units;
			held->next = block->withheld;
			block->withheld = held;
		}
		return;
	}
	units_free(block, first, units);
}

/* mem_lock is held; no work that uses the memory is left. */
static void alloc_free(struct alloc *alloc)
{
	struct block *block = alloc->block;
	bool whole = !block->link;

	if (alloc->share)
		share_drop(alloc->share);
	if (load_relaxed(&alloc->flags) & ALLOC_MANAGED)
		managed_forget(alloc->base);
	alloc_hide(alloc);
	if (whole) {
		block_destroy(block);
	} else {
		free_shared(alloc, block, load_relaxed(&alloc->flags));
	}
	alloc_clear(alloc);
}

void mem_free_hidden(struct alloc *alloc)
{
	lock_take(&mem_lock);
	alloc_free(alloc);
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
	result = work_synchronize();
	lock_take(&mem_lock);
	/* Another thread may have freed it meanwhile. */
	if (alloc_found(ptr, id, &span))
		alloc_free(span.alloc);
	else
		result = CUDA_ERROR_INVALID_VALUE;
	lock_drop(&mem_lock);
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
static void late_free(void)
{
	struct late **link = &late, *l;

	while ((l = *link)) {
		if (!queue_reached(l->queue, l->value)) {
			link = &l->next;
			continue;
		}
		*link = l->next;
		if (l->alloc)
			alloc_free(l->alloc);
		free(l);
	}
}

/* Also if it was to be freed later; the context's work is done. */
static void alloc_free_now(struct alloc *alloc)
{
	struct late *l;

	for (l = late; l; l = l->next)
		if (l->alloc == alloc)
			l->alloc = NULL;
	alloc_free(alloc);
}

void mem_free_late(void)
{
	if (!load_relaxed(&late))
		return;
	lock_take(&mem_lock);
	late_free();
	lock_drop(&mem_lock);
}

CUresult mem_free_in(uint64_t ptr, CUstream stream)
{
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
	late_free();
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
		alloc_free(span.alloc);
	}
	lock_drop(&mem_lock);
	return result;
}

void mem_free_context(CUcontext ctx)
{
	lock_take(&mem_lock);
	while (ctx->allocs) {
		if (ctx->allocs->flags & ALLOC_IMPORTED)
			mem_drop_adopted(ctx->allocs);
		else if (ctx->allocs->flags & ALLOC_REGISTERED)
			host_drop(ctx->allocs);
		else
			alloc_free_now(ctx->allocs);
	}
	lock_drop(&mem_lock);
}

/* ---- memory of other processes and drivers */

CUresult mem_adopt(CUcontext ctx, CUdevice device, uint32_t bo, uint64_t length, uint64_t delta,
		   uint64_t bytes, struct share *share, uint32_t flags, uint64_t *ptr)
{
	struct alloc *alloc = alloc_get();
	struct block *block;
	CUresult result;

	if (!alloc) {
		client_destroy_id(bo);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	result = block_make(&block, device, bo, length, client.strict || flags & ALLOC_DARK);
	if (result) {
		alloc_put(alloc);
		return result;
	}
	alloc_set(alloc, ctx, block, block->base + delta, bytes, ALLOC_IMPORTED | flags);
	alloc->share = share;
	store_release(&block->whole, alloc);
	*ptr = alloc->base;
	return CUDA_SUCCESS;
}

void mem_drop_adopted(struct alloc *alloc)
{
	struct block *block = alloc->block;

	if (alloc->share)
		share_drop(alloc->share);
	store_release(&block->whole, NULL);
	block_destroy(block);
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
