// SPDX-License-Identifier: GPL-2.0
/*
 * The checker's verdict on random programs, and on programs with one synchronization left out that they need, beside
 * the verdict of a reachability search over the recorded calls, which shares nothing with the checker.
 *
 * A program is a list of steps. Each step has two nodes in a graph: what it does in a stream, or waits for, and what
 * the host knows when the call returns. The edges are those of "Rules of order" in Documentation/checker.rst. The
 * program is wrong if two steps use the same buffer, one of them writes, and there is no path between them. The same
 * holds for words, but for what "Words" in that document excepts.
 *
 * A wait for a value or a semaphore may be submitted before the write or the signal. A program in which a call would
 * then never return is not run: the graph, with edges for all that may keep a call from returning, has a cycle.
 */
#include <gpumem.h>
#include <semaphore.h>

#include "kselftest_harness.h"
#include "check_util.h"

#define STEPS		18u
#define STREAMS		6u	/* 0, 1: order against no other; 2, 3: blocking; 4: the legacy stream; 5: the thread's */
#define LEGACY		4u
#define EVENTS		2u
#define BUFFERS		4u
#define WORDS		3u	/* the second has 64 bits */
#define WORD_BYTES	64u	/* of the memory of a word, which is in front */
#define SEMAPHORES	4u
#define BINARY		1u	/* the others are timeline semaphores */
#define SHARED		3u	/* another process might have it */
#define BEGIN		1u	/* value of a timeline semaphore */
#define PROGRAMS	(getenv("GPUMEM_THOROUGH") ? 60u : 30u)	/* of one case, at least */

enum op {
	WRITE, READ, COPY,			/* asynchronous */
	FILL, COPY_INSIDE, COPY_PEER,		/* synchronous, between device memory */
	FROM_PINNED, FROM_PAGEABLE, TO_HOST,	/* synchronous, with host memory */
	TO_PAGEABLE,				/* asynchronous */
	RECORD, WAIT, SET, AWAIT, RAISE, PASS, HOST_FUNCTION,
	SYNC_STREAM, QUERY_STREAM, SYNC_EVENT, QUERY_EVENT, SYNC_CONTEXT,
	LOOK, LOOK_AROUND,			/* copies of a word, and of the bytes around it, too */
	NOTHING,
};

/* Kinds of steps that a program may leave out. */
enum group { ALWAYS, EVENT, VALUE, SEMAPHORE, SYNC, GROUPS };

/* What the host knows when a call returns. */
enum knows { NO_MORE, DONE, BEFORE };	/* BEFORE: what comes before the step is done, but not the step */

static const struct {
	const char *name;
	enum group group;
	unsigned int weight;		/* how often it is drawn */
	bool reads, writes;
	bool streams;			/* it is a step of a stream */
	bool legacy;			/* ... of the legacy stream */
	enum knows knows;
	bool blocks;			/* the library may return only when the step is done */
} kinds[] = {
	[WRITE]		= { "write",		ALWAYS, 6, .writes = true, .streams = true },
	[READ]		= { "read",		ALWAYS, 4, .reads = true, .streams = true },
	[COPY]		= { "copy",		ALWAYS, 2, .reads = true, .writes = true, .streams = true },
	[FILL]		= { "fill",		SYNC, 1, .writes = true, .streams = true, .legacy = true, .blocks = true },
	[COPY_INSIDE]	= { "copy inside",	SYNC, 1, .reads = true, .writes = true, .streams = true, .legacy = true,
					.blocks = true },
	[COPY_PEER]	= { "copy peer",	SYNC, 1, .reads = true, .writes = true, .streams = true, .legacy = true,
					.blocks = true },
	[FROM_PINNED]	= { "from pinned",	SYNC, 1, .writes = true, .streams = true, .legacy = true, .knows = DONE },
	[FROM_PAGEABLE]	= { "from pageable",	SYNC, 1, .writes = true, .streams = true, .legacy = true, .knows = BEFORE,
					.blocks = true },
	[TO_HOST]	= { "to host",		SYNC, 1, .reads = true, .streams = true, .legacy = true, .knows = DONE },
	[TO_PAGEABLE]	= { "to pageable",	SYNC, 1, .reads = true, .streams = true, .knows = DONE },
	[RECORD]	= { "record",		EVENT, 5, .streams = true },
	[WAIT]		= { "wait",		EVENT, 8, .streams = true },
	[SET]		= { "set",		VALUE, 7, .streams = true },
	[AWAIT]		= { "await",		VALUE, 7, .streams = true },
	[RAISE]		= { "raise",		SEMAPHORE, 7, .streams = true },
	[PASS]		= { "pass",		SEMAPHORE, 7, .streams = true },
	[HOST_FUNCTION]	= { "host function",	SYNC, 1, .streams = true, .knows = DONE },
	[SYNC_STREAM]	= { "sync",		SYNC, 1, .knows = DONE },
	[QUERY_STREAM]	= { "query",		SYNC, 1, .knows = DONE },
	[SYNC_EVENT]	= { "sync event",	SYNC, 1, .knows = DONE },
	[QUERY_EVENT]	= { "query event",	SYNC, 1, .knows = DONE },
	[SYNC_CONTEXT]	= { "sync context",	SYNC, 1, .knows = DONE },
	[LOOK]		= { "look",		VALUE, 2, .streams = true },
	[LOOK_AROUND]	= { "look around",	VALUE, 2, .streams = true },
	[NOTHING]	= { "-" },
};

