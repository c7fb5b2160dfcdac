// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_foreign: DMA-bufs of other drivers, and those of several parts of
 * gpumem's own, as buffer objects.
 *
 * The *exporter* is the driver that made the DMA-buf.  A foreign buffer object
 * is a root without a file.  The engine is a CPU, so it reaches the memory by
 * the exporter's kernel mapping (vmap).  A DMA-buf whose exporter has no vmap
 * is refused.  The addresses in scatter lists are for devices and are never
 * used.  The attachment keeps the memory where it is: the exporter does not
 * move it during a copy.  The buffer object holds a reference on the DMA-buf,
 * and so on the exporter's module: it stays usable after the descriptor is
 * closed and the exporting process has ended.
 *
 * An *own* DMA-buf is one of several parts that gpumem made (gpumem_dmabuf.c).
 * The engine reaches its pages part by part, so it needs no attachment and no
 * kernel mapping, and access to it has no begin and no end.
 *
 * A process that maps the buffer object gets the exporter's own mapping, if the
 * exporter offers one.  A mapping always begins at offset 0, because some
 * exporters map the beginning whatever offset the caller passes.
 *
 * The memory does not belong to a gpumem device: it counts in no budget, and it
 * cannot be exported again (the client can pass on the descriptor instead),
 * named by a token or retired.
 *
 * A stream's entry that touches a foreign buffer object *accesses* it as a CPU
 * does: access begins and ends with calls of the exporter (gpumem_fence.c says
 * when).  The call that ends access may wait and allocate, so it comes after
 * the entry's fence is signalled.  If other devices depend on that call,
 * because the hardware does not keep caches coherent, the entry adds no fence
 * to the buffer: as with a process that accesses a DMA-buf, the program has to
 * tell other users of the buffer that the access has ended.
 *
 * Locks: none of its own; the fields are constant.  The calls of the exporter
 * may lock the resv.
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/iosys-map.h>
#include <linux/mm.h>
#include <linux/slab.h>

#include "gpumem_bo.h"
#include "gpumem_client.h"
#include "gpumem_device.h"
#include "gpumem_dmabuf.h"

/**
 * struct gpumem_foreign - an imported DMA-buf; constant
 */
struct gpumem_foreign {
	/** @dmabuf: referenced */
	struct dma_buf *dmabuf;
	/** @own: gpumem made the DMA-buf; the fields below are not used */
	bool own;
	/** @attach: keeps the memory in place */
	struct dma_buf_attachment *attach;
	/** @sgt: pins the memory of an exporter that could move it; or NULL */
	struct sg_table *sgt;
	/** @map: the kernel's mapping of all of it */
	struct iosys_map map;
};

/* An exporter that can move memory keeps it in place while a device maps it. */
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

	/* Without vmap the CPU cannot reach the memory. */
	if (!foreign->dmabuf->ops->vmap)
		return -EOPNOTSUPP;
	ret = dma_buf_vmap_unlocked(foreign->dmabuf, &foreign->map);
	/* The call has no arguments to reject: the exporter lacks memory. */
	if (ret == -EINVAL)
		ret = -ENOMEM;
	if (ret)
		return ret;
	/* Registers of a device: only its driver knows how to access them. */
	if (foreign->map.is_iomem) {
		dma_buf_vunmap_unlocked(foreign->dmabuf, &foreign->map);
		return -EOPNOTSUPP;
	}
	return 0;
}

/*
 * Attach @dev to a DMA-buf, pin and map it, unless it is gpumem's own.  The
 * result holds its own reference on the DMA-buf.
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
	foreign->own = gpumem_dmabuf_is_own(dmabuf);
	if (foreign->own)
		goto out_get;
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
out_get:
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
 * gpumem_foreign_create - make a DMA-buf a buffer object
 * @client: whose object it becomes
 * @dmabuf: DMA-buf of another driver, or own one; gets a reference
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
 * gpumem_foreign_free - unmap, unpin, detach and put a DMA-buf
 * @foreign: DMA-buf that no entry accesses
 *
 * Context: may sleep.
 */
