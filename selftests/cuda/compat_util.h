/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Load a library that CUDA programs look for, from the folder compat/ beside this program's folder.
 */
#ifndef GPUMEM_SELFTESTS_COMPAT_UTIL_H
#define GPUMEM_SELFTESTS_COMPAT_UTIL_H

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The library, or NULL after a message. */
static inline void *compat_load(const char *name, int flags)
{
	char path[4096];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 64);
	void *lib;

	if (n < 0)
		return NULL;
	path[n] = 0;
	snprintf(strrchr(path, '/'), 64, "/../compat/%s", name);
	lib = dlopen(path, flags);
	if (!lib)
		fprintf(stderr, "# %s\n", dlerror());
	return lib;
}

#endif
