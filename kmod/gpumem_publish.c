// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_publish: execution of published entries in bounded time.
 *
 * gpumem_fence.c publishes an entry: it puts a dma_fence into the reservation
 * objects of the buffers that the entry touches.  From then on other drivers
 * may wait for the fence, so the kernel must signal it soon, whatever the
 * client's process does.
 *
 * Portions: one fence stands for a portion of an entry: GPUMEM_PORTION bytes at
 * most, where a row counts GPUMEM_ROW_WEIGHT bytes at least.  A larger entry
 * has several portions, one after the other, and a fence for each.
 *
 * Lanes: each client has a *lane*.  A client's published portions have at most
 * GPUMEM_PORTION bytes together; portions that do not fit wait in
 * lane->waiting.  So if N clients publish, the kernel executes at most N times
 * GPUMEM_PORTION bytes before it signals a fence.
 *
 * Managed memory: a portion keeps its blocks in use from its preparation to its
 * end.  GPUMEM_KEEPERS portions of a client do so at most; the streams of other
 * portions wait in lane->keepless before they are prepared.
 *
 * Execution: the client's worker executes a portion first, so that the
 * scheduler charges the process as for any other entry.  The worker executes
 * *pieces* of GPUMEM_PIECE bytes with preemption disabled and owns the entry
 * (GPUMEM_FENCED_OWNED) during a piece only: a worker that loses the CPU, is
 * throttled, stopped or killed never holds up the fence.
 *
 * Each portion has its own work item (fenced->late), the *late work*.  If the
 * client's worker gets less than a third of a CPU in GPUMEM_PUBLISH_GRACE, the
 * late work executes the remaining pieces in a kernel worker with a rescuer.
 * One late work per client executes at a time (lane->turn), for a burst, and
 * then queues behind the other clients' work.  Neither worker allocates or
 * sleeps in a piece.  The client's worker tries vm->lock.  The kernel worker
 * waits for vm->lock, as long as a change of the address space holds it.
 *
 * Payment: the CPU time that a kernel worker spends on a portion is a debt of
 * the client.  After the portion the client's worker computes which share of a
 * CPU the process got while it published lately.  The client publishes nothing
 * for one and a half times the period in which that share adds up to the debt.
 * The wait does not spin.  A debt ends with its client.
 *
 * Time-out: a portion that has not ended fence_timeout_ms after a worker began
 * its first piece ends with -ETIMEDOUT.  Only an owner ends a portion, so there
 * are no writes after the end.  The device gets a device coredump.
 *
 * Locks: lane->lock (spin, irqsafe) protects the lane; runner->lock and the
 * locks of workqueues nest inside.
 */
#include <linux/devcoredump.h>
#include <linux/dma-fence.h>
#include <linux/math64.h>
#include <linux/moduleparam.h>
#include <linux/pid.h>
#include <linux/vmalloc.h>

#include "gpumem_client.h"
#include "gpumem_delay.h"
#include "gpumem_device.h"
#include "gpumem_engine.h"
#include "gpumem_fence.h"
#include "gpumem_lock.h"
#include "gpumem_publish.h"
#include "gpumem_runner.h"
#include "gpumem_stream.h"
#include "gpumem_vm.h"

/* Bytes executed with preemption disabled. */
#define GPUMEM_PIECE		SZ_128K
/* Bytes behind one fence, and behind all fences of a client. */
#define GPUMEM_PORTION		SZ_32M
/*
 * Portions of a client that keep managed memory in use.  This bounds what one
 * client makes unevictable while other drivers keep it waiting.
 */
#define GPUMEM_KEEPERS		8
/* Dependencies that are checked with preemption disabled. */
#define GPUMEM_PUBLISH_DEPS	64
/* Pieces that a kernel worker executes before it yields to other clients. */
#define GPUMEM_PUBLISH_BURST	16
/* Time that the client's worker has for a portion. */
#define GPUMEM_PUBLISH_GRACE	max_t(unsigned long, msecs_to_jiffies(8), 1)
/* A debt is paid as if the client's share of a CPU were 1/n at least. */
#define GPUMEM_PUBLISH_LEAST	256ULL

static unsigned int fence_timeout_ms = 10000;
module_param(fence_timeout_ms, uint, 0644);
MODULE_PARM_DESC(fence_timeout_ms,
		 "Time after which a fence that others wait for ends with an error (default: 10000)");

