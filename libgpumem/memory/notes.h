/* SPDX-License-Identifier: MIT */
/*
 * Notes of advice and prefetches (notes.c). The caller of each function but managed_forget() and
 * managed_forget_range() (managed.h) holds notes_lock.
 *
 * Vocabulary: note, the hints about an allocation; run, neighbouring pages with the same hints; location, a
 * place as attributes report it.
 */
#ifndef GPUMEM_MEMORY_NOTES_H
#define GPUMEM_MEMORY_NOTES_H

#include "memory/managed.h"

#define HOST_BIT	(1u << GPUMEM_MAX_DEVICES)

struct location {
	int32_t type;			/* CUmemLocationType; 0 is none */
	int32_t id;			/* of a device or node; -1: another location; -2: none */
};

struct run {
	uint64_t end;			/* in pages from the allocation's first; begins where the previous ends */
	struct location preferred, prefetched;
	uint32_t accessed_by;		/* a bit for each device, and HOST_BIT */
	bool read_mostly;
};

struct note {
	struct note *next;
	uint64_t base, id;		/* of the allocation */
	unsigned int count, room;	/* runs, and runs that there is memory for */
	unsigned int wanted;		/* runs that a batch may add */
	struct run *run;
};

static const struct location location_none = {
	.type = CU_MEM_LOCATION_TYPE_INVALID, .id = CU_DEVICE_INVALID,
};

extern HIDDEN struct lock notes_lock;

/* A change of the hints of each run in a range divides at most two runs. */
#define SAYING_RUNS	2

struct saying {
	enum { SAY_READ_MOSTLY, SAY_PREFERRED, SAY_PREFETCHED, SAY_ACCESSED_BY } what;
	struct location place;
	uint32_t set, clear;		/* of accessed_by; of read_mostly bit 0 */
};

/* The first page that a range touches, and the end of its last, in pages from the allocation's first. */
static inline uint64_t first_page(const struct span *span, uint64_t ptr)
{
	return ptr / PAGE - span->base / PAGE;
}

static inline uint64_t end_page(const struct span *span, uint64_t end)
{
	return (end - 1) / PAGE - span->base / PAGE + 1;
}

/* The note of an allocation, or NULL. */
struct note *note_find(const struct span *span);
/* The hints about memory without advice and prefetches: memory of a pool prefers the pool's location. */
struct run run_fresh(const struct span *span);
/*
 * The note of an allocation, made if there is none. NULL if there is no memory, or if another allocation has been
 * freed here while a batch, which has room in its note, was read.
 */
struct note *note_get(const struct span *span);
/* Make room for @more runs beyond those that are there and those that are wanted. */
CUresult note_reserve(struct note *note, unsigned int more);
/* Change the hints of some pages. SAYING_RUNS runs must be reserved; they are not wanted any more. */
void note_say(struct note *note, uint64_t first, uint64_t end, const struct saying *saying);

#endif /* GPUMEM_MEMORY_NOTES_H */
