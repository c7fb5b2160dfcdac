// SPDX-License-Identifier: MIT
/* The demo's V4L2 functions: find a camera, set it up, queue and dequeue buffers; see demo.h. */
#include "demo.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/videodev2.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define WAIT_MS 20000

static const uint32_t capture_type = V4L2_BUF_TYPE_VIDEO_CAPTURE;

static int xioctl(int fd, unsigned long request, void *arg)
{
	int rc;

	do
		rc = ioctl(fd, request, arg);
	while (rc && errno == EINTR);
	return rc;
}

/*
 * Open a device that captures frames, and store its descriptor and names in @cam; false for any
 * other device.
 */
static bool open_capture(struct camera *cam, const char *path)
{
	struct v4l2_capability cap;
	uint32_t need = V4L2_CAP_VIDEO_CAPTURE | V4L2_CAP_STREAMING;

	cam->fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	if (cam->fd < 0)
		return false;
	if (xioctl(cam->fd, VIDIOC_QUERYCAP, &cap) || (cap.device_caps & need) != need) {
		close(cam->fd);
		errno = ENOTTY;
		return false;
	}
	snprintf(cam->path, sizeof(cam->path), "%s", path);
	snprintf(cam->driver, sizeof(cam->driver), "%s", (char *)cap.driver);
	snprintf(cam->card, sizeof(cam->card), "%s", (char *)cap.card);
	return true;
}

static void find_test_camera(struct camera *cam)
{
	int error = 0;

	for (int i = 0; i < 64; i++) {
		char path[32];

		snprintf(path, sizeof(path), "/dev/video%d", i);
		if (open_capture(cam, path)) {
			if (camera_is_test(cam))
				return;
			close(cam->fd);
		} else if (errno == EACCES) {
			error = EACCES;
		}
	}
	if (error)
		die("no permission for /dev/video*: join group video or become root");
	die("no camera: \"modprobe vivid\" makes one, DEMO_VIDEO=/dev/videoN names a real one");
}

static void set_format(struct camera *cam, uint32_t width, uint32_t height)
{
	for (const struct pixel_format *want = pixel_formats; want->fourcc; want++) {
		struct v4l2_format f = { .type = capture_type };
		struct v4l2_pix_format *pix = &f.fmt.pix;

		pix->width = width;
		pix->height = height;
		pix->pixelformat = want->fourcc;
		pix->field = V4L2_FIELD_NONE;
		if (xioctl(cam->fd, VIDIOC_S_FMT, &f)) {
			if (errno == EBUSY)
				die("%s is in use: close the other program", cam->path);
			continue;
		}
		if (pix->pixelformat != want->fourcc)
			continue;
		if (pix->width != width || pix->height != height)
			die("%s (%s) offers %ux%u, not %ux%u: use --size", cam->path, cam->driver,
			    pix->width, pix->height, width, height);
		cam->format = want;
		cam->width = width;
		cam->height = height;
		cam->stride = pix->bytesperline;
		cam->bytes = pix->sizeimage;
		return;
	}
	die("%s (%s) offers neither 32-bit RGB nor YUYV: name another camera in DEMO_VIDEO",
	    cam->path, cam->driver);
}

void camera_open(struct camera *cam, const char *path, uint32_t width, uint32_t height)
{
	struct v4l2_streamparm rate = {
		.type = capture_type,
		.parm.capture.timeperframe = { 1, 30 },
	};

	if (!path)
		find_test_camera(cam);
	else if (!open_capture(cam, path))
		die("%s: %s: name a camera in DEMO_VIDEO (v4l2-ctl --list-devices shows them)",
		    path, errno == ENOTTY ? "not a V4L2 capture device" : strerror(errno));
	set_format(cam, width, height);
	/* The result is ignored: a camera with a fixed rate keeps that rate. */
	xioctl(cam->fd, VIDIOC_S_PARM, &rate);
}

bool camera_is_test(const struct camera *cam)
{
	return !strcmp(cam->driver, "vivid");
}

/* Choose @item of the menu @control, both by the names that the driver shows. */
void camera_menu(struct camera *cam, const char *control, const char *item)
{
	struct v4l2_queryctrl q = { .id = V4L2_CTRL_FLAG_NEXT_CTRL };

	for (; !xioctl(cam->fd, VIDIOC_QUERYCTRL, &q); q.id |= V4L2_CTRL_FLAG_NEXT_CTRL) {
		if (q.type != V4L2_CTRL_TYPE_MENU || strcmp((char *)q.name, control))
			continue;
		for (int i = q.minimum; i <= q.maximum; i++) {
			struct v4l2_querymenu m = { .id = q.id, .index = i };
			struct v4l2_control c = { .id = q.id, .value = i };

			if (xioctl(cam->fd, VIDIOC_QUERYMENU, &m) || strcmp((char *)m.name, item))
				continue;
			if (xioctl(cam->fd, VIDIOC_S_CTRL, &c))
				die("%s: %s = %s: %s", cam->path, control, item, strerror(errno));
			return;
		}
	}
	die("%s (%s) has no \"%s\" = \"%s\": this kernel's test camera is not known", cam->path,
	    cam->driver, control, item);
}

