// SPDX-License-Identifier: MIT
/*
 * The management library: the processors and the memory that are near a device.
 *
 * A device whose memory comes from one NUMA node is near that node. Any other device is equally near to
 * all nodes. Both scopes of the interface, node and socket, mean the node. Owns nothing.
 */
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "nvml_private.h"

#define WORD_BITS	(8 * sizeof(unsigned long))

/* Read a list of sysfs, such as "0-3,8", into a set of bits. Numbers that the set has no bit for are left out. */
static nvmlReturn_t read_set(const char *path, unsigned int words, unsigned long *set)
{
	FILE *file = fopen(path, "re");
	unsigned int first, last, at;
	bool some = false;

	if (!file)
		return NVML_ERROR_NOT_SUPPORTED;
	memset(set, 0, words * sizeof(*set));
	while (fscanf(file, "%u", &first) == 1) {
		if (fscanf(file, "-%u", &last) != 1)
			last = first;
		for (at = first; at <= last && at / WORD_BITS < words; at++)
			set[at / WORD_BITS] |= 1ul << at % WORD_BITS;
		some = true;
		if (fgetc(file) != ',')
			break;
	}
	fclose(file);
	return some ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

/** nvmlDeviceGetCpuAffinityWithinScope - the processors of the device's node, a bit each */
EXPORT nvmlReturn_t nvmlDeviceGetCpuAffinityWithinScope(nvmlDevice_t device, unsigned int words,
							unsigned long *set,
							nvmlAffinityScope_t scope)
{
	nvmlReturn_t result = nvml_check(device, set);
	char path[64] = "/sys/devices/system/cpu/online";

	if (!result && (!words || scope > NVML_AFFINITY_SCOPE_SOCKET))
		result = NVML_ERROR_INVALID_ARGUMENT;
	if (result)
		return result;
	if (device->info.node >= 0)
		snprintf(path, sizeof(path), "/sys/devices/system/node/node%d/cpulist",
			 device->info.node);
	return read_set(path, words, set);
}

/** nvmlDeviceGetCpuAffinity - the same */
EXPORT nvmlReturn_t nvmlDeviceGetCpuAffinity(nvmlDevice_t device, unsigned int words,
					     unsigned long *set)
{
	return nvmlDeviceGetCpuAffinityWithinScope(device, words, set, NVML_AFFINITY_SCOPE_NODE);
}

/* Numbers that the kernel or the thread's cpuset does not have are left out of the set. */
static nvmlReturn_t bind_thread(const unsigned long *set, size_t size)
{
	if (!sched_setaffinity(0, size, (const cpu_set_t *)set))
		return NVML_SUCCESS;
	return errno == EPERM ? NVML_ERROR_NO_PERMISSION : NVML_ERROR_UNKNOWN;
}

/** nvmlDeviceSetCpuAffinity - the calling thread runs on the processors of the device's node */
EXPORT nvmlReturn_t nvmlDeviceSetCpuAffinity(nvmlDevice_t device)
{
	unsigned long set[CPU_SETSIZE / WORD_BITS];
	nvmlReturn_t result = nvmlDeviceGetCpuAffinity(device, CPU_SETSIZE / WORD_BITS, set);

	return result ? result : bind_thread(set, sizeof(set));
}

/** nvmlDeviceClearCpuAffinity - the calling thread runs on all processors of its cpuset */
EXPORT nvmlReturn_t nvmlDeviceClearCpuAffinity(nvmlDevice_t device)
{
	nvmlReturn_t result = nvml_check(device, device);
	unsigned long set[CPU_SETSIZE / WORD_BITS];

	memset(set, 0xff, sizeof(set));
	return result ? result : bind_thread(set, sizeof(set));
}

/** nvmlDeviceGetMemoryAffinity - the device's node, or all nodes that have memory, a bit each */
EXPORT nvmlReturn_t nvmlDeviceGetMemoryAffinity(nvmlDevice_t device, unsigned int words,
						unsigned long *set, nvmlAffinityScope_t scope)
{
	nvmlReturn_t result = nvml_check(device, set);
	unsigned int node;

	if (!result && (!words || scope > NVML_AFFINITY_SCOPE_SOCKET))
		result = NVML_ERROR_INVALID_ARGUMENT;
	if (result)
		return result;
	if (device->info.node < 0)
		return read_set("/sys/devices/system/node/has_memory", words, set);
	node = device->info.node;
	memset(set, 0, words * sizeof(*set));
	if (node / WORD_BITS < words)
		set[node / WORD_BITS] = 1ul << node % WORD_BITS;
	return NVML_SUCCESS;
}
