// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_stream: streams, and the execution of the entries in their rings.
 *
 * A stream has a ring, which the client writes, and a timeline, which counts
 * the entries completed.  One of the client's workers (gpumem_runner.c) at a
 * time takes entries from the ring and executes them in order.  The ring is
 * hostile: its tail is read once per look, each entry is copied before it is
 * checked, and the kernel keeps its own state where the client cannot write.
 * The kernel's answers to the client (head, the need for a doorbell) are in the
 * timeline's read-only page.
 *
 * A stream is in one of these states.  In all but running its state in the
 * runner is GPUMEM_RUN_IDLE until something kicks it.
 *
 *   idle	the ring is empty and NEED_WAKEUP is set.  A doorbell kicks the
 *		stream.
 *   running	a worker takes entries; after a bounded number of slices it
 *		queues the stream again so that streams share the threads.
 *   blocked	the entry is a wait whose value has not been reached, or a poll.
 *		A wait has added a waiter to its timeline, which kicks the
 *		stream.  A poll has started a timer, which kicks the stream, as
 *		does each stream of the same client that has written.
 *		NEED_WAKEUP is clear, because the worker reads the tail again
 *		after the entry.
 *   fenced	the entry touches buffers that other drivers use: it needs a
 *		fence (gpumem_fence.c), or has one (gpumem_publish.c).
 *
 * A tail outside the ring ends the stream: the stream is *broken*, and its
 * timeline is lost with EPROTO.  An entry that fails sets the timeline's error.
 * Later entries are then completed without being executed, except
 * GPUMEM_OP_ADD, so that waits end.
 *
 * When the id is destroyed, the stream is *closing*: it takes a reference on
 * itself, executes the entries that were in the ring at that moment, and drops
 * the reference.  When the client ends or is orphaned, the stream is
 * *cancelled*: the slice under way ends, and no other starts.  In both cases
 * the timeline is lost at the end.
 *
 * Locks: client->stream_lock protects the lists of streams and orders the
 * closing of a stream with its cancellation.  The worker that runs a stream
 * owns its ring position and its entry.
 */
#include <linux/kcov.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "gpumem_client.h"
#include "gpumem_compat.h"
#include "gpumem_device.h"
#include "gpumem_engine.h"
#include "gpumem_fence.h"
#include "gpumem_ioctl.h"
#include "gpumem_object.h"
#include "gpumem_refusal.h"
#include "gpumem_ring.h"
#include "gpumem_runner.h"
#include "gpumem_stream.h"
#include "gpumem_timeline.h"
#include "gpumem_trace.h"
#include "gpumem_vm.h"

/* Slices of work in one run of a stream. */
#define GPUMEM_STREAM_BURST	16

#define GPUMEM_PRIORITY_HIGHEST	(-5)

/* Streams of a client, including streams that are closing. */
#define GPUMEM_MAX_STREAMS	16384

static_assert(sizeof(struct gpumem_sqe) == 64);
static_assert(sizeof(struct gpumem_ring) <= GPUMEM_RING_SQES);

static struct workqueue_struct *gpumem_reap_wq;

/**
 * gpumem_stream_init - prepare what all streams share
 *
 * Return: 0 or -ENOMEM.
 */
int gpumem_stream_init(void)
{
	gpumem_reap_wq = alloc_workqueue("gpumem_reap", WQ_UNBOUND, 0);
	return gpumem_reap_wq ? 0 : -ENOMEM;
}

/**
 * gpumem_stream_exit - wait until all streams are freed
 *
 * All clients are closed; the engines are still there.
 */
void gpumem_stream_exit(void)
{
	destroy_workqueue(gpumem_reap_wq);
}

static u64 gpumem_stream_tail(struct gpumem_stream *stream)
{
	struct gpumem_ring *ring = stream->ring->head;

	if (test_bit_acquire(GPUMEM_STREAM_CLOSING, &stream->state))
		return stream->final;
	/* Pairs with the client's store: the entries come before the tail. */
	return smp_load_acquire(&ring->tail);
}

