// SPDX-License-Identifier: MIT
/*
 * Red zones and quarantine: with GPUMEM_CHECK=1, accesses that no call makes are noticed by what they leave.
 *
 * Behind each allocation of device, pinned and managed memory lies a red zone of RED_ZONE bytes with a pattern. Memory that
 * the program frees is filled with another pattern and kept for a while, so that its address is not reused. When memory
 * is freed for good, a byte of it or of its red zone that differs from the pattern is a report; so is a byte of kept
 * memory when the process ends. The CPU or a device has written it, or work of another context that the free does not
 * wait for. Until then, a call that names the address is a use after free, also after further allocations.
 *
 * The program may unmap pinned memory after it has freed it. Before kept pinned memory is looked at, it is mapped again
 * where the program has unmapped it, and that is a report as well.
 *
 * Kept memory is freed, the oldest first, when more than client.quarantine bytes or KEPT_MOST allocations are kept; and
 * all of it when an allocation finds no memory, when the program asks how much memory is free, and when its context ends.
 * Memory that other processes or drivers may reach is not kept (for blocks of pools see pool/pool_quarantine.c),
 * nor managed memory of devices without concurrent access. In strict mode the CPU does not reach device memory: it is
 * kept, but has no pattern.
 *
 * Locks: mem_lock for everything; the checker is told without it. Patterns are written and compared with mem_lock held,
 * for at most half of the quarantine at a time: only programs that are checked pay for that.
 */
#include <stdlib.h>

#include "memory/memory.h"

#define CHANGES		64u
#define VERIFY_TRIES	1000u		/* of a millisecond */
#define KEPT_MOST	500u		/* pools keep as many, and the checker knows 1,024 frees */

/* Memory that is kept. */
struct kept {
	struct kept *next;
	struct alloc *alloc;
	uint64_t bytes;			/* room that it takes */
	bool reported;
};

/* A byte that was changed. */
struct change {
	uint64_t base, size, offset;
};

static struct kept *first_kept, **last_kept = &first_kept;
static uint64_t kept_bytes;		/* room that they take */
static unsigned int kept_count;
static struct change changes[CHANGES];	/* to be reported */
static unsigned int change_count;	/* atomic */

/* Whether the CPU reaches memory that has a pattern. */
static bool has_pattern(uint32_t flags)
{
	return !client.strict || flags & (ALLOC_HOST | ALLOC_MANAGED);
}

static void note(const struct alloc *alloc, uint64_t offset)
{
	if (change_count < CHANGES) {
		changes[change_count] = (struct change){ alloc->base, alloc->size, offset };
		store_relaxed(&change_count, change_count + 1);
	}
}

/* Look for a byte that differs. True: one was noted. */
static bool differs(const struct alloc *alloc, uint64_t from, uint64_t to, unsigned char pattern)
{
	const unsigned char *bytes = (const unsigned char *)(uintptr_t)alloc->base;
	uint64_t at = from + pattern_end(bytes + from, to - from, pattern);

	if (at == to)
		return false;
	note(alloc, at);
	return true;
}

/* ---- red zones */

void red_zone_fill(const struct alloc *alloc)
{
	uint32_t flags = load_relaxed(&alloc->flags);

	uint64_t zone = alloc->base + alloc->size;

	if (!red_zone(flags) || !has_pattern(flags))
		return;
	/* A page that cannot be had now reads as zeros later. */
	if (flags & ALLOC_MANAGED && pages_populate(zone, RED_ZONE))
		return;
	memset((void *)(uintptr_t)zone, PATTERN_ZONE, RED_ZONE);
}

void red_zone_look(const struct alloc *alloc)
{
	uint32_t flags = load_relaxed(&alloc->flags);

	static const unsigned char zeros[RED_ZONE];

	if (!red_zone(flags) || !has_pattern(flags))
		return;
	if (flags & ALLOC_MANAGED && !memcmp((const void *)(uintptr_t)(alloc->base + alloc->size), zeros, RED_ZONE))
		return;
	differs(alloc, alloc->size, alloc->size + RED_ZONE, PATTERN_ZONE);
}

