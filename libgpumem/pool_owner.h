/* SPDX-License-Identifier: MIT */
/*
 * Pools: entering heaps, and claiming the block that is freed.  pool_owner.c has the rules.
 */
#ifndef GPUMEM_POOL_OWNER_H
#define GPUMEM_POOL_OWNER_H

#include "pool.h"

extern bool pool_owners;		/* heaps have owners; constant once there is a pool */
extern bool pool_asymmetric;		/* membarrier works; goes to false only; atomic */

/* Before the first pool. */
void owners_init(bool have_key);

/* The barrier of an owner that is about to enter a heap, where membarrier does not work. */
void owner_fence(void);

/* By the owner, if it is this thread. */
static inline bool heap_enter(struct heap *heap)
{
	if (unlikely(load_relaxed(&heap->owner) != &pool_thread))
		return false;
	store_relaxed(&heap->busy, 1);
	if (likely(load_relaxed(&pool_asymmetric)))
		__asm__ volatile("" ::: "memory");
	else
		owner_fence();
	/* A thread that revoked the heap may have taken it away meanwhile, and be done. */
	if (likely(!load_acquire(&heap->revoked) && load_relaxed(&heap->owner) == &pool_thread))
		return true;
	store_release(&heap->busy, 0);
	return false;
}

static inline void heap_leave(struct heap *heap)
{
	store_release(&heap->busy, 0);
}

/*
 * By any thread. The heap is this thread's alone until heap_drop(). False, if the thread does not own
 * the heap: membarrier failed, and the owner has not entered a heap since.
 */
bool heap_claim(struct heap *heap);
void heap_drop(struct heap *heap);
/* The same for work in the heap's stream: the thread may become the owner. */
bool heap_claim_to_use(struct heap *heap, struct tally *tally);
/*
 * Claim the heaps of a pool, all or those of one owner, with one barrier; call @fn with each and
 * drop it. Those that cannot be claimed are left out.  pool->lock is held.
 */
void heaps_each(pool_t *pool, const struct tally *owner, void (*fn)(struct heap *heap));

/* ---- claiming blocks */

#define PLAIN_NEVER	(~0u)		/* matches no cell's flags */

/* A new tally gets a mark, and loses it when its thread ends; pool->lock is held. */
void mark_get(pool_t *pool, struct tally *tally);
void mark_put(pool_t *pool, struct tally *tally);

/*
 * Claim the live block of a pool that begins at @ptr: it is dead then, and the caller's to release.
 * False: there is none, or another thread has claimed it. Neither a heap nor a lock is held.
 */
bool cell_claim(pool_t *pool, struct cell *cell, uint64_t ptr, uint64_t *size);
/*
 * The same for a cell without a mark that was seen with @size; false if it takes cell_claim() to
 * tell. A heap may be held.
 */
bool cell_claim_shared(struct cell *cell, uint64_t ptr, uint64_t size);

static inline void cell_dead(struct cell *cell)
{
	cell_begin(cell);
	store_relaxed(&cell->size, 0);
	cell_end(cell);
}

/*
 * Whether the owner, in a heap that it entered, claims a cell by cell_dead(). It must have read before
 * that the cell is live.
 */
static inline bool cell_plain(const struct heap *heap, const struct cell *cell)
{
	return likely(load_relaxed(&cell->flags) == load_relaxed(&heap->tally->plain));
}

#endif /* GPUMEM_POOL_OWNER_H */
