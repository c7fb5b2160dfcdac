/* SPDX-License-Identifier: MIT */
/*
 * Which blocks of managed memory the kernel shows (uapi, GPUMEM_MMAP_RESIDENT). resident.c maps the words; they are
 * read without a lock.
 *
 * The pages of a block that is shown exist, so the calling thread may do an entry's work. An entry would not move a
 * block that is resident on its device. It would move a block that the device evicted to make room; small operations
 * on such a block are done where it is, until resident_done() has counted enough of them.
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
	uint64_t tag;			/* what the word contains, less the place of a context's device; atomic */
} __attribute__((aligned(32)));

#define RESIDENT_SLOTS	LEAF_SLOTS

extern HIDDEN struct resident_slot resident_slots[RESIDENT_SLOTS];	/* mem_lock to write */

/* Map the words. The process has made managed memory. */
void resident_map(void);
/* Enter the slots of a block, whose only alloc has @size bytes. mem_lock is held, also for the next. */
void resident_publish(const struct block *block, uint64_t size);
/* Take them out again, before the alloc is freed. */
void resident_retract(const struct block *block);

/* Who may do a device's work on a range. */
enum near {
	NEAR_NOT,			/* the engine */
	NEAR_HERE,			/* the calling thread */
	NEAR_AGED,			/* the same; a block is resident, and will be evicted soon */
	NEAR_FAR,			/* the same; a block is in host memory */
};

_Static_assert(GPUMEM_MAX_DEVICES <= GPUMEM_RESIDENT_AGED, "a place has room for an index");

/* The bytes up to which an operation on an evicted block is done where the block is. */
#define RESIDENT_FAR_MAX	(256UL << 10)

/* Who may do the work of @place, a context's, on @length bytes of a block. @there: where the word shows the block. */
static inline enum near near_there(uint64_t there, uint64_t length, uint64_t place)
{
	if (there == place + GPUMEM_RESIDENT_EVICTED)
		return length <= RESIDENT_FAR_MAX ? NEAR_FAR : NEAR_NOT;
	if (there == place)
		return NEAR_HERE;
	return there == place + GPUMEM_RESIDENT_AGED ? NEAR_AGED : NEAR_NOT;
}

/* resident_near() for a range that is not within a block that is shown as resident. */
enum near resident_near_slow(const uint64_t *words, uint32_t bo, uint64_t offset, uint64_t last, uint64_t place);

/* Who may do the work of a context whose device is at @place on the bytes from @offset to @last of movable memory. */
static inline enum near resident_near(uint32_t bo, uint64_t offset, uint64_t last, uint64_t place)
{
	const uint64_t *words = load_acquire(&resident_words);
	uint64_t first = offset / GPUMEM_MANAGED_BLOCK;

	if (!words)
		return NEAR_NOT;
	if (likely(first == last / GPUMEM_MANAGED_BLOCK &&
		   load_relaxed(&words[GPUMEM_RESIDENT_WORD(bo, first)]) ==
			GPUMEM_RESIDENT_TAG(bo, first, place - 1)))
		return NEAR_HERE;
	return resident_near_slow(words, bo, offset, last, place);
}

/* resident_near() for a range in the span's alloc, which is not empty. */
static inline enum near resident_at(const struct span *span, uint64_t addr, uint64_t length, uint64_t place)
{
	uint64_t offset = addr - span->block_base;

	return resident_near(span->bo, offset, offset + length - 1, place);
}

static inline struct resident_slot *resident_slot(uint64_t addr)
{
	return &resident_slots[(addr >> SLOT_SHIFT) % RESIDENT_SLOTS];
}

/*
 * Whether a range lies in @slot, which resident_slot() found. False: the range is empty, or the caller must use
 * vm_near().
 */
static inline bool slot_has(const struct resident_slot *slot, uint64_t addr, uint64_t length)
{
	uint64_t left = load_acquire(&slot->last) - addr;

	/* The first comparison suffices to tell slots apart: those at one place are far from each other. */
	return left < SLOT && length - 1 <= left;
}

/* Whether the slot's block is resident on the device at @place. */
static inline bool slot_resident(const struct resident_slot *slot, uint64_t place)
{
	return load_relaxed(load_relaxed(&slot->word)) - load_relaxed(&slot->tag) == place;
}

/* resident_near() for a range in a slot. */
static inline enum near slot_near(const struct resident_slot *slot, uint64_t length, uint64_t place)
{
	return near_there(load_relaxed(load_relaxed(&slot->word)) - load_relaxed(&slot->tag), length, place);
}

/* Bytes of evicted blocks that the calling thread may access before it tells the kernel. */
extern __thread HIDDEN int64_t resident_left __attribute__((tls_model("initial-exec")));

/* Tell the kernel that the CPU accessed the blocks of a range, if resident_left is used up or @near is NEAR_AGED. */
void resident_tell(enum near near, uint64_t addr, uint64_t length, CUdevice device);

/*
 * The calling thread has done work of @device on @length bytes from @addr on, for which the answer was @near. @bytes:
 * those that it accessed. The stream's lock is not held: the kernel may move a block.
 */
static inline void resident_done(enum near near, uint64_t addr, uint64_t length, uint64_t bytes, CUdevice device)
{
	if (likely(near == NEAR_HERE))
		return;
	if (near == NEAR_FAR) {
		resident_left -= bytes;
		if (resident_left > 0)
			return;
	}
	resident_tell(near, addr, length, device);
}

/*
 * vm_plain() that also accepts movable memory, and pinned memory that the library allocated. @place: of the context
 * whose work it is. The range is not empty. NEAR_NOT means that the caller must use vm_lookup().
 */
static inline enum near vm_near(uint64_t addr, uint64_t length, uint64_t place)
{
	const uint32_t managed = ALLOC_MANAGED | ALLOC_SYNC_MEMOPS | ALLOC_MOVABLE;
	const uint32_t pinned = ALLOC_HOST | ALLOC_PORTABLE | ALLOC_WRITECOMBINED;
	const struct resident_slot *slot = resident_slot(addr);
	struct block *block;
	uint64_t head, base, size, offset;
	struct alloc *alloc;
	uint32_t flags, bo;

	if (slot_has(slot, addr, length))
		return slot_near(slot, length, place);
	block = vm_block(addr);
	alloc = block ? vm_alloc_at(block, addr) : NULL;
	if (!alloc)
		return NEAR_NOT;
	head = load_acquire(&alloc->head);
	base = load_relaxed(&alloc->base);
	size = load_relaxed(&alloc->size);
	/* A block lives as long as the alloc does not change. */
	offset = addr - load_relaxed(&block->base);
	bo = load_relaxed(&block->bo);
	fence_acquire();
	if (load_relaxed(&alloc->head) != head || head & ALLOC_HEAD_ODD)
		return NEAR_NOT;
	flags = alloc_head_flags(head);
	if (length > size || addr - base > size - length)
		return NEAR_NOT;
	if (!(flags & ~pinned))
		return NEAR_HERE;
	if (flags & ~managed || !(flags & ALLOC_MOVABLE))
		return NEAR_NOT;
	return resident_near(bo, offset, offset + length - 1, place);
}

/* vm_near() for movable memory of pools, which has no alloc. It does not check who may access the pool. */
enum near vm_near_pool(uint64_t addr, uint64_t length, uint64_t place);

#endif /* GPUMEM_ADDRESS_RESIDENT_H */
