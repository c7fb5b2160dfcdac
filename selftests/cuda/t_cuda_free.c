// SPDX-License-Identifier: GPL-2.0
/*
 * A free waits for all work of the context that owns the memory, and for copies of other contexts
 * that read it; not for other work of other contexts and devices.
 *
 * Work waits at a gate: an entry that waits for a word that the test has not written.  A free that
 * must not wait is called while the gate is closed: if it waits, the harness's alarm ends the case.
 * The gate of a free that must wait is opened when its thread is seen in the system call that
 * waits.
 *
 * A free whose wait is refused frees nothing; a free after failed work does.
 */
#include <errno.h>

#include "kselftest_harness.h"
#include "cuda_case_util.h"
#include "deny_util.h"

#define BYTES	(4 * MIB)
#define SIDE	1024		/* SIDE x SIDE elements of 4 bytes are BYTES */

enum kind { DEVICE, SMALL, HOST, MANAGED, ARRAY, KINDS };

FIXTURE(free_waits)
{
	CUcontext ctx, same, other;	/* of devices 0, which is current, 0 and 1 */
	CUstream stream[3];		/* of each context, NON_BLOCKING */
	CUdeviceptr buf[3];		/* BYTES of each */
	cuuint32_t *word;
};

FIXTURE_SETUP(free_waits)
{
	CUcontext *ctx = &self->ctx;

	cuda_begin(_metadata, &self->ctx);
	ASSERT_CU(cuMemHostAlloc((void **)&self->word, 4 * KIB, CU_MEMHOSTALLOC_PORTABLE));
	*self->word = 0;
	ASSERT_CU(cuCtxCreate(&self->same, NULL, 0, 0));
	ASSERT_CU(cuCtxCreate(&self->other, NULL, 0, 1));
	for (int i = 0; i < 3; i++) {
		ASSERT_CU(cuCtxSetCurrent(ctx[i]));
		ASSERT_CU(cuStreamCreate(&self->stream[i], CU_STREAM_NON_BLOCKING));
		ASSERT_CU(cuMemAlloc(&self->buf[i], BYTES));
	}
	ASSERT_CU(cuCtxSetCurrent(self->other));
	ASSERT_CU(cuCtxEnablePeerAccess(self->ctx, 0));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
}

QUIET_AFTERWARDS(free_waits)

static CUresult take(enum kind kind, CUdeviceptr *p)
{
	const CUDA_ARRAY_DESCRIPTOR desc = {
		.Width = SIDE, .Height = SIDE, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1,
	};

	switch (kind) {
	case DEVICE:
		return cuMemAlloc(p, BYTES);
	case SMALL:
		return cuMemAlloc(p, 4 * KIB);
	case HOST:
		return cuMemHostAlloc((void **)p, BYTES, 0);
	case MANAGED:
		return cuMemAllocManaged(p, BYTES, CU_MEM_ATTACH_GLOBAL);
	default:
		return cuArrayCreate((CUarray *)p, &desc);
	}
}

static CUresult give(enum kind kind, CUdeviceptr p)
{
	return kind == HOST ? cuMemFreeHost((void *)(uintptr_t)p) :
		kind == ARRAY ? cuArrayDestroy((CUarray)(uintptr_t)p) : cuMemFree(p);
}

/* Copy from the memory or, unless it is an array, over it, in a stream. */
static CUresult copy(enum kind kind, CUdeviceptr p, CUdeviceptr buf, bool reads, CUstream stream)
{
	size_t bytes = kind == SMALL ? 4 * KIB : BYTES;
	CUDA_MEMCPY2D box = {
		.srcMemoryType = CU_MEMORYTYPE_ARRAY, .srcArray = (CUarray)(uintptr_t)p,
		.dstMemoryType = CU_MEMORYTYPE_DEVICE, .dstDevice = buf, .dstPitch = 4 * SIDE,
		.WidthInBytes = 4 * SIDE, .Height = SIDE,
	};

	if (kind == ARRAY)
		return cuMemcpy2DAsync(&box, stream);
	return reads ? cuMemcpyAsync(buf, p, bytes, stream) : cuMemcpyAsync(p, buf, bytes, stream);
}

