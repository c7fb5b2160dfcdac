// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_drv: module init and exit, device nodes and the table of ioctls.
 *
 * Every ioctl is one line of gpumem_ioctl_ops.  The caller states the length of
 * its structure in the first member.  gpumem_ioctl(), the dispatcher, copies
 * the structure into a zeroed kernel copy as long as the kernel's own
 * structure, and calls the handler.  The objects that the handler reserved
 * become visible only when the whole call, the copy back to the caller
 * included, has succeeded.
 *
 * Only the address space that opened a client can use it.  A child after
 * fork(), and a process that received the descriptor, get EPERM from every
 * ioctl, from mmap() and from read(), and EPOLLERR from poll(); they can close
 * the descriptor.
 *
 * A node exists from module init to module exit.  The module cannot be unloaded
 * while there are open files, DMA-bufs, descriptors of pools, memory or timelines
 * (the operations of all these name the module) or memory files (see
 * gpumem_shmem.c).
 *
 * When module init fails, the kernel frees the module even if files are open.
 * So the module is *live* from the moment when its init can no longer fail.
 * Until then the module refuses every operation that would take a reference on
 * it: opening a node or a channel, and netlink dumps.  The uevents of the nodes
 * are sent when the nodes can be opened.
 *
 * Locks: none.  gpumem_live is written once, with release.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/devcoredump.h>
#include <linux/dma-mapping.h>
#include <linux/dmi.h>
#include <linux/init.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/nodemask.h>
#include <linux/nospec.h>
#include <linux/parser.h>
#include <linux/sched/mm.h>
#include <linux/siphash.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/swap.h>
#include <linux/uaccess.h>

#include "gpumem_acct.h"
#include "gpumem_bo.h"
#include "gpumem_cache.h"
#include "gpumem_client.h"
#include "gpumem_compat.h"
#include "gpumem_cov.h"
#include "gpumem_delay.h"
#include "gpumem_device.h"
#include "gpumem_dmabuf.h"
#include "gpumem_dmem.h"
#include "gpumem_engine.h"
#include "gpumem_event.h"
#include "gpumem_evict.h"
#include "gpumem_fence.h"
#include "gpumem_ioctl.h"
#include "gpumem_lock.h"
#include "gpumem_managed.h"
#include "gpumem_mem.h"
#include "gpumem_name.h"
#include "gpumem_notice.h"
#include "gpumem_object.h"
#include "gpumem_pin.h"
#include "gpumem_pool.h"
#include "gpumem_refusal.h"
#include "gpumem_resident.h"
#include "gpumem_ring.h"
#include "gpumem_runner.h"
#include "gpumem_semaphore.h"
#include "gpumem_shmem.h"
#include "gpumem_stream.h"
#include "gpumem_timeline.h"
#include "gpumem_token.h"
#include "gpumem_user.h"
#include "gpumem_sparse.h"
#include "gpumem_vm.h"

static unsigned int devices = 1;
module_param(devices, uint, 0444);
MODULE_PARM_DESC(devices, "Number of devices, 1 to 16 (default 1)");

static char *vram;
module_param(vram, charp, 0444);
MODULE_PARM_DESC(vram,
		 "Bytes of memory per device, with K, M or G (default: half of RAM divided by the devices)");

static int node[GPUMEM_MAX_DEVICES] = {
	[0 ... GPUMEM_MAX_DEVICES - 1] = NUMA_NO_NODE,
};

static int nnode;
module_param_array(node, int, &nnode, 0444);
MODULE_PARM_DESC(node, "NUMA node of each device's memory (default: any)");

static bool concurrent_managed[GPUMEM_MAX_DEVICES] = {
	[0 ... GPUMEM_MAX_DEVICES - 1] = true,
};

module_param_array(concurrent_managed, bool, NULL, 0644);
MODULE_PARM_DESC(concurrent_managed,
		 "For each device: the CPU may access managed memory while the device works (default: yes)");

