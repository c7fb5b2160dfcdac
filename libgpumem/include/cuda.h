/* SPDX-License-Identifier: MIT */
/*
 * The CUDA driver API, version 13.3, as far as libgpumem serves it: memory, streams, events,
 * contexts and devices in full, and the functions for code, textures and graphics
 * objects that programs look up by name.
 *
 * Source and binary compatible with CUDA: names, values, layouts and signatures are the
 * interface's own. Functions are declared here under the names of their symbols; cuda_names.h then
 * gives them the names that programs use (cuMemAlloc for cuMemAlloc_v2). With
 * CUDA_API_PER_THREAD_DEFAULT_STREAM defined these mean the _ptds and _ptsz forms, where stream 0
 * is the calling thread's own.
 *
 * Every function returns a CUresult. Outputs are written before the call returns and most come
 * first among the arguments. Asynchronous functions take a stream and return when the work is
 * queued. Every function may also return an error of earlier asynchronous work. All functions may
 * be called from any thread. A comment at each function's implementation describes it.
 */
#ifndef __cuda_cuda_h__
#define __cuda_cuda_h__

#include "cuda_base.h"
#include "cuda_result.h"
#include "cuda_enums.h"
#include "cuda_structs.h"

/* A function and the form of it in which stream 0 is the calling thread's own. */
#define CU_PTDS(name, args)	CUresult CUDAAPI name args; CUresult CUDAAPI name ## _ptds args
#define CU_PTSZ(name, args)	CUresult CUDAAPI name args; CUresult CUDAAPI name ## _ptsz args

#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Start and identity. cuInit() comes first in every process; flags are 0. */
CUresult CUDAAPI cuInit(unsigned int flags);
CUresult CUDAAPI cuDriverGetVersion(int *driver_version);
CUresult CUDAAPI cuGetErrorName(CUresult error, const char **text);
CUresult CUDAAPI cuGetErrorString(CUresult error, const char **text);
CUresult CUDAAPI cuGetProcAddress_v2(const char *name, void **function, int cuda_version,
				     cuuint64_t flags,
				     CUdriverProcAddressQueryResult *symbol_status);
CUresult CUDAAPI cuGetExportTable(const void **table, const CUuuid *table_id);

/* Devices: ordinals from 0 to the count minus 1. Total memory is in bytes. */
CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal);
CUresult CUDAAPI cuDeviceGetCount(int *count);
CUresult CUDAAPI cuDeviceGetName(char *name, int size, CUdevice device);
CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device);
CUresult CUDAAPI cuDeviceGetLuid(char *luid, unsigned int *device_node_mask, CUdevice device);
CUresult CUDAAPI cuDeviceTotalMem_v2(size_t *bytes, CUdevice device);
CUresult CUDAAPI cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device);
CUresult CUDAAPI cuDeviceGetProperties(CUdevprop *prop, CUdevice device);
CUresult CUDAAPI cuDeviceComputeCapability(int *major, int *minor, CUdevice device);
CUresult CUDAAPI cuDeviceGetPCIBusId(char *bus_id, int size, CUdevice device);
CUresult CUDAAPI cuDeviceGetByPCIBusId(CUdevice *device, const char *bus_id);
CUresult CUDAAPI cuDeviceGetTexture1DLinearMaxWidth(size_t *max_width_in_elements,
		CUarray_format format, unsigned int num_channels, CUdevice device);
CUresult CUDAAPI cuDeviceGetExecAffinitySupport(int *value, CUexecAffinityType type,
						CUdevice device);
CUresult CUDAAPI cuDeviceGetHostAtomicCapabilities(unsigned int *capabilities,
		const CUatomicOperation *operations, unsigned int count, CUdevice device);
CUresult CUDAAPI cuDeviceGetNvSciSyncAttributes(void *attr_list, CUdevice device, int flags);

/* Notifications: the callback can run until its handle is unregistered. */
CUresult CUDAAPI cuDeviceRegisterAsyncNotification(CUdevice device, CUasyncCallback function,
		void *user_data, CUasyncCallbackHandle *callback);
CUresult CUDAAPI cuDeviceUnregisterAsyncNotification(CUdevice device,
		CUasyncCallbackHandle callback);

/* A device's primary context: shared by the process, counted by retain and release. */
CUresult CUDAAPI cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active);
CUresult CUDAAPI cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUresult CUDAAPI cuDevicePrimaryCtxReset_v2(CUdevice device);
CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *ctx, CUdevice device);
CUresult CUDAAPI cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags);

/*
 * Contexts: each thread has a stack of them, the top one is current. Destroying a context frees
 * what was made in it, except pools and what came from pools.
 */
CUresult CUDAAPI cuCtxCreate_v4(CUcontext *ctx, CUctxCreateParams *params, unsigned int flags,
				CUdevice device);
