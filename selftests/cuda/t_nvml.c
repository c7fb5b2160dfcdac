// SPDX-License-Identifier: GPL-2.0
/*
 * Tests libnvidia-ml.so.1: it reports the same as libgpumem and the kernel, and returns the right
 * errors, also to programs that may not open a device.
 */
#include <dlfcn.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cuda.h>
#include <nvml.h>

#include "kselftest_harness.h"
#include "common/limits_util.h"
#include "common/util.h"
#include "compat_util.h"

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
	X(nvmlDeviceGetCudaComputeCapability)			\
	X(nvmlDeviceGetBAR1MemoryInfo) X(nvmlDeviceGetPciInfo)	\
	X(nvmlDeviceGetPciInfoExt) X(nvmlSystemGetProcessName)	\
	X(nvmlDeviceGetComputeRunningProcesses)			\
	X(nvmlDeviceGetComputeRunningProcesses_v2)		\
	X(nvmlDeviceGetComputeRunningProcesses_v3)		\
	X(nvmlDeviceGetGraphicsRunningProcesses_v3)		\
	X(nvmlDeviceGetNvLinkState)				\
	X(nvmlDeviceGetNvLinkCapability)			\
	X(nvmlDeviceGetNvLinkRemoteDeviceType)			\
	X(nvmlDeviceGetNvLinkRemotePciInfo)			\
	X(nvmlDeviceGetNvLinkRemotePciInfo_v2)			\
	X(nvmlDeviceGetP2PStatus)				\
	X(nvmlDeviceGetTopologyCommonAncestor)			\
	X(nvmlDeviceGetTopologyNearestGpus)			\
	X(nvmlDeviceGetGpuFabricInfo)				\
	X(nvmlDeviceGetGpuFabricInfoV)				\
	X(nvmlDeviceGetFieldValues) X(nvmlDeviceGetComputeMode)	\
	X(nvmlDeviceIsMigDeviceHandle) X(nvmlUnitGetCount)	\
	X(nvmlSystemGetDriverBranch) X(nvmlDeviceGetNumaNodeId)	\
	X(nvmlDeviceGetCpuAffinity) X(nvmlDeviceGetMemoryAffinity)	\
	X(nvmlDeviceSetCpuAffinity) X(nvmlDeviceClearCpuAffinity)

#define POINTER(name) static __typeof__(name) *p_##name;
NAMES(POINTER)

/* Functions that report that a device lacks a feature; no header declares them. */
#define ABSENT(X)						\
	X(nvmlDeviceGetTemperature) X(nvmlDeviceGetPowerUsage)	\
	X(nvmlDeviceGetPersistenceMode) X(nvmlDeviceGetMigMode)	\
	X(nvmlDeviceGetUtilizationRates) X(nvmlVgpuTypeGetName)	\
	X(nvmlDeviceReadPRMCounters_v1)

#define POINTER_ABSENT(name) static nvmlReturn_t (*p_##name)(void);
ABSENT(POINTER_ABSENT)

