/* SPDX-License-Identifier: MIT */
/*
 * External memory and semaphores: types of the CUDA runtime API.
 *
 * Handles are those of the driver API, and numbers and layouts are the same. Reserved members must be zero.
 * Include cuda_runtime_api.h, not this file.
 */
#ifndef GPUMEM_CUDA_RT_EXTERNAL_H
#define GPUMEM_CUDA_RT_EXTERNAL_H

#include "cuda_rt_types.h"

typedef struct CUexternalMemory_st *cudaExternalMemory_t;
typedef struct CUexternalSemaphore_st *cudaExternalSemaphore_t;

#define cudaExternalMemoryDedicated			0x1
#define cudaExternalSemaphoreSignalSkipNvSciBufMemSync	0x01
#define cudaExternalSemaphoreWaitSkipNvSciBufMemSync	0x02

enum cudaExternalMemoryHandleType {
	cudaExternalMemoryHandleTypeOpaqueFd		= 1,
	cudaExternalMemoryHandleTypeOpaqueWin32		= 2,
	cudaExternalMemoryHandleTypeOpaqueWin32Kmt	= 3,
	cudaExternalMemoryHandleTypeD3D12Heap		= 4,
	cudaExternalMemoryHandleTypeD3D12Resource	= 5,
	cudaExternalMemoryHandleTypeD3D11Resource	= 6,
	cudaExternalMemoryHandleTypeD3D11ResourceKmt	= 7,
	cudaExternalMemoryHandleTypeNvSciBuf		= 8,
};

/* A successful import of an opaque descriptor closes it. */
struct cudaExternalMemoryHandleDesc {
	enum cudaExternalMemoryHandleType type;
	union {
		int fd;
		struct {
			void *handle;
			const void *name;
		} win32;
		const void *nvSciBufObject;
	} handle;
	unsigned long long size;
	unsigned int flags;
	unsigned int reserved[16];
};

/* A range of external memory, in bytes. */
struct cudaExternalMemoryBufferDesc {
	unsigned long long offset;
	unsigned long long size;
	unsigned int flags;
	unsigned int reserved[16];
};

/* An image in external memory. */
struct cudaExternalMemoryMipmappedArrayDesc {
	unsigned long long offset;
	struct cudaChannelFormatDesc formatDesc;
	struct cudaExtent extent;
	unsigned int flags;
	unsigned int numLevels;
	unsigned int reserved[16];
};

enum cudaExternalSemaphoreHandleType {
	cudaExternalSemaphoreHandleTypeOpaqueFd			= 1,
	cudaExternalSemaphoreHandleTypeOpaqueWin32		= 2,
	cudaExternalSemaphoreHandleTypeOpaqueWin32Kmt		= 3,
	cudaExternalSemaphoreHandleTypeD3D12Fence		= 4,
	cudaExternalSemaphoreHandleTypeD3D11Fence		= 5,
	cudaExternalSemaphoreHandleTypeNvSciSync		= 6,
	cudaExternalSemaphoreHandleTypeKeyedMutex		= 7,
	cudaExternalSemaphoreHandleTypeKeyedMutexKmt		= 8,
	cudaExternalSemaphoreHandleTypeTimelineSemaphoreFd	= 9,
	cudaExternalSemaphoreHandleTypeTimelineSemaphoreWin32	= 10,
};

/* A successful import closes the descriptor. */
struct cudaExternalSemaphoreHandleDesc {
	enum cudaExternalSemaphoreHandleType type;
	union {
		int fd;
		struct {
			void *handle;
			const void *name;
		} win32;
		const void *nvSciSyncObj;
	} handle;
	unsigned int flags;
	unsigned int reserved[16];
};

/* The value that a signal stores in a timeline semaphore. */
struct cudaExternalSemaphoreSignalParams {
	struct {
		struct {
			unsigned long long value;
		} fence;
		union {
			void *fence;
			unsigned long long reserved;
		} nvSciSync;
		struct {
			unsigned long long key;
		} keyedMutex;
		unsigned int reserved[12];
	} params;
	unsigned int flags;
	unsigned int reserved[16];
};

/* The value of a timeline semaphore that a wait waits for. */
struct cudaExternalSemaphoreWaitParams {
	struct {
		struct {
			unsigned long long value;
		} fence;
		union {
			void *fence;
			unsigned long long reserved;
		} nvSciSync;
		struct {
			unsigned long long key;
			unsigned int timeoutMs;
		} keyedMutex;
		unsigned int reserved[10];
	} params;
	unsigned int flags;
	unsigned int reserved[16];
};

#endif /* GPUMEM_CUDA_RT_EXTERNAL_H */
