// SPDX-License-Identifier: GPL-2.0
/*
 * Preloaded into libfabric's fi_pingpong: its buffer is device memory.
 *
 * fi_pingpong allocates one buffer, for what it sends and what it receives, by posix_memalign().  Allocations of the
 * libraries below it stay as they are.  When the program frees the buffer, the device copies it, and the bytes are
 * compared with those that the CPU sees.  A line on standard output says so: "PINGPONG device memory: SIZE bytes".
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include <cuda.h>

/* The C library's own names of what is replaced here. */
void *__libc_memalign(size_t alignment, size_t size);
void __libc_free(void *p);

static void *buffer;
static size_t buffer_size;
static CUcontext context;

static bool in_program(void *address)
{
	Dl_info here, program;

	return dladdr(address, &here) && dladdr((void *)getauxval(AT_ENTRY), &program) &&
	       here.dli_fbase == program.dli_fbase;
}

int posix_memalign(void **at, size_t alignment, size_t size)
{
	CUdeviceptr p;

	if (!in_program(__builtin_return_address(0))) {
		void *q = __libc_memalign(alignment, size);

		if (q)
			*at = q;
		return q ? 0 : ENOMEM;
	}
	if (buffer || cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxSetCurrent(context) ||
	    cuMemAlloc(&p, size) || p % alignment) {
		fprintf(stderr, "PINGPONG has no device memory\n");
		exit(1);
	}
	buffer = (void *)p;
	buffer_size = size;
	*at = buffer;
	return 0;
}

static void end_buffer(void)
{
	CUdeviceptr p = (CUdeviceptr)buffer;
	unsigned int type = 0;
	char *copy = malloc(buffer_size);
	bool good;

	good = copy && !cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p) &&
	       type == CU_MEMORYTYPE_DEVICE && !cuMemcpyDtoH(copy, p, buffer_size) &&
	       !memcmp(copy, buffer, buffer_size);
	free(copy);
	buffer = NULL;
	if (good && !cuMemFree(p) && !cuDevicePrimaryCtxRelease(0))
		printf("PINGPONG device memory: %zu bytes\n", buffer_size);
}

void free(void *p)
{
	if (p && p == buffer)
		end_buffer();
	else
		__libc_free(p);
}
