// SPDX-License-Identifier: GPL-2.0
/*
 * Tests many streams, streams with many queued entries (deep), and streams with a call that a
 * thread left by a jump out of a signal handler.
 *
 * The cost of a call must not depend on the number of streams, past or present.  The program times
 * the same calls with a few streams and with many, and compares the best of several rounds.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "kselftest_harness.h"
#include "cuda_util.h"
#include "deny_util.h"

#define MANY		1500
#define ROUNDS		4
#define CALLS		200

FIXTURE(many)
{
	CUcontext ctx;
	CUdeviceptr d;
	CUstream *streams;
};

FIXTURE_SETUP(many)
{
	cuda_begin(_metadata, &self->ctx);
	ASSERT_CU(cuMemAlloc(&self->d, 4 * KIB));
	/* Make the legacy stream. */
	ASSERT_CU(cuMemsetD8(self->d, 0, 64));
	self->streams = calloc(MANY, sizeof(*self->streams));
	ASSERT_NE(NULL, self->streams);
}

QUIET_AFTERWARDS(many)

/* The calls that are timed. */
struct probe {
	CUdeviceptr d;
	CUstream stream;
	CUevent event;
};

static CUresult legacy_fill(struct probe *p)
{
	return cuMemsetD8(p->d, 1, 64);
}

static CUresult alloc_free(struct probe *p)
{
	CUdeviceptr d;
	CUresult result = cuMemAlloc(&d, 4 * KIB);

	(void)p;
	return result ? result : cuMemFree(d);
}

static CUresult synchronize(struct probe *p)
{
	(void)p;
	return cuCtxSynchronize();
}

static CUresult blocking_copy(struct probe *p)
{
	return cuMemcpyDtoDAsync(p->d, p->d + 2 * KIB, 64, p->stream);
}

static CUresult record(struct probe *p)
{
	return cuEventRecord(p->event, p->stream);
}

typedef CUresult (*probe_fn)(struct probe *p);

/* The least time that @calls calls took in a few tries; ~0 if a call fails. */
static __u64 least(probe_fn fn, struct probe *p, unsigned int calls)
{
	__u64 best = ~0ull;

	for (int round = 0; round < ROUNDS; round++) {
		__u64 start = mono_ns();

		for (unsigned int i = 0; i < calls; i++)
			if (fn(p))
				return ~0ull;
		start = mono_ns() - start;
		best = start < best ? start : best;
	}
	return best;
}

static const struct {
	const char *name;
	probe_fn fn;
} many_probes[] = {
	{ "legacy fill", legacy_fill }, { "alloc and free", alloc_free },
	{ "synchronize", synchronize },
};

struct base {
	double ratio[ARRAY_SIZE(many_probes)];
};

/* The cost of a call, in copies that concern no other stream; negative if a call fails. */
static double cost(unsigned int i, struct probe *p)
{
	__u64 ns = ~0ull, unit = ~0ull;

	for (int round = 0; round < ROUNDS; round++) {
		__u64 once = least(many_probes[i].fn, p, CALLS);
		__u64 other = least(blocking_copy, p, 10 * CALLS);

		if (once == ~0ull || other == ~0ull)
			return -1;
		ns = once < ns ? once : ns;
		unit = other < unit ? other : unit;
	}
	return 10.0 * ns / unit;
}

static bool bases(struct base *base, struct probe *p)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(many_probes); i++) {
		base->ratio[i] = cost(i, p);
		if (base->ratio[i] < 0)
			return false;
	}
	return true;
}

/* Whether the calls cost about as much as in @base; several tries, for a machine that is busy. */
static bool no_dearer(const struct base *base, struct probe *p, const char *when)
{
	bool ok = true;

	for (unsigned int i = 0; i < ARRAY_SIZE(many_probes); i++) {
		double ratio = 0;
		bool fine = false;

		for (int tries = 0; tries < 10 && !fine; tries++) {
			ratio = cost(i, p);
			fine = ratio >= 0 && ratio <= 1.5 * base->ratio[i];
		}
		ksft_print_msg("%s, %s: %.2f copies, was %.2f\n", when, many_probes[i].name, ratio,
			       base->ratio[i]);
		ok &= fine;
	}
	return ok;
}

static void nothing(void *arg)
{
	(void)arg;
}