static bool pageable[GPUMEM_MAX_DEVICES];
module_param_array(pageable, bool, NULL, 0644);
MODULE_PARM_DESC(pageable,
		 "Whether each device's engine accesses pageable memory (default: no)");

static struct gpumem_device *gpumem_devices[GPUMEM_MAX_DEVICES];
static dev_t gpumem_devt;
/* The init of the module has succeeded; written once, with release. */
static bool gpumem_live;

union gpumem_ucmd_buffer {
	u32 size;
	struct gpumem_info info;
	struct gpumem_device_attach attach;
	struct gpumem_destroy destroy;
	struct gpumem_bo_alloc bo_alloc;
	struct gpumem_bo_info bo_info;
	struct gpumem_bo_advise bo_advise;
	struct gpumem_bo_retire bo_retire;
	struct gpumem_bo_export bo_export;
	struct gpumem_bo_import bo_import;
	struct gpumem_token_create token_create;
	struct gpumem_token_open token_open;
	struct gpumem_vm_create vm_create;
	struct gpumem_vm_map vm_map;
	struct gpumem_vm_unmap vm_unmap;
	struct gpumem_vm_access vm_access;
	struct gpumem_vm_export vm_export;
	struct gpumem_vm_bind vm_bind;
	struct gpumem_stream_create stream_create;
	struct gpumem_stream_doorbell doorbell;
	struct gpumem_timeline_create timeline_create;
	struct gpumem_timeline_signal timeline_signal;
	struct gpumem_timeline_take timeline_take;
	struct gpumem_timeline_wait timeline_wait;
	struct gpumem_timeline_export timeline_export;
	struct gpumem_timeline_import timeline_import;
	struct gpumem_stats stats;
	struct gpumem_bo_pin bo_pin;
	struct gpumem_event_create event_create;
	struct gpumem_event_open event_open;
	struct gpumem_event_record event_record;
	struct gpumem_event_get event_get;
	struct gpumem_pool_create pool_create;
	struct gpumem_pool_set pool_set;
	struct gpumem_pool_info pool_info;
	struct gpumem_pool_export pool_export;
	struct gpumem_pool_import pool_import;
	struct gpumem_pool_chunk_open pool_chunk_open;
	struct gpumem_channel_attach channel_attach;
	struct gpumem_refusal_info refusal;
};

/**
 * struct gpumem_ioctl_op - one ioctl
 * @size: size of the kernel's structure
 * @min_size: size of the first version of the structure
 * @cmd: ioctl number
 * @execute: handler; returns 0 or a negative errno
 */
struct gpumem_ioctl_op {
	unsigned int size;
	unsigned int min_size;
	unsigned int cmd;
	int (*execute)(struct gpumem_ucmd *ucmd);
};

#define GPUMEM_IOCTL(_cmd, _fn, _struct, _last)				\
	[_IOC_NR(_cmd) - GPUMEM_CMD_BASE] = {				\
		.size = sizeof(_struct) +				\
			BUILD_BUG_ON_ZERO(sizeof(union gpumem_ucmd_buffer) < \
					  sizeof(_struct)),		\
		.min_size = offsetofend(_struct, _last),		\
		.cmd = _cmd,						\
		.execute = _fn,						\
	}

