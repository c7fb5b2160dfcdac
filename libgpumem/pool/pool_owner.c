// SPDX-License-Identifier: MIT
/*
 * Pools: which thread may enter a heap, and which of two frees of one block succeeds.
 *
 * Owns the protocol between the owner of a heap and the other threads, and the claims of blocks.
 *
 * The first thread that uses a heap without an owner becomes its owner. The owner enters the heap by storing
 * "inside" and reading "revoked". Another thread takes the heap's lock, stores "revoked", has the kernel make
 * all threads of the process execute a barrier (membarrier) and waits until the owner has left. Either the
 * owner sees that the heap is revoked, and takes the lock, or the other thread sees that the owner is inside.
 * Where there is no membarrier the owner executes a barrier itself. If a second thread uses the stream, the
 * heap loses its owner for good; all threads take its lock from then on.
 *
 * membarrier can stop working: the program installs a filter of system calls, or there is no memory. The first
 * failure clears pool_asymmetric for good. An owner that reads this executes a barrier in every entry from then
 * on, the present one included, and sets tally->fenced in all its tallies. Before that the owner may be inside
 * unseen, because its store of "inside" may not have left its CPU. So another thread cannot claim a heap until
 * its owner has set tally->fenced, however long ago the failure was. The cells in such a heap stay there until
 * the owner allocates, frees, or ends. Other threads do without these cells: they allocate from the pool, free
 * to the pool's free lists, and leave the heap of a destroyed stream in the pool's list. They do not wait for
 * the owner, which may never use pools again.
 *
 * A free claims the block: of two frees of one block at the same time one succeeds. In general the claim is a
 * compare-and-exchange of the cell's sequence count and flags. The exchange fails if the cell was claimed, or
 * became live again, since it was read. The exchange costs as much as the rest of a free. A thread therefore
 * claims the blocks that it allocated itself by plain stores, as long as no other thread frees any of them:
 *
 *   - Each tally (a thread in a pool) has a mark, a small number. A cell carries in its flags the mark of the
 *     thread that made it live; 0 says that every claim is atomic.
 *   - A thread claims a cell by plain stores only inside a heap that it owns and entered, and only if
 *     the cell's flags are exactly tally->plain: the thread's own mark, no flag.
 *   - Another thread that frees a cell with a mark first retires the mark: it sets tally->plain to a value that
 *     no cell has, revokes all heaps of the tally, and waits until the owner has left them. From then on every
 *     claim of a cell with this mark is atomic. The mark's thread marks no further cells in this pool, and no
 *     other thread gets the mark. If a heap cannot be claimed because membarrier failed, the other thread does
 *     not wait for an entry that began before. The only consequence: a second free of a block during that entry
 *     may go unnoticed.
 *   - Retiring a mark looks at all heaps of the pool. So each time as many more marks, of other threads, are
 *     retired as were retired before. A few passes over the heaps are then enough for any number of threads.
 *   - The mark of a thread that ends is used again, unless it is retired: a mark has one thread at a time, and
 *     the plain stores of the earlier thread came before its end. When a structure becomes another pool, no
 *     block is live, and no mark is retired any more.
 *
 * When a cell becomes live, its flags are stored before its size. A free reads the size first, then the flags.
 * So a free that reads its own thread's mark has not read the size of another thread's block.
 *
 * Locks: heap->lock, inside pool->lock; pool->lock for marks.
 */
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pool/pool_owner.h"

bool pool_owners;
bool pool_asymmetric = true;

void owners_init(bool have_key)
{
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0))
		store_relaxed(&pool_asymmetric, false);
	pool_owners = have_key;
}

void owner_fence(void)
{
	struct tally *tally;

	if (!pool_thread.fenced) {
		/* A thread that reads this also sees whether the owner is inside a heap. */
		for (tally = pool_thread.tallies; tally; tally = tally->next_of_thread)
			store_release(&tally->fenced, true);
		pool_thread.fenced = true;
	}
	fence_full();
}

/* Called after "revoked" is stored. True: every thread of the process has executed a barrier since. */
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
 * Wait until the owner has left a heap that is revoked. False: the owner may be inside unseen. @seen: the
 * result of owners_see(). heap->lock is held.
 */
