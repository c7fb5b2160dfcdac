// SPDX-License-Identifier: GPL-2.0
// Allocation of typed pointers.
#include <cuda_runtime.h>

int main()
{
	float *a = nullptr, *b = nullptr, *mapped = nullptr;
	double *pinned = nullptr;
	int *managed = nullptr;
	size_t pitch = 0;

	if (cudaMalloc(&a, 64 * sizeof(*a)) || cudaMallocPitch(&b, &pitch, 100, 4))
		return 1;
	if (cudaMallocHost(&pinned, 4096) || cudaMallocManaged(&managed, 4096) ||
	    cudaHostAlloc(&mapped, 4096, cudaHostAllocMapped))
		return 1;
	return cudaHostGetDevicePointer(&b, mapped, 0) || cudaFree(a);
}
