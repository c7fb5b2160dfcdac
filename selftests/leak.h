/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The leak detector of the selftests.
 *
 * leak_begin() in a fixture's setup, before anything is opened, remembers what the system says;
 * leak_end() in its teardown, after everything was closed, tells what is left.  Three witnesses
 * that know nothing of each other must agree:
 *
 *  - the module: no client, no object and no memory is left, and what it says in one place agrees
 *    with what it says in another (tools/gpumem/audit.c);
 *  - the process: VmPin is what it was, to the byte;
 *  - the system: Shmem of /proc/meminfo, from which the tmpfs mounts that can be seen are taken
 *    away, is what it was.  LEAK_SHMEM bytes are tolerated: other programs have shared memory too,
 *    and the kernel's counter is gathered from the CPUs now and then.
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
/* Prints what is left and returns false when it does not go away in ten seconds. */
bool leak_end(const struct leak_state *state);
/* The lines that leak_end() would print about the module now; -1 when it cannot be asked. */
int leak_module(bool print);

#endif
