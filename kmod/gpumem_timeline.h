/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Timelines: numbers that only rise and that users read from a page, and
 * callbacks when a timeline reaches a value.  Lock: timeline->lock.
 */
#ifndef GPUMEM_TIMELINE_H
#define GPUMEM_TIMELINE_H

#include <linux/gpumem.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include "gpumem_object.h"

struct gpumem_client;
struct gpumem_sync;
struct vm_area_struct;

/**
 * struct gpumem_waiter - a call when a timeline reaches a value
 */
struct gpumem_waiter {
	/** @node: in timeline->waiters, or cleared; timeline->lock */
	struct rb_node node;
	/** @value: to be reached; constant while @node is in a tree */
	u64 value;
	/** @wake: called under timeline->lock, once, after removal */
	void (*wake)(struct gpumem_waiter *waiter);
};

/**
 * struct gpumem_timeline - a number that only rises
 */
struct gpumem_timeline {
	/** @obj: head */
	struct gpumem_object obj;
	/** @lock: protects @value, @error and @waiters and orders @page's stores */
	spinlock_t lock;
	/** @page: shown to the client, read-only; nothing is read back from it */
	struct gpumem_timeline_page *page;
	/** @value: the number */
	u64 value;
	/** @error: positive errno of the first failure, or 0 */
	u32 error;
	/** @lost: no task raises it again; @lock */
	bool lost;
	/** @of_stream: raised by its stream alone; constant */
	bool of_stream;
	/** @counting: clients may take from it; constant */
	bool counting;
	/** @number: shown by fdinfo; random; 0: cannot be exported; constant */
	u64 number;
	/** @taken: number of signals that clients took; @lock */
	u64 taken;
	/** @sync: raised by a fence alone (gpumem_semaphore.c); or NULL; constant */
	struct gpumem_sync *sync;
	/** @waiters: struct gpumem_waiter, by value, then oldest first */
	struct rb_root_cached waiters;
};

/**
 * struct gpumem_timeline_ref - a client's handle of another client's timeline
 */
struct gpumem_timeline_ref {
	/** @obj: head */
	struct gpumem_object obj;
	/** @timeline: referenced; constant */
	struct gpumem_timeline *timeline;
};

/* Whether no client may raise a timeline. */
static inline bool gpumem_timeline_fixed(const struct gpumem_timeline *timeline)
{
	return timeline->of_stream || timeline->sync;
}

/* gpumem_timeline.c */
struct gpumem_timeline *gpumem_timeline_alloc(struct gpumem_client *client,
					      u64 value, bool of_stream);
void gpumem_timeline_raise(struct gpumem_timeline *timeline, u64 value);
int gpumem_timeline_add(struct gpumem_timeline *timeline, u64 value);
enum gpumem_event_state gpumem_timeline_state(struct gpumem_timeline *timeline,
					      u64 value);
struct gpumem_timeline *gpumem_timeline_get(struct gpumem_client *client,
					    u32 id);
struct gpumem_timeline_ref *
gpumem_timeline_ref_alloc(struct gpumem_client *client,
			  struct gpumem_timeline *timeline);
void gpumem_timeline_ref_release(struct gpumem_object *obj);
void gpumem_timeline_fail(struct gpumem_timeline *timeline, u32 error);
void gpumem_timeline_lose(struct gpumem_timeline *timeline);
void gpumem_waiter_init(struct gpumem_waiter *waiter,
			void (*wake)(struct gpumem_waiter *waiter));
bool gpumem_timeline_add_waiter(struct gpumem_timeline *timeline,
				struct gpumem_waiter *waiter);
void gpumem_timeline_del_waiter(struct gpumem_timeline *timeline,
				struct gpumem_waiter *waiter);
int gpumem_timeline_mmap(struct gpumem_timeline *timeline,
			 struct vm_area_struct *vma);
s64 gpumem_clock_offset(void);
void gpumem_timeline_handle_gone(struct gpumem_object *obj);
void gpumem_timeline_release(struct gpumem_object *obj);
int gpumem_ioctl_timeline_create(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_timeline_signal(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_timeline_take(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_timeline_wait(struct gpumem_ucmd *ucmd);

#endif /* GPUMEM_TIMELINE_H */
