/* SPDX-License-Identifier: MIT */
/*
 * Work that threads of the library do in stream order. work.c owns the threads.
 */
#ifndef GPUMEM_EXEC_WORK_H
#define GPUMEM_EXEC_WORK_H

#include "exec/stream.h"

#define WORK_BUFFER	(8ull << 20)

/* A thread that does work, and its memory and queues. */
struct worker {
	unsigned char *memory;		/* WORK_BUFFER bytes for the CPU; constant */
	uint64_t buffer;		/* address of a buffer for CPU and engine, or 0; set before a queue */
	struct queue *queue[GPUMEM_MAX_DEVICES];	/* to the engine, or NULL; atomic */
	void *inflater;			/* for decompress.c */
};

/* Work: items that are independent of each other and done by several threads. */
struct work {
	struct work *next;		/* work_lock, as the next one */
	unsigned int taken;		/* items that workers have begun */
	unsigned int done;		/* items that have ended; atomic */
	uint32_t failed;		/* an item failed: workers skip the later items; atomic */
	unsigned int items;		/* not 0; constant, as what follows */
	bool engine;			/* needs a worker with a buffer and a queue */
	struct hold hold;
	CUdevice device;
	void (*run)(struct work *work, struct worker *worker, unsigned int item);
	void (*end)(struct work *work);	/* called last, also if items were left out; or NULL */
};

/*
 * Put a hold for the work into a queue: the work is done when the queue reaches the hold, then freed by free().
 * The owner's stream lock is held.
 */
CUresult work_put(struct queue *queue, struct work *work);
/*
 * Start workers if there are none. With @engine, make sure that at least one worker has a buffer and a queue to
 * the device's engine. No lock is held.
 */
CUresult work_reserve(CUdevice device, bool engine);
/* A worker's queue to a device's engine. NULL: the queue failed, and a new one cannot be made. */
struct queue *worker_queue(struct worker *worker, CUdevice device);
/* Wait for what the worker submitted. */
CUresult worker_wait(struct worker *worker, CUdevice device);
/* Whether the library's threads have unfinished work, of any context. */
bool work_unfinished(void);
/* An item of the work failed: its context gets the sticky error @result. */
void work_fail(struct work *work, CUresult result);

#endif /* GPUMEM_EXEC_WORK_H */
