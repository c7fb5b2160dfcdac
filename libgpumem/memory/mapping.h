/* SPDX-License-Identifier: MIT */
/*
 * Reservations and mappings, for vmm.c and vmm_rights.c only.
 */
#ifndef GPUMEM_MEMORY_MAPPING_H
#define GPUMEM_MEMORY_MAPPING_H

#include "memory/handle.h"

struct reservation {
	uint64_t base, length;
	unsigned long maps;		/* mappings in it, and those that a call is making or taking out */
	uint32_t apart;			/* vm_close_apart() was called for a part of it; atomic */
};

/*
 * Reused for mappings only, because lookups may still read it. The rights are atomic. To write: the claim of its
 * addresses, and vmm_lock for rights.
 */
struct mapping {
	struct alloc alloc;		/* first; size 0: not mapped */
	struct handle *handle;		/* vmm_lock or the claim to read; the handle counts the mapping */
	struct reservation *home;
	uint32_t readers, writers;	/* a bit per device, by its number in the client */
	uint32_t host;			/* right of host locations, CUmemAccess_flags */
	int protection;			/* PROT_* of the process's mapping; PROT_NONE: there is none */
	uint32_t doomed;		/* after an unmap: the buffer object to be destroyed, or 0 */
	struct mapping *next;		/* in a list of an unmap, or unused */
};

/*
 * The mapping at an address, or NULL. The caller has the claim of the address. Or it has vmm_lock: then an unmap
 * may hide the mapping meanwhile, but its handle stays.
 */
struct mapping *mapping_at(uint64_t addr);
/* Flags that a mapping has by its rights and by what it maps. */
uint32_t mapping_flags(const struct mapping *m);

static inline uint64_t mapping_end(const struct mapping *m)
{
	return m->alloc.base + m->alloc.size;
}

#endif /* GPUMEM_MEMORY_MAPPING_H */
