/* SPDX-License-Identifier: MIT */
/*
 * Enumerations of the CUDA driver API: flags, modes and kinds. The attribute lists are in
 * cuda_attrs.h, texel and code options in cuda_formats.h.
 *
 * Flags are bit sets unless the comment says that one value is chosen. Include cuda.h, not this
 * file.
 */
#ifndef GPUMEM_CUDA_ENUMS_H
#define GPUMEM_CUDA_ENUMS_H

#include "cuda_attrs.h"
#include "cuda_formats.h"

/*
 * cuCtxCreate(): how a thread waits for the device (one of SCHED_*), and properties of the
 * context.
 */
typedef enum CUctx_flags_enum {
	CU_CTX_SCHED_AUTO		= 0x00,
	CU_CTX_SCHED_SPIN		= 0x01,
	CU_CTX_SCHED_YIELD		= 0x02,
	CU_CTX_SCHED_BLOCKING_SYNC	= 0x04,
	CU_CTX_BLOCKING_SYNC		= 0x04,
	CU_CTX_SCHED_MASK		= 0x07,
	CU_CTX_MAP_HOST			= 0x08,
	CU_CTX_LMEM_RESIZE_TO_MAX	= 0x10,
	CU_CTX_COREDUMP_ENABLE		= 0x20,
	CU_CTX_USER_COREDUMP_ENABLE	= 0x40,
	CU_CTX_SYNC_MEMOPS		= 0x80,
	CU_CTX_FLAGS_MASK		= 0xff
} CUctx_flags;

/* cuCtxSetLimit(), cuCtxGetLimit(): bytes or counts, per context. */
typedef enum CUlimit_enum {
	CU_LIMIT_STACK_SIZE				= 0,
	CU_LIMIT_PRINTF_FIFO_SIZE			= 1,
	CU_LIMIT_MALLOC_HEAP_SIZE			= 2,
	CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH			= 3,
	CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT	= 4,
	CU_LIMIT_MAX_L2_FETCH_GRANULARITY		= 5,
	CU_LIMIT_PERSISTING_L2_CACHE_SIZE		= 6,
	CU_LIMIT_SHMEM_SIZE				= 7,
	CU_LIMIT_CIG_ENABLED				= 8,
	CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED		= 9,
	CU_LIMIT_MAX					= 10
} CUlimit;

/* How many contexts a device admits; a value of CU_DEVICE_ATTRIBUTE_COMPUTE_MODE. */
typedef enum CUcomputemode_enum {
	CU_COMPUTEMODE_DEFAULT			= 0,
	CU_COMPUTEMODE_PROHIBITED		= 2,
	CU_COMPUTEMODE_EXCLUSIVE_PROCESS	= 3
} CUcomputemode;

/* The resource that a CUexecAffinityParam limits. */
typedef enum CUexecAffinityType_enum {
	CU_EXEC_AFFINITY_TYPE_SM_COUNT	= 0,
	CU_EXEC_AFFINITY_TYPE_MAX	= 1
} CUexecAffinityType;

/* The graphics interface that a context shares its queues with. */
typedef enum CUcigDataType_enum {
	CIG_DATA_TYPE_D3D12_COMMAND_QUEUE	= 1,
	CIG_DATA_TYPE_NV_BLOB			= 2
} CUcigDataType;

/* Preferred split between L1 cache and shared memory. */
typedef enum CUfunc_cache_enum {
	CU_FUNC_CACHE_PREFER_NONE	= 0,
	CU_FUNC_CACHE_PREFER_SHARED	= 1,
	CU_FUNC_CACHE_PREFER_L1		= 2,
	CU_FUNC_CACHE_PREFER_EQUAL	= 3
} CUfunc_cache;

/* Width of a shared memory bank. */
typedef enum CUsharedconfig_enum {
	CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE		= 0,
	CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE	= 1,
	CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE	= 2
} CUsharedconfig;

/* Shared memory share in percent, or one of these. */
typedef enum CUshared_carveout_enum {
	CU_SHAREDMEM_CARVEOUT_DEFAULT		= -1,
	CU_SHAREDMEM_CARVEOUT_MAX_L1		= 0,
	CU_SHAREDMEM_CARVEOUT_MAX_SHARED	= 100
} CUshared_carveout;