/* How an attempt to execute a piece ended. */
enum gpumem_piece_end {
	GPUMEM_PIECE_MORE,	/* there is another piece to execute */
	GPUMEM_PIECE_LOCKED,	/* vm->lock was held for a change */
	GPUMEM_PIECE_OWNED,	/* another worker owns the entry */
	GPUMEM_PIECE_WAIT,	/* a dependency is not met; it has a callback */
	GPUMEM_PIECE_DONE,	/* the fence is signalled */
};

/**
 * gpumem_lane_init - prepare the lane of a new client
 * @lane: lane, zeroed
 */
void gpumem_lane_init(struct gpumem_lane *lane)
{
	spin_lock_init(&lane->lock);
	gpumem_lockdep_class(&lane->lock, GPUMEM_LOCK_LANE);
	INIT_LIST_HEAD(&lane->waiting);
	INIT_LIST_HEAD(&lane->keepless);
	INIT_LIST_HEAD(&lane->late);
}

static struct gpumem_stream *gpumem_publish_stream(struct gpumem_fenced *fenced)
{
	return container_of(fenced, struct gpumem_stream, fenced);
}

static struct gpumem_lane *gpumem_publish_lane(struct gpumem_fenced *fenced)
{
	return &gpumem_publish_stream(fenced)->obj.client->lane;
}

/**
 * gpumem_publish_weight - bytes of a lane that a portion of an entry takes
 * @sqe: entry that touches memory
 *
 * A portion executes at most this number of bytes, where a row counts
 * GPUMEM_ROW_WEIGHT bytes at least.
 *
 * Return: bytes, a multiple of GPUMEM_PIECE; the same for each portion of the
 * entry.
 */
u64 gpumem_publish_weight(const struct gpumem_sqe *sqe)
{
	u64 row = sqe->op == GPUMEM_OP_FILL ? sqe->width * sqe->elem :
					      sqe->width;
	u64 rows = max(sqe->height, 1);

	row = max(row, GPUMEM_ROW_WEIGHT);

	/* Below that the product is less than 2^50. */
	if (row >= GPUMEM_PORTION || rows >= GPUMEM_PORTION)
		return GPUMEM_PORTION;
	return min_t(u64, round_up(row * rows, GPUMEM_PIECE), GPUMEM_PORTION);
}

/* Let waiting portions keep memory, in the order in which they were added. */
static void gpumem_lane_grant_locked(struct gpumem_lane *lane)
{
	struct gpumem_fenced *fenced;

	lockdep_assert_held(&lane->lock);
	while (lane->keepers < GPUMEM_KEEPERS &&
	       (fenced = list_first_entry_or_null(&lane->keepless,
						  struct gpumem_fenced,
						  keep))) {
		list_del_init(&fenced->keep);
		WRITE_ONCE(fenced->keeps, true);
		lane->keepers++;
		gpumem_runner_kick(gpumem_publish_stream(fenced));
	}
}

/**
 * gpumem_lane_keep - may a portion keep managed memory in use?
 * @fenced: of the stream, whose next portion is to be prepared
 *
 * Return: true until gpumem_lane_unkeep(); or false, and the stream will be
 * kicked when it may.
 */
bool gpumem_lane_keep(struct gpumem_fenced *fenced)
{
	struct gpumem_lane *lane = gpumem_publish_lane(fenced);
	unsigned long flags;
	bool keeps;

	spin_lock_irqsave(&lane->lock, flags);
	if (!fenced->keeps && list_empty(&fenced->keep)) {
		if (lane->keepers < GPUMEM_KEEPERS) {
			WRITE_ONCE(fenced->keeps, true);
			lane->keepers++;
		} else {
			list_add_tail(&fenced->keep, &lane->keepless);
		}
	}
	keeps = fenced->keeps;
	spin_unlock_irqrestore(&lane->lock, flags);
	return keeps;
}

/**
 * gpumem_lane_unkeep - a portion keeps no managed memory in use any more
 * @fenced: of the stream
 *
 * Context: any.
 */
