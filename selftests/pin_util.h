/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests of registered and pinned host memory share: the calls, and what the kernel says
 * about it outside the client.  Include this after kselftest_harness.h.
 */
#ifndef GPUMEM_SELFTESTS_PIN_UTIL_H
#define GPUMEM_SELFTESTS_PIN_UTIL_H

#include "util.h"

static inline int bo_pin(int fd, const volatile void *addr, __u64 length, __u32 flags, __u32 *id)
{
	struct gpumem_bo_pin c = {
		.size = sizeof(c), .addr = (uintptr_t)addr, .length = length, .flags = flags,
	};
	int ret = gp_ioctl(fd, GPUMEM_BO_PIN, &c);

	*id = c.id;
	return ret;
}

static inline int bo_alloc_host(int fd, __u64 length, __u32 *id)
{
	struct gpumem_bo_alloc c = {
		.size = sizeof(c), .length = length, .flags = GPUMEM_BO_ALLOC_HOST,
	};
	int ret = gp_ioctl(fd, GPUMEM_BO_ALLOC, &c);

	*id = c.id;
	return ret;
}

/* The number behind @key in a file, or -1. */
static inline long long number_of(const char *path, const char *key)
{
	long long value = -1;
	char line[256];
	FILE *f = fopen(path, "re");

	while (f && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, key, strlen(key)))
			sscanf(line + strlen(key), "%lld", &value);
	}
	if (f)
		fclose(f);
	return value;
}

/* Bytes that this process has pinned. */
static inline long long vm_pin(void)
{
	return number_of("/proc/self/status", "VmPin:") * 1024;
}

/* Bytes of pinned host memory, of everybody. */
static inline long long host_used(void)
{
	return number_of("/sys/class/gpumem/host_used", "");
}

static inline bool host_used_becomes(long long want)
{
	for (int i = 0; i < 500 && host_used() != want; i++)
		nap_ms(10);
	return host_used() == want;
}

#endif
