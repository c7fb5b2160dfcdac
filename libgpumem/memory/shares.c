// SPDX-License-Identifier: MIT
/*
 * Shares: the lists of tokens and imports. A free walks them to revoke a token or to forget an import.
 *
 * Owns the list of imports and the list of tokens of pools' blocks. The token of an alloc is in no list: the
 * alloc points at it.
 *
 * Locks: mem_lock.
 */
#include <stdlib.h>

#include "memory/memory.h"

static struct share *imports;		/* mem_lock */
static struct share *of_pools;		/* mem_lock; tokens of blocks of pools */

void share_add(struct share *share)
{
	struct share **list = share->import ? &imports : &of_pools;

	share->next = *list;
	*list = share;
}

void share_drop(struct share *share)
{
	struct share **link = share->import ? &imports : &of_pools;

	for (; *link; link = &(*link)->next)
		if (*link == share) {
			*link = share->next;
			break;
		}
	if (!share->import)
		client_destroy_id(share->token_id);
	free(share);
}

struct share *share_of_pool(uint64_t id)
{
	struct share *share = of_pools;

	while (share && share->pool_id != id)
		share = share->next;
	return share;
}

void share_drop_of_pool(uint64_t id)
{
	struct share *share;

	lock_take(&mem_lock);
	share = share_of_pool(id);
	if (share)
		share_drop(share);
	lock_drop(&mem_lock);
}

struct share *share_of_token(const uint8_t *token, CUdevice device)
{
	struct share *share = imports;

	while (share && (share->device != device ||
			 memcmp(share->token, token, sizeof(share->token))))
		share = share->next;
	return share;
}
