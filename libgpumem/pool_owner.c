// SPDX-License-Identifier: MIT
/*
 * Pools: which thread may be in a heap, and which free of a block is the first.
 *
 * Owns the protocol between the owner of a heap and the other threads, and the claims of blocks.
 *
 * The thread that makes a heap owns it and enters it by storing "busy" and reading "revoked".
 * Another thread takes the heap's lock, stores "revoked", has the kernel make all threads of the
 * process execute a barrier (membarrier) and waits until the owner has left: either the owner sees
 * that the heap is revoked, and takes the lock, or the other thread sees that the owner is in.
 * Where there is no membarrier the owner executes a barrier itself. A stream that two threads use
 * loses its heap's owner; both take the lock from then on.
 *
 * membarrier can stop working: a filter of system calls that the program installs, or no memory. The
 * first failure clears pool_asymmetric for good. An owner that reads this has a barrier in every entry
 * from then on, the present one included, and says so in all its tallies (tally->fenced). Before, it
 * may be inside unseen: its store of "busy" need not have come out of its CPU. So a heap whose owner
 * has not said so cannot be claimed by another thread, however long ago the failure was. What lies in
 * such a heap stays there until the owner enters any heap of its own, or ends; the other threads do
 * without: they allocate from the pool, free to the depot, and leave the heap of a stream that is
 * destroyed in the pool's list. A wait for the owner would have no end if it does not use pools again.
 *
 * A free claims the block: of two frees of one block at the same time one succeeds. In general the
 * claim is a compare-and-exchange of the cell's sequence count and flags: it fails if the cell was
 * claimed, or became live again, since it was looked at. That costs as much as the rest of a free,
 * so a thread claims the blocks that it allocated itself by plain stores as long as no other thread
 * frees any of them:
 *
 *   - A tally, so a thread in a pool, has a mark, a small number. A cell carries in its flags the
 *     mark of the thread that made it live; 0 says that every claim is atomic.
 *   - A thread claims a cell by plain stores only inside a heap that it owns and entered, and only if
 *     the cell's flags are exactly tally->plain: the thread's own mark, no flag.
 *   - Another thread that frees a cell with a mark first retires the mark: it sets tally->plain to a
 *     value that no cell has, revokes all heaps of the tally, and waits until the owner has left
 *     them. From then on every claim of a cell with this mark is atomic. The thread marks no further
 *     cells in this pool, and the mark is not used again. Where a heap cannot be claimed since
 *     membarrier failed, an entry that had begun before is not waited for: of all that is described
 *     here, only a second free at that very time may then go unnoticed.
 *   - The marks of threads that end are used again: a mark has one thread at a time, and the plain
 *     stores of the earlier thread came before its end.
 *
 * The flags of a cell are stored before its size when it becomes live, and read after the size by a
 * free: so a thread that reads its own mark does not read the size of another thread's block.
 *
 * Locks: heap->lock, inside pool->lock; pool->lock for marks.
 */
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pool_owner.h"

bool pool_owners;
bool pool_asymmetric;

void owners_init(bool have_key)
{
	pool_asymmetric = !syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
	pool_owners = have_key;
}

void owner_fence(void)
{
	struct tally *tally;

	if (!pool_thread.fenced) {
		/* After "busy": who reads this sees that the owner is in. */
		for (tally = pool_thread.tallies; tally; tally = tally->next_of_thread)
			store_release(&tally->fenced, true);
		pool_thread.fenced = true;
	}
	fence_full();
}

/* After "revoked" is stored. True: every thread of the process has executed a barrier since. */
static bool owners_see(void)
{
	if (load_relaxed(&pool_asymmetric)) {
		if (!syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0))
			return true;
		store_relaxed(&pool_asymmetric, false);
	}
	fence_full();
	return false;
}

/*
 * Wait until the owner has left a heap that is revoked. False: it may be inside unseen. @seen: what
 * owners_see() said. heap->lock is held.
 */
static bool owner_out(struct heap *heap, bool seen)
{
	unsigned int i;

	if (!seen && !load_acquire(&heap->tally->fenced))
		return false;
	/* The owner may have a lower priority than this thread: sleep, so that it gets a processor. */
	for (i = 0; load_acquire(&heap->busy); i++)
		if (i >= 100)
			lock_doze();
	return true;
}

bool heap_claim(struct heap *heap)
{
	const void *owner;

	lock_take(&heap->lock);
	owner = load_relaxed(&heap->owner);
	if (!owner || owner == &pool_thread)
		return true;
	store_relaxed(&heap->revoked, 1);
	if (owner_out(heap, owners_see()))
		return true;
	heap_drop(heap);
	return false;
}

void heap_drop(struct heap *heap)
{
	store_release(&heap->revoked, 0);
	lock_drop(&heap->lock);
}

bool heap_claim_to_use(struct heap *heap, struct tally *tally)
{
	const void *owner;

	if (!heap_claim(heap))
		return false;
	owner = load_relaxed(&heap->owner);
	if (owner == &pool_thread || heap->common)
		return true;
	if (owner) {
		heap->common = true;
		store_relaxed(&heap->owner, NULL);
		heap->tally = NULL;
	} else if (pool_owners) {
		heap->tally = tally;
		store_relaxed(&heap->owner, &pool_thread);
	}
	return true;
}

