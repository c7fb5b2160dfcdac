// SPDX-License-Identifier: MIT
/*
 * Descriptors that the program got from an export: of DMA-bufs, memory handles, pools and semaphores.
 *
 * The checker does not see close(). It notes which file each descriptor is, and looks when the process ends whether
 * the descriptor is still that file. The inode tells DMA-bufs apart. The other files share one inode, and only their
 * kind is known. So an import from a descriptor forgets the descriptor: it may have been closed, and its number may be
 * that of a file which the program received.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check/check.h"

struct file {
	dev_t device;
	ino_t inode;
	char kind[64];			/* what the kernel calls it */
};

struct export {
	const char *what;		/* constant */
	int fd;
	struct file file;
	const char *call;
	const struct stack *stack;
	struct export *next;
};

static struct export *exports;

/* False: no file is open, or the kernel does not tell. */
static bool file_of(int fd, struct file *file)
{
	struct stat status;
	char path[32];
	ssize_t length;

	memset(file, 0, sizeof(*file));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	length = readlink(path, file->kind, sizeof(file->kind) - 1);
	if (length < 0 || fstat(fd, &status))
		return false;
	file->device = status.st_dev;
	file->inode = status.st_ino;
	return true;
}

static bool same(const struct file *a, const struct file *b)
{
	return a->device == b->device && a->inode == b->inode && !strcmp(a->kind, b->kind);
}

void export_forget(int fd)
{
	struct export **at, *export;

	for (at = &exports; (export = *at); at = &export->next)
		if (export->fd == fd) {
			*at = export->next;
			free(export);
			return;
		}
}

void export_add(const char *what, int fd, const struct call *call)
{
	struct export *export;

	/* The program has closed an earlier one with this number. */
	export_forget(fd);
	export = calloc(1, sizeof(*export));
	if (!export)
		return;
	if (!file_of(fd, &export->file)) {
		free(export);
		return;
	}
	export->what = what;
	export->fd = fd;
	export->call = call->name;
	export->stack = call->stack;
	export->next = exports;
	exports = export;
}

void exports_open(void (*each)(const char *what, const char *call, const struct stack *stack))
{
	const struct export *export;
	struct file now;

	for (export = exports; export; export = export->next)
		if (file_of(export->fd, &now) && same(&now, &export->file))
			each(export->what, export->call, export->stack);
}
