// SPDX-License-Identifier: MIT
/*
 * Pools: blocks, and what has been freed.
 *
 * Owns the classes, the ranges of cells and the depots. A request of up to 1 MiB is rounded up to
 * its class: up to 4 KiB to 512 bytes, then to an eighth and from 32 KiB on to a sixteenth of the
 * next power of two. Classes up to 32 KiB share pages: a range of cells holds blocks of one class.
 * The others, and what is larger, are ranges of their own; the largest have no class and go back
 * to the pages as soon as they are freed.
 *
 * What has a class stays of it for a while: it goes through a heap into the depot, from where a
 * heap that has none takes many at a time. Draining the depot makes pages of it again: before a
 * pool grows, and before chunks are given back.
 *
 * Nothing is used before its free has happened in the order of the stream. So it may be used
 * again: by the stream that freed it, always; by another that waits or has waited for the
 * free, if REUSE_FOLLOW_EVENT_DEPENDENCIES; by all when it is done, if REUSE_ALLOW_OPPORTUNISTIC,
 * or if the process waited for it, so that this does not depend on who was faster; and if the pool
 * is exhausted, when it is done.
 *
 * Pages that are taken while they are pending keep their moment until it has come; then it is
 * dropped, when cells are carved from them and when they merge. Otherwise what is freed in another
 * stream later could not merge with it.
 *
 * Locks: pool->lock for all that belongs to a pool; cells_lock for unused arrays of cells.
 */
#include <stdlib.h>

#include "pool.h"
#include "ring.h"

#define DEPOT_TRIES	32
#define ROOM_TRIES	8

uint8_t class_table[CLASS_MAX / CELL_UNIT + 1];
uint32_t class_bytes[CLASSES];
uint32_t class_keep[CLASSES];
uint32_t class_pages[CLASSES_CELLS];

static struct lock cells_lock;
static struct cells *unused_cells[CLASSES_CELLS];	/* cells_lock */

/* ---- classes */

/* Pages of a range of cells: at least 64 KiB and 8 cells, and little left over. */
static uint32_t pages_for(uint32_t bytes)
{
	uint32_t pages = 64 << 10, best = 0, waste, least = ~0u;

	for (pages = 16; pages <= 64; pages++) {
		if (pages * PAGE / bytes < 8)
			continue;
		waste = (pages * PAGE % bytes) * 256 / pages;
		if (waste < least) {
			least = waste;
			best = pages;
		}
		if (pages * PAGE % bytes <= pages * PAGE / 64)
			return pages;
	}
	return best;
}

void classes_init(void)
{
	uint64_t bytes = CELL_UNIT, step = CELL_UNIT, unit = 1;
	unsigned int class = 0;

	for (; bytes <= CLASS_MAX; class++) {
		uint64_t last = bytes / CELL_UNIT;

		class_bytes[class] = bytes;
		class_keep[class] = bytes > (64 << 10) ? 32 : bytes > 4096 ? 64 : 128;
		if (bytes <= CELLS_MAX)
			class_pages[class] = pages_for(bytes);
		for (; unit <= last; unit++)
			class_table[unit] = class;
		if (bytes >= 4096 && !(bytes & (bytes - 1)))
			step = bytes < CELLS_MAX ? bytes / 8 :
				bytes == CELLS_MAX ? PAGE : bytes / 16;
		bytes += step;
	}
}

/* ---- moments */

static bool reached(const struct moment *moment, const struct taker *taker)
{
	return queue_reached(moment->queue, moment->value) &&
	       (taker->opportunistic || taker->exhausted ||
		moment->value <= load_relaxed(&moment->queue->synced));
}

bool moment_settled(const struct moment *moment, const struct taker *taker)
{
	return !moment->queue || reached(moment, taker);
}

bool moment_passed(const struct moment *moment, const struct taker *taker)
{
	if (!moment->queue || moment->queue == taker->queue || reached(moment, taker))
		return true;
	if (taker->follow && taker->queue &&
	    queue_follows(taker->queue, ~0ull, moment->queue, moment->value))
		return true;
	return taker->any;
}

/* Drop a moment that has come: what was freed in other streams can merge with it then. */
static void moment_settle(struct moment *moment, const struct taker *taker)
{
	if (moment_settled(moment, taker))
		moment->queue = NULL;
}

