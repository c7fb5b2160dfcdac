/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Holdings, the memory that each client has of each device, and notices to
 * clients that hold more than their share.  Lock: device->notice_lock.
 */
#ifndef GPUMEM_NOTICE_H
#define GPUMEM_NOTICE_H

#include <linux/fs.h>
#include <linux/list.h>
#include <linux/poll.h>
#include <linux/types.h>

struct device_attribute;
struct gpumem_client;
struct gpumem_device;

/**
 * struct gpumem_holding - what a client holds of one device's memory
 *
 * All of it is protected by gpumem_device.notice_lock.
 */
struct gpumem_holding {
	/** @client: the holder; set when first listed; NULL in a mark */
	struct gpumem_client *client;
	/** @link: in gpumem_device.holders while @bytes is not 0 */
	struct list_head link;
	/** @bytes: in buffer objects, which have references on @client */
	u64 bytes;
	/** @excess: in the notice that the client has not read, or 0; read unlocked */
	u64 excess;
	/** @over: the client has more than its share, and got a notice */
	bool over;
	/** @changes: notices that were posted, put back or dropped; wraps */
	u32 changes;
	/** @freed: bytes that were freed since the client was opened */
	u64 freed;
};

/* gpumem_notice.c */
extern struct device_attribute dev_attr_budget;
void gpumem_notice_init_device(struct gpumem_device *dev);
void gpumem_notice_resized(struct gpumem_device *dev);
void gpumem_holding_charge(struct gpumem_client *client,
			   struct gpumem_device *dev, u64 bytes);
void gpumem_holding_uncharge(struct gpumem_client *client,
			     struct gpumem_device *dev, u64 bytes);
void gpumem_notice_refused(struct gpumem_client *client,
			   struct gpumem_device *dev, u64 bytes);
u64 gpumem_holding_bytes(struct gpumem_client *client,
			 struct gpumem_device *dev);
u64 gpumem_holding_excess(struct gpumem_client *client,
			  struct gpumem_device *dev);
ssize_t gpumem_notice_read(struct file *file, char __user *buf, size_t count,
			   loff_t *pos);
__poll_t gpumem_notice_poll(struct file *file, poll_table *wait);

#endif /* GPUMEM_NOTICE_H */