CUresult CUDAAPI cuCtxDestroy_v2(CUcontext ctx);
CUresult CUDAAPI cuCtxAttach(CUcontext *ctx, unsigned int flags);
CUresult CUDAAPI cuCtxDetach(CUcontext ctx);
CUresult CUDAAPI cuCtxPushCurrent_v2(CUcontext ctx);
CUresult CUDAAPI cuCtxPopCurrent_v2(CUcontext *ctx);
CUresult CUDAAPI cuCtxSetCurrent(CUcontext ctx);
CUresult CUDAAPI cuCtxGetCurrent(CUcontext *ctx);
CUresult CUDAAPI cuCtxGetDevice(CUdevice *device);
CUresult CUDAAPI cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx);
CUresult CUDAAPI cuCtxGetId(CUcontext ctx, unsigned long long *ctx_id);
CUresult CUDAAPI cuCtxGetApiVersion(CUcontext ctx, unsigned int *version);
CUresult CUDAAPI cuCtxGetFlags(unsigned int *flags);
CUresult CUDAAPI cuCtxSetFlags(unsigned int flags);
CUresult CUDAAPI cuCtxSynchronize(void);
CUresult CUDAAPI cuCtxSynchronize_v2(CUcontext ctx);
CUresult CUDAAPI cuCtxGetLimit(size_t *value, CUlimit limit);
CUresult CUDAAPI cuCtxSetLimit(CUlimit limit, size_t value);
CUresult CUDAAPI cuCtxGetCacheConfig(CUfunc_cache *config);
CUresult CUDAAPI cuCtxSetCacheConfig(CUfunc_cache config);
CUresult CUDAAPI cuCtxGetSharedMemConfig(CUsharedconfig *config);
CUresult CUDAAPI cuCtxSetSharedMemConfig(CUsharedconfig config);
CUresult CUDAAPI cuCtxGetStreamPriorityRange(int *least_priority, int *greatest_priority);
CUresult CUDAAPI cuCtxGetExecAffinity(CUexecAffinityParam *exec_affinity, CUexecAffinityType type);
CUresult CUDAAPI cuCtxResetPersistingL2Cache(void);
CUresult CUDAAPI cuCtxRecordEvent(CUcontext ctx, CUevent event);
CUresult CUDAAPI cuCtxWaitEvent(CUcontext ctx, CUevent event);

/* Peer access between contexts of two devices. */
CUresult CUDAAPI cuDeviceCanAccessPeer(int *can_access_peer, CUdevice device, CUdevice peer);
CUresult CUDAAPI cuDeviceGetP2PAtomicCapabilities(unsigned int *capabilities,
		const CUatomicOperation *operations, unsigned int count, CUdevice src_device,
		CUdevice dst_device);
CUresult CUDAAPI cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute,
					 CUdevice src_device, CUdevice dst_device);
CUresult CUDAAPI cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags);
CUresult CUDAAPI cuCtxDisablePeerAccess(CUcontext peer);

/*
 * Device memory of the current context. cuMemFree() frees it, after waiting for the work of the
 * context that owns the memory.
 */
CUresult CUDAAPI cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes);
CUresult CUDAAPI cuMemAlloc_v2(CUdeviceptr *ptr, size_t bytes);
CUresult CUDAAPI cuMemAllocPitch_v2(CUdeviceptr *ptr, size_t *pitch, size_t width, size_t height,
				    unsigned int element_bytes);
CUresult CUDAAPI cuMemFree_v2(CUdeviceptr ptr);
CUresult CUDAAPI cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr ptr);
CUresult CUDAAPI cuMemGetHandleForAddressRange(void *handle, CUdeviceptr ptr, size_t size,
					       CUmemRangeHandleType handle_type,
					       unsigned long long flags);

/* Host memory, pinned and visible to the devices. Registered memory stays the caller's. */
CUresult CUDAAPI cuMemAllocHost_v2(void **ptr, size_t bytes);
CUresult CUDAAPI cuMemHostAlloc(void **ptr, size_t bytes, unsigned int flags);
CUresult CUDAAPI cuMemFreeHost(void *ptr);
CUresult CUDAAPI cuMemHostRegister_v2(void *ptr, size_t bytes, unsigned int flags);
CUresult CUDAAPI cuMemHostUnregister(void *ptr);
CUresult CUDAAPI cuMemHostGetDevicePointer_v2(CUdeviceptr *ptr, void *host_ptr, unsigned int flags);
CUresult CUDAAPI cuMemHostGetFlags(unsigned int *flags, void *ptr);

/* Managed memory: one address for host and devices. */
CUresult CUDAAPI cuMemAllocManaged(CUdeviceptr *ptr, size_t bytes, unsigned int flags);
CUresult CUDAAPI cuMemAdvise_v2(CUdeviceptr ptr, size_t count, CUmem_advise advice,
				CUmemLocation location);
CU_PTSZ(cuMemPrefetchAsync_v2, (CUdeviceptr ptr, size_t count, CUmemLocation location,
				unsigned int flags, CUstream stream));
