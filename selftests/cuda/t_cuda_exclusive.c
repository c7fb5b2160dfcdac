// SPDX-License-Identifier: GPL-2.0
/*
 * The legacy stream and blocking streams, used by different threads at the same time: an operation
 * that one thread executes itself, or is about to submit, excludes the other thread's operations.
 *
 * A thread is held in the middle of a copy by memory of the program that is not populated yet
 * (userfaultfd), or because a ring or the staging memory is full behind a gate, a word that has not
 * been written.  The other thread's work has one right place in the order: after the copy that
 * began before it.  If the first thread waits for room, the place is after the work that it has
 * submitted and before the work that it has not submitted.
 *
 * Without the naps a test that should fail could pass, because the second thread is late.  A thread
 * is stuck when it has made the calls that must fit, and no further call for a while.
 */
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>

#include "kselftest_harness.h"
#include "cuda_util.h"
#include "common/limits_util.h"

#define BYTES		(64 * KIB)		/* the caller copies it if it may */
#define BIG		(2 * MIB)		/* always queued */
#define HOLD_MS		60

struct things {
	CUcontext ctx;
	CUstream blocking, apart;	/* apart: NON_BLOCKING */
	CUdeviceptr buf, out;		/* BIG bytes each, of value 1 and 0 */
	unsigned char *host;		/* BIG bytes of the program's memory */
	cuuint32_t *words;
	CUdeviceptr gate, second_gate;	/* words that are 0 */
};

static CUresult things_make(struct things *t)
{
	CUresult result = cuda_start(&t->ctx);

	if (!result)
		result = cuStreamCreate(&t->blocking, CU_STREAM_DEFAULT);
	if (!result)
		result = cuStreamCreate(&t->apart, CU_STREAM_NON_BLOCKING);
	if (!result)
		result = cuMemAlloc(&t->buf, BIG);
	if (!result)
		result = cuMemAlloc(&t->out, BIG);
	if (!result)
		result = cuMemsetD8(t->buf, 1, BIG);
	if (!result)
		result = cuMemsetD8(t->out, 0, BIG);
	if (!result)
		result = cuMemHostAlloc((void **)&t->words, 4 * KIB, CU_MEMHOSTALLOC_DEVICEMAP);
	if (result)
		return result;
	t->words[0] = t->words[1] = 0;
	result = cuMemHostGetDevicePointer(&t->gate, t->words, 0);
	t->second_gate = t->gate + sizeof(*t->words);
	t->host = malloc(BIG);
	if (!result)
		result = t->host ? cuCtxSynchronize() : CUDA_ERROR_OUT_OF_MEMORY;
	return result;
}

#define WITH_THINGS(name) \
	FIXTURE(name) \
	{ \
		struct things t; \
	}; \
	FIXTURE_SETUP(name) \
	{ \
		ASSERT_TRUE(dev_quiet(10)); \
		ASSERT_CU(things_make(&self->t)); \
	} \
	FIXTURE_TEARDOWN_PARENT(name) \
	{ \
		EXPECT_TRUE(dev_quiet(10)); \
	}

/* --- threads that call once, or again and again */

struct call {
	pthread_t thread;
	CUcontext ctx;
	CUresult (*fn)(struct call *call);
	CUstream stream;
	CUdeviceptr dst, src;
	size_t bytes;
	unsigned char *host;
	unsigned int times, value;
	CUresult result;
	atomic_uint done;		/* calls that have returned */
	atomic_int tid;
};

static void *call_main(void *arg)
{
	struct call *call = arg;

	call->result = cuCtxSetCurrent(call->ctx);
	atomic_store(&call->tid, syscall(SYS_gettid));
	for (unsigned int i = 0; !call->result && i < call->times; i++) {
		call->value = i;
		call->result = call->fn(call);
		atomic_fetch_add(&call->done, 1);
	}
	return NULL;
}

static bool call_start(struct call *call, CUcontext ctx)
{
	call->ctx = ctx;
	if (!call->times)
		call->times = 1;
	return !pthread_create(&call->thread, NULL, call_main, call);
}

