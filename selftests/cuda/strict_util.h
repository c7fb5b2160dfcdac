/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Helpers for the tests of strict mode: a child that touches memory in strict mode, its standard error and its
 * status, and the lines that the library prints.  Include this after kselftest_harness.h.
 */
#ifndef GPUMEM_SELFTESTS_STRICT_UTIL_H
#define GPUMEM_SELFTESTS_STRICT_UTIL_H

#include <sys/wait.h>

#include "cuda_util.h"

#define PREFIX	"gpumem: GPUMEM_STRICT=1 forbids the CPU to access device memory: "
#define NO_RIGHT	"gpumem: cuMemSetAccess() gave the CPU no right to this access: "

/* The results of a child.  The child writes them while it runs, so they lie in shared memory. */
struct outcome {
	CUdeviceptr p;
	size_t size;
	CUdeviceptr at;			/* the address that the child touched */
	unsigned int calls;		/* of the child's handler */
	bool on_stack, segv_blocked, usr_blocked;
	void *addr;
	int code;
	char text[256];
	int status;
	char err[2048];
};

static struct outcome *o;

static inline int strictly(void *arg)
{
	int (*fn)(void) = *(int (**)(void))arg;

	setenv("GPUMEM_STRICT", "1", 1);
	return fn();
}

/* Runs @fn in a child; o has the child's status and its standard error. */
static inline bool run(int (*fn)(void))
{
	if (!o)
		o = mmap(NULL, sizeof(*o), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (o == MAP_FAILED)
		return false;
	memset(o, 0, sizeof(*o));
	o->status = hear_child(strictly, &fn, o->err, sizeof(o->err));
	return o->status != -1;
}

static inline bool died(void)
{
	return WIFSIGNALED(o->status) && WTERMSIG(o->status) == SIGSEGV;
}

static inline bool exited(void)
{
	return WIFEXITED(o->status) && !WEXITSTATUS(o->status);
}

/* Whether the child printed just the message for an access to o->at in a @what of @device, once. */
static inline bool told_as(const char *prefix, const char *what, int device)
{
	char want[512];

	snprintf(want, sizeof(want), "%s0x%llx is at offset %llu of the %s at 0x%llx of %zu "
		 "bytes on device %d\n", prefix, o->at, o->at - o->p, what, o->p, o->size, device);
	if (!strcmp(want, o->err))
		return true;
	printf("# said: %s# not:  %s", o->err, want);
	return false;
}

static inline bool told(const char *what)
{
	return told_as(PREFIX, what, 0);
}

/* Whether the child printed just the message for an access to o->at, where nothing is allocated, once. */
static inline bool told_nothing_there(void)
{
	char want[512];

	snprintf(want, sizeof(want), PREFIX "0x%llx lies where device memory goes, but nothing is "
		 "allocated there\n", o->at);
	return !strcmp(want, o->err);
}

/* --- what children do */

/* Allocate o->p, device memory of @size bytes; the child will touch the byte at @offset. */
static inline int begin(size_t size, size_t offset)
{
	CUcontext ctx;
	CUdeviceptr first;

	if (cuda_start(&ctx) || cuMemAlloc(&first, 100) || cuMemAlloc(&o->p, size))
		return 1;
	o->size = size;
	o->at = o->p + offset;
	return 0;
}

static inline int touch(bool write)
{
	volatile unsigned char *c = cpu(o->at);

	/* The compiler must not know where the pointer comes from. */
	__asm__ volatile("" : "+r"(c));
	if (write)
		*c = 1;
	else
		(void)*c;
	return 0;
}

#endif