CU_PTSZ(cuMemPrefetchBatchAsync, (CUdeviceptr *ptrs, size_t *sizes, size_t count,
				  CUmemLocation *locations, size_t *location_indices,
				  size_t location_count, unsigned long long flags,
				  CUstream stream));
CU_PTSZ(cuMemDiscardBatchAsync, (CUdeviceptr *ptrs, size_t *sizes, size_t count,
				 unsigned long long flags, CUstream stream));
CU_PTSZ(cuMemDiscardAndPrefetchBatchAsync, (CUdeviceptr *ptrs, size_t *sizes, size_t count,
					    CUmemLocation *locations, size_t *location_indices,
					    size_t location_count, unsigned long long flags,
					    CUstream stream));
CUresult CUDAAPI cuMemRangeGetAttribute(void *data, size_t size, CUmem_range_attribute attribute,
					CUdeviceptr ptr, size_t count);
CUresult CUDAAPI cuMemRangeGetAttributes(void **data, size_t *sizes,
					 CUmem_range_attribute *attributes, size_t attribute_count,
					 CUdeviceptr ptr, size_t count);
CU_PTSZ(cuStreamAttachMemAsync, (CUstream stream, CUdeviceptr ptr, size_t length,
				 unsigned int flags));

/* The properties of the memory at an address. */
CUresult CUDAAPI cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr);
CUresult CUDAAPI cuPointerGetAttributes(unsigned int attribute_count,
					CUpointer_attribute *attributes, void **data,
					CUdeviceptr ptr);
CUresult CUDAAPI cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
				       CUdeviceptr ptr);

/*
 * Memory and events of other processes. Handles are plain bytes. The process that opens memory must
 * close it, and the process that opens an event must destroy its event.
 */
CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr ptr);
CUresult CUDAAPI cuIpcOpenMemHandle_v2(CUdeviceptr *ptr, CUipcMemHandle handle, unsigned int flags);
CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr ptr);
CUresult CUDAAPI cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event);
CUresult CUDAAPI cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle);

/*
 * Allocation in stream order. Memory may be used after the allocation and before the free, in the
 * order of the stream.
 */
CU_PTSZ(cuMemAllocAsync, (CUdeviceptr *ptr, size_t bytes, CUstream stream));
CU_PTSZ(cuMemAllocFromPoolAsync, (CUdeviceptr *ptr, size_t bytes, CUmemoryPool pool,
				  CUstream stream));
CU_PTSZ(cuMemFreeAsync, (CUdeviceptr ptr, CUstream stream));

/*
 * The pools of stream-ordered allocation. A device has a default and a current pool. A destroyed
 * pool's memory lives until the last allocation is freed.
 */
CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *props);
CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool pool);
CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool pool, size_t keep_bytes);
CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute,
				       void *value);
CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute,
				       void *value);
CUresult CUDAAPI cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool pool,
				    CUmemLocation *location);
CUresult CUDAAPI cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *access, size_t count);
CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device);
CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice device);
CUresult CUDAAPI cuDeviceSetMemPool(CUdevice device, CUmemoryPool pool);
CUresult CUDAAPI cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location,
					CUmemAllocationType type);
CUresult CUDAAPI cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location,
				 CUmemAllocationType type);
CUresult CUDAAPI cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type,
				 CUmemoryPool pool);
CUresult CUDAAPI cuMemPoolExportToShareableHandle(void *handle, CUmemoryPool pool,
		CUmemAllocationHandleType handle_type, unsigned long long flags);
CUresult CUDAAPI cuMemPoolImportFromShareableHandle(CUmemoryPool *pool, void *handle,
		CUmemAllocationHandleType handle_type, unsigned long long flags);
CUresult CUDAAPI cuMemPoolExportPointer(CUmemPoolPtrExportData *share_data, CUdeviceptr ptr);
CUresult CUDAAPI cuMemPoolImportPointer(CUdeviceptr *ptr, CUmemoryPool pool,
					CUmemPoolPtrExportData *share_data);

/*
 * Virtual memory management: address ranges and physical memory are separate. Memory lives until its
 * handle is released and its last mapping and export are gone.
 */
CUresult CUDAAPI cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment,
				     CUdeviceptr addr, unsigned long long flags);
CUresult CUDAAPI cuMemAddressFree(CUdeviceptr ptr, size_t size);
CUresult CUDAAPI cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
			     const CUmemAllocationProp *prop, unsigned long long flags);
CUresult CUDAAPI cuMemRelease(CUmemGenericAllocationHandle handle);
CUresult CUDAAPI cuMemMap(CUdeviceptr ptr, size_t size, size_t offset,
			  CUmemGenericAllocationHandle handle, unsigned long long flags);
CUresult CUDAAPI cuMemUnmap(CUdeviceptr ptr, size_t size);
CUresult CUDAAPI cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
				CUdeviceptr ptr);
CUresult CUDAAPI cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc,
				size_t count);
CUresult CUDAAPI cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
					       CUmemAllocationGranularity_flags option);
