// SPDX-License-Identifier: MIT
/*
 * NUMA nodes: the memory policy of the calling thread while it allocates a buffer object.
 *
 * Owns nothing. Locks: none.
 */
#include <errno.h>
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memory/memory.h"

#define RESTORE_TRIES	100

/* Whether the last call failed because the kernel had no memory, for itself or for a page of the set of nodes. */
static bool starved(void)
{
	return errno == ENOMEM || errno == EFAULT;
}

bool node_bind(struct node_policy *before, const CUmemLocation *location)
{
	unsigned long nodes[NODES / 64] = { 0 };
	int node = location->id;

	before->changed = false;
	if (location->type != CU_MEM_LOCATION_TYPE_HOST_NUMA || node >= NODES)
		return true;
	if (syscall(SYS_get_mempolicy, &before->mode, before->nodes, NODES, NULL, 0))
		return !starved();
	nodes[node / 64] = 1ul << node % 64;
	before->changed = !syscall(SYS_set_mempolicy, MPOL_BIND, nodes, NODES);
	/* EINVAL: the thread may not use the node. */
	return before->changed || (errno != EINVAL && !starved());
}

void node_restore(const struct node_policy *before)
{
	bool none = before->mode == MPOL_DEFAULT;	/* it has no nodes */
	unsigned int tries = before->changed ? RESTORE_TRIES : 0;

	/* A call that fails for want of memory is made again: the thread's own allocations would go to the node. */
	while (tries-- && syscall(SYS_set_mempolicy, before->mode, none ? NULL : before->nodes, none ? 0 : NODES) &&
	       starved())
		usleep(1000);
}
