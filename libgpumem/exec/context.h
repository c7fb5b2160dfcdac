/* SPDX-License-Identifier: MIT */
/*
 * Contexts: owners of memory, streams and a sticky error. context.c owns them; the kernel does not
 * know them.
 */
#ifndef GPUMEM_EXEC_CONTEXT_H
#define GPUMEM_EXEC_CONTEXT_H

#include "address/address.h"
#include "exec/active.h"

#define CTX_MAGIC	0x78746367	/* "gctx" */

enum ctx_state {
	CTX_UNUSED, CTX_LIVE,
	CTX_ENDING,			/* a primary context whose work is waited for */
	CTX_DESTROYED,
};

struct CUctx_st {
	uint32_t magic;
	uint32_t state;			/* enum ctx_state; atomic */
	uint32_t ends;			/* lives of a primary context that ended; a futex; list_lock */
	uint64_t generation;		/* number of the life of this structure; atomic */
	uint64_t id;
	CUdevice device;
	uint64_t place;			/* where memory that is resident on the device is (address/resident.h) */
	bool primary;
	bool revive;			/* retained since CTX_ENDING was set; list_lock to write; atomic */
	uint32_t sticky;		/* CUresult of failed work, or 0; atomic */
	unsigned int flags;
	unsigned int uses;		/* retains, or attaches + 1; list_lock */
	size_t limit[CU_LIMIT_MAX];
	unsigned int cache_config, bank_config;
	pthread_mutex_t lock;
	CUstream streams;		/* not destroyed; lock */
	CUstream legacy;		/* made at first use; atomic */
	CUstream whole;			/* the stream of kind STREAM_CONTEXT; made at first use; atomic */
	struct active active;		/* queues with work, streams in use */
	struct alloc *allocs;		/* mem_lock */
	CUarray arrays;			/* whole ones, as the next; the lock of arrays (copy/array.c) */
	CUmipmappedArray mipmaps;
	struct external *externals;	/* the lock of external memories (share/external.c) */
	struct semaphore *semaphores;	/* the lock of semaphores (share/semaphore.c) */
	CUcontext next_unused;
};

/* The current context, or 201, 709 or the context's sticky error. */
CUresult ctx_current(CUcontext *ctx);
/* The same without looking at the sticky error. */
CUresult ctx_current_any(CUcontext *ctx);
CUcontext ctx_top(void);
CUresult ctx_create(CUcontext *ctx, unsigned int flags, CUdevice device);
CUresult ctx_destroy(CUcontext ctx);
CUresult ctx_attach(CUcontext *ctx, unsigned int flags);
CUresult ctx_detach(CUcontext ctx);
CUresult ctx_push(CUcontext ctx);
CUresult ctx_pop(CUcontext *ctx);
CUresult ctx_set(CUcontext ctx);
CUresult ctx_valid(CUcontext ctx);
CUresult ctx_flags(unsigned int *flags);
CUresult ctx_set_flags(unsigned int flags);
CUresult ctx_limit(size_t *value, CUlimit limit);
CUresult ctx_set_limit(CUlimit limit, size_t value);
CUresult primary_retain(CUcontext *ctx, CUdevice device);
CUresult primary_release(CUdevice device);
CUresult primary_reset(CUdevice device);
/* The primary context of a device if it lives, or NULL. */
CUcontext primary_of(CUdevice device);
CUresult primary_state(CUdevice device, unsigned int *flags, int *active);
CUresult primary_set_flags(CUdevice device, unsigned int flags);
/* Arrange that the calling thread's end destroys its streams and releases what it holds (touch.c). */
void thread_register(void);
CUresult thread_capture_mode(CUstreamCaptureMode *mode);
/* The calling thread's own stream in a context, made at first use. */
CUresult ctx_thread_stream(CUcontext ctx, CUstream *stream);
/* From now on the context returns @result; true if it had no error before. */
bool ctx_fail(CUcontext ctx, CUresult result);
/*
 * ctx_life() returns the number of the context's present life. ctx_lives_on() tells whether the context is still
 * in that life. Memory that is added to the context under the same mem_lock as ctx_lives_on() is freed with it.
 */
uint64_t ctx_life(CUcontext ctx);
bool ctx_lives_on(CUcontext ctx, uint64_t life);

static inline struct device *ctx_device(CUcontext ctx)
{
	return &client.device[ctx->device];
}

/* From a layer above: the context ends, so invalidate its arrays. */
void arrays_end(CUcontext ctx);
/* From a layer above: the context ends, so free its external memories. */
void externals_end(CUcontext ctx);
/* From a layer above: the context ends, so destroy its external semaphores. */
void semaphores_end(CUcontext ctx);
/* From a layer above: the context has ended and its work is done, so free its memory. */
void mem_free_context(CUcontext ctx);

#endif /* GPUMEM_EXEC_CONTEXT_H */
