// SPDX-License-Identifier: MIT
/*
 * DMA-bufs: file descriptors by which other drivers reach device memory and, through a function that CUDA does
 * not have, pinned and registered host memory. This file exports them; ipc.c imports them.
 *
 * Owns nothing: the kernel's DMA-buf keeps the memory alive when the alloc is freed, and pinned
 * when it is unregistered. From its first export on an alloc is marked as exported, so that the
 * library does not touch it inline and does not give its units to a new owner before the last
 * DMA-buf is gone (block.c).
 *
 * A range is whole pages. As on an H200, a range of device memory begins in an alloc, or before an alloc of the
 * same block that it contains as a whole. It may go over the alloc's end, over everything else in the block, and
 * into the blocks and mappings that follow, if they are device memory of this process too. All allocs that it
 * touches are marked, and free units in it are withheld.
 *
 * Some memory is exported alloc by alloc, up to the page boundary behind its last byte: memory of pools, pinned
 * host memory, and memory that was imported by a DMA-buf. Registered memory has the program's other data around it,
 * so only pages that are registered as a whole are exported. Arrays are in blocks of their own (mem.c), which no
 * range reaches.
 *
 * The kernel looks a range of mapped memory (memory/vmm.c) up and makes one DMA-buf of it, so an unmap by another
 * thread happens before the export or after it. The library never touches mapped memory inline, so it notes
 * nothing.
 *
 * Locks: mem_lock from the lookup to the export; none for a range of mapped memory alone.
 *
 * Vocabulary: part, the memory of a range that one block or mapping has.
 */
#include "share/share.h"

/* ---- ranges of device memory */

/* Whether memory can be exported as device memory. */
static bool span_exports(const struct span *span)
{
	return !(span->flags & (ALLOC_ANY_HOST | ALLOC_MANAGED | ALLOC_EXTERNAL)) &&
	       (!(span->flags & ALLOC_IMPORTED) || span->flags & ALLOC_DMABUF);
}

/* Whether a range may go from the part into the next one, or from another part into this one. */
static bool span_continues(const struct span *span)
{
	return !span->pool && !(span->flags & ALLOC_IMPORTED);
}

/* The end of a part. */
static uint64_t part_end(const struct span *span)
{
	if (!span_continues(span))
		return round_up(span->base + span->size, PAGE);
	return span->flags & ALLOC_MAPPED ? span->base + span->size :
					    span->block_base + span->block_length;
}

/*
 * Find the alloc that lets a part of a range begin at an address: the one that contains the address, or else the
 * first one behind it in the block, if the range contains all of that. mem_lock is held.
 */
static bool part_find(uint64_t addr, uint64_t end, struct span *span)
{
	struct alloc *alloc = NULL;
	struct block *block;
	unsigned int unit;

	if (vm_lookup(addr, span))
		return true;
	block = addr >> ADDRESS_BITS ? NULL : vm_block(addr);
	/* Only shared blocks are in a list. */
	if (!block || !block->link)
		return false;
	for (unit = (addr - block->base) / UNIT; !alloc && unit < SLOT_UNITS; unit++)
		alloc = load_relaxed(&block->unit[unit]);
	return alloc && vm_lookup(alloc->base, span) && span->base + span->size <= end;
}

/* Check a range; *@span is its first part. mem_lock is held. */
static bool range_find(uint64_t addr, uint64_t end, struct span *span)
{
	struct span next;
	uint64_t at;

	if (!part_find(addr, end, span) || !span_exports(span))
		return false;
	for (at = part_end(span); at < end; at = part_end(&next))
		if (!span_continues(span) || !part_find(at, at + SLOT, &next) ||
		    !span_exports(&next) || !span_continues(&next) || next.device != span->device)
			return false;
	return true;
}

/* Mark what a part of a block has between two addresses. False: as for units_expose(). mem_lock is held. */
static bool part_mark(struct block *block, uint64_t from, uint64_t to, bool *held)
{
	struct alloc *whole = load_relaxed(&block->whole);

	if (!whole)
		return units_expose(block, (from - block->base) / UNIT, (to - from) / UNIT, held);
	__atomic_fetch_or(&whole->flags, ALLOC_EXPORTED, __ATOMIC_SEQ_CST);
	return true;
}

/* Mark everything in a range that range_find() has checked. mem_lock is held. */
static bool range_mark(uint64_t addr, uint64_t end, const struct span *span, bool *held)
{
	uint64_t at, to;

	if (span->pool) {
		__atomic_fetch_or(span->marks, ALLOC_EXPORTED, __ATOMIC_SEQ_CST);
		return true;
	}
	for (at = addr; at < end; at = to) {
		struct block *block = vm_block(at);

		to = block->base + block->length < end ? block->base + block->length : end;
		if (!part_mark(block, at, to, held))
			return false;
	}
	return true;
}

