// SPDX-License-Identifier: MIT
/* Memory is freed twice. */
#include "begin.h"

int main(void)
{
	CUdeviceptr memory;

	begin();
	cuMemAlloc(&memory, 4096);
	cuMemFree(memory);
	cuMemFree(memory);
	end();
}
