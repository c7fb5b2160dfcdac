// SPDX-License-Identifier: GPL-2.0
/*
 * The driver that the calls go to: gpumem's, or the library that --libcuda names.
 */
#include <dlfcn.h>
#include <stdlib.h>

#include "replay.h"

static void *library;
static void **functions;	/* by the index in calls.h */

void *driver_find(const char *name)
{
	return dlsym(library, name);
}

void driver_load(void)
{
	const char *name = options.libcuda ? options.libcuda : "libgpumem.so.1";
	uint32_t i;

	library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		refuse("%s", dlerror());
	functions = must_alloc(functions_count(), sizeof(*functions));
	for (i = 0; i < functions_count(); i++)
		functions[i] = driver_find(function_at(i)->name);
}

void *driver_function(const struct function *function)
{
	return functions[function - function_at(0)];
}

#define T	uint64_t
#define CALL(...)	((uint32_t (*)(__VA_ARGS__))function)

uint32_t driver_call(void *function, unsigned int count, const uint64_t *v)
{
	switch (count) {
	case 0:
		return CALL(void)();
	case 1:
		return CALL(T)(v[0]);
	case 2:
		return CALL(T, T)(v[0], v[1]);
	case 3:
		return CALL(T, T, T)(v[0], v[1], v[2]);
	case 4:
		return CALL(T, T, T, T)(v[0], v[1], v[2], v[3]);
	case 5:
		return CALL(T, T, T, T, T)(v[0], v[1], v[2], v[3], v[4]);
	case 6:
		return CALL(T, T, T, T, T, T)(v[0], v[1], v[2], v[3], v[4], v[5]);
	case 7:
		return CALL(T, T, T, T, T, T, T)(v[0], v[1], v[2], v[3], v[4], v[5], v[6]);
	case 8:
		return CALL(T, T, T, T, T, T, T, T)(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]);
	case 9:
		return CALL(T, T, T, T, T, T, T, T, T)(v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8]);
	}
	abort();
}
