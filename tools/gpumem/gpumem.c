// SPDX-License-Identifier: GPL-2.0
/*
 * The command gpumem: shows devices, clients, objects, and allocations that a limit refused; sets limits; looks for
 * mistakes of the installation.
 *
 * The command reads /sys/class/gpumem (devices), /proc/PID/fdinfo (the clients of a process) and netlink (all clients,
 * objects, refusals).  Only "gpumem doctor" opens a device, so others change no counter.
 */
#include <ctype.h>
#include <getopt.h>
#include <gpumem.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

struct options options = { .interval = 1 };

static const char usage[] =
"usage: gpumem list             the devices\n"
"       gpumem list clients\n"
"       gpumem list objects [CLIENT]\n"
"       gpumem top              devices and clients, once a second\n"
"       gpumem watch            allocations that a limit refuses\n"
"       gpumem leaks            everything that exists, and what does not add up\n"
"       gpumem stat PID...      the clients of processes\n"
"       gpumem stat --all       the clients of all processes\n"
"       gpumem set [NAME=VALUE...]    limits and budgets; without arguments, all of them\n"
"       gpumem doctor           what is wrong, and what mends it\n"
"       gpumem metrics          Prometheus text\n"
"       gpumem vm [OPTION...] [--] COMMAND    run it in a machine that has gpumem\n"
"       gpumem cdi generate     a CDI specification for containers\n"
"       gpumem trace -- COMMAND...    a timeline of streams and memory\n"
"       gpumem fault run|set|clear|list|sweep    let calls of programs fail\n"
"       gpumem record [OPTION...] [--] COMMAND...    write the calls of CUDA to a trace\n"
"       gpumem replay [OPTION...] FILE    run a trace again, and compare\n"
"       gpumem --version | --help\n"
"\n"
"  -a, --all            stat: all processes that may be looked at\n"
"  -b, --bytes          sizes in bytes\n"
"  -c, --clients        metrics: of each client, too\n"
"  -d, --delay SECONDS  top: time between two screens\n"
"  -j, --json           one JSON document (not metrics)\n"
"  -n, --count COUNT    top, watch: end after so many\n"
"  -o, --output FILE    metrics: replace a file; trace: the file to write\n"
"      --openmetrics    metrics: OpenMetrics text\n"
"  -p, --pid PID        trace: a process, until its end or ^C\n"
"  -s, --sort ORDER     top: by memory, pinned, engine, copy, streams or resident\n"
"  -t, --timestamps     top, watch: the time in UTC\n";

static int run_list(char **words)
{
	if (!words[0])
		return list();
	if (!strcmp(words[0], "clients") && !words[1])
		return list_clients();
	if (!strcmp(words[0], "objects") && (!words[1] || !words[2]))
		return list_objects(words[1]);
	misused("list takes nothing, clients, or objects [CLIENT]");
}

static int run_stat(char **words)
{
	if (options.all == !!words[0])
		misused("stat wants process ids, or --all");
	return options.all ? stat_all() : stat_some(words);
}

/* A command without words. */
static void no_words(const char *name, char **words)
{
	if (words[0])
		misused("%s takes no arguments", name);
}

static int run_top(char **words)
{
	no_words("top", words);
	return top();
}

static int run_watch(char **words)
{
	no_words("watch", words);
	return watch();
}

static int run_leaks(char **words)
{
	no_words("leaks", words);
	return leaks();
}

static int run_doctor(char **words)
{
	no_words("doctor", words);
	return doctor();
}

static int run_metrics(char **words)
{
	no_words("metrics", words);
	return metrics();
}

static const struct {
	const char *name, *options;	/* letters of the options that it takes */
	int (*run)(char **words);
} commands[] = {
	{ "list", "bj", run_list },
	{ "top", "bdjnst", run_top },
	{ "watch", "bjnt", run_watch },
	{ "leaks", "j", run_leaks },
	{ "stat", "abj", run_stat },
	{ "set", "j", set },
	{ "doctor", "bj", run_doctor },
	{ "metrics", "coO", run_metrics },
	{ "trace", "op", trace },
};

