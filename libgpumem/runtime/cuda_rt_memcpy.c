// SPDX-License-Identifier: MIT
/*
 * The runtime API's chapter "Memory Management": copies.
 *
 * Owns nothing. A host address where @kind says device memory is cudaErrorInvalidValue. With cudaMemcpyDefault,
 * and in linear copies with cudaMemcpyHostToHost, the addresses decide. A size of 0 succeeds whatever the
 * addresses are.
 *
 * Boxes may have arrays as ends: the extent and positions in arrays are then in elements, and positions at
 * addresses in bytes. Of a block compressed array the blocks that the box touches are copied. cuda_rt_array_copy.c
 * has the copies of rows of arrays.
 */
#include "runtime/cuda_rt_array.h"

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

static bool is_managed(const void *ptr)
{
	CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_IS_MANAGED;
	unsigned int value = 0;
	void *data = &value;

	/* Unlike cuPointerGetAttribute(), this succeeds for pageable memory. */
	return !cuPointerGetAttributes(1, &attribute, &data, rt_addr(ptr)) && value;
}

/*
 * As recorded, a copy of managed memory as the host's has ended when the call returns. This waits for all work of
 * the stream, also for what other threads queue behind the copy.
 */
static cudaError_t copy_host_async(void *dst, const void *src, size_t count, cudaStream_t stream,
				   bool own)
{
	CUresult result = SZ(cuMemcpyAsync)(rt_addr(dst), rt_addr(src), count, stream);

	if (!result && count && (is_managed(dst) || is_managed(src)))
		result = SZ(cuStreamSynchronize)(stream);
	return rt_code(result);
}

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
		return copy_host_async(dst, src, count, stream, own);
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
	if (height > 1 && (dst_pitch < width || src_pitch < width))
		return cudaErrorInvalidPitchValue;
	if (!kind_known(kind))
		return cudaErrorInvalidMemcpyDirection;
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
	cudaError_t error;

	if (!width || !height)
		return cudaSuccess;
	error = fill_2d(&c, dst, dst_pitch, src, src_pitch, width, height, kind);
	return error ? error : rt_code(DS(cuMemcpy2DUnaligned_v2)(&c));
}

/**
 * cudaMemcpy2D - copy @height rows of @width bytes
 *
 * Return: cudaErrorInvalidPitchValue for a pitch less than the width if there are several rows; the driver's
 * cudaErrorInvalidValue if there is one, and the pitch is not 0; cudaErrorInvalidMemcpyDirection.
 */
RT_PTDS(cudaMemcpy2D, (void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width,
		       size_t height, enum cudaMemcpyKind kind),
	copy_2d(dst, dst_pitch, src, src_pitch, width, height, kind, own))

static cudaError_t copy_2d_async(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
				 size_t width, size_t height, enum cudaMemcpyKind kind,
				 cudaStream_t stream, bool own)
{
	CUDA_MEMCPY2D c;
	cudaError_t error;

	if (!width || !height)
		return cudaSuccess;
	error = fill_2d(&c, dst, dst_pitch, src, src_pitch, width, height, kind);
	return error ? error : rt_code(SZ(cuMemcpy2DAsync_v2)(&c, stream));
}

/** cudaMemcpy2DAsync - the same in stream order */
RT_PTSZ(cudaMemcpy2DAsync, (void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
			    size_t width, size_t height, enum cudaMemcpyKind kind,
			    cudaStream_t stream),
	copy_2d_async(dst, dst_pitch, src, src_pitch, width, height, kind, stream, own))

/* What the two kinds of boxes have in common, and what an element of the extent is. */
struct box {
	cudaArray_t src_array, dst_array;
	const struct cudaPitchedPtr *src, *dst;
	const struct cudaPos *src_pos, *dst_pos;
	const struct cudaExtent *extent;
	unsigned int element;		/* bytes of an element, or of a block */
	unsigned int block;		/* elements on each side of a block */
};

static bool empty(const struct cudaExtent *e)
{
	return !e->width || !e->height || !e->depth;
}

