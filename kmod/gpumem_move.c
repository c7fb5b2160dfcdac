// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_move: moves the pages of managed memory between memory nodes.
 *
 * A folio of a memory file is replaced by a new folio of the same size on the
 * other node.  These are the steps:
 *
 *  1. The new folio is allocated.
 *  2. The old folio is locked, and unmapped from all page tables.  A page fault
 *     takes the folio's lock before it maps the folio, so the folio stays
 *     unmapped until it is unlocked.
 *  3. If the folio has a reference that is not of the page cache or the caller,
 *     another subsystem or an engine may read or write it: it stays where it is.
 *     The reference of a pin precedes the check, or the pin finds that its page
 *     table entry has gone and lets the folio go.
 *  4. The bytes are copied, and the page cache gets the new folio.
 *  5. The folios are unlocked.  Page faults map the new one.
 *
 * A task that found the old folio in the page cache before step 4 waits for its
 * lock, and finds afterwards that the folio has left the file.  It then looks
 * again, as after a truncation.
 *
 * The kernel's own migration cannot be used: a module cannot take folios off the
 * LRU lists.  The new folio is charged to the memory cgroup of the old one,
 * whose charge ends when it is freed.  So the cgroup pays for both until then,
 * even beyond its limit.
 *
 * A caller may keep an old folio of a huge page as a *spare* for its next moves,
 * which copy to it instead of allocating a folio.  This saves clearing a folio
 * where the kernel clears what it allocates (init_on_alloc).  A block that comes
 * to a full device uses the folio of the block that made room.  The spare is
 * freed at the end of the fetch.  Until then it is on an LRU list without a file,
 * as a truncated folio is that somebody still has.  It stays charged to its
 * cgroup, and the kernel does not charge it again in its new place.  So it
 * replaces a folio of the same cgroup only.  It is locked before the old folio,
 * by a trylock; who has the old folio's lock waits for no spare.
 *
 * A folio stays where it is if the other node has no free folio of its size, if
 * it has failed memory, and if it is on its way to swap.
 *
 * Locks: the folio lock.  Under it the kernel takes i_mmap_rwsem and the locks of
 * page tables, the page cache and LRU lists, as for a truncation.  Nothing is
 * allocated under it.
 */
#include <linux/file.h>
#include <linux/mm.h>
#include <linux/pagemap.h>
#include <linux/swap.h>
#include <linux/vmstat.h>

#include "gpumem_client.h"
#include "gpumem_compat.h"
#include "gpumem_delay.h"
#include "gpumem_linger.h"
#include "gpumem_move.h"

/* Without retries: a folio that has no room stays where it is. */
#define GPUMEM_MOVE_GFP \
	(GFP_HIGHUSER | __GFP_THISNODE | __GFP_NORETRY | __GFP_NOWARN)

/* Looks at the references of a folio before somebody is said to have it. */
#define GPUMEM_MOVE_LOOKS	64

/**
 * struct gpumem_move - a move of the folios in a range of a file
 */
struct gpumem_move {
	/** @mapping: of the file */
	struct address_space *mapping;
	/** @first: first page */
	pgoff_t first;
	/** @end: page behind the last one */
	pgoff_t end;
	/** @node: where the folios are to be */
	int node;
	/** @held: references on each folio that the caller accounts for */
	int held;
	/** @unmapped: page tables do not map the range, unless it was touched since */
	bool unmapped;
	/** @batched: number of folios that LRU batches of other CPUs may hold */
	unsigned int batched;
	/** @spare: unused folio that the caller frees, or NULL; in and out */
	struct folio *spare;
	/** @keep: keep old folios as spares */
	bool keep;
	/** @done: result */
	struct gpumem_moved done;
};

/* Are two folios charged to the same memory cgroup? */
static bool gpumem_move_same_memcg(struct folio *a, struct folio *b)
{
	bool same;

	rcu_read_lock();
	same = folio_memcg(a) == folio_memcg(b);
	rcu_read_unlock();
	return same;
}

/*
 * Take the spare to replace @old by it.  Return it locked, or NULL.
 *
 * A task that isolates the spare after the check of its references puts the folio
 * back on an LRU list, in whatever file it is by then.
 */
static struct folio *gpumem_move_take_spare(struct gpumem_move *move,
					    struct folio *old)
{
	struct folio *spare = move->spare;

