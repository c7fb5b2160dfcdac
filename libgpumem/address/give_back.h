/* SPDX-License-Identifier: MIT */
/*
 * Give-backs: memory on its way back to the kernel, and waiting for it. give_back.c owns the list.
 */
#ifndef GPUMEM_ADDRESS_GIVE_BACK_H
#define GPUMEM_ADDRESS_GIVE_BACK_H

#include "core/lock.h"

/* On the stack of a thread that gives memory back. */
struct giver {
	struct giver *next, **link;
	uint64_t number;
	const void *pool;		/* whose memory it is, or NULL */
};

/*
 * Call these around a give-back. At giving_begin() the caller holds the lock under which the memory left its list.
 */
void giving_begin(struct giver *giver, const void *pool);
void giving_end(struct giver *giver);
/*
 * Wait for the give-backs that have begun: those of @pool, or all if it is NULL. False: there were
 * none. The caller holds no lock.
 */
bool giving_wait(const void *pool);

#endif /* GPUMEM_ADDRESS_GIVE_BACK_H */
