// SPDX-License-Identifier: GPL-2.0
/*
 * Tests streams by the CUDA API: which streams wait for which, what a call waits for while another
 * thread queues, work that outlives its stream, many threads, and contexts that end.  t_cuda_event.c
 * tests events, t_cuda_failure.c failed work.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#include "kselftest_harness.h"
#include "cuda_stream_fixture.h"

CUDA_STREAM_FIXTURE(stream)

/* --- handles */

TEST_F(stream, create)
{
	unsigned long long id, other;
	CUstream s = (CUstream)77;
	int priority, least, greatest;
	unsigned int flags;
	CUcontext ctx;

	EXPECT_EQ(INVALID, cuStreamCreate(&s, 2));
	EXPECT_EQ(INVALID, cuStreamCreate(NULL, 0));
	EXPECT_EQ(INVALID, cuStreamCreateWithPriority(&s, 4, 0));
	EXPECT_EQ((CUstream)77, s);
	EXPECT_CU(cuCtxGetStreamPriorityRange(&least, &greatest));
	EXPECT_EQ(0, least);
	EXPECT_EQ(-5, greatest);
	for (int i = -8; i < 4; i++) {
		ASSERT_CU(cuStreamCreateWithPriority(&s, i & 1, i));
		EXPECT_CU(cuStreamGetPriority(s, &priority));
		EXPECT_EQ(i < -5 ? -5 : i > 0 ? 0 : i, priority);
		EXPECT_CU(cuStreamGetFlags(s, &flags));
		EXPECT_EQ(i & 1, flags);
		EXPECT_CU(cuStreamGetCtx(s, &ctx));
		EXPECT_EQ(self->ctx, ctx);
		EXPECT_CU(cuStreamGetId(s, &id));
		EXPECT_CU(cuStreamGetId(self->a, &other));
		EXPECT_NE(0, id);
		EXPECT_NE(other, id);
		EXPECT_EQ(INVALID, cuStreamGetFlags(s, NULL));
		EXPECT_CU(cuStreamQuery(s));
		EXPECT_CU(cuStreamSynchronize(s));
		EXPECT_CU(cuStreamDestroy(s));
		EXPECT_EQ(BAD_HANDLE, cuStreamDestroy(s));
		EXPECT_EQ(BAD_HANDLE, cuStreamQuery(s));
		EXPECT_EQ(BAD_HANDLE, cuStreamSynchronize(s));
		EXPECT_EQ(BAD_HANDLE, cuStreamGetFlags(s, &flags));
	}
	EXPECT_EQ(BAD_HANDLE, cuStreamDestroy(NULL));
	EXPECT_EQ(BAD_HANDLE, cuStreamDestroy(CU_STREAM_LEGACY));
	EXPECT_EQ(BAD_HANDLE, cuStreamDestroy(CU_STREAM_PER_THREAD));
	EXPECT_EQ(BAD_HANDLE, cuStreamQuery((CUstream)3));
	EXPECT_CU(cuStreamGetFlags(NULL, &flags));
	EXPECT_EQ(0, flags);
	EXPECT_CU(cuStreamGetCtx(CU_STREAM_PER_THREAD, &ctx));
	EXPECT_EQ(self->ctx, ctx);
	EXPECT_CU(cuStreamGetId(NULL, &id));
	EXPECT_CU(cuStreamGetId(CU_STREAM_LEGACY, &other));
	EXPECT_EQ(id, other);
	EXPECT_CU(cuStreamGetId(CU_STREAM_PER_THREAD, &other));
	EXPECT_NE(id, other);
	EXPECT_CU(cuStreamGetId_ptsz(NULL, &id));
	EXPECT_EQ(id, other);
	ASSERT_CU(cuCtxSetCurrent(NULL));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuStreamCreate(&s, 0));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuStreamQuery(NULL));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuStreamSynchronize(CU_STREAM_PER_THREAD));
	EXPECT_EQ(CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize());
	EXPECT_CU(cuStreamQuery(self->a));
	EXPECT_CU(cuStreamSynchronize(self->a));
	EXPECT_CU(cuStreamDestroy(self->a));
}

