/* SPDX-License-Identifier: MIT */
/*
 * Host functions, and memory operations. hostfn.c and memop.c have the rules.
 */
#ifndef GPUMEM_EXEC_HOSTFN_H
#define GPUMEM_EXEC_HOSTFN_H

#include "exec/stream.h"

/* Whether a word compares as a POLL entry wants. */
bool memop_compares(const struct gpumem_sqe *sqe, uint64_t word);
CUresult memop_wait(CUstream handle, bool own, uint64_t addr, uint64_t value, unsigned int size,
		    unsigned int flags);
CUresult memop_write(CUstream handle, bool own, uint64_t addr, uint64_t value, unsigned int size,
		     unsigned int flags);
CUresult memop_batch(CUstream handle, bool own, unsigned int count,
		     const CUstreamBatchMemOpParams *params, unsigned int flags);
CUresult host_call(CUstream handle, bool own, CUhostFn fn, CUstreamCallback callback, void *arg);
/*
 * Wait until the functions that were queued before @value have run or were left out. Needed only for a queue
 * that failed: in other queues the entries themselves wait for the functions.
 */
void host_settle(struct queue *queue, uint64_t value);
/*
 * Whether a queue cannot reach @value before some host function returns, because its present entry waits for
 * the function, directly or through other queues.
 */
bool host_blocks(struct queue *queue, uint64_t value);

/* What an entry means for a queue that it holds, with regard to host functions. */
enum host_pause {
	HOST_RUNS,			/* the entry has nothing to do with a host function */
	HOST_PAUSED,			/* it waits for a host function that has not returned */
	HOST_OVER,			/* it belongs to a host function, and waits for nothing more */
};

/* hold_lock is held. */
enum host_pause host_pauses(const struct queue *queue, const struct gpumem_sqe *sqe);

#endif /* GPUMEM_EXEC_HOSTFN_H */
