// SPDX-License-Identifier: MIT
/*
 * Pools: how large the next chunk is.
 *
 * Owns the lengths of chunks, and how many chunks the process has. A chunk is a mapping of the
 * process, or two where it is not of whole 2 MiB slots, and vm.max_map_count allows 65,530 mappings by
 * default. What is reserved must stay near to what is used:
 *
 *   - Blocks of up to SHARES_CHUNK share chunks of 2 MiB, or of 1/64 of what the pool has reserved.
 *   - A larger block has a chunk of its own, exactly, while the process has few chunks (1/16 of
 *     max_map_count): what is reserved is then what is used, and a chunk goes back as soon as its
 *     block is freed.
 *   - With more chunks, one has room for a power of two of such blocks, as many as fit in 1/32 of what
 *     the pool has reserved: the number of blocks doubles with 32 chunks. Powers of two make few
 *     different lengths, and a kept chunk is used again for its length only.
 *   - A chunk is not longer than CHUNK_USUAL, which takes long enough to clear, unless the process
 *     has many chunks (1/8 of max_map_count).
 *   - Where the memory or the limit does not allow a chunk for many it is halved until it does.
 *
 * Locks: pool->lock is held.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "pool.h"

#define CHUNK_USUAL	(32ull << 20)
#define MAPS_USUAL	65530u

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

/* @need: whole pages for one block */
static uint64_t length_for(const pool_t *pool, uint64_t size, uint64_t need)
{
	unsigned long count = load_relaxed(&chunks);
	uint64_t length = need, part;

	if (size > SHARES_CHUNK && count < max_maps / 16)
		return need;
	part = size > SHARES_CHUNK ? pool->reserved / 32 : pool->reserved / 64 & ~(SLOT - 1);
	if (part > CHUNK_USUAL && count < max_maps / 8)
		part = CHUNK_USUAL;
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

CUresult pool_grow(pool_t *pool, uint64_t size)
{
	uint64_t need = size > CLASS_MAX ? size : class_bytes[class_of(size)], length, most;
	CUresult result;

	if (size <= CELLS_MAX)
		need = class_pages[class_of(size)] * PAGE;
	need = round_up(need, size > SHARES_CHUNK ? PAGE : SLOT);
	if (need < size || need > 1ull << 40)
		return CUDA_ERROR_OUT_OF_MEMORY;
	length = length_for(pool, size, need);
	while (pool->limit && length > need && pool->reserved + length > pool->limit)
		length = shorter(size, length, need);
	/* What is reserved stays near to what was ever needed. */
	pool_used_merge(pool);
	most = pool_used(pool) + size;
	if (most < (uint64_t)pool->used_high)
		most = pool->used_high;
	most += most / 16;
	chunks_release(pool, most > length ? most - length : 0, true);
	if (pool->limit && pool->reserved + length > pool->limit)
		chunks_release(pool, pool->limit > length ? pool->limit - length : 0, true);
	if (pool->limit) {
		uint64_t left = pool->limit - min_u64(pool->reserved, pool->limit);

		if (length > left) {
			debug_refused(GPUMEM_LIMIT_POOL, pool->device, length, pool->reserved,
				      pool->limit);
			return CUDA_ERROR_OUT_OF_MEMORY;
		}
		if (left - length <= limit_rest(pool))
			length = left & ~(PAGE - 1);
	}
	for (;;) {
		result = chunk_make(pool, length);
		if (result != CUDA_ERROR_OUT_OF_MEMORY || length <= need)
			return result;
		length = shorter(size, length, need);
	}
}
