// SPDX-License-Identifier: MIT
/*
 * The API's chapter "Memory Management": arrays, and linear copies from and to them.
 *
 * Thin: what is behind it is in array.c, array_format.c and box.c.
 *
 * Rules that hold for all of them: sizes of descriptors are elements, those of copies bytes. A NULL
 * array is INVALID_HANDLE, except for copies and properties, where it is INVALID_VALUE; one that
 * was destroyed is INVALID_HANDLE everywhere (NVIDIA's driver crashes). A call that fails leaves
 * its output alone. A missing output is found before a missing cuInit().
 *
 * Copies: offsets and sizes need not be multiples of an element, unless the format is one of
 * blocks; of an array with several rows the first is reached. Streams, host memory and sizes of 0
 * are as in cu_memcpy.c.
 */
#include "array.h"
#include "entry.h"

#define DEV	END_DEVICE
#define ANY	(END_DEVICE | END_HOST)

/* Arguments that are looked at first of all. */
#define MISSING(out, handle)							\
	(!(out) ? CUDA_ERROR_INVALID_VALUE : !(handle) ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS)
#define CALL_WITH(missing, expr, ...)						\
	DEBUG_NOTE(__func__, __VA_ARGS__);					\
	RETURN((missing) ? (missing) : not_initialized() ? CUDA_ERROR_NOT_INITIALIZED :	\
	       unlikely(host_thread) ? CUDA_ERROR_NOT_PERMITTED : (expr))

static CUresult create_2d(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *desc)
{
	if (!desc)
		return array_create(array, NULL);
	return array_create(array, &(const CUDA_ARRAY3D_DESCRIPTOR){
		.Width = desc->Width, .Height = desc->Height, .Format = desc->Format,
		.NumChannels = desc->NumChannels,
	});
}

/**
 * cuArrayCreate_v2 - make a 1D or 2D array
 * @handle: the array
 * @desc: extents in elements (Height 0: 1D), format, number of channels
 *
 * The memory is zero. It is of the current context, and goes with it. "Memory Management",
 * cuArrayCreate.
 *
 * Return: INVALID_VALUE also for extents above the device's attributes, OUT_OF_MEMORY,
 * INVALID_CONTEXT.
 */
BODY CUresult array_create_body(CUarray *handle, const CUDA_ARRAY_DESCRIPTOR *desc)
{
	CALL_AS("cuArrayCreate_v2", create_2d(handle, desc), handle, desc);
}
ENTRY(cuArrayCreate_v2, array_create_body);

/**
 * cuArray3DCreate_v2 - make an array of any kind
 * @handle: the array
 * @desc: the same, with Depth in elements or layers, and flags
 *
 * Sparse arrays and those with deferred mapping have no memory. What is read of the former is zero,
 * what is written is dropped; copying the latter fails the context with LAUNCH_FAILED.
 * Video formats need CUDA_ARRAY3D_VIDEO_ENCODE_DECODE; array_format.c has all rules.
 * "Memory Management", cuArray3DCreate.
 *
 * Return: as above; NOT_SUPPORTED for surfaces of block compressed formats.
 */
BODY CUresult array_3d_create_body(CUarray *handle, const CUDA_ARRAY3D_DESCRIPTOR *desc)
{
	CALL_AS("cuArray3DCreate_v2", array_create(handle, desc), handle, desc);
}
ENTRY(cuArray3DCreate_v2, array_3d_create_body);

static CUresult descriptor_3d(CUDA_ARRAY3D_DESCRIPTOR *desc, CUarray array)
{
	if (!array_valid(array))
		return CUDA_ERROR_INVALID_HANDLE;
	*desc = array->desc;
	return CUDA_SUCCESS;
}

static CUresult descriptor_2d(CUDA_ARRAY_DESCRIPTOR *desc, CUarray array)
{
	CUDA_ARRAY3D_DESCRIPTOR d;
	CUresult result = descriptor_3d(&d, array);

	if (!result)
		*desc = (CUDA_ARRAY_DESCRIPTOR){
			.Width = d.Width, .Height = d.Height, .Format = d.Format,
			.NumChannels = d.NumChannels,
		};
	return result;
}

/** cuArrayGetDescriptor_v2 - width, height and format of an array of any kind; needs no context */
CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *desc, CUarray array)
{
	CALL_WITH(MISSING(desc, array), descriptor_2d(desc, array), desc, array);
}

/** cuArray3DGetDescriptor_v2 - how an array, level or plane was made; needs no context */
CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *desc, CUarray array)
{
	CALL_WITH(MISSING(desc, array), descriptor_3d(desc, array), desc, array);
}

