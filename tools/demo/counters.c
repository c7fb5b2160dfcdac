// SPDX-License-Identifier: MIT
/*
 * The kernel module's counters: for this client in /proc/self/fdinfo, for the device in
 * /sys/class/gpumem.
 */
#include "demo.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void read_fdinfo(const char *fd, struct counters *c)
{
	static const char prefix[] = "gpumem-";
	struct {
		const char *key;
		uint64_t *value;
	} known[] = {
		{ "copy-bytes:", &c->copy_bytes },
		{ "fill-bytes:", &c->fill_bytes },
		{ "jobs:", &c->jobs },
		{ "exports:", &c->exports },
		{ "export-bytes:", &c->export_bytes },
	};
	unsigned int found = 0;
	char path[64], line[256];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%.10s", fd);
	f = fopen(path, "r");
	if (!f)
		die("%s: %s", path, strerror(errno));
	while (fgets(line, sizeof(line), f)) {
		if (strncmp(line, prefix, sizeof(prefix) - 1))
			continue;
		for (unsigned int i = 0; i < sizeof(known) / sizeof(*known); i++) {
			const char *key = line + sizeof(prefix) - 1;
			size_t n = strlen(known[i].key);

			if (!strncmp(key, known[i].key, n)) {
				*known[i].value += strtoull(key + n, NULL, 10);
				found++;
			}
		}
	}
	fclose(f);
	if (found != sizeof(known) / sizeof(*known))
		die("%s lacks counters: module and program are of different versions", path);
}

/* Store the counters' sums over the clients of this process, which normally has one. */
void counters_read(struct counters *c)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned int clients = 0;
	struct dirent *e;

	*c = (struct counters){ 0 };
	if (!dir)
		die("/proc/self/fd: %s; mount /proc", strerror(errno));
	while ((e = readdir(dir))) {
		char target[64];
		ssize_t n = readlinkat(dirfd(dir), e->d_name, target, sizeof(target) - 1);

		target[n > 0 ? n : 0] = 0;
		if (!strncmp(target, "/dev/gpumem", 11)) {
			read_fdinfo(e->d_name, c);
			clients++;
		}
	}
	closedir(dir);
	if (!clients)
		die("this process has no open /dev/gpumem*: is libgpumem the library in use?");
}

void device_counters(const char *when)
{
	static const char *const names[] = { "used", "clients", "bos", "exports", "views" };

	printf("%-10s", when);
	for (unsigned int i = 0; i < sizeof(names) / sizeof(*names); i++) {
		unsigned long long value;
		char path[64];
		FILE *f;

		snprintf(path, sizeof(path), "/sys/class/gpumem/gpumem0/%s", names[i]);
		f = fopen(path, "r");
		if (!f || fscanf(f, "%llu", &value) != 1)
			die("%s: %s", path, f ? "no number" : strerror(errno));
		fclose(f);
		printf("%s %s %llu", i ? "," : "", names[i], value);
	}
	putchar('\n');
	fflush(stdout);
}
