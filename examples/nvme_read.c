// SPDX-License-Identifier: GPL-2.0
/*
 * Read from an NVMe disk straight into device memory: with O_DIRECT the disk writes there by DMA.  The page cache
 * stays empty, and no CPU copies.
 *
 *   nvme_read DISK [MIB]		DISK is a block device such as /dev/nvme0n1, or a file; MIB is 16 by default
 *
 * The program prints the number of bytes, and a checksum that it computes from a copy.  "cksum" prints the same one:
 *
 *   head -c 16M /dev/nvme0n1 | cksum
 *
 * cc nvme_read.c -o nvme_read -lgpumem
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <fcntl.h>
#include <gpumem.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define PIECE	(4 << 20)

#define CHECK(good) do {				\
	if (!(good)) {					\
		perror(#good);				\
		exit(1);				\
	}						\
} while (0)

/* The checksum of cksum(1): a CRC of the bytes, then of their number. */
static uint32_t crc_add(uint32_t crc, unsigned char byte)
{
	crc ^= (uint32_t)byte << 24;
	for (int bit = 0; bit < 8; bit++)
		crc = crc << 1 ^ (crc >> 31 ? 0x04c11db7 : 0);
	return crc;
}

int main(int argc, char **argv)
{
	size_t want = (argc > 2 ? strtoul(argv[2], NULL, 0) : 16) << 20, done = 0;
	unsigned char *host = malloc(want);
	CUdeviceptr memory;
	uint32_t crc = 0;
	CUcontext ctx;
	int fd;

	if (argc < 2 || !want) {
		fprintf(stderr, "usage: nvme_read DISK [MIB]\n");
		return 2;
	}
	fd = open(argv[1], O_RDONLY | O_DIRECT);
	CHECK(fd >= 0);
	if (cuInit(0)) {
		fprintf(stderr, "%s\n", gpumem_init_error());
		return 1;
	}
	CHECK(!cuDevicePrimaryCtxRetain(&ctx, 0));
	CHECK(!cuCtxSetCurrent(ctx));
	CHECK(!cuMemAlloc(&memory, want));

	/* O_DIRECT wants addresses, offsets and lengths in whole blocks. Allocations begin with one. */
	while (done < want) {
		ssize_t n = pread(fd, (void *)(memory + done), want - done < PIECE ? want - done : PIECE, done);

		CHECK(n >= 0);
		if (!n)
			break;
		done += n;
	}

	CHECK(host && (!done || !cuMemcpyDtoH(host, memory, done)));
	for (size_t i = 0; i < done; i++)
		crc = crc_add(crc, host[i]);
	for (size_t n = done; n; n >>= 8)
		crc = crc_add(crc, n & 0xff);
	printf("%u %zu\n", ~crc, done);
	CHECK(!cuMemFree(memory));
	free(host);
	close(fd);
	return 0;
}
