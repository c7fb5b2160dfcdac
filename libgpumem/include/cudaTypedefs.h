/* SPDX-License-Identifier: MIT */
/*
 * Types of pointers to the driver API's functions, for programs that find the functions with
 * cuGetProcAddress(). PFN_cuMemAlloc_v3020 is the form of cuMemAlloc() since CUDA 3.2. The forms with
 * addresses of 32 bits, and others that later forms replaced, need __CUDA_API_VERSION_INTERNAL, as in cuda.h.
 *
 * Made from cuda.h, cuda_legacy.h and symbols.txt by abi/mktypedefs.
 */
#ifndef CUDATYPEDEFS_H
#define CUDATYPEDEFS_H

#include "cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef CUresult (CUDAAPI *PFN_cuInit_v2000)(unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuDriverGetVersion_v2020)(int *driver_version);
typedef CUresult (CUDAAPI *PFN_cuGetErrorName_v6000)(CUresult error, const char **text);
typedef CUresult (CUDAAPI *PFN_cuGetErrorString_v6000)(CUresult error, const char **text);
typedef CUresult (CUDAAPI *PFN_cuGetProcAddress_v12000)(const char *name, void **function,
		int cuda_version, cuuint64_t flags,
		CUdriverProcAddressQueryResult *symbol_status);
typedef CUresult (CUDAAPI *PFN_cuGetExportTable_v3000)(const void **table,
		const CUuuid *table_id);
typedef CUresult (CUDAAPI *PFN_cuDeviceGet_v2000)(CUdevice *device, int ordinal);
typedef CUresult (CUDAAPI *PFN_cuDeviceGetCount_v2000)(int *count);
typedef CUresult (CUDAAPI *PFN_cuDeviceGetName_v2000)(char *name, int size, CUdevice device);
typedef CUresult (CUDAAPI *PFN_cuDeviceGetUuid_v11040)(CUuuid *uuid, CUdevice device);
typedef CUresult (CUDAAPI *PFN_cuDeviceGetLuid_v10000)(char *luid,
		unsigned int *device_node_mask, CUdevice device);
typedef CUresult (CUDAAPI *PFN_cuDeviceTotalMem_v3020)(size_t *bytes, CUdevice device);
typedef CUresult (CUDAAPI *PFN_cuDeviceGetAttribute_v2000)(int *value,
		CUdevice_attribute attribute, CUdevice device);
typedef CUresult (CUDAAPI *PFN_cuDeviceGetProperties_v2000)(CUdevprop *prop, CUdevice device);
typedef CUresult (CUDAAPI *PFN_cuDeviceComputeCapability_v2000)(int *major, int *minor,
		CUdevice device);
typedef CUresult (CUDAAPI *PFN_cuDeviceGetPCIBusId_v4010)(char *bus_id, int size,
		CUdevice device);
typedef CUresult (CUDAAPI *PFN_cuDeviceGetByPCIBusId_v4010)(CUdevice *device, const char *bus_id);
typedef CUresult (CUDAAPI *PFN_cuDeviceGetTexture1DLinearMaxWidth_v11010)(
		size_t *max_width_in_elements, CUarray_format format, unsigned int num_channels,
		CUdevice device);
typedef CUresult (CUDAAPI *PFN_cuDeviceGetExecAffinitySupport_v11040)(int *value,
		CUexecAffinityType type, CUdevice device);
typedef CUresult (CUDAAPI *PFN_cuDeviceGetHostAtomicCapabilities_v13000)(
		unsigned int *capabilities, const CUatomicOperation *operations,
		unsigned int count, CUdevice device);
typedef CUresult (CUDAAPI *PFN_cuDeviceGetNvSciSyncAttributes_v10020)(void *attr_list,
		CUdevice device, int flags);
typedef CUresult (CUDAAPI *PFN_cuDeviceRegisterAsyncNotification_v12040)(CUdevice device,
		CUasyncCallback function, void *user_data, CUasyncCallbackHandle *callback);
typedef CUresult (CUDAAPI *PFN_cuDeviceUnregisterAsyncNotification_v12040)(CUdevice device,
		CUasyncCallbackHandle callback);
typedef CUresult (CUDAAPI *PFN_cuDevicePrimaryCtxGetState_v7000)(CUdevice device,
		unsigned int *flags, int *active);
typedef CUresult (CUDAAPI *PFN_cuDevicePrimaryCtxRelease_v11000)(CUdevice device);
typedef CUresult (CUDAAPI *PFN_cuDevicePrimaryCtxReset_v11000)(CUdevice device);
typedef CUresult (CUDAAPI *PFN_cuDevicePrimaryCtxRetain_v7000)(CUcontext *ctx, CUdevice device);
typedef CUresult (CUDAAPI *PFN_cuDevicePrimaryCtxSetFlags_v11000)(CUdevice device,
		unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuCtxCreate_v12050)(CUcontext *ctx, CUctxCreateParams *params,
		unsigned int flags, CUdevice device);
typedef CUresult (CUDAAPI *PFN_cuCtxDestroy_v4000)(CUcontext ctx);
typedef CUresult (CUDAAPI *PFN_cuCtxAttach_v2000)(CUcontext *ctx, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuCtxDetach_v2000)(CUcontext ctx);
typedef CUresult (CUDAAPI *PFN_cuCtxPushCurrent_v4000)(CUcontext ctx);
typedef CUresult (CUDAAPI *PFN_cuCtxPopCurrent_v4000)(CUcontext *ctx);
typedef CUresult (CUDAAPI *PFN_cuCtxSetCurrent_v4000)(CUcontext ctx);
typedef CUresult (CUDAAPI *PFN_cuCtxGetCurrent_v4000)(CUcontext *ctx);
typedef CUresult (CUDAAPI *PFN_cuCtxGetDevice_v2000)(CUdevice *device);
typedef CUresult (CUDAAPI *PFN_cuCtxGetDevice_v13000)(CUdevice *device, CUcontext ctx);
typedef CUresult (CUDAAPI *PFN_cuCtxGetId_v12000)(CUcontext ctx, unsigned long long *ctx_id);
typedef CUresult (CUDAAPI *PFN_cuCtxGetApiVersion_v3020)(CUcontext ctx, unsigned int *version);
typedef CUresult (CUDAAPI *PFN_cuCtxGetFlags_v7000)(unsigned int *flags);
typedef CUresult (CUDAAPI *PFN_cuCtxSetFlags_v12010)(unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuCtxSynchronize_v2000)(void);
typedef CUresult (CUDAAPI *PFN_cuCtxSynchronize_v13000)(CUcontext ctx);
typedef CUresult (CUDAAPI *PFN_cuCtxGetLimit_v3010)(size_t *value, CUlimit limit);
typedef CUresult (CUDAAPI *PFN_cuCtxSetLimit_v3010)(CUlimit limit, size_t value);
typedef CUresult (CUDAAPI *PFN_cuCtxGetCacheConfig_v3020)(CUfunc_cache *config);
typedef CUresult (CUDAAPI *PFN_cuCtxSetCacheConfig_v3020)(CUfunc_cache config);
typedef CUresult (CUDAAPI *PFN_cuCtxGetSharedMemConfig_v4020)(CUsharedconfig *config);
typedef CUresult (CUDAAPI *PFN_cuCtxSetSharedMemConfig_v4020)(CUsharedconfig config);
typedef CUresult (CUDAAPI *PFN_cuCtxGetStreamPriorityRange_v5050)(int *least_priority,
		int *greatest_priority);
typedef CUresult (CUDAAPI *PFN_cuCtxGetExecAffinity_v11040)(CUexecAffinityParam *exec_affinity,
		CUexecAffinityType type);
typedef CUresult (CUDAAPI *PFN_cuCtxResetPersistingL2Cache_v11000)(void);
typedef CUresult (CUDAAPI *PFN_cuCtxRecordEvent_v12050)(CUcontext ctx, CUevent event);
typedef CUresult (CUDAAPI *PFN_cuCtxWaitEvent_v12050)(CUcontext ctx, CUevent event);
typedef CUresult (CUDAAPI *PFN_cuDeviceCanAccessPeer_v4000)(int *can_access_peer,
		CUdevice device, CUdevice peer);
typedef CUresult (CUDAAPI *PFN_cuDeviceGetP2PAtomicCapabilities_v13000)(
		unsigned int *capabilities, const CUatomicOperation *operations,
		unsigned int count, CUdevice src_device, CUdevice dst_device);
typedef CUresult (CUDAAPI *PFN_cuDeviceGetP2PAttribute_v8000)(int *value,
		CUdevice_P2PAttribute attribute, CUdevice src_device, CUdevice dst_device);
typedef CUresult (CUDAAPI *PFN_cuCtxEnablePeerAccess_v4000)(CUcontext peer, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuCtxDisablePeerAccess_v4000)(CUcontext peer);
typedef CUresult (CUDAAPI *PFN_cuMemGetInfo_v3020)(size_t *free_bytes, size_t *total_bytes);
typedef CUresult (CUDAAPI *PFN_cuMemAlloc_v3020)(CUdeviceptr *ptr, size_t bytes);
typedef CUresult (CUDAAPI *PFN_cuMemAllocPitch_v3020)(CUdeviceptr *ptr, size_t *pitch,
		size_t width, size_t height, unsigned int element_bytes);
