// SPDX-License-Identifier: MIT
/*
 * The runtime API's chapter "Memory Management": arrays, and cudaGetChannelDesc().
 *
 * Owns nothing: arrays are the driver's. The runtime describes an element by the bits of its components and a
 * kind, where the driver has a format and a number of channels; the table below translates. Descriptions with gaps, of
 * three components or of components of different sizes exist only where the table has them.
 *
 * Rules, as recorded from CUDA's runtime: an array has at least one element in width, and a width of 0 is
 * cudaErrorInvalidValue before the description is read. Once the arguments are known not to be NULL, a failed
 * allocation stores NULL. Freeing NULL succeeds. Flags are passed on unchanged.
 */
#include "runtime/cuda_rt_array.h"
#include "abi/entry.h"

/* ---- formats */

/* Formats with any of 1, 2 and 4 channels of @bits. */
static const struct plain_format {
	enum cudaChannelFormatKind kind;
	int bits;
	CUarray_format format;
} plain_formats[] = {
	{ cudaChannelFormatKindSigned, 8, CU_AD_FORMAT_SIGNED_INT8 },
	{ cudaChannelFormatKindSigned, 16, CU_AD_FORMAT_SIGNED_INT16 },
	{ cudaChannelFormatKindSigned, 32, CU_AD_FORMAT_SIGNED_INT32 },
	{ cudaChannelFormatKindUnsigned, 8, CU_AD_FORMAT_UNSIGNED_INT8 },
	{ cudaChannelFormatKindUnsigned, 16, CU_AD_FORMAT_UNSIGNED_INT16 },
	{ cudaChannelFormatKindUnsigned, 32, CU_AD_FORMAT_UNSIGNED_INT32 },
	{ cudaChannelFormatKindFloat, 16, CU_AD_FORMAT_HALF },
	{ cudaChannelFormatKindFloat, 32, CU_AD_FORMAT_FLOAT },
};

