/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers for the tests of arrays: the formats as the tests know them (written down apart from the
 * library's), descriptors, and copies of boxes.  Include this after cuda_util.h.
 */
#ifndef GPUMEM_SELFTESTS_ARRAY_UTIL_H
#define GPUMEM_SELFTESTS_ARRAY_UTIL_H

#include "cuda_util.h"

#define U8	CU_AD_FORMAT_UNSIGNED_INT8
#define U16	CU_AD_FORMAT_UNSIGNED_INT16
#define U32	CU_AD_FORMAT_UNSIGNED_INT32
#define F32	CU_AD_FORMAT_FLOAT

#define LAYERED		CUDA_ARRAY3D_LAYERED
#define SURFACE		CUDA_ARRAY3D_SURFACE_LDST
#define CUBEMAP		CUDA_ARRAY3D_CUBEMAP
#define GATHER		CUDA_ARRAY3D_TEXTURE_GATHER
#define SPARSE		CUDA_ARRAY3D_SPARSE
#define DEFERRED	CUDA_ARRAY3D_DEFERRED_MAPPING
#define VIDEO		CUDA_ARRAY3D_VIDEO_ENCODE_DECODE

struct format {
	CUarray_format format;
	const char *channels;		/* a digit for each number of channels that it may have */
	/* Of a channel if several numbers are possible, or if planar; else of an element/block. */
	unsigned int bytes;
	unsigned int block;		/* elements on a side: 4, or 1; 0: a video format */
	/* Per plane: channels, and the divisors of width and height; 0 channels: no such plane. */
	unsigned int plane[3][3];
};

static const struct format formats[] = {
	{ CU_AD_FORMAT_UNSIGNED_INT8, "124", 1, 1, { { 0 } } },
	{ CU_AD_FORMAT_UNSIGNED_INT16, "124", 2, 1, { { 0 } } },
	{ CU_AD_FORMAT_UNSIGNED_INT32, "124", 4, 1, { { 0 } } },
	{ CU_AD_FORMAT_SIGNED_INT8, "124", 1, 1, { { 0 } } },
	{ CU_AD_FORMAT_SIGNED_INT16, "124", 2, 1, { { 0 } } },
	{ CU_AD_FORMAT_SIGNED_INT32, "124", 4, 1, { { 0 } } },
	{ CU_AD_FORMAT_HALF, "124", 2, 1, { { 0 } } },
	{ CU_AD_FORMAT_FLOAT, "124", 4, 1, { { 0 } } },
	{ CU_AD_FORMAT_UNORM_INT_101010_2, "4", 4, 1, { { 0 } } },
	{ CU_AD_FORMAT_UNORM_INT8X1, "1", 1, 1, { { 0 } } },
	{ CU_AD_FORMAT_UNORM_INT8X2, "2", 2, 1, { { 0 } } },
	{ CU_AD_FORMAT_UNORM_INT8X4, "4", 4, 1, { { 0 } } },
	{ CU_AD_FORMAT_UNORM_INT16X1, "1", 2, 1, { { 0 } } },
	{ CU_AD_FORMAT_UNORM_INT16X2, "2", 4, 1, { { 0 } } },
	{ CU_AD_FORMAT_UNORM_INT16X4, "4", 8, 1, { { 0 } } },
	{ CU_AD_FORMAT_SNORM_INT8X1, "1", 1, 1, { { 0 } } },
	{ CU_AD_FORMAT_SNORM_INT8X2, "2", 2, 1, { { 0 } } },
	{ CU_AD_FORMAT_SNORM_INT8X4, "4", 4, 1, { { 0 } } },
	{ CU_AD_FORMAT_SNORM_INT16X1, "1", 2, 1, { { 0 } } },
	{ CU_AD_FORMAT_SNORM_INT16X2, "2", 4, 1, { { 0 } } },
	{ CU_AD_FORMAT_SNORM_INT16X4, "4", 8, 1, { { 0 } } },
	{ CU_AD_FORMAT_BC1_UNORM, "4", 8, 4, { { 0 } } },
	{ CU_AD_FORMAT_BC1_UNORM_SRGB, "4", 8, 4, { { 0 } } },
	{ CU_AD_FORMAT_BC2_UNORM, "4", 16, 4, { { 0 } } },
	{ CU_AD_FORMAT_BC2_UNORM_SRGB, "4", 16, 4, { { 0 } } },
	{ CU_AD_FORMAT_BC3_UNORM, "4", 16, 4, { { 0 } } },
	{ CU_AD_FORMAT_BC3_UNORM_SRGB, "4", 16, 4, { { 0 } } },
	{ CU_AD_FORMAT_BC4_UNORM, "1", 8, 4, { { 0 } } },
	{ CU_AD_FORMAT_BC4_SNORM, "1", 8, 4, { { 0 } } },
	{ CU_AD_FORMAT_BC5_UNORM, "2", 16, 4, { { 0 } } },
	{ CU_AD_FORMAT_BC5_SNORM, "2", 16, 4, { { 0 } } },
	{ CU_AD_FORMAT_BC6H_UF16, "3", 16, 4, { { 0 } } },
	{ CU_AD_FORMAT_BC6H_SF16, "3", 16, 4, { { 0 } } },
	{ CU_AD_FORMAT_BC7_UNORM, "4", 16, 4, { { 0 } } },
	{ CU_AD_FORMAT_BC7_UNORM_SRGB, "4", 16, 4, { { 0 } } },
	{ CU_AD_FORMAT_NV12, "3", 1, 0, { { 1, 1, 1 }, { 2, 2, 2 } } },
	{ CU_AD_FORMAT_P010, "3", 2, 0, { { 1, 1, 1 }, { 2, 2, 2 } } },
	{ CU_AD_FORMAT_P016, "3", 2, 0, { { 1, 1, 1 }, { 2, 2, 2 } } },
	{ CU_AD_FORMAT_NV16, "3", 1, 0, { { 1, 1, 1 }, { 2, 2, 1 } } },
	{ CU_AD_FORMAT_P210, "3", 2, 0, { { 1, 1, 1 }, { 2, 2, 1 } } },
	{ CU_AD_FORMAT_P216, "3", 2, 0, { { 1, 1, 1 }, { 2, 2, 1 } } },
	{ CU_AD_FORMAT_Y444_PLANAR8, "3", 1, 0, { { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 } } },
	{ CU_AD_FORMAT_Y444_PLANAR10, "3", 2, 0, { { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 } } },
	{ CU_AD_FORMAT_YUV444_8bit_SemiPlanar, "3", 1, 0, { { 1, 1, 1 }, { 2, 1, 1 } } },
	{ CU_AD_FORMAT_YUV444_16bit_SemiPlanar, "3", 2, 0, { { 1, 1, 1 }, { 2, 1, 1 } } },
	{ CU_AD_FORMAT_YUY2, "4", 2, 0, { { 0 } } },
	{ CU_AD_FORMAT_Y210, "2", 4, 0, { { 0 } } },
	{ CU_AD_FORMAT_Y216, "2", 4, 0, { { 0 } } },
	{ CU_AD_FORMAT_AYUV, "4", 4, 0, { { 0 } } },
	{ CU_AD_FORMAT_Y410, "1", 4, 0, { { 0 } } },
	{ CU_AD_FORMAT_Y416, "4", 8, 0, { { 0 } } },
	{ CU_AD_FORMAT_UINT8_PACKED_422, "4", 2, 0, { { 0 } } },
	{ CU_AD_FORMAT_UINT8_PACKED_444, "4", 4, 0, { { 0 } } },
	{ CU_AD_FORMAT_UINT8_SEMIPLANAR_420, "3", 1, 0, { { 1, 1, 1 }, { 2, 2, 2 } } },
	{ CU_AD_FORMAT_UINT16_SEMIPLANAR_420, "3", 2, 0, { { 1, 1, 1 }, { 2, 2, 2 } } },
	{ CU_AD_FORMAT_UINT8_SEMIPLANAR_422, "3", 1, 0, { { 1, 1, 1 }, { 2, 2, 1 } } },
	{ CU_AD_FORMAT_UINT16_SEMIPLANAR_422, "3", 2, 0, { { 1, 1, 1 }, { 2, 2, 1 } } },
	{ CU_AD_FORMAT_UINT8_SEMIPLANAR_444, "3", 1, 0, { { 1, 1, 1 }, { 2, 1, 1 } } },
	{ CU_AD_FORMAT_UINT16_SEMIPLANAR_444, "3", 2, 0, { { 1, 1, 1 }, { 2, 1, 1 } } },
	{ CU_AD_FORMAT_UINT8_PLANAR_420, "3", 1, 0, { { 1, 1, 1 }, { 1, 2, 2 }, { 1, 2, 2 } } },
	{ CU_AD_FORMAT_UINT16_PLANAR_420, "3", 2, 0, { { 1, 1, 1 }, { 1, 2, 2 }, { 1, 2, 2 } } },
	{ CU_AD_FORMAT_UINT8_PLANAR_422, "3", 1, 0, { { 1, 1, 1 }, { 1, 2, 1 }, { 1, 2, 1 } } },
	{ CU_AD_FORMAT_UINT16_PLANAR_422, "3", 2, 0, { { 1, 1, 1 }, { 1, 2, 1 }, { 1, 2, 1 } } },
	{ CU_AD_FORMAT_UINT8_PLANAR_444, "3", 1, 0, { { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 } } },
	{ CU_AD_FORMAT_UINT16_PLANAR_444, "3", 2, 0, { { 1, 1, 1 }, { 1, 1, 1 }, { 1, 1, 1 } } },
};

/* Video formats need the flag VIDEO. */
static inline bool is_video(const struct format *f)
{
	return !f->block;
}

static inline bool is_blocks(const struct format *f)
{
	return f->block == 4;
}

static inline bool is_planar(const struct format *f)
{
	return f->plane[0][0];
}

/* Bytes of an element, or of a block. */
static inline unsigned int unit_of(const struct format *f, unsigned int channels)
{
	return f->channels[1] ? f->bytes * channels : f->bytes;
}

static inline CUDA_ARRAY3D_DESCRIPTOR describe(size_t w, size_t h, size_t d, CUarray_format format,
					       unsigned int channels, unsigned int flags)
{
	return (CUDA_ARRAY3D_DESCRIPTOR) {
		.Width = w, .Height = h, .Depth = d, .Format = format, .NumChannels = channels,
		.Flags = flags,
	};
}

static inline CUresult make(CUarray *a, size_t w, size_t h, size_t d, CUarray_format format,
			    unsigned int channels, unsigned int flags)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = describe(w, h, d, format, channels, flags);

	return cuArray3DCreate(a, &desc);
}

