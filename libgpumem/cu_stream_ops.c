// SPDX-License-Identifier: MIT
/*
 * The API's chapter "Stream Memory Operations", host functions in streams, and stream capture.
 *
 * Thin: memop.c and hostfn.c do the work. Nothing is ever captured, so what asks about it says no.
 *
 * Common errors: as cu_stream.c's.
 */
#include "internal.h"

#define BOTH(name, args, call, ...)					\
	CUresult name args						\
	{								\
		const bool own = false;					\
									\
		CALL_INSIDE(call, __VA_ARGS__);				\
	}								\
	CUresult name ## _ptsz args					\
	{								\
		const bool own = true;					\
									\
		CALL_INSIDE(call, __VA_ARGS__);				\
	}

/**
 * cuStreamWaitValue32_v2 - later work waits until a word of memory compares with @value
 * @addr: in memory of the library or registered memory, a multiple of 4
 * @flags: one of CU_STREAM_WAIT_VALUE_GEQ, EQ, AND, NOR
 *
 * A change is seen at once when the engine makes it for this process, else within a millisecond:
 * also one that the library makes in the caller, because its stream is idle.
 * Return: INVALID_VALUE; NOT_SUPPORTED with CU_STREAM_WAIT_VALUE_FLUSH.
 */
BOTH(cuStreamWaitValue32_v2,
     (CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags),
     memop_wait(stream, own, addr, value, 4, flags), stream, addr, value, flags)

/** cuStreamWaitValue32 - the same */
BOTH(cuStreamWaitValue32,
     (CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags),
     memop_wait(stream, own, addr, value, 4, flags), stream, addr, value, flags)

/** cuStreamWaitValue64_v2 - the same for 8 bytes */
BOTH(cuStreamWaitValue64_v2,
     (CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags),
     memop_wait(stream, own, addr, value, 8, flags), stream, addr, value, flags)

/** cuStreamWaitValue64 - the same */
BOTH(cuStreamWaitValue64,
     (CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags),
     memop_wait(stream, own, addr, value, 8, flags), stream, addr, value, flags)

/**
 * cuStreamWriteValue32_v2 - write a word after the work before it
 * @addr: in memory of the library or registered memory, a multiple of 4
 * @flags: 0
 *
 * Who sees the word sees what the stream did before. Return: INVALID_VALUE, also for
 * NO_MEMORY_BARRIER, as the recorded driver.
 */
BOTH(cuStreamWriteValue32_v2,
     (CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags),
     memop_write(stream, own, addr, value, 4, flags), stream, addr, value, flags)

/** cuStreamWriteValue32 - the same */
BOTH(cuStreamWriteValue32,
     (CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags),
     memop_write(stream, own, addr, value, 4, flags), stream, addr, value, flags)

/** cuStreamWriteValue64_v2 - the same for 8 bytes */
BOTH(cuStreamWriteValue64_v2,
     (CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags),
     memop_write(stream, own, addr, value, 8, flags), stream, addr, value, flags)

/** cuStreamWriteValue64 - the same */
BOTH(cuStreamWriteValue64,
     (CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags),
     memop_write(stream, own, addr, value, 8, flags), stream, addr, value, flags)

/**
 * cuStreamBatchMemOp_v2 - several of these, all or none
 * @count: at most 255
 * @ops: WAIT_VALUE, WRITE_VALUE and BARRIER
 * @flags: 0
 *
 * Return: INVALID_VALUE; NOT_SUPPORTED for FLUSH_REMOTE_WRITES.
 */
BOTH(cuStreamBatchMemOp_v2,
     (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *ops, unsigned int flags),
     memop_batch(stream, own, count, ops, flags), stream, count, ops, flags)

/** cuStreamBatchMemOp - the same */
BOTH(cuStreamBatchMemOp,
     (CUstream stream, unsigned int count, CUstreamBatchMemOpParams *ops, unsigned int flags),
     memop_batch(stream, own, count, ops, flags), stream, count, ops, flags)

/**
 * cuLaunchHostFunc - call a function of the program after the work before it
 * @function: runs in a thread of the library and must not call the API, but for streams and events
 *	that it names: other calls return NOT_PERMITTED, and so do those that would wait for the
 *	function itself: submitting to a stream that has 256 entries behind it, synchronizing with
 *	what comes after it. (The driver waits for ever.)
 *
 * Left out when work of the stream has failed. Return: INVALID_VALUE without a function,
 * OUT_OF_MEMORY.
 */