/* cuStreamCreate(): NON_BLOCKING streams do not synchronise with the legacy stream. */
typedef enum CUstream_flags_enum {
	CU_STREAM_DEFAULT	= 0x00,
	CU_STREAM_NON_BLOCKING	= 0x01
} CUstream_flags;

/* cuEventCreate(). INTERPROCESS requires DISABLE_TIMING. */
typedef enum CUevent_flags_enum {
	CU_EVENT_DEFAULT	= 0x00,
	CU_EVENT_BLOCKING_SYNC	= 0x01,
	CU_EVENT_DISABLE_TIMING	= 0x02,
	CU_EVENT_INTERPROCESS	= 0x04
} CUevent_flags;

/* cuLaunchHostFunc_v2(): how the thread that calls host functions waits for the next one. */
typedef enum CUhostTaskSyncMode_enum {
	CU_HOST_TASK_BLOCKING	= 0,
	CU_HOST_TASK_SPINWAIT	= 1
} CUhostTaskSyncMode;

/* How a thread waits for an event created by other APIs; one value. */
typedef enum CUevent_sched_flags_enum {
	CU_EVENT_SCHED_AUTO		= 0x00,
	CU_EVENT_SCHED_SPIN		= 0x01,
	CU_EVENT_SCHED_YIELD		= 0x02,
	CU_EVENT_SCHED_BLOCKING_SYNC	= 0x04
} CUevent_sched_flags;

/* cuEventRecordWithFlags(): EXTERNAL makes an event node of a capture. */
typedef enum CUevent_record_flags_enum {
	CU_EVENT_RECORD_DEFAULT		= 0x00,
	CU_EVENT_RECORD_EXTERNAL	= 0x01
} CUevent_record_flags;

/* cuStreamWaitEvent(): EXTERNAL makes an event node of a capture. */
typedef enum CUevent_wait_flags_enum {
	CU_EVENT_WAIT_DEFAULT	= 0x00,
	CU_EVENT_WAIT_EXTERNAL	= 0x01
} CUevent_wait_flags;

/* cuStreamWaitValue32/64(): one comparison of memory with the value, and FLUSH. */
typedef enum CUstreamWaitValue_flags_enum {
	CU_STREAM_WAIT_VALUE_GEQ	= 0x00,
	CU_STREAM_WAIT_VALUE_EQ		= 0x01,
	CU_STREAM_WAIT_VALUE_AND	= 0x02,
	CU_STREAM_WAIT_VALUE_NOR	= 0x03,
	CU_STREAM_WAIT_VALUE_FLUSH	= 0x40000000
} CUstreamWaitValue_flags;

/* cuStreamWriteValue32/64(). */
typedef enum CUstreamWriteValue_flags_enum {
	CU_STREAM_WRITE_VALUE_DEFAULT		= 0x00,
	CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER	= 0x01
} CUstreamWriteValue_flags;

/* The kinds of operation in a cuStreamBatchMemOp() list. */
typedef enum CUstreamBatchMemOpType_enum {
	CU_STREAM_MEM_OP_WAIT_VALUE_32		= 1,
	CU_STREAM_MEM_OP_WRITE_VALUE_32		= 2,
	CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES	= 3,
	CU_STREAM_MEM_OP_WAIT_VALUE_64		= 4,
	CU_STREAM_MEM_OP_WRITE_VALUE_64		= 5,
	CU_STREAM_MEM_OP_BARRIER		= 6,
	CU_STREAM_MEM_OP_ATOMIC_REDUCTION	= 8
} CUstreamBatchMemOpType;

/* How an atomic reduction changes memory. */
typedef enum CUstreamAtomicReductionOpType_enum {
	CU_STREAM_ATOMIC_REDUCTION_OP_ADD	= 0,
	CU_STREAM_ATOMIC_REDUCTION_OP_AND	= 5,
	CU_STREAM_ATOMIC_REDUCTION_OP_OR	= 6
} CUstreamAtomicReductionOpType;

/* The type of the word that an atomic reduction changes. */
typedef enum CUstreamAtomicReductionDataType_enum {
	CU_STREAM_ATOMIC_REDUCTION_UNSIGNED_32	= 14,
	CU_STREAM_ATOMIC_REDUCTION_UNSIGNED_64	= 22
} CUstreamAtomicReductionDataType;

