// SPDX-License-Identifier: MIT
/*
 * The API's chapter "Stream Memory Operations", host functions in streams, and stream capture.
 *
 * Thin: exec/memop.c and exec/hostfn.c implement it. No stream is ever capturing, and queries return that.
 *
 * Common errors: those of cu_stream.c.
 */
#include "driver/driver.h"
#include "driver/forms.h"

/**
 * cuStreamWaitValue32_v2 - later work waits until a word of memory compares with @value
 * @addr: in memory of the library or registered memory, a multiple of 4
 * @flags: one of CU_STREAM_WAIT_VALUE_GEQ, EQ, AND, NOR
 *
 * The wait sees a change by the engine for this process at once, and any other change within a millisecond. A
 * write that the library executes in the calling thread, because its stream is idle, is such an other change.
 * Return: INVALID_VALUE; NOT_SUPPORTED with CU_STREAM_WAIT_VALUE_FLUSH.
 */
STREAM_FORMS_INSIDE(cuStreamWaitValue32_v2,
		    (CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags),
		    CUDA_SUCCESS, memop_wait(stream, own, addr, value, 4, flags), stream, addr,
		    value, flags)

/** cuStreamWaitValue32 - the same */
STREAM_FORMS_INSIDE(cuStreamWaitValue32,
		    (CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags),
		    CUDA_SUCCESS, memop_wait(stream, own, addr, value, 4, flags), stream, addr,
		    value, flags)

/** cuStreamWaitValue64_v2 - the same for 8 bytes */
STREAM_FORMS_INSIDE(cuStreamWaitValue64_v2,
		    (CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags),
		    CUDA_SUCCESS, memop_wait(stream, own, addr, value, 8, flags), stream, addr,
		    value, flags)

/** cuStreamWaitValue64 - the same */
STREAM_FORMS_INSIDE(cuStreamWaitValue64,
		    (CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags),
		    CUDA_SUCCESS, memop_wait(stream, own, addr, value, 8, flags), stream, addr,
		    value, flags)

/**
 * cuStreamWriteValue32_v2 - write a word of memory in stream order
 * @addr: in memory of the library or registered memory, a multiple of 4
 * @flags: 0
 *
 * A thread that reads the new value also sees the effects of the stream's earlier work. Return: INVALID_VALUE,
 * also for NO_MEMORY_BARRIER, as the recorded driver.
 */
STREAM_FORMS_INSIDE(cuStreamWriteValue32_v2,
		    (CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags),
		    CUDA_SUCCESS, memop_write(stream, own, addr, value, 4, flags), stream, addr,
		    value, flags)

/** cuStreamWriteValue32 - the same */
STREAM_FORMS_INSIDE(cuStreamWriteValue32,
		    (CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags),
		    CUDA_SUCCESS, memop_write(stream, own, addr, value, 4, flags), stream, addr,
		    value, flags)

/** cuStreamWriteValue64_v2 - the same for 8 bytes */
STREAM_FORMS_INSIDE(cuStreamWriteValue64_v2,
		    (CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags),
		    CUDA_SUCCESS, memop_write(stream, own, addr, value, 8, flags), stream, addr,
		    value, flags)

/** cuStreamWriteValue64 - the same */
STREAM_FORMS_INSIDE(cuStreamWriteValue64,
		    (CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags),
		    CUDA_SUCCESS, memop_write(stream, own, addr, value, 8, flags), stream, addr,
		    value, flags)

/**
 * cuStreamBatchMemOp_v2 - submit several memory operations, all or none
 * @count: the number of operations, at most 255
 * @ops: operations of the types WAIT_VALUE, WRITE_VALUE and BARRIER
 * @flags: 0
 *
 * Return: INVALID_VALUE; NOT_SUPPORTED for FLUSH_REMOTE_WRITES.
 */
