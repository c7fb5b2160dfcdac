/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The operations of t_fail_nth: every call of the kernel interface, its setup and its undo. Each is
 * a function of an environment, struct env, that returns 0 or a negative errno.  The test decides
 * whether an error is permitted, and checks what a failed call left.
 */
#ifndef NTH_OPS_H
#define NTH_OPS_H

#include <sys/ioctl.h>
#include <sys/mman.h>
#include <linux/dma-buf.h>

#include "common/exporters.h"
#include "common/pool_util.h"

#define ADDR	0x100000000ULL
#define STRIDE	MIB
#define MAPS	40		/* more than one node of an address space's tree holds */
#define FREE	(ADDR + 20 * STRIDE + 512 * KIB)

struct env {
	int fd, client, other, dmabuf, card, exported;
	__u32 vm, bo, stream_timeline, id, id2, handle, pool;
	struct stream stream;
	__u8 name[GPUMEM_TOKEN_SIZE];
	__u64 value, chunk;
	char *mem;
	size_t bytes;
};

typedef int (*step)(struct env *e);

/* --- operations */

static int info(struct env *e)
{
	struct gpumem_info i;

	return gp_info(e->fd, 0, &i);
}

static int stats(struct env *e)
{
	struct gpumem_stats s;

	return gp_stats(e->fd, &s);
}

static int client_open(struct env *e)
{
	e->client = gp_open(0);
	return e->client < 0 ? e->client : 0;
}

static int client_close(struct env *e)
{
	return close(e->client) ? -errno : 0;
}

static int attach_setup(struct env *e)
{
	e->other = gp_open(1);
	return e->other < 0 ? e->other : client_open(e);
}

static int attach(struct env *e)
{
	return gp_attach(e->client, e->other, &e->id);
}

static int not_attached(struct env *e)
{
	struct gpumem_info i;

	return gp_info(e->client, 1, &i) == -EACCES ? 0 : -EEXIST;
}

static int attach_undo(struct env *e)
{
	close(e->other);
	return e->id == 1 ? client_close(e) : -EINVAL;
}

static int alloc_4k(struct env *e)
{
	return gp_bo_alloc(e->fd, 4 * KIB, &e->id);
}

static int alloc_64k(struct env *e)
{
	return gp_bo_alloc(e->fd, 64 * KIB, &e->id);
}

static int alloc_2m(struct env *e)
{
	return gp_bo_alloc(e->fd, 2 * MIB, &e->id);
}

static int alloc_host(struct env *e)
{
	struct gpumem_bo_alloc a = {
		.size = sizeof(a), .flags = GPUMEM_BO_ALLOC_HOST, .length = 16 * KIB,
	};
	int ret = gp_ioctl(e->fd, GPUMEM_BO_ALLOC, &a);

	e->id = a.id;
	return ret;
}

static int destroy(struct env *e)
{
	return gp_destroy(e->fd, e->id);
}

static int bo_info(struct env *e)
{
	struct gpumem_bo_info i;

	return gp_bo_info(e->fd, e->bo, &i);
}

static int token(struct env *e)
{
	return gp_token_create(e->fd, e->bo, 0, 4 * KIB, 0, &e->id, e->name);
}

static int retire(struct env *e)
{
	__u32 live;

	return gp_bo_retire(e->fd, e->bo, 0, 4 * KIB, 0, &live);
}

static int export(struct env *e)
{
	e->dmabuf = gp_bo_export(e->fd, e->bo, 0, 16 * KIB, GPUMEM_BO_EXPORT_CLOEXEC);
	return e->dmabuf < 0 ? e->dmabuf : 0;
}

static int close_dmabuf(struct env *e)
{
	return close(e->dmabuf) ? -errno : 0;
}

/* A DMA-buf of two mappings of the buffer object. */
static int export_setup(struct env *e)
{
	int ret = gp_vm_map(e->fd, e->vm, e->bo, 4 * KIB, FREE, 4 * KIB, 0, 0);

	return ret ? ret : gp_vm_map(e->fd, e->vm, e->bo, 0, FREE + 4 * KIB, 4 * KIB, 0, 0);
}

static int export_range(struct env *e)
{
	e->dmabuf = gp_vm_export(e->fd, e->vm, FREE, 8 * KIB, GPUMEM_BO_EXPORT_CLOEXEC);
	return e->dmabuf < 0 ? e->dmabuf : 0;
}

static int export_undo(struct env *e)
{
	int ret = close_dmabuf(e);

	return ret ? ret : gp_vm_unmap(e->fd, e->vm, FREE, 8 * KIB, NULL);
}

