/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Names: random 128-bit numbers by which clients find objects of other clients.
 * One table has the names of tokens, events and pools.
 */
#ifndef GPUMEM_NAME_H
#define GPUMEM_NAME_H

#include <linux/gpumem.h>
#include <linux/rhashtable-types.h>
#include <linux/types.h>

#include "gpumem_object.h"

/**
 * struct gpumem_name - the name of an object
 *
 * Part of the object, which is freed by kfree_rcu().
 */
struct gpumem_name {
	/** @node: in the table, from insertion to removal */
	struct rhash_head node;
	/** @key: the number; constant while @node is in the table */
	u8 key[GPUMEM_TOKEN_SIZE];
	/** @obj: the object; as @key */
	struct gpumem_object *obj;
};

/* gpumem_name.c */
int gpumem_name_init(void);
void gpumem_name_exit(void);
void gpumem_name_draw(struct gpumem_name *name, struct gpumem_object *obj);
int gpumem_name_insert(struct gpumem_name *name);
void gpumem_name_remove(struct gpumem_name *name);
struct gpumem_object *gpumem_name_get(const u8 *key, enum gpumem_objtype type);

#endif /* GPUMEM_NAME_H */
