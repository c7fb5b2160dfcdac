// SPDX-License-Identifier: MIT
/*
 * The runtime API's chapter "Memory Management": copies.
 *
 * Owns nothing. A host address where @kind says device memory is cudaErrorInvalidValue. With cudaMemcpyDefault,
 * and in linear copies with cudaMemcpyHostToHost, the addresses decide. A size of 0 succeeds whatever the
 * addresses are. There are no arrays: a copy from or to an array is cudaErrorNotSupported.
 */
#include "runtime/runtime.h"

static bool kind_known(enum cudaMemcpyKind kind)
{
	return (unsigned int)kind <= cudaMemcpyDefault;
}

/* ---- linear copies */

static cudaError_t copy(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
			bool own)
{
	switch (kind) {
	case cudaMemcpyHostToDevice:
		return rt_code(DS(cuMemcpyHtoD_v2)(rt_addr(dst), src, count));
	case cudaMemcpyDeviceToHost:
		return rt_code(DS(cuMemcpyDtoH_v2)(dst, rt_addr(src), count));
	case cudaMemcpyDeviceToDevice:
		return rt_code(DS(cuMemcpyDtoD_v2)(rt_addr(dst), rt_addr(src), count));
	case cudaMemcpyHostToHost:
	case cudaMemcpyDefault:
		return rt_code(DS(cuMemcpy)(rt_addr(dst), rt_addr(src), count));
	default:
		return cudaErrorInvalidMemcpyDirection;
	}
}

/**
 * cudaMemcpy - copy, and return when the caller may access both ends again
 *
 * A copy from device to device returns at once. Return: cudaErrorInvalidValue;
 * cudaErrorInvalidMemcpyDirection for an unknown kind.
 */
RT_PTDS(cudaMemcpy, (void *dst, const void *src, size_t count, enum cudaMemcpyKind kind),
	copy(dst, src, count, kind, own))

static cudaError_t copy_async(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
			      cudaStream_t stream, bool own)
{
	switch (kind) {
	case cudaMemcpyHostToDevice:
		return rt_code(SZ(cuMemcpyHtoDAsync_v2)(rt_addr(dst), src, count, stream));
	case cudaMemcpyDeviceToHost:
		return rt_code(SZ(cuMemcpyDtoHAsync_v2)(dst, rt_addr(src), count, stream));
	case cudaMemcpyDeviceToDevice:
		return rt_code(SZ(cuMemcpyDtoDAsync_v2)(rt_addr(dst), rt_addr(src), count,
							stream));
	case cudaMemcpyHostToHost:
	case cudaMemcpyDefault:
		return rt_code(SZ(cuMemcpyAsync)(rt_addr(dst), rt_addr(src), count, stream));
	default:
		return cudaErrorInvalidMemcpyDirection;
	}
}

/** cudaMemcpyAsync - the same in stream order; the caller may access pageable memory when the call returns */
RT_PTSZ(cudaMemcpyAsync, (void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
			  cudaStream_t stream),
	copy_async(dst, src, count, kind, stream, own))

/* The primary contexts of the two devices of a copy. */
static cudaError_t two_contexts(CUcontext *dst, int dst_device, CUcontext *src, int src_device)
{
	cudaError_t error = rt_primary(dst, dst_device);

	return error ? error : rt_primary(src, src_device);
}

static cudaError_t copy_peer(void *dst, int dst_device, const void *src, int src_device,
			     size_t count)
{
	CUcontext to, from;
	cudaError_t error = two_contexts(&to, dst_device, &from, src_device);

	return error ? error : rt_code(cuMemcpyPeer(rt_addr(dst), to, rt_addr(src), from, count));
}

/**
 * cudaMemcpyPeer - copy between the memory of two devices
 *
 * Return: cudaErrorInvalidDevice, cudaErrorInvalidValue.
 */
cudaError_t cudaMemcpyPeer(void *dst, int dst_device, const void *src, int src_device,
			   size_t count)
{
	RT_CONTEXT(copy_peer(dst, dst_device, src, src_device, count));
}

static cudaError_t copy_peer_async(void *dst, int dst_device, const void *src, int src_device,
				   size_t count, cudaStream_t stream)
{
	CUcontext to, from;
	cudaError_t error = two_contexts(&to, dst_device, &from, src_device);

	return error ? error : rt_code(cuMemcpyPeerAsync(rt_addr(dst), to, rt_addr(src), from,
							 count, stream));
}

/** cudaMemcpyPeerAsync - the same in stream order */
cudaError_t cudaMemcpyPeerAsync(void *dst, int dst_device, const void *src, int src_device,
				size_t count, cudaStream_t stream)
{
	RT_CONTEXT(copy_peer_async(dst, dst_device, src, src_device, count, stream));
}

