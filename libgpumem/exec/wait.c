// SPDX-License-Identifier: MIT
/*
 * Waiting for work: for a value of a queue, for a stream, for a context, for the whole process.
 *
 * A waiting thread looks at the queue's timeline page a few times (client.spins), then sleeps in the
 * kernel. A wait returns the error of the queue's context, which is sticky. A host function may not wait for
 * entries that depend on the function: the wait returns NOT_PERMITTED.
 *
 * The process "knows" that a queue has reached a value when it has waited for the value (queue->synced).
 *
 * Some calls wait for all queues of a context, of two or of the process. They wait for what was submitted before
 * the call began (targets.h), not for what other threads submit while it waits. Exceptions: a call that has no
 * memory for the list of tails reads some tails later, and after a failure host_settle() (hostfn.c) also waits for a
 * host function that has begun.
 *
 * Invariants: a stream is idle if its queue is idle and nothing that its next operation must wait for is
 * pending.
 *
 * Locks: queries and waits for one queue take none. Queries and waits for the legacy stream, a context or the
 * process take the lock of a context's active queues.
 *
 * Vocabulary: drain, wait until a stream is idle; tail, value (ring.h).
 */
#include <errno.h>

#include "exec/exec.h"

/* ---- a queue */

CUresult queue_status(struct queue *queue)
{
	switch (load_relaxed(&queue->page->error)) {
	case 0:
		return CUDA_SUCCESS;
	case EFAULT:
	case EACCES:
	case EOVERFLOW:
	case ENOENT:
		return CUDA_ERROR_ILLEGAL_ADDRESS;
	default:
		return CUDA_ERROR_LAUNCH_FAILED;
	}
}

/* Work of the queue failed: from now on its context returns the error. */
static CUresult queue_error(struct queue *queue)
{
	CUresult result = queue_status(queue);
	CUcontext ctx;

	ctx = load_relaxed(&queue->ctx);
	if (!ctx)
		return CUDA_SUCCESS;
	/* Here only failures of the queue set the error. Failed work on the CPU has set it already (work.c). */
	if (unlikely(result) && ctx_fail(ctx, result))
		debug_work(queue, result);
	return load_relaxed(&ctx->sticky);
}

static uint64_t host_deadline(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec + HOST_LOOK_NS;
}

void queue_doze(struct queue *queue, uint64_t value)
{
	struct gpumem_timeline_wait wait = {
		.size = sizeof(wait), .id = queue->timeline, .value = value,
		.deadline = host_deadline(),
	};

	int error;

	if (unlikely(client.scheduled))
		schedule_wait(queue, value);
	error = client_ioctl(GPUMEM_TIMELINE_WAIT, &wait);
	/* The queue failed, or the kernel refused to wait: sleep instead. */
	if (error && error != ETIMEDOUT)
		lock_doze();
}

CUresult queue_sleep(struct queue *queue, uint64_t value)
{
	struct gpumem_timeline_wait wait = {
		.size = sizeof(wait), .id = queue->timeline, .value = value, .deadline = ~0ull,
	};

	/* Release a hold that a copy of this thread left behind, or this wait might not end. */
	touch_check();
	while (!queue_reached(queue, value)) {
		int error;

		if (unlikely(host_thread)) {
			if (host_blocks(queue, value))
				return CUDA_ERROR_NOT_PERMITTED;
			wait.deadline = host_deadline();
		} else if (unlikely(client.scheduled) && schedule_wait(queue, value)) {
			wait.deadline = host_deadline();
		}
		error = client_ioctl(GPUMEM_TIMELINE_WAIT, &wait);
		if (error == EIO && !queue_reached(queue, value)) {
			queue_error(queue);
			attach_synced();
			return CUDA_ERROR_LAUNCH_FAILED;
		}
		if (error && error != EIO && error != ETIMEDOUT)
			return result_of_errno(error);
	}
	queue_know(queue, value);
	attach_synced();
	return queue_error(queue);
}