/* ---- quarantine */

static void look(struct kept *kept)
{
	/* Always: its red zone is looked at later, and its pages may get another owner. */
	if (host_mend_alloc(kept->alloc) && !kept->reported) {
		note(kept->alloc, TAP_UNMAPPED);
		kept->reported = true;
	}
	if (!kept->reported && has_pattern(load_relaxed(&kept->alloc->flags)))
		kept->reported = differs(kept->alloc, 0, kept->alloc->size, PATTERN_FREED);
}

/* Free the oldest. mem_lock is held. */
static void release_first(struct block **doomed)
{
	struct kept *kept = first_kept;
	struct alloc *alloc = kept->alloc;

	look(kept);
	kept_bytes -= kept->bytes;
	kept_count--;
	first_kept = kept->next;
	if (!first_kept)
		last_kept = &first_kept;
	free(kept);
	alloc_free(alloc, 0, doomed);
}

bool quarantine_put(struct alloc *alloc, struct block **doomed)
{
	const uint32_t other = ALLOC_EXPORTED | ALLOC_IMPORTED | ALLOC_REGISTERED | ALLOC_HIDDEN | ALLOC_MAPPED |
		ALLOC_EXTERNAL | ALLOC_ATTACHED | (client.exclusive ? ALLOC_MANAGED : 0);
	uint32_t flags = load_relaxed(&alloc->flags);
	struct kept *kept;

	if (flags & other || alloc->share || alloc->attach || alloc->size > client.quarantine / 2)
		return false;
	/* Nobody may have touched managed memory yet. If there is no room for all of it, it is not kept. */
	if (flags & ALLOC_MANAGED && pages_populate(alloc->base, alloc->size))
		return false;
	kept = calloc(1, sizeof(*kept));
	if (!kept)
		return false;
	kept->bytes = round_up(alloc->size + red_zone(flags), alloc->block->link ? UNIT : SLOT);
	alloc_hide(alloc);
	if (has_pattern(flags))
		memset((void *)(uintptr_t)alloc->base, PATTERN_FREED, alloc->size);
	kept->alloc = alloc;
	*last_kept = kept;
	last_kept = &kept->next;
	kept_bytes += kept->bytes;
	kept_count++;
	while (kept_bytes > client.quarantine || kept_count > KEPT_MOST)
		release_first(doomed);
	return true;
}

void quarantine_leave(struct alloc *alloc)
{
	struct kept **link = &first_kept, *kept;

	while ((kept = *link) && kept->alloc != alloc)
		link = &kept->next;
	if (!kept)
		return;
	look(kept);
	kept_bytes -= kept->bytes;
	kept_count--;
	*link = kept->next;
	if (!kept->next)
		last_kept = link;
	free(kept);
}

void quarantine_flush(void)
{
	struct block *doomed = NULL;

	if (likely(!client.quarantine))
		return;
	lock_take(&mem_lock);
	while (first_kept)
		release_first(&doomed);
	lock_drop(&mem_lock);
	blocks_destroy(doomed);
	quarantine_report();
}

void quarantine_verify(void)
{
	unsigned int tries;
	struct kept *kept;

	if (!client.quarantine)
		return;
	/* The process ends, maybe in a handler that has interrupted a thread with the lock. */
	for (tries = 0; !lock_try(&mem_lock); tries++) {
		if (tries == VERIFY_TRIES)
			return;
		thread_nap();
	}
	for (kept = first_kept; kept; kept = kept->next)
		look(kept);
	lock_drop(&mem_lock);
	quarantine_report();
}

void quarantine_report(void)
{
	struct change change;

	while (load_relaxed(&change_count)) {
		lock_take(&mem_lock);
		if (change_count) {
			store_relaxed(&change_count, change_count - 1);
			change = changes[change_count];
		} else {
			change.size = 0;
		}
		lock_drop(&mem_lock);
		if (change.size && client.tap && client.tap->changed)
			client.tap->changed(change.base, change.size, change.offset);
	}
}
