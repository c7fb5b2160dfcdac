/* SPDX-License-Identifier: MIT */
/*
 * The index of device addresses, and the check that copies make first: is the memory plain? vm.c owns the index
 * and writes it under mem_lock. It is read without a lock.
 *
 * Vocabulary: leaf, the blocks of 2^LEAF_BITS slots; plain, device memory without attributes that only this
 * process reaches.
 */
#ifndef GPUMEM_ADDRESS_PLAIN_H
#define GPUMEM_ADDRESS_PLAIN_H

#include "address/vm.h"

/* Bits of alloc->head: the lowest of seq, all of flags. */
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ALLOC_HEAD_NOT_PLAIN	0xffffffff00000001ull
#define ALLOC_HEAD_ODD		0x0000000000000001ull
#define alloc_head_flags(head)	((uint32_t)((head) >> 32))
#else
#define ALLOC_HEAD_NOT_PLAIN	0x00000001ffffffffull
#define ALLOC_HEAD_ODD		0x0000000100000000ull
#define alloc_head_flags(head)	((uint32_t)(head))
#endif

/* The alloc at an address in a block, or NULL; not a pool's. */
static inline struct alloc *vm_alloc_at(struct block *block, uint64_t addr)
{
	/* A pool's block points at vm_special, an alloc that is not plain. */
	struct alloc *alloc = load_acquire(&block->whole);

	return alloc ? alloc : load_acquire(&block->unit[addr % SLOT / UNIT]);
}

/*
 * Whether @length bytes from an address below 1 << ADDRESS_BITS are plain. False means that the caller must use
 * vm_lookup().
 */
static inline bool vm_plain(uint64_t addr, uint64_t length)
{
	struct block *block = vm_block(addr);
	struct alloc *alloc;
	uint64_t head, base, size;

	if (unlikely(!block))
		return false;
	alloc = vm_alloc_at(block, addr);
	if (unlikely(!alloc))
		return false;
	head = load_acquire(&alloc->head);
	/* An odd count: the alloc changes. */
	if (unlikely(head & ALLOC_HEAD_NOT_PLAIN))
		return false;
	base = load_relaxed(&alloc->base);
	size = load_relaxed(&alloc->size);
	fence_acquire();
	/* The head changed: the fields may not belong together. */
	if (unlikely(load_relaxed(&alloc->head) != head))
		return false;
	return length <= size && addr - base <= size - length;
}

#endif /* GPUMEM_ADDRESS_PLAIN_H */
