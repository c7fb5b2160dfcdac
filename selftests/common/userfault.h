/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Memory whose pages are missing until the test provides them (userfaultfd).
 */
#ifndef GPUMEM_SELFTESTS_USERFAULT_H
#define GPUMEM_SELFTESTS_USERFAULT_H

#include <linux/userfaultfd.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A descriptor, or -errno; -ENOSYS: the kernel has no userfaultfd. */
static inline int userfault_open(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);

	return fd < 0 || ioctl(fd, UFFDIO_API, &api) ? -errno : fd;
}

/* Maps @length bytes whose faults @fd reports; MAP_FAILED on errors. */
static inline void *userfault_map(int fd, size_t length)
{
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_MISSING };
	void *p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	range.range.start = (uintptr_t)p;
	range.range.len = length;
	return p != MAP_FAILED && ioctl(fd, UFFDIO_REGISTER, &range) ? MAP_FAILED : p;
}

/* Whether somebody waits for a page within 20 seconds. */
static inline int userfault_waits(int fd)
{
	struct pollfd poll_for = { .fd = fd, .events = POLLIN };

	return poll(&poll_for, 1, 20000) == 1;
}

#endif
