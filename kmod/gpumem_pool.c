// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_pool: pools of memory, whose chunks their makers sub-allocate.
 *
 * A pool has *chunks*: roots (gpumem_bo.c) that GPUMEM_BO_ALLOC made for it.
 * The maker alone allocates from the chunks, and chooses the next owner of each
 * range.  The kernel counts the chunks, enforces the pool's limit, and lets
 * other clients reach the chunks and nothing else.  Cached chunks
 * (gpumem_cache.c) are reported apart from the reserved bytes, but count for
 * the limit.
 *
 * *Reserved* are the bytes of the chunks' memory.  The charge belongs to the
 * memory itself: a chunk counts from before its memory is populated until its
 * file is released, so a view or a mapping that outlives the chunk's id keeps
 * counting for the limit.  *Used* is a counter that the maker states.  The
 * kernel only caps it at the reserved bytes.
 *
 * A chunk has a *number*, which is never used again in its pool.  Clients open
 * the chunk by this number while the chunk's id lives.  An open makes the view
 * first and then checks that the chunk still has its id: no open succeeds whose
 * view was made after the id was destroyed.
 *
 * The maker's id is the pool object itself.  Other clients have an *import*,
 * which opens chunks and allocates none.  A client imports a pool in one of two
 * ways:
 *
 *  - by a descriptor, which needs no other permission and works as long as it
 *    is open;
 *  - by a *name* (gpumem_name.c), while the maker's id lives.  The client must
 *    hold the channel (gpumem_channel.c) that the maker held when it asked for
 *    the name, and the name's scope must admit it (gpumem_scope.c).
 *
 * A pool lives while it has its id, imports, descriptors or charged memory.
 * All that time it is in the maker's counters and in the list of its objects.
 *
 * Locks: pool->lock (spin) protects the counters; cache->lock is inside it.
 * pool->name_lock (mutex) orders the name and the end of the id.  The xarray of
 * chunks has its own lock.
 */
#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/slab.h>

#include "gpumem_bo.h"
#include "gpumem_cache.h"
#include "gpumem_client.h"
#include "gpumem_device.h"
#include "gpumem_ioctl.h"
#include "gpumem_linger.h"
#include "gpumem_lock.h"
#include "gpumem_mem.h"
#include "gpumem_name.h"
#include "gpumem_object.h"
#include "gpumem_pool.h"
#include "gpumem_refusal.h"
#include "gpumem_scope.h"
#include "gpumem_shmem.h"
#include "gpumem_user.h"

/* Get the pool of an id, referenced.  Set @own if it is the maker's id. */
static struct gpumem_pool *gpumem_pool_get(struct gpumem_client *client, u32 id,
					   bool *own)
{
	struct gpumem_object *obj = gpumem_object_get_any(client, id);
	struct gpumem_pool *pool = NULL;

	if (!obj)
		return NULL;
	*own = obj->type == GPUMEM_OBJ_POOL;
	if (*own)
		return container_of(obj, struct gpumem_pool, obj);
	if (obj->type == GPUMEM_OBJ_POOL_REF) {
		pool = container_of(obj, struct gpumem_pool_ref, obj)->pool;
		kref_get(&pool->obj.ref);
	}
	gpumem_object_put(obj);
	return pool;
}

/**
 * gpumem_pool_get_own - look up a pool that a client made
 * @client: client
 * @id: of the pool
 *
 * Return: the pool with a reference, or an ERR_PTR: -ENOENT, or -EACCES if the
 * pool is imported.
 */
struct gpumem_pool *gpumem_pool_get_own(struct gpumem_client *client, u32 id)
{
	bool own;
	struct gpumem_pool *pool = gpumem_pool_get(client, id, &own);

	if (!pool)
		return ERR_PTR(-ENOENT);
	if (!own) {
		gpumem_object_put(&pool->obj);
		return ERR_PTR(-EACCES);
	}
	return pool;
}

static bool gpumem_pool_try_claim(struct gpumem_pool *pool, u64 length,
				  u64 *have)
{
	u64 limit = pool->counters.limit;
	bool fits;

	spin_lock(&pool->lock);
	*have = pool->counters.reserved + pool->pending;
	/* Earlier claims are within the limit, so this does not wrap. */
	fits = !limit || length <= limit - *have;
	if (fits)
		pool->pending += length;
	spin_unlock(&pool->lock);
	return fits;
}

