/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Fenced entries.  An entry of a stream is *fenced* if it is a copy, fill or
 * timestamp that touches a root with DMA-bufs: it waits for the dma_fences of
 * other drivers and publishes its own.  gpumem_fence.c prepares the entry.
 * gpumem_publish.c executes the entry in *portions*, with a fence each, and a
 * portion in *pieces*; the heads of both files say more.
 *
 * struct gpumem_stream contains struct gpumem_fenced, so gpumem_stream.h
 * includes this header.  Locks: lane->lock and GPUMEM_FENCED_OWNED, see the
 * fields.
 */
#ifndef GPUMEM_FENCE_H
#define GPUMEM_FENCE_H

#include <linux/dma-fence.h>
#include <linux/list.h>
#include <linux/types.h>
#include <linux/workqueue.h>

struct gpumem_fenced_resv;
struct gpumem_stream;

/**
 * enum gpumem_fenced_state - state of a stream's fenced entry, and its owner
 * @GPUMEM_FENCED_NONE: no fenced entry; the client's workers own the stream's
 *	entry
 * @GPUMEM_FENCED_ASKED: the portion has no fence yet; the work item
 *	gpumem_fenced.prepare owns the entry, and publishes the fence
 * @GPUMEM_FENCED_PUBLISHED: the portion's fence is published; the worker that
 *	holds GPUMEM_FENCED_OWNED owns it, and takes and releases this bit for
 *	each piece
 * @GPUMEM_FENCED_DONE: the portion has ended; the client's worker owns it, and
 *	completes the entry or asks for its next portion
 */
enum gpumem_fenced_state {
	GPUMEM_FENCED_NONE,
	GPUMEM_FENCED_ASKED,
	GPUMEM_FENCED_PUBLISHED,
	GPUMEM_FENCED_DONE,
};

/**
 * struct gpumem_fenced - a stream's fenced entry; unused in state NONE
 *
 * The fields belong to the owner of the entry (enum gpumem_fenced_state),
 * unless they name another rule.
 */
struct gpumem_fenced {
	/** @state: enum gpumem_fenced_state */
	int state;
	/** @result: result of the entry; -EINPROGRESS: a portion follows */
	int result;
	/** @flags: GPUMEM_FENCED_OWNED */
	unsigned long flags;
	/** @more: the next portion of the entry is not prepared yet */
	bool more;
	/** @waiting: @cb was added to a fence and may run, or has run */
	bool waiting;
	/**
	 * @looked: the fences in other drivers' buffers are collected; access
	 * to the buffers begins when all of these are signalled
	 */
	bool looked;
	/**
	 * @prepare: waits until the lane admits the portion and the fences in
	 * foreign buffers are signalled, then publishes the portion's fence;
	 * collects the roots if the client's worker could not
	 */
	struct delayed_work prepare;
	/** @late: executes pieces that the client's worker is too slow for */
	struct delayed_work late;
	/** @waits: link in gpumem_lane.waiting; lane->lock */
	struct list_head waits;
	/** @keep: link in gpumem_lane.keepless; lane->lock */
	struct list_head keep;
	/**
	 * @keeps: the next portion may keep managed memory in use; lane->lock;
	 * the worker that runs the stream reads it without
	 */
	bool keeps;
	/** @wants: gpumem_lane_keep() was called; of the worker, as @more */
	bool wants;
	/** @line: link in gpumem_lane.late; lane->lock */
	struct list_head line;
	/** @weight: bytes that the portion counts in its lane; lane->lock */
	u64 weight;
	/** @admitted: @weight counts in lane->published; lane->lock */
	bool admitted;
	/** @timed: @deadline is set */
	bool timed;
	/** @report: the portion timed out; gpumem_publish_over() reports it */
	bool report;
	/** @pieces: pieces of the portion that were executed so far */
	unsigned int pieces;
	/** @deadline: of the portion, ns */
	u64 deadline;
	/** @own: CPU time of the client's workers for the portion, ns */
	u64 own;
	/** @debt: CPU time of kernel workers for the portion, ns */
	u64 debt;
	/**
	 * @began: ns; set when the portion is published, and again by the
	 * callback of each fence that the published portion waits for
	 */
	u64 began;
	/**
	 * @seen: when @late last read @own, ns; at first @began.  Only @late
	 * uses @seen and @seen_own once the portion is published; lane->lock
	 */
	u64 seen;
	/** @seen_own: value of @own at @seen */
	u64 seen_own;
	/** @context: dma_fence context of the stream's fences; constant */
	u64 context;
	/** @seqno: seqno of the stream's last fence */
	u64 seqno;
	/** @fence: fence of the portion while it is published; else NULL */
	struct dma_fence *fence;
	/** @resvs: resvs of the roots with DMA-bufs that the portion touches */
	struct gpumem_fenced_resv *resvs;
	/** @nresvs: number of @resvs */
	unsigned int nresvs;
	/** @at: index of the resv whose fences the entry waits for */
	unsigned int at;
	/** @dep: index of the fence it waits for, in the fences of that resv */
	unsigned int dep;
	/** @cb: called when that fence is signalled */
	struct dma_fence_cb cb;
};

/*
 * Bit of gpumem_fenced.flags, used as a lock.  The worker that executes a piece
 * or ends a portion of a published entry holds it.  gpumem_fenced_cancel() does
 * without, because all workers have left then.
 */
#define GPUMEM_FENCED_OWNED	0

/**
 * enum gpumem_fenced_next - what the client's worker does with the stream it
 * runs
 * @GPUMEM_NEXT_FREE: execute the stream's next entry; none is fenced now
 * @GPUMEM_NEXT_WAIT: leave the stream; gpumem_runner_kick() makes it ready when
 *	it can go on
 * @GPUMEM_NEXT_MORE: make the stream ready again, behind the client's others
 * @GPUMEM_NEXT_DONE: the portion has ended; only gpumem_publish_run() returns
 *	this, and gpumem_fenced_run() handles it
 */
enum gpumem_fenced_next {
	GPUMEM_NEXT_FREE,
	GPUMEM_NEXT_WAIT,
	GPUMEM_NEXT_MORE,
	GPUMEM_NEXT_DONE,
};

/* gpumem_fence.c */
int gpumem_fence_start(void);
void gpumem_fence_stop(void);
int gpumem_fenced_begin(struct gpumem_stream *stream);
enum gpumem_fenced_next gpumem_fenced_run(struct gpumem_stream *stream);
int gpumem_fenced_met(struct gpumem_fenced *fenced, unsigned int most);
void gpumem_fenced_prepare_later(struct gpumem_fenced *fenced);
void gpumem_fenced_init(struct gpumem_fenced *fenced);
void gpumem_fenced_cancel(struct gpumem_fenced *fenced);

#endif /* GPUMEM_FENCE_H */
