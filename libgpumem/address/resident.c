// SPDX-License-Identifier: MIT
/*
 * The kernel's residency words: maps them once per process.
 *
 * Without them, no managed memory counts as resident, and the engine does all work on it.
 *
 * Locks: none.
 */
#include <sys/mman.h>

#include "address/address.h"

const uint64_t *resident_words;

void resident_map(void)
{
	const size_t bytes = GPUMEM_RESIDENT_WORDS * sizeof(uint64_t);
	const uint64_t *none = NULL;
	void *map;

	if (load_relaxed(&resident_words))
		return;
	map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, client.fd, GPUMEM_MMAP_RESIDENT);
	if (map == MAP_FAILED)
		return;
	/* Another thread may have been faster. */
	if (!__atomic_compare_exchange_n(&resident_words, &none, map, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		munmap(map, bytes);
}

bool vm_near_pool(uint64_t addr, uint64_t length, CUdevice device)
{
	struct span span;

	return vm_chunk(addr) && vm_lookup(addr, &span) && length <= span.size - (addr - span.base) &&
	       (span.flags & ALLOC_NOT_INLINE) == ALLOC_MOVABLE && resident_on(resident_at(&span, addr, length), device);
}
