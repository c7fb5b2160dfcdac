// SPDX-License-Identifier: GPL-2.0
/*
 * gpumem_dmabuf: sharing memory with other drivers.
 *
 * A DMA-buf has one or several *parts*.  A part is a page aligned range of a
 * root.  GPUMEM_BO_EXPORT makes a DMA-buf of one part.  GPUMEM_VM_EXPORT makes
 * one of a range of addresses, with a part for each mapping in it.
 *
 * Until it is released, the DMA-buf holds a window over each part: the record
 * in the root that others reach these pages (gpumem_bo.c).  It does so even
 * after the client that exported it has ended, and after the range is unmapped.
 *
 * mmap() of a DMA-buf of one part maps the window's file, and holds the window.
 * The pages of several parts have several files, and a process's mapping has
 * one, so they are mapped page by page when the process touches them.  Such a
 * mapping holds the DMA-buf.
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
 * gpumem_resv.c has the reservation objects, which gpumem_fence.c uses.
 *
 * The import of a DMA-buf of one part creates a view of its root, which needs
 * no scatter list and no copy.  gpumem_foreign.c imports DMA-bufs of other
 * drivers, and those of several parts.
 *
 * Each part of a DMA-buf of several counts as a mapping of the user who
 * exported it, so their number is limited (gpumem_user.c).
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
#include "gpumem_delay.h"
#include "gpumem_device.h"
#include "gpumem_dmabuf.h"
#include "gpumem_handle.h"
#include "gpumem_ioctl.h"
#include "gpumem_lock.h"
#include "gpumem_object.h"
#include "gpumem_pin.h"
#include "gpumem_resv.h"
#include "gpumem_shmem.h"
#include "gpumem_trace.h"
#include "gpumem_user.h"
#include "gpumem_vm.h"

/* sg_dma_len() is 32 bits wide.  A run that begins at 2 MiB is cut at 2 MiB. */
#define GPUMEM_SEG_MAX	round_down(U32_MAX, SZ_2M)

/**
 * struct gpumem_dmabuf_part - pages of one root in a DMA-buf; constant
 */
struct gpumem_dmabuf_part {
	/** @window: window over the pages; references their root */
	struct gpumem_window *window;
	/** @base: offset of the pages in the root's memory */
	u64 base;
	/** @start: offset of the pages in the DMA-buf */
	u64 start;
};

/**
 * struct gpumem_dmabuf - a DMA-buf that gpumem made
 */
struct gpumem_dmabuf {
	/** @client: its counters include this DMA-buf; referenced; constant */
	struct gpumem_client *client;
	/** @dev: device of the first part; constant */
	struct gpumem_device *dev;
	/** @length: bytes; constant */
	u64 length;
	/** @lock: protects @attachments */
	struct mutex lock;
	/** @attachments: mapped scatter lists, struct gpumem_attachment */
	struct list_head attachments;
	/** @nparts: number of @part; constant once the DMA-buf is made */
	unsigned int nparts;
	/** @part: in order */
	struct gpumem_dmabuf_part part[] __counted_by(nparts);
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
 * Find the kernel's address of an offset in part @i.  @len: in: bytes wanted;
 * out: bytes that are contiguous at the address, at most those of the part.
 * The DMA-buf's window keeps the pages.
 */
static void *gpumem_dmabuf_addr(struct gpumem_dmabuf *buf, unsigned int i,
				u64 offset, size_t *len)
{
	struct gpumem_dmabuf_part *part = &buf->part[i];
	struct gpumem_bo *root = part->window->root;
	u64 end = i + 1 < buf->nparts ? part[1].start : buf->length;
	struct folio *folio;
	void *addr;

	*len = min_t(u64, *len, end - offset);
	addr = gpumem_bo_map(root, part->base - root->base + offset -
				   part->start, len, &folio);
	if (!IS_ERR(addr))
		gpumem_bo_unmap(folio);
	return addr;
}

/*
 * Split the range into physically contiguous runs of at most @max bytes, and
 * store them in @segs unless it is NULL.  Return the number of runs, or a
 * negative errno.
 */
static int gpumem_dmabuf_split(struct gpumem_dmabuf *buf, size_t max,
			       struct gpumem_segments *segs)
{
	struct page *run_page = NULL;
	u64 done = 0, run = 0;
	unsigned int i = 0;
	int n = 0;