	if (!spare || folio_nid(spare) != move->node ||
	    folio_order(spare) != folio_order(old) ||
	    !gpumem_move_same_memcg(spare, old) || !folio_trylock(spare))
		return NULL;
	if (folio_ref_count(spare) != 1 ||
	    folio_contain_hwpoisoned_page(spare)) {
		folio_unlock(spare);
		return NULL;
	}
	move->spare = NULL;
	return spare;
}

/*
 * Take over the batch's reference on an old folio, which has left its file.  The
 * latest one that can be a spare is the spare.
 */
static void gpumem_move_put(struct gpumem_move *move, struct folio *old)
{
	if (move->keep && folio_test_pmd_mappable(old) &&
	    !folio_test_mlocked(old) && !folio_test_unevictable(old))
		swap(move->spare, old);
	if (old)
		folio_put(old);
}

/* Return a new folio, which is locked, or NULL. */
static struct folio *gpumem_move_alloc(const struct gpumem_move *move,
				       struct folio *old)
{
	gfp_t gfp = GPUMEM_MOVE_GFP;
	struct folio *new;

	/* A node may have movable memory only. */
	if (!node_state(move->node, N_NORMAL_MEMORY))
		gfp |= __GFP_MOVABLE;
	new = __folio_alloc(gfp, folio_order(old), move->node, NULL);
	if (new) {
		__folio_set_locked(new);
		__folio_set_swapbacked(new);
	}
	return new;
}

/* Unmap the folio, which is locked, from all page tables. */
static void gpumem_move_unmap(struct gpumem_move *move, struct folio *folio)
{
	/* One walk of the page tables for all folios, as a rule. */
	if (!move->unmapped) {
		move->unmapped = true;
		unmap_mapping_pages(move->mapping, move->first,
				    move->end - move->first, false);
	}
	if (folio_mapped(folio))
		unmap_mapping_pages(move->mapping, folio->index,
				    folio_nr_pages(folio), false);
}

/* Has a locked folio the references that are known, and no other? */
static bool gpumem_move_alone(struct gpumem_move *move, struct folio *folio)
{
	/* The caller's batch of folios has one. */
	int refs = folio_nr_pages(folio) + move->held + 1;
	unsigned int tries;

	if (folio_ref_count(folio) == refs)
		return true;
	gpumem_drain_here();
	/* Entries that tried or dropped the lock of a far block's folio drop theirs. */
	for (tries = 0; tries < GPUMEM_MOVE_LOOKS; tries++) {
		if (folio_ref_count(folio) == refs)
			return true;
		cpu_relax();
	}
	if (!folio_test_lru(folio))
		move->batched++;
	return false;
}

/* Can a locked folio be copied to another one? */
static bool gpumem_move_ready(struct gpumem_move *move, struct folio *folio)
{
	if (folio->mapping != move->mapping || !folio_test_uptodate(folio) ||
	    folio_test_swapcache(folio) || folio_test_writeback(folio) ||
	    folio_contain_hwpoisoned_page(folio))
		return false;
	gpumem_move_unmap(move, folio);
	return !folio_mapped(folio) && gpumem_move_alone(move, folio);
}

/*
 * Replace a locked folio by @new, which is a copy.  The references of the caller
 * and of its batch move to @new.  @listed: @new is on an LRU list already.
 */
static void gpumem_move_replace(struct gpumem_move *move, struct folio *old,
				struct folio *new, bool listed)
{
	long nr = folio_nr_pages(old);

	folio_mark_uptodate(new);
	folio_set_dirty(new);
	/*
	 * The next function counts references and huge pages for small folios.
	 * Others who find the new folio must see all of its references.
	 */
	folio_ref_add(new, nr - 1 + move->held);
	replace_page_cache_folio(old, new);
	if (folio_test_pmd_mappable(old)) {
		lruvec_stat_mod_folio(old, NR_SHMEM_THPS, -nr);
		lruvec_stat_mod_folio(new, NR_SHMEM_THPS, nr);
	}
	if (!listed)
		folio_add_lru(new);
	folio_clear_dirty(old);
	folio_unlock(old);
	/* The page cache had one for each page, and one is put already. */
	if (nr - 1 + move->held)
		folio_put_refs(old, nr - 1 + move->held);
	gpumem_move_put(move, old);
}

/*
 * Move a folio of the batch.  Return the folio that is in its place, with the
 * references of the old one.
 */
