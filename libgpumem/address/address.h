/* SPDX-License-Identifier: MIT */
/*
 * address: the process's device addresses.
 *
 * The arenas, the index from an address to its block and alloc, lookups without a lock, sparse ranges, buffer
 * objects, and the list of threads that are giving memory back to the kernel. This layer may include core.
 *
 * Words
 *
 *   slot        2 MiB of addresses, the granularity of the index and of backing memory
 *   block       a mapping: one buffer object at one place of an arena, whole slots
 *   alloc       what one call returned to the program: a part of a block, or all of it
 *   span        a consistent copy of an alloc
 *   tile        64 KiB of a sparse range, bound to memory or not
 *   hole        a tile that is not bound: reads return zero, and writes are dropped
 *   dark        device memory in strict mode, which the CPU cannot reach
 */
#ifndef GPUMEM_ADDRESS_ADDRESS_H
#define GPUMEM_ADDRESS_ADDRESS_H

#include "address/bo.h"
#include "address/give_back.h"
#include "address/pageable.h"
#include "address/plain.h"
#include "address/registered.h"
#include "address/resident.h"
#include "address/sparse.h"
#include "address/vm.h"

#endif /* GPUMEM_ADDRESS_ADDRESS_H */
