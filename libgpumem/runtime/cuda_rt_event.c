// SPDX-License-Identifier: MIT
/*
 * The runtime API's chapter "Event Management". Owns nothing: events are the driver's.
 */
#include "runtime/runtime.h"

static cudaError_t rt_event_create(cudaEvent_t *event, unsigned int flags)
{
	return event ? rt_code(cuEventCreate(event, flags)) : cudaErrorInvalidValue;
}

/** cudaEventCreate - make an event with timing */
cudaError_t cudaEventCreate(cudaEvent_t *event)
{
	RT_CONTEXT(rt_event_create(event, cudaEventDefault));
}

/**
 * cudaEventCreateWithFlags - make an event
 * @flags: cudaEventBlockingSync, cudaEventDisableTiming, cudaEventInterprocess (needs cudaEventDisableTiming)
 *
 * Return: cudaErrorInvalidValue, cudaErrorMemoryAllocation.
 */
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
	RT_CONTEXT(rt_event_create(event, flags));
}

/** cudaEventDestroy - destroy an event; queued waits for its last record remain queued */
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	RT_CONTEXT(rt_code(cuEventDestroy_v2(event)));
}

/** cudaEventRecord - record the work that is in the stream now */
RT_PTSZ(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream),
	rt_code(SZ(cuEventRecord)(event, stream)))

/** cudaEventRecordWithFlags - the same; cudaEventRecordExternal is for captures */
RT_PTSZ(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
	rt_code(SZ(cuEventRecordWithFlags)(event, stream, flags)))

/** cudaEventQuery - cudaErrorNotReady until the work recorded last is done; success if nothing was recorded */
cudaError_t cudaEventQuery(cudaEvent_t event)
{
	RT_CONTEXT(rt_code(cuEventQuery(event)));
}

/** cudaEventSynchronize - wait until the work recorded last is done */
cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	RT_CONTEXT(rt_code(cuEventSynchronize(event)));
}

/**
 * cudaEventElapsedTime - milliseconds between two events
 *
 * Return: cudaErrorNotReady; cudaErrorInvalidResourceHandle if an event has no timing or was not recorded.
 */
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end)
{
	RT_CONTEXT(rt_code(cuEventElapsedTime_v2(milliseconds, start, end)));
}
