// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_client: clients (open files), and the life of objects and ids.
 *
 * Objects are made in three steps.  The ioctl's handler allocates and
 * initializes the object (gpumem_object_init) and reserves an id for it
 * (gpumem_object_reserve).  If the whole ioctl succeeds, the dispatcher stores
 * the object under that id (gpumem_object_finalize).  Until then lookups do not
 * find the object, so undoing a failure (gpumem_object_abort) has no races.
 *
 * An object lives as long as it has references: its id holds one, and so does
 * each user of the object.  Destroying an id calls the type's handle_gone and
 * drops the id's reference.  It cannot fail and does not wait for userspace.  The
 * id is free before handle_gone, unless the object has keeps_id.  Then it is
 * reserved again, and free when handle_gone has returned: residency words contain
 * the id, so they are hidden before another object gets it.
 *
 * A client *ends* when its last descriptor is closed or when the address space
 * that opened it ends, whichever is first.  Its streams are cancelled, its
 * workers are asked to end, its timelines are lost, its tokens are revoked and
 * all its ids are destroyed.  Objects that other clients or drivers still use
 * (exported memory) outlive the client.  No ioctl of the client is under way
 * then: an ioctl needs that address space and a descriptor.
 *
 * The last close does this work itself.  The MMU notifier's .release only marks
 * the client dead and queues the work, for two reasons: the kernel calls
 * .release under an SRCU that all MMU notifiers share, so slow work there would
 * delay the end of every other process and virtual machine; and callers of
 * mmput() may hold any lock.  The work is delayed, so that a process that exits
 * closes its descriptors first, does the work itself and is charged for it.
 *
 * A client is *orphaned* when the process that opened it is killed or executes
 * another program while the address space lives on (vfork(), CLONE_VM).  The
 * client's workers end with the process, and the kernel creates no new ones, so
 * the client's streams are cancelled.  The client's objects stay, because the
 * other process of the address space may still execute ioctls.
 *
 * Netlink (gpumem_netlink.c) lists clients and their objects.  For these lists,
 * the table gpumem_clients has all clients until they are freed, and
 * client->gone has the client's objects that outlive their ids.  A list takes
 * no reference on an object: it copies the object's description under the lock
 * that keeps the object in its table.
 *
 * Locks: client->lock protects the growth of client->devices, client->gone_lock
 * the tree client->gone, and the xarrays' own locks the tables of clients and
 * ids.
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/nospec.h>
#include <linux/pid.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "gpumem_bo.h"
#include "gpumem_cache.h"
#include "gpumem_client.h"
#include "gpumem_delay.h"
#include "gpumem_device.h"
#include "gpumem_event.h"
#include "gpumem_ioctl.h"
#include "gpumem_lock.h"
#include "gpumem_object.h"
#include "gpumem_pool.h"
#include "gpumem_publish.h"
#include "gpumem_refusal.h"
#include "gpumem_resident.h"
#include "gpumem_resv.h"
#include "gpumem_runner.h"
#include "gpumem_stream.h"
#include "gpumem_timeline.h"
#include "gpumem_token.h"
#include "gpumem_trace.h"
#include "gpumem_user.h"
#include "gpumem_vm.h"

/* Time that an exiting process gets to close its descriptors. */
#define GPUMEM_CLIENT_END_DELAY	msecs_to_jiffies(100)

static struct workqueue_struct *gpumem_client_wq;
static DEFINE_XARRAY_ALLOC1(gpumem_clients);
static u32 gpumem_client_last;

/* Incremented whenever the lists of clients and objects change. */
atomic_t gpumem_generation = ATOMIC_INIT(1);

