/* SPDX-License-Identifier: MIT */
/*
 * Scalar types, handles and plain constants of the CUDA driver API.
 *
 * A handle is a pointer to a structure that is never defined: only the library that made it can
 * look inside. Device addresses are integers as wide as a pointer. Sizes are bytes unless a
 * comment says otherwise.
 *
 * Include cuda.h, not this file.
 */
#ifndef GPUMEM_CUDA_BASE_H
#define GPUMEM_CUDA_BASE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef uint32_t cuuint32_t;
typedef uint64_t cuuint64_t;

/* The API version that these headers describe: 1000 * major + 10 * minor. */
#define CUDA_VERSION		13030

/* Calling conventions; nothing on Linux. */
#define CUDAAPI
#define CUDA_CB

/* An address in the unified address space. In CUDA the CPU can use those of host and managed memory, here all. */
#if defined(__LP64__)
typedef unsigned long long CUdeviceptr_v2;
#else
typedef unsigned int CUdeviceptr_v2;
#endif
typedef CUdeviceptr_v2 CUdeviceptr;

/* A device ordinal, or one of these two values: the host, and no device. */
typedef int CUdevice_v1;
typedef CUdevice_v1 CUdevice;
#define CU_DEVICE_CPU		((CUdevice)-1)
#define CU_DEVICE_INVALID	((CUdevice)-2)

/* Contexts, streams and events. A handle is valid until the program destroys the object. */
typedef struct CUctx_st *CUcontext;
typedef struct CUgreenCtx_st *CUgreenCtx;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;

/* The default streams, which need no creation: the stream that all threads share, and each thread's own. */
#define CU_STREAM_LEGACY	((CUstream)0x1)
#define CU_STREAM_PER_THREAD	((CUstream)0x2)

/* Memory objects. */
typedef struct CUmemPoolHandle_st *CUmemoryPool;
typedef struct CUarray_st *CUarray;
typedef struct CUmipmappedArray_st *CUmipmappedArray;
typedef struct CUextMemory_st *CUexternalMemory;
typedef struct CUextSemaphore_st *CUexternalSemaphore;
typedef struct CUgraphicsResource_st *CUgraphicsResource;
typedef unsigned long long CUmemGenericAllocationHandle_v1;
typedef CUmemGenericAllocationHandle_v1 CUmemGenericAllocationHandle;

/* A number that names a logical endpoint within the process. */
typedef cuuint32_t CUlogicalEndpointId;

/* The registration of a callback, as returned by cuDeviceRegisterAsyncNotification(). */
typedef struct CUasyncCallbackEntry_st *CUasyncCallbackHandle;

/* Code, textures and graphs: named because functions of this API take them. */
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUlib_st *CUlibrary;
typedef struct CUkern_st *CUkernel;
typedef struct CUlinkState_st *CUlinkState;
typedef struct CUtexref_st *CUtexref;
typedef struct CUsurfref_st *CUsurfref;
typedef unsigned long long CUtexObject_v1;
typedef CUtexObject_v1 CUtexObject;
typedef unsigned long long CUsurfObject_v1;
typedef CUsurfObject_v1 CUsurfObject;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphNode_st *CUgraphNode;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUuserObject_st *CUuserObject;
typedef struct CUgraphDeviceUpdatableNode_st *CUgraphDeviceNode;
typedef cuuint64_t CUgraphConditionalHandle;

/*
 * cuMemHostAlloc(): usable in every context; mapped for the devices; uncached for CPU reads. The
 * library stores and reports these flags, which have no other effect here.
 */
#define CU_MEMHOSTALLOC_PORTABLE	0x01
#define CU_MEMHOSTALLOC_DEVICEMAP	0x02
#define CU_MEMHOSTALLOC_WRITECOMBINED	0x04

/* cuMemHostRegister(): PORTABLE and DEVICEMAP as above; registers of a device; memory that devices only read. */
#define CU_MEMHOSTREGISTER_PORTABLE	0x01
#define CU_MEMHOSTREGISTER_DEVICEMAP	0x02
#define CU_MEMHOSTREGISTER_IOMEMORY	0x04
#define CU_MEMHOSTREGISTER_READ_ONLY	0x08

/* The use of memory: CUmemAllocationProp.allocFlags.usage and CUmemPoolProps.usage. */
#define CU_MEM_CREATE_USAGE_TILE_POOL		0x1
#define CU_MEM_CREATE_USAGE_HW_DECOMPRESS	0x2
#define CU_MEM_POOL_CREATE_USAGE_HW_DECOMPRESS	0x2

/* CUDA_ARRAY3D_DESCRIPTOR.Flags. */
#define CUDA_ARRAY3D_LAYERED			0x01
#define CUDA_ARRAY3D_2DARRAY			0x01
#define CUDA_ARRAY3D_SURFACE_LDST		0x02
#define CUDA_ARRAY3D_CUBEMAP			0x04
#define CUDA_ARRAY3D_TEXTURE_GATHER		0x08
#define CUDA_ARRAY3D_DEPTH_TEXTURE		0x10
#define CUDA_ARRAY3D_COLOR_ATTACHMENT		0x20
#define CUDA_ARRAY3D_SPARSE			0x40
#define CUDA_ARRAY3D_DEFERRED_MAPPING		0x80
#define CUDA_ARRAY3D_VIDEO_ENCODE_DECODE	0x100

/* CUDA_ARRAY_SPARSE_PROPERTIES.flags: all layers share one mip tail. */
#define CU_ARRAY_SPARSE_PROPERTIES_SINGLE_MIPTAIL	0x1

/* External memory and semaphores. */
#define CUDA_EXTERNAL_MEMORY_DEDICATED				0x1
#define CUDA_EXTERNAL_SEMAPHORE_SIGNAL_SKIP_NVSCIBUF_MEMSYNC	0x01
#define CUDA_EXTERNAL_SEMAPHORE_WAIT_SKIP_NVSCIBUF_MEMSYNC	0x02
#define CUDA_NVSCISYNC_ATTR_SIGNAL				0x1
#define CUDA_NVSCISYNC_ATTR_WAIT				0x2

/* Texture references and objects. */
#define CU_TRSA_OVERRIDE_FORMAT			0x01
#define CU_TRSF_READ_AS_INTEGER			0x01
#define CU_TRSF_NORMALIZED_COORDINATES		0x02
#define CU_TRSF_SRGB				0x10
#define CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION	0x20
#define CU_TRSF_SEAMLESS_CUBEMAP		0x40
#define CU_PARAM_TR_DEFAULT			-1

/* Tags in the extra list of cuLaunchKernel(). */
#define CU_LAUNCH_KERNEL_REQUIRED_BLOCK_DIM	1
#define CU_LAUNCH_PARAM_END_AS_INT		0x00
#define CU_LAUNCH_PARAM_END			((void *)CU_LAUNCH_PARAM_END_AS_INT)
#define CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT	0x01
#define CU_LAUNCH_PARAM_BUFFER_POINTER		((void *)CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT)
#define CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT	0x02
#define CU_LAUNCH_PARAM_BUFFER_SIZE		((void *)CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT)

/* Bytes in an inter-process handle. */
#define CU_IPC_HANDLE_SIZE	64

/* Offsets of two families in CUjit_target. */
#define CU_COMPUTE_ACCELERATED_TARGET_BASE	0x10000
#define CU_COMPUTE_FAMILY_TARGET_BASE		0x20000

#endif /* GPUMEM_CUDA_BASE_H */
