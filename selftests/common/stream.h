/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Streams of the kernel interface: a ring that is mapped, and the entries for it.
 */
#ifndef GPUMEM_SELFTESTS_STREAM_H
#define GPUMEM_SELFTESTS_STREAM_H

#include <stddef.h>

#include <linux/gpumem.h>

#include "common/calls.h"

struct stream {
	int fd;
	__u32 id;
	__u32 timeline;
	__u32 entries;
	size_t ring_size;
	struct gpumem_ring *ring;
	struct gpumem_sqe *sqes;
	const struct gpumem_timeline_page *page;
	__u64 tail;
	__u64 doorbells;
};

int stream_open(struct stream *s, int fd, __u32 vm, __u32 device, __u32 entries);
/* Unmaps and destroys; returns the first error. */
int stream_close(struct stream *s);
/* Waits up to ten seconds for a free slot; 0 or -ETIMEDOUT. */
int stream_push(struct stream *s, const struct gpumem_sqe *sqe);
/*
 * Fills the next slot and does not publish it. stream_publish() moves the tail, and rings the
 * doorbell if the stream needs it.
 */
void stream_put(struct stream *s, const struct gpumem_sqe *sqe);
void stream_publish(struct stream *s);
/* Makes a timeline object and queues a wait for its value 1; 0 or a negative errno.  */
int stream_shut(struct stream *s, __u32 *gate);
/* Waits for @value; 0 or a negative errno. */
int stream_wait(struct stream *s, __u64 value, double seconds);
int stream_sync(struct stream *s);
/*
 * Executes @sqe on a new stream of device 0: the error in its timeline page, 0 if the entry
 * succeeds.
 */
int stream_error_of(int fd, __u32 vm, struct gpumem_sqe sqe);

struct gpumem_sqe sqe_nop(void);
struct gpumem_sqe sqe_copy(__u64 dst, __u64 src, __u64 bytes);
struct gpumem_sqe sqe_copy2d(__u64 dst, __u64 dst_pitch, __u64 src, __u64 src_pitch, __u64 width,
			     __u64 height);
struct gpumem_sqe sqe_fill(__u64 dst, __u8 elem, __u64 value, __u64 count);
struct gpumem_sqe sqe_fill2d(__u64 dst, __u64 pitch, __u8 elem, __u64 value, __u64 width,
			     __u64 height);
struct gpumem_sqe sqe_wait(__u32 timeline, __u64 value);
struct gpumem_sqe sqe_signal(__u32 timeline, __u64 value);
struct gpumem_sqe sqe_add(__u32 timeline, __u64 value);
struct gpumem_sqe sqe_poll(__u64 addr, __u8 elem, __u32 how, __u64 value);
struct gpumem_sqe sqe_timestamp(__u64 dst);
struct gpumem_sqe sqe_prefetch(__u64 addr, __u64 bytes, __u32 where);

#endif
