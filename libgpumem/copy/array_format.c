// SPDX-License-Identifier: MIT
/*
 * Formats of arrays, and which arrays a device can have.
 *
 * The rules are those of CUDA's documentation or, where it has none, of the recorded driver (580 on an H200):
 *
 *   - a format has one number of channels, or any of 1, 2 and 4;
 *   - limits are the attributes of the device, nothing else (the tables of cuArray3DCreate and
 *     cuMipmappedArrayCreate);
 *   - block formats have no 1D arrays (INVALID_VALUE) and no surfaces (NOT_SUPPORTED);
 *   - video formats need CUDA_ARRAY3D_VIDEO_ENCODE_DECODE and even width and height, and only 2D
 *     arrays, layered or not, without levels may have them; other formats ignore the flag;
 *   - only 2D arrays may have the flag for gathering; only 2D, 3D and layered 2D arrays without the
 *     flags for surfaces and deferred mapping may be sparse;
 *   - bit 31 of the flags is accepted.
 *
 * Widths of packed video formats are in elements. A group of four values of a 4:2:2 format (YUY2, Y210, Y216)
 * is two elements, so an element has half of the group's bytes.
 *
 * The recorded driver does not know the formats from UINT8_PACKED_422 to UINT16_PLANAR_444. They have the rules
 * of older formats of the same layout, or those that their names say.
 */
#include "copy/array.h"

#define ANY_CHANNELS	(1 << 1 | 1 << 2 | 1 << 4)

