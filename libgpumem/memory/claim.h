/* SPDX-License-Identifier: MIT */
/*
 * Claims: ranges of addresses that calls are changing.
 */
#ifndef GPUMEM_MEMORY_CLAIM_H
#define GPUMEM_MEMORY_CLAIM_H

#include "core/core.h"

/* On the caller's stack. The caller sets @base and @end; the lock of claims protects the rest. */
struct range_claim {
	uint64_t base, end;
	unsigned int before;		/* claims that overlap this one and came earlier */
	uint32_t granted;		/* 0 while @before is not; a futex */
	struct range_claim *next;
};

/* Wait until no earlier claim overlaps this one. No lock may be held. */
void claim_take(struct range_claim *claim);
void claim_drop(struct range_claim *claim);

#endif /* GPUMEM_MEMORY_CLAIM_H */
