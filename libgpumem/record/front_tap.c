// SPDX-License-Identifier: MIT
/*
 * The recorder behind the tap (core/tap.h).
 *
 * The tap reports the arguments that the library prints for GPUMEM_DEBUG=1. With these exceptions they are the
 * parameters of the function:
 *
 * - A CUmemLocation by value is two numbers.
 * - The functions of the stream-ordered allocator first report the look-up of the stream as a call of the same name with
 *   one argument, and then the call with the stream that was found. The recorder keeps the handle of the look-up.
 * - cuInit() begins before the tap is there, and a few functions that refuse their arguments report their end only. They
 *   are recorded without arguments.
 */
#include <dlfcn.h>
#include <string.h>

#include "core/tap.h"
#include "record/record.h"

static const struct tap_client *driver;
static void *library;			/* the driver's, or NULL */

static __thread struct {
	unsigned int depth;
	const char *name;		/* of the outermost call */
	const void *frame;
	bool recorded;
	uint32_t function;		/* of the outermost call */
	uint64_t begin;
	bool lookup;			/* of a stream */
	uint64_t stream;		/* the handle of the last look-up */
} front __attribute__((tls_model("initial-exec")));

static void *real(const char *name)
{
	Dl_info info;

	if (!library && dladdr(__extension__ (const void *)driver->stream, &info) && info.dli_fname)
		library = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
	return library ? dlsym(library, name) : NULL;
}

/* Whether the thread's own stream, as handle 0 of a per-thread form, is this one. */
static bool is_own_stream(uint64_t handle, uint64_t found)
{
	struct tap_stream own, stream;

	return !handle && driver->stream(NULL, true, &own) &&
		driver->stream((CUstream)(uintptr_t)found, false, &stream) && own.key == stream.key;
}

/* Both numbers of a location become the eight bytes of the structure. False: the arguments are not the parameters. */
static bool parameters(const struct function *f, const uint64_t *given, unsigned int count, uint64_t *values)
{
	unsigned int i, at = 0;

	for (i = 0; i < f->count; i++) {
		if (at >= count)
			return false;
		values[i] = given[at++];
		if (f->parameter[i].kind != 'L')
			continue;
		if (at >= count)
			return false;
		values[i] = (uint32_t)values[i] | given[at++] << 32;
	}
	return at == count;
}

static bool ordered_allocator(const char *name)
{
	return !strcmp(name, "cuMemAllocAsync") || !strcmp(name, "cuMemAllocFromPoolAsync") ||
		!strcmp(name, "cuMemFreeAsync");
}

/* Replace the stream by the handle that the program gave. */
static void restore_stream(const char *name, const struct function *f, uint64_t *values)
{
	uint64_t found = values[f->count - 1];
	char own[64] = "";

	values[f->count - 1] = front.stream;
	if (!is_own_stream(front.stream, found))
		return;
	strncat(own, name, sizeof(own) - 6);
	strcat(own, "_ptsz");
	front.function = function_find(own);
}

static void tap_begin(const char *name, const char *names, const uint64_t *given, unsigned int count)
{
	uint64_t values[TRACE_ARGUMENTS];
	const struct function *f;
	bool known;

	(void)names;
	if (front.depth && __builtin_frame_address(0) > front.frame)
		front.depth = 0;
	if (front.depth++)
		return;
	front.frame = __builtin_frame_address(0);
	front.name = name;
	front.recorded = front.lookup = false;
	front.function = function_find(name);
	if (front.function == NO_FUNCTION)
		return;
	front.lookup = count == 1 && ordered_allocator(name);
	if (front.lookup) {
		front.stream = given[0];
		front.begin = time_now();
		return;
	}
	f = function_at(front.function);
	known = parameters(f, given, count, values);
	if (known && ordered_allocator(name))
		restore_stream(name, f, values);
	front.recorded = call_begin(front.function, known ? values : NULL, front.frame);
}

static void tap_end(const char *name, CUresult result)
{
	uint32_t function;

	/* The call reported no begin. */
	if (!front.depth || (front.depth == 1 && front.name != name && strcmp(front.name, name))) {
		function = front.depth ? NO_FUNCTION : function_find(name);
		if (function != NO_FUNCTION)
			call_bare(function, time_now(), result);
		return;
	}
	if (--front.depth)
		return;
	if (front.lookup && result)
		call_bare(front.function, front.begin, result);
	if (front.recorded)
		call_end(result);
}

static void tap_host_function(CUstream handle, const void *function, const void *arg)
{
	(void)handle;
	(void)function;
	(void)arg;
}

static void tap_reported(void)
{
}

static const struct tap tap = {
	.version = TAP_VERSION, .begin = tap_begin, .end = tap_end, .host_function = tap_host_function,
	.reported = tap_reported,
};

__attribute__((visibility("default"))) const struct tap *gpumem_record_start(const struct tap_client *client);
const struct tap *gpumem_record_start(const struct tap_client *client)
{
	if (client->version != TAP_VERSION)
		return NULL;
	driver = client;
	return recorder_start(TRACE_TAP, real) ? &tap : NULL;
}