static int import(struct env *e)
{
	struct gpumem_bo_import i;
	int ret = gp_bo_import(e->fd, e->dmabuf, &i);

	e->id = i.id;
	return ret;
}

static int import_undo(struct env *e)
{
	int ret = destroy(e);

	return ret ? ret : close_dmabuf(e);
}

/* Memory handles: of whole buffer objects. */
static int handle_export(struct env *e)
{
	e->dmabuf = gp_bo_export(e->fd, e->bo, 0, 64 * KIB,
				 GPUMEM_BO_EXPORT_CLOEXEC | GPUMEM_BO_EXPORT_HANDLE);
	return e->dmabuf < 0 ? e->dmabuf : 0;
}

static int handle_import(struct env *e)
{
	struct gpumem_bo_import i = {
		.size = sizeof(i), .fd = e->dmabuf, .flags = GPUMEM_BO_IMPORT_HANDLE,
	};
	int ret = gp_ioctl(e->fd, GPUMEM_BO_IMPORT, &i);

	e->id = i.id;
	return ret;
}

static int handle_imported(struct env *e)
{
	int ret = handle_export(e);

	return ret ? ret : handle_import(e);
}

static int token_setup(struct env *e)
{
	int ret = token(e);

	e->id2 = e->id;
	return ret;
}

static int token_open(struct env *e)
{
	struct gpumem_token_open o;
	int ret = gp_token_open(e->fd, e->name, &o);

	e->id = o.id;
	return ret;
}

static int token_undo(struct env *e)
{
	int ret = destroy(e);

	return ret ? ret : gp_destroy(e->fd, e->id2);
}

/* --- pools */

static int pool_create(struct env *e)
{
	return gp_pool_create(e->fd, 0, 0, MIB, "nth", &e->id);
}

static int pool_setup(struct env *e)
{
	return gp_pool_create(e->fd, 0, 0, MIB, "nth", &e->pool);
}

static int pool_undo(struct env *e)
{
	return gp_destroy(e->fd, e->pool);
}

static int alloc_chunk(struct env *e)
{
	return gp_pool_chunk(e->fd, e->pool, 16 * KIB, &e->id, &e->chunk);
}

static int host_pool_setup(struct env *e)
{
	return gp_pool_create(e->fd, 0, GPUMEM_POOL_HOST, 0, "", &e->pool);
}

static int alloc_host_chunk(struct env *e)
{
	return gp_pool_chunk_on(e->fd, 0, e->pool, GPUMEM_BO_ALLOC_HOST, 16 * KIB, &e->id,
				&e->chunk);
}

static int chunk_setup(struct env *e)
{
	int ret = pool_setup(e);

	return ret ? ret : alloc_chunk(e);
}

static int chunk_undo(struct env *e)
{
	int ret = destroy(e);

	return ret ? ret : pool_undo(e);
}

static int chunk_left(struct env *e)
{
	struct gpumem_pool_info i;
	int ret = gp_pool_info(e->fd, e->pool, 0, &i);

	return ret ? ret : i.reserved_bytes || i.chunks ? -EEXIST : 0;
}

static int open_setup(struct env *e)
{
	int ret = chunk_setup(e);

	e->id2 = e->id;
	return ret;
}

static int open_chunk(struct env *e)
{
	struct gpumem_pool_chunk_open o;
	int ret = gp_chunk_open(e->fd, e->pool, e->chunk, &o);

	e->id = o.id;
	return ret;
}

static int open_undo(struct env *e)
{
	int ret = chunk_undo(e);

	return ret ? ret : gp_destroy(e->fd, e->id2);
}

static int pool_set(struct env *e)
{
	return gp_pool_set(e->fd, e->pool, 1, 1);
}

static int pool_info(struct env *e)
{
	struct gpumem_pool_info i;

	return gp_pool_info(e->fd, e->pool, GPUMEM_POOL_INFO_RESET_USED, &i);
}

static int pool_export(struct env *e)
{
	e->exported = gp_pool_export(e->fd, e->pool, GPUMEM_POOL_EXPORT_CLOEXEC);
	return e->exported < 0 ? e->exported : 0;
}

static int pool_export_undo(struct env *e)
{
	return close(e->exported) ? -errno : pool_undo(e);
}

static int pool_exported(struct env *e)
{
	int ret = pool_setup(e);

	return ret ? ret : pool_export(e);
}

static int pool_import(struct env *e)
{
	struct gpumem_pool_import i;
	int ret = gp_pool_import(e->fd, e->exported, &i);

	e->id = i.id;
	return ret;
}

static int pool_import_undo(struct env *e)
{
	int ret = destroy(e);

	return ret ? ret : pool_export_undo(e);
}

static int channel_setup(struct env *e)
{
	e->other = gp_channel_open(0);
	return e->other < 0 ? e->other : client_open(e);
}

