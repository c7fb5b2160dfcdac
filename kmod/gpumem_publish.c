// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_publish: execution of published entries, bounded, fair and paid for.
 *
 * gpumem_share.c publishes an entry: it puts a dma_fence into the reservation
 * objects of the buffers that the entry touches.  From then on others may wait
 * for the entry, so it must end soon, whatever the client's process does.
 *
 * Portions: one fence stands for at most GPUMEM_PORTION bytes, or the rows that
 * weigh as much.  An entry that is larger gets one fence after the other.
 *
 * Lanes: each client has a *lane*.  A client's published portions have at most
 * GPUMEM_PORTION bytes together; portions that do not fit wait in lane->waiting.
 * So with N clients that publish, a fence has at most N times that many bytes
 * before it.
 *
 * Who executes: the client's worker first, so that the scheduler charges the
 * process as for any other entry.  The worker executes *pieces* of
 * GPUMEM_PIECE bytes with preemption disabled and owns the entry
 * (GPUMEM_SHARE_OWNED) during a piece only: a worker that loses the CPU, is
 * throttled, stopped or killed never holds up the fence.  If the worker does not
 * get a third of a CPU within GPUMEM_PUBLISH_GRACE, a kernel worker with a rescuer
 * executes the rest.  Each portion has its own late work (share->late); one per
 * client executes at a time (lane->turn), for a burst, and then goes behind the
 * other clients' work.
 * Neither allocates or sleeps in a piece.  The worker tries vm->lock; the kernel
 * worker waits for it, as long as a change of the address space holds it.
 *
 * Payment: the time that a kernel worker spends is a debt of the client.  When
 * the client's worker has the stream back, it knows which part of a CPU the
 * process got.  The client publishes nothing until that part of the time that
 * has passed equals the debt.  The client waits; nothing spins.  A debt ends with
 * its client.
 *
 * Time-out: a portion that has not ended fence_timeout_ms after its
 * dependencies were met ends with -ETIMEDOUT.  It is ended by an owner, so
 * nothing can write any more.  The device gets a device coredump.
 *
 * Locks: lane->lock (spin, irqsafe) protects the lane; runner->lock and the locks
 * of workqueues nest inside.
 */
#include <linux/devcoredump.h>
#include <linux/dma-fence.h>
#include <linux/math64.h>
#include <linux/moduleparam.h>
#include <linux/pid.h>
#include <linux/vmalloc.h>

#include "gpumem_private.h"

/* Bytes executed with preemption disabled. */
#define GPUMEM_PIECE		SZ_128K
/* Bytes behind one fence, and behind all fences of a client. */
#define GPUMEM_PORTION		SZ_32M
/* Dependencies that are looked at with preemption disabled. */
#define GPUMEM_PUBLISH_DEPS	64
/* Pieces that a kernel worker executes before other clients' turn. */
#define GPUMEM_PUBLISH_BURST	16
/* Time that the client's worker has for a portion. */
#define GPUMEM_PUBLISH_GRACE	max_t(unsigned long, msecs_to_jiffies(8), 1)
/* The smallest part of the CPU, 1/n, that a client is taken to have got. */
#define GPUMEM_PUBLISH_LEAST	256ULL

static unsigned int fence_timeout_ms = 10000;
module_param(fence_timeout_ms, uint, 0644);
MODULE_PARM_DESC(fence_timeout_ms,
		 "Time after which a fence that others wait for ends with an error (default: 10000)");

/* How an attempt to execute a piece ended. */
enum gpumem_piece_end {
	GPUMEM_PIECE_MORE,	/* there is another piece to execute */
	GPUMEM_PIECE_LOCKED,	/* the address space changes just now */
	GPUMEM_PIECE_OWNED,	/* there is another owner just now */
	GPUMEM_PIECE_WAIT,	/* a dependency is not met: a callback goes on */
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
	INIT_LIST_HEAD(&lane->late);
}

static struct gpumem_stream *gpumem_publish_stream(struct gpumem_share *share)
{
	return container_of(share, struct gpumem_stream, share);
}

static struct gpumem_lane *gpumem_publish_lane(struct gpumem_share *share)
{
	return &gpumem_publish_stream(share)->obj.client->lane;
}

