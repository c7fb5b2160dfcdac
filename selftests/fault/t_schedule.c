// SPDX-License-Identifier: GPL-2.0
/*
 * Schedules: a program without a mistake has the same result under each seed, a program that lacks a synchronization
 * has a wrong one under some, and the same seed has the same schedule.
 *
 * Random programs copy and fill a few buffers in several streams.  A model on the CPU runs the same operations in the
 * order of the calls.  Before each operation the program makes its stream wait for the last operations that touched
 * its buffers, in one of several ways.
 */
#include "kselftest_harness.h"
#include "fault_util.h"

#define SEEDS		12
#define MISTAKE_SEEDS	24
#define BUFFERS		4
#define STREAMS		8		/* more than the legacy stream waits for directly */
#define FREE		2		/* this one orders against no other */
#define SIZE		4096u

FIXTURE(schedule)
{
	struct outcome *o;
};

FIXTURE_SETUP(schedule)
{
	self->o = calloc(1, sizeof(*self->o));
	ASSERT_NE(NULL, self->o);
}

FIXTURE_TEARDOWN(schedule)
{
	if (_metadata->exit_code)
		fprintf(stderr, "%s", self->o->text);
	free(self->o);
}

static void run(void (*body)(struct program *w), unsigned int seed, struct outcome *o)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", seed);
	program_run(body, NULL, text, o);
}

/* ---- missing synchronization shows */

/* Each of 16 pairs of fills of one byte is not ordered. */
static void unordered(struct program *w)
{
	program_memory(w);
	for (int i = 0; i < 16; i++) {
		OK(cuMemsetD8Async(w->p + i, 10, 1, w->a));
		OK(cuMemsetD8Async(w->p + i, 20, 1, w->b));
	}
	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoH(w->out->bytes, w->p, 16));
	for (int i = 0; i < 16; i++)
		w->out->number[0] |= (uint64_t)(w->out->bytes[i] == 20) << i;
}

TEST_F(schedule, same_seed)
{
	uint64_t seen[SEEDS];
	unsigned int other = 0;

	for (unsigned int seed = 0; seed < SEEDS; seed++) {
		run(unordered, seed, self->o);
		ASSERT_EQ(0, self->o->status);
		seen[seed] = self->o->out.number[0];
		for (int i = 0; i < 2; i++) {
			run(unordered, seed, self->o);
			EXPECT_EQ(seen[seed], self->o->out.number[0])
				TH_LOG("seed %u", seed);
		}
		for (unsigned int before = 0; before <= seed; before++)
			if (seen[before] == seen[seed]) {
				other += before == seed;
				break;
			}
	}
	TH_LOG("%u schedules of %u seeds", other, SEEDS);
	EXPECT_LE(SEEDS / 2, other);
}

/* The host reads the destination of a copy that it did not wait for. */
static void host_reads_early(struct program *w)
{
	program_memory(w);
	OK(cuMemsetD8Async(w->p, 7, BYTES, w->a));
	OK(cuMemcpyDtoHAsync(w->pinned, w->p, BYTES, w->a));
	/* As a program does that forgot to wait, and is usually lucky. */
	nap_ms(20);
	w->out->number[0] = w->pinned[0] == 7;
}

/* A stream reads what another one writes, without an event. */
static void stream_reads_early(struct program *w)
{
	program_memory(w);
	OK(cuMemsetD8Async(w->p, 7, BYTES, w->a));
	OK(cuMemcpyDtoDAsync(w->q, w->p, BYTES, w->b));
	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoH(w->out->bytes, w->q, 1));
	w->out->number[0] = w->out->bytes[0] == 7;
}

/* The source of a copy is changed before the copy is done. */
static void source_changes(struct program *w)
{
	program_memory(w);
	w->pinned[0] = 7;
	OK(cuMemcpyHtoDAsync(w->p, w->pinned, 1, w->a));
	w->pinned[0] = 8;
	OK(cuStreamSynchronize(w->a));
	OK(cuMemcpyDtoH(w->out->bytes, w->p, 1));
	w->out->number[0] = w->out->bytes[0] == 7;
}

/* Memory of a pool is used in another stream than the one that it was freed in. */
static void used_after_free(struct program *w)
{
	CUdeviceptr one, two;

	program_memory(w);
	OK(cuMemAllocAsync(&one, SIZE, w->a));
	OK(cuMemsetD8Async(one, 7, SIZE, w->a));
	OK(cuStreamSynchronize(w->a));
	OK(cuMemcpyDtoDAsync(w->q, one, SIZE, w->b));
	OK(cuMemFreeAsync(one, w->a));
	OK(cuMemAllocAsync(&two, SIZE, w->a));
	OK(cuMemsetD8Async(two, 9, SIZE, w->a));
	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoH(w->out->bytes, w->q, 1));
	w->out->number[0] = w->out->bytes[0] == 7;
}

