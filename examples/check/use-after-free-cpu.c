// SPDX-License-Identifier: MIT
/* The CPU writes pinned memory that was freed. */
#include "begin.h"

int main(void)
{
	char *pinned;

	begin();
	cuMemAllocHost((void **)&pinned, 4096);
	cuMemFreeHost(pinned);
	pinned[16] = 1;
	end();
}