static const struct gpumem_object_ops gpumem_object_ops[GPUMEM_OBJ_TYPES] = {
	[GPUMEM_OBJ_BO] = {
		.handle_gone = gpumem_bo_handle_gone,
		.release = gpumem_bo_release,
	},
	[GPUMEM_OBJ_TOKEN] = {
		.handle_gone = gpumem_token_handle_gone,
		.release = gpumem_token_release,
	},
	[GPUMEM_OBJ_VM] = {
		.release = gpumem_vm_release,
	},
	[GPUMEM_OBJ_STREAM] = {
		.handle_gone = gpumem_stream_handle_gone,
		.release = gpumem_stream_release,
	},
	[GPUMEM_OBJ_TIMELINE] = {
		.handle_gone = gpumem_timeline_handle_gone,
		.release = gpumem_timeline_release,
	},
	[GPUMEM_OBJ_TIMELINE_REF] = {
		.release = gpumem_timeline_ref_release,
	},
	[GPUMEM_OBJ_EVENT] = {
		.handle_gone = gpumem_event_handle_gone,
		.release = gpumem_event_release,
	},
	[GPUMEM_OBJ_POOL] = {
		.handle_gone = gpumem_pool_handle_gone,
		.release = gpumem_pool_release,
	},
	[GPUMEM_OBJ_POOL_REF] = {
		.release = gpumem_pool_ref_release,
	},
};

/**
 * gpumem_object_init - initialize the head of a new object
 * @obj: head, in zeroed memory
 * @client: client whose counters include the object; gets a reference
 * @type: type of the object
 *
 * The caller owns the only reference.
 */
void gpumem_object_init(struct gpumem_object *obj, struct gpumem_client *client,
			enum gpumem_objtype type)
{
	kref_init(&obj->ref);
	kref_get(&client->ref);
	obj->client = client;
	obj->type = type;
}

/**
 * gpumem_object_reserve - get an id for an object that is not visible yet
 * @ucmd: ioctl under way; the dispatcher finalizes or aborts the object
 * @obj: object; on success @ucmd takes the caller's reference
 *
 * Return: 0, -ENOMEM or -EMFILE.
 */
int gpumem_object_reserve(struct gpumem_ucmd *ucmd, struct gpumem_object *obj)
{
	struct gpumem_client *client = ucmd->client;
	unsigned int i = ucmd->new[0] ? 1 : 0;
	int ret;

	if (WARN_ON_ONCE(ucmd->new[i]))
		return -EINVAL;
	ret = xa_alloc(&client->objects, &obj->id, XA_ZERO_ENTRY,
		       XA_LIMIT(1, GPUMEM_MAX_OBJECTS - 1), GFP_KERNEL_ACCOUNT);
	if (ret == -EBUSY) {
		gpumem_refused(client, &(struct gpumem_refusal) {
			.limit = GPUMEM_LIMIT_OBJECTS,
			.dev = client->devices[0],
			.asked = 1,
			.used = atomic64_read(&client->count.objects),
			.max = GPUMEM_MAX_OBJECTS - 1,
		});
		return -EMFILE;
	}
	if (ret)
		return ret;
	atomic64_inc(&client->count.objects);
	ucmd->new[i] = obj;
	return 0;
}

static void gpumem_object_brief(struct gpumem_object *obj,
				struct gpumem_object_brief *brief)
{
	memset(brief, 0, sizeof(*brief));
	brief->id = obj->id;
	brief->type = obj->type;
	switch (obj->type) {
	case GPUMEM_OBJ_BO:
		gpumem_bo_brief(container_of(obj, struct gpumem_bo, obj),
				brief);
		break;
	case GPUMEM_OBJ_TOKEN:
		brief->length = container_of(obj, struct gpumem_token,
					     obj)->length;
		break;
	case GPUMEM_OBJ_STREAM:
		brief->dev = container_of(obj, struct gpumem_stream, obj)->dev;
		break;
	case GPUMEM_OBJ_POOL:
		gpumem_pool_brief(container_of(obj, struct gpumem_pool, obj),
				  brief);
		break;
	case GPUMEM_OBJ_POOL_REF:
		gpumem_pool_ref_brief(container_of(obj, struct gpumem_pool_ref,
						   obj), brief);
		break;
	default:
		break;
	}
}

static void gpumem_object_trace_new(struct gpumem_object *obj)
{
	struct gpumem_object_brief brief;

	gpumem_object_brief(obj, &brief);
	trace_gpumem_object_new(obj, &brief);
}

