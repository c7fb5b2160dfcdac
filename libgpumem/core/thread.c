// SPDX-License-Identifier: MIT
/*
 * Threads that the library makes for itself: for host functions, work in stream order, and clearing.
 *
 * Such a thread is detached and handles no signal of the program, except a fault of its own. It waits
 * for a timeline of the kernel; if the kernel refuses the wait, the thread looks every millisecond.
 *
 * Locks: none.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/core.h"

__thread bool host_thread __attribute__((tls_model("initial-exec")));
__thread bool worker_thread __attribute__((tls_model("initial-exec")));

void thread_nap(void)
{
	const struct timespec time = { .tv_nsec = 1000000 };

	/* A system call, because nanosleep() is a cancellation point for threads of the program. */
	syscall(SYS_nanosleep, &time, NULL);
}

CUresult thread_make(void *(*main)(void *arg), void *arg, const char *name, size_t stack)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS };
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t thread;
	unsigned int i;
	int error;

	/*
	 * The program's signal handlers run in the program's threads. Exception: faults of the function that
	 * this thread runs. A blocked fault ends the process without any handler.
	 */
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, NULL, &old);
	for (i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		if (!sigismember(&old, faults[i]))
			sigdelset(&all, faults[i]);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (stack)
		pthread_attr_setstacksize(&attr, stack);
	error = pthread_create(&thread, &attr, main, arg);
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (error)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_setname_np(thread, name);
	return CUDA_SUCCESS;
}

void thread_wait(struct gpumem_timeline_wait *wait, const char *name)
{
	static uint32_t reported;
	int error = client_ioctl(GPUMEM_TIMELINE_WAIT, wait);

	if (likely(!error)) {
		/*
		 * A notification during the thread's work is not lost: the next wait then ends at
		 * once.
		 */
		wait->value = wait->reached + 1;
		return;
	}
	if (error == ETIMEDOUT)
		return;
	if (!__atomic_exchange_n(&reported, 1, __ATOMIC_RELAXED))
		fprintf(stderr, "gpumem: %s: cannot wait for work (%s); looking every millisecond\n",
			name, strerror(error));
	thread_nap();
}
