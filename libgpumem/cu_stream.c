// SPDX-License-Identifier: MIT
/*
 * The API's chapter "Stream Management".
 *
 * Thin: what is behind it is in stream.c and event.c. Handles 0 and 1 are the current context's
 * legacy stream, 2 is the calling thread's own stream in it; in _ptsz forms 0 is, too.
 *
 * Common errors: INVALID_CONTEXT for these handles without a current context, INVALID_HANDLE for a
 * stream that was destroyed, INVALID_VALUE.
 */
#include "internal.h"
#include "ring.h"

/* The legacy form, and the form in which stream 0 is the calling thread's own. */
#define BOTH(name, args, call, ...)					\
	CUresult name args						\
	{								\
		const bool own = false;					\
									\
		CALL_INSIDE(call, __VA_ARGS__);					\
	}								\
	CUresult name ## _ptsz args					\
	{								\
		const bool own = true;					\
									\
		CALL_INSIDE(call, __VA_ARGS__);					\
	}

/* The same for calls that have nothing to do if the stream is idle. */
#define BOTH_IF_BUSY(name, easy, call)						\
	static __attribute__((noinline, cold)) CUresult name ## _busy(CUstream stream, bool own) \
	{								\
		CALL_INSIDE_AS(own ? #name "_ptsz" : #name, call, stream);	\
	}								\
	CUresult name(CUstream stream)					\
	{								\
		if (easy && stream_quiet(stream))			\
			return CUDA_SUCCESS;				\
		return name ## _busy(stream, false);			\
	}								\
	CUresult name ## _ptsz(CUstream stream)				\
	{								\
		if (easy && stream_quiet(stream))			\
			return CUDA_SUCCESS;				\
		return name ## _busy(stream, true);			\
	}

static CUresult create(CUstream *stream, unsigned int flags, int priority)
{
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);

	if (result)
		return result;
	if (!stream || flags & ~CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	return stream_create(stream, ctx, STREAM_CREATED, flags, priority);
}

/**
 * cuStreamCreate - make a stream in the current context
 * @stream: the handle; not written on failure
 * @flags: CU_STREAM_DEFAULT or CU_STREAM_NON_BLOCKING
 *
 * Return: INVALID_CONTEXT, INVALID_VALUE, OUT_OF_MEMORY.
 */
CUresult cuStreamCreate(CUstream *stream, unsigned int flags)
{
	CALL(create(stream, flags, 0), stream, flags);
}

/** cuStreamCreateWithPriority - the same; @priority is clamped to what there is, 0 to -5 */
CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
	CALL(create(stream, flags, priority), stream, flags, priority);
}

static CUresult destroy(CUstream stream)
{
	/* A default stream is nobody's to destroy, whatever its handle. */
	if ((uintptr_t)stream >= PAGE && load_acquire(&stream->magic) == STREAM_MAGIC &&
	    stream->kind != STREAM_CREATED)
		return CUDA_ERROR_INVALID_HANDLE;
	return stream_destroy(stream);
}

/**
 * cuStreamDestroy_v2 - destroy a stream
 *
 * Returns at once; what is in the stream is still done. Needs no context. Return: INVALID_HANDLE,
 * also for the default streams.
 */
CUresult cuStreamDestroy_v2(CUstream stream)
{
	CALL_INSIDE(destroy(stream), stream);
}

/** cuStreamDestroy - the same */
CUresult cuStreamDestroy(CUstream stream)
{
	CALL_INSIDE(destroy(stream), stream);
}

static CUresult query(CUstream handle, bool own)
{
	CUstream stream;
	CUresult result = stream_get(handle, own, &stream);

	return result ? result : stream_query(stream);
}

/** cuStreamQuery - NOT_READY while there is work; no system call */
BOTH_IF_BUSY(cuStreamQuery, !not_initialized(), query(stream, own))

static CUresult synchronize(CUstream handle, bool own)
{
	CUstream stream;
	CUresult result = stream_get(handle, own, &stream);

	if (!result)
		result = stream_synchronize(stream);
	if (!result)
		pools_release_excess();
	return result;
}

/**
 * cuStreamSynchronize - wait for the work that is in a stream now
 *
 * For the legacy stream this includes the blocking streams' work. Return: also the error of work
 * that failed.
 */
BOTH_IF_BUSY(cuStreamSynchronize, easy_process(), synchronize(stream, own))

static CUresult wait_event(CUstream handle, CUevent event, unsigned int flags, bool own)
{
	CUstream stream;
	CUresult result = stream_get(handle, own, &stream);

	return result ? result : event_wait(stream, event, flags);
}

/**
 * cuStreamWaitEvent - later work waits for what the event recorded last
 * @flags: 0 or CU_EVENT_WAIT_EXTERNAL
 *
 * An event that was never recorded is complete. Return: INVALID_HANDLE, INVALID_VALUE.
 */
BOTH(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags),
     wait_event(stream, event, flags, own), stream, event, flags)

