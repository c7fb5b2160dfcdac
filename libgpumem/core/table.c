// SPDX-License-Identifier: MIT
/*
 * Tables (table.h). The array of places grows to twice its length, and never shrinks.
 */
#include <stdlib.h>

#include "core/table.h"

#define PLACE_BITS	24
#define PLACES		(1ul << PLACE_BITS)
#define FIRST_ROOM	64

static uint64_t last_number;		/* of all tables; atomic */

static uint64_t place_of(uint64_t value)
{
	return value & (PLACES - 1);
}

static bool table_grow(struct table *table)
{
	uint64_t room = table->room ? 2 * table->room : FIRST_ROOM;
	struct table_place *grown;

	if (room > PLACES)
		return false;
	grown = realloc(table->place, room * sizeof(*grown));
	if (!grown)
		return false;
	table->place = grown;
	table->room = room;
	return true;
}

uint64_t table_add(struct table *table, void *object)
{
	uint64_t at;

	if (table->free) {
		at = table->free - 1;
		table->free = table->place[at].next_free;
	} else {
		if (table->used == table->room && !table_grow(table))
			return 0;
		at = table->used++;
	}
	table->place[at].object = object;
	table->place[at].value = __atomic_add_fetch(&last_number, 1, __ATOMIC_RELAXED) << PLACE_BITS | at;
	return table->place[at].value;
}

void *table_find(const struct table *table, uint64_t value)
{
	const struct table_place *place = &table->place[place_of(value)];

	return place_of(value) < table->used && place->value == value ? place->object : NULL;
}

void table_remove(struct table *table, uint64_t value)
{
	struct table_place *place = &table->place[place_of(value)];

	place->object = NULL;
	place->next_free = table->free;
	table->free = place_of(value) + 1;
}
