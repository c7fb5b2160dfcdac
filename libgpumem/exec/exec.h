/* SPDX-License-Identifier: MIT */
/*
 * exec: execution in stream order.
 *
 * Contexts, streams and their kernel queues, the order of work between streams, events, memory operations,
 * host functions, staging memory, and the threads that work in stream order. It may include address and core.
 *
 * Words
 *
 *   context     a CUcontext: an owner of memory, streams and a sticky error
 *   queue       a kernel stream: ring, timeline page, number of entries submitted
 *   stream      a CUstream; it gets a queue with its first queued operation
 *   inline      executed by the calling thread because the stream is idle (order.c)
 *   default     the legacy stream (handles 0, 1) or a thread's own (2, and 0 in _ptds/_ptsz forms)
 *   moment      (queue, value): reached when that many entries of the queue are done
 *   hold        a place in a queue that blocks the queue until the CPU has done something (hold.c)
 *   gate        a hold before an operation whose time the library chooses (schedule.c)
 *   blocking    a stream that orders against the legacy stream: all but NON_BLOCKING ones
 *
 * States: one word each
 *
 *   reached     a value of a queue: the entries up to it are done (queue_reached())
 *   idle        a queue: all its entries are done. A stream: its queue is idle, and so is all that its next
 *               operation must wait for (stream_idle(); stream_idle_fast() makes no call). Busy: not idle
 *   running     a stream: a thread has its lock in order to touch memory, and does not rest (order.c)
 *   resting     a stream: the thread that has its lock waits for entries (order.c)
 *   plain       a handle, memory, a block of a pool: no special case applies, so fast paths may use it
 *               (stream_plain(), vm_plain(), cell_plain())
 *   complete    an event: recorded, done, without queue and slot (event.h)
 *   failed      a queue: an entry failed. The kernel completes the later ones without executing them, except
 *               ADD entries (queue_failed())
 */
#ifndef GPUMEM_EXEC_EXEC_H
#define GPUMEM_EXEC_EXEC_H

#include "exec/active.h"
#include "exec/attach.h"
#include "exec/context.h"
#include "exec/event.h"
#include "exec/follow.h"
#include "exec/hold.h"
#include "exec/hostfn.h"
#include "exec/ipc_event.h"
#include "exec/order.h"
#include "exec/peer.h"
#include "exec/queue.h"
#include "exec/ring.h"
#include "exec/schedule.h"
#include "exec/stage.h"
#include "exec/stream.h"
#include "exec/targets.h"
#include "exec/wait.h"
#include "exec/work.h"

#endif /* GPUMEM_EXEC_EXEC_H */
