// SPDX-License-Identifier: MIT
/* A call uses memory that was freed. */
#include "begin.h"

int main(void)
{
	CUdeviceptr memory;

	begin();
	cuMemAlloc(&memory, 4096);
	cuMemFree(memory);
	cuMemsetD8Async(memory, 1, 4096, a);
	end();
}
