// SPDX-License-Identifier: MIT
/*
 * Pools: red zones, and freed blocks that the checker keeps (memory/quarantine.c does the same for other memory).
 *
 * With GPUMEM_CHECK=1, at least RED_ZONE bytes behind a block belong to no block. Such a block has a larger class
 * (zoned_table) or another page. Blocks of whole slots have no zone, nor have blocks of pools with a limit, of managed
 * pools and of imported pools.
 *
 * An allocation that the checker sees writes a pattern into the zone, unless earlier work may still use these bytes.
 * The release of a kept block compares the pattern, and the end of the process does. The free of a block that is not
 * kept compares it at once, and does not wait for the work before the free. A byte that differs is a report.
 *
 * Owns a list of each pool. With GPUMEM_CHECK=1, a freed block is not reused for a while. Until then a call that
 * names it is a use after free, also after further allocations. A kept block is not live, and counts as reserved.
 *
 * When the work before the free is done, the next free of a block of the pool fills the block with a pattern, or
 * the next wait of the program. A byte that differs when a filled block is released, or when the process ends, is
 * a report.
 *
 * When pools keep more than client.quarantine bytes or KEPT_MOST blocks, the oldest block of all pools is
 * released. All blocks that a pool keeps are released when
 *
 *   - the pool is trimmed or destroyed;
 *   - an allocation finds no memory;
 *   - the program waits for work, and the pool has more than its release threshold.
 *
 * Not kept are
 *
 *   - blocks that have more than half of client.quarantine;
 *   - blocks of chunks that other processes or drivers may reach. Those that are kept already are not looked at
 *     any more;
 *   - blocks of a pool with a limit. While work is pending, what is kept may leave such a pool no range that is
 *     large enough;
 *   - blocks of a pool that is destroyed;
 *   - blocks that cuMemFree() frees while work is pending in several streams (pool_late.c).
 *
 * Blocks have no pattern in managed memory, because the fill would move pages, nor where the CPU does not reach
 * them, in strict mode.
 *
 * Locks: pool->lock, also while a block is filled or looked at: only programs that are checked pay for that. The
 * checker is told without it.
 */
#include <stdlib.h>

#include "pool/pool_owner.h"
#include "pool/pool_pages.h"

#define KEPT_MOST	500u		/* memory/quarantine.c keeps as many, and the checker knows 1,024 frees */
#define CHANGES		16u
#define VERIFY_TRIES	1000u		/* of a millisecond, for all pools */

struct quarantined {
	struct quarantined *next;
	struct cell *cell;
	uint64_t size;
	uint64_t number;		/* later ones have higher numbers */
	bool filled;			/* with the pattern */
	bool zoned;			/* the zone has its pattern */
};

/* What is to be reported without the lock. */
struct changes {
	unsigned int count;
	struct {
		uint64_t base, size, offset;
	} change[CHANGES];
};

static uint64_t kept_bytes;		/* of all pools; atomic */
static unsigned int kept_count;		/* the same */

static bool too_much(void)
{
	return load_relaxed(&kept_bytes) > client.quarantine || load_relaxed(&kept_count) > KEPT_MOST;
}

static bool exported(const struct cell *cell)
{
	return (load_relaxed(&cell->flags) | load_relaxed(&range_of(cell->base)->chunk->flags)) & ALLOC_EXPORTED;
}

/* Note the first byte in [@from, @to) that is not @pattern. False: there is such a byte, and no room for a report. */
static bool compare(const struct cell *cell, uint64_t size, uint64_t from, uint64_t to, unsigned char pattern,
		    struct changes *changes)
{
	const unsigned char *bytes = (const unsigned char *)(uintptr_t)cell->base;
	uint64_t at = from + pattern_end(bytes + from, to - from, pattern);

	if (at == to)
		return true;
	if (changes->count == CHANGES)
		return false;
	changes->change[changes->count].base = cell->base;
	changes->change[changes->count].size = size;
	changes->change[changes->count++].offset = at;
	return true;
}

/* Compare a kept block and its zone. A change is reported once. False: there is no room for another report. */
static bool look(struct quarantined *kept, struct changes *changes)
{
	unsigned int before = changes->count;

	if (exported(kept->cell))
		return true;
	if (kept->filled && !compare(kept->cell, kept->size, 0, kept->size, PATTERN_FREED, changes))
		return false;
	kept->filled = kept->filled && changes->count == before;
	before = changes->count;
	if (kept->zoned &&
	    !compare(kept->cell, kept->size, kept->size, kept->size + RED_ZONE, PATTERN_ZONE, changes))
		return false;
	kept->zoned = kept->zoned && changes->count == before;
	return true;
}

