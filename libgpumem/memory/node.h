/* SPDX-License-Identifier: MIT */
/*
 * NUMA nodes: where the calling thread's buffer objects get their memory.
 */
#ifndef GPUMEM_MEMORY_NODE_H
#define GPUMEM_MEMORY_NODE_H

#include "exec/exec.h"

#define NODES	1024			/* of a set of nodes, in bits */

/* The thread's policy before node_bind(). */
struct node_policy {
	bool changed;
	int mode;
	unsigned long nodes[NODES / 64];
};

/*
 * node_bind() binds the memory that this thread's calls allocate to a node, if the location names one;
 * node_restore() undoes it. GPUMEM_BO_ALLOC populates all memory before it returns, so this is enough. Without
 * the permission to bind (containers), or with a kernel without NUMA, the kernel chooses the node. node_bind()
 * returns false if the thread may not use the node, or the kernel has no memory for the change.
 */
bool node_bind(struct node_policy *before, const CUmemLocation *location);
void node_restore(const struct node_policy *before);

#endif /* GPUMEM_MEMORY_NODE_H */