typedef CUresult (CUDAAPI *PFN_cuMemFree_v3020)(CUdeviceptr ptr);
typedef CUresult (CUDAAPI *PFN_cuMemGetAddressRange_v3020)(CUdeviceptr *base, size_t *size,
		CUdeviceptr ptr);
typedef CUresult (CUDAAPI *PFN_cuMemGetHandleForAddressRange_v11070)(void *handle,
		CUdeviceptr ptr, size_t size, CUmemRangeHandleType handle_type,
		unsigned long long flags);
typedef CUresult (CUDAAPI *PFN_cuMemAllocHost_v3020)(void **ptr, size_t bytes);
typedef CUresult (CUDAAPI *PFN_cuMemHostAlloc_v2020)(void **ptr, size_t bytes,
		unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuMemFreeHost_v2000)(void *ptr);
typedef CUresult (CUDAAPI *PFN_cuMemHostRegister_v6050)(void *ptr, size_t bytes,
		unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuMemHostUnregister_v4000)(void *ptr);
typedef CUresult (CUDAAPI *PFN_cuMemHostGetDevicePointer_v3020)(CUdeviceptr *ptr, void *host_ptr,
		unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuMemHostGetFlags_v2030)(unsigned int *flags, void *ptr);
typedef CUresult (CUDAAPI *PFN_cuMemAllocManaged_v6000)(CUdeviceptr *ptr, size_t bytes,
		unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuMemAdvise_v12020)(CUdeviceptr ptr, size_t count,
		CUmem_advise advice, CUmemLocation location);
typedef CUresult (CUDAAPI *PFN_cuMemPrefetchAsync_v12020)(CUdeviceptr ptr, size_t count,
		CUmemLocation location, unsigned int flags, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemPrefetchAsync_v12020_ptsz)(CUdeviceptr ptr, size_t count,
		CUmemLocation location, unsigned int flags, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemPrefetchBatchAsync_v13000)(CUdeviceptr *ptrs, size_t *sizes,
		size_t count, CUmemLocation *locations, size_t *location_indices,
		size_t location_count, unsigned long long flags, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemPrefetchBatchAsync_v13000_ptsz)(CUdeviceptr *ptrs,
		size_t *sizes, size_t count, CUmemLocation *locations, size_t *location_indices,
		size_t location_count, unsigned long long flags, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemDiscardBatchAsync_v13000)(CUdeviceptr *ptrs, size_t *sizes,
		size_t count, unsigned long long flags, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemDiscardBatchAsync_v13000_ptsz)(CUdeviceptr *ptrs,
		size_t *sizes, size_t count, unsigned long long flags, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemDiscardAndPrefetchBatchAsync_v13000)(CUdeviceptr *ptrs,
		size_t *sizes, size_t count, CUmemLocation *locations, size_t *location_indices,
		size_t location_count, unsigned long long flags, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemDiscardAndPrefetchBatchAsync_v13000_ptsz)(CUdeviceptr *ptrs,
		size_t *sizes, size_t count, CUmemLocation *locations, size_t *location_indices,
		size_t location_count, unsigned long long flags, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemRangeGetAttribute_v8000)(void *data, size_t size,
		CUmem_range_attribute attribute, CUdeviceptr ptr, size_t count);
typedef CUresult (CUDAAPI *PFN_cuMemRangeGetAttributes_v8000)(void **data, size_t *sizes,
		CUmem_range_attribute *attributes, size_t attribute_count, CUdeviceptr ptr,
		size_t count);
typedef CUresult (CUDAAPI *PFN_cuStreamAttachMemAsync_v6000)(CUstream stream, CUdeviceptr ptr,
		size_t length, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuStreamAttachMemAsync_v7000_ptsz)(CUstream stream,
		CUdeviceptr ptr, size_t length, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuPointerGetAttribute_v4000)(void *data,
		CUpointer_attribute attribute, CUdeviceptr ptr);
typedef CUresult (CUDAAPI *PFN_cuPointerGetAttributes_v7000)(unsigned int attribute_count,
		CUpointer_attribute *attributes, void **data, CUdeviceptr ptr);
typedef CUresult (CUDAAPI *PFN_cuPointerSetAttribute_v6000)(const void *value,
		CUpointer_attribute attribute, CUdeviceptr ptr);
typedef CUresult (CUDAAPI *PFN_cuIpcGetMemHandle_v4010)(CUipcMemHandle *handle, CUdeviceptr ptr);
typedef CUresult (CUDAAPI *PFN_cuIpcOpenMemHandle_v11000)(CUdeviceptr *ptr,
		CUipcMemHandle handle, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuIpcCloseMemHandle_v4010)(CUdeviceptr ptr);
typedef CUresult (CUDAAPI *PFN_cuIpcGetEventHandle_v4010)(CUipcEventHandle *handle,
		CUevent event);
typedef CUresult (CUDAAPI *PFN_cuIpcOpenEventHandle_v4010)(CUevent *event,
		CUipcEventHandle handle);
typedef CUresult (CUDAAPI *PFN_cuMemAllocAsync_v11020)(CUdeviceptr *ptr, size_t bytes,
		CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemAllocAsync_v11020_ptsz)(CUdeviceptr *ptr, size_t bytes,
		CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemAllocFromPoolAsync_v11020)(CUdeviceptr *ptr, size_t bytes,
		CUmemoryPool pool, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemAllocFromPoolAsync_v11020_ptsz)(CUdeviceptr *ptr,
		size_t bytes, CUmemoryPool pool, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemFreeAsync_v11020)(CUdeviceptr ptr, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemFreeAsync_v11020_ptsz)(CUdeviceptr ptr, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemPoolCreate_v11020)(CUmemoryPool *pool,
		const CUmemPoolProps *props);
typedef CUresult (CUDAAPI *PFN_cuMemPoolDestroy_v11020)(CUmemoryPool pool);
typedef CUresult (CUDAAPI *PFN_cuMemPoolTrimTo_v11020)(CUmemoryPool pool, size_t keep_bytes);
typedef CUresult (CUDAAPI *PFN_cuMemPoolGetAttribute_v11020)(CUmemoryPool pool,
		CUmemPool_attribute attribute, void *value);
typedef CUresult (CUDAAPI *PFN_cuMemPoolSetAttribute_v11020)(CUmemoryPool pool,
		CUmemPool_attribute attribute, void *value);
typedef CUresult (CUDAAPI *PFN_cuMemPoolGetAccess_v11020)(CUmemAccess_flags *flags,
		CUmemoryPool pool, CUmemLocation *location);
typedef CUresult (CUDAAPI *PFN_cuMemPoolSetAccess_v11020)(CUmemoryPool pool,
		const CUmemAccessDesc *access, size_t count);
typedef CUresult (CUDAAPI *PFN_cuDeviceGetDefaultMemPool_v11020)(CUmemoryPool *pool,
		CUdevice device);
typedef CUresult (CUDAAPI *PFN_cuDeviceGetMemPool_v11020)(CUmemoryPool *pool, CUdevice device);
typedef CUresult (CUDAAPI *PFN_cuDeviceSetMemPool_v11020)(CUdevice device, CUmemoryPool pool);
typedef CUresult (CUDAAPI *PFN_cuMemGetDefaultMemPool_v13000)(CUmemoryPool *pool,
		CUmemLocation *location, CUmemAllocationType type);
typedef CUresult (CUDAAPI *PFN_cuMemGetMemPool_v13000)(CUmemoryPool *pool,
		CUmemLocation *location, CUmemAllocationType type);
typedef CUresult (CUDAAPI *PFN_cuMemSetMemPool_v13000)(CUmemLocation *location,
		CUmemAllocationType type, CUmemoryPool pool);
typedef CUresult (CUDAAPI *PFN_cuMemPoolExportToShareableHandle_v11020)(void *handle,
		CUmemoryPool pool, CUmemAllocationHandleType handle_type,
		unsigned long long flags);
typedef CUresult (CUDAAPI *PFN_cuMemPoolImportFromShareableHandle_v11020)(CUmemoryPool *pool,
		void *handle, CUmemAllocationHandleType handle_type, unsigned long long flags);
typedef CUresult (CUDAAPI *PFN_cuMemPoolExportPointer_v11020)(CUmemPoolPtrExportData *share_data,
		CUdeviceptr ptr);
typedef CUresult (CUDAAPI *PFN_cuMemPoolImportPointer_v11020)(CUdeviceptr *ptr,
		CUmemoryPool pool, CUmemPoolPtrExportData *share_data);
typedef CUresult (CUDAAPI *PFN_cuMemAddressReserve_v10020)(CUdeviceptr *ptr, size_t size,
		size_t alignment, CUdeviceptr addr, unsigned long long flags);
typedef CUresult (CUDAAPI *PFN_cuMemAddressFree_v10020)(CUdeviceptr ptr, size_t size);
typedef CUresult (CUDAAPI *PFN_cuMemCreate_v10020)(CUmemGenericAllocationHandle *handle,
		size_t size, const CUmemAllocationProp *prop, unsigned long long flags);
