// SPDX-License-Identifier: GPL-2.0
/*
 * The checker's verdict on random programs, and on programs with one synchronization left out, beside the verdict of a
 * reachability search over the recorded calls, which shares nothing with the checker.
 *
 * A program is a list of steps. A step comes before another one if there is a path of edges: within a stream, from a
 * record to a wait for it, from work to the host that waited for it, from the host to what it submits later, and
 * between the legacy stream and blocking streams. The program is wrong if two steps use the same buffer, one of them
 * writes, and there is no path between them.
 */
#include "kselftest_harness.h"
#include "check_util.h"

#define STEPS		14u
#define STREAMS		5u		/* 0, 1: order against no other; 2, 3: blocking; 4: the legacy stream */
#define LEGACY		4u
#define EVENTS		2u
#define BUFFERS		3u
#define PROGRAMS	12u		/* of one case */

enum op { WRITE, READ, RECORD, WAIT, SYNC_STREAM, SYNC_EVENT, SYNC_CONTEXT, NOTHING };

struct step {
	enum op op;
	unsigned int stream, event, buffer;
};

static struct step steps[STEPS];

static unsigned int draw(unsigned long long *seed, unsigned int below)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (*seed >> 33) % below;
}

static void make(unsigned long long *seed)
{
	static const enum op ops[] = {
		WRITE, WRITE, WRITE, READ, READ, RECORD, RECORD, WAIT, WAIT, WAIT, SYNC_STREAM, SYNC_EVENT, SYNC_CONTEXT,
	};

	for (unsigned int i = 0; i < STEPS; i++)
		steps[i] = (struct step) {
			.op = ops[draw(seed, sizeof(ops) / sizeof(ops[0]))], .stream = draw(seed, STREAMS),
			.event = draw(seed, EVENTS), .buffer = draw(seed, BUFFERS),
		};
}

/* ---- the independent verdict */

static bool is_blocking(unsigned int stream)
{
	return stream == 2 || stream == 3;
}

static bool in_stream(const struct step *step)
{
	return step->op <= WAIT;
}

/* Whether an edge leads from step i to the later step j. */
static bool edge(unsigned int i, unsigned int j)
{
	const struct step *from = &steps[i], *to = &steps[j];
	bool records = from->op == RECORD && (to->op == WAIT || to->op == SYNC_EVENT) && from->event == to->event;

	if (from->op == NOTHING || to->op == NOTHING)
		return false;
	/* What the host knows comes before whatever it does later. */
	if (!in_stream(from))
		return true;
	for (unsigned int k = i + 1; k < j && records; k++)
		records = !(steps[k].op == RECORD && steps[k].event == from->event);
	if (records || to->op == SYNC_CONTEXT)
		return true;
	if (to->op == SYNC_EVENT)
		return false;
	/* Within a stream, between the legacy stream and blocking ones, and to a wait for all of that. */
	if (from->stream == to->stream)
		return true;
	if (to->op == SYNC_STREAM)
		return to->stream == LEGACY && is_blocking(from->stream);
	return (from->stream == LEGACY && is_blocking(to->stream)) || (to->stream == LEGACY && is_blocking(from->stream));
}

static bool wrong(void)
{
	unsigned int before[STEPS] = { 0 };

	for (unsigned int j = 0; j < STEPS; j++)
		for (unsigned int i = 0; i < j; i++)
			if (edge(i, j))
				before[j] |= before[i] | 1u << i;
	for (unsigned int j = 0; j < STEPS; j++)
		for (unsigned int i = 0; i < j; i++)
			if (steps[i].op <= READ && steps[j].op <= READ && steps[i].buffer == steps[j].buffer &&
			    (steps[i].op == WRITE || steps[j].op == WRITE) && !(before[j] & 1u << i))
				return true;
	return false;
}

/* ---- the program */

