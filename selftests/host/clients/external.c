// SPDX-License-Identifier: GPL-2.0
/* Memory that the driver API exports, imported with the runtime API as external memory. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <string.h>

static void *import(int fd, size_t size)
{
	struct cudaExternalMemoryHandleDesc handle;
	struct cudaExternalMemoryBufferDesc range;
	cudaExternalMemory_t memory;
	void *ptr = NULL;

	memset(&handle, 0, sizeof(handle));
	handle.type = cudaExternalMemoryHandleTypeOpaqueFd;
	handle.handle.fd = fd;
	handle.size = size;
	handle.flags = cudaExternalMemoryDedicated;
	memset(&range, 0, sizeof(range));
	range.size = size;
	if (cudaImportExternalMemory(&memory, &handle))
		return NULL;
	cudaExternalMemoryGetMappedBuffer(&ptr, memory, &range);
	cudaDestroyExternalMemory(memory);
	return ptr;
}

int main(void)
{
	CUmemGenericAllocationHandle handle;
	CUmemAllocationProp prop;
	int fd = -1;

	memset(&prop, 0, sizeof(prop));
	prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	if (cuInit(0) || cuMemCreate(&handle, 2 << 20, &prop, 0) ||
	    cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0))
		return 1;
	return cudaFree(import(fd, 2 << 20));
}
