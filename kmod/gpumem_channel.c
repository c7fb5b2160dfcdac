// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_channel: channels, by which the administrator lets groups of processes
 * share pools without passing descriptors.
 *
 * A channel is a minor number of the character device that /proc/devices lists
 * as GPUMEM_CHANNELS_NAME.  The module makes no nodes.  The administrator makes
 * them with mknod, one for each group of processes that are to share pools.
 * The node's owner and mode define the group.  A process that can open a
 * channel's node can make a client hold the channel (GPUMEM_CHANNEL_ATTACH).
 * The open file has no other use.
 *
 * A client holds one channel or none, and keeps it until the client ends.
 *
 * Locks: none.  client->channel is written once, by cmpxchg.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cdev.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/moduleparam.h>

#include "gpumem_client.h"
#include "gpumem_device.h"
#include "gpumem_ioctl.h"
#include "gpumem_pool.h"

#define GPUMEM_CHANNELS_MAX	65536

static unsigned int channels = 2048;
module_param(channels, uint, 0444);
MODULE_PARM_DESC(channels,
		 "Number of channels for sharing pools, 0 to 65536 (default 2048)");

static dev_t gpumem_channel_devt;
static struct cdev gpumem_channel_cdev;

static int gpumem_channel_open(struct inode *inode, struct file *file)
{
	if (!gpumem_is_live())
		return -ENXIO;
	return nonseekable_open(inode, file);
}

static const struct file_operations gpumem_channel_fops = {
	.owner = THIS_MODULE,
	.open = gpumem_channel_open,
	.llseek = noop_llseek,
};

/**
 * gpumem_channel_init - register the character device of channels
 *
 * Return: 0 or a negative errno.
 */
int gpumem_channel_init(void)
{
	int ret;

	if (channels > GPUMEM_CHANNELS_MAX) {
		pr_err("channels=%u: must be at most %u\n", channels,
		       GPUMEM_CHANNELS_MAX);
		return -EINVAL;
	}
	if (!channels)
		return 0;
	ret = alloc_chrdev_region(&gpumem_channel_devt, 0, channels,
				  GPUMEM_CHANNELS_NAME);
	if (ret)
		return ret;
	cdev_init(&gpumem_channel_cdev, &gpumem_channel_fops);
	gpumem_channel_cdev.owner = THIS_MODULE;
	ret = cdev_add(&gpumem_channel_cdev, gpumem_channel_devt, channels);
	if (ret)
		unregister_chrdev_region(gpumem_channel_devt, channels);
	return ret;
}

/**
 * gpumem_channel_exit - undo gpumem_channel_init()
 */
void gpumem_channel_exit(void)
{
	if (!channels)
		return;
	cdev_del(&gpumem_channel_cdev);
	unregister_chrdev_region(gpumem_channel_devt, channels);
}

/*
 * The number is copied to the caller before the client holds the channel, so a
 * failed copy changes nothing.
 */
int gpumem_ioctl_channel_attach(struct gpumem_ucmd *ucmd)
{
	struct gpumem_channel_attach *cmd = ucmd->cmd;
	struct gpumem_client *client = ucmd->client;
	struct file *file;
	int had, ret;

	if (cmd->flags)
		return -EOPNOTSUPP;
	file = fget(cmd->fd);
	if (!file)
		return -EBADF;
	if (file->f_op != &gpumem_channel_fops) {
		fput(file);
		return -EINVAL;
	}
	cmd->channel = iminor(file_inode(file)) - MINOR(gpumem_channel_devt);
	fput(file);
	had = READ_ONCE(client->channel);
	if (had >= 0 && had != cmd->channel)
		return -EEXIST;
	ret = gpumem_ucmd_respond(ucmd, sizeof(*cmd));
	if (ret)
		return ret;
	had = cmpxchg(&client->channel, -1, cmd->channel);
	return had >= 0 && had != cmd->channel ? -EEXIST : 0;
}
