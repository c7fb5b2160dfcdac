// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_linger: pages that other subsystems hold, and deferred free of files.
 *
 * A folio of a memory file (gpumem_shmem.c) has references of the page cache, of
 * page tables and of the populated file.  A further reference belongs to another
 * subsystem (an RDMA region, an io_uring buffer, a pipe), or to a batch in which
 * a CPU collects small folios on their way to an LRU list.  Only a folio that is
 * not on an LRU list, or that is mlocked, can be in a batch.
 *
 * Batches are emptied (*drained*) where that can help:
 *
 *  - A file's pages leave the populating CPU's batch before the file is shown
 *    to anybody, so a drain is hardly ever needed later.
 *  - Whoever looks for references and finds a folio that may be in a batch drains
 *    the CPU it runs on, and looks once more.
 *  - An allocation that finds no room drains all CPUs, once, if files that
 *    linger have folios that may be in a batch, and at most once in
 *    GPUMEM_DRAIN_PAUSE.  It waits GPUMEM_DRAIN_WAIT at most: the worker of a CPU
 *    that a real-time task occupies does not run.  The work items are static
 *    and stay queued.
 *
 * Where a drain was not done or did not finish, the folio counts as held.  A page
 * whose memory failed is held by the kernel for ever, which does not count.
 *
 * A file *lingers* if pages of it are held when its last user is gone: freeing it
 * would give back budget for memory that is still in use.  Lingering files are
 * in a list of their memory (struct gpumem_mem).  Nothing polls the list.  These
 * look at files in it, from the oldest on, and free those that nobody holds:
 *
 *  - an allocation that finds no room, at all of them, before it fails;
 *  - the release of another file of the memory, at two;
 *  - whoever reads how much is in use, at GPUMEM_LINGER_BATCH;
 *  - a work item, at GPUMEM_LINGER_BATCH, that is queued GPUMEM_LINGER_RETRIES
 *    times with growing delay after a file began to linger, then no more;
 *  - the same work item when the system is short of memory (a shrinker).
 *
 * backing->held is the page that was held when the file was looked at last.  The
 * next look begins there, so it costs one lookup if that page is still held.
 * Each file in the list has a reference on the module.
 *
 * mem->linger_lock protects a list.  A look takes the file off the list and holds
 * no lock.  An allocation that found no room waits for the looks of others,
 * GPUMEM_LOOK_WAIT at most.
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
#include "gpumem_shmem.h"

#define GPUMEM_LINGER_BATCH	64
#define GPUMEM_LINGER_DELAY	msecs_to_jiffies(20)
/* 20 ms, 40 ms and so on: 2.5 seconds in all. */
#define GPUMEM_LINGER_RETRIES	7

#define GPUMEM_DRAIN_WAIT	msecs_to_jiffies(50)
#define GPUMEM_DRAIN_PAUSE	msecs_to_jiffies(1000)

#define GPUMEM_LOOK_WAIT	msecs_to_jiffies(50)

/* References that batches may hold: of the LRU's and of mlock's. */
#define GPUMEM_BATCH_REFS	2

/**
 * struct gpumem_drain - empties the LRU batches of a CPU
 * @work: on that CPU, or on any if that one is gone
 * @cpu: constant
 */
struct gpumem_drain {
	struct work_struct work;
	int cpu;
};

static DEFINE_PER_CPU(struct gpumem_drain, gpumem_drains);
/* CPUs whose work item is queued. */
static struct cpumask gpumem_drain_queued;
/* CPUs that the caller of gpumem_drain_all() waits for; gpumem_drain_lock. */
static struct cpumask gpumem_drain_awaited;
/* CPUs that did not answer the last round; gpumem_drain_lock. */
static struct cpumask gpumem_drain_mute;
static DECLARE_WAIT_QUEUE_HEAD(gpumem_drain_wait);
/* One round at a time; taken by trylock only. */
static DEFINE_MUTEX(gpumem_drain_lock);
static unsigned long gpumem_drain_last;

/**
 * gpumem_drain_here - empty this CPU's LRU batches
 */
