/* SPDX-License-Identifier: MIT */
/*
 * What the checker needs of memory: red zones behind allocations, and freed memory that is kept. quarantine.c has the
 * rules.
 */
#ifndef GPUMEM_MEMORY_QUARANTINE_H
#define GPUMEM_MEMORY_QUARANTINE_H

#include "address/address.h"

#define RED_ZONE	64u		/* bytes */

/* The first of @size bytes, which are not 0, that is not the pattern; @size: there is none. */
static inline uint64_t pattern_end(const unsigned char *bytes, uint64_t size, unsigned char pattern)
{
	uint64_t i;

	/* All bytes are alike if the first is the pattern, and each is as the one before it. */
	if (bytes[0] == pattern && !memcmp(bytes, bytes + 1, size - 1))
		return size;
	for (i = 0; bytes[i] == pattern; i++)
		;
	return i;
}

/* Bytes of the red zone behind memory of this kind: 0 without the checker. The same as long as the memory lives. */
static inline unsigned int red_zone(uint32_t flags)
{
	/* The CPU may not reach managed memory of exclusive devices while streams run. */
	if (likely(!client.zoned) || flags & (ALLOC_ATTACHED | ALLOC_HIDDEN | ALLOC_IMPORTED) ||
	    (client.exclusive && flags & ALLOC_MANAGED))
		return 0;
	return RED_ZONE;
}

/* Write the red zone of a new allocation. mem_lock is held, as for the next one. Both only if client.zoned. */
void red_zone_fill(const struct alloc *alloc);
/* Look at the red zone of an allocation that is freed. */
void red_zone_look(const struct alloc *alloc);
/*
 * Keep an allocation that is freed, and hide it from lookups; no work that uses it is left. False: the caller frees it.
 * mem_lock is held. The caller destroys the doomed blocks of older ones.
 */
bool quarantine_put(struct alloc *alloc, struct block **doomed);
/* An allocation is freed for good, maybe one that is kept. mem_lock is held. */
void quarantine_leave(struct alloc *alloc);
/* Free all that is kept. No lock is held. */
void quarantine_flush(void);
/* Look at all that is kept, without freeing it. No lock is held. */
void quarantine_verify(void);
/* Tell the checker what the functions above found. No lock is held. */
void quarantine_report(void);

#endif /* GPUMEM_MEMORY_QUARANTINE_H */