/**
 * gpumem_object_finalize - make a reserved object visible
 * @obj: object; its id owns the caller's reference from now on
 */
void gpumem_object_finalize(struct gpumem_object *obj)
{
	void *old;

	/* Afterwards another thread may destroy it. */
	if (trace_gpumem_object_new_enabled())
		gpumem_object_trace_new(obj);
	old = xa_store(&obj->client->objects, obj->id, obj, GFP_KERNEL);
	/* The slot was allocated with the id. */
	WARN_ON(xa_is_err(old));
	atomic_inc(&gpumem_generation);
}

/**
 * gpumem_object_abort - give a reserved object up
 * @obj: object; the caller's reference is dropped
 */
void gpumem_object_abort(struct gpumem_object *obj)
{
	if (!obj->keeps_id)
		xa_erase(&obj->client->objects, obj->id);
	gpumem_object_handle_gone(obj);
}

/**
 * gpumem_object_get_any - look an id up
 * @client: whose id it is
 * @id: id
 *
 * Return: the object with a reference, or NULL.
 */
struct gpumem_object *gpumem_object_get_any(struct gpumem_client *client,
					    u32 id)
{
	struct gpumem_object *obj;

	xa_lock(&client->objects);
	obj = xa_load(&client->objects, id);
	if (obj)
		kref_get(&obj->ref);
	xa_unlock(&client->objects);
	return obj;
}

/**
 * gpumem_object_get - look up an id of one type
 * @client: whose id it is
 * @id: id
 * @type: type
 *
 * Return: the object with a reference, or NULL.
 */
struct gpumem_object *gpumem_object_get(struct gpumem_client *client, u32 id,
					enum gpumem_objtype type)
{
	struct gpumem_object *obj;

	xa_lock(&client->objects);
	obj = xa_load(&client->objects, id);
	if (obj && obj->type == type)
		kref_get(&obj->ref);
	else
		obj = NULL;
	xa_unlock(&client->objects);
	return obj;
}

static void gpumem_object_release(struct kref *ref)
{
	struct gpumem_object *obj = container_of(ref, struct gpumem_object,
						 ref);
	struct gpumem_client *client = obj->client;

	trace_gpumem_object_free(obj);
	if (obj->serial) {
		spin_lock(&client->gone_lock);
		rb_erase(&obj->gone, &client->gone);
		spin_unlock(&client->gone_lock);
	}
	gpumem_object_ops[obj->type].release(obj);
	atomic_inc(&gpumem_generation);
	gpumem_client_put(client);
}

/**
 * gpumem_object_put - drop a reference
 * @obj: object
 *
 * Context: may sleep.
 */
void gpumem_object_put(struct gpumem_object *obj)
{
	kref_put(&obj->ref, gpumem_object_release);
}

static bool gpumem_object_gone_before(struct rb_node *a,
				      const struct rb_node *b)
{
	return rb_entry(a, struct gpumem_object, gone)->serial <
	       rb_entry(b, struct gpumem_object, gone)->serial;
}

/* List an object without an id in client->gone, if other references remain. */
static void gpumem_object_list_gone(struct gpumem_object *obj)
{
	struct gpumem_client *client = obj->client;

	/*
	 * Only the caller holds a reference.  A lookup by name may still take
	 * a reference, but does not keep it (gpumem_pool_named()).
	 */
	if (kref_read(&obj->ref) == 1)
		return;
	spin_lock(&client->gone_lock);
	obj->serial = ++client->gone_serial;
	rb_add(&obj->gone, &client->gone, gpumem_object_gone_before);
	spin_unlock(&client->gone_lock);
	atomic_inc(&gpumem_generation);
}

/**
 * gpumem_object_handle_gone - finish the destruction of an id
 * @obj: object that no lookup finds; its id is reserved if it has keeps_id.  The
 *	id's reference is dropped.
 *
 * Another object can get a reserved id once the type's handle_gone has returned.
 *
 * Context: may sleep.
 */
