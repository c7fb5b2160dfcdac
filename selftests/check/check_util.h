/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The corpus of the checker: small programs, each with one planted mistake, or its correct twin.
 *
 *   MISTAKE(name, kind) { ... }	the program's report is of this kind, and names the line of WRONG()
 *   TWIN(name) { ... }		the program has no report
 *
 * Each program runs in a process of its own with GPUMEM_CHECK=1 and its standard error in a file.  It begins with a
 * context, three streams and two events, and gives them back at its end, so a leak is a planted one.  Include this
 * after kselftest_harness.h.
 */
#ifndef GPUMEM_SELFTESTS_CHECK_UTIL_H
#define GPUMEM_SELFTESTS_CHECK_UTIL_H

#include <cuda.h>

#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "common/program.h"
#include "common/util.h"

#define BYTES		4096u
#define STATUS		66		/* of a process that had reports */

struct program {
	CUcontext ctx;
	CUstream a, b;			/* order against no other stream */
	CUstream blocking;
	CUevent e, f;
	CUdeviceptr p, q;		/* BYTES, of cuMemAlloc() */
	unsigned char *pinned;		/* BYTES */
	unsigned char pageable[BYTES];
	int *line;			/* of the mistake; shared with the parent */
};

/* The call that the report is about. */
#define WRONG(call)	(*w->line = __LINE__, (call))

static inline void program_begin(struct program *w)
{
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&w->ctx, 0));
	OK(cuCtxSetCurrent(w->ctx));
	OK(cuStreamCreate(&w->a, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&w->b, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&w->blocking, CU_STREAM_DEFAULT));
	OK(cuEventCreate(&w->e, CU_EVENT_DISABLE_TIMING));
	OK(cuEventCreate(&w->f, CU_EVENT_DISABLE_TIMING));
	OK(cuMemAlloc(&w->p, BYTES));
	OK(cuMemAlloc(&w->q, BYTES));
	OK(cuMemAllocHost((void **)&w->pinned, BYTES));
	OK(cuMemsetD8Async(w->p, 1, BYTES, w->a));
	OK(cuMemsetD8Async(w->q, 1, BYTES, w->a));
	OK(cuStreamSynchronize(w->a));
}

/* Give back what the program still has: what is 0 it has given back itself. */
static inline void program_release(struct program *w)
{
	OK(cuCtxSynchronize());
	if (w->a)
		OK(cuStreamDestroy(w->a));
	if (w->b)
		OK(cuStreamDestroy(w->b));
	if (w->blocking)
		OK(cuStreamDestroy(w->blocking));
	if (w->e)
		OK(cuEventDestroy(w->e));
	if (w->f)
		OK(cuEventDestroy(w->f));
	OK(cuMemFree(w->p));
	OK(cuMemFree(w->q));
	if (w->pinned)
		OK(cuMemFreeHost(w->pinned));
	OK(cuDevicePrimaryCtxRelease(0));
}

/* What a program wrote to standard error, and how it ended. */
struct outcome {
	int status;
	char text[65536];
};

#define REPORT		"gpumem-check: "

static inline unsigned int reports(const struct outcome *outcome)
{
	const char *at = outcome->text;
	unsigned int count = 0;

	while ((at = strstr(at, REPORT))) {
		count += at == outcome->text || at[-1] == '\n';
		at++;
	}
	return count;
}

/* Run a program with an environment ("NAME=value", ..., NULL). */
static inline void program_run(void (*body)(struct program *w), const char *const *environment, int *line,
			       struct outcome *outcome)
{
	int fd = memfd_create("stderr", 0), status;
	struct program *w;
	ssize_t n;
	pid_t pid;

	memset(outcome, 0, sizeof(*outcome));
	pid = fork();
	if (!pid) {
		dup2(fd, STDERR_FILENO);
		setenv("GPUMEM_CHECK", "1", 1);
		for (; *environment; environment++)
			putenv((char *)*environment);
		w = calloc(1, sizeof(*w));
		w->line = line;
		program_begin(w);
		body(w);
		program_release(w);
		exit(0);
	}
	outcome->status = waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) :
		-WTERMSIG(status);
	n = pread(fd, outcome->text, sizeof(outcome->text) - 1, 0);
	outcome->text[n > 0 ? n : 0] = '\0';
	close(fd);
}

static inline int *shared_line(void)
{
	return mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
}

/* Whether the report's first stack begins at a line of a file. */
static inline bool at_line(const struct outcome *outcome, const char *file, int line)
{
	const char *frame = strstr(outcome->text, "    #0 "), *end = frame ? strchr(frame, '\n') : NULL;
	char want[256];
	size_t length;

	file = strrchr(file, '/') ? strrchr(file, '/') + 1 : file;
	length = snprintf(want, sizeof(want), "%s:%d", file, line);
	return end && (size_t)(end - frame) > length && !memcmp(end - length, want, length);
}

/* @kind: of the one report; NULL: there is none. @file: of the wrong call, or NULL. */
static inline void program_expect_once(struct __test_metadata *_metadata, void (*body)(struct program *w), const char *kind,
				       const char *file, const char *const *environment)
{
	struct outcome *outcome = malloc(sizeof(*outcome));
	int *line = shared_line();
	char want[64];

	ASSERT_NE(NULL, outcome);
	program_run(body, environment, line, outcome);
	if (!kind) {
		EXPECT_EQ(0, outcome->status);
		EXPECT_EQ(0, reports(outcome));
	} else {
		snprintf(want, sizeof(want), REPORT "%s: ", kind);
		EXPECT_EQ(STATUS, outcome->status);
		EXPECT_EQ(1, reports(outcome));
		EXPECT_EQ(0, strncmp(outcome->text, want, strlen(want)));
		EXPECT_TRUE(!file || at_line(outcome, file, *line))
			TH_LOG("line %d", *line);
	}
	if (_metadata->exit_code)
		fprintf(stderr, "%s", outcome->text);
	free(outcome);
}

static const char *const without_stacks[] = { "GPUMEM_CHECK_STACKS=0", NULL };
static const char *const no_environment[] = { NULL };

/* Expect the same with stacks and without: without them, the checker sees pairs of the stream-ordered allocator late. */
static inline void program_expect(struct __test_metadata *_metadata, void (*body)(struct program *w), const char *kind,
				  const char *file, const char *const *environment)
{
	program_expect_once(_metadata, body, kind, file, environment);
	if (environment == no_environment)
		program_expect_once(_metadata, body, kind, NULL, without_stacks);
}

#define PROGRAM(name, kind, environment)					\
	static void name ## _body(struct program *w);				\
	TEST(name)								\
	{									\
		program_expect(_metadata, name ## _body, kind, __FILE__, environment);	\
	}									\
	static void name ## _body(struct program *w __attribute__((unused)))
#define MISTAKE(name, kind)	PROGRAM(name, kind, no_environment)
#define TWIN(name)		PROGRAM(name, NULL, no_environment)

/* Signal a semaphore, and wait for it. The values of binary semaphores mean nothing. */
static inline void raise_one(CUexternalSemaphore semaphore, unsigned long long value, CUstream stream)
{
	CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS params = { .params.fence.value = value };

	OK(cuSignalExternalSemaphoresAsync(&semaphore, &params, 1, stream));
}

static inline void await_one(CUexternalSemaphore semaphore, unsigned long long value, CUstream stream)
{
	CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS params = { .params.fence.value = value };

	OK(cuWaitExternalSemaphoresAsync(&semaphore, &params, 1, stream));
}

#endif /* GPUMEM_SELFTESTS_CHECK_UTIL_H */
