// SPDX-License-Identifier: MIT
/*
 * The API's chapter "Memory Management": copies and fills.
 *
 * Thin: memcpy.c, box.c and memset.c of copy/ implement it.
 *
 * Functions without a stream argument use the legacy stream, their _ptds forms the calling thread's own. In
 * _ptsz forms stream 0 is the calling thread's own.
 *
 * Rules for all functions of this file: with a context, a size of 0 succeeds whatever the addresses are. A range
 * must lie inside the size that the program asked for of one allocation; otherwise the result is INVALID_VALUE,
 * and nothing is copied. An address of device memory is accepted where a host address is expected, but not the
 * other way round. An asynchronous copy returns after it has read its pageable source, or written its pageable
 * destination. Copies of pinned and registered memory are done in stream order. Device to device copies and
 * fills return without waiting. Overlapping copies work like memmove().
 *
 * Common errors: INVALID_CONTEXT for the default streams without a context, INVALID_HANDLE for a
 * destroyed stream, INVALID_VALUE, and the error of earlier work.
 */
#include "driver/driver.h"
#include "driver/forms.h"
#include "copy/plain_copy.h"

/* ---- linear copies; sizes are bytes */

/** cuMemcpy - between any two addresses; waits for the copy if an end is host memory */
COPY_FORMS(cuMemcpy, (CUdeviceptr dst, CUdeviceptr src, size_t bytes),
	   copy_linear(dst, ANY, src, ANY, bytes, NULL, flags), dst, src, bytes)

/** cuMemcpyDtoD_v2 - device to device; returns at once */
COPY_FORMS(cuMemcpyDtoD_v2, (CUdeviceptr dst, CUdeviceptr src, size_t bytes),
	   copy_linear(dst, DEV, src, DEV, bytes, NULL, flags), dst, src, bytes)

/** cuMemcpyDtoH_v2 - device to host; returns when it is done */
COPY_FORMS(cuMemcpyDtoH_v2, (void *dst_host, CUdeviceptr src, size_t bytes),
	   copy_linear(host_address(dst_host), NAMED, src, DEV, bytes, NULL, flags | CALL_WAIT),
	   dst_host, src, bytes)

/** cuMemcpyHtoD_v2 - host to device; returns when it is done */
COPY_FORMS(cuMemcpyHtoD_v2, (CUdeviceptr dst, const void *src_host, size_t bytes),
	   copy_linear(dst, DEV, host_address(src_host), NAMED, bytes, NULL, flags | CALL_WAIT), dst,
	   src_host, bytes)

/** cuMemcpyAsync - between any two addresses */
COPY_FORMS_ASYNC(cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream),
		 copy_async(dst, src, bytes, stream, flags), dst, src, bytes, stream)

/* The slow path. A tail call, with the caller's arguments in the same registers. */
static __attribute__((noinline)) CUresult dtod_async(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
						     CUstream stream, unsigned int flags)
{
	CALL_INSIDE_AS(flags & CALL_OWN ? "cuMemcpyDtoDAsync_v2_ptsz" : "cuMemcpyDtoDAsync_v2",
		       copy_dtod_async(dst, src, bytes, stream, flags), dst, src, bytes, stream);
}

/* dtod_async() with the stream's lock held, which the function drops. */
static __attribute__((noinline)) CUresult dtod_async_locked(CUdeviceptr dst, CUdeviceptr src,
							    size_t bytes, CUstream stream,
							    unsigned int flags)
{
	lock_drop(&stream->lock);
	return dtod_async(dst, src, bytes, stream, flags);
}

/* A copy between plain and resident memory, after copy_short(). Without calls it has to save few registers. */
static __attribute__((noinline, flatten)) CUresult dtod_mixed(CUdeviceptr dst, CUdeviceptr src, size_t bytes,
							      CUstream stream, unsigned int flags)
{
	if (!near_begin(stream))
		return dtod_async(dst, src, bytes, stream, flags);
	if (unlikely(!stream_idle_fast(stream)) || !near_mixed(dst, src, bytes, stream))
		return dtod_async_locked(dst, src, bytes, stream, flags);
	return near_finish(dst, src, bytes, stream);
}

