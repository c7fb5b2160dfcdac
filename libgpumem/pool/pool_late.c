// SPDX-License-Identifier: MIT
/*
 * Pools: blocks that become free later than the call that frees them.
 *
 * Owns two lists of each pool:
 *
 *   late       blocks that cuMemFree() freed while work was queued in several streams. The function names no
 *              stream and does not wait. So such a block becomes free when all work is complete that was
 *              queued in any stream at the time of the call.
 *   withheld   blocks that were exported as a DMA-buf or a memory handle, while another process or driver
 *              can still reach one of their pages.
 *
 * Such blocks are not live, no lookup finds them, and they count as reserved. The pool walks the lists before
 * it grows and whenever it may give chunks back.
 *
 * Only the kernel knows whether another process or driver can reach a page, so each question is a system call.
 * No such call is made with pool->lock held: late_look() collects the questions, asks the kernel, and stores
 * the answers in the list's entries that still exist. late_reclaim() releases blocks by these answers.
 *
 * Locks: pool->lock.
 */
#include <stdlib.h>

#include "pool/pool_pages.h"

struct late_cell {
	struct late_cell *next;
	struct cell *cell;
	uint64_t size;
	unsigned int count;
	struct moment moment[];
};

struct withheld_cell {
	struct withheld_cell *next;
	uint64_t number;		/* of no other entry; later ones have higher numbers */
	struct cell *cell;
	uint64_t size;
	bool retired;			/* its tokens are revoked */
	bool asked;			/* a thread is about to revoke them */
	bool over;			/* no other process or driver reaches it */
};

/* One question to the kernel, with the answer. */
struct look {
	uint64_t number;		/* of the entry */
	struct gpumem_bo_retire retire;
	bool over;
};

bool late_add(pool_t *pool, struct cell *cell, uint64_t size, const struct moment *moments,
	      unsigned int count)
{
	struct late_cell *late = malloc(sizeof(*late) + count * sizeof(*moments));

	if (!late)
		return false;
	late->cell = cell;
	late->size = size;
	late->count = count;
	memcpy(late->moment, moments, count * sizeof(*moments));
	late->next = pool->late;
	store_relaxed(&pool->late, late);
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

bool late_retire(const struct cell *cell, uint64_t size)
{
	struct gpumem_bo_retire retire = question(cell, size, 0);

	return bo_reached(&retire);
}

/* Add a block to the list. If there is no memory for the entry, the block stays taken. */
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

void late_hold(pool_t *pool, struct cell *cell, uint64_t size)
{
	withhold(pool, cell, size, false);
}

static bool late_over(const struct late_cell *late)
{
	unsigned int i;

	for (i = 0; i < late->count; i++)
		if (!queue_reached(late->moment[i].queue, late->moment[i].value))
			return false;
	return true;
}

/* Release the late blocks whose work is complete, or move them to the withheld ones. */
static void late_reclaim_done(pool_t *pool)
{
	struct late_cell **link, *late;

	for (link = &pool->late; (late = *link);) {
		if (!late_over(late)) {
			link = &late->next;
			continue;
		}
		store_relaxed(link, late->next);
		late->cell->freed.queue = NULL;
		if (load_relaxed(&late->cell->flags) & ALLOC_EXPORTED)
			withhold(pool, late->cell, late->size, false);
		else
			cell_return(pool, late->cell, late->size);
		free(late);
	}
}

/*
 * Whether to ask about an entry. Not while another thread revokes its tokens: if the block were released
 * meanwhile, that thread would revoke the tokens of the block's next owner.
 */
static bool to_ask(const struct withheld_cell *withheld)
{
	return !withheld->over && !withheld->asked;
}

/* Questions about withheld blocks, oldest first. NULL: there are none, or no memory for them. */
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

/* Store the answers. The list is newest first; it may have new entries, and some may be gone. */
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

	if (!load_relaxed(&pool->withheld) && !load_relaxed(&pool->late))
		return;
	lock_take(&pool->lock);
	late_reclaim_done(pool);
	look = questions(pool, &count);
	lock_drop(&pool->lock);
	if (!look)
		return;
	for (i = 0; i < count; i++)
		look[i].over = !bo_reached(&look[i].retire);
	lock_take(&pool->lock);
	answer(pool, look, count);
	lock_drop(&pool->lock);
	free(look);
}

void late_reclaim(pool_t *pool)
{
	struct withheld_cell **held, *withheld;

	late_reclaim_done(pool);
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