typedef CUresult (CUDAAPI *PFN_cuMemRelease_v10020)(CUmemGenericAllocationHandle handle);
typedef CUresult (CUDAAPI *PFN_cuMemMap_v10020)(CUdeviceptr ptr, size_t size, size_t offset,
		CUmemGenericAllocationHandle handle, unsigned long long flags);
typedef CUresult (CUDAAPI *PFN_cuMemUnmap_v10020)(CUdeviceptr ptr, size_t size);
typedef CUresult (CUDAAPI *PFN_cuMemGetAccess_v10020)(unsigned long long *flags,
		const CUmemLocation *location, CUdeviceptr ptr);
typedef CUresult (CUDAAPI *PFN_cuMemSetAccess_v10020)(CUdeviceptr ptr, size_t size,
		const CUmemAccessDesc *desc, size_t count);
typedef CUresult (CUDAAPI *PFN_cuMemGetAllocationGranularity_v10020)(size_t *granularity,
		const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags option);
typedef CUresult (CUDAAPI *PFN_cuMemGetAllocationPropertiesFromHandle_v10020)(
		CUmemAllocationProp *prop, CUmemGenericAllocationHandle handle);
typedef CUresult (CUDAAPI *PFN_cuMemRetainAllocationHandle_v11000)(
		CUmemGenericAllocationHandle *handle, void *addr);
typedef CUresult (CUDAAPI *PFN_cuMemExportToShareableHandle_v10020)(void *shareable_handle,
		CUmemGenericAllocationHandle handle, CUmemAllocationHandleType handle_type,
		unsigned long long flags);
typedef CUresult (CUDAAPI *PFN_cuMemImportFromShareableHandle_v10020)(
		CUmemGenericAllocationHandle *handle, void *os_handle,
		CUmemAllocationHandleType handle_type);
typedef CUresult (CUDAAPI *PFN_cuMemMapArrayAsync_v11010)(CUarrayMapInfo *list,
		unsigned int count, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemMapArrayAsync_v11010_ptsz)(CUarrayMapInfo *list,
		unsigned int count, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMulticastCreate_v12010)(CUmemGenericAllocationHandle *handle,
		const CUmulticastObjectProp *prop);
typedef CUresult (CUDAAPI *PFN_cuMulticastAddDevice_v12010)(CUmemGenericAllocationHandle handle,
		CUdevice device);
typedef CUresult (CUDAAPI *PFN_cuMulticastBindMem_v12010)(CUmemGenericAllocationHandle handle,
		size_t offset, CUmemGenericAllocationHandle memory, size_t memory_offset,
		size_t size, unsigned long long flags);
typedef CUresult (CUDAAPI *PFN_cuMulticastBindMem_v13010)(CUmemGenericAllocationHandle handle,
		CUdevice device, size_t offset, CUmemGenericAllocationHandle memory,
		size_t memory_offset, size_t size, unsigned long long flags);
typedef CUresult (CUDAAPI *PFN_cuMulticastBindAddr_v12010)(CUmemGenericAllocationHandle handle,
		size_t offset, CUdeviceptr ptr, size_t size, unsigned long long flags);
typedef CUresult (CUDAAPI *PFN_cuMulticastBindAddr_v13010)(CUmemGenericAllocationHandle handle,
		CUdevice device, size_t offset, CUdeviceptr ptr, size_t size,
		unsigned long long flags);
typedef CUresult (CUDAAPI *PFN_cuMulticastUnbind_v12010)(CUmemGenericAllocationHandle handle,
		CUdevice device, size_t offset, size_t size);
typedef CUresult (CUDAAPI *PFN_cuMulticastGetGranularity_v12010)(size_t *granularity,
		const CUmulticastObjectProp *prop, CUmulticastGranularity_flags option);
typedef CUresult (CUDAAPI *PFN_cuLogicalEndpointIdReserve_v13030)(CUlogicalEndpointId *base,
		cuuint32_t count);
typedef CUresult (CUDAAPI *PFN_cuLogicalEndpointIdRelease_v13030)(CUlogicalEndpointId base,
		cuuint32_t count);
typedef CUresult (CUDAAPI *PFN_cuLogicalEndpointCreate_v13030)(CUlogicalEndpointId endpoint,
		const CUlogicalEndpointProp *prop);
typedef CUresult (CUDAAPI *PFN_cuLogicalEndpointAddDevice_v13030)(CUlogicalEndpointId endpoint,
		CUdevice device);
typedef CUresult (CUDAAPI *PFN_cuLogicalEndpointDestroy_v13030)(CUlogicalEndpointId endpoint);
typedef CUresult (CUDAAPI *PFN_cuLogicalEndpointBindAddr_v13030)(CUlogicalEndpointId endpoint,
		CUdevice device, cuuint64_t offset, void *ptr, cuuint64_t size,
		unsigned long long flags);
typedef CUresult (CUDAAPI *PFN_cuLogicalEndpointBindMem_v13030)(CUlogicalEndpointId endpoint,
		CUdevice device, cuuint64_t offset, CUmemGenericAllocationHandle memory,
		cuuint64_t memory_offset, cuuint64_t size, unsigned long long flags);
typedef CUresult (CUDAAPI *PFN_cuLogicalEndpointUnbind_v13030)(CUlogicalEndpointId endpoint,
		CUdevice device, cuuint64_t offset, cuuint64_t size);
typedef CUresult (CUDAAPI *PFN_cuLogicalEndpointExport_v13030)(void *handle,
		CUlogicalEndpointId endpoint, CUlogicalEndpointIpcHandleType handle_type);
typedef CUresult (CUDAAPI *PFN_cuLogicalEndpointImport_v13030)(CUlogicalEndpointId endpoint,
		const void *handle, CUlogicalEndpointIpcHandleType handle_type);
typedef CUresult (CUDAAPI *PFN_cuLogicalEndpointGetLimits_v13030)(cuuint64_t *bind_alignment,
		cuuint64_t *max_size, const CUlogicalEndpointProp *prop);
typedef CUresult (CUDAAPI *PFN_cuLogicalEndpointQuery_v13030)(CUlogicalEndpointId endpoint,
		cuuint32_t count, int *status);
typedef CUresult (CUDAAPI *PFN_cuMemcpy_v4000)(CUdeviceptr dst, CUdeviceptr src, size_t bytes);
typedef CUresult (CUDAAPI *PFN_cuMemcpy_v7000_ptds)(CUdeviceptr dst, CUdeviceptr src,
		size_t bytes);
typedef CUresult (CUDAAPI *PFN_cuMemcpyPeer_v4000)(CUdeviceptr dst, CUcontext dst_context,
		CUdeviceptr src, CUcontext src_context, size_t bytes);
typedef CUresult (CUDAAPI *PFN_cuMemcpyPeer_v7000_ptds)(CUdeviceptr dst, CUcontext dst_context,
		CUdeviceptr src, CUcontext src_context, size_t bytes);
typedef CUresult (CUDAAPI *PFN_cuMemcpyDtoD_v3020)(CUdeviceptr dst, CUdeviceptr src,
		size_t bytes);
typedef CUresult (CUDAAPI *PFN_cuMemcpyDtoD_v7000_ptds)(CUdeviceptr dst, CUdeviceptr src,
		size_t bytes);
typedef CUresult (CUDAAPI *PFN_cuMemcpyDtoH_v3020)(void *dst_host, CUdeviceptr src, size_t bytes);
typedef CUresult (CUDAAPI *PFN_cuMemcpyDtoH_v7000_ptds)(void *dst_host, CUdeviceptr src,
		size_t bytes);
typedef CUresult (CUDAAPI *PFN_cuMemcpyHtoD_v3020)(CUdeviceptr dst, const void *src_host,
		size_t bytes);
typedef CUresult (CUDAAPI *PFN_cuMemcpyHtoD_v7000_ptds)(CUdeviceptr dst, const void *src_host,
		size_t bytes);
typedef CUresult (CUDAAPI *PFN_cuMemcpyAtoA_v3020)(CUarray dst_array, size_t dst_offset,
		CUarray src_array, size_t src_offset, size_t bytes);
typedef CUresult (CUDAAPI *PFN_cuMemcpyAtoA_v7000_ptds)(CUarray dst_array, size_t dst_offset,
		CUarray src_array, size_t src_offset, size_t bytes);
typedef CUresult (CUDAAPI *PFN_cuMemcpyAtoD_v3020)(CUdeviceptr dst, CUarray src_array,
		size_t src_offset, size_t bytes);
typedef CUresult (CUDAAPI *PFN_cuMemcpyAtoD_v7000_ptds)(CUdeviceptr dst, CUarray src_array,
		size_t src_offset, size_t bytes);
typedef CUresult (CUDAAPI *PFN_cuMemcpyAtoH_v3020)(void *dst_host, CUarray src_array,
		size_t src_offset, size_t bytes);
typedef CUresult (CUDAAPI *PFN_cuMemcpyAtoH_v7000_ptds)(void *dst_host, CUarray src_array,
		size_t src_offset, size_t bytes);