/* The kernel's streams are reused when streams are destroyed, and streams have no descriptors. */
TEST_F(stream, recycled)
{
	struct gpumem_stats before, after;
	int fds = count_fds();

	EXPECT_CU(cuMemsetD8Async(self->p, 1, 1, self->a));
	EXPECT_CU(cuCtxSynchronize());
	ASSERT_EQ(0, client_stats(&before));
	EXPECT_LT(0, before.streams);
	for (int i = 0; i < 500; i++) {
		CUstream s;

		ASSERT_CU(cuStreamCreate(&s, i & 1));
		ASSERT_CU(cuMemsetD8Async(self->p + i, i, 1, s));
		ASSERT_CU(cuStreamSynchronize(s));
		ASSERT_CU(cuStreamDestroy(s));
		ASSERT_EQ((unsigned char)i, *view(self->p + i, 1));
	}
	ASSERT_EQ(0, client_stats(&after));
	EXPECT_LE(after.streams, before.streams + 1);
	EXPECT_EQ(fds, count_fds());
}

/* --- order */

/* Whether work in @second runs after work in @first; the engine executes both. */
static bool held_by(struct __test_metadata *_metadata, FIXTURE_DATA(stream) *self, CUstream first,
		    CUstream second)
{
	CUresult busy = load_put_busy(&self->load, first), then;

	EXPECT_EQ(NOT_READY, busy);
	EXPECT_CU(cuMemsetD8Async(self->p, 1, 16, first));
	EXPECT_CU(cuMemcpyDtoDAsync(self->p + 4096, self->p, 16, second));
	then = cuStreamSynchronize(second);
	EXPECT_CU(then);
	return load_done(&self->load) && sees(self->p + 4096, 1, 16);
}

/* Whether @second is done while @first still has its load, in one of several tries. */
static bool not_held_by(struct __test_metadata *_metadata, FIXTURE_DATA(stream) *self,
			CUstream first, CUstream second)
{
	for (int i = 0; i < TRIES; i++) {
		CUresult busy = load_put_busy(&self->load, first);

		EXPECT_EQ(NOT_READY, busy);
		EXPECT_CU(cuMemsetD8Async(self->p + 8192, i + 1, 16, second));
		EXPECT_CU(cuStreamSynchronize(second));
		EXPECT_TRUE(sees(self->p + 8192, i + 1, 16));
		busy = cuStreamQuery(first);
		EXPECT_CU(cuCtxSynchronize());
		if (busy == NOT_READY)
			return true;
	}
	return false;
}

#define HELD(first, second)	EXPECT_TRUE(held_by(_metadata, self, first, second))
#define NOT_HELD(first, second)	EXPECT_TRUE(not_held_by(_metadata, self, first, second))

TEST_F_TIMEOUT(stream, legacy_order, 120)
{
	HELD(self->a, NULL);
	HELD(self->a, CU_STREAM_LEGACY);
	HELD(NULL, self->a);
	HELD(CU_STREAM_PER_THREAD, NULL);
	HELD(CU_STREAM_LEGACY, CU_STREAM_PER_THREAD);
	HELD(self->a, self->a);
	HELD(self->free, self->free);
	/* Two blocking streams are ordered by work of the legacy stream between them. */
	ASSERT_EQ(NOT_READY, load_put_busy(&self->load, self->a));
	EXPECT_CU(cuMemsetD8Async(self->p, 9, 16, NULL));
	EXPECT_CU(cuMemcpyDtoDAsync(self->p + 4096, self->p, 16, self->b));
	EXPECT_CU(cuStreamSynchronize(self->b));
	EXPECT_TRUE(load_done(&self->load));
	EXPECT_TRUE(sees(self->p + 4096, 9, 16));
}

TEST_F_TIMEOUT(stream, independent, 120)
{
	NOT_HELD(self->a, self->b);
	NOT_HELD(self->a, self->free);
	NOT_HELD(self->free, self->a);
	NOT_HELD(self->free, NULL);
	NOT_HELD(NULL, self->free);
	NOT_HELD(self->a, CU_STREAM_PER_THREAD);
	NOT_HELD(CU_STREAM_PER_THREAD, self->a);
}

