// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_dmabuf: sharing memory with other drivers.
 *
 * A DMA-buf is a page aligned range of a root.  Until it is released, the
 * DMA-buf holds a window over its range: the record in the root that others
 * reach these pages (gpumem_bo.c).  It does so even after the client that
 * exported it has ended.  The mappings that mmap() of the DMA-buf makes hold
 * the same window.
 *
 * The memory never moves, so .pin and .unpin do nothing and mappings stay
 * valid.  A scatter list has one segment for each run of physically contiguous
 * folios.  A segment is at most as long as the importing device allows, but at
 * least a page, and less than 4 GiB.  A DMA-buf has at most one segment for
 * each of its pages.
 *
 * gpumem_dmabuf_attach() finds the runs, because the reservation object is not
 * locked there.  It is locked in map and unmap, whose own loops take one step
 * for each segment, not for each folio.  gpumem_dmabuf_detach() frees the runs.
 *
 * All DMA-bufs of a root have one reservation object, which gpumem_fence.c
 * uses.
 *
 * The import of a DMA-buf that gpumem exported creates a view of its root,
 * which needs no scatter list and no copy.  gpumem_foreign.c imports DMA-bufs
 * of other drivers.
 *
 * Locks: gpumem_dmabuf.lock protects the list of mappings for devices.  map,
 * unmap, vmap and vunmap are called with the reservation object locked: by the
 * importer, or by dma-buf's functions that lock it themselves.
 */
#include <linux/dma-buf.h>
#include <linux/dma-mapping.h>
#include <linux/dma-resv.h>
#include <linux/file.h>
#include <linux/iosys-map.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "gpumem_bo.h"
#include "gpumem_client.h"
#include "gpumem_device.h"
#include "gpumem_dmabuf.h"
#include "gpumem_fence.h"
#include "gpumem_handle.h"
#include "gpumem_ioctl.h"
#include "gpumem_lock.h"
#include "gpumem_object.h"
#include "gpumem_pin.h"
#include "gpumem_shmem.h"

/* sg_dma_len() is 32 bits wide.  A run that begins at 2 MiB is cut at 2 MiB. */
#define GPUMEM_SEG_MAX	round_down(U32_MAX, SZ_2M)

/**
 * struct gpumem_dmabuf - a DMA-buf that gpumem made
 */
struct gpumem_dmabuf {
	/** @root: referenced; constant */
	struct gpumem_bo *root;
	/** @window: window over the range; constant */
	struct gpumem_window *window;
	/** @client: its counters include this DMA-buf; referenced; constant */
	struct gpumem_client *client;
	/** @base: offset of the range in the root's memory; constant */
	u64 base;
	/** @length: bytes; constant */
	u64 length;
	/** @lock: protects @attachments */
	struct mutex lock;
	/** @attachments: mapped scatter lists, struct gpumem_attachment */
	struct list_head attachments;
};

/**
 * struct gpumem_attachment - a scatter list that .map_dma_buf made
 */
struct gpumem_attachment {
	/** @link: in gpumem_dmabuf.attachments; gpumem_dmabuf.lock */
	struct list_head link;
	/** @dev: device that @sgt is mapped for; constant */
	struct device *dev;
	/** @sgt: what .map_dma_buf returned; constant */
	struct sg_table sgt;
};

/**
 * struct gpumem_segment - physically contiguous pages of a DMA-buf
 * @page: first one
 * @length: bytes
 */
struct gpumem_segment {
	struct page *page;
	u32 length;
};

/**
 * struct gpumem_segments - a DMA-buf's segments for one device; constant
 * @n: number of @seg
 * @seg: in order
 */
struct gpumem_segments {
	unsigned int n;
	struct gpumem_segment seg[] __counted_by(n);
};

static int gpumem_dmabuf_pin(struct dma_buf_attachment *attach)
{
	return 0;
}

static void gpumem_dmabuf_unpin(struct dma_buf_attachment *attach)
{
}

/*
 * Split the range into physically contiguous runs of at most @max bytes, and
 * store them in @segs unless it is NULL.  Return the number of runs, or a
 * negative errno.
 */
