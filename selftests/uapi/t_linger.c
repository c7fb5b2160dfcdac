// SPDX-License-Identifier: GPL-2.0
/*
 * Pages that other subsystems hold when the last user of a buffer object is gone.
 *
 * Waiting for their holders costs nothing while no allocation lacks room.  An allocation that finds
 * no room checks whether they are gone.  No call waits for a CPU that a real-time task occupies.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "common/client_fixture.h"
#include "common/pool_util.h"

#define BYTES	(2 * MIB)
#define RW	(PROT_READ | PROT_WRITE)

/*
 * *Lingering* is a file of an object whose last user is gone and whose pages others hold.  The
 * module retries to free it by itself for 2.5 seconds.
 */
#define PAST_RETRIES_MS	2800

FIXTURE(linger)
{
	struct leak_state leak;
	int fd;
	int ends[2];
};

FIXTURE_SETUP(linger)
{
	client_begin(_metadata, &self->leak, &self->fd);
	ASSERT_EQ(0, pipe2(self->ends, O_CLOEXEC));
}

FIXTURE_TEARDOWN(linger)
{
	close(self->ends[0]);
	close(self->ends[1]);
	client_end(_metadata, &self->leak, self->fd, 10);
}

/* Puts the first page of an object into a pipe and destroys the object's id. */
static int hold_and_destroy(int fd, __u32 id, __u64 length, int pipe_end)
{
	void *p = gp_map(fd, id, 0, length, RW);
	struct iovec io = { p, page_size };
	ssize_t n;

	if (!p)
		return -errno;
	*(volatile char *)p = 1;
	n = vmsplice(pipe_end, &io, 1, SPLICE_F_NONBLOCK);
	munmap(p, length);
	return n == (ssize_t)page_size ? gp_destroy(fd, id) : -EIO;
}

static __u64 total(int fd)
{
	struct gpumem_info info;

	return gp_info(fd, 0, &info) ? 0 : info.total;
}

/* Ticks that all CPUs spent in the kernel. */
static unsigned long long system_ticks(void)
{
	unsigned long long user, nice, sys = 0, idle, wait, irq = 0, soft = 0;
	FILE *f = fopen("/proc/stat", "re");

	if (f) {
		if (fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &sys, &idle,
			   &wait, &irq, &soft) != 7)
			sys = 0;
		fclose(f);
	}
	return sys + irq + soft;
}

static unsigned long long idle_cost(unsigned int ms)
{
	unsigned long long before = system_ticks();

	nap_ms(ms);
	return system_ticks() - before;
}

struct crowd {
	int fd;
	unsigned int files, pipes;
	int ends[64][2];
};

/* Makes @files lingering files of one page each.  */
static int crowd_make(struct crowd *c, unsigned int files)
{
	unsigned int room = 0;
	__u32 id;
	int ret;

	for (c->files = 0; c->files < files; c->files++, room--) {
		if (!room) {
			int *ends = c->ends[c->pipes];

			if (c->pipes == ARRAY_SIZE(c->ends) || pipe2(ends, O_CLOEXEC))
				return -EMFILE;
			c->pipes++;
			ret = fcntl(ends[1], F_SETPIPE_SZ, 1 << 20);
			if (ret < 0)
				return -errno;
			room = ret / page_size;
		}
		ret = gp_bo_alloc(c->fd, page_size, &id);
		if (!ret)
			ret = hold_and_destroy(c->fd, id, page_size, c->ends[c->pipes - 1][1]);
		if (ret)
			return ret;
	}
	return 0;
}

static void crowd_end(struct crowd *c)
{
	while (c->pipes--) {
		close(c->ends[c->pipes][0]);
		close(c->ends[c->pipes][1]);
	}
}

