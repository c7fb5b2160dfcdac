/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The fixture of the tests of streams: a client of device 0 with an address space, a buffer object
 * that is mapped for the device and for the CPU, and a stream.  Include this after
 * kselftest_harness.h.
 */
#ifndef GPUMEM_SELFTESTS_STREAM_FIXTURE_H
#define GPUMEM_SELFTESTS_STREAM_FIXTURE_H

#include <sys/mman.h>

#include "common/client_fixture.h"
#include "common/util.h"

#define ADDR		0x200000000ULL	/* of the buffer object, for the device */
#define BYTES		(2 * MIB)
#define RW		(PROT_READ | PROT_WRITE)

#define STREAM_FIXTURE(name)						\
FIXTURE(name)								\
{									\
	struct leak_state leak;						\
	int fd;								\
	__u32 vm, bo;							\
	unsigned char *p;						\
	struct stream s;						\
};									\
									\
FIXTURE_SETUP(name)							\
{									\
	client_begin(_metadata, &self->leak, &self->fd);		\
	self->p = gp_alloc_map(self->fd, BYTES, &self->bo);		\
	ASSERT_NE(NULL, self->p);					\
	ASSERT_EQ(0, gp_vm_create(self->fd, &self->vm));		\
	ASSERT_EQ(0, gp_vm_map(self->fd, self->vm, self->bo, 0, ADDR, BYTES, 1, 1)); \
	ASSERT_EQ(0, stream_open(&self->s, self->fd, self->vm, 0, 64));	\
}									\
									\
FIXTURE_TEARDOWN(name)							\
{									\
	client_end(_metadata, &self->leak, self->fd, 10);		\
}

#endif
