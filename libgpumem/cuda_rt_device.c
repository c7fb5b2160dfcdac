// SPDX-License-Identifier: MIT
/*
 * The runtime API's chapter "Device Management", as far as it is about what devices are.
 *
 * Owns one constant table: which attribute of the driver's goes to which member of the structures
 * of properties. Generation 12 and 13 have structures of their own with mostly the same members.
 *
 * Nothing here makes a context.
 */
#include "cuda_rt.h"

/*
 * Members that are one attribute: BOTH have it under the same name, OLD has what 13 dropped, NEW
 * what 12 did not have. Attributes are int; W members are size_t.
 */
#define PROPERTIES(BOTH, BOTH_W, OLD, NEW)					\
	BOTH_W(sharedMemPerBlock, MAX_SHARED_MEMORY_PER_BLOCK)			\
	BOTH(regsPerBlock, MAX_REGISTERS_PER_BLOCK)				\
	BOTH(warpSize, WARP_SIZE)						\
	BOTH_W(memPitch, MAX_PITCH)						\
	BOTH(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK)				\
	BOTH(maxThreadsDim[0], MAX_BLOCK_DIM_X)					\
	BOTH(maxThreadsDim[1], MAX_BLOCK_DIM_Y)					\
	BOTH(maxThreadsDim[2], MAX_BLOCK_DIM_Z)					\
	BOTH(maxGridSize[0], MAX_GRID_DIM_X)					\
	BOTH(maxGridSize[1], MAX_GRID_DIM_Y)					\
	BOTH(maxGridSize[2], MAX_GRID_DIM_Z)					\
	OLD(clockRate, CLOCK_RATE)						\
	BOTH_W(totalConstMem, TOTAL_CONSTANT_MEMORY)				\
	BOTH(major, COMPUTE_CAPABILITY_MAJOR)					\
	BOTH(minor, COMPUTE_CAPABILITY_MINOR)					\
	BOTH_W(textureAlignment, TEXTURE_ALIGNMENT)				\
	BOTH_W(texturePitchAlignment, TEXTURE_PITCH_ALIGNMENT)			\
	OLD(deviceOverlap, GPU_OVERLAP)						\
	BOTH(multiProcessorCount, MULTIPROCESSOR_COUNT)				\
	OLD(kernelExecTimeoutEnabled, KERNEL_EXEC_TIMEOUT)			\
	BOTH(integrated, INTEGRATED)						\
	BOTH(canMapHostMemory, CAN_MAP_HOST_MEMORY)				\
	OLD(computeMode, COMPUTE_MODE)						\
	BOTH(maxTexture1D, MAXIMUM_TEXTURE1D_WIDTH)				\
	BOTH(maxTexture1DMipmap, MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH)		\
	OLD(maxTexture1DLinear, MAXIMUM_TEXTURE1D_LINEAR_WIDTH)			\
	BOTH(maxTexture2D[0], MAXIMUM_TEXTURE2D_WIDTH)				\
	BOTH(maxTexture2D[1], MAXIMUM_TEXTURE2D_HEIGHT)				\
	BOTH(maxTexture2DMipmap[0], MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH)		\
	BOTH(maxTexture2DMipmap[1], MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT)		\
	BOTH(maxTexture2DLinear[0], MAXIMUM_TEXTURE2D_LINEAR_WIDTH)		\
	BOTH(maxTexture2DLinear[1], MAXIMUM_TEXTURE2D_LINEAR_HEIGHT)		\
	BOTH(maxTexture2DLinear[2], MAXIMUM_TEXTURE2D_LINEAR_PITCH)		\
	BOTH(maxTexture2DGather[0], MAXIMUM_TEXTURE2D_GATHER_WIDTH)		\
	BOTH(maxTexture2DGather[1], MAXIMUM_TEXTURE2D_GATHER_HEIGHT)		\
	BOTH(maxTexture3D[0], MAXIMUM_TEXTURE3D_WIDTH)				\
	BOTH(maxTexture3D[1], MAXIMUM_TEXTURE3D_HEIGHT)				\
	BOTH(maxTexture3D[2], MAXIMUM_TEXTURE3D_DEPTH)				\
	BOTH(maxTexture3DAlt[0], MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE)		\
	BOTH(maxTexture3DAlt[1], MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE)		\
	BOTH(maxTexture3DAlt[2], MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE)		\
	BOTH(maxTextureCubemap, MAXIMUM_TEXTURECUBEMAP_WIDTH)			\
	BOTH(maxTexture1DLayered[0], MAXIMUM_TEXTURE1D_LAYERED_WIDTH)		\
	BOTH(maxTexture1DLayered[1], MAXIMUM_TEXTURE1D_LAYERED_LAYERS)		\
	BOTH(maxTexture2DLayered[0], MAXIMUM_TEXTURE2D_LAYERED_WIDTH)		\
	BOTH(maxTexture2DLayered[1], MAXIMUM_TEXTURE2D_LAYERED_HEIGHT)		\
	BOTH(maxTexture2DLayered[2], MAXIMUM_TEXTURE2D_LAYERED_LAYERS)		\
	BOTH(maxTextureCubemapLayered[0], MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH)	\
	BOTH(maxTextureCubemapLayered[1], MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS)	\
	BOTH(maxSurface1D, MAXIMUM_SURFACE1D_WIDTH)				\
	BOTH(maxSurface2D[0], MAXIMUM_SURFACE2D_WIDTH)				\
	BOTH(maxSurface2D[1], MAXIMUM_SURFACE2D_HEIGHT)				\
	BOTH(maxSurface3D[0], MAXIMUM_SURFACE3D_WIDTH)				\
	BOTH(maxSurface3D[1], MAXIMUM_SURFACE3D_HEIGHT)				\
	BOTH(maxSurface3D[2], MAXIMUM_SURFACE3D_DEPTH)				\
	BOTH(maxSurface1DLayered[0], MAXIMUM_SURFACE1D_LAYERED_WIDTH)		\
	BOTH(maxSurface1DLayered[1], MAXIMUM_SURFACE1D_LAYERED_LAYERS)		\
	BOTH(maxSurface2DLayered[0], MAXIMUM_SURFACE2D_LAYERED_WIDTH)		\
	BOTH(maxSurface2DLayered[1], MAXIMUM_SURFACE2D_LAYERED_HEIGHT)		\
	BOTH(maxSurface2DLayered[2], MAXIMUM_SURFACE2D_LAYERED_LAYERS)		\
	BOTH(maxSurfaceCubemap, MAXIMUM_SURFACECUBEMAP_WIDTH)			\
	BOTH(maxSurfaceCubemapLayered[0], MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH)	\
	BOTH(maxSurfaceCubemapLayered[1], MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS)	\
	BOTH_W(surfaceAlignment, SURFACE_ALIGNMENT)				\
	BOTH(concurrentKernels, CONCURRENT_KERNELS)				\
	BOTH(ECCEnabled, ECC_ENABLED)						\
	BOTH(pciBusID, PCI_BUS_ID)						\
	BOTH(pciDeviceID, PCI_DEVICE_ID)					\
	BOTH(pciDomainID, PCI_DOMAIN_ID)					\
	BOTH(tccDriver, TCC_DRIVER)						\
	BOTH(asyncEngineCount, ASYNC_ENGINE_COUNT)				\
	BOTH(unifiedAddressing, UNIFIED_ADDRESSING)				\
	OLD(memoryClockRate, MEMORY_CLOCK_RATE)					\
	BOTH(memoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH)				\
	BOTH(l2CacheSize, L2_CACHE_SIZE)					\
	BOTH(persistingL2CacheMaxSize, MAX_PERSISTING_L2_CACHE_SIZE)		\
	BOTH(maxThreadsPerMultiProcessor, MAX_THREADS_PER_MULTIPROCESSOR)	\
	BOTH(streamPrioritiesSupported, STREAM_PRIORITIES_SUPPORTED)		\
	BOTH(globalL1CacheSupported, GLOBAL_L1_CACHE_SUPPORTED)			\
	BOTH(localL1CacheSupported, LOCAL_L1_CACHE_SUPPORTED)			\
	BOTH_W(sharedMemPerMultiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)	\
	BOTH(regsPerMultiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR)		\
	BOTH(managedMemory, MANAGED_MEMORY)					\
	BOTH(isMultiGpuBoard, MULTI_GPU_BOARD)					\
	BOTH(multiGpuBoardGroupID, MULTI_GPU_BOARD_GROUP_ID)			\
	BOTH(hostNativeAtomicSupported, HOST_NATIVE_ATOMIC_SUPPORTED)		\
	OLD(singleToDoublePrecisionPerfRatio, SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO)	\
	BOTH(pageableMemoryAccess, PAGEABLE_MEMORY_ACCESS)			\
	BOTH(concurrentManagedAccess, CONCURRENT_MANAGED_ACCESS)		\
	BOTH(computePreemptionSupported, COMPUTE_PREEMPTION_SUPPORTED)		\
	BOTH(canUseHostPointerForRegisteredMem, CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM)	\
	BOTH(cooperativeLaunch, COOPERATIVE_LAUNCH)				\
	OLD(cooperativeMultiDeviceLaunch, COOPERATIVE_MULTI_DEVICE_LAUNCH)	\
	BOTH_W(sharedMemPerBlockOptin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)	\
	BOTH(pageableMemoryAccessUsesHostPageTables,				\
	     PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES)			\
	BOTH(directManagedMemAccessFromHost, DIRECT_MANAGED_MEM_ACCESS_FROM_HOST)	\
	BOTH(maxBlocksPerMultiProcessor, MAX_BLOCKS_PER_MULTIPROCESSOR)		\
	BOTH(accessPolicyMaxWindowSize, MAX_ACCESS_POLICY_WINDOW_SIZE)		\
	BOTH_W(reservedSharedMemPerBlock, RESERVED_SHARED_MEMORY_PER_BLOCK)	\
	BOTH(hostRegisterSupported, HOST_REGISTER_SUPPORTED)			\
	BOTH(sparseCudaArraySupported, SPARSE_CUDA_ARRAY_SUPPORTED)		\
	BOTH(hostRegisterReadOnlySupported, READ_ONLY_HOST_REGISTER_SUPPORTED)	\
	BOTH(timelineSemaphoreInteropSupported, TIMELINE_SEMAPHORE_INTEROP_SUPPORTED)	\
	BOTH(memoryPoolsSupported, MEMORY_POOLS_SUPPORTED)			\
	BOTH(gpuDirectRDMASupported, GPU_DIRECT_RDMA_SUPPORTED)			\
	BOTH(gpuDirectRDMAFlushWritesOptions, GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS)	\
	BOTH(gpuDirectRDMAWritesOrdering, GPU_DIRECT_RDMA_WRITES_ORDERING)	\
	BOTH(memoryPoolSupportedHandleTypes, MEMPOOL_SUPPORTED_HANDLE_TYPES)	\
	BOTH(deferredMappingCudaArraySupported, DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED)	\
	BOTH(ipcEventSupported, IPC_EVENT_SUPPORTED)				\
	BOTH(clusterLaunch, CLUSTER_LAUNCH)					\
	BOTH(unifiedFunctionPointers, UNIFIED_FUNCTION_POINTERS)		\
	NEW(deviceNumaConfig, NUMA_CONFIG)					\
	NEW(deviceNumaId, NUMA_ID)						\
	NEW(mpsEnabled, MPS_ENABLED)						\
	NEW(hostNumaId, HOST_NUMA_ID)						\
	NEW(gpuPciDeviceID, GPU_PCI_DEVICE_ID)					\
	NEW(gpuPciSubsystemID, GPU_PCI_SUBSYSTEM_ID)				\
	NEW(hostNumaMultinodeIpcSupported, HOST_NUMA_MULTINODE_IPC_SUPPORTED)

