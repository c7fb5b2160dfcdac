/* SPDX-License-Identifier: MIT */
/*
 * Pools: entering heaps, and claiming the block that is freed.  pool_owner.c has the rules.
 */
#ifndef GPUMEM_POOL_OWNER_H
#define GPUMEM_POOL_OWNER_H

#include "pool.h"

extern bool pool_owners;		/* heaps have owners; constant once there is a pool */
extern bool pool_asymmetric;		/* membarrier works; constant once there is a pool */

/* Before the first pool. */
void owners_init(bool have_key);

/* By the owner, if it is this thread. */
static inline bool heap_enter(struct heap *heap)
{
	if (unlikely(load_relaxed(&heap->owner) != &pool_thread))
		return false;
	store_relaxed(&heap->busy, 1);
	if (likely(pool_asymmetric))
		__asm__ volatile("" ::: "memory");
	else
		fence_full();
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

/* By any thread. The heap is this thread's alone until heap_drop(). */
void heap_claim(struct heap *heap);
void heap_drop(struct heap *heap);
/* The same for work in the heap's stream: the thread may become the owner. */
void heap_claim_to_use(struct heap *heap, struct tally *tally);
/*
 * Claim the heaps of a pool, all or those of one owner, with one barrier; call @fn with each and
 * drop it.  pool->lock is held.
 */
void heaps_each(pool_t *pool, const struct tally *owner, void (*fn)(struct heap *heap));

#endif /* GPUMEM_POOL_OWNER_H */
