/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Swap space in memory, by the driver zram.
 */
#ifndef GPUMEM_SELFTESTS_SWAP_H
#define GPUMEM_SELFTESTS_SWAP_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/swap.h>
#include <unistd.h>

#include "common/file.h"

#define SWAP_DEVICE	"/dev/zram0"
#define SWAP_SYSFS	"/sys/block/zram0/"

/* Writes the header that mkswap(8) writes, for @pages pages of 4 KiB. */
static inline int swap_format(uint32_t pages)
{
	unsigned char header[4096] = {};
	const uint32_t version = 1, last = pages - 1;
	int fd = open(SWAP_DEVICE, O_WRONLY | O_CLOEXEC), ret = 0;

	if (fd < 0)
		return -errno;
	memcpy(header + 1024, &version, sizeof(version));
	memcpy(header + 1028, &last, sizeof(last));
	memcpy(header + sizeof(header) - 10, "SWAPSPACE2", 10);
	if (pwrite(fd, header, sizeof(header), 0) != sizeof(header) || fsync(fd))
		ret = -EIO;
	close(fd);
	return ret;
}

/* Whether this process has begun to swap. */
static bool swap_on;

/* Whether the machine has swap space in use. */
static inline bool swap_is_used(void)
{
	char text[256];

	/* The first line is a heading. */
	return read_text("/proc/swaps", text, sizeof(text)) && strchr(text, '\n') && strchr(text, '\n')[1];
}

/*
 * Begins to swap to @mib MiB; 0, -ENODEV if the kernel has no zram or the machine has swap space of its own, or a
 * negative errno.
 */
static inline int swap_begin(unsigned int mib)
{
	char text[32];
	int ret;

	if (swap_is_used())
		return -ENODEV;

	if (access(SWAP_DEVICE, F_OK) && system("modprobe zram 2>/dev/null"))
		return -ENODEV;
	for (int i = 0; i < 100 && access(SWAP_DEVICE, F_OK); i++)
		usleep(20000);
	snprintf(text, sizeof(text), "%uM", mib);
	ret = write_file(SWAP_SYSFS "disksize", text);
	if (ret)
		return ret;
	ret = swap_format(mib << 8);
	if (!ret && swapon(SWAP_DEVICE, 0))
		ret = -errno;
	if (ret)
		write_file(SWAP_SYSFS "reset", "1");
	swap_on = !ret;
	return ret;
}

/* Undoes swap_begin(), if that succeeded. */
static inline int swap_end(void)
{
	if (!swap_on)
		return 0;
	if (swapoff(SWAP_DEVICE))
		return -errno;
	swap_on = false;
	return write_file(SWAP_SYSFS "reset", "1");
}

#endif
