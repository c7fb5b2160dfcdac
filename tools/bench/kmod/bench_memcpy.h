/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The interface between gpumem-bench and bench_memcpy.ko.  It has no version:
 * both are of one build.
 */
#ifndef BENCH_MEMCPY_H
#define BENCH_MEMCPY_H

#include <linux/ioctl.h>
#include <linux/types.h>

/**
 * struct bench_memcpy - copy pages of the caller's
 * @dst: address, page aligned
 * @src: address, page aligned
 * @bytes: whole pages, at most 1 GiB
 * @begin: CLOCK_MONOTONIC before the copy, out
 * @end: CLOCK_MONOTONIC after the copy, out
 */
struct bench_memcpy {
	__u64 dst, src, bytes;
	__u64 begin, end;
};

#define BENCH_MEMCPY	_IOWR('b', 0, struct bench_memcpy)

#endif