static int gpumem_dmabuf_split(struct gpumem_dmabuf *buf, size_t max,
			       struct gpumem_segments *segs)
{
	u64 at = buf->base - buf->root->base, done = 0, run = 0;
	struct page *run_page = NULL;
	struct folio *folio;
	int n = 0;

	while (done < buf->length) {
		size_t part = buf->length - done;
		void *addr = gpumem_bo_map(buf->root, at + done, &part, &folio);
		struct page *page;

		if (IS_ERR(addr))
			return PTR_ERR(addr);
		/* The DMA-buf's reference on the root keeps the pages. */
		gpumem_bo_unmap(folio);
		page = virt_to_page(addr);
		done += part;
		while (part) {
			size_t take;

			if (!run || run == max ||
			    page_to_pfn(page) !=
			    page_to_pfn(run_page) + (run >> PAGE_SHIFT)) {
				run_page = page;
				run = 0;
				if (segs)
					segs->seg[n].page = page;
				n++;
			}
			take = min_t(u64, part, max - run);
			run += take;
			part -= take;
			if (segs)
				segs->seg[n - 1].length = run;
			page = pfn_to_page(page_to_pfn(page) +
					   (take >> PAGE_SHIFT));
		}
		cond_resched();
	}
	return n;
}

/* Context: may sleep; the reservation object is not locked. */
static int gpumem_dmabuf_attach(struct dma_buf *dmabuf,
				struct dma_buf_attachment *attach)
{
	struct gpumem_dmabuf *buf = dmabuf->priv;
	struct gpumem_segments *segs;
	size_t max;
	int n;

	max = min_t(u64, dma_get_max_seg_size(attach->dev), GPUMEM_SEG_MAX);
	max = max_t(size_t, round_down(max, PAGE_SIZE), PAGE_SIZE);
	n = gpumem_dmabuf_split(buf, max, NULL);
	if (n < 0)
		return n;
	segs = kvmalloc(struct_size(segs, seg, n),
			GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!segs)
		return -ENOMEM;
	segs->n = n;
	n = gpumem_dmabuf_split(buf, max, segs);
	if (n < 0) {
		kvfree(segs);
		return n;
	}
	attach->priv = segs;
	return 0;
}

static void gpumem_dmabuf_detach(struct dma_buf *dmabuf,
				 struct dma_buf_attachment *attach)
{
	kvfree(attach->priv);
}

/* Context: the reservation object is locked. */
static struct sg_table *gpumem_dmabuf_map(struct dma_buf_attachment *attach,
					  enum dma_data_direction dir)
{
	struct gpumem_dmabuf *buf = attach->dmabuf->priv;
	struct gpumem_segments *segs = attach->priv;
	struct gpumem_attachment *at;
	struct scatterlist *sg;
	unsigned int i;
	int ret;

	at = kzalloc(sizeof(*at), GFP_KERNEL);
	if (!at)
		return ERR_PTR(-ENOMEM);
	ret = sg_alloc_table(&at->sgt, segs->n, GFP_KERNEL);
	if (ret)
		goto err_free;
	for_each_sgtable_sg(&at->sgt, sg, i) {
		sg_set_page(sg, segs->seg[i].page, segs->seg[i].length, 0);
		cond_resched();
	}
	ret = dma_map_sgtable(attach->dev, &at->sgt, dir, 0);
	if (ret)
		goto err_table;
	at->dev = attach->dev;
	scoped_guard(mutex, &buf->lock)
		list_add(&at->link, &buf->attachments);
	return &at->sgt;

err_table:
	sg_free_table(&at->sgt);
err_free:
	kfree(at);
	return ERR_PTR(ret);
}

static void gpumem_dmabuf_unmap(struct dma_buf_attachment *attach,
				struct sg_table *sgt,
				enum dma_data_direction dir)
{
	struct gpumem_attachment *at = container_of(sgt,
						    struct gpumem_attachment,
						    sgt);
	struct gpumem_dmabuf *buf = attach->dmabuf->priv;

