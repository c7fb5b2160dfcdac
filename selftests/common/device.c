// SPDX-License-Identifier: GPL-2.0
/* See device.h. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "common/util.h"

int dev_attr_text(unsigned int ordinal, const char *name, char *text, size_t size)
{
	char path[96];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/sys/class/gpumem/gpumem%u/%s", ordinal, name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	n = read(fd, text, size - 1);
	close(fd);
	if (n < 0)
		return -errno;
	text[n] = 0;
	text[strcspn(text, "\n")] = 0;
	return 0;
}

long long dev_attr(unsigned int ordinal, const char *name)
{
	char text[64], *end;
	long long v;
	int ret = dev_attr_text(ordinal, name, text, sizeof(text));

	if (ret)
		return ret;
	v = strtoll(text, &end, 0);
	return end == text || *end ? -EBADMSG : v;
}

unsigned int dev_count(void)
{
	unsigned int n = 0;
	char path[32];

	for (;; n++) {
		snprintf(path, sizeof(path), "/dev/gpumem%u", n);
		if (access(path, F_OK))
			return n;
	}
}

bool node_mode(mode_t *mode)
{
	struct stat st;

	if (stat("/dev/gpumem0", &st))
		return false;
	*mode = st.st_mode & 07777;
	return true;
}

bool node_open_to_all(mode_t *mode)
{
	return node_mode(mode) && !chmod("/dev/gpumem0", 0666);
}

bool dev_attr_becomes(unsigned int ordinal, const char *name, long long value, double seconds)
{
	__u64 end = in_seconds(seconds);

	for (;;) {
		long long now = dev_attr(ordinal, name);

		if (now == value)
			return true;
		if (mono_ns() > end) {
			fprintf(stderr, "# gpumem%u/%s is %lld, not %lld\n", ordinal, name, now,
				value);
			return false;
		}
		nap_ms(5);
	}
}

bool dev_quiet(double seconds)
{
	static const char * const names[] = {
		"clients", "bos", "exports", "views", "pools", "imports", "used", "managed",
	};
	__u64 end = in_seconds(seconds);
	unsigned int n = dev_count();
	bool quiet = n;

	for (unsigned int d = 0; d < n; d++) {
		for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
			__u64 now = mono_ns();

			quiet &= dev_attr_becomes(d, names[i], 0,
						  now < end ? (end - now) / (double)NSEC : 0);
		}
	}
	return quiet;
}

#define STAT(member) { #member, offsetof(struct gpumem_stats, member) }
const struct stat_name stat_names[] = {
	STAT(objects), STAT(bos), STAT(bo_bytes), STAT(views), STAT(view_bytes), STAT(vm_bytes),
	STAT(exports), STAT(export_bytes), STAT(tokens), STAT(streams), STAT(jobs),
	STAT(copy_bytes), STAT(fill_bytes), STAT(doorbells), STAT(pins), STAT(pin_bytes),
	STAT(host), STAT(host_bytes), STAT(pools), STAT(pool_reserved), STAT(pool_imports),
	STAT(imports), STAT(import_bytes),
	STAT(pool_cached), STAT(mappings), STAT(ring_bytes),
	STAT(managed), STAT(managed_resident), STAT(managed_faults), STAT(managed_evictions),
	STAT(managed_in), STAT(managed_out), STAT(managed_held), STAT(managed_thrash),
	STAT(managed_moved), STAT(managed_stayed),
	STAT(managed_duplicated), STAT(managed_duplications), STAT(managed_collapses),
	STAT(engine_ns),
};
const unsigned int stat_count = sizeof(stat_names) / sizeof(stat_names[0]);

__u64 stat_get(const struct gpumem_stats *stats, unsigned int i)
{
	return *(const __u64 *)((const char *)stats + stat_names[i].offset);
}

int fdinfo_read(pid_t pid, int fd, struct gpumem_stats *stats, __u64 *device)
{
	unsigned int seen[sizeof(stat_names) / sizeof(stat_names[0])] = { 0 }, seen_device = 0;
	char line[256], path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%d", pid, fd);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	*stats = (struct gpumem_stats) { .size = sizeof(*stats) };
	while (fgets(line, sizeof(line), f)) {
		char key[64], *c;
		uint64_t v;

		if (sscanf(line, "gpumem-%63[^:]:\t%" SCNu64 "\n", key, &v) != 2)
			continue;
		for (c = key; *c; c++)
			*c = *c == '-' ? '_' : *c;
		if (!strcmp(key, "device")) {
			*device = v;
			seen_device++;
		}
		for (unsigned int i = 0; i < stat_count; i++) {
			if (strcmp(key, stat_names[i].name))
				continue;
			*(__u64 *)((char *)stats + stat_names[i].offset) = v;
			seen[i]++;
		}
	}
	fclose(f);
	for (unsigned int i = 0; i < stat_count; i++) {
		if (seen[i] != 1) {
			fprintf(stderr, "# fdinfo has %u lines for %s\n", seen[i],
				stat_names[i].name);
			return -ENODATA;
		}
	}
	return seen_device == 1 ? 0 : -ENODATA;
}
