// SPDX-License-Identifier: MIT
/*
 * Load the library behind the tap: libgpumem-check.so.1 beside this library, or where the loader finds it.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/core.h"

#define TAP_LIBRARY	"libgpumem-check.so.1"

static void *load(void)
{
	/* Beside this library; for the driver of CUDA 12.9 as installed, and as built. */
	static const char *const places[] = { "", "../../", "../../lib/" };
	const char *slash = NULL;
	char path[4096];
	void *library;
	Dl_info info;
	size_t i;

	if (dladdr(&client, &info) && info.dli_fname)
		slash = strrchr(info.dli_fname, '/');
	for (i = 0; slash && i < sizeof(places) / sizeof(places[0]); i++) {
		if (snprintf(path, sizeof(path), "%.*s/%s%s", (int)(slash - info.dli_fname), info.dli_fname, places[i],
			     TAP_LIBRARY) >= (int)sizeof(path))
			break;
		library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
		if (library)
			return library;
	}
	return dlopen(TAP_LIBRARY, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

const struct tap *tap_load(const struct tap_client *own)
{
	void *library = load();
	tap_start *start = library ? (tap_start *)dlsym(library, TAP_START) : NULL;
	const char *reason = library ? NULL : dlerror();
	const struct tap *tap = start ? start(own) : NULL;

	if (tap && tap->version == TAP_VERSION)
		return tap;
	fprintf(stderr, "gpumem: GPUMEM_CHECK is set, but the checker does not start: %s\n",
		library ? TAP_LIBRARY " is of another version of this library" : reason ? reason : "no memory");
	return NULL;
}