static const struct gpumem_ioctl_op gpumem_ioctl_ops[] = {
	GPUMEM_IOCTL(GPUMEM_INFO, gpumem_ioctl_info,
		     struct gpumem_info, uuid),
	GPUMEM_IOCTL(GPUMEM_DEVICE_ATTACH, gpumem_ioctl_device_attach,
		     struct gpumem_device_attach, device),
	GPUMEM_IOCTL(GPUMEM_DESTROY, gpumem_ioctl_destroy,
		     struct gpumem_destroy, id),
	GPUMEM_IOCTL(GPUMEM_BO_ALLOC, gpumem_ioctl_bo_alloc,
		     struct gpumem_bo_alloc, name),
	GPUMEM_IOCTL(GPUMEM_BO_INFO, gpumem_ioctl_bo_info,
		     struct gpumem_bo_info, tag),
	GPUMEM_IOCTL(GPUMEM_BO_RETIRE, gpumem_ioctl_bo_retire,
		     struct gpumem_bo_retire, live),
	GPUMEM_IOCTL(GPUMEM_BO_EXPORT, gpumem_ioctl_bo_export,
		     struct gpumem_bo_export, fd),
	GPUMEM_IOCTL(GPUMEM_BO_IMPORT, gpumem_ioctl_bo_import,
		     struct gpumem_bo_import, length),
	GPUMEM_IOCTL(GPUMEM_TOKEN_CREATE, gpumem_ioctl_token_create,
		     struct gpumem_token_create, token),
	GPUMEM_IOCTL(GPUMEM_TOKEN_OPEN, gpumem_ioctl_token_open,
		     struct gpumem_token_open, reserved),
	GPUMEM_IOCTL(GPUMEM_VM_CREATE, gpumem_ioctl_vm_create,
		     struct gpumem_vm_create, reserved),
	GPUMEM_IOCTL(GPUMEM_VM_MAP, gpumem_ioctl_vm_map,
		     struct gpumem_vm_map, writers),
	GPUMEM_IOCTL(GPUMEM_VM_UNMAP, gpumem_ioctl_vm_unmap,
		     struct gpumem_vm_unmap, unmapped),
	GPUMEM_IOCTL(GPUMEM_VM_ACCESS, gpumem_ioctl_vm_access,
		     struct gpumem_vm_access, access),
	GPUMEM_IOCTL(GPUMEM_VM_EXPORT, gpumem_ioctl_vm_export,
		     struct gpumem_vm_export, fd),
	GPUMEM_IOCTL(GPUMEM_VM_BIND, gpumem_ioctl_vm_bind,
		     struct gpumem_vm_bind, length),
	GPUMEM_IOCTL(GPUMEM_STREAM_CREATE, gpumem_ioctl_stream_create,
		     struct gpumem_stream_create, timeline),
	GPUMEM_IOCTL(GPUMEM_STREAM_DOORBELL, gpumem_ioctl_stream_doorbell,
		     struct gpumem_stream_doorbell, id),
	GPUMEM_IOCTL(GPUMEM_TIMELINE_CREATE, gpumem_ioctl_timeline_create,
		     struct gpumem_timeline_create, reserved),
	GPUMEM_IOCTL(GPUMEM_TIMELINE_SIGNAL, gpumem_ioctl_timeline_signal,
		     struct gpumem_timeline_signal, value),
	GPUMEM_IOCTL(GPUMEM_TIMELINE_TAKE, gpumem_ioctl_timeline_take,
		     struct gpumem_timeline_take, value),
	GPUMEM_IOCTL(GPUMEM_TIMELINE_WAIT, gpumem_ioctl_timeline_wait,
		     struct gpumem_timeline_wait, reached),
	GPUMEM_IOCTL(GPUMEM_STATS, gpumem_ioctl_stats,
		     struct gpumem_stats, host_bytes),
	GPUMEM_IOCTL(GPUMEM_BO_PIN, gpumem_ioctl_bo_pin,
		     struct gpumem_bo_pin, reserved),
	GPUMEM_IOCTL(GPUMEM_EVENT_CREATE, gpumem_ioctl_event_create,
		     struct gpumem_event_create, token),
	GPUMEM_IOCTL(GPUMEM_EVENT_OPEN, gpumem_ioctl_event_open,
		     struct gpumem_event_open, result),
	GPUMEM_IOCTL(GPUMEM_EVENT_RECORD, gpumem_ioctl_event_record,
		     struct gpumem_event_record, value),
	GPUMEM_IOCTL(GPUMEM_EVENT_GET, gpumem_ioctl_event_get,
		     struct gpumem_event_get, value),
	GPUMEM_IOCTL(GPUMEM_POOL_CREATE, gpumem_ioctl_pool_create,
		     struct gpumem_pool_create, name),
	GPUMEM_IOCTL(GPUMEM_POOL_SET, gpumem_ioctl_pool_set,
		     struct gpumem_pool_set, used_high),
	GPUMEM_IOCTL(GPUMEM_POOL_INFO, gpumem_ioctl_pool_info,
		     struct gpumem_pool_info, name),
	GPUMEM_IOCTL(GPUMEM_POOL_EXPORT, gpumem_ioctl_pool_export,
		     struct gpumem_pool_export, token),
	GPUMEM_IOCTL(GPUMEM_POOL_IMPORT, gpumem_ioctl_pool_import,
		     struct gpumem_pool_import, reserved),
	GPUMEM_IOCTL(GPUMEM_POOL_CHUNK_OPEN, gpumem_ioctl_pool_chunk_open,
		     struct gpumem_pool_chunk_open, reserved),
	GPUMEM_IOCTL(GPUMEM_CHANNEL_ATTACH, gpumem_ioctl_channel_attach,
		     struct gpumem_channel_attach, channel),
	GPUMEM_IOCTL(GPUMEM_REFUSAL, gpumem_ioctl_refusal,
		     struct gpumem_refusal_info, max),
	GPUMEM_IOCTL(GPUMEM_TIMELINE_EXPORT, gpumem_ioctl_timeline_export,
		     struct gpumem_timeline_export, fd),
	GPUMEM_IOCTL(GPUMEM_TIMELINE_IMPORT, gpumem_ioctl_timeline_import,
		     struct gpumem_timeline_import, reserved),
	GPUMEM_IOCTL(GPUMEM_BO_ADVISE, gpumem_ioctl_bo_advise,
		     struct gpumem_bo_advise, device),
};