	while (done < buf->length) {
		size_t part = buf->length - done;
		struct page *page;
		void *addr;

		if (i + 1 < buf->nparts && buf->part[i + 1].start == done)
			i++;
		addr = gpumem_dmabuf_addr(buf, i, done, &part);
		if (IS_ERR(addr))
			return PTR_ERR(addr);
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

/* The part that has the page at an offset. */
static unsigned int gpumem_dmabuf_find(struct gpumem_dmabuf *buf, u64 offset)
{
	unsigned int low = 0, high = buf->nparts;

	while (high - low > 1) {
		unsigned int mid = low + (high - low) / 2;

		if (buf->part[mid].start <= offset)
			low = mid;
		else
			high = mid;
	}
	return low;
}

/* Map a page of a DMA-buf of several parts.  The VMA's file is the DMA-buf's. */
static vm_fault_t gpumem_dmabuf_fault(struct vm_fault *vmf)
{
	struct gpumem_dmabuf *buf = vmf->vma->vm_private_data;
	u64 offset = (u64)vmf->pgoff << PAGE_SHIFT;
	size_t len = PAGE_SIZE;
	void *addr;
	int ret;

	if (offset >= buf->length)
		return VM_FAULT_SIGBUS;
	addr = gpumem_dmabuf_addr(buf, gpumem_dmabuf_find(buf, offset), offset,
				  &len);
	if (addr == ERR_PTR(-EIO))
		return VM_FAULT_HWPOISON;
	if (IS_ERR(addr))
		return vmf_error(PTR_ERR(addr));
	ret = vm_insert_page(vmf->vma, vmf->address, virt_to_page(addr));
	/* EBUSY: another thread was faster. */
	if (ret && ret != -EBUSY)
		return vmf_error(ret);
	return VM_FAULT_NOPAGE;
}

static const struct vm_operations_struct gpumem_dmabuf_vm_ops = {
	.fault = gpumem_dmabuf_fault,
};

static int gpumem_dmabuf_mmap_part(struct gpumem_dmabuf_part *part,
				   struct vm_area_struct *vma)
{
	int ret;

	vma->vm_pgoff += part->base >> PAGE_SHIFT;
	ret = gpumem_shmem_mmap(part->window->file, vma);
	if (!ret)
		vm_flags_set(vma, VM_DONTEXPAND);
	return ret;
}

static int gpumem_dmabuf_mmap(struct dma_buf *dmabuf,
			      struct vm_area_struct *vma)
{
	struct gpumem_dmabuf *buf = dmabuf->priv;
	unsigned int i;

	if (!(vma->vm_flags & VM_MAYSHARE))
		return -EINVAL;
	if (vma->vm_pgoff > buf->length >> PAGE_SHIFT ||
	    vma_pages(vma) > (buf->length >> PAGE_SHIFT) - vma->vm_pgoff)
		return -EINVAL;
	for (i = 0; i < buf->nparts; i++)
		/* A registration has no file and cannot be mapped. */
		if (!buf->part[i].window->file)
			return -EINVAL;
	if (buf->nparts == 1)
		return gpumem_dmabuf_mmap_part(&buf->part[0], vma);
	vm_flags_set(vma, VM_MIXEDMAP | VM_DONTEXPAND | VM_DONTDUMP);
	vma->vm_private_data = buf;
	vma->vm_ops = &gpumem_dmabuf_vm_ops;
	return 0;
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
	unsigned int at = 0;
	int ret = 0;
	void *addr;

	if (n > INT_MAX)
		return -ENOMEM;
	pages = kvmalloc_array(n, sizeof(*pages), GFP_KERNEL | __GFP_NOWARN);
	if (!pages)
		return -ENOMEM;
	for (i = 0; i < n;) {
		size_t part = buf->length - (i << PAGE_SHIFT);

		if (at + 1 < buf->nparts &&
		    buf->part[at + 1].start == (u64)i << PAGE_SHIFT)
			at++;
		addr = gpumem_dmabuf_addr(buf, at, (u64)i << PAGE_SHIFT, &part);
		if (IS_ERR(addr)) {
			ret = PTR_ERR(addr);
			goto out;
		}
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

/* Free the first @n parts. */
static void gpumem_dmabuf_free_parts(struct gpumem_dmabuf *buf, unsigned int n)
{
	while (n--) {
		struct gpumem_window *window = buf->part[n].window;

		if (buf->nparts == 1)
			gpumem_resv_count_own(window->root, -1);
		else
			gpumem_joint_leave(buf->client, window->root);
		gpumem_window_put(window);
		cond_resched();
	}
}

/* Free what gpumem_dmabuf_alloc() made. */
static void gpumem_dmabuf_free_head(struct gpumem_dmabuf *buf)
{
	struct gpumem_counters *count = &buf->client->count;

	atomic64_dec(&count->exports);
	atomic64_sub(buf->length, &count->export_bytes);
	atomic_dec(&buf->dev->exports);
	trace_gpumem_export_free(buf->client, buf->dev, buf->length, false);
	if (buf->nparts > 1)
		gpumem_user_unmap(buf->client, buf->nparts);
	gpumem_client_put(buf->client);
	mutex_destroy(&buf->lock);
	kvfree(buf);
}

static void gpumem_dmabuf_free(struct gpumem_dmabuf *buf)
{
	gpumem_dmabuf_free_parts(buf, buf->nparts);
	gpumem_dmabuf_free_head(buf);
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

/* Allocate a DMA-buf of @n parts, and count it.  It references @client. */
static struct gpumem_dmabuf *gpumem_dmabuf_alloc(struct gpumem_client *client,
						 struct gpumem_device *dev,
						 unsigned int n, u64 length)
{
	struct gpumem_dmabuf *buf;
	int ret = n > 1 ? gpumem_user_map(client, n) : 0;

	if (ret)
		return ERR_PTR(ret);
	buf = kvzalloc(struct_size(buf, part, n),
		       GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!buf) {
		if (n > 1)
			gpumem_user_unmap(client, n);
		return ERR_PTR(-ENOMEM);
	}
	kref_get(&client->ref);
	buf->client = client;
	buf->dev = dev;
	buf->length = length;
	buf->nparts = n;
	mutex_init(&buf->lock);
	gpumem_lockdep_class(&buf->lock, GPUMEM_LOCK_DMABUF);
	INIT_LIST_HEAD(&buf->attachments);
	atomic64_inc(&client->count.exports);
	atomic64_add(length, &client->count.export_bytes);
	atomic_inc(&dev->exports);
	trace_gpumem_export_new(client, dev, length, false);
	return buf;
}

/* Fill @part; parts[0] to the one before it are filled. */
static int gpumem_dmabuf_enter(struct gpumem_dmabuf *buf, unsigned int i,
			       const struct gpumem_part *from, u64 start)
{
	struct gpumem_dmabuf_part *part = &buf->part[i];
	struct gpumem_bo *root = gpumem_bo_root(from->bo);
	int ret;

	part->start = start;
	part->base = from->bo->base + from->offset;
	part->window = gpumem_window_create(root, part->base, from->length);
	if (IS_ERR(part->window))
		return PTR_ERR(part->window);
	if (buf->nparts == 1) {
		gpumem_resv_count_own(root, 1);
		return 0;
	}
	ret = gpumem_joint_enter(buf->client, root);
	if (ret)
		gpumem_window_put(part->window);
	return ret;
}

/* Can the range be a part of a DMA-buf? */
static int gpumem_dmabuf_check(const struct gpumem_part *part)
{
	struct gpumem_bo *root = gpumem_bo_root(part->bo);

	/* The client can pass on the descriptor of the other driver instead. */
	if (root->foreign)
		return -EOPNOTSUPP;
	/* An importer would need pages that stay allocated. */
	if (root->managed)
		return -EOPNOTSUPP;
	/* The range must be pages; a registration may begin within one. */
	if (!PAGE_ALIGNED(part->bo->base + part->offset) ||
	    !PAGE_ALIGNED(part->length))
		return -EINVAL;
	/* Importing drivers can write, even through a read-only descriptor. */
	if (root->pin && gpumem_pin_readonly(root->pin))
		return -EACCES;
	return 0;
}

static struct gpumem_dmabuf *gpumem_dmabuf_new(struct gpumem_client *client,
					       const struct gpumem_part *parts,
					       unsigned int n)
{
	struct gpumem_dmabuf *buf;
	unsigned int i;
	u64 length = 0;
	int ret;

	for (i = 0; i < n; i++) {
		ret = gpumem_dmabuf_check(&parts[i]);
		if (ret)
			return ERR_PTR(ret);
		length += parts[i].length;
		cond_resched();
	}
	/*
	 * All parts are memory of this machine.  A longer range has some of it
	 * more than once, which would let a client with little memory make
	 * importers allocate and loop for any length.
	 */
	if (length >> PAGE_SHIFT > totalram_pages())
		return ERR_PTR(-EOVERFLOW);
	buf = gpumem_dmabuf_alloc(client, parts[0].bo->dev, n, length);
	if (IS_ERR(buf))
		return buf;
	length = 0;
	for (i = 0; i < n; i++) {
		ret = gpumem_dmabuf_enter(buf, i, &parts[i], length);
		if (ret) {
			gpumem_dmabuf_free_parts(buf, i);
			gpumem_dmabuf_free_head(buf);
			return ERR_PTR(ret);
		}
		length += parts[i].length;
		cond_resched();
	}
	return buf;
}

static struct dma_buf *gpumem_dmabuf_create(struct gpumem_client *client,
					    const struct gpumem_part *parts,
					    unsigned int n, bool readonly)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);
	struct gpumem_dmabuf *buf;
	struct dma_buf *dmabuf;

	info.resv = n == 1 ? gpumem_resv_of_root(gpumem_bo_root(parts->bo)) :
			     gpumem_resv_of_client(client);
	if (!info.resv)
		return ERR_PTR(-ENOMEM);
	buf = gpumem_dmabuf_new(client, parts, n);
	if (IS_ERR(buf))
		return ERR_CAST(buf);
	info.ops = &gpumem_dmabuf_ops;
	info.size = buf->length;
	info.flags = readonly ? O_RDONLY : O_RDWR;
	info.priv = buf;
	dmabuf = dma_buf_export(&info);
	if (IS_ERR(dmabuf))
		gpumem_dmabuf_free(buf);
	return dmabuf;
}

/*
 * Make a descriptor of a DMA-buf of some parts.  Store it in *@fd, which is in
 * the command, and answer the caller.
 */
static int gpumem_dmabuf_respond(struct gpumem_ucmd *ucmd, size_t cmd_len,
				 const struct gpumem_part *parts,
				 unsigned int n, u32 flags, s32 *fd)
{
	struct dma_buf *dmabuf;
	int ret;

	dmabuf = gpumem_dmabuf_create(ucmd->client, parts, n,
				      flags & GPUMEM_BO_EXPORT_RDONLY);
	if (IS_ERR(dmabuf))
		return PTR_ERR(dmabuf);
	ret = get_unused_fd_flags(flags & GPUMEM_BO_EXPORT_CLOEXEC ?
				  O_CLOEXEC : 0);
	if (ret < 0)
		goto err_put;
	*fd = ret;
	ret = gpumem_ucmd_respond(ucmd, cmd_len);
	if (ret)
		goto err_fd;
	fd_install(*fd, dmabuf->file);
	return 0;

err_fd:
	put_unused_fd(*fd);
err_put:
	dma_buf_put(dmabuf);
	return ret;
}

int gpumem_ioctl_bo_export(struct gpumem_ucmd *ucmd)
{
	struct gpumem_bo_export *cmd = ucmd->cmd;
	struct gpumem_part part = {
		.offset = cmd->offset,
		.length = cmd->length,
	};
	int ret;

	if (cmd->flags & ~(GPUMEM_BO_EXPORT_CLOEXEC | GPUMEM_BO_EXPORT_RDONLY |
			   GPUMEM_BO_EXPORT_HANDLE))
		return -EOPNOTSUPP;
	if (!cmd->length || !PAGE_ALIGNED(cmd->length))
		return -EINVAL;
	part.bo = gpumem_bo_get(ucmd->client, cmd->id);
	if (!part.bo)
		return -ENOENT;
	if (cmd->flags & GPUMEM_BO_EXPORT_HANDLE)
		ret = gpumem_handle_export(ucmd, part.bo);
	else
		ret = gpumem_dmabuf_check(&part);
	if (ret || cmd->flags & GPUMEM_BO_EXPORT_HANDLE)
		goto out_put;
	if (cmd->offset > part.bo->length ||
	    cmd->length > part.bo->length - cmd->offset)
		ret = -EOVERFLOW;
	else
		ret = gpumem_dmabuf_respond(ucmd, sizeof(*cmd), &part, 1,
					    cmd->flags, &cmd->fd);
out_put:
	gpumem_object_put(&part.bo->obj);
	return ret;
}

int gpumem_ioctl_vm_export(struct gpumem_ucmd *ucmd)
{
	struct gpumem_vm_export *cmd = ucmd->cmd;
	struct gpumem_part *parts;
	struct gpumem_vm *vm;
	int n, ret;

	if (cmd->flags & ~(GPUMEM_BO_EXPORT_CLOEXEC | GPUMEM_BO_EXPORT_RDONLY))
		return -EOPNOTSUPP;
	if (!PAGE_ALIGNED(cmd->addr | cmd->length))
		return -EINVAL;
	vm = gpumem_vm_get(ucmd->client, cmd->vm);
	if (!vm)
		return -ENOENT;
	n = gpumem_vm_parts(vm, cmd->addr, cmd->length, &parts);
	gpumem_object_put(&vm->obj);
	if (n < 0)
		return n;
	/* An unmap from here on does not change what is exported. */
	gpumem_delay(vm_export);
	ret = gpumem_dmabuf_respond(ucmd, sizeof(*cmd), parts, n, cmd->flags,
				    &cmd->fd);
	gpumem_vm_parts_free(parts, n);
	return ret;
}

/*
 * Create a view of the root behind @buf, which has one part.  Store the index
 * that the root's device has in @client in *@device.
 */
static struct gpumem_bo *gpumem_dmabuf_view(struct gpumem_client *client,
					    struct gpumem_dmabuf *buf,
					    u32 *device)
{
	int ret = gpumem_client_device_index(client, buf->dev);

	if (ret < 0)
		return ERR_PTR(ret);
	*device = ret;
	return gpumem_bo_view(client, buf->part[0].window->root,
			      buf->part[0].base, buf->length);
}

/**
 * gpumem_dmabuf_is_own - did gpumem make a DMA-buf?
 * @dmabuf: DMA-buf
 *
 * Return: true if it did.
 */
bool gpumem_dmabuf_is_own(struct dma_buf *dmabuf)
{
	return dmabuf->ops == &gpumem_dmabuf_ops;
}

/**
 * gpumem_dmabuf_address - find the kernel's address of an offset
 * @dmabuf: DMA-buf that gpumem made; its caller's reference keeps the pages
 * @offset: offset in @dmabuf
 * @len: in: bytes wanted; out: bytes that are contiguous at the address
 *
 * Return: the address, or an ERR_PTR: -EIO if the memory failed.
 */
void *gpumem_dmabuf_address(struct dma_buf *dmabuf, u64 offset, size_t *len)
{
	struct gpumem_dmabuf *buf = dmabuf->priv;

	return gpumem_dmabuf_addr(buf, gpumem_dmabuf_find(buf, offset), offset,
				  len);
}

/* Is it a DMA-buf that gpumem made of one part? */
static bool gpumem_dmabuf_single(struct dma_buf *dmabuf)
{
	struct gpumem_dmabuf *buf = dmabuf->priv;

	return gpumem_dmabuf_is_own(dmabuf) && buf->nparts == 1;
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
	else if (gpumem_dmabuf_single(dmabuf))
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
