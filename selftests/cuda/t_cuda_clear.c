// SPDX-License-Identifier: GPL-2.0
/*
 * Freed memory that the library's thread gpumem-clear clears in the background: the next owner
 * finds zeroes, whatever the thread has done by then, and the thread leaves memory with an owner
 * alone.
 *
 * userfaultfd stops the thread in the middle of a range: its next write to a page waits for the
 * test.  Freed memory of a block that lives on stays mapped, so the test can look at it.  The cases
 * do not depend on timing, except that a thread which must wait gets some time to go wrong.
 */
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "kselftest_harness.h"
#include "cuda_util.h"

#define LOW		(256 * KIB)
#define HIGH		(512 * KIB)
#define PATIENCE	120	/* seconds */
#define NAP_MS		60

FIXTURE(clear)
{
	CUcontext ctx;
	CUdeviceptr keep, low, high, end;	/* one block, in this order */
	int uffd;
};

/* --- the thread */

/* The thread's ID, or 0. */
static pid_t cleaner(void)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *entry;
	pid_t found = 0;

	while (dir && (entry = readdir(dir))) {
		char path[300], name[32] = "";
		FILE *f;

		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		f = fopen(path, "r");
		if (f && fgets(name, sizeof(name), f) && !strcmp(name, "gpumem-clear\n"))
			found = atoi(entry->d_name);
		if (f)
			fclose(f);
	}
	if (dir)
		closedir(dir);
	return found;
}

static bool becomes(CUdeviceptr p, unsigned char value, size_t bytes)
{
	for (int i = 0; i < PATIENCE * 1000; i++) {
		if (all_are(cpu(p), value, bytes))
			return true;
		usleep(1000);
	}
	return false;
}

/* Allocate, fill and free until the thread has cleared something. */
static bool cleaner_works(void)
{
	for (int i = 0; i < PATIENCE * 1000; i++) {
		CUdeviceptr p;

		if (cuMemAlloc(&p, 64 * KIB))
			return false;
		memset(cpu(p), 0x11, 64 * KIB);
		if (cuMemFree(p))
			return false;
		if (i >= 16)
			usleep(1000);
		if (all_are(cpu(p), 0, 64 * KIB))
			return true;
	}
	return false;
}

/* Wait until the thread has cleared twice: then it has processed all that was queued before. */
static bool passes(void)
{
	return cleaner_works() && cleaner_works();
}

FIXTURE_SETUP(clear)
{
	ASSERT_TRUE(dev_quiet(10));
	if (strict())
		SKIP(return, "the engine clears device memory in strict mode");
	ASSERT_CU(cuda_start(&self->ctx));
	ASSERT_CU(cuMemAlloc(&self->keep, 256));
	ASSERT_TRUE(cleaner_works());
	ASSERT_CU(cuMemAlloc(&self->low, LOW));
	ASSERT_CU(cuMemAlloc(&self->high, HIGH));
	ASSERT_CU(cuMemAlloc(&self->end, 256));
	ASSERT_LT(self->keep, self->low);
	ASSERT_LT(self->low, self->high);
	ASSERT_LT(self->high, self->end);
	ASSERT_TRUE(all_are(cpu(self->low), 0, LOW));
	ASSERT_TRUE(all_are(cpu(self->high), 0, HIGH));
	memset(cpu(self->low), 0x22, LOW);
	memset(cpu(self->high), 0x33, HIGH);
	self->uffd = -1;
}

QUIET_AFTERWARDS(clear)

/* --- stopping the thread */

static int protect(int uffd, CUdeviceptr p, size_t bytes, __u64 mode)
{
	struct uffdio_writeprotect wp = { .range = { p, bytes }, .mode = mode };

	return ioctl(uffd, UFFDIO_WRITEPROTECT, &wp);
}

/* From now on a write to the range waits.  A descriptor, or -1. */
static int stop_writes(CUdeviceptr p, size_t bytes)
{
	struct uffdio_api api = {
		.api = UFFD_API, .features = UFFD_FEATURE_WP_HUGETLBFS_SHMEM,
	};
	struct uffdio_register range = {
		.range = { p, bytes }, .mode = UFFDIO_REGISTER_MODE_WP,
	};
	int uffd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	if (uffd < 0)
		return -1;
	if (ioctl(uffd, UFFDIO_API, &api) || ioctl(uffd, UFFDIO_REGISTER, &range) ||
	    protect(uffd, p, bytes, UFFDIO_WRITEPROTECT_MODE_WP)) {
		close(uffd);
		return -1;
	}
	return uffd;
}

