// SPDX-License-Identifier: MIT
/*
 * The API's chapter "Peer Context Memory Access".
 *
 * Owns the list of grants. All devices of the process work in one address space and each reaches the
 * memory of the others. A grant is nothing but a permission, for what a program could not do without
 * on real devices: fills and memory operations of a stream in memory of another device, and asking
 * for its range. Copies need none, there and here.
 *
 * Grants are kept by the lives of both contexts: one with a context that has ended is void, and its
 * place is used again.
 *
 * Vocabulary: grant, that a context may reach the memory of another, its peer.
 */
#include <stdlib.h>

#include "internal.h"

struct end {
	CUcontext ctx;
	uint64_t generation;
};

struct grant {
	struct end owner, peer;
	struct grant *next;
};

static struct lock grant_lock;
static struct grant *grants;		/* grant_lock; only grows */

static struct end end_of(CUcontext ctx)
{
	return (struct end){ ctx, load_acquire(&ctx->generation) };
}

static bool alive(const struct end *end)
{
	return end->ctx && load_acquire(&end->ctx->state) == CTX_LIVE &&
	       load_acquire(&end->ctx->generation) == end->generation;
}

/* The grant of two living contexts, or NULL; @unused, if given: one to use. grant_lock is held. */
static struct grant *find_grant(CUcontext owner, CUcontext peer, struct grant **unused)
{
	struct grant *grant;

	for (grant = grants; grant; grant = grant->next) {
		if (!alive(&grant->owner) || !alive(&grant->peer)) {
			if (unused)
				*unused = grant;
			continue;
		}
		if (grant->owner.ctx == owner && grant->peer.ctx == peer)
			return grant;
	}
	return NULL;
}

static CUresult add_grant(CUcontext owner, CUcontext peer)
{
	struct grant *grant = NULL;

	if (find_grant(owner, peer, &grant))
		return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
	if (!grant) {
		grant = calloc(1, sizeof(*grant));
		if (!grant)
			return CUDA_ERROR_OUT_OF_MEMORY;
		grant->next = grants;
		grants = grant;
	}
	grant->owner = end_of(owner);
	grant->peer = end_of(peer);
	return CUDA_SUCCESS;
}

/* Memory of another device. */
static bool reaches_other(CUcontext ctx, const struct span *span)
{
	bool granted;

	if (span->pool)
		return pool_reached_from(span->pool, ctx->device);
	/* Memory of another process is opened with access, and once for all contexts. */
	if (span->flags & ALLOC_IMPORTED || span->ctx == ctx)
		return true;
	lock_take(&grant_lock);
	granted = span->ctx && find_grant(ctx, span->ctx, NULL);
	lock_drop(&grant_lock);
	return granted;
}

bool ctx_reaches_far(CUcontext ctx, const struct span *span)
{
	return span->flags & (ALLOC_ANY_HOST | ALLOC_MANAGED | ALLOC_IO) ||
	       reaches_other(ctx, span);
}

static CUresult enable(CUcontext peer, unsigned int flags)
{
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);

	if (!result)
		result = ctx_valid(peer);
	if (result)
		return result;
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (peer->device == ctx->device)
		return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
	lock_take(&grant_lock);
	result = add_grant(ctx, peer);
	lock_drop(&grant_lock);
	return result;
}

/**
 * cuCtxEnablePeerAccess - let the current context reach the memory of another device's context
 * @flags: 0
 *
 * Return: PEER_ACCESS_ALREADY_ENABLED; PEER_ACCESS_UNSUPPORTED for a context of the same device, also
 * the current one (the documentation has INVALID_CONTEXT for that); INVALID_CONTEXT for none;
 * INVALID_VALUE for @flags.
 */
CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
	CALL(enable(peer, flags), peer, flags);
}

static CUresult disable(CUcontext peer)
{
	struct grant *grant;
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);

	if (!result)
		result = ctx_valid(peer);
	if (result)
		return result;
	lock_take(&grant_lock);
	grant = find_grant(ctx, peer, NULL);
	if (grant)
		grant->owner.ctx = NULL;
	lock_drop(&grant_lock);
	return grant ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

/** cuCtxDisablePeerAccess - no longer; PEER_ACCESS_NOT_ENABLED if it was not enabled */
CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
	CALL(disable(peer), peer);
}

static CUresult can_access(int *can, CUdevice device, CUdevice peer)
{
	if (!can)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_valid(device) || !device_valid(peer))
		return CUDA_ERROR_INVALID_DEVICE;
	*can = device != peer;
	return CUDA_SUCCESS;
}

/** cuDeviceCanAccessPeer - 1 for two different devices, 0 for one and itself */
CUresult cuDeviceCanAccessPeer(int *can_access_peer, CUdevice device, CUdevice peer)
{
	CALL(can_access(can_access_peer, device, peer), can_access_peer, device, peer);
}

static CUresult p2p_attribute(int *value, CUdevice_P2PAttribute attribute, CUdevice source,
			      CUdevice destination)
{
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if (!device_valid(source) || !device_valid(destination) || source == destination)
		return CUDA_ERROR_INVALID_DEVICE;
	switch (attribute) {
	case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
	case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
		*value = 1;
		return CUDA_SUCCESS;
	case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
	case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
	case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED:
		*value = 0;
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

/**
 * cuDeviceGetP2PAttribute - what the way from one device to another can do
 *
 * Access, to arrays, too, at the same rank for every pair; nothing there executes atomics.
 * Return: INVALID_DEVICE, also for a device and itself; INVALID_VALUE.
 */
CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice source,
				 CUdevice destination)
{
	CALL(p2p_attribute(value, attribute, source, destination), value, attribute, source,
	     destination);
}
