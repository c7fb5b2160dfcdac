// SPDX-License-Identifier: GPL-2.0
/*
 * The command gpumem: shows devices, clients, objects, and allocations that a limit refused.
 *
 * The command reads /sys/class/gpumem (devices), /proc/PID/fdinfo (the clients of a process) and
 * netlink (live.c: all clients, objects, refusals).  It does not open a device, so it changes no
 * counter.
 *
 * A client is one open file of a device node.  "gpumem stat" shows a client once for each
 * descriptor: a child process that inherited a descriptor shows the client too.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <gpumem.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

#define CLASS		"/sys/class/gpumem"
#define MAX_DEVICES	64

static const char usage[] =
"usage: gpumem list [-b]        the devices\n"
"       gpumem list [-b] clients\n"
"       gpumem list [-b] objects [CLIENT]\n"
"       gpumem top [-b] [-n COUNT]    devices and clients, once a second\n"
"       gpumem watch [-b] [-n COUNT]  allocations that a limit refuses\n"
"       gpumem leaks            everything that exists, and what does not add up\n"
"       gpumem stat [-b] PID... the clients of processes\n"
"       gpumem stat [-b] --all  the clients of all processes\n"
"       gpumem vm [OPTION...] [--] COMMAND    run it in a machine that has gpumem\n"
"       gpumem cdi generate [--output FILE]   a CDI specification for containers\n"
"       gpumem --version | --help\n"
"\n"
"  -b, --bytes  sizes in bytes\n"
"  -n, --count  end after so many\n"
"  -a, --all    all processes that may be looked at\n";

static bool bytes;

void die(const char *format, ...)
{
	va_list ap;

	fflush(stdout);
	fputs("gpumem: ", stderr);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(1);
}

/*
 * Read the first line of a file, without the line end; false if the file has none or cannot be
 * read.
 */
static bool read_line(const char *path, char *line, size_t size)
{
	FILE *f = fopen(path, "r");
	bool ok = f && fgets(line, size, f);

	if (f)
		fclose(f);
	if (ok)
		line[strcspn(line, "\n")] = 0;
	return ok;
}

/* Format a number of bytes, such as "3.5 MiB"; with --bytes as a plain number. */
void format_size(unsigned long long value, char *text, size_t size)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
	double v = value;
	unsigned int i = 0;

	if (bytes) {
		snprintf(text, size, "%llu", value);
		return;
	}
	while (v >= 1024 && i < 5) {
		v /= 1024;
		i++;
	}
	snprintf(text, size, v == (unsigned long long)v ? "%.0f %s" : "%.1f %s", v, units[i]);
}

static bool module_loaded(void)
{
	return !access(CLASS, F_OK);
}

/* Store the numbers N of the devices gpumemN, in rising order; returns how many. */
static unsigned int device_numbers(unsigned int numbers[MAX_DEVICES])
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < MAX_DEVICES; i++) {
		char path[64];

		snprintf(path, sizeof(path), CLASS "/gpumem%u", i);
		if (!access(path, F_OK))
			numbers[n++] = i;
	}
	return n;
}

int list(void)
{
	static const struct {
		const char *title, *attribute;
		int width;
	} columns[] = {
		{ "SIZE", "size", 12 }, { "USED", "used", 12 }, { "NODE", "node", 5 },
		{ "ENGINE", "engine", 8 }, { "CLIENTS", "clients", 8 }, { "BOS", "bos", 6 },
		{ "EXPORTS", "exports", 8 }, { "VIEWS", "views", 6 }, { "POOLS", "pools", 6 },
	};
	const unsigned int count = sizeof(columns) / sizeof(*columns);
	unsigned int numbers[MAX_DEVICES], n;

	if (!module_loaded())
		die("the module is not loaded: modprobe gpumem");
	n = device_numbers(numbers);
	if (!n)
		die("the module has no devices: look for its messages in dmesg");
	printf("%-10s", "DEVICE");
	for (unsigned int k = 0; k < count; k++)
		printf("%*s", columns[k].width + (bytes && k < 2) * 4, columns[k].title);
	putchar('\n');
	for (unsigned int i = 0; i < n; i++) {
		printf("gpumem%-4u", numbers[i]);
		for (unsigned int k = 0; k < count; k++) {
			char path[128], value[64];

			snprintf(path, sizeof(path), CLASS "/gpumem%u/%s", numbers[i],
				 columns[k].attribute);
			if (!read_line(path, value, sizeof(value)))
				die("%s: %s: module and tool are of different versions", path,
				    strerror(errno));
			if (k < 2)
				format_size(strtoull(value, NULL, 10), value, sizeof(value));
			printf("%*s", columns[k].width + (bytes && k < 2) * 4, value);
		}
		putchar('\n');
	}
	return 0;
}

/* Print the gpumem lines of a descriptor's fdinfo; false if it cannot be read. */
static bool show_client(const char *proc, const char *fd, const char *target)
{
	char path[300], line[256], comm[64] = "?";
	FILE *f;

	snprintf(path, sizeof(path), "%s/comm", proc);
	read_line(path, comm, sizeof(comm));
	snprintf(path, sizeof(path), "%s/fdinfo/%s", proc, fd);
	f = fopen(path, "r");
	if (!f)
		return false;
	printf("%s %s: descriptor %s, %s\n", proc + strlen("/proc/"), comm, fd, target);
	while (fgets(line, sizeof(line), f)) {
		char *key = line, *value = strchr(line, ':'), text[64];

		if (strncmp(key, "gpumem-", 7) || !value)
			continue;
		key += 7;
		*value++ = 0;
		value += strspn(value, " \t");
		value[strcspn(value, "\n")] = 0;
		if ((strstr(key, "bytes") || strstr(key, "reserved")) && isdigit((unsigned char)*value)) {
			format_size(strtoull(value, NULL, 10), text, sizeof(text));
			value = text;
		}
		printf("  %-16s %s\n", key, value);
	}
	fclose(f);
	return true;
}