/* An idle machine with many such files is as idle as without. */
TEST_F(linger, idle)
{
	const unsigned int window = 2500, files = env_number("GPUMEM_LINGER_FILES", 4000);
	struct crowd crowd = { .fd = self->fd };
	unsigned long long quiet, with, window_ticks;

	nap_ms(500);
	quiet = idle_cost(window);
	EXPECT_EQ(0, crowd_make(&crowd, files));
	EXPECT_EQ(files, crowd.files);
	EXPECT_LE(files * page_size, dev_attr(0, "used"));
	nap_ms(PAST_RETRIES_MS);
	with = idle_cost(window);
	/*
	 * Ticks of all CPUs together.  The window includes two or three runs of work that is done
	 * every second.
	 */
	window_ticks = (unsigned long long)sysconf(_SC_NPROCESSORS_ONLN) * window *
		       sysconf(_SC_CLK_TCK) / 1000;
	printf("# %u files: %llu ticks of %llu, without %llu\n", files, with, window_ticks, quiet);
	EXPECT_LE(with, quiet + window_ticks / 20);
	crowd_end(&crowd);
	EXPECT_TRUE(dev_attr_becomes(0, "used", 0, 10));
}

/* Much memory counts as used although its holders are gone: an allocation checks and finds room. */
TEST_F(linger, room_at_once)
{
	__u64 length = total(self->fd) / 10 * 6 / BYTES * BYTES;
	__u32 id;

	ASSERT_EQ(0, gp_bo_alloc(self->fd, length, &id));
	ASSERT_EQ(0, hold_and_destroy(self->fd, id, length, self->ends[1]));
	EXPECT_EQ(-ENOSPC, gp_bo_alloc(self->fd, length, &id));
	nap_ms(PAST_RETRIES_MS);
	EXPECT_EQ(-ENOSPC, gp_bo_alloc(self->fd, length, &id));
	close(self->ends[0]);
	close(self->ends[1]);
	EXPECT_EQ(0, gp_bo_alloc(self->fd, length, &id));
	ASSERT_EQ(0, pipe2(self->ends, O_CLOEXEC));
}

/* The same for a pool's limit. */
TEST_F(linger, room_in_a_pool)
{
	__u32 pool, id;

	ASSERT_EQ(0, gp_pool_create(self->fd, 0, 0, BYTES, "limited", &pool));
	ASSERT_EQ(0, gp_pool_chunk(self->fd, pool, BYTES, &id, NULL));
	ASSERT_EQ(0, hold_and_destroy(self->fd, id, BYTES, self->ends[1]));
	nap_ms(PAST_RETRIES_MS);
	EXPECT_EQ(-EDQUOT, gp_pool_chunk(self->fd, pool, BYTES, &id, NULL));
	close(self->ends[0]);
	close(self->ends[1]);
	EXPECT_EQ(0, gp_pool_chunk(self->fd, pool, BYTES, &id, NULL));
	ASSERT_EQ(0, pipe2(self->ends, O_CLOEXEC));
}

/*
 * Reading the attribute "used" checks for gone holders, too, so a user can see that the device is
 * free.
 */
TEST_F(linger, reading_looks)
{
	__u32 id;

	ASSERT_EQ(0, gp_bo_alloc(self->fd, BYTES, &id));
	ASSERT_EQ(0, hold_and_destroy(self->fd, id, BYTES, self->ends[1]));
	nap_ms(PAST_RETRIES_MS);
	EXPECT_EQ(BYTES, dev_attr(0, "used"));
	close(self->ends[0]);
	close(self->ends[1]);
	EXPECT_EQ(0, dev_attr(0, "used"));
	ASSERT_EQ(0, pipe2(self->ends, O_CLOEXEC));
}

/* A release checks lingering files, too, so files whose holders are gone do not accumulate.  */
TEST_F(linger, release_looks)
{
	struct crowd crowd = { .fd = self->fd };
	/* Each release frees two; reading "used" below frees 64 at most. */
	const unsigned int files = 200;
	__u32 id;

	ASSERT_EQ(0, crowd_make(&crowd, files));
	nap_ms(PAST_RETRIES_MS);
	crowd_end(&crowd);
	for (unsigned int i = 0; i < files / 2; i++) {
		ASSERT_EQ(0, gp_bo_alloc(self->fd, page_size, &id));
		ASSERT_EQ(0, gp_destroy(self->fd, id));
	}
	EXPECT_EQ(0, dev_attr(0, "used"));
}

