// SPDX-License-Identifier: MIT
/*
 * The API's chapter "Event Management".
 *
 * Thin: exec/event.c implements it. cuEventCreate() needs a current context, and so does recording in a default
 * stream; the other functions need none.
 *
 * Common errors: INVALID_HANDLE for NULL and for an event that was destroyed.
 */
#include "driver/driver.h"

/* Keep slow paths out of line. */
#define LONG	static __attribute__((noinline, cold)) CUresult

/**
 * cuEventCreate - make an event
 * @event: the handle
 * @flags: CU_EVENT_BLOCKING_SYNC, CU_EVENT_DISABLE_TIMING, and with the latter
 *	CU_EVENT_INTERPROCESS
 *
 * Return: INVALID_CONTEXT, INVALID_VALUE, OUT_OF_MEMORY.
 */
CUresult cuEventCreate(CUevent *event, unsigned int flags)
{
	CALL_INSIDE(event_create(event, flags), event, flags);
}

/** cuEventDestroy_v2 - destroy an event; queued waits for the event's last record remain queued */
CUresult cuEventDestroy_v2(CUevent event)
{
	CALL_INSIDE_AFTER(NEEDS_HANDLE(event), event_destroy(event), event);
}

/** cuEventDestroy - the same */
CUresult cuEventDestroy(CUevent event)
{
	CALL_INSIDE_AFTER(NEEDS_HANDLE(event), event_destroy(event), event);
}

static CUresult api_event_record(CUevent event, CUstream handle, bool own)
{
	CUstream stream;
	CUresult result = stream_get(handle, own, &stream);

	return result ? result : event_record(event, stream);
}

static __attribute__((noinline)) CUresult set_time(CUevent event)
{
	store_relaxed(&event->point.ns, event_clock());
	return CUDA_SUCCESS;
}

/*
 * The rest of a recording for which event_recorded() is true: store the time. With GPUMEM_INLINE=0 an event with
 * a time is never complete, so event_recorded() is false.
 */
static inline CUresult record_time(CUevent event)
{
	return event->flags & CU_EVENT_DISABLE_TIMING ? CUDA_SUCCESS : set_time(event);
}

LONG record_long(CUevent event, CUstream stream)
{
	CALL_INSIDE_AS("cuEventRecord", api_event_record(event, stream, false), event, stream);
}

/**
 * cuEventRecord - record the work that is in the stream now
 *
 * Return: INVALID_HANDLE, also if stream and event are of different contexts; OUT_OF_MEMORY.
 */
CUresult cuEventRecord(CUevent event, CUstream stream)
{
	if (quick() && event_recorded(event, stream))
		return record_time(event);
	return record_long(event, stream);
}

LONG record_long_ptsz(CUevent event, CUstream stream)
{
	CALL_INSIDE_AS("cuEventRecord_ptsz", api_event_record(event, stream, true), event, stream);
}

/** cuEventRecord_ptsz - the same; stream 0 is the calling thread's own */
CUresult cuEventRecord_ptsz(CUevent event, CUstream stream)
{
	if (quick() && event_recorded(event, stream))
		return record_time(event);
	return record_long_ptsz(event, stream);
}

static CUresult record_flags(CUevent event, CUstream handle, unsigned int flags, bool own)
{
	CUstream stream;
	CUresult result = stream_get(handle, own, &stream);

	if (result)
		return result;
	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	if (flags & ~CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	/* No stream is ever capturing. */
	return flags ? CUDA_ERROR_ILLEGAL_STATE : event_record(event, stream);
}

/**
 * cuEventRecordWithFlags - as cuEventRecord(), with flags
 * @flags: CU_EVENT_RECORD_DEFAULT; EXTERNAL is for streams that are being captured
 *
 * Return: also ILLEGAL_STATE for EXTERNAL, INVALID_VALUE.
 */
CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags)
{
	CALL_INSIDE(record_flags(event, stream, flags, false), event, stream, flags);
}

/** cuEventRecordWithFlags_ptsz - the same; stream 0 is the calling thread's own */
CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream, unsigned int flags)
{
	CALL_INSIDE(record_flags(event, stream, flags, true), event, stream, flags);
}

LONG query_long(CUevent event)
{
	CALL_INSIDE_AFTER_AS("cuEventQuery", NEEDS_HANDLE(event), event_query(event), event);
}

/** cuEventQuery - NOT_READY until the work recorded last is done; of an inter-process event: a system call */
CUresult cuEventQuery(CUevent event)
{
	if (quick() && event_complete(event))
		return CUDA_SUCCESS;
	return query_long(event);
}

static CUresult api_event_synchronize(CUevent event)
{
	CUresult result = event_synchronize(event);

	if (!result)
		sync_release();
	return result;
}

/** cuEventSynchronize - wait for the work recorded last */
CUresult cuEventSynchronize(CUevent event)
{
	CALL_INSIDE_AFTER(NEEDS_HANDLE(event), api_event_synchronize(event), event);
}

/**
 * cuEventElapsedTime_v2 - time from one event to another
 * @milliseconds: with a resolution of a nanosecond, by one clock for all events
 *
 * Return: INVALID_HANDLE, also for NULL @milliseconds, for events without timing, for events of two contexts,
 * and for events that were not recorded; NOT_READY.
 */
CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent start, CUevent end)
{
	CALL_INSIDE_AFTER(NEEDS_HANDLE(milliseconds && start && end),
			  event_elapsed(milliseconds, start, end), milliseconds, start, end);
}

/** cuEventElapsedTime - the same */
CUresult cuEventElapsedTime(float *milliseconds, CUevent start, CUevent end)
{
	CALL_INSIDE_AFTER(NEEDS_HANDLE(milliseconds && start && end),
			  event_elapsed(milliseconds, start, end), milliseconds, start, end);
}

/**
 * cuCtxRecordEvent - record the work that all streams of a context have now
 *
 * Return: INVALID_CONTEXT, INVALID_HANDLE, also for an event of another context; OUT_OF_MEMORY.
 */
CUresult cuCtxRecordEvent(CUcontext ctx, CUevent event)
{
	CALL(event_record_context(ctx, event), ctx, event);
}

/**
 * cuCtxWaitEvent - make later work of all streams of a context wait for an event
 *
 * Streams that are made later do not wait. Return: INVALID_CONTEXT, INVALID_HANDLE, OUT_OF_MEMORY.
 */
CUresult cuCtxWaitEvent(CUcontext ctx, CUevent event)
{
	CALL(event_wait_context(ctx, event), ctx, event);
}
