// SPDX-License-Identifier: MIT
/*
 * Pools: chunks, and the pages in them.
 *
 * Owns the chunks of all pools, the ranges that they are divided into, and the answer to what lies
 * at an address in one. A chunk is one buffer object in whole 2 MiB. It is always divided into
 * ranges without gaps; a range that is free touches no other free one, and one that is pending no
 * other that is pending in the same queue. A chunk that is one free range is idle and may be given
 * back.
 *
 * Free ranges, idle chunks and pending ranges are in three trees by size, then address, so that the
 * smallest one that is large enough is found, and of these the one lowest in memory: what is given
 * out stays dense. The trees are treaps. Pending ranges are in a list, too, in the order in which they were freed.
 *
 * An idle chunk that the release threshold does not allow is kept, if it was never exported: it
 * leaves the trees and is not reserved, but stays mapped, and the next chunk of the same length is
 * this one. Neither needs the kernel, which sees the chunk's word change and may take the memory
 * instead; then it is found out here when the chunk is wanted. Only the same length will do, so
 * that what is reserved does not depend on what was kept.
 *
 * Lookups take no lock. A chunk has a table of its pages that says which range begins there, with
 * all pages of a range of cells filled in; for the other pages a bitmap of the beginnings, with a
 * summary of its words, tells where the range began. What is live stays where it is in all of these
 * while its neighbours change.
 *
 * Locks: pool->lock for everything but lookups; mem_lock inside it for addresses and the list of
 * unused chunks.
 */
#include <errno.h>
#include <linux/mempolicy.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "pool.h"

#define CAPACITIES	40
#define NODES		1024		/* the most that the kernel can have */
#define KEPT_CHUNKS	64		/* of a pool */
#define KEPT_PART	4		/* of a device's memory: one in so many bytes */

uint32_t *chunk_words;
static struct chunk *unused_chunks[CAPACITIES];	/* by log2 of capacity; mem_lock */

/* ---- trees of ranges */

static bool tree_before(const struct range *a, const struct range *b)
{
	if (a->pages != b->pages)
		return a->pages < b->pages;
	return range_base(a) < range_base(b);
}

static void tree_add(struct range **link, struct range *range)
{
	struct range **left = &range->left, **right = &range->right, *t;

	while (*link && (*link)->priority >= range->priority)
		link = tree_before(range, *link) ? &(*link)->left : &(*link)->right;
	for (t = *link; t;) {
		if (tree_before(t, range)) {
			*left = t;
			left = &t->right;
			t = t->right;
		} else {
			*right = t;
			right = &t->left;
			t = t->left;
		}
	}
	*left = NULL;
	*right = NULL;
	*link = range;
}

static void tree_remove(struct range **link, const struct range *range)
{
	struct range *left = range->left, *right = range->right;

	while (*link != range)
		link = tree_before(range, *link) ? &(*link)->left : &(*link)->right;
	while (left && right) {
		if (left->priority >= right->priority) {
			*link = left;
			link = &left->right;
			left = *link;
		} else {
			*link = right;
			link = &right->left;
			right = *link;
		}
	}
	*link = left ? left : right;
}

static struct range *tree_find(struct range *t, uint32_t pages)
{
	struct range *best = NULL;

	while (t) {
		if (t->pages >= pages) {
			best = t;
			t = t->left;
		} else {
			t = t->right;
		}
	}
	return best;
}

/* The smallest pending range that the taker may have, if it is among the next @tries. */
static struct range *tree_search(struct range *t, uint32_t pages, const struct taker *taker,
				 unsigned int *tries)
{
	struct range *found;

	while (t && t->pages < pages)
		t = t->right;
	if (!t)
		return NULL;
	found = tree_search(t->left, pages, taker, tries);
	if (found || !*tries)
		return found;
	(*tries)--;
	if (moment_passed(&t->freed, taker))
		return t;
	return tree_search(t->right, pages, taker, tries);
}

/* ---- tables of a chunk */

static void start_set(struct chunk *chunk, uint32_t page, struct range *range)
{
	store_release(&chunk->at[page], range);
	store_release(&chunk->starts[page / 64], chunk->starts[page / 64] | 1ull << page % 64);
	store_release(&chunk->summary[page / 4096],
		      chunk->summary[page / 4096] | 1ull << page / 64 % 64);
}

