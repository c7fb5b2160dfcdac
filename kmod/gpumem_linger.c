// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_linger: defers the free of memory files while other subsystems hold
 * references on their pages.
 *
 * If the free were not deferred, it would give back budget for memory that is
 * still in use.  A file whose free is deferred *lingers*.  This file owns the
 * list of lingering files of each memory (struct gpumem_mem), the checks of
 * that list, and the work items that drain LRU batches.
 *
 * References: the page cache and the page tables hold references on the folios
 * of a memory file (gpumem_shmem.c).  gpumem_shmem_populate() takes one more on
 * each folio.  The buffer object drops it when it is freed or its memory is
 * discarded; for managed memory, gpumem_managed.c drops it when a block is no
 * longer held.  A folio is *held* if it has another reference: of another
 * subsystem (an RDMA region, an io_uring buffer, a pipe), of an engine that
 * works on the folio, or of an LRU batch.  memory_failure() keeps a reference on
 * a failed page, which does not count.
 *
 * LRU batches: the kernel collects small folios of each CPU in batches before
 * it puts them on an LRU list.  Only a folio that is not on an LRU list, or
 * that is mlocked, can be in a batch.  A batch is no user of the memory, so
 * this module drains batches in six places:
 *
 *  - gpumem_shmem_populate() drains the CPU that it runs on before it returns,
 *    so that later drains are rare.  If the task has changed its CPU meanwhile,
 *    a work item drains the earlier CPU.
 *  - If a check finds a folio that may be in a batch, it drains the CPU that it
 *    runs on and checks again.
 *  - The release of a file of managed memory that has such a folio queues drains
 *    of all CPUs: page faults on any CPU may have populated the file.
 *  - A move of pages to another memory node (gpumem_move.c) drains the CPU that
 *    it runs on.  If folios stayed that may be in a batch, it drains all CPUs
 *    and tries once more.
 *  - A discard of managed memory that finds such a folio drains all CPUs, and
 *    checks once more.
 *  - An allocation that finds no room checks all lingering files.  If this
 *    freed none and some have folios that may be in a batch, the allocation
 *    drains all CPUs and, if each was drained in time, checks again.
 *    Allocations do so at most once in GPUMEM_DRAIN_PAUSE.  The allocation waits
 *    GPUMEM_DRAIN_WAIT at most, because a real-time task can keep a CPU's work
 *    item from running.
 *
 * A folio that may be in a batch counts as held if its CPU was not drained.
 *
 * Checks: these check files of the list, the least recently checked first, and
 * free files that have no held pages:
 *
 *  - an allocation or registration that finds no room checks all files, then
 *    tries again;
 *  - the release of a file of the memory checks two files;
 *  - a query of the memory in use checks GPUMEM_LINGER_BATCH files;
 *  - a work item checks GPUMEM_LINGER_BATCH files.  Adding a file to the list
 *    queues it.  It queues itself again while there are files, with twice the
 *    delay each time, until it was queued GPUMEM_LINGER_RETRIES times.  Checks
 *    that the shrinker requested do not count;
 *  - a shrinker queues the same work item when the system is short of memory.
 *
 * backing->held is the index of the held page that the last check of the file
 * found.  The next check starts there, so it needs one lookup if the page is
 * still held.  Each file in the list has a reference on the module.
 *
 * Locks: mem->linger_lock protects the list and the counters beside it.  A task
 * takes a file off the list before it checks it, and holds no lock during the
 * check.  An allocation that found no room waits GPUMEM_LOOK_WAIT at most for
 * checks by other tasks.  gpumem_drain_lock serializes drains of all CPUs.
 */
#include <linux/cpumask.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/pagemap.h>
#include <linux/sched/signal.h>
#include <linux/shrinker.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "gpumem_compat.h"
#include "gpumem_linger.h"
#include "gpumem_lock.h"
#include "gpumem_mem.h"
#include "gpumem_shmem.h"

#define GPUMEM_LINGER_BATCH	64
#define GPUMEM_LINGER_DELAY	msecs_to_jiffies(20)
/* 20 ms, 40 ms and so on: 2.5 seconds in all. */
#define GPUMEM_LINGER_RETRIES	7

#define GPUMEM_DRAIN_WAIT	msecs_to_jiffies(50)
#define GPUMEM_DRAIN_PAUSE	msecs_to_jiffies(1000)

#define GPUMEM_LOOK_WAIT	msecs_to_jiffies(50)

/*
 * A folio that has more unknown references than this counts as held.  Usually a
 * folio has one reference of an LRU batch and one of an mlock batch at most.
 */
