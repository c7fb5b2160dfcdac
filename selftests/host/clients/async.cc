// SPDX-License-Identifier: GPL-2.0
// Allocation in stream order, from the device's pool and from one of the program's own.
#include <cuda_runtime.h>

int main()
{
	cudaMemPoolProps props = {};
	cudaMemPool_t pool;
	cudaStream_t stream;
	float4 *a = nullptr, *b = nullptr, *c = nullptr;
	void *plain = nullptr;

	props.allocType = cudaMemAllocationTypePinned;
	props.location.type = cudaMemLocationTypeDevice;
	if (cudaMemPoolCreate(&pool, &props) || cudaStreamCreate(&stream))
		return 1;
	if (cudaMallocAsync(&a, 4096, stream) || cudaMallocAsync(&b, 4096, pool, stream) ||
	    cudaMallocFromPoolAsync(&c, 4096, pool, stream) || cudaMallocAsync(&plain, 4096, stream))
		return 1;
	return cudaMemsetAsync(a, 0, 4096) || cudaFreeAsync(a, stream);
}
