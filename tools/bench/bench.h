/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Benches: what an operation of ours costs, beside a peer that does the same kind of thing, in the
 * same run.
 *
 * A bench is a function that measures and reports rows.  Each runs in a process of its own, so that
 * none finds what another left behind: an address space, a library that is in use, an environment.
 * The rows are printed when it returns.
 *
 * Vocabulary: row, one operation and its cost in nanoseconds; ours, a row about gpumem; peer, a row
 * about something else.  A row of ours may name a peer and a bar, the ratio that it should not
 * exceed; where several things together make the bar, their sum is a peer by the name of allowed_*.
 * Under "selftests/vm/run --icount" a nanosecond is one guest instruction and the same
 * build prints the same figures each time: benches there are BENCH_COUNTED.  What is moved in bulk
 * or waits for a second processor says nothing when instructions are counted: BENCH_TIMED.
 *
 * Names are made of words and underscores, the last word being the size: the tables of figures have
 * them in their first column.
 */
#ifndef GPUMEM_BENCH_H
#define GPUMEM_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KIB		1024UL
#define MIB		(1024 * KIB)
#define HUGE_BYTES	(2 * MIB)

/* How much a figure may grow before tools/bench/compare.py objects; see there. */
enum bench_class {
	BENCH_CALL,		/* takes the same way through the code each time */
	BENCH_ALLOC,		/* depends on the state of the allocators, too */
	BENCH_RATIO,		/* means something only beside its peer */
};

/* --- reporting */

/* A formatted name, which lives as long as the process. */
const char *bench_name(const char *format, ...) __attribute__((format(printf, 1, 2)));
void bench_ours(const char *name, enum bench_class class, double ns);
/* The same beside the row @peer of this bench; @bar 0 means that there is none. */
void bench_beside(const char *name, enum bench_class class, double ns, const char *peer,
		  double bar);
void bench_peer(const char *name, double ns);
/* A peer that this machine lacks. */
void bench_skip(const char *name, const char *why);
/* Prints what went wrong, with errno, and exits. */
void bench_die(const char *what) __attribute__((noreturn));
/* For libgpumem's calls: cuInit() and a context of the first device, or bench_die(). */
void bench_cuda(void);
#define bench_cu(call) do { if (call) bench_die(#call); } while (0)

/* --- measuring */

/* Nanoseconds, CLOCK_MONOTONIC. */
double bench_now(void);
/* Nanoseconds since *@last, which becomes now. */
double bench_lap(double *last);

/* Sorts them. */
double bench_median(double *v, int n);

#define BENCH_PHASES	5
/*
 * The median, over @rounds rounds, of what @step adds to each of its phases in @calls calls, per
 * call.  A first round is not counted.
 */
void bench_phases(double ns[BENCH_PHASES], int rounds, int calls,
		  void (*step)(void *arg, double *ns), void *arg);
/* The same for a step of one phase that need not look at the clock. */
double bench_calls(int rounds, int calls, void (*step)(void *arg), void *arg);
/*
 * Two things in turns, @rounds pairs of @calls each, for times that other work on the machine
 * disturbs.  @before is called before each call and takes no part; may be NULL.  *@peer_ns becomes
 * the peer's median; returned is that times the median of the pairs' ratios.
 */
double bench_pairs(int rounds, int calls, void (*before)(void), void (*step)(void *arg), void *arg,
		   void (*peer)(void *arg), void *peer_arg, double *peer_ns);
/* Calls it @calls times and dies if a system call is made. */
void bench_no_syscall(const char *name, int calls, void (*step)(void *arg), void *arg);

/* --- what several benches need */

/* The first device, opened. */
int bench_open(void);
/* ioctl(), which must succeed. */
void bench_ioctl(int fd, unsigned long request, void *arg, const char *what);
void bench_destroy(int fd, uint32_t id);
/* Anonymous memory, all there, of pages of one kind. */
void *bench_memory(size_t bytes, bool huge);
/* Writes to each 4 KiB page. */
void bench_touch(void *p, size_t bytes);
/* "64K", "2M". */
const char *bench_size(size_t bytes);
/* mimalloc's functions; false where its library is not installed. */
bool bench_mimalloc(void *(**get)(size_t bytes), void (**put)(void *p));
/* A null system call, reported as "null_syscall"; nanoseconds. */
double bench_null_syscall(void);
/* clock_gettime(), the same way. */
double bench_clock_gettime(void);
/*
 * Round trips between two threads that sleep until the other wakes them: two wake-ups each.  A trip
 * is a step between start, which makes the other thread, and end.
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
void bench_live(void);
void bench_live_million(void);
void bench_devices(void);
void bench_clients(void);
void bench_threads(void);
void bench_lookup(void);
void bench_malloc(void);
void bench_mem(void);
void bench_pin(void);
void bench_pool(void);
void bench_pool_threads(void);
void bench_publish(void);
void bench_queue(void);
void bench_ring(void);
void bench_share(void);
void bench_stream(void);
void bench_streams(void);

#endif
