// SPDX-License-Identifier: MIT
/*
 * Pools: the pages of chunks.
 *
 * Owns the ranges that chunks are divided into, and the lookup of an address in a chunk. A chunk is always
 * divided into ranges without gaps. A free range touches no other free range, and a pending range touches no
 * other range that is pending in the same queue. A chunk that is one free range is idle (pool_chunks.c).
 *
 * Free ranges, idle chunks and pending ranges are in three trees, ordered by size, then address. A search finds
 * the smallest range that is large enough, and of these the lowest in memory, so that live blocks stay dense.
 * The trees are treaps. Pending ranges are in a list, too, in the order in which they were freed.
 *
 * Lookups take no lock. A chunk has a table with an entry for each page: the range that begins at the page. For
 * a range of cells all its pages have the entry. For other pages a bitmap of the ranges' first pages, with a
 * summary of its words, shows where the range begins. A live range keeps its entry and its bit while its
 * neighbours change.
 *
 * Locks: pool->lock for everything but lookups.
 */
#include <stdlib.h>

#include "pool/pool_pages.h"

/* ---- trees of ranges */

static bool tree_before(const struct range *a, const struct range *b)
{
	if (a->pages != b->pages)
		return a->pages < b->pages;
	return range_base(a) < range_base(b);
}

static void tree_add(struct range **link, struct range *range)
{
	struct range **left = &range->left, **right = &range->right, *t;

	while (*link && (*link)->priority >= range->priority)
		link = tree_before(range, *link) ? &(*link)->left : &(*link)->right;
	for (t = *link; t;) {
		if (tree_before(t, range)) {
			*left = t;
			left = &t->right;
			t = t->right;
		} else {
			*right = t;
			right = &t->left;
			t = t->left;
		}
	}
	*left = NULL;
	*right = NULL;
	*link = range;
}

static void tree_remove(struct range **link, const struct range *range)
{
	struct range *left = range->left, *right = range->right;

	while (*link != range)
		link = tree_before(range, *link) ? &(*link)->left : &(*link)->right;
	while (left && right) {
		if (left->priority >= right->priority) {
			*link = left;
			link = &left->right;
			left = *link;
		} else {
			*link = right;
			link = &right->left;
			right = *link;
		}
	}
	*link = left ? left : right;
}

static struct range *tree_find(struct range *t, uint32_t pages)
{
	struct range *best = NULL;

	while (t) {
		if (t->pages >= pages) {
			best = t;
			t = t->left;
		} else {
			t = t->right;
		}
	}
	return best;
}

/* The smallest pending range that is large enough and that the taker may have, among the first @tries. */
static struct range *tree_search(struct range *t, uint32_t pages, const struct taker *taker,
				 unsigned int *tries)
{
	struct range *found;

	while (t && t->pages < pages)
		t = t->right;
	if (!t)
		return NULL;
	found = tree_search(t->left, pages, taker, tries);
	if (found || !*tries)
		return found;
	(*tries)--;
	if (moment_passed(&t->freed, taker))
		return t;
	return tree_search(t->right, pages, taker, tries);
}

/* ---- tables of a chunk */

void start_set(struct chunk *chunk, uint32_t page, struct range *range)
{
	store_release(&chunk->at[page], range);
	store_release(&chunk->starts[page / 64], chunk->starts[page / 64] | 1ull << page % 64);
	store_release(&chunk->summary[page / 4096],
		      chunk->summary[page / 4096] | 1ull << page / 64 % 64);
}

void start_clear(struct chunk *chunk, uint32_t page)
{
	uint64_t word = chunk->starts[page / 64] & ~(1ull << page % 64);

	store_release(&chunk->at[page], NULL);
	store_release(&chunk->starts[page / 64], word);
	if (!word)
		store_release(&chunk->summary[page / 4096],
			      chunk->summary[page / 4096] & ~(1ull << page / 64 % 64));
}

/* The highest set bit at or below @bit of a word, or -1. */
static int bit_before(uint64_t word, unsigned int bit)
{
	word <<= 63 - bit;
	return word ? (int)bit - __builtin_clzll(word) : -1;
}

/* The page at or before @page at which a range begins; -1 if the bitmap changes at that moment. */
static int64_t start_before(const struct chunk *chunk, uint32_t page)
{
	int64_t word = page / 64, group;
	int bit = bit_before(load_acquire(&chunk->starts[word]), page % 64);

	if (bit >= 0)
		return word * 64 + bit;
	for (group = --word / 64; word >= 0; group--, word = group * 64 + 63) {
		bit = bit_before(load_acquire(&chunk->summary[group]), word % 64);
		if (bit < 0)
			continue;
		word = group * 64 + bit;
		bit = bit_before(load_acquire(&chunk->starts[word]), 63);
		return bit < 0 ? -1 : word * 64 + bit;
	}
	return -1;
}

struct range *range_inside(struct chunk *chunk, uint64_t page)
{
	int64_t start = start_before(chunk, page);