/**
 * gpumem_publish_weight - bytes of a lane that a portion of an entry takes
 * @sqe: entry that touches memory
 *
 * A portion executes as many bytes at most, where a row counts GPUMEM_ROW_WEIGHT
 * at least.
 *
 * Return: whole pieces; the same for each portion of the entry.
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

static bool gpumem_lane_fits_locked(struct gpumem_lane *lane, u64 weight)
{
	lockdep_assert_held(&lane->lock);
	return !lane->unsettled &&
	       (!lane->published || lane->published + weight <= GPUMEM_PORTION);
}

/* Let those publish that have room, in the order in which they came. */
static void gpumem_lane_admit_locked(struct gpumem_lane *lane)
{
	struct gpumem_share *share;

	lockdep_assert_held(&lane->lock);
	while ((share = list_first_entry_or_null(&lane->waiting,
						 struct gpumem_share,
						 waits))) {
		if (!gpumem_lane_fits_locked(lane, share->weight))
			return;
		list_del_init(&share->waits);
		lane->published += share->weight;
		share->admitted = true;
		gpumem_share_prepare_later(share);
	}
}

/**
 * gpumem_publish_admit - may a portion be published now?
 * @share: of the stream; its entry is asked
 * @delay: jiffies after which to ask again, or 0 if the lane will tell; out
 *
 * Context: gpumem_share.prepare.
 * Return: true if the portion may be published.
 */
bool gpumem_publish_admit(struct gpumem_share *share, unsigned long *delay)
{
	struct gpumem_lane *lane = gpumem_publish_lane(share);
	u64 now = ktime_get_ns();
	unsigned long flags;

	*delay = 0;
	spin_lock_irqsave(&lane->lock, flags);
	if (now < lane->paid_at) {
		*delay = nsecs_to_jiffies(lane->paid_at - now) + 1;
	} else if (!share->admitted && list_empty(&share->waits)) {
		share->weight =
			gpumem_publish_weight(&gpumem_publish_stream(share)->sqe);
		if (list_empty(&lane->waiting) &&
		    gpumem_lane_fits_locked(lane, share->weight)) {
			lane->published += share->weight;
			share->admitted = true;
		} else {
			list_add_tail(&share->waits, &lane->waiting);
		}
	}
	spin_unlock_irqrestore(&lane->lock, flags);
	return !*delay && READ_ONCE(share->admitted);
}

/**
 * gpumem_publish_leave - a portion is over, or is not published at all
 * @share: of the stream
 *
 * Context: any.
 */
void gpumem_publish_leave(struct gpumem_share *share)
{
	struct gpumem_lane *lane = gpumem_publish_lane(share);
	unsigned long flags;

	spin_lock_irqsave(&lane->lock, flags);
	list_del_init(&share->waits);
	if (share->admitted) {
		lane->published -= share->weight;
		share->admitted = false;
	}
	/* Settled by the client's worker, when it has the stream. */
	if (share->debt)
		lane->unsettled++;
	gpumem_lane_admit_locked(lane);
	spin_unlock_irqrestore(&lane->lock, flags);
}

/**
 * gpumem_publish_begin - a fence is in the reservation objects
 * @share: of the stream
 *
 * Context: gpumem_share.prepare.
 */
void gpumem_publish_begin(struct gpumem_share *share)
{
	struct gpumem_stream *stream = gpumem_publish_stream(share);

	share->pieces = 0;
	share->timed = false;
	share->began = ktime_get_ns();
	share->seen = share->began;
	share->seen_own = 0;
	gpumem_delay(share_work);
	/* Whoever sees the state sees the rest. */
	smp_store_release(&share->state, GPUMEM_SHARE_PUBLISHED);
	queue_delayed_work(stream->dev->engine->wq, &share->late,
			   GPUMEM_PUBLISH_GRACE);
	gpumem_runner_kick(stream);
}

/**
 * gpumem_publish_wake - a fence that a published entry waited for is signalled
 * @share: of the stream
 *
 * Context: any.
 */
void gpumem_publish_wake(struct gpumem_share *share)
{
	struct gpumem_stream *stream = gpumem_publish_stream(share);

	/* Until now the process had nothing to do. */
	WRITE_ONCE(share->began, ktime_get_ns());
	mod_delayed_work(stream->dev->engine->wq, &share->late,
			 GPUMEM_PUBLISH_GRACE);
	gpumem_runner_kick(stream);
}

/*
 * Execute a piece of an entry that the caller owns.  @locked: the caller has
 * vm->lock.  As gpumem_engine_step().
 */
