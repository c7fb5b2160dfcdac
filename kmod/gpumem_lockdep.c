// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_lockdep: show lockdep the whole lock order at module init.
 *
 * Built only with CONFIG_PROVE_LOCKING.  Each kind of lock has a class, set
 * where its locks are initialized (gpumem_lockdep_class()).  A *stand-in* is a
 * lockdep map of a class, without a lock.  At module init
 * gpumem_lockdep_prime() acquires one stand-in of each class, outer to inner:
 * in the order of enum gpumem_lock_kind, with the kernel's own locks
 * (mmap_lock, dma_resv, fs_reclaim, dma_fence) between them.  From then on
 * lockdep reports the first place that takes two of these locks in the opposite
 * order, even if no other place takes them in the right order.
 */
#include <linux/dma-resv.h>
#include <linux/irqflags.h>
#include <linux/kernel.h>
#include <linux/lockdep.h>
#include <linux/mmap_lock.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "gpumem_lock.h"

struct lock_class_key gpumem_lock_keys[GPUMEM_LOCKS];

/*
 * One string for each class: lockdep compares the pointers.  The words after
 * the first are the lock's name in gpumem_lock.h and locking.rst.
 */
const char * const gpumem_lock_names[GPUMEM_LOCKS] = {
	[GPUMEM_LOCK_RUNNER_GROW] = "gpumem runner->grow",
	[GPUMEM_LOCK_SIZE] = "gpumem gpumem_size_lock",
	[GPUMEM_LOCK_CLIENT] = "gpumem client->lock",
	[GPUMEM_LOCK_USERS] = "gpumem gpumem_users_lock",
	[GPUMEM_LOCK_VM_CHANGE] = "gpumem vm->change",
	[GPUMEM_LOCK_PIN] = "gpumem client->pin_lock",
	[GPUMEM_LOCK_TOKEN] = "gpumem token_set->lock",
	[GPUMEM_LOCK_POOL_NAME] = "gpumem pool->name_lock",
	[GPUMEM_LOCK_BO] = "gpumem bo->lock",
	[GPUMEM_LOCK_DMABUF] = "gpumem dmabuf->lock",
	[GPUMEM_LOCK_DRAIN] = "gpumem gpumem_drain_lock",
	[GPUMEM_LOCK_VM] = "gpumem vm->lock",
	[GPUMEM_LOCK_STREAM] = "gpumem client->stream_lock",
	[GPUMEM_LOCK_GONE] = "gpumem client->gone_lock",
	[GPUMEM_LOCK_LINGER] = "gpumem mem->linger_lock",
	[GPUMEM_LOCK_MANAGED] = "gpumem gpumem_managed_lock",
	[GPUMEM_LOCK_POOL] = "gpumem pool->lock",
	[GPUMEM_LOCK_CACHE] = "gpumem cache->lock",
	[GPUMEM_LOCK_NOTICE] = "gpumem device->notice_lock",
	[GPUMEM_LOCK_POINT] = "gpumem point->lock",
	[GPUMEM_LOCK_JOINT] = "gpumem bo->joint_lock",
	[GPUMEM_LOCK_NETLINK] = "gpumem gpumem_nl_lock",
	[GPUMEM_LOCK_LANE] = "gpumem lane->lock",
	[GPUMEM_LOCK_TIMELINE] = "gpumem timeline->lock",
	[GPUMEM_LOCK_RUNNER] = "gpumem runner->lock",
	[GPUMEM_LOCK_FENCE] = "gpumem fence->lock",
};

/* The first spinlock of the enum, and the first lock that interrupts take. */
#define GPUMEM_LOCK_FIRST_SPIN	GPUMEM_LOCK_STREAM
#define GPUMEM_LOCK_FIRST_IRQ	GPUMEM_LOCK_LANE

/* Held while the MMU notifier's .release runs, which takes no lock of ours. */
static struct lockdep_map gpumem_release_map =
	STATIC_LOCKDEP_MAP_INIT("gpumem notifier release", &gpumem_release_map);

/**
 * gpumem_lockdep_release_begin - .release of the MMU notifier begins
 *
 * Until gpumem_lockdep_release_end() the kernel reports any sleep, and lockdep
 * reports each sleeping lock of the table above.
 */