void gpumem_lane_unkeep(struct gpumem_fenced *fenced)
{
	struct gpumem_lane *lane = gpumem_publish_lane(fenced);
	unsigned long flags;

	spin_lock_irqsave(&lane->lock, flags);
	list_del_init(&fenced->keep);
	if (fenced->keeps) {
		WRITE_ONCE(fenced->keeps, false);
		lane->keepers--;
		gpumem_lane_grant_locked(lane);
	}
	spin_unlock_irqrestore(&lane->lock, flags);
}

static bool gpumem_lane_fits_locked(struct gpumem_lane *lane, u64 weight)
{
	lockdep_assert_held(&lane->lock);
	return !lane->unsettled &&
	       (!lane->published || lane->published + weight <= GPUMEM_PORTION);
}

/* Admit waiting portions that fit, in the order in which they were added. */
static void gpumem_lane_admit_locked(struct gpumem_lane *lane)
{
	struct gpumem_fenced *fenced;

	lockdep_assert_held(&lane->lock);
	while ((fenced = list_first_entry_or_null(&lane->waiting,
						  struct gpumem_fenced,
						  waits))) {
		if (!gpumem_lane_fits_locked(lane, fenced->weight))
			return;
		list_del_init(&fenced->waits);
		lane->published += fenced->weight;
		fenced->admitted = true;
		gpumem_fenced_prepare_later(fenced);
	}
}

/**
 * gpumem_publish_admit - may a portion be published now?
 * @fenced: of the stream; its state is GPUMEM_FENCED_ASKED
 * @delay: jiffies after which to call again, or 0 if the lane will queue
 *	fenced->prepare; out
 *
 * Context: gpumem_fenced.prepare.
 * Return: true if the portion may be published.
 */
bool gpumem_publish_admit(struct gpumem_fenced *fenced, unsigned long *delay)
{
	struct gpumem_lane *lane = gpumem_publish_lane(fenced);
	const struct gpumem_sqe *sqe;
	u64 now = ktime_get_ns();
	unsigned long flags;

	*delay = 0;
	spin_lock_irqsave(&lane->lock, flags);
	if (now < lane->paid_at) {
		*delay = nsecs_to_jiffies(lane->paid_at - now) + 1;
	} else if (!fenced->admitted && list_empty(&fenced->waits)) {
		sqe = &gpumem_publish_stream(fenced)->sqe;
		fenced->weight = gpumem_publish_weight(sqe);
		if (list_empty(&lane->waiting) &&
		    gpumem_lane_fits_locked(lane, fenced->weight)) {
			lane->published += fenced->weight;
			fenced->admitted = true;
		} else {
			list_add_tail(&fenced->waits, &lane->waiting);
		}
	}
	spin_unlock_irqrestore(&lane->lock, flags);
	return !*delay && READ_ONCE(fenced->admitted);
}

/**
 * gpumem_publish_leave - a portion has ended, or is not published at all
 * @fenced: of the stream
 *
 * Context: any.
 */
void gpumem_publish_leave(struct gpumem_fenced *fenced)
{
	struct gpumem_lane *lane = gpumem_publish_lane(fenced);
	unsigned long flags;

	spin_lock_irqsave(&lane->lock, flags);
	list_del_init(&fenced->waits);
	if (fenced->admitted) {
		lane->published -= fenced->weight;
		fenced->admitted = false;
	}
	/* The client's worker settles the debt in gpumem_publish_over(). */
	if (fenced->debt)
		lane->unsettled++;
	gpumem_lane_admit_locked(lane);
	spin_unlock_irqrestore(&lane->lock, flags);
}

/**
 * gpumem_publish_begin - a fence is in the reservation objects
 * @fenced: of the stream
 *
 * Context: gpumem_fenced.prepare.
 */
void gpumem_publish_begin(struct gpumem_fenced *fenced)
{
	struct gpumem_stream *stream = gpumem_publish_stream(fenced);

	fenced->pieces = 0;
	fenced->timed = false;
	fenced->began = ktime_get_ns();
	fenced->seen = fenced->began;
	fenced->seen_own = 0;
	gpumem_delay(share_work);
	/* A worker that sees the state sees the stores above. */
	smp_store_release(&fenced->state, GPUMEM_FENCED_PUBLISHED);
	queue_delayed_work(stream->dev->engine->wq, &fenced->late,
			   GPUMEM_PUBLISH_GRACE);
	gpumem_runner_kick(stream);
}

