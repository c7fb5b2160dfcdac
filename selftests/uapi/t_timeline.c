// SPDX-License-Identifier: GPL-2.0
/*
 * Timelines: waits and signals of streams, and GPUMEM_TIMELINE_WAIT: deadlines, many waiters,
 * signals, and a stream that is destroyed under a waiter.
 */
#include <pthread.h>
#include <signal.h>

#include "kselftest_harness.h"
#include "common/stream_fixture.h"

STREAM_FIXTURE(timeline)

/* --- waits and signals */

TEST_F(timeline, wait_and_signal)
{
	__u32 timeline;
	const struct gpumem_timeline_page *page;
	struct gpumem_sqe sqe;

	ASSERT_EQ(0, gp_timeline_create(self->fd, 10, &timeline));
	page = gp_map(self->fd, timeline, 0, page_size, PROT_READ);
	ASSERT_NE(NULL, page);
	EXPECT_EQ(10, page->value);
	sqe = sqe_wait(timeline, 10);
	ASSERT_EQ(0, stream_push(&self->s, &sqe));
	EXPECT_EQ(0, stream_sync(&self->s));
	sqe = sqe_wait(timeline, 11);
	ASSERT_EQ(0, stream_push(&self->s, &sqe));
	sqe = sqe_fill(ADDR, 1, 5, 1);
	ASSERT_EQ(0, stream_push(&self->s, &sqe));
	sqe = sqe_signal(timeline, 20);
	ASSERT_EQ(0, stream_push(&self->s, &sqe));
	sqe = sqe_signal(timeline, 15);
	ASSERT_EQ(0, stream_push(&self->s, &sqe));
	EXPECT_EQ(-ETIMEDOUT, stream_wait(&self->s, 2, 0.1));
	EXPECT_EQ(1, self->s.page->value);
	EXPECT_EQ(0, self->p[0]);
	/* A doorbell does not end the wait.  */
	EXPECT_EQ(0, gp_doorbell(self->fd, self->s.id));
	EXPECT_EQ(-ETIMEDOUT, stream_wait(&self->s, 2, 0.05));
	EXPECT_EQ(0, gp_timeline_signal(self->fd, timeline, 11));
	EXPECT_EQ(0, stream_sync(&self->s));
	EXPECT_EQ(5, self->p[0]);
	/* The lower value changed nothing. */
	EXPECT_EQ(20, page->value);
	EXPECT_EQ(0, gp_timeline_signal(self->fd, timeline, 19));
	EXPECT_EQ(20, page->value);
	EXPECT_EQ(0, gp_timeline_wait(self->fd, timeline, 20, 0, NULL));
	EXPECT_EQ(-ETIMEDOUT, gp_timeline_wait(self->fd, timeline, 21, 0, NULL));
	EXPECT_EQ(0, gp_timeline_signal(self->fd, timeline, ~0ULL));
	EXPECT_EQ(~0ULL, page->value);
}

TEST_F(timeline, a_streams_timeline_is_its_own)
{
	struct stream t;

	ASSERT_EQ(0, stream_open(&t, self->fd, self->vm, 0, 16));
	EXPECT_EQ(-EINVAL, gp_timeline_signal(self->fd, self->s.timeline, 1));
	EXPECT_EQ(EINVAL, stream_error_of(self->fd, self->vm, sqe_signal(self->s.timeline, 1)));
	EXPECT_EQ(0, self->s.page->value);
	EXPECT_EQ(ENOENT, stream_error_of(self->fd, self->vm, sqe_signal(self->s.id, 1)));
	EXPECT_EQ(ENOENT, stream_error_of(self->fd, self->vm, sqe_wait(self->bo, 1)));
	EXPECT_EQ(ENOENT, stream_error_of(self->fd, self->vm, sqe_wait(0x3fffff, 1)));
	EXPECT_EQ(0, self->s.page->error);
}

