// SPDX-License-Identifier: MIT
/* A stream frees memory that another stream uses. */
#include "begin.h"

int main(void)
{
	CUdeviceptr memory;

	begin();
	cuMemAllocAsync(&memory, 4096, a);
	cuStreamSynchronize(a);
	cuMemsetD8Async(memory, 1, 4096, b);
	cuMemFreeAsync(memory, a);			/* does not wait for the fill */
	end();
}
