// SPDX-License-Identifier: MIT
/*
 * Pairs: the lists, and how a thread takes those of all others.
 *
 * The owner of a list makes "turn" odd and reads "pairs_revoked". A thread that takes the lists stores "pairs_revoked", has
 * the kernel make all threads of the process execute a barrier (membarrier), and waits until the owners have left. Either
 * an owner sees that the lists are revoked, and reports its call to the tap, or the other thread sees that it is inside.
 *
 * "pairs_filled" is cleared before that barrier, and stored by owners that are inside. The list of lists is read after the
 * barrier, so that a list made before it is seen.
 *
 * An owner that is interrupted may stay inside: a handler runs, or has left by siglongjmp(). The other thread waits for a
 * while, once, and leaves the list for later.
 *
 * A list is never freed. A thread that ends leaves its list to another one, with what is in it.
 *
 * Locks: the lock of the library behind the tap, around pairs_take().
 */
#include <linux/membarrier.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/core.h"

#define DOZES	1000u			/* how long an owner is waited for */

__thread struct pairs *pairs_own __attribute__((tls_model("initial-exec")));
uint32_t pairs_revoked, pairs_filled;

static struct pairs *lists;		/* newest first; only grows; atomic */
static pthread_key_t ends;

static void thread_ends(void *arg)
{
	struct pairs *own = arg;

	pairs_own = NULL;
	store_release(&own->turn, (own->turn + 1) & ~1u);
	store_release(&own->owned, false);
}

bool pairs_any(void)
{
	return load_acquire(&pairs_filled);
}

bool pairs_start(void)
{
	return !syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) &&
		!pthread_key_create(&ends, thread_ends);
}

static struct pairs *list_unused(void)
{
	struct pairs *list;
	bool owned;

	for (list = load_acquire(&lists); list; list = list->next) {
		owned = load_relaxed(&list->owned);
		if (!owned && __atomic_compare_exchange_n(&list->owned, &owned, true, false, __ATOMIC_ACQUIRE,
							  __ATOMIC_RELAXED))
			return list;
	}
	list = calloc(1, sizeof(*list));
	if (!list)
		return NULL;
	list->owned = true;
	list->next = load_relaxed(&lists);
	while (!__atomic_compare_exchange_n(&lists, &list->next, list, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
		;
	/* pairs_take() stores "pairs_revoked" and reads the list of lists. */
	fence_full();
	return list;
}

struct pairs *pairs_get(void)
{
	struct pairs *list = list_unused();

	if (!list)
		return NULL;
	if (pthread_setspecific(ends, list)) {
		store_release(&list->owned, false);
		return NULL;
	}
	pairs_own = list;
	return list;
}

/* Whether the owner has left. False: it is still inside after a while, or is the calling thread. */
static bool owner_out(struct pairs *list)
{
	uint32_t turn;
	unsigned int i;

	for (i = 0; (turn = load_acquire(&list->turn)) & 1; i++) {
		if (list == pairs_own || list->late == turn)
			return false;
		if (i == DOZES) {
			list->late = turn;
			return false;
		}
		if (i >= 100)
			lock_doze();
	}
	return true;
}

static void take(struct pairs *list, bool freed, void (*each)(const struct tap_pair *pair))
{
	unsigned int i;

	for (i = 0; i < list->count; i++)
		if (list->pair[i].freed == freed)
			each(&list->pair[i]);
}

void pairs_take(void (*each)(const struct tap_pair *pair))
{
	struct pairs *list, *first;
	bool blind = false;

	if (likely(!load_acquire(&pairs_filled)))
		return;
	store_relaxed(&pairs_filled, 0);
	store_relaxed(&pairs_revoked, 1);
	fence_full();
	first = load_acquire(&lists);
	if ((first != pairs_own || first->next) &&
	    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0)) {
		/* A sandbox forbids it. Other threads may be inside unseen: their lists are for later, and get no new block. */
		store_relaxed(client.later, 0);
		blind = true;
	}
	first = load_acquire(&lists);
	/* No two blocks that are live overlap; a freed one may be where another one is live. */
	for (list = first; list; list = list->next) {
		list->out = (!blind || list == pairs_own) && owner_out(list);
		if (list->out)
			take(list, true, each);
	}
	for (list = first; list; list = list->next) {
		if (!list->out) {
			store_relaxed(&pairs_filled, 1);
			continue;
		}
		take(list, false, each);
		list->count = 0;
		list->pair[0].base = 0;
	}
	store_release(&pairs_revoked, 0);
}