/* ---- exports */

/* Export a part of a buffer object. */
static CUresult export_part(int *fd, uint32_t bo, uint64_t offset, uint64_t size)
{
	struct gpumem_bo_export export = {
		.size = sizeof(export), .id = bo, .offset = offset, .length = size,
		.flags = GPUMEM_BO_EXPORT_CLOEXEC,
	};
	CUresult result = result_of_errno(client_ioctl(GPUMEM_BO_EXPORT, &export));

	if (!result)
		*fd = export.fd;
	return result;
}

/* Export what the devices' address space has in a range. */
static CUresult export_addresses(int *fd, uint64_t addr, uint64_t size)
{
	struct gpumem_vm_export export = {
		.size = sizeof(export), .vm = client.vm, .addr = addr, .length = size,
		.flags = GPUMEM_BO_EXPORT_CLOEXEC,
	};
	CUresult result = result_of_errno(client_ioctl(GPUMEM_VM_EXPORT, &export));

	if (!result)
		*fd = export.fd;
	return result;
}

/* Both are page aligned, @size is not 0. mem_lock is held, and may be dropped in between. */
static CUresult export_range(int *fd, uint64_t ptr, uint64_t size, bool *held)
{
	struct span span;
	uint64_t end;

	do {
		if (__builtin_add_overflow(ptr, size, &end) || !range_find(ptr, end, &span))
			return CUDA_ERROR_INVALID_VALUE;
	} while (!range_mark(ptr, end, &span, held));
	if (span.flags & ALLOC_MAPPED || end > part_end(&span))
		return export_addresses(fd, ptr, size);
	return export_part(fd, span.bo, ptr - span.block_base, size);
}

/* Export host memory. Both are page aligned, @size is not 0. mem_lock is held, and may be dropped in between. */
static CUresult export_host_range(int *fd, uint64_t ptr, uint64_t size, bool *held)
{
	struct span span;
	uint64_t end, base;

	do {
		if (!vm_lookup(ptr, &span) || !(span.flags & ALLOC_ANY_HOST))
			return CUDA_ERROR_INVALID_VALUE;
		/* Importers may write. */
		if (span.flags & ALLOC_READ_ONLY)
			return CUDA_ERROR_NOT_PERMITTED;
		/* Registers of devices have no pages. */
		if (span.flags & ALLOC_IO)
			return CUDA_ERROR_NOT_SUPPORTED;
		end = span.base + span.size;
		if (!(span.flags & ALLOC_REGISTERED))
			end = round_up(end, PAGE);
		if (size > end - ptr)
			return CUDA_ERROR_INVALID_VALUE;
		__atomic_fetch_or(span.marks, ALLOC_EXPORTED, __ATOMIC_SEQ_CST);
	} while (span.alloc && !(span.flags & ALLOC_REGISTERED) &&
		 !part_mark(span.alloc->block, ptr, ptr + size, held));
	base = span.flags & ALLOC_REGISTERED ? span.base : span.block_base;
	return export_part(fd, span.bo, ptr - base, size);
}

CUresult dmabuf_export(int *fd, uint64_t ptr, uint64_t size, int type, unsigned long long flags)
{
	CUresult result = CUDA_SUCCESS;
	struct span span;
	bool held = false;
	CUcontext ctx;

	result = ctx_current(&ctx);
	if (result)
		return result;
	if (type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD)
		return CUDA_ERROR_INVALID_VALUE;
	*fd = -1;
	if (flags)
		return CUDA_ERROR_NOT_SUPPORTED;
	if (vm_lookup(ptr, &span) && span.flags & ALLOC_MAPPED && span_exports(&span) &&
	    vmm_mapped(&span, ptr, size))
		return export_addresses(fd, ptr, size);
	lock_take(&mem_lock);
	result = export_range(fd, ptr, size, &held);
	if (held)
		clear_go();
	lock_drop(&mem_lock);
	return result;
}

CUresult dmabuf_export_host(int *fd, uint64_t ptr, uint64_t size, unsigned int flags)
{
	bool held = false;
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);

	if (result)
		return result;
	if (!fd)
		return CUDA_ERROR_INVALID_VALUE;
	*fd = -1;
	if (!ptr || !size || (ptr | size) % PAGE || flags)
		return CUDA_ERROR_INVALID_VALUE;
	lock_take(&mem_lock);
	result = export_host_range(fd, ptr, size, &held);
	if (held)
		clear_go();
	lock_drop(&mem_lock);
	return result;
}