/**
 * gpumem_publish_wake - a fence that a published entry waited for is signalled
 * @fenced: of the stream
 *
 * Context: any.
 */
void gpumem_publish_wake(struct gpumem_fenced *fenced)
{
	struct gpumem_stream *stream = gpumem_publish_stream(fenced);

	/* The client's worker can execute the portion from now on. */
	WRITE_ONCE(fenced->began, ktime_get_ns());
	mod_delayed_work(stream->dev->engine->wq, &fenced->late,
			 GPUMEM_PUBLISH_GRACE);
	gpumem_runner_kick(stream);
}

/*
 * Execute a piece of an entry that the caller owns.  @late: the caller is the
 * late work.  @locked: the caller has vm->lock.  Return what
 * gpumem_engine_step() returns, -EINPROGRESS at the end of a portion that is
 * not the last one, or -ETIMEDOUT.
 */
static int gpumem_publish_step(struct gpumem_fenced *fenced, bool late,
			       bool locked)
{
	struct gpumem_stream *stream = gpumem_publish_stream(fenced);
	u64 begin = ktime_get_ns();
	int ret;

	if (!fenced->timed) {
		fenced->timed = true;
		fenced->deadline = begin + (u64)READ_ONCE(fence_timeout_ms) *
					  NSEC_PER_MSEC;
	}
	if (begin > fenced->deadline) {
		fenced->report = true;
		return -ETIMEDOUT;
	}
	/* Without preemption the elapsed time is CPU time. */
	preempt_disable();
	begin = ktime_get_ns();
	ret = gpumem_engine_piece(stream, GPUMEM_PIECE, locked);
	begin = ktime_get_ns() - begin;
	preempt_enable();
	if (late)
		fenced->debt += begin;
	else
		fenced->own += begin;
	/*
	 * The portion ends at managed memory that gpumem_place_prepare() did
	 * not populate.  The next portion begins there.
	 */
	if (ret == -ENODATA)
		return -EINPROGRESS;
	/* The portion ends at the weight that the lane admitted. */
	if (ret == -EAGAIN && ++fenced->pieces >= fenced->weight / GPUMEM_PIECE)
		return -EINPROGRESS;
	return ret;
}

/*
 * As gpumem_publish_step(), but waits for vm->lock: a client that changes its
 * address space without pause must not hold up its fence.
 */
static int gpumem_publish_step_locked(struct gpumem_fenced *fenced)
{
	struct gpumem_vm *vm = gpumem_publish_stream(fenced)->vm;

	guard(rwsem_read)(&vm->lock);
	return gpumem_publish_step(fenced, true, true);
}

/* The portion of an entry that the caller owns has ended; signal its fence. */
static void gpumem_publish_signal(struct gpumem_fenced *fenced, int result)
{
	struct dma_fence *fence = fenced->fence;

	fenced->result = result;
	fenced->fence = NULL;
	if (result && result != -EINPROGRESS)
		dma_fence_set_error(fence, result);
	dma_fence_signal(fence);
	dma_fence_put(fence);
}

/* Return true if a portion of the entry is published and has not ended. */
static bool gpumem_publish_is_on(struct gpumem_fenced *fenced)
{
	/* Pairs with gpumem_publish_begin(). */
	return smp_load_acquire(&fenced->state) == GPUMEM_FENCED_PUBLISHED;
}

/*
 * Execute a piece of an entry that the caller owns.  If the portion ends,
 * signal its fence.  The client's worker frees the portion's objects later.
 */
static enum gpumem_piece_end gpumem_publish_own(struct gpumem_fenced *fenced,
						bool late)
{
	int ret;

	/* Another owner, or a cancel, has ended the portion. */
	if (!gpumem_publish_is_on(fenced) || !fenced->fence)
		return GPUMEM_PIECE_WAIT;
	ret = gpumem_fenced_met(fenced, GPUMEM_PUBLISH_DEPS);
	if (ret <= 0)
		return ret ? GPUMEM_PIECE_MORE : GPUMEM_PIECE_WAIT;
	ret = gpumem_publish_step(fenced, late, false);
	if (ret == -EBUSY && late)
		ret = gpumem_publish_step_locked(fenced);
	if (ret == -EAGAIN)
		return GPUMEM_PIECE_MORE;
	if (ret == -EBUSY)
		return GPUMEM_PIECE_LOCKED;
	gpumem_publish_signal(fenced, ret);
	return GPUMEM_PIECE_DONE;
}

