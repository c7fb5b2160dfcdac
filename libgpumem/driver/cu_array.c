// SPDX-License-Identifier: MIT
/*
 * The API's chapter "Memory Management": arrays, and linear copies from and to them.
 *
 * Thin: array.c, array_format.c and box.c of copy/ implement it.
 *
 * Rules for all functions of this file: descriptors have sizes in elements, copies have sizes in bytes. A NULL
 * array is INVALID_HANDLE, except for copies and properties, where it is INVALID_VALUE. A destroyed array is
 * INVALID_HANDLE everywhere (NVIDIA's driver crashes). A call that fails does not write its output. Queries of
 * an array check for a missing handle before they check for cuInit(), and most check for a missing output next.
 *
 * Linear copies: offsets and sizes need not be multiples of an element, unless the format has blocks. Of an
 * array with several rows only the first row can be copied. The rules of cu_memcpy.c for streams, host memory
 * and sizes of 0 hold.
 */
#include "driver/driver.h"
#include "driver/forms.h"
#include "copy/array.h"

/* The checks that come before all others: the handle, then the output. */
#define HANDLE_THEN_OUTPUT(out, handle)							\
	(!(handle) ? CUDA_ERROR_INVALID_HANDLE : NEEDS(out))

/* Initializers that copy the members of a descriptor of any of the four types into another type. */
#define MEMBERS_2D(d)									\
	.Width = (d)->Width, .Height = (d)->Height, .Format = (d)->Format,		\
	.NumChannels = (d)->NumChannels
#define MEMBERS_3D(d)									\
	MEMBERS_2D(d), .Depth = (d)->Depth, .Flags = (d)->Flags

static CUresult create_2d(CUarray *array, const CUDA_ARRAY_DESCRIPTOR *desc)
{
	if (!desc)
		return array_create(array, NULL);
	return array_create(array, &(const CUDA_ARRAY3D_DESCRIPTOR){
		MEMBERS_2D(desc),
	});
}

/**
 * cuArrayCreate_v2 - make a 1D or 2D array
 * @handle: the array
 * @desc: extents in elements (Height 0: 1D), format, number of channels
 *
 * The memory is zero. The array belongs to the current context, and ends with it. Follows "Memory Management".
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
 * @desc: as for cuArrayCreate_v2(), with Depth in elements or layers, and flags
 *
 * Sparse arrays and arrays with deferred mapping have no memory. Reads of sparse arrays return zero, and writes
 * are dropped. Copying an array with deferred mapping fails the context with LAUNCH_FAILED. Video formats need
 * CUDA_ARRAY3D_VIDEO_ENCODE_DECODE; array_format.c has all rules. Follows "Memory Management".
 *
 * Return: as cuArrayCreate_v2(); NOT_SUPPORTED for surfaces of block compressed formats.
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
		*desc = (CUDA_ARRAY_DESCRIPTOR){ MEMBERS_2D(&d) };
	return result;
}

/** cuArrayGetDescriptor_v2 - width, height and format of an array of any kind; needs no context */
CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *desc, CUarray array)
{
	CALL_AFTER(HANDLE_THEN_OUTPUT(desc, array), descriptor_2d(desc, array), desc, array);
}

/** cuArray3DGetDescriptor_v2 - how an array, level or plane was made; needs no context */
CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *desc, CUarray array)
{
	CALL_AFTER(HANDLE_THEN_OUTPUT(desc, array), descriptor_3d(desc, array), desc, array);
}

/**
 * cuArrayDestroy - destroy an array
 * @array: an array of any context. A level or a plane is not destroyed: it ends with the array that contains it
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
 * @array: an array whose format has planes; only the planes can be copied
 * @index: 0 is luminance
 *
 * Return: INVALID_VALUE if there is no such plane, INVALID_HANDLE.
 */
CUresult cuArrayGetPlane(CUarray *plane, CUarray array, unsigned int index)
{
	CALL_AFTER(HANDLE_THEN_OUTPUT(plane, array), array_plane(plane, array, index), plane, array, index);
}

