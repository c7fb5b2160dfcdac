// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_ring: the memory of rings.
 *
 * A ring is a page with the tail, and pages of entries.  The first page is
 * allocated with the ring.  A page of entries is allocated by the first fault
 * of a mapping on it.  So a ring costs memory only for pages that were
 * touched.  A page that the client never touched reads as zeros, that is, as
 * GPUMEM_OP_NOP.
 *
 * A page is charged to the memory cgroup of the task that touches it, and
 * counts against ring_limit and ring_total (gpumem_user.c) until it is freed.
 * At one of these limits a fault fails with SIGBUS.  A client that wants an
 * error instead calls madvise(MADV_POPULATE_WRITE) before it touches a page:
 * EFAULT at a limit, ENOMEM if the memory cgroup or the system has no memory.
 * That call does not wake the OOM killer for the page of the ring; a fault of
 * the program itself does, as for any memory of a program.
 *
 * The stream and each mapping hold a reference on the ring: a mapping stays
 * valid after the stream is destroyed.  Pages are freed with the last
 * reference.  The client outlives the ring: streams hold a reference on it, and
 * mappings one on its file.
 *
 * No locks: a page is installed by cmpxchg and stays.
 */
#include <linux/mm.h>
#include <linux/slab.h>

#include "gpumem_client.h"
#include "gpumem_ring.h"
#include "gpumem_user.h"

/* An allocation that fails if memory is short, without the OOM killer. */
#define GPUMEM_RING_GFP \
	(GFP_KERNEL_ACCOUNT | __GFP_RETRY_MAYFAIL | __GFP_NOWARN)

/* A page for a ring, charged. */
static struct page *gpumem_ring_page(struct gpumem_client *client, gfp_t gfp)
{
	struct page *page;
	int ret = gpumem_user_charge_ring(client);

	if (ret)
		return ERR_PTR(ret);
	page = alloc_page(gfp | __GFP_ZERO);
	if (!page) {
		gpumem_user_uncharge_ring(client, 1);
		return ERR_PTR(-ENOMEM);
	}
	return page;
}

/**
 * gpumem_ring_alloc - make a ring
 * @client: whose; outlives the ring
 * @entries: length; a power of two
 *
 * Return: the ring with one reference, or an ERR_PTR: -ENOMEM or -EDQUOT.
 */
struct gpumem_ring_mem *gpumem_ring_alloc(struct gpumem_client *client,
					  u32 entries)
{
	unsigned int npages = PFN_UP(GPUMEM_RING_SQES +
				     entries * sizeof(struct gpumem_sqe));
	struct gpumem_ring_mem *ring;
	struct page *page;

	ring = kzalloc(struct_size(ring, pages, npages), GPUMEM_RING_GFP);
	if (!ring)
		return ERR_PTR(-ENOMEM);
	page = gpumem_ring_page(client, GPUMEM_RING_GFP);
	if (IS_ERR(page)) {
		kfree(ring);
		return ERR_CAST(page);
	}
	kref_init(&ring->ref);
	ring->client = client;
	ring->mask = entries - 1;
	ring->npages = npages;
	ring->pages[0] = page;
	ring->head = page_address(ring->pages[0]);
	return ring;
}

static void gpumem_ring_free(struct kref *ref)
{
	struct gpumem_ring_mem *ring = container_of(ref, struct gpumem_ring_mem,
						    ref);
	unsigned int i, pages = 0;

	for (i = 0; i < ring->npages; i++) {
		if (!ring->pages[i])
			continue;
		__free_page(ring->pages[i]);
		pages++;
	}
	gpumem_user_uncharge_ring(ring->client, pages);
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
	gfp_t gfp;

	if (vmf->pgoff >= ring->npages)
		return VM_FAULT_SIGBUS;
	/* Pairs with cmpxchg() below. */
	page = smp_load_acquire(&ring->pages[vmf->pgoff]);
	if (!page) {
		/* Only a fault by the program itself may wake the OOM killer. */
		gfp = vmf->flags & FAULT_FLAG_USER ? GFP_KERNEL_ACCOUNT :
						     GPUMEM_RING_GFP;
		page = gpumem_ring_page(ring->client, gfp);
		if (IS_ERR(page)) {
			/* Another thread may have installed a page here. */
			if (smp_load_acquire(&ring->pages[vmf->pgoff]))
				return VM_FAULT_NOPAGE;
			return PTR_ERR(page) == -ENOMEM ? VM_FAULT_OOM :
							  VM_FAULT_SIGBUS;
		}
		old = cmpxchg(&ring->pages[vmf->pgoff], NULL, page);
		if (old) {
			__free_page(page);
			gpumem_user_uncharge_ring(ring->client, 1);
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