/* The scope of a barrier operation: the system or the device. */
typedef enum CUstreamMemoryBarrier_flags_enum {
	CU_STREAM_MEMORY_BARRIER_TYPE_SYS	= 0,
	CU_STREAM_MEMORY_BARRIER_TYPE_GPU	= 1
} CUstreamMemoryBarrier_flags;

/* Whether a stream is recording a graph. */
typedef enum CUstreamCaptureStatus_enum {
	CU_STREAM_CAPTURE_STATUS_NONE		= 0,
	CU_STREAM_CAPTURE_STATUS_ACTIVE		= 1,
	CU_STREAM_CAPTURE_STATUS_INVALIDATED	= 2
} CUstreamCaptureStatus;

/* Which unsafe calls a capture forbids, and to which threads. */
typedef enum CUstreamCaptureMode_enum {
	CU_STREAM_CAPTURE_MODE_GLOBAL		= 0,
	CU_STREAM_CAPTURE_MODE_THREAD_LOCAL	= 1,
	CU_STREAM_CAPTURE_MODE_RELAXED		= 2
} CUstreamCaptureMode;

/* Whether dependencies are added to a capture or replace it. */
typedef enum CUstreamUpdateCaptureDependencies_flags_enum {
	CU_STREAM_ADD_CAPTURE_DEPENDENCIES	= 0,
	CU_STREAM_SET_CAPTURE_DEPENDENCIES	= 1
} CUstreamUpdateCaptureDependencies_flags;

/* The kind of an edge between graph nodes (CUgraphEdgeData.type). */
typedef enum CUgraphDependencyType_enum {
	CU_GRAPH_DEPENDENCY_TYPE_DEFAULT	= 0,
	CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC	= 1
} CUgraphDependencyType;

/* Cache behaviour inside or outside an access policy window. */
typedef enum CUaccessProperty_enum {
	CU_ACCESS_PROPERTY_NORMAL	= 0,
	CU_ACCESS_PROPERTY_STREAMING	= 1,
	CU_ACCESS_PROPERTY_PERSISTING	= 2
} CUaccessProperty;

/* How a stream's waits behave. */
typedef enum CUsynchronizationPolicy_enum {
	CU_SYNC_POLICY_AUTO		= 1,
	CU_SYNC_POLICY_SPIN		= 2,
	CU_SYNC_POLICY_YIELD		= 3,
	CU_SYNC_POLICY_BLOCKING_SYNC	= 4
} CUsynchronizationPolicy;

/* How thread block clusters are spread. */
typedef enum CUclusterSchedulingPolicy_enum {
	CU_CLUSTER_SCHEDULING_POLICY_DEFAULT		= 0,
	CU_CLUSTER_SCHEDULING_POLICY_SPREAD		= 1,
	CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING	= 2
} CUclusterSchedulingPolicy;

/* The memory synchronisation domain of a launch. */
typedef enum CUlaunchMemSyncDomain_enum {
	CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT	= 0,
	CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE	= 1
} CUlaunchMemSyncDomain;

/* Which member of CUlaunchAttributeValue an attribute of a launch or a stream uses. */
typedef enum CUlaunchAttributeID_enum {
	CU_LAUNCH_ATTRIBUTE_IGNORE					= 0,
	CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW			= 1,
	CU_LAUNCH_ATTRIBUTE_COOPERATIVE					= 2,
	CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY			= 3,
	CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION				= 4,
	CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE	= 5,
	CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION		= 6,
	CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT				= 7,
	CU_LAUNCH_ATTRIBUTE_PRIORITY					= 8,
	CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP				= 9,
	CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN				= 10,
	CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION			= 11,
	CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT			= 12,
	CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE		= 13,
	CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT		= 14,
	CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING		= 16
} CUlaunchAttributeID;
typedef CUlaunchAttributeID CUkernelNodeAttrID;
typedef CUlaunchAttributeID CUstreamAttrID;

/* The launch attributes that streams have. */
#define CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW	CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
#define CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY	CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY
#define CU_STREAM_ATTRIBUTE_PRIORITY			CU_LAUNCH_ATTRIBUTE_PRIORITY
#define CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP		CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP
#define CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN		CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN

/*
 * Where memory lives, in copies and in CU_POINTER_ATTRIBUTE_MEMORY_TYPE. UNIFIED lets the library
 * find out from the address.
 */
