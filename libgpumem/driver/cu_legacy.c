// SPDX-License-Identifier: MIT
/*
 * Copies and fills of the first API: addresses and sizes of 32 bits.
 *
 * Thin: each function does what its successor in cu_memcpy.c does. No device memory has an address below 4 GiB,
 * so these functions cannot name any. With a size that is not 0 they return INVALID_VALUE, except for a copy
 * from host to host in 2D and 3D. They exist because programs look their names up.
 */
#include "driver/driver.h"
#include "driver/forms.h"

/** cuMemcpyDtoD - device to device */
CUresult cuMemcpyDtoD(CUdeviceptr_v1 dst, CUdeviceptr_v1 src, unsigned int bytes)
{
	CALL(copy_linear(dst, DEV, src, DEV, bytes, NULL, CALL_SYNC), dst, src, bytes);
}

/** cuMemcpyDtoH - device to host */
CUresult cuMemcpyDtoH(void *dst_host, CUdeviceptr_v1 src, unsigned int bytes)
{
	CALL(copy_linear(host_address(dst_host), NAMED, src, DEV, bytes, NULL,
			 CALL_SYNC | CALL_WAIT), dst_host, src, bytes);
}

/** cuMemcpyHtoD - host to device */
CUresult cuMemcpyHtoD(CUdeviceptr_v1 dst, const void *src_host, unsigned int bytes)
{
	CALL(copy_linear(dst, DEV, host_address(src_host), NAMED, bytes, NULL,
			 CALL_SYNC | CALL_WAIT), dst, src_host, bytes);
}

#define SIDE_2D(c, side)							\
	.side ## XInBytes = (c)->side ## XInBytes, .side ## Y = (c)->side ## Y,	\
	.side ## MemoryType = (c)->side ## MemoryType,				\
	.side ## Host = (c)->side ## Host, .side ## Device = (c)->side ## Device,\
	.side ## Array = (c)->side ## Array, .side ## Pitch = (c)->side ## Pitch

static CUresult old_2d(const CUDA_MEMCPY2D_v1 *c, CUstream stream, unsigned int flags)
{
	if (!c)
		return copy_2d(NULL, stream, flags);
	return copy_2d(&(const CUDA_MEMCPY2D){ SIDE_2D(c, src), SIDE_2D(c, dst),
					       .WidthInBytes = c->WidthInBytes,
					       .Height = c->Height }, stream, flags);
}

static CUresult old_3d(const CUDA_MEMCPY3D_v1 *c, CUstream stream, unsigned int flags)
{
	if (!c)
		return copy_3d(NULL, stream, flags);
	return copy_3d(&(const CUDA_MEMCPY3D){ SIDE_2D(c, src), SIDE_2D(c, dst),
					       .srcZ = c->srcZ, .srcHeight = c->srcHeight,
					       .dstZ = c->dstZ, .dstHeight = c->dstHeight,
					       .WidthInBytes = c->WidthInBytes,
					       .Height = c->Height, .Depth = c->Depth },
		       stream, flags);
}

/** cuMemcpy2D - rows */
CUresult cuMemcpy2D(const CUDA_MEMCPY2D_v1 *copy)
{
	CALL(old_2d(copy, NULL, CALL_SYNC), copy);
}

/** cuMemcpy2DUnaligned - rows */
CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D_v1 *copy)
{
	CALL(old_2d(copy, NULL, CALL_SYNC), copy);
}

/** cuMemcpy3D - slices of rows */
CUresult cuMemcpy3D(const CUDA_MEMCPY3D_v1 *copy)
{
	CALL(old_3d(copy, NULL, CALL_SYNC), copy);
}

/** cuMemcpy2DAsync - rows, in stream order */
CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D_v1 *copy, CUstream stream)
{
	CALL(old_2d(copy, stream, 0), copy, stream);
}

/** cuMemcpy3DAsync - slices of rows, in stream order */
CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D_v1 *copy, CUstream stream)
{
	CALL(old_3d(copy, stream, 0), copy, stream);
}

/** cuMemsetD8 - fill with 8 bits */
CUresult cuMemsetD8(CUdeviceptr_v1 dst, unsigned char value, unsigned int count)
{
	CALL(fill_linear(dst, value, 1, count, NULL, CALL_SYNC), dst, value, count);
}

/** cuMemsetD2D8 - fill rows with 8 bits */
CUresult cuMemsetD2D8(CUdeviceptr_v1 dst, unsigned int dst_pitch, unsigned char value,
			 unsigned int width, unsigned int height)
{
	CALL(fill_2d(dst, dst_pitch, value, 1, width, height, NULL, CALL_SYNC), dst, dst_pitch,
	     value, width, height);
}

/** cuMemsetD16 - fill with 16 bits */
CUresult cuMemsetD16(CUdeviceptr_v1 dst, unsigned short value, unsigned int count)
{
	CALL(fill_linear(dst, value, 2, count, NULL, CALL_SYNC), dst, value, count);
}

/** cuMemsetD2D16 - fill rows with 16 bits */
CUresult cuMemsetD2D16(CUdeviceptr_v1 dst, unsigned int dst_pitch, unsigned short value,
			  unsigned int width, unsigned int height)
{
	CALL(fill_2d(dst, dst_pitch, value, 2, width, height, NULL, CALL_SYNC), dst, dst_pitch,
	     value, width, height);
}

/** cuMemsetD32 - fill with 32 bits */
CUresult cuMemsetD32(CUdeviceptr_v1 dst, unsigned int value, unsigned int count)
{
	CALL(fill_linear(dst, value, 4, count, NULL, CALL_SYNC), dst, value, count);
}

/** cuMemsetD2D32 - fill rows with 32 bits */
CUresult cuMemsetD2D32(CUdeviceptr_v1 dst, unsigned int dst_pitch, unsigned int value,
			  unsigned int width, unsigned int height)
{
	CALL(fill_2d(dst, dst_pitch, value, 4, width, height, NULL, CALL_SYNC), dst, dst_pitch,
	     value, width, height);
}
