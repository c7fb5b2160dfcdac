/* SPDX-License-Identifier: MIT */
/*
 * The plain copy: at most INLINE_MAX bytes between plain memory (address/plain.h), in an idle stream with a
 * plain handle (exec/ring.h). memcpy.c does all other copies.
 */
#ifndef GPUMEM_COPY_PLAIN_COPY_H
#define GPUMEM_COPY_PLAIN_COPY_H

#include <string.h>

#include "copy/copy.h"

/* Whether the memory and the handle are plain. */
static inline __attribute__((always_inline)) bool copy_plain(uint64_t dst, uint64_t src,
							     uint64_t bytes, CUstream handle)
{
	return likely(!((dst | src) >> ADDRESS_BITS)) && stream_plain(handle) &&
	       vm_plain(dst, bytes) && vm_plain(src, bytes);
}

/*
 * Whether a copy is plain. If so, this takes the stream's lock, and the caller must check that the stream is
 * idle. This function calls no other, so that the arguments stay in their registers.
 */
static inline __attribute__((always_inline)) bool copy_begin(uint64_t dst, uint64_t src,
							     uint64_t bytes, CUstream handle)
{
	return likely(bytes - 1 < INLINE_MAX) && likely(client.inlining_device) &&
	       likely(copy_plain(dst, src, bytes, handle)) && likely(lock_try(&handle->lock));
}

/* Execute a copy after copy_begin(), and drop the stream's lock. */
static inline __attribute__((always_inline)) CUresult copy_finish(uint64_t dst, uint64_t src,
							       uint64_t bytes, CUstream stream)
{
	memmove((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, bytes);
	lock_drop(&stream->lock);
	return CUDA_SUCCESS;
}

#endif /* GPUMEM_COPY_PLAIN_COPY_H */
