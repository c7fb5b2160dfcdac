/* SPDX-License-Identifier: MIT */
/*
 * The copy that is nothing but a copy: plain memory (vm.h), a stream that the program made, which is
 * idle and obeys no other, and few bytes.  Everything else is memcpy.c's.
 */
#ifndef GPUMEM_COPY_H
#define GPUMEM_COPY_H

#include <string.h>

#include "internal.h"
#include "ring.h"
#include "vm.h"

/*
 * Give back the staging memory of a copy that a thread left by a jump, or NULL: @stage, which nothing
 * queued uses, and @other, which the work in @queue still uses.
 */
void copy_abandon(struct stage *stage, struct stage *other, struct queue *queue);

/* Plain memory and a stream that the program made? */
static inline __attribute__((always_inline)) bool copy_plain(uint64_t dst, uint64_t src,
							     uint64_t bytes, CUstream handle)
{
	return likely(!((dst | src) >> ADDRESS_BITS)) && stream_plain(handle) &&
	       vm_plain(dst, bytes) && vm_plain(src, bytes);
}

/*
 * Whether a copy is easy, but for the stream's being idle; then the stream's lock is held.  Nothing
 * is called, so that the arguments stay where they are.
 */
static inline __attribute__((always_inline)) bool copy_begin(uint64_t dst, uint64_t src,
							     uint64_t bytes, CUstream handle)
{
	return likely(bytes - 1 < INLINE_MAX) && likely(client.inlining_device) &&
	       likely(copy_plain(dst, src, bytes, handle)) && likely(lock_try(&handle->lock));
}

/* The easy copy, which ends what copy_begin() began. */
static inline __attribute__((always_inline)) CUresult copy_finish(uint64_t dst, uint64_t src,
							       uint64_t bytes, CUstream stream)
{
	memmove((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, bytes);
	lock_drop(&stream->lock);
	return CUDA_SUCCESS;
}

#endif /* GPUMEM_COPY_H */
