// SPDX-License-Identifier: MIT
/* A fill extends beyond the end of its memory. */
#include "begin.h"

int main(void)
{
	CUdeviceptr memory;

	begin();
	cuMemAlloc(&memory, 4096);
	cuMemsetD32Async(memory, 1, 1025, a);		/* 4,100 bytes */
	cuMemFree(memory);
	end();
}
