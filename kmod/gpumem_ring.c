// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_ring: the memory of rings.
 *
 * A ring is a page with the tail, and pages of entries.  The first page is
 * allocated with the ring.  A page of entries is allocated, and charged to the
 * memory cgroup of the task that touches it, by the first fault of a mapping on
 * it.  So a ring costs as much memory as it has been filled at once, not as it
 * could be.  A page that the client never touched reads as zeros, that is, as
 * GPUMEM_OP_NOP.
 *
 * The stream and each mapping hold a reference on the ring: a mapping stays valid
 * after the stream is destroyed.  Pages are freed with the last reference.
 *
 * No locks: a page is installed by cmpxchg and stays.
 */
#include <linux/mm.h>
#include <linux/slab.h>

#include "gpumem_compat.h"
#include "gpumem_private.h"

/**
 * gpumem_ring_alloc - make a ring
 * @entries: length; a power of two
 *
 * Return: the ring with one reference, or NULL.
 */
struct gpumem_ring_mem *gpumem_ring_alloc(u32 entries)
{
	unsigned int npages = PFN_UP(GPUMEM_RING_SQES +
				     entries * sizeof(struct gpumem_sqe));
	struct gpumem_ring_mem *ring;

	ring = kzalloc(struct_size(ring, pages, npages), GFP_KERNEL_ACCOUNT);
	if (!ring)
		return NULL;
	kref_init(&ring->ref);
	ring->mask = entries - 1;
	ring->npages = npages;
	ring->pages[0] = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
	if (!ring->pages[0]) {
		kfree(ring);
		return NULL;
	}
	ring->head = page_address(ring->pages[0]);
	return ring;
}

static void gpumem_ring_free(struct kref *ref)
{
	struct gpumem_ring_mem *ring = container_of(ref, struct gpumem_ring_mem,
						    ref);
	unsigned int i;

	for (i = 0; i < ring->npages; i++)
		if (ring->pages[i])
			__free_page(ring->pages[i]);
	kfree(ring);
}

/**
 * gpumem_ring_put - drop a reference
 * @ring: ring, or NULL
 */
void gpumem_ring_put(struct gpumem_ring_mem *ring)
{
	if (ring)
		kref_put(&ring->ref, gpumem_ring_free);
}

/**
 * gpumem_ring_read - copy an entry
 * @ring: ring
 * @index: number of the entry since the ring was made
 * @sqe: where to copy it
 */
void gpumem_ring_read(const struct gpumem_ring_mem *ring, u64 index,
		      struct gpumem_sqe *sqe)
{
	size_t at = GPUMEM_RING_SQES + (index & ring->mask) * sizeof(*sqe);
	/* Pairs with cmpxchg() in gpumem_ring_fault(). */
	struct page *page = smp_load_acquire(&ring->pages[at >> PAGE_SHIFT]);

	if (page)
		memcpy(sqe, page_address(page) + offset_in_page(at),
		       sizeof(*sqe));
	else
		memset(sqe, 0, sizeof(*sqe));
}

static vm_fault_t gpumem_ring_fault(struct vm_fault *vmf)
{
	struct gpumem_ring_mem *ring = vmf->vma->vm_private_data;
	struct page *page, *old;

	if (vmf->pgoff >= ring->npages)
		return VM_FAULT_SIGBUS;
	/* Pairs with cmpxchg() below. */
	page = smp_load_acquire(&ring->pages[vmf->pgoff]);
	if (!page) {
		page = alloc_page(GFP_KERNEL_ACCOUNT | __GFP_ZERO);
		if (!page)
			return VM_FAULT_OOM;
		old = cmpxchg(&ring->pages[vmf->pgoff], NULL, page);
		if (old) {
			__free_page(page);
			page = old;
		}
	}
	get_page(page);
	vmf->page = page;
	return 0;
}

static void gpumem_ring_open(struct vm_area_struct *vma)
{
	struct gpumem_ring_mem *ring = vma->vm_private_data;

	kref_get(&ring->ref);
}

static void gpumem_ring_close(struct vm_area_struct *vma)
{
	gpumem_ring_put(vma->vm_private_data);
}

static const struct vm_operations_struct gpumem_ring_vm_ops = {
	.open = gpumem_ring_open,
	.close = gpumem_ring_close,
	.fault = gpumem_ring_fault,
};

/**
 * gpumem_ring_mmap - show a ring
 * @ring: ring
 * @vma: the whole ring, offset 0
 *
 * Return: 0 or a negative errno.
 */
int gpumem_ring_mmap(struct gpumem_ring_mem *ring, struct vm_area_struct *vma)
{
	if (vma->vm_pgoff || vma_pages(vma) != ring->npages)
		return -EINVAL;
	if (vma->vm_flags & VM_EXEC)
		return -EACCES;
	vm_flags_mod(vma, VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP,
		     VM_MAYEXEC);
	kref_get(&ring->ref);
	vma->vm_private_data = ring;
	vma->vm_ops = &gpumem_ring_vm_ops;
	return 0;
}
