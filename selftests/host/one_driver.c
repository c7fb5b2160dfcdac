// SPDX-License-Identifier: GPL-2.0
/*
 * Checks that a process has one driver.  The program loads the libraries in every order, locally or
 * globally, closes them and opens them again.  Every name must have one address, whichever library
 * or cuGetProcAddress() gives it.  Calls through one library must change the state that the others
 * see.
 *
 * usage: one_driver BUILD NAMES	NAMES lists the functions of libcuda.so.1 and of libgpumem
 *	  one_driver BUILD NAMES 12	the same with the libraries of a driver of CUDA 12.9
 *
 * Each order runs in a child process.  The program needs no device.  one_driver.sh runs it.
 * Locks: none.
 */
#include <dlfcn.h>
#include <link.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define NAMES		2000

enum { GPUMEM, CUDA, NVML, RUNTIME12, RUNTIME13, LIBRARIES };

static const char *const files[] = {
	[GPUMEM] = "lib/libgpumem.so.1", [CUDA] = "compat/libcuda.so.1",
	[NVML] = "compat/libnvidia-ml.so.1", [RUNTIME12] = "compat/libcudart.so.12",
	[RUNTIME13] = "compat/libcudart.so.13",
};
static const char *const files12[] = {
	[CUDA] = "compat/cuda12/libcuda.so.1", [NVML] = "compat/cuda12/libnvidia-ml.so.1",
	[RUNTIME12] = "compat/cuda12/libcudart.so.12",
};

static const char *build;
static bool twelve;
static char names[NAMES][64];
static unsigned int name_count, number, passed, failed;
static char why[512];

static bool fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Store the message in @why.  Returns false, which the caller returns. */
static bool fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(why, sizeof(why), format, args);
	va_end(args);
	return false;
}

static int count_driver(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	*(unsigned int *)arg += strstr(info->dlpi_name, "libgpumem-driver") != NULL;
	return 0;
}

static unsigned int drivers(void)
{
	unsigned int found = 0;

	dl_iterate_phdr(count_driver, &found);
	return found;
}

static void *open_one(unsigned int library, int flags)
{
	char path[4096];
	void *lib;

	snprintf(path, sizeof(path), "%s/%s", build, (twelve ? files12 : files)[library]);
	lib = dlopen(path, RTLD_NOW | flags);
	if (!lib)
		fail("%s", dlerror());
	return lib;
}

static void *function(void *lib, const char *name)
{
	void *found = dlsym(lib, name);

	if (!found) {
		printf("# %s: %s\n", name, dlerror());
		exit(2);
	}
	return found;
}

/* Every name has one address, whichever library or the table of cuGetProcAddress() gives it. */
static bool same_everywhere(void *const libs[LIBRARIES])
{
	int (*proc)(const char *, void **, int, unsigned long long, void *) =
		(int (*)(const char *, void **, int, unsigned long long, void *))
		function(libs[CUDA], "cuGetProcAddress_v2");
	unsigned int of_table = 0;

	for (unsigned int i = 0; i < name_count; i++) {
		void *theirs = dlsym(libs[CUDA], names[i]), *ours;

		if (!theirs)
			return fail("%s is not there", names[i]);
		for (unsigned int l = 0; l < LIBRARIES; l++) {
			ours = libs[l] && l != NVML ? dlsym(libs[l], names[i]) : theirs;
			if (ours != theirs)
				return fail("%s of library %u is at %p and not at %p", names[i], l,
					    ours, theirs);
		}
		/* The table has names without a suffix.  CUDA 2.0 means their first version. */
		if (!proc(names[i], &ours, 2000, 0, NULL) && ours) {
			of_table++;
			if (ours != theirs)
				return fail("cuGetProcAddress(\"%s\", 2000) is not %p", names[i],
					    theirs);
		}
	}
	return of_table > 50 || fail("the table has %u functions", of_table);
}

/* A driver of CUDA 12.9 must not find newer functions or accept newer versions. */
static bool old_names(void *const libs[LIBRARIES])
{
	int (*proc)(const char *, void **, int, unsigned long long, void *) =
		(int (*)(const char *, void **, int, unsigned long long, void *))
		function(libs[CUDA], "cuGetProcAddress_v2");
	void *found = NULL;

	if (proc("cuCtxSynchronize", &found, 12090, 0, NULL) ||
	    found != function(libs[CUDA], "cuCtxSynchronize"))
		return fail("cuGetProcAddress() gives another cuCtxSynchronize()");
	if (proc("cuMemGetDefaultMemPool", &found, 12090, 0, NULL) || found)
		return fail("cuGetProcAddress() finds a function of CUDA 13");
	return proc("cuInit", &found, 13000, 0, NULL) == 1 ||
	       fail("cuGetProcAddress() takes a version above the driver's");
}

