// SPDX-License-Identifier: MIT
/*
 * libnvidia-ml.so.1: initialization, devices, memory.
 *
 * Owns the list of devices. nvmlInit() opens each device's node and keeps the kernel's description
 * of the device. Each query of memory asks the kernel again; all other queries use the description.
 * The files of nvml/ open device nodes of their own and use no state of cuInit(): a program that
 * calls only the management library is no CUDA client.
 *
 * Every function returns UNINITIALIZED before nvmlInit() and after nvmlShutdown(), except
 * nvmlErrorString() and nvmlSystemGetCudaDriverVersion(). Functions that the library does not have
 * are in nvml_absent.c and return NOT_SUPPORTED.
 *
 * Locks: lock, for initialization and shutdown. The list is constant in between and read without it.
 *
 * Vocabulary: index, a device's place in the list, which is in order of the nodes' numbers.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/gpumem.h>

#include "abi/release.h"
#include "nvml_private.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
struct nvmlDevice_st nvml_devices[GPUMEM_MAX_DEVICES];	/* lock; constant while @uses */
unsigned int nvml_count;				/* lock; constant while @uses */
static unsigned int uses;					/* lock to write; atomic */

bool nvml_initialized(void)
{
	return __atomic_load_n(&uses, __ATOMIC_ACQUIRE);
}

static bool device_valid(nvmlDevice_t device)
{
	uintptr_t at = (uintptr_t)device - (uintptr_t)nvml_devices;

	return at < nvml_count * sizeof(*nvml_devices) && !(at % sizeof(*nvml_devices));
}

/* The first check of every function that takes a device. */
nvmlReturn_t nvml_check(nvmlDevice_t device, const void *out)
{
	if (!nvml_initialized())
		return NVML_ERROR_UNINITIALIZED;
	return device_valid(device) && out ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvml_give(char *to, unsigned int length, const char *text)
{
	size_t size = strlen(text) + 1;

	if (!nvml_initialized())
		return NVML_ERROR_UNINITIALIZED;
	if (!to || !length)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (length < size)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	memcpy(to, text, size);
	return NVML_SUCCESS;
}

static void close_all(void)
{
	while (nvml_count)
		close(nvml_devices[--nvml_count].fd);
}

/* Open all devices. Returns 0 or, if no device opens, the errno that says why. */
static int open_all(void)
{
	unsigned int ordinal;
	int error = ENOENT;

	for (ordinal = 0; ordinal < GPUMEM_MAX_DEVICES; ordinal++) {
		struct nvmlDevice_st *device = &nvml_devices[nvml_count];
		char path[32];

		snprintf(path, sizeof(path), "/dev/gpumem%u", ordinal);
		device->fd = open(path, O_RDWR | O_CLOEXEC);
		if (device->fd < 0) {
			if (errno != ENOENT)
				error = errno;
			continue;
		}
		memset(&device->info, 0, sizeof(device->info));
		device->info.size = sizeof(device->info);
		if (ioctl(device->fd, GPUMEM_INFO, &device->info)) {
			error = errno;
			close(device->fd);
			continue;
		}
		nvml_count++;
	}
	return nvml_count ? 0 : error;
}

/** nvmlInitWithFlags - initialize the library; each success needs one nvmlShutdown() */
EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
	nvmlReturn_t result = NVML_SUCCESS;
	int error;

	pthread_mutex_lock(&lock);
	if (!uses) {
		error = open_all();
		if (error && !(flags & NVML_INIT_FLAG_NO_GPUS))
			result = error == EACCES || error == EPERM ? NVML_ERROR_NO_PERMISSION :
				error == ENOENT || error == ENXIO || error == ENODEV ?
				NVML_ERROR_DRIVER_NOT_LOADED : NVML_ERROR_OPERATING_SYSTEM;
	}
	if (!result)
		__atomic_store_n(&uses, uses + 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&lock);
	return result;
}

/** nvmlInit_v2 - nvmlInitWithFlags() without flags */
EXPORT nvmlReturn_t nvmlInit_v2(void)
{
	return nvmlInitWithFlags(0);
}

/** nvmlInit - nvmlInitWithFlags() without flags */
EXPORT nvmlReturn_t nvmlInit(void)
{
	return nvmlInitWithFlags(0);
}

/** nvmlShutdown - undo one nvmlInit(); the last shutdown closes the devices */
EXPORT nvmlReturn_t nvmlShutdown(void)
{
	nvmlReturn_t result = NVML_ERROR_UNINITIALIZED;

	pthread_mutex_lock(&lock);
	if (uses) {
		__atomic_store_n(&uses, uses - 1, __ATOMIC_RELEASE);
		if (!uses)
			close_all();
		result = NVML_SUCCESS;
	}
	pthread_mutex_unlock(&lock);
	return result;
}