#define GPUMEM_BATCH_REFS	2

/**
 * struct gpumem_drain - empties the LRU batches of a CPU
 * @work: runs on @cpu, or on any CPU if @cpu is offline
 * @cpu: CPU to drain; constant
 */
struct gpumem_drain {
	struct work_struct work;
	int cpu;
};

static DEFINE_PER_CPU(struct gpumem_drain, gpumem_drains);
/*
 * CPUs whose work item is queued.  If a drain is requested while the work item
 * runs, that run clears the CPU's bit although the requested run has not begun.
 * The requester then stops waiting too early, and may count a folio in an LRU
 * batch as held.
 */
static struct cpumask gpumem_drain_queued;
/* CPUs that a drain of all CPUs waits for.  Protected by gpumem_drain_lock. */
static struct cpumask gpumem_drain_awaited;
/*
 * CPUs whose work item was still queued when the last drain of all ended.
 * Same lock.
 */
static struct cpumask gpumem_drain_late;
static DECLARE_WAIT_QUEUE_HEAD(gpumem_drain_wait);
/*
 * Serializes drains of all CPUs, which take it by trylock: no task waits for
 * it.
 */
static DEFINE_MUTEX(gpumem_drain_lock);
/* When the last drain of all CPUs ended, in jiffies, or 0.  Same lock. */
static unsigned long gpumem_drain_last;

/**
 * gpumem_drain_here - empty this CPU's LRU batches
 */
void gpumem_drain_here(void)
{
	struct folio_batch fbatch;

	/*
	 * Releasing any folio_batch, even an empty one, drains this CPU first.
	 */
	folio_batch_init(&fbatch);
	__folio_batch_release(&fbatch);
}

static void gpumem_drain_work(struct work_struct *work)
{
	struct gpumem_drain *drain = container_of(work, struct gpumem_drain,
						  work);

	gpumem_drain_here();
	cpumask_clear_cpu(drain->cpu, &gpumem_drain_queued);
	wake_up(&gpumem_drain_wait);
}

/**
 * gpumem_drain_cpu - queue a drain of a CPU's LRU batches
 * @cpu: CPU
 *
 * Context: any; does not sleep.
 */
void gpumem_drain_cpu(int cpu)
{
	/*
	 * Queue the work item even if it runs now: it may have drained already.
	 */
	cpumask_set_cpu(cpu, &gpumem_drain_queued);
	schedule_work_on(cpu, &per_cpu(gpumem_drains, cpu).work);
}

/* Drain all CPUs.  Return true if the drain finished on each of them. */
static bool gpumem_drain_all_locked(void)
{
	bool done, all = true;
	int cpu;

	lockdep_assert_held(&gpumem_drain_lock);
	cpumask_clear(&gpumem_drain_awaited);
	for_each_online_cpu(cpu) {
		/*
		 * Skip a CPU whose drain is still queued since the last time.
		 */
		if (cpumask_test_cpu(cpu, &gpumem_drain_queued) &&
		    cpumask_test_cpu(cpu, &gpumem_drain_late)) {
			all = false;
			continue;
		}
		gpumem_drain_cpu(cpu);
		cpumask_set_cpu(cpu, &gpumem_drain_awaited);
	}
	done = wait_event_timeout(gpumem_drain_wait,
				  !cpumask_intersects(&gpumem_drain_awaited,
						      &gpumem_drain_queued),
				  GPUMEM_DRAIN_WAIT);
	cpumask_and(&gpumem_drain_late, cpu_online_mask, &gpumem_drain_queued);
	gpumem_drain_last = jiffies ?: 1;
	return done && all;
}

/**
 * gpumem_drain_all_now - empty the LRU batches of all CPUs
 *
 * Context: may sleep.
 * Return: false if another task does so, or a CPU was not drained in time.
 */
bool gpumem_drain_all_now(void)
{
	bool done;

	if (!mutex_trylock(&gpumem_drain_lock))
		return false;
	done = gpumem_drain_all_locked();
	mutex_unlock(&gpumem_drain_lock);
	return done;
}

/* As gpumem_drain_all_now(), but once in GPUMEM_DRAIN_PAUSE at most. */
static bool gpumem_drain_all(void)
{
	bool done = false;

	if (!mutex_trylock(&gpumem_drain_lock))
		return false;
	if (!gpumem_drain_last ||
	    !time_before(jiffies, gpumem_drain_last + GPUMEM_DRAIN_PAUSE))
		done = gpumem_drain_all_locked();
	mutex_unlock(&gpumem_drain_lock);
	return done;
}

