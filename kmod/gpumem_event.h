/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Events that processes share.  The head of gpumem_event.c says how.
 */
#ifndef GPUMEM_EVENT_H
#define GPUMEM_EVENT_H

#include <linux/gpumem.h>
#include <linux/kref.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include "gpumem_name.h"
#include "gpumem_object.h"
#include "gpumem_scope.h"

struct gpumem_timeline;

/**
 * struct gpumem_point - what all handles of an event share
 */
struct gpumem_point {
	/** @ref: each handle holds one */
	struct kref ref;
	/** @lock: protects @timeline and @value */
	spinlock_t lock;
	/** @timeline: of a stream, referenced; NULL: the event is complete */
	struct gpumem_timeline *timeline;
	/** @value: value of @timeline that completes the event */
	u64 value;
};

/**
 * struct gpumem_event - a handle of an event that processes share
 */
struct gpumem_event {
	/** @obj: head */
	struct gpumem_object obj;
	/** @point: the point that the event stands for, referenced; constant */
	struct gpumem_point *point;
	/** @name: maker's handle only: in the table of names while @listed */
	struct gpumem_name name;
	/** @listed: @name is in the table; owned by the id's reference */
	bool listed;
	/** @scope: maker's handle only: which processes may open the event */
	struct gpumem_scope scope;
	/** @rcu: frees the handle */
	struct rcu_head rcu;
};

/* gpumem_event.c */
void gpumem_event_handle_gone(struct gpumem_object *obj);
void gpumem_event_release(struct gpumem_object *obj);
int gpumem_ioctl_event_create(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_event_open(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_event_record(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_event_get(struct gpumem_ucmd *ucmd);

#endif /* GPUMEM_EVENT_H */
