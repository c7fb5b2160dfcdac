// SPDX-License-Identifier: GPL-2.0
// Types without functions of the library.
#include <builtin_types.h>
#include <driver_types.h>
#include <library_types.h>
#include <vector_functions.h>
#include <vector_types.h>

_Static_assert(sizeof(float4) == 16 && _Alignof(float4) == 16, "float4");
_Static_assert(sizeof(uchar3) == 3, "uchar3");

int main(void)
{
	float4 v = make_float4(1, 2, 3, 4);
	struct cudaPos at = {0, 0, 0};
	cudaDataType_t type = CUDA_R_32F;
	dim3 grid = {1, 1, 1};

	return v.w != 4 || at.x || type != CUDA_R_32F || grid.z != 1 || MAJOR_VERSION;
}
