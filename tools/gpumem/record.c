// SPDX-License-Identifier: GPL-2.0
/*
 * "gpumem record" runs a command with the recorder, and "gpumem replay" runs gpumem-replay.
 *
 * The recorder of gpumem's driver library sees calls behind its tap.  Another driver gets the preloaded recorder.  The
 * libcuda.so.1 that the loader finds decides, unless an option does.
 */
#include <dlfcn.h>
#include <errno.h>
#include <getopt.h>
#include <gpumem.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record/format.h"
#include "tool.h"

#define PRELOAD	"libgpumem-record-preload.so.1"

enum front { FIND_OUT, TAP, PRELOADED };

static const char usage[] =
"usage: gpumem record [OPTION...] [--] COMMAND...\n"
"\n"
"  -o, --output FILE    the trace (gpumem-record.trace)\n"
"      --tap            record behind gpumem's library\n"
"      --preload        record in front of any libcuda.so.1, with LD_PRELOAD\n";

/* Is the libcuda.so.1 that programs find another one than gpumem's?  A process has one driver of gpumem's. */
static bool other_driver(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
	bool other = library && dlsym(library, "cuInit") != dlsym(RTLD_DEFAULT, "cuInit");

	if (library)
		dlclose(library);
	return other;
}

/* Put the preloaded recorder, which lies beside gpumem's library, in front of what is preloaded already. */
static void set_preload(void)
{
	const char *before = getenv("LD_PRELOAD"), *slash = NULL;
	char path[PATH_MAX], *value;
	Dl_info info;

	if (dladdr(__extension__ (const void *)gpumem_version, &info) && info.dli_fname)
		slash = strrchr(info.dli_fname, '/');
	if (!slash || snprintf(path, sizeof(path), "%.*s/%s", (int)(slash - info.dli_fname), info.dli_fname, PRELOAD) >=
	    (int)sizeof(path) || access(path, R_OK))
		snprintf(path, sizeof(path), "%s", PRELOAD);
	if (asprintf(&value, "%s%s%s", path, before && *before ? ":" : "", before ? before : "") < 0 ||
	    setenv("LD_PRELOAD", value, 1))
		die("not enough memory");
}

/* Whether a file is an earlier trace, which may be removed. */
static bool is_trace(const char *path)
{
	uint64_t magic = 0;
	struct stat st;
	FILE *f;

	if (lstat(path, &st) || !S_ISREG(st.st_mode))
		return false;
	f = fopen(path, "re");
	if (f && fread(&magic, sizeof(magic), 1, f) != 1)
		magic = 0;
	if (f)
		fclose(f);
	return magic == TRACE_MAGIC || !st.st_size;
}

/* Programs may change their directory before they call the driver. */
static void set_output(const char *name)
{
	char directory[PATH_MAX], path[PATH_MAX];

	if (*name == '/')
		snprintf(path, sizeof(path), "%s", name);
	else if (!getcwd(directory, sizeof(directory)) ||
		 snprintf(path, sizeof(path), "%s/%s", directory, name) >= (int)sizeof(path))
		die("%s: the path is too long", name);
	/* The recorder replaces no file. */
	if (!access(path, F_OK) && !is_trace(path))
		die("%s exists, and is no trace", path);
	if (unlink(path) && errno != ENOENT)
		die("%s: %s", path, strerror(errno));
	if (setenv("GPUMEM_RECORD", path, 1))
		die("not enough memory");
}

void record(int argc, char **argv)
{
	static const struct option table[] = {
		{ "help", no_argument, NULL, 'h' },
		{ "output", required_argument, NULL, 'o' },
		{ "preload", no_argument, NULL, 'P' },
		{ "tap", no_argument, NULL, 'T' },
		{ 0 },
	};
	const char *output = "gpumem-record.trace";
	enum front front = FIND_OUT;
	int c;

	while ((c = getopt_long(argc, argv, "+ho:", table, NULL)) != -1) {
		switch (c) {
		case 'h':
			fputs(usage, stdout);
			exit(0);
		case 'o':
			output = optarg;
			break;
		case 'P':
			front = PRELOADED;
			break;
		case 'T':
			front = TAP;
			break;
		default:
			fputs("Try gpumem record --help.\n", stderr);
			exit(2);
		}
	}
	if (!argv[optind])
		misused("record wants a command");
	set_output(output);
	if (front == PRELOADED || (front == FIND_OUT && other_driver()))
		set_preload();
	execvp(argv[optind], argv + optind);
	die("%s: %s", argv[optind], strerror(errno));
}

void replay(char **argv)
{
	run_helper("gpumem-replay", argv, "it is installed by make install");
}
