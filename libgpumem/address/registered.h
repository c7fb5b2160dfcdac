/* SPDX-License-Identifier: MIT */
/*
 * The list of registered memory. registered.c owns it.
 */
#ifndef GPUMEM_ADDRESS_REGISTERED_H
#define GPUMEM_ADDRESS_REGISTERED_H

#include "address/vm.h"

/* Look up an address outside the arenas; false if it is not registered. No lock. */
bool registered_lookup(uint64_t addr, struct span *span);

/* For the next functions mem_lock is held. */

/* Whether a byte of the range is registered. */
bool registered_any(uint64_t addr, uint64_t bytes);
/* Make room in the list for one more alloc; false: no memory. */
bool registered_room(void);
/* Add an alloc, for which there is room. */
void registered_add(struct alloc *alloc);
void registered_remove(struct alloc *alloc);

#endif /* GPUMEM_ADDRESS_REGISTERED_H */