/* name ## _near: a tail call again, for managed memory. It has no flags, to need fewer registers. */
#define DTOD_ASYNC(name, flags)							\
	static __attribute__((noinline)) CUresult name ## _near(CUdeviceptr dst, CUdeviceptr src, \
								size_t bytes, CUstream stream) \
	{									\
		if (!near_slots(dst, src, bytes))				\
			return dtod_mixed(dst, src, bytes, stream, (flags) | CALL_FAR); 	\
		if (!near_begin(stream))					\
			return dtod_async(dst, src, bytes, stream, (flags) | CALL_FAR); 	\
		if (unlikely(!stream_idle_fast(stream)) || !near_now(dst, src, stream)) \
			return dtod_async_locked(dst, src, bytes, stream, (flags) | CALL_FAR); \
		return near_finish(dst, src, bytes, stream);			\
	}									\
	CUresult name(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream) \
	{									\
		if (!quick() || !copy_short(dst, src, bytes, stream))		\
			return dtod_async(dst, src, bytes, stream, flags);	\
		if (unlikely(!vm_plain(dst, bytes)) || unlikely(!vm_plain(src, bytes))) \
			return name ## _near(dst, src, bytes, stream);		\
		if (unlikely(!lock_try(&stream->lock)))				\
			return dtod_async(dst, src, bytes, stream, flags);	\
		if (unlikely(!stream_idle_fast(stream)))			\
			return dtod_async_locked(dst, src, bytes, stream, flags); \
		return copy_finish(dst, src, bytes, stream);			\
	}

/** cuMemcpyDtoDAsync_v2 - device to device */
DTOD_ASYNC(cuMemcpyDtoDAsync_v2, 0)

/** cuMemcpyDtoDAsync_v2_ptsz - the same; stream 0 is the calling thread's own */
DTOD_ASYNC(cuMemcpyDtoDAsync_v2_ptsz, CALL_OWN)

/**
 * cuMemcpyDtoHAsync_v2 - device to host
 *
 * If the host's end is pageable or managed memory, the copy is done when the call returns. cuMemcpyAsync() does not
 * wait for a copy of managed memory.
 */
COPY_FORMS_ASYNC(cuMemcpyDtoHAsync_v2,
		 (void *dst_host, CUdeviceptr src, size_t bytes, CUstream stream),
		 copy_linear(host_address(dst_host), NAMED, src, DEV, bytes, stream, flags), dst_host,
		 src, bytes, stream)

/** cuMemcpyHtoDAsync_v2 - host to device; a copy of managed memory is done when the call returns */
COPY_FORMS_ASYNC(cuMemcpyHtoDAsync_v2,
		 (CUdeviceptr dst, const void *src_host, size_t bytes, CUstream stream),
		 copy_linear(dst, DEV, host_address(src_host), NAMED, bytes, stream, flags), dst,
		 src_host, bytes, stream)

/** cuMemcpyDtoDAsync - the first API's form, with addresses of 32 bits */
CUresult cuMemcpyDtoDAsync(CUdeviceptr_v1 dst, CUdeviceptr_v1 src, unsigned int bytes,
			   CUstream stream)
{
	CALL(copy_linear(dst, DEV, src, DEV, bytes, stream, 0), dst, src, bytes, stream);
}

/** cuMemcpyDtoHAsync - the first API's form, with addresses of 32 bits */
CUresult cuMemcpyDtoHAsync(void *dst_host, CUdeviceptr_v1 src, unsigned int bytes, CUstream stream)
{
	CALL(copy_linear(host_address(dst_host), NAMED, src, DEV, bytes, stream, 0), dst_host, src,
	     bytes, stream);
}

/** cuMemcpyHtoDAsync - the first API's form, with addresses of 32 bits */
CUresult cuMemcpyHtoDAsync(CUdeviceptr_v1 dst, const void *src_host, unsigned int bytes,
			   CUstream stream)
{
	CALL(copy_linear(dst, DEV, host_address(src_host), NAMED, bytes, stream, 0), dst, src_host,
	     bytes, stream);
}

/*
 * ---- copies between contexts
 *
 * Devices and contexts of a process share one address space, so the addresses alone determine the copy. The
 * contexts matter for two rules of the recorded driver. A context must be current unless the call names two
 * different contexts or a stream that was created. The device of the context that is named for an end must have
 * access to the pool that the end's memory belongs to.
 */

static bool peer_missing(CUcontext dst, CUcontext src)
{
	return (!dst || !src || dst == src) && !ctx_top();
}

