/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The fixture of the tests of streams, events and failed work: a context with two blocking streams,
 * one that is not, a load that keeps a stream busy for about a quarter of a second, and memory that
 * the engine works on.  Include this after kselftest_harness.h.
 *
 * A case in which a call must *not* wait checks that the load still runs after the call.  The load
 * may end early because the process was not scheduled; the case then tries again, TRIES times at
 * most.
 */
#ifndef GPUMEM_SELFTESTS_CUDA_STREAM_FIXTURE_H
#define GPUMEM_SELFTESTS_CUDA_STREAM_FIXTURE_H

#include "cuda_util.h"

#define NOT_READY	CUDA_ERROR_NOT_READY
#define BAD_HANDLE	CUDA_ERROR_INVALID_HANDLE
#define TRIES		10

/* @p: 1 MiB, zero; exported, so that the engine works on it.  @free: a non-blocking stream. */
#define CUDA_STREAM_FIXTURE(name)					\
FIXTURE(name)								\
{									\
	CUcontext ctx;							\
	struct load load;						\
	CUdeviceptr p;							\
	CUstream a, b, free;						\
};									\
									\
FIXTURE_SETUP(name)							\
{									\
	CUipcMemHandle handle;						\
									\
	cuda_begin(_metadata, &self->ctx);				\
	ASSERT_CU(load_make(&self->load));				\
	ASSERT_CU(cuMemAlloc(&self->p, MIB));				\
	ASSERT_CU(cuIpcGetMemHandle(&handle, self->p));			\
	ASSERT_CU(cuStreamCreate(&self->a, CU_STREAM_DEFAULT));		\
	ASSERT_CU(cuStreamCreate(&self->b, CU_STREAM_DEFAULT));		\
	ASSERT_CU(cuStreamCreate(&self->free, CU_STREAM_NON_BLOCKING));	\
}									\
									\
QUIET_AFTERWARDS(name)

#endif