#define NONE		UINT16_MAX
#define OFFSET12(m)	offsetof(struct rt_prop12, m)
#define OFFSET13(m)	offsetof(struct cudaDeviceProp, m)

static const struct property {
	uint16_t attribute, offset12, offset13;
	bool wide;
} properties[] = {
#define ROW(a, old, new, w)	{ CU_DEVICE_ATTRIBUTE_ ## a, old, new, w },
#define BOTH(m, a)		ROW(a, OFFSET12(m), OFFSET13(m), false)
#define BOTH_W(m, a)		ROW(a, OFFSET12(m), OFFSET13(m), true)
#define OLD(m, a)		ROW(a, OFFSET12(m), NONE, false)
#define NEW(m, a)		ROW(a, NONE, OFFSET13(m), false)
	PROPERTIES(BOTH, BOTH_W, OLD, NEW)
};

static void put(void *prop, unsigned int offset, bool wide, int value)
{
	size_t size = (unsigned int)value;

	if (wide)
		memcpy((char *)prop + offset, &size, sizeof(size));
	else
		memcpy((char *)prop + offset, &value, sizeof(value));
}

/* The members from attributes, and what both structures begin with. */
static cudaError_t fill(void *prop, size_t bytes, bool old, int device)
{
	char *name = (char *)prop + offsetof(struct cudaDeviceProp, name);
	CUuuid uuid;
	size_t total;
	CUresult result;

	memset(prop, 0, bytes);
	result = cuDeviceGetName(name, sizeof(((struct cudaDeviceProp *)0)->name), device);
	if (!result)
		result = cuDeviceGetUuid_v2(&uuid, device);
	if (!result)
		result = cuDeviceTotalMem_v2(&total, device);
	if (result)
		return rt_code(result);
	memcpy((char *)prop + offsetof(struct cudaDeviceProp, uuid), &uuid, sizeof(uuid));
	memcpy((char *)prop + offsetof(struct cudaDeviceProp, totalGlobalMem), &total,
	       sizeof(total));
	for (size_t i = 0; i < sizeof(properties) / sizeof(properties[0]); i++) {
		const struct property *p = &properties[i];
		unsigned int offset = old ? p->offset12 : p->offset13;
		int value = 0;

		if (offset == NONE || offset >= bytes)
			continue;
		/* A driver that is older than the attribute has none of it. */
		if (!cuDeviceGetAttribute(&value, (CUdevice_attribute)p->attribute, device))
			put(prop, offset, p->wide, value);
	}
	return cudaSuccess;
}

