// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_hotplug: refuses to offline memory blocks that hold device memory.
 *
 * The folios of a memory file stay where they are while a buffer object has
 * the file: each has one reference more than the page cache's.  The kernel
 * takes them for movable, because they are on an LRU list, so offlining a block
 * that holds such folios would try to migrate them until a signal ends it.  The
 * notifier here refuses these blocks with -EBUSY before that begins.
 *
 * The memory hotplug core calls the notifier after it has isolated the block's
 * free pages and drained the per-CPU lists, so no further folio of the block is
 * allocated.  The notifier misses a folio that was allocated before and is not
 * in its file yet.  A signal then ends the offlining, as it does for pages that
 * other drivers pin.
 *
 * Locks: none of gpumem.  The notifier runs under the core's hotplug lock, and
 * keeps no reference.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/memory.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/notifier.h>
#include <linux/pagemap.h>

#include "gpumem_mem.h"
#include "gpumem_shmem.h"

static bool gpumem_hotplug_ours(unsigned long pfn)
{
	struct page *page = pfn_to_online_page(pfn);
	struct folio *folio;
	bool ours;

	if (!page)
		return false;
	folio = page_folio(page);
	/* A folio that is on no LRU list may be no page of a file. */
	if (!folio_test_lru(folio) || !folio_try_get(folio))
		return false;
	/* The file may lose the folio at any time; RCU keeps the inode. */
	rcu_read_lock();
	ours = page_folio(page) == folio && folio_test_lru(folio) &&
	       gpumem_shmem_owns(folio_mapping(folio));
	rcu_read_unlock();
	folio_put(folio);
	return ours;
}

static int gpumem_hotplug_notify(struct notifier_block *nb,
				 unsigned long action, void *data)
{
	const struct memory_notify *range = data;
	unsigned long pfn, end;

	if (action != MEM_GOING_OFFLINE)
		return NOTIFY_DONE;
	end = range->start_pfn + range->nr_pages;
	for (pfn = range->start_pfn; pfn < end; pfn++) {
		if (gpumem_hotplug_ours(pfn)) {
			pr_info_ratelimited("memory [%#llx-%#llx] stays online: it holds device memory\n",
					    (u64)PFN_PHYS(range->start_pfn),
					    (u64)PFN_PHYS(end) - 1);
			return notifier_from_errno(-EBUSY);
		}
		cond_resched();
	}
	return NOTIFY_OK;
}

static struct notifier_block gpumem_hotplug_nb = {
	.notifier_call = gpumem_hotplug_notify,
};

/**
 * gpumem_hotplug_init - begin to refuse to take device memory offline
 *
 * Return: 0 or a negative errno.
 */
int __init gpumem_hotplug_init(void)
{
	return register_memory_notifier(&gpumem_hotplug_nb);
}

/**
 * gpumem_hotplug_exit - undo gpumem_hotplug_init()
 */
void gpumem_hotplug_exit(void)
{
	unregister_memory_notifier(&gpumem_hotplug_nb);
}
