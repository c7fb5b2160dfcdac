// SPDX-License-Identifier: MIT
/*
 * Verify the frames that the camera writes into device memory.  With a still picture all frames are
 * the same: a frame captured through DMA-bufs must equal a frame that was captured into the
 * camera's own memory and copied to the device.
 */
#include "demo.h"

#include <linux/videodev2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define POISON 0x5a

/* Capture a frame into the camera's own memory and copy it.  The camera must be idle. */
void still_frame(struct camera *cam, void *copy, size_t bytes)
{
	void *maps[SLOTS];
	size_t lengths[SLOTS];
	struct frame f;

	camera_buffers(cam, V4L2_MEMORY_MMAP, SLOTS);
	for (unsigned int i = 0; i < SLOTS; i++) {
		maps[i] = camera_map(cam, i, &lengths[i]);
		camera_queue(cam, i, -1, 0);
	}
	camera_start(cam);
	f = camera_dequeue(cam);
	memcpy(copy, maps[f.index], bytes);
	camera_stop(cam);
	for (unsigned int i = 0; i < SLOTS; i++)
		munmap(maps[i], lengths[i]);
	camera_buffers(cam, 0, 0);
}

void verify(struct camera *cam)
{
	size_t frame = (size_t)cam->stride * cam->height, differ = 0;
	uint8_t *want = malloc(frame), *have = malloc(frame);
	struct slot slots[SLOTS];
	unsigned int seen = 0;
	CUdeviceptr memory;

	if (!want || !have)
		die("no memory for two frames: free some");
	camera_still(cam);
	slots_make(slots, cam);
	for (unsigned int i = 0; i < SLOTS; i++)
		CU(cuMemsetD8(slots[i].memory, POISON, slots[i].bytes));
	CU(cuCtxSynchronize());
	camera_buffers(cam, V4L2_MEMORY_DMABUF, SLOTS);
	for (unsigned int i = 0; i < SLOTS; i++)
		camera_queue(cam, i, slots[i].dmabuf, slots[i].bytes);
	camera_start(cam);
	for (unsigned int i = 0; i < SLOTS; i++) {
		struct frame f = camera_dequeue(cam);

		if (f.bytes != frame || seen & 1u << f.index)
			die("FAILED: the camera delivered an incomplete frame or one twice");
		seen |= 1u << f.index;
	}
	camera_stop(cam);
	camera_buffers(cam, 0, 0);

	still_frame(cam, want, frame);
	CU(cuMemAlloc(&memory, frame));
	CU(cuMemcpyHtoD(memory, want, frame));
	CU(cuMemcpyDtoH(want, memory, frame));
	for (unsigned int i = 0; i < SLOTS; i++) {
		CU(cuMemcpyDtoH(have, slots[i].memory, frame));
		for (size_t k = 0; k < frame; k++)
			differ += have[k] != want[k];
	}
	CU(cuMemFree(memory));
	slots_free(slots);
	free(have);
	if (differ)
		die("FAILED: %zu bytes of %u frames differ from one through system memory",
		    differ, SLOTS);
	free(want);
	printf("compared:  %u frames of %zu bytes equal one that came through system memory\n",
	       SLOTS, frame);
}
