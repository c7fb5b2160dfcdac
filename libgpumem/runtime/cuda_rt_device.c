// SPDX-License-Identifier: MIT
/*
 * The runtime API's chapter "Device Management": properties of devices.
 *
 * Owns one constant table: which attribute of the driver fills which member of the structures of
 * properties. Generations 12 and 13 have different structures with mostly the same members.
 *
 * The functions of this file make no context.
 */
#include "runtime/runtime.h"

/*
 * Members whose value is one attribute. KEPT: both generations have the member, under the same name. OLD:
 * generation 13 dropped the member. NEW: generation 12 did not have it. Members are int, those of KEPT_W size_t.
 */
#define PROPERTIES(KEPT, KEPT_W, OLD, NEW)					\
	KEPT_W(sharedMemPerBlock, MAX_SHARED_MEMORY_PER_BLOCK)			\
	KEPT(regsPerBlock, MAX_REGISTERS_PER_BLOCK)				\
	KEPT(warpSize, WARP_SIZE)						\
	KEPT_W(memPitch, MAX_PITCH)						\
	KEPT(maxThreadsPerBlock, MAX_THREADS_PER_BLOCK)				\
	KEPT(maxThreadsDim[0], MAX_BLOCK_DIM_X)					\
	KEPT(maxThreadsDim[1], MAX_BLOCK_DIM_Y)					\
	KEPT(maxThreadsDim[2], MAX_BLOCK_DIM_Z)					\
	KEPT(maxGridSize[0], MAX_GRID_DIM_X)					\
	KEPT(maxGridSize[1], MAX_GRID_DIM_Y)					\
	KEPT(maxGridSize[2], MAX_GRID_DIM_Z)					\
	OLD(clockRate, CLOCK_RATE)						\
	KEPT_W(totalConstMem, TOTAL_CONSTANT_MEMORY)				\
	KEPT(major, COMPUTE_CAPABILITY_MAJOR)					\
	KEPT(minor, COMPUTE_CAPABILITY_MINOR)					\
	KEPT_W(textureAlignment, TEXTURE_ALIGNMENT)				\
	KEPT_W(texturePitchAlignment, TEXTURE_PITCH_ALIGNMENT)			\
	OLD(deviceOverlap, GPU_OVERLAP)						\
	KEPT(multiProcessorCount, MULTIPROCESSOR_COUNT)				\
	OLD(kernelExecTimeoutEnabled, KERNEL_EXEC_TIMEOUT)			\
	KEPT(integrated, INTEGRATED)						\
	KEPT(canMapHostMemory, CAN_MAP_HOST_MEMORY)				\
	OLD(computeMode, COMPUTE_MODE)						\
	KEPT(maxTexture1D, MAXIMUM_TEXTURE1D_WIDTH)				\
	KEPT(maxTexture1DMipmap, MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH)		\
	OLD(maxTexture1DLinear, MAXIMUM_TEXTURE1D_LINEAR_WIDTH)			\
	KEPT(maxTexture2D[0], MAXIMUM_TEXTURE2D_WIDTH)				\
	KEPT(maxTexture2D[1], MAXIMUM_TEXTURE2D_HEIGHT)				\
	KEPT(maxTexture2DMipmap[0], MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH)		\
	KEPT(maxTexture2DMipmap[1], MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT)		\
	KEPT(maxTexture2DLinear[0], MAXIMUM_TEXTURE2D_LINEAR_WIDTH)		\
	KEPT(maxTexture2DLinear[1], MAXIMUM_TEXTURE2D_LINEAR_HEIGHT)		\
	KEPT(maxTexture2DLinear[2], MAXIMUM_TEXTURE2D_LINEAR_PITCH)		\
	KEPT(maxTexture2DGather[0], MAXIMUM_TEXTURE2D_GATHER_WIDTH)		\
	KEPT(maxTexture2DGather[1], MAXIMUM_TEXTURE2D_GATHER_HEIGHT)		\
	KEPT(maxTexture3D[0], MAXIMUM_TEXTURE3D_WIDTH)				\
	KEPT(maxTexture3D[1], MAXIMUM_TEXTURE3D_HEIGHT)				\
	KEPT(maxTexture3D[2], MAXIMUM_TEXTURE3D_DEPTH)				\
	KEPT(maxTexture3DAlt[0], MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE)		\
	KEPT(maxTexture3DAlt[1], MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE)		\
	KEPT(maxTexture3DAlt[2], MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE)		\
	KEPT(maxTextureCubemap, MAXIMUM_TEXTURECUBEMAP_WIDTH)			\
	KEPT(maxTexture1DLayered[0], MAXIMUM_TEXTURE1D_LAYERED_WIDTH)		\
	KEPT(maxTexture1DLayered[1], MAXIMUM_TEXTURE1D_LAYERED_LAYERS)		\
	KEPT(maxTexture2DLayered[0], MAXIMUM_TEXTURE2D_LAYERED_WIDTH)		\
	KEPT(maxTexture2DLayered[1], MAXIMUM_TEXTURE2D_LAYERED_HEIGHT)		\
	KEPT(maxTexture2DLayered[2], MAXIMUM_TEXTURE2D_LAYERED_LAYERS)		\
	KEPT(maxTextureCubemapLayered[0], MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH)	\
	KEPT(maxTextureCubemapLayered[1], MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS)	\
	KEPT(maxSurface1D, MAXIMUM_SURFACE1D_WIDTH)				\
	KEPT(maxSurface2D[0], MAXIMUM_SURFACE2D_WIDTH)				\
	KEPT(maxSurface2D[1], MAXIMUM_SURFACE2D_HEIGHT)				\
	KEPT(maxSurface3D[0], MAXIMUM_SURFACE3D_WIDTH)				\
	KEPT(maxSurface3D[1], MAXIMUM_SURFACE3D_HEIGHT)				\
	KEPT(maxSurface3D[2], MAXIMUM_SURFACE3D_DEPTH)				\
	KEPT(maxSurface1DLayered[0], MAXIMUM_SURFACE1D_LAYERED_WIDTH)		\
	KEPT(maxSurface1DLayered[1], MAXIMUM_SURFACE1D_LAYERED_LAYERS)		\
	KEPT(maxSurface2DLayered[0], MAXIMUM_SURFACE2D_LAYERED_WIDTH)		\
	KEPT(maxSurface2DLayered[1], MAXIMUM_SURFACE2D_LAYERED_HEIGHT)		\
	KEPT(maxSurface2DLayered[2], MAXIMUM_SURFACE2D_LAYERED_LAYERS)		\
	KEPT(maxSurfaceCubemap, MAXIMUM_SURFACECUBEMAP_WIDTH)			\
	KEPT(maxSurfaceCubemapLayered[0], MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH)	\
	KEPT(maxSurfaceCubemapLayered[1], MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS)	\
	KEPT_W(surfaceAlignment, SURFACE_ALIGNMENT)				\
	KEPT(concurrentKernels, CONCURRENT_KERNELS)				\
	KEPT(ECCEnabled, ECC_ENABLED)						\
	KEPT(pciBusID, PCI_BUS_ID)						\
	KEPT(pciDeviceID, PCI_DEVICE_ID)					\
	KEPT(pciDomainID, PCI_DOMAIN_ID)					\
	KEPT(tccDriver, TCC_DRIVER)						\
	KEPT(asyncEngineCount, ASYNC_ENGINE_COUNT)				\
	KEPT(unifiedAddressing, UNIFIED_ADDRESSING)				\
	OLD(memoryClockRate, MEMORY_CLOCK_RATE)					\
	KEPT(memoryBusWidth, GLOBAL_MEMORY_BUS_WIDTH)				\
	KEPT(l2CacheSize, L2_CACHE_SIZE)					\
	KEPT(persistingL2CacheMaxSize, MAX_PERSISTING_L2_CACHE_SIZE)		\
	KEPT(maxThreadsPerMultiProcessor, MAX_THREADS_PER_MULTIPROCESSOR)	\
	KEPT(streamPrioritiesSupported, STREAM_PRIORITIES_SUPPORTED)		\
	KEPT(globalL1CacheSupported, GLOBAL_L1_CACHE_SUPPORTED)			\
	KEPT(localL1CacheSupported, LOCAL_L1_CACHE_SUPPORTED)			\
	KEPT_W(sharedMemPerMultiprocessor, MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)	\
	KEPT(regsPerMultiprocessor, MAX_REGISTERS_PER_MULTIPROCESSOR)		\
	KEPT(managedMemory, MANAGED_MEMORY)					\
	KEPT(isMultiGpuBoard, MULTI_GPU_BOARD)					\
	KEPT(multiGpuBoardGroupID, MULTI_GPU_BOARD_GROUP_ID)			\
	KEPT(hostNativeAtomicSupported, HOST_NATIVE_ATOMIC_SUPPORTED)		\
	OLD(singleToDoublePrecisionPerfRatio, SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO)	\
	KEPT(pageableMemoryAccess, PAGEABLE_MEMORY_ACCESS)			\
	KEPT(concurrentManagedAccess, CONCURRENT_MANAGED_ACCESS)		\
	KEPT(computePreemptionSupported, COMPUTE_PREEMPTION_SUPPORTED)		\
	KEPT(canUseHostPointerForRegisteredMem, CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM)	\
	KEPT(cooperativeLaunch, COOPERATIVE_LAUNCH)				\
	OLD(cooperativeMultiDeviceLaunch, COOPERATIVE_MULTI_DEVICE_LAUNCH)	\
	KEPT_W(sharedMemPerBlockOptin, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)	\
	KEPT(pageableMemoryAccessUsesHostPageTables,				\
	     PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES)			\
	KEPT(directManagedMemAccessFromHost, DIRECT_MANAGED_MEM_ACCESS_FROM_HOST)	\
	KEPT(maxBlocksPerMultiProcessor, MAX_BLOCKS_PER_MULTIPROCESSOR)		\
	KEPT(accessPolicyMaxWindowSize, MAX_ACCESS_POLICY_WINDOW_SIZE)		\
	KEPT_W(reservedSharedMemPerBlock, RESERVED_SHARED_MEMORY_PER_BLOCK)	\
	KEPT(hostRegisterSupported, HOST_REGISTER_SUPPORTED)			\
	KEPT(sparseCudaArraySupported, SPARSE_CUDA_ARRAY_SUPPORTED)		\
	KEPT(hostRegisterReadOnlySupported, READ_ONLY_HOST_REGISTER_SUPPORTED)	\
	KEPT(timelineSemaphoreInteropSupported, TIMELINE_SEMAPHORE_INTEROP_SUPPORTED)	\
	KEPT(memoryPoolsSupported, MEMORY_POOLS_SUPPORTED)			\
	KEPT(gpuDirectRDMASupported, GPU_DIRECT_RDMA_SUPPORTED)			\
	KEPT(gpuDirectRDMAFlushWritesOptions, GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS)	\
	KEPT(gpuDirectRDMAWritesOrdering, GPU_DIRECT_RDMA_WRITES_ORDERING)	\
	KEPT(memoryPoolSupportedHandleTypes, MEMPOOL_SUPPORTED_HANDLE_TYPES)	\
	KEPT(deferredMappingCudaArraySupported, DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED)	\
	KEPT(ipcEventSupported, IPC_EVENT_SUPPORTED)				\
	KEPT(clusterLaunch, CLUSTER_LAUNCH)					\
	KEPT(unifiedFunctionPointers, UNIFIED_FUNCTION_POINTERS)		\
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
#define KEPT(m, a)		ROW(a, OFFSET12(m), OFFSET13(m), false)
#define KEPT_W(m, a)		ROW(a, OFFSET12(m), OFFSET13(m), true)
#define OLD(m, a)		ROW(a, OFFSET12(m), NONE, false)
#define NEW(m, a)		ROW(a, NONE, OFFSET13(m), false)
	PROPERTIES(KEPT, KEPT_W, OLD, NEW)
};

