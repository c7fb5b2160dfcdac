/* SPDX-License-Identifier: MIT */
/*
 * Pools: chunks.  pool_chunks.c has the rules. pool->lock is held unless a function says otherwise.
 */
#ifndef GPUMEM_POOL_CHUNKS_H
#define GPUMEM_POOL_CHUNKS_H

#include "pool/parts.h"

/* Make an idle chunk; between growth_begin() and growth_end(). The lock is dropped in between. */
CUresult chunk_make(pool_t *pool, uint64_t length);
/* Make a kept chunk of a length idle again; false if there is none. */
bool chunk_again(pool_t *pool, uint64_t length);
/* Doom an idle chunk, or a chunk of an import. */
void chunk_destroy(struct chunk *chunk);
/* Give doomed chunks back. The lock is dropped in between; the pool does not end. */
void chunks_return(pool_t *pool);
/*
 * Make a chunk of an import, which has no pages in the tables. The chunk takes over the buffer object @bo in
 * any case. The lock is not held. chunk_link() must follow, with the lock held.
 */
CUresult chunk_adopt(pool_t *pool, CUdevice device, uint32_t bo, uint64_t length,
		     uint64_t number, struct chunk **chunk);
void chunk_link(pool_t *pool, struct chunk *chunk);
/* Undo chunk_adopt(), in place of chunk_link(). No lock is held. */
void chunk_abandon(struct chunk *chunk);
/*
 * Reduce the reserved bytes to @keep, as far as idle chunks allow. With @below, the last chunk may take them
 * below @keep. A chunk is kept if possible, otherwise doomed.
 */
void chunks_release(pool_t *pool, uint64_t keep, bool below);
/* Doom all chunks that are kept. */
void chunks_forget(pool_t *pool);
/* The words of chunks, shared with the kernel; NULL if it has none. Constant once there is a pool. */
extern HIDDEN uint32_t *chunk_words;
void chunks_init(void);

#endif /* GPUMEM_POOL_CHUNKS_H */