/*
 * Own the entry and execute a piece of it.  A client's worker must not lose the
 * CPU while it owns the entry.
 */
static enum gpumem_piece_end gpumem_publish_piece(struct gpumem_fenced *fenced,
						  bool late)
{
	enum gpumem_piece_end end = GPUMEM_PIECE_OWNED;

	if (!late)
		preempt_disable();
	if (!test_and_set_bit_lock(GPUMEM_FENCED_OWNED, &fenced->flags)) {
		end = gpumem_publish_own(fenced, late);
		if (end == GPUMEM_PIECE_DONE) {
			gpumem_publish_leave(fenced);
			/* Pairs with gpumem_fenced_run(). */
			smp_store_release(&fenced->state, GPUMEM_FENCED_DONE);
		}
		clear_bit_unlock(GPUMEM_FENCED_OWNED, &fenced->flags);
	}
	if (!late)
		preempt_enable();
	return end;
}

/* Give the turn to the client's next late portion. */
static void gpumem_lane_next_locked(struct gpumem_lane *lane,
				    unsigned long delay)
{
	struct gpumem_fenced *next;

	lockdep_assert_held(&lane->lock);
	next = list_first_entry_or_null(&lane->late, struct gpumem_fenced,
					line);
	if (next) {
		list_del_init(&next->line);
		mod_delayed_work(gpumem_publish_stream(next)->dev->engine->wq,
				 &next->late, delay);
	}
	lane->turn = next;
}

/* The client's worker ended a portion: its late work is not needed. */
static void gpumem_lane_finish(struct gpumem_fenced *fenced)
{
	struct gpumem_lane *lane = gpumem_publish_lane(fenced);

	spin_lock_irq(&lane->lock);
	list_del_init(&fenced->line);
	/* If the late work runs, it passes the turn on itself. */
	if (cancel_delayed_work(&fenced->late) && lane->turn == fenced)
		gpumem_lane_next_locked(lane, 0);
	spin_unlock_irq(&lane->lock);
}

/* gpumem_publish_run(), without the annotation for lockdep. */
static enum gpumem_fenced_next gpumem_publish_some(struct gpumem_fenced *fenced)
{
	struct gpumem_stream *stream = gpumem_publish_stream(fenced);
	unsigned int i;

	for (i = 0; i < GPUMEM_PUBLISH_BURST; i++) {
		switch (gpumem_publish_piece(fenced, false)) {
		case GPUMEM_PIECE_WAIT:
		case GPUMEM_PIECE_OWNED:
			return GPUMEM_NEXT_WAIT;
		case GPUMEM_PIECE_LOCKED:
			/* The late work executes the piece or kicks the stream. */
			mod_delayed_work(stream->dev->engine->wq, &fenced->late,
					 1);
			return GPUMEM_NEXT_WAIT;
		case GPUMEM_PIECE_DONE:
			gpumem_lane_finish(fenced);
			return GPUMEM_NEXT_DONE;
		case GPUMEM_PIECE_MORE:
			break;
		}
		if (test_bit(GPUMEM_STREAM_CANCELLED, &stream->state))
			return GPUMEM_NEXT_WAIT;
		if (gpumem_runner_must_leave())
			break;
		cond_resched();
	}
	return GPUMEM_NEXT_MORE;
}

/**
 * gpumem_publish_run - have the client's worker execute a published entry
 * @fenced: of the stream
 *
 * Context: the worker that runs the stream; may sleep.
 * Return: what is to become of the stream.
 */
enum gpumem_fenced_next gpumem_publish_run(struct gpumem_fenced *fenced)
{
	/*
	 * Other drivers wait for the fence.  The annotation is here because it
	 * would have no effect in a piece, which is atomic.
	 */
	bool cookie = dma_fence_begin_signalling();
	enum gpumem_fenced_next next = gpumem_publish_some(fenced);

	dma_fence_end_signalling(cookie);
	return next;
}

/*
 * Did the client's worker get at least a third of a CPU for the portion since
 * the last call?  If so, no kernel worker has to help.
 */