	scoped_guard(mutex, &buf->lock)
		list_del(&at->link);
	dma_unmap_sgtable(attach->dev, sgt, dir, 0);
	sg_free_table(sgt);
	kfree(at);
}

static int gpumem_dmabuf_begin_cpu(struct dma_buf *dmabuf,
				   enum dma_data_direction dir)
{
	struct gpumem_dmabuf *buf = dmabuf->priv;
	struct gpumem_attachment *at;

	guard(mutex)(&buf->lock);
	list_for_each_entry(at, &buf->attachments, link) {
		dma_sync_sgtable_for_cpu(at->dev, &at->sgt, dir);
		cond_resched();
	}
	return 0;
}

static int gpumem_dmabuf_end_cpu(struct dma_buf *dmabuf,
				 enum dma_data_direction dir)
{
	struct gpumem_dmabuf *buf = dmabuf->priv;
	struct gpumem_attachment *at;

	guard(mutex)(&buf->lock);
	list_for_each_entry(at, &buf->attachments, link) {
		dma_sync_sgtable_for_device(at->dev, &at->sgt, dir);
		cond_resched();
	}
	return 0;
}

static int gpumem_dmabuf_mmap(struct dma_buf *dmabuf,
			      struct vm_area_struct *vma)
{
	struct gpumem_dmabuf *buf = dmabuf->priv;
	int ret;

	if (!(vma->vm_flags & VM_MAYSHARE) || !buf->window->file)
		return -EINVAL;
	if (vma->vm_pgoff > buf->length >> PAGE_SHIFT ||
	    vma_pages(vma) > (buf->length >> PAGE_SHIFT) - vma->vm_pgoff)
		return -EINVAL;
	vma->vm_pgoff += buf->base >> PAGE_SHIFT;
	ret = gpumem_shmem_mmap(buf->window->file, vma);
	if (!ret)
		vm_flags_set(vma, VM_DONTEXPAND);
	return ret;
}

/*
 * Context: called with the reservation object locked.  Takes time in proportion
 * to the pages.
 */
static int gpumem_dmabuf_vmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	struct gpumem_dmabuf *buf = dmabuf->priv;
	unsigned long i, n = buf->length >> PAGE_SHIFT;
	struct page **pages;
	struct folio *folio;
	int ret = 0;
	void *addr;

	if (n > INT_MAX)
		return -ENOMEM;
	pages = kvmalloc_array(n, sizeof(*pages), GFP_KERNEL | __GFP_NOWARN);
	if (!pages)
		return -ENOMEM;
	for (i = 0; i < n;) {
		size_t part = buf->length - (i << PAGE_SHIFT);

		addr = gpumem_bo_map(buf->root, buf->base - buf->root->base +
				     (i << PAGE_SHIFT), &part, &folio);
		if (IS_ERR(addr)) {
			ret = PTR_ERR(addr);
			goto out;
		}
		gpumem_bo_unmap(folio);
		/* gpumem_bo_map() may return many pages of a registration. */
		for (; part; part -= PAGE_SIZE, addr += PAGE_SIZE) {
			pages[i++] = virt_to_page(addr);
			cond_resched();
		}
	}
	addr = vmap(pages, n, VM_MAP, PAGE_KERNEL);
	if (addr)
		iosys_map_set_vaddr(map, addr);
	else
		ret = -ENOMEM;
out:
	kvfree(pages);
	return ret;
}

static void gpumem_dmabuf_vunmap(struct dma_buf *dmabuf, struct iosys_map *map)
{
	vunmap(map->vaddr);
	iosys_map_clear(map);
}

static void gpumem_dmabuf_free(struct gpumem_dmabuf *buf)
{
	struct gpumem_counters *count = &buf->client->count;

	gpumem_window_put(buf->window);
	atomic64_dec(&count->exports);
	atomic64_sub(buf->length, &count->export_bytes);
	atomic_dec(&buf->root->dev->exports);
	gpumem_fence_count_dmabuf(buf->root, -1);
	gpumem_object_put(&buf->root->obj);
	gpumem_client_put(buf->client);
	mutex_destroy(&buf->lock);
	kfree(buf);
}

