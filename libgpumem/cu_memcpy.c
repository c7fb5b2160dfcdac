// SPDX-License-Identifier: MIT
/*
 * The API's chapter "Memory Management": copies and fills.
 *
 * Thin: what is behind it is in memcpy.c, box.c and memset.c.
 *
 * Functions without a stream use the legacy stream, their _ptds forms the calling thread's own. In
 * _ptsz forms stream 0 is the calling thread's own.
 *
 * Rules that hold for all of them: a size of 0 succeeds whatever the addresses are, with a context.
 * A range must lie inside one allocation as it was asked for, else INVALID_VALUE, and nothing is
 * copied. Where a host address is expected an address of device memory serves, too, but not the
 * other way round. Of pageable memory an asynchronous copy has read what it reads when the call
 * returns, and written what it writes; pinned and registered memory takes part in stream order.
 * Device to device copies and fills return without waiting. Overlapping copies work like memmove().
 *
 * Common errors: INVALID_CONTEXT for the default streams without a context, INVALID_HANDLE for a
 * destroyed stream, INVALID_VALUE, and the error of earlier work.
 */
#include "copy.h"
#include "internal.h"

#define DEV	END_DEVICE
#define ANY	(END_DEVICE | END_HOST)

/* The legacy form and the form in which the calling thread's own stream is meant. */
#define SYNC(name, suffix, args, call, ...)				\
	CUresult name args						\
	{								\
		const unsigned int flags = CALL_SYNC;			\
									\
		CALL(call, __VA_ARGS__);					\
	}								\
	CUresult name ## suffix args					\
	{								\
		const unsigned int flags = CALL_SYNC | CALL_OWN;	\
									\
		CALL(call, __VA_ARGS__);					\
	}
#define ASYNC(name, args, call, ...)					\
	CUresult name args						\
	{								\
		const unsigned int flags = 0;				\
									\
		CALL_INSIDE(call, __VA_ARGS__);					\
	}								\
	CUresult name ## _ptsz args					\
	{								\
		const unsigned int flags = CALL_OWN;			\
									\
		CALL_INSIDE(call, __VA_ARGS__);					\
	}

static inline uint64_t host(const void *ptr)
{
	return (uintptr_t)ptr;
}

/* ---- linear copies; sizes are bytes */

/** cuMemcpy - between any two addresses; waits for the copy if an end is host memory */
SYNC(cuMemcpy, _ptds, (CUdeviceptr dst, CUdeviceptr src, size_t bytes),
     copy_linear(dst, ANY, src, ANY, bytes, NULL, flags), dst, src, bytes)

/** cuMemcpyDtoD_v2 - device to device; returns at once */
SYNC(cuMemcpyDtoD_v2, _ptds, (CUdeviceptr dst, CUdeviceptr src, size_t bytes),
     copy_linear(dst, DEV, src, DEV, bytes, NULL, flags), dst, src, bytes)

/** cuMemcpyDtoH_v2 - device to host; returns when it is done */
SYNC(cuMemcpyDtoH_v2, _ptds, (void *dst_host, CUdeviceptr src, size_t bytes),
     copy_linear(host(dst_host), ANY, src, DEV, bytes, NULL, flags | CALL_WAIT), dst_host, src,
     bytes)

/** cuMemcpyHtoD_v2 - host to device; returns when it is done */
SYNC(cuMemcpyHtoD_v2, _ptds, (CUdeviceptr dst, const void *src_host, size_t bytes),
     copy_linear(dst, DEV, host(src_host), ANY, bytes, NULL, flags | CALL_WAIT), dst, src_host,
     bytes)

/** cuMemcpyAsync - between any two addresses */
ASYNC(cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream),
      copy_linear(dst, ANY, src, ANY, bytes, stream, flags), dst, src, bytes, stream)

/* What is not easy is called last, with all arguments in place. */
static __attribute__((noinline)) CUresult dtod_async(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
						     CUstream stream, unsigned int flags)
{
	CALL_INSIDE_AS("cuMemcpyDtoDAsync_v2", copy_dtod_async(dst, src, bytes, stream, flags), dst,
		       src, bytes, stream);
}

/* The same with the stream's lock held, which is given back. */
static __attribute__((noinline)) CUresult dtod_async_locked(CUdeviceptr dst, CUdeviceptr src,
							    size_t bytes, CUstream stream,
							    unsigned int flags)
{
	lock_drop(&stream->lock);
	return dtod_async(dst, src, bytes, stream, flags);
}

#define DTOD_ASYNC(name, flags)							\
	CUresult name(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) \
	{									\
		if (not_initialized() || !copy_begin(dst, src, bytes, stream))	\
			return dtod_async(dst, src, bytes, stream, flags);	\
		if (unlikely(!stream_easy(stream)))				\
			return dtod_async_locked(dst, src, bytes, stream, flags); \
		return copy_finish(dst, src, bytes, stream);			\
	}

