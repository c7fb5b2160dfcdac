// SPDX-License-Identifier: GPL-2.0
/*
 * Import a DMA-buf of another driver as device memory.  The driver here is udmabuf, which makes DMA-bufs of memory
 * that the program has in a memfd; the one of a camera or of a graphics card works the same way.
 *
 *   udmabuf_import
 *
 * cc udmabuf_import.c -o udmabuf_import -lgpumem
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <fcntl.h>
#include <gpumem.h>
#include <linux/dma-buf.h>
#include <linux/udmabuf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES	(1 << 20)

#define CHECK(good) do {				\
	if (!(good)) {					\
		perror(#good);				\
		exit(1);				\
	}						\
} while (0)

/* A CPU that accesses a DMA-buf says so, before and after. */
static void cpu_access(int dmabuf, unsigned int when)
{
	struct dma_buf_sync sync = { .flags = when | DMA_BUF_SYNC_RW };

	CHECK(!ioctl(dmabuf, DMA_BUF_IOCTL_SYNC, &sync));
}

int main(void)
{
	struct udmabuf_create create = { .flags = UDMABUF_FLAGS_CLOEXEC, .size = BYTES };
	int device = open("/dev/udmabuf", O_RDWR), memfd, dmabuf;
	CUdeviceptr imported, copy;
	unsigned char *memory;
	CUcontext ctx;
	size_t bytes;
	char text[32];

	/* The other driver's side. udmabuf wants a memfd that cannot shrink. */
	CHECK(device >= 0);
	memfd = memfd_create("example", MFD_ALLOW_SEALING);
	CHECK(memfd >= 0 && !ftruncate(memfd, BYTES));
	CHECK(!fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK));
	create.memfd = memfd;
	memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	CHECK(memory != MAP_FAILED);
	dmabuf = ioctl(device, UDMABUF_CREATE, &create);
	CHECK(dmabuf >= 0);
	cpu_access(dmabuf, DMA_BUF_SYNC_START);
	strcpy((char *)memory, "bytes of another driver");
	cpu_access(dmabuf, DMA_BUF_SYNC_END);

	if (cuInit(0)) {
		fprintf(stderr, "%s\n", gpumem_init_error());
		return 1;
	}
	CHECK(!cuDevicePrimaryCtxRetain(&ctx, 0));
	CHECK(!cuCtxSetCurrent(ctx));
	CHECK(!gpumem_import_dmabuf(&imported, &bytes, dmabuf, 0) && bytes == BYTES);

	/* The engine copies from it and to it like any device memory. */
	CHECK(!cuMemAlloc(&copy, BYTES));
	CHECK(!cuMemcpyDtoD(copy, imported, BYTES));
	CHECK(!cuMemcpyDtoH(text, copy, sizeof(text)));
	CHECK(!cuMemcpyHtoD(imported, "bytes of the device", 20));
	CHECK(!cuCtxSynchronize());
	cpu_access(dmabuf, DMA_BUF_SYNC_START);
	printf("the device read \"%s\", the other driver reads \"%s\"\n", text, (char *)memory);
	CHECK(!strcmp(text, "bytes of another driver") && !strcmp((char *)memory, "bytes of the device"));

	cpu_access(dmabuf, DMA_BUF_SYNC_END);

	/* The import held the DMA-buf: the program could have closed it before. */
	CHECK(!gpumem_release_dmabuf(imported));
	CHECK(!cuMemFree(copy));
	close(dmabuf);
	munmap(memory, BYTES);
	close(memfd);
	close(device);
	return 0;
}