void gpumem_object_handle_gone(struct gpumem_object *obj)
{
	struct gpumem_client *client = obj->client;

	trace_gpumem_object_gone(obj);
	if (gpumem_object_ops[obj->type].handle_gone)
		gpumem_object_ops[obj->type].handle_gone(obj);
	if (obj->keeps_id)
		xa_erase(&client->objects, obj->id);
	atomic64_dec(&client->count.objects);
	gpumem_object_list_gone(obj);
	gpumem_object_put(obj);
}

static struct gpumem_object *gpumem_object_gone_from(struct rb_root *root,
						     u64 serial)
{
	struct rb_node *node = root->rb_node;
	struct gpumem_object *obj, *best = NULL;

	while (node) {
		obj = rb_entry(node, struct gpumem_object, gone);
		if (obj->serial >= serial) {
			best = obj;
			node = node->rb_left;
		} else {
			node = node->rb_right;
		}
	}
	return best;
}

/**
 * gpumem_object_next - list the objects of a client
 * @client: client
 * @pos: in: position to look from, at first 0; out: position of the object that
 *	was found.  The caller adds 1 for the next call.
 * @brief: out: description of the object
 *
 * Objects with ids come first, then objects that outlive their ids.  An object
 * whose id is destroyed during the walk may be returned twice.
 *
 * Return: false at the end.
 */
bool gpumem_object_next(struct gpumem_client *client, u64 *pos,
			struct gpumem_object_brief *brief)
{
	struct gpumem_object *obj;
	unsigned long id = *pos;

	if (*pos < GPUMEM_MAX_OBJECTS) {
		xa_lock(&client->objects);
		obj = xa_find(&client->objects, &id, GPUMEM_MAX_OBJECTS - 1,
			      XA_PRESENT);
		if (obj)
			gpumem_object_brief(obj, brief);
		xa_unlock(&client->objects);
		if (obj) {
			*pos = id;
			return true;
		}
		*pos = GPUMEM_MAX_OBJECTS;
	}
	spin_lock(&client->gone_lock);
	obj = gpumem_object_gone_from(&client->gone, *pos - GPUMEM_MAX_OBJECTS);
	if (obj) {
		gpumem_object_brief(obj, brief);
		brief->flags |= GPUMEM_OBJECT_FLAG_GONE;
		*pos = GPUMEM_MAX_OBJECTS + obj->serial;
	}
	spin_unlock(&client->gone_lock);
	return obj;
}

/**
 * gpumem_client_next - list the clients
 * @id: in: id to look from; out: id of the client that was found
 *
 * Return: the client with a reference, or NULL at the end.
 */
struct gpumem_client *gpumem_client_next(unsigned long *id)
{
	struct gpumem_client *client;

	xa_lock(&gpumem_clients);
	client = xa_find(&gpumem_clients, id, ULONG_MAX, XA_PRESENT);
	while (client && !kref_get_unless_zero(&client->ref))
		client = xa_find_after(&gpumem_clients, id, ULONG_MAX,
				       XA_PRESENT);
	xa_unlock(&gpumem_clients);
	return client;
}

int gpumem_ioctl_destroy(struct gpumem_ucmd *ucmd)
{
	struct gpumem_destroy *cmd = ucmd->cmd;
	struct gpumem_client *client = ucmd->client;
	XA_STATE(xas, &client->objects, cmd->id);
	struct gpumem_object *obj;

	xas_lock(&xas);
	obj = xas_load(&xas);
	/* The id is reserved: it is new, or another call destroys it. */
	if (xa_is_zero(obj))
		obj = NULL;
	/* The slot exists, so nothing is allocated. */
	if (obj)
		xas_store(&xas, obj->keeps_id ? XA_ZERO_ENTRY : NULL);
	xas_unlock(&xas);
	if (!obj)
		return -ENOENT;
	atomic_inc(&gpumem_generation);
	gpumem_delay(destroy);
	gpumem_object_handle_gone(obj);
	return 0;
}

/**
 * gpumem_client_device - look up an attached device
 * @client: client
 * @index: index under which the device is attached
 *
 * Return: the device or NULL.
 */
