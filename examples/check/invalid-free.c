// SPDX-License-Identifier: MIT
/* An address is freed that is not the first byte of an allocation. */
#include "begin.h"

int main(void)
{
	CUdeviceptr memory;

	begin();
	cuMemAlloc(&memory, 4096);
	cuMemFree(memory + 512);
	cuMemFree(memory);
	end();
}
