/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Control groups of the tests: each is a child of the root group.
 */
#ifndef GPUMEM_SELFTESTS_CGROUP_H
#define GPUMEM_SELFTESTS_CGROUP_H

struct cgroup {
	char path[128];
};

/* Creates the group.  Returns 0, or a negative errno if the kernel has no memory cgroups.  */
int cgroup_make(struct cgroup *cg, const char *name);
/* Switches a controller on for groups of cgroup_make(), "+pids"; 0 or a negative errno. */
int cgroup_control(const char *controller);
int cgroup_write(const struct cgroup *cg, const char *file, const char *text);
long long cgroup_read(const struct cgroup *cg, const char *file);
/* The number after @key in a flat-keyed file. */
long long cgroup_read_key(const struct cgroup *cg, const char *file, const char *key);
int cgroup_enter(const struct cgroup *cg);
int cgroup_remove(const struct cgroup *cg);

#endif