static void start_clear(struct chunk *chunk, uint32_t page)
{
	uint64_t word = chunk->starts[page / 64] & ~(1ull << page % 64);

	store_release(&chunk->at[page], NULL);
	store_release(&chunk->starts[page / 64], word);
	if (!word)
		store_release(&chunk->summary[page / 4096],
			      chunk->summary[page / 4096] & ~(1ull << page / 64 % 64));
}

/* The highest set bit at or below @bit of a word, or -1. */
static int bit_before(uint64_t word, unsigned int bit)
{
	word <<= 63 - bit;
	return word ? (int)bit - __builtin_clzll(word) : -1;
}

/* The page at or before @page that a range begins at, or -1 while that changes. */
static int64_t start_before(const struct chunk *chunk, uint32_t page)
{
	int64_t word = page / 64, group;
	int bit = bit_before(load_acquire(&chunk->starts[word]), page % 64);

	if (bit >= 0)
		return word * 64 + bit;
	for (group = --word / 64; word >= 0; group--, word = group * 64 + 63) {
		bit = bit_before(load_acquire(&chunk->summary[group]), word % 64);
		if (bit < 0)
			continue;
		word = group * 64 + bit;
		bit = bit_before(load_acquire(&chunk->starts[word]), 63);
		return bit < 0 ? -1 : word * 64 + bit;
	}
	return -1;
}

struct range *range_inside(struct chunk *chunk, uint64_t page)
{
	int64_t start = start_before(chunk, page);

	return start < 0 ? NULL : load_acquire(&chunk->at[start]);
}

struct range *range_of(uint64_t addr)
{
	struct chunk *chunk = vm_chunk(addr);

	return chunk->at[(addr - chunk->block->base) / PAGE];
}

/* ---- ranges */

static struct range *range_get(pool_t *pool)
{
	enum { BATCH = 32 };
	struct range *range = pool->unused;
	static uint32_t seed = 1;	/* any value does */

	if (!range) {
		unsigned int i;

		range = calloc(BATCH, sizeof(*range));
		if (!range)
			return NULL;
		for (i = 1; i < BATCH; i++)
			range[i - 1].next = &range[i];
	}
	pool->unused = range->next;
	range->next = NULL;
	range->prev = NULL;
	range->priority = load_relaxed(&seed) * 1664525 + 1013904223;
	store_relaxed(&seed, range->priority);
	range->priority >>= 8;
	return range;
}

static void range_put(pool_t *pool, struct range *range)
{
	range->state = RANGE_UNUSED;
	range->next = pool->unused;
	pool->unused = range;
}

static void idle_add(pool_t *pool, struct chunk *chunk)
{
	pool->idle_pages += chunk->pages;
	chunk->idle = true;
	chunk->prev_idle = NULL;
	chunk->next_idle = pool->idle;
	if (pool->idle)
		pool->idle->prev_idle = chunk;
	pool->idle = chunk;
}

static void idle_remove(pool_t *pool, struct chunk *chunk)
{
	if (chunk->prev_idle)
		chunk->prev_idle->next_idle = chunk->next_idle;
	else
		pool->idle = chunk->next_idle;
	if (chunk->next_idle)
		chunk->next_idle->prev_idle = chunk->prev_idle;
	pool->idle_pages -= chunk->pages;
	chunk->idle = false;
}

/* Into its tree; at the end of the list if it is pending, or behind @after. */
static void range_in(pool_t *pool, struct range *range, struct range *after)
{
	if (range->state == RANGE_FREE && range->pages == range->chunk->pages) {
		tree_add(&pool->idle_tree, range);
		idle_add(pool, range->chunk);
		return;
	}
	if (range->state == RANGE_FREE) {
		tree_add(&pool->tree, range);
		return;
	}
	tree_add(&pool->pending, range);
	range->prev = after ? after : pool->newest;
	range->next = range->prev ? range->prev->next : NULL;
	if (range->next)
		range->next->prev = range;
	else
		pool->newest = range;
	if (range->prev)
		range->prev->next = range;
	else
		pool->oldest = range;
}

