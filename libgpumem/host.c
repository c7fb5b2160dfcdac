// SPDX-License-Identifier: MIT
/*
 * Host memory: pinned allocations, and registrations of the program's own memory.
 *
 * Pinned memory is cut out of buffer objects like device memory (mem.c), of a kind that lies
 * outside the device. Registered memory stays where it is: the kernel pins its pages as a buffer
 * object, and that is mapped for the devices at the addresses that the program knows. The device
 * pointer of host memory is always its host pointer.
 *
 * Owns the list of registrations: an array of pointers to allocs sorted by address. Registrations
 * do not overlap in any byte, but may share pages. Each has a block of its own that bears the
 * buffer object; that block has no units and is not in the index of the arenas.
 *
 * Lookups read the array without a lock: list_seq is odd while it changes. A lookup that finds it
 * so tries a bounded number of times, and then takes change_lock, which is held meanwhile. An array
 * that became too short is replaced by one of twice the length and never freed, for there may be
 * readers.
 *
 * Device registers and the like (CU_MEMHOSTREGISTER_IOMEMORY) have no pages that could be pinned.
 * The kernel does not hear of them: their registration only tells where they are, and the CPU
 * copies them.
 *
 * Locks: mem_lock for changes. Pages are pinned and let go without it, which may take long.
 *
 * Vocabulary: registration, an alloc with ALLOC_REGISTERED.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

#define REGISTER_FLAGS	(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | \
			 CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)
#define ALLOC_FLAGS	(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | \
			 CU_MEMHOSTALLOC_WRITECOMBINED)

static struct alloc **list;		/* mem_lock; entries and pointer atomic */
static uint64_t list_count;		/* mem_lock; atomic */
static uint64_t list_room;		/* mem_lock */
static uint32_t list_seq;		/* atomic */
static struct block *free_blocks;	/* mem_lock; without units */

/* ---- the list */

/* The number of registrations that begin at or below an address, by what the reader sees now. */
static uint64_t list_find(struct alloc *const *array, uint64_t count, uint64_t addr)
{
	uint64_t low = 0, high = count;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (load_relaxed(&load_relaxed(&array[middle])->base) <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* One look; CHANGING if what was read does not belong together. */
static enum found look(uint64_t addr, struct span *span)
{
	uint32_t seq = load_acquire(&list_seq);
	uint64_t count = load_acquire(&list_count), found;
	struct alloc *alloc = NULL;
	struct alloc **array;
	bool read = false;

	if (!count)
		return NOTHING;
	if (seq & 1)
		return CHANGING;
	/*
	 * The count is stored after the array that has room for it, and arrays do not shrink: what
	 * is read may be stale, but it is there.
	 */
	array = load_acquire(&list);
	found = list_find(array, count, addr);
	if (found) {
		alloc = load_relaxed(&array[found - 1]);
		read = alloc_read(alloc, span);
	}
	fence_acquire();
	if (load_relaxed(&list_seq) != seq || (alloc && !read))
		return CHANGING;
	return alloc && addr - span->base < span->size ? FOUND : NOTHING;
}

static __attribute__((noinline)) bool look_again(uint64_t addr, struct span *span)
{
	enum found found = look(addr, span);
	unsigned int tries;

	for (tries = 1; found == CHANGING && tries < LOOKUP_TRIES; tries++)
		found = look(addr, span);
	while (found == CHANGING) {
		lock_take(&change_lock);
		found = look(addr, span);
		lock_drop(&change_lock);
	}
	return found == FOUND;
}

bool host_lookup(uint64_t addr, struct span *span)
{
	enum found found = look(addr, span);

	return unlikely(found == CHANGING) ? look_again(addr, span) : found == FOUND;
}

static void list_begin(void)
{
	lock_take(&change_lock);
	store_relaxed(&list_seq, list_seq + 1);
	fence_release();
}

static void list_end(void)
{
	store_release(&list_seq, list_seq + 1);
	lock_drop(&change_lock);
}

static bool list_make_room(void)
{
	uint64_t room = list_room ? 2 * list_room : 64, i;
	struct alloc **array;

	if (list_count < list_room)
		return true;
	array = calloc(room, sizeof(*array));
	if (!array)
		return false;
	for (i = 0; i < list_count; i++)
		store_relaxed(&array[i], list[i]);
	/* The old one may have readers. */
	store_release(&list, array);
	list_room = room;
	return true;
}

/* There is room. mem_lock is held. */
static void list_add(struct alloc *alloc)
{
	uint64_t at = list_find(list, list_count, alloc->base), i;

	list_begin();
	/* A reader that has the new count must not find an empty last entry. */
	store_relaxed(&list[list_count], alloc);
	for (i = list_count; i > at; i--)
		store_relaxed(&list[i], list[i - 1]);
	store_relaxed(&list[at], alloc);
	store_release(&list_count, list_count + 1);
	list_end();
}

static void list_remove(struct alloc *alloc)
{
	uint64_t i = list_find(list, list_count, alloc->base) - 1;

	list_begin();
	for (; i + 1 < list_count; i++)
		store_relaxed(&list[i], list[i + 1]);
	store_release(&list_count, list_count - 1);
	list_end();
}

/* Whether a byte of the range is registered. mem_lock is held. */
static bool list_overlaps(uint64_t addr, uint64_t bytes)
{
	uint64_t below = list_find(list, list_count, addr + bytes - 1);

	return below && list[below - 1]->base + list[below - 1]->size > addr;
}

/* ---- what the kernel says about addresses */

/* Whether all of a range is mapped, and nothing of it is memory. */
static bool is_io(uint64_t addr, uint64_t bytes)
{
	uint64_t start = 0, end = 0, covered = addr;
	FILE *maps = fopen("/proc/self/smaps", "re");
	char line[512];
	bool io = true;

	if (!maps)
		return false;
	while (io && covered < addr + bytes && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " ", &start, &end) == 2)
			continue;
		if (strncmp(line, "VmFlags:", 8) || end <= covered)
			continue;
		io = start <= covered && (strstr(line, " io") || strstr(line, " pf"));
		covered = end;
	}
	fclose(maps);
	return io && covered >= addr + bytes;
}