struct freer {
	pthread_t thread;
	enum kind kind;
	CUdeviceptr p;
	CUresult result;
	atomic_int tid, done;
};

static void *freer_main(void *arg)
{
	struct freer *f = arg;

	atomic_store(&f->tid, (int)syscall(SYS_gettid));
	f->result = give(f->kind, f->p);
	atomic_store(&f->done, 1);
	return NULL;
}

static bool freer_start(struct freer *f)
{
	return !pthread_create(&f->thread, NULL, freer_main, f);
}

/* Whether the free waited until the gate was open. */
static bool waited(struct freer *f, cuuint32_t *word)
{
	bool slept = false;
	int tid;

	while (!atomic_load(&f->done) && !slept) {
		tid = atomic_load(&f->tid);
		slept = tid && sleeps_in_wait(tid);
		usleep(1000);
	}
	/* A free that is done slept for something else than the gate. */
	slept = slept && !atomic_load(&f->done);
	gate_open(word);
	pthread_join(f->thread, NULL);
	return slept && !f->result;
}

TEST_F(free_waits, not_for_other_contexts)
{
	ASSERT_CU(gate_put(self->stream[1], self->word));
	ASSERT_CU(gate_put(self->stream[2], self->word));
	for (enum kind kind = 0; kind < KINDS; kind++) {
		CUdeviceptr p;

		ASSERT_CU(take(kind, &p));
		EXPECT_CU(give(kind, p));
	}
	gate_open(self->word);
}

TEST_F(free_waits, for_the_owner)
{
	CUcontext *ctx = &self->ctx;

	for (int i = 0; i < 3; i++) {
		for (enum kind kind = 0; kind < KINDS; kind++) {
			struct freer f = { .kind = kind };

			ASSERT_CU(cuCtxSetCurrent(ctx[i]));
			ASSERT_CU(take(kind, &f.p));
			/* Which context is current does not matter: the freeing thread has none. */
			ASSERT_CU(cuCtxSetCurrent(self->ctx));
			ASSERT_CU(gate_put(self->stream[i], self->word));
			ASSERT_TRUE(freer_start(&f));
			EXPECT_TRUE(waited(&f, self->word))
				TH_LOG("kind %d of context %d", kind, i);
		}
	}
}

TEST_F(free_waits, for_readers)
{
	for (int i = 1; i < 3; i++) {
		for (enum kind kind = 0; kind < KINDS; kind++) {
			struct freer f = { .kind = kind };

			if (kind == ARRAY && i == 2)
				continue;
			ASSERT_CU(take(kind, &f.p));
			ASSERT_CU(gate_put(self->stream[i], self->word));
			ASSERT_CU(copy(kind, f.p, self->buf[i], true, self->stream[i]));
			ASSERT_TRUE(freer_start(&f));
			EXPECT_TRUE(waited(&f, self->word))
				TH_LOG("kind %d, read by context %d", kind, i);
			EXPECT_CU(cuStreamSynchronize(self->stream[i]));
		}
	}
}

/* A free does not wait for other contexts' copies that read other memory, or that write. */
TEST_F(free_waits, not_for_other_copies)
{
	CUdeviceptr p, q;

	ASSERT_CU(cuMemAlloc(&p, BYTES));
	ASSERT_CU(cuMemAlloc(&q, BYTES));
	ASSERT_CU(gate_put(self->stream[1], self->word));
	ASSERT_CU(copy(DEVICE, q, self->buf[1], true, self->stream[1]));
	EXPECT_CU(cuMemFree(p));
	ASSERT_CU(cuMemAlloc(&p, BYTES));
	ASSERT_CU(copy(DEVICE, p, self->buf[1], false, self->stream[1]));
	EXPECT_CU(cuMemFree(p));
	gate_open(self->word);
	/* The copy over the freed memory makes the other context fail. */
	EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize_v2(self->same));
	EXPECT_CU(cuCtxSynchronize());
	EXPECT_CU(cuMemFree(q));
	EXPECT_CU(cuCtxDestroy(self->same));
}

