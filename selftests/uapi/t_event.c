// SPDX-License-Identifier: GPL-2.0
/*
 * Events that processes share, and the ring entries that wait for words and add to timelines.
 *
 * Tests the state of an event, the right to open it, the error for waiters when the recording
 * process is gone, and that nothing is left behind.  A second client replaces the other process
 * where that makes no difference; otherwise the test starts a process.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "common/stream_fixture.h"

STREAM_FIXTURE(event)

#define EVENT_STATE(fd, id)						\
	({								\
		struct gpumem_event_get get_;				\
		int ret_ = gp_event_get(fd, id, GPUMEM_EVENT_GET_QUERY, &get_);	\
									\
		ret_ ? ret_ : (int)get_.state;				\
	})

/* Blocks a stream until @timeline is signalled with 1.  */
static int hold(struct stream *s, __u32 *timeline)
{
	struct gpumem_sqe wait;
	int ret = gp_timeline_create(s->fd, 0, timeline);

	if (ret)
		return ret;
	wait = sqe_wait(*timeline, 1);
	return stream_push(s, &wait);
}

TEST_F(event, never_recorded_is_complete)
{
	struct gpumem_event_get get;
	__u32 id;

	ASSERT_EQ(0, gp_event_create(self->fd, &id, NULL));
	EXPECT_EQ(0, gp_event_get(self->fd, id, 0, &get));
	EXPECT_EQ(GPUMEM_EVENT_COMPLETE, get.state);
	EXPECT_EQ(0, get.timeline);
	EXPECT_EQ(0, gp_destroy(self->fd, id));
	EXPECT_EQ(-ENOENT, gp_event_get(self->fd, id, 0, &get));
}

TEST_F(event, pending_until_reached)
{
	struct gpumem_timeline_wait wait;
	struct gpumem_event_get get;
	__u32 id, gate;

	ASSERT_EQ(0, gp_event_create(self->fd, &id, NULL));
	ASSERT_EQ(0, hold(&self->s, &gate));
	ASSERT_EQ(0, gp_event_record(self->fd, id, self->s.timeline, self->s.tail));
	ASSERT_EQ(0, gp_event_get(self->fd, id, 0, &get));
	EXPECT_EQ(GPUMEM_EVENT_PENDING, get.state);
	EXPECT_EQ(self->s.tail, get.value);
	ASSERT_NE(0, get.timeline);
	EXPECT_NE(self->s.timeline, get.timeline);
	EXPECT_EQ(-ETIMEDOUT, gp_timeline_wait(self->fd, get.timeline, get.value, 0, &wait));
	ASSERT_EQ(0, gp_timeline_signal(self->fd, gate, 1));
	EXPECT_EQ(0, gp_timeline_wait(self->fd, get.timeline, get.value, FOREVER, &wait));
	EXPECT_EQ(GPUMEM_EVENT_COMPLETE, EVENT_STATE(self->fd, id));
	EXPECT_EQ(0, gp_destroy(self->fd, get.timeline));
}

/*
 * A wait is for the record of the time when the wait was made; a later record does not change it.
 */
TEST_F(event, recording_again_moves_no_wait)
{
	struct gpumem_timeline_wait wait;
	struct gpumem_event_get first;
	struct stream other;
	__u32 id, gate, gate2;

	ASSERT_EQ(0, stream_open(&other, self->fd, self->vm, 0, 16));
	ASSERT_EQ(0, gp_event_create(self->fd, &id, NULL));
	ASSERT_EQ(0, hold(&self->s, &gate));
	ASSERT_EQ(0, hold(&other, &gate2));
	ASSERT_EQ(0, gp_event_record(self->fd, id, self->s.timeline, self->s.tail));
	ASSERT_EQ(0, gp_event_get(self->fd, id, 0, &first));
	ASSERT_EQ(0, gp_event_record(self->fd, id, other.timeline, other.tail));
	ASSERT_EQ(0, gp_timeline_signal(self->fd, gate, 1));
	EXPECT_EQ(0, gp_timeline_wait(self->fd, first.timeline, first.value, FOREVER, &wait));
	EXPECT_EQ(GPUMEM_EVENT_PENDING, EVENT_STATE(self->fd, id));
	ASSERT_EQ(0, gp_event_record(self->fd, id, 0, 0));
	EXPECT_EQ(GPUMEM_EVENT_COMPLETE, EVENT_STATE(self->fd, id));
	ASSERT_EQ(0, gp_timeline_signal(self->fd, gate2, 1));
	EXPECT_EQ(0, stream_close(&other));
}

