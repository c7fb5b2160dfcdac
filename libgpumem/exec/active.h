/* SPDX-License-Identifier: MIT */
/*
 * Active queues: the queues of a context that may have unfinished work.
 *
 * The cost of a call that looks at all queues of a context depends on how
 * many of them are active, not on how many there are; active.c has the rules.
 */
#ifndef GPUMEM_ACTIVE_H
#define GPUMEM_ACTIVE_H

#include "core/core.h"

/* A queue belongs to one of two sides: those that blocking streams have, and all others. */
#define SIDE_OTHER	0u
#define SIDE_BLOCKING	1u
#define SIDES		2u

/*
 * Where a queue is listed. A queue of an exclusive device is WATCHED when it is active, so that each ring_kick()
 * calls active_add().
 */
enum listed { LISTED_NOWHERE, LISTED_ACTIVE, LISTED_FINISHED, LISTED_WATCHED };

struct queue_list {
	struct queue *first, *last;	/* the lock of struct active to write; first is atomic */
};

/* A part of a context. Zero is a valid start. */
struct active {
	struct lock lock;		/* nothing else is locked inside it */
	uint64_t stamp;			/* stamp of the queue that was listed last; lock to write; atomic */
	struct queue_list active[SIDES];	/* in order of their stamps */
	struct queue_list finished[SIDES];	/* idle, but not yet recorded as known (active.c) */
	CUstream entered, last_entered;	/* list of used blocking streams (order.c); lock to write; atomic */
	uint64_t entered_stamp;		/* stamp of the stream that entered last; lock */
	struct active *next;		/* of all contexts; constant */
	bool known;			/* is in the list of all; written by the first active_start() */
};

/*
 * A walk over the active queues of a context that were listed before the walk began. No lock is
 * held between two steps.
 */
struct active_walk {
	struct active *active;
	unsigned int side, last_side;
	bool know;			/* a queue that turns out idle is recorded as known */
	uint64_t end, stamp;
	struct queue *at;
};

/* Make a context's queues part of what active_first() walks. Called in each life of the context. */
void active_start(struct active *active);
/* The first of all contexts that ever lived, linked by next. */
struct active *active_first(void);
/* A queue has work: the slow path of ring_kick(). The lock of the queue's stream is held. */
void active_add(struct queue *queue);
/* An idle queue gets an owner in @ctx. No other thread uses the queue. */
void active_move(struct queue *queue, CUcontext ctx, bool blocking);
/* Remove a queue for which no call has to wait. */
void active_remove(struct queue *queue);
/* Remove all queues of a context whose streams are destroyed. */
void active_clear(struct active *active);
/* @every in the functions below: the queues of all streams, not of blocking streams alone. */

/* Whether no queue is active. */
static inline bool active_none(const struct active *active, bool every)
{
	return !load_acquire(&active->active[SIDE_BLOCKING].first) &&
	       (!every || !load_acquire(&active->active[SIDE_OTHER].first));
}

/* Whether no queue has to be recorded as known. */
static inline bool active_all_known(const struct active *active, bool every)
{
	return !load_acquire(&active->finished[SIDE_BLOCKING].first) &&
	       (!every || !load_acquire(&active->finished[SIDE_OTHER].first));
}

/* Begin a walk; see struct active_walk for @know. */
void active_walk(struct active_walk *walk, struct active *active, bool every, bool know);
/*
 * The next queue that has unfinished work, with its tail, or that has failed; NULL at the end.
 */
struct queue *active_next(struct active_walk *walk, uint64_t *value);
/* The caller has waited for all that was submitted: record that finished queues are known. */
void active_know(struct active *active, bool every);

#endif /* GPUMEM_ACTIVE_H */
