/* SPDX-License-Identifier: MIT */
/*
 * Sorted lists: pointers to things that have an address, in the order of their addresses. Lookups read them
 * without a lock.
 *
 * A list is an array. Readers use its sequence count (core/seq.h). An array that is too short is replaced by one
 * of twice the length. The old array is never freed, because readers may still use it.
 *
 * A reader loads the count, then the array, both with acquire. A writer stores an entry before the count that
 * includes it, and never clears a slot. So every entry below the count is a valid pointer. It may be stale; the
 * reader learns that from the sequence count.
 *
 * Changes need the lock of the list's owner. @base returns the address of an entry, by an atomic load.
 */
#ifndef GPUMEM_CORE_SORTED_H
#define GPUMEM_CORE_SORTED_H

#include "core/seq.h"

#include <stdlib.h>

struct sorted {
	uint32_t seq;			/* odd while the array changes */
	uint64_t count;			/* atomic */
	uint64_t room;
	void **entry;			/* atomic */
};

/* How many entries begin at or below an address. */
static inline uint64_t sorted_search(void *const *entry, uint64_t count, uint64_t addr,
				     uint64_t (*base)(const void *entry))
{
	uint64_t low = 0, high = count;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (base(load_relaxed(&entry[middle])) <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* By a reader, which loaded @count with acquire: the last entry that begins at or below an address, or NULL. */
static inline void *sorted_last(const struct sorted *list, uint64_t count, uint64_t addr,
				uint64_t (*base)(const void *entry))
{
	void *const *entry = load_acquire(&list->entry);
	uint64_t found = sorted_search(entry, count, addr, base);

	return found ? load_relaxed(&entry[found - 1]) : NULL;
}

/* By the owner: how many entries begin at or below an address. */
static inline uint64_t sorted_find(const struct sorted *list, uint64_t addr,
				   uint64_t (*base)(const void *entry))
{
	return sorted_search(list->entry, list->count, addr, base);
}

/* Make room for one more entry; @least: length of the first array. False: no memory. */
static inline bool sorted_make_room(struct sorted *list, uint64_t least)
{
	uint64_t room = list->room ? 2 * list->room : least;
	void **entry;

	if (list->count < list->room)
		return true;
	entry = calloc(room, sizeof(*entry));
	if (!entry)
		return false;
	if (list->count)
		memcpy(entry, list->entry, list->count * sizeof(*entry));
	store_release(&list->entry, entry);
	list->room = room;
	return true;
}

/* Between seq_write_begin() and seq_write_end(): add an entry, for which there is room, as number @at. */
static inline void sorted_add(struct sorted *list, uint64_t at, void *entry)
{
	uint64_t i;

	for (i = list->count; i > at; i--)
		store_relaxed(&list->entry[i], list->entry[i - 1]);
	store_relaxed(&list->entry[at], entry);
	store_release(&list->count, list->count + 1);
}

/* The same: remove entry number @at. */
static inline void sorted_remove(struct sorted *list, uint64_t at)
{
	for (; at + 1 < list->count; at++)
		store_relaxed(&list->entry[at], list->entry[at + 1]);
	store_release(&list->count, list->count - 1);
}

#endif /* GPUMEM_CORE_SORTED_H */
