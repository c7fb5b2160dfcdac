// SPDX-License-Identifier: MIT
/*
 * Exclusion between the legacy stream and the blocking streams of its context.
 *
 * An entry in a ring is visible to other streams, which can wait for its value. Two things are not
 * visible: an operation that a thread executes itself, inline, and an entry that a thread is about to put
 * after it has checked what to wait for. Therefore a thread that takes a stream's lock in order to touch
 * memory is "running" until it drops the lock. Running threads exclude each other like their streams: the
 * legacy stream excludes the blocking streams of its context, and a blocking stream excludes only the
 * legacy stream. NON_BLOCKING streams exclude no stream.
 *
 * Two threads that exclude each other
 *
 * Each thread makes itself visible before it checks for the other: taking the lock is a full barrier. If each
 * finds the other running, the thread of the legacy stream waits. The thread of the blocking stream yields: it
 * sets the stream to resting, and checks again when the legacy stream is no longer running. After a stream has
 * yielded, the next operation of the legacy stream first sets its own stream to resting for a moment.
 *
 * Waiting with the lock held
 *
 * A thread that waits for entries with the lock held sets its stream to resting for the time of the wait, because
 * the entries may wait for the excluded threads. The excluded threads continue in the meantime, so afterwards the
 * thread finds out anew what the rest of its operation must wait for. If a part of an operation did not fit into
 * the ring or into staging memory, an operation of another thread may therefore run between its parts, but never
 * at the same time. No rule protects the program's own memory, to which the copying thread brings the parts of a
 * copy at the end. A thread that must do something itself in a busy stream puts a hold (hold.c): an entry that
 * blocks the stream, and all that waits for the stream, until the thread has finished.
 *
 * A running thread never waits for entries that other threads have yet to submit. It waits for
 * processors, for locks of the library that are held for moments, for the engine's reading and zeroing of
 * memory that no stream uses yet, and for page faults of the program's memory. In the legacy stream it also
 * waits for the threads that run in blocking streams. So a call whose documentation does not mention waiting
 * may take as long as a copy that another thread executes inline.
 *
 * The list of streams that were used
 *
 * The legacy stream does not look at all streams of its context. A blocking stream that begins an
 * operation enters the list ctx->active.entered, unless it is listed already. stream->legacy_done is 1
 * while the stream is listed, the legacy stream is not running, and the legacy stream has no unfinished
 * work. Then the next operation in the blocking stream reads this one word and does not look at the legacy
 * stream.
 *
 * An operation of the legacy stream takes all streams out of the list and sets their words to 0. If it
 * touches memory, it waits for the streams in which a thread is running. The legacy stream therefore pays
 * once for each stream that was used since its last operation, and a blocking stream pays once after each
 * operation of the legacy stream. stream->legacy_done is always 1 for NON_BLOCKING streams.
 *
 * A thread that stops running wakes no waiting thread, because a wake-up would tax the uncontended path. The
 * waiting threads poll (nap()).
 *
 * Locks: the caller holds stream->lock, of one stream at a time. Inside it ctx->active.lock for the list.
 *
 * Vocabulary: running, resting, yield: see above. A stream is running if a thread is running in it. Word, of a
 * stream: legacy_done.
 */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "exec/exec.h"

#define SPINS		200
#define NAP_NS		50000
#define YIELD_NAPS	(SPINS + 20)

static unsigned int own_holds;		/* unreleased holds of the program's threads; atomic */

/* Whether a thread is running in the stream. If not, the caller sees all that earlier threads did in it. */
static bool stream_running(const struct CUstream_st *stream)
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
	store_release(&stream->legacy_done, 0);
	if (stream->prev_entered)
		stream->prev_entered->next_entered = stream->next_entered;
	else
		store_release(&active->entered, stream->next_entered);
	if (stream->next_entered)
		stream->next_entered->prev_entered = stream->prev_entered;
	else
		active->last_entered = stream->prev_entered;
}

bool order_check_legacy(CUstream stream)
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
	 * A listed stream takes no lock while the legacy stream has unfinished work, because its word
	 * stays 0. An operation of the legacy stream that begins now first removes the stream from the
	 * list, then sees that the stream is locked.
	 */
	fence_locked();
	if (load_relaxed(&stream->entered)) {
		legacy = load_acquire(&stream->ctx->legacy);
		queue = legacy && !stream_running(legacy) ? load_acquire(&legacy->queue) : NULL;
		if (queue && !queue_idle(queue))
			return true;
	}
	lock_take(&active->lock);
	if (!stream->entered)
		entered_add(active, stream);
	/* Pairs with close_streams(): it finds this stream, or the legacy stream is running here. */
	fence_full();
	legacy = load_acquire(&stream->ctx->legacy);
	free = !legacy || !stream_running(legacy);
	queue = free && legacy ? load_acquire(&legacy->queue) : NULL;
	store_release(&stream->legacy_done, free && (!queue || queue_idle(queue)));
	lock_drop(&active->lock);
	return free;
}

