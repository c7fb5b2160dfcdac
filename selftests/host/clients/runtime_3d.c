// SPDX-License-Identifier: GPL-2.0
// The runtime API in C, with extents from functions.
#include <cuda_runtime.h>

int main(void)
{
	struct cudaMemcpy3DParms copy = {0};
	struct cudaPitchedPtr box;
	static char host[16 * 4 * 2];

	if (cudaMalloc3D(&box, make_cudaExtent(16, 4, 2)))
		return 1;
	copy.srcPtr = make_cudaPitchedPtr(host, 16, 16, 4);
	copy.srcPos = make_cudaPos(0, 0, 0);
	copy.dstPtr = box;
	copy.extent = make_cudaExtent(16, 4, 2);
	copy.kind = cudaMemcpyDefault;
	return cudaMemcpy3D(&copy) || cudaFree(box.ptr);
}
