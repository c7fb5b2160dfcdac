// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_foreign: DMA-bufs of other drivers as buffer objects.
 *
 * A foreign buffer object is a root without a file.  The engine is a processor,
 * so it reaches the memory as the exporter shows it to processors (vmap), and an
 * exporter that does not is refused; scatter lists and their addresses are for
 * devices and are never looked into.  The attachment keeps the memory where it
 * is: nothing is invalidated under a copy, and the exporter need not ask.  The
 * DMA-buf is referenced, and with it its exporter's module, so that closing the
 * descriptor or the exporter's end change nothing.
 *
 * What a process maps is the exporter's own mapping, if it offers one, from its
 * beginning on: there are exporters that show that whatever they are asked for.
 *
 * The memory is not the device's: it is in no budget, it cannot be exported
 * again (the descriptor can be handed on instead), named by a token or retired.
 *
 * Each entry of a stream that touches it is *access* by a processor, which begins
 * and ends with calls of the exporter (gpumem_share.c says when).  What ends it
 * may wait and allocate, so it comes after the fence of the entry is signalled.
 * Where it does something that other devices depend on, because caches are not
 * kept in step by the hardware, there is no fence: as with a process that
 * accesses a DMA-buf, others learn from the program that the access is over.
 *
 * Vocabulary: exporter, the driver that made a DMA-buf; access, see above.
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/iosys-map.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "gpumem_private.h"

/**
 * struct gpumem_foreign - what a DMA-buf of another driver is to us; constant
 */
struct gpumem_foreign {
	/** @dmabuf: referenced */
	struct dma_buf *dmabuf;
	/** @attach: keeps the memory in place */
	struct dma_buf_attachment *attach;
	/** @sgt: of an exporter that could move memory, which pins it; or NULL */
	struct sg_table *sgt;
	/** @map: the kernel's mapping of all of it */
	struct iosys_map map;
};

/* Whoever can move memory does not while it is mapped for a device. */
static int gpumem_foreign_pin(struct gpumem_foreign *foreign)
{
	struct sg_table *sgt;

	if (!foreign->dmabuf->ops->pin)
		return 0;
	sgt = dma_buf_map_attachment_unlocked(foreign->attach,
					      DMA_BIDIRECTIONAL);
	if (IS_ERR(sgt))
		return PTR_ERR(sgt);
	foreign->sgt = sgt;
	return 0;
}

static void gpumem_foreign_unpin(struct gpumem_foreign *foreign)
{
	if (foreign->sgt)
		dma_buf_unmap_attachment_unlocked(foreign->attach, foreign->sgt,
						  DMA_BIDIRECTIONAL);
}

static int gpumem_foreign_vmap(struct gpumem_foreign *foreign)
{
	int ret;

	/* Exporters without a mapping for processors have none of these. */
	if (!foreign->dmabuf->ops->vmap)
		return -EOPNOTSUPP;
	ret = dma_buf_vmap_unlocked(foreign->dmabuf, &foreign->map);
	/* Nothing here is an argument: udmabuf says this when it has no memory. */
	if (ret == -EINVAL)
		ret = -ENOMEM;
	if (ret)
		return ret;
	/* Registers of a device: it is the only one that knows how. */
	if (foreign->map.is_iomem) {
		dma_buf_vunmap_unlocked(foreign->dmabuf, &foreign->map);
		return -EOPNOTSUPP;
	}
	return 0;
}

/*
 * Reach a DMA-buf from @dev.  The result has a reference of its own.
 */
static struct gpumem_foreign *gpumem_foreign_new(struct device *dev,
						 struct dma_buf *dmabuf)
{
	struct gpumem_foreign *foreign = kzalloc(sizeof(*foreign),
						 GFP_KERNEL_ACCOUNT);
	int ret;

	if (!foreign)
		return ERR_PTR(-ENOMEM);
	foreign->dmabuf = dmabuf;
	foreign->attach = dma_buf_attach(dmabuf, dev);
	if (IS_ERR(foreign->attach)) {
		ret = PTR_ERR(foreign->attach);
		goto err_free;
	}
	ret = gpumem_foreign_pin(foreign);
	if (ret)
		goto err_detach;
	ret = gpumem_foreign_vmap(foreign);
	if (ret)
		goto err_unpin;
	get_dma_buf(dmabuf);
	return foreign;

err_unpin:
	gpumem_foreign_unpin(foreign);
err_detach:
	dma_buf_detach(dmabuf, foreign->attach);
err_free:
	kfree(foreign);
	return ERR_PTR(ret);
}

