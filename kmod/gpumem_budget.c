// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_budget: what part of a device's memory is a client's, and how a client
 * hears that it has more.
 *
 * Each client that holds memory of a device has a share of it: what the
 * administrator wrote into the device's attribute "budget", or else the same
 * for all, the device's memory divided by those that hold some.  A share is no
 * limit; nothing is refused because of it.
 *
 * A client is told, once, when it comes to hold more than its share: because
 * it allocates, because another one begins to hold memory, because the
 * administrator says so.  While that lasts it is told again whenever the
 * device refuses another client memory that would have been within that one's
 * share, were it one of those that hold some.  What a client was told and has
 * not read yet is forgotten when it no longer has too much.
 *
 * Clients read() what they are told from their file, and poll() for it.
 *
 * What counts are buffer objects that own device memory, from the moment when
 * they have it until it goes; those that outlive their ids, and their client,
 * included.
 *
 * When the share changes, all holders are looked at, however many there are: a few
 * under each hold of the lock, with a mark in the list where to go on.  In between
 * the share may change again; who changed it then looks at all of them, too, so
 * the last look at a holding is always at the share as it is.  The lock is a
 * spinlock because who holds a mutex may be slowed down without end, and buffer
 * objects are also freed by who must not wait for that.
 *
 * Vocabulary: holding, what one client has of one device; holder, a client that
 * has any; excess, bytes above the share; mark, a holding of nobody.
 */
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/poll.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "gpumem_private.h"

/* Holdings that are looked at under one hold of the lock. */
#define GPUMEM_BUDGET_BATCH	64

static u64 gpumem_budget_share(struct gpumem_device *dev, unsigned int holders)
{
	lockdep_assert_held(&dev->budget_lock);
	if (dev->budget)
		return dev->budget;
	return div_u64(gpumem_size(&dev->mem), max(holders, 1U));
}

/* Written under the lock, looked at without. */
static void gpumem_budget_set(struct gpumem_holding *holding, u64 excess)
{
	WRITE_ONCE(holding->excess, excess);
}

static void gpumem_budget_tell(struct gpumem_holding *holding, u64 excess)
{
	gpumem_budget_set(holding, excess);
	wake_up_interruptible(&holding->client->told);
}

/* What a client holds, or its share, has changed. */
static void gpumem_budget_review(struct gpumem_device *dev,
				 struct gpumem_holding *holding)
{
	u64 share = gpumem_budget_share(dev, dev->nholders);
	bool over = holding->bytes > share;

	/* What it was told on behalf of others stays as long as it is true. */
	if (!over && holding->over)
		gpumem_budget_set(holding, 0);
	else if (over && (!holding->over || holding->excess))
		gpumem_budget_tell(holding, holding->bytes - share);
	holding->over = over;
}

/*
 * The next of a device's holdings, or NULL.  @mark is in front of the first that
 * was not looked at.  The lock is let go now and then.
 */
static struct gpumem_holding *gpumem_budget_next(struct gpumem_device *dev,
						 struct gpumem_holding *mark,
						 unsigned int *looked)
{
	struct gpumem_holding *holding;

	lockdep_assert_held(&dev->budget_lock);
	while (!list_is_last(&mark->link, &dev->holders)) {
		if (++*looked % GPUMEM_BUDGET_BATCH == 0) {
			spin_unlock(&dev->budget_lock);
			cond_resched();
			spin_lock(&dev->budget_lock);
			continue;
		}
		holding = list_next_entry(mark, link);
		list_move(&mark->link, &holding->link);
		/* Others are on their way, too. */
		if (holding->client)
			return holding;
	}
	return NULL;
}

/* Look at all; each, with @again, as if it had been told nothing. */
static void gpumem_budget_review_all(struct gpumem_device *dev, bool again)
{
	struct gpumem_holding mark = {}, *holding;
	unsigned int looked = 0;

	list_add(&mark.link, &dev->holders);
	while ((holding = gpumem_budget_next(dev, &mark, &looked))) {
		if (again) {
			if (holding->over)
				gpumem_budget_set(holding, 0);
			holding->over = false;
		}
		gpumem_budget_review(dev, holding);
	}
	list_del(&mark.link);
}