static bool gpumem_publish_in_time(struct gpumem_fenced *fenced)
{
	u64 now = ktime_get_ns(), own = READ_ONCE(fenced->own);
	/* The worker can execute since the last dependency was met. */
	u64 since = max(fenced->seen, READ_ONCE(fenced->began));
	bool in_time = (own - fenced->seen_own) * 3 >= now - since;

	fenced->seen = now;
	fenced->seen_own = own;
	return in_time;
}

/*
 * Return true if @fenced has the turn of its client, or gets it now.  Else, if
 * its portion is published, queue its late work again, or let it wait for the
 * turn in lane->late.
 */
static bool gpumem_lane_enter(struct gpumem_fenced *fenced)
{
	struct gpumem_stream *stream = gpumem_publish_stream(fenced);
	struct gpumem_lane *lane = gpumem_publish_lane(fenced);
	bool published, mine;

	published = gpumem_publish_is_on(fenced);
	spin_lock_irq(&lane->lock);
	mine = lane->turn == fenced;
	if (!mine && published && gpumem_publish_in_time(fenced)) {
		queue_delayed_work(stream->dev->engine->wq, &fenced->late,
				   GPUMEM_PUBLISH_GRACE);
		/* The worker may have left after GPUMEM_PIECE_LOCKED. */
		gpumem_runner_kick(stream);
	} else if (!mine && published && !lane->turn) {
		lane->turn = fenced;
		mine = true;
	} else if (!mine && published && list_empty(&fenced->line)) {
		list_add_tail(&fenced->line, &lane->late);
	}
	spin_unlock_irq(&lane->lock);
	return mine;
}

/*
 * The stream is cancelled: signal its fence at once.  Streams of the same
 * client that are cancelled before it may wait for the fence.
 * gpumem_publish_cancel() cleans up.
 */
static void gpumem_publish_abandon(struct gpumem_fenced *fenced)
{
	preempt_disable();
	/* The owner is a worker, which owns the entry for one piece. */
	while (test_and_set_bit_lock(GPUMEM_FENCED_OWNED, &fenced->flags))
		cpu_relax();
	if (gpumem_publish_is_on(fenced) && fenced->fence)
		gpumem_publish_signal(fenced, -ECANCELED);
	clear_bit_unlock(GPUMEM_FENCED_OWNED, &fenced->flags);
	preempt_enable();
}

static void gpumem_publish_late(struct work_struct *work)
{
	struct gpumem_fenced *fenced = container_of(to_delayed_work(work),
						    struct gpumem_fenced, late);
	struct gpumem_stream *stream = gpumem_publish_stream(fenced);
	struct gpumem_lane *lane = gpumem_publish_lane(fenced);
	enum gpumem_piece_end end = GPUMEM_PIECE_WAIT;
	bool again, cookie;
	unsigned int i;

	if (test_bit(GPUMEM_STREAM_CANCELLED, &stream->state))
		gpumem_publish_abandon(fenced);
	if (!gpumem_lane_enter(fenced))
		return;
	cookie = dma_fence_begin_signalling();
	for (i = 0; i < GPUMEM_PUBLISH_BURST; i++) {
		/* The portion may have ended while it waited for the turn. */
		if (test_bit(GPUMEM_STREAM_CANCELLED, &stream->state) ||
		    !gpumem_publish_is_on(fenced))
			break;
		end = gpumem_publish_piece(fenced, true);
		if (end != GPUMEM_PIECE_MORE)
			break;
		cond_resched();
	}
	dma_fence_end_signalling(cookie);
	again = end == GPUMEM_PIECE_OWNED;
	spin_lock_irq(&lane->lock);
	/* The rest of the portion queues behind the client's other portions. */
	if ((again || end == GPUMEM_PIECE_MORE) && list_empty(&fenced->line))
		list_add_tail(&fenced->line, &lane->late);
	/* The client's worker may have passed the turn on. */
	if (lane->turn == fenced)
		gpumem_lane_next_locked(lane, again);
	spin_unlock_irq(&lane->lock);
	/*
	 * The worker may complete the entry and free the stream now; cancel
	 * waits for this function, so the structure stays until it returns.
	 */
	if (end == GPUMEM_PIECE_DONE)
		gpumem_runner_kick(stream);
}

