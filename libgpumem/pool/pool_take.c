// SPDX-License-Identifier: MIT
/*
 * Pools: allocations that no heap serves.
 *
 * Owns nothing. An allocation takes the pool's lock and tries, in this order:
 *
 *   1. the blocks of the free lists and the pages that the stream may have (pool_cells.c has the rules);
 *   2. the same after the contents of heaps were moved there: first cells of the class from this thread's
 *      heaps, then all cells of all heaps; and if the pool is at its limit, a part of an idle chunk;
 *   3. a new chunk, after idle chunks that are too small were given back, if the pool has much more than it
 *      ever needed;
 *   4. memory whose free is complete, whatever the attributes say; then the same after cells that are
 *      pending in one stream became pages;
 *   5. a new chunk after idle chunks were given back: of all pools, or of this one if it is at its limit;
 *   6. pending memory, if REUSE_ALLOW_INTERNAL_DEPENDENCIES: the stream is made to wait;
 *   7. OUT_OF_MEMORY.
 *
 * Locks: pool->lock, as each function says; inside it a heap's lock (pool_owner.c). A stream's lock is taken outside
 * pool->lock.
 */
#include "pool/pool_owner.h"
#include "pool/pool_pages.h"

unsigned int pools_short;

#define ID_BATCH	256
#define GROW_ROUNDS	64		/* how often to wait for another thread's chunk, at most */

static void tally_ids(struct tally *tally)
{
	if (tally->id == tally->id_end) {
		tally->id = mem_new_ids(ID_BATCH);
		tally->id_end = tally->id + ID_BATCH;
	}
}

/* Step 1 of the list above, and the cheap part of step 2. The pool is locked. */
static struct cell *take_ready(pool_t *pool, uint64_t size, const struct taker *taker)
{
	struct cell *cell = cells_take(pool, size, taker);

	if (!cell && size <= CLASS_MAX && heaps_gather(pool, class_of(pool, size)))
		cell = cells_spare(pool, class_of(pool, size), taker);
	return cell;
}

/* Have the stream wait for a block's moment. */
static CUresult come_after(CUstream stream, const struct moment *moment)
{
	struct queue *queue;
	CUresult result = stream_lock(stream);

	if (result)
		return result;
	result = stream_prepare(stream, &queue);
	if (!result) {
		/* No further wait if the queue already follows the moment. */
		if (queue != moment->queue &&
		    !queue_follows(queue, ~0ull, moment->queue, moment->value))
			result = queue_follow(queue, moment->queue, moment->value);
		result = ring_finish(queue, result);
	}
	lock_drop(&stream->lock);
	return result;
}

/* Note in a blocking stream's queue that its next entry follows the legacy stream's work. */
static void follow_implicit(CUstream stream)
{
	struct queue *queue;
	uint64_t value;

	if (!(stream->flags & CU_STREAM_NON_BLOCKING))
		stream_moment(stream, &queue, &value);
}

/* Whether the pool may serve a request. The pool is locked, and does not end before the lock is dropped. */
static CUresult may_take(const pool_t *pool, pool_t *const *where, uint64_t size)
{
	if (!pool_usable(pool) || (where && load_acquire(where) != pool))
		return POOL_GONE;
	if (size <= pool_most(pool))
		return CUDA_SUCCESS;
	debug_refused(pool_is(pool, POOL_HOST | POOL_MANAGED) ? GPUMEM_LIMIT_HOST : GPUMEM_LIMIT_DEVICE,
		      pool->device, size, 0, pool_most(pool));
	return CUDA_ERROR_OUT_OF_MEMORY;
}

/* A request to allocate. */
struct request {
	pool_t *pool;
	pool_t *const *where;		/* the pool must still be this one, or NULL */
	CUstream stream;
	uint64_t size;
	struct taker taker;
	bool dropped;			/* the pool was not locked all the time */
};

static void request_init(struct request *request, pool_t *pool, pool_t *const *where,
			 CUstream stream, uint64_t size)
{
	request->pool = pool;
	request->where = where;
	request->stream = stream;
	request->size = size;
	request->dropped = false;
	taker_init(&request->taker, pool, stream);
}

/* Update a request after the pool's lock was dropped. The pool is locked again. */
static CUresult request_look_again(struct request *request)
{
	CUstream stream = request->stream;

	request->dropped = true;
	request->taker.queue = stream ? load_acquire(&stream->queue) : NULL;
	memset(request->taker.known, 0, sizeof(request->taker.known));
	return may_take(request->pool, request->where, request->size);
}

