/* SPDX-License-Identifier: MIT */
/*
 * The names that programs use, mapped to the symbols that they mean in CUDA 13.3.
 *
 * With CUDA_API_PER_THREAD_DEFAULT_STREAM defined, functions that can use a default stream mean
 * their per-thread form: _ptds where the stream is implied, _ptsz where it is an argument that may
 * be 0. Include cuda.h, not this file.
 */
#ifndef GPUMEM_CUDA_NAMES_H
#define GPUMEM_CUDA_NAMES_H

#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define GPUMEM_PTDS(name)	name ## _ptds
#define GPUMEM_PTSZ(name)	name ## _ptsz
#else
#define GPUMEM_PTDS(name)	name
#define GPUMEM_PTSZ(name)	name
#endif

/* Names whose current form has a version suffix. */
#define cuArray3DCreate				cuArray3DCreate_v2
#define cuArray3DGetDescriptor			cuArray3DGetDescriptor_v2
#define cuArrayCreate				cuArrayCreate_v2
#define cuArrayGetDescriptor			cuArrayGetDescriptor_v2
#define cuCtxCreate				cuCtxCreate_v4
#define cuCtxDestroy				cuCtxDestroy_v2
#define cuCtxPopCurrent				cuCtxPopCurrent_v2
#define cuCtxPushCurrent			cuCtxPushCurrent_v2
#define cuDeviceGetUuid				cuDeviceGetUuid_v2
#define cuDevicePrimaryCtxRelease		cuDevicePrimaryCtxRelease_v2
#define cuDevicePrimaryCtxReset			cuDevicePrimaryCtxReset_v2
#define cuDevicePrimaryCtxSetFlags		cuDevicePrimaryCtxSetFlags_v2
#define cuDeviceTotalMem			cuDeviceTotalMem_v2
#define cuEventDestroy				cuEventDestroy_v2
#define cuEventElapsedTime			cuEventElapsedTime_v2
#define cuGetProcAddress			cuGetProcAddress_v2
#define cuGraphicsResourceGetMappedPointer	cuGraphicsResourceGetMappedPointer_v2
#define cuGraphicsResourceSetMapFlags		cuGraphicsResourceSetMapFlags_v2
#define cuIpcOpenMemHandle			cuIpcOpenMemHandle_v2
#define cuLinkAddData				cuLinkAddData_v2
#define cuLinkAddFile				cuLinkAddFile_v2
#define cuLinkCreate				cuLinkCreate_v2
#define cuMemAdvise				cuMemAdvise_v2
#define cuMemAlloc				cuMemAlloc_v2
#define cuMemAllocHost				cuMemAllocHost_v2
#define cuMemAllocPitch				cuMemAllocPitch_v2
#define cuMemFree				cuMemFree_v2
#define cuMemGetAddressRange			cuMemGetAddressRange_v2
#define cuMemGetInfo				cuMemGetInfo_v2
#define cuMemHostGetDevicePointer		cuMemHostGetDevicePointer_v2
#define cuMemHostRegister			cuMemHostRegister_v2
#define cuModuleGetGlobal			cuModuleGetGlobal_v2
#define cuStreamDestroy				cuStreamDestroy_v2
#define cuTexRefGetAddress			cuTexRefGetAddress_v2
#define cuTexRefSetAddress			cuTexRefSetAddress_v2
#define cuTexRefSetAddress2D			cuTexRefSetAddress2D_v3

