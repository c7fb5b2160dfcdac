// SPDX-License-Identifier: MIT
/*
 * The kernel's residency words: maps them once per process, and keeps the slots that checks find without an alloc.
 *
 * Without the words, no managed memory counts as resident, and the engine does all work on it.
 *
 * A slot is entered after its alloc is published, and taken out before the alloc is freed. Its other fields are written
 * before @last. A check that races with the free of the same memory may find the next alloc's fields there. No other
 * check does, because it compares @last, and a place is not given to a second slot while it is taken.
 *
 * Locks: mem_lock to change slots.
 */
#include <sys/mman.h>

#include "address/address.h"

_Static_assert(SLOT == GPUMEM_MANAGED_BLOCK, "a slot of a movable block is a block of the kernel");

const uint64_t *resident_words;
struct resident_slot resident_slots[RESIDENT_SLOTS];

void resident_map(void)
{
	const size_t bytes = GPUMEM_RESIDENT_WORDS * sizeof(uint64_t);
	const uint64_t *none = NULL;
	void *map;

	if (load_relaxed(&resident_words))
		return;
	map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, client.fd, GPUMEM_MMAP_RESIDENT);
	if (map == MAP_FAILED)
		return;
	/* Another thread may have been faster. */
	if (!__atomic_compare_exchange_n(&resident_words, &none, map, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		munmap(map, bytes);
}

void resident_publish(const struct block *block, uint64_t size)
{
	const uint64_t *words = load_acquire(&resident_words);
	uint64_t offset;

	for (offset = 0; words && offset < size; offset += SLOT) {
		struct resident_slot *slot = resident_slot(block->base + offset);
		uint64_t number = offset / GPUMEM_MANAGED_BLOCK;

		if (slot->last)
			continue;
		store_relaxed(&slot->word, &words[GPUMEM_RESIDENT_WORD(block->bo, number)]);
		store_relaxed(&slot->tag, GPUMEM_RESIDENT_TAG(block->bo, number, 0) - 1);
		store_release(&slot->last, block->base + min_u64(offset + SLOT, size) - 1);
	}
}

void resident_retract(const struct block *block)
{
	uint64_t addr, end = block->base + block->length;

	for (addr = block->base; addr < end; addr += SLOT) {
		struct resident_slot *slot = resident_slot(addr);

		if (slot->last - addr < SLOT)
			store_release(&slot->last, 0);
	}
}

bool vm_near_pool(uint64_t addr, uint64_t length, uint64_t place)
{
	struct span span;

	return vm_chunk(addr) && vm_lookup(addr, &span) && length <= span.size - (addr - span.base) &&
	       (span.flags & ALLOC_NOT_INLINE) == ALLOC_MOVABLE && resident_at(&span, addr, length) == place;
}
