// SPDX-License-Identifier: GPL-2.0
/* Functions of the driver by pointer, with the types of cudaTypedefs.h, as libraries find them at run time. */
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

int main(void)
{
	enum cudaDriverEntryPointQueryResult found;
	PFN_cuMemAlloc_v3020 alloc = NULL;
	PFN_cuMemcpyHtoDAsync_v7000_ptsz copy = NULL;
	PFN_cuMemFree_v3020 release = NULL;
	CUdeviceptr ptr;
	char host[64] = { 0 };

	if (cudaGetDriverEntryPointByVersion("cuMemAlloc", (void **)&alloc, 3020, cudaEnableDefault, &found) ||
	    cudaGetDriverEntryPointByVersion("cuMemFree", (void **)&release, 3020, cudaEnableDefault, &found) ||
	    cuGetProcAddress("cuMemcpyHtoDAsync", (void **)&copy, 7000,
			     CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, NULL) ||
	    !alloc || !copy || !release || alloc(&ptr, 4096))
		return 1;
	return copy(ptr, host, sizeof(host), 0) || release(ptr);
}
