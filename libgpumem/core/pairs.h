/* SPDX-License-Identifier: MIT */
/*
 * Pairs: stream-ordered allocations and frees that the library behind the tap sees later, not when they happen.
 *
 * A checker without stacks needs of a block that is allocated and freed again only that it was there. If no other call
 * comes between, nobody can have used it. So each thread lists its last blocks, and the checker takes the lists before
 * it looks at any other call (tap_client.pairs). A block that the thread allocates again replaces the one that it freed.
 *
 * pairs.c has the protocol between the thread that owns a list and the one that takes it.
 */
#ifndef GPUMEM_CORE_PAIRS_H
#define GPUMEM_CORE_PAIRS_H

#include "core/client.h"

#define PAIRS	4u			/* blocks in a list */

struct pairs {
	uint32_t inside;		/* the owner changes the list; atomic */
	uint32_t count;
	struct tap_pair pair[PAIRS];
	const void *frame;		/* of the call that is inside */
	struct pairs *next;		/* constant */
	bool owned;			/* atomic */
	bool out;			/* the owner has left; of pairs_take() */
};

extern __thread HIDDEN struct pairs *pairs_own __attribute__((tls_model("initial-exec")));
extern HIDDEN uint32_t pairs_revoked;	/* a thread takes the lists; atomic */
extern HIDDEN uint32_t pairs_filled;	/* a list has blocks; atomic */

/* Whether pairs can be seen later. Called once, before the first. */
bool pairs_start(void);
/* Get a list for the calling thread. False: there is no memory. */
bool pairs_get(void) __attribute__((cold));
/* Call @each for all blocks, freed ones first, and empty the lists. One thread at a time. */
void pairs_take(void (*each)(const struct tap_pair *pair));

/*
 * Whether the calling thread is between pairs_enter() and pairs_leave(): a signal handler interrupted it. A handler that
 * left by siglongjmp() has unwound the stack.
 */
static inline bool pairs_interrupted(void)
{
	struct pairs *own = pairs_own;

	if (likely(!own || !load_relaxed(&own->inside)))
		return false;
	if ((const void *)__builtin_frame_address(0) <= own->frame)
		return true;
	store_release(&own->inside, 0);
	return false;
}

/* Begin to change the thread's list. False: report the call to the tap. */
static inline bool pairs_enter(void)
{
	struct pairs *own = pairs_own;

	if (unlikely((!own && !pairs_get()) || pairs_interrupted()))
		return false;
	own = pairs_own;
	own->frame = __builtin_frame_address(0);
	store_relaxed(&own->inside, 1);
	/* pairs_take() has all threads execute a barrier. */
	__asm__ volatile("" ::: "memory");
	if (likely(!load_acquire(&pairs_revoked)))
		return true;
	store_release(&own->inside, 0);
	return false;
}

static inline void pairs_leave(void)
{
	store_release(&pairs_own->inside, 0);
}

/* Whether the list has room for a block. */
static inline bool pairs_room(void)
{
	return pairs_own->count < PAIRS;
}

/* The thread allocated a block. @pool: NULL: the current one. */
static inline void pairs_made(uint64_t base, uint64_t size, const void *pool, CUstream stream)
{
	struct pairs *own = pairs_own;
	struct tap_pair *pair = own->pair, *end = pair + own->count;

	while (pair < end && (pair->base != base || pair->size != size || !pair->freed))
		pair++;
	if (likely(pair < end && pair->stream == stream && pair->pool == pool)) {
		pair->freed = false;
		return;
	}
	if (pair == end)
		own->count++;
	*pair = (struct tap_pair) { .base = base, .size = size, .pool = pool, .stream = stream };
	if (unlikely(!load_relaxed(&pairs_filled)))
		store_release(&pairs_filled, 1);
}

/* The thread frees a block. False: its list does not have the block. */
static inline bool pairs_freed(uint64_t base, CUstream stream)
{
	struct pairs *own = pairs_own;
	struct tap_pair *pair = own->pair, *end = pair + own->count;

	while (pair < end && (pair->base != base || pair->freed))
		pair++;
	if (unlikely(pair == end || pair->stream != stream))
		return false;
	pair->freed = true;
	return true;
}

#endif /* GPUMEM_CORE_PAIRS_H */
