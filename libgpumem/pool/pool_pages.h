/* SPDX-License-Identifier: MIT */
/*
 * Pools: the pages of chunks, and lookups. pool_pages.c has the rules. pool->lock is held, except for lookups.
 */
#ifndef GPUMEM_POOL_PAGES_H
#define GPUMEM_POOL_PAGES_H

#include "pool/parts.h"

/*
 * Take @pages pages for a taker. NULL: there is no range that the taker may have. The result is a block. Its
 * cell has the moment that the taker's stream must come after.
 */
struct range *pages_take(pool_t *pool, uint32_t pages, const struct taker *taker);
void pages_give(pool_t *pool, struct range *range, const struct moment *freed);
/*
 * Free and merge pending ranges that have settled, oldest first. Stop after @tries ranges that have not
 * settled.
 */
void pages_settle(pool_t *pool, const struct taker *taker, unsigned int tries);
/* The range that begins at the page of an address, or whose cells include the page. */
struct range *range_of(uint64_t addr);
/* Turn a block into a range of cells. */
void range_publish_cells(struct range *range, struct cells *cells);

static inline uint64_t range_base(const struct range *range)
{
	return range->chunk->block->base + (uint64_t)range->first * PAGE;
}

/* ---- the ranges of a chunk that comes or goes (pool_chunks.c) */

/* An unused structure, or NULL: no memory. */
struct range *range_get(pool_t *pool);
void range_put(pool_t *pool, struct range *range);
/* Insert a range into its tree and, if it is pending, into the list: behind @after, or at the end. */
void range_in(pool_t *pool, struct range *range, struct range *after);
/* Remove a range from its tree and the list. */
void range_out(pool_t *pool, struct range *range);
/* Note in the tables that a range begins at a page, or does not any more. */
void start_set(struct chunk *chunk, uint32_t page, struct range *range);
void start_clear(struct chunk *chunk, uint32_t page);

/* ---- lookups; no lock */

/* The range around a page that is not the range's first page. */
struct range *range_inside(struct chunk *chunk, uint64_t page);

/* The cell of an address, or NULL. */
static inline struct cell *pool_cell(struct chunk *chunk, uint64_t addr)
{
	uint64_t page = (addr - load_relaxed(&chunk->base)) / PAGE, n;
	struct cells *cells;
	struct range *range;

	if (unlikely(page >= chunk->capacity))
		return NULL;
	range = load_acquire(&chunk->at[page]);
	if (!range) {
		range = range_inside(chunk, page);
		if (!range)
			return NULL;
	}
	cells = load_acquire(&range->cells);
	if (!cells)
		return &range->cell;
	n = (addr - load_relaxed(&cells->base)) / CELL_UNIT * cells->reciprocal >> 32;
	return n < cells->count ? &cells->cell[n] : NULL;
}

/* The live cell of a pool that begins at an address, or NULL. */
static inline struct cell *pool_cell_live(struct chunk *chunk, uint64_t ptr, uint64_t *size)
{
	struct cell *cell = pool_cell(chunk, ptr);

	if (unlikely(!cell))
		return NULL;
	*size = load_acquire(&cell->size);
	return *size && load_relaxed(&cell->base) == ptr ? cell : NULL;
}

#endif /* GPUMEM_POOL_PAGES_H */
