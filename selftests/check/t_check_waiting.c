// SPDX-License-Identifier: GPL-2.0
/*
 * The checker on programs with many waits that it keeps: of a binary semaphore that another process may have, it does
 * not know which signal ends which wait, until the program synchronizes. At most KEPT operations wait. Then the checker
 * forgets waits, and must not report what these waits order.
 */
#include <gpumem.h>

#include <malloc.h>
#include <time.h>

#include "kselftest_harness.h"
#include "check_util.h"

#define KEPT		32768u
#define WAITS		20000u
#define MORE		(WAITS / 2)
#define RATIO		2.0		/* of the time of the second half of the waits to that of the first */
#define GROWTH		(1u << 20)	/* bytes, in MORE waits after the limit */
#define SECONDS		120		/* for a case, on a slow machine */
#define NOTE		"libgpumem-check: more than "

FIXTURE(waiting)
{
};

FIXTURE_SETUP(waiting)
{
}

FIXTURE_TEARDOWN(waiting)
{
}

static CUexternalSemaphore shared_new(void)
{
	CUexternalSemaphore one;
	int fd;

	OK(gpumem_create_semaphore(&one, 0, 0));
	OK(gpumem_export_semaphore(&fd, one, 0));
	close(fd);
	return one;
}

/* Each wait is over at once. The checker keeps it, and the fill, because it cannot know that. */
static void waits(struct program *w, CUexternalSemaphore one, unsigned int count)
{
	for (unsigned int i = 0; i < count; i++) {
		raise_one(one, 0, w->b);
		await_one(one, 0, w->a);
		OK(cuMemsetD8Async(w->p, i, 64, w->a));
	}
}

/* Let the checker forget the oldest wait, if there is one that is older than these; else that of stream a. */
static CUexternalSemaphore forget(struct program *w)
{
	CUexternalSemaphore one = shared_new();

	waits(w, one, KEPT / 2);
	await_one(one, 0, w->a);
	raise_one(one, 0, w->b);
	return one;
}

static void end(CUexternalSemaphore one)
{
	OK(cuCtxSynchronize());
	OK(cuDestroyExternalSemaphore(one));
}

/* Of processor time, which other programs do not lengthen. */
static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static void many_waits(struct program *w)
{
	CUexternalSemaphore one = shared_new();
	double begin = seconds(), half, whole;
	size_t before, after;

	waits(w, one, WAITS / 2);
	half = seconds() - begin;
	waits(w, one, WAITS - WAITS / 2);
	whole = seconds() - begin;
	before = mallinfo2().uordblks;
	waits(w, one, MORE);
	after = mallinfo2().uordblks;
	fprintf(stderr, "%u waits: %.2f s for the first half, %.2f s for the second; %.1f MiB, and %.1f MiB after %u more\n",
		WAITS, half, whole - half, before / 1048576.0, after / 1048576.0, MORE);
	OK(whole - half > RATIO * half);
	OK(after > before + GROWTH);
	end(one);
}

/* The program is told once that waits were forgotten.  @kind: of its report, or NULL. */
static void expect(struct __test_metadata *_metadata, void (*body)(struct program *w), const char *kind)
{
	struct outcome *outcome = malloc(sizeof(*outcome));
	char want[64] = "";
	const char *note;

	ASSERT_NE(NULL, outcome);
	program_run(body, without_stacks, shared_line(), outcome);
	note = strstr(outcome->text, NOTE);
	EXPECT_TRUE(note && !strstr(note + 1, NOTE));
	EXPECT_EQ(kind ? STATUS : 0, outcome->status);
	EXPECT_EQ(kind ? 1 : 0, reports(outcome));
	if (kind)
		snprintf(want, sizeof(want), "\n" REPORT "%s: ", kind);
	EXPECT_NE(NULL, strstr(outcome->text, want));
	TH_LOG("%s", outcome->text);
	free(outcome);
}

/* Neither time nor memory grows with the waits that are kept. */
TEST_F_TIMEOUT(waiting, many_waits_are_kept, SECONDS)
{
	expect(_metadata, many_waits, NULL);
}

