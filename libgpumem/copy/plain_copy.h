/* SPDX-License-Identifier: MIT */
/*
 * The plain copy: at most INLINE_MAX bytes between plain memory (address/plain.h), in an idle stream with a
 * plain handle (exec/ring.h). The near copy and the near fill: the same for resident managed memory in slots of its
 * own (address/resident.h). memcpy.c and memset.c do all other copies and fills.
 */
#ifndef GPUMEM_COPY_PLAIN_COPY_H
#define GPUMEM_COPY_PLAIN_COPY_H

#include <string.h>

#include "copy/copy.h"

/*
 * The functions of this file that begin with copy_ or near_ call no other function before the copy, so that the
 * arguments stay in their registers.
 */

/* Whether the addresses are in the index's reach, and the handle is plain. */
static inline __attribute__((always_inline)) bool copy_reached(uint64_t dst, uint64_t src, CUstream handle)
{
	return likely(!((dst | src) >> ADDRESS_BITS)) && stream_plain(handle);
}

/* Whether the memory and the handle are plain. */
static inline __attribute__((always_inline)) bool copy_plain(uint64_t dst, uint64_t src,
							     uint64_t bytes, CUstream handle)
{
	return copy_reached(dst, src, handle) && vm_plain(dst, bytes) && vm_plain(src, bytes);
}

/* Whether a copy is plain or near, if the memory is and the stream is idle. */
static inline __attribute__((always_inline)) bool copy_short(uint64_t dst, uint64_t src,
							     uint64_t bytes, CUstream handle)
{
	return likely(bytes - 1 < INLINE_MAX) && likely(client.inlining_device) && copy_reached(dst, src, handle);
}

/* Execute a copy, and drop the stream's lock. */
static inline __attribute__((always_inline)) CUresult copy_finish(uint64_t dst, uint64_t src,
							       uint64_t bytes, CUstream stream)
{
	memmove((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, bytes);
	lock_drop(&stream->lock);
	return CUDA_SUCCESS;
}

/* Whether the memory of a short copy is near, if it is resident. */
static inline __attribute__((always_inline)) bool near_slots(uint64_t dst, uint64_t src, uint64_t bytes)
{
	return likely(slot_has(resident_slot(dst), dst, bytes)) && likely(slot_has(resident_slot(src), src, bytes));
}

/* Take the stream's lock for a near copy. */
static inline __attribute__((always_inline)) bool near_begin(CUstream stream)
{
	/* With a note of a copy that was left, the slow path gives back what that copy held. */
	return likely(!touch_note.state) && likely(lock_try(&stream->lock));
}

/* Whether the memory is resident, after near_slots(). The stream is idle: its own work may have evicted the memory. */
static inline __attribute__((always_inline)) bool near_now(uint64_t dst, uint64_t src, CUstream stream)
{
	return likely(slot_resident(resident_slot(dst), stream->ctx->place)) &&
	       likely(slot_resident(resident_slot(src), stream->ctx->place));
}

/* Whether the memory of a short copy is plain or resident. The stream is idle. */
static inline __attribute__((always_inline)) bool near_mixed(uint64_t dst, uint64_t src, uint64_t bytes,
							     CUstream stream)
{
	return vm_near(dst, bytes, stream->ctx->place) == NEAR_HERE && vm_near(src, bytes, stream->ctx->place) == NEAR_HERE;
}

/* Execute a near copy, and drop the stream's lock. The kernel may move managed memory at any time. */
static inline __attribute__((always_inline)) CUresult near_finish(uint64_t dst, uint64_t src,
								  uint64_t bytes, CUstream stream)
{
	touch_begin(stream);
	memmove((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, bytes);
	touch_drop_noted();
	return CUDA_SUCCESS;
}

/* Whether the memory of a fill is near, if it is resident. */
static inline __attribute__((always_inline)) bool near_fill_slot(uint64_t dst, uint64_t bytes)
{
	return slot_has(resident_slot(dst), dst, bytes);
}

/*
 * Whether the calling thread may execute a fill of near memory. It looks at the stream before it takes the lock,
 * because the slow path takes the lock of a busy stream again.
 */
static inline __attribute__((always_inline)) bool near_fill_short(uint64_t dst, uint64_t bytes, unsigned int elem,
								  CUstream handle)
{
	return stream_plain(handle) && likely(stream_idle_fast(handle)) && likely(bytes <= INLINE_MAX) &&
	       likely(client.inlining) && likely(!(dst & (elem - 1)));
}

/* near_now() for a fill. */
static inline __attribute__((always_inline)) bool near_fill_now(uint64_t dst, CUstream stream)
{
	return likely(slot_resident(resident_slot(dst), stream->ctx->place));
}

/* near_finish() for a fill. */
static inline __attribute__((always_inline)) CUresult near_fill_finish(uint64_t dst, uint32_t value, unsigned int elem,
								       uint64_t count, CUstream stream)
{
	touch_begin(stream);
	fill_row(dst, value, elem, count);
	touch_drop_noted();
	return CUDA_SUCCESS;
}

#endif /* GPUMEM_COPY_PLAIN_COPY_H */
