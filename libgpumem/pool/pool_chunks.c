// SPDX-License-Identifier: MIT
/*
 * Pools: chunks, the buffer objects that pools get from the kernel and give back.
 *
 * Owns the chunks of all pools. A chunk is one buffer object of whole pages, mapped at 2 MiB slots of its own.
 * A chunk that is one free range (pool_pages.c) is idle and may be given back.
 *
 * An idle chunk that exceeds the release threshold is kept, if the kernel gave it a word, it was never
 * exported, and it is no longer than 1/KEPT_PART of the device's memory. A kept chunk leaves the trees and is
 * not reserved, but stays mapped, and the pool reuses it for the next chunk of the same length. Keeping and
 * reusing call nothing of the kernel: the library changes the chunk's word. The kernel may take the memory of a
 * kept chunk, and changes the word then. The library notices this when it wants the chunk again. Only a chunk
 * of the same length is reused, so that the reserved bytes do not depend on the kept chunks.
 *
 * A chunk of a managed pool is a buffer object of the kernel's managed memory, if the kernel allows these. It takes
 * memory when it is touched, and its blocks move. The kernel gets the pool's location as the preferred location of the
 * whole chunk. The kernel has no pool for such chunks, so they have neither numbers nor words.
 *
 * A chunk is given back in two steps: under the lock it is doomed, so that neither the pool nor a
 * lookup finds it; without a lock it is unmapped and given to the kernel.
 *
 * Locks: pool->lock; mem_lock inside it for addresses and the list of unused chunks.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pool/pool_chunks.h"
#include "pool/pool_pages.h"

#define CAPACITIES	40
#define KEPT_CHUNKS	64		/* of a pool */
#define KEPT_PART	4		/* of a device's memory: one in so many bytes */
#define TABLE_LARGE	(16ull << 20)	/* bytes */

uint32_t *chunk_words;
static struct chunk *unused_chunks[CAPACITIES];	/* by log2 of capacity; mem_lock */

static unsigned int capacity_log2(uint64_t pages)
{
	return pages > 1 ? 64 - __builtin_clzll(pages - 1) : 0;
}

/* The chunk keeps its list of imports, because lookups may still read it. mem_lock is held. */
static void chunk_put(struct chunk *chunk)
{
	struct chunk **list = &unused_chunks[capacity_log2(chunk->capacity)];

	chunk->next = *list;
	*list = chunk;
}

/*
 * A table of zeros, or NULL. Pages of it that are never used cost nothing but addresses: a large one may exceed the
 * machine's memory, which malloc() refuses.
 */
static void *table_make(uint64_t bytes)
{
	void *table;

	if (bytes < TABLE_LARGE)
		return calloc(1, bytes);
	table = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return table == MAP_FAILED ? NULL : table;
}

static void table_drop(void *table, uint64_t bytes)
{
	if (bytes < TABLE_LARGE)
		free(table);
	else if (table)
		munmap(table, bytes);
}

/* mem_lock is held. */
static struct chunk *chunk_get(uint64_t pages)
{
	unsigned int log2 = capacity_log2(pages);
	struct chunk *chunk = unused_chunks[log2];
	uint64_t capacity = 1ull << log2;

	if (chunk) {
		unused_chunks[log2] = chunk->next;
		return chunk;
	}
	chunk = calloc(1, sizeof(*chunk));
	if (!chunk)
		return NULL;
	chunk->capacity = capacity;
	chunk->block = calloc(1, sizeof(*chunk->block));
	chunk->at = table_make(capacity * sizeof(*chunk->at));
	chunk->starts = calloc((capacity + 63) / 64, sizeof(*chunk->starts));
	chunk->summary = calloc((capacity + 4095) / 4096, sizeof(*chunk->summary));
	if (!chunk->block || !chunk->at || !chunk->starts || !chunk->summary) {
		free(chunk->block);
		table_drop(chunk->at, capacity * sizeof(*chunk->at));
		free(chunk->starts);
		free(chunk->summary);
		free(chunk);
		return NULL;
	}
	return chunk;
}

