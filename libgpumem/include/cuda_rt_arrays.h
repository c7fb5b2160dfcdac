/* SPDX-License-Identifier: MIT */
/*
 * Arrays, copies in batches, and what textures and surfaces are made of: types of the CUDA runtime API.
 *
 * An array of the runtime API is an array of the driver API: a program may cast cudaArray_t to CUarray and back,
 * and cudaMipmappedArray_t to CUmipmappedArray. Include cuda_runtime_api.h, not this file.
 */
#ifndef GPUMEM_CUDA_RT_ARRAYS_H
#define GPUMEM_CUDA_RT_ARRAYS_H

#include <stddef.h>

#include "cuda_rt_types.h"

typedef struct cudaMipmappedArray *cudaMipmappedArray_t;
typedef const struct cudaMipmappedArray *cudaMipmappedArray_const_t;

/* Flags: of arrays. */
#define cudaArrayDefault		0x00
#define cudaArrayLayered		0x01
#define cudaArraySurfaceLoadStore	0x02
#define cudaArrayCubemap		0x04
#define cudaArrayTextureGather		0x08
#define cudaArrayColorAttachment	0x20
#define cudaArraySparse			0x40
#define cudaArrayDeferredMapping	0x80

#define cudaArraySparsePropertiesSingleMipTail	0x1

/* Tiles and mip tail of a sparse array: tileExtent is elements, miptailSize bytes. */
struct cudaArraySparseProperties {
	struct {
		unsigned int width;
		unsigned int height;
		unsigned int depth;
	} tileExtent;
	unsigned int miptailFirstLevel;
	unsigned long long miptailSize;
	unsigned int flags;
	unsigned int reserved[4];
};

/* The memory that an array with deferred mapping has to be mapped to. */
struct cudaArrayMemoryRequirements {
	size_t size;
	size_t alignment;
	unsigned int reserved[4];
};

/* ---- copies in batches */

enum cudaMemcpyFlags {
	cudaMemcpyFlagDefault			= 0,
	cudaMemcpyFlagPreferOverlapWithCompute	= 1,
};

/* When a source may be read. */
enum cudaMemcpySrcAccessOrder {
	cudaMemcpySrcAccessOrderInvalid		= 0,
	cudaMemcpySrcAccessOrderStream		= 1,
	cudaMemcpySrcAccessOrderDuringApiCall	= 2,
	cudaMemcpySrcAccessOrderAny		= 3,
	cudaMemcpySrcAccessOrderMax		= 0x7fffffff,
};

enum cudaMemcpy3DOperandType {
	cudaMemcpyOperandTypePointer	= 1,
	cudaMemcpyOperandTypeArray	= 2,
	cudaMemcpyOperandTypeMax	= 0x7fffffff,
};

/* Hints for a run of copies in cudaMemcpyBatchAsync(). */
struct cudaMemcpyAttributes {
	enum cudaMemcpySrcAccessOrder srcAccessOrder;
	struct cudaMemLocation srcLocHint;
	struct cudaMemLocation dstLocHint;
	unsigned int flags;
};

/* A position in an array, in elements. */
struct cudaOffset3D {
	size_t x;
	size_t y;
	size_t z;
};

/* One side of a copy in cudaMemcpy3DBatchAsync(): an address with its layout in elements, or an array. */
struct cudaMemcpy3DOperand {
	enum cudaMemcpy3DOperandType type;
	union {
		struct {
			void *ptr;
			size_t rowLength;
			size_t layerHeight;
			struct cudaMemLocation locHint;
		} ptr;
		struct {
			cudaArray_t array;
			struct cudaOffset3D offset;
		} array;
	} op;
};

struct cudaMemcpy3DBatchOp {
	struct cudaMemcpy3DOperand src;
	struct cudaMemcpy3DOperand dst;
	struct cudaExtent extent;
	enum cudaMemcpySrcAccessOrder srcAccessOrder;
	unsigned int flags;
};

/* ---- what a texture or a surface is bound to; the library has neither */

enum cudaResourceType {
	cudaResourceTypeArray		= 0,
	cudaResourceTypeMipmappedArray	= 1,
	cudaResourceTypeLinear		= 2,
	cudaResourceTypePitch2D		= 3,
};

/* resType chooses the member of res; widths are elements. */
struct cudaResourceDesc {
	enum cudaResourceType resType;
	union {
		struct {
			cudaArray_t array;
		} array;
		struct {
			cudaMipmappedArray_t mipmap;
		} mipmap;
		struct {
			void *devPtr;
			struct cudaChannelFormatDesc desc;
			size_t sizeInBytes;
		} linear;
		struct {
			void *devPtr;
			struct cudaChannelFormatDesc desc;
			size_t width;
			size_t height;
			size_t pitchInBytes;
		} pitch2D;
		struct {
			int reserved[32];
		} reserved;
	} res;
	unsigned int flags;
};

enum cudaResourceViewFormat {
	cudaResViewFormatNone				= 0x00,
	cudaResViewFormatUnsignedChar1			= 0x01,
	cudaResViewFormatUnsignedChar2			= 0x02,
	cudaResViewFormatUnsignedChar4			= 0x03,
	cudaResViewFormatSignedChar1			= 0x04,
	cudaResViewFormatSignedChar2			= 0x05,
	cudaResViewFormatSignedChar4			= 0x06,
	cudaResViewFormatUnsignedShort1			= 0x07,
	cudaResViewFormatUnsignedShort2			= 0x08,
	cudaResViewFormatUnsignedShort4			= 0x09,
	cudaResViewFormatSignedShort1			= 0x0a,
	cudaResViewFormatSignedShort2			= 0x0b,
	cudaResViewFormatSignedShort4			= 0x0c,
	cudaResViewFormatUnsignedInt1			= 0x0d,
	cudaResViewFormatUnsignedInt2			= 0x0e,
	cudaResViewFormatUnsignedInt4			= 0x0f,
	cudaResViewFormatSignedInt1			= 0x10,
	cudaResViewFormatSignedInt2			= 0x11,
	cudaResViewFormatSignedInt4			= 0x12,
	cudaResViewFormatHalf1				= 0x13,
	cudaResViewFormatHalf2				= 0x14,
	cudaResViewFormatHalf4				= 0x15,
	cudaResViewFormatFloat1				= 0x16,
	cudaResViewFormatFloat2				= 0x17,
	cudaResViewFormatFloat4				= 0x18,
	cudaResViewFormatUnsignedBlockCompressed1	= 0x19,
	cudaResViewFormatUnsignedBlockCompressed2	= 0x1a,
	cudaResViewFormatUnsignedBlockCompressed3	= 0x1b,
	cudaResViewFormatUnsignedBlockCompressed4	= 0x1c,
	cudaResViewFormatSignedBlockCompressed4		= 0x1d,
	cudaResViewFormatUnsignedBlockCompressed5	= 0x1e,
	cudaResViewFormatSignedBlockCompressed5		= 0x1f,
	cudaResViewFormatUnsignedBlockCompressed6H	= 0x20,
	cudaResViewFormatSignedBlockCompressed6H	= 0x21,
	cudaResViewFormatUnsignedBlockCompressed7	= 0x22,
};

/* The part and the format of a resource that a texture sees. */
struct cudaResourceViewDesc {
	enum cudaResourceViewFormat format;
	size_t width;
	size_t height;
	size_t depth;
	unsigned int firstMipmapLevel;
	unsigned int lastMipmapLevel;
	unsigned int firstLayer;
	unsigned int lastLayer;
	unsigned int reserved[16];
};

#endif /* GPUMEM_CUDA_RT_ARRAYS_H */
