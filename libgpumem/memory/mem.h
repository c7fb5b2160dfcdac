/* SPDX-License-Identifier: MIT */
/*
 * Device memory, and functions for all kinds of memory. mem.c owns the allocs.
 */
#ifndef GPUMEM_MEMORY_MEM_H
#define GPUMEM_MEMORY_MEM_H

#include "exec/exec.h"

CUresult mem_alloc(uint64_t *ptr, uint64_t size);
CUresult mem_alloc_pitch(uint64_t *ptr, uint64_t *pitch, uint64_t width, uint64_t height,
			 unsigned int element);
/* @flags: ALLOC_HOST, ALLOC_PORTABLE, ALLOC_WRITECOMBINED, ALLOC_MANAGED, ALLOC_SYNC_MEMOPS */
CUresult mem_alloc_in(CUcontext ctx, uint64_t *ptr, uint64_t size, uint32_t flags);
/* Allocate device memory that no lookup finds, for a context in its life @life. */
CUresult mem_alloc_hidden(CUcontext ctx, uint64_t life, struct alloc **alloc, uint64_t *ptr,
			  uint64_t size);
/*
 * Free hidden memory that its context has not freed yet; no work that uses it is left. The caller destroys the
 * doomed block (block.h).
 */
void mem_free_hidden(struct alloc *alloc, struct block **doomed);
/* cuMemFree(). @pool_free: called for memory of a pool; NULL: such memory is an error. */
CUresult mem_free(uint64_t ptr, CUresult (*pool_free)(uint64_t ptr));
/* Free an allocation that is not a pool's, in the order of a stream. */
CUresult mem_free_in(uint64_t ptr, CUstream stream);
/* Give back the memory freed by mem_free_in() whose stream has reached the free. */
void mem_free_late(void);
/*
 * Set the function that an allocation calls when there is no memory, before it tries again. The function gives
 * back the memory that pools keep for later. It also calls mem_free_late(), and then giving_wait(), because
 * other threads may be giving back memory.
 */
void mem_reclaim_set(void (*function)(void));
/* Have memory that the library keeps for later given back to the kernel. No lock is held. */
void mem_reclaim(void);
/* Reserve @count numbers for CU_POINTER_ATTRIBUTE_BUFFER_ID; returns the first. */
uint64_t mem_new_ids(unsigned int count);
CUresult mem_free_host(uint64_t ptr);
CUresult mem_info(uint64_t *free_bytes, uint64_t *total);
CUresult mem_range(uint64_t *base, uint64_t *size, uint64_t ptr);
/* Allocs without memory of their own, for host.c's registrations. mem_lock is held. */
struct alloc *alloc_get(void);
void alloc_put(struct alloc *alloc);
void alloc_set(struct alloc *alloc, CUcontext ctx, struct block *block, uint64_t base,
	       uint64_t size, uint32_t flags);
void alloc_clear(struct alloc *alloc);
/* Hide an alloc from lookups. mem_lock is held. */
void alloc_hide(struct alloc *alloc);
/*
 * Free an alloc; no work that uses the memory is left. mem_lock is held, and the caller destroys what is doomed when it
 * has dropped the lock. @how: UNITS_IDLE or 0.
 */
void alloc_free(struct alloc *alloc, uint32_t how, struct block **doomed);
uint64_t mem_new_block_id(void);
/* Make an alloc for the block of an opened buffer object. mem_lock is held. */
CUresult mem_adopt(CUcontext ctx, uint64_t life, struct block *block, uint64_t delta,
		   uint64_t bytes, struct share *share, uint32_t flags, struct alloc **made);
/* Undo mem_adopt(). The caller destroys the doomed block (block.h). mem_lock is held. */
void mem_drop_adopted(struct alloc *alloc, struct block **doomed);

/*
 * Wait for the work that may use @length bytes before they are freed: all work of the context that owns
 * them, and copies of other contexts that read them. *@result is the current context's error. False: a
 * wait was refused, *@result says why, and work may still use the memory (free_wait.c).
 */
bool free_wait(CUcontext owner, uint64_t base, uint64_t length, CUresult *result);

#endif /* GPUMEM_MEMORY_MEM_H */