CUresult CUDAAPI cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
		CUmemGenericAllocationHandle handle);
CUresult CUDAAPI cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr);
CUresult CUDAAPI cuMemExportToShareableHandle(void *shareable_handle,
					      CUmemGenericAllocationHandle handle,
					      CUmemAllocationHandleType handle_type,
					      unsigned long long flags);
CUresult CUDAAPI cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle,
						void *os_handle,
						CUmemAllocationHandleType handle_type);
CU_PTSZ(cuMemMapArrayAsync, (CUarrayMapInfo *list, unsigned int count, CUstream stream));

/*
 * Multicast objects: one handle for memory of several devices. The functions return
 * CUDA_ERROR_NOT_SUPPORTED. Programs name the _v2 forms, which take the device, by their own names;
 * cuGetProcAddress() returns them for version 13.1 and later.
 */
CUresult CUDAAPI cuMulticastCreate(CUmemGenericAllocationHandle *handle,
				   const CUmulticastObjectProp *prop);
CUresult CUDAAPI cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice device);
CUresult CUDAAPI cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t offset,
				    CUmemGenericAllocationHandle memory, size_t memory_offset,
				    size_t size, unsigned long long flags);
CUresult CUDAAPI cuMulticastBindMem_v2(CUmemGenericAllocationHandle handle, CUdevice device,
				       size_t offset, CUmemGenericAllocationHandle memory,
				       size_t memory_offset, size_t size,
				       unsigned long long flags);
CUresult CUDAAPI cuMulticastBindAddr(CUmemGenericAllocationHandle handle, size_t offset,
				     CUdeviceptr ptr, size_t size, unsigned long long flags);
CUresult CUDAAPI cuMulticastBindAddr_v2(CUmemGenericAllocationHandle handle, CUdevice device,
					size_t offset, CUdeviceptr ptr, size_t size,
					unsigned long long flags);
CUresult CUDAAPI cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice device,
				   size_t offset, size_t size);
CUresult CUDAAPI cuMulticastGetGranularity(size_t *granularity, const CUmulticastObjectProp *prop,
					   CUmulticastGranularity_flags option);

/*
 * Logical endpoints: memory that other nodes of a fabric reach by a number and an offset. The
 * functions return CUDA_ERROR_NOT_SUPPORTED.
 */
CUresult CUDAAPI cuLogicalEndpointIdReserve(CUlogicalEndpointId *base, cuuint32_t count);
CUresult CUDAAPI cuLogicalEndpointIdRelease(CUlogicalEndpointId base, cuuint32_t count);
CUresult CUDAAPI cuLogicalEndpointCreate(CUlogicalEndpointId endpoint,
					 const CUlogicalEndpointProp *prop);
CUresult CUDAAPI cuLogicalEndpointAddDevice(CUlogicalEndpointId endpoint, CUdevice device);
CUresult CUDAAPI cuLogicalEndpointDestroy(CUlogicalEndpointId endpoint);
CUresult CUDAAPI cuLogicalEndpointBindAddr(CUlogicalEndpointId endpoint, CUdevice device,
					   cuuint64_t offset, void *ptr, cuuint64_t size,
					   unsigned long long flags);
CUresult CUDAAPI cuLogicalEndpointBindMem(CUlogicalEndpointId endpoint, CUdevice device,
					  cuuint64_t offset, CUmemGenericAllocationHandle memory,
					  cuuint64_t memory_offset, cuuint64_t size,
					  unsigned long long flags);
CUresult CUDAAPI cuLogicalEndpointUnbind(CUlogicalEndpointId endpoint, CUdevice device,
					 cuuint64_t offset, cuuint64_t size);
CUresult CUDAAPI cuLogicalEndpointExport(void *handle, CUlogicalEndpointId endpoint,
					 CUlogicalEndpointIpcHandleType handle_type);
CUresult CUDAAPI cuLogicalEndpointImport(CUlogicalEndpointId endpoint, const void *handle,
					 CUlogicalEndpointIpcHandleType handle_type);
CUresult CUDAAPI cuLogicalEndpointGetLimits(cuuint64_t *bind_alignment, cuuint64_t *max_size,
					    const CUlogicalEndpointProp *prop);
CUresult CUDAAPI cuLogicalEndpointQuery(CUlogicalEndpointId endpoint, cuuint32_t count,
					int *status);

/* Copies. A copy without a stream argument returns when the caller may access both ends again. */
CU_PTDS(cuMemcpy, (CUdeviceptr dst, CUdeviceptr src, size_t bytes));
CU_PTDS(cuMemcpyPeer, (CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
		       CUcontext src_context, size_t bytes));
CU_PTDS(cuMemcpyDtoD_v2, (CUdeviceptr dst, CUdeviceptr src, size_t bytes));
CU_PTDS(cuMemcpyDtoH_v2, (void *dst_host, CUdeviceptr src, size_t bytes));
CU_PTDS(cuMemcpyHtoD_v2, (CUdeviceptr dst, const void *src_host, size_t bytes));
CU_PTDS(cuMemcpyAtoA_v2, (CUarray dst_array, size_t dst_offset, CUarray src_array,
			  size_t src_offset, size_t bytes));
