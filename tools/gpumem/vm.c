// SPDX-License-Identifier: GPL-2.0
/*
 * Programs behind commands: gpumem vm becomes gpumem-vm, gpumem replay becomes gpumem-replay.  They are in libexec/gpumem
 * beside the directory of this program, in an installation as in a build directory.
 */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

void run_helper(const char *name, char **argv, const char *advice)
{
	char self[PATH_MAX], path[PATH_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0)
		die("/proc/self/exe: %s: mount /proc", strerror(errno));
	self[n] = 0;
	snprintf(path, sizeof(path), "%s/../libexec/gpumem/%s", dirname(self), name);
	argv[0] = path;
	execv(path, argv);
	die("%s: %s: %s", path, strerror(errno), advice);
}

void vm(char **argv)
{
	run_helper("gpumem-vm", argv, "it needs python3 and is installed by make install");
}