/* Create streams; @busy: queue an operation in each. */
static CUresult make(CUstream *streams, unsigned int first, unsigned int count, bool busy,
		     unsigned int flags)
{
	CUresult result = CUDA_SUCCESS;

	for (unsigned int i = first; !result && i < count; i++) {
		result = cuStreamCreate(&streams[i], flags);
		if (!result && busy)
			result = cuLaunchHostFunc(streams[i], nothing, NULL);
	}
	return result;
}

FIXTURE_VARIANT(many)
{
	bool busy;
	unsigned int flags;
};

FIXTURE_VARIANT_ADD(many, idle)
{
	.busy = false,
};

FIXTURE_VARIANT_ADD(many, once_busy)
{
	.busy = true,
};

FIXTURE_VARIANT_ADD(many, once_busy_non_blocking)
{
	.busy = true, .flags = CU_STREAM_NON_BLOCKING,
};

/* Streams that are idle, or were destroyed, cost other calls nothing. */
TEST_F_TIMEOUT(many, cost_beside_many, 300)
{
	struct probe p = { .d = self->d };
	struct base base;

	/* The unit is measured in a stream that never waits for others. */
	ASSERT_CU(cuStreamCreate(&p.stream, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(make(self->streams, 0, 10, variant->busy, variant->flags));
	ASSERT_CU(cuCtxSynchronize());
	ASSERT_TRUE(bases(&base, &p));
	ASSERT_CU(make(self->streams, 10, MANY, variant->busy, variant->flags));
	ASSERT_CU(cuCtxSynchronize());
	EXPECT_TRUE(no_dearer(&base, &p, "beside many"));
	/* Use each stream while nothing is queued: the library finds each idle once. */
	for (int i = 0; i < MANY; i++)
		ASSERT_CU(cuMemsetD8Async(self->d, 0, 64, self->streams[i]));
	EXPECT_TRUE(no_dearer(&base, &p, "after use"));
	for (int i = 0; i < MANY; i++)
		ASSERT_CU(cuStreamDestroy(self->streams[i]));
	EXPECT_TRUE(no_dearer(&base, &p, "all destroyed"));
}

/*
 * Whether a call in a blocking stream costs at most 0.3 copies more than in another one.  The first call is the copy.
 * Other calls may take so few instructions that a look at the legacy stream is a third of them.
 */
static bool costs_alike(const __u64 *blocking, const __u64 *other, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (blocking[i] == ~0ull || blocking[i] * 10 > other[i] * 10 + other[0] * 3)
			return false;
	return true;
}

/* A legacy stream that is idle costs blocking streams nothing. */
TEST_F(many, cost_beside_legacy)
{
	struct probe p = { .d = self->d }, q;
	static const struct {
		const char *name;
		probe_fn fn;
	} probes[] = { { "copy", blocking_copy }, { "record", record } };
	__u64 blocking[ARRAY_SIZE(probes)], other[ARRAY_SIZE(probes)];

	memset(blocking, 0xff, sizeof(blocking));
	memset(other, 0xff, sizeof(other));
	/*
	 * The costs depend on the addresses of streams and events, too: under emulation they differ by half.
	 * So each try has new ones, and the least of all tries counts.  Other work on the machine asks for more tries.
	 */
	for (int tries = 0; tries < 24 && (tries < 8 || !costs_alike(blocking, other, ARRAY_SIZE(probes)));
	     tries++) {
		ASSERT_CU(make(&p.stream, 0, 1, variant->busy, CU_STREAM_DEFAULT));
		ASSERT_CU(cuEventCreate(&p.event, CU_EVENT_DISABLE_TIMING));
		q = p;
		ASSERT_CU(cuStreamCreate(&q.stream, CU_STREAM_NON_BLOCKING));
		ASSERT_CU(cuEventCreate(&q.event, CU_EVENT_DISABLE_TIMING));
		ASSERT_CU(cuCtxSynchronize());
		for (unsigned int i = 0; i < ARRAY_SIZE(probes); i++) {
			__u64 cost;

			/* A fill in the legacy stream; the next blocking call finds it idle. */
			ASSERT_CU(cuMemsetD8(self->d, 1, 64));
			cost = least(probes[i].fn, &p, 20000);
			blocking[i] = cost < blocking[i] ? cost : blocking[i];
			cost = least(probes[i].fn, &q, 20000);
			other[i] = cost < other[i] ? cost : other[i];
		}
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(probes); i++) {
		ksft_print_msg("%s: %llu.%02llu ns in a blocking stream, %llu.%02llu in another\n",
			       probes[i].name, blocking[i] / 20000, blocking[i] / 200 % 100,
			       other[i] / 20000, other[i] / 200 % 100);
	}
	EXPECT_TRUE(costs_alike(blocking, other, ARRAY_SIZE(probes)));
}

/*
 * The legacy stream does not wait for a stream that is idle.  A synchronization still has to record
 * that the stream's work is complete: a pool without opportunistic reuse depends on it.
 */
TEST_F(many, idle_then_known)
{
	const CUmemPool_attribute reuse[] = {
		CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC,
		CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES,
		CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES,
	};
	CUmemPoolProps props = {
		.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = { .type = CU_MEM_LOCATION_TYPE_DEVICE },
	};
	struct probe probe = { .d = self->d };
	CUdeviceptr freed, before, after;
	cuuint64_t all = ~0ull;
	CUmemoryPool pool;
	CUstream a, b;
	__u32 *word;
	int off = 0;

	ASSERT_CU(cuMemPoolCreate(&pool, &props));
	for (unsigned int i = 0; i < ARRAY_SIZE(reuse); i++)
		ASSERT_CU(cuMemPoolSetAttribute(pool, reuse[i], &off));
	ASSERT_CU(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
	ASSERT_CU(cuMemHostAlloc((void **)&word, 4 * KIB, 0));
	*word = 0;
	ASSERT_CU(cuStreamCreate(&a, variant->flags));
	ASSERT_CU(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuStreamWaitValue32(a, (CUdeviceptr)word, 1, CU_STREAM_WAIT_VALUE_EQ));
	ASSERT_CU(cuMemAllocFromPoolAsync(&freed, MIB, pool, a));
	ASSERT_CU(cuMemFreeAsync(freed, a));
	__atomic_store_n(word, 1, __ATOMIC_RELEASE);
	while (cuStreamQuery(a) == CUDA_ERROR_NOT_READY)
		usleep(1000);
	ASSERT_CU(legacy_fill(&probe));
	ASSERT_CU(cuMemAllocFromPoolAsync(&before, MIB, pool, b));
	EXPECT_NE(freed, before);
	ASSERT_CU(cuCtxSynchronize());
	ASSERT_CU(cuMemAllocFromPoolAsync(&after, MIB, pool, b));
	EXPECT_EQ(freed, after);
}

/* --- deep streams */

/* A thread that opens a gate: after the submissions behind it, or late if a submission blocks. */
struct keeper {
	pthread_t thread;
	volatile __u32 *word;
	atomic_uint submitted;
	atomic_uint late;
};

/*
 * A wait in the legacy stream holds a blocking stream that was used before, even if the legacy
 * stream has no other work.
 */
TEST_F(many, wait_in_the_legacy_stream)
{
	CUstream used, held;
	CUevent event;
	void *word;

	ASSERT_CU(cuMemHostAlloc(&word, 4 * KIB, 0));
	__atomic_store_n((cuuint32_t *)word, 0, __ATOMIC_RELEASE);
	ASSERT_CU(cuStreamCreate(&used, CU_STREAM_DEFAULT));
	ASSERT_CU(cuStreamCreate(&held, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	ASSERT_CU(cuMemsetD8Async(self->d, 2, 64, used));
	ASSERT_CU(cuStreamSynchronize(used));
	ASSERT_CU(cuMemsetD8Async(self->d, 3, 64, used));
	ASSERT_CU(cuStreamWaitValue32(held, (CUdeviceptr)word, 1, CU_STREAM_WAIT_VALUE_EQ));
	ASSERT_CU(cuEventRecord(event, held));
	ASSERT_CU(cuStreamWaitEvent(CU_STREAM_LEGACY, event, 0));
	ASSERT_CU(cuMemsetD8Async(self->d, 4, 64, used));
	EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(used));
	usleep(20000);
	EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(used));
	__atomic_store_n((cuuint32_t *)word, 1, __ATOMIC_RELEASE);
	EXPECT_CU(cuStreamSynchronize(used));
}

static void *keep(void *arg)
{
	struct keeper *k = arg;

	for (int i = 0; i < 2000 && !atomic_load(&k->submitted); i++)
		usleep(10000);
	atomic_store(&k->late, !atomic_load(&k->submitted));
	__atomic_store_n(k->word, 1, __ATOMIC_RELEASE);
	return NULL;
}

FIXTURE(deep)
{
	CUcontext ctx;
	CUdeviceptr d;
	CUstream s;
	struct keeper keeper;
};

FIXTURE_SETUP(deep)
{
	void *word;

	cuda_begin(_metadata, &self->ctx);
	ASSERT_CU(cuMemAlloc(&self->d, 4 * KIB));
	ASSERT_CU(cuStreamCreate(&self->s, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuMemHostAlloc(&word, 4 * KIB, 0));
	self->keeper.word = word;
	*self->keeper.word = 0;
	ASSERT_CU(cuStreamWaitValue32(self->s, (CUdeviceptr)word, 1, CU_STREAM_WAIT_VALUE_EQ));
	ASSERT_EQ(0, pthread_create(&self->keeper.thread, NULL, keep, &self->keeper));
}

QUIET_AFTERWARDS(deep)

/* The H200 takes 1,021 operations behind a gate before the caller blocks. */
#define DEEP	1100

static unsigned int functions_ran;
static unsigned int functions_wrong;

static void count(void *arg)
{
	functions_wrong += functions_ran++ != (uintptr_t)arg;
}

TEST_F(deep, functions_behind_a_gate)
{
	for (uintptr_t i = 0; i < DEEP; i++)
		ASSERT_CU(cuLaunchHostFunc(self->s, count, (void *)i));
	EXPECT_EQ(0, atomic_load(&self->keeper.late));
	EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(self->s));
	atomic_store(&self->keeper.submitted, 1);
	ASSERT_EQ(0, pthread_join(self->keeper.thread, NULL));
	EXPECT_EQ(0, atomic_load(&self->keeper.late));
	ASSERT_CU(cuStreamSynchronize(self->s));
	EXPECT_EQ(DEEP, functions_ran);
	EXPECT_EQ(0, functions_wrong);
}

TEST_F(deep, entries_behind_a_gate)
{
	unsigned int got = 0;

	for (unsigned int i = 0; i <= DEEP; i++)
		ASSERT_CU(cuMemsetD32Async(self->d, i, 1, self->s));
	EXPECT_EQ(CUDA_ERROR_NOT_READY, cuStreamQuery(self->s));
	atomic_store(&self->keeper.submitted, 1);
	ASSERT_EQ(0, pthread_join(self->keeper.thread, NULL));
	EXPECT_EQ(0, atomic_load(&self->keeper.late));
	ASSERT_CU(cuStreamSynchronize(self->s));
	ASSERT_CU(cuMemcpyDtoH(&got, self->d, sizeof(got)));
	EXPECT_EQ(DEEP, got);
}

/* --- copies that are left by a jump out of a signal handler */

#define BYTES		(2 * STAGE + 5000)

FIXTURE(jump)
{
	CUcontext ctx;
	CUdeviceptr d, word;
	CUstream s, apart;
	unsigned char *gone, *host;	/* of BYTES; an access to gone raises SIGBUS */
};

static sigjmp_buf before;

static void leave(int sig)
{
	(void)sig;
	siglongjmp(before, 1);
}

FIXTURE_SETUP(jump)
{
	void *word;
	int fd;

	cuda_begin(_metadata, &self->ctx);
	ASSERT_CU(cuMemAlloc(&self->d, BYTES));
	ASSERT_CU(cuMemsetD8(self->d, 3, BYTES));
	ASSERT_CU(cuMemHostAlloc(&word, 4 * KIB, 0));
	self->word = (CUdeviceptr)word;
	*(volatile __u32 *)word = 0;
	ASSERT_CU(cuStreamCreate(&self->s, CU_STREAM_DEFAULT));
	ASSERT_CU(cuStreamCreate(&self->apart, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuCtxSynchronize());
	fd = memfd_create("gone", 0);
	ASSERT_LE(0, fd);
	ASSERT_EQ(0, ftruncate(fd, BYTES));
	self->gone = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, self->gone);
	ASSERT_EQ(0, ftruncate(fd, 0));
	close(fd);
	self->host = malloc(BYTES);
	ASSERT_NE(NULL, self->host);
	signal(SIGBUS, leave);
}

QUIET_AFTERWARDS(jump)

FIXTURE_VARIANT(jump)
{
	CUstream stream;		/* NULL: self->s, which is blocking, */
	bool apart;			/* or self->apart, which is not */
};

FIXTURE_VARIANT_ADD(jump, blocking)
{
	.stream = NULL,
};

FIXTURE_VARIANT_ADD(jump, non_blocking)
{
	.apart = true,
};

FIXTURE_VARIANT_ADD(jump, legacy)
{
	.stream = CU_STREAM_LEGACY,
};

FIXTURE_VARIANT_ADD(jump, thread)
{
	.stream = CU_STREAM_PER_THREAD,
};

#define STREAM	(variant->apart ? self->apart : variant->stream ? variant->stream : self->s)

/* Copy from or to @gone; true if the signal handler jumped out of the copy. */
static bool from_gone(CUdeviceptr d, const void *gone, size_t bytes, CUstream stream)
{
	if (sigsetjmp(before, 1))
		return true;
	cuMemcpyHtoDAsync(d, gone, bytes, stream);
	return false;
}

static bool to_gone(void *gone, CUdeviceptr d, size_t bytes, CUstream stream)
{
	if (sigsetjmp(before, 1))
		return true;
	cuMemcpyDtoHAsync(gone, d, bytes, stream);
	return false;
}

/* A thread that checks that a stream works: it fills, copies and synchronizes. */
struct user {
	CUcontext ctx;
	CUstream stream;
	CUdeviceptr d;
	CUresult result;
};

static void *use(void *arg)
{
	struct user *u = arg;
	unsigned char byte = 0;

	u->result = cuCtxSetCurrent(u->ctx);
	if (!u->result)
		u->result = cuMemsetD8Async(u->d, 9, 64, u->stream);
	if (!u->result)
		u->result = cuMemcpyDtoHAsync(&byte, u->d + 63, 1, u->stream);
	if (!u->result)
		u->result = cuStreamSynchronize(u->stream);
	if (!u->result && byte != 9)
		u->result = CUDA_ERROR_UNKNOWN;
	return NULL;
}

static CUresult use_elsewhere(CUcontext ctx, CUstream stream, CUdeviceptr d)
{
	struct user u = { .ctx = ctx, .stream = stream, .d = d };
	pthread_t thread;

	if (pthread_create(&thread, NULL, use, &u) || pthread_join(thread, NULL))
		return CUDA_ERROR_OPERATING_SYSTEM;
	return u.result;
}

/* The stream works in this thread and in another one; so do @other and the legacy stream. */
static CUresult all_work(CUcontext ctx, CUstream stream, CUstream other, CUdeviceptr d)
{
	struct user u = { .ctx = ctx, .stream = stream, .d = d };
	CUresult result;

	use(&u);
	result = u.result;
	if (!result)
		result = use_elsewhere(ctx, stream, d);
	if (!result)
		result = use_elsewhere(ctx, other, d);
	if (!result)
		result = use_elsewhere(ctx, CU_STREAM_LEGACY, d);
	return result ? result : cuCtxSynchronize();
}

/* Copies that the thread makes itself, of few bytes and of many. */
TEST_F(jump, out_of_a_copy)
{
	for (int i = 0; i < 4; i++) {
		EXPECT_TRUE(from_gone(self->d, self->gone, i & 1 ? BYTES : 64, STREAM));
		EXPECT_CU(all_work(self->ctx, STREAM, self->s, self->d));
		EXPECT_TRUE(to_gone(self->gone, self->d, i & 1 ? BYTES : 64, STREAM));
		EXPECT_CU(all_work(self->ctx, STREAM, self->s, self->d));
	}
}

/* The call after the jump waits for the stream, is in another stream, or destroys the stream. */
TEST_F(jump, then_something_else)
{
	EXPECT_TRUE(from_gone(self->d, self->gone, 64, STREAM));
	EXPECT_CU(cuMemsetD8(self->d, 1, 64));
	EXPECT_TRUE(from_gone(self->d, self->gone, 64, STREAM));
	EXPECT_CU(cuMemsetD8Async(self->d, 1, 64, self->s));
	EXPECT_TRUE(from_gone(self->d, self->gone, 64, self->s));
	EXPECT_CU(cuStreamDestroy(self->s));
	EXPECT_CU(cuStreamCreate(&self->s, CU_STREAM_DEFAULT));
	EXPECT_CU(all_work(self->ctx, STREAM, self->s, self->d));
}

/* Out of a copy to staging memory, behind a gate, more often than there are staging buffers. */
TEST_F(jump, out_of_staging)
{
	ASSERT_CU(cuStreamWaitValue32(STREAM, self->word, 1, CU_STREAM_WAIT_VALUE_EQ));
	for (int i = 0; i < 80; i++)
		ASSERT_TRUE(from_gone(self->d, self->gone, STAGE, STREAM));
	ASSERT_CU(cuMemcpyHtoDAsync(self->d, self->host, 64, STREAM));
	__atomic_store_n((__u32 *)self->word, 1, __ATOMIC_RELEASE);
	EXPECT_CU(all_work(self->ctx, STREAM, self->s, self->d));
}

/* Out of a copy from staging memory.  The memory is exported, so that the engine copies it. */
TEST_F(jump, out_of_parts)
{
	ASSERT_CU(export(self->d));
	for (int i = 0; i < 80; i++)
		ASSERT_TRUE(to_gone(self->gone, self->d, BYTES, STREAM));
	ASSERT_CU(cuMemsetD8Async(self->d, 7, BYTES, STREAM));
	ASSERT_CU(cuMemcpyDtoHAsync(self->host, self->d, BYTES, STREAM));
	ASSERT_CU(cuStreamSynchronize(STREAM));
	EXPECT_TRUE(all_are(self->host, 7, BYTES));
	EXPECT_CU(all_work(self->ctx, STREAM, self->s, self->d));
}

struct leaver {
	CUcontext ctx;
	CUstream stream;
	CUdeviceptr d;
	void *gone;
	bool left;
};

static void *jump_and_end(void *arg)
{
	struct leaver *l = arg;

	if (!l->ctx || !cuCtxSetCurrent(l->ctx))
		l->left = from_gone(l->d, l->gone, 64, l->stream);
	return NULL;
}

/* The thread that jumped ends without another call. */
TEST_F(jump, and_end_of_thread)
{
	struct leaver l = { .ctx = self->ctx, .stream = STREAM, .d = self->d, .gone = self->gone };
	pthread_t thread;

	ASSERT_EQ(0, pthread_create(&thread, NULL, jump_and_end, &l));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT_TRUE(l.left);
	EXPECT_CU(all_work(self->ctx, STREAM, self->s, self->d));
}

/* A thread needs no context to use a stream that was created; the default streams do. */
TEST_F(jump, and_end_of_thread_without_context)
{
	struct leaver l = { .d = self->d, .gone = self->gone };
	pthread_t thread;

	l.stream = variant->apart ? self->apart : self->s;
	ASSERT_EQ(0, pthread_create(&thread, NULL, jump_and_end, &l));
	ASSERT_EQ(0, pthread_join(thread, NULL));
	ASSERT_TRUE(l.left);
	EXPECT_CU(all_work(self->ctx, l.stream, self->s, self->d));
}

/* --- the thread that runs host functions */

/* From now on no thread of the process can wait for a timeline. */
static bool refuse_waits(void)
{
	return deny_call_with(SYS_ioctl, 1, GPUMEM_TIMELINE_WAIT, EPERM);
}

static bool ran(unsigned int functions)
{
	for (int i = 0; i < 2000; i++) {
		if (__atomic_load_n(&functions_ran, __ATOMIC_ACQUIRE) == functions)
			return true;
		usleep(10000);
	}
	return false;
}

/* If the wait of that thread fails unexpectedly, the thread goes on and reports the error once. */
TEST_F(many, host_thread_survives)
{
	int file = memfd_create("stderr", MFD_CLOEXEC), saved = dup(STDERR_FILENO);
	char text[1024] = "", *first;
	CUstream s;
	bool all = true;

	ASSERT_LE(0, file);
	ASSERT_LE(0, saved);
	ASSERT_CU(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
	ASSERT_CU(cuLaunchHostFunc(s, count, (void *)0));
	ASSERT_TRUE(ran(1));
	dup2(file, STDERR_FILENO);
	all = refuse_waits();
	for (uintptr_t i = 1; all && i < 6; i++)
		all = !cuLaunchHostFunc(s, count, (void *)i) && ran(i + 1);
	dup2(saved, STDERR_FILENO);
	EXPECT_TRUE(all);
	EXPECT_EQ(0, functions_wrong);
	EXPECT_LT(0, pread(file, text, sizeof(text) - 1, 0));
	first = strstr(text, "cannot wait for work");
	EXPECT_NE(NULL, first);
	EXPECT_TRUE(first && !strstr(first + 1, "cannot wait for work"));
}

TEST_HARNESS_MAIN