static int gpumem_publish_step(struct gpumem_share *share, bool late,
			       bool locked)
{
	struct gpumem_stream *stream = gpumem_publish_stream(share);
	u64 begin = ktime_get_ns();
	int ret;

	if (!share->timed) {
		share->timed = true;
		share->deadline = begin + (u64)READ_ONCE(fence_timeout_ms) *
					  NSEC_PER_MSEC;
	}
	if (begin > share->deadline) {
		share->report = true;
		return -ETIMEDOUT;
	}
	/* So the time that passes is CPU time. */
	preempt_disable();
	begin = ktime_get_ns();
	ret = gpumem_engine_piece(stream, GPUMEM_PIECE, locked);
	begin = ktime_get_ns() - begin;
	preempt_enable();
	if (late)
		share->debt += begin;
	else
		share->own += begin;
	/* What the lane has admitted, and no more. */
	if (ret == -EAGAIN && ++share->pieces >= share->weight / GPUMEM_PIECE)
		return -EINPROGRESS;
	return ret;
}

/*
 * As gpumem_publish_step(), but waits for vm->lock: a client that takes it again
 * and again must not hold up its fence.
 */
static int gpumem_publish_step_locked(struct gpumem_share *share)
{
	struct gpumem_vm *vm = gpumem_publish_stream(share)->vm;

	guard(rwsem_read)(&vm->lock);
	return gpumem_publish_step(share, true, true);
}

/* The portion of an entry that the caller owns has ended; signal its fence. */
static void gpumem_publish_signal(struct gpumem_share *share, int result)
{
	struct dma_fence *fence = share->fence;

	share->result = result;
	share->fence = NULL;
	if (result && result != -EINPROGRESS)
		dma_fence_set_error(fence, result);
	dma_fence_signal(fence);
	dma_fence_put(fence);
}

/* Is a portion of the entry published, and not over? */
static bool gpumem_publish_is_on(struct gpumem_share *share)
{
	/* Pairs with gpumem_publish_begin(). */
	return smp_load_acquire(&share->state) == GPUMEM_SHARE_PUBLISHED;
}

/*
 * Execute a piece of an entry that the caller owns, and signal the fence at the
 * end.  Nothing of the stream goes away before that.
 */
static enum gpumem_piece_end gpumem_publish_own(struct gpumem_share *share,
						bool late)
{
	int ret;

	/* An owner alone ends a portion. */
	if (!gpumem_publish_is_on(share) || !share->fence)
		return GPUMEM_PIECE_WAIT;
	ret = gpumem_share_met(share, GPUMEM_PUBLISH_DEPS);
	if (ret <= 0)
		return ret ? GPUMEM_PIECE_MORE : GPUMEM_PIECE_WAIT;
	ret = gpumem_publish_step(share, late, false);
	if (ret == -EBUSY && late)
		ret = gpumem_publish_step_locked(share);
	if (ret == -EAGAIN)
		return GPUMEM_PIECE_MORE;
	if (ret == -EBUSY)
		return GPUMEM_PIECE_LOCKED;
	gpumem_publish_signal(share, ret);
	return GPUMEM_PIECE_DONE;
}

/*
 * Own the entry and execute a piece of it.  A client's worker must not lose the
 * CPU while it owns the entry.
 */
static enum gpumem_piece_end gpumem_publish_piece(struct gpumem_share *share,
						  bool late)
{
	enum gpumem_piece_end end = GPUMEM_PIECE_OWNED;

	if (!late)
		preempt_disable();
	if (!test_and_set_bit_lock(GPUMEM_SHARE_OWNED, &share->flags)) {
		end = gpumem_publish_own(share, late);
		if (end == GPUMEM_PIECE_DONE) {
			gpumem_publish_leave(share);
			/* Pairs with gpumem_share_turn(). */
			smp_store_release(&share->state, GPUMEM_SHARE_DONE);
		}
		clear_bit_unlock(GPUMEM_SHARE_OWNED, &share->flags);
	}
	if (!late)
		preempt_enable();
	return end;
}

/* Give the turn to the next of the client's. */
static void gpumem_lane_next_locked(struct gpumem_lane *lane,
				    unsigned long delay)
{
	struct gpumem_share *next;

	lockdep_assert_held(&lane->lock);
	next = list_first_entry_or_null(&lane->late, struct gpumem_share, line);
	if (next) {
		list_del_init(&next->line);
		mod_delayed_work(gpumem_publish_stream(next)->dev->engine->wq,
				 &next->late, delay);
	}
	lane->turn = next;
}

