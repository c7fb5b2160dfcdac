// SPDX-License-Identifier: MIT
/*
 * Pools: allocating and freeing blocks.
 *
 * Owns the heaps, one for each stream and pool that were used together. A free puts a block with a class into
 * the heap of the freeing stream, and an allocation takes it from the heap of its stream: this takes loads and
 * stores, no shared lock and no system call. pool_take.c serves a request that the heap cannot serve.
 *
 * Locks: pool->lock, as each function says; inside it a heap's lock (pool_owner.c), and heap_lock for unused
 * heaps. A stream's lock is taken outside pool->lock.
 */
#include <stdlib.h>

#include "pool/pool_owner.h"
#include "pool/pool_pages.h"

#define CELLS_MOST	64

static struct lock heap_lock;
static struct heap *unused_heaps;	/* heap_lock */

/* ---- heaps */

struct heap *heap_make(CUstream stream, pool_t *pool)
{
	struct heap *heap = heap_of(stream, pool);

	if (heap)
		return heap;
	lock_take(&pool->lock);
	lock_take(&heap_lock);
	heap = heap_of(stream, pool);
	if (heap)
		goto out;
	heap = unused_heaps;
	if (heap)
		unused_heaps = heap->next_of_pool;
	else
		heap = calloc(1, sizeof(*heap));
	if (!heap)
		goto out;
	heap->pool = pool;
	heap->stream = stream;
	heap->common = false;
	heap->gone = false;
	memset(heap->recent, 0, sizeof(heap->recent));
	heap->next_of_pool = pool->heaps;
	if (heap->next_of_pool)
		heap->next_of_pool->link = &heap->next_of_pool;
	heap->link = &pool->heaps;
	pool->heaps = heap;
	store_relaxed(&heap->next_of_stream, stream->heaps);
	store_release(&stream->heaps, heap);
out:
	lock_drop(&heap_lock);
	lock_drop(&pool->lock);
	return heap;
}

/* ---- draining */

/* Move a class of a claimed heap to the free list. pool->lock is held. */
static void bin_empty(struct heap *heap, unsigned int class)
{
	struct bin *bin = &heap->bin[class];
	struct cell *cell, *next;

	for (cell = bin->head; cell; cell = next) {
		next = cell->next;
		free_list_put(heap->pool, cell, class);
	}
	bin->head = NULL;
	bin->count = 0;
}

/* Move all cells of a claimed heap to the free lists. pool->lock is held. */
static void heap_empty(struct heap *heap)
{
	unsigned int class;

	store_relaxed(&heap->dirty, false);
	for (class = 0; class < CLASSES; class++)
		if (heap->bin[class].count)
			bin_empty(heap, class);
}

bool heaps_gather(pool_t *pool, unsigned int class)
{
	struct heap *heap;
	bool any = false;

	for (heap = pool->heaps; heap; heap = heap->next_of_pool) {
		if (load_relaxed(&heap->owner) != &pool_thread || !heap->bin[class].count)
			continue;
		if (!heap_claim(heap))
			continue;
		bin_empty(heap, class);
		heap_drop(heap);
		any = true;
	}
	return any;
}

static void heap_drain(struct heap *heap)
{
	heap_empty(heap);
	if (!heap->gone)
		return;
	store_relaxed(&heap->owner, NULL);
	heap->tally = NULL;
}

/* Free a heap without stream and owner for reuse. pool->lock is held. */
static void heap_put(struct heap *heap)
{
	*heap->link = heap->next_of_pool;
	if (heap->next_of_pool)
		heap->next_of_pool->link = heap->link;
	lock_take(&heap_lock);
	heap->next_of_pool = unused_heaps;
	unused_heaps = heap;
	lock_drop(&heap_lock);
}

void heaps_drain(pool_t *pool)
{
	struct heap *heap, *next;

	heaps_each(pool, false, heap_drain);
	for (heap = pool->heaps; heap && pool->heaps_gone; heap = next) {
		next = heap->next_of_pool;
		if (!heap->gone || load_relaxed(&heap->owner) || load_relaxed(&heap->dirty))
			continue;
		pool->heaps_gone--;
		heap_put(heap);
	}
}

void pool_drain(pool_t *pool, const struct taker *taker)
{
	late_reclaim(pool);
	heaps_drain(pool);
	free_lists_drain(pool, taker);
	pages_settle(pool, taker, ~0u);
}

