/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Benches: measure the cost of gpumem's operations, and of comparable operations of others in the
 * same run.
 *
 * A bench is a function that measures and reports rows.  Each bench runs in a process of its own,
 * so that no state of another bench (address space, library, environment) changes its rows.  The
 * program prints the rows when the bench returns.
 *
 * Vocabulary: row, one operation and its cost in nanoseconds; ours, a row about gpumem; peer, a row
 * about something else.  A row of ours may name a peer and a bar, the ratio that it should not
 * exceed.  If the bar is a sum of several costs, that sum is a peer with a name allowed_*.
 *
 * Under "selftests/vm/run --icount" a nanosecond is one guest instruction, and the same build
 * prints the same numbers each time: benches for such runs are BENCH_COUNTED.  Counted instructions
 * do not measure rows that move bytes in bulk or wait for a second processor: those benches are
 * BENCH_TIMED.
 *
 * The name of a row consists of words and underscores, and its last word is the size, if it has
 * one.  The tables of results have the names in their first column.
 */
#ifndef GPUMEM_BENCH_H
#define GPUMEM_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KIB		1024UL
#define MIB		(1024 * KIB)
#define HUGE_BYTES	(2 * MIB)

/* The class of a row: how much its cost may grow before tools/bench/compare.py fails. */
enum bench_class {
	BENCH_CALL,		/* executes the same path through the code each time */
	BENCH_ALLOC,		/* depends on the state of the allocators, too */
	BENCH_RATIO,		/* only the ratio to its peer has a meaning */
};

/* --- reporting */

/* A formatted name, which lives as long as the process. */
const char *bench_name(const char *format, ...) __attribute__((format(printf, 1, 2)));
void bench_ours(const char *name, enum bench_class class, double ns);
/* A row of ours with the row @peer of the same bench as its peer; @bar 0 means no bar. */
void bench_beside(const char *name, enum bench_class class, double ns, const char *peer,
		  double bar);
void bench_peer(const char *name, double ns);
/* A peer that this machine lacks, with the reason. */
void bench_skip(const char *name, const char *why);
/* Prints @what, which failed, with errno, and exits. */
void bench_die(const char *what) __attribute__((noreturn));
/* For libgpumem's calls: cuInit() and a context of the first device, or bench_die(). */
void bench_cuda(void);
#define bench_cu(call) do { if (call) bench_die(#call); } while (0)

/* --- measuring */

/* Nanoseconds, CLOCK_MONOTONIC. */
double bench_now(void);
/* Nanoseconds since *@last, which becomes now. */
double bench_lap(double *last);

/*
 * The result of @measure in a process of its own, which has not called cuInit() yet. @environment: names and values in
 * turns, and NULL.
 */
double bench_apart(double (*measure)(void), const char *const *environment);

/* The median of @n values; sorts them. */
double bench_median(double *v, int n);

#define BENCH_PHASES	5
/*
 * Call @step @calls times in each of @rounds rounds.  @step adds the nanoseconds of each phase to
 * its argument @ns.  Then @ns receives for each phase the median of the rounds, per call.
 * A first round is not counted.
 */
void bench_phases(double ns[BENCH_PHASES], int rounds, int calls,
		  void (*step)(void *arg, double *ns), void *arg);
/* The same for a step of one phase; the function itself reads the clock around each round. */
double bench_calls(int rounds, int calls, void (*step)(void *arg), void *arg);
/*
 * Measure @step and @peer in turns, in @rounds pairs of @calls calls each, because other work on
 * the machine disturbs both.  @before is called before each call and is not timed; may be NULL.
 * *@peer_ns receives the peer's median.  Returns it times the median of the pairs' ratios.
 */
double bench_pairs(int rounds, int calls, void (*before)(void), void (*step)(void *arg), void *arg,
		   void (*peer)(void *arg), void *peer_arg, double *peer_ns);
/* Calls @step @calls times, and kills the bench if @step makes a system call. */
void bench_no_syscall(const char *name, int calls, void (*step)(void *arg), void *arg);

/* --- what several benches need */

/* The first device, opened. */
int bench_open(void);
/* ioctl(), which must succeed. */
void bench_ioctl(int fd, unsigned long request, void *arg, const char *what);
void bench_destroy(int fd, uint32_t id);
/* Send one byte and, if @fd is not negative, a descriptor; returns whether that succeeded. */
bool bench_give(int sock, int fd);
/*
 * Receive a byte; returns the descriptor that came with it, -1 without one, -2 at the end of the
 * stream.
 */
int bench_take(int sock);
/* Populated anonymous memory, of huge pages or of 4 KiB pages. */
void *bench_memory(size_t bytes, bool huge);
/* Writes to each 4 KiB page. */
void bench_touch(void *p, size_t bytes);
/* "64K", "2M". */
const char *bench_size(size_t bytes);
/* mimalloc's functions; false where its library is not installed. */
bool bench_mimalloc(void *(**get)(size_t bytes), void (**put)(void *p));
/* A null system call, reported as "null_syscall"; nanoseconds. */
double bench_null_syscall(void);
/* A clock_gettime(), reported as "clock_gettime"; nanoseconds. */
double bench_clock_gettime(void);
/*
 * Round trips between two threads that sleep until the other wakes them: two wake-ups each.
 * bench_*_start() makes the second thread, bench_*_trip() is a step that does one round trip, and
 * bench_*_end() ends the second thread.
 */
void bench_futex_start(void);
void bench_futex_trip(void *arg);
void bench_futex_end(void);
void bench_eventfd_start(void);
void bench_eventfd_trip(void *arg);
void bench_eventfd_end(void);

void bench_bo(void);
void bench_copy(void);
void bench_engine(void);
void bench_kept(void);
void bench_check(void);
void bench_check_counted(void);
void bench_live(void);
void bench_live_million(void);
void bench_devices(void);
void bench_clients(void);
void bench_threads(void);
void bench_lookup(void);
void bench_malloc(void);
void bench_managed(void);
void bench_managed_nodes(void);
void bench_managed_timed(void);
void bench_mem(void);
void bench_pageable(void);
void bench_pageable_timed(void);
void bench_pin(void);
void bench_pool(void);
void bench_pool_threads(void);
void bench_publish(void);
void bench_queue(void);
void bench_rdma(void);
void bench_ring(void);
void bench_share(void);
void bench_stream(void);
void bench_streams(void);
void bench_vmm(void);
void bench_vmm_copy(void);
void bench_vmm_threads(void);

#endif
