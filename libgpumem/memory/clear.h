/* SPDX-License-Identifier: MIT */
/*
 * Clearing freed units of shared blocks in the background, for block.c. clear.c has the rules.
 */
#ifndef GPUMEM_CLEAR_H
#define GPUMEM_CLEAR_H

#include "memory/mem.h"

/* In units. A shorter range is cleared by the thread that allocates it next. */
#define CLEAR_LEAST	((16ull << 10) / UNIT)

/* Queue dirty units that have just become free. mem_lock is held. */
void clear_put(struct block *block, unsigned int first, unsigned int units);
/*
 * Take free units back before they get an owner: the block's dirty map then says what the allocating thread
 * must clear. False: the cleaner is writing to them; call clear_await(), and look for room again. mem_lock is
 * held.
 */
bool clear_take(struct block *block, unsigned int first, unsigned int units);
/*
 * Keep the cleaner from beginning another job, and wait until it has left its present job. mem_lock is held; it
 * is dropped in between. *@held, false before the first call, is set: clear_go() must follow.
 */
void clear_await(bool *held);
/* Let the cleaner go on. */
void clear_go(void);
/* Take all jobs of a doomed block back: the cleaner does not write to it any more. mem_lock is not held. */
void clear_forget(struct block *block);
/* Count units that a caller must clear, of a range that clear_put() would take. mem_lock is held. */
void clear_owed(unsigned int units);

/* Start the cleaner, once clear_owed() has set clear_wanted. mem_lock is not held. */
extern HIDDEN bool clear_wanted;		/* mem_lock to write; atomic */
void clear_start(void);

static inline void clear_consider(void)
{
	if (unlikely(load_relaxed(&clear_wanted)))
		clear_start();
}

#endif /* GPUMEM_CLEAR_H */
