/* SPDX-License-Identifier: MIT */
/*
 * Blocks: mappings of one buffer object each, and the units of those that several allocs share.
 *
 * Making and destroying a block takes system calls that populate or give back its memory, so both
 * are done in steps: what mem_lock protects is changed with the lock held, the kernel works without
 * it. Functions say which.
 *
 * Vocabulary: doomed, a block that nothing points at any more and that is to be destroyed; doomed
 * blocks are a list by block->next. Unit and withheld: block.c.
 */
#ifndef GPUMEM_BLOCK_H
#define GPUMEM_BLOCK_H

#include "internal.h"

/*
 * A published block of new memory, or around a buffer object, which becomes the block's in any
 * case. mem_lock is not held.
 */
CUresult block_alloc(struct block **made, CUdevice device, uint64_t length, uint32_t flags);
CUresult block_make(struct block **made, CUdevice device, uint32_t bo, uint64_t mapped, bool dark);
/* A buffer object for @flags of enum alloc_flags. mem_lock is not held. */
CUresult bo_alloc(uint32_t *bo, CUdevice device, uint64_t length, const char *name, uint32_t flags);
/* Take a block out of its list and of the index. mem_lock is held. */
void block_doom(struct block *block, struct block **doomed);
/* Give the memory and the addresses of doomed blocks back. mem_lock is not held. */
void blocks_destroy(struct block *doomed);

/* Whether the CPU cannot reach an allocation of a kind. */
static inline bool kind_dark(uint32_t flags)
{
	return client.strict && !(flags & (ALLOC_HOST | ALLOC_MANAGED));
}

/* A range of units that were used before, as they were when it was taken. */
struct scrub {
	unsigned int first, count;
	uint64_t dirty[SLOT_UNITS / 64];
};

/*
 * Take @units of a shared block of @kind's list, which grows if there is no room. mem_lock is held;
 * it is dropped while the list grows, and while another thread has it grow. *@scrub says what has
 * to be zeroed before the units are used.
 */
CUresult units_take(struct shared *list, CUdevice device, unsigned int units, uint32_t flags,
		    struct block **block, struct scrub *scrub);
/* Zero what an earlier owner left. mem_lock is not held; the units are taken. */
CUresult units_scrub(const struct block *block, const struct scrub *scrub);
/*
 * Give units back. @exported: a token or a DMA-buf of them exists or existed, and while somebody
 * can reach their pages they stay taken. mem_lock is held.
 */
void units_give(struct block *block, unsigned int first, unsigned int units, bool exported,
		struct block **doomed);

#endif /* GPUMEM_BLOCK_H */