/** nvmlErrorString - a result in words; never NULL */
EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
	switch (result) {
	case NVML_SUCCESS:
		return "Success";
	case NVML_ERROR_UNINITIALIZED:
		return "Uninitialized";
	case NVML_ERROR_INVALID_ARGUMENT:
		return "Invalid Argument";
	case NVML_ERROR_NOT_SUPPORTED:
		return "Not Supported";
	case NVML_ERROR_NO_PERMISSION:
		return "Insufficient Permissions";
	case NVML_ERROR_ALREADY_INITIALIZED:
		return "Already Initialized";
	case NVML_ERROR_NOT_FOUND:
		return "Not Found";
	case NVML_ERROR_INSUFFICIENT_SIZE:
		return "Insufficient Size";
	case NVML_ERROR_INSUFFICIENT_POWER:
		return "Insufficient External Power";
	case NVML_ERROR_DRIVER_NOT_LOADED:
		return "Driver Not Loaded";
	case NVML_ERROR_TIMEOUT:
		return "Timeout";
	case NVML_ERROR_IRQ_ISSUE:
		return "Interrupt Request Issue";
	case NVML_ERROR_LIBRARY_NOT_FOUND:
		return "NVML Shared Library Not Found";
	case NVML_ERROR_FUNCTION_NOT_FOUND:
		return "Function Not Found";
	case NVML_ERROR_CORRUPTED_INFOROM:
		return "Corrupted infoROM";
	case NVML_ERROR_GPU_IS_LOST:
		return "GPU is lost";
	case NVML_ERROR_RESET_REQUIRED:
		return "GPU requires restart";
	case NVML_ERROR_OPERATING_SYSTEM:
		return "The operating system has blocked the request.";
	case NVML_ERROR_LIB_RM_VERSION_MISMATCH:
		return "RM has detected an NVML/RM version mismatch.";
	case NVML_ERROR_IN_USE:
		return "In use by another client";
	case NVML_ERROR_MEMORY:
		return "Insufficient Memory";
	case NVML_ERROR_NO_DATA:
		return "No data";
	case NVML_ERROR_ARGUMENT_VERSION_MISMATCH:
		return "Argument version mismatch";
	case NVML_ERROR_UNKNOWN:
		break;
	}
	return "Unknown Error";
}

/** nvmlSystemGetDriverVersion - the version of NVIDIA's driver whose interface this library has */
EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
	return nvml_give(version, length, release_driver);
}

/** nvmlSystemGetNVMLVersion - the version of the management library's interface */
EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
	return nvml_give(version, length, release_nvml);
}

/** nvmlSystemGetCudaDriverVersion_v2 - 1000 * major + 10 * minor; needs no nvmlInit() */
EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	if (!version)
		return NVML_ERROR_INVALID_ARGUMENT;
	*version = release_cuda;
	return NVML_SUCCESS;
}

/** nvmlSystemGetCudaDriverVersion - the same */
EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version)
{
	return nvmlSystemGetCudaDriverVersion_v2(version);
}

/** nvmlDeviceGetCount_v2 - the number of devices whose nodes this process may open */
EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *number)
{
	if (!nvml_initialized())
		return NVML_ERROR_UNINITIALIZED;
	if (!number)
		return NVML_ERROR_INVALID_ARGUMENT;
	*number = nvml_count;
	return NVML_SUCCESS;
}

/** nvmlDeviceGetCount - the same */
EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned int *number)
{
	return nvmlDeviceGetCount_v2(number);
}

/** nvmlDeviceGetHandleByIndex_v2 - the device with an index from 0 to the count minus 1 */
EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device)
{
	if (!nvml_initialized())
		return NVML_ERROR_UNINITIALIZED;
	if (!device || index >= nvml_count)
		return NVML_ERROR_INVALID_ARGUMENT;
	*device = &nvml_devices[index];
	return NVML_SUCCESS;
}

/** nvmlDeviceGetHandleByIndex - the same */
EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device)
{
	return nvmlDeviceGetHandleByIndex_v2(index, device);
}

static void uuid_text(const struct nvmlDevice_st *device, char text[64])
{
	const __u8 *u = device->info.uuid;

	snprintf(text, 64, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
		 u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12],
		 u[13], u[14], u[15]);
}

/** nvmlDeviceGetHandleByUUID - the device with a UUID: "GPU-" and 32 hexadecimal digits with four hyphens */
EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device)
{
	unsigned int i;
	char text[64];

	if (!nvml_initialized())
		return NVML_ERROR_UNINITIALIZED;
	if (!uuid || !device)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (i = 0; i < nvml_count; i++) {
		uuid_text(&nvml_devices[i], text);
		if (!strcasecmp(text, uuid)) {
			*device = &nvml_devices[i];
			return NVML_SUCCESS;
		}
	}
	return NVML_ERROR_NOT_FOUND;
}