static CUresult call_end(struct call *call)
{
	pthread_join(call->thread, NULL);
	return call->result;
}

static void nap(void)
{
	usleep(HOLD_MS * 1000);
}

static bool asleep(struct call *call)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", atomic_load(&call->tid));
	f = fopen(path, "r");
	if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	if (f)
		fclose(f);
	return state == 'S';
}

/* Wait until a thread sleeps in a call. */
static bool waits(struct call *call)
{
	unsigned int quiet = 0;

	for (int i = 0; i < 1000 && quiet < 5; i++) {
		usleep(20000);
		quiet = asleep(call) ? quiet + 1 : 0;
	}
	return quiet == 5;
}

/* Wait until a thread makes no further call: how many it has made, @least or more; or 0. */
static unsigned int calls_until_stuck(struct call *call, unsigned int least)
{
	unsigned int done, before = 0, quiet = 0;

	for (int i = 0; i < 500 && quiet < 3; i++) {
		nap();
		done = atomic_load(&call->done);
		quiet = done >= least && done == before ? quiet + 1 : 0;
		before = done;
	}
	return quiet == 3 ? before : 0;
}

static CUresult shut(CUstream stream, CUdeviceptr gate)
{
	return cuStreamWaitValue32(stream, gate, 1, CU_STREAM_WAIT_VALUE_EQ);
}

static CUresult from_host(struct call *c)
{
	return cuMemcpyHtoDAsync(c->dst, c->host, c->bytes, c->stream);
}

static CUresult to_host(struct call *c)
{
	return cuMemcpyDtoHAsync(c->host, c->src, c->bytes, c->stream);
}

/* Prepare a copy to the program's memory in parts, from exported memory: the engine executes it. */
static CUresult parts_make(struct call *c, size_t bytes)
{
	CUresult result = cuMemAlloc(&c->src, bytes);

	c->fn = to_host;
	c->bytes = bytes;
	c->host = malloc(bytes);
	if (!result)
		result = cuMemsetD8(c->src, 7, bytes);
	if (!result)
		result = export(c->src);
	return result ? result : c->host ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult parts_free(struct call *c)
{
	free(c->host);
	return cuMemFree(c->src);
}

static CUresult fill(struct call *c)
{
	CUresult result = cuMemsetD8Async(c->dst, 0x55, c->bytes, c->stream);

	return result ? result : cuStreamSynchronize(c->stream);
}

static CUresult copy(struct call *c)
{
	CUresult result = cuMemcpyDtoDAsync(c->dst, c->src, c->bytes, c->stream);

	return result ? result : cuStreamSynchronize(c->stream);
}

static CUresult fill_number(struct call *c)
{
	return cuMemsetD32Async(c->dst, c->value, 1, c->stream);
}

static CUresult stage_number(struct call *c)
{
	memset(c->host, c->value, c->bytes);
	return from_host(c);
}

/* --- memory that holds a thread that touches it */

struct hold {
	int fd;
	unsigned char *memory;
	size_t bytes;
};

static bool hold_make(struct hold *hold, size_t bytes)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };

	hold->bytes = bytes;
	hold->fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	hold->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (hold->fd < 0 || hold->memory == MAP_FAILED || ioctl(hold->fd, UFFDIO_API, &api))
		return false;
	reg.range.start = (uintptr_t)hold->memory;
	reg.range.len = bytes;
	return !ioctl(hold->fd, UFFDIO_REGISTER, &reg);
}

/* Wait until a thread touches the memory. */
static bool hold_wait(struct hold *hold)
{
	struct pollfd p = { .fd = hold->fd, .events = POLLIN };
	struct uffd_msg msg;

	return poll(&p, 1, 20000) == 1 && read(hold->fd, &msg, sizeof(msg)) == sizeof(msg) &&
	       msg.event == UFFD_EVENT_PAGEFAULT;
}

