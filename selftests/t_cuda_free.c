// SPDX-License-Identifier: GPL-2.0
/*
 * What freeing memory waits for: all work of the context that owns it, and copies of other contexts
 * that read it; not other work of other contexts and devices.
 *
 * Work waits at a gate: an entry that waits for a word that the test has not written.  A free that
 * must not wait is called while the gate is closed: if it waits, the harness's alarm ends the case.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "kselftest_harness.h"
#include "cuda_util.h"

#define NAP_MS	60
#define BYTES	(4 * MIB)
#define SIDE	1024		/* an array of as many bytes has 4-byte elements, squared */

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

	ASSERT_TRUE(dev_quiet(10));
	ASSERT_CU(cuda_start(&self->ctx));
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

FIXTURE_TEARDOWN_PARENT(free_waits)
{
	EXPECT_TRUE(dev_quiet(10));
}

static CUresult gate(CUstream stream, cuuint32_t *word)
{
	__atomic_store_n(word, 0, __ATOMIC_RELEASE);
	return cuStreamWaitValue32(stream, (uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_GEQ);
}

static void open_gate(cuuint32_t *word)
{
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
}

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

/* Copy the memory, or over it, in a stream. */
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
	atomic_int started, done;
};

static void *freer_main(void *arg)
{
	struct freer *f = arg;

	atomic_store(&f->started, 1);
	f->result = give(f->kind, f->p);
	atomic_store(&f->done, 1);
	return NULL;
}

static bool freer_start(struct freer *f)
{
	return !pthread_create(&f->thread, NULL, freer_main, f);
}

/* Whether the free returned when the gate was open, and not before. */
static bool waited(struct freer *f, cuuint32_t *word)
{
	bool early;

	while (!atomic_load(&f->started))
		usleep(1000);
	usleep(NAP_MS * 1000);
	early = atomic_load(&f->done);
	open_gate(word);
	pthread_join(f->thread, NULL);
	return !early && !f->result;
}

TEST_F(free_waits, not_for_other_contexts)
{
	ASSERT_CU(gate(self->stream[1], self->word));
	ASSERT_CU(gate(self->stream[2], self->word));
	for (enum kind kind = 0; kind < KINDS; kind++) {
		CUdeviceptr p;

		ASSERT_CU(take(kind, &p));
		EXPECT_CU(give(kind, p));
	}
	open_gate(self->word);
}

TEST_F(free_waits, for_the_owner)
{
	CUcontext *ctx = &self->ctx;

	for (int i = 0; i < 3; i++) {
		for (enum kind kind = 0; kind < KINDS; kind++) {
			struct freer f = { .kind = kind };

			ASSERT_CU(cuCtxSetCurrent(ctx[i]));
			ASSERT_CU(take(kind, &f.p));
			/* Which context is current does not matter, nor that there is one. */
			ASSERT_CU(cuCtxSetCurrent(self->ctx));
			ASSERT_CU(gate(self->stream[i], self->word));
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
			ASSERT_CU(gate(self->stream[i], self->word));
			ASSERT_CU(copy(kind, f.p, self->buf[i], true, self->stream[i]));
			ASSERT_TRUE(freer_start(&f));
			EXPECT_TRUE(waited(&f, self->word))
				TH_LOG("kind %d, read by context %d", kind, i);
			EXPECT_CU(cuStreamSynchronize(self->stream[i]));
		}
	}
}

/* The copies read other memory, or write. */
TEST_F(free_waits, not_for_other_copies)
{
	CUdeviceptr p, q;

	ASSERT_CU(cuMemAlloc(&p, BYTES));
	ASSERT_CU(cuMemAlloc(&q, BYTES));
	ASSERT_CU(gate(self->stream[1], self->word));
	ASSERT_CU(copy(DEVICE, q, self->buf[1], true, self->stream[1]));
	EXPECT_CU(cuMemFree(p));
	ASSERT_CU(cuMemAlloc(&p, BYTES));
	ASSERT_CU(copy(DEVICE, p, self->buf[1], false, self->stream[1]));
	EXPECT_CU(cuMemFree(p));
	open_gate(self->word);
	/* The copy over memory that is gone is the other context's mistake. */
	EXPECT_EQ(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize_v2(self->same));
	EXPECT_CU(cuCtxSynchronize());
	EXPECT_CU(cuMemFree(q));
	EXPECT_CU(cuCtxDestroy(self->same));
}

TEST_HARNESS_MAIN