static struct gpumem_mem *gpumem_pool_mem(struct gpumem_pool *pool)
{
	return pool->flags & GPUMEM_POOL_HOST ? &gpumem_host_mem :
						&pool->dev->mem;
}

/**
 * gpumem_pool_claim - claim a new chunk's bytes within the limit
 * @pool: pool
 * @client: its maker
 * @length: bytes of the chunk; gpumem_pool_charge() or gpumem_pool_unclaim()
 *	ends the claim
 *
 * Context: without locks.
 * Return: 0 or -EDQUOT.
 */
int gpumem_pool_claim(struct gpumem_pool *pool, struct gpumem_client *client,
		      u64 length)
{
	const struct gpumem_cache_filter f = { .client = client, .pool = pool };
	u64 have;

	if (gpumem_pool_try_claim(pool, length, &have))
		return 0;
	/* Kernel threads and exiting tasks defer the last fput(). */
	flush_delayed_fput();
	gpumem_linger_make_room(gpumem_pool_mem(pool));
	if (gpumem_pool_try_claim(pool, length, &have))
		return 0;
	while (length <= pool->counters.limit && gpumem_cache_take(&f, length))
		if (gpumem_pool_try_claim(pool, length, &have))
			return 0;
	gpumem_refused(client, &(struct gpumem_refusal) {
		.limit = GPUMEM_LIMIT_POOL,
		.dev = pool->dev,
		.pool = pool->obj.id,
		.asked = length,
		.used = have,
		.max = pool->counters.limit,
	});
	return -EDQUOT;
}

/**
 * gpumem_pool_unclaim - undo gpumem_pool_claim(): the chunk was not made
 * @pool: pool
 * @length: bytes
 */
void gpumem_pool_unclaim(struct gpumem_pool *pool, u64 length)
{
	spin_lock(&pool->lock);
	pool->pending -= length;
	spin_unlock(&pool->lock);
}

/**
 * gpumem_pool_counters_locked - counters of a pool, for reports
 * @pool: pool, locked
 * @counters: its own, but @reserved without the cached bytes, out
 *
 * Context: atomic.
 */
void gpumem_pool_counters_locked(struct gpumem_pool *pool,
				 struct gpumem_pool_counters *counters)
{
	const struct gpumem_cache_filter f = { .pool = pool };
	u64 cached;

	lockdep_assert_held(&pool->lock);
	cached = gpumem_cache_bytes(pool->obj.client, &f);
	*counters = pool->counters;
	/* A cached chunk has its memory, so its bytes are reserved, too. */
	counters->cached = min(cached, counters->reserved);
	counters->reserved -= counters->cached;
	counters->reserved_high = max(counters->reserved_high,
				      counters->reserved);
	counters->used = min(counters->used, counters->reserved);
}

/**
 * gpumem_pool_charge - count the memory of a new chunk
 * @pool: pool
 * @length: bytes, claimed before
 * @charge: of the chunk's memory; gets a reference on the pool
 */
void gpumem_pool_charge(struct gpumem_pool *pool, u64 length,
			struct gpumem_charge *charge)
{
	struct gpumem_pool_counters *f = &pool->counters, now;

	kref_get(&pool->obj.ref);
	charge->pool = pool;
	charge->pool_bytes = length;
	atomic64_add(length, &pool->obj.client->count.pool_reserved);
	spin_lock(&pool->lock);
	pool->pending -= length;
	f->reserved += length;
	f->chunks++;
	pool->peak = max(pool->peak, f->reserved);
	gpumem_pool_counters_locked(pool, &now);
	f->reserved_high = now.reserved_high;
	spin_unlock(&pool->lock);
}

/**
 * gpumem_pool_forget_locked - take a chunk's memory out of the reserved bytes
 * @charge: of the memory; its pool is locked, and still referenced afterwards
 *
 * Context: atomic.
 */
