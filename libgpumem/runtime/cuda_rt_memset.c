// SPDX-License-Identifier: MIT
/*
 * The runtime API's chapter "Memory Management": fills.
 *
 * Owns nothing. The value is a byte, whatever the type of the argument; counts and widths are in bytes.
 * Fills of device memory return without waiting. A fill of no bytes succeeds.
 */
#include "runtime/runtime.h"

/** cudaMemset - fill with a byte; cudaErrorInvalidValue if the range is not in one allocation */
RT_PTDS(cudaMemset, (void *ptr, int value, size_t count),
	rt_code(DS(cuMemsetD8_v2)(rt_addr(ptr), (unsigned char)value, count)))

/** cudaMemsetAsync - the same in stream order */
RT_PTSZ(cudaMemsetAsync, (void *ptr, int value, size_t count, cudaStream_t stream),
	rt_code(SZ(cuMemsetD8Async)(rt_addr(ptr), (unsigned char)value, count, stream)))

/** cudaMemset2D - fill @height rows of @width bytes */
RT_PTDS(cudaMemset2D, (void *ptr, size_t pitch, int value, size_t width, size_t height),
	rt_code(DS(cuMemsetD2D8_v2)(rt_addr(ptr), pitch, (unsigned char)value, width, height)))

/** cudaMemset2DAsync - the same in stream order */
RT_PTSZ(cudaMemset2DAsync, (void *ptr, size_t pitch, int value, size_t width, size_t height,
			    cudaStream_t stream),
	rt_code(SZ(cuMemsetD2D8Async)(rt_addr(ptr), pitch, (unsigned char)value, width, height,
				      stream)))

/*
 * Fill a box. If its slices follow each other without a gap, one 2D fill does it. Otherwise each slice is
 * a fill, which the driver checks separately: slices before one that is not in the allocation are filled.
 */
static cudaError_t rt_fill_3d(struct cudaPitchedPtr p, int value, struct cudaExtent e,
			      cudaStream_t stream, bool sync, bool own)
{
	CUdeviceptr addr = rt_addr(p.ptr);
	size_t rows = e.height, slices = e.depth, stride, all;
	CUresult result = CUDA_SUCCESS;

	if (!e.width || !e.height || !e.depth)
		return cudaSuccess;
	if (e.height > p.ysize && e.depth > 1)
		return cudaErrorInvalidValue;
	if (__builtin_mul_overflow(p.pitch, p.ysize, &stride))
		return cudaErrorInvalidValue;
	if (e.height == p.ysize && !__builtin_mul_overflow(e.height, e.depth, &all)) {
		rows = all;
		slices = 1;
	}
	for (; !result && slices; slices--, addr += stride)
		result = sync ? DS(cuMemsetD2D8_v2)(addr, p.pitch, (unsigned char)value, e.width,
						    rows) :
			SZ(cuMemsetD2D8Async)(addr, p.pitch, (unsigned char)value, e.width, rows,
					      stream);
	return rt_code(result);
}

/** cudaMemset3D - fill a box; a slice begins @ptr.ysize rows behind the previous one */
RT_PTDS(cudaMemset3D, (struct cudaPitchedPtr ptr, int value, struct cudaExtent extent),
	rt_fill_3d(ptr, value, extent, NULL, true, own))

/** cudaMemset3DAsync - the same in stream order */
RT_PTSZ(cudaMemset3DAsync, (struct cudaPitchedPtr ptr, int value, struct cudaExtent extent,
			    cudaStream_t stream),
	rt_fill_3d(ptr, value, extent, stream, false, own))
