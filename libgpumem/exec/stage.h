/* SPDX-License-Identifier: MIT */
/*
 * Staging memory. stage.c owns it.
 */
#ifndef GPUMEM_EXEC_STAGE_H
#define GPUMEM_EXEC_STAGE_H

#include "exec/stream.h"

#define STAGE_SIZE	(1ull << 20)

struct stage {
	struct stage *next;
	uint64_t addr;
	uint64_t place;			/* address of the place that was taken last */
	uint64_t used;			/* bytes in use, including places that @queue still needs */
	bool taken;			/* a thread has a place in the buffer */
	struct queue *queue;		/* entries of this queue use the buffer up to @value; NULL: none do */
	uint64_t value;
	uint64_t since;			/* number of the last stage_drop(): the lowest was dropped first */
};

/* Make the first buffers. Strict mode calls this before it allocates device memory. */
CUresult stage_reserve(CUdevice device);
/*
 * Take a place of @bytes for @queue of @device. With @wait, the call waits for a place if all buffers are in use;
 * the caller must not have another place then. NULL: there is no place now, or no memory for the first buffer.
 */
struct stage *stage_take(CUdevice device, struct queue *queue, uint64_t bytes, bool wait);
/* Give a place back at once: no queued work uses it. */
void stage_return(struct stage *stage);
/* Give a place back, to be reused when the entries that @queue has now are complete. */
void stage_drop(struct stage *stage, struct queue *queue);

#endif /* GPUMEM_EXEC_STAGE_H */