/**
 * gpumem_budget_charge - a client got memory
 * @client: client
 * @dev: of which device
 * @bytes: how much; not 0
 *
 * Context: may sleep.
 */
void gpumem_budget_charge(struct gpumem_client *client,
			  struct gpumem_device *dev, u64 bytes)
{
	struct gpumem_holding *holding = &client->holdings[dev->ordinal];
	bool first;

	might_sleep();
	spin_lock(&dev->budget_lock);
	first = !holding->bytes;
	holding->bytes += bytes;
	if (first) {
		holding->client = client;
		list_add_tail(&holding->link, &dev->holders);
		dev->nholders++;
		gpumem_budget_review_all(dev, false);
	} else {
		gpumem_budget_review(dev, holding);
	}
	spin_unlock(&dev->budget_lock);
}

/**
 * gpumem_budget_uncharge - a client's memory went
 * @client: client
 * @dev: of which device
 * @bytes: how much of what was charged
 *
 * Context: may sleep.
 */
void gpumem_budget_uncharge(struct gpumem_client *client,
			    struct gpumem_device *dev, u64 bytes)
{
	struct gpumem_holding *holding = &client->holdings[dev->ordinal];

	might_sleep();
	spin_lock(&dev->budget_lock);
	holding->bytes -= bytes;
	gpumem_budget_set(holding,
			  holding->excess - min(holding->excess, bytes));
	gpumem_budget_review(dev, holding);
	if (!holding->bytes) {
		list_del(&holding->link);
		dev->nholders--;
		gpumem_budget_review_all(dev, false);
	}
	spin_unlock(&dev->budget_lock);
}

/**
 * gpumem_budget_refused - a device has no memory for a client
 * @client: client
 * @dev: which device
 * @bytes: what it asked for
 *
 * Whoever asks for more than its share is no reason for others to give.
 *
 * Context: may sleep.
 */
void gpumem_budget_refused(struct gpumem_client *client,
			   struct gpumem_device *dev, u64 bytes)
{
	struct gpumem_holding *mine = &client->holdings[dev->ordinal];
	struct gpumem_holding mark = {}, *holding;
	unsigned int looked = 0;
	u64 share;

	might_sleep();
	spin_lock(&dev->budget_lock);
	list_add(&mark.link, &dev->holders);
	while ((holding = gpumem_budget_next(dev, &mark, &looked))) {
		share = gpumem_budget_share(dev, dev->nholders + !mine->bytes);
		if (mine->bytes > share || bytes > share - mine->bytes)
			break;
		if (holding != mine && holding->bytes > share)
			gpumem_budget_tell(holding, holding->bytes - share);
	}
	list_del(&mark.link);
	spin_unlock(&dev->budget_lock);
}

/**
 * gpumem_budget_excess - how much too many a client holds, told or not
 * @client: client
 * @dev: of which device
 *
 * Context: may sleep.
 * Return: bytes.
 */
u64 gpumem_budget_excess(struct gpumem_client *client,
			 struct gpumem_device *dev)
{
	struct gpumem_holding *holding = &client->holdings[dev->ordinal];
	u64 share, excess;

	might_sleep();
	spin_lock(&dev->budget_lock);
	share = gpumem_budget_share(dev, dev->nholders);
	excess = holding->bytes > share ? holding->bytes - share : 0;
	spin_unlock(&dev->budget_lock);
	return excess;
}

/* Take what a client has not heard of yet. */
static bool gpumem_budget_take(struct gpumem_client *client,
			       struct gpumem_notice *notice)
{
	struct gpumem_holding *holding;
	struct gpumem_device *dev;
	unsigned int i;

	for (i = 0; (dev = gpumem_client_device(client, i)); i++) {
		holding = &client->holdings[dev->ordinal];
		spin_lock(&dev->budget_lock);
		notice->bytes = holding->excess;
		gpumem_budget_set(holding, 0);
		spin_unlock(&dev->budget_lock);
		if (notice->bytes) {
			notice->device = i;
			return true;
		}
	}
	return false;
}