static void gpumem_publish_report(struct gpumem_fenced *fenced)
{
	struct gpumem_stream *stream = gpumem_publish_stream(fenced);
	struct gpumem_client *client = stream->obj.client;
	const struct gpumem_sqe *sqe = &stream->sqe;
	const size_t size = 1024;
	char *text;
	int len;

	dev_warn_ratelimited(&stream->dev->dev,
			     "process %d (%s): an operation on a shared buffer did not end within fence_timeout_ms=%u\n",
			     pid_nr(client->pid), client->comm,
			     fence_timeout_ms);
	text = vzalloc(size);
	if (!text)
		return;
	len = scnprintf(text, size,
			"gpumem: fence timed out\nprocess: %d\ncomm: %s\nstream: %u\nentry: %llu\nop: %u\ndst: %#llx\nsrc: %#llx\nwidth: %llu\nheight: %llu\nrow: %llu\ncolumn: %llu\n",
			pid_nr(client->pid), client->comm, stream->obj.id,
			stream->head, sqe->op, sqe->dst, sqe->src, sqe->width,
			sqe->height, stream->row, stream->col);
	/* Takes @text over. */
	dev_coredumpv(&stream->dev->dev, text, len, GFP_KERNEL);
}

/* A portion has ended: turn its debt into a time without publishing. */
static void gpumem_publish_settle(struct gpumem_fenced *fenced)
{
	struct gpumem_lane *lane = gpumem_publish_lane(fenced);
	u64 now = ktime_get_ns(), wall, wait, ratio;

	if (!fenced->debt)
		goto out;
	spin_lock_irq(&lane->lock);
	wall = max_t(u64, now - READ_ONCE(fenced->began), 1);
	/* CPU time that the process got, and the time in which it had work. */
	lane->own = lane->own / 2 + fenced->own;
	lane->wall = lane->wall / 2 + wall;
	if (lane->own) {
		ratio = div64_u64(lane->wall << 8, lane->own);
		wait = fenced->debt * min(ratio, GPUMEM_PUBLISH_LEAST << 8) >> 8;
	} else {
		/* No CPU time: use the time that the portion took. */
		wait = min(wall, fenced->debt * GPUMEM_PUBLISH_LEAST);
	}
	/*
	 * A portion starts in the middle of a CPU limit's period, so the
	 * measured wait misses part of a period.  Another half of the wait
	 * corrects this.
	 */
	wait += wait / 2;
	lane->paid_at = max(lane->paid_at, now) + wait;
	lane->unsettled--;
	gpumem_lane_admit_locked(lane);
	spin_unlock_irq(&lane->lock);
out:
	fenced->debt = 0;
	fenced->own = 0;
}

/**
 * gpumem_publish_over - settle a portion after its end
 * @fenced: of the stream; its portion is done
 *
 * Context: the worker that runs the stream; may sleep.
 */
void gpumem_publish_over(struct gpumem_fenced *fenced)
{
	gpumem_publish_settle(fenced);
	if (fenced->report) {
		fenced->report = false;
		gpumem_publish_report(fenced);
	}
}

/**
 * gpumem_publish_cancel - end the published portion of a cancelled stream
 * @fenced: of the stream, which the client's workers have left
 *
 * Context: may sleep; waits for the burst under way.
 */
void gpumem_publish_cancel(struct gpumem_fenced *fenced)
{
	struct gpumem_lane *lane = gpumem_publish_lane(fenced);

	disable_delayed_work_sync(&fenced->late);
	spin_lock_irq(&lane->lock);
	list_del_init(&fenced->line);
	if (lane->turn == fenced)
		gpumem_lane_next_locked(lane, 0);
	spin_unlock_irq(&lane->lock);
	gpumem_publish_leave(fenced);
	/* All streams of the client are cancelled: drop the debt. */
	fenced->debt = 0;
}

/**
 * gpumem_publish_init - prepare a new stream's fenced entry
 * @fenced: of the stream, zeroed
 */
void gpumem_publish_init(struct gpumem_fenced *fenced)
{
	INIT_DELAYED_WORK(&fenced->late, gpumem_publish_late);
	INIT_LIST_HEAD(&fenced->waits);
	INIT_LIST_HEAD(&fenced->keep);
	INIT_LIST_HEAD(&fenced->line);
}
