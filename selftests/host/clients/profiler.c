// SPDX-License-Identifier: GPL-2.0
// The profiler's functions, and error texts.
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>
#include <stdio.h>

int main(void)
{
	printf("%s\n", cudaGetErrorString(cudaGetLastError()));
	return cudaProfilerStart() || cudaProfilerStop();
}
