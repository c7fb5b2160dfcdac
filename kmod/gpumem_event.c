// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_event: events that processes share.
 *
 * An event stands for a *point*: a stream's timeline and a value of it.  Recording
 * replaces the point, from whichever process; asking copies it, so a wait keeps
 * to what it was made for.  A point holds its timeline, not the stream: when the
 * stream or its process is gone before the value is reached, the timeline is
 * lost, and whoever waits is told.
 *
 * Each process that reaches an event has a handle of its own.  The maker's
 * handle bears the name, a random 128-bit number, by which others open it, and
 * the name dies with that handle.  The point lives as long as any handle.
 *
 * Who may open an event is its scope's to say (gpumem_scope.c).
 *
 * Locks: none for the table, whose buckets have locks of their own.  Lookups run
 * under RCU and take a reference on the handle.  A handle is listed once, by its
 * maker before it has an id, and taken off once, by the task that destroyed the id.
 */
#include <linux/random.h>
#include <linux/slab.h>

#include "gpumem_private.h"
#include "gpumem_table.h"

static struct rhashtable gpumem_events;

static const struct rhashtable_params gpumem_event_params = {
	.key_len = GPUMEM_TOKEN_SIZE,
	.key_offset = offsetof(struct gpumem_event, key),
	.head_offset = offsetof(struct gpumem_event, node),
	.automatic_shrinking = true,
};

/**
 * gpumem_event_init - prepare the table of events
 *
 * Return: 0 or a negative errno.
 */
int gpumem_event_init(void)
{
	return rhashtable_init(&gpumem_events, &gpumem_event_params);
}

/**
 * gpumem_event_exit - free the table of events
 */
void gpumem_event_exit(void)
{
	rhashtable_destroy(&gpumem_events);
}

static struct gpumem_event *gpumem_event_get(struct gpumem_client *client,
					     u32 id)
{
	struct gpumem_object *obj = gpumem_object_get(client, id,
						      GPUMEM_OBJ_EVENT);

	return obj ? container_of(obj, struct gpumem_event, obj) : NULL;
}

static void gpumem_point_free(struct kref *ref)
{
	struct gpumem_point *point = container_of(ref, struct gpumem_point,
						  ref);

	if (point->timeline)
		gpumem_object_put(&point->timeline->obj);
	kfree(point);
}

/* A handle of @point, whose reference becomes the handle's; NULL: no memory. */
static struct gpumem_event *gpumem_event_alloc(struct gpumem_client *client,
					       struct gpumem_point *point)
{
	struct gpumem_event *event = kzalloc(sizeof(*event),
					     GFP_KERNEL_ACCOUNT);

	if (!event)
		return NULL;
	gpumem_object_init(&event->obj, client, GPUMEM_OBJ_EVENT);
	event->point = point;
	return event;
}

static void gpumem_event_unlist(struct gpumem_event *event)
{
	if (event->listed)
		rhashtable_remove_fast(&gpumem_events, &event->node,
				       gpumem_event_params);
	event->listed = false;
}

/**
 * gpumem_event_handle_gone - the id of an event was destroyed
 * @obj: head of the handle
 */
void gpumem_event_handle_gone(struct gpumem_object *obj)
{
	gpumem_event_unlist(container_of(obj, struct gpumem_event, obj));
}

/**
 * gpumem_event_release - free a handle of an event
 * @obj: head of the handle, without references
 */
void gpumem_event_release(struct gpumem_object *obj)
{
	struct gpumem_event *event = container_of(obj, struct gpumem_event,
						  obj);

	kref_put(&event->point->ref, gpumem_point_free);
	gpumem_scope_release(&event->scope);
	/* A lookup or the table's resizing may still look at the node. */
	kfree_rcu(event, rcu);
}

static int gpumem_event_list(struct gpumem_event *event,
			     enum gpumem_scope_kind kind)
{
	int ret = gpumem_scope_init(&event->scope, event->obj.client, kind);

	if (ret)
		return ret;
	get_random_bytes(event->key, sizeof(event->key));
	ret = gpumem_table_insert(&gpumem_events, &event->node,
				  gpumem_event_params);
	event->listed = !ret;
	return ret;
}

/**
 * gpumem_ioctl_event_create - GPUMEM_EVENT_CREATE
 * @ucmd: ioctl under way
 *
 * Return: 0 or a negative errno.
 */
int gpumem_ioctl_event_create(struct gpumem_ucmd *ucmd)
{
	struct gpumem_event_create *cmd = ucmd->cmd;
	int kind = gpumem_scope_from_flags(cmd->flags);
	struct gpumem_event *event;
	struct gpumem_point *point;
	int ret;

	if (cmd->reserved)
		return -EOPNOTSUPP;
	if (kind < 0)
		return kind;
	point = kzalloc(sizeof(*point), GFP_KERNEL_ACCOUNT);
	if (!point)
		return -ENOMEM;
	kref_init(&point->ref);
	spin_lock_init(&point->lock);
	gpumem_lockdep_class(&point->lock, GPUMEM_LOCK_POINT);
	event = gpumem_event_alloc(ucmd->client, point);
	if (!event) {
		kfree(point);
		return -ENOMEM;
	}
	ret = gpumem_event_list(event, kind);
	if (!ret)
		ret = gpumem_object_reserve(ucmd, &event->obj);
	if (ret) {
		gpumem_event_unlist(event);
		gpumem_object_put(&event->obj);
		return ret;
	}
	cmd->id = event->obj.id;
	memcpy(cmd->token, event->key, sizeof(cmd->token));
	return gpumem_ucmd_respond(ucmd, sizeof(*cmd));
}

/* The maker's handle of a name, referenced, or NULL. */
static struct gpumem_event *gpumem_event_lookup(const u8 *key)
{
	struct gpumem_event *event;