/* Wait until a thread is stopped at a page of @uffd. */
static bool stopped(int uffd)
{
	struct pollfd poller = { .fd = uffd, .events = POLLIN };
	struct uffd_msg msg;

	return poll(&poller, 1, PATIENCE * 1000) == 1 &&
	       read(uffd, &msg, sizeof(msg)) == sizeof(msg) &&
	       msg.event == UFFD_EVENT_PAGEFAULT;
}

static int go_on(int uffd, CUdeviceptr p, size_t bytes)
{
	return protect(uffd, p, bytes, 0);
}

/* The next whole page: the first 256 bytes of a block shift all that follows. */
static CUdeviceptr page_of(CUdeviceptr p)
{
	return (p + page_size - 1) & ~((CUdeviceptr)page_size - 1);
}

/* Free @p, whose page at @offset stops the thread. */
#define STOP_IN(p, offset) do {							\
	self->uffd = stop_writes(page_of((p) + (offset)), page_size);		\
	if (self->uffd < 0)							\
		SKIP(return, "userfaultfd: %s", strerror(errno));		\
	ASSERT_CU(cuMemFree(p));						\
	ASSERT_TRUE(stopped(self->uffd));					\
} while (0)

#define GO_ON(p, offset)							\
	ASSERT_EQ(0, go_on(self->uffd, page_of((p) + (offset)), page_size))

/* --- other threads */

struct actor {
	pthread_t thread;
	CUcontext ctx;
	CUdeviceptr p;			/* to free, or 0 */
	size_t bytes;			/* to allocate */
	CUresult result;
	atomic_int done;
};

static void *act(void *arg)
{
	struct actor *actor = arg;

	actor->result = cuCtxSetCurrent(actor->ctx);
	if (!actor->result)
		actor->result = actor->p ? cuMemFree(actor->p) :
					   cuMemAlloc(&actor->p, actor->bytes);
	atomic_store(&actor->done, 1);
	return NULL;
}

static void nap(void)
{
	usleep(NAP_MS * 1000);
}

/* --- cases */

TEST_F_TIMEOUT(clear, cleared, 200)
{
	CUdeviceptr p;

	for (int i = 0; i < 3; i++) {
		ASSERT_CU(cuMemFree(self->high));
		ASSERT_TRUE(becomes(self->high, 0, HIGH));
		ASSERT_CU(cuMemAlloc(&p, HIGH));
		EXPECT_EQ(self->high, p);
		EXPECT_TRUE(all_are(cpu(p), 0, HIGH));
		memset(cpu(p), 0x44, HIGH);
	}
	EXPECT_TRUE(all_are(cpu(self->low), 0x22, LOW));
}

/* The next owner clears a range that the thread has not begun; the thread then leaves it alone. */
TEST_F_TIMEOUT(clear, queued, 200)
{
	CUdeviceptr p;

	STOP_IN(self->high, 0);
	ASSERT_CU(cuMemFree(self->low));
	EXPECT_TRUE(all_are(cpu(self->low), 0x22, LOW));
	ASSERT_CU(cuMemAlloc(&p, LOW));
	EXPECT_EQ(self->low, p);
	EXPECT_TRUE(all_are(cpu(p), 0, LOW));
	memset(cpu(p), 0x44, LOW);
	GO_ON(self->high, 0);
	EXPECT_TRUE(becomes(self->high, 0, HIGH));
	EXPECT_TRUE(passes());
	EXPECT_TRUE(all_are(cpu(p), 0x44, LOW));
}

/* The same with a part of a range: the thread clears the other part. */
TEST_F_TIMEOUT(clear, queued_in_part, 200)
{
	CUdeviceptr p;

	STOP_IN(self->high, 0);
	ASSERT_CU(cuMemFree(self->low));
	ASSERT_CU(cuMemAlloc(&p, 512));
	EXPECT_EQ(self->low, p);
	EXPECT_TRUE(all_are(cpu(p), 0, 512));
	EXPECT_TRUE(all_are(cpu(p) + 512, 0x22, LOW - 512));
	memset(cpu(p), 0x44, 512);
	GO_ON(self->high, 0);
	EXPECT_TRUE(becomes(p + 512, 0, LOW - 512));
	EXPECT_TRUE(all_are(cpu(p), 0x44, 512));
}

