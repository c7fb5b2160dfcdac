/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The reservation objects that a fenced entry touches.  The owner of the entry
 * (enum gpumem_fenced_state) owns its list of them.
 */
#ifndef GPUMEM_FENCE_LOOK_H
#define GPUMEM_FENCE_LOOK_H

#include <linux/types.h>

struct dma_fence;
struct dma_resv;
struct gpumem_bo;
struct gpumem_client;
struct gpumem_foreign;
struct gpumem_stream;

/**
 * struct gpumem_fenced_resv - a resv of a root that an entry touches
 */
struct gpumem_fenced_resv {
	/** @root: whose own resv it is, referenced; or NULL */
	struct gpumem_bo *root;
	/** @client: whose joint resv it is, referenced; or NULL */
	struct gpumem_client *client;
	/** @resv: lives as long as @root or @client */
	struct dma_resv *resv;
	/** @foreign: of @root, if another driver exported it; or NULL */
	struct gpumem_foreign *foreign;
	/** @write: the entry writes the root */
	bool write;
	/** @second: the previous entry of the list has the same resv */
	bool second;
	/** @writes: the entry writes a root that has this resv */
	bool writes;
	/** @begun: access has begun; foreign buffers only */
	bool begun;
	/** @deps: fences to wait for, referenced */
	struct dma_fence **deps;
	/** @ndeps: number of @deps */
	unsigned int ndeps;
};

/* gpumem_fence_look.c */
unsigned int gpumem_fenced_look(struct gpumem_stream *stream, bool portion,
				struct gpumem_fenced_resv *list,
				unsigned int max);

#endif /* GPUMEM_FENCE_LOOK_H */
