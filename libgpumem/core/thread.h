/* SPDX-License-Identifier: MIT */
/*
 * Threads that the library makes for itself. thread.c makes them.
 */
#ifndef GPUMEM_CORE_THREAD_H
#define GPUMEM_CORE_THREAD_H

#include "core/base.h"

/* Set in the thread that runs host functions (hostfn.c). */
extern __thread HIDDEN bool host_thread __attribute__((tls_model("initial-exec")));

/* Set in the threads that do work in stream order (exec/work.c). */
extern __thread HIDDEN bool worker_thread __attribute__((tls_model("initial-exec")));

/*
 * A thread of thread_make() calls this to wait until a queue notifies it. If the kernel refuses the wait, the
 * thread sleeps for a millisecond. Afterwards the caller looks for work.
 */
void thread_wait(struct gpumem_timeline_wait *wait, const char *name);
/*
 * A thread of the library's, detached, that handles no signals but its own faults. @stack: bytes, or
 * 0 for as much as the program's threads have.
 */
CUresult thread_make(void *(*main)(void *arg), void *arg, const char *name, size_t stack);

/* Sleep for a millisecond. No cancellation point. */
void thread_nap(void);

#endif /* GPUMEM_CORE_THREAD_H */