CU_PTDS(cuMemcpyAtoD_v2, (CUdeviceptr dst, CUarray src_array, size_t src_offset, size_t bytes));
CU_PTDS(cuMemcpyAtoH_v2, (void *dst_host, CUarray src_array, size_t src_offset, size_t bytes));
CU_PTDS(cuMemcpyDtoA_v2, (CUarray dst_array, size_t dst_offset, CUdeviceptr src, size_t bytes));
CU_PTDS(cuMemcpyHtoA_v2, (CUarray dst_array, size_t dst_offset, const void *src_host,
			  size_t bytes));
CU_PTDS(cuMemcpy2D_v2, (const CUDA_MEMCPY2D *copy));
CU_PTDS(cuMemcpy2DUnaligned_v2, (const CUDA_MEMCPY2D *copy));
CU_PTDS(cuMemcpy3D_v2, (const CUDA_MEMCPY3D *copy));
CU_PTDS(cuMemcpy3DPeer, (const CUDA_MEMCPY3D_PEER *copy));

/* Copies in stream order. */
CU_PTSZ(cuMemcpyAsync, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream));
CU_PTSZ(cuMemcpyPeerAsync, (CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
			    CUcontext src_context, size_t bytes, CUstream stream));
CU_PTSZ(cuMemcpyAtoHAsync_v2, (void *dst_host, CUarray src_array, size_t src_offset, size_t bytes,
			       CUstream stream));
CU_PTSZ(cuMemcpyDtoDAsync_v2, (CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream));
CU_PTSZ(cuMemcpyDtoHAsync_v2, (void *dst_host, CUdeviceptr src, size_t bytes, CUstream stream));
CU_PTSZ(cuMemcpyHtoAAsync_v2, (CUarray dst_array, size_t dst_offset, const void *src_host,
			       size_t bytes, CUstream stream));
CU_PTSZ(cuMemcpyHtoDAsync_v2, (CUdeviceptr dst, const void *src_host, size_t bytes,
			       CUstream stream));
CU_PTSZ(cuMemcpy2DAsync_v2, (const CUDA_MEMCPY2D *copy, CUstream stream));
CU_PTSZ(cuMemcpy3DAsync_v2, (const CUDA_MEMCPY3D *copy, CUstream stream));
CU_PTSZ(cuMemcpy3DPeerAsync, (const CUDA_MEMCPY3D_PEER *copy, CUstream stream));
CU_PTSZ(cuMemcpyBatchAsync_v2, (CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes, size_t count,
				CUmemcpyAttributes *attrs, size_t *attr_indices, size_t attr_count,
				CUstream stream));
CU_PTSZ(cuMemcpy3DBatchAsync_v2, (size_t op_count, CUDA_MEMCPY3D_BATCH_OP *ops,
				  unsigned long long flags, CUstream stream));
CU_PTSZ(cuMemcpyWithAttributesAsync, (CUdeviceptr dst, CUdeviceptr src, size_t size,
				      CUmemcpyAttributes *attr, CUstream stream));
CU_PTSZ(cuMemcpy3DWithAttributesAsync, (CUDA_MEMCPY3D_BATCH_OP *op, unsigned long long flags,
					CUstream stream));
CU_PTSZ(cuMemBatchDecompressAsync, (CUmemDecompressParams *params, size_t count, unsigned int flags,
				    size_t *error_index, CUstream stream));

/* Fills with 8, 16 or 32 bit values; counts and widths are in values, pitches in bytes. */
CU_PTDS(cuMemsetD8_v2, (CUdeviceptr dst, unsigned char value, size_t count));
CU_PTDS(cuMemsetD16_v2, (CUdeviceptr dst, unsigned short value, size_t count));
CU_PTDS(cuMemsetD32_v2, (CUdeviceptr dst, unsigned int value, size_t count));
CU_PTDS(cuMemsetD2D8_v2, (CUdeviceptr dst, size_t dst_pitch, unsigned char value, size_t width,
			  size_t height));
CU_PTDS(cuMemsetD2D16_v2, (CUdeviceptr dst, size_t dst_pitch, unsigned short value, size_t width,
			   size_t height));
CU_PTDS(cuMemsetD2D32_v2, (CUdeviceptr dst, size_t dst_pitch, unsigned int value, size_t width,
			   size_t height));
CU_PTSZ(cuMemsetD8Async, (CUdeviceptr dst, unsigned char value, size_t count, CUstream stream));
CU_PTSZ(cuMemsetD16Async, (CUdeviceptr dst, unsigned short value, size_t count, CUstream stream));
CU_PTSZ(cuMemsetD32Async, (CUdeviceptr dst, unsigned int value, size_t count, CUstream stream));
CU_PTSZ(cuMemsetD2D8Async, (CUdeviceptr dst, size_t dst_pitch, unsigned char value, size_t width,
			    size_t height, CUstream stream));