/* Let the thread continue; the memory then holds @value. */
static bool hold_end(struct hold *hold, unsigned char value)
{
	struct uffdio_copy pages = { .dst = (uintptr_t)hold->memory, .len = hold->bytes };
	unsigned char *text = malloc(hold->bytes);
	bool ok;

	if (!text)
		return false;
	memset(text, value, hold->bytes);
	pages.src = (uintptr_t)text;
	ok = !ioctl(hold->fd, UFFDIO_COPY, &pages);
	free(text);
	return ok;
}

static void hold_free(struct hold *hold)
{
	munmap(hold->memory, hold->bytes);
	close(hold->fd);
}

WITH_THINGS(exclusive)

FIXTURE_VARIANT(exclusive)
{
	CUstream first, second;		/* NULL: the fixture's blocking stream */
	size_t bytes;			/* of the second thread's operation */
};

FIXTURE_VARIANT_ADD(exclusive, blocking_first)
{
	.second = CU_STREAM_LEGACY, .bytes = BYTES,
};

FIXTURE_VARIANT_ADD(exclusive, legacy_first)
{
	.first = CU_STREAM_LEGACY, .bytes = BYTES,
};

FIXTURE_VARIANT_ADD(exclusive, thread_first)
{
	.first = CU_STREAM_PER_THREAD, .second = CU_STREAM_LEGACY, .bytes = BYTES,
};

FIXTURE_VARIANT_ADD(exclusive, thread_second)
{
	.first = CU_STREAM_LEGACY, .second = CU_STREAM_PER_THREAD, .bytes = BYTES,
};

FIXTURE_VARIANT_ADD(exclusive, blocking_then_queued)
{
	.second = CU_STREAM_LEGACY, .bytes = BIG,
};

FIXTURE_VARIANT_ADD(exclusive, legacy_then_queued)
{
	.first = CU_STREAM_LEGACY, .bytes = BIG,
};

#define FIRST	(variant->first ? variant->first : self->t.blocking)
#define SECOND	(variant->second ? variant->second : self->t.blocking)

/* The second call comes while the first is held at the program's memory, which @byte then fills. */
static void second_meets_held(struct __test_metadata *_metadata, struct hold *hold, struct call *first,
			      struct call *second, CUcontext ctx, int byte)
{
	ASSERT_TRUE(hold_make(hold, BYTES));
	first->host = hold->memory;
	ASSERT_TRUE(call_start(first, ctx));
	ASSERT_TRUE(hold_wait(hold));
	ASSERT_TRUE(call_start(second, ctx));
	nap();
	ASSERT_TRUE(hold_end(hold, byte));
	ASSERT_CU(call_end(first));
	ASSERT_CU(call_end(second));
}

/* A copy that has begun to read the program's memory ends before its destination is filled. */
TEST_F(exclusive, half_written)
{
	struct call first = { .fn = from_host, .stream = FIRST, .dst = self->t.buf, .bytes = BYTES };
	struct call second = {
		.fn = fill, .stream = SECOND, .dst = self->t.buf, .bytes = variant->bytes,
	};
	struct hold hold;

	second_meets_held(_metadata, &hold, &first, &second, self->t.ctx, 0xaa);
	ASSERT_CU(cuCtxSynchronize());
	ASSERT_CU(cuMemcpyDtoH(self->t.host, self->t.buf, variant->bytes));
	EXPECT_TRUE(all_are(self->t.host, 0x55, variant->bytes));
	hold_free(&hold);
}

/*
 * A copy's source is overwritten after the copy has read it.  If the engine reads the source, it
 * has done so before the thread is held.
 */
TEST_F(exclusive, half_read)
{
	struct call first = { .fn = to_host, .stream = FIRST, .src = self->t.buf, .bytes = BYTES };
	struct call second = {
		.fn = copy, .stream = SECOND, .dst = self->t.buf, .src = self->t.out,
		.bytes = variant->bytes,
	};
	struct hold hold;

	second_meets_held(_metadata, &hold, &first, &second, self->t.ctx, 0);
	EXPECT_TRUE(all_are(hold.memory, 1, BYTES));
	ASSERT_CU(cuMemcpyDtoH(self->t.host, self->t.buf, variant->bytes));
	EXPECT_TRUE(all_are(self->t.host, 0, variant->bytes));
	hold_free(&hold);
}

