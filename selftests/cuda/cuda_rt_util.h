/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers for the tests of the runtime API.  Include this after kselftest_harness.h.
 */
#ifndef GPUMEM_SELFTESTS_CUDA_RT_UTIL_H
#define GPUMEM_SELFTESTS_CUDA_RT_UTIL_H

#include "cuda_util.h"

#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>

#define ASSERT_RT(call)		ASSERT_EQ(cudaSuccess, call)
#define EXPECT_RT(call)		EXPECT_EQ(cudaSuccess, call)
#define BAD			cudaErrorInvalidValue

/* A call that fails leaves its result, once. */
#define EXPECT_FAILS(want, call)				\
	do {							\
		EXPECT_EQ(want, call);				\
		EXPECT_EQ(want, cudaPeekAtLastError());		\
		EXPECT_EQ(want, cudaGetLastError());		\
		EXPECT_EQ(cudaSuccess, cudaGetLastError());	\
	} while (0)

static inline CUdeviceptr addr(const void *p)
{
	return (uintptr_t)p;
}

static inline void pattern(unsigned char *p, size_t n, unsigned int seed)
{
	while (n--)
		*p++ = seed++ * 37 >> 3;
}

#endif
