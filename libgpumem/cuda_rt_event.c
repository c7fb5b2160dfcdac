// SPDX-License-Identifier: MIT
/*
 * The runtime API's chapter "Event Management". Owns nothing: events are the driver's.
 */
#include "cuda_rt.h"

static cudaError_t create(cudaEvent_t *event, unsigned int flags)
{
	return event ? rt_code(cuEventCreate(event, flags)) : cudaErrorInvalidValue;
}

/** cudaEventCreate - make an event with a time */
cudaError_t cudaEventCreate(cudaEvent_t *event)
{
	RT_CONTEXT(create(event, cudaEventDefault));
}

/**
 * cudaEventCreateWithFlags - make an event
 * @flags: cudaEventBlockingSync, cudaEventDisableTiming, cudaEventInterprocess (needs the former)
 *
 * Return: cudaErrorInvalidValue, cudaErrorMemoryAllocation.
 */
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
	RT_CONTEXT(create(event, flags));
}

/** cudaEventDestroy - destroy an event; who waits for its record still does */
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	RT_CONTEXT(rt_code(cuEventDestroy_v2(event)));
}

/** cudaEventRecord - the event is complete when what is in the stream now is */
RT_PTSZ(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream),
	rt_code(SZ(cuEventRecord)(event, stream)))

/** cudaEventRecordWithFlags - the same; cudaEventRecordExternal is for captures */
RT_PTSZ(cudaEventRecordWithFlags, (cudaEvent_t event, cudaStream_t stream, unsigned int flags),
	rt_code(SZ(cuEventRecordWithFlags)(event, stream, flags)))

/** cudaEventQuery - cudaErrorNotReady until it is complete; one never recorded is */
cudaError_t cudaEventQuery(cudaEvent_t event)
{
	RT_CONTEXT(rt_code(cuEventQuery(event)));
}

/** cudaEventSynchronize - wait until it is complete */
cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	RT_CONTEXT(rt_code(cuEventSynchronize(event)));
}

/**
 * cudaEventElapsedTime - milliseconds between two events
 *
 * Return: cudaErrorNotReady, cudaErrorInvalidResourceHandle if one has no time or no record.
 */
cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end)
{
	RT_CONTEXT(rt_code(cuEventElapsedTime_v2(milliseconds, start, end)));
}
