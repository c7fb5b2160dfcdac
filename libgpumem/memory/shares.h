/* SPDX-License-Identifier: MIT */
/*
 * Shares: tokens of memory that was exported, and imports. shares.c owns the lists, share/ makes the shares.
 *
 * Vocabulary: share, an alloc's token (exporter) or an opened handle or DMA-buf (importer).
 */
#ifndef GPUMEM_MEMORY_SHARES_H
#define GPUMEM_MEMORY_SHARES_H

#include "exec/exec.h"

struct share {
	struct share *next;		/* imports, or tokens of pools' blocks */
	bool import;
	bool opening;			/* importer's: no alloc has it yet */
	unsigned int opens;
	uint32_t token_id;		/* exporter's */
	uint8_t token[GPUMEM_TOKEN_SIZE];
	uint64_t ptr;			/* importer's, as the next two */
	CUcontext ctx;			/* the context that opened it */
	CUdevice device;		/* of that context */
	uint64_t pool_id;		/* BUFFER_ID of a pool's block, or 0 */
};

/* mem_lock is held, unless a function says otherwise. */

/* Add an import, or the token of a pool's block. */
void share_add(struct share *share);
/* Called when the memory is freed: revoke the token, or forget the import. Frees @share. */
void share_drop(struct share *share);
/* The same for a pool's block, by its id. mem_lock is not held. */
void share_drop_of_pool(uint64_t id);
/* The token of a pool's block, or NULL. */
struct share *share_of_pool(uint64_t id);
/* The import of a token by a context of a device, or NULL. */
struct share *share_of_token(const uint8_t *token, CUdevice device);

#endif /* GPUMEM_MEMORY_SHARES_H */
