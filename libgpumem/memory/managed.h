/* SPDX-License-Identifier: MIT */
/*
 * Managed memory (managed.c), and what programs have said about ranges of it (notes.c).
 */
#ifndef GPUMEM_MEMORY_MANAGED_H
#define GPUMEM_MEMORY_MANAGED_H

#include "memory/mem.h"

/*
 * From a layer above (pool/pool.c): the location of a pool, as the program gave it. Pools are not freed, only used
 * again, so the pool of a span may be destroyed meanwhile.
 */
CUmemLocation pool_location(CUmemoryPool pool);

/* @attach: CU_MEM_ATTACH_GLOBAL or HOST, the default attachment */
CUresult managed_alloc(uint64_t *ptr, uint64_t bytes, unsigned int attach);
CUresult managed_attach(CUstream stream, bool own, uint64_t ptr, uint64_t length,
			unsigned int flags);
bool managed_place_known(CUmemLocationType type);
/* INVALID_VALUE unless CUDA defines the advice and the type of location. */
CUresult managed_advice_known(CUmem_advise advice, CUmemLocationType type);
CUresult managed_advise(uint64_t ptr, uint64_t count, CUmem_advise advice, CUmemLocation location);
CUresult managed_prefetch(uint64_t ptr, uint64_t count, CUmemLocation location, CUstream stream,
			  bool own);
/* @count ranges; places[k] is for the ranges from indices[k] on. A discard has no places: place_count is 0. */
struct managed_batch {
	enum { MANAGED_PREFETCH, MANAGED_DISCARD, MANAGED_DISCARD_PREFETCH } what;
	const CUdeviceptr *ptrs;
	const size_t *sizes;
	size_t count;
	const CUmemLocation *places;
	const size_t *indices;
	size_t place_count;
};

/* Prefetch or discard all ranges in stream order, or nothing. */
CUresult managed_batch(const struct managed_batch *batch, CUstream stream, bool own);
CUresult managed_attributes(void *const *data, const size_t *sizes,
			    const CUmem_range_attribute *attributes, size_t attribute_count,
			    uint64_t ptr, uint64_t count);
/* Called when memory is freed: forget the hints about an allocation, or about those in a range. */
void managed_forget(uint64_t base);
void managed_forget_range(uint64_t base, uint64_t length);

#endif /* GPUMEM_MEMORY_MANAGED_H */
