/* SPDX-License-Identifier: MIT */
/*
 * Copies of boxes: what 2D, 3D, batched and array copies have in common.
 *
 * A box is described by two sides, in the words of the API: an address with its pitch and height, or an array,
 * and where the box begins there. box_resolve() checks the box and finds out where the bytes are. The result is
 * a copy with two ends, which box_run() executes in the order of a stream. No lock or reference is held between
 * the two calls, so that several boxes can be checked before the first is copied.
 *
 * Sizes and positions are in bytes, rows and slices; in arrays of block formats a row is a row of blocks.
 *
 * Vocabulary: side, the program's description of a source or destination; end, the memory that a side names;
 * hollow, an array of which no part has memory: reads return 0, and writes are dropped.
 */
#ifndef GPUMEM_BOX_H
#define GPUMEM_BOX_H

#include "copy/copy.h"

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

struct copy_end {
	uint64_t addr;
	uint64_t pitch;
	uint64_t slice;			/* bytes from one slice to the next */
	CUcontext ctx;			/* that the memory belongs to, or NULL */
	bool host;			/* memory that the engine does not reach */
	bool io;			/* registers of a device: not read before stream order allows */
	bool pinned;			/* host memory that the engine reaches */
	bool host_pool;			/* pinned memory of a pool */
	bool shared;			/* another process or driver may reach it */
	bool dark;			/* the CPU does not reach it, or must not access it */
	bool sync;			/* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
	bool hollow;
	bool unmapped;			/* an array that cannot be used before it has memory */
};

struct copy {
	struct copy_end dst, src;
	uint64_t width, height;
	uint64_t depth;			/* slices; 0 and 1 both mean one */
	bool early;			/* the source is read before the call returns */
};

/*
 * Check a box that is not empty. INVALID_VALUE: the box is not inside the memory of its sides. INVALID_HANDLE:
 * an array was destroyed.
 */
CUresult box_resolve(const struct box *box, struct copy *copy);
/*
 * Reduce a resolved copy to the part that moves bytes. False: the copy moves none, or it cannot be done
 * (*@result is the error).
 */
bool box_flatten(CUstream stream, struct copy *copy, CUresult *result);
/* Copy what was resolved; @flags: enum call_flags. */
CUresult box_run(CUstream stream, const struct copy *copy, unsigned int flags);
/* box_resolve() and box_run() in the stream of a handle; an empty box is a success. */
CUresult box_copy(const struct box *box, CUstream handle, unsigned int flags);

/* ---- copies between two ends (memcpy.c) */

/* Look up the memory at an end, and check that all of the copy fits; @kind: enum end_flags. */
CUresult copy_end_find(const struct copy *copy, struct copy_end *end, unsigned int kind);
/* Execute a copy whose ends are checked and that is not empty. @flags: enum call_flags. */
CUresult copy_run(CUstream stream, const struct copy *copy, unsigned int flags);
/*
 * Get the stream of a copy from @src to @dst. A copy between contexts (CALL_PEER) needs no current context. If
 * @nothing is to be copied, it needs no stream either.
 */
CUresult copy_stream(CUstream handle, unsigned int flags, uint64_t dst, uint64_t src, bool nothing,
		     CUstream *stream);
/*
 * A copy between contexts without a stream argument comes after all earlier work of the contexts
 * that the memory belongs to.
 */
CUresult copy_peer_wait(CUstream stream, const struct copy *copy, unsigned int flags);
/* Whether the calling thread may copy if the stream is idle. */
bool copy_may_inline(const struct copy *copy);
/* Whether the two ends have a byte in common, or might have. */
bool copy_overlaps(const struct copy *copy);
/* Copy in the calling thread. */
void copy_now(const struct copy *copy);
/* Put a copy into a queue. stream->lock is held; ring_finish() must follow. */
CUresult copy_put(CUstream stream, struct queue *queue, const struct copy *copy);
/*
 * Copy from memory that the CPU reaches to memory that the engine reaches, through WORK_BUFFER bytes at @buffer
 * that both reach. The copy is done when this returns. The caller owns the queue.
 */
CUresult copy_through(struct queue *queue, const struct copy *copy, uint64_t buffer);

#endif /* GPUMEM_BOX_H */