/* Names whose current form has a version suffix and a per-thread form. */
#define cuMemPrefetchAsync			GPUMEM_PTSZ(cuMemPrefetchAsync_v2)
#define cuMemcpy2D				GPUMEM_PTDS(cuMemcpy2D_v2)
#define cuMemcpy2DAsync				GPUMEM_PTSZ(cuMemcpy2DAsync_v2)
#define cuMemcpy2DUnaligned			GPUMEM_PTDS(cuMemcpy2DUnaligned_v2)
#define cuMemcpy3D				GPUMEM_PTDS(cuMemcpy3D_v2)
#define cuMemcpy3DAsync				GPUMEM_PTSZ(cuMemcpy3DAsync_v2)
#define cuMemcpy3DBatchAsync			GPUMEM_PTSZ(cuMemcpy3DBatchAsync_v2)
#define cuMemcpyAtoA				GPUMEM_PTDS(cuMemcpyAtoA_v2)
#define cuMemcpyAtoD				GPUMEM_PTDS(cuMemcpyAtoD_v2)
#define cuMemcpyAtoH				GPUMEM_PTDS(cuMemcpyAtoH_v2)
#define cuMemcpyAtoHAsync			GPUMEM_PTSZ(cuMemcpyAtoHAsync_v2)
#define cuMemcpyBatchAsync			GPUMEM_PTSZ(cuMemcpyBatchAsync_v2)
#define cuMemcpyDtoA				GPUMEM_PTDS(cuMemcpyDtoA_v2)
#define cuMemcpyDtoD				GPUMEM_PTDS(cuMemcpyDtoD_v2)
#define cuMemcpyDtoDAsync			GPUMEM_PTSZ(cuMemcpyDtoDAsync_v2)
#define cuMemcpyDtoH				GPUMEM_PTDS(cuMemcpyDtoH_v2)
#define cuMemcpyDtoHAsync			GPUMEM_PTSZ(cuMemcpyDtoHAsync_v2)
#define cuMemcpyHtoA				GPUMEM_PTDS(cuMemcpyHtoA_v2)
#define cuMemcpyHtoAAsync			GPUMEM_PTSZ(cuMemcpyHtoAAsync_v2)
#define cuMemcpyHtoD				GPUMEM_PTDS(cuMemcpyHtoD_v2)
#define cuMemcpyHtoDAsync			GPUMEM_PTSZ(cuMemcpyHtoDAsync_v2)
#define cuMemsetD16				GPUMEM_PTDS(cuMemsetD16_v2)
#define cuMemsetD2D16				GPUMEM_PTDS(cuMemsetD2D16_v2)
#define cuMemsetD2D32				GPUMEM_PTDS(cuMemsetD2D32_v2)
#define cuMemsetD2D8				GPUMEM_PTDS(cuMemsetD2D8_v2)
#define cuMemsetD32				GPUMEM_PTDS(cuMemsetD32_v2)
#define cuMemsetD8				GPUMEM_PTDS(cuMemsetD8_v2)
#define cuStreamBatchMemOp			GPUMEM_PTSZ(cuStreamBatchMemOp_v2)
#define cuStreamBeginCapture			GPUMEM_PTSZ(cuStreamBeginCapture_v2)
#define cuStreamGetCaptureInfo			GPUMEM_PTSZ(cuStreamGetCaptureInfo_v3)
#define cuStreamUpdateCaptureDependencies	GPUMEM_PTSZ(cuStreamUpdateCaptureDependencies_v2)
#define cuStreamWaitValue32			GPUMEM_PTSZ(cuStreamWaitValue32_v2)
#define cuStreamWaitValue64			GPUMEM_PTSZ(cuStreamWaitValue64_v2)
#define cuStreamWriteValue32			GPUMEM_PTSZ(cuStreamWriteValue32_v2)
#define cuStreamWriteValue64			GPUMEM_PTSZ(cuStreamWriteValue64_v2)

