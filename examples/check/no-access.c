// SPDX-License-Identifier: MIT
/* A device fills memory of a pool to which it has no access. */
#include "begin.h"

int main(void)
{
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { .type = CU_MEM_LOCATION_TYPE_HOST },
	};
	CUmemoryPool pool;
	CUdeviceptr memory;

	begin();
	cuMemPoolCreate(&pool, &props);
	cuMemAllocFromPoolAsync(&memory, 4096, pool, a);
	cuMemsetD8Async(memory, 0, 4096, a);
	cuMemFreeAsync(memory, a);
	cuStreamSynchronize(a);
	cuMemPoolDestroy(pool);
	end();
}