/* Map a buffer object, which the chunk takes over in any case. mem_lock is not held. */
static CUresult chunk_map(struct chunk *chunk, CUdevice device, uint32_t bo, uint64_t length,
			  bool dark)
{
	struct block *block = chunk->block;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
	uint64_t base;

	lock_take(&mem_lock);
	base = vm_reserve(round_up(length, SLOT));
	lock_drop(&mem_lock);
	store_relaxed(&block->base, base);
	store_relaxed(&block->length, round_up(length, SLOT));
	store_relaxed(&block->id, mem_new_block_id());
	store_relaxed(&block->bo, bo);
	store_relaxed(&block->device, device);
	block->mapped = length;
	block->dark = dark;
	store_relaxed(&block->chunk, chunk);
	store_relaxed(&block->whole, &vm_special);
	store_relaxed(&chunk->base, block->base);
	if (!base)
		goto destroy;
	result = vm_map(base, length, bo, dark);
	lock_take(&mem_lock);
	if (result) {
		vm_release(base, block->length);
		lock_drop(&mem_lock);
		goto destroy;
	}
	result = vm_publish(block);
	lock_drop(&mem_lock);
	if (result) {
		vm_unmap_unlocked(base, length, block->length);
		goto destroy;
	}
	return CUDA_SUCCESS;

destroy:
	client_destroy_id(bo);
	return result;
}

void chunk_link(pool_t *pool, struct chunk *chunk)
{
	chunk->prev = NULL;
	chunk->next = pool->chunks;
	if (chunk->next)
		chunk->next->prev = chunk;
	pool->chunks = chunk;
	grow_count(1);
}

/* Have the kernel prefer the pool's location for a managed buffer object. */
static CUresult bo_prefer(const pool_t *pool, uint32_t bo, uint64_t length)
{
	struct gpumem_bo_advise advise = {
		.size = sizeof(advise), .id = bo, .length = length, .advice = GPUMEM_ADVICE_PREFERRED,
		.device = GPUMEM_ADVICE_HOST,
	};

	if (pool->location.type == CU_MEM_LOCATION_TYPE_NONE)
		return CUDA_SUCCESS;
	if (pool->location.type == CU_MEM_LOCATION_TYPE_DEVICE)
		advise.device = client.device[pool->device].index;
	return result_of_errno(client_ioctl(GPUMEM_BO_ADVISE, &advise));
}

/* Make the buffer object of a managed pool's chunk. */
static CUresult managed_bo(const pool_t *pool, uint64_t length, uint32_t *bo, bool *movable)
{
	CUresult result = bo_alloc_managed(bo, pool->device, length, "pool", movable);

	if (!result && *movable) {
		result = bo_prefer(pool, *bo, length);
		if (result)
			client_destroy_id(*bo);
	}
	return result;
}

/* Make the buffer object of another pool's chunk. A word of 0: the chunk cannot be kept. */
static CUresult pool_bo(const pool_t *pool, uint64_t length, uint32_t *bo, uint64_t *number,
			uint32_t *word)
{
	struct gpumem_bo_alloc alloc = {
		.size = sizeof(alloc), .device = client.device[pool->device].index,
		.length = length, .pool = pool->id, .name = "pool",
		.flags = pool_is(pool, POOL_HOST) ? GPUMEM_BO_ALLOC_HOST : 0,
	};
	int error;

	if (!alloc.flags && fault_alloc(pool->device, length))
		return CUDA_ERROR_OUT_OF_MEMORY;
	error = client_ioctl(GPUMEM_BO_ALLOC, &alloc);
	*bo = alloc.id;
	*number = alloc.chunk;
	*word = chunk_words ? alloc.word : 0;
	return result_of_errno(error);
}

/* Make a chunk's buffer object, and store in the chunk what the kernel says about it. */
static CUresult chunk_bo(const pool_t *pool, struct chunk *chunk, uint64_t length, uint32_t *bo)
{
	struct node_policy before;
	bool movable = false;
	CUresult result;

	chunk->number = 0;
	chunk->word = 0;
	if (fault_grow(length))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (!node_bind(&before, &pool->location))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (pool_is(pool, POOL_MANAGED))
		result = managed_bo(pool, length, bo, &movable);
	else
		result = pool_bo(pool, length, bo, &chunk->number, &chunk->word);
	node_restore(&before);
	store_relaxed(&chunk->flags, ALLOC_POOL |
		      (pool_is(pool, POOL_HOST) ? ALLOC_HOST : 0) |
		      (pool_is(pool, POOL_MANAGED) ? ALLOC_MANAGED : 0) | (movable ? ALLOC_MOVABLE : 0) |
		      (pool_is(pool, POOL_DECOMPRESS) ? ALLOC_DECOMPRESS : 0));
	return result;
}