typedef CUresult (CUDAAPI *PFN_cuMemcpyDtoA_v3020)(CUarray dst_array, size_t dst_offset,
		CUdeviceptr src, size_t bytes);
typedef CUresult (CUDAAPI *PFN_cuMemcpyDtoA_v7000_ptds)(CUarray dst_array, size_t dst_offset,
		CUdeviceptr src, size_t bytes);
typedef CUresult (CUDAAPI *PFN_cuMemcpyHtoA_v3020)(CUarray dst_array, size_t dst_offset,
		const void *src_host, size_t bytes);
typedef CUresult (CUDAAPI *PFN_cuMemcpyHtoA_v7000_ptds)(CUarray dst_array, size_t dst_offset,
		const void *src_host, size_t bytes);
typedef CUresult (CUDAAPI *PFN_cuMemcpy2D_v3020)(const CUDA_MEMCPY2D *copy);
typedef CUresult (CUDAAPI *PFN_cuMemcpy2D_v7000_ptds)(const CUDA_MEMCPY2D *copy);
typedef CUresult (CUDAAPI *PFN_cuMemcpy2DUnaligned_v3020)(const CUDA_MEMCPY2D *copy);
typedef CUresult (CUDAAPI *PFN_cuMemcpy2DUnaligned_v7000_ptds)(const CUDA_MEMCPY2D *copy);
typedef CUresult (CUDAAPI *PFN_cuMemcpy3D_v3020)(const CUDA_MEMCPY3D *copy);
typedef CUresult (CUDAAPI *PFN_cuMemcpy3D_v7000_ptds)(const CUDA_MEMCPY3D *copy);
typedef CUresult (CUDAAPI *PFN_cuMemcpy3DPeer_v4000)(const CUDA_MEMCPY3D_PEER *copy);
typedef CUresult (CUDAAPI *PFN_cuMemcpy3DPeer_v7000_ptds)(const CUDA_MEMCPY3D_PEER *copy);
typedef CUresult (CUDAAPI *PFN_cuMemcpyAsync_v4000)(CUdeviceptr dst, CUdeviceptr src,
		size_t bytes, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpyAsync_v7000_ptsz)(CUdeviceptr dst, CUdeviceptr src,
		size_t bytes, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpyPeerAsync_v4000)(CUdeviceptr dst, CUcontext dst_context,
		CUdeviceptr src, CUcontext src_context, size_t bytes, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpyPeerAsync_v7000_ptsz)(CUdeviceptr dst,
		CUcontext dst_context, CUdeviceptr src, CUcontext src_context, size_t bytes,
		CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpyAtoHAsync_v3020)(void *dst_host, CUarray src_array,
		size_t src_offset, size_t bytes, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpyAtoHAsync_v7000_ptsz)(void *dst_host, CUarray src_array,
		size_t src_offset, size_t bytes, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpyDtoDAsync_v3020)(CUdeviceptr dst, CUdeviceptr src,
		size_t bytes, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpyDtoDAsync_v7000_ptsz)(CUdeviceptr dst, CUdeviceptr src,
		size_t bytes, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpyDtoHAsync_v3020)(void *dst_host, CUdeviceptr src,
		size_t bytes, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpyDtoHAsync_v7000_ptsz)(void *dst_host, CUdeviceptr src,
		size_t bytes, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpyHtoAAsync_v3020)(CUarray dst_array, size_t dst_offset,
		const void *src_host, size_t bytes, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpyHtoAAsync_v7000_ptsz)(CUarray dst_array,
		size_t dst_offset, const void *src_host, size_t bytes, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpyHtoDAsync_v3020)(CUdeviceptr dst, const void *src_host,
		size_t bytes, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpyHtoDAsync_v7000_ptsz)(CUdeviceptr dst,
		const void *src_host, size_t bytes, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpy2DAsync_v3020)(const CUDA_MEMCPY2D *copy, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpy2DAsync_v7000_ptsz)(const CUDA_MEMCPY2D *copy,
		CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpy3DAsync_v3020)(const CUDA_MEMCPY3D *copy, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpy3DAsync_v7000_ptsz)(const CUDA_MEMCPY3D *copy,
		CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpy3DPeerAsync_v4000)(const CUDA_MEMCPY3D_PEER *copy,
		CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpy3DPeerAsync_v7000_ptsz)(const CUDA_MEMCPY3D_PEER *copy,
		CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpyBatchAsync_v13000)(CUdeviceptr *dsts, CUdeviceptr *srcs,
		size_t *sizes, size_t count, CUmemcpyAttributes *attrs, size_t *attr_indices,
		size_t attr_count, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpyBatchAsync_v13000_ptsz)(CUdeviceptr *dsts,
		CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attrs,
		size_t *attr_indices, size_t attr_count, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpy3DBatchAsync_v13000)(size_t op_count,
		CUDA_MEMCPY3D_BATCH_OP *ops, unsigned long long flags, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpy3DBatchAsync_v13000_ptsz)(size_t op_count,
		CUDA_MEMCPY3D_BATCH_OP *ops, unsigned long long flags, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpyWithAttributesAsync_v13020)(CUdeviceptr dst,
		CUdeviceptr src, size_t size, CUmemcpyAttributes *attr, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpyWithAttributesAsync_v13020_ptsz)(CUdeviceptr dst,
		CUdeviceptr src, size_t size, CUmemcpyAttributes *attr, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpy3DWithAttributesAsync_v13020)(CUDA_MEMCPY3D_BATCH_OP *op,
		unsigned long long flags, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpy3DWithAttributesAsync_v13020_ptsz)(
		CUDA_MEMCPY3D_BATCH_OP *op, unsigned long long flags, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemBatchDecompressAsync_v12060)(CUmemDecompressParams *params,
		size_t count, unsigned int flags, size_t *error_index, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemBatchDecompressAsync_v12060_ptsz)(
		CUmemDecompressParams *params, size_t count, unsigned int flags,
		size_t *error_index, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemsetD8_v3020)(CUdeviceptr dst, unsigned char value,
		size_t count);
typedef CUresult (CUDAAPI *PFN_cuMemsetD8_v7000_ptds)(CUdeviceptr dst, unsigned char value,
		size_t count);
typedef CUresult (CUDAAPI *PFN_cuMemsetD16_v3020)(CUdeviceptr dst, unsigned short value,
		size_t count);
typedef CUresult (CUDAAPI *PFN_cuMemsetD16_v7000_ptds)(CUdeviceptr dst, unsigned short value,
		size_t count);
typedef CUresult (CUDAAPI *PFN_cuMemsetD32_v3020)(CUdeviceptr dst, unsigned int value,
		size_t count);
typedef CUresult (CUDAAPI *PFN_cuMemsetD32_v7000_ptds)(CUdeviceptr dst, unsigned int value,
		size_t count);
typedef CUresult (CUDAAPI *PFN_cuMemsetD2D8_v3020)(CUdeviceptr dst, size_t dst_pitch,
		unsigned char value, size_t width, size_t height);
typedef CUresult (CUDAAPI *PFN_cuMemsetD2D8_v7000_ptds)(CUdeviceptr dst, size_t dst_pitch,
		unsigned char value, size_t width, size_t height);
typedef CUresult (CUDAAPI *PFN_cuMemsetD2D16_v3020)(CUdeviceptr dst, size_t dst_pitch,
		unsigned short value, size_t width, size_t height);
typedef CUresult (CUDAAPI *PFN_cuMemsetD2D16_v7000_ptds)(CUdeviceptr dst, size_t dst_pitch,
		unsigned short value, size_t width, size_t height);
typedef CUresult (CUDAAPI *PFN_cuMemsetD2D32_v3020)(CUdeviceptr dst, size_t dst_pitch,
		unsigned int value, size_t width, size_t height);
typedef CUresult (CUDAAPI *PFN_cuMemsetD2D32_v7000_ptds)(CUdeviceptr dst, size_t dst_pitch,
		unsigned int value, size_t width, size_t height);
typedef CUresult (CUDAAPI *PFN_cuMemsetD8Async_v3020)(CUdeviceptr dst, unsigned char value,
		size_t count, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemsetD8Async_v7000_ptsz)(CUdeviceptr dst, unsigned char value,
		size_t count, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemsetD16Async_v3020)(CUdeviceptr dst, unsigned short value,
		size_t count, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemsetD16Async_v7000_ptsz)(CUdeviceptr dst,
		unsigned short value, size_t count, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemsetD32Async_v3020)(CUdeviceptr dst, unsigned int value,
		size_t count, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemsetD32Async_v7000_ptsz)(CUdeviceptr dst, unsigned int value,
		size_t count, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemsetD2D8Async_v3020)(CUdeviceptr dst, size_t dst_pitch,
		unsigned char value, size_t width, size_t height, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemsetD2D8Async_v7000_ptsz)(CUdeviceptr dst, size_t dst_pitch,
		unsigned char value, size_t width, size_t height, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemsetD2D16Async_v3020)(CUdeviceptr dst, size_t dst_pitch,
		unsigned short value, size_t width, size_t height, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemsetD2D16Async_v7000_ptsz)(CUdeviceptr dst, size_t dst_pitch,
		unsigned short value, size_t width, size_t height, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemsetD2D32Async_v3020)(CUdeviceptr dst, size_t dst_pitch,
		unsigned int value, size_t width, size_t height, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemsetD2D32Async_v7000_ptsz)(CUdeviceptr dst, size_t dst_pitch,
		unsigned int value, size_t width, size_t height, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuArray3DCreate_v3020)(CUarray *handle,
		const CUDA_ARRAY3D_DESCRIPTOR *descriptor);