TEST_F(schedule, mistakes_show)
{
	static const struct {
		const char *name;
		void (*body)(struct program *w);
	} cases[] = {
		{ "host_reads_early", host_reads_early }, { "stream_reads_early", stream_reads_early },
		{ "source_changes", source_changes }, { "used_after_free", used_after_free },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		unsigned int wrong = 0;

		for (unsigned int seed = 0; seed < MISTAKE_SEEDS; seed++) {
			run(cases[i].body, seed, self->o);
			EXPECT_EQ(0, self->o->status);
			wrong += !self->o->out.number[0];
		}
		TH_LOG("%s: wrong under %u of %u seeds", cases[i].name, wrong, MISTAKE_SEEDS);
		EXPECT_LE(2, wrong);
	}
}

/* ---- correct programs have the same result */

struct model {
	struct rng rng;
	unsigned char bytes[BUFFERS][SIZE];
	CUdeviceptr buffer[BUFFERS];
	unsigned char *pinned[BUFFERS];
	CUstream stream[STREAMS];
	int last[BUFFERS];		/* the stream of the last operation on a buffer, or -1 */
	CUdeviceptr words;
	uint32_t written;
	bool tangled;			/* most order is left out */
};

static void write_byte(void *arg)
{
	unsigned char *p = arg;

	p[0] = p[1];
}

/* Order stream @to after all that is in stream @from. */
static void order(struct model *m, int from, int to)
{
	CUevent event;

	if (from < 0 || from == to || (m->tangled && rng_below(&m->rng, 4)))
		return;
	switch (rng_below(&m->rng, 5)) {
	case 0:
		OK(cuStreamSynchronize(m->stream[from]));
		break;
	case 1:
		OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
		OK(cuEventRecord(event, m->stream[from]));
		while (cuEventQuery(event) == CUDA_ERROR_NOT_READY)
			;
		OK(cuEventDestroy(event));
		break;
	case 2:
		m->written++;
		OK(cuStreamWriteValue32(m->stream[from], m->words + from * 4, m->written, 0));
		OK(cuStreamWaitValue32(m->stream[to], m->words + from * 4, m->written, CU_STREAM_WAIT_VALUE_GEQ));
		break;
	default:
		OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
		OK(cuEventRecord(event, m->stream[from]));
		OK(cuStreamWaitEvent(m->stream[to], event, 0));
		OK(cuEventDestroy(event));
		break;
	}
}

/* Stream @s touches buffer @b next. */
static void touch(struct model *m, int b, int s)
{
	order(m, m->last[b], s);
	m->last[b] = s;
}

static void one_operation(struct model *m)
{
	int s = rng_below(&m->rng, STREAMS), x = rng_below(&m->rng, BUFFERS), y = rng_below(&m->rng, BUFFERS);
	unsigned int at = rng_below(&m->rng, SIZE / 2), n = 1 + rng_below(&m->rng, SIZE / 2), value;
	CUdeviceptr pool;

	switch (rng_below(&m->rng, 6)) {
	case 0:
		value = rng_below(&m->rng, 256);
		touch(m, x, s);
		OK(cuMemsetD8Async(m->buffer[x] + at, value, n, m->stream[s]));
		memset(m->bytes[x] + at, value, n);
		break;
	case 1:
		if (x == y)
			break;
		touch(m, x, s);
		touch(m, y, s);
		OK(cuMemcpyDtoDAsync(m->buffer[x], m->buffer[y] + at, n, m->stream[s]));
		memcpy(m->bytes[x], m->bytes[y] + at, n);
		break;
	case 2:
		/* Through memory of a pool. */
		if (x == y)
			break;
		touch(m, x, s);
		touch(m, y, s);
		OK(cuMemAllocAsync(&pool, SIZE, m->stream[s]));
		OK(cuMemcpyDtoDAsync(pool, m->buffer[y] + at, n, m->stream[s]));
		OK(cuMemcpyDtoDAsync(m->buffer[x], pool, n, m->stream[s]));
		OK(cuMemFreeAsync(pool, m->stream[s]));
		memcpy(m->bytes[x], m->bytes[y] + at, n);
		break;
	case 3:
		/* To the host and back, with a function of the host between. */
		touch(m, x, s);
		OK(cuMemcpyDtoHAsync(m->pinned[x], m->buffer[x], SIZE, m->stream[s]));
		OK(cuLaunchHostFunc(m->stream[s], write_byte, m->pinned[x]));
		OK(cuMemcpyHtoDAsync(m->buffer[x], m->pinned[x], SIZE, m->stream[s]));
		m->bytes[x][0] = m->bytes[x][1];
		break;
	case 4:
		/* A pageable source is read at the call. */
		touch(m, x, s);
		value = rng_below(&m->rng, 256);
		OK(cuMemcpyHtoDAsync(m->buffer[x] + at, &value, 1, m->stream[s]));
		m->bytes[x][at] = value;
		value = 0;
		break;
	default:
		/* The legacy stream waits for all streams but one, and they for it. */
		touch(m, x, FREE);
		if (!m->tangled)
			OK(cuStreamSynchronize(m->stream[FREE]));
		value = rng_below(&m->rng, 256);
		OK(cuMemsetD8Async(m->buffer[x], value, n, CU_STREAM_LEGACY));
		if (!m->tangled)
			OK(cuStreamSynchronize(CU_STREAM_LEGACY));
		memset(m->bytes[x], value, n);
		m->last[x] = -1;
		break;
	}
}

