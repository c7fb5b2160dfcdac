// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_notice: notices to clients that hold more than their share of a
 * device's memory.
 *
 * Vocabulary: a *holding* is the memory that one client has of one device, a
 * *holder* a client with a holding, *excess* the bytes above the share, and a
 * *mark* an entry of the list of holdings without a client.
 *
 * Each holder has a share of the device's memory.  The share is the device's
 * attribute "budget", which the administrator writes.  If the budget is 0, the
 * share is the device's memory divided by the number of holders.  A share is no
 * limit; no allocation fails because of it.
 *
 * A client gets one notice when it comes to hold more than its share: because
 * it allocates, because another client begins to hold memory, or because the
 * administrator changes the budget or the device's size.  While it holds more,
 * it gets another notice whenever the device refuses memory to another client
 * that would have stayed within its own share, counted as a holder.  The kernel
 * drops a notice that the client has not read when the client no longer holds
 * more than its share.
 *
 * Clients read() notices from their file, and poll() for them.
 *
 * A buffer object that owns device memory counts from the moment when it gets
 * the memory until the memory is freed, even after its id and its client have
 * ended.
 *
 * A task that changes the share reviews all holdings, however many there are: a
 * few under each hold of the lock, with a mark in the list where it continues.
 * In between another task may change the share again.  That task then reviews
 * all holdings, too, so the last review of a holding always uses the current
 * share.
 *
 * Locks: device->notice_lock protects the holdings of a device and its budget.
 * It is a spinlock because a task with a mutex may be preempted or throttled
 * without end, and some tasks that free buffer objects must not wait for such a
 * task.
 */
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/poll.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "gpumem_client.h"
#include "gpumem_device.h"
#include "gpumem_lock.h"
#include "gpumem_mem.h"
#include "gpumem_notice.h"

/* Holdings that are reviewed under one hold of the lock. */
#define GPUMEM_NOTICE_BATCH	64

static u64 gpumem_holding_share(struct gpumem_device *dev, unsigned int holders)
{
	lockdep_assert_held(&dev->notice_lock);
	if (dev->budget)
		return dev->budget;
	return div_u64(gpumem_size(&dev->mem), max(holders, 1U));
}

/* @excess is written under the lock and read without it. */
static void gpumem_notice_set(struct gpumem_holding *holding, u64 excess)
{
	WRITE_ONCE(holding->excess, excess);
}

static void gpumem_notice_post(struct gpumem_holding *holding, u64 excess)
{
	holding->changes++;
	gpumem_notice_set(holding, excess);
	wake_up_interruptible(&holding->client->notice_wait);
}

static void gpumem_notice_drop(struct gpumem_holding *holding)
{
	holding->changes++;
	gpumem_notice_set(holding, 0);
}

/* Review a holding after its bytes or its share changed. */
static void gpumem_holding_review(struct gpumem_device *dev,
				  struct gpumem_holding *holding)
{
	u64 share = gpumem_holding_share(dev, dev->nholders);
	bool over = holding->bytes > share;

	/* Keep a notice from gpumem_notice_refused() while it is true. */
	if (!over && holding->over)
		gpumem_notice_drop(holding);
	else if (over && (!holding->over || holding->excess))
		gpumem_notice_post(holding, holding->bytes - share);
	holding->over = over;
}

/*
 * The next holding of a device, or NULL.  @mark stands before the first holding
 * that was not reviewed.  The lock is dropped after each GPUMEM_NOTICE_BATCH.
 */
static struct gpumem_holding *gpumem_holding_next(struct gpumem_device *dev,
						  struct gpumem_holding *mark,
						  unsigned int *looked)
{
	struct gpumem_holding *holding;

	lockdep_assert_held(&dev->notice_lock);
	while (!list_is_last(&mark->link, &dev->holders)) {
		if (++*looked % GPUMEM_NOTICE_BATCH == 0) {
			spin_unlock(&dev->notice_lock);
			cond_resched();
			spin_lock(&dev->notice_lock);
			continue;
		}
		holding = list_next_entry(mark, link);
		list_move(&mark->link, &holding->link);
		/* Skip the marks of other tasks. */
		if (holding->client)
			return holding;
	}
	return NULL;
}

/* Review all holdings; with @again, also notify clients that were notified. */
static void gpumem_holding_review_all(struct gpumem_device *dev, bool again)
{
	struct gpumem_holding mark = {}, *holding;
	unsigned int looked = 0;

	list_add(&mark.link, &dev->holders);
	while ((holding = gpumem_holding_next(dev, &mark, &looked))) {
		if (again) {
			gpumem_notice_drop(holding);
			holding->over = false;
		}
		gpumem_holding_review(dev, holding);
	}
	list_del(&mark.link);
}

