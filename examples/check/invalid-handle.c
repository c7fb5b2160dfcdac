// SPDX-License-Identifier: MIT
/* An event is recorded that was destroyed. */
#include "begin.h"

int main(void)
{
	CUevent event;

	begin();
	cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	cuEventDestroy(event);
	cuEventRecord(event, a);
	end();
}