static bool gpumem_stream_broken(struct gpumem_stream *stream)
{
	return test_bit(GPUMEM_STREAM_BROKEN, &stream->state);
}

/* Take the next entry.  Return false if there is none. */
static bool gpumem_stream_fetch(struct gpumem_stream *stream)
{
	u64 tail = gpumem_stream_tail(stream);

	if (gpumem_stream_broken(stream) || tail == stream->head)
		return false;
	if (tail - stream->head > stream->entries) {
		set_bit(GPUMEM_STREAM_BROKEN, &stream->state);
		gpumem_timeline_fail(stream->timeline, EPROTO);
		gpumem_timeline_lose(stream->timeline);
		return false;
	}
	gpumem_ring_read(stream->ring, stream->head, &stream->sqe);
	stream->head++;
	stream->row = 0;
	stream->col = 0;
	stream->far_tries = 0;
	stream->misses = 0;
	stream->fault = 0;
	stream->busy = true;
	trace_gpumem_entry_begin(stream);
	/* The slot is the client's again. */
	smp_store_release(&stream->timeline->page->head, stream->head);
	return true;
}

/* Time from the first look at a word to the second; it doubles each time. */
#define GPUMEM_POLL_FIRST_NS	16000

static enum hrtimer_restart gpumem_stream_poll_timer(struct hrtimer *timer)
{
	struct gpumem_stream *stream = container_of(timer, struct gpumem_stream,
						    poll);

	gpumem_runner_kick(stream);
	return HRTIMER_NORESTART;
}

/**
 * gpumem_stream_poll_begin - let writes of the client's streams kick a poll
 * @stream: stream whose entry is a poll
 *
 * The worker calls this before each look at the word; only the first call has
 * an effect.
 *
 * Context: the worker that runs the stream.
 */
void gpumem_stream_poll_begin(struct gpumem_stream *stream)
{
	struct gpumem_client *client = stream->obj.client;

	if (stream->poll_ns)
		return;
	WRITE_ONCE(stream->poll_ns, GPUMEM_POLL_FIRST_NS);
	spin_lock(&client->stream_lock);
	list_add_tail(&stream->polling, &client->polling);
	spin_unlock(&client->stream_lock);
	atomic_inc(&client->polls);
	/* Pairs with gpumem_stream_kick_polls(). */
	smp_mb__after_atomic();
}

/**
 * gpumem_stream_poll_again - start the timer until the next look at the word
 * @stream: stream whose entry is a poll
 *
 * Context: the worker that runs the stream.
 */
void gpumem_stream_poll_again(struct gpumem_stream *stream)
{
	u32 ns = stream->poll_ns;

	WRITE_ONCE(stream->poll_ns, min_t(u32, 2 * ns, GPUMEM_POLL_NS));
	hrtimer_start(&stream->poll, ns_to_ktime(ns), HRTIMER_MODE_REL);
}

/**
 * gpumem_stream_poll_end - undo gpumem_stream_poll_begin()
 * @stream: stream whose poll has ended, or that is cancelled
 *
 * On return, all tasks that found @stream in client->polling have kicked it.
 *
 * Context: the worker that runs the stream, or the stream's only user; may
 * sleep.
 */
void gpumem_stream_poll_end(struct gpumem_stream *stream)
{
	struct gpumem_client *client = stream->obj.client;

	if (!stream->poll_ns)
		return;
	hrtimer_cancel(&stream->poll);
	spin_lock(&client->stream_lock);
	list_del(&stream->polling);
	spin_unlock(&client->stream_lock);
	WRITE_ONCE(stream->poll_ns, 0);
	atomic_dec(&client->polls);
}

/**
 * gpumem_stream_kick_polls - kick all streams of a client that poll
 * @client: client, of which a stream has written to memory
 */
void gpumem_stream_kick_polls(struct gpumem_client *client)
{
	struct gpumem_stream *stream;

	/* Either this function sees the poll, or the poll sees the write. */
	smp_mb();
	if (!atomic_read(&client->polls))
		return;
	spin_lock(&client->stream_lock);
	list_for_each_entry(stream, &client->polling, polling)
		gpumem_runner_kick(stream);
	spin_unlock(&client->stream_lock);
}