static void tell(const struct changes *changes)
{
	unsigned int i;

	for (i = 0; i < changes->count; i++)
		if (client.tap && client.tap->changed)
			client.tap->changed(changes->change[i].base, changes->change[i].size, changes->change[i].offset);
}

/* Release the oldest block of a pool. False: there is no room for its report. pool->lock is held. */
static bool release_first(pool_t *pool, struct changes *changes)
{
	struct quarantined *kept = pool->quarantined;

	if (!look(kept, changes))
		return false;
	store_relaxed(&pool->quarantined, kept->next);
	store_relaxed(&pool->quarantined_since, kept->next ? kept->next->number : UINT64_MAX);
	if (pool->quarantined_bare == kept)
		store_relaxed(&pool->quarantined_bare, kept->next);
	__atomic_fetch_sub(&kept_bytes, kept->size, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&kept_count, 1, __ATOMIC_RELAXED);
	/* Another thread may have shared the block while it was freed. */
	if (load_relaxed(&kept->cell->flags) & ALLOC_EXPORTED) {
		share_drop_of_pool(kept->cell->id);
		late_hold(pool, kept->cell, kept->size);
	} else {
		cell_return(pool, kept->cell, kept->size);
	}
	free(kept);
	return true;
}

/* Whether a pool's blocks get the pattern. */
static bool patterned(const pool_t *pool)
{
	return !pool_is(pool, POOL_MANAGED) && (!client.strict || pool_is(pool, POOL_HOST));
}

/* ---- red zones */

/* Bytes from the beginning of a live cell to the end of its room. */
static uint64_t room_of(const struct cell *cell)
{
	const struct range *range = range_of(cell->base);
	const struct cells *cells = load_acquire(&range->cells);

	return cells ? cells->units * CELL_UNIT : range->pages * PAGE;
}

static void zone_fill(uint64_t base)
{
	struct chunk *chunk = vm_chunk(base);
	struct cell *cell;
	uint64_t size;

	if (!chunk || !patterned(chunk->pool))
		return;
	cell = pool_cell_live(chunk, base, &size);
	/* The pool may have been destroyed while the thread allocated, and the structure may be another pool. */
	if (!cell || !pool_zone(chunk->pool, size) || size + RED_ZONE > room_of(cell))
		return;
	/* The work of an earlier block, which was larger, may still use the zone. */
	if (cell->freed.queue && !queue_reached(cell->freed.queue, cell->freed.value))
		return;
	memset((void *)(uintptr_t)(base + size), PATTERN_ZONE, RED_ZONE);
	__atomic_fetch_or(&cell->flags, CELL_ZONED, __ATOMIC_RELAXED);
}

CUresult pool_alloc_checked(CUdeviceptr *ptr, uint64_t size, pool_t *pool, CUstream stream)
{
	CUdeviceptr base = 0, *to = ptr ? &base : NULL;
	CUresult result = pool ? pool_alloc(to, size, pool, stream) : pool_alloc_current(to, size, stream);

	if (!ptr)
		return result;
	/*
	 * The program does not know the address yet. A thread that frees it by a stale pointer may release the cell first;
	 * then the flag ends with the next allocation of the cell.
	 */
	if (base && client.zoned)
		zone_fill(base);
	*ptr = base;
	return result;
}

void pool_zone_look(const struct cell *cell, uint64_t size)
{
	struct changes changes = { .count = 0 };

	if (!(load_relaxed(&cell->flags) & CELL_ZONED) || exported(cell))
		return;
	compare(cell, size, size, size + RED_ZONE, PATTERN_ZONE, &changes);
	tell(&changes);
}

/* ---- quarantine */

/* Fill the blocks whose work is done. pool->lock is held. */
static void fill(pool_t *pool)
{
	struct quarantined *kept, *bare = NULL;

	for (kept = pool->quarantined_bare; kept; kept = kept->next) {
		const struct moment *freed = &kept->cell->freed;

		if (kept->filled || exported(kept->cell))
			continue;
		if (freed->queue && !queue_reached(freed->queue, freed->value)) {
			bare = bare ? bare : kept;
			continue;
		}
		memset((void *)(uintptr_t)kept->cell->base, PATTERN_FREED, kept->size);
		kept->filled = true;
	}
	store_relaxed(&pool->quarantined_bare, bare);
}

