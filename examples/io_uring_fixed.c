// SPDX-License-Identifier: GPL-2.0
/*
 * io_uring with fixed buffers of device memory: from the device into a file, and from the file into other device
 * memory.  The kernel pins the buffers once, so requests neither copy nor look up pages.
 *
 *   io_uring_fixed FILE		makes or overwrites FILE, with O_DIRECT where its file system can
 *
 * cc io_uring_fixed.c -o io_uring_fixed -lgpumem -luring
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <errno.h>
#include <fcntl.h>
#include <gpumem.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES	(4 << 20)

#define CHECK(good) do {				\
	if (!(good)) {					\
		perror(#good);				\
		exit(1);				\
	}						\
} while (0)

/* Submit the request that was prepared, and wait for its bytes. */
static void complete(struct io_uring *ring)
{
	struct io_uring_cqe *cqe;

	CHECK(io_uring_submit_and_wait(ring, 1) == 1);
	CHECK(!io_uring_wait_cqe(ring, &cqe));
	if (cqe->res != BYTES) {
		fprintf(stderr, "a request ended with %d\n", cqe->res);
		exit(1);
	}
	io_uring_cqe_seen(ring, cqe);
}

int main(int argc, char **argv)
{
	unsigned char *host = malloc(BYTES);
	struct iovec buffers[2];
	struct io_uring ring;
	CUdeviceptr from, to;
	CUcontext ctx;
	int fd;

	if (argc != 2) {
		fprintf(stderr, "usage: io_uring_fixed FILE\n");
		return 2;
	}
	fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC | O_DIRECT, 0600);
	if (fd < 0 && errno == EINVAL)
		fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0);

	if (cuInit(0)) {
		fprintf(stderr, "%s\n", gpumem_init_error());
		return 1;
	}
	CHECK(!cuDevicePrimaryCtxRetain(&ctx, 0));
	CHECK(!cuCtxSetCurrent(ctx));
	CHECK(!cuMemAlloc(&from, BYTES));
	CHECK(!cuMemAlloc(&to, BYTES));

	/* A device pointer is an address of this process. */
	CHECK(!io_uring_queue_init(4, &ring, 0));
	buffers[0] = (struct iovec){ (void *)from, BYTES };
	buffers[1] = (struct iovec){ (void *)to, BYTES };
	CHECK(!io_uring_register_buffers(&ring, buffers, 2));

	/* The kernel must not read before the device has written: wait for the engine. */
	CHECK(!cuMemsetD32(from, 0x600df00d, BYTES / 4));
	CHECK(!cuCtxSynchronize());
	io_uring_prep_write_fixed(io_uring_get_sqe(&ring), fd, (void *)from, BYTES, 0, 0);
	complete(&ring);
	io_uring_prep_read_fixed(io_uring_get_sqe(&ring), fd, (void *)to, BYTES, 0, 1);
	complete(&ring);

	CHECK(host && !cuMemcpyDtoH(host, to, BYTES));
	for (int i = 0; i < BYTES; i += 4)
		CHECK(!memcmp(host + i, "\x0d\xf0\x0d\x60", 4));
	printf("%d bytes went from device memory into %s and back\n", BYTES, argv[1]);

	/* Fixed buffers keep the memory: unregister them before it is freed. */
	CHECK(!io_uring_unregister_buffers(&ring));
	io_uring_queue_exit(&ring);
	CHECK(!cuMemFree(from));
	CHECK(!cuMemFree(to));
	close(fd);
	free(host);
	return 0;
}
