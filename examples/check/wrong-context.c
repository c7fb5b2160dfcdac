// SPDX-License-Identifier: MIT
/* An event is recorded in a stream of another context. */
#include "begin.h"

int main(void)
{
	CUcontext other;
	CUevent event;

	begin();
	cuCtxCreate(&other, NULL, 0, 0);
	cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	cuEventRecord(event, a);			/* a belongs to the first context */
	cuEventDestroy(event);
	cuCtxDestroy(other);
	cuCtxSetCurrent(context);
	end();
}
