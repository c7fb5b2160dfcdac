// SPDX-License-Identifier: GPL-2.0
// The driver API: a context, memory, and copies both ways.
#include <cuda.h>
#include <stdio.h>

int main(void)
{
	char in[64] = "hello", out[64] = "";
	CUdevice device;
	CUcontext context;
	CUdeviceptr ptr;

	if (cuInit(0) || cuDeviceGet(&device, 0) || cuCtxCreate(&context, NULL, 0, device))
		return 1;
	if (cuMemAlloc(&ptr, sizeof(in)) || cuMemcpyHtoD(ptr, in, sizeof(in)) ||
	    cuMemcpyDtoH(out, ptr, sizeof(out)) || cuMemFree(ptr))
		return 1;
	puts(out);
	return cuCtxDestroy(context);
}
