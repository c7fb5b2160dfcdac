// SPDX-License-Identifier: GPL-2.0
/* See cgroup.h. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <sys/stat.h>

#include "common/util.h"

#define CGROUP_ROOT	"/sys/fs/cgroup"

int cgroup_make(struct cgroup *cg, const char *name)
{
	int ret = write_file(CGROUP_ROOT "/cgroup.subtree_control", "+memory");

	if (ret)
		return ret;
	/* Some tests use the cpu controller, which not every kernel has.  */
	write_file(CGROUP_ROOT "/cgroup.subtree_control", "+cpu");
	snprintf(cg->path, sizeof(cg->path), CGROUP_ROOT "/gpumem-%s-%d", name, getpid());
	return mkdir(cg->path, 0755) ? -errno : 0;
}

int cgroup_control(const char *controller)
{
	return write_file(CGROUP_ROOT "/cgroup.subtree_control", controller);
}

int cgroup_write(const struct cgroup *cg, const char *file, const char *text)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/%s", cg->path, file);
	return write_file(path, text);
}

long long cgroup_read_key(const struct cgroup *cg, const char *file, const char *key)
{
	char path[256], line[256];
	long long v = -ENOENT, n;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", cg->path, file);
	f = fopen(path, "re");
	if (!f)
		return -errno;
	while (fgets(line, sizeof(line), f)) {
		size_t len = key ? strlen(key) : 0;

		if (key && (strncmp(line, key, len) || line[len] != ' '))
			continue;
		if (sscanf(line + len, "%lld", &n) == 1)
			v = n;
	}
	fclose(f);
	return v;
}

long long cgroup_read(const struct cgroup *cg, const char *file)
{
	return cgroup_read_key(cg, file, NULL);
}

int cgroup_enter(const struct cgroup *cg)
{
	return cgroup_write(cg, "cgroup.procs", "0");
}

int cgroup_remove(const struct cgroup *cg)
{
	int ret = 0;

	/* rmdir() fails with EBUSY until the kernel has removed the last process from the group. */
	for (int i = 0; i < 200; i++) {
		ret = rmdir(cg->path) ? -errno : 0;
		if (ret != -EBUSY)
			break;
		nap_ms(10);
	}
	return ret;
}
