/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Small programs of the driver API that run in processes of their own, and where what is built lies.
 */
#ifndef GPUMEM_SELFTESTS_PROGRAM_H
#define GPUMEM_SELFTESTS_PROGRAM_H

#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A call of a program that must work. */
#define OK(call)							\
	do {								\
		int result_ = (int)(call);				\
									\
		if (result_) {						\
			fprintf(stderr, "line %d: %d\n", __LINE__, result_);	\
			_exit(3);					\
		}							\
	} while (0)

/* A file below the build directory, which is selftests/.. */
static inline char *build_path(const char *format, ...)
{
	static char text[8][PATH_MAX];
	static unsigned int next;
	char *path = text[next++ % 8], *slash;
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 256);
	va_list args;
	int i;

	path[n > 0 ? n : 0] = '\0';
	for (i = 0; i < 2; i++) {
		slash = strrchr(path, '/');
		if (slash)
			*slash = '\0';
	}
	strcat(path, "/");
	va_start(args, format);
	vsnprintf(path + strlen(path), 256, format, args);
	va_end(args);
	return path;
}

/* Whether the command gpumem is built: an installation of the tests alone does not have it. */
static inline bool command_there(void)
{
	return !access(build_path("bin/gpumem"), X_OK);
}

#endif /* GPUMEM_SELFTESTS_PROGRAM_H */