	return start < 0 ? NULL : load_acquire(&chunk->at[start]);
}

struct range *range_of(uint64_t addr)
{
	struct chunk *chunk = vm_chunk(addr);

	return chunk->at[(addr - chunk->block->base) / PAGE];
}

/* ---- ranges */

struct range *range_get(pool_t *pool)
{
	enum { BATCH = 32 };
	struct range *range = pool->unused;
	static uint32_t seed = 1;	/* any value does */

	if (!range) {
		unsigned int i;

		range = calloc(BATCH, sizeof(*range));
		if (!range)
			return NULL;
		for (i = 1; i < BATCH; i++)
			range[i - 1].next = &range[i];
	}
	pool->unused = range->next;
	range->next = NULL;
	range->prev = NULL;
	range->priority = load_relaxed(&seed) * 1664525 + 1013904223;
	store_relaxed(&seed, range->priority);
	range->priority >>= 8;
	return range;
}

void range_put(pool_t *pool, struct range *range)
{
	range->state = RANGE_UNUSED;
	range->next = pool->unused;
	pool->unused = range;
}

static void idle_add(pool_t *pool, struct chunk *chunk)
{
	pool->idle_pages += chunk->pages;
	chunk->idle = true;
	chunk->prev_idle = NULL;
	chunk->next_idle = pool->idle;
	if (pool->idle)
		pool->idle->prev_idle = chunk;
	pool->idle = chunk;
}

static void idle_remove(pool_t *pool, struct chunk *chunk)
{
	if (chunk->prev_idle)
		chunk->prev_idle->next_idle = chunk->next_idle;
	else
		pool->idle = chunk->next_idle;
	if (chunk->next_idle)
		chunk->next_idle->prev_idle = chunk->prev_idle;
	pool->idle_pages -= chunk->pages;
	chunk->idle = false;
}

void range_in(pool_t *pool, struct range *range, struct range *after)
{
	if (range->state == RANGE_FREE && range->pages == range->chunk->pages) {
		tree_add(&pool->idle_tree, range);
		idle_add(pool, range->chunk);
		return;
	}
	if (range->state == RANGE_FREE) {
		tree_add(&pool->tree, range);
		return;
	}
	tree_add(&pool->pending, range);
	range->prev = after ? after : pool->newest;
	range->next = range->prev ? range->prev->next : NULL;
	if (range->next)
		range->next->prev = range;
	else
		pool->newest = range;
	if (range->prev)
		range->prev->next = range;
	else
		pool->oldest = range;
}

void range_out(pool_t *pool, struct range *range)
{
	if (range->state == RANGE_FREE && range->chunk->idle) {
		tree_remove(&pool->idle_tree, range);
		idle_remove(pool, range->chunk);
		return;
	}
	if (range->state == RANGE_FREE) {
		tree_remove(&pool->tree, range);
		return;
	}
	tree_remove(&pool->pending, range);
	if (range->prev)
		range->prev->next = range->next;
	else
		pool->oldest = range->next;
	if (range->next)
		range->next->prev = range->prev;
	else
		pool->newest = range->prev;
}

/* Whether a neighbour can merge with a range that is about to be free or pending. */
static bool joins(const struct range *range, const struct range *other)
{
	return other->state == range->state &&
	       (range->state == RANGE_FREE || other->freed.queue == range->freed.queue);
}

/* Merge @other into @range. The caller moves the borders. */
static void swallow(pool_t *pool, struct range *range, struct range *other)
{
	range_out(pool, other);
	if (range->freed.value < other->freed.value)
		range->freed.value = other->freed.value;
	range->pages += other->pages;
	range_put(pool, other);
}

/* Merge a free or pending range with its neighbours, and insert it. The range is in no tree yet. */
static void range_settle(pool_t *pool, struct range *range)
{
	struct chunk *chunk = range->chunk;
	uint32_t end = range->first + range->pages;
	struct range *other;

	if (end < chunk->pages) {
		other = chunk->at[end];
		if (joins(range, other)) {
			start_clear(chunk, end);
			swallow(pool, range, other);
		}
	}
	if (range->first) {
		other = chunk->at[start_before(chunk, range->first - 1)];
		if (joins(range, other)) {
			start_clear(chunk, range->first);
			range->first = other->first;
			swallow(pool, range, other);
			start_set(chunk, range->first, range);
		}
	}
	range_in(pool, range, NULL);
}

/*
 * Whether an idle chunk may be divided. While a part of it is used, the rest cannot be given back. So either
 * the rest is at most 1/64 of the part, or the unused memory of divided chunks stays below 1/32 of the most
 * that was ever used. A pool at its limit would have to give the chunk back for a smaller one. The pool divides
 * the chunk instead, as the driver does, so that the parts can merge while they are pending: in halves or, if
 * the limit leaves next to nothing, at any page.
 */
