// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_resident: tells a client which blocks of managed memory are resident.
 *
 * The *residency words* of a client are memory that the client can map for
 * reading.  A block has one word, which follows from the id of its buffer object
 * and its number (GPUMEM_RESIDENT_WORD()).  Several blocks share a word.  The word
 * *shows* one of them at most: it has the tag of that block and its device
 * (GPUMEM_RESIDENT_TAG()).
 *
 * A word shows a block only while the block is resident.  When an engine makes a
 * block resident or uses a resident block, the word shows the block.  When the
 * block stops being resident, the word shows none.  So a client that finds a
 * block's tag knows that all its pages exist, and that an entry would not move
 * it.  The CPU can do the work of an entry then.
 *
 * Without an id a buffer object has no words, and its blocks are not shown.
 *
 * The kernel does not see such work, so the block does not become recently used
 * by it.  Before a device evicts blocks that are still worked on, it hides them:
 * an eviction clears the words of the GPUMEM_RESIDENT_AGED blocks that come next.
 * The client then submits the operation to an engine, whose use makes the block
 * the most recently used, and shows it again.
 *
 * The first managed buffer object of a client allocates the words.  They are
 * charged to the memory cgroup of the caller, and freed with the client.
 *
 * Locks: the words are written under gpumem_managed_lock, and read by the client.
 */
#include <linux/mm.h>
#include <linux/vmalloc.h>

#include "gpumem_bo.h"
#include "gpumem_client.h"
#include "gpumem_managed.h"
#include "gpumem_resident.h"

#define GPUMEM_RESIDENT_BYTES \
	PAGE_ALIGN(GPUMEM_RESIDENT_WORDS * sizeof(u64))

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
