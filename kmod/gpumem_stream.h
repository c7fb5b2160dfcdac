/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Streams: a ring, its timeline and the state of their execution.
 *
 * Locks: runner->lock, client->stream_lock and the lock of the awaited
 * timeline; see the fields.
 */
#ifndef GPUMEM_STREAM_H
#define GPUMEM_STREAM_H

#include <linux/gpumem.h>
#include <linux/hrtimer.h>
#include <linux/kcov.h>
#include <linux/list.h>
#include <linux/types.h>
#include <linux/workqueue.h>

#include "gpumem_fence.h"
#include "gpumem_managed.h"
#include "gpumem_object.h"
#include "gpumem_pageable.h"
#include "gpumem_timeline.h"

struct gpumem_client;
struct gpumem_device;
struct gpumem_ring_mem;
struct gpumem_vm;
struct gpumem_worker;

/**
 * enum gpumem_run - state of a stream in its client's runner
 * @GPUMEM_RUN_IDLE: not in a list, and no worker runs it
 * @GPUMEM_RUN_READY: in a list of runner->ready
 * @GPUMEM_RUN_RUNNING: a worker runs it
 * @GPUMEM_RUN_AGAIN: a worker runs it, and it was kicked since
 * @GPUMEM_RUN_LEAVING: a worker runs it, and is to have it freed afterwards
 */
enum gpumem_run {
	GPUMEM_RUN_IDLE,
	GPUMEM_RUN_READY,
	GPUMEM_RUN_RUNNING,
	GPUMEM_RUN_AGAIN,
	GPUMEM_RUN_LEAVING,
};

/**
 * struct gpumem_stream - a ring, its timeline and the state of their execution
 */
struct gpumem_stream {
	/** @obj: head */
	struct gpumem_object obj;
	/** @link: in client->streams; client->stream_lock */
	struct list_head link;
	/** @vm: address space, referenced; constant */
	struct gpumem_vm *vm;
	/** @dev: executes; constant */
	struct gpumem_device *dev;
	/** @devbit: bit of @dev in access masks; constant */
	u32 devbit;
	/** @timeline: counts the entries completed; referenced; constant */
	struct gpumem_timeline *timeline;
	/** @high: of high priority among the client's streams; constant */
	bool high;
	/** @run: state in the runner; runner->lock */
	enum gpumem_run run;
	/** @ready: in runner->ready; runner->lock */
	struct list_head ready;
	/** @fenced: the entry, if it is fenced; see gpumem_fence.h */
	struct gpumem_fenced fenced;
	/** @reap: frees the structure */
	struct work_struct reap;
	/** @ring: referenced; hostile content; constant */
	struct gpumem_ring_mem *ring;
	/** @entries: length of the ring; constant */
	u32 entries;
	/** @kcov_handle: of the task that made it, for KCOV; constant */
	typeof(kcov_common_handle()) kcov_handle;
	/** @state: GPUMEM_STREAM_* bits */
	unsigned long state;
	/** @final: last tail, once GPUMEM_STREAM_CLOSING is set; constant then */
	u64 final;
	/**
	 * @head: entries taken; written, as the fields below, by the worker
	 * that runs the stream, or by its cancellation after the last run
	 */
	u64 head;
	/** @busy: the entry in @sqe is not completed */
	bool busy;
	/** @sqe: the kernel's copy of the entry */
	struct gpumem_sqe sqe;
	/** @row: rows of @sqe done; of a prefetch, bytes that became resident */
	u64 row;
	/** @col: bytes of row @row done */
	u64 col;
	/** @need: managed memory that is to be fetched, after -ENODATA */
	struct {
		/** @need.bo: buffer object */
		struct gpumem_bo *bo;
		/** @need.offset: of the first byte */
		u64 offset;
		/** @need.pages: a portion came to the end of a window */
		bool pages;
		/** @need.write: the entry is to write */
		bool write;
	} need;
	/** @windows: of source and destination; of a fenced entry's owner */
	struct gpumem_pageable_window windows[2];
	/** @miss: for gpumem_runner.c: the fault that the entry waits for */
	struct gpumem_pageable_miss miss;
	/** @missed: where the last fault was asked for */
	u64 missed;
	/** @misses: faults asked for there, one after the other */
	unsigned int misses;
	/** @faulter: worker that handles its fault, or NULL; runner->lock */
	struct gpumem_worker *faulter;
	/**
	 * @fault: 0, or the negative errno of the last fault; written by
	 * @faulter before it clears GPUMEM_STREAM_FAULTING
	 */
	int fault;
	/** @uses: managed blocks in use; of the owner of a fenced entry */
	struct gpumem_uses uses;
	/** @far_left: bytes of far blocks to access before one is fetched */
	s64 far_left;
	/** @far_drawn: @far_left has been drawn */
	bool far_drawn;
	/** @far_tries: fetches of far blocks that failed since the last access */
	unsigned int far_tries;
	/** @waiter: pending wait of @sqe; its timeline's lock */
	struct gpumem_waiter waiter;
	/** @waiting: timeline of @waiter, referenced, or NULL */
	struct gpumem_timeline *waiting;
	/** @poll: kicks the stream while @sqe is a poll */
	struct hrtimer poll;
	/** @poll_ns: next timeout of @poll; 0 if @sqe is no poll */
	u32 poll_ns;
	/** @polling: in client->polling during a poll; client->stream_lock */
	struct list_head polling;
};

/* Bits of gpumem_stream.state. */
#define GPUMEM_STREAM_CLOSING	0	/* its id is gone; runs up to final */
#define GPUMEM_STREAM_CANCELLED	1	/* no other slice is started */
#define GPUMEM_STREAM_DRAINED	2	/* has ended; do not use its objects */
#define GPUMEM_STREAM_BROKEN	3	/* the client wrote a wrong tail */
#define GPUMEM_STREAM_STOPPED	4	/* cancelled, and not running */
#define GPUMEM_STREAM_FAULTING	5	/* a worker handles a page fault for it */

/* gpumem_stream.c */
int gpumem_stream_init(void);
void gpumem_stream_exit(void);
bool gpumem_stream_run(struct gpumem_stream *stream);
void gpumem_stream_complete(struct gpumem_stream *stream, int error);
void gpumem_stream_wrote(struct gpumem_stream *stream, u64 bytes, bool fill);
void gpumem_stream_poll_begin(struct gpumem_stream *stream);
void gpumem_stream_poll_again(struct gpumem_stream *stream);
void gpumem_stream_poll_end(struct gpumem_stream *stream);
void gpumem_stream_kick_polls(struct gpumem_client *client);
void gpumem_stream_cancel_all(struct gpumem_client *client);
void gpumem_stream_reap_later(struct gpumem_stream *stream);
void gpumem_stream_handle_gone(struct gpumem_object *obj);
void gpumem_stream_release(struct gpumem_object *obj);
int gpumem_ioctl_stream_create(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_stream_doorbell(struct gpumem_ucmd *ucmd);

static inline struct gpumem_stream *
gpumem_stream_get(struct gpumem_client *client, u32 id)
{
	struct gpumem_object *obj = gpumem_object_get(client, id,
						      GPUMEM_OBJ_STREAM);

	return obj ? container_of(obj, struct gpumem_stream, obj) : NULL;
}

#endif /* GPUMEM_STREAM_H */
