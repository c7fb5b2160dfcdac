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
 * A tiled array (struct tiling) consists of strips: columns of tiles, one tile wide and as high as the array. A
 * strip is contiguous, and rows in it are one pitch apart. A copy of a tiled array is done part by part
 * (copy_part()); in each of its parts, both ends lie in one strip.
 *
 * Vocabulary: side, the program's description of a source or destination; end, the memory that a side names.
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
	CUcontext named;		/* the context that the call names for the side, or NULL */
};

struct box {
	struct side dst, src;
	uint64_t width, height, depth;
};

/*
 * How tiles lie. A tile has @slices slices. Its rows lie one after the other, and each row has all slices: the
 * strip's rows are slices * row bytes apart, its slices row bytes. A group has the strips of @slices slices.
 */
struct tiling {
	uint32_t row;			/* bytes of a row of a tile; 0: not tiled */
	uint32_t slices;
	uint64_t strip, group;		/* bytes from one strip, one group to the next */
};

struct copy_end {
	uint64_t addr;			/* of a tiled array: where the rows begin in the first strip */
	uint64_t pitch;
	uint64_t slice;			/* bytes from one slice to the next */
	CUcontext ctx;			/* that the memory belongs to, or NULL */
	CUcontext reach;		/* its device needs access to the end's mapping or pool (copy_reach(), or the stream's) */
	uint32_t rights;		/* of a mapping: 1 + the kernel's index of the device whose right to it counts; or 0 */
	bool host;			/* memory that the engine does not reach, or that the CPU copies */
	bool pageable;			/* memory of the process that the engine accesses (address/pageable.h) */
	bool io;			/* registers of a device: not read before stream order allows */
	bool pinned;			/* host memory that the engine reaches */
	bool managed_host;		/* managed memory that the call names as the host's */
	bool shared;			/* another process or driver may reach it, or its pages may be missing */
	bool dark;			/* the CPU does not reach it, or must not access it */
	bool movable;			/* shared and dark for no other reason: the CPU may access it while it is resident */
	bool host_only;			/* ALLOC_HOST_ONLY, and the call does not name it as the host's */
	bool checked;			/* pageable, or host_only: copy_run() checks the device */
	bool sync;			/* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
	struct tiling tiling;
	uint32_t x, z;			/* of a tiled array: where the copy begins, in bytes and slices */
	uint64_t tiles;			/* address of a tiled array's first tile */
};

struct copy {
	struct copy_end dst, src;
	uint64_t width, height;
	uint64_t depth;			/* slices; 0 and 1 both mean one */
	bool early;			/* the source is read before the call returns */
};

/*
 * Check a box that is not empty. @reach: of the ends whose sides have no named context. INVALID_VALUE: the box is not
 * inside the memory of its sides, or a pool gives no access. INVALID_HANDLE: an array was destroyed.
 */
CUresult box_resolve(const struct box *box, CUcontext reach, struct copy *copy);
/* Join slices of a resolved copy that have no gap between them. */
void box_flatten(struct copy *copy);
/* Copy what was resolved; @flags: enum call_flags. */
CUresult box_run(CUstream stream, const struct copy *copy, unsigned int flags);
/* box_resolve() and box_run() in the stream of a handle; an empty box is a success. */
CUresult box_copy(const struct box *box, CUstream handle, unsigned int flags);

/* ---- parts of copies of tiled arrays (tiled.c) */

static inline bool copy_tiled(const struct copy *copy)
{
	return copy->dst.tiling.row || copy->src.tiling.row;
}

/* A position in a copy; all zero: before the first part. */
struct copy_part {
	uint64_t x, z, width, depth;
};

/* The next part of a copy, which is not tiled. False: there is none. Needs no lock. */
bool copy_part(const struct copy *copy, struct copy_part *at, struct copy *part);

/* ---- ends (end.c) */

static inline uint64_t copy_slices(const struct copy *copy)
{
	return copy->depth ? copy->depth : 1;
}

/* Look up the memory at an end, and check that all of the copy fits; @kind: enum end_flags. */
CUresult copy_end_find(const struct copy *copy, struct copy_end *end, unsigned int kind);

/* ---- copies between two ends (memcpy.c) */

/* The context whose device needs access to both ends of a copy in @stream. Batches use the stream's context. */
static inline CUcontext copy_reach(CUstream stream)
{
	CUcontext ctx = ctx_top();

	return ctx ? ctx : stream->ctx;
}

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
/* Who may access the ends of a copy. */
struct near_ends {
	enum near dst, src;
};

/* Whether the calling thread may copy for @stream. It is idle, and its lock is held. @near: out */
bool copy_may_inline(CUstream stream, const struct copy *copy, struct near_ends *near);
/* The calling thread has copied for a stream of @device. The stream's lock is not held. */
void copy_inlined(const struct copy *copy, const struct near_ends *near, CUdevice device);
/* Whether the two ends have a byte in common, or might have. */
bool copy_overlaps(const struct copy *copy);
/* From this number of bytes on, a copy from or to pageable memory is not staged: the engine accesses the memory. */
#define DIRECT_LEAST	(256ull << 10)

/* Whether the engine of the stream's device may read the pageable source of a copy when the stream gets there. */
bool copy_reads_directly(CUstream stream, const struct copy *copy);
/* Have the engine read the source when the stream gets there. */
void copy_read_directly(struct copy *copy);
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
