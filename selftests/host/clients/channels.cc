// SPDX-License-Identifier: GPL-2.0
/* Arrays in C++: the description of an element comes from its type, and arguments have defaults. */
#include <cuda_runtime.h>

template <class T> static cudaError_t make(cudaArray_t *array, size_t width, size_t height)
{
	cudaChannelFormatDesc desc = cudaCreateChannelDesc<T>();

	return cudaMallocArray(array, &desc, width, height);
}

int main()
{
	cudaChannelFormatDesc half = cudaCreateChannelDescHalf4();
	cudaChannelFormatDesc bc7 = cudaCreateChannelDesc<cudaChannelFormatKindUnsignedBlockCompressed7>();
	cudaArray_t a = nullptr, b = nullptr;
	float4 pixel = make_float4(1, 2, 3, 4);

	if (make<float4>(&a, 64, 64) || make<uchar1>(&b, 64, 0) || half.w != 16 || bc7.f == half.f)
		return 1;
	cudaMemcpy2DToArrayAsync(a, 0, 0, &pixel, sizeof(pixel), sizeof(pixel), 1, cudaMemcpyHostToDevice);
	cudaMemcpy2DArrayToArray(a, 16, 0, a, 0, 0, sizeof(pixel), 1);
	cudaFreeArray(a);
	return cudaFreeArray(b);
}