CU_PTSZ(cuMemsetD2D16Async, (CUdeviceptr dst, size_t dst_pitch, unsigned short value, size_t width,
			     size_t height, CUstream stream));
CU_PTSZ(cuMemsetD2D32Async, (CUdeviceptr dst, size_t dst_pitch, unsigned int value, size_t width,
			     size_t height, CUstream stream));

/* Arrays: memory in a layout of the library's choice, reached by copies and textures only. */
CUresult CUDAAPI cuArray3DCreate_v2(CUarray *handle, const CUDA_ARRAY3D_DESCRIPTOR *descriptor);
CUresult CUDAAPI cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *descriptor, CUarray array);
CUresult CUDAAPI cuArrayCreate_v2(CUarray *handle, const CUDA_ARRAY_DESCRIPTOR *descriptor);
CUresult CUDAAPI cuArrayDestroy(CUarray array);
CUresult CUDAAPI cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *descriptor, CUarray array);
CUresult CUDAAPI cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memory_requirements,
					      CUarray array, CUdevice device);
CUresult CUDAAPI cuArrayGetPlane(CUarray *plane, CUarray array, unsigned int plane_idx);
CUresult CUDAAPI cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *sparse_properties,
					    CUarray array);
CUresult CUDAAPI cuMipmappedArrayCreate(CUmipmappedArray *handle,
					const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
					unsigned int num_mipmap_levels);
CUresult CUDAAPI cuMipmappedArrayDestroy(CUmipmappedArray mipmap);
CUresult CUDAAPI cuMipmappedArrayGetLevel(CUarray *level_array, CUmipmappedArray mipmap,
					  unsigned int level);
CUresult CUDAAPI cuMipmappedArrayGetMemoryRequirements(
		CUDA_ARRAY_MEMORY_REQUIREMENTS *memory_requirements, CUmipmappedArray mipmap,
		CUdevice device);
CUresult CUDAAPI cuMipmappedArrayGetSparseProperties(
		CUDA_ARRAY_SPARSE_PROPERTIES *sparse_properties, CUmipmappedArray mipmap);

/* Streams: queues of work. Destroying one lets its work finish. */
CUresult CUDAAPI cuStreamCreate(CUstream *stream, unsigned int flags);
CUresult CUDAAPI cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority);
CUresult CUDAAPI cuStreamDestroy_v2(CUstream stream);
CU_PTSZ(cuStreamQuery, (CUstream stream));
CU_PTSZ(cuStreamSynchronize, (CUstream stream));
CU_PTSZ(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags));
CU_PTSZ(cuStreamGetCtx, (CUstream stream, CUcontext *ctx));
CU_PTSZ(cuStreamGetCtx_v2, (CUstream stream, CUcontext *ctx, CUgreenCtx *green_ctx));
CU_PTSZ(cuStreamGetDevice, (CUstream stream, CUdevice *device));
CU_PTSZ(cuStreamGetFlags, (CUstream stream, unsigned int *flags));
CU_PTSZ(cuStreamGetId, (CUstream stream, unsigned long long *stream_id));
CU_PTSZ(cuStreamGetPriority, (CUstream stream, int *priority));
CU_PTSZ(cuStreamCopyAttributes, (CUstream dst_stream, CUstream src_stream));
CU_PTSZ(cuStreamGetAttribute, (CUstream stream, CUstreamAttrID attribute,
			       CUstreamAttrValue *value));
CU_PTSZ(cuStreamSetAttribute, (CUstream stream, CUstreamAttrID attribute,
			       const CUstreamAttrValue *param));
CU_PTSZ(cuStreamAddCallback, (CUstream stream, CUstreamCallback callback, void *user_data,
			      unsigned int flags));
CU_PTSZ(cuLaunchHostFunc, (CUstream stream, CUhostFn function, void *user_data));
CU_PTSZ(cuLaunchHostFunc_v2, (CUstream stream, CUhostFn function, void *user_data,
			      unsigned int sync_mode));
CU_PTSZ(cuStreamWaitValue32_v2, (CUstream stream, CUdeviceptr addr, cuuint32_t value,
				 unsigned int flags));
CU_PTSZ(cuStreamWaitValue64_v2, (CUstream stream, CUdeviceptr addr, cuuint64_t value,
				 unsigned int flags));
CU_PTSZ(cuStreamWriteValue32_v2, (CUstream stream, CUdeviceptr addr, cuuint32_t value,
				  unsigned int flags));
CU_PTSZ(cuStreamWriteValue64_v2, (CUstream stream, CUdeviceptr addr, cuuint64_t value,
				  unsigned int flags));
CU_PTSZ(cuStreamBatchMemOp_v2, (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *ops,
				unsigned int flags));

/* Recording a stream's work as a graph. */
CU_PTSZ(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode));
CU_PTSZ(cuStreamBeginCaptureToGraph, (CUstream stream, CUgraph graph,
				      const CUgraphNode *dependencies,
				      const CUgraphEdgeData *dependency_data,
				      size_t dependency_count, CUstreamCaptureMode mode));
