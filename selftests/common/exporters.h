/* SPDX-License-Identifier: GPL-2.0 */
/*
 * DMA-bufs that other drivers make, each of MIB bytes of zeros: a descriptor, or a negative errno;
 * -ENOENT if the kernel has no such driver.
 */
#ifndef GPUMEM_SELFTESTS_EXPORTERS_H
#define GPUMEM_SELFTESTS_EXPORTERS_H

#include <fcntl.h>
#include <linux/dma-buf.h>
#include <linux/dma-heap.h>
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "common/util.h"
#include "common/v4l2.h"
#include "common/vgem.h"

struct drm_dumb {
	__u32 height, width, bpp, flags, handle, pitch;
	__u64 size;
};

#define DRM_DUMB	_IOWR('d', 0xb2, struct drm_dumb)

static inline int make_udmabuf(void)
{
	int dev = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), fd;
	struct udmabuf_create create = { .size = MIB, .flags = UDMABUF_FLAGS_CLOEXEC };
	struct dma_buf_sync begin = { .flags = DMA_BUF_SYNC_START | DMA_BUF_SYNC_RW };
	struct dma_buf_sync end = { .flags = DMA_BUF_SYNC_END | DMA_BUF_SYNC_RW };

	if (dev < 0)
		return -errno;
	create.memfd = memfd_create("udmabuf", MFD_ALLOW_SEALING);
	if (ftruncate(create.memfd, MIB) || fcntl(create.memfd, F_ADD_SEALS, F_SEAL_SHRINK))
		return -errno;
	fd = ioctl(dev, UDMABUF_CREATE, &create);
	fd = fd < 0 ? -errno : fd;
	close(create.memfd);
	close(dev);
	/*
	 * udmabuf keeps the DMA mapping that the first access made, and the kernel's DMA debugging
	 * reports a later access in another direction.  So the first access is in both directions.
	 */
	if (fd >= 0 && (ioctl(fd, DMA_BUF_IOCTL_SYNC, &begin) ||
			ioctl(fd, DMA_BUF_IOCTL_SYNC, &end)))
		return -errno;
	return fd;
}

static inline int make_heap_flags(__u32 flags)
{
	int dev = open("/dev/dma_heap/system", O_RDWR | O_CLOEXEC), ret;
	struct dma_heap_allocation_data data = { .len = MIB, .fd_flags = flags | O_CLOEXEC };

	if (dev < 0)
		return -errno;
	ret = ioctl(dev, DMA_HEAP_IOCTL_ALLOC, &data) ? -errno : (int)data.fd;
	close(dev);
	return ret;
}

static inline int make_heap(void)
{
	return make_heap_flags(O_RDWR);
}

/* A square of pixels of four bytes.  The node may be closed: the DMA-buf keeps all it needs. */
static inline int make_vgem_of(unsigned int side)
{
	struct drm_dumb dumb = { .height = side, .width = side, .bpp = 32 };
	struct drm_prime prime = { .flags = O_CLOEXEC | O_RDWR };
	int card = vgem_open(), ret = 0;

	if (card < 0)
		return -ENOENT;
	if (ioctl(card, DRM_DUMB, &dumb))
		ret = -errno;
	prime.handle = dumb.handle;
	if (!ret && ioctl(card, DRM_TO_FD, &prime))
		ret = -errno;
	close(card);
	return ret ? ret : prime.fd;
}

static inline int make_vgem(void)
{
	return make_vgem_of(512);
}

/* The node, and with it the buffer queue, may be closed: the DMA-buf keeps the buffer's memory.  */
static inline int make_v4l2(void)
{
	int video = vivid_open(), ret;

	if (video < 0)
		return -ENOENT;
	ret = vivid_buffers(video, 1);
	if (!ret)
		ret = vivid_export(video, 0);
	close(video);
	return ret;
}

#endif