static int version(void)
{
	char module[64];

	if (!read_line("/sys/module/gpumem/version", module, sizeof(module)))
		strcpy(module, "not loaded");
	printf("gpumem %s, libgpumem %s, module %s\n", GPUMEM_VERSION, gpumem_version(), module);
	return 0;
}

/* Run the command of @words.  @given: letters of the options. */
static int run(char **words, const char *given)
{
	if (!words[0]) {
		fputs(usage, stderr);
		return 2;
	}
	for (unsigned int i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		if (strcmp(commands[i].name, words[0]))
			continue;
		for (const char *c = given; *c; c++)
			if (!strchr(commands[i].options, *c))
				misused("%s has no option %s", words[0], *c == 'O' ? "--openmetrics" :
					(char [3]){ '-', *c });
		return commands[i].run(words + 1);
	}
	misused("%s: no such command", words[0]);
}

static int finish(int status)
{
	check_output();
	return status;
}

int main(int argc, char **argv)
{
	static const struct option table[] = {
		{ "all", no_argument, NULL, 'a' },
		{ "bytes", no_argument, NULL, 'b' },
		{ "clients", no_argument, NULL, 'c' },
		{ "count", required_argument, NULL, 'n' },
		{ "delay", required_argument, NULL, 'd' },
		{ "help", no_argument, NULL, 'h' },
		{ "json", no_argument, NULL, 'j' },
		{ "openmetrics", no_argument, NULL, 'O' },
		{ "output", required_argument, NULL, 'o' },
		{ "pid", required_argument, NULL, 'p' },
		{ "sort", required_argument, NULL, 's' },
		{ "timestamps", no_argument, NULL, 't' },
		{ "version", no_argument, NULL, 'V' },
		{ 0 },
	};
	char given[64] = "", *end;
	unsigned long pid;
	int c;

	/* These commands have options of their own. */
	if (argc > 1 && !strcmp(argv[1], "vm"))
		vm(argv + 1);
	if (argc > 1 && !strcmp(argv[1], "record"))
		record(argc - 1, argv + 1);
	if (argc > 1 && !strcmp(argv[1], "replay"))
		replay(argv + 1);
	if (argc > 1 && !strcmp(argv[1], "cdi"))
		return finish(cdi(argc - 1, argv + 1));
	if (argc > 1 && !strcmp(argv[1], "fault"))
		return finish(fault(argc - 1, argv + 1));
	while ((c = getopt_long(argc, argv, "abcd:hjn:o:p:s:tV", table, NULL)) != -1) {
		if (strlen(given) + 1 < sizeof(given) && !strchr(given, c))
			given[strlen(given)] = c;
		switch (c) {
		case 'a':
			options.all = true;
			break;
		case 'b':
			options.bytes = true;
			break;
		case 'c':
			options.clients = true;
			break;
		case 'd':
			options.interval = strtod(optarg, &end);
			if (!isdigit((unsigned char)*optarg) || *end || options.interval < 0.1 ||
			    options.interval > 86400)
				misused("--delay %s: give seconds from 0.1 to 86400", optarg);
			break;
		case 'j':
			options.json = true;
			break;
		case 'n':
			options.count = strtoul(optarg, &end, 10);
			if (!isdigit((unsigned char)*optarg) || *end || !options.count)
				misused("--count %s: not a number above 0", optarg);
			break;
		case 'o':
			options.output = optarg;
			break;
		case 'O':
			options.openmetrics = true;
			break;
		case 'p':
			pid = strtoul(optarg, &end, 10);
			options.pid = pid;
			if (!isdigit((unsigned char)*optarg) || *end || !pid || pid > 1 << 22)
				misused("--pid %s: not a process id", optarg);
			break;
		case 's':
			options.sort = optarg;
			break;
		case 't':
			options.times = true;
			break;
		case 'h':
			fputs(usage, stdout);
			check_output();
			return 0;
		case 'V':
			version();
			check_output();
			return 0;
		default:
			fputs("Try gpumem --help.\n", stderr);
			return 2;
		}
	}
	return finish(run(argv + optind, given));
}
