/* SPDX-License-Identifier: MIT */
/*
 * Virtual memory management: reserved addresses, the mappings of handles in them, and the rights of mappings.
 *
 * Vocabulary: reservation, addresses of cuMemAddressReserve(); mapping, a handle's memory at addresses of a
 * reservation: an alloc with ALLOC_MAPPED; rights, what a location may do with a mapping.
 */
#ifndef GPUMEM_MEMORY_VMM_H
#define GPUMEM_MEMORY_VMM_H

#include "memory/handle.h"

/* Protects handles, reservations and the rights of mappings. Outside mem_lock; not held during system calls. */
extern HIDDEN struct lock vmm_lock;

CUresult vmm_reserve(uint64_t *addr, uint64_t size, uint64_t align, uint64_t hint,
		     unsigned long long flags);
CUresult vmm_free(uint64_t addr, uint64_t size);
CUresult vmm_map(uint64_t addr, uint64_t size, uint64_t offset, uint64_t handle,
		 unsigned long long flags);
CUresult vmm_unmap(uint64_t addr, uint64_t size);
CUresult vmm_set_access(uint64_t addr, uint64_t size, const CUmemAccessDesc *list, uint64_t count);
CUresult vmm_get_access(unsigned long long *flags, const CUmemLocation *location, uint64_t addr);
CUresult vmm_retain(uint64_t *handle, const void *addr);
/* The properties of the memory of a mapping; all zero if it was unmapped meanwhile. */
CUmemAllocationProp vmm_prop(const struct span *span);
/* The reservation that a mapping is in. */
void vmm_home(const struct span *span, uint64_t *base, uint64_t *size);

/*
 * Whether @bytes from an address in a span on are memory that a device may read (PROT_READ) or write
 * (PROT_WRITE). The range may go over several mappings, but over no other allocations. span->flags gets the flags
 * of all of them. The right of host locations: @device is CU_DEVICE_CPU.
 */
bool vmm_covers_far(struct span *span, uint64_t addr, uint64_t bytes, CUdevice device, int right);
/* Whether @bytes from an address in a mapping on are mappings, of one kind of memory, whatever their rights. */
bool vmm_mapped(const struct span *span, uint64_t addr, uint64_t bytes);

static inline bool vmm_covers(struct span *span, uint64_t addr, uint64_t bytes, CUdevice device,
			      int right)
{
	if (unlikely(span->flags & ALLOC_MAPPED))
		return vmm_covers_far(span, addr, bytes, device, right);
	return bytes <= span->size - (addr - span->base);
}

#endif /* GPUMEM_MEMORY_VMM_H */
