// SPDX-License-Identifier: MIT
/*
 * Memory on its way back to the kernel.
 *
 * Owns the list of threads that give memory back. Unmapping takes as long as the memory is
 * large, so it is done without the lock of the pool or list that had the memory. Meanwhile the
 * memory is in no list of the library, and the kernel still counts it. If the kernel refuses memory to
 * a thread, the thread waits here for the memory on its way back, and then asks again.
 *
 * Rules
 *
 *   - giving_begin() is called with the lock held under which the memory is taken out of its list.
 *     So a thread that took the same lock later either finds the memory, or waits for it here.
 *   - A thread waits for the give-backs that had begun before its wait, and for no later ones.
 *   - A thread that gives memory back waits for short locks and for the cleaner's piece (clear.c). It waits for
 *     no thread that waits here.
 *
 * Locks: giving_lock, inside all others.
 */
#include "address/address.h"

static struct lock giving_lock;
static struct giver *first, **last = &first;	/* by number; giving_lock; first atomic */
static uint64_t begun;				/* number of the last give-back that began; giving_lock */
static uint32_t ended;				/* number of ended give-backs; a futex; giving_lock to write */
static unsigned int waiting;			/* threads in giving_wait(); giving_lock */

void giving_begin(struct giver *giver, const void *pool)
{
	giver->pool = pool;
	giver->next = NULL;
	lock_take(&giving_lock);
	giver->number = ++begun;
	giver->link = last;
	store_release(last, giver);
	last = &giver->next;
	lock_drop(&giving_lock);
}

void giving_end(struct giver *giver)
{
	lock_take(&giving_lock);
	store_relaxed(giver->link, giver->next);
	if (giver->next)
		giver->next->link = giver->link;
	else
		last = giver->link;
	word_change(&ended, waiting);
	lock_drop(&giving_lock);
}

/* Whether a give-back of @pool (NULL: of any) up to @number is under way. giving_lock is held. */
static bool under_way(const void *pool, uint64_t number)
{
	struct giver *giver;

	for (giver = first; giver && giver->number <= number; giver = giver->next)
		if (!pool || giver->pool == pool)
			return true;
	return false;
}

bool giving_wait(const void *pool)
{
	bool waited = false;
	uint64_t number;

	if (!load_acquire(&first))
		return false;
	lock_take(&giving_lock);
	number = begun;
	while (under_way(pool, number)) {
		uint32_t seen = ended;

		waiting++;
		lock_drop(&giving_lock);
		word_await(&ended, seen);
		lock_take(&giving_lock);
		waiting--;
		waited = true;
	}
	lock_drop(&giving_lock);
	return waited;
}
