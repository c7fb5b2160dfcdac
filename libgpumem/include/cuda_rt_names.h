/* SPDX-License-Identifier: MIT */
/*
 * The forms of the runtime API's functions in which stream 0 is the calling thread's own, under the
 * names that programs use. Include cuda_runtime_api.h, not this file.
 */
#ifndef GPUMEM_CUDA_RT_NAMES_H
#define GPUMEM_CUDA_RT_NAMES_H

#define cudaGetDriverEntryPoint			cudaGetDriverEntryPoint_ptsz
#define cudaGetDriverEntryPointByVersion	cudaGetDriverEntryPointByVersion_ptsz
#define cudaMemPrefetchAsync			cudaMemPrefetchAsync_ptsz
#define cudaMemPrefetchBatchAsync		cudaMemPrefetchBatchAsync_ptsz
#define cudaMemDiscardBatchAsync		cudaMemDiscardBatchAsync_ptsz
#define cudaMemDiscardAndPrefetchBatchAsync	cudaMemDiscardAndPrefetchBatchAsync_ptsz
#define cudaMemcpy				cudaMemcpy_ptds
#define cudaMemcpy2D				cudaMemcpy2D_ptds
#define cudaMemcpy3D				cudaMemcpy3D_ptds
#define cudaMemcpy3DPeer			cudaMemcpy3DPeer_ptds
#define cudaMemcpyAsync				cudaMemcpyAsync_ptsz
#define cudaMemcpy2DAsync			cudaMemcpy2DAsync_ptsz
#define cudaMemcpy3DAsync			cudaMemcpy3DAsync_ptsz
#define cudaMemcpy3DPeerAsync			cudaMemcpy3DPeerAsync_ptsz
#define cudaMemcpy2DToArray			cudaMemcpy2DToArray_ptds
#define cudaMemcpy2DFromArray			cudaMemcpy2DFromArray_ptds
#define cudaMemcpy2DArrayToArray		cudaMemcpy2DArrayToArray_ptds
#define cudaMemcpy2DToArrayAsync		cudaMemcpy2DToArrayAsync_ptsz
#define cudaMemcpy2DFromArrayAsync		cudaMemcpy2DFromArrayAsync_ptsz
#define cudaMemcpyToArray			cudaMemcpyToArray_ptds
#define cudaMemcpyFromArray			cudaMemcpyFromArray_ptds
#define cudaMemcpyArrayToArray			cudaMemcpyArrayToArray_ptds
#define cudaMemcpyToArrayAsync			cudaMemcpyToArrayAsync_ptsz
#define cudaMemcpyFromArrayAsync		cudaMemcpyFromArrayAsync_ptsz
#define cudaMemcpyBatchAsync			cudaMemcpyBatchAsync_ptsz
#define cudaMemcpy3DBatchAsync			cudaMemcpy3DBatchAsync_ptsz
#define cudaMemcpyWithAttributesAsync		cudaMemcpyWithAttributesAsync_ptsz
#define cudaMemcpy3DWithAttributesAsync		cudaMemcpy3DWithAttributesAsync_ptsz
#define cudaSignalExternalSemaphoresAsync	cudaSignalExternalSemaphoresAsync_ptsz
#define cudaWaitExternalSemaphoresAsync		cudaWaitExternalSemaphoresAsync_ptsz
#define cudaMemset				cudaMemset_ptds
#define cudaMemset2D				cudaMemset2D_ptds
#define cudaMemset3D				cudaMemset3D_ptds
#define cudaMemsetAsync				cudaMemsetAsync_ptsz
#define cudaMemset2DAsync			cudaMemset2DAsync_ptsz
#define cudaMemset3DAsync			cudaMemset3DAsync_ptsz
#define cudaMallocAsync				cudaMallocAsync_ptsz
#define cudaMallocFromPoolAsync			cudaMallocFromPoolAsync_ptsz
#define cudaFreeAsync				cudaFreeAsync_ptsz
#define cudaStreamQuery				cudaStreamQuery_ptsz
#define cudaStreamSynchronize			cudaStreamSynchronize_ptsz
#define cudaStreamWaitEvent			cudaStreamWaitEvent_ptsz
#define cudaStreamGetDevice			cudaStreamGetDevice_ptsz
#define cudaStreamGetFlags			cudaStreamGetFlags_ptsz
#define cudaStreamGetId				cudaStreamGetId_ptsz
#define cudaStreamGetPriority			cudaStreamGetPriority_ptsz
#define cudaStreamCopyAttributes		cudaStreamCopyAttributes_ptsz
#define cudaStreamGetAttribute			cudaStreamGetAttribute_ptsz
#define cudaStreamSetAttribute			cudaStreamSetAttribute_ptsz
#define cudaStreamAddCallback			cudaStreamAddCallback_ptsz
#define cudaLaunchHostFunc			cudaLaunchHostFunc_ptsz
#define cudaLaunchHostFunc_v2			cudaLaunchHostFunc_v2_ptsz
#define cudaStreamAttachMemAsync		cudaStreamAttachMemAsync_ptsz
#define cudaStreamBeginCapture			cudaStreamBeginCapture_ptsz
#define cudaStreamEndCapture			cudaStreamEndCapture_ptsz
#define cudaStreamIsCapturing			cudaStreamIsCapturing_ptsz
#define cudaStreamGetCaptureInfo		cudaStreamGetCaptureInfo_ptsz
#define cudaStreamUpdateCaptureDependencies	cudaStreamUpdateCaptureDependencies_ptsz
#define cudaEventRecord				cudaEventRecord_ptsz
#define cudaEventRecordWithFlags		cudaEventRecordWithFlags_ptsz

#endif /* GPUMEM_CUDA_RT_NAMES_H */