static CUresult pin(uint32_t *bo, uint64_t addr, uint64_t bytes, bool readonly)
{
	struct gpumem_bo_pin cmd = {
		.size = sizeof(cmd), .addr = addr, .length = bytes,
		.flags = readonly ? GPUMEM_BO_PIN_RDONLY : 0,
	};
	struct gpumem_vm_map map = {
		.size = sizeof(map), .vm = client.vm, .addr = addr, .length = bytes,
		.readers = client.access, .writers = readonly ? 0 : client.access,
	};
	int error = client_ioctl(GPUMEM_BO_PIN, &cmd);

	if (error == EEXIST)
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	if (error == EFAULT)
		return CUDA_ERROR_INVALID_VALUE;
	if (error)
		return result_of_errno(error);
	map.bo = cmd.id;
	error = client_ioctl(GPUMEM_VM_MAP, &map);
	if (error) {
		client_destroy_id(cmd.id);
		return result_of_errno(error);
	}
	*bo = cmd.id;
	return CUDA_SUCCESS;
}

/*
 * The mapping holds the pages, too: false if they are still in the devices' address space, and
 * vm_unmap_later() must follow.
 */
static bool unpin(uint32_t bo, uint64_t addr, uint64_t bytes)
{
	bool out = vm_unmap_host(addr, bytes);

	client_destroy_id(bo);
	return out;
}

static void unpin_unlocked(uint32_t bo, uint64_t addr, uint64_t bytes)
{
	if (unpin(bo, addr, bytes))
		return;
	lock_take(&mem_lock);
	vm_unmap_later(addr, bytes);
	lock_drop(&mem_lock);
}

/* ---- registration */