static void range_out(pool_t *pool, struct range *range)
{
	if (range->state == RANGE_FREE && range->chunk->idle) {
		tree_remove(&pool->idle_tree, range);
		idle_remove(pool, range->chunk);
		return;
	}
	if (range->state == RANGE_FREE) {
		tree_remove(&pool->tree, range);
		return;
	}
	tree_remove(&pool->pending, range);
	if (range->prev)
		range->prev->next = range->next;
	else
		pool->oldest = range->next;
	if (range->next)
		range->next->prev = range->prev;
	else
		pool->newest = range->prev;
}

/* Whether a neighbour can be one with a range that is about to be free or pending. */
static bool joins(const struct range *range, const struct range *other)
{
	return other->state == range->state &&
	       (range->state == RANGE_FREE || other->freed.queue == range->freed.queue);
}

/* @other is swallowed; the caller moves the borders. */
static void swallow(pool_t *pool, struct range *range, struct range *other)
{
	range_out(pool, other);
	if (range->freed.value < other->freed.value)
		range->freed.value = other->freed.value;
	range->pages += other->pages;
	range_put(pool, other);
}

/* A range that is in no tree, with its state and moment, joins its neighbours. */
static void range_settle(pool_t *pool, struct range *range)
{
	struct chunk *chunk = range->chunk;
	uint32_t end = range->first + range->pages;
	struct range *other;

	if (end < chunk->pages) {
		other = chunk->at[end];
		if (joins(range, other)) {
			start_clear(chunk, end);
			swallow(pool, range, other);
		}
	}
	if (range->first) {
		other = chunk->at[start_before(chunk, range->first - 1)];
		if (joins(range, other)) {
			start_clear(chunk, range->first);
			range->first = other->first;
			swallow(pool, range, other);
			start_set(chunk, range->first, range);
		}
	}
	range_in(pool, range, NULL);
}

/*
 * An idle chunk for less than all of it: the rest cannot be given back then. All that is reserved
 * so and not used must stay below 1/32 of the most that was ever used. A pool that may reserve no
 * more would have to give the chunk back for a smaller one. It divides it instead, as the driver
 * does, so that the parts can be one again while they are pending: in halves, and if there is next
 * to nothing that it could still reserve, in any way.
 */
static bool may_split(pool_t *pool, uint32_t pages, uint32_t have, bool drained)
{
	uint64_t busy = pool->reserved - pool->idle_pages * PAGE + (uint64_t)have * PAGE;
	uint64_t used = pool_used(pool) + (uint64_t)pages * PAGE;
	uint64_t most = used > (uint64_t)pool->used_high ? used : (uint64_t)pool->used_high;
	/* What a chunk for this one would have at least. */
	uint64_t chunk = pages * (uint64_t)PAGE > SHARES_CHUNK ? pages * (uint64_t)PAGE : SLOT;

	if (drained && pool->limit && pool->reserved + chunk > pool->limit &&
	    (pool->limit - pool->reserved <= limit_rest(pool) ||
	     (have >= 2 * (uint64_t)pages && have - 2 * (uint64_t)pages <= pages / 64)))
		return true;
	return have - pages <= pages / 64 || busy <= used + most / 32;
}

struct range *pages_take(pool_t *pool, uint32_t pages, const struct taker *taker)
{
	struct range *range = tree_find(pool->tree, pages), *other, *rest;
	unsigned int tries = taker->exhausted ? ~0u : 32;

	if (pool->pending) {
		other = tree_search(pool->pending, pages, taker, &tries);
		if (other && (!range || other->pages <= range->pages))
			range = other;
	}
	if (!range) {
		range = tree_find(pool->idle_tree, pages);
		if (!range || (!taker->split && !may_split(pool, pages, range->pages,
							taker->drained)))
			return NULL;
	}
	if (range->pages > pages) {
		rest = range_get(pool);
		if (!rest)
			return NULL;
		rest->chunk = range->chunk;
		rest->first = range->first + pages;
		rest->pages = range->pages - pages;
		rest->state = range->state;
		rest->freed = range->freed;
		store_relaxed(&rest->cells, NULL);
		store_relaxed(&rest->cell.size, 0);
		other = range->state == RANGE_PENDING ? range->prev : NULL;
		range_out(pool, range);
		range->pages = pages;
		start_set(rest->chunk, rest->first, rest);
		range_in(pool, rest, other);
	} else {
		range_out(pool, range);
	}
	range->state = RANGE_BLOCK;
	store_relaxed(&range->cell.base, range_base(range));
	range->cell.freed = range->freed;
	pool->blocks++;
	return range;
}

