// SPDX-License-Identifier: MIT
/* The CPU writes behind the end of pinned memory. */
#include "begin.h"

int main(void)
{
	char *pinned;

	begin();
	cuMemAllocHost((void **)&pinned, 4000);
	pinned[4000] = 1;
	cuMemFreeHost(pinned);
	end();
}