static bool gpumem_stream_writes(const struct gpumem_sqe *sqe)
{
	return sqe->op == GPUMEM_OP_COPY || sqe->op == GPUMEM_OP_FILL ||
	       sqe->op == GPUMEM_OP_TIMESTAMP;
}

/**
 * gpumem_stream_wrote - count what an entry wrote, for the client and the device
 * @stream: stream of the entry
 * @bytes: written
 * @fill: by a fill, not by a copy
 */
void gpumem_stream_wrote(struct gpumem_stream *stream, u64 bytes, bool fill)
{
	struct gpumem_counters *count = &stream->obj.client->count;
	struct gpumem_device *dev = stream->dev;

	atomic64_add(bytes, fill ? &count->fill_bytes : &count->copy_bytes);
	atomic64_add(bytes, fill ? &dev->fill_bytes : &dev->copy_bytes);
}

/**
 * gpumem_stream_complete - the entry under way is done
 * @stream: stream
 * @error: 0, or the negative errno with which it failed
 *
 * Context: the worker that runs the stream.
 */
void gpumem_stream_complete(struct gpumem_stream *stream, int error)
{
	trace_gpumem_entry_end(stream, error);
	stream->busy = false;
	if (gpumem_stream_writes(&stream->sqe))
		gpumem_stream_kick_polls(stream->obj.client);
	if (error)
		gpumem_timeline_fail(stream->timeline, -error);
	else
		atomic64_inc(&stream->obj.client->count.jobs);
	gpumem_timeline_raise(stream->timeline, stream->head);
}

/* A closing stream has ended: drop its reference on itself. */
static void gpumem_stream_drain(struct gpumem_stream *stream)
{
	if (!test_and_set_bit(GPUMEM_STREAM_DRAINED, &stream->state))
		gpumem_object_put(&stream->obj);
}

/*
 * The caller found the ring empty.  Return false if there is a new entry.
 * Return true if the worker is to leave the stream, which may be freed then.
 */
static bool gpumem_stream_sleep(struct gpumem_stream *stream)
{
	struct gpumem_timeline_page *page = stream->timeline->page;

	if (test_bit_acquire(GPUMEM_STREAM_CLOSING, &stream->state)) {
		if (!gpumem_stream_broken(stream) &&
		    stream->final != stream->head)
			return false;
		gpumem_stream_drain(stream);
		return true;
	}
	WRITE_ONCE(page->flags, GPUMEM_TIMELINE_NEED_WAKEUP);
	/* Pairs with the barrier between the client's store and its look. */
	smp_mb();
	if (gpumem_stream_broken(stream) ||
	    gpumem_stream_tail(stream) == stream->head)
		return true;
	WRITE_ONCE(page->flags, 0);
	return false;
}

/* Return true if there is more to do. */
static bool gpumem_stream_burst(struct gpumem_stream *stream)
{
	enum gpumem_fenced_next next;
	unsigned int slices = 0;
	int ret;

	/* After the stream's end only the structure is left. */
	if (test_bit(GPUMEM_STREAM_DRAINED, &stream->state) ||
	    test_bit(GPUMEM_STREAM_CANCELLED, &stream->state))
		return false;
	/* Pairs with clear_bit_unlock() in gpumem_runner_fault(). */
	if (unlikely(test_bit_acquire(GPUMEM_STREAM_FAULTING, &stream->state)))
		return false;
	next = gpumem_fenced_run(stream);
	if (next != GPUMEM_NEXT_FREE)
		return next == GPUMEM_NEXT_MORE;
	WRITE_ONCE(stream->timeline->page->flags, 0);
	while (slices < GPUMEM_STREAM_BURST && !gpumem_runner_must_leave()) {
		if (test_bit(GPUMEM_STREAM_CANCELLED, &stream->state))
			return false;
		if (!stream->busy && !gpumem_stream_fetch(stream)) {
			if (gpumem_stream_sleep(stream))
				return false;
			slices++;
			continue;
		}
		/* Only the worker of an unbroken stream sets its error. */
		if (READ_ONCE(stream->timeline->error)) {
			/* Other streams may wait for what the add raises. */
			if (stream->sqe.op == GPUMEM_OP_ADD &&
			    !gpumem_sqe_check(&stream->sqe))
				gpumem_engine_step(stream);
			gpumem_stream_complete(stream,
					       -(int)stream->timeline->error);
		} else {
			ret = 0;
			if ((!stream->row && !stream->col &&
			     !stream->waiting) || stream->fenced.more) {
				ret = gpumem_sqe_check(&stream->sqe) ?:
				      gpumem_pageable_check(stream);
				if (ret) {
					gpumem_stream_complete(stream, ret);
					continue;
				}
				ret = gpumem_fenced_begin(stream);
			}
			if (!ret)
				ret = gpumem_engine_step(stream);
			if (ret == -EINPROGRESS) {
				/* The fault may wait for userspace. */
				if (unlikely(stream->miss.len))
					gpumem_uses_drop(&stream->uses);
				return false;
			}
			if (ret != -EAGAIN)
				gpumem_stream_complete(stream, ret);
		}
		slices++;
		cond_resched();
	}
	/* A stream that is not running keeps no managed memory in use. */
	gpumem_uses_drop(&stream->uses);
	return true;
}