/* Doom a chunk that is in no tree: chunks_return() gives it back. */
static void chunk_doom(struct chunk *chunk)
{
	struct block *block = chunk->block;
	pool_t *pool = chunk->pool;

	if (chunk->pages) {
		struct range *range = chunk->at[0];

		start_clear(chunk, 0);
		range_put(pool, range);
		if (pool_is(pool, POOL_MANAGED))
			managed_forget_range(block->base, (uint64_t)chunk->pages * PAGE);
	}
	if (chunk->prev)
		chunk->prev->next = chunk->next;
	else
		pool->chunks = chunk->next;
	if (chunk->next)
		chunk->next->prev = chunk->prev;
	lock_take(&mem_lock);
	vm_retract(block);
	lock_drop(&mem_lock);
	chunk->next = pool->doomed;
	pool->doomed = chunk;
}

/* No lock is held. */
static void chunk_give_back(struct chunk *chunk)
{
	struct block *block = chunk->block;

	vm_unmap_unlocked(block->base, block->mapped, block->length);
	client_destroy_id(block->bo);
	lock_take(&mem_lock);
	chunk_put(chunk);
	lock_drop(&mem_lock);
}

void chunk_abandon(struct chunk *chunk)
{
	lock_take(&mem_lock);
	vm_retract(chunk->block);
	lock_drop(&mem_lock);
	chunk_give_back(chunk);
}

void chunks_return(pool_t *pool)
{
	struct chunk *doomed = pool->doomed, *next;
	struct giver giver;

	if (!doomed)
		return;
	pool->doomed = NULL;
	pool->visitors++;
	giving_begin(&giver, pool);
	lock_drop(&pool->lock);
	for (; doomed; doomed = next) {
		next = doomed->next;
		chunk_give_back(doomed);
		grow_count(-1);
	}
	giving_end(&giver);
	lock_take(&pool->lock);
	pool->visitors--;
}

static void kept_remove(pool_t *pool, struct chunk *chunk)
{
	if (chunk->prev_idle)
		chunk->prev_idle->next_idle = chunk->next_idle;
	else
		pool->kept = chunk->next_idle;
	if (chunk->next_idle)
		chunk->next_idle->prev_idle = chunk->prev_idle;
	else
		pool->oldest_kept = chunk->prev_idle;
	pool->kept_count--;
	pool->kept_bytes -= (uint64_t)chunk->pages * PAGE;
}

/* Doom a kept chunk. */
static void chunk_forget(struct chunk *chunk)
{
	kept_remove(chunk->pool, chunk);
	chunk_doom(chunk);
}

