/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Pageable memory: entries that name memory of the process.  Offered by
 * gpumem_pageable.c.
 */
#ifndef GPUMEM_PAGEABLE_H
#define GPUMEM_PAGEABLE_H

#include <linux/gpumem.h>
#include <linux/types.h>

struct gpumem_place;
struct gpumem_stream;
struct gpumem_bo;

/**
 * struct gpumem_pageable_window - pinned pages of one side of a fenced portion
 */
struct gpumem_pageable_window {
	/** @bo: over the pages, referenced, or NULL */
	struct gpumem_bo *bo;
	/** @addr: first byte, an address of the process */
	u64 addr;
};

/**
 * struct gpumem_pageable_miss - where an entry needs a page fault
 */
struct gpumem_pageable_miss {
	/** @addr: first byte that is to be present */
	u64 addr;
	/** @len: bytes wanted there; 0: nothing */
	u64 len;
	/** @write: the entry wants to write */
	bool write;
	/** @pin: the entry wants to pin the pages */
	bool pin;
};

int gpumem_pageable_check(struct gpumem_stream *stream);
int gpumem_pageable_fault(const struct gpumem_pageable_miss *miss);
int gpumem_pageable_step(struct gpumem_stream *stream);
int gpumem_pageable_poll(struct gpumem_stream *stream, u64 *word);
int gpumem_pageable_place(struct gpumem_stream *stream,
			  struct gpumem_place *place, u64 addr, bool write,
			  u64 *len);
int gpumem_pageable_pin(struct gpumem_stream *stream);
void gpumem_pageable_unpin(struct gpumem_stream *stream);

/* Is a side of an entry pageable memory? */
static inline bool gpumem_pageable_any(const struct gpumem_sqe *sqe)
{
	return sqe->flags & (GPUMEM_SQE_DST_PAGEABLE | GPUMEM_SQE_SRC_PAGEABLE);
}

/* Is the destination (@write) or the source of an entry pageable memory? */
static inline bool gpumem_pageable_side(const struct gpumem_sqe *sqe,
					bool write)
{
	return sqe->flags & (write ? GPUMEM_SQE_DST_PAGEABLE :
				     GPUMEM_SQE_SRC_PAGEABLE);
}

#endif /* GPUMEM_PAGEABLE_H */
