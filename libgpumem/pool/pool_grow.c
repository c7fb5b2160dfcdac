// SPDX-License-Identifier: MIT
/*
 * Pools: how large the next chunk is.
 *
 * Owns the choice of the length, and the number of chunks of the process. A chunk takes one mapping of the
 * process, or two if its length is not a multiple of 2 MiB, and vm.max_map_count allows 65,530 mappings by
 * default. Reserved memory must stay near used memory:
 *
 *   - Blocks of up to SHARES_CHUNK share chunks of 2 MiB, or of 1/64 of what the pool has reserved.
 *   - A larger block has a chunk of exactly the block's length while the process has few chunks (less than 1/16
 *     of max_map_count): reserved memory then equals used memory, and a chunk goes back as soon as its block is
 *     freed.
 *   - With more chunks, a new chunk has room for a power of two of such blocks, as many as fit in 1/32 of what
 *     the pool has reserved: the number of blocks doubles with 32 chunks. Powers of two make few different
 *     lengths, and a kept chunk is reused only for a chunk of the same length.
 *   - A chunk for many blocks is not longer than CHUNK_USUAL, because the kernel must clear it. If the process
 *     has many chunks (1/8 of max_map_count or more), the chunk is not longer than CHUNK_MOST. A million blocks
 *     of 300 KiB take 11,000 such chunks, which are a third of the mappings that are allowed by default. A
 *     higher limit would save mappings, of which there are enough, and the allocation that needs a chunk would
 *     take longer.
 *   - If the memory or the limit does not allow a chunk for many blocks, its length is halved until they do.
 *
 * A chunk is made without pool->lock, because populating takes longer the longer the chunk is. Its bytes are
 * added to pool->promised under the lock, so that threads that grow a pool at the same time keep to its limit
 * together. A thread that needs room for up to SHARES_CHUNK bytes waits for the chunk that another thread makes
 * for such blocks. Other threads make chunks of their own, at most GROWING_MOST threads at a time. A thread
 * that the limit or the kernel refuses waits for the chunks of other threads. Such a chunk may have room, or
 * may fail to be made. A thread that has waited too often (GROW_ROUNDS, pool_take.c) does not wait any more.
 *
 * Locks: pool->lock is held, and dropped while a chunk is made or waited for.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "pool/pool_chunks.h"

#define CHUNK_USUAL	(32ull << 20)
#define CHUNK_MOST	(128ull << 20)
#define MAPS_USUAL	65530u
#define GROWING_MOST	8u			/* threads that make chunks of a pool at a time */

static unsigned long max_maps = MAPS_USUAL;	/* constant once there is a pool */
static unsigned long chunks;			/* of all pools; atomic */

void grow_init(void)
{
	char text[24];
	ssize_t n = 0;
	int fd, state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	fd = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		close(fd);
	}
	pthread_setcancelstate(state, NULL);
	if (n <= 0)
		return;
	text[n] = 0;
	max_maps = strtoul(text, NULL, 10);
}

void grow_count(int more)
{
	__atomic_fetch_add(&chunks, more, __ATOMIC_RELAXED);
}

/* The length of the next chunk. @need: the length that serves one block of @size bytes */
static uint64_t length_for(const pool_t *pool, uint64_t size, uint64_t need)
{
	unsigned long count = load_relaxed(&chunks);
	uint64_t length = need, part;

	if (size > SHARES_CHUNK && count < max_maps / 16)
		return need;
	part = size > SHARES_CHUNK ? pool->reserved / 32 : pool->reserved / 64 & ~(SLOT - 1);
	part = min_u64(part, count < max_maps / 8 ? CHUNK_USUAL : CHUNK_MOST);
	if (size <= SHARES_CHUNK)
		return part > need ? part : need;
	while (2 * length <= part)
		length *= 2;
	return length;
}

static uint64_t shorter(uint64_t size, uint64_t length, uint64_t need)
{
	uint64_t half = size > SHARES_CHUNK ? round_up(length / 2, PAGE) : need;

	return half > need ? half : need;
}

void growth_await(pool_t *pool)
{
	uint32_t seen;

	chunks_return(pool);
	if (!pool->growing)
		return;
	seen = pool->growths;
	pool->growth_awaited++;
	lock_drop(&pool->lock);
	word_await(&pool->growths, seen);
	lock_take(&pool->lock);
	pool->growth_awaited--;
}

void growth_begin(pool_t *pool, uint64_t length, bool shared)
{
	pool->visitors++;
	pool->promised += length;
	pool->growing++;
	pool->growing_shared += shared;
}

void growth_end(pool_t *pool, uint64_t length, bool shared)
{
	pool->visitors--;
	pool->promised -= length;
	pool->growing--;
	pool->growing_shared -= shared;
	word_change(&pool->growths, pool->growth_awaited);
}

/* Bytes that the pool has reserved, and those that growth in progress will reserve. */
static uint64_t reserved_or_promised(const pool_t *pool)
{
	return pool->reserved + pool->promised;
}

enum grown pool_grow(pool_t *pool, uint64_t size, bool wait)
{
	unsigned int class = size > CLASS_MAX ? CLASSES : class_of(pool, size);
	uint64_t need = class == CLASSES ? size + pool_zone(pool, size) : class_bytes[class], length, most, mine;
	bool shared = size <= SHARES_CHUNK;
	CUresult result;

	if (class < CLASSES_CELLS)
		need = class_pages[class] * PAGE;
	need = round_up(need, shared ? SLOT : PAGE);
	if (need < size || need > 1ull << 40)
		return GROW_REFUSED;
	if (wait && ((shared && pool->growing_shared) || pool->growing >= GROWING_MOST)) {
		growth_await(pool);
		return GROW_AGAIN;
	}
	length = length_for(pool, size, need);
	while (pool->limit && length > need && reserved_or_promised(pool) + length > pool->limit)
		length = shorter(size, length, need);
	/* Reserved memory stays near the most that was ever needed. */
	pool_used_merge(pool);
	most = pool_used(pool) + size;
	if (most < (uint64_t)pool->used_high)
		most = pool->used_high;
	most += most / 16;
	chunks_release(pool, most > length ? most - length : 0, true);
	if (pool->limit && reserved_or_promised(pool) + length > pool->limit) {
		mine = length + pool->promised;
		chunks_release(pool, pool->limit > mine ? pool->limit - mine : 0, true);
	}
	if (pool->limit) {
		uint64_t left = pool->limit - min_u64(reserved_or_promised(pool), pool->limit);

		if (length > left && length <= pool->limit && wait && pool->growing) {
			/* The other thread's chunk may have room, or may fail to be made. */
			growth_await(pool);
			return GROW_AGAIN;
		}
		if (length > left) {
			debug_refused(GPUMEM_LIMIT_POOL, pool->device, length, pool->reserved,
				      pool->limit);
			return GROW_REFUSED;
		}
		if (left - length <= limit_rest(pool))
			length = left & ~(PAGE - 1);
	}
	mine = length;
	growth_begin(pool, mine, shared);
	for (;;) {
		result = chunk_again(pool, length) ? CUDA_SUCCESS : chunk_make(pool, length);
		if (result != CUDA_ERROR_OUT_OF_MEMORY || length <= need)
			break;
		length = shorter(size, length, need);
	}
	growth_end(pool, mine, shared);
	/* The missing memory may be in a chunk that another thread is making. */
	if (result == CUDA_ERROR_OUT_OF_MEMORY && wait && pool->growing) {
		growth_await(pool);
		return GROW_AGAIN;
	}
	return result ? GROW_REFUSED : GROW_DONE;
}
