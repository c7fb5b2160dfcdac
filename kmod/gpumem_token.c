// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_token: names of ranges for other processes.
 *
 * A token is a random 128-bit number (gpumem_name.c) that names a range of a
 * root for other processes.  It travels by any means, works across pid, mount
 * and network namespaces, and is resolved here alone.
 *
 * The tokens of one root are a *set* (struct gpumem_token_set): an interval
 * tree and a lock of its own.  No lock is shared by two roots, so a client with
 * many tokens delays itself alone.  A task that looks a token up gets a
 * reference on the token, and then takes the set's lock.
 *
 * A token holds no memory.  It *lives* while it is listed in its set and the
 * set has its root.  It is *revoked*, for good, when its own id is destroyed,
 * its range is retired, the id of the root is destroyed, or the client ends.
 * Numbers are never used again, so an old token cannot name new memory.
 *
 * An open of a token makes a view of the whole pages around the range, and then
 * checks that the token still lives.  A call that revokes tokens ends their
 * lives under the set's lock, and counts windows after the last one.  So an
 * open that succeeds has its window in the tree before the owner counts.  A
 * call that revokes many tokens drops the lock in between.
 *
 * The set outlives its root while tokens refer to it.  The id of the root holds
 * a reference on the root.  The destruction of the id first sets set->root to
 * NULL under the set's lock, and then drops the reference.  So set->root is
 * safe to use under the set's lock.
 *
 * A token's scope decides which processes may open it (gpumem_scope.c).
 *
 * Locks: set->lock (mutex) protects the set and whether its tokens are listed.
 */
#include <linux/err.h>
#include <linux/interval_tree.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "gpumem_bo.h"
#include "gpumem_client.h"
#include "gpumem_delay.h"
#include "gpumem_ioctl.h"
#include "gpumem_lock.h"
#include "gpumem_name.h"
#include "gpumem_object.h"
#include "gpumem_scope.h"
#include "gpumem_token.h"

/* Tokens revoked before the lock is dropped. */
#define GPUMEM_REVOKE_BATCH	64

static void gpumem_token_set_free(struct kref *ref)
{
	struct gpumem_token_set *set = container_of(ref, struct gpumem_token_set,
						    ref);

	mutex_destroy(&set->lock);
	kfree(set);
}

static struct gpumem_token_set *gpumem_token_set_new(struct gpumem_bo *root)
{
	struct gpumem_token_set *set = kzalloc(sizeof(*set),
					       GFP_KERNEL_ACCOUNT);

	if (!set)
		return NULL;
	kref_init(&set->ref);
	mutex_init(&set->lock);
	gpumem_lockdep_class(&set->lock, GPUMEM_LOCK_TOKEN);
	set->root = root;
	set->tree = RB_ROOT_CACHED;
	return set;
}

/*
 * Get the set of a root, without a reference; make the set if there is none.
 * Return an ERR_PTR: -ENOMEM, or -ENOENT if the root's id went before the first
 * token was made.
 */
static struct gpumem_token_set *gpumem_token_set_of(struct gpumem_bo *root)
{
	struct gpumem_token_set *set, *old;

	/* Pairs with the cmpxchg() below. */
	set = smp_load_acquire(&root->token_set);
	if (set)
		return set;
	set = gpumem_token_set_new(root);
	if (!set)
		return ERR_PTR(-ENOMEM);
	old = cmpxchg(&root->token_set, NULL, set);
	if (!old)
		return set;
	kref_put(&set->ref, gpumem_token_set_free);
	return old;
}

static void gpumem_token_revoke_locked(struct gpumem_token *token)
{
	struct gpumem_token_set *set = token->set;

	lockdep_assert_held(&set->lock);
	if (!token->listed)
		return;
	gpumem_name_remove(&token->name);
	interval_tree_remove(&token->it, &set->tree);
	token->listed = false;
	atomic64_dec(&token->obj.client->count.tokens);
}

/* Revoke some tokens that overlap a range; false if there are no more. */
static bool gpumem_token_revoke_some(struct gpumem_token_set *set,
				     unsigned long start, unsigned long last)
{
	struct interval_tree_node *it;
	unsigned int i;

	guard(mutex)(&set->lock);
	for (i = 0; i < GPUMEM_REVOKE_BATCH; i++) {
		it = interval_tree_iter_first(&set->tree, start, last);
		if (!it)
			return false;
		/* A listed token has its id's reference. */
		gpumem_token_revoke_locked(container_of(it, struct gpumem_token,
							it));
	}
	return true;
}

