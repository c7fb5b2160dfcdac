// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem cdi generate: print a specification of the Container Device Interface, with which container runtimes
 * give a container devices by name: gpumem.org/gpu=0, ..., gpumem.org/gpu=all.
 *
 * The specification says version 0.5.0, the first whose device names may begin with a digit.  Runtimes refuse
 * versions that they do not know, and Debian 12's podman knows none above 0.5.0.
 */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

/* Where a container has the libraries: libcuda.so.1 looks for the driver library in the directory above it. */
#define INSIDE		"/opt/gpumem"
#define DRIVER		"libgpumem-driver.so.1"

static const char cdi_usage[] =
"usage: gpumem cdi generate [--libraries DIR] [--output FILE]\n"
"\n"
"Print a CDI specification that names the devices.\n"
"\n"
"  --libraries DIR    containers also get the libraries in DIR, which has libcuda.so.1\n"
"  -o, --output FILE  write FILE, such as /etc/cdi/gpumem.json\n";

/* Print a string of JSON. */
static void print_string(FILE *f, const char *text)
{
	fputc('"', f);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fprintf(f, "\\%c", *text);
		else if ((unsigned char)*text < ' ')
			fprintf(f, "\\u%04x", *text);
		else
			fputc(*text, f);
	}
	fputc('"', f);
}

static void print_mount(FILE *f, const char *from, const char *to)
{
	fprintf(f, "      {\n        \"hostPath\": ");
	print_string(f, from);
	fprintf(f, ",\n        \"containerPath\": \"%s\",\n"
		"        \"options\": [ \"ro\", \"nosuid\", \"nodev\", \"bind\" ]\n      }", to);
}

/* Print the edits for containers with any device: the libraries in @dir, and where to find them. */
static void print_libraries(FILE *f, const char *dir)
{
	static const char *const beside[] = { "..", "../lib" };
	char full[PATH_MAX], path[PATH_MAX + 64], driver[PATH_MAX];
	bool found = false;

	if (!realpath(dir, full))
		die("%s: %s", dir, strerror(errno));
	snprintf(path, sizeof(path), "%s/libcuda.so.1", full);
	if (access(path, F_OK))
		die("%s: %s", path, strerror(errno));
	for (unsigned int i = 0; i < 2 && !found; i++) {
		snprintf(path, sizeof(path), "%s/%s/" DRIVER, full, beside[i]);
		found = realpath(path, driver);
	}
	if (!found)
		die("%s: no " DRIVER " beside it", full);
	fprintf(f, "  \"containerEdits\": {\n    \"env\": [ \"LD_LIBRARY_PATH=" INSIDE "/cuda\" ],\n"
		"    \"mounts\": [\n");
	print_mount(f, full, INSIDE "/cuda");
	fprintf(f, ",\n");
	print_mount(f, driver, INSIDE "/" DRIVER);
	fprintf(f, "\n    ]\n  },\n");
}

static void print_device(FILE *f, const char *name, const unsigned int *numbers, unsigned int n)
{
	fprintf(f, "    {\n      \"name\": \"%s\",\n      \"containerEdits\": {\n        \"deviceNodes\": [", name);
	for (unsigned int i = 0; i < n; i++)
		fprintf(f, "%s\n          { \"path\": \"/dev/gpumem%u\" }", i ? "," : "", numbers[i]);
	fprintf(f, "\n        ]\n      }\n    }");
}

static void generate(FILE *f, const char *library_dir)
{
	unsigned int numbers[MAX_DEVICES], n = 0;

	for (unsigned int i = 0; i < MAX_DEVICES; i++) {
		char path[64];

		snprintf(path, sizeof(path), CLASS "/gpumem%u", i);
		if (!access(path, F_OK))
			numbers[n++] = i;
	}
	if (!n)
		die(access(CLASS, F_OK) ? "the module is not loaded: modprobe gpumem" :
		    "the module has no devices: look for its messages in dmesg");
	fprintf(f, "{\n  \"cdiVersion\": \"0.5.0\",\n  \"kind\": \"gpumem.org/gpu\",\n");
	if (library_dir)
		print_libraries(f, library_dir);
	fprintf(f, "  \"devices\": [\n");
	for (unsigned int i = 0; i < n; i++) {
		char name[16];

		snprintf(name, sizeof(name), "%u", numbers[i]);
		print_device(f, name, numbers + i, 1);
		fprintf(f, ",\n");
	}
	print_device(f, "all", numbers, n);
	fprintf(f, "\n  ]\n}\n");
}

/* @argv: the command's name and its arguments. */
int cdi(int argc, char **argv)
{
	static const struct option options[] = {
		{ .name = "help", .val = 'h' },
		{ .name = "libraries", .has_arg = required_argument, .val = 'l' },
		{ .name = "output", .has_arg = required_argument, .val = 'o' },
		{ 0 },
	};
	const char *output = NULL, *library_dir = NULL;
	char *text;
	size_t size;
	FILE *f;
	int c;

	while ((c = getopt_long(argc, argv, "o:", options, NULL)) != -1) {
		switch (c) {
		case 'h':
			fputs(cdi_usage, stdout);
			return 0;
		case 'l':
			library_dir = optarg;
			break;
		case 'o':
			output = optarg;
			break;
		default:
			fputs("Try gpumem cdi --help.\n", stderr);
			return 2;
		}
	}
	if (optind != argc - 1 || strcmp(argv[optind], "generate")) {
		fputs(cdi_usage, stderr);
		return 2;
	}
	/* Errors come before anything is printed. */
	f = open_memstream(&text, &size);
	if (!f)
		die("%s", strerror(errno));
	generate(f, library_dir);
	if (fclose(f))
		die("%s", strerror(errno));
	/* Runtimes read all files of the directory that end in .json: a new one has another name at first. */
	if (output)
		write_whole(output, text, size);
	else
		fputs(text, stdout);
	free(text);
	return 0;
}