void gpumem_pool_forget_locked(struct gpumem_charge *charge)
{
	struct gpumem_pool *pool = charge->pool;
	struct gpumem_pool_counters *f = &pool->counters;

	lockdep_assert_held(&pool->lock);
	f->reserved -= charge->pool_bytes;
	f->used = min(f->used, f->reserved);
	atomic64_sub(charge->pool_bytes,
		     &pool->obj.client->count.pool_reserved);
	charge->pool_bytes = 0;
}

/**
 * gpumem_pool_uncharge - end the count of a chunk whose memory was freed
 * @charge: of the memory; without a pool, nothing happens
 *
 * Context: may sleep.
 */
void gpumem_pool_uncharge(struct gpumem_charge *charge)
{
	struct gpumem_pool *pool = charge->pool;

	if (!pool)
		return;
	spin_lock(&pool->lock);
	gpumem_pool_forget_locked(charge);
	pool->counters.chunks--;
	spin_unlock(&pool->lock);
	charge->pool = NULL;
	gpumem_object_put(&pool->obj);
}

/**
 * gpumem_pool_add_chunk - let a chunk be opened
 * @pool: pool
 * @bo: new root, charged to @pool; gets its number
 *
 * Return: 0 or -ENOMEM.
 */
int gpumem_pool_add_chunk(struct gpumem_pool *pool, struct gpumem_bo *bo)
{
	u64 number = atomic64_inc_return(&pool->last_chunk);
	int ret = xa_insert(&pool->chunks, number, bo, GFP_KERNEL_ACCOUNT);

	if (!ret)
		bo->chunk = number;
	return ret;
}

/**
 * gpumem_pool_remove_chunk - a chunk's id is gone: keep it from being opened
 * @bo: root; nothing happens if it is no chunk
 */
void gpumem_pool_remove_chunk(struct gpumem_bo *bo)
{
	if (bo->pool && bo->chunk)
		xa_erase(&bo->pool->chunks, bo->chunk);
}

/* The chunk of a number with a reference, or NULL. */
static struct gpumem_bo *gpumem_pool_chunk_get(struct gpumem_pool *pool,
					       u64 number)
{
	struct gpumem_bo *bo;

	xa_lock(&pool->chunks);
	bo = xa_load(&pool->chunks, number);
	/* A chunk in the xarray has its id's reference. */
	if (bo)
		kref_get(&bo->obj.ref);
	xa_unlock(&pool->chunks);
	return bo;
}

/**
 * gpumem_pool_brief - describe a pool to other processes
 * @pool: pool, not about to be freed
 * @brief: device, name and counters are set
 *
 * Context: atomic.
 */
void gpumem_pool_brief(struct gpumem_pool *pool,
		       struct gpumem_object_brief *brief)
{
	brief->dev = pool->dev;
	memcpy(brief->name, pool->name, sizeof(brief->name));
	spin_lock(&pool->lock);
	gpumem_pool_counters_locked(pool, &brief->pool);
	spin_unlock(&pool->lock);
}

/**
 * gpumem_pool_ref_brief - describe an import to other processes
 * @ref: import, not about to be freed
 * @brief: device and name are set
 *
 * Context: atomic.
 */
void gpumem_pool_ref_brief(struct gpumem_pool_ref *ref,
			   struct gpumem_object_brief *brief)
{
	brief->dev = ref->pool->dev;
	memcpy(brief->name, ref->pool->name, sizeof(brief->name));
}

/**
 * gpumem_pool_handle_gone - the id of a pool was destroyed
 * @obj: head of the pool
 */
void gpumem_pool_handle_gone(struct gpumem_object *obj)
{
	struct gpumem_pool *pool = container_of(obj, struct gpumem_pool, obj);

	guard(mutex)(&pool->name_lock);
	if (pool->named)
		gpumem_name_remove(&pool->import_name);
	pool->named = false;
	WRITE_ONCE(pool->gone, true);
}

/**
 * gpumem_pool_release - free a pool
 * @obj: head of the pool, without references
 */
void gpumem_pool_release(struct gpumem_object *obj)
{
	struct gpumem_pool *pool = container_of(obj, struct gpumem_pool, obj);

	atomic64_dec(&obj->client->count.pools);
	atomic_dec(&pool->dev->pools);
	xa_destroy(&pool->chunks);
	gpumem_scope_release(&pool->scope);
	mutex_destroy(&pool->name_lock);
	/* A lookup or the table's resizing may still look at the node. */
	kfree_rcu(pool, rcu);
}

