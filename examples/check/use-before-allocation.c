// SPDX-License-Identifier: MIT
/* A stream uses memory that another stream allocates. */
#include "begin.h"

int main(void)
{
	CUdeviceptr memory;

	begin();
	cuMemAllocAsync(&memory, 4096, a);
	cuMemsetD8Async(memory, 1, 4096, b);		/* does not wait for the allocation */
	cuStreamSynchronize(b);
	cuMemFreeAsync(memory, a);
	end();
}
