/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The leak detector of the selftests.
 *
 * leak_begin() in a fixture's setup, before anything is opened, records the counters; leak_end() in
 * its teardown, after everything was closed, reports what is left.  Three independent witnesses
 * must agree:
 *
 *  - the module: no client, no object and no memory is left, and its counters agree with each other
 *    (tools/gpumem/audit.c);
 *  - the process: VmPin is what it was, to the byte;
 *  - the system: Shmem of /proc/meminfo, less the bytes in the tmpfs mounts that the process sees,
 *    is what it was.  LEAK_SHMEM bytes are tolerated: other programs have shared memory too, and
 *    the kernel's counter is gathered from the CPUs now and then.
 *
 * Memory is given back a little later than the last descriptor is closed, so leak_end() waits.
 */
#ifndef GPUMEM_SELFTESTS_LEAK_H
#define GPUMEM_SELFTESTS_LEAK_H

#include <stdbool.h>

#define LEAK_SHMEM	(2LL << 20)

struct leak_state {
	long long pinned;	/* bytes */
	long long shmem;	/* bytes */
};

void leak_begin(struct leak_state *state);
/* Waits up to ten seconds until nothing is left; prints what is left then, and returns false.  */
bool leak_end(const struct leak_state *state);
/* The lines that leak_end() would print about the module now; -1 when it cannot be asked. */
int leak_module(bool print);

#endif
