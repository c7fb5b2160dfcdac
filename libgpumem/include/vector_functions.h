/* SPDX-License-Identifier: MIT */
/*
 * Vectors from their components: make_float4(), and one function for each vector type.
 */
#ifndef __VECTOR_FUNCTIONS_H__
#define __VECTOR_FUNCTIONS_H__

#include "vector_types.h"

#define GPUMEM_MAKE_1(name, type)	\
	static inline name make_ ## name(type x)	\
	{ name v; v.x = x; return v; }
#define GPUMEM_MAKE_2(name, type)	\
	static inline name make_ ## name(type x, type y)	\
	{ name v; v.x = x; v.y = y; return v; }
#define GPUMEM_MAKE_3(name, type)	\
	static inline name make_ ## name(type x, type y, type z)	\
	{ name v; v.x = x; v.y = y; v.z = z; return v; }
#define GPUMEM_MAKE_4(name, type)	\
	static inline name make_ ## name(type x, type y, type z, type w)	\
	{ name v; v.x = x; v.y = y; v.z = z; v.w = w; return v; }

GPUMEM_MAKE_1(char1, signed char)
GPUMEM_MAKE_2(char2, signed char)
GPUMEM_MAKE_3(char3, signed char)
GPUMEM_MAKE_4(char4, signed char)

GPUMEM_MAKE_1(uchar1, unsigned char)
GPUMEM_MAKE_2(uchar2, unsigned char)
GPUMEM_MAKE_3(uchar3, unsigned char)
GPUMEM_MAKE_4(uchar4, unsigned char)

GPUMEM_MAKE_1(short1, short)
GPUMEM_MAKE_2(short2, short)
GPUMEM_MAKE_3(short3, short)
GPUMEM_MAKE_4(short4, short)

GPUMEM_MAKE_1(ushort1, unsigned short)
GPUMEM_MAKE_2(ushort2, unsigned short)
GPUMEM_MAKE_3(ushort3, unsigned short)
GPUMEM_MAKE_4(ushort4, unsigned short)

GPUMEM_MAKE_1(int1, int)
GPUMEM_MAKE_2(int2, int)
GPUMEM_MAKE_3(int3, int)
GPUMEM_MAKE_4(int4, int)

GPUMEM_MAKE_1(uint1, unsigned int)
GPUMEM_MAKE_2(uint2, unsigned int)
GPUMEM_MAKE_3(uint3, unsigned int)
GPUMEM_MAKE_4(uint4, unsigned int)

GPUMEM_MAKE_1(long1, long int)
GPUMEM_MAKE_2(long2, long int)
GPUMEM_MAKE_3(long3, long int)
GPUMEM_MAKE_4(long4, long int)
GPUMEM_MAKE_4(long4_16a, long int)
GPUMEM_MAKE_4(long4_32a, long int)

GPUMEM_MAKE_1(ulong1, unsigned long int)
GPUMEM_MAKE_2(ulong2, unsigned long int)
GPUMEM_MAKE_3(ulong3, unsigned long int)
GPUMEM_MAKE_4(ulong4, unsigned long int)
GPUMEM_MAKE_4(ulong4_16a, unsigned long int)
GPUMEM_MAKE_4(ulong4_32a, unsigned long int)

GPUMEM_MAKE_1(longlong1, long long int)
GPUMEM_MAKE_2(longlong2, long long int)
GPUMEM_MAKE_3(longlong3, long long int)
GPUMEM_MAKE_4(longlong4, long long int)
GPUMEM_MAKE_4(longlong4_16a, long long int)
GPUMEM_MAKE_4(longlong4_32a, long long int)

GPUMEM_MAKE_1(ulonglong1, unsigned long long int)
GPUMEM_MAKE_2(ulonglong2, unsigned long long int)
GPUMEM_MAKE_3(ulonglong3, unsigned long long int)
GPUMEM_MAKE_4(ulonglong4, unsigned long long int)
GPUMEM_MAKE_4(ulonglong4_16a, unsigned long long int)
GPUMEM_MAKE_4(ulonglong4_32a, unsigned long long int)

GPUMEM_MAKE_1(float1, float)
GPUMEM_MAKE_2(float2, float)
GPUMEM_MAKE_3(float3, float)
GPUMEM_MAKE_4(float4, float)

GPUMEM_MAKE_1(double1, double)
GPUMEM_MAKE_2(double2, double)
GPUMEM_MAKE_3(double3, double)
GPUMEM_MAKE_4(double4, double)
GPUMEM_MAKE_4(double4_16a, double)
GPUMEM_MAKE_4(double4_32a, double)

#undef GPUMEM_MAKE_1
#undef GPUMEM_MAKE_2
#undef GPUMEM_MAKE_3
#undef GPUMEM_MAKE_4

#endif /* __VECTOR_FUNCTIONS_H__ */
