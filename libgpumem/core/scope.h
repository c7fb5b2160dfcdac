/* SPDX-License-Identifier: MIT */
/*
 * The scope of exports: which processes may open them, by GPUMEM_IPC and the administrator's limits.
 */
#ifndef GPUMEM_CORE_SCOPE_H
#define GPUMEM_CORE_SCOPE_H

#include "core/base.h"

/* Reads GPUMEM_IPC. */
void scope_init(void);
/* Flags of the scope: for GPUMEM_TOKEN_CREATE and GPUMEM_EVENT_CREATE, and for GPUMEM_POOL_EXPORT with FABRIC. */
uint32_t scope_token_flags(void);
uint32_t scope_pool_flags(void);
/* The result for a scope that the administrator refused; prints a line on standard error, once. */
CUresult scope_refused(void);

#endif /* GPUMEM_CORE_SCOPE_H */