/* The worker ended a portion that may have the turn, or wait for it. */
static void gpumem_lane_finish(struct gpumem_share *share)
{
	struct gpumem_lane *lane = gpumem_publish_lane(share);

	spin_lock_irq(&lane->lock);
	list_del_init(&share->line);
	/* If the work runs, it passes the turn on itself. */
	if (cancel_delayed_work(&share->late) && lane->turn == share)
		gpumem_lane_next_locked(lane, 0);
	spin_unlock_irq(&lane->lock);
}

/* As gpumem_publish_run(). */
static enum gpumem_share_turn gpumem_publish_some(struct gpumem_share *share)
{
	struct gpumem_stream *stream = gpumem_publish_stream(share);
	unsigned int i;

	for (i = 0; i < GPUMEM_PUBLISH_BURST; i++) {
		switch (gpumem_publish_piece(share, false)) {
		case GPUMEM_PIECE_WAIT:
		case GPUMEM_PIECE_OWNED:
			return GPUMEM_TURN_WAIT;
		case GPUMEM_PIECE_LOCKED:
			/* The kernel worker looks again soon. */
			mod_delayed_work(stream->dev->engine->wq, &share->late,
					 1);
			return GPUMEM_TURN_WAIT;
		case GPUMEM_PIECE_DONE:
			gpumem_lane_finish(share);
			return GPUMEM_TURN_DONE;
		case GPUMEM_PIECE_MORE:
			break;
		}
		if (test_bit(GPUMEM_STREAM_CANCELLED, &stream->state))
			return GPUMEM_TURN_WAIT;
		if (gpumem_runner_must_leave())
			break;
		cond_resched();
	}
	return GPUMEM_TURN_MORE;
}

/**
 * gpumem_publish_run - have the client's worker execute a published entry
 * @share: of the stream
 *
 * Context: the worker that runs the stream; may sleep.
 * Return: what is to become of the stream.
 */
enum gpumem_share_turn gpumem_publish_run(struct gpumem_share *share)
{
	/* Others wait for it; pieces are atomic, where lockdep looks away. */
	bool cookie = dma_fence_begin_signalling();
	enum gpumem_share_turn turn = gpumem_publish_some(share);

	dma_fence_end_signalling(cookie);
	return turn;
}

/*
 * Does the client's worker get a third of the CPU, or more, for the portion?  Then
 * it ends soon enough without help.
 */
static bool gpumem_publish_in_time(struct gpumem_share *share)
{
	u64 now = ktime_get_ns(), own = READ_ONCE(share->own);
	/* Until the last dependency was met there was nothing to do. */
	u64 since = max(share->seen, READ_ONCE(share->began));
	bool in_time = (own - share->seen_own) * 3 >= now - since;

	share->seen = now;
	share->seen_own = own;
	return in_time;
}

/*
 * Is it the turn of @share among those of its client?  If not, a published portion
 * is looked at again later, or waits in lane->late.
 */
static bool gpumem_lane_enter(struct gpumem_share *share)
{
	struct gpumem_stream *stream = gpumem_publish_stream(share);
	struct gpumem_lane *lane = gpumem_publish_lane(share);
	bool published, mine;

	published = gpumem_publish_is_on(share);
	spin_lock_irq(&lane->lock);
	mine = lane->turn == share;
	if (!mine && published && gpumem_publish_in_time(share)) {
		queue_delayed_work(stream->dev->engine->wq, &share->late,
				   GPUMEM_PUBLISH_GRACE);
		/* It may have left because the address space was locked. */
		gpumem_runner_kick(stream);
	} else if (!mine && published && !lane->turn) {
		lane->turn = share;
		mine = true;
	} else if (!mine && published && list_empty(&share->line)) {
		list_add_tail(&share->line, &lane->late);
	}
	spin_unlock_irq(&lane->lock);
	return mine;
}

/*
 * The stream is cancelled: signal its fence at once.  Streams of the same client
 * that are cancelled before it may wait for the fence.  The rest is cancel's.
 */
static void gpumem_publish_abandon(struct gpumem_share *share)
{
	preempt_disable();
	/* Another owner is a worker, which keeps it for one piece. */
	while (test_and_set_bit_lock(GPUMEM_SHARE_OWNED, &share->flags))
		cpu_relax();
	if (gpumem_publish_is_on(share) && share->fence)
		gpumem_publish_signal(share, -ECANCELED);
	clear_bit_unlock(GPUMEM_SHARE_OWNED, &share->flags);
	preempt_enable();
}

