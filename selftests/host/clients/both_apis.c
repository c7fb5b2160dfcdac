// SPDX-License-Identifier: GPL-2.0
// Both APIs in one file.
#include <cuda.h>
#include <cuda_runtime_api.h>

int main(void)
{
	cudaStream_t stream;
	CUdevice device;

	if (cudaSetDevice(0) || cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking))
		return 1;
	return cuCtxGetDevice(&device) || cuStreamSynchronize(stream) || cudaStreamDestroy(stream);
}