/**
 * gpumem_is_live - may a caller take references on the module?
 *
 * Return: false while the init of the module may still fail.
 */
bool gpumem_is_live(void)
{
	/* Pairs with the release in gpumem_devices_announce(). */
	return smp_load_acquire(&gpumem_live);
}

/**
 * gpumem_device_nth - look up a device by its number
 * @ordinal: N of /dev/gpumemN
 *
 * Return: the device or NULL.
 */
struct gpumem_device *gpumem_device_nth(unsigned int ordinal)
{
	if (ordinal >= devices)
		return NULL;
	return gpumem_devices[array_index_nospec(ordinal, devices)];
}

/**
 * gpumem_device_concurrent - may the CPU access managed memory at any time?
 * @dev: device
 *
 * Return: the module parameter; false if the CPU must wait for the device's work.
 */
bool gpumem_device_concurrent(const struct gpumem_device *dev)
{
	return READ_ONCE(concurrent_managed[dev->ordinal]);
}

/**
 * gpumem_device_pageable - may entries of new clients name pageable memory?
 * @dev: device
 *
 * Return: the module parameter.
 */
bool gpumem_device_pageable(const struct gpumem_device *dev)
{
	return READ_ONCE(pageable[dev->ordinal]);
}

/**
 * gpumem_ucmd_respond - copy a handler's structure back to the caller
 * @ucmd: ioctl under way
 * @cmd_len: bytes of the kernel's structure
 *
 * Return: 0 or -EFAULT.
 */
int gpumem_ucmd_respond(struct gpumem_ucmd *ucmd, size_t cmd_len)
{
	if (copy_to_user(ucmd->ubuffer, ucmd->cmd,
			 min_t(size_t, ucmd->user_size, cmd_len)))
		return -EFAULT;
	return 0;
}

