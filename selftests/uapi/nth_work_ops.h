/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The operations of t_fail_nth: address spaces, streams, timelines and events.  nth_ops.h has struct env.
 */
#ifndef NTH_WORK_OPS_H
#define NTH_WORK_OPS_H

#include "nth_ops.h"

static int vm_create(struct env *e)
{
	return gp_vm_create(e->fd, &e->id);
}

static int vm_map(struct env *e)
{
	return gp_vm_map(e->fd, e->vm, e->bo, 0, FREE, 4 * KIB, 1, 1);
}

static int vm_unmap(struct env *e)
{
	__u64 bytes = 0;
	int ret = gp_vm_unmap(e->fd, e->vm, FREE, 4 * KIB, &bytes);

	return !ret && bytes != 4 * KIB ? -EBADMSG : ret;
}

static int vm_unmap_half(struct env *e)
{
	__u64 bytes = 0;
	int ret = gp_vm_unmap(e->fd, e->vm, ADDR, MAPS / 2 * STRIDE, &bytes);

	return !ret && bytes != MAPS / 2 * 4 * KIB ? -EBADMSG : ret;
}

static int map_from(struct env *e, __u32 vm, unsigned int n)
{
	int ret = 0;

	for (unsigned int i = 0; !ret && i < n; i++)
		ret = gp_vm_map(e->fd, vm, e->bo, 0, ADDR + i * STRIDE, 4 * KIB, 1, 1);
	return ret;
}

static int vm_remap_half(struct env *e)
{
	return map_from(e, e->vm, MAPS / 2);
}

static int vm_full(struct env *e)
{
	int ret = vm_create(e);

	return ret ? ret : map_from(e, e->id, MAPS);
}

static int vm_access(struct env *e)
{
	return gp_vm_access(e->fd, e->vm, ADDR, 4 * KIB, 0, GPUMEM_ACCESS_READ);
}

static int vm_access_undo(struct env *e)
{
	return gp_vm_access(e->fd, e->vm, ADDR, 4 * KIB, 0,
			    GPUMEM_ACCESS_READ | GPUMEM_ACCESS_WRITE);
}

#define TILES_ADDR	(ADDR + 64 * MIB)

static int vm_sparse_map(struct env *e)
{
	return gp_vm_map_sparse(e->fd, e->vm, TILES_ADDR, 32 * MIB, 1, 1);
}

static int vm_sparse_unmap(struct env *e)
{
	return gp_vm_unmap(e->fd, e->vm, TILES_ADDR, 32 * MIB, NULL);
}

static int vm_sparse(struct env *e)
{
	int ret = vm_sparse_map(e);

	return ret ? ret : gp_bo_alloc(e->fd, GPUMEM_TILE_SIZE, &e->id);
}

static int vm_bind(struct env *e)
{
	/* The tiles are in two tables. */
	return gp_vm_bind(e->fd, e->vm, e->id, 0, 0, TILES_ADDR + 15 * MIB, 2 * MIB, 0);
}

static int vm_sparse_undo(struct env *e)
{
	int ret = vm_sparse_unmap(e);

	return ret ? ret : gp_destroy(e->fd, e->id);
}

static int stream_create(struct env *e)
{
	return gp_stream_create(e->fd, e->vm, 0, 16, &e->id, &e->id2);
}

static int stream_destroy(struct env *e)
{
	return gp_destroy(e->fd, e->id);
}

static int stream_undo(struct env *e)
{
	int ret = stream_destroy(e);

	return ret ? ret : gp_destroy(e->fd, e->id2);
}

static int stream_timeline_undo(struct env *e)
{
	return gp_destroy(e->fd, e->id2);
}

static int doorbell(struct env *e)
{
	return gp_doorbell(e->fd, e->stream.id);
}

/* The doorbell for an entry may fail: the entry stays, and the next doorbell executes it. */
static int submit_setup(struct env *e)
{
	struct gpumem_sqe sqe = sqe_fill(ADDR, 1, 7, 4096);

	stream_put(&e->stream, &sqe);
	__atomic_store_n(&e->stream.ring->tail, e->stream.tail, __ATOMIC_RELEASE);
	return 0;
}

static int submit_undo(struct env *e)
{
	return stream_sync(&e->stream);
}

static int timeline_create(struct env *e)
{
	return gp_timeline_create(e->fd, 5, &e->id);
}