void order_leave(CUstream stream)
{
	struct active *active = &stream->ctx->active;

	lock_take(&active->lock);
	if (stream->entered)
		entered_remove(active, stream);
	store_release(&stream->legacy_done, 0);
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

/* From now on other threads see the stream running, as after its lock was taken. */
static void rest_end(CUstream stream)
{
	__atomic_exchange_n(&stream->resting, 0, __ATOMIC_SEQ_CST);
	fence_locked();
}

/*
 * Empty the list of used streams. @wait: an operation that touches memory follows, so wait for the
 * threads that run in these streams. Streams that enter the list from now on see that the legacy stream is
 * running, so the loop ends. stream->lock of the legacy stream is held.
 */
static __attribute__((noinline)) void close_entered(CUstream legacy, bool wait)
{
	struct active *active = &legacy->ctx->active;
	uint64_t end;
	CUstream other;
	unsigned int i;

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
			/* The next legacy operation that touches memory waits for that thread. */
			if (!wait && stream_running(other))
				entered_add(active, other);
		} else {
			other = NULL;
		}
		lock_drop(&active->lock);
		if (!other)
			break;
		for (i = 0; wait && load_relaxed(&other->ctx) == legacy->ctx &&
		     stream_running(other); i++)
			nap(i);
	}
}

static inline void close_streams(CUstream legacy, bool wait)
{
	/* Pairs with order_check_legacy(). */
	fence_locked();
	if (unlikely(load_acquire(&legacy->ctx->active.entered)))
		close_entered(legacy, wait);
}

void order_before_legacy(CUstream stream)
{
	if (stream->kind == STREAM_LEGACY_KIND)
		close_streams(stream, false);
}

static inline void enter_legacy(CUstream stream)
{
	unsigned int i;

	/* Threads that yielded go first: between many legacy calls they might never run. */
	if (unlikely(load_relaxed(&stream->yielded))) {
		store_release(&stream->resting, 1);
		for (i = 0; load_acquire(&stream->yielded) && i < YIELD_NAPS; i++)
			nap(i);
		rest_end(stream);
	}
	/* A blocking stream's operation that begins now sees that the legacy stream is running. */
	close_streams(stream, true);
}

static void enter_blocking(CUstream stream)
{
	CUstream legacy;
	unsigned int i;

	if (likely(order_check_legacy(stream)))
		return;
	legacy = load_acquire(&stream->ctx->legacy);
	/* The context has ended. */
	if (unlikely(!legacy))
		return;
	__atomic_fetch_add(&legacy->yielded, 1, __ATOMIC_RELAXED);
	do {
		store_release(&stream->resting, 1);
		for (i = 0; stream_running(legacy); i++)
			nap(i);
		rest_end(stream);
	} while (!order_check_legacy(stream));
	__atomic_fetch_sub(&legacy->yielded, 1, __ATOMIC_RELEASE);
}

void order_enter(CUstream stream)
{
	if (stream->kind == STREAM_LEGACY_KIND)
		enter_legacy(stream);
	else if (likely(stream->kind != STREAM_CONTEXT))
		enter_blocking(stream);
}

/* The queue's stream, if it excludes other streams, else NULL. The stream's lock is held. */
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
	rest_end(stream);
	order_enter(stream);
}

/* True: the stream is busy, or *@result is an error, and stream->lock is dropped. False: idle and locked. */
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

CUresult order_hold(struct queue *queue, struct hold *hold)
{
	CUresult result = order_renew(queue);

	if (result)
		return result;
	/*
	 * A queue's holds are released in order. The hold of a host function is released when the function
	 * returns, so a later hold of the same thread could never be released. So in a host function a hold
	 * blocks nothing.
	 */
	if (unlikely(host_thread)) {
		*hold = (struct hold){ .queue = queue, .value = load_relaxed(&queue->tail) };
		return ring_kick(queue);
	}
	result = queue_room(queue, 1);
	if (!result)
		result = hold_begin(queue, hold);
	if (result)
		return result;
	__atomic_fetch_add(&own_holds, 1, __ATOMIC_SEQ_CST);
	hold_put_alone(hold);
	result = ring_kick(queue);
	if (result) {
		hold_release(hold);
		__atomic_fetch_sub(&own_holds, 1, __ATOMIC_RELEASE);
	}
	return result;
}

CUresult order_wait(const struct hold *hold)
{
	CUresult result;

	order_rest(hold->queue, hold->value);
	result = queue_wait(hold->queue, hold->value);
	order_resume(hold->queue);
	return result;
}

void order_release(const struct hold *hold)
{
	if (unlikely(!hold->release))
		return;
	/* Even if order_wait() failed, wait: earlier entries may be holds, which are released first. */
	while (!hold_reached(hold) && !queue_failed(hold->queue))
		queue_doze(hold->queue, hold->value);
	hold_release(hold);
	__atomic_fetch_sub(&own_holds, 1, __ATOMIC_RELEASE);
	/* Afterwards the queue shows no trace of the hold. */
	queue_wait(hold->queue, hold->value + 1);
}

bool order_unfinished(void)
{
	return load_acquire(&own_holds);
}

CUresult order_call(CUstream stream, void (*now)(const void *arg), const void *arg)
{
	CUresult result = stream_begin(stream);
	struct queue *queue;
	struct hold hold;

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
		result = ring_finish(queue, order_hold(queue, &hold));
	lock_drop(&stream->lock);
	if (result)
		return result;
	result = queue_wait(queue, hold.value);
	if (!result) {
		touch_begin_hold(NULL, &hold);
		now(arg);
		touch_end_hold();
	}
	order_release(&hold);
	return result;
}
