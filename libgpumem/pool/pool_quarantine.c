// SPDX-License-Identifier: MIT
/*
 * Pools: freed blocks that the checker keeps (memory/quarantine.c does the same for other memory).
 *
 * Owns a list of each pool. With GPUMEM_CHECK=1, a block that cuMemFreeAsync() or cuMemFree() frees is not reused for a
 * while. Until then a call that names it is a use after free, also after further allocations. When all work is done that
 * the free comes after, the block is filled with a pattern. A byte that differs when the block is released, or when the
 * process ends, is a report.
 *
 * A kept block is not live, and counts as reserved. The oldest is released when more than client.quarantine bytes or
 * KEPT_MOST blocks are kept. All of a pool's are released when it is destroyed or trimmed, when it gives memory back, and
 * when it finds none. Not kept are blocks that other processes or drivers may reach, nor blocks of a pool with a limit: while
 * work is pending, what is kept may leave such a pool no range that is large enough. Managed memory has no pattern, because
 * the fill would move pages; nor has memory that the CPU does not reach, in strict mode.
 *
 * Locks: pool->lock. The checker is told without it.
 */
#include <stdlib.h>
#include <string.h>

#include "pool/pool_owner.h"
#include "pool/pool_pages.h"

#define PATTERN		0xdd
#define KEPT_MOST	1000u
#define CHANGES		16u

struct quarantined {
	struct quarantined *next;
	struct cell *cell;
	uint64_t size;
	bool filled;			/* with the pattern */
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

static bool has_pattern(const pool_t *pool)
{
	return !pool_is(pool, POOL_MANAGED) && (!client.strict || pool_is(pool, POOL_HOST));
}

/* Look at a block, once. */
static void look(struct quarantined *kept, struct changes *changes)
{
	const unsigned char *bytes = (const unsigned char *)(uintptr_t)kept->cell->base;
	uint64_t i;

	for (i = 0; kept->filled && i < kept->size; i++) {
		if (bytes[i] == PATTERN)
			continue;
		kept->filled = false;
		if (changes->count == CHANGES)
			return;
		changes->change[changes->count].base = kept->cell->base;
		changes->change[changes->count].size = kept->size;
		changes->change[changes->count++].offset = i;
	}
}

static void tell(const struct changes *changes)
{
	unsigned int i;

	for (i = 0; i < changes->count; i++)
		if (client.tap && client.tap->changed)
			client.tap->changed(changes->change[i].base, changes->change[i].size, changes->change[i].offset);
}

/* Release the oldest. pool->lock is held. */
static void release_first(pool_t *pool, struct changes *changes)
{
	struct quarantined *kept = pool->quarantined;

	look(kept, changes);
	store_relaxed(&pool->quarantined, kept->next);
	if (pool->quarantined_bare == kept)
		pool->quarantined_bare = kept->next;
	__atomic_fetch_sub(&kept_bytes, kept->size, __ATOMIC_RELAXED);
	__atomic_fetch_sub(&kept_count, 1, __ATOMIC_RELAXED);
	cell_return(pool, kept->cell, kept->size);
	free(kept);
}

/* Fill the blocks whose work is done, oldest first. pool->lock is held. */
static void fill(pool_t *pool)
{
	struct quarantined *kept;

	while (has_pattern(pool) && (kept = pool->quarantined_bare)) {
		const struct moment *freed = &kept->cell->freed;

		if (freed->queue && !queue_reached(freed->queue, freed->value))
			return;
		memset((void *)(uintptr_t)kept->cell->base, PATTERN, kept->size);
		kept->filled = true;
		pool->quarantined_bare = kept->next;
	}
}

static bool may_keep(const pool_t *pool, const struct cell *cell, uint64_t size)
{
	const struct chunk *chunk = range_of(cell->base)->chunk;

	return size <= client.quarantine / 2 && !pool->limit &&
	       !((load_relaxed(&cell->flags) | load_relaxed(&chunk->flags)) & ALLOC_EXPORTED);
}

bool pool_quarantine_add(pool_t *pool, struct cell *cell, uint64_t size)
{
	struct changes changes = { .count = 0 };
	struct tally *tally;
	struct quarantined *kept;

	if (!client.quarantine || !may_keep(pool, cell, size))
		return false;
	kept = malloc(sizeof(*kept));
	tally = kept ? tally_get(pool) : NULL;
	if (!tally) {
		free(kept);
		return false;
	}
	*kept = (struct quarantined){ .cell = cell, .size = size };
	lock_take(&pool->lock);
	if (pool_is(pool, POOL_DESTROYED)) {
		lock_drop(&pool->lock);
		free(kept);
		return false;
	}
	tally_add(tally, -(int64_t)size);
	if (pool->quarantined)
		pool->quarantined_last->next = kept;
	else
		store_relaxed(&pool->quarantined, kept);
	pool->quarantined_last = kept;
	if (!pool->quarantined_bare)
		pool->quarantined_bare = kept;
	fill(pool);
	/* If other pools keep too much, this one keeps nothing. */
	__atomic_fetch_add(&kept_count, 1, __ATOMIC_RELAXED);
	if (__atomic_add_fetch(&kept_bytes, size, __ATOMIC_RELAXED) > client.quarantine ||
	    load_relaxed(&kept_count) > KEPT_MOST)
		while (pool->quarantined && (load_relaxed(&kept_bytes) > client.quarantine ||
				      load_relaxed(&kept_count) > KEPT_MOST))
			release_first(pool, &changes);
	store_relaxed(&pool->dirty, true);
	pool_leave(pool);
	tell(&changes);
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
		while (pool->quarantined && changes.count < CHANGES)
			release_first(pool, &changes);
		pool_leave(pool);
		tell(&changes);
	} while (changes.count == CHANGES);
}

void pool_quarantine_drop(pool_t *pool)
{
	struct changes changes = { .count = 0 };

	while (pool->quarantined)
		release_first(pool, &changes);
}

void pool_quarantine_verify(pool_t *pool)
{
	struct changes changes = { .count = 0 };
	struct quarantined *kept;

	/* The process ends, maybe in a handler that has interrupted a thread with the lock. */
	if (!client.quarantine || !lock_try(&pool->lock))
		return;
	for (kept = pool->quarantined; kept; kept = kept->next)
		look(kept, &changes);
	lock_drop(&pool->lock);
	tell(&changes);
}

CUresult pool_free_checked(uint64_t ptr, CUstream stream)
{
	struct chunk *chunk = client.quarantine ? vm_chunk(ptr) : NULL;
	struct moment freed;
	struct cell *cell;
	uint64_t size;
	pool_t *pool;
	CUresult result;

	if (!chunk || load_acquire(&chunk->imports) || !(cell = pool_cell_live(chunk, ptr, &size)))
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