typedef CUresult (CUDAAPI *PFN_cuArray3DGetDescriptor_v3020)(CUDA_ARRAY3D_DESCRIPTOR *descriptor,
		CUarray array);
typedef CUresult (CUDAAPI *PFN_cuArrayCreate_v3020)(CUarray *handle,
		const CUDA_ARRAY_DESCRIPTOR *descriptor);
typedef CUresult (CUDAAPI *PFN_cuArrayDestroy_v2000)(CUarray array);
typedef CUresult (CUDAAPI *PFN_cuArrayGetDescriptor_v3020)(CUDA_ARRAY_DESCRIPTOR *descriptor,
		CUarray array);
typedef CUresult (CUDAAPI *PFN_cuArrayGetMemoryRequirements_v11060)(
		CUDA_ARRAY_MEMORY_REQUIREMENTS *memory_requirements, CUarray array,
		CUdevice device);
typedef CUresult (CUDAAPI *PFN_cuArrayGetPlane_v11020)(CUarray *plane, CUarray array,
		unsigned int plane_idx);
typedef CUresult (CUDAAPI *PFN_cuArrayGetSparseProperties_v11010)(
		CUDA_ARRAY_SPARSE_PROPERTIES *sparse_properties, CUarray array);
typedef CUresult (CUDAAPI *PFN_cuMipmappedArrayCreate_v5000)(CUmipmappedArray *handle,
		const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned int num_mipmap_levels);
typedef CUresult (CUDAAPI *PFN_cuMipmappedArrayDestroy_v5000)(CUmipmappedArray mipmap);
typedef CUresult (CUDAAPI *PFN_cuMipmappedArrayGetLevel_v5000)(CUarray *level_array,
		CUmipmappedArray mipmap, unsigned int level);
typedef CUresult (CUDAAPI *PFN_cuMipmappedArrayGetMemoryRequirements_v11060)(
		 CUDA_ARRAY_MEMORY_REQUIREMENTS *memory_requirements, CUmipmappedArray mipmap,
		CUdevice device);
typedef CUresult (CUDAAPI *PFN_cuMipmappedArrayGetSparseProperties_v11010)(
		 CUDA_ARRAY_SPARSE_PROPERTIES *sparse_properties, CUmipmappedArray mipmap);
typedef CUresult (CUDAAPI *PFN_cuStreamCreate_v2000)(CUstream *stream, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuStreamCreateWithPriority_v5050)(CUstream *stream,
		unsigned int flags, int priority);
typedef CUresult (CUDAAPI *PFN_cuStreamDestroy_v4000)(CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuStreamQuery_v2000)(CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuStreamQuery_v7000_ptsz)(CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuStreamSynchronize_v2000)(CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuStreamSynchronize_v7000_ptsz)(CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuStreamWaitEvent_v3020)(CUstream stream, CUevent event,
		unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuStreamWaitEvent_v7000_ptsz)(CUstream stream, CUevent event,
		unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuStreamGetCtx_v9020)(CUstream stream, CUcontext *ctx);
typedef CUresult (CUDAAPI *PFN_cuStreamGetCtx_v9020_ptsz)(CUstream stream, CUcontext *ctx);
typedef CUresult (CUDAAPI *PFN_cuStreamGetCtx_v12050)(CUstream stream, CUcontext *ctx,
		CUgreenCtx *green_ctx);
typedef CUresult (CUDAAPI *PFN_cuStreamGetCtx_v12050_ptsz)(CUstream stream, CUcontext *ctx,
		CUgreenCtx *green_ctx);
typedef CUresult (CUDAAPI *PFN_cuStreamGetDevice_v12080)(CUstream stream, CUdevice *device);
typedef CUresult (CUDAAPI *PFN_cuStreamGetDevice_v12080_ptsz)(CUstream stream, CUdevice *device);
typedef CUresult (CUDAAPI *PFN_cuStreamGetFlags_v5050)(CUstream stream, unsigned int *flags);
typedef CUresult (CUDAAPI *PFN_cuStreamGetFlags_v7000_ptsz)(CUstream stream, unsigned int *flags);
typedef CUresult (CUDAAPI *PFN_cuStreamGetId_v12000)(CUstream stream,
		unsigned long long *stream_id);
typedef CUresult (CUDAAPI *PFN_cuStreamGetId_v12000_ptsz)(CUstream stream,
		unsigned long long *stream_id);
typedef CUresult (CUDAAPI *PFN_cuStreamGetPriority_v5050)(CUstream stream, int *priority);
typedef CUresult (CUDAAPI *PFN_cuStreamGetPriority_v7000_ptsz)(CUstream stream, int *priority);
typedef CUresult (CUDAAPI *PFN_cuStreamCopyAttributes_v11000)(CUstream dst_stream,
		CUstream src_stream);
typedef CUresult (CUDAAPI *PFN_cuStreamCopyAttributes_v11000_ptsz)(CUstream dst_stream,
		CUstream src_stream);
typedef CUresult (CUDAAPI *PFN_cuStreamGetAttribute_v11000)(CUstream stream,
		CUstreamAttrID attribute, CUstreamAttrValue *value);
typedef CUresult (CUDAAPI *PFN_cuStreamGetAttribute_v11000_ptsz)(CUstream stream,
		CUstreamAttrID attribute, CUstreamAttrValue *value);
typedef CUresult (CUDAAPI *PFN_cuStreamSetAttribute_v11000)(CUstream stream,
		CUstreamAttrID attribute, const CUstreamAttrValue *param);
typedef CUresult (CUDAAPI *PFN_cuStreamSetAttribute_v11000_ptsz)(CUstream stream,
		CUstreamAttrID attribute, const CUstreamAttrValue *param);
typedef CUresult (CUDAAPI *PFN_cuStreamAddCallback_v5000)(CUstream stream,
		CUstreamCallback callback, void *user_data, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuStreamAddCallback_v7000_ptsz)(CUstream stream,
		CUstreamCallback callback, void *user_data, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuLaunchHostFunc_v10000)(CUstream stream, CUhostFn function,
		void *user_data);
typedef CUresult (CUDAAPI *PFN_cuLaunchHostFunc_v10000_ptsz)(CUstream stream, CUhostFn function,
		void *user_data);
typedef CUresult (CUDAAPI *PFN_cuLaunchHostFunc_v13020)(CUstream stream, CUhostFn function,
		void *user_data, unsigned int sync_mode);
typedef CUresult (CUDAAPI *PFN_cuLaunchHostFunc_v13020_ptsz)(CUstream stream, CUhostFn function,
		void *user_data, unsigned int sync_mode);
typedef CUresult (CUDAAPI *PFN_cuStreamWaitValue32_v11070)(CUstream stream, CUdeviceptr addr,
		cuuint32_t value, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuStreamWaitValue32_v11070_ptsz)(CUstream stream,
		CUdeviceptr addr, cuuint32_t value, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuStreamWaitValue64_v11070)(CUstream stream, CUdeviceptr addr,
		cuuint64_t value, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuStreamWaitValue64_v11070_ptsz)(CUstream stream,
		CUdeviceptr addr, cuuint64_t value, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuStreamWriteValue32_v11070)(CUstream stream, CUdeviceptr addr,
		cuuint32_t value, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuStreamWriteValue32_v11070_ptsz)(CUstream stream,
		CUdeviceptr addr, cuuint32_t value, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuStreamWriteValue64_v11070)(CUstream stream, CUdeviceptr addr,
		cuuint64_t value, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuStreamWriteValue64_v11070_ptsz)(CUstream stream,
		CUdeviceptr addr, cuuint64_t value, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuStreamBatchMemOp_v11070)(CUstream stream, unsigned int count,
		CUstreamBatchMemOpParams *ops, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuStreamBatchMemOp_v11070_ptsz)(CUstream stream,
		unsigned int count, CUstreamBatchMemOpParams *ops, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuStreamBeginCapture_v10010)(CUstream stream,
		CUstreamCaptureMode mode);
typedef CUresult (CUDAAPI *PFN_cuStreamBeginCapture_v10010_ptsz)(CUstream stream,
		CUstreamCaptureMode mode);
typedef CUresult (CUDAAPI *PFN_cuStreamBeginCaptureToGraph_v12030)(CUstream stream,
		CUgraph graph, const CUgraphNode *dependencies,
		const CUgraphEdgeData *dependency_data, size_t dependency_count,
		CUstreamCaptureMode mode);
typedef CUresult (CUDAAPI *PFN_cuStreamBeginCaptureToGraph_v12030_ptsz)(CUstream stream,
		CUgraph graph, const CUgraphNode *dependencies,
		const CUgraphEdgeData *dependency_data, size_t dependency_count,
		CUstreamCaptureMode mode);
