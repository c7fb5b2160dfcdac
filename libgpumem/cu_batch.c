// SPDX-License-Identifier: MIT
/*
 * The API's chapter "Memory Management": batches of copies, and decompression.
 *
 * Thin: what is behind it is in batch.c and decompress.c.
 *
 * Rules that hold for batches of copies: a batch is checked as a whole, and if anything is wrong
 * nothing is copied. It runs in stream order as a whole; its copies have no order among themselves,
 * so none may depend on another. Every copy must lie inside one allocation at each end, which may be
 * any memory: device memory of any device, pinned, registered or pageable. Nothing may be NULL, 0
 * bytes or empty. The legacy stream is refused, 0 too where it means the calling thread's own;
 * CU_STREAM_PER_THREAD is not. A context must be current.
 *
 * srcAccessOrder says when a source may be read: STREAM, in stream order, pageable memory too, which
 * must therefore stay as it is until the copy is done; DURING_API_CALL, before the call returns,
 * whatever the stream has still to do; ANY, at any time. A copy to pageable memory is done when the
 * call returns. Location hints must be of a known type and are ignored, and so is the flag
 * PREFER_OVERLAP_WITH_COMPUTE.
 *
 * The first forms have a place for the index of the copy that an error is about, SIZE_MAX if it is
 * about none. It may be NULL and is written only on failure.
 *
 * Errors: INVALID_VALUE, also without a context; INVALID_HANDLE for a destroyed stream,
 * OUT_OF_MEMORY, NOT_PERMITTED in host functions, and the error of earlier work.
 */
#include "internal.h"

/**
 * cuMemcpyBatchAsync_v2 - linear copies
 * @dsts: @count addresses to copy to
 * @srcs: @count addresses to copy from
 * @sizes: @count sizes in bytes, not 0
 * @count: how many, not 0
 * @attrs: @attr_count descriptions of how to copy
 * @attr_indices: the first copy that each is for: 0, then rising, below @count
 * @attr_count: not 0, at most @count
 * @stream: not the legacy stream
 *
 * Follows "Memory Management"; the rules and errors are above.
 */
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
			       CUmemcpyAttributes *attrs, size_t *attr_indices, size_t attr_count,
			       CUstream stream)
{
	CALL_INSIDE(copy_batch(dsts, srcs, sizes, count, attrs, attr_indices, attr_count, NULL,
			       stream), dsts, srcs, sizes, count, attrs, attr_indices, attr_count,
		    stream);
}

/** cuMemcpyBatchAsync_v2_ptsz - the same */
CUresult cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
				    size_t count, CUmemcpyAttributes *attrs, size_t *attr_indices,
				    size_t attr_count, CUstream stream)
{
	CALL_INSIDE(copy_batch(dsts, srcs, sizes, count, attrs, attr_indices, attr_count, NULL,
			       stream), dsts, srcs, sizes, count, attrs, attr_indices, attr_count,
		    stream);
}

/** cuMemcpyBatchAsync - CUDA 12's form, with the failing copy's index in @fail_index */
CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
			    CUmemcpyAttributes *attrs, size_t *attr_indices, size_t attr_count,
			    size_t *fail_index, CUstream stream)
{
	CALL_INSIDE(copy_batch(dsts, srcs, sizes, count, attrs, attr_indices, attr_count,
			       fail_index, stream), dsts, srcs, sizes, count, attrs, attr_indices,
		    attr_count, fail_index, stream);
}

/** cuMemcpyBatchAsync_ptsz - the same */
CUresult cuMemcpyBatchAsync_ptsz(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
				 CUmemcpyAttributes *attrs, size_t *attr_indices,
				 size_t attr_count, size_t *fail_index, CUstream stream)
{
	CALL_INSIDE(copy_batch(dsts, srcs, sizes, count, attrs, attr_indices, attr_count,
			       fail_index, stream), dsts, srcs, sizes, count, attrs, attr_indices,
		    attr_count, fail_index, stream);
}

