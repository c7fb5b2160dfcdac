// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_ipc: tokens.
 *
 * A token is a random 128-bit number that names a range of a root for other
 * processes.  It travels by any means, works across pid, mount and network
 * namespaces, and is resolved here alone.
 *
 * A token holds no memory.  It is *live* while it points to its buffer object
 * and stands in the table; it is *revoked*, for good, when its own id goes, when
 * its range is retired, when the id of the buffer object goes, or when the client
 * ends.  Numbers are never used again, so an old token cannot name new memory.
 *
 * Opening a token makes a view of the whole pages around the range, and then
 * looks whether the token still lives.  So whoever revokes it and counts windows
 * afterwards sees every open that succeeded.
 *
 * A token opens for the user who made it, in the same user namespace, or, if its
 * maker says so, for everybody who can open the device.
 */
#include <linux/cred.h>
#include <linux/mm.h>
#include <linux/random.h>
#include <linux/rhashtable.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>

#include "gpumem_private.h"

/* Protects the table, gpumem_bo.tokens, and the link between the two. */
static DEFINE_MUTEX(gpumem_token_lock);
static struct rhashtable gpumem_tokens;

static const struct rhashtable_params gpumem_token_params = {
	.key_len = GPUMEM_TOKEN_SIZE,
	.key_offset = offsetof(struct gpumem_token, key),
	.head_offset = offsetof(struct gpumem_token, node),
	.automatic_shrinking = true,
};

/**
 * gpumem_ipc_init - prepare the table of tokens
 *
 * Return: 0 or a negative errno.
 */
int gpumem_ipc_init(void)
{
	gpumem_lockdep_class(&gpumem_token_lock, GPUMEM_LOCK_TOKEN);
	return rhashtable_init(&gpumem_tokens, &gpumem_token_params);
}

/**
 * gpumem_ipc_exit - free the table of tokens
 */
void gpumem_ipc_exit(void)
{
	rhashtable_destroy(&gpumem_tokens);
}

static void gpumem_token_revoke_locked(struct gpumem_token *token)
{
	lockdep_assert_held(&gpumem_token_lock);
	if (!token->bo)
		return;
	rhashtable_remove_fast(&gpumem_tokens, &token->node,
			       gpumem_token_params);
	list_del_init(&token->link);
	token->bo = NULL;
	atomic64_dec(&token->obj.client->count.tokens);
}

/**
 * gpumem_token_revoke - revoke all tokens that overlap a range
 * @bo: root
 * @offset: start of the range
 * @length: bytes, not 0, inside @bo
 */
void gpumem_token_revoke(struct gpumem_bo *bo, u64 offset, u64 length)
{
	struct gpumem_token *token, *next;

	guard(mutex)(&gpumem_token_lock);
	list_for_each_entry_safe(token, next, &bo->tokens, link)
		if (token->offset < offset + length &&
		    offset < token->offset + token->length)
			gpumem_token_revoke_locked(token);
}

/**
 * gpumem_token_revoke_all - revoke all tokens of a root and make no more
 * @bo: root whose id is gone
 */
void gpumem_token_revoke_all(struct gpumem_bo *bo)
{
	struct gpumem_token *token, *next;

	guard(mutex)(&gpumem_token_lock);
	bo->no_tokens = true;
	list_for_each_entry_safe(token, next, &bo->tokens, link)
		gpumem_token_revoke_locked(token);
}

/**
 * gpumem_token_handle_gone - the id of a token was destroyed
 * @obj: head of the token
 */
void gpumem_token_handle_gone(struct gpumem_object *obj)
{
	guard(mutex)(&gpumem_token_lock);
	gpumem_token_revoke_locked(container_of(obj, struct gpumem_token, obj));
}

/**
 * gpumem_token_release - free a token
 * @obj: head of the token, revoked, without references
 */
void gpumem_token_release(struct gpumem_object *obj)
{
	struct gpumem_token *token = container_of(obj, struct gpumem_token,
						  obj);

	if (token->cred)
		put_cred(token->cred);
	/* The table's resizing may still look at the node. */
	kfree_rcu(token, rcu);
}

static int gpumem_token_publish(struct gpumem_token *token,
				struct gpumem_bo *bo)
{
	int ret;

	guard(mutex)(&gpumem_token_lock);
	/* Another thread destroyed the id after we looked it up. */
	if (bo->no_tokens)
		return -ENOENT;
	ret = rhashtable_lookup_insert_fast(&gpumem_tokens, &token->node,
					    gpumem_token_params);
	if (ret)
		return ret;
	token->bo = bo;
	list_add(&token->link, &bo->tokens);
	atomic64_inc(&token->obj.client->count.tokens);
	return 0;
}

/**
 * gpumem_ioctl_token_create - GPUMEM_TOKEN_CREATE
 * @ucmd: ioctl under way
 *
 * Return: 0 or a negative errno.
 */