static bool may_split(pool_t *pool, uint32_t pages, uint32_t have, bool drained)
{
	uint64_t busy = pool->reserved - pool->idle_pages * PAGE + (uint64_t)have * PAGE;
	uint64_t used = pool_used(pool) + (uint64_t)pages * PAGE;
	uint64_t most = used > (uint64_t)pool->used_high ? used : (uint64_t)pool->used_high;
	/* The smallest chunk that would serve this request. */
	uint64_t chunk = pages * (uint64_t)PAGE > SHARES_CHUNK ? pages * (uint64_t)PAGE : SLOT;

	if (drained && pool->limit && pool->reserved + chunk > pool->limit &&
	    (pool->limit - pool->reserved <= limit_rest(pool) ||
	     (have >= 2 * (uint64_t)pages && have - 2 * (uint64_t)pages <= pages / 64)))
		return true;
	return have - pages <= pages / 64 || busy <= used + most / 32;
}

struct range *pages_take(pool_t *pool, uint32_t pages, const struct taker *taker)
{
	struct range *range = tree_find(pool->tree, pages), *other, *rest;
	unsigned int tries = taker->exhausted ? ~0u : 32;

	if (pool->pending) {
		other = tree_search(pool->pending, pages, taker, &tries);
		if (other && (!range || other->pages <= range->pages))
			range = other;
	}
	if (!range) {
		range = tree_find(pool->idle_tree, pages);
		if (!range || (!taker->split && !may_split(pool, pages, range->pages,
							taker->drained)))
			return NULL;
	}
	if (range->pages > pages) {
		rest = range_get(pool);
		if (!rest)
			return NULL;
		rest->chunk = range->chunk;
		rest->first = range->first + pages;
		rest->pages = range->pages - pages;
		rest->state = range->state;
		rest->freed = range->freed;
		store_relaxed(&rest->cells, NULL);
		store_relaxed(&rest->cell.size, 0);
		other = range->state == RANGE_PENDING ? range->prev : NULL;
		range_out(pool, range);
		range->pages = pages;
		start_set(rest->chunk, rest->first, rest);
		range_in(pool, rest, other);
	} else {
		range_out(pool, range);
	}
	range->state = RANGE_BLOCK;
	store_relaxed(&range->cell.base, range_base(range));
	range->cell.freed = range->freed;
	pool->blocks++;
	return range;
}

void range_publish_cells(struct range *range, struct cells *cells)
{
	struct chunk *chunk = range->chunk;
	uint32_t page;

	range->state = RANGE_CELLS;
	store_release(&range->cells, cells);
	for (page = range->first + 1; page < range->first + range->pages; page++)
		store_release(&chunk->at[page], range);
}

void pages_give(pool_t *pool, struct range *range, const struct moment *freed)
{
	uint32_t page;

	if (range->state == RANGE_CELLS) {
		for (page = range->first + 1; page < range->first + range->pages; page++)
			store_release(&range->chunk->at[page], NULL);
		store_release(&range->cells, NULL);
	}
	range->state = freed->queue ? RANGE_PENDING : RANGE_FREE;
	range->freed = *freed;
	pool->blocks--;
	range_settle(pool, range);
}

void pages_settle(pool_t *pool, const struct taker *taker, unsigned int tries)
{
	struct range *range = pool->oldest, *next;

	for (; range && tries; range = next) {
		next = range->next;
		if (!moment_settled(&range->freed, taker)) {
			tries--;
			continue;
		}
		range_out(pool, range);
		range->state = RANGE_FREE;
		range->freed = (struct moment){ .queue = NULL };
		/* A pending neighbour stays in the list: only free neighbours merge. */
		range_settle(pool, range);
	}
}

/* ---- lookups */

enum found pool_lookup(struct chunk *chunk, uint64_t addr, struct span *span)
{
	struct import *imports = load_acquire(&chunk->imports);
	struct block *block = chunk->block;
	struct cell *cell;
	uint32_t seq;

	if (unlikely(imports != NULL)) {
		enum found found = import_lookup(imports, addr, span);

		if (found != FOUND)
			return found;
	} else {
		cell = pool_cell(chunk, addr);
		if (!cell)
			return NOTHING;
		seq = seq_read_begin(&cell->seq);
		if (seq_changing(seq))
			return CHANGING;
		span->base = load_relaxed(&cell->base);
		span->size = load_relaxed(&cell->size);
		span->id = load_relaxed(&cell->id);
		span->flags = load_relaxed(&cell->flags) & CELL_FLAGS;
		span->marks = &cell->flags;
		if (seq_read_retry(&cell->seq, seq))
			return CHANGING;
		if (addr - span->base >= span->size)
			return NOTHING;
	}
	span->flags |= load_relaxed(&chunk->flags);
	span->alloc = NULL;
	span->ctx = NULL;
	span->pool = load_relaxed(&chunk->pool);
	span->block_base = load_relaxed(&block->base);
	span->block_length = load_relaxed(&block->length);
	span->block_id = load_relaxed(&block->id);
	span->bo = load_relaxed(&block->bo);
	span->device = load_relaxed(&block->device);
	return FOUND;
}