static long gpumem_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct gpumem_client *client = file->private_data;
	const struct gpumem_ioctl_op *op;
	struct gpumem_ucmd ucmd = {
		.client = client,
		.ubuffer = (void __user *)arg,
	};
	union gpumem_ucmd_buffer buf;
	unsigned int i, nr = _IOC_NR(cmd);
	int ret;

	if (current->mm != client->mm)
		return -EPERM;
	if (test_bit(GPUMEM_CLIENT_DEAD, &client->state))
		return -ENODEV;
	if (nr < GPUMEM_CMD_BASE ||
	    nr - GPUMEM_CMD_BASE >= ARRAY_SIZE(gpumem_ioctl_ops))
		return -ENOTTY;
	op = &gpumem_ioctl_ops[array_index_nospec(nr - GPUMEM_CMD_BASE,
						  ARRAY_SIZE(gpumem_ioctl_ops))];
	if (op->cmd != cmd)
		return -ENOTTY;
	if (get_user(ucmd.user_size, (u32 __user *)ucmd.ubuffer))
		return -EFAULT;
	if (ucmd.user_size < op->min_size)
		return -EINVAL;
	if (ucmd.user_size > PAGE_SIZE)
		return -E2BIG;
	/* Fields that the caller's structure does not have become 0. */
	ret = copy_struct_from_user(&buf, op->size, ucmd.ubuffer,
				    ucmd.user_size);
	if (ret)
		return ret;
	/* Another thread may have changed the size between the two reads. */
	buf.size = ucmd.user_size;
	ucmd.cmd = &buf;
	if (unlikely(READ_ONCE(client->refused.pid) == task_pid_nr(current)) &&
	    cmd != GPUMEM_REFUSAL)
		gpumem_refusal_forget(client);
	ret = op->execute(&ucmd);
	for (i = 0; i < ARRAY_SIZE(ucmd.new); i++) {
		if (!ucmd.new[i])
			continue;
		if (ret)
			gpumem_object_abort(ucmd.new[i]);
		else
			gpumem_object_finalize(ucmd.new[i]);
	}
	return ret;
}

static int gpumem_mmap(struct file *file, struct vm_area_struct *vma)
{
	const unsigned int shift = GPUMEM_MMAP_SHIFT - PAGE_SHIFT;
	struct gpumem_client *client = file->private_data;
	struct gpumem_object *obj;
	int ret;

	if (current->mm != client->mm)
		return -EPERM;
	if (test_bit(GPUMEM_CLIENT_DEAD, &client->state))
		return -ENODEV;
	/* Shared mappings of read-only descriptors lack VM_SHARED. */
	if (!(vma->vm_flags & VM_MAYSHARE))
		return -EINVAL;
	if (vma->vm_pgoff >> shift >= GPUMEM_MAX_OBJECTS)
		return -ENOENT;
	if (vma->vm_pgoff == GPUMEM_MMAP_RESIDENT >> PAGE_SHIFT)
		return gpumem_resident_mmap(client, vma);
	if (!(vma->vm_pgoff >> shift))
		return gpumem_cache_mmap(client, vma);
	obj = gpumem_object_get_any(client, vma->vm_pgoff >> shift);
	if (!obj)
		return -ENOENT;
	vma->vm_pgoff &= (1UL << shift) - 1;
	switch (obj->type) {
	case GPUMEM_OBJ_BO:
		ret = gpumem_bo_mmap(container_of(obj, struct gpumem_bo, obj),
				     vma);
		break;
	case GPUMEM_OBJ_STREAM:
		ret = gpumem_ring_mmap(container_of(obj, struct gpumem_stream,
						    obj)->ring, vma);
		break;
	case GPUMEM_OBJ_TIMELINE:
		ret = gpumem_timeline_mmap(container_of(obj,
							struct gpumem_timeline,
							obj), vma);
		break;
	default:
		ret = -EINVAL;
	}
	gpumem_object_put(obj);
	return ret;
}

static unsigned long gpumem_get_unmapped_area(struct file *file,
					      unsigned long addr,
					      unsigned long len,
					      unsigned long pgoff,
					      unsigned long flags)
{
	struct gpumem_client *client = file->private_data;

	return gpumem_shmem_get_unmapped_area(&client->devices[0]->mem, addr,
					      len, pgoff, flags);
}

static int gpumem_open(struct inode *inode, struct file *file)
{
	struct gpumem_device *dev = container_of(inode->i_cdev,
						 struct gpumem_device, cdev);
	struct gpumem_client *client;

	if (!gpumem_is_live())
		return -ENXIO;
	client = gpumem_client_create(dev);
	if (IS_ERR(client))
		return PTR_ERR(client);
	file->private_data = client;
	return nonseekable_open(inode, file);
}

