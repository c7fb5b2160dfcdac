// SPDX-License-Identifier: GPL-2.0
/*
 * The clients of processes, by /proc/PID/fdinfo.
 *
 * A client is one open file of a device node.  It is shown once for each descriptor: a child process that inherited a
 * descriptor shows the client too.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

/* Print the gpumem lines of a descriptor's fdinfo, or add them to @array; false if it cannot be read. */
static bool show_client(const char *proc, const char *fd, const char *target, json_t *array)
{
	char path[300], line[256], comm[64] = "?";
	json_t *object = NULL;
	FILE *f;

	snprintf(path, sizeof(path), "%s/comm", proc);
	read_line(path, comm, sizeof(comm));
	snprintf(path, sizeof(path), "%s/fdinfo/%s", proc, fd);
	f = fopen(path, "re");
	if (!f)
		return false;
	if (array) {
		object = pack("{}");
		put_text(object, "pid", proc + strlen("/proc/"));
		put(object, "command", text_json(comm));
		put_text(object, "descriptor", fd);
		put(object, "path", text_json(target));
	} else {
		printf("%s %s: descriptor %s, %s\n", proc + strlen("/proc/"), comm, fd, target);
	}
	while (fgets(line, sizeof(line), f)) {
		char *key = line, *value = strchr(line, ':'), text[64];

		if (strncmp(key, "gpumem-", 7) || !value)
			continue;
		key += 7;
		*value++ = 0;
		value += strspn(value, " \t");
		value[strcspn(value, "\n")] = 0;
		if (object) {
			put_text(object, key, value);
			continue;
		}
		if ((strstr(key, "bytes") || strstr(key, "reserved")) && isdigit((unsigned char)*value)) {
			format_size(strtoull(value, NULL, 10), text, sizeof(text));
			value = text;
		}
		printf("  %-16s %s\n", key, value);
	}
	fclose(f);
	if (object)
		append(array, object);
	return true;
}

/* Show the clients of a process; returns how many descriptors it has of them, or -1 with errno set. */
static int show_process(const char *proc, json_t *array)
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
			count += show_client(proc, e->d_name, target, array);
	}
	closedir(dir);
	return count;
}

static json_t *begin(json_t **doc)
{
	if (!module_loaded())
		die("the module is not loaded: modprobe gpumem");
	*doc = options.json ? document("stat") : NULL;
	return *doc ? pack("[]") : NULL;
}

static void finish(json_t *doc, json_t *array)
{
	if (!doc)
		return;
	put(doc, "descriptors", array);
	print_document(doc);
}

int stat_all(void)
{
	unsigned int hidden = 0, shown = 0;
	DIR *dir = opendir("/proc");
	json_t *doc, *array = begin(&doc);
	struct dirent *e;

	if (!dir)
		die("/proc: %s: mount it", strerror(errno));
	while ((e = readdir(dir))) {
		char proc[64];
		int n;

		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		snprintf(proc, sizeof(proc), "/proc/%.20s", e->d_name);
		n = show_process(proc, array);
		if (n > 0)
			shown += n;
		else if (n < 0 && errno == EACCES)
			hidden++;
	}
	closedir(dir);
	if (!shown && !doc)
		printf("no clients\n");
	finish(doc, array);
	if (hidden) {
		fflush(stdout);
		fprintf(stderr, "gpumem: %u processes of others were left out: root sees all\n", hidden);
	}
	return 0;
}

static void stat_one(const char *text, json_t *array)
{
	char proc[64], *end;
	unsigned long pid = strtoul(text, &end, 10);
	int n;

	if (!isdigit((unsigned char)*text) || *end || !pid || pid > 1 << 22)
		misused("%s is not a process id; gpumem stat --all shows all processes", text);
	snprintf(proc, sizeof(proc), "/proc/%lu", pid);
	n = show_process(proc, array);
	if (n < 0 && errno == ENOENT)
		die("process %lu does not exist; stat --all finds those that do", pid);
	if (n < 0)
		die("process %lu: %s: become its user or root", pid, strerror(errno));
	if (!n)
		die("process %lu has no gpumem device open", pid);
}

int stat_some(char **pids)
{
	json_t *doc, *array = begin(&doc);

	while (*pids)
		stat_one(*pids++, array);
	finish(doc, array);
	return 0;
}