/* Return true if LRU batches may hold the @more references on @folio. */
static bool gpumem_folio_batched(struct folio *folio, int more)
{
	return more <= GPUMEM_BATCH_REFS &&
	       (!folio_test_lru(folio) || folio_test_mlocked(folio));
}

/* The number of references that memory_failure() keeps on @folio. */
static int gpumem_folio_failed(struct folio *folio)
{
	return !folio_test_large(folio) && folio_test_hwpoison(folio);
}

/*
 * Find a held folio from *@index to @last, and store its index in *@index.
 * @ours: references on each folio that the caller accounts for.
 */
static enum gpumem_held gpumem_range_scan(struct address_space *mapping,
					  pgoff_t *index, pgoff_t last,
					  int ours)
{
	enum gpumem_held held = GPUMEM_HELD_NO;
	struct folio_batch fbatch;
	pgoff_t next = *index;
	unsigned int i;
	int more;

	folio_batch_init(&fbatch);
	while (!held && filemap_get_folios(mapping, &next, last, &fbatch)) {
		for (i = 0; !held && i < folio_batch_count(&fbatch); i++) {
			struct folio *folio = fbatch.folios[i];

			/* The folio_batch has one reference. */
			more = folio_ref_count(folio) -
			       gpumem_compat_folio_refs(folio) - ours - 1;
			if (more <= gpumem_folio_failed(folio))
				continue;
			held = gpumem_folio_batched(folio, more) ?
			       GPUMEM_HELD_BATCH : GPUMEM_HELD_YES;
			*index = max(*index, folio->index);
		}
		folio_batch_release(&fbatch);
		cond_resched();
	}
	return held;
}

static enum gpumem_held gpumem_range_held(struct address_space *mapping,
					  pgoff_t *index, pgoff_t last,
					  int ours)
{
	enum gpumem_held held = gpumem_range_scan(mapping, index, last, ours);

	if (held != GPUMEM_HELD_BATCH)
		return held;
	gpumem_drain_here();
	/* No page before *index is held: start there. */
	return gpumem_range_scan(mapping, index, last, ours);
}

/**
 * gpumem_shmem_used_elsewhere - check whether pages of a range are held
 * @mapping: of a memory file
 * @offset: start of the range
 * @length: bytes, not 0
 * @ours: references on each folio that the caller accounts for
 *
 * Pins count, and so do other references: of a pipe, of a network packet, of an
 * engine that works on the folio.  A reference on any page of a folio counts
 * for the whole folio.  A folio that another CPU's LRU batch may hold counts as
 * held.
 *
 * Context: may sleep.  Reclaim may call it.
 * Return: true if pages are held, or may be.
 */
bool gpumem_shmem_used_elsewhere(struct address_space *mapping, u64 offset,
				 u64 length, int ours)
{
	pgoff_t first = offset >> PAGE_SHIFT;
	pgoff_t last = (offset + length - 1) >> PAGE_SHIFT;

	return gpumem_range_held(mapping, &first, last, ours);
}

/**
 * gpumem_shmem_held - check whether another subsystem holds pages of a range
 * @mapping: of a memory file
 * @first: index of the first page
 * @last: index of the last page
 *
 * As gpumem_shmem_used_elsewhere(), without references of the caller.  If a folio
 * may be in the LRU batch of another CPU, the batches of all CPUs are drained.
 *
 * Context: may sleep, GPUMEM_DRAIN_WAIT at most for the drain.
 * Return: true if pages are held, or may be.
 */
bool gpumem_shmem_held(struct address_space *mapping, pgoff_t first,
		       pgoff_t last)
{
	pgoff_t index = first;
	enum gpumem_held held = gpumem_range_held(mapping, &index, last, 0);

	if (held != GPUMEM_HELD_BATCH)
		return held;
	gpumem_drain_all_now();
	return gpumem_range_held(mapping, &index, last, 0);
}

/**
 * gpumem_linger_held - check whether pages of a file that has no user are held
 * @inode: of the file
 * @held: in: index where the check starts; out: index of a held page
 *
 * Return: enum gpumem_held.
 */
enum gpumem_held gpumem_linger_held(struct inode *inode, pgoff_t *held)
{
	pgoff_t pages = i_size_read(inode) >> PAGE_SHIFT, begin = *held;
	enum gpumem_held answer;

	if (!pages)
		return GPUMEM_HELD_NO;
	answer = gpumem_range_held(inode->i_mapping, held, pages - 1, 0);
	if (answer || !begin)
		return answer;
	*held = 0;
	return gpumem_range_held(inode->i_mapping, held, begin - 1, 0);
}