/*
 * Refuse ends that are both an array and an address, or arrays whose elements have different sizes, and find the
 * size of an element. The driver refuses an end that is neither.
 */
static cudaError_t check_ends(struct box *b)
{
	struct rt_shape src = { .element = 1, .block = 1 }, dst = src;
	cudaError_t error = cudaSuccess;

	if ((b->src_array && b->src->ptr) || (b->dst_array && b->dst->ptr))
		return cudaErrorInvalidValue;
	if (b->src_array)
		error = rt_array_shape(&src, b->src_array);
	if (!error && b->dst_array)
		error = rt_array_shape(&dst, b->dst_array);
	if (error)
		return error;
	if (b->src_array && b->dst_array && (src.element != dst.element || src.block != dst.block))
		return cudaErrorInvalidValue;
	b->element = b->src_array ? src.element : dst.element;
	b->block = b->src_array ? src.block : dst.block;
	return cudaSuccess;
}

/*
 * A pitch less than the extent's width, or a slice with fewer rows than its height, is an error of the runtime if the
 * box has a second row or slice there. The driver checks the others.
 */
static bool pitch_bad(const struct cudaExtent *e, cudaArray_t array, const struct cudaPitchedPtr *p)
{
	return !array && (((e->height > 1 || e->depth > 1) && p->pitch < e->width) ||
			  (e->depth > 1 && p->ysize < e->height));
}

static cudaError_t check_pitches(const struct box *b)
{
	return pitch_bad(b->extent, b->src_array, b->src) || pitch_bad(b->extent, b->dst_array, b->dst) ?
	       cudaErrorInvalidPitchValue : cudaSuccess;
}

static size_t box_blocks(const struct box *b, size_t elements)
{
	return elements / b->block + (elements % b->block != 0);
}

/* Extents and positions for the driver, in bytes and rows. False: they do not fit. */
static bool measure(const struct box *b, size_t *width, size_t *height, size_t *src_x, size_t *dst_x)
{
	const unsigned int bytes = b->element;

	*height = box_blocks(b, b->extent->height);
	*src_x = b->src_pos->x;
	*dst_x = b->dst_pos->x;
	return !__builtin_mul_overflow(box_blocks(b, b->extent->width), bytes, width) &&
	       (!b->src_array || !__builtin_mul_overflow(*src_x / b->block, bytes, src_x)) &&
	       (!b->dst_array || !__builtin_mul_overflow(*dst_x / b->block, bytes, dst_x));
}

static size_t row_of(const struct box *b, cudaArray_t array, size_t y)
{
	return array ? y / b->block : y;
}

/* Fill the members that CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER have in common. */
#define DESCRIBE_BOX(c, b, src_type, dst_type) ({							\
	size_t width_, height_, src_x_, dst_x_;								\
	bool fits_ = measure(b, &width_, &height_, &src_x_, &dst_x_);					\
													\
	*(c) = (__typeof__(*(c))) {									\
		.srcXInBytes = src_x_, .srcY = row_of(b, (b)->src_array, (b)->src_pos->y),		\
		.srcZ = (b)->src_pos->z,								\
		.srcMemoryType = (b)->src_array ? CU_MEMORYTYPE_ARRAY : (src_type),			\
		.srcHost = (b)->src->ptr, .srcDevice = rt_addr((b)->src->ptr),				\
		.srcArray = rt_array((b)->src_array),							\
		.srcPitch = (b)->src->pitch, .srcHeight = (b)->src->ysize,				\
		.dstXInBytes = dst_x_, .dstY = row_of(b, (b)->dst_array, (b)->dst_pos->y),		\
		.dstZ = (b)->dst_pos->z,								\
		.dstMemoryType = (b)->dst_array ? CU_MEMORYTYPE_ARRAY : (dst_type),			\
		.dstHost = (b)->dst->ptr, .dstDevice = rt_addr((b)->dst->ptr),				\
		.dstArray = rt_array((b)->dst_array),							\
		.dstPitch = (b)->dst->pitch, .dstHeight = (b)->dst->ysize,				\
		.WidthInBytes = width_, .Height = height_, .Depth = (b)->extent->depth,			\
	};												\
	fits_;												\
})

