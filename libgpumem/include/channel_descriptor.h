/* SPDX-License-Identifier: MIT */
/*
 * C++: descriptions of array elements by type, cudaCreateChannelDesc<float4>(), and by kind,
 * cudaCreateChannelDesc<cudaChannelFormatKindUnsignedBlockCompressed1>(). A type or kind that is not listed here
 * has the description of cudaChannelFormatKindNone.
 */
#ifndef __CHANNEL_DESCRIPTOR_H__
#define __CHANNEL_DESCRIPTOR_H__

#ifdef __cplusplus

#include "cuda_runtime_api.h"

template <class T> inline cudaChannelFormatDesc cudaCreateChannelDesc()
{
	return cudaCreateChannelDesc(0, 0, 0, 0, cudaChannelFormatKindNone);
}

template <cudaChannelFormatKind> inline cudaChannelFormatDesc cudaCreateChannelDesc()
{
	return cudaCreateChannelDesc(0, 0, 0, 0, cudaChannelFormatKindNone);
}

/* The description for template argument @arg: the bits of each component, and the kind. */
#define GPUMEM_CHANNELS(arg, x, y, z, w, kind)							\
	template <> inline cudaChannelFormatDesc cudaCreateChannelDesc<arg>()			\
	{											\
		return cudaCreateChannelDesc(x, y, z, w, cudaChannelFormatKind ## kind);	\
	}
/* A component's type, and the vectors of one, two and four of them. */
#define GPUMEM_CHANNELS_1(type, vector, kind)							\
	GPUMEM_CHANNELS(type, 8 * sizeof(type), 0, 0, 0, kind)					\
	GPUMEM_CHANNELS_OF(vector, 8 * sizeof(type), kind)
#define GPUMEM_CHANNELS_OF(vector, bits, kind)							\
	GPUMEM_CHANNELS(vector ## 1, bits, 0, 0, 0, kind)					\
	GPUMEM_CHANNELS(vector ## 2, bits, bits, 0, 0, kind)					\
	GPUMEM_CHANNELS(vector ## 4, bits, bits, bits, bits, kind)
#define GPUMEM_CHANNELS_KIND(x, y, z, w, kind)							\
	GPUMEM_CHANNELS(cudaChannelFormatKind ## kind, x, y, z, w, kind)

#ifdef __CHAR_UNSIGNED__
GPUMEM_CHANNELS(char, 8, 0, 0, 0, Unsigned)
#else
GPUMEM_CHANNELS(char, 8, 0, 0, 0, Signed)
#endif
GPUMEM_CHANNELS_1(signed char, char, Signed)
GPUMEM_CHANNELS_1(unsigned char, uchar, Unsigned)
GPUMEM_CHANNELS_1(short, short, Signed)
GPUMEM_CHANNELS_1(unsigned short, ushort, Unsigned)
GPUMEM_CHANNELS_1(int, int, Signed)
GPUMEM_CHANNELS_1(unsigned int, uint, Unsigned)
GPUMEM_CHANNELS_1(float, float, Float)
/* As in CUDA, there is no description for long where long has 64 bits. */
#ifndef __LP64__
GPUMEM_CHANNELS_1(long, long, Signed)
GPUMEM_CHANNELS_1(unsigned long, ulong, Unsigned)
#endif

GPUMEM_CHANNELS_KIND(8, 0, 0, 0, SignedNormalized8X1)
GPUMEM_CHANNELS_KIND(8, 8, 0, 0, SignedNormalized8X2)
GPUMEM_CHANNELS_KIND(8, 8, 8, 8, SignedNormalized8X4)
GPUMEM_CHANNELS_KIND(8, 0, 0, 0, UnsignedNormalized8X1)
GPUMEM_CHANNELS_KIND(8, 8, 0, 0, UnsignedNormalized8X2)
GPUMEM_CHANNELS_KIND(8, 8, 8, 8, UnsignedNormalized8X4)
GPUMEM_CHANNELS_KIND(16, 0, 0, 0, SignedNormalized16X1)
GPUMEM_CHANNELS_KIND(16, 16, 0, 0, SignedNormalized16X2)
GPUMEM_CHANNELS_KIND(16, 16, 16, 16, SignedNormalized16X4)
GPUMEM_CHANNELS_KIND(16, 0, 0, 0, UnsignedNormalized16X1)
GPUMEM_CHANNELS_KIND(16, 16, 0, 0, UnsignedNormalized16X2)
GPUMEM_CHANNELS_KIND(16, 16, 16, 16, UnsignedNormalized16X4)
GPUMEM_CHANNELS_KIND(8, 8, 8, 0, NV12)
GPUMEM_CHANNELS_KIND(10, 10, 10, 2, UnsignedNormalized1010102)
GPUMEM_CHANNELS_KIND(8, 8, 8, 8, UnsignedBlockCompressed1)
GPUMEM_CHANNELS_KIND(8, 8, 8, 8, UnsignedBlockCompressed1SRGB)
GPUMEM_CHANNELS_KIND(8, 8, 8, 8, UnsignedBlockCompressed2)
GPUMEM_CHANNELS_KIND(8, 8, 8, 8, UnsignedBlockCompressed2SRGB)
GPUMEM_CHANNELS_KIND(8, 8, 8, 8, UnsignedBlockCompressed3)
GPUMEM_CHANNELS_KIND(8, 8, 8, 8, UnsignedBlockCompressed3SRGB)
GPUMEM_CHANNELS_KIND(8, 0, 0, 0, UnsignedBlockCompressed4)
GPUMEM_CHANNELS_KIND(8, 0, 0, 0, SignedBlockCompressed4)
GPUMEM_CHANNELS_KIND(8, 8, 0, 0, UnsignedBlockCompressed5)
GPUMEM_CHANNELS_KIND(8, 8, 0, 0, SignedBlockCompressed5)
GPUMEM_CHANNELS_KIND(16, 16, 16, 0, UnsignedBlockCompressed6H)
GPUMEM_CHANNELS_KIND(16, 16, 16, 0, SignedBlockCompressed6H)
GPUMEM_CHANNELS_KIND(8, 8, 8, 8, UnsignedBlockCompressed7)
GPUMEM_CHANNELS_KIND(8, 8, 8, 8, UnsignedBlockCompressed7SRGB)

#undef GPUMEM_CHANNELS
#undef GPUMEM_CHANNELS_1
#undef GPUMEM_CHANNELS_OF
#undef GPUMEM_CHANNELS_KIND

/* Half-precision components have no type of their own here. */
static inline cudaChannelFormatDesc cudaCreateChannelDescHalf1()
{
	return cudaCreateChannelDesc(16, 0, 0, 0, cudaChannelFormatKindFloat);
}

static inline cudaChannelFormatDesc cudaCreateChannelDescHalf()
{
	return cudaCreateChannelDescHalf1();
}

static inline cudaChannelFormatDesc cudaCreateChannelDescHalf2()
{
	return cudaCreateChannelDesc(16, 16, 0, 0, cudaChannelFormatKindFloat);
}

static inline cudaChannelFormatDesc cudaCreateChannelDescHalf4()
{
	return cudaCreateChannelDesc(16, 16, 16, 16, cudaChannelFormatKindFloat);
}

static inline cudaChannelFormatDesc cudaCreateChannelDescNV12()
{
	return cudaCreateChannelDesc<cudaChannelFormatKindNV12>();
}

#endif /* __cplusplus */

#endif /* __CHANNEL_DESCRIPTOR_H__ */
