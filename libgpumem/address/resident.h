/* SPDX-License-Identifier: MIT */
/*
 * Which blocks of managed memory the kernel shows as resident (uapi, GPUMEM_MMAP_RESIDENT). resident.c maps the
 * words; they are read without a lock.
 *
 * The pages of a resident block exist, and an entry would move nothing. So the calling thread may do the entry's work.
 */
#ifndef GPUMEM_ADDRESS_RESIDENT_H
#define GPUMEM_ADDRESS_RESIDENT_H

#include "address/plain.h"

extern HIDDEN const uint64_t *resident_words;	/* NULL if there are none; atomic, written once */

/*
 * A slot whose movable memory belongs to one alloc, of a block of its own. So slot_has() reads neither the block nor
 * the alloc. The slot of an address is at its number modulo RESIDENT_SLOTS. A slot whose place is taken has none.
 */
struct resident_slot {
	uint64_t last;			/* address of the alloc's last byte in the slot, or 0: free; atomic */
	const uint64_t *word;		/* the residency word of the slot's block; atomic */
	uint64_t tag;			/* what the word contains, less the block's resident_place(); atomic */
} __attribute__((aligned(32)));

#define RESIDENT_SLOTS	LEAF_SLOTS

extern HIDDEN struct resident_slot resident_slots[RESIDENT_SLOTS];	/* mem_lock to write */

/* Map the words. The process has made managed memory. */
void resident_map(void);
/* Enter the slots of a block, whose only alloc has @size bytes. mem_lock is held, also for the next. */
void resident_publish(const struct block *block, uint64_t size);
/* Take them out again, before the alloc is freed. */
void resident_retract(const struct block *block);

/* resident_at() for a range from @offset to @last in a buffer object. */
static inline unsigned int resident_place(uint32_t bo, uint64_t offset, uint64_t last)
{
	const uint64_t *words = load_acquire(&resident_words);
	uint64_t first = offset / GPUMEM_MANAGED_BLOCK, place;

	last /= GPUMEM_MANAGED_BLOCK;
	if (!words || last - first > 1)
		return 0;
	/* The index + 1, if the word is that of the first block. */
	place = load_relaxed(&words[GPUMEM_RESIDENT_WORD(bo, first)]) - GPUMEM_RESIDENT_TAG(bo, first, 0) + 1;
	if (place > GPUMEM_MAX_DEVICES ||
	    (first != last && load_relaxed(&words[GPUMEM_RESIDENT_WORD(bo, last)]) !=
			GPUMEM_RESIDENT_TAG(bo, last, place - 1)))
		return 0;
	return place;
}

/*
 * The device on which a range of movable memory is shown as resident: its index in the client + 1. 0: the range may
 * be elsewhere, or is in more than two of the kernel's blocks. The range is in the span's alloc, and not empty.
 */
static inline unsigned int resident_at(const struct span *span, uint64_t addr, uint64_t length)
{
	uint64_t offset = addr - span->block_base;

	return resident_place(span->bo, offset, offset + length - 1);
}

static inline struct resident_slot *resident_slot(uint64_t addr)
{
	return &resident_slots[(addr >> SLOT_SHIFT) % RESIDENT_SLOTS];
}

/*
 * Whether a range lies in @slot, which resident_slot() found. False: the range is empty, or the caller must use vm_near().
 */
static inline bool slot_has(const struct resident_slot *slot, uint64_t addr, uint64_t length)
{
	uint64_t left = load_acquire(&slot->last) - addr;

	/* The first comparison suffices to tell slots apart: those at one place are far from each other. */
	return left < SLOT && length - 1 <= left;
}

/* Whether the slot's block is resident. @place: of a context. */
static inline bool slot_resident(const struct resident_slot *slot, uint64_t place)
{
	return load_relaxed(load_relaxed(&slot->word)) - load_relaxed(&slot->tag) == place;
}

/*
 * vm_plain() that also accepts movable memory that is resident at @place, a context's. The range is not empty. False
 * means that the caller must use vm_lookup().
 */
static inline bool vm_near(uint64_t addr, uint64_t length, uint64_t place)
{
	const uint32_t managed = ALLOC_MANAGED | ALLOC_SYNC_MEMOPS | ALLOC_MOVABLE;
	struct block *block = vm_block(addr);
	uint64_t head, base, size, offset;
	struct alloc *alloc;
	uint32_t flags, bo;

	alloc = block ? vm_alloc_at(block, addr) : NULL;
	if (!alloc)
		return false;
	head = load_acquire(&alloc->head);
	base = load_relaxed(&alloc->base);
	size = load_relaxed(&alloc->size);
	/* A block lives as long as the alloc does not change. */
	offset = addr - load_relaxed(&block->base);
	bo = load_relaxed(&block->bo);
	fence_acquire();
	if (load_relaxed(&alloc->head) != head || head & ALLOC_HEAD_ODD)
		return false;
	flags = alloc_head_flags(head);
	return length <= size && addr - base <= size - length &&
	       (!flags || (!(flags & ~managed) && flags & ALLOC_MOVABLE &&
			   resident_place(bo, offset, offset + length - 1) == place));
}

/* vm_near() for movable memory of pools, which has no alloc. It does not check who may access the pool. */
bool vm_near_pool(uint64_t addr, uint64_t length, uint64_t place);

#endif /* GPUMEM_ADDRESS_RESIDENT_H */
