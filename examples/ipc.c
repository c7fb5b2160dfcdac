// SPDX-License-Identifier: GPL-2.0
/*
 * Two processes share device memory: one allocates it, the other one opens it by a handle.  An event that both have
 * tells the second one when the first one's work is done.
 *
 *   ipc
 *
 * The handles are bytes, which may go any way between the processes; here they go through a pipe.  The processes
 * need not be related: they need the same user (Documentation/sharing.rst).
 *
 * cc ipc.c -o ipc -lgpumem
 */
#include <cuda.h>
#include <gpumem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES	(8 << 20)
#define TEXT	"written by the first process"

#define CHECK(good) do {				\
	if (!(good)) {					\
		perror(#good);				\
		exit(1);				\
	}						\
} while (0)

struct handles {
	CUipcMemHandle memory;
	CUipcEventHandle event;
};

static void begin(void)
{
	CUcontext ctx;

	if (cuInit(0)) {
		fprintf(stderr, "%s\n", gpumem_init_error());
		exit(1);
	}
	CHECK(!cuDevicePrimaryCtxRetain(&ctx, 0));
	CHECK(!cuCtxSetCurrent(ctx));
}

/* The process that has the memory. @to: handles to the other one; @from: its end. */
static void exporter(int to, int from)
{
	struct handles handles;
	CUdeviceptr memory;
	CUstream stream;
	CUevent written;
	char byte;

	begin();
	CHECK(!cuMemAlloc(&memory, BYTES));
	CHECK(!cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(!cuEventCreate(&written, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
	CHECK(!cuMemsetD8Async(memory, 0, BYTES, stream));
	CHECK(!cuMemcpyHtoDAsync(memory, TEXT, sizeof(TEXT), stream));
	CHECK(!cuEventRecord(written, stream));

	CHECK(!cuIpcGetMemHandle(&handles.memory, memory));
	CHECK(!cuIpcGetEventHandle(&handles.event, written));
	CHECK(write(to, &handles, sizeof(handles)) == sizeof(handles));
	/* Freeing the memory would take it away from the other process. */
	CHECK(read(from, &byte, 1) == 1);
	CHECK(!cuMemFree(memory));
	CHECK(!cuEventDestroy(written));
	CHECK(!cuStreamDestroy(stream));
}

static void importer(int to, int from)
{
	struct handles handles;
	CUdeviceptr memory;
	CUevent written;
	CUstream stream;
	char text[64];

	begin();
	CHECK(read(from, &handles, sizeof(handles)) == sizeof(handles));
	CHECK(!cuIpcOpenMemHandle(&memory, handles.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
	CHECK(!cuIpcOpenEventHandle(&written, handles.event));

	/* The stream waits for the other process's work; this thread does not. */
	CHECK(!cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	CHECK(!cuStreamWaitEvent(stream, written, 0));
	CHECK(!cuMemcpyDtoHAsync(text, memory, sizeof(text), stream));
	CHECK(!cuStreamSynchronize(stream));
	printf("the second process reads \"%s\"\n", text);
	CHECK(!strcmp(text, TEXT));

	CHECK(!cuStreamDestroy(stream));
	CHECK(!cuEventDestroy(written));
	CHECK(!cuIpcCloseMemHandle(memory));
	CHECK(write(to, "", 1) == 1);
}

int main(void)
{
	int there[2], back[2], status;
	pid_t child;

	/* A child of a process that called cuInit() cannot use the library: fork before. */
	CHECK(!pipe(there) && !pipe(back));
	child = fork();
	CHECK(child >= 0);
	if (!child) {
		close(back[0]);
		importer(back[1], there[0]);
		return 0;
	}
	close(back[1]);
	exporter(there[1], back[0]);
	CHECK(waitpid(child, &status, 0) == child);
	return status != 0;
}
