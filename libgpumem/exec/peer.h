/* SPDX-License-Identifier: MIT */
/*
 * Which contexts may reach memory of other devices. peer.c owns the grants.
 */
#ifndef GPUMEM_EXEC_PEER_H
#define GPUMEM_EXEC_PEER_H

#include "exec/context.h"

/* The slow path of ctx_reaches(): memory of another device than the context's, or host memory of a pool. */
bool ctx_reaches_far(CUcontext ctx, const struct span *span);

/* Host memory of a pool: devices reach it if cuMemPoolSetAccess() says so. Copies of it need no access. */
static inline bool span_pool_host(const struct span *span)
{
	return (span->flags & (ALLOC_POOL | ALLOC_HOST)) == (ALLOC_POOL | ALLOC_HOST);
}

/* Whether fills and memory operations of a context's streams may use memory. */
static inline bool ctx_reaches(CUcontext ctx, const struct span *span)
{
	return likely(span->device == ctx->device && !span_pool_host(span)) || ctx_reaches_far(ctx, span);
}

/* cuCtxEnablePeerAccess() and cuCtxDisablePeerAccess(). */
CUresult peer_enable(CUcontext peer, unsigned int flags);
CUresult peer_disable(CUcontext peer);

/* From a layer above (pool/pool.c): whether contexts of a device may use a pool's memory. */
bool pool_reached_from(CUmemoryPool pool, CUdevice device);
/* From a layer above (memory/vmm_rights.c): whether a device has a right (PROT_READ or PROT_WRITE) in a mapping. */
bool vmm_allows(const struct span *span, CUdevice device, int right);

#endif /* GPUMEM_EXEC_PEER_H */
