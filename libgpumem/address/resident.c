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
 * Evicted blocks: the calling thread does small operations on a block that was evicted to make room where the block is.
 * A block that becomes resident moves in, and another one moves out. So each time that the operations of a thread have
 * accessed as many bytes of evicted blocks as two blocks have, the kernel makes the block of the last operation
 * resident. The more often a block is accessed, the sooner it is that one. The number of bytes is drawn at random, so
 * that a program that accesses blocks in turn does not meet the same block each time.
 *
 * Locks: mem_lock to change slots. Each thread counts bytes for itself.
 */
#include <sys/mman.h>

#include "address/address.h"

_Static_assert(SLOT == GPUMEM_MANAGED_BLOCK, "a slot of a movable block is a block of the kernel");

const uint64_t *resident_words;
struct resident_slot resident_slots[RESIDENT_SLOTS];

__thread int64_t resident_left __attribute__((tls_model("initial-exec")));
static __thread uint64_t draws __attribute__((tls_model("initial-exec")));	/* numbers that left_draw() returned */

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

/* resident_near() for a part of a range, in one block. */
static enum near near_block(const uint64_t *words, uint32_t bo, uint64_t block, uint64_t length, uint64_t place)
{
	uint64_t word = load_relaxed(&words[GPUMEM_RESIDENT_WORD(bo, block)]);

	return near_there(word - GPUMEM_RESIDENT_TAG(bo, block, 0) + 1, length, place);
}

enum near resident_near_slow(const uint64_t *words, uint32_t bo, uint64_t offset, uint64_t last, uint64_t place)
{
	uint64_t first = offset / GPUMEM_MANAGED_BLOCK, length = last - offset + 1;
	enum near one, two;

	last /= GPUMEM_MANAGED_BLOCK;
	if (last - first > 1)
		return NEAR_NOT;
	one = near_block(words, bo, first, length, place);
	if (first == last || one == NEAR_NOT)
		return one;
	two = near_block(words, bo, last, length, place);
	return two == NEAR_NOT || two > one ? two : one;
}

enum near vm_near_pool(uint64_t addr, uint64_t length, uint64_t place)
{
	struct span span;

	if (!vm_chunk(addr) || !vm_lookup(addr, &span) || length > span.size - (addr - span.base) ||
	    (span.flags & ALLOC_NOT_INLINE) != ALLOC_MOVABLE)
		return NEAR_NOT;
	return resident_at(&span, addr, length, place);
}

/*
 * A number of bytes: as many as two blocks have, or up to a half more or less. A thread's first one may be smaller, so
 * that threads that end soon tell the kernel about blocks, too.
 */
static int64_t left_draw(void)
{
	uint64_t mixed = ((uintptr_t)&draws + ++draws) * 0x9e3779b97f4a7c15U;

	mixed = (mixed >> 32) % (2 * GPUMEM_MANAGED_BLOCK);
	return draws == 1 ? mixed : GPUMEM_MANAGED_BLOCK + mixed;
}

/* Another thread may have freed the memory since, so no answer is an error. */
static void tell_block(uint64_t addr, CUdevice device)
{
	struct gpumem_bo_advise advise = {
		.size = sizeof(advise), .length = 1, .advice = GPUMEM_ADVICE_TOUCHED,
		.device = client.device[device].index,
	};
	struct span span;

	if (!vm_lookup(addr, &span) || !(span.flags & ALLOC_MOVABLE) ||
	    resident_at(&span, addr, 1, advise.device + 1) == NEAR_HERE)
		return;
	advise.id = span.bo;
	advise.offset = addr - span.block_base;
	(void)client_ioctl(GPUMEM_BO_ADVISE, &advise);
}

void resident_tell(enum near near, uint64_t addr, uint64_t length, CUdevice device)
{
	const uint64_t last = addr + length - 1;

	if (near == NEAR_FAR) {
		bool first = !draws;

		resident_left += left_draw();
		if (first && resident_left > 0)
			return;
	}
	tell_block(addr, device);
	if ((addr ^ last) / GPUMEM_MANAGED_BLOCK)
		tell_block(last, device);
}