void gpumem_lockdep_release_begin(void)
{
	non_block_start();
	lock_map_acquire(&gpumem_release_map);
}

/**
 * gpumem_lockdep_release_end - .release of the MMU notifier ends
 */
void gpumem_lockdep_release_end(void)
{
	lock_map_release(&gpumem_release_map);
	non_block_end();
}

/**
 * struct gpumem_stand_ins - the stand-ins; too large for the stack
 * @map: stand-in of each kind
 * @resv: stands in for the reservation object of a DMA-buf
 */
struct gpumem_stand_ins {
	struct lockdep_map map[GPUMEM_LOCKS];
	struct dma_resv resv;
};

/* Acquire the stand-ins from @from up to, and not including, @to. */
static void gpumem_lockdep_take(struct gpumem_stand_ins *s, unsigned int from,
				unsigned int to)
{
	for (; from < to; from++)
		lock_map_acquire(&s->map[from]);
}

static void gpumem_lockdep_drop(struct gpumem_stand_ins *s, unsigned int from,
				unsigned int to)
{
	while (to-- > from)
		lock_map_release(&s->map[to]);
}

static void gpumem_lockdep_walk(struct gpumem_stand_ins *s)
{
	unsigned long flags;
	bool cookie;

	gpumem_lockdep_take(s, 0, GPUMEM_LOCK_CLIENT);
	/* The mm of the process that loads the module. */
	mmap_read_lock(current->mm);
	gpumem_lockdep_take(s, GPUMEM_LOCK_CLIENT, GPUMEM_LOCK_DMABUF);
	dma_resv_lock(&s->resv, NULL);
	gpumem_lockdep_take(s, GPUMEM_LOCK_DMABUF, GPUMEM_LOCK_VM);
	fs_reclaim_acquire(GFP_KERNEL);
	fs_reclaim_release(GFP_KERNEL);
	/* Work that signals a published fence takes what follows. */
	cookie = dma_fence_begin_signalling();
	gpumem_lockdep_take(s, GPUMEM_LOCK_VM, GPUMEM_LOCK_FIRST_SPIN);
	lock_map_acquire(&gpumem_release_map);
	lock_map_release(&gpumem_release_map);
	gpumem_lockdep_take(s, GPUMEM_LOCK_FIRST_SPIN, GPUMEM_LOCK_FIRST_IRQ);
	local_irq_save(flags);
	gpumem_lockdep_take(s, GPUMEM_LOCK_FIRST_IRQ, GPUMEM_LOCKS);
	gpumem_lockdep_drop(s, GPUMEM_LOCK_FIRST_IRQ, GPUMEM_LOCKS);
	local_irq_restore(flags);
	gpumem_lockdep_drop(s, GPUMEM_LOCK_VM, GPUMEM_LOCK_FIRST_IRQ);
	dma_fence_end_signalling(cookie);
	gpumem_lockdep_drop(s, GPUMEM_LOCK_DMABUF, GPUMEM_LOCK_VM);
	dma_resv_unlock(&s->resv);
	gpumem_lockdep_drop(s, GPUMEM_LOCK_CLIENT, GPUMEM_LOCK_DMABUF);
	mmap_read_unlock(current->mm);
	gpumem_lockdep_drop(s, 0, GPUMEM_LOCK_CLIENT);
}

/**
 * gpumem_lockdep_prime - teach lockdep the lock order
 *
 * Return: 0 or -ENOMEM.
 */
int gpumem_lockdep_prime(void)
{
	struct gpumem_stand_ins *s = kzalloc(sizeof(*s), GFP_KERNEL);
	unsigned int i;

	if (!s)
		return -ENOMEM;
	for (i = 0; i < GPUMEM_LOCKS; i++)
		lockdep_init_map_wait(&s->map[i], gpumem_lock_names[i],
				      &gpumem_lock_keys[i], 0,
				      i < GPUMEM_LOCK_FIRST_SPIN ?
				      LD_WAIT_SLEEP : LD_WAIT_CONFIG);
	dma_resv_init(&s->resv);
	gpumem_lockdep_walk(s);
	dma_resv_fini(&s->resv);
	kfree(s);
	return 0;
}
