/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The order of all locks, and their lockdep classes.  Includes no other header of
 * gpumem.
 *
 * Lock order, outer to inner.  A line is a lock of ours, or one of the kernel's
 * in square brackets; Documentation/locking.rst has the same lines and says more:
 *
 *	runner->grow			mutex: the creation of workers
 *	gpumem_size_lock		mutex: sizes of memories
 *	[mmap_lock]			.mmap: a lookup and the mapping; page faults
 *	client->lock			mutex: attached devices
 *	gpumem_users_lock		mutex: users' budgets; none inside
 *	vm->change			mutex: changes of an address space
 *	client->pin_lock		mutex: registered ranges
 *	token_set->lock			mutex: tokens of a root
 *	pool->name_lock			mutex: token of a pool
 *	bo->lock			mutex: windows of a root
 *	[dma_resv]			of a root's DMA-bufs
 *	dmabuf->lock			mutex: attachments that are mapped
 *	gpumem_drain_lock		mutex: a drain of all CPUs; by trylock
 *	[fs_reclaim]			then i_mmap, mmu_notifier
 *	[dma_fence]			waiting for one, or signalling it
 *	vm->lock			rwsem: the mappings of an address space
 *	[folio lock]
 *	client->stream_lock		spin: lists of streams
 *	client->gone_lock		spin: objects without an id
 *	mem->linger_lock		spin: files whose free is deferred
 *	gpumem_managed_lock		spin: blocks of managed memory
 *	pool->lock			spin: counters of a pool
 *	cache->lock			spin: words in a client's cache page
 *	device->notice_lock		spin: memory that each client holds
 *	point->lock			spin: what an event has recorded
 *	bo->joint_lock			spin: joint DMA-bufs of a root
 *	gpumem_nl_lock			spin: rate of the reports of refusals
 *	lane->lock			spin, irqsafe: published fenced entries
 *	timeline->lock			spin, irqsafe: value, error, waiters
 *	runner->lock			spin, irqsafe: streams that are ready
 *	fence->lock			spin, irqsafe: the dma_fence core's
 *
 * Work that signals fences takes vm->lock, so nothing is allocated under vm->lock.
 * User copies are done with no lock held.  enum gpumem_lock_kind has the same
 * order, and gpumem_lockdep.c teaches it to lockdep.  The table of names and
 * the list of cached chunks (list_lru) use locks of the kernel.
 */
#ifndef GPUMEM_LOCK_H
#define GPUMEM_LOCK_H

#include <linux/lockdep.h>

/* Kinds of locks, one lockdep class each, outer to inner. */
enum gpumem_lock_kind {
	GPUMEM_LOCK_RUNNER_GROW,	/* runner->grow */
	GPUMEM_LOCK_SIZE,		/* gpumem_size_lock */
	GPUMEM_LOCK_CLIENT,		/* client->lock */
	GPUMEM_LOCK_USERS,		/* gpumem_users_lock */
	GPUMEM_LOCK_VM_CHANGE,		/* vm->change */
	GPUMEM_LOCK_PIN,		/* client->pin_lock */
	GPUMEM_LOCK_TOKEN,		/* token_set->lock */
	GPUMEM_LOCK_POOL_NAME,		/* pool->name_lock */
	GPUMEM_LOCK_BO,			/* bo->lock */
	GPUMEM_LOCK_DMABUF,		/* dmabuf->lock */
	GPUMEM_LOCK_DRAIN,		/* gpumem_drain_lock */
	GPUMEM_LOCK_VM,			/* vm->lock */
	GPUMEM_LOCK_STREAM,		/* client->stream_lock */
	GPUMEM_LOCK_GONE,		/* client->gone_lock */
	GPUMEM_LOCK_LINGER,		/* mem->linger_lock */
	GPUMEM_LOCK_MANAGED,		/* gpumem_managed_lock */
	GPUMEM_LOCK_POOL,		/* pool->lock */
	GPUMEM_LOCK_CACHE,		/* cache->lock */
	GPUMEM_LOCK_NOTICE,		/* device->notice_lock */
	GPUMEM_LOCK_POINT,		/* point->lock */
	GPUMEM_LOCK_JOINT,		/* bo->joint_lock */
	GPUMEM_LOCK_NETLINK,		/* gpumem_nl_lock */
	GPUMEM_LOCK_LANE,		/* lane->lock */
	GPUMEM_LOCK_TIMELINE,		/* timeline->lock */
	GPUMEM_LOCK_RUNNER,		/* runner->lock */
	GPUMEM_LOCK_FENCE,		/* fence->lock */
	GPUMEM_LOCKS,
};

#ifdef CONFIG_PROVE_LOCKING
extern struct lock_class_key gpumem_lock_keys[GPUMEM_LOCKS];
extern const char * const gpumem_lock_names[GPUMEM_LOCKS];
int gpumem_lockdep_prime(void);
void gpumem_lockdep_release_begin(void);
void gpumem_lockdep_release_end(void);
#define gpumem_lockdep_class(lock, kind) \
	lockdep_set_class_and_name(lock, &gpumem_lock_keys[kind],	\
				   gpumem_lock_names[kind])
#else
static inline int gpumem_lockdep_prime(void)
{
	return 0;
}

static inline void gpumem_lockdep_release_begin(void)
{
}

static inline void gpumem_lockdep_release_end(void)
{
}

#define gpumem_lockdep_class(lock, kind) ((void)(lock), (void)(kind))
#endif

#endif /* GPUMEM_LOCK_H */
