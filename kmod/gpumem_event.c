// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_event: events that processes share.
 *
 * An event stands for a *point*: a stream's timeline and a value of it.  Any
 * process with a handle of the event may record it, which replaces the point.
 * GPUMEM_EVENT_GET copies the point, so a later record does not change a wait
 * for the copy.  A point references its timeline, not the stream: if the stream
 * or its process ends before the value is reached, the timeline is lost, and
 * all waits for it fail.
 *
 * Each process that opens an event has a handle of its own.  The handle of the
 * client that created the event (the maker) has the name (gpumem_name.c) by
 * which other clients open the event.  The name ends with the id of that
 * handle.  The point lives as long as any handle.
 *
 * An event's scope decides which processes may open it (gpumem_scope.c).
 *
 * Locks: point->lock protects a point.  gpumem_event.listed needs no lock: the
 * maker enters the name once, before the handle has an id, and the task that
 * destroys the id removes the name once.
 */
#include <linux/slab.h>

#include "gpumem_client.h"
#include "gpumem_event.h"
#include "gpumem_ioctl.h"
#include "gpumem_lock.h"
#include "gpumem_name.h"
#include "gpumem_object.h"
#include "gpumem_scope.h"
#include "gpumem_timeline.h"

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

/* Allocate a handle, which takes the caller's reference on @point, or NULL. */
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
		gpumem_name_remove(&event->name);
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
	gpumem_name_draw(&event->name, &event->obj);
	ret = gpumem_name_insert(&event->name);
	event->listed = !ret;
	return ret;
}

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
	memcpy(cmd->token, event->name.key, sizeof(cmd->token));
	return gpumem_ucmd_respond(ucmd, sizeof(*cmd));
}

/* Look up the maker's handle by name.  Return it, referenced, or NULL. */
static struct gpumem_event *gpumem_event_lookup(const u8 *key)
{
	struct gpumem_object *obj = gpumem_name_get(key, GPUMEM_OBJ_EVENT);

	return obj ? container_of(obj, struct gpumem_event, obj) : NULL;
}

/*
 * Look up an event by name and check its scope.  Return the event's point,
 * referenced, or an ERR_PTR.
 */
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
		/*
		 * Other processes may wait for the point.  Accept only a
		 * timeline that is lost when the recording process ends.
		 */
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

/* Copy the event's point.  The caller gets a reference on the timeline. */
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