struct step {
	enum op op;
	unsigned int stream, event, buffer, word, semaphore;
	bool fills;			/* SET: by a fill, of a word of 32 bits */
	bool wide;			/* ... and of the bytes around it */
	unsigned int flag, value;	/* SET, AWAIT; RAISE, PASS: of a timeline semaphore */
	bool again;			/* RAISE, PASS of SHARED: by its other handle */
};

static struct step steps[STEPS];
static bool strict;			/* the checker reports polls, too */

static unsigned int draw(unsigned long long *seed, unsigned int below)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (*seed >> 33) % below;
}

/* ---- the independent verdict */

#define NODES		(2 * STEPS)
#define HOST(step)	(STEPS + (step))	/* what the host knows when the call returns */

static bool before[NODES][NODES];

static bool is_blocking(unsigned int stream)
{
	return stream == 2 || stream == 3 || stream == 5;
}

static unsigned int stream_of(const struct step *step)
{
	return kinds[step->op].legacy ? LEGACY : step->stream;
}

/* Whether a step does nothing in its stream, as a wait for an event that was not recorded. */
static bool is_nothing(unsigned int step)
{
	if (steps[step].op != WAIT)
		return steps[step].op == NOTHING;
	for (unsigned int k = 0; k < step; k++)
		if (steps[k].op == RECORD && steps[k].event == steps[step].event)
			return false;
	return true;
}

/* Whether an edge leads from step i to the later step j. */
static bool edge(unsigned int i, unsigned int j)
{
	const struct step *from = &steps[i], *to = &steps[j];
	bool event = to->op == SYNC_EVENT || to->op == QUERY_EVENT;
	bool records = from->op == RECORD && (to->op == WAIT || event) && from->event == to->event;

	if (!kinds[from->op].streams || is_nothing(i) || is_nothing(j))
		return false;
	if (to->op == COPY_PEER || (from->op == COPY_PEER && kinds[to->op].streams))
		return true;
	for (unsigned int k = i + 1; k < j && records; k++)
		records = !(steps[k].op == RECORD && steps[k].event == from->event);
	if (records || to->op == SYNC_CONTEXT)
		return true;
	if (event)
		return false;
	/* Within a stream, between the legacy stream and blocking ones, and to a wait for all of that. */
	if (stream_of(from) == stream_of(to))
		return true;
	if (to->op == SYNC_STREAM || to->op == QUERY_STREAM)
		return to->stream == LEGACY && is_blocking(stream_of(from));
	return (stream_of(from) == LEGACY && is_blocking(stream_of(to))) ||
	       (stream_of(to) == LEGACY && is_blocking(stream_of(from)));
}

