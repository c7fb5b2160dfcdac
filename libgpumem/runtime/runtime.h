/* SPDX-License-Identifier: MIT */
/*
 * Declarations for the files of the runtime API (cuda_rt_*.c). Programs do not see them.
 *
 * The runtime API is written on top of the driver API: the files of runtime/ call the driver API's public
 * functions and no internal function of the library. So the same objects serve in libgpumem and in
 * libcudart, which binds to the libcuda that the process has loaded: there is one driver state, and
 * handles and addresses mean the same in both APIs. A memory hook that patches a function of the driver
 * sees the calls of the runtime, too.
 *
 * Most enumerations have the same numbers and most structures the same layouts in both APIs; their values
 * are passed on unchanged. The assertions of cuda_rt_check.h guard this.
 *
 * Vocabulary
 *
 *   start       cuInit(), done by the first call that needs the driver
 *   bind        make a device's primary context current in the calling thread
 *   own         stream 0 is the calling thread's own (the _ptds and _ptsz forms)
 *   generation  the major version of CUDA that programs were built with, 12 or 13. A few functions
 *               differ under the same name; cuda_rt_gen12.c and cuda_rt_gen13.c define those.
 *               Everything else is common.
 */
#ifndef GPUMEM_CUDA_RT_H
#define GPUMEM_CUDA_RT_H

#define __CUDA_API_VERSION_INTERNAL
#include "cuda.h"
/* Generation 12 declares its own functions. */
#ifdef RT_TYPES_ONLY
#include "cuda_rt_arrays.h"
#include "cuda_rt_external.h"
#else
#include "cuda_runtime_api.h"
#endif

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define rt_likely(x)	__builtin_expect(!!(x), 1)
#define rt_unlikely(x)	__builtin_expect(!!(x), 0)

/* ---- errors (cuda_rt_error.c) */

/* The runtime's code for a driver's result: the same number, if the runtime has it. */
cudaError_t rt_code_of(CUresult result);
/* Make a code the calling thread's last error; returns it. */
cudaError_t rt_fail(cudaError_t error);

static inline cudaError_t rt_code(CUresult result)
{
	return rt_likely(!result) ? cudaSuccess : rt_code_of(result);
}

/* ---- devices and contexts of threads (cuda_rt_context.c) */

#define RT_DEVICES	64		/* ordinals that are served */

/* Initialize the driver unless it is initialized. */
cudaError_t rt_start(void);
/* The same, and make a context current in the calling thread unless it has one. */
cudaError_t rt_context(void);
/* The calling thread's device; does not make a context. */
cudaError_t rt_device(int *device);
/* A device's primary context, made if it does not live; not made current. INVALID_DEVICE for an unknown device. */
cudaError_t rt_primary(CUcontext *ctx, int device);

/*
 * Return from a public function: RT_PLAIN requires nothing, RT_DRIVER a started driver, RT_CONTEXT
 * a current context. The argument is evaluated only if the requirement is met.
 */
#define RT_AFTER(first, expr)						\
	do {								\
		cudaError_t error_ = (first);				\
									\
		if (rt_likely(!error_))					\
			error_ = (expr);				\
		return rt_likely(!error_) ? cudaSuccess : rt_fail(error_);	\
	} while (0)
#define RT_PLAIN(expr)		RT_AFTER(cudaSuccess, expr)
#define RT_DRIVER(expr)		RT_AFTER(rt_start(), expr)
#define RT_CONTEXT(expr)	RT_AFTER(rt_context(), expr)

/* The legacy form of a function and the one with the calling thread's own stream. */
#define RT_BOTH(name, suffix, args, call)				\
	cudaError_t name args						\
	{								\
		const bool own = false;					\
									\
		RT_CONTEXT(call);					\
	}								\
	cudaError_t name ## suffix args					\
	{								\
		const bool own = true;					\
									\
		RT_CONTEXT(call);					\
	}
#define RT_PTDS(name, args, call)	RT_BOTH(name, _ptds, args, call)
#define RT_PTSZ(name, args, call)	RT_BOTH(name, _ptsz, args, call)
/* The driver's function in the form that "own" selects. */
#define DS(name)			(own ? name ## _ptds : name)
#define SZ(name)			(own ? name ## _ptsz : name)

static inline CUdeviceptr rt_addr(const void *ptr)
{
	return (uintptr_t)ptr;
}

static inline void *rt_ptr(CUdeviceptr addr)
{
	return (void *)(uintptr_t)addr;
}