/* --- threads that are stuck */

WITH_THINGS(stuck)

FIXTURE_VARIANT(stuck)
{
	CUstream first, second;		/* NULL: the fixture's blocking stream */
};

FIXTURE_VARIANT_ADD(stuck, blocking_first)
{
	.second = CU_STREAM_LEGACY,
};

FIXTURE_VARIANT_ADD(stuck, legacy_first)
{
	.first = CU_STREAM_LEGACY,
};

FIXTURE_VARIANT_ADD(stuck, thread_second)
{
	.first = CU_STREAM_LEGACY, .second = CU_STREAM_PER_THREAD,
};

/* Opens the first gate; opens the second one when the stuck call has ended. */
static void open_gates(struct __test_metadata *_metadata, struct things *t, struct call *first)
{
	ASSERT_CU(cuStreamWriteValue32(t->apart, t->gate, 1, 0));
	ASSERT_CU(call_end(first));
	nap();
	ASSERT_CU(cuStreamWriteValue32(t->apart, t->second_gate, 1, 0));
	ASSERT_CU(cuCtxSynchronize());
}

/* Further blocking streams, for which the legacy stream has to wait. */
#define OTHERS	9

/*
 * The first thread waits for room in its ring, behind the gate.  The other thread's copy is
 * submitted at once, behind a second gate.  It comes after what the first thread has submitted, and
 * before what the first thread submits when there is room.
 */
TEST_F(stuck, ring_full)
{
	struct call first = {
		.fn = fill_number, .stream = FIRST, .dst = self->t.buf, .times = RING_DEPTH + 150,
	};
	CUstream second = SECOND, other[OTHERS];
	cuuint32_t got[1 + OTHERS], last;
	unsigned int stuck;

	ASSERT_CU(shut(first.stream, self->t.gate));
	ASSERT_TRUE(call_start(&first, self->t.ctx));
	stuck = calls_until_stuck(&first, RING_DEPTH - 50);
	ASSERT_GT(first.times, stuck);
	ASSERT_NE(0, stuck);
	ASSERT_CU(shut(second, self->t.second_gate));
	ASSERT_CU(cuMemcpyDtoDAsync(self->t.out, self->t.buf, sizeof(got[0]), second));
	for (int i = 0; i < OTHERS; i++) {
		ASSERT_CU(cuStreamCreate(&other[i], CU_STREAM_DEFAULT));
		if (second == CU_STREAM_LEGACY)
			continue;
		ASSERT_CU(shut(other[i], self->t.second_gate));
		ASSERT_CU(cuMemcpyDtoDAsync(self->t.out + (1 + i) * sizeof(got[0]), self->t.buf,
					    sizeof(got[0]), other[i]));
	}
	EXPECT_EQ(stuck, atomic_load(&first.done));
	/* The ring has room for the rest of the first thread's work, behind the second gate. */
	open_gates(_metadata, &self->t, &first);
	ASSERT_CU(cuMemcpyDtoH(got, self->t.out, sizeof(got)));
	ASSERT_CU(cuMemcpyDtoH(&last, self->t.buf, sizeof(last)));
	EXPECT_EQ(stuck - 1, got[0]);
	for (int i = 0; i < OTHERS && second != CU_STREAM_LEGACY; i++)
		EXPECT_EQ(stuck - 1, got[1 + i]);
	EXPECT_EQ(first.times - 1, last);
	for (int i = 0; i < OTHERS; i++)
		ASSERT_CU(cuStreamDestroy(other[i]));
}