/**
 * cuArrayGetSparseProperties - tiles of a sparse array
 * @props: receives the extents of a tile in elements. An array that is smaller than a tile in a direction is
 *	one mip tail, of @props->miptailSize bytes
 * @array: an array made with CUDA_ARRAY3D_SPARSE, not a level
 *
 * Return: INVALID_VALUE, also if @array is not sparse.
 */
CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *props, CUarray array)
{
	CALL_AFTER(NEEDS(props && array), array_sparse(props, array), props, array);
}

/**
 * cuArrayGetMemoryRequirements - the memory that an array has to be mapped to
 * @req: bytes and alignment, both multiples of 64 KiB
 * @array: an array made with CUDA_ARRAY3D_DEFERRED_MAPPING, not a level
 * @device: any
 *
 * Return: INVALID_VALUE, also if the mapping of @array is not deferred.
 */
CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *req, CUarray array,
				      CUdevice device)
{
	CALL_AFTER(NEEDS(req && array), array_requirements(req, array, device), req, array, device);
}

/**
 * cuMipmappedArrayCreate - make an array of several levels
 * @handle: the mipmapped array
 * @desc: the first level, as for cuArray3DCreate()
 * @levels: the number of levels; 0 counts as 1. The array has at most as many levels as halving the largest
 *	extent down to 1 gives. Layers and faces are not halved
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
	CALL_AFTER(NEEDS_HANDLE(mipmap), mipmap_level(level_array, mipmap, level), level_array,
		   mipmap, level);
}

/**
 * cuMipmappedArrayGetSparseProperties - as cuArrayGetSparseProperties(), and which levels are the mip tail
 *
 * Levels smaller than a tile are the mip tail. @props->miptailSize is the mip tail's size in one layer, unless
 * the mip tail contains the first level.
 */
CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *props,
					     CUmipmappedArray mipmap)
{
	CALL_AFTER(NEEDS(props && mipmap), mipmap_sparse(props, mipmap), props, mipmap);
}

/** cuMipmappedArrayGetMemoryRequirements - as cuArrayGetMemoryRequirements(), for all levels together */
CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *req,
					       CUmipmappedArray mipmap, CUdevice device)
{
	CALL_AFTER(NEEDS(req && mipmap), mipmap_requirements(req, mipmap, device), req, mipmap, device);
}

/* ---- linear copies */

/** cuMemcpyAtoA_v2 - array to array, of any formats; returns at once */
COPY_FORMS(cuMemcpyAtoA_v2, (CUarray dst_array, size_t dst_offset, CUarray src_array,
			     size_t src_offset, size_t bytes),
	   copy_array(dst_array, dst_offset, src_array, src_offset, bytes, NULL, flags), dst_array,
	   dst_offset, src_array, src_offset, bytes)

/** cuMemcpyAtoD_v2 - array to device; returns at once */
COPY_FORMS(cuMemcpyAtoD_v2, (CUdeviceptr dst, CUarray src_array, size_t src_offset, size_t bytes),
	   copy_from_array(dst, DEV, src_array, src_offset, bytes, NULL, flags), dst, src_array,
	   src_offset, bytes)

/** cuMemcpyAtoH_v2 - array to host; returns when it is done */
COPY_FORMS(cuMemcpyAtoH_v2, (void *dst_host, CUarray src_array, size_t src_offset, size_t bytes),
	   copy_from_array(host_address(dst_host), NAMED, src_array, src_offset, bytes, NULL,
			   flags | CALL_WAIT), dst_host, src_array, src_offset, bytes)

/** cuMemcpyDtoA_v2 - device to array; returns at once */
COPY_FORMS(cuMemcpyDtoA_v2, (CUarray dst_array, size_t dst_offset, CUdeviceptr src, size_t bytes),
	   copy_to_array(dst_array, dst_offset, src, DEV, bytes, NULL, flags), dst_array,
	   dst_offset, src, bytes)

/** cuMemcpyHtoA_v2 - host to array; returns when it is done */
COPY_FORMS(cuMemcpyHtoA_v2,
	   (CUarray dst_array, size_t dst_offset, const void *src_host, size_t bytes),
	   copy_to_array(dst_array, dst_offset, host_address(src_host), NAMED, bytes, NULL,
			 flags | CALL_WAIT), dst_array, dst_offset, src_host, bytes)

