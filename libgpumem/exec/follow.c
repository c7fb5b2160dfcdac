// SPDX-License-Identifier: MIT
/*
 * The order between streams: waits for other streams that go into a queue before an operation.
 *
 * Legacy work waits for what blocking streams have queued, and their work waits for what the legacy stream
 * has queued: a WAIT entry goes before the work unless the value is reached, or a wait for it is already
 * queued. The blocking queues with unfinished work are in a list of the context (active.c), also those of
 * destroyed streams. order.c orders operations that are in no queue.
 *
 * A queue remembers the last values of other queues that it waits for (queue->past). Pools ask for them: what
 * was freed in one stream may be used in another that comes after the free.
 *
 * Locks: stream->lock of the stream that owns the queue; queue->past_lock inside it.
 */
#include "exec/exec.h"

/* ---- one queue after another */

CUresult queue_follow(struct queue *queue, struct queue *other, uint64_t value)
{
	struct gpumem_sqe sqe = {
		.op = GPUMEM_OP_WAIT, .handle = other->timeline, .value = value,
	};
	CUresult result = ring_put(queue, &sqe);
	unsigned int i, place;

	if (result)
		return result;
	lock_take(&queue->past_lock);
	place = queue->pasts++ % QUEUE_PAST;
	/* Repeated waits for one queue do not displace the others. */
	for (i = 0; queue->pasts > QUEUE_PAST && i < QUEUE_PAST; i++)
		if (queue->past[i].queue == other &&
		    (queue->past[place].queue != other || queue->past[i].at < queue->past[place].at))
			place = i;
	queue->past[place] = (struct past){
		.at = load_relaxed(&queue->tail), .queue = other, .value = value,
	};
	lock_drop(&queue->past_lock);
	return CUDA_SUCCESS;
}

/* queue_follows(). @depth: how many further queues to follow from a wait to that queue's own waits */
static bool follows(struct queue *queue, uint64_t at, struct queue *other, uint64_t value,
		    unsigned int depth)
{
	struct past past[QUEUE_PAST];
	unsigned int count, i;

	lock_take(&queue->past_lock);
	count = queue->pasts < QUEUE_PAST ? queue->pasts : QUEUE_PAST;
	memcpy(past, queue->past, count * sizeof(*past));
	lock_drop(&queue->past_lock);
	for (i = 0; i < count; i++)
		if (past[i].at <= at && past[i].queue == other && past[i].value >= value)
			return true;
	for (i = 0; depth && i < count; i++)
		if (past[i].at <= at && past[i].queue != queue &&
		    follows(past[i].queue, past[i].value, other, value, depth - 1))
			return true;
	return false;
}

bool queue_follows(struct queue *queue, uint64_t at, struct queue *other, uint64_t value)
{
	return follows(queue, at, other, value, 2);
}

static uint64_t followed(struct queue *queue, uint64_t at, struct queue *other, unsigned int depth)
{
	struct past past[QUEUE_PAST];
	uint64_t most = 0, value;
	unsigned int count, i;

	lock_take(&queue->past_lock);
	count = queue->pasts < QUEUE_PAST ? queue->pasts : QUEUE_PAST;
	memcpy(past, queue->past, count * sizeof(*past));
	lock_drop(&queue->past_lock);
	for (i = 0; i < count; i++) {
		if (past[i].at > at)
			continue;
		value = 0;
		if (past[i].queue == other)
			value = past[i].value;
		else if (depth && past[i].queue != queue)
			value = followed(past[i].queue, past[i].value, other, depth - 1);
		if (value > most)
			most = value;
	}
	return most;
}

uint64_t queue_followed(struct queue *queue, struct queue *other)
{
	return followed(queue, ~0ull, other, 2);
}

/* ---- the legacy stream, blocking streams, the whole context */

/*
 * Waiting for many queues. Their number has no bound, but a ring has. The first JOIN_SELF waits go into the
 * stream's own ring. Helper queues take the next ones, JOIN_HELPER each, and the ring waits for the helpers.
 */
#define JOIN_SELF	4u
#define JOIN_HELPER	128u

struct join {
	CUstream stream;
	struct queue *queue;		/* of the stream */
	struct queue *helper;		/* takes waits for this join, or an entry for another device; or NULL */
	unsigned int count;		/* waits in the queue, then in the helper */
};

/* Make the stream's queue wait for the helper, and put the helper, with its entries, on the recycling list. */
static CUresult join_finish(struct join *join, CUresult result)
{
	struct queue *helper = join->helper;
	CUresult known;

	if (!helper)
		return result;
	join->helper = NULL;
	join->count = 0;
	known = ring_finish(helper, CUDA_SUCCESS);
	if (known) {
		/*
		 * The kernel may not have seen all entries of the helper, so no queue may wait for these. Waits
		 * for earlier ones end: the end of a kernel stream completes what the kernel has seen.
		 */
		active_remove(helper);
		store_relaxed(&helper->ctx, NULL);
		queue_end(helper);
		return result ? result : known;
	}
	if (!result)
		result = queue_follow(join->queue, helper, load_relaxed(&helper->tail));
	queue_put(helper);
	return result;
}

static CUresult join_add(struct join *join, struct queue *other, uint64_t value)
{
	CUresult result = CUDA_SUCCESS;

	if (join->count == (join->helper ? JOIN_HELPER : JOIN_SELF)) {
		result = join_finish(join, CUDA_SUCCESS);
		/*
		 * If no helper can be made, the waits go into the stream's queue, and may wait for room.
		 */
		join->helper = result ? NULL : queue_get(join->stream, join->stream->ctx->device, true);
		join->count = 0;
	}
	join->count++;
	if (!result)
		result = queue_follow(join->helper ? join->helper : join->queue, other, value);
	return result;
}

