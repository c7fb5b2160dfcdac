/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers for the tests of limits: writing the module's parameters, running as another user, and
 * allocating until a limit refuses.  Include this after kselftest_harness.h.
 */
#ifndef GPUMEM_SELFTESTS_LIMITS_UTIL_H
#define GPUMEM_SELFTESTS_LIMITS_UTIL_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/pin_util.h"
#include "common/util.h"

static inline int write_param(const char *name, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/module/gpumem/parameters/%s", name);
	return write_file(path, value);
}

/* Change a parameter until file_restore(), or until the caller ends. */
static inline bool param_change(struct changed *changed, const char *name, unsigned long long value)
{
	char path[128], text[32];

	snprintf(path, sizeof(path), "/sys/module/gpumem/parameters/%s", name);
	snprintf(text, sizeof(text), "%llu", value);
	return file_change(changed, path, text);
}

static inline int set_param(const char *name, unsigned long long value)
{
	char text[32];

	snprintf(text, sizeof(text), "%llu", value);
	return write_param(name, text);
}

static inline long long get_param(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/module/gpumem/parameters/%s", name);
	return number_of(path, "");
}

static inline int write_dev_attr(unsigned int ordinal, const char *name, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/class/gpumem/gpumem%u/%s", ordinal, name);
	return write_file(path, value);
}

/* Waits until @want bytes count against the budgets of pinned memory.  */
static inline bool pinned_becomes(long long want)
{
	return number_becomes("/sys/class/gpumem/pinned", want);
}

/*
 * Allocates pinned host memory in steps until an allocation fails: the bytes allocated if the errno
 * is @error, else -1.
 */
static inline long long pin_until(int fd, __u64 step, int error)
{
	long long sum = 0;
	__u32 id;
	int ret;

	while (!(ret = bo_alloc_host(fd, step, &id)))
		sum += step;
	if (ret == -error)
		return sum;
	fprintf(stderr, "# ended with %d after %lld bytes\n", ret, sum);
	return -1;
}

/*
 * A step of a child's function: if @_x is false, print it and return 1, which becomes the exit
 * status.
 */
#define WANT(_x) do {								\
	if (!(_x)) {								\
		fprintf(stderr, "# %s:%d: %s\n", __func__, __LINE__, #_x);	\
		return 1;							\
	}									\
} while (0)

/*
 * Sets the real and effective user to @uid, and the saved one to @saved.  With @saved equal to @uid
 * the process cannot change back.
 */
static inline bool become(uid_t uid, uid_t saved)
{
	return !setresgid(uid, uid, uid) && !setresuid(uid, uid, saved);
}

#endif