	guard(rcu)();
	event = rhashtable_lookup(&gpumem_events, key, gpumem_event_params);
	/* Found while its last reference goes: kfree_rcu() keeps the memory. */
	if (event && !kref_get_unless_zero(&event->obj.ref))
		event = NULL;
	return event;
}

/* The point that a name stands for, with a reference, if the caller may. */
static struct gpumem_point *gpumem_event_find(struct gpumem_ucmd *ucmd)
{
	struct gpumem_event_open *cmd = ucmd->cmd;
	struct gpumem_event *event = gpumem_event_lookup(cmd->token);
	struct gpumem_point *point;
	int ret;

	if (!event)
		return ERR_PTR(-ENOENT);
	ret = gpumem_scope_check(&event->scope, ucmd->client);
	if (ret) {
		point = ERR_PTR(ret);
	} else {
		cmd->result = event->obj.client == ucmd->client ?
			      GPUMEM_EVENT_OPEN_OWN : 0;
		point = event->point;
		kref_get(&point->ref);
	}
	gpumem_object_put(&event->obj);
	return point;
}

/**
 * gpumem_ioctl_event_open - GPUMEM_EVENT_OPEN
 * @ucmd: ioctl under way
 *
 * Return: 0 or a negative errno.
 */
int gpumem_ioctl_event_open(struct gpumem_ucmd *ucmd)
{
	struct gpumem_event_open *cmd = ucmd->cmd;
	struct gpumem_point *point;
	struct gpumem_event *event;
	int ret;

	if (cmd->flags)
		return -EOPNOTSUPP;
	point = gpumem_event_find(ucmd);
	if (IS_ERR(point))
		return PTR_ERR(point);
	event = gpumem_event_alloc(ucmd->client, point);
	if (!event) {
		kref_put(&point->ref, gpumem_point_free);
		return -ENOMEM;
	}
	ret = gpumem_object_reserve(ucmd, &event->obj);
	if (ret) {
		gpumem_object_put(&event->obj);
		return ret;
	}
	cmd->id = event->obj.id;
	return gpumem_ucmd_respond(ucmd, sizeof(*cmd));
}

/**
 * gpumem_ioctl_event_record - GPUMEM_EVENT_RECORD
 * @ucmd: ioctl under way
 *
 * Return: 0 or a negative errno.
 */
int gpumem_ioctl_event_record(struct gpumem_ucmd *ucmd)
{
	struct gpumem_event_record *cmd = ucmd->cmd;
	struct gpumem_timeline *timeline = NULL;
	struct gpumem_event *event;
	struct gpumem_point *point;

	if (cmd->reserved)
		return -EOPNOTSUPP;
	if (!cmd->timeline && cmd->value)
		return -EINVAL;
	event = gpumem_event_get(ucmd->client, cmd->id);
	if (!event)
		return -ENOENT;
	if (cmd->timeline) {
		timeline = gpumem_timeline_get(ucmd->client, cmd->timeline);
		if (!timeline) {
			gpumem_object_put(&event->obj);
			return -ENOENT;
		}
		/* What others wait for must end when its process does. */
		if (!timeline->of_stream ||
		    timeline->obj.client != ucmd->client) {
			gpumem_object_put(&timeline->obj);
			gpumem_object_put(&event->obj);
			return -EINVAL;
		}
	}
	point = event->point;
	spin_lock(&point->lock);
	swap(point->timeline, timeline);
	point->value = cmd->value;
	spin_unlock(&point->lock);
	if (timeline)
		gpumem_object_put(&timeline->obj);
	gpumem_object_put(&event->obj);
	return 0;
}

/* What the event stands for now; the timeline has a reference. */
static struct gpumem_timeline *gpumem_event_point(struct gpumem_event *event,
						  u64 *value)
{
	struct gpumem_point *point = event->point;
	struct gpumem_timeline *timeline;

	spin_lock(&point->lock);
	timeline = point->timeline;
	if (timeline)
		kref_get(&timeline->obj.ref);
	*value = point->value;
	spin_unlock(&point->lock);
	return timeline;
}

/**
 * gpumem_ioctl_event_get - GPUMEM_EVENT_GET
 * @ucmd: ioctl under way
 *
 * Return: 0 or a negative errno.
 */
int gpumem_ioctl_event_get(struct gpumem_ucmd *ucmd)
{
	struct gpumem_event_get *cmd = ucmd->cmd;
	struct gpumem_timeline_ref *tref;
	struct gpumem_timeline *timeline;
	struct gpumem_event *event;
	u64 value;
	int ret = 0;

	if (cmd->flags & ~GPUMEM_EVENT_GET_QUERY || cmd->reserved)
		return -EOPNOTSUPP;
	event = gpumem_event_get(ucmd->client, cmd->id);
	if (!event)
		return -ENOENT;
	timeline = gpumem_event_point(event, &value);
	gpumem_object_put(&event->obj);
	cmd->state = timeline ? gpumem_timeline_state(timeline, value) :
				GPUMEM_EVENT_COMPLETE;
	cmd->timeline = 0;
	cmd->value = 0;
	if (cmd->state == GPUMEM_EVENT_PENDING &&
	    !(cmd->flags & GPUMEM_EVENT_GET_QUERY)) {
		ret = -ENOMEM;
		tref = gpumem_timeline_ref_alloc(ucmd->client, timeline);
		if (tref) {
			ret = gpumem_object_reserve(ucmd, &tref->obj);
			if (ret)
				gpumem_object_put(&tref->obj);
			else
				cmd->timeline = tref->obj.id;
		}
		cmd->value = value;
	}
	if (timeline)
		gpumem_object_put(&timeline->obj);
	return ret ?: gpumem_ucmd_respond(ucmd, sizeof(*cmd));
}