/* The test camera's picture: one that changes from frame to frame, with the frame's number. */
void camera_moving(struct camera *cam)
{
	camera_menu(cam, "Test Pattern", "100% Color Squares");
	camera_menu(cam, "OSD Text Mode", "Counters Only");
	camera_menu(cam, "Horizontal Movement", "Move Left Fast");
	camera_menu(cam, "Vertical Movement", "Move Up");
}

/* One that is the same in all frames. */
void camera_still(struct camera *cam)
{
	camera_menu(cam, "Test Pattern", "75% Colorbar");
	camera_menu(cam, "OSD Text Mode", "None");
	camera_menu(cam, "Horizontal Movement", "No Movement");
	camera_menu(cam, "Vertical Movement", "No Movement");
}

/* Give the buffers in use back to the driver, and request @count new ones, unless @count is 0. */
void camera_buffers(struct camera *cam, uint32_t memory, uint32_t count)
{
	struct v4l2_requestbuffers rb = { .type = capture_type };

	if (cam->buffers) {
		rb.memory = cam->memory;
		if (xioctl(cam->fd, VIDIOC_REQBUFS, &rb))
			die("%s: giving buffers back: %s", cam->path, strerror(errno));
		cam->buffers = 0;
	}
	if (!count)
		return;
	rb.count = count;
	rb.memory = memory;
	if (xioctl(cam->fd, VIDIOC_REQBUFS, &rb)) {
		if (errno == EBUSY)
			die("%s is in use: close the other program", cam->path);
		if (memory == V4L2_MEMORY_DMABUF && errno == EINVAL)
			die("%s (%s) does not take DMA-bufs: name another camera in DEMO_VIDEO",
			    cam->path, cam->driver);
		die("%s: buffers: %s", cam->path, strerror(errno));
	}
	if (rb.count != count)
		die("%s wants %u buffers, not %u: name another camera in DEMO_VIDEO", cam->path,
		    rb.count, count);
	cam->memory = memory;
	cam->buffers = count;
}

void *camera_map(struct camera *cam, uint32_t index, size_t *length)
{
	struct v4l2_buffer b = { .type = capture_type, .memory = V4L2_MEMORY_MMAP, .index = index };
	void *p;

	if (xioctl(cam->fd, VIDIOC_QUERYBUF, &b))
		die("%s: buffer %u: %s", cam->path, index, strerror(errno));
	p = mmap(NULL, b.length, PROT_READ, MAP_SHARED, cam->fd, b.m.offset);
	if (p == MAP_FAILED)
		die("%s: mapping buffer %u: %s", cam->path, index, strerror(errno));
	*length = b.length;
	return p;
}

/* Queue a buffer.  @dmabuf and @length are used for V4L2_MEMORY_DMABUF only. */
void camera_queue(struct camera *cam, uint32_t index, int dmabuf, size_t length)
{
	struct v4l2_buffer b = { .type = capture_type, .memory = cam->memory, .index = index };

	if (cam->memory == V4L2_MEMORY_DMABUF) {
		b.m.fd = dmabuf;
		b.length = length;
	}
	if (xioctl(cam->fd, VIDIOC_QBUF, &b))
		die("%s (%s) refuses frame buffer %u: %s", cam->path, cam->driver, index,
		    strerror(errno));
}

void camera_start(struct camera *cam)
{
	uint32_t type = capture_type;

	if (xioctl(cam->fd, VIDIOC_STREAMON, &type))
		die("%s: start: %s", cam->path, strerror(errno));
}

void camera_stop(struct camera *cam)
{
	uint32_t type = capture_type;

	if (xioctl(cam->fd, VIDIOC_STREAMOFF, &type))
		die("%s: stop: %s", cam->path, strerror(errno));
}

/* Wait for the next good frame.  Buffers of damaged frames are queued again at once. */
struct frame camera_dequeue(struct camera *cam)
{
	for (;;) {
		struct v4l2_buffer b = { .type = capture_type, .memory = cam->memory };
		struct pollfd p = { .fd = cam->fd, .events = POLLIN };

		if (poll(&p, 1, WAIT_MS) == 0)
			die("%s delivers no frames: is it connected?", cam->path);
		if (xioctl(cam->fd, VIDIOC_DQBUF, &b)) {
			if (errno == EAGAIN)
				continue;
			die("%s: frame: %s", cam->path, strerror(errno));
		}
		if (b.memory != cam->memory || b.index >= cam->buffers)
			die("%s: the driver returns a buffer that it was not given", cam->path);
		if (!(b.flags & V4L2_BUF_FLAG_ERROR))
			return (struct frame){ b.index, b.bytesused, b.sequence };
		if (xioctl(cam->fd, VIDIOC_QBUF, &b))
			die("%s: damaged frame: %s", cam->path, strerror(errno));
	}
}
