// SPDX-License-Identifier: MIT
/*
 * The management library: properties of a software GPU.
 *
 * Owns nothing. Queries with the same answer for every device of this driver are here, with the answer. Queries
 * of a part that the device lacks are in nvml_absent.c.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "abi/release.h"
#include "nvml_private.h"

/** nvmlDeviceGetBAR1MemoryInfo - as nvmlDeviceGetMemoryInfo(), because processes can map all device memory */
EXPORT nvmlReturn_t nvmlDeviceGetBAR1MemoryInfo(nvmlDevice_t device, nvmlBAR1Memory_t *memory)
{
	nvmlReturn_t result = nvml_check(device, memory);
	struct gpumem_info info;

	result = result ? result : nvml_ask(device, &info);
	if (result)
		return result;
	memory->bar1Total = info.total;
	memory->bar1Used = info.used;
	memory->bar1Free = nvml_free_bytes(&info);
	return NVML_SUCCESS;
}

/** nvmlDeviceGetPciInfo - as nvmlDeviceGetPciInfo_v3(); the first form's structure has no busId */
EXPORT nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	nvmlReturn_t result = nvml_check(device, pci);
	nvmlPciInfo_t now;

	result = result ? result : nvmlDeviceGetPciInfo_v3(device, &now);
	if (!result)
		memcpy(pci, &now, offsetof(nvmlPciInfo_t, busId));
	return result;
}

/** nvmlDeviceGetPciInfoExt - the same with the class of a 3D controller */
EXPORT nvmlReturn_t nvmlDeviceGetPciInfoExt(nvmlDevice_t device, nvmlPciInfoExt_t *pci)
{
	nvmlReturn_t result = nvml_check(device, pci);
	nvmlPciInfo_t now;

	if (!result && pci->version != nvmlPciInfoExt_v1)
		result = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	result = result ? result : nvmlDeviceGetPciInfo_v3(device, &now);
	if (result)
		return result;
	*pci = (nvmlPciInfoExt_t) {
		.version = nvmlPciInfoExt_v1, .domain = now.domain, .bus = now.bus,
		.device = now.device, .baseClass = 0x03, .subClass = 0x02,
	};
	memcpy(pci->busId, now.busId, sizeof(pci->busId));
	return NVML_SUCCESS;
}

/** nvmlDeviceGetNumaNodeId - the NUMA node of the device's memory; NOT_SUPPORTED if there is none */
EXPORT nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned int *node)
{
	nvmlReturn_t result = nvml_check(device, node);

	if (!result && device->info.node < 0)
		result = NVML_ERROR_NOT_SUPPORTED;
	if (!result)
		*node = device->info.node;
	return result;
}

/* Functions with one output, which is the same for every device. */
#define CONSTANT(name, type, value)					\
	EXPORT nvmlReturn_t name(nvmlDevice_t device, type *out)	\
	{								\
		nvmlReturn_t result = nvml_check(device, out);		\
									\
		if (!result)						\
			*out = value;					\
		return result;						\
	}

/** nvmlDeviceGetArchitecture - the architecture of the compute capability that CUDA reports */
CONSTANT(nvmlDeviceGetArchitecture, nvmlDeviceArchitecture_t, NVML_DEVICE_ARCH_HOPPER)
/** nvmlDeviceGetBrand - unknown */
CONSTANT(nvmlDeviceGetBrand, nvmlBrandType_t, NVML_BRAND_UNKNOWN)
/** nvmlDeviceGetBusType - unknown */
CONSTANT(nvmlDeviceGetBusType, nvmlBusType_t, NVML_BUS_TYPE_UNKNOWN)
/** nvmlDeviceGetComputeMode - any number of contexts */
CONSTANT(nvmlDeviceGetComputeMode, nvmlComputeMode_t, NVML_COMPUTEMODE_DEFAULT)
/** nvmlDeviceGetDisplayMode - no display */
CONSTANT(nvmlDeviceGetDisplayMode, nvmlEnableState_t, NVML_FEATURE_DISABLED)
/** nvmlDeviceGetDisplayActive - no display */
CONSTANT(nvmlDeviceGetDisplayActive, nvmlEnableState_t, NVML_FEATURE_DISABLED)
/** nvmlDeviceGetMaxMigDeviceCount - 0: a device cannot be divided */
CONSTANT(nvmlDeviceGetMaxMigDeviceCount, unsigned int, 0)
/** nvmlDeviceIsMigDeviceHandle - 0: every handle is a whole device's */
CONSTANT(nvmlDeviceIsMigDeviceHandle, unsigned int, 0)
/** nvmlDeviceGetMultiGpuBoard - 0: each board has one device */
CONSTANT(nvmlDeviceGetMultiGpuBoard, unsigned int, 0)
/** nvmlDeviceGetVirtualizationMode - no vGPU */
CONSTANT(nvmlDeviceGetVirtualizationMode, nvmlGpuVirtualizationMode_t,
	 NVML_GPU_VIRTUALIZATION_MODE_NONE)

/* Functions that count parts of the system of which there are none. */
#define NONE_OF(name)						\
	EXPORT nvmlReturn_t name(unsigned int *number)		\
	{							\
		if (!nvml_initialized())			\
			return NVML_ERROR_UNINITIALIZED;	\
		if (!number)					\
			return NVML_ERROR_INVALID_ARGUMENT;	\
		*number = 0;					\
		return NVML_SUCCESS;				\
	}

/** nvmlUnitGetCount - 0: there are no chassis */
NONE_OF(nvmlUnitGetCount)
/** nvmlGetExcludedDeviceCount - 0: no device is excluded */
NONE_OF(nvmlGetExcludedDeviceCount)
/** nvmlGetBlacklistDeviceCount - the same under its first name */
NONE_OF(nvmlGetBlacklistDeviceCount)

/** nvmlSystemGetDriverBranch - "r" and the number before the point of the driver's version */
EXPORT nvmlReturn_t nvmlSystemGetDriverBranch(nvmlSystemDriverBranchInfo_t *branch,
					      unsigned int length)
{
	char text[16];

	if (!nvml_initialized())
		return NVML_ERROR_UNINITIALIZED;
	if (!branch)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (branch->version != nvmlSystemDriverBranchInfo_v1)
		return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	snprintf(text, sizeof(text), "r%.3s_00", release_driver);
	if (length > sizeof(branch->branch))
		length = sizeof(branch->branch);
	return nvml_give(branch->branch, length, text);
}
