/* SPDX-License-Identifier: MIT */
/*
 * CUDA's vector types: one to four components of a type, x, y, z and w, with the alignment that
 * device code loads and stores them with. Of vectors of 32 bytes, NAME_16a and NAME_32a say which
 * alignment they have.
 */
#ifndef __VECTOR_TYPES_H__
#define __VECTOR_TYPES_H__

#include "host_defines.h"

#define GPUMEM_PLAIN
#define GPUMEM_ALIGNED(bytes)	__attribute__((aligned(bytes)))
#define GPUMEM_VECTOR_1(name, type, alignment)	\
	struct alignment name { type x; }; typedef struct name name;
#define GPUMEM_VECTOR_2(name, type, alignment)	\
	struct alignment name { type x; type y; }; typedef struct name name;
#define GPUMEM_VECTOR_3(name, type, alignment)	\
	struct alignment name { type x; type y; type z; }; typedef struct name name;
#define GPUMEM_VECTOR_4(name, type, alignment)	\
	struct alignment name { type x; type y; type z; type w; }; typedef struct name name;

GPUMEM_VECTOR_1(char1, signed char, GPUMEM_PLAIN)
GPUMEM_VECTOR_2(char2, signed char, GPUMEM_ALIGNED(2))
GPUMEM_VECTOR_3(char3, signed char, GPUMEM_PLAIN)
GPUMEM_VECTOR_4(char4, signed char, GPUMEM_ALIGNED(4))

GPUMEM_VECTOR_1(uchar1, unsigned char, GPUMEM_PLAIN)
GPUMEM_VECTOR_2(uchar2, unsigned char, GPUMEM_ALIGNED(2))
GPUMEM_VECTOR_3(uchar3, unsigned char, GPUMEM_PLAIN)
GPUMEM_VECTOR_4(uchar4, unsigned char, GPUMEM_ALIGNED(4))

GPUMEM_VECTOR_1(short1, short, GPUMEM_PLAIN)
GPUMEM_VECTOR_2(short2, short, GPUMEM_ALIGNED(4))
GPUMEM_VECTOR_3(short3, short, GPUMEM_PLAIN)
GPUMEM_VECTOR_4(short4, short, GPUMEM_ALIGNED(8))

GPUMEM_VECTOR_1(ushort1, unsigned short, GPUMEM_PLAIN)
GPUMEM_VECTOR_2(ushort2, unsigned short, GPUMEM_ALIGNED(4))
GPUMEM_VECTOR_3(ushort3, unsigned short, GPUMEM_PLAIN)
GPUMEM_VECTOR_4(ushort4, unsigned short, GPUMEM_ALIGNED(8))

GPUMEM_VECTOR_1(int1, int, GPUMEM_PLAIN)
GPUMEM_VECTOR_2(int2, int, GPUMEM_ALIGNED(8))
GPUMEM_VECTOR_3(int3, int, GPUMEM_PLAIN)
GPUMEM_VECTOR_4(int4, int, GPUMEM_ALIGNED(16))

GPUMEM_VECTOR_1(uint1, unsigned int, GPUMEM_PLAIN)
GPUMEM_VECTOR_2(uint2, unsigned int, GPUMEM_ALIGNED(8))
GPUMEM_VECTOR_3(uint3, unsigned int, GPUMEM_PLAIN)
GPUMEM_VECTOR_4(uint4, unsigned int, GPUMEM_ALIGNED(16))

GPUMEM_VECTOR_1(long1, long int, GPUMEM_PLAIN)
GPUMEM_VECTOR_2(long2, long int, GPUMEM_ALIGNED(2 * sizeof(long)))
GPUMEM_VECTOR_3(long3, long int, GPUMEM_PLAIN)
GPUMEM_VECTOR_4(long4, long int, GPUMEM_ALIGNED(16))
GPUMEM_VECTOR_4(long4_16a, long int, GPUMEM_ALIGNED(16))
GPUMEM_VECTOR_4(long4_32a, long int, GPUMEM_ALIGNED(32))

