/* SPDX-License-Identifier: GPL-2.0 */
/*
 * DMA-bufs: exports of ours (gpumem_dmabuf.c) and buffers of other drivers
 * (gpumem_foreign.c).
 */
#ifndef GPUMEM_DMABUF_H
#define GPUMEM_DMABUF_H

#include <linux/types.h>

struct dma_buf;
struct gpumem_bo;
struct gpumem_client;
struct gpumem_foreign;
struct gpumem_ucmd;
struct vm_area_struct;

/* gpumem_dmabuf.c */
int gpumem_ioctl_bo_export(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_bo_import(struct gpumem_ucmd *ucmd);
int gpumem_ioctl_vm_export(struct gpumem_ucmd *ucmd);
bool gpumem_dmabuf_is_own(struct dma_buf *dmabuf);
void *gpumem_dmabuf_address(struct dma_buf *dmabuf, u64 offset, size_t *len);

/* gpumem_foreign.c */
struct gpumem_bo *gpumem_foreign_create(struct gpumem_client *client,
					struct dma_buf *dmabuf);
void gpumem_foreign_free(struct gpumem_foreign *foreign);
void *gpumem_foreign_map(struct gpumem_foreign *foreign, u64 offset,
			 size_t *len);
int gpumem_foreign_mmap(struct gpumem_foreign *foreign,
			struct vm_area_struct *vma);
bool gpumem_foreign_is_own(struct gpumem_foreign *foreign);
int gpumem_foreign_begin(struct gpumem_foreign *foreign, bool write);
void gpumem_foreign_end(struct gpumem_foreign *foreign, bool write);
bool gpumem_foreign_fences(struct gpumem_foreign *foreign);
const char *gpumem_foreign_name(struct gpumem_foreign *foreign);

#endif /* GPUMEM_DMABUF_H */