static void gpumem_dmabuf_release(struct dma_buf *dmabuf)
{
	gpumem_dmabuf_free(dmabuf->priv);
}

static const struct dma_buf_ops gpumem_dmabuf_ops = {
	.attach = gpumem_dmabuf_attach,
	.detach = gpumem_dmabuf_detach,
	.pin = gpumem_dmabuf_pin,
	.unpin = gpumem_dmabuf_unpin,
	.map_dma_buf = gpumem_dmabuf_map,
	.unmap_dma_buf = gpumem_dmabuf_unmap,
	.begin_cpu_access = gpumem_dmabuf_begin_cpu,
	.end_cpu_access = gpumem_dmabuf_end_cpu,
	.mmap = gpumem_dmabuf_mmap,
	.vmap = gpumem_dmabuf_vmap,
	.vunmap = gpumem_dmabuf_vunmap,
	.release = gpumem_dmabuf_release,
};

/*
 * @base is an offset in @root's memory.  The result references @root and
 * @client, and owns its window.
 */
static struct gpumem_dmabuf *gpumem_dmabuf_new(struct gpumem_client *client,
					       struct gpumem_bo *root, u64 base,
					       u64 length)
{
	struct gpumem_dmabuf *buf;

	if (!gpumem_fence_resv(root))
		return ERR_PTR(-ENOMEM);
	buf = kzalloc(sizeof(*buf), GFP_KERNEL_ACCOUNT);
	if (!buf)
		return ERR_PTR(-ENOMEM);
	buf->window = gpumem_window_create(root, base, length);
	if (IS_ERR(buf->window)) {
		struct gpumem_window *window = buf->window;

		kfree(buf);
		return ERR_CAST(window);
	}
	kref_get(&root->obj.ref);
	kref_get(&client->ref);
	buf->root = root;
	buf->client = client;
	buf->base = base;
	buf->length = length;
	mutex_init(&buf->lock);
	gpumem_lockdep_class(&buf->lock, GPUMEM_LOCK_DMABUF);
	INIT_LIST_HEAD(&buf->attachments);
	atomic64_inc(&client->count.exports);
	atomic64_add(length, &client->count.export_bytes);
	atomic_inc(&root->dev->exports);
	gpumem_fence_count_dmabuf(root, 1);
	return buf;
}

static struct dma_buf *gpumem_dmabuf_create(struct gpumem_client *client,
					    struct gpumem_bo *bo, u64 offset,
					    u64 length, bool readonly)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct gpumem_dmabuf *buf;
	struct dma_buf *dmabuf;

	buf = gpumem_dmabuf_new(client, gpumem_bo_root(bo), bo->base + offset,
				length);
	if (IS_ERR(buf))
		return ERR_CAST(buf);
	info.ops = &gpumem_dmabuf_ops;
	info.size = length;
	info.flags = readonly ? O_RDONLY : O_RDWR;
	info.priv = buf;
	info.resv = buf->root->resv;
	dmabuf = dma_buf_export(&info);
	if (IS_ERR(dmabuf))
		gpumem_dmabuf_free(buf);
	return dmabuf;
}