void gpumem_foreign_free(struct gpumem_foreign *foreign)
{
	if (!foreign->own) {
		dma_buf_vunmap_unlocked(foreign->dmabuf, &foreign->map);
		gpumem_foreign_unpin(foreign);
		dma_buf_detach(foreign->dmabuf, foreign->attach);
	}
	dma_buf_put(foreign->dmabuf);
	kfree(foreign);
}

/**
 * gpumem_foreign_map - find the kernel's address of an offset
 * @foreign: DMA-buf
 * @offset: offset in @foreign
 * @len: in: bytes wanted; out: bytes that are contiguous at the address
 *
 * Return: the address, or an ERR_PTR: -EIO if the memory failed.
 */
void *gpumem_foreign_map(struct gpumem_foreign *foreign, u64 offset,
			 size_t *len)
{
	if (foreign->own)
		return gpumem_dmabuf_address(foreign->dmabuf, offset, len);
	return foreign->map.vaddr + offset;
}

/**
 * gpumem_foreign_mmap - map a DMA-buf for a process
 * @foreign: DMA-buf
 * @vma: shared mapping, vm_pgoff counted in @foreign
 *
 * Context: mmap_lock held for writing, in an mmap handler.
 * Return: 0, -EINVAL if the exporter offers no mapping or the range does not
 * begin at 0 or leaves @foreign, or another negative errno.
 */
int gpumem_foreign_mmap(struct gpumem_foreign *foreign,
			struct vm_area_struct *vma)
{
	if (vma->vm_pgoff)
		return -EINVAL;
	return dma_buf_mmap(foreign->dmabuf, vma, 0);
}

/**
 * gpumem_foreign_is_own - did gpumem make the DMA-buf?
 * @foreign: DMA-buf
 *
 * Return: true if access has no begin and no end.
 */
bool gpumem_foreign_is_own(struct gpumem_foreign *foreign)
{
	return foreign->own;
}

static enum dma_data_direction gpumem_foreign_dir(bool write)
{
	return write ? DMA_BIDIRECTIONAL : DMA_FROM_DEVICE;
}

/**
 * gpumem_foreign_begin - begin access
 * @foreign: DMA-buf of another driver
 * @write: the entry writes the DMA-buf
 *
 * Context: may sleep until the fences in the DMA-buf's resv are signalled.
 * Return: 0 or a negative errno.
 */
int gpumem_foreign_begin(struct gpumem_foreign *foreign, bool write)
{
	return dma_buf_begin_cpu_access(foreign->dmabuf,
					gpumem_foreign_dir(write));
}

/**
 * gpumem_foreign_end - end access
 * @foreign: DMA-buf
 * @write: as with gpumem_foreign_begin()
 *
 * Context: may sleep; no unsignalled fence may depend on the caller.
 */
void gpumem_foreign_end(struct gpumem_foreign *foreign, bool write)
{
	dma_buf_end_cpu_access(foreign->dmabuf, gpumem_foreign_dir(write));
}

/**
 * gpumem_foreign_fences - does a signalled fence mean that access has ended?
 * @foreign: DMA-buf
 *
 * Return: false if other devices depend on gpumem_foreign_end() as well.
 */
bool gpumem_foreign_fences(struct gpumem_foreign *foreign)
{
	return !IS_ENABLED(CONFIG_ARCH_HAS_SYNC_DMA_FOR_DEVICE) ||
	       !foreign->dmabuf->ops->end_cpu_access;
}

/**
 * gpumem_foreign_name - name the exporter
 * @foreign: DMA-buf
 *
 * Return: the exporter's name.
 */
const char *gpumem_foreign_name(struct gpumem_foreign *foreign)
{
	return foreign->dmabuf->exp_name;
}