static CUresult get_ctx(CUstream handle, CUcontext *ctx, bool own)
{
	CUstream stream;
	CUresult result = stream_get_any(handle, own, &stream);

	if (!result && !ctx)
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result)
		*ctx = stream->ctx;
	return result;
}

/** cuStreamGetCtx - the context that a stream was made in */
BOTH(cuStreamGetCtx, (CUstream stream, CUcontext *ctx), get_ctx(stream, ctx, own), stream, ctx)

static CUresult get_device(CUstream handle, CUdevice *device, bool own)
{
	CUstream stream;
	CUresult result = stream_get_any(handle, own, &stream);

	if (!result && !device)
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result)
		*device = stream->ctx->device;
	return result;
}

/** cuStreamGetDevice - the device that a stream's work is done on */
BOTH(cuStreamGetDevice, (CUstream stream, CUdevice *device), get_device(stream, device, own),
     stream, device)

static CUresult get_flags(CUstream handle, unsigned int *flags, bool own)
{
	CUstream stream;
	CUresult result = stream_get_any(handle, own, &stream);

	if (!result && !flags)
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result)
		*flags = stream->flags;
	return result;
}

/** cuStreamGetFlags - CU_STREAM_DEFAULT or CU_STREAM_NON_BLOCKING */
BOTH(cuStreamGetFlags, (CUstream stream, unsigned int *flags), get_flags(stream, flags, own),
     stream, flags)

static CUresult get_priority(CUstream handle, int *priority, bool own)
{
	CUstream stream;
	CUresult result = stream_get_any(handle, own, &stream);

	if (!result && !priority)
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result)
		*priority = load_relaxed(&stream->priority);
	return result;
}

/** cuStreamGetPriority - as it was clamped */
BOTH(cuStreamGetPriority, (CUstream stream, int *priority), get_priority(stream, priority, own),
     stream, priority)

static CUresult get_id(CUstream handle, unsigned long long *id, bool own)
{
	CUstream stream;
	CUresult result = stream_get_any(handle, own, &stream);

	if (!result && !id)
		result = CUDA_ERROR_INVALID_VALUE;
	if (!result)
		*id = stream->id;
	return result;
}

/** cuStreamGetId - a number that no other stream of the process has or had */
BOTH(cuStreamGetId, (CUstream stream, unsigned long long *stream_id),
     get_id(stream, stream_id, own), stream, stream_id)

static CUresult get_ctx_v2(CUstream handle, CUcontext *ctx, CUgreenCtx *green, bool own)
{
	CUresult result = get_ctx(handle, ctx, own);

	if (!result && green)
		*green = NULL;
	return result;
}

/** cuStreamGetCtx_v2 - the same; there are no green contexts */
BOTH(cuStreamGetCtx_v2, (CUstream stream, CUcontext *ctx, CUgreenCtx *green_ctx),
     get_ctx_v2(stream, ctx, green_ctx, own), stream, ctx, green_ctx)

static CUresult get_attribute(CUstream handle, CUstreamAttrID attribute, CUstreamAttrValue *value,
			      bool own)
{
	CUstream stream;
	CUresult result = stream_get_any(handle, own, &stream);

	if (!result && !value)
		result = CUDA_ERROR_INVALID_VALUE;
	return result ? result : stream_get_attribute(stream, attribute, value);
}

/**
 * cuStreamGetAttribute - priority, synchronization policy, and what has no meaning here
 *
 * Return: INVALID_VALUE for attributes that streams do not have.
 */
BOTH(cuStreamGetAttribute, (CUstream stream, CUstreamAttrID attribute, CUstreamAttrValue *value),
     get_attribute(stream, attribute, value, own), stream, attribute, value)

static CUresult set_attribute(CUstream handle, CUstreamAttrID attribute,
			      const CUstreamAttrValue *value, bool own)
{
	CUstream stream;
	CUresult result = stream_get_any(handle, own, &stream);

	/* A default stream's are not for the program to set. */
	if (!result && (!value || stream->kind != STREAM_CREATED))
		result = CUDA_ERROR_INVALID_VALUE;
	return result ? result : stream_set_attribute(stream, attribute, value);
}

/**
 * cuStreamSetAttribute - set one of these
 *
 * A priority counts for streams that have not queued anything yet. Return: INVALID_VALUE, also for
 * the default streams.
 */
BOTH(cuStreamSetAttribute,
     (CUstream stream, CUstreamAttrID attribute, const CUstreamAttrValue *param),
     set_attribute(stream, attribute, param, own), stream, attribute, param)

static CUresult copy_attributes(CUstream to, CUstream from, bool own)
{
	CUstream dst, src;
	CUresult result = stream_get_any(to, own, &dst);

	if (!result)
		result = stream_get_any(from, own, &src);
	if (!result)
		stream_copy_attributes(dst, src);
	return result;
}

/** cuStreamCopyAttributes - set all of one stream as another has them */
BOTH(cuStreamCopyAttributes, (CUstream dst_stream, CUstream src_stream),
     copy_attributes(dst_stream, src_stream, own), dst_stream, src_stream)