static void gpumem_linger_free(struct gpumem_backing *backing)
{
	path_put(&backing->path);
	atomic64_sub(backing->length, &backing->mem->lingering);
	gpumem_backing_free(backing);
	/*
	 * The module stays while this function runs.  Only the work item may
	 * drop the last reference, and gpumem_linger_unmount() waits for it.
	 * Others that check files run for an open file or a registered device.
	 */
	module_put(THIS_MODULE);
}

/*
 * Take the first file off the list and count a check; NULL if the list is
 * empty.
 */
static struct gpumem_backing *gpumem_linger_first(struct gpumem_mem *mem)
{
	struct gpumem_backing *backing;

	spin_lock(&mem->linger_lock);
	backing = list_first_entry_or_null(&mem->linger, struct gpumem_backing,
					   link);
	if (backing) {
		list_del_init(&backing->link);
		mem->nlooks++;
	}
	spin_unlock(&mem->linger_lock);
	return backing;
}

/*
 * Free a file that was taken off the list or, if pages are held, put it back.
 */
static enum gpumem_held gpumem_linger_look_at(struct gpumem_backing *backing)
{
	struct gpumem_mem *mem = backing->mem;
	enum gpumem_held held;

	held = gpumem_linger_held(d_inode(backing->path.dentry),
				  &backing->held);
	if (!held)
		gpumem_linger_free(backing);
	spin_lock(&mem->linger_lock);
	if (held) {
		list_add_tail(&backing->link, &mem->linger);
	} else {
		mem->nlinger--;
		mem->nunheld++;
	}
	if (!--mem->nlooks)
		wake_up(&mem->linger_wait);
	spin_unlock(&mem->linger_lock);
	return held;
}

/*
 * Check @max files at most, the least recently checked first.  Return how many
 * were freed.  Set *@batched to true if a file that was not freed may be held
 * by LRU batches only; else leave it.  A caller that reads it initializes it.
 */
static unsigned long gpumem_linger_look(struct gpumem_mem *mem,
					unsigned long max, bool *batched)
{
	struct gpumem_backing *backing;
	unsigned long freed = 0;
	enum gpumem_held held;

	max = min(max, READ_ONCE(mem->nlinger));
	for (; max && !fatal_signal_pending(current); max--) {
		backing = gpumem_linger_first(mem);
		if (!backing)
			break;
		held = gpumem_linger_look_at(backing);
		if (!held)
			freed++;
		else if (held == GPUMEM_HELD_BATCH)
			*batched = true;
		cond_resched();
	}
	return freed;
}

static void gpumem_linger_retry(struct work_struct *work)
{
	struct gpumem_mem *mem = container_of(to_delayed_work(work),
					      struct gpumem_mem, linger_retry);
	unsigned int pressed = xchg(&mem->linger_pressed, 0);
	bool batched;

	gpumem_linger_look(mem, GPUMEM_LINGER_BATCH, &batched);
	spin_lock(&mem->linger_lock);
	if (mem->nlinger && mem->linger_retries < GPUMEM_LINGER_RETRIES) {
		queue_delayed_work(gpumem_compat_unbound_wq, &mem->linger_retry,
				   GPUMEM_LINGER_DELAY << mem->linger_retries);
		/* A check that the shrinker requested is no retry. */
		mem->linger_retries += !pressed;
	}
	spin_unlock(&mem->linger_lock);
}

/**
 * gpumem_linger_add - defer the free of a file whose pages are held
 * @backing: of the file, which is being released
 * @path: path of the file; this function takes a reference
 * @held: index of a held page
 */
void gpumem_linger_add(struct gpumem_backing *backing, const struct path *path,
		       pgoff_t held)
{
	struct gpumem_mem *mem = backing->mem;

	backing->path = *path;
	path_get(&backing->path);
	backing->held = held;
	atomic64_add(backing->length, &mem->lingering);
	__module_get(THIS_MODULE);
	spin_lock(&mem->linger_lock);
	list_add_tail(&backing->link, &mem->linger);
	mem->nlinger++;
	/* Restart a pending retry whose delay has grown for an older file. */
	if (mem->linger_retries > 1)
		mod_delayed_work(gpumem_compat_unbound_wq, &mem->linger_retry,
				 GPUMEM_LINGER_DELAY);
	else
		queue_delayed_work(gpumem_compat_unbound_wq, &mem->linger_retry,
				   GPUMEM_LINGER_DELAY);
	mem->linger_retries = 1;
	spin_unlock(&mem->linger_lock);
}

/**
 * gpumem_linger_glance - check two lingering files, and free those not held
 * @mem: memory, of which a file is being released
 */