/* Take a kept chunk's memory back. False: the kernel has taken it. */
static bool chunk_regain(const struct chunk *chunk)
{
	uint32_t kept = GPUMEM_CACHE_KEPT;

	return __atomic_compare_exchange_n(&chunk_words[chunk->word], &kept, GPUMEM_CACHE_USED,
					   false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* Keep an idle chunk, if it can be kept. */
static bool chunk_keep(pool_t *pool, struct chunk *chunk)
{
	uint64_t length = (uint64_t)chunk->pages * PAGE;
	uint64_t most = client.device[pool->device].total / KEPT_PART;

	if (!chunk->word || length > most || load_relaxed(&chunk->flags) & ALLOC_EXPORTED)
		return false;
	while (pool->oldest_kept &&
	       (pool->kept_count == KEPT_CHUNKS || pool->kept_bytes > most - length))
		chunk_forget(pool->oldest_kept);
	range_out(pool, chunk->at[0]);
	store_relaxed(&pool->reserved, pool->reserved - length);
	chunk->prev_idle = NULL;
	chunk->next_idle = pool->kept;
	if (pool->kept)
		pool->kept->prev_idle = chunk;
	else
		pool->oldest_kept = chunk;
	pool->kept = chunk;
	pool->kept_count++;
	pool->kept_bytes += length;
	store_release(&chunk_words[chunk->word], GPUMEM_CACHE_KEPT);
	return true;
}

static void count_reserved(pool_t *pool, uint64_t length)
{
	store_relaxed(&pool->reserved, pool->reserved + length);
	if (pool->reserved_high < pool->reserved)
		pool->reserved_high = pool->reserved;
}

bool chunk_again(pool_t *pool, uint64_t length)
{
	struct chunk *chunk, *next;

	for (chunk = pool->kept; chunk; chunk = next) {
		next = chunk->next_idle;
		if (load_relaxed(&chunk_words[chunk->word]) != GPUMEM_CACHE_KEPT) {
			chunk_forget(chunk);
			continue;
		}
		if ((uint64_t)chunk->pages * PAGE != length)
			continue;
		if (!chunk_regain(chunk)) {
			chunk_forget(chunk);
			continue;
		}
		kept_remove(pool, chunk);
		range_in(pool, chunk->at[0], NULL);
		count_reserved(pool, length);
		return true;
	}
	return false;
}

void chunks_forget(pool_t *pool)
{
	while (pool->kept)
		chunk_forget(pool->kept);
}

void chunks_init(void)
{
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, client.fd,
			  GPUMEM_MMAP_CACHE);

	chunk_words = page == MAP_FAILED ? NULL : page;
}

/* Make and map a chunk that is not in the pool's list yet. No lock is held. */
static CUresult chunk_new(pool_t *pool, uint64_t length, struct chunk **out)
{
	bool dark = client.strict && !pool_is(pool, POOL_HOST | POOL_MANAGED);
	struct chunk *chunk;
	CUresult result;
	uint32_t bo;

	if (dark) {
		result = stage_reserve(pool->device);
		if (result)
			return result;
	}
	lock_take(&mem_lock);
	chunk = chunk_get(length / PAGE);
	lock_drop(&mem_lock);
	if (!chunk)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = chunk_bo(pool, chunk, length, &bo);
	if (!result) {
		chunk->pool = pool;
		chunk->pages = length / PAGE;
		result = chunk_map(chunk, pool->device, bo, length, dark);
	}
	if (result) {
		lock_take(&mem_lock);
		chunk_put(chunk);
		lock_drop(&mem_lock);
		return result;
	}
	*out = chunk;
	return CUDA_SUCCESS;
}

CUresult chunk_make(pool_t *pool, uint64_t length)
{
	struct range *range;
	struct chunk *chunk;
	CUresult result;

	if (length / PAGE > UINT32_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	range = range_get(pool);
	if (!range)
		return CUDA_ERROR_OUT_OF_MEMORY;
	/*
	 * Give doomed chunks back first: the kernel must not count them when it makes the new chunk.
	 */
	chunks_return(pool);
	lock_drop(&pool->lock);
	result = chunk_new(pool, length, &chunk);
	if (result == CUDA_ERROR_OUT_OF_MEMORY && giving_wait(NULL))
		result = chunk_new(pool, length, &chunk);
	lock_take(&pool->lock);
	if (result) {
		range_put(pool, range);
		return result;
	}
	chunk_link(pool, chunk);
	range->chunk = chunk;
	range->first = 0;
	range->pages = chunk->pages;
	range->state = RANGE_FREE;
	range->freed = (struct moment){ .queue = NULL };
	store_relaxed(&range->cells, NULL);
	store_relaxed(&range->cell.size, 0);
	start_set(chunk, 0, range);
	range_in(pool, range, NULL);
	count_reserved(pool, length);
	pool_tell(pool);
	return CUDA_SUCCESS;
}

CUresult chunk_adopt(pool_t *pool, CUdevice device, uint32_t bo, uint64_t length,
		     uint64_t number, struct chunk **out)
{
	struct chunk *chunk = NULL;
	CUresult result;

	if (length / PAGE <= UINT32_MAX) {
		lock_take(&mem_lock);
		/* None of its pages is in the tables, so one entry is enough. */
		chunk = chunk_get(1);
		lock_drop(&mem_lock);
	}
	if (!chunk) {
		client_destroy_id(bo);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	chunk->pool = pool;
	chunk->number = number;
	chunk->word = 0;
	chunk->pages = 0;
	store_relaxed(&chunk->flags, ALLOC_POOL | ALLOC_IMPORTED |
		      (pool_is(pool, POOL_HOST) ? ALLOC_HOST : 0));
	result = chunk_map(chunk, device, bo, length, client.strict && !pool_is(pool, POOL_HOST));
	if (result) {
		lock_take(&mem_lock);
		chunk_put(chunk);
		lock_drop(&mem_lock);
		return result;
	}
	*out = chunk;
	return CUDA_SUCCESS;
}

void chunk_destroy(struct chunk *chunk)
{
	pool_t *pool = chunk->pool;

	if (chunk->pages) {
		range_out(pool, chunk->at[0]);
		store_relaxed(&pool->reserved,
			      pool->reserved - (uint64_t)chunk->pages * PAGE);
	}
	chunk_doom(chunk);
}

void chunks_release(pool_t *pool, uint64_t keep, bool below)
{
	struct chunk *chunk = pool->idle, *earlier;
	bool reported = true;

	/* The chunk that became idle last is probably needed next, so it is given back last. */
	while (chunk && chunk->next_idle)
		chunk = chunk->next_idle;
	for (; chunk && pool->reserved > keep; chunk = earlier) {
		earlier = chunk->prev_idle;
		if (!below && pool->reserved - (uint64_t)chunk->pages * PAGE < keep)
			continue;
		if (chunk_keep(pool, chunk))
			continue;
		chunk_destroy(chunk);
		reported = false;
	}
	if (!reported)
		pool_tell(pool);
}
