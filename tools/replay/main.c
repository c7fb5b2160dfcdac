// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem-replay: options, and the order of the steps.
 */
#include <ctype.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "replay.h"

struct options options = { .patience = 60 };

static const char usage[] =
"usage: gpumem replay [OPTION...] FILE\n"
"\n"
"  -j, --json           one JSON document\n"
"  -l, --libcuda FILE   replay on this libcuda.so.1, instead of gpumem's library\n"
"  -n, --dry-run        read the trace, and call no driver\n"
"  -p, --pace           at the recorded pace\n"
"  -r, --report FILE    write an HTML page\n"
"  -t, --timeout SECONDS    give up when a call takes longer (60)\n";

void refuse(const char *format, ...)
{
	va_list args;

	fflush(stdout);
	fputs("gpumem: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(2);
}

void *must_alloc(size_t count, size_t size)
{
	void *memory = calloc(count, size);

	if (!memory)
		refuse("not enough memory");
	return memory;
}

void *must_grow(void *array, uint32_t count, uint32_t *room, size_t size)
{
	if (count < *room)
		return array;
	*room = count ? count * 2 : 64;
	array = realloc(array, *room * size);
	if (!array)
		refuse("not enough memory");
	return array;
}

static void read_options(int argc, char **argv)
{
	static const struct option table[] = {
		{ "dry-run", no_argument, NULL, 'n' },
		{ "help", no_argument, NULL, 'h' },
		{ "json", no_argument, NULL, 'j' },
		{ "libcuda", required_argument, NULL, 'l' },
		{ "pace", no_argument, NULL, 'p' },
		{ "report", required_argument, NULL, 'r' },
		{ "timeout", required_argument, NULL, 't' },
		{ 0 },
	};
	unsigned long number;
	char *end;
	int c;

	while ((c = getopt_long(argc, argv, "hjl:npr:t:", table, NULL)) != -1) {
		switch (c) {
		case 'h':
			fputs(usage, stdout);
			exit(0);
		case 'j':
			options.json = true;
			break;
		case 'l':
			options.libcuda = optarg;
			break;
		case 'n':
			options.dry = true;
			break;
		case 'p':
			options.pace = true;
			break;
		case 'r':
			options.report = optarg;
			break;
		case 't':
			number = strtoul(optarg, &end, 10);
			if (!isdigit((unsigned char)*optarg) || *end || !number || number > 86400)
				refuse("--timeout %s: give seconds from 1 to 86400", optarg);
			options.patience = (unsigned int)number;
			break;
		default:
			fputs("Try gpumem replay --help.\n", stderr);
			exit(2);
		}
	}
	if (optind + 1 != argc)
		refuse("replay wants one trace");
	options.trace = argv[optind];
}

int main(int argc, char **argv)
{
	struct comparison comparison = { 0 };
	int status;

	read_options(argc, argv);
	load(options.trace);
	resolve();
	if (!options.dry) {
		driver_load();
		play();
	}
	compare(&comparison);
	if (options.json)
		print_json(&comparison);
	else
		print_text(&comparison);
	if (options.report)
		page_write(&comparison, options.report);
	status = comparison.differ ? 1 : 0;
	if (fflush(stdout) || ferror(stdout))
		refuse("standard output cannot be written");
	/* What the trace left allocated ends with the process. */
	_exit(status);
}