static bool satisfies(const struct step *await, unsigned int value)
{
	switch (await->flag) {
	case CU_STREAM_WAIT_VALUE_EQ:
		return value == await->value;
	case CU_STREAM_WAIT_VALUE_AND:
		return value & await->value;
	default:
		return value >= await->value;
	}
}

/* The step whose value a wait waits for, or STEPS. One stream writes all values of a word. */
static unsigned int set_for(const struct step *await)
{
	unsigned int i;

	for (i = 0; i < STEPS; i++)
		if (steps[i].op == SET && steps[i].word == await->word && satisfies(await, steps[i].value))
			break;
	return i;
}

/*
 * The step whose signal a wait waits for, or STEPS. One stream signals a semaphore, and values rise. The n-th wait
 * for a binary semaphore gets the n-th signal.
 */
static unsigned int raise_for(unsigned int pass)
{
	const unsigned int semaphore = steps[pass].semaphore;
	unsigned int skip = 0, i;

	for (i = 0; i < pass && semaphore == BINARY; i++)
		skip += steps[i].op == PASS && steps[i].semaphore == semaphore;
	for (i = 0; i < STEPS; i++)
		if (steps[i].op == RAISE && steps[i].semaphore == semaphore &&
		    (semaphore == BINARY ? !skip-- : steps[i].value >= steps[pass].value))
			break;
	return i;
}

/* Fill in @before. @calls: with what may keep calls from returning. False: a step never ends. */
static bool search(bool calls)
{
	bool ends = true;

	memset(before, 0, sizeof(before));
	for (unsigned int j = 0; j < STEPS; j++) {
		const enum op op = steps[j].op;
		unsigned int set = op == AWAIT ? set_for(&steps[j]) : op == PASS ? raise_for(j) : j;

		if (set == STEPS)
			ends = false;
		else if (set != j)
			before[set][j] = true;
		for (unsigned int i = 0; i < j; i++) {
			before[i][j] = before[i][j] || edge(i, j);
			/* What the host knows comes before whatever it does later. */
			before[HOST(i)][HOST(j)] = before[HOST(i)][j] = true;
		}
		if (kinds[op].knows == DONE || (calls && kinds[op].blocks))
			before[j][HOST(j)] = true;
		for (unsigned int i = 0; i < j && kinds[op].knows == BEFORE; i++)
			before[i][HOST(j)] = before[i][j];
	}
	for (unsigned int k = 0; k < NODES; k++)
		for (unsigned int i = 0; i < NODES; i++)
			for (unsigned int j = 0; j < NODES && before[i][k]; j++)
				before[i][j] = before[i][j] || before[k][j];
	for (unsigned int i = 0; i < NODES; i++)
		ends = ends && !before[i][i];
	return ends;
}

static unsigned int source_of(const struct step *step)
{
	return kinds[step->op].writes ? (step->buffer + 1) % BUFFERS : step->buffer;
}

static bool writes(const struct step *step, unsigned int buffer)
{
	return kinds[step->op].writes && step->buffer == buffer;
}

static bool uses(const struct step *step, unsigned int buffer)
{
	return writes(step, buffer) || (kinds[step->op].reads && source_of(step) == buffer);
}

/* Whether a write of a word, and another step that uses the word, must be ordered. */
static bool word_conflict(const struct step *set, const struct step *use)
{
	if (set->op != SET || set->word != use->word)
		return false;
	switch (use->op) {
	case LOOK_AROUND:
		return true;
	case LOOK:
		return set->fills || strict;
	case AWAIT:
		return set->wide || (set->fills && !satisfies(use, set->value));
	default:
		/* One stream writes all values. */
		return false;
	}
}

