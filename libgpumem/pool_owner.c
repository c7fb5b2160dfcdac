// SPDX-License-Identifier: MIT
/*
 * Pools: which thread may be in a heap.
 *
 * Owns the protocol between the owner of a heap and the other threads.
 *
 * The thread that makes a heap owns it and enters it by storing "busy" and reading "revoked".
 * Another thread takes the heap's lock, stores "revoked", has the kernel make all threads of the
 * process execute a barrier (membarrier) and waits until the owner has left: either the owner sees
 * that the heap is revoked, and takes the lock, or the other thread sees that the owner is in.
 * Where there is no membarrier the owner executes a barrier itself. A stream that two threads use
 * loses its heap's owner; both take the lock from then on.
 *
 * Locks: heap->lock, inside pool->lock.
 */
#include <linux/membarrier.h>
#include <sched.h>
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

static void owners_see(void)
{
	if (!pool_asymmetric || syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0))
		fence_full();
}

static void owner_out(struct heap *heap)
{
	while (load_acquire(&heap->busy))
		sched_yield();
}

void heap_claim(struct heap *heap)
{
	const void *owner;

	lock_take(&heap->lock);
	owner = load_relaxed(&heap->owner);
	if (!owner || owner == &pool_thread)
		return;
	store_relaxed(&heap->revoked, 1);
	owners_see();
	owner_out(heap);
}

void heap_drop(struct heap *heap)
{
	store_release(&heap->revoked, 0);
	lock_drop(&heap->lock);
}

void heap_claim_to_use(struct heap *heap, struct tally *tally)
{
	const void *owner;

	heap_claim(heap);
	owner = load_relaxed(&heap->owner);
	if (owner == &pool_thread || heap->common)
		return;
	if (owner) {
		heap->common = true;
		store_relaxed(&heap->owner, NULL);
		heap->tally = NULL;
	} else if (pool_owners) {
		heap->tally = tally;
		store_relaxed(&heap->owner, &pool_thread);
	}
}

void heaps_each(pool_t *pool, const struct tally *owner, void (*fn)(struct heap *heap))
{
	struct heap *heap;
	bool foreign = false;

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
		owners_see();
	for (heap = pool->heaps; heap; heap = heap->next_of_pool) {
		if (load_relaxed(&heap->revoked))
			owner_out(heap);
		if (!owner || heap->tally == owner)
			fn(heap);
		heap_drop(heap);
	}
}
