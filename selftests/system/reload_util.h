/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Loading and unloading gpumem.ko, for tests that need other parameters or an insmod that fails.
 *
 * reload_save() finds the module's file and remembers how the loaded module was loaded;
 * reload_restore() gives the next program the same module again.  Include this after util.h.
 */
#ifndef GPUMEM_SELFTESTS_RELOAD_UTIL_H
#define GPUMEM_SELFTESTS_RELOAD_UTIL_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/util.h"

#define RELOAD_MODULE	"/sys/module/gpumem"

static char reload_ko[PATH_MAX], reload_params[512];
static mode_t reload_mode;

/* A parameter's value, or an empty text. */
static inline void reload_param(const char *name, char *text, size_t size)
{
	char path[128];
	FILE *f;

	text[0] = 0;
	snprintf(path, sizeof(path), RELOAD_MODULE "/parameters/%s", name);
	f = fopen(path, "re");
	if (f && fgets(text, size, f))
		text[strcspn(text, "\n")] = 0;
	if (f)
		fclose(f);
	if (!strcmp(text, "(null)"))
		text[0] = 0;
}

/* Is there a module that can be reloaded? */
static inline bool reload_save(void)
{
	static const char * const names[] = { "devices", "vram", "node" };
	const char *ko = getenv("GPUMEM_KO");
	char text[128];
	struct utsname u;
	struct stat st;

	uname(&u);
	snprintf(reload_ko, sizeof(reload_ko), "%s", ko ? ko : "/run/vm/gpumem.ko");
	if (access(reload_ko, R_OK))
		snprintf(reload_ko, sizeof(reload_ko), "%s/%s/gpumem.ko",
			 getenv("BUILD") ? getenv("BUILD") : "build", u.release);
	if (access(reload_ko, R_OK))
		snprintf(reload_ko, sizeof(reload_ko), "/lib/modules/%s/updates/gpumem.ko",
			 u.release);
	reload_params[0] = 0;
	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t n = strlen(reload_params);

		reload_param(names[i], text, sizeof(text));
		if (text[0])
			snprintf(reload_params + n, sizeof(reload_params) - n, "%s=%s ", names[i],
				 text);
	}
	if (stat("/dev/gpumem0", &st) || access(reload_ko, R_OK) || geteuid())
		return false;
	reload_mode = st.st_mode & 07777;
	return true;
}

/* Loads the module with @params: 0 or a negative errno.  */
static inline int reload_load(const char *params)
{
	int fd = open(reload_ko, O_RDONLY | O_CLOEXEC), ret;

	if (fd < 0)
		return -errno;
	ret = syscall(SYS_finit_module, fd, params, 0) ? -errno : 0;
	close(fd);
	return ret;
}

/* Unloads the module; retries, as the kernel may release closed files a little later.  */
static inline bool reload_unload(void)
{
	for (int i = 0; i < 200; i++) {
		if (!syscall(SYS_delete_module, "gpumem", O_NONBLOCK) || errno == ENOENT)
			return true;
		nap_ms(50);
	}
	fprintf(stderr, "# the module cannot be unloaded: %s\n", strerror(errno));
	return false;
}

/* Sets the mode of all nodes; retries, as udev may make them a little later.  */
static inline bool reload_chmod(mode_t mode)
{
	for (unsigned int i = 0; i < dev_count(); i++) {
		char path[32];
		int tries = 100;

		snprintf(path, sizeof(path), "/dev/gpumem%u", i);
		while (chmod(path, mode) && tries--)
			nap_ms(20);
		if (tries < 0)
			return false;
	}
	return true;
}

static inline bool reload_restore(void)
{
	if (!reload_unload() || reload_load(reload_params))
		return false;
	return reload_chmod(reload_mode);
}

#endif
