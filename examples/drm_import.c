// SPDX-License-Identifier: GPL-2.0
/*
 * Give device memory to a DRM driver: it imports the DMA-buf as a buffer of its own, without a copy.
 *
 *   drm_import /dev/dri/cardN		"modprobe vgem" makes a card without hardware
 *
 * A program with a display would now make a framebuffer of the handle (drmModeAddFB2) and show it.  This one asks the
 * DRM driver for a descriptor of its buffer, and compares what that has with what the device wrote.
 *
 * cc drm_import.c -o drm_import -I/usr/include/libdrm -lgpumem -ldrm
 */
#include <cuda.h>
#include <fcntl.h>
#include <gpumem.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xf86drm.h>

#define WIDTH	640
#define HEIGHT	480
#define BYTES	(WIDTH * HEIGHT * 4)
#define COLOUR	0x00c0ffee

#define CHECK(good) do {				\
	if (!(good)) {					\
		perror(#good);				\
		exit(1);				\
	}						\
} while (0)

int main(int argc, char **argv)
{
	struct drm_gem_close end = { };
	CUdeviceptr picture;
	unsigned int *seen;
	CUcontext ctx;
	uint32_t handle;
	int card, fd, again;

	if (argc != 2) {
		fprintf(stderr, "usage: drm_import /dev/dri/cardN\n");
		return 2;
	}
	card = open(argv[1], O_RDWR | O_CLOEXEC);
	CHECK(card >= 0);
	if (cuInit(0)) {
		fprintf(stderr, "%s\n", gpumem_init_error());
		return 1;
	}
	CHECK(!cuDevicePrimaryCtxRetain(&ctx, 0));
	CHECK(!cuCtxSetCurrent(ctx));
	CHECK(!cuMemAlloc(&picture, BYTES));
	CHECK(!cuMemGetHandleForAddressRange(&fd, picture, BYTES, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
	CHECK(!drmPrimeFDToHandle(card, fd, &handle));
	/* The DRM driver holds the DMA-buf. */
	close(fd);

	/* The engine draws. A driver that looks at the fences of DMA-bufs waits for it; a CPU has to wait itself. */
	CHECK(!cuMemsetD32(picture, COLOUR, WIDTH * HEIGHT));
	CHECK(!cuCtxSynchronize());

	CHECK(!drmPrimeHandleToFD(card, handle, DRM_CLOEXEC, &again));
	seen = mmap(NULL, BYTES, PROT_READ, MAP_SHARED, again, 0);
	CHECK(seen != MAP_FAILED);
	for (int i = 0; i < WIDTH * HEIGHT; i++)
		CHECK(seen[i] == COLOUR);
	printf("the buffer of %s has the %d pixels that the device wrote\n", argv[1], WIDTH * HEIGHT);

	munmap(seen, BYTES);
	close(again);
	end.handle = handle;
	CHECK(!drmIoctl(card, DRM_IOCTL_GEM_CLOSE, &end));
	CHECK(!cuMemFree(picture));
	close(card);
	return 0;
}