/* Make an array and destroy it at once: the first error. */
static inline CUresult can(size_t w, size_t h, size_t d, CUarray_format format,
			   unsigned int channels, unsigned int flags)
{
	CUarray a;
	CUresult result = make(&a, w, h, d, format, channels, flags);

	return result ? result : cuArrayDestroy(a);
}

static inline CUresult can_mipmap(size_t w, size_t h, size_t d, CUarray_format format,
				  unsigned int channels, unsigned int flags)
{
	CUDA_ARRAY3D_DESCRIPTOR desc = describe(w, h, d, format, channels, flags);
	CUmipmappedArray m;
	CUresult result = cuMipmappedArrayCreate(&m, &desc, 20);

	return result ? result : cuMipmappedArrayDestroy(m);
}

/* Copy a box of an array to dense host memory. */
static inline CUresult read_box(void *to, CUarray a, size_t x, size_t y, size_t z, size_t w,
				size_t h, size_t d)
{
	CUDA_MEMCPY3D c = {
		.srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = a,
		.srcXInBytes = x, .srcY = y, .srcZ = z,
		.dstMemoryType = CU_MEMORYTYPE_HOST, .dstHost = to, .dstPitch = w, .dstHeight = h,
		.WidthInBytes = w, .Height = h, .Depth = d,
	};

	return cuMemcpy3D(&c);
}