static void run(struct program *w)
{
	const CUstream stream[STREAMS] = { w->a, w->b, w->blocking, NULL, NULL };
	CUstream made[STREAMS], second;
	const CUevent event[EVENTS] = { w->e, w->f };
	unsigned char *target;
	CUdeviceptr buffer[BUFFERS];

	memcpy(made, stream, sizeof(made));
	OK(cuStreamCreate(&second, CU_STREAM_DEFAULT));
	made[3] = second;
	OK(cuMemAllocHost((void **)&target, 64 * STEPS));
	for (unsigned int i = 0; i < BUFFERS; i++) {
		OK(cuMemAlloc(&buffer[i], 64));
		OK(cuMemsetD8Async(buffer[i], 0, 64, w->a));
	}
	OK(cuCtxSynchronize());
	for (unsigned int i = 0; i < STEPS; i++) {
		const struct step *s = &steps[i];

		switch (s->op) {
		case WRITE:
			OK(cuMemsetD8Async(buffer[s->buffer], i, 64, made[s->stream]));
			break;
		case READ:
			OK(cuMemcpyDtoHAsync(target + 64 * i, buffer[s->buffer], 64, made[s->stream]));
			break;
		case RECORD:
			OK(cuEventRecord(event[s->event], made[s->stream]));
			break;
		case WAIT:
			OK(cuStreamWaitEvent(made[s->stream], event[s->event], 0));
			break;
		case SYNC_STREAM:
			OK(cuStreamSynchronize(made[s->stream]));
			break;
		case SYNC_EVENT:
			OK(cuEventSynchronize(event[s->event]));
			break;
		case SYNC_CONTEXT:
			OK(cuCtxSynchronize());
			break;
		case NOTHING:
			break;
		}
	}
	OK(cuCtxSynchronize());
	for (unsigned int i = 0; i < BUFFERS; i++)
		OK(cuMemFree(buffer[i]));
	OK(cuMemFreeHost(target));
	OK(cuStreamDestroy(second));
}

static void show(void)
{
	static const char *const names[] = { "write", "read", "record", "wait", "sync", "sync event", "sync context", "-" };

	for (unsigned int i = 0; i < STEPS; i++)
		fprintf(stderr, "# %2u %s stream %u event %u buffer %u\n", i, names[steps[i].op], steps[i].stream,
			steps[i].event, steps[i].buffer);
}

/* Run the program with the steps as they are now: whether the checker agrees. */
static bool agrees(struct outcome *outcome, unsigned int *wrong_ones)
{
	static const char *const environment[] = { "GPUMEM_CHECK_STACKS=0", NULL };
	bool expected = wrong();
	int line = 0;

	*wrong_ones += expected;
	program_run(run, environment, &line, outcome);
	if (outcome->status == (expected ? STATUS : 0) && !reports(outcome) == !expected)
		return true;
	fprintf(stderr, "# expected %s, status %d\n%s", expected ? "a race" : "none", outcome->status, outcome->text);
	show();
	return false;
}

static void compare(struct __test_metadata *_metadata, unsigned long long seed)
{
	struct outcome *outcome = malloc(sizeof(*outcome));
	unsigned int wrong_ones = 0, count = 0;

	ASSERT_NE(NULL, outcome);
	for (unsigned int i = 0; i < PROGRAMS; i++) {
		make(&seed);
		EXPECT_TRUE(agrees(outcome, &wrong_ones));
		count++;
		/* Of a clean program, leave out each synchronization in turn. */
		for (unsigned int j = 0; j < STEPS && !wrong(); j++) {
			const struct step step = steps[j];

			if (step.op < RECORD)
				continue;
			steps[j].op = NOTHING;
			EXPECT_TRUE(agrees(outcome, &wrong_ones));
			count++;
			steps[j] = step;
		}
	}
	TH_LOG("%u programs, %u of them wrong", count, wrong_ones);
	free(outcome);
}

#define SEED(n)							\
	TEST(random_programs_ ## n)				\
	{							\
		compare(_metadata, n * 7919u);			\
	}
SEED(1)
SEED(2)
SEED(3)
SEED(4)
SEED(5)
SEED(6)

TEST_HARNESS_MAIN
