/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers for the tests of registered and pinned host memory: the calls, and the counters of such
 * memory that the kernel keeps outside the client.  Include this after kselftest_harness.h.
 */
#ifndef GPUMEM_SELFTESTS_PIN_UTIL_H
#define GPUMEM_SELFTESTS_PIN_UTIL_H

#include "common/util.h"

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

/* Bytes that this process has pinned. */
static inline long long vm_pin(void)
{
	return number_of("/proc/self/status", "VmPin:") * 1024;
}

/* Bytes of pinned host memory, of all clients. */
static inline long long host_used(void)
{
	return number_of("/sys/class/gpumem/host_used", "");
}

static inline bool host_used_becomes(long long want)
{
	return number_becomes("/sys/class/gpumem/host_used", want);
}

/*
 * Bytes that the user may still pin, exactly; 0 if that cannot be known.
 *
 * The budget of a user cannot be read, but probed: a registration of memory without access is
 * charged before the kernel accesses its first page, so its length decides between EDQUOT and
 * EFAULT.
 */
static inline __u64 budget_left(int fd)
{
	__u64 low = 0, high = 1ULL << 24;	/* pages */
	void *p = mmap(NULL, high * page_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return 0;
	/* Invariant: low is within the budget, high is not. */
	while (high - low > 1) {
		__u64 middle = low + (high - low) / 2;
		__u32 id;
		int ret = bo_pin(fd, p, middle * page_size, 0, &id);

		if (ret == -EFAULT)
			low = middle;
		else if (ret == -EDQUOT)
			high = middle;
		else
			break;
	}
	munmap(p, (1ULL << 24) * page_size);
	return high - low == 1 ? low * page_size : 0;
}

/* Whether GPUMEM_STATS and fdinfo both report @pins registrations of @bytes bytes.  */
static inline bool pins_counted(int fd, __u64 pins, __u64 bytes)
{
	struct gpumem_stats stats, info;
	__u64 device;

	if (gp_stats(fd, &stats) || fdinfo_read(getpid(), fd, &info, &device))
		return false;
	if (stats.pins == pins && info.pins == pins && stats.pin_bytes == bytes &&
	    info.pin_bytes == bytes)
		return true;
	fprintf(stderr, "# stats %llu/%llu, fdinfo %llu/%llu, want %llu/%llu\n", stats.pins,
		stats.pin_bytes, info.pins, info.pin_bytes, pins, bytes);
	return false;
}

#endif
