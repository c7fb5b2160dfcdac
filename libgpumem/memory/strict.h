/* SPDX-License-Identifier: MIT */
/*
 * Strict mode: device memory that the CPU cannot reach. strict.c owns the queue that clears it.
 */
#ifndef GPUMEM_MEMORY_STRICT_H
#define GPUMEM_MEMORY_STRICT_H

#include "memory/mem.h"

/* Have the engine zero dark memory; done when it returns. No lock is held. */
CUresult strict_zero(CUdevice device, uint64_t addr, uint64_t length);

/* For cuInit(): install the handler that explains faults on device memory. */
void strict_start(void);
/* gpumem_describe(). */
int strict_describe(const void *addr, char *buffer, size_t size);

#endif /* GPUMEM_MEMORY_STRICT_H */
