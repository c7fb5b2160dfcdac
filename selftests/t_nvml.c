// SPDX-License-Identifier: GPL-2.0
/*
 * libnvidia-ml.so.1: what it says is what libgpumem and the kernel say, and programs without
 * devices are told so.
 */
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda.h>
#include <nvml.h>

#include "kselftest_harness.h"
#include "util.h"

#define NAMES(X)						\
	X(nvmlInit_v2) X(nvmlInitWithFlags) X(nvmlShutdown)	\
	X(nvmlErrorString) X(nvmlSystemGetDriverVersion)	\
	X(nvmlSystemGetNVMLVersion)				\
	X(nvmlSystemGetCudaDriverVersion_v2)			\
	X(nvmlDeviceGetCount_v2) X(nvmlDeviceGetHandleByIndex_v2) \
	X(nvmlDeviceGetHandleByUUID)				\
	X(nvmlDeviceGetHandleByPciBusId_v2)			\
	X(nvmlDeviceGetIndex) X(nvmlDeviceGetMinorNumber)	\
	X(nvmlDeviceGetName) X(nvmlDeviceGetUUID)		\
	X(nvmlDeviceGetPciInfo_v3) X(nvmlDeviceGetMemoryInfo)	\
	X(nvmlDeviceGetMemoryInfo_v2)				\
	X(nvmlDeviceGetCudaComputeCapability)

#define POINTER(name) static __typeof__(name) *p_##name;
NAMES(POINTER)

static bool load(void)
{
	char path[512];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 64);
	void *lib;

	if (n < 0)
		return false;
	path[n] = 0;
	strcpy(strrchr(path, '/'), "/../compat/libnvidia-ml.so.1");
	lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!lib) {
		fprintf(stderr, "# %s\n", dlerror());
		return false;
	}
#define LOOK_UP(name)							\
	p_##name = (__typeof__(name) *)dlsym(lib, #name);		\
	if (!p_##name)							\
		return false;
	NAMES(LOOK_UP)
	return true;
}

FIXTURE(nvml) { };

FIXTURE_SETUP(nvml)
{
	ASSERT_TRUE(load());
	ASSERT_TRUE(dev_quiet(10));
}

FIXTURE_TEARDOWN(nvml)
{
	EXPECT_TRUE(dev_quiet(10));
}

TEST_F(nvml, life)
{
	unsigned int n = 0;
	char text[80];

	EXPECT_EQ(NVML_ERROR_UNINITIALIZED, p_nvmlShutdown());
	EXPECT_EQ(NVML_ERROR_UNINITIALIZED, p_nvmlDeviceGetCount_v2(&n));
	EXPECT_EQ(NVML_ERROR_UNINITIALIZED, p_nvmlSystemGetDriverVersion(text, sizeof(text)));
	ASSERT_EQ(NVML_SUCCESS, p_nvmlInit_v2());
	ASSERT_EQ(NVML_SUCCESS, p_nvmlInitWithFlags(NVML_INIT_FLAG_NO_GPUS));
	EXPECT_EQ(1, dev_attr(0, "clients"));
	EXPECT_EQ(NVML_SUCCESS, p_nvmlShutdown());
	EXPECT_EQ(NVML_SUCCESS, p_nvmlDeviceGetCount_v2(&n));
	EXPECT_EQ(dev_count(), n);
	EXPECT_EQ(NVML_ERROR_INVALID_ARGUMENT, p_nvmlDeviceGetCount_v2(NULL));
	EXPECT_EQ(NVML_SUCCESS, p_nvmlSystemGetDriverVersion(text, sizeof(text)));
	EXPECT_EQ(0, strncmp(text, "580.", 4));
	EXPECT_EQ(NVML_ERROR_INSUFFICIENT_SIZE, p_nvmlSystemGetDriverVersion(text, 2));
	EXPECT_EQ(NVML_SUCCESS, p_nvmlSystemGetNVMLVersion(text, sizeof(text)));
	EXPECT_EQ(NVML_SUCCESS, p_nvmlShutdown());
	EXPECT_EQ(NVML_ERROR_UNINITIALIZED, p_nvmlDeviceGetCount_v2(&n));
	EXPECT_STREQ("Driver Not Loaded", p_nvmlErrorString(NVML_ERROR_DRIVER_NOT_LOADED));
	EXPECT_STREQ("Unknown Error", p_nvmlErrorString((nvmlReturn_t)12345));
}