cudaError_t rt_properties12(struct rt_prop12 *prop, size_t bytes, int device)
{
	return prop ? fill(prop, bytes, true, device) : cudaErrorInvalidValue;
}

cudaError_t rt_properties13(struct cudaDeviceProp *prop, int device)
{
	return prop ? fill(prop, sizeof(*prop), false, device) : cudaErrorInvalidValue;
}

/* Declared by no header of generation 13: programs of generation 12 ask for it. */
__attribute__((visibility("default")))
cudaError_t cudaGetDeviceProperties_v2(struct rt_prop12 *prop, int device);

/**
 * cudaGetDeviceProperties_v2 - what a device is and can, as CUDA 12 has it
 *
 * Return: cudaErrorInvalidDevice, cudaErrorInvalidValue.
 */
cudaError_t cudaGetDeviceProperties_v2(struct rt_prop12 *prop, int device)
{
	RT_DRIVER(rt_properties12(prop, sizeof(*prop), device));
}

cudaError_t rt_choose(int *device, int major, int minor, size_t memory)
{
	int count = 0, best = -1;
	cudaError_t error = rt_code(cuDeviceGetCount(&count));

	if (!error && !device)
		error = cudaErrorInvalidValue;
	for (int d = 0; !error && d < count; d++) {
		int has_major, has_minor, points;
		size_t total;

		error = rt_code(cuDeviceComputeCapability(&has_major, &has_minor, d));
		if (!error)
			error = rt_code(cuDeviceTotalMem_v2(&total, d));
		if (error)
			break;
		points = has_major > major || (has_major == major && has_minor >= minor);
		points += total >= memory;
		if (points > best) {
			best = points;
			*device = d;
		}
	}
	return error;
}

