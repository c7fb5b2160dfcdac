/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The residency words of a client: which blocks of its managed memory are
 * resident.
 */
#ifndef GPUMEM_RESIDENT_H
#define GPUMEM_RESIDENT_H

#include <linux/compiler.h>
#include <linux/types.h>

#include "gpumem_managed.h"

struct gpumem_client;
struct vm_area_struct;

/* Blocks that an eviction hides because they are the next to be evicted. */
#define GPUMEM_RESIDENT_AGED	8

/* gpumem_resident.c */
void gpumem_resident_prepare(struct gpumem_client *client);
void gpumem_resident_free(struct gpumem_client *client);
int gpumem_resident_mmap(struct gpumem_client *client,
			 struct vm_area_struct *vma);
void gpumem_resident_begin(struct gpumem_block *block);

/* Let the word of a resident block show it.  gpumem_managed_lock is held. */
static inline void gpumem_resident_show(const struct gpumem_block *block)
{
	if (block->word && *block->word != block->tag)
		WRITE_ONCE(*block->word, block->tag);
}

/* Let no word show a resident block.  gpumem_managed_lock is held. */
static inline void gpumem_resident_hide(const struct gpumem_block *block)
{
	if (block->word && *block->word == block->tag)
		WRITE_ONCE(*block->word, 0);
}

#endif /* GPUMEM_RESIDENT_H */
