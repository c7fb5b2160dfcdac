// SPDX-License-Identifier: MIT
/*
 * Notes of advice and prefetches: what a program has said about ranges of managed memory.
 *
 * Owns the notes: one for each allocation that had any advice or prefetch, found by the allocation's address. A note
 * divides the allocation's pages into runs with the same hints. A note names its allocation by BUFFER_ID, which is
 * never used again. If another allocation is at the address now (memory of a pool may have been allocated anew), the
 * note is replaced or ignored.
 *
 * Locks: notes_lock for the notes. It is taken inside mem_lock and pool->lock; no lock is taken inside it.
 */
#include <stdlib.h>

#include "memory/memory.h"
#include "memory/notes.h"

#define BUCKET_BITS	10
#define BUCKETS		(1u << BUCKET_BITS)

struct lock notes_lock;
static struct note *notes[BUCKETS];	/* notes_lock */
static unsigned int note_count;		/* atomic; written under notes_lock */

static struct note **bucket_of(uint64_t base)
{
	/* Large allocations begin at multiples of 2 MiB. */
	return &notes[(base / UNIT * 0x9e3779b97f4a7c15) >> (64 - BUCKET_BITS)];
}

struct note *note_find(const struct span *span)
{
	struct note *note;

	for (note = *bucket_of(span->base); note; note = note->next)
		if (note->base == span->base)
			return note->id == span->id ? note : NULL;
	return NULL;
}

static void note_drop(struct note **link)
{
	struct note *note = *link;

	*link = note->next;
	store_relaxed(&note_count, note_count - 1);
	free(note->run);
	free(note);
}

struct run run_fresh(const struct span *span)
{
	struct run run = { .preferred = location_none, .prefetched = location_none };
	CUmemLocation place;

	if (span->pool) {
		place = pool_location(span->pool);
		if (place.type != CU_MEM_LOCATION_TYPE_NONE)
			run.preferred = (struct location){ .type = place.type, .id = place.id };
	}
	return run;
}

struct note *note_get(const struct span *span)
{
	struct note **link = bucket_of(span->base), *note;

	while (*link && (*link)->base != span->base)
		link = &(*link)->next;
	if (*link && (*link)->id == span->id)
		return *link;
	if (*link && (*link)->wanted)
		return NULL;
	if (*link)
		note_drop(link);
	note = calloc(1, sizeof(*note));
	if (note)
		note->run = calloc(1, sizeof(*note->run));
	if (!note || !note->run) {
		free(note);
		return NULL;
	}
	note->base = span->base;
	note->id = span->id;
	note->count = note->room = 1;
	note->run[0] = run_fresh(span);
	note->run[0].end = end_page(span, span->base + span->size);
	link = bucket_of(span->base);
	note->next = *link;
	*link = note;
	store_relaxed(&note_count, note_count + 1);
	return note;
}

CUresult note_reserve(struct note *note, unsigned int more)
{
	uint64_t needed = (uint64_t)note->count + note->wanted + more, room;
	struct run *run;

	if (needed > UINT32_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (needed > note->room) {
		room = min_u64(needed * 2, UINT32_MAX);
		run = realloc(note->run, room * sizeof(*run));
		if (!run)
			return CUDA_ERROR_OUT_OF_MEMORY;
		note->run = run;
		note->room = room;
	}
	note->wanted += more;
	return CUDA_SUCCESS;
}

/* Make a run begin at a page. note->run has room for one more run. */
static void run_split(struct note *note, uint64_t page)
{
	unsigned int i = 0;

	if (!page)
		return;
	while (note->run[i].end < page)
		i++;
	if (note->run[i].end == page)
		return;
	memmove(&note->run[i + 1], &note->run[i], (note->count - i) * sizeof(*note->run));
	note->run[i].end = page;
	note->count++;
}

static bool location_same(const struct location *a, const struct location *b)
{
	return a->type == b->type && a->id == b->id;
}

static bool same_said(const struct run *a, const struct run *b)
{
	return location_same(&a->preferred, &b->preferred) &&
	       location_same(&a->prefetched, &b->prefetched) &&
	       a->accessed_by == b->accessed_by && a->read_mostly == b->read_mostly;
}

static void runs_merge(struct note *note)
{
	unsigned int i, last = 0;

	for (i = 1; i < note->count; i++) {
		if (same_said(&note->run[last], &note->run[i]))
			note->run[last].end = note->run[i].end;
		else
			note->run[++last] = note->run[i];
	}
	note->count = last + 1;
}

static void run_say(struct run *run, const struct saying *saying)
{
	switch (saying->what) {
	case SAY_READ_MOSTLY:
		run->read_mostly = saying->set;
		break;
	case SAY_PREFERRED:
		run->preferred = saying->place;
		break;
	case SAY_PREFETCHED:
		run->prefetched = saying->place;
		break;
	case SAY_ACCESSED_BY:
		run->accessed_by = (run->accessed_by & ~saying->clear) | saying->set;
		break;
	}
}

void note_say(struct note *note, uint64_t first, uint64_t end, const struct saying *saying)
{
	uint64_t at = 0;
	unsigned int i;

	note->wanted -= SAYING_RUNS;
	run_split(note, first);
	run_split(note, end);
	for (i = 0; i < note->count && at < end; i++) {
		if (at >= first)
			run_say(&note->run[i], saying);
		at = note->run[i].end;
	}
	runs_merge(note);
}

/* notes_lock is held. */
static void forget_in(struct note **link, uint64_t base, uint64_t length)
{
	while (*link) {
		if ((*link)->base - base < length)
			note_drop(link);
		else
			link = &(*link)->next;
	}
}

/* These two are called whenever managed memory is freed, so without notes they take no lock. */
void managed_forget(uint64_t base)
{
	if (!load_relaxed(&note_count))
		return;
	lock_take(&notes_lock);
	forget_in(bucket_of(base), base, 1);
	lock_drop(&notes_lock);
}

void managed_forget_range(uint64_t base, uint64_t length)
{
	unsigned int i;

	if (!load_relaxed(&note_count))
		return;
	lock_take(&notes_lock);
	for (i = 0; i < BUCKETS; i++)
		forget_in(&notes[i], base, length);
	lock_drop(&notes_lock);
}