void range_publish_cells(struct range *range, struct cells *cells)
{
	struct chunk *chunk = range->chunk;
	uint32_t page;

	range->state = RANGE_CELLS;
	store_release(&range->cells, cells);
	for (page = range->first + 1; page < range->first + range->pages; page++)
		store_release(&chunk->at[page], range);
}

void pages_give(pool_t *pool, struct range *range, const struct moment *freed)
{
	uint32_t page;

	if (range->state == RANGE_CELLS) {
		for (page = range->first + 1; page < range->first + range->pages; page++)
			store_release(&range->chunk->at[page], NULL);
		store_release(&range->cells, NULL);
	}
	range->state = freed->queue ? RANGE_PENDING : RANGE_FREE;
	range->freed = *freed;
	pool->blocks--;
	range_settle(pool, range);
}

void pages_settle(pool_t *pool, const struct taker *taker, unsigned int tries)
{
	struct range *range = pool->oldest, *next;

	for (; range && tries; range = next) {
		next = range->next;
		if (!moment_settled(&range->freed, taker)) {
			tries--;
			continue;
		}
		range_out(pool, range);
		range->state = RANGE_FREE;
		range->freed = (struct moment){ .queue = NULL };
		/* A neighbour that is pending stays in the list: only free ones are swallowed. */
		range_settle(pool, range);
	}
}

/* ---- chunks */

static unsigned int capacity_log2(uint64_t pages)
{
	return pages > 1 ? 64 - __builtin_clzll(pages - 1) : 0;
}

/* A list of imports stays with the structure: there may be readers. mem_lock is held. */
static void chunk_put(struct chunk *chunk)
{
	struct chunk **list = &unused_chunks[capacity_log2(chunk->capacity)];

	chunk->next = *list;
	*list = chunk;
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
	/* Pages that are not used cost nothing but addresses. */
	chunk->at = calloc(capacity, sizeof(*chunk->at));
	chunk->starts = calloc((capacity + 63) / 64, sizeof(*chunk->starts));
	chunk->summary = calloc((capacity + 4095) / 4096, sizeof(*chunk->summary));
	if (!chunk->block || !chunk->at || !chunk->starts || !chunk->summary) {
		free(chunk->block);
		free(chunk->at);
		free(chunk->starts);
		free(chunk->summary);
		free(chunk);
		return NULL;
	}
	return chunk;
}

/* Map a buffer object, which becomes the chunk's in any case. mem_lock is held. */
static CUresult chunk_map(struct chunk *chunk, CUdevice device, uint32_t bo, uint64_t length,
			  bool dark)
{
	struct block *block = chunk->block;
	CUresult result = CUDA_ERROR_OUT_OF_MEMORY;

	store_relaxed(&block->base, vm_reserve(round_up(length, SLOT)));
	store_relaxed(&block->length, round_up(length, SLOT));
	store_relaxed(&block->id, mem_new_block_id());
	store_relaxed(&block->bo, bo);
	store_relaxed(&block->device, device);
	block->mapped = length;
	block->dark = dark;
	store_relaxed(&block->chunk, chunk);
	store_relaxed(&block->whole, &vm_special);
	store_relaxed(&chunk->base, block->base);
	if (!block->base)
		goto destroy;
	result = vm_map(block->base, length, bo, dark);
	if (result) {
		vm_release(block->base, block->length);
		goto destroy;
	}
	result = vm_publish(block);
	if (result) {
		vm_unmap(block->base, length, block->length);
		goto destroy;
	}
	return CUDA_SUCCESS;

destroy:
	client_destroy_id(bo);
	return result;
}

static void chunk_link(pool_t *pool, struct chunk *chunk)
{
	chunk->prev = NULL;
	chunk->next = pool->chunks;
	if (chunk->next)
		chunk->next->prev = chunk;
	pool->chunks = chunk;
	grow_count(1);
}

/*
 * Have what this thread's calls allocate on a node only, or no more. The memory is all there when
 * the kernel's call for it returns, so that is enough. Whoever may not say so (containers) and a
 * kernel that knows no nodes get memory somewhere. False: the thread may not use the node.
 */
struct placed {
	bool changed;
	int mode;
	unsigned long nodes[NODES / 64];
};