TEST_F(event, record_takes_own_streams_only)
{
	struct gpumem_event_get get;
	__u32 id, gate, timeline, theirs, result;
	__u8 name[GPUMEM_TOKEN_SIZE];
	int fd2 = gp_open(0);

	ASSERT_LE(0, fd2);
	ASSERT_EQ(0, gp_event_create(self->fd, &id, name));
	ASSERT_EQ(0, gp_timeline_create(self->fd, 0, &timeline));
	EXPECT_EQ(-EINVAL, gp_event_record(self->fd, id, timeline, 1));
	EXPECT_EQ(-EINVAL, gp_event_record(self->fd, id, 0, 1));
	EXPECT_EQ(-ENOENT, gp_event_record(self->fd, id, 12345, 1));
	EXPECT_EQ(-ENOENT, gp_event_record(self->fd, timeline, 0, 0));
	ASSERT_EQ(0, hold(&self->s, &gate));
	ASSERT_EQ(0, gp_event_record(self->fd, id, self->s.timeline, self->s.tail));
	/*
	 * A client may wait for another client's timeline, but neither record, signal nor map it.
	 */
	ASSERT_EQ(0, gp_event_open(fd2, name, &theirs, &result));
	EXPECT_EQ(0, result);
	ASSERT_EQ(0, gp_event_get(fd2, theirs, 0, &get));
	ASSERT_EQ(GPUMEM_EVENT_PENDING, get.state);
	EXPECT_EQ(-EINVAL, gp_event_record(fd2, theirs, get.timeline, get.value));
	EXPECT_EQ(-EINVAL, gp_timeline_signal(fd2, get.timeline, 5));
	EXPECT_NE(0, gp_map_errno(fd2, get.timeline, 0, page_size, PROT_READ, MAP_SHARED));
	ASSERT_EQ(0, gp_timeline_signal(self->fd, gate, 1));
	close(fd2);
}

TEST_F(event, open)
{
	__u8 name[GPUMEM_TOKEN_SIZE], wrong[GPUMEM_TOKEN_SIZE] = { 1 };
	__u32 id, a, b, result;

	ASSERT_EQ(0, gp_event_create(self->fd, &id, name));
	EXPECT_EQ(-ENOENT, gp_event_open(self->fd, wrong, &a, NULL));
	ASSERT_EQ(0, gp_event_open(self->fd, name, &a, &result));
	EXPECT_EQ(GPUMEM_EVENT_OPEN_OWN, result);
	ASSERT_EQ(0, gp_event_open(self->fd, name, &b, NULL));
	EXPECT_NE(a, b);
	/* The token ends with the id of the event's maker, the event with its last id.  */
	ASSERT_EQ(0, gp_destroy(self->fd, id));
	EXPECT_EQ(-ENOENT, gp_event_open(self->fd, name, &id, NULL));
	EXPECT_EQ(0, gp_event_record(self->fd, a, self->s.timeline, 1ULL << 40));
	EXPECT_EQ(GPUMEM_EVENT_PENDING, EVENT_STATE(self->fd, b));
}

static __u8 shared_name[GPUMEM_TOKEN_SIZE];