static int channel(struct env *e)
{
	return gp_channel_attach(e->client, e->other, NULL);
}

/* Makes a pool in a client that holds a channel.  */
static int fabric_setup(struct env *e)
{
	int ret = channel_setup(e);

	ret = ret ? ret : channel(e);
	return ret ? ret : gp_pool_create(e->client, 0, 0, 0, "", &e->pool);
}

static int fabric(struct env *e)
{
	return gp_pool_export_fabric(e->client, e->pool, e->name);
}

/* After a failed call the client holds no channel: a fabric export is still refused with EPERM.  */
static int channel_left(struct env *e)
{
	struct gpumem_pool_export x = {
		.size = sizeof(x), .flags = GPUMEM_POOL_EXPORT_FABRIC,
	};
	__u32 id;
	int ret = gp_pool_create(e->client, 0, 0, 0, "", &id);

	x.id = id;
	ret = ret ? ret : gp_ioctl(e->client, GPUMEM_POOL_EXPORT, &x);
	gp_destroy(e->client, id);
	return ret == -EPERM ? 0 : -EEXIST;
}

static int channel_undo(struct env *e)
{
	close(e->other);
	return client_close(e);
}

static int vm_create(struct env *e)
{
	return gp_vm_create(e->fd, &e->id);
}

static int vm_map(struct env *e)
{
	return gp_vm_map(e->fd, e->vm, e->bo, 0, FREE, 4 * KIB, 1, 1);
}

static int vm_unmap(struct env *e)
{
	__u64 bytes = 0;
	int ret = gp_vm_unmap(e->fd, e->vm, FREE, 4 * KIB, &bytes);

	return !ret && bytes != 4 * KIB ? -EBADMSG : ret;
}

static int vm_unmap_half(struct env *e)
{
	__u64 bytes = 0;
	int ret = gp_vm_unmap(e->fd, e->vm, ADDR, MAPS / 2 * STRIDE, &bytes);

	return !ret && bytes != MAPS / 2 * 4 * KIB ? -EBADMSG : ret;
}

static int map_from(struct env *e, __u32 vm, unsigned int n)
{
	int ret = 0;

	for (unsigned int i = 0; !ret && i < n; i++)
		ret = gp_vm_map(e->fd, vm, e->bo, 0, ADDR + i * STRIDE, 4 * KIB, 1, 1);
	return ret;
}

static int vm_remap_half(struct env *e)
{
	return map_from(e, e->vm, MAPS / 2);
}

static int vm_full(struct env *e)
{
	int ret = vm_create(e);

	return ret ? ret : map_from(e, e->id, MAPS);
}

static int vm_access(struct env *e)
{
	return gp_vm_access(e->fd, e->vm, ADDR, 4 * KIB, 0, GPUMEM_ACCESS_READ);
}

static int vm_access_undo(struct env *e)
{
	return gp_vm_access(e->fd, e->vm, ADDR, 4 * KIB, 0,
			    GPUMEM_ACCESS_READ | GPUMEM_ACCESS_WRITE);
}

#define TILES_ADDR	(ADDR + 64 * MIB)

static int vm_sparse_map(struct env *e)
{
	return gp_vm_map_sparse(e->fd, e->vm, TILES_ADDR, 32 * MIB, 1, 1);
}

static int vm_sparse_unmap(struct env *e)
{
	return gp_vm_unmap(e->fd, e->vm, TILES_ADDR, 32 * MIB, NULL);
}

static int vm_sparse(struct env *e)
{
	int ret = vm_sparse_map(e);

	return ret ? ret : gp_bo_alloc(e->fd, GPUMEM_TILE_SIZE, &e->id);
}

static int vm_bind(struct env *e)
{
	/* The tiles are in two tables. */
	return gp_vm_bind(e->fd, e->vm, e->id, 0, 0, TILES_ADDR + 15 * MIB, 2 * MIB, 0);
}

static int vm_sparse_undo(struct env *e)
{
	int ret = vm_sparse_unmap(e);

	return ret ? ret : gp_destroy(e->fd, e->id);
}

static int stream_create(struct env *e)
{
	return gp_stream_create(e->fd, e->vm, 0, 16, &e->id, &e->id2);
}

static int stream_destroy(struct env *e)
{
	return gp_destroy(e->fd, e->id);
}

static int stream_undo(struct env *e)
{
	int ret = stream_destroy(e);

	return ret ? ret : gp_destroy(e->fd, e->id2);
}

static int stream_timeline_undo(struct env *e)
{
	return gp_destroy(e->fd, e->id2);
}

static int doorbell(struct env *e)
{
	return gp_doorbell(e->fd, e->stream.id);
}

