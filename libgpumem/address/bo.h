/* SPDX-License-Identifier: MIT */
/*
 * Buffer objects: making them. Unless noted, mem_lock is not held by the caller.
 */
#ifndef GPUMEM_ADDRESS_BO_H
#define GPUMEM_ADDRESS_BO_H

#include "address/vm.h"

/* Make a buffer object; @flags: ALLOC_HOST for host memory, ALLOC_MOVABLE for the kernel's managed memory. */
CUresult bo_alloc(uint32_t *bo, CUdevice device, uint64_t length, const char *name, uint32_t flags);
/* Make a buffer object for managed memory: a movable one or, if the kernel refuses these, device memory. */
CUresult bo_alloc_managed(uint32_t *bo, CUdevice device, uint64_t length, const char *name, bool *movable);
/* Whether new managed memory is movable, as far as is known. mem_lock may be held. */
bool bo_movable(void);
/*
 * Ask the kernel whether other processes or drivers can still reach the pages of a range. True also if the
 * kernel cannot tell. mem_lock may be held.
 */
bool bo_reached(struct gpumem_bo_retire *retire);
/*
 * Make a buffer object for the library itself, mapped for CPU and devices, and return its address. Lookups do
 * not find it. 0: no memory.
 */
uint64_t bo_internal(CUdevice device, uint64_t length, const char *name);

#endif /* GPUMEM_ADDRESS_BO_H */