/* ---- waits that fail */

static bool alive(enum kind kind, CUdeviceptr p)
{
	CUDA_ARRAY_DESCRIPTOR desc;
	CUmemorytype type;

	return kind == ARRAY ? !cuArrayGetDescriptor(&desc, (CUarray)(uintptr_t)p) :
		!cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p);
}

/* If the wait itself fails for lack of memory, nothing is freed: queued work may still use it. */
TEST_F(free_waits, refused)
{
	unsigned char *registered = malloc(BYTES);
	CUdeviceptr p[KINDS];
	unsigned char byte;
	CUresult result;

	ASSERT_NE(NULL, registered);
	ASSERT_CU(cuMemHostRegister(registered, BYTES, 0));
	for (enum kind kind = 0; kind < KINDS; kind++)
		ASSERT_CU(take(kind, &p[kind]));
	ASSERT_CU(gate_put(self->stream[0], self->word));
	ASSERT_CU(cuMemsetD8Async(p[DEVICE], 7, BYTES, self->stream[0]));
	ASSERT_CU(cuMemsetD8Async((uintptr_t)registered, 8, BYTES, self->stream[0]));
	ASSERT_TRUE(deny_call_with(SYS_ioctl, 1, GPUMEM_TIMELINE_WAIT, ENOMEM));
	for (int i = 0; i < 2; i++) {
		for (enum kind kind = 0; kind < KINDS; kind++) {
			EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, give(kind, p[kind])) {
				TH_LOG("kind %d", kind);
			}
			EXPECT_TRUE(alive(kind, p[kind])) {
				TH_LOG("kind %d", kind);
			}
		}
		EXPECT_EQ(CUDA_ERROR_OUT_OF_MEMORY, cuMemHostUnregister(registered));
	}
	gate_open(self->word);
	while ((result = cuStreamQuery(self->stream[0])) == CUDA_ERROR_NOT_READY)
		usleep(1000);
	ASSERT_CU(result);
	/* The work found its memory, and nothing is left to wait for. */
	EXPECT_CU(cuMemcpyDtoH(&byte, p[DEVICE] + BYTES - 1, 1));
	EXPECT_EQ(7, byte);
	EXPECT_EQ(8, registered[BYTES - 1]);
	for (enum kind kind = 0; kind < KINDS; kind++) {
		EXPECT_CU(give(kind, p[kind]));
		EXPECT_FALSE(alive(kind, p[kind]));
	}
	EXPECT_CU(cuMemHostUnregister(registered));
	free(registered);
}

struct inside {
	CUdeviceptr p;
	CUresult result;
	atomic_int done;
};

static void free_inside(void *arg)
{
	struct inside *in = arg;

	in->result = give(DEVICE, in->p);
	atomic_store(&in->done, 1);
}

/* A host function may not free at all: later work in its stream may use the memory. */
TEST_F(free_waits, refused_in_a_host_function)
{
	struct inside in = { .done = 0 };
	unsigned char byte;

	ASSERT_CU(take(DEVICE, &in.p));
	ASSERT_CU(gate_put(self->stream[0], self->word));
	ASSERT_CU(cuLaunchHostFunc(self->stream[0], free_inside, &in));
	ASSERT_CU(cuMemsetD8Async(in.p, 9, BYTES, self->stream[0]));
	gate_open(self->word);
	ASSERT_CU(cuStreamSynchronize(self->stream[0]));
	EXPECT_EQ(1, atomic_load(&in.done));
	EXPECT_EQ(CUDA_ERROR_NOT_PERMITTED, in.result);
	EXPECT_CU(cuMemcpyDtoH(&byte, in.p, 1));
	EXPECT_EQ(9, byte);
	EXPECT_CU(cuMemFree(in.p));
}