typedef CUresult (CUDAAPI *PFN_cuStreamEndCapture_v10000)(CUstream stream, CUgraph *graph);
typedef CUresult (CUDAAPI *PFN_cuStreamEndCapture_v10000_ptsz)(CUstream stream, CUgraph *graph);
typedef CUresult (CUDAAPI *PFN_cuStreamIsCapturing_v10000)(CUstream stream,
		CUstreamCaptureStatus *status);
typedef CUresult (CUDAAPI *PFN_cuStreamIsCapturing_v10000_ptsz)(CUstream stream,
		CUstreamCaptureStatus *status);
typedef CUresult (CUDAAPI *PFN_cuStreamGetCaptureInfo_v12030)(CUstream stream,
		CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
		const CUgraphNode **dependencies, const CUgraphEdgeData **edge_data,
		size_t *dependency_count);
typedef CUresult (CUDAAPI *PFN_cuStreamGetCaptureInfo_v12030_ptsz)(CUstream stream,
		CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
		const CUgraphNode **dependencies, const CUgraphEdgeData **edge_data,
		size_t *dependency_count);
typedef CUresult (CUDAAPI *PFN_cuStreamUpdateCaptureDependencies_v12030)(CUstream stream,
		CUgraphNode *dependencies, const CUgraphEdgeData *dependency_data,
		size_t dependency_count, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuStreamUpdateCaptureDependencies_v12030_ptsz)(CUstream stream,
		CUgraphNode *dependencies, const CUgraphEdgeData *dependency_data,
		size_t dependency_count, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuThreadExchangeStreamCaptureMode_v10010)(
		CUstreamCaptureMode *mode);
typedef CUresult (CUDAAPI *PFN_cuEventCreate_v2000)(CUevent *event, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuEventDestroy_v4000)(CUevent event);
typedef CUresult (CUDAAPI *PFN_cuEventRecord_v2000)(CUevent event, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuEventRecord_v7000_ptsz)(CUevent event, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuEventRecordWithFlags_v11010)(CUevent event, CUstream stream,
		unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuEventRecordWithFlags_v11010_ptsz)(CUevent event,
		CUstream stream, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuEventQuery_v2000)(CUevent event);
typedef CUresult (CUDAAPI *PFN_cuEventSynchronize_v2000)(CUevent event);
typedef CUresult (CUDAAPI *PFN_cuEventElapsedTime_v12080)(float *milliseconds, CUevent start,
		CUevent end);
typedef CUresult (CUDAAPI *PFN_cuImportExternalMemory_v10000)(CUexternalMemory *ext_mem,
		const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *desc);
typedef CUresult (CUDAAPI *PFN_cuExternalMemoryGetMappedBuffer_v10000)(CUdeviceptr *ptr,
		CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *buffer_desc);
typedef CUresult (CUDAAPI *PFN_cuExternalMemoryGetMappedMipmappedArray_v10000)(
		CUmipmappedArray *mipmap, CUexternalMemory memory,
		const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *mipmap_desc);
typedef CUresult (CUDAAPI *PFN_cuDestroyExternalMemory_v10000)(CUexternalMemory memory);
typedef CUresult (CUDAAPI *PFN_cuImportExternalSemaphore_v10000)(CUexternalSemaphore *ext_sem,
		const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *desc);
typedef CUresult (CUDAAPI *PFN_cuDestroyExternalSemaphore_v10000)(CUexternalSemaphore semaphore);
typedef CUresult (CUDAAPI *PFN_cuSignalExternalSemaphoresAsync_v10000)(
		const CUexternalSemaphore *semaphores,
		const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *params, unsigned int count,
		CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuSignalExternalSemaphoresAsync_v10000_ptsz)(
		const CUexternalSemaphore *semaphores,
		const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *params, unsigned int count,
		CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuWaitExternalSemaphoresAsync_v10000)(
		const CUexternalSemaphore *semaphores,
		const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *params, unsigned int count,
		CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuWaitExternalSemaphoresAsync_v10000_ptsz)(
		const CUexternalSemaphore *semaphores,
		const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *params, unsigned int count,
		CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuFlushGPUDirectRDMAWrites_v11030)(
		CUflushGPUDirectRDMAWritesTarget target, CUflushGPUDirectRDMAWritesScope scope);
typedef CUresult (CUDAAPI *PFN_cuGraphicsMapResources_v3000)(unsigned int count,
		CUgraphicsResource *resources, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuGraphicsMapResources_v7000_ptsz)(unsigned int count,
		CUgraphicsResource *resources, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuGraphicsResourceGetMappedMipmappedArray_v5000)(
		CUmipmappedArray *mipmap, CUgraphicsResource resource);
typedef CUresult (CUDAAPI *PFN_cuGraphicsResourceGetMappedPointer_v3020)(CUdeviceptr *ptr,
		size_t *size, CUgraphicsResource resource);
typedef CUresult (CUDAAPI *PFN_cuGraphicsResourceSetMapFlags_v6050)(CUgraphicsResource resource,
		unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuGraphicsSubResourceGetMappedArray_v3000)(CUarray *array,
		CUgraphicsResource resource, unsigned int array_index, unsigned int mip_level);
typedef CUresult (CUDAAPI *PFN_cuGraphicsUnmapResources_v3000)(unsigned int count,
		CUgraphicsResource *resources, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuGraphicsUnmapResources_v7000_ptsz)(unsigned int count,
		CUgraphicsResource *resources, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuGraphicsUnregisterResource_v3000)(CUgraphicsResource resource);
typedef CUresult (CUDAAPI *PFN_cuModuleGetFunction_v2000)(CUfunction *function, CUmodule module,
		const char *name);
typedef CUresult (CUDAAPI *PFN_cuModuleGetGlobal_v3020)(CUdeviceptr *ptr, size_t *bytes,
		CUmodule module, const char *name);
typedef CUresult (CUDAAPI *PFN_cuModuleGetSurfRef_v3000)(CUsurfref *surf_ref, CUmodule module,
		const char *name);
typedef CUresult (CUDAAPI *PFN_cuModuleGetTexRef_v2000)(CUtexref *tex_ref, CUmodule module,
		const char *name);
typedef CUresult (CUDAAPI *PFN_cuModuleLoad_v2000)(CUmodule *module, const char *path);
typedef CUresult (CUDAAPI *PFN_cuModuleLoadData_v2000)(CUmodule *module, const void *image);
typedef CUresult (CUDAAPI *PFN_cuModuleLoadDataEx_v2010)(CUmodule *module, const void *image,
		unsigned int num_options, CUjit_option *options, void **option_values);
typedef CUresult (CUDAAPI *PFN_cuModuleUnload_v2000)(CUmodule module);
typedef CUresult (CUDAAPI *PFN_cuLinkAddData_v6050)(CUlinkState state, CUjitInputType type,
		void *data, size_t size, const char *name, unsigned int num_options,
		CUjit_option *options, void **option_values);
typedef CUresult (CUDAAPI *PFN_cuLinkAddFile_v6050)(CUlinkState state, CUjitInputType type,
		const char *path, unsigned int num_options, CUjit_option *options,
		void **option_values);
typedef CUresult (CUDAAPI *PFN_cuLinkComplete_v5050)(CUlinkState state, void **cubin_out,
		size_t *size_out);
typedef CUresult (CUDAAPI *PFN_cuLinkCreate_v6050)(unsigned int num_options,
		CUjit_option *options, void **option_values, CUlinkState *state_out);
typedef CUresult (CUDAAPI *PFN_cuLinkDestroy_v5050)(CUlinkState state);
typedef CUresult (CUDAAPI *PFN_cuFuncGetAttribute_v2020)(int *value,
		CUfunction_attribute attribute, CUfunction function);
typedef CUresult (CUDAAPI *PFN_cuFuncSetAttribute_v9000)(CUfunction function,
		CUfunction_attribute attribute, int value);
typedef CUresult (CUDAAPI *PFN_cuFuncSetBlockShape_v2000)(CUfunction function, int x, int y,
		int z);
typedef CUresult (CUDAAPI *PFN_cuFuncSetCacheConfig_v3000)(CUfunction function,
		CUfunc_cache config);
typedef CUresult (CUDAAPI *PFN_cuFuncSetSharedMemConfig_v4020)(CUfunction function,
		CUsharedconfig config);
typedef CUresult (CUDAAPI *PFN_cuFuncSetSharedSize_v2000)(CUfunction function,
		unsigned int bytes);
typedef CUresult (CUDAAPI *PFN_cuParamSetSize_v2000)(CUfunction function, unsigned int bytes);
typedef CUresult (CUDAAPI *PFN_cuParamSetTexRef_v2000)(CUfunction function, int unit,
		CUtexref tex_ref);
typedef CUresult (CUDAAPI *PFN_cuParamSetf_v2000)(CUfunction function, int offset, float value);
typedef CUresult (CUDAAPI *PFN_cuParamSeti_v2000)(CUfunction function, int offset,
		unsigned int value);
