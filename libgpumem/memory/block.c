// SPDX-License-Identifier: MIT
/*
 * Blocks: how they are made and destroyed, and the units of shared ones.
 *
 * A block is one buffer object at one place of the address arena. A whole block has one alloc. A shared block
 * has several: it is 2 MiB in units of 512 bytes, which are given out first fit. The kernel zeroes a new buffer
 * object. A unit that had an owner is zeroed before it gets the next owner: in the background (clear.c) or, if
 * that has not happened yet, by the allocating thread.
 *
 * A block is made in three steps. Addresses are reserved with mem_lock held. The kernel populates and maps the
 * buffer object without the lock: that takes longer the larger the buffer object is. The block is published
 * with the lock held. Destroying takes the same steps backwards. So no thread waits for memory that another
 * thread asked for, with one exception: a list of shared blocks grows by one block at a time. A thread that
 * finds no room in a list that is growing sleeps until the list has changed, instead of making another block.
 *
 * Withheld ranges: units that were exported (a token or a DMA-buf of them exists or existed) are retired in the
 * kernel when they are freed. While another process or driver can still reach one of their pages the units stay
 * taken, in a list of the block. When no other room is left, the library walks this list before it asks the
 * kernel for more memory. A block whose last alloc is freed is destroyed at once: the kernel keeps shared
 * memory for as long as it is shared. Only the kernel knows whether a range can still be reached. The library
 * asks without the lock: it collects a few ranges at a time, and applies the answers to those that are still
 * withheld then.
 *
 * The pages of a DMA-buf may hold several allocs, and free units. units_expose() marks the allocs as exported, and
 * withholds the free units from the start, so no allocation gets them while the DMA-buf reaches them. Units that a
 * thread has taken and not published yet, or that are about to be freed, have no alloc that a lookup finds. The
 * block's map of exposed units says that they were exported.
 *
 * Invariants: a block in a list has units that are taken, or a thread that holds mem_lock is about to remove it
 * from the list. Units that are taken belong to the thread that took them until the thread has published an
 * alloc, so it may zero them without the lock. clear.c may write to free units until clear_take() has taken
 * them back, or clear_forget() has taken back all units of the block.
 *
 * Locks: mem_lock, as each function says. Only short system calls are made with it held: futex wakes, the one
 * that retires a freed range, and those that reserve addresses (vm.c).
 */
#include <stdlib.h>

#include "memory/memory.h"

struct withheld {
	struct withheld *next;
	uint64_t number;		/* of no other range; later ones have higher numbers */
	unsigned int first, units;
};

#define QUESTIONS	32u		/* ranges in one round of questions to the kernel */

static struct block *free_blocks;	/* mem_lock */
static uint64_t last_block_id;		/* atomic */
static uint64_t last_withheld;		/* mem_lock */

/* ---- blocks */

uint64_t mem_new_block_id(void)
{
	return __atomic_add_fetch(&last_block_id, 1, __ATOMIC_RELAXED);
}

/* mem_lock is held, as for the next two. */
static struct block *block_get(void)
{
	struct block *block = free_blocks;

	if (!block)
		return calloc(1, sizeof(*block) + SLOT_UNITS * sizeof(block->unit[0]));
	free_blocks = block->next;
	block->next = NULL;
	return block;
}

static void block_put(struct block *block)
{
	block->next = free_blocks;
	free_blocks = block;
}

static void block_unlink(struct block *block)
{
	if (!block->link)
		return;
	*block->link = block->next;
	if (block->next)
		block->next->link = block->link;
	block->link = NULL;
}

void block_doom(struct block *block, struct block **doomed)
{
	block_unlink(block);
	vm_retract(block);
	store_release(&block->whole, NULL);
	block->next = *doomed;
	*doomed = block;
}

static void block_destroy(struct block *block)
{
	clear_forget(block);
	vm_unmap_unlocked(block->base, block->mapped, block->length);
	client_destroy_id(block->bo);
	while (block->withheld) {
		struct withheld *next = block->withheld->next;

		free(block->withheld);
		block->withheld = next;
	}
	memset(block->used, 0, sizeof(block->used));
	memset(block->dirty, 0, sizeof(block->dirty));
	memset(block->exposed, 0, sizeof(block->exposed));
	lock_take(&mem_lock);
	block_put(block);
	lock_drop(&mem_lock);
}