typedef enum CUmemorytype_enum {
	CU_MEMORYTYPE_HOST	= 1,
	CU_MEMORYTYPE_DEVICE	= 2,
	CU_MEMORYTYPE_ARRAY	= 3,
	CU_MEMORYTYPE_UNIFIED	= 4
} CUmemorytype;

/* cuMemAllocManaged(), cuStreamAttachMemAsync(): who may touch managed memory; one value. */
typedef enum CUmemAttach_flags_enum {
	CU_MEM_ATTACH_GLOBAL	= 0x01,
	CU_MEM_ATTACH_HOST	= 0x02,
	CU_MEM_ATTACH_SINGLE	= 0x04
} CUmemAttach_flags;

/* cuMemAdvise(): hints about managed or host memory; they change speed, never results. */
typedef enum CUmem_advise_enum {
	CU_MEM_ADVISE_SET_READ_MOSTLY		= 1,
	CU_MEM_ADVISE_UNSET_READ_MOSTLY		= 2,
	CU_MEM_ADVISE_SET_PREFERRED_LOCATION	= 3,
	CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION	= 4,
	CU_MEM_ADVISE_SET_ACCESSED_BY		= 5,
	CU_MEM_ADVISE_UNSET_ACCESSED_BY		= 6
} CUmem_advise;

/* cuIpcOpenMemHandle(). */
typedef enum CUipcMem_flags_enum {
	CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS	= 0x01
} CUipcMem_flags;

/* The kind of memory that cuMemCreate() or a pool makes. */
typedef enum CUmemAllocationType_enum {
	CU_MEM_ALLOCATION_TYPE_INVALID	= 0,
	CU_MEM_ALLOCATION_TYPE_PINNED	= 1,
	CU_MEM_ALLOCATION_TYPE_MANAGED	= 2,
	CU_MEM_ALLOCATION_TYPE_MAX	= 0x7fffffff
} CUmemAllocationType;

/*
 * Handles that memory or a pool can be exported as; a set when requested, one value when
 * exporting.
 */
typedef enum CUmemAllocationHandleType_enum {
	CU_MEM_HANDLE_TYPE_NONE				= 0x00,
	CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR	= 0x01,
	CU_MEM_HANDLE_TYPE_WIN32			= 0x02,
	CU_MEM_HANDLE_TYPE_WIN32_KMT			= 0x04,
	CU_MEM_HANDLE_TYPE_FABRIC			= 0x08,
	CU_MEM_HANDLE_TYPE_MAX				= 0x7fffffff
} CUmemAllocationHandleType;

/*
 * What CUmemLocation.id counts: devices, NUMA nodes of the host, or nothing. INVISIBLE is an answer only: memory of
 * a device that the process does not see.
 */
typedef enum CUmemLocationType_enum {
	CU_MEM_LOCATION_TYPE_INVALID		= 0,
	CU_MEM_LOCATION_TYPE_NONE		= 0,
	CU_MEM_LOCATION_TYPE_DEVICE		= 1,
	CU_MEM_LOCATION_TYPE_HOST		= 2,
	CU_MEM_LOCATION_TYPE_HOST_NUMA		= 3,
	CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT	= 4,
	CU_MEM_LOCATION_TYPE_INVISIBLE		= 5,
	CU_MEM_LOCATION_TYPE_MAX		= 0x7fffffff
} CUmemLocationType;

/* Access of a location to memory; one value. */
typedef enum CUmemAccess_flags_enum {
	CU_MEM_ACCESS_FLAGS_PROT_NONE		= 0x00,
	CU_MEM_ACCESS_FLAGS_PROT_READ		= 0x01,
	CU_MEM_ACCESS_FLAGS_PROT_READWRITE	= 0x03,
	CU_MEM_ACCESS_FLAGS_PROT_MAX		= 0x7fffffff
} CUmemAccess_flags;

/* The granularity that works, or the one for speed. */
typedef enum CUmemAllocationGranularity_flags_enum {
	CU_MEM_ALLOC_GRANULARITY_MINIMUM	= 0,
	CU_MEM_ALLOC_GRANULARITY_RECOMMENDED	= 1
} CUmemAllocationGranularity_flags;

