// SPDX-License-Identifier: MIT
/*
 * The management library: processes that use a device.
 *
 * A process uses the device whose node its client has open, if the client has an object, which cuInit() makes; a
 * process that uses only the management library has none. It uses another device while its client has buffer objects
 * there. /proc/PID/fdinfo shows the client's buffer objects on each device; its views count for the device whose node
 * it has open. Unlike NVIDIA's library, this library leaves out processes whose fdinfo the caller may not read; root
 * sees all processes of its PID namespace.
 *
 * Owns nothing. The cost of a query grows with the number of processes and of their descriptors.
 */
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nvml_private.h"

#define CLIENTS		64		/* clients of one process that are told apart */
#define VRAM		"gpumem-vram-"	/* key of a device's bytes, before its number */

struct usage {
	unsigned int client;
	unsigned long long bytes;	/* of the device that was asked for */
};

/* Parse a line of fdinfo; false if its key is not @key. */
static bool key_value(const char *line, const char *key, unsigned long long *value)
{
	size_t length = strlen(key);

	if (strncmp(line, key, length) || line[length] != ':')
		return false;
	*value = strtoull(line + length + 1, NULL, 10);
	return true;
}

/* Read a descriptor's fdinfo; false if the descriptor is not a client of this driver that uses device @ordinal. */
static bool read_fdinfo(int dir, const char *name, unsigned int ordinal, struct usage *usage)
{
	unsigned long long opened = 0, client = 0, views = 0, objects = 0, own = 0;
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
	bool ours = false;
	char line[128], *end;

	if (!file) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	while (fgets(line, sizeof(line), file)) {
		if (key_value(line, "gpumem-device", &opened))
			ours = true;
		key_value(line, "drm-client-id", &client);
		key_value(line, "gpumem-view-bytes", &views);
		key_value(line, "gpumem-objects", &objects);
		if (strncmp(line, VRAM, sizeof(VRAM) - 1))
			continue;
		if (strtoul(line + sizeof(VRAM) - 1, &end, 10) == ordinal && *end == ':')
			own = strtoull(end + 1, NULL, 10);
	}
	fclose(file);
	usage->client = client;
	usage->bytes = opened == ordinal ? own + views : own;
	return ours && (opened == ordinal ? objects : own) != 0;
}

/* Whether a descriptor is of a device node, by its link, because reading every descriptor's fdinfo takes long. */
static bool is_node(int dir, const char *name)
{
	char target[64];
	ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

	return n > 11 && !strncmp(target, "/dev/gpumem", 11);
}

/* Bytes of device memory of a process's clients of a device; false if the process does not use the device. */
static bool process_usage(int proc, const char *pid, unsigned int ordinal,
			  unsigned long long *bytes)
{
	unsigned int seen[CLIENTS], clients = 0, i;
	struct dirent *entry;
	struct usage usage;
	bool uses = false;
	int fds, infos;
	char path[32];
	DIR *dir;

	snprintf(path, sizeof(path), "%.16s/fdinfo", pid);
	infos = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	snprintf(path, sizeof(path), "%.16s/fd", pid);
	fds = openat(proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir = fds < 0 || infos < 0 ? NULL : fdopendir(fds);
	*bytes = 0;
	while (dir && (entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]) || !is_node(fds, entry->d_name) ||
		    !read_fdinfo(infos, entry->d_name, ordinal, &usage))
			continue;
		/* Several descriptors of one open file show the same client: count it once. */
		for (i = 0; i < clients && seen[i] != usage.client; i++)
			;
		if (i < clients)
			continue;
		if (clients < CLIENTS)
			seen[clients++] = usage.client;
		*bytes += usage.bytes;
		uses = true;
	}
	if (dir)
		closedir(dir);
	else if (fds >= 0)
		close(fds);
	if (infos >= 0)
		close(infos);
	return uses;
}

/*
 * Store the processes of a device in *@number entries of @size bytes, and their number in *@number. The first
 * members of all forms of the structure are the same.
 */
