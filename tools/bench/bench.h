/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Benches: each measures our operation and its peer's in the same run and prints the ratio.  Under
 * "selftests/vm/run --icount" a nanosecond is one guest instruction and the same build prints the
 * same figures each time.
 */
#ifndef GPUMEM_BENCH_H
#define GPUMEM_BENCH_H

#include <stddef.h>

/* Nanoseconds, CLOCK_MONOTONIC. */
double bench_now(void);
/* Prints one row; @limit 0 means that there is no bar.  Returns 1 if the bar is missed. */
int bench_row(const char *what, double ours, const char *peer, double theirs, double limit);
/* Prints what went wrong and exits. */
void bench_die(const char *what) __attribute__((noreturn));
/* The median of @n figures, which are sorted. */
double bench_median(double *v, size_t n);
/* One null system call. */
double bench_null_syscall(void);

int bench_pin(void);
int bench_lookup(void);

#endif