/* An allocation waits for the thread if the thread writes to its memory, and only then. */
TEST_F_TIMEOUT(clear, waited_for, 200)
{
	struct actor actor = { .ctx = self->ctx, .bytes = HIGH };
	size_t before, meanwhile, total;
	CUdeviceptr p;

	ASSERT_CU(cuMemGetInfo(&before, &total));
	STOP_IN(self->high, 0);
	ASSERT_CU(cuMemFree(self->low));
	ASSERT_EQ(0, pthread_create(&actor.thread, NULL, act, &actor));
	nap();
	EXPECT_EQ(0, atomic_load(&actor.done));
	ASSERT_CU(cuMemAlloc(&p, LOW));
	EXPECT_EQ(self->low, p);
	EXPECT_TRUE(all_are(cpu(p), 0, LOW));
	ASSERT_CU(cuMemGetInfo(&meanwhile, &total));
	EXPECT_EQ(before, meanwhile);
	EXPECT_EQ(0, atomic_load(&actor.done));
	GO_ON(self->high, 0);
	pthread_join(actor.thread, NULL);
	EXPECT_CU(actor.result);
	EXPECT_EQ(self->high, actor.p);
	EXPECT_TRUE(all_are(cpu(self->high), 0, HIGH));
	EXPECT_TRUE(passes());
}

/* The thread leaves a range that an allocation waits for, and returns for the remaining part. */
TEST_F_TIMEOUT(clear, waited_for_in_part, 200)
{
	struct actor actor = { .ctx = self->ctx, .bytes = 512 };

	STOP_IN(self->high, HIGH / 2);
	EXPECT_TRUE(all_are(cpu(self->high), 0, HIGH / 2 - 16 * KIB));
	EXPECT_TRUE(all_are(cpu(self->high) + HIGH - 4 * KIB, 0x33, 4 * KIB));
	ASSERT_EQ(0, pthread_create(&actor.thread, NULL, act, &actor));
	nap();
	EXPECT_EQ(0, atomic_load(&actor.done));
	GO_ON(self->high, HIGH / 2);
	pthread_join(actor.thread, NULL);
	EXPECT_CU(actor.result);
	EXPECT_EQ(self->high, actor.p);
	memset(cpu(actor.p), 0x44, 512);
	EXPECT_TRUE(becomes(self->high + 512, 0, HIGH - 512));
	EXPECT_TRUE(all_are(cpu(actor.p), 0x44, 512));
}

/* A block is not unmapped while the thread writes to it. */
TEST_F_TIMEOUT(clear, block_ends, 200)
{
	struct actor actor = { .ctx = self->ctx, .p = self->end };

	STOP_IN(self->high, 0);
	ASSERT_CU(cuMemFree(self->keep));
	ASSERT_CU(cuMemFree(self->low));
	ASSERT_EQ(0, pthread_create(&actor.thread, NULL, act, &actor));
	nap();
	EXPECT_EQ(0, atomic_load(&actor.done));
	EXPECT_LT(0, used(0));
	GO_ON(self->high, 0);
	pthread_join(actor.thread, NULL);
	EXPECT_CU(actor.result);
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 10));
	/* The block's structures are reused. */
	ASSERT_CU(cuMemAlloc(&self->keep, 256));
	EXPECT_TRUE(passes());
}

/* Memory that cannot be written stays as it is, and its next owner clears it. */
TEST_F_TIMEOUT(clear, unwritable, 200)
{
	CUdeviceptr half = page_of(self->high + HIGH / 2), p;
	size_t rest = self->high + HIGH - half, bytes = rest & ~((size_t)page_size - 1);

	ASSERT_EQ(0, mprotect(cpu(half), bytes, PROT_READ));
	ASSERT_CU(cuMemFree(self->high));
	EXPECT_TRUE(becomes(self->high, 0, half - self->high - 512));
	EXPECT_TRUE(passes());
	EXPECT_TRUE(all_are(cpu(half), 0x33, rest));
	ASSERT_EQ(0, mprotect(cpu(half), bytes, PROT_READ | PROT_WRITE));
	ASSERT_CU(cuMemAlloc(&p, HIGH));
	EXPECT_EQ(self->high, p);
	EXPECT_TRUE(all_are(cpu(p), 0, HIGH));
}