/* Functions without a stream argument belong to the legacy stream. */
TEST_F(stream, synchronous_calls)
{
	unsigned char out[16];

	ASSERT_EQ(NOT_READY, load_put_busy(&self->load, self->a));
	EXPECT_CU(cuMemsetD8Async(self->p, 5, 16, self->a));
	EXPECT_CU(cuMemcpyDtoH(out, self->p, 16));
	EXPECT_TRUE(load_done(&self->load));
	EXPECT_TRUE(all_are(out, 5, 16));
	/* cuMemsetD8() and cuMemcpyDtoD() on device memory return before the work has run. */
	for (int i = 0; i < TRIES; i++) {
		CUresult busy;

		ASSERT_EQ(NOT_READY, load_put_busy(&self->load, self->a));
		EXPECT_CU(cuMemsetD8(self->p, 6 + i, 16));
		EXPECT_CU(cuMemcpyDtoD(self->p + 64, self->p, 16));
		busy = cuStreamQuery(NULL);
		EXPECT_CU(cuStreamSynchronize(NULL));
		EXPECT_TRUE(sees(self->p + 64, 6 + i, 16));
		if (busy == NOT_READY)
			return;
	}
	EXPECT_TRUE(false) { TH_LOG("cuMemcpyDtoD() was never seen to return early"); }
}

/* The ptds and ptsz forms mean the thread's own stream. */
TEST_F(stream, own_stream)
{
	unsigned char out[16];

	ASSERT_EQ(NOT_READY, load_put_busy(&self->load, CU_STREAM_PER_THREAD));
	EXPECT_EQ(NOT_READY, cuStreamQuery_ptsz(NULL));
	EXPECT_EQ(NOT_READY, cuStreamQuery(NULL));
	EXPECT_CU(cuMemsetD8_v2_ptds(self->p, 5, 16));
	EXPECT_CU(cuMemcpyDtoH_v2_ptds(out, self->p, 16));
	EXPECT_TRUE(all_are(out, 5, 16));
	EXPECT_TRUE(load_done(&self->load));
	/* The legacy stream holds the thread's own stream; another blocking stream does not. */
	ASSERT_EQ(NOT_READY, load_put_busy(&self->load, NULL));
	EXPECT_CU(cuMemcpyDtoH_v2_ptds(out, self->p, 16));
	EXPECT_TRUE(load_done(&self->load));
	for (int i = 0; i < TRIES; i++) {
		CUresult busy;

		ASSERT_EQ(NOT_READY, load_put_busy(&self->load, self->a));
		EXPECT_CU(cuMemcpyDtoH_v2_ptds(out, self->p, 16));
		busy = cuStreamQuery(self->a);
		EXPECT_CU(cuCtxSynchronize());
		if (busy == NOT_READY)
			return;
	}
	EXPECT_TRUE(false) { TH_LOG("the thread's stream was always held"); }
}

/* More entries than a ring has, behind a load: none is lost, and their order is kept. */
TEST_F(stream, ring_full)
{
	enum { N = RING_DEPTH + 1000, WORDS = 64 };
	const unsigned int *words;

	ASSERT_EQ(NOT_READY, load_put_busy(&self->load, self->free));
	for (unsigned int i = 0; i < N; i++) {
		ASSERT_CU(cuMemsetD32Async(self->p + i % WORDS * 4, i, 1, self->free));
	}
	EXPECT_CU(cuStreamSynchronize(self->free));
	EXPECT_TRUE(load_done(&self->load));
	words = (const unsigned int *)view(self->p, WORDS * 4);
	for (unsigned int i = 0; i < WORDS; i++) {
		EXPECT_EQ(N - 1 - (N - 1 - i) % WORDS, words[i]);
	}
}

TEST_F(stream, destroyed_with_work)
{
	CUstream s;

	for (int i = 0; i < 3; i++) {
		ASSERT_CU(cuStreamCreate(&s, i == 1 ? CU_STREAM_NON_BLOCKING : 0));
		ASSERT_EQ(NOT_READY, load_put_busy(&self->load, s));
		EXPECT_CU(cuMemsetD8Async(self->p, 3 + i, MIB, s));
		EXPECT_CU(cuStreamDestroy(s));
		if (i < 2) {
			EXPECT_CU(cuCtxSynchronize());
		} else
			EXPECT_CU(cuStreamSynchronize(NULL));
		EXPECT_TRUE(load_done(&self->load));
		EXPECT_TRUE(sees(self->p, 3 + i, MIB));
	}
}

/*
 * The legacy stream waits for more streams than one queue can wait for.  Its work is held, but the
 * calling thread is not.
 */