/* Many streams, each of which waits for the one before it.  The last is submitted first.  */
TEST_F(timeline, chain)
{
	enum { N = 32 };
	struct stream s[N];
	struct gpumem_sqe sqe;

	for (int i = 0; i < N; i++) {
		ASSERT_EQ(0, stream_open(&s[i], self->fd, self->vm, 0, 16));
	}
	for (int i = N - 1; i >= 0; i--) {
		if (i) {
			sqe = sqe_wait(s[i - 1].timeline, 3);
			ASSERT_EQ(0, stream_push(&s[i], &sqe));
			sqe = sqe_copy(ADDR + 8 * i, ADDR + 8 * (i - 1), 8);
		} else {
			sqe = sqe_nop();
			ASSERT_EQ(0, stream_push(&s[i], &sqe));
			sqe = sqe_fill(ADDR, 8, 0xfeed, 1);
		}
		ASSERT_EQ(0, stream_push(&s[i], &sqe));
		sqe = sqe_nop();
		if (i) {
			ASSERT_EQ(0, s[i].page->value);
		}
		ASSERT_EQ(0, stream_push(&s[i], &sqe));
	}
	EXPECT_EQ(0, stream_sync(&s[N - 1]));
	EXPECT_EQ(0xfeed, ((__u64 *)self->p)[N - 1]);
	for (int i = 0; i < N; i++) {
		EXPECT_EQ(0, stream_close(&s[i]));
	}
}

/* Two streams wait for each other by turns.  */
TEST_F_TIMEOUT(timeline, ping_pong, 120)
{
	enum { ROUNDS = 500 };
	struct gpumem_sqe sqe;
	struct stream t;
	__u32 ping, pong;

	ASSERT_EQ(0, stream_open(&t, self->fd, self->vm, 0, 16));
	ASSERT_EQ(0, gp_timeline_create(self->fd, 0, &ping));
	ASSERT_EQ(0, gp_timeline_create(self->fd, 0, &pong));
	for (__u64 i = 1; i <= ROUNDS; i++) {
		sqe = sqe_wait(pong, i - 1);
		ASSERT_EQ(0, stream_push(&self->s, &sqe));
		sqe = sqe_fill(ADDR, 4, i, 1);
		ASSERT_EQ(0, stream_push(&self->s, &sqe));
		sqe = sqe_signal(ping, i);
		ASSERT_EQ(0, stream_push(&self->s, &sqe));
		sqe = sqe_wait(ping, i);
		ASSERT_EQ(0, stream_push(&t, &sqe));
		sqe = sqe_copy(ADDR + MIB + 4 * i, ADDR, 4);
		ASSERT_EQ(0, stream_push(&t, &sqe));
		sqe = sqe_signal(pong, i);
		ASSERT_EQ(0, stream_push(&t, &sqe));
	}
	EXPECT_EQ(0, stream_sync(&t));
	EXPECT_EQ(0, stream_sync(&self->s));
	for (__u32 i = 1; i <= ROUNDS; i++) {
		ASSERT_EQ(i, ((__u32 *)(self->p + MIB))[i]);
	}
	EXPECT_EQ(0, stream_close(&t));
}

/* --- GPUMEM_TIMELINE_WAIT */

TEST_F(timeline, deadlines)
{
	struct gpumem_timeline_wait w;
	__u32 timeline;
	__u64 before;

	ASSERT_EQ(0, gp_timeline_create(self->fd, 5, &timeline));
	before = mono_ns();
	EXPECT_EQ(0, gp_timeline_wait(self->fd, timeline, 5, 0, &w));
	EXPECT_EQ(5, w.reached);
	EXPECT_EQ(0, w.error);
	EXPECT_EQ(0, gp_timeline_wait(self->fd, timeline, 0, FOREVER, &w));
	EXPECT_EQ(-ETIMEDOUT, gp_timeline_wait(self->fd, timeline, 6, 0, &w));
	EXPECT_EQ(5, w.reached);
	EXPECT_EQ(-ETIMEDOUT, gp_timeline_wait(self->fd, timeline, 6, 1, &w));
	EXPECT_EQ(-ETIMEDOUT, gp_timeline_wait(self->fd, timeline, 6, before, &w));
	EXPECT_GT(in_seconds(-1), before - 2 * NSEC);
	before = mono_ns();
	EXPECT_EQ(-ETIMEDOUT, gp_timeline_wait(self->fd, timeline, 6, before + NSEC / 10, &w));
	EXPECT_LE(before + NSEC / 10, mono_ns());
	EXPECT_EQ(5, w.reached);
	EXPECT_EQ(0, w.error);
}

struct waiter {
	int fd;
	__u32 timeline;
	__u64 value, deadline;
	int ret;
	struct gpumem_timeline_wait out;
	pthread_t thread;
};

static void *waiter_main(void *arg)
{
	struct waiter *w = arg;

	w->ret = gp_timeline_wait(w->fd, w->timeline, w->value, w->deadline, &w->out);
	return NULL;
}