int gpumem_ioctl_bo_export(struct gpumem_ucmd *ucmd)
{
	struct gpumem_bo_export *cmd = ucmd->cmd;
	struct dma_buf *dmabuf;
	struct gpumem_bo *bo;
	int ret;

	if (cmd->flags & ~(GPUMEM_BO_EXPORT_CLOEXEC | GPUMEM_BO_EXPORT_RDONLY |
			   GPUMEM_BO_EXPORT_HANDLE))
		return -EOPNOTSUPP;
	if (!cmd->length || !PAGE_ALIGNED(cmd->length))
		return -EINVAL;
	bo = gpumem_bo_get(ucmd->client, cmd->id);
	if (!bo)
		return -ENOENT;
	if (cmd->flags & GPUMEM_BO_EXPORT_HANDLE) {
		ret = gpumem_handle_export(ucmd, bo);
		goto out_put;
	}
	/* The client can pass on the descriptor of the other driver instead. */
	if (bo->foreign) {
		ret = -EOPNOTSUPP;
		goto out_put;
	}
	/* The range must start at a page; a registration may not. */
	if (!PAGE_ALIGNED(bo->base + cmd->offset)) {
		ret = -EINVAL;
		goto out_put;
	}
	/* Importing drivers can write, even through a read-only descriptor. */
	if (gpumem_bo_root(bo)->pin &&
	    gpumem_pin_readonly(gpumem_bo_root(bo)->pin)) {
		ret = -EACCES;
		goto out_put;
	}
	if (cmd->offset > bo->length || cmd->length > bo->length - cmd->offset) {
		ret = -EOVERFLOW;
		goto out_put;
	}
	dmabuf = gpumem_dmabuf_create(ucmd->client, bo, cmd->offset, cmd->length,
				      cmd->flags & GPUMEM_BO_EXPORT_RDONLY);
	if (IS_ERR(dmabuf)) {
		ret = PTR_ERR(dmabuf);
		goto out_put;
	}
	ret = get_unused_fd_flags(cmd->flags & GPUMEM_BO_EXPORT_CLOEXEC ?
				  O_CLOEXEC : 0);
	if (ret < 0) {
		dma_buf_put(dmabuf);
		goto out_put;
	}
	cmd->fd = ret;
	ret = gpumem_ucmd_respond(ucmd, sizeof(*cmd));
	if (ret) {
		put_unused_fd(cmd->fd);
		dma_buf_put(dmabuf);
		goto out_put;
	}
	fd_install(cmd->fd, dmabuf->file);
out_put:
	gpumem_object_put(&bo->obj);
	return ret;
}

/*
 * Create a view of the root behind @buf.  Store the index that the root's
 * device has in @client in *@device.
 */
static struct gpumem_bo *gpumem_dmabuf_view(struct gpumem_client *client,
					    struct gpumem_dmabuf *buf,
					    u32 *device)
{
	int ret = gpumem_client_device_index(client, buf->root->dev);

	if (ret < 0)
		return ERR_PTR(ret);
	*device = ret;
	return gpumem_bo_view(client, buf->root, buf->base, buf->length);
}

/* Make a DMA-buf a buffer object of @client. */
static struct gpumem_bo *gpumem_dmabuf_import(struct gpumem_client *client,
					      int fd, u32 *device)
{
	struct dma_buf *dmabuf = dma_buf_get(fd);
	struct gpumem_bo *bo;

	if (IS_ERR(dmabuf))
		return ERR_CAST(dmabuf);
	*device = 0;
	/* Imported memory is writable, so the descriptor must be. */
	if (!(dmabuf->file->f_mode & FMODE_WRITE))
		bo = ERR_PTR(-EACCES);
	else if (dmabuf->ops == &gpumem_dmabuf_ops)
		bo = gpumem_dmabuf_view(client, dmabuf->priv, device);
	else
		bo = gpumem_foreign_create(client, dmabuf);
	dma_buf_put(dmabuf);
	return bo;
}

int gpumem_ioctl_bo_import(struct gpumem_ucmd *ucmd)
{
	struct gpumem_bo_import *cmd = ucmd->cmd;
	struct gpumem_client *client = ucmd->client;
	struct gpumem_bo *bo;
	int ret;

	if (cmd->flags & ~GPUMEM_BO_IMPORT_HANDLE || cmd->reserved)
		return -EOPNOTSUPP;
	if (cmd->flags & GPUMEM_BO_IMPORT_HANDLE)
		bo = gpumem_handle_import(client, cmd->fd, &cmd->device);
	else
		bo = gpumem_dmabuf_import(client, cmd->fd, &cmd->device);
	if (IS_ERR(bo))
		return PTR_ERR(bo);
	ret = gpumem_object_reserve(ucmd, &bo->obj);
	if (ret) {
		gpumem_object_put(&bo->obj);
		return ret;
	}
	cmd->id = bo->obj.id;
	cmd->length = bo->length;
	return gpumem_ucmd_respond(ucmd, sizeof(*cmd));
}