static struct box box_3d(const struct cudaMemcpy3DParms *p)
{
	return (struct box) {
		.src_array = p->srcArray, .dst_array = p->dstArray, .src = &p->srcPtr, .dst = &p->dstPtr,
		.src_pos = &p->srcPos, .dst_pos = &p->dstPos, .extent = &p->extent,
	};
}

/* Describe a copy for the driver. */
static cudaError_t describe_3d(CUDA_MEMCPY3D *c, const struct cudaMemcpy3DParms *p)
{
	cudaError_t error;
	struct box b;

	if (!kind_known(p->kind))
		return cudaErrorInvalidMemcpyDirection;
	b = box_3d(p);
	error = check_ends(&b);
	/* An array as the source is not the host. */
	if (!error && b.src_array && (p->kind == cudaMemcpyHostToDevice || p->kind == cudaMemcpyHostToHost))
		error = cudaErrorInvalidValue;
	if (!error)
		error = check_pitches(&b);
	if (error)
		return error;
	return DESCRIBE_BOX(c, &b, end_type(p->kind, false), end_type(p->kind, true)) ?
	       cudaSuccess : cudaErrorInvalidValue;
}

static cudaError_t copy_3d(const struct cudaMemcpy3DParms *p, bool own)
{
	CUDA_MEMCPY3D c;
	cudaError_t error;

	if (!p || empty(&p->extent))
		return p ? cudaSuccess : cudaErrorInvalidValue;
	error = describe_3d(&c, p);
	return error ? error : rt_code(DS(cuMemcpy3D_v2)(&c));
}

/**
 * cudaMemcpy3D - copy a box
 *
 * Return: cudaErrorInvalidValue, also if an end is both an array and an address;
 * cudaErrorInvalidPitchValue, cudaErrorInvalidMemcpyDirection.
 */
RT_PTDS(cudaMemcpy3D, (const struct cudaMemcpy3DParms *copy), copy_3d(copy, own))

static cudaError_t copy_3d_async(const struct cudaMemcpy3DParms *p, cudaStream_t stream, bool own)
{
	CUDA_MEMCPY3D c;
	cudaError_t error;

	if (!p || empty(&p->extent))
		return p ? cudaSuccess : cudaErrorInvalidValue;
	error = describe_3d(&c, p);
	return error ? error : rt_code(SZ(cuMemcpy3DAsync_v2)(&c, stream));
}

/** cudaMemcpy3DAsync - the same in stream order */
RT_PTSZ(cudaMemcpy3DAsync, (const struct cudaMemcpy3DParms *copy, cudaStream_t stream),
	copy_3d_async(copy, stream, own))

static struct box box_3d_peer(const struct cudaMemcpy3DPeerParms *p)
{
	return (struct box) {
		.src_array = p->srcArray, .dst_array = p->dstArray, .src = &p->srcPtr, .dst = &p->dstPtr,
		.src_pos = &p->srcPos, .dst_pos = &p->dstPos, .extent = &p->extent,
	};
}

static cudaError_t describe_3d_peer(CUDA_MEMCPY3D_PEER *c, const struct cudaMemcpy3DPeerParms *p)
{
	CUcontext to, from;
	cudaError_t error;
	struct box b;

	if (!p)
		return cudaErrorInvalidValue;
	b = box_3d_peer(p);
	error = check_ends(&b);
	if (!error)
		error = two_contexts(&to, p->dstDevice, &from, p->srcDevice);
	if (!error && !empty(&p->extent))
		error = check_pitches(&b);
	if (error)
		return error;
	if (!DESCRIBE_BOX(c, &b, CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_DEVICE))
		return cudaErrorInvalidValue;
	c->srcContext = from;
	c->dstContext = to;
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