/**
 * gpumem_pool_ref_release - free an import
 * @obj: head of the import, without references
 */
void gpumem_pool_ref_release(struct gpumem_object *obj)
{
	struct gpumem_pool_ref *ref =
		container_of(obj, struct gpumem_pool_ref, obj);
	struct gpumem_pool *pool = ref->pool;

	atomic64_dec(&obj->client->count.pool_imports);
	spin_lock(&pool->lock);
	pool->counters.imports--;
	spin_unlock(&pool->lock);
	gpumem_object_put(&pool->obj);
	kfree(ref);
}

int gpumem_ioctl_pool_create(struct gpumem_ucmd *ucmd)
{
	struct gpumem_pool_create *cmd = ucmd->cmd;
	struct gpumem_device *dev;
	struct gpumem_pool *pool;
	int ret;

	if (cmd->flags & ~GPUMEM_POOL_HOST)
		return -EOPNOTSUPP;
	if (strnlen(cmd->name, sizeof(cmd->name)) == sizeof(cmd->name))
		return -EINVAL;
	dev = gpumem_client_device(ucmd->client, cmd->device);
	if (!dev)
		return -EACCES;
	pool = kzalloc(sizeof(*pool), GFP_KERNEL_ACCOUNT);
	if (!pool)
		return -ENOMEM;
	gpumem_object_init(&pool->obj, ucmd->client, GPUMEM_OBJ_POOL);
	pool->dev = dev;
	pool->flags = cmd->flags;
	strscpy_pad(pool->name, cmd->name, sizeof(pool->name));
	xa_init_flags(&pool->chunks, XA_FLAGS_ACCOUNT);
	spin_lock_init(&pool->lock);
	gpumem_lockdep_class(&pool->lock, GPUMEM_LOCK_POOL);
	mutex_init(&pool->name_lock);
	gpumem_lockdep_class(&pool->name_lock, GPUMEM_LOCK_POOL_NAME);
	pool->counters.limit = cmd->limit;
	atomic64_inc(&ucmd->client->count.pools);
	atomic_inc(&dev->pools);
	ret = gpumem_object_reserve(ucmd, &pool->obj);
	if (ret) {
		gpumem_object_put(&pool->obj);
		return ret;
	}
	cmd->id = pool->obj.id;
	return gpumem_ucmd_respond(ucmd, sizeof(*cmd));
}

int gpumem_ioctl_pool_set(struct gpumem_ucmd *ucmd)
{
	struct gpumem_pool_set *cmd = ucmd->cmd;
	struct gpumem_pool_counters *f;
	struct gpumem_pool *pool;

	if (cmd->flags || cmd->reserved)
		return -EOPNOTSUPP;
	pool = gpumem_pool_get_own(ucmd->client, cmd->id);
	if (IS_ERR(pool))
		return PTR_ERR(pool);
	f = &pool->counters;
	spin_lock(&pool->lock);
	f->used = min(cmd->used, f->reserved);
	f->used_high = clamp(cmd->used_high, f->used, pool->peak);
	f->reserved_high = max(f->reserved_high,
			       min(cmd->reserved_high, pool->peak));
	spin_unlock(&pool->lock);
	gpumem_object_put(&pool->obj);
	return 0;
}