static inline CUresult write_box(CUarray a, const void *from, size_t x, size_t y, size_t z,
				 size_t w, size_t h, size_t d)
{
	CUDA_MEMCPY3D c = {
		.dstMemoryType = CU_MEMORYTYPE_ARRAY, .dstArray = a,
		.dstXInBytes = x, .dstY = y, .dstZ = z,
		.srcMemoryType = CU_MEMORYTYPE_HOST, .srcHost = from, .srcPitch = w, .srcHeight = h,
		.WidthInBytes = w, .Height = h, .Depth = d,
	};

	return cuMemcpy3D(&c);
}

/* A context, host memory, and an allocation that keeps the block of small arrays. */
#define ARRAY_FIXTURE(name)					\
FIXTURE(name)							\
{								\
	CUcontext ctx;						\
	unsigned char *host;	/* 4 MiB */			\
	CUdeviceptr keep;	/* keeps the block of small arrays */ \
	long long was;		/* used(0) with @keep alone */	\
};								\
								\
FIXTURE_SETUP(name)						\
{								\
	cuda_begin(_metadata, &self->ctx);			\
	self->host = calloc(1, 4 * MIB);			\
	ASSERT_NE(NULL, self->host);				\
	ASSERT_CU(cuMemAlloc(&self->keep, 1));			\
	self->was = used(0);					\
}								\
								\
QUIET_AFTERWARDS(name)

#endif
