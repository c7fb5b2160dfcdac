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

bool node_bind(struct node_policy *before, const CUmemLocation *location)
{
	unsigned long nodes[NODES / 64] = { 0 };
	int node = location->id;

	before->changed = false;
	if (location->type != CU_MEM_LOCATION_TYPE_HOST_NUMA || node >= NODES ||
	    syscall(SYS_get_mempolicy, &before->mode, before->nodes, NODES, NULL, 0))
		return true;
	nodes[node / 64] = 1ul << node % 64;
	before->changed = !syscall(SYS_set_mempolicy, MPOL_BIND, nodes, NODES);
	return before->changed || errno != EINVAL;
}

void node_restore(const struct node_policy *before)
{
	/* The default policy has no nodes. */
	if (before->changed)
		syscall(SYS_set_mempolicy, before->mode,
			before->mode == MPOL_DEFAULT ? NULL : before->nodes,
			before->mode == MPOL_DEFAULT ? 0 : NODES);
}
