/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Moves of pages: managed memory is copied from one memory node to another.
 * Offered by gpumem_move.c.
 */
#ifndef GPUMEM_MOVE_H
#define GPUMEM_MOVE_H

#include <linux/nodemask.h>
#include <linux/numa.h>
#include <linux/types.h>

struct file;
struct folio;
struct gpumem_client;

/**
 * struct gpumem_moved - what a move did
 * @moved: bytes that were copied to the node
 * @stayed: bytes on other nodes that could not be moved
 */
struct gpumem_moved {
	u64 moved;
	u64 stayed;
};

/* gpumem_move.c */
struct gpumem_moved gpumem_move_pages(struct file *file, pgoff_t first,
				      pgoff_t end, int node, int held,
				      struct folio **spare);
void gpumem_move_drop(struct folio *spare);
void gpumem_move_count(struct gpumem_client *client,
		       struct gpumem_moved done);
int gpumem_move_node(struct file *file, pgoff_t first, pgoff_t end);

/* Can pages move to @node? */
static inline bool gpumem_move_possible(int node)
{
	return node != NUMA_NO_NODE && nr_online_nodes > 1;
}

#endif /* GPUMEM_MOVE_H */