static cudaError_t get_count(int *count)
{
	return count ? rt_code(cuDeviceGetCount(count)) : cudaErrorInvalidValue;
}

/**
 * cudaGetDeviceCount - how many devices are visible
 *
 * Return: cudaErrorNoDevice if none is, and *count stays.
 */
cudaError_t cudaGetDeviceCount(int *count)
{
	RT_DRIVER(get_count(count));
}

/** cudaDeviceGetAttribute - one number about a device; cudaErrorInvalidDevice */
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
	RT_DRIVER(rt_code(cuDeviceGetAttribute(value, (CUdevice_attribute)attribute, device)));
}

/** cudaDeviceGetPCIBusId - "dddd:bb:dd.f"; @size is 13 or more */
cudaError_t cudaDeviceGetPCIBusId(char *bus_id, int size, int device)
{
	RT_DRIVER(rt_code(cuDeviceGetPCIBusId(bus_id, size, device)));
}

/** cudaDeviceGetByPCIBusId - the device with such an id; cudaErrorInvalidDevice */
cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *bus_id)
{
	RT_DRIVER(rt_code(cuDeviceGetByPCIBusId(device, bus_id)));
}

/** cudaDeviceGetP2PAttribute - one number about a pair of devices; cudaErrorInvalidDevice */
cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attribute, int src_device,
				      int dst_device)
{
	RT_DRIVER(rt_code(cuDeviceGetP2PAttribute(value, (CUdevice_P2PAttribute)attribute,
						  src_device, dst_device)));
}

/** cudaDeviceRegisterAsyncNotification - as cuDeviceRegisterAsyncNotification() */
cudaError_t cudaDeviceRegisterAsyncNotification(int device, cudaAsyncCallback function,
						void *user_data,
						cudaAsyncCallbackHandle_t *callback)
{
	RT_DRIVER(rt_code(cuDeviceRegisterAsyncNotification(device, (CUasyncCallback)function,
							    user_data,
							    (CUasyncCallbackHandle *)callback)));
}

/** cudaDeviceUnregisterAsyncNotification - as cuDeviceUnregisterAsyncNotification() */
cudaError_t cudaDeviceUnregisterAsyncNotification(int device, cudaAsyncCallbackHandle_t callback)
{
	RT_DRIVER(rt_code(cuDeviceUnregisterAsyncNotification(device,
							      (CUasyncCallbackHandle)callback)));
}
