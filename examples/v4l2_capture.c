// SPDX-License-Identifier: GPL-2.0
/*
 * A camera writes frames into device memory, which it gets as a DMA-buf.
 *
 *   v4l2_capture /dev/videoN		"modprobe vivid" makes a test camera
 *
 * tools/demo does the same with several buffers, events and a second process.
 *
 * cc v4l2_capture.c -o v4l2_capture -lgpumem
 */
#include <cuda.h>
#include <fcntl.h>
#include <gpumem.h>
#include <linux/videodev2.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define FRAMES	3

#define CHECK(good) do {				\
	if (!(good)) {					\
		perror(#good);				\
		exit(1);				\
	}						\
} while (0)

static const enum v4l2_buf_type capture = V4L2_BUF_TYPE_VIDEO_CAPTURE;

int main(int argc, char **argv)
{
	struct v4l2_format format = { .type = capture };
	struct v4l2_requestbuffers request = {
		.type = capture, .memory = V4L2_MEMORY_DMABUF, .count = 2,
	};
	CUdeviceptr memory[2];
	int camera, dmabuf[2];
	unsigned char *frame;
	CUcontext ctx;
	size_t bytes;

	if (argc != 2) {
		fprintf(stderr, "usage: v4l2_capture /dev/videoN\n");
		return 2;
	}
	camera = open(argv[1], O_RDWR);
	CHECK(camera >= 0);
	CHECK(!ioctl(camera, VIDIOC_G_FMT, &format));
	/* DMA-bufs consist of whole pages. */
	bytes = (format.fmt.pix.sizeimage + 4095ul) & ~4095ul;
	frame = malloc(bytes);

	if (cuInit(0)) {
		fprintf(stderr, "%s\n", gpumem_init_error());
		return 1;
	}
	CHECK(!cuDevicePrimaryCtxRetain(&ctx, 0));
	CHECK(!cuCtxSetCurrent(ctx));
	CHECK(!ioctl(camera, VIDIOC_REQBUFS, &request) && request.count == 2);
	for (unsigned int i = 0; i < 2; i++) {
		struct v4l2_buffer buffer = {
			.type = capture, .memory = V4L2_MEMORY_DMABUF, .index = i, .length = bytes,
		};

		CHECK(!cuMemAlloc(&memory[i], bytes));
		CHECK(!cuMemsetD8(memory[i], 0, bytes) && !cuCtxSynchronize());
		CHECK(!cuMemGetHandleForAddressRange(&dmabuf[i], memory[i], bytes,
						     CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
		buffer.m.fd = dmabuf[i];
		CHECK(!ioctl(camera, VIDIOC_QBUF, &buffer));
	}
	CHECK(!ioctl(camera, VIDIOC_STREAMON, &capture));

	for (unsigned int i = 0; i < FRAMES; i++) {
		struct v4l2_buffer buffer = { .type = capture, .memory = V4L2_MEMORY_DMABUF };
		unsigned int used = 0;

		CHECK(!ioctl(camera, VIDIOC_DQBUF, &buffer));
		/* From here to VIDIOC_QBUF the frame is the program's. The engine copies it. */
		CHECK(frame && !cuMemcpyDtoH(frame, memory[buffer.index], buffer.bytesused));
		for (unsigned int j = 0; j < buffer.bytesused; j++)
			used += frame[j] != 0;
		printf("frame %u in buffer %u: %u of %u bytes are not zero\n", buffer.sequence, buffer.index, used,
		       buffer.bytesused);
		CHECK(used);
		buffer.m.fd = dmabuf[buffer.index];
		buffer.length = bytes;
		CHECK(!ioctl(camera, VIDIOC_QBUF, &buffer));
	}

	CHECK(!ioctl(camera, VIDIOC_STREAMOFF, &capture));
	/* The camera keeps the DMA-bufs until it has no buffers. */
	request.count = 0;
	CHECK(!ioctl(camera, VIDIOC_REQBUFS, &request));
	for (unsigned int i = 0; i < 2; i++) {
		close(dmabuf[i]);
		CHECK(!cuMemFree(memory[i]));
	}
	free(frame);
	close(camera);
	return 0;
}
