/* SPDX-License-Identifier: GPL-2.0 */
/*
 * vivid, the kernel's test camera: a V4L2 device whose buffers are memory that can be exported as
 * DMA-bufs (VIDIOC_EXPBUF).  The buffers belong to the queue of an open descriptor.  A DMA-buf
 * keeps its buffer's memory after the queue is closed.
 */
#ifndef GPUMEM_SELFTESTS_V4L2_H
#define GPUMEM_SELFTESTS_V4L2_H

#include <errno.h>
#include <fcntl.h>
#include <linux/videodev2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/util.h"

/* A descriptor of vivid's capturing node; -1 if the kernel has no such module. */
static inline int vivid_open(void)
{
	struct v4l2_capability cap;
	char path[32];
	int video;

	if (access("/sys/module/vivid", F_OK) &&
	    system("modprobe vivid n_devs=1 node_types=0x1 2>/dev/null"))
		return -1;
	for (int i = 0; i < 64; i++) {
		snprintf(path, sizeof(path), "/dev/video%d", i);
		video = open(path, O_RDWR | O_CLOEXEC);
		if (video < 0)
			continue;
		if (!ioctl(video, VIDIOC_QUERYCAP, &cap) && !strcmp((char *)cap.driver, "vivid") &&
		    cap.device_caps & V4L2_CAP_VIDEO_CAPTURE)
			return video;
		close(video);
	}
	return -1;
}

/* Makes buffers of MIB bytes of zeroes, which are larger than a frame: 0 or a negative errno.  */
static inline int vivid_buffers(int video, unsigned int count)
{
	struct v4l2_create_buffers create = {
		.count = count, .memory = V4L2_MEMORY_MMAP,
		.format.type = V4L2_BUF_TYPE_VIDEO_CAPTURE,
	};
	struct v4l2_pix_format *pix = &create.format.fmt.pix;

	pix->width = 640;
	pix->height = 360;
	pix->pixelformat = V4L2_PIX_FMT_YUYV;
	if (ioctl(video, VIDIOC_S_FMT, &create.format))
		return -errno;
	if (pix->sizeimage > MIB)
		return -EMSGSIZE;
	pix->sizeimage = MIB;
	if (ioctl(video, VIDIOC_CREATE_BUFS, &create))
		return -errno;
	return create.count == count && !create.index ? 0 : -ENOMEM;
}

/* A DMA-buf of a buffer, or a negative errno. */
static inline int vivid_export(int video, unsigned int index)
{
	struct v4l2_exportbuffer export = {
		.type = V4L2_BUF_TYPE_VIDEO_CAPTURE, .index = index, .flags = O_RDWR | O_CLOEXEC,
	};

	return ioctl(video, VIDIOC_EXPBUF, &export) ? -errno : export.fd;
}

/*
 * Has vivid write a frame into each of its buffers.  Returns the bytes of the frame in buffer 0, or
 * a negative errno.
 */
static inline int vivid_capture(int video, unsigned int count)
{
	int type = V4L2_BUF_TYPE_VIDEO_CAPTURE, bytes = -ENODATA;
	struct v4l2_buffer buffer;

	for (unsigned int i = 0; i < count; i++) {
		buffer = (struct v4l2_buffer) {
			.type = type, .memory = V4L2_MEMORY_MMAP, .index = i,
		};
		if (ioctl(video, VIDIOC_QBUF, &buffer))
			return -errno;
	}
	if (ioctl(video, VIDIOC_STREAMON, &type))
		return -errno;
	for (unsigned int i = 0; i < count; i++) {
		buffer = (struct v4l2_buffer) { .type = type, .memory = V4L2_MEMORY_MMAP };
		if (ioctl(video, VIDIOC_DQBUF, &buffer))
			return -errno;
		if (!buffer.index)
			bytes = buffer.bytesused;
	}
	return ioctl(video, VIDIOC_STREAMOFF, &type) ? -errno : bytes;
}

/* A buffer of the queue, as the camera's node shows it; NULL if that fails. */
static inline unsigned char *vivid_map(int video, unsigned int index)
{
	struct v4l2_buffer buffer = {
		.type = V4L2_BUF_TYPE_VIDEO_CAPTURE, .memory = V4L2_MEMORY_MMAP, .index = index,
	};
	void *p;

	if (ioctl(video, VIDIOC_QUERYBUF, &buffer))
		return NULL;
	p = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED, video, buffer.m.offset);
	return p == MAP_FAILED ? NULL : p;
}

#endif
