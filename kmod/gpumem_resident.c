// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_resident: tells a client which blocks of managed memory have pages.
 *
 * The *residency words* of a client are memory that the client can map for
 * reading.  A block has one word, which follows from the id of its buffer object
 * and its number (GPUMEM_RESIDENT_WORD()).  Several blocks share a word.  The word
 * *shows* one of them at most: it has the tag of that block and its place
 * (GPUMEM_RESIDENT_TAG()).
 *
 * A word shows a block only while the pages of the block exist, so a client that
 * finds a block's tag can let the CPU do the work of an entry.
 *
 * Resident blocks: when an engine makes a block resident or uses a resident block,
 * the word shows the block.  The kernel does not see the work of the CPU, so the
 * block does not become recently used by it.  An eviction marks the
 * GPUMEM_RESIDENT_NEXT blocks that come next (GPUMEM_RESIDENT_AGED).  A client that
 * works on such a block tells the kernel (GPUMEM_ADVICE_TOUCHED), which makes it the
 * most recently used.
 *
 * Evicted blocks: small operations at random places of memory that is larger than
 * the device would move a block of 2 MiB for each of them.  So a block that was
 * evicted to make room is *far*: small entries use it where it is (gpumem_far.c).
 * It also stays shown (GPUMEM_RESIDENT_EVICTED).  The CPU does small
 * operations where the block is.  The client tells the kernel about one of them
 * (GPUMEM_ADVICE_TOUCHED) once the operations have accessed as many bytes as two
 * blocks have: one that moves in, and one that moves out.
 *
 * A far block is not shown if there is free swap space at its eviction, because its
 * pages may be swapped out, and if its word shows a resident block.  A block with
 * advice is not far.  Advice, a prefetch to the host and a discard end the state: the
 * next touch makes the block resident, or follows the advice.
 *
 * Without an id a buffer object has no words, and its blocks are not shown.
 *
 * The first managed buffer object of a client allocates the words.  They are
 * charged to the memory cgroup of the caller, and freed with the client.
 *
 * Locks: the words are written under gpumem_managed_lock, and read by the client.
 */
#include <linux/build_bug.h>
#include <linux/mm.h>
#include <linux/spinlock.h>
#include <linux/vmalloc.h>
#include <linux/xarray.h>

#include "gpumem_bo.h"
#include "gpumem_client.h"
#include "gpumem_managed.h"
#include "gpumem_resident.h"

#define GPUMEM_RESIDENT_BYTES \
	PAGE_ALIGN(GPUMEM_RESIDENT_WORDS * sizeof(u64))

/* A place has room for the index of a device. */
static_assert(GPUMEM_MAX_DEVICES <= GPUMEM_RESIDENT_AGED);

/**
 * gpumem_resident_prepare - allocate the words of a client
 * @client: client that makes a managed buffer object
 *
 * Without memory for them no block is shown.
 *
 * Context: may sleep, without locks.
 */
void gpumem_resident_prepare(struct gpumem_client *client)
{
	u64 *words;

	if (READ_ONCE(client->resident))
		return;
	words = __vmalloc(GPUMEM_RESIDENT_BYTES,
			  GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	/* A task that sees the pointer sees the zeroes. */
	if (words && cmpxchg(&client->resident, NULL, words))
		vfree(words);
}

/**
 * gpumem_resident_free - free the words of a client
 * @client: client without objects
 */
void gpumem_resident_free(struct gpumem_client *client)
{
	/* A mapping has references of its own. */
	vfree(client->resident);
}

/**
 * gpumem_resident_mmap - map the words of a client
 * @client: client
 * @vma: as long as all words
 *
 * Context: mmap_lock held for writing.
 * Return: 0, -ENXIO if the client has no words, or another negative errno.
 */
int gpumem_resident_mmap(struct gpumem_client *client,
			 struct vm_area_struct *vma)
{
	/* Pairs with the cmpxchg() in gpumem_resident_prepare(). */
	u64 *words = smp_load_acquire(&client->resident);
	unsigned long offset;
	int ret = 0;

	if (vma->vm_end - vma->vm_start != GPUMEM_RESIDENT_BYTES)
		return -EINVAL;
	if (vma->vm_flags & (VM_WRITE | VM_EXEC))
		return -EACCES;
	if (!words)
		return -ENXIO;
	vm_flags_mod(vma, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP,
		     VM_MAYWRITE | VM_MAYEXEC);
	for (offset = 0; !ret && offset < GPUMEM_RESIDENT_BYTES;
	     offset += PAGE_SIZE)
		ret = vm_insert_page(vma, vma->vm_start + offset,
				     vmalloc_to_page((char *)words + offset));
	return ret;
}

/**
 * gpumem_resident_begin - let the word of a block show it
 * @block: block that has become resident; the caller holds gpumem_managed_lock
 *
 * From now on the block has a word, unless its client has none or its buffer
 * object has no id.
 */
void gpumem_resident_begin(struct gpumem_block *block)
{
	struct gpumem_bo *bo = block->bo;
	u64 *words = READ_ONCE(bo->obj.client->resident);

	WRITE_ONCE(block->far, NULL);
	if (!words || bo->managed->nameless) {
		block->word = NULL;
		return;
	}
	block->word = &words[GPUMEM_RESIDENT_WORD(bo->obj.id, block->index)];
	block->tag = GPUMEM_RESIDENT_TAG(bo->obj.id, block->index,
					 gpumem_client_device_index(bo->obj.client,
								    block->dev));
	gpumem_resident_show(block);
}

/**
 * gpumem_resident_touched - is a block resident, or shown in host memory?
 * @bo: managed buffer object; referenced
 * @offset: of a byte in the block
 *
 * A client cannot have seen another block in the words.  Its memory may have been
 * freed or discarded meanwhile.
 *
 * Return: true if it is.
 */
bool gpumem_resident_touched(struct gpumem_bo *bo, u64 offset)
{
	struct gpumem_block *block = xa_load(&bo->managed->blocks,
					     offset / GPUMEM_MANAGED_BLOCK);
	bool seen;

	if (!block)
		return false;
	spin_lock(&gpumem_managed_lock);
	seen = block->dev || gpumem_resident_shown(block);
	spin_unlock(&gpumem_managed_lock);
	return seen;
}