/**
 * cuArrayDestroy - destroy an array
 * @array: of any context. A level or a plane stays: it goes with what it is a part of
 *
 * Waits for all work of the context that owns it, and for copies of other contexts that read it. Needs
 * no context.
 *
 * Return: INVALID_HANDLE; the error of work that failed (the array is destroyed then).
 */
BODY CUresult array_destroy_body(CUarray array)
{
	CALL_AS("cuArrayDestroy", array_destroy(array), array);
}
ENTRY(cuArrayDestroy, array_destroy_body);

/**
 * cuArrayGetPlane - one plane of an array of several
 * @plane: an array of its own extents and format, always the same one; lives as long as @array
 * @array: of a format with planes. Only its planes can be copied
 * @index: 0 is luminance
 *
 * Return: INVALID_VALUE if there is no such plane, INVALID_HANDLE.
 */
CUresult cuArrayGetPlane(CUarray *plane, CUarray array, unsigned int index)
{
	CALL_WITH(MISSING(plane, array), array_plane(plane, array, index), plane, array, index);
}

/**
 * cuArrayGetSparseProperties - tiles of a sparse array
 * @props: tile extents in elements; if the array is less than a tile in a direction it is one mip
 *         tail, then of @props->miptailSize bytes
 * @array: made with CUDA_ARRAY3D_SPARSE, no level
 *
 * Return: INVALID_VALUE, also if it is not sparse.
 */
CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *props, CUarray array)
{
	CALL_WITH(props && array ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE,
		  array_sparse(props, array), props, array);
}

/**
 * cuArrayGetMemoryRequirements - the memory that an array has to be mapped to
 * @req: bytes and alignment, both multiples of 64 KiB
 * @array: made with CUDA_ARRAY3D_DEFERRED_MAPPING, no level
 * @device: any
 *
 * Return: INVALID_VALUE, also if its mapping is not deferred.
 */
CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *req, CUarray array,
				      CUdevice device)
{
	CALL_WITH(req && array ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE,
		  array_requirements(req, array, device), req, array, device);
}

/**
 * cuMipmappedArrayCreate - make an array of several levels
 * @handle: the mipmapped array
 * @desc: its first level, as cuArray3DCreate()
 * @levels: how many; less than 1 is 1, and no more are made than it takes to halve the largest
 *          extent to 1. Layers and faces are not halved
 *
 * Return: as cuArray3DCreate().
 */
BODY CUresult mipmap_create_body(CUmipmappedArray *handle, const CUDA_ARRAY3D_DESCRIPTOR *desc,
				 unsigned int levels)
{
	CALL_AS("cuMipmappedArrayCreate", mipmap_create(handle, desc, levels), handle, desc,
		levels);
}
ENTRY(cuMipmappedArrayCreate, mipmap_create_body);

/** cuMipmappedArrayDestroy - destroy an array with all levels, as cuArrayDestroy() */
BODY CUresult mipmap_destroy_body(CUmipmappedArray mipmap)
{
	CALL_AS("cuMipmappedArrayDestroy", mipmap_destroy(mipmap), mipmap);
}
ENTRY(cuMipmappedArrayDestroy, mipmap_destroy_body);

/**
 * cuMipmappedArrayGetLevel - one level of a mipmapped array
 * @level_array: always the same array for a level; lives as long as @mipmap
 * @mipmap: needs no context
 * @level: 0 is the largest
 *
 * Return: INVALID_VALUE if there is no such level, INVALID_HANDLE.
 */
CUresult cuMipmappedArrayGetLevel(CUarray *level_array, CUmipmappedArray mipmap, unsigned int level)
{
	CALL(mipmap_level(level_array, mipmap, level), level_array, mipmap, level);
}

/**
 * cuMipmappedArrayGetSparseProperties - the same as of an array, with the levels that are mip tail
 *
 * The mip tail is what is less than a tile. @props->miptailSize is that of one layer, unless the
 * first level is in it.
 */
CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *props,
					     CUmipmappedArray mipmap)
{
	CALL_WITH(props && mipmap ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE,
		  mipmap_sparse(props, mipmap), props, mipmap);
}

/** cuMipmappedArrayGetMemoryRequirements - the same as of an array, for all levels */
CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *req,
					       CUmipmappedArray mipmap, CUdevice device)
{
	CALL_WITH(req && mipmap ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE,
		  mipmap_requirements(req, mipmap, device), req, mipmap, device);
}

/* ---- linear copies */

