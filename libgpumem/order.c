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
 * Streams that are NON_BLOCKING exclude nobody.
 *
 * The legacy stream does not look at all streams of its context. A blocking stream that begins an
 * operation is listed in ctx->active.entered, unless it is listed already. While it is listed, and the
 * legacy stream neither runs an operation nor has unfinished work, stream->clear is 1: then the next
 * operation in the blocking stream reads this one word and does not look at the legacy stream. An
 * operation of the legacy stream takes all streams out of the list and sets their words to 0; if it
 * touches memory it waits for those in which a thread is at work. So the legacy stream pays once for
 * each stream that was used since its last operation, and a blocking stream once after each operation
 * of the legacy stream.
 * stream->clear is always 1 for NON_BLOCKING streams.
 *
 * Leaving does not wake anyone: a wake-up would tax the uncontended path.
 *
 * Locks: stream->lock is held by the caller, of one stream at a time. Inside it ctx->active.lock for
 * the list.
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

static unsigned int turns;		/* of threads of the program, that are not over; atomic */

/* What its thread did is visible if it is not. */
static bool at_work(const struct CUstream_st *stream)
{
	return load_acquire(&stream->lock.word) && !load_acquire(&stream->resting);
}

/* ---- the list of blocking streams that were used */

static void entered_add(struct active *active, CUstream stream)
{
	store_relaxed(&stream->entered, true);
	stream->entered_stamp = ++active->entered_stamp;
	stream->next_entered = NULL;
	stream->prev_entered = active->last_entered;
	if (stream->prev_entered)
		stream->prev_entered->next_entered = stream;
	else
		store_release(&active->entered, stream);
	active->last_entered = stream;
}

static void entered_remove(struct active *active, CUstream stream)
{
	store_relaxed(&stream->entered, false);
	store_release(&stream->clear, 0);
	if (stream->prev_entered)
		stream->prev_entered->next_entered = stream->next_entered;
	else
		store_release(&active->entered, stream->next_entered);
	if (stream->next_entered)
		stream->next_entered->prev_entered = stream->prev_entered;
	else
		active->last_entered = stream->prev_entered;
}

bool order_clear(CUstream stream)
{
	struct active *active = &stream->ctx->active;
	struct queue *queue;
	CUstream legacy;
	bool free;

	/* A destroyed stream must not come back into the list. */
	if (unlikely(load_acquire(&stream->magic) != STREAM_MAGIC ||
		     stream->kind == STREAM_LEGACY_KIND || stream->kind == STREAM_CONTEXT))
		return true;
	/*
	 * A listed stream takes no lock while the legacy stream has unfinished work, as its word stays 0: a legacy stream's operation that begins now removes it from the list, then sees that it
	 * is locked.
	 */
	fence_locked();
	if (load_relaxed(&stream->entered)) {
		legacy = load_acquire(&stream->ctx->legacy);
		queue = legacy && !at_work(legacy) ? load_acquire(&legacy->queue) : NULL;
		if (queue && !queue_idle(queue))
			return true;
	}
	lock_take(&active->lock);
	if (!stream->entered)
		entered_add(active, stream);
	/* Pairs with close_streams(): it finds the stream, or the legacy stream is seen at work. */
	fence_full();
	legacy = load_acquire(&stream->ctx->legacy);
	free = !legacy || !at_work(legacy);
	queue = free && legacy ? load_acquire(&legacy->queue) : NULL;
	store_release(&stream->clear, free && (!queue || queue_idle(queue)));
	lock_drop(&active->lock);
	return free;
}

void order_leave(CUstream stream)
{
	struct active *active = &stream->ctx->active;

	lock_take(&active->lock);
	if (stream->entered)
		entered_remove(active, stream);
	store_release(&stream->clear, 0);
	lock_drop(&active->lock);
}

/* ---- exclusion */

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

/*
 * Take the streams out of the list that were used since the last time. @wait: an operation that touches
 * memory follows, so wait for the threads that are at work in these streams. Streams that are listed
 * from now on see that the legacy stream is at work, so the loop ends. stream->lock of the legacy stream
 * is held.
 */
static void close_streams(CUstream legacy, bool wait)
{
	struct active *active = &legacy->ctx->active;
	uint64_t end;
	CUstream other;
	unsigned int i;

	/* Pairs with order_clear(). */
	fence_locked();
	if (!load_acquire(&active->entered))
		return;
	lock_take(&active->lock);
	end = active->entered_stamp;
	lock_drop(&active->lock);
	for (;;) {
		lock_take(&active->lock);
		other = active->entered;
		if (other && other->entered_stamp <= end) {
			entered_remove(active, other);
			/* An operation that begins in the other stream now finds the word cleared. */
			fence_full();
			/* The next operation that touches memory waits for it. */
			if (!wait && at_work(other))
				entered_add(active, other);
		} else {
			other = NULL;
		}
		lock_drop(&active->lock);
		if (!other)
			break;
		for (i = 0; wait && load_relaxed(&other->ctx) == legacy->ctx && at_work(other); i++)
			nap(i);
	}
}

void order_before_legacy(CUstream stream)
{
	if (stream->kind == STREAM_LEGACY_KIND)
		close_streams(stream, false);
}

static void enter_legacy(CUstream stream)
{
	unsigned int i;

	/* Streams that yielded go first: between many legacy calls they might never get a turn. */
	if (unlikely(load_relaxed(&stream->gave_way))) {
		store_release(&stream->resting, 1);
		for (i = 0; load_acquire(&stream->gave_way) && i < PATIENCE; i++)
			nap(i);
		rest_no_more(stream);
	}
	/* A blocking stream's operation that begins now sees that the legacy stream is at work. */
	close_streams(stream, true);
}

static void enter_blocking(CUstream stream)
{
	CUstream legacy;
	unsigned int i;

	if (likely(order_clear(stream)))
		return;
	legacy = load_acquire(&stream->ctx->legacy);
	/* The context ended meanwhile. */
	if (unlikely(!legacy))
		return;
	__atomic_fetch_add(&legacy->gave_way, 1, __ATOMIC_RELAXED);
	do {
		store_release(&stream->resting, 1);
		for (i = 0; at_work(legacy); i++)
			nap(i);
		rest_no_more(stream);
	} while (!order_clear(stream));
	__atomic_fetch_sub(&legacy->gave_way, 1, __ATOMIC_RELEASE);
}

void order_enter(CUstream stream)
{
	if (stream->kind == STREAM_LEGACY_KIND)
		enter_legacy(stream);
	else if (likely(stream->kind != STREAM_CONTEXT))
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
	__atomic_fetch_add(&turns, 1, __ATOMIC_SEQ_CST);
	turn_hold(turn);
	result = ring_kick(queue);
	if (result) {
		turn_over(turn);
		__atomic_fetch_sub(&turns, 1, __ATOMIC_RELEASE);
	}
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
	__atomic_fetch_sub(&turns, 1, __ATOMIC_RELEASE);
	/* Whoever asks finds nothing left of it. */
	queue_wait(turn->queue, turn->value + 1);
}

bool order_unfinished(void)
{
	return load_acquire(&turns);
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
		touch_begin(stream);
		now(arg);
		touch_drop(stream);
		return CUDA_SUCCESS;
	}
	result = stream_prepare(stream, &queue);
	if (!result)
		result = ring_finish(queue, order_turn(queue, &turn));
	lock_drop(&stream->lock);
	if (result)
		return result;
	result = queue_wait(queue, turn.value);
	if (!result) {
		touch_begin_turn(NULL, &turn);
		now(arg);
		touch_end_turn();
	}
	order_over(&turn);
	return result;
}
