// SPDX-License-Identifier: MIT
/*
 * The API's chapter "Stream Management".
 *
 * Thin: stream.c, wait.c and event.c of exec/ implement it. Handles 0 and 1 are the current context's legacy
 * stream, and 2 is the calling thread's own stream in that context. In _ptsz forms 0 is the calling thread's own
 * stream, too.
 *
 * Common errors: INVALID_CONTEXT for the handles 0, 1 and 2 without a current context, INVALID_HANDLE for a
 * stream that was destroyed, INVALID_VALUE.
 */
#include "driver/driver.h"
#include "driver/forms.h"

/* Both forms of a function that has nothing to do if the stream is idle. */
#define STREAM_FORMS_IF_BUSY(name, ready, call)				\
	static __attribute__((noinline, cold)) CUresult name ## _busy(CUstream stream, bool own) \
	{								\
		CALL_INSIDE_AS(own ? #name "_ptsz" : #name, call, stream);	\
	}								\
	CUresult name(CUstream stream)					\
	{								\
		if (ready && stream_synced(stream))			\
			return CUDA_SUCCESS;				\
		return name ## _busy(stream, false);			\
	}								\
	CUresult name ## _ptsz(CUstream stream)				\
	{								\
		if (ready && stream_synced(stream))			\
			return CUDA_SUCCESS;				\
		return name ## _busy(stream, true);			\
	}

static CUresult api_stream_create(CUstream *stream, unsigned int flags, int priority)
{
	CUcontext ctx;
	CUresult result = ctx_current(&ctx);

	return result ? result :
		stream_create(stream, ctx, STREAM_CREATED, flags, priority);
}

static CUresult api_stream_check(const CUstream *stream, unsigned int flags)
{
	return NEEDS(stream && !(flags & ~CU_STREAM_NON_BLOCKING));
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
	CALL_AFTER(api_stream_check(stream, flags), api_stream_create(stream, flags, 0), stream,
		   flags);
}

/** cuStreamCreateWithPriority - the same; @priority is clamped to the range from 0 (lowest) to -5 */
CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned int flags, int priority)
{
	CALL_AFTER(api_stream_check(stream, flags), api_stream_create(stream, flags, priority),
		   stream, flags, priority);
}

static CUresult api_stream_destroy(CUstream stream)
{
	/* Default streams cannot be destroyed. */
	if ((uintptr_t)stream >= PAGE && load_acquire(&stream->magic) == STREAM_MAGIC &&
	    stream->kind != STREAM_CREATED)
		return CUDA_ERROR_INVALID_HANDLE;
	return stream_destroy(stream);
}

/**
 * cuStreamDestroy_v2 - destroy a stream
 *
 * Returns at once; the work that is in the stream is executed. Needs no context. Return: INVALID_HANDLE, also for
 * the default streams.
 */
CUresult cuStreamDestroy_v2(CUstream stream)
{
	CALL_INSIDE(api_stream_destroy(stream), stream);
}

/** cuStreamDestroy - the same */
CUresult cuStreamDestroy(CUstream stream)
{
	CALL_INSIDE(api_stream_destroy(stream), stream);
}

static CUresult api_stream_query(CUstream handle, bool own)
{
	CUstream stream;
	CUresult result = stream_get(handle, own, &stream);

	return result ? result : stream_query(stream);
}

/** cuStreamQuery - NOT_READY while there is work; no system call */
STREAM_FORMS_IF_BUSY(cuStreamQuery, quick(), api_stream_query(stream, own))

static CUresult api_stream_synchronize(CUstream handle, bool own)
{
	CUstream stream;
	CUresult result = stream_get(handle, own, &stream);

	if (!result)
		result = stream_synchronize(stream);
	if (!result)
		sync_release();
	return result;
}

/**
 * cuStreamSynchronize - wait for the work that is in a stream now
 *
 * For the legacy stream this includes the blocking streams' work. Return: also the error of work
 * that failed.
 */
STREAM_FORMS_IF_BUSY(cuStreamSynchronize, sync_only_waits(), api_stream_synchronize(stream, own))

static CUresult api_stream_wait_event(CUstream handle, CUevent event, unsigned int flags, bool own)
{
	CUstream stream;
	CUresult result = stream_get(handle, own, &stream);

	return result ? result : event_wait(stream, event, flags);
}

/**
 * cuStreamWaitEvent - make later work of a stream wait for the work that an event recorded last
 * @flags: 0; CU_EVENT_WAIT_EXTERNAL is for streams that are being captured, and no stream is
 *
 * An event that was never recorded is complete. Return: INVALID_HANDLE, INVALID_VALUE, ILLEGAL_STATE for
 * EXTERNAL.
 */
STREAM_FORMS_INSIDE(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned int flags),
		    CUDA_SUCCESS, api_stream_wait_event(stream, event, flags, own), stream, event,
		    flags)

static CUresult api_stream_get_ctx(CUstream handle, CUcontext *ctx, bool own)
{
	CUstream stream;
	CUresult result = stream_get_any(handle, own, &stream);

	if (!result && ctx)
		*ctx = stream->ctx;
	return result;
}

/** cuStreamGetCtx - the context that a stream was made in */
STREAM_FORMS_INSIDE(cuStreamGetCtx, (CUstream stream, CUcontext *ctx), NEEDS(ctx),
		    api_stream_get_ctx(stream, ctx, own), stream, ctx)

