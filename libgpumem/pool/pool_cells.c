// SPDX-License-Identifier: MIT
/*
 * Pools: blocks, their classes, and the free lists.
 *
 * Owns the classes, the ranges of cells and the free lists of pools. A request of up to 1 MiB is rounded up to
 * its class: up to 4 KiB to a multiple of 512 bytes, up to 64 KiB to a multiple of an eighth of the power of
 * two below, above that of a sixteenth. Classes up to 32 KiB share pages: a range of cells holds blocks of one
 * class. A larger block is a range of its own. A block above 1 MiB has no class and goes back to the pages as
 * soon as it is freed.
 *
 * A freed block with a class stays a block of this class for a while. It goes through a heap into the
 * pool's free list of the class, from which an empty heap takes many blocks at a time. Before a pool grows
 * and before chunks are given back, the free lists are drained: their cells become pages again.
 *
 * A freed block is used again only after its free in the order of the stream:
 *
 *   - by the stream that freed it, always;
 *   - by a stream that waits or has waited for the free, if REUSE_FOLLOW_EVENT_DEPENDENCIES;
 *   - by any stream when the free is complete, if REUSE_ALLOW_OPPORTUNISTIC, or if the process has waited for
 *     the free, so that the result does not depend on timing;
 *   - by any stream when the free is complete, if the pool is exhausted;
 *   - by a stream that is made to wait for the free (pool_take.c, step 6).
 *
 * Pages that are taken while they are pending keep their moment. A moment that has settled is dropped when
 * cells are carved from the pages, and before free lists are merged. Otherwise a block that is freed in another
 * stream later could not merge with these pages.
 *
 * Locks: pool->lock for all that belongs to a pool; cells_lock for unused arrays of cells.
 */
#include <stdlib.h>

#include "pool/pool_pages.h"

#define FREE_LIST_TRIES	32
#define ROOM_TRIES	8

uint8_t class_table[CLASS_UNITS];
uint8_t zoned_table[CLASS_UNITS];
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
	class_bytes[class] = CLASS_MAX + PAGE;
	class_keep[class] = class_keep[class - 1];
	for (unit = 1; unit < CLASS_UNITS; unit++)
		zoned_table[unit] = unit + 1 < CLASS_UNITS ? class_table[unit + 1] : class;
}

/* ---- moments */

static bool moment_reached(const struct moment *moment, const struct taker *taker)
{
	return queue_reached(moment->queue, moment->value) &&
	       (taker->opportunistic || taker->exhausted ||
		moment->value <= load_relaxed(&moment->queue->synced));
}

bool moment_settled(const struct moment *moment, const struct taker *taker)
{
	return !moment->queue || moment_reached(moment, taker);
}

/*
 * Whether the taker's stream waits for a moment. An allocation from a full pool asks this of many blocks, so
 * the answer for each queue is stored. A stored value that is too low only hides a block.
 */
static bool taker_follows(struct taker *taker, const struct moment *moment)
{
	unsigned int i = (uintptr_t)moment->queue / sizeof(*moment->queue) % TAKER_KNOWN;

	if (taker->known[i].queue != moment->queue) {
		taker->known[i].queue = moment->queue;
		taker->known[i].value = queue_followed(taker->queue, moment->queue);
	}
	return taker->known[i].value >= moment->value;
}

bool moment_passed(const struct moment *moment, const struct taker *taker)
{
	if (!moment->queue || moment->queue == taker->queue || moment_reached(moment, taker))
		return true;
	/* Every taker is a writable object: only the stored answers change, which callers do not see. */
	if (taker->follow && taker->queue && taker_follows((struct taker *)taker, moment))
		return true;
	return taker->any;
}

/* Drop a moment that has settled, so that its memory can merge with memory freed in other streams. */
static void moment_settle(struct moment *moment, const struct taker *taker)
{
	if (moment_settled(moment, taker))
		moment->queue = NULL;
}

/*
 * Make @last the later of two moments. False: neither stream is known to wait for the other, so neither moment
 * is known to be later.
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

/* How many candidates a taker looks at; all of them if the pool is exhausted. */
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

/* Take a cell of a range that has room, or return NULL. */
static struct cell *room_take(pool_t *pool, unsigned int class, const struct taker *taker)
{
	struct range *range = pool->room[class];
	unsigned int tries = tries_of(taker, ROOM_TRIES);
	struct cells *cells;
	struct cell *cell;
	uint32_t seq;

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
			seq = cell_begin(cell);
			store_relaxed(&cell->base, cells->base +
				      (uint64_t)range->carved * cells->units * CELL_UNIT);
			cell_end(cell, seq);
			cell->freed = range->freed;
			range->carved++;
		}
		if (++range->out == cells->count)
			room_remove(pool, range);
		return cell;
	}
	return NULL;
}

/* Make a range of cells. False: there are no pages or no memory for it. */
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

/* ---- free lists */

void free_list_put(pool_t *pool, struct cell *cell, unsigned int class)
{
	struct bin *bin = &pool->free_list[class];

	store_relaxed(&cell->next, bin->head);
	bin->head = cell;
	bin->count++;
}

static struct cell *free_list_take(pool_t *pool, unsigned int class, const struct taker *taker)
{
	struct bin *bin = &pool->free_list[class];
	struct cell **link, *cell;
	unsigned int tries = tries_of(taker, FREE_LIST_TRIES);

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

void free_lists_drain(pool_t *pool, const struct taker *taker)
{
	unsigned int class;

	for (class = 0; class < CLASSES; class++) {
		struct bin *bin = &pool->free_list[class];
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

/* Count a cell of a range that is in a free list, for free_lists_merge(). */
static void merge_count(struct range *range, const struct cell *cell, const struct taker *taker)
{
	if (!range->pending++) {
		/* Begin with the moment of the range's pages. */
		moment_settle(&range->freed, taker);
		range->last = range->freed;
		range->mixed = false;
	}
	if (!range->mixed && !moment_later(&range->last, &cell->freed))
		range->mixed = true;
}

/* The cells of the free lists are pending. A range that becomes pages gets the last moment of its cells. */
void free_lists_merge(pool_t *pool, const struct taker *taker)
{
	unsigned int class;

	for (class = 0; class < CLASSES_CELLS; class++) {
		struct bin *bin = &pool->free_list[class];
		struct cell **link, *cell;

		for (cell = bin->head; cell; cell = cell->next)
			merge_count(range_of(cell->base), cell, taker);
		for (link = &bin->head; (cell = *link);) {
			struct range *range = range_of(cell->base);
			bool last = range->pending == range->out && !range->mixed;

			if (!last) {
				/* Some of its cells are live or in heaps, or no moment is known to be the last. */
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
	struct cell *cell = free_list_take(pool, class, taker);

	if (!cell && class < CLASSES_CELLS)
		cell = room_take(pool, class, taker);
	return cell;
}

struct cell *cells_take(pool_t *pool, uint64_t size, const struct taker *taker)
{
	struct range *range;

	if (size <= CLASS_MAX) {
		unsigned int class = class_of(pool, size);
		struct cell *cell = cells_spare(pool, class, taker);

		if (cell)
			return cell;
		pages_settle(pool, taker, 4);
		if (class < CLASSES_CELLS)
			return room_make(pool, class, taker) ? room_take(pool, class, taker) : NULL;
		size = class_bytes[class];
	} else {
		pages_settle(pool, taker, 4);
		size += pool_zone(pool, size);
	}
	range = pages_take(pool, round_up(size, PAGE) / PAGE, taker);
	return range ? &range->cell : NULL;
}