/* Copy the answer out before the reset: a failed copy loses no maximum. */
int gpumem_ioctl_pool_info(struct gpumem_ucmd *ucmd)
{
	const u32 resets = GPUMEM_POOL_INFO_RESET_RESERVED |
			   GPUMEM_POOL_INFO_RESET_USED;
	struct gpumem_pool_info *cmd = ucmd->cmd;
	struct gpumem_pool_counters now, *f;
	struct gpumem_pool *pool;
	bool own;
	int ret;

	if (cmd->flags & ~resets || cmd->reserved)
		return -EOPNOTSUPP;
	pool = gpumem_pool_get(ucmd->client, cmd->id, &own);
	if (!pool)
		return -ENOENT;
	if (cmd->flags && !own) {
		ret = -EACCES;
		goto out_put;
	}
	f = &pool->counters;
	cmd->pool_flags = pool->flags | (own ? 0 : GPUMEM_POOL_IMPORTED);
	cmd->device = gpumem_client_device_index(ucmd->client, pool->dev);
	memcpy(cmd->name, pool->name, sizeof(cmd->name));
	spin_lock(&pool->lock);
	gpumem_pool_counters_locked(pool, &now);
	cmd->limit = now.limit;
	cmd->reserved_bytes = now.reserved;
	cmd->reserved_high = now.reserved_high;
	cmd->used = now.used;
	cmd->used_high = now.used_high;
	cmd->chunks = now.chunks;
	cmd->imports = now.imports;
	cmd->cached = now.cached;
	spin_unlock(&pool->lock);
	ret = gpumem_ucmd_respond(ucmd, sizeof(*cmd));
	if (ret)
		goto out_put;
	spin_lock(&pool->lock);
	gpumem_pool_counters_locked(pool, &now);
	if (cmd->flags & GPUMEM_POOL_INFO_RESET_RESERVED)
		f->reserved_high = now.reserved;
	if (cmd->flags & GPUMEM_POOL_INFO_RESET_USED)
		f->used_high = f->used;
	spin_unlock(&pool->lock);
out_put:
	gpumem_object_put(&pool->obj);
	return ret;
}

static int gpumem_pool_file_release(struct inode *inode, struct file *file)
{
	struct gpumem_pool *pool = file->private_data;

	gpumem_object_put(&pool->obj);
	return 0;
}

static const struct file_operations gpumem_pool_fops = {
	.owner = THIS_MODULE,
	.release = gpumem_pool_file_release,
	.llseek = noop_llseek,
};

static int gpumem_pool_export_fd(struct gpumem_ucmd *ucmd,
				 struct gpumem_pool *pool)
{
	struct gpumem_pool_export *cmd = ucmd->cmd;
	struct file *file;
	int ret;

	file = anon_inode_getfile("[gpumem-pool]", &gpumem_pool_fops, pool,
				  O_RDWR);
	if (IS_ERR(file))
		return PTR_ERR(file);
	/* The release of the file drops this reference. */
	kref_get(&pool->obj.ref);
	ret = get_unused_fd_flags(cmd->flags & GPUMEM_POOL_EXPORT_CLOEXEC ?
				  O_CLOEXEC : 0);
	if (ret < 0)
		goto err_file;
	cmd->fd = ret;
	memset(cmd->token, 0, sizeof(cmd->token));
	ret = gpumem_ucmd_respond(ucmd, sizeof(*cmd));
	if (ret)
		goto err_fd;
	fd_install(cmd->fd, file);
	return 0;

err_fd:
	put_unused_fd(cmd->fd);
err_file:
	fput(file);
	return ret;
}

/* Give a pool its name and the scope of it; @pool->name_lock is held. */
static int gpumem_pool_set_name(struct gpumem_pool *pool, int channel,
				enum gpumem_scope_kind kind)
{
	int ret = gpumem_scope_init(&pool->scope, pool->obj.client, kind);

	if (ret)
		return ret;
	gpumem_name_draw(&pool->import_name, &pool->obj);
	pool->channel = channel;
	ret = gpumem_name_insert(&pool->import_name);
	if (ret)
		gpumem_scope_release(&pool->scope);
	pool->named = !ret;
	return ret;
}

/* Return the name of a pool; give it one if it has none. */
static int gpumem_pool_name(struct gpumem_pool *pool, int channel,
			    enum gpumem_scope_kind kind, u8 *token)
{
	int ret;

	guard(mutex)(&pool->name_lock);
	/* Another thread destroyed the id after we looked it up. */
	if (pool->gone)
		return -ENOENT;
	if (!pool->named) {
		ret = gpumem_pool_set_name(pool, channel, kind);
		if (ret)
			return ret;
	}
	if (pool->scope.kind != kind)
		return -EEXIST;
	memcpy(token, pool->import_name.key, sizeof(pool->import_name.key));
	return 0;
}