CU_PTSZ(cuStreamEndCapture, (CUstream stream, CUgraph *graph));
CU_PTSZ(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *status));
CU_PTSZ(cuStreamGetCaptureInfo_v3, (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id,
				    CUgraph *graph, const CUgraphNode **dependencies,
				    const CUgraphEdgeData **edge_data, size_t *dependency_count));
CU_PTSZ(cuStreamUpdateCaptureDependencies_v2, (CUstream stream, CUgraphNode *dependencies,
					       const CUgraphEdgeData *dependency_data,
					       size_t dependency_count, unsigned int flags));
CUresult CUDAAPI cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode);

/* Events: points in streams. Times are milliseconds. */
CUresult CUDAAPI cuEventCreate(CUevent *event, unsigned int flags);
CUresult CUDAAPI cuEventDestroy_v2(CUevent event);
CU_PTSZ(cuEventRecord, (CUevent event, CUstream stream));
CU_PTSZ(cuEventRecordWithFlags, (CUevent event, CUstream stream, unsigned int flags));
CUresult CUDAAPI cuEventQuery(CUevent event);
CUresult CUDAAPI cuEventSynchronize(CUevent event);
CUresult CUDAAPI cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end);

/* Memory and semaphores of other APIs. */
CUresult CUDAAPI cuImportExternalMemory(CUexternalMemory *ext_mem,
					const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc);
CUresult CUDAAPI cuExternalMemoryGetMappedBuffer(CUdeviceptr *ptr, CUexternalMemory memory,
		const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *buffer_desc);
CUresult CUDAAPI cuExternalMemoryGetMappedMipmappedArray(CUmipmappedArray *mipmap,
		CUexternalMemory memory,
		const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *mipmap_desc);
CUresult CUDAAPI cuDestroyExternalMemory(CUexternalMemory memory);
CUresult CUDAAPI cuImportExternalSemaphore(CUexternalSemaphore *ext_sem,
					   const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *desc);
CUresult CUDAAPI cuDestroyExternalSemaphore(CUexternalSemaphore semaphore);
CU_PTSZ(cuSignalExternalSemaphoresAsync, (const CUexternalSemaphore *semaphores,
					  const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *params,
					  unsigned int count, CUstream stream));
CU_PTSZ(cuWaitExternalSemaphoresAsync, (const CUexternalSemaphore *semaphores,
					const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *params,
					unsigned int count, CUstream stream));
CUresult CUDAAPI cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
					    CUflushGPUDirectRDMAWritesScope scope);

/* Graphics resources. The functions of OpenGL itself are in cudaGL.h. */
CU_PTSZ(cuGraphicsMapResources, (unsigned int count, CUgraphicsResource *resources,
				 CUstream stream));
CUresult CUDAAPI cuGraphicsResourceGetMappedMipmappedArray(CUmipmappedArray *mipmap,
		CUgraphicsResource resource);
CUresult CUDAAPI cuGraphicsResourceGetMappedPointer_v2(CUdeviceptr *ptr, size_t *size,
		CUgraphicsResource resource);
CUresult CUDAAPI cuGraphicsResourceSetMapFlags_v2(CUgraphicsResource resource, unsigned int flags);
CUresult CUDAAPI cuGraphicsSubResourceGetMappedArray(CUarray *array, CUgraphicsResource resource,
		unsigned int array_index, unsigned int mip_level);
CU_PTSZ(cuGraphicsUnmapResources, (unsigned int count, CUgraphicsResource *resources,
				   CUstream stream));
CUresult CUDAAPI cuGraphicsUnregisterResource(CUgraphicsResource resource);

/* Code: modules, linking, functions and launches. */
CUresult CUDAAPI cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name);
CUresult CUDAAPI cuModuleGetGlobal_v2(CUdeviceptr *ptr, size_t *bytes, CUmodule module,
				      const char *name);
CUresult CUDAAPI cuModuleGetSurfRef(CUsurfref *surf_ref, CUmodule module, const char *name);
CUresult CUDAAPI cuModuleGetTexRef(CUtexref *tex_ref, CUmodule module, const char *name);
CUresult CUDAAPI cuModuleLoad(CUmodule *module, const char *path);
CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *image);
CUresult CUDAAPI cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int num_options,
				    CUjit_option *options, void **option_values);
CUresult CUDAAPI cuModuleUnload(CUmodule module);
CUresult CUDAAPI cuLinkAddData_v2(CUlinkState state, CUjitInputType type, void *data, size_t size,
				  const char *name, unsigned int num_options, CUjit_option *options,
				  void **option_values);
CUresult CUDAAPI cuLinkAddFile_v2(CUlinkState state, CUjitInputType type, const char *path,
				  unsigned int num_options, CUjit_option *options,
				  void **option_values);
