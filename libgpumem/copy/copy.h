/* SPDX-License-Identifier: MIT */
/*
 * copy: copies, fills and decompression.
 *
 * Copies and fills by the calling thread or by the engine, boxes, arrays and their formats, batches of copies,
 * decompression. It may include memory, exec, address and core.
 *
 * Files that need box.h, array.h or plain_copy.h include them themselves.
 */
#ifndef GPUMEM_COPY_COPY_H
#define GPUMEM_COPY_COPY_H

#include "memory/memory.h"

/* What stream 0 means, and when a call returns. */
enum call_flags {
	CALL_OWN = 1 << 0,		/* stream 0 is the calling thread's own */
	CALL_SYNC = 1 << 1,		/* a call without a stream argument */
	CALL_WAIT = 1 << 2,		/* the copy is done when the call returns, whatever it copies */
	CALL_PEER = 1 << 3,		/* a copy between contexts: none need be current */
	CALL_FAR = 1 << 4,		/* the memory is not plain (address/plain.h) */
};

/* Kinds of memory that an address of a copy may name. */
enum end_flags {
	END_DEVICE = 1 << 0,		/* memory of the library */
	END_HOST = 1 << 1,		/* any other memory of the process */
	END_NAMED_HOST = 1 << 2,	/* the call says that the address is the host's */
};

/* cuMemcpyDtoDAsync(); @flags: CALL_OWN and CALL_FAR, or none. */
CUresult copy_dtod_async(uint64_t dst, uint64_t src, uint64_t bytes, CUstream stream,
			 unsigned int flags);
/* cuMemcpyAsync() */
CUresult copy_async(uint64_t dst, uint64_t src, uint64_t bytes, CUstream stream, unsigned int flags);
CUresult copy_linear(uint64_t dst, unsigned int dst_kind, uint64_t src, unsigned int src_kind,
		     uint64_t bytes, CUstream stream, unsigned int flags);
/*
 * Copy between device memory. The device of the context that is named for an end must have access to the end's pool;
 * NULL names the current context.
 */
CUresult copy_between(uint64_t dst, CUcontext dst_context, uint64_t src, CUcontext src_context, uint64_t bytes,
		      CUstream stream, unsigned int flags);
CUresult copy_2d(const CUDA_MEMCPY2D *copy, CUstream stream, unsigned int flags);
CUresult copy_3d(const CUDA_MEMCPY3D *copy, CUstream stream, unsigned int flags);
CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER *copy, CUstream stream, unsigned int flags);
/* Copy bytes between the first rows of two arrays. @dst and @src are offsets in bytes. */
CUresult copy_array(CUarray dst_array, uint64_t dst, CUarray src_array, uint64_t src,
		    uint64_t bytes, CUstream stream, unsigned int flags);
/* @kind: enum end_flags of the address */
CUresult copy_to_array(CUarray array, uint64_t offset, uint64_t src, unsigned int kind,
		       uint64_t bytes, CUstream stream, unsigned int flags);
CUresult copy_from_array(uint64_t dst, unsigned int kind, CUarray array, uint64_t offset,
			 uint64_t bytes, CUstream stream, unsigned int flags);
/* Fill a row of @count elements in the calling thread. */
void fill_row(uint64_t dst, uint32_t value, unsigned int elem, uint64_t count);
CUresult fill_linear(uint64_t dst, uint32_t value, unsigned int elem, uint64_t count,
		     CUstream stream, unsigned int flags);
/* @width elements in each of @height rows. */
CUresult fill_2d(uint64_t dst, uint64_t pitch, uint32_t value, unsigned int elem, uint64_t width,
		 uint64_t height, CUstream stream, unsigned int flags);

/* cuMemcpyBatchAsync(); on failure *@fail, if it is not NULL, is the copy's index or SIZE_MAX. */
CUresult copy_batch(const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes,
		    size_t count, const CUmemcpyAttributes *attrs, const size_t *indices,
		    size_t attr_count, size_t *fail, CUstream handle);
CUresult copy_batch_3d(size_t count, const CUDA_MEMCPY3D_BATCH_OP *ops, size_t *fail,
		       unsigned long long flags, CUstream handle);

/* cuMemBatchDecompressAsync(); @fail as above. */
CUresult decompress_batch(const CUmemDecompressParams *params, size_t count, unsigned int flags,
			  size_t *fail, CUstream handle, bool own);

/* Whether memory may take part in decompression. */
static inline bool span_decompress(const struct span *span)
{
	return span->flags & ALLOC_DECOMPRESS ||
	       !(span->flags & (ALLOC_IMPORTED | ALLOC_POOL | ALLOC_MANAGED | ALLOC_ANY_HOST | ALLOC_MAPPED));
}

#endif /* GPUMEM_COPY_COPY_H */