static bool place(struct placed *before, const pool_t *pool)
{
	unsigned long nodes[NODES / 64] = { 0 };
	int node = pool->location.id;

	before->changed = false;
	if (pool->location.type != CU_MEM_LOCATION_TYPE_HOST_NUMA || node >= NODES ||
	    syscall(SYS_get_mempolicy, &before->mode, before->nodes, NODES, NULL, 0))
		return true;
	nodes[node / 64] = 1ul << node % 64;
	before->changed = !syscall(SYS_set_mempolicy, MPOL_BIND, nodes, NODES);
	return before->changed || errno != EINVAL;
}

static void place_back(const struct placed *before)
{
	/* The default policy has no nodes. */
	if (before->changed)
		syscall(SYS_set_mempolicy, before->mode,
			before->mode == MPOL_DEFAULT ? NULL : before->nodes,
			before->mode == MPOL_DEFAULT ? 0 : NODES);
}

/* A word of zero is of a chunk that is not kept. */
static CUresult chunk_bo(const pool_t *pool, uint64_t length, uint32_t *bo, uint64_t *number,
			 uint32_t *word)
{
	struct gpumem_bo_alloc alloc = {
		.size = sizeof(alloc), .device = client.device[pool->device].index,
		.length = length, .pool = pool->id, .name = "pool",
		.flags = pool->flags & POOL_HOST ? GPUMEM_BO_ALLOC_HOST : 0,
	};
	struct placed before;
	int error;

	if (!place(&before, pool))
		return CUDA_ERROR_OUT_OF_MEMORY;
	error = client_ioctl(GPUMEM_BO_ALLOC, &alloc);
	place_back(&before);
	*bo = alloc.id;
	*number = alloc.chunk;
	*word = chunk_words ? alloc.word : 0;
	return result_of_errno(error);
}