/**
 * gpumem_token_revoke - revoke all tokens that overlap a range
 * @bo: root
 * @offset: start of the range
 * @length: bytes, not 0, inside @bo
 *
 * Context: may sleep, without locks.
 */
void gpumem_token_revoke(struct gpumem_bo *bo, u64 offset, u64 length)
{
	struct gpumem_token_set *set;

	/* Pairs with the cmpxchg() in gpumem_token_set_of(). */
	set = smp_load_acquire(&bo->token_set);
	if (IS_ERR_OR_NULL(set))
		return;
	while (gpumem_token_revoke_some(set, offset, offset + length - 1))
		cond_resched();
}

/**
 * gpumem_token_revoke_all - revoke all tokens of a root, and refuse new ones
 * @bo: root whose id is gone
 *
 * Context: may sleep, without locks.
 */
void gpumem_token_revoke_all(struct gpumem_bo *bo)
{
	struct gpumem_token_set *set;

	/* No set will be made from here on. */
	set = cmpxchg(&bo->token_set, NULL, ERR_PTR(-ENOENT));
	if (IS_ERR_OR_NULL(set))
		return;
	/* From here on no token lives; the loop takes tokens off the lists. */
	scoped_guard(mutex, &set->lock)
		set->root = NULL;
	while (gpumem_token_revoke_some(set, 0, ULONG_MAX))
		cond_resched();
}

/**
 * gpumem_token_forget_root - drop a root's reference on its tokens
 * @bo: buffer object without references
 */
void gpumem_token_forget_root(struct gpumem_bo *bo)
{
	if (!IS_ERR_OR_NULL(bo->token_set))
		kref_put(&bo->token_set->ref, gpumem_token_set_free);
}

/**
 * gpumem_token_handle_gone - the id of a token was destroyed
 * @obj: head of the token
 */
void gpumem_token_handle_gone(struct gpumem_object *obj)
{
	struct gpumem_token *token = container_of(obj, struct gpumem_token,
						  obj);

	guard(mutex)(&token->set->lock);
	gpumem_token_revoke_locked(token);
}

/**
 * gpumem_token_release - free a token
 * @obj: head of the token, revoked, without references
 */
void gpumem_token_release(struct gpumem_object *obj)
{
	struct gpumem_token *token = container_of(obj, struct gpumem_token,
						  obj);

	gpumem_scope_release(&token->scope);
	kref_put(&token->set->ref, gpumem_token_set_free);
	/* A lookup or the table's resizing may still look at the node. */
	kfree_rcu(token, rcu);
}

static int gpumem_token_publish(struct gpumem_token *token)
{
	struct gpumem_token_set *set = token->set;
	int ret;

	guard(mutex)(&set->lock);
	/* Another thread destroyed the id after we looked it up. */
	if (!set->root)
		return -ENOENT;
	ret = gpumem_name_insert(&token->name);
	if (ret)
		return ret;
	interval_tree_insert(&token->it, &set->tree);
	token->listed = true;
	atomic64_inc(&token->obj.client->count.tokens);
	return 0;
}

/* A token of a root, without an id and not yet listed, or an ERR_PTR. */
static struct gpumem_token *gpumem_token_new(struct gpumem_ucmd *ucmd,
					     struct gpumem_bo *root,
					     enum gpumem_scope_kind kind)
{
	struct gpumem_token_create *cmd = ucmd->cmd;
	struct gpumem_token_set *set = gpumem_token_set_of(root);
	struct gpumem_token *token;
	int ret;

	if (IS_ERR(set))
		return ERR_CAST(set);
	token = kzalloc(sizeof(*token), GFP_KERNEL_ACCOUNT);
	if (!token)
		return ERR_PTR(-ENOMEM);
	ret = gpumem_scope_init(&token->scope, ucmd->client, kind);
	if (ret) {
		kfree(token);
		return ERR_PTR(ret);
	}
	gpumem_object_init(&token->obj, ucmd->client, GPUMEM_OBJ_TOKEN);
	kref_get(&set->ref);
	token->set = set;
	gpumem_name_draw(&token->name, &token->obj);
	token->offset = cmd->offset;
	token->length = cmd->length;
	token->it.start = cmd->offset;
	token->it.last = cmd->offset + cmd->length - 1;
	return token;
}