/**
 * gpumem_stream_run - execute some entries of a stream
 * @stream: stream; may have ended, and be without references, afterwards
 *
 * Context: may sleep; no other worker runs the stream.
 * Return: true if there is more to do now.
 */
bool gpumem_stream_run(struct gpumem_stream *stream)
{
	bool more;

	/* No effect, unless KCOV traces the task that made the stream. */
	kcov_remote_start_common(stream->kcov_handle);
	more = gpumem_stream_burst(stream);
	kcov_remote_stop();
	return more;
}

static void gpumem_stream_wake(struct gpumem_waiter *waiter)
{
	struct gpumem_stream *stream = container_of(waiter,
						    struct gpumem_stream,
						    waiter);

	gpumem_runner_kick(stream);
}

/**
 * gpumem_stream_handle_gone - the id of a stream was destroyed
 * @obj: head of the stream
 */
void gpumem_stream_handle_gone(struct gpumem_object *obj)
{
	struct gpumem_stream *stream = container_of(obj, struct gpumem_stream,
						    obj);
	struct gpumem_client *client = obj->client;
	struct gpumem_ring *ring = stream->ring->head;
	bool stopped;

	spin_lock(&client->stream_lock);
	stopped = test_bit(GPUMEM_STREAM_STOPPED, &stream->state);
	if (!stopped) {
		kref_get(&obj->ref);
		/* As in gpumem_stream_tail(). */
		stream->final = smp_load_acquire(&ring->tail);
		/* Pairs with test_bit_acquire() in gpumem_stream_tail(). */
		smp_mb__before_atomic();
		set_bit(GPUMEM_STREAM_CLOSING, &stream->state);
	}
	spin_unlock(&client->stream_lock);
	if (!stopped)
		gpumem_runner_kick(stream);
}

/* Stop the stream for good.  The caller has a reference. */
static void gpumem_stream_cancel(struct gpumem_stream *stream)
{
	struct gpumem_client *client = stream->obj.client;
	bool closing;

	/*
	 * The worker that runs the stream may still add a waiter, and a waiter
	 * that is called may still kick the stream.  Neither happens after the
	 * first cancel, but a kick may have come before it: hence the second.
	 */
	gpumem_runner_cancel(stream);
	gpumem_fenced_cancel(&stream->fenced);
	gpumem_pageable_unpin(stream);
	gpumem_uses_drop(&stream->uses);
	if (stream->waiting) {
		gpumem_timeline_del_waiter(stream->waiting, &stream->waiter);
		gpumem_object_put(&stream->waiting->obj);
		stream->waiting = NULL;
	}
	gpumem_stream_poll_end(stream);
	gpumem_runner_cancel(stream);
	gpumem_timeline_lose(stream->timeline);
	spin_lock(&client->stream_lock);
	set_bit(GPUMEM_STREAM_STOPPED, &stream->state);
	closing = test_bit(GPUMEM_STREAM_CLOSING, &stream->state);
	spin_unlock(&client->stream_lock);
	/* A stream that closes after this keeps no reference for itself. */
	if (closing)
		gpumem_stream_drain(stream);
}

