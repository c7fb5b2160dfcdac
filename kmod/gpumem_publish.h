/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Lanes: the entries that a client has published, and their execution.  The
 * head of gpumem_publish.c explains portions, late work and debts.
 *
 * Lock: lane->lock protects the fields of a lane.
 */
#ifndef GPUMEM_PUBLISH_H
#define GPUMEM_PUBLISH_H

#include <linux/list.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include "gpumem_fence.h"

struct gpumem_sqe;

/**
 * struct gpumem_lane - what a client has published; see gpumem_publish.c
 */
struct gpumem_lane {
	/** @lock: protects the other fields */
	spinlock_t lock;
	/** @published: bytes of the portions that are published */
	u64 published;
	/** @unsettled: ended portions whose debt is not yet in @paid_at */
	unsigned int unsettled;
	/** @waiting: gpumem_fenced.waits of portions that do not fit yet */
	struct list_head waiting;
	/** @keepers: portions that may keep managed memory in use */
	unsigned int keepers;
	/** @keepless: gpumem_fenced.keep of portions that wait for this */
	struct list_head keepless;
	/** @turn: the entry whose late work is queued or runs, or NULL */
	struct gpumem_fenced *turn;
	/** @late: gpumem_fenced.line of the entries that get @turn later */
	struct list_head late;
	/** @paid_at: when the next portion may be published, ns */
	u64 paid_at;
	/** @own: CPU time the process got lately while it published, ns */
	u64 own;
	/** @wall: elapsed time in which it got @own, ns */
	u64 wall;
};

/* gpumem_publish.c */
void gpumem_lane_init(struct gpumem_lane *lane);
bool gpumem_lane_keep(struct gpumem_fenced *fenced);
void gpumem_lane_unkeep(struct gpumem_fenced *fenced);
u64 gpumem_publish_weight(const struct gpumem_sqe *sqe);
bool gpumem_publish_admit(struct gpumem_fenced *fenced, unsigned long *delay);
void gpumem_publish_begin(struct gpumem_fenced *fenced);
void gpumem_publish_wake(struct gpumem_fenced *fenced);
void gpumem_publish_leave(struct gpumem_fenced *fenced);
enum gpumem_fenced_next gpumem_publish_run(struct gpumem_fenced *fenced);
void gpumem_publish_over(struct gpumem_fenced *fenced);
void gpumem_publish_cancel(struct gpumem_fenced *fenced);
void gpumem_publish_init(struct gpumem_fenced *fenced);

#endif /* GPUMEM_PUBLISH_H */
