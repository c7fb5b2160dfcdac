// SPDX-License-Identifier: MIT
/*
 * Grants: which context may reach the memory of a context of another device.
 *
 * Owns the list of grants. All devices of the process work in one address space, and each reaches the
 * memory of the others. A grant is only a permission. It allows what a program could not do on real
 * devices without it: fills and memory operations of a stream in memory of another device, and queries
 * of its range. Copies need no grant, as on real devices. Memory of pools has its own rule: pool/pool.c stores which
 * devices reach it.
 *
 * A grant names the lives of both contexts. It is void when either life ends, and its structure is then used
 * again.
 *
 * Locks: grant_lock for the list; no lock is taken inside it.
 *
 * Vocabulary: owner, the context that may reach the memory of the other one; peer, the other one.
 */
#include <stdlib.h>

#include "exec/exec.h"

struct party {
	CUcontext ctx;
	uint64_t generation;
};

struct grant {
	struct party owner, peer;
	struct grant *next;
};

static struct lock grant_lock;
static struct grant *grants;		/* grant_lock; only grows */

static struct party party_of(CUcontext ctx)
{
	return (struct party){ ctx, load_acquire(&ctx->generation) };
}

static bool alive(const struct party *party)
{
	return party->ctx && load_acquire(&party->ctx->state) == CTX_LIVE &&
	       load_acquire(&party->ctx->generation) == party->generation;
}

/* The grant of two living contexts, or NULL. *@unused, if given, becomes a void grant. grant_lock is held. */
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
	grant->owner = party_of(owner);
	grant->peer = party_of(peer);
	return CUDA_SUCCESS;
}

/* Whether pools, imports or grants let a context reach memory of another device. */
static bool reaches_other(CUcontext ctx, const struct span *span)
{
	bool granted;

	if (span->pool)
		return pool_reached_from(span->pool, ctx->device);
	/* Imported memory needs no grant: opening it gave access, for all contexts. As recorded, external memory needs one. */
	if ((span->flags & (ALLOC_IMPORTED | ALLOC_EXTERNAL)) == ALLOC_IMPORTED || span->ctx == ctx)
		return true;
	lock_take(&grant_lock);
	granted = span->ctx && find_grant(ctx, span->ctx, NULL);
	lock_drop(&grant_lock);
	return granted;
}

bool ctx_reaches_far(CUcontext ctx, const struct span *span)
{
	if (span_pool_host(span))
		return pool_reached_from(span->pool, ctx->device);
	/* A mapping has rights of its own. */
	return span->flags & (ALLOC_ANY_HOST | ALLOC_MANAGED | ALLOC_IO | ALLOC_MAPPED) ||
	       reaches_other(ctx, span);
}

CUresult peer_enable(CUcontext peer, unsigned int flags)
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

CUresult peer_disable(CUcontext peer)
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
