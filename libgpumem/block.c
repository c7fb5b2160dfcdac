// SPDX-License-Identifier: MIT
/*
 * Blocks: how they are made and destroyed, and the units of shared ones.
 *
 * A block is one buffer object at one place of the address arena. It has one alloc, or, if it is
 * shared, several: a shared block has 2 MiB in units of 512 bytes, which are given out first fit.
 * The kernel zeroes a buffer object when it is made; a unit that had an owner is zeroed here before
 * it gets the next one.
 *
 * A block is made in three steps: addresses are reserved with mem_lock held; the kernel populates
 * and maps the buffer object, which takes as long as the memory is large, without it; and the block
 * is published with the lock held. It is destroyed the same way backwards. So no thread waits for
 * memory that another thread asked for, with one exception: the lists of shared blocks grow by one
 * block at a time, and a thread that finds no room in a list that is growing waits for the new
 * block instead of making another. It sleeps until the list has changed.
 *
 * Withheld ranges: units that were shared with others (a token or a DMA-buf of them exists or
 * existed) are retired in the kernel when they are freed. While somebody else can still reach one
 * of their pages they stay taken, in a list of the block. The list is looked at again when no other
 * room is left and before the library would ask the kernel for more memory. A block whose last
 * alloc goes is destroyed at once: the kernel keeps shared memory for as long as it is shared.
 *
 * Invariants: a block in a list has units that are taken, or is about to be taken out of it with
 * mem_lock held. Units that are taken belong to the thread that took them until it has published an
 * alloc, so it may zero them without the lock.
 *
 * Locks: mem_lock, as each function says. It is held over no system call but the question whether
 * withheld memory can still be reached.
 */
#include <linux/futex.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "block.h"

struct withheld {
	struct withheld *next;
	unsigned int first, units;
};

static struct block *free_blocks;	/* mem_lock */
static uint64_t last_block_id;		/* atomic */

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
	vm_unmap_unlocked(block->base, block->mapped, block->length);
	client_destroy_id(block->bo);
	while (block->withheld) {
		struct withheld *next = block->withheld->next;

		free(block->withheld);
		block->withheld = next;
	}
	memset(block->used, 0, sizeof(block->used));
	memset(block->dirty, 0, sizeof(block->dirty));
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

CUresult bo_alloc(uint32_t *bo, CUdevice device, uint64_t length, const char *name, uint32_t flags)
{
	struct gpumem_bo_alloc alloc = {
		.size = sizeof(alloc), .device = client.device[device].index, .length = length,
		.flags = flags & ALLOC_HOST ? GPUMEM_BO_ALLOC_HOST : 0,
	};
	int error;

	strncpy((char *)alloc.name, name, sizeof(alloc.name) - 1);
	error = client_ioctl(GPUMEM_BO_ALLOC, &alloc);
	*bo = alloc.id;
	return result_of_errno(error);
}

CUresult block_alloc(struct block **made, CUdevice device, uint64_t length, uint32_t flags)
{
	const char *name = length <= SLOT ? "shared" :
		flags & ALLOC_HIDDEN ? "array" :
		flags & ALLOC_HOST ? "cuMemHostAlloc" :
		flags & ALLOC_MANAGED ? "managed" : "cuMemAlloc";
	uint32_t bo;
	CUresult result = bo_alloc(&bo, device, length, name, flags);

	return result ? result : block_make(made, device, bo, length, kind_dark(flags));
}

/* ---- units of a shared block */

/* The first run of @want free units, or -1; remembers the longest run when there is none. */
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

static void units_set(uint64_t *map, unsigned int first, unsigned int count)
{
	unsigned int unit;

	for (unit = first; unit < first + count; unit++)
		map[unit / 64] |= 1ull << (unit % 64);
}

static void units_free(struct block *block, unsigned int first, unsigned int count)
{
	unsigned int unit;

	for (unit = first; unit < first + count; unit++)
		block->used[unit / 64] &= ~(1ull << (unit % 64));
	block->longest = SLOT_UNITS;
}

