// SPDX-License-Identifier: GPL-2.0
/* See stream.h. */
#include <errno.h>
#include <sched.h>
#include <sys/mman.h>

#include "common/util.h"

int stream_open(struct stream *s, int fd, __u32 vm, __u32 device, __u32 entries)
{
	int ret;

	*s = (struct stream) { .fd = fd, .entries = entries };
	ret = gp_stream_create(fd, vm, device, entries, &s->id, &s->timeline);
	if (ret)
		return ret;
	s->ring_size = GPUMEM_RING_SQES + entries * sizeof(struct gpumem_sqe);
	s->ring_size = (s->ring_size + page_size - 1) & ~(page_size - 1);
	s->ring = gp_map(fd, s->id, 0, s->ring_size, PROT_READ | PROT_WRITE);
	if (!s->ring)
		return -errno;
	s->page = gp_map(fd, s->timeline, 0, page_size, PROT_READ);
	if (!s->page)
		return -errno;
	s->sqes = (void *)((char *)s->ring + GPUMEM_RING_SQES);
	return 0;
}

int stream_close(struct stream *s)
{
	int ret = gp_destroy(s->fd, s->id);
	int ret2 = gp_destroy(s->fd, s->timeline);

	munmap(s->ring, s->ring_size);
	munmap((void *)s->page, page_size);
	return ret ? ret : ret2;
}

void stream_put(struct stream *s, const struct gpumem_sqe *sqe)
{
	s->sqes[s->tail % s->entries] = *sqe;
	s->tail++;
}

void stream_publish(struct stream *s)
{
	__atomic_store_n(&s->ring->tail, s->tail, __ATOMIC_RELEASE);
	/* A full barrier, in the form that gcc's thread sanitizer takes. */
	__sync_synchronize();
	if (__atomic_load_n(&s->page->flags, __ATOMIC_RELAXED) & GPUMEM_TIMELINE_NEED_WAKEUP) {
		gp_doorbell(s->fd, s->id);
		s->doorbells++;
	}
}

int stream_push(struct stream *s, const struct gpumem_sqe *sqe)
{
	__u64 end = 0;

	while (s->tail - __atomic_load_n(&s->page->head, __ATOMIC_ACQUIRE) >= s->entries) {
		if (!end)
			end = in_seconds(10);
		else if (mono_ns() > end)
			return -ETIMEDOUT;
		sched_yield();
	}
	stream_put(s, sqe);
	stream_publish(s);
	return 0;
}

int stream_wait(struct stream *s, __u64 value, double seconds)
{
	return gp_timeline_wait(s->fd, s->timeline, value, in_seconds(seconds), NULL);
}

int stream_sync(struct stream *s)
{
	return stream_wait(s, s->tail, 20);
}

int stream_shut(struct stream *s, __u32 *gate)
{
	int ret = gp_timeline_create(s->fd, 0, gate);
	struct gpumem_sqe sqe;

	if (ret)
		return ret;
	sqe = sqe_wait(*gate, 1);
	return stream_push(s, &sqe);
}

int stream_error_of(int fd, __u32 vm, struct gpumem_sqe sqe)
{
	struct gpumem_timeline_wait w;
	struct stream s;
	int ret = stream_open(&s, fd, vm, 0, 16);

	if (ret)
		return ret;
	stream_push(&s, &sqe);
	ret = gp_timeline_wait(fd, s.timeline, 1, in_seconds(10), &w);
	stream_close(&s);
	if (ret == -EIO && w.reached >= 1)
		return w.error;
	return ret;
}

struct gpumem_sqe sqe_nop(void)
{
	return (struct gpumem_sqe) { .op = GPUMEM_OP_NOP };
}

struct gpumem_sqe sqe_copy(__u64 dst, __u64 src, __u64 bytes)
{
	return (struct gpumem_sqe) {
		.op = GPUMEM_OP_COPY, .dst = dst, .src = src, .width = bytes, .height = 1,
	};
}

struct gpumem_sqe sqe_copy2d(__u64 dst, __u64 dst_pitch, __u64 src, __u64 src_pitch, __u64 width,
			     __u64 height)
{
	return (struct gpumem_sqe) {
		.op = GPUMEM_OP_COPY, .dst = dst, .src = src, .width = width, .height = height,
		.dst_pitch = dst_pitch, .src_pitch = src_pitch,
	};
}

struct gpumem_sqe sqe_fill(__u64 dst, __u8 elem, __u64 value, __u64 count)
{
	return (struct gpumem_sqe) {
		.op = GPUMEM_OP_FILL, .elem = elem, .dst = dst, .value = value, .width = count,
		.height = 1,
	};
}

struct gpumem_sqe sqe_fill2d(__u64 dst, __u64 pitch, __u8 elem, __u64 value, __u64 width,
			     __u64 height)
{
	return (struct gpumem_sqe) {
		.op = GPUMEM_OP_FILL, .elem = elem, .dst = dst, .value = value, .width = width,
		.height = height, .dst_pitch = pitch,
	};
}

struct gpumem_sqe sqe_wait(__u32 timeline, __u64 value)
{
	return (struct gpumem_sqe) { .op = GPUMEM_OP_WAIT, .handle = timeline, .value = value };
}

struct gpumem_sqe sqe_signal(__u32 timeline, __u64 value)
{
	return (struct gpumem_sqe) { .op = GPUMEM_OP_SIGNAL, .handle = timeline, .value = value };
}

struct gpumem_sqe sqe_add(__u32 timeline, __u64 value)
{
	return (struct gpumem_sqe){ .op = GPUMEM_OP_ADD, .handle = timeline, .value = value };
}

struct gpumem_sqe sqe_poll(__u64 addr, __u8 elem, __u32 how, __u64 value)
{
	return (struct gpumem_sqe){
		.op = GPUMEM_OP_POLL, .dst = addr, .elem = elem, .handle = how, .value = value,
	};
}

struct gpumem_sqe sqe_timestamp(__u64 dst)
{
	return (struct gpumem_sqe) { .op = GPUMEM_OP_TIMESTAMP, .dst = dst };
}

struct gpumem_sqe sqe_prefetch(__u64 addr, __u64 bytes, __u32 where)
{
	return (struct gpumem_sqe){ .op = GPUMEM_OP_PREFETCH, .handle = where, .dst = addr,
				    .width = bytes };
}