/** cuMemcpyDtoDAsync_v2 - device to device */
DTOD_ASYNC(cuMemcpyDtoDAsync_v2, 0)

/** cuMemcpyDtoDAsync_v2_ptsz - the same; stream 0 is the calling thread's own */
DTOD_ASYNC(cuMemcpyDtoDAsync_v2_ptsz, CALL_OWN)

/** cuMemcpyDtoHAsync_v2 - device to host */
ASYNC(cuMemcpyDtoHAsync_v2, (void *dst_host, CUdeviceptr src, size_t bytes, CUstream stream),
      copy_linear(host(dst_host), ANY, src, DEV, bytes, stream, flags), dst_host, src, bytes,
      stream)

/** cuMemcpyHtoDAsync_v2 - host to device */
ASYNC(cuMemcpyHtoDAsync_v2, (CUdeviceptr dst, const void *src_host, size_t bytes, CUstream stream),
      copy_linear(dst, DEV, host(src_host), ANY, bytes, stream, flags), dst, src_host, bytes,
      stream)

/** cuMemcpyDtoDAsync - the first API's form, with addresses of 32 bits */
CUresult cuMemcpyDtoDAsync(CUdeviceptr_v1 dst, CUdeviceptr_v1 src, unsigned int bytes,
			   CUstream stream)
{
	CALL(copy_linear(dst, DEV, src, DEV, bytes, stream, 0));
}

/** cuMemcpyDtoHAsync - the first API's form, with addresses of 32 bits */
CUresult cuMemcpyDtoHAsync(void *dst_host, CUdeviceptr_v1 src, unsigned int bytes, CUstream stream)
{
	CALL(copy_linear(host(dst_host), ANY, src, DEV, bytes, stream, 0), dst_host, src, bytes,
	     stream);
}

/** cuMemcpyHtoDAsync - the first API's form, with addresses of 32 bits */
CUresult cuMemcpyHtoDAsync(CUdeviceptr_v1 dst, const void *src_host, unsigned int bytes,
			   CUstream stream)
{
	CALL(copy_linear(dst, DEV, host(src_host), ANY, bytes, stream, 0), dst, src_host, bytes,
	     stream);
}

/*
 * ---- copies between contexts
 *
 * Devices and contexts of a process share one address space, so the contexts named say nothing that
 * the addresses do not. They are not looked at, and no context need be current.
 */

/** cuMemcpyPeer - device to device, after all work of other contexts that own the memory */
SYNC(cuMemcpyPeer, _ptds, (CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
			   CUcontext src_context, size_t bytes),
     ((void)dst_context, (void)src_context,
      copy_linear(dst, DEV, src, DEV, bytes, NULL, flags | CALL_PEER | CALL_WAIT)), dst,
     dst_context, src, src_context, bytes)

/** cuMemcpyPeerAsync - device to device, in stream order */
ASYNC(cuMemcpyPeerAsync, (CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
			  CUcontext src_context, size_t bytes, CUstream stream),
      ((void)dst_context, (void)src_context,
       copy_linear(dst, DEV, src, DEV, bytes, stream, flags | CALL_PEER)), dst, dst_context, src,
      src_context, bytes, stream)

/*
 * ---- 2D copies
 *
 * A pitch of 0 means that rows follow each other without a gap, offset included. Otherwise it must
 * be WidthInBytes + XInBytes or more, and at most 0x7fffffff, unless it is that of host memory and
 * Height is 1. Any alignment works. Of an array neither pitch nor height is looked at; what lies
 * behind its rows' ends is INVALID_VALUE (box.c).
 */

/** cuMemcpy2D_v2 - rows; waits as the linear copies do */
SYNC(cuMemcpy2D_v2, _ptds, (const CUDA_MEMCPY2D *copy),
     copy_2d(copy, NULL, flags), copy)

/** cuMemcpy2DUnaligned_v2 - the same */
SYNC(cuMemcpy2DUnaligned_v2, _ptds, (const CUDA_MEMCPY2D *copy),
     copy_2d(copy, NULL, flags), copy)

/** cuMemcpy2DAsync_v2 - rows, in stream order */
ASYNC(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *copy, CUstream stream),
      copy_2d(copy, stream, flags), copy, stream)

/*
 * ---- 3D copies
 *
 * As 2D copies. A height of 0 means that slices follow each other without a gap, offset included,
 * else it must be Height + Y or more. Reserved members are ignored; LOD is, too, but must be 0 where
 * an array takes part.
 */

/** cuMemcpy3D_v2 - slices of rows; waits as the linear copies do */
SYNC(cuMemcpy3D_v2, _ptds, (const CUDA_MEMCPY3D *copy),
     copy_3d(copy, NULL, flags), copy)