/* A step of a race: the later one, or the one that does not write the word. STEPS: there is no race. */
static unsigned int race(void)
{
	search(false);
	for (unsigned int j = 0; j < STEPS; j++)
		for (unsigned int i = 0; i < j; i++) {
			if (!before[i][j] && !before[j][i] && word_conflict(&steps[i], &steps[j]))
				return j;
			if (!before[i][j] && !before[j][i] && word_conflict(&steps[j], &steps[i]))
				return i;
			for (unsigned int b = 0; b < BUFFERS && !before[i][j] && !before[j][i]; b++)
				if (uses(&steps[i], b) && uses(&steps[j], b) &&
				    (writes(&steps[i], b) || writes(&steps[j], b)))
					return j;
		}
	return STEPS;
}

static bool wrong(void)
{
	return race() < STEPS;
}

/* ---- the program */

static unsigned int weight(enum op op, unsigned int groups)
{
	return groups & 1u << kinds[op].group ? kinds[op].weight : 0;
}

static enum op draw_op(unsigned long long *seed, unsigned int groups)
{
	unsigned int total = 0, at;
	enum op op;

	for (op = 0; op < NOTHING; op++)
		total += weight(op, groups);
	at = draw(seed, total);
	for (op = 0; at >= weight(op, groups); op++)
		at -= weight(op, groups);
	return op;
}

/* The k-th value of a word, from 0: each satisfies what an earlier one does, by >= and by a bit. */
static unsigned int value_of(unsigned int k)
{
	return (2u << k) - 1;
}

/* What the steps of a word write, and wait for. */
static void make_values(unsigned int word, unsigned int streams, unsigned long long *seed)
{
	static const unsigned int flags[] = {
		CU_STREAM_WAIT_VALUE_GEQ, CU_STREAM_WAIT_VALUE_EQ, CU_STREAM_WAIT_VALUE_AND,
	};
	unsigned int writer = draw(seed, streams), count = 0, k;

	for (unsigned int i = 0; i < STEPS; i++)
		if (steps[i].op == SET && steps[i].word == word) {
			steps[i].stream = writer;
			steps[i].fills = word != 1 && draw(seed, 2);
			steps[i].wide = steps[i].fills && !draw(seed, 3);
			steps[i].value = value_of(count++);
		}
	for (unsigned int i = 0; i < STEPS; i++) {
		if (steps[i].op != AWAIT || steps[i].word != word)
			continue;
		if (!count) {
			steps[i].op = NOTHING;
			continue;
		}
		k = draw(seed, count);
		steps[i].flag = flags[draw(seed, 3)];
		/* Only the last value stays. */
		if (steps[i].flag == CU_STREAM_WAIT_VALUE_EQ)
			k = count - 1;
		steps[i].value = steps[i].flag == CU_STREAM_WAIT_VALUE_AND ? 1u << k : value_of(k);
	}
}

/* What the steps of a semaphore signal, and wait for. */
static void make_signals(unsigned int semaphore, unsigned int streams, unsigned long long *seed)
{
	unsigned int signaller = draw(seed, streams), count = 0;

	for (unsigned int i = 0; i < STEPS; i++) {
		if (steps[i].op != RAISE || steps[i].semaphore != semaphore)
			continue;
		steps[i].stream = signaller;
		steps[i].value = BEGIN + ++count;
		steps[i].again = draw(seed, 2);
		/* A wait comes after all signals of shared semaphores that have run when it does: there is one. */
		if (semaphore == SHARED && count > 1)
			steps[i].op = NOTHING;
	}
	if (semaphore == SHARED && count > 1)
		count = 1;
	for (unsigned int i = 0; i < STEPS; i++) {
		if (steps[i].op != PASS || steps[i].semaphore != semaphore)
			continue;
		steps[i].again = draw(seed, 2);
		if (count)
			steps[i].value = BEGIN + 1 + draw(seed, count);
		if (raise_for(i) == STEPS)
			steps[i].op = NOTHING;
	}
}