static bool load(void)
{
	void *lib = compat_load("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!lib)
		return false;
#define LOOK_UP(name)							\
	p_##name = (__typeof__(p_##name))dlsym(lib, #name);	\
	if (!p_##name) {						\
		fprintf(stderr, "# no %s\n", #name);			\
		return false;						\
	}
	NAMES(LOOK_UP)
	ABSENT(LOOK_UP)
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
	EXPECT_EQ(0, strncmp(text, "610.", 4));
	EXPECT_EQ(NVML_ERROR_INSUFFICIENT_SIZE, p_nvmlSystemGetDriverVersion(text, 2));
	EXPECT_EQ(NVML_SUCCESS, p_nvmlSystemGetNVMLVersion(text, sizeof(text)));
	EXPECT_EQ(NVML_SUCCESS, p_nvmlShutdown());
	EXPECT_EQ(NVML_ERROR_UNINITIALIZED, p_nvmlDeviceGetCount_v2(&n));
	EXPECT_STREQ("Driver Not Loaded", p_nvmlErrorString(NVML_ERROR_DRIVER_NOT_LOADED));
	EXPECT_STREQ("Unknown Error", p_nvmlErrorString((nvmlReturn_t)12345));
}

/* NVML and the driver API agree.  No fixture: libgpumem's client lives until the process ends. */
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

/* The administrator makes the device smaller than the memory in use: no memory is free. */
TEST_F(nvml, memory_of_a_shrunk_device)
{
	nvmlMemory_v2_t two = { .version = nvmlMemory_v2 };
	nvmlBAR1Memory_t bar1;
	nvmlDevice_t device;
	nvmlMemory_t memory;
	char size[32];
	__u32 bo;
	int fd;

	ASSERT_EQ(NVML_SUCCESS, p_nvmlInit_v2());
	ASSERT_EQ(NVML_SUCCESS, p_nvmlDeviceGetHandleByIndex_v2(0, &device));
	ASSERT_EQ(0, dev_attr_text(0, "size", size, sizeof(size)));
	fd = gp_open(0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, gp_bo_alloc(fd, 4 * MIB, &bo));
	if (write_dev_attr(0, "size", "2M")) {
		close(fd);
		SKIP(return, "needs root");
	}
	EXPECT_EQ(NVML_SUCCESS, p_nvmlDeviceGetMemoryInfo(device, &memory));
	EXPECT_EQ(NVML_SUCCESS, p_nvmlDeviceGetMemoryInfo_v2(device, &two));
	EXPECT_EQ(NVML_SUCCESS, p_nvmlDeviceGetBAR1MemoryInfo(device, &bar1));
	EXPECT_EQ(0, write_dev_attr(0, "size", size));
	EXPECT_EQ(2 * MIB, memory.total);
	EXPECT_LE(4 * MIB, memory.used);
	EXPECT_EQ(0, memory.free);
	EXPECT_EQ(0, two.free);
	EXPECT_EQ(0, bar1.bar1Free);
	close(fd);
	EXPECT_EQ(NVML_SUCCESS, p_nvmlShutdown());
}

/* Every device has a link to every other one. */
TEST_F(nvml, connections)
{
	nvmlGpuFabricInfo_v3_t fabric = { .version = nvmlGpuFabricInfo_v3 };
	nvmlFieldValue_t fields[3] = {
		{ .fieldId = NVML_FI_DEV_NVLINK_LINK_COUNT }, { .fieldId = 1 },
		{ .fieldId = 100000 },
	};
	nvmlDevice_t devices[GPUMEM_MAX_DEVICES], near[GPUMEM_MAX_DEVICES];
	nvmlIntNvLinkDeviceType_t type;
	nvmlGpuTopologyLevel_t level;
	nvmlGpuP2PStatus_t status = NVML_P2P_STATUS_UNKNOWN;
	nvmlEnableState_t active;
	nvmlPciInfo_t pci;
	unsigned int n, count, value;

	ASSERT_EQ(NVML_SUCCESS, p_nvmlInit_v2());
	ASSERT_EQ(NVML_SUCCESS, p_nvmlDeviceGetCount_v2(&n));
	for (unsigned int i = 0; i < n; i++)
		ASSERT_EQ(NVML_SUCCESS, p_nvmlDeviceGetHandleByIndex_v2(i, &devices[i]));
	for (unsigned int i = 0; i < n; i++) {
		unsigned int seen = 0;

		EXPECT_EQ(NVML_SUCCESS, p_nvmlDeviceGetFieldValues(devices[i], 3, fields));
		EXPECT_EQ(NVML_SUCCESS, fields[0].nvmlReturn);
		EXPECT_EQ(n - 1, fields[0].value.uiVal);
		EXPECT_EQ(NVML_ERROR_NOT_SUPPORTED, fields[1].nvmlReturn);
		EXPECT_EQ(NVML_ERROR_INVALID_ARGUMENT, fields[2].nvmlReturn);
		for (unsigned int link = 0; link < n - 1; link++) {
			EXPECT_EQ(NVML_SUCCESS,
				  p_nvmlDeviceGetNvLinkState(devices[i], link, &active));
			EXPECT_EQ(NVML_FEATURE_ENABLED, active);
			EXPECT_EQ(NVML_SUCCESS,
				  p_nvmlDeviceGetNvLinkCapability(devices[i], link,
								  NVML_NVLINK_CAP_P2P_SUPPORTED,
								  &value));
			EXPECT_EQ(1, value);
			EXPECT_EQ(NVML_SUCCESS,
				  p_nvmlDeviceGetNvLinkRemoteDeviceType(devices[i], link, &type));
			EXPECT_EQ(NVML_NVLINK_DEVICE_TYPE_GPU, type);
			ASSERT_EQ(NVML_SUCCESS,
				  p_nvmlDeviceGetNvLinkRemotePciInfo_v2(devices[i], link, &pci));
			EXPECT_NE(i, pci.bus);
			EXPECT_EQ(0, seen & 1u << pci.bus);
			seen |= 1u << pci.bus;
		}
		EXPECT_EQ(NVML_ERROR_NOT_SUPPORTED,
			  p_nvmlDeviceGetNvLinkState(devices[i], n - 1, &active));
		EXPECT_EQ(NVML_ERROR_INVALID_ARGUMENT,
			  p_nvmlDeviceGetNvLinkState(devices[i], 1000, &active));
		count = 0;
		EXPECT_EQ(NVML_SUCCESS,
			  p_nvmlDeviceGetTopologyNearestGpus(devices[i], NVML_TOPOLOGY_SINGLE,
							     &count, NULL));
		EXPECT_EQ(n - 1, count);
		EXPECT_EQ(NVML_SUCCESS,
			  p_nvmlDeviceGetTopologyNearestGpus(devices[i], NVML_TOPOLOGY_SINGLE,
							     &count, near));
		for (unsigned int other = 0; other < n; other++) {
			EXPECT_EQ(NVML_SUCCESS,
				  p_nvmlDeviceGetTopologyCommonAncestor(devices[i], devices[other],
									&level));
			EXPECT_EQ(other == i ? NVML_TOPOLOGY_INTERNAL : NVML_TOPOLOGY_SINGLE, level);
			EXPECT_EQ(other == i ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS,
				  p_nvmlDeviceGetP2PStatus(devices[i], devices[other],
							   NVML_P2P_CAPS_INDEX_READ, &status));
			if (other != i)
				EXPECT_EQ(NVML_P2P_STATUS_OK, status);
		}
	}
	EXPECT_EQ(NVML_SUCCESS, p_nvmlDeviceGetGpuFabricInfoV(devices[0], &fabric));
	EXPECT_EQ(NVML_GPU_FABRIC_STATE_NOT_SUPPORTED, fabric.state);
	/* What a client compares it with. */
	EXPECT_EQ(3, NVML_GPU_FABRIC_STATE_COMPLETED);
	fabric.version = 1;
	EXPECT_EQ(NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
		  p_nvmlDeviceGetGpuFabricInfoV(devices[0], &fabric));
	EXPECT_EQ(NVML_SUCCESS, p_nvmlShutdown());
}

/* NVML lists the processes that use a device.  A process that only calls NVML does not use it. */
TEST_F(nvml, processes)
{
	nvmlProcessInfo_v1_t first;
	nvmlProcessInfo_t infos[8];
	nvmlBAR1Memory_t bar1;
	unsigned int count = 0;
	nvmlDevice_t device;
	char name[64];
	__u32 bo;
	int fd;

	ASSERT_EQ(NVML_SUCCESS, p_nvmlInit_v2());
	ASSERT_EQ(NVML_SUCCESS, p_nvmlDeviceGetHandleByIndex_v2(0, &device));
	EXPECT_EQ(NVML_SUCCESS, p_nvmlDeviceGetComputeRunningProcesses_v3(device, &count, NULL));
	EXPECT_EQ(0, count);
	fd = gp_open(0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, gp_bo_alloc(fd, 4 * MIB, &bo));
	EXPECT_EQ(NVML_ERROR_INSUFFICIENT_SIZE,
		  p_nvmlDeviceGetComputeRunningProcesses_v3(device, &count, NULL));
	EXPECT_EQ(1, count);
	count = 8;
	ASSERT_EQ(NVML_SUCCESS, p_nvmlDeviceGetComputeRunningProcesses_v3(device, &count, infos));
	ASSERT_EQ(1, count);
	EXPECT_EQ((unsigned int)getpid(), infos[0].pid);
	EXPECT_EQ(4 * MIB, infos[0].usedGpuMemory);
	EXPECT_EQ(~0u, infos[0].gpuInstanceId);
	ASSERT_EQ(NVML_SUCCESS, p_nvmlDeviceGetComputeRunningProcesses(device, &count, &first));
	EXPECT_EQ((unsigned int)getpid(), first.pid);
	EXPECT_EQ(4 * MIB, first.usedGpuMemory);
	EXPECT_EQ(NVML_SUCCESS, p_nvmlSystemGetProcessName(first.pid, name, sizeof(name)));
	EXPECT_NE(NULL, strstr(name, "t_nvml"));
	EXPECT_EQ(NVML_ERROR_NOT_FOUND, p_nvmlSystemGetProcessName(1 << 30, name, sizeof(name)));
	count = 8;
	EXPECT_EQ(NVML_SUCCESS, p_nvmlDeviceGetGraphicsRunningProcesses_v3(device, &count, infos));
	EXPECT_EQ(0, count);
	ASSERT_EQ(NVML_SUCCESS, p_nvmlDeviceGetBAR1MemoryInfo(device, &bar1));
	EXPECT_EQ((unsigned long long)dev_attr(0, "size"), bar1.bar1Total);
	EXPECT_LE(4 * MIB, bar1.bar1Used);
	EXPECT_EQ(bar1.bar1Total, bar1.bar1Used + bar1.bar1Free);
	close(fd);
	EXPECT_EQ(NVML_SUCCESS, p_nvmlShutdown());
}

/* The bytes that NVML reports for this process on a device; -1 if the process is not listed. */
static long long my_bytes(unsigned int ordinal)
{
	nvmlProcessInfo_t infos[8];
	unsigned int count = 8;
	nvmlDevice_t device;

	if (p_nvmlDeviceGetHandleByIndex_v2(ordinal, &device) ||
	    p_nvmlDeviceGetComputeRunningProcesses_v3(device, &count, infos))
		return -2;
	for (unsigned int i = 0; i < count; i++)
		if (infos[i].pid == (unsigned int)getpid())
			return infos[i].usedGpuMemory;
	return -1;
}

/* The memory of a client that uses two devices counts for the device that has it, and for no device twice. */
TEST_F(nvml, processes_of_two_devices)
{
	int fd, other, duplicate;
	__u32 index, first, second;

	ASSERT_EQ(NVML_SUCCESS, p_nvmlInit_v2());
	fd = gp_open(0);
	other = gp_open(1);
	ASSERT_LE(0, fd);
	ASSERT_LE(0, other);
	ASSERT_EQ(0, gp_attach(fd, other, &index));
	close(other);
	EXPECT_EQ(-1, my_bytes(0));
	EXPECT_EQ(-1, my_bytes(1));
	ASSERT_EQ(0, gp_bo_alloc_on(fd, index, 8 * MIB, &second));
	EXPECT_EQ(0, my_bytes(0));
	EXPECT_EQ(8 * MIB, my_bytes(1));
	ASSERT_EQ(0, gp_bo_alloc(fd, 4 * MIB, &first));
	duplicate = dup(fd);
	EXPECT_EQ(4 * MIB, my_bytes(0));
	EXPECT_EQ(8 * MIB, my_bytes(1));
	close(duplicate);
	ASSERT_EQ(0, gp_destroy(fd, second));
	EXPECT_EQ(4 * MIB, my_bytes(0));
	EXPECT_EQ(-1, my_bytes(1));
	close(fd);
	EXPECT_EQ(NVML_SUCCESS, p_nvmlShutdown());
}

/* The CPUs and memory of the device's node, or those of all nodes if the device has none. */
TEST_F(nvml, affinity)
{
	unsigned long cpus[16] = { 0 }, nodes[16] = { 0 };
	long count = sysconf(_SC_NPROCESSORS_CONF);
	int node = dev_attr(0, "node"), set = 0;
	nvmlDevice_t device;
	unsigned int n = 7;

	ASSERT_EQ(NVML_SUCCESS, p_nvmlInit_v2());
	ASSERT_EQ(NVML_SUCCESS, p_nvmlDeviceGetHandleByIndex_v2(0, &device));
	ASSERT_EQ(NVML_SUCCESS, p_nvmlDeviceGetCpuAffinity(device, 16, cpus));
	for (unsigned int i = 0; i < 1024; i++)
		set += cpus[i / 64] >> i % 64 & 1;
	EXPECT_LT(0, set);
	EXPECT_LE(set, count);
	ASSERT_EQ(NVML_SUCCESS,
		  p_nvmlDeviceGetMemoryAffinity(device, 16, nodes, NVML_AFFINITY_SCOPE_NODE));
	EXPECT_NE(0, nodes[0]);
	EXPECT_EQ(node < 0 ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS,
		  p_nvmlDeviceGetNumaNodeId(device, &n));
	if (node >= 0) {
		EXPECT_EQ((unsigned int)node, n);
		EXPECT_EQ(1ul << node, nodes[0]);
	}
	EXPECT_EQ(NVML_ERROR_INVALID_ARGUMENT, p_nvmlDeviceGetCpuAffinity(device, 0, cpus));
	EXPECT_EQ(NVML_SUCCESS, p_nvmlShutdown());
}

/* Set binds the calling thread to the device's CPUs, and clear to all that the machine has. */
TEST_F(nvml, bind_thread)
{
	unsigned long cpus[CPU_SETSIZE / 64] = { 0 };
	cpu_set_t all, one, now;
	nvmlDevice_t device;

	ASSERT_EQ(0, sched_getaffinity(0, sizeof(all), &all));
	CPU_ZERO(&one);
	for (int i = CPU_SETSIZE - 1; i >= 0 && !CPU_COUNT(&one); i--)
		if (CPU_ISSET(i, &all))
			CPU_SET(i, &one);
	EXPECT_EQ(NVML_ERROR_UNINITIALIZED, p_nvmlDeviceSetCpuAffinity(NULL));
	EXPECT_EQ(NVML_ERROR_UNINITIALIZED, p_nvmlDeviceClearCpuAffinity(NULL));
	ASSERT_EQ(NVML_SUCCESS, p_nvmlInit_v2());
	ASSERT_EQ(NVML_SUCCESS, p_nvmlDeviceGetHandleByIndex_v2(0, &device));
	EXPECT_EQ(NVML_ERROR_INVALID_ARGUMENT, p_nvmlDeviceSetCpuAffinity(NULL));
	EXPECT_EQ(NVML_ERROR_INVALID_ARGUMENT, p_nvmlDeviceClearCpuAffinity(NULL));
	ASSERT_EQ(NVML_SUCCESS, p_nvmlDeviceGetCpuAffinity(device, CPU_SETSIZE / 64, cpus));

	ASSERT_EQ(0, sched_setaffinity(0, sizeof(one), &one));
	EXPECT_EQ(NVML_SUCCESS, p_nvmlDeviceSetCpuAffinity(device));
	ASSERT_EQ(0, sched_getaffinity(0, sizeof(now), &now));
	EXPECT_EQ(0, memcmp(cpus, &now, sizeof(now)));

	ASSERT_EQ(0, sched_setaffinity(0, sizeof(one), &one));
	EXPECT_EQ(NVML_SUCCESS, p_nvmlDeviceClearCpuAffinity(device));
	ASSERT_EQ(0, sched_getaffinity(0, sizeof(now), &now));
	EXPECT_EQ(0, memcmp(&all, &now, sizeof(now)));
	EXPECT_EQ(NVML_SUCCESS, p_nvmlShutdown());
}

/* Functions for features that a software GPU lacks exist, and report that. */
TEST_F(nvml, absent)
{
	nvmlSystemDriverBranchInfo_t branch = { .version = nvmlSystemDriverBranchInfo_v1 };
	nvmlPciInfoExt_t pci = { .version = nvmlPciInfoExt_v1 };
	nvmlComputeMode_t mode;
	nvmlDevice_t device;
	unsigned int n = 7;

	EXPECT_EQ(NVML_ERROR_UNINITIALIZED, p_nvmlDeviceGetTemperature());
	ASSERT_EQ(NVML_SUCCESS, p_nvmlInit_v2());
#define NOT_SUPPORTED(name)	EXPECT_EQ(NVML_ERROR_NOT_SUPPORTED, p_##name());
	ABSENT(NOT_SUPPORTED)
	ASSERT_EQ(NVML_SUCCESS, p_nvmlDeviceGetHandleByIndex_v2(0, &device));
	EXPECT_EQ(NVML_SUCCESS, p_nvmlDeviceGetComputeMode(device, &mode));
	EXPECT_EQ(NVML_COMPUTEMODE_DEFAULT, mode);
	EXPECT_EQ(NVML_SUCCESS, p_nvmlDeviceIsMigDeviceHandle(device, &n));
	EXPECT_EQ(0, n);
	n = 7;
	EXPECT_EQ(NVML_SUCCESS, p_nvmlUnitGetCount(&n));
	EXPECT_EQ(0, n);
	EXPECT_EQ(NVML_SUCCESS, p_nvmlSystemGetDriverBranch(&branch, sizeof(branch.branch)));
	EXPECT_STREQ("r610_00", branch.branch);
	EXPECT_EQ(NVML_SUCCESS, p_nvmlDeviceGetPciInfoExt(device, &pci));
	EXPECT_EQ(3, pci.baseClass);
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

/* A process that may not open a node gets NO_PERMISSION, not the error for a missing driver. */
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
