/* SPDX-License-Identifier: MIT */
/*
 * Attachments: which streams keep the CPU away from managed memory. attach.c has the rules.
 *
 * Everything here is for processes that have an exclusive device (client.exclusive).
 */
#ifndef GPUMEM_EXEC_ATTACH_H
#define GPUMEM_EXEC_ATTACH_H

#include "exec/stream.h"

/* Allocate and free the record of an attachment. attach_add() takes the record over. NULL: no memory. */
struct attach *attach_make(void);
void attach_drop(struct attach *attach);
/* An alloc of managed memory has its place and flags (ALLOC_HOST_ONLY: its default). mem_lock is held. */
void attach_add(struct alloc *alloc, struct attach *attach);
/* An alloc that has an attachment is freed: grant access. False: the kernel refused. mem_lock is held. */
bool attach_remove(struct alloc *alloc);
/* Attach managed memory in the order of a stream; @flags: CU_MEM_ATTACH_*. No lock is held. */
CUresult attach_change(CUstream stream, const struct span *span, unsigned int flags);

/* Entries were put into a queue of an exclusive device. The lock of the queue's stream is held. */
void attach_busy(struct queue *queue);
/* The calling thread has learned that work is done: grant access to the memory that no work uses. */
void attach_synced_slow(void);
static inline void attach_synced(void)
{
	if (unlikely(client.exclusive))
		attach_synced_slow();
}

/* A host function has returned, and its stream does not continue yet: withdraw access to what work uses again. */
void attach_resumed_slow(void);
static inline void attach_resumed(void)
{
	if (unlikely(client.exclusive))
		attach_resumed_slow();
}

/* A stream is destroyed; @queue: its queue, or NULL. stream->lock is held. */
void attach_stream_gone(CUstream stream, struct queue *queue);

/* What a fault at an address in the arenas means. */
enum attach_fault {
	ATTACH_UNKNOWN,			/* no attachment is the reason */
	ATTACH_GRANTED,			/* access is granted now: repeat it */
	ATTACH_DENIED,			/* work uses the memory */
	ATTACH_REPORTED,		/* work uses the memory, and access is granted all the same: report it */
	ATTACH_FORKED,			/* access was withdrawn when the parent forked */
};

/* The work that keeps the CPU away. */
struct attach_work {
	bool single;			/* the memory is attached to one stream */
	CUstream stream;		/* NULL: it is destroyed */
	uint64_t id;			/* the stream's */
	CUdevice device;
	uint64_t number;		/* of the first entry that is not done */
	const char *kind;		/* of that entry */
	uint64_t addr, length;		/* what the entry writes; length 0: nothing */
};

/* For the handler of SIGSEGV: @work is written if the answer is ATTACH_DENIED or ATTACH_REPORTED. */
enum attach_fault attach_fault(uint64_t addr, struct attach_work *work);

#endif /* GPUMEM_EXEC_ATTACH_H */
