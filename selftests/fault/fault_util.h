/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Programs that run in a process of their own with GPUMEM_FAULT or GPUMEM_SCHEDULE.
 *
 * The child writes what it found to memory that it shares with the test, and the test checks it.  Include this after
 * kselftest_harness.h.
 */
#ifndef GPUMEM_SELFTESTS_FAULT_UTIL_H
#define GPUMEM_SELFTESTS_FAULT_UTIL_H

#include <cuda.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "common/program.h"
#include "common/util.h"

#define BYTES		(1u << 20)
#define RESULTS		256u

struct program {
	CUcontext ctx;
	CUstream a, b;			/* order against no other stream */
	CUdeviceptr p, q;		/* BYTES, of cuMemAlloc() */
	unsigned char *pinned;		/* BYTES */
	/* Shared with the test. */
	struct {
		CUresult result[RESULTS];
		unsigned int results;
		uint64_t number[8];
		pid_t pid;
		unsigned char bytes[4096];
	} *out;
};

/* A call whose result the test checks. */
#define NOTE(call)							\
	({								\
		CUresult noted_ = (call);				\
									\
		w->out->result[w->out->results++] = noted_;		\
	})

/* How a program ended, and what it wrote to standard error. */
struct outcome {
	int status;			/* exit status, or minus the signal's number */
	char text[16384];
	typeof(*((struct program *)0)->out) out;
};

static inline void program_begin(struct program *w)
{
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&w->ctx, 0));
	OK(cuCtxSetCurrent(w->ctx));
	OK(cuStreamCreate(&w->a, CU_STREAM_NON_BLOCKING));
	OK(cuStreamCreate(&w->b, CU_STREAM_NON_BLOCKING));
}

/* The memory of a program. Its allocations are no matches of rules for pools. */
static inline void program_memory(struct program *w)
{
	OK(cuMemAlloc(&w->p, BYTES));
	OK(cuMemAlloc(&w->q, BYTES));
	OK(cuMemHostAlloc((void **)&w->pinned, BYTES, 0));
	OK(cuMemsetD8(w->p, 1, BYTES));
	OK(cuMemsetD8(w->q, 1, BYTES));
	memset(w->pinned, 1, BYTES);
	/* A fill of device memory is not done when its call returns. */
	OK(cuCtxSynchronize());
}

/* Start a program with values of the two variables, or NULL. */
static inline pid_t program_start(void (*body)(struct program *w), const char *fault, const char *schedule, int err,
				  struct program *w)
{
	pid_t pid;

	w->out = mmap(NULL, sizeof(*w->out), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (w->out == MAP_FAILED)
		return -1;
	pid = fork();
	if (pid)
		return pid;
	if (err >= 0)
		dup2(err, STDERR_FILENO);
	if (fault)
		setenv("GPUMEM_FAULT", fault, 1);
	if (schedule)
		setenv("GPUMEM_SCHEDULE", schedule, 1);
	w->out->pid = getpid();
	program_begin(w);
	body(w);
	exit(0);
}

static inline void program_end(struct program *w, pid_t pid, int err, struct outcome *outcome)
{
	int status;
	ssize_t n;

	memset(outcome, 0, sizeof(*outcome));
	outcome->status = waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) :
		-WTERMSIG(status);
	outcome->out = *w->out;
	munmap(w->out, sizeof(*w->out));
	n = pread(err, outcome->text, sizeof(outcome->text) - 1, 0);
	outcome->text[n > 0 ? n : 0] = '\0';
	close(err);
}

static inline void program_run(void (*body)(struct program *w), const char *fault, const char *schedule,
			       struct outcome *outcome)
{
	int err = memfd_create("stderr", 0);
	struct program w = { 0 };
	pid_t pid = program_start(body, fault, schedule, err, &w);

	program_end(&w, pid, err, outcome);
}

static inline uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000ull + now.tv_nsec / 1000000;
}

#endif /* GPUMEM_SELFTESTS_FAULT_UTIL_H */