STREAM_FORMS_INSIDE(cuStreamBatchMemOp_v2, (CUstream stream, unsigned int count,
					    CUstreamBatchMemOpParams *ops, unsigned int flags),
		    CUDA_SUCCESS, memop_batch(stream, own, count, ops, flags), stream, count, ops,
		    flags)

/** cuStreamBatchMemOp - the same */
STREAM_FORMS_INSIDE(cuStreamBatchMemOp, (CUstream stream, unsigned int count,
					 CUstreamBatchMemOpParams *ops, unsigned int flags),
		    CUDA_SUCCESS, memop_batch(stream, own, count, ops, flags), stream, count, ops,
		    flags)

/**
 * cuLaunchHostFunc - call a function of the program in stream order
 * @function: runs in a thread of the library. It may call only functions of the API that work on streams and
 *	events which it names; other calls return NOT_PERMITTED. Calls that would wait for the function itself
 *	return NOT_PERMITTED, too: submitting to a stream that has 256 entries behind the function, and
 *	synchronizing with work that comes after the function. (NVIDIA's driver waits for ever.)
 *
 * The function does not run if work of the stream has failed. Return: INVALID_VALUE without a function,
 * OUT_OF_MEMORY.
 */
STREAM_FORMS_INSIDE(cuLaunchHostFunc, (CUstream stream, CUhostFn function, void *user_data),
		    NEEDS(function), host_call(stream, own, function, NULL, user_data), stream,
		    function, user_data)

/**
 * cuLaunchHostFunc_v2 - cuLaunchHostFunc() with a hint how to wait for host functions
 * @sync_mode: CU_HOST_TASK_BLOCKING or SPINWAIT; both have the same effect (deviation)
 *
 * Since CUDA 13.2; documented, not measured. Return: INVALID_VALUE also for another mode.
 */
STREAM_FORMS_INSIDE(cuLaunchHostFunc_v2, (CUstream stream, CUhostFn function, void *user_data,
					  unsigned int sync_mode),
		    NEEDS(function && sync_mode <= CU_HOST_TASK_SPINWAIT),
		    host_call(stream, own, function, NULL, user_data), stream, function, user_data,
		    sync_mode)

/**
 * cuStreamAddCallback - as cuLaunchHostFunc(), with the result of the stream's earlier work as an argument
 * @callback: the function, which is called even if the work has failed
 * @flags: 0
 */
STREAM_FORMS_INSIDE(cuStreamAddCallback, (CUstream stream, CUstreamCallback callback,
					  void *user_data, unsigned int flags),
		    NEEDS(callback && !flags), host_call(stream, own, NULL, callback, user_data),
		    stream, callback, user_data, flags)

/* ---- capture */

static CUresult capture_state(CUstream handle, bool own, CUstreamCaptureStatus *status)
{
	CUstream stream;
	CUresult result = stream_get_any(handle, own, &stream);

	if (!result)
		*status = CU_STREAM_CAPTURE_STATUS_NONE;
	return result;
}

/** cuStreamIsCapturing - *status is always CU_STREAM_CAPTURE_STATUS_NONE */
STREAM_FORMS_INSIDE(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *status),
		    NEEDS(status), capture_state(stream, own, status), stream, status)

/** cuStreamGetCaptureInfo_v3 - *status is always NONE; the other outputs are not written */
STREAM_FORMS_INSIDE(cuStreamGetCaptureInfo_v3, (CUstream stream, CUstreamCaptureStatus *status,
						cuuint64_t *id, CUgraph *graph,
						const CUgraphNode **dependencies,
						const CUgraphEdgeData **edge_data,
						size_t *dependency_count), NEEDS(status),
		    ((void)id, (void)graph, (void)dependencies, (void)edge_data,
		     (void)dependency_count, capture_state(stream, own, status)), stream, status,
		    id, graph, dependencies, edge_data, dependency_count)

