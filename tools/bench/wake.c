// SPDX-License-Identifier: GPL-2.0
/*
 * Round trips between two threads that sleep until the other wakes them.  They are the peers of
 * rows in which the caller waits for work that a stream's worker does.
 */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"

enum { CALLER, OTHER, END };

static unsigned int ball;		/* the thread whose turn it is, such as CALLER */
static int there, back;
static pthread_t thread;

static void start(void *(*other)(void *arg))
{
	errno = pthread_create(&thread, NULL, other, NULL);
	if (errno)
		bench_die("pthread_create");
}

static void futex_pass(unsigned int to)
{
	__atomic_store_n(&ball, to, __ATOMIC_RELEASE);
	syscall(SYS_futex, &ball, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

/* Sleeps while @ball is @whose; returns the new value. */
static unsigned int futex_wait(unsigned int whose)
{
	unsigned int now;

	while ((now = __atomic_load_n(&ball, __ATOMIC_ACQUIRE)) == whose)
		syscall(SYS_futex, &ball, FUTEX_WAIT_PRIVATE, now, NULL, NULL, 0);
	return now;
}

static void *futex_other(void *arg)
{
	while (futex_wait(CALLER) == OTHER)
		futex_pass(CALLER);
	return arg;
}

void bench_futex_start(void)
{
	ball = CALLER;
	start(futex_other);
}

void bench_futex_trip(void *arg)
{
	(void)arg;
	futex_pass(OTHER);
	futex_wait(OTHER);
}

void bench_futex_end(void)
{
	futex_pass(END);
	pthread_join(thread, NULL);
}

static void *eventfd_other(void *arg)
{
	uint64_t v;

	for (;;) {
		if (read(there, &v, 8) != 8)
			bench_die("eventfd");
		if (v == END)
			return arg;
		if (write(back, &v, 8) != 8)
			bench_die("eventfd");
	}
}

static void throw(uint64_t v)
{
	if (write(there, &v, 8) != 8)
		bench_die("eventfd");
}

void bench_eventfd_start(void)
{
	there = eventfd(0, EFD_CLOEXEC);
	back = eventfd(0, EFD_CLOEXEC);
	if (there < 0 || back < 0)
		bench_die("eventfd");
	start(eventfd_other);
}

void bench_eventfd_trip(void *arg)
{
	uint64_t v;

	(void)arg;
	throw(OTHER);
	if (read(back, &v, 8) != 8)
		bench_die("eventfd");
}

void bench_eventfd_end(void)
{
	throw(END);
	pthread_join(thread, NULL);
	close(there);
	close(back);
}