/* Whether the context was made with the flag that threads sleep at once. */
static bool queue_blocking(struct queue *queue)
{
	CUcontext ctx = load_relaxed(&queue->ctx);

	return ctx && (load_relaxed(&ctx->flags) & CU_CTX_SCHED_MASK) ==
		CU_CTX_SCHED_BLOCKING_SYNC;
}

CUresult queue_wait(struct queue *queue, uint64_t value)
{
	unsigned int i;

	if (queue_reached(queue, value) || queue_blocking(queue))
		return queue_sleep(queue, value);
	for (i = 0; !queue_reached(queue, value) && i < client.spins; i++)
#if defined(__x86_64__)
		__builtin_ia32_pause();
#else
		__asm__ volatile("" ::: "memory");
#endif
	return queue_sleep(queue, value);
}

CUresult queue_settle(struct queue *queue, uint64_t value)
{
	CUresult result = queue_wait(queue, value);

	if (unlikely(result) && queue_status(queue))
		host_settle(queue, value);
	return result;
}

void queue_know(struct queue *queue, uint64_t value)
{
	/* If two threads store at the same time, the lower value may stay. It is true as well. */
	if (load_relaxed(&queue->synced) < value)
		store_relaxed(&queue->synced, value);
}

bool queue_refused(struct queue *queue, uint64_t value, CUresult *result)
{
	/* LAUNCH_FAILED: the queue failed, or its context failed earlier. */
	if (likely(!*result) || *result == CUDA_ERROR_LAUNCH_FAILED)
		return false;
	if (!queue_failed(queue) && !queue_reached(queue, value))
		return true;
	/* The work ended after the wait was refused, so return the work's result. */
	*result = queue_status(queue);
	return false;
}

/* ---- the queues of a context */

/* Whether a context's queues are idle; @every as in active.h. */
static __attribute__((noinline)) bool queues_idle_slow(CUcontext ctx, bool every)
{
	struct active_walk walk;
	struct queue *queue;
	uint64_t value;

	active_walk(&walk, &ctx->active, every, false);
	while ((queue = active_next(&walk, &value)))
		if (!queue_reached(queue, value))
			return false;
	return true;
}

static inline bool queues_idle(CUcontext ctx, bool every)
{
	return likely(active_none(&ctx->active, every)) || queues_idle_slow(ctx, every);
}

/* queues_wait(), but first for the tail of @own, unless it is NULL. An error of @own ends the call. */
static CUresult queues_wait_own(struct queue *own, struct active *active, bool every, CUcontext ctx)
{
	uint64_t value = own ? load_acquire(&own->tail) : 0;
	struct targets targets;

	targets_begin(&targets, ctx, NULL);
	targets_add_active(&targets, active, every);
	if (own) {
		targets.first = queue_settle(own, value);
		if (targets.first) {
			targets_free(&targets);
			attach_synced();
			return targets.first;
		}
	}
	targets_wait(&targets);
	targets_end(&targets, active, every);
	attach_synced();
	/* Work on the CPU may have failed just before its queue was found idle. */
	if (!targets.first && ctx && active == &ctx->active)
		targets.first = load_relaxed(&ctx->sticky);
	return targets.first;
}

CUresult queues_wait(struct active *active, bool every, CUcontext ctx)
{
	return queues_wait_own(NULL, active, every, ctx);
}

void queues_busy(void (*each)(struct queue *queue, uint64_t value, void *arg), void *arg)
{
	struct active *active;

	for (active = active_first(); active; active = active->next) {
		struct active_walk walk;
		struct queue *queue;
		uint64_t value;

		if (likely(active_none(active, true)))
			continue;
		active_walk(&walk, active, true, false);
		while ((queue = active_next(&walk, &value)))
			if (!queue_reached(queue, value))
				each(queue, value, arg);
	}
}

/* ---- a stream */

bool stream_idle(CUstream stream)
{
	struct queue *queue = load_acquire(&stream->queue);

	if (queue && !queue_idle(queue))
		return false;
	if (likely(load_acquire(&stream->legacy_done)))
		return true;
	if (stream->kind == STREAM_LEGACY_KIND)
		return queues_idle(stream->ctx, false);
	if (unlikely(stream->kind == STREAM_CONTEXT))
		return queues_idle(stream->ctx, true);
	queue = legacy_queue(stream->ctx);
	return !queue || queue_idle(queue);
}