int gpumem_ioctl_token_create(struct gpumem_ucmd *ucmd)
{
	struct gpumem_token_create *cmd = ucmd->cmd;
	struct gpumem_token *token;
	struct gpumem_bo *bo;
	int ret;

	if (cmd->flags & ~GPUMEM_TOKEN_ANY_USER)
		return -EOPNOTSUPP;
	if (!cmd->length)
		return -EINVAL;
	bo = gpumem_bo_get(ucmd->client, cmd->bo);
	if (!bo)
		return -ENOENT;
	ret = -EINVAL;
	if (!gpumem_bo_is_own(bo))
		goto out_bo;
	ret = -EOVERFLOW;
	if (cmd->offset > bo->length || cmd->length > bo->length - cmd->offset)
		goto out_bo;
	ret = -ENOMEM;
	token = kzalloc(sizeof(*token), GFP_KERNEL_ACCOUNT);
	if (!token)
		goto out_bo;
	gpumem_object_init(&token->obj, ucmd->client, GPUMEM_OBJ_TOKEN);
	INIT_LIST_HEAD(&token->link);
	get_random_bytes(token->key, sizeof(token->key));
	token->offset = cmd->offset;
	token->length = cmd->length;
	token->flags = cmd->flags;
	token->cred = get_current_cred();
	ret = gpumem_token_publish(token, bo);
	if (ret)
		goto out_token;
	ret = gpumem_object_reserve(ucmd, &token->obj);
	if (ret) {
		gpumem_token_handle_gone(&token->obj);
		goto out_token;
	}
	cmd->id = token->obj.id;
	memcpy(cmd->token, token->key, sizeof(cmd->token));
	ret = gpumem_ucmd_respond(ucmd, sizeof(*cmd));
	goto out_bo;

out_token:
	gpumem_object_put(&token->obj);
out_bo:
	gpumem_object_put(&bo->obj);
	return ret;
}

static bool gpumem_token_permitted(const struct gpumem_token *token)
{
	if (token->flags & GPUMEM_TOKEN_ANY_USER)
		return true;
	return uid_eq(token->cred->euid, current_euid()) &&
	       token->cred->user_ns == current_user_ns();
}

/* What a live token names, with a reference on the root, if the caller may. */
static int gpumem_token_find(struct gpumem_ucmd *ucmd, u64 *first,
			     struct gpumem_bo **root)
{
	struct gpumem_token_open *cmd = ucmd->cmd;
	struct gpumem_token *token;
	int ret;

	guard(mutex)(&gpumem_token_lock);
	token = rhashtable_lookup_fast(&gpumem_tokens, cmd->token,
				       gpumem_token_params);
	if (!token)
		return -ENOENT;
	if (!gpumem_token_permitted(token))
		return -EACCES;
	ret = gpumem_client_device_index(ucmd->client, token->bo->dev);
	if (ret < 0)
		return ret;
	cmd->device = ret;
	cmd->delta = offset_in_page(token->offset);
	cmd->bytes = token->length;
	cmd->length = round_up(cmd->delta + token->length, PAGE_SIZE);
	cmd->result = token->obj.client == ucmd->client ?
		      GPUMEM_TOKEN_OPEN_OWN : 0;
	/* A live token's buffer object has an id and so a reference. */
	kref_get(&token->bo->obj.ref);
	*root = token->bo;
	*first = token->offset >> PAGE_SHIFT;
	return 0;
}

static bool gpumem_token_lives(const u8 *key)
{
	guard(mutex)(&gpumem_token_lock);
	return rhashtable_lookup_fast(&gpumem_tokens, key, gpumem_token_params);
}

/**
 * gpumem_ioctl_token_open - GPUMEM_TOKEN_OPEN
 * @ucmd: ioctl under way
 *
 * Return: 0 or a negative errno.
 */
int gpumem_ioctl_token_open(struct gpumem_ucmd *ucmd)
{
	struct gpumem_token_open *cmd = ucmd->cmd;
	struct gpumem_bo *root, *view;
	u64 first;
	int ret;

	if (cmd->flags || cmd->reserved)
		return -EOPNOTSUPP;
	ret = gpumem_token_find(ucmd, &first, &root);
	if (ret)
		return ret;
	view = gpumem_bo_view(ucmd->client, root, first << PAGE_SHIFT,
			      cmd->length);
	gpumem_object_put(&root->obj);
	if (IS_ERR(view))
		return PTR_ERR(view);
	/* From here on a revoking owner counts the view. */
	ret = -ENOENT;
	if (gpumem_token_lives(cmd->token))
		ret = gpumem_object_reserve(ucmd, &view->obj);
	if (ret) {
		gpumem_object_put(&view->obj);
		return ret;
	}
	cmd->id = view->obj.id;
	return gpumem_ucmd_respond(ucmd, sizeof(*cmd));
}
