// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_lockdep: tell lockdep the whole lock order before anything runs.
 *
 * Built with CONFIG_PROVE_LOCKING alone.  Locks of one kind share a class, set
 * where they are initialized (gpumem_lockdep_class()).  At module init stand-ins
 * of each class are taken once in the order that gpumem_private.h states, with
 * the kernel's own (mmap_lock, dma_resv, fs_reclaim) between them; the first
 * place that takes two locks in another order is reported then, whether or not
 * the other order ever happens.
 */
#include <linux/dma-resv.h>
#include <linux/kernel.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "gpumem_private.h"

struct lock_class_key gpumem_lock_keys[GPUMEM_LOCKS];

/* One string for each class: lockdep compares the pointers. */
const char * const gpumem_lock_names[GPUMEM_LOCKS] = {
	[GPUMEM_LOCK_CLIENT] = "gpumem client",
	[GPUMEM_LOCK_VM_CHANGE] = "gpumem vm change",
	[GPUMEM_LOCK_VM] = "gpumem vm",
	[GPUMEM_LOCK_TOKEN] = "gpumem tokens",
	[GPUMEM_LOCK_POOL_NAME] = "gpumem pool name",
	[GPUMEM_LOCK_BO] = "gpumem bo",
	[GPUMEM_LOCK_DMABUF] = "gpumem dmabuf",
	[GPUMEM_LOCK_STREAM] = "gpumem streams",
	[GPUMEM_LOCK_POOL] = "gpumem pool",
	[GPUMEM_LOCK_CACHE] = "gpumem cache",
	[GPUMEM_LOCK_LANE] = "gpumem lane",
	[GPUMEM_LOCK_TIMELINE] = "gpumem timeline",
	[GPUMEM_LOCK_RUNNER] = "gpumem runner",
};

/* What .release of the MMU notifier runs in: no lock of ours is taken in it. */
static struct lockdep_map gpumem_release_map =
	STATIC_LOCKDEP_MAP_INIT("gpumem notifier release", &gpumem_release_map);

/**
 * gpumem_lockdep_release_begin - .release of the MMU notifier begins
 *
 * The kernel complains about whatever sleeps until the end, and lockdep about
 * each sleeping lock of the table below that is taken.
 */
void gpumem_lockdep_release_begin(void)
{
	non_block_start();
	lock_map_acquire(&gpumem_release_map);
}

/**
 * gpumem_lockdep_release_end - .release of the MMU notifier is over
 */
void gpumem_lockdep_release_end(void)
{
	lock_map_release(&gpumem_release_map);
	non_block_end();
}

/**
 * struct gpumem_stand_ins - one lock of each kind; too much for a stack
 */
struct gpumem_stand_ins {
	/** @client: as client->lock */
	struct mutex client;
	/** @change: as vm->change */
	struct mutex change;
	/** @vm: as vm->lock */
	struct rw_semaphore vm;
	/** @token: as token_set->lock */
	struct mutex token;
	/** @pool_name: as pool->name_lock */
	struct mutex pool_name;
	/** @bo: as bo->lock */
	struct mutex bo;
	/** @resv: a DMA-buf's */
	struct dma_resv resv;
	/** @dmabuf: as dmabuf->lock */
	struct mutex dmabuf;
	/** @stream: as client->stream_lock */
	spinlock_t stream;
	/** @pool: as pool->lock */
	spinlock_t pool;
	/** @cache: as cache->lock */
	spinlock_t cache;
	/** @lane: as lane->lock */
	spinlock_t lane;
	/** @timeline: as timeline->lock */
	spinlock_t timeline;
	/** @runner: as runner->lock */
	spinlock_t runner;
};

static void gpumem_lockdep_walk(struct gpumem_stand_ins *s)
{
	unsigned long flags;
	bool cookie;

	/* insmod's. */
	mmap_read_lock(current->mm);
	mutex_lock(&s->client);
	mutex_lock(&s->change);
	mutex_lock(&s->token);
	mutex_lock(&s->pool_name);
	mutex_lock(&s->bo);
	dma_resv_lock(&s->resv, NULL);
	mutex_lock(&s->dmabuf);
	fs_reclaim_acquire(GFP_KERNEL);
	fs_reclaim_release(GFP_KERNEL);
	/* What others wait for takes it. */
	cookie = dma_fence_begin_signalling();
	down_write(&s->vm);
	lock_map_acquire(&gpumem_release_map);
	lock_map_release(&gpumem_release_map);
	spin_lock(&s->stream);
	spin_lock(&s->pool);
	spin_lock(&s->cache);
	spin_unlock(&s->cache);
	spin_lock_irqsave(&s->lane, flags);
	spin_unlock_irqrestore(&s->lane, flags);
	spin_lock_irqsave(&s->timeline, flags);
	spin_lock(&s->runner);
	spin_unlock(&s->runner);
	spin_unlock_irqrestore(&s->timeline, flags);
	spin_unlock(&s->pool);
	spin_unlock(&s->stream);
	up_write(&s->vm);
	dma_fence_end_signalling(cookie);
	mutex_unlock(&s->dmabuf);
	dma_resv_unlock(&s->resv);
	mutex_unlock(&s->bo);
	mutex_unlock(&s->pool_name);
	mutex_unlock(&s->token);
	mutex_unlock(&s->change);
	mutex_unlock(&s->client);
	mmap_read_unlock(current->mm);
}

/**
 * gpumem_lockdep_prime - teach lockdep the lock order
 *
 * Return: 0 or -ENOMEM.
 */
int gpumem_lockdep_prime(void)
{
	struct gpumem_stand_ins *s = kzalloc(sizeof(*s), GFP_KERNEL);

	if (!s)
		return -ENOMEM;
	mutex_init(&s->client);
	gpumem_lockdep_class(&s->client, GPUMEM_LOCK_CLIENT);
	mutex_init(&s->change);
	gpumem_lockdep_class(&s->change, GPUMEM_LOCK_VM_CHANGE);
	init_rwsem(&s->vm);
	gpumem_lockdep_class(&s->vm, GPUMEM_LOCK_VM);
	mutex_init(&s->token);
	gpumem_lockdep_class(&s->token, GPUMEM_LOCK_TOKEN);
	mutex_init(&s->pool_name);
	gpumem_lockdep_class(&s->pool_name, GPUMEM_LOCK_POOL_NAME);
	mutex_init(&s->bo);
	gpumem_lockdep_class(&s->bo, GPUMEM_LOCK_BO);
	dma_resv_init(&s->resv);
	mutex_init(&s->dmabuf);
	gpumem_lockdep_class(&s->dmabuf, GPUMEM_LOCK_DMABUF);
	spin_lock_init(&s->stream);
	gpumem_lockdep_class(&s->stream, GPUMEM_LOCK_STREAM);
	spin_lock_init(&s->pool);
	gpumem_lockdep_class(&s->pool, GPUMEM_LOCK_POOL);
	spin_lock_init(&s->cache);
	gpumem_lockdep_class(&s->cache, GPUMEM_LOCK_CACHE);
	spin_lock_init(&s->lane);
	gpumem_lockdep_class(&s->lane, GPUMEM_LOCK_LANE);
	spin_lock_init(&s->timeline);
	gpumem_lockdep_class(&s->timeline, GPUMEM_LOCK_TIMELINE);
	spin_lock_init(&s->runner);
	gpumem_lockdep_class(&s->runner, GPUMEM_LOCK_RUNNER);
	gpumem_lockdep_walk(s);
	dma_resv_fini(&s->resv);
	kfree(s);
	return 0;
}