static nvmlReturn_t processes(nvmlDevice_t device, unsigned int *number, void *infos, size_t size)
{
	nvmlReturn_t result = nvml_check(device, number);
	unsigned int room, found = 0;
	struct dirent *entry;
	DIR *dir;

	if (!result && *number && !infos)
		result = NVML_ERROR_INVALID_ARGUMENT;
	if (result)
		return result;
	dir = opendir("/proc");
	if (!dir)
		return NVML_ERROR_UNKNOWN;
	room = *number;
	while ((entry = readdir(dir))) {
		unsigned long long bytes;

		if (!isdigit((unsigned char)entry->d_name[0]) ||
		    !process_usage(dirfd(dir), entry->d_name, device->info.ordinal, &bytes))
			continue;
		if (found < room) {
			nvmlProcessInfo_v2_t info = {
				.pid = strtoul(entry->d_name, NULL, 10), .usedGpuMemory = bytes,
				.gpuInstanceId = ~0u, .computeInstanceId = ~0u,
			};

			memcpy((char *)infos + found * size, &info, size);
		}
		found++;
	}
	closedir(dir);
	*number = found;
	return found > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

/* For kinds of processes that do not exist here. */
static nvmlReturn_t no_processes(nvmlDevice_t device, unsigned int *number)
{
	nvmlReturn_t result = nvml_check(device, number);

	if (!result)
		*number = 0;
	return result;
}

#define PROCESSES(kind, version, type, call)						\
	EXPORT nvmlReturn_t nvmlDeviceGet ## kind ## RunningProcesses ## version(	\
		nvmlDevice_t device, unsigned int *number, type *infos)			\
	{										\
		(void)infos;								\
		return call;								\
	}

/**
 * nvmlDeviceGetComputeRunningProcesses - processes that use a device, and their memory
 * @number: entries that @infos has room for; receives the number of processes
 *
 * Return: also INSUFFICIENT_SIZE.
 */
PROCESSES(Compute, , nvmlProcessInfo_v1_t, processes(device, number, infos, sizeof(*infos)))
PROCESSES(Compute, _v2, nvmlProcessInfo_v2_t, processes(device, number, infos, sizeof(*infos)))
PROCESSES(Compute, _v3, nvmlProcessInfo_t, processes(device, number, infos, sizeof(*infos)))

/** nvmlDeviceGetGraphicsRunningProcesses - none */
PROCESSES(Graphics, , nvmlProcessInfo_v1_t, no_processes(device, number))
PROCESSES(Graphics, _v2, nvmlProcessInfo_v2_t, no_processes(device, number))
PROCESSES(Graphics, _v3, nvmlProcessInfo_t, no_processes(device, number))

/** nvmlDeviceGetMPSComputeRunningProcesses - none: there is no MPS server */
PROCESSES(MPSCompute, , nvmlProcessInfo_v1_t, no_processes(device, number))
PROCESSES(MPSCompute, _v2, nvmlProcessInfo_v2_t, no_processes(device, number))
PROCESSES(MPSCompute, _v3, nvmlProcessInfo_t, no_processes(device, number))

/**
 * nvmlSystemGetProcessName - the first argument of a process's command line
 * @length: bytes that @name has room for; a longer text is cut
 *
 * Return: NOT_FOUND.
 */
EXPORT nvmlReturn_t nvmlSystemGetProcessName(unsigned int pid, char *name, unsigned int length)
{
	char path[32];
	ssize_t n;
	int fd;

	if (!nvml_initialized())
		return NVML_ERROR_UNINITIALIZED;
	if (!name || !length)
		return NVML_ERROR_INVALID_ARGUMENT;
	snprintf(path, sizeof(path), "/proc/%u/cmdline", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return NVML_ERROR_NOT_FOUND;
	n = read(fd, name, length - 1);
	close(fd);
	if (n < 0)
		return NVML_ERROR_UNKNOWN;
	name[n] = 0;
	return NVML_SUCCESS;
}
