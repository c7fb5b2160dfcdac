// SPDX-License-Identifier: MIT
/*
 * The API's chapter "Memory Management": batches of copies, and decompression.
 *
 * Thin: batch.c and decompress.c of copy/ implement it.
 *
 * Rules for batches of copies: a batch is checked as a whole, and if anything is wrong nothing is copied. The
 * batch runs in stream order as a whole. Its copies have no order among themselves, so no copy may depend on
 * another. Every copy must lie inside one allocation at each end, which may be any memory: device memory of any
 * device, pinned, registered or pageable. Pointers must not be NULL, and sizes and counts not 0. The legacy
 * stream is refused, and so is stream 0 of the _ptsz forms; CU_STREAM_PER_THREAD is accepted. Single copies with
 * attributes may be in any stream. A context must be current.
 *
 * srcAccessOrder says when a source may be read. STREAM: in stream order, also pageable memory, which must
 * therefore not change until the copy is done. DURING_API_CALL: before the call returns, whatever work the
 * stream still has. ANY: at any time. A copy to pageable memory is done when the call returns. Location hints
 * must be of a known type. Location hints and the flag PREFER_OVERLAP_WITH_COMPUTE have no effect.
 *
 * On failure CUDA 12's forms store the index of the copy that the error is about in @fail_index, or SIZE_MAX if
 * the error is about no copy. @fail_index may be NULL.
 *
 * Errors: INVALID_VALUE, also without a context; INVALID_HANDLE for a destroyed stream,
 * OUT_OF_MEMORY, NOT_PERMITTED in host functions, and the error of earlier work.
 */
#include "driver/driver.h"

/*
 * Refuse the legacy stream, before anything else is checked, and stream 0 in the _ptsz forms, too. NVIDIA's
 * driver did both in the recording.
 */
static CUresult not_legacy(CUstream stream, size_t *fail_index)
{
	if (stream && stream != CU_STREAM_LEGACY)
		return CUDA_SUCCESS;
	if (fail_index)
		*fail_index = SIZE_MAX;		/* the error is about no copy */
	return CUDA_ERROR_INVALID_VALUE;
}

/**
 * cuMemcpyBatchAsync_v2 - linear copies
 * @dsts: @count addresses to copy to
 * @srcs: @count addresses to copy from
 * @sizes: @count sizes in bytes, not 0
 * @count: the number of copies, not 0
 * @attrs: @attr_count descriptions of how to copy
 * @attr_indices: for each of @attrs, the first copy that it applies to: 0, then rising, below @count
 * @attr_count: not 0, at most @count
 * @stream: not the legacy stream
 *
 * Follows "Memory Management"; the rules and errors are above.
 */
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
			       CUmemcpyAttributes *attrs, size_t *attr_indices, size_t attr_count,
			       CUstream stream)
{
	CALL_INSIDE_AFTER(not_legacy(stream, NULL),
			  copy_batch(dsts, srcs, sizes, count, attrs, attr_indices, attr_count,
				     NULL, stream),
			  dsts, srcs, sizes, count, attrs, attr_indices, attr_count, stream);
}

/** cuMemcpyBatchAsync_v2_ptsz - the same */
CUresult cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
				    size_t count, CUmemcpyAttributes *attrs, size_t *attr_indices,
				    size_t attr_count, CUstream stream)
{
	CALL_INSIDE_AFTER(not_legacy(stream, NULL),
			  copy_batch(dsts, srcs, sizes, count, attrs, attr_indices, attr_count,
				     NULL, stream),
			  dsts, srcs, sizes, count, attrs, attr_indices, attr_count, stream);
}

/** cuMemcpyBatchAsync - CUDA 12's form, with the failing copy's index in @fail_index */
CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
			    CUmemcpyAttributes *attrs, size_t *attr_indices, size_t attr_count,
			    size_t *fail_index, CUstream stream)
{
	CALL_INSIDE_AFTER(not_legacy(stream, fail_index),
			  copy_batch(dsts, srcs, sizes, count, attrs, attr_indices, attr_count,
				     fail_index, stream),
			  dsts, srcs, sizes, count, attrs, attr_indices, attr_count, fail_index,
			  stream);
}

/** cuMemcpyBatchAsync_ptsz - the same */
CUresult cuMemcpyBatchAsync_ptsz(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
				 CUmemcpyAttributes *attrs, size_t *attr_indices,
				 size_t attr_count, size_t *fail_index, CUstream stream)
{
	CALL_INSIDE_AFTER(not_legacy(stream, fail_index),
			  copy_batch(dsts, srcs, sizes, count, attrs, attr_indices, attr_count,
				     fail_index, stream),
			  dsts, srcs, sizes, count, attrs, attr_indices, attr_count, fail_index,
			  stream);
}

/**
 * cuMemcpy3DBatchAsync_v2 - copies of boxes
 * @op_count: the number of copies, not 0
 * @ops: the copies. Extents and offsets into arrays are in elements, rows and slices, rowLength is in
 *	elements and layerHeight in rows. A rowLength or layerHeight of 0 means the extent's; any other
 *	must not be less than the extent's
 * @flags: 0
 * @stream: not the legacy stream
 *
 * Follows "Memory Management"; the rules and errors are above. An element is an element of the array or, if
 * no end is an array, a byte. Elements of two arrays must be of the same size. A NULL array is INVALID_VALUE, a
 * destroyed array INVALID_HANDLE.
 */