/** cuMemcpyAtoHAsync_v2 - array to host, in stream order */
COPY_FORMS_ASYNC(cuMemcpyAtoHAsync_v2, (void *dst_host, CUarray src_array, size_t src_offset,
					size_t bytes, CUstream stream),
		 copy_from_array(host_address(dst_host), NAMED, src_array, src_offset, bytes, stream,
				 flags), dst_host, src_array, src_offset, bytes, stream)

/** cuMemcpyHtoAAsync_v2 - host to array, in stream order */
COPY_FORMS_ASYNC(cuMemcpyHtoAAsync_v2, (CUarray dst_array, size_t dst_offset, const void *src_host,
					size_t bytes, CUstream stream),
		 copy_to_array(dst_array, dst_offset, host_address(src_host), NAMED, bytes, stream,
			       flags), dst_array, dst_offset, src_host, bytes, stream)

/* ---- the first API: sizes and addresses of 32 bits; device memory has no such addresses */

static CUresult create_2d_32(CUarray *array, const CUDA_ARRAY_DESCRIPTOR_v1 *desc)
{
	if (!desc)
		return array_create(array, NULL);
	return array_create(array, &(const CUDA_ARRAY3D_DESCRIPTOR){
		MEMBERS_2D(desc),
	});
}

static CUresult create_3d_32(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR_v1 *desc)
{
	if (!desc)
		return array_create(array, NULL);
	return array_create(array, &(const CUDA_ARRAY3D_DESCRIPTOR){
		MEMBERS_3D(desc),
	});
}

/* Extents fit 32 bits: creation refuses extents above the device's limits. */
static CUresult descriptor_2d_32(CUDA_ARRAY_DESCRIPTOR_v1 *desc, CUarray array)
{
	CUDA_ARRAY3D_DESCRIPTOR d;
	CUresult result = descriptor_3d(&d, array);

	if (!result)
		*desc = (CUDA_ARRAY_DESCRIPTOR_v1){ MEMBERS_2D(&d) };
	return result;
}

static CUresult descriptor_3d_32(CUDA_ARRAY3D_DESCRIPTOR_v1 *desc, CUarray array)
{
	CUDA_ARRAY3D_DESCRIPTOR d;
	CUresult result = descriptor_3d(&d, array);

	if (!result)
		*desc = (CUDA_ARRAY3D_DESCRIPTOR_v1){ MEMBERS_3D(&d) };
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
	CALL_AFTER(HANDLE_THEN_OUTPUT(desc, array), descriptor_2d_32(desc, array), desc, array);
}

/** cuArray3DGetDescriptor - how an array was made */
CUresult cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR_v1 *desc, CUarray array)
{
	CALL_AFTER(HANDLE_THEN_OUTPUT(desc, array), descriptor_3d_32(desc, array), desc, array);
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
	CALL(copy_from_array(host_address(dst_host), NAMED, src_array, src_offset, bytes, NULL,
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
	CALL(copy_to_array(dst_array, dst_offset, host_address(src_host), NAMED, bytes, NULL,
			   CALL_SYNC | CALL_WAIT), dst_array, dst_offset, src_host, bytes);
}

/** cuMemcpyAtoHAsync - array to host, in stream order */
CUresult cuMemcpyAtoHAsync(void *dst_host, CUarray src_array, unsigned int src_offset,
			   unsigned int bytes, CUstream stream)
{
	CALL(copy_from_array(host_address(dst_host), NAMED, src_array, src_offset, bytes, stream, 0),
	     dst_host, src_array, src_offset, bytes, stream);
}

/** cuMemcpyHtoAAsync - host to array, in stream order */
CUresult cuMemcpyHtoAAsync(CUarray dst_array, unsigned int dst_offset, const void *src_host,
			   unsigned int bytes, CUstream stream)
{
	CALL(copy_to_array(dst_array, dst_offset, host_address(src_host), NAMED, bytes, stream, 0),
	     dst_array, dst_offset, src_host, bytes, stream);
}
