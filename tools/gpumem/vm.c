// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem vm: become the program gpumem-vm.  It is in libexec/gpumem beside the directory of this program, in an
 * installation as in a build directory.
 */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "tool.h"

/* @argv: the command's name and its arguments.  Does not return. */
void vm(char **argv)
{
	char self[PATH_MAX], path[PATH_MAX + 64];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0)
		die("/proc/self/exe: %s: mount /proc", strerror(errno));
	self[n] = 0;
	snprintf(path, sizeof(path), "%s/../libexec/gpumem/gpumem-vm", dirname(self));
	argv[0] = path;
	execv(path, argv);
	die("%s: %s: it needs python3 and is installed by make install", path, strerror(errno));
}