typedef CUresult (CUDAAPI *PFN_cuParamSetv_v2000)(CUfunction function, int offset, void *ptr,
		unsigned int bytes);
typedef CUresult (CUDAAPI *PFN_cuLaunch_v2000)(CUfunction function);
typedef CUresult (CUDAAPI *PFN_cuLaunchGrid_v2000)(CUfunction function, int grid_width,
		int grid_height);
typedef CUresult (CUDAAPI *PFN_cuLaunchGridAsync_v2000)(CUfunction function, int grid_width,
		int grid_height, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuLaunchKernel_v4000)(CUfunction function,
		unsigned int grid_dim_x, unsigned int grid_dim_y, unsigned int grid_dim_z,
		unsigned int block_dim_x, unsigned int block_dim_y, unsigned int block_dim_z,
		unsigned int shared_mem_bytes, CUstream stream, void **kernel_params,
		void **extra);
typedef CUresult (CUDAAPI *PFN_cuLaunchKernel_v7000_ptsz)(CUfunction function,
		unsigned int grid_dim_x, unsigned int grid_dim_y, unsigned int grid_dim_z,
		unsigned int block_dim_x, unsigned int block_dim_y, unsigned int block_dim_z,
		unsigned int shared_mem_bytes, CUstream stream, void **kernel_params,
		void **extra);
typedef CUresult (CUDAAPI *PFN_cuTexObjectCreate_v5000)(CUtexObject *tex_object,
		const CUDA_RESOURCE_DESC *resource, const CUDA_TEXTURE_DESC *texture,
		const CUDA_RESOURCE_VIEW_DESC *view);
typedef CUresult (CUDAAPI *PFN_cuTexObjectDestroy_v5000)(CUtexObject tex_object);
typedef CUresult (CUDAAPI *PFN_cuTexRefCreate_v2000)(CUtexref *tex_ref);
typedef CUresult (CUDAAPI *PFN_cuTexRefDestroy_v2000)(CUtexref tex_ref);
typedef CUresult (CUDAAPI *PFN_cuTexRefGetAddress_v3020)(CUdeviceptr *ptr, CUtexref tex_ref);
typedef CUresult (CUDAAPI *PFN_cuTexRefGetAddressMode_v2000)(CUaddress_mode *mode,
		CUtexref tex_ref, int dim);
typedef CUresult (CUDAAPI *PFN_cuTexRefGetArray_v2000)(CUarray *array, CUtexref tex_ref);
typedef CUresult (CUDAAPI *PFN_cuTexRefGetFilterMode_v2000)(CUfilter_mode *mode,
		CUtexref tex_ref);
typedef CUresult (CUDAAPI *PFN_cuTexRefGetFlags_v2000)(unsigned int *flags, CUtexref tex_ref);
typedef CUresult (CUDAAPI *PFN_cuTexRefGetFormat_v2000)(CUarray_format *format,
		int *num_channels, CUtexref tex_ref);
typedef CUresult (CUDAAPI *PFN_cuTexRefSetAddress_v3020)(size_t *byte_offset, CUtexref tex_ref,
		CUdeviceptr ptr, size_t bytes);
typedef CUresult (CUDAAPI *PFN_cuTexRefSetAddress2D_v4010)(CUtexref tex_ref,
		const CUDA_ARRAY_DESCRIPTOR *desc, CUdeviceptr ptr, size_t pitch);
typedef CUresult (CUDAAPI *PFN_cuTexRefSetAddressMode_v2000)(CUtexref tex_ref, int dim,
		CUaddress_mode mode);
typedef CUresult (CUDAAPI *PFN_cuTexRefSetArray_v2000)(CUtexref tex_ref, CUarray array,
		unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuTexRefSetFilterMode_v2000)(CUtexref tex_ref, CUfilter_mode mode);
typedef CUresult (CUDAAPI *PFN_cuTexRefSetFlags_v2000)(CUtexref tex_ref, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuTexRefSetFormat_v2000)(CUtexref tex_ref, CUarray_format format,
		int num_packed_components);
typedef CUresult (CUDAAPI *PFN_cuSurfRefGetArray_v3000)(CUarray *array, CUsurfref surf_ref);
typedef CUresult (CUDAAPI *PFN_cuSurfRefSetArray_v3000)(CUsurfref surf_ref, CUarray array,
		unsigned int flags);

#ifdef __CUDA_API_VERSION_INTERNAL
typedef CUresult (CUDAAPI *PFN_cuCtxDestroy_v2000)(CUcontext ctx);
typedef CUresult (CUDAAPI *PFN_cuCtxPopCurrent_v2000)(CUcontext *ctx);
typedef CUresult (CUDAAPI *PFN_cuCtxPushCurrent_v2000)(CUcontext ctx);
typedef CUresult (CUDAAPI *PFN_cuDeviceGetUuid_v9020)(CUuuid *uuid, CUdevice device);
typedef CUresult (CUDAAPI *PFN_cuDevicePrimaryCtxRelease_v7000)(CUdevice device);
typedef CUresult (CUDAAPI *PFN_cuDevicePrimaryCtxReset_v7000)(CUdevice device);
typedef CUresult (CUDAAPI *PFN_cuDevicePrimaryCtxSetFlags_v7000)(CUdevice device,
		unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuEventDestroy_v2000)(CUevent event);
typedef CUresult (CUDAAPI *PFN_cuEventElapsedTime_v2000)(float *milliseconds, CUevent start,
		CUevent end);
typedef CUresult (CUDAAPI *PFN_cuStreamDestroy_v2000)(CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuIpcOpenMemHandle_v4010)(CUdeviceptr *ptr, CUipcMemHandle handle,
		unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuMemHostRegister_v4000)(void *ptr, size_t bytes,
		unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuGraphicsResourceSetMapFlags_v3000)(CUgraphicsResource resource,
		unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuLinkAddData_v5050)(CUlinkState state, CUjitInputType type,
		void *data, size_t size, const char *name, unsigned int num_options,
		CUjit_option *options, void **option_values);
typedef CUresult (CUDAAPI *PFN_cuLinkAddFile_v5050)(CUlinkState state, CUjitInputType type,
		const char *path, unsigned int num_options, CUjit_option *options,
		void **option_values);
typedef CUresult (CUDAAPI *PFN_cuLinkCreate_v5050)(unsigned int num_options,
		CUjit_option *options, void **option_values, CUlinkState *state_out);
typedef CUresult (CUDAAPI *PFN_cuStreamWaitValue32_v8000)(CUstream stream, CUdeviceptr addr,
		cuuint32_t value, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuStreamWaitValue32_v8000_ptsz)(CUstream stream, CUdeviceptr addr,
		cuuint32_t value, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuStreamWaitValue64_v9000)(CUstream stream, CUdeviceptr addr,
		cuuint64_t value, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuStreamWaitValue64_v9000_ptsz)(CUstream stream, CUdeviceptr addr,
		cuuint64_t value, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuStreamWriteValue32_v8000)(CUstream stream, CUdeviceptr addr,
		cuuint32_t value, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuStreamWriteValue32_v8000_ptsz)(CUstream stream,
		CUdeviceptr addr, cuuint32_t value, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuStreamWriteValue64_v9000)(CUstream stream, CUdeviceptr addr,
		cuuint64_t value, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuStreamWriteValue64_v9000_ptsz)(CUstream stream,
		CUdeviceptr addr, cuuint64_t value, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuStreamBatchMemOp_v8000)(CUstream stream, unsigned int count,
		CUstreamBatchMemOpParams *ops, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuStreamBatchMemOp_v8000_ptsz)(CUstream stream,
		unsigned int count, CUstreamBatchMemOpParams *ops, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuCtxCreate_v2000)(CUcontext *ctx, unsigned int flags,
		CUdevice device);
typedef CUresult (CUDAAPI *PFN_cuCtxCreate_v3020)(CUcontext *ctx, unsigned int flags,
		CUdevice device);
typedef CUresult (CUDAAPI *PFN_cuCtxCreate_v11040)(CUcontext *ctx, CUexecAffinityParam *params,
		int param_count, unsigned int flags, CUdevice device);
typedef CUresult (CUDAAPI *PFN_cuGetProcAddress_v11030)(const char *name, void **function,
		int cuda_version, cuuint64_t flags);
typedef CUresult (CUDAAPI *PFN_cuMemAdvise_v8000)(CUdeviceptr ptr, size_t count,
		CUmem_advise advice, CUdevice device);