CUresult units_scrub(const struct block *block, const struct scrub *scrub)
{
	unsigned int unit = scrub->first, end = unit + scrub->count, from;
	CUresult result = CUDA_SUCCESS;

	while (!result && unit < end) {
		if (!(scrub->dirty[unit / 64] >> (unit % 64) & 1)) {
			unit++;
			continue;
		}
		from = unit;
		while (unit < end && scrub->dirty[unit / 64] >> (unit % 64) & 1)
			unit++;
		if (block->dark)
			result = strict_zero(block->device, block->base + from * UNIT,
					     (unit - from) * UNIT);
		else
			memset((void *)(uintptr_t)(block->base + from * UNIT), 0,
			       (unit - from) * UNIT);
	}
	return result;
}

/* ---- withheld ranges */

/* mem_lock is held for all of these. */

/* How many others can still reach the pages of a range of a buffer object. */
static unsigned int range_live(const struct block *block, uint64_t offset, uint64_t length,
			       unsigned int flags)
{
	struct gpumem_bo_retire retire = {
		.size = sizeof(retire), .id = block->bo, .offset = offset, .length = length,
		.flags = flags,
	};

	/* If the kernel cannot tell, somebody can. */
	return client_ioctl(GPUMEM_BO_RETIRE, &retire) ? 1 : retire.live;
}

/* Take back what nobody else can reach any more. */
static bool reclaim(struct block *list)
{
	struct block *block;
	bool got = false;

	for (block = list; block; block = block->next) {
		struct withheld **link = &block->withheld, *held;

		while ((held = *link)) {
			if (range_live(block, held->first * UNIT, held->units * UNIT,
				       GPUMEM_BO_RETIRE_QUERY)) {
				link = &held->next;
				continue;
			}
			units_free(block, held->first, held->units);
			*link = held->next;
			free(held);
			got = true;
		}
	}
	return got;
}

/* ---- lists of shared blocks; mem_lock is held */

static struct block *shared_room(struct shared *list, unsigned int units, int *first)
{
	struct block *block;

	for (block = list->first; block; block = block->next) {
		*first = units_find(block, units);
		if (*first >= 0)
			return block;
	}
	return NULL;
}

/* Wait until another thread has made the list grow, or failed to. The lock is dropped meanwhile. */
static void shared_await(struct shared *list)
{
	uint32_t grown = list->grown;

	lock_drop(&mem_lock);
	while (load_acquire(&list->grown) == grown)
		syscall(SYS_futex, &list->grown, FUTEX_WAIT_PRIVATE, grown, NULL, NULL, 0);
	lock_take(&mem_lock);
}

/* Another block for the list. The lock is dropped meanwhile. */
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
	store_release(&list->grown, list->grown + 1);
	syscall(SYS_futex, &list->grown, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
	return result;
}

CUresult units_take(struct shared *list, CUdevice device, unsigned int units, uint32_t flags,
		    struct block **out, struct scrub *scrub)
{
	struct block *block;
	CUresult result;
	int first = 0;

	for (;;) {
		block = shared_room(list, units, &first);
		if (!block && reclaim(list->first))
			block = shared_room(list, units, &first);
		if (block)
			break;
		if (list->growing) {
			shared_await(list);
			continue;
		}
		result = shared_grow(list, device, flags);
		if (result)
			return result;
	}
	scrub->first = first;
	scrub->count = units;
	memcpy(scrub->dirty, block->dirty, sizeof(scrub->dirty));
	units_set(block->used, first, units);
	units_set(block->dirty, first, units);
	block->allocs++;
	*out = block;
	return CUDA_SUCCESS;
}

void units_give(struct block *block, unsigned int first, unsigned int units, bool exported,
		struct block **doomed)
{
	struct withheld *held;

	if (!--block->allocs) {
		block_doom(block, doomed);
		return;
	}
	if (exported && range_live(block, first * UNIT, units * UNIT, 0)) {
		held = malloc(sizeof(*held));
		/* Without memory for the note the units stay taken until the block goes. */
		if (held) {
			held->first = first;
			held->units = units;
			held->next = block->withheld;
			block->withheld = held;
		}
		return;
	}
	units_free(block, first, units);
}