/* Memory that a DMA-buf still reaches is not cleared, because it cannot get a new owner. */
TEST_F_TIMEOUT(clear, withheld, 200)
{
	CUdeviceptr first = page_of(self->high);
	unsigned char *old;
	int fd = -1;

	ASSERT_CU(cuMemGetHandleForAddressRange(&fd, first, 64 * KIB,
						CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	old = mmap(NULL, 64 * KIB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	ASSERT_NE(MAP_FAILED, (void *)old);
	close(fd);
	ASSERT_CU(cuMemFree(self->high));
	EXPECT_TRUE(passes());
	EXPECT_TRUE(all_are(old, 0x33, 64 * KIB));
	munmap(old, 64 * KIB);
}

TEST_F_TIMEOUT(clear, host_memory, 200)
{
	void *keep, *p, *q;

	ASSERT_CU(cuMemHostAlloc(&keep, 256, 0));
	ASSERT_CU(cuMemHostAlloc(&p, HIGH, 0));
	memset(p, 0x55, HIGH);
	ASSERT_CU(cuMemFreeHost(p));
	EXPECT_TRUE(becomes((uintptr_t)p, 0, HIGH));
	ASSERT_CU(cuMemHostAlloc(&q, HIGH, 0));
	EXPECT_EQ(p, q);
	EXPECT_TRUE(all_are(q, 0, HIGH));
}

/* More ranges than the library can queue for the thread, of sizes around the smallest it queues. */
TEST_F_TIMEOUT(clear, many, 200)
{
	enum { N = 200 };
	static CUdeviceptr p[N];

	for (int round = 0; round < 3; round++) {
		for (unsigned int i = 0; i < N; i++) {
			ASSERT_CU(cuMemAlloc(&p[i], 15 * KIB + i * 512));
			ASSERT_TRUE(all_are(cpu(p[i]), 0, 15 * KIB + i * 512));
			memset(cpu(p[i]), 0x66, 15 * KIB + i * 512);
		}
		for (unsigned int i = 0; i < N; i++)
			ASSERT_CU(cuMemFree(p[(i * 7 + round) % N]));
		if (round)
			EXPECT_TRUE(passes());
	}
}

/* On a full device, the next allocation gets the memory that was freed. */
TEST_F_TIMEOUT(clear, full_device, 200)
{
	size_t before, after, total;
	CUdeviceptr p, more;

	while (!cuMemAlloc(&more, 32 * MIB))
		;
	while (!cuMemAlloc(&more, 4 * MIB))
		;
	while (!cuMemAlloc(&more, 2 * MIB))
		;
	/* The room that is left in shared blocks. */
	while (!cuMemAlloc(&more, 64 * KIB))
		;
	ASSERT_CU(cuMemGetInfo(&before, &total));
	for (int i = 0; i < 300; i++) {
		ASSERT_CU(cuMemFree(self->high));
		ASSERT_CU(cuMemAlloc(&p, HIGH));
		ASSERT_EQ(self->high, p);
		ASSERT_TRUE(all_are(cpu(p), 0, HIGH));
		memset(cpu(p), 0x77, HIGH);
		if (i % 10 == 0)
			usleep(1000);
	}
	ASSERT_CU(cuMemGetInfo(&after, &total));
	EXPECT_EQ(before, after);
}

struct churn {
	pthread_t thread;
	CUcontext ctx;
	unsigned int seed, wrong;
	CUresult result;
};

static void *churn(void *arg)
{
	enum { N = 6 };
	struct churn *churn = arg;
	CUdeviceptr p[N] = {};
	size_t bytes[N];

	churn->result = cuCtxSetCurrent(churn->ctx);
	for (int i = 0; i < 600 && !churn->result; i++) {
		unsigned int at = rand_r(&churn->seed) % N;

		if (p[at]) {
			churn->wrong += !all_are(cpu(p[at]), 0x80 + at, bytes[at]);
			churn->result = cuMemFree(p[at]);
			p[at] = 0;
			continue;
		}
		bytes[at] = 512 + rand_r(&churn->seed) % (i % 3 ? 64 * KIB : 512 * KIB);
		churn->result = cuMemAlloc(&p[at], bytes[at]);
		if (churn->result)
			break;
		churn->wrong += !all_are(cpu(p[at]), 0, bytes[at]);
		memset(cpu(p[at]), 0x80 + at, bytes[at]);
		if (i % 16 == 0)
			usleep(rand_r(&churn->seed) % 2000);
	}
	for (int i = 0; i < N; i++)
		if (p[i])
			cuMemFree(p[i]);
	return NULL;
}

TEST_F_TIMEOUT(clear, threads, 300)
{
	enum { N = 4 };
	struct churn churns[N] = {};

	for (unsigned int i = 0; i < N; i++) {
		churns[i].ctx = self->ctx;
		churns[i].seed = i + 1;
		ASSERT_EQ(0, pthread_create(&churns[i].thread, NULL, churn, &churns[i]));
	}
	for (unsigned int i = 0; i < N; i++) {
		pthread_join(churns[i].thread, NULL);
		EXPECT_CU(churns[i].result);
		EXPECT_EQ(0, churns[i].wrong);
	}
	EXPECT_TRUE(passes());
	EXPECT_TRUE(all_are(cpu(self->low), 0x22, LOW));
	EXPECT_TRUE(all_are(cpu(self->high), 0x33, HIGH));
}

static int in_child(void *arg)
{
	CUdeviceptr p;

	(void)arg;
	return cleaner() || cuMemAlloc(&p, HIGH) != CUDA_ERROR_NOT_INITIALIZED;
}

/* A forked child has no such thread and cannot allocate; the parent's thread continues. */
TEST_F_TIMEOUT(clear, forked, 200)
{
	STOP_IN(self->high, 0);
	EXPECT_EQ(0, run_child(in_child, NULL));
	GO_ON(self->high, 0);
	EXPECT_TRUE(becomes(self->high, 0, HIGH));
	EXPECT_EQ(0, run_child(in_child, NULL));
	EXPECT_TRUE(passes());
}

/* Whether a thread sleeps until it is woken: in futex() without a time-out. */
static bool sleeps_for_good(pid_t tid)
{
	unsigned long long word, op, value, timeout;
	char path[64], text[256] = "";
	long number;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
	f = fopen(path, "r");
	if (!f)
		return false;
	if (!fgets(text, sizeof(text), f))
		text[0] = 0;
	fclose(f);
	return sscanf(text, "%ld %llx %llx %llx %llx", &number, &word, &op, &value,
		      &timeout) == 5 && number == SYS_futex && !timeout;
}

/* While the process frees nothing, the thread sleeps without a time-out; a free wakes it. */
TEST_F_TIMEOUT(clear, idle, 400)
{
	pid_t tid = cleaner();

	ASSERT_LT(0, tid);
	for (int i = 0; i < 2; i++) {
		for (int k = 0; k < PATIENCE * 100 && !sleeps_for_good(tid); k++)
			usleep(10000);
		ASSERT_TRUE(sleeps_for_good(tid));
		ASSERT_CU(cuMemFree(i ? self->low : self->high));
		EXPECT_TRUE(becomes(i ? self->low : self->high, 0, i ? LOW : HIGH));
	}
	EXPECT_EQ(tid, cleaner());
}

/* Without the thread, callers clear. */
TEST(off)
{
	CUdeviceptr keep, p;
	CUcontext ctx;

	if (strict())
		SKIP(return, "the engine clears device memory in strict mode");
	setenv("GPUMEM_CLEAR", "0", 1);
	ASSERT_CU(cuda_start(&ctx));
	ASSERT_CU(cuMemAlloc(&keep, 256));
	for (int i = 0; i < 32; i++) {
		ASSERT_CU(cuMemAlloc(&p, MIB));
		EXPECT_TRUE(all_are(cpu(p), 0, MIB));
		memset(cpu(p), 0x5a, MIB);
		ASSERT_CU(cuMemFree(p));
		EXPECT_TRUE(all_are(cpu(p), 0x5a, MIB));
	}
	EXPECT_EQ(0, cleaner());
}

/* A program that frees no more than a little has no such thread. */
TEST(small)
{
	CUdeviceptr keep, p;
	CUcontext ctx;

	if (strict())
		SKIP(return, "the engine clears device memory in strict mode");
	ASSERT_CU(cuda_start(&ctx));
	ASSERT_CU(cuMemAlloc(&keep, 256));
	for (int i = 0; i < 1000; i++) {
		ASSERT_CU(cuMemAlloc(&p, 15 * KIB));
		memset(cpu(p), 0x5a, 15 * KIB);
		ASSERT_CU(cuMemFree(p));
	}
	EXPECT_EQ(0, cleaner());
}

TEST_HARNESS_MAIN