static struct folio *gpumem_move_folio(struct gpumem_move *move,
				       struct folio *old)
{
	size_t size = folio_size(old);
	struct folio *new = NULL, *spare = NULL;

	if (folio_nid(old) == move->node)
		return old;
	if (old->index >= move->first && folio_next_index(old) <= move->end) {
		spare = gpumem_move_take_spare(move, old);
		new = spare ? spare : gpumem_move_alloc(move, old);
	}
	if (!new) {
		move->done.stayed += size;
		return old;
	}
	folio_lock(old);
	gpumem_delay(move_locked);
	/* Until it was locked and unmapped, the charge could move (cgroup v1). */
	if (!gpumem_move_ready(move, old) ||
	    (spare && !gpumem_move_same_memcg(spare, old)) ||
	    folio_mc_copy(new, old)) {
		folio_unlock(old);
		folio_unlock(new);
		if (spare)
			move->spare = spare;
		else
			folio_put(new);
		move->done.stayed += size;
		return old;
	}
	gpumem_move_replace(move, old, new, spare);
	folio_unlock(new);
	move->done.moved += size;
	return new;
}

static void gpumem_move_run(struct gpumem_move *move)
{
	pgoff_t index = move->first;
	struct folio_batch fbatch;
	unsigned int i;

	move->unmapped = false;
	move->batched = 0;
	move->done.stayed = 0;
	folio_batch_init(&fbatch);
	while (filemap_get_folios(move->mapping, &index, move->end - 1,
				  &fbatch)) {
		for (i = 0; i < folio_batch_count(&fbatch); i++) {
			fbatch.folios[i] = gpumem_move_folio(move,
							     fbatch.folios[i]);
			cond_resched();
		}
		/* This also drains the LRU batches of this CPU. */
		folio_batch_release(&fbatch);
	}
}

/**
 * gpumem_move_pages - move pages of a file to a memory node
 * @file: of managed memory
 * @first: index of the first page
 * @end: index behind the last page, at most that of a block
 * @node: memory node
 * @held: references that the caller has on each folio of the range, 0 or 1;
 *	the caller has them on the new folios afterwards
 * @spare: where the spare is kept between moves; NULL to keep none.  *@spare is
 *	NULL before the first move, and the caller passes it to gpumem_move_drop()
 *	after the last one.
 *
 * Pages in swap, and pages that no task has touched yet, do not count.
 *
 * Context: may sleep, without locks.
 * Return: how many bytes moved, and how many could not.
 */
struct gpumem_moved gpumem_move_pages(struct file *file, pgoff_t first,
				      pgoff_t end, int node, int held,
				      struct folio **spare)
{
	struct gpumem_move move = {
		.mapping = file->f_mapping,
		.first = first,
		.end = end,
		.node = node,
		.held = held,
		.spare = spare ? *spare : NULL,
		.keep = spare,
	};

	if (node < 0 || node >= MAX_NUMNODES || !node_state(node, N_MEMORY))
		return move.done;
	gpumem_move_run(&move);
	/* Page faults on other CPUs may have populated the range just now. */
	if (move.batched && gpumem_drain_all_now())
		gpumem_move_run(&move);
	if (spare)
		*spare = move.spare;
	return move.done;
}

/**
 * gpumem_move_drop - free the folio that moves left unused
 * @spare: from gpumem_move_pages(), or NULL
 */
void gpumem_move_drop(struct folio *spare)
{
	if (spare)
		folio_put(spare);
}

/**
 * gpumem_move_node - the node of the first page of a range
 * @file: of managed memory
 * @first: index of the first page
 * @end: index behind the last page
 *
 * Return: memory node, or NUMA_NO_NODE if no page is in memory.
 */
int gpumem_move_node(struct file *file, pgoff_t first, pgoff_t end)
{
	struct folio_batch fbatch;
	int node = NUMA_NO_NODE;

	folio_batch_init(&fbatch);
	if (filemap_get_folios(file->f_mapping, &first, end - 1, &fbatch))
		node = folio_nid(fbatch.folios[0]);
	folio_batch_release(&fbatch);
	return node;
}

/**
 * gpumem_move_count - add to the counters of a client
 * @client: client
 * @done: what a move of its pages did
 */
void gpumem_move_count(struct gpumem_client *client, struct gpumem_moved done)
{
	atomic64_add(done.moved, &client->count.managed_moved);
	atomic64_add(done.stayed, &client->count.managed_stayed);
}
