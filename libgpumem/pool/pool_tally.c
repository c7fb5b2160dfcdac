// SPDX-License-Identifier: MIT
/*
 * Pools: the tallies, what each thread adds to a pool's used bytes.
 *
 * Owns the tallies: one for each pair of a thread and a pool that the thread has used. A thread writes its own
 * tally without a lock; a pool's used bytes are the sum. The pool's peak is exact if one thread uses the pool.
 * With several threads it is computed when one of them takes the pool's lock: the sum of all tallies, plus the
 * most by which any tally was above its present value.
 *
 * A thread that ends adds its used bytes to pool->used_gone. The heaps that it owned then have no owner.
 *
 * Locks: pool->lock for a pool's list of tallies.
 */
#include <stdlib.h>

#include "pool/pool_chunks.h"
#include "pool/pool_owner.h"

__thread struct pool_thread pool_thread __attribute__((tls_model("initial-exec")));
static pthread_key_t tally_thread_key;

/* ---- threads */

static void tally_thread_end(void *arg)
{
	struct pool_thread *self = arg;
	struct tally *tally, *next;
	struct heap *heap;

	/* In a forked child, locks may be held by threads that do not exist there. */
	if (not_initialized())
		return;
	for (tally = self->tallies; tally; tally = next) {
		pool_t *pool = tally->pool;

		next = tally->next_of_thread;
		lock_take(&pool->lock);
		pool_used_merge(pool);
		for (heap = pool->heaps; heap; heap = heap->next_of_pool) {
			if (load_relaxed(&heap->owner) != self)
				continue;
			lock_take(&heap->lock);
			store_relaxed(&heap->owner, NULL);
			heap->tally = NULL;
			lock_drop(&heap->lock);
		}
		mark_put(pool, tally);
		pool->used_gone += tally->used;
		*tally->link = tally->next_of_pool;
		if (tally->next_of_pool)
			tally->next_of_pool->link = tally->link;
		lock_drop(&pool->lock);
		free(tally);
	}
	self->tallies = NULL;
}

static void tallies_init(void)
{
	owners_init(!pthread_key_create(&tally_thread_key, tally_thread_end));
	classes_init();
	chunks_init();
	grow_init();
}

void pools_prepare(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, tallies_init);
}

struct tally *tally_get(pool_t *pool)
{
	struct tally *tally;

	for (tally = pool_thread.tallies; tally; tally = tally->next_of_thread)
		if (tally->pool == pool)
			return tally;
	if (pool_owners && !pool_thread.tallies &&
	    pthread_setspecific(tally_thread_key, &pool_thread))
		return NULL;
	tally = calloc(1, sizeof(*tally));
	if (!tally)
		return NULL;
	tally->pool = pool;
	/* A thread that has read false once reads false from then on, and executes a barrier in every entry. */
	tally->fenced = !load_relaxed(&pool_asymmetric);
	tally->next_of_thread = pool_thread.tallies;
	pool_thread.tallies = tally;
	lock_take(&pool->lock);
	mark_get(pool, tally);
	tally->next_of_pool = pool->tallies;
	if (tally->next_of_pool)
		tally->next_of_pool->link = &tally->next_of_pool;
	tally->link = &pool->tallies;
	pool->tallies = tally;
	lock_drop(&pool->lock);
	return tally;
}

int64_t pool_used(pool_t *pool)
{
	int64_t used = pool->used_gone;
	struct tally *tally;

	for (tally = pool->tallies; tally; tally = tally->next_of_pool)
		used += load_relaxed(&tally->used);
	return used > 0 ? used : 0;
}

void pool_used_merge(pool_t *pool)
{
	int64_t used = pool_used(pool), most = 0;
	struct tally *tally;

	for (tally = pool->tallies; tally; tally = tally->next_of_pool) {
		int64_t above = load_relaxed(&tally->peak) - load_relaxed(&tally->used);

		if (above > most)
			most = above;
	}
	if (pool->used_high < used + most)
		pool->used_high = used + most;
	for (tally = pool->tallies; tally; tally = tally->next_of_pool)
		store_relaxed(&tally->peak, load_relaxed(&tally->used));
}

void pool_used_reset(pool_t *pool)
{
	pool_used_merge(pool);
	pool->used_high = pool_used(pool);
}
