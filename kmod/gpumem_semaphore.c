// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_semaphore: timelines that clients share by descriptor, and fences of
 * sync_files as timelines.
 *
 * A client exports a timeline without a stream as a descriptor.  The descriptor
 * references the timeline and does nothing else.  Another client imports it: it
 * gets a handle (struct gpumem_timeline_ref) by which it waits for the timeline,
 * raises it and takes from it.  The timeline belongs to the client that made
 * it.  It is lost when that client's id is gone (gpumem_timeline.c), so a client
 * that waits for it does not outwait the death of its maker.
 *
 * The import of a sync_file makes a timeline of the importing client.  Such a
 * timeline has a struct gpumem_sync: a callback of the sync_file's fence queues
 * a work item, which raises the timeline to 1, or loses it if the fence has an
 * error.  No task waits for the fence.  The callback runs under the lock of the
 * fence, where timeline->lock must not be taken, hence the work item.
 *
 * The work item drops the reference on the fence, so a fence that is signalled is
 * not kept.  The destruction of the timeline's id waits for a work item that is
 * being executed, and removes the callback.  A fence that is never signalled is
 * therefore kept until the client destroys the id, or ends.
 *
 * Limits: imports count as objects of the importing client, descriptors as open
 * files of the process.
 *
 * Locks: none.
 */
#include <linux/anon_inodes.h>
#include <linux/dma-fence.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/sync_file.h>
#include <linux/workqueue.h>

#include "gpumem_client.h"
#include "gpumem_compat.h"
#include "gpumem_ioctl.h"
#include "gpumem_object.h"
#include "gpumem_semaphore.h"
#include "gpumem_timeline.h"

/**
 * struct gpumem_sync - a fence that raises a timeline
 */
struct gpumem_sync {
	/** @timeline: has this structure; constant */
	struct gpumem_timeline *timeline;
	/** @fence: referenced; NULL once @work was executed, which writes it */
	struct dma_fence *fence;
	/** @cb: added to @fence once; its list is empty before and after */
	struct dma_fence_cb cb;
	/** @work: queued by @cb; disabled when the id of @timeline is gone */
	struct work_struct work;
};

static void gpumem_sync_work(struct work_struct *work)
{
	struct gpumem_sync *sync = container_of(work, struct gpumem_sync, work);
	int status = dma_fence_get_status(sync->fence);

	dma_fence_put(sync->fence);
	sync->fence = NULL;
	if (status < 0) {
		gpumem_timeline_fail(sync->timeline, -status);
		gpumem_timeline_lose(sync->timeline);
	} else {
		gpumem_timeline_raise(sync->timeline, 1);
	}
}

static void gpumem_sync_signalled(struct dma_fence *fence,
				  struct dma_fence_cb *cb)
{
	struct gpumem_sync *sync = container_of(cb, struct gpumem_sync, cb);

	queue_work(gpumem_compat_unbound_wq, &sync->work);
}

/**
 * gpumem_sync_stop - let a fence raise its timeline no more
 * @timeline: timeline whose id is gone; any kind
 *
 * Context: may sleep until a work item of this timeline has been executed.
 */
void gpumem_sync_stop(struct gpumem_timeline *timeline)
{
	struct gpumem_sync *sync = timeline->sync;

	if (!sync)
		return;
	/* After this the callback cannot queue the work. */
	disable_work_sync(&sync->work);
	if (sync->fence)
		dma_fence_remove_callback(sync->fence, &sync->cb);
}

/**
 * gpumem_sync_free - free what a timeline of a fence has
 * @timeline: timeline without references; any kind
 */
void gpumem_sync_free(struct gpumem_timeline *timeline)
{
	struct gpumem_sync *sync = timeline->sync;

	if (!sync)
		return;
	dma_fence_put(sync->fence);
	kfree(sync);
}

/* Make a timeline for a fence, of which it takes the reference in any case. */
static struct gpumem_timeline *gpumem_sync_alloc(struct gpumem_client *client,
						 struct dma_fence *fence)
{
	struct gpumem_timeline *timeline = gpumem_timeline_alloc(client, 0,
								 false);
	struct gpumem_sync *sync;

	if (!timeline)
		goto err_put;
	sync = kzalloc(sizeof(*sync), GFP_KERNEL_ACCOUNT);
	if (!sync)
		goto err_free;
	sync->timeline = timeline;
	sync->fence = fence;
	INIT_LIST_HEAD(&sync->cb.node);
	INIT_WORK(&sync->work, gpumem_sync_work);
	timeline->sync = sync;
	return timeline;

err_free:
	gpumem_object_put(&timeline->obj);
err_put:
	dma_fence_put(fence);
	return NULL;
}

