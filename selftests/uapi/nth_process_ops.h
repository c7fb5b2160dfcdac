/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The operations of t_fail_nth: registrations, what a process does with its clients and mappings, and other drivers.
 * nth_ops.h has struct env.
 */
#ifndef NTH_PROCESS_OPS_H
#define NTH_PROCESS_OPS_H

#include "nth_work_ops.h"

static int host_setup(struct env *e)
{
	e->bytes = 16 * page_size;
	e->mem = mmap(NULL, e->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return e->mem == MAP_FAILED ? -errno : 0;
}

/* Touches the pages backwards, so that they are not contiguous and every page is an extent.  */
static int host_touched(struct env *e)
{
	int ret = host_setup(e);

	for (size_t i = e->bytes; !ret && i; i -= page_size)
		e->mem[i - 1] = 1;
	return ret;
}

static int pin_as(struct env *e, __u32 flags)
{
	struct gpumem_bo_pin p = {
		.size = sizeof(p), .flags = flags, .addr = (uintptr_t)e->mem + 100,
		.length = e->bytes - 200,
	};
	int ret = gp_ioctl(e->fd, GPUMEM_BO_PIN, &p);

	e->id = p.id;
	return ret;
}

static int pin(struct env *e)
{
	return pin_as(e, 0);
}

static int pin_rdonly(struct env *e)
{
	return pin_as(e, GPUMEM_BO_PIN_RDONLY);
}

static int pinned_setup(struct env *e)
{
	int ret = host_touched(e);

	return ret ? ret : pin(e);
}

static int unmap_host(struct env *e)
{
	return munmap(e->mem, e->bytes) ? -errno : 0;
}

static int host_undo(struct env *e)
{
	int ret = destroy(e);

	return ret ? ret : unmap_host(e);
}

/* --- open, close, mmap and what a process does with memory */

/*
 * A client with one object of each kind, and with memory that a mapping and a DMA-buf hold after
 * its close.
 */
static int full_client(struct env *e)
{
	__u32 bo, vm, stream, timeline, id;
	int ret = client_open(e);

	ret = ret ? ret : gp_bo_alloc(e->client, 16 * KIB, &bo);
	ret = ret ? ret : gp_vm_create(e->client, &vm);
	ret = ret ? ret : gp_vm_map(e->client, vm, bo, 0, ADDR, 16 * KIB, 1, 1);
	ret = ret ? ret : gp_stream_create(e->client, vm, 0, 16, &stream, &timeline);
	ret = ret ? ret : gp_token_create(e->client, bo, 0, 4 * KIB, 0, &id, e->name);
	if (ret)
		return ret;
	e->dmabuf = gp_bo_export(e->client, bo, 0, 4 * KIB, 0);
	e->bytes = 16 * KIB;
	e->mem = gp_map(e->client, bo, 0, e->bytes, PROT_READ | PROT_WRITE);
	return e->dmabuf < 0 || !e->mem ? -EBADMSG : 0;
}

static int full_undo(struct env *e)
{
	close(e->dmabuf);
	return munmap(e->mem, e->bytes) ? -errno : 0;
}

static int do_mmap(struct env *e, __u32 id, size_t bytes, int prot)
{
	e->bytes = bytes;
	e->mem = gp_map(e->fd, id, 0, bytes, prot);
	return e->mem ? 0 : -errno;
}

static int mmap_bo(struct env *e)
{
	return do_mmap(e, e->bo, 64 * KIB, PROT_READ | PROT_WRITE);
}

static int mmap_ring(struct env *e)
{
	return do_mmap(e, e->stream.id, e->stream.ring_size, PROT_READ | PROT_WRITE);
}

static int mmap_timeline(struct env *e)
{
	return do_mmap(e, e->stream.timeline, page_size, PROT_READ);
}

/* Maps the cache page, which the first mapping allocates.  */
static int mmap_cache(struct env *e)
{
	return do_mmap(e, 0, page_size, PROT_READ | PROT_WRITE);
}

static int mmap_view(struct env *e)
{
	return do_mmap(e, e->id, 16 * KIB, PROT_READ | PROT_WRITE);
}

static int mmap_undo(struct env *e)
{
	return munmap(e->mem, e->bytes) ? -errno : 0;
}

static int view_setup(struct env *e)
{
	int ret = export(e);

	return ret ? ret : import(e);
}

static int mmap_view_undo(struct env *e)
{
	int ret = mmap_undo(e);

	return ret ? ret : import_undo(e);
}

static int mmap_dmabuf(struct env *e)
{
	e->bytes = 16 * KIB;
	e->mem = mmap(NULL, e->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, e->dmabuf, 0);
	return e->mem == MAP_FAILED ? -errno : 0;
}

static int mmap_dmabuf_undo(struct env *e)
{
	int ret = mmap_undo(e);

	return ret ? ret : close_dmabuf(e);
}

/* Maps far from all other mappings, so that the kernel allocates page tables.  */
static int mmap_far(struct env *e)
{
	e->bytes = 64 * KIB;
	e->mem = mmap((void *)0x200000000000, e->bytes, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_FIXED_NOREPLACE, e->fd, GPUMEM_MMAP_OFFSET(e->bo));
	return e->mem == MAP_FAILED ? -errno : 0;
}

static int touch_all(struct env *e)
{
	for (size_t i = 0; i < e->bytes; i += page_size)
		e->mem[i] = 1;
	return 0;
}

static int sync_cpu(struct env *e)
{
	struct dma_buf_sync s = { .flags = DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW };

	if (ioctl(e->dmabuf, DMA_BUF_IOCTL_SYNC, &s) < 0)
		return -errno;
	s.flags = DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW;
	return ioctl(e->dmabuf, DMA_BUF_IOCTL_SYNC, &s) < 0 ? -errno : 0;
}

static int fdinfo_setup(struct env *e)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", e->fd);
	e->other = open(path, O_RDONLY | O_CLOEXEC);
	return e->other < 0 ? -errno : 0;
}