/* Move the first stream of @from to client->streams; return it, referenced. */
static struct gpumem_stream *gpumem_stream_take(struct gpumem_client *client,
						struct list_head *from)
{
	struct gpumem_stream *stream, *found = NULL;

	spin_lock(&client->stream_lock);
	while (!found && !list_empty(from)) {
		stream = list_first_entry(from, struct gpumem_stream, link);
		list_move(&stream->link, &client->streams);
		if (kref_get_unless_zero(&stream->obj.ref))
			found = stream;
	}
	spin_unlock(&client->stream_lock);
	return found;
}

/**
 * gpumem_stream_cancel_all - stop all streams of a client for good
 * @client: dead or orphaned client
 *
 * May be called twice.
 *
 * Context: may sleep; waits for the slice under way of each stream.
 */
void gpumem_stream_cancel_all(struct gpumem_client *client)
{
	struct gpumem_stream *stream;
	LIST_HEAD(running);

	spin_lock(&client->stream_lock);
	client->no_streams = true;
	list_for_each_entry(stream, &client->streams, link) {
		set_bit(GPUMEM_STREAM_CANCELLED, &stream->state);
		/* Signal its fence at once: other streams may wait for it. */
		mod_delayed_work(stream->dev->engine->wq, &stream->fenced.late,
				 0);
	}
	list_splice_init(&client->streams, &running);
	spin_unlock(&client->stream_lock);
	while ((stream = gpumem_stream_take(client, &running))) {
		gpumem_stream_cancel(stream);
		gpumem_object_put(&stream->obj);
		cond_resched();
	}
}

static void gpumem_stream_reap(struct work_struct *work)
{
	struct gpumem_stream *stream = container_of(work, struct gpumem_stream,
						    reap);
	struct gpumem_client *client = stream->obj.client;

	/* Stop the sources of kicks before the stream leaves the runner. */
	gpumem_fenced_cancel(&stream->fenced);
	hrtimer_cancel(&stream->poll);
	/* Streams of all clients are freed here: do not wait for a worker. */
	if (!gpumem_runner_leave(stream))
		return;
	kfree(stream);
	gpumem_client_put(client);
}

/**
 * gpumem_stream_reap_later - free a stream's structure
 * @stream: stream without references
 *
 * Context: any.
 */
void gpumem_stream_reap_later(struct gpumem_stream *stream)
{
	queue_work(gpumem_reap_wq, &stream->reap);
}

/**
 * gpumem_stream_release - free a stream
 * @obj: head of the stream, without references
 *
 * The worker that runs the stream may call this, as its last action.  A task
 * that kicks the stream at the same time may finish later: the structure stays
 * until the reap work has waited for the kick.
 */
void gpumem_stream_release(struct gpumem_object *obj)
{
	struct gpumem_stream *stream = container_of(obj, struct gpumem_stream,
						    obj);
	struct gpumem_client *client = obj->client;

	set_bit(GPUMEM_STREAM_DRAINED, &stream->state);
	spin_lock(&client->stream_lock);
	list_del(&stream->link);
	spin_unlock(&client->stream_lock);
	/*
	 * Put the ring before the count falls: when it is 0, only mappings have
	 * references on rings.
	 */
	gpumem_ring_put(stream->ring);
	atomic64_dec(&client->count.streams);
	if (stream->timeline) {
		gpumem_timeline_lose(stream->timeline);
		gpumem_object_put(&stream->timeline->obj);
	}
	if (stream->vm)
		gpumem_object_put(&stream->vm->obj);
	kref_get(&client->ref);
	gpumem_stream_reap_later(stream);
}