CUresult stream_drain(CUstream stream)
{
	struct queue *queue = load_acquire(&stream->queue), *legacy = NULL;
	CUresult result = CUDA_SUCCESS;
	uint64_t value = 0;

	if (stream->kind == STREAM_LEGACY_KIND)
		return queues_wait_own(queue, &stream->ctx->active, false, stream->ctx);
	if (!(stream->flags & CU_STREAM_NON_BLOCKING))
		legacy = legacy_queue(stream->ctx);
	if (legacy)
		value = load_acquire(&legacy->tail);
	if (queue)
		result = queue_settle(queue, load_acquire(&queue->tail));
	return result || !legacy ? result : queue_wait(legacy, value);
}

CUresult stream_query(CUstream stream)
{
	struct queue *queue = load_acquire(&stream->queue);

	if ((queue && !queue_idle(queue)) ||
	    (stream->kind == STREAM_LEGACY_KIND && !queues_idle(stream->ctx, false))) {
		/* A hold that a copy of this thread left behind may block the stream. */
		touch_check();
		return CUDA_ERROR_NOT_READY;
	}
	attach_synced();
	return queue ? queue_error(queue) : CUDA_SUCCESS;
}

CUresult stream_synchronize(CUstream stream)
{
	struct queue *queue = load_acquire(&stream->queue);

	if (stream->kind == STREAM_LEGACY_KIND)
		return stream_drain(stream);
	if (queue)
		return queue_settle(queue, load_acquire(&queue->tail));
	attach_synced();
	return CUDA_SUCCESS;
}

/* ---- a context, the process */

CUresult ctx_synchronize(CUcontext ctx)
{
	return queues_wait(&ctx->active, true, ctx);
}

CUresult ctx_synchronize_both(CUcontext one, CUcontext other)
{
	struct targets targets;

	targets_begin(&targets, NULL, NULL);
	targets_add_active(&targets, &one->active, true);
	targets_add_active(&targets, &other->active, true);
	targets_wait(&targets);
	targets_end(&targets, &one->active, true);
	targets_end(&targets, &other->active, true);
	attach_synced();
	/* As in queues_wait_own(). */
	if (!targets.first)
		targets.first = load_relaxed(&one->sticky);
	if (!targets.first)
		targets.first = load_relaxed(&other->sticky);
	return targets.first;
}

CUresult ctx_look(CUcontext ctx)
{
	struct active_walk walk;
	struct queue *queue;
	uint64_t value;

	if (!ctx)
		return CUDA_SUCCESS;
	if (!active_none(&ctx->active, true)) {
		active_walk(&walk, &ctx->active, true, false);
		while ((queue = active_next(&walk, &value)))
			if (unlikely(queue_failed(queue)))
				queue_error(queue);
	}
	return load_relaxed(&ctx->sticky);
}

/* Wait for all contexts on all devices: streams of one device reach the memory of the others. */
static CUresult work_wait(bool *refused)
{
	CUcontext ctx = ctx_top();
	struct targets targets;
	struct active *active;
	bool over;

	targets_begin(&targets, ctx, refused);
	for (active = active_first(); active && !targets.partial; active = active->next)
		targets_add_active(&targets, active, true);
	over = targets_wait(&targets);
	for (active = active_first(); over && active; active = active->next)
		over = targets_end(&targets, active, true);
	if (unlikely(!over))
		return targets.first;
	attach_synced();
	if (!ctx)
		return CUDA_SUCCESS;
	/* As in queues_wait_own(). */
	return targets.first ? targets.first : load_relaxed(&ctx->sticky);
}

void work_synchronize(void)
{
	work_wait(NULL);
}

bool work_finish(CUresult *result)
{
	bool refused = false;

	*result = work_wait(&refused);
	return !refused;
}