/* The same for a multicast object. */
typedef enum CUmulticastGranularity_flags_enum {
	CU_MULTICAST_GRANULARITY_MINIMUM	= 0,
	CU_MULTICAST_GRANULARITY_RECOMMENDED	= 1
} CUmulticastGranularity_flags;

/* Whether a logical endpoint stands for the memory of one device or of a team. */
typedef enum CUlogicalEndpointType_enum {
	CU_LOGICAL_ENDPOINT_TYPE_INVALID	= 0,
	CU_LOGICAL_ENDPOINT_TYPE_UNICAST	= 1,
	CU_LOGICAL_ENDPOINT_TYPE_MULTICAST	= 2
} CUlogicalEndpointType;

/* Handles that a logical endpoint can be exported as; a set when requested, one value when exporting. */
typedef enum CUlogicalEndpointIpcHandleType_enum {
	CU_LOGICAL_ENDPOINT_IPC_HANDLE_TYPE_NONE	= 0,
	CU_LOGICAL_ENDPOINT_IPC_HANDLE_TYPE_FABRIC	= 1
} CUlogicalEndpointIpcHandleType;

/* CUlogicalEndpointProp.flags: whether operations count the bytes that arrive. */
typedef enum CUlogicalEndpointFlag_enum {
	CU_LOGICAL_ENDPOINT_FLAG_NONE		= 0,
	CU_LOGICAL_ENDPOINT_FLAG_COUNTED_OPS	= 1
} CUlogicalEndpointFlag;

/* Compression of memory; CUmemAllocationProp.allocFlags.compressionType. */
typedef enum CUmemAllocationCompType_enum {
	CU_MEM_ALLOCATION_COMP_NONE	= 0,
	CU_MEM_ALLOCATION_COMP_GENERIC	= 1
} CUmemAllocationCompType;

/* The kind of memory handle in a sparse mapping. */
typedef enum CUmemHandleType_enum {
	CU_MEM_HANDLE_TYPE_GENERIC	= 0
} CUmemHandleType;

/* Whether a sparse mapping operation maps or unmaps. */
typedef enum CUmemOperationType_enum {
	CU_MEM_OPERATION_TYPE_MAP	= 1,
	CU_MEM_OPERATION_TYPE_UNMAP	= 2
} CUmemOperationType;

/* Whether a sparse mapping names a tile region or the mip tail. */
typedef enum CUarraySparseSubresourceType_enum {
	CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL	= 0,
	CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_MIPTAIL	= 1
} CUarraySparseSubresourceType;

/* What cuMemGetHandleForAddressRange() returns. */
typedef enum CUmemRangeHandleType_enum {
	CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD	= 1,
	CU_MEM_RANGE_HANDLE_TYPE_MAX		= 0x7fffffff
} CUmemRangeHandleType;

/* cuMemGetHandleForAddressRange(). */
typedef enum CUmemRangeFlags_enum {
	CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE	= 0x01
} CUmemRangeFlags;

/*
 * cuMemPoolSetAttribute(): REUSE_* are int booleans, RELEASE_THRESHOLD and the *_MEM_* counters
 * cuuint64_t bytes. The HIGH marks can be set to 0 only. The others can be read only: MAX_POOL_SIZE is
 * cuuint64_t bytes, the rest are ints or values of enumerations.
 */
typedef enum CUmemPool_attribute_enum {
	CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES		= 1,
	CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC		= 2,
	CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES	= 3,
	CU_MEMPOOL_ATTR_RELEASE_THRESHOLD			= 4,
	CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT			= 5,
	CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH			= 6,
	CU_MEMPOOL_ATTR_USED_MEM_CURRENT			= 7,
	CU_MEMPOOL_ATTR_USED_MEM_HIGH				= 8,
	CU_MEMPOOL_ATTR_ALLOCATION_TYPE				= 9,
	CU_MEMPOOL_ATTR_EXPORT_HANDLE_TYPES			= 10,
	CU_MEMPOOL_ATTR_LOCATION_ID				= 11,
	CU_MEMPOOL_ATTR_LOCATION_TYPE				= 12,
	CU_MEMPOOL_ATTR_MAX_POOL_SIZE				= 13,
	CU_MEMPOOL_ATTR_HW_DECOMPRESS_ENABLED			= 14
} CUmemPool_attribute;

/* CUmemcpyAttributes.flags. */
typedef enum CUmemcpyFlags_enum {
	CU_MEMCPY_FLAG_DEFAULT				= 0x00,
	CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE	= 0x01
} CUmemcpyFlags;