/*
 * Make @last the later of two moments. False if neither stream is known to come after the other:
 * there is no such moment.
 */
static bool moment_later(struct moment *last, const struct moment *moment)
{
	if (!moment->queue)
		return true;
	if (!last->queue) {
		*last = *moment;
	} else if (last->queue == moment->queue) {
		if (last->value < moment->value)
			last->value = moment->value;
	} else if (queue_follows(moment->queue, moment->value, last->queue, last->value)) {
		*last = *moment;
	} else {
		return queue_follows(last->queue, last->value, moment->queue, moment->value);
	}
	return true;
}

/* How many things a taker looks at; when the pool has nothing else, all of them. */
static unsigned int tries_of(const struct taker *taker, unsigned int usual)
{
	return taker->exhausted ? ~0u : usual;
}

/* ---- ranges of cells */

static struct cells *cells_get(unsigned int class)
{
	uint32_t units = class_bytes[class] / CELL_UNIT;
	uint32_t count = class_pages[class] * PAGE / class_bytes[class];
	struct cells *cells;

	lock_take(&cells_lock);
	cells = unused_cells[class];
	if (cells)
		unused_cells[class] = cells->next;
	lock_drop(&cells_lock);
	if (cells)
		return cells;
	cells = calloc(1, sizeof(*cells) + count * sizeof(cells->cell[0]));
	if (!cells)
		return NULL;
	cells->count = count;
	cells->units = units;
	cells->reciprocal = ((1ull << 32) + units - 1) / units;
	return cells;
}

static void cells_put(struct cells *cells, unsigned int class)
{
	lock_take(&cells_lock);
	cells->next = unused_cells[class];
	unused_cells[class] = cells;
	lock_drop(&cells_lock);
}

static void room_add(pool_t *pool, struct range *range)
{
	struct range **list = &pool->room[range->class];

	range->listed = true;
	range->prev = NULL;
	range->next = *list;
	if (*list)
		(*list)->prev = range;
	*list = range;
}

static void room_remove(pool_t *pool, struct range *range)
{
	range->listed = false;
	if (range->prev)
		range->prev->next = range->next;
	else
		pool->room[range->class] = range->next;
	if (range->next)
		range->next->prev = range->prev;
}

/* A cell of a range that has some left. */
static struct cell *room_take(pool_t *pool, unsigned int class, const struct taker *taker)
{
	struct range *range = pool->room[class];
	unsigned int tries = tries_of(taker, ROOM_TRIES);
	struct cells *cells;
	struct cell *cell;

	for (; range && tries; range = range->next, tries--) {
		cells = range->cells;
		cell = range->free;
		if (cell) {
			range->free = cell->next;
		} else {
			if (range->carved == cells->count)
				continue;
			moment_settle(&range->freed, taker);
			if (!moment_passed(&range->freed, taker))
				continue;
			cell = &cells->cell[range->carved];
			cell_begin(cell);
			store_relaxed(&cell->base, cells->base +
				      (uint64_t)range->carved * cells->units * CELL_UNIT);
			cell_end(cell);
			cell->freed = range->freed;
			range->carved++;
		}
		if (++range->out == cells->count)
			room_remove(pool, range);
		return cell;
	}
	return NULL;
}

/* A new range of cells. */
static bool room_make(pool_t *pool, unsigned int class, const struct taker *taker)
{
	struct cells *cells = cells_get(class);
	struct range *range;

	if (!cells)
		return false;
	range = pages_take(pool, class_pages[class], taker);
	if (!range) {
		cells_put(cells, class);
		return false;
	}
	store_relaxed(&cells->base, range_base(range));
	range->class = class;
	range->carved = 0;
	range->out = 0;
	range->free = NULL;
	range_publish_cells(range, cells);
	room_add(pool, range);
	return true;
}

static void room_give(pool_t *pool, struct range *range, struct cell *cell)
{
	struct cells *cells = range->cells;
	struct moment freed = range->freed;
	unsigned int class = range->class;

	store_relaxed(&cell->next, range->free);
	range->free = cell;
	if (!range->listed)
		room_add(pool, range);
	if (--range->out)
		return;
	room_remove(pool, range);
	if (freed.queue && queue_reached(freed.queue, freed.value))
		freed.queue = NULL;
	pages_give(pool, range, &freed);
	cells_put(cells, class);
}