int gpumem_ioctl_stream_create(struct gpumem_ucmd *ucmd)
{
	struct gpumem_stream_create *cmd = ucmd->cmd;
	struct gpumem_client *client = ucmd->client;
	struct gpumem_timeline *timeline;
	struct gpumem_ring_mem *ring;
	struct gpumem_stream *stream;
	struct gpumem_device *dev;
	int ret;

	if (cmd->flags)
		return -EOPNOTSUPP;
	if (cmd->entries < 16 || cmd->entries > 4096 ||
	    !is_power_of_2(cmd->entries) ||
	    cmd->priority > 0 || cmd->priority < GPUMEM_PRIORITY_HIGHEST)
		return -EINVAL;
	dev = gpumem_client_device(client, cmd->device);
	if (!dev)
		return -EACCES;
	stream = kzalloc(sizeof(*stream), GFP_KERNEL_ACCOUNT);
	if (!stream)
		return -ENOMEM;
	gpumem_object_init(&stream->obj, client, GPUMEM_OBJ_STREAM);
	stream->dev = dev;
	stream->devbit = BIT(cmd->device);
	stream->entries = cmd->entries;
	stream->kcov_handle = kcov_common_handle();
	stream->high = cmd->priority < 0;
	INIT_LIST_HEAD(&stream->ready);
	gpumem_fenced_init(&stream->fenced);
	INIT_WORK(&stream->reap, gpumem_stream_reap);
	gpumem_waiter_init(&stream->waiter, gpumem_stream_wake);
	hrtimer_setup(&stream->poll, gpumem_stream_poll_timer, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL);
	INIT_LIST_HEAD(&stream->link);
	if (atomic64_inc_return(&client->count.streams) > GPUMEM_MAX_STREAMS) {
		gpumem_refused(client, &(struct gpumem_refusal) {
			.limit = GPUMEM_LIMIT_STREAMS,
			.dev = dev,
			.asked = 1,
			.used = atomic64_read(&client->count.streams) - 1,
			.max = GPUMEM_MAX_STREAMS,
		});
		ret = -EMFILE;
		goto err_put;
	}
	ret = gpumem_runner_grow(client, atomic64_read(&client->count.streams),
				 dev->engine->workers);
	if (ret)
		goto err_put;
	stream->vm = gpumem_vm_get(client, cmd->vm);
	if (!stream->vm) {
		ret = -ENOENT;
		goto err_put;
	}
	ring = gpumem_ring_alloc(client, stream->entries);
	if (IS_ERR(ring)) {
		ret = PTR_ERR(ring);
		goto err_put;
	}
	stream->ring = ring;
	timeline = gpumem_timeline_alloc(client, 0, true);
	if (!timeline) {
		ret = -ENOMEM;
		goto err_put;
	}
	timeline->page->flags = GPUMEM_TIMELINE_NEED_WAKEUP;
	/* One reference for the stream, one for the id. */
	kref_get(&timeline->obj.ref);
	stream->timeline = timeline;
	spin_lock(&client->stream_lock);
	list_add_tail(&stream->link, &client->streams);
	/* The process that opened the device may have ended meanwhile. */
	ret = client->no_streams ? -ENODEV : 0;
	spin_unlock(&client->stream_lock);
	if (!ret)
		ret = gpumem_object_reserve(ucmd, &timeline->obj);
	if (ret) {
		gpumem_object_put(&timeline->obj);
		goto err_put;
	}
	ret = gpumem_object_reserve(ucmd, &stream->obj);
	if (ret)
		goto err_put;
	cmd->id = stream->obj.id;
	cmd->timeline = timeline->obj.id;
	return gpumem_ucmd_respond(ucmd, sizeof(*cmd));

err_put:
	gpumem_object_put(&stream->obj);
	return ret;
}

int gpumem_ioctl_stream_doorbell(struct gpumem_ucmd *ucmd)
{
	struct gpumem_stream_doorbell *cmd = ucmd->cmd;
	struct gpumem_stream *stream = gpumem_stream_get(ucmd->client, cmd->id);

	if (!stream)
		return -ENOENT;
	atomic64_inc(&ucmd->client->count.doorbells);
	/* The stream reads the tail, and sets the flag again if it is idle. */
	WRITE_ONCE(stream->timeline->page->flags, 0);
	gpumem_runner_kick(stream);
	gpumem_object_put(&stream->obj);
	return 0;
}
