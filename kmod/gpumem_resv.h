/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reservation objects (resv) of the DMA-bufs that gpumem exports: a root's own,
 * and a client's *joint* one.  The head of gpumem_resv.c defines these terms.
 */
#ifndef GPUMEM_RESV_H
#define GPUMEM_RESV_H

#include <linux/list.h>
#include <linux/types.h>

struct dma_resv;
struct gpumem_bo;
struct gpumem_client;

/**
 * struct gpumem_joint - a root is a part of joint DMA-bufs of a client
 */
struct gpumem_joint {
	/** @link: in root->joints; root->joint_lock */
	struct list_head link;
	/** @client: exported the DMA-bufs; the DMA-bufs reference it; constant */
	struct gpumem_client *client;
	/** @parts: parts of the root in such DMA-bufs; root->joint_lock */
	unsigned int parts;
};

/* gpumem_resv.c */
struct dma_resv *gpumem_resv_of_root(struct gpumem_bo *root);
void gpumem_resv_free_root(struct gpumem_bo *root);
struct dma_resv *gpumem_resv_of_client(struct gpumem_client *client);
void gpumem_resv_free_client(struct gpumem_client *client);
void gpumem_resv_count_own(struct gpumem_bo *root, int by);
bool gpumem_resv_any(void);
int gpumem_joint_enter(struct gpumem_client *client, struct gpumem_bo *root);
void gpumem_joint_leave(struct gpumem_client *client, struct gpumem_bo *root);

#endif /* GPUMEM_RESV_H */