static inline uint64_t host(const void *ptr)
{
	return (uintptr_t)ptr;
}

#define SYNC(name, args, call, ...)					\
	CUresult name args						\
	{								\
		const unsigned int flags = CALL_SYNC;			\
									\
		CALL(call, __VA_ARGS__);					\
	}								\
	CUresult name ## _ptds args					\
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
		CALL_INSIDE(call, __VA_ARGS__);				\
	}								\
	CUresult name ## _ptsz args					\
	{								\
		const unsigned int flags = CALL_OWN;			\
									\
		CALL_INSIDE(call, __VA_ARGS__);				\
	}

/** cuMemcpyAtoA_v2 - array to array, of any formats; returns at once */
SYNC(cuMemcpyAtoA_v2, (CUarray dst_array, size_t dst_offset, CUarray src_array, size_t src_offset,
		       size_t bytes),
     copy_array(dst_array, dst_offset, src_array, src_offset, bytes, NULL, flags), dst_array,
     dst_offset, src_array, src_offset, bytes)

/** cuMemcpyAtoD_v2 - array to device; returns at once */
SYNC(cuMemcpyAtoD_v2, (CUdeviceptr dst, CUarray src_array, size_t src_offset, size_t bytes),
     copy_from_array(dst, DEV, src_array, src_offset, bytes, NULL, flags), dst, src_array,
     src_offset, bytes)

/** cuMemcpyAtoH_v2 - array to host; returns when it is done */
SYNC(cuMemcpyAtoH_v2, (void *dst_host, CUarray src_array, size_t src_offset, size_t bytes),
     copy_from_array(host(dst_host), ANY, src_array, src_offset, bytes, NULL, flags | CALL_WAIT),
     dst_host, src_array, src_offset, bytes)

/** cuMemcpyDtoA_v2 - device to array; returns at once */
SYNC(cuMemcpyDtoA_v2, (CUarray dst_array, size_t dst_offset, CUdeviceptr src, size_t bytes),
     copy_to_array(dst_array, dst_offset, src, DEV, bytes, NULL, flags), dst_array, dst_offset,
     src, bytes)

/** cuMemcpyHtoA_v2 - host to array; returns when it is done */
SYNC(cuMemcpyHtoA_v2, (CUarray dst_array, size_t dst_offset, const void *src_host, size_t bytes),
     copy_to_array(dst_array, dst_offset, host(src_host), ANY, bytes, NULL, flags | CALL_WAIT),
     dst_array, dst_offset, src_host, bytes)

/** cuMemcpyAtoHAsync_v2 - array to host, in stream order */
ASYNC(cuMemcpyAtoHAsync_v2, (void *dst_host, CUarray src_array, size_t src_offset, size_t bytes,
			     CUstream stream),
      copy_from_array(host(dst_host), ANY, src_array, src_offset, bytes, stream, flags), dst_host,
      src_array, src_offset, bytes, stream)

/** cuMemcpyHtoAAsync_v2 - host to array, in stream order */
ASYNC(cuMemcpyHtoAAsync_v2, (CUarray dst_array, size_t dst_offset, const void *src_host,
			     size_t bytes, CUstream stream),
      copy_to_array(dst_array, dst_offset, host(src_host), ANY, bytes, stream, flags), dst_array,
      dst_offset, src_host, bytes, stream)

/* ---- the first API: sizes and addresses of 32 bits, of which no memory has one */

static CUresult create_2d_32(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *desc)
{
	if (!desc)
		return array_create(array, NULL);
	return array_create(array, &(const CUDA_ARRAY3D_DESCRIPTOR){
		.Width = desc->Width, .Height = desc->Height, .Format = desc->Format,
		.NumChannels = desc->NumChannels,
	});
}

static CUresult create_3d_32(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *desc)
{
	if (!desc)
		return array_create(array, NULL);
	return array_create(array, &(const CUDA_ARRAY3D_DESCRIPTOR){
		.Width = desc->Width, .Height = desc->Height, .Depth = desc->Depth,
		.Format = desc->Format, .NumChannels = desc->NumChannels, .Flags = desc->Flags,
	});
}

/* No extent is above the limits, so all fit. */
static CUresult descriptor_2d_32(CUDA_ARRAY_DESCRIPTOR_v1 *desc, CUarray array)
{
	CUDA_ARRAY3D_DESCRIPTOR d;
	CUresult result = descriptor_3d(&d, array);

	if (!result)
		*desc = (CUDA_ARRAY_DESCRIPTOR_v1){
			.Width = d.Width, .Height = d.Height, .Format = d.Format,
			.NumChannels = d.NumChannels,
		};
	return result;
}