CUresult cuMemcpy3DBatchAsync_v2(size_t op_count, CUDA_MEMCPY3D_BATCH_OP *ops,
				 unsigned long long flags, CUstream stream)
{
	CALL_INSIDE_AFTER(not_legacy(stream, NULL),
			  copy_batch_3d(op_count, ops, NULL, flags, stream), op_count, ops, flags,
			  stream);
}

/** cuMemcpy3DBatchAsync_v2_ptsz - the same */
CUresult cuMemcpy3DBatchAsync_v2_ptsz(size_t op_count, CUDA_MEMCPY3D_BATCH_OP *ops,
				      unsigned long long flags, CUstream stream)
{
	CALL_INSIDE_AFTER(not_legacy(stream, NULL),
			  copy_batch_3d(op_count, ops, NULL, flags, stream), op_count, ops, flags,
			  stream);
}

/** cuMemcpy3DBatchAsync - CUDA 12's form, with the failing copy's index in @fail_index */
CUresult cuMemcpy3DBatchAsync(size_t op_count, CUDA_MEMCPY3D_BATCH_OP *ops, size_t *fail_index,
			      unsigned long long flags, CUstream stream)
{
	CALL_INSIDE_AFTER(not_legacy(stream, fail_index),
			  copy_batch_3d(op_count, ops, fail_index, flags, stream), op_count, ops,
			  fail_index, flags, stream);
}

/** cuMemcpy3DBatchAsync_ptsz - the same */
CUresult cuMemcpy3DBatchAsync_ptsz(size_t op_count, CUDA_MEMCPY3D_BATCH_OP *ops,
				   size_t *fail_index, unsigned long long flags, CUstream stream)
{
	CALL_INSIDE_AFTER(not_legacy(stream, fail_index),
			  copy_batch_3d(op_count, ops, fail_index, flags, stream), op_count, ops,
			  fail_index, flags, stream);
}

static CUresult copy_alone(CUdeviceptr dst, CUdeviceptr src, size_t size,
			   const CUmemcpyAttributes *attr, CUstream stream)
{
	const size_t first = 0;

	return copy_batch(&dst, &src, &size, 1, attr, &first, 1, NULL, stream);
}

/* The stream of a single copy, which may be stream 0 of either form: the documentation excludes none. */
static CUstream stream_alone(CUstream stream, CUstream zero)
{
	return stream ? stream : zero;
}

/**
 * cuMemcpyWithAttributesAsync - cuMemcpyBatchAsync() of one copy
 * @attr: how to copy
 * @stream: any; 0 is the legacy stream
 *
 * Since CUDA 13.2; documented, not measured.
 */
CUresult cuMemcpyWithAttributesAsync(CUdeviceptr dst, CUdeviceptr src, size_t size,
				     CUmemcpyAttributes *attr, CUstream stream)
{
	CALL_INSIDE(copy_alone(dst, src, size, attr, stream_alone(stream, CU_STREAM_LEGACY)), dst, src, size, attr, stream);
}

/** cuMemcpyWithAttributesAsync_ptsz - the same; stream 0 is the thread's own */
CUresult cuMemcpyWithAttributesAsync_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t size,
					  CUmemcpyAttributes *attr, CUstream stream)
{
	CALL_INSIDE(copy_alone(dst, src, size, attr, stream_alone(stream, CU_STREAM_PER_THREAD)),
		    dst, src, size, attr, stream);
}

/** cuMemcpy3DWithAttributesAsync - cuMemcpy3DBatchAsync() of one copy; documented, not measured */
CUresult cuMemcpy3DWithAttributesAsync(CUDA_MEMCPY3D_BATCH_OP *op, unsigned long long flags,
				       CUstream stream)
{
	CALL_INSIDE(copy_batch_3d(1, op, NULL, flags, stream_alone(stream, CU_STREAM_LEGACY)), op, flags, stream);
}

/** cuMemcpy3DWithAttributesAsync_ptsz - the same; stream 0 is the thread's own */
CUresult cuMemcpy3DWithAttributesAsync_ptsz(CUDA_MEMCPY3D_BATCH_OP *op, unsigned long long flags,
					    CUstream stream)
{
	CALL_INSIDE(copy_batch_3d(1, op, NULL, flags, stream_alone(stream, CU_STREAM_PER_THREAD)), op, flags, stream);
}

/**
 * cuMemBatchDecompressAsync - decompress several buffers in stream order
 * @params: @count operations
 * @count: not 0
 * @flags: 0
 * @error_index: receives, on failure, the index of the operation that the error is about, or SIZE_MAX; may be NULL
 * @stream: any; 0 is the legacy stream
 *
 * The input of an operation is srcNumBytes (not 0) bytes at src: raw deflate (RFC 1951), snappy or LZ4 block
 * data. The operation writes the output to dst, and the output's length in bytes to the address dstActBytes, a
 * multiple of 4. The output must not exceed dstNumBytes or, if dstNumBytes is 0, the rest of dst's allocation.
 * Neither srcNumBytes nor dstNumBytes may be larger than MEM_DECOMPRESS_MAXIMUM_LENGTH. All three addresses must
 * be in memory whose attribute IS_HW_DECOMPRESS_CAPABLE is 1, and each range must lie inside one allocation.
 *
 * Follows "Memory Management". An operation whose data is bad, or whose output exceeds the room, fails alone: it
 * stores 0 at dstActBytes and nothing at dst. A deflate stream ends with its last block, and bytes behind that
 * block are ignored. Data of the other algorithms must end at srcNumBytes.
 *
 * Return: INVALID_VALUE for wrong arguments; NOT_SUPPORTED for an algorithm whose library is not
 * installed. If no algorithm's library is installed, every call returns NOT_SUPPORTED and does not write
 * @error_index.
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