/* A chunk that is in no tree goes back to the kernel. */
static void chunk_drop(struct chunk *chunk)
{
	struct block *block = chunk->block;
	pool_t *pool = chunk->pool;

	if (chunk->pages) {
		struct range *range = chunk->at[0];

		start_clear(chunk, 0);
		range_put(pool, range);
		if (pool->flags & POOL_MANAGED)
			managed_forget_range(block->base, (uint64_t)chunk->pages * PAGE);
	}
	grow_count(-1);
	if (chunk->prev)
		chunk->prev->next = chunk->next;
	else
		pool->chunks = chunk->next;
	if (chunk->next)
		chunk->next->prev = chunk->prev;
	lock_take(&mem_lock);
	vm_retract(block);
	vm_unmap(block->base, block->mapped, block->length);
	client_destroy_id(block->bo);
	chunk_put(chunk);
	lock_drop(&mem_lock);
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

/* It is not idle any more, nor kept. */
static void chunk_forget(struct chunk *chunk)
{
	kept_remove(chunk->pool, chunk);
	chunk_drop(chunk);
}

/* False: the kernel has the memory. */
static bool chunk_regain(const struct chunk *chunk)
{
	uint32_t kept = GPUMEM_CACHE_KEPT;

	return __atomic_compare_exchange_n(&chunk_words[chunk->word], &kept, GPUMEM_CACHE_USED,
					   false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}

/* Make the idle chunk one that is kept, if it can be. */
static bool chunk_keep(pool_t *pool, struct chunk *chunk)
{
	uint64_t length = (uint64_t)chunk->pages * PAGE;
	uint64_t most = client.device[pool->device].total / KEPT_PART;

	if (!chunk->word || length > most || load_relaxed(&chunk->flags) & ALLOC_EXPORTED)
		return false;
	while (pool->oldest_kept &&
	       (pool->kept_count == KEPT_CHUNKS || pool->kept_bytes > most - length))
		chunk_forget(pool->oldest_kept);
	if (pool->flags & POOL_MANAGED)
		managed_forget_range(chunk->block->base, length);
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

/* A kept chunk of a length is an idle one again; false if there is none. */
static bool chunk_again(pool_t *pool, uint64_t length)
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

CUresult chunk_make(pool_t *pool, uint64_t length)
{
	bool dark = client.strict && !(pool->flags & (POOL_HOST | POOL_MANAGED));
	struct range *range;
	struct chunk *chunk;
	CUresult result;
	uint64_t number;
	uint32_t bo, word;

	if (length / PAGE > UINT32_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (chunk_again(pool, length))
		return CUDA_SUCCESS;
	if (dark) {
		result = copy_reserve(pool->device);
		if (result)
			return result;
	}
	range = range_get(pool);
	if (!range)
		return CUDA_ERROR_OUT_OF_MEMORY;
	lock_take(&mem_lock);
	chunk = chunk_get(length / PAGE);
	lock_drop(&mem_lock);
	result = chunk ? chunk_bo(pool, length, &bo, &number, &word) : CUDA_ERROR_OUT_OF_MEMORY;
	if (!result) {
		chunk->pool = pool;
		chunk->number = number;
		chunk->word = word;
		chunk->pages = length / PAGE;
		store_relaxed(&chunk->flags, ALLOC_POOL |
			      (pool->flags & POOL_HOST ? ALLOC_HOST : 0) |
			      (pool->flags & POOL_MANAGED ? ALLOC_MANAGED : 0) |
			      (pool->flags & POOL_DECOMPRESS ? ALLOC_DECOMPRESS : 0));
		lock_take(&mem_lock);
		result = chunk_map(chunk, pool->device, bo, length, dark);
		lock_drop(&mem_lock);
	}
	if (result) {
		range_put(pool, range);
		if (chunk) {
			lock_take(&mem_lock);
			chunk_put(chunk);
			lock_drop(&mem_lock);
		}
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
	struct chunk *chunk;
	CUresult result;

	lock_take(&mem_lock);
	/* There is no page of it in the tables. */
	chunk = length / PAGE <= UINT32_MAX ? chunk_get(1) : NULL;
	if (chunk) {
		chunk->pool = pool;
		chunk->number = number;
		chunk->word = 0;
		chunk->pages = 0;
		store_relaxed(&chunk->flags, ALLOC_POOL | ALLOC_IMPORTED |
			      (pool->flags & POOL_HOST ? ALLOC_HOST : 0));
		result = chunk_map(chunk, device, bo, length,
				   client.strict && !(pool->flags & POOL_HOST));
		if (result)
			chunk_put(chunk);
	} else {
		client_destroy_id(bo);
		result = CUDA_ERROR_OUT_OF_MEMORY;
	}
	lock_drop(&mem_lock);
	if (result)
		return result;
	chunk_link(pool, chunk);
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
	chunk_drop(chunk);
}

void chunks_release(pool_t *pool, uint64_t keep, bool below)
{
	struct chunk *chunk = pool->idle, *earlier;
	bool told = true;

	/* What became idle last is wanted next: it goes last. */
	while (chunk && chunk->next_idle)
		chunk = chunk->next_idle;
	for (; chunk && pool->reserved > keep; chunk = earlier) {
		earlier = chunk->prev_idle;
		if (!below && pool->reserved - (uint64_t)chunk->pages * PAGE < keep)
			continue;
		if (chunk_keep(pool, chunk))
			continue;
		chunk_destroy(chunk);
		told = false;
	}
	if (!told)
		pool_tell(pool);
}

/* ---- lookups */

enum found pool_lookup(struct chunk *chunk, uint64_t addr, struct span *span)
{
	struct import *imports = load_acquire(&chunk->imports);
	struct block *block = chunk->block;
	struct cell *cell;
	uint32_t seq;

	if (unlikely(imports != NULL)) {
		enum found found = import_lookup(imports, addr, span);

		if (found != FOUND)
			return found;
	} else {
		cell = pool_cell(chunk, addr);
		if (!cell)
			return NOTHING;
		seq = load_acquire(&cell->seq);
		if (seq & 1)
			return CHANGING;
		span->base = load_relaxed(&cell->base);
		span->size = load_relaxed(&cell->size);
		span->id = load_relaxed(&cell->id);
		span->flags = load_relaxed(&cell->flags);
		span->marks = &cell->flags;
		fence_acquire();
		if (load_relaxed(&cell->seq) != seq)
			return CHANGING;
		if (addr - span->base >= span->size)
			return NOTHING;
	}
	span->flags |= load_relaxed(&chunk->flags);
	span->alloc = NULL;
	span->ctx = NULL;
	span->pool = load_relaxed(&chunk->pool);
	span->block_base = load_relaxed(&block->base);
	span->block_length = load_relaxed(&block->length);
	span->block_id = load_relaxed(&block->id);
	span->bo = load_relaxed(&block->bo);
	span->device = load_relaxed(&block->device);
	return FOUND;
}