/* ---- generations (cuda_rt_gen12.c, cuda_rt_gen13.c, cuda_rt_device.c, ...) */

/* CUDART_VERSION of the programs that this library is for. */
extern const int rt_version __attribute__((visibility("hidden")));

/* struct cudaDeviceProp of CUDA 12; CUDA 11's is the part before hostRegisterSupported. */
struct rt_prop12 {
	char name[256];
	cudaUUID_t uuid;
	char luid[8];
	unsigned int luidDeviceNodeMask;
	size_t totalGlobalMem;
	size_t sharedMemPerBlock;
	int regsPerBlock;
	int warpSize;
	size_t memPitch;
	int maxThreadsPerBlock;
	int maxThreadsDim[3];
	int maxGridSize[3];
	int clockRate;
	size_t totalConstMem;
	int major;
	int minor;
	size_t textureAlignment;
	size_t texturePitchAlignment;
	int deviceOverlap;
	int multiProcessorCount;
	int kernelExecTimeoutEnabled;
	int integrated;
	int canMapHostMemory;
	int computeMode;
	int maxTexture1D;
	int maxTexture1DMipmap;
	int maxTexture1DLinear;
	int maxTexture2D[2];
	int maxTexture2DMipmap[2];
	int maxTexture2DLinear[3];
	int maxTexture2DGather[2];
	int maxTexture3D[3];
	int maxTexture3DAlt[3];
	int maxTextureCubemap;
	int maxTexture1DLayered[2];
	int maxTexture2DLayered[3];
	int maxTextureCubemapLayered[2];
	int maxSurface1D;
	int maxSurface2D[2];
	int maxSurface3D[3];
	int maxSurface1DLayered[2];
	int maxSurface2DLayered[3];
	int maxSurfaceCubemap;
	int maxSurfaceCubemapLayered[2];
	size_t surfaceAlignment;
	int concurrentKernels;
	int ECCEnabled;
	int pciBusID;
	int pciDeviceID;
	int pciDomainID;
	int tccDriver;
	int asyncEngineCount;
	int unifiedAddressing;
	int memoryClockRate;
	int memoryBusWidth;
	int l2CacheSize;
	int persistingL2CacheMaxSize;
	int maxThreadsPerMultiProcessor;
	int streamPrioritiesSupported;
	int globalL1CacheSupported;
	int localL1CacheSupported;
	size_t sharedMemPerMultiprocessor;
	int regsPerMultiprocessor;
	int managedMemory;
	int isMultiGpuBoard;
	int multiGpuBoardGroupID;
	int hostNativeAtomicSupported;
	int singleToDoublePrecisionPerfRatio;
	int pageableMemoryAccess;
	int concurrentManagedAccess;
	int computePreemptionSupported;
	int canUseHostPointerForRegisteredMem;
	int cooperativeLaunch;
	int cooperativeMultiDeviceLaunch;
	size_t sharedMemPerBlockOptin;
	int pageableMemoryAccessUsesHostPageTables;
	int directManagedMemAccessFromHost;
	int maxBlocksPerMultiProcessor;
	int accessPolicyMaxWindowSize;
	size_t reservedSharedMemPerBlock;
	int hostRegisterSupported;
	int sparseCudaArraySupported;
	int hostRegisterReadOnlySupported;
	int timelineSemaphoreInteropSupported;
	int memoryPoolsSupported;
	int gpuDirectRDMASupported;
	unsigned int gpuDirectRDMAFlushWritesOptions;
	int gpuDirectRDMAWritesOrdering;
	unsigned int memoryPoolSupportedHandleTypes;
	int deferredMappingCudaArraySupported;
	int ipcEventSupported;
	int clusterLaunch;
	int unifiedFunctionPointers;
	int reserved[63];
};

/* The part of struct cudaPointerAttributes that CUDA 12 and 13 have in common. */
struct rt_pointer12 {
	enum cudaMemoryType type;
	int device;
	void *devicePointer;
	void *hostPointer;
};

/* Fill @bytes of a structure. */
cudaError_t rt_properties12(struct rt_prop12 *prop, size_t bytes, int device);
cudaError_t rt_properties13(struct cudaDeviceProp *prop, int device);
/* Choose the device that comes closest to a capability and an amount of memory; 0 accepts any. */
cudaError_t rt_choose(int *device, int major, int minor, size_t memory);
cudaError_t rt_pointer_attributes(struct rt_pointer12 *attributes, const void *ptr);

#endif /* GPUMEM_CUDA_RT_H */