/* The legacy stream's next entry comes after what blocking streams have queued. */
static CUresult wait_for_blocking(CUstream stream, struct queue *queue)
{
	struct join join = { .stream = stream, .queue = queue };
	CUresult result = CUDA_SUCCESS;
	struct active_walk walk;
	struct queue *other;
	uint64_t value;

	active_walk(&walk, &stream->ctx->active, false, false);
	while (!result && (other = active_next(&walk, &value))) {
		if (queue_reached(other, value) || other->legacy_seen == value)
			continue;
		result = join_add(&join, other, value);
		if (!result)
			other->legacy_seen = value;
	}
	result = join_finish(&join, result);
	/* Some waits may be in a helper for which no queue waits: the next operation must put them again. */
	if (unlikely(result))
		for (other = load_acquire(&ctx_device(stream->ctx)->queues); other;
		     other = other->next)
			if (load_relaxed(&other->ctx) == stream->ctx)
				other->legacy_seen = 0;
	return result;
}

/* The next entry comes after what all streams of the context have queued. */
static CUresult wait_for_context(CUstream stream, struct queue *queue)
{
	struct join join = { .stream = stream, .queue = queue };
	CUresult result = CUDA_SUCCESS;
	struct active_walk walk;
	struct queue *other;
	uint64_t value;

	active_walk(&walk, &stream->ctx->active, true, false);
	while (!result && (other = active_next(&walk, &value)))
		if (other != queue && other != join.helper && !queue_reached(other, value))
			result = join_add(&join, other, value);
	return join_finish(&join, result);
}

/* A blocking stream's next entry comes after what the legacy stream has queued. */
static CUresult wait_for_legacy(CUstream stream, struct queue *queue)
{
	struct queue *legacy = legacy_queue(stream->ctx);
	uint64_t value = legacy ? load_acquire(&legacy->tail) : 0;
	CUresult result;

	if (!legacy || queue_reached(legacy, value) || stream->legacy_seen == value)
		return CUDA_SUCCESS;
	result = queue_follow(queue, legacy, value);
	if (!result)
		stream->legacy_seen = value;
	return result;
}

static CUresult follow_once(CUstream stream, struct queue *queue)
{
	if (stream->kind == STREAM_LEGACY_KIND)
		return wait_for_blocking(stream, queue);
	if (unlikely(stream->kind == STREAM_CONTEXT))
		return wait_for_context(stream, queue);
	return stream->flags & CU_STREAM_NON_BLOCKING ? CUDA_SUCCESS :
		wait_for_legacy(stream, queue);
}

CUresult stream_delegate(CUstream stream, struct queue *queue, CUdevice device,
			 const struct gpumem_sqe *sqe)
{
	struct join join = { .stream = stream, .queue = queue };
	CUresult result = order_renew(queue);

	if (result)
		return result;
	join.helper = queue_get_delegate(stream, device, 2);
	if (!join.helper)
		return CUDA_ERROR_OUT_OF_MEMORY;
	result = queue_follow(join.helper, queue, load_relaxed(&queue->tail));
	if (!result)
		result = ring_put(join.helper, sqe);
	return join_finish(&join, result);
}

/* Out of line: inlined into stream_prepare(), it would exist twice. */
__attribute__((noinline)) CUresult stream_follow(CUstream stream, struct queue *queue)
{
	CUresult result;

	/* A wait that found the ring full rested: check all waits again. */
	if (queue->following)
		return CUDA_SUCCESS;
	queue->following = true;
	do {
		queue->rested = false;
		result = follow_once(stream, queue);
	} while (!result && unlikely(queue->rested));
	queue->following = false;
	return result;
}

CUresult stream_prepare(CUstream stream, struct queue **out)
{
	struct queue *queue = stream->queue;
	CUresult result;

	if (unlikely(load_acquire(&stream->magic) != STREAM_MAGIC))
		return CUDA_ERROR_INVALID_HANDLE;
	if (unlikely(!queue)) {
		queue = queue_get(stream, stream->ctx->device, false);
		if (!queue)
			return CUDA_ERROR_OUT_OF_MEMORY;
		queue->stream = stream;
		store_release(&stream->queue, queue);
	}
	*out = queue;
	if (unlikely(!load_acquire(&stream->legacy_done))) {
		order_before_legacy(stream);
		result = stream_follow(stream, queue);
		/* Some of the waits may be in the ring. */
		if (result)
			return ring_finish(queue, result);
	}
	return likely(!client.gated) ? CUDA_SUCCESS : ring_finish(queue, schedule_gate(queue));
}

CUresult stream_moment(CUstream stream, struct queue **out, uint64_t *value)
{
	struct queue *queue, *legacy;
	CUresult result;

	*out = NULL;
	if (stream_idle(stream))
		return CUDA_SUCCESS;
	queue = load_acquire(&stream->queue);
	if (queue && stream->kind != STREAM_LEGACY_KIND && stream->kind != STREAM_CONTEXT) {
		legacy = stream->flags & CU_STREAM_NON_BLOCKING ? NULL : legacy_queue(stream->ctx);
		if (!legacy || queue_idle(legacy)) {
			*out = queue;
			*value = load_acquire(&queue->tail);
			return CUDA_SUCCESS;
		}
	}
	/* The moment includes everything that the stream's next entry would wait for. */
	result = stream_lock(stream);
	if (result)
		return result;
	result = stream_prepare(stream, &queue);
	if (!result) {
		result = ring_finish(queue, CUDA_SUCCESS);
		*out = queue;
		*value = load_relaxed(&queue->tail);
	}
	lock_drop(&stream->lock);
	return result;
}
