// SPDX-License-Identifier: MIT
/*
 * Exclusion: what threads do to memory at once, between the legacy stream and those that obey it.
 *
 * An entry is seen by others: whoever has to come after it waits for its value. What a thread does
 * itself, inline, is seen by nobody, and so is an entry that it is about to put after it has looked
 * what to wait for. So who takes a stream's lock in order to touch memory is at work from then on until
 * the lock is dropped, and is not at work at the same time as others that the stream's order excludes:
 * the legacy stream excludes the blocking streams of its context, and these the legacy stream alone.
 *
 * Both sides make themselves seen before they look: taking the lock is a full barrier. If both find
 * the other at work, the legacy stream's thread waits until it is not, and the blocking stream's gives
 * way: it rests, and looks again when the legacy stream's is not at work.
 *
 * Who waits for entries with the lock held rests, too, for as long as that takes: what it waits for may
 * be waiting for the others. They go on meanwhile, so what the rest of the operation has to come after
 * is found out anew. Such an operation, of which a part did not fit into the ring or into staging
 * memory, may have one of another thread between its parts, but none at the same time.
 *
 * So nobody who is at work waits for anything but processors, the engine's reading of what is not
 * submitted to a stream, and, in the legacy stream, for those at work in blocking streams. A call
 * without a word of waiting in its documentation may take as long as another thread's inline copy.
 *
 * In a program without a legacy stream nobody is excluded, and streams that are NON_BLOCKING exclude
 * nobody.
 *
 * Locks: stream->lock is held by whoever calls, of one stream at a time.
 *
 * Vocabulary: at work, rest, as above; to obey, to be blocking.
 */
#include <time.h>

#include "internal.h"
#include "ring.h"

#define NAP_NS		50000

/* What its thread did is visible if it is not. */
static bool at_work(const struct CUstream_st *stream)
{
	return load_acquire(&stream->lock.word) && !load_acquire(&stream->resting);
}

/*
 * Being at work is short, and whoever stops must not have to look whether somebody waits: this is a
 * matter of a few instructions for those that nobody waits for.
 */
static void until_not_at_work(const struct CUstream_st *stream)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };
	unsigned int i;

	for (i = 0; at_work(stream); i++) {
		if (i >= 200)
			nanosleep(&nap, NULL);
#if defined(__x86_64__)
		else
			__builtin_ia32_pause();
#endif
	}
}

/* From now on others see it at work, as they do after the lock was taken. */
static void rest_no_more(CUstream stream)
{
	__atomic_exchange_n(&stream->resting, 0, __ATOMIC_SEQ_CST);
	fence_locked();
}

static void enter_legacy(CUcontext ctx)
{
	CUstream other;

	/* One that begins now sees that its legacy stream is at work. */
	for (other = load_acquire(&all_streams); other; other = other->next_made)
		if (load_acquire(&other->obeys) == ctx)
			until_not_at_work(other);
}

static void enter_blocking(CUstream stream)
{
	CUstream legacy = load_acquire(&stream->ctx->legacy);

	while (legacy && unlikely(at_work(legacy))) {
		store_release(&stream->resting, 1);
		until_not_at_work(legacy);
		rest_no_more(stream);
	}
}

void order_enter(CUstream stream)
{
	fence_locked();
	if (stream->kind == STREAM_LEGACY_KIND)
		enter_legacy(stream->ctx);
	else if (!(stream->flags & CU_STREAM_NON_BLOCKING))
		enter_blocking(stream);
}

/* The queue's stream if it excludes any; its lock is held. */
static CUstream stream_of(const struct queue *queue)
{
	CUstream stream = queue->stream;

	return stream && (stream->kind == STREAM_LEGACY_KIND ||
			  !(stream->flags & CU_STREAM_NON_BLOCKING)) ? stream : NULL;
}

void order_rest(struct queue *queue)
{
	CUstream stream = stream_of(queue);

	if (stream)
		store_release(&stream->resting, 1);
}

CUresult order_resume(struct queue *queue)
{
	CUstream stream = stream_of(queue);

	if (!stream)
		return CUDA_SUCCESS;
	rest_no_more(stream);
	order_enter(stream);
	return ring_finish(queue, stream_follow(stream, queue));
}

CUresult order_settle(struct queue *queue)
{
	CUresult waited, result;

	do {
		result = ring_kick(queue);
		if (result)
			return result;
		order_rest(queue);
		waited = queue_wait(queue, load_relaxed(&queue->tail));
		result = order_resume(queue);
	} while (!waited && !result && !queue_idle(queue));
	return waited ? waited : result;
}
