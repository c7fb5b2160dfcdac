/* SPDX-License-Identifier: MIT */
/*
 * Sparse ranges: device addresses whose tiles are bound to memory one by one. sparse.c has the rules.
 */
#ifndef GPUMEM_ADDRESS_SPARSE_H
#define GPUMEM_ADDRESS_SPARSE_H

#include "core/core.h"

#define TILE	((uint64_t)GPUMEM_TILE_SIZE)

/* Make a range of @length bytes, whole tiles. All tiles are holes. */
CUresult sparse_make(uint64_t *addr, uint64_t length);
/* End a range, now or, if the kernel has no memory for that, later. mem_lock is not held. */
void sparse_end(uint64_t addr, uint64_t length);
/* Have the kernel allocate what binds of @length bytes of a range need, which then succeed. */
CUresult sparse_reserve(uint64_t addr, uint64_t length);
/*
 * Bind the tiles of @length bytes to memory of a buffer object: the first at @offset, each at @step bytes from
 * the one before. @bo is 0: make them holes; @offset and @step are ignored.
 */
CUresult sparse_bind(uint64_t addr, uint64_t length, uint32_t bo, uint64_t offset, uint64_t step);

#endif /* GPUMEM_ADDRESS_SPARSE_H */