static void make(unsigned long long *seed)
{
	unsigned int groups = 1u << ALWAYS | 1u << (EVENT + draw(seed, GROUPS - EVENT)) | draw(seed, 1u << GROUPS);
	unsigned int streams = 2 + draw(seed, STREAMS - 1);

	/* What the host waits for leaves little to the other kinds. */
	if (draw(seed, 3))
		groups &= ~(1u << SYNC);
	for (unsigned int i = 0; i < STEPS; i++)
		steps[i] = (struct step) {
			.op = draw_op(seed, groups), .stream = draw(seed, streams), .event = draw(seed, EVENTS),
			.buffer = draw(seed, BUFFERS), .word = draw(seed, WORDS), .semaphore = draw(seed, SEMAPHORES),
		};
	strict = draw(seed, 2);
	/* What a program may have learned by polling depends on when it polled, so only strict programs poll. */
	for (unsigned int i = 0; i < STEPS; i++)
		if (steps[i].op == LOOK && !strict)
			steps[i].op = LOOK_AROUND;
	for (unsigned int word = 0; word < WORDS; word++)
		make_values(word, streams, seed);
	for (unsigned int semaphore = 0; semaphore < SEMAPHORES; semaphore++)
		make_signals(semaphore, streams, seed);
	for (unsigned int i = STEPS; i-- > 0 && !search(true); )
		if (steps[i].op == AWAIT || steps[i].op == PASS)
			steps[i].op = NOTHING;
}

struct things {
	CUstream stream[STREAMS];
	CUevent event[EVENTS];
	CUdeviceptr buffer[BUFFERS], word[WORDS];
	unsigned char *target, *source;		/* pinned */
	CUexternalSemaphore semaphore[SEMAPHORES], again;
};

static void make_semaphores(struct things *t)
{
	CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC desc = { .type = CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD };

	for (unsigned int i = 0; i < SEMAPHORES; i++)
		OK(gpumem_create_semaphore(&t->semaphore[i], i == BINARY ? 0 : BEGIN,
					   i == BINARY ? 0 : GPUMEM_SEMAPHORE_TIMELINE));
	OK(gpumem_export_semaphore(&desc.handle.fd, t->semaphore[SHARED], 0));
	OK(cuImportExternalSemaphore(&t->again, &desc));
}

static void signal_or_wait(struct things *t, const struct step *s)
{
	CUexternalSemaphore *semaphore = s->semaphore == SHARED && s->again ? &t->again : &t->semaphore[s->semaphore];
	CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal = { .params.fence.value = s->value };
	CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait = { .params.fence.value = s->value };
	CUstream stream = t->stream[s->stream];

	OK(s->op == RAISE ? cuSignalExternalSemaphoresAsync(semaphore, &signal, 1, stream) :
	   cuWaitExternalSemaphoresAsync(semaphore, &wait, 1, stream));
}

static void set(const struct things *t, const struct step *s)
{
	const CUstream stream = t->stream[s->stream];

	if (s->word == 1)
		OK(cuStreamWriteValue64(stream, t->word[1], s->value, 0));
	else if (s->fills)
		OK(cuMemsetD32Async(t->word[s->word], s->value, s->wide ? WORD_BYTES / 4 : 1, stream));
	else
		OK(cuStreamWriteValue32(stream, t->word[s->word], s->value, 0));
}

static void post(void *semaphore)
{
	sem_post(semaphore);
}

static void call_host(CUstream stream)
{
	sem_t done;

	sem_init(&done, 0, 0);
	OK(cuLaunchHostFunc(stream, post, &done));
	while (sem_wait(&done))
		;
}

static void query_stream(CUstream stream)
{
	CUresult result;

	while ((result = cuStreamQuery(stream)) == CUDA_ERROR_NOT_READY)
		;
	OK(result);
}

static void query_event(CUevent event)
{
	CUresult result;

	while ((result = cuEventQuery(event)) == CUDA_ERROR_NOT_READY)
		;
	OK(result);
}

