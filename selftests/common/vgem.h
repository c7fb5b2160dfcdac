/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The part of the interface of the driver vgem that the tests use.  The driver imports DMA-bufs as
 * a display driver does, and attaches fences to them.  A program signals these fences; vgem signals
 * them itself after ten seconds.  DRM's headers are not always installed.
 */
#ifndef GPUMEM_SELFTESTS_VGEM_H
#define GPUMEM_SELFTESTS_VGEM_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/types.h>

struct drm_prime {
	__u32 handle, flags;
	__s32 fd;
};

struct drm_close {
	__u32 handle, pad;
};

struct drm_version {
	int major, minor, patch;
	size_t name_len;
	char *name;
	size_t date_len;
	char *date;
	size_t desc_len;
	char *desc;
};

struct vgem_fence {
	__u32 handle, flags, fence, pad;
};

#define DRM_VERSION	_IOWR('d', 0x00, struct drm_version)
#define DRM_CLOSE	_IOW('d', 0x09, struct drm_close)
#define DRM_TO_FD	_IOWR('d', 0x2d, struct drm_prime)
#define DRM_TO_HANDLE	_IOWR('d', 0x2e, struct drm_prime)
#define VGEM_ATTACH	_IOWR('d', 0x41, struct vgem_fence)
#define VGEM_SIGNAL	_IOW('d', 0x42, __u64)
#define VGEM_WRITE	1

/* A descriptor of vgem's node; -1 if the kernel has no such module. */
static inline int vgem_open(void)
{
	char path[32], name[16];
	int card;

	if (access("/sys/module/vgem", F_OK) && system("modprobe vgem 2>/dev/null"))
		return -1;
	for (int i = 0; i < 16; i++) {
		struct drm_version version = { .name = name, .name_len = sizeof(name) - 1 };

		snprintf(path, sizeof(path), "/dev/dri/card%d", i);
		card = open(path, O_RDWR | O_CLOEXEC);
		if (card < 0)
			continue;
		memset(name, 0, sizeof(name));
		if (!ioctl(card, DRM_VERSION, &version) && !strcmp(name, "vgem"))
			return card;
		close(card);
	}
	return -1;
}

/* Import: 0 or a negative errno. */
static inline int vgem_import(int card, int dmabuf, __u32 *handle)
{
	struct drm_prime prime = { .flags = O_CLOEXEC | O_RDWR, .fd = dmabuf };

	if (ioctl(card, DRM_TO_HANDLE, &prime) < 0)
		return -errno;
	*handle = prime.handle;
	return 0;
}

static inline int vgem_close(int card, __u32 handle)
{
	struct drm_close gem = { .handle = handle };

	return ioctl(card, DRM_CLOSE, &gem) < 0 ? -errno : 0;
}

/* Attaches a fence of a reader, or of a writer, that is unsignalled until vgem_signal().  */
static inline int vgem_attach(int card, __u32 handle, bool write, __u32 *fence)
{
	struct vgem_fence arg = { .handle = handle, .flags = write ? VGEM_WRITE : 0 };

	if (ioctl(card, VGEM_ATTACH, &arg) < 0)
		return -errno;
	*fence = arg.fence;
	return 0;
}

static inline int vgem_signal(int card, __u32 fence)
{
	__u32 arg[2] = { fence, 0 };

	return ioctl(card, VGEM_SIGNAL, arg) < 0 ? -errno : 0;
}

#endif
