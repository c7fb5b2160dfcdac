/* SPDX-License-Identifier: MIT */
/*
 * Arrays in the files of the runtime API: handles, formats, and the sizes of rows and elements.
 *
 * cuda_rt_array.c makes arrays and knows their formats; cuda_rt_array_copy.c and cuda_rt_memcpy.c copy them.
 * An array of the runtime is the driver's: the handles are the same pointers.
 */
#ifndef GPUMEM_CUDA_RT_ARRAY_H
#define GPUMEM_CUDA_RT_ARRAY_H

#include "runtime/runtime.h"

/*
 * The sizes of an array as copies count them. An element of a block compressed format is a block: its rows are
 * rows of blocks.
 */
struct rt_shape {
	unsigned int element;	/* bytes of an element, or of a block */
	unsigned int block;	/* elements on each side of a block, else 1 */
	size_t row;		/* bytes in a row */
	size_t rows;		/* at least 1 */
};

static inline CUarray rt_array(cudaArray_const_t array)
{
	return (CUarray)(uintptr_t)array;
}

static inline CUmipmappedArray rt_mipmap(cudaMipmappedArray_const_t mipmap)
{
	return (CUmipmappedArray)(uintptr_t)mipmap;
}

/*
 * Describe an array for the driver. cudaErrorInvalidChannelDescriptor if no format has the components of @channels.
 */
cudaError_t rt_array_desc(CUDA_ARRAY3D_DESCRIPTOR *desc, const struct cudaChannelFormatDesc *channels,
			  struct cudaExtent extent, unsigned int flags);
/*
 * The sizes of an array. cudaErrorInvalidResourceHandle; cudaErrorInvalidChannelDescriptor for a format that the
 * runtime does not have.
 */
cudaError_t rt_array_shape(struct rt_shape *shape, cudaArray_const_t array);

#endif /* GPUMEM_CUDA_RT_ARRAY_H */