#define FORGETS(name, kind)				\
	static void name ## _body(struct program *w);	\
	TEST_F_TIMEOUT(waiting, name, SECONDS)		\
	{						\
		expect(_metadata, name ## _body, kind);	\
	}						\
	static void name ## _body(struct program *w)

/* A word that a stream writes after a forgotten wait was written. */
FORGETS(word_of_a_forgotten_wait, NULL)
{
	CUexternalSemaphore one;
	unsigned int value;
	CUdeviceptr m;

	OK(cuMemAlloc(&m, 64));
	one = forget(w);
	OK(cuStreamWriteValue32(w->a, m, 7, 0));
	OK(cuStreamSynchronize(w->a));
	OK(cuMemcpyDtoH(&value, m, sizeof(value)));
	OK(value != 7);
	OK(cuMemFree(m));
	end(one);
}

/* What comes after a wait that is forgotten may be ordered after what is submitted later. */
FORGETS(order_of_a_forgotten_wait, NULL)
{
	CUexternalSemaphore one, other = shared_new();
	CUstream second;
	CUdeviceptr m;

	OK(cuStreamCreate(&second, CU_STREAM_NON_BLOCKING));
	OK(cuMemAlloc(&m, 64));
	await_one(other, 0, w->blocking);
	OK(cuMemcpyDtoDAsync(w->q, m, 64, w->blocking));
	OK(cuEventRecord(w->e, w->blocking));
	one = forget(w);
	/* Other streams come after the wait, too. */
	OK(cuStreamWaitEvent(CU_STREAM_PER_THREAD, w->e, 0));
	OK(cuMemcpyDtoDAsync(w->q + 64, w->q, 64, CU_STREAM_PER_THREAD));
	OK(cuMemcpyDtoDAsync(w->q + 192, m, 64, CU_STREAM_PER_THREAD));
	OK(cuStreamWriteValue32(CU_STREAM_PER_THREAD, w->q + 128, 7, 0));
	OK(cuStreamWaitValue32(second, w->q + 128, 7, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuMemcpyDtoHAsync(w->pinned, w->q + 64, 64, second));
	/* The first write of the memory. */
	OK(cuMemsetD8Async(m, 2, 64, w->b));
	raise_one(other, 0, w->b);
	OK(cuStreamSynchronize(second));
	/* The program knows by now that the forgotten wait is over. */
	OK(cuMemsetD8Async(m, 3, 64, second));
	OK(cuMemFree(m));
	OK(cuStreamDestroy(second));
	end(one);
	end(other);
}

/*
 * The program knows that the forgotten wait is over, for a word that the CPU writes. Another stream comes after that
 * wait, and after one that is kept.
 */
FORGETS(order_of_a_forgotten_wait_behind_another_one, NULL)
{
	volatile unsigned int *word = (void *)(w->pinned + BYTES - 64);
	CUexternalSemaphore one, other = shared_new();
	CUdeviceptr m;

	*word = 0;
	OK(cuMemAlloc(&m, 64));
	OK(cuStreamWaitValue32(w->blocking, (uintptr_t)word, 5, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuEventRecord(w->e, w->blocking));
	raise_one(other, 0, w->b);
	await_one(other, 0, CU_STREAM_PER_THREAD);
	OK(cuStreamWaitEvent(CU_STREAM_PER_THREAD, w->e, 0));
	OK(cuMemcpyDtoDAsync(w->q, m, 64, CU_STREAM_PER_THREAD));
	one = forget(w);
	OK(cuMemsetD8Async(m, 2, 64, w->b));
	OK(cuStreamSynchronize(w->b));
	*word = 5;
	OK(cuStreamSynchronize(w->blocking));
	OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
	OK(cuMemFree(m));
	end(one);
	end(other);
}

/* Streams that have nothing to do with the wait are compared. */
FORGETS(race_beside_a_forgotten_wait, "race")
{
	CUexternalSemaphore one = forget(w);

	OK(cuMemsetD8Async(w->q, 2, 64, w->b));
	OK(cuMemcpyDtoHAsync(w->pinned, w->q, 64, CU_STREAM_PER_THREAD));
	OK(cuCtxSynchronize());
	end(one);
}

/* After a synchronization the stream is compared again. */
FORGETS(race_after_a_forgotten_wait_is_over, "race")
{
	CUexternalSemaphore one = forget(w);

	OK(cuStreamSynchronize(w->a));
	OK(cuMemsetD8Async(w->q, 2, 64, w->a));
	OK(cuMemcpyDtoHAsync(w->pinned, w->q, 64, w->b));
	OK(cuCtxSynchronize());
	end(one);
}

TEST_HARNESS_MAIN