/* The same for a thread that waits for staging memory. */
TEST_F(stuck, staging_full)
{
	struct call first = {
		.fn = stage_number, .stream = FIRST, .dst = self->t.buf, .bytes = STAGE,
		.host = self->t.host, .times = 100,
	};
	CUstream second = SECOND;
	unsigned char *got = self->t.host + STAGE;
	unsigned int stuck;

	ASSERT_CU(shut(first.stream, self->t.gate));
	ASSERT_TRUE(call_start(&first, self->t.ctx));
	stuck = calls_until_stuck(&first, 60);
	ASSERT_GT(100, stuck);
	ASSERT_NE(0, stuck);
	ASSERT_CU(shut(second, self->t.second_gate));
	ASSERT_CU(cuMemcpyDtoDAsync(self->t.out, self->t.buf, STAGE, second));
	EXPECT_EQ(stuck, atomic_load(&first.done));
	open_gates(_metadata, &self->t, &first);
	ASSERT_CU(cuMemcpyDtoH(got, self->t.out, STAGE));
	EXPECT_TRUE(all_are(got, stuck - 1, STAGE));
	ASSERT_CU(cuMemcpyDtoH(got, self->t.buf, STAGE));
	EXPECT_TRUE(all_are(got, 99, STAGE));
}

/* Of a copy in parts, two parts are submitted: the other thread's fill comes after these two. */
TEST_F(stuck, parts)
{
	struct call first = { .stream = FIRST };
	CUstream second = SECOND;

	ASSERT_CU(parts_make(&first, 4 * STAGE));
	ASSERT_CU(shut(first.stream, self->t.gate));
	ASSERT_TRUE(call_start(&first, self->t.ctx));
	ASSERT_TRUE(waits(&first));
	ASSERT_CU(shut(second, self->t.second_gate));
	ASSERT_CU(cuMemsetD8Async(first.src, 9, first.bytes, second));
	EXPECT_EQ(0, atomic_load(&first.done));
	ASSERT_CU(cuStreamWriteValue32(self->t.apart, self->t.gate, 1, 0));
	nap();
	EXPECT_EQ(0, atomic_load(&first.done));
	ASSERT_CU(cuStreamWriteValue32(self->t.apart, self->t.second_gate, 1, 0));
	ASSERT_CU(call_end(&first));
	ASSERT_CU(cuCtxSynchronize());
	EXPECT_TRUE(all_are(first.host, 7, 2 * STAGE));
	EXPECT_TRUE(all_are(first.host + 2 * STAGE, 9, 2 * STAGE));
	ASSERT_CU(parts_free(&first));
}

/* A thread whose copy has arrived does not wait for work that others submitted during the copy. */
TEST_F(stuck, last_part)
{
	struct call first = { .stream = FIRST };

	ASSERT_CU(parts_make(&first, 2 * STAGE));
	ASSERT_CU(shut(first.stream, self->t.gate));
	ASSERT_TRUE(call_start(&first, self->t.ctx));
	ASSERT_TRUE(waits(&first));
	ASSERT_CU(shut(SECOND, self->t.second_gate));
	ASSERT_CU(cuStreamWriteValue32(self->t.apart, self->t.gate, 1, 0));
	ASSERT_CU(call_end(&first));
	EXPECT_TRUE(all_are(first.host, 7, first.bytes));
	ASSERT_CU(cuStreamWriteValue32(self->t.apart, self->t.second_gate, 1, 0));
	ASSERT_CU(cuCtxSynchronize());
	ASSERT_CU(parts_free(&first));
}

struct function {
	struct call *caller;
	CUevent event;
	CUstream stream;
	bool waited;
	CUresult result;
};

static void record(void *arg)
{
	struct function *f = arg;

	f->waited = waits(f->caller);
	f->result = cuEventRecord(f->event, f->stream);
}

/* A function's call is refused if the thread that holds the stream waits for the function. */
static void function_before(struct __test_metadata *_metadata, struct things *t, struct call *first)
{
	struct function f = { .caller = first, .stream = t->blocking, .result = CUDA_ERROR_UNKNOWN };

	first->stream = t->blocking;
	ASSERT_CU(cuEventCreate(&f.event, CU_EVENT_DISABLE_TIMING));
	ASSERT_CU(shut(t->blocking, t->gate));
	ASSERT_CU(cuLaunchHostFunc(t->blocking, record, &f));
	ASSERT_TRUE(call_start(first, t->ctx));
	ASSERT_TRUE(waits(first));
	ASSERT_CU(cuStreamWriteValue32(t->apart, t->gate, 1, 0));
	ASSERT_CU(call_end(first));
	ASSERT_CU(cuCtxSynchronize());
	EXPECT_TRUE(f.waited);
	EXPECT_EQ(CUDA_ERROR_NOT_PERMITTED, f.result);
	ASSERT_CU(cuEventDestroy(f.event));
}