struct gpumem_device *gpumem_client_device(struct gpumem_client *client,
					   u32 index)
{
	/* Pairs with the release in gpumem_client_attach(). */
	unsigned int n = smp_load_acquire(&client->ndevices);

	if (index >= n)
		return NULL;
	return client->devices[array_index_nospec(index, n)];
}

/**
 * gpumem_client_device_index - index under which a device is attached
 * @client: client
 * @dev: device
 *
 * Return: the index, or -EACCES.
 */
int gpumem_client_device_index(struct gpumem_client *client,
			       struct gpumem_device *dev)
{
	/* Pairs with the release in gpumem_client_attach(). */
	unsigned int i, n = smp_load_acquire(&client->ndevices);

	for (i = 0; i < n; i++)
		if (client->devices[i] == dev)
			return i;
	return -EACCES;
}

/*
 * Attach @dev if the next free index is @index.  Return the index that @dev has
 * or would get, or -EMFILE.
 */
static int gpumem_client_attach(struct gpumem_client *client,
				struct gpumem_device *dev, int index)
{
	int ret;

	guard(mutex)(&client->lock);
	ret = gpumem_client_device_index(client, dev);
	if (ret >= 0)
		return ret;
	if (client->ndevices == GPUMEM_MAX_DEVICES)
		return -EMFILE;
	ret = client->ndevices;
	if (ret == index) {
		client->devices[ret] = dev;
		if (gpumem_device_pageable(dev))
			WRITE_ONCE(client->pageable,
				   client->pageable | BIT(ret));
		/* Readers take no lock. */
		smp_store_release(&client->ndevices, ret + 1);
	}
	return ret;
}

/*
 * The index is copied to the caller before the device is attached, so a failed
 * copy attaches nothing.
 *
 * cmd->fd is an open file of the device to attach.  The permissions of that
 * device's node therefore decide who may attach it.
 */
int gpumem_ioctl_device_attach(struct gpumem_ucmd *ucmd)
{
	struct gpumem_device_attach *cmd = ucmd->cmd;
	struct gpumem_client *client = ucmd->client;
	struct gpumem_client *other;
	struct gpumem_device *dev;
	struct file *file;
	int index = -1;
	int ret;

	if (cmd->flags)
		return -EOPNOTSUPP;
	file = fget(cmd->fd);
	if (!file)
		return -EBADF;
	if (file->f_op != &gpumem_fops) {
		fput(file);
		return -EINVAL;
	}
	other = file->private_data;
	dev = other->devices[0];
	/* Devices live as long as the module. */
	fput(file);
	while ((ret = gpumem_client_attach(client, dev, index)) != index) {
		if (ret < 0)
			return ret;
		index = ret;
		cmd->device = index;
		ret = gpumem_ucmd_respond(ucmd, sizeof(*cmd));
		if (ret)
			return ret;
	}
	return 0;
}

/* Destroy all ids of a dead client. */
static void gpumem_client_destroy_all(struct gpumem_client *client)
{
	struct gpumem_object *obj;
	unsigned long id;

	xa_for_each(&client->objects, id, obj) {
		/* The slot exists, so nothing is allocated. */
		if (obj->keeps_id)
			xa_store(&client->objects, id, XA_ZERO_ENTRY,
				 GFP_KERNEL);
		else
			xa_erase(&client->objects, id);
		atomic_inc(&gpumem_generation);
		gpumem_object_handle_gone(obj);
		cond_resched();
	}
}

/*
 * End a dead client, or cancel the streams of an orphaned one.  May be called
 * twice.  Waits for the slice that each stream is executing, but not for the
 * end of the workers.
 */
static void gpumem_client_end(struct gpumem_client *client)
{
	gpumem_stream_cancel_all(client);
	gpumem_runner_stop(client);
	if (test_bit(GPUMEM_CLIENT_DEAD, &client->state))
		gpumem_client_destroy_all(client);
}

static void gpumem_client_end_work(struct work_struct *work)
{
	struct gpumem_client *client = container_of(to_delayed_work(work),
						    struct gpumem_client, end);

	gpumem_client_end(client);
	gpumem_client_put(client);
}

