// SPDX-License-Identifier: GPL-2.0
// The driver API: functions by name.
#include <cuda.h>

int main(void)
{
	CUdriverProcAddressQueryResult found;
	void *function;

	return cuGetProcAddress("cuMemAlloc", &function, CUDA_VERSION, CU_GET_PROC_ADDRESS_DEFAULT,
				&found) || found != CU_GET_PROC_ADDRESS_SUCCESS;
}
