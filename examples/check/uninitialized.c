// SPDX-License-Identifier: MIT
/* A copy reads bytes that nobody wrote. */
#include "begin.h"

int main(void)
{
	CUdeviceptr memory;
	char host[4096];

	begin();
	cuMemAlloc(&memory, 4096);
	cuMemsetD8(memory, 1, 4000);
	cuMemcpyDtoH(host, memory, 4096);
	cuMemFree(memory);
	end();
}