/** cuStreamGetCaptureInfo_v2 - the same */
STREAM_FORMS_INSIDE(cuStreamGetCaptureInfo_v2, (CUstream stream, CUstreamCaptureStatus *status,
						cuuint64_t *id, CUgraph *graph,
						const CUgraphNode **dependencies,
						size_t *dependency_count), NEEDS(status),
		    ((void)id, (void)graph, (void)dependencies, (void)dependency_count,
		     capture_state(stream, own, status)), stream, status, id, graph, dependencies,
		    dependency_count)

/** cuStreamGetCaptureInfo - the same */
STREAM_FORMS_INSIDE(cuStreamGetCaptureInfo,
		    (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id), NEEDS(status),
		    ((void)id, capture_state(stream, own, status)), stream, status, id)

static CUresult begin_capture(CUstream handle, bool own, CUstreamCaptureMode mode)
{
	CUstream stream;
	CUresult result = stream_get_any(handle, own, &stream);

	if (result)
		return result;
	if (mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	return stream->kind == STREAM_LEGACY_KIND ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED :
		CUDA_ERROR_NOT_SUPPORTED;
}

/**
 * cuStreamBeginCapture_v2 - NOT_SUPPORTED: there are no graphs
 *
 * Return: STREAM_CAPTURE_UNSUPPORTED for the legacy stream, INVALID_VALUE for an unknown mode.
 */
STREAM_FORMS_INSIDE(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode),
		    CUDA_SUCCESS, begin_capture(stream, own, mode), stream, mode)

/** cuStreamBeginCapture - the same */
STREAM_FORMS_INSIDE(cuStreamBeginCapture, (CUstream stream), CUDA_SUCCESS,
		    begin_capture(stream, own, CU_STREAM_CAPTURE_MODE_GLOBAL), stream)

static CUresult not_capturing(CUstream handle, bool own)
{
	CUstream stream;
	CUresult result = stream_get_any(handle, own, &stream);

	return result ? result : CUDA_ERROR_ILLEGAL_STATE;
}

/** cuStreamUpdateCaptureDependencies_v2 - ILLEGAL_STATE: nothing is captured */
STREAM_FORMS_INSIDE(cuStreamUpdateCaptureDependencies_v2, (CUstream stream,
							   CUgraphNode *dependencies,
							   const CUgraphEdgeData *dependency_data,
							   size_t dependency_count,
							   unsigned int flags), CUDA_SUCCESS,
		    ((void)dependencies, (void)dependency_data, (void)dependency_count, (void)flags,
		     not_capturing(stream, own)), stream, dependencies, dependency_data,
		    dependency_count, flags)

/** cuStreamUpdateCaptureDependencies - the same */
STREAM_FORMS_INSIDE(cuStreamUpdateCaptureDependencies, (CUstream stream, CUgraphNode *dependencies,
							size_t dependency_count,
							unsigned int flags), CUDA_SUCCESS,
		    ((void)dependencies, (void)dependency_count, (void)flags,
		     not_capturing(stream, own)), stream, dependencies, dependency_count, flags)

static CUresult end_capture(CUstream handle, bool own, CUgraph *graph)
{
	CUstream stream;
	CUresult result = stream_get_any(handle, own, &stream);

	if (result)
		return result;
	if (graph)
		*graph = NULL;
	return CUDA_ERROR_ILLEGAL_STATE;
}

/** cuStreamEndCapture - ILLEGAL_STATE: no stream is capturing; *graph becomes NULL */
STREAM_FORMS_INSIDE(cuStreamEndCapture, (CUstream stream, CUgraph *graph), CUDA_SUCCESS,
		    end_capture(stream, own, graph), stream, graph)

/**
 * cuThreadExchangeStreamCaptureMode - set the thread's capture mode
 * @mode: the new mode; receives the old one
 *
 * The mode is stored and has no effect, because there is no capture. Return: INVALID_VALUE, also for NULL @mode.
 */
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CALL_INSIDE(thread_capture_mode(mode), mode);
}
