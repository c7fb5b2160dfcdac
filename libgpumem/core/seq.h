/* SPDX-License-Identifier: MIT */
/*
 * Sequence counts: a reader without a lock detects that a writer changed some fields while it read them.
 *
 * The count is odd while a writer changes the fields. Writers and readers access each field with an atomic load
 * or store of its own. The values that a reader got are consistent only if the count was even before the first
 * load and is the same after the last one.
 *
 * One thread writes at a time. The caller ensures this: by a lock or, for a cell of a pool, by owning the
 * cell's heap or claiming the cell (pool/pool_owner.c).
 *
 * These functions neither wait nor try again; their callers do. Reads of an event's point are repeated at once,
 * because its writers are short (exec/event.c). After each LOOKUP_TRIES attempts of an address lookup, the thread
 * looks once with change_lock held, so that it does not spin behind a preempted writer. Writers of a pool's
 * memory do not take change_lock: if the memory still changes, the thread also sleeps for a moment
 * (address/vm.h).
 *
 * Two functions access the count and the flags beside it as one word, so they do not call the functions below:
 * vm_plain() (address/plain.h) has a read side of its own, and claim() (pool/pool_owner.c) its own beginning of
 * the write side.
 */
#ifndef GPUMEM_CORE_SEQ_H
#define GPUMEM_CORE_SEQ_H

#include "core/base.h"

/* Begin to read. Returns the count, which seq_changing() checks. Pairs with seq_write_end(). */
static inline uint32_t seq_read_begin(const uint32_t *seq)
{
	return load_acquire(seq);
}

/* True if a writer was changing the fields when the read began. */
static inline bool seq_changing(uint32_t begun)
{
	return begun & 1;
}

/*
 * End a read. True if the values may be inconsistent; the caller does not use them then. @begun was even. The
 * fence pairs with that of seq_write_begin().
 */
static inline bool seq_read_retry(const uint32_t *seq, uint32_t begun)
{
	fence_acquire();
	return load_relaxed(seq) != begun;
}

/* Begin to change the fields. The caller is the only writer. Returns what seq_write_end() takes. */
static inline uint32_t seq_write_begin(uint32_t *seq)
{
	uint32_t begun = load_relaxed(seq) + 1;

	store_relaxed(seq, begun);
	fence_release();
	return begun;
}

/* End a change. @begun: what seq_write_begin() returned. */
static inline void seq_write_end(uint32_t *seq, uint32_t begun)
{
	store_release(seq, begun + 1);
}

#endif /* GPUMEM_CORE_SEQ_H */