GPUMEM_VECTOR_1(ulong1, unsigned long int, GPUMEM_PLAIN)
GPUMEM_VECTOR_2(ulong2, unsigned long int, GPUMEM_ALIGNED(2 * sizeof(long)))
GPUMEM_VECTOR_3(ulong3, unsigned long int, GPUMEM_PLAIN)
GPUMEM_VECTOR_4(ulong4, unsigned long int, GPUMEM_ALIGNED(16))
GPUMEM_VECTOR_4(ulong4_16a, unsigned long int, GPUMEM_ALIGNED(16))
GPUMEM_VECTOR_4(ulong4_32a, unsigned long int, GPUMEM_ALIGNED(32))

GPUMEM_VECTOR_1(longlong1, long long int, GPUMEM_PLAIN)
GPUMEM_VECTOR_2(longlong2, long long int, GPUMEM_ALIGNED(16))
GPUMEM_VECTOR_3(longlong3, long long int, GPUMEM_PLAIN)
GPUMEM_VECTOR_4(longlong4, long long int, GPUMEM_ALIGNED(16))
GPUMEM_VECTOR_4(longlong4_16a, long long int, GPUMEM_ALIGNED(16))
GPUMEM_VECTOR_4(longlong4_32a, long long int, GPUMEM_ALIGNED(32))

GPUMEM_VECTOR_1(ulonglong1, unsigned long long int, GPUMEM_PLAIN)
GPUMEM_VECTOR_2(ulonglong2, unsigned long long int, GPUMEM_ALIGNED(16))
GPUMEM_VECTOR_3(ulonglong3, unsigned long long int, GPUMEM_PLAIN)
GPUMEM_VECTOR_4(ulonglong4, unsigned long long int, GPUMEM_ALIGNED(16))
GPUMEM_VECTOR_4(ulonglong4_16a, unsigned long long int, GPUMEM_ALIGNED(16))
GPUMEM_VECTOR_4(ulonglong4_32a, unsigned long long int, GPUMEM_ALIGNED(32))

GPUMEM_VECTOR_1(float1, float, GPUMEM_PLAIN)
GPUMEM_VECTOR_2(float2, float, GPUMEM_ALIGNED(8))
GPUMEM_VECTOR_3(float3, float, GPUMEM_PLAIN)
GPUMEM_VECTOR_4(float4, float, GPUMEM_ALIGNED(16))

GPUMEM_VECTOR_1(double1, double, GPUMEM_PLAIN)
GPUMEM_VECTOR_2(double2, double, GPUMEM_ALIGNED(16))
GPUMEM_VECTOR_3(double3, double, GPUMEM_PLAIN)
GPUMEM_VECTOR_4(double4, double, GPUMEM_ALIGNED(16))
GPUMEM_VECTOR_4(double4_16a, double, GPUMEM_ALIGNED(16))
GPUMEM_VECTOR_4(double4_32a, double, GPUMEM_ALIGNED(32))

#undef GPUMEM_VECTOR_1
#undef GPUMEM_VECTOR_2
#undef GPUMEM_VECTOR_3
#undef GPUMEM_VECTOR_4
#undef GPUMEM_PLAIN
#undef GPUMEM_ALIGNED

/* The extent of a grid or a block. In C++ a component that is left out is 1. */
#if defined(__cplusplus) && __cplusplus >= 201103L
#define GPUMEM_DIM3_MEMBERS	\
	constexpr dim3(unsigned int x_ = 1, unsigned int y_ = 1, unsigned int z_ = 1)	\
		: x(x_), y(y_), z(z_) {}	\
	constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}	\
	constexpr operator uint3() const { return uint3{x, y, z}; }
#elif defined(__cplusplus)
#define GPUMEM_DIM3_MEMBERS	\
	dim3(unsigned int x_ = 1, unsigned int y_ = 1, unsigned int z_ = 1)	\
		: x(x_), y(y_), z(z_) {}	\
	dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}	\
	operator uint3() const { uint3 v; v.x = x; v.y = y; v.z = z; return v; }
#else
#define GPUMEM_DIM3_MEMBERS
#endif
struct dim3 {
	unsigned int x;
	unsigned int y;
	unsigned int z;
	GPUMEM_DIM3_MEMBERS
};
typedef struct dim3 dim3;
#undef GPUMEM_DIM3_MEMBERS

#endif /* __VECTOR_TYPES_H__ */