/* Formats of one description: the last of @bits is for the fourth channel, @element bytes of an element or a block. */
static const struct fixed_format {
	enum cudaChannelFormatKind kind;
	unsigned char channels, bits, last;
	unsigned char element, block;
	CUarray_format format;
} fixed_formats[] = {
#define FIXED(k, n, b, f)	\
	{ cudaChannelFormatKind ## k, n, b, b, (n) * (b) / 8, 1, CU_AD_FORMAT_ ## f }
#define BLOCKS(k, n, b, bytes, f)	\
	{ cudaChannelFormatKind ## k, n, b, b, bytes, 4, CU_AD_FORMAT_ ## f }
	{ cudaChannelFormatKindNV12, 3, 8, 0, 1, 1, CU_AD_FORMAT_NV12 },
	{ cudaChannelFormatKindUnsignedNormalized1010102, 4, 10, 2, 4, 1,
	  CU_AD_FORMAT_UNORM_INT_101010_2 },
	FIXED(UnsignedNormalized8X1, 1, 8, UNORM_INT8X1),
	FIXED(UnsignedNormalized8X2, 2, 8, UNORM_INT8X2),
	FIXED(UnsignedNormalized8X4, 4, 8, UNORM_INT8X4),
	FIXED(UnsignedNormalized16X1, 1, 16, UNORM_INT16X1),
	FIXED(UnsignedNormalized16X2, 2, 16, UNORM_INT16X2),
	FIXED(UnsignedNormalized16X4, 4, 16, UNORM_INT16X4),
	FIXED(SignedNormalized8X1, 1, 8, SNORM_INT8X1),
	FIXED(SignedNormalized8X2, 2, 8, SNORM_INT8X2),
	FIXED(SignedNormalized8X4, 4, 8, SNORM_INT8X4),
	FIXED(SignedNormalized16X1, 1, 16, SNORM_INT16X1),
	FIXED(SignedNormalized16X2, 2, 16, SNORM_INT16X2),
	FIXED(SignedNormalized16X4, 4, 16, SNORM_INT16X4),
	BLOCKS(UnsignedBlockCompressed1, 4, 8, 8, BC1_UNORM),
	BLOCKS(UnsignedBlockCompressed1SRGB, 4, 8, 8, BC1_UNORM_SRGB),
	BLOCKS(UnsignedBlockCompressed2, 4, 8, 16, BC2_UNORM),
	BLOCKS(UnsignedBlockCompressed2SRGB, 4, 8, 16, BC2_UNORM_SRGB),
	BLOCKS(UnsignedBlockCompressed3, 4, 8, 16, BC3_UNORM),
	BLOCKS(UnsignedBlockCompressed3SRGB, 4, 8, 16, BC3_UNORM_SRGB),
	BLOCKS(UnsignedBlockCompressed4, 1, 8, 8, BC4_UNORM),
	BLOCKS(SignedBlockCompressed4, 1, 8, 8, BC4_SNORM),
	BLOCKS(UnsignedBlockCompressed5, 2, 8, 16, BC5_UNORM),
	BLOCKS(SignedBlockCompressed5, 2, 8, 16, BC5_SNORM),
	BLOCKS(UnsignedBlockCompressed6H, 3, 16, 16, BC6H_UF16),
	BLOCKS(SignedBlockCompressed6H, 3, 16, 16, BC6H_SF16),
	BLOCKS(UnsignedBlockCompressed7, 4, 8, 16, BC7_UNORM),
	BLOCKS(UnsignedBlockCompressed7SRGB, 4, 8, 16, BC7_UNORM_SRGB),
#undef FIXED
#undef BLOCKS
};

#define COUNT(table)	(sizeof(table) / sizeof((table)[0]))

/* The description of @channels components of @bits, the fourth of @last. */
static struct cudaChannelFormatDesc channel_desc(enum cudaChannelFormatKind kind, unsigned int channels,
					     int bits, int last)
{
	return cudaCreateChannelDesc(bits, channels > 1 ? bits : 0, channels > 2 ? bits : 0,
				     channels > 3 ? last : 0, kind);
}

static bool channel_is(const struct cudaChannelFormatDesc *have, enum cudaChannelFormatKind kind,
		      unsigned int channels, int bits, int last)
{
	struct cudaChannelFormatDesc want = channel_desc(kind, channels, bits, last);

	return have->x == want.x && have->y == want.y && have->z == want.z && have->w == want.w &&
	       have->f == kind;
}

/* The driver's format and number of channels of a description. False if there is none. */
static bool format_of(const struct cudaChannelFormatDesc *c, CUarray_format *format,
		      unsigned int *channels)
{
	size_t i;

	for (i = 0; i < COUNT(plain_formats); i++) {
		const struct plain_format *f = &plain_formats[i];

		for (*channels = 1; *channels <= 4; *channels *= 2) {
			if (!channel_is(c, f->kind, *channels, f->bits, f->bits))
				continue;
			*format = f->format;
			return true;
		}
	}
	for (i = 0; i < COUNT(fixed_formats); i++) {
		const struct fixed_format *f = &fixed_formats[i];

		if (!channel_is(c, f->kind, f->channels, f->bits, f->last))
			continue;
		*format = f->format;
		*channels = f->channels;
		return true;
	}
	return false;
}

cudaError_t rt_array_desc(CUDA_ARRAY3D_DESCRIPTOR *desc, const struct cudaChannelFormatDesc *channels,
			  struct cudaExtent extent, unsigned int flags)
{
	*desc = (CUDA_ARRAY3D_DESCRIPTOR) {
		.Width = extent.width, .Height = extent.height, .Depth = extent.depth,
		.Flags = flags,
	};
	/* CUDA's runtime accepts flag bit 31, which means nothing, only for arrays without depth. */
	if (!extent.width || (extent.depth && flags & 1u << 31))
		return cudaErrorInvalidValue;
	return format_of(channels, &desc->Format, &desc->NumChannels) ?
	       cudaSuccess : cudaErrorInvalidChannelDescriptor;
}

/* The description and the shape of an element; @shape gets the members element and block. */
static cudaError_t element_of(const CUDA_ARRAY3D_DESCRIPTOR *d, struct cudaChannelFormatDesc *channels,
			      struct rt_shape *shape)
{
	size_t i;

	for (i = 0; i < COUNT(plain_formats); i++) {
		const struct plain_format *f = &plain_formats[i];

		if (f->format != d->Format)
			continue;
		*channels = channel_desc(f->kind, d->NumChannels, f->bits, f->bits);
		shape->element = f->bits / 8 * d->NumChannels;
		shape->block = 1;
		return cudaSuccess;
	}
	for (i = 0; i < COUNT(fixed_formats); i++) {
		const struct fixed_format *f = &fixed_formats[i];

		if (f->format != d->Format)
			continue;
		*channels = channel_desc(f->kind, f->channels, f->bits, f->last);
		shape->element = f->element;
		shape->block = f->block;
		return cudaSuccess;
	}
	return cudaErrorInvalidChannelDescriptor;
}

static size_t array_blocks(size_t elements, unsigned int block)
{
	return (elements + block - 1) / block;
}

cudaError_t rt_array_shape(struct rt_shape *shape, cudaArray_const_t array)
{
	struct cudaChannelFormatDesc channels;
	CUDA_ARRAY3D_DESCRIPTOR d;
	cudaError_t error = rt_code(cuArray3DGetDescriptor_v2(&d, rt_array(array)));

	if (!error)
		error = element_of(&d, &channels, shape);
	if (error)
		return error;
	shape->row = array_blocks(d.Width, shape->block) * shape->element;
	shape->rows = d.Height ? array_blocks(d.Height, shape->block) : 1;
	return cudaSuccess;
}

/* ---- arrays */

static cudaError_t malloc_array(cudaArray_t *array, const struct cudaChannelFormatDesc *channels,
				struct cudaExtent extent, unsigned int flags)
{
	CUDA_ARRAY3D_DESCRIPTOR d;
	CUarray handle;
	cudaError_t error;

	if (!array || !channels)
		return cudaErrorInvalidValue;
	*array = NULL;
	error = rt_array_desc(&d, channels, extent, flags);
	if (!error)
		error = rt_code(cuArray3DCreate_v2(&handle, &d));
	if (!error)
		*array = (cudaArray_t)handle;
	return error;
}

static struct cudaExtent extent_2d(size_t width, size_t height)
{
	return (struct cudaExtent) { .width = width, .height = height };
}

/**
 * cudaMallocArray - make a 1D or 2D array
 * @desc: the components of an element
 * @width: elements, not 0
 * @height: elements, 0 for a 1D array
 * @flags: cudaArraySurfaceLoadStore, cudaArrayTextureGather, cudaArraySparse, cudaArrayDeferredMapping
 *
 * The memory is zero. Return: cudaErrorInvalidValue; cudaErrorInvalidChannelDescriptor if there is no such element;
 * cudaErrorMemoryAllocation, cudaErrorNotSupported.
 */
BODY cudaError_t rt_malloc_array_body(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
				      size_t width, size_t height, unsigned int flags)
{
	RT_CONTEXT(malloc_array(array, desc, extent_2d(width, height), flags));
}
ENTRY(cudaMallocArray, rt_malloc_array_body);

/**
 * cudaMalloc3DArray - make an array of any kind
 * @extent: elements; with cudaArrayLayered the depth is the number of layers
 *
 * Return: as cudaMallocArray().
 */
BODY cudaError_t rt_malloc_3d_array_body(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
					 struct cudaExtent extent, unsigned int flags)
{
	RT_CONTEXT(malloc_array(array, desc, extent, flags));
}
ENTRY(cudaMalloc3DArray, rt_malloc_3d_array_body);

static cudaError_t malloc_mipmap(cudaMipmappedArray_t *mipmap,
				 const struct cudaChannelFormatDesc *channels,
				 struct cudaExtent extent, unsigned int levels, unsigned int flags)
{
	CUDA_ARRAY3D_DESCRIPTOR d;
	CUmipmappedArray handle;
	cudaError_t error;

	if (!mipmap || !channels)
		return cudaErrorInvalidValue;
	*mipmap = NULL;
	error = rt_array_desc(&d, channels, extent, flags);
	if (!error)
		error = rt_code(cuMipmappedArrayCreate(&handle, &d, levels));
	if (!error)
		*mipmap = (cudaMipmappedArray_t)handle;
	return error;
}

/** cudaMallocMipmappedArray - make an array of @levels levels, as cuMipmappedArrayCreate() */
BODY cudaError_t rt_malloc_mipmap_body(cudaMipmappedArray_t *mipmap,
				       const struct cudaChannelFormatDesc *desc,
				       struct cudaExtent extent, unsigned int levels,
				       unsigned int flags)
{
	RT_CONTEXT(malloc_mipmap(mipmap, desc, extent, levels, flags));
}
ENTRY(cudaMallocMipmappedArray, rt_malloc_mipmap_body);

/** cudaFreeArray - destroy an array, as cuArrayDestroy(); NULL succeeds */
BODY cudaError_t rt_free_array_body(cudaArray_t array)
{
	RT_CONTEXT(array ? rt_code(cuArrayDestroy(rt_array(array))) : cudaSuccess);
}
ENTRY(cudaFreeArray, rt_free_array_body);

/** cudaFreeMipmappedArray - destroy an array with its levels; NULL succeeds */
BODY cudaError_t rt_free_mipmap_body(cudaMipmappedArray_t mipmap)
{
	RT_CONTEXT(mipmap ? rt_code(cuMipmappedArrayDestroy(rt_mipmap(mipmap))) : cudaSuccess);
}
ENTRY(cudaFreeMipmappedArray, rt_free_mipmap_body);

/** cudaGetMipmappedArrayLevel - one level, as cuMipmappedArrayGetLevel() */
cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t *level_array, cudaMipmappedArray_const_t mipmap,
				       unsigned int level)
{
	RT_CONTEXT(rt_code(cuMipmappedArrayGetLevel((CUarray *)level_array, rt_mipmap(mipmap),
						    level)));
}

static cudaError_t array_info(struct cudaChannelFormatDesc *channels, struct cudaExtent *extent,
			      unsigned int *flags, cudaArray_const_t array)
{
	struct cudaChannelFormatDesc found;
	CUDA_ARRAY3D_DESCRIPTOR d;
	struct rt_shape shape;
	cudaError_t error = rt_code(cuArray3DGetDescriptor_v2(&d, rt_array(array)));

	if (!error && channels)
		error = element_of(&d, &found, &shape);
	if (error)
		return error;
	if (channels)
		*channels = found;
	if (extent)
		*extent = (struct cudaExtent) { d.Width, d.Height, d.Depth };
	if (flags)
		*flags = d.Flags;
	return cudaSuccess;
}

/**
 * cudaArrayGetInfo - how an array, level or plane was made
 * @desc: the components of an element; each output may be NULL
 *
 * Return: cudaErrorInvalidResourceHandle; cudaErrorInvalidChannelDescriptor if the driver API made the array in a
 * format that the runtime API does not have.
 */
cudaError_t cudaArrayGetInfo(struct cudaChannelFormatDesc *desc, struct cudaExtent *extent,
			     unsigned int *flags, cudaArray_t array)
{
	RT_CONTEXT(array_info(desc, extent, flags, array));
}

/** cudaGetChannelDesc - the components of an array's elements, as cudaArrayGetInfo(); @desc must not be NULL */
cudaError_t cudaGetChannelDesc(struct cudaChannelFormatDesc *desc, cudaArray_const_t array)
{
	RT_CONTEXT(desc ? array_info(desc, NULL, NULL, array) : cudaErrorInvalidValue);
}

/** cudaArrayGetPlane - one plane, as cuArrayGetPlane() */
cudaError_t cudaArrayGetPlane(cudaArray_t *plane, cudaArray_t array, unsigned int index)
{
	RT_CONTEXT(rt_code(cuArrayGetPlane((CUarray *)plane, rt_array(array), index)));
}

/** cudaArrayGetMemoryRequirements - as cuArrayGetMemoryRequirements(), for any number of a device */
cudaError_t cudaArrayGetMemoryRequirements(struct cudaArrayMemoryRequirements *req, cudaArray_t array,
					   int device)
{
	(void)device;
	RT_CONTEXT(rt_code(cuArrayGetMemoryRequirements((CUDA_ARRAY_MEMORY_REQUIREMENTS *)req,
							rt_array(array), 0)));
}

/** cudaMipmappedArrayGetMemoryRequirements - as cuMipmappedArrayGetMemoryRequirements(), likewise */
cudaError_t cudaMipmappedArrayGetMemoryRequirements(struct cudaArrayMemoryRequirements *req,
						    cudaMipmappedArray_t mipmap, int device)
{
	(void)device;
	RT_CONTEXT(rt_code(cuMipmappedArrayGetMemoryRequirements((CUDA_ARRAY_MEMORY_REQUIREMENTS *)req,
								 rt_mipmap(mipmap), 0)));
}

/** cudaArrayGetSparseProperties - as cuArrayGetSparseProperties() */
cudaError_t cudaArrayGetSparseProperties(struct cudaArraySparseProperties *props, cudaArray_t array)
{
	RT_CONTEXT(rt_code(cuArrayGetSparseProperties((CUDA_ARRAY_SPARSE_PROPERTIES *)props,
						      rt_array(array))));
}

/** cudaMipmappedArrayGetSparseProperties - as cuMipmappedArrayGetSparseProperties() */
cudaError_t cudaMipmappedArrayGetSparseProperties(struct cudaArraySparseProperties *props,
						  cudaMipmappedArray_t mipmap)
{
	RT_CONTEXT(rt_code(cuMipmappedArrayGetSparseProperties((CUDA_ARRAY_SPARSE_PROPERTIES *)props,
							       rt_mipmap(mipmap))));
}