static void do_step(struct program *w, struct things *t, unsigned int i)
{
	const struct step *s = &steps[i];
	const CUstream stream = t->stream[s->stream];
	const CUdeviceptr to = t->buffer[s->buffer], from = t->buffer[source_of(s)];

	switch (s->op) {
	case WRITE:
		OK(cuMemsetD8Async(to, i, 64, stream));
		break;
	case READ:
		OK(cuMemcpyDtoHAsync(t->target + 64 * i, from, 64, stream));
		break;
	case COPY:
		OK(cuMemcpyDtoDAsync(to, from, 64, stream));
		break;
	case FILL:
		OK(cuMemsetD8(to, i, 64));
		break;
	case COPY_INSIDE:
		OK(cuMemcpyDtoD(to, from, 64));
		break;
	case COPY_PEER:
		OK(cuMemcpyPeer(to, w->ctx, from, w->ctx, 64));
		break;
	case FROM_PINNED:
		OK(cuMemcpyHtoD(to, t->source, 64));
		break;
	case FROM_PAGEABLE:
		OK(cuMemcpyHtoD(to, w->pageable, 64));
		break;
	case TO_HOST:
		OK(cuMemcpyDtoH(w->pageable + 64, from, 64));
		break;
	case TO_PAGEABLE:
		OK(cuMemcpyDtoHAsync(w->pageable + 64, from, 64, stream));
		break;
	case RECORD:
		OK(cuEventRecord(t->event[s->event], stream));
		break;
	case WAIT:
		OK(cuStreamWaitEvent(stream, t->event[s->event], 0));
		break;
	case SET:
		set(t, s);
		break;
	case AWAIT:
		OK(s->word == 1 ? cuStreamWaitValue64(stream, t->word[1], s->value, s->flag) :
		   cuStreamWaitValue32(stream, t->word[s->word], s->value, s->flag));
		break;
	case RAISE:
	case PASS:
		signal_or_wait(t, s);
		break;
	case HOST_FUNCTION:
		call_host(stream);
		break;
	case SYNC_STREAM:
		OK(cuStreamSynchronize(stream));
		break;
	case QUERY_STREAM:
		query_stream(stream);
		break;
	case SYNC_EVENT:
		OK(cuEventSynchronize(t->event[s->event]));
		break;
	case QUERY_EVENT:
		query_event(t->event[s->event]);
		break;
	case SYNC_CONTEXT:
		OK(cuCtxSynchronize());
		break;
	case LOOK:
		OK(cuMemcpyDtoHAsync(t->target + 64 * i, t->word[s->word], s->word == 1 ? 8 : 4, stream));
		break;
	case LOOK_AROUND:
		OK(cuMemcpyDtoHAsync(t->target + 64 * i, t->word[s->word], WORD_BYTES, stream));
		break;
	case NOTHING:
		break;
	}
}

static void run(struct program *w)
{
	struct things t = {
		.stream = { w->a, w->b, w->blocking, NULL, NULL, CU_STREAM_PER_THREAD }, .event = { w->e, w->f },
	};

	OK(cuStreamCreate(&t.stream[3], CU_STREAM_DEFAULT));
	OK(cuMemAllocHost((void **)&t.target, 64 * STEPS));
	OK(cuMemAllocHost((void **)&t.source, 64));
	for (unsigned int i = 0; i < BUFFERS; i++) {
		OK(cuMemAlloc(&t.buffer[i], 64));
		OK(cuMemsetD8Async(t.buffer[i], 0, 64, w->a));
	}
	for (unsigned int i = 0; i < WORDS; i++) {
		OK(cuMemAlloc(&t.word[i], WORD_BYTES));
		OK(cuMemsetD8Async(t.word[i], 0, WORD_BYTES, w->a));
		/* The checker knows a word by its first write that is no larger. */
		OK(cuMemsetD8Async(t.word[i], 0, 8, w->a));
	}
	make_semaphores(&t);
	OK(cuCtxSynchronize());
	for (unsigned int i = 0; i < STEPS; i++)
		do_step(w, &t, i);
	OK(cuCtxSynchronize());
	for (unsigned int i = 0; i < BUFFERS; i++)
		OK(cuMemFree(t.buffer[i]));
	for (unsigned int i = 0; i < WORDS; i++)
		OK(cuMemFree(t.word[i]));
	for (unsigned int i = 0; i < SEMAPHORES; i++)
		OK(cuDestroyExternalSemaphore(t.semaphore[i]));
	OK(cuDestroyExternalSemaphore(t.again));
	OK(cuMemFreeHost(t.target));
	OK(cuMemFreeHost(t.source));
	OK(cuStreamDestroy(t.stream[3]));
}

