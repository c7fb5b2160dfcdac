/* SPDX-License-Identifier: MIT */
/*
 * The words that CUDA adds to C++, for compilers of the host: they have no meaning there, so that
 * functions of both worlds compile.
 */
#ifndef __HOST_DEFINES_H__
#define __HOST_DEFINES_H__

#ifndef __host__
#define __host__
#endif
#ifndef __device__
#define __device__
#endif
#ifndef __global__
#define __global__
#endif
#ifndef __shared__
#define __shared__
#endif
#ifndef __constant__
#define __constant__
#endif
#ifndef __managed__
#define __managed__
#endif
#ifndef __align__
#define __align__(n)		__attribute__((aligned(n)))
#endif
#ifndef __forceinline__
#define __forceinline__		__inline__ __attribute__((always_inline))
#endif
#ifndef CUDARTAPI
#define CUDARTAPI
#endif
#ifndef CUDART_CB
#define CUDART_CB
#endif

#endif /* __HOST_DEFINES_H__ */