/*
 * Print the clients of a process; returns how many descriptors it has of them, or -1 with errno
 * set.
 */
static int show_process(const char *proc)
{
	char path[64];
	struct dirent *e;
	int count = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/fd", proc);
	dir = opendir(path);
	if (!dir)
		return -1;
	while ((e = readdir(dir))) {
		char target[64];
		ssize_t n = readlinkat(dirfd(dir), e->d_name, target, sizeof(target) - 1);

		target[n > 0 ? n : 0] = 0;
		if (!strncmp(target, "/dev/gpumem", 11))
			count += show_client(proc, e->d_name, target);
	}
	closedir(dir);
	return count;
}

static int stat_all(void)
{
	unsigned int hidden = 0, shown = 0;
	DIR *dir = opendir("/proc");
	struct dirent *e;

	if (!dir)
		die("/proc: %s: mount it", strerror(errno));
	while ((e = readdir(dir))) {
		char proc[64];
		int n;

		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		snprintf(proc, sizeof(proc), "/proc/%.20s", e->d_name);
		n = show_process(proc);
		if (n > 0)
			shown += n;
		else if (n < 0 && errno == EACCES)
			hidden++;
	}
	closedir(dir);
	if (!shown)
		printf("no clients\n");
	if (hidden) {
		fflush(stdout);
		fprintf(stderr, "gpumem: %u processes of others were left out: root sees all\n",
			hidden);
	}
	return 0;
}

static int stat_one(const char *text)
{
	char proc[64], *end;
	unsigned long pid = strtoul(text, &end, 10);
	int n;

	if (!isdigit((unsigned char)*text) || *end || !pid || pid > 1 << 22)
		die("%s is not a process id; gpumem stat --all shows all processes", text);
	snprintf(proc, sizeof(proc), "/proc/%lu", pid);
	n = show_process(proc);
	if (n < 0 && errno == ENOENT)
		die("process %lu does not exist; stat --all finds those that do", pid);
	if (n < 0)
		die("process %lu: %s: become its user or root", pid, strerror(errno));
	if (!n)
		die("process %lu has no gpumem device open", pid);
	return 0;
}

static void version(void)
{
	char module[64];

	if (!read_line("/sys/module/gpumem/version", module, sizeof(module)))
		strcpy(module, "not loaded");
	printf("gpumem %s, libgpumem %s, module %s\n", GPUMEM_VERSION, gpumem_version(), module);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "all", no_argument, NULL, 'a' },
		{ "bytes", no_argument, NULL, 'b' },
		{ "count", required_argument, NULL, 'n' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ 0 },
	};
	const char *command;
	unsigned long count = 0;
	bool all = false;
	char *end;
	int c;

	/* These commands have options of their own. */
	if (argc > 1 && !strcmp(argv[1], "vm"))
		vm(argv + 1);
	if (argc > 1 && !strcmp(argv[1], "cdi"))
		return cdi(argc - 1, argv + 1);
	while ((c = getopt_long(argc, argv, "abhn:V", options, NULL)) != -1) {
		switch (c) {
		case 'a':
			all = true;
			break;
		case 'b':
			bytes = true;
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		case 'n':
			count = strtoul(optarg, &end, 10);
			if (!isdigit((unsigned char)*optarg) || *end || !count)
				die("--count %s: not a number above 0", optarg);
			break;
		case 'V':
			version();
			return 0;
		default:
			fputs("Try gpumem --help.\n", stderr);
			return 2;
		}
	}
	command = optind < argc ? argv[optind++] : NULL;
	if (!command) {
		fputs(usage, stderr);
		return 2;
	}
	if (!strcmp(command, "list") && optind == argc && !all)
		return list();
	if (!strcmp(command, "list")) {
		command = argv[optind++];
		if (!all && command && !strcmp(command, "clients") && optind == argc)
			list_clients();
		else if (!all && command && !strcmp(command, "objects") && optind + 1 >= argc)
			list_objects(optind < argc ? argv[optind] : NULL);
		else
			die("list takes nothing, clients, or objects [CLIENT]; try gpumem --help");
		return 0;
	}
	if (!strcmp(command, "top") || !strcmp(command, "watch") || !strcmp(command, "leaks")) {
		if (optind < argc || all)
			die("%s takes no arguments; try gpumem --help", command);
		if (command[0] == 'l')
			return leaks();
		if (command[0] == 't')
			top(count);
		else
			watch(count);
		return 0;
	}
	if (strcmp(command, "stat"))
		die("%s: no such command; there are list, top, watch, stat and leaks", command);
	if (all == (optind < argc))
		die("stat wants process ids, or --all");
	if (!module_loaded())
		die("the module is not loaded: modprobe gpumem");
	if (all)
		return stat_all();
	while (optind < argc)
		stat_one(argv[optind++]);
	return 0;
}
