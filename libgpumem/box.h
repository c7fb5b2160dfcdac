/* SPDX-License-Identifier: MIT */
/*
 * Copies of boxes: what 2D, 3D and batched copies and those of arrays have in common.
 *
 * A box is described by two sides, in the words of the API: an address with its pitch and height,
 * or an array, and where the box begins there. box_resolve() checks it and finds out where the
 * bytes are; then a copy is two ends, which box_run() copies in the order of a stream. Between the
 * two nothing is held, so that several boxes can be checked before the first is copied.
 *
 * All sizes and positions are bytes, rows and slices, those in arrays of blocks blocks of them.
 *
 * Vocabulary: side, what the program said; end, where that is; hollow, an array of which no part
 * has memory: what is read there is 0, and what is written is dropped.
 */
#ifndef GPUMEM_BOX_H
#define GPUMEM_BOX_H

#include "internal.h"

struct side {
	CUmemorytype type;
	const void *host;		/* CU_MEMORYTYPE_HOST */
	uint64_t device;		/* CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_UNIFIED */
	CUarray array;			/* CU_MEMORYTYPE_ARRAY: no pitch, no height */
	uint64_t pitch, height;		/* 0: no gap between rows, between slices */
	uint64_t x, y, z;
	uint64_t level;			/* of an array: must be 0 */
};

struct box {
	struct side dst, src;
	uint64_t width, height, depth;
};

struct end {
	uint64_t addr;
	uint64_t pitch;
	uint64_t slice;			/* bytes from one slice to the next */
	CUcontext ctx;			/* that the memory belongs to, or NULL */
	bool host;
	bool io;			/* host memory that is a device, and not read before its turn */
	bool pinned;			/* host memory that the engine reaches */
	bool host_pool;			/* and it is a pool's */
	bool shared;			/* somebody outside the process may reach it */
	bool dark;			/* the CPU does not reach it */
	bool sync;			/* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
	bool hollow;
	bool unmapped;			/* an array that cannot be used before it has memory */
};

struct copy {
	struct end dst, src;
	uint64_t width, height;
	uint64_t depth;			/* slices; 0 and 1 both mean one */
	bool early;			/* the source is read before the call returns */
};

/*
 * Check a box that is not empty. INVALID_VALUE: it is not inside what its sides name;
 * INVALID_HANDLE: a destroyed array.
 */
CUresult box_resolve(const struct box *box, struct copy *copy);
/*
 * What is left to do of what was resolved. False: nothing, or, if *@result is an error, what cannot be
 * done.
 */
bool box_flatten(CUstream stream, struct copy *copy, CUresult *result);
/* Copy what was resolved; @flags: enum call_flags. */
CUresult box_run(CUstream stream, const struct copy *copy, unsigned int flags);
/* Both, in the stream of a handle; an empty box is a success. */
CUresult box_copy(const struct box *box, CUstream handle, unsigned int flags);

/* Between addresses (memcpy.c). */

/* What lies at an end, and whether all of the copy fits; @kind: enum end_flags. */
CUresult copy_end(const struct copy *copy, struct end *end, unsigned int kind);
/* Both ends are checked and there is something to copy. */
CUresult copy_run(CUstream stream, const struct copy *copy, unsigned int flags);
/*
 * The stream of a copy of @dst and @src. A copy between contexts needs no current one, and if
 * @nothing is to be copied, no stream either.
 */
CUresult copy_stream(CUstream handle, unsigned int flags, uint64_t dst, uint64_t src, bool nothing,
		     CUstream *stream);
/*
 * A copy between contexts without a stream argument comes after all earlier work of the contexts
 * that the memory belongs to.
 */
CUresult copy_peer_wait(CUstream stream, const struct copy *copy, unsigned int flags);
/* Whether the caller may do it if the stream is idle. */
bool copy_may_inline(const struct copy *copy);
/* Whether the two ends have a byte in common, or might have. */
bool copy_overlaps(const struct copy *copy);
/* The caller does it. */
void copy_now(const struct copy *copy);
/* Put it into a queue. stream->lock is held; ring_finish() must follow. */
CUresult copy_put(CUstream stream, struct queue *queue, const struct copy *copy);
/*
 * From the process's memory to the engine's by way of WORK_BUFFER bytes at @buffer that both reach.
 * It is done when this returns; the caller owns the queue.
 */
CUresult copy_through(struct queue *queue, const struct copy *copy, uint64_t buffer);

#endif /* GPUMEM_BOX_H */