/* Queue gpumem_client_end().  Context: any; the caller holds a reference. */
static void gpumem_client_end_later(struct gpumem_client *client,
				    unsigned long delay)
{
	kref_get(&client->ref);
	/* The work is queued already, or disabled by the last close. */
	if (!queue_delayed_work(gpumem_client_wq, &client->end, delay))
		gpumem_client_put(client);
}

/* Mark a client dead.  Return true for the first caller only. */
static bool gpumem_client_mark_dead(struct gpumem_client *client)
{
	if (test_and_set_bit(GPUMEM_CLIENT_DEAD, &client->state))
		return false;
	atomic_dec(&client->devices[0]->clients);
	atomic_inc(&gpumem_generation);
	return true;
}

/**
 * gpumem_client_orphan - the process that opened a client ends
 * @client: client
 *
 * Context: a worker that is killed; may hold vhost_task's mutex.
 */
void gpumem_client_orphan(struct gpumem_client *client)
{
	if (!test_and_set_bit(GPUMEM_CLIENT_ORPHANED, &client->state))
		gpumem_client_end_later(client, GPUMEM_CLIENT_END_DELAY);
}

static void gpumem_client_mm_release(struct mmu_notifier *notifier,
				     struct mm_struct *mm)
{
	struct gpumem_client *client = container_of(notifier,
						    struct gpumem_client,
						    notifier);

	/* .release must not wait, nor take a lock whose holders may wait. */
	gpumem_lockdep_release_begin();
	if (gpumem_client_mark_dead(client))
		gpumem_client_end_later(client, GPUMEM_CLIENT_END_DELAY);
	gpumem_lockdep_release_end();
}

/**
 * gpumem_client_flush - execute the queued ends of clients
 *
 * On return the memory that these clients freed can be allocated again.
 *
 * Context: may sleep, without locks.
 */
void gpumem_client_flush(void)
{
	struct gpumem_client *client;
	unsigned long id;

	for (id = 0; !fatal_signal_pending(current) &&
	     (client = gpumem_client_next(&id)); id++) {
		if (client->state)
			flush_delayed_work(&client->end);
		gpumem_client_put(client);
		cond_resched();
	}
	/* Kernel threads and exiting tasks defer the last fput() of memory. */
	flush_delayed_fput();
}

/**
 * gpumem_client_init - prepare what all clients share
 *
 * Return: 0 or -ENOMEM.
 */
int gpumem_client_init(void)
{
	gpumem_client_wq = alloc_workqueue("gpumem_client", WQ_UNBOUND, 0);
	return gpumem_client_wq ? 0 : -ENOMEM;
}

/**
 * gpumem_client_exit - undo gpumem_client_init()
 *
 * All clients are closed, so nothing is queued.
 */
void gpumem_client_exit(void)
{
	destroy_workqueue(gpumem_client_wq);
}

/* Only the end of the address space matters, not changes of its memory. */
static const struct mmu_notifier_ops gpumem_client_mn_ops = {
	.release = gpumem_client_mm_release,
};

/**
 * gpumem_client_create - create a client of the current address space
 * @dev: device that was opened
 *
 * Return: the client, or an ERR_PTR.
 */
struct gpumem_client *gpumem_client_create(struct gpumem_device *dev)
{
	struct gpumem_client *client;
	int ret;