typedef CUresult (CUDAAPI *PFN_cuMemPrefetchAsync_v8000)(CUdeviceptr ptr, size_t count,
		CUdevice dst_device, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemPrefetchAsync_v8000_ptsz)(CUdeviceptr ptr, size_t count,
		CUdevice dst_device, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpyBatchAsync_v12080)(CUdeviceptr *dsts, CUdeviceptr *srcs,
		size_t *sizes, size_t count, CUmemcpyAttributes *attrs, size_t *attr_indices,
		size_t attr_count, size_t *fail_index, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpyBatchAsync_v12080_ptsz)(CUdeviceptr *dsts,
		CUdeviceptr *srcs, size_t *sizes, size_t count, CUmemcpyAttributes *attrs,
		size_t *attr_indices, size_t attr_count, size_t *fail_index, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpy3DBatchAsync_v12080)(size_t op_count,
		CUDA_MEMCPY3D_BATCH_OP *ops, size_t *fail_index, unsigned long long flags,
		CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpy3DBatchAsync_v12080_ptsz)(size_t op_count,
		CUDA_MEMCPY3D_BATCH_OP *ops, size_t *fail_index, unsigned long long flags,
		CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuStreamBeginCapture_v10000)(CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuStreamBeginCapture_v10000_ptsz)(CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuStreamGetCaptureInfo_v10010)(CUstream stream,
		CUstreamCaptureStatus *status, cuuint64_t *id);
typedef CUresult (CUDAAPI *PFN_cuStreamGetCaptureInfo_v10010_ptsz)(CUstream stream,
		CUstreamCaptureStatus *status, cuuint64_t *id);
typedef CUresult (CUDAAPI *PFN_cuStreamGetCaptureInfo_v11030)(CUstream stream,
		CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
		const CUgraphNode **dependencies, size_t *dependency_count);
typedef CUresult (CUDAAPI *PFN_cuStreamGetCaptureInfo_v11030_ptsz)(CUstream stream,
		CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
		const CUgraphNode **dependencies, size_t *dependency_count);
typedef CUresult (CUDAAPI *PFN_cuStreamUpdateCaptureDependencies_v11030)(CUstream stream,
		CUgraphNode *dependencies, size_t dependency_count, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuStreamUpdateCaptureDependencies_v11030_ptsz)(CUstream stream,
		CUgraphNode *dependencies, size_t dependency_count, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuDeviceTotalMem_v2000)(unsigned int *bytes, CUdevice device);
typedef CUresult (CUDAAPI *PFN_cuMemGetInfo_v2000)(unsigned int *free_bytes,
		unsigned int *total_bytes);
typedef CUresult (CUDAAPI *PFN_cuMemAlloc_v2000)(CUdeviceptr_v1 *ptr, unsigned int bytes);
typedef CUresult (CUDAAPI *PFN_cuMemAllocPitch_v2000)(CUdeviceptr_v1 *ptr, unsigned int *pitch,
		unsigned int width, unsigned int height, unsigned int element_bytes);
typedef CUresult (CUDAAPI *PFN_cuMemFree_v2000)(CUdeviceptr_v1 ptr);
typedef CUresult (CUDAAPI *PFN_cuMemGetAddressRange_v2000)(CUdeviceptr_v1 *base,
		unsigned int *size, CUdeviceptr_v1 ptr);
typedef CUresult (CUDAAPI *PFN_cuMemAllocHost_v2000)(void **ptr, unsigned int bytes);
typedef CUresult (CUDAAPI *PFN_cuMemHostGetDevicePointer_v2020)(CUdeviceptr_v1 *ptr,
		void *host_ptr, unsigned int flags);
typedef CUresult (CUDAAPI *PFN_cuModuleGetGlobal_v2000)(CUdeviceptr_v1 *ptr, unsigned int *bytes,
		CUmodule module, const char *name);
typedef CUresult (CUDAAPI *PFN_cuGraphicsResourceGetMappedPointer_v3000)(CUdeviceptr_v1 *ptr,
		unsigned int *size, CUgraphicsResource resource);
typedef CUresult (CUDAAPI *PFN_cuMemcpyAtoA_v2000)(CUarray dst_array, unsigned int dst_offset,
		CUarray src_array, unsigned int src_offset, unsigned int bytes);
typedef CUresult (CUDAAPI *PFN_cuMemcpyAtoD_v2000)(CUdeviceptr_v1 dst, CUarray src_array,
		unsigned int src_offset, unsigned int bytes);
typedef CUresult (CUDAAPI *PFN_cuMemcpyAtoH_v2000)(void *dst_host, CUarray src_array,
		unsigned int src_offset, unsigned int bytes);
typedef CUresult (CUDAAPI *PFN_cuMemcpyDtoA_v2000)(CUarray dst_array, unsigned int dst_offset,
		CUdeviceptr_v1 src, unsigned int bytes);
typedef CUresult (CUDAAPI *PFN_cuMemcpyDtoD_v2000)(CUdeviceptr_v1 dst, CUdeviceptr_v1 src,
		unsigned int bytes);
typedef CUresult (CUDAAPI *PFN_cuMemcpyDtoH_v2000)(void *dst_host, CUdeviceptr_v1 src,
		unsigned int bytes);
typedef CUresult (CUDAAPI *PFN_cuMemcpyHtoA_v2000)(CUarray dst_array, unsigned int dst_offset,
		const void *src_host, unsigned int bytes);
typedef CUresult (CUDAAPI *PFN_cuMemcpyHtoD_v2000)(CUdeviceptr_v1 dst, const void *src_host,
		unsigned int bytes);
typedef CUresult (CUDAAPI *PFN_cuMemcpyAtoHAsync_v2000)(void *dst_host, CUarray src_array,
		unsigned int src_offset, unsigned int bytes, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpyDtoDAsync_v3000)(CUdeviceptr_v1 dst, CUdeviceptr_v1 src,
		unsigned int bytes, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpyDtoHAsync_v2000)(void *dst_host, CUdeviceptr_v1 src,
		unsigned int bytes, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpyHtoAAsync_v2000)(CUarray dst_array,
		unsigned int dst_offset, const void *src_host, unsigned int bytes,
		CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpyHtoDAsync_v2000)(CUdeviceptr_v1 dst, const void *src_host,
		unsigned int bytes, CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpy2D_v2000)(const CUDA_MEMCPY2D_v1 *copy);
typedef CUresult (CUDAAPI *PFN_cuMemcpy2DAsync_v2000)(const CUDA_MEMCPY2D_v1 *copy,
		CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemcpy2DUnaligned_v2000)(const CUDA_MEMCPY2D_v1 *copy);
typedef CUresult (CUDAAPI *PFN_cuMemcpy3D_v2000)(const CUDA_MEMCPY3D_v1 *copy);
typedef CUresult (CUDAAPI *PFN_cuMemcpy3DAsync_v2000)(const CUDA_MEMCPY3D_v1 *copy,
		CUstream stream);
typedef CUresult (CUDAAPI *PFN_cuMemsetD8_v2000)(CUdeviceptr_v1 dst, unsigned char value,
		unsigned int count);
typedef CUresult (CUDAAPI *PFN_cuMemsetD16_v2000)(CUdeviceptr_v1 dst, unsigned short value,
		unsigned int count);
typedef CUresult (CUDAAPI *PFN_cuMemsetD2D8_v2000)(CUdeviceptr_v1 dst, unsigned int dst_pitch,
		unsigned char value, unsigned int width, unsigned int height);
typedef CUresult (CUDAAPI *PFN_cuMemsetD2D16_v2000)(CUdeviceptr_v1 dst, unsigned int dst_pitch,
		unsigned short value, unsigned int width, unsigned int height);
typedef CUresult (CUDAAPI *PFN_cuMemsetD2D32_v2000)(CUdeviceptr_v1 dst, unsigned int dst_pitch,
		unsigned int value, unsigned int width, unsigned int height);
typedef CUresult (CUDAAPI *PFN_cuMemsetD32_v2000)(CUdeviceptr_v1 dst, unsigned int value,
		unsigned int count);
typedef CUresult (CUDAAPI *PFN_cuArray3DCreate_v2000)(CUarray *handle,
		const CUDA_ARRAY3D_DESCRIPTOR_v1 *descriptor);
typedef CUresult (CUDAAPI *PFN_cuArray3DGetDescriptor_v2000)(
		CUDA_ARRAY3D_DESCRIPTOR_v1 *descriptor, CUarray array);
typedef CUresult (CUDAAPI *PFN_cuArrayCreate_v2000)(CUarray *handle,
		const CUDA_ARRAY_DESCRIPTOR_v1 *descriptor);
typedef CUresult (CUDAAPI *PFN_cuArrayGetDescriptor_v2000)(CUDA_ARRAY_DESCRIPTOR_v1 *descriptor,
		CUarray array);
typedef CUresult (CUDAAPI *PFN_cuTexRefGetAddress_v2000)(CUdeviceptr_v1 *ptr, CUtexref tex_ref);
typedef CUresult (CUDAAPI *PFN_cuTexRefSetAddress_v2000)(unsigned int *byte_offset,
		CUtexref tex_ref, CUdeviceptr_v1 ptr, unsigned int bytes);
typedef CUresult (CUDAAPI *PFN_cuTexRefSetAddress2D_v2020)(CUtexref tex_ref,
		const CUDA_ARRAY_DESCRIPTOR_v1 *desc, CUdeviceptr_v1 ptr, unsigned int pitch);
typedef CUresult (CUDAAPI *PFN_cuTexRefSetAddress2D_v3020)(CUtexref tex_ref,
		const CUDA_ARRAY_DESCRIPTOR *desc, CUdeviceptr ptr, size_t pitch);
#endif

#ifdef __cplusplus
}
#endif

#endif /* CUDATYPEDEFS_H */
