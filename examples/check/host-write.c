// SPDX-License-Identifier: MIT
/* The CPU changes pinned memory before the copy from it is done. */
#include "begin.h"

#include <string.h>

int main(void)
{
	CUdeviceptr memory;
	void *pinned;

	begin();
	cuMemAlloc(&memory, 4096);
	cuMemAllocHost(&pinned, 4096);
	memset(pinned, 1, 4096);
	cuMemcpyHtoDAsync(memory, pinned, 4096, a);
	memset(pinned, 2, 4096);			/* belongs behind the next line */
	cuStreamSynchronize(a);
	cuMemFreeHost(pinned);
	cuMemFree(memory);
	end();
}
