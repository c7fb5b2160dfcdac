/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The residency words of a client: which blocks of its managed memory the CPU
 * can access instead of an engine.
 */
#ifndef GPUMEM_RESIDENT_H
#define GPUMEM_RESIDENT_H

#include <linux/compiler.h>
#include <linux/types.h>

#include "gpumem_managed.h"

struct gpumem_client;
struct vm_area_struct;

/* Blocks that an eviction marks because they are the next to be evicted. */
#define GPUMEM_RESIDENT_NEXT	8

/* gpumem_resident.c */
void gpumem_resident_prepare(struct gpumem_client *client);
void gpumem_resident_free(struct gpumem_client *client);
int gpumem_resident_mmap(struct gpumem_client *client,
			 struct vm_area_struct *vma);
void gpumem_resident_begin(struct gpumem_block *block);
bool gpumem_resident_touched(struct gpumem_bo *bo, u64 offset);

/* Let the word of a resident block show it.  gpumem_managed_lock is held. */
static inline void gpumem_resident_show(const struct gpumem_block *block)
{
	if (block->word && *block->word != block->tag)
		WRITE_ONCE(*block->word, block->tag);
}

/* Does the word of a block show it?  gpumem_managed_lock is held. */
static inline bool gpumem_resident_shown(const struct gpumem_block *block)
{
	return block->word && !((*block->word ^ block->tag) & ~0xffULL);
}

/* Let no word show a block.  gpumem_managed_lock is held. */
static inline void gpumem_resident_hide(const struct gpumem_block *block)
{
	if (gpumem_resident_shown(block))
		WRITE_ONCE(*block->word, 0);
}

/*
 * Let the word that shows a resident block say that the block is evicted soon.
 * gpumem_managed_lock is held.
 */
static inline void gpumem_resident_age(const struct gpumem_block *block)
{
	if (gpumem_resident_shown(block))
		WRITE_ONCE(*block->word, block->tag + GPUMEM_RESIDENT_AGED);
}

/*
 * The block is not far, and no word shows it.  The next touch makes it resident, or
 * follows the advice.  gpumem_managed_lock is held.
 */
static inline void gpumem_resident_recall(struct gpumem_block *block)
{
	WRITE_ONCE(block->far, NULL);
	gpumem_resident_hide(block);
}

/*
 * The block, which is still resident, makes room.  It is far from now on.  If @show
 * is set, let its word show it in host memory, unless the word shows a resident
 * block.  gpumem_managed_lock is held.
 */
static inline void gpumem_resident_leave(struct gpumem_block *block, bool show)
{
	WRITE_ONCE(block->far, block->dev);
	if (!show)
		gpumem_resident_hide(block);
	else if (gpumem_resident_shown(block) ||
		 (block->word && (!*block->word ||
				  (*block->word & 0xff) > GPUMEM_RESIDENT_EVICTED)))
		WRITE_ONCE(*block->word, block->tag + GPUMEM_RESIDENT_EVICTED);
}

#endif /* GPUMEM_RESIDENT_H */
