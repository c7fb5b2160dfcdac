/* SPDX-License-Identifier: MIT */
/*
 * What the examples of the checker's reports begin and end with: a context, and two streams that are ordered with no
 * other stream.
 */
#ifndef BEGIN_H
#define BEGIN_H

#include <cuda.h>

#include <stdio.h>
#include <stdlib.h>

static CUcontext context;
static CUstream a, b;

static inline void begin(void)
{
	if (cuInit(0)) {
		fprintf(stderr, "no device\n");
		exit(1);
	}
	cuDevicePrimaryCtxRetain(&context, 0);
	cuCtxSetCurrent(context);
	cuStreamCreate(&a, CU_STREAM_NON_BLOCKING);
	cuStreamCreate(&b, CU_STREAM_NON_BLOCKING);
}

static inline void end(void)
{
	cuStreamDestroy(a);
	cuStreamDestroy(b);
	cuDevicePrimaryCtxRelease(0);
}

#endif