static bool owner_out(struct heap *heap, bool seen)
{
	unsigned int i;

	if (!seen && !load_acquire(&heap->tally->fenced))
		return false;
	/* The owner may have a lower priority than this thread: sleep, so that it gets a processor. */
	for (i = 0; load_acquire(&heap->inside); i++)
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

/* heap->lock is held. */
static bool wanted(const struct heap *heap, bool retired)
{
	return !retired || (heap->tally && load_relaxed(&heap->tally->plain) == PLAIN_NEVER);
}

void heaps_each(pool_t *pool, bool retired, void (*fn)(struct heap *heap))
{
	struct heap *heap;
	bool foreign = false, seen = false;

	for (heap = pool->heaps; heap; heap = heap->next_of_pool) {
		const void *thread;

		lock_take(&heap->lock);
		thread = load_relaxed(&heap->owner);
		if (wanted(heap, retired) && thread && thread != &pool_thread) {
			store_relaxed(&heap->revoked, 1);
			foreign = true;
		}
	}
	if (foreign)
		seen = owners_see();
	for (heap = pool->heaps; heap; heap = heap->next_of_pool) {
		bool out = !load_relaxed(&heap->revoked) || owner_out(heap, seen);

		if (out && wanted(heap, retired))
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

static unsigned int marks_count(const uint64_t *marks)
{
	unsigned int i, count = 0;

	for (i = 0; i < MARKS / 64; i++)
		count += __builtin_popcountll(load_relaxed(&marks[i]));
	return count;
}

/*
 * Retire @mark, and up to @more marks of other threads. Set a bit in @marks for each. pool->lock is held.
 */
static void tallies_retire(pool_t *pool, uint32_t mark, unsigned int more, uint64_t *marks)
{
	bool found = false;
	struct tally *tally;

	for (tally = pool->tallies; tally; tally = tally->next_of_pool) {
		uint32_t its = load_relaxed(&tally->birth) >> CELL_MARK_SHIFT;

		if (!its || (its != mark && (!more || mark_mine(pool, its))))
			continue;
		if (its == mark)
			found = true;
		else
			more--;
		store_relaxed(&tally->birth, 0);
		store_relaxed(&tally->plain, PLAIN_NEVER);
		marks[its / 64] |= 1ull << its % 64;
	}
	marks[mark / 64] |= 1ull << mark % 64;
	if (found || marks_count(marks) > 1)
		heaps_each(pool, true, heap_left);
}

static void mark_retire(pool_t *pool, uint32_t mark)
{
	uint64_t marks[MARKS / 64] = { 0 };
	unsigned int i;

	lock_take(&pool->lock);
	if (!mark_retired(pool, mark)) {
		tallies_retire(pool, mark, marks_count(pool->marks_retired), marks);
		for (i = 0; i < MARKS / 64; i++)
			store_release(&pool->marks_retired[i],
				      load_relaxed(&pool->marks_retired[i]) | marks[i]);
	}
	lock_drop(&pool->lock);
}

void marks_reset(pool_t *pool)
{
	struct tally *tally;
	unsigned int i;

	for (i = 0; i < MARKS / 64; i++) {
		store_relaxed(&pool->marks_retired[i], 0);
		pool->marks_used[i] = 0;
	}
	for (tally = pool->tallies; tally; tally = tally->next_of_pool) {
		uint32_t mark = load_relaxed(&tally->birth) >> CELL_MARK_SHIFT;

		if (mark)
			pool->marks_used[mark / 64] |= 1ull << mark % 64;
	}
	for (tally = pool->tallies; tally; tally = tally->next_of_pool)
		if (!load_relaxed(&tally->birth))
			mark_get(pool, tally);
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
 * @size: in, 0 for any cell, or the expected size of a cell that is not exported; out, the cell's size.
 * @mark: in, a mark whose cells may be claimed atomically, or 0; out, if MARKED is returned, the cell's mark.
 */
static inline enum claim claim(struct cell *cell, uint64_t ptr, uint64_t *size, uint32_t *mark)
{
	uint64_t want = *size;
	union head was, now;
	uint32_t its;

	do {
		was.word = load_acquire(&cell->head);
		/*
		 * The cell is being freed; or it becomes live, but no caller has its address yet.
		 */
		if (seq_changing(was.seq))
			return NOT_LIVE;
		*size = load_relaxed(&cell->size);
		if (!*size || (want && (*size != want || was.flags & ALLOC_EXPORTED)) ||
		    load_relaxed(&cell->base) != ptr)
			return NOT_LIVE;
		its = (was.flags & ~CELL_ZONED) >> CELL_MARK_SHIFT;
		if (its && its != *mark) {
			*mark = its;
			return MARKED;
		}
		now = was;
		now.seq++;
	} while (!__atomic_compare_exchange_n(&cell->head, &was.word, now.word, false,
					      __ATOMIC_ACQ_REL, __ATOMIC_RELAXED));
	fence_release();
	store_relaxed(&cell->size, 0);
	cell_end(cell, now.seq);
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
