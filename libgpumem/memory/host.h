/* SPDX-License-Identifier: MIT */
/*
 * Host memory: allocated by the library, or registered. host.c has the rules.
 */
#ifndef GPUMEM_MEMORY_HOST_H
#define GPUMEM_MEMORY_HOST_H

#include "memory/mem.h"

CUresult host_alloc(void **ptr, uint64_t bytes, unsigned int flags);
CUresult host_pointer(uint64_t *ptr, const void *host, unsigned int flags);
CUresult host_flags(unsigned int *flags, const void *host);
CUresult host_register(void *ptr, uint64_t bytes, unsigned int flags);
CUresult host_unregister(void *ptr);
/* Map pinned memory again where the program has unmapped it: the rest of the library may write it once it is freed. */
void host_mend(uint64_t addr);
/* The same for an alloc, which lookups may not find any more. True: it had a hole. mem_lock is held. */
bool host_mend_alloc(const struct alloc *alloc);
/*
 * Called for each registration of a context that is destroyed. mem_lock is held, and dropped in between.
 */
void host_drop(struct alloc *alloc);

#endif /* GPUMEM_MEMORY_HOST_H */