/* Make pinned pages, or registers if @bo is 0, known. mem_lock is held. */
static CUresult enter(CUcontext ctx, uint64_t life, uint32_t bo, uint64_t addr, uint64_t bytes,
		      uint32_t flags)
{
	struct block *block;
	struct alloc *alloc;

	/* What is added from now on, the end of the context would not take back. */
	if (!ctx_lives_on(ctx, life))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	if (list_overlaps(addr, bytes))
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	if (!list_make_room())
		return CUDA_ERROR_OUT_OF_MEMORY;
	alloc = alloc_get();
	if (!alloc)
		return CUDA_ERROR_OUT_OF_MEMORY;
	block = free_blocks;
	if (block)
		free_blocks = block->next;
	else
		block = calloc(1, sizeof(*block));
	if (!block) {
		alloc_put(alloc);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	store_relaxed(&block->base, addr & ~(PAGE - 1));
	store_relaxed(&block->length, round_up(addr + bytes, PAGE) - block->base);
	store_relaxed(&block->id, mem_new_block_id());
	store_relaxed(&block->bo, bo);
	store_relaxed(&block->device, ctx->device);
	alloc_set(alloc, ctx, block, addr, bytes, flags);
	list_add(alloc);
	return CUDA_SUCCESS;
}

/* Forget a registration; the pages are still pinned. mem_lock is held. */
static void leave(struct alloc *alloc)
{
	struct block *block = alloc->block;

	list_remove(alloc);
	alloc_clear(alloc);
	block->next = free_blocks;
	free_blocks = block;
}

void host_drop(struct alloc *alloc)
{
	uint64_t addr = alloc->base, bytes = alloc->size;
	uint32_t bo = alloc->block->bo;

	leave(alloc);
	if (!bo)
		return;
	lock_drop(&mem_lock);
	unpin_unlocked(bo, addr, bytes);
	lock_take(&mem_lock);
}

static CUresult register_checked(CUcontext ctx, uint64_t addr, uint64_t bytes, unsigned int flags)
{
	uint32_t kind = ALLOC_REGISTERED, bo = 0;
	CUresult result = CUDA_SUCCESS;
	uint64_t life = ctx_life(ctx);
	int cancel;

	if (flags & CU_MEMHOSTREGISTER_PORTABLE)
		kind |= ALLOC_PORTABLE;
	if (flags & CU_MEMHOSTREGISTER_READ_ONLY)
		kind |= ALLOC_READ_ONLY;
	if (flags & CU_MEMHOSTREGISTER_IOMEMORY)
		kind |= ALLOC_IO;
	lock_take(&mem_lock);
	/* Stale memory at these addresses would be in the way. */
	vm_retry();
	if (list_overlaps(addr, bytes))
		result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	lock_drop(&mem_lock);
	if (result)
		return result;
	if (kind & ALLOC_IO) {
		/* It reads a file. */
		cancel = cancel_disable();
		result = is_io(addr, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
		cancel_restore(cancel);
	} else {
		result = pin(&bo, addr, bytes, kind & ALLOC_READ_ONLY);
	}
	if (result)
		return result;
	lock_take(&mem_lock);
	result = enter(ctx, life, bo, addr, bytes, kind);
	lock_drop(&mem_lock);
	if (result && bo)
		unpin_unlocked(bo, addr, bytes);
	return result;
}

CUresult host_register(void *ptr, uint64_t bytes, unsigned int flags)
{
	uint64_t addr = (uintptr_t)ptr, end;
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);

	if (result)
		return result;
	if (!addr || !bytes || flags & ~REGISTER_FLAGS ||
	    __builtin_add_overflow(addr, bytes, &end) || vm_touches(addr, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	return register_checked(ctx, addr, bytes, flags);
}

CUresult host_unregister(void *ptr)
{
	uint64_t addr = (uintptr_t)ptr, id, bytes = 0;
	CUresult result;
	struct span span;
	CUcontext ctx;
	uint32_t bo = 0;

	/* No context is needed, but one that is gone is an error. */
	if (ctx_top() && ctx_current_any(&ctx))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	if (!addr)
		return CUDA_ERROR_INVALID_VALUE;
	if (!vm_lookup(addr, &span))
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	if (!(span.flags & ALLOC_REGISTERED) || span.base != addr)
		return CUDA_ERROR_INVALID_VALUE;
	id = span.id;
	result = work_synchronize();
	lock_take(&mem_lock);
	/* Another thread may have done it meanwhile. */
	if (vm_lookup(addr, &span) && span.id == id) {
		bo = span.bo;
		bytes = span.size;
		leave(span.alloc);
	} else {
		result = CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	}
	lock_drop(&mem_lock);
	if (bo)
		unpin_unlocked(bo, addr, bytes);
	return result;
}

/* ---- pinned memory, and questions */

CUresult host_alloc(void **ptr, uint64_t bytes, unsigned int flags)
{
	uint32_t kind = ALLOC_HOST;
	uint64_t addr = 0;
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);

	if (result)
		return result;
	if (!ptr)
		return CUDA_ERROR_INVALID_VALUE;
	*ptr = NULL;
	if (flags & ~ALLOC_FLAGS)
		return CUDA_ERROR_INVALID_VALUE;
	if (!bytes)
		return CUDA_SUCCESS;
	if (flags & CU_MEMHOSTALLOC_PORTABLE)
		kind |= ALLOC_PORTABLE;
	if (flags & CU_MEMHOSTALLOC_WRITECOMBINED)
		kind |= ALLOC_WRITECOMBINED;
	result = mem_alloc_in(ctx, &addr, bytes, kind);
	if (!result)
		*ptr = (void *)(uintptr_t)addr;
	return result;
}

CUresult host_pointer(uint64_t *ptr, const void *host, unsigned int flags)
{
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);
	struct span span;

	if (result)
		return result;
	if (!ptr)
		return CUDA_ERROR_INVALID_VALUE;
	*ptr = 0;
	if (flags || !vm_lookup((uintptr_t)host, &span) || !(span.flags & ALLOC_ANY_HOST))
		return CUDA_ERROR_INVALID_VALUE;
	*ptr = (uintptr_t)host;
	return CUDA_SUCCESS;
}

CUresult host_flags(unsigned int *flags, const void *host)
{
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);
	struct span span;

	if (result)
		return result;
	if (!flags || !vm_lookup((uintptr_t)host, &span) ||
	    !(span.flags & (ALLOC_ANY_HOST | ALLOC_MANAGED)))
		return CUDA_ERROR_INVALID_VALUE;
	*flags = CU_MEMHOSTALLOC_DEVICEMAP;
	if ((span.flags & ALLOC_PORTABLE) && span.ctx == ctx)
		*flags |= CU_MEMHOSTALLOC_PORTABLE;
	if (span.flags & ALLOC_WRITECOMBINED)
		*flags |= CU_MEMHOSTALLOC_WRITECOMBINED;
	return CUDA_SUCCESS;
}