/*
 * Steps 2 and 3. CUDA_SUCCESS without a cell: there is no memory. Any other result is the allocation's. The
 * pool is locked; the lock is dropped while the pool grows.
 */
static CUresult take_or_grow(struct request *request, struct cell **cell)
{
	struct taker *taker = &request->taker;
	pool_t *pool = request->pool;
	unsigned int rounds = GROW_ROUNDS;
	enum grown grown;
	CUresult result;

	do {
		pool_drain(pool, taker);
		taker->drained = true;
		*cell = cells_take(pool, request->size, taker);
		if (*cell)
			return CUDA_SUCCESS;
		grown = pool_grow(pool, request->size, --rounds);
		result = request_look_again(request);
		if (result)
			return result;
	} while (grown == GROW_AGAIN);
	taker->split = true;
	*cell = cells_take(pool, request->size, taker);
	return CUDA_SUCCESS;
}

/* Steps 2 to 4, and 6 if @last. Result and lock are those of take_or_grow(). */
static CUresult take(struct request *request, bool last, struct cell **out)
{
	struct taker *taker = &request->taker;
	pool_t *pool = request->pool;
	uint64_t size = request->size;
	struct cell *cell;
	CUresult result = take_or_grow(request, out);

	if (result || *out)
		return result;
	taker->exhausted = true;
	pool_drain(pool, taker);
	cell = cells_take(pool, size, taker);
	if (!cell) {
		/*
		 * This stream may use pages that are pending in one stream only, if it is that stream or waits
		 * for it.
		 */
		free_lists_merge(pool, taker);
		cell = cells_take(pool, size, taker);
	}
	if (!cell && last && load_relaxed(&pool->internal)) {
		taker->any = true;
		cell = cells_take(pool, size, taker);
	}
	*out = cell;
	return CUDA_SUCCESS;
}

CUresult pool_alloc_slow(CUdeviceptr *ptr, uint64_t size, pool_t *pool, CUstream stream, pool_t *const *where)
{
	unsigned int class = size <= CLASS_MAX ? class_of(pool, size) : 0;
	struct tally *tally = tally_get(pool);
	struct heap *heap = size <= CLASS_MAX ? heap_make(stream, pool) : NULL;
	struct request request;
	struct taker *taker = &request.taker;
	struct cell *cell = NULL;
	CUresult result;

	if (!tally)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (heap && heap_claim_to_use(heap, tally)) {
		cell = heap->bin[class].head;
		if (cell) {
			heap->bin[class].head = cell->next;
			heap->bin[class].count--;
		}
		heap_drop(heap);
	}
	if (cell)
		goto live;
	follow_implicit(stream);
	request_init(&request, pool, where, stream, size);
	lock_take(&pool->lock);
	result = may_take(pool, where, size);
	if (!result)
		cell = take_ready(pool, size, taker);
	if (!cell && !result && (pool->withheld || pool->late)) {
		lock_drop(&pool->lock);
		late_look(pool);
		lock_take(&pool->lock);
		result = request_look_again(&request);
	}
	if (!cell && !result)
		result = take(&request, false, &cell);
	if (!cell && !result) {
		/* Drop the lock: a thread holds the lock of one pool at a time. */
		bool limited = pool->limit && pool->reserved + size > pool->limit;

		pool_leave(pool);
		__atomic_fetch_add(&pools_short, 1, __ATOMIC_RELAXED);
		pools_give_back(limited ? pool : NULL);
		lock_take(&pool->lock);
		result = request_look_again(&request);
		if (!result)
			result = take(&request, true, &cell);
		__atomic_fetch_sub(&pools_short, 1, __ATOMIC_RELAXED);
	}
	/* The stream may have been destroyed meanwhile, with its heap. */
	if (cell && heap && !taker->any && (!request.dropped || heap_of(stream, pool) == heap))
		heap_fill(heap, class, taker);
	pool_used_merge(pool);
	/* The pool may have been destroyed while the lock was dropped. */
	pool_reap(pool);
	pool_leave(pool);
	if (!cell)
		return result ? result : CUDA_ERROR_OUT_OF_MEMORY;
	if (taker->any && cell->freed.queue)
		result = come_after(stream, &cell->freed);
	if (result) {
		lock_take(&pool->lock);
		cell_return(pool, cell, size);
		lock_drop(&pool->lock);
		return result;
	}
live:
	tally_ids(tally);
	cell_live(cell, size, tally);
	*ptr = cell->base;
	return CUDA_SUCCESS;
}