void heaps_each(pool_t *pool, const struct tally *owner, void (*fn)(struct heap *heap))
{
	struct heap *heap;
	bool foreign = false, seen = false;

	for (heap = pool->heaps; heap; heap = heap->next_of_pool) {
		const void *thread;

		lock_take(&heap->lock);
		thread = load_relaxed(&heap->owner);
		if ((!owner || heap->tally == owner) && thread && thread != &pool_thread) {
			store_relaxed(&heap->revoked, 1);
			foreign = true;
		}
	}
	if (foreign)
		seen = owners_see();
	for (heap = pool->heaps; heap; heap = heap->next_of_pool) {
		bool out = !load_relaxed(&heap->revoked) || owner_out(heap, seen);

		if (out && (!owner || heap->tally == owner))
			fn(heap);
		heap_drop(heap);
	}
}

/* ---- marks */

void mark_get(pool_t *pool, struct tally *tally)
{
	unsigned int mark;

	store_relaxed(&tally->birth, 0);
	store_relaxed(&tally->plain, PLAIN_NEVER);
	if (!pool_owners)
		return;
	for (mark = 1; mark < MARKS; mark++) {
		uint64_t bit = 1ull << mark % 64, taken = pool->marks_used[mark / 64] |
			load_relaxed(&pool->marks_retired[mark / 64]);

		if (taken & bit)
			continue;
		pool->marks_used[mark / 64] |= bit;
		store_relaxed(&tally->birth, mark << CELL_MARK_SHIFT);
		store_relaxed(&tally->plain, mark << CELL_MARK_SHIFT);
		return;
	}
}

void mark_put(pool_t *pool, struct tally *tally)
{
	uint32_t mark = load_relaxed(&tally->birth) >> CELL_MARK_SHIFT;

	if (mark)
		pool->marks_used[mark / 64] &= ~(1ull << mark % 64);
}

static bool mark_retired(pool_t *pool, uint32_t mark)
{
	return load_acquire(&pool->marks_retired[mark / 64]) >> mark % 64 & 1;
}

/* Whether @mark belongs to the calling thread. */
static bool mark_mine(pool_t *pool, uint32_t mark)
{
	struct tally *tally;

	for (tally = pool_thread.tallies; tally; tally = tally->next_of_thread)
		if (tally->pool == pool)
			return load_relaxed(&tally->birth) == mark << CELL_MARK_SHIFT;
	return false;
}

static void heap_left(struct heap *heap)
{
	(void)heap;
}

static void mark_retire(pool_t *pool, uint32_t mark)
{
	struct tally *tally;

	lock_take(&pool->lock);
	if (mark_retired(pool, mark))
		goto out;
	for (tally = pool->tallies; tally; tally = tally->next_of_pool)
		if (load_relaxed(&tally->birth) == mark << CELL_MARK_SHIFT)
			break;
	if (tally) {
		store_relaxed(&tally->birth, 0);
		store_relaxed(&tally->plain, PLAIN_NEVER);
		heaps_each(pool, tally, heap_left);
	}
	store_release(&pool->marks_retired[mark / 64],
		      load_relaxed(&pool->marks_retired[mark / 64]) | 1ull << mark % 64);
out:
	lock_drop(&pool->lock);
}

/* ---- claims */

union head {
	struct {
		uint32_t seq, flags;
	};
	uint64_t word;
};

enum claim { CLAIMED, NOT_LIVE, MARKED };

/*
 * @size: in, the expected size, and exported cells are rejected, or 0 for any cell; out, the cell's size.
 * @mark: in, a mark whose cells may be claimed atomically, or 0; out, if MARKED is returned, the cell's.
 */
static inline enum claim claim(struct cell *cell, uint64_t ptr, uint64_t *size, uint32_t *mark)
{
	uint64_t want = *size;
	union head was, now;

	do {
		was.word = load_acquire(&cell->head);
		/* It is being freed; or it becomes live, but @ptr is not yet known as that block. */
		if (was.seq & 1)
			return NOT_LIVE;
		*size = load_relaxed(&cell->size);
		if (!*size || (want && (*size != want || was.flags & ALLOC_EXPORTED)) ||
		    load_relaxed(&cell->base) != ptr)
			return NOT_LIVE;
		if (was.flags >> CELL_MARK_SHIFT && was.flags >> CELL_MARK_SHIFT != *mark) {
			*mark = was.flags >> CELL_MARK_SHIFT;
			return MARKED;
		}
		now = was;
		now.seq++;
	} while (!__atomic_compare_exchange_n(&cell->head, &was.word, now.word, false,
					      __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
	fence_release();
	store_relaxed(&cell->size, 0);
	cell_end(cell);
	return CLAIMED;
}

bool cell_claim_shared(struct cell *cell, uint64_t ptr, uint64_t size)
{
	uint32_t mark = 0;

	return claim(cell, ptr, &size, &mark) == CLAIMED;
}

bool cell_claim(pool_t *pool, struct cell *cell, uint64_t ptr, uint64_t *size)
{
	uint32_t mark = 0;

	for (;;) {
		*size = 0;
		switch (claim(cell, ptr, size, &mark)) {
		case CLAIMED:
			return true;
		case NOT_LIVE:
			return false;
		case MARKED:
			if (!mark_retired(pool, mark) && !mark_mine(pool, mark))
				mark_retire(pool, mark);
			break;
		}
	}
}