/**
 * gpumem_foreign_create - make a DMA-buf of another driver a buffer object
 * @client: whose object it becomes
 * @dmabuf: DMA-buf; gets a reference
 *
 * Context: may sleep; the exporter may wait for its device.
 * Return: the buffer object, or an ERR_PTR: -EOPNOTSUPP if processors cannot
 * reach the memory, -EINVAL if it is not whole pages, -EOVERFLOW if it is too
 * large for an mmap() offset, or what the exporter answers.
 */
struct gpumem_bo *gpumem_foreign_create(struct gpumem_client *client,
					struct dma_buf *dmabuf)
{
	struct gpumem_foreign *foreign;
	struct gpumem_bo *bo;

	if (!dmabuf->size || !PAGE_ALIGNED(dmabuf->size))
		return ERR_PTR(-EINVAL);
	if (dmabuf->size > BIT_ULL(GPUMEM_MMAP_SHIFT))
		return ERR_PTR(-EOVERFLOW);
	foreign = gpumem_foreign_new(&client->devices[0]->dev, dmabuf);
	if (IS_ERR(foreign))
		return ERR_CAST(foreign);
	bo = gpumem_bo_foreign(client, foreign, dmabuf->size, dmabuf->resv);
	if (IS_ERR(bo))
		gpumem_foreign_free(foreign);
	return bo;
}

/**
 * gpumem_foreign_free - give a DMA-buf back
 * @foreign: nobody accesses it
 *
 * Context: may sleep.
 */
void gpumem_foreign_free(struct gpumem_foreign *foreign)
{
	dma_buf_vunmap_unlocked(foreign->dmabuf, &foreign->map);
	gpumem_foreign_unpin(foreign);
	dma_buf_detach(foreign->dmabuf, foreign->attach);
	dma_buf_put(foreign->dmabuf);
	kfree(foreign);
}

/**
 * gpumem_foreign_map - where the kernel sees a piece
 * @foreign: DMA-buf
 * @offset: in it
 *
 * Return: the address; all of the DMA-buf lies together.
 */
void *gpumem_foreign_map(struct gpumem_foreign *foreign, u64 offset)
{
	return foreign->map.vaddr + offset;
}

/**
 * gpumem_foreign_mmap - show a process the exporter's mapping
 * @foreign: DMA-buf
 * @vma: shared mapping, vm_pgoff counted in @foreign
 *
 * Context: mmap_lock held for writing, in an mmap handler.
 * Return: 0, -EINVAL if the exporter has none or the range does not begin at 0
 * or leaves @foreign, or another negative errno.
 */
int gpumem_foreign_mmap(struct gpumem_foreign *foreign,
			struct vm_area_struct *vma)
{
	if (vma->vm_pgoff)
		return -EINVAL;
	return dma_buf_mmap(foreign->dmabuf, vma, 0);
}

static enum dma_data_direction gpumem_foreign_dir(bool write)
{
	return write ? DMA_BIDIRECTIONAL : DMA_FROM_DEVICE;
}

/**
 * gpumem_foreign_begin - access begins
 * @foreign: DMA-buf
 * @write: it is written, too
 *
 * Context: may sleep, until fences are signalled that are in the DMA-buf.
 * Return: 0 or a negative errno.
 */
int gpumem_foreign_begin(struct gpumem_foreign *foreign, bool write)
{
	return dma_buf_begin_cpu_access(foreign->dmabuf,
					gpumem_foreign_dir(write));
}

/**
 * gpumem_foreign_end - access is over
 * @foreign: DMA-buf
 * @write: as with gpumem_foreign_begin()
 *
 * Context: may sleep; nobody waits for the caller by a fence.
 */
void gpumem_foreign_end(struct gpumem_foreign *foreign, bool write)
{
	dma_buf_end_cpu_access(foreign->dmabuf, gpumem_foreign_dir(write));
}

/**
 * gpumem_foreign_fences - may a fence say that access is over?
 * @foreign: DMA-buf
 *
 * Return: false if others need what gpumem_foreign_end() does.
 */
bool gpumem_foreign_fences(struct gpumem_foreign *foreign)
{
	return !IS_ENABLED(CONFIG_ARCH_HAS_SYNC_DMA_FOR_DEVICE) ||
	       !foreign->dmabuf->ops->end_cpu_access;
}

/**
 * gpumem_foreign_name - who made it
 * @foreign: DMA-buf
 *
 * Return: the exporter's name.
 */
const char *gpumem_foreign_name(struct gpumem_foreign *foreign)
{
	return foreign->dmabuf->exp_name;
}
