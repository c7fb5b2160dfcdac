// SPDX-License-Identifier: GPL-2.0
/*
 * Recorded addresses: the objects that lie there, and host memory that the program had from elsewhere.
 *
 * An object stays at its address after its free, until another one takes the place: calls that use freed memory find it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "replay.h"

/* ---- objects */

struct place {
	uint64_t base, size;
	uint32_t object;
};

static struct place *places;		/* in the order of their addresses; they do not overlap */
static uint32_t place_count, place_rooms;

/* The index of the first place that ends above an address. */
static uint32_t first_above(uint64_t addr)
{
	uint32_t low = 0, high = place_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (places[middle].base + places[middle].size <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

uint32_t place_find(uint64_t addr)
{
	uint32_t at = first_above(addr);

	return at < place_count && places[at].base <= addr ? places[at].object : NONE;
}

uint64_t place_room(uint64_t addr)
{
	uint32_t at = first_above(addr);

	if (at == place_count)
		return UINT64_MAX / 2;
	return places[at].base <= addr ? 0 : places[at].base - addr;
}

void place_add(uint32_t object)
{
	struct object *o = &trace.object[object];
	uint32_t first, last;

	/* Damaged files may have anything here. */
	if (!o->size || o->size > UINT64_MAX / 4 || o->recorded > UINT64_MAX / 4)
		return;
	first = first_above(o->recorded);
	for (last = first; last < place_count && places[last].base < o->recorded + o->size; last++)
		;
	places = must_grow(places, place_count, &place_rooms, sizeof(*places));
	memmove(&places[first + 1], &places[last], (place_count - last) * sizeof(*places));
	places[first] = (struct place) { .base = o->recorded, .size = o->size, .object = object };
	place_count = place_count - (last - first) + 1;
}

/* ---- host memory */

#define MOST_HOST	(UINT64_C(16) << 30)

struct range {
	uint64_t begin, end;
	char *memory;
};

static struct range *ranges;
static uint32_t range_count, range_room;

bool host_need(uint64_t addr, uint64_t bytes)
{
	uint64_t begin = addr & ~(uint64_t)(PAGE - 1), end;

	if (bytes > MOST_HOST || addr > UINT64_MAX / 4)
		return false;
	end = (addr + bytes + PAGE - 1) & ~(uint64_t)(PAGE - 1);
	/* Programs use the same buffer again and again. */
	if (range_count && ranges[range_count - 1].begin <= begin && ranges[range_count - 1].end >= end)
		return true;
	ranges = must_grow(ranges, range_count, &range_room, sizeof(*ranges));
	ranges[range_count++] = (struct range) { .begin = begin, .end = end };
	return true;
}

static int by_address(const void *a, const void *b)
{
	const struct range *x = a, *y = b;

	return x->begin < y->begin ? -1 : x->begin > y->begin;
}

void host_make(void)
{
	uint32_t i, last = 0;
	uint64_t sum = 0;

	if (range_count)
		qsort(ranges, range_count, sizeof(*ranges), by_address);
	for (i = 1; i < range_count; i++) {
		if (ranges[i].begin > ranges[last].end)
			ranges[++last] = ranges[i];
		else if (ranges[i].end > ranges[last].end)
			ranges[last].end = ranges[i].end;
	}
	range_count = range_count ? last + 1 : 0;
	for (i = 0; i < range_count; i++)
		sum += ranges[i].end - ranges[i].begin;
	if (sum > MOST_HOST)
		refuse("%s: needs %llu MiB of host memory", options.trace, (unsigned long long)(sum >> 20));
	for (i = 0; i < range_count && !options.dry; i++) {
		ranges[i].memory = mmap(NULL, ranges[i].end - ranges[i].begin, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (ranges[i].memory == MAP_FAILED)
			refuse("%s: host memory: %s", options.trace, strerror(errno));
	}
}

uint64_t host_nowhere(void)
{
	static void *page;

	if (!page) {
		page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (page == MAP_FAILED)
			refuse("not enough memory");
	}
	return (uintptr_t)page;
}

uint64_t host_address(uint64_t addr)
{
	uint32_t low = 0, high = range_count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (ranges[middle].end <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == range_count || ranges[low].begin > addr)
		return host_nowhere();
	return (uintptr_t)ranges[low].memory + (addr - ranges[low].begin);
}
