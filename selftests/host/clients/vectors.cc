// SPDX-License-Identifier: GPL-2.0
// Vector types and dim3 in C++; functions with the words of device code.
#include <cuda_runtime.h>

__host__ __device__ static inline float dot(float4 a, float4 b)
{
	return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}

static unsigned int blocks(dim3 grid)
{
	return grid.x * grid.y * grid.z;
}

struct __align__(32) Wide {
	double2 halves[2];
};

static_assert(alignof(Wide) == 32 && alignof(int2) == 8 && sizeof(double3) == 24, "alignment");

int main()
{
	dim3 grid(4, 2);
	uint3 plain = grid;

	return dot(make_float4(1, 2, 3, 4), make_float4(1, 1, 1, 1)) != 10 || blocks(8) != 8 ||
		blocks(plain) != 8;
}
