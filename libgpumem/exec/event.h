/* SPDX-License-Identifier: MIT */
/*
 * Events, and the fast paths of recording and querying.
 *
 * An event that was recorded when its stream was idle is complete, and holds neither queue nor slot.
 * Recording it again while the stream is idle changes only its time, and takes no lock. Another thread can
 * rely on such a record only if the program has synchronized the two threads, which also orders everything
 * before the record.
 *
 * One word says that an event is complete. It is written with release semantics: a thread that reads it sees
 * everything that was done before. The time is one word, too, and is valid only while the event has no
 * slot. If two threads record the same event at the same time, one of the two times wins.
 *
 * Vocabulary: point, a consistent copy of an event; complete, recorded and done without queue and slot. An
 * event that has a queue or a slot may be done as well: event_query() finds that out.
 */
#ifndef GPUMEM_EVENT_H
#define GPUMEM_EVENT_H

#include <time.h>

#include "exec/ipc_event.h"
#include "exec/ring.h"
#include "exec/work.h"

#define EVENT_MAGIC	0x746e7665	/* "evnt" */
#define EVENT_COMPLETE	0x79736165	/* recorded, done, of one process, not destroyed */

struct slot {
	struct slot *next;
	uint64_t addr;
	struct queue *queue;		/* the slot is free when this queue has reached @value; NULL: it is free */
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
	uint32_t complete;		/* EVENT_COMPLETE or 0; lock to write; atomic */
	struct lock lock;
	uint32_t seq;			/* odd while the point changes */
	unsigned int flags;
	CUcontext ctx;
	struct point point;		/* lock to write, except ns on the fast path (above); seq to read */
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

/*
 * Whether an event is complete. An event that other processes can reach never is: event_query() asks the kernel.
 */
static inline bool event_complete(CUevent event)
{
	return likely((uintptr_t)event >= PAGE) &&
	       likely(load_acquire(&event->complete) == EVENT_COMPLETE);
}

/* Whether a recording changes nothing but the time: a complete event, and a stream that is idle. */
static inline bool event_recorded(CUevent event, CUstream stream)
{
	return stream_plain(stream) && event_complete(event) && likely(event->ctx == stream->ctx) &&
	       stream_idle_fast(stream);
}

CUresult event_create(CUevent *event, unsigned int flags);
CUresult event_destroy(CUevent event);
CUresult event_record(CUevent event, CUstream stream);
CUresult event_query(CUevent event);
CUresult event_synchronize(CUevent event);
CUresult event_wait(CUstream stream, CUevent event, unsigned int flags);
CUresult event_elapsed(float *milliseconds, CUevent start, CUevent end);

CUresult event_record_context(CUcontext ctx, CUevent event);
CUresult event_wait_context(CUcontext ctx, CUevent event);
CUresult event_get_handle(CUipcEventHandle *handle, CUevent event);
CUresult event_open_handle(CUevent *event, const CUipcEventHandle *handle);

#endif /* GPUMEM_EVENT_H */