/* ---- rows and slices */

/* The memory type of the source or the destination that a kind of copy names. */
static CUmemorytype end_type(enum cudaMemcpyKind kind, bool dst)
{
	switch (kind) {
	case cudaMemcpyHostToDevice:
		return dst ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
	case cudaMemcpyDeviceToHost:
		return dst ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
	case cudaMemcpyDeviceToDevice:
		return CU_MEMORYTYPE_DEVICE;
	case cudaMemcpyHostToHost:
		return CU_MEMORYTYPE_HOST;
	default:
		return CU_MEMORYTYPE_UNIFIED;
	}
}

static cudaError_t fill_2d(CUDA_MEMCPY2D *c, void *dst, size_t dst_pitch, const void *src,
			   size_t src_pitch, size_t width, size_t height, enum cudaMemcpyKind kind)
{
	if (!kind_known(kind))
		return cudaErrorInvalidMemcpyDirection;
	if (width && height && (dst_pitch < width || src_pitch < width))
		return cudaErrorInvalidPitchValue;
	*c = (CUDA_MEMCPY2D) {
		.srcMemoryType = end_type(kind, false), .srcHost = src, .srcDevice = rt_addr(src),
		.srcPitch = src_pitch,
		.dstMemoryType = end_type(kind, true), .dstHost = dst, .dstDevice = rt_addr(dst),
		.dstPitch = dst_pitch,
		.WidthInBytes = width, .Height = height,
	};
	return cudaSuccess;
}

static cudaError_t copy_2d(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
			   size_t width, size_t height, enum cudaMemcpyKind kind, bool own)
{
	CUDA_MEMCPY2D c;
	cudaError_t error = fill_2d(&c, dst, dst_pitch, src, src_pitch, width, height, kind);

	return error ? error : rt_code(DS(cuMemcpy2DUnaligned_v2)(&c));
}

/**
 * cudaMemcpy2D - copy @height rows of @width bytes
 *
 * Return: cudaErrorInvalidPitchValue for a pitch less than the width, cudaErrorInvalidValue,
 * cudaErrorInvalidMemcpyDirection.
 */
RT_PTDS(cudaMemcpy2D, (void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width,
		       size_t height, enum cudaMemcpyKind kind),
	copy_2d(dst, dst_pitch, src, src_pitch, width, height, kind, own))

static cudaError_t copy_2d_async(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
				 size_t width, size_t height, enum cudaMemcpyKind kind,
				 cudaStream_t stream, bool own)
{
	CUDA_MEMCPY2D c;
	cudaError_t error = fill_2d(&c, dst, dst_pitch, src, src_pitch, width, height, kind);

	return error ? error : rt_code(SZ(cuMemcpy2DAsync_v2)(&c, stream));
}

/** cudaMemcpy2DAsync - the same in stream order */
RT_PTSZ(cudaMemcpy2DAsync, (void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
			    size_t width, size_t height, enum cudaMemcpyKind kind,
			    cudaStream_t stream),
	copy_2d_async(dst, dst_pitch, src, src_pitch, width, height, kind, stream, own))

/* Refuse an end that is both an array and an address. The driver refuses an end that is neither. */
static cudaError_t ends_3d(cudaArray_t src_array, const struct cudaPitchedPtr *src,
			   cudaArray_t dst_array, const struct cudaPitchedPtr *dst)
{
	if ((src_array && src->ptr) || (dst_array && dst->ptr))
		return cudaErrorInvalidValue;
	return src_array || dst_array ? cudaErrorNotSupported : cudaSuccess;
}

static bool empty(const struct cudaExtent *e)
{
	return !e->width || !e->height || !e->depth;
}

/* Describe a copy for the driver. Positions and widths are in bytes, because there are no arrays. */
static cudaError_t describe_3d(CUDA_MEMCPY3D *c, const struct cudaMemcpy3DParms *p)
{
	cudaError_t error;

	if (!p)
		return cudaErrorInvalidValue;
	if (!kind_known(p->kind))
		return cudaErrorInvalidMemcpyDirection;
	error = ends_3d(p->srcArray, &p->srcPtr, p->dstArray, &p->dstPtr);
	if (error)
		return error;
	if (!empty(&p->extent) &&
	    (p->srcPtr.pitch < p->extent.width || p->dstPtr.pitch < p->extent.width))
		return cudaErrorInvalidPitchValue;
	*c = (CUDA_MEMCPY3D) {
		.srcXInBytes = p->srcPos.x, .srcY = p->srcPos.y, .srcZ = p->srcPos.z,
		.srcMemoryType = end_type(p->kind, false),
		.srcHost = p->srcPtr.ptr, .srcDevice = rt_addr(p->srcPtr.ptr),
		.srcPitch = p->srcPtr.pitch, .srcHeight = p->srcPtr.ysize,
		.dstXInBytes = p->dstPos.x, .dstY = p->dstPos.y, .dstZ = p->dstPos.z,
		.dstMemoryType = end_type(p->kind, true),
		.dstHost = p->dstPtr.ptr, .dstDevice = rt_addr(p->dstPtr.ptr),
		.dstPitch = p->dstPtr.pitch, .dstHeight = p->dstPtr.ysize,
		.WidthInBytes = p->extent.width, .Height = p->extent.height,
		.Depth = p->extent.depth,
	};
	return cudaSuccess;
}