	if (!current->mm)
		return ERR_PTR(-EPERM);
	client = kzalloc(sizeof(*client), GFP_KERNEL_ACCOUNT);
	if (!client)
		return ERR_PTR(-ENOMEM);
	kref_init(&client->ref);
	mutex_init(&client->lock);
	gpumem_lockdep_class(&client->lock, GPUMEM_LOCK_CLIENT);
	mutex_init(&client->pin_lock);
	gpumem_lockdep_class(&client->pin_lock, GPUMEM_LOCK_PIN);
	client->pins = RB_ROOT_CACHED;
	spin_lock_init(&client->stream_lock);
	gpumem_lockdep_class(&client->stream_lock, GPUMEM_LOCK_STREAM);
	INIT_LIST_HEAD(&client->streams);
	INIT_LIST_HEAD(&client->polling);
	gpumem_runner_init(&client->runner);
	INIT_LIST_HEAD(&client->managed_lru);
	gpumem_lane_init(&client->lane);
	spin_lock_init(&client->gone_lock);
	gpumem_lockdep_class(&client->gone_lock, GPUMEM_LOCK_GONE);
	init_waitqueue_head(&client->notice_wait);
	client->gone = RB_ROOT;
	xa_init_flags(&client->objects, XA_FLAGS_ALLOC1 | XA_FLAGS_ACCOUNT);
	client->devices[0] = dev;
	client->pageable = gpumem_device_pageable(dev);
	client->ndevices = 1;
	client->channel = -1;
	client->mm = current->mm;
	client->notifier.ops = &gpumem_client_mn_ops;
	client->pid = get_task_pid(current, PIDTYPE_TGID);
	client->cred = get_current_cred();
	get_task_comm(client->comm, current->group_leader);
	client->clock_offset = gpumem_clock_offset();
	INIT_DELAYED_WORK(&client->end, gpumem_client_end_work);
	client->user = gpumem_user_get(client->cred);
	if (IS_ERR(client->user)) {
		ret = PTR_ERR(client->user);
		client->user = NULL;
		goto err_free;
	}
	ret = gpumem_cache_open(client);
	if (ret)
		goto err_free;
	ret = xa_alloc_cyclic(&gpumem_clients, &client->id, XA_ZERO_ENTRY,
			      xa_limit_31b, &gpumem_client_last, GFP_KERNEL);
	if (ret < 0)
		goto err_cache;
	ret = mmu_notifier_register(&client->notifier, client->mm);
	/* A signal was pending: the task handles it, then repeats open(). */
	if (ret == -EINTR)
		ret = -ERESTARTNOINTR;
	if (ret)
		goto err_erase;
	mmgrab(client->mm);
	atomic_inc(&dev->clients);
	/* The slot was allocated with the id. */
	xa_store(&gpumem_clients, client->id, client, GFP_KERNEL);
	atomic_inc(&gpumem_generation);
	return client;

err_erase:
	xa_erase(&gpumem_clients, client->id);
err_cache:
	gpumem_cache_free(client);
err_free:
	gpumem_user_put(client->user);
	put_cred(client->cred);
	put_pid(client->pid);
	kfree(client);
	return ERR_PTR(ret);
}

/**
 * gpumem_client_close - end a client whose last descriptor was closed
 * @client: client; the file's reference is dropped
 */
void gpumem_client_close(struct gpumem_client *client)
{
	gpumem_client_mark_dead(client);
	/*
	 * Cancel the queued work: the closing task ends the client here, and is
	 * charged for it.  The work stays disabled, so none is left when the
	 * file drops its reference on the module.
	 */
	if (disable_delayed_work_sync(&client->end))
		gpumem_client_put(client);
	gpumem_client_end(client);
	/* The notifier finds the client dead already. */
	mmu_notifier_unregister(&client->notifier, client->mm);
	mmdrop(client->mm);
	client->mm = NULL;
	gpumem_client_put(client);
}

static void gpumem_client_free(struct kref *ref)
{
	struct gpumem_client *client = container_of(ref, struct gpumem_client,
						    ref);

	xa_erase(&gpumem_clients, client->id);
	atomic_inc(&gpumem_generation);
	gpumem_cache_free(client);
	gpumem_resident_free(client);
	gpumem_resv_free_client(client);
	gpumem_user_put(client->user);
	put_cred(client->cred);
	put_pid(client->pid);
	xa_destroy(&client->objects);
	mutex_destroy(&client->runner.grow);
	mutex_destroy(&client->pin_lock);
	mutex_destroy(&client->lock);
	kfree(client);
}

/**
 * gpumem_client_put - drop a reference
 * @client: client
 */
void gpumem_client_put(struct gpumem_client *client)
{
	kref_put(&client->ref, gpumem_client_free);
}