static void gpumem_publish_late(struct work_struct *work)
{
	struct gpumem_share *share = container_of(to_delayed_work(work),
						  struct gpumem_share, late);
	struct gpumem_stream *stream = gpumem_publish_stream(share);
	struct gpumem_lane *lane = gpumem_publish_lane(share);
	enum gpumem_piece_end end = GPUMEM_PIECE_WAIT;
	bool again, cookie;
	unsigned int i;

	if (test_bit(GPUMEM_STREAM_CANCELLED, &stream->state))
		gpumem_publish_abandon(share);
	if (!gpumem_lane_enter(share))
		return;
	cookie = dma_fence_begin_signalling();
	for (i = 0; i < GPUMEM_PUBLISH_BURST; i++) {
		/* It may have ended since it was queued for its turn. */
		if (test_bit(GPUMEM_STREAM_CANCELLED, &stream->state) ||
		    !gpumem_publish_is_on(share))
			break;
		end = gpumem_publish_piece(share, true);
		if (end != GPUMEM_PIECE_MORE)
			break;
		cond_resched();
	}
	dma_fence_end_signalling(cookie);
	again = end == GPUMEM_PIECE_OWNED;
	spin_lock_irq(&lane->lock);
	/* The client's others first, then what is left of this one. */
	if ((again || end == GPUMEM_PIECE_MORE) && list_empty(&share->line))
		list_add_tail(&share->line, &lane->late);
	/* The worker may have passed it on. */
	if (lane->turn == share)
		gpumem_lane_next_locked(lane, again);
	spin_unlock_irq(&lane->lock);
	/*
	 * The worker may complete the entry and free the stream now; cancel waits
	 * for this function, so the structure stays until it returns.
	 */
	if (end == GPUMEM_PIECE_DONE)
		gpumem_runner_kick(stream);
}

static void gpumem_publish_report(struct gpumem_share *share)
{
	struct gpumem_stream *stream = gpumem_publish_stream(share);
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

/* A portion is over and the client's worker knows of it: what is to be paid? */
static void gpumem_publish_settle(struct gpumem_share *share)
{
	struct gpumem_lane *lane = gpumem_publish_lane(share);
	u64 now = ktime_get_ns(), wall, wait, ratio;

	if (!share->debt)
		goto out;
	spin_lock_irq(&lane->lock);
	wall = max_t(u64, now - READ_ONCE(share->began), 1);
	/* What the process got of the time in which it had something to do. */
	lane->own = lane->own / 2 + share->own;
	lane->wall = lane->wall / 2 + wall;
	if (lane->own) {
		ratio = div64_u64(lane->wall << 8, lane->own);
		wait = share->debt * min(ratio, GPUMEM_PUBLISH_LEAST << 8) >> 8;
	} else {
		/* Nothing is known but that it had to wait so long itself. */
		wait = min(wall, share->debt * GPUMEM_PUBLISH_LEAST);
	}
	/*
	 * A portion starts in the middle of a CPU limit's period, so the measured
	 * wait misses part of a period: half as much again makes up for that.
	 */
	wait += wait / 2;
	lane->paid_at = max(lane->paid_at, now) + wait;
	lane->unsettled--;
	gpumem_lane_admit_locked(lane);
	spin_unlock_irq(&lane->lock);
out:
	share->debt = 0;
	share->own = 0;
}

/**
 * gpumem_publish_over - the client's worker has the entry back
 * @share: of the stream; its portion is done
 *
 * Context: the worker that runs the stream; may sleep.
 */
void gpumem_publish_over(struct gpumem_share *share)
{
	gpumem_publish_settle(share);
	if (share->report) {
		share->report = false;
		gpumem_publish_report(share);
	}
}

/**
 * gpumem_publish_cancel - the stream is cancelled and its client's workers left it
 * @share: its
 *
 * Context: may sleep; waits for the burst under way.
 */
void gpumem_publish_cancel(struct gpumem_share *share)
{
	struct gpumem_lane *lane = gpumem_publish_lane(share);

	disable_delayed_work_sync(&share->late);
	spin_lock_irq(&lane->lock);
	list_del_init(&share->line);
	if (lane->turn == share)
		gpumem_lane_next_locked(lane, 0);
	spin_unlock_irq(&lane->lock);
	gpumem_publish_leave(share);
	/* Other streams of the client publish nothing either: no debt matters. */
	share->debt = 0;
}

/**
 * gpumem_publish_init - prepare a new stream
 * @share: its
 */
void gpumem_publish_init(struct gpumem_share *share)
{
	INIT_DELAYED_WORK(&share->late, gpumem_publish_late);
	INIT_LIST_HEAD(&share->waits);
	INIT_LIST_HEAD(&share->line);
}