void pool_stream_gone(CUstream stream)
{
	struct heap *heap, *next;

	for (heap = load_acquire(&stream->heaps); heap; heap = next) {
		pool_t *pool = heap->pool;

		next = load_acquire(&heap->next_of_stream);
		lock_take(&pool->lock);
		if (heap_claim(heap)) {
			heap_empty(heap);
			store_relaxed(&heap->owner, NULL);
			heap->tally = NULL;
			heap_drop(heap);
			heap_put(heap);
		} else {
			/* heaps_drain() claims it later. */
			heap->gone = true;
			pool->heaps_gone++;
		}
		store_relaxed(&pool->dirty, true);
		lock_drop(&pool->lock);
	}
	store_release(&stream->heaps, NULL);
}

/* ---- allocating */

/* Revoke the memory handle of a block that was claimed. */
static void share_forget(struct cell *cell)
{
	if (load_relaxed(&cell->flags) & ALLOC_EXPORTED)
		share_drop_of_pool(cell->id);
}

static inline struct recent *heap_recent(struct heap *heap, uint64_t base)
{
	return &heap->recent[(base / CELL_UNIT ^ base / SLOT) % HEAP_RECENT];
}

void taker_init(struct taker *taker, const pool_t *pool, CUstream stream)
{
	*taker = (struct taker){
		.stream = stream, .queue = stream ? load_acquire(&stream->queue) : NULL,
		.follow = load_relaxed(&pool->follow),
		.opportunistic = load_relaxed(&pool->opportunistic),
	};
}

void heap_fill(struct heap *heap, unsigned int class, const struct taker *taker)
{
	unsigned int want = class_keep[class] / 2, i;
	struct cell *first = NULL, **last = &first, *cell;

	if (want > CELLS_MOST)
		want = CELLS_MOST;
	if (!heap_claim(heap))
		return;
	for (i = 0; i < want; i++) {
		cell = cells_spare(heap->pool, class, taker);
		if (!cell)
			break;
		store_relaxed(last, cell);
		last = &cell->next;
	}
	if (i) {
		store_relaxed(last, heap->bin[class].head);
		heap->bin[class].head = first;
		heap->bin[class].count += i;
	}
	heap_drop(heap);
}

