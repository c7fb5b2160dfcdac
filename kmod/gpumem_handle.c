// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_handle: memory handles, the descriptors by which processes share whole
 * buffer objects.
 *
 * The file of a handle owns a window of the whole root (gpumem_bo.c).  The window
 * keeps the memory if the process that made it is gone, and GPUMEM_BO_RETIRE
 * counts it, because the handle can be imported at any time.  An import makes a
 * view of the whole root.  Every client that has the descriptor may import it,
 * as with a DMA-buf.
 *
 * A handle is no DMA-buf: other drivers cannot use it, and work on its memory
 * gets no fences.  The processes that share the memory order their work
 * themselves.
 *
 * Only a root that its client allocated has handles, and no chunk of a pool: a
 * client sub-allocates chunks, so it shares parts of them by tokens.
 *
 * A handle counts as an export of the root's client until its last descriptor
 * is closed.  So memory that only descriptors keep has an owner.
 *
 * Locks: none.
 */
#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/fs.h>

#include "gpumem_bo.h"
#include "gpumem_client.h"
#include "gpumem_device.h"
#include "gpumem_handle.h"
#include "gpumem_ioctl.h"
#include "gpumem_trace.h"

static void gpumem_handle_count(struct gpumem_bo *root, int by)
{
	struct gpumem_counters *count = &root->obj.client->count;

	atomic64_add(by, &count->exports);
	atomic64_add(by * (s64)root->length, &count->export_bytes);
	atomic_add(by, &root->dev->exports);
	if (by > 0)
		trace_gpumem_export_new(root->obj.client, root->dev,
					root->length, true);
	else
		trace_gpumem_export_free(root->obj.client, root->dev,
					 root->length, true);
}

static int gpumem_handle_release(struct inode *inode, struct file *file)
{
	struct gpumem_window *window = file->private_data;

	gpumem_handle_count(window->root, -1);
	gpumem_window_put(window);
	return 0;
}

static const struct file_operations gpumem_handle_fops = {
	.owner = THIS_MODULE,
	.release = gpumem_handle_release,
	.llseek = noop_llseek,
};

/**
 * gpumem_handle_export - make a handle of a buffer object
 * @ucmd: a GPUMEM_BO_EXPORT with GPUMEM_BO_EXPORT_HANDLE
 * @bo: that the command names, referenced
 *
 * Return: 0; -EOPNOTSUPP for managed memory; -EINVAL if @bo has no handles or
 * the range is not the whole of it; another negative errno.
 */
int gpumem_handle_export(struct gpumem_ucmd *ucmd, struct gpumem_bo *bo)
{
	struct gpumem_bo_export *cmd = ucmd->cmd;
	struct gpumem_window *window;
	struct file *file;
	int ret;

	if (bo->managed)
		return -EOPNOTSUPP;
	if (!gpumem_bo_is_own(bo) || bo->pool ||
	    cmd->flags & GPUMEM_BO_EXPORT_RDONLY ||
	    cmd->offset || cmd->length != bo->length)
		return -EINVAL;
	window = gpumem_window_create(bo, 0, bo->length);
	if (IS_ERR(window))
		return PTR_ERR(window);
	file = anon_inode_getfile("[gpumem-handle]", &gpumem_handle_fops,
				  window, O_RDWR);
	if (IS_ERR(file)) {
		gpumem_window_put(window);
		return PTR_ERR(file);
	}
	/* From here on the release of the file frees the window. */
	gpumem_handle_count(bo, 1);
	ret = get_unused_fd_flags(cmd->flags & GPUMEM_BO_EXPORT_CLOEXEC ?
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

/**
 * gpumem_handle_import - make a view of the root behind a handle
 * @client: whose object it becomes
 * @fd: descriptor
 * @device: index of the root's device in @client, out
 *
 * Return: the view, or an ERR_PTR: -EBADF, -EINVAL if @fd is no handle, -EACCES
 * if the device is not attached.
 */
struct gpumem_bo *gpumem_handle_import(struct gpumem_client *client, int fd,
				       u32 *device)
{
	struct file *file = fget(fd);
	struct gpumem_window *window;
	struct gpumem_bo *root, *bo;
	int index;

	if (!file)
		return ERR_PTR(-EBADF);
	if (file->f_op != &gpumem_handle_fops) {
		bo = ERR_PTR(-EINVAL);
		goto out;
	}
	window = file->private_data;
	root = window->root;
	index = gpumem_client_device_index(client, root->dev);
	if (index < 0) {
		bo = ERR_PTR(index);
		goto out;
	}
	*device = index;
	bo = gpumem_bo_view(client, root, 0, root->length);
out:
	fput(file);
	return bo;
}
