/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Other processes and threads: children, faults, bytes and descriptors that are passed, workers.
 */
#ifndef GPUMEM_SELFTESTS_PROCESS_H
#define GPUMEM_SELFTESTS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Runs @fn in a child: its exit status, or minus the signal that killed it. */
int run_child(int (*fn)(void *arg), void *arg);
pid_t start_child(int (*fn)(void *arg), void *arg);
/*
 * As start_child(), and waits until the child has written a byte to the descriptor that it finds in
 * @to.  If the child ends first, it is reaped and the result is -1.
 */
pid_t start_ready_child(int (*fn)(void *arg), void *arg, int *to);
/*
 * Runs @fn in a child that ends with the caller; @text gets what the child writes to standard error.
 * The status of waitpid(), or -1.
 */
int hear_child(int (*fn)(void *arg), void *arg, char *text, size_t size);
int end_child(pid_t pid);
int kill_child(pid_t pid);
/* Does reading (or writing) the byte at @p raise @sig? */
bool faults_with(volatile void *p, bool write, int sig);
/* Does the same access in a forked child raise @sig?  */
bool faults_in_child(volatile void *p, bool write, int sig);
/* The byte at @p, or minus the signal that reading it raises. */
int peek(const volatile void *p);
/*
 * Unmaps every gpumem mapping of this process: a mapping holds memory, a DMA-buf or a client.  A
 * fixture's teardown calls this.
 */
void unmap_all(void);
/* tell() writes one byte to a pipe or socket; hear() waits for one byte.  True if that worked.  */
bool tell(int fd);
bool hear(int fd);
int send_fd(int sock, int fd);
int recv_fd(int sock);

/*
 * The engine's workers among the threads of @pid: how many, or a negative errno.  The first @max of
 * their ids go to @tids.
 */
int worker_threads(pid_t pid, pid_t *tids, int max);

#endif