/**
 * gpumem_holding_charge - count memory that a client got
 * @client: client
 * @dev: device of the memory
 * @bytes: number of bytes, not 0
 *
 * Context: may sleep.
 */
void gpumem_holding_charge(struct gpumem_client *client,
			   struct gpumem_device *dev, u64 bytes)
{
	struct gpumem_holding *holding = &client->holdings[dev->ordinal];
	bool first;

	might_sleep();
	spin_lock(&dev->notice_lock);
	first = !holding->bytes;
	holding->bytes += bytes;
	if (first) {
		holding->client = client;
		list_add_tail(&holding->link, &dev->holders);
		dev->nholders++;
		gpumem_holding_review_all(dev, false);
	} else {
		gpumem_holding_review(dev, holding);
	}
	spin_unlock(&dev->notice_lock);
}

/**
 * gpumem_holding_uncharge - end the count of memory that a client got
 * @client: client
 * @dev: device of the memory
 * @bytes: number of bytes, charged before
 *
 * Context: may sleep.
 */
void gpumem_holding_uncharge(struct gpumem_client *client,
			     struct gpumem_device *dev, u64 bytes)
{
	struct gpumem_holding *holding = &client->holdings[dev->ordinal];

	might_sleep();
	spin_lock(&dev->notice_lock);
	holding->bytes -= bytes;
	holding->freed += bytes;
	gpumem_notice_set(holding,
			  holding->excess - min(holding->excess, bytes));
	gpumem_holding_review(dev, holding);
	if (!holding->bytes) {
		list_del(&holding->link);
		dev->nholders--;
		gpumem_holding_review_all(dev, false);
	}
	spin_unlock(&dev->notice_lock);
}

/**
 * gpumem_notice_refused - notify clients above their share of a refusal
 * @client: client whose allocation failed
 * @dev: device that has too little memory
 * @bytes: bytes that @client asked for
 *
 * If the memory would have exceeded the client's own share, no other client is
 * notified.
 *
 * Context: may sleep.
 */
void gpumem_notice_refused(struct gpumem_client *client,
			   struct gpumem_device *dev, u64 bytes)
{
	struct gpumem_holding *mine = &client->holdings[dev->ordinal];
	struct gpumem_holding mark = {}, *holding;
	unsigned int looked = 0;
	u64 share;

	might_sleep();
	spin_lock(&dev->notice_lock);
	list_add(&mark.link, &dev->holders);
	while ((holding = gpumem_holding_next(dev, &mark, &looked))) {
		share = gpumem_holding_share(dev, dev->nholders + !mine->bytes);
		if (mine->bytes > share || bytes > share - mine->bytes)
			break;
		if (holding != mine && holding->bytes > share)
			gpumem_notice_post(holding, holding->bytes - share);
	}
	list_del(&mark.link);
	spin_unlock(&dev->notice_lock);
}

/**
 * gpumem_holding_bytes - bytes of a device's memory in a client's buffer objects
 * @client: client
 * @dev: of which device
 *
 * Context: may sleep.
 * Return: bytes.
 */
u64 gpumem_holding_bytes(struct gpumem_client *client,
			 struct gpumem_device *dev)
{
	u64 bytes;

	might_sleep();
	spin_lock(&dev->notice_lock);
	bytes = client->holdings[dev->ordinal].bytes;
	spin_unlock(&dev->notice_lock);
	return bytes;
}

/**
 * gpumem_holding_excess - bytes above its share that a client holds, notified
 *	or not
 * @client: client
 * @dev: of which device
 *
 * Context: may sleep.
 * Return: bytes.
 */
u64 gpumem_holding_excess(struct gpumem_client *client,
			  struct gpumem_device *dev)
{
	struct gpumem_holding *holding = &client->holdings[dev->ordinal];
	u64 share, excess;

	might_sleep();
	spin_lock(&dev->notice_lock);
	share = gpumem_holding_share(dev, dev->nholders);
	excess = holding->bytes > share ? holding->bytes - share : 0;
	spin_unlock(&dev->notice_lock);
	return excess;
}

/* State of a holding at the moment when a reader took its notice. */
struct gpumem_notice_taken {
	u64 freed;
	u32 changes;
};

/* Take a notice that a client has not read yet. */
static bool gpumem_notice_take(struct gpumem_client *client,
			       struct gpumem_notice *notice,
			       struct gpumem_notice_taken *taken)
{
	struct gpumem_holding *holding;
	struct gpumem_device *dev;
	unsigned int i;

	for (i = 0; (dev = gpumem_client_device(client, i)); i++) {
		holding = &client->holdings[dev->ordinal];
		spin_lock(&dev->notice_lock);
		notice->bytes = holding->excess;
		taken->freed = holding->freed;
		taken->changes = holding->changes;
		gpumem_notice_set(holding, 0);
		spin_unlock(&dev->notice_lock);
		if (notice->bytes) {
			notice->device = i;
			return true;
		}
	}
	return false;
}

