// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_discard: managed memory whose contents a program does not need any more.
 *
 * A discard gives pages of a block back to the system.  The block stops being
 * resident.  The next touch gets zeroed pages.
 *
 * Only whole pages of the range are given back.  A discard is a hint: it does
 * nothing to a block in use, or where another subsystem or a small entry
 * (gpumem_far.c) holds a page.
 *
 * A worker must not populate a block while its pages go, because it would hold
 * folios that are no longer in the file.  So a discard claims the block, as a
 * fetch does (gpumem_block_claim()).
 *
 * Locks: gpumem_managed_lock.  No lock is held while pages go.
 */
#include <linux/mm.h>
#include <linux/shmem_fs.h>

#include "gpumem_bo.h"
#include "gpumem_duplicate.h"
#include "gpumem_evict.h"
#include "gpumem_linger.h"
#include "gpumem_managed.h"
#include "gpumem_resident.h"
#include "gpumem_shmem.h"

/*
 * End the residency of a block that the caller has claimed, and its copies.
 * Return false if the block is in use.
 */
static bool gpumem_discard_begin(struct gpumem_block *block,
				 enum gpumem_departure why)
{
	struct gpumem_departed left;
	bool idle, went;

	do {
		went = false;
		spin_lock(&gpumem_managed_lock);
		/* A claim keeps no stream from using a block that has a place. */
		idle = !block->users;
		if (!block->dev)
			gpumem_resident_recall(block);
		if (idle && block->dev) {
			gpumem_block_depart_locked(block, why, &left);
			went = true;
		} else if (idle) {
			went = gpumem_copies_drop_locked(block, why, &left);
		}
		spin_unlock(&gpumem_managed_lock);
		if (went)
			gpumem_departed_finish(&left);
	} while (went);
	return idle;
}

/**
 * gpumem_managed_discard - give pages of a block back to the system
 * @bo: managed buffer object; referenced
 * @offset: first byte
 * @length: bytes, in one block
 *
 * Context: may sleep, without locks.
 */
void gpumem_managed_discard(struct gpumem_bo *bo, u64 offset, u64 length)
{
	pgoff_t first = DIV_ROUND_UP(offset, PAGE_SIZE);
	pgoff_t end = (offset + length) >> PAGE_SHIFT;
	struct address_space *mapping = bo->file->f_mapping;
	enum gpumem_departure why = GPUMEM_DEPARTURE_FREED;
	struct gpumem_block *block;

	if (first >= end || !gpumem_shmem_has_data(bo->file, first, end))
		return;
	block = gpumem_block_get(bo, offset);
	if (!block || gpumem_block_claim(block))
		return;
	/* The other pages of the block return to their node. */
	if (first > gpumem_block_first(block) || end < gpumem_block_last(block))
		why = GPUMEM_DEPARTURE_MOVED;
	if (gpumem_discard_begin(block, why)) {
		unmap_mapping_pages(mapping, first, end - first, false);
		if (!gpumem_shmem_held(mapping, first, end - 1))
			shmem_truncate_range(file_inode(bo->file),
					     (loff_t)first << PAGE_SHIFT,
					     ((loff_t)end << PAGE_SHIFT) - 1);
	}
	gpumem_block_unclaim(block);
}
