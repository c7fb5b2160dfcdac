// SPDX-License-Identifier: MIT
/* A stream reads what another stream writes, and nothing orders the two. */
#include "begin.h"

int main(void)
{
	CUdeviceptr memory;
	void *host;

	begin();
	cuMemAlloc(&memory, 4096);
	cuMemAllocHost(&host, 4096);
	cuMemsetD8Async(memory, 1, 4096, a);
	cuMemcpyDtoHAsync(host, memory, 4096, b);	/* does not wait for the fill */
	cuCtxSynchronize();
	cuMemFreeHost(host);
	cuMemFree(memory);
	end();
}