/** nvmlDeviceGetHandleByPciBusId_v2 - the device with a bus id, domain:bus:device.function */
EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *id, nvmlDevice_t *device)
{
	unsigned int domain, bus, dev, function, i;
	char end;

	if (!nvml_initialized())
		return NVML_ERROR_UNINITIALIZED;
	if (!id || !device ||
	    sscanf(id, "%8x:%2x:%2x.%1x%c", &domain, &bus, &dev, &function, &end) != 4)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (i = 0; i < nvml_count; i++) {
		unsigned int ordinal = nvml_devices[i].info.ordinal;

		if (domain == PCI_DOMAIN && bus == (ordinal & 0xff) &&
		    dev == (ordinal >> 8 & 0x1f) && !function) {
			*device = &nvml_devices[i];
			return NVML_SUCCESS;
		}
	}
	return NVML_ERROR_NOT_FOUND;
}

/** nvmlDeviceGetHandleByPciBusId - the same */
EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *id, nvmlDevice_t *device)
{
	return nvmlDeviceGetHandleByPciBusId_v2(id, device);
}

/** nvmlDeviceGetIndex - a device's index, as nvmlDeviceGetHandleByIndex() takes it */
EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index)
{
	nvmlReturn_t result = nvml_check(device, index);

	if (!result)
		*index = device - nvml_devices;
	return result;
}

/** nvmlDeviceGetMinorNumber - N of /dev/gpumemN */
EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *number)
{
	nvmlReturn_t result = nvml_check(device, number);

	if (!result)
		*number = device->info.ordinal;
	return result;
}

/** nvmlDeviceGetName - as cuDeviceGetName() */
EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length)
{
	nvmlReturn_t result = nvml_check(device, name);
	char text[64];

	if (result)
		return result;
	snprintf(text, sizeof(text), "gpumem software GPU (%.15s)",
		 (const char *)device->info.engine);
	return nvml_give(name, length, text);
}

/** nvmlDeviceGetUUID - as cuDeviceGetUuid(), in text */
EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length)
{
	nvmlReturn_t result = nvml_check(device, uuid);
	char text[64];

	if (result)
		return result;
	uuid_text(device, text);
	return nvml_give(uuid, length, text);
}

/** nvmlDeviceGetPciInfo_v3 - as cuDeviceGetPCIBusId() */
EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	nvmlReturn_t result = nvml_check(device, pci);

	if (result)
		return result;
	memset(pci, 0, sizeof(*pci));
	pci->domain = PCI_DOMAIN;
	pci->bus = device->info.ordinal & 0xff;
	pci->device = device->info.ordinal >> 8 & 0x1f;
	snprintf(pci->busId, sizeof(pci->busId), "%08X:%02X:%02X.0", pci->domain, pci->bus,
		 pci->device);
	snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "%04X:%02X:%02X.0",
		 PCI_DOMAIN, pci->bus & 0xff, pci->device & 0x1f);
	return NVML_SUCCESS;
}

/** nvmlDeviceGetPciInfo_v2 - the same */
EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	return nvmlDeviceGetPciInfo_v3(device, pci);
}

nvmlReturn_t nvml_ask(nvmlDevice_t device, struct gpumem_info *info)
{
	memset(info, 0, sizeof(*info));
	info->size = sizeof(*info);
	if (!ioctl(device->fd, GPUMEM_INFO, info))
		return NVML_SUCCESS;
	/* The kernel refuses a forked child's call on its parent's file: the child must call nvmlInit(). */
	return errno == EPERM ? NVML_ERROR_UNINITIALIZED : NVML_ERROR_UNKNOWN;
}

/** nvmlDeviceGetMemoryInfo - bytes of the device's memory, and the bytes that all processes use */
EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory)
{
	nvmlReturn_t result = nvml_check(device, memory);
	struct gpumem_info info;

	result = result ? result : nvml_ask(device, &info);
	if (result)
		return result;
	memory->total = info.total;
	memory->used = info.used;
	memory->free = nvml_free_bytes(&info);
	return NVML_SUCCESS;
}

/** nvmlDeviceGetMemoryInfo_v2 - the same; nothing is reserved */
EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory)
{
	nvmlReturn_t result = nvml_check(device, memory);
	struct gpumem_info info;

	if (!result && memory->version != nvmlMemory_v2)
		result = NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
	result = result ? result : nvml_ask(device, &info);
	if (result)
		return result;
	memory->total = info.total;
	memory->reserved = 0;
	memory->used = info.used;
	memory->free = nvml_free_bytes(&info);
	return NVML_SUCCESS;
}

/** nvmlDeviceGetCudaComputeCapability - as the attributes of libcuda */
EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
	nvmlReturn_t result = nvml_check(device, major);

	if (!result && !minor)
		result = NVML_ERROR_INVALID_ARGUMENT;
	if (result)
		return result;
	*major = 9;
	*minor = 0;
	return NVML_SUCCESS;
}