/*
 * Put back a notice that could not be copied to the client.  If the kernel posted
 * or dropped a notice after this one was taken, this one is out of date and is
 * discarded.  What an unread notice would have met since then is made up for:
 * freed bytes are subtracted, and a review sets the present excess.
 */
static void gpumem_notice_put_back(struct gpumem_client *client,
				   const struct gpumem_notice *notice,
				   const struct gpumem_notice_taken *taken)
{
	struct gpumem_device *dev = gpumem_client_device(client,
							 notice->device);
	struct gpumem_holding *holding = &client->holdings[dev->ordinal];
	u64 freed;

	spin_lock(&dev->notice_lock);
	freed = holding->freed - taken->freed;
	if (holding->changes == taken->changes && notice->bytes > freed) {
		gpumem_notice_post(holding, notice->bytes - freed);
		gpumem_holding_review(dev, holding);
	}
	spin_unlock(&dev->notice_lock);
}

static bool gpumem_notice_any(struct gpumem_client *client)
{
	struct gpumem_device *dev;
	unsigned int i;

	for (i = 0; (dev = gpumem_client_device(client, i)); i++)
		if (READ_ONCE(client->holdings[dev->ordinal].excess))
			return true;
	return false;
}

/**
 * gpumem_notice_read - read() of a client's file
 * @file: the client's
 * @buf: where a struct gpumem_notice goes
 * @count: size of @buf; bytes after the structure stay unchanged
 * @pos: not used
 *
 * Waits until there is a notice, unless the file is O_NONBLOCK.
 *
 * Return: bytes written, or a negative errno.
 */
ssize_t gpumem_notice_read(struct file *file, char __user *buf, size_t count,
			   loff_t *pos)
{
	struct gpumem_client *client = file->private_data;
	struct gpumem_notice notice = { .type = GPUMEM_NOTICE_OVER_BUDGET };
	struct gpumem_notice_taken taken;
	int ret;

	if (current->mm != client->mm)
		return -EPERM;
	if (count < sizeof(notice))
		return -EINVAL;
	while (!gpumem_notice_take(client, &notice, &taken)) {
		if (file->f_flags & O_NONBLOCK)
			return -EAGAIN;
		ret = wait_event_interruptible(client->notice_wait,
					       gpumem_notice_any(client));
		if (ret)
			return ret;
	}
	if (copy_to_user(buf, &notice, sizeof(notice))) {
		gpumem_notice_put_back(client, &notice, &taken);
		return -EFAULT;
	}
	return sizeof(notice);
}

/**
 * gpumem_notice_poll - poll() of a client's file
 * @file: the client's
 * @wait: table of the polling task
 *
 * Return: EPOLLIN when read() would not wait.
 */
__poll_t gpumem_notice_poll(struct file *file, poll_table *wait)
{
	struct gpumem_client *client = file->private_data;

	poll_wait(file, &client->notice_wait, wait);
	if (current->mm != client->mm)
		return EPOLLERR;
	return gpumem_notice_any(client) ? EPOLLIN | EPOLLRDNORM : 0;
}

static ssize_t budget_show(struct device *dev, struct device_attribute *attr,
			   char *buf)
{
	struct gpumem_device *gdev = container_of(dev, struct gpumem_device,
						  dev);

	return sysfs_emit(buf, "%llu\n", READ_ONCE(gdev->budget));
}

/* Notify each client above its new share, even if it was notified before. */
static ssize_t budget_store(struct device *dev, struct device_attribute *attr,
			    const char *buf, size_t count)
{
	struct gpumem_device *gdev = container_of(dev, struct gpumem_device,
						  dev);
	u64 bytes;

	if (gpumem_size_parse(buf, &bytes) || bytes > LLONG_MAX)
		return -EINVAL;
	spin_lock(&gdev->notice_lock);
	WRITE_ONCE(gdev->budget, bytes);
	gpumem_holding_review_all(gdev, true);
	spin_unlock(&gdev->notice_lock);
	return count;
}
DEVICE_ATTR_RW(budget);

/**
 * gpumem_notice_resized - the device has more or less memory than before
 * @dev: device; its new size is set
 *
 * Context: may sleep.
 */
void gpumem_notice_resized(struct gpumem_device *dev)
{
	spin_lock(&dev->notice_lock);
	gpumem_holding_review_all(dev, false);
	spin_unlock(&dev->notice_lock);
}

/**
 * gpumem_notice_init_device - begin to count what clients hold of a device
 * @dev: device, zeroed
 */
void gpumem_notice_init_device(struct gpumem_device *dev)
{
	spin_lock_init(&dev->notice_lock);
	gpumem_lockdep_class(&dev->notice_lock, GPUMEM_LOCK_NOTICE);
	INIT_LIST_HEAD(&dev->holders);
}
