/* SPDX-License-Identifier: MIT */
/*
 * Blocks: mappings of one buffer object each, and the units of shared blocks, which hold several allocs.
 *
 * Making and destroying a block takes system calls that populate or give back its memory. So both are done in
 * steps: data under mem_lock is changed with the lock held, and the system calls are made without it. Each
 * function says whether mem_lock is held.
 *
 * Vocabulary: doomed, a block that no list, index or alloc points at and that is about to be destroyed; doomed
 * blocks are a list by block->next. Unit and withheld: block.c.
 */
#ifndef GPUMEM_BLOCK_H
#define GPUMEM_BLOCK_H

#include "memory/mem.h"

/*
 * Make and publish a block: block_alloc() with new memory, block_make() around a buffer object, which it takes
 * over in any case. mem_lock is not held.
 */
CUresult block_alloc(struct block **made, CUdevice device, uint64_t length, uint32_t flags);
CUresult block_make(struct block **made, CUdevice device, uint32_t bo, uint64_t mapped, bool dark);
/* Take a block out of its list and of the index. mem_lock is held. */
void block_doom(struct block *block, struct block **doomed);
/* Give the memory and the addresses of doomed blocks back. mem_lock is not held. */
void blocks_destroy(struct block *doomed);

/* Whether an allocation with some flags (enum alloc_flags) is dark. */
static inline bool kind_dark(uint32_t flags)
{
	return client.strict && !(flags & (ALLOC_HOST | ALLOC_MANAGED));
}

/* A range of units that was taken, and the block's dirty map of that moment. */
struct scrub {
	unsigned int first, count;
	uint64_t dirty[SLOT_UNITS / 64];
};

/*
 * Take @units units of a block in @list, which grows if there is no room. mem_lock is held. It is dropped while
 * the kernel is asked about withheld ranges, while the list grows, and while another thread makes it grow.
 * *@scrub says what the caller must zero before the units are used (units_scrub()).
 */
CUresult units_take(struct shared *list, CUdevice device, unsigned int units, uint32_t flags,
		    struct block **block, struct scrub *scrub);
/* Maps of units: the type of block->used and block->dirty. */
static inline uint64_t map_mask(unsigned int unit, unsigned int end)
{
	unsigned int count = end - (unit & ~63u) < 64 ? end - unit : 64 - unit % 64;

	return ~0ull >> (64 - count) << (unit % 64);
}

static inline void map_set(uint64_t *map, unsigned int first, unsigned int count)
{
	unsigned int unit, end = first + count;

	for (unit = first; unit < end; unit = (unit | 63) + 1)
		map[unit / 64] |= map_mask(unit, end);
}

static inline void map_clear(uint64_t *map, unsigned int first, unsigned int count)
{
	unsigned int unit, end = first + count;

	for (unit = first; unit < end; unit = (unit | 63) + 1)
		map[unit / 64] &= ~map_mask(unit, end);
}

static inline bool map_has(const uint64_t *map, unsigned int unit)
{
	return map[unit / 64] >> (unit % 64) & 1;
}

/* The first unit from @unit on whose bit differs from that of @unit, or @end. */
static inline unsigned int map_run(const uint64_t *map, unsigned int unit, unsigned int end)
{
	uint64_t flip = map_has(map, unit) ? ~0ull : 0, word;

	for (; unit < end; unit = (unit | 63) + 1) {
		word = (map[unit / 64] ^ flip) >> (unit % 64);
		if (word) {
			unit += __builtin_ctzll(word);
			break;
		}
	}
	return unit < end ? unit : end;
}

/* Whether any of @count units is in a map. */
static inline bool map_meets(const uint64_t *map, unsigned int first, unsigned int count)
{
	return map_has(map, first) || map_run(map, first, first + count) < first + count;
}

/* Whether one of some taken units is in a page that was exported while it was taken. mem_lock is held. */
static inline bool units_exposed(const struct block *block, unsigned int first, unsigned int units)
{
	return map_meets(block->exposed, first, units);
}

/*
 * Prepare the export of pages of a shared block: mark the allocs in them as exported, and withhold the free units.
 * False: the cleaner is writing to the units. The lock was dropped, so the caller looks everything up again; and
 * clear_go() must follow (clear_await()). mem_lock is held.
 */
bool units_expose(struct block *block, unsigned int first, unsigned int units, bool *held);
/* Zero units that had an earlier owner. mem_lock is not held; the units are taken. */
CUresult units_scrub(const struct block *block, const struct scrub *scrub);
/*
 * Give units back. UNITS_EXPORTED: a token or a DMA-buf of them exists or existed; while another process or
 * driver can reach their pages, they stay taken. UNITS_IDLE: no work that uses them is left, so clear.c may
 * clear them at once. mem_lock is held.
 */
enum { UNITS_EXPORTED = 1 << 0, UNITS_IDLE = 1 << 1 };
void units_give(struct block *block, unsigned int first, unsigned int units, uint32_t how,
		struct block **doomed);

#endif /* GPUMEM_BLOCK_H */