void gpumem_linger_glance(struct gpumem_mem *mem)
{
	bool batched;

	gpumem_linger_look(mem, 2, &batched);
}

/**
 * gpumem_linger_used - free some lingering files, then get the memory in use
 * @mem: memory
 *
 * Checks GPUMEM_LINGER_BATCH files at most.
 *
 * Context: may sleep.
 * Return: bytes, with resident managed memory.
 */
u64 gpumem_linger_used(struct gpumem_mem *mem)
{
	bool batched;

	gpumem_linger_look(mem, GPUMEM_LINGER_BATCH, &batched);
	return gpumem_shmem_used(mem) + READ_ONCE(mem->managed);
}

/**
 * gpumem_linger_make_room - free all lingering files that are not held
 * @mem: memory
 *
 * An allocation or a registration calls this before it fails.
 *
 * Context: may sleep; the caller holds no locks.
 * Return: true if memory was freed, perhaps by another task.
 */
bool gpumem_linger_make_room(struct gpumem_mem *mem)
{
	unsigned long before = READ_ONCE(mem->nunheld);
	bool batched = false;

	if (!READ_ONCE(mem->nlinger))
		return false;
	if (!gpumem_linger_look(mem, ULONG_MAX, &batched) && batched &&
	    gpumem_drain_all())
		gpumem_linger_look(mem, ULONG_MAX, &batched);
	/* Checks by other tasks may be freeing files. */
	wait_event_killable_timeout(mem->linger_wait, !READ_ONCE(mem->nlooks),
				    GPUMEM_LOOK_WAIT);
	return READ_ONCE(mem->nunheld) != before;
}

static unsigned long gpumem_linger_count(struct shrinker *shrinker,
					 struct shrink_control *sc)
{
	struct gpumem_mem *mem = shrinker->private_data;

	return READ_ONCE(mem->nlinger) ?: SHRINK_EMPTY;
}

/*
 * The work item frees files, because that takes locks that reclaim must not
 * take.
 */
static unsigned long gpumem_linger_scan(struct shrinker *shrinker,
					struct shrink_control *sc)
{
	struct gpumem_mem *mem = shrinker->private_data;

	WRITE_ONCE(mem->linger_pressed, 1);
	mod_delayed_work(gpumem_compat_unbound_wq, &mem->linger_retry, 0);
	return SHRINK_STOP;
}

/**
 * gpumem_linger_mount - set up the list of a memory's lingering files
 * @mem: memory
 *
 * Return: 0 or -ENOMEM.
 */
int gpumem_linger_mount(struct gpumem_mem *mem)
{
	mem->linger_shrinker = shrinker_alloc(0, "gpumem-linger");
	if (!mem->linger_shrinker)
		return -ENOMEM;
	spin_lock_init(&mem->linger_lock);
	gpumem_lockdep_class(&mem->linger_lock, GPUMEM_LOCK_LINGER);
	init_waitqueue_head(&mem->linger_wait);
	INIT_LIST_HEAD(&mem->linger);
	INIT_DELAYED_WORK(&mem->linger_retry, gpumem_linger_retry);
	mem->linger_shrinker->count_objects = gpumem_linger_count;
	mem->linger_shrinker->scan_objects = gpumem_linger_scan;
	mem->linger_shrinker->private_data = mem;
	shrinker_register(mem->linger_shrinker);
	return 0;
}

/**
 * gpumem_linger_unmount - undo gpumem_linger_mount()
 * @mem: memory without lingering files
 */
void gpumem_linger_unmount(struct gpumem_mem *mem)
{
	shrinker_free(mem->linger_shrinker);
	cancel_delayed_work_sync(&mem->linger_retry);
	WARN_ON(mem->nlinger);
}

/**
 * gpumem_linger_init - initialize the work items of the drains
 */
void __init gpumem_linger_init(void)
{
	struct gpumem_drain *drain;
	int cpu;

	gpumem_lockdep_class(&gpumem_drain_lock, GPUMEM_LOCK_DRAIN);
	for_each_possible_cpu(cpu) {
		drain = &per_cpu(gpumem_drains, cpu);
		drain->cpu = cpu;
		INIT_WORK(&drain->work, gpumem_drain_work);
	}
}

/**
 * gpumem_linger_exit - cancel the drains, and wait for those that run
 */
void gpumem_linger_exit(void)
{
	int cpu;

	/* gpumem_drain_work() may still run after it cleared its bit. */
	for_each_possible_cpu(cpu)
		cancel_work_sync(&per_cpu(gpumem_drains, cpu).work);
}
