/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The memory of a stream's ring.
 */
#ifndef GPUMEM_RING_H
#define GPUMEM_RING_H

#include <linux/kref.h>
#include <linux/types.h>

struct gpumem_client;
struct gpumem_ring;
struct gpumem_sqe;
struct page;
struct vm_area_struct;

/**
 * struct gpumem_ring_mem - the memory of a ring (gpumem_ring.c)
 */
struct gpumem_ring_mem {
	/** @ref: the stream, and each mapping */
	struct kref ref;
	/** @client: charged for the pages; outlives the ring; constant */
	struct gpumem_client *client;
	/** @mask: number of entries less one; constant */
	u32 mask;
	/** @npages: number of @pages; constant */
	unsigned int npages;
	/** @head: address of the first page; hostile content */
	struct gpumem_ring *head;
	/** @pages: [0] is always there, others are NULL until touched */
	struct page *pages[];
};

/* gpumem_ring.c */
struct gpumem_ring_mem *gpumem_ring_alloc(struct gpumem_client *client,
					  u32 entries);
void gpumem_ring_put(struct gpumem_ring_mem *ring);
void gpumem_ring_read(const struct gpumem_ring_mem *ring, u64 index,
		      struct gpumem_sqe *sqe);
int gpumem_ring_mmap(struct gpumem_ring_mem *ring, struct vm_area_struct *vma);

#endif /* GPUMEM_RING_H */