TEST_F(timeline, waiters_of_many_values)
{
	enum { N = 16 };
	struct waiter w[N];
	__u32 timeline;

	ASSERT_EQ(0, gp_timeline_create(self->fd, 0, &timeline));
	for (int i = 0; i < N; i++) {
		w[i] = (struct waiter) {
			.fd = self->fd, .timeline = timeline, .value = i + 1,
			.deadline = i % 2 ? FOREVER : in_seconds(20), .ret = 1,
		};
		ASSERT_EQ(0, pthread_create(&w[i].thread, NULL, waiter_main, &w[i]));
	}
	nap_ms(50);
	for (int i = 0; i < N; i += 2) {
		EXPECT_EQ(0, gp_timeline_signal(self->fd, timeline, i + 2));
		pthread_join(w[i].thread, NULL);
		pthread_join(w[i + 1].thread, NULL);
		EXPECT_EQ(0, w[i].ret);
		EXPECT_EQ(0, w[i + 1].ret);
		EXPECT_EQ((__u64)i + 2, w[i].out.reached);
		EXPECT_EQ(0, w[i].out.error);
		if (i + 2 < N) {
			EXPECT_EQ(1, w[i + 2].ret);
		}
	}
}

struct bell {
	struct stream *s;
	int n, stop;
	pthread_t thread;
};

/* Rings doorbells of streams that wait, perhaps while they are being woken.  */
static void *bell_main(void *arg)
{
	struct bell *bell = arg;

	while (!__atomic_load_n(&bell->stop, __ATOMIC_RELAXED))
		for (int i = 0; i < bell->n; i++)
			gp_doorbell(bell->s[i].fd, bell->s[i].id);
	return NULL;
}

static bool all_taken(struct stream *s, int n, __u64 head)
{
	for (int tries = 0; tries < 3000; tries++) {
		int i = 0;

		while (i < n && __atomic_load_n(&s[i].page->head, __ATOMIC_ACQUIRE) >= head)
			i++;
		if (i == n)
			return true;
		nap_ms(10);
	}
	return false;
}

/* Many more waits for one timeline, each for a different value, than the module wakes at a time. */
TEST_F_TIMEOUT(timeline, thousands_of_waits, 120)
{
	enum { MOST = 2000, SLEEPERS = 50 };
	__u64 steps = env_number("GPUMEM_STEPS", 5000);
	/* Streams take long on a debug kernel.  */
	int n = steps < 5000 ? steps / 8 + 1 : MOST;
	struct stream *s = calloc(n, sizeof(*s));
	struct waiter w[SLEEPERS];
	struct bell bell = { .s = s, .n = n };
	struct gpumem_timeline_wait out;
	struct gpumem_sqe sqe;
	__u32 timeline, never;

	ASSERT_NE(NULL, s);
	ASSERT_EQ(0, gp_timeline_create(self->fd, 0, &timeline));
	ASSERT_EQ(0, gp_timeline_create(self->fd, 0, &never));
	/* 7919 is a prime: every value is waited for once. */
	for (int i = 0; i < n; i++) {
		ASSERT_EQ(0, stream_open(&s[i], self->fd, self->vm, 0, 16));
		sqe = sqe_wait(timeline, 1 + i * 7919LL % n);
		ASSERT_EQ(0, stream_push(&s[i], &sqe));
		sqe = sqe_wait(never, 1 + i);
		ASSERT_EQ(0, stream_push(&s[i], &sqe));
	}
	for (int i = 0; i < SLEEPERS; i++) {
		w[i] = (struct waiter) {
			.fd = self->fd, .timeline = timeline, .deadline = FOREVER, .ret = 1,
			.value = 1 + (__u64)n * i / SLEEPERS,
		};
		ASSERT_EQ(0, pthread_create(&w[i].thread, NULL, waiter_main, &w[i]));
	}
	ASSERT_TRUE(all_taken(s, n, 1));
	ASSERT_EQ(0, gp_timeline_signal(self->fd, timeline, n / 2));
	for (int i = 0; i < n; i++)
		if (1 + i * 7919LL % n <= n / 2)
			ASSERT_EQ(0, stream_wait(&s[i], 1, 20));
	for (int i = 0; i < n; i++)
		if (1 + i * 7919LL % n > n / 2)
			ASSERT_EQ(0, s[i].page->value);
	ASSERT_EQ(0, pthread_create(&bell.thread, NULL, bell_main, &bell));
	ASSERT_EQ(0, gp_timeline_signal(self->fd, timeline, n));
	for (int i = 0; i < n; i++)
		ASSERT_EQ(0, stream_wait(&s[i], 1, 20));
	for (int i = 0; i < SLEEPERS; i++) {
		pthread_join(w[i].thread, NULL);
		EXPECT_EQ(0, w[i].ret);
		EXPECT_LE(w[i].value, w[i].out.reached);
	}
	ASSERT_TRUE(all_taken(s, n, 2));
	__atomic_store_n(&bell.stop, 1, __ATOMIC_RELAXED);
	pthread_join(bell.thread, NULL);
	/* All waiters are woken at once with an error, also those whose streams are destroyed. */
	for (int i = 0; i < n; i += 2)
		ASSERT_EQ(0, gp_destroy(self->fd, s[i].id));
	ASSERT_EQ(0, gp_destroy(self->fd, never));
	for (int i = 0; i < n; i++) {
		ASSERT_EQ(-EIO, gp_timeline_wait(self->fd, s[i].timeline, 2, in_seconds(20), &out));
		ASSERT_EQ((__u32)ECANCELED, out.error);
	}
	for (int i = 0; i < n; i++) {
		munmap(s[i].ring, s[i].ring_size);
		munmap((void *)s[i].page, page_size);
	}
	free(s);
}

