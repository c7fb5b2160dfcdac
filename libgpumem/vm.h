/* SPDX-License-Identifier: MIT */
/*
 * The index of device addresses, and the question that copies ask first: is this memory of ours
 * with nothing special about it?  vm.c owns the index and writes it under mem_lock; it is read
 * without a lock.
 *
 * Vocabulary: leaf, the blocks of 2^LEAF_BITS slots; plain, device memory that nobody outside the
 * process reaches, without attributes.
 */
#ifndef GPUMEM_VM_H
#define GPUMEM_VM_H

#include "internal.h"

/* Bits of alloc->head: the lowest of seq, all of flags. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ALLOC_HEAD_NOT_PLAIN	0xffffffff00000001ull
#else
#define ALLOC_HEAD_NOT_PLAIN	0x00000001ffffffffull
#endif

/*
 * Whether @length bytes from an address below 1 << ADDRESS_BITS are plain. False means that it takes
 * a longer look.
 */
static inline bool vm_plain(uint64_t addr, uint64_t length)
{
	struct block *block = vm_block(addr);
	struct alloc *alloc;
	uint64_t head, base, size;

	if (unlikely(!block))
		return false;
	/* A pool's block says that it is of an alloc that is not plain. */
	alloc = load_acquire(&block->whole);
	if (!alloc)
		alloc = load_acquire(&block->unit[addr % SLOT / UNIT]);
	if (unlikely(!alloc))
		return false;
	head = load_acquire(&alloc->head);
	base = load_relaxed(&alloc->base);
	size = load_relaxed(&alloc->size);
	fence_acquire();
	/* Changed, or odd: whatever was read means nothing. */
	if (unlikely(load_relaxed(&alloc->head) != head) || unlikely(head & ALLOC_HEAD_NOT_PLAIN))
		return false;
	return length <= size && addr - base <= size - length;
}

#endif /* GPUMEM_VM_H */