static int timeline_signal(struct env *e)
{
	return gp_timeline_signal(e->fd, e->id, 7);
}

static int timeline_unchanged(struct env *e)
{
	struct gpumem_timeline_wait w;

	return gp_timeline_wait(e->fd, e->id, 0, 0, &w) || w.reached != 5 ? -EEXIST : 0;
}

static int counting_create(struct env *e)
{
	return gp_counting_create(e->fd, 5, &e->id);
}

static int timeline_take(struct env *e)
{
	__u64 value;

	return gp_timeline_take(e->fd, e->id, &value);
}

/* A call that failed took no signal: the next one gets the first. */
static int timeline_untaken(struct env *e)
{
	__u64 value;

	return gp_timeline_take(e->fd, e->id, &value) || value != 1 ? -EEXIST : 0;
}

static int timeline_export(struct env *e)
{
	e->exported = gp_timeline_export(e->fd, e->id, GPUMEM_TIMELINE_EXPORT_CLOEXEC);
	return e->exported < 0 ? e->exported : 0;
}

static int timeline_export_undo(struct env *e)
{
	return close(e->exported) ? -errno : gp_destroy(e->fd, e->id);
}

static int timeline_exported(struct env *e)
{
	int ret = timeline_create(e);

	return ret ? ret : timeline_export(e);
}

static int timeline_import(struct env *e)
{
	return gp_timeline_import(e->fd, e->exported, &e->id2, NULL);
}

static int timeline_import_undo(struct env *e)
{
	int ret = gp_destroy(e->fd, e->id2);

	return ret ? ret : timeline_export_undo(e);
}

static int timeline_imported(struct env *e)
{
	int ret = timeline_exported(e);

	return ret ? ret : timeline_import(e);
}

static int timeline_import_signal(struct env *e)
{
	return gp_timeline_signal(e->fd, e->id2, 7);
}

static int timeline_poll(struct env *e)
{
	int ret = gp_timeline_wait(e->fd, e->id, 6, 0, NULL);

	return ret == -ETIMEDOUT ? 0 : ret ? ret : -EBADMSG;
}

static int timeline_sleep(struct env *e)
{
	int ret = gp_timeline_wait(e->fd, e->id, 6, mono_ns() + NSEC / 1000, NULL);

	return ret == -ETIMEDOUT ? 0 : ret ? ret : -EBADMSG;
}

static int event_create(struct env *e)
{
	return gp_event_create(e->fd, &e->id2, e->name);
}

static int event_undo(struct env *e)
{
	return gp_destroy(e->fd, e->id2);
}

static int event_open(struct env *e)
{
	return gp_event_open(e->fd, e->name, &e->id, NULL);
}

static int event_open_undo(struct env *e)
{
	int ret = destroy(e);

	return ret ? ret : event_undo(e);
}

/* The timeline does not reach the recorded value before the client ends. */
static int event_record(struct env *e)
{
	return gp_event_record(e->fd, e->id2, e->stream.timeline, ~0ULL);
}

static int event_complete(struct env *e)
{
	struct gpumem_event_get get;
	int ret = gp_event_get(e->fd, e->id2, GPUMEM_EVENT_GET_QUERY, &get);

	return ret ? ret : get.state == GPUMEM_EVENT_COMPLETE ? 0 : -EEXIST;
}

static int event_pending(struct env *e)
{
	int ret = event_create(e);

	return ret ? ret : event_record(e);
}

static int event_get(struct env *e)
{
	struct gpumem_event_get get;
	int ret = gp_event_get(e->fd, e->id2, 0, &get);

	e->id = get.timeline;
	return ret ? ret : get.state == GPUMEM_EVENT_PENDING ? 0 : -EBADMSG;
}

static int event_query(struct env *e)
{
	struct gpumem_event_get get;
	int ret = gp_event_get(e->fd, e->id2, GPUMEM_EVENT_GET_QUERY, &get);

	return ret ? ret : get.state == GPUMEM_EVENT_PENDING ? 0 : -EBADMSG;
}

static int event_got(struct env *e)
{
	int ret = event_pending(e);

	return ret ? ret : event_get(e);
}

/* Waits for the timeline object that GPUMEM_EVENT_GET returned.  */
static int event_poll(struct env *e)
{
	int ret = gp_timeline_wait(e->fd, e->id, ~0ULL, 0, NULL);

	return ret == -ETIMEDOUT ? 0 : ret ? ret : -EBADMSG;
}

#endif
