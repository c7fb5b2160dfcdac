// SPDX-License-Identifier: MIT
/*
 * Pools: blocks that come free late.
 *
 * Owns two lists of each pool. In limbo is what was freed by cuMemFree() while work was queued:
 * that function names no stream and does not wait, so the block is free when everything is done
 * that was queued at the time, in whatever stream. Withheld is what was exported by itself, as a DMA-buf or
 * a memory handle, while somebody else can still reach one of its pages.
 *
 * Such blocks are not live, nobody finds them, and they count as reserved. The lists are looked at
 * before a pool grows and whenever it may give chunks back.
 *
 * Locks: pool->lock.
 */
#include <stdlib.h>

#include "pool.h"
#include "ring.h"

struct limbo {
	struct limbo *next;
	struct cell *cell;
	uint64_t size;
	unsigned int count;
	struct moment moment[];
};

struct withheld_cell {
	struct withheld_cell *next;
	struct cell *cell;
	uint64_t size;
};

bool late_add(pool_t *pool, struct cell *cell, uint64_t size, const struct moment *moments,
	      unsigned int count)
{
	struct limbo *limbo = malloc(sizeof(*limbo) + count * sizeof(*moments));

	if (!limbo)
		return false;
	limbo->cell = cell;
	limbo->size = size;
	limbo->count = count;
	memcpy(limbo->moment, moments, count * sizeof(*moments));
	limbo->next = pool->limbo;
	pool->limbo = limbo;
	return true;
}

/* How many others reach the pages of a block, as the kernel says; @flags: of GPUMEM_BO_RETIRE. */
static unsigned int others(const struct cell *cell, uint64_t size, unsigned int flags)
{
	struct block *block = range_of(cell->base)->chunk->block;
	struct gpumem_bo_retire retire = {
		.size = sizeof(retire), .id = block->bo, .offset = cell->base - block->base,
		.length = size, .flags = flags,
	};

	/* If the kernel cannot tell, somebody can. */
	return client_ioctl(GPUMEM_BO_RETIRE, &retire) ? 1 : retire.live;
}

void late_withhold(pool_t *pool, struct cell *cell, uint64_t size)
{
	struct withheld_cell *withheld;

	if (!others(cell, size, 0)) {
		cell_return(pool, cell, size);
		return;
	}
	withheld = malloc(sizeof(*withheld));
	/* Without memory for the note the block stays taken. */
	if (!withheld)
		return;
	withheld->cell = cell;
	withheld->size = size;
	withheld->next = pool->withheld;
	pool->withheld = withheld;
}

static bool limbo_over(const struct limbo *limbo)
{
	unsigned int i;

	for (i = 0; i < limbo->count; i++)
		if (!queue_reached(limbo->moment[i].queue, limbo->moment[i].value))
			return false;
	return true;
}

void late_reclaim(pool_t *pool)
{
	struct withheld_cell **held, *withheld;
	struct limbo **link, *limbo;

	for (link = &pool->limbo; (limbo = *link);) {
		if (!limbo_over(limbo)) {
			link = &limbo->next;
			continue;
		}
		*link = limbo->next;
		limbo->cell->freed.queue = NULL;
		if (load_relaxed(&limbo->cell->flags) & ALLOC_EXPORTED)
			late_withhold(pool, limbo->cell, limbo->size);
		else
			cell_return(pool, limbo->cell, limbo->size);
		free(limbo);
	}
	for (held = &pool->withheld; (withheld = *held);) {
		if (others(withheld->cell, withheld->size, GPUMEM_BO_RETIRE_QUERY)) {
			held = &withheld->next;
			continue;
		}
		*held = withheld->next;
		cell_return(pool, withheld->cell, withheld->size);
		free(withheld);
	}
}