WITH_THINGS(function)

TEST_F(function, before_parts)
{
	struct call first = { 0 };

	ASSERT_CU(parts_make(&first, 2 * STAGE));
	function_before(_metadata, &self->t, &first);
	EXPECT_TRUE(all_are(first.host, 7, first.bytes));
	ASSERT_CU(parts_free(&first));
}

TEST_F(function, before_a_full_ring)
{
	struct call first = { .fn = fill_number, .dst = self->t.buf, .times = RING_DEPTH + 50 };
	cuuint32_t last;

	function_before(_metadata, &self->t, &first);
	ASSERT_CU(cuMemcpyDtoH(&last, self->t.buf, sizeof(last)));
	EXPECT_EQ(first.times - 1, last);
}

/*
 * Without memory for staging the caller copies while a hold entry keeps its place in the stream:
 * after the gate, and before what other threads submit after the call began.
 */
TEST_F(function, turn)
{
	struct call first = {
		.fn = from_host, .stream = self->t.blocking, .dst = self->t.buf, .bytes = 2 * STAGE,
		.host = self->t.host,
	};
	struct changed limit;
	unsigned char got[2];
	CUdeviceptr p;

	ASSERT_CU(shut(self->t.blocking, self->t.gate));
	/* Neither the device nor the host has memory for staging. */
	ASSERT_TRUE(param_change(&limit, "pin_limit", 0));
	/* This gives the legacy stream its queue; there is no memory for one later. */
	ASSERT_CU(cuMemsetD8Async(self->t.out, 4, 1, CU_STREAM_LEGACY));
	while (!cuMemAlloc(&p, 16 * MIB))
		;
	while (!cuMemAlloc(&p, 2 * MIB))
		;
	memset(first.host, 3, first.bytes);
	ASSERT_TRUE(call_start(&first, self->t.ctx));
	/* In strict mode the library has some staging memory from the start. */
	EXPECT_TRUE(strict() || waits(&first));
	EXPECT_EQ(0, file_restore(&limit));
	if (strict())
		ASSERT_CU(call_end(&first));
	ASSERT_CU(cuMemcpyDtoDAsync(self->t.out, self->t.buf, 1, CU_STREAM_LEGACY));
	ASSERT_CU(cuMemsetD8Async(self->t.buf, 5, 1, CU_STREAM_LEGACY));
	ASSERT_CU(cuStreamWriteValue32(self->t.apart, self->t.gate, 1, 0));
	if (!strict())
		ASSERT_CU(call_end(&first));
	ASSERT_CU(cuCtxSynchronize());
	ASSERT_CU(cuMemcpyDtoH(got, self->t.out, 1));
	ASSERT_CU(cuMemcpyDtoH(got + 1, self->t.buf, 1));
	EXPECT_EQ(3, got[0]);
	EXPECT_EQ(5, got[1]);
}

/* --- streams that do not exclude each other */

FIXTURE(apart)
{
	CUcontext ctx;
	CUstream stream, other;
	CUdeviceptr buf;
};

