// SPDX-License-Identifier: MIT
/*
 * Pools: blocks that come free late.
 *
 * Owns two lists of each pool. In limbo is what was freed by cuMemFree() while work was queued:
 * that function names no stream and does not wait, so the block is free when everything is done
 * that was queued at the time, in whatever stream. Withheld is what was exported by itself, as a DMA-buf or
 * a memory handle, while somebody else can still reach one of its pages.
 *
 * Such blocks are not live, no lookup finds them, and they count as reserved. The lists are looked at
 * before a pool grows and whenever it may give chunks back.
 *
 * Only the kernel knows whether somebody else can reach a page, so each look is a system call.
 * None is made with pool->lock held: late_look() copies what it has to ask about, asks, and notes
 * the answers in those notes that are still there. late_reclaim() releases what was answered.
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
	uint64_t number;		/* of no other note */
	struct cell *cell;
	uint64_t size;
	bool retired;			/* its tokens open nothing any more */
	bool asked;			/* a thread is about to retire them */
	bool over;			/* nobody else reaches it */
};

/* One question to the kernel, with the answer. */
struct look {
	uint64_t number;		/* of the note */
	struct gpumem_bo_retire retire;
	bool over;
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
	store_relaxed(&pool->limbo, limbo);
	return true;
}

static struct gpumem_bo_retire question(const struct cell *cell, uint64_t size, unsigned int flags)
{
	struct block *block = range_of(cell->base)->chunk->block;

	return (struct gpumem_bo_retire){
		.size = sizeof(struct gpumem_bo_retire), .id = block->bo,
		.offset = cell->base - block->base, .length = size, .flags = flags,
	};
}

/* Whether others reach the pages. If the kernel cannot tell, somebody can. */
static bool reached(struct gpumem_bo_retire *retire)
{
	return client_ioctl(GPUMEM_BO_RETIRE, retire) || retire->live;
}

bool late_retire(const struct cell *cell, uint64_t size)
{
	struct gpumem_bo_retire retire = question(cell, size, 0);

	return reached(&retire);
}

/* Without memory for the note the block stays taken. */
static void withhold(pool_t *pool, struct cell *cell, uint64_t size, bool retired)
{
	static uint64_t numbers;	/* atomic */
	struct withheld_cell *withheld = malloc(sizeof(*withheld));

	if (!withheld)
		return;
	withheld->number = __atomic_add_fetch(&numbers, 1, __ATOMIC_RELAXED);
	withheld->cell = cell;
	withheld->size = size;
	withheld->retired = retired;
	withheld->asked = false;
	withheld->over = false;
	withheld->next = pool->withheld;
	store_relaxed(&pool->withheld, withheld);
}

void late_withhold(pool_t *pool, struct cell *cell, uint64_t size)
{
	withhold(pool, cell, size, true);
}

static bool limbo_over(const struct limbo *limbo)
{
	unsigned int i;

	for (i = 0; i < limbo->count; i++)
		if (!queue_reached(limbo->moment[i].queue, limbo->moment[i].value))
			return false;
	return true;
}

/* What is over of the limbo is released, or becomes something to ask about. */
static void limbo_reclaim(pool_t *pool)
{
	struct limbo **link, *limbo;

	for (link = &pool->limbo; (limbo = *link);) {
		if (!limbo_over(limbo)) {
			link = &limbo->next;
			continue;
		}
		store_relaxed(link, limbo->next);
		limbo->cell->freed.queue = NULL;
		if (load_relaxed(&limbo->cell->flags) & ALLOC_EXPORTED)
			withhold(pool, limbo->cell, limbo->size, false);
		else
			cell_return(pool, limbo->cell, limbo->size);
		free(limbo);
	}
}

/*
 * A note of which another thread retires the tokens is left alone: were the block released meanwhile,
 * that call would revoke the tokens of the next owner.
 */
static bool to_ask(const struct withheld_cell *withheld)
{
	return !withheld->over && !withheld->asked;
}

/* Questions about what is withheld, oldest first; NULL if there are none, or no memory for them. */
static struct look *questions(const pool_t *pool, unsigned int *count)
{
	struct withheld_cell *withheld;
	struct look *look;
	unsigned int n = 0;

	for (withheld = pool->withheld; withheld; withheld = withheld->next)
		n += to_ask(withheld);
	look = n ? malloc(n * sizeof(*look)) : NULL;
	if (!look)
		return NULL;
	*count = n;
	for (withheld = pool->withheld; withheld; withheld = withheld->next) {
		if (!to_ask(withheld))
			continue;
		look[--n].number = withheld->number;
		look[n].retire = question(withheld->cell, withheld->size,
					  withheld->retired ? GPUMEM_BO_RETIRE_QUERY : 0);
		withheld->asked = !withheld->retired;
	}
	return look;
}

/* The list is in the opposite order, with other notes in it, and some may be gone. */
static void answer(pool_t *pool, const struct look *look, unsigned int count)
{
	struct withheld_cell *withheld;

	for (withheld = pool->withheld; withheld; withheld = withheld->next) {
		while (count && look[count - 1].number > withheld->number)
			count--;
		if (!count)
			return;
		if (look[count - 1].number != withheld->number)
			continue;
		if (!(look[count - 1].retire.flags & GPUMEM_BO_RETIRE_QUERY)) {
			withheld->retired = true;
			withheld->asked = false;
		}
		withheld->over |= look[count - 1].over;
	}
}

void late_look(pool_t *pool)
{
	struct look *look;
	unsigned int count, i;

	if (!load_relaxed(&pool->withheld) && !load_relaxed(&pool->limbo))
		return;
	lock_take(&pool->lock);
	limbo_reclaim(pool);
	look = questions(pool, &count);
	lock_drop(&pool->lock);
	if (!look)
		return;
	for (i = 0; i < count; i++)
		look[i].over = !reached(&look[i].retire);
	lock_take(&pool->lock);
	answer(pool, look, count);
	lock_drop(&pool->lock);
	free(look);
}

void late_reclaim(pool_t *pool)
{
	struct withheld_cell **held, *withheld;

	limbo_reclaim(pool);
	for (held = &pool->withheld; (withheld = *held);) {
		if (!withheld->over) {
			held = &withheld->next;
			continue;
		}
		store_relaxed(held, withheld->next);
		cell_return(pool, withheld->cell, withheld->size);
		free(withheld);
	}
}
