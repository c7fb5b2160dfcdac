/* SPDX-License-Identifier: MIT */
/*
 * Tables: objects that a program names by values.
 *
 * A value has the object's place in the table, and above it a number that no table uses again. So a value that is
 * wrong, of another table, or whose object is gone, is found out without a search, and without a look at what it
 * points to. No value is 0.
 *
 * Adding, finding and removing cost the same for any number of objects. Places of removed objects are reused.
 *
 * Locks: the owner's, for all functions.
 */
#ifndef GPUMEM_CORE_TABLE_H
#define GPUMEM_CORE_TABLE_H

#include "core/base.h"

struct table_place {
	void *object;			/* NULL: the place is free */
	uint64_t value;			/* of the object, or of the last one here */
	uint64_t next_free;		/* another free place, plus one; 0: none */
};

struct table {
	struct table_place *place;
	uint64_t room, used;		/* places in the array, and those that ever had an object */
	uint64_t free;			/* the first free place below @used, plus one; 0: none */
};

/* Add an object. Returns its value, or 0 if there is no memory. */
uint64_t table_add(struct table *table, void *object);
/* The object of a value, or NULL. */
void *table_find(const struct table *table, uint64_t value);
/* Remove the object of a value that table_add() returned. */
void table_remove(struct table *table, uint64_t value);

#endif /* GPUMEM_CORE_TABLE_H */
