/* SPDX-License-Identifier: MIT */
/*
 * Pageable memory as device memory: memory of the process that the library does not know.
 *
 * The engine of a device with the attribute PAGEABLE_MEMORY_ACCESS reaches it, through the page tables that the CPU
 * uses. An entry's flags say which of its addresses are pageable memory (enum gpumem_sqe_flags). What is mapped
 * there when the entry is executed counts: the library does not check it.
 */
#ifndef GPUMEM_ADDRESS_PAGEABLE_H
#define GPUMEM_ADDRESS_PAGEABLE_H

#include "address/vm.h"

/* Whether a range that vm_lookup() does not know may be pageable memory, and a device reaches such memory. */
static inline bool pageable_range(uint64_t addr, uint64_t bytes)
{
	return unlikely(client.pageable) && bytes - 1 < UINT64_MAX - addr && !vm_touches(addr, bytes);
}

#endif /* GPUMEM_ADDRESS_PAGEABLE_H */