void pool_quarantine_fill(pool_t *pool)
{
	if (likely(!client.quarantine) || !load_relaxed(&pool->quarantined_bare))
		return;
	lock_take(&pool->lock);
	fill(pool);
	lock_drop(&pool->lock);
}

/* Release the oldest blocks of all pools if there is too much. */
static void reduce(void)
{
	struct changes changes;
	pool_t *pool;

	while (too_much() && (pool = pool_quarantined_first())) {
		changes.count = 0;
		lock_take(&pool->lock);
		if (pool->quarantined)
			release_first(pool, &changes);
		store_relaxed(&pool->dirty, true);
		pool_leave(pool);
		tell(&changes);
	}
}

bool pool_quarantine_add(pool_t *pool, struct cell *cell, uint64_t size)
{
	static uint64_t numbers;	/* atomic */
	struct quarantined *kept;
	struct tally *tally;

	if (size > client.quarantine / 2 || pool->limit || exported(cell))
		return false;
	/* Another thread is about to look for free memory for the last time. */
	if (load_relaxed(&pools_short))
		return false;
	kept = malloc(sizeof(*kept));
	tally = kept ? tally_get(pool) : NULL;
	if (!tally) {
		free(kept);
		return false;
	}
	*kept = (struct quarantined){
		.cell = cell, .size = size, .zoned = load_relaxed(&cell->flags) & CELL_ZONED,
	};
	lock_take(&pool->lock);
	if (pool_is(pool, POOL_DESTROYED)) {
		lock_drop(&pool->lock);
		free(kept);
		return false;
	}
	tally_add(tally, -(int64_t)size);
	kept->number = __atomic_add_fetch(&numbers, 1, __ATOMIC_RELAXED);
	if (pool->quarantined) {
		pool->quarantined_last->next = kept;
	} else {
		store_relaxed(&pool->quarantined_since, kept->number);
		store_release(&pool->quarantined, kept);
	}
	pool->quarantined_last = kept;
	if (!pool->quarantined_bare && patterned(pool))
		store_relaxed(&pool->quarantined_bare, kept);
	fill(pool);
	__atomic_fetch_add(&kept_count, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&kept_bytes, size, __ATOMIC_RELAXED);
	store_relaxed(&pool->dirty, true);
	lock_drop(&pool->lock);
	reduce();
	return true;
}

void pool_quarantine_release(pool_t *pool)
{
	struct changes changes;

	if (likely(!client.quarantine) || !load_relaxed(&pool->quarantined))
		return;
	do {
		changes.count = 0;
		lock_take(&pool->lock);
		while (pool->quarantined && release_first(pool, &changes))
			;
		pool_leave(pool);
		tell(&changes);
	} while (changes.count == CHANGES);
}

void pool_quarantine_verify(pool_t *pool)
{
	static unsigned int tries;
	struct quarantined *kept;
	struct changes changes;

	if (!client.quarantine)
		return;
	do {
		changes.count = 0;
		/* The process ends, maybe in a handler that has interrupted a thread with the lock. */
		while (!lock_try(&pool->lock)) {
			if (tries == VERIFY_TRIES)
				return;
			tries++;
			thread_nap();
		}
		for (kept = pool->quarantined; kept && look(kept, &changes); kept = kept->next)
			;
		lock_drop(&pool->lock);
		tell(&changes);
	} while (changes.count == CHANGES);
}

CUresult pool_free_checked(uint64_t ptr, CUstream stream)
{
	struct chunk *chunk = client.zoned ? vm_chunk(ptr) : NULL;
	struct moment freed;
	struct cell *cell;
	uint64_t size;
	pool_t *pool;
	CUresult result;

	if (!chunk || load_acquire(&chunk->imports))
		return pool_free(ptr, stream);
	cell = pool_cell_live(chunk, ptr, &size);
	if (!cell)
		return pool_free(ptr, stream);
	result = stream_moment(stream, &freed.queue, &freed.value);
	if (result)
		return result;
	owner_seen();
	pool = chunk->pool;
	if (!cell_claim(pool, cell, ptr, &size))
		return CUDA_ERROR_INVALID_VALUE;
	cell_free_claimed(pool, cell, size, stream, &freed);
	return CUDA_SUCCESS;
}