static CUresult api_stream_get_device(CUstream handle, CUdevice *device, bool own)
{
	CUstream stream;
	CUresult result = stream_get_any(handle, own, &stream);

	if (!result)
		*device = stream->ctx->device;
	return result;
}

/** cuStreamGetDevice - the device that a stream's work is done on */
STREAM_FORMS_INSIDE(cuStreamGetDevice, (CUstream stream, CUdevice *device), NEEDS(device),
		    api_stream_get_device(stream, device, own), stream, device)

static CUresult api_stream_get_flags(CUstream handle, unsigned int *flags, bool own)
{
	CUstream stream;
	CUresult result = stream_get_any(handle, own, &stream);

	if (!result)
		*flags = stream->flags;
	return result;
}

/** cuStreamGetFlags - CU_STREAM_DEFAULT or CU_STREAM_NON_BLOCKING */
STREAM_FORMS_INSIDE(cuStreamGetFlags, (CUstream stream, unsigned int *flags), NEEDS(flags),
		    api_stream_get_flags(stream, flags, own), stream, flags)

static CUresult api_stream_get_priority(CUstream handle, int *priority, bool own)
{
	CUstream stream;
	CUresult result = stream_get_any(handle, own, &stream);

	if (!result)
		*priority = load_relaxed(&stream->priority);
	return result;
}

/** cuStreamGetPriority - the stream's priority, after clamping */
STREAM_FORMS_INSIDE(cuStreamGetPriority, (CUstream stream, int *priority), NEEDS(priority),
		    api_stream_get_priority(stream, priority, own), stream, priority)

static CUresult api_stream_get_id(CUstream handle, unsigned long long *id, bool own)
{
	CUstream stream;
	CUresult result = stream_get_any(handle, own, &stream);

	if (!result)
		*id = stream->id;
	return result;
}

/** cuStreamGetId - a number that no other stream of the process has or had */
STREAM_FORMS_INSIDE(cuStreamGetId, (CUstream stream, unsigned long long *stream_id),
		    NEEDS(stream_id), api_stream_get_id(stream, stream_id, own), stream, stream_id)

static CUresult api_stream_get_ctx_v2(CUstream handle, CUcontext *ctx, CUgreenCtx *green, bool own)
{
	CUresult result = api_stream_get_ctx(handle, ctx, own);

	if (!result && green)
		*green = NULL;
	return result;
}

/** cuStreamGetCtx_v2 - as cuStreamGetCtx(); *green_ctx becomes NULL; one of the outputs may be NULL */
STREAM_FORMS_INSIDE(cuStreamGetCtx_v2, (CUstream stream, CUcontext *ctx, CUgreenCtx *green_ctx),
		    CUDA_SUCCESS,
		    !ctx && !green_ctx ? CUDA_ERROR_INVALID_VALUE :
		    api_stream_get_ctx_v2(stream, ctx, green_ctx, own),
		    stream, ctx, green_ctx)

static CUresult api_stream_get_attribute(CUstream handle, CUstreamAttrID attribute,
					 CUstreamAttrValue *value, bool own)
{
	CUstream stream;
	CUresult result = stream_get_any(handle, own, &stream);

	if (!result && !value)
		result = CUDA_ERROR_INVALID_VALUE;
	return result ? result : stream_get_attribute(stream, attribute, value);
}

/**
 * cuStreamGetAttribute - a stream's priority, synchronization policy, or an attribute that has no effect here
 *
 * Return: INVALID_VALUE for attributes that streams do not have.
 */
STREAM_FORMS_INSIDE(cuStreamGetAttribute,
		    (CUstream stream, CUstreamAttrID attribute, CUstreamAttrValue *value),
		    CUDA_SUCCESS, api_stream_get_attribute(stream, attribute, value, own), stream,
		    attribute, value)

static CUresult api_stream_set_attribute(CUstream handle, CUstreamAttrID attribute,
					 const CUstreamAttrValue *value, bool own)
{
	CUstream stream;
	CUresult result = stream_get_any(handle, own, &stream);

	/* A program cannot set attributes of default streams. */
	if (!result && (!value || stream->kind != STREAM_CREATED))
		result = CUDA_ERROR_INVALID_VALUE;
	return result ? result : stream_set_attribute(stream, attribute, value);
}

/**
 * cuStreamSetAttribute - set one attribute of a stream
 *
 * A new priority has an effect only if the stream has not queued work yet. Return: INVALID_VALUE, also for
 * the default streams.
 */
STREAM_FORMS_INSIDE(cuStreamSetAttribute,
		    (CUstream stream, CUstreamAttrID attribute, const CUstreamAttrValue *param),
		    CUDA_SUCCESS, api_stream_set_attribute(stream, attribute, param, own), stream,
		    attribute, param)

static CUresult api_stream_copy_attributes(CUstream to, CUstream from, bool own)
{
	CUstream dst, src;
	CUresult result = stream_get_any(to, own, &dst);

	if (!result)
		result = stream_get_any(from, own, &src);
	if (!result)
		stream_copy_attributes(dst, src);
	return result;
}

/** cuStreamCopyAttributes - copy all attributes from @src_stream to @dst_stream */
STREAM_FORMS_INSIDE(cuStreamCopyAttributes, (CUstream dst_stream, CUstream src_stream),
		    CUDA_SUCCESS, api_stream_copy_attributes(dst_stream, src_stream, own),
		    dst_stream, src_stream)
