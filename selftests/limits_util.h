/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests of limits share: writing the module's parameters, being another user, and taking
 * until a limit refuses.  Include this after kselftest_harness.h.
 */
#ifndef GPUMEM_SELFTESTS_LIMITS_UTIL_H
#define GPUMEM_SELFTESTS_LIMITS_UTIL_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "pin_util.h"
#include "util.h"

static inline int write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC), ret = 0;

	if (fd < 0)
		return -errno;
	if (write(fd, text, strlen(text)) < 0)
		ret = -errno;
	close(fd);
	return ret;
}

/* Read the beginning of a text file; false if it cannot be read. */
static inline bool read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, size - 1);

	text[n > 0 ? n : 0] = 0;
	if (fd >= 0)
		close(fd);
	return n >= 0;
}

static inline int write_param(const char *name, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/module/gpumem/parameters/%s", name);
	return write_file(path, value);
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

/* Bytes that count against the budgets of pinned memory. */
static inline bool pinned_becomes(long long want)
{
	long long is = -1;

	for (int i = 0; i < 500; i++) {
		is = number_of("/sys/class/gpumem/pinned", "");
		if (is == want)
			return true;
		nap_ms(10);
	}
	fprintf(stderr, "# pinned is %lld, not %lld\n", is, want);
	return false;
}

/* Allocates pinned host memory in steps until that is refused with @errno; -1 with another one. */
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

/* In a child: its steps, of which the first that fails is its exit status. */
#define WANT(_x) do {								\
	if (!(_x)) {								\
		fprintf(stderr, "# %s:%d: %s\n", __func__, __LINE__, #_x);	\
		return 1;							\
	}									\
} while (0)

/* Real, effective and saved, with no way back unless @saved says so. */
static inline bool become(uid_t uid, uid_t saved)
{
	return !setresgid(uid, uid, uid) && !setresuid(uid, uid, saved);
}

#endif
