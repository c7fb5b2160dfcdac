/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tables of tokens: what rhashtable leaves to its users.
 */
#ifndef GPUMEM_TABLE_H
#define GPUMEM_TABLE_H

#include <linux/rhashtable.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

/**
 * gpumem_table_insert - insert into a table that many clients share
 * @ht: table
 * @node: in the object
 * @params: of the table
 *
 * The table refuses with -EBUSY while its growth lags far behind the insertions,
 * which may be other clients'.  Growth is a work item of the kernel that waits for
 * no client, so the insertion is tried again.
 *
 * Context: may sleep; only locks of the calling client may be held.
 * Return: 0, -EINTR if the caller is being killed, or what rhashtable returns.
 */
static __always_inline int
gpumem_table_insert(struct rhashtable *ht, struct rhash_head *node,
		    const struct rhashtable_params params)
{
	int ret;

	for (;;) {
		ret = rhashtable_lookup_insert_fast(ht, node, params);
		if (ret != -EBUSY)
			return ret;
		if (fatal_signal_pending(current))
			return -EINTR;
		schedule_timeout_uninterruptible(1);
	}
}

#endif /* GPUMEM_TABLE_H */
