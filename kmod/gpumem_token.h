/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tokens: random names for ranges of roots.  Lock: token_set->lock.
 */
#ifndef GPUMEM_TOKEN_H
#define GPUMEM_TOKEN_H

#include <linux/gpumem.h>
#include <linux/interval_tree.h>
#include <linux/kref.h>
#include <linux/mutex.h>
#include <linux/rbtree.h>
#include <linux/types.h>

#include "gpumem_name.h"
#include "gpumem_object.h"
#include "gpumem_scope.h"

struct gpumem_bo;

/**
 * struct gpumem_token_set - the tokens of one root
 */
struct gpumem_token_set {
	/** @ref: the root holds one, so does each token, revoked ones included */
	struct kref ref;
	/** @lock: protects @root, @tree and gpumem_token.listed */
	struct mutex lock;
	/** @root: no reference; set to NULL when the root's id is destroyed */
	struct gpumem_bo *root;
	/** @tree: gpumem_token.it of the listed tokens */
	struct rb_root_cached tree;
};

/**
 * struct gpumem_token - a random name for a range of a root
 */
struct gpumem_token {
	/** @obj: head */
	struct gpumem_object obj;
	/** @name: in the table of names while @listed; constant */
	struct gpumem_name name;
	/** @set: tokens of the same root; referenced; constant */
	struct gpumem_token_set *set;
	/** @it: first and last byte in the root; in set->tree, while @listed */
	struct interval_tree_node it;
	/** @listed: in set->tree and in the table of names; set->lock */
	bool listed;
	/** @offset: start in the root; constant */
	u64 offset;
	/** @length: bytes; constant */
	u64 length;
	/** @scope: who may open it */
	struct gpumem_scope scope;
	/** @rcu: frees the token */
	struct rcu_head rcu;
};

/* gpumem_token.c */
void gpumem_token_revoke(struct gpumem_bo *bo, u64 offset, u64 length);
void gpumem_token_revoke_all(struct gpumem_bo *bo);
void gpumem_token_forget_root(struct gpumem_bo *bo);
void gpumem_token_handle_gone(struct gpumem_object *obj);
void gpumem_token_release(struct gpumem_object *obj);
int gpumem_ioctl_token_create(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_token_open(struct gpumem_ucmd *ucmd);

#endif /* GPUMEM_TOKEN_H */
