/* SPDX-License-Identifier: MIT */
/*
 * Assertions that both APIs agree where the runtime passes values on unchanged: numbers of enumerations
 * and layouts of structures. Included once, by cuda_rt_gen13.c.
 */
#ifndef GPUMEM_CUDA_RT_CHECK_H
#define GPUMEM_CUDA_RT_CHECK_H

#include <assert.h>
#include <stddef.h>

#define SAME(rt, cu)		static_assert((int)(rt) == (int)(cu), #rt)
#define SAME_SIZE(rt, cu)	static_assert(sizeof(rt) == sizeof(cu), #rt)
#define SAME_PLACE(rt, m, cu, n)	\
	static_assert(offsetof(rt, m) == offsetof(cu, n), #rt "." #m)

/* The first and the last constant of each enumeration, and some in between. */
SAME(cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY);
SAME(cudaErrorNoDevice, CUDA_ERROR_NO_DEVICE);
SAME(cudaErrorDeviceUninitialized, CUDA_ERROR_INVALID_CONTEXT);
SAME(cudaErrorInvalidResourceHandle, CUDA_ERROR_INVALID_HANDLE);
SAME(cudaErrorNotReady, CUDA_ERROR_NOT_READY);
SAME(cudaErrorContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME(cudaErrorNotSupported, CUDA_ERROR_NOT_SUPPORTED);
SAME(cudaErrorUnknown, CUDA_ERROR_UNKNOWN);
SAME(cudaDevAttrMaxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME(cudaDevAttrMemoryPoolsSupported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
SAME(cudaDevAttrHostMemoryPoolsSupported, CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED);
SAME(cudaDevP2PAttrPerformanceRank, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK);
SAME(cudaDevP2PAttrCudaArrayAccessSupported,
     CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED);
SAME(cudaLimitStackSize, CU_LIMIT_STACK_SIZE);
SAME(cudaLimitPersistingL2CacheSize, CU_LIMIT_PERSISTING_L2_CACHE_SIZE);
SAME(cudaFuncCachePreferEqual, CU_FUNC_CACHE_PREFER_EQUAL);
SAME(cudaSharedMemBankSizeEightByte, CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE);
SAME(cudaFlushGPUDirectRDMAWritesTargetCurrentDevice,
     CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX);
SAME(cudaFlushGPUDirectRDMAWritesToOwner, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER);
SAME(cudaFlushGPUDirectRDMAWritesToAllDevices, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES);
SAME(cudaStreamCaptureModeRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(cudaStreamCaptureStatusInvalidated, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
SAME(cudaLaunchAttributeSynchronizationPolicy, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY);
SAME(cudaLaunchAttributePriority, CU_LAUNCH_ATTRIBUTE_PRIORITY);
SAME(cudaSyncPolicyBlockingSync, CU_SYNC_POLICY_BLOCKING_SYNC);
SAME(cudaMemAdviseSetReadMostly, CU_MEM_ADVISE_SET_READ_MOSTLY);
SAME(cudaMemAdviseUnsetAccessedBy, CU_MEM_ADVISE_UNSET_ACCESSED_BY);
SAME(cudaMemRangeAttributeReadMostly, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY);
SAME(cudaMemRangeAttributeLastPrefetchLocationId,
     CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID);
SAME(cudaMemLocationTypeDevice, CU_MEM_LOCATION_TYPE_DEVICE);
SAME(cudaMemLocationTypeHost, CU_MEM_LOCATION_TYPE_HOST);
SAME(cudaMemLocationTypeHostNuma, CU_MEM_LOCATION_TYPE_HOST_NUMA);
SAME(cudaMemLocationTypeHostNumaCurrent, CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT);
SAME(cudaMemAccessFlagsProtReadWrite, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME(cudaMemPoolReuseFollowEventDependencies, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES);
SAME(cudaMemPoolAttrUsedMemHigh, CU_MEMPOOL_ATTR_USED_MEM_HIGH);
SAME(cudaMemAllocationTypePinned, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(cudaMemAllocationTypeManaged, CU_MEM_ALLOCATION_TYPE_MANAGED);
SAME(cudaMemHandleTypePosixFileDescriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
SAME(cudaMemHandleTypeFabric, CU_MEM_HANDLE_TYPE_FABRIC);
SAME(cudaEnableDefault, CU_GET_PROC_ADDRESS_DEFAULT);
SAME(cudaEnablePerThreadDefaultStream, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
SAME(cudaDriverEntryPointSymbolNotFound, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
SAME(cudaDriverEntryPointVersionNotSufficent, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);

SAME(cudaMemcpyFlagPreferOverlapWithCompute, CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE);
SAME(cudaMemcpySrcAccessOrderStream, CU_MEMCPY_SRC_ACCESS_ORDER_STREAM);
SAME(cudaMemcpySrcAccessOrderAny, CU_MEMCPY_SRC_ACCESS_ORDER_ANY);
SAME(cudaMemcpyOperandTypePointer, CU_MEMCPY_OPERAND_TYPE_POINTER);
SAME(cudaMemcpyOperandTypeArray, CU_MEMCPY_OPERAND_TYPE_ARRAY);
SAME(cudaExternalMemoryHandleTypeOpaqueFd, CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD);
SAME(cudaExternalMemoryHandleTypeNvSciBuf, CU_EXTERNAL_MEMORY_HANDLE_TYPE_NVSCIBUF);
SAME(cudaExternalSemaphoreHandleTypeOpaqueFd, CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD);
SAME(cudaExternalSemaphoreHandleTypeTimelineSemaphoreFd,
     CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD);

/* Flags. */
SAME(cudaArrayLayered, CUDA_ARRAY3D_LAYERED);
SAME(cudaArraySurfaceLoadStore, CUDA_ARRAY3D_SURFACE_LDST);
SAME(cudaArrayCubemap, CUDA_ARRAY3D_CUBEMAP);
SAME(cudaArrayTextureGather, CUDA_ARRAY3D_TEXTURE_GATHER);
SAME(cudaArraySparse, CUDA_ARRAY3D_SPARSE);
SAME(cudaArrayDeferredMapping, CUDA_ARRAY3D_DEFERRED_MAPPING);
SAME(cudaArraySparsePropertiesSingleMipTail, CU_ARRAY_SPARSE_PROPERTIES_SINGLE_MIPTAIL);
SAME(cudaExternalMemoryDedicated, CUDA_EXTERNAL_MEMORY_DEDICATED);
SAME(cudaStreamNonBlocking, CU_STREAM_NON_BLOCKING);
SAME(cudaEventBlockingSync, CU_EVENT_BLOCKING_SYNC);
SAME(cudaEventInterprocess, CU_EVENT_INTERPROCESS);
SAME(cudaEventRecordExternal, CU_EVENT_RECORD_EXTERNAL);
SAME(cudaEventWaitExternal, CU_EVENT_WAIT_EXTERNAL);
SAME(cudaHostAllocWriteCombined, CU_MEMHOSTALLOC_WRITECOMBINED);
SAME(cudaHostRegisterReadOnly, CU_MEMHOSTREGISTER_READ_ONLY);
SAME(cudaDeviceScheduleBlockingSync, CU_CTX_SCHED_BLOCKING_SYNC);
SAME(cudaDeviceMapHost, CU_CTX_MAP_HOST);
SAME(cudaMemAttachGlobal, CU_MEM_ATTACH_GLOBAL);
SAME(cudaMemAttachSingle, CU_MEM_ATTACH_SINGLE);
SAME(cudaIpcMemLazyEnablePeerAccess, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
SAME(cudaCpuDeviceId, CU_DEVICE_CPU);
SAME(cudaInvalidDeviceId, CU_DEVICE_INVALID);

/* Structures. */
SAME_SIZE(cudaIpcMemHandle_t, CUipcMemHandle);
SAME_SIZE(cudaIpcEventHandle_t, CUipcEventHandle);
SAME_SIZE(cudaUUID_t, CUuuid);
SAME_SIZE(cudaLaunchAttributeValue, CUstreamAttrValue);
SAME_SIZE(cudaAsyncNotificationInfo_t, CUasyncNotificationInfo);
SAME_SIZE(struct cudaMemLocation, CUmemLocation);
SAME_PLACE(struct cudaMemLocation, id, CUmemLocation, id);
SAME_SIZE(struct cudaMemAccessDesc, CUmemAccessDesc);
SAME_PLACE(struct cudaMemAccessDesc, flags, CUmemAccessDesc, flags);
SAME_SIZE(struct cudaMemPoolPtrExportData, CUmemPoolPtrExportData);
SAME_SIZE(struct cudaMemPoolProps, CUmemPoolProps);
SAME_PLACE(struct cudaMemPoolProps, handleTypes, CUmemPoolProps, handleTypes);
SAME_PLACE(struct cudaMemPoolProps, location, CUmemPoolProps, location);
SAME_PLACE(struct cudaMemPoolProps, win32SecurityAttributes, CUmemPoolProps,
	   win32SecurityAttributes);
SAME_PLACE(struct cudaMemPoolProps, maxSize, CUmemPoolProps, maxSize);
SAME_PLACE(struct cudaMemPoolProps, usage, CUmemPoolProps, usage);
SAME_SIZE(void *, CUdeviceptr);
SAME_SIZE(struct cudaArraySparseProperties, CUDA_ARRAY_SPARSE_PROPERTIES);
SAME_PLACE(struct cudaArraySparseProperties, miptailSize, CUDA_ARRAY_SPARSE_PROPERTIES, miptailSize);
SAME_SIZE(struct cudaArrayMemoryRequirements, CUDA_ARRAY_MEMORY_REQUIREMENTS);
SAME_SIZE(struct cudaMemcpyAttributes, CUmemcpyAttributes);
SAME_PLACE(struct cudaMemcpyAttributes, flags, CUmemcpyAttributes, flags);
SAME_SIZE(struct cudaMemcpy3DOperand, CUmemcpy3DOperand);
SAME_PLACE(struct cudaMemcpy3DOperand, op.ptr.locHint, CUmemcpy3DOperand, op.ptr.locHint);
SAME_PLACE(struct cudaMemcpy3DOperand, op.array.offset, CUmemcpy3DOperand, op.array.offset);
SAME_SIZE(struct cudaMemcpy3DBatchOp, CUDA_MEMCPY3D_BATCH_OP);
SAME_PLACE(struct cudaMemcpy3DBatchOp, extent, CUDA_MEMCPY3D_BATCH_OP, extent);
SAME_PLACE(struct cudaMemcpy3DBatchOp, flags, CUDA_MEMCPY3D_BATCH_OP, flags);
SAME_SIZE(struct cudaExternalMemoryHandleDesc, CUDA_EXTERNAL_MEMORY_HANDLE_DESC);
SAME_PLACE(struct cudaExternalMemoryHandleDesc, size, CUDA_EXTERNAL_MEMORY_HANDLE_DESC, size);
SAME_SIZE(struct cudaExternalMemoryBufferDesc, CUDA_EXTERNAL_MEMORY_BUFFER_DESC);
SAME_PLACE(struct cudaExternalMemoryBufferDesc, flags, CUDA_EXTERNAL_MEMORY_BUFFER_DESC, flags);
SAME_SIZE(struct cudaExternalSemaphoreHandleDesc, CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC);
SAME_PLACE(struct cudaExternalSemaphoreHandleDesc, flags, CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC, flags);
SAME_SIZE(struct cudaExternalSemaphoreSignalParams, CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS);
SAME_PLACE(struct cudaExternalSemaphoreSignalParams, flags, CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS,
	   flags);
SAME_SIZE(struct cudaExternalSemaphoreWaitParams, CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS);
SAME_PLACE(struct cudaExternalSemaphoreWaitParams, flags, CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS, flags);

/* The layout of CUDA 12's structures, as its headers define it. */
static_assert(sizeof(struct rt_prop12) == 1032, "properties of CUDA 12");
static_assert(offsetof(struct rt_prop12, hostRegisterSupported) == 728, "properties of CUDA 11");
static_assert(sizeof(struct cudaDeviceProp) == 1008, "properties of CUDA 13");
static_assert(sizeof(struct rt_pointer12) == 24, "pointer attributes of CUDA 12");
SAME_PLACE(struct rt_prop12, uuid, struct cudaDeviceProp, uuid);
SAME_PLACE(struct rt_prop12, totalGlobalMem, struct cudaDeviceProp, totalGlobalMem);
SAME_PLACE(struct rt_pointer12, hostPointer, struct cudaPointerAttributes, hostPointer);

#undef SAME
#undef SAME_SIZE
#undef SAME_PLACE

#endif /* GPUMEM_CUDA_RT_CHECK_H */