/* Failed work has ended: a free returns the error, and frees the memory. */
TEST_F(free_waits, after_failed_work)
{
	CUdeviceptr p[KINDS], hole;
	CUresult result;

	for (enum kind kind = 0; kind < KINDS; kind++)
		ASSERT_CU(take(kind, &p[kind]));
	ASSERT_CU(cuCtxSetCurrent(self->same));
	ASSERT_CU(cuMemAlloc(&hole, BYTES));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	ASSERT_CU(gate_put(self->stream[0], self->word));
	/* Another context's free does not wait for work that writes. */
	ASSERT_CU(cuMemsetD8Async(hole, 1, BYTES, self->stream[0]));
	ASSERT_CU(cuMemFree(hole));
	gate_open(self->word);
	for (enum kind kind = 0; kind < KINDS; kind++) {
		result = give(kind, p[kind]);
		EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, result) {
			TH_LOG("kind %d", kind);
		}
		EXPECT_FALSE(alive(kind, p[kind])) {
			TH_LOG("kind %d", kind);
		}
	}
}

#define BLOCKS	200		/* of a pool */

/* A context whose work fails. */
struct doomed {
	CUcontext ctx;
	CUstream stream;
	CUdeviceptr p, hole, block[BLOCKS];
};

static CUresult doomed_make(struct doomed *d, enum kind kind, CUcontext other)
{
	CUresult result = cuCtxSetCurrent(other);

	if (!result)
		result = cuMemAlloc(&d->hole, BYTES);
	if (!result)
		result = cuCtxCreate(&d->ctx, NULL, 0, 0);
	if (!result)
		result = cuStreamCreate(&d->stream, CU_STREAM_NON_BLOCKING);
	for (int i = 0; kind == KINDS && !result && i < BLOCKS; i++)
		result = cuMemAllocAsync(&d->block[i], 4 * KIB, d->stream);
	return result || kind == KINDS ? result : take(kind, &d->p);
}

static CUresult doomed_fail(struct doomed *d, cuuint32_t *word)
{
	CUresult result = cuCtxSetCurrent(d->ctx);

	*word = 0;
	if (!result)
		result = gate_put(d->stream, word);
	if (!result)
		result = cuMemsetD8Async(d->hole, 1, BYTES, d->stream);
	if (!result)
		result = cuMemFree(d->hole);
	gate_open(word);
	return result;
}

/*
 * No call has returned the error of the work, which ended before the free began: a wait would be refused. A free of a
 * pool's memory never waits.
 */
TEST_F(free_waits, long_after_failed_work)
{
	struct doomed doomed[KINDS + 1], *d = doomed;
	__u64 end = in_seconds(60);
	CUresult result;
	int blocks = 0;

	for (enum kind kind = 0; kind <= KINDS; kind++)
		ASSERT_CU(doomed_make(&doomed[kind], kind, self->same));
	ASSERT_TRUE(deny_call_with(SYS_ioctl, 1, GPUMEM_TIMELINE_WAIT, ENOMEM));
	for (enum kind kind = 0; kind < KINDS; kind++, d++) {
		ASSERT_CU(doomed_fail(d, self->word));
		while ((result = give(kind, d->p)) == CUDA_ERROR_OUT_OF_MEMORY && mono_ns() < end)
			usleep(1000);
		EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, result) {
			TH_LOG("kind %d", kind);
		}
		EXPECT_FALSE(alive(kind, d->p)) {
			TH_LOG("kind %d", kind);
		}
	}
	ASSERT_CU(doomed_fail(d, self->word));
	do {
		usleep(20000);
		result = cuMemFree(d->block[blocks]);
	} while (!result && ++blocks < BLOCKS);
	EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, result);
	/* With another context current, its error counts. */
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_CU(cuMemFree(d->block[BLOCKS - 1]));
}

TEST_HARNESS_MAIN