/** cuMemcpy3DAsync_v2 - slices of rows, in stream order */
ASYNC(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *copy, CUstream stream),
      copy_3d(copy, stream, flags), copy, stream)

/** cuMemcpy3DPeer - the same between contexts, as cuMemcpyPeer() */
SYNC(cuMemcpy3DPeer, _ptds, (const CUDA_MEMCPY3D_PEER *copy),
     copy_3d_peer(copy, NULL, flags | CALL_WAIT), copy)

/** cuMemcpy3DPeerAsync - the same between contexts, in stream order */
ASYNC(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER *copy, CUstream stream),
      copy_3d_peer(copy, stream, flags), copy, stream)

/* ---- fills: @count values, @dst aligned to one */

/** cuMemsetD8_v2 - fill with 8 bits; returns at once */
SYNC(cuMemsetD8_v2, _ptds, (CUdeviceptr dst, unsigned char value, size_t count),
     fill_linear(dst, value, 1, count, NULL, flags), dst, value, count)

/** cuMemsetD8Async - fill with 8 bits */
ASYNC(cuMemsetD8Async, (CUdeviceptr dst, unsigned char value, size_t count, CUstream stream),
      fill_linear(dst, value, 1, count, stream, flags), dst, value, count, stream)

/** cuMemsetD16_v2 - fill with 16 bits; returns at once */
SYNC(cuMemsetD16_v2, _ptds, (CUdeviceptr dst, unsigned short value, size_t count),
     fill_linear(dst, value, 2, count, NULL, flags), dst, value, count)

/** cuMemsetD16Async - fill with 16 bits */
ASYNC(cuMemsetD16Async, (CUdeviceptr dst, unsigned short value, size_t count, CUstream stream),
      fill_linear(dst, value, 2, count, stream, flags), dst, value, count, stream)

/** cuMemsetD32_v2 - fill with 32 bits; returns at once */
SYNC(cuMemsetD32_v2, _ptds, (CUdeviceptr dst, unsigned int value, size_t count),
     fill_linear(dst, value, 4, count, NULL, flags), dst, value, count)

/** cuMemsetD32Async - fill with 32 bits */
ASYNC(cuMemsetD32Async, (CUdeviceptr dst, unsigned int value, size_t count, CUstream stream),
      fill_linear(dst, value, 4, count, stream, flags), dst, value, count, stream)

/*
 * ---- 2D fills
 *
 * @height rows of @width values. @dst_pitch is a multiple of a value's size and not less than a
 * row's; it is ignored if there is one row.
 */

/** cuMemsetD2D8_v2 - fill with 8 bits; returns at once */
SYNC(cuMemsetD2D8_v2, _ptds, (CUdeviceptr dst, size_t dst_pitch, unsigned char value,
				size_t width, size_t height),
     fill_2d(dst, dst_pitch, value, 1, width, height, NULL, flags), dst, dst_pitch, value, width,
     height)

/** cuMemsetD2D8Async - fill with 8 bits */
ASYNC(cuMemsetD2D8Async, (CUdeviceptr dst, size_t dst_pitch, unsigned char value, size_t width,
			   size_t height, CUstream stream),
      fill_2d(dst, dst_pitch, value, 1, width, height, stream, flags), dst, dst_pitch, value,
      width, height, stream)

/** cuMemsetD2D16_v2 - fill with 16 bits; returns at once */
SYNC(cuMemsetD2D16_v2, _ptds, (CUdeviceptr dst, size_t dst_pitch, unsigned short value,
				 size_t width, size_t height),
     fill_2d(dst, dst_pitch, value, 2, width, height, NULL, flags), dst, dst_pitch, value, width,
     height)

/** cuMemsetD2D16Async - fill with 16 bits */
ASYNC(cuMemsetD2D16Async, (CUdeviceptr dst, size_t dst_pitch, unsigned short value, size_t width,
			   size_t height, CUstream stream),
      fill_2d(dst, dst_pitch, value, 2, width, height, stream, flags), dst, dst_pitch, value,
      width, height, stream)

/** cuMemsetD2D32_v2 - fill with 32 bits; returns at once */
SYNC(cuMemsetD2D32_v2, _ptds, (CUdeviceptr dst, size_t dst_pitch, unsigned int value,
				 size_t width, size_t height),
     fill_2d(dst, dst_pitch, value, 4, width, height, NULL, flags), dst, dst_pitch, value, width,
     height)

/** cuMemsetD2D32Async - fill with 32 bits */
ASYNC(cuMemsetD2D32Async, (CUdeviceptr dst, size_t dst_pitch, unsigned int value, size_t width,
			   size_t height, CUstream stream),
      fill_2d(dst, dst_pitch, value, 4, width, height, stream, flags), dst, dst_pitch, value,
      width, height, stream)