/* libgpumem stays open until the process ends. */
TEST(as_cuda_says)
{
	unsigned int n = 0, index, number;
	int version, count, major, minor;

	ASSERT_TRUE(load());
	ASSERT_EQ(0, cuInit(0));
	ASSERT_EQ(0, cuDeviceGetCount(&count));
	ASSERT_EQ(NVML_SUCCESS, p_nvmlInit_v2());
	ASSERT_EQ(NVML_SUCCESS, p_nvmlDeviceGetCount_v2(&n));
	ASSERT_EQ((unsigned int)count, n);
	EXPECT_EQ(0, cuDriverGetVersion(&count));
	EXPECT_EQ(NVML_SUCCESS, p_nvmlSystemGetCudaDriverVersion_v2(&version));
	EXPECT_EQ(count, version);
	for (unsigned int i = 0; i < n; i++) {
		char name[96], other[96], uuid[96], bus[32];
		nvmlDevice_t device, again;
		nvmlPciInfo_t pci;
		CUuuid id;

		ASSERT_EQ(NVML_SUCCESS, p_nvmlDeviceGetHandleByIndex_v2(i, &device));
		EXPECT_EQ(NVML_SUCCESS, p_nvmlDeviceGetIndex(device, &index));
		EXPECT_EQ(i, index);
		EXPECT_EQ(NVML_SUCCESS, p_nvmlDeviceGetMinorNumber(device, &number));
		EXPECT_EQ(i, number);
		EXPECT_EQ(NVML_SUCCESS, p_nvmlDeviceGetName(device, name, sizeof(name)));
		EXPECT_EQ(0, cuDeviceGetName(other, sizeof(other), i));
		EXPECT_STREQ(other, name);
		EXPECT_EQ(NVML_ERROR_INSUFFICIENT_SIZE, p_nvmlDeviceGetName(device, name, 5));
		EXPECT_EQ(NVML_SUCCESS, p_nvmlDeviceGetUUID(device, uuid, sizeof(uuid)));
		EXPECT_EQ(0, cuDeviceGetUuid(&id, i));
		snprintf(other, sizeof(other), "GPU-%02x%02x%02x%02x-", (unsigned char)id.bytes[0],
			 (unsigned char)id.bytes[1], (unsigned char)id.bytes[2],
			 (unsigned char)id.bytes[3]);
		EXPECT_EQ(0, strncmp(uuid, other, strlen(other)));
		EXPECT_EQ(40, strlen(uuid));
		EXPECT_EQ(NVML_SUCCESS, p_nvmlDeviceGetHandleByUUID(uuid, &again));
		EXPECT_EQ(device, again);
		EXPECT_EQ(NVML_SUCCESS, p_nvmlDeviceGetPciInfo_v3(device, &pci));
		EXPECT_EQ(0, cuDeviceGetPCIBusId(bus, sizeof(bus), i));
		EXPECT_STREQ(bus, pci.busIdLegacy);
		EXPECT_EQ(NVML_SUCCESS, p_nvmlDeviceGetHandleByPciBusId_v2(pci.busId, &again));
		EXPECT_EQ(device, again);
		EXPECT_EQ(NVML_SUCCESS, p_nvmlDeviceGetHandleByPciBusId_v2(bus, &again));
		EXPECT_EQ(device, again);
		EXPECT_EQ(NVML_SUCCESS,
			  p_nvmlDeviceGetCudaComputeCapability(device, &major, &minor));
		EXPECT_EQ(9, major);
	}
	EXPECT_EQ(NVML_SUCCESS, p_nvmlShutdown());
}

