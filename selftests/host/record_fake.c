// SPDX-License-Identifier: MIT
/*
 * A driver that is not gpumem's, with a few functions, for record_check.sh; and, with PROGRAM defined, a program that
 * finds them by its link, by dlsym() and by cuGetProcAddress().
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef PROGRAM

static char memory[1 << 20];
static size_t used;
static int streams[16], stream_count;

CUresult cuInit(unsigned int flags)
{
	return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version)
{
	*version = 12040;
	return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult error, const char **text)
{
	/* A page must not trust it. */
	*text = error == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_<&>" : "CUDA_ERROR_OTHER";
	return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
	*device = 0;
	return CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
	*total = sizeof(memory);
	*free_bytes = sizeof(memory) - used;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
	*pool = (CUmemoryPool)(memory + device);
	return CUDA_SUCCESS;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
	(void)pool;
	/* Of 8,000 bytes that the pool had at most, 6,000 were used at most. */
	*(cuuint64_t *)value = attribute == CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH ? 8000 :
		attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH ? 6000 : 1000;
	return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *ptr, size_t bytes)
{
	if (!ptr)
		return CUDA_ERROR_INVALID_VALUE;
	if (bytes > sizeof(memory) - used)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ptr = (CUdeviceptr)(memory + used);
	used += (bytes + 255) & ~(size_t)255;
	return CUDA_SUCCESS;
}

/* Takes as long as the environment says. */
CUresult cuMemFree_v2(CUdeviceptr ptr)
{
	const char *ms = getenv("FAKE_FREE_MS");

	usleep(ms ? atoi(ms) * 1000 : 0);
	return ptr >= (CUdeviceptr)memory && ptr < (CUdeviceptr)(memory + sizeof(memory)) ? CUDA_SUCCESS :
		CUDA_ERROR_INVALID_VALUE;
}

static int inside(CUdeviceptr ptr, size_t bytes)
{
	return ptr >= (CUdeviceptr)memory && ptr < (CUdeviceptr)(memory + sizeof(memory)) &&
		bytes <= (size_t)((CUdeviceptr)(memory + sizeof(memory)) - ptr);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr dst, const void *src, size_t bytes)
{
	if (!inside(dst, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	memcpy((void *)dst, src, bytes);
	return CUDA_SUCCESS;
}

CUresult cuMemsetD8Async_ptsz(CUdeviceptr dst, unsigned char value, size_t bytes, CUstream stream)
{
	(void)stream;
	if (!inside(dst, bytes))
		return CUDA_ERROR_INVALID_VALUE;
	memset((void *)dst, value, bytes);
	return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
	(void)flags;
	if (!stream)
		return CUDA_ERROR_INVALID_VALUE;
	*stream = (CUstream)&streams[stream_count++ % 16];
	return CUDA_SUCCESS;
}

/* The address is not that of the symbol, as a driver may do it. */
static CUresult hidden_synchronize(CUstream stream)
{
	return (int *)stream >= streams && (int *)stream < streams + 16 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuStreamSynchronize(CUstream stream)
{
	return hidden_synchronize(stream);
}

/* A function of a newer driver. */
CUresult cuFutureFunction(int number);
CUresult cuFutureFunction(int number)
{
	return (CUresult)number;
}

CUresult cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
			     CUdriverProcAddressQueryResult *status)
{
	static const struct {
		const char *name;
		void *function;
	} table[] = {
		{ "cuMemAlloc", cuMemAlloc_v2 }, { "cuMemFree", cuMemFree_v2 }, { "cuGetProcAddress", cuGetProcAddress_v2 },
		{ "cuMemsetD8Async", cuMemsetD8Async_ptsz }, { "cuStreamSynchronize", hidden_synchronize },
		{ "cuFutureFunction", cuFutureFunction },
	};
	size_t i;

	(void)version;
	(void)flags;
	*function = NULL;
	for (i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (!strcmp(table[i].name, name))
			*function = table[i].function;
	if (status)
		*status = *function ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
	return CUDA_SUCCESS;
}

#else

static void must(int good, int line)
{
	if (good)
		return;
	fprintf(stderr, "record_fake.c:%d\n", line);
	exit(1);
}

#define MUST(condition)	must(condition, __LINE__)
#define LOOK_UP(name)	(!get_proc(name, &found, 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status) ? found : NULL)

int main(int argc, char **argv)
{
	CUresult (*get_proc)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *);
	CUresult (*alloc)(CUdeviceptr *, size_t), (*release)(CUdeviceptr), (*sync)(CUstream), (*future)(int);
	CUresult (*fill)(CUdeviceptr, unsigned char, size_t, CUstream), (*copy)(CUdeviceptr, const void *, size_t);
	void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL), *found;
	CUresult (*init)(unsigned int) = NULL, (*create)(CUstream *, unsigned int) = NULL;
	CUdriverProcAddressQueryResult status;
	char bytes[1000] = "bytes";
	CUdeviceptr a, b;
	CUstream stream;

	(void)argv;
	MUST(library != NULL);
	init = (CUresult (*)(unsigned int))dlsym(library, "cuInit");
	create = (CUresult (*)(CUstream *, unsigned int))dlsym(library, "cuStreamCreate");
	copy = (CUresult (*)(CUdeviceptr, const void *, size_t))dlsym(library, "cuMemcpyHtoD_v2");
	get_proc = (CUresult (*)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *))
		dlsym(library, "cuGetProcAddress_v2");
	MUST(init && create && copy && get_proc && !dlsym(library, "cuNoSuchFunction"));
	/* A function that the recorder has and the driver has not. */
	MUST(!dlsym(RTLD_DEFAULT, "cuMemAddressReserve"));
	/* The form that the driver gives for this name. */
	get_proc = (CUresult (*)(const char *, void **, int, cuuint64_t, CUdriverProcAddressQueryResult *))
		LOOK_UP("cuGetProcAddress");
	MUST(get_proc != NULL);
	alloc = (CUresult (*)(CUdeviceptr *, size_t))LOOK_UP("cuMemAlloc");
	release = (CUresult (*)(CUdeviceptr))LOOK_UP("cuMemFree");
	sync = (CUresult (*)(CUstream))LOOK_UP("cuStreamSynchronize");
	fill = (CUresult (*)(CUdeviceptr, unsigned char, size_t, CUstream))LOOK_UP("cuMemsetD8Async");
	future = (CUresult (*)(int))LOOK_UP("cuFutureFunction");
	MUST(alloc && release && sync && fill && future && !LOOK_UP("cuNoSuchFunction"));
	MUST(init(1) == CUDA_ERROR_INVALID_VALUE);
	MUST(!init(0));
	MUST(!alloc(&a, 1000) && !alloc(&b, 5000));
	MUST(alloc(&b, 1 << 30) == CUDA_ERROR_OUT_OF_MEMORY);
	MUST(!create(&stream, 0));
	MUST(!copy(a + 8, bytes, sizeof(bytes) - 8));
	MUST(!fill(a, 7, 1000, stream));
	MUST(!sync(stream));
	MUST((int)future(42) == 42);
	MUST(!release(a));
	if (argc > 1) {
		/* A child, and a program that the process starts. */
		int left;
		pid_t pid = fork();

		if (!pid) {
			alloc(&a, 3);
			exit(0);
		}
		MUST(waitpid(pid, &left, 0) == pid && !left);
	}
	return 0;
}

#endif