static int gpumem_release(struct inode *inode, struct file *file)
{
	gpumem_client_close(file->private_data);
	return 0;
}

const struct file_operations gpumem_fops = {
	.owner = THIS_MODULE,
	.open = gpumem_open,
	.release = gpumem_release,
	.unlocked_ioctl = gpumem_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = gpumem_mmap,
	.read = gpumem_notice_read,
	.poll = gpumem_notice_poll,
	.get_unmapped_area = gpumem_get_unmapped_area,
	.show_fdinfo = gpumem_show_fdinfo,
	.llseek = noop_llseek,
};

static char *gpumem_devnode(const struct device *dev, umode_t *mode)
{
	if (mode)
		*mode = 0660;
	return NULL;
}

static const struct class gpumem_class = {
	.name = "gpumem",
	.class_groups = gpumem_class_groups,
	.dev_groups = gpumem_device_groups,
	.devnode = gpumem_devnode,
};

static void gpumem_device_release(struct device *dev)
{
	kfree(container_of(dev, struct gpumem_device, dev));
}

/*
 * A device has the same UUID at each load on the same machine: a hash of the
 * UUID that the firmware reports for the machine, and of the device's ordinal.
 */
static void gpumem_device_uuid(struct gpumem_device *dev)
{
	const char *machine = dmi_get_system_info(DMI_PRODUCT_UUID);
	siphash_key_t key = { { 0x6770756d656d2d75ULL, 0x7569642d76310000ULL } };
	u64 half[2];
	unsigned int i;

	if (!machine)
		machine = "";
	for (i = 0; i < ARRAY_SIZE(half); i++) {
		key.key[1] += dev->ordinal * 2 + i;
		half[i] = siphash(machine, strlen(machine), &key);
	}
	memcpy(dev->uuid, half, sizeof(dev->uuid));
	dev->uuid[6] = (dev->uuid[6] & 0x0f) | 0x80;	/* version 8 */
	dev->uuid[8] = (dev->uuid[8] & 0x3f) | 0x80;	/* RFC 9562 */
}

static struct gpumem_device *gpumem_device_create(unsigned int ordinal,
						  u64 size)
{
	struct gpumem_device *dev = kzalloc(sizeof(*dev), GFP_KERNEL);
	int ret;

	if (!dev)
		return ERR_PTR(-ENOMEM);
	dev->ordinal = ordinal;
	dev->mem.node = node[ordinal];
	dev->mem.size = size;
	gpumem_notice_init_device(dev);
	gpumem_device_uuid(dev);
	device_initialize(&dev->dev);
	dev->dev.class = &gpumem_class;
	dev->dev.devt = MKDEV(MAJOR(gpumem_devt), ordinal);
	dev->dev.release = gpumem_device_release;
	cdev_init(&dev->cdev, &gpumem_fops);
	dev->cdev.owner = THIS_MODULE;
	/* DMA-bufs of other drivers attach to this device: any address. */
	ret = dma_coerce_mask_and_coherent(&dev->dev, DMA_BIT_MASK(64));
	if (ret)
		goto err_put;
	ret = dev_set_name(&dev->dev, "gpumem%u", ordinal);
	if (ret)
		goto err_put;
	ret = gpumem_dmem_register(dev);
	if (ret)
		goto err_put;
	ret = gpumem_shmem_mount(&dev->mem);
	if (ret)
		goto err_unregister;
	ret = gpumem_managed_mount(&dev->mem);
	if (ret)
		goto err_unmount;
	dev->engine = gpumem_engine_create(dev);
	if (IS_ERR(dev->engine)) {
		ret = PTR_ERR(dev->engine);
		goto err_unmanage;
	}
	return dev;

err_unmanage:
	gpumem_managed_unmount(&dev->mem);
err_unmount:
	gpumem_shmem_unmount(&dev->mem);
err_unregister:
	gpumem_dmem_unregister(dev);
err_put:
	put_device(&dev->dev);
	return ERR_PTR(ret);
}