static int open_as_nobody(void *arg)
{
	__u32 id;
	int fd = gp_open(0), ret;

	(void)arg;
	if (fd < 0 || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
		return 100;
	ret = gp_event_open(fd, shared_name, &id, NULL);
	return ret == -EACCES ? 0 : 1;
}

TEST_F(event, another_user_may_not_open)
{
	__u32 id;

	ASSERT_EQ(0, gp_event_create(self->fd, &id, shared_name));
	EXPECT_EQ(0, run_child(open_as_nobody, NULL));
}

/* Records the shared event in a stream that never advances, sends a byte, and waits for SIGKILL. */
static int record_and_hang(void *arg)
{
	__u32 vm, id, gate;
	struct stream s;
	int fd = gp_open(0), sock = *(int *)arg;

	if (fd < 0 || gp_vm_create(fd, &vm) || stream_open(&s, fd, vm, 0, 16) ||
	    hold(&s, &gate) || gp_event_open(fd, shared_name, &id, NULL) ||
	    gp_event_record(fd, id, s.timeline, s.tail))
		return 1;
	if (write(sock, "x", 1) != 1)
		return 2;
	for (;;)
		pause();
}

/* Threads and streams that wait for a dead process's work get an error. */
TEST_F(event, recorder_is_killed)
{
	struct gpumem_timeline_wait wait;
	struct gpumem_event_get get;
	struct gpumem_sqe sqe;
	int pair[2];
	__u32 id;
	char c;
	pid_t pid;

	ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	ASSERT_EQ(0, gp_event_create(self->fd, &id, shared_name));
	pid = start_child(record_and_hang, &pair[1]);
	ASSERT_LT(0, pid);
	ASSERT_EQ(1, read(pair[0], &c, 1));
	ASSERT_EQ(0, gp_event_get(self->fd, id, 0, &get));
	ASSERT_EQ(GPUMEM_EVENT_PENDING, get.state);
	sqe = sqe_wait(get.timeline, get.value);
	ASSERT_EQ(0, stream_push(&self->s, &sqe));
	EXPECT_EQ(-SIGKILL, kill_child(pid));
	EXPECT_EQ(-EIO, gp_timeline_wait(self->fd, get.timeline, get.value, FOREVER, &wait));
	EXPECT_EQ(ECANCELED, wait.error);
	EXPECT_EQ(GPUMEM_EVENT_LOST, EVENT_STATE(self->fd, id));
	EXPECT_EQ(-EIO, stream_wait(&self->s, self->s.tail, 10));
	EXPECT_EQ(ECANCELED, self->s.page->error);
	/* The next record makes the event useful again. */
	EXPECT_EQ(0, gp_event_record(self->fd, id, 0, 0));
	EXPECT_EQ(GPUMEM_EVENT_COMPLETE, EVENT_STATE(self->fd, id));
	close(pair[0]);
	close(pair[1]);
}

/* --- GPUMEM_OP_ADD */

TEST_F(event, add)
{
	struct gpumem_timeline_wait wait;
	struct gpumem_sqe sqe;
	__u32 timeline;

	ASSERT_EQ(0, gp_timeline_create(self->fd, 5, &timeline));
	sqe = sqe_add(timeline, 3);
	ASSERT_EQ(0, stream_push(&self->s, &sqe));
	ASSERT_EQ(0, stream_push(&self->s, &sqe));
	ASSERT_EQ(0, gp_timeline_wait(self->fd, timeline, 11, FOREVER, &wait));
	EXPECT_EQ(11, wait.reached);
	EXPECT_EQ(EOVERFLOW, stream_error_of(self->fd, self->vm, sqe_add(timeline, ~0ULL)));
	EXPECT_EQ(EINVAL, stream_error_of(self->fd, self->vm, sqe_add(self->s.timeline, 1)));
	EXPECT_EQ(ENOENT, stream_error_of(self->fd, self->vm, sqe_add(4242, 1)));
	EXPECT_EQ(EINVAL, stream_error_of(self->fd, self->vm, sqe_add(0, 1)));
	ASSERT_EQ(-ETIMEDOUT, gp_timeline_wait(self->fd, timeline, 12, 0, &wait));
	EXPECT_EQ(11, wait.reached);
}

/* GPUMEM_OP_ADD is the only entry that is executed after another one has failed.  */
TEST_F(event, add_after_failure)
{
	struct gpumem_timeline_wait wait;
	struct gpumem_sqe sqe = sqe_fill(0xdead000, 1, 0, 1);
	__u32 timeline;

	ASSERT_EQ(0, gp_timeline_create(self->fd, 0, &timeline));
	ASSERT_EQ(0, stream_push(&self->s, &sqe));
	sqe = sqe_add(timeline, 1);
	ASSERT_EQ(0, stream_push(&self->s, &sqe));
	sqe = sqe_signal(timeline, 7);
	ASSERT_EQ(0, stream_push(&self->s, &sqe));
	ASSERT_EQ(-EIO, stream_wait(&self->s, self->s.tail, 10));
	EXPECT_EQ(EFAULT, self->s.page->error);
	EXPECT_EQ(-ETIMEDOUT, gp_timeline_wait(self->fd, timeline, 7, 0, &wait));
	EXPECT_EQ(1, wait.reached);
}

/* --- GPUMEM_OP_POLL */

static const struct {
	__u32 how;
	__u8 size;
	__u64 before, value, after;
} polls[] = {
	{ GPUMEM_POLL_GEQ, 4, 4, 5, 5 },
	{ GPUMEM_POLL_GEQ, 4, 0xfffffff0, 5, 6 },
	{ GPUMEM_POLL_GEQ, 4, 5, 0xfffffff0 - 0x80000000ULL, 0x80000004 },
	{ GPUMEM_POLL_EQ, 4, 6, 5, 5 },
	{ GPUMEM_POLL_AND, 4, 8, 6, 2 },
	{ GPUMEM_POLL_NOR, 4, 0xffffffff, 0, 0xfffffffe },
	{ GPUMEM_POLL_NOR, 4, 0xfffffff0, 0xf, 0xefffffff },
	{ GPUMEM_POLL_GEQ, 8, 1ULL << 40, (1ULL << 40) + 1, 1ULL << 41 },
	{ GPUMEM_POLL_GEQ, 8, ~0ULL - 5, 5, 6 },
	{ GPUMEM_POLL_EQ, 8, 5 + (1ULL << 32), 5, 5 },
	{ GPUMEM_POLL_AND, 8, 1, 1ULL << 63, 1ULL << 63 },
	{ GPUMEM_POLL_NOR, 8, ~0ULL, 0, ~0ULL >> 1 },
};

static void put_word(unsigned char *p, unsigned int size, __u64 value)
{
	if (size == 4)
		__atomic_store_n((__u32 *)p, value, __ATOMIC_RELEASE);
	else
		__atomic_store_n((__u64 *)p, value, __ATOMIC_RELEASE);
}

/* The CPU stores to the word: the stream's timer sees it.  */
TEST_F(event, poll_sees_stores)
{
	for (unsigned int i = 0; i < ARRAY_SIZE(polls); i++) {
		struct gpumem_sqe sqe = sqe_poll(ADDR + 64, polls[i].size, polls[i].how,
						 polls[i].value);

		put_word(self->p + 64, polls[i].size, polls[i].before);
		ASSERT_EQ(0, stream_push(&self->s, &sqe));
		EXPECT_EQ(-ETIMEDOUT, stream_wait(&self->s, self->s.tail, 0.01)) {
			TH_LOG("row %u", i);
		}
		put_word(self->p + 64, polls[i].size, polls[i].after);
		EXPECT_EQ(0, stream_wait(&self->s, self->s.tail, 10)) {
			TH_LOG("row %u", i);
		}
		/* The condition is true when the wait begins.  */
		ASSERT_EQ(0, stream_push(&self->s, &sqe));
		EXPECT_EQ(0, stream_wait(&self->s, self->s.tail, 10)) {
			TH_LOG("row %u", i);
		}
	}
	EXPECT_EQ(0, self->s.page->error);
}

/* Another stream stores to the word.  Many streams at a time: each waits for the one before it.  */
TEST_F(event, poll_sees_streams)
{
	enum { STREAMS = 16 };
	struct stream s[STREAMS];
	struct gpumem_sqe sqe;

	for (unsigned int i = 0; i < STREAMS; i++) {
		ASSERT_EQ(0, stream_open(&s[i], self->fd, self->vm, 0, 16));
		sqe = sqe_poll(ADDR + 8 * i, 8, GPUMEM_POLL_EQ, 77);
		ASSERT_EQ(0, stream_push(&s[i], &sqe));
		sqe = sqe_fill(ADDR + 8 * (i + 1), 8, 77, 1);
		ASSERT_EQ(0, stream_push(&s[i], &sqe));
	}
	EXPECT_EQ(-ETIMEDOUT, stream_wait(&s[STREAMS - 1], 2, 0.01));
	sqe = sqe_fill(ADDR, 8, 77, 1);
	ASSERT_EQ(0, stream_push(&self->s, &sqe));
	EXPECT_EQ(0, stream_wait(&s[STREAMS - 1], 2, 10));
	for (unsigned int i = 0; i < STREAMS; i++)
		EXPECT_EQ(0, stream_close(&s[i]));
}

TEST_F(event, poll_checks)
{
	EXPECT_EQ(EINVAL, stream_error_of(self->fd, self->vm, sqe_poll(ADDR + 2, 4, 0, 0)));
	EXPECT_EQ(EINVAL, stream_error_of(self->fd, self->vm, sqe_poll(ADDR + 4, 8, 0, 0)));
	EXPECT_EQ(EINVAL, stream_error_of(self->fd, self->vm, sqe_poll(ADDR, 2, 0, 0)));
	EXPECT_EQ(EINVAL, stream_error_of(self->fd, self->vm, sqe_poll(ADDR, 0, 0, 0)));
	EXPECT_EQ(EINVAL, stream_error_of(self->fd, self->vm, sqe_poll(ADDR, 4, 0, 1ULL << 32)));
	EXPECT_EQ(EOPNOTSUPP, stream_error_of(self->fd, self->vm, sqe_poll(ADDR, 4, 4, 0)));
	EXPECT_EQ(EFAULT, stream_error_of(self->fd, self->vm, sqe_poll(ADDR + BYTES, 4, 0, 0)));
	EXPECT_EQ(0, stream_error_of(self->fd, self->vm, sqe_poll(ADDR + BYTES - 4, 4, 0, 0)));
	ASSERT_EQ(0, gp_vm_access(self->fd, self->vm, ADDR, BYTES, 0, 0));
	EXPECT_EQ(EACCES, stream_error_of(self->fd, self->vm, sqe_poll(ADDR, 4, 0, 0)));
}

/* The memory is unmapped while a stream waits for a word in it.  */
TEST_F(event, poll_loses_its_memory)
{
	struct gpumem_sqe sqe = sqe_poll(ADDR, 4, GPUMEM_POLL_EQ, 1);

	ASSERT_EQ(0, stream_push(&self->s, &sqe));
	EXPECT_EQ(-ETIMEDOUT, stream_wait(&self->s, 1, 0.01));
	ASSERT_EQ(0, gp_vm_unmap(self->fd, self->vm, ADDR, BYTES, NULL));
	EXPECT_EQ(-EIO, stream_wait(&self->s, 1, 10));
	EXPECT_EQ(EFAULT, self->s.page->error);
}

/*
 * A stream that is destroyed while it waits still executes its entries; a stream of a closed client
 * does not.
 */
TEST_F(event, poll_outlives_the_handle)
{
	struct gpumem_sqe sqe = sqe_poll(ADDR, 4, GPUMEM_POLL_EQ, 1);
	struct stream s;

	ASSERT_EQ(0, stream_open(&s, self->fd, self->vm, 0, 16));
	ASSERT_EQ(0, stream_push(&s, &sqe));
	sqe = sqe_fill(ADDR + 64, 1, 9, 1);
	ASSERT_EQ(0, stream_push(&s, &sqe));
	ASSERT_EQ(0, stream_close(&s));
	usleep(5000);
	EXPECT_EQ(0, self->p[64]);
	put_word(self->p, 4, 1);
	for (int i = 0; i < 10000 && !__atomic_load_n(&self->p[64], __ATOMIC_ACQUIRE); i++)
		usleep(1000);
	EXPECT_EQ(9, self->p[64]);
	/*
	 * A stream that waits for ever: the teardown checks that closing the client leaves nothing
	 * of it.
	 */
	sqe = sqe_poll(ADDR, 4, GPUMEM_POLL_EQ, 4711);
	ASSERT_EQ(0, stream_push(&self->s, &sqe));
	EXPECT_EQ(-ETIMEDOUT, stream_wait(&self->s, 1, 0.01));
}

TEST_HARNESS_MAIN
