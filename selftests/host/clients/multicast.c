// SPDX-License-Identifier: GPL-2.0
// Multicast objects and logical endpoints: every function, and the types of pointers to some.
#include <cuda.h>
#include <cudaTypedefs.h>
#include <string.h>

static int multicast(CUdevice device, CUmemGenericAllocationHandle memory, CUdeviceptr ptr)
{
	CUmemGenericAllocationHandle object;
	CUmulticastObjectProp prop;
	size_t size = 0;

	memset(&prop, 0, sizeof(prop));
	prop.numDevices = 2;
	prop.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	if (cuMulticastGetGranularity(&size, &prop, CU_MULTICAST_GRANULARITY_MINIMUM) ||
	    cuMulticastGetGranularity(&size, &prop, CU_MULTICAST_GRANULARITY_RECOMMENDED))
		return 1;
	prop.size = size;
	if (cuMulticastCreate(&object, &prop) || cuMulticastAddDevice(object, device) ||
	    cuMulticastBindMem(object, 0, memory, 0, size, 0) ||
	    cuMulticastUnbind(object, device, 0, size) || cuMulticastBindAddr(object, 0, ptr, size, 0))
		return 1;
#if CUDA_VERSION >= 13010
	if (cuMulticastBindMem_v2(object, device, 0, memory, 0, size, 0) ||
	    cuMulticastBindAddr_v2(object, device, 0, ptr, size, 0))
		return 1;
#endif
	return cuMemRelease(object) != CUDA_SUCCESS;
}

/* The name means another form from CUDA 13.1 on. */
static int by_name(CUmemGenericAllocationHandle object, CUmemGenericAllocationHandle memory)
{
	PFN_cuMulticastBindMem_v12010 old;
#if CUDA_VERSION >= 13010
	PFN_cuMulticastBindMem_v13010 now;

	if (cuGetProcAddress("cuMulticastBindMem", (void **)&now, 13010, 0, NULL) ||
	    now(object, 0, 0, memory, 0, 2 << 20, 0))
		return 1;
#endif
	return cuGetProcAddress("cuMulticastBindMem", (void **)&old, 12010, 0, NULL) ||
	       old(object, 0, memory, 0, 2 << 20, 0);
}

#if CUDA_VERSION >= 13030
static int endpoints(CUdevice device, CUmemGenericAllocationHandle memory, void *ptr)
{
	PFN_cuLogicalEndpointQuery_v13030 query = cuLogicalEndpointQuery;
	CUlogicalEndpointFabricHandle handle;
	CUlogicalEndpointProp prop;
	CUlogicalEndpointId id;
	cuuint64_t alignment, max;
	int ready;

	memset(&prop, 0, sizeof(prop));
	prop.type = CU_LOGICAL_ENDPOINT_TYPE_UNICAST;
	prop.unicast.device = device;
	prop.ipcHandleTypes = CU_LOGICAL_ENDPOINT_IPC_HANDLE_TYPE_FABRIC;
	prop.flags = CU_LOGICAL_ENDPOINT_FLAG_COUNTED_OPS;
	if (cuLogicalEndpointGetLimits(&alignment, &max, &prop) || cuLogicalEndpointIdReserve(&id, 3))
		return 1;
	prop.size = alignment;
	if (cuLogicalEndpointCreate(id, &prop))
		return 1;
	prop.type = CU_LOGICAL_ENDPOINT_TYPE_MULTICAST;
	prop.multicast.numDevices = 2;
	if (cuLogicalEndpointCreate(id + 1, &prop) || cuLogicalEndpointAddDevice(id + 1, device) ||
	    query(id, 2, &ready) || !ready ||
	    cuLogicalEndpointExport(&handle, id, CU_LOGICAL_ENDPOINT_IPC_HANDLE_TYPE_FABRIC) ||
	    cuLogicalEndpointImport(id + 2, &handle, CU_LOGICAL_ENDPOINT_IPC_HANDLE_TYPE_FABRIC))
		return 1;
	return cuLogicalEndpointBindMem(id, device, 0, memory, 0, alignment, 0) ||
	       cuLogicalEndpointBindAddr(id + 1, device, 0, ptr, alignment, 0) ||
	       cuLogicalEndpointUnbind(id, device, 0, alignment) || cuLogicalEndpointDestroy(id) ||
	       cuLogicalEndpointIdRelease(id, 3);
}
#endif

int main(void)
{
	if (cuInit(0) || multicast(0, 0, 0) || by_name(0, 0))
		return 1;
#if CUDA_VERSION >= 13030
	return endpoints(0, 0, NULL);
#else
	return 0;
#endif
}
