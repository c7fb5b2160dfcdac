// SPDX-License-Identifier: MIT
/*
 * Load the libraries behind the tap: the checker and the recorder, beside this library or where the loader finds them.
 *
 * If both are loaded, a third struct tap hands each report to both: the recorder begins last and ends first, so that its
 * times do not contain the checker's work.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/core.h"

struct tap_library {
	const char *file, *start;	/* the name of the function that it exports */
	const char *variable, *what;	/* for messages */
};

static const struct tap_library checker = { "libgpumem-check.so.1", "gpumem_check_start", "GPUMEM_CHECK", "checker" };
static const struct tap_library recorder = {
	"libgpumem-record.so.1", "gpumem_record_start", "GPUMEM_RECORD", "recorder"
};

static void *load(const char *name)
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
			     name) >= (int)sizeof(path))
			break;
		library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
		if (library)
			return library;
	}
	return dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
}

static const struct tap *start(const struct tap_library *which, const struct tap_client *own)
{
	void *library = load(which->file);
	tap_start *begin = library ? (tap_start *)dlsym(library, which->start) : NULL;
	const char *reason = library ? NULL : dlerror();
	const struct tap *tap = begin ? begin(own) : NULL;

	if (tap && tap->version == TAP_VERSION)
		return tap;
	if (library)
		fprintf(stderr, "gpumem: %s is set, but the %s does not start: %s is of another version of this library\n",
			which->variable, which->what, which->file);
	else
		fprintf(stderr, "gpumem: %s is set, but the %s does not start: %s\n", which->variable, which->what,
			reason ? reason : "no memory");
	return NULL;
}

/* ---- both */

static const struct tap *first, *second;	/* constant after tap_load() */

static void both_begin(const char *name, const char *names, const uint64_t *values, unsigned int count)
{
	first->begin(name, names, values, count);
	second->begin(name, names, values, count);
}

static void both_end(const char *name, CUresult result)
{
	second->end(name, result);
	first->end(name, result);
}

static void both_reported(void)
{
	first->reported();
	second->reported();
}

static void both_host_function(CUstream handle, const void *function, const void *arg)
{
	first->host_function(handle, function, arg);
	second->host_function(handle, function, arg);
}

/* The recorder records calls only. */
static void both_changed(uint64_t base, uint64_t size, uint64_t offset)
{
	first->changed(base, size, offset);
}

static const struct tap both = {
	.version = TAP_VERSION, .begin = both_begin, .end = both_end, .reported = both_reported,
	.host_function = both_host_function, .changed = both_changed,
};

const struct tap *tap_load(const struct tap_client *own, bool check, bool record)
{
	first = check ? start(&checker, own) : NULL;
	/* The preloaded recorder sees the calls already. */
	second = record && !dlsym(RTLD_DEFAULT, TAP_PRELOADED) ? start(&recorder, own) : NULL;
	if (first && second)
		return &both;
	return first ? first : second;
}
