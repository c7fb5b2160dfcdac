// SPDX-License-Identifier: GPL-2.0
/* The leak detector.  See leak.h. */
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/stat.h>
#include <time.h>

#include "../../tools/gpumem/nl.h"
#include "common/leak.h"
#include "common/util.h"

/* The kilobytes behind @key in a file, in bytes; or -1. */
static long long kilobytes(const char *path, const char *key)
{
	long long value = number_of(path, key);

	return value < 0 ? value : value * 1024;
}

/* Bytes in the tmpfs mounts that this process sees, each counted once. */
static long long tmpfs_used(void)
{
	FILE *f = setmntent("/proc/self/mounts", "re");
	struct mntent *m;
	dev_t seen[64];
	unsigned int n = 0, i;
	long long used = 0;

	while (f && (m = getmntent(f))) {
		struct statfs fs;
		struct stat st;

		if (strcmp(m->mnt_type, "tmpfs") && strcmp(m->mnt_type, "devtmpfs"))
			continue;
		if (stat(m->mnt_dir, &st) || statfs(m->mnt_dir, &fs))
			continue;
		for (i = 0; i < n && seen[i] != st.st_dev; i++)
			;
		if (i < n || n == sizeof(seen) / sizeof(*seen))
			continue;
		seen[n++] = st.st_dev;
		used += (long long)(fs.f_blocks - fs.f_bfree) * fs.f_bsize;
	}
	if (f)
		endmntent(f);
	return used;
}

static void look(struct leak_state *state)
{
	state->pinned = kilobytes("/proc/self/status", "VmPin:");
	state->shmem = kilobytes("/proc/meminfo", "Shmem:") - tmpfs_used();
}

void leak_begin(struct leak_state *state)
{
	look(state);
}

static void say(void *arg, const char *line)
{
	if (arg)
		printf("# left: %s\n", line);
}

int leak_module(bool print)
{
	static int yes;
	struct gnl nl;
	int ret = gnl_open(&nl);

	if (!ret) {
		ret = gnl_audit(&nl, true, say, print ? &yes : NULL);
		gnl_close(&nl);
	}
	if (ret < 0)
		printf("# leak detector: %s\n", gnl_why(ret));
	return ret < 0 ? -1 : ret;
}

bool leak_end(const struct leak_state *state)
{
	const struct timespec nap = { .tv_nsec = 50000000 };
	struct leak_state now;
	int lines = 0;

	for (int i = 0; i < 200; i++) {
		if (i)
			nanosleep(&nap, NULL);
		look(&now);
		lines = leak_module(false);
		if (!lines && now.pinned == state->pinned &&
		    now.shmem - state->shmem <= LEAK_SHMEM)
			return true;
		if (lines < 0)
			return false;
	}
	leak_module(true);
	if (now.pinned != state->pinned)
		printf("# left: VmPin is %lld, was %lld\n", now.pinned, state->pinned);
	if (now.shmem - state->shmem > LEAK_SHMEM)
		printf("# left: %lld bytes of shared memory outside of tmpfs mounts, before %lld\n",
		       now.shmem, state->shmem);
	return false;
}
