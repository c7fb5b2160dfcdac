// SPDX-License-Identifier: MIT
/*
 * The runtime API's chapter "Stream Management".
 *
 * Owns the records of callbacks that have not run: each is made when the callback is queued and
 * freed before it runs.
 *
 * Handles are the driver's: 0 and 1 are the current context's legacy stream, and 2 is the calling
 * thread's own stream in that context. In _ptsz forms 0 is the calling thread's own stream, too.
 */
#include <stdlib.h>

#include "runtime/runtime.h"

static cudaError_t rt_stream_create(cudaStream_t *stream, unsigned int flags, int priority)
{
	return stream ? rt_code(cuStreamCreateWithPriority(stream, flags, priority)) :
		cudaErrorInvalidValue;
}

/** cudaStreamCreate - make a stream on the current device */
cudaError_t cudaStreamCreate(cudaStream_t *stream)
{
	RT_CONTEXT(rt_stream_create(stream, cudaStreamDefault, 0));
}

/** cudaStreamCreateWithFlags - the same; a cudaStreamNonBlocking stream is not ordered with the legacy stream */
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
	RT_CONTEXT(rt_stream_create(stream, flags, 0));
}

/** cudaStreamCreateWithPriority - the same; @priority is clamped to the device's range */
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned int flags, int priority)
{
	RT_CONTEXT(rt_stream_create(stream, flags, priority));
}

/**
 * cudaStreamDestroy - destroy a stream; the work that is in it is executed
 *
 * Return: cudaErrorInvalidResourceHandle, also for the default streams.
 */
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	RT_CONTEXT(rt_code(cuStreamDestroy_v2(stream)));
}

/** cudaStreamQuery - cudaErrorNotReady while there is work */
RT_PTSZ(cudaStreamQuery, (cudaStream_t stream), rt_code(SZ(cuStreamQuery)(stream)))

/** cudaStreamSynchronize - wait for the work that is in a stream now; returns also the error of failed work */
RT_PTSZ(cudaStreamSynchronize, (cudaStream_t stream), rt_code(SZ(cuStreamSynchronize)(stream)))

/** cudaStreamWaitEvent - make later work of a stream wait for the work that an event recorded last */
RT_PTSZ(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned int flags),
	rt_code(SZ(cuStreamWaitEvent)(stream, event, flags)))

/** cudaStreamGetDevice - the device that a stream's work is done on */
RT_PTSZ(cudaStreamGetDevice, (cudaStream_t stream, int *device),
	rt_code(SZ(cuStreamGetDevice)(stream, device)))

/** cudaStreamGetFlags - the flags that the stream was created with */
RT_PTSZ(cudaStreamGetFlags, (cudaStream_t stream, unsigned int *flags),
	rt_code(SZ(cuStreamGetFlags)(stream, flags)))

/** cudaStreamGetId - a number that no other stream of the process has or had */
RT_PTSZ(cudaStreamGetId, (cudaStream_t stream, unsigned long long *stream_id),
	rt_code(SZ(cuStreamGetId)(stream, stream_id)))

/** cudaStreamGetPriority - the stream's priority, after clamping */
RT_PTSZ(cudaStreamGetPriority, (cudaStream_t stream, int *priority),
	rt_code(SZ(cuStreamGetPriority)(stream, priority)))

/** cudaStreamCopyAttributes - copy all attributes from @src to @dst */
RT_PTSZ(cudaStreamCopyAttributes, (cudaStream_t dst, cudaStream_t src),
	rt_code(SZ(cuStreamCopyAttributes)(dst, src)))

/** cudaStreamGetAttribute - as cuStreamGetAttribute() */
RT_PTSZ(cudaStreamGetAttribute, (cudaStream_t stream, cudaLaunchAttributeID attribute,
				 cudaLaunchAttributeValue *value),
	rt_code(SZ(cuStreamGetAttribute)(stream, (CUstreamAttrID)attribute,
					 (CUstreamAttrValue *)value)))

/** cudaStreamSetAttribute - as cuStreamSetAttribute() */
RT_PTSZ(cudaStreamSetAttribute, (cudaStream_t stream, cudaLaunchAttributeID attribute,
				 const cudaLaunchAttributeValue *value),
	rt_code(SZ(cuStreamSetAttribute)(stream, (CUstreamAttrID)attribute,
					 (const CUstreamAttrValue *)value)))

/* ---- functions of the program in stream order */

/** cudaLaunchHostFunc - call a function in stream order; it is not called if the stream's work has failed */
RT_PTSZ(cudaLaunchHostFunc, (cudaStream_t stream, cudaHostFn_t function, void *user_data),
	rt_code(SZ(cuLaunchHostFunc)(stream, function, user_data)))

struct callback {
	cudaStreamCallback_t function;
	void *user_data;
};

static void run_callback(CUstream stream, CUresult status, void *arg)
{
	struct callback call = *(struct callback *)arg;

	free(arg);
	call.function(stream, rt_code(status), call.user_data);
}

static cudaError_t add_callback(cudaStream_t stream, cudaStreamCallback_t function,
				void *user_data, unsigned int flags, bool own)
{
	struct callback *call;
	CUresult result;

	if (!function || flags)
		return cudaErrorInvalidValue;
	call = malloc(sizeof(*call));
	if (!call)
		return cudaErrorMemoryAllocation;
	call->function = function;
	call->user_data = user_data;
	result = SZ(cuStreamAddCallback)(stream, run_callback, call, 0);
	if (result)
		free(call);
	return rt_code(result);
}

/**
 * cudaStreamAddCallback - the same; the function receives the stream and the result of the stream's work
 * @flags: 0
 *
 * The function is called even if the work has failed. Later work of the stream waits for the function.
 */
RT_PTSZ(cudaStreamAddCallback, (cudaStream_t stream, cudaStreamCallback_t callback, void *user_data,
				unsigned int flags),
	add_callback(stream, callback, user_data, flags, own))

/**
 * cudaStreamAttachMemAsync - name the stream that uses managed memory, in stream order
 * @length: 0, or the whole size
 * @flags: cudaMemAttachGlobal, cudaMemAttachHost or cudaMemAttachSingle
 *
 * Return: cudaErrorInvalidValue, cudaErrorInvalidResourceHandle.
 */
RT_PTSZ(cudaStreamAttachMemAsync, (cudaStream_t stream, void *ptr, size_t length,
				   unsigned int flags),
	rt_code(SZ(cuStreamAttachMemAsync)(stream, rt_addr(ptr), length, flags)))

/* ---- recording a stream's work; the functions that generations 12 and 13 have in common */

/** cudaStreamBeginCapture - as cuStreamBeginCapture_v2() */
RT_PTSZ(cudaStreamBeginCapture, (cudaStream_t stream, enum cudaStreamCaptureMode mode),
	rt_code(SZ(cuStreamBeginCapture_v2)(stream, (CUstreamCaptureMode)mode)))

/** cudaStreamEndCapture - as cuStreamEndCapture() */
RT_PTSZ(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t *graph),
	rt_code(SZ(cuStreamEndCapture)(stream, graph)))

/** cudaStreamIsCapturing - as cuStreamIsCapturing() */
RT_PTSZ(cudaStreamIsCapturing, (cudaStream_t stream, enum cudaStreamCaptureStatus *status),
	rt_code(SZ(cuStreamIsCapturing)(stream, (CUstreamCaptureStatus *)status)))

/** cudaThreadExchangeStreamCaptureMode - as cuThreadExchangeStreamCaptureMode() */
cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	RT_DRIVER(rt_code(cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode)));
}