CUresult CUDAAPI cuLinkComplete(CUlinkState state, void **cubin_out, size_t *size_out);
CUresult CUDAAPI cuLinkCreate_v2(unsigned int num_options, CUjit_option *options,
				 void **option_values, CUlinkState *state_out);
CUresult CUDAAPI cuLinkDestroy(CUlinkState state);
CUresult CUDAAPI cuFuncGetAttribute(int *value, CUfunction_attribute attribute,
				    CUfunction function);
CUresult CUDAAPI cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value);
CUresult CUDAAPI cuFuncSetBlockShape(CUfunction function, int x, int y, int z);
CUresult CUDAAPI cuFuncSetCacheConfig(CUfunction function, CUfunc_cache config);
CUresult CUDAAPI cuFuncSetSharedMemConfig(CUfunction function, CUsharedconfig config);
CUresult CUDAAPI cuFuncSetSharedSize(CUfunction function, unsigned int bytes);
CUresult CUDAAPI cuParamSetSize(CUfunction function, unsigned int bytes);
CUresult CUDAAPI cuParamSetTexRef(CUfunction function, int unit, CUtexref tex_ref);
CUresult CUDAAPI cuParamSetf(CUfunction function, int offset, float value);
CUresult CUDAAPI cuParamSeti(CUfunction function, int offset, unsigned int value);
CUresult CUDAAPI cuParamSetv(CUfunction function, int offset, void *ptr, unsigned int bytes);
CUresult CUDAAPI cuLaunch(CUfunction function);
CUresult CUDAAPI cuLaunchGrid(CUfunction function, int grid_width, int grid_height);
CUresult CUDAAPI cuLaunchGridAsync(CUfunction function, int grid_width, int grid_height,
				   CUstream stream);
CU_PTSZ(cuLaunchKernel, (CUfunction function, unsigned int grid_dim_x, unsigned int grid_dim_y,
			 unsigned int grid_dim_z, unsigned int block_dim_x,
			 unsigned int block_dim_y, unsigned int block_dim_z,
			 unsigned int shared_mem_bytes, CUstream stream, void **kernel_params,
			 void **extra));

/* Textures and surfaces. */
CUresult CUDAAPI cuTexObjectCreate(CUtexObject *tex_object, const CUDA_RESOURCE_DESC *resource,
				   const CUDA_TEXTURE_DESC *texture,
				   const CUDA_RESOURCE_VIEW_DESC *view);
CUresult CUDAAPI cuTexObjectDestroy(CUtexObject tex_object);
CUresult CUDAAPI cuTexRefCreate(CUtexref *tex_ref);
CUresult CUDAAPI cuTexRefDestroy(CUtexref tex_ref);
CUresult CUDAAPI cuTexRefGetAddress_v2(CUdeviceptr *ptr, CUtexref tex_ref);
CUresult CUDAAPI cuTexRefGetAddressMode(CUaddress_mode *mode, CUtexref tex_ref, int dim);
CUresult CUDAAPI cuTexRefGetArray(CUarray *array, CUtexref tex_ref);
CUresult CUDAAPI cuTexRefGetFilterMode(CUfilter_mode *mode, CUtexref tex_ref);
CUresult CUDAAPI cuTexRefGetFlags(unsigned int *flags, CUtexref tex_ref);
CUresult CUDAAPI cuTexRefGetFormat(CUarray_format *format, int *num_channels, CUtexref tex_ref);
CUresult CUDAAPI cuTexRefSetAddress_v2(size_t *byte_offset, CUtexref tex_ref, CUdeviceptr ptr,
				       size_t bytes);
CUresult CUDAAPI cuTexRefSetAddress2D_v3(CUtexref tex_ref, const CUDA_ARRAY_DESCRIPTOR *desc,
					 CUdeviceptr ptr, size_t pitch);
CUresult CUDAAPI cuTexRefSetAddressMode(CUtexref tex_ref, int dim, CUaddress_mode mode);
CUresult CUDAAPI cuTexRefSetArray(CUtexref tex_ref, CUarray array, unsigned int flags);
CUresult CUDAAPI cuTexRefSetFilterMode(CUtexref tex_ref, CUfilter_mode mode);
CUresult CUDAAPI cuTexRefSetFlags(CUtexref tex_ref, unsigned int flags);
CUresult CUDAAPI cuTexRefSetFormat(CUtexref tex_ref, CUarray_format format,
				   int num_packed_components);
CUresult CUDAAPI cuSurfRefGetArray(CUarray *array, CUsurfref surf_ref);
CUresult CUDAAPI cuSurfRefSetArray(CUsurfref surf_ref, CUarray array, unsigned int flags);

#ifdef __CUDA_API_VERSION_INTERNAL
#include "cuda_legacy.h"
#endif

#ifdef __cplusplus
}
#endif

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif

#undef CU_PTDS
#undef CU_PTSZ

#ifndef __CUDA_API_VERSION_INTERNAL
#include "cuda_names.h"
#endif

#endif /* __cuda_cuda_h__ */