int gpumem_ioctl_token_create(struct gpumem_ucmd *ucmd)
{
	struct gpumem_token_create *cmd = ucmd->cmd;
	int kind = gpumem_scope_from_flags(cmd->flags);
	struct gpumem_token *token;
	struct gpumem_bo *bo;
	int ret;

	if (kind < 0)
		return kind;
	if (!cmd->length)
		return -EINVAL;
	bo = gpumem_bo_get(ucmd->client, cmd->bo);
	if (!bo)
		return -ENOENT;
	ret = -EOPNOTSUPP;
	if (bo->managed)
		goto out_bo;
	ret = -EINVAL;
	if (!gpumem_bo_is_own(bo))
		goto out_bo;
	ret = -EOVERFLOW;
	if (cmd->offset > bo->length || cmd->length > bo->length - cmd->offset)
		goto out_bo;
	token = gpumem_token_new(ucmd, bo, kind);
	if (IS_ERR(token)) {
		ret = PTR_ERR(token);
		goto out_bo;
	}
	gpumem_delay(token_create);
	ret = gpumem_token_publish(token);
	if (ret)
		goto out_token;
	gpumem_delay(token_created);
	ret = gpumem_object_reserve(ucmd, &token->obj);
	if (ret) {
		gpumem_token_handle_gone(&token->obj);
		goto out_token;
	}
	cmd->id = token->obj.id;
	memcpy(cmd->token, token->name.key, sizeof(cmd->token));
	ret = gpumem_ucmd_respond(ucmd, sizeof(*cmd));
	goto out_bo;

out_token:
	gpumem_object_put(&token->obj);
out_bo:
	gpumem_object_put(&bo->obj);
	return ret;
}

/* The token of a number, referenced, or NULL; it may be revoked at any time. */
static struct gpumem_token *gpumem_token_lookup(const u8 *key)
{
	struct gpumem_object *obj = gpumem_name_get(key, GPUMEM_OBJ_TOKEN);

	return obj ? container_of(obj, struct gpumem_token, obj) : NULL;
}

/* The root of a token, referenced, or NULL if the token is revoked. */
static struct gpumem_bo *gpumem_token_root(struct gpumem_token *token)
{
	struct gpumem_token_set *set = token->set;

	guard(mutex)(&set->lock);
	if (!token->listed || !set->root)
		return NULL;
	/* The root in a set has an id and so a reference. */
	kref_get(&set->root->obj.ref);
	return set->root;
}

/* Return true if a token is not revoked.  Call this after making the view. */
static bool gpumem_token_lives(struct gpumem_token *token)
{
	guard(mutex)(&token->set->lock);
	return token->listed && token->set->root;
}

/* A view, without an id, of the whole pages around a token's range. */
static struct gpumem_bo *gpumem_token_view(struct gpumem_ucmd *ucmd,
					   struct gpumem_token *token)
{
	struct gpumem_token_open *cmd = ucmd->cmd;
	struct gpumem_bo *root, *view;
	int ret;

	ret = gpumem_scope_check(&token->scope, ucmd->client);
	if (ret)
		return ERR_PTR(ret);
	root = gpumem_token_root(token);
	if (!root)
		return ERR_PTR(-ENOENT);
	ret = gpumem_client_device_index(ucmd->client, root->dev);
	if (ret < 0) {
		gpumem_object_put(&root->obj);
		return ERR_PTR(ret);
	}
	cmd->device = ret;
	cmd->delta = offset_in_page(token->offset);
	cmd->bytes = token->length;
	cmd->length = round_up(cmd->delta + token->length, PAGE_SIZE);
	cmd->result = token->obj.client == ucmd->client ?
		      GPUMEM_TOKEN_OPEN_OWN : 0;
	view = gpumem_bo_view(ucmd->client, root,
			      token->offset & PAGE_MASK, cmd->length);
	gpumem_object_put(&root->obj);
	return view;
}

int gpumem_ioctl_token_open(struct gpumem_ucmd *ucmd)
{
	struct gpumem_token_open *cmd = ucmd->cmd;
	struct gpumem_token *token;
	struct gpumem_bo *view;
	int ret;

	if (cmd->flags || cmd->reserved)
		return -EOPNOTSUPP;
	token = gpumem_token_lookup(cmd->token);
	if (!token)
		return -ENOENT;
	gpumem_delay(token_open_view);
	view = gpumem_token_view(ucmd, token);
	if (IS_ERR(view)) {
		ret = PTR_ERR(view);
		goto out_token;
	}
	/* From here on an owner that revokes the token counts the view. */
	gpumem_delay(token_open_check);
	ret = -ENOENT;
	if (gpumem_token_lives(token)) {
		gpumem_delay(token_open_done);
		ret = gpumem_object_reserve(ucmd, &view->obj);
	}
	if (ret) {
		gpumem_object_put(&view->obj);
		goto out_token;
	}
	cmd->id = view->obj.id;
	ret = gpumem_ucmd_respond(ucmd, sizeof(*cmd));
out_token:
	gpumem_object_put(&token->obj);
	return ret;
}
