// SPDX-License-Identifier: MIT
/* A program does not give its memory back. */
#include "begin.h"

int main(void)
{
	CUdeviceptr memory[3];

	begin();
	for (int i = 0; i < 3; i++)
		cuMemAlloc(&memory[i], 4096);
	cuMemFree(memory[0]);
	end();
}