static void put(void *prop, unsigned int offset, bool wide, int value)
{
	size_t size = (unsigned int)value;

	if (wide)
		memcpy((char *)prop + offset, &size, sizeof(size));
	else
		memcpy((char *)prop + offset, &value, sizeof(value));
}

/* Fill in the members that come from attributes, and name, uuid and totalGlobalMem. Others become 0. */
static cudaError_t properties_fill(void *prop, size_t bytes, bool old, int device)
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
		/* A driver that is older than the attribute does not know it. */
		if (!cuDeviceGetAttribute(&value, (CUdevice_attribute)p->attribute, device))
			put(prop, offset, p->wide, value);
	}
	return cudaSuccess;
}

cudaError_t rt_properties12(struct rt_prop12 *prop, size_t bytes, int device)
{
	return prop ? properties_fill(prop, bytes, true, device) : cudaErrorInvalidValue;
}

cudaError_t rt_properties13(struct cudaDeviceProp *prop, int device)
{
	return prop ? properties_fill(prop, sizeof(*prop), false, device) : cudaErrorInvalidValue;
}

/* No header of generation 13 declares this function: programs of generation 12 call it. */
__attribute__((visibility("default")))
cudaError_t cudaGetDeviceProperties_v2(struct rt_prop12 *prop, int device);

/**
 * cudaGetDeviceProperties_v2 - properties and capabilities of a device, in CUDA 12's structure
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
 * Return: cudaErrorNoDevice if no device is visible; *count is not written then.
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

/** cudaDeviceGetByPCIBusId - the device with this bus id; cudaErrorInvalidDevice if there is none */
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
