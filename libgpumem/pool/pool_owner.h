/* SPDX-License-Identifier: MIT */
/*
 * Pools: how a thread enters a heap, and how a free claims its block. pool_owner.c has the rules and locks.
 */
#ifndef GPUMEM_POOL_OWNER_H
#define GPUMEM_POOL_OWNER_H

#include "pool/parts.h"

extern HIDDEN bool pool_owners;		/* heaps have owners; constant once there is a pool */
extern HIDDEN bool pool_asymmetric;		/* membarrier works; goes to false only; atomic */

/* Before the first pool. */
void owners_init(bool have_key);

/* The barrier of an owner that is about to enter a heap, where membarrier does not work. */
void owner_fence(void);

/* Enter a heap; true if the calling thread owns it. */
static inline bool heap_enter(struct heap *heap)
{
	if (unlikely(load_relaxed(&heap->owner) != &pool_thread))
		return false;
	store_relaxed(&heap->inside, 1);
	if (likely(load_relaxed(&pool_asymmetric)))
		__asm__ volatile("" ::: "memory");
	else
		owner_fence();
	/* Meanwhile another thread may have revoked the heap, changed its owner and dropped it. */
	if (likely(!load_acquire(&heap->revoked) && load_relaxed(&heap->owner) == &pool_thread))
		return true;
	store_release(&heap->inside, 0);
	return false;
}

/*
 * The same for the fast paths. This function calls no other, so that the caller saves no registers. It also
 * returns false if membarrier does not work: the slow paths have the barrier.
 */
static inline bool heap_enter_fast(struct heap *heap)
{
	const void *self = &pool_thread;

	/* Both comparisons use one computation of the address. */
	__asm__("" : "+r"(self));
	if (unlikely(load_relaxed(&heap->owner) != self || !load_relaxed(&pool_asymmetric)))
		return false;
	store_relaxed(&heap->inside, 1);
	__asm__ volatile("" ::: "memory");
	if (likely(!load_acquire(&heap->revoked) && load_relaxed(&heap->owner) == self))
		return true;
	store_release(&heap->inside, 0);
	return false;
}

/*
 * Called in the slow paths. If membarrier does not work, other threads may claim this thread's heaps from now
 * on, because this thread executes a barrier each time that it enters a heap.
 */
static inline void owner_seen(void)
{
	if (unlikely(!load_relaxed(&pool_asymmetric)))
		owner_fence();
}

static inline void heap_leave(struct heap *heap)
{
	store_release(&heap->inside, 0);
}

/*
 * Get sole use of a heap, for any thread, until heap_drop(). False: another thread owns the heap, membarrier
 * failed, and the owner has neither allocated nor freed since.
 */
bool heap_claim(struct heap *heap);
void heap_drop(struct heap *heap);
/* The same, for an operation in the heap's stream: the calling thread may become the owner. */
bool heap_claim_to_use(struct heap *heap, struct tally *tally);
/*
 * Claim all heaps of a pool, or, if @retired, those of owners whose marks are retired, with one barrier. Call
 * @fn with each and drop it. Heaps that cannot be claimed are left out.  pool->lock is held.
 */
void heaps_each(pool_t *pool, bool retired, void (*fn)(struct heap *heap));

/* ---- claiming blocks */

#define PLAIN_NEVER	(~0u)		/* matches no cell's flags */

/* A new tally gets a mark, and loses it when its thread ends; pool->lock is held. */
void mark_get(pool_t *pool, struct tally *tally);
void mark_put(pool_t *pool, struct tally *tally);
/* The structure becomes another pool: un-retire all marks. pool->lock is held. */
void marks_reset(pool_t *pool);

/*
 * Claim the live block of a pool that begins at @ptr: the block is no longer live, and the caller must release
 * it. False: there is no such block, or another thread has claimed it. The caller holds no heap and no lock.
 */
bool cell_claim(pool_t *pool, struct cell *cell, uint64_t ptr, uint64_t *size);
/*
 * The same for a cell without a mark that had @size when the caller read it. False: the caller must use
 * cell_claim(). The caller may hold a heap.
 */
bool cell_claim_shared(struct cell *cell, uint64_t ptr, uint64_t size);

static inline void cell_dead(struct cell *cell)
{
	uint32_t seq = cell_begin(cell);

	store_relaxed(&cell->size, 0);
	cell_end(cell, seq);
}

/*
 * Whether the owner of a heap, having entered it, may claim a cell by cell_dead(). The owner must have read
 * before that the cell is live.
 */
static inline bool cell_plain(const struct heap *heap, const struct cell *cell)
{
	return likely(load_relaxed(&cell->flags) == load_relaxed(&heap->tally->plain));
}

/* ---- heaps (pool_heap.c) */

static inline struct heap *heap_of(CUstream stream, const pool_t *pool)
{
	struct heap *heap = load_acquire(&stream->heaps);

	while (heap && unlikely(heap->pool != pool))
		heap = load_acquire(&heap->next_of_stream);
	return heap;
}

/* The heap of a stream in a pool, made if there is none; NULL if there is no memory. */
struct heap *heap_make(CUstream stream, pool_t *pool);
/* Move cells of a class from this thread's heaps to the free list. False: there were none. pool->lock is held. */
bool heaps_gather(pool_t *pool, unsigned int class);
/* Take cells for later allocations of the same stream, if some are at hand. pool->lock is held. */
void heap_fill(struct heap *heap, unsigned int class, const struct taker *taker);

static inline void cell_live(struct cell *cell, uint64_t size, struct tally *tally)
{
	uint32_t seq = cell_begin(cell);

	store_relaxed(&cell->flags, load_relaxed(&tally->birth));
	store_relaxed(&cell->id, tally->id++);
	/* After the flags: pool_owner.c. */
	store_release(&cell->size, size);
	cell_end(cell, seq);
	tally_add(tally, size);
}

/*
 * Free a cell that cell_claim() claimed, after the work of @freed, or keep it for the checker. @stream: its heap may
 * get the cell; or NULL. No lock is held.
 */
void cell_free_claimed(pool_t *pool, struct cell *cell, uint64_t size, CUstream stream, const struct moment *freed);

/* ---- freed blocks that the checker keeps (pool_quarantine.c); no lock is held */

extern HIDDEN unsigned int pools_short;	/* threads that look for memory for the last time; atomic */

/* Keep a claimed cell that has its moment; client.quarantine is not 0. False: the caller frees it. */
bool pool_quarantine_add(pool_t *pool, struct cell *cell, uint64_t size);
/* Look at the red zone of a claimed cell that is not kept. */
void pool_zone_look(const struct cell *cell, uint64_t size);
/* Fill what a pool keeps and whose work is done. */
void pool_quarantine_fill(pool_t *pool);
/* Release all that a pool keeps. */
void pool_quarantine_release(pool_t *pool);
/* Look at all that a pool keeps, without releasing it. */
void pool_quarantine_verify(pool_t *pool);
/* The pool that keeps the oldest block, or NULL (pool.c). */
pool_t *pool_quarantined_first(void);

/* ---- allocations that no heap serves (pool_take.c) */

#define POOL_GONE	((CUresult)-1)	/* internal: the pool ended, or is not the current one any more */

/* @where: the pool must still be this one, or NULL. */
CUresult pool_alloc_slow(CUdeviceptr *ptr, uint64_t size, pool_t *pool, CUstream stream, pool_t *const *where);

#endif /* GPUMEM_POOL_OWNER_H */