static void gpumem_device_destroy(struct gpumem_device *dev)
{
	/* Free a device coredump: it would hold the device for minutes. */
	dev_coredump_put(&dev->dev);
	gpumem_managed_unmount(&dev->mem);
	gpumem_engine_destroy(dev->engine);
	gpumem_shmem_unmount(&dev->mem);
	gpumem_dmem_unregister(dev);
	put_device(&dev->dev);
}

/* Create the nodes without uevents: they cannot be opened yet. */
static int gpumem_devices_add(void)
{
	struct gpumem_device *dev;
	unsigned int i;
	int ret;

	for (i = 0; i < devices; i++) {
		dev = gpumem_devices[i];
		dev_set_uevent_suppress(&dev->dev, true);
		ret = cdev_device_add(&dev->cdev, &dev->dev);
		if (ret)
			goto err_del;
	}
	return 0;

err_del:
	while (i--)
		cdev_device_del(&gpumem_devices[i]->cdev,
				&gpumem_devices[i]->dev);
	return ret;
}

/* Module init can no longer fail: let the nodes be opened. */
static void gpumem_devices_announce(void)
{
	struct gpumem_device *dev;
	unsigned int i;

	/* Pairs with the acquire in gpumem_is_live(). */
	smp_store_release(&gpumem_live, true);
	for (i = 0; i < devices; i++) {
		dev = gpumem_devices[i];
		dev_set_uevent_suppress(&dev->dev, false);
		kobject_uevent(&dev->dev.kobj, KOBJ_ADD);
		dev_info(&dev->dev, "%llu MiB, engine %s\n",
			 gpumem_size(&dev->mem) >> 20, dev->engine->ops->name);
	}
}

/*
 * Wait, after a failed init, for tasks that still execute the module's code.  A
 * task that found a node before init removed it was refused, but still holds a
 * reference on the module.  All nodes are gone, so no other task follows.  Wait
 * until init's own reference is the only one.  The wait is bounded, because a
 * tracer may keep a reference.
 */
static void gpumem_wait_openers(void)
{
#ifdef CONFIG_MODULE_UNLOAD
	unsigned int ms;

	for (ms = 0; module_refcount(THIS_MODULE) > 1; ms++) {
		if (ms == 10 * MSEC_PER_SEC) {
			pr_warn("init failed while the module is held\n");
			break;
		}
		fsleep(USEC_PER_MSEC);
	}
#endif
}

static int gpumem_params(u64 *size)
{
	unsigned int i;

	if (!devices || devices > GPUMEM_MAX_DEVICES) {
		pr_err("devices=%u: must be 1 to %u\n", devices,
		       GPUMEM_MAX_DEVICES);
		return -EINVAL;
	}
	for (i = 0; i < nnode; i++) {
		if (node[i] == NUMA_NO_NODE)
			continue;
		if (node[i] < 0 || node[i] >= MAX_NUMNODES ||
		    !node_state(node[i], N_NORMAL_MEMORY)) {
			pr_err("node=%d: no such node with memory for the kernel\n", node[i]);
			return -EINVAL;
		}
	}
	*size = ((u64)totalram_pages() << PAGE_SHIFT) / 2 / devices;
	if (vram) {
		if (gpumem_size_parse(vram, size) || *size < SZ_2M ||
		    *size > GPUMEM_SIZE_MAX) {
			pr_err("vram=%s: must be a number of at least 2M, with K, M or G\n",
			       vram);
			return -EINVAL;
		}
	}
	*size = round_down(*size, SZ_2M);
	return 0;
}

