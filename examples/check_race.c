// SPDX-License-Identifier: MIT
/*
 * A mistake that the checker finds: one stream reads what another one writes, and nothing orders the two.
 *
 *   GPUMEM_CHECK=1 check_race		a report, and exit status 66
 *   GPUMEM_CHECK=1 check_race event	an event orders the streams: no report
 *
 * cc -g check_race.c -o check_race -lgpumem
 */
#include <cuda.h>
#include <stdio.h>

int main(int argc, char **argv)
{
	CUstream writer, reader;
	CUdeviceptr memory;
	CUevent event;
	CUcontext ctx;
	void *host;

	(void)argv;
	if (cuInit(0)) {
		fprintf(stderr, "check_race: no device\n");
		return 1;
	}
	cuDevicePrimaryCtxRetain(&ctx, 0);
	cuCtxSetCurrent(ctx);
	cuStreamCreate(&writer, CU_STREAM_NON_BLOCKING);
	cuStreamCreate(&reader, CU_STREAM_NON_BLOCKING);
	cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
	cuMemAlloc(&memory, 4096);
	cuMemAllocHost(&host, 4096);

	cuMemsetD8Async(memory, 1, 4096, writer);
	if (argc > 1) {
		cuEventRecord(event, writer);
		cuStreamWaitEvent(reader, event, 0);
	}
	cuMemcpyDtoHAsync(host, memory, 4096, reader);
	cuCtxSynchronize();

	cuMemFreeHost(host);
	cuMemFree(memory);
	cuEventDestroy(event);
	cuStreamDestroy(reader);
	cuStreamDestroy(writer);
	cuDevicePrimaryCtxRelease(0);
	return 0;
}