static CUresult descriptor_3d_32(CUDA_ARRAY3D_DESCRIPTOR_v1 *desc, CUarray array)
{
	CUDA_ARRAY3D_DESCRIPTOR d;
	CUresult result = descriptor_3d(&d, array);

	if (!result)
		*desc = (CUDA_ARRAY3D_DESCRIPTOR_v1){
			.Width = d.Width, .Height = d.Height, .Depth = d.Depth,
			.Format = d.Format, .NumChannels = d.NumChannels, .Flags = d.Flags,
		};
	return result;
}

/** cuArrayCreate - make a 1D or 2D array */
BODY CUresult array_create_32_body(CUarray *handle, const CUDA_ARRAY_DESCRIPTOR_v1 *desc)
{
	CALL_AS("cuArrayCreate", create_2d_32(handle, desc), handle, desc);
}
ENTRY(cuArrayCreate, array_create_32_body);

/** cuArray3DCreate - make an array of any kind */
BODY CUresult array_3d_create_32_body(CUarray *handle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *desc)
{
	CALL_AS("cuArray3DCreate", create_3d_32(handle, desc), handle, desc);
}
ENTRY(cuArray3DCreate, array_3d_create_32_body);

/** cuArrayGetDescriptor - width, height and format of an array */
CUresult cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR_v1 *desc, CUarray array)
{
	CALL_WITH(MISSING(desc, array), descriptor_2d_32(desc, array), desc, array);
}

/** cuArray3DGetDescriptor - how an array was made */
CUresult cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR_v1 *desc, CUarray array)
{
	CALL_WITH(MISSING(desc, array), descriptor_3d_32(desc, array), desc, array);
}

/** cuMemcpyAtoA - array to array */
CUresult cuMemcpyAtoA(CUarray dst_array, unsigned int dst_offset, CUarray src_array,
		      unsigned int src_offset, unsigned int bytes)
{
	CALL(copy_array(dst_array, dst_offset, src_array, src_offset, bytes, NULL, CALL_SYNC),
	     dst_array, dst_offset, src_array, src_offset, bytes);
}

/** cuMemcpyAtoD - array to device */
CUresult cuMemcpyAtoD(CUdeviceptr_v1 dst, CUarray src_array, unsigned int src_offset,
		      unsigned int bytes)
{
	CALL(copy_from_array(dst, DEV, src_array, src_offset, bytes, NULL, CALL_SYNC), dst,
	     src_array, src_offset, bytes);
}

/** cuMemcpyAtoH - array to host */
CUresult cuMemcpyAtoH(void *dst_host, CUarray src_array, unsigned int src_offset,
		      unsigned int bytes)
{
	CALL(copy_from_array(host(dst_host), ANY, src_array, src_offset, bytes, NULL,
			     CALL_SYNC | CALL_WAIT), dst_host, src_array, src_offset, bytes);
}

/** cuMemcpyDtoA - device to array */
CUresult cuMemcpyDtoA(CUarray dst_array, unsigned int dst_offset, CUdeviceptr_v1 src,
		      unsigned int bytes)
{
	CALL(copy_to_array(dst_array, dst_offset, src, DEV, bytes, NULL, CALL_SYNC), dst_array,
	     dst_offset, src, bytes);
}

/** cuMemcpyHtoA - host to array */
CUresult cuMemcpyHtoA(CUarray dst_array, unsigned int dst_offset, const void *src_host,
		      unsigned int bytes)
{
	CALL(copy_to_array(dst_array, dst_offset, host(src_host), ANY, bytes, NULL,
			   CALL_SYNC | CALL_WAIT), dst_array, dst_offset, src_host, bytes);
}

/** cuMemcpyAtoHAsync - array to host, in stream order */
CUresult cuMemcpyAtoHAsync(void *dst_host, CUarray src_array, unsigned int src_offset,
			   unsigned int bytes, CUstream stream)
{
	CALL(copy_from_array(host(dst_host), ANY, src_array, src_offset, bytes, stream, 0),
	     dst_host, src_array, src_offset, bytes, stream);
}

/** cuMemcpyHtoAAsync - host to array, in stream order */
CUresult cuMemcpyHtoAAsync(CUarray dst_array, unsigned int dst_offset, const void *src_host,
			   unsigned int bytes, CUstream stream)
{
	CALL(copy_to_array(dst_array, dst_offset, host(src_host), ANY, bytes, stream, 0),
	     dst_array, dst_offset, src_host, bytes, stream);
}