/* The scope that a call asks for, or a negative errno. */
static int gpumem_pool_export_scope(u32 flags)
{
	switch (flags & (GPUMEM_POOL_EXPORT_SAME_USER |
			 GPUMEM_POOL_EXPORT_PID_NS)) {
	case 0:
		return GPUMEM_SCOPE_ANY;
	case GPUMEM_POOL_EXPORT_SAME_USER:
		return GPUMEM_SCOPE_USER;
	case GPUMEM_POOL_EXPORT_PID_NS:
		return GPUMEM_SCOPE_PID_NS;
	default:
		return -EINVAL;
	}
}

int gpumem_ioctl_pool_export(struct gpumem_ucmd *ucmd)
{
	struct gpumem_pool_export *cmd = ucmd->cmd;
	int channel = READ_ONCE(ucmd->client->channel);
	int kind = gpumem_pool_export_scope(cmd->flags);
	struct gpumem_pool *pool;
	int ret;

	if (cmd->flags & ~(GPUMEM_POOL_EXPORT_CLOEXEC |
			   GPUMEM_POOL_EXPORT_FABRIC |
			   GPUMEM_POOL_EXPORT_SAME_USER |
			   GPUMEM_POOL_EXPORT_PID_NS))
		return -EOPNOTSUPP;
	if (kind < 0)
		return kind;
	if (cmd->flags & GPUMEM_POOL_EXPORT_FABRIC ?
	    cmd->flags & GPUMEM_POOL_EXPORT_CLOEXEC :
	    kind != GPUMEM_SCOPE_ANY)
		return -EINVAL;
	pool = gpumem_pool_get_own(ucmd->client, cmd->id);
	if (IS_ERR(pool))
		return PTR_ERR(pool);
	if (!(cmd->flags & GPUMEM_POOL_EXPORT_FABRIC)) {
		ret = gpumem_pool_export_fd(ucmd, pool);
	} else if (channel < 0) {
		ret = -EPERM;
	} else {
		cmd->fd = -1;
		ret = gpumem_pool_name(pool, channel, kind, cmd->token) ?:
		      gpumem_ucmd_respond(ucmd, sizeof(*cmd));
	}
	gpumem_object_put(&pool->obj);
	return ret;
}

/* The pool of a descriptor, referenced, or an ERR_PTR. */
static struct gpumem_pool *gpumem_pool_of_fd(int fd)
{
	struct file *file = fget(fd);
	struct gpumem_pool *pool;

	if (!file)
		return ERR_PTR(-EBADF);
	if (file->f_op == &gpumem_pool_fops) {
		pool = file->private_data;
		kref_get(&pool->obj.ref);
	} else {
		pool = ERR_PTR(-EINVAL);
	}
	fput(file);
	return pool;
}

/* The pool of a name, referenced, or NULL. */
static struct gpumem_pool *gpumem_pool_lookup(const u8 *token)
{
	struct gpumem_object *obj = gpumem_name_get(token, GPUMEM_OBJ_POOL);

	return obj ? container_of(obj, struct gpumem_pool, obj) : NULL;
}

/*
 * Return true if a pool that was found by its name still has the name.  If so,
 * the caller took its reference before the id ended, and
 * gpumem_object_list_gone() sees this reference.
 */
static bool gpumem_pool_named(struct gpumem_pool *pool)
{
	guard(mutex)(&pool->name_lock);
	return pool->named;
}

/* The pool of a name, referenced; an ERR_PTR if @client may not import it. */
static struct gpumem_pool *gpumem_pool_of_name(struct gpumem_client *client,
					       const u8 *token)
{
	int channel = READ_ONCE(client->channel), ret = 0;
	struct gpumem_pool *pool;

	if (channel < 0)
		return ERR_PTR(-EPERM);
	pool = gpumem_pool_lookup(token);
	if (!pool)
		return ERR_PTR(-ENOENT);
	/* These were set before the name was in the table, and are constant. */
	if (pool->channel != channel || gpumem_scope_check(&pool->scope, client))
		ret = -EPERM;
	else if (!gpumem_pool_named(pool))
		ret = -ENOENT;
	if (!ret)
		return pool;
	gpumem_object_put(&pool->obj);
	return ERR_PTR(ret);
}

