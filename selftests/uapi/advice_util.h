/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Advice about managed memory, and a second device.
 */
#ifndef ADVICE_UTIL_H
#define ADVICE_UTIL_H

#include "managed_util.h"

/* A second device's stream of the client. */
struct second {
	int fd;
	__u32 device;
	struct stream s;
};

static inline int second_open(int fd, __u32 vm, struct second *second)
{
	int ret;

	second->fd = gp_open(1);
	if (second->fd < 0)
		return second->fd;
	ret = gp_attach(fd, second->fd, &second->device);
	return ret ? ret : stream_open(&second->s, fd, vm, second->device, 64);
}

/* Managed memory that both devices map: its id, or 0. */
static inline __u32 make_for_both(int fd, __u32 vm, __u64 length, __u64 addr)
{
	__u32 id;

	return gp_managed_alloc(fd, length, &id) || gp_vm_map(fd, vm, id, 0, addr, length, 3, 3) ?
	       0 : id;
}

static inline long long blocks_on(unsigned int device)
{
	return dev_attr(device, "managed") / (long long)BLOCK;
}

#define ADVISE(id, offset, length, advice, device) \
	gp_bo_advise(self->fd, (id), (offset), (length), GPUMEM_ADVICE_##advice, (device))

#endif