/**
 * cuMemcpy3DBatchAsync_v2 - copies of boxes
 * @op_count: how many, not 0
 * @ops: what to copy: extents in elements, rows and slices, rowLength in elements and layerHeight in
 *	rows, where 0 is the extent's, and not less than that otherwise; offsets into arrays in
 *	elements, rows and slices
 * @flags: 0
 * @stream: not the legacy stream
 *
 * Follows "Memory Management"; the rules and errors are above. An element is a byte, or what the array
 * consists of; elements of two arrays must be of the same size. A NULL array is INVALID_VALUE, a
 * destroyed one INVALID_HANDLE.
 */
CUresult cuMemcpy3DBatchAsync_v2(size_t op_count, CUDA_MEMCPY3D_BATCH_OP *ops,
				 unsigned long long flags, CUstream stream)
{
	CALL_INSIDE(copy_batch_3d(op_count, ops, NULL, flags, stream), op_count, ops, flags,
		    stream);
}

/** cuMemcpy3DBatchAsync_v2_ptsz - the same */
CUresult cuMemcpy3DBatchAsync_v2_ptsz(size_t op_count, CUDA_MEMCPY3D_BATCH_OP *ops,
				      unsigned long long flags, CUstream stream)
{
	CALL_INSIDE(copy_batch_3d(op_count, ops, NULL, flags, stream), op_count, ops, flags,
		    stream);
}

/** cuMemcpy3DBatchAsync - CUDA 12's form, with the failing copy's index in @fail_index */
CUresult cuMemcpy3DBatchAsync(size_t op_count, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *fail_index,
			      unsigned long long flags, CUstream stream)
{
	CALL_INSIDE(copy_batch_3d(op_count, ops, fail_index, flags, stream), op_count, ops,
		    fail_index, flags, stream);
}

/** cuMemcpy3DBatchAsync_ptsz - the same */
CUresult cuMemcpy3DBatchAsync_ptsz(size_t op_count, CUDA_MEMCPY3D_BATCH_OP *ops,
				   size_t *fail_index, unsigned long long flags, CUstream stream)
{
	CALL_INSIDE(copy_batch_3d(op_count, ops, fail_index, flags, stream), op_count, ops,
		    fail_index, flags, stream);
}

/**
 * cuMemBatchDecompressAsync - decompress
 * @params: @count operations
 * @count: not 0
 * @flags: 0
 * @error_index: on failure, the operation that it is about or SIZE_MAX; may be NULL
 * @stream: any; 0 is the legacy stream
 *
 * Of an operation, srcNumBytes (not 0) bytes at src are raw deflate (RFC 1951), snappy or LZ4 block
 * data. What comes out goes to dst, and its length in bytes to dstActBytes, a multiple of 4. If
 * dstNumBytes is not 0 no more than that may come out, else no more than is left of dst's
 * allocation. Neither number may be larger than MEM_DECOMPRESS_MAXIMUM_LENGTH. All three addresses
 * must be of memory that IS_HW_DECOMPRESS_CAPABLE is 1 of, and the ranges inside one allocation each.
 *
 * Follows "Memory Management". Bad data, or data of which more comes out than there is room for, is
 * an error of its operation alone: it stores 0 at dstActBytes and nothing at dst. A deflate stream
 * ends with its last block, whatever follows; data of the others must end where it says.
 *
 * Return: INVALID_VALUE for wrong arguments, NOT_SUPPORTED for an algorithm whose library is not
 * installed; if none is, NOT_SUPPORTED for everything, and @error_index is not written.
 */
CUresult cuMemBatchDecompressAsync(CUmemDecompressParams *params, size_t count, unsigned int flags,
				   size_t *error_index, CUstream stream)
{
	CALL_INSIDE(decompress_batch(params, count, flags, error_index, stream, false), params,
		    count, flags, error_index, stream);
}

/** cuMemBatchDecompressAsync_ptsz - the same; stream 0 is the calling thread's own */
CUresult cuMemBatchDecompressAsync_ptsz(CUmemDecompressParams *params, size_t count,
					unsigned int flags, size_t *error_index, CUstream stream)
{
	CALL_INSIDE(decompress_batch(params, count, flags, error_index, stream, true), params,
		    count, flags, error_index, stream);
}