TEST_F(nvml, memory)
{
	nvmlMemory_v2_t two = { .version = nvmlMemory_v2 };
	nvmlMemory_t before, after;
	nvmlDevice_t device;
	__u32 bo;
	int fd;

	ASSERT_EQ(NVML_SUCCESS, p_nvmlInit_v2());
	ASSERT_EQ(NVML_SUCCESS, p_nvmlDeviceGetHandleByIndex_v2(0, &device));
	ASSERT_EQ(NVML_SUCCESS, p_nvmlDeviceGetMemoryInfo(device, &before));
	EXPECT_EQ(before.total, before.free + before.used);
	EXPECT_EQ((unsigned long long)dev_attr(0, "size"), before.total);
	fd = gp_open(0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, gp_bo_alloc(fd, 4 * MIB, &bo));
	ASSERT_EQ(NVML_SUCCESS, p_nvmlDeviceGetMemoryInfo(device, &after));
	EXPECT_EQ(before.used + 4 * MIB, after.used);
	EXPECT_EQ(NVML_SUCCESS, p_nvmlDeviceGetMemoryInfo_v2(device, &two));
	EXPECT_EQ(after.used, two.used);
	EXPECT_EQ(0, two.reserved);
	two.version = 1;
	EXPECT_EQ(NVML_ERROR_ARGUMENT_VERSION_MISMATCH, p_nvmlDeviceGetMemoryInfo_v2(device, &two));
	close(fd);
	EXPECT_EQ(NVML_SUCCESS, p_nvmlShutdown());
}

TEST_F(nvml, wrong_arguments)
{
	nvmlDevice_t device, wrong;
	nvmlMemory_t memory;
	nvmlPciInfo_t pci;
	unsigned int n;
	char text[8];

	ASSERT_EQ(NVML_SUCCESS, p_nvmlInit_v2());
	ASSERT_EQ(NVML_SUCCESS, p_nvmlDeviceGetCount_v2(&n));
	EXPECT_EQ(NVML_ERROR_INVALID_ARGUMENT, p_nvmlDeviceGetHandleByIndex_v2(n, &device));
	EXPECT_EQ(NVML_ERROR_INVALID_ARGUMENT, p_nvmlDeviceGetHandleByIndex_v2(0, NULL));
	EXPECT_EQ(NVML_ERROR_NOT_FOUND, p_nvmlDeviceGetHandleByUUID("GPU-0", &device));
	EXPECT_EQ(NVML_ERROR_NOT_FOUND,
		  p_nvmlDeviceGetHandleByPciBusId_v2("00000000:00:00.0", &device));
	EXPECT_EQ(NVML_ERROR_INVALID_ARGUMENT, p_nvmlDeviceGetHandleByPciBusId_v2("x", &device));
	ASSERT_EQ(NVML_SUCCESS, p_nvmlDeviceGetHandleByIndex_v2(0, &device));
	wrong = (nvmlDevice_t)((char *)device + 1);
	EXPECT_EQ(NVML_ERROR_INVALID_ARGUMENT, p_nvmlDeviceGetMemoryInfo(wrong, &memory));
	EXPECT_EQ(NVML_ERROR_INVALID_ARGUMENT, p_nvmlDeviceGetMemoryInfo(NULL, &memory));
	EXPECT_EQ(NVML_ERROR_INVALID_ARGUMENT, p_nvmlDeviceGetMemoryInfo(device, NULL));
	EXPECT_EQ(NVML_ERROR_INVALID_ARGUMENT, p_nvmlDeviceGetPciInfo_v3(NULL, &pci));
	EXPECT_EQ(NVML_ERROR_INSUFFICIENT_SIZE,
		  p_nvmlDeviceGetUUID(device, text, sizeof(text)));
	EXPECT_EQ(NVML_SUCCESS, p_nvmlShutdown());
}

/* One who may not open a node is told that, not that there is no driver. */
TEST_F(nvml, without_permission)
{
	int pid = fork(), status;

	ASSERT_LE(0, pid);
	if (!pid) {
		if (setresuid(65534, 65534, 65534))
			_exit(100);
		if (!access("/dev/gpumem0", R_OK | W_OK))
			_exit(p_nvmlInit_v2() == NVML_SUCCESS ? 0 : 101);
		_exit(p_nvmlInit_v2() == NVML_ERROR_NO_PERMISSION ? 0 : 102);
	}
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	EXPECT_EQ(0, status);
}

TEST_HARNESS_MAIN
