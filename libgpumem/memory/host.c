// SPDX-License-Identifier: MIT
/*
 * Host memory: pinned allocations, and registrations of the program's own memory.
 *
 * Pinned memory is cut out of buffer objects like device memory (mem.c), but these lie in host memory.
 * Registered memory stays where it is: the kernel pins its pages as a buffer object, which the library maps for
 * the devices at the program's own addresses. The device pointer of host memory is always its host pointer.
 *
 * Registrations do not overlap in any byte, but may share pages. Each registration is an alloc in the list of
 * address/registered.c, and has a block of its own that holds the buffer object. That block has no units and is
 * not in the index of the arenas.
 *
 * Device registers and the like (CU_MEMHOSTREGISTER_IOMEMORY) have no pages that could be pinned. The kernel
 * does not know such registrations. The library only records their addresses, and the CPU makes their copies.
 *
 * Locks: mem_lock for changes. It is not held while pages are pinned or unpinned, which may take long.
 *
 * Vocabulary: registration, an alloc with ALLOC_REGISTERED.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/memory.h"

#define REGISTER_FLAGS	(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | \
			 CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)
#define ALLOC_FLAGS	(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | \
			 CU_MEMHOSTALLOC_WRITECOMBINED)

static struct block *free_registration_blocks;	/* mem_lock; without units */

/* ---- what the kernel says about addresses */

/* Whether all of a range is mapped, and no part of it is ordinary memory. */
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
 * Unmap and unpin pages. False: the devices' address space still has the mapping, which holds the pages, too;
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

/* Make a registration of pinned pages, or of registers if @bo is 0. mem_lock is held. */
static CUresult enter(CUcontext ctx, uint64_t life, uint32_t bo, uint64_t addr, uint64_t bytes,
		      uint32_t flags)
{
	struct block *block;
	struct alloc *alloc;

	/* A context that has ended would never free the alloc. */
	if (!ctx_lives_on(ctx, life))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	if (registered_any(addr, bytes))
		return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	if (!registered_room())
		return CUDA_ERROR_OUT_OF_MEMORY;
	alloc = alloc_get();
	if (!alloc)
		return CUDA_ERROR_OUT_OF_MEMORY;
	block = free_registration_blocks;
	if (block)
		free_registration_blocks = block->next;
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
	registered_add(alloc);
	return CUDA_SUCCESS;
}

/* Forget a registration; the pages are still pinned. mem_lock is held. */
static void leave(struct alloc *alloc)
{
	struct block *block = alloc->block;

	registered_remove(alloc);
	alloc_clear(alloc);
	block->next = free_registration_blocks;
	free_registration_blocks = block;
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
	/* Stale memory (vm.c) at these addresses would prevent the mapping. */
	vm_retry();
	if (registered_any(addr, bytes))
		result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
	lock_drop(&mem_lock);
	if (result)
		return result;
	if (kind & ALLOC_IO) {
		/* is_io() reads a file, which is a cancellation point. */
		cancel = cancel_disable();
		result = is_io(addr, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
		cancel_restore(cancel);
	} else {
		result = pin(&bo, addr, bytes, kind & ALLOC_READ_ONLY);
		/*
		 * The kernel checks its limit before it looks for memory at the address, so ask msync() whether
		 * there is memory. Call it directly: the C library's function is a cancellation point.
		 */
		if (result == CUDA_ERROR_OUT_OF_MEMORY &&
		    syscall(SYS_msync, addr - addr % PAGE, addr % PAGE + bytes, MS_ASYNC))
			result = CUDA_ERROR_INVALID_VALUE;
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

	/* No current context is needed, but a destroyed one is an error. */
	if (ctx_top() && ctx_current_any(&ctx))
		return CUDA_ERROR_CONTEXT_IS_DESTROYED;
	if (!addr)
		return CUDA_ERROR_INVALID_VALUE;
	if (!vm_lookup(addr, &span))
		return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
	if (!(span.flags & ALLOC_REGISTERED) || span.base != addr)
		return CUDA_ERROR_INVALID_VALUE;
	id = span.id;
	if (!work_finish(&result))
		return result;
	lock_take(&mem_lock);
	/* Another thread may have unregistered the memory before the lock was taken. */
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

/* Whether a range has a page without a mapping. A system call, because msync() is a cancellation point. */
static bool has_hole(uint64_t from, uint64_t end)
{
	return syscall(SYS_msync, from, end - from, MS_ASYNC) && errno == ENOMEM;
}

/* Map the holes of a range of a block again. mem_lock is held. */
static void mend(const struct block *block, uint64_t from, uint64_t end)
{
	uint64_t middle = from + (end - from) / PAGE / 2 * PAGE;

	if (!has_hole(from, end))
		return;
	/* Another thread may get some of the addresses meanwhile: it keeps them. */
	if (mmap((void *)(uintptr_t)from, end - from, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE,
		 client.fd, GPUMEM_MMAP_OFFSET(block->bo) + from - block->base) != MAP_FAILED ||
	    errno != EEXIST || middle == from)
		return;
	/* Part of it is mapped. */
	mend(block, from, middle);
	mend(block, middle, end);
}

bool host_mend_alloc(const struct alloc *alloc)
{
	uint32_t flags = load_relaxed(&alloc->flags);
	uint64_t from = alloc->base & ~(PAGE - 1);
	uint64_t end = round_up(alloc->base + alloc->size + red_zone(flags), PAGE);

	if (!(flags & ALLOC_HOST) || !has_hole(from, end))
		return false;
	mend(alloc->block, from, end);
	return true;
}

void host_mend(uint64_t addr)
{
	struct span span;

	/* The lock keeps the memory: another thread may end its context. */
	lock_take(&mem_lock);
	if (vm_lookup(addr, &span) && span.flags & ALLOC_HOST && !span.pool)
		host_mend_alloc(span.alloc);
	lock_drop(&mem_lock);
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
	/* As recorded, host memory of a pool is none that cuMemHostAlloc() made. */
	if (flags || !vm_lookup((uintptr_t)host, &span) || span_pool_host(&span) ||
	    !(span.flags & (ALLOC_ANY_HOST | ALLOC_MAPPED)))
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
	if (!flags || !vm_lookup((uintptr_t)host, &span) || span_pool_host(&span) ||
	    !(span.flags & (ALLOC_ANY_HOST | ALLOC_MANAGED)))
		return CUDA_ERROR_INVALID_VALUE;
	*flags = CU_MEMHOSTALLOC_DEVICEMAP;
	if ((span.flags & ALLOC_PORTABLE) && span.ctx == ctx)
		*flags |= CU_MEMHOSTALLOC_PORTABLE;
	if (span.flags & ALLOC_WRITECOMBINED)
		*flags |= CU_MEMHOSTALLOC_WRITECOMBINED;
	return CUDA_SUCCESS;
}