void blocks_destroy(struct block *doomed)
{
	while (doomed) {
		struct block *next = doomed->next;

		block_destroy(doomed);
		doomed = next;
	}
}

/* A block with addresses, or NULL. */
static struct block *block_reserve(CUdevice device, uint32_t bo, uint64_t mapped, bool dark)
{
	uint64_t length = round_up(mapped, SLOT), base = 0;
	struct block *block;

	lock_take(&mem_lock);
	block = block_get();
	if (block)
		base = vm_reserve(length);
	if (block && !base) {
		block_put(block);
		block = NULL;
	}
	lock_drop(&mem_lock);
	if (!block)
		return NULL;
	store_relaxed(&block->base, base);
	store_relaxed(&block->length, length);
	store_relaxed(&block->id, mem_new_block_id());
	store_relaxed(&block->bo, bo);
	store_relaxed(&block->device, device);
	block->mapped = mapped;
	block->dark = dark;
	block->movable = false;
	block->allocs = 0;
	block->longest = SLOT_UNITS;
	return block;
}

CUresult block_make(struct block **made, CUdevice device, uint32_t bo, uint64_t mapped, bool dark)
{
	struct block *block = block_reserve(device, bo, mapped, dark);
	bool is_mapped = false;
	CUresult result;

	if (!block) {
		client_destroy_id(bo);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	result = vm_map(block->base, mapped, bo, dark);
	is_mapped = !result;
	lock_take(&mem_lock);
	if (is_mapped)
		result = vm_publish(block);
	else
		vm_release(block->base, block->length);
	if (!is_mapped)
		block_put(block);
	lock_drop(&mem_lock);
	if (!result) {
		*made = block;
		return CUDA_SUCCESS;
	}
	if (is_mapped)
		block_destroy(block);
	else
		client_destroy_id(bo);
	return result;
}

CUresult block_alloc(struct block **made, CUdevice device, uint64_t length, uint32_t flags)
{
	const char *name = length <= SLOT ? "shared" :
		flags & ALLOC_HIDDEN ? "array" :
		flags & ALLOC_HOST ? "cuMemHostAlloc" :
		flags & ALLOC_MANAGED ? "managed" : "cuMemAlloc";
	bool movable = false;
	CUresult result;
	uint32_t bo;

	if (flags & ALLOC_MANAGED)
		result = bo_alloc_managed(&bo, device, length, name, &movable);
	else
		result = bo_alloc(&bo, device, length, name, flags);
	if (!result)
		result = block_make(made, device, bo, length, kind_dark(flags));
	if (!result)
		(*made)->movable = movable;
	return result;
}

/* ---- units of a shared block */

/* The first unit of @want free ones in a row. -1: there are not so many; block->longest is set. */
static int units_find(struct block *block, unsigned int want)
{
	unsigned int unit = 0, run = 0, longest = 0;

	if (want > block->longest)
		return -1;
	while (unit < SLOT_UNITS) {
		uint64_t word = block->used[unit / 64] >> (unit % 64);
		bool used = word & 1;
		unsigned int left = 64 - unit % 64, same;

		/* How many units from here on are like this one, as far as this word goes. */
		word = used ? ~word : word;
		same = word ? (unsigned int)__builtin_ctzll(word) : left;
		same = same > left ? left : same;
		unit += same;
		run = used ? 0 : run + same;
		if (run > longest)
			longest = run;
		if (run >= want)
			return unit - run;
	}
	block->longest = longest;
	return -1;
}

static void units_free(struct block *block, unsigned int first, unsigned int count)
{
	map_clear(block->used, first, count);
	map_clear(block->exposed, first, count);
	block->longest = SLOT_UNITS;
}

/*
 * Clear memory that the CPU reaches. Pages of managed memory may be missing: get them first, so that a page which
 * cannot be had is an error here, and not SIGBUS. The kernel may call the OOM killer first, as for any access.
 */
static CUresult units_clear(const struct block *block, uint64_t addr, uint64_t length)
{
	CUresult result = CUDA_SUCCESS;

	if (block->movable)
		result = pages_populate(addr, length) ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
	if (!result)
		memset((void *)(uintptr_t)addr, 0, length);
	return result;
}

CUresult units_scrub(const struct block *block, const struct scrub *scrub)
{
	unsigned int unit = scrub->first, end = unit + scrub->count, from;
	CUresult result = CUDA_SUCCESS;

	while (!result && unit < end) {
		from = unit;
		unit = map_run(scrub->dirty, from, end);
		if (!map_has(scrub->dirty, from))
			continue;
		if (block->dark)
			result = strict_zero(block->device, block->base + from * UNIT,
					     (unit - from) * UNIT);
		else
			result = units_clear(block, block->base + from * UNIT, (unit - from) * UNIT);
	}
	return result;
}

/* ---- withheld ranges */

static struct gpumem_bo_retire about(const struct block *block, unsigned int first,
				     unsigned int units, unsigned int flags)
{
	return (struct gpumem_bo_retire){
		.size = sizeof(struct gpumem_bo_retire), .id = block->bo,
		.offset = first * UNIT, .length = units * UNIT, .flags = flags,
	};
}

/* Retire a range that is freed. True: another process or driver can still reach it. */
static bool retired_reached(const struct block *block, unsigned int first, unsigned int units)
{
	struct gpumem_bo_retire retire = about(block, first, units, 0);

	return bo_reached(&retire);
}

/*
 * Enter taken units into the block's list, where reclaim() finds them. Without memory for the entry they stay taken
 * until the block is destroyed. mem_lock is held.
 */
static void withhold(struct block *block, unsigned int first, unsigned int units)
{
	struct withheld *held = malloc(sizeof(*held));

	if (!held)
		return;
	held->number = ++last_withheld;
	held->first = first;
	held->units = units;
	held->next = block->withheld;
	block->withheld = held;
}

bool units_expose(struct block *block, unsigned int first, unsigned int units, bool *held)
{
	unsigned int unit = first, end = first + units, from;
	struct withheld *range;
	struct alloc *alloc;

	if (unlikely(block->clearing) && !clear_take(block, first, units)) {
		clear_await(held);
		return false;
	}
	/* The kernel's answers so far say nothing about the export that follows. */
	for (range = block->withheld; range; range = range->next)
		if (range->first < end && first < range->first + range->units)
			range->number = ++last_withheld;
	while (unit < end) {
		from = unit;
		unit = map_run(block->used, from, end);
		if (map_has(block->used, from))
			continue;
		map_set(block->used, from, unit - from);
		withhold(block, from, unit - from);
	}
	map_set(block->exposed, first, units);
	/* Others may write to the units. */
	map_set(block->dirty, first, units);
	for (unit = first; unit < end; unit++) {
		alloc = load_relaxed(&block->unit[unit]);
		if (alloc && (unit == first || alloc != load_relaxed(&block->unit[unit - 1])))
			__atomic_fetch_or(&alloc->flags, ALLOC_EXPORTED, __ATOMIC_SEQ_CST);
	}
	return true;
}

/* A round of questions to the kernel: ranges, highest number first, and the answers. */
struct questions {
	unsigned int count;
	uint64_t number[QUESTIONS];
	struct gpumem_bo_retire retire[QUESTIONS];
	bool reached[QUESTIONS];
};

static void question_add(struct questions *q, const struct block *block,
			 const struct withheld *held)
{
	unsigned int i;

	if (q->count == QUESTIONS && held->number < q->number[QUESTIONS - 1])
		return;
	i = q->count < QUESTIONS ? q->count++ : QUESTIONS - 1;
	for (; i && q->number[i - 1] < held->number; i--) {
		q->number[i] = q->number[i - 1];
		q->retire[i] = q->retire[i - 1];
	}
	q->number[i] = held->number;
	q->retire[i] = about(block, held->first, held->units, GPUMEM_BO_RETIRE_QUERY);
}

/* The ranges of a list with the highest numbers below @before. mem_lock is held. */
static void questions_find(struct questions *q, const struct block *list, uint64_t before)
{
	const struct withheld *held;

	q->count = 0;
	for (; list; list = list->next)
		for (held = list->withheld; held; held = held->next)
			if (held->number < before)
				question_add(q, list, held);
}

/* Whether the answers say that a range is not reached any more. */
static bool answered_free(const struct questions *q, uint64_t number)
{
	unsigned int i;

	for (i = 0; i < q->count; i++)
		if (q->number[i] == number)
			return !q->reached[i];
	return false;
}

/* Take back the ranges that the answers say are free, if they are still withheld. mem_lock is held. */
static bool answers_apply(const struct questions *q, struct block *list)
{
	bool got = false;

	for (; list; list = list->next) {
		struct withheld **link = &list->withheld, *held;

		while ((held = *link)) {
			if (!answered_free(q, held->number)) {
				link = &held->next;
				continue;
			}
			units_free(list, held->first, held->units);
			*link = held->next;
			free(held);
			got = true;
		}
	}
	return got;
}

/*
 * Take back withheld ranges that are not reached any more. Each round asks about the QUESTIONS highest numbers
 * below *@before, and lowers *@before to the last of them; a round that gets a range back is the last. False:
 * no range is left to ask about. mem_lock is held, and dropped in between.
 */
static bool reclaim(struct shared *list, uint64_t *before)
{
	struct questions q;
	unsigned int i;
	bool got;

	do {
		questions_find(&q, list->first, *before);
		if (!q.count)
			return false;
		*before = q.number[q.count - 1];
		lock_drop(&mem_lock);
		for (i = 0; i < q.count; i++)
			q.reached[i] = bo_reached(&q.retire[i]);
		lock_take(&mem_lock);
		got = answers_apply(&q, list->first);
	} while (!got);
	return true;
}

/* ---- lists of shared blocks; mem_lock is held */

static struct block *shared_room(struct shared *list, unsigned int units, int *first)
{
	struct block *block;

	for (block = list->first; block; block = block->next) {
		/* The kernel takes no managed memory any more: let no new one begin in an old block. */
		if (unlikely(block->movable) && !bo_movable())
			continue;
		*first = units_find(block, units);
		if (*first >= 0)
			return block;
	}
	return NULL;
}

/* Wait until another thread has made the list grow, or failed to. The lock is dropped in between. */
static void shared_await(struct shared *list)
{
	uint32_t grown = list->grown;

	lock_drop(&mem_lock);
	word_await(&list->grown, grown);
	lock_take(&mem_lock);
}

/* Add a block to the list. The lock is dropped in between. */
static CUresult shared_grow(struct shared *list, CUdevice device, uint32_t flags)
{
	struct block *block = NULL;
	CUresult result;

	list->growing = true;
	lock_drop(&mem_lock);
	result = block_alloc(&block, device, SLOT, flags);
	lock_take(&mem_lock);
	if (!result) {
		block->next = list->first;
		if (block->next)
			block->next->link = &block->next;
		block->link = &list->first;
		list->first = block;
	}
	list->growing = false;
	word_change(&list->grown, true);
	return result;
}

CUresult units_take(struct shared *list, CUdevice device, unsigned int units, uint32_t flags,
		    struct block **out, struct scrub *scrub)
{
	/* Leave out ranges that become withheld from now on. */
	uint64_t before = last_withheld + 1;
	CUresult result = CUDA_SUCCESS;
	struct block *block;
	bool held = false;
	int first = 0;

	for (;;) {
		block = shared_room(list, units, &first);
		if (!block && reclaim(list, &before))
			continue;
		/* The lock was dropped, so the list may have changed. */
		if (!block)
			block = shared_room(list, units, &first);
		if (block && likely(!block->clearing || clear_take(block, first, units)))
			break;
		if (block) {
			clear_await(&held);
			continue;
		}
		if (list->growing) {
			shared_await(list);
			continue;
		}
		result = shared_grow(list, device, flags);
		if (result)
			break;
	}
	if (unlikely(held))
		clear_go();
	if (result)
		return result;
	scrub->first = first;
	scrub->count = units;
	memcpy(scrub->dirty, block->dirty, sizeof(scrub->dirty));
	if (units >= CLEAR_LEAST && !block->dark && !block->movable && map_has(block->dirty, first))
		clear_owed(units);
	map_set(block->used, first, units);
	map_set(block->dirty, first, units);
	block->allocs++;
	*out = block;
	return CUDA_SUCCESS;
}

void units_give(struct block *block, unsigned int first, unsigned int units, uint32_t how,
		struct block **doomed)
{
	if (!--block->allocs) {
		block_doom(block, doomed);
		return;
	}
	if ((how & UNITS_EXPORTED || units_exposed(block, first, units)) &&
	    retired_reached(block, first, units)) {
		withhold(block, first, units);
		return;
	}
	units_free(block, first, units);
	/* Nobody asked for the pages of managed memory that are missing or in swap: leave them alone. */
	if (how & UNITS_IDLE && !block->movable)
		clear_put(block, first, units);
}
