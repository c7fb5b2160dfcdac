// SPDX-License-Identifier: MIT
/*
 * Claims: ranges of addresses that calls are changing.
 *
 * A call that changes mappings or rights claims its range first, and makes its system calls with the claim and
 * without a lock. Claims of ranges that do not overlap never wait for each other. Claims that overlap are granted
 * in the order in which they came. So each call finds what the calls before it left, and a long range is not
 * overtaken by short ones for ever.
 *
 * A caller holds at most one claim, and waits for no queued work while it does. So claims cannot deadlock. The
 * list is as long as the number of threads that are in such a call.
 *
 * Locks: claim_lock for the list and its claims; nothing nests inside.
 */
#include "memory/claim.h"

static struct lock claim_lock;
static struct range_claim *claims;		/* oldest first; claim_lock */

static bool claims_overlap(const struct range_claim *a, const struct range_claim *b)
{
	return a->base < b->end && b->base < a->end;
}

void claim_take(struct range_claim *claim)
{
	struct range_claim **link;
	bool blocked;

	claim->before = 0;
	claim->granted = 0;
	claim->next = NULL;
	lock_take(&claim_lock);
	for (link = &claims; *link; link = &(*link)->next)
		claim->before += claims_overlap(*link, claim);
	*link = claim;
	blocked = claim->before;
	lock_drop(&claim_lock);
	if (!blocked)
		return;
	word_await(&claim->granted, 0);
	/* The thread that granted the claim may still be about to wake this one, which must not return before. */
	lock_take(&claim_lock);
	lock_drop(&claim_lock);
}

void claim_drop(struct range_claim *claim)
{
	struct range_claim **link, *later;

	lock_take(&claim_lock);
	for (link = &claims; *link != claim; link = &(*link)->next)
		;
	*link = claim->next;
	/* Only later claims waited for this one. */
	for (later = claim->next; later; later = later->next)
		if (claims_overlap(claim, later) && !--later->before)
			word_change(&later->granted, true);
	lock_drop(&claim_lock);
}
