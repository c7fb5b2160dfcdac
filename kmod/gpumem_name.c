// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_name: the table of names of tokens, events and pools.
 *
 * A name is a random 128-bit number that stands for a token, an event or a
 * pool.  A client that knows the number may ask for the object; the caller of
 * gpumem_name_get() then checks the scope (gpumem_scope.c).  Numbers are drawn
 * anew for each object, so an old name cannot find a new object.
 *
 * All clients share the table.  Insertion and removal take the lock of one
 * bucket, which belongs to rhashtable.  A lookup runs under RCU and takes a
 * reference on the object.  It finds nothing if the object has no reference
 * left.  It may find an object whose name another task is removing: a caller
 * that keeps the reference must check under the object's own lock that the name
 * still exists.
 *
 * The source file of each type inserts a name once and removes it once, both
 * while the object has a reference.  token->set->lock and pool->name_lock order
 * the two calls; an event is inserted before it has an id and removed after the
 * id's end.  kfree_rcu() frees the object, because a lookup or the table's
 * resizing may still look at the node after the removal.
 */
#include <linux/random.h>
#include <linux/rhashtable.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>

#include "gpumem_name.h"
#include "gpumem_object.h"

static struct rhashtable gpumem_names;

static const struct rhashtable_params gpumem_name_params = {
	.key_len = GPUMEM_TOKEN_SIZE,
	.key_offset = offsetof(struct gpumem_name, key),
	.head_offset = offsetof(struct gpumem_name, node),
	.automatic_shrinking = true,
};

/**
 * gpumem_name_init - prepare the table
 *
 * Return: 0 or a negative errno.
 */
int gpumem_name_init(void)
{
	return rhashtable_init(&gpumem_names, &gpumem_name_params);
}

/**
 * gpumem_name_exit - free the table, which is empty
 */
void gpumem_name_exit(void)
{
	rhashtable_destroy(&gpumem_names);
}

/**
 * gpumem_name_draw - draw the number of a name
 * @name: part of @obj; not in the table
 * @obj: object, initialized
 */
void gpumem_name_draw(struct gpumem_name *name, struct gpumem_object *obj)
{
	get_random_bytes(name->key, sizeof(name->key));
	name->obj = obj;
}

/**
 * gpumem_name_insert - let clients find an object by its name
 * @name: drawn, not in the table
 *
 * rhashtable returns -EBUSY while the table's growth lags far behind the
 * insertions of all clients.  A work item of the kernel makes the table grow
 * and waits for no client, so the insertion is retried.
 *
 * Context: may sleep; only locks of the calling client may be held.
 * Return: 0, -EINTR if the caller is being killed, or what rhashtable returns.
 */
int gpumem_name_insert(struct gpumem_name *name)
{
	int ret;

	for (;;) {
		ret = rhashtable_lookup_insert_fast(&gpumem_names, &name->node,
						    gpumem_name_params);
		if (ret != -EBUSY)
			return ret;
		if (fatal_signal_pending(current))
			return -EINTR;
		schedule_timeout_uninterruptible(1);
	}
}

/**
 * gpumem_name_remove - keep clients from finding an object by its name
 * @name: in the table
 *
 * A lookup that has found the object already keeps its reference.
 */
void gpumem_name_remove(struct gpumem_name *name)
{
	rhashtable_remove_fast(&gpumem_names, &name->node, gpumem_name_params);
}

/**
 * gpumem_name_get - find an object by its name
 * @key: GPUMEM_TOKEN_SIZE bytes
 * @type: of the object
 *
 * The name may be removed at any time.
 *
 * Return: the object with a reference, or NULL.
 */
struct gpumem_object *gpumem_name_get(const u8 *key, enum gpumem_objtype type)
{
	struct gpumem_name *name;

	guard(rcu)();
	name = rhashtable_lookup(&gpumem_names, key, gpumem_name_params);
	if (!name || name->obj->type != type)
		return NULL;
	/* kfree_rcu() keeps the memory while the last reference goes. */
	return kref_get_unless_zero(&name->obj->ref) ? name->obj : NULL;
}