/* ---- the depot */

void depot_put(pool_t *pool, struct cell *cell, unsigned int class)
{
	struct bin *bin = &pool->depot[class];

	store_relaxed(&cell->next, bin->head);
	bin->head = cell;
	bin->count++;
}

static struct cell *depot_take(pool_t *pool, unsigned int class, const struct taker *taker)
{
	struct bin *bin = &pool->depot[class];
	struct cell **link, *cell;
	unsigned int tries = tries_of(taker, DEPOT_TRIES);

	for (link = &bin->head; (cell = *link) && tries; link = &cell->next, tries--) {
		if (!moment_passed(&cell->freed, taker))
			continue;
		store_relaxed(link, cell->next);
		bin->count--;
		return cell;
	}
	return NULL;
}

void cell_release(pool_t *pool, struct cell *cell, unsigned int class)
{
	static const struct moment past = { .queue = NULL };
	struct range *range = range_of(cell->base);

	cell->freed.queue = NULL;
	if (class < CLASSES_CELLS)
		room_give(pool, range, cell);
	else
		pages_give(pool, range, &past);
}

void large_release(pool_t *pool, struct cell *cell, const struct moment *freed)
{
	pages_give(pool, range_of(cell->base), freed);
}

void depot_drain(pool_t *pool, const struct taker *taker)
{
	unsigned int class;

	for (class = 0; class < CLASSES; class++) {
		struct bin *bin = &pool->depot[class];
		struct cell *cell = bin->head, *next, **link = &bin->head;

		for (; cell; cell = next) {
			next = cell->next;
			if (moment_settled(&cell->freed, taker)) {
				cell_release(pool, cell, class);
			} else if (class >= CLASSES_CELLS) {
				large_release(pool, cell, &cell->freed);
			} else {
				store_relaxed(link, cell);
				link = &cell->next;
				continue;
			}
			bin->count--;
		}
		store_relaxed(link, NULL);
	}
}

/* One more cell of a range is in the depot. */
static void merge_count(struct range *range, const struct cell *cell, const struct taker *taker)
{
	if (!range->pending++) {
		/* The moment of the pages that the range was carved from. */
		moment_settle(&range->freed, taker);
		range->last = range->freed;
		range->mixed = false;
	}
	if (!range->mixed && !moment_later(&range->last, &cell->freed))
		range->mixed = true;
}

/* What is in the depot is pending here. A range that is given back gets the last of the moments. */
void depot_merge(pool_t *pool, const struct taker *taker)
{
	unsigned int class;

	for (class = 0; class < CLASSES_CELLS; class++) {
		struct bin *bin = &pool->depot[class];
		struct cell **link, *cell;

		for (cell = bin->head; cell; cell = cell->next)
			merge_count(range_of(cell->base), cell, taker);
		for (link = &bin->head; (cell = *link);) {
			struct range *range = range_of(cell->base);
			bool last = range->pending == range->out && !range->mixed;

			if (!last) {
				/* Some are live, or elsewhere. */
				if (range->pending)
					range->pending = 0;
				link = &cell->next;
				continue;
			}
			store_relaxed(link, cell->next);
			bin->count--;
			range->pending--;
			range->freed = range->last;
			room_give(pool, range, cell);
		}
	}
}

/* ---- taking */

struct cell *cells_spare(pool_t *pool, unsigned int class, const struct taker *taker)
{
	struct cell *cell = depot_take(pool, class, taker);

	if (!cell && class < CLASSES_CELLS)
		cell = room_take(pool, class, taker);
	return cell;
}

struct cell *cells_take(pool_t *pool, uint64_t size, const struct taker *taker)
{
	struct range *range;

	if (size <= CLASS_MAX) {
		unsigned int class = class_of(size);
		struct cell *cell = cells_spare(pool, class, taker);

		if (cell)
			return cell;
		pages_settle(pool, taker, 4);
		if (class < CLASSES_CELLS)
			return room_make(pool, class, taker) ? room_take(pool, class, taker) : NULL;
		size = class_bytes[class];
	} else {
		pages_settle(pool, taker, 4);
	}
	range = pages_take(pool, round_up(size, PAGE) / PAGE, taker);
	return range ? &range->cell : NULL;
}
