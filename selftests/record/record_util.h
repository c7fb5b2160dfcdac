/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Record programs and replay traces.
 *
 * A program is a function of this executable.  It runs in a process of its own: the executable is started again with the
 * name of the function, because the recorder is preloaded.
 */
#ifndef GPUMEM_SELFTESTS_RECORD_UTIL_H
#define GPUMEM_SELFTESTS_RECORD_UTIL_H

#include <cuda.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../libgpumem/record/format.h"
#include "common/program.h"
#include "common/util.h"

/* A call of a program that must fail. */
#define BAD(call)							\
	do {								\
		if (!(call)) {						\
			fprintf(stderr, "line %d: no error\n", __LINE__);	\
			_exit(3);					\
		}							\
	} while (0)

struct program {
	const char *name;
	void (*body)(void);
};

static inline CUcontext program_begin(void)
{
	CUcontext ctx;

	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&ctx, 0));
	OK(cuCtxSetCurrent(ctx));
	return ctx;
}

static inline char *trace_path(const char *name)
{
	static char text[4][256];
	static unsigned int next;
	char *path = text[next++ % 4];

	snprintf(path, sizeof(text[0]), "/tmp/record-%d-%s.trace", getpid(), name);
	return path;
}

/* Whether the tools and the recorder are built: an installation of the tests alone does not have them. */
static inline bool tools_there(void)
{
#ifdef __SANITIZE_ADDRESS__
	/* AddressSanitizer must be the first library, before those that are preloaded. */
	return false;
#endif
	return !access(build_path("libexec/gpumem/gpumem-replay"), X_OK) &&
		!access(build_path("lib/libgpumem-record-preload.so.1"), R_OK);
}

/* Run a program, recorded.  Returns its exit status, or the negative number of the signal that ended it. */
static inline int record_program(const char *name, const char *trace, bool preload)
{
	char *self = build_path("selftests/t_record");
	pid_t pid;
	int status;

	unlink(trace);
	pid = fork();
	if (!pid) {
		setenv("GPUMEM_RECORD", trace, 1);
		setenv("GPUMEM_RECORD_SAMPLE", "0", 1);
		if (preload)
			setenv("LD_PRELOAD", build_path("lib/libgpumem-record-preload.so.1"), 1);
		execl(self, self, "--program", name, (char *)NULL);
		_exit(127);
	}
	if (waitpid(pid, &status, 0) != pid)
		return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

struct output {
	int status;
	char text[65536];
};

/* Run gpumem-replay with options and a trace, which ends with NULL. */
static inline void replay(struct output *output, const char *trace, const char *option, const char *value)
{
	char *tool = build_path("libexec/gpumem/gpumem-replay");
	int pipes[2], status;
	size_t used = 0;
	ssize_t n;
	pid_t pid;

	memset(output, 0, sizeof(*output));
	if (pipe(pipes))
		return;
	pid = fork();
	if (!pid) {
		dup2(pipes[1], STDOUT_FILENO);
		dup2(pipes[1], STDERR_FILENO);
		close(pipes[0]);
		close(pipes[1]);
		if (value)
			execl(tool, tool, option, value, trace, (char *)NULL);
		else if (option)
			execl(tool, tool, option, trace, (char *)NULL);
		execl(tool, tool, trace, (char *)NULL);
		_exit(127);
	}
	close(pipes[1]);
	while ((n = read(pipes[0], output->text + used, sizeof(output->text) - 1 - used)) > 0)
		used += (size_t)n;
	close(pipes[0]);
	output->status = waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

/* ---- traces */

#define CALLS	20000u

struct contents {
	char *data;
	size_t size;
	unsigned int calls, samples;
	bool closed;			/* nothing is behind the last record */
	char *call[CALLS];		/* "FUNCTION RESULT", sorted */
};

static inline int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Read a trace, without many checks: it is of this test. */
static inline bool contents_read(struct contents *contents, const char *path)
{
	const char *names[1024];
	unsigned int functions = 0;
	int fd = open(path, O_RDONLY);
	size_t at;

	memset(contents, 0, sizeof(*contents));
	if (fd < 0)
		return false;
	contents->size = (size_t)lseek(fd, 0, SEEK_END);
	contents->data = malloc(contents->size + 8);
	if (pread(fd, contents->data, contents->size, 0) != (ssize_t)contents->size)
		return false;
	close(fd);
	if (contents->size < sizeof(struct trace_header))
		return false;
	for (at = ((struct trace_header *)(void *)contents->data)->size; at + 8 <= contents->size;) {
		const struct trace_record *record = (void *)(contents->data + at);
		const struct trace_call *call = (const void *)record;

		if (!record->size || record->size > contents->size - at)
			break;
		if (record->type == TRACE_FUNCTION && functions < 1024)
			names[functions++] = (const char *)record + sizeof(struct trace_function);
		if (record->type == TRACE_CALL && contents->calls < CALLS && call->function < functions &&
		    asprintf(&contents->call[contents->calls++], "%s %u", names[call->function], call->result) < 0)
			return false;
		contents->samples += record->type == TRACE_SAMPLE;
		at += record->size;
	}
	contents->closed = at == contents->size;
	qsort(contents->call, contents->calls, sizeof(char *), by_text);
	return true;
}

static inline void contents_free(struct contents *contents)
{
	unsigned int i;

	for (i = 0; i < contents->calls; i++)
		free(contents->call[i]);
	free(contents->data);
}

/* How often a call has this text, or begins with it. */
static inline unsigned int calls_of(const struct contents *contents, const char *text)
{
	unsigned int i, count = 0;

	for (i = 0; i < contents->calls; i++)
		count += !strncmp(contents->call[i], text, strlen(text));
	return count;
}

#endif /* GPUMEM_SELFTESTS_RECORD_UTIL_H */
