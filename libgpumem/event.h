/* SPDX-License-Identifier: MIT */
/*
 * What an event is, and what recording and querying are when there is nothing to do.
 *
 * An event that was recorded when its stream was idle says "done" and holds neither queue nor slot.
 * Recording it once more while the stream is idle leaves it as it is, but for the time: then no
 * lock is taken. A thread that goes by what such a record says has been told of the call by its own
 * means, which order what came before.
 *
 * That an event is like this can be read off one word, which is written with release semantics: who
 * sees it sees what was done before. The time is one word, too, and counts only while there is no
 * slot: when another thread records the same event at the same time, either wins.
 *
 * Vocabulary: point, a consistent copy of what an event says; easy, done without queue and slot.
 */
#ifndef GPUMEM_EVENT_H
#define GPUMEM_EVENT_H

#include <time.h>

#include "internal.h"
#include "ring.h"

#define EVENT_MAGIC	0x746e7665	/* "evnt" */
#define EVENT_EASY	0x79736165	/* "easy": recorded, done, of one process, not destroyed */

struct slot {
	struct slot *next;
	uint64_t addr;
	struct queue *queue;		/* free when this queue has reached @value, or NULL */
	uint64_t value;
};

struct point {
	bool recorded;
	struct queue *queue;
	uint64_t value;
	uint64_t ns;
	struct slot *slot;
};

struct CUevent_st {
	uint32_t magic;			/* atomic */
	uint32_t easy;			/* EVENT_EASY or 0; lock to write; atomic */
	struct lock lock;
	uint32_t seq;			/* odd while the point changes */
	unsigned int flags;
	CUcontext ctx;
	struct point point;		/* lock to write, but for ns (above); seq to read */
	struct ipc_event ipc;		/* lock to write; id atomic */
	CUevent next;
};

static inline bool event_valid(CUevent event)
{
	return (uintptr_t)event >= PAGE && load_acquire(&event->magic) == EVENT_MAGIC;
}

static inline uint64_t event_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC_RAW, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

/* Whether an event is easy: what it recorded is done, and nobody else need be asked. */
static inline bool event_easy(CUevent event)
{
	return likely((uintptr_t)event >= PAGE) && likely(load_acquire(&event->easy) == EVENT_EASY);
}

/* Whether a recording changes nothing but the time: an easy event, and a stream that is idle. */
static inline bool event_recorded(CUevent event, CUstream stream)
{
	return stream_plain(stream) && event_easy(event) && likely(event->ctx == stream->ctx) &&
	       stream_easy(stream);
}

#endif /* GPUMEM_EVENT_H */