/** cuMemcpyPeer - device to device; first waits for all work of the other contexts that own the memory */
COPY_FORMS(cuMemcpyPeer, (CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
			  CUcontext src_context, size_t bytes),
	   peer_missing(dst_context, src_context) ? CUDA_ERROR_INVALID_CONTEXT :
	   copy_between(dst, dst_context, src, src_context, bytes, NULL, flags | CALL_WAIT), dst,
	   dst_context, src, src_context, bytes)

/** cuMemcpyPeerAsync - device to device, in stream order */
COPY_FORMS_ASYNC(cuMemcpyPeerAsync, (CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
				     CUcontext src_context, size_t bytes, CUstream stream),
		 copy_between(dst, dst_context, src, src_context, bytes, stream, flags), dst,
		 dst_context, src, src_context, bytes, stream)

/*
 * ---- 2D copies
 *
 * A pitch of 0 stands for WidthInBytes + XInBytes: rows follow each other without a gap. Any other pitch must be
 * WidthInBytes + XInBytes or more, and at most 0x7fffffff, except that of host memory if Height is 1. Any
 * alignment works. Pitch and height of an array are ignored; a copy beyond the ends of the array's rows is
 * INVALID_VALUE (box.c).
 */

/** cuMemcpy2D_v2 - copy rows; waits as the linear copies do */
COPY_FORMS(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *copy), copy_2d(copy, NULL, flags), copy)

/** cuMemcpy2DUnaligned_v2 - the same */
COPY_FORMS(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *copy), copy_2d(copy, NULL, flags), copy)

/** cuMemcpy2DAsync_v2 - rows, in stream order */
COPY_FORMS_ASYNC(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *copy, CUstream stream),
		 copy_2d(copy, stream, flags), copy, stream)

/*
 * ---- 3D copies
 *
 * The rules of 2D copies hold. A srcHeight or dstHeight of 0 stands for Height + Y: slices follow each other
 * without a gap. Any other must be Height + Y or more. Reserved members are ignored. LOD must be 0 if an end is
 * an array, and is ignored otherwise.
 */

/** cuMemcpy3D_v2 - slices of rows; waits as the linear copies do */
COPY_FORMS(cuMemcpy3D_v2, (const CUDA_MEMCPY3D *copy), copy_3d(copy, NULL, flags), copy)

/** cuMemcpy3DAsync_v2 - slices of rows, in stream order */
COPY_FORMS_ASYNC(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *copy, CUstream stream),
		 copy_3d(copy, stream, flags), copy, stream)

/** cuMemcpy3DPeer - slices of rows between contexts; waits as cuMemcpyPeer() does */
COPY_FORMS(cuMemcpy3DPeer, (const CUDA_MEMCPY3D_PEER *copy),
	   copy && peer_missing(copy->dstContext, copy->srcContext) ? CUDA_ERROR_INVALID_CONTEXT :
	   copy_3d_peer(copy, NULL, flags | CALL_WAIT), copy)

/** cuMemcpy3DPeerAsync - slices of rows between contexts, in stream order */
COPY_FORMS_ASYNC(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER *copy, CUstream stream),
		 copy_3d_peer(copy, stream, flags), copy, stream)

/* ---- fills: @count values; @dst is a multiple of a value's size */

/*
 * Both forms of a fill with a stream argument, which host functions may call, too. Tail calls, as for copies:
 * name ## _far is the slow path, and name ## _near that of managed memory.
 */
#define FILL_ASYNC(name, type, elem, flags)					\
	static __attribute__((noinline)) CUresult name ## _far(CUdeviceptr dst, type value, size_t count, \
							       CUstream stream)	\
	{									\
		CALL_INSIDE_AS(#name, fill_linear(dst, value, elem, count, stream, flags), dst, value, count, \
			       stream);						\
	}									\
	static __attribute__((noinline)) CUresult name ## _locked(CUdeviceptr dst, type value, size_t count, \
								  CUstream stream) \
	{									\
		lock_drop(&stream->lock);					\
		return name ## _far(dst, value, count, stream);			\
	}									\
	static __attribute__((noinline)) CUresult name ## _near(CUdeviceptr dst, type value, size_t count, \
								CUstream stream) \
	{									\
		if (!near_fill_short(dst, (count) * (elem), elem, stream) || !near_begin(stream)) \
			return name ## _far(dst, value, count, stream);		\
		if (unlikely(!stream_idle_fast(stream)) || !near_fill_now(dst, stream)) \
			return name ## _locked(dst, value, count, stream);	\
		return near_fill_finish(dst, value, elem, (count) * (elem) / (elem), stream); \
	}									\
	CUresult name(CUdeviceptr dst, type value, size_t count, CUstream stream) \
	{									\
		return quick() && near_fill_slot(dst, (count) * (elem)) ?	\
			name ## _near(dst, value, count, stream) : name ## _far(dst, value, count, stream); \
	}