/* Names without a version suffix that have a per-thread form. */
#ifdef CUDA_API_PER_THREAD_DEFAULT_STREAM
#define cuEventRecord				GPUMEM_PTSZ(cuEventRecord)
#define cuEventRecordWithFlags			GPUMEM_PTSZ(cuEventRecordWithFlags)
#define cuGraphicsMapResources			GPUMEM_PTSZ(cuGraphicsMapResources)
#define cuGraphicsUnmapResources		GPUMEM_PTSZ(cuGraphicsUnmapResources)
#define cuLaunchHostFunc			GPUMEM_PTSZ(cuLaunchHostFunc)
#define cuLaunchHostFunc_v2			GPUMEM_PTSZ(cuLaunchHostFunc_v2)
#define cuLaunchKernel				GPUMEM_PTSZ(cuLaunchKernel)
#define cuMemAllocAsync				GPUMEM_PTSZ(cuMemAllocAsync)
#define cuMemAllocFromPoolAsync			GPUMEM_PTSZ(cuMemAllocFromPoolAsync)
#define cuMemBatchDecompressAsync		GPUMEM_PTSZ(cuMemBatchDecompressAsync)
#define cuMemDiscardAndPrefetchBatchAsync	GPUMEM_PTSZ(cuMemDiscardAndPrefetchBatchAsync)
#define cuMemDiscardBatchAsync			GPUMEM_PTSZ(cuMemDiscardBatchAsync)
#define cuMemFreeAsync				GPUMEM_PTSZ(cuMemFreeAsync)
#define cuMemMapArrayAsync			GPUMEM_PTSZ(cuMemMapArrayAsync)
#define cuMemPrefetchBatchAsync			GPUMEM_PTSZ(cuMemPrefetchBatchAsync)
#define cuMemcpy				GPUMEM_PTDS(cuMemcpy)
#define cuMemcpy3DPeer				GPUMEM_PTDS(cuMemcpy3DPeer)
#define cuMemcpy3DPeerAsync			GPUMEM_PTSZ(cuMemcpy3DPeerAsync)
#define cuMemcpy3DWithAttributesAsync		GPUMEM_PTSZ(cuMemcpy3DWithAttributesAsync)
#define cuMemcpyAsync				GPUMEM_PTSZ(cuMemcpyAsync)
#define cuMemcpyPeer				GPUMEM_PTDS(cuMemcpyPeer)
#define cuMemcpyPeerAsync			GPUMEM_PTSZ(cuMemcpyPeerAsync)
#define cuMemcpyWithAttributesAsync		GPUMEM_PTSZ(cuMemcpyWithAttributesAsync)
#define cuMemsetD16Async			GPUMEM_PTSZ(cuMemsetD16Async)
#define cuMemsetD2D16Async			GPUMEM_PTSZ(cuMemsetD2D16Async)
#define cuMemsetD2D32Async			GPUMEM_PTSZ(cuMemsetD2D32Async)
#define cuMemsetD2D8Async			GPUMEM_PTSZ(cuMemsetD2D8Async)
#define cuMemsetD32Async			GPUMEM_PTSZ(cuMemsetD32Async)
#define cuMemsetD8Async				GPUMEM_PTSZ(cuMemsetD8Async)
#define cuSignalExternalSemaphoresAsync		GPUMEM_PTSZ(cuSignalExternalSemaphoresAsync)
#define cuStreamAddCallback			GPUMEM_PTSZ(cuStreamAddCallback)
#define cuStreamAttachMemAsync			GPUMEM_PTSZ(cuStreamAttachMemAsync)
#define cuStreamBeginCaptureToGraph		GPUMEM_PTSZ(cuStreamBeginCaptureToGraph)
#define cuStreamCopyAttributes			GPUMEM_PTSZ(cuStreamCopyAttributes)
#define cuStreamEndCapture			GPUMEM_PTSZ(cuStreamEndCapture)
#define cuStreamGetAttribute			GPUMEM_PTSZ(cuStreamGetAttribute)
#define cuStreamGetCtx				GPUMEM_PTSZ(cuStreamGetCtx)
#define cuStreamGetCtx_v2			GPUMEM_PTSZ(cuStreamGetCtx_v2)
#define cuStreamGetDevice			GPUMEM_PTSZ(cuStreamGetDevice)
#define cuStreamGetFlags			GPUMEM_PTSZ(cuStreamGetFlags)
#define cuStreamGetId				GPUMEM_PTSZ(cuStreamGetId)
#define cuStreamGetPriority			GPUMEM_PTSZ(cuStreamGetPriority)
#define cuStreamIsCapturing			GPUMEM_PTSZ(cuStreamIsCapturing)
#define cuStreamQuery				GPUMEM_PTSZ(cuStreamQuery)
#define cuStreamSetAttribute			GPUMEM_PTSZ(cuStreamSetAttribute)
#define cuStreamSynchronize			GPUMEM_PTSZ(cuStreamSynchronize)
#define cuStreamWaitEvent			GPUMEM_PTSZ(cuStreamWaitEvent)
#define cuWaitExternalSemaphoresAsync		GPUMEM_PTSZ(cuWaitExternalSemaphoresAsync)

/* A program built with per-thread default streams looks up per-thread forms, unless it passes other flags. */
static inline CUresult gpumem_get_proc_address_pt(const char *name, void **function, int version,
						  cuuint64_t flags,
						  CUdriverProcAddressQueryResult *status)
{
	if (!(flags & (CU_GET_PROC_ADDRESS_LEGACY_STREAM |
		       CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM)))
		flags |= CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
	return cuGetProcAddress_v2(name, function, version, flags, status);
}
#define cuGetProcAddress_v2			gpumem_get_proc_address_pt
#endif

#endif /* GPUMEM_CUDA_NAMES_H */
