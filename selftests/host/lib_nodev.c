// SPDX-License-Identifier: GPL-2.0
/*
 * Checks what the library answers without a device. lib_nodev.sh and lib_san.sh run the program.
 *
 * The program calls exported functions and checks their results. It sets CUDA_VISIBLE_DEVICES to an
 * empty string, so that the answers are the same on a machine with the module. Locks: none.
 */
#define __CUDA_API_VERSION_INTERNAL
#include <cuda.h>
#include <gpumem.h>
#include <nvml.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int number, passed, failed;

static void check(bool ok, const char *what)
{
	printf("%sok %d - %s\n", ok ? "" : "not ", ++number, what);
	if (ok)
		passed++;
	else
		failed++;
}

static void result(CUresult got, CUresult want, const char *what)
{
	check(got == want, what);
	if (got != want)
		printf("# %d, expected %d\n", got, want);
}

#define RESULT(want, call)	result(call, want, #call)

static int descriptors(void)
{
	int fd, count = 0;

	for (fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

static void without_init(void)
{
	char buffer[64] = "", name[16];
	CUipcMemHandle handle = { { 0 } };
	const char *text = NULL;
	size_t size = 0, total = 0;
	CUdeviceptr ptr = 0;
	CUdevice device;
	CUcontext ctx;
	CUstream stream;
	CUevent event;
	int value = 0, fd = 0;
	unsigned int flags;

	RESULT(CUDA_SUCCESS, cuDriverGetVersion(&value));
	check(value == 13030, "the driver version is 13030");
	RESULT(CUDA_ERROR_INVALID_VALUE, cuDriverGetVersion(NULL));
	RESULT(CUDA_SUCCESS, cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
	check(text && !strcmp(text, "CUDA_ERROR_OUT_OF_MEMORY"), "an error has its name");
	RESULT(CUDA_SUCCESS, cuGetErrorString(CUDA_ERROR_INVALID_VALUE, &text));
	check(text && !strcmp(text, "invalid argument"), "an error has its text");

	RESULT(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGet(&device, 0));
	RESULT(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&value));
	RESULT(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetName(name, sizeof(name), 0));
	RESULT(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetPCIBusId(buffer, 13, 0));
	RESULT(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetByPCIBusId(&device, "0000:00:00.0"));
	RESULT(CUDA_ERROR_NOT_INITIALIZED, cuDevicePrimaryCtxRetain(&ctx, 0));
	RESULT(CUDA_ERROR_NOT_INITIALIZED, cuCtxCreate_v4(&ctx, NULL, 0, 0));
	RESULT(CUDA_ERROR_NOT_INITIALIZED, cuCtxSetCurrent(NULL));
	RESULT(CUDA_ERROR_NOT_INITIALIZED, cuCtxGetCurrent(&ctx));
	RESULT(CUDA_ERROR_NOT_INITIALIZED, cuCtxSynchronize());
	RESULT(CUDA_ERROR_NOT_INITIALIZED, cuMemAlloc_v2(&ptr, 64));
	RESULT(CUDA_ERROR_NOT_INITIALIZED, cuMemAlloc_v2(NULL, 0));
	RESULT(CUDA_ERROR_NOT_INITIALIZED, cuMemAllocPitch_v2(&ptr, &size, 16, 16, 4));
	RESULT(CUDA_ERROR_NOT_INITIALIZED, cuMemFree_v2(0));
	RESULT(CUDA_ERROR_NOT_INITIALIZED, cuMemGetInfo_v2(&size, &total));
	RESULT(CUDA_ERROR_NOT_INITIALIZED, cuMemGetAddressRange_v2(&ptr, &size, 4096));
	RESULT(CUDA_ERROR_NOT_SUPPORTED, cuMemGetHandleForAddressRange(&fd, 4096, 4096, 1, 0));
	RESULT(CUDA_ERROR_NOT_INITIALIZED, cuMemcpy(4096, 8192, 4));
	RESULT(CUDA_ERROR_NOT_INITIALIZED, cuMemcpyHtoD_v2(4096, buffer, 4));
	RESULT(CUDA_ERROR_NOT_INITIALIZED, cuMemcpyDtoH_v2_ptds(buffer, 4096, 4));
	RESULT(CUDA_ERROR_NOT_INITIALIZED, cuMemcpy2D_v2(NULL));
	RESULT(CUDA_ERROR_NOT_INITIALIZED, cuMemsetD8_v2(4096, 1, 4));
	RESULT(CUDA_ERROR_NOT_INITIALIZED, cuMemsetD32Async_ptsz(4096, 1, 4, NULL));
	RESULT(CUDA_ERROR_NOT_INITIALIZED, cuIpcGetMemHandle(&handle, 4096));
	RESULT(CUDA_ERROR_NOT_INITIALIZED, cuIpcOpenMemHandle_v2(&ptr, handle, 1));
	RESULT(CUDA_ERROR_NOT_INITIALIZED, cuIpcCloseMemHandle(4096));
	RESULT(CUDA_ERROR_NOT_INITIALIZED, cuStreamCreate(&stream, 0));
	RESULT(CUDA_ERROR_NOT_INITIALIZED, cuStreamGetFlags(NULL, &flags));
	RESULT(CUDA_ERROR_NOT_INITIALIZED, cuEventCreate(&event, 0));
	RESULT(CUDA_ERROR_NOT_INITIALIZED,
	       cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 4096));
}

/* Call cuGetProcAddress_v2() once, and check the result, the status and the function. */
static void proc(const char *name, int version, cuuint64_t flags, CUresult want_result,
		 CUdriverProcAddressQueryResult want_status, void *want)
{
	CUdriverProcAddressQueryResult status = (CUdriverProcAddressQueryResult)99;
	char what[128];
	void *found = &number;
	CUresult got = cuGetProcAddress_v2(name, &found, version, flags, &status);

	snprintf(what, sizeof(what), "cuGetProcAddress_v2(\"%s\", %d, %d)", name, version,
		 (int)flags);
	check(got == want_result && status == want_status && found == want, what);
	if (got != want_result || status != want_status || found != want)
		printf("# result %d, status %d, %s function\n", got, status,
		       found == want ? "right" : found ? "another" : "no");
}

static void proc_address(void)
{
	const CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SUCCESS,
		unknown = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND,
		old = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
	void *function = NULL;

	proc("cuMemAlloc", 13000, 0, CUDA_SUCCESS, found, (void *)cuMemAlloc_v2);
	proc("cuMemAlloc", 3020, 0, CUDA_SUCCESS, found, (void *)cuMemAlloc_v2);
	proc("cuMemAlloc", 2000, 0, CUDA_SUCCESS, found, (void *)cuMemAlloc);
	proc("cuCtxCreate", 13000, 0, CUDA_SUCCESS, found, (void *)cuCtxCreate_v4);
	proc("cuCtxCreate", 12000, 0, CUDA_SUCCESS, found, (void *)cuCtxCreate_v3);
	proc("cuEventElapsedTime", 13000, 0, CUDA_SUCCESS, found, (void *)cuEventElapsedTime_v2);
	proc("cuEventElapsedTime", 12000, 0, CUDA_SUCCESS, found, (void *)cuEventElapsedTime);
	proc("cuMemcpyHtoD", 13000, 2, CUDA_SUCCESS, found, (void *)cuMemcpyHtoD_v2_ptds);
	proc("cuMemcpyHtoDAsync", 13000, 2, CUDA_SUCCESS, found, (void *)cuMemcpyHtoDAsync_v2_ptsz);
	proc("cuMemcpyHtoDAsync", 13000, 1, CUDA_SUCCESS, found, (void *)cuMemcpyHtoDAsync_v2);
	proc("cuGetProcAddress", 13000, 0, CUDA_SUCCESS, found, (void *)cuGetProcAddress_v2);
	proc("cuMemcpy", 2000, 0, CUDA_SUCCESS, old, NULL);
	proc("cuMemGetHandleForAddressRange", 11020, 0, CUDA_SUCCESS, old, NULL);
	/* What CUDA 13.1 to 13.3 brought, for programs of 13.0 and of 13.3. */
	proc("cuLaunchHostFunc", 13000, 0, CUDA_SUCCESS, found, (void *)cuLaunchHostFunc);
	proc("cuLaunchHostFunc", 13010, 0, CUDA_SUCCESS, found, (void *)cuLaunchHostFunc);
	proc("cuLaunchHostFunc", 13020, 0, CUDA_SUCCESS, found, (void *)cuLaunchHostFunc_v2);
	proc("cuLaunchHostFunc", 13030, 2, CUDA_SUCCESS, found, (void *)cuLaunchHostFunc_v2_ptsz);
	proc("cuMemcpyWithAttributesAsync", 13010, 0, CUDA_SUCCESS, old, NULL);
	proc("cuMemcpyWithAttributesAsync", 13020, 0, CUDA_SUCCESS, found,
	     (void *)cuMemcpyWithAttributesAsync);
	proc("cuMemcpy3DWithAttributesAsync", 13030, 2, CUDA_SUCCESS, found,
	     (void *)cuMemcpy3DWithAttributesAsync_ptsz);
	proc("cuMulticastBindMem", 12010, 0, CUDA_SUCCESS, found, (void *)cuMulticastBindMem);
	proc("cuMulticastBindMem", 13000, 2, CUDA_SUCCESS, found, (void *)cuMulticastBindMem);
	proc("cuMulticastBindMem", 13010, 0, CUDA_SUCCESS, found, (void *)cuMulticastBindMem_v2);
	proc("cuMulticastBindAddr", 13030, 2, CUDA_SUCCESS, found, (void *)cuMulticastBindAddr_v2);
	proc("cuLogicalEndpointCreate", 13020, 0, CUDA_SUCCESS, old, NULL);
	proc("cuLogicalEndpointCreate", 13030, 0, CUDA_SUCCESS, found, (void *)cuLogicalEndpointCreate);
	proc("cuMemAlloc", 13030, 0, CUDA_SUCCESS, found, (void *)cuMemAlloc_v2);
	proc("cuMemAlloc", 13040, 0, CUDA_ERROR_INVALID_VALUE, unknown, NULL);
	proc("cuNoSuchFunction", 13000, 0, CUDA_SUCCESS, unknown, NULL);
	proc("cuMemAlloc_v2", 13000, 0, CUDA_SUCCESS, unknown, NULL);
	proc("", 13000, 0, CUDA_SUCCESS, unknown, NULL);
	proc("cuMemAlloc", 99999, 0, CUDA_ERROR_INVALID_VALUE, unknown, NULL);
	proc("cuMemAlloc", 13000, 8, CUDA_ERROR_INVALID_VALUE, unknown, NULL);
	RESULT(CUDA_SUCCESS, cuGetProcAddress_v2("cuInit", &function, 13000, 0, NULL));
	check(function == (void *)cuInit, "no status is wanted");
	RESULT(CUDA_SUCCESS, cuGetProcAddress("cuMemFree", &function, 13000, 0));
	check(function == (void *)cuMemFree_v2, "cuGetProcAddress() finds cuMemFree_v2");
	RESULT(CUDA_ERROR_NOT_FOUND, cuGetProcAddress("cuNoSuchFunction", &function, 13000, 0));
	check(!function, "cuGetProcAddress() writes NULL");
}

static void init_without_device(void)
{
	const char *reason;
	int before = descriptors(), status = 0, value = 0;
	pid_t child;

	check(!gpumem_init_error(), "no reason before cuInit()");
	RESULT(CUDA_ERROR_INVALID_VALUE, cuInit(1));
	RESULT(CUDA_ERROR_NO_DEVICE, cuInit(0));
	reason = gpumem_init_error();
	check(reason && !strncmp(reason, "gpumem: ", 8) && !strchr(reason, '\n'),
	      "cuInit() leaves a reason of one line");
	printf("# %s\n", reason ? reason : "none");
	check(descriptors() == before, "cuInit() leaves no descriptor");
	RESULT(CUDA_ERROR_NO_DEVICE, cuInit(0));
	RESULT(CUDA_ERROR_NOT_INITIALIZED, cuDeviceGetCount(&value));
	child = fork();
	if (!child)
		_exit(cuInit(0) == CUDA_ERROR_NO_DEVICE ? 0 : 1);
	check(child > 0 && waitpid(child, &status, 0) == child && !status,
	      "a child that was forked before cuInit() succeeded may call it");
}

/* libnvidia-ml.so.1: it reports no driver if there is no device node, and no devices. */
static void management(const char *file)
{
	nvmlReturn_t (*init)(unsigned int), (*shutdown)(void), (*count)(unsigned int *);
	void *lib = dlopen(file, RTLD_NOW);
	unsigned int n = 7;

	check(lib, "libnvidia-ml.so.1 loads");
	if (!lib)
		return;
	*(void **)&init = dlsym(lib, "nvmlInitWithFlags");
	*(void **)&shutdown = dlsym(lib, "nvmlShutdown");
	*(void **)&count = dlsym(lib, "nvmlDeviceGetCount_v2");
	check(init && shutdown && count, "it has its functions");
	if (!init || !shutdown || !count)
		return;
	if (access("/dev/gpumem0", F_OK))
		check(init(0) == NVML_ERROR_DRIVER_NOT_LOADED, "without nodes no driver is loaded");
	check(init(NVML_INIT_FLAG_NO_GPUS) == NVML_SUCCESS, "NO_GPUS needs none");
	check(count(&n) == NVML_SUCCESS && (n == 0 || !access("/dev/gpumem0", F_OK)),
	      "and there are none");
	check(shutdown() == NVML_SUCCESS && shutdown() == NVML_ERROR_UNINITIALIZED,
	      "it ends once");
	dlclose(lib);
}

int main(int argc, char **argv)
{
	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	unsetenv("GPUMEM_DEBUG");
	puts("TAP version 13");
	check(gpumem_version() && gpumem_version()[0], "the library has a version");
	without_init();
	proc_address();
	init_without_device();
	without_init();
	if (argc > 1)
		management(argv[1]);
	printf("1..%d\n%d passed, %d failed, 0 skipped\n", number, passed, failed);
	return failed ? 1 : 0;
}
