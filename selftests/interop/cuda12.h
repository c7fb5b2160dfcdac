/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Included before programs that are written for CUDA 12's headers, such as UMF's tests and fio: there cuCtxCreate() is
 * cuCtxCreate_v2(), with three parameters.
 */
#include <cuda.h>

#undef cuCtxCreate
#define cuCtxCreate cuCtxCreate_v2
#ifdef __cplusplus
extern "C"
#endif
CUresult cuCtxCreate_v2(CUcontext *ctx, unsigned int flags, CUdevice device);
