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

#define PAIRS		4u		/* blocks in a list */
#define UNWOUND_MOST	65536u		/* bytes */

struct pairs {
	uint32_t turn;			/* odd: the owner is inside, and changes the list; atomic */
	uint32_t count;
	struct tap_pair pair[PAIRS];	/* without blocks the first one has base 0 */
	uintptr_t frame;		/* of the call that is inside */
	struct pairs *next;		/* constant */
	bool owned;			/* atomic */
	uint32_t late;			/* the turn that pairs_take() waited for in vain */
	bool out;			/* the owner has left; of pairs_take() */
};

extern __thread HIDDEN struct pairs *pairs_own __attribute__((tls_model("initial-exec")));
extern HIDDEN uint32_t pairs_revoked;	/* a thread takes the lists; atomic */
extern HIDDEN uint32_t pairs_filled;	/* a list has blocks; atomic */

/* Whether pairs can be seen later. Called once, before the first. */
bool pairs_start(void);
/* Whether a list has blocks. */
bool pairs_any(void);
/* Get a list for the calling thread. NULL: there is no memory. */
struct pairs *pairs_get(void) __attribute__((cold));
/* Call @each for all blocks, freed ones first, and empty the lists. One thread at a time. */
void pairs_take(void (*each)(const struct tap_pair *pair));

static inline void pairs_leave(struct pairs *own)
{
	store_release(&own->turn, own->turn + 1);
}

/*
 * Begin to change the thread's list. Up to pairs_leave() the thread does not wait for anything. NULL: report the call to
 * the tap.
 *
 * A thread that is inside already was interrupted by a signal handler, which calls the driver; or such a handler has left
 * by siglongjmp(). In the second case a later call may begin where the interrupted one did, or a little above.
 */
static inline struct pairs *pairs_enter(void)
{
	struct pairs *own = pairs_own;
	uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
	uint32_t turn;

	if (unlikely(!own)) {
		own = pairs_get();
		if (!own)
			return NULL;
	}
	turn = load_relaxed(&own->turn);
	if (unlikely(turn & 1) && frame - own->frame >= UNWOUND_MOST)
		return NULL;
	own->frame = frame;
	store_relaxed(&own->turn, (turn + 1) | 1);
	/* pairs_take() has all threads execute a barrier. */
	__asm__ volatile("" ::: "memory");
	if (likely(!load_acquire(&pairs_revoked)))
		return own;
	pairs_leave(own);
	return NULL;
}

/* Whether the list has room for a block. */
static inline bool pairs_room(const struct pairs *own)
{
	return own->count < PAIRS;
}

/* The thread allocated a block. @pool: NULL: the current one. */
static inline void pairs_made(struct pairs *own, uint64_t base, uint64_t size, const void *pool, CUstream stream)
{
	struct tap_pair *pair = own->pair, *end;

	/* Most often the first one. */
	if (likely(pair->base == base && pair->size == size && pair->freed && pair->stream == stream && pair->pool == pool)) {
		pair->freed = false;
		return;
	}
	end = pair + own->count;
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

/* A block that the thread allocated in this stream and has not freed; NULL: its list has no such block. */
static inline struct tap_pair *pairs_live(struct pairs *own, uint64_t base, CUstream stream)
{
	struct tap_pair *pair = own->pair, *end;

	if (likely(pair->base == base && !pair->freed && pair->stream == stream))
		return pair;
	end = pair + own->count;
	while (pair < end && (pair->base != base || pair->freed))
		pair++;
	return unlikely(pair == end || pair->stream != stream) ? NULL : pair;
}

#endif /* GPUMEM_CORE_PAIRS_H */
