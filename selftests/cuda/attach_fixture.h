/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For tests of attachments on devices without concurrent managed access (module parameter concurrent_managed).
 *
 * Work that waits behind a gate keeps streams busy.  An access by the CPU that the attachment forbids ends the
 * process with SIGSEGV and one line on standard error.  So each scene runs in a child that calls cuInit() itself.
 * A child returns 0, or the number of the line that failed.
 */
#ifndef ATTACH_FIXTURE_H
#define ATTACH_FIXTURE_H

#include <sys/wait.h>

#include "kselftest_harness.h"
#include "cuda_case_util.h"

#define PREFIX	"gpumem: the CPU cannot access managed memory while work may use it: "
#define SIZE	10000u
#define AT	5000u			/* offset of the byte that children touch */

enum { GLOBAL = CU_MEM_ATTACH_GLOBAL, HOST = CU_MEM_ATTACH_HOST, SINGLE = CU_MEM_ATTACH_SINGLE };

/* What a child leaves behind.  It may die at any time, so this is shared memory. */
struct outcome {
	CUdeviceptr p;
	CUstream stream;
	unsigned long long id;		/* of @stream */
	unsigned int steps, handled;
	int status;
	char err[4096];
};

static struct outcome *o;
static bool store;			/* the child writes instead of reading */

/* The state of a child. */
static CUcontext ctx;
static CUstream s1, s2;
static CUdeviceptr dev;
static volatile cuuint32_t *gate, *mark;

#define NEED(cond)	do { if (!(cond)) return __LINE__; } while (0)
#define NEED_CU(call)	do {								\
	CUresult result_ = (call);							\
	if (result_) {									\
		fprintf(stderr, "line %d: error %d\n", __LINE__, result_);		\
		return __LINE__;							\
	}										\
} while (0)

static inline int run_scene(void *arg)
{
	int (*fn)(void) = *(int (**)(void))arg;
	int line = fn();

	if (line)
		fprintf(stderr, "line %d\n", line);
	return !!line;
}

static inline bool run(int (*fn)(void))
{
	if (!o)
		o = mmap(NULL, sizeof(*o), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (o == MAP_FAILED)
		return false;
	memset(o, 0, sizeof(*o));
	o->status = hear_child(run_scene, &fn, o->err, sizeof(o->err));
	return o->status != -1;
}

/* The child did all that it should, and printed nothing. */
static inline bool fine(void)
{
	if (WIFEXITED(o->status) && !WEXITSTATUS(o->status) && !o->err[0])
		return true;
	printf("# status %#x, step %u: %s\n", o->status, o->steps, o->err);
	return false;
}

/* The child died of SIGSEGV in step @step, and printed one line that has @text. */
static inline bool denied(unsigned int step, const char *text)
{
	char place[160];

	snprintf(place, sizeof(place), PREFIX "0x%llx is at offset %u of the allocation at 0x%llx of ",
		 o->p + AT, AT, o->p);
	if (WIFSIGNALED(o->status) && WTERMSIG(o->status) == SIGSEGV && o->steps == step &&
	    !strncmp(o->err, place, strlen(place)) && strstr(o->err, text) &&
	    strchr(o->err, '\n') == o->err + strlen(o->err) - 1)
		return true;
	printf("# status %#x, step %u, without \"%s\": %s\n", o->status, o->steps, text, o->err);
	return false;
}

/* Touch the byte at @addr.  The compiler must not know where the pointer comes from. */
static inline void touch_at(CUdeviceptr addr)
{
	volatile unsigned char *c = cpu(addr);

	__asm__ volatile("" : "+r"(c));
	if (store)
		*c = 1;
	else
		(void)*c;
}

static inline void touch(void)
{
	o->steps++;
	touch_at(o->p + AT);
}

/* Whether a system call may read the byte. */
static inline int system_call(void)
{
	int pipes[2], error = 0;

	if (pipe(pipes))
		return -1;
	if (write(pipes[1], cpu(o->p + AT), 1) != 1)
		error = errno;
	close(pipes[0]);
	close(pipes[1]);
	return error;
}

/* A context, two streams, a gate, device memory, and managed memory of the given default. */
static inline CUresult begin_with(CUdevice device, unsigned int flags)
{
	CUresult result = cuInit(0);

	if (!result)
		result = cuDevicePrimaryCtxRetain(&ctx, device);
	if (!result)
		result = cuCtxSetCurrent(ctx);
	if (!result)
		result = cuStreamCreate(&s1, CU_STREAM_NON_BLOCKING);
	if (!result)
		result = cuStreamCreate(&s2, CU_STREAM_NON_BLOCKING);
	if (!result)
		result = cuMemAllocHost((void **)&gate, 4096);
	if (!result)
		result = cuMemAlloc(&dev, SIZE);
	if (!result)
		result = cuMemAllocManaged(&o->p, SIZE, flags);
	mark = gate + 16;
	return result;
}

static inline CUresult begin(void)
{
	return begin_with(0, GLOBAL);
}

/* Keep a stream busy until gate_open(gate). */
static inline CUresult hold(CUstream stream)
{
	CUresult result = gate_put(stream, gate);

	o->stream = stream;
	if (!result && stream)
		result = cuStreamGetId(stream, &o->id);
	return result ? result : cuMemsetD8Async(dev, 1, SIZE, stream);
}

/* Keep another stream busy for as long as the process lives. */
static inline CUresult hold_for_ever(CUstream stream)
{
	return cuStreamWaitValue32(stream, (uintptr_t)(gate + 32), 1, CU_STREAM_WAIT_VALUE_GEQ);
}

static inline CUresult attach(CUstream stream, unsigned int flags)
{
	return cuStreamAttachMemAsync(stream, o->p, 0, flags);
}

/* Wait, without a call of the library, until a stream has done all that it has got. */
static inline int wait_silently(void)
{
	for (int i = 0; i < 1000 && !*mark; i++)
		nap_ms(10);
	NEED(*mark);
	/* The entry counts as done a moment after its write. */
	nap_ms(300);
	return 0;
}

/* A device without concurrent managed access, for children of the test. */
FIXTURE(attach)
{
	struct changed changed;
};

FIXTURE_SETUP(attach)
{
	ASSERT_TRUE(dev_quiet(10));
	store = false;
	ASSERT_TRUE(file_change(&self->changed, "/sys/module/gpumem/parameters/concurrent_managed",
				"0"));
}

/* The parameter gets its former value when the process of the case ends. */
QUIET_AFTERWARDS(attach)

/* The scene succeeds. */
#define FINE(fn)	do {								\
	ASSERT_TRUE(run(fn));								\
	EXPECT_TRUE(fine());								\
} while (0)

/* The scene dies in step @step, after a line that has @text. */
#define DENIED(fn, step, text)	do {							\
	ASSERT_TRUE(run(fn));								\
	EXPECT_TRUE(denied(step, text));						\
} while (0)

#endif /* ATTACH_FIXTURE_H */
