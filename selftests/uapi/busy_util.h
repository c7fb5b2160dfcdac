/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Work of an engine that waits for a fence of another driver.
 */
#ifndef BUSY_UTIL_H
#define BUSY_UTIL_H

#include "common/vgem.h"
#include "managed_util.h"

/* Bytes that all users have pinned. */
static inline long long pinned(void)
{
	return number_of("/sys/class/gpumem/pinned", "");
}

/* A buffer that a reader or writer of another driver keeps busy. */
struct busy {
	int card, dmabuf;
	__u32 bo, handle, fence;
};

static inline int busy_make(struct busy *b, int fd, __u32 vm)
{
	b->card = vgem_open();
	if (b->card < 0)
		return -ENODEV;
	if (gp_bo_alloc(fd, BLOCK, &b->bo) || gp_vm_map(fd, vm, b->bo, 0, BUFFER, BLOCK, 1, 1))
		return -EIO;
	b->dmabuf = gp_bo_export(fd, b->bo, 0, BLOCK, 0);
	return b->dmabuf < 0 ? b->dmabuf : vgem_import(b->card, b->dmabuf, &b->handle);
}

/* Keep the buffer busy until the fence is signalled. */
static inline int busy_begin(struct busy *b)
{
	return vgem_attach(b->card, b->handle, true, &b->fence);
}

/* Ends the import and the export; the fence stays. */
static inline int busy_end(struct busy *b)
{
	return vgem_close(b->card, b->handle) || close(b->dmabuf) ? -errno : 0;
}

#endif