/* The doorbell for an entry may fail: the entry stays, and the next doorbell executes it. */
static int submit_setup(struct env *e)
{
	struct gpumem_sqe sqe = sqe_fill(ADDR, 1, 7, 4096);

	stream_put(&e->stream, &sqe);
	__atomic_store_n(&e->stream.ring->tail, e->stream.tail, __ATOMIC_RELEASE);
	return 0;
}

static int submit_undo(struct env *e)
{
	return stream_sync(&e->stream);
}

static int timeline_create(struct env *e)
{
	return gp_timeline_create(e->fd, 5, &e->id);
}

static int timeline_signal(struct env *e)
{
	return gp_timeline_signal(e->fd, e->id, 7);
}

static int timeline_unchanged(struct env *e)
{
	struct gpumem_timeline_wait w;

	return gp_timeline_wait(e->fd, e->id, 0, 0, &w) || w.reached != 5 ? -EEXIST : 0;
}

static int timeline_export(struct env *e)
{
	e->exported = gp_timeline_export(e->fd, e->id, GPUMEM_TIMELINE_EXPORT_CLOEXEC);
	return e->exported < 0 ? e->exported : 0;
}

static int timeline_export_undo(struct env *e)
{
	return close(e->exported) ? -errno : gp_destroy(e->fd, e->id);
}

static int timeline_exported(struct env *e)
{
	int ret = timeline_create(e);

	return ret ? ret : timeline_export(e);
}

static int timeline_import(struct env *e)
{
	return gp_timeline_import(e->fd, e->exported, &e->id2, NULL);
}

static int timeline_import_undo(struct env *e)
{
	int ret = gp_destroy(e->fd, e->id2);

	return ret ? ret : timeline_export_undo(e);
}

static int timeline_imported(struct env *e)
{
	int ret = timeline_exported(e);

	return ret ? ret : timeline_import(e);
}

static int timeline_import_signal(struct env *e)
{
	return gp_timeline_signal(e->fd, e->id2, 7);
}

static int timeline_poll(struct env *e)
{
	int ret = gp_timeline_wait(e->fd, e->id, 6, 0, NULL);

	return ret == -ETIMEDOUT ? 0 : ret ? ret : -EBADMSG;
}

static int timeline_sleep(struct env *e)
{
	int ret = gp_timeline_wait(e->fd, e->id, 6, mono_ns() + NSEC / 1000, NULL);

	return ret == -ETIMEDOUT ? 0 : ret ? ret : -EBADMSG;
}

static int event_create(struct env *e)
{
	return gp_event_create(e->fd, &e->id2, e->name);
}

static int event_undo(struct env *e)
{
	return gp_destroy(e->fd, e->id2);
}

static int event_open(struct env *e)
{
	return gp_event_open(e->fd, e->name, &e->id, NULL);
}

static int event_open_undo(struct env *e)
{
	int ret = destroy(e);

	return ret ? ret : event_undo(e);
}

/* The timeline does not reach the recorded value before the client ends. */
static int event_record(struct env *e)
{
	return gp_event_record(e->fd, e->id2, e->stream.timeline, ~0ULL);
}

static int event_complete(struct env *e)
{
	struct gpumem_event_get get;
	int ret = gp_event_get(e->fd, e->id2, GPUMEM_EVENT_GET_QUERY, &get);

	return ret ? ret : get.state == GPUMEM_EVENT_COMPLETE ? 0 : -EEXIST;
}

static int event_pending(struct env *e)
{
	int ret = event_create(e);

	return ret ? ret : event_record(e);
}

static int event_get(struct env *e)
{
	struct gpumem_event_get get;
	int ret = gp_event_get(e->fd, e->id2, 0, &get);

	e->id = get.timeline;
	return ret ? ret : get.state == GPUMEM_EVENT_PENDING ? 0 : -EBADMSG;
}

static int event_query(struct env *e)
{
	struct gpumem_event_get get;
	int ret = gp_event_get(e->fd, e->id2, GPUMEM_EVENT_GET_QUERY, &get);

	return ret ? ret : get.state == GPUMEM_EVENT_PENDING ? 0 : -EBADMSG;
}

static int event_got(struct env *e)
{
	int ret = event_pending(e);

	return ret ? ret : event_get(e);
}

/* Waits for the timeline object that GPUMEM_EVENT_GET returned.  */
static int event_poll(struct env *e)
{
	int ret = gp_timeline_wait(e->fd, e->id, ~0ULL, 0, NULL);

	return ret == -ETIMEDOUT ? 0 : ret ? ret : -EBADMSG;
}

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
	e->dmabuf = make_vgem();
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

#endif
