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
 * way: it rests, and looks again when the legacy stream's is not at work. The next one in the legacy
 * stream rests for a moment in turn if somebody gave way.
 *
 * Who waits for entries with the lock held rests, too, for as long as that takes: what it waits for may
 * be waiting for the others. They go on meanwhile, so what the rest of the operation has to come after
 * is found out anew. Such an operation, of which a part did not fit into the ring or into staging
 * memory, may have one of another thread between its parts, but none at the same time; nor is there
 * a rule for the program's own memory to which the parts of a copy are brought in the end. What a
 * thread has to do itself in a stream that is busy it does in a turn: an entry holds the stream, and
 * all that waits for it, until that is over.
 *
 * So nobody who is at work waits for what others submit. Apart from processors, locks of the library
 * that are held for moments, and the engine's reading and zeroing of what no stream has yet, it waits
 * for page faults of the program's memory, and in the legacy stream for those at work in blocking
 * streams. A call without a word of waiting in its documentation may take as long as another thread's
 * copy that is not submitted.
 *
 * In a program without a legacy stream nobody is excluded, and streams that are NON_BLOCKING exclude
 * nobody.
 *
 * Nobody is woken when one stops to be at work: that would cost those something that nobody waits for.
 *
 * Locks: stream->lock is held by whoever calls, of one stream at a time.
 *
 * Vocabulary: at work, rest, as above; to obey, to be blocking.
 */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"
#include "ring.h"

#define SPINS		200
#define NAP_NS		50000
#define PATIENCE	(SPINS + 20)

/* What its thread did is visible if it is not. */
static bool at_work(const struct CUstream_st *stream)
{
	return load_acquire(&stream->lock.word) && !load_acquire(&stream->resting);
}

static void nap(unsigned int i)
{
	const struct timespec time = { .tv_nsec = NAP_NS };

	/* nanosleep() would let the thread be cancelled, with the stream's lock. */
	if (i >= SPINS)
		syscall(SYS_nanosleep, &time, NULL);
#if defined(__x86_64__)
	else
		__builtin_ia32_pause();
#endif
}

/* From now on others see it at work, as they do after the lock was taken. */
static void rest_no_more(CUstream stream)
{
	__atomic_exchange_n(&stream->resting, 0, __ATOMIC_SEQ_CST);
	fence_locked();
}

static void enter_legacy(CUstream stream)
{
	CUstream other;
	unsigned int i;

	/* Whoever gave way goes first, or would never find a moment between many calls. */
	if (unlikely(load_relaxed(&stream->gave_way))) {
		store_release(&stream->resting, 1);
		for (i = 0; load_acquire(&stream->gave_way) && i < PATIENCE; i++)
			nap(i);
		rest_no_more(stream);
	}
	/* One that begins now sees that its legacy stream is at work. */
	for (other = load_acquire(&all_streams); other; other = other->next_made)
		for (i = 0; load_acquire(&other->obeys) == stream->ctx && at_work(other); i++)
			nap(i);
}

static void enter_blocking(CUstream stream)
{
	CUstream legacy = load_acquire(&stream->ctx->legacy);
	unsigned int i;

	if (!legacy || likely(!at_work(legacy)))
		return;
	__atomic_fetch_add(&legacy->gave_way, 1, __ATOMIC_RELAXED);
	do {
		store_release(&stream->resting, 1);
		for (i = 0; at_work(legacy); i++)
			nap(i);
		rest_no_more(stream);
	} while (at_work(legacy));
	__atomic_fetch_sub(&legacy->gave_way, 1, __ATOMIC_RELEASE);
}

void order_enter(CUstream stream)
{
	if (stream->kind == STREAM_LEGACY_KIND)
		enter_legacy(stream);
	else
		enter_blocking(stream);
}

/* The queue's stream if it excludes any; its lock is held. */
static CUstream stream_of(const struct queue *queue)
{
	CUstream stream = queue->stream;

	return stream && (stream->kind == STREAM_LEGACY_KIND ||
			  !(stream->flags & CU_STREAM_NON_BLOCKING)) ? stream : NULL;
}

void order_rest(struct queue *queue, uint64_t value)
{
	CUstream stream = stream_of(queue);

	store_release(&queue->awaited, value);
	if (stream)
		store_release(&stream->resting, 1);
}

void order_resume(struct queue *queue)
{
	CUstream stream = stream_of(queue);

	store_release(&queue->awaited, 0);
	if (!stream)
		return;
	queue->rested = true;
	rest_no_more(stream);
	order_enter(stream);
}

/* The stream was not idle; its lock is held, and is dropped if this returns true. */
bool stream_busy(CUstream stream, unsigned int waits, CUresult *result)
{
	do {
		lock_drop(&stream->lock);
		if (!waits--)
			return true;
		*result = stream_drain(stream);
		if (!*result)
			*result = stream_begin(stream);
		if (*result)
			return true;
	} while (!stream_idle(stream));
	return false;
}

CUresult order_turn(struct queue *queue, struct turn *turn)
{
	CUresult result = order_renew(queue);

	if (result)
		return result;
	/* A turn has to end in any case, and not before those of functions that this thread runs. */
	if (unlikely(host_thread)) {
		*turn = (struct turn){ .queue = queue, .value = load_relaxed(&queue->tail) };
		return ring_kick(queue);
	}
	result = queue_room(queue, 1);
	if (!result)
		result = turn_begin(queue, turn);
	if (result)
		return result;
	turn_hold(turn);
	result = ring_kick(queue);
	if (result)
		turn_over(turn);
	return result;
}

CUresult order_wait(const struct turn *turn)
{
	CUresult result;

	order_rest(turn->queue, turn->value);
	result = queue_wait(turn->queue, turn->value);
	order_resume(turn->queue);
	return result;
}

void order_over(const struct turn *turn)
{
	if (unlikely(!turn->ran))
		return;
	/* However waiting for it ended: what is in front has turns of its own. */
	while (!turn_come(turn) && !queue_failed(turn->queue))
		queue_doze(turn->queue, turn->value);
	turn_over(turn);
	/* Whoever asks finds nothing left of it. */
	queue_wait(turn->queue, turn->value + 1);
}

CUresult order_call(CUstream stream, void (*now)(const void *arg), const void *arg)
{
	CUresult result = stream_begin(stream);
	struct queue *queue;
	struct turn turn;

	if (result)
		return result;
	queue = stream->queue;
	if (stream_idle(stream) && !(queue && queue_failed(queue))) {
		now(arg);
		lock_drop(&stream->lock);
		return CUDA_SUCCESS;
	}
	result = stream_prepare(stream, &queue);
	if (!result)
		result = ring_finish(queue, order_turn(queue, &turn));
	lock_drop(&stream->lock);
	if (result)
		return result;
	result = queue_wait(queue, turn.value);
	if (!result)
		now(arg);
	order_over(&turn);
	return result;
}