/* The destruction of a timeline wakes all threads and streams that wait for it. */
TEST_F(timeline, destroyed_under_a_waiter)
{
	struct waiter w = { .fd = self->fd, .value = 1, .deadline = FOREVER, .ret = 1 };
	struct gpumem_timeline_wait out;
	struct gpumem_sqe sqe;

	ASSERT_EQ(0, gp_timeline_create(self->fd, 0, &w.timeline));
	ASSERT_EQ(0, pthread_create(&w.thread, NULL, waiter_main, &w));
	sqe = sqe_wait(w.timeline, 1);
	ASSERT_EQ(0, stream_push(&self->s, &sqe));
	nap_ms(50);
	EXPECT_EQ(0, gp_destroy(self->fd, w.timeline));
	pthread_join(w.thread, NULL);
	EXPECT_EQ(-EIO, w.ret);
	EXPECT_NE(0, w.out.error);
	EXPECT_EQ(0, w.out.reached);
	/* A stream that waited for the timeline gets the same error.  */
	EXPECT_EQ(-EIO, gp_timeline_wait(self->fd, self->s.timeline, 1, in_seconds(10), &out));
	EXPECT_EQ(w.out.error, out.error);
}

/*
 * The worker of an idle stream holds the address space, and no call will wake it later: closing the
 * stream must end it.
 */
TEST_F(timeline, an_idle_stream_goes)
{
	struct gpumem_sqe sqe = sqe_nop();

	ASSERT_EQ(0, stream_push(&self->s, &sqe));
	EXPECT_EQ(0, stream_sync(&self->s));
	nap_ms(50);
	EXPECT_EQ(0, stream_close(&self->s));
	EXPECT_EQ(0, gp_destroy(self->fd, self->vm));
	EXPECT_EQ(0, gp_destroy(self->fd, self->bo));
	unmap_all();
	EXPECT_TRUE(dev_attr_becomes(0, "bos", 0, 10));
}

static volatile sig_atomic_t caught;

static void catch(int sig)
{
	caught = sig;
}

static void *poke(void *arg)
{
	nap_ms(100);
	pthread_kill(*(pthread_t *)arg, SIGUSR1);
	return NULL;
}

TEST_F(timeline, interrupted)
{
	struct sigaction sa = { .sa_handler = catch };
	pthread_t me = pthread_self(), t;
	__u32 timeline;
	__u64 before;

	ASSERT_EQ(0, gp_timeline_create(self->fd, 0, &timeline));
	ASSERT_EQ(0, sigaction(SIGUSR1, &sa, NULL));
	ASSERT_EQ(0, pthread_create(&t, NULL, poke, &me));
	EXPECT_EQ(-EINTR, gp_timeline_wait(self->fd, timeline, 1, FOREVER, NULL));
	EXPECT_EQ(SIGUSR1, caught);
	pthread_join(t, NULL);
	/* The deadline is absolute: restarting does not move it. */
	sa.sa_flags = SA_RESTART;
	caught = 0;
	ASSERT_EQ(0, sigaction(SIGUSR1, &sa, NULL));
	ASSERT_EQ(0, pthread_create(&t, NULL, poke, &me));
	before = mono_ns();
	EXPECT_EQ(-ETIMEDOUT, gp_timeline_wait(self->fd, timeline, 1, before + 3 * NSEC, NULL));
	EXPECT_EQ(SIGUSR1, caught);
	EXPECT_LE(before + 3 * NSEC, mono_ns());
	EXPECT_GT(before + 25 * NSEC, mono_ns());
	pthread_join(t, NULL);
}

TEST_HARNESS_MAIN