FIXTURE_SETUP(apart)
{
	cuda_begin(_metadata, &self->ctx);
	ASSERT_CU(cuStreamCreate(&self->stream, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuStreamCreate(&self->other, CU_STREAM_DEFAULT));
	ASSERT_CU(cuMemAlloc(&self->buf, 2 * BYTES));
}

QUIET_AFTERWARDS(apart)

/* A thread does not wait for a copy in a stream that its own stream does not follow. */
static bool goes_on(CUdeviceptr buf, CUcontext holder, CUstream held, CUcontext ctx, CUstream stream)
{
	struct call first = { .fn = from_host, .stream = held, .dst = buf, .bytes = BYTES };
	struct call second = { .fn = fill, .stream = stream, .dst = buf + BYTES, .bytes = BYTES };
	struct hold hold;
	bool ok;

	if (!hold_make(&hold, BYTES))
		return false;
	first.host = hold.memory;
	ok = call_start(&first, holder) && hold_wait(&hold) && call_start(&second, ctx) &&
	     !call_end(&second) && !atomic_load(&first.done);
	if (!hold_end(&hold, 0xaa) || call_end(&first))
		ok = false;
	hold_free(&hold);
	return ok;
}

TEST_F(apart, not_held)
{
	CUcontext ctx = self->ctx, far;

	EXPECT_TRUE(goes_on(self->buf, ctx, self->stream, ctx, CU_STREAM_LEGACY));
	EXPECT_TRUE(goes_on(self->buf, ctx, CU_STREAM_LEGACY, ctx, self->stream));
	EXPECT_TRUE(goes_on(self->buf, ctx, self->stream, ctx, self->other));
	EXPECT_TRUE(goes_on(self->buf, ctx, self->other, ctx, self->stream));
	EXPECT_TRUE(goes_on(self->buf, ctx, self->other, ctx, CU_STREAM_PER_THREAD));
	/* Another context's legacy stream is another stream. */
	ASSERT_CU(cuCtxCreate(&far, NULL, 0, 0));
	EXPECT_TRUE(goes_on(self->buf, ctx, self->other, far, CU_STREAM_LEGACY));
	EXPECT_TRUE(goes_on(self->buf, far, CU_STREAM_LEGACY, ctx, self->other));
	ASSERT_CU(cuCtxDestroy(far));
}

/* --- many operations */

#define SIDES	2
#define PAIRS	3

/* A copy never sees a half-done fill of the other side. */
static CUresult fill_or_look(struct call *c)
{
	size_t bytes = c->value % 5 == 4 ? c->bytes : BYTES;
	unsigned char *seen = c->host;
	CUresult result;

	if (c->value % 2)
		return cuMemsetD8Async(c->dst, c->value, bytes, c->stream);
	result = cuMemcpyDtoDAsync(c->src, c->dst, bytes, c->stream);
	if (!result)
		result = cuMemcpyDtoHAsync(seen, c->src, bytes, c->stream);
	if (!result)
		result = cuStreamSynchronize(c->stream);
	if (!result && (!all_are(seen, seen[0], BYTES) ||
			!all_are(seen + BYTES, seen[BYTES], bytes - BYTES)))
		result = CUDA_ERROR_UNKNOWN;
	return result;
}

TEST_F(apart, nothing_half_done)
{
	struct call call[SIDES] = { 0 };
	const char *quick = getenv("GPUMEM_QUICK");

	for (int pair = 0; pair < PAIRS; pair++) {
		CUdeviceptr buf;

		ASSERT_CU(cuMemAlloc(&buf, STAGE));
		ASSERT_CU(cuMemsetD8(buf, 0, STAGE));
		for (int i = 0; i < SIDES; i++) {
			call[i] = (struct call) {
				.fn = fill_or_look, .dst = buf, .bytes = INLINE + BYTES,
				.stream = i ? self->other : CU_STREAM_LEGACY,
				.host = malloc(STAGE), .times = quick ? 100 : 300,
			};
			ASSERT_NE(NULL, call[i].host);
			ASSERT_CU(cuMemAlloc(&call[i].src, STAGE));
		}
		for (int i = 0; i < SIDES; i++)
			ASSERT_TRUE(call_start(&call[i], self->ctx));
		for (int i = 0; i < SIDES; i++) {
			EXPECT_CU(call_end(&call[i]));
			free(call[i].host);
			ASSERT_CU(cuMemFree(call[i].src));
		}
		ASSERT_CU(cuMemFree(buf));
	}
}

TEST_HARNESS_MAIN