static unsigned int program_seed;

static void random_program(struct program *w, bool tangled)
{
	struct model *m = calloc(1, sizeof(*m));
	unsigned char got[SIZE];
	void *words;

	m->tangled = tangled;
	m->rng.state = 1 + program_seed;
	for (int s = 0; s < STREAMS; s++)
		OK(cuStreamCreate(&m->stream[s], s == FREE ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
	/* The library looks at words that the CPU reaches, also in strict mode. */
	OK(cuMemAllocHost((void **)&words, 4096));
	memset(words, 0, 4096);
	m->words = (CUdeviceptr)words;
	for (int b = 0; b < BUFFERS; b++) {
		OK(cuMemAlloc(&m->buffer[b], SIZE));
		OK(cuMemsetD8(m->buffer[b], 0, SIZE));
		OK(cuMemAllocHost((void **)&m->pinned[b], SIZE));
		m->last[b] = -1;
	}
	OK(cuCtxSynchronize());
	for (int i = 0; i < 60; i++)
		one_operation(m);
	OK(cuCtxSynchronize());
	for (int b = 0; b < BUFFERS; b++) {
		OK(cuMemcpyDtoH(got, m->buffer[b], SIZE));
		w->out->number[0] += memcmp(got, m->bytes[b], SIZE) != 0;
		for (size_t i = 0; i < SIZE; i++)
			w->out->number[2] = (w->out->number[2] ^ got[i]) * 0x100000001b3ull;
	}
	w->out->number[1] = 1;
}

static void ordered(struct program *w)
{
	random_program(w, false);
}

static void tangled(struct program *w)
{
	random_program(w, true);
}

/* Programs that leave out most of the order have a result that the seed alone chooses. */
TEST_F(schedule, tangled)
{
	unsigned int results = 0;
	uint64_t before = 0;

	for (program_seed = 0; program_seed < 4; program_seed++)
		for (unsigned int seed = 0; seed < 6; seed++) {
			uint64_t first;

			run(tangled, seed, self->o);
			ASSERT_EQ(0, self->o->status);
			first = self->o->out.number[2];
			results += first != before;
			before = first;
			run(tangled, seed, self->o);
			ASSERT_EQ(first, self->o->out.number[2])
				TH_LOG("program %u, seed %u", program_seed, seed);
		}
	TH_LOG("%u results of 24 runs", results);
	EXPECT_LE(8, results);
}

TEST_F(schedule, ordered)
{
	unsigned int programs = getenv("GPUMEM_THOROUGH") ? 6 : 3, seeds = 2 * programs;

	for (program_seed = 0; program_seed < programs; program_seed++)
		for (unsigned int seed = 0; seed < seeds; seed++) {
			run(ordered, seed, self->o);
			ASSERT_EQ(0, self->o->status);
			EXPECT_EQ(1, self->o->out.number[1]);
			ASSERT_EQ(0, self->o->out.number[0])
				TH_LOG("program %u, seed %u", program_seed, seed);
		}
}

/* ---- programs end */

static void poll_memory(struct program *w)
{
	program_memory(w);
	OK(cuMemsetD8Async((CUdeviceptr)w->pinned, 7, 1, w->a));
	/* Without a call: work runs all the same after a while. */
	while (__atomic_load_n(w->pinned, __ATOMIC_ACQUIRE) != 7)
		;
	w->out->number[0] = 1;
}

static void poll_query(struct program *w)
{
	program_memory(w);
	for (int i = 0; i < 10; i++) {
		OK(cuMemsetD8Async(w->p, i, BYTES, w->a));
		while (cuStreamQuery(w->a) == CUDA_ERROR_NOT_READY)
			;
	}
	w->out->number[0] = 1;
}

static void fill_ring(struct program *w)
{
	program_memory(w);
	for (int i = 0; i < 6000; i++)
		OK(cuMemsetD8Async(w->p, i, 16, w->a));
	OK(cuStreamSynchronize(w->a));
	OK(cuMemcpyDtoH(w->out->bytes, w->p, 1));
	w->out->number[0] = w->out->bytes[0] == (5999 & 0xff);
}

static void host_waits(void *arg)
{
	while (!__atomic_load_n((int *)arg, __ATOMIC_ACQUIRE))
		nap_ms(1);
}

/* The program polls memory, and calls a function each time. */
static void poll_and_call(struct program *w)
{
	CUcontext ctx;

	program_memory(w);
	OK(cuMemsetD8Async((CUdeviceptr)w->pinned, 7, 1, w->a));
	while (__atomic_load_n(w->pinned, __ATOMIC_ACQUIRE) != 7)
		OK(cuCtxGetCurrent(&ctx));
	w->out->number[0] = 1;
}

/* A host function waits for the program, which calls functions meanwhile. */
static void blocked_function(struct program *w)
{
	int go = 0;

	program_memory(w);
	OK(cuLaunchHostFunc(w->a, host_waits, &go));
	OK(cuMemsetD8Async(w->p, 7, BYTES, w->b));
	OK(cuStreamSynchronize(w->b));
	__atomic_store_n(&go, 1, __ATOMIC_RELEASE);
	OK(cuStreamSynchronize(w->a));
	w->out->number[0] = 1;
}

/* A stream waits for a word that the program writes later. */
static void value_later(struct program *w)
{
	program_memory(w);
	memset(w->pinned, 0, 8);
	OK(cuStreamWaitValue32(w->a, (CUdeviceptr)w->pinned, 1, CU_STREAM_WAIT_VALUE_EQ));
	OK(cuMemsetD8Async(w->p, 7, BYTES, w->a));
	OK(cuMemsetD8Async(w->q, 7, BYTES, w->b));
	OK(cuStreamSynchronize(w->b));
	NOTE(cuStreamQuery(w->a));
	__atomic_store_n((uint32_t *)w->pinned, 1, __ATOMIC_RELEASE);
	OK(cuCtxSynchronize());
	w->out->number[0] = w->out->result[0] == CUDA_ERROR_NOT_READY;
}

static void destroyed(struct program *w)
{
	CUevent event;

	program_memory(w);
	OK(cuEventCreate(&event, 0));
	OK(cuMemsetD8Async(w->p, 7, BYTES, w->a));
	OK(cuEventRecord(event, w->a));
	OK(cuStreamDestroy(w->a));
	OK(cuEventSynchronize(event));
	OK(cuMemcpyDtoH(w->out->bytes, w->p, 1));
	w->out->number[0] = w->out->bytes[0] == 7;
}

/* Work that the program did not wait for does not keep the process. */
static void leaves(struct program *w)
{
	program_memory(w);
	OK(cuMemsetD8Async(w->p, 7, BYTES, w->a));
	w->out->number[0] = 1;
}

TEST_F(schedule, programs_end)
{
	static const struct {
		const char *name;
		void (*body)(struct program *w);
	} cases[] = {
		{ "poll_memory", poll_memory }, { "poll_query", poll_query },
		{ "poll_and_call", poll_and_call }, { "fill_ring", fill_ring },
		{ "blocked_function", blocked_function }, { "value_later", value_later },
		{ "destroyed", destroyed }, { "leaves", leaves },
	};
	unsigned int seeds = getenv("GPUMEM_THOROUGH") ? 4 : 2;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		for (unsigned int seed = 0; seed < seeds; seed++) {
			run(cases[i].body, seed, self->o);
			EXPECT_EQ(0, self->o->status);
			EXPECT_EQ(1, self->o->out.number[0])
				TH_LOG("%s, seed %u", cases[i].name, seed);
		}
}

TEST_F(schedule, not_a_number)
{
	static const char *const texts[] = { "tomorrow", "-1", "0x10", "99999999999999999999", "1 2" };
	char want[128];

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		program_run(leaves, NULL, texts[i], self->o);
		EXPECT_EQ(0, self->o->status);
		snprintf(want, sizeof(want), "gpumem: GPUMEM_SCHEDULE is not a number: %s\n", texts[i]);
		EXPECT_TRUE(strstr(self->o->text, want));
	}
}

TEST_HARNESS_MAIN