/* The libraries share their state: the others see the calls made through one of them. */
static bool one_state(void *const libs[LIBRARIES])
{
	const char *(*reason)(void) = (const char *(*)(void))
		dlsym(libs[GPUMEM] ? libs[GPUMEM] : libs[CUDA], "gpumem_init_error");
	int (*init)(unsigned int) = (int (*)(unsigned int))function(libs[CUDA], "cuInit");
	int (*version)(int *) = (int (*)(int *))function(libs[CUDA], "cuDriverGetVersion");
	int (*nvml_init)(unsigned int) = (int (*)(unsigned int))
		function(libs[NVML], "nvmlInitWithFlags");
	int (*nvml_version)(int *) = (int (*)(int *))
		function(libs[NVML], "nvmlSystemGetCudaDriverVersion");
	int value = 0, other = 0;

	if (!reason || reason())
		return fail("there is a reason before cuInit()");
	if (init(0) != 100 || !reason())
		return fail("libgpumem does not know what cuInit() of libcuda found");
	if (version(&value) || value != (twelve ? 12090 : 13030))
		return fail("the driver's version is %d", value);
	if (nvml_version(&other) || other != value)
		return fail("the management library's version is %d", other);
	return !nvml_init(1) || fail("nvmlInitWithFlags() fails");
}

/* Closing libraries and opening them again changes neither addresses nor state. */
static bool closed_and_opened(void *libs[LIBRARIES])
{
	void *init = function(libs[CUDA], "cuInit"), *list = function(libs[NVML], "nvmlDeviceGetCount");
	int (*count)(unsigned int *);
	unsigned int n = 7;

	for (unsigned int l = 0; l < LIBRARIES; l++)
		if (libs[l] && dlclose(libs[l]))
			return fail("%s", dlerror());
	/* Functions whose addresses the program kept still work. */
	memcpy(&count, &list, sizeof(list));
	if (count(&n) || n)
		return fail("a function does not work after its library was closed");
	libs[NVML] = open_one(NVML, RTLD_LOCAL);
	libs[CUDA] = open_one(CUDA, RTLD_LOCAL);
	if (!libs[NVML] || !libs[CUDA])
		return false;
	if (function(libs[CUDA], "cuInit") != init || function(libs[NVML], "nvmlDeviceGetCount") != list)
		return fail("functions moved when their library was opened again");
	n = 7;
	return (!count(&n) && !n) || fail("the state is gone after the library was closed");
}

static bool try_order(const unsigned int *order, unsigned int length, int flags)
{
	void *libs[LIBRARIES] = { NULL };

	for (unsigned int i = 0; i < length; i++) {
		libs[order[i]] = open_one(order[i], flags);
		if (!libs[order[i]])
			return false;
		if (drivers() != 1)
			return fail("%u drivers after library %u", drivers(), order[i]);
	}
	return same_everywhere(libs) && (!twelve || old_names(libs)) && one_state(libs) &&
	       closed_and_opened(libs) &&
	       (drivers() == 1 || fail("%u drivers at the end", drivers()));
}

static unsigned int orders, bad;

static void in_child(const unsigned int *order, unsigned int length, int flags)
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		if (try_order(order, length, flags))
			_exit(0);
		printf("# order");
		for (unsigned int i = 0; i < length; i++)
			printf(" %u", order[i]);
		printf(": %s\n", why);
		fflush(stdout);
		_exit(1);
	}
	orders++;
	if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
		bad++;
}

static void permute(unsigned int *order, unsigned int length, unsigned int at, int flags)
{
	if (at == length)
		in_child(order, length, flags);
	for (unsigned int i = at; i < length; i++) {
		unsigned int swap = order[at];

		order[at] = order[i];
		order[i] = swap;
		permute(order, length, at + 1, flags);
		order[i] = order[at];
		order[at] = swap;
	}
}

static void check(const char *what)
{
	bool ok = orders && !bad;

	printf("%sok %u - %s: %u orders, %u wrong\n", ok ? "" : "not ", ++number, what, orders, bad);
	ok ? passed++ : failed++;
	orders = bad = 0;
}

int main(int argc, char **argv)
{
	unsigned int order[] = { GPUMEM, CUDA, NVML, RUNTIME12, RUNTIME13 };
	unsigned int order12[] = { CUDA, NVML, RUNTIME12 };
	FILE *list = argc > 2 ? fopen(argv[2], "r") : NULL;

	if (!list)
		return 2;
	build = argv[1];
	twelve = argc > 3;
	while (name_count < NAMES && fscanf(list, "%63s", names[name_count]) == 1)
		name_count++;
	setenv("CUDA_VISIBLE_DEVICES", "", 1);
	if (twelve)
		permute(order12, ARRAY_SIZE(order12), 0, RTLD_LOCAL);
	else
		permute(order, ARRAY_SIZE(order), 0, RTLD_LOCAL);
	check(twelve ? "a driver of CUDA 12.9, loaded locally" : "loaded locally");
	if (twelve)
		permute(order12, ARRAY_SIZE(order12), 0, RTLD_GLOBAL);
	else
		permute(order, ARRAY_SIZE(order), 0, RTLD_GLOBAL);
	check(twelve ? "a driver of CUDA 12.9, loaded globally" : "loaded globally");
	printf("%u %u\n", passed, failed);
	return failed != 0;
}