#define PLAIN(f, bytes)								\
	{ .format = CU_AD_FORMAT_ ## f, .channels = ANY_CHANNELS, .channel = bytes, .block = 1 }
#define FIXED(f, n, bytes)							\
	{ .format = CU_AD_FORMAT_ ## f, .channels = 1 << (n), .element = bytes, .block = 1 }
#define BLOCKS(f, n, bytes)							\
	{ .format = CU_AD_FORMAT_ ## f, .channels = 1 << (n), .element = bytes, .block = 4 }
#define PACKED(f, n, bytes)							\
	{ .format = CU_AD_FORMAT_ ## f, .channels = 1 << (n), .element = bytes, .block = 1,	\
	  .video = true }
/* One plane of luminance, and one of both chrominances. */
#define SEMIPLANAR(f, bits, xs, ys)						\
	{ .format = CU_AD_FORMAT_ ## f, .channels = 1 << 3, .block = 1, .video = true, .planes = 2, \
	  .plane = { { CU_AD_FORMAT_UNSIGNED_INT ## bits, 1, 0, 0 },		\
		     { CU_AD_FORMAT_UNSIGNED_INT ## bits, 2, xs, ys } } }
/* One plane of luminance, and one of each chrominance. */
#define PLANAR(f, bits, xs, ys)							\
	{ .format = CU_AD_FORMAT_ ## f, .channels = 1 << 3, .block = 1, .video = true, .planes = 3, \
	  .plane = { { CU_AD_FORMAT_UNSIGNED_INT ## bits, 1, 0, 0 },		\
		     { CU_AD_FORMAT_UNSIGNED_INT ## bits, 1, xs, ys },		\
		     { CU_AD_FORMAT_UNSIGNED_INT ## bits, 1, xs, ys } } }

static const struct array_format formats[] = {
	PLAIN(UNSIGNED_INT8, 1), PLAIN(UNSIGNED_INT16, 2), PLAIN(UNSIGNED_INT32, 4),
	PLAIN(SIGNED_INT8, 1), PLAIN(SIGNED_INT16, 2), PLAIN(SIGNED_INT32, 4),
	PLAIN(HALF, 2), PLAIN(FLOAT, 4),
	FIXED(UNORM_INT_101010_2, 4, 4),
	FIXED(UNORM_INT8X1, 1, 1), FIXED(UNORM_INT8X2, 2, 2), FIXED(UNORM_INT8X4, 4, 4),
	FIXED(UNORM_INT16X1, 1, 2), FIXED(UNORM_INT16X2, 2, 4), FIXED(UNORM_INT16X4, 4, 8),
	FIXED(SNORM_INT8X1, 1, 1), FIXED(SNORM_INT8X2, 2, 2), FIXED(SNORM_INT8X4, 4, 4),
	FIXED(SNORM_INT16X1, 1, 2), FIXED(SNORM_INT16X2, 2, 4), FIXED(SNORM_INT16X4, 4, 8),
	BLOCKS(BC1_UNORM, 4, 8), BLOCKS(BC1_UNORM_SRGB, 4, 8),
	BLOCKS(BC2_UNORM, 4, 16), BLOCKS(BC2_UNORM_SRGB, 4, 16),
	BLOCKS(BC3_UNORM, 4, 16), BLOCKS(BC3_UNORM_SRGB, 4, 16),
	BLOCKS(BC4_UNORM, 1, 8), BLOCKS(BC4_SNORM, 1, 8),
	BLOCKS(BC5_UNORM, 2, 16), BLOCKS(BC5_SNORM, 2, 16),
	BLOCKS(BC6H_UF16, 3, 16), BLOCKS(BC6H_SF16, 3, 16),
	BLOCKS(BC7_UNORM, 4, 16), BLOCKS(BC7_UNORM_SRGB, 4, 16),
	SEMIPLANAR(NV12, 8, 1, 1), SEMIPLANAR(P010, 16, 1, 1), SEMIPLANAR(P016, 16, 1, 1),
	SEMIPLANAR(NV16, 8, 1, 0), SEMIPLANAR(P210, 16, 1, 0), SEMIPLANAR(P216, 16, 1, 0),
	SEMIPLANAR(YUV444_8bit_SemiPlanar, 8, 0, 0),
	SEMIPLANAR(YUV444_16bit_SemiPlanar, 16, 0, 0),
	PLANAR(Y444_PLANAR8, 8, 0, 0), PLANAR(Y444_PLANAR10, 16, 0, 0),
	PACKED(YUY2, 4, 2), PACKED(Y210, 2, 4), PACKED(Y216, 2, 4),
	PACKED(AYUV, 4, 4), PACKED(Y410, 1, 4), PACKED(Y416, 4, 8),
	PACKED(UINT8_PACKED_422, 4, 2), PACKED(UINT8_PACKED_444, 4, 4),
	SEMIPLANAR(UINT8_SEMIPLANAR_420, 8, 1, 1), SEMIPLANAR(UINT16_SEMIPLANAR_420, 16, 1, 1),
	SEMIPLANAR(UINT8_SEMIPLANAR_422, 8, 1, 0), SEMIPLANAR(UINT16_SEMIPLANAR_422, 16, 1, 0),
	SEMIPLANAR(UINT8_SEMIPLANAR_444, 8, 0, 0), SEMIPLANAR(UINT16_SEMIPLANAR_444, 16, 0, 0),
	PLANAR(UINT8_PLANAR_420, 8, 1, 1), PLANAR(UINT16_PLANAR_420, 16, 1, 1),
	PLANAR(UINT8_PLANAR_422, 8, 1, 0), PLANAR(UINT16_PLANAR_422, 16, 1, 0),
	PLANAR(UINT8_PLANAR_444, 8, 0, 0), PLANAR(UINT16_PLANAR_444, 16, 0, 0),
};

const struct array_format *array_format(CUarray_format format)
{
	unsigned int i;

	for (i = 0; i < sizeof(formats) / sizeof(formats[0]); i++)
		if (formats[i].format == format)
			return &formats[i];
	return NULL;
}

/* ---- limits */

#define LAYERED		CUDA_ARRAY3D_LAYERED
#define SURFACE		CUDA_ARRAY3D_SURFACE_LDST
#define CUBEMAP		CUDA_ARRAY3D_CUBEMAP
#define GATHER		CUDA_ARRAY3D_TEXTURE_GATHER
#define SPARSE		CUDA_ARRAY3D_SPARSE
#define DEFERRED	CUDA_ARRAY3D_DEFERRED_MAPPING
#define VIDEO		CUDA_ARRAY3D_VIDEO_ENCODE_DECODE

#define KNOWN_FLAGS	(LAYERED | SURFACE | CUBEMAP | GATHER | SPARSE | DEFERRED | VIDEO | 1u << 31)

enum shape { ONE, TWO, THREE, ONE_LAYERED, TWO_LAYERED, CUBE, CUBE_LAYERED };

/* Attributes that say how large an array may be; 0: any. */
struct limit {
	CUdevice_attribute width, height, depth;
};

#define TEXTURE(a)	CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE ## a
#define SURF(a)		CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE ## a

static const struct limit textures[] = {
	[ONE] = { TEXTURE(1D_WIDTH), 0, 0 },
	[TWO] = { TEXTURE(2D_WIDTH), TEXTURE(2D_HEIGHT), 0 },
	[THREE] = { TEXTURE(3D_WIDTH), TEXTURE(3D_HEIGHT), TEXTURE(3D_DEPTH) },
	[ONE_LAYERED] = { TEXTURE(1D_LAYERED_WIDTH), 0, TEXTURE(1D_LAYERED_LAYERS) },
	[TWO_LAYERED] = { TEXTURE(2D_LAYERED_WIDTH), TEXTURE(2D_LAYERED_HEIGHT),
			  TEXTURE(2D_LAYERED_LAYERS) },
	[CUBE] = { TEXTURE(CUBEMAP_WIDTH), TEXTURE(CUBEMAP_WIDTH), 0 },
	[CUBE_LAYERED] = { TEXTURE(CUBEMAP_LAYERED_WIDTH), TEXTURE(CUBEMAP_LAYERED_WIDTH),
			   TEXTURE(CUBEMAP_LAYERED_LAYERS) },
};

/* For mipmapped arrays in place of @textures; for gathering in addition; for 3D arrays as an alternative. */
static const struct limit one_mipmapped = { TEXTURE(1D_MIPMAPPED_WIDTH), 0, 0 };
static const struct limit two_mipmapped = {
	TEXTURE(2D_MIPMAPPED_WIDTH), TEXTURE(2D_MIPMAPPED_HEIGHT), 0,
};
static const struct limit gather = { TEXTURE(2D_GATHER_WIDTH), TEXTURE(2D_GATHER_HEIGHT), 0 };
static const struct limit three_alternate = {
	TEXTURE(3D_WIDTH_ALTERNATE), TEXTURE(3D_HEIGHT_ALTERNATE), TEXTURE(3D_DEPTH_ALTERNATE),
};

/* For arrays with the flag for surfaces, in addition to @textures. */
static const struct limit surfaces[] = {
	[ONE] = { SURF(1D_WIDTH), 0, 0 },
	[TWO] = { SURF(2D_WIDTH), SURF(2D_HEIGHT), 0 },
	[THREE] = { SURF(3D_WIDTH), SURF(3D_HEIGHT), SURF(3D_DEPTH) },
	[ONE_LAYERED] = { SURF(1D_LAYERED_WIDTH), 0, SURF(1D_LAYERED_LAYERS) },
	[TWO_LAYERED] = { SURF(2D_LAYERED_WIDTH), SURF(2D_LAYERED_HEIGHT),
			  SURF(2D_LAYERED_LAYERS) },
	[CUBE] = { SURF(CUBEMAP_WIDTH), SURF(CUBEMAP_WIDTH), 0 },
	[CUBE_LAYERED] = { SURF(CUBEMAP_LAYERED_WIDTH), SURF(CUBEMAP_LAYERED_WIDTH),
			   SURF(CUBEMAP_LAYERED_LAYERS) },
};

static bool extent_within(size_t extent, CUdevice_attribute attribute, CUdevice device)
{
	int most = 0;

	return !attribute || (!device_attribute(&most, attribute, device) &&
			      extent <= (unsigned int)most);
}

static bool within(const CUDA_ARRAY3D_DESCRIPTOR *d, const struct limit *limit, CUdevice device)
{
	return extent_within(d->Width, limit->width, device) &&
		extent_within(d->Height, limit->height, device) &&
		extent_within(d->Depth, limit->depth, device);
}

static bool within_limits(const CUDA_ARRAY3D_DESCRIPTOR *d, enum shape shape, bool mipmapped,
			  CUdevice device)
{
	const struct limit *limit = &textures[shape];

	if (d->Flags & GATHER && !within(d, &gather, device))
		return false;
	if (d->Flags & SURFACE && !within(d, &surfaces[shape], device))
		return false;
	if (mipmapped && shape == ONE)
		limit = &one_mipmapped;
	if (mipmapped && shape == TWO)
		limit = &two_mipmapped;
	return within(d, limit, device) ||
		(shape == THREE && within(d, &three_alternate, device));
}

/* False if no array has such extents. */
static bool shape_of(const CUDA_ARRAY3D_DESCRIPTOR *d, enum shape *shape)
{
	bool layered = d->Flags & LAYERED;

	if (!d->Width)
		return false;
	if (d->Flags & CUBEMAP) {
		*shape = layered ? CUBE_LAYERED : CUBE;
		return d->Height == d->Width && d->Depth &&
			(layered ? d->Depth % 6 == 0 : d->Depth == 6);
	}
	if (layered) {
		*shape = d->Height ? TWO_LAYERED : ONE_LAYERED;
		return d->Depth;
	}
	*shape = d->Depth ? THREE : d->Height ? TWO : ONE;
	return d->Height || !d->Depth;
}

static bool array_flags_valid(unsigned int flags, enum shape shape)
{
	if (flags & ~KNOWN_FLAGS || (flags & GATHER && shape != TWO))
		return false;
	return !(flags & SPARSE) || ((shape == TWO || shape == THREE || shape == TWO_LAYERED) &&
				     !(flags & (SURFACE | DEFERRED)));
}

static bool video_valid(const CUDA_ARRAY3D_DESCRIPTOR *d, enum shape shape, bool mipmapped)
{
	return d->Flags & VIDEO && (shape == TWO || shape == TWO_LAYERED) && !mipmapped &&
		d->Width % 2 == 0 && d->Height % 2 == 0;
}

CUresult array_check(const CUDA_ARRAY3D_DESCRIPTOR *d, bool mipmapped, CUdevice device)
{
	const struct array_format *f = array_format(d->Format);
	enum shape shape;

	if (!f || d->NumChannels > 4 || !(f->channels >> d->NumChannels & 1) ||
	    !shape_of(d, &shape) || !array_flags_valid(d->Flags, shape) ||
	    !within_limits(d, shape, mipmapped, device))
		return CUDA_ERROR_INVALID_VALUE;
	if (f->video && !video_valid(d, shape, mipmapped))
		return CUDA_ERROR_INVALID_VALUE;
	if (f->block > 1 && (shape == ONE || shape == ONE_LAYERED))
		return CUDA_ERROR_INVALID_VALUE;
	if (f->block > 1 && d->Flags & SURFACE)
		return CUDA_ERROR_NOT_SUPPORTED;
	return CUDA_SUCCESS;
}

/* ---- tiles: 64 KiB */

void array_tile(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int tile[3])
{
	/* In elements or blocks of 1, 2, 4, 8 and 16 bytes. */
	static const unsigned short flat[][2] = {
		{ 256, 256 }, { 256, 128 }, { 128, 128 }, { 128, 64 }, { 64, 64 },
	};
	static const unsigned short deep[][3] = {
		{ 64, 32, 32 }, { 32, 32, 32 }, { 32, 32, 16 }, { 32, 16, 16 }, { 16, 16, 16 },
	};
	const struct array_format *f = array_format(d->Format);
	const struct plane_format *first = &f->plane[0];
	unsigned int bytes = f->planes ? array_format(first->format)->channel * first->channels :
		element_bytes(f, d->NumChannels);
	unsigned int size = __builtin_ctz(bytes);
	bool solid = d->Depth && !array_layered(d);

	tile[0] = (solid ? deep[size][0] : flat[size][0]) * f->block;
	tile[1] = (solid ? deep[size][1] : flat[size][1]) * f->block;
	tile[2] = solid ? deep[size][2] : 1;
}