/* When a batched copy may read its source; one value. */
typedef enum CUmemcpySrcAccessOrder_enum {
	CU_MEMCPY_SRC_ACCESS_ORDER_INVALID		= 0,
	CU_MEMCPY_SRC_ACCESS_ORDER_STREAM		= 1,
	CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL	= 2,
	CU_MEMCPY_SRC_ACCESS_ORDER_ANY			= 3,
	CU_MEMCPY_SRC_ACCESS_ORDER_MAX			= 0x7fffffff
} CUmemcpySrcAccessOrder;

/* Which member of CUmemcpy3DOperand.op is meant. */
typedef enum CUmemcpy3DOperandType_enum {
	CU_MEMCPY_OPERAND_TYPE_POINTER	= 1,
	CU_MEMCPY_OPERAND_TYPE_ARRAY	= 2,
	CU_MEMCPY_OPERAND_TYPE_MAX	= 0x7fffffff
} CUmemcpy3DOperandType;

/*
 * The format of compressed data; also the bits of
 * CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK.
 */
typedef enum CUmemDecompressAlgorithm_enum {
	CU_MEM_DECOMPRESS_UNSUPPORTED		= 0,
	CU_MEM_DECOMPRESS_ALGORITHM_DEFLATE	= 1,
	CU_MEM_DECOMPRESS_ALGORITHM_SNAPPY	= 2,
	CU_MEM_DECOMPRESS_ALGORITHM_LZ4		= 4
} CUmemDecompressAlgorithm;

/* The event that an asynchronous notification reports. */
typedef enum CUasyncNotificationType_enum {
	CU_ASYNC_NOTIFICATION_TYPE_OVER_BUDGET	= 1
} CUasyncNotificationType;

/* Atomic operations that a device or a link may support natively. */
typedef enum CUatomicOperation_enum {
	CU_ATOMIC_OPERATION_INTEGER_ADD		= 0,
	CU_ATOMIC_OPERATION_INTEGER_MIN		= 1,
	CU_ATOMIC_OPERATION_INTEGER_MAX		= 2,
	CU_ATOMIC_OPERATION_INTEGER_INCREMENT	= 3,
	CU_ATOMIC_OPERATION_INTEGER_DECREMENT	= 4,
	CU_ATOMIC_OPERATION_AND			= 5,
	CU_ATOMIC_OPERATION_OR			= 6,
	CU_ATOMIC_OPERATION_XOR			= 7,
	CU_ATOMIC_OPERATION_EXCHANGE		= 8,
	CU_ATOMIC_OPERATION_CAS			= 9,
	CU_ATOMIC_OPERATION_FLOAT_ADD		= 10,
	CU_ATOMIC_OPERATION_FLOAT_MIN		= 11,
	CU_ATOMIC_OPERATION_FLOAT_MAX		= 12,
	CU_ATOMIC_OPERATION_MAX			= 13
} CUatomicOperation;

/* Operand kinds of such an operation. */
typedef enum CUatomicOperationCapability_enum {
	CU_ATOMIC_CAPABILITY_SIGNED		= 0x01,
	CU_ATOMIC_CAPABILITY_UNSIGNED		= 0x02,
	CU_ATOMIC_CAPABILITY_REDUCTION		= 0x04,
	CU_ATOMIC_CAPABILITY_SCALAR_32		= 0x08,
	CU_ATOMIC_CAPABILITY_SCALAR_64		= 0x10,
	CU_ATOMIC_CAPABILITY_SCALAR_128		= 0x20,
	CU_ATOMIC_CAPABILITY_VECTOR_32x4	= 0x40
} CUatomicOperationCapability;

/* How writes of other devices to device memory can be flushed. */
typedef enum CUflushGPUDirectRDMAWritesOptions_enum {
	CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST	= 0x01,
	CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_MEMOPS	= 0x02
} CUflushGPUDirectRDMAWritesOptions;

/* For whom flushed writes become visible. */
typedef enum CUflushGPUDirectRDMAWritesScope_enum {
	CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER	= 100,
	CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES	= 200
} CUflushGPUDirectRDMAWritesScope;

/* Whose memory is flushed. */
typedef enum CUflushGPUDirectRDMAWritesTarget_enum {
	CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX	= 0
} CUflushGPUDirectRDMAWritesTarget;