static struct gpumem_pool_ref *
gpumem_pool_ref_alloc(struct gpumem_client *client, struct gpumem_pool *pool)
{
	struct gpumem_pool_ref *ref = kzalloc(sizeof(*ref), GFP_KERNEL_ACCOUNT);

	if (!ref)
		return NULL;
	gpumem_object_init(&ref->obj, client, GPUMEM_OBJ_POOL_REF);
	kref_get(&pool->obj.ref);
	ref->pool = pool;
	atomic64_inc(&client->count.pool_imports);
	spin_lock(&pool->lock);
	pool->counters.imports++;
	spin_unlock(&pool->lock);
	return ref;
}

int gpumem_ioctl_pool_import(struct gpumem_ucmd *ucmd)
{
	struct gpumem_pool_import *cmd = ucmd->cmd;
	bool fabric = cmd->flags & GPUMEM_POOL_IMPORT_FABRIC;
	struct gpumem_pool_ref *ref;
	struct gpumem_pool *pool;
	int ret;

	if (cmd->flags & ~GPUMEM_POOL_IMPORT_FABRIC || cmd->reserved)
		return -EOPNOTSUPP;
	if (fabric ? cmd->fd != 0 :
		     !!memchr_inv(cmd->token, 0, sizeof(cmd->token)))
		return -EINVAL;
	pool = fabric ? gpumem_pool_of_name(ucmd->client, cmd->token) :
			gpumem_pool_of_fd(cmd->fd);
	if (IS_ERR(pool))
		return PTR_ERR(pool);
	ret = gpumem_client_device_index(ucmd->client, pool->dev);
	if (ret < 0)
		goto out_put;
	cmd->device = ret;
	cmd->pool_flags = pool->flags | GPUMEM_POOL_IMPORTED;
	cmd->result = pool->obj.client == ucmd->client ?
		      GPUMEM_POOL_IMPORT_OWN : 0;
	ref = gpumem_pool_ref_alloc(ucmd->client, pool);
	if (!ref) {
		ret = -ENOMEM;
		goto out_put;
	}
	ret = gpumem_object_reserve(ucmd, &ref->obj);
	if (ret) {
		gpumem_object_put(&ref->obj);
		goto out_put;
	}
	cmd->id = ref->obj.id;
	ret = gpumem_ucmd_respond(ucmd, sizeof(*cmd));
out_put:
	gpumem_object_put(&pool->obj);
	return ret;
}

static int gpumem_pool_chunk_open(struct gpumem_ucmd *ucmd,
				  struct gpumem_pool *pool)
{
	struct gpumem_pool_chunk_open *cmd = ucmd->cmd;
	struct gpumem_bo *root = gpumem_pool_chunk_get(pool, cmd->chunk);
	struct gpumem_bo *view;
	bool lives;
	int ret;

	if (!root)
		return -ENOENT;
	ret = gpumem_client_device_index(ucmd->client, root->dev);
	if (ret < 0)
		goto out_root;
	cmd->device = ret;
	view = gpumem_bo_view(ucmd->client, root, 0, root->length);
	if (IS_ERR(view)) {
		ret = PTR_ERR(view);
		goto out_root;
	}
	/* The view exists: succeed if the chunk still has its id. */
	lives = xa_load(&pool->chunks, cmd->chunk);
	ret = lives ? gpumem_object_reserve(ucmd, &view->obj) : -ENOENT;
	if (ret) {
		gpumem_object_put(&view->obj);
		goto out_root;
	}
	cmd->id = view->obj.id;
	cmd->length = view->length;
	ret = gpumem_ucmd_respond(ucmd, sizeof(*cmd));
out_root:
	gpumem_object_put(&root->obj);
	return ret;
}

int gpumem_ioctl_pool_chunk_open(struct gpumem_ucmd *ucmd)
{
	struct gpumem_pool_chunk_open *cmd = ucmd->cmd;
	struct gpumem_pool *pool;
	bool own;
	int ret;

	if (cmd->flags || cmd->reserved)
		return -EOPNOTSUPP;
	pool = gpumem_pool_get(ucmd->client, cmd->pool, &own);
	if (!pool)
		return -ENOENT;
	ret = gpumem_pool_chunk_open(ucmd, pool);
	gpumem_object_put(&pool->obj);
	return ret;
}
