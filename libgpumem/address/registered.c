// SPDX-License-Identifier: MIT
/*
 * Registered memory: which addresses of the program's own memory are registered.
 *
 * Owns the list of registrations (core/sorted.h): allocs with ALLOC_REGISTERED, which memory/host.c makes.
 * They lie outside the arenas, so the index does not find them.
 *
 * Lookups read the list without a lock. A lookup that finds the list changing tries a bounded number of
 * times, then takes change_lock, which is held during changes.
 *
 * Locks: mem_lock for changes, and change_lock inside it.
 */
#include "address/address.h"

static struct sorted registrations;	/* of allocs; mem_lock to change */

static uint64_t registration_base(const void *alloc)
{
	return load_relaxed(&((const struct alloc *)alloc)->base);
}

/* Look once; CHANGING if the list or the alloc changed during the look. */
static enum found registration_look(uint64_t addr, struct span *span)
{
	uint32_t seq = seq_read_begin(&registrations.seq);
	uint64_t count = load_acquire(&registrations.count);
	struct alloc *alloc;
	bool read = false;

	if (!count)
		return NOTHING;
	if (seq_changing(seq))
		return CHANGING;
	alloc = sorted_last(&registrations, count, addr, registration_base);
	if (alloc)
		read = alloc_read(alloc, span);
	if (seq_read_retry(&registrations.seq, seq) || (alloc && !read))
		return CHANGING;
	return alloc && addr - span->base < span->size ? FOUND : NOTHING;
}

static __attribute__((noinline)) bool registration_look_again(uint64_t addr, struct span *span)
{
	enum found found = registration_look(addr, span);
	unsigned int tries;

	for (tries = 1; found == CHANGING && tries < LOOKUP_TRIES; tries++)
		found = registration_look(addr, span);
	while (found == CHANGING) {
		lock_take(&change_lock);
		found = registration_look(addr, span);
		lock_drop(&change_lock);
	}
	return found == FOUND;
}

bool registered_lookup(uint64_t addr, struct span *span)
{
	enum found found = registration_look(addr, span);

	return unlikely(found == CHANGING) ? registration_look_again(addr, span) : found == FOUND;
}

bool registered_room(void)
{
	return sorted_make_room(&registrations, 64);
}

void registered_add(struct alloc *alloc)
{
	uint64_t at = sorted_find(&registrations, alloc->base, registration_base);
	uint32_t seq;

	lock_take(&change_lock);
	seq = seq_write_begin(&registrations.seq);
	sorted_add(&registrations, at, alloc);
	seq_write_end(&registrations.seq, seq);
	lock_drop(&change_lock);
}

void registered_remove(struct alloc *alloc)
{
	uint64_t at = sorted_find(&registrations, alloc->base, registration_base) - 1;
	uint32_t seq;

	lock_take(&change_lock);
	seq = seq_write_begin(&registrations.seq);
	sorted_remove(&registrations, at);
	seq_write_end(&registrations.seq, seq);
	lock_drop(&change_lock);
}

bool registered_any(uint64_t addr, uint64_t bytes)
{
	uint64_t below = sorted_find(&registrations, addr + bytes - 1, registration_base);
	const struct alloc *last = below ? registrations.entry[below - 1] : NULL;

	return last && last->base + last->size > addr;
}