static void show(void)
{
	for (unsigned int i = 0; i < STEPS; i++)
		if (steps[i].op != NOTHING)
			fprintf(stderr, "# %2u %s stream %u event %u buffer %u word %u semaphore %u value %u flag %u%s\n", i,
				kinds[steps[i].op].name, stream_of(&steps[i]), steps[i].event, steps[i].buffer,
				steps[i].word, steps[i].semaphore, steps[i].value, steps[i].flag,
				steps[i].wide ? " wide" : steps[i].fills ? " fills" : "");
}

static unsigned int needed[NOTHING];	/* how many programs had a race without a step of this kind */
static unsigned int early;		/* ... without a wait for a semaphore that is submitted before its signal */

/* Run the program with the steps as they are now: whether the checker agrees. */
static bool agrees(struct outcome *outcome, unsigned int *wrong_ones)
{
	const char *const environment[] = { "GPUMEM_CHECK_STACKS=0", strict ? "GPUMEM_CHECK=strict" : NULL, NULL };
	bool expected = wrong();
	int line = 0;

	*wrong_ones += expected;
	program_run(run, environment, &line, outcome);
	if (outcome->status == (expected ? STATUS : 0) && !reports(outcome) == !expected)
		return true;
	fprintf(stderr, "# expected %s%s, status %d\n%s", expected ? "a race" : "none", strict ? " (strict)" : "",
		outcome->status, outcome->text);
	show();
	return false;
}

/* Leave out what a step orders: the step, or that the host waits for it. False: it orders no more than a stream. */
static bool weaken(struct step *step)
{
	enum op weaker = NOTHING;

	if (step->op == NOTHING || step->op < FILL)
		return false;
	if (step->op < RECORD) {
		weaker = !kinds[step->op].writes ? READ : kinds[step->op].reads ? COPY : WRITE;
		step->stream = stream_of(step);
	}
	step->op = weaker;
	return true;
}

/* Run a program without a race, and with one step of each kind left out, if that makes a race. */
static unsigned int compare_weaker(struct __test_metadata *_metadata, struct outcome *outcome, unsigned int *wrong_ones)
{
	bool ran[NOTHING + 1] = { false };
	unsigned int count = 0;

	for (unsigned int i = 0; i < STEPS; i++) {
		const struct step step = steps[i];
		const bool is_early = step.op == PASS && raise_for(i) > i;

		if (!ran[step.op] && weaken(&steps[i]) && search(true) && wrong()) {
			EXPECT_TRUE(agrees(outcome, wrong_ones));
			needed[step.op]++;
			early += is_early;
			ran[step.op] = true;
			count++;
		}
		steps[i] = step;
	}
	if (count) {
		EXPECT_TRUE(agrees(outcome, wrong_ones));
		count++;
	}
	return count;
}

static void compare(struct __test_metadata *_metadata, unsigned long long seed)
{
	struct outcome *outcome = malloc(sizeof(*outcome));
	unsigned int wrong_ones = 0, count = 0, drawn = 0;

	ASSERT_NE(NULL, outcome);
	memset(needed, 0, sizeof(needed));
	early = 0;
	while (count < PROGRAMS) {
		unsigned int step;

		make(&seed);
		if (drawn++ % 4 == 0) {
			EXPECT_TRUE(agrees(outcome, &wrong_ones));
			count++;
		}
		/* Few programs have no race. Make one of this. */
		while ((step = race()) < STEPS)
			steps[step].op = NOTHING;
		count += compare_weaker(_metadata, outcome, &wrong_ones);
	}
	TH_LOG("%u programs of %u drawn, %u of them wrong", count, drawn, wrong_ones);
	for (enum op op = 0; op < NOTHING; op++)
		if (needed[op])
			TH_LOG("%u need: %s", needed[op], kinds[op].name);
	TH_LOG("%u waits for semaphores were before their signals", early);
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
SEED(7)
SEED(8)

TEST_HARNESS_MAIN