void gpumem_drain_here(void)
{
	struct folio_batch fbatch;

	/* Releasing a batch, an empty one too, first drains the CPU. */
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
 * gpumem_drain_cpu - have a CPU's LRU batches emptied soon
 * @cpu: CPU
 *
 * Context: any; waits for nothing.
 */
void gpumem_drain_cpu(int cpu)
{
	/* Work that runs may be past the batches: it is queued once more. */
	cpumask_set_cpu(cpu, &gpumem_drain_queued);
	schedule_work_on(cpu, &per_cpu(gpumem_drains, cpu).work);
}

/* Return false if there was no round, or only one that did not finish. */
static bool gpumem_drain_all(void)
{
	bool done, all = true;
	int cpu;

	if (!mutex_trylock(&gpumem_drain_lock))
		return false;
	if (gpumem_drain_last &&
	    time_before(jiffies, gpumem_drain_last + GPUMEM_DRAIN_PAUSE)) {
		mutex_unlock(&gpumem_drain_lock);
		return false;
	}
	cpumask_clear(&gpumem_drain_awaited);
	for_each_online_cpu(cpu) {
		/* A CPU that did not answer the last round is occupied. */
		if (cpumask_test_cpu(cpu, &gpumem_drain_queued) &&
		    cpumask_test_cpu(cpu, &gpumem_drain_mute)) {
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
	cpumask_and(&gpumem_drain_mute, cpu_online_mask, &gpumem_drain_queued);
	gpumem_drain_last = jiffies ?: 1;
	mutex_unlock(&gpumem_drain_lock);
	return done && all;
}

/* May the references of @folio beyond those known be those of LRU batches? */
static bool gpumem_folio_batched(struct folio *folio, int more)
{
	return more <= GPUMEM_BATCH_REFS &&
	       (!folio_test_lru(folio) || folio_test_mlocked(folio));
}

/* References by which the kernel keeps failed memory from being used again. */
static int gpumem_folio_failed(struct folio *folio)
{
	return !folio_test_large(folio) && folio_test_hwpoison(folio);
}

/* Look at the folios from *@index to @last; *@index is the first held one, out. */
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

			/* One more is the batch's. */
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
	/* What lies before it was not held. */
	return gpumem_range_scan(mapping, index, last, ours);
}

/**
 * gpumem_shmem_used_elsewhere - does anybody else hold pages of a range?
 * @mapping: of a memory file
 * @offset: start of the range
 * @length: bytes, not 0
 * @ours: references on each folio that the caller knows of
 *
 * The page cache and page tables do not count; pins and plain references do
 * (a pipe's, a network packet's).  Folios are judged as a whole, and an engine
 * that works on one holds it.  A folio that another CPU's LRU batch may hold
 * counts as used.
 *
 * Context: may sleep; also in reclaim.
 * Return: true or false.
 */
bool gpumem_shmem_used_elsewhere(struct address_space *mapping, u64 offset,
				 u64 length, int ours)
{
	pgoff_t first = offset >> PAGE_SHIFT;
	pgoff_t last = (offset + length - 1) >> PAGE_SHIFT;

	return gpumem_range_held(mapping, &first, last, ours);
}

/**
 * gpumem_linger_held - does anybody hold pages of a file without users?
 * @inode: of the file
 * @held: where to begin; the page that is held, out
 *
 * Return: whether somebody does.
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
	/* The caller has another reference on the module. */
	module_put(THIS_MODULE);
}

/* The oldest file, taken off the list to be looked at, or NULL. */
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

/* Look at a file that was taken off the list. */
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
 * Look at @max files, from the oldest on; return how many of them were freed.
 * @batched is set if one of them may be held by LRU batches alone.
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
		/* The shrinker's looks are no retries. */
		mem->linger_retries += !pressed;
	}
	spin_unlock(&mem->linger_lock);
}

/**
 * gpumem_linger_add - defer the free of a file whose pages are held
 * @backing: of the file, which is being released
 * @path: of the file
 * @held: page that is held
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
	/* A retry may be pending for later, on behalf of an older file. */
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
 * gpumem_linger_glance - look at two of a memory's lingering files
 * @mem: memory, of which a file is being released
 */
void gpumem_linger_glance(struct gpumem_mem *mem)
{
	bool batched;

	gpumem_linger_look(mem, 2, &batched);
}

/**
 * gpumem_linger_used - memory in use, without what lingers and nobody holds
 * @mem: memory
 *
 * Looks at GPUMEM_LINGER_BATCH files at most.
 *
 * Context: may sleep.
 * Return: bytes.
 */
u64 gpumem_linger_used(struct gpumem_mem *mem)
{
	bool batched;

	gpumem_linger_look(mem, GPUMEM_LINGER_BATCH, &batched);
	return gpumem_shmem_used(mem);
}

/**
 * gpumem_linger_make_room - look at all lingering files of a memory
 * @mem: memory
 *
 * For an allocation that is about to fail.
 *
 * Context: may sleep, without locks.
 * Return: true if memory was given back, perhaps by another caller.
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
	/* Others may be freeing what is wanted. */
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

/* Freeing a file frees its charge, which takes locks: a worker does it. */
static unsigned long gpumem_linger_scan(struct shrinker *shrinker,
					struct shrink_control *sc)
{
	struct gpumem_mem *mem = shrinker->private_data;

	WRITE_ONCE(mem->linger_pressed, 1);
	mod_delayed_work(gpumem_compat_unbound_wq, &mem->linger_retry, 0);
	return SHRINK_STOP;
}

/**
 * gpumem_linger_mount - let files of a memory linger
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
 * gpumem_linger_init - prepare the drains
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
 * gpumem_linger_exit - take back the drains that are still queued
 */
void gpumem_linger_exit(void)
{
	int cpu;

	/* One whose bit is clear may still be at its last instruction. */
	for_each_possible_cpu(cpu)
		cancel_work_sync(&per_cpu(gpumem_drains, cpu).work);
}