/* Calls that are watched were reported by driver/cu_pool.c already. */
#define NOTE_UNWATCHED(name, ...)					\
	do {								\
		if (!client.watched)					\
			(void)DEBUG_NOTE(name, ##__VA_ARGS__);		\
	} while (0)

static void end_unwatched(const char *name, CUresult result)
{
	if (!client.watched)
		call_end(name, result);
}

/* The slow path of the API's function @name, with its report for GPUMEM_DEBUG. */
static __attribute__((noinline)) CUresult alloc_noted(CUdeviceptr *ptr, uint64_t size,
						     pool_t *pool, CUstream stream,
						     const char *name)
{
	CUresult result = CUDA_ERROR_INVALID_VALUE;

	NOTE_UNWATCHED(name, ptr, size, pool, stream);
	owner_seen();
	CLEAR(ptr);
	if (ptr && pool_usable(pool)) {
		result = size ? pool_alloc_slow(ptr, size, pool, stream, NULL) : CUDA_SUCCESS;
		if (result == POOL_GONE)
			result = CUDA_ERROR_INVALID_VALUE;
	}
	end_unwatched(name, result);
	return result;
}

/* The same for the current pool. If that is destroyed meanwhile, take the new current pool. */
static __attribute__((noinline)) CUresult alloc_current_noted(CUdeviceptr *ptr, uint64_t size,
							     CUstream stream)
{
	CUdevice device = stream->ctx->device;
	CUresult result = CUDA_ERROR_INVALID_VALUE;
	pool_t *pool;

	NOTE_UNWATCHED("cuMemAllocAsync", ptr, size, stream);
	owner_seen();
	if (ptr) {
		*ptr = 0;
		do {
			result = pool_device_current(&pool, device);
			if (!result && size)
				result = pool_alloc_slow(ptr, size, pool, stream, &device_current[device]);
		} while (result == POOL_GONE);
	}
	end_unwatched("cuMemAllocAsync", result);
	return result;
}

/* Allocate from the heap that the thread owns. False: that does not do. */
static inline __attribute__((always_inline)) bool
alloc_own(CUdeviceptr *ptr, uint64_t size, pool_t *pool, CUstream stream)
{
	struct heap *heap;
	struct cell *cell;
	struct bin *bin;

	if (unlikely(!ptr || !pool_usable(pool) || size - 1 >= CLASS_MAX))
		return false;
	heap = heap_of(stream, pool);
	if (likely(heap) && heap_enter_fast(heap)) {
		struct tally *tally = heap->tally;

		bin = &heap->bin[class_of(pool, size)];
		cell = bin->head;
		if (likely(cell && tally->id != tally->id_end)) {
			struct recent *recent = heap_recent(heap, cell->base);

			bin->head = cell->next;
			bin->count--;
			recent->cell = cell;
			recent->id = tally->id;
			cell_live(cell, size, tally);
			*ptr = cell->base;
			heap_leave(heap);
			return true;
		}
		heap_leave(heap);
	}
	return false;
}

bool pool_alloc_own(CUdeviceptr *ptr, uint64_t size, pool_t *pool, CUstream stream)
{
	return alloc_own(ptr, size, pool ? pool : load_acquire(&device_current[stream->ctx->device]), stream);
}

/* @name: the API's function; NULL: allocate from the current pool */
static inline __attribute__((always_inline)) CUresult
alloc_fast(CUdeviceptr *ptr, uint64_t size, pool_t *pool, CUstream stream, const char *name)
{
	if (likely(alloc_own(ptr, size, pool, stream)))
		return CUDA_SUCCESS;
	return name ? alloc_noted(ptr, size, pool, stream, name) :
		alloc_current_noted(ptr, size, stream);
}

CUresult pool_alloc_current(CUdeviceptr *ptr, uint64_t size, CUstream stream)
{
	return alloc_fast(ptr, size, load_acquire(&device_current[stream->ctx->device]), stream,
			  NULL);
}

CUresult pool_alloc(CUdeviceptr *ptr, uint64_t size, pool_t *pool, CUstream stream)
{
	return alloc_fast(ptr, size, pool, stream, "cuMemAllocFromPoolAsync");
}

/* ---- freeing */

void cell_return(pool_t *pool, struct cell *cell, uint64_t size)
{
	if (size <= CLASS_MAX)
		free_list_put(pool, cell, class_of(pool, size));
	else
		large_release(pool, cell, &cell->freed);
	store_relaxed(&pool->dirty, true);
}

/* Move cells of a class beyond half of class_keep from a heap to the free list. */
static __attribute__((noinline)) void spill(struct heap *heap, unsigned int class)
{
	struct bin *bin = &heap->bin[class];
	struct cell *cell, *next;
	unsigned int keep;

	lock_take(&heap->pool->lock);
	if (!heap_claim(heap))
		goto out;
	keep = class_keep[class] / 2;
	if (bin->count > keep) {
		unsigned int i;

		cell = bin->head;
		for (i = 1; i < keep; i++)
			cell = cell->next;
		next = cell->next;
		store_relaxed(&cell->next, NULL);
		bin->count = keep;
		for (cell = next; cell; cell = next) {
			next = cell->next;
			free_list_put(heap->pool, cell, class);
		}
	}
	heap_drop(heap);
out:
	lock_drop(&heap->pool->lock);
}

/* Free a claimed cell that has its moment. */
static __attribute__((noinline)) void free_slow(pool_t *pool, struct cell *cell, uint64_t size,
						CUstream stream)
{
	struct tally *tally = tally_get(pool);
	struct heap *heap = NULL;
	bool reached;

	if (stream && size <= CLASS_MAX && tally &&
	    !pool_is(pool, POOL_DESTROYED) &&
	    !(load_relaxed(&cell->flags) & ALLOC_EXPORTED))
		heap = heap_make(stream, pool);
	if (heap && heap_claim_to_use(heap, tally)) {
		struct bin *bin = &heap->bin[class_of(pool, size)];
		bool full;

		store_relaxed(&cell->next, bin->head);
		bin->head = cell;
		full = ++bin->count > class_keep[class_of(pool, size)];
		store_relaxed(&heap->dirty, true);
		heap_drop(heap);
		tally_add(tally, -(int64_t)size);
		if (full)
			spill(heap, class_of(pool, size));
		return;
	}
	reached = load_relaxed(&cell->flags) & ALLOC_EXPORTED && late_retire(cell, size);
	if (pool_is(pool, POOL_DESTROYED))
		late_look(pool);
	lock_take(&pool->lock);
	if (tally)
		tally_add(tally, -(int64_t)size);
	else
		pool->used_gone -= size;
	if (reached)
		late_withhold(pool, cell, size);
	else
		cell_return(pool, cell, size);
	store_relaxed(&pool->dirty, true);
	pool_reap(pool);
	pool_leave(pool);
}

/* Put a claimed cell into a heap that was entered. True: the heap has too many cells of the class. */
static inline bool heap_push(struct heap *heap, struct cell *cell, uint64_t size,
			     const struct moment *freed)
{
	unsigned int class = class_of(heap->pool, size);
	struct bin *bin = &heap->bin[class];

	cell->freed = *freed;
	store_relaxed(&cell->next, bin->head);
	bin->head = cell;
	store_relaxed(&heap->dirty, true);
	tally_add(heap->tally, -(int64_t)size);
	return ++bin->count > class_keep[class];
}

/* Claim a cell in a heap that this thread entered. False: the caller must use cell_claim(). */
static inline bool heap_claim_cell(const struct heap *heap, struct cell *cell, uint64_t ptr,
				   uint64_t size)
{
	if (unlikely(!cell_plain(heap, cell)))
		return cell_claim_shared(cell, ptr, size);
	cell_dead(cell);
	return true;
}

void cell_free_claimed(pool_t *pool, struct cell *cell, uint64_t size, CUstream stream, const struct moment *freed)
{
	share_forget(cell);
	cell->freed = *freed;
	if (unlikely(client.zoned)) {
		if (client.quarantine && pool_quarantine_add(pool, cell, size))
			return;
		pool_zone_look(cell, size);
	}
	free_slow(pool, cell, size, stream);
}

static CUresult free_found(uint64_t ptr, CUstream stream)
{
	struct chunk *chunk = vm_chunk(ptr);
	struct moment freed;
	struct cell *cell;
	struct heap *heap;
	uint64_t size;
	pool_t *pool;
	CUresult result;

	if (unlikely(!chunk))
		return mem_free_in(ptr, stream);
	if (unlikely(load_acquire(&chunk->imports) != NULL))
		return import_free(ptr, chunk, stream);
	cell = pool_cell_live(chunk, ptr, &size);
	if (unlikely(!cell))
		return CUDA_ERROR_INVALID_VALUE;
	result = stream_moment(stream, &freed.queue, &freed.value);
	if (unlikely(result))
		return result;
	pool = chunk->pool;
	heap = heap_of(stream, pool);
	if (likely(size <= CLASS_MAX && heap &&
		   !pool_is(pool, POOL_DESTROYED)) && heap_enter(heap)) {
		bool full;

		if (!heap_claim_cell(heap, cell, ptr, size)) {
			heap_leave(heap);
			goto slow;
		}
		full = heap_push(heap, cell, size, &freed);
		heap_leave(heap);
		if (unlikely(full))
			spill(heap, class_of(pool, size));
		return CUDA_SUCCESS;
	}
slow:
	if (!cell_claim(pool, cell, ptr, &size))
		return CUDA_ERROR_INVALID_VALUE;
	cell_free_claimed(pool, cell, size, stream, &freed);
	return CUDA_SUCCESS;
}

static __attribute__((noinline)) CUresult free_noted(CUdeviceptr ptr, CUstream stream)
{
	CUresult result;

	NOTE_UNWATCHED("cuMemFreeAsync", ptr, stream);
	owner_seen();
	result = free_found(ptr, stream);
	end_unwatched("cuMemFreeAsync", result);
	return result;
}

/*
 * Whether the stream is known to be idle without a look at order.c's list. False: the caller must call
 * stream_moment().
 */
static inline bool stream_idle_unlisted(CUstream stream)
{
	struct queue *queue = load_acquire(&stream->queue);
	CUstream legacy;

	if (queue && !queue_idle(queue))
		return false;
	if (stream->flags & CU_STREAM_NON_BLOCKING)
		return stream->kind == STREAM_CREATED;
	legacy = load_acquire(&stream->ctx->legacy);
	queue = legacy ? load_acquire(&legacy->queue) : NULL;
	return legacy != stream && (!queue || queue_idle(queue));
}

/*
 * The ends of pool_free() for special cases. They are tail calls, so that the fast path saves no registers.
 */
static __attribute__((noinline)) CUresult spill_freed(struct heap *heap, unsigned int class)
{
	spill(heap, class);
	return CUDA_SUCCESS;
}

/* For a block that another thread may free at the same time. */
static __attribute__((noinline)) CUresult free_shared(struct heap *heap, struct cell *cell,
						      uint64_t ptr, uint64_t size,
						      CUstream stream)
{
	static const struct moment past = { .queue = NULL };
	bool full;

	if (!cell_claim_shared(cell, ptr, size)) {
		heap_leave(heap);
		return free_noted(ptr, stream);
	}
	full = heap_push(heap, cell, size, &past);
	heap_leave(heap);
	return full ? spill_freed(heap, class_of(heap->pool, size)) : CUDA_SUCCESS;
}

enum freed { NOT_FREED, FREED, FREED_AND_FULL, HEAP_ENTERED };

/* What free_own() found. */
struct found_own {
	struct heap *heap;
	struct cell *cell;
	uint64_t size;
};

/*
 * Free a block to the heap that the thread owns. NOT_FREED: that does not do. HEAP_ENTERED: another thread may free the
 * block at the same time, and the caller is in the heap.
 */
static inline __attribute__((always_inline)) enum freed free_own(uint64_t ptr, CUstream stream, struct found_own *found)
{
	struct heap *heap = load_acquire(&stream->heaps);

	if (likely(heap && stream_idle_unlisted(stream)) && heap_enter_fast(heap)) {
		static const struct moment past = { .queue = NULL };
		struct recent *recent = heap_recent(heap, ptr);
		struct cell *cell = recent->cell;
		uint64_t size;

		/* An unchanged id means the same allocation, so the cell is in the heap's pool. */
		if (likely(cell && load_relaxed(&cell->base) == ptr &&
			   load_relaxed(&cell->id) == recent->id &&
			   (size = load_acquire(&cell->size)) &&
			   !(load_relaxed(&heap->pool->flags) & POOL_DESTROYED))) {
			bool full;

			*found = (struct found_own) { .heap = heap, .cell = cell, .size = size };
			if (!cell_plain(heap, cell))
				return HEAP_ENTERED;
			cell_dead(cell);
			full = heap_push(heap, cell, size, &past);
			heap_leave(heap);
			return unlikely(full) ? FREED_AND_FULL : FREED;
		}
		heap_leave(heap);
	}
	return NOT_FREED;
}

CUresult pool_free(uint64_t ptr, CUstream stream)
{
	struct found_own found;

	switch (free_own(ptr, stream, &found)) {
	case FREED:
		return CUDA_SUCCESS;
	case FREED_AND_FULL:
		return spill_freed(found.heap, class_of(found.heap->pool, found.size));
	case HEAP_ENTERED:
		return free_shared(found.heap, found.cell, ptr, found.size, stream);
	default:
		return free_noted(ptr, stream);
	}
}

bool pool_free_own(uint64_t ptr, CUstream stream)
{
	struct found_own found;

	switch (free_own(ptr, stream, &found)) {
	case FREED_AND_FULL:
		spill(found.heap, class_of(found.heap->pool, found.size));
		return true;
	case HEAP_ENTERED:
		heap_leave(found.heap);
		return false;
	case FREED:
		return true;
	default:
		return false;
	}
}

/* ---- freeing in no stream */

void busy_add(struct queue *queue, uint64_t value, void *arg)
{
	struct busy *busy = arg;

	if (busy->count < busy->room)
		busy->moment[busy->count] = (struct moment){ .queue = queue, .value = value };
	busy->count++;
}

CUresult pool_free_now(uint64_t ptr)
{
	static const struct moment past = { .queue = NULL };
	struct chunk *chunk = vm_chunk(ptr);
	struct moment few[8], *many = few;
	struct busy busy = { .moment = few, .room = 8 };
	struct tally *tally;
	struct cell *cell;
	uint64_t size;
	pool_t *pool;
	bool late;

	if (!chunk)
		return CUDA_ERROR_INVALID_VALUE;
	if (load_acquire(&chunk->imports))
		return import_free(ptr, chunk, NULL);
	cell = pool_cell_live(chunk, ptr, &size);
	if (!cell)
		return CUDA_ERROR_INVALID_VALUE;
	queues_busy(busy_add, &busy);
	/* Work that is queued from now on need not be waited for. */
	while (busy.count > busy.room) {
		if (many != few)
			free(many);
		busy.room = busy.count + 8;
		busy.count = 0;
		many = malloc(busy.room * sizeof(*many));
		if (!many)
			return CUDA_ERROR_OUT_OF_MEMORY;
		busy.moment = many;
		queues_busy(busy_add, &busy);
	}
	pool = chunk->pool;
	if (!cell_claim(pool, cell, ptr, &size)) {
		if (many != few)
			free(many);
		return CUDA_ERROR_INVALID_VALUE;
	}
	late = busy.count > 1;
	if (late) {
		if (unlikely(client.zoned))
			pool_zone_look(cell, size);
		share_forget(cell);
		cell->freed = (struct moment){ .queue = NULL };
		tally = tally_get(pool);
		lock_take(&pool->lock);
		if (tally)
			tally_add(tally, -(int64_t)size);
		else
			pool->used_gone -= size;
		/* If there is no memory for the entry, the block stays taken. */
		late_add(pool, cell, size, busy.moment, busy.count);
		store_relaxed(&pool->dirty, true);
		lock_drop(&pool->lock);
	} else {
		cell_free_claimed(pool, cell, size, NULL, busy.count ? &busy.moment[0] : &past);
	}
	if (many != few)
		free(many);
	return CUDA_SUCCESS;
}