static int fdinfo(struct env *e)
{
	char text[2048];

	return pread(e->other, text, sizeof(text), 0) > 0 ? 0 : -errno;
}

static int fdinfo_undo(struct env *e)
{
	return close(e->other) ? -errno : 0;
}

/* --- a DMA-buf of another driver */

static int foreign_make(struct env *e)
{
	e->dmabuf = make_udmabuf();
	return e->dmabuf < 0 ? e->dmabuf : 0;
}

/* The import has to pin the memory of vgem, unlike that of udmabuf.  */
static int foreign_drm(struct env *e)
{
	/* Each page is an allocation that can fail. */
	e->dmabuf = make_vgem_of(128);
	return e->dmabuf < 0 ? e->dmabuf : 0;
}

static int foreign_setup(struct env *e)
{
	int ret = foreign_make(e);

	return ret ? ret : import(e);
}

/* --- another driver takes a DMA-buf */

static int drm_import(struct env *e)
{
	return vgem_import(e->card, e->dmabuf, &e->handle);
}

static int drm_undo(struct env *e)
{
	int ret = vgem_close(e->card, e->handle);

	return ret ? ret : close_dmabuf(e);
}

/* --- a sync_file, with a fence of vgem, as a timeline */

static int fence_setup(struct env *e)
{
	struct dma_buf_export_sync_file sync = { .flags = DMA_BUF_SYNC_READ };
	int ret = export(e);

	ret = ret ? ret : drm_import(e);
	ret = ret ? ret : vgem_attach(e->card, e->handle, true, &e->fence);
	if (!ret && ioctl(e->dmabuf, DMA_BUF_IOCTL_EXPORT_SYNC_FILE, &sync))
		ret = -errno;
	e->exported = sync.fd;
	return ret;
}

static int fence_import(struct env *e)
{
	return gp_timeline_import(e->fd, e->exported, &e->id2, NULL);
}

/* The timeline, if there is one, is raised by the fence. */
static int fence_undo(struct env *e)
{
	int ret = vgem_signal(e->card, e->fence);

	ret = ret ? ret : gp_timeline_wait(e->fd, e->id2, 1, mono_ns() + NSEC, NULL);
	ret = ret ? ret : gp_destroy(e->fd, e->id2);
	if (close(e->exported))
		return -errno;
	return ret ? ret : drm_undo(e);
}

#endif