#define FILL_FORMS_ASYNC(name, type, elem)					\
	FILL_ASYNC(name, type, elem, 0)						\
	FILL_ASYNC(name ## _ptsz, type, elem, CALL_OWN)

/** cuMemsetD8_v2 - fill with 8 bits; returns at once */
COPY_FORMS(cuMemsetD8_v2, (CUdeviceptr dst, unsigned char value, size_t count),
	   fill_linear(dst, value, 1, count, NULL, flags), dst, value, count)

/** cuMemsetD8Async - fill with 8 bits */
FILL_FORMS_ASYNC(cuMemsetD8Async, unsigned char, 1)

/** cuMemsetD16_v2 - fill with 16 bits; returns at once */
COPY_FORMS(cuMemsetD16_v2, (CUdeviceptr dst, unsigned short value, size_t count),
	   fill_linear(dst, value, 2, count, NULL, flags), dst, value, count)

/** cuMemsetD16Async - fill with 16 bits */
FILL_FORMS_ASYNC(cuMemsetD16Async, unsigned short, 2)

/** cuMemsetD32_v2 - fill with 32 bits; returns at once */
COPY_FORMS(cuMemsetD32_v2, (CUdeviceptr dst, unsigned int value, size_t count),
	   fill_linear(dst, value, 4, count, NULL, flags), dst, value, count)

/** cuMemsetD32Async - fill with 32 bits */
FILL_FORMS_ASYNC(cuMemsetD32Async, unsigned int, 4)

/*
 * ---- 2D fills
 *
 * A 2D fill writes @height rows of @width values. @dst_pitch is a multiple of a value's size and not less than a
 * row's bytes. If @height is 1, @dst_pitch is ignored.
 */

/** cuMemsetD2D8_v2 - fill with 8 bits; returns at once */
COPY_FORMS(cuMemsetD2D8_v2,
	   (CUdeviceptr dst, size_t dst_pitch, unsigned char value, size_t width, size_t height),
	   fill_2d(dst, dst_pitch, value, 1, width, height, NULL, flags), dst, dst_pitch, value,
	   width, height)

/** cuMemsetD2D8Async - fill with 8 bits */
COPY_FORMS_ASYNC(cuMemsetD2D8Async, (CUdeviceptr dst, size_t dst_pitch, unsigned char value,
				     size_t width, size_t height, CUstream stream),
		 fill_2d(dst, dst_pitch, value, 1, width, height, stream, flags), dst, dst_pitch,
		 value, width, height, stream)

/** cuMemsetD2D16_v2 - fill with 16 bits; returns at once */
COPY_FORMS(cuMemsetD2D16_v2,
	   (CUdeviceptr dst, size_t dst_pitch, unsigned short value, size_t width, size_t height),
	   fill_2d(dst, dst_pitch, value, 2, width, height, NULL, flags), dst, dst_pitch, value,
	   width, height)

/** cuMemsetD2D16Async - fill with 16 bits */
COPY_FORMS_ASYNC(cuMemsetD2D16Async, (CUdeviceptr dst, size_t dst_pitch, unsigned short value,
				      size_t width, size_t height, CUstream stream),
		 fill_2d(dst, dst_pitch, value, 2, width, height, stream, flags), dst, dst_pitch,
		 value, width, height, stream)

/** cuMemsetD2D32_v2 - fill with 32 bits; returns at once */
COPY_FORMS(cuMemsetD2D32_v2,
	   (CUdeviceptr dst, size_t dst_pitch, unsigned int value, size_t width, size_t height),
	   fill_2d(dst, dst_pitch, value, 4, width, height, NULL, flags), dst, dst_pitch, value,
	   width, height)

/** cuMemsetD2D32Async - fill with 32 bits */
COPY_FORMS_ASYNC(cuMemsetD2D32Async, (CUdeviceptr dst, size_t dst_pitch, unsigned int value,
				      size_t width, size_t height, CUstream stream),
		 fill_2d(dst, dst_pitch, value, 4, width, height, stream, flags), dst, dst_pitch,
		 value, width, height, stream)