static cudaError_t copy_3d(const struct cudaMemcpy3DParms *p, bool own)
{
	CUDA_MEMCPY3D c;
	cudaError_t error = describe_3d(&c, p);

	return error ? error : rt_code(DS(cuMemcpy3D_v2)(&c));
}

/**
 * cudaMemcpy3D - copy a box
 *
 * Return: cudaErrorInvalidValue, also if an end is both an array and an address;
 * cudaErrorInvalidPitchValue, cudaErrorInvalidMemcpyDirection, cudaErrorNotSupported.
 */
RT_PTDS(cudaMemcpy3D, (const struct cudaMemcpy3DParms *copy), copy_3d(copy, own))

static cudaError_t copy_3d_async(const struct cudaMemcpy3DParms *p, cudaStream_t stream, bool own)
{
	CUDA_MEMCPY3D c;
	cudaError_t error = describe_3d(&c, p);

	return error ? error : rt_code(SZ(cuMemcpy3DAsync_v2)(&c, stream));
}

/** cudaMemcpy3DAsync - the same in stream order */
RT_PTSZ(cudaMemcpy3DAsync, (const struct cudaMemcpy3DParms *copy, cudaStream_t stream),
	copy_3d_async(copy, stream, own))

static cudaError_t describe_3d_peer(CUDA_MEMCPY3D_PEER *c, const struct cudaMemcpy3DPeerParms *p)
{
	CUcontext to, from;
	cudaError_t error;

	if (!p)
		return cudaErrorInvalidValue;
	error = ends_3d(p->srcArray, &p->srcPtr, p->dstArray, &p->dstPtr);
	if (!error)
		error = two_contexts(&to, p->dstDevice, &from, p->srcDevice);
	if (error)
		return error;
	if (!empty(&p->extent) &&
	    (p->srcPtr.pitch < p->extent.width || p->dstPtr.pitch < p->extent.width))
		return cudaErrorInvalidPitchValue;
	*c = (CUDA_MEMCPY3D_PEER) {
		.srcXInBytes = p->srcPos.x, .srcY = p->srcPos.y, .srcZ = p->srcPos.z,
		.srcMemoryType = CU_MEMORYTYPE_UNIFIED, .srcDevice = rt_addr(p->srcPtr.ptr),
		.srcContext = from, .srcPitch = p->srcPtr.pitch, .srcHeight = p->srcPtr.ysize,
		.dstXInBytes = p->dstPos.x, .dstY = p->dstPos.y, .dstZ = p->dstPos.z,
		.dstMemoryType = CU_MEMORYTYPE_UNIFIED, .dstDevice = rt_addr(p->dstPtr.ptr),
		.dstContext = to, .dstPitch = p->dstPtr.pitch, .dstHeight = p->dstPtr.ysize,
		.WidthInBytes = p->extent.width, .Height = p->extent.height,
		.Depth = p->extent.depth,
	};
	return cudaSuccess;
}

static cudaError_t copy_3d_peer(const struct cudaMemcpy3DPeerParms *p, bool own)
{
	CUDA_MEMCPY3D_PEER c;
	cudaError_t error = describe_3d_peer(&c, p);

	return error ? error : rt_code(DS(cuMemcpy3DPeer)(&c));
}

/** cudaMemcpy3DPeer - copy a box between the memory of two devices; also cudaErrorInvalidDevice */
RT_PTDS(cudaMemcpy3DPeer, (const struct cudaMemcpy3DPeerParms *copy), copy_3d_peer(copy, own))

static cudaError_t copy_3d_peer_async(const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream,
				      bool own)
{
	CUDA_MEMCPY3D_PEER c;
	cudaError_t error = describe_3d_peer(&c, p);

	return error ? error : rt_code(SZ(cuMemcpy3DPeerAsync)(&c, stream));
}

/** cudaMemcpy3DPeerAsync - the same in stream order */
RT_PTSZ(cudaMemcpy3DPeerAsync, (const struct cudaMemcpy3DPeerParms *copy, cudaStream_t stream),
	copy_3d_peer_async(copy, stream, own))