static int __init gpumem_start(void)
{
	unsigned int i;
	u64 size;
	int ret;

	BUILD_BUG_ON(!IS_ENABLED(CONFIG_64BIT));
	/* Pieces of published work take spinlocks with preemption disabled. */
	if (IS_ENABLED(CONFIG_PREEMPT_RT)) {
		pr_err("kernels with CONFIG_PREEMPT_RT are not supported\n");
		return -EOPNOTSUPP;
	}
	ret = gpumem_params(&size);
	if (ret)
		return ret;
	gpumem_user_init();
	gpumem_size_init();
	gpumem_managed_init();
	ret = gpumem_lockdep_prime();
	if (ret)
		return ret;
	ret = gpumem_shmem_init();
	if (ret)
		return ret;
	ret = gpumem_client_init();
	if (ret)
		goto err_shmem;
	ret = gpumem_runner_start();
	if (ret)
		goto err_client;
	ret = gpumem_stream_init();
	if (ret)
		goto err_runner;
	ret = gpumem_fence_start();
	if (ret)
		goto err_stream;
	ret = gpumem_name_init();
	if (ret)
		goto err_fence;
	ret = gpumem_channel_init();
	if (ret)
		goto err_name;
	ret = gpumem_cache_init();
	if (ret)
		goto err_channel;
	ret = class_register(&gpumem_class);
	if (ret)
		goto err_cache;
	ret = alloc_chrdev_region(&gpumem_devt, 0, GPUMEM_MAX_DEVICES,
				  "gpumem");
	if (ret)
		goto err_class;
	for (i = 0; i < devices; i++) {
		struct gpumem_device *dev = gpumem_device_create(i, size);

		if (IS_ERR(dev)) {
			ret = PTR_ERR(dev);
			goto err_devices;
		}
		gpumem_devices[i] = dev;
	}
	/* The netlink family lists devices, so the devices come first. */
	ret = gpumem_netlink_init();
	if (ret)
		goto err_devices;
	ret = gpumem_devices_add();
	if (ret)
		goto err_netlink;
	gpumem_cpu_init();
	gpumem_devices_announce();
	return 0;

err_netlink:
	gpumem_netlink_exit();
err_devices:
	while (i--)
		gpumem_device_destroy(gpumem_devices[i]);
	unregister_chrdev_region(gpumem_devt, GPUMEM_MAX_DEVICES);
err_class:
	class_unregister(&gpumem_class);
err_cache:
	gpumem_cache_exit();
	gpumem_cache_exit_items();
err_channel:
	gpumem_channel_exit();
err_name:
	gpumem_name_exit();
err_fence:
	gpumem_fence_stop();
err_stream:
	gpumem_stream_exit();
err_runner:
	gpumem_runner_exit();
err_client:
	gpumem_client_exit();
err_shmem:
	gpumem_shmem_exit();
	return ret;
}

static int __init gpumem_init(void)
{
	int ret = gpumem_start();

	if (ret) {
		gpumem_wait_openers();
		gpumem_cov_report();
	} else {
		gpumem_delay_init();
	}
	return ret;
}
module_init(gpumem_init);

static void __exit gpumem_exit(void)
{
	unsigned int i;

	gpumem_delay_exit();
	gpumem_cpu_exit();
	gpumem_netlink_exit();
	for (i = 0; i < devices; i++) {
		cdev_device_del(&gpumem_devices[i]->cdev,
				&gpumem_devices[i]->dev);
		gpumem_engine_flush(gpumem_devices[i]->engine);
		gpumem_managed_unmount(&gpumem_devices[i]->mem);
	}
	/* Wait for work that drops references on clients and their objects. */
	gpumem_client_exit();
	gpumem_runner_exit();
	gpumem_cache_exit();
	gpumem_stream_exit();
	for (i = 0; i < devices; i++)
		gpumem_device_destroy(gpumem_devices[i]);
	unregister_chrdev_region(gpumem_devt, GPUMEM_MAX_DEVICES);
	class_unregister(&gpumem_class);
	gpumem_channel_exit();
	gpumem_name_exit();
	gpumem_fence_stop();
	gpumem_cache_exit_items();
	gpumem_shmem_exit();
	gpumem_cov_report();
}
module_exit(gpumem_exit);

MODULE_DESCRIPTION("CUDA memory management on system memory");
MODULE_AUTHOR("The gpumem authors");
MODULE_LICENSE("GPL");
MODULE_VERSION(GPUMEM_VERSION);
GPUMEM_IMPORT_NS(DMA_BUF);