/* What was taken could not be delivered. */
static void gpumem_budget_put_back(struct gpumem_client *client,
				   const struct gpumem_notice *notice)
{
	struct gpumem_device *dev = gpumem_client_device(client,
							 notice->device);
	struct gpumem_holding *holding = &client->holdings[dev->ordinal];

	spin_lock(&dev->budget_lock);
	/* If that is over by now, nobody need hear of it. */
	if (holding->bytes && !holding->excess)
		gpumem_budget_tell(holding, notice->bytes);
	spin_unlock(&dev->budget_lock);
}

static bool gpumem_budget_any(struct gpumem_client *client)
{
	struct gpumem_device *dev;
	unsigned int i;

	for (i = 0; (dev = gpumem_client_device(client, i)); i++)
		if (READ_ONCE(client->holdings[dev->ordinal].excess))
			return true;
	return false;
}

/**
 * gpumem_budget_read - read() of a client's file
 * @file: the client's
 * @buf: where a struct gpumem_notice goes
 * @count: bytes there; more than that structure are left alone
 * @pos: not used
 *
 * Waits until there is something to be told, unless the file is O_NONBLOCK.
 *
 * Return: bytes written, or a negative errno.
 */
ssize_t gpumem_budget_read(struct file *file, char __user *buf, size_t count,
			   loff_t *pos)
{
	struct gpumem_client *client = file->private_data;
	struct gpumem_notice notice = { .type = GPUMEM_NOTICE_OVER_BUDGET };
	int ret;

	if (current->mm != client->mm)
		return -EPERM;
	if (count < sizeof(notice))
		return -EINVAL;
	while (!gpumem_budget_take(client, &notice)) {
		if (file->f_flags & O_NONBLOCK)
			return -EAGAIN;
		ret = wait_event_interruptible(client->told,
					       gpumem_budget_any(client));
		if (ret)
			return ret;
	}
	if (copy_to_user(buf, &notice, sizeof(notice))) {
		gpumem_budget_put_back(client, &notice);
		return -EFAULT;
	}
	return sizeof(notice);
}

/**
 * gpumem_budget_poll - poll() of a client's file
 * @file: the client's
 * @wait: who polls
 *
 * Return: EPOLLIN when read() would not wait.
 */
__poll_t gpumem_budget_poll(struct file *file, poll_table *wait)
{
	struct gpumem_client *client = file->private_data;

	poll_wait(file, &client->told, wait);
	if (current->mm != client->mm)
		return EPOLLERR;
	return gpumem_budget_any(client) ? EPOLLIN | EPOLLRDNORM : 0;
}

static ssize_t budget_show(struct device *dev, struct device_attribute *attr,
			   char *buf)
{
	struct gpumem_device *gdev = container_of(dev, struct gpumem_device,
						  dev);

	return sysfs_emit(buf, "%llu\n", READ_ONCE(gdev->budget));
}

/* Whoever has more than the new budget is told, also if he was before. */
static ssize_t budget_store(struct device *dev, struct device_attribute *attr,
			    const char *buf, size_t count)
{
	struct gpumem_device *gdev = container_of(dev, struct gpumem_device,
						  dev);
	u64 bytes;

	if (gpumem_size_parse(buf, &bytes) || bytes > LLONG_MAX)
		return -EINVAL;
	spin_lock(&gdev->budget_lock);
	WRITE_ONCE(gdev->budget, bytes);
	gpumem_budget_review_all(gdev, true);
	spin_unlock(&gdev->budget_lock);
	return count;
}
DEVICE_ATTR_RW(budget);

/**
 * gpumem_budget_resized - the device has more or less memory than before
 * @dev: device; its new size is set
 *
 * Context: may sleep.
 */
void gpumem_budget_resized(struct gpumem_device *dev)
{
	spin_lock(&dev->budget_lock);
	gpumem_budget_review_all(dev, false);
	spin_unlock(&dev->budget_lock);
}

/**
 * gpumem_budget_device - begin to count what clients hold of a device
 * @dev: device, zeroed
 */
void gpumem_budget_device(struct gpumem_device *dev)
{
	spin_lock_init(&dev->budget_lock);
	gpumem_lockdep_class(&dev->budget_lock, GPUMEM_LOCK_BUDGET);
	INIT_LIST_HEAD(&dev->holders);
}