struct hog {
	int cpu;
	unsigned int ms;
	atomic_int state;	/* 1 running, 2 over, -1 not allowed */
};

static void *hog_run(void *arg)
{
	struct sched_param param = { .sched_priority = 50 };
	struct hog *hog = arg;
	cpu_set_t set;
	__u64 end;

	CPU_ZERO(&set);
	CPU_SET(hog->cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set) ||
	    sched_setscheduler(0, SCHED_FIFO, &param)) {
		atomic_store(&hog->state, -1);
		return NULL;
	}
	end = mono_ns() + hog->ms * 1000000ULL;
	atomic_store(&hog->state, 1);
	while (mono_ns() < end)
		;
	atomic_store(&hog->state, 2);
	return NULL;
}

static long rt_runtime(long value)
{
	FILE *f = fopen("/proc/sys/kernel/sched_rt_runtime_us", "r+e");
	long old = 0;

	if (!f)
		return 0;
	if (fscanf(f, "%ld", &old) != 1)
		old = 0;
	rewind(f);
	fprintf(f, "%ld\n", value);
	fclose(f);
	return old;
}

/*
 * While a real-time task occupies a CPU, that CPU's LRU batches are not emptied.  Neither
 * GPUMEM_BO_RETIRE nor discarding nor an allocation that finds no room waits for it.
 */
TEST_F_TIMEOUT(linger, hog, 60)
{
	struct hog hog = { .cpu = 1, .ms = env_number("GPUMEM_HOG_MS", 2000) };
	__u64 length = total(self->fd) / 10 * 6 / BYTES * BYTES, begin, took, worst = 0;
	__u32 small, big, other, live;
	unsigned int calls = 0;
	struct iovec io;
	pthread_t thread;
	cpu_set_t set;
	long old;
	char *p;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		SKIP(return, "needs two processors");
	CPU_ZERO(&set);
	CPU_SET(0, &set);
	ASSERT_EQ(0, sched_setaffinity(0, sizeof(set), &set));
	/* An mlocked page could be in the batch of any CPU. */
	p = gp_alloc_map(self->fd, page_size, &small);
	ASSERT_NE(NULL, p);
	ASSERT_EQ(0, mlock(p, page_size));
	*p = 1;
	io = (struct iovec) { p, page_size };
	ASSERT_EQ(page_size, vmsplice(self->ends[1], &io, 1, 0));
	ASSERT_EQ(0, gp_bo_alloc(self->fd, length, &big));
	old = rt_runtime(-1);
	ASSERT_EQ(0, pthread_create(&thread, NULL, hog_run, &hog));
	while (!atomic_load(&hog.state))
		sched_yield();
	EXPECT_EQ(1, atomic_load(&hog.state));
	while (calls < 20 && atomic_load(&hog.state) == 1) {
		begin = mono_ns();
		EXPECT_EQ(0, gp_bo_retire(self->fd, small, 0, page_size, 0, &live));
		EXPECT_EQ(1, live);
		EXPECT_EQ(-ENOSPC, gp_bo_alloc(self->fd, length, &other));
		took = mono_ns() - begin;
		worst = took > worst ? took : worst;
		calls++;
	}
	/* All of these calls returned while the hog still ran.  */
	EXPECT_EQ(1, atomic_load(&hog.state));
	pthread_join(thread, NULL);
	rt_runtime(old);
	printf("# %u times; at worst %llu us, the CPU was occupied for %u us\n", calls,
	       (unsigned long long)worst / 1000, hog.ms * 1000);
	EXPECT_EQ(20, calls);
	EXPECT_LT(worst, hog.ms * 1000000ULL / 4);
}

TEST_HARNESS_MAIN