static int gpumem_sync_import(struct gpumem_ucmd *ucmd, struct dma_fence *fence)
{
	struct gpumem_timeline_import *cmd = ucmd->cmd;
	struct gpumem_timeline *timeline = gpumem_sync_alloc(ucmd->client,
							     fence);
	int ret;

	if (!timeline)
		return -ENOMEM;
	ret = gpumem_object_reserve(ucmd, &timeline->obj);
	if (ret) {
		gpumem_object_put(&timeline->obj);
		return ret;
	}
	/* From here on the end of the id removes the callback. */
	if (dma_fence_add_callback(fence, &timeline->sync->cb,
				   gpumem_sync_signalled))
		gpumem_sync_work(&timeline->sync->work);
	cmd->id = timeline->obj.id;
	cmd->result = GPUMEM_TIMELINE_IMPORT_FENCE;
	return 0;
}

static int gpumem_semaphore_release(struct inode *inode, struct file *file)
{
	struct gpumem_timeline *timeline = file->private_data;

	gpumem_object_put(&timeline->obj);
	return 0;
}

/* Two descriptors are of the same semaphore if they show the same number. */
static void gpumem_semaphore_show_fdinfo(struct seq_file *m, struct file *file)
{
	const struct gpumem_timeline *timeline = file->private_data;

	seq_printf(m, "gpumem-semaphore:\t%llu\n", timeline->number);
}

static const struct file_operations gpumem_semaphore_fops = {
	.owner = THIS_MODULE,
	.release = gpumem_semaphore_release,
	.show_fdinfo = gpumem_semaphore_show_fdinfo,
	.llseek = noop_llseek,
};

static int gpumem_semaphore_export(struct gpumem_ucmd *ucmd,
				   struct gpumem_timeline *timeline)
{
	struct gpumem_timeline_export *cmd = ucmd->cmd;
	struct file *file;
	int ret;

	file = anon_inode_getfile("[gpumem-semaphore]", &gpumem_semaphore_fops,
				  timeline, O_RDWR);
	if (IS_ERR(file))
		return PTR_ERR(file);
	/* The release of the file drops this reference. */
	kref_get(&timeline->obj.ref);
	ret = get_unused_fd_flags(cmd->flags & GPUMEM_TIMELINE_EXPORT_CLOEXEC ?
				  O_CLOEXEC : 0);
	if (ret < 0)
		goto err_file;
	cmd->fd = ret;
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

int gpumem_ioctl_timeline_export(struct gpumem_ucmd *ucmd)
{
	struct gpumem_timeline_export *cmd = ucmd->cmd;
	struct gpumem_timeline *timeline;
	int ret = -EINVAL;

	if (cmd->flags & ~GPUMEM_TIMELINE_EXPORT_CLOEXEC)
		return -EOPNOTSUPP;
	timeline = gpumem_timeline_get(ucmd->client, cmd->id);
	if (!timeline)
		return -ENOENT;
	if (!gpumem_timeline_fixed(timeline))
		ret = gpumem_semaphore_export(ucmd, timeline);
	gpumem_object_put(&timeline->obj);
	return ret;
}

static int gpumem_semaphore_import(struct gpumem_ucmd *ucmd,
				   struct gpumem_timeline *timeline)
{
	struct gpumem_timeline_import *cmd = ucmd->cmd;
	struct gpumem_timeline_ref *tref;
	int ret;

	tref = gpumem_timeline_ref_alloc(ucmd->client, timeline);
	if (!tref)
		return -ENOMEM;
	ret = gpumem_object_reserve(ucmd, &tref->obj);
	if (ret) {
		gpumem_object_put(&tref->obj);
		return ret;
	}
	cmd->id = tref->obj.id;
	cmd->result = timeline->counting ? GPUMEM_TIMELINE_IMPORT_COUNTING : 0;
	return 0;
}

int gpumem_ioctl_timeline_import(struct gpumem_ucmd *ucmd)
{
	struct gpumem_timeline_import *cmd = ucmd->cmd;
	struct dma_fence *fence;
	struct file *file;
	int ret;

	if (cmd->flags || cmd->reserved)
		return -EOPNOTSUPP;
	file = fget(cmd->fd);
	if (!file)
		return -EBADF;
	if (file->f_op == &gpumem_semaphore_fops) {
		/* The file keeps the timeline until the import has it. */
		ret = gpumem_semaphore_import(ucmd, file->private_data);
	} else {
		fence = IS_ENABLED(CONFIG_SYNC_FILE) ?
			sync_file_get_fence(cmd->fd) : NULL;
		ret = fence ? gpumem_sync_import(ucmd, fence) : -EINVAL;
	}
	fput(file);
	return ret ?: gpumem_ucmd_respond(ucmd, sizeof(*cmd));
}