TEST_F_TIMEOUT(stream, hundreds_hold, 240)
{
	enum { N = 300 };
	static unsigned char out[2 * N * 64];
	static CUstream s[N];
	CUdeviceptr p;
	CUevent all;
	__u32 *word;

	ASSERT_CU(cuMemAlloc(&p, sizeof(out)));
	ASSERT_CU(cuMemHostAlloc((void **)&word, 4096, 0));
	*word = 0;
	ASSERT_CU(cuEventCreate(&all, CU_EVENT_DISABLE_TIMING));
	for (int i = 0; i < N; i++) {
		ASSERT_CU(cuStreamCreate(&s[i], CU_STREAM_DEFAULT));
		ASSERT_CU(cuStreamWaitValue32(s[i], (uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ));
		ASSERT_CU(cuMemsetD8Async(p + i * 64, 1 + i % 200, 64, s[i]));
	}
	EXPECT_CU(cuCtxRecordEvent(self->ctx, all));
	EXPECT_CU(cuMemcpyDtoDAsync(p + N * 64, p, N * 64, CU_STREAM_LEGACY));
	EXPECT_CU(cuMemsetD8Async(p, 255, N * 64, CU_STREAM_LEGACY));
	/* Then fills in half of the streams and a fill in the legacy stream, five times in turn. */
	for (int round = 1; round < 6; round++) {
		for (int i = 0; i < N; i += 2)
			EXPECT_CU(cuMemsetD8Async(p + i * 64, round, 32, s[i]));
		EXPECT_CU(cuMemsetD8Async(p, 255, N * 64, CU_STREAM_LEGACY));
	}
	for (int i = 0; i < N; i += 7)
		EXPECT_CU(cuMemsetD8Async(p + i * 64, 254, 32, s[i]));
	EXPECT_EQ(NOT_READY, cuStreamQuery(CU_STREAM_LEGACY));
	EXPECT_EQ(NOT_READY, cuEventQuery(all));
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
	EXPECT_CU(cuCtxSynchronize());
	EXPECT_CU(cuEventQuery(all));
	EXPECT_CU(cuMemcpyDtoH(out, p, sizeof(out)));
	for (int i = 0; i < N; i++) {
		EXPECT_TRUE(all_are(out + (N + i) * 64, 1 + i % 200, 64));
		EXPECT_TRUE(all_are(out + i * 64, i % 7 ? 255 : 254, 32));
		EXPECT_TRUE(all_are(out + i * 64 + 32, 255, 32));
		EXPECT_CU(cuStreamDestroy(s[i]));
	}
	EXPECT_CU(cuEventDestroy(all));
	EXPECT_CU(cuMemFreeHost(word));
	EXPECT_CU(cuMemFree(p));
}

/* --- threads */

struct worker {
	pthread_t thread;
	CUcontext ctx;
	CUdeviceptr p;
	CUstream shared;
	unsigned int number;
	unsigned long long own_id;
	int failed;		/* line */
};

#define WORD(w, i)	((w)->p + (w)->number * 4096 + (i) * 4)

static void *work(void *arg)
{
	struct worker *w = arg;
	unsigned int out[4];
	CUstream own;
	CUevent e;

	WORKER_CHECK(!cuCtxSetCurrent(w->ctx));
	WORKER_CHECK(!cuStreamGetId(CU_STREAM_PER_THREAD, &w->own_id));
	WORKER_CHECK(!cuEventCreate(&e, w->number & 1 ? CU_EVENT_DISABLE_TIMING : 0));
	for (unsigned int i = 0; i < 150; i++) {
		unsigned int value = w->number << 16 | i;
		CUdeviceptr mem;

		WORKER_CHECK(!cuStreamCreate(&own, i & 1));
		WORKER_CHECK(!cuMemAlloc(&mem, 5000));
		WORKER_CHECK(sees(mem, 0, 5000));
		/* A new stream, the thread's stream and the shared stream, ordered by events. */
		WORKER_CHECK(!cuMemsetD32Async(WORD(w, 0), value, 4, own));
		WORKER_CHECK(!cuEventRecord(e, own));
		WORKER_CHECK(!cuStreamWaitEvent(CU_STREAM_PER_THREAD, e, 0));
		WORKER_CHECK(!cuMemcpyDtoDAsync(WORD(w, 8), WORD(w, 0), 16, CU_STREAM_PER_THREAD));
		WORKER_CHECK(!cuEventRecord(e, CU_STREAM_PER_THREAD));
		WORKER_CHECK(!cuStreamWaitEvent(w->shared, e, 0));
		WORKER_CHECK(!cuMemcpyDtoDAsync(WORD(w, 16), WORD(w, 8), 16, w->shared));
		WORKER_CHECK(!cuMemcpyDtoHAsync(out, WORD(w, 16), 16, w->shared));
		WORKER_CHECK(out[0] == value && out[3] == value);
		WORKER_CHECK(!cuMemsetD8_v2_ptds(mem, i, 5000));
		if (i % 16 == 0) {
			WORKER_CHECK(!cuMemcpyDtoD(WORD(w, 24), WORD(w, 16), 16));
			WORKER_CHECK(!cuMemcpyDtoH(out, WORD(w, 24), 16));
			WORKER_CHECK(out[1] == value && out[2] == value);
		}
		WORKER_CHECK(!cuStreamDestroy(own));
		WORKER_CHECK(!cuMemFree(mem));
	}
	WORKER_CHECK(!cuEventDestroy(e));
	return NULL;
}

TEST_F_TIMEOUT(stream, threads, 120)
{
	enum { N = 8 };
	struct worker w[N];

	for (int i = 0; i < N; i++) {
		w[i] = (struct worker) {
			.ctx = self->ctx, .p = self->p, .shared = self->free, .number = i,
		};
		ASSERT_EQ(0, pthread_create(&w[i].thread, NULL, work, &w[i]));
	}
	for (int i = 0; i < N; i++) {
		ASSERT_EQ(0, pthread_join(w[i].thread, NULL));
	}
	for (int i = 0; i < N; i++) {
		EXPECT_EQ(0, w[i].failed) {
			TH_LOG("thread %d failed in line %d", i, w[i].failed);
		}
		for (int k = 0; k < i; k++) {
			EXPECT_NE(w[k].own_id, w[i].own_id);
		}
	}
	EXPECT_CU(cuCtxSynchronize());
}

static void *leave_work(void *arg)
{
	struct worker *w = arg;

	WORKER_CHECK(!cuCtxSetCurrent(w->ctx));
	for (unsigned int i = 0; i < 200; i++)
		WORKER_CHECK(!cuMemsetD32Async(WORD(w, 0), i, 1024, CU_STREAM_PER_THREAD));
	return NULL;
}

/* Work that a thread leaves in its stream is done after the thread has ended. */
TEST_F(stream, thread_ends_with_work)
{
	for (unsigned int i = 0; i < 20; i++) {
		struct worker w = { .ctx = self->ctx, .p = self->p, .number = i };

		ASSERT_EQ(0, pthread_create(&w.thread, NULL, leave_work, &w));
		ASSERT_EQ(0, pthread_join(w.thread, NULL));
		ASSERT_EQ(0, w.failed);
	}
	EXPECT_CU(cuCtxSynchronize());
	for (unsigned int i = 0; i < 20; i++) {
		const unsigned int *words = (const unsigned int *)view(self->p + i * 4096,
								       4096);

		EXPECT_EQ(199, words[0]);
		EXPECT_EQ(199, words[1023]);
	}
}

/* --- calls that wait for many streams, while another thread queues */

/* More streams than the library lists without memory from realloc(), twice. */
#define CROWD	80

static _Thread_local bool no_memory;

/* The library's calls come here, too, and those of threads that the thread sanitizer does not know yet. */
__attribute__((no_sanitize("thread"))) void *realloc(void *old, size_t bytes)
{
	static void *(*real)(void *old, size_t bytes);

	if (no_memory) {
		errno = ENOMEM;
		return NULL;
	}
	if (!real)
		real = (__typeof__(real))dlsym(RTLD_NEXT, "realloc");
	return real(old, bytes);
}

enum waiting { IN_CONTEXT, IN_LEGACY, IN_PROCESS, IN_PEERS, WAITINGS };

struct waiter {
	pthread_t thread;
	CUcontext ctx;
	enum waiting waiting;
	bool no_memory;
	void *registered;
	/* IN_PEERS: a third context copies from the crowd's second context to its first. */
	CUcontext to, from;
	CUdeviceptr dst, src;
	CUresult result;
	atomic_int tid, done;
};

static CUresult waiter_call(const struct waiter *w)
{
	switch (w->waiting) {
	case IN_CONTEXT:
		return cuCtxSynchronize();
	case IN_LEGACY:
		return cuStreamSynchronize(CU_STREAM_LEGACY);
	case IN_PROCESS:
		return cuMemHostUnregister(w->registered);
	default:
		return cuMemcpyPeer(w->dst, w->to, w->src, w->from, 4096);
	}
}

static void *waiter_main(void *arg)
{
	struct waiter *w = arg;

	w->result = cuCtxSetCurrent(w->ctx);
	no_memory = w->no_memory;
	atomic_store(&w->tid, (int)syscall(SYS_gettid));
	if (!w->result)
		w->result = waiter_call(w);
	atomic_store(&w->done, 1);
	return NULL;
}

/* Start the call, and wait until its thread sleeps in it. */
static bool waiter_start(struct waiter *w)
{
	int tid;

	if (pthread_create(&w->thread, NULL, waiter_main, w))
		return false;
	while (!atomic_load(&w->done)) {
		tid = atomic_load(&w->tid);
		if (tid && sleeps_in_wait(tid))
			return true;
		nap_ms(1);
	}
	return false;
}

static bool waiter_done(struct waiter *w)
{
	for (int i = 0; i < 10000 && !atomic_load(&w->done); i++)
		nap_ms(1);
	return atomic_load(&w->done);
}

/* Streams of both kinds, the last two of a second context, each with a word that holds its work. */
struct crowd {
	unsigned int count;
	CUcontext ctx, other;
	CUstream stream[CROWD];
	volatile __u32 *word;
};

static CUresult crowd_make(struct crowd *crowd, CUcontext ctx, unsigned int count)
{
	CUresult result = cuMemHostAlloc((void **)&crowd->word, 4096, CU_MEMHOSTALLOC_PORTABLE);

	crowd->ctx = ctx;
	crowd->count = count;
	if (!result)
		result = cuCtxCreate(&crowd->other, NULL, 0, 0);
	for (unsigned int i = 0; !result && i < count; i++) {
		result = cuCtxSetCurrent(i + 2 < count ? ctx : crowd->other);
		if (!result)
			result = cuStreamCreate(&crowd->stream[i], i % 2 ? CU_STREAM_NON_BLOCKING :
						CU_STREAM_DEFAULT);
	}
	return result ? result : cuCtxSetCurrent(ctx);
}

static CUresult crowd_end(struct crowd *crowd)
{
	CUresult result = cuCtxDestroy(crowd->other);

	for (unsigned int i = 0; !result && i + 2 < crowd->count; i++)
		result = cuStreamDestroy(crowd->stream[i]);
	return result ? result : cuMemFreeHost((void *)crowd->word);
}

/* Queue a piece of work that runs when the stream's word has reached @value, in each stream. */
static CUresult crowd_put(struct crowd *crowd, __u32 value)
{
	CUresult result = CUDA_SUCCESS;

	for (unsigned int i = 0; !result && i < crowd->count; i++)
		result = cuStreamWaitValue32(crowd->stream[i], (uintptr_t)&crowd->word[i], value,
					     CU_STREAM_WAIT_VALUE_GEQ);
	return result;
}

static void crowd_open(struct crowd *crowd, unsigned int from, unsigned int to, __u32 value)
{
	for (unsigned int i = from; i < to; i++)
		__atomic_store_n(&crowd->word[i], value, __ATOMIC_RELEASE);
}

/* Whether a call returns when what was queued before it is done, though later work is not. */
static bool waits_for_earlier(struct crowd *crowd, struct waiter *w, CUdeviceptr p)
{
	bool ok;

	crowd_open(crowd, 0, crowd->count, 0);
	if (crowd_put(crowd, 1))
		return false;
	/* The legacy stream has work of its own, which waits for the others. */
	if (w->waiting == IN_LEGACY && cuMemsetD8Async(p, 1, 4096, CU_STREAM_LEGACY))
		return false;
	ok = waiter_start(w);
	for (unsigned int i = 0; ok && i < crowd->count; i++) {
		ok = !crowd_put(crowd, 2);
		crowd_open(crowd, i, i + 1, 1);
	}
	ok = ok && waiter_done(w);
	for (unsigned int i = 0; i < crowd->count; i++)
		ok = ok && cuStreamQuery(crowd->stream[i]) == NOT_READY;
	crowd_open(crowd, 0, crowd->count, 2);
	pthread_join(w->thread, NULL);
	return ok && !w->result;
}

/* Whether a call without memory for a list still waits for all that was queued before it. */
static bool waits_for_all(struct crowd *crowd, struct waiter *w)
{
	/* The last stream that the call must wait for. */
	unsigned int last = crowd->count - (w->waiting >= IN_PROCESS ? 1 : w->waiting == IN_LEGACY ? 4 : 3);
	bool ok;

	crowd_open(crowd, 0, crowd->count, 0);
	if (crowd_put(crowd, 1))
		return false;
	ok = waiter_start(w);
	crowd_open(crowd, 0, last, 1);
	crowd_open(crowd, last + 1, crowd->count, 1);
	for (unsigned int i = 0; i < crowd->count; i++)
		ok = ok && (i == last || !cuStreamSynchronize(crowd->stream[i]));
	nap_ms(50);
	ok = ok && !atomic_load(&w->done);
	crowd_open(crowd, last, last + 1, 1);
	pthread_join(w->thread, NULL);
	return ok && !w->result;
}

static CUresult waiter_prepare(struct waiter *w, const struct crowd *crowd, enum waiting waiting, CUdeviceptr p)
{
	static unsigned char memory[4096] __attribute__((aligned(4096)));
	CUresult result;

	*w = (struct waiter) {
		.ctx = crowd->ctx, .waiting = waiting, .registered = memory,
		.to = crowd->ctx, .from = crowd->other, .dst = p,
	};
	if (waiting == IN_PROCESS)
		return cuMemHostRegister(memory, sizeof(memory), 0);
	if (waiting != IN_PEERS)
		return CUDA_SUCCESS;
	result = cuCtxSetCurrent(crowd->other);
	if (!result)
		result = cuMemAlloc(&w->src, 4096);
	if (!result)
		result = cuCtxCreate(&w->ctx, NULL, 0, 0);
	return result ? result : cuCtxSetCurrent(crowd->ctx);
}

static CUresult waiter_end(struct waiter *w)
{
	if (w->waiting != IN_PEERS)
		return CUDA_SUCCESS;
	return cuCtxDestroy(w->ctx) ? : cuMemFree(w->src);
}

TEST_F_TIMEOUT(stream, later_work, 240)
{
	static const unsigned int counts[] = { 6, CROWD };
	struct crowd crowd;
	struct waiter w;

	for (unsigned int i = 0; i < ARRAY_SIZE(counts); i++) {
		ASSERT_CU(crowd_make(&crowd, self->ctx, counts[i]));
		for (enum waiting waiting = 0; waiting < WAITINGS; waiting++) {
			ASSERT_CU(waiter_prepare(&w, &crowd, waiting, self->p));
			EXPECT_TRUE(waits_for_earlier(&crowd, &w, self->p))
				TH_LOG("call %d, %u streams", waiting, counts[i]);
			EXPECT_CU(cuCtxSynchronize());
			EXPECT_CU(cuCtxSynchronize_v2(crowd.other));
			EXPECT_CU(waiter_end(&w));
		}
		EXPECT_CU(crowd_end(&crowd));
	}
}

TEST_F_TIMEOUT(stream, no_memory_for_a_list, 120)
{
	struct crowd crowd;
	struct waiter w;

	ASSERT_CU(crowd_make(&crowd, self->ctx, CROWD));
	for (enum waiting waiting = 0; waiting < WAITINGS; waiting++) {
		ASSERT_CU(waiter_prepare(&w, &crowd, waiting, self->p));
		w.no_memory = true;
		EXPECT_TRUE(waits_for_all(&crowd, &w))
			TH_LOG("call %d", waiting);
		EXPECT_CU(waiter_end(&w));
	}
	EXPECT_CU(crowd_end(&crowd));
}

/* --- contexts */

TEST_F(stream, other_context)
{
	CUcontext two, ctx;
	CUstream s;
	CUevent e;

	ASSERT_CU(cuCtxCreate(&two, NULL, 0, 0));
	ASSERT_CU(cuStreamCreate(&s, 0));
	ASSERT_CU(cuEventCreate(&e, 0));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	/* Another context may use a stream, but an event is recorded only in its own context. */
	EXPECT_CU(cuMemsetD8Async(self->p, 4, 100, s));
	EXPECT_CU(cuStreamSynchronize(s));
	EXPECT_TRUE(sees(self->p, 4, 100));
	EXPECT_CU(cuStreamGetCtx(s, &ctx));
	EXPECT_EQ(two, ctx);
	EXPECT_EQ(BAD_HANDLE, cuEventRecord(e, self->a));
	EXPECT_CU(cuEventRecord(e, s));
	/* Each context has a legacy stream of its own. */
	NOT_HELD(s, NULL);
	/* cuCtxDestroy() waits for the context's work and ends its streams, but not its events. */
	ASSERT_EQ(NOT_READY, load_put_busy(&self->load, s));
	EXPECT_CU(cuEventRecord(e, s));
	EXPECT_CU(cuCtxDestroy(two));
	EXPECT_TRUE(load_done(&self->load));
	EXPECT_CU(cuEventQuery(e));
	EXPECT_EQ(BAD_HANDLE, cuStreamQuery(s));
	EXPECT_EQ(BAD_HANDLE, cuMemsetD8Async(self->p, 5, 100, s));
}

/* A context that ends does not wait for work of other contexts. */
TEST_F(stream, ends_beside_others)
{
	CUstream held, other;
	volatile __u32 *word;
	CUcontext two, three;
	CUdeviceptr p, q;
	CUevent done;

	/* First the primary context has the held work, then a created context. */
	for (int i = 0; i < 2; i++) {
		if (i) {
			ASSERT_CU(cuCtxCreate(&two, NULL, 0, 0));
		}
		ASSERT_CU(cuMemHostAlloc((void **)&word, 4096, 0));
		*word = 0;
		ASSERT_CU(cuMemAlloc(&p, MIB));
		ASSERT_CU(cuMemsetD8(p, 1, 4096));
		ASSERT_CU(cuCtxSynchronize());
		ASSERT_CU(cuStreamCreate(&held, i ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
		ASSERT_CU(cuEventCreate(&done, CU_EVENT_DISABLE_TIMING));
		ASSERT_CU(cuStreamWaitValue32(held, (uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ));
		ASSERT_CU(cuMemsetD8Async(p, 2, 4096, held));
		ASSERT_CU(cuEventRecord(done, held));
		/* A third context ends, with work and memory of its own. */
		ASSERT_CU(cuCtxCreate(&three, NULL, 0, 0));
		ASSERT_CU(cuMemAlloc(&q, MIB));
		ASSERT_CU(cuStreamCreate(&other, CU_STREAM_DEFAULT));
		ASSERT_EQ(NOT_READY, load_put_busy(&self->load, other));
		ASSERT_CU(cuMemsetD8Async(q, 3, MIB, other));
		EXPECT_CU(cuCtxDestroy(three));
		EXPECT_TRUE(load_done(&self->load));
		if (i) {
			EXPECT_CU(cuDevicePrimaryCtxReset(0));
			ASSERT_CU(cuCtxSetCurrent(two));
		} else {
			ASSERT_CU(cuCtxSetCurrent(self->ctx));
		}
		EXPECT_EQ(NOT_READY, cuStreamQuery(held));
		EXPECT_EQ(NOT_READY, cuEventQuery(done));
		EXPECT_TRUE(all_are(view(p, 4096), 1, 4096));
		__atomic_store_n(word, 1, __ATOMIC_RELEASE);
		EXPECT_CU(cuStreamSynchronize(held));
		EXPECT_CU(cuEventQuery(done));
		EXPECT_TRUE(sees(p, 2, 4096));
	}
	EXPECT_CU(cuCtxDestroy(two));
	ASSERT_CU(cuDevicePrimaryCtxRetain(&self->ctx, 0));
	ASSERT_CU(cuCtxSetCurrent(self->ctx));
	EXPECT_CU(cuMemAlloc(&p, 4096));
	EXPECT_CU(cuMemFree(p));
}

int main(int argc, char **argv)
{
	return test_harness_run(argc, argv);
}