/* For whom such writes are ordered without a flush. */
typedef enum CUGPUDirectRDMAWritesOrdering_enum {
	CU_GPU_DIRECT_RDMA_WRITES_ORDERING_NONE		= 0,
	CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER	= 100,
	CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES	= 200
} CUGPUDirectRDMAWritesOrdering;

/* Whether device memory is a NUMA node of the host. */
typedef enum CUdeviceNumaConfig_enum {
	CU_DEVICE_NUMA_CONFIG_NONE	= 0,
	CU_DEVICE_NUMA_CONFIG_NUMA_NODE	= 1
} CUdeviceNumaConfig;

/* The kind of resource that a texture, surface or mapping is bound to. */
typedef enum CUresourcetype_enum {
	CU_RESOURCE_TYPE_ARRAY			= 0,
	CU_RESOURCE_TYPE_MIPMAPPED_ARRAY	= 1,
	CU_RESOURCE_TYPE_LINEAR			= 2,
	CU_RESOURCE_TYPE_PITCH2D		= 3
} CUresourcetype;

/* The kind of handle that cuImportExternalMemory() imports. */
typedef enum CUexternalMemoryHandleType_enum {
	CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD		= 1,
	CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32		= 2,
	CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_WIN32_KMT		= 3,
	CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_HEAP		= 4,
	CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D12_RESOURCE		= 5,
	CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D11_RESOURCE		= 6,
	CU_EXTERNAL_MEMORY_HANDLE_TYPE_D3D11_RESOURCE_KMT	= 7,
	CU_EXTERNAL_MEMORY_HANDLE_TYPE_NVSCIBUF			= 8,
	CU_EXTERNAL_MEMORY_HANDLE_TYPE_DMABUF_FD		= 9
} CUexternalMemoryHandleType;

/* The kind of handle that cuImportExternalSemaphore() imports. */
typedef enum CUexternalSemaphoreHandleType_enum {
	CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD			= 1,
	CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32			= 2,
	CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_WIN32_KMT		= 3,
	CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D12_FENCE			= 4,
	CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D11_FENCE			= 5,
	CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_NVSCISYNC			= 6,
	CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D11_KEYED_MUTEX		= 7,
	CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_D3D11_KEYED_MUTEX_KMT		= 8,
	CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD		= 9,
	CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_WIN32	= 10
} CUexternalSemaphoreHandleType;

/* How a registered graphics resource will be used. */
typedef enum CUgraphicsRegisterFlags_enum {
	CU_GRAPHICS_REGISTER_FLAGS_NONE			= 0x00,
	CU_GRAPHICS_REGISTER_FLAGS_READ_ONLY		= 0x01,
	CU_GRAPHICS_REGISTER_FLAGS_WRITE_DISCARD	= 0x02,
	CU_GRAPHICS_REGISTER_FLAGS_SURFACE_LDST		= 0x04,
	CU_GRAPHICS_REGISTER_FLAGS_TEXTURE_GATHER	= 0x08
} CUgraphicsRegisterFlags;

/* How a mapped graphics resource will be used; one value. */
typedef enum CUgraphicsMapResourceFlags_enum {
	CU_GRAPHICS_MAP_RESOURCE_FLAGS_NONE		= 0,
	CU_GRAPHICS_MAP_RESOURCE_FLAGS_READ_ONLY	= 1,
	CU_GRAPHICS_MAP_RESOURCE_FLAGS_WRITE_DISCARD	= 2
} CUgraphicsMapResourceFlags;

/* cuGetProcAddress(): which form of functions with a default stream; one value. */
typedef enum CUdriverProcAddress_flags_enum {
	CU_GET_PROC_ADDRESS_DEFAULT			= 0x00,
	CU_GET_PROC_ADDRESS_LEGACY_STREAM		= 0x01,
	CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM	= 0x02
} CUdriverProcAddress_flags;

/* cuGetProcAddress(): why there is no pointer. */
typedef enum CUdriverProcAddressQueryResult_enum {
	CU_GET_PROC_ADDRESS_SUCCESS			= 0,
	CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND		= 1,
	CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT	= 2
} CUdriverProcAddressQueryResult;

#endif /* GPUMEM_CUDA_ENUMS_H */
