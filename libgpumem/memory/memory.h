/* SPDX-License-Identifier: MIT */
/*
 * memory: allocations outside pools.
 *
 * Device memory in shared and whole blocks, host memory, registrations, managed memory, strict mode, the work
 * that a free waits for, tokens and imports, the thread that clears freed memory, and virtual memory management:
 * handles of memory, reserved addresses, mappings and their rights. It may include exec, address and core.
 */
#ifndef GPUMEM_MEMORY_MEMORY_H
#define GPUMEM_MEMORY_MEMORY_H

#include "memory/block.h"
#include "memory/claim.h"
#include "memory/clear.h"
#include "memory/handle.h"
#include "memory/host.h"
#include "memory/managed.h"
#include "memory/mem.h"
#include "memory/node.h"
#include "memory/quarantine.h"
#include "memory/shares.h"
#include "memory/strict.h"
#include "memory/vmm.h"

#endif /* GPUMEM_MEMORY_MEMORY_H */
