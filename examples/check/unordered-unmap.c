// SPDX-License-Identifier: MIT
/* A mapping is removed while work may use it. */
#include "begin.h"

#include <unistd.h>

int main(void)
{
	CUmemAllocationProp prop = {
		.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	CUmemAccessDesc access = {
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE }, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUmemGenericAllocationHandle handle;
	const size_t bytes = 2 << 20;
	CUdeviceptr memory;

	begin();
	cuMemCreate(&handle, bytes, &prop, 0);
	cuMemAddressReserve(&memory, bytes, 0, 0, 0);
	cuMemMap(memory, bytes, 0, handle, 0);
	cuMemSetAccess(memory, bytes, &access, 1);
	cuMemsetD8Async(memory, 1, 4096, a);
	sleep(1);					/* orders nothing */
	cuMemUnmap(memory, bytes);
	cuMemAddressFree(memory, bytes);
	cuMemRelease(handle);
	end();
}