BOTH(cuLaunchHostFunc, (CUstream stream, CUhostFn function, void *user_data),
     !function ? CUDA_ERROR_INVALID_VALUE : host_call(stream, own, function, NULL, user_data),
     stream, function, user_data)

/**
 * cuStreamAddCallback - the same; the function is told whether the work before it succeeded
 * @callback: called in any case
 * @flags: 0
 */
BOTH(cuStreamAddCallback,
     (CUstream stream, CUstreamCallback callback, void *user_data, unsigned int flags),
     !callback || flags ? CUDA_ERROR_INVALID_VALUE :
     host_call(stream, own, NULL, callback, user_data), stream, callback, user_data, flags)

/* ---- capture */

static CUresult capture_state(CUstream handle, bool own, CUstreamCaptureStatus *status)
{
	CUstream stream;
	CUresult result = stream_get_any(handle, own, &stream);

	if (!result && !status)
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result)
		*status = CU_STREAM_CAPTURE_STATUS_NONE;
	return result;
}

/** cuStreamIsCapturing - never */
BOTH(cuStreamIsCapturing, (CUstream stream, CUstreamCaptureStatus *status),
     capture_state(stream, own, status), stream, status)

/** cuStreamGetCaptureInfo_v3 - not captured; the other outputs are not written */
BOTH(cuStreamGetCaptureInfo_v3,
     (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
      const CUgraphNode **dependencies, const CUgraphEdgeData **edge_data,
      size_t *dependency_count),
     ((void)id, (void)graph, (void)dependencies, (void)edge_data, (void)dependency_count,
      capture_state(stream, own, status)), stream, status, id, graph, dependencies, edge_data,
     dependency_count)

/** cuStreamGetCaptureInfo_v2 - the same */
BOTH(cuStreamGetCaptureInfo_v2,
     (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id, CUgraph *graph,
      const CUgraphNode **dependencies, size_t *dependency_count),
     ((void)id, (void)graph, (void)dependencies, (void)dependency_count,
      capture_state(stream, own, status)), stream, status, id, graph, dependencies,
     dependency_count)

/** cuStreamGetCaptureInfo - the same */
BOTH(cuStreamGetCaptureInfo, (CUstream stream, CUstreamCaptureStatus *status, cuuint64_t *id),
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
BOTH(cuStreamBeginCapture_v2, (CUstream stream, CUstreamCaptureMode mode),
     begin_capture(stream, own, mode), stream, mode)

/** cuStreamBeginCapture - the same */
BOTH(cuStreamBeginCapture, (CUstream stream),
     begin_capture(stream, own, CU_STREAM_CAPTURE_MODE_GLOBAL), stream)

static CUresult not_capturing(CUstream handle, bool own)
{
	CUstream stream;
	CUresult result = stream_get_any(handle, own, &stream);

	return result ? result : CUDA_ERROR_ILLEGAL_STATE;
}

/** cuStreamUpdateCaptureDependencies_v2 - ILLEGAL_STATE: nothing is captured */
BOTH(cuStreamUpdateCaptureDependencies_v2,
     (CUstream stream, CUgraphNode *dependencies, const CUgraphEdgeData *dependency_data,
      size_t dependency_count, unsigned int flags),
     ((void)dependencies, (void)dependency_data, (void)dependency_count, (void)flags,
      not_capturing(stream, own)), stream, dependencies, dependency_data, dependency_count, flags)

/** cuStreamUpdateCaptureDependencies - the same */
BOTH(cuStreamUpdateCaptureDependencies,
     (CUstream stream, CUgraphNode *dependencies, size_t dependency_count, unsigned int flags),
     ((void)dependencies, (void)dependency_count, (void)flags, not_capturing(stream, own)), stream,
     dependencies, dependency_count, flags)

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

/** cuStreamEndCapture - ILLEGAL_STATE: there is none */
BOTH(cuStreamEndCapture, (CUstream stream, CUgraph *graph), end_capture(stream, own, graph),
     stream, graph)

/**
 * cuThreadExchangeStreamCaptureMode - set the thread's capture mode
 * @mode: the new one; the old one afterwards
 *
 * Kept and given back; it means nothing without capture. Return: INVALID_VALUE without @mode.
 */
CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
	CALL_INSIDE(thread_capture_mode(mode), mode);
}
