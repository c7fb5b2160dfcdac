/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The operations of t_fail_nth: every call of the kernel interface, its setup and its undo. Each is
 * a function of an environment, struct env, that returns 0 or a negative errno.  The test decides
 * whether an error is permitted, and checks what a failed call left.
 *
 * This header has struct env, and the operations on devices, memory, descriptors, tokens and pools;
 * nth_work_ops.h those on address spaces and what orders work; nth_process_ops.h the others.
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
	__u32 vm, bo, stream_timeline, id, id2, handle, pool, fence;
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

static int alloc_managed(struct env *e)
{
	return gp_managed_alloc(e->fd, 64 * MIB, &e->id);
}

static int advise(struct env *e)
{
	return gp_bo_advise(e->fd, e->id, 0, 64 * MIB, GPUMEM_ADVICE_PREFERRED,
			    GPUMEM_ADVICE_HOST);
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

#endif
